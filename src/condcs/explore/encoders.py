"""From observations of any shape to the few numbers that a kernel can compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from condcs.core.checks import check_integer, check_positive
from condcs.core.errors import DataError, ShapeError
from condcs.core.random import check_rng

Encoder = Callable[[Any], Any]
"""A function of an observation that returns a vector, best with entries between 0 and 1."""


class RandomFeatures:
    r"""Random features of an observation: :math:`(1 + \tanh(W o + b)) / 2`, W and b fixed and random.

    Keeps observations apart that differ, without learning anything: enough for counting and comparing visits of images
    and other high-dimensional observations.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of an observation.
    dim : int
        Number of features.
    scale : float
        Observations are divided by this first (255 for images).
    rng : int or Generator, optional
        Draws W and b.

    Examples
    --------
    >>> import numpy as np
    >>> encoder = RandomFeatures((8, 8), 3, rng=0)
    >>> encoder(np.zeros((8, 8))).shape
    (3,)
    """

    def __init__(
        self, shape: int | Sequence[int], dim: int, *, scale: float = 1.0, rng: int | np.random.Generator | None = None
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(s) for s in shape)
        self.dim, self.scale = check_integer("dim", dim, 1), check_positive("scale", scale)
        generator = check_rng(rng)
        size = math.prod(self.shape)
        # Pre-activations of unit variance for standardised inputs: the slope of tanh keeps neighbours apart.
        self._weights = generator.normal(size=(self.dim, size)) / math.sqrt(size)
        self._bias = 0.5 * generator.normal(size=self.dim)

    def __call__(self, observation: Any) -> np.ndarray[Any, Any]:
        """Return the features of one observation."""
        given = np.asarray(observation, dtype=np.float64)
        if given.shape != self.shape:
            raise ShapeError(
                f"`observation` must have shape {self.shape}, got {given.shape}. Make the encoder for that shape."
            )
        return np.asarray(0.5 * (1.0 + np.tanh(self._weights @ (given.reshape(-1) / self.scale) + self._bias)))


def checked_state(values: Any, dim: int | None) -> np.ndarray[Any, Any]:
    """Return what an encoder gave, as one finite vector of the right length."""
    state = np.array(values, dtype=np.float64).reshape(-1)
    if dim is not None and state.size != dim:
        raise ShapeError(f"the observation must have {dim} numbers, got {state.size}. Use one environment per agent.")
    if not np.isfinite(state).all():
        raise DataError(
            f"the observation must be finite, got {state.tolist()}. Check the environment, or clean observations with "
            "an `encoder`."
        )
    return state
