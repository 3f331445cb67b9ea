r"""Scores of rows: numbers whose distribution given x stays the same while p(y|x) does, whatever x does.

A response that is a number is replaced by its residual from a regression on x in units of its spread at x, also fitted.
A label y becomes, for each of its values c, the normal score of :math:`(1 - \pi_c(x)) U` if y is another one and of
:math:`1 - \pi_c(x) + \pi_c(x) U` if it is c, with a uniform random U. If the fitted probability :math:`\pi_c` is right,
that is uniform before the normal score is taken, whatever x. Of two responses with scores a and b, of correlation
:math:`\rho(x)`, the product of a and :math:`(b - \rho a) / \sqrt{1 - \rho^2}` is a score as well. Where the residuals
of the reference are autocorrelated, those of earlier rows predict numbers, and probabilities of labels, of the next.

The regressions are fitted on blocks of the reference, the others are scored like new rows. Read `fit_scores` first, and
`score_rows` for rows of the stream; neither knows of regions or bets. A new kind of score is a new kind of `targets` or
`pairs` below, and a line in `innovate`.
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
from condcs.drift._betting import OUTERMOST, normal_score, uniform
from condcs.drift._dependence import LARGEST_RESIDUAL, find_dependence
from condcs.drift._reference_regression import Regression, RegressionFitter, predict_rows, stored

FITTED_ROWS = 2500
"""Largest number of rows on which regressions are fitted: further ones improve the fit less than they improve ranks."""

FEWEST_ROWS = 40
"""Rows that a reference must have. Half of them are ranked, and an alarm takes about 14 nats: of 20 rows, 0.7 each, as
much as a shift of the mean by 1.2 spreads is worth. Fewer could show hardly any change."""

_BLOCK_ROWS, _MOST_BLOCKS = 50, 40
"""Length of a fitted block of the reference at least, long beside the memory of an autoregression of ten rows; and the
largest number of blocks, which are longer in a long reference."""

_MOST_LABELS = 8
"""Labels of a column of y that have a score, the most frequent ones. The threshold grows with the number of scores."""

_MOST_PAIRED = 4
"""Columns of y up to which products of two have a score: 6 products of 4, 10 of 5."""

_LEAST_PROBABILITY = 0.02
"""Fitted probabilities are kept this far from 0 and 1, which a regression can pass: a label's residual is then at most
7 standard deviations."""

_SPREAD_RANGE = 5.0
"""A fitted spread is kept within this factor of the typical one: a regression can be nearly 0 or negative, and a
residual divided by that would be any number."""

_STRONGEST_LINK = 0.95
"""Fitted correlations are kept within this: the remainder of the second score is divided by sqrt(1 - 0.95^2) = 0.31."""

_NEGLIGIBLE = 1e-6
"""Residuals smaller than this share of a response's deviation are rounding errors of an exact relation, which are not
to be compared digit by digit."""

_NEIGHBOURS = 3
"""Rows of the fit that must be near a new one; one or two may be outliers themselves."""

_UNKNOWN_SHARE = 1.2
"""Of m fitted rows, this over the square root of m is the share that is farthest from the others: 3.4% of 1,250 rows.
That is also about the share of new rows that are not watched, and shrinks as the reference grows."""

_NORMAL_DEVIATIONS = 1.4826
"""Standard deviation of a normal variable in units of its median absolute deviation: 1 over the 75% quantile,
0.6745."""

_INPUTS_COUNT = 0.5
"""Weight of the inputs, in interquartile ranges, beside expectations and spreads in units of residuals, when cells are
made: inputs decide where the regressions are flat."""


class ScoreArrays(NamedTuple):
    """The numbers of a model, as the compiled loops read them."""

    means: Regression  # expected targets at x
    spreads: Regression  # expected absolute residuals of those that are numbers
    links: Regression  # expected products of the scores of two targets, in units of their spreads: their correlation
    targets: IntArray  # (t, 2), what a score is made of: a column of y, and one of its labels (-1 for numbers)
    # Targets whose product has a score, after those of the targets. The first and last label of a column have one for
    # whether the label is what x leads to expect: the score of the likeliest one.
    pairs: IntArray  # (q, 2)
    typical: FloatArray  # (t,), mean absolute residual
    autoregression: FloatArray  # (order, t), coefficients of earlier scores
    innovation: FloatArray  # (t,), spread of what they leave
    units: FloatArray  # (p,), of the columns of the design in distances between rows: interquartile ranges
    fitted: FloatArray  # (m, p), rows of the fit, in these units
    farthest: FloatArray  # (), p(y|x) is unknown in rows farther than this from their third neighbour among these


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

    @property
    def are_labels(self) -> BoolArray:
        """Which scores are those of labels (s,): of one label, or of the likeliest one of a column."""
        columns, labels = self.arrays.targets.T
        first, last = self.arrays.pairs.T
        return np.concatenate([labels >= 0, columns[first] == columns[last]])

    def features(self, inputs: FloatArray) -> FloatArray:
        """Return, at rows of the design (n, p), what is alike where scores are likely to have the same distribution.

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
    """Return what is regressed on x (n, t): numbers, and indicators of labels."""
    aims = np.empty((len(y), len(targets)))
    for t in range(len(y)):
        for k in range(len(targets)):
            value, label = y[t, targets[k, 0]], targets[k, 1]
            aims[t, k] = value if label < 0 else 1.0 if value == label else 0.0
    return aims


