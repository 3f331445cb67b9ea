"""Rows with weights and rows that belong together: what labels are redrawn for, and what is summed."""

import numpy as np
import pytest

import condcs
from condcs._core.errors import CondcsWarning
from condcs._inference.propensities import fitted_propensity
from condcs._inference.resampling import Bootstrap
from condcs._inference.responses import adjusted_response
from condcs._inference.statistics import Regrouped, TestedMeasure, pool_statistic
from condcs._inference.views import views_of_samples
from condcs._inference.weights_and_clusters import with_weights_and_clusters
from condcs._measures.registry import MEASURES
from condcs._regression.designs import designs_of_clusters
from condcs._regression.ridge import ClusterMeans
from condcs._regression.smoother import Smoother
from condcs.exceptions import BalanceWarning, CondcsError, OverlapWarning


def _sample(rng, *, shift=0.0, clusters=30, size=4, effect=0.0):
    """Rows of a cluster share an effect of standard deviation 1, the noise of a row has 0.5; x varies within."""
    of_rows = np.repeat(np.arange(clusters), size)
    x = rng.normal(size=(len(of_rows), 2)) + shift
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] ** 2 + rng.normal(size=clusters)[of_rows] + 0.5 * rng.normal(size=len(x))
    return x, y + effect, of_rows


def _pair(seed, **options):
    rng = np.random.default_rng([seed, 1])
    return _sample(rng), _sample(rng, shift=0.25, **options)


@pytest.mark.parametrize("name", ["conditional_cs", "conditional_euclidean"])
def test_weighted_labellings_are_those_of_the_plain_way(name):
    rng = np.random.default_rng(0)
    xs = [(f"x{g}", rng.normal(size=(30, 2))) for g in range(2)]
    ys = [(f"y{g}", rng.normal(size=(30, 1))) for g in range(2)]
    pool = TestedMeasure(MEASURES[name], {}).pool(xs, ys, [(f"w{g}", rng.random(30)) for g in range(2)])
    labels = np.array([pool.labels, *(rng.permutation(pool.labels) for _ in range(4))])
    fast = pool_statistic(pool)(labels)
    np.testing.assert_allclose(fast, Regrouped(pool)(labels), atol=1e-12)
    w = np.asarray(pool.problem.groups.weights)
    expected = MEASURES[name](xs[0][1], ys[0][1], xs[1][1], ys[1][1], weights_p=w[:30], weights_q=w[30:])
    assert fast[0] == pytest.approx(float(expected), abs=1e-12)


def test_views_of_weighted_clusters_are_their_formulas():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 2))
    smoother = Smoother(x, [False, False])
    response = adjusted_response(x[:, :1] + rng.normal(size=(60, 1)), [False], smoother)
    clusters, weights = np.repeat(np.arange(20), 3), rng.random(60)
    plain = views_of_samples(response, smoother, np.full((60, 2), 0.5))
    views = with_weights_and_clusters(plain, weights, clusters)
    u = np.repeat(rng.integers(2, size=(20, 3)) - 0.5, 3, axis=0)
    found = dict(zip(views.names, views([u]), strict=True))
    by_cluster = (weights * response.columns[:, 0]).reshape(20, 3).sum(axis=1)
    np.testing.assert_allclose(found["mean"], (by_cluster @ u[::3]) ** 2 / (0.25 * np.sum(by_cluster**2)))
    # The weights of a pair of rows multiply their kernel: the same sum over pairs, measured by another diagonal.
    kernels = dict(zip(plain.names, plain([u * weights[:, None]]), strict=True))
    diagonal = (plain.kernels["local"][1][0] ** 2).sum(axis=1)
    squares = (u * weights[:, None]) ** 2
    pairs = kernels["local"] * (diagonal @ squares + diagonal.sum() * np.mean(squares, axis=0)) / 2
    np.testing.assert_allclose(found["local"], pairs / (0.25 * diagonal @ weights**2))


