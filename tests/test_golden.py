"""Golden values, computed independently: matched to 1e-9 by every array library."""

import numpy as np
import pytest

import condcs

from .conftest import golden_cases

TOLERANCE = 1e-9


@pytest.fixture
def samples(request, library):
    case = request.param
    return case, library, [library.asarray(np.array(case[key])) for key in ("xp", "yp", "xq", "yq")]


def check(case, name, value):
    expected = case["expected"][name]
    if expected is not None:
        assert float(value) == pytest.approx(expected, abs=TOLERANCE, rel=0)


def each_case(function):
    return pytest.mark.parametrize("samples", golden_cases(), indirect=True)(function)


@each_case
def test_marginal(samples):
    case, _, (_, yp, _, yq) = samples
    width = case["bandwidth_y"]
    check(case, "cs", condcs.cs(yp, yq, bandwidth=width))
    check(case, "mmd2_biased", condcs.mmd(yp, yq, bandwidth=width))
    check(case, "mmd2_unbiased", condcs.mmd(yp, yq, bandwidth=width, unbiased=True))


@each_case
def test_conditional_cs(samples):
    case, library, data = samples
    widths = {"bandwidth_x": case["bandwidth_x"], "bandwidth_y": case["bandwidth_y"]}
    check(case, "conditional_cs", condcs.conditional_cs(*data, **widths))
    check(
        case,
        "conditional_cs_median",
        condcs.conditional_cs(*data, bandwidth_x="joint_median", bandwidth_y="joint_median"),
    )
    check(case, "conditional_cs_pooled", condcs.conditional_cs(*data, estimator="pooled", **widths))
    laplacian = condcs.conditional_cs(*data, kernel_x="laplacian", kernel_y="laplacian", **widths)
    check(case, "conditional_cs_laplacian", laplacian)
    weights_p = library.asarray(1.0 + np.arange(len(case["xp"])) % 3)
    weights_q = library.asarray(1.0 + np.arange(len(case["xq"])) % 2)
    weighted = condcs.conditional_cs(*data, weights_p=weights_p, weights_q=weights_q, **widths)
    check(case, "conditional_cs_weighted(weights_p=1+i%3, weights_q=1+j%2)", weighted)


@each_case
def test_responses(samples):
    case, _, (xp, yp, _, yq) = samples
    k, widths = case["k"], {"bandwidth_x": case["bandwidth_x"], "bandwidth_y": case["bandwidth_y"]}
    x, y1, y2 = xp[:k], yp[:k], yq[:k]
    check(
        case, "conditional_cs_responses(xp[:k], yp[:k], yq[:k])", condcs.conditional_cs_responses(x, y1, y2, **widths)
    )
    symmetric = condcs.conditional_cs_responses(x, y1, y2, form="symmetric", **widths)
    check(case, "conditional_cs_responses(xp[:k], yp[:k], yq[:k], form='symmetric')", symmetric)


@each_case
@pytest.mark.parametrize("form", ["paper", "corrected"])
def test_predictors(samples, form):
    case, _, (xp, yp, _, _) = samples
    if xp.shape[1] < 2:
        return  # one column cannot be split into x1 and x2; the expected value is null
    widths = {
        "bandwidth_y": case["bandwidth_y"],
        "bandwidth_x1": case["bandwidth_x"],
        "bandwidth_x2": case["bandwidth_x"],
    }
    value = condcs.conditional_cs_predictors(yp, xp[:, :1], xp[:, 1:], form=form, **widths)
    check(case, f"conditional_cs_predictors(yp, xp[:, :1], xp[:, 1:], form='{form}')", value)


@each_case
def test_median_bandwidths(samples):
    case, _, (xp, yp, xq, yq) = samples
    assert condcs.bandwidth(xp, xq, rule="joint_median") == pytest.approx(case["expected"]["median_x"], rel=1e-12)
    assert condcs.bandwidth(yp, yq, rule="joint_median") == pytest.approx(case["expected"]["median_y"], rel=1e-12)
