r"""How large a change of the relation is, in units of y, with bounds that hold, and what would not have been seen.

All means are over the common support of the samples (`common_support`). With r the response minus its regression on
x, the difference t(x) of the means of y given x is what u t(x) explains of r. Its root mean square is estimated from
functions of x: by the product of each row's r with what a fit to the other rows predicts of it, which is unbiased. The
lower bound holds for any t (by Cauchy and Schwarz, t has at least the length of its projection on any direction that
the row itself had no say in), the upper one for those that these functions can tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from condcs._core.arrays import FloatArray
from condcs._core.printable import Printable
from condcs._core.settings import one_blas_thread
from condcs._inference.common_support import CommonSupport, MeansOnSupport, share, student_quantile
from condcs._inference.regions import MeanSteps
from condcs._inference.responses import CLIPPED_INPUT
from condcs._inference.results import Estimate, around, in_units, plain, within
from condcs._inference.views import MEAN_SHARE
from condcs._regression.standardised import largest_size

_MOST_FUNCTIONS, _ROWS_PER_FUNCTION = 60, 15
"""Functions of x that a change may follow, and rows for each: their noise widens the upper bound."""
_MOST_LEVERAGE = 0.9
"""Largest part that a row has in its own fit: one that decides it alone says nothing of the others."""
_FOLDS = 4
"""Parts of the rows whose change is said by the others: each fold costs two regressions."""
_RESAMPLES = 200
"""Draws for the standard error of a spread: their own noise is a twentieth of it."""
_POWER = 0.8
"""Probability with which a change that is called detectable would have been found, as planners of studies have it."""
_PART = 0.1
"""Share of the rows of a change that is confined to a part of x."""
_MOST_REACH = 5.0
"""Half of the longest interval of the logarithm of a deviation: a factor of 150 says that nothing is known."""
_NEGLIGIBLE = 1e-8
"""Part of the longest direction below which one is made of rounding errors."""


class _BeforeNowChange(NamedTuple):
    """What `Spread` is a tuple of."""

    reference: float
    current: float
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
            else {"reference": spread.reference, "current": spread.current, "change": plain(spread.change)},
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

    `steps` says for each column by how much its mean changed in boxes with sharp bounds. Smooth regressions cannot
    follow these: they would miss most of a change in few rows, and leave it as a larger spread. `implied` is the
    root mean square that is known from a part of the inputs, in units of y: that over all inputs is not below it.
    """
    # 1. Residuals of the response, with steps or without them.
    unit = largest_size(columns)
    none, boxes = np.zeros_like(columns), np.empty((len(columns), 0))  # n x c, n x boxes
    residuals = _Residuals.of(support, columns / unit, none, boxes, rng)
    if steps is not None and any(of_column.heights.any() for of_column in steps):
        heights = np.column_stack([of_column.heights for of_column in steps]) / unit
        boxes = np.hstack([of_column.inside for of_column in steps])
        with_steps = _Residuals.of(support, columns / unit, heights, boxes, rng)
        # Steps imitate a smooth change badly, and smooth functions a step: what predicts y better, each row left out.
        residuals = min(residuals, with_steps, key=lambda either: either.error)

    # 2. The length of the change with its bounds, in `scale`, and the average of one column with its interval.
    stricter_level = (1 + confidence_level) / 2  # of two claims that share one risk
    z, stricter = _normal_quantile(confidence_level), _normal_quantile(stricter_level)
    # Labels of several kinds: each share that one loses another gains, so that every change is in two columns.
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
        value, low, high = (max(end, part / scale) for end, part in zip((value, low, high), implied, strict=True))
    high = max(high, low)
    size = in_units(Estimate(min(max(value, low), high), low, high, confidence_level), scale)
    if not numeric:
        # A share changes by no more than 1.
        size, average = within(size, -1, 1), None if average is None else within(average, -1, 1)

    # 3. The spread of numbers, after the steps of their mean.
    spread = None
    if numeric:
        level = columns[:, 0] / unit
        if steps is not None:
            level = level - np.where(support.second, steps[0].by_all / unit, 0.0)
        # Mean and spread are two claims about one response: this one must not come from looking twice.
        first, second, change = _spread(support, support.residuals(level, support.design(level)), stricter_level, rng)
        spread = Spread(unit * first, unit * second, in_units(change, unit))

    # 4. What the test would find.
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
    """Residuals of a response in the units of the common support: squares of the weighted surprises add up to 1."""

    support: CommonSupport  # the rows
    weighted_surprises: FloatArray  # n x 1: labels minus shares, times the roots of the weights
    of_pool: FloatArray  # n x c: the response minus its regression on the pool, times the roots of the weights
    aimed: FloatArray  # n x c: what rows of other folds say that the change explains of it
    of_sample: FloatArray  # n x c: the response minus the regression in the row's sample
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
        s = share(support.odds.values)[:, None]  # (n, 1): share of the second sample
        t = support.second[:, None]  # (n, 1): 1 for rows of the second sample

        # Regress each column, without its steps, in each sample; the difference of both from rows of other folds.
        folds = support.folds(_FOLDS, rng)
        of_first, of_second, differences = [], [], []
        smooth = columns - np.where(t, heights, 0.0)
        for column in smooth.T:
            design = support.design(column)
            in_first, in_second = support.regressions(column, design)
            of_first.append(in_first.values)
            of_second.append(in_second.values)
            differences.append(support.difference(column, design, folds))
        first = np.array(of_first).T  # (n, c)
        second = np.array(of_second).T + heights  # (n, c)
        direction = np.array(differences).T + heights  # (n, c)

        # Weights are in the units of the common support: those of u^2 add up to 1.
        total = np.sum(support.weights * (t - s)[:, 0] ** 2)
        roots = np.sqrt(support.weights / total)[:, None]
        u = roots * (t - s)
        return cls(
            support,
            weighted_surprises=u,
            of_pool=roots * (columns - first - s * (second - first)),
            aimed=u * direction,
            of_sample=columns - np.where(t, second, first),
            heights=heights,
            boxes=boxes,
        )

    @property
    def error(self) -> float:
        """Squared error of the regressions, each row left out of its own."""
        return float(self.support.weights @ (self.of_sample**2).sum(axis=1))

    def averages(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean change of each column (c), and what each unit adds to its error (units x c).

        Residuals of rows that were left out of the fits are larger than the noise, by about as much as the errors of
        the fits, of the second order, add to the error of the mean. (Rows drawn again count these twice.)
        """
        u = self.weighted_surprises
        averages = (u * self.of_pool).sum(axis=0)
        return averages, self.support.units.sums(u * (self.of_pool - averages * u))

    def lower_bound(self, z: float) -> float:
        """Return a bound that the length of the change exceeds: no direction shows more of it than its whole length."""
        # The projection of the response on the direction is along / length.
        along, length = float((self.of_pool * self.aimed).sum()), float(np.sqrt((self.aimed**2).sum()))
        if length == 0:
            return 0.0
        # Two rows that agree by chance count twice, each in what is aimed at for the other; of a change only once.
        twice = 2 - min(max(along, 0.0) / length**2, 1.0)
        errors = self.support.units.sums((self.aimed * (self.of_pool - self.aimed)).sum(axis=1))
        error = float(np.sqrt(twice * (errors**2).sum()))
        return max((along - z * error) / length, 0.0)

    def length_and_upper_bound(self, z: float) -> tuple[float, float]:
        """Return the length of a change made of some functions of x, and an upper bound of it, z standard errors away.

        The square q of the length is estimated without bias. With B an orthonormal basis of the weighted surprises
        times these functions, q is the squared length of B' r; each row's part in it is the product of its r with what
        B predicts of it from the other rows. (The length along what regressions say of the change is too short: they
        shrink it.)
        """
        functions = np.hstack([_functions(self.support, self.weighted_surprises), self.boxes])  # (n, k)
        orthonormal, triangle = np.linalg.qr(self.weighted_surprises * functions)
        size = np.abs(np.diag(triangle))
        basis = orthonormal[:, size > _NEGLIGIBLE * size.max()]  # (n, k')
        leverage = np.minimum((basis**2).sum(axis=1), _MOST_LEVERAGE)[:, None]  # (n, 1)
        # What the other rows say of a row: its product with the row is not biased by noise.
        others = (basis @ (basis.T @ self.of_pool) - leverage * self.of_pool) / (1 - leverage)  # (n, c)
        squared = float((self.of_pool * others).sum())

        # The variance of the estimate is v + w q, with v the noise that is there without any change,
        noise = (self.of_pool - others) * np.sqrt(1 - leverage)  # (n, c)
        pairs = [(a, b) for a in noise.T for b in noise.T]
        by_noise = 2 * sum(float((((basis * (a * b)[:, None]).T @ basis) ** 2).sum()) for a, b in pairs)
        # and how the change is spread over the rows that happened to be drawn,
        squares = self.weighted_surprises**2  # (n, 1)
        of_rows = (self.aimed**2).sum(axis=1)  # (n,)
        over_rows = float(((of_rows - squares[:, 0] * of_rows.sum()) ** 2).sum())
        # and w the noise along the change itself.
        along = 4 * float((squares * noise**2).sum())

        # The bound is the largest q for which the estimate s lies no more than z deviations below it:
        # (q - s)^2 = z^2 (v + w q), so that q = s + z^2 w / 2 + z sqrt(v + w s + z^2 w^2 / 4).
        reach = z * np.sqrt(by_noise + over_rows + along * max(squared, 0.0) + (z * along) ** 2 / 4)
        bound = squared + z**2 * along / 2 + float(reach)
        return math.sqrt(max(squared, 0.0)), math.sqrt(max(bound, 0.0))


def _functions(support: CommonSupport, weighted_surprises: FloatArray) -> FloatArray:
    """Functions of x that a change may follow: a constant, the inputs, and smooth functions of all of them."""
    smoother, n = support.smoother, len(weighted_surprises)
    # The squares of the weighted surprises add up to 1: this is how many rows of equal surprise would have such a sum.
    informative = 1 / float((weighted_surprises**4).sum())
    most = int(np.clip(informative // _ROWS_PER_FUNCTION, 1, _MOST_FUNCTIONS))
    # Bumps of one median where there are numbers, else the products of the labels.
    design = next((d for d in smoother.designs if d.name.startswith("bumps")), smoother.designs[-1])
    order = np.argsort(-design.spectrum)[:most]
    numbers = np.clip(smoother.numbers, -CLIPPED_INPUT, CLIPPED_INPUT)
    linear = [np.ones((n, 1)), numbers, *(block[:, 1:] for block in smoother.indicators)]
    return np.hstack([*linear, design.basis[:, order] * np.sqrt(n)])[:, :most]


def _spread(
    support: CommonSupport, residuals: FloatArray, confidence_level: float, rng: np.random.Generator
) -> tuple[float, float, Estimate]:
    """Return standard deviations over the common support in either sample, and their difference with its interval."""
    means = MeansOnSupport.of(support, residuals**2, _RESAMPLES, rng)
    variances = np.maximum(means.observed[1:3], np.finfo(float).tiny)
    deviations = np.sqrt(variances)
    # Logarithms of deviations are near to normal with few rows already.
    errors = means.redrawn[1:3].std(axis=1) / (2 * variances)
    quantiles = [student_quantile(confidence_level, of_units) for of_units in means.influence[1:3]]
    factors = np.exp(np.minimum(errors * quantiles, _MOST_REACH))
    # An end of a difference is as far away as the ends of both terms on that side, their squares added (Zou and Donner
    # 2008).
    # How far the ends of the intervals lie below and above each deviation.
    down_first, down_second = deviations * (1 - 1 / factors)
    up_first, up_second = deviations * (factors - 1)
    first, second = map(float, deviations)
    low = second - first - math.hypot(down_second, up_first)
    high = second - first + math.hypot(up_second, down_first)
    return first, second, Estimate(second - first, low, high, confidence_level)


def _reach(influence: FloatArray, confidence_level: float) -> float:
    """Return half of an interval about the sum of independent terms."""
    return student_quantile(confidence_level, influence) * float(np.sqrt((influence**2).sum()))


def _normal_quantile(confidence_level: float) -> float:
    """Return how many standard errors a two-sided interval reaches."""
    return float(ndtri((1 + confidence_level) / 2))


def _power_units(level: float) -> float:
    """Return how many standard errors a change must have to be found with the power aimed at, two-sided."""
    return float(-ndtri(level / 2) + ndtri(_POWER))
