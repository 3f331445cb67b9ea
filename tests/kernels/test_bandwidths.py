"""Bandwidths: each rule against its definition, and what happens where a rule has no answer."""

import math
import warnings

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import gaussian_kde

import condcs
from condcs._core.arrays import NUMPY
from condcs._core.checks import check_variable
from condcs._core.errors import BandwidthError, BandwidthWarning
from condcs._kernels.bandwidths import BANDWIDTH_RULES, MEDIAN_ROWS, column_widths, median_widths

RNG = np.random.default_rng(11)
X, XQ = RNG.normal(size=(24, 3)) * [1, 2, 5], RNG.normal(size=(17, 3)) + 1


def widths_of_response(y, rule):
    """Widths in force for a response, where a constant is allowed."""
    variable = check_variable([("yp", y)], NUMPY, np.float64, stem="y")
    return column_widths("bandwidth", rule, variable, NUMPY, response=True)


# The median


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 20])
@pytest.mark.parametrize("d", [1, 4])
def test_median_by_its_definition(n, d):
    """Square root of the median squared distance over all pairs i < j, for odd and even numbers of pairs."""
    rows = np.random.default_rng(n).normal(size=(n, d)).tolist()
    squared = sorted(
        sum((a - b) ** 2 for a, b in zip(rows[i], rows[j], strict=True)) for i in range(n) for j in range(i)
    )
    half = len(squared) // 2
    median = squared[half] if len(squared) % 2 else (squared[half - 1] + squared[half]) / 2
    assert condcs.bandwidth(rows, rule="joint_median") == pytest.approx(math.sqrt(median), rel=1e-13)
    # The default: the same in units of each column's own median, times these units.
    units = np.array([float(condcs.bandwidth([row[c] for row in rows])) for c in range(d)])
    joint = condcs.bandwidth(np.array(rows) / units, rule="joint_median")
    np.testing.assert_allclose(condcs.bandwidth(rows), joint * units, rtol=1e-13)


@pytest.mark.parametrize("kind", ["normal", "labels", "heavy", "rounded", "rare"])
@pytest.mark.parametrize("n", [2, 3, 17, 100, 501])
def test_median_of_one_column_without_all_pairs(n, kind):
    """Counting in sorted numbers finds the very difference that sorting all pairs does, ties or not."""
    rng = np.random.default_rng(n)
    column = {
        "normal": rng.normal(size=n),
        "labels": rng.integers(0, 2, n) * 1.0,
        "heavy": rng.standard_cauchy(n) ** 3,
        "rounded": np.round(rng.normal(size=n), 1),
        "rare": np.append(rng.random(n - 1) < 0.1, 1.0) * 2.0,
    }[kind]
    squared = np.sort(pdist(column[:, None], "sqeuclidean"))
    expected = math.sqrt(np.median(squared))
    if not expected:
        quantiles = np.percentile(squared, range(51, 101), method="higher")
        expected = math.sqrt(min(quantiles[quantiles > 0], default=0.0))
    assert median_widths(column[:, None])[0][0] == pytest.approx(expected, rel=1e-12)


def test_the_default_width_of_a_column_does_not_depend_on_the_units_of_the_others():
    """One width over raw columns was set by the largest numbers, and the default was blind to the other columns."""
    units = np.array([1e-3, 1.0, 1e4])
    np.testing.assert_allclose(condcs.bandwidth(X * units, XQ * units), units * condcs.bandwidth(X, XQ), rtol=1e-12)
    y, yq = X[:, 0], XQ[:, 0]
    same = condcs.conditional_cs(X, y, XQ, yq)
    assert condcs.conditional_cs(X * units, y, XQ * units, yq) == pytest.approx(same, rel=1e-9)
    raw = condcs.conditional_cs(X * units, y, XQ * units, yq, bandwidth_x="joint_median")
    assert raw != pytest.approx(same, rel=0.01)


def test_the_default_test_sees_a_column_of_small_numbers():
    """The relation to a share between 0 and 1 turns over; the other column counts thousands."""
    rng = np.random.default_rng(0)

    def sample(sign):
        income, share = rng.normal(50_000, 15_000, 80), rng.uniform(0, 1, 80)
        return np.column_stack([income, share]), sign * np.sin(2 * np.pi * share) + 0.3 * rng.normal(size=80)

    (xp, yp), (xq, yq) = sample(1), sample(-1)
    found = [
        condcs.conditional_test(xp, yp, xq, yq, bandwidth_x=rule, null="permutation", n_resamples=99, rng=0).pvalue
        for rule in ("median", "joint_median")
    ]
    assert found[0] == 0.01 < 0.2 < found[1]


