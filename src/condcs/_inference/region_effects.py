"""What y did in a region: means, spreads and shares of either sample, with intervals.

How large a change is cannot be read from the rows that bounds were placed by: these make it as large as they can. On
rows that had no part in placing bounds it is too small, since bounds by half of the rows are not as good. The truth
lies between both, and so do estimates and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from scipy.special import ndtri

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._core.printable import Printable
from condcs._inference.adjustment import Adjustment
from condcs._inference.after_selection import after_selection
from condcs._inference.regions import FoundBox
from condcs._inference.results import Estimate, around, in_units, within
from condcs._regression.standardised import largest_size

_FEWEST_OF_EACH = 3
"""Rows of either sample in a half from which on it has an estimate of its own."""

_LEAST_EFFECTIVE_ROWS = 1.5
"""Rows of equal weight that weighted ones are worth, below which the factor n / (n - 1) grows no more: at 1 it would be
infinite."""

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
    reference: Estimate
    current: Estimate
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

    def __init__(self, adjustment: Adjustment, values: FloatArray, confidence_level: float) -> None:
        self.confidence_level = confidence_level
        self.unit = largest_size(values)
        scaled = values / self.unit
        # Each row is left out of its own fit, which would take a part of the difference along. At a row far from all
        # others such a fit may be anything.
        fitted = scaled - adjustment.smoother.residuals(scaled[:, None])[1][:, 0]
        self.fitted = np.clip(fitted, scaled.min(), scaled.max())
        self.residuals = scaled - self.fitted
        e = adjustment.propensity.of_rows[:, 1]
        self.common = adjustment.weights * e * (1 - e)
        self.balance = adjustment.weights * np.where(adjustment.labels == 1, 1 - e, e)
        self.labels, self.units = adjustment.labels, adjustment.propensity.units

    def mean(self, column: str, region: FoundBox, label: str | None = None, *, selected: bool) -> Change:
        """Return the mean, or the share of a label; `selected` says whether the box was region by it."""
        kind: Quantity = "mean" if label is None else "share"
        level = float(np.average(self.fitted[region.rows], weights=_positive(self.common[region.rows])))
        first, second, change = self._estimates(region, self._average, level, selected=selected)
        if label is not None:
            return Change(kind, column, label, within(first, 0, 1), within(second, 0, 1), within(change, -1, 1))
        return Change(kind, column, None, *(in_units(e, self.unit) for e in (first, second, change)))

    def spread(self, column: str, region: FoundBox, *, selected: bool) -> Change:
        """Return the standard deviation about the regression, with intervals on the scale of its logarithm."""
        logarithms = self._estimates(region, self._log_deviation, 0.0, selected=selected)
        first, second, factor = (
            Estimate(math.exp(e.value), math.exp(e.low), math.exp(e.high), e.confidence_level) for e in logarithms
        )
        return Change("spread", column, None, in_units(first, self.unit), in_units(second, self.unit), factor)

    def _average(self, rows: BoolArray, group: int) -> tuple[float, float]:
        """Return the mean of what the regression leaves in one sample, and its standard error."""
        group_rows, residuals, weights = self._group(rows, group)
        average = float(np.average(residuals, weights=weights))
        variance = self._square(group_rows, weights * (residuals - average)) / weights.sum() ** 2
        return average, float(np.sqrt(variance * _small_sample(weights)))

    def _log_deviation(self, rows: BoolArray, group: int) -> tuple[float, float]:
        """Return the logarithm of the standard deviation in one sample, and its standard error."""
        group_rows, residuals, weights = self._group(rows, group)
        squares = (residuals - np.average(residuals, weights=weights)) ** 2
        variance = max(float(np.average(squares, weights=weights)), np.finfo(float).tiny)
        error = np.sqrt(self._square(group_rows, weights * (squares - variance))) / (2 * variance * weights.sum())
        return 0.5 * float(np.log(variance * _small_sample(weights))), float(error)

    def _group(self, rows: BoolArray, group: int) -> tuple[BoolArray, FloatArray, FloatArray]:
        """Return which of some rows are of a sample (n), and the residuals and weights of these."""
        group_rows = rows & (self.labels == group)
        return group_rows, self.residuals[group_rows], _positive(self.balance[group_rows])

    def _square(self, rows: BoolArray, terms: FloatArray | IntArray) -> float:
        """Sum the squares of independent terms: those of rows, or their sums over clusters."""
        if self.units is not None:
            terms = np.bincount(self.units[rows], weights=terms)
        return float((terms**2).sum())

    def _estimates(
        self, region: FoundBox, measured: Measured, level: float, *, selected: bool
    ) -> tuple[Estimate, Estimate, Estimate]:
        """Return the level in the first sample, that in the second, and their difference.

        Bounds placed by the same rows make the difference too large, bounds placed by half of the rows too small: the
        estimate is the middle of both, the interval reaches from the lower end of the second to the upper end of the
        first. What the difference loses thereby is taken off both levels, in proportion to their variances.
        """
        (first, first_error), (second, second_error) = (measured(region.rows, group) for group in (0, 1))
        error = math.hypot(first_error, second_error)
        by_placing_rows = second - first, error
        by_other_rows = self._by_halves(region, measured) or by_placing_rows
        if selected:
            # Listed because a test of this difference was significant.
            correct = partial(
                after_selection,
                correlation=region.shared,
                threshold=region.threshold,
                confidence_level=self.confidence_level,
            )
            change = _between(correct(*by_other_rows), correct(*by_placing_rows))
        else:
            change = _between(*(self._interval(*estimate) for estimate in (by_other_rows, by_placing_rows)))
        surplus = second - first - change.value
        of_second = second_error**2 / error**2 if error > 0 else 0.5
        return (
            self._interval(level + first + (1 - of_second) * surplus, first_error),
            self._interval(level + second - of_second * surplus, second_error),
            change,
        )

    def _interval(self, value: float, error: float) -> Estimate:
        """Return an estimate with as many standard errors either way as its level asks for."""
        return around(value, float(ndtri((1 + self.confidence_level) / 2)) * error, self.confidence_level)

    def _by_halves(self, region: FoundBox, measured: Measured) -> tuple[float, float] | None:
        """Return the difference, and its error, in the box as placed by rows that it is not measured on.

        None where neither half has enough rows for an estimate.
        """
        differences, variances, weights = [], [], []
        for half in (region.tested_on, ~region.tested_on):
            rows = half & region.by_other_half
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
    """Return n / (n - 1), by which squares about a mean of the same n rows are too small."""
    rows = max(weights.sum() ** 2 / (weights**2).sum(), _LEAST_EFFECTIVE_ROWS)
    return float(rows / (rows - 1))
