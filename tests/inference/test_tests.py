"""The tests as a user meets them: results, seeds, options, bad input."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

import condcs
from condcs._core.errors import BandwidthWarning, CondcsError, ParameterError, ShapeError
from condcs._inference.nulls import local_permutations
from condcs._measures.registry import MEASURES

CONDITIONAL = [name for name, measure in MEASURES.items() if measure.takes_x]


def shifted(n=80, shift=2.0, seed=0):
    rng = np.random.default_rng(seed)
    xp, xq = rng.normal(size=(2, n, 1))
    yp, yq = xp + 0.5 * rng.normal(size=(n, 1)), xq + 0.5 * rng.normal(size=(n, 1)) + shift
    return xp, yp, xq, yq


@pytest.mark.parametrize("name", CONDITIONAL)
@pytest.mark.parametrize("null", ["permutation", "propensity", "local"])
def test_every_measure_under_every_null(name, null):
    """A large change is found; the statistic is that of the measure itself."""
    data = shifted()
    # With little regularisation the lone rows in the tails of x drown the change in CMMD.
    of_measure = {"regularization": 10.0} if name == "conditional_mmd" else {}
    options = {"measure": name, "null": null, "n_resamples": 99, "rng": 0, **of_measure}
    result = condcs.conditional_test(*data, views="measure", **options)
    assert result.statistic == pytest.approx(float(MEASURES[name](*data, **of_measure)), abs=1e-10)
    # Covariances do not see a shift of the mean: the paper's point about Bregman divergences.
    if name != "conditional_bregman":
        assert result.pvalue <= 0.02
    assert result.null_distribution.shape == (99,)
    assert result.pvalue == (1 + np.sum(result.null_distribution >= result.statistic - 1e-10)) / 100
    if null == "propensity":
        every = condcs.conditional_test(*data, **options)
        assert every.pvalue == 0.01
        assert every.details["views"][-1] == "divergence"


@pytest.mark.parametrize("name", ["cs", "mmd"])
def test_two_samples(name):
    _, yp, _, yq = shifted()
    result = condcs.two_sample_test(yp, yq, measure=name, n_resamples=99, rng=0)
    assert result.pvalue == 0.01
    assert result.statistic == pytest.approx(float(MEASURES[name](yp, yq)), abs=1e-12)


def test_same_seed_same_answer_whatever_the_threads():
    data = shifted(shift=0.3)
    results = [condcs.conditional_test(*data, n_resamples=50, rng=3, n_jobs=n) for n in (1, 2)]
    np.testing.assert_array_equal(results[0].null_distribution, results[1].null_distribution)
    other = condcs.conditional_test(*data, n_resamples=50, rng=4)
    assert not np.array_equal(results[0].null_distribution, other.null_distribution)


def test_aggregate_needs_no_width():
    """A change that only a narrow kernel sees: a wiggle in y given x."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=(300, 1))
    y = np.sin(6 * x) * np.repeat([1.0, -1.0], 150)[:, None] + 0.2 * rng.normal(size=(300, 1))
    data = (x[:150], y[:150], x[150:], y[150:])
    wide = condcs.conditional_test(*data, bandwidth=3.0, null="permutation", n_resamples=199, rng=0)
    combined = condcs.conditional_test(*data, bandwidth="aggregate", null="permutation", n_resamples=199, rng=0)
    assert combined.pvalue <= 0.05 < wide.pvalue
    assert combined.details["best_multiple"][0] < 1
    assert len(combined.details["pvalues"]) == len(combined.details["multiples"])
    only_x = condcs.conditional_test(*data, bandwidth_x="aggregate", null="permutation", n_resamples=199, rng=0)
    assert only_x.pvalue <= 0.05
    assert only_x.details["multiples"] == (0.25, 0.5, 1.0, 2.0)


def test_aggregate_of_labels_varies_the_other_width():
    rng = np.random.default_rng(0)
    xp, xq, labels_p, labels_q = *rng.normal(size=(2, 60, 1)), *rng.integers(3, size=(2, 60, 1))
    options = {"bandwidth": "aggregate", "null": "permutation", "n_resamples": 19, "rng": 0}
    of_y = condcs.conditional_test(xp, labels_p, xq, labels_q, kernel_y="delta", **options)
    assert of_y.details["multiples"] == (0.25, 0.5, 1.0, 2.0)
    of_x = condcs.conditional_test(labels_p, xp, labels_q, xq, kernel_x="delta", **options)
    assert of_x.details["multiples"] == (0.25, 0.5, 1.0, 2.0)


