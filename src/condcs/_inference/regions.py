r"""Honest regions: where the relation of y to x changed, found on some rows and tested on the others.

A row's contrast is u r: u its label minus the label's probability given x, r a function of y minus its regression on x
(on the pool, without labels). Its mean is 0 wherever p(y|x) is the same in both samples, whatever x does. On either
half of the rows boxes of x are grown in which the contrasts are largest; on the other half the contrast of each box is
compared with the largest of all boxes under redrawn labels. Two halves are two looks, so p-values are doubled. What is
significant has its bounds placed anew by all rows: that there is a change is tested on rows that had no part in finding
the box; where exactly it ends is an estimate from all of them.

How large a change is cannot be read from the rows that bounds were placed by: these make it as large as they can. On
rows that had no part in placing bounds it is too small, since bounds by half of the rows are not as good. The truth
lies between both, and so do estimates and intervals.

The search for boxes: rows have a contrast s and a weight v, such that a change by t in some place makes the mean of s
there t times the mean of v. Of a box B the gain is

.. math:: G(B) = (\sum_B s)^2 / \sum_B v,

what least squares gain from a change inside and none outside, in units of the noise. Bounds cost a penalty, so that
columns without influence bound nothing. Columns are bounded one at a time, from both sides at once, given the bounds of
the others; a column of labels by a set of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from condcs._core.arrays import BoolArray, FloatArray, IntArray, RealArray
from condcs._core.printable import Printable
from condcs._core.settings import one_blas_thread
from condcs._inference.adjustment import Adjustment
from condcs._inference.after_selection import after_selection
from condcs._inference.propensities import independent_draws
from condcs._inference.results import Estimate, around, in_units, within
from condcs._parallel.many_rows import over_rows
from condcs._regression.ridge import ClusterMeans
from condcs._regression.smoother import Smoother
from condcs._regression.standardised import largest_size

Kind = Literal["mean", "spread", "shape", "share"]

_PENALTY, _SECOND = 7.0, 2.5
"""Gain that the first bound of a column must bring beside the logarithm of the number of columns, and a second one, in
units of the noise."""
_SMALLEST_ROWS, _SMALLEST_SHARE = 12, 0.02
_LEAST_SCORE = 3.0
_MOST_PROPOSED = 12
_MOST_STEPS = 4
_SAME = 0.5
_STILL_THERE = 2.5
_DRAWN_FLOATS = 2**24
_MOST_SHARED = 0.9
"""Largest correlation of a test with an estimate: by the same rows in the same box it was .92, because tests see
residuals that are clipped and in units of their local spread."""
_FEWEST_OF_EACH = 3
"""Rows of either sample in a half from which on it has an estimate of its own."""
REGION_LEVEL = 0.95
"""Of the intervals of effects in regions: that a region is there has a test of its own, at the caller's level."""
_NORMAL = float(ndtri((1 + REGION_LEVEL) / 2))
"""Standard errors that such an interval reaches either way."""
_TIE = 1e-10
_CLIPPED = 3.0
_LEAST_VARIANCE = 0.1
_NEGLIGIBLE = 1e-9
_ALIKE = 0.97
_MOST_LABELS = 8
Bound = tuple[float, float] | frozenset[float]

