"""The rivals of `condcs reproduce levels`: closed forms where there are any, level and power on easy data."""

import numpy as np
import pytest
from scipy.stats import binom, brunnermunzel, chi2

from condcs_reproduction import rivals
from condcs_reproduction.cond2st import scenario_of
from condcs_reproduction.rivals import RIVALS


def two_samples(rng, n, change):
    """Two samples of y = x1 + noise of sd 1/2; x is shifted by half a standard deviation, y by `change`."""
    b = np.repeat([0.0, 1.0], n)[:, None]
    x = rng.normal(size=(2 * n, 2)) + 0.5 * b
    return x[:, :1] + change * b + 0.5 * rng.normal(size=(2 * n, 1)), b, x


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.slow
def test_level_on_an_easy_null(name):
    """Rejections in 30 runs at level 0.05: below the 99.95% point of a binomial distribution."""
    found = []
    for seed in range(30):
        rng = np.random.default_rng([1, seed])
        found.append(RIVALS[name](*two_samples(rng, 60, 0.0), rng))
    assert all(0 <= p <= 1 for p in found)
    assert sum(p <= 0.05 for p in found) <= binom.ppf(0.9995, 30, 0.05)


@pytest.mark.parametrize("name", RIVALS)
def test_power_on_an_easy_alternative(name):
    """A shift of the mean of y by four standard deviations of its noise is seen in every run."""
    for seed in range(5):
        rng = np.random.default_rng([2, seed])
        assert RIVALS[name](*two_samples(rng, 60, 2.0), rng) <= 0.05


