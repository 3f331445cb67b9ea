"""Large pools: chunks of rows and anchors, against all pairs of rows and against formulas written out."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import condcs
from condcs._inference.independence_tests import XKernel, predictor_statistic
from condcs._inference.responses import adjusted_response
from condcs._inference.statistics import (
    AnchoredConditional,
    MassAnchors,
    TestedMeasure,
    drawn_by_mass,
    pool_statistic,
    total_divergence,
)
from condcs._inference.views import AnchoredViews, views_of_samples
from condcs._measures.inputs import Inputs
from condcs._measures.registry import MEASURES
from condcs._parallel import many_rows
from condcs._parallel.many_rows import chunks
from condcs._regression.smoother import Smoother

VARIANTS = [
    ("conditional_cs", {}, 2),
    ("conditional_cs", {}, 3),
    ("conditional_cs", {"estimator": "pooled"}, 2),
    ("conditional_cs", {"estimator": "p"}, 2),
    ("conditional_cs", {"bandwidth_x": 0.3, "kernel_y": "laplacian"}, 2),
    ("conditional_euclidean", {}, 2),
]


def _pool(name, options, groups, weighted=False, rows=60):
    rng = np.random.default_rng(0)
    xs = [(f"x{g}", rng.normal(size=(rows, 2)) + 0.3 * g) for g in range(groups)]
    ys = [(f"y{g}", x[:, :1] + rng.normal(size=(rows, 1)) + 0.5 * g) for g, (_, x) in enumerate(xs)]
    weights = [(f"w{g}", rng.random(rows)) for g in range(groups)] if weighted else None
    return TestedMeasure(MEASURES[name], options).pool(xs, ys, weights)


def _labels(pool, count=5):
    rng = np.random.default_rng(1)
    return np.vstack([pool.labels, rng.permuted(np.tile(pool.labels, (count, 1)), axis=1)])


@pytest.fixture
def many_chunks(monkeypatch):
    """Cut all sums over rows into chunks of 32."""
    monkeypatch.setattr(many_rows, "chunks", lambda rows, size: chunks(rows, 32))
    monkeypatch.setattr("condcs._regression.smoother.ROWS_AT_ONCE", 32)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("name", "options", "groups"), VARIANTS)
def test_the_divergence_is_exact_where_every_row_is_an_anchor_or_a_landmark(
    name, options, groups, weighted, many_chunks
):
    """All rows as anchors, or all as landmarks: nothing is left to approximate, for any labelling."""
    pool = _pool(name, options, groups, weighted)
    n, labels = sum(pool.sizes), _labels(pool)
    exact = pool_statistic(pool)(labels)
    for every in (
        MassAnchors(np.arange(n), np.ones(n), np.arange(0, n, 7)),
        MassAnchors(np.arange(0, n, 3), np.full(len(range(0, n, 3)), 3.0), np.arange(n)),
    ):
        found = AnchoredConditional(replace(pool, mass_anchors=every))(labels)
        # The pseudo-inverse leaves out eigenvalues below 1e-9 of the largest.
        np.testing.assert_allclose(found, exact, atol=1e-6 if len(every.landmarks) == n else 1e-10)


def test_bootstrap_samples_of_a_large_pool_are_those_of_all_pairs():
    pool = _pool("conditional_cs", {}, 2)
    rows = [np.random.default_rng(seed).integers(0, 60, 120) + np.repeat([0, 60], 60) for seed in range(4)]
    every = MassAnchors(np.arange(120), np.ones(120), np.arange(0, 120, 7))
    found = AnchoredConditional(replace(pool, mass_anchors=every)).redrawn(rows)
    np.testing.assert_allclose(found, pool_statistic(pool).redrawn(rows), atol=1e-10)


def test_the_divergence_by_anchors_is_right_on_average_even_where_low_rank_fails():
    """Narrow kernels in six dimensions: the expectation over anchors is the exact interaction."""
    rng = np.random.default_rng(2)
    xs = [(name, rng.normal(size=(200, 6))) for name in ("xp", "xq")]
    ys = [(name, x[:, :1] + rng.normal(size=(200, 1))) for name, (_, x) in zip(("yp", "yq"), xs, strict=True)]
    pool = TestedMeasure(MEASURES["conditional_euclidean"], {"bandwidth_x": 0.7}).pool(xs, ys)
    exact = total_divergence(pool.observed(), symmetric=True)
    found = []
    for seed in range(60):
        draw = np.random.default_rng(seed)
        pilot = np.sort(draw.choice(400, 100, replace=False))
        anchored = replace(pool, mass_anchors=drawn_by_mass(pool, pilot, draw))
        found.append(pool_statistic(anchored)(pool.labels[None])[0])
    # The mean of 60 lies within 4 standard errors: once in 15,000 cases it does not.
    assert abs(np.mean(found) - exact) < 4 * np.std(found, ddof=1) / np.sqrt(60)


def _views(categories=False):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(90, 2))
    if categories:
        x[:, 1] = rng.integers(3, size=90)
    smoother = Smoother(x, [False, categories])
    response = adjusted_response(x[:, :1] + rng.normal(size=(90, 1)), [False], smoother)
    chance = np.linspace(0.3, 0.7, 90)
    return views_of_samples(response, smoother, np.column_stack([1 - chance, chance])), rng


@pytest.mark.parametrize("categories", [False, True])
def test_views_by_anchors_are_their_formulas(categories, many_chunks):
    views, rng = _views(categories)
    rows = np.sort(rng.choice(90, 20, replace=False))
    u = rng.integers(2, size=(90, 4)) - rng.uniform(size=(90, 1))
    found = dict(zip(views.names, AnchoredViews(views, rows)(lambda r: [u[r]]), strict=True))
    all_pairs = dict(zip(views.names, views([u]), strict=True))
    for name in (*views.sums, *views.largest):
        np.testing.assert_allclose(found[name], all_pairs[name])
    numbers, codes = views.smoother.numbers, views.smoother.categories
    squared = ((numbers[:, None] - numbers) ** 2).sum(-1)
    same = 1.0
    if categories:
        equal = codes[0][:, None] == codes[0]
        counterparts = equal.sum() / len(equal) - 1  # on average over the rows
        same = np.where(equal, 1.0, 1 / (1 + len(np.unique(codes[0])) * counterparts))
    for name, (bandwidth, (features,)) in views.kernels.items():
        spectrum, turn = np.linalg.eigh(features.T @ features / 90)
        kept = spectrum > 1e-6 * spectrum[-1]
        white = features @ (turn[:, kept] / np.sqrt(spectrum[kept])) @ turn[:, kept].T
        h = (np.exp(-squared / (views.unit * bandwidth**2)) * same * (white @ features.T))[rows]
        kernel = h.T @ h
        diagonal = np.diag(kernel)
        pairs = np.einsum("ip,ij,jp->p", u, kernel, u) - diagonal @ u**2
        variance = views.variances[:, 0]
        scale = np.sum(u**2, axis=0) / np.sum(variance)
        squares = (diagonal @ u**2 + diagonal @ variance * scale) / 2
        np.testing.assert_allclose(found[name], pairs / squares, rtol=1e-6)


def test_the_kernel_of_the_anchors_is_close_to_that_of_all_pairs():
    """Over redrawn labels the two statistics go together: the anchors stand for all rows."""
    views, rng = _views()
    u = rng.integers(2, size=(90, 300)) - 0.5
    by_anchors = AnchoredViews(views, np.arange(90))(lambda rows: [u[rows]])
    for name in views.kernels:
        place = views.names.index(name)
        # Two statistics that have nothing to do with each other would correlate by less than 0.2 in 300 draws.
        assert np.corrcoef(by_anchors[place], views([u])[place])[0, 1] > 0.8


def test_chunks_of_rows_change_nothing_but_rounding(monkeypatch):
    rng = np.random.default_rng(4)
    xp, xq = rng.normal(size=(70, 2)), rng.normal(size=(80, 2)) + 0.4
    data = xp, xp[:, 0] + rng.normal(size=70), xq, xq[:, 0] + rng.normal(size=80)
    whole = condcs.conditional_test(*data, n_resamples=19, rng=0)
    monkeypatch.setattr(many_rows, "chunks", lambda rows, size: chunks(rows, 32))
    monkeypatch.setattr("condcs._regression.smoother.ROWS_AT_ONCE", 32)
    cut = condcs.conditional_test(*data, n_resamples=19, rng=0)
    assert cut.pvalue == whole.pvalue
    np.testing.assert_allclose(cut.details["statistics"], whole.details["statistics"], rtol=1e-6)


def test_regressions_of_many_rows_are_those_of_few(monkeypatch):
    """Single precision and a choice by some of the rows: nearly the same residuals, with noise of 0.3."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 2))
    targets = np.column_stack([np.sin(2 * x[:, 0]), x[:, 0] * x[:, 1]]) + 0.3 * rng.normal(size=(400, 2))
    few = Smoother(x, [False, False]).residuals(targets)
    monkeypatch.setattr(many_rows, "EXACT_ROWS", 100)
    monkeypatch.setattr("condcs._regression.smoother._MOST_JUDGED_ROWS", 300)
    large = Smoother(x, [False, False])
    assert large.designs[0].basis.dtype == np.float32
    for found, expected in zip(large.residuals(targets), few, strict=True):
        assert np.all(np.sqrt(np.mean((found - expected) ** 2, axis=0)) < 0.05)
    monkeypatch.setattr("condcs._regression.smoother._MOST_JUDGED_ROWS", 400)
    for found, expected in zip(Smoother(x, [False, False]).residuals(targets), few, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.fixture
def small_limit(monkeypatch):
    """Treat 100 rows as many: validity does not depend on the number."""
    monkeypatch.setattr(many_rows, "EXACT_ROWS", 50)
    monkeypatch.setattr(many_rows, "ANCHORS", 40)
    monkeypatch.setattr("condcs._inference.independence_tests.ORDER_ANCHORS", 40)


def _shifted(seed, n=60, change=0.0):
    rng = np.random.default_rng([seed, 6])
    xp, xq = rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + 0.5
    yp, yq = (np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] ** 2 + 0.5 * rng.normal(size=n) for x in (xp, xq))
    return xp, yp, xq, yq + change


