"""What y did in a region: means, spreads and shares of either sample, with intervals.

How large a change is cannot be read from the rows that bounds were placed by: these make it as large as they can. On
the rows that the region was tested on, in the box as the others grew it, it is too small, since bounds by half of the
rows are not as good. The truth lies between both, and so do estimates and intervals. (Rows that grew the box are not
measured even in bounds that the others place: these are sought around it, where chance was large on the rows that grew
it.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtri

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._core.printable import Printable
from condcs._inference.adjustment import Adjustment
from condcs._inference.after_selection import after_selection
from condcs._inference.regions import MOST_CORRELATION, SignificantBox
from condcs._inference.results import Estimate, around, in_units, within
from condcs._regression.standardised import largest_size

_FEWEST_OF_EACH = 3
"""Rows of either sample that a region was tested on from which on these have an estimate of their own: of fewer, a
standard error is a guess."""

_LEAST_EFFECTIVE_ROWS = 1.5
"""Rows of equal weight that weighted ones are worth, below which the factor n / (n - 1) grows no more: at 1 it would be
infinite."""

ChangedQuantity = Literal["mean", "spread", "share"]


@dataclass(frozen=True)
class Change(Printable):
    """One thing that y does in a region, in the first sample and in the second, in y's own units.

    Attributes
    ----------
    quantity : {"mean", "spread", "share"}
        The mean, the standard deviation about the regression on x, or the share of a label.
    column : str
        Which response.
    label : str or None
        For a share, whose.
    reference, current : Estimate
        In the first and in the second sample, for the same inputs: value, low and high.
    change : Estimate
        `current` minus `reference`; for a spread, `current` divided by `reference`.
    """

    quantity: ChangedQuantity
    column: str
    label: str | None
    reference: Estimate
    current: Estimate
    change: Estimate

    @property
    def words(self) -> str:
        """What it is that changed, such as "mean price" or "share of colour = red"."""
        if self.quantity == "share":
            return f"share of {self.column} = {self.label}"
        return f"{self.quantity} {self.column}"

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the change leaves out that there is none."""
        no_change = 1.0 if self.quantity == "spread" else 0.0
        return not self.change.low <= no_change <= self.change.high


class _Measurement(NamedTuple):
    """A value, and its standard error."""

    value: float
    error: float


_StatisticOfSample = Callable[[BoolArray, int], _Measurement]
"""Takes rows (n,) and a sample, 0 or 1, and measures the rows of that sample among them."""


