r"""Ridge logistic regression of labels on a design, judged by the deviance of rows left out of the fit.

With the terms X of a design (n x (p + 1), a constant and the functions), coefficients b and probabilities
P = 1 / (1 + exp(-X b)), Newton's method solves

.. math:: I \, \Delta b = X' (t - P) - \lambda b, \qquad I = X' V X + \lambda, \qquad V = P (1 - P),

for a target t of zeros and ones; the constant has no penalty. What a fit to other labels would be, to first order, is
one more step (`LogisticFit.newton_step`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._parallel.many_rows import over_rows, total
from condcs._regression.designs import Design
from condcs._regression.ridge import LEAST_ONE_MINUS_LEVERAGE, MOST_FREEDOM, left_out, ridge_shrinkages

LOGISTIC_PENALTIES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
"""Penalties of a logistic regression, in descending order: the simplest fit first, from which the next one starts. They
are half a decade apart: finer steps would cost a fit by iteration each."""
RICHER_LOGISTIC_PENALTIES = (0.1, 0.03)
"""Smaller ones, in descending order too, tried only where a fit turns out not to be rich enough."""

_DESIGNS = 2
"""Designs that are fitted in earnest, each with up to six penalties: the best by least squares, which ranks them well,
and one more in case it errs. Of the other designs, as many at most are among the richer fits."""
_LEAST_GAIN = 0.2
"""Deviance (-log of the probability of each label, its row left out) that a richer fit must save. A needless parameter
costs about 0.5 on average; with the margin, near ties stay with the simpler fit."""
_WORSE = 2.0
"""Deviance by which a fit is so much worse than a simpler one of its design that richer ones are not tried: what
about four needless parameters cost."""
_MOST_STEPS, _LAST_STEP = 12, 1e-2
"""Steps of Newton's method at most, and the change of a log-odds below which the next would change nothing: its change
is about the square of this one."""
_LARGEST_STEP = 5.0
"""Change of a log-odds by one step: larger ones overshoot where probabilities are close to 0 or 1."""
_SMALLEST_VARIANCE = 1e-6
"""Variance of a label whose probability is all but 0 or 1, so that it can be divided by."""


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """A fitted logistic regression of one label against the others, and what it would be for other labels.

    Attributes
    ----------
    design : Design
        The functions of x.
    penalty : float
        The ridge penalty.
    probabilities : array, shape (n,)
        Fitted probabilities P.
    inverse : array, shape (p + 1, p + 1)
        Inverse of the information I about the coefficients, the penalty included.
    deviance : float
        Leave-one-out deviance.
    """

    design: Design
    penalty: float
    probabilities: FloatArray
    inverse: FloatArray
    deviance: float

    @cached_property
    def variances(self) -> FloatArray:
        """Variance of each label (n,)."""
        return _variances(self.probabilities)

    def newton_step(self, changes: Callable[[slice], FloatArray]) -> FloatArray:
        """Return the step of the coefficients (p + 1, m) for changes of the labels (n x m, by rows): I^-1 X' d."""
        sums = total(lambda rows: self.design.terms(rows).T @ changes(rows), len(self.probabilities))
        return np.asarray(self.inverse @ sums)

    def change_by_step(self, rows: slice | IntArray, step: FloatArray) -> FloatArray:
        """Return what a step of the coefficients (p + 1, m) adds to the probabilities of some rows: V X step."""
        changes = np.asarray(self.design.terms(rows) @ step)  # (rows, m)
        changes *= self.variances[rows, None]
        return changes

    def net_of_refit(self, functions: FloatArray) -> FloatArray:
        """Return functions (n, m) whose sums with changes of the labels are those of these with what a refit leaves.

        A refit leaves d - V X I^-1 X' d of a change d. Its sum with f is the sum of d with f - X I^-1 X' V f: one fit
        of the functions takes the place of a fit to each labelling.
        """
        step = self.newton_step(lambda rows: self.variances[rows, None] * functions[rows])
        fitted = over_rows(lambda rows: self.design.terms(rows) @ step, len(functions))
        return np.asarray(functions - np.concatenate(list(fitted)))


@dataclass(frozen=True, eq=False)
class LogisticPath:
    """The best fit of a target, and richer ones that are made when they are asked for.

    Attributes
    ----------
    target : array, shape (n,)
        Zeros and ones.
    best : LogisticFit
        The fit with the smallest deviance.
    richer : list of tuple
        Design and penalty of each richer fit: its own design with ever smaller penalties, then other designs.
    """

    target: FloatArray
    best: LogisticFit
    richer: list[tuple[Design, float]]

    def richer_fit(self, number: int) -> LogisticFit:
        """Make a richer fit, by its number."""
        design, penalty = self.richer[number]
        return fitted_logistic(design, self.target, penalty, None)[0]