def test_weights_of_one_and_clusters_of_one_row_change_nothing():
    (xp, yp, _), (xq, yq, _) = _pair(2)
    data, options = (xp, yp, xq, yq), {"n_resamples": 39, "rng": 0}
    plain = condcs.conditional_test(*data, **options)
    ones = condcs.conditional_test(*data, weights_p=np.ones(120), weights_q=np.full(120, 5.0), **options)
    alone = condcs.conditional_test(*data, clusters_p=np.arange(120), clusters_q=np.arange(120), **options)
    for found in (ones, alone):
        assert found.pvalue == plain.pvalue
        np.testing.assert_allclose(found.details["statistics"], plain.details["statistics"], rtol=1e-6)
    assert alone.diagnostics["clusters"] == (120, 120)
    assert "clusters" not in plain.diagnostics


def test_the_unit_of_the_weights_of_a_sample_says_nothing():
    """Even where x has shifted, so that equal functions of x have other means."""
    (xp, yp, _), (xq, yq, _) = _pair(3)
    found = [
        condcs.conditional_test(
            xp, yp, xq, yq, weights_p=np.exp(xp[:, 0]), weights_q=unit * np.exp(xq[:, 0]), n_resamples=39, rng=0
        )
        for unit in (1.0, 1e6)
    ]
    assert found[0].pvalue == found[1].pvalue
    assert found[0].divergence == pytest.approx(found[1].divergence)
    np.testing.assert_allclose(found[0].details["statistics"], found[1].details["statistics"], rtol=1e-9)


