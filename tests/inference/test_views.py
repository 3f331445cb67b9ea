"""Views: against their formulas written out, and each against the change that it is made for."""

import numpy as np
import pytest

import condcs
from condcs._inference.propensities import Propensity, warn_if_unreliable
from condcs._inference.resampling import _chances, combined_evidence
from condcs._inference.responses import _kernel_features, adjusted_response, pair_median_square
from condcs._inference.views import view_weights, views_of_samples
from condcs._regression.smoother import Smoother
from condcs.exceptions import BalanceWarning, OverlapWarning


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = x[:, :1] + rng.normal(size=(60, 1))
    smoother = Smoother(x, [False, False])
    response = adjusted_response(y, [False], smoother)
    chance = np.linspace(0.2, 0.7, 60)
    return smoother, response, views_of_samples(response, smoother, np.column_stack([1 - chance, chance])), rng


def test_views_are_their_formulas(problem):
    smoother, response, views, rng = problem
    u = rng.integers(2, size=(60, 3)) - rng.uniform(size=(60, 1))
    found = dict(zip(views.names, views([u]), strict=True))
    r, variance = response.columns[:, 0], np.linspace(0.2, 0.7, 60) * np.linspace(0.8, 0.3, 60)
    squares = (u**2 + variance[:, None] * np.sum(u**2, axis=0) / np.sum(variance)) / 2
    np.testing.assert_allclose(found["mean"], (r @ u) ** 2 / (r**2 @ squares))
    z = np.clip(smoother.numbers, -3, 3)
    slopes = [((r * z[:, j]) @ u) ** 2 / ((r * z[:, j]) ** 2 @ squares) for j in range(2)]
    np.testing.assert_allclose(found["slopes"], np.max(slopes, axis=0))
    squared = ((smoother.numbers[:, None] - smoother.numbers) ** 2).sum(-1)
    unit = np.median(squared[squared > 1e-12])
    kernel = np.exp(-squared / (2 * unit * 0.3**2)) * (response.wide @ response.wide.T)
    pairs = np.einsum("ip,ij,jp->p", u, kernel, u) - np.diag(kernel) @ u**2
    np.testing.assert_allclose(found["local"], pairs / (np.diag(kernel) @ squares), rtol=1e-8)


def test_views_do_not_depend_on_tiles_or_threads(problem):
    _, _, views, rng = problem
    u = rng.integers(2, size=(60, 3)) - 0.5
    expected = views([u])
    with condcs.config_context(tile=7, n_threads=2):
        np.testing.assert_allclose(views([u]), expected, rtol=1e-10)


@pytest.mark.parametrize("others", [["slopes", "local"], ["spread", "shape", "products", "divergence"]])
def test_the_mean_counts_alike_whatever_other_views_there_are(others):
    weights = view_weights(["amplitude", "mean", *others])
    assert weights[1] / weights.sum() == pytest.approx(0.6)


def test_the_unit_of_kernels_is_the_median_over_rows_that_differ():
    """Pairs of equal rows do not count, and each of the others counts once."""
    values = np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    assert pair_median_square(values) == pytest.approx(np.median([25.0, 1.0, 25.0, 1.0, 18.0]))


def test_kernel_features_multiply_to_the_kernel():
    rng = np.random.default_rng(1)
    values, codes = rng.normal(size=(50, 1)), rng.integers(2, size=(1, 50))
    features = _kernel_features(values, codes, 1.5, 0.4, 50)
    squared = (values - values.T) ** 2
    expected = np.exp(-squared / (2 * 0.4 * 1.5**2)) * (codes == codes.T)
    # What is left out of the diagonal bounds what is left out of any entry.
    np.testing.assert_allclose(features @ features.T, expected, atol=1e-3)


def test_heavy_tails_are_seen_through_ranks():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 1))
    smoother = Smoother(x, [False])
    noise = rng.standard_t(1, size=(300, 1))
    plain = adjusted_response(2 * x + rng.normal(size=(300, 1)), [False], smoother)
    heavy = adjusted_response(2 * x + noise, [False], smoother)
    assert abs(np.corrcoef(heavy.fitted[:, 0], x[:, 0])[0, 1]) > 0.95
    np.testing.assert_allclose(plain.for_divergence.std(), 1, atol=0.15)


