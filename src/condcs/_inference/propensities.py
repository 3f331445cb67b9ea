r"""P(sample | x), estimated richly enough that the x of redrawn samples cannot be told from the observed ones.

A ridge logistic regression on one of the designs of `smoothing`, design and penalty chosen by the leave-one-out
deviance. Whether it is good enough is a question about x and the labels alone: under the right probabilities the
observed imbalance of x is a typical draw. That check costs no validity, so richer fits are tried until it passes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, LabelArray, RealArray
from condcs._core.checks import label_type
from condcs._core.errors import BalanceWarning, DataError, OverlapWarning, ParameterError, ShapeError, warn_caller
from condcs._core.printable import counted
from condcs._core.settings import one_blas_thread
from condcs._inference.anchors import over_rows, total
from condcs._inference.resampling import combined_evidence
from condcs._inference.smoothing import (
    MOST_FREEDOM,
    ClusterMeans,
    Design,
    Smoother,
    designs_of_clusters,
    left_out,
    ridge_shrinkages,
)

Rows = slice | IntArray
Surprises = Callable[[Rows], list[FloatArray]]
"""Takes rows, and returns labels minus probabilities of these rows (rows x P): one array for each sample but one."""

PASSED = 0.05
"""Balance p-value from which on a fit is taken."""

_PENALTIES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
_RICHER = (0.1, 0.03)
_DESIGNS = 2
_STEPS, _LAST_STEP = 12, 1e-2
_CHECKS = 199
_LEAST_GAIN = 0.2
_LEAST_LEFT = 0.05
_SMALLEST_VARIANCE = 1e-6
_FOLDS = 5
_SMALLEST_GROUP = 2
_REDRAWS = 100
_UNIFORM_NUMBERS = 2**24
_UNBALANCED = 0.01
_FEWEST_EFFECTIVE_ROWS, _LEAST_OVERLAP = 30, 0.25


@dataclass(frozen=True, eq=False)
class _Logistic:
    """A fitted logistic regression of one label against the others.

    Attributes
    ----------
    design : Design
        The functions of x.
    penalty : float
        The ridge penalty.
    probabilities : array, shape (n,)
        Fitted probabilities.
    inverse : array, shape (p + 1, p + 1)
        Inverse of the information about the coefficients, the penalty included.
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
        """Variance of each label."""
        return _variances(self.probabilities)

    def shift(self, change: Callable[[slice], FloatArray]) -> FloatArray:
        """Return what a change of the labels (n x P, by rows) does to the coefficients, to first order."""
        sums = total(lambda rows: self.design.terms(rows).T @ change(rows), len(self.probabilities))
        return np.asarray(self.inverse @ sums)

    def moved(self, rows: Rows, shift: FloatArray) -> FloatArray:
        """Return what a shift of the coefficients does to the probabilities of some rows, to first order."""
        moved = np.asarray(self.design.terms(rows) @ shift)
        moved *= self.variances[rows, None]
        return moved


