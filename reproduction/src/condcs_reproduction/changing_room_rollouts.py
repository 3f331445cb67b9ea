"""Compiled rollouts in changing rooms: their steps, and the bonuses by counts and by prediction errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.compiling import njit
from condcs.explore import _kernel_td as kernel_td
from condcs_reproduction.exploration_environments import DOWN, LEFT, RIGHT, UP, Environment, observe
from condcs_reproduction.exploration_rollouts import (
    BANDWIDTH,
    EPSILON,
    PaperSettings,
    bin_of,
    compiled_agent,
    intrinsic_reward,
)

# Entries of the parameters of a room.
GOAL_COLUMN, GOAL_ROW, WIND, PERIOD, SCREEN_COLUMN, SCREEN_ROW, SCREEN_SIZE, DOOR_COLUMN, DOOR_ROW, DOOR_TIME = range(
    10
)

# Where the reward comes from: the agent of `condcs.explore` itself, or one of the two bonuses.
OWN, COUNT, PREDICTION = range(3)

FEATURES, OUTPUTS = 64, 8
"""Size of the random network and of its predictor, where the bonus is a prediction error."""

compiled = njit(nogil=True)


class Bonus(NamedTuple):
    """A reward for what is new, as plain arrays.

    Attributes
    ----------
    kind : int
        `OWN`, `COUNT` or `PREDICTION`.
    counts : array of shape (product of bins,)
        Visits of each bin of the state space.
    bins, resolution : arrays of shape (3,)
        Number of bins of each column, and bins per unit of what the kernel sees.
    frequencies, phases, target, predictor : arrays
        Random features of a state, cos(frequencies s + phases); fixed linear functions of them, and what was learnt of
        those.
    """

    kind: int
    counts: FloatArray
    bins: IntArray
    resolution: FloatArray
    frequencies: FloatArray
    phases: FloatArray
    target: FloatArray
    predictor: FloatArray


@compiled
def step(room: Any, state: Any, action: int, time: int, rng: Any) -> Any:
    """Change `state` in place; return whether the goal is reached. `time` counts the steps before this one."""
    parameters, passages = room.parameters, room.passages
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
    return column == parameters[GOAL_COLUMN] and row == parameters[GOAL_ROW]


@compiled
def prediction_error(bonus: Any, seen: Any) -> Any:
    """Return the mean squared error of the predictor at a state, and take a normalised gradient step."""
    m, k = bonus.phases.size, bonus.target.shape[0]
    features = np.empty(m)
    power = 0.0
    for i in range(m):
        angle = bonus.phases[i]
        for c in range(seen.size):
            angle += bonus.frequencies[i, c] * seen[c]
        features[i] = math.cos(angle)
        power += features[i] * features[i]
    total = 0.0
    for o in range(k):
        error = 0.0
        for i in range(m):
            error += (bonus.target[o, i] - bonus.predictor[o, i]) * features[i]
        total += error * error
        for i in range(m):
            bonus.predictor[o, i] += 0.1 * error * features[i] / power
    return total / k


@compiled
def _until_goal(room: Any, agent: Any, bonus: Any, state: Any, steps: int, rng: Any) -> Any:
    """Return the number of steps to the goal, at most `steps`, and whether it was reached."""
    values, scale = agent.values, 1.0 / agent.options[BANDWIDTH]
    seen, upcoming = np.empty(room.low.size), np.empty(room.low.size)
    observe(room, state, seen)
    is_random = agent.options[EPSILON] >= 1.0
    if not is_random:
        kernel_td.look(values, kernel_td.HERE, seen, scale)
    for t in range(steps):
        if is_random:
            action = int(rng.integers(0, room.actions.shape[0]))
        else:
            action = kernel_td.choose(values.q[values.sizes[kernel_td.CURRENT]], agent.options[EPSILON], rng)
        reached = step(room, state, action, t, rng)
        observe(room, state, upcoming)
        if not is_random:
            kernel_td.look(values, kernel_td.AHEAD, upcoming, scale)
            # Here, not in a function of its own: each level of calls optimises all that is below it once more.
            if bonus.kind == COUNT:
                index = bin_of(upcoming, bonus.bins, bonus.resolution)
                bonus.counts[index] += 1
                reward = 1.0 / math.sqrt(bonus.counts[index])
            elif bonus.kind == PREDICTION:
                reward = prediction_error(bonus, upcoming)
            else:
                reward = intrinsic_reward(agent, seen, room.actions[action], upcoming, 0.0)
            kernel_td.learn(values, action, reward, reached)
            kernel_td.advance(values)
        seen[:] = upcoming
        if reached:
            return t + 1, True
    return steps, False


def rollout(
    room: Environment, settings: Mapping[str, Any], *, steps: int, rng: np.random.Generator
) -> tuple[int, bool]:
    """Let an agent look for the goal of a room.

    Parameters
    ----------
    room : Environment
        From `condcs_reproduction.changing_rooms.changing_room`.
    settings : mapping
        Of `PaperSettings`; the reward may also be "count" or "prediction".
    steps : int
        Longest run.
    rng : Generator
        Wind, screen, random actions and ties, features of the predictor.

    Returns
    -------
    steps, reached
        How many steps were taken, and whether the goal was reached.
    """
    kinds = {"count": COUNT, "prediction": PREDICTION}
    kind = kinds.get(settings["reward"], OWN)
    own = PaperSettings(**{**settings, "reward": "nothing" if kind else settings["reward"]})
    bonus = _bonus(room, kind, own, rng)
    taken, reached = _until_goal(room, compiled_agent(room, own), bonus, room.start.copy(), steps, rng)
    return int(taken), bool(reached)


def _bonus(room: Environment, kind: int, settings: PaperSettings, rng: np.random.Generator) -> Bonus:
    dim = len(room.low)
    # The third column is the screen, a number from 0 to 1 and not a cell.
    bins = np.array([*room.passages.shape[1::-1], settings.bins])
    resolution = 1.0 / room.scale * np.array([1, 1, settings.bins])
    n_features = FEATURES if kind == PREDICTION else 1
    frequencies, phases = np.zeros((n_features, dim)), np.zeros(n_features)
    target = np.zeros((OUTPUTS, n_features))
    if kind == PREDICTION:
        frequencies = rng.normal(size=frequencies.shape) / settings.bandwidth
        phases = rng.uniform(0, 2 * np.pi, size=n_features)
        target = rng.normal(size=target.shape) * np.sqrt(2 / n_features)
    counts = np.zeros(int(np.prod(bins)))
    return Bonus(kind, counts, bins, resolution, frequencies, phases, target, np.zeros_like(target))