def test_a_response_that_x_explains_to_the_last_digit_is_no_evidence():
    rng = np.random.default_rng(3)
    xp, xq = rng.normal(size=(60, 1)), rng.normal(size=(60, 1)) + 1
    result = condcs.conditional_test(xp, 3 * xp[:, 0], xq, 3 * xq[:, 0], n_resamples=99, rng=0)
    assert result.pvalue > 0.05


def test_combined_pvalues_of_exchangeable_columns_are_uniform():
    values = np.random.default_rng(4).gamma(2.0, size=(3, 20))
    pvalues = [combined_evidence(np.roll(values, k, axis=1)).pvalue for k in range(20)]
    np.testing.assert_allclose(sorted(pvalues), np.arange(1, 21) / 20)


def test_a_value_far_out_does_not_hide_behind_its_own_deviation():
    """Among its own moments the value had a chance of 1.6e-3; under the chi-squared distribution it is 8e-6."""
    values = np.random.default_rng(5).chisquare(1, size=(1, 200))
    values[0, 0] = 20.0
    assert _chances(values)[0, 0] < 1e-3


def test_one_strong_statistic_is_enough():
    values = np.random.default_rng(5).gamma(2.0, size=(8, 200))
    values[6, 0] = 30.0
    found = combined_evidence(values)
    assert found.pvalue == 1 / 200
    assert np.argmin(found.pvalues) == 6


def _change(kind, rng, n=150):
    """Two samples in which the relation differs in one way, the inputs being shifted by half a deviation."""
    xp, xq = rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + 0.5
    e, f = rng.normal(size=(2, n))
    yp = xp[:, 0] + e
    centred = xq - 0.25
    return {
        "mean": (xp, yp, xq, xq[:, 0] + 0.7 + f),
        "amplitude": (xp, yp, xq, 2 * xq[:, 0] + f),
        "slopes": (xp, yp, xq, xq[:, 0] + 0.8 * centred[:, 1] + f),
        "products": (xp, yp, xq, xq[:, 0] + centred[:, 0] * centred[:, 1] + f),
        "spread": (xp, yp, xq, xq[:, 0] + 2 * f),
        "local": (xp, yp, xq, xq[:, 0] + 3 * (np.abs(xq[:, 1]) < 0.4) - 1 + f),
        "shape": (xp, yp, xq, xq[:, 0] + 0.95 * np.sign(f) + 0.3 * rng.normal(size=n)),
    }[kind]


@pytest.mark.parametrize("kind", ["mean", "amplitude", "slopes", "products", "spread", "local", "shape"])
def test_each_view_sees_the_change_that_it_is_made_for(kind):
    result = condcs.conditional_test(*_change(kind, np.random.default_rng(6), n=250), n_resamples=199, rng=0)
    assert result.pvalue <= 0.02
    assert result.details["pvalues"][result.details["views"].index(kind)] <= 0.02


def test_labels_and_mixed_responses_have_their_views():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(2, 120, 1))
    label = [np.where(x[0, :, 0] + rng.normal(size=120) > 0, "yes", "no")]
    label.append(np.where(x[1, :, 0] + 1.5 + rng.normal(size=120) > 0, "yes", "no"))
    result = condcs.conditional_test(x[0], label[0], x[1], label[1], kernel_y="delta", n_resamples=99, rng=0)
    assert result.pvalue == 0.01
    assert "spread" not in result.details["views"]
    mixed = [np.column_stack([rng.normal(size=120), v == "yes"]) for v in label]
    kernels = ("gaussian", "delta")
    result = condcs.conditional_test(x[0], mixed[0], x[1], mixed[1], kernel_y=kernels, n_resamples=99, rng=0)
    assert result.pvalue == 0.01
    assert {"spread", "shape"} < set(result.details["views"])


def test_three_samples_of_which_one_differs():
    rng = np.random.default_rng(13)
    x = rng.normal(size=(3, 80, 1))
    y = x[:, :, 0] + rng.normal(size=(3, 80))
    assert condcs.conditional_test(list(zip(x, y, strict=True)), n_resamples=99, rng=0).pvalue > 0.05
    y[2] += 1.0
    assert condcs.conditional_test(list(zip(x, y, strict=True)), n_resamples=99, rng=0).pvalue == 0.01