def test_a_row_without_weight_is_not_looked_at():
    """A change in rows of weight 0 is none."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2, 150, 1))
    y = rng.normal(size=(2, 150))
    far = x[..., 0] > 0
    y[1, far[1]] += 3.0
    options = {"n_resamples": 99, "rng": 0}
    assert condcs.conditional_test(x[0], y[0], x[1], y[1], **options).pvalue == 0.01
    weights = {"weights_p": np.where(far[0], 0.0, 1.0), "weights_q": np.where(far[1], 0.0, 1.0)}
    assert condcs.conditional_test(x[0], y[0], x[1], y[1], **weights, **options).pvalue > 0.05


def test_the_level_holds_with_weights_where_x_has_shifted():
    rejected = 0
    for seed in range(50):
        rng = np.random.default_rng([seed, 5])
        xp, xq = rng.normal(size=(70, 1)), rng.normal(size=(70, 1)) + 0.5
        yp, yq = (np.sin(2 * x[:, 0]) + 0.5 * rng.normal(size=70) for x in (xp, xq))
        weights = {"weights_p": np.exp(xp[:, 0]), "weights_q": 50 * np.exp(xq[:, 0])}
        rejected += condcs.conditional_test(xp, yp, xq, yq, **weights, n_resamples=39, rng=seed).pvalue <= 0.05
    # Binomial(50, 0.05) exceeds 9 in 1 of 6,000 cases.
    assert rejected <= 9


def _few_weights(rng, x, values):
    """Return weights of few values, larger ones where x is: what x says of them leaves an error in their unit."""
    ranks = np.clip(x[:, 0] + rng.normal(size=len(x)), -1.5, 1.5)
    return values[np.digitize(ranks, np.linspace(-1.5, 1.5, len(values) + 1)[1:-1])]


@pytest.mark.parametrize("values", [(1.0, 2.0), (1.0, 2.0, 3.0, 4.0, 5.0), (0.8, 1.3), (100.0, 300.0)])
@pytest.mark.parametrize("unit", [1.0, 7.0])
def test_weights_of_few_values_hide_no_change(values, unit):
    """The error of the unit set all weights of one sample apart: no overlap, and no power, where both were plain."""
    rng = np.random.default_rng(12)
    xp, xq = rng.normal(size=(2, 300, 2))
    yp, yq = (x[:, 0] + rng.normal(size=300) for x in (xp, xq))
    weights = [_few_weights(rng, x, np.array(values)) for x in (xp, xq)]
    options = {"weights_p": weights[0], "weights_q": unit * weights[1], "n_resamples": 199, "rng": 0}
    found = condcs.conditional_test(xp, yp, xq, yq + 1.0, **options)
    assert found.pvalue <= 0.02
    # Of 600 rows whose samples are alike in x and in weights nearly all count.
    assert found.diagnostics["effective_rows"] > 500


def test_the_level_holds_with_weights_of_few_values():
    rejected = 0
    for seed in range(50):
        rng = np.random.default_rng([seed, 13])
        xp, xq = rng.normal(size=(70, 1)), rng.normal(size=(70, 1)) + 0.5
        yp, yq = (np.sin(2 * x[:, 0]) + 0.5 * rng.normal(size=70) for x in (xp, xq))
        weights_p, weights_q = (_few_weights(rng, x, np.array([1.0, 2.0, 5.0])) for x in (xp, xq))
        options = {"weights_p": weights_p, "weights_q": 50 * weights_q, "n_resamples": 39, "rng": seed}
        rejected += condcs.conditional_test(xp, yp, xq, yq, **options).pvalue <= 0.05
    # Binomial(50, 0.05) exceeds 9 in 1 of 6,000 cases.
    assert rejected <= 9


def test_rows_that_belong_together_break_the_level_unless_labels_are_redrawn_by_cluster():
    plain = together = 0
    for seed in range(40):
        (xp, yp, p), (xq, yq, q) = _pair(seed)
        options = {"n_resamples": 39, "rng": seed}
        together += condcs.conditional_test(xp, yp, xq, yq, clusters_p=p, clusters_q=q, **options).pvalue <= 0.05
        plain += condcs.conditional_test(xp, yp, xq, yq, **options).pvalue <= 0.05
    # Binomial(40, 0.05) exceeds 8 in 1 of 7,000 cases.
    assert together <= 8
    # Four rows of a cluster with a correlation of 0.8 multiply variances of means by 3.4: z beyond 1.96 / 1.84 is
    # found in 29% of the cases by the view of the mean alone, which is at least 5 of 40 in 99% of the trials.
    assert plain >= 5


def test_a_change_is_found_by_clusters():
    (xp, yp, p), (xq, yq, q) = _pair(6, effect=1.5)
    found = condcs.conditional_test(xp, yp, xq, yq, clusters_p=p, clusters_q=q.astype(str), n_resamples=99, rng=0)
    assert found.pvalue <= 0.02
    assert found.diagnostics["clusters"] == (30, 30)


def test_whole_clusters_change_sides_with_the_probability_of_their_x():
    rng = np.random.default_rng(7)
    clusters = np.repeat(np.arange(60), 4)
    labels = np.repeat([0, 1], 120)
    x = np.repeat(rng.normal(size=(60, 1)), 4, axis=0) + 0.8 * labels[:, None]
    means = ClusterMeans(clusters)
    units = designs_of_clusters(Smoother(x, [False]).designs, means)
    found = fitted_propensity(units, labels[means.first_rows], 2, rng, clusters)
    drawn = found.draw(200, rng)
    assert drawn.shape == (200, 240)
    assert np.array_equal(drawn, drawn[:, means.first_rows][:, clusters])
    share = drawn[:, means.first_rows].mean(axis=0)
    # 200 draws: a share is off by more than 0.16 (4.5 standard deviations) once in 100,000.
    assert np.abs(share - found.probabilities[:, 1]).max() < 0.16
    u = found.surprises_by_rows(drawn)(slice(None))[0]
    assert u.shape == (240, 200)
    np.testing.assert_array_equal(u, u[means.first_rows][clusters])


def test_fits_are_judged_by_clusters_left_out(monkeypatch):
    """Exact where x is the same for all rows of a cluster: fits made again without each cluster."""
    rng = np.random.default_rng(8)
    clusters = np.repeat(np.arange(12), rng.integers(2, 6, size=12))
    x = rng.normal(size=(12, 1))[clusters]
    y = x**2 + 0.3 * rng.normal(size=(len(x), 1))
    monkeypatch.setattr("condcs._regression.smoother.RIDGE_PENALTIES", np.array([2.0]))
    smoother = Smoother(x, [False], clusters)
    smoother.designs = smoother.designs[:1]
    monkeypatch.setattr("condcs._regression.ridge.MOST_FREEDOM", 1.0)
    _, left_out = smoother.residuals(y)
    functions = smoother.designs[0].functions
    for cluster in range(12):
        kept = clusters != cluster
        centre, mean = functions[kept].mean(axis=0), y[kept].mean()
        own = functions[kept] - centre
        slopes = np.linalg.solve(own.T @ own + 2.0 * np.eye(own.shape[1]), own.T @ (y[kept, 0] - mean))
        expected = y[~kept, 0] - mean - (functions[~kept] - centre) @ slopes
        np.testing.assert_allclose(left_out[~kept, 0], expected, rtol=1e-6)


def test_the_interval_draws_whole_clusters():
    """All rows of a cluster are equal here: drawn one by one they would look like four times as many."""
    rng = np.random.default_rng(9)
    clusters = np.repeat(np.arange(60), 4)
    x, y = (np.repeat(rng.normal(size=(60, 1)), 4, axis=0) for _ in range(2))
    parts = [("xp", x[:120]), ("xq", x[120:])], [("yp", y[:120]), ("yq", y[120:])]
    pool = TestedMeasure(MEASURES["conditional_cs"], {}).pool(*parts)
    by_row, by_cluster = (Bootstrap(pool, own)(np.random.default_rng(0), 60) for own in (None, clusters))
    # Of 4 equal rows a mean has 4 times the variance of 4 rows; deviations of 60 draws err by a tenth.
    assert by_cluster.std() > 1.5 * by_row.std()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"weights_p": np.ones(120)}, "`weights_q` must be given"),
        ({"weights_p": np.ones(119), "weights_q": np.ones(120)}, "`weights_p` must hold one weight per row"),
        ({"weights_p": -np.ones(120), "weights_q": np.ones(120)}, "`weights_p` must be finite and not negative"),
        (
            {"weights_p": np.ones(120), "weights_q": np.ones(120), "measure": "conditional_kl"},
            "`weights_p` must go with",
        ),
        ({"clusters_p": np.arange(120), "null": "local"}, "`clusters_p` must go with views"),
        ({"clusters_p": np.arange(3)}, "`clusters_p` must hold one cluster per row"),
        ({"clusters_p": np.arange(120) % 4}, "`clusters_p` must name at least 5 clusters, got 4"),
        ({"clusters_q": [None] * 120}, "`clusters_q` must name a cluster for every row, got 120 missing"),
        ({"clusters_q": [[1]] * 119 + [[2, 3]]}, "`clusters_q` must hold names that can be compared"),
    ],
)
def test_what_weights_and_clusters_cannot_be_is_said(options, named):
    (xp, yp, _), (xq, yq, _) = _pair(10)
    with pytest.raises(CondcsError, match=named):
        condcs.conditional_test(xp, yp, xq, yq, n_resamples=19, rng=0, **options)


def test_a_list_of_samples_has_no_weights():
    (xp, yp, _), (xq, yq, _) = _pair(10)
    with pytest.raises(CondcsError, match="`weights_p` must go with two samples"):
        condcs.conditional_test([(xp, yp), (xq, yq), (xp, yp)], weights_p=np.ones(120), n_resamples=19, rng=0)


def test_a_classifier_does_not_know_of_clusters():
    from sklearn.linear_model import LogisticRegression

    (xp, yp, p), (xq, yq, _) = _pair(10)
    with pytest.raises(CondcsError, match="`propensity` must be None or an array"):
        condcs.conditional_test(xp, yp, xq, yq, clusters_p=p, propensity=LogisticRegression(), n_resamples=19, rng=0)
    halves = np.full(240, 0.5)
    with pytest.warns(BalanceWarning):
        half = condcs.conditional_test(xp, yp, xq, yq, clusters_p=p, propensity=halves, n_resamples=19, rng=0)
    assert half.diagnostics["propensity"] == "given"


def test_few_clusters_are_said():
    (xp, yp, _), (xq, yq, _) = _pair(11)
    eight = np.arange(120) % 8
    with (
        pytest.warns(CondcsWarning, match="`clusters_p` names only 8 clusters"),
        pytest.warns(CondcsWarning, match="`clusters_q` names only 8 clusters"),
    ):
        condcs.conditional_test(xp, yp, xq, yq, clusters_p=eight, clusters_q=eight, n_resamples=19, rng=0)


def test_clusters_of_other_sizes_cannot_be_compared_and_that_is_said():
    (xp, yp, p), (xq, yq, _) = _pair(12)
    with pytest.warns(OverlapWarning, match="in x and in the size of clusters"):
        condcs.conditional_test(xp, yp, xq, yq, clusters_p=p, n_resamples=19, rng=0)