@pytest.mark.parametrize("rows", [40, MEDIAN_ROWS + 500])
def test_a_rule_has_one_answer_in_all_packages(rows):
    """Measures and losses, below and above the limit: the width was written twice."""
    torch = pytest.importorskip("torch")
    from condcs.nn._dense import width

    rng = np.random.default_rng(rows)
    x = rng.normal(size=(rows, 3)) * [1, 10, 100]
    expected = condcs.bandwidth(x)
    np.testing.assert_allclose(width("bandwidth", "median", torch.as_tensor(x)).numpy(), expected, rtol=1e-12)
    joint = width("bandwidth", "joint_median", torch.as_tensor(x)).item()
    assert joint == pytest.approx(condcs.bandwidth(x, rule="joint_median"), rel=1e-12)


def test_median_averages_squares_before_the_root():
    """Pairs at distances 1, 1, 2, 3, 3 and 4: the middle two give sqrt((4 + 9) / 2), not 2.5."""
    points = [0.0, 1.0, 3.0, 4.0]
    assert sorted(pdist(np.array(points)[:, None])) == [1, 1, 2, 3, 3, 4]
    assert condcs.bandwidth(points) == pytest.approx(math.sqrt(6.5), rel=1e-14)


def test_samples_are_pooled():
    """The rule sees all samples as one, in any split and order."""
    pooled = condcs.bandwidth(np.concatenate([X, XQ]))
    for samples in ((X, XQ), (XQ, X), (X[:1], X[1:], XQ)):
        np.testing.assert_array_equal(condcs.bandwidth(*samples), pooled)
    assert not np.allclose(pooled, condcs.bandwidth(X))


@pytest.mark.parametrize("rule", BANDWIDTH_RULES)
def test_a_named_rule_is_the_width_it_finds(rule):
    """Naming the rule and passing what `condcs.bandwidth` finds are the same."""
    x, y, xq, yq = X[:, :2], X[:, 2], XQ[:, :2], XQ[:, 2]
    found = {"bandwidth_x": condcs.bandwidth(x, xq, rule=rule), "bandwidth_y": condcs.bandwidth(y, yq, rule=rule)}
    named = condcs.conditional_cs(x, y, xq, yq, bandwidth_x=rule, bandwidth_y=rule)
    assert named == condcs.conditional_cs(x, y, xq, yq, **found)
    assert condcs.cs(X, XQ, bandwidth=rule) == condcs.cs(X, XQ, bandwidth=condcs.bandwidth(X, XQ, rule=rule))


def test_median_is_the_default():
    """Without a word, the median."""
    assert condcs.cs(X, XQ) == condcs.cs(X, XQ, bandwidth="median") != condcs.cs(X, XQ, bandwidth="scott")


def test_columns_of_mixed_kernels_have_widths_of_their_own():
    """The rule is the same whatever the kernels; columns of labels have no width and take no part."""
    kernel = ["gaussian", "laplacian", "gaussian"]
    assert condcs.cs(X, XQ, kernel=kernel) == condcs.cs(X, XQ, kernel=kernel, bandwidth=condcs.bandwidth(X, XQ))
    labelled = [np.column_stack([a[:, :2], a[:, 2] > 0]) for a in (X, XQ)]
    numbers = condcs.bandwidth(X[:, :2], XQ[:, :2])
    kernel = ["gaussian", "gaussian", "delta"]
    given = [*numbers, 1.0]
    assert condcs.cs(*labelled, kernel=kernel) == condcs.cs(*labelled, kernel=kernel, bandwidth=given)


# The median of a subsample


def test_median_is_exact_up_to_the_limit():
    """2,000 rows are all used."""
    x = np.random.default_rng(0).exponential(size=MEDIAN_ROWS)
    assert condcs.bandwidth(x) == pytest.approx(float(np.median(pdist(x[:, None]))), rel=1e-9)


def test_median_of_a_subsample_is_close_and_repeatable():
    r"""Above 2,000 rows the width is that of 2,000 of them, drawn evenly and always the same.

    The share of pairs closer than t is a U-statistic of m = 2,000 rows drawn without replacement. Hoeffding (1963,
    5.7): it misses the share in all rows by e or more with probability at most 2 exp(-2 (m/2) e^2), which is 1e-6 at
    e = 0.0852. So the median of the subsample lies between the quantiles 1/2 - e and 1/2 + e of all distances. The rows
    are sorted: the first 2,000, or the last, would be far off.
    """
    x = np.sort(np.random.default_rng(1).uniform(size=3_000))
    miss = math.sqrt(math.log(2e6) / MEDIAN_ROWS)
    low, exact, high = np.quantile(pdist(x[:, None]), [0.5 - miss, 0.5, 0.5 + miss])
    found = condcs.bandwidth(x)
    assert low < found < high
    assert not low < condcs.bandwidth(x[:MEDIAN_ROWS]) < high
    assert found != exact
    assert condcs.bandwidth(x) == condcs.bandwidth(x[:1_000], x[1_000:]) == found


