"""Tests of independence in closed form: moments by enumeration, p-values beside resamples, level, kept regressions."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from condcs._inference import repeated_independence
from condcs._inference.repeated_independence import (
    RepeatedIndependence,
    _combined,
    _moments,
    _moments_of_sums,
    _size,
    _tail,
    closed_form,
)
from condcs._inference.smoothing import Smoother
from condcs._inference.views import adjusted_response, dependence_contrasts, wave_features


def test_moments_are_those_of_all_signs():
    """Of 2^9 sign vectors: second and third moment of the sum over pairs, and of the sum of squared sums."""
    rng = np.random.default_rng(0)
    signs = np.array(list(product([-1.0, 1.0], repeat=9)))
    kernel = rng.normal(size=(9, 9))
    kernel = kernel + kernel.T
    np.fill_diagonal(kernel, 0.0)
    values = np.einsum("si,ij,sj->s", signs, kernel, signs)
    assert _moments(kernel) == pytest.approx((np.mean(values**2), np.mean(values**3)))
    function = rng.normal(size=(9, 1))
    observed, _, _ = _moments_of_sums(function, np.ones(9))
    squares = (signs @ function)[:, 0] ** 2 / np.sum(function**2)
    assert np.mean(squares) == pytest.approx(1.0)
    assert observed == pytest.approx(float(function.sum()) ** 2 / np.sum(function**2) - 1)


def test_tail_of_a_squared_normal_is_chi_squared():
    """Mean 0, variance 2 and third moment 8 are those of a squared standard normal minus 1: gamma exactly."""
    from scipy.stats import chi2

    for value in (0.5, 4.0, 20.0):
        assert _tail(value - 1, 2.0, 8.0) == pytest.approx(chi2.sf(value, 1), rel=1e-9)


def test_combination_is_close_to_landaus_distribution():
    from scipy.stats import landau

    weights = np.full(7, 1 / 7)
    for p in (1e-3, 0.01, 0.05):
        exact = landau.sf(1 / p, loc=np.log(7) + 0.874, scale=np.pi / 2)
        assert 0.999 * exact <= _combined(np.full(7, p), weights) <= 1.05 * exact


@pytest.mark.parametrize("n", [120, 300])
def test_views_have_the_pvalues_of_many_resamples(n):
    """With 2,000 random signs a p-value of 0.5 has a standard error of 0.011; gamma tails cost a little more.

    Of 300 rows a kernel has its skewness from 128.
    """
    rng = np.random.default_rng(3)
    z, first, second = rng.normal(size=(3, n, 1))
    x, y = z + first, np.sin(z) + second
    smoother, own = Smoother(z, (False,)), (False,)
    responses = [adjusted_response(values, own, smoother) for values in (x, y)]
    contrasts = dependence_contrasts(*responses, smoother.residuals(wave_features(x, own))[0], smoother)
    signs = np.column_stack([np.ones(n), rng.choice([-1.0, 1.0], size=(n, 2000))])
    values = contrasts([signs])
    drawn = np.mean(values[:, 1:] >= values[:, :1], axis=1)
    found = closed_form(contrasts)
    assert found == RepeatedIndependence()(x, y, z)
    for name, p in zip(contrasts.names, drawn, strict=True):
        # The largest of several sums has Bonferroni's bound.
        assert found.pvalues[name] == pytest.approx(p, abs=0.06) or (
            name in ("moderated", "spread") and found.pvalues[name] > p
        )


@pytest.mark.slow
def test_level_and_power():
    """At 0.05: rejections in 120 runs under the null at most the 99.9% quantile; a link through a square is found."""
    rejected = {0.0: 0, 0.8: 0}
    for seed in range(120):
        rng = np.random.default_rng(seed)
        z, x, noise = rng.normal(size=(3, 100, 1))
        x = x + np.abs(z)
        for strength in rejected:
            y = z**2 + strength * (x - np.abs(z)) ** 2 + noise
            rejected[strength] += RepeatedIndependence()(x, y, z).pvalue <= 0.05
    assert rejected[0.0] <= binom.ppf(0.999, 120, 0.05)
    assert rejected[0.8] >= 100


def test_regressions_are_kept_within_bounds_and_do_not_change_the_answer(monkeypatch):
    made = []
    smoother = repeated_independence.Smoother
    monkeypatch.setattr(repeated_independence, "Smoother", lambda *a: made.append(1) or smoother(*a))
    a, b, c, d = np.random.default_rng(0).normal(size=(4, 60, 1))
    tests = RepeatedIndependence()
    first = tests(a, b, c)
    tests(a, d, c)
    assert len(made) == 1
    monkeypatch.setattr(repeated_independence, "_KEPT_BYTES", 2 * tests._bytes)
    for z in (b, d, None):
        tests(a, c + 1, z)
        assert tests._bytes == sum(map(_size, tests._kept.values())) <= repeated_independence._KEPT_BYTES
    assert len(made) == 4
    assert tests(a, b, c) == first
    assert len(made) == 5