_GRID = 64
"""Cuts of a column that are tried together, in pairs; the best pair is then moved row by row."""
_STARTS = 5
_STEPS = 20
_PER_LABEL = 1.0
"""Cost of each further label of a set: among labels without a change, those that happen to lie on one side gain 0.64
each by chance."""
_LEAST_LABEL = 1.0
"""Weight of a label that may be part of a set: of one that only one sample has nothing can be said."""
_LEAST_STEP = 1e-9
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
class _Found:
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
        found = [(everywhere, self.score(everywhere, s, v))]
        first = [self._column(everywhere, column, s, v) for column in range(self.x.shape[1])]
        promising = sorted(range(len(first)), key=lambda column: -first[column].score)
        for column in promising[:_STARTS]:
            if first[column].bound is not None:
                found.append(self.refined(everywhere.bounded(column, first[column].bound), s, v))
        return max(found, key=lambda pair: pair[1])

    def refined(self, box: Box, s: FloatArray, v: FloatArray) -> tuple[Box, float]:
        """Change bounds one column at a time, the most rewarding first, as long as that brings something."""
        score = self.score(box, s, v)
        for _ in range(_STEPS):
            tried = [self._column(box, column, s, v) for column in range(self.x.shape[1])]
            column = int(np.argmax([found.score for found in tried]))
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
        if isinstance(bound, frozenset):
            return float(self._label_costs(len(bound), self._counts[column]))
        return self.penalty if np.isinf(bound).any() else self.penalty + self.second

    def _label_costs(self, sizes: Any, count: int) -> FloatArray:
        return np.asarray(self.penalty + _PER_LABEL * (np.maximum(1, np.minimum(sizes, count - sizes)) - 1))

    def _column(self, box: Box, column: int, s: FloatArray, v: FloatArray) -> _Found:
        """Find the best bound of one column, given those of the others."""
        rest = box.bounded(column, None)
        cost = sum(self._cost(c, b) for c, b in rest.bounds.items())
        order = self._orders[column]
        order = order[rest.holds(self.x)[order]] if rest.bounds else order
        values = self.x[order, column]
        if self.categorical[column]:
            found = self._labels(values, s[order], v[order], self._counts[column])
        else:
            found = self._interval(values, s[order], v[order])
        return _Found(found.score - cost, found.bound)

    def _interval(self, values: FloatArray, s: FloatArray, v: FloatArray) -> _Found:
        """Find the best interval of sorted values: pairs of cuts on a grid, then each cut row by row."""
        n = len(values)
        # A cut at k has k rows below it; no cut parts equal values.
        between = 1 + np.flatnonzero(values[1:] > values[:-1])
        fewest = max(_FEWEST_CUT_OFF, _LEAST_CUT_OFF * n)
        between = between[(between >= fewest) & (between <= n - fewest)]
        cuts = np.concatenate([[0], between, [n]])
        sums, weights = (np.concatenate([[0.0], np.cumsum(a)])[cuts] for a in (s, v))
        last = len(cuts) - 1
        grid = np.unique(np.linspace(0, last, min(_GRID, last) + 1).astype(np.int64))
        scores = self._scores(sums, weights, grid[:, None], grid[None, :], last)
        low, high = np.unravel_index(int(np.argmax(scores)), scores.shape)
        a, b, best = int(grid[low]), int(grid[high]), float(scores[low, high])
        if best == -np.inf:
            return _Found(best, None)
        step = int(np.ceil(last / _GRID)) + 1
        for _ in range(3 if step > 1 else 0):
            for at_low in (True, False):
                middle = a if at_low else b
                near = np.arange(max(0, middle - step), min(last, middle + step) + 1)
                lows, highs = (near, np.full_like(near, b)) if at_low else (np.full_like(near, a), near)
                scores = self._scores(sums, weights, lows, highs, last)
                place = int(np.argmax(scores))
                if scores[place] > best:
                    best, a, b = float(scores[place]), int(lows[place]), int(highs[place])
        edges = [
            -np.inf if a == 0 else _middle(values[cuts[a] - 1], values[cuts[a]]),
            np.inf if b == last else _middle(values[cuts[b] - 1], values[cuts[b]]),
        ]
        return _Found(best, None if (a, b) == (0, last) else (edges[0], edges[1]))

    def _scores(self, sums: FloatArray, weights: FloatArray, low: IntArray, high: IntArray, last: int) -> FloatArray:
        weight = weights[high] - weights[low]
        large = (weight >= self.least) & (high > low)
        gain = (sums[high] - sums[low]) ** 2 / np.where(large, weight, 1.0)
        one, both = (low > 0) | (high < last), (low > 0) & (high < last)
        return np.where(large, gain - self.penalty * one - self.second * both, -np.inf)

    def _labels(self, values: FloatArray, s: FloatArray, v: FloatArray, total: int) -> _Found:
        """Find the best set of labels. For either sign it starts the list of labels ordered by their mean contrast."""
        names, codes = np.unique(values, return_inverse=True)
        sums, weights = (np.bincount(codes, weights=a, minlength=len(names)) for a in (s, v))
        known = weights >= _LEAST_LABEL
        names, sums, weights = names[known], sums[known], weights[known]
        count = len(names)
        if not count:
            return _Found(-np.inf, None)
        costs = self._label_costs(np.arange(1, count + 1), total)
        costs[-1] = 0.0
        best, bound = -np.inf, None
        means = sums / np.maximum(weights, np.finfo(float).tiny)
        for order in (np.argsort(-means, kind="stable"), np.argsort(means, kind="stable")):
            weight = np.cumsum(weights[order])
            large = weight >= self.least
            scores = np.where(large, np.cumsum(sums[order]) ** 2 / np.where(large, weight, 1.0) - costs, -np.inf)
            place = int(np.argmax(scores))
            if scores[place] > best:
                best = float(scores[place])
                bound = None if place == count - 1 else frozenset(names[order[: place + 1]].tolist())
        return _Found(best, bound)


