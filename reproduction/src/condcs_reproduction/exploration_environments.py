"""The environments as plain arrays and compiled functions: the same numbers, step by step, as gymnasium's classes.

No fast-math here: the order of every operation is that of the Python code it mirrors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.checks import check_choice, check_positive, check_rng
from condcs._core.compiling import njit
from condcs._core.errors import public
from condcs.explore._spaces import unit_range
from condcs_reproduction.exploration.gymnasium_environments import MOVES, UPRIGHT_REACH, MazeAlgorithm, make_maze
from condcs_reproduction.exploration.tasks import MAZE_SPACING, NAMES, TORQUES, EnvironmentName

MOUNTAIN_CAR, PENDULUM, MAZE = range(3)
"""Kinds of environments."""

LEFT, RIGHT, UP, DOWN = range(4)
"""Actions of the maze and entries of its passages."""

exact = njit(nogil=True)


class Environment(NamedTuple):
    """An environment as plain arrays.

    Attributes
    ----------
    kind : int
        Which dynamics.
    parameters : array
        Mountain car: none. Pendulum: angle from upright within which the goal is reached, 2. Maze: column and row of
        the exit.
    passages : array of shape (rows, columns, 4)
        Whether one can go left, right, up and down from each cell of a maze.
    actions : array of shape (n_actions, d_a)
        Each action as a vector, as the kernel sees it.
    low, scale : arrays of shape (d_s,)
        The kernel sees ``(observation - low) * scale``.
    start : array
        First state.
    """

    kind: int
    parameters: FloatArray
    passages: IntArray
    actions: FloatArray
    low: FloatArray
    scale: FloatArray
    start: FloatArray


@exact
def _mountain_car(state: Any, action: int) -> Any:
    position, velocity = state[0], state[1]
    velocity += (action - 1) * 0.001 + math.cos(3 * position) * (-0.0025)
    velocity = min(max(velocity, -0.07), 0.07)
    position += velocity
    position = min(max(position, -1.2), 0.6)
    if position == -1.2 and velocity < 0:
        velocity = 0.0
    state[0], state[1] = position, velocity
    return -1.0, position >= 0.5 and velocity >= 0.0


@exact
def _from_upright(angle: float) -> float:
    """Return an angle in [-pi, pi)."""
    return ((angle + math.pi) % (2 * math.pi)) - math.pi


@exact
def _pendulum(state: Any, torque: float, reach: float, two: float) -> Any:
    angle, speed = state[0], state[1]
    # Gymnasium computes the torque, and products with it, in single precision. Squares of numpy's scalars are powers
    # of the C library, which round differently from products: the exponent is an argument that the compiler does not
    # know, so that it cannot turn the powers into products.
    u = np.float32(min(max(torque, -2.0), 2.0))
    cost = _from_upright(angle) ** two + 0.1 * speed**two + np.float64(np.float32(0.001) * (u * u))
    speed = speed + (3 * 10.0 / (2 * 1.0) * math.sin(angle) + np.float64(np.float32(3.0) * u)) * 0.05
    speed = min(max(speed, -8.0), 8.0)
    angle = angle + speed * 0.05
    state[0], state[1] = angle, speed
    return -cost, abs(_from_upright(angle)) < reach


@exact
def _maze(state: Any, action: int, passages: Any, parameters: Any) -> Any:
    column, row = int(state[0]), int(state[1])
    if passages[row, column, action]:
        column += (action == RIGHT) - (action == LEFT)
        row += (action == DOWN) - (action == UP)
    state[0], state[1] = column, row
    reached = column == parameters[0] and row == parameters[1]
    return 1.0 if reached else 0.0, reached


@exact
def step(environment: Any, state: Any, action: int) -> Any:
    """Change `state` in place; return the reward and whether the goal is reached."""
    if environment.kind == MOUNTAIN_CAR:
        return _mountain_car(state, action)
    if environment.kind == PENDULUM:
        return _pendulum(state, environment.actions[action, 0], environment.parameters[0], environment.parameters[1])
    return _maze(state, action, environment.passages, environment.parameters)


@exact
def observe(environment: Any, state: Any, out: Any) -> None:
    """Write a state as the kernel sees it: gymnasium's observation, in single precision, shifted and scaled."""
    if environment.kind == PENDULUM:
        out[0] = np.float32(math.cos(state[0]))
        out[1] = np.float32(math.sin(state[0]))
        out[2] = np.float32(state[1])
    else:
        for c in range(out.size):
            out[c] = np.float32(state[c])
    for c in range(out.size):
        out[c] = (out[c] - environment.low[c]) * environment.scale[c]


@public
def compiled_environment(
    name: EnvironmentName,
    *,
    rows: int = 20,
    columns: int | None = None,
    algorithm: MazeAlgorithm = "dfs",
    reach: float = UPRIGHT_REACH,
    spacing: float = MAZE_SPACING,
    rng: int | np.random.Generator | None = None,
) -> Environment:
    """Return one of the environments as plain arrays for `rollout`; every step is the same as gymnasium's.

    Parameters
    ----------
    name : {"mountain-car", "pendulum", "maze"}
        Which environment.
    rows, columns, algorithm
        As in `make_maze`.
    reach : float
        Largest angle from upright (radian) at which the pendulum is at its goal.
    spacing : float
        Distance between neighbouring cells of the maze as the kernel sees it.
    rng : int or Generator, optional
        Draws the start of the mountain car, or the maze.

    Returns
    -------
    Environment
        A tuple of arrays.

    Examples
    --------
    >>> compiled_environment("mountain-car", rng=0).actions.ravel().tolist()
    [-1.0, 0.0, 1.0]
    """
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


def _column(*values: float) -> FloatArray:
    return np.array(values)[:, None]
