"""Honest regions: where the relation of y to x changed, found on some rows and tested on the others.

A row's contrast is u r: u its label minus the label's probability given x, r a function of y minus its regression on x
(on the pool, without labels). Its mean is 0 wherever p(y|x) is the same in both samples, whatever x does. On either
half of the rows boxes of x are grown in which the contrasts are largest (`boxes`); on the other half the contrast of
each box is compared with the largest of all boxes under redrawn labels. Two halves are two looks, so p-values are
doubled. What is significant has its bounds placed anew by all rows: that there is a change is tested on rows that had
no part in finding the box; where exactly it ends is an estimate from all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from condcs._core.thread_limit import one_blas_thread
from condcs._inference.boxes import Box, BoxSearch
from condcs._inference.propensities import Propensity, chosen_propensity
from condcs._inference.smoothing import Smoother

FloatArray = np.ndarray[Any, Any]
Rows = np.ndarray[Any, Any]
Kind = Literal["mean", "spread", "shape", "share"]

_PENALTY, _SECOND = 7.0, 2.5
"""Gain that the first bound of a column must bring beside the logarithm of the number of columns, and a second one, in
units of the noise."""
_SMALLEST_ROWS, _SMALLEST_SHARE = 12, 0.02
_LEAST_SCORE = 3.0
_MOST_PROPOSED = 12
_SAME = 0.5
_STILL_THERE = 2.5
_DRAWN_FLOATS = 2**24
_TIE = 1e-10
_CLIPPED = 3.0
_LEAST_VARIANCE = 0.1
_NEGLIGIBLE = 1e-9
_MOST_LABELS = 8


@dataclass(frozen=True)
class Feature:
    """A function of a response, minus its regression on x.

    Attributes
    ----------
    kind : {"mean", "spread", "shape", "share"}
        What it sees.
    column : int
        Which response.
    values : array, shape (n,)
        With mean 0 and variance 1.
    label : float
        For "share", whose share.
    """

    kind: Kind
    column: int
    values: FloatArray
    label: float = 0.0


def response_features(y: FloatArray, labels: Sequence[bool], smoother: Smoother) -> list[Feature]:
    """Return the functions of every response: of numbers for mean, spread and shape, of labels for their shares."""
    found: list[Feature] = []
    for column, is_label in enumerate(labels):
        if is_label:
            found += _shares(y[:, column], column, smoother)
            continue
        z = _standardised(y[:, column], smoother)
        if z.any():
            found += [Feature("mean", column, z), *curved_features(z, column, smoother)]
    return found


def curved_features(z: FloatArray, column: int, smoother: Smoother) -> list[Feature]:
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


def _standardised(values: FloatArray, smoother: Smoother) -> FloatArray:
    """Numbers minus their regression on x, clipped, in units of the spread that x explains; 0 if nothing is left."""
    scaled = values / max(float(np.abs(values).max()), np.finfo(float).tiny)
    left = smoother.residuals(scaled[:, None])[0][:, 0]
    # What x explains to the last digits leaves rounding errors, which are no response.
    if left.std() <= _NEGLIGIBLE * scaled.std():
        return np.zeros_like(left)
    left = left - np.median(left)
    deviation = 1.4826 * float(np.median(np.abs(left))) or float(left.std())
    clipped = np.clip(left / deviation, -_CLIPPED, _CLIPPED)
    # Where the noise is large a row tells less.
    squares = clipped**2
    variance = squares - smoother.residuals(squares[:, None])[0][:, 0]
    z = clipped / np.sqrt(np.maximum(variance, _LEAST_VARIANCE * squares.mean()))
    return _unit(smoother.residuals(z[:, None])[0][:, 0])


def _unit(values: FloatArray) -> FloatArray:
    deviation = float(values.std())
    return np.asarray((values - values.mean()) / deviation if deviation > 0 else np.zeros_like(values))


@dataclass(frozen=True)
class Ground:
    """The rows of both samples, and what is known about their labels.

    Attributes
    ----------
    x : array, shape (n, d)
        Inputs, labels coded as numbers.
    categorical : tuple of bool
        Which columns are labels.
    labels : array of int, shape (n,)
        Which sample a row is from, 0 or 1.
    weights : array, shape (n,)
        How much a row counts: in each sample, the mean is 1.
    smoother : Smoother
        For regressions on x.
    propensity : Propensity
        P(sample | x).
    """

    x: FloatArray
    categorical: tuple[bool, ...]
    labels: Rows
    weights: FloatArray
    smoother: Smoother
    propensity: Propensity

    @classmethod
    def of(
        cls,
        x: FloatArray,
        categorical: Sequence[bool],
        sizes: tuple[int, int],
        rng: np.random.Generator,
        *,
        weights: FloatArray | None = None,
        clusters: Rows | None = None,
        propensity: Any = None,
    ) -> Ground:
        """Fit what is not given; the rows of the first sample come first."""
        labels = np.repeat([0, 1], sizes)
        smoother = Smoother(x, categorical, clusters)
        found = chosen_propensity(propensity, x, smoother, clusters, labels, 2, rng)
        if weights is None:
            weights = np.ones(len(x))
        else:
            # Each sample may have a unit of its own.
            weights = weights / np.array([weights[labels == group].mean() for group in (0, 1)])[labels]
        return cls(x, tuple(categorical), labels, weights, smoother, found)

    @property
    def surprise(self) -> FloatArray:
        """Label minus its probability."""
        return np.asarray(self.labels - self.propensity.of_rows[:, 1])

    def search(self, rows: Rows | slice) -> BoxSearch:
        """Return a search among some rows."""
        x = self.x[rows]
        n, d = x.shape
        # The variance of a label is a quarter where the samples overlap fully.
        least = max(_SMALLEST_ROWS, _SMALLEST_SHARE * n) / 4
        return BoxSearch(x, self.categorical, penalty=_PENALTY + float(np.log(d)), second=_SECOND, least=least)


@dataclass(frozen=True)
class FoundBox:
    """A box with a change.

    Attributes
    ----------
    box : Box
        Where.
    feature : Feature
        The function of y that changed there.
    p_value : float
        For all boxes together.
    beyond : array, shape (n,)
        The function without the changes in the boxes before it.
    """

    box: Box
    feature: Feature
    p_value: float
    beyond: FloatArray


@dataclass(frozen=True)
class _Tested:
    box: Box
    feature: Feature
    p_value: float
    statistic: float
    held: Rows


def honest_boxes(
    ground: Ground,
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
    halves = _halves(ground, rng)
    count = max(1, min(max_regions, _MOST_PROPOSED // len(features)))
    tested: list[_Tested] = []
    for half in (0, 1):
        proposed = [(box, f) for f in features for box in _grown(ground, f, halves == half, count)]
        tested += _tested(ground, proposed, halves != half, n_resamples, rng)
    significant = [t for t in tested if t.p_value <= alpha]
    significant.sort(key=lambda t: (t.p_value, -t.statistic))
    return _listed(ground, significant, features, max_regions)


def _halves(ground: Ground, rng: np.random.Generator) -> Rows:
    """Split each sample in two; rows that belong together stay so."""
    units = np.arange(len(ground.labels)) if ground.propensity.units is None else ground.propensity.units
    halves = np.empty(int(units.max()) + 1, np.int64)
    for group in (0, 1):
        own = rng.permutation(np.unique(units[ground.labels == group]))
        halves[own] = np.arange(len(own)) % 2
    return np.asarray(halves[units])


def _grown(ground: Ground, feature: Feature, rows: Rows, count: int) -> list[Box]:
    """Grow boxes one after the other, each on what the ones before it leave."""
    search = ground.search(rows)
    u, w = ground.surprise[rows], ground.weights[rows]
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
    ground: Ground,
    proposed: list[tuple[Box, Feature]],
    held: Rows,
    n_resamples: int,
    rng: np.random.Generator,
) -> list[_Tested]:
    """Compare the contrast of each box on rows that were held back with the largest of all under redrawn labels."""
    if not proposed:
        return []
    inside = [held & box.holds(ground.x) for box, _ in proposed]
    functions = [np.where(rows, ground.weights * f.values, 0.0) for rows, (_, f) in zip(inside, proposed, strict=True)]
    values = np.abs(_under_redrawn(ground, np.column_stack(functions), n_resamples, rng))
    largest = values[:, 1:].max(axis=0)
    chances = [(1 + np.sum(largest >= value - _TIE)) / (1 + n_resamples) for value in values[:, 0]]
    return [
        _Tested(box, feature, float(min(1.0, 2 * chance)), float(value), held)
        for (box, feature), chance, value in zip(proposed, chances, values[:, 0], strict=True)
    ]


def _under_redrawn(ground: Ground, functions: FloatArray, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """Return sums of surprises times each function (rows), for labels as given and redrawn, in deviations of all."""
    propensity = ground.propensity
    with one_blas_thread():
        sums = [functions.T @ propensity.surprises(ground.labels[None], observed=True)[0]]
        batch = max(1, _DRAWN_FLOATS // len(functions))
        for start in range(0, n_resamples, batch):
            labels = propensity.draw(min(batch, n_resamples - start), rng)
            sums.append(functions.T @ propensity.surprises(labels)[0])
    values = np.hstack(sums)
    deviation = values.std(axis=1, keepdims=True)
    return np.asarray(values / np.where(deviation > 0, deviation, 1.0))


def _listed(
    ground: Ground, significant: list[_Tested], features: Sequence[Feature], max_regions: int
) -> list[FoundBox]:
    """Place bounds by all rows, and leave out what the regions before it explain."""
    search = ground.search(slice(None))
    u, w = ground.surprise, ground.weights
    v = w * u**2
    kept: list[tuple[FoundBox, Rows]] = []
    for tested in significant:
        if len(kept) == max_regions:
            break
        beyond = _unexplained(ground, tested.feature, features, [rows for _, rows in kept])
        s = w * u * beyond
        inside = tested.held & tested.box.holds(ground.x)
        noise = float(np.sqrt(((w * u * tested.feature.values)[inside] ** 2).sum()))
        if kept and abs(s[inside].sum()) < _STILL_THERE * noise:
            continue
        box, rows = _placed(search, tested.box, s, v)
        if all(_shared(rows, other) < _SAME for _, other in kept):
            kept.append((FoundBox(box, tested.feature, tested.p_value, beyond), rows))
    return [found for found, _ in kept]


def _placed(search: BoxSearch, box: Box, s: FloatArray, v: FloatArray) -> tuple[Box, Rows]:
    """Place the bounds of a box anew: the best of all boxes, or the one that its own bounds lead to."""
    own = box.holds(search.x)
    tried = sorted((search.best(s, v), search.refined(box, s, v)), key=lambda pair: -pair[1])
    for better, _ in tried:
        rows = better.holds(search.x)
        # Within the box that was tested, or around it: another place has not been tested.
        if (rows & own).sum() >= _SAME * min(rows.sum(), own.sum()):
            return better, rows
    return box, own


def _unexplained(ground: Ground, feature: Feature, features: Sequence[Feature], regions: list[Rows]) -> FloatArray:
    """Return a function of y without the changes in the regions that are listed already."""
    if feature.kind in ("spread", "shape") and regions:
        # A change of the mean is not one of the spread: residuals are taken about the means of either sample.
        mean = next(f for f in features if f.kind == "mean" and f.column == feature.column)
        z = _without(ground, mean.values, regions)
        feature = next(f for f in curved_features(z, feature.column, ground.smoother) if f.kind == feature.kind)
    return _without(ground, feature.values, regions)


def _without(ground: Ground, values: FloatArray, regions: list[Rows]) -> FloatArray:
    u, w = ground.surprise, ground.weights
    left = values.copy()
    for rows in regions:
        effect = (w * u * left)[rows].sum() / (w * u**2)[rows].sum()
        left[rows] -= effect * u[rows]
    return left


def _shared(a: Rows, b: Rows) -> float:
    """Rows in both, as a share of those in either."""
    return float((a & b).sum() / max(1, (a | b).sum()))
