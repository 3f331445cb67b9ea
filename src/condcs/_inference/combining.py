"""Several statistics, one p-value."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condcs._inference.results import ROUNDING, TIE, check_numbers, pvalue
from condcs._inference.statistics import FloatArray


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
    its value under a gamma distribution that has the first three moments of the row: the harmonic mean of p-values,
    which one strong statistic is enough to make small (Wilson 2019). The moments are those of all columns alike, so
    under the null hypothesis the columns are exchangeable, and the p-value is as valid as that of a single statistic;
    the gamma distributions only decide how the statistics are weighed against one another.
    """
    check_numbers(values[:, 0], "for the samples as given")
    check_numbers(values[:, 1:], "for some resamples")
    evidence = np.log(np.average(1 / _chances(values), axis=0, weights=weights))
    statistic = float(evidence[0])
    own = np.array([pvalue(float(row[0]), row[1:], rounding=ROUNDING) for row in values])
    return Evidence(statistic, evidence[1:], pvalue(statistic, evidence[1:], rounding=ROUNDING), own)


def _chances(values: FloatArray) -> FloatArray:
    """Chance of a value at least as large, by the cube root of Wilson and Hilferty."""
    from scipy.special import ndtr

    mean = values.mean(axis=1, keepdims=True)
    deviation = values.std(axis=1, keepdims=True)
    varies = deviation > np.maximum(TIE * np.abs(values).max(axis=1, keepdims=True), ROUNDING * 1e-3)
    units = np.where(varies, (values - mean) / np.where(varies, deviation, 1.0), 0.0)
    skewness = np.clip((units**3).mean(axis=1, keepdims=True), 0.05, 6.0)
    ninth = skewness**2 / 36
    roots = np.cbrt(np.maximum(1 + units * skewness / 2, 1e-9))
    return np.asarray(np.maximum(ndtr(-(roots - 1 + ninth) / np.sqrt(ninth)), 1e-15))