@dataclass(frozen=True)
class Propensity:
    """Probabilities of the samples given x, how far they hold, and what a fit to redrawn labels would make of them.

    A unit is what gets a label: a row, or a cluster of rows that belong together.

    Attributes
    ----------
    probabilities : array, shape (units, G)
        Of each unit and sample.
    design : str
        Which functions of x the log-odds are made of; "given" if the caller gave the probabilities.
    balance_pvalue : float
        Whether the observed imbalance of x is a typical draw.
    units : array of int, shape (n,), optional
        Unit of each row; without it every row is one.
    """

    probabilities: FloatArray
    design: str
    balance_pvalue: float
    _fits: tuple[_Logistic, ...] = ()
    _fitted_to: LabelArray | None = None
    units: IntArray | None = None

    @property
    def effective_rows(self) -> float:
        """Units that tell the samples apart given x: all if x does not shift, few where the samples hardly overlap."""
        variance = (self.probabilities * (1 - self.probabilities)).sum()
        shares = self.probabilities.mean(axis=0)
        return float(variance / (shares * (1 - shares)).sum())

    @property
    def diagnostics(self) -> dict[str, Any]:
        """What a result says about how far the null can be trusted."""
        rows = len(self.probabilities) if self.units is None else len(self.units)
        return {
            "balance_pvalue": self.balance_pvalue,
            "effective_rows": self.effective_rows * (rows / len(self.probabilities)),
            "propensity": self.design,
        }

    @property
    def of_rows(self) -> FloatArray:
        """Probabilities of every row (n x G)."""
        return self.probabilities if self.units is None else self.probabilities[self.units]

    def draw(self, count: int, rng: np.random.Generator) -> LabelArray:
        """Redraw the labels of all rows: (count, n), every sample with at least 2 units."""
        drawn = independent_draws(self.probabilities, rng)(count)
        return drawn if self.units is None else drawn[:, self.units]

    def surprises(self, labels: LabelArray, *, all_alike: bool = False) -> Surprises:
        """Return a function from rows to indicators of the labels (P x n) minus their probabilities.

        It is a function because all surprises of many rows at once would take too much memory. With two samples the
        second's says all. Probabilities that were fitted to the observed labels are fitted to redrawn ones too, to
        first order: what the fit uses up is then missing from both alike. With `all_alike` the labels that it was
        fitted to take that step as well, which leaves them what the penalty has kept from the fit.
        """
        groups = range(1, 2) if self.probabilities.shape[1] == 2 else range(self.probabilities.shape[1])
        own = labels if self.units is None else labels[:, np.unique(self.units, return_index=True)[1]]

        def change(units: Rows, group: int) -> FloatArray:
            # Turned as bytes: of numbers, that would take as long as all else here.
            return np.asarray((np.ascontiguousarray(own[:, units].T) == group) - self.probabilities[units, group, None])

        with one_blas_thread():
            shifts = [fit.shift(partial(change, group=g)) for fit, g in zip(self._fits, groups, strict=False)]
        if self._fitted_to is not None and not all_alike:
            same = (own == self._fitted_to).all(axis=1)
            for shift in shifts:
                shift[:, same] = 0.0

        def of_rows(rows: Rows) -> list[FloatArray]:
            units = rows if self.units is None else self.units[rows]
            found = [change(units, group) for group in groups]
            with one_blas_thread():
                for surprise, fit, shift in zip(found, self._fits, shifts, strict=False):
                    surprise -= fit.moved(units, shift)
            return found

        return of_rows


def chosen_propensity(
    given: Any,
    x: RealArray,
    smoother: Smoother,
    clusters: IntArray | None,
    labels: LabelArray,
    count: int,
    rng: np.random.Generator,
) -> Propensity:
    """Return P(sample | x): fitted by default, or from a classifier or probabilities that were given, or as given."""
    if isinstance(given, Propensity):
        return given
    designs = smoother.designs
    if given is not None:
        given = (
            cross_fitted(given, x, labels, count)
            if hasattr(given, "fit")
            else check_probabilities(given, len(x), count)
        )
    if clusters is not None:
        designs, means = designs_of_clusters(smoother, clusters), ClusterMeans(clusters)
        given = None if given is None else means(given)
        labels = labels[means.first]
    if given is None:
        return fitted_propensity(designs, labels, count, rng, clusters)
    return given_propensity(given, designs, labels, rng, clusters)


def fitted_propensity(
    designs: list[Design], labels: LabelArray, count: int, rng: np.random.Generator, units: IntArray | None = None
) -> Propensity:
    """Estimate P(sample | x), and enrich it until the check of balance passes.

    Designs (functions of x) and labels are those of the units; `units` says which one each row belongs to.
    """
    groups = [1] if count == 2 else list(range(count))
    seed = int(rng.integers(2**63))
    with one_blas_thread():
        paths = [_path(designs, (labels == group).astype(np.float64)) for group in groups]
        fits = tuple(next(path) for path in paths)
        best = _checked(fits, designs, labels, np.random.default_rng(seed))
        while best.balance_pvalue < PASSED:
            richer = tuple(next(path, fit) for path, fit in zip(paths, fits, strict=True))
            if richer == fits:
                break
            fits = richer
            found = _checked(fits, designs, labels, np.random.default_rng(seed))
            if found.balance_pvalue > best.balance_pvalue:
                best = found
    return replace(best, units=units)


