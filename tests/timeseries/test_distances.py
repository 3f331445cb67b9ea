"""Distances between series: equal to the estimator of the core with the same widths, whatever the way there."""

from __future__ import annotations

import numpy as np
import pytest

import condcs
from condcs._core.errors import BandwidthError, BandwidthWarning, CondcsError, DataError, ParameterError, ShapeError
from condcs.timeseries import MatrixOutput, ccs_distance, ccs_pairwise_distance, embed
from tests.conftest import golden_cases
from tests.dense import dense_conditional_cs


def median_width(a, b):
    """The median rule, written out: all pairs i < j of the pooled rows."""
    pool = np.concatenate([a, b])
    squared = ((pool[:, None] - pool[None]) ** 2).sum(-1)
    return float(np.sqrt(np.median(squared[np.triu_indices(len(pool), 1)])))


def reference(a, b, order, factor=1.0, widths=None, **options):
    """The core estimator on the embedded series (time x channels)."""
    (xp, yp), (xq, yq) = embed(a, order, **options), embed(b, order, **options)
    wx, wy = widths or (factor * median_width(xp, xq), factor * median_width(yp, yq))
    return condcs.conditional_cs(xp, yp, xq, yq, bandwidth_x=wx, bandwidth_y=wy)


def reference_matrix(series, order, **settings):
    D = np.zeros((len(series), len(series)))
    for i in range(len(series)):
        for j in range(i):
            D[i, j] = D[j, i] = reference(series[i], series[j], order, **settings)
    return D


def walks(rng, lengths, channels):
    return [rng.normal(size=(n, channels)).cumsum(axis=0) for n in lengths]


