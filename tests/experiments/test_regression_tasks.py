"""The paper's simulations have the stated moments."""

import numpy as np
import pytest

from condcs._core.errors import ParameterError
from condcs_reproduction.data import make_circular_tasks, make_regression_set

N = 40_000

LOGISTIC = np.pi**2 / 3
"""Variance of a logistic distribution with scale 1."""


@pytest.mark.parametrize(
    ("name", "mean", "variance"),
    [
        ("a", 1.0, 10 + 1),
        ("b", 4.0, 10 + 1),
        ("c", 2.0, 10 + LOGISTIC),
        ("d", 11.0, 20 + 1),
        ("e", 12.0, 20 + LOGISTIC),
    ],
)
def test_moments_of_simulation_one(name, mean, variance):
    """Ten standard normal inputs: their sum has variance 10, the sum of their squares mean 10 and variance 20."""
    x, y = make_regression_set(name, N, rng=1)
    assert x.shape == (N, 10)
    assert y.shape == (N, 1)
    # 4 standard errors; the excess kurtosis of y is below 1.3, so the variance's is at most sqrt(3.3 / N) of it.
    assert y.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / N))
    assert y.var() == pytest.approx(variance, rel=4 * np.sqrt(3.3 / N))
    assert np.abs(x.mean(axis=0)).max() < 5 / np.sqrt(N)


@pytest.mark.parametrize(("name", "variance"), [("a", 1.0), ("b", 1.0), ("c", LOGISTIC), ("d", 1.0), ("e", LOGISTIC)])
def test_noise_of_simulation_one(name, variance):
    """What is left of y without its function of x is noise that x does not explain."""
    x, y = make_regression_set(name, N, rng=2)
    noise = y[:, 0] - (x if name in "abc" else x**2).sum(axis=1)
    assert noise.var() == pytest.approx(variance, rel=4 * np.sqrt(3.3 / N))
    assert np.abs(np.corrcoef(noise, x, rowvar=False)[0, 1:]).max() < 5 / np.sqrt(N)


def test_unknown_set_is_refused():
    with pytest.raises(ParameterError, match="make_regression_set: `name` must be one of 'a', 'b'"):
        make_regression_set("f")


@pytest.mark.parametrize(("inputs", "mean", "variance"), [("gaussian", 0.0, 1.0), ("uniform", 0.5, 1 / 12)])
def test_moments_of_simulation_two(inputs, mean, variance):
    """Inputs as named, unit noise, weights on a circle."""
    tasks = make_circular_tasks(2000, inputs=inputs, rng=3)
    assert len(tasks.samples) == 15
    x = np.concatenate([x for x, _ in tasks.samples])
    assert x.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / x.size))
    assert x.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / x.size))
    noise = np.concatenate([y[:, 0] - x @ w for (x, y), w in zip(tasks.samples, tasks.weights, strict=True)])
    assert noise.var() == pytest.approx(1.0, rel=4 * np.sqrt(2 / noise.size))


def test_weights_go_once_around():
    """The first two turn by 2 pi / 14 from task to task, the others are shared, the last task is the first."""
    w = make_circular_tasks(2, rng=4).weights
    assert np.allclose(w[:, 2:], w[0, 2:])
    radii = np.hypot(w[:, 0], w[:, 1])
    assert np.allclose(radii, radii[0])
    steps = np.diff(np.unwrap(np.arctan2(w[:, 1], w[:, 0])))
    assert np.allclose(steps, 2 * np.pi / 14)
    assert np.allclose(w[0], w[-1])
