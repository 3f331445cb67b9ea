"""Properties that hold for every input, by hypothesis, against the dense formula and among themselves."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import condcs
from condcs._measures.registry import MEASURES
from tests.bandwidth_options import own_bandwidths

from .dense import dense_conditional_cs, dense_cs, dense_predictors

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
finite = st.floats(-4, 4, allow_nan=False, width=32)


@st.composite
def two_samples(draw, max_rows=12):
    """Two samples of unequal size with widths that keep the dense formula finite."""
    n, m = draw(st.integers(2, max_rows)), draw(st.integers(2, max_rows))
    dx, dy = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    data = [draw(arrays(float, shape, elements=finite)) for shape in ((n, dx), (n, dy), (m, dx), (m, dy))]
    return data, draw(st.floats(0.4, 5)), draw(st.floats(0.4, 5))


def close(value, expected):
    return value == pytest.approx(expected, abs=1e-10 * max(1, abs(expected)), rel=0)


@EXAMPLES
@given(two_samples())
def test_trace_form(case):
    """The C1-C4 trace form of Prop. 2, with n x n matrices, is the oracle."""
    data, bx, by = case
    assert close(condcs.conditional_cs(*data, bandwidth_x=bx, bandwidth_y=by), dense_conditional_cs(*data, bx, by))


@EXAMPLES
@given(two_samples())
def test_symmetry(case):
    (xp, yp, xq, yq), bx, by = case
    for estimator in ("paper", "pooled"):
        options = {"bandwidth_x": bx, "bandwidth_y": by, "estimator": estimator}
        assert close(condcs.conditional_cs(xp, yp, xq, yq, **options), condcs.conditional_cs(xq, yq, xp, yp, **options))
    options = {"bandwidth_x": bx, "bandwidth_y": by}
    one_sided = condcs.conditional_cs(xp, yp, xq, yq, estimator="p", **options)
    assert close(one_sided, condcs.conditional_cs(xq, yq, xp, yp, estimator="q", **options))


@EXAMPLES
@given(two_samples(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(case, random):
    (xp, yp, xq, yq), bx, by = case
    order = list(range(len(xp)))
    random.shuffle(order)
    options = {"bandwidth_x": bx, "bandwidth_y": by}
    assert close(
        condcs.conditional_cs(xp[order], yp[order], xq, yq, **options), condcs.conditional_cs(xp, yp, xq, yq, **options)
    )


@EXAMPLES
@given(two_samples())
def test_a_sample_does_not_differ_from_itself(case):
    (xp, yp, _, _), bx, by = case
    for estimator in ("paper", "pooled", "p", "q"):
        value = condcs.conditional_cs(xp, yp, xp, yp, bandwidth_x=bx, bandwidth_y=by, estimator=estimator)
        assert abs(value) < 1e-12
    assert abs(condcs.conditional_euclidean(xp, yp, xp, yp, bandwidth_x=bx, bandwidth_y=by)) < 1e-12


@EXAMPLES
@given(two_samples())
def test_never_negative_where_promised(case):
    (xp, yp, xq, yq), bx, by = case
    options = {"bandwidth_x": bx, "bandwidth_y": by}
    assert condcs.conditional_cs(xp, yp, xq, yq, estimator="pooled", **options) >= -1e-12
    assert condcs.cs(yp, yq, bandwidth=by) >= -1e-12
    assert condcs.mmd(yp, yq, bandwidth=by) >= -1e-12
    corrected = condcs.conditional_cs_predictors(
        yp, xp, yp + xp[:, :1], bandwidth_y=by, bandwidth_x1=bx, bandwidth_x2=bx
    )
    assert corrected >= -1e-12


@EXAMPLES
@given(two_samples(), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.floats(-1e3, 1e3))
def test_rescaling_data_and_bandwidth_together(case, scale_x, scale_y, offset):
    (xp, yp, xq, yq), bx, by = case
    moved = condcs.conditional_cs(
        scale_x * xp, scale_y * yp + offset * scale_y, scale_x * xq, scale_y * yq + offset * scale_y,
        bandwidth_x=scale_x * bx, bandwidth_y=scale_y * by,
    )  # fmt: skip
    value = condcs.conditional_cs(xp, yp, xq, yq, bandwidth_x=bx, bandwidth_y=by)
    # The offset costs digits of y: 1e3 / 0.4 widths, squared differences of up to 20 widths.
    assert moved == pytest.approx(value, abs=1e-9)


@EXAMPLES
@given(two_samples(), st.data())
def test_duplicated_rows_are_doubled_weights(case, data):
    (xp, yp, xq, yq), bx, by = case
    counts = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(xp), max_size=len(xp))))
    repeated = np.repeat(np.arange(len(xp)), counts)
    for estimator in ("paper", "pooled"):
        options = {"bandwidth_x": bx, "bandwidth_y": by, "estimator": estimator}
        weighted = condcs.conditional_cs(xp, yp, xq, yq, weights_p=counts, **options)
        assert close(weighted, condcs.conditional_cs(xp[repeated], yp[repeated], xq, yq, **options))
    marginal = condcs.cs(yp, yq, weights_p=counts, bandwidth=by)
    assert close(marginal, condcs.cs(yp[repeated], yq, bandwidth=by))
    predictors = {"bandwidth_y": by, "bandwidth_x1": bx, "bandwidth_x2": bx}
    single = condcs.conditional_cs_predictors(yp, xp, xp[:, ::-1], weights=counts, **predictors)
    doubled = condcs.conditional_cs_predictors(yp[repeated], xp[repeated], xp[repeated, ::-1], **predictors)
    assert close(single, doubled)


@EXAMPLES
@given(two_samples())
def test_weight_zero_is_absence(case):
    (xp, yp, xq, yq), bx, by = case
    assume(len(xp) > 2)
    weights = np.ones(len(xp))
    weights[0] = 0
    options = {"bandwidth_x": bx, "bandwidth_y": by}
    without = condcs.conditional_cs(xp[1:], yp[1:], xq, yq, **options)
    assert close(condcs.conditional_cs(xp, yp, xq, yq, weights_p=weights, **options), without)


@EXAMPLES
@given(two_samples())
def test_dense_marginal_and_predictors(case):
    (xp, yp, _, yq), bx, by = case
    assert close(condcs.cs(yp, yq, bandwidth=by), dense_cs(yp, yq, by))
    for form in ("corrected", "paper"):
        value = condcs.conditional_cs_predictors(
            yp, xp, yp[:, :1] ** 2, form=form, bandwidth_y=by, bandwidth_x1=bx, bandwidth_x2=bx
        )
        assert close(value, dense_predictors(yp, xp, yp[:, :1] ** 2, by, bx, bx, form))


@EXAMPLES
@given(two_samples())
def test_symmetric_responses_are_proposition_2_with_equal_x(case):
    (xp, yp, _, _), bx, by = case
    y2 = yp[::-1] * 0.5
    options = {"bandwidth_x": bx, "bandwidth_y": by}
    symmetric = condcs.conditional_cs_responses(xp, yp, y2, form="symmetric", **options)
    assert close(symmetric, condcs.conditional_cs_responses(xp, y2, yp, form="symmetric", **options))
    assert close(symmetric, dense_conditional_cs(xp, yp, xp, y2, bx, by))


def test_printed_responses_are_not_symmetric(rng):
    """Erratum: Prop. 3 as printed uses one cross term twice."""
    x, y1, y2 = rng.normal(size=(3, 20, 1))
    options = {"bandwidth_x": 0.5, "bandwidth_y": 0.5}
    one = condcs.conditional_cs_responses(x, y1, y2, **options)
    other = condcs.conditional_cs_responses(x, y2, y1, **options)
    assert abs(one - other) > 1e-3


@pytest.mark.parametrize("name", list(MEASURES))
def test_flags_of_the_registry(name, rng):
    """A registered measure keeps what its flags promise."""
    measure = MEASURES[name]
    xp, xq = rng.normal(size=(2, 40, 2))
    yp, yq = rng.normal(size=(2, 40, 1)) + 0.2
    p, q = ((xp, yp), (xq, yq)) if measure.takes_x else ((yp,), (yq,))
    value = measure(*p, *q)
    assert np.isfinite(value)
    assert (abs(value - measure(*q, *p)) < 1e-10) == measure.symmetric
    assert ("weights_p" in measure.options) == measure.weighted
    if measure.weighted:
        options = dict.fromkeys(own_bandwidths(measure), 1.0)
        repeated = np.repeat(np.arange(40), 1 + np.arange(40) % 2)
        doubled = measure(*(a[repeated] for a in p), *q, **options)
        assert measure(*p, *q, weights_p=1.0 + np.arange(40) % 2, **options) == pytest.approx(doubled, abs=1e-10)
    if measure.nonnegative:
        assert value >= 0


@pytest.mark.parametrize("name", list(MEASURES))
def test_pairwise_equals_one_pair_at_a_time(name, rng, library):
    """With fixed widths the one-pass matrix is that of separate calls."""
    measure = MEASURES[name]
    # Groups of two sizes only: JAX compiles every shape anew.
    groups = [(rng.normal(size=(n, 2)), rng.normal(size=(n, 1))) for n in (30, 20, 30)]
    groups = [tuple(library.asarray(a) for a in g) for g in groups]
    options = dict.fromkeys(own_bandwidths(measure), 0.8)
    if not measure.takes_x:
        groups = [(y,) for _, y in groups]
    matrix = condcs.pairwise([g if measure.takes_x else g[0] for g in groups], measure=name, **options)
    for g, first in enumerate(groups):
        for h, second in enumerate(groups):
            expected = 0.0 if g == h else float(measure(*first, *second, **options))
            assert float(matrix[g, h]) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("estimator", ["pooled", "p", "q"])
def test_pairwise_estimators(estimator, rng):
    groups = [tuple(rng.normal(size=(2, 15, 1))) for _ in range(3)]
    options = {"bandwidth_x": 1.0, "bandwidth_y": 1.0, "estimator": estimator}
    matrix = condcs.pairwise(groups, **options)
    assert matrix[0, 2] == pytest.approx(condcs.conditional_cs(*groups[0], *groups[2], **options), abs=1e-12)
    assert matrix[2, 0] == pytest.approx(condcs.conditional_cs(*groups[2], *groups[0], **options), abs=1e-12)
