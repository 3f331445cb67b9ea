r"""Estimates of what was selected because it was large.

A change is listed because a statistic T of it exceeded a threshold c, in either direction: of small changes only those
that chance has enlarged. With an estimate Z of the same change, in units of its error, and with correlation r between
both, the chance to be listed given Z = z is

.. math:: S(z) = \Phi\left(\frac{r z - c}{\sqrt{1 - r^2}}\right) + \Phi\left(\frac{-r z - c}{\sqrt{1 - r^2}}\right),

whatever the change is, and where it is d, Z has a density proportional to :math:`\varphi(z - d) S(z)` among what is
listed ("data carving", Fithian, Sun, Taylor, arXiv 1410.2597). An estimate is the d for which the observed z is the
median of that distribution, and an interval ends where z is at its quantiles.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from condcs._core.arrays import FloatArray
from condcs._inference.results import Estimate, around

_REACH = 9.0
"""Standard errors from the middle of a normal density beyond which nothing is left of it, in double precision."""
_STEP = 0.05
"""Steps of the grids of z and of d in standard errors; between them, quantiles are interpolated."""
_FARTHEST = 8.0
"""How far below the observed z a change may be, in standard errors, to which an interval of the usual levels reaches:
by 5 at thresholds around 3."""


def after_selection(
    value: float, error: float, *, correlation: float, threshold: float, confidence_level: float
) -> Estimate:
    """Return an estimate, and its interval, of a change that is listed because a statistic exceeded a threshold.

    Parameters
    ----------
    value, error : float
        The estimate as it is, and its standard error.
    correlation : float
        Between the estimate and the statistic, both in units of their standard errors.
    threshold : float
        What the absolute value of the statistic had to exceed, in units of its standard error.
    confidence_level : float
        Of the interval.
    """
    if error == 0:
        return around(value, 0.0, confidence_level)
    sign, z = (-1.0 if value < 0 else 1.0), abs(value) / error

    # For each change d the density of Z among what is listed, phi(Z - d) S(Z), and its sums from below.
    changes = np.arange(z - _FARTHEST, z + _FARTHEST, _STEP)  # (d,)
    noise = np.arange(-_REACH, _REACH + _STEP, _STEP)  # (m,): Z - d
    mean_of_statistic = correlation * (changes[:, None] + noise)  # (d, m): of T given Z, r Z
    deviation = np.sqrt(1 - correlation**2)  # of T given Z
    listed = ndtr((mean_of_statistic - threshold) / deviation) + ndtr((-mean_of_statistic - threshold) / deviation)
    cumulative = np.cumsum(np.exp(-(noise**2) / 2) * listed, axis=1)  # (d, m)

    # P(Z <= z) for each d, which falls with d. Each sum reaches half of a step beyond its point of the grid.
    columns = (z - changes - noise[0]) / _STEP - 0.5
    below = _interpolated(cumulative, columns) / cumulative[:, -1]  # (d,)

    # The changes for which z is at these quantiles.
    levels = np.array([0.5, (1 + confidence_level) / 2, (1 - confidence_level) / 2])
    middle, low, high = error * np.interp(-levels, -below, changes)
    low, high = sorted((sign * low, sign * high))
    return Estimate(float(sign * middle), float(low), float(high), confidence_level)


def _interpolated(matrix: FloatArray, columns: FloatArray) -> FloatArray:
    """Return one value of each row of a matrix: at a column that need not be whole, between the values beside it."""
    lower = np.clip(columns.astype(np.int64), 0, matrix.shape[1] - 2)
    share, rows = columns - lower, np.arange(len(matrix))
    return np.asarray((1 - share) * matrix[rows, lower] + share * matrix[rows, lower + 1])
