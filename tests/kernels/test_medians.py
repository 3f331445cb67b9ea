"""Exact medians over all pairs of rows, against all pairs sorted."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from condcs._kernels import pair_medians
from condcs._kernels.pair_medians import median, median_differences, median_squared_distance

KINDS = {
    "spread": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n) ** 3,
    "lognormal": lambda rng, n: np.exp(3 * rng.normal(size=n)),
    "few values": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "two values": lambda rng, n: (rng.random(n) < 0.5).astype(float),
    "rounded": lambda rng, n: np.round(rng.normal(size=n), 2),
    "every other one twice": lambda rng, n: rng.normal(size=n)[rng.integers(0, max(n // 2, 1), n)],
    "even steps": lambda rng, n: 0.1 * np.arange(n),
    "two clusters": lambda rng, n: 0.01 * rng.normal(size=n) + 100 * (rng.random(n) < 0.5),
    "far from zero": lambda rng, n: 1e12 + rng.normal(size=n),
    "neighbouring floats": lambda rng, n: 7.0 + 1e-14 * rng.random(n),
    "mostly equal": lambda rng, n: rng.integers(0, 9, n) * (rng.random(n) < 0.2).astype(float),
    "nearly all equal": lambda rng, n: (np.arange(n) == n // 2) + 2.0 * (np.arange(n) == n // 3),
    "equal": lambda rng, n: np.full(n, 3.0),
}
# On both sides of the sizes from which a median is bracketed: 160 numbers, 256 rows.
SIZES = (2, 3, 20, 160, 161, 256, 400)


def expected_of(values: np.ndarray) -> tuple[float, float, int]:
    """Return the two middle numbers and 50, or twice what takes their place where the larger one is 0."""
    ordered = np.sort(values)
    lower, upper = ordered[(len(values) - 1) // 2], ordered[len(values) // 2]
    if upper > 0:
        return lower, upper, 50
    percentiles = np.percentile(values, np.arange(51, 101), method="higher")
    if not percentiles[-1] > 0:
        return 0.0, 0.0, 50
    percent = int(np.argmax(percentiles > 0))
    return percentiles[percent], percentiles[percent], 51 + percent


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_median_difference_of_columns(rng, kind, n):
    """The two middle differences are exact; their root mean square is off by a few roundings."""
    columns = np.sort([KINDS[kind](rng, n) for _ in range(3)], axis=1)
    widths, percentiles = median_differences(columns)
    for column, width, percentile in zip(columns, widths, percentiles, strict=True):
        lower, upper, percent = expected_of(pdist(column[:, None], "cityblock"))
        assert percentile == percent
        assert width == pytest.approx(math.sqrt(0.5 * (lower**2 + upper**2)), rel=1e-15)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_median_squared_distance(rng, kind, n):
    rows = np.stack([KINDS[kind](rng, n) for _ in range(2)], axis=1)
    lower, upper, percent = expected_of(pdist(rows, "sqeuclidean"))
    assert median_squared_distance(rows) == (0.5 * (lower + upper), percent)


@pytest.mark.parametrize("size", [1, 2, 1000, 100_001, 200_000])
@pytest.mark.parametrize("kind", KINDS)
def test_median_of_many_numbers(rng, kind, size):
    values = KINDS[kind](rng, size)
    assert median(values) == np.median(values)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bracket_that_misses_is_widened(rng, kind, monkeypatch):
    """What the sample says decides only how long it takes."""
    columns = np.sort([KINDS[kind](rng, 300)], axis=1)
    rows = np.stack([KINDS[kind](rng, 300) for _ in range(2)], axis=1)
    before = median_differences(columns), median_squared_distance(rows)
    # The least numbers stand for all of them.
    monkeypatch.setattr(pair_medians, "_even_indices", lambda n, m, count: (np.zeros(count, int), np.ones(count, int)))
    monkeypatch.setattr(pair_medians, "_REACH", 0.0)
    after = median_differences(columns), median_squared_distance(rows)
    np.testing.assert_array_equal(before[0], after[0])
    assert before[1] == after[1]


def test_differences_that_overflow_or_vanish():
    """Squares of differences near the ends of the range of floats."""
    for scale in (1e-300, 1e300):
        widths, _ = median_differences(scale * np.array([[0.0, 1.0, 3.0, 7.0]]))
        assert widths[0] == pytest.approx(scale * math.sqrt(0.5 * (3**2 + 4**2)), rel=1e-15)


def test_distances_of_many_rows_are_not_held_at_once(rng):
    """All distances between 6,000 rows would take 144 MB; a block of 128 rows and the bracket take a tenth."""
    rows = rng.normal(size=(6_000, 3))
    tracemalloc.start()
    median_squared_distance(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6