def test_more_than_two_samples():
    xp, yp, xq, yq = shifted(60)
    xr, yr, _, _ = shifted(60, seed=5)
    same = condcs.conditional_test([(xp, yp), (xr, yr)], null="permutation", n_resamples=99, rng=0)
    pair = condcs.conditional_test(xp, yp, xr, yr, null="permutation", n_resamples=99, rng=0)
    assert same.statistic == pytest.approx(pair.statistic)
    three = condcs.conditional_test([(xp, yp), (xr, yr), (xq, yq)], views="measure", n_resamples=99, rng=0)
    assert three.pvalue == 0.01
    matrix = condcs.pairwise([(xp, yp), (xr, yr), (xq, yq)])
    assert three.statistic == pytest.approx(matrix[np.triu_indices(3, 1)].sum())


def test_confidence_interval_covers_the_truth():
    """CS of two unit Gaussians one apart: D = 1 / (sigma^2 + 2) is covered about as often as promised.

    40 samples at level 0.9: coverage below 28 has probability under 0.001 if the interval is right.
    """
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(40):
        yp, yq = rng.normal(size=(2, 100, 1))
        result = condcs.two_sample_test(yp, yq + 1, measure="cs", bandwidth=1.0, n_resamples=1, rng=0)
        low, high = result.confidence_interval(0.9, n_resamples=100, rng=seed)
        assert low < high
        covered += low <= 1 / 3 <= high
    assert covered >= 28


@pytest.mark.slow
def test_confidence_interval_of_an_adjusted_response_covers_the_truth():
    """One relation and a rise by delta, noise of deviation s: D = delta^2 / (bandwidth^2 + 2 s^2) wherever x is.

    60 samples at level 0.9: coverage below 46 has probability under 0.001 if the interval is right. (Two samples of 120
    rows hardly feel that the kernel on x smooths over what is the same everywhere.)
    """
    covered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, size=(2, 120))
        y = np.sin(2 * x) + 0.5 * rng.normal(size=(2, 120)) + np.array([[0.0], [0.5]])
        result = condcs.conditional_test(x[0], y[0], x[1], y[1], bandwidth_y=0.5, n_resamples=39, rng=0)
        low, high = result.confidence_interval(0.9, n_resamples=60, rng=seed)
        covered += low <= 0.25 / (0.25 + 0.5) <= high
    assert covered >= 46


def test_independence():
    rng = np.random.default_rng(0)
    x1, noise = rng.normal(size=(2, 150, 1))
    x2 = x1 + rng.normal(size=(150, 1))
    plain = condcs.PermutedMeasure(adjust=False, bandwidth_x="median")
    dependent = condcs.independence_test(x2, x1 + x2 + noise, given=x1, measure=plain, n_resamples=99, rng=0)
    independent = condcs.independence_test(x2, x1 + noise, given=x1, n_resamples=99, rng=0)
    assert dependent.pvalue == 0.01 < 0.05 < independent.pvalue
    expected = condcs.conditional_cs_predictors(x1 + x2 + noise, x1, x2)
    assert dependent.statistic == pytest.approx(float(expected), abs=1e-12)
    without = condcs.independence_test(x2, x2 + noise, n_resamples=99, rng=0)
    assert without.pvalue == 0.01
    assert without.null == "permutation"


def test_ways_of_looking_at_x2_are_combined():
    """Against Prop. 4 on ranks, evaluated one way and one permutation at a time."""
    from scipy.stats import rankdata

    rng = np.random.default_rng(1)
    x1, x2, noise = rng.normal(size=(3, 60, 1))
    y = np.sin(3 * x2) + noise
    found = condcs.independence_test(
        x2, y, given=x1, measure=condcs.PermutedMeasure(adjust=False), n_resamples=19, rng=7
    )
    x2_ranks = rankdata(x2, axis=0) / 60
    median = float(condcs.bandwidth(x2_ranks))
    orders = [np.arange(60), *local_permutations(x1, neighbours=5, count=19, rng=np.random.default_rng(7))]
    values = np.array(
        [
            [float(condcs.conditional_cs_predictors(y, x1, x2_ranks[o], bandwidth_x2=c * median)) for o in orders]
            for c in (0.25, 1.0)
        ]
    )
    np.testing.assert_allclose(found.details["statistics"], values[:, 0], atol=1e-12)
    studentised = ((values.T - values.mean(axis=1)) / values.std(axis=1)).max(axis=1)
    np.testing.assert_allclose(found.null_distribution, studentised[1:], atol=1e-9)
    assert found.statistic == pytest.approx(studentised[0], abs=1e-9)
    assert found.pvalue == np.mean(studentised >= studentised[0])