def close(D, expected):
    """1e-9, relative for the huge values that far underflow brings."""
    return np.allclose(D, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("order", [1, 2, 3, 7, 12])
def test_equals_the_core_estimator(rng, order, channels):
    """Ragged lengths, windows that end on, before and after a whole vector, widths far into underflow."""
    series = walks(rng, (order + 2, order + 8, order + 9, 40, 47), channels)
    for factor in (1.0, 0.1, 0.01, 0.001):
        D = ccs_pairwise_distance(series, order=order, factor=factor, layout="ntc")
        assert np.isfinite(D).all()
        assert close(D, reference_matrix(series, order, factor=factor))


@pytest.mark.parametrize("order", [1, 3, 9])
def test_given_widths_equal_the_core_estimator(rng, order):
    """From wide kernels to masses that underflow, where the distances are needed a second time."""
    series = walks(rng, (order + 2, order + 9, 40), 2)
    for widths in ((3.0, 1.0), (0.1, 0.3), (0.5, 0.01), (0.003, 0.002)):
        D = ccs_pairwise_distance(series, order=order, bandwidth=widths, layout="ntc")
        assert np.isfinite(D).all()
        assert close(D, reference_matrix(series, order, widths=widths))


def test_equals_the_dense_formula(rng):
    a, b = walks(rng, (30, 40), 2)
    (xp, yp), (xq, yq) = embed(a, 3), embed(b, 3)
    expected = dense_conditional_cs(xp, yp, xq, yq, 2.0, 0.7)
    assert ccs_distance(a, b, order=3, bandwidth=(2.0, 0.7), layout="ntc") == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", golden_cases())
def test_golden_values(case):
    """A golden sample as a series: x_i, y_i, a gap, and so on, with zeros where one has fewer columns.

    With order 1 and gaps dropped, its windows are the x_i and their successors the y_i.
    """

    def series(x, y):
        x, y = (np.array(v, float).reshape(len(v), -1) for v in (x, y))
        frames = np.full((3 * len(x), max(x.shape[1], y.shape[1])), np.nan)
        frames[0::3], frames[1::3] = 0.0, 0.0
        frames[0::3, : x.shape[1]], frames[1::3, : y.shape[1]] = x, y
        return frames

    p, q = series(case["xp"], case["yp"]), series(case["xq"], case["yq"])
    widths = (case["bandwidth_x"], case["bandwidth_y"])
    D = ccs_distance(p, q, order=1, bandwidth=widths, layout="ntc", missing="drop")
    assert pytest.approx(case["expected"]["conditional_cs"], abs=1e-9) == D
    by_rule = ccs_distance(p, q, order=1, layout="ntc", missing="drop")
    assert pytest.approx(case["expected"]["conditional_cs_median"], abs=1e-9) == by_rule


def test_long_windows_and_many_rows_take_the_counting_medians(rng):
    """With 150 windows each, medians come from counting passes; still the exact order statistic."""
    a, b = walks(rng, (170, 165), 1)
    assert close(ccs_distance(a, b, order=20, layout="ntc"), reference(a, b, 20))
    ties = [np.round(s) for s in (a, b)]
    assert close(ccs_distance(*ties, order=2, layout="ntc"), reference(*ties, 2))


def test_gaps_are_left_out(rng):
    series = walks(rng, (30, 35, 40), 2)
    series[0][11, 0] = series[2][5] = np.nan
    for bandwidth in ("pair-median", 1.5):
        D = ccs_pairwise_distance(series, order=3, layout="ntc", missing="drop", bandwidth=bandwidth)
        widths = None if bandwidth == "pair-median" else (1.5, 1.5)
        for i, j in ((0, 1), (0, 2), (1, 2)):
            assert close(D[i, j], reference(series[i], series[j], 3, widths=widths, missing="drop"))


def test_pooled_median_is_one_kernel_for_all(rng):
    series = walks(rng, (20, 25, 30), 2)
    D = ccs_pairwise_distance(series, order=2, bandwidth="pooled-median", layout="ntc")
    assert close(
        D, condcs.pairwise([embed(s, 2) for s in series], bandwidth_x="joint_median", bandwidth_y="joint_median")
    )
    doubled = ccs_pairwise_distance(series, order=2, bandwidth="pooled-median", factor=2.0, layout="ntc")
    x, y = (np.concatenate([embed(s, 2)[k] for s in series]) for k in (0, 1))
    widths = [2 * condcs.bandwidth(a, rule="joint_median") for a in (x, y)]
    assert close(doubled, reference_matrix(series, 2, widths=widths))


def test_pooled_median_of_many_windows_is_that_of_a_fixed_draw(rng):
    """Above 2,000 windows a subsample decides: normal numbers have a median distance of sqrt(2) 0.6745 = 0.954.

    The median of the pairs of 2,000 draws is off by less than 5% (its standard error is about 1%).
    """
    X = rng.normal(size=(60, 1, 51))
    D = ccs_pairwise_distance(X, order=1, bandwidth="pooled-median")
    assert np.array_equal(D, ccs_pairwise_distance(X, order=1, bandwidth="pooled-median"))
    near = [ccs_pairwise_distance(X, order=1, bandwidth=b)[0, 1] for b in (0.954 * 0.95, 0.954 * 1.05)]
    assert min(near) < D[0, 1] < max(near)


def test_pooled_median_of_many_windows_had_a_draw_of_its_own(rng):
    """One rule, one answer: above 2,000 windows it is the bandwidth that `condcs.bandwidth` finds for them."""
    X = rng.normal(size=(60, 1, 51))
    bandwidths = [condcs.bandwidth(part.reshape(-1, 1)) for part in (X[:, 0, :-1], X[:, 0, 1:])]
    D = ccs_pairwise_distance(X, order=1, bandwidth="pooled-median")
    assert pytest.approx(ccs_pairwise_distance(X, order=1, bandwidth=bandwidths), abs=1e-10) == D


def test_wide_frames_go_through_matrix_products(rng):
    """2,304 channels far from the origin, with repeated frames: cancellation would show at once."""
    frames = rng.normal(size=(3, 12, 2304)) + 100.0
    frames[0, 3] = frames[0, 7] = frames[1, 2]
    D = ccs_pairwise_distance(frames, order=2, layout="ntc")
    assert close(D, reference_matrix(list(frames), 2))


def test_wide_frames_with_gaps(rng):
    series = walks(rng, (14, 16), 60)
    series[0][6, 3] = np.nan
    D = ccs_distance(*series, order=2, layout="ntc", missing="drop")
    assert close(D, reference(*series, 2, missing="drop"))


def test_layouts_agree(rng):
    X = rng.normal(size=(4, 2, 30))
    D = ccs_pairwise_distance(X, order=2)
    assert np.array_equal(D, ccs_pairwise_distance(X.transpose(0, 2, 1), order=2, layout="ntc"))
    assert np.array_equal(D, ccs_pairwise_distance(list(X), order=2))
    assert ccs_distance(X[0], X[1], order=2) == D[0, 1]
    assert ccs_distance(X[0].T, X[1].T, order=2, layout="ntc") == D[0, 1]
    U = X[:, 0]
    assert np.array_equal(ccs_pairwise_distance(U, order=2), ccs_pairwise_distance(U[:, None], order=2))
    assert ccs_distance(U[0], U[1], order=2) == ccs_distance(U[:1], U[1:2], order=2)


def test_matrix_is_symmetric_with_zero_diagonal_and_rectangular_with_two_collections(rng):
    X, Y = rng.normal(size=(7, 1, 25)), rng.normal(size=(3, 1, 40))
    D = ccs_pairwise_distance(X, order=3)
    assert np.array_equal(D, D.T)
    assert not D.diagonal().any()
    R = ccs_pairwise_distance(X, list(Y), order=3)
    assert R.shape == (7, 3)
    assert R[2, 1] == pytest.approx(ccs_distance(X[2], Y[1], order=3), abs=1e-12)
    assert np.allclose(R, ccs_pairwise_distance(Y, X, order=3).T, atol=1e-10)


def test_a_series_is_at_distance_zero_from_itself(rng):
    s = rng.normal(size=50)
    assert ccs_distance(s, s, order=4) == pytest.approx(0.0, abs=1e-12)


def test_moving_and_scaling_all_series_changes_nothing(rng):
    X = rng.normal(size=(4, 2, 30))
    D = ccs_pairwise_distance(X, order=2)
    assert np.allclose(ccs_pairwise_distance(7.0 - 3.0 * X, order=2), D, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-100, 1e100, 1e160, 1e300])
