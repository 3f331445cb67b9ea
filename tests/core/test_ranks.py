"""Ranks: those of scipy, without loading scipy.stats."""

import numpy as np
from scipy.stats import rankdata

from condcs._core.arrays import ranked


def test_ranks_with_ties_are_those_of_scipy():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(size=60), rng.integers(4, size=60), np.ones(60)])
    assert np.array_equal(ranked(table), (rankdata(table, axis=0) - 0.5) / 60)
    assert np.array_equal(ranked(table[:, 1]), (rankdata(table[:, 1]) - 0.5) / 60)
    assert ranked(np.zeros((0, 2))).shape == (0, 2)
    assert ranked(np.zeros((5, 0))).shape == (5, 0)
