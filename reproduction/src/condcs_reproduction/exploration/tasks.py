"""The paper's tasks beside the mountain car: the pendulum and the maze."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.checks import check_integer
from condcs.explore import Hyperparameters
from condcs.explore._tasks import MOUNTAIN_CAR, Task, gymnasium_environment, parts_of_box
from condcs_reproduction.exploration.gymnasium_environments import MAZE_ID, MOVES, Upright, register_environments

EnvironmentName = Literal["mountain-car", "pendulum", "maze"]
NAMES: tuple[EnvironmentName, ...] = get_args(EnvironmentName)
"""The environments of the paper."""

TORQUES = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Torques of the discretised pendulum: the paper's range."""

MAZE_SPACING = 0.1
"""Distance of neighbouring cells: one bandwidth. At half a bandwidth, value leaks through walls."""

DRAWN_REACH = 1.05
"""Half the width of the pendulum's heat map: the unit circle of its free end, and a margin."""


class Pendulum(Task):
    """gymnasium's ``Pendulum-v1``, from hanging down to upright."""

    name = "pendulum"
    identifier = "Pendulum-v1"
    number = 1
    settings = Hyperparameters(learning_rate=1e-3, discount=0.99)
    goal = "the upright position"
    axes = ("free end, across", "free end, up")

    low, high = np.array([0.0, -8.0]), np.array([2 * np.pi, 8.0])
    """Bounds of angle and angular speed; gymnasium counts the angle on beyond a turn."""

    def make(self, *, time_limit: int | None = None, render_mode: str | None = None, **options: Any) -> Any:
        """Make the environment; without a time limit episodes end at the goal alone."""
        return Upright(gymnasium_environment(self.identifier, time_limit, render_mode, options))

    def action_vectors(self, levels: int) -> FloatArray | None:
        """Return the paper's five torques; another number of levels divides gymnasium's range."""
        return np.array(TORQUES)[:, None] if levels == len(TORQUES) else None

    def position(self, inner: Any) -> Any:
        """Return angle and angular speed."""
        return inner.state

    def places(self, path: FloatArray) -> tuple[IntArray, int]:
        """Return parts of the box of angles, turns removed, and speeds."""
        within_a_turn = np.stack([path[:, 0] % (2 * np.pi), path[:, 1]], axis=1)
        return parts_of_box(within_a_turn, self.low, self.high)

    def heat_map(self, path: FloatArray, bins: int) -> FloatArray:
        """Return a histogram of the positions of the free end."""
        angle = path[:, 0]
        edges = np.linspace(-DRAWN_REACH, DRAWN_REACH, bins + 1)
        return np.asarray(np.histogram2d(np.sin(angle), np.cos(angle), bins=[edges, edges])[0])


class SquareMaze(Task):
    """The maze ``condcs/Maze-v0``, as many rows as columns.

    Parameters
    ----------
    rows : int
        Rows and columns.
    """

    name = "maze"
    identifier = MAZE_ID
    number = 2
    settings = Hyperparameters(learning_rate=0.2, discount=0.9)
    state_scale = MAZE_SPACING
    goal = "the exit"
    axes = ("column", "row")
    downwards = True
    note = "Every seed has a maze of its own."

    def __init__(self, rows: int = 20) -> None:
        self.rows = check_integer("rows", rows, 2)

    def of_size(self, rows: int) -> Task:
        """Return a maze with as many rows and columns."""
        return SquareMaze(rows)

    def make(self, *, time_limit: int | None = None, render_mode: str | None = None, **options: Any) -> Any:
        """Make the environment; without a time limit episodes end at the goal alone."""
        register_environments()
        return gymnasium_environment(self.identifier, time_limit, render_mode, {"rows": self.rows, **options})

    def action_vectors(self, levels: int) -> FloatArray | None:
        """Return the steps left, right, up and down."""
        return np.array(MOVES, np.float64)

    def position(self, inner: Any) -> Any:
        """Return column and row."""
        return inner.cell

    def places(self, path: FloatArray) -> tuple[IntArray, int]:
        """Return the cells, row by row."""
        columns, rows = path.T
        return (rows * self.rows + columns).astype(np.int64), self.rows * self.rows

    def heat_map(self, path: FloatArray, bins: int) -> FloatArray:
        """Return the visits of each cell, whatever `bins` says."""
        columns, rows = path.T
        edges = np.arange(self.rows + 1) - 0.5
        return np.asarray(np.histogram2d(columns, rows, bins=[edges, edges])[0])


PAPER_TASKS: tuple[Task, ...] = (Pendulum(), SquareMaze())
"""What is added to the mountain car, which condcs itself has."""

TASKS: dict[str, Task] = {task.name: task for task in (MOUNTAIN_CAR, *PAPER_TASKS)}
"""All tasks by name."""
