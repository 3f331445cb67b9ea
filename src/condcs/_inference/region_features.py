"""Functions of the response whose conditional means tell whether, and how, p(y|x) changed in some place of x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from condcs._inference.smoothing import Smoother

FloatArray = np.ndarray[Any, Any]
Kind = Literal["mean", "spread", "shape", "share"]

_CLIPPED = 3.0
_LEAST_VARIANCE = 0.1
_NEGLIGIBLE = 1e-9
_MOST_LABELS = 8


@dataclass(frozen=True)
class Feature:
    """A function of a response, minus its regression on x.

    Attributes
    ----------
    kind : {"mean", "spread", "shape", "share"}
        What it sees.
    column : int
        Which response.
    values : array, shape (n,)
        With mean 0 and variance 1.
    label : float
        For "share", whose share.
    """

    kind: Kind
    column: int
    values: FloatArray
    label: float = 0.0


def response_features(y: FloatArray, labels: Sequence[bool], smoother: Smoother) -> list[Feature]:
    """Return the functions of every response: of numbers for mean, spread and shape, of labels for their shares."""
    found: list[Feature] = []
    for column, is_label in enumerate(labels):
        if is_label:
            found += _shares(y[:, column], column, smoother)
            continue
        z = _standardised(y[:, column], smoother)
        if z.any():
            found += [Feature("mean", column, z), *curved_features(z, column, smoother)]
    return found


def curved_features(z: FloatArray, column: int, smoother: Smoother) -> list[Feature]:
    """Return what sees the spread and the shape of residuals of variance 1.

    The size of a residual tells of the spread as well as its square and is less at the mercy of a few rows. A bump at 0
    without its regression on the residual and its square tells of the shape: several modes, heavier tails.
    """
    peak = np.exp(-2 * z**2)
    lower = np.column_stack([np.ones_like(z), z, z**2])
    peak = peak - lower @ np.linalg.lstsq(lower, peak, rcond=None)[0]
    spread, shape = smoother.residuals(np.column_stack([np.abs(z), peak]))[0].T
    return [Feature("spread", column, _unit(spread)), Feature("shape", column, _unit(shape))]


def _shares(codes: FloatArray, column: int, smoother: Smoother) -> list[Feature]:
    names, sizes = np.unique(codes, return_counts=True)
    # Two labels have one share between them.
    chosen = names[1:] if len(names) == 2 else names[np.argsort(-sizes, kind="stable")][:_MOST_LABELS]
    left = smoother.residuals((codes[:, None] == chosen).astype(np.float64))[0]
    return [Feature("share", column, _unit(left[:, k]), float(name)) for k, name in enumerate(chosen)]


def _standardised(values: FloatArray, smoother: Smoother) -> FloatArray:
    """Numbers minus their regression on x, clipped, in units of the spread that x explains; 0 if nothing is left."""
    scaled = values / max(float(np.abs(values).max()), np.finfo(float).tiny)
    left = smoother.residuals(scaled[:, None])[0][:, 0]
    # What x explains to the last digits leaves rounding errors, which are no response.
    if left.std() <= _NEGLIGIBLE * scaled.std():
        return np.zeros_like(left)
    left = left - np.median(left)
    deviation = 1.4826 * float(np.median(np.abs(left))) or float(left.std())
    clipped = np.clip(left / deviation, -_CLIPPED, _CLIPPED)
    # Where the noise is large a row tells less.
    squares = clipped**2
    variance = squares - smoother.residuals(squares[:, None])[0][:, 0]
    z = clipped / np.sqrt(np.maximum(variance, _LEAST_VARIANCE * squares.mean()))
    return _unit(smoother.residuals(z[:, None])[0][:, 0])


def _unit(values: FloatArray) -> FloatArray:
    deviation = float(values.std())
    return np.asarray((values - values.mean()) / deviation if deviation > 0 else np.zeros_like(values))