def test_the_level_holds_by_anchors_where_x_has_shifted(small_limit):
    pvalues = [condcs.conditional_test(*_shifted(seed), n_resamples=39, rng=seed).pvalue for seed in range(50)]
    # Binomial(50, 0.05) exceeds 9 in 1 of 6,000 cases.
    assert sum(p <= 0.05 for p in pvalues) <= 9


@pytest.mark.parametrize("null", ["permutation", "local", "propensity"])
def test_the_measure_alone_by_anchors_finds_a_change_and_says_what_it_used(null, small_limit):
    data = _shifted(0, n=100, change=1.0)
    found = condcs.conditional_test(*data, views="measure", null=null, n_resamples=39, rng=0)
    assert found.pvalue == 1 / 40
    assert found.diagnostics["anchors"] == 40
    estimate = found.estimate(rng=0, n_resamples=20)
    assert 0 < estimate.low < estimate.value < estimate.high


def test_the_answer_by_anchors_is_the_same_whatever_threads(small_limit):
    one, three = (condcs.conditional_test(*_shifted(1), n_resamples=39, rng=0, n_jobs=jobs) for jobs in (1, 3))
    assert one == three
    assert one.diagnostics["anchors"] == 40


@pytest.mark.parametrize("views", ["all", "measure"])
def test_what_is_done_is_reported_as_it_is_made(views, small_limit, many_chunks, monkeypatch):
    """A first report after most of the work made a test of minutes look like one of days."""
    reported = []

    @contextmanager
    def recorded(total, wanted, title, *, remedy=None):
        yield reported.append

    monkeypatch.setattr("condcs._inference.resampling.progress_bar", recorded)
    condcs.conditional_test(*_shifted(3), views=views, n_resamples=39, rng=0)
    # The labels as given and 39 resamples.
    assert sum(reported) == pytest.approx(40)
    assert max(reported) <= 0.2 * 40


