"""What `import condcs` loads: numpy and scipy, and nothing that is slow or optional."""

import ast
import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import condcs

LATER = ("torch", "jax", "numba", "pandas", "pyarrow", "matplotlib", "sklearn", "joblib", "typer", "rich")
"""Partners that are loaded when they are first used."""


@lru_cache
def modules_after(code: str) -> frozenset[str]:
    """Run code in a new interpreter and return the names of all modules it has then."""
    report = "\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return frozenset(json.loads(done.stdout.splitlines()[-1]))


def test_import_loads_no_partner():
    """Neither the array libraries nor anything that plots, compiles or reads tables."""
    loaded = modules_after("import condcs")
    assert {"condcs", "numpy", "scipy"} <= loaded
    assert not loaded & set(LATER)


def test_import_loads_few_modules_of_its_own():
    """Layers above the tests are loaded when they are asked for."""
    own = {name for name in modules_after("import condcs") if name.partition(".")[0] == "condcs"}
    assert {"condcs._core.checks", "condcs._kernels.row_sums", "condcs._measures.conditional"} <= own
    assert not own & {"condcs.cli", "condcs.datasets", "condcs._kernels.compiled"}
    assert {name.split(".")[1] for name in own if "." in name} == {
        "_core",
        "_kernels",
        "_measures",
        "_inference",
        "_parallel",
        "_regression",
    }


def test_compare_is_imported_when_it_is_asked_for():
    """And then brings neither the command line nor what reads tables and draws."""
    loaded = modules_after("import condcs; condcs.compare")
    assert "condcs.comparison._comparing" in loaded - modules_after("import condcs")
    assert not loaded & {"pandas", "pyarrow", "matplotlib", "typer", "rich", "condcs.cli", "condcs.report"}


FIRST_CALLS = """
import numpy as np, condcs
x = np.linspace(0, 1, 200).reshape(100, 2)
y = np.sin(9 * x).sum(axis=1)
condcs.conditional_cs(x[:50], y[:50], x[50:], y[50:])
condcs.conditional_test(x[::2], y[::2], x[1::2], y[1::2], rng=0, n_resamples=99)
tables = [{"a": x[i::2, 0], "b": x[i::2, 1] ** 2, "y": y[i::2]} for i in (0, 1)]
condcs.compare(*tables, y="y", rng=0)
"""


def test_first_calls_on_few_rows_wait_for_no_compiler():
    """Loading numba takes more than half a second, compiling seconds: only many rows are worth that."""
    assert "numba" not in modules_after(FIRST_CALLS)


def test_types_of_the_names_are_not_those_of_a_lazy_import():
    """What a type checker sees without running anything is what there is, so that it knows types and misspellings."""
    tree = ast.parse(Path(condcs.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.asname or alias.name
        for statement in ast.walk(tree)
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("condcs")
        for alias in statement.names
    }
    assert seen == {name for name in dir(condcs) if not name.startswith("_")}


def test_numpy_arrays_bring_in_no_array_library():
    """A divergence of numpy arrays needs neither torch nor JAX, although both are installed."""
    code = "import numpy as np, condcs; y = np.arange(9.0); condcs.conditional_cs(y, y, y + 1, -y)"
    assert not modules_after(code) & {"torch", "jax", "pandas", "matplotlib"}


def test_import_time_is_reported(record_property):
    """Time of `import condcs` beyond what it stands on, and as a share of that: reported, never a reason to fail.

    Three interpreters time both imports, one after the other; the report holds the medians.
    """
    code = (
        "import time; a = time.perf_counter(); import numpy, scipy.linalg, scipy.spatial.distance\n"
        "b = time.perf_counter(); import condcs; c = time.perf_counter(); print(b - a, c - b)"
    )
    times = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        times.append([float(t) for t in done.stdout.split()])
    base, own = (sorted(column)[len(times) // 2] for column in zip(*times, strict=True))
    record_property("import_seconds_beyond_scipy", round(own, 4))
    record_property("import_ratio_to_scipy", round(own / base, 3))
    print(f"import condcs: {own:.3f} s beyond numpy and scipy ({base:.3f} s), ratio {own / base:.2f}")
    assert own > 0
