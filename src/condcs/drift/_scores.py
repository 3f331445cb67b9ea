r"""Scores of rows: numbers whose distribution given x stays the same while p(y|x) does, whatever x does.

A response that is a number is replaced by its residual from a regression on x in units of its spread at x, also fitted.
A label y becomes, for each of its values c, the normal score of :math:`(1 - \pi_c(x)) U` if y is another one and of
:math:`1 - \pi_c(x) + \pi_c(x) U` if it is c, with a uniform random U. If the fitted probability :math:`\pi_c` is right,
that is uniform before the normal score is taken, whatever x. Of several responses the products of their scores are
scores as well. Where the residuals of the reference are autocorrelated, those of earlier rows predict numbers,
and probabilities of labels, of the next.

The regressions are fitted on blocks of the reference, the others are scored like new rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import binom, chi2, rankdata

from condcs._core.compiling import njit
from condcs._tables.kinds import Column
from condcs.drift._betting import normal_score
from condcs.drift._reference_regression import Regression, RegressionFitter, predict_rows, stored

FloatArray = np.ndarray[Any, Any]

FITTED_ROWS = 2500
"""Largest number of rows on which regressions are fitted."""

FEWEST_ROWS = 40
"""Rows that a reference must have."""

_BLOCK, _MOST_BLOCKS = 50, 40
_MOST_LABELS = 8
_MOST_PAIRED = 4
_LEAST_PROBABILITY = 0.02
_SPREAD_RANGE = 5.0
_NEGLIGIBLE = 1e-6
_NEIGHBOURS = 3
_UNKNOWN_SHARE = 1.2
"""Of m fitted rows, this over the square root of m is the share that is farthest from the others."""
_INPUTS_COUNT = 0.5
_LAGS, _MOST_ORDER = 10, 10
_RECOGNISED, _LEFT_OVER = 0.01, 0.003
_LONGEST_MEMORY = 0.9
_SHORTEST_STRETCH, _STRETCHES = 25, 40
_SHORTEST = 6.0
"""Least square root of the number of rows, times one less the sum of the coefficients of an autoregression."""
_FARTHEST = 6.0
_ARRAYS = ("typical", "autoregression", "innovation", "units", "fitted")


@dataclass(frozen=True)
class Target:
    """What a score is made of: a column of y, and one of its labels (-1 for numbers)."""

    column: int
    label: int


@dataclass(frozen=True)
class ScoreModel:
    """How rows are scored.

    Attributes
    ----------
    inputs, responses : tuple of Column
        Columns of x and y.
    targets : tuple of Target
        One score each; then come products of pairs.
    pairs : tuple of pairs of int
        Which targets have a score for their product. A label paired with itself has one for whether it is what x leads
        to expect: its score, with the opposite sign where it is the less likely one.
    means, spreads : Regression
        Expected targets at x, and expected absolute residuals of those that are numbers.
    typical : array, shape (t,)
        Mean absolute residual of each target; its fitted value is kept within a factor of five of it.
    autoregression : array, shape (order, t)
        Coefficients of earlier scores.
    innovation : array, shape (t,)
        Spread of what they leave.
    units : array
        Units of the columns of the design in distances between rows.
    fitted : array, shape (m, p)
        Rows of the fit, in these units.
    farthest : float
        Rows farther than this from their third neighbour among them are unknown.
    notes : tuple of str
        What was found about the dependence of rows.
    promises : bool
        Whether the stated rate can be promised.
    """

    inputs: tuple[Column, ...]
    responses: tuple[Column, ...]
    targets: tuple[Target, ...]
    pairs: tuple[tuple[int, int], ...]
    means: Regression
    spreads: Regression
    typical: FloatArray
    autoregression: FloatArray
    innovation: FloatArray
    units: FloatArray
    fitted: FloatArray
    farthest: float
    notes: tuple[str, ...] = ()
    promises: bool = True

    @property
    def n_scores(self) -> int:
        """Scores of a row."""
        return len(self.targets) + len(self.pairs)

    def no_history(self) -> FloatArray:
        """Return the earlier scores that a stream begins with."""
        return np.zeros((len(self.autoregression), len(self.targets)))

    def known(self, inputs: FloatArray) -> FloatArray:
        """Whether the reference has rows near these of the design; elsewhere p(y|x) is unknown."""
        return np.asarray(_have_neighbours(inputs, self.units, self.fitted, self.farthest))

    def spread(self, inputs: FloatArray) -> FloatArray:
        """Return the expected absolute residual at rows of the design."""
        return np.asarray(_spread_rows(inputs, self.spreads, self.typical))

    def residuals(self, inputs: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return residuals in units of their spread at x, and probabilities of labels (0 for numbers)."""
        return self.scaled(inputs, aims_of(y, self._columns), self.means.predict(inputs))

    def scaled(self, inputs: FloatArray, aims: FloatArray, expected: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the same for targets whose expectations are given."""
        found: tuple[FloatArray, FloatArray] = _scale_rows(aims, expected, self.spread(inputs), self._columns)
        return found

    def features(self, inputs: FloatArray) -> FloatArray:
        """Return, at rows of the design, what is alike where scores are likely to have the same distribution.

        That is what is expected of every target and the logarithm of its spread, in units of residuals; and, less
        important, the inputs themselves.
        """
        expected = self.means.predict(inputs) / self.typical
        spreads = np.log(self.spread(inputs) / self.typical)
        return np.hstack([expected, spreads, _INPUTS_COUNT * inputs / self.units])

    def score(
        self, inputs: FloatArray, y: FloatArray, uniforms: FloatArray, history: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the scores of rows in the order of time, and of the last of them what later ones depend on."""
        found: tuple[FloatArray, FloatArray] = _score_rows(
            inputs, y, uniforms, history, self.means, self.spreads, self._arrays
        )
        return found

    @cached_property
    def _columns(self) -> FloatArray:
        """Columns and labels of the targets."""
        return np.array([(target.column, target.label) for target in self.targets], np.int64)

    @cached_property
    def _arrays(self) -> _Arrays:
        pairs = np.array(self.pairs, np.int64).reshape(-1, 2)
        return _Arrays(self._columns, pairs, self.typical, self.autoregression, self.innovation)

    def innovations(
        self, residuals: FloatArray, predicted: FloatArray, chances: FloatArray, uniforms: FloatArray
    ) -> FloatArray:
        """Return scores: innovations of numbers, normal scores of the randomised ranks of labels, and products."""
        return np.asarray(_innovate(residuals, predicted, chances, uniforms, self._arrays))

    def state(self) -> dict[str, FloatArray]:
        """Return the arrays."""
        named = {f"means_{name}": array for name, array in self.means._asdict().items()}
        named |= {f"spreads_{name}": array for name, array in self.spreads._asdict().items()}
        return named | {name: getattr(self, name) for name in _ARRAYS}

    def describe(self) -> dict[str, Any]:
        """Return the rest as plain JSON values."""
        return {
            "targets": [[t.column, t.label] for t in self.targets],
            "pairs": [list(pair) for pair in self.pairs],
            "farthest": self.farthest,
            "notes": list(self.notes),
            "promises": self.promises,
        }

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, FloatArray],
        about: Mapping[str, Any],
        inputs: tuple[Column, ...],
        responses: tuple[Column, ...],
    ) -> ScoreModel:
        """Undo `state` and `describe`; a KeyError or ValueError if they do not fit."""
        means, spreads = (
            Regression(*(stored(state, f"{part}_{name}") for name in Regression._fields))
            for part in ("means", "spreads")
        )
        made = cls(
            inputs=inputs,
            responses=responses,
            targets=tuple(Target(int(c), int(label)) for c, label in about["targets"]),
            pairs=tuple((int(a), int(b)) for a, b in about["pairs"]),
            means=means,
            spreads=spreads,
            farthest=float(about["farthest"]),
            notes=tuple(map(str, about["notes"])),
            promises=bool(about["promises"]),
            typical=stored(state, "typical"),
            autoregression=stored(state, "autoregression"),
            innovation=stored(state, "innovation"),
            units=stored(state, "units"),
            fitted=stored(state, "fitted"),
        )
        width, count = design(np.zeros((0, len(inputs))), inputs).shape[1], len(made.targets)
        for regression in (means, spreads):
            regression.check(width, count)
        shapes = (made.typical.shape, made.innovation.shape, made.units.shape, made.autoregression.shape[1:])
        if shapes != ((count,), (count,), (width,), (count,)) or made.fitted.shape[1:] != (width,):
            raise ValueError("scores whose arrays do not fit")
        if not count or len(made.fitted) < _NEIGHBOURS:
            raise ValueError("scores of nothing")
        return made