def test_independence_does_not_depend_on_the_scale_of_x2():
    """On ranks nothing changes under monotone transforms, and waves in the bulk count beside rows in the tails."""
    rng = np.random.default_rng(0)
    x2 = rng.standard_t(2, size=200)
    y = np.sin(2 * x2) + rng.normal(size=200)
    plain, other = (condcs.independence_test(x, y, n_resamples=99, rng=0) for x in (x2, np.cbrt(x2)))
    assert plain.statistic == pytest.approx(other.statistic, abs=1e-10)
    assert plain.pvalue == other.pvalue == 0.01
    values = condcs.PermutedMeasure(bandwidth_x="median")
    assert condcs.independence_test(x2, y, measure=values, n_resamples=99, rng=0).pvalue > 0.05


def test_surrogates_of_a_series():
    """Here y follows x2 with a lag of one row; time-shifted surrogates keep each series' own memory."""
    rng = np.random.default_rng(0)
    x2 = np.convolve(rng.normal(size=300), np.ones(3), "valid")
    y = np.roll(x2, 1) + 0.5 * rng.normal(size=len(x2))
    followed = condcs.independence_test(x2[:-1], y[1:], null="surrogate", n_resamples=99, rng=0)
    apart = condcs.independence_test(x2, rng.normal(size=len(x2)), null="surrogate", n_resamples=99, rng=0)
    assert followed.pvalue == 0.01 < 0.05 < apart.pvalue


@pytest.mark.parametrize("measure", MEASURES)
def test_independence_by_every_measure(measure):
    """Full permutations without x1; among neighbours with it. x2 follows x1, so only the second is an honest null."""
    rng = np.random.default_rng(4)
    x1, noise = rng.normal(size=(2, 160))
    x2 = x1 + rng.normal(size=160)
    # With little regularisation the lone rows in the tails of x drown the dependence in CMMD.
    further = {"regularization": 30.0} if measure == "conditional_mmd" else {}
    options = {"measure": condcs.PermutedMeasure(measure, options=further), "n_resamples": 19, "rng": 1}
    dependent = condcs.independence_test(x2, x1 + 2 * x2 + 0.5 * noise, given=x1, **options)
    alone = condcs.independence_test(x2, x2 + 0.5 * noise, **options)
    assert dependent.pvalue == alone.pvalue == 0.05
    assert alone.measure.startswith(measure)


@pytest.mark.parametrize("measure", ["mmd", "conditional_kl", "conditional_bregman"])
def test_level_of_independence_by_other_measures(measure):
    """200 runs at level 0.1: rejections inside the 99.9% binomial interval."""
    rejected = 0
    for seed in range(200):
        x1, noise, other = np.random.default_rng([5, seed]).normal(size=(3, 40))
        found = condcs.independence_test(x1 + noise, x1 + other, given=x1, measure=measure, n_resamples=19, rng=seed)
        rejected += found.pvalue <= 0.1
    low, high = binom.interval(0.999, 200, 0.1)
    assert low <= rejected <= high


@pytest.mark.parametrize("form", ["corrected", "paper"])
def test_independence_beyond_the_budget_is_the_same(form, monkeypatch):
    from condcs._inference import independence_tests

    rng = np.random.default_rng(0)
    y, x1, x2 = rng.normal(size=(3, 60, 1))
    options = {"given": x1, "measure": condcs.PermutedMeasure(form=form), "n_resamples": 20, "rng": 0}
    fast = condcs.independence_test(x2, y, **options)
    monkeypatch.setattr(independence_tests, "GRAM_BUDGET", 0)
    slow = condcs.independence_test(x2, y, **options)
    np.testing.assert_allclose(fast.null_distribution, slow.null_distribution, atol=1e-10)


def test_tensors_are_accepted():
    torch = pytest.importorskip("torch")

    data = shifted(40)
    tensors = [torch.tensor(a, requires_grad=True) for a in data]
    ours = condcs.conditional_test(*tensors, n_resamples=20, rng=0)
    assert ours.pvalue == condcs.conditional_test(*data, n_resamples=20, rng=0).pvalue


