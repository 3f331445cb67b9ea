r"""Scores of rows: numbers whose distribution given x stays the same while p(y|x) does, whatever x does.

A response that is a number is replaced by its residual from a regression on x in units of its spread at x, also fitted.
A label y becomes, for each of its values c, the normal score of :math:`(1 - \pi_c(x)) U` if y is another one and of
:math:`1 - \pi_c(x) + \pi_c(x) U` if it is c, with a uniform random U. If the fitted probability :math:`\pi_c` is right,
that is uniform before the normal score is taken, whatever x. Of two responses with scores a and b, of correlation
:math:`\rho(x)`, the product of a and :math:`(b - \rho a) / \sqrt{1 - \rho^2}` is a score as well. Where the residuals
of the reference are autocorrelated, those of earlier rows predict numbers, and probabilities of labels, of the next.

The regressions are fitted on blocks of the reference, the others are scored like new rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from condcs._core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from condcs._core.compiling import inner, njit
from condcs._tables.kinds import Column
from condcs.drift._betting import normal_score, uniform
from condcs.drift._dependence import FARTHEST, find_dependence
from condcs.drift._reference_regression import Regression, RegressionFitter, predict_rows, stored

FITTED_ROWS = 2500
"""Largest number of rows on which regressions are fitted."""

FEWEST_ROWS = 40
"""Rows that a reference must have."""

_BLOCK, _MOST_BLOCKS = 50, 40
_MOST_LABELS = 8
_MOST_PAIRED = 4
_LEAST_PROBABILITY = 0.02
_SPREAD_RANGE = 5.0
_STRONGEST_LINK = 0.95
_NEGLIGIBLE = 1e-6
_NEIGHBOURS = 3
_UNKNOWN_SHARE = 1.2
"""Of m fitted rows, this over the square root of m is the share that is farthest from the others."""
_INPUTS_COUNT = 0.5


class ScoreArrays(NamedTuple):
    """The numbers of a model, as the compiled loops read them."""

    means: Regression  # expected targets at x
    spreads: Regression  # expected absolute residuals of those that are numbers
    links: Regression  # expected products of the scores of two targets, in units of their spreads: their correlation
    targets: IntArray  # (t, 2), what a score is made of: a column of y, and one of its labels (-1 for numbers)
    # Targets whose product has a score, after those of the targets. The first and last label of a column have one for
    # whether the label is what x leads to expect: the score of the likeliest one.
    pairs: IntArray  # (q, 2)
    typical: FloatArray  # (t,), mean absolute residual; a fitted one is kept within a factor of five of it
    autoregression: FloatArray  # (order, t), coefficients of earlier scores
    innovation: FloatArray  # (t,), spread of what they leave
    units: FloatArray  # (p,), of the columns of the design in distances between rows
    fitted: FloatArray  # (m, p), rows of the fit, in these units
    farthest: FloatArray  # (), rows farther than this from their third neighbour among them are unknown


_REGRESSIONS = ("means", "spreads", "links")


@dataclass(frozen=True)
class ScoreModel:
    """How rows are scored."""

    inputs: tuple[Column, ...]
    responses: tuple[Column, ...]
    arrays: ScoreArrays
    notes: tuple[str, ...]  # what was found about the dependence of rows
    promises: bool  # whether the stated rate can be promised

    @property
    def n_scores(self) -> int:
        """Scores of a row."""
        return len(self.arrays.targets) + len(self.arrays.pairs)

    def features(self, inputs: FloatArray) -> FloatArray:
        """Return, at rows of the design, what is alike where scores are likely to have the same distribution.

        That is what is expected of every target and the logarithm of its spread, in units of residuals; and, less
        important, the inputs themselves.
        """
        arrays = self.arrays
        expected = arrays.means.predict(inputs) / arrays.typical
        spreads = np.clip(
            arrays.spreads.predict(inputs), arrays.typical / _SPREAD_RANGE, arrays.typical * _SPREAD_RANGE
        )
        return np.hstack([expected, np.log(spreads / arrays.typical), _INPUTS_COUNT * inputs / arrays.units])

    def state(self) -> dict[str, AnyArray]:
        """Return the arrays."""
        named = {n: array for n, array in self.arrays._asdict().items() if n not in _REGRESSIONS}
        for part in _REGRESSIONS:
            named |= {f"{part}_{n}": array for n, array in getattr(self.arrays, part)._asdict().items()}
        return named

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, AnyArray],
        inputs: tuple[Column, ...],
        responses: tuple[Column, ...],
        notes: tuple[str, ...],
        promises: bool,
    ) -> ScoreModel:
        """Undo `state`; a KeyError or ValueError if the arrays do not fit."""
        named: dict[str, Any] = {n: stored(state, n) for n in ScoreArrays._fields if n not in _REGRESSIONS}
        named |= {n: named[n].astype(np.int64) for n in ("targets", "pairs")}
        width = int(np.maximum(label_counts(inputs), 1).sum())
        count, pairs = len(named["targets"]), len(named["pairs"])
        for part, targets in zip(_REGRESSIONS, (count, count, pairs), strict=True):
            named[part] = Regression.from_state(state, part, width, targets)
        arrays = ScoreArrays(**named)
        order, rows = len(arrays.autoregression), len(arrays.fitted)
        shapes = [(count, 2), (pairs, 2), (count,), (order, count), (count,), (width,), (rows, width), ()]
        if [array.shape for array in arrays[3:]] != shapes or not count or rows < _NEIGHBOURS:
            raise ValueError("scores whose arrays do not fit")
        if (arrays.targets[:, 0].max() >= len(responses)) or arrays.pairs.max(initial=0) >= count:
            raise ValueError("scores of columns that do not exist")
        return cls(inputs, responses, arrays, notes, promises)


@njit(nogil=True)
def aims_of(y: Any, targets: Any) -> Any:
    """Return what is regressed on x: numbers, and indicators of labels."""
    aims = np.empty((len(y), len(targets)))
    for t in range(len(y)):
        for k in range(len(targets)):
            value, label = y[t, targets[k, 0]], targets[k, 1]
            aims[t, k] = value if label < 0 else 1.0 if value == label else 0.0
    return aims


@njit(nogil=True)
def _scale_rows(aims: Any, expected: Any, spreads: Any, typical: Any, targets: Any) -> Any:
    """Return residuals in units of their spread at x, and probabilities of labels (0 for numbers)."""
    residuals, chances = np.empty_like(aims), np.zeros_like(aims)
    for t in range(aims.shape[0]):
        for k in range(aims.shape[1]):
            if targets[k, 1] < 0:
                spread = min(max(spreads[t, k], typical[k] / _SPREAD_RANGE), typical[k] * _SPREAD_RANGE)
                residuals[t, k] = (aims[t, k] - expected[t, k]) / spread
            else:
                chance = min(max(expected[t, k], _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
                chances[t, k] = chance
                residuals[t, k] = (aims[t, k] - chance) / math.sqrt(chance * (1 - chance))
    return residuals, chances


@njit(nogil=True)
def _predict(residuals: Any, coefficients: Any, history: Any) -> Any:
    """Return what the rows before each row predict of it, and all rows; outliers count as at most six units."""
    order, (n, targets) = len(coefficients), residuals.shape
    before = np.empty((order + n, targets))
    predicted = np.zeros((n, targets))
    for k in range(targets):
        for t in range(order):
            before[t, k] = history[t, k]
        for t in range(n):
            before[order + t, k] = min(max(residuals[t, k], -FARTHEST), FARTHEST)
            for lag in range(1, order + 1):
                predicted[t, k] += coefficients[lag - 1, k] * before[order + t - lag, k]
    return predicted, before


@njit(nogil=True)
def known_rows(inputs: Any, units: Any, fitted: Any, farthest: Any) -> Any:
    """Whether the reference has at least three rows near each of the design; elsewhere p(y|x) is unknown."""
    limit = farthest[()] ** 2
    found, row = np.zeros(len(inputs), np.bool_), np.empty(inputs.shape[1])
    for t in range(len(inputs)):
        for c in range(len(row)):
            row[c] = inputs[t, c] / units[c]
        near = 0
        for m in range(len(fitted)):
            square = 0.0
            for c in range(len(row)):
                square += (row[c] - fitted[m, c]) ** 2
            if square <= limit:
                near += 1
                if near == _NEIGHBOURS:
                    found[t] = True
                    break
    return found


@njit(nogil=True)
def _innovate(
    residuals: Any,
    predicted: Any,
    chances: Any,
    links: Any,
    key: Any,
    numbers: Any,
    targets: Any,
    pairs: Any,
    innovation: Any,
) -> Any:
    """Return scores (innovations of numbers, normal scores of the randomised ranks of labels, and products).

    And for scores of labels the probabilities that x leads to expect; 0 for others.
    """
    n, count = residuals.shape
    scores = np.empty((n, count + len(pairs)))
    expected = np.zeros_like(scores)
    for t in range(n):
        for k in range(count):
            if targets[k, 1] < 0:
                scores[t, k] = (residuals[t, k] - predicted[t, k]) / innovation[k]
                continue
            before = chances[t, k]
            chance = before + math.sqrt(before * (1 - before)) * predicted[t, k]
            chance = min(max(chance, _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
            u = uniform(key, numbers[t], k)
            rank = 1 - chance + chance * u if residuals[t, k] > 0 else (1 - chance) * u
            scores[t, k], expected[t, k] = normal_score(min(max(rank, 1e-12), 1 - 1e-12)), before
        for q in range(len(pairs)):
            a, b = pairs[q]
            if targets[a, 0] == targets[b, 0]:
                best = a + np.argmax(expected[t, a : b + 1])
                # Of two labels, the other one may be the likelier.
                sign, chance = 1.0, expected[t, best]
                if a == b and chance < 0.5:
                    sign, chance = -1.0, 1 - chance
                scores[t, count + q], expected[t, count + q] = sign * scores[t, best], chance
            else:
                link = min(max(links[t, q], -_STRONGEST_LINK), _STRONGEST_LINK)
                own = (scores[t, b] - link * scores[t, a]) / math.sqrt(1 - link * link)
                scores[t, count + q] = scores[t, a] * own
    return scores, expected


@inner()
def score_rows(inputs: Any, y: Any, history: Any, key: Any, numbers: Any, arrays: Any) -> Any:
    """Return scores of rows in the order of time, and what later ones depend on, from the history on."""
    aims = aims_of(y, arrays.targets)
    expected, spreads = predict_rows(inputs, arrays.means), predict_rows(inputs, arrays.spreads)
    residuals, chances = _scale_rows(aims, expected, spreads, arrays.typical, arrays.targets)
    predicted, before = _predict(residuals, arrays.autoregression, history)
    links, innovation = predict_rows(inputs, arrays.links), arrays.innovation
    scores, _ = _innovate(residuals, predicted, chances, links, key, numbers, arrays.targets, arrays.pairs, innovation)
    return scores, before


@njit(nogil=True)
def design_rows(x: Any, sizes: Any) -> Any:
    """Return the columns of numbers, and an indicator for every label of the others, which have so many."""
    width = 0
    for size in sizes:
        width += max(size, 1)
    found = np.zeros((len(x), width))
    place = 0
    for c in range(len(sizes)):
        for t in range(len(x)):
            if sizes[c] == 0:
                found[t, place] = x[t, c]
            else:
                found[t, place + int(x[t, c])] = 1.0
        place += max(sizes[c], 1)
    return found


def label_counts(columns: Sequence[Column]) -> IntArray:
    """Return the number of labels of each column, 0 for numbers."""
    return np.array([len(column.labels) if column.is_category else 0 for column in columns], np.int64)


def design(x: FloatArray, columns: Sequence[Column]) -> FloatArray:
    """Return `design_rows` of columns."""
    return np.asarray(design_rows(np.ascontiguousarray(x), label_counts(columns)))


def fit_scores(
    x: FloatArray, y: FloatArray, inputs: tuple[Column, ...], responses: tuple[Column, ...], key: np.uint64
) -> tuple[ScoreModel, BoolArray, FloatArray, FloatArray]:
    """Return how rows are scored, which rows of the reference were not fitted, and their scores and chances."""
    n = len(x)
    fitted = _blocks(n)
    targets = _targets(y, responses)
    pairs = _pairs(targets, responses)
    aims = np.asarray(aims_of(y, targets))
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
    unlinked, _ = fitter.fit(np.zeros((len(rows), len(pairs))))
    arrays = ScoreArrays(
        means=means,
        spreads=spreads,
        links=unlinked,
        targets=targets,
        pairs=pairs,
        typical=typical,
        autoregression=np.zeros((0, len(targets))),
        innovation=np.ones(len(targets)),
        units=units,
        fitted=rows,
        farthest=np.array(farthest * (1 + 1e-9)),
    )
    expected = means.predict(X)
    # Of fitted rows what a fit without them would leave.
    expected[fitted] = aims[fitted] - left
    residuals, chances = _scale_rows(aims, expected, spreads.predict(X), typical, targets)
    numbers = targets[:, 1] < 0
    # It is a little larger, which is no dependence of rows.
    inner, outer = _spread(residuals[fitted]), _spread(residuals[~fitted])
    comparable = numbers & (inner > 0) & (outer > 0)
    residuals[fitted] *= np.where(comparable, outer / np.maximum(inner, np.finfo(float).tiny), 1.0)
    coefficients, notes, promises = find_dependence(np.column_stack([x, y]), residuals, ~fitted, targets, responses)
    predicted, _ = _predict(residuals, coefficients, np.zeros((len(coefficients), len(targets))))
    typical_left = _spread(residuals - predicted)
    arrays = arrays._replace(
        autoregression=coefficients, innovation=np.where(numbers & (typical_left > 0), typical_left, 1.0)
    )
    links = np.zeros((n, len(pairs)))
    given = key, np.arange(n), targets, pairs, arrays.innovation
    scores, expected = _innovate(residuals, predicted, chances, links, *given)
    if len(pairs):
        arrays = arrays._replace(links=_fit_links(fitter, scores[fitted], pairs))
        scores, expected = _innovate(residuals, predicted, chances, arrays.links.predict(X), *given)
    others = ~fitted & known_rows(X, units, rows, arrays.farthest)
    return ScoreModel(inputs, responses, arrays, notes, promises), others, scores[others], expected[others]


def _fit_links(fitter: RegressionFitter, scores: FloatArray, pairs: IntArray) -> Regression:
    """Fit the correlation of the scores of each pair of targets at x."""
    limited = np.clip(scores, -FARTHEST, FARTHEST)
    limited /= np.maximum(np.sqrt(np.mean(limited**2, axis=0)), _NEGLIGIBLE)
    first, second = pairs.T
    return fitter.fit(limited[:, first] * limited[:, second])[0]


def _spread(residuals: FloatArray) -> FloatArray:
    """Return the median absolute deviation of each column, in units of a normal standard deviation."""
    return np.asarray(1.4826 * np.median(np.abs(residuals - np.median(residuals, axis=0)), axis=0))


def _blocks(n: int) -> BoolArray:
    """Which rows are fitted: the first part of every block, half of it in references up to 5,000 rows.

    Blocks, because neighbours in time may be alike: rows between fitted ones would be scored too well.
    """
    blocks = int(np.clip(n // (2 * _BLOCK), 1, _MOST_BLOCKS))
    place = np.arange(n) * blocks / n
    return np.asarray(place - np.floor(place) < min(0.5, FITTED_ROWS / n))


def _targets(y: FloatArray, responses: Sequence[Column]) -> IntArray:
    found: list[tuple[int, int]] = []
    for place, column in enumerate(responses):
        if not column.is_category:
            found.append((place, -1))
            continue
        counts = np.bincount(y[:, place].astype(np.int64), minlength=len(column.labels))
        # Of two labels one says everything.
        several = np.argsort(-counts, kind="stable")[:_MOST_LABELS] if len(counts) > 2 else [len(counts) - 1]
        found += [(place, int(label)) for label in sorted(several)]
    return np.array(found, np.int64)


def _pairs(targets: IntArray, responses: Sequence[Column]) -> IntArray:
    # Turned labels leave their shares as they are where both are as likely; they disagree with what x leads to expect.
    labels = [np.flatnonzero(targets[:, 0] == place) for place, column in enumerate(responses) if column.is_category]
    found = [(own[0], own[-1]) for own in labels]
    if len(responses) <= _MOST_PAIRED:
        single = [k for k, (column, label) in enumerate(targets) if label < 0 or len(responses[column].labels) == 2]
        found += combinations(single, 2)
    return np.array(found, np.int64).reshape(-1, 2)
