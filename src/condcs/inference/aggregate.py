"""Several statistics, one p-value."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condcs.inference.results import ROUNDING, TIE, check_numbers, pvalue
from condcs.inference.statistics import FloatArray


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
