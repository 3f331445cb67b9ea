"""The length of the window: false neighbours of known dynamics, and the grid that clusters decide on."""

from __future__ import annotations

import numpy as np
import pytest

from condcs._core.errors import ParameterError, ShapeError
from condcs.timeseries import ccs_distance, ccs_pairwise_distance, choose_order, false_neighbours


def henon(n, rng):
    x = list(rng.uniform(0, 0.2, 2))
    for _ in range(n + 20):
        x.append(1 - 1.4 * x[-1] ** 2 + 0.3 * x[-2])
    return np.array(x[-n:])


def logistic(n, rng):
    x = [rng.uniform(0.2, 0.8)]
    for _ in range(n + 20):
        x.append(4 * x[-1] * (1 - x[-1]))
    return np.array(x[-n:])


@pytest.mark.parametrize(("dynamics", "dimension"), [(logistic, 1), (henon, 2)])
def test_takens_finds_the_dimension_of_a_map(rng, dynamics, dimension):
    """x_{t+1} is a function of `dimension` past values, and of no fewer."""
    X = np.stack([dynamics(400, rng) for _ in range(3)])
    shares = false_neighbours(X, max_order=4)
    assert np.flatnonzero(shares < 0.01)[0] + 1 == dimension
    D = ccs_pairwise_distance(X, order="takens")
    assert np.array_equal(D, ccs_pairwise_distance(X, order=dimension))
    assert ccs_distance(X[0], X[1], order="takens") == D[0, 1]


def test_two_channels_unfold_at_once(rng):
    """The Henon map with its second coordinate: one frame determines the next."""
    x = henon(400, rng)
    X = np.stack([x[1:], 0.3 * x[:-1]])[None]
    assert false_neighbours(X, max_order=2)[0] < 0.01


def test_equal_windows_are_neighbours_too():
    """A periodic series meets each window again: neighbours at distance 0 that stay together."""
    X = np.tile([0.0, 1.0, 0.0, 2.0], 20)[None]
    shares = false_neighbours(X, max_order=2)
    assert shares[0] > 0.1
    assert shares[1] == 0.0


def test_gaps_and_a_draw_of_many_series(rng):
    X = rng.normal(size=(230, 30))
    X[:, 7] = np.nan
    shares = false_neighbours(X, missing="drop", max_order=3)
    assert np.array_equal(shares, false_neighbours(X, missing="drop", max_order=3))


def test_a_grid_is_decided_by_silhouette(rng):
    """The sign of x_t x_{t-2}, not of x_t x_{t-1}, tells two kinds of series apart: order 1 cannot see it.

    scikit-learn's silhouette of the true labels, which the choice knows nothing of, agrees.
    """
    from sklearn.metrics import silhouette_score

    X = np.zeros((16, 200))
    for k in range(16):
        sign = 1.0 if k < 8 else -1.0
        X[k, :2] = rng.normal(size=2)
        for t in range(2, 200):
            X[k, t] = 0.9 * sign * X[k, t - 2] + 0.5 * rng.normal()
    assert choose_order(X, [1, 2]) == 2
    D = ccs_pairwise_distance(X, order=[2, 1])
    assert np.array_equal(D, ccs_pairwise_distance(X, order=2))
    blind = ccs_pairwise_distance(X, order=1)
    truth = np.repeat([0, 1], 8)
    marks = [silhouette_score(np.maximum(M, 0), truth, metric="precomputed") for M in (blind, D)]
    assert 2 * marks[0] < marks[1]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda X: false_neighbours(X, max_order=0), ParameterError, ["`max_order`"]),
        (lambda X: false_neighbours(X, max_order=40), ShapeError, ["`max_order`", "30 time points"]),
        (lambda X: choose_order(X, 3), ParameterError, ["`order`", "sequence"]),
        (lambda X: choose_order(X, [1, 0]), ParameterError, ["`order`", "at least 1"]),
        (lambda X: choose_order(X[:3], [1, 2]), ShapeError, ["at least 4 series"]),
    ],
)
def test_bad_input_is_named(rng, call, error, words):
    with pytest.raises(error) as caught:
        call(rng.normal(size=(5, 30)))
    for word in words:
        assert word in str(caught.value)