class RegionEffects:
    """Changes of one response, or of the indicator of a label, in any region."""

    def __init__(self, adjustment: Adjustment, values: FloatArray, confidence_level: float) -> None:
        self.confidence_level = confidence_level
        self.unit = largest_size(values)
        scaled = values / self.unit
        # Each row is left out of its own fit, which would take a part of the difference along. At a row far from all
        # others such a fit may be anything.
        fitted = scaled - adjustment.smoother.residuals(scaled[:, None]).left_out[:, 0]
        self.fitted = np.clip(fitted, scaled.min(), scaled.max())
        self.residuals = scaled - self.fitted
        # With these, the pool is distributed over x as the inputs that both samples have in common.
        self.common_weights = adjustment.common_weights
        # With these, each sample by itself is: p s and q (1 - s) are both p q / (p + q).
        s = adjustment.balanced_share  # (n,)
        self.balancing_weights = adjustment.weights * np.where(adjustment.labels == 1, 1 - s, s)
        self.labels, self.units = adjustment.labels, adjustment.clusters

    def at_level(self, confidence_level: float) -> RegionEffects:
        """Return the same with intervals of another level."""
        effects = copy(self)
        effects.confidence_level = confidence_level
        return effects

    def mean(self, column: str, region: SignificantBox, label: str | None = None, *, selected: bool) -> Change:
        """Return the change of the mean, or of the share of a label.

        `selected` says whether the region is listed because of it: because a test of this very change was significant.
        """
        quantity: ChangedQuantity = "mean" if label is None else "share"
        level = float(np.average(self.fitted[region.rows], weights=_positive(self.common_weights[region.rows])))
        first, second, change = self._estimates(region, self._average, level, selected=selected)
        if label is not None:
            return Change(quantity, column, label, within(first, 0, 1), within(second, 0, 1), within(change, -1, 1))
        return Change(quantity, column, None, *(in_units(each, self.unit) for each in (first, second, change)))

    def spread(self, column: str, region: SignificantBox, *, selected: bool) -> Change:
        """Return the change of the standard deviation about the regression, measured on the scale of its logarithm."""
        logarithms = self._estimates(region, self._log_deviation, 0.0, selected=selected)
        first, second, factor = (
            Estimate(math.exp(each.value), math.exp(each.low), math.exp(each.high), each.confidence_level)
            for each in logarithms
        )
        return Change("spread", column, None, in_units(first, self.unit), in_units(second, self.unit), factor)

    def _average(self, rows: BoolArray, sample: int) -> _Measurement:
        """Return the weighted mean of the residuals in one sample."""
        sample_rows, residuals, weights = self._of_sample(rows, sample)
        average = float(np.average(residuals, weights=weights))
        variance = self._sum_of_squares(sample_rows, weights * (residuals - average)) / weights.sum() ** 2
        return _Measurement(average, float(np.sqrt(variance * _small_sample_factor(weights))))

    def _log_deviation(self, rows: BoolArray, sample: int) -> _Measurement:
        """Return the logarithm of the standard deviation of the residuals in one sample."""
        sample_rows, residuals, weights = self._of_sample(rows, sample)
        squares = (residuals - np.average(residuals, weights=weights)) ** 2
        variance = max(float(np.average(squares, weights=weights)), np.finfo(float).tiny)
        # The error of log(sd) = log(variance) / 2 is that of the variance, over twice the variance.
        squared_error = self._sum_of_squares(sample_rows, weights * (squares - variance))
        error = np.sqrt(squared_error) / (2 * variance * weights.sum())
        return _Measurement(0.5 * float(np.log(variance * _small_sample_factor(weights))), float(error))

    def _of_sample(self, rows: BoolArray, sample: int) -> tuple[BoolArray, FloatArray, FloatArray]:
        """Return which of some rows are of a sample (n,), and the residuals and weights of these."""
        sample_rows = rows & (self.labels == sample)
        return sample_rows, self.residuals[sample_rows], _positive(self.balancing_weights[sample_rows])

    def _sum_of_squares(self, rows: BoolArray, terms: FloatArray | IntArray) -> float:
        """Sum the squares of independent terms: those of rows, or their sums over clusters."""
        if self.units is not None:
            terms = np.bincount(self.units[rows], weights=terms)
        return float((terms**2).sum())

    def _estimates(
        self, region: SignificantBox, statistic: _StatisticOfSample, level: float, *, selected: bool
    ) -> tuple[Estimate, Estimate, Estimate]:
        """Return a statistic of the first sample, that of the second, and their difference.

        Bounds placed by the same rows make the difference too large, bounds grown by other rows too small: the estimate
        is the middle of both, the interval reaches from the lower end of the second to the upper end of the first. What
        the difference loses thereby is taken off both samples' values, in proportion to their variances.
        `level` is added to both.
        """
        first, second = statistic(region.rows, 0), statistic(region.rows, 1)
        error = math.hypot(first.error, second.error)
        difference = second.value - first.value
        apparent = self._listed(region, _Measurement(difference, error), region.correlation, selected=selected)
        change = apparent
        if min(np.bincount(self.labels[region.held_rows], minlength=2)) >= _FEWEST_OF_EACH:
            held_first, held_second = statistic(region.held_rows, 0), statistic(region.held_rows, 1)
            held = _Measurement(held_second.value - held_first.value, math.hypot(held_first.error, held_second.error))
            # The test is by the same rows, in the same box.
            change = _between(self._listed(region, held, MOST_CORRELATION, selected=selected), apparent)
        surplus = difference - change.value
        share_of_second = second.error**2 / error**2 if error > 0 else 0.5
        return (
            self._interval(level + first.value + (1 - share_of_second) * surplus, first.error),
            self._interval(level + second.value - share_of_second * surplus, second.error),
            change,
        )

    def _listed(
        self, region: SignificantBox, measured: _Measurement, correlation: float, *, selected: bool
    ) -> Estimate:
        """Return an estimate of a change, corrected if it is listed because a test that correlates with it rejected."""
        if not selected:
            return self._interval(*measured)
        return after_selection(
            *measured,
            correlation=correlation,
            threshold=region.threshold,
            confidence_level=self.confidence_level,
        )

    def _interval(self, value: float, error: float) -> Estimate:
        """Return an estimate with as many standard errors either way as its level asks for."""
        return around(value, float(ndtri((1 + self.confidence_level) / 2)) * error, self.confidence_level)


def _between(honest: Estimate, apparent: Estimate) -> Estimate:
    """Return the middle of two estimates of a change, of which the first is too small and the second too large.

    The interval reaches from the end of the first that is nearer to 0 to the farther end of both. "Nearer" and
    "farther" are as the apparent change has them: low and high if it is positive.
    """
    if apparent.value < 0:
        return _mirrored(_between(_mirrored(honest), _mirrored(apparent)))
    low, high = honest.low, max(honest.high, apparent.high)
    middle = (honest.value + apparent.value) / 2
    return Estimate(min(max(middle, low), high), low, high, apparent.confidence_level)


def _mirrored(estimate: Estimate) -> Estimate:
    """Return the estimate of minus a number."""
    return Estimate(-estimate.value, -estimate.high, -estimate.low, estimate.confidence_level)


def _positive(weights: FloatArray) -> FloatArray:
    """Return weights, or ones where all are 0, as those of rows with a label that only one sample has."""
    return weights if weights.sum() > 0 else np.ones_like(weights)


def _small_sample_factor(weights: FloatArray) -> float:
    """Return n / (n - 1), by which squares about a mean of the same n rows are too small."""
    n = max(weights.sum() ** 2 / (weights**2).sum(), _LEAST_EFFECTIVE_ROWS)
    return float(n / (n - 1))
