r"""Scores of rows: numbers whose distribution given x stays the same while p(y|x) does, whatever x does.

A response that is a number is replaced by its residual from a regression on x in units of its spread at x, also fitted.
A label y becomes, for each of its values c, the normal score of :math:`(1 - \pi_c(x)) U` if y is another one and of
:math:`1 - \pi_c(x) + \pi_c(x) U` if it is c, with a uniform random U. If the fitted probability :math:`\pi_c` is right,
that is uniform before the normal score is taken, whatever x. Of two responses with scores a and b, of correlation
:math:`\rho(x)`, the product of a and :math:`(b - \rho a) / \sqrt{1 - \rho^2}` is a score as well. Where the residuals
of the reference are autocorrelated, those of earlier rows predict numbers, and probabilities of labels, of the next.

The regressions are fitted on blocks of the reference, the others are scored like new rows. Read `fit_scores` first, and
`score_rows` for rows of the stream; neither knows of regions or bets. A new kind of score is a new kind of `targets` or
`pairs` of `ScoreArrays`, and a line in `innovate`.
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
from condcs._core.errors import DataError
from condcs._core.vocabulary import named
from condcs._inference.responses import MADS_PER_DEVIATION
from condcs._tables.kinds import Column
from condcs.drift._betting import OUTERMOST, normal_score, uniform
from condcs.drift._dependence import LARGEST_RESIDUAL, Dependence, find_dependence
from condcs.drift._reference_regression import Regression, RegressionFitter, predict_rows, stored_numbers

FITTED_ROWS = 2500
"""Largest number of rows on which regressions are fitted: further ones improve the fit less than they improve ranks."""

FEWEST_REFERENCE_ROWS = 40
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

_STRONGEST_CORRELATION = 0.95
"""Fitted correlations are kept within this: the remainder of the second score is divided by sqrt(1 - 0.95^2) = 0.31."""

_NEGLIGIBLE = 1e-6
"""Residuals smaller than this share of a response's deviation are rounding errors of an exact relation, which are not
to be compared digit by digit."""

_NEIGHBOURS = 3
"""Rows of the fit that must be near a new one; one or two may be outliers themselves."""

_UNKNOWN_SHARE = 1.2
"""Of m fitted rows, this over the square root of m is the share that is farthest from the others: 3.4% of 1,250 rows.
That is also about the share of new rows that are not watched, and shrinks as the reference grows."""

_LEAST_RANKED_SHARE = 0.1
"""Share of the rows that are not fitted that must be near fitted ones. Of independent rows a quarter are in the worst
of 1,000 references of 40 rows, and 90% and more in longer ones. Of times and other inputs that never return, only rows
beside a fitted block are, at most 6% in references of 100 to 20,000 rows; and no row of the stream would be watched."""

_INPUTS_COUNT = 0.5
"""Weight of the inputs, in interquartile ranges, beside expectations and spreads in units of residuals, when cells are
made: inputs decide where the regressions are flat."""


COLUMN, LABEL = 0, 1
"""Columns of `ScoreArrays.targets`."""

NO_LABEL = -1
"""In place of a label: of a target that is a number."""


class ScoreArrays(NamedTuple):
    """The numbers of a model, as the compiled loops read them, for t targets and q pairs of these."""

    means: Regression  # expected targets at x
    spreads: Regression  # expected absolute residuals of those that are numbers
    correlations: Regression  # of the scores of each pair: expected products, in units of their spreads
    targets: IntArray  # (t, 2), what a score is made of: a column of y, and one of its labels (`NO_LABEL` for numbers)
    # Targets whose product has a score, after those of the targets. The first and last label of a column have one for
    # whether the label is what x leads to expect: the score of the likeliest one.
    pairs: IntArray  # (q, 2)
    mean_sizes: FloatArray  # (t,), of the residuals
    autoregression: FloatArray  # (order, t), coefficients of earlier residuals
    innovation_spreads: FloatArray  # (t,), of what they leave of numbers; 1 for labels
    units: FloatArray  # (p,), of the columns of the design in distances between rows: interquartile ranges
    fitted: FloatArray  # (m, p), rows of the fit, in these units
    farthest: FloatArray  # (), p(y|x) is unknown in rows farther than this from their third neighbour among these


_REGRESSIONS = ("means", "spreads", "correlations")
"""The fields of `ScoreArrays` that are regressions, its first ones."""

_STORED = {"correlations": "links", "mean_sizes": "typical", "innovation_spreads": "innovation"}
"""Names of fields in saved states that are others: states of earlier versions can be resumed."""


@dataclass(frozen=True)
class ScoreModel:
    """How rows are scored."""

    x_columns: tuple[Column, ...]
    y_columns: tuple[Column, ...]
    arrays: ScoreArrays
    notes: tuple[str, ...]  # what was found about the dependence of rows
    promises: bool  # whether the stated rate can be promised

    @property
    def n_scores(self) -> int:
        """Scores of a row."""
        return len(self.arrays.targets) + len(self.arrays.pairs)

    @property
    def n_label_draws(self) -> int:
        """Random numbers of a row that its scores of labels may take: one for each target up to the last of these."""
        of_labels = np.flatnonzero(self.arrays.targets[:, LABEL] != NO_LABEL)
        return int(of_labels[-1]) + 1 if len(of_labels) else 0

    @property
    def are_labels(self) -> BoolArray:
        """Which scores are those of labels (s,): of one label, or of the likeliest one of a column."""
        columns, labels = self.arrays.targets.T
        first, last = self.arrays.pairs.T
        return np.concatenate([labels != NO_LABEL, columns[first] == columns[last]])

    def features(self, inputs: FloatArray) -> FloatArray:
        """Return, at rows of the design (n, p), what is alike where scores are likely to have the same distribution.

        That is what is expected of every target and the logarithm of its spread, in units of residuals; and, less
        important, the inputs themselves.
        """
        arrays = self.arrays
        sizes = arrays.mean_sizes
        expected = arrays.means.predict(inputs) / sizes
        spreads = np.clip(arrays.spreads.predict(inputs), sizes / _SPREAD_RANGE, sizes * _SPREAD_RANGE)
        return np.hstack([expected, np.log(spreads / sizes), _INPUTS_COUNT * inputs / arrays.units])

    def state(self) -> dict[str, AnyArray]:
        """Return the arrays."""
        state: dict[str, AnyArray] = {}
        for field, array in self.arrays._asdict().items():
            if field not in _REGRESSIONS:
                state[_STORED.get(field, field)] = array
        for field in _REGRESSIONS:
            prefix = _STORED.get(field, field)
            state |= {f"{prefix}_{name}": array for name, array in getattr(self.arrays, field)._asdict().items()}
        return state

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, AnyArray],
        x_columns: tuple[Column, ...],
        y_columns: tuple[Column, ...],
        notes: tuple[str, ...],
        promises: bool,
    ) -> ScoreModel:
        """Undo `state`; a KeyError or ValueError if the arrays do not fit."""
        fields: dict[str, Any] = {
            field: stored_numbers(state, _STORED.get(field, field))
            for field in ScoreArrays._fields
            if field not in _REGRESSIONS
        }
        for field in ("targets", "pairs"):
            fields[field] = fields[field].astype(np.int64)
        t, q, order, m = (len(fields[field]) for field in ("targets", "pairs", "autoregression", "fitted"))
        p = int(np.maximum(label_counts(x_columns), 1).sum())
        shapes = {
            "targets": (t, 2),
            "pairs": (q, 2),
            "mean_sizes": (t,),
            "autoregression": (order, t),
            "innovation_spreads": (t,),
            "units": (p,),
            "fitted": (m, p),
            "farthest": (),
        }
        if {field: array.shape for field, array in fields.items()} != shapes or not t or m < _NEIGHBOURS:
            raise ValueError("scores whose arrays do not fit")
        for field, n_targets in zip(_REGRESSIONS, (t, t, q), strict=True):
            fields[field] = Regression.from_state(state, _STORED.get(field, field), p, n_targets)
        arrays = ScoreArrays(**fields)
        if (arrays.targets[:, COLUMN].max() >= len(y_columns)) or arrays.pairs.max(initial=0) >= t:
            raise ValueError("scores of columns that do not exist")
        return cls(x_columns, y_columns, arrays, notes, promises)


@njit(nogil=True)
def values_of_targets(y: Any, targets: Any) -> Any:
    """Return what is regressed on x (n, t): numbers, and indicators of labels."""
    values = np.empty((len(y), len(targets)))
    for i in range(len(y)):
        for k in range(len(targets)):
            cell, label = y[i, targets[k, COLUMN]], targets[k, LABEL]
            values[i, k] = cell if label == NO_LABEL else 1.0 if cell == label else 0.0
    return values


@njit(nogil=True)
def residuals_of_targets(values: Any, expected: Any, spreads: Any, mean_sizes: Any, targets: Any) -> Any:
    """Return residuals in units of their spread at x, and probabilities of labels, 0 for numbers; both (n, t)."""
    residuals, chances = np.empty_like(values), np.zeros_like(values)
    for i in range(values.shape[0]):
        for k in range(values.shape[1]):
            if targets[k, LABEL] == NO_LABEL:
                spread = min(max(spreads[i, k], mean_sizes[k] / _SPREAD_RANGE), mean_sizes[k] * _SPREAD_RANGE)
                residuals[i, k] = (values[i, k] - expected[i, k]) / spread
            else:
                chance = min(max(expected[i, k], _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
                chances[i, k] = chance
                residuals[i, k] = (values[i, k] - chance) / math.sqrt(chance * (1 - chance))
    return residuals, chances


@njit(nogil=True)
def predict_from_earlier(residuals: Any, coefficients: Any, history: Any) -> Any:
    """Return what the residuals before each row predict of its own (n, t), and all residuals (order + n, t).

    `history` (order, t) are those before the first row. Outliers count as at most `LARGEST_RESIDUAL` units.
    """
    order, (n, n_targets) = len(coefficients), residuals.shape
    limited = np.empty((order + n, n_targets))
    predicted = np.zeros((n, n_targets))
    for k in range(n_targets):
        for i in range(order):
            limited[i, k] = history[i, k]
        for i in range(n):
            limited[order + i, k] = min(max(residuals[i, k], -LARGEST_RESIDUAL), LARGEST_RESIDUAL)
            for lag in range(1, order + 1):
                predicted[i, k] += coefficients[lag - 1, k] * limited[order + i - lag, k]
    return predicted, limited


@njit(nogil=True)
def near_reference(inputs: Any, units: Any, fitted: Any, farthest: Any) -> Any:
    """Whether three fitted rows at least are near each row of the design (n, p); elsewhere p(y|x) is unknown."""
    limit = farthest[()] ** 2
    is_near, row = np.zeros(len(inputs), np.bool_), np.empty(inputs.shape[1])
    for i in range(len(inputs)):
        for c in range(len(row)):
            row[c] = inputs[i, c] / units[c]
        n_near = 0
        for m in range(len(fitted)):
            square = 0.0
            for c in range(len(row)):
                square += (row[c] - fitted[m, c]) ** 2
            if square <= limit:
                n_near += 1
                if n_near == _NEIGHBOURS:
                    is_near[i] = True
                    break
    return is_near


@njit(nogil=True)
def innovate(
    residuals: Any,
    predicted: Any,
    chances: Any,
    correlations: Any,
    key: Any,
    usable_numbers: Any,
    targets: Any,
    pairs: Any,
    innovation_spreads: Any,
) -> Any:
    """Return the scores of rows (n, s), and for those of labels the probabilities at x (n, s), 0 for others.

    Residuals, what earlier rows have `predicted` of them, and the `chances` of labels are (n, t); the `correlations` of
    the scores of pairs of targets (n, q); the spreads of innovations (t,).
    """
    n, n_targets = residuals.shape
    scores = np.empty((n, n_targets + len(pairs)))
    score_chances = np.zeros_like(scores)
    for i in range(n):
        for k in range(n_targets):
            if targets[k, LABEL] == NO_LABEL:
                # A number: its innovation, in units of the spread of innovations.
                scores[i, k] = (residuals[i, k] - predicted[i, k]) / innovation_spreads[k]
                continue
            # A label: earlier rows move its probability. A uniform number within the share of the row's own value
            # makes a rank that is uniform if the probability is right.
            at_x = chances[i, k]
            chance = at_x + math.sqrt(at_x * (1 - at_x)) * predicted[i, k]
            chance = min(max(chance, _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
            u = uniform(key, usable_numbers[i], k)
            rank = 1 - chance + chance * u if residuals[i, k] > 0 else (1 - chance) * u
            scores[i, k] = normal_score(min(max(rank, OUTERMOST), 1 - OUTERMOST))
            score_chances[i, k] = at_x
        for q in range(len(pairs)):
            a, b = pairs[q]
            if targets[a, COLUMN] == targets[b, COLUMN]:
                # Targets a to b are the labels of one column: the score of the likeliest one at x.
                likeliest = a + np.argmax(score_chances[i, a : b + 1])
                sign, chance = 1.0, score_chances[i, likeliest]
                # Two labels have one target; the label without one may be the likelier.
                if a == b and chance < 0.5:
                    sign, chance = -1.0, 1 - chance
                scores[i, n_targets + q] = sign * scores[i, likeliest]
                score_chances[i, n_targets + q] = chance
            else:
                # Two columns: the first score times what it does not predict of the second.
                rho = min(max(correlations[i, q], -_STRONGEST_CORRELATION), _STRONGEST_CORRELATION)
                rest = (scores[i, b] - rho * scores[i, a]) / math.sqrt(1 - rho * rho)
                scores[i, n_targets + q] = scores[i, a] * rest
    return scores, score_chances


@inner()
def score_rows(inputs: Any, y: Any, history: Any, key: Any, usable_numbers: Any, arrays: Any) -> Any:
    """Return scores (n, s) of rows in the order of time, and the residuals (order + n, t) that later ones depend on.

    Rows are `inputs` (n, p) of the design and y (n, d_y); `history` (order, t) are the residuals before them.
    """
    # 1. Residuals from the regression on x, in units of their spread at x.
    values = values_of_targets(y, arrays.targets)
    expected, spreads = predict_rows(inputs, arrays.means), predict_rows(inputs, arrays.spreads)
    residuals, chances = residuals_of_targets(values, expected, spreads, arrays.mean_sizes, arrays.targets)
    # 2. What earlier residuals predict of them, where the reference is autocorrelated.
    predicted, limited = predict_from_earlier(residuals, arrays.autoregression, history)
    # 3. Innovations, normal scores of labels, and products of two.
    scores, _ = innovate(
        residuals,
        predicted,
        chances,
        predict_rows(inputs, arrays.correlations),
        key,
        usable_numbers,
        arrays.targets,
        arrays.pairs,
        arrays.innovation_spreads,
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
    inputs = np.zeros((len(x), width))
    first = 0  # column of the design that column c of x begins with
    for c in range(len(n_labels)):
        for i in range(len(x)):
            if n_labels[c] == 0:
                inputs[i, first] = x[i, c]
            else:
                inputs[i, first + int(x[i, c])] = 1.0
        first += max(n_labels[c], 1)
    return inputs


def label_counts(columns: Sequence[Column]) -> IntArray:
    """Return the number of labels of each column, 0 for numbers."""
    return np.array([len(column.labels) if column.is_category else 0 for column in columns], np.int64)


def design(x: FloatArray, columns: Sequence[Column]) -> FloatArray:
    """Return the design (n, p) of rows x (n, d) with these columns."""
    return np.asarray(design_rows(np.ascontiguousarray(x), label_counts(columns)))


class InputsNeverReturn(DataError):
    """A reference of which nearly no row has neighbours among the rows of another time."""


class FittedScores(NamedTuple):
    """How rows are scored, and the scores of those rows of the reference that were not fitted."""

    model: ScoreModel
    is_ranked: BoolArray  # (n,), which rows these are; those far from fitted ones are neither fitted nor ranked
    scores: FloatArray  # (r, s), of the ranked rows
    chances: FloatArray  # (r, s), probabilities of labels at their x, 0 for scores of numbers


def fit_scores(
    x: FloatArray, y: FloatArray, x_columns: tuple[Column, ...], y_columns: tuple[Column, ...], key: np.uint64
) -> FittedScores:
    """Fit scores to a reference x (n, d_x) and y (n, d_y) in the order of time."""
    is_fitted = fitted_blocks(len(x))  # (n,)
    targets = _targets(y, y_columns)  # (t, 2)
    pairs = _pairs(targets, y_columns)  # (q, 2)
    values = np.asarray(values_of_targets(y, targets))  # (n, t)
    inputs = design(x, x_columns)  # (n, p)
    # Ranked are rows that are near fitted ones.
    units, fitted, farthest = _neighbourhood(inputs[is_fitted])
    is_ranked = ~is_fitted & near_reference(inputs, units, fitted, farthest)  # (n,)
    _check_inputs_return(is_ranked, is_fitted)

    # 1. Regressions on x, of the targets and of the sizes of their residuals.
    fitter = RegressionFitter(inputs[is_fitted])
    regressions = _fit_regressions(fitter, values, is_fitted)
    # 2. Residuals of all rows, each by a fit that has not seen it.
    residuals, chances = _residuals_of_reference(values, inputs, is_fitted, regressions, targets)
    # 3. What the residuals of earlier rows say of the next.
    dependence = _dependence_of(x, y, residuals, is_fitted, targets, y_columns)
    memory = _fit_memory(residuals, dependence.coefficients, targets)

    # 4. Scores, as those of rows of the stream; and the correlations that products of two scores need.
    def scores_given(correlations: FloatArray) -> tuple[FloatArray, FloatArray]:
        numbers, spreads = np.arange(len(x)), memory.innovation_spreads
        scores, score_chances = innovate(
            residuals, memory.predicted, chances, correlations, key, numbers, targets, pairs, spreads
        )
        return scores, score_chances

    uncorrelated, _ = scores_given(np.zeros((len(x), len(pairs))))
    correlations = _fit_correlations(fitter, uncorrelated[is_fitted], pairs)
    scores, score_chances = scores_given(correlations.predict(inputs))
    arrays = ScoreArrays(
        means=regressions.means,
        spreads=regressions.spreads,
        correlations=correlations,
        targets=targets,
        pairs=pairs,
        mean_sizes=regressions.mean_sizes,
        autoregression=dependence.coefficients,
        innovation_spreads=memory.innovation_spreads,
        units=units,
        fitted=fitted,
        farthest=farthest,
    )
    model = ScoreModel(x_columns, y_columns, arrays, dependence.notes, dependence.promises)
    return FittedScores(model, is_ranked, scores[is_ranked], score_chances[is_ranked])


def _check_inputs_return(is_ranked: BoolArray, is_fitted: BoolArray) -> None:
    """Raise `InputsNeverReturn` if nearly none of the rows that were not fitted are near fitted ones."""
    n_ranked, n_others = int(is_ranked.sum()), int((~is_fitted).sum())
    if n_ranked < _LEAST_RANKED_SHARE * n_others:
        raise InputsNeverReturn(
            f"{named('x_ref')} must have inputs that return: {n_ranked:,} of the {n_others:,} rows that are compared "
            "with rows of other times have similar inputs there, so that nothing could be said of y given these. Leave "
            "out inputs that only go on, such as times and running numbers, or replace them by what returns, such as "
            "the hour of the day; if x changes slowly, pass a longer reference."
        )


class _Regressions(NamedTuple):
    """Regressions on x, fitted on m rows."""

    means: Regression
    spreads: Regression
    mean_sizes: FloatArray  # (t,), of the residuals
    left_out_residuals: FloatArray  # (m, t), residuals of fits without the fold that each row is in


def _fit_regressions(fitter: RegressionFitter, values: FloatArray, is_fitted: BoolArray) -> _Regressions:
    """Fit the values of the targets (n, t), and the sizes of their residuals, on some rows."""
    means, left_out_residuals = fitter.fit(values[is_fitted])
    sizes = np.abs(left_out_residuals)
    deviation = values.std(axis=0)
    floor = _NEGLIGIBLE * np.where(deviation > 0, deviation, np.maximum(np.abs(values).max(axis=0), 1.0))
    spreads, _ = fitter.fit(sizes)
    return _Regressions(means, spreads, np.maximum(sizes.mean(axis=0), floor), left_out_residuals)


def _residuals_of_reference(
    values: FloatArray, inputs: FloatArray, is_fitted: BoolArray, regressions: _Regressions, targets: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the residuals of all rows in units of their spread at x, and probabilities of labels; both (n, t)."""
    expected = regressions.means.predict(inputs)
    expected[is_fitted] = values[is_fitted] - regressions.left_out_residuals
    spreads = regressions.spreads.predict(inputs)
    residuals, chances = residuals_of_targets(values, expected, spreads, regressions.mean_sizes, targets)
    # A fit without a sixth of the rows leaves a little more than the fit of all, by which other rows are scored. That
    # is no dependence of rows, and is taken off.
    of_fitted, of_others = _spread(residuals[is_fitted]), _spread(residuals[~is_fitted])
    is_comparable = (targets[:, LABEL] == NO_LABEL) & (of_fitted > 0) & (of_others > 0)
    residuals[is_fitted] *= np.where(is_comparable, of_others / np.maximum(of_fitted, np.finfo(float).tiny), 1.0)
    return residuals, chances


