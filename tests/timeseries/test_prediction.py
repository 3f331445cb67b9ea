"""Self-prediction against a plain loop, and the factors that it chooses."""

import numpy as np
import pytest
from scipy.stats import norm

from condcs._core.errors import DataError, ParameterError
from condcs.timeseries._distances import choose_factor, self_prediction


def plain(series, order, factor):
    """The mean log density of the estimate without the observation itself, from scipy's normal densities."""
    x = np.array([series[i : i + order] for i in range(len(series) - order)])
    y = series[order:]
    n = len(y)
    upper = np.triu_indices(n, 1)
    sx = factor * np.median(np.linalg.norm(x[:, None] - x, axis=2)[upper])
    sy = factor * np.median(np.abs(y[:, None] - y)[upper])
    marks = []
    for i in range(n):
        others = np.arange(n) != i
        weights = norm.pdf((x[others] - x[i]) / sx).prod(axis=1)
        marks.append(np.log(weights @ norm.pdf(y[others], y[i], sy) / weights.sum()))
    return np.mean(marks)


def test_mean_log_density(rng):
    """Up to the constant -log(2 pi) / 2 of a normal density; the median over three series."""
    X = np.cumsum(rng.normal(size=(3, 40)), axis=1)
    found = self_prediction(X, order=2, factors=[0.5, 1.0])
    expected = [np.median([plain(s, 2, f) for s in X]) for f in (0.5, 1.0)]
    assert found - np.log(2 * np.pi) / 2 == pytest.approx(expected, rel=1e-10)


def test_smooth_series_want_narrow_kernels_and_noise_wide_ones(rng):
    t = np.linspace(0, 40, 300)
    smooth = np.stack([np.sin(t + p) for p in range(5)])
    assert choose_factor(smooth, order=5) == 0.1
    assert choose_factor(rng.normal(size=(5, 60)), order=5) >= 1.0


def test_units_do_not_matter(rng):
    X = rng.normal(size=(4, 2, 50)).cumsum(axis=2)
    assert choose_factor(X, order=1) == choose_factor(1000 * X + 5, order=1)


def test_layouts_gaps_and_draws(rng):
    X = rng.normal(size=(6, 2, 50)).cumsum(axis=2)
    marks = self_prediction(X, order=2, factors=[1.0])
    assert self_prediction(np.moveaxis(X, 1, 2), order=2, factors=[1.0], layout="ntc") == pytest.approx(marks)
    assert self_prediction(X, order=2, factors=[1.0], n_series=3, rng=1) == pytest.approx(
        self_prediction(X, order=2, factors=[1.0], n_series=3, rng=1)
    )
    X[0, 0, 10] = np.nan
    assert np.isfinite(self_prediction(X, order=2, factors=[1.0], missing="drop")).all()


def test_long_series_are_thinned(rng):
    X = rng.normal(size=(1, 3000))
    assert np.isfinite(self_prediction(X, order=1, factors=[1.0])).all()


@pytest.mark.parametrize(
    ("X", "options", "error", "words"),
    [
        (np.zeros((3, 20)), {}, DataError, "only constant ones"),
        (np.full((3, 20), np.nan), {}, DataError, "must be finite"),
        (np.zeros((3, 20)), {"factors": ()}, ParameterError, "`factors`"),
        (np.zeros((3, 20)), {"factors": (0.0,)}, ParameterError, "`factors`"),
        (np.zeros((3, 20)), {"order": 0}, ParameterError, "`order`"),
        (np.zeros((3, 20)), {"n_series": 0}, ParameterError, "`n_series`"),
    ],
)
def test_bad_input(X, options, error, words):
    with pytest.raises(error, match=words):
        choose_factor(X, **{"order": 2, **options})
