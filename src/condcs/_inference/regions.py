"""Honest regions: where the relation of y to x changed, found on some rows and tested on the others.

A row's contrast is u r: u its label minus the label's probability given x, r a function of y minus its regression on x
(on the pool, without labels). Its mean is 0 wherever p(y|x) is the same in both samples, whatever x does. On either
half of the rows boxes of x are grown in which the contrasts are largest; on the other half the contrast of each box is
compared with the largest of all boxes under redrawn labels. Two halves are two looks, so p-values are doubled. What is
significant has its bounds placed anew by all rows: that there is a change is tested on rows that had no part in finding
the box; where exactly it ends is an estimate from all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray, RealArray
from condcs._core.settings import one_blas_thread
from condcs._inference.adjustment import Adjustment
from condcs._inference.box_search import Box, BoxSearch
from condcs._inference.propensities import independent_draws
from condcs._inference.response_features import Feature, curved_features, standardised
from condcs._parallel.many_rows import over_rows
from condcs._regression.ridge import ClusterMeans
from condcs._regression.standardised import largest_size

_PENALTY, _SECOND = 7.0, 2.5
"""Gain that the first bound of a column must bring beside the logarithm of the number of columns, and a second one, in
units of the noise."""
_SMALLEST_ROWS, _SMALLEST_SHARE = 12, 0.02
"""Rows of a box, and their share of all, at least: fewer are outliers, whose contrasts are no mean of anything."""
_LEAST_SCORE = 3.0
"""Gain beyond its penalties from which on a box is proposed: each is a further look, which weakens the test of all."""
_MOST_PROPOSED = 12
"""Boxes of either half that are tested together: with more, the largest of all under the null hides a true one."""
_MOST_STEPS = 4
"""Boxes of `mean_steps`: each costs a search on either half and on all rows."""
_SAME = 0.5
"""Part of the rows that two boxes share from which on they are one region."""
_STILL_THERE = 2.5
"""Standard errors of a contrast that a region must keep beside the regions listed before it."""
_DRAWN_FLOATS = 2**24
"""Redrawn labels in memory at once: 128 MB."""
_MOST_SHARED = 0.9
"""Largest correlation of a test with an estimate: by the same rows in the same box it was .92, because tests see
residuals that are clipped and in units of their local spread."""
_TIE = 1e-10
"""Difference, in standard deviations, below which a statistic and a redrawn one are equal but for rounding."""


def box_search(adjustment: Adjustment, rows: BoolArray | slice) -> BoxSearch:
    """Return a search for boxes among some rows."""
    x = adjustment.x[rows]
    n, d = x.shape
    # The variance of a label is a quarter where the samples overlap fully.
    least = max(_SMALLEST_ROWS, _SMALLEST_SHARE * n) / 4
    return BoxSearch(x, adjustment.categorical, penalty=_PENALTY + float(np.log(d)), second=_SECOND, least=least)


@dataclass(frozen=True)
class FoundBox:
    """A box with a change that is significant."""

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
    """A box that was grown on one half of the rows and tested on the other."""

    box: Box
    feature: Feature
    pvalue: float  # for all boxes together
    statistic: float  # the contrast, without its sign, in standard errors
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
        shuffled = rng.permutation(np.unique(units[adjustment.labels == group]))
        halves[shuffled] = np.arange(len(shuffled)) % 2
    return np.asarray(halves[units])


def _grown(adjustment: Adjustment, feature: Feature, rows: BoolArray, count: int) -> list[Box]:
    """Grow boxes one after the other on some rows, each after the changes in the earlier ones have been subtracted."""
    search = box_search(adjustment, rows)
    u, w = adjustment.surprise[rows], adjustment.weights[rows]
    s, v = w * u * feature.values[rows], w * u**2  # contrasts and their weights, each (rows,)
    boxes = []
    for _ in range(count):
        box, score = search.best(s, v)
        if score < _LEAST_SCORE:
            break
        boxes.append(box)
        inside = box.holds(search.x)
        change = s[inside].sum() / v[inside].sum()
        s = s - np.where(inside, change * v, 0.0)
    return boxes


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
    # For each box the weighted function of y, 0 outside: its sum with the surprises is the contrast of the box.
    functions = []
    for box, feature in proposed:
        inside = held & box.holds(adjustment.x)
        functions.append(np.where(inside, adjustment.weights * feature.values, 0.0))
    values = np.abs(_under_redrawn(adjustment, np.column_stack(functions), n_resamples, rng))
    # (boxes, 1 + n_resamples): the labels as they are first.
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

    Probabilities are fitted to redrawn labels too, to first order, as in
    `Propensity.surprises_by_rows`. A fit is a projection of the labels, so that it can be taken from the functions
    instead, once for all draws.
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
    """Place the bounds of significant boxes by all rows; skip those whose change others before them explain."""
    search = box_search(adjustment, slice(None))
    u, w = adjustment.surprise, adjustment.weights
    v = w * u**2
    listed: list[FoundBox] = []
    for tested in significant:
        if len(listed) == max_regions:
            break
        beyond = _unexplained(adjustment, tested.feature, features, [region.rows for region in listed])
        s = w * u * beyond
        inside = tested.held & tested.box.holds(adjustment.x)
        noise = float(np.sqrt(((w * u * tested.feature.values)[inside] ** 2).sum()))
        if listed and abs(s[inside].sum()) < _STILL_THERE * noise:
            continue
        box, rows = _placed(search, tested.box, s, v)
        if any(_shared(rows, region.rows) >= _SAME for region in listed):
            continue
        # The statistic is a sum over the rows of both; its part in an estimate from all rows is their share.
        of_both = float(v[inside & rows].sum() / np.sqrt(v[inside].sum() * v[rows].sum()))
        listed.append(
            FoundBox(
                box,
                tested.feature,
                tested.pvalue,
                beyond,
                rows,
                by_other_half=_placed_by_halves(adjustment, tested, s, v),
                tested_on=tested.held,
                threshold=tested.threshold,
                shared=min(of_both, _MOST_SHARED),
            )
        )
    return listed


def _placed_by_halves(adjustment: Adjustment, tested: _Tested, s: FloatArray, v: FloatArray) -> BoolArray:
    """Return which rows lie in the box as the other half of the rows places it, so that no row has a say in its own."""
    inside = np.zeros(len(s), bool)
    for rows in (tested.held, ~tested.held):
        box, _ = _placed(box_search(adjustment, rows), tested.box, s[rows], v[rows])
        inside |= ~rows & box.holds(adjustment.x)
    return inside


def _placed(search: BoxSearch, box: Box, s: FloatArray, v: FloatArray) -> tuple[Box, BoolArray]:
    """Place the bounds of a box anew: the best of all boxes, or the one that its own bounds lead to."""
    tested_rows = box.holds(search.x)
    tried = sorted((search.best(s, v), search.refined(box, s, v)), key=lambda pair: -pair[1])
    for better, _ in tried:
        rows = better.holds(search.x)
        # Within the box that was tested, or around it: rows elsewhere have not been tested.
        if (rows & tested_rows).sum() >= _SAME * min(rows.sum(), tested_rows.sum()):
            return better, rows
    return box, tested_rows


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
    """Subtract from a function of y (n) the change in each region, in turn."""
    u, w = adjustment.surprise, adjustment.weights
    remainder = values.copy()
    for rows in regions:
        # Least squares of the contrasts on the surprises, in the region.
        effect = (w * u * remainder)[rows].sum() / (w * u**2)[rows].sum()
        remainder[rows] -= effect * u[rows]
    return remainder


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
    plain, _ = standardised(values, adjustment.smoother)
    residuals = adjustment.smoother.residuals(values[:, None] / unit)[0][:, 0]
    halves = _halves(adjustment, rng)
    heights, inside = np.zeros(len(values)), []
    for half in (0, 1):
        choosing = halves == half
        for box, height in _steps(adjustment, plain, residuals, choosing):
            rows = ~choosing & box.holds(adjustment.x)
            heights[rows] += unit * height
            inside.append(rows)
    by_all = np.zeros(len(values))
    for box, height in _steps(adjustment, plain, residuals, np.ones(len(values), bool)):
        by_all[box.holds(adjustment.x)] += unit * height
    return MeanSteps(heights, np.array(inside, dtype=np.float64).reshape(-1, len(values)).T, by_all)


def _steps(
    adjustment: Adjustment, clipped: RealArray, residuals: RealArray, rows: BoolArray
) -> list[tuple[Box, float]]:
    """Grow boxes on the residuals of a response in some rows, one after the other; return each with its change."""
    search = box_search(adjustment, rows)
    u, w = adjustment.surprise[rows], adjustment.weights[rows]
    v = w * u**2
    # Contrasts s, whose mean is the change times the mean of v: of clipped residuals to choose, of plain ones to size.
    to_choose, to_size = w * u * clipped[rows], w * u * residuals[rows]
    steps = []
    for _ in range(_MOST_STEPS):
        box, score = search.best(to_choose, v)
        if score < _LEAST_SCORE:
            break
        inside = box.holds(search.x)
        weight = v[inside].sum()
        steps.append((box, float(to_size[inside].sum() / weight)))
        for contrasts in (to_choose, to_size):
            contrasts[inside] -= contrasts[inside].sum() / weight * v[inside]
    return steps


def _shared(a: BoolArray, b: BoolArray) -> float:
    """Rows in both, as a share of those in either."""
    return float((a & b).sum() / max(1, (a | b).sum()))