def _dependence_of(
    x: FloatArray,
    y: FloatArray,
    residuals: FloatArray,
    is_fitted: BoolArray,
    targets: IntArray,
    y_columns: Sequence[Column],
) -> Dependence:
    """Return how the residuals (n, t) of a reference depend on those of the rows before them."""
    names = [y_columns[column].name for column in targets[:, COLUMN]]
    return find_dependence(np.column_stack([x, y]), residuals, ~is_fitted, names, targets[:, LABEL] != NO_LABEL)


class _Memory(NamedTuple):
    """What an autoregression says of residuals."""

    predicted: FloatArray  # (n, t), from those of the rows before
    innovation_spreads: FloatArray  # (t,), of what it leaves of numbers; 1 for labels


def _fit_memory(residuals: FloatArray, coefficients: FloatArray, targets: IntArray) -> _Memory:
    """Predict residuals (n, t) in the order of time, and measure what is left."""
    no_history = np.zeros((len(coefficients), len(targets)))
    predicted, _ = predict_from_earlier(residuals, coefficients, no_history)
    spread = _spread(residuals - predicted)
    innovation_spreads = np.where((targets[:, LABEL] == NO_LABEL) & (spread > 0), spread, 1.0)
    return _Memory(predicted, innovation_spreads)


def _fit_correlations(fitter: RegressionFitter, scores: FloatArray, pairs: IntArray) -> Regression:
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
    return np.asarray(MADS_PER_DEVIATION * np.median(deviations, axis=0))


