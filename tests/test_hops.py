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


def test_a_divergence_is_five_calls_and_eight_files_away(tool):
    """Public function, checked inputs, masses, formula."""
    calls, files = tool.GOALS["conditional_cs"]
    with condcs.config_context(n_threads=1):
        found = tool.hops(tool.calls()["conditional_cs"])
    assert found.chain[0] == "_measures/conditional.py:conditional_cs"
    assert len(found.chain) <= calls
    assert len(found.files) <= files
    assert {"_measures/formulas.py", "_kernels/row_sums.py"} <= set(found.files)


def test_what_is_counted_and_what_is_not(tool):
    """Functions that call others are steps; private helpers and words such as `check_choice` are not."""
    found = tool.hops(lambda: condcs.bandwidth([0.0, 1.0, 3.0]))
    assert found.chain[0] == "_kernels/bandwidths.py:bandwidth"
    assert len(found.chain) == 2
    assert "_core/arrays.py" in found.helpers
    assert found.files == ["_core/checks.py", "_kernels/bandwidths.py"]
