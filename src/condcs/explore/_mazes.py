"""Perfect mazes: exactly one path connects every two cells."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from condcs._core.checks import check_choice, check_integer, check_rng
from condcs._core.errors import public

MazeAlgorithm = Literal["dfs", "prim"]
ALGORITHMS: tuple[MazeAlgorithm, ...] = get_args(MazeAlgorithm)
"""Depth-first search makes long winding paths, Prim's algorithm short ones with many dead ends."""

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Steps (columns, rows) of the actions left, right, up, down."""

_BACK = (1, 0, 3, 2)


@public
def make_maze(
    rows: int,
    columns: int | None = None,
    *,
    algorithm: MazeAlgorithm = "dfs",
    rng: int | np.random.Generator | None = None,
) -> np.ndarray[Any, Any]:
    """Draw a random maze.

    Parameters
    ----------
    rows, columns : int
        Size; `columns` is `rows` if it is not given.
    algorithm : {"dfs", "prim"}
        Depth-first search, or Prim's algorithm with random weights.
    rng : int or Generator, optional
        Seed.

    Returns
    -------
    array of shape (rows, columns, 4)
        1 where one can go left, right, up, down from a cell.

    Examples
    --------
    >>> passages = make_maze(3, 4, rng=0)
    >>> int(passages.sum()) // 2  # a tree over 12 cells
    11
    """
    rows = check_integer("rows", rows, 2)
    columns = rows if columns is None else check_integer("columns", columns, 2)
    check_choice("algorithm", algorithm, ALGORITHMS)
    rng = check_rng(rng)
    passages = np.zeros((rows, columns, 4), np.int64)
    visited = np.zeros((rows, columns), bool)
    visited[0, 0] = True
    cells = [(0, 0)]
    while cells:
        # Depth-first search goes on from the newest cell, Prim's algorithm from any.
        index = len(cells) - 1 if algorithm == "dfs" else int(rng.integers(len(cells)))
        row, column = cells[index]
        ways = [
            (a, row + dr, column + dc)
            for a, (dc, dr) in enumerate(MOVES)
            if 0 <= row + dr < rows and 0 <= column + dc < columns and not visited[row + dr, column + dc]
        ]
        if not ways:
            cells.pop(index)
            continue
        action, next_row, next_column = ways[int(rng.integers(len(ways)))]
        passages[row, column, action] = passages[next_row, next_column, _BACK[action]] = 1
        visited[next_row, next_column] = True
        cells.append((next_row, next_column))
    return passages


def picture(
    passages: np.ndarray[Any, Any],
    agent: tuple[int, int] | None = None,
    goal: tuple[int, int] | None = None,
    *,
    pixels: int = 12,
) -> np.ndarray[Any, Any]:
    """Return the maze as an RGB array; `agent` and `goal` are (column, row)."""
    rows, columns, _ = passages.shape
    wall = max(1, pixels // 6)
    image = np.full((rows * pixels + wall, columns * pixels + wall, 3), 255, np.uint8)
    dark = np.array([45, 55, 72], np.uint8)
    image[:wall] = image[:, :wall] = dark
    for r in range(rows):
        for c in range(columns):
            top, left = r * pixels, c * pixels
            if not passages[r, c, 1]:
                image[top : top + pixels + wall, left + pixels : left + pixels + wall] = dark
            if not passages[r, c, 3]:
                image[top + pixels : top + pixels + wall, left : left + pixels + wall] = dark
    for place, colour in ((goal, (43, 108, 176)), (agent, (229, 62, 62))):
        if place is not None:
            margin = wall + max(1, pixels // 6)
            top, left = place[1] * pixels, place[0] * pixels
            image[top + margin : top + pixels - margin + wall, left + margin : left + pixels - margin + wall] = colour
    return image