# Silverman and Scott


@pytest.mark.parametrize("rule", ["silverman", "scott"])
@pytest.mark.parametrize("d", [1, 3])
def test_deviation_rules_are_those_of_scipy(rule, d):
    """The factor of `scipy.stats.gaussian_kde` times the pooled standard deviation of each column."""
    pool = np.concatenate([X[:, :d], XQ[:, :d]])
    kde = gaussian_kde(pool.T, bw_method=rule)
    found = condcs.bandwidth(X[:, :d], XQ[:, :d], rule=rule)
    np.testing.assert_allclose(found, kde.factor * pool.std(axis=0, ddof=1), rtol=1e-13)


def test_rules_on_every_library(library):
    """A rule sees the values, not the library."""
    a, b = library.asarray(X), library.asarray(XQ)
    for rule in BANDWIDTH_RULES:
        np.testing.assert_allclose(condcs.bandwidth(a, b, rule=rule), condcs.bandwidth(X, XQ, rule=rule), rtol=1e-13)


# Where a rule has no answer


@pytest.mark.parametrize("values", [[0] * 16 + [1, 3, 7, 20], [0.0] * 30 + list(range(1, 12)), [5] * 9 + [6]])
def test_ties_fall_back_to_the_smallest_positive_percentile(values):
    """With more than half of all pairs equal, the first percentile above the median that is not 0 is taken."""
    distances = sorted(abs(a - b) for i, a in enumerate(values) for b in values[:i])
    rank = {p: math.ceil(p * (len(distances) - 1) / 100) for p in range(51, 101)}
    level = min(p for p in rank if distances[rank[p]] > 0)
    with pytest.warns(
        BandwidthWarning, match=f"smallest positive percentile of the distances .the {level}th: "
    ) as caught:
        found = condcs.bandwidth(values)
    assert found == distances[rank[level]]
    assert len(caught) == 1
    assert "Pass a number to choose it" in str(caught[0].message)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("rule", BANDWIDTH_RULES)
def test_constant_x_is_an_error(rule):
    """There is nothing to condition on."""
    constant = np.full(24, 0.1)
    with pytest.raises(BandwidthError, match=r"`xp` and `xq` must vary for `bandwidth_x` .* column 'x' is constant"):
        condcs.conditional_cs(constant, X[:, 0], constant, X[:, 1], bandwidth_x=rule)
    assert np.isfinite(condcs.conditional_cs(constant, X[:, 0], constant, X[:, 1], bandwidth_x=1.0))


def test_one_constant_column_of_x():
    """The medians need some column to vary, and a constant one changes nothing; the deviation rules need each to."""
    x, xq = X * [1, 1, 0], XQ * [1, 1, 0]
    joint = {"rule": "joint_median"}
    assert condcs.bandwidth(x, xq, **joint) == condcs.bandwidth(X[:, :2], XQ[:, :2], **joint)
    for constant in (0.0, 0.1, -1e30):
        found = condcs.bandwidth(*(a + np.array([0, 0, constant]) for a in (x, xq)))
        np.testing.assert_allclose(found[:2], condcs.bandwidth(X[:, :2], XQ[:, :2]), rtol=1e-12)
        assert found[2] > 0
    with pytest.raises(BandwidthError, match="column 'x3' is constant"):
        condcs.conditional_cs(x, X[:, 0], xq, XQ[:, 0], bandwidth_x="scott")


@pytest.mark.parametrize("rule", BANDWIDTH_RULES)
@pytest.mark.parametrize("value", [0.0, 0.1, -3e200, 1e-300])
def test_constant_y_has_width_one_and_a_warning(rule, value):
    """All responses are equal, so every width gives the same similarities and the divergence is 0."""
    y = np.full(24, value)
    with pytest.warns(BandwidthWarning, match="`yp`: column 'y' is constant.* `bandwidth` is set to 1"):
        assert widths_of_response(y, rule).tolist() == [1.0]
    with pytest.warns(BandwidthWarning, match="`yp` and `yq`: column 'y' is constant.* `bandwidth_y`") as caught:
        found = condcs.conditional_cs(X, y, XQ, y[:17], bandwidth_y=rule)
    assert found == pytest.approx(0, abs=1e-12)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("rule", ["silverman", "scott"])
