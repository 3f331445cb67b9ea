"""`make hops` shows the way through the code."""

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


def test_what_is_counted_and_what_is_not(tool):
    """Functions that call others are steps; private helpers and words such as `check_choice` are not."""
    found = tool.hops(lambda: condcs.bandwidth([0.0, 1.0, 3.0]))
    assert found.chain[0] == "_kernels/bandwidths.py:bandwidth"
    names = ["column_widths", "median_widths", "median_distance"]
    assert found.chain[1:] == [f"_kernels/bandwidths.py:{name}" for name in names]
    assert "_core/arrays.py" in found.helpers
    assert "_kernels/bandwidths.py" in found.files
