"""Tests of independence in closed form: moments by enumeration, p-values beside resamples, level, kept regressions."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from condcs._inference import repeated_independence
from condcs._inference.repeated_independence import (
    QuickSmoother,
    RepeatedIndependence,
    _combined,
    _moments_of_features,
    _moments_of_kernel,
    _moments_of_sums,
    _size,
    _tail,
    closed_form,
)
from condcs._inference.responses import adjusted_response, wave_features
from condcs._inference.views import views_of_dependence


def test_moments_are_those_of_all_signs():
    """Of 2^9 sign vectors: second and third moment of the sum over pairs, and of the sum of squared sums."""
    rng = np.random.default_rng(0)
    signs = np.array(list(product([-1.0, 1.0], repeat=9)))
    features = rng.normal(size=(9, 4))
    kernel = features @ features.T
    values = np.einsum("si,ij,sj->s", signs, kernel - np.diag(np.diag(kernel)), signs)
    expected = values[-1], np.mean(values**2), np.mean(values**3)
    assert _moments_of_features(features, signs[-1]) == pytest.approx(expected)
    assert _moments_of_kernel(kernel, signs[-1]) == pytest.approx(expected)
    function = rng.normal(size=(9, 1))
    observed, _, _ = _moments_of_sums(function, np.ones(9))
    squares = (signs @ function)[:, 0] ** 2 / np.sum(function**2)
    assert np.mean(squares) == pytest.approx(1.0)
    assert observed == pytest.approx(float(function.sum()) ** 2 / np.sum(function**2) - 1)


def test_fits_are_chosen_by_generalised_cross_validation():
    """Hat matrices, written out: the first fit whose error is within 0.1% of the smallest, and its residuals."""
    rng = np.random.default_rng(5)
    z = rng.uniform(size=(80, 2))
    targets = np.column_stack([np.sin(6 * z[:, 0]) + 0.2 * rng.normal(size=80), z @ [1, 2], rng.normal(size=80)])
    smoother = QuickSmoother(z)
    hats = [smoother.basis * s @ smoother.basis.T + 1 / 80 for s in smoother.shrinkages]
    left, deleted = smoother.residuals(targets)
    for target, residuals, without in zip(targets.T, left.T, deleted.T, strict=True):
        errors = np.array([np.sum((target - hat @ target) ** 2) / (80 - np.trace(hat)) ** 2 for hat in hats])
        hat = hats[int(np.argmax(errors <= errors.min() / 0.999))]
        np.testing.assert_allclose(residuals, target - hat @ target, atol=1e-9)
        np.testing.assert_allclose(without, residuals / (1 - np.diag(hat)), atol=1e-9)


def test_tail_of_a_squared_normal_is_chi_squared():
    """Mean 0, variance 2 and third moment 8 are those of a squared standard normal minus 1: gamma exactly."""
    from scipy.stats import chi2

    for value in (0.5, 4.0, 20.0):
        assert _tail(value - 1, 2.0, 8.0) == pytest.approx(chi2.sf(value, 1), rel=1e-9)


def test_half_of_all_true_hypotheses_had_a_pvalue_of_one():
    """An approximation of the tail was 1 there, so that links could not be ranked any more.

    Of 4,000 means of seven uniform p-values, the shares below small levels are within 4 standard errors of these.
    """
    drawn = np.random.default_rng(2).uniform(size=(4000, 7))
    found = np.array([_combined(row, np.full(7, 1 / 7)) for row in drawn])
    for level in (0.01, 0.05, 0.1):
        assert abs(np.mean(found <= level) - level) < 4 * np.sqrt(level * (1 - level) / 4000)
    assert len(np.unique(found)) == 4000
    assert _combined(np.full(7, 1e-30), np.full(7, 1 / 7)) == pytest.approx(1e-30)


@pytest.mark.parametrize("n", [120, 300])
def test_views_have_the_pvalues_of_many_resamples(n):
    """With 2,000 random signs a p-value of 0.5 has a standard error of 0.011; gamma tails cost a little more.

    Of more than 64 rows a kernel has its skewness from 64.
    """
    rng = np.random.default_rng(3)
    z, first, second = rng.normal(size=(3, n, 1))
    x, y = z + first, np.sin(z) + second
    smoother, own = QuickSmoother(z), (False,)
    responses = [adjusted_response(values, own, smoother) for values in (x, y)]
    views = views_of_dependence(*responses, smoother.residuals(wave_features(x, own)).in_sample, smoother)
    signs = np.column_stack([np.ones(n), rng.choice([-1.0, 1.0], size=(n, 2000))])
    values = views([signs])
    drawn = np.mean(values[:, 1:] >= values[:, :1], axis=1)
    found = closed_form(views)
    assert found == RepeatedIndependence()(x, y, z)
    for name, p in zip(views.names, drawn, strict=True):
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
    monkeypatch.setattr(repeated_independence, "QuickSmoother", lambda z: made.append(1) or QuickSmoother(z))
    a, b, c, d = np.random.default_rng(0).normal(size=(4, 60, 1))
    tests = RepeatedIndependence()
    first = tests(a, b, c)
    tests(a, d, c)
    assert len(made) == 1
    monkeypatch.setattr(repeated_independence, "_CACHE_BYTES", 2 * tests._bytes)
    for z in (b, d, None):
        tests(a, c + 1, z)
        assert tests._bytes == sum(map(_size, tests._cache.values())) <= repeated_independence._CACHE_BYTES
    assert len(made) == 4
    assert tests(a, b, c) == first
    assert len(made) == 5