def test_a_column_of_many_zeros(rule):
    """Dividing by the factor of many rows and the smallest float once gave an infinite width."""
    y = np.zeros(5_000)
    with pytest.warns(BandwidthWarning):
        assert widths_of_response(y, rule).tolist() == [1.0]


def test_no_warning_without_a_reason():
    """Fewer than half of the pairs tied: the median is positive and nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert condcs.bandwidth([0, 0, 0, 1, 2, 3]) == 1.0


# Scales


@pytest.mark.parametrize("rule", BANDWIDTH_RULES)
@pytest.mark.parametrize("scale", [1e200, 1e-200, 2.0**1000, 2.0**-1000, 1e307, 1e-305])
def test_widths_scale_with_the_data(rule, scale):
    """Squares of huge or tiny numbers overflow or vanish; widths must not."""
    found = np.asarray(condcs.bandwidth(X * scale, XQ * scale, rule=rule))
    np.testing.assert_allclose(found / scale, condcs.bandwidth(X, XQ, rule=rule), rtol=1e-12)
    assert condcs.cs(X * scale, XQ * scale, bandwidth=rule) == pytest.approx(condcs.cs(X, XQ, bandwidth=rule), rel=1e-9)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_the_fallback_is_reported_in_the_units_of_the_data(scale):
    """The message names the width that is used."""
    with pytest.warns(BandwidthWarning, match="th: 1e.200"):
        assert condcs.bandwidth(np.array([0.0] * 9 + [1.0]) * scale) == pytest.approx(scale, rel=1e-14)


@pytest.mark.parametrize("rule", BANDWIDTH_RULES)
def test_the_largest_floats(rule):
    """A distance that no float can hold counts as the largest float."""
    y = np.array([-1.7e308, 1.7e308, -1.6e308, 1.5e308])
    widths = np.atleast_1d(condcs.bandwidth(y, rule=rule))
    assert np.all(np.isfinite(widths))
    assert np.isfinite(condcs.cs(y, y[::-1] / 2, bandwidth=rule))


# Not JAX: XLA rounds subnormal numbers to 0, and only numpy and torch can go on in double precision.
@pytest.mark.parametrize("library", ["numpy", "torch"], indirect=True)
@pytest.mark.parametrize(("scale", "widths"), [(1e38, [2e38, 1e39]), (1e-41, [2e-41, 1e-42]), (1.0, [1e-50, 1e50])])
def test_widths_beyond_single_precision(library, scale, widths):
    """A width that single precision cannot hold, or with few digits, is used at its full value."""
    p, q = (np.round(a[:, :2] * 64) / 256 for a in (X, XQ))
    single = [library.asarray((a * scale).astype(np.float32)) for a in (p, q)]
    double = [library.to_numpy(a).astype(np.float64) for a in single]
    expected = condcs.cs(*double, bandwidth=widths)
    assert float(condcs.cs(*single, bandwidth=widths)) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_a_median_beyond_single_precision():
    """Distances between single-precision numbers can be larger than any of them."""
    p, q = np.array([-3, 3, -3, 3, 1]), np.array([3, -3, 3, -3, 2])
    found = condcs.cs((p * 1e38).astype(np.float32), (q * 1e38).astype(np.float32))
    assert float(found) == pytest.approx(condcs.cs(p, q), abs=1e-5)


# Numbers


@pytest.mark.parametrize("make", [list, tuple, np.array, lambda w: np.array(w, np.float32), lambda w: np.array(w)[::1]])
def test_one_width_per_column(make):
    """Widths per column are units per column."""
    widths = [0.5, 2.0, 4.0]
    expected = condcs.cs(X / widths, XQ / widths, bandwidth=1.0)
    assert condcs.cs(X, XQ, bandwidth=make(widths)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("width", [2, 2.0, np.float32(2), np.int64(2), np.array(2.0), [2, 2, 2]])
def test_one_width_for_all_columns(width):
    """A number of any kind."""
    assert condcs.cs(X, XQ, bandwidth=width) == condcs.cs(X, XQ, bandwidth=2.0)


def test_widths_may_be_arrays_of_the_library(library):
    """A tensor of widths counts as numbers."""
    a, b = library.asarray(X), library.asarray(XQ)
    found = condcs.cs(a, b, bandwidth=library.asarray(np.array([0.5, 2.0, 4.0])))
    assert float(found) == pytest.approx(condcs.cs(X, XQ, bandwidth=[0.5, 2.0, 4.0]), rel=1e-12)
