"""The three environments of the paper: as gymnasium makes them, and compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from condcs.core.checks import check_choice, check_integer, check_positive
from condcs.core.errors import ParameterError, public
from condcs.core.random import check_rng
from condcs.explore.mazes import MOVES, make_maze
from condcs.explore.partner import gymnasium

NAMES = ("mountain-car", "pendulum", "maze")
"""The environments, as the command line calls them."""

MAZE_ID = "condcs/Maze-v0"

UPRIGHT_REACH = 0.2
"""The pendulum's goal: within this angle (radian) of upright."""

TORQUES = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Torques of the discretised pendulum: the paper's range."""

MAZE_SPACING = 0.1
"""Distance of neighbouring cells as the kernel sees it: one kernel width. At half a width value leaks through walls."""


def register_environments() -> None:
    """Register ``condcs/Maze-v0`` with gymnasium; done once, also by importing `condcs.explore` after gymnasium."""
    registry = gymnasium().envs.registration
    if MAZE_ID not in registry.registry:
        registry.register(id=MAZE_ID, entry_point="condcs.explore.maze_environment:Maze")


@public
def make_environment(
    name: str, *, time_limit: int | None = None, render_mode: str | None = None, **options: Any
) -> Any:
    """Make one of the paper's environments with gymnasium.

    Parameters
    ----------
    name : {"mountain-car", "pendulum", "maze"}
        Mountain car and pendulum are gymnasium's ``MountainCar-v0`` and ``Pendulum-v1``; the pendulum starts hanging
        down and ends within 0.2 rad of upright.
    time_limit : int, optional
        Steps after which an episode is cut off. None: never. Gymnasium's own limit of 200 steps is removed, because no
        method reaches the goals so soon.
    render_mode : str, optional
        Gymnasium's.
    **options
        Of the environment: ``rows``, ``columns``, ``algorithm`` and ``maze_seed`` of the maze.

    Returns
    -------
    gymnasium.Env
        Seed it by ``reset(seed=...)``.

    Examples
    --------
    >>> make_environment("maze", rows=5).reset(seed=0)[0].tolist()
    [0.0, 0.0]
    """
    check_choice("name", name, NAMES)
    gym = gymnasium()
    limit = -1 if time_limit is None else check_integer("time_limit", time_limit, 1)
    if name == "maze":
        register_environments()
        identifier = MAZE_ID
    else:
        identifier = {"mountain-car": "MountainCar-v0", "pendulum": "Pendulum-v1"}[name]
    made = gym.make(identifier, max_episode_steps=limit, render_mode=render_mode, **options)
    if name == "pendulum":
        from condcs.explore.upright import Upright

        made = Upright(made)
    return made


@public
def compiled_environment(
    name: str,
    *,
    rows: int = 20,
    columns: int | None = None,
    algorithm: str = "dfs",
    reach: float = UPRIGHT_REACH,
    spacing: float = MAZE_SPACING,
    rng: int | np.random.Generator | None = None,
) -> Any:
    """Return one of the environments as plain arrays for `rollout`: step by step the same as gymnasium's.

    Parameters
    ----------
    name : {"mountain-car", "pendulum", "maze"}
        Which.
    rows, columns, algorithm
        Of the maze.
    reach : float
        Angle from upright that is the pendulum's goal.
    spacing : float
        Distance of neighbouring cells of the maze as the kernel sees it.
    rng : int or Generator, optional
        Draws the start of the mountain car and the maze.

    Returns
    -------
    Environment
        A tuple of arrays.

    Examples
    --------
    >>> compiled_environment("mountain-car", rng=0).actions.ravel().tolist()
    [-1.0, 0.0, 1.0]
    """
    from condcs.explore.dynamics import MAZE, MOUNTAIN_CAR, PENDULUM, Environment

    check_choice("name", name, NAMES)
    rng = check_rng(rng)
    nothing = np.zeros((1, 1, 4), np.int64)
    if name == "mountain-car":
        # Gymnasium declares the bounds in single precision, and agents scale by what is declared.
        low, high = np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32)
        start = np.array([rng.uniform(-0.6, -0.4), 0.0])
        return Environment(MOUNTAIN_CAR, np.zeros(1), nothing, _column(-1.0, 0.0, 1.0), *unit_range(low, high), start)
    if name == "pendulum":
        high = np.array([1.0, 1.0, 8.0], np.float32)
        reached = np.array([check_positive("reach", reach), 2.0])
        return Environment(
            PENDULUM, reached, nothing, _column(*TORQUES), *unit_range(-high, high), np.array([math.pi, 0.0])
        )
    passages = make_maze(rows, columns, algorithm=algorithm, rng=rng)
    exit_cell = np.array([passages.shape[1] - 1.0, passages.shape[0] - 1.0])
    scale = np.full(2, check_positive("spacing", spacing))
    return Environment(MAZE, exit_cell, passages, np.array(MOVES, np.float64), np.zeros(2), scale, np.zeros(2))


def unit_range(low: Any, high: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return shift and scale that bring a box to the unit range."""
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (high > low).all()):
        raise ParameterError(
            f"the observation space must have finite bounds, got low {low.tolist()} and high {high.tolist()}. Pass "
            "`low` and `high`, or an `encoder` that returns numbers between 0 and 1."
        )
    return low, 1.0 / (high - low)


def _column(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values)[:, None]
