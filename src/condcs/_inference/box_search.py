r"""The search for boxes of x in which the terms of rows add up to most: a gain, less what its bounds cost.

Rows have a term s and a weight v, such that a change by t in some place makes the mean of s there t times the mean
of v. Of a box B the gain is

.. math:: G(B) = (\sum_B s)^2 / \sum_B v,

what least squares gain from a change inside and none outside, in units of the noise. Bounds cost a penalty, so that
columns without influence bound nothing. Columns are bounded one at a time, from both sides at once, given the bounds of
the others; a column of labels by a set of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray

Bound = tuple[float, float] | frozenset[float]

_GRID = 64
"""Cuts of a column that are tried together, in pairs; the best pair is then moved row by row."""
_STARTS = 5
"""Columns that a search starts from, the best first: a box that needs two bounds at once may start with the second best
column, and each start costs as much as the whole search from one."""
_MOST_MOVES = 20
"""Bounds that a search moves at most: each move gains, so that a search ends by itself, and far earlier."""
_LEAST_RELATIVE_GAIN = 1e-9
"""Part of the score that a move must add: less is rounding, and would be taken back by the next move."""
_COST_PER_LABEL = 1.0
"""Cost of each further label of a set: among labels without a change, those that happen to lie on one side gain 0.64
each by chance."""
_LEAST_LABEL_WEIGHT = 1.0
"""Sum of the weights v of a label that may be part of a set: where only one sample has a label, the sum is near 0 and
nothing can be said."""
_PASSES = 3
"""Times that both ends of an interval are moved row by row: where one of them lies best depends on the other, and each
pass costs two scans of a step of the grid."""
_FEWEST_CUT_OFF = 5
"""Rows that a bound must cut off at least: of fewer rows at the end of a column nothing can be said."""
_LEAST_SHARE_CUT_OFF = 0.01
"""The same as a share of the rows: of many rows, the last few would always gain something by chance."""


@dataclass(frozen=True)
class Box:
    """Bounds by column: low < x <= high, or a set of labels. Without bounds it is everywhere."""

    bounds: Mapping[int, Bound]

    def holds(self, x: FloatArray) -> BoolArray:
        """Which rows lie in it."""
        inside = np.ones(len(x), bool)
        for column, bound in self.bounds.items():
            inside &= _within(x[:, column], bound)
        return inside

    def bounded(self, column: int, bound: Bound | None) -> Box:
        """Return it with another bound of a column, or none."""
        others = {other: its_bound for other, its_bound in self.bounds.items() if other != column}
        return Box(others if bound is None else {**others, column: bound})


class ScoredBox(NamedTuple):
    """A box, and its gain less the penalties of its bounds."""

    box: Box
    score: float


@dataclass(frozen=True)
class _BoundOfColumn:
    """A bound of one column, None for none, and the score of the box with it."""

    score: float
    bound: Bound | None


class BoxSearch:
    """The search for boxes among rows of x, whose `categorical` columns are labels coded as numbers.

    The first bound of a column must bring a gain of `penalty`, and a second one `second_penalty`: cutting off a tail of
    a column without influence gains something by chance, and there are many columns; that a bounded column has two
    bounds is likely. The weights v in a box add up to `least_weight` at least.
    """

    def __init__(
        self,
        x: FloatArray,
        categorical: Sequence[bool],
        *,
        penalty: float,
        second_penalty: float,
        least_weight: float,
    ) -> None:
        self.x, self.categorical = x, tuple(categorical)
        self.penalty, self.second_penalty, self.least_weight = penalty, second_penalty, least_weight
        self._orders = [np.argsort(column, kind="stable") for column in x.T]
        # (d,): labels of each column, 0 for numbers
        self._label_counts = [
            len(np.unique(column)) if is_category else 0
            for column, is_category in zip(x.T, self.categorical, strict=True)
        ]

    def best(self, s: FloatArray, v: FloatArray) -> ScoredBox:
        """Search for the box with the largest gain less its penalties, from several columns to start with."""
        everywhere = Box({})
        candidates = [ScoredBox(everywhere, self.score(everywhere, s, v))]
        first_bounds = [self._best_bound(everywhere, column, s, v) for column in range(self.x.shape[1])]
        promising = sorted(range(len(first_bounds)), key=lambda column: -first_bounds[column].score)
        for column in promising[:_STARTS]:
            if first_bounds[column].bound is not None:
                candidates.append(self.refined(everywhere.bounded(column, first_bounds[column].bound), s, v))
        return max(candidates, key=lambda candidate: candidate.score)

    def refined(self, box: Box, s: FloatArray, v: FloatArray) -> ScoredBox:
        """Change bounds one column at a time, the most rewarding first, as long as that brings something."""
        score = self.score(box, s, v)
        for _ in range(_MOST_MOVES):
            bounds = [self._best_bound(box, column, s, v) for column in range(self.x.shape[1])]
            column = int(np.argmax([candidate.score for candidate in bounds]))
            if bounds[column].score <= score + _LEAST_RELATIVE_GAIN * max(1.0, abs(score)):
                break
            box, score = box.bounded(column, bounds[column].bound), bounds[column].score
        return ScoredBox(box, score)

    def score(self, box: Box, s: FloatArray, v: FloatArray) -> float:
        """Gain of a box less the penalties of its bounds; minus infinity for too little weight."""
        inside = box.holds(self.x)
        weight = float(v[inside].sum())
        if weight < self.least_weight:
            return -np.inf
        return float(s[inside].sum()) ** 2 / weight - self._costs(box)

    def _costs(self, box: Box) -> float:
        """Sum of the penalties of all bounds of a box."""
        return sum(self._cost(column, bound) for column, bound in box.bounds.items())

    def _cost(self, column: int, bound: Bound) -> float:
        """Penalty of a bound."""
        if isinstance(bound, frozenset):
            return float(self._set_costs(len(bound), self._label_counts[column]))
        return self.penalty if np.isinf(bound).any() else self.penalty + self.second_penalty

    def _set_costs(self, sizes: Any, n_labels: int) -> FloatArray:
        """Penalty of sets of so many (an integer or an array of them) of `n_labels`.

        A set costs as much as its complement, which bounds the same.
        """
        smaller = np.minimum(sizes, n_labels - sizes)
        return np.asarray(self.penalty + _COST_PER_LABEL * (np.maximum(1, smaller) - 1))

    def _best_bound(self, box: Box, column: int, s: FloatArray, v: FloatArray) -> _BoundOfColumn:
        """Return the best bound of one column, given those of the others."""
        others = box.bounded(column, None)
        order = self._orders[column]
        if others.bounds:
            order = order[others.holds(self.x)[order]]
        values = self.x[order, column]
        if self.categorical[column]:
            best = self._best_set(values, s[order], v[order], self._label_counts[column])
        else:
            best = self._best_interval(values, s[order], v[order])
        return _BoundOfColumn(best.score - self._costs(others), best.bound)

    def _best_interval(self, values: FloatArray, s: FloatArray, v: FloatArray) -> _BoundOfColumn:
        """Return the best interval of sorted values: pairs of cuts on a grid, then each cut row by row."""
        n = len(values)
        # A cut at k has k rows below it; no cut separates equal values. The first and the last one bound nothing.
        between = 1 + np.flatnonzero(values[1:] > values[:-1])
        fewest = max(_FEWEST_CUT_OFF, _LEAST_SHARE_CUT_OFF * n)
        between = between[(between >= fewest) & (between <= n - fewest)]
        cuts = np.concatenate([[0], between, [n]])  # (cuts,)
        last = len(cuts) - 1
        # Sums below each cut: those of an interval are differences of two.
        sums = np.concatenate([[0.0], np.cumsum(s)])[cuts]  # (cuts,)
        weights = np.concatenate([[0.0], np.cumsum(v)])[cuts]  # (cuts,)

        # All pairs of cuts on a grid.
        grid = np.unique(np.linspace(0, last, min(_GRID, last) + 1).astype(np.int64))  # (g,)
        scores = self._scores(sums, weights, grid[:, None], grid[None, :])  # (g, g)
        i, j = np.unravel_index(int(np.argmax(scores)), scores.shape)
        low, high, best = int(grid[i]), int(grid[j]), float(scores[i, j])
        if best == -np.inf:
            return _BoundOfColumn(best, None)

        # Each end in turn, among the cuts that are closer than the next of the grid.
        step = int(np.ceil(last / _GRID)) + 1
        for _ in range(_PASSES):
            for moves_low in (True, False):
                end = low if moves_low else high
                near = np.arange(max(0, end - step), min(last, end + step) + 1)
                lows = near if moves_low else np.full_like(near, low)
                highs = np.full_like(near, high) if moves_low else near
                scores = self._scores(sums, weights, lows, highs)
                winner = int(np.argmax(scores))
                if scores[winner] > best:
                    best, low, high = float(scores[winner]), int(lows[winner]), int(highs[winner])
        if (low, high) == (0, last):
            return _BoundOfColumn(best, None)
        lower = -np.inf if low == 0 else _middle(values[cuts[low] - 1], values[cuts[low]])
        upper = np.inf if high == last else _middle(values[cuts[high] - 1], values[cuts[high]])
        return _BoundOfColumn(best, (lower, upper))

    def _scores(self, sums: FloatArray, weights: FloatArray, low: IntArray, high: IntArray) -> FloatArray:
        """Gain less penalties of the intervals between cuts `low` and `high`; minus infinity for too little weight.

        `sums` of s and `weights`, those of v, are of all rows below each cut. The first cut and the last one are no
        bounds.
        """
        last = len(sums) - 1
        weight = weights[high] - weights[low]
        is_large = (weight >= self.least_weight) & (high > low)
        gain = (sums[high] - sums[low]) ** 2 / np.where(is_large, weight, 1.0)
        has_bound, has_both = (low > 0) | (high < last), (low > 0) & (high < last)
        return np.where(is_large, gain - self.penalty * has_bound - self.second_penalty * has_both, -np.inf)

    def _best_set(self, values: FloatArray, s: FloatArray, v: FloatArray, n_labels: int) -> _BoundOfColumn:
        """Return the best set of labels, of the `n_labels` that the column has among all rows.

        With the labels in the order of their mean terms, it is the first few of them: from the top or the bottom.
        """
        labels, codes = np.unique(values, return_inverse=True)
        sums = np.bincount(codes, weights=s, minlength=len(labels))
        weights = np.bincount(codes, weights=v, minlength=len(labels))
        is_heavy = weights >= _LEAST_LABEL_WEIGHT
        labels, sums, weights = labels[is_heavy], sums[is_heavy], weights[is_heavy]
        count = len(labels)
        if not count:
            return _BoundOfColumn(-np.inf, None)
        costs = self._set_costs(np.arange(1, count + 1), n_labels)  # (count,): of the first 1, 2, ... labels
        costs[-1] = 0.0  # all labels bound nothing
        best, bound = -np.inf, None
        means = sums / np.maximum(weights, np.finfo(float).tiny)
        for order in (np.argsort(-means, kind="stable"), np.argsort(means, kind="stable")):
            weight = np.cumsum(weights[order])  # (count,)
            is_large = weight >= self.least_weight
            gain = np.cumsum(sums[order]) ** 2 / np.where(is_large, weight, 1.0)
            scores = np.where(is_large, gain - costs, -np.inf)
            size = int(np.argmax(scores)) + 1
            if scores[size - 1] > best:
                best = float(scores[size - 1])
                bound = None if size == count else frozenset(labels[order[:size]].tolist())
        return _BoundOfColumn(best, bound)


def _within(values: FloatArray, bound: Bound) -> BoolArray:
    """Return which values a bound lets in."""
    if isinstance(bound, frozenset):
        return np.isin(values, list(bound))
    return np.asarray((values > bound[0]) & (values <= bound[1]))


def _middle(low: float, high: float) -> float:
    """Middle of two numbers, at least the lower and below the higher however close they are."""
    middle = low + (high - low) / 2
    return float(middle if low <= middle < high else low)
