"""The paper's maze for gymnasium, registered as ``condcs/Maze-v0``, and its pendulum with a goal."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import IntArray
from condcs._core.checks import check_choice, check_integer, check_rng
from condcs._core.errors import public
from condcs.explore._gymnasium_module import gymnasium

MAZE_ID = "condcs/Maze-v0"

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Steps (columns, rows) of the actions left, right, up, down in a maze."""

UPRIGHT_REACH = 0.2
"""The pendulum's goal: within this angle (radian) of upright."""

MazeAlgorithm = Literal["dfs", "prim"]
ALGORITHMS: tuple[MazeAlgorithm, ...] = get_args(MazeAlgorithm)
"""Depth-first search makes long winding paths, Prim's algorithm short ones with many dead ends."""

_BACK = (1, 0, 3, 2)
"""The action that undoes each action."""

_Env: Any = gymnasium().Env
_Wrapper: Any = gymnasium().Wrapper


@public
def make_maze(
    rows: int,
    columns: int | None = None,
    *,
    algorithm: MazeAlgorithm = "dfs",
    rng: int | np.random.Generator | None = None,
) -> IntArray:
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


class Maze(_Env):  # type: ignore[misc]
    """A perfect maze, to be crossed from the upper left cell to the lower right one.

    Actions 0 to 3 are left, right, up, down; a step against a wall has no effect. The observation is the cell (column,
    row); the reward is 1 at the exit, which ends the episode, and 0 elsewhere.

    Parameters
    ----------
    rows, columns : int
        Size; square if `columns` is not given.
    algorithm : {"dfs", "prim"}
        How mazes are drawn.
    maze_rng : int, optional
        Seed of a fixed maze. Without it a new maze is drawn at the first reset and at every reset with a seed.
    """

    def __init__(
        self,
        rows: int = 20,
        columns: int | None = None,
        algorithm: MazeAlgorithm = "dfs",
        maze_rng: int | None = None,
        render_mode: None = None,
    ) -> None:
        spaces = gymnasium().spaces
        self.rows = check_integer("rows", rows, 2)
        self.columns = self.rows if columns is None else check_integer("columns", columns, 2)
        check_choice("algorithm", algorithm, ALGORITHMS)
        self.algorithm: MazeAlgorithm = algorithm
        self.maze_rng, self.render_mode = maze_rng, render_mode
        self.observation_space = spaces.Box(
            np.zeros(2, np.float32), np.array([self.columns - 1, self.rows - 1], np.float32), dtype=np.float32
        )
        self.action_space = spaces.Discrete(4)
        self.passages: Any = None
        self.goal = (self.columns - 1, self.rows - 1)
        self.cell = (0, 0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Go back to the start; draw a new maze if a seed is given and the maze is not fixed."""
        super().reset(seed=seed)
        if self.passages is None or (seed is not None and self.maze_rng is None):
            rng = self.np_random if self.maze_rng is None else check_rng(self.maze_rng)
            self.passages = make_maze(self.rows, self.columns, algorithm=self.algorithm, rng=rng)
        self.cell = (0, 0)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go one cell if there is no wall."""
        column, row = self.cell
        if self.passages[row, column, action]:
            move = MOVES[int(action)]
            self.cell = (column + move[0], row + move[1])
        reached = self.cell == self.goal
        return self._observation(), float(reached), reached, False, {}

    def _observation(self) -> Any:
        return np.array(self.cell, np.float32)


class Upright(_Wrapper):  # type: ignore[misc]
    """The pendulum with a goal: it starts hanging down and ends within `reach` (radian) of upright."""

    def __init__(self, env: Any, reach: float = UPRIGHT_REACH) -> None:
        super().__init__(env)
        self.reach = reach

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Hang down, at rest."""
        _, info = self.env.reset(seed=seed, options=options)
        self.unwrapped.state = np.array([math.pi, 0.0])
        return self.unwrapped._get_obs(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do a step of the pendulum and see whether it is upright."""
        observation, reward, _, truncated, info = self.env.step(action)
        angle = float(self.unwrapped.state[0])
        from_upright = ((angle + math.pi) % (2 * math.pi)) - math.pi
        return observation, float(reward), abs(from_upright) < self.reach, truncated, info


def register_environments() -> None:
    """Register ``condcs/Maze-v0`` with gymnasium; done once, also by importing `condcs_reproduction.exploration`."""
    registry = gymnasium().envs.registration
    if MAZE_ID not in registry.registry:
        registry.register(id=MAZE_ID, entry_point="condcs_reproduction.exploration.gymnasium_environments:Maze")
