"""Inputs in units in which they can be compared: numbers in deviations or by their ranks, labels as codes 0, 1, ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray, RealArray, ranked
from condcs._kernels.pair_medians import median

FEW_VALUES = 8
"""Columns of numbers with no more distinct values than this are also seen as labels: no room for a spline."""

_HEAVY = 5.0
"""A column has heavy tails if 98% of its rows spread over so many times the range of the middle half: 3.4 for a normal
variable, 4.2 for an exponential one, 6.9 for a lognormal one. In its own units nearly all rows lie in one place, where
no bump or product tells them apart, so that it counts by its normal scores; a line in its own units is kept."""

_ROUNDING_DEVIATION = 1e-14
"""Deviation, in units of the largest value, below which a column is constant but for rounding."""

_APART = 1e-12
"""Squared distance, in units of the largest one, below which two rows are the same but for rounding."""


@dataclass(frozen=True, eq=False)
class StandardisedInputs:
    """The columns of x: numbers about 0 in units of their deviations, labels as codes.

    Attributes
    ----------
    numbers : array, shape (n, d)
        Columns of numbers, those with heavy tails by their normal scores.
    in_own_units : array, shape (n, h)
        The columns with heavy tails once more, in deviations of the numbers as they came.
    heavy : array of bool, shape (d,)
        Which columns of `numbers` have heavy tails.
    categories : sequence of array, shape (n,)
        Codes 0, 1, ... of each column of labels.
    """

    numbers: FloatArray
    in_own_units: FloatArray
    heavy: BoolArray
    categories: Sequence[IntArray]

    @classmethod
    def of(cls, x: FloatArray, is_category: Sequence[bool]) -> StandardisedInputs:
        """Standardise x (n, columns); those with `is_category` are labels coded as numbers."""
        flags = np.asarray(is_category, bool)
        standardised = np.asarray(in_deviations(x[:, ~flags]), np.float64)  # (n, d)
        heavy = _heavy_tailed(standardised)
        numbers = standardised
        if heavy.any():
            scores = in_deviations(normal_scores(standardised))
            numbers = np.asarray(np.where(heavy, scores, standardised), np.float64)
        # Codes 0, 1, ... instead of whatever numbers stand for labels.
        categories = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in x[:, flags].T]
        return cls(numbers, standardised[:, heavy], heavy, categories)

    @property
    def indicators(self) -> list[FloatArray]:
        """Indicator columns of each column of labels (n, categories), one per category."""
        return [(codes[:, None] == np.arange(codes.max() + 1)).astype(np.float64) for codes in self.categories]


def in_deviations(x: RealArray) -> RealArray:
    """Columns centred, in units of their standard deviations; constant ones are 0."""
    # In units of the largest value, so that no square overflows.
    scaled = x / np.maximum(np.abs(x).max(axis=0, initial=0.0), np.finfo(x.dtype).tiny)
    centred = scaled - scaled.mean(axis=0)
    deviation = centred.std(axis=0)
    varies = deviation > _ROUNDING_DEVIATION
    return np.asarray(np.where(varies, centred / np.maximum(deviation, _ROUNDING_DEVIATION), 0.0))


def normal_scores(x: RealArray) -> FloatArray:
    """Columns replaced by the normal quantiles of their ranks; ties share their mean rank."""
    from scipy.special import ndtri

    return np.asarray(ndtri(ranked(x)))


def largest_size(values: RealArray) -> float:
    """Return the largest absolute value: a unit in which squares neither overflow nor vanish."""
    return max(float(np.abs(values).max()), float(np.finfo(float).tiny))


def squared_distances(a: RealArray, b: RealArray) -> RealArray:
    """Squared Euclidean distances between the rows of two arrays: (n, d) and (m, d) give (n, m)."""
    return np.asarray(np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * (a @ b.T), 0.0))


def median_square(squared: RealArray) -> float:
    """Median of the squared distances that are more than rounding errors, 1 if there are none."""
    apart = squared[squared > _APART * squared.max(initial=0.0)]
    return median(apart) if len(apart) else 1.0


def _heavy_tailed(x: RealArray) -> BoolArray:
    """Columns of many values whose outer ones lie far apart compared with the middle half of the rows."""
    if not x.size:
        return np.zeros(x.shape[1], bool)
    low, first, third, high = np.quantile(x, [0.01, 0.25, 0.75, 0.99], axis=0)  # (d,) each
    has_many_values = np.array([len(np.unique(column)) > FEW_VALUES for column in x.T])
    is_wide = high - low > _HEAVY * (third - first)
    return np.asarray(has_many_values & is_wide)
