"""The time series cluster kernel: each step against its definition, and the whole on series with known classes."""

import numpy as np
import pytest
from scipy.stats import norm

from condcs._core.errors import DataError, ParameterError, ShapeError
from condcs.timeseries import _baseline_distances as tck
from condcs.timeseries._baseline_distances import baseline_pairwise_distance, tck_kernel
from condcs.timeseries._clustering import cluster_distances, normalized_mutual_information

FAST = {"n_components": 4, "n_mixtures": 4}


def waves(rng, n=24, noise=0.3):
    t = np.linspace(0, 6, 40)
    y = np.arange(n) % 2
    X = np.stack([[np.sin(t + np.pi * k), np.cos(t + np.pi * k)] for k in y])
    return X + noise * rng.normal(size=X.shape), y


def test_kernel_is_a_kernel(rng):
    """Symmetric, ones on the diagonal, no negative eigenvalue, between 0 and 1."""
    K = tck_kernel(waves(rng)[0], **FAST)
    assert np.array_equal(K, K.T)
    assert np.diag(K) == pytest.approx(np.ones(24))
    assert np.linalg.eigvalsh(K).min() > -1e-10
    assert K.min() >= 0
    assert K.max() <= 1 + 1e-12


def test_classes_are_found(rng):
    X, y = waves(rng)
    D = baseline_pairwise_distance(X, measure="tck", **FAST)
    assert normalized_mutual_information(y, cluster_distances(D, 2, scale="median").labels) == pytest.approx(1.0)


def test_classes_are_found_with_a_third_missing(rng):
    X, y = waves(rng)
    X[rng.random(X.shape) < 0.33] = np.nan
    D = baseline_pairwise_distance(X, measure="tck", **FAST)
    assert normalized_mutual_information(y, cluster_distances(D, 2, scale="median").labels) == pytest.approx(1.0)


def test_noise_has_no_classes(rng):
    """Series of noise are about equally alike: the spread of K between series is small against waves'."""
    X, _ = waves(rng)
    upper = np.triu_indices(24, 1)
    assert np.std(tck_kernel(rng.normal(size=X.shape), **FAST)[upper]) < 0.5 * np.std(tck_kernel(X, **FAST)[upper])


def test_layouts_and_seeds(rng):
    X, _ = waves(rng)
    K = tck_kernel(X, rng=5, **FAST)
    assert np.array_equal(K, tck_kernel(np.moveaxis(X, 1, 2), layout="ntc", rng=5, **FAST))
    assert not np.array_equal(K, tck_kernel(X, rng=6, **FAST))


def test_posteriors_are_products_of_densities_cut_off_at_three(rng):
    """Bayes' rule with scipy's normal densities, none below that of a standard normal at 3; gaps count as 1."""
    values, means = rng.normal(size=(6, 4, 2)), rng.normal(size=(3, 4, 2))
    variances, shares = rng.uniform(0.05, 2, size=(3, 2)), np.array([0.5, 0.3, 0.2])
    present = (rng.random(values.shape) < 0.8).astype(float)
    densities = norm.pdf(values[:, None], means, np.sqrt(variances)[:, None, :])
    kept = np.where(present[:, None] > 0, np.maximum(densities, norm.pdf(3)), 1.0)
    expected = shares * kept.prod(axis=(2, 3))
    expected /= expected.sum(axis=1, keepdims=True)
    assert tck._responsibility(values, present, means, variances, shares) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("share", [1.0, 0.7])
def test_means_solve_the_normal_equations(share, rng):
    """A mean is (S^-1 + W)^-1 (S^-1 m + sum_n q_n x_n / s2), for each component and channel."""
    values = rng.normal(size=(9, 5, 2))
    present = (rng.random(values.shape) < share).astype(float)
    values *= present
    responsibility = rng.dirichlet(np.ones(3), size=9)
    prior = tck._prior(values, present > 0, a0=0.7, b0=0.1, n0=0.1)
    old = rng.normal(size=(3, 5, 2))
    means, variances = tck._update(values, present, responsibility, old, prior)
    for c in range(3):
        q = responsibility[:, c]
        for v in range(2):
            r, x = present[:, :, v], values[:, :, v]
            residual = q @ (r * (x - old[c, :, v]) ** 2).sum(axis=1)
            s2 = (0.1 * prior.variances[v] + residual) / (0.1 + q @ r.sum(axis=1))
            inverse = np.linalg.inv(prior.covariance[v])
            A = inverse + np.diag(r.T @ q / s2)
            mean = np.linalg.solve(A, inverse @ prior.means[:, v] + (r * x).T @ q / s2)
            assert variances[c, v] == pytest.approx(s2)
            assert means[c, :, v] == pytest.approx(mean, rel=1e-8)


def test_prior_has_the_moments_of_the_data(rng):
    values = rng.normal(size=(50, 7, 2)) * [1.0, 3.0]
    values -= values.mean(axis=(0, 1))
    prior = tck._prior(values, np.ones(values.shape, dtype=bool), a0=0.5, b0=0.1, n0=0.1)
    assert prior.means == pytest.approx(values.mean(axis=0))
    assert prior.variances == pytest.approx(values.reshape(-1, 2).var(axis=0, ddof=1))
    assert prior.covariance[1, 2, 4] == pytest.approx(values[:, :, 1].std(ddof=1) * 0.1 * np.exp(-0.5 * 4))


def test_short_and_long_series(rng):
    """Segments never leave the series: lengths around the shortest segment."""
    for length in (2, 5, 6, 7, 8, 30):
        K = tck_kernel(rng.normal(size=(8, 1, length)), **FAST)
        assert np.isfinite(K).all()


@pytest.mark.parametrize(
    ("X", "options", "error", "words"),
    [
        ([np.zeros(10), np.zeros(12), np.zeros(10)], {}, ShapeError, "series of one length, got 10 to 12"),
        (np.zeros((2, 1, 10)), {}, ShapeError, "at least 3 series"),
        (np.full((4, 1, 10), np.inf), {}, DataError, "must be finite"),
        (np.zeros((4, 1, 10)), {"n_components": 1}, ParameterError, "`n_components`"),
        (np.zeros((4, 1, 10)), {"n_mixtures": 0}, ParameterError, "`n_mixtures`"),
        (np.zeros((4, 1, 10)), {"layout": "tcn"}, ParameterError, "`layout`"),
    ],
)
def test_bad_input(X, options, error, words):
    with pytest.raises(error, match=words) as caught:
        tck_kernel(X, **options)
    assert str(caught.value).startswith("tck_kernel: ")