@pytest.mark.parametrize("name", RIVALS)
def test_same_generator_same_pvalue(name):
    data = two_samples(np.random.default_rng(0), 40, 0.3)
    first, second = (RIVALS[name](*data, np.random.default_rng(3)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("test", [rivals.gcm, rivals.rcit, rivals.kci])
def test_conditional_independence_of_numbers(test):
    """Both x and y follow z: independent given z in 60 runs (99.95% point), and not if y follows x as well."""
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng([4, seed])
        z = rng.normal(size=(120, 1))
        x = z + rng.normal(size=(120, 1))
        rejected += test(z + rng.normal(size=(120, 1)), x, z, rng) <= 0.05
        if seed < 5:
            assert test(z + 2 * x + 0.5 * rng.normal(size=(120, 1)), x, z, rng) <= 0.05
    assert rejected <= binom.ppf(0.9995, 60, 0.05)


def test_rcit_of_more_than_500_rows_took_its_widths_from_one_sample():
    """The first 500 rows of b were all 0 then, and their median distance was that of no rows."""
    rng = np.random.default_rng(0)
    assert 0.001 < rivals.rcit(*two_samples(rng, 600, 0.0), rng) <= 1


def test_gcm_without_information_in_the_inputs():
    """Ranks 1 to 5 twice: products as (i - 3)^2, of mean 2 and variance 3.5, so n mean^2 / variance = 20 / 3.5."""
    ranks = np.arange(5.0)[:, None]
    constant = np.zeros((5, 1))
    found = rivals.gcm(10 * ranks, ranks**3, constant, np.random.default_rng(0))
    assert found == pytest.approx(chi2.sf(20 / 3.5, 1), rel=1e-9)


def test_gcm_takes_ranks():
    """Any increasing function of y and of x gives the same p-value."""
    y, b, x = two_samples(np.random.default_rng(0), 40, 0.3)
    rng = np.random.default_rng(0)
    assert rivals.gcm(np.exp(y), b, x, rng) == pytest.approx(rivals.gcm(y, b, x, rng), rel=1e-9)


def test_kci_is_that_of_causal_learn():
    """Both drop nothing but eigenvalues below 1e-5 of the largest from mean and variance."""
    module = pytest.importorskip("causallearn.utils.KCI.KCI")
    y, b, x = two_samples(np.random.default_rng(0), 60, 0.3)
    other, _ = module.KCI_CInd().compute_pvalue(b, y, x)
    assert rivals.kci(y, b, x, np.random.default_rng(0)) == pytest.approx(other, abs=1e-3)


@pytest.mark.parametrize("count", [1, 4])
def test_weighted_chi2_with_equal_weights(count):
    """The sum of k squares of weight w exceeds v with the probability that chi-squared exceeds v / w."""
    for value in (0.5, 3.0, 20.0):
        assert rivals.weighted_chi2_sf(value, np.full(count, 2.5)) == pytest.approx(chi2.sf(value / 2.5, count))


def test_weighted_chi2_matches_a_simulation():
    """Weights 1, 1/2, 1/4 where 1 in 20 exceeds: 4 standard errors, and 0.005 for the approximation."""
    weights = np.array([1.0, 0.5, 0.25])
    draws = np.random.default_rng(0).chisquare(1, size=(100_000, 3)) @ weights
    assert rivals.weighted_chi2_sf(np.quantile(draws, 0.95), weights) == pytest.approx(0.05, abs=0.008)


def test_rank_sum_without_inputs_is_that_of_brunner_and_munzel():
    """All weights are 1 then, and the ratio rises with y: the ranks of y itself, on the second half of the rows."""
    y, b, _ = two_samples(np.random.default_rng(0), 40, 1.0)
    found = rivals.conformal_rank_sum(y, b, np.zeros_like(y), np.random.default_rng(5))
    _, half = rivals._halves(len(y), b, np.random.default_rng(5))
    first, second = (y[half][b[half] == group] for group in (0, 1))
    other = brunnermunzel(first, second, alternative="less", distribution="normal").pvalue
    assert found == pytest.approx(other, rel=1e-6)


def test_regression_of_a_linear_function_is_exact():
    """The least leave-one-out error is 0, at the heaviest ridge; predictions hold outside the data as well."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    slopes = np.array([[1.0, 0.0], [-2.0, 1.0], [0.5, 3.0]])
    predict = rivals.regression(x, 4 + x @ slopes).predict
    new = rng.normal(size=(20, 3)) * 3
    np.testing.assert_allclose(predict(new), 4 + new @ slopes, rtol=1e-8, atol=1e-8)


def test_regression_of_a_wave():
    """A sine with noise of sd 0.1 on 400 rows: the error within the data is below a third of the noise."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(400, 1))
    predict = rivals.regression(x, np.sin(3 * x) + 0.1 * rng.normal(size=x.shape)).predict
    at = np.linspace(-1.9, 1.9, 50)[:, None]
    assert np.sqrt(np.mean((predict(at) - np.sin(3 * at)) ** 2)) < 0.1 / 3


def test_residuals_of_a_regression_are_those_without_the_row():
    """Inputs that say nothing leave the mean: a row's residual is its distance from the mean of the others."""
    y = np.random.default_rng(0).normal(size=(12, 2))
    others = (y.sum(axis=0) - y) / 11
    np.testing.assert_allclose(rivals.regression(np.ones((12, 1)), y).residuals, y - others)


@pytest.mark.slow
def test_pcm_and_gcm_kept_no_level_where_the_samples_are_far_apart():
    """With in-sample residuals of bumps alone PCM rejected half of the nulls of S2U; 99.95% point of 40 runs."""
    for name in ("PCM", "GCM on ranks"):
        rejected = 0
        for seed in range(40):
            rng = np.random.default_rng([3, seed])
            pair = scenario_of("S2U", "null").draw(rng)
            b = np.repeat([0.0, 1.0], 200)[:, None]
            rejected += RIVALS[name](np.vstack([pair.yp, pair.yq]), b, np.vstack([pair.xp, pair.xq]), rng) <= 0.05
        assert rejected <= binom.ppf(0.9995, 40, 0.05)


def test_indicators():
    """Three labels give three columns, two give one, numbers stay."""
    values = np.array([[0.0, 5.0, 1.0], [1.0, 6.0, 0.0], [2.0, 7.0, 1.0]])
    found = rivals.indicators(values, (True, False, True))
    expected = [[1, 0, 0, 5, 1], [0, 1, 0, 6, 0], [0, 0, 1, 7, 1]]
    np.testing.assert_array_equal(found, expected)
