r"""How large a change of the relation is, in units of y, with bounds that hold, and what would not have been seen.

With densities p and q of x in two samples, their *common support* is the distribution with a density proportional to
p q / (p + q) (Cai, Namkoong, Yadlowsky, arXiv 2303.02011): wide where both samples have rows, nothing where one has
none. Let t be 1 for rows of the second sample, s(x) = q / (p + q) its share at x if both samples weighed the same, and
u = t - s(x). Then means over the common support are weighted by s (1 - s), and u^2 has that mean given x.

For any function r of a row with means m0(x) and m1(x) in the samples, the means over the common support of these are
estimated by the sums of ``u^2 m0 + (1 - t) s (r - m0)`` and of ``u^2 m1 + t (1 - s) (r - m1)``, each over the sum of
u^2. Errors of s and of m0, m1 enter only in the second order; every row, or cluster of rows, is left out of the fits
that it is put into.

With r the response minus its regression on x, the difference t(x) of the means of y given x is what u t(x) explains of
r. Its root mean square is estimated from functions of x: each row's r times what the others say of it there, which
chance does not bias. The lower bound holds for any t (by Cauchy and Schwarz, t has at least the length of its
projection on any direction that the row itself had no say in), the upper one for those that these functions can tell
apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtri, stdtrit

from condcs._core.arrays import BoolArray, FloatArray, IntArray, RealArray
from condcs._core.printable import Printable
from condcs._core.settings import one_blas_thread
from condcs._inference.propensities import Propensity, chosen_propensity
from condcs._inference.regions import MeanSteps
from condcs._inference.results import Estimate, around, in_units, plain, within
from condcs._inference.views import MEAN_SHARE
from condcs._regression.designs import Design
from condcs._regression.ridge import ClusterMeans, left_out, ridge_shrinkages
from condcs._regression.smoother import Smoother
from condcs._regression.standardised import largest_size

_MOST_FUNCTIONS, _ROWS_PER_FUNCTION = 60, 15
_MOST_LEVERAGE = 0.9
_FOLDS = 4
_RESAMPLES = 200
_POWER = 0.8
_PART = 0.1
"""Share of the rows of a change that is confined to a part of x."""

_PENALTIES = 10.0 ** np.arange(-3.0, 4.01, 0.5)
_LEAST_LEFT = 0.05
_LEAST_SHARE = 1e-3


class Units:
    """What is drawn, and left out, as a whole: rows, or the clusters 0, 1, ... that they belong to."""

    def __init__(self, rows: int, clusters: IntArray | None = None) -> None:
        self.means = None if clusters is None else ClusterMeans(clusters)
        self.numbers = np.arange(rows) if clusters is None else clusters
        self.count = rows if self.means is None else len(self.means.sizes)

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum columns over the rows of each unit."""
        return values if self.means is None else np.asarray(self.means.sums @ values)

    def of_rows(self, values: FloatArray) -> FloatArray:
        """Return for each row what its unit has."""
        return values if self.means is None else np.asarray(values[self.means.of_rows])

    def left_out(self, residuals: FloatArray, basis: RealArray, shrinkages: FloatArray) -> FloatArray:
        """Return residuals of ridge regressions (rows x penalties) with each unit left out of the fit.

        The basis is orthonormal over these rows.
        """
        common = 0.0 if self.means is None else 1 / len(basis) + self.means(basis) ** 2 @ shrinkages
        return left_out(residuals, 1 / len(basis) + basis**2 @ shrinkages, self.means, common)

    def among(self, rows: BoolArray) -> Units:
        """Return the units of some rows, given as flags."""
        return Units(int(rows.sum()), None if self.means is None else self.numbers[rows])


