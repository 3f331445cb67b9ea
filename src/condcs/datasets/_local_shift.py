"""Two samples whose conditional distributions differ on a known interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.arrays import ByValue
from condcs._core.checks import check_rng


@dataclass(frozen=True, eq=False)
class LocalShift(ByValue):
    """Two samples and the interval of x on which their conditionals differ."""

    xp: np.ndarray[Any, Any]
    yp: np.ndarray[Any, Any]
    xq: np.ndarray[Any, Any]
    yq: np.ndarray[Any, Any]
    region: tuple[float, float]


def make_local_shift(
    n: int = 400, *, shift: float = 0.8, covariate_shift: float = 0.5, rng: int | np.random.Generator | None = 0
) -> LocalShift:
    """Two samples whose p(y|x) differ only where 1 <= x <= 2, while p(x) differs everywhere.

    x lies between -3 and 3, y = sin(1.5 x) + noise in both; in the second sample `shift` is added on the region.

    Parameters
    ----------
    n : int
        Rows of each sample.
    shift : float
        How much y moves on the region (its noise has standard deviation 0.3). 0 makes the conditionals equal.
    covariate_shift : float
        From 0 (the same p(x)) to below 2: the first sample is skewed to the left, the second to the right.
    rng : int or Generator
        Random generator, or its seed.

    Returns
    -------
    LocalShift
        The samples (xp, yp, xq, yq), each of shape (n, 1), and the region.

    Examples
    --------
    >>> data = make_local_shift(100)
    >>> data.xp.shape, data.region
    ((100, 1), (1.0, 2.0))
    """
    generator = check_rng(rng)
    region = (1.0, 2.0)
    # Bounded, because a lone row in a tail of x weighs as much as a whole region of the bulk.
    xp = 6 * generator.beta(2 - covariate_shift, 2, size=(n, 1)) - 3
    xq = 6 * generator.beta(2, 2 - covariate_shift, size=(n, 1)) - 3
    yp, yq = (np.sin(1.5 * x) + 0.3 * generator.normal(size=(n, 1)) for x in (xp, xq))
    yq = yq + shift * ((xq >= region[0]) & (xq <= region[1]))
    return LocalShift(xp, yp, xq, yq, region)
