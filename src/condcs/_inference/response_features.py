"""Functions of the response in which a change may show: its mean, spread and shape, or the shares of its labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from condcs._core.arrays import FloatArray, RealArray
from condcs._inference.responses import MADS_PER_DEVIATION
from condcs._regression.smoother import Smoother
from condcs._regression.standardised import largest_size

FeatureKind = Literal["mean", "spread", "shape", "share"]

_CLIPPED = 3.0
"""Residuals are cut off at so many robust deviations: normal ones hardly are, and an outlier counts as one far row."""
_LEAST_VARIANCE = 0.1
"""Least local variance, as a part of the mean: rows where a fitted one is near 0 would outweigh all others."""
_NEGLIGIBLE = 1e-9
"""Part of the spread below which residuals are rounding errors of a response that x explains."""
_ALIKE = 0.97
"""Correlation above which residuals in units of their local spread and plain ones see the same changes."""
_MOST_LABELS = 8
"""Labels of a response that have a function each, the most frequent ones: every further one is a further look."""


@dataclass(frozen=True)
class Feature:
    """A function of a response, minus its regression on x."""

    kind: FeatureKind  # what it sees
    column: int  # which response
    values: RealArray  # n, with mean 0 and variance 1
    label: float = 0.0  # for "share", whose share


def response_features(y: FloatArray, labels: Sequence[bool], smoother: Smoother) -> list[Feature]:
    """Return the functions of every response: of numbers for mean, spread and shape, of labels for their shares."""
    features: list[Feature] = []
    for column, is_label in enumerate(labels):
        if is_label:
            features += _shares(y[:, column], column, smoother)
            continue
        plain, z = standardised(y[:, column], smoother)
        if not z.any():
            continue
        features += [Feature("mean", column, z), *curved_features(z, column, smoother)]
        # A large change makes the spread around the regression large, and would not stand out in units of that.
        if float(np.mean(z * plain)) < _ALIKE:
            features.append(Feature("mean", column, plain))
    return features


def curved_features(z: RealArray, column: int, smoother: Smoother) -> list[Feature]:
    """Return what sees the spread and the shape of residuals of variance 1.

    The size of a residual tells of the spread as well as its square and is less at the mercy of a few rows. A bump at 0
    without its regression on the residual and its square tells of the shape: several modes, heavier tails.
    """
    peak = np.exp(-2 * z**2)
    lower = np.column_stack([np.ones_like(z), z, z**2])
    peak = peak - lower @ np.linalg.lstsq(lower, peak, rcond=None)[0]
    spread, shape = smoother.residuals(np.column_stack([np.abs(z), peak])).in_sample.T
    return [Feature("spread", column, _unit(spread)), Feature("shape", column, _unit(shape))]


def _shares(codes: FloatArray, column: int, smoother: Smoother) -> list[Feature]:
    """Return the functions of a response of labels: the indicator of each, minus its regression on x."""
    names, sizes = np.unique(codes, return_counts=True)
    # Two labels have one share between them.
    chosen = names[1:] if len(names) == 2 else names[np.argsort(-sizes, kind="stable")][:_MOST_LABELS]
    residuals = smoother.residuals((codes[:, None] == chosen).astype(np.float64)).in_sample
    return [Feature("share", column, _unit(residuals[:, k]), float(name)) for k, name in enumerate(chosen)]


def standardised(values: FloatArray, smoother: Smoother) -> tuple[RealArray, RealArray]:
    """Numbers minus their regression on x, clipped, and the same in units of the spread that x explains; 0 if none."""
    scaled = values / largest_size(values)
    residuals = smoother.residuals(scaled[:, None]).in_sample[:, 0]
    # What x explains to the last digits leaves rounding errors, which are no response.
    if residuals.std() <= _NEGLIGIBLE * scaled.std():
        return np.zeros_like(residuals), np.zeros_like(residuals)
    residuals = residuals - np.median(residuals)
    deviation = MADS_PER_DEVIATION * float(np.median(np.abs(residuals))) or float(residuals.std())
    clipped = np.clip(residuals / deviation, -_CLIPPED, _CLIPPED)
    # Where the noise is large a row tells less.
    squares = clipped**2
    variance = squares - smoother.residuals(squares[:, None]).in_sample[:, 0]
    z = clipped / np.sqrt(np.maximum(variance, _LEAST_VARIANCE * squares.mean()))
    plain, z = smoother.residuals(np.column_stack([clipped, z])).in_sample.T
    return _unit(plain), _unit(z)


def _unit(values: RealArray) -> RealArray:
    """Return values with mean 0 and variance 1; zeros if they do not vary."""
    deviation = float(values.std())
    return np.asarray((values - values.mean()) / deviation if deviation > 0 else np.zeros_like(values))