def logistic_path(designs: Sequence[Design], target: FloatArray) -> LogisticPath:
    """Find the design and the penalty with the smallest deviance for a target of zeros and ones (n,)."""
    # Least squares is a good judge of which functions matter, in closed form; only the best are fitted in earnest.
    ranked = sorted(designs, key=lambda design: _squared_error(design, target))
    best: LogisticFit | None = None
    for design in ranked[:_DESIGNS]:
        start = None
        for penalty in LOGISTIC_PENALTIES:
            fit, start = fitted_logistic(design, target, penalty, start)
            if best is None or fit.deviance < best.deviance - _LEAST_GAIN:
                best = fit
            elif fit.design is best.design and fit.deviance > best.deviance + _WORSE:
                break
    assert best is not None
    penalties = (*LOGISTIC_PENALTIES, *RICHER_LOGISTIC_PENALTIES)
    richer = [(best.design, penalty) for penalty in penalties if penalty < best.penalty]
    others = [(design, best.penalty) for design in ranked if design is not best.design][:_DESIGNS]
    return LogisticPath(target, best, [*richer, *others])


def fitted_logistic(
    design: Design, target: FloatArray, penalty: float, start: FloatArray | None
) -> tuple[LogisticFit, FloatArray]:
    """Fit by Newton's method, from some coefficients or the constant alone; return also the coefficients (p + 1,)."""
    n = len(target)
    ridge = np.full(len(design.spectrum) + 1, penalty)
    ridge[0] = 0.0  # the constant
    if start is None:
        start = np.zeros(len(ridge))
        start[0] = np.log(target.mean() / (1 - target.mean()))
    coefficients = start
    probabilities = np.empty(n)  # filled chunk by chunk, by the function that follows

    def gradient_and_information(rows: slice) -> FloatArray:
        """Return the gradient of the log-likelihood, and minus its Hessian, beside one another (p + 1, p + 2)."""
        terms = design.terms(rows)
        probabilities[rows] = _expit(terms @ coefficients)
        weighted = terms * np.sqrt(_variances(probabilities[rows]))[:, None]
        # The same array twice: half of a symmetric product is enough.
        return np.column_stack([terms.T @ (target[rows] - probabilities[rows]), weighted.T @ weighted])

    for _ in range(_MOST_STEPS):
        sums = total(gradient_and_information, n)
        step = np.linalg.solve(sums[:, 1:] + np.diag(ridge), sums[:, 0] - ridge * coefficients)
        largest = max(over_rows(partial(_largest_change, design, step), n))
        coefficients = coefficients + step * (_LARGEST_STEP / max(largest, _LARGEST_STEP))
        if largest < _LAST_STEP:
            break
    inverse = np.linalg.inv(total(gradient_and_information, n)[:, 1:] + np.diag(ridge))

    def freedom_and_deviance(rows: slice) -> FloatArray:
        """Degrees of freedom, and deviance with each row left out of the fit."""
        terms, variance = design.terms(rows), _variances(probabilities[rows])
        leverage = variance * np.einsum("ij,ij->i", terms @ inverse, terms)
        # The log-odds of a row without its part in the fit: one step of Newton's method from the fit of all rows.
        pull = leverage / np.maximum(1 - leverage, LEAST_ONE_MINUS_LEVERAGE)
        left_out_odds = terms @ coefficients - (target[rows] - probabilities[rows]) / variance * pull
        # The deviance of a row is here -log of the probability of its label.
        deviances = np.logaddexp(0, np.where(target[rows] > 0, -left_out_odds, left_out_odds))
        return np.array([leverage.sum(), deviances.sum()])

    freedom, deviance = total(freedom_and_deviance, n)
    if freedom > MOST_FREEDOM * n:
        deviance = np.inf
    return LogisticFit(design, penalty, probabilities, inverse, float(deviance)), coefficients


def _squared_error(design: Design, target: FloatArray) -> float:
    """Smallest squared error of the ridge regressions on a design, each row left out of its own fit."""
    n = len(target)
    centred = target - target.mean()
    along = design.along(centred)  # (p,)
    shrinkages = ridge_shrinkages(design.spectrum, np.array(LOGISTIC_PENALTIES), n)
    if not shrinkages.shape[1]:
        return np.inf

    def errors(rows: slice) -> FloatArray:
        basis = np.asarray(design.basis[rows], np.float64)
        residuals = centred[rows, None] - basis @ (shrinkages * along[:, None])  # (rows, penalties)
        leverage = 1 / n + basis**2 @ shrinkages
        return np.asarray((left_out(residuals, leverage) ** 2).sum(axis=0))

    return float(total(errors, n).min())


def _largest_change(design: Design, step: FloatArray, rows: slice) -> float:
    """Largest change of a log-odds by a step of the coefficients."""
    return float(np.abs(design.terms(rows) @ step).max())


def _variances(probabilities: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(probabilities * (1 - probabilities), _SMALLEST_VARIANCE))


def _expit(odds: FloatArray) -> FloatArray:
    # Imported here, because `import condcs` stays light.
    from scipy.special import expit

    return np.asarray(expit(odds))
