"""The way through the code is short, and `make hops` counts it."""

import importlib.util
from pathlib import Path

import pytest

import condcs


@pytest.fixture(scope="module")
def tool():
    path = Path(__file__).parents[1] / "benchmarks" / "hops.py"
    spec = importlib.util.spec_from_file_location("hops", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "start", "on_the_way"),
    [
        ("conditional_cs", "_measures/conditional.py", {"_measures/formulas.py", "_kernels/row_sums.py"}),
        ("conditional_test", "_inference/conditional_tests.py", {"_inference/views.py", "_inference/resampling.py"}),
        ("compare", "comparison/_comparing.py", {"comparison/_steps.py", "_inference/explain.py"}),
    ],
)
def test_the_way_is_no_longer_than_its_goal(tool, name, start, on_the_way):
    """Public function, checked inputs, masses, formula; a test adds a null, and `compare` tables and regions."""
    calls, files = tool.GOALS[name]
    with condcs.config_context(n_threads=1):
        found = tool.hops(tool.calls()[name])
    assert found.chain[0] == f"{start}:{name}"
    assert len(found.chain) <= calls
    assert len(found.files) <= files
    assert on_the_way <= set(found.files)


def test_what_is_counted_and_what_is_not(tool):
    """Functions that call others are steps; private helpers and words such as `check_choice` are not."""
    found = tool.hops(lambda: condcs.bandwidth([0.0, 1.0, 3.0]))
    assert found.chain[0] == "_kernels/bandwidths.py:bandwidth"
    assert len(found.chain) == 2
    assert "_core/arrays.py" in found.helpers
    assert found.files == ["_core/checks.py", "_kernels/bandwidths.py"]
