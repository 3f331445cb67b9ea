"""One arithmetic: the forms without logarithms, and the compiled ones, are those in logs."""

import numpy as np
import pytest

import condcs
from condcs._core.arrays import NUMPY
from condcs._core.checks import Groups
from condcs._kernels.row_sums import RowMasses
from condcs._measures import formulas

RNG = np.random.default_rng(5)
GROUPS = Groups((7, 5), 0.5 + RNG.random(12))
A, B = 1 + RNG.random((2, 12, 2))
MASSES = RowMasses(NUMPY, GROUPS, np.log(A), np.log(B), np.log(B / A))
MEMBERS = np.repeat(np.eye(2), GROUPS.sizes, axis=0) * GROUPS.weights[:, None]


def test_conditional_interaction_by_its_definition():
    """T[g,h] = sum_j W[j,g] B[j,h] / (A[j,g] A[j,h])."""
    expected = np.array([[sum(MEMBERS[:, g] * B[:, h] / (A[:, g] * A[:, h])) for h in (0, 1)] for g in (0, 1)])
    np.testing.assert_allclose(np.exp(formulas.conditional_interaction(MASSES)), expected, rtol=1e-13)


def test_linear_interaction_is_that_in_logs():
    """For several labellings at once, here the same one twice."""
    twice = [np.stack([column, column], axis=1) for column in (MEMBERS / A).T]
    ratios = [np.stack([column, column], axis=1) for column in (B / A).T]
    found = formulas.linear_interaction(twice, ratios)
    for s in (0, 1):
        np.testing.assert_allclose(np.log(found[..., s]), formulas.conditional_interaction(MASSES), rtol=1e-12)


def test_linear_pooled_interaction_is_that_in_logs():
    """The weights of a row belong to one of the two groups."""
    shares = (MEMBERS.sum(axis=1) / B.sum(axis=1))[:, None]
    t = formulas.linear_pooled_interaction(shares, [column[:, None] for column in (B / A).T])
    found = formulas.contrast(np.log(t))[..., 0]
    np.testing.assert_allclose(found, formulas.pooled_divergences(MASSES), atol=1e-13)


@pytest.mark.parametrize("estimator", ["paper", "p", "q"])
def test_contrast_of_many_labellings_is_that_of_each(estimator):
    """G x G x P and G x G."""
    t = RNG.normal(size=(3, 3, 4))
    found = formulas.contrast(t, estimator)
    for s in range(4):
        np.testing.assert_array_equal(found[..., s], formulas.contrast(t[..., s], estimator))
    one_sided = {"p": 2 * t[0, 1], "q": 2 * t[1, 0], "paper": t[0, 1] + t[1, 0]}[estimator]
    np.testing.assert_allclose(found[0, 1], t[0, 0] + t[1, 1] - one_sided, rtol=1e-12)


@pytest.mark.parametrize("form", ["corrected", "paper"])
def test_linear_prop_4_is_that_in_logs(form):
    """Rows lie on the last axis there."""
    masses = 1 + RNG.random((4, 9))
    found = formulas.linear_predictor_divergence(*masses, form)
    assert found == pytest.approx(formulas.predictor_divergence(NUMPY, list(np.log(masses)), None, form), rel=1e-12)


def test_compiled_terms_are_those_in_logs():
    """One row at a time, in loops."""
    from condcs._measures.sliding_loops import window_terms

    t = np.zeros((2, 2))
    for j in range(12):
        g = 0 if j < 7 else 1
        own, cross = window_terms(A[j, g], B[j, g], A[j, 1 - g], B[j, 1 - g])
        t[g, g] += GROUPS.weights[j] * own
        t[g, 1 - g] += GROUPS.weights[j] * cross
    log_t = formulas.conditional_interaction(MASSES)
    np.testing.assert_allclose(np.log(t), log_t, rtol=1e-12)


def test_printed_prop_3_is_one_sided():
    """Its cross term runs over the rows of the second response: `RESPONSE_FORMS` says so."""
    x, y1, y2 = RNG.normal(size=(3, 20))
    widths = {"bandwidth_x": 0.7, "bandwidth_y": 0.9}
    for form, estimator in formulas.RESPONSE_FORMS.items():
        expected = condcs.conditional_cs(x, y1, x, y2, estimator=estimator, **widths)
        assert condcs.conditional_cs_responses(x, y1, y2, form=form, **widths) == pytest.approx(expected, rel=1e-12)
