"""p-values: never from something that is not a number, and the same in every unit of the data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import condcs
from condcs._core.errors import DataError
from condcs._inference.resampling import combined_evidence, largest_studentised, pvalue


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_statistic_is_an_error_not_the_smallest_pvalue(bad):
    with pytest.raises(DataError, match=rf"finite number, got {bad} for the samples as given\. .* Drop constant"):
        pvalue(bad, np.arange(3.0))
    with pytest.raises(DataError, match=rf"got {bad} for 1 of 3 resamples"):
        pvalue(0.0, np.array([1.0, bad, 2.0]))
    with pytest.raises(DataError, match="as given"):
        largest_studentised(np.array([0.0, bad]), np.zeros((2, 3)))
    with pytest.raises(DataError, match="resamples"):
        largest_studentised(np.zeros(2), np.array([[0.0, 1.0], [bad, 2.0]]))


def test_a_sample_without_spread_is_an_error_not_the_smallest_pvalue():
    """Its covariance is 0, so the von Neumann divergence from it is not a number."""
    x, y = np.random.default_rng(0).normal(size=(2, 100))
    ones = np.ones(100)
    with np.errstate(all="ignore"), pytest.raises(DataError, match="conditional_test: "):
        condcs.conditional_test(x, y, ones, ones, measure="conditional_bregman", n_resamples=99, rng=0)


def test_the_first_of_all_statistics_that_no_resample_reaches_was_called_the_most_telling():
    """By rank both have the p-value 1 / 200; one lies just beyond its resamples, the other far out."""
    resamples = np.sort(np.random.default_rng(0).chisquare(3, size=(2, 199)), axis=1)
    observed = resamples[:, -1:] * [[1.01], [3.0]]
    values = np.concatenate([observed, resamples], axis=1)
    evidence = combined_evidence(values)
    np.testing.assert_array_equal(evidence.pvalues, 1 / 200)
    assert evidence.most_telling == 1
    # A weight that outdoes the ratio of the chances turns it.
    assert combined_evidence(values, np.array([1e9, 1.0])).most_telling == 0


NUMBERS = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda v: round(v, 3))


@settings(max_examples=200, deadline=None)
@given(NUMBERS, arrays(np.float64, st.integers(1, 30), elements=NUMBERS), st.integers(-900, 900))
def test_pvalue_does_not_depend_on_the_unit(statistic, null, power):
    """Powers of two scale every operation exactly, so not even a near tie may turn."""
    scale = 2.0**power
    assert pvalue(scale * statistic, scale * null) == pvalue(statistic, null)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_volts_and_microvolts_give_the_same_pvalue(scale):
    """The von Neumann divergence has the unit of a variance: 1e-12 for data in volts at 1e-6."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 200))
    y = x + noise * np.repeat([1.0, 3.0], 100)
    found, rescaled = (
        condcs.conditional_test(
            *(c * a for a in (x[:100], y[:100], x[100:], y[100:])),
            measure="conditional_bregman",
            n_resamples=99,
            rng=0,
        )
        for c in (1.0, scale)
    )
    assert rescaled.pvalue == found.pvalue <= 0.02


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_variances_that_no_double_holds_are_an_error(scale):
    x, y = scale * np.random.default_rng(0).normal(size=(2, 60))
    with np.errstate(all="ignore"), pytest.raises(DataError, match="conditional_test: "):
        condcs.conditional_test(x[:30], y[:30], x[30:], y[30:], measure="conditional_bregman", n_resamples=19, rng=0)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_exact_ties_count_whatever_the_last_digits(scale):
    """Equal up to rounding: 16 digits less the few that sums of thousands of terms cost."""
    value = scale * 0.1
    null = value * (1 + 1e-14 * np.array([-5.0, 3.0, -1.0, 0.0]))
    assert pvalue(value, null) == 1.0
    assert pvalue(value, value * (1 - 1e-6 * np.arange(1, 5))) == 0.2


def test_one_value_far_out_makes_no_ties():
    null = np.concatenate([np.linspace(0.1, 0.2, 98), [1e12]])
    assert pvalue(0.3, null) == 0.02


@pytest.mark.parametrize("measure", ["conditional_cs", "conditional_euclidean"])
@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_a_statistic_that_no_labelling_changes_has_pvalue_one(measure, scale):
    """A constant y: the divergence is 0 under every labelling, and what rounding leaves of it must not decide."""
    x, y = scale * np.random.default_rng(5).normal(size=(80, 2)), np.zeros(80)
    options = {"measure": measure, "null": "permutation", "n_resamples": 99, "rng": 0, "bandwidth_y": 1.0}
    found = condcs.conditional_test(x[:40], y[:40], x[40:], y[40:], **options)
    assert np.abs(found.null_distribution).max() <= 1e-12
    assert found.pvalue == 1.0


def test_rounding_of_a_constant_statistic_is_not_studentised():
    """One statistic varies, one is the same up to rounding: the first alone decides."""
    rng = np.random.default_rng(1)
    values = rng.random(99)
    noise = 0.5 + 1e-16 * rng.integers(-3, 4, size=100)
    noise[0] += 5e-16
    together = largest_studentised(np.array([0.3, noise[0]]), np.stack([values, noise[1:]]))
    studentised = (values - np.append(values, 0.3).mean()) / np.append(values, 0.3).std()
    own = (0.3 - np.append(values, 0.3).mean()) / np.append(values, 0.3).std()
    assert together.pvalue == pvalue(max(own, 0.0), np.maximum(studentised, 0.0), rounding=1e-12)


def test_an_f_test_that_is_not_a_number_is_an_error(monkeypatch):
    from condcs.causal import _link_tests, causal_test

    monkeypatch.setattr(_link_tests, "f_test", lambda *parts: (np.nan, np.nan))
    x, y = np.random.default_rng(0).normal(size=(2, 60))
    with pytest.raises(DataError, match="causal_test: the statistic must be a finite number, got nan for the series"):
        causal_test(x, y, measure="linear_granger", null="analytic")