def fitted_blocks(n: int) -> BoolArray:
    """Which of n rows are fitted: the first part of every block, half of it in references up to 5,000 rows.

    Blocks, because neighbours in time may be alike: rows between fitted ones would be scored too well.
    """
    blocks = int(np.clip(n // (2 * _BLOCK_ROWS), 1, _MOST_BLOCKS))
    position = np.arange(n) * blocks / n  # in blocks
    return np.asarray(position - np.floor(position) < min(0.5, FITTED_ROWS / n))


def _targets(y: FloatArray, y_columns: Sequence[Column]) -> IntArray:
    """Return what is regressed on x (t, 2): columns of y, each with `NO_LABEL` if it is a number, else its labels."""
    targets: list[tuple[int, int]] = []
    for c, column in enumerate(y_columns):
        if not column.is_category:
            targets.append((c, NO_LABEL))
            continue
        counts = np.bincount(y[:, c].astype(np.int64), minlength=len(column.labels))
        if len(counts) > 2:
            labels = sorted(np.argsort(-counts, kind="stable")[:_MOST_LABELS].tolist())
        else:
            # Of two labels one says everything.
            labels = [len(counts) - 1]
        targets += [(c, label) for label in labels]
    return np.array(targets, np.int64)


def _pairs(targets: IntArray, y_columns: Sequence[Column]) -> IntArray:
    """Return the pairs of targets that have a score of their own (q, 2), as `ScoreArrays.pairs` describes them."""
    # Labels that change places keep their shares where both are as likely; they disagree with what x leads to expect.
    pairs = []
    for c, column in enumerate(y_columns):
        if column.is_category:
            of_column = np.flatnonzero(targets[:, COLUMN] == c)  # its targets, which follow one another
            pairs.append((of_column[0], of_column[-1]))
    if len(y_columns) <= _MOST_PAIRED:
        # The only target of its column.
        single = [k for k, (c, label) in enumerate(targets) if label == NO_LABEL or len(y_columns[c].labels) == 2]
        pairs += combinations(single, 2)
    return np.array(pairs, np.int64).reshape(-1, 2)