def test_finite_and_right_at_every_magnitude(rng, scale):
    a, b = rng.uniform(-1, 1, size=(2, 20))
    assert ccs_distance(scale * a, scale * b, order=2) == pytest.approx(ccs_distance(a, b, order=2), abs=1e-9)


def test_finite_for_series_of_very_different_magnitudes(rng):
    X = rng.uniform(0.5, 1, size=(4, 15)) * np.array([1e-300, 1e-20, 1.0, 1e300])[:, None]
    for bandwidth in ("pair-median", 1.0, 1e-200):
        assert np.isfinite(ccs_pairwise_distance(X, order=1, bandwidth=bandwidth)).all()


def test_a_tiny_width_is_finite_and_equals_the_core(rng):
    a, b = rng.normal(size=(2, 20))
    D = ccs_distance(a, b, order=1, bandwidth=1e-120)
    assert np.isfinite(D)
    assert reference(a[:, None], b[:, None], 1, widths=(1e-120, 1e-120)) == pytest.approx(D, rel=1e-9)


@pytest.mark.parametrize("spike", [1e5, 1e7, 1e9])
def test_a_spike_does_not_swallow_what_comes_after_it(spike):
    """Squared distances of 1e18 left no digits for those of the successors, and the distance lost half its value."""
    # Values on a grid: no two windows are so close to being nearest that rounding could exchange them.
    rng = np.random.default_rng(4)
    series = [np.round(rng.normal(size=(n, 1)), 2) for n in (40, 47)]
    series[0][11] = spike
    D = ccs_pairwise_distance(series, order=1, layout="ntc", bandwidth=(1.0, 1.0))
    assert D[0, 1] == pytest.approx(reference(*series, 1, widths=(1.0, 1.0)), rel=1e-9)


def test_a_constant_series_warns_once_and_gets_width_one():
    X = np.zeros((3, 12))
    with pytest.warns(BandwidthWarning, match="constant series") as caught:
        D = ccs_pairwise_distance(X, order=1)
    assert len(caught) == 1
    assert np.array_equal(D, np.zeros((3, 3)))


def test_ties_fall_back_to_the_smallest_positive_percentile(rng):
    """Two thirds of the values are 0: the median distance is 0; the rule of the core is the oracle."""
    a, b = np.zeros(30), np.zeros(30)
    a[[3, 9, 20]], b[[5, 14, 25]] = 1.0, 2.0
    with pytest.warns(BandwidthWarning, match="smallest positive percentile") as caught:
        D = ccs_distance(a, b, order=1)
    assert len(caught) == 1
    (xp, yp), (xq, yq) = embed(a, 1), embed(b, 1)
    with pytest.warns(BandwidthWarning):
        expected = condcs.conditional_cs(xp, yp, xq, yq)
    assert pytest.approx(expected, abs=1e-12) == D


@pytest.mark.parametrize(
    ("measure", "options"),
    [
        ("conditional_euclidean", {}),
        ("conditional_mmd", {"regularization": 0.2}),
        ("conditional_cs", {"estimator": "pooled"}),
        ("joint_mmd", {}),
    ],
)
def test_gram_measures_get_the_same_widths(rng, measure, options):
    a, b = walks(rng, (25, 30), 2)
    D = ccs_pairwise_distance([a, b], order=2, factor=0.5, measure=measure, layout="ntc", **options)
    (xp, yp), (xq, yq) = embed(a, 2), embed(b, 2)
    widths = {"bandwidth_x": 0.5 * median_width(xp, xq), "bandwidth_y": 0.5 * median_width(yp, yq)}
    expected = getattr(condcs, measure)(xp, yp, xq, yq, **widths, **options)
    assert D[0, 1] == pytest.approx(float(expected), abs=1e-10)
    assert D[0, 1] == D[1, 0]


