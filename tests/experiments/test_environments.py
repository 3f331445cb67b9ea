"""Simulated environments: what is said to differ does, and nothing else."""

import numpy as np
import pytest

from condcs._core.errors import ParameterError
from condcs_reproduction.data import make_environments


def test_environments_agree_as_asked():
    """Labels follow the hidden sign in 75% everywhere; the spurious sign as often as asked (4 standard errors)."""
    data = make_environments(4000, agreement=(0.9, 0.1), noise=0.05, rng=0)
    sign, follower = data.x[:, :5].mean(1) > 0, data.x[:, 5:].mean(1) > 0
    for e, share in enumerate((0.9, 0.1)):
        rows = data.environment == e
        assert np.mean(sign[rows] == data.y[rows]) == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / 4000))
        assert np.mean(follower[rows] == data.y[rows]) == pytest.approx(share, abs=4 * np.sqrt(0.09 / 4000))


def test_bad_input():
    with pytest.raises(ParameterError, match="`agreement` must be a probability"):
        make_environments(agreement=(0.9, 1.2))