class _Arrays(NamedTuple):
    """What the compiled loops need of a model besides its regressions: columns of `Target`, and arrays of it."""

    columns: FloatArray
    pairs: FloatArray
    typical: FloatArray
    autoregression: FloatArray
    innovation: FloatArray


@njit(nogil=True)
def aims_of(y: Any, columns: Any) -> Any:
    """Return what is regressed on x: numbers, and indicators of labels."""
    aims = np.empty((len(y), len(columns)))
    for t in range(len(y)):
        for k in range(len(columns)):
            value, label = y[t, columns[k, 0]], columns[k, 1]
            aims[t, k] = value if label < 0 else 1.0 if value == label else 0.0
    return aims


@njit(nogil=True)
def _spread_rows(inputs: Any, spreads: Any, typical: Any) -> Any:
    found = predict_rows(inputs, spreads)
    for t in range(found.shape[0]):
        for k in range(found.shape[1]):
            found[t, k] = min(max(found[t, k], typical[k] / _SPREAD_RANGE), typical[k] * _SPREAD_RANGE)
    return found


@njit(nogil=True)
def _scale_rows(aims: Any, expected: Any, spread: Any, columns: Any) -> Any:
    residuals, chances = np.empty_like(aims), np.zeros_like(aims)
    for t in range(aims.shape[0]):
        for k in range(aims.shape[1]):
            if columns[k, 1] < 0:
                residuals[t, k] = (aims[t, k] - expected[t, k]) / spread[t, k]
            else:
                chance = min(max(expected[t, k], _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
                chances[t, k] = chance
                residuals[t, k] = (aims[t, k] - chance) / math.sqrt(chance * (1 - chance))
    return residuals, chances


@njit(nogil=True)
def predict(residuals: Any, coefficients: Any, history: Any) -> Any:
    """Return what the rows before each row predict of it, and the last rows; outliers count as at most six units."""
    order, (n, targets) = len(coefficients), residuals.shape
    before = np.empty((order + n, targets))
    before[:order] = history
    for t in range(n):
        for k in range(targets):
            before[order + t, k] = min(max(residuals[t, k], -_FARTHEST), _FARTHEST)
    predicted = np.zeros((n, targets))
    for t in range(n):
        for lag in range(1, order + 1):
            predicted[t] += coefficients[lag - 1] * before[order + t - lag]
    return predicted, before[n:].copy()


@njit(nogil=True)
def _have_neighbours(inputs: Any, units: Any, fitted: Any, farthest: float) -> Any:
    """Whether at least three fitted rows are no farther than this from each row."""
    n, d = inputs.shape
    found = np.zeros(n, np.bool_)
    row = np.empty(d)
    for t in range(n):
        for c in range(d):
            row[c] = inputs[t, c] / units[c]
        near = 0
        for m in range(len(fitted)):
            square = 0.0
            for c in range(d):
                square += (row[c] - fitted[m, c]) ** 2
            if square <= farthest * farthest:
                near += 1
                if near == _NEIGHBOURS:
                    found[t] = True
                    break
    return found


@njit(nogil=True)
def _innovate(residuals: Any, predicted: Any, chances: Any, uniforms: Any, arrays: Any) -> Any:
    n, targets = residuals.shape
    pairs = arrays.pairs
    scores = np.empty((n, targets + len(pairs)))
    signs = np.ones(targets)
    for t in range(n):
        for k in range(targets):
            if arrays.columns[k, 1] < 0:
                scores[t, k] = (residuals[t, k] - predicted[t, k]) / arrays.innovation[k]
                continue
            before = chances[t, k]
            deviation = math.sqrt(before * (1 - before)) if before > 0 else 1.0
            chance = before + deviation * predicted[t, k]
            chance = min(max(chance, _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
            signs[k] = -1.0 if chance < 0.5 else 1.0
            u = uniforms[t, k]
            rank = 1 - chance + chance * u if residuals[t, k] > 0 else (1 - chance) * u
            scores[t, k] = normal_score(min(max(rank, 1e-12), 1 - 1e-12))
        for q in range(len(pairs)):
            a, b = pairs[q]
            scores[t, targets + q] = scores[t, a] * (signs[a] if a == b else scores[t, b])
    return scores


@njit(nogil=True)
def _score_rows(inputs: Any, y: Any, uniforms: Any, history: Any, means: Any, spreads: Any, arrays: Any) -> Any:
    aims = aims_of(y, arrays.columns)
    spread = _spread_rows(inputs, spreads, arrays.typical)
    residuals, chances = _scale_rows(aims, predict_rows(inputs, means), spread, arrays.columns)
    predicted, history = predict(residuals, arrays.autoregression, history)
    return _innovate(residuals, predicted, chances, uniforms, arrays), history


def design(x: FloatArray, columns: Sequence[Column]) -> FloatArray:
    """Return the columns of numbers, and an indicator for every label of the others."""
    if not any(column.is_category for column in columns):
        return np.ascontiguousarray(x)
    parts = [
        (values[:, None] == np.arange(len(column.labels))).astype(np.float64) if column.is_category else values[:, None]
        for column, values in zip(columns, x.T, strict=True)
    ]
    return np.hstack(parts)


def fit_scores(
    x: FloatArray, y: FloatArray, inputs: tuple[Column, ...], responses: tuple[Column, ...], uniforms: FloatArray
) -> tuple[ScoreModel, FloatArray, FloatArray]:
    """Return how rows are scored, which rows of the reference were not fitted, and their scores."""
    n = len(x)
    fitted = _blocks(n)
    targets = _targets(y, responses)
    aims = np.asarray(aims_of(y, np.array([(t.column, t.label) for t in targets], np.int64)))
    X = design(x, inputs)
    fitter = RegressionFitter(X[fitted])
    means, left = fitter.fit(aims[fitted])
    deviation = aims.std(axis=0)
    floor = _NEGLIGIBLE * np.where(deviation > 0, deviation, np.maximum(np.abs(aims).max(axis=0), 1.0))
    typical = np.maximum(np.abs(left).mean(axis=0), floor)
    spreads, _ = fitter.fit(np.abs(left))
    units = np.subtract(*np.quantile(X[fitted], [0.75, 0.25], axis=0))
    units = np.where(units > 0, units, np.where(X[fitted].std(axis=0) > 0, X[fitted].std(axis=0), 1.0))
    rows = X[fitted] / units
    distances, _ = cKDTree(rows).query(rows, k=_NEIGHBOURS + 1)
    farthest = float(np.quantile(distances[:, -1], max(0.5, 1 - _UNKNOWN_SHARE / np.sqrt(len(rows)))))
    independent = ScoreModel(
        inputs=inputs,
        responses=responses,
        targets=targets,
        pairs=_pairs(targets, responses),
        means=means,
        spreads=spreads,
        typical=typical,
        autoregression=np.zeros((0, len(targets))),
        innovation=np.ones(len(targets)),
        units=units,
        fitted=rows,
        farthest=farthest * (1 + 1e-9),
    )
    residuals, chances = independent.residuals(X, y)
    # Of fitted rows what a fit without them would leave; it is a little larger, which is no dependence of rows.
    residuals[fitted], chances[fitted] = independent.scaled(X[fitted], aims[fitted], aims[fitted] - left)
    numbers = np.array([t.label < 0 for t in targets])
    inner, outer = _spread(residuals[fitted]), _spread(residuals[~fitted])
    comparable = numbers & (inner > 0) & (outer > 0)
    residuals[fitted] *= np.where(comparable, outer / np.maximum(inner, np.finfo(float).tiny), 1.0)
    coefficients, notes, promises = _autoregression(residuals, ~fitted, targets, responses)
    if _repeats(np.column_stack([x, y])):
        promises = False
        notes.append(
            "The stated run length cannot be promised: rows of the reference are repeated one after the other."
        )
    predicted, _ = predict(residuals, coefficients, np.zeros((len(coefficients), len(targets))))
    typical_left = _spread(residuals - predicted)
    model = replace(
        independent,
        autoregression=coefficients,
        innovation=np.where(numbers & (typical_left > 0), typical_left, 1.0),
        notes=tuple(notes),
        promises=promises,
    )
    others = ~fitted & model.known(X)
    return model, others, model.innovations(residuals, predicted, chances, uniforms)[others]


def _spread(residuals: FloatArray) -> FloatArray:
    """Return the median absolute deviation of each column, in units of a normal standard deviation."""
    return np.asarray(1.4826 * np.median(np.abs(residuals - np.median(residuals, axis=0)), axis=0))


def _blocks(n: int) -> FloatArray:
    """Which rows are fitted: the first part of every block, half of it in references up to 5,000 rows.

    Blocks, because neighbours in time may be alike: rows between fitted ones would be scored too well.
    """
    blocks = int(np.clip(n // (2 * _BLOCK), 1, _MOST_BLOCKS))
    place = np.arange(n) * blocks / n
    return np.asarray(place - np.floor(place) < min(0.5, FITTED_ROWS / n))


def _targets(y: FloatArray, responses: Sequence[Column]) -> tuple[Target, ...]:
    found = []
    for place, column in enumerate(responses):
        if not column.is_category:
            found.append(Target(place, -1))
            continue
        counts = np.bincount(y[:, place].astype(np.int64), minlength=len(column.labels))
        # Of two labels one says everything.
        several = np.argsort(-counts, kind="stable")[:_MOST_LABELS] if len(counts) > 2 else [len(counts) - 1]
        found += [Target(place, int(label)) for label in sorted(several)]
    return tuple(found)


def _pairs(targets: Sequence[Target], responses: Sequence[Column]) -> tuple[tuple[int, int], ...]:
    first = [place for place, t in enumerate(targets) if t.label < 0 or len(responses[t.column].labels) == 2]
    # Turned labels leave their shares as they are where both are as likely; they disagree with what x leads to expect.
    agreements = tuple((a, a) for a in first if targets[a].label >= 0)
    if len(responses) > _MOST_PAIRED:
        return agreements
    return agreements + tuple((a, b) for place, a in enumerate(first) for b in first[place + 1 :])


def _autoregression(
    residuals: FloatArray, others: FloatArray, targets: Sequence[Target], responses: Sequence[Column]
) -> tuple[FloatArray, list[str], bool]:
    """Fit an autoregression to the residuals that need one, and say in words what was found.

    Whether large residuals come in clusters is asked of the rows that were not fitted, and less sharply of all: those
    of parts that were left out of a fit differ a little in size from part to part.
    """
    limited = np.clip(residuals, -_FARTHEST, _FARTHEST)
    fits, notes, promises = [], [], True
    for series, target in zip(limited.T, targets, strict=True):
        series = series - series.mean()
        fits.append(_fit_order(series) if portmanteau(series) < _RECOGNISED else np.zeros(0))
        left = series.copy()
        for lag, coefficient in enumerate(fits[-1], start=1):
            left[lag:] -= coefficient * series[:-lag]
        name = responses[target.column].name
        if len(fits[-1]):
            first = float(series[1:] @ series[:-1] / (series @ series))
            notes.append(
                f"Rows are not independent: residuals of {name} have an autocorrelation of {first:.2f} from row to "
                f"row. Innovations of an autoregression of order {len(fits[-1])} are watched instead."
            )
        faults = []
        if portmanteau(left) < _LEFT_OVER:
            faults.append("innovations are still autocorrelated")
        # Less sharply: the errors of a fit without a part of the rows are alike within that part.
        elif _wander(left) < _LEFT_OVER / 4:
            faults.append("the level of the residuals wanders slowly")
        if fits[-1].sum() > _LONGEST_MEMORY:
            faults.append("the residuals hardly return to their mean")
        elif (1 - fits[-1].sum()) * np.sqrt(len(series)) < _SHORTEST:
            faults.append("the reference is too short for residuals that depend so strongly on those before them")
        if target.label < 0 and min(_clustered(left[others]), 10 * _clustered(left, others)) < _LEFT_OVER:
            faults.append("large residuals come in clusters")
        if faults:
            promises = False
            notes.append(f"The stated run length cannot be promised for {name}: {' and '.join(faults)}.")
    order = max(map(len, fits))
    coefficients = np.zeros((order, len(targets)))
    for place, fit in enumerate(fits):
        coefficients[: len(fit), place] = fit
    return coefficients, list(dict.fromkeys(notes)), promises


def _wander(series: FloatArray) -> float:
    """Return the p-value of a test whether means over stretches of rows differ more than those of independent rows."""
    length = max(_SHORTEST_STRETCH, len(series) // _STRETCHES)
    count = len(series) // length
    means = series[: count * length].reshape(count, length).mean(axis=1)
    variance = float(series.var())
    if count < 2 or variance <= 0:
        return 1.0
    return float(chi2.sf(length * np.sum((means - means.mean()) ** 2) / variance, count - 1))


def _clustered(residuals: FloatArray, *groups: FloatArray) -> float:
    """Return the p-value of a test whether large residuals follow each other.

    Of the ranks of their sizes, because two outliers would be a cluster of few rows: the ranks within and without a
    group, whose sizes may differ.
    """
    sizes = np.abs(residuals)
    group = groups[0] if groups else np.ones(len(sizes), bool)
    ranks = np.empty(len(sizes))
    for own in (group, ~group):
        ranks[own] = (rankdata(sizes[own]) - 0.5) / max(int(own.sum()), 1) - 0.5
    return portmanteau(ranks)


def _repeats(rows: FloatArray) -> bool:
    """Whether rows equal the one before them more often than two rows at random do."""
    n = len(rows)
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    chance = float(np.sum(counts * (counts - 1.0))) / (n * (n - 1.0))
    equal = int(np.sum((rows[1:] == rows[:-1]).all(axis=1)))
    return equal > 0 and float(binom.sf(equal - 1, n - 1, chance)) < _LEFT_OVER


def portmanteau(series: FloatArray) -> float:
    """Return the p-value of the Ljung-Box test for autocorrelation up to lag ten, of a series of mean 0."""
    n, square = len(series), float(series @ series)
    if square <= 0:
        return 1.0
    lags = np.arange(1, min(_LAGS, n // 4) + 1)
    correlations = np.array([series[lag:] @ series[:-lag] for lag in lags]) / square
    return float(chi2.sf(n * (n + 2) * np.sum(correlations**2 / (n - lags)), len(lags)))


def _fit_order(series: FloatArray) -> FloatArray:
    """Return the Yule-Walker coefficients of the order that the Bayesian information criterion chooses."""
    n = len(series)
    most = max(1, min(_MOST_ORDER, n // 20))
    covariances = np.array([series[lag:] @ series[: n - lag] for lag in range(most + 1)]) / n
    best, found = np.inf, np.zeros(0)
    for order in range(1, most + 1):
        toeplitz = covariances[np.abs(np.subtract.outer(np.arange(order), np.arange(order)))]
        coefficients = np.linalg.solve(toeplitz, covariances[1 : order + 1])
        variance = covariances[0] - coefficients @ covariances[1 : order + 1]
        criterion = n * np.log(max(variance, 1e-300)) + order * np.log(n)
        if criterion < best:
            best, found = criterion, coefficients
    return found
