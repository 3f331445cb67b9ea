r"""P(sample | x), estimated richly enough that the x of redrawn samples cannot be told from the observed ones.

A ridge logistic regression on one of the designs of `smoothing`, design and penalty chosen by the leave-one-out
deviance. Whether it is good enough is a question about x and the labels alone: under the right probabilities the
observed imbalance of x is a typical draw. That check costs no validity, so richer fits are tried until it passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.thread_limit import one_blas_thread
from condcs._inference.combining import combined_evidence
from condcs._inference.smoothing import MOST_FREEDOM, Design, Smoother

FloatArray = np.ndarray[Any, Any]
Labels = np.ndarray[Any, Any]

PASSED = 0.05
"""Balance p-value from which on a fit is taken."""

_PENALTIES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
_RICHER = (0.1, 0.03)
_DESIGNS = 2
_STEPS = 12
_CHECKS = 199
_LEAST_GAIN = 0.2
_LEAST_LEFT = 0.05
_SMALLEST_VARIANCE = 1e-6


@dataclass(frozen=True, eq=False)
class _Logistic:
    """A fitted logistic regression of one label against the others.

    Attributes
    ----------
    design : str
        Which functions of x.
    penalty : float
        The ridge penalty.
    probabilities : array, shape (n,)
        Fitted probabilities.
    functions, gains : array, shape (n, p + 1)
        What a change of the labels by v does to the fitted probabilities: ``gains @ (functions.T @ v)``.
    deviance : float
        Leave-one-out deviance.
    """

    design: str
    penalty: float
    probabilities: FloatArray
    functions: FloatArray
    gains: FloatArray
    deviance: float

    def without_fit(self, change: FloatArray) -> FloatArray:
        """Return labels minus probabilities (n x P), were these fitted to each column of labels, to first order."""
        return np.asarray(change - self.gains @ (self.functions.T @ change))


@dataclass(frozen=True)
class Propensity:
    """Probabilities of the samples given x, how far they hold, and what a fit to redrawn labels would make of them.

    Attributes
    ----------
    probabilities : array, shape (n, G)
        Of each row and sample.
    design : str
        Which functions of x the log-odds are made of; "given" if the caller gave the probabilities.
    balance_pvalue : float
        Whether the observed imbalance of x is a typical draw.
    """

    probabilities: FloatArray
    design: str
    balance_pvalue: float
    _fits: tuple[_Logistic, ...] = ()

    @property
    def effective_rows(self) -> float:
        """Rows that tell the samples apart given x: all if x does not shift, few where the samples hardly overlap."""
        variance = (self.probabilities * (1 - self.probabilities)).sum()
        shares = self.probabilities.mean(axis=0)
        return float(variance / (shares * (1 - shares)).sum())

    def draw(self, count: int, rng: np.random.Generator) -> Labels:
        """Redraw the labels: (count, n), every sample with at least 2 rows."""
        from condcs._inference.nulls import independent_draws

        return independent_draws(self.probabilities, rng)(count)

    def surprises(self, labels: Labels, *, observed: bool = False) -> list[FloatArray]:
        """Return indicators of the labels (P x n) minus their probabilities: an array (n x P) for each sample but one.

        With two samples the second's says all. Probabilities that were fitted to the observed labels are fitted to
        redrawn ones too, to first order: what the fit uses up is then missing from both alike.
        """
        groups = range(1, 2) if self.probabilities.shape[1] == 2 else range(self.probabilities.shape[1])
        found = []
        for place, group in enumerate(groups):
            surprise = np.ascontiguousarray((labels == group).T - self.probabilities[:, [group]])
            if not observed and self._fits:
                with one_blas_thread():
                    surprise = self._fits[place].without_fit(surprise)
            found.append(surprise)
        return found


def fitted_propensity(smoother: Smoother, labels: Labels, count: int, rng: np.random.Generator) -> Propensity:
    """Estimate P(sample | x), and enrich it until the check of balance passes."""
    groups = [1] if count == 2 else list(range(count))
    seed = int(rng.integers(2**63))
    with one_blas_thread():
        paths = [_path(smoother, (labels == group).astype(np.float64)) for group in groups]
        fits = tuple(next(path) for path in paths)
        best = _checked(fits, smoother, labels, count, np.random.default_rng(seed))
        while best.balance_pvalue < PASSED:
            richer = tuple(next(path, fit) for path, fit in zip(paths, fits, strict=True))
            if richer == fits:
                break
            fits = richer
            found = _checked(fits, smoother, labels, count, np.random.default_rng(seed))
            if found.balance_pvalue > best.balance_pvalue:
                best = found
    return best


def given_propensity(
    probabilities: FloatArray, smoother: Smoother, labels: Labels, rng: np.random.Generator
) -> Propensity:
    """Check probabilities that the caller gave, or a classifier of theirs."""
    draft = Propensity(probabilities, "given", 1.0)
    return Propensity(probabilities, "given", _balance(draft, smoother.designs, labels, rng))


def _checked(
    fits: tuple[_Logistic, ...], smoother: Smoother, labels: Labels, count: int, rng: np.random.Generator
) -> Propensity:
    if count == 2:
        second = fits[0].probabilities
        probabilities = np.column_stack([1 - second, second])
    else:
        probabilities = np.column_stack([fit.probabilities for fit in fits])
        probabilities /= probabilities.sum(axis=1, keepdims=True)
    draft = Propensity(probabilities, fits[0].design, 1.0, fits)
    return Propensity(probabilities, fits[0].design, _balance(draft, smoother.designs, labels, rng), fits)


def _balance(draft: Propensity, designs: list[Design], labels: Labels, rng: np.random.Generator) -> float:
    """P-value of the observed imbalance of x: of all functions of each design, combined over the designs."""
    # Without new fits to the redrawn labels: what a fit leaves in the directions that it has used up is next to
    # nothing, and beside that a little would look like much.
    every = np.vstack([labels[None], draft.draw(_CHECKS, rng)])
    values = np.zeros((len(designs), 1 + _CHECKS))
    for surprises in draft.surprises(every, observed=True):
        for row, design in enumerate(designs):
            values[row] += ((design.functions.T @ surprises) ** 2).sum(axis=0)
    return combined_evidence(values).pvalue


def _path(smoother: Smoother, target: FloatArray) -> Iterator[_Logistic]:
    """Yield fits to try: the one with the smallest leave-one-out deviance, then richer ones as they are needed."""
    # Least squares is a good judge of which functions matter, in closed form; only the best are fitted in earnest.
    order = sorted(smoother.designs, key=lambda design: _squared_error(design, target))
    best: _Logistic | None = None
    for design in order[:_DESIGNS]:
        start = None
        for penalty in _PENALTIES:
            fit, start = _logistic(design, target, penalty, start)
            if best is None or fit.deviance < best.deviance - _LEAST_GAIN:
                best = fit
            elif fit.design == best.design and fit.deviance > best.deviance + 2:
                break
    assert best is not None
    yield best
    richer = [p for p in (*_PENALTIES, *_RICHER) if p < best.penalty]
    own = next(d for d in smoother.designs if d.name == best.design)
    others = [(d, best.penalty) for d in order if d.name != best.design][:_DESIGNS]
    for design, penalty in [*((own, p) for p in richer), *others]:
        yield _logistic(design, target, penalty, None)[0]


def _squared_error(design: Design, target: FloatArray) -> float:
    centred = target - target.mean()
    along = design.basis.T @ centred
    errors = []
    for penalty in _PENALTIES:
        shrinkage = design.spectrum / (design.spectrum + penalty)
        if shrinkage.sum() > MOST_FREEDOM * len(target):
            continue
        left = centred - design.basis @ (shrinkage * along)
        leverage = 1 / len(target) + design.basis**2 @ shrinkage
        errors.append(((left / np.maximum(1 - leverage, _LEAST_LEFT)) ** 2).sum())
    return float(min(errors, default=np.inf))


def _logistic(
    design: Design, target: FloatArray, penalty: float, start: FloatArray | None
) -> tuple[_Logistic, FloatArray]:
    """Fit by Newton's method; the constant is not penalised. Returns the fit and its coefficients."""
    functions = np.column_stack([np.ones(len(target)), design.functions])
    ridge = np.full(functions.shape[1], penalty)
    ridge[0] = 0.0
    if start is None:
        start = np.zeros(functions.shape[1])
        start[0] = np.log(target.mean() / (1 - target.mean()))
    coefficients = start
    for _ in range(_STEPS):
        probabilities = _expit(functions @ coefficients)
        variance = np.maximum(probabilities * (1 - probabilities), _SMALLEST_VARIANCE)
        slope = functions.T @ (target - probabilities) - ridge * coefficients
        step = np.linalg.solve((functions * variance[:, None]).T @ functions + np.diag(ridge), slope)
        largest = float(np.abs(functions @ step).max())
        # A step that moves some log-odds by more than 5 would overshoot.
        coefficients = coefficients + step * min(1.0, 5.0 / max(largest, 5.0))
        if largest < 1e-4:
            break
    odds = functions @ coefficients
    probabilities = _expit(odds)
    variance = np.maximum(probabilities * (1 - probabilities), _SMALLEST_VARIANCE)
    information = (functions * variance[:, None]).T @ functions + np.diag(ridge)
    gains = variance[:, None] * np.linalg.solve(information, functions.T).T
    leverage = np.einsum("ij,ij->i", functions, gains)
    deleted = odds - (target - probabilities) / variance * leverage / np.maximum(1 - leverage, _LEAST_LEFT)
    deviance = float(np.logaddexp(0, np.where(target > 0, -deleted, deleted)).sum())
    if leverage.sum() > MOST_FREEDOM * len(target):
        deviance = np.inf
    fit = _Logistic(design.name, penalty, probabilities, functions, np.ascontiguousarray(gains), deviance)
    return fit, coefficients


def _expit(odds: FloatArray) -> FloatArray:
    from scipy.special import expit

    return np.asarray(expit(odds))
