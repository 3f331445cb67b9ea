"""Surrogates: every fast path gives what evaluating the score anew gives."""

import numpy as np
import pytest

import condcs
from condcs.causal import ConditionalCS, Embedding, ShiftedWindows, causal_graph, causal_test
from condcs.causal._gram_scores import reordered_gram_scores, window_gram_scores
from condcs.causal._link_tests import block_permutations, spread_windows
from condcs.causal._series import CausalProblem, Link, Series
from condcs.datasets import make_henon_chain, make_nlvar3


@pytest.fixture
def problem(rng):
    values = rng.normal(size=(3, 230)).cumsum(axis=1) * 0.2
    series = tuple(Series(f"x{i}", np.ascontiguousarray(v[:, None])) for i, v in enumerate(values))
    return CausalProblem(series, Embedding(order=2, lag=2, delay=3), (Link(0, 1), Link(2, 1, (0,)), Link(1, 0)))


def direct(problem, link, widths, target_rows, source_rows, form):
    target, condition, source = problem.parts(link)
    e = problem.embedding
    x1 = [widths[link.target]] * e.order_y + [widths[z] for z in link.conditioning_set for _ in range(e.order_x)]
    return condcs.conditional_cs_predictors(
        target[target_rows],
        condition[target_rows],
        source[source_rows],
        bandwidth_y=widths[link.target],
        bandwidth_x1=x1,
        bandwidth_x2=widths[link.source],
        form=form,
    )


@pytest.mark.parametrize("form", ["corrected", "paper"])
@pytest.mark.parametrize("window", [20, 100, 224])
def test_windows_equal_the_score_of_the_cut_series(problem, window, form):
    """Bands, shared exponentials and squared kernels against the tiled measure on slices."""
    widths, levels = np.array([1.5, 2.0, 1.0]), np.array([0, 3, 1])
    last = problem.rows - window
    starts = np.array([(0, 0), (last, 0), (last // 2, last)])
    got = window_gram_scores(problem, widths, levels, starts, window, form)
    for row, link, level in zip(got, problem.links, levels, strict=True):
        narrow = widths * 2 ** (-level / 2)
        expected = [direct(problem, link, narrow, slice(j, j + window), slice(i, i + window), form) for i, j in starts]
        np.testing.assert_allclose(row, expected, rtol=1e-8, atol=1e-10)


def test_orders_equal_the_score_of_the_permuted_source(problem, rng):
    widths, level, link = np.array([1.5, 2.0, 1.0]), 2, problem.links[1]
    orders = rng.permuted(np.tile(np.arange(problem.rows), (3, 1)), axis=1)
    got = reordered_gram_scores(problem, widths, link, level, orders, "corrected")
    expected = [direct(problem, link, widths / 2, slice(None), order, "corrected") for order in orders]
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)


def test_windows_of_an_offset_are_spread_over_where_both_fit():
    """Windows of 40 in 100 rows: at offset 0 starts run from 0 to 60; with x 20 later, from 0 to 40 for y."""
    starts = spread_windows(np.array([[25, 5], [0, 30]]), 100, 40, 3).reshape(3, 3, 2)
    assert starts[0].tolist() == [[0, 0], [30, 30], [60, 60]]
    assert starts[1].tolist() == [[20, 0], [40, 20], [60, 40]]
    assert starts[2].tolist() == [[0, 30], [15, 45], [30, 60]]


def test_statistic_is_the_mean_over_windows(rng):
    x, y = rng.normal(size=(2, 121))
    measure = ConditionalCS(bandwidth=1.0)
    several = causal_test(
        x, y, embedding=1, measure=measure, null=ShiftedWindows(40, n_windows=3), n_resamples=5, rng=0
    )
    alone = [
        causal_test(x[s : s + 41], y[s : s + 41], embedding=1, measure=measure, n_resamples=1, rng=0).details["score"]
        for s in (0, 40, 80)
    ]
    assert several.statistic == pytest.approx(np.mean(alone), rel=1e-10)
    first = causal_test(x, y, embedding=1, measure=measure, null=ShiftedWindows(40, n_windows=1), n_resamples=5, rng=0)
    assert first.statistic == pytest.approx(alone[0], rel=1e-10)


def test_blocks_change_places_whole(problem, rng):
    orders = block_permutations(problem, problem.links[0], 7, 5, rng)
    whole = problem.rows - problem.rows % 7
    blocks = orders[:, :whole].reshape(5, -1, 7)
    assert (np.diff(blocks, axis=2) == 1).all()
    assert (blocks[:, :, 0] % 7 == 0).all()
    assert (orders[:, whole:] == np.arange(whole, problem.rows)).all()


@pytest.mark.parametrize("null", ["windows", "circular", "local"])
@pytest.mark.parametrize("measure", ["conditional_cs", "linear_granger", "kernel_granger", "transfer_entropy"])
def test_every_measure_has_every_null(measure, null):
    x1, x2, _ = make_nlvar3(160, rng=1).series.T
    result = causal_test(x1, x2, measure=measure, null=null, n_resamples=19, rng=0)
    assert result.null_distribution.shape == (19,)
    assert np.isfinite(result.null_distribution).all()
    reached = np.sum(result.null_distribution >= result.statistic - 1e-10)
    assert result.pvalue == pytest.approx((1 + reached) / 20)


def test_same_seed_same_answer_whatever_the_threads():
    series = make_henon_chain(300, n_maps=3).series
    first, second = (causal_graph(series, embedding=2, n_resamples=30, rng=4, n_jobs=jobs) for jobs in (1, 3))
    assert np.array_equal(first.null_distributions, second.null_distributions, equal_nan=True)
    other = causal_graph(series, embedding=2, n_resamples=30, rng=5)
    assert not np.array_equal(first.null_distributions, other.null_distributions, equal_nan=True)


def test_batches_of_links_change_nothing(monkeypatch):
    series = make_henon_chain(200, n_maps=3).series
    together = causal_graph(series, n_resamples=10, rng=0)
    monkeypatch.setattr("condcs.causal._gram_scores.SUMS_BUDGET", 1)
    apart = causal_graph(series, n_resamples=10, rng=0)
    assert np.array_equal(together.null_distributions, apart.null_distributions, equal_nan=True)


def test_graph_and_single_tests_agree():
    data = make_nlvar3(300, rng=2)
    options = {"null": "windows", "n_resamples": 20, "rng": 7}
    graph = causal_graph(data.series, **options)
    alone = causal_test(data.series[:, 0], data.series[:, 2], **options)
    assert graph.statistics[0, 2] == pytest.approx(alone.statistic, rel=1e-12)
    assert graph.scores[0, 2] == pytest.approx(alone.details["score"], rel=1e-12)
    assert graph.pvalues[0, 2] == alone.pvalue
    np.testing.assert_allclose(graph.null_distributions[0, 2], alone.null_distribution, rtol=1e-12)
