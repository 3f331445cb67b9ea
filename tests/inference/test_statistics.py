"""Every fast statistic equals the plain way, labelling by labelling."""

from itertools import pairwise

import numpy as np
import pytest

from condcs._core.settings import config_context
from condcs._inference.statistics import Regrouped, TestedMeasure, pool_statistic, total_divergence
from condcs._measures.registry import MEASURES

VARIANTS = [(name, {}) for name in MEASURES] + [
    ("cs", {"estimator": "plugin"}),
    ("mmd", {"unbiased": True}),
    ("joint_mmd", {"unbiased": True}),
    ("conditional_cs", {"estimator": "pooled"}),
    ("conditional_cs", {"estimator": "p"}),
    ("conditional_cs", {"estimator": "q"}),
    ("conditional_cs", {"bandwidth_x": 0.02, "bandwidth_y": 0.05}),
    ("conditional_cs", {"kernel_x": "laplacian", "kernel_y": "laplacian"}),
    ("conditional_kl", {"k": 7}),
    ("conditional_kl", {"direction": "max"}),
    ("conditional_bregman", {"direction": "mean"}),
    ("conditional_bregman", {"generator": "log_det"}),
    ("conditional_bregman", {"matrix": "correntropy"}),
    ("conditional_mmd", {"regularization": 1.0}),
]


def make_pool(name, options, sizes, seed=0):
    rng = np.random.default_rng(seed)
    xs = [(f"x{g}", rng.normal(size=(n, 3))) for g, n in enumerate(sizes)]
    ys = [(f"y{g}", rng.normal(size=(n, 1))) for g, n in enumerate(sizes)]
    return TestedMeasure(MEASURES[name], options).pool(xs if MEASURES[name].takes_x else [], ys)


@pytest.mark.parametrize("sizes", [(40, 25), (25, 20, 15)], ids=["two", "three"])
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_fast_equals_plain(name, options, sizes):
    pool = make_pool(name, options, sizes)
    rng = np.random.default_rng(1)
    labels = np.array([rng.permutation(pool.labels) for _ in range(6)] + [pool.labels])
    fast, plain = pool_statistic(pool)(labels), Regrouped(pool)(labels)
    np.testing.assert_allclose(fast, plain, atol=1e-10)
    observed = total_divergence(pool.observed(), symmetric=pool.measure.symmetric)
    assert fast[-1] == pytest.approx(float(observed), abs=1e-10)


def test_groups_may_change_size():
    """A propensity null redraws sizes too."""
    pool = make_pool("conditional_cs", {}, (30, 30))
    labels = np.array([[0] * 10 + [1] * 50, [1] * 20 + [0] * 40], dtype=np.int8)
    np.testing.assert_allclose(pool_statistic(pool)(labels), Regrouped(pool)(labels), atol=1e-12)


@pytest.mark.parametrize("name", ["conditional_cs", "cs", "conditional_mmd"])
def test_batches_tiles_and_threads_do_not_matter(name, monkeypatch):
    from condcs._inference import statistics

    pool = make_pool(name, {}, (60, 50))
    rng = np.random.default_rng(2)
    labels = np.array([rng.permutation(pool.labels) for _ in range(9)])
    whole = pool_statistic(pool)(labels)
    monkeypatch.setattr(statistics, "_BATCH_FLOATS", 300)
    with config_context(n_threads=3, tile=16):
        np.testing.assert_allclose(pool_statistic(pool)(labels), whole, atol=1e-12)


@pytest.mark.parametrize("width", [0.01, 0.1, 1.0])
def test_masses_of_the_second_group_keep_their_digits(width):
    """Clusters far apart: a row's mass in the other group is 1 part in 1e40, or none; subtraction would lose it."""
    from condcs._inference.statistics import group_masses

    rng = np.random.default_rng(8)
    z = np.concatenate([rng.normal(size=60), 8 + rng.normal(size=60)])
    gram = np.exp(-((z[:, None] - z[None]) ** 2) / (2 * width**2))
    labels = (rng.random((120, 40)) < np.where(z < 4, 0.03, 0.97)[:, None]).astype(float)
    first, second = group_masses(gram, [1 - labels, labels])
    np.testing.assert_allclose(first, gram @ (1 - labels), rtol=1e-12)
    np.testing.assert_allclose(second, gram @ labels, rtol=1e-12)


def outlying_pool(sizes, **options):
    """Two rows far from all others, at different distances, and a few that are further apart than the rest."""
    rng = np.random.default_rng(3)
    n = sum(sizes)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
    x[0], x[-1], x[5:10] = 400.0, -900.0, 60 * rng.normal(size=(5, 2))
    spans = np.cumsum((0, *sizes))
    parts = [[(f"{name}{g}", v[a:b]) for g, (a, b) in enumerate(pairwise(spans))] for name, v in (("x", x), ("y", y))]
    return TestedMeasure(MEASURES["conditional_cs"], {"bandwidth_x": 0.5, "bandwidth_y": 1.0, **options}).pool(*parts)


@pytest.mark.parametrize(
    ("estimator", "sizes"),
    [("paper", (40, 30)), ("paper", (66, 4)), ("paper", (30, 25, 15)), ("pooled", (40, 30)), ("p", (40, 30))],
)
def test_one_outlier_does_not_redo_whole_labellings(monkeypatch, estimator, sizes):
    """Rows whose masses underflow are done again, and nothing else; the values are those of the plain way."""
    pool = outlying_pool(sizes, estimator=estimator)
    rng = np.random.default_rng(1)
    labels = np.array([rng.permutation(pool.labels) for _ in range(20)] + [pool.labels])
    members = [np.flatnonzero(pool.labels == g) for g in range(len(sizes))]
    rows = np.array([np.concatenate([rng.choice(m, len(m)) for m in members]) for _ in range(5)])
    fast, plain = pool_statistic(pool), Regrouped(pool)
    expected = plain(labels)
    redrawn = total_divergence(np.array([plain.pairs(pool.labels, r) for r in rows]), symmetric=True)
    monkeypatch.setattr(Regrouped, "pairs", lambda *a: pytest.fail("a whole labelling was done again"))
    np.testing.assert_allclose(fast(labels), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fast.redrawn(rows), redrawn, rtol=0, atol=1e-12)


def test_labellings_that_take_too_many_rounds_are_done_the_plain_way(monkeypatch):
    from condcs._inference import statistics

    pool = outlying_pool((66, 4))
    labels = np.array([np.random.default_rng(s).permutation(pool.labels) for s in range(20)])
    monkeypatch.setattr(statistics, "_ROUNDS", 1)
    np.testing.assert_allclose(pool_statistic(pool)(labels), Regrouped(pool)(labels), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::condcs._core.errors.OverlapWarning")
def test_rows_of_an_absent_category_add_nothing():
    rng = np.random.default_rng(4)
    x, y = np.repeat(["a", "b", "c"], [30, 27, 3])[:, None], rng.normal(size=(60, 1))
    order = rng.permutation(60)
    parts = [[(name, v[order[:40]]), (name, v[order[40:]])] for name, v in (("x", x), ("y", y))]
    pool = TestedMeasure(MEASURES["conditional_cs"], {"kernel_x": "delta", "bandwidth_y": 1.0}).pool(*parts)
    labels = np.array([rng.permutation(pool.labels) for _ in range(30)])
    np.testing.assert_allclose(pool_statistic(pool)(labels), Regrouped(pool)(labels), rtol=0, atol=1e-12)