def test_a_propensity_that_does_not_explain_the_shift_warns_with_the_remedy():
    rng = np.random.default_rng(9)
    xp, xq = rng.normal(size=(100, 1)), rng.normal(size=(100, 1)) + 1
    yp, yq = rng.normal(size=(2, 100))
    with pytest.warns(BalanceWarning, match="Pass a richer classifier as `propensity`"):
        result = condcs.conditional_test(xp, yp, xq, yq, propensity=np.full(200, 0.5), n_resamples=99, rng=0)
    assert result.diagnostics["balance_pvalue"] < 0.01
    assert result.diagnostics["propensity"] == "given"


def test_samples_that_hardly_overlap_warn():
    rng = np.random.default_rng(10)
    xp, xq = rng.normal(size=(100, 1)), rng.normal(size=(100, 1)) + 4
    with pytest.warns(OverlapWarning, match="hardly overlap in x"):
        result = condcs.conditional_test(xp, xp[:, 0], xq, xq[:, 0] + rng.normal(size=100), n_resamples=99, rng=0)
    assert result.diagnostics["effective_rows"] < 30


def test_an_overlap_worth_one_row_is_told_in_the_singular():
    """Twenty rows that are of one sample almost surely: 20 p (1 - p) / (1/4) = 1 for p (1 - p) = 1/80."""
    p = (1 - np.sqrt(0.95)) / 2
    of_first = np.repeat([p, 1 - p], 10)
    one_row = Propensity(np.column_stack([of_first, 1 - of_first]), "given", 1.0)
    with pytest.warns(OverlapWarning, match=r"20 rows tell as much about p\(y\|x\) as 1 row of samples"):
        warn_if_unreliable(one_row)


def _only_x_changes(kind, rng, n=100):
    """Samples of one relation whose inputs differ, but not as a sum of shifts of single columns."""
    if kind == "correlation":
        x = rng.normal(size=(2, n, 2))
        x[0, :, 1], x[1, :, 1] = (s * 0.5 * v[:, 0] + np.sqrt(0.75) * v[:, 1] for s, v in ((-1, x[0]), (1, x[1])))
        y = x[:, :, 0] * x[:, :, 1] + 0.5 * rng.normal(size=(2, n))
        return x[0], y[0], x[1], y[1], {}
    if kind == "common factor":
        x = rng.normal(size=(2, n, 5))
        x[1] = np.sqrt(0.4) * x[1] + np.sqrt(0.6) * rng.normal(size=(n, 1))
        y = x.sum(axis=2) ** 2 / 5 + rng.normal(size=(2, n))
        return x[0], y[0], x[1], y[1], {}
    category = rng.integers(4, size=(2, n))
    number = rng.normal(size=(2, n))
    number[1] += np.array([-1.0, -0.3, 0.3, 1.0])[category[1]]
    y = np.array([-1.0, 0.0, 1.0, 2.0])[category] * number + 0.7 * rng.normal(size=(2, n))
    x = np.stack([number, category], axis=2)
    return x[0], y[0], x[1], y[1], {"kernel_x": ("gaussian", "delta")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["correlation", "common factor", "category"])
def test_shifts_of_x_that_are_no_sum_of_one_column_shifts_keep_the_level(kind):
    rejected = 0
    for seed in range(60):
        *data, options = _only_x_changes(kind, np.random.default_rng([11, seed]))
        rejected += condcs.conditional_test(*data, n_resamples=99, rng=seed, **options).pvalue <= 0.05
    # Binomial(60, 0.05) exceeds 10 in 1 of 3,000 cases; a propensity of single columns rejects 48 to 60.
    assert rejected <= 10


def test_the_paper_s_statistic_stays_by_name():
    xp, yp, xq, yq = _change("mean", np.random.default_rng(12), n=40)
    for null in ("permutation", "local"):
        result = condcs.conditional_test(xp, yp, xq, yq, null=null, n_resamples=19, rng=0)
        assert result.statistic == result.divergence == pytest.approx(condcs.conditional_cs(xp, yp, xq, yq), rel=1e-9)
    with pytest.raises(condcs.exceptions.ParameterError, match="`views`"):
        condcs.conditional_test(xp, yp, xq, yq, null="local", views="all")
