"""Honest regions: where the relation of y to x changed, found on some rows and tested on the others.

The term of a row is w u r, with w its weight, u its label minus the label's probability given x, and r a function of y
minus its regression on x (on the pool). Its mean is 0 wherever p(y|x) is the same in both samples,
whatever x does. `honest_boxes` takes these steps:

1. Split the rows in two halves.
2. On either half, grow boxes of x in which the terms are largest (`box_search`, with s = w u r and v = w u^2).
3. On the other half, compare the sum of the terms in each box with the largest of all boxes under redrawn labels.
   Two halves are two looks, so p-values are doubled.
4. Place the bounds of significant boxes anew by all rows. That there is a change is tested on rows that had no part in
   growing the box; where exactly it ends is an estimate from all of them.

`boxwise_change` grows boxes in the same way, without a test, for the size of a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray, RealArray
from condcs._core.settings import one_blas_thread
from condcs._inference.adjustment import Adjustment
from condcs._inference.box_search import Box, BoxSearch
from condcs._inference.propensities import independent_draws
from condcs._inference.response_features import Feature, clipped_residuals, curved_features
from condcs._regression.ridge import ClusterMeans
from condcs._regression.standardised import largest_size

_FIRST_BOUND = 7.0
"""Gain that the first bound of a column must bring beside the logarithm of the number of columns, in units of the
noise: that of a sum of terms 2.6 standard errors from 0."""
_SECOND_BOUND = 2.5
"""Gain that the second bound of a column must bring: less, because a column that has one is likely to have two."""
_FEWEST_ROWS = 12
"""Rows of a box at least, where the samples overlap fully: fewer are outliers, whose terms are no mean of
anything."""
_LEAST_SHARE = 0.02
"""The same as a share of the rows that are searched."""
_LEAST_SCORE = 3.0
"""Gain beyond its penalties from which on a box is proposed: each is a further look, which weakens the test of all."""
_MOST_PROPOSED = 12
"""Boxes of either half that are tested together, but one for each function of y at least: with more, the largest of all
under the null hides a true one."""
_MOST_UNTESTED = 4
"""Boxes of `boxwise_change`: each costs a search on either half and on all rows."""
_SAME_REGION = 0.5
"""Part of the rows that two boxes have in common from which on they are one region."""
_LEAST_REMAINING = 2.5
"""Standard errors from 0 at which the sum of the terms in a region must lie once the changes in the regions listed
before have been subtracted."""
_LABELS_IN_MEMORY = 2**24
"""Redrawn labels in memory at once: 128 MB."""
MOST_CORRELATION = 0.9
"""Largest correlation of a test with an estimate: by the same rows in the same box it was .92, because tests see
residuals that are clipped and in units of their local spread."""
_TIE = 1e-10
"""Difference, in standard deviations, below which a statistic and a redrawn one are equal but for rounding."""


def search_among(adjustment: Adjustment, rows: BoolArray | slice) -> BoxSearch:
    """Return a search for boxes among some rows."""
    x = adjustment.x[rows]
    n, d = x.shape
    # The variance of a label is a quarter where the samples overlap fully.
    least_weight = max(_FEWEST_ROWS, _LEAST_SHARE * n) / 4
    return BoxSearch(
        x,
        adjustment.is_category,
        penalty=_FIRST_BOUND + float(np.log(d)),
        second_penalty=_SECOND_BOUND,
        least_weight=least_weight,
    )


@dataclass(frozen=True)
class SignificantBox:
    """A box with a change that is significant, its bounds placed by all rows."""

    box: Box
    feature: Feature  # the function of y that changed there
    pvalue: float  # for all boxes together
    unexplained: RealArray  # (n,): the function without the changes in the boxes listed before
    rows: BoolArray  # (n,): rows in the box
    held_rows: BoolArray  # (n,): rows that it was tested on, in the box as the other half grew it
    threshold: float  # what the statistic of the test had to exceed, in standard errors
    correlation: float  # of that statistic with an estimate by all rows, from what both are sums over


@dataclass(frozen=True)
class _TestedBox:
    """A box that was grown on one half of the rows and tested on the other."""

    box: Box
    feature: Feature
    pvalue: float  # for all boxes together
    statistic: float  # the sum of the terms, without its sign, in standard errors
    threshold: float  # from which on the statistic is significant
    test_rows: BoolArray  # (n,): rows that it was tested on


def honest_boxes(
    adjustment: Adjustment,
    features: Sequence[Feature],
    *,
    alpha: float,
    max_regions: int,
    n_resamples: int,
    rng: np.random.Generator,
) -> list[SignificantBox]:
    """Return boxes in which a function of y changed, most certain first; none if nothing is significant."""
    if not features:
        return []
    halves = _halves(adjustment, rng)
    most = max(1, min(max_regions, _MOST_PROPOSED // len(features)))  # boxes of each feature
    tested: list[_TestedBox] = []
    for half in (0, 1):
        proposed = [(box, f) for f in features for box in _grow_boxes(adjustment, f, halves == half, most)]
        tested += _test_boxes(adjustment, proposed, halves != half, alpha, n_resamples, rng)
    significant = [t for t in tested if t.pvalue <= alpha]
    significant.sort(key=lambda t: (t.pvalue, -t.statistic))
    return _list_regions(adjustment, significant, features, max_regions)


def _halves(adjustment: Adjustment, rng: np.random.Generator) -> IntArray:
    """Split each sample in two, and return the half of each row (n,); rows that belong together stay so."""
    units = np.arange(len(adjustment.labels)) if adjustment.clusters is None else adjustment.clusters
    half_of_unit = np.empty(int(units.max()) + 1, np.int64)
    for sample in (0, 1):
        shuffled = rng.permutation(np.unique(units[adjustment.labels == sample]))
        half_of_unit[shuffled] = np.arange(len(shuffled)) % 2
    return np.asarray(half_of_unit[units])


def _grow_boxes(adjustment: Adjustment, feature: Feature, rows: BoolArray, most: int) -> list[Box]:
    """Grow boxes one after the other on some rows, each after the changes in the earlier ones have been subtracted."""
    search = search_among(adjustment, rows)
    u, w = adjustment.surprise[rows], adjustment.weights[rows]
    s, v = w * u * feature.values[rows], w * u**2  # (rows,) each
    boxes = []
    for _ in range(most):
        box, score = search.best(s, v)
        if score < _LEAST_SCORE:
            break
        boxes.append(box)
        inside = box.holds(search.x)
        change = s[inside].sum() / v[inside].sum()
        s = s - np.where(inside, change * v, 0.0)
    return boxes


def _test_boxes(
    adjustment: Adjustment,
    proposed: list[tuple[Box, Feature]],
    test_rows: BoolArray,
    alpha: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> list[_TestedBox]:
    """Compare the sum of the terms in each box, over rows held back, with the largest of all under redrawn labels."""
    if not proposed:
        return []
    # For each box the weighted function of y, 0 outside: times the surprises, it is the terms.
    functions = []
    for box, feature in proposed:
        inside = test_rows & box.holds(adjustment.x)
        functions.append(np.where(inside, adjustment.weights * feature.values, 0.0))
    # (boxes, 1 + n_resamples): the labels as they are first.
    values = np.abs(_under_redrawn(adjustment, np.column_stack(functions), n_resamples, rng))
    statistics, largest = values[:, 0], values[:, 1:].max(axis=0)  # (boxes,), (n_resamples,)

    # With k of the largest values that reach it, a statistic is significant if 2 (1 + k) / (1 + n_resamples) <= alpha.
    most_reaching = max(int(alpha * (1 + n_resamples) / 2 + _TIE) - 1, 0)
    threshold = float(np.sort(largest)[::-1][most_reaching])
    tested = []
    for (box, feature), statistic in zip(proposed, statistics, strict=True):
        chance = (1 + np.sum(largest >= statistic - _TIE)) / (1 + n_resamples)
        pvalue = float(min(1.0, 2 * chance))
        tested.append(_TestedBox(box, feature, pvalue, float(statistic), threshold, test_rows))
    return tested


def _under_redrawn(
    adjustment: Adjustment, functions: FloatArray, n_resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Return sums of surprises times each function (rows), for labels as given and redrawn, in deviations of all.

    Probabilities are fitted to redrawn labels too, to first order, as in `Propensity.surprises_by_rows`. A fit is a
    projection of the labels, so that it can be taken from the functions instead, once for all draws.
    """
    propensity, p = adjustment.propensity, adjustment.propensity.probabilities[:, 1]
    first: IntArray | slice = slice(None)
    if adjustment.clusters is not None:
        clusters = ClusterMeans(adjustment.clusters)
        first, functions = clusters.first_rows, np.asarray(clusters.sums @ functions)
    with one_blas_thread():
        refitted = propensity.net_of_refit(functions)
        sums = [(adjustment.labels[first] - p)[None] @ functions]
        draw, batch = independent_draws(propensity.probabilities, rng), max(1, _LABELS_IN_MEMORY // len(p))
        for start in range(0, n_resamples, batch):
            sums.append(draw(min(batch, n_resamples - start)) @ refitted - p @ refitted)
    values = np.vstack(sums).T
    deviation = values.std(axis=1, keepdims=True)
    return np.asarray(values / np.where(deviation > 0, deviation, 1.0))


def _list_regions(
    adjustment: Adjustment, significant: list[_TestedBox], features: Sequence[Feature], max_regions: int
) -> list[SignificantBox]:
    """Place the bounds of significant boxes by all rows; skip those whose change others before them explain."""
    search = search_among(adjustment, slice(None))
    u, w = adjustment.surprise, adjustment.weights
    v = w * u**2  # (n,)
    regions: list[SignificantBox] = []
    for tested in significant:
        if len(regions) == max_regions:
            break
        unexplained = _unexplained(adjustment, tested.feature, features, [region.rows for region in regions])
        s = w * u * unexplained  # (n,)
        inside = tested.test_rows & tested.box.holds(adjustment.x)
        standard_error = float(np.sqrt(((w * u * tested.feature.values)[inside] ** 2).sum()))
        if regions and abs(s[inside].sum()) < _LEAST_REMAINING * standard_error:
            continue
        box, rows = _place_bounds(search, tested.box, s, v)
        if any(_jaccard(rows, region.rows) >= _SAME_REGION for region in regions):
            continue
        # The test is a sum over `inside`, an estimate one over `rows`: what both have in common correlates them.
        correlation = float(v[inside & rows].sum() / np.sqrt(v[inside].sum() * v[rows].sum()))
        regions.append(
            SignificantBox(
                box,
                tested.feature,
                tested.pvalue,
                unexplained,
                rows,
                held_rows=inside,
                threshold=tested.threshold,
                correlation=min(correlation, MOST_CORRELATION),
            )
        )
    return regions


def _place_bounds(search: BoxSearch, box: Box, s: FloatArray, v: FloatArray) -> tuple[Box, BoolArray]:
    """Place the bounds of a box by the rows of a search, and return it with those of its rows.

    It becomes the best of all boxes, or the one that its own bounds lead to, whichever has the higher score; and stays
    as it is if both are elsewhere, where nothing has been tested.
    """
    rows_of_box = box.holds(search.x)
    candidates = [search.best(s, v), search.refined(box, s, v)]
    candidates.sort(key=lambda candidate: -candidate.score)
    for candidate, _ in candidates:
        rows = candidate.holds(search.x)
        # Within the box, or around it.
        if (rows & rows_of_box).sum() >= _SAME_REGION * min(rows.sum(), rows_of_box.sum()):
            return candidate, rows
    return box, rows_of_box


def _unexplained(
    adjustment: Adjustment, feature: Feature, features: Sequence[Feature], regions: list[BoolArray]
) -> RealArray:
    """Return a function of y (n,) without the changes in the regions that are listed already."""
    if feature.kind in ("spread", "shape") and regions:
        # A change of the mean is not one of the spread: residuals are taken about the means of either sample.
        mean = next(f for f in features if f.kind == "mean" and f.column == feature.column)
        residuals = _without_changes(adjustment, mean.values, regions)
        curved = curved_features(residuals, feature.column, adjustment.smoother)
        feature = next(f for f in curved if f.kind == feature.kind)
    return _without_changes(adjustment, feature.values, regions)


def _without_changes(adjustment: Adjustment, values: RealArray, regions: list[BoolArray]) -> RealArray:
    """Subtract from a function of y (n,) the change in each region, in turn."""
    u, w = adjustment.surprise, adjustment.weights
    remainder = values.copy()
    for rows in regions:
        # Weighted least squares of the function on the surprises, in the region: sum(w u r) / sum(w u^2).
        change = (w * u * remainder)[rows].sum() / (w * u**2)[rows].sum()
        remainder[rows] -= change * u[rows]
    return remainder


def _jaccard(a: BoolArray, b: BoolArray) -> float:
    """Rows in both, as a share of those in either."""
    return float((a & b).sum() / max(1, (a | b).sum()))


@dataclass(frozen=True)
class BoxwiseChange:
    """By how much the mean of a response changed in boxes with sharp bounds, which smooth regressions cannot follow.

    For the size of a change, boxes and heights are those of one half of the rows, for the rows of the other: no row has
    a say in its own. What is to be taken off a response before its spread is measured is better known from all rows.
    """

    by_other_half: FloatArray  # (n,): the change at each row, by the half that it is not part of
    boxes: FloatArray  # (n, boxes): 1 for the rows that lie in a box of the other half
    by_all_rows: FloatArray  # (n,): the change at each row

    def of_rows(self, rows: IntArray) -> BoxwiseChange:
        """Return the change at some rows."""
        return BoxwiseChange(self.by_other_half[rows], self.boxes[rows], self.by_all_rows[rows])


def boxwise_change(adjustment: Adjustment, values: FloatArray, rng: np.random.Generator) -> BoxwiseChange:
    """Grow the boxes in which the mean of a response (n,) changed most, tested or not, and measure the changes."""
    unit = largest_size(values)
    clipped = clipped_residuals(values, adjustment.smoother).plain
    residuals = adjustment.smoother.residuals(values[:, None] / unit).in_sample[:, 0]
    halves = _halves(adjustment, rng)
    by_other_half, boxes = np.zeros(len(values)), []
    for half in (0, 1):
        chosen_by = halves == half
        for box, height in _sized_boxes(adjustment, clipped, residuals, chosen_by):
            rows = ~chosen_by & box.holds(adjustment.x)
            by_other_half[rows] += unit * height
            boxes.append(rows)
    by_all_rows = np.zeros(len(values))
    for box, height in _sized_boxes(adjustment, clipped, residuals, np.ones(len(values), bool)):
        by_all_rows[box.holds(adjustment.x)] += unit * height
    return BoxwiseChange(by_other_half, np.array(boxes, dtype=np.float64).reshape(-1, len(values)).T, by_all_rows)


class _SizedBox(NamedTuple):
    """A box, and by how much the mean of a response changed in it beyond the boxes before."""

    box: Box
    height: float


def _sized_boxes(adjustment: Adjustment, clipped: RealArray, residuals: RealArray, rows: BoolArray) -> list[_SizedBox]:
    """Grow boxes on some rows, one after the other, by clipped residuals (n,), and measure each by unclipped ones."""
    search = search_among(adjustment, rows)
    u, w = adjustment.surprise[rows], adjustment.weights[rows]
    v = w * u**2  # (rows,)
    to_choose, to_measure = w * u * clipped[rows], w * u * residuals[rows]  # (rows,) each
    boxes = []
    for _ in range(_MOST_UNTESTED):
        box, score = search.best(to_choose, v)
        if score < _LEAST_SCORE:
            break
        inside = box.holds(search.x)
        weight = v[inside].sum()
        boxes.append(_SizedBox(box, float(to_measure[inside].sum() / weight)))
        for s in (to_choose, to_measure):
            s[inside] -= s[inside].sum() / weight * v[inside]
    return boxes