def test_few_rows_have_no_anchors():
    found = condcs.conditional_test(*_shifted(2), n_resamples=19, rng=0)
    assert "anchors" not in found.diagnostics


def test_many_rows_see_what_a_sample_of_them_does_not():
    """A shift of 0.1 standard deviations: z = 0.1 sqrt(12,000) / 2 = 5.5 with all rows, 1.2 with 600 of them."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(2, 6_000, 2)) + np.array([0.0, 0.3])[:, None, None]
    y = np.sin(x[..., 0]) + rng.normal(size=(2, 6_000)) + np.array([0.0, 0.1])[:, None]
    found = condcs.conditional_test(x[0], y[0], x[1], y[1], n_resamples=99, rng=0)
    assert found.pvalue == 0.01
    assert found.diagnostics["anchors"] == 1_000
    few = condcs.conditional_test(x[0, :300], y[0, :300], x[1, :300], y[1, :300], n_resamples=99, rng=0)
    assert few.pvalue > 0.05


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("given", [False, True])
def test_prop_4_with_all_rows_as_anchors_is_that_of_all_pairs(columns, given, many_chunks):
    rng = np.random.default_rng(8)
    n = 70
    inputs = Inputs.of(np.zeros(1))
    y, z, x = (
        inputs.kernel_variable([(name, rng.normal(size=(n, d)))], f"_{name}", "gaussian", "median")
        for name, d in (("y", 1), ("z", 2), ("x", columns))
    )
    orders = np.array([np.arange(n), *(rng.permutation(n) for _ in range(3))])
    statistic = partial(predictor_statistic, y.kernel, z.kernel if given else None, [XKernel(x)], n, "corrected")
    np.testing.assert_allclose(statistic(np.arange(n))(orders), statistic()(orders), rtol=1e-9)


@pytest.mark.parametrize("null", ["signs", "local"])
def test_independence_by_anchors_keeps_its_level_and_sees_dependence(null, small_limit):
    rejected = {0.0: 0, 1.0: 0}
    for slope in rejected:
        for seed in range(16):
            rng = np.random.default_rng([seed, 9])
            z, noise, x = rng.normal(size=(3, 100))
            x = z + x
            found = condcs.independence_test(x, z**2 + slope * x + noise, given=z, null=null, n_resamples=19, rng=seed)
            assert found.diagnostics["anchors"] == 40
            rejected[slope] += found.pvalue <= 0.05
    # Binomial(16, 0.05) exceeds 5 in 1 of 10,000 cases.
    assert rejected[0.0] <= 5
    assert rejected[1.0] >= 13
