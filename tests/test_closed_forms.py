"""Closed forms: quantile grids instead of draws, so tolerances are tight and no seed is needed."""

import numpy as np
import pytest
from scipy.stats import norm

import condcs

LEVELS = (np.arange(1000) + 0.5) / 1000
NORMAL = norm.ppf(LEVELS)[:, None]


@pytest.mark.parametrize("bandwidth", [0.5, 2.0])
@pytest.mark.parametrize("shift", [0.0, 0.8, 2.0])
def test_cs_of_shifted_gaussians(bandwidth, shift):
    """Unit-variance Gaussians: D = shift^2 / (bandwidth^2 + 2)."""
    expected = shift**2 / (bandwidth**2 + 2)
    assert condcs.cs(NORMAL, NORMAL + shift, bandwidth=bandwidth) == pytest.approx(expected, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("shift", [0.5, 1.5])
def test_plugin_estimator_is_a_wider_kernel(shift):
    """Two kernels of width sigma integrate to one of width sqrt(2) sigma, so D = shift^2 / (2 sigma^2 + 2)."""
    value = condcs.cs(NORMAL, NORMAL + shift, bandwidth=0.7, estimator="plugin")
    assert value == pytest.approx(shift**2 / (2 * 0.7**2 + 2), rel=1e-3)


@pytest.mark.parametrize("shift", [0.5, 1.5])
def test_mmd_of_shifted_gaussians(shift):
    """MMD^2 = 2 s / sqrt(s^2 + 2) (1 - exp(-shift^2 / (2 (s^2 + 2)))) for unit-variance Gaussians and width s."""
    s = 0.9
    expected = 2 * s / np.sqrt(s**2 + 2) * (1 - np.exp(-(shift**2) / (2 * (s**2 + 2))))
    assert condcs.mmd(NORMAL, NORMAL + shift, bandwidth=s) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("shift", [0.3, 1.0, 4.0])
def test_conditional_cs_of_a_shifted_response(shift):
    """Given any x, y is N(0, 1) against N(shift, 1) at every x: D = shift^2 / (bandwidth_y^2 + 2), whatever x does.

    x and y form a product grid, so row sums over x and y factor and the x parts cancel exactly.
    """
    grid_x = np.linspace(-1, 1, 9)
    grid_y = norm.ppf((np.arange(400) + 0.5) / 400)
    x = np.repeat(grid_x, 400)[:, None]
    y = np.tile(grid_y, 9)[:, None]
    value = condcs.conditional_cs(x, y, x, y + shift, bandwidth_x=0.4, bandwidth_y=0.8)
    assert value == pytest.approx(shift**2 / (0.8**2 + 2), rel=3e-3)


def test_two_points_each():
    """Two rows each, worked out by hand: x all equal, y apart by a and b kernel units."""
    x = np.zeros((2, 1))
    p, q = np.array([[0.0], [1.0]]), np.array([[2.0], [3.0]])
    within = (1 + np.exp(-0.5)) / 2
    cross = (np.exp(-2.0) * 2 + np.exp(-4.5) + np.exp(-0.5)) / 4
    expected = 2 * np.log(within) - 2 * np.log(cross)
    assert condcs.conditional_cs(x, p, x, q, bandwidth_x=1.0, bandwidth_y=1.0) == pytest.approx(expected, rel=1e-13)
    assert condcs.cs(p, q, bandwidth=1.0) == pytest.approx(expected, rel=1e-13)


def test_far_response_grows_like_its_square():
    """A response shifted by 100 at sigma 0.5 underflows naively; the value stays near shift^2 / sigma^2 = 40,000."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 60, 1))
    value = condcs.conditional_cs(x[:30], y[:30], x[30:], y[30:] + 100, bandwidth_x=1.0, bandwidth_y=0.5)
    closest = (100 + y[30:].min() - y[:30].max()) ** 2 / 0.5**2
    farthest = (100 + y[30:].max() - y[:30].min()) ** 2 / 0.5**2
    assert closest - 20 < value < farthest + 20