@njit(nogil=True)
def scale_rows(aims: Any, expected: Any, spreads: Any, typical: Any, targets: Any) -> Any:
    """Return residuals in units of their spread at x, and probabilities of labels, 0 for numbers; both (n, t)."""
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
def predict_from_earlier(residuals: Any, coefficients: Any, history: Any) -> Any:
    """Return what the residuals before each row predict of its own (n, t), and all residuals (order + n, t).

    `history` (order, t) are those before the first row. Outliers count as at most `LARGEST_RESIDUAL` units.
    """
    order, (n, targets) = len(coefficients), residuals.shape
    limited = np.empty((order + n, targets))
    predicted = np.zeros((n, targets))
    for k in range(targets):
        for t in range(order):
            limited[t, k] = history[t, k]
        for t in range(n):
            limited[order + t, k] = min(max(residuals[t, k], -LARGEST_RESIDUAL), LARGEST_RESIDUAL)
            for lag in range(1, order + 1):
                predicted[t, k] += coefficients[lag - 1, k] * limited[order + t - lag, k]
    return predicted, limited


@njit(nogil=True)
def near_reference(inputs: Any, units: Any, fitted: Any, farthest: Any) -> Any:
    """Whether three fitted rows at least are near each row of the design (n, p); elsewhere p(y|x) is unknown."""
    limit = farthest[()] ** 2
    is_near, row = np.zeros(len(inputs), np.bool_), np.empty(inputs.shape[1])
    for t in range(len(inputs)):
        for c in range(len(row)):
            row[c] = inputs[t, c] / units[c]
        n_near = 0
        for m in range(len(fitted)):
            square = 0.0
            for c in range(len(row)):
                square += (row[c] - fitted[m, c]) ** 2
            if square <= limit:
                n_near += 1
                if n_near == _NEIGHBOURS:
                    is_near[t] = True
                    break
    return is_near