def given_propensity(
    probabilities: FloatArray,
    designs: list[Design],
    labels: LabelArray,
    rng: np.random.Generator,
    units: IntArray | None = None,
) -> Propensity:
    """Check probabilities that the caller gave, or a classifier of theirs."""
    draft = Propensity(probabilities, "given", 1.0)
    return replace(draft, balance_pvalue=_balance(draft, designs, labels, rng), units=units)


def warn_if_unreliable(propensity: Propensity) -> None:
    """Warn where the imbalance of x is not explained, or the samples hardly overlap."""
    if propensity.balance_pvalue < _UNBALANCED:
        warn_caller(
            "the estimate of P(sample | x) does not explain how x differs between the samples (p-value of the check of "
            f"balance: {propensity.balance_pvalue:.3g}), so the p-value of the test rests on the adjustment of y for x "
            "alone and may be too small. Pass a richer classifier as `propensity`, or compare the samples where they "
            "overlap.",
            BalanceWarning,
        )
    count, clustered = len(propensity.probabilities), propensity.units is not None
    if propensity.effective_rows < min(_FEWEST_EFFECTIVE_ROWS, _LEAST_OVERLAP * count):
        where, unit = ("x and in the size of clusters", "cluster") if clustered else ("x", "row")
        warn_caller(
            f"the samples hardly overlap in {where}: {counted(count, unit)} tell as much about p(y|x) as "
            f"{counted(round(propensity.effective_rows), unit)} of samples that overlap fully. A large p-value then "
            "says little. Compare the samples where both have rows, or with fewer inputs.",
            OverlapWarning,
        )


def check_probabilities(propensity: Any, n: int, count: int) -> FloatArray:
    """Return given probabilities, one per pooled row and group."""
    try:
        given = np.asarray(propensity, np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"`propensity` must be None, a scikit-learn classifier or an array of probabilities, got {propensity!r}. "
            "Pass e.g. sklearn.ensemble.RandomForestClassifier()."
        ) from error
    if given.ndim == 1 and count == 2:
        given = np.column_stack([1 - given, given])
    if given.shape != (n, count):
        raise ShapeError(
            f"`propensity` must hold one probability per pooled row and group, shape ({n}, {count})"
            f"{f' or ({n},)' if count == 2 else ''}, got {np.shape(propensity)}. The first sample's rows come first."
        )
    if not np.all((given >= 0) & (given <= 1)) or not np.allclose(given.sum(axis=1), 1, atol=1e-6):
        raise DataError(
            "`propensity` must hold probabilities: between 0 and 1, and adding up to 1 over the groups of a row. "
            "Divide each row by its sum."
        )
    return given


