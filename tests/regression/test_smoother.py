"""Regression on x: closed forms against fits made again without each row."""

import numpy as np
import pytest

from condcs._regression.designs import Design
from condcs._regression.smoother import Smoother


def _ridge(functions, target, penalty):
    """Fit with a constant that is not penalised; return a function that predicts."""
    centre, mean = functions.mean(axis=0), target.mean()
    centred = functions - centre
    weights = np.linalg.solve(centred.T @ centred + penalty * np.eye(functions.shape[1]), centred.T @ (target - mean))
    return lambda new: mean + (new - centre) @ weights


def test_residuals_without_a_row_are_those_of_a_fit_made_without_it(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(25, 2))
    y = x[:, :1] ** 2 + 0.3 * rng.normal(size=(25, 1))
    monkeypatch.setattr("condcs._regression.smoother.RIDGE_PENALTIES", np.array([2.0]))
    smoother = Smoother(x, [False, False])
    smoother.designs = smoother.designs[:1]
    _, deleted = smoother.residuals(y)
    functions = smoother.designs[0].functions
    expected = []
    for row in range(25):
        kept = np.arange(25) != row
        predict = _ridge(functions[kept], y[kept, 0], 2.0)
        expected.append(y[row, 0] - predict(functions[row]))
    np.testing.assert_allclose(deleted[:, 0], expected, rtol=1e-8)


def test_design_keeps_the_inner_products_of_its_functions():
    functions = np.random.default_rng(1).normal(size=(30, 4))
    centred = functions - functions.mean(axis=0)
    for wide in (functions, np.hstack([functions] * 10)):
        design = Design.of("any", wide)
        assert design.basis.shape == (30, 4)
        gram = design.functions @ design.functions.T
        np.testing.assert_allclose(gram, centred @ centred.T * (wide.shape[1] / 4), atol=1e-9)


@pytest.mark.parametrize(
    ("columns", "function", "left"),
    [
        (1, lambda x: np.sin(8 * x[:, 0]), 0.1),
        (2, lambda x: x[:, 0] * x[:, 1], 0.1),
        (5, lambda x: np.abs(x[:, 0]) + x[:, 1], 0.35),
        (3, lambda x: np.sin(5 * x[:, 0]), 0.4),
        (6, lambda x: np.linalg.norm(x, axis=1), 0.03),
    ],
)
def test_smooth_functions_of_x_are_found(columns, function, left):
    x = np.random.default_rng(2).normal(size=(400, columns))
    y = function(x)[:, None]
    residuals, _ = Smoother(x, [False] * columns).residuals(y)
    assert residuals.std() < left * y.std()


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x, logs: logs[:, 0] * logs[:, 1], 0.2),
        (lambda x, logs: np.sin(2 * logs[:, 0]) + logs[:, 1], 0.1),
        (lambda x, logs: x[:, 0] - x[:, 2], 0.01),
        (lambda x, logs: x[:, 0] * x[:, 1], 0.01),
    ],
)
def test_functions_of_skewed_inputs_are_found(function, left):
    """In its own units nearly all of a lognormal column lies in one place: a product of logarithms was not seen."""
    logs = np.random.default_rng(8).normal(size=(400, 3))
    x = np.exp(1.2 * logs)
    y = function(x, logs)[:, None]
    residuals, _ = Smoother(x, [False] * 3).residuals(y)
    assert residuals.std() < left * y.std()


@pytest.mark.parametrize("columns", [1, 2])
def test_few_columns_of_many_are_found(columns):
    """Splines of eight columns have few knots each, or a penalty for all: a third of an absolute value was left."""
    x = np.random.default_rng(9).normal(size=(300, 8))
    y = np.abs(x[:, :columns]).sum(axis=1)[:, None]
    noisy = y + 0.5 * np.random.default_rng(10).normal(size=(300, 20))
    left = [
        Smoother(x, [False] * 8, only_defence=only_defence).residuals(noisy).in_sample.mean(axis=1)
        for only_defence in (False, True)
    ]
    # What all of the targets have in common beside a twentieth of the variance of their noise.
    common = [values.var() - 0.25 / 20 for values in left]
    assert common[1] < 0.6 * common[0]


def test_undersmoothed_residuals_have_a_tenth_of_the_best_penalty(monkeypatch):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 2))
    y = x[:, :1] * x[:, 1:] + rng.normal(size=(60, 1))
    for only_defence in (False, True):
        smoother = Smoother(x, [False, False], only_defence=only_defence)
        smoother.designs = smoother.designs[1:2]
        penalties = 10.0 ** np.arange(-3.0, 4.01)
        errors, lefts = [], []
        for penalty in penalties:
            predict = _ridge(smoother.designs[0].functions, y[:, 0], penalty)
            lefts.append(y[:, 0] - predict(smoother.designs[0].functions))
            monkeypatch.setattr("condcs._regression.smoother.RIDGE_PENALTIES", np.array([penalty]))
            monkeypatch.setattr("condcs._regression.ridge.MOST_FREEDOM", 1.0)
            again = Smoother(x, [False, False])
            again.designs = again.designs[1:2]
            errors.append(np.sum(again.residuals(y).left_out ** 2))
        best = int(np.argmin(errors))
        assert 0 < best < 6
        monkeypatch.setattr("condcs._regression.smoother.RIDGE_PENALTIES", penalties)
        np.testing.assert_allclose(smoother.residuals(y).in_sample[:, 0], lefts[best], atol=1e-9)
        np.testing.assert_allclose(smoother.undersmoothed_residuals(y).in_sample[:, 0], lefts[best - 1], atol=1e-9)


def test_slopes_that_differ_by_category_are_found():
    rng = np.random.default_rng(3)
    category = rng.integers(4, size=300)
    number = rng.normal(size=300)
    y = (np.array([-1.0, 0.0, 1.0, 2.0])[category] * number)[:, None]
    residuals, _ = Smoother(np.column_stack([number, category]), [False, True]).residuals(y)
    assert residuals.std() < 0.1 * y.std()


def test_noise_is_left_alone():
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(200, 3))
    residuals, _ = Smoother(rng.normal(size=(200, 5)), [False] * 5).residuals(noise)
    # A fit of k free parameters would leave 1 - k / 200 of the variance.
    assert np.all(residuals.var(axis=0) > 0.85 * noise.var(axis=0))


def test_inputs_of_categories_alone_and_constant_inputs_are_no_obstacle():
    rng = np.random.default_rng(5)
    category = rng.integers(3, size=60).astype(float)
    y = category[:, None] + 0.1 * rng.normal(size=(60, 1))
    residuals, _ = Smoother(category[:, None], [True]).residuals(y)
    assert residuals.std() < 0.15
    residuals, _ = Smoother(np.column_stack([np.ones(60), category]), [False, True]).residuals(y)
    assert residuals.std() < 0.15


@pytest.mark.parametrize("n", [40, 120, 150])
def test_a_fit_through_every_row_is_not_taken_for_a_good_one(n):
    """As many bumps as rows: the leave-one-out error of a fit that interpolates is rounding error."""
    rng = np.random.default_rng(6)
    z, noise = rng.normal(size=(n, 5)), rng.normal(size=(n, 1))
    residuals, _ = Smoother(z, [False] * 5).residuals(z[:, :1] * z[:, 1:2] + noise)
    assert residuals.var() > 0.4
