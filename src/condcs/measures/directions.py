"""Divergences that are not symmetric, taken one way, as the mean of both ways, or the larger one."""

from __future__ import annotations

from condcs.core.arrays import Array, Backend
from condcs.core.checks import check_choice

DIRECTIONS = ("pq", "mean", "max")
"""What `direction` can be."""


def check_direction(direction: str) -> str:
    """Return a direction, or say which there are."""
    return check_choice("direction", direction, DIRECTIONS)


def directed(backend: Backend, pairs: Array, direction: str) -> Array:
    """Combine D[g, h] with D[h, g] (last two axes) as `direction` says."""
    check_direction(direction)
    if direction == "pq":
        return pairs
    turned = backend.xp.swapaxes(pairs, -1, -2)
    return (pairs + turned) / 2 if direction == "mean" else backend.xp.maximum(pairs, turned)