DATA = shifted(20)
BAD = [
    (lambda: condcs.conditional_test(*DATA, measure="cs"), ParameterError, "`measure`"),
    (lambda: condcs.conditional_test(*DATA, null="wild"), ParameterError, "`null`"),
    (lambda: condcs.conditional_test(*DATA, n_resamples=0), ParameterError, "`n_resamples`"),
    (lambda: condcs.conditional_test(*DATA, rng=-1), ParameterError, "`rng`"),
    (lambda: condcs.conditional_test(*DATA, sigma=1.0), ParameterError, "`sigma`"),
    (lambda: condcs.conditional_test(*DATA, bandwidth=1.0, bandwidth_x=1.0), ParameterError, "`bandwidth`"),
    (
        lambda: condcs.conditional_test(*DATA, null="local", propensity=np.full(40, 0.5)),
        ParameterError,
        "`propensity`",
    ),
    (lambda: condcs.conditional_test(DATA[0]), ShapeError, "list of at least two pairs"),
    (lambda: condcs.conditional_test(*DATA[:3], DATA[3][:5]), ShapeError, "`yq`"),
    (lambda: condcs.two_sample_test(DATA[0], DATA[2], measure="conditional_cs"), ParameterError, "`measure`"),
    (lambda: condcs.independence_test(DATA[1][:5], DATA[0]), ShapeError, "`x`"),
    (
        lambda: condcs.independence_test(DATA[1], DATA[0], given=DATA[2], measure=condcs.PermutedMeasure(neighbours=0)),
        ParameterError,
        "`neighbours`",
    ),
    (lambda: condcs.independence_test(DATA[0], DATA[1], null="wild"), ParameterError, "`null`"),
    (lambda: condcs.independence_test(DATA[0], DATA[1], measure="wild"), ParameterError, "`measure`"),
    (
        lambda: condcs.independence_test(
            DATA[0], DATA[1], measure=condcs.PermutedMeasure(options={"estimator": "pooled"})
        ),
        ParameterError,
        "`estimator`",
    ),
    (
        lambda: condcs.independence_test(DATA[0], DATA[1], measure=condcs.PermutedMeasure("mmd", options={"k": 3})),
        ParameterError,
        "`k`",
    ),
    (
        lambda: condcs.independence_test(DATA[0], DATA[1], measure=condcs.PermutedMeasure("mmd", form="paper")),
        ParameterError,
        "`form`",
    ),
    (
        lambda: condcs.independence_test(DATA[1] > 0, DATA[0], measure="mmd", kernel_x="delta"),
        ParameterError,
        "`kernel_x`",
    ),
    (
        lambda: condcs.two_sample_test(DATA[0], DATA[2], n_resamples=9).confidence_interval(2.0),
        ParameterError,
        "`confidence_level`",
    ),
]


@pytest.mark.parametrize(("call", "error", "names"), BAD, ids=range(len(BAD)))
def test_bad_input(call, error, names):
    with pytest.raises(CondcsError) as caught:
        call()
    assert isinstance(caught.value, error)
    assert names in str(caught.value)


def test_adjusting_keeps_what_x1_does_not_explain():
    """Here y hangs on x1 strongly and on x2 weakly: seen with the regression subtracted, not without."""
    rng = np.random.default_rng(2)
    x1, x2, noise = rng.normal(size=(3, 200))
    y = 3 * x1**2 + 0.2 * x2 + noise
    with_it, without = (
        condcs.independence_test(
            x2, y, given=x1, measure=condcs.PermutedMeasure(adjust=adjust), n_resamples=99, rng=0
        ).pvalue
        for adjust in (True, False)
    )
    assert with_it <= 0.02 < without


@pytest.mark.parametrize("measure", ["conditional_cs", "conditional_kl"])
def test_more_than_127_groups_crashed(measure):
    """Labels above 127 became negative in an int8."""
    rng = np.random.default_rng(0)
    groups = [(x, x + 0.3 * rng.normal(size=(5, 1))) for x in rng.normal(size=(131, 5, 1))]
    D = condcs.pairwise(groups, measure=measure)
    result = condcs.conditional_test(groups, measure=measure, null="permutation", n_resamples=3, rng=0)
    total = np.triu(D, 1).sum() + (np.tril(D, -1).sum() if measure == "conditional_kl" else 0.0)
    assert result.statistic == pytest.approx(total, rel=1e-9)
    assert 0.25 <= result.pvalue <= 1.0
    assert condcs.conditional_test(groups, null="local", n_resamples=1, rng=0).pvalue >= 0.5