def independent_draws(probabilities: FloatArray, rng: np.random.Generator) -> Callable[[int], LabelArray]:
    """Draw each row's label from its own probabilities, again for every draw that leaves a group short of rows."""
    n, count = probabilities.shape
    dtype = label_type(count)
    steps = np.cumsum(probabilities, axis=1)[:, :-1]
    if ((probabilities > 0).sum(axis=0) < _SMALLEST_GROUP).any():
        raise DataError(
            "`propensity` must leave every group at least 2 rows, but gives some group a positive probability in "
            "fewer. The samples may not overlap in x: there is nothing to compare."
        )

    def draw(number: int) -> LabelArray:
        labels = np.empty((number, n), dtype)
        short = np.arange(number)
        for _ in range(_REDRAWS):
            smallest = []
            # A few draws at a time: their random numbers take eight times the memory of labels.
            for part in np.array_split(short, -(-len(short) * n // _UNIFORM_NUMBERS)):
                uniform = rng.random((len(part), n))
                drawn = np.zeros((len(part), n), dtype)
                for g in range(count - 1):
                    drawn += uniform >= steps[:, g]
                labels[part] = drawn
                smallest.append(np.stack([(drawn == g).sum(axis=1) for g in range(count)]).min(axis=0))
            short = short[np.concatenate(smallest) < _SMALLEST_GROUP]
            if not len(short):
                return labels
        raise DataError(
            f"`propensity` must leave every group at least 2 rows, but {_REDRAWS} redraws in a row did not. The "
            'samples hardly overlap in x; pass null="local", or probabilities further from 0 and 1.'
        )

    return draw


def cross_fitted(classifier: Any, x: RealArray, groups: LabelArray, count: int) -> FloatArray:
    """Probabilities of each row from a classifier that has not seen it: a flexible one would repeat its label."""
    if not hasattr(classifier, "predict_proba"):
        raise ParameterError(
            f"`propensity` must have a method predict_proba, got {type(classifier).__name__}. "
            "Wrap it in sklearn.calibration.CalibratedClassifierCV."
        )
    smallest = int(np.bincount(groups).min())
    folds = min(_FOLDS, smallest)
    position = np.empty(len(groups), np.int64)
    for g in range(count):
        rows = np.flatnonzero(groups == g)
        position[rows] = np.arange(len(rows)) % folds
    probabilities = np.empty((len(groups), count))
    for fold in range(folds):
        held = position == fold
        model = _clone(classifier).fit(x[~held], groups[~held])
        probabilities[held] = model.predict_proba(x[held])
    return check_probabilities(probabilities, len(groups), count)


def _clone(classifier: Any) -> Any:
    from sklearn.base import clone

    try:
        return clone(classifier)
    except TypeError:
        return copy.deepcopy(classifier)


def _checked(
    fits: tuple[_Logistic, ...], designs: list[Design], labels: LabelArray, rng: np.random.Generator
) -> Propensity:
    if len(fits) == 1:
        second = fits[0].probabilities
        probabilities = np.column_stack([1 - second, second])
    else:
        probabilities = np.column_stack([fit.probabilities for fit in fits])
        probabilities /= probabilities.sum(axis=1, keepdims=True)
    draft = Propensity(probabilities, fits[0].design.name, 1.0, fits, labels)
    return replace(draft, balance_pvalue=_balance(draft, designs, labels, rng))


def _balance(draft: Propensity, designs: list[Design], labels: LabelArray, rng: np.random.Generator) -> float:
    """P-value of the observed imbalance of x: of all functions of each design, combined over the designs."""
    if not any(len(design.spectrum) for design in designs):
        return 1.0  # x is the same in all rows, so that nothing can be out of balance
    # All labels take one more step of the fit. Without it, redrawn samples would be out of balance in the directions
    # that the fit has used up, and what it does not explain would hide behind that.
    surprises = draft.surprises(np.vstack([labels[None], draft.draw(_CHECKS, rng)]), all_alike=True)

    def imbalance(rows: slice) -> FloatArray:
        """Sum each function (of all designs) times the surprises of each sample and draw."""
        own = np.concatenate(surprises(rows), axis=1)
        return np.concatenate([design.basis[rows].T @ own for design in designs])

    sums = total(imbalance, len(labels)).reshape(sum(len(d.spectrum) for d in designs), -1, 1 + _CHECKS)
    squares = np.concatenate([d.spectrum for d in designs])[:, None] * (sums**2).sum(axis=1)
    ends = np.cumsum([0, *(len(d.spectrum) for d in designs)])
    return combined_evidence(np.array([squares[a:b].sum(axis=0) for a, b in pairwise(ends)])).pvalue


def _path(designs: list[Design], target: FloatArray) -> Iterator[_Logistic]:
    """Yield fits to try: the one with the smallest leave-one-out deviance, then richer ones as they are needed."""
    # Least squares is a good judge of which functions matter, in closed form; only the best are fitted in earnest.
    order = sorted(designs, key=lambda design: _squared_error(design, target))
    best: _Logistic | None = None
    for design in order[:_DESIGNS]:
        start = None
        for penalty in _PENALTIES:
            fit, start = _logistic(design, target, penalty, start)
            if best is None or fit.deviance < best.deviance - _LEAST_GAIN:
                best = fit
            elif fit.design is best.design and fit.deviance > best.deviance + 2:
                break
    assert best is not None
    yield best
    richer = [p for p in (*_PENALTIES, *_RICHER) if p < best.penalty]
    others = [(d, best.penalty) for d in order if d is not best.design][:_DESIGNS]
    for design, penalty in [*((best.design, p) for p in richer), *others]:
        yield _logistic(design, target, penalty, None)[0]


def _squared_error(design: Design, target: FloatArray) -> float:
    centred = target - target.mean()
    n, along = len(target), design.along(centred)
    shrinkages = ridge_shrinkages(design.spectrum, np.array(_PENALTIES), n)
    if not shrinkages.shape[1]:
        return np.inf

    def errors(rows: slice) -> FloatArray:
        basis = np.asarray(design.basis[rows], np.float64)
        left = centred[rows, None] - basis @ (shrinkages * along[:, None])
        return np.asarray((left_out(left, 1 / n + basis**2 @ shrinkages) ** 2).sum(axis=0))

    return float(total(errors, n).min())


def _logistic(
    design: Design, target: FloatArray, penalty: float, start: FloatArray | None
) -> tuple[_Logistic, FloatArray]:
    """Fit by Newton's method; the constant is not penalised. Returns the fit and its coefficients."""
    n = len(target)
    ridge = np.full(len(design.spectrum) + 1, penalty)
    ridge[0] = 0.0
    if start is None:
        start = np.zeros(len(ridge))
        start[0] = np.log(target.mean() / (1 - target.mean()))
    coefficients = start
    probabilities = np.empty(n)

    def slope_and_information(rows: slice) -> FloatArray:
        terms = design.terms(rows)
        probabilities[rows] = _expit(terms @ coefficients)
        weighted = terms * np.sqrt(_variances(probabilities[rows]))[:, None]
        # The same array twice: half of a symmetric product is enough.
        return np.column_stack([terms.T @ (target[rows] - probabilities[rows]), weighted.T @ weighted])

    for _ in range(_STEPS):
        found = total(slope_and_information, n)
        step = np.linalg.solve(found[:, 1:] + np.diag(ridge), found[:, 0] - ridge * coefficients)
        largest = max(over_rows(partial(_largest_move, design, step), n))
        # A step that moves some log-odds by more than 5 would overshoot.
        coefficients = coefficients + step * min(1.0, 5.0 / max(largest, 5.0))
        # Steps of Newton's method shrink by their squares: after this one, nothing is left to move.
        if largest < _LAST_STEP:
            break
    inverse = np.linalg.inv(total(slope_and_information, n)[:, 1:] + np.diag(ridge))

    def freedom_and_deviance(rows: slice) -> FloatArray:
        """Degrees of freedom, and deviance with each row left out of the fit."""
        terms, variance = design.terms(rows), _variances(probabilities[rows])
        leverage = variance * np.einsum("ij,ij->i", terms @ inverse, terms)
        moved = leverage / np.maximum(1 - leverage, _LEAST_LEFT)
        deleted = terms @ coefficients - (target[rows] - probabilities[rows]) / variance * moved
        return np.array([leverage.sum(), np.logaddexp(0, np.where(target[rows] > 0, -deleted, deleted)).sum()])

    freedom, deviance = total(freedom_and_deviance, n)
    if freedom > MOST_FREEDOM * n:
        deviance = np.inf
    return _Logistic(design, penalty, probabilities, inverse, float(deviance)), coefficients


def _largest_move(design: Design, step: FloatArray, rows: slice) -> float:
    """Largest change of a log-odds by a step of the coefficients."""
    return float(np.abs(design.terms(rows) @ step).max())


def _variances(probabilities: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(probabilities * (1 - probabilities), _SMALLEST_VARIANCE))


def _expit(odds: FloatArray) -> FloatArray:
    from scipy.special import expit

    return np.asarray(expit(odds))
