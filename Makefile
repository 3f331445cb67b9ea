# The only needs are Python >= 3.11, make and git; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

# -qq hides progress and warnings of pip, never its errors.
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

# Real data sets, for the tests that use them; without the folder those tests are skipped.
ifneq ($(wildcard ../shared/data/.),)
CONDCS_DATA ?= $(abspath ../shared/data)
export CONDCS_DATA
endif

.DELETE_ON_ERROR:
.PHONY: help demo test check format bench docs clean

help:
	@echo "make demo    install and run the main job on built-in data"
	@echo "make test    install with everything the tests need and run them all (ARGS='-k name' to choose)"
	@echo "make check   formatting, lint, types and import layers"
	@echo "make format  rewrite the sources in the house format"
	@echo "make bench   speed and memory against the dense way and the floor"
	@echo "make docs    build the documentation into site/"
	@echo "make clean   remove .venv and everything generated"

demo: $(VENV)/.installed-cli
	$(BIN)/condcs demo $(ARGS)

# pytest -n auto starts one process per core. Each of them must keep its BLAS and OpenMP to one thread: cores^2 threads
# on as many cores are several times slower and make timings meaningless.
test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: export MKL_NUM_THREADS = 1
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist=worksteal $(ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks $(ARGS)

# Not --quiet: it hides the warnings that --strict counts.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.installed-dev
	$(BIN)/mkdocs build --strict
	@echo "Open site/index.html"

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps live in .venv, so they vanish with it. Every install is editable: demo and test share .venv, and a plain
# install from one of them would leave the other running an old copy of the sources.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("condcs needs Python 3.11 or newer, but $(PYTHON) is %d.%d: name another one, as in make PYTHON=python3.11" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed-cli: pyproject.toml constraints.txt | $(VENV)/.created
	@echo "Installing condcs[cli] into $(VENV) (about a minute the first time)"
	@$(PIP_INSTALL) -e '.[cli]'
	@touch $@

# The extra `dev` includes `cli`, hence both stamps.
$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/.created
	@echo "Installing condcs[dev] into $(VENV) (a few minutes the first time)"
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $(VENV)/.installed-cli $@
