r"""What y did in a region: means, spreads and shares in both samples, for the same inputs, with intervals.

Inside a region x may be distributed differently in the two samples. So rows of the first sample are weighted by the
probability e of the second given x, and rows of the second by 1 - e, which gives both the same distribution of x (that
of the rows where both occur), and averages are taken of what the regression on x leaves:

.. math:: \bar y_g = \frac{\sum v_i m_i}{\sum v_i} + \frac{\sum_g w_i r_i}{\sum_g w_i}, \qquad v = e (1 - e),

with m the regression and r = y - m. If either of the two estimates is good, so is the average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from condcs._inference.regions import Ground
from condcs._inference.results import Estimate

FloatArray = np.ndarray[Any, Any]
Rows = np.ndarray[Any, Any]
Quantity = Literal["mean", "spread", "share"]


@dataclass(frozen=True)
class Change:
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
    """Averages of one response in any region.

    Parameters
    ----------
    ground : Ground
        The rows.
    values : array, shape (n,)
        The response, or the indicator of a label.
    reach : float
        Half of an interval in standard errors.
    """

    def __init__(self, ground: Ground, values: FloatArray, reach: float) -> None:
        # In units of the largest value, whose square may be too large or too small for a number.
        self.unit = max(float(np.abs(values).max()), np.finfo(float).tiny)
        scaled = values / self.unit
        # Each row is left out of its own fit, which would take a part of the difference along.
        self.left = ground.smoother.residuals(scaled[:, None])[1][:, 0]
        self.fitted = scaled - self.left
        e = ground.propensity.of_rows[:, 1]
        self.common = ground.weights * e * (1 - e)
        self.balance = ground.weights * np.where(ground.labels == 1, 1 - e, e)
        self.labels, self.reach, self.units = ground.labels, reach, ground.propensity.units

    def mean(self, column: str, rows: Rows, label: str | None = None) -> Change:
        """Return the mean, or the share of a label."""
        level = float(np.average(self.fitted[rows], weights=_positive(self.common[rows])))
        values, errors = [], []
        for group in (0, 1):
            own, left, weights = self._group(rows, group)
            average = float(np.average(left, weights=weights))
            variance = self._square(own, weights * (left - average)) / weights.sum() ** 2
            values.append(level + average)
            errors.append(float(np.sqrt(variance * _small_sample(weights))))
        before, now = (self._around(value, error) for value, error in zip(values, errors, strict=True))
        change = self._around(values[1] - values[0], math.hypot(*errors))
        if label is not None:
            return Change("share", column, label, _clipped(before, 0), _clipped(now, 0), _clipped(change, -1))
        return Change("mean", column, None, *(_times(e, self.unit) for e in (before, now, change)))

    def spread(self, column: str, rows: Rows) -> Change:
        """Return the standard deviation about the regression, with intervals on the scale of its logarithm."""
        logs, errors = [], []
        for group in (0, 1):
            own, left, weights = self._group(rows, group)
            squares = (left - np.average(left, weights=weights)) ** 2
            variance = max(float(np.average(squares, weights=weights)), np.finfo(float).tiny)
            error = np.sqrt(self._square(own, weights * (squares - variance))) / (2 * variance * weights.sum())
            logs.append(0.5 * float(np.log(variance * _small_sample(weights))))
            errors.append(float(error))
        before, now = (self._around(value, error) for value, error in zip(logs, errors, strict=True))
        change = self._around(logs[1] - logs[0], math.hypot(*errors))
        before, now, change = (Estimate(*(math.exp(v) for v in e)) for e in (before, now, change))
        return Change("spread", column, None, _times(before, self.unit), _times(now, self.unit), change)

    def _group(self, rows: Rows, group: int) -> tuple[Rows, FloatArray, FloatArray]:
        own = rows & (self.labels == group)
        return own, self.left[own], _positive(self.balance[own])

    def _square(self, rows: Rows, terms: FloatArray) -> float:
        """Sum the squares of independent terms: those of rows, or their sums over clusters."""
        if self.units is not None:
            terms = np.bincount(self.units[rows], weights=terms)
        return float((terms**2).sum())

    def _around(self, value: float, error: float) -> Estimate:
        return Estimate(value, value - self.reach * error, value + self.reach * error)


def _positive(weights: FloatArray) -> FloatArray:
    """Weights, or ones where all are 0: rows of a label that only one sample has."""
    return weights if weights.sum() > 0 else np.ones_like(weights)


def _small_sample(weights: FloatArray) -> float:
    rows = weights.sum() ** 2 / (weights**2).sum()
    return float(rows / (rows - 1)) if rows > 1.5 else 3.0


def _times(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(*(factor * value for value in estimate))


def _clipped(estimate: Estimate, low: float) -> Estimate:
    return Estimate(*(float(np.clip(value, low, 1.0)) for value in estimate))
