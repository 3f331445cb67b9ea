r"""The search for boxes of x in which contrasts are largest: a gain, less what its bounds cost.

Rows have a contrast s and a weight v, such that a change by t in some place makes the mean of s there t times the mean
of v. Of a box B the gain is

.. math:: G(B) = (\sum_B s)^2 / \sum_B v,

what least squares gain from a change inside and none outside, in units of the noise. Bounds cost a penalty, so that
columns without influence bound nothing. Columns are bounded one at a time, from both sides at once, given the bounds of
the others; a column of labels by a set of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray

Bound = tuple[float, float] | frozenset[float]

_GRID = 64
"""Cuts of a column that are tried together, in pairs; the best pair is then moved row by row."""
_STARTS = 5
"""Columns that a search starts from, the best first: a box that needs two bounds at once may start with the second best
column, and each start costs as much as the whole search from one."""
_STEPS = 20
"""Most bounds that are moved: each step gains, so that a search ends by itself, and far earlier."""
_PER_LABEL = 1.0
"""Cost of each further label of a set: among labels without a change, those that happen to lie on one side gain 0.64
each by chance."""
_LEAST_LABEL = 1.0
"""Weight of a label that may be part of a set: of one that only one sample has nothing can be said."""
_LEAST_STEP = 1e-9
"""Part of the gain that a step must add: less is rounding, and would be taken back by the next step."""
_PASSES = 3
"""Times that both ends of an interval are moved row by row: where one of them lies best depends on the other, and each
pass costs two scans of a step of the grid."""
_FEWEST_CUT_OFF, _LEAST_CUT_OFF = 5, 0.01
"""Rows, and their share, that a bound must cut off at least: of the last few rows of a column nothing can be said."""


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
        others = {c: b for c, b in self.bounds.items() if c != column}
        return Box(others if bound is None else {**others, column: bound})


@dataclass(frozen=True)
class _BoundOfColumn:
    """A bound of one column, None for none, and the score of the box with it."""

    score: float
    bound: Bound | None


class BoxSearch:
    """The search for boxes among rows of x, whose `categorical` columns are labels coded as numbers.

    The first bound of a column must bring a gain of `penalty`, and a second one `second`: cutting off a tail of a
    column without influence gains something by chance, and there are many columns; that a bounded column has two bounds
    is likely. The weights v in a box add up to `least` at least.
    """

    def __init__(
        self, x: FloatArray, categorical: Sequence[bool], *, penalty: float, second: float, least: float
    ) -> None:
        self.x, self.categorical = x, tuple(categorical)
        self.penalty, self.second, self.least = penalty, second, least
        self._orders = [np.argsort(column, kind="stable") for column in x.T]
        self._counts = [len(np.unique(c)) if flag else 0 for c, flag in zip(x.T, self.categorical, strict=True)]

    def best(self, s: FloatArray, v: FloatArray) -> tuple[Box, float]:
        """Find the box with the largest gain less its penalties, and that."""
        everywhere = Box({})
        candidates = [(everywhere, self.score(everywhere, s, v))]
        first = [self._column(everywhere, column, s, v) for column in range(self.x.shape[1])]
        promising = sorted(range(len(first)), key=lambda column: -first[column].score)
        for column in promising[:_STARTS]:
            if first[column].bound is not None:
                candidates.append(self.refined(everywhere.bounded(column, first[column].bound), s, v))
        return max(candidates, key=lambda pair: pair[1])

    def refined(self, box: Box, s: FloatArray, v: FloatArray) -> tuple[Box, float]:
        """Change bounds one column at a time, the most rewarding first, as long as that brings something."""
        score = self.score(box, s, v)
        for _ in range(_STEPS):
            tried = [self._column(box, column, s, v) for column in range(self.x.shape[1])]
            column = int(np.argmax([candidate.score for candidate in tried]))
            if tried[column].score <= score + _LEAST_STEP * max(1.0, abs(score)):
                break
            box, score = box.bounded(column, tried[column].bound), tried[column].score
        return box, score

    def score(self, box: Box, s: FloatArray, v: FloatArray) -> float:
        """Gain of a box less the penalties of its bounds."""
        inside = box.holds(self.x)
        weight = float(v[inside].sum())
        if weight < self.least:
            return -np.inf
        return float(s[inside].sum()) ** 2 / weight - sum(self._cost(c, b) for c, b in box.bounds.items())

    def _cost(self, column: int, bound: Bound) -> float:
        """Penalty of a bound."""
        if isinstance(bound, frozenset):
            return float(self._label_costs(len(bound), self._counts[column]))
        return self.penalty if np.isinf(bound).any() else self.penalty + self.second

    def _label_costs(self, sizes: Any, count: int) -> FloatArray:
        """Penalty of sets of so many of `count` labels; a set costs as much as its complement."""
        return np.asarray(self.penalty + _PER_LABEL * (np.maximum(1, np.minimum(sizes, count - sizes)) - 1))

    def _column(self, box: Box, column: int, s: FloatArray, v: FloatArray) -> _BoundOfColumn:
        """Find the best bound of one column, given those of the others."""
        rest = box.bounded(column, None)
        cost = sum(self._cost(c, b) for c, b in rest.bounds.items())
        order = self._orders[column]
        order = order[rest.holds(self.x)[order]] if rest.bounds else order
        values = self.x[order, column]
        if self.categorical[column]:
            best = self._labels(values, s[order], v[order], self._counts[column])
        else:
            best = self._interval(values, s[order], v[order])
        return _BoundOfColumn(best.score - cost, best.bound)

    def _interval(self, values: FloatArray, s: FloatArray, v: FloatArray) -> _BoundOfColumn:
        """Find the best interval of sorted values: pairs of cuts on a grid, then each cut row by row."""
        n = len(values)
        # A cut at k has k rows below it; no cut parts equal values. The first and the last one bound nothing.
        between = 1 + np.flatnonzero(values[1:] > values[:-1])
        fewest = max(_FEWEST_CUT_OFF, _LEAST_CUT_OFF * n)
        between = between[(between >= fewest) & (between <= n - fewest)]
        cuts = np.concatenate([[0], between, [n]])  # (cuts,)
        # Sums below each cut: those of an interval are differences of two.
        sums, weights = (np.concatenate([[0.0], np.cumsum(a)])[cuts] for a in (s, v))
        last = len(cuts) - 1

        # All pairs of cuts on a grid.
        grid = np.unique(np.linspace(0, last, min(_GRID, last) + 1).astype(np.int64))
        scores = self._scores(sums, weights, grid[:, None], grid[None, :], last)
        low, high = np.unravel_index(int(np.argmax(scores)), scores.shape)
        a, b, best = int(grid[low]), int(grid[high]), float(scores[low, high])
        if best == -np.inf:
            return _BoundOfColumn(best, None)

        # Each end in turn, among the cuts that are closer than the next of the grid.
        step = int(np.ceil(last / _GRID)) + 1
        for _ in range(_PASSES):
            for at_low in (True, False):
                moved = a if at_low else b
                near = np.arange(max(0, moved - step), min(last, moved + step) + 1)
                lows, highs = (near, np.full_like(near, b)) if at_low else (np.full_like(near, a), near)
                scores = self._scores(sums, weights, lows, highs, last)
                winner = int(np.argmax(scores))
                if scores[winner] > best:
                    best, a, b = float(scores[winner]), int(lows[winner]), int(highs[winner])
        edges = [
            -np.inf if a == 0 else _middle(values[cuts[a] - 1], values[cuts[a]]),
            np.inf if b == last else _middle(values[cuts[b] - 1], values[cuts[b]]),
        ]
        return _BoundOfColumn(best, None if (a, b) == (0, last) else (edges[0], edges[1]))

    def _scores(self, sums: FloatArray, weights: FloatArray, low: IntArray, high: IntArray, last: int) -> FloatArray:
        """Gain less penalties of the intervals between cuts `low` and `high`; minus infinity for too little weight."""
        weight = weights[high] - weights[low]
        large = (weight >= self.least) & (high > low)
        gain = (sums[high] - sums[low]) ** 2 / np.where(large, weight, 1.0)
        one, both = (low > 0) | (high < last), (low > 0) & (high < last)
        return np.where(large, gain - self.penalty * one - self.second * both, -np.inf)

    def _labels(self, values: FloatArray, s: FloatArray, v: FloatArray, total: int) -> _BoundOfColumn:
        """Find the best set of labels.

        With the labels in the order of their mean contrasts, it is the first few of them: from the top or the bottom.
        """
        names, codes = np.unique(values, return_inverse=True)
        sums, weights = (np.bincount(codes, weights=a, minlength=len(names)) for a in (s, v))
        heavy = weights >= _LEAST_LABEL
        names, sums, weights = names[heavy], sums[heavy], weights[heavy]
        count = len(names)
        if not count:
            return _BoundOfColumn(-np.inf, None)
        costs = self._label_costs(np.arange(1, count + 1), total)
        costs[-1] = 0.0
        best, bound = -np.inf, None
        means = sums / np.maximum(weights, np.finfo(float).tiny)
        for order in (np.argsort(-means, kind="stable"), np.argsort(means, kind="stable")):
            weight = np.cumsum(weights[order])
            large = weight >= self.least
            scores = np.where(large, np.cumsum(sums[order]) ** 2 / np.where(large, weight, 1.0) - costs, -np.inf)
            last = int(np.argmax(scores))
            if scores[last] > best:
                best = float(scores[last])
                bound = None if last == count - 1 else frozenset(names[order[: last + 1]].tolist())
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
