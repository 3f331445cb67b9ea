"""Exact medians of the engine by counting, against numpy's on every kind of numbers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from condcs._core.compiling import njit
from condcs.timeseries import _engine_medians
from condcs.timeseries._engine_medians import GROUP_ENDS


# Compiled functions that only compiled functions call have no way in from Python.
@njit()
def group(values, out, ends):
    _engine_medians.group(values, out, ends)


@njit()
def median_of(first, first_ends, second, second_ends, third, count, scratch):
    return _engine_medians.median_of(first, first_ends, second, second_ends, third, count, scratch)


@njit()
def merge(first, second, out):
    _engine_medians.merge(first, second, out)


@njit()
def median_squared_difference(values):
    return _engine_medians.median_squared_difference(values)


KINDS = {
    "spread": lambda rng, n: rng.chisquare(5, n),
    "heavy tails": lambda rng, n: np.abs(rng.standard_cauchy(n)) ** 3,
    "ties": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "mostly zero": lambda rng, n: rng.integers(0, 9, n).astype(float) * (rng.random(n) < 0.3),
    "two values": lambda rng, n: np.where(rng.random(n) < 0.5, 1e-200, 1e200),
    "nearly equal": lambda rng, n: 7.0 + 1e-13 * rng.random(n),
    "zero": lambda rng, n: np.zeros(n),
}


def grouped(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    padded = np.concatenate([values, np.full(5, 1e300)])
    out, ends = np.empty(len(padded)), np.empty(GROUP_ENDS, np.int64)
    group(padded, out, ends)
    return out[: len(values)], ends


def expected_of(pool: np.ndarray) -> tuple[float, int]:
    """Return numpy's median, or what takes its place where it is 0."""
    if np.median(pool) > 0:
        return float(np.median(pool)), 0
    if pool.max() == 0:
        return 1.0, 2
    percentiles = np.percentile(pool, np.arange(51, 101), method="higher")
    return float(percentiles[percentiles > 0][0]), 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 3, 4), (20, 30, 40), (300, 300, 101), (900, 1000, 2000)])
def test_median_or_its_fallback(rng, kind, sizes):
    for _ in range(20):
        parts = [KINDS[kind](rng, n) for n in sizes]
        pool = np.concatenate(parts)
        third = np.concatenate([parts[2], np.full(5, 1e300)])  # padding does not count
        found = median_of(*grouped(parts[0]), *grouped(parts[1]), third, len(pool), np.empty(len(pool) + 512))
        assert found == expected_of(pool)


def test_middle_numbers_on_both_sides_of_a_threshold(rng):
    """Of an even count the two middle numbers may fall on either side of a threshold: then nothing may be cut off."""
    n = 4000
    for _ in range(1000):
        high = rng.random(n) < 0.5
        pool = np.where(high, 3.0, 0.0) + rng.random(n)  # the middle is often between the two clusters, where none lie
        found = median_of(*grouped(pool[:100]), *grouped(pool[100:250]), pool[250:], n, np.empty(n + 512))
        assert found == (np.median(pool), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_in_order_and_lose_nothing(rng, kind):
    values = KINDS[kind](rng, 3000)
    out, ends = grouped(values)
    np.testing.assert_array_equal(np.sort(out), np.sort(values))
    assert (ends[0], ends[-2]) == (0, len(values))
    groups = [out[i:j] for i, j in pairwise(ends[:-1]) if j > i]
    assert all(lower.max() < higher.min() for lower, higher in pairwise(groups))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (20, 30), (25, 24), (121, 131), (300, 2)])
def test_median_squared_difference_or_its_fallback(rng, kind, sizes):
    for _ in range(20):
        first, second = (np.sort(np.sqrt(KINDS[kind](rng, n)) * rng.choice([-1, 1], n)) for n in sizes)
        values = np.empty(sum(sizes))
        merge(first, second, values)
        np.testing.assert_array_equal(values, np.sort(np.concatenate([first, second])))
        i, j = np.triu_indices(len(values), 1)
        pool = (values[j] - values[i]) ** 2
        found = median_squared_difference(values)
        assert found == expected_of(pool)