@njit(nogil=True)
def innovate(
    residuals: Any,
    predicted: Any,
    chances: Any,
    links: Any,
    key: Any,
    usable_numbers: Any,
    targets: Any,
    pairs: Any,
    innovation: Any,
) -> Any:
    """Return the scores of rows (n, s), and for those of labels the probabilities expected at x, 0 for others.

    From residuals, what earlier rows predict of them, and probabilities of labels, all (n, t), and the correlations of
    the scores of pairs of targets, `links` (n, q).
    """
    n, n_targets = residuals.shape
    scores = np.empty((n, n_targets + len(pairs)))
    expected = np.zeros_like(scores)
    for t in range(n):
        for k in range(n_targets):
            if targets[k, 1] < 0:
                # A number: its innovation, in units of the spread of innovations.
                scores[t, k] = (residuals[t, k] - predicted[t, k]) / innovation[k]
                continue
            # A label: earlier rows move its probability. A uniform number within the share of the row's own value
            # makes a rank that is uniform if the probability is right.
            at_x = chances[t, k]
            chance = at_x + math.sqrt(at_x * (1 - at_x)) * predicted[t, k]
            chance = min(max(chance, _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
            u = uniform(key, usable_numbers[t], k)
            rank = 1 - chance + chance * u if residuals[t, k] > 0 else (1 - chance) * u
            scores[t, k] = normal_score(min(max(rank, OUTERMOST), 1 - OUTERMOST))
            expected[t, k] = at_x
        for q in range(len(pairs)):
            a, b = pairs[q]
            if targets[a, 0] == targets[b, 0]:
                # Targets a to b are the labels of one column: the score of the likeliest one at x.
                likeliest = a + np.argmax(expected[t, a : b + 1])
                sign, chance = 1.0, expected[t, likeliest]
                # Two labels have one target; the label without one may be the likelier.
                if a == b and chance < 0.5:
                    sign, chance = -1.0, 1 - chance
                scores[t, n_targets + q], expected[t, n_targets + q] = sign * scores[t, likeliest], chance
            else:
                # Two columns: the first score times what it does not predict of the second.
                link = min(max(links[t, q], -_STRONGEST_LINK), _STRONGEST_LINK)
                rest = (scores[t, b] - link * scores[t, a]) / math.sqrt(1 - link * link)
                scores[t, n_targets + q] = scores[t, a] * rest
    return scores, expected


@inner()
def score_rows(inputs: Any, y: Any, history: Any, key: Any, usable_numbers: Any, arrays: Any) -> Any:
    """Return scores (n, s) of rows in the order of time, and the residuals (order + n, t) that later ones depend on.

    Rows are `inputs` (n, p) of the design and y (n, d_y); `history` (order, t) are the residuals before them.
    """
    # 1. Residuals from the regression on x, in units of their spread at x.
    aims = aims_of(y, arrays.targets)
    expected, spreads = predict_rows(inputs, arrays.means), predict_rows(inputs, arrays.spreads)
    residuals, chances = scale_rows(aims, expected, spreads, arrays.typical, arrays.targets)
    # 2. What earlier residuals predict of them, where the reference is autocorrelated.
    predicted, limited = predict_from_earlier(residuals, arrays.autoregression, history)
    # 3. Innovations, normal scores of labels, and products of two.
    links, innovation = predict_rows(inputs, arrays.links), arrays.innovation
    scores, _ = innovate(
        residuals, predicted, chances, links, key, usable_numbers, arrays.targets, arrays.pairs, innovation
    )
    return scores, limited


@njit(nogil=True)
def design_rows(x: Any, n_labels: Any) -> Any:
    """Return the design (n, p) of rows x (n, d): numbers as they are, and one-hot columns of labels.

    `n_labels` (d,) are the numbers of labels of the columns, 0 for numbers.
    """
    width = 0
    for count in n_labels:
        width += max(count, 1)
    columns = np.zeros((len(x), width))
    first = 0  # column of the design that column c of x begins with
    for c in range(len(n_labels)):
        for t in range(len(x)):
            if n_labels[c] == 0:
                columns[t, first] = x[t, c]
            else:
                columns[t, first + int(x[t, c])] = 1.0
        first += max(n_labels[c], 1)
    return columns


def label_counts(columns: Sequence[Column]) -> IntArray:
    """Return the number of labels of each column, 0 for numbers."""
    return np.array([len(column.labels) if column.is_category else 0 for column in columns], np.int64)


def design(x: FloatArray, columns: Sequence[Column]) -> FloatArray:
    """Return `design_rows` of columns."""
    return np.asarray(design_rows(np.ascontiguousarray(x), label_counts(columns)))


class FittedScores(NamedTuple):
    """How rows are scored, and the scores of those rows of the reference that were not fitted."""

    model: ScoreModel
    is_ranked: BoolArray  # (n,), which rows these are; those far from fitted ones are neither fitted nor ranked
    scores: FloatArray  # (r, s), of the ranked rows
    chances: FloatArray  # (r, s), probabilities of labels at their x, 0 for scores of numbers


def fit_scores(
    x: FloatArray, y: FloatArray, inputs: tuple[Column, ...], responses: tuple[Column, ...], key: np.uint64
) -> FittedScores:
    """Fit scores to a reference x (n, d_x) and y (n, d_y) in the order of time."""
    is_fitted = fitted_blocks(len(x))  # (n,)
    targets = _targets(y, responses)  # (t, 2)
    pairs = _pairs(targets, responses)  # (q, 2)
    aims = np.asarray(aims_of(y, targets))  # (n, t)
    X = design(x, inputs)  # (n, p)

    # 1. Regressions on x, of the targets and of the sizes of their residuals.
    fitter = RegressionFitter(X[is_fitted])
    regressions = _fit_regressions(fitter, aims, is_fitted)
    # 2. Residuals of all rows, each by a fit that has not seen it.
    residuals, chances = _residuals_of_reference(aims, X, is_fitted, regressions, targets)
    # 3. What the residuals of earlier rows say of the next.
    memory = _fit_memory(x, y, residuals, is_fitted, targets, responses)
    # 4. Scores, as those of rows of the stream; and the correlations that products of two scores need.
    parts = residuals, memory.predicted, chances
    fixed = key, np.arange(len(x)), targets, pairs, memory.innovation
    unlinked, _ = innovate(*parts, np.zeros((len(x), len(pairs))), *fixed)
    links = _fit_links(fitter, unlinked[is_fitted], pairs)
    scores, expected = innovate(*parts, links.predict(X), *fixed)

    units, fitted, farthest = _neighbourhood(X[is_fitted])
    is_ranked = ~is_fitted & near_reference(X, units, fitted, farthest)
    arrays = ScoreArrays(
        means=regressions.means,
        spreads=regressions.spreads,
        links=links,
        targets=targets,
        pairs=pairs,
        typical=regressions.typical,
        autoregression=memory.coefficients,
        innovation=memory.innovation,
        units=units,
        fitted=fitted,
        farthest=farthest,
    )
    model = ScoreModel(inputs, responses, arrays, memory.notes, memory.promises)
    return FittedScores(model, is_ranked, scores[is_ranked], expected[is_ranked])


class _Regressions(NamedTuple):
    """Regressions on x, fitted on m rows."""

    means: Regression
    spreads: Regression
    typical: FloatArray  # (t,), mean absolute residual
    left_out_residuals: FloatArray  # (m, t), residuals of fits without the part of the rows that each row is in


def _fit_regressions(fitter: RegressionFitter, aims: FloatArray, is_fitted: BoolArray) -> _Regressions:
    """Fit the targets `aims` (n, t), and the sizes of their residuals, on some rows."""
    means, left_out_residuals = fitter.fit(aims[is_fitted])
    deviation = aims.std(axis=0)
    floor = _NEGLIGIBLE * np.where(deviation > 0, deviation, np.maximum(np.abs(aims).max(axis=0), 1.0))
    typical = np.maximum(np.abs(left_out_residuals).mean(axis=0), floor)
    spreads, _ = fitter.fit(np.abs(left_out_residuals))
    return _Regressions(means, spreads, typical, left_out_residuals)


def _residuals_of_reference(
    aims: FloatArray, X: FloatArray, is_fitted: BoolArray, regressions: _Regressions, targets: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the residuals of all rows in units of their spread at x, and probabilities of labels; both (n, t)."""
    expected = regressions.means.predict(X)
    expected[is_fitted] = aims[is_fitted] - regressions.left_out_residuals
    spreads = regressions.spreads.predict(X)
    residuals, chances = scale_rows(aims, expected, spreads, regressions.typical, targets)
    # A fit without a sixth of the rows leaves a little more than the fit of all, by which other rows are scored. That
    # is no dependence of rows, and is taken off.
    of_fitted, of_others = _spread(residuals[is_fitted]), _spread(residuals[~is_fitted])
    is_comparable = (targets[:, 1] < 0) & (of_fitted > 0) & (of_others > 0)
    residuals[is_fitted] *= np.where(is_comparable, of_others / np.maximum(of_fitted, np.finfo(float).tiny), 1.0)
    return residuals, chances


class _Memory(NamedTuple):
    """What the residuals of earlier rows say of the next."""

    coefficients: FloatArray  # (order, t), of an autoregression; order 0 if rows are independent
    innovation: FloatArray  # (t,), spread of what it leaves of numbers; 1 for labels
    predicted: FloatArray  # (n, t), what it predicts of the rows of the reference
    notes: tuple[str, ...]
    promises: bool


def _fit_memory(
    x: FloatArray,
    y: FloatArray,
    residuals: FloatArray,
    is_fitted: BoolArray,
    targets: IntArray,
    responses: Sequence[Column],
) -> _Memory:
    """Fit an autoregression to residuals (n, t) in the order of time, if they need one."""
    rows = np.column_stack([x, y])
    coefficients, notes, promises = find_dependence(rows, residuals, ~is_fitted, targets, responses)
    no_history = np.zeros((len(coefficients), len(targets)))
    predicted, _ = predict_from_earlier(residuals, coefficients, no_history)
    spread = _spread(residuals - predicted)
    innovation = np.where((targets[:, 1] < 0) & (spread > 0), spread, 1.0)
    return _Memory(coefficients, innovation, predicted, notes, promises)


def _fit_links(fitter: RegressionFitter, scores: FloatArray, pairs: IntArray) -> Regression:
    """Fit the correlation of the scores (m, t) of each pair of targets at x."""
    limited = np.clip(scores, -LARGEST_RESIDUAL, LARGEST_RESIDUAL)
    limited /= np.maximum(np.sqrt(np.mean(limited**2, axis=0)), _NEGLIGIBLE)
    first, second = pairs.T
    return fitter.fit(limited[:, first] * limited[:, second])[0]


def _neighbourhood(fitted: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return units (p,) of the columns of the fitted rows (m, p), these rows in such units, and the farthest distance.

    That is the distance from the third neighbour beyond which p(y|x) is unknown: a quantile of those of fitted rows.
    """
    deviation = fitted.std(axis=0)
    units = np.subtract(*np.quantile(fitted, [0.75, 0.25], axis=0))
    units = np.where(units > 0, units, np.where(deviation > 0, deviation, 1.0))
    rows = fitted / units
    # The nearest of all is the row itself.
    distances, _ = cKDTree(rows).query(rows, k=_NEIGHBOURS + 1)  # (m, 4)
    # Half of the rows at least are near the others; only fewer than 6 rows would have less.
    near_share = max(0.5, 1 - _UNKNOWN_SHARE / np.sqrt(len(rows)))
    farthest = float(np.quantile(distances[:, -1], near_share))
    # Rows at exactly that distance are known, however a distance is rounded.
    return units, rows, np.array(farthest * (1 + 1e-9))


def _spread(residuals: FloatArray) -> FloatArray:
    """Return the median absolute deviation of each column (t,), in units of a normal standard deviation."""
    deviations = np.abs(residuals - np.median(residuals, axis=0))
    return np.asarray(_NORMAL_DEVIATIONS * np.median(deviations, axis=0))


def fitted_blocks(n: int) -> BoolArray:
    """Which of n rows are fitted: the first part of every block, half of it in references up to 5,000 rows.

    Blocks, because neighbours in time may be alike: rows between fitted ones would be scored too well.
    """
    blocks = int(np.clip(n // (2 * _BLOCK_ROWS), 1, _MOST_BLOCKS))
    position = np.arange(n) * blocks / n  # in blocks
    return np.asarray(position - np.floor(position) < min(0.5, FITTED_ROWS / n))


def _targets(y: FloatArray, responses: Sequence[Column]) -> IntArray:
    """Return what is regressed on x (t, 2): columns of y, each with -1 if it is a number, else with its labels."""
    targets: list[tuple[int, int]] = []
    for c, column in enumerate(responses):
        if not column.is_category:
            targets.append((c, -1))
            continue
        counts = np.bincount(y[:, c].astype(np.int64), minlength=len(column.labels))
        # Of two labels one says everything.
        most_frequent = np.argsort(-counts, kind="stable")[:_MOST_LABELS] if len(counts) > 2 else [len(counts) - 1]
        targets += [(c, int(label)) for label in sorted(most_frequent)]
    return np.array(targets, np.int64)


def _pairs(targets: IntArray, responses: Sequence[Column]) -> IntArray:
    """Return the pairs of targets that have a score of their own (q, 2), as `ScoreArrays.pairs` describes them."""
    # Labels that change places keep their shares where both are as likely; they disagree with what x leads to expect.
    pairs = []
    for c, column in enumerate(responses):
        if column.is_category:
            labels = np.flatnonzero(targets[:, 0] == c)  # the targets of this column, in a row
            pairs.append((labels[0], labels[-1]))
    if len(responses) <= _MOST_PAIRED:
        single = [k for k, (c, label) in enumerate(targets) if label < 0 or len(responses[c].labels) == 2]
        pairs += combinations(single, 2)
    return np.array(pairs, np.int64).reshape(-1, 2)
