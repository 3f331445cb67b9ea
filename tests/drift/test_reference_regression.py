"""The regression that scores are made of."""

import numpy as np
import pytest

from condcs.drift._reference_regression import RegressionFitter


@pytest.mark.parametrize("inputs", [1, 3])
def test_all_loops_were_compiled_once_more_for_several_inputs(inputs):
    """Loops are compiled for each order of memory: regressions on one input and on several must have the same."""
    rng = np.random.default_rng(0)
    regression, _ = RegressionFitter(rng.normal(size=(60, inputs))).fit(rng.normal(size=(60, 2)))
    assert [name for name, part in regression._asdict().items() if not part.flags.c_contiguous] == []
