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
.PHONY: help demo test test-fast test-portable check format bench hops docs wheel lock clean

help:
	@echo "make demo    install and run the main job on built-in data"
	@echo "make test    install with everything the tests need and run them all (ARGS='-k name' to choose)"
	@echo "make test-fast   all tests but the slow ones, in under three minutes on two cores"
	@echo "make test-portable  doctests, pages and golden values once more, without AVX-512"
	@echo "make check   formatting, lint, types and import layers"
	@echo "make format  rewrite the sources in the house format"
	@echo "make bench   every job beside what one would take instead, on one page; what got worse is named"
	@echo "make hops    files and calls between a public function and its answer"
	@echo "make docs    build the documentation into site/"
	@echo "make wheel   build the sdists and the wheels, and try the wheels alone, extra by extra"
	@echo "make lock    choose the versions that the tests run with anew, into requirements-dev.lock"
	@echo "make clean   remove .venv and everything generated"

demo: $(VENV)/.installed-cli
	$(BIN)/condcs demo $(ARGS)

# pytest -n auto starts one process per core. Each of them must keep its BLAS and OpenMP to one thread: cores^2 threads
# on as many cores are several times slower and make timings meaningless.
test test-fast test-portable: export OMP_NUM_THREADS ?= 1
test test-fast test-portable: export OPENBLAS_NUM_THREADS ?= 1
test test-fast test-portable: export MKL_NUM_THREADS ?= 1
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist=worksteal $(ARGS)

# What to run while writing; `make test` has the last word.
test-fast: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist=worksteal -m "not slow" $(ARGS)

# Doctests, pages and golden values as on a processor without AVX-512: numpy, OpenBLAS and torch then choose other
# instructions, whose results differ in the last digit. JAX does not, so that its golden values are left out.
test-portable: export NPY_DISABLE_CPU_FEATURES = AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR
test-portable: export OPENBLAS_CORETYPE = Haswell
test-portable: export ATEN_CPU_CAPABILITY = avx2
test-portable: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist=worksteal -k "not (golden and jax)" \
		src/condcs reproduction/src tests/docs/test_code_blocks.py tests/test_golden.py $(ARGS)

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

hops: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks hops

# The sdists, the wheels made from them, and what every extra promises, in an environment that has the wheels alone.
wheel: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build -o dist . > /dev/null
	$(BIN)/python -m build -o dist reproduction > /dev/null
	$(BIN)/python .ci/smoke.py dist/condcs-*.whl dist/condcs_reproduction-*.whl

# Not --quiet: it hides the warnings that --strict counts.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.installed-dev
	$(BIN)/mkdocs build --strict
	@echo "Open site/index.html"

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps live in .venv, so they vanish with it. Every install is editable: demo and test share .venv, and a plain
# install from one of them would leave the other running an old copy of the sources. The experiments of the paper come
# without torch and the like: one that needs a package which is absent says so.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("condcs needs Python 3.11 or newer, but $(PYTHON) is %d.%d: name another one, as in make PYTHON=python3.11" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed-cli: pyproject.toml reproduction/pyproject.toml constraints.txt | $(VENV)/.created
	@echo "Installing condcs[cli] into $(VENV) (about a minute the first time)"
	@$(PIP_INSTALL) -e '.[cli]'
	@$(PIP_INSTALL) --no-deps -e reproduction
	@touch $@

# The tests run with the versions of requirements-dev.lock, whose files are checked by their hashes; torch is not among
# them, because it comes in many builds (constraints.txt). uv takes a tenth of pip's processor time for them, but does not
# read pip's settings: where it fails, as behind a mirror, pip follows. Modules are compiled at once, as pip does: a module
# that is compiled when first imported, with a warning, would fail in tests that make errors of warnings. The extra `dev`
# includes `cli`, hence both stamps.
$(VENV)/.installed-dev: pyproject.toml reproduction/pyproject.toml constraints.txt requirements-dev.lock | $(VENV)/.created
	@echo "Installing condcs[dev] into $(VENV) (a few minutes the first time)"
	@$(PIP_INSTALL) torch uv
	@$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python --no-deps --require-hashes -r requirements-dev.lock || \
		$(PIP_INSTALL) --no-deps --require-hashes -r requirements-dev.lock
	@$(PIP_INSTALL) --no-deps -e . -e reproduction
	@touch $(VENV)/.installed-cli $@

# For every platform and Python version at once. CUDA belongs to the build of torch that is left out.
CUDA := $(foreach name,cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc \
	nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse \
	nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx triton,--no-emit-package $(name))
lock: | $(VENV)/.created
	$(BIN)/python -m pip install -qq uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11.5 --generate-hashes --no-annotate --upgrade \
		-c constraints.txt --no-emit-package torch $(CUDA) --custom-compile-command "make lock" -o requirements-dev.lock -q
