"""`two_sample_test` by all views: against the plain measure, exact under permutation, and powerful in few columns."""

import numpy as np
import pytest

import condcs
from condcs.exceptions import ParameterError


def test_with_as_many_landmarks_as_rows_the_divergence_is_that_of_the_measure():
    """Low-rank features of 100 rows with 100 landmarks give the kernel itself, but for the smallest eigenvalues."""
    rng = np.random.default_rng(0)
    yp, yq = rng.normal(size=(60, 2)), rng.normal(0.6, 1.2, size=(40, 2))
    result = condcs.two_sample_test(yp, yq, n_resamples=39, rng=0)
    values = dict(zip(result.details["views"], result.details["statistics"], strict=True))
    median = condcs.bandwidth(yp, yq)
    for multiple in (0.25, 0.5, 1.0, 2.0):
        expected = float(condcs.cs(yp, yq, bandwidth=multiple * median))
        assert values[f"bandwidth {multiple:g} x median"] == pytest.approx(expected, rel=1e-4)
    assert result.divergence in values.values()
    low, high = result.confidence_interval(rng=1)
    assert low <= result.divergence <= high


def test_a_shift_of_one_of_many_columns_is_found_where_the_measure_alone_does_not():
    """One of 40 columns moves by 0.6 deviations: 6 standard errors."""
    rng = np.random.default_rng(5)
    yp, yq = rng.normal(size=(2, 200, 40))
    yq[:, 3] += 0.6
    every = condcs.two_sample_test(yp, yq, n_resamples=199, rng=0)
    alone = condcs.two_sample_test(yp, yq, measure="cs", n_resamples=199, rng=0)
    assert every.pvalue == 1 / 200
    assert every.details["best_view"] == "each column"
    assert alone.pvalue > 0.05


def test_a_correlation_is_found_by_products():
    rng = np.random.default_rng(6)
    yp, yq = rng.normal(size=(2, 300, 8))
    yq[:, 0] = 0.6 * yq[:, 1] + 0.8 * yq[:, 0]
    result = condcs.two_sample_test(yp, yq, n_resamples=199, rng=0)
    assert result.pvalue == 1 / 200
    assert result.details["best_view"] == "pairs of columns"


def test_labels_are_compared_by_their_shares():
    rng = np.random.default_rng(7)
    yp = np.column_stack([rng.normal(size=150), rng.integers(0, 3, size=150)])
    yq = np.column_stack([rng.normal(size=150), rng.integers(0, 3, size=150)])
    same = condcs.two_sample_test(yp, yq, kernel=("gaussian", "delta"), n_resamples=99, rng=0)
    yq[:60, 1] = 2
    moved = condcs.two_sample_test(yp, yq, kernel=("gaussian", "delta"), n_resamples=99, rng=0)
    assert same.pvalue > 0.05
    assert moved.pvalue == 1 / 100


def test_permuted_clusters_keep_the_level_that_rows_do_not():
    """Six rows of each of 20 + 20 clusters share their mean: 60 unchanged samples at level 0.05.

    More than 9 rejections by cluster have probability below 0.001; by row nearly every sample is rejected.
    """
    rng = np.random.default_rng(8)
    clusters = np.repeat(np.arange(20), 6)
    by_cluster, by_row = 0, 0
    for seed in range(60):
        yp, yq = (np.repeat(rng.normal(size=20), 6) + 0.3 * rng.normal(size=120) for _ in range(2))
        of_clusters = condcs.two_sample_test(yp, yq, clusters_p=clusters, clusters_q=clusters, n_resamples=39, rng=seed)
        by_cluster += of_clusters.pvalue <= 0.05
        by_row += condcs.two_sample_test(yp, yq, n_resamples=39, rng=seed).pvalue <= 0.05
    assert by_cluster <= 9
    assert by_row >= 30


def test_weights_bring_a_sample_back():
    """Twice as many rows of one half of y, at half the weight, are the same distribution."""
    rng = np.random.default_rng(9)
    yp = rng.normal(size=400)
    yq = rng.normal(size=600)
    yq = np.concatenate([yq, np.abs(rng.normal(size=300))])
    weights_q = np.where(yq > 0, 0.5, 1.0)
    plain = condcs.two_sample_test(yp, yq, n_resamples=99, rng=0)
    weighted = condcs.two_sample_test(yp, yq, weights_p=np.ones(400), weights_q=weights_q, n_resamples=99, rng=0)
    assert plain.pvalue == 1 / 100
    assert weighted.pvalue > 0.05


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"bandwidth": 1.0}, "Pass measure='cs'"),
        ({"measure": "cs", "clusters_p": np.arange(30)}, "Leave one of the two out"),
        ({"weights_p": np.ones(30)}, "Pass ones"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, remedy):
    y = np.random.default_rng(10).normal(size=(2, 30))
    with pytest.raises(ParameterError, match=remedy):
        condcs.two_sample_test(*y, n_resamples=9, **options)
