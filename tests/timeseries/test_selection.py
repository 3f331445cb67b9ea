"""Exact medians by counting, against numpy's on every kind of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from condcs.timeseries.selection import median_of

KINDS = {
    "spread": lambda rng, n: rng.chisquare(5, n),
    "heavy tails": lambda rng, n: np.abs(rng.standard_cauchy(n)) ** 3,
    "ties": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "mostly zero": lambda rng, n: rng.integers(0, 9, n).astype(float) * (rng.random(n) < 0.3),
    "two values": lambda rng, n: np.where(rng.random(n) < 0.5, 1e-200, 1e200),
    "nearly equal": lambda rng, n: 7.0 + 1e-13 * rng.random(n),
    "zero": lambda rng, n: np.zeros(n),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 3, 4), (20, 30, 40), (300, 300, 101), (900, 1000, 2000)])
def test_median_or_its_fallback(rng, kind, sizes):
    for _ in range(20):
        parts = [KINDS[kind](rng, n) for n in sizes]
        pool = np.concatenate(parts)
        parts[1] = np.concatenate([parts[1], np.full(5, 1e300)])  # padding does not count
        value, how = median_of(*parts, len(pool), np.empty(len(pool) + 512))
        expected = np.median(pool)
        if expected > 0:
            assert (value, how) == (expected, 0)
        elif pool.max() == 0:
            assert (value, how) == (1.0, 2)
        else:
            percentiles = np.percentile(pool, np.arange(51, 101), method="higher")
            assert (value, how) == (percentiles[percentiles > 0][0], 1)


def test_middle_numbers_on_both_sides_of_a_threshold(rng):
    """Of an even count the two middle numbers may fall on either side of a threshold: then nothing may be cut off."""
    n = 4000
    for _ in range(1000):
        high = rng.random(n) < 0.5
        pool = np.where(high, 3.0, 0.0) + rng.random(n)  # the middle is often between the two clusters, where none lie
        value, how = median_of(pool[:100], pool[100:250], pool[250:], n, np.empty(n + 512))
        assert (value, how) == (np.median(pool), 0)