@dataclass(frozen=True, eq=False)
class LeftOutFit:
    """A linear fit at all rows, each unit left out of its own, and what it would be with other weights of the rows."""

    values: FloatArray  # n: the fit
    # n x p: if the weights of the rows change by v, the fit changes by ``left @ (right.T @ v)``, to first order.
    left: FloatArray
    right: FloatArray
    units: Units  # what is left out as a whole
    # No fit leaves these: the range of the target. Beyond the rows of a sample a regression may go anywhere, and at a
    # row far from all others to first order as well.
    bounds: tuple[float, float] = (-np.inf, np.inf)

    def redrawn(self, change: FloatArray) -> FloatArray:
        """Return the fit (n x B) for changes of the weights (n x B), each unit still left out of its own fit."""
        fits = self.left @ (self.right.T @ change)
        fits -= self._own[:, None] * change
        fits += self.values[:, None]
        return np.asarray(np.clip(fits, *self.bounds, out=fits))

    @cached_property
    def _own(self) -> FloatArray:
        """What a unit's own weight would change at its rows."""
        return np.asarray(np.einsum("ij,ij->i", self.left, self.units.of_rows(self.units.sums(self.right))))


@dataclass(frozen=True, eq=False)
class CommonSupport:
    """Rows of two samples, one after the other, and where both have some."""

    smoother: Smoother  # for the inputs of all rows
    second: BoolArray  # n: which rows are of the second sample
    odds: LeftOutFit  # log-odds of the second sample at each row's x, if both samples weighed the same
    weights: FloatArray  # n: weights of the rows, such that the samples weigh the same; their sum is 1
    units: Units  # what is drawn as a whole; the units of the first sample have the lower numbers

    def design(self, target: FloatArray) -> Design:
        """Return the functions of x that do best for a target and for its difference between the samples."""
        left = self.smoother.residuals(target[:, None])[1][:, 0]
        # What is left of the target, with the sign of the sample, follows the difference; both errors are in one unit.
        sign = (self.second - self.second.mean()) / self.second.std()
        both = np.column_stack([target, sign * left])
        with one_blas_thread():
            return min(self.smoother.designs, key=lambda design: _error(design, both, self.units))

    def regressions(self, target: FloatArray, design: Design) -> tuple[LeftOutFit, LeftOutFit]:
        """Regress a target on x in each sample: two fits at all rows, the one of the first sample first."""
        with one_blas_thread():
            functions = design.functions
            return tuple(_ridge(functions, target, own, self.units) for own in (~self.second, self.second))  # type: ignore[return-value]

    def difference(self, target: FloatArray, design: Design, folds: IntArray) -> FloatArray:
        """Regress a target in each sample, and return the difference of both, rows of a fold from all other rows."""
        found = np.empty(len(target))
        with one_blas_thread():
            functions = design.functions
            for fold in np.unique(folds):
                own = folds != fold
                second, first = (_ridge(functions, target, own & of, self.units) for of in (self.second, ~self.second))
                found[~own] = (second.values - first.values)[~own]
        return found

    def folds(self, count: int, rng: np.random.Generator) -> IntArray:
        """Deal the units of each sample out to so many folds, and return the fold of each row."""
        first, second = self._sizes
        return np.concatenate([rng.permutation(n) % count for n in (first, second)])[self.units.numbers]

    def redrawn_weights(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return how often each row is drawn (n x count) if units of each sample are drawn again with replacement."""
        return np.concatenate([times_drawn(size, count, rng) for size in self._sizes])[self.units.numbers]

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        """Units of each sample; those of the first come first."""
        numbers = self.units.numbers
        first = int(numbers[~self.second].max()) + 1
        return first, int(numbers.max()) + 1 - first


def common_support(
    smoother: Smoother,
    sizes: tuple[int, int],
    rng: np.random.Generator,
    *,
    propensity: Propensity | None = None,
    weights: FloatArray | None = None,
    clusters: IntArray | None = None,
) -> CommonSupport:
    """Estimate where two samples, one after the other in the pool, both have rows.

    A propensity that has been fitted before is used as it is. Rows may have weights, and belong to clusters 0, 1, ...,
    those of the first sample first.
    """
    second = np.repeat([False, True], sizes)
    if propensity is None:
        labels = second.astype(np.int8)
        propensity = chosen_propensity(None, smoother.numbers, smoother, clusters, labels, 2, rng)
    units = Units(len(second), clusters)
    with one_blas_thread():
        fit = _odds(propensity, second, units)
    own = np.ones(len(second)) if weights is None else np.asarray(weights, np.float64)
    return CommonSupport(
        smoother,
        second,
        fit,
        own / np.where(second, 2 * own[second].sum(), 2 * own[~second].sum()),
        units,
    )


def _odds(propensity: Propensity, second: BoolArray, units: Units) -> LeftOutFit:
    """Log-odds of a fitted ridge logistic regression of units, each left out of the fit, to first order."""
    (fit,) = propensity._fits
    first = slice(None) if units.means is None else units.means.first
    second = second[first]
    p = np.clip(propensity.probabilities[:, 1], 1e-6, 1 - 1e-6)
    variance = p * (1 - p)
    terms = fit.design.terms(slice(None))
    solved = terms @ fit.inverse
    leverage = np.minimum(variance * np.einsum("ij,ij->i", terms, solved), 1 - _LEAST_LEFT)
    values = np.log(p / (1 - p)) - (second - p) / variance * leverage / (1 - leverage)
    # From shares of the pool to shares of two samples of equal weight.
    values -= np.log(second.sum() / (~second).sum())
    right = solved * (second - p)[:, None]
    if units.means is not None:
        right /= units.means.sizes[:, None]
    return LeftOutFit(units.of_rows(values), units.of_rows(terms), units.of_rows(right), units)


def share(odds: FloatArray) -> FloatArray:
    """Return the share of the second sample from log-odds, away from 0 and 1."""
    return np.asarray(np.clip(expit(odds), _LEAST_SHARE, 1 - _LEAST_SHARE))


def _error(design: Design, targets: FloatArray, units: Units) -> float:
    """Sum the least squared errors of ridge regressions of some targets, each unit left out of its own fit."""
    centred = targets - targets.mean(axis=0)
    shrinkages = _shrinkages(design.spectrum, units.count)
    total = 0.0
    for target, along in zip(centred.T, (design.basis.T @ centred).T, strict=True):
        residuals = target[:, None] - design.basis @ (shrinkages * along[:, None])
        total += float((units.left_out(residuals, design.basis, shrinkages) ** 2).sum(axis=0).min())
    return total


def _shrinkages(spectrum: FloatArray, units: int) -> FloatArray:
    """Return what each ridge penalty keeps along each direction (p x penalties); the last one keeps nothing."""
    return np.column_stack([ridge_shrinkages(spectrum, _PENALTIES, units), np.zeros(len(spectrum))])


def _ridge(functions: RealArray, target: FloatArray, own: BoolArray, units: Units) -> LeftOutFit:
    """Regress on some functions of x over the own rows; a fit everywhere, own units left out of their own."""
    n, level = int(own.sum()), float(target[own].mean())
    functions = functions - functions[own].mean(axis=0)
    inner, response = functions[own], target[own] - level
    spectrum, turn = np.linalg.eigh(inner.T @ inner)
    kept = spectrum > 1e-9 * max(spectrum[-1], np.finfo(float).tiny)
    spectrum, basis = spectrum[kept], functions @ (turn[:, kept] / np.sqrt(spectrum[kept]))
    inner = basis[own]
    among = units.among(own)
    along, shrinkages = inner.T @ response, _shrinkages(spectrum, among.count)
    residuals = response[:, None] - inner @ (shrinkages * along[:, None])
    deleted = among.left_out(residuals, inner, shrinkages)
    best = int(np.argmin((deleted**2).sum(axis=0)))
    values = level + basis @ (shrinkages[:, best] * along)
    values[own] = target[own] - deleted[:, best]
    bounds = float(target[own].min()), float(target[own].max())
    values = np.clip(values, *bounds)
    left = np.column_stack([np.full(len(values), 1 / np.sqrt(n)), basis * np.sqrt(shrinkages[:, best])])
    right = np.zeros_like(left)
    right[own] = left[own] * (target[own] - values[own])[:, None]
    return LeftOutFit(values, left, right, units, bounds)


@dataclass(frozen=True, eq=False)
class MeansOnSupport:
    """Means of a column: in the first sample, on the common support by each sample's relation, in the second sample."""

    observed: FloatArray  # 4
    redrawn: FloatArray  # 4 x B: the same with rows drawn again, and regressions that follow to first order
    influence: FloatArray  # 4 x units: what each unit adds to the error of the means, to first order

    @classmethod
    def of(
        cls,
        support: CommonSupport,
        column: FloatArray,
        count: int,
        rng: np.random.Generator,
    ) -> MeansOnSupport:
        """Estimate them, after a regression of the column in each sample."""
        fits = (support.odds, *support.regressions(column, support.design(column)))
        terms = _terms(support, column, support.weights[:, None], *(fit.values[:, None] for fit in fits))
        observed = np.array([above.sum(axis=0) / below.sum(axis=0) for above, below in terms])
        influence = [
            support.units.sums((a - m * b)[:, 0] / b.sum()) for (a, b), m in zip(terms, observed[:, 0], strict=True)
        ]
        drawn = support.redrawn_weights(count, rng)
        redrawn = [
            [
                above.sum(axis=0) / below.sum(axis=0)
                for above, below in _terms(
                    support, column, support.weights[:, None] * v, *(fit.redrawn(v - 1) for fit in fits)
                )
            ]
            for v in np.array_split(drawn, max(1, drawn.size // _ENTRIES), axis=1)
        ]
        return cls(observed[:, 0], np.concatenate(redrawn, axis=1), np.array(influence))


_ENTRIES = 2**18
"""Entries of the arrays of resamples that are held at once; more of them do not fit into the cache."""


def _terms(
    support: CommonSupport,
    column: FloatArray,
    weights: FloatArray,
    odds: FloatArray,
    first: FloatArray,
    second: FloatArray,
) -> list[tuple[FloatArray, FloatArray]]:
    """Rows of the four means for each column of weights and fits (n x B), as pairs: the sums of both are divided."""
    t, s, r = support.second[:, None], share(odds), column[:, None]
    squares = weights * (t - s) ** 2
    lower = squares * first + np.where(t, 0.0, weights * s) * (r - first)
    upper = squares * second + np.where(t, weights * (1 - s), 0.0) * (r - second)
    before, now = np.where(t, 0.0, weights), np.where(t, weights, 0.0)
    return [(before * r, before), (lower, squares), (upper, squares), (now * r, now)]


def times_drawn(size: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Return how often each of some units is drawn (size x count) if as many are drawn with replacement."""
    drawn = rng.integers(size, size=(size, count)) * count + np.arange(count)
    return np.bincount(drawn.reshape(-1), minlength=size * count).reshape(size, count).astype(np.float64)


def some_rows(sizes: tuple[int, int], most: int, rng: np.random.Generator) -> tuple[IntArray, tuple[int, int]]:
    """Return places of at most so many rows of each of two samples that lie one after the other, and how many."""
    places, start = [], 0
    for size in sizes:
        own = np.arange(size) if size <= most else np.sort(rng.choice(size, most, replace=False))
        places.append(start + own)
        start += size
    return np.concatenate(places), (len(places[0]), len(places[1]))


class _BeforeNowChange(NamedTuple):
    before: float
    now: float
    change: Estimate


class Spread(Printable, _BeforeNowChange):
    """Standard deviation of y for equal inputs: before, now, and its change with an interval."""


@dataclass(frozen=True)
class Effect(Printable):
    """How much one response changed for equal inputs, over the inputs that both samples have.

    Attributes
    ----------
    name : str
        The response.
    size : Estimate
        Root mean square of the difference between the means of y given x: in units of y, or in shares for labels;
        not less than the size of `average`.
    average : Estimate, optional
        Mean of that difference, with its sign; none for labels of more than two kinds.
    spread : Spread, optional
        How far y scatters for equal inputs; none for labels. Mean and spread are two claims about one response: the
        interval of this one has half of the risk of the others, as its `confidence_level` says.
    detectable : float
        A shift of y everywhere that the test would find with a probability of 80%.
    detectable_in_part : float
        The same for a shift in a tenth of the rows, whichever they are: it moves the average by a tenth as much. Where
        the rows lie together in a few inputs, smaller ones are found.
    """

    name: str
    size: Estimate
    average: Estimate | None
    spread: Spread | None
    detectable: float
    detectable_in_part: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the larger of both changes, that of the mean and that of the spread."""
        low, high = self.size.low, self.size.high
        if self.spread is not None:
            change = self.spread.change
            low = max(low, change.low, -change.high)
            high = max(high, -change.low, change.high)
        return low, high

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        spread = self.spread
        return {
            "response": self.name,
            "size": plain(self.size),
            "average": None if self.average is None else plain(self.average),
            "spread": None
            if spread is None
            else {"reference": spread.before, "current": spread.now, "change": plain(spread.change)},
            "detectable": self.detectable,
            "detectable_in_a_tenth_of_the_rows": self.detectable_in_part,
        }


def measure_effect(
    name: str,
    support: CommonSupport,
    columns: FloatArray,
    *,
    numeric: bool,
    steps: Sequence[MeanSteps] | None = None,
    implied: Estimate | None = None,
    confidence_level: float,
    alpha: float,
    rng: np.random.Generator,
) -> Effect:
    """Measure the change of a response: a column of numbers (n x 1), or indicators of labels (n x c).

    `steps` says for each column by how much its mean changed in places with sharp bounds. Smooth regressions cannot
    follow these: they would miss most of a change in few rows, and leave it as a larger spread. `implied` is the
    root mean square that is known from a part of the inputs, in units of y: that over all inputs is not below it.
    """
    unit = largest_size(columns)
    none, boxes = np.zeros_like(columns), np.empty((len(columns), 0))  # n x c, n x boxes
    residuals = _Residuals.of(support, columns / unit, none, boxes, rng)
    if steps is not None and any(own.heights.any() for own in steps):
        heights = np.column_stack([own.heights for own in steps]) / unit
        boxes = np.hstack([own.inside for own in steps])
        with_steps = _Residuals.of(support, columns / unit, heights, boxes, rng)
        # Steps imitate a smooth change badly, and smooth functions a step: what predicts y better, each row left out.
        residuals = min(residuals, with_steps, key=lambda either: either.error)
    stricter_level = (1 + confidence_level) / 2
    z, stricter = _normal_quantile(confidence_level), _normal_quantile(stricter_level)
    # Labels of several kinds: each share that one loses another gains.
    scale = unit * (np.sqrt(0.5) if columns.shape[1] > 1 else 1.0)
    with one_blas_thread():
        # Two lower bounds, each with half of the risk: that of the direction, and the average.
        low = residuals.lower_bound(stricter)
        value, high = residuals.length_and_upper_bound(z)
    averages, influence = residuals.averages()
    errors = np.sqrt((influence**2).sum(axis=0))  # c
    average = None
    if columns.shape[1] == 1:
        mean = float(averages[0])
        average = in_units(around(mean, _reach(influence[:, 0], confidence_level), confidence_level), unit)
        low = max(low, abs(mean) - _reach(influence[:, 0], stricter_level))
        # No root mean square is below its mean: nor is the estimate of it, though chance adds to that of the mean.
        value, high = max(value, abs(mean)), max(high, abs(mean))
    if implied is not None:
        value, low, high = (max(own, part / scale) for own, part in zip((value, low, high), implied, strict=True))
    high = max(high, low)
    spread = None
    if numeric:
        own = residuals.own[:, 0]
        if steps is not None and steps[0].by_all.any():
            level = (columns[:, 0] - np.where(support.second, steps[0].by_all, 0.0)) / unit
            first, second = support.regressions(level, support.design(level))
            own = level - np.where(support.second, second.values, first.values)
        # Mean and spread are two claims about one response: this one must not come from looking twice.
        before, now, change = _spread(support, own, stricter_level, rng)
        spread = Spread(unit * before, unit * now, in_units(change, unit))
    size = in_units(Estimate(min(max(value, low), high), low, high, confidence_level), scale)
    if not numeric:
        # A share changes by no more than 1.
        size, average = within(size, -1, 1), None if average is None else within(average, -1, 1)
    detectable = scale * float(np.sqrt((errors**2).sum())) * _power_units(alpha * MEAN_SHARE)
    return Effect(
        name,
        size,
        average,
        spread,
        detectable,
        # Views for local changes may see less; what moves the average enough is seen wherever it is.
        detectable / _PART,
    )


@dataclass(frozen=True, eq=False)
class _Residuals:
    """What is left of a response, in the units of the common support: u^2 and its weights add up to 1."""

    support: CommonSupport  # the rows
    surprises: FloatArray  # n x 1: labels minus shares, times the roots of the weights
    left: FloatArray  # n x c: the response minus its regression on the pool, times the roots of the weights
    aimed: FloatArray  # n x c: what rows of other folds say that the change explains of it
    own: FloatArray  # n x c: the response minus the regression in its own sample
    heights: FloatArray  # n x c: the part of the change that has sharp bounds
    boxes: FloatArray  # n x boxes: where that may lie

    @classmethod
    def of(
        cls,
        support: CommonSupport,
        columns: FloatArray,
        heights: FloatArray,
        boxes: FloatArray,
        rng: np.random.Generator,
    ) -> _Residuals:
        """Regress a response on x in each sample, and subtract.

        The change is the sum of its steps, of these heights, and of what smooth regressions see beyond them.
        """
        s = share(support.odds.values)[:, None]
        t = support.second[:, None]
        folds = support.folds(_FOLDS, rng)
        found = []
        smooth = columns - np.where(t, heights, 0.0)
        for column in smooth.T:
            design = support.design(column)
            fits = support.regressions(column, design)
            found.append([fits[0].values, fits[1].values, support.difference(column, design, folds)])
        first, second, direction = np.moveaxis(np.array(found), 0, -1)
        second, direction = second + heights, direction + heights
        total = np.sum(support.weights * (t - s)[:, 0] ** 2)
        roots = np.sqrt(support.weights / total)[:, None]
        u = roots * (t - s)
        left = roots * (columns - first - s * (second - first))
        own = columns - np.where(t, second, first)
        return cls(support, u, left, u * direction, own, heights, boxes)

    @property
    def error(self) -> float:
        """Squared error of the regressions, each row left out of its own."""
        return float(self.support.weights @ (self.own**2).sum(axis=1))

    def averages(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean change of each column (c), and what each unit adds to its error (units x c).

        Residuals of rows that were left out of the fits are larger than the noise, by about as much as the errors of
        the fits, of the second order, add to the error of the mean. (Rows drawn again count these twice.)
        """
        averages = (self.surprises * self.left).sum(axis=0)
        return averages, self.support.units.sums(self.surprises * (self.left - averages * self.surprises))

    def lower_bound(self, z: float) -> float:
        """Return a bound that the length of the change exceeds: no direction shows more of it than its whole length."""
        along, length = float((self.left * self.aimed).sum()), float(np.sqrt((self.aimed**2).sum()))
        if length == 0:
            return 0.0
        # Two rows that agree by chance count twice, each in what is aimed at for the other; of a change only once.
        twice = 2 - min(max(along, 0.0) / length**2, 1.0)
        errors = self.support.units.sums((self.aimed * (self.left - self.aimed)).sum(axis=1))
        error = float(np.sqrt(twice * (errors**2).sum()))
        return max((along - z * error) / length, 0.0)

    def length_and_upper_bound(self, z: float) -> tuple[float, float]:
        """Return the length of a change made of some functions of x, and the largest that the response allows for.

        The square of the length is estimated without bias. (The length along what regressions say of the change is too
        short: they shrink it.)
        """
        functions = np.hstack([_functions(self.support, self.surprises), self.boxes])
        orthonormal, triangle = np.linalg.qr(self.surprises * functions)
        size = np.abs(np.diag(triangle))
        basis = orthonormal[:, size > 1e-8 * size.max()]
        leverage = np.minimum((basis**2).sum(axis=1), _MOST_LEVERAGE)[:, None]
        # What the other rows say of a row: its product with the row is not biased by noise.
        others = (basis @ (basis.T @ self.left) - leverage * self.left) / (1 - leverage)
        squared = float((self.left * others).sum())
        noise = (self.left - others) * np.sqrt(1 - leverage)
        pairs = [(a, b) for a in noise.T for b in noise.T]
        by_noise = 2 * sum(float((((basis * (a * b)[:, None]).T @ basis) ** 2).sum()) for a, b in pairs)
        # Along the change itself: the variance for each unit of its square, and that of how it is spread over the rows.
        own = self.surprises**2
        along = 4 * float((own * noise**2).sum())
        local = (self.aimed**2).sum(axis=1)
        over_rows = float(((local - own[:, 0] * local.sum()) ** 2).sum())
        # The largest q for which the estimate lies no more than z deviations below it.
        reach = z * np.sqrt(by_noise + over_rows + along * max(squared, 0.0) + (z * along) ** 2 / 4)
        return math.sqrt(max(squared, 0.0)), math.sqrt(max(squared + z**2 * along / 2 + float(reach), 0.0))


def _functions(support: CommonSupport, surprises: FloatArray) -> FloatArray:
    """Functions of x that a change may follow: a constant, the inputs, and smooth functions of all of them."""
    smoother, n = support.smoother, len(surprises)
    informative = 1 / float((surprises**4).sum())
    most = int(np.clip(informative // _ROWS_PER_FUNCTION, 1, _MOST_FUNCTIONS))
    # Bumps of one median where there are numbers, else the products of the labels.
    design = next((d for d in smoother.designs if d.name.startswith("bumps")), smoother.designs[-1])
    order = np.argsort(-design.spectrum)[:most]
    linear = [np.ones((n, 1)), np.clip(smoother.numbers, -3, 3), *(b[:, 1:] for b in smoother.indicators)]
    return np.hstack([*linear, design.basis[:, order] * np.sqrt(n)])[:, :most]


def _spread(
    support: CommonSupport, residuals: FloatArray, confidence_level: float, rng: np.random.Generator
) -> tuple[float, float, Estimate]:
    """Return standard deviations over the common support, before and now, and their difference with its interval."""
    means = MeansOnSupport.of(support, residuals**2, _RESAMPLES, rng)
    before, now = np.sqrt(np.maximum(means.observed[1:3], 0.0))
    draws = np.sqrt(np.maximum(means.redrawn[1:3], 0.0))
    tiny = np.finfo(float).tiny
    # To first order, what each unit adds to the error of the change.
    influence = means.influence[2] / max(2 * now, tiny) - means.influence[1] / max(2 * before, tiny)
    reach = student_quantile(confidence_level, influence) * float((draws[1] - draws[0]).std())
    return float(before), float(now), around(now - before, reach, confidence_level)


def _reach(influence: FloatArray, confidence_level: float) -> float:
    """Return half of an interval about the sum of independent terms."""
    return student_quantile(confidence_level, influence) * float(np.sqrt((influence**2).sum()))


def student_quantile(confidence_level: float, influence: FloatArray) -> float:
    """Return how many standard errors a two-sided interval reaches, by Student's t: few rows may decide an estimate.

    The relative variance of a sum of squares with f degrees of freedom is 2 / f; here it is that of the squared
    influences (Satterthwaite).
    """
    squares = influence**2
    total = float(squares.sum())
    spread = float((squares**2).sum()) - total**2 / len(squares)
    freedom = 2 * total**2 / spread if spread > 0 else np.inf
    return float(stdtrit(min(max(freedom, 2.0), 1e6), (1 + confidence_level) / 2))


def _normal_quantile(confidence_level: float) -> float:
    """Return how many standard errors a two-sided interval reaches."""
    return float(ndtri((1 + confidence_level) / 2))


def _power_units(level: float) -> float:
    """Return how many standard errors a change must have to be found with the power aimed at, two-sided."""
    return float(-ndtri(level / 2) + ndtri(_POWER))
