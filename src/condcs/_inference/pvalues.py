"""P-values: of one statistic, and of several together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condcs._core.errors import DataError

FloatArray = np.ndarray[Any, Any]

TIE = 1e-10
"""Resampled values this close to the statistic, in units of its own size, count as reaching it."""

ROUNDING = 1e-12
"""Rounding error of a statistic, in units of the terms that it is a difference of.

Kernel masses keep 13 digits or more, because one group's may be the total less the other's. A log contrast is made of
four sums of them, so equal divergences are found within four times that of one another. Where the terms all but cancel
(two samples that are the same under every labelling), what is left is this error alone and has no size of its own.
"""

_LEAST_VARIANCE = 1e-12


def pvalue(statistic: float, null_distribution: FloatArray, *, rounding: float = 0.0) -> float:
    """Return (1 + #{null >= statistic}) / (1 + P), ties counted as reached.

    Two values tie if they differ by at most 1e-10 of the larger of the statistic and the median resampled value (both
    without sign), or by the rounding error. So the unit of the data does not matter, and one resampled value that lies
    far out does not turn others into ties.

    Parameters
    ----------
    statistic : float
        The value on the data.
    null_distribution : array
        The values on resamples.
    rounding : float
        Absolute rounding error of the values.

    Raises
    ------
    DataError
        If the statistic or one of the resampled values is not a finite number. NaN is never >= anything: it would get
        the smallest p-value.

    Examples
    --------
    >>> pvalue(2.0, np.array([1.0, 2.0, 0.5]))
    0.5
    """
    null = np.asarray(null_distribution, np.float64)
    check_numbers(np.asarray(statistic), "for the samples as given")
    check_numbers(null, f"for {np.sum(~np.isfinite(null))} of {len(null)} resamples")
    size = max(abs(statistic), float(np.median(np.abs(null)))) if len(null) else 0.0
    return float((1 + np.sum(null >= statistic - max(TIE * size, rounding))) / (1 + len(null)))


def check_numbers(values: FloatArray, where: str) -> None:
    """Refuse statistics that are not numbers: no p-value follows from them."""
    bad = values[~np.isfinite(values)]
    if len(bad):
        raise DataError(
            f"the statistic must be a finite number, got {bad[0]} {where}. That comes of a sample without spread in "
            "some column, or of values whose squares overflow or underflow. Drop constant columns, bring the data to "
            "a common scale (divide by the standard deviation), or use another measure."
        )


class Combined(NamedTuple):
    """The largest of several studentised statistics, that of each resample, the p-value, and which one was largest."""

    statistic: float
    null_distribution: FloatArray
    pvalue: float
    most_telling: int


def largest_studentised(observed: FloatArray, values: FloatArray) -> Combined:
    """Combine statistics (rows) by the largest studentised value, against the largest of each resample (columns).

    Mean and deviation are those of the resamples and the observed value together, so that under the null all of them
    are exchangeable and the p-value is as valid as that of a single statistic.
    """
    everything = np.concatenate([observed[:, None], values], axis=1)
    check_numbers(everything[:, 0], "for the samples as given")
    check_numbers(everything[:, 1:], "for some resamples")
    deviation = everything.std(axis=1, keepdims=True)
    # A statistic that is the same under every labelling varies by rounding alone, which must not be blown up.
    varies = deviation > np.maximum(TIE * np.abs(everything).max(axis=1, keepdims=True), ROUNDING)
    studentised = (everything - everything.mean(axis=1, keepdims=True)) / np.where(varies, deviation, 1.0)
    largest = studentised.max(axis=0)
    statistic = float(largest[0])
    return Combined(
        statistic, largest[1:], pvalue(statistic, largest[1:], rounding=ROUNDING), int(np.argmax(studentised[:, 0]))
    )


class Evidence(NamedTuple):
    """Evidence of several statistics together: of the data, of each resample, and the p-values."""

    statistic: float
    null_distribution: FloatArray
    pvalue: float
    pvalues: FloatArray


def combined_evidence(values: FloatArray, weights: FloatArray | None = None) -> Evidence:
    """Combine statistics (rows) of the data (first column) and of resamples (the other columns) in one p-value.

    The evidence of a column is the logarithm of the (weighted) mean over the statistics of 1/p, p being the chance of
    its value under a gamma distribution that has the first three moments of the other columns: the harmonic mean of
    p-values, which one strong statistic is enough to make small (Wilson 2019). All columns are treated alike, so under
    the null hypothesis they are exchangeable, and the p-value is as valid as that of a single statistic; the gamma
    distributions only decide how the statistics are weighed against one another.
    """
    check_numbers(values[:, 0], "for the samples as given")
    check_numbers(values[:, 1:], "for some resamples")
    evidence = np.log(np.average(1 / _chances(values), axis=0, weights=weights))
    statistic = float(evidence[0])
    own = np.array([pvalue(float(row[0]), row[1:], rounding=ROUNDING) for row in values])
    return Evidence(statistic, evidence[1:], pvalue(statistic, evidence[1:], rounding=ROUNDING), own)


def _chances(values: FloatArray) -> FloatArray:
    """Chance of a value at least as large, by the cube root of Wilson and Hilferty.

    The moments are those of the other columns: a value far out would else hide behind the deviation that it makes.
    """
    from scipy.special import ndtr

    deviation = values.std(axis=1, keepdims=True)
    varies = deviation > np.maximum(TIE * np.abs(values).max(axis=1, keepdims=True), ROUNDING * 1e-3)
    units = np.where(varies, (values - values.mean(axis=1, keepdims=True)) / np.where(varies, deviation, 1.0), 0.0)
    others = units.shape[1] - 1
    first, second, third = (((units**k).sum(axis=1, keepdims=True) - units**k) / max(others, 1) for k in (1, 2, 3))
    variance = np.maximum(second - first**2, _LEAST_VARIANCE)
    skewness = np.clip((third - 3 * first * second + 2 * first**3) / variance**1.5, 0.05, 6.0)
    ninth = skewness**2 / 36
    roots = np.cbrt(np.maximum(1 + (units - first) / np.sqrt(variance) * skewness / 2, 1e-9))
    return np.asarray(np.maximum(ndtr(-(roots - 1 + ninth) / np.sqrt(ninth)), 1e-15))