def test_how_far_an_outlier_is_does_not_decide_the_test():
    """One x at 1e9 gave the smallest p-value, where the same row at 1e4 gave .8."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 1))
    y = x + 0.3 * rng.normal(size=(160, 1))
    results = []
    for outlier in (1e5, 1e9):
        x[3] = outlier
        options = {"null": "permutation", "bandwidth": 1.0, "n_resamples": 49, "rng": 0}
        results.append(condcs.conditional_test(x[:80], y[:80], x[80:], y[80:], **options))
    near, far = results
    assert far.statistic == pytest.approx(near.statistic, abs=1e-9)
    assert far.null_distribution == pytest.approx(near.null_distribution, abs=1e-9)
    assert far.pvalue == near.pvalue


def test_a_result_prints_as_a_summary():
    """What the test says, and how far it can be trusted, instead of all fields in one line."""
    result = condcs.TestResult(
        3.04,
        0.08,
        np.zeros(99),
        "conditional_cs",
        "propensity",
        (1200, 200),
        divergence=0.0372,
        diagnostics={"balance": "passed", "balance_pvalue": 0.95, "effective_rows": 398.96},
        details={"views": ("mean", "shape"), "pvalues": (0.05, 0.04)},
        _divergences=np.full(99, 0.0153),
    )
    assert str(result).splitlines() == [
        "p-value 0.08: 1,200 + 200 rows, null 'propensity', 99 resamples",
        "conditional_cs 0.0372, by chance 0.0153",
        "p-values of single views: shape 0.04, mean 0.05",
        "overlap in x worth 399 rows, check of balance p = 0.95",
    ]
    plain = condcs.TestResult(1.0, 0.5, np.zeros(0), "conditional_cs", "signs", (4,))
    assert str(plain) == "p-value 0.5: 4 rows, null 'signs', in closed form"


@pytest.mark.parametrize(
    "call", [partial(condcs.conditional_test, n_resamples=19, rng=0), condcs.witness], ids=["test", "witness"]
)
@pytest.mark.parametrize("what", ["constant response", "ties in x", "ties in both"])
def test_a_bandwidth_was_warned_of_twice(call, what):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 80, 1))
    if what != "constant response":
        x = (x > 1.3).astype(float)
    y = np.ones_like(y) if what == "constant response" else (y > 1.3) * 1.0 if what == "ties in both" else y
    with pytest.warns(BandwidthWarning) as told:
        call(x[:40], y[:40], x[40:], y[40:], bandwidth_x="median")
    assert len(told) == len({str(warning.message) for warning in told}) == (2 if what == "ties in both" else 1)


def test_a_rule_for_the_response_warned_of_ties_that_the_regression_on_x_had_removed():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(80, 1)), (rng.normal(size=80) > 1.3) * 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        condcs.conditional_test(x[:40], y[:40], x[40:], y[40:], n_resamples=19, rng=0)
        condcs.witness(x[:40], y[:40], x[40:], y[40:])


def test_a_difference_that_the_divergence_cannot_size_is_said_in_summary_and_estimate():
    """Intervals of `estimate` reached down to 0 in 120 of 120 runs in which the test rejected, without a word."""
    result = condcs.TestResult(
        0.5,
        0.01,
        np.zeros(99),
        "conditional_cs",
        "propensity",
        (10, 10),
        divergence=0.03,
        _divergences=np.full(99, 0.03),
        _resample=lambda rng, n: rng.normal(0.03, 0.001, n),
    )
    assert "`estimate` cannot size it" in str(result)
    estimate = result.estimate(rng=0)
    assert estimate.within_chance
    assert "does not size the difference" in str(estimate)
    for plain in (replace(result, divergence=0.05), replace(result, pvalue=0.4)):
        assert "cannot" not in str(plain)
        assert not plain.estimate(rng=0).within_chance
        assert "does not size" not in str(plain.estimate(rng=0))


def test_an_interval_down_to_0_beside_a_rejection_was_not_said_to_size_nothing():
    """The divergence exceeded the 95% quantile of chance, and its interval began at 0: 14 of 36 runs, no word."""
    result = condcs.TestResult(
        0.5,
        0.01,
        np.zeros(99),
        "conditional_cs",
        "propensity",
        (10, 10),
        divergence=0.05,
        details={"nonnegative": True},
        _divergences=np.full(99, 0.03),
        _resample=lambda rng, n: rng.normal(0.05, 0.02, n),
    )
    estimate = result.estimate(rng=0)
    assert estimate.low == 0 < estimate.value
    assert estimate.within_chance
    assert "which chance alone could make: it does not size the difference" in str(estimate)
    clear, accepted = replace(result, divergence=0.15), replace(result, pvalue=0.4)
    assert clear.estimate(rng=0).low > 0
    for plain in (clear, accepted):
        assert not plain.estimate(rng=0).within_chance
