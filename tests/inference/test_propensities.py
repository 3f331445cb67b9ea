"""P(sample | x): against scikit-learn, against fits made again, and the check of balance."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from condcs._inference.propensities import _propensity_of_fits, fitted_propensity, propensity_of_caller
from condcs._regression.designs import Design
from condcs._regression.logistic import fitted_logistic
from condcs._regression.smoother import Smoother


def _shifted(rng, n=150):
    x = rng.normal(size=(2 * n, 2))
    x[n:, 0] += 0.8
    return x, np.repeat([0, 1], n)


def test_logistic_regression_is_that_of_scikit_learn():
    x, labels = _shifted(np.random.default_rng(0))
    design = Design.of("plain", x)
    fit, _ = fitted_logistic(design, labels.astype(float), 3.0, None)
    model = LogisticRegression(C=1 / 3, tol=1e-10, max_iter=5000).fit(design.functions, labels)
    np.testing.assert_allclose(fit.probabilities, model.predict_proba(design.functions)[:, 1], atol=1e-6)


def test_leave_one_out_deviance_is_that_of_fits_without_each_row():
    x, labels = _shifted(np.random.default_rng(1), n=40)
    design = Design.of("plain", np.hstack([x, x**2]))
    fit, _ = fitted_logistic(design, labels.astype(float), 3.0, None)
    functions, deviance = design.functions, 0.0
    for row in range(len(labels)):
        kept = np.arange(len(labels)) != row
        model = LogisticRegression(C=1 / 3, tol=1e-8, max_iter=5000).fit(functions[kept], labels[kept])
        deviance -= model.predict_log_proba(functions[[row]])[0, labels[row]]
    assert fit.deviance == pytest.approx(deviance, rel=0.01)


def test_probabilities_of_redrawn_labels_are_those_of_a_new_fit_to_first_order():
    x, labels = _shifted(np.random.default_rng(2))
    design = Design.of("plain", np.hstack([x, x**2]))
    fit, coefficients = fitted_logistic(design, labels.astype(float), 3.0, None)
    redrawn = (np.random.default_rng(3).random(len(labels)) < fit.probabilities).astype(float)
    again, _ = fitted_logistic(design, redrawn, 3.0, coefficients)
    change = (redrawn - fit.probabilities)[:, None]
    left = (change - fit.change_by_step(slice(None), fit.newton_step(lambda rows: change[rows])))[:, 0]
    moved = np.abs(again.probabilities - fit.probabilities).max()
    # The error is of second order in the distance between the fits. The penalty draws a new fit towards 0 a second
    # time, which the first order leaves out; it is small beside the change itself.
    assert np.abs(left - (redrawn - again.probabilities)).max() < 0.35 * moved


@pytest.mark.parametrize("groups", [2, 3])
def test_surprises_of_all_samples_add_up_to_nothing(groups):
    rng = np.random.default_rng(4)
    labels = np.repeat(np.arange(groups), 80)
    x = rng.normal(size=(80 * groups, 2)) + 0.4 * labels[:, None]
    found = fitted_propensity(Smoother(x, [False, False]).designs, labels, groups, rng)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)
    surprises = found.surprises_by_rows(labels[None])(slice(None))
    assert len(surprises) == (1 if groups == 2 else groups)
    if groups > 2:
        np.testing.assert_allclose(sum(surprises), 0, atol=1e-12)
    # The labels that it was fitted to need no new fit, wherever they come in a batch; redrawn ones do.
    redrawn = found.draw(1, rng)
    both = found.surprises_by_rows(np.vstack([redrawn, labels[None]]))(slice(None))
    np.testing.assert_array_equal(both[0][:, 1], surprises[0][:, 0])
    np.testing.assert_allclose(both[0][:, 0], found.surprises_by_rows(redrawn)(slice(None))[0][:, 0], atol=1e-12)
    first = 1 if groups == 2 else 0
    assert np.abs(both[0][:, 0] - ((redrawn[0] == first) - found.probabilities[:, first])).max() > 1e-3


@pytest.mark.parametrize("kind", ["correlation", "wave", "category"])
def test_shifts_that_are_no_sum_of_one_column_shifts_pass_the_check_of_balance(kind):
    rng = np.random.default_rng(5)
    n = 300
    labels = np.repeat([0, 1], n)
    flags = [False, False]
    if kind == "correlation":
        x = rng.normal(size=(2 * n, 2))
        x[:, 1] = np.where(labels == 0, -0.5, 0.5) * x[:, 0] + np.sqrt(0.75) * x[:, 1]
    elif kind == "wave":
        x = rng.random((20 * n, 1))
        keep = rng.random(20 * n) < (1 + 0.8 * np.where(np.arange(20 * n) % 2, -1, 1) * np.sin(6 * np.pi * x[:, 0])) / 2
        odd = np.arange(20 * n) % 2 == 1
        x = np.concatenate([x[keep & ~odd][:n], x[keep & odd][:n]])
        flags = [False]
    else:
        category = rng.integers(4, size=2 * n)
        number = rng.normal(size=2 * n) + labels * np.array([-1.0, -0.3, 0.3, 1.0])[category]
        x, flags = np.column_stack([number, category]), [False, True]
    found = fitted_propensity(Smoother(x, flags).designs, labels, 2, rng)
    assert found.balance_pvalue >= 0.05


def test_constant_probabilities_fail_the_check_where_only_a_correlation_changed():
    rng = np.random.default_rng(6)
    labels = np.repeat([0, 1], 200)
    x = rng.normal(size=(400, 2))
    x[:, 1] = np.where(labels == 0, -0.5, 0.5) * x[:, 0] + np.sqrt(0.75) * x[:, 1]
    found = propensity_of_caller(np.full((400, 2), 0.5), Smoother(x, [False, False]).designs, labels, rng)
    assert found.balance_pvalue <= 0.01


def test_the_check_of_balance_passes_the_true_probabilities_as_often_as_it_says():
    rejected = 0
    for seed in range(100):
        rng = np.random.default_rng([7, seed])
        x = rng.normal(size=(120, 2))
        true = expit(x[:, 0] * x[:, 1])
        labels = (rng.random(120) < true).astype(int)
        found = propensity_of_caller(
            np.column_stack([1 - true, true]), Smoother(x, [False, False]).designs, labels, rng
        )
        rejected += found.balance_pvalue <= 0.05
    # Binomial(100, 0.05) exceeds 13 in 1 of 2,000 cases.
    assert rejected <= 13


def test_what_a_fit_has_used_up_does_not_hide_what_it_has_not():
    """A fit of the right functions is found to be in balance with p-values on both sides of one half.

    The first column shifts by a lot, which a fit to it explains; were redrawn labels compared without a fit of their
    own, the p-values would all be near 1.
    """
    pvalues = []
    for seed in range(60):
        rng = np.random.default_rng([17, seed])
        labels = np.repeat([0, 1], 100)
        x = rng.normal(size=(200, 2)) + np.array([1.0, 0.0]) * labels[:, None]
        designs = Smoother(x, [False, False]).designs
        line = Design.of("line", x)
        fit = fitted_logistic(line, labels.astype(float), 1.0, None)[0]
        pvalues.append(_propensity_of_fits((fit,), designs, labels, rng).balance_pvalue)
    below = np.sum(np.array(pvalues) < 0.5)
    # Binomial(60, 0.5) lies outside 17 to 43 in 1 of 2,000 cases.
    assert 17 <= below <= 43


def test_effective_units_are_all_without_a_shift_and_few_without_overlap():
    rng = np.random.default_rng(8)
    labels = np.repeat([0, 1], 100)
    x = rng.normal(size=(200, 1))
    same = fitted_propensity(Smoother(x, [False]).designs, labels, 2, rng)
    assert same.effective_units > 180
    apart = fitted_propensity(Smoother(x + 6 * labels[:, None], [False]).designs, labels, 2, rng)
    assert apart.effective_units < 20
