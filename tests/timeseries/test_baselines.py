"""Established distances against plain recursions of their definitions."""

import numpy as np
import pytest

pytest.importorskip("aeon")

from condcs._core.errors import DataError, ParameterError
from condcs.timeseries._baseline_distances import BASELINES, baseline_pairwise_distance


def dtw(x, y):
    """Least sum of squared distances of frames over all warping paths; x and y are (times, channels)."""
    total = np.full((len(x) + 1, len(y) + 1), np.inf)
    total[0, 0] = 0
    for i in range(len(x)):
        for j in range(len(y)):
            cost = ((x[i] - y[j]) ** 2).sum()
            total[i + 1, j + 1] = cost + min(total[i, j], total[i, j + 1], total[i + 1, j])
    return total[-1, -1]


def msm(x, y, c=1.0):
    """Move, split, merge (Stefan, Athitsos and Das), for one channel."""

    def cost(new, before, other):
        inside = min(before, other) <= new <= max(before, other)
        return c if inside else c + min(abs(new - before), abs(new - other))

    n, m = len(x), len(y)
    total = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            if i == j == 0:
                total[i, j] = abs(x[0] - y[0])
                continue
            options = []
            if i and j:
                options.append(total[i - 1, j - 1] + abs(x[i] - y[j]))
            if i:
                options.append(total[i - 1, j] + cost(x[i], x[i - 1], y[j]))
            if j:
                options.append(total[i, j - 1] + cost(y[j], x[i], y[j - 1]))
            total[i, j] = min(options)
    return total[-1, -1]


def twed(x, y, nu=0.001, penalty=1.0):
    """Time warp edit distance (Marteau), with a 0 before each series."""
    x, y = np.r_[0.0, x], np.r_[0.0, y]
    total = np.full((len(x), len(y)), np.inf)
    total[0, 0] = 0
    for i in range(1, len(x)):
        for j in range(1, len(y)):
            total[i, j] = min(
                total[i - 1, j] + abs(x[i] - x[i - 1]) + nu + penalty,
                total[i, j - 1] + abs(y[j] - y[j - 1]) + nu + penalty,
                total[i - 1, j - 1] + abs(x[i] - y[j]) + abs(x[i - 1] - y[j - 1]) + 2 * nu * abs(i - j),
            )
    return total[-1, -1]


@pytest.mark.parametrize(("measure", "oracle"), [("msm", msm), ("twed", twed)])
def test_univariate_distances(measure, oracle, rng):
    X = rng.normal(size=(5, 1, 12))
    D = baseline_pairwise_distance(X, measure=measure)
    expected = np.array([[oracle(a[0], b[0]) for b in X] for a in X])
    assert np.allclose(D, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("measure", BASELINES)
def test_every_baseline_is_a_distance_of_all_pairs(measure, rng):
    """A distance is tested by its row in the table; with gaps, if it says that it allows them."""
    X = rng.normal(size=(5, 2, 12))
    if BASELINES[measure].allows_gaps:
        X[0, 1, 3] = np.nan
    options = {"n_components": 3, "n_mixtures": 2} if measure == "tck" else {}
    D = baseline_pairwise_distance(X, measure=measure, **options)
    assert D.shape == (5, 5)
    np.testing.assert_allclose(D, D.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(D), 0.0, atol=1e-12)
    assert (D >= 0).all()


def test_dtw_warps_channels_together(rng):
    X = rng.normal(size=(5, 3, 12))
    D = baseline_pairwise_distance(X, measure="dtw")
    expected = np.array([[dtw(a.T, b.T) for b in X] for a in X])
    assert np.allclose(D, expected, rtol=1e-10, atol=1e-12)
    assert baseline_pairwise_distance(np.moveaxis(X, 1, 2), measure="dtw", layout="ntc") == pytest.approx(D)


def test_series_of_different_lengths(rng):
    X = [rng.normal(size=n) for n in (8, 11, 9)]
    D = baseline_pairwise_distance(X, measure="dtw")
    expected = np.array([[dtw(a[:, None], b[:, None]) for b in X] for a in X])
    assert np.allclose(D, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("measure", BASELINES)
def test_the_docstring_says_what_every_distance_is(measure):
    assert f'"{measure}"' in baseline_pairwise_distance.__doc__


def test_tck_is_one_minus_the_kernel(rng):
    from condcs.timeseries._baseline_distances import tck_kernel

    X = rng.normal(size=(6, 2, 10))
    options = {"n_components": 3, "n_mixtures": 2, "rng": 1}
    D = baseline_pairwise_distance(X, measure="tck", **options)
    assert D + tck_kernel(X, **options) == pytest.approx(np.ones((6, 6)))


def test_bad_input(rng):
    with pytest.raises(ParameterError, match="`measure` must be one of 'dtw'"):
        baseline_pairwise_distance(rng.normal(size=(4, 1, 8)), measure="euclid")
    with pytest.raises(DataError, match="`X` must be finite"):
        baseline_pairwise_distance(np.full((4, 1, 8), np.nan))
