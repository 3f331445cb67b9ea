"""Gymnasium's classes: the maze, registered as ``condcs/Maze-v0``, and the pendulum with a goal."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from condcs._core.checks import check_choice, check_integer, check_rng
from condcs.explore._environments import UPRIGHT_REACH, gymnasium
from condcs.explore._mazes import ALGORITHMS, MOVES, MazeAlgorithm, make_maze, picture

_Env: Any = gymnasium().Env
_Wrapper: Any = gymnasium().Wrapper


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
    render_mode : {"rgb_array"}, optional
        Whether `render` returns a picture.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 - gymnasium's own declaration

    def __init__(
        self,
        rows: int = 20,
        columns: int | None = None,
        algorithm: MazeAlgorithm = "dfs",
        maze_rng: int | None = None,
        render_mode: Literal["rgb_array"] | None = None,
    ) -> None:
        spaces = gymnasium().spaces
        self.rows = check_integer("rows", rows, 2)
        self.columns = self.rows if columns is None else check_integer("columns", columns, 2)
        check_choice("algorithm", algorithm, ALGORITHMS)
        self.algorithm: MazeAlgorithm = algorithm
        if render_mode is not None:
            check_choice("render_mode", render_mode, ("rgb_array",))
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

    def render(self) -> Any:
        """Return the picture of the maze, or None without a render mode."""
        if self.render_mode is None:
            return None
        return picture(self.passages, self.cell, self.goal)

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