def _within(values: FloatArray, bound: Bound) -> BoolArray:
    if isinstance(bound, frozenset):
        return np.isin(values, list(bound))
    return np.asarray((values > bound[0]) & (values <= bound[1]))


def _middle(low: float, high: float) -> float:
    """Middle of two numbers, at least the lower and below the higher however close they are."""
    middle = low + (high - low) / 2
    return float(middle if low <= middle < high else low)


@dataclass(frozen=True)
class Feature:
    """A function of a response, minus its regression on x."""

    kind: Kind  # what it sees
    column: int  # which response
    values: RealArray  # n, with mean 0 and variance 1
    label: float = 0.0  # for "share", whose share


def response_features(y: FloatArray, labels: Sequence[bool], smoother: Smoother) -> list[Feature]:
    """Return the functions of every response: of numbers for mean, spread and shape, of labels for their shares."""
    found: list[Feature] = []
    for column, is_label in enumerate(labels):
        if is_label:
            found += _shares(y[:, column], column, smoother)
            continue
        plain, z = _standardised(y[:, column], smoother)
        if not z.any():
            continue
        found += [Feature("mean", column, z), *curved_features(z, column, smoother)]
        # A large change makes the spread around the regression large, and would not stand out in units of that.
        if float(np.mean(z * plain)) < _ALIKE:
            found.append(Feature("mean", column, plain))
    return found


def curved_features(z: RealArray, column: int, smoother: Smoother) -> list[Feature]:
    """Return what sees the spread and the shape of residuals of variance 1.

    The size of a residual tells of the spread as well as its square and is less at the mercy of a few rows. A bump at 0
    without its regression on the residual and its square tells of the shape: several modes, heavier tails.
    """
    peak = np.exp(-2 * z**2)
    lower = np.column_stack([np.ones_like(z), z, z**2])
    peak = peak - lower @ np.linalg.lstsq(lower, peak, rcond=None)[0]
    spread, shape = smoother.residuals(np.column_stack([np.abs(z), peak]))[0].T
    return [Feature("spread", column, _unit(spread)), Feature("shape", column, _unit(shape))]


def _shares(codes: FloatArray, column: int, smoother: Smoother) -> list[Feature]:
    names, sizes = np.unique(codes, return_counts=True)
    # Two labels have one share between them.
    chosen = names[1:] if len(names) == 2 else names[np.argsort(-sizes, kind="stable")][:_MOST_LABELS]
    left = smoother.residuals((codes[:, None] == chosen).astype(np.float64))[0]
    return [Feature("share", column, _unit(left[:, k]), float(name)) for k, name in enumerate(chosen)]


def _standardised(values: FloatArray, smoother: Smoother) -> tuple[RealArray, RealArray]:
    """Numbers minus their regression on x, clipped, and the same in units of the spread that x explains; 0 if none."""
    scaled = values / largest_size(values)
    left = smoother.residuals(scaled[:, None])[0][:, 0]
    # What x explains to the last digits leaves rounding errors, which are no response.
    if left.std() <= _NEGLIGIBLE * scaled.std():
        return np.zeros_like(left), np.zeros_like(left)
    left = left - np.median(left)
    deviation = 1.4826 * float(np.median(np.abs(left))) or float(left.std())
    clipped = np.clip(left / deviation, -_CLIPPED, _CLIPPED)
    # Where the noise is large a row tells less.
    squares = clipped**2
    variance = squares - smoother.residuals(squares[:, None])[0][:, 0]
    z = clipped / np.sqrt(np.maximum(variance, _LEAST_VARIANCE * squares.mean()))
    plain, z = smoother.residuals(np.column_stack([clipped, z]))[0].T
    return _unit(plain), _unit(z)


