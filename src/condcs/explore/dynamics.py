"""Compiled dynamics of the environments, step by step the numbers that gymnasium's classes give.

No fast-math here: the order of every operation is that of the Python code it mirrors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condcs.core.compiling import njit

MOUNTAIN_CAR, PENDULUM, MAZE, CHANGING = range(4)
"""Kinds of environments."""

LEFT, RIGHT, UP, DOWN = range(4)
"""Actions of the maze and entries of its passages."""

# Entries of the parameters of a changing room.
GOAL_COLUMN, GOAL_ROW, WIND, PERIOD, SCREEN_COLUMN, SCREEN_ROW, SCREEN_SIZE, DOOR_COLUMN, DOOR_ROW, DOOR_TIME = range(
    10
)

exact = njit(nogil=True)


class Environment(NamedTuple):
    """An environment as plain arrays.

    Attributes
    ----------
    kind : int
        Which dynamics.
    parameters : array
        Mountain car: none. Pendulum: angle from upright within which the goal is reached, 2. Maze: column and row of
        the exit. Changing room: an entry for each of `GOAL_COLUMN` to `DOOR_TIME`.
    passages : array of shape (rows, columns, 4)
        Whether one can go left, right, up and down from each cell of a maze.
    actions : array of shape (n_actions, d_a)
        Each action as a vector, in the units in which the kernel sees it.
    low, scale : arrays of shape (d_s,)
        The kernel sees ``(observation - low) * scale``.
    start : array
        First state.
    """

    kind: int
    parameters: np.ndarray[Any, Any]
    passages: np.ndarray[Any, Any]
    actions: np.ndarray[Any, Any]
    low: np.ndarray[Any, Any]
    scale: np.ndarray[Any, Any]
    start: np.ndarray[Any, Any]


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
    # The torque reaches gymnasium in single precision, and so do the products with it. Squares of numpy's scalars are
    # powers of the C library, which round differently from products: an exponent that the compiler does not know keeps
    # it from making products of them.
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
def _changing_room(state: Any, action: int, passages: Any, parameters: Any, time: int, rng: Any) -> Any:
    column, row = int(state[0]), int(state[1])
    is_shut = (
        column == parameters[DOOR_COLUMN] and row == parameters[DOOR_ROW] and time < parameters[DOOR_TIME]
    ) and action == RIGHT
    if passages[row, column, action] and not is_shut:
        column += (action == RIGHT) - (action == LEFT)
        row += (action == DOWN) - (action == UP)
    blows = parameters[PERIOD] > 0 and (time // int(parameters[PERIOD])) % 2 == 0
    if blows and rng.random() < parameters[WIND] and passages[row, column, LEFT]:
        column -= 1
    right = column - parameters[SCREEN_COLUMN]
    below = row - parameters[SCREEN_ROW]
    watches = 0 <= right < parameters[SCREEN_SIZE] and 0 <= below < parameters[SCREEN_SIZE]
    state[0], state[1] = column, row
    state[2] = rng.random() if watches else 0.0
    reached = column == parameters[GOAL_COLUMN] and row == parameters[GOAL_ROW]
    return 1.0 if reached else 0.0, reached


@exact
def step(environment: Any, state: Any, action: int, time: int, rng: Any) -> Any:
    """Change `state` in place; return the reward and whether the goal is reached.

    `time` counts the steps before this one; it and `rng` matter to changing rooms alone.
    """
    if environment.kind == MOUNTAIN_CAR:
        return _mountain_car(state, action)
    if environment.kind == PENDULUM:
        return _pendulum(state, environment.actions[action, 0], environment.parameters[0], environment.parameters[1])
    if environment.kind == MAZE:
        return _maze(state, action, environment.passages, environment.parameters)
    return _changing_room(state, action, environment.passages, environment.parameters, time, rng)


@exact
def observe(environment: Any, state: Any, out: Any) -> None:
    """Write what the kernel sees of a state: gymnasium's observation, in single precision, shifted and scaled."""
    if environment.kind == PENDULUM:
        out[0] = np.float32(math.cos(state[0]))
        out[1] = np.float32(math.sin(state[0]))
        out[2] = np.float32(state[1])
    else:
        for c in range(out.size):
            out[c] = np.float32(state[c])
    for c in range(out.size):
        out[c] = (out[c] - environment.low[c]) * environment.scale[c]
