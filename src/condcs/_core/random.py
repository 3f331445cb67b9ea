"""Random generators: seeds are explicit, and every task has a stream of its own."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from condcs._core.errors import ParameterError


def check_rng(rng: int | np.random.Generator | None) -> np.random.Generator:
    """Return a generator for a seed; a generator is used as it is, None draws fresh entropy."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None or (isinstance(rng, Integral) and not isinstance(rng, bool) and rng >= 0):
        return np.random.default_rng(None if rng is None else int(rng))
    raise ParameterError(f"`rng` must be a non-negative integer or a numpy Generator, got {rng!r}. Pass e.g. rng=0.")