def _unit(values: RealArray) -> RealArray:
    deviation = float(values.std())
    return np.asarray((values - values.mean()) / deviation if deviation > 0 else np.zeros_like(values))


def box_search(adjustment: Adjustment, rows: BoolArray | slice) -> BoxSearch:
    """Return a search for boxes among some rows."""
    x = adjustment.x[rows]
    n, d = x.shape
    # The variance of a label is a quarter where the samples overlap fully.
    least = max(_SMALLEST_ROWS, _SMALLEST_SHARE * n) / 4
    return BoxSearch(x, adjustment.categorical, penalty=_PENALTY + float(np.log(d)), second=_SECOND, least=least)


@dataclass(frozen=True)
class FoundBox:
    """A box with a change."""

    box: Box  # where, by all rows
    feature: Feature  # the function of y that changed there
    pvalue: float  # for all boxes together
    beyond: RealArray  # n: the function without the changes in the boxes before it
    rows: BoolArray  # n: rows in the box
    by_other_half: BoolArray  # n: rows in the box as the half of the rows that they do not belong to would place it
    tested_on: BoolArray  # n: the half of the rows that it was tested on
    threshold: float  # what the statistic of the test had to exceed, in standard errors
    shared: float  # correlation of that statistic with an estimate by all rows: the root of their share in it


@dataclass(frozen=True)
class _Tested:
    box: Box
    feature: Feature
    pvalue: float
    statistic: float
    threshold: float  # from which on the statistic is significant
    held: BoolArray  # n: rows that it was tested on


