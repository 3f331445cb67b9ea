"""Functions of the response in which a change may show: its mean, spread and shape, or the shares of its labels.

Regions are found and tested by these (`condcs._inference.regions`); the views of a test of all rows are made of an
`AdjustedResponse` (`condcs._inference.responses`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, RealArray
from condcs._inference.responses import Regressed, clipped_deviations
from condcs._regression.smoother import Smoother
from condcs._regression.standardised import largest_size

FeatureKind = Literal["mean", "spread", "shape", "share"]

_CLIPPED_IN_FEATURES = 3.0
"""Robust deviations at which residuals are clipped: normal ones hardly are, and an outlier counts as one far row. It is
between the limits of `condcs._inference.responses` for sums (2.5) and for kernels (4), because the features of the mean
are made of the same clipped residuals as those of spread and shape, which show in the tails."""
_LEAST_VARIANCE = 0.1
"""Least local variance, as a part of the mean: rows where a fitted one is near 0 would outweigh all others."""
_ALIKE = 0.97
"""Correlation above which residuals in units of their local spread and plain ones see the same changes."""
_MOST_LABELS = 8
"""Labels of a response that have a function each, the most frequent ones: every further one is a further look."""


@dataclass(frozen=True)
class Feature:
    """A function of a response, minus its regression on x."""

    kind: FeatureKind  # what it sees
    column: int  # which response
    values: RealArray  # (n,), with mean 0 and variance 1
    label: float = 0.0  # for "share", whose share


class ClippedResiduals(NamedTuple):
    """A column of numbers minus its regression on x, clipped, with mean 0 and variance 1 or all 0; both are (n,)."""

    plain: RealArray
    """In units of one deviation for all rows."""
    local: RealArray
    """In units of the deviation that x explains at each row."""


def response_features(y: FloatArray, is_category: Sequence[bool], smoother: Smoother) -> list[Feature]:
    """Return the functions of every response: of numbers for mean, spread and shape, of labels for their shares."""
    features: list[Feature] = []
    for column, of_labels in enumerate(is_category):
        if of_labels:
            features += _shares(y[:, column], column, smoother)
            continue
        residuals = clipped_residuals(y[:, column], smoother)
        if not residuals.local.any():
            continue
        features += [Feature("mean", column, residuals.local), *curved_features(residuals.local, column, smoother)]
        # A large change makes the spread around the regression large, and would not stand out in units of that.
        correlation = float(np.mean(residuals.local * residuals.plain))
        if correlation < _ALIKE:
            features.append(Feature("mean", column, residuals.plain))
    return features


def curved_features(residuals: RealArray, column: int, smoother: Smoother) -> list[Feature]:
    """Return what sees the spread and the shape of residuals of variance 1 (n,).

    The size of a residual tells of the spread as well as its square and is less at the mercy of a few rows. A bump at 0
    without its regression on the residual and its square tells of the shape: several modes, heavier tails.
    """
    size = np.abs(residuals)
    bump = np.exp(-2 * residuals**2)
    powers = np.column_stack([np.ones_like(residuals), residuals, residuals**2])  # (n, 3)
    bump = bump - powers @ np.linalg.lstsq(powers, bump, rcond=None)[0]
    spread, shape = smoother.residuals(np.column_stack([size, bump])).in_sample.T
    return [Feature("spread", column, _standardise(spread)), Feature("shape", column, _standardise(shape))]


def clipped_residuals(values: FloatArray, smoother: Smoother) -> ClippedResiduals:
    """Subtract from numbers (n,) their regression on x, and clip what is left; 0 if x explains them."""
    scaled = (values / largest_size(values))[:, None]  # (n, 1)
    regressed = Regressed(scaled, *smoother.residuals(scaled))
    if regressed.is_explained[0]:
        nothing = np.zeros_like(regressed.residuals[:, 0])
        return ClippedResiduals(nothing, nothing)
    clipped = clipped_deviations(regressed.residuals, _CLIPPED_IN_FEATURES)  # (n, 1)
    # Where the noise is large a row tells less.
    squares = clipped**2
    local_variance = squares - smoother.residuals(squares).in_sample  # (n, 1): their regression on x
    local = clipped / np.sqrt(np.maximum(local_variance, _LEAST_VARIANCE * squares.mean()))
    # Clipping, and division, leave something that depends on x once more.
    plain, local = smoother.residuals(np.hstack([clipped, local])).in_sample.T
    return ClippedResiduals(_standardise(plain), _standardise(local))


def _shares(codes: FloatArray, column: int, smoother: Smoother) -> list[Feature]:
    """Return the functions of a response of labels: the indicator of each, minus its regression on x."""
    labels, row_counts = np.unique(codes, return_counts=True)
    # Two labels have one share between them.
    chosen = labels[1:] if len(labels) == 2 else labels[np.argsort(-row_counts, kind="stable")][:_MOST_LABELS]
    indicators = (codes[:, None] == chosen).astype(np.float64)  # (n, labels)
    residuals = smoother.residuals(indicators).in_sample
    return [Feature("share", column, _standardise(residuals[:, k]), float(label)) for k, label in enumerate(chosen)]


def _standardise(values: RealArray) -> RealArray:
    """Return values with mean 0 and variance 1; zeros if they do not vary."""
    deviation = float(values.std())
    return np.asarray((values - values.mean()) / deviation if deviation > 0 else np.zeros_like(values))