@pytest.mark.parametrize("measure", ["conditional_kl", "conditional_bregman"])
def test_measures_that_are_not_symmetric_fill_both_halves(rng, measure):
    series = walks(rng, (40, 45, 50), 1)
    D = ccs_pairwise_distance(series, order=1, measure=measure, layout="ntc")
    function = getattr(condcs, measure)
    for i in range(3):
        for j in range(3):
            expected = 0.0 if i == j else function(*embed(series[i], 1), *embed(series[j], 1))
            assert D[i, j] == pytest.approx(float(expected), abs=1e-10)


def test_single_precision_output(rng):
    X = rng.normal(size=(5, 20))
    D = ccs_pairwise_distance(X, order=1, output=MatrixOutput(dtype="float32"))
    assert D.dtype == np.float32
    assert np.array_equal(D, ccs_pairwise_distance(X, order=1).astype(np.float32))


def test_tells_dynamics_apart_where_values_are_alike():
    """Two AR(1) processes with the same marginal distribution and opposite memory; 20 series, order 1."""
    rng = np.random.default_rng(3)
    X = np.zeros((20, 200))
    for k, memory in enumerate([0.8] * 10 + [-0.8] * 10):
        for t in range(1, 200):
            X[k, t] = memory * X[k, t - 1] + 0.6 * rng.normal()
    D = ccs_pairwise_distance(X, order=1)
    same = np.kron(np.eye(2), np.ones((10, 10))).astype(bool) & ~np.eye(20, dtype=bool)
    assert D[same].max() < D[:10, 10:].min()


X34 = np.arange(24.0).reshape(2, 12)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ccs_pairwise_distance(X34, order=11), ShapeError, ["ccs_pairwise_distance", "series 0", "at most 10"]),
        (lambda: ccs_pairwise_distance(X34, order=0), ParameterError, ["`order`"]),
        (lambda: ccs_pairwise_distance(X34, order="taken"), ParameterError, ["`order`", "takens"]),
        (lambda: ccs_pairwise_distance(X34, order=[]), ParameterError, ["`order`"]),
        (lambda: ccs_pairwise_distance(X34, order=[1, 2]), ShapeError, ["at least 4 series", "got 2"]),
        (
            lambda: ccs_pairwise_distance(X34, order=1, bandwidth="median"),
            BandwidthError,
            ['"pair-median"', "'median'"],
        ),
        (lambda: ccs_pairwise_distance(X34, order=1, bandwidth=0.0), BandwidthError, ["`bandwidth`", "0.0"]),
        (lambda: ccs_pairwise_distance(X34, order=1, bandwidth=(1, 2, 3)), BandwidthError, ["two of them"]),
        (lambda: ccs_pairwise_distance(X34, order=1, factor=-1), ParameterError, ["`factor`", "positive"]),
        (lambda: ccs_pairwise_distance(X34, order=1, layout="tcn"), ParameterError, ["`layout`", "'nct', 'ntc'"]),
        (lambda: ccs_pairwise_distance(X34, order=1, n_jobs=0), ParameterError, ["`n_jobs`"]),
        (lambda: MatrixOutput(dtype="int8"), ParameterError, ["`dtype`", "'float32'"]),
        (lambda: ccs_pairwise_distance(X34, order=1, output="run"), ParameterError, ["`output`", "MatrixOutput("]),
        (lambda: ccs_pairwise_distance(X34, order=1, measure="cs"), ParameterError, ["`measure`", "'conditional_mmd'"]),
        (lambda: ccs_pairwise_distance(X34, order=1, k=3), ParameterError, ["`k`", "estimator"]),
        (lambda: ccs_pairwise_distance(X34, order=1, bandwidth_x=3), ParameterError, ["`bandwidth_x`", "left out"]),
        (
            lambda: ccs_pairwise_distance(X34, order=1, measure="conditional_kl", factor=2.0),
            ParameterError,
            ["`bandwidth` and `factor`", "no kernels"],
        ),
        (lambda: ccs_pairwise_distance([], order=1), ShapeError, ["`X`", "at least one series"]),
        (lambda: ccs_pairwise_distance(np.arange(9.0), order=1), ShapeError, ["`X`", "3 dimensions", "[series]"]),
        (lambda: ccs_pairwise_distance(np.full((2, 9), np.nan), order=1), DataError, ["series 0, time 0"]),
        (
            lambda: ccs_pairwise_distance(np.zeros((2, 2, 9)), np.zeros((2, 3, 9)), order=1),
            ShapeError,
            ["`X` and `Y`", "2 and 3", 'layout="ntc"'],
        ),
        (lambda: ccs_distance(np.zeros((2, 9)), np.zeros(9), order=1), ShapeError, ["ccs_distance", "`x` and `y`"]),
        (lambda: ccs_distance(X34, X34, order=[1, 2]), ParameterError, ["`order`", "ccs_pairwise_distance"]),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
    assert isinstance(caught.value, CondcsError)