def honest_boxes(
    adjustment: Adjustment,
    features: Sequence[Feature],
    *,
    alpha: float,
    max_regions: int,
    n_resamples: int,
    rng: np.random.Generator,
) -> list[FoundBox]:
    """Find boxes in which a function of y changed, most certain first; none if nothing is significant."""
    if not features:
        return []
    halves = _halves(adjustment, rng)
    count = max(1, min(max_regions, _MOST_PROPOSED // len(features)))
    tested: list[_Tested] = []
    for half in (0, 1):
        proposed = [(box, f) for f in features for box in _grown(adjustment, f, halves == half, count)]
        tested += _tested(adjustment, proposed, halves != half, alpha, n_resamples, rng)
    significant = [t for t in tested if t.pvalue <= alpha]
    significant.sort(key=lambda t: (t.pvalue, -t.statistic))
    return _listed(adjustment, significant, features, max_regions)


def _halves(adjustment: Adjustment, rng: np.random.Generator) -> IntArray:
    """Split each sample in two; rows that belong together stay so."""
    units = np.arange(len(adjustment.labels)) if adjustment.propensity.units is None else adjustment.propensity.units
    halves = np.empty(int(units.max()) + 1, np.int64)
    for group in (0, 1):
        own = rng.permutation(np.unique(units[adjustment.labels == group]))
        halves[own] = np.arange(len(own)) % 2
    return np.asarray(halves[units])


def _grown(adjustment: Adjustment, feature: Feature, rows: BoolArray, count: int) -> list[Box]:
    """Grow boxes one after the other, each on what the ones before it leave."""
    search = box_search(adjustment, rows)
    u, w = adjustment.surprise[rows], adjustment.weights[rows]
    s, v = w * u * feature.values[rows], w * u**2
    found = []
    for _ in range(count):
        box, score = search.best(s, v)
        if score < _LEAST_SCORE:
            break
        found.append(box)
        inside = box.holds(search.x)
        s = s - np.where(inside, s[inside].sum() / v[inside].sum() * v, 0.0)
    return found


def _tested(
    adjustment: Adjustment,
    proposed: list[tuple[Box, Feature]],
    held: BoolArray,
    alpha: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> list[_Tested]:
    """Compare the contrast of each box on rows that were held back with the largest of all under redrawn labels."""
    if not proposed:
        return []
    inside = [held & box.holds(adjustment.x) for box, _ in proposed]
    functions = [
        np.where(rows, adjustment.weights * f.values, 0.0) for rows, (_, f) in zip(inside, proposed, strict=True)
    ]
    values = np.abs(_under_redrawn(adjustment, np.column_stack(functions), n_resamples, rng))
    largest = values[:, 1:].max(axis=0)
    chances = [(1 + np.sum(largest >= value - _TIE)) / (1 + n_resamples) for value in values[:, 0]]
    # So many of the largest values may reach a statistic whose p-value, twice its chance, is at most alpha.
    reaching = max(int(alpha * (1 + n_resamples) / 2 + _TIE) - 1, 0)
    threshold = float(np.sort(largest)[::-1][reaching])
    return [
        _Tested(box, feature, float(min(1.0, 2 * chance)), float(value), threshold, held)
        for (box, feature), chance, value in zip(proposed, chances, values[:, 0], strict=True)
    ]


def _under_redrawn(
    adjustment: Adjustment, functions: FloatArray, n_resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Return sums of surprises times each function (rows), for labels as given and redrawn, in deviations of all.

    Probabilities are fitted to redrawn labels too, to first order, as in `Propensity.surprises`. A fit is a projection
    of the labels, so that it can be taken from the functions instead, once for all draws.
    """
    propensity, p = adjustment.propensity, adjustment.propensity.probabilities[:, 1]
    first: IntArray | slice = slice(None)
    if propensity.units is not None:
        clusters = ClusterMeans(propensity.units)
        first, functions = clusters.first, np.asarray(clusters.sums @ functions)
    refitted = functions
    with one_blas_thread():
        if propensity._fits:
            (fit,) = propensity._fits
            shift = fit.shift(lambda rows: fit.variances[rows, None] * functions[rows])
            terms = over_rows(lambda rows: fit.design.terms(rows) @ shift, len(p))
            refitted = functions - np.concatenate(list(terms))
        sums = [(adjustment.labels[first] - p)[None] @ functions]
        draw, batch = independent_draws(propensity.probabilities, rng), max(1, _DRAWN_FLOATS // len(p))
        for start in range(0, n_resamples, batch):
            sums.append(draw(min(batch, n_resamples - start)) @ refitted - p @ refitted)
    values = np.vstack(sums).T
    deviation = values.std(axis=1, keepdims=True)
    return np.asarray(values / np.where(deviation > 0, deviation, 1.0))


def _listed(
    adjustment: Adjustment, significant: list[_Tested], features: Sequence[Feature], max_regions: int
) -> list[FoundBox]:
    """Place bounds by all rows, and leave out what the regions before it explain."""
    search = box_search(adjustment, slice(None))
    u, w = adjustment.surprise, adjustment.weights
    v = w * u**2
    kept: list[tuple[FoundBox, BoolArray]] = []
    for tested in significant:
        if len(kept) == max_regions:
            break
        beyond = _unexplained(adjustment, tested.feature, features, [rows for _, rows in kept])
        s = w * u * beyond
        inside = tested.held & tested.box.holds(adjustment.x)
        noise = float(np.sqrt(((w * u * tested.feature.values)[inside] ** 2).sum()))
        if kept and abs(s[inside].sum()) < _STILL_THERE * noise:
            continue
        box, rows = _placed(search, tested.box, s, v)
        if all(_shared(rows, other) < _SAME for _, other in kept):
            by_other_half = _placed_by_halves(adjustment, tested, s, v)
            of_both = v[inside & rows].sum() / np.sqrt(v[inside].sum() * v[rows].sum())
            found = FoundBox(
                box,
                tested.feature,
                tested.pvalue,
                beyond,
                rows,
                by_other_half,
                tested.held,
                tested.threshold,
                min(float(of_both), _MOST_SHARED),
            )
            kept.append((found, rows))
    return [found for found, _ in kept]


def _placed_by_halves(adjustment: Adjustment, tested: _Tested, s: FloatArray, v: FloatArray) -> BoolArray:
    """Return which rows lie in the box as the other half of the rows places it, so that no row has a say in its own."""
    inside = np.zeros(len(s), bool)
    for rows in (tested.held, ~tested.held):
        box, _ = _placed(box_search(adjustment, rows), tested.box, s[rows], v[rows])
        inside |= ~rows & box.holds(adjustment.x)
    return inside


def _placed(search: BoxSearch, box: Box, s: FloatArray, v: FloatArray) -> tuple[Box, BoolArray]:
    """Place the bounds of a box anew: the best of all boxes, or the one that its own bounds lead to."""
    own = box.holds(search.x)
    tried = sorted((search.best(s, v), search.refined(box, s, v)), key=lambda pair: -pair[1])
    for better, _ in tried:
        rows = better.holds(search.x)
        # Within the box that was tested, or around it: another place has not been tested.
        if (rows & own).sum() >= _SAME * min(rows.sum(), own.sum()):
            return better, rows
    return box, own


def _unexplained(
    adjustment: Adjustment, feature: Feature, features: Sequence[Feature], regions: list[BoolArray]
) -> RealArray:
    """Return a function of y without the changes in the regions that are listed already."""
    if feature.kind in ("spread", "shape") and regions:
        # A change of the mean is not one of the spread: residuals are taken about the means of either sample.
        mean = next(f for f in features if f.kind == "mean" and f.column == feature.column)
        z = _without(adjustment, mean.values, regions)
        feature = next(f for f in curved_features(z, feature.column, adjustment.smoother) if f.kind == feature.kind)
    return _without(adjustment, feature.values, regions)


def _without(adjustment: Adjustment, values: RealArray, regions: list[BoolArray]) -> RealArray:
    u, w = adjustment.surprise, adjustment.weights
    left = values.copy()
    for rows in regions:
        effect = (w * u * left)[rows].sum() / (w * u**2)[rows].sum()
        left[rows] -= effect * u[rows]
    return left


@dataclass(frozen=True)
class MeanSteps:
    """By how much the mean of a response changed in boxes with sharp bounds, which smooth regressions cannot follow.

    For the size of a change, boxes and heights are those of one half of the rows, for the rows of the other: no row has
    a say in its own. What is to be taken off a response before its spread is measured is better known from all rows.
    """

    heights: FloatArray  # n: the change at each row, by the other half
    inside: FloatArray  # n x boxes: rows of the other half that lie in each box
    by_all: FloatArray  # n: the change at each row, by all rows


def mean_steps(adjustment: Adjustment, values: FloatArray, rng: np.random.Generator) -> MeanSteps:
    """Find the boxes in which the mean of a response changed most, tested or not, on either half of the rows."""
    unit = largest_size(values)
    plain, _ = _standardised(values, adjustment.smoother)
    left = adjustment.smoother.residuals(values[:, None] / unit)[0][:, 0]
    halves = _halves(adjustment, rng)
    heights, inside = np.zeros(len(values)), []
    for half in (0, 1):
        choosing = halves == half
        for box, height in _steps(adjustment, plain, left, choosing):
            rows = ~choosing & box.holds(adjustment.x)
            heights[rows] += unit * height
            inside.append(rows)
    by_all = np.zeros(len(values))
    for box, height in _steps(adjustment, plain, left, np.ones(len(values), bool)):
        by_all[box.holds(adjustment.x)] += unit * height
    return MeanSteps(heights, np.array(inside, dtype=np.float64).reshape(-1, len(values)).T, by_all)


def _steps(adjustment: Adjustment, plain: RealArray, left: RealArray, rows: BoolArray) -> list[tuple[Box, float]]:
    """Grow boxes on what is left of a response in some rows, one after the other, with the change in each."""
    search = box_search(adjustment, rows)
    u, w = adjustment.surprise[rows], adjustment.weights[rows]
    v = w * u**2
    # Contrasts s, whose mean is the change times the mean of v: of clipped residuals to choose, of plain ones to size.
    to_choose, to_size = w * u * plain[rows], w * u * left[rows]
    found = []
    for _ in range(_MOST_STEPS):
        box, score = search.best(to_choose, v)
        if score < _LEAST_SCORE:
            break
        inside = box.holds(search.x)
        weight = v[inside].sum()
        found.append((box, float(to_size[inside].sum() / weight)))
        for contrasts in (to_choose, to_size):
            contrasts[inside] -= contrasts[inside].sum() / weight * v[inside]
    return found


def _shared(a: BoolArray, b: BoolArray) -> float:
    """Rows in both, as a share of those in either."""
    return float((a & b).sum() / max(1, (a | b).sum()))


Quantity = Literal["mean", "spread", "share"]


@dataclass(frozen=True)
class Change(Printable):
    """One thing that y did in a region, before and now, in y's own units.

    Attributes
    ----------
    quantity : {"mean", "spread", "share"}
        The mean, the standard deviation about the regression on x, or the share of a label.
    column : str
        Which response.
    label : str or None
        For a share, whose.
    before, now : Estimate
        In the first and in the second sample, for the same inputs: value, low and high.
    change : Estimate
        Now minus before; for a spread, now divided by before.
    """

    quantity: Quantity
    column: str
    label: str | None
    before: Estimate
    now: Estimate
    change: Estimate

    @property
    def words(self) -> str:
        """What it is."""
        return (
            f"share of {self.column} = {self.label}" if self.quantity == "share" else f"{self.quantity} {self.column}"
        )

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the change leaves out that there is none."""
        none = 1.0 if self.quantity == "spread" else 0.0
        return not self.change.low <= none <= self.change.high


class RegionEffects:
    """Averages of one response, or of the indicator of a label, in any region."""

    def __init__(self, adjustment: Adjustment, values: FloatArray) -> None:
        self.unit = largest_size(values)
        scaled = values / self.unit
        # Each row is left out of its own fit, which would take a part of the difference along. At a row far from all
        # others such a fit may be anything.
        fitted = scaled - adjustment.smoother.residuals(scaled[:, None])[1][:, 0]
        self.fitted = np.clip(fitted, scaled.min(), scaled.max())
        self.left = scaled - self.fitted
        e = adjustment.propensity.of_rows[:, 1]
        self.common = adjustment.weights * e * (1 - e)
        self.balance = adjustment.weights * np.where(adjustment.labels == 1, 1 - e, e)
        self.labels, self.units = adjustment.labels, adjustment.propensity.units

    def mean(self, column: str, found: FoundBox, label: str | None = None, *, selected: bool) -> Change:
        """Return the mean, or the share of a label; `selected` says whether the box was found by it."""
        kind: Quantity = "mean" if label is None else "share"
        level = float(np.average(self.fitted[found.rows], weights=_positive(self.common[found.rows])))
        before, now, change = self._estimates(found, self._average, level, selected=selected)
        if label is not None:
            return Change(kind, column, label, within(before, 0, 1), within(now, 0, 1), within(change, -1, 1))
        return Change(kind, column, None, *(in_units(e, self.unit) for e in (before, now, change)))

    def spread(self, column: str, found: FoundBox, *, selected: bool) -> Change:
        """Return the standard deviation about the regression, with intervals on the scale of its logarithm."""
        before, now, change = (
            Estimate(math.exp(e.value), math.exp(e.low), math.exp(e.high), e.confidence_level)
            for e in self._estimates(found, self._log_deviation, 0.0, selected=selected)
        )
        return Change("spread", column, None, in_units(before, self.unit), in_units(now, self.unit), change)

    def _average(self, rows: BoolArray, group: int) -> tuple[float, float]:
        """Return the mean of what the regression leaves in one sample, and its standard error."""
        own, left, weights = self._group(rows, group)
        average = float(np.average(left, weights=weights))
        variance = self._square(own, weights * (left - average)) / weights.sum() ** 2
        return average, float(np.sqrt(variance * _small_sample(weights)))

    def _log_deviation(self, rows: BoolArray, group: int) -> tuple[float, float]:
        """Return the logarithm of the standard deviation in one sample, and its standard error."""
        own, left, weights = self._group(rows, group)
        squares = (left - np.average(left, weights=weights)) ** 2
        variance = max(float(np.average(squares, weights=weights)), np.finfo(float).tiny)
        error = np.sqrt(self._square(own, weights * (squares - variance))) / (2 * variance * weights.sum())
        return 0.5 * float(np.log(variance * _small_sample(weights))), float(error)

    def _group(self, rows: BoolArray, group: int) -> tuple[BoolArray, FloatArray, FloatArray]:
        own = rows & (self.labels == group)
        return own, self.left[own], _positive(self.balance[own])

    def _square(self, rows: BoolArray, terms: FloatArray | IntArray) -> float:
        """Sum the squares of independent terms: those of rows, or their sums over clusters."""
        if self.units is not None:
            terms = np.bincount(self.units[rows], weights=terms)
        return float((terms**2).sum())

    def _estimates(
        self, found: FoundBox, measured: Measured, level: float, *, selected: bool
    ) -> tuple[Estimate, Estimate, Estimate]:
        """Return what was before, what is now, and the difference.

        Bounds placed by the same rows make the difference too large, bounds placed by half of the rows too small: the
        estimate is the middle of both, the interval reaches from the lower end of the second to the upper end of the
        first. What the difference loses is taken off both levels, by their part in its variance.
        """
        (first, first_error), (second, second_error) = (measured(found.rows, group) for group in (0, 1))
        error = math.hypot(first_error, second_error)
        by_placing_rows = second - first, error
        by_other_rows = self._by_halves(found, measured) or by_placing_rows
        if selected:
            # Listed because a test of this difference was significant.
            correct = partial(
                after_selection, correlation=found.shared, threshold=found.threshold, confidence_level=REGION_LEVEL
            )
            change = _between(correct(*by_other_rows), correct(*by_placing_rows))
        else:
            change = _between(*(around(v, _NORMAL * e, REGION_LEVEL) for v, e in (by_other_rows, by_placing_rows)))
        surplus = second - first - change.value
        of_second = second_error**2 / error**2 if error > 0 else 0.5
        return (
            around(level + first + (1 - of_second) * surplus, _NORMAL * first_error, REGION_LEVEL),
            around(level + second - of_second * surplus, _NORMAL * second_error, REGION_LEVEL),
            change,
        )

    def _by_halves(self, found: FoundBox, measured: Measured) -> tuple[float, float] | None:
        """Return the difference, and its error, in the box as placed by rows that it is not measured on.

        None where neither half has enough rows for an estimate.
        """
        differences, variances, weights = [], [], []
        for half in (found.tested_on, ~found.tested_on):
            rows = half & found.by_other_half
            if min(np.bincount(self.labels[rows], minlength=2)) < _FEWEST_OF_EACH:
                continue
            (first, first_error), (second, second_error) = (measured(rows, group) for group in (0, 1))
            differences.append(second - first)
            variances.append(first_error**2 + second_error**2)
            weights.append(float(_positive(self.common[rows]).sum()))
        if not weights:
            return None
        shares = np.array(weights) / np.sum(weights)
        return float(shares @ differences), float(np.sqrt(shares**2 @ variances))


Measured = Callable[[BoolArray, int], tuple[float, float]]
"""Takes rows and a sample, and returns a value of the sample there with its standard error."""


def _between(honest: Estimate, apparent: Estimate) -> Estimate:
    """Return the middle of two estimates, and the interval from the lower end of the first to the upper of the second.

    Up is where the apparent one lies.
    """
    sign = -1.0 if apparent.value < 0 else 1.0
    ends = [(sign * e.low, sign * e.high) if sign > 0 else (sign * e.high, sign * e.low) for e in (honest, apparent)]
    low, high = ends[0][0], max(end for _, end in ends)
    value = min(max(sign * (honest.value + apparent.value) / 2, low), high)
    low, high = sorted((sign * low, sign * high))
    return Estimate(sign * value, low, high, apparent.confidence_level)


def _positive(weights: FloatArray) -> FloatArray:
    """Weights, or ones where all are 0: rows of a label that only one sample has."""
    return weights if weights.sum() > 0 else np.ones_like(weights)


def _small_sample(weights: FloatArray) -> float:
    rows = weights.sum() ** 2 / (weights**2).sum()
    return float(rows / (rows - 1)) if rows > 1.5 else 3.0
