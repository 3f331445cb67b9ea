"""How much of a state space a path has seen."""

from __future__ import annotations

from typing import Any

import numpy as np

FloatArray = np.ndarray[Any, Any]

PARTS = 20
"""Parts of each of the two columns of a continuous state."""

_BOXES = {
    "mountain-car": ((-1.2, -0.07), (0.6, 0.07)),
    "pendulum": ((0.0, -8.0), (2 * np.pi, 8.0)),
}


def places(environment: str, path: FloatArray, rows: int, columns: int) -> tuple[FloatArray, int]:
    """Return the number of the place of each state of a path, and how many places there are.

    Places are the cells of a maze, or 20 x 20 parts of position and velocity, or of angle and speed.
    """
    if environment == "maze":
        return (path[:, 1] * columns + path[:, 0]).astype(np.int64), rows * columns
    low, high = (np.array(side) for side in _BOXES[environment])
    turned = path.copy()
    if environment == "pendulum":
        turned[:, 0] %= 2 * np.pi
    parts = np.clip(((turned - low) / (high - low) * PARTS).astype(np.int64), 0, PARTS - 1)
    return parts[:, 0] * PARTS + parts[:, 1], PARTS * PARTS


def spread(numbers: FloatArray, total: int) -> tuple[float, float]:
    """Return the share of places visited, and the entropy of the visits as a share of the largest possible one."""
    _, counts = np.unique(numbers, return_counts=True)
    share = counts / counts.sum()
    return float(len(counts) / total), float(-(share * np.log(share)).sum() / np.log(total))


def coverage_curve(numbers: FloatArray, total: int, at: FloatArray) -> FloatArray:
    """Return the share of places seen after each number of steps in `at`."""
    _, first = np.unique(numbers, return_index=True)
    return np.asarray(np.searchsorted(np.sort(first), at, side="left") / total)


def heat_map(environment: str, path: FloatArray, rows: int, columns: int, bins: int) -> FloatArray:
    """Return how often a path was where: position and velocity, the pendulum's free end, or the cells of the maze."""
    x, y = path.T
    edges: list[Any]
    if environment == "mountain-car":
        edges = [np.linspace(-1.2, 0.6, bins + 1), np.linspace(-0.07, 0.07, bins + 1)]
    elif environment == "pendulum":
        x, y = np.sin(x), np.cos(x)
        edges = [np.linspace(-1.05, 1.05, bins + 1)] * 2
    else:
        edges = [np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5]
    return np.asarray(np.histogram2d(x, y, bins=edges)[0])
