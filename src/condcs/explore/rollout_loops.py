"""Compiled rollouts: an agent in an environment, thousands of steps without Python in between."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condcs.core.compiling import njit
from condcs.explore import dynamics, value_loops
from condcs.measures import sliding_loops

# What an agent takes for reward.
NOTHING, EXTRINSIC, GOAL, ENTROPY, RELATIVE_ENTROPY, COUNT, PREDICTION, CS, EUCLIDEAN, MMD, GIVEN = range(11)

# Entries of `Agent.options`.
EPSILON, WIDTH = range(2)
# Entries of `Agent.counters`.
STEPS, PUSHED, VISITS, EPOCH = range(4)

compiled = njit(nogil=True)


class Agent(NamedTuple):
    """An agent as plain arrays.

    Attributes
    ----------
    reward : int
        What it takes for reward.
    values : Values
        Its value function.
    window : Window
        Its transitions, where the reward is a divergence.
    counts, frozen : arrays of shape (product of bins,)
        Visits of each bin of the state space so far, and those that the entropy reward is taken from.
    bins, resolution : arrays of shape (d_s,)
        Number of bins of each column, and bins per unit of what the kernel sees.
    frequencies, phases, target, predictor : arrays
        Random features of a state, cos(frequencies s + phases); fixed linear functions of them, and what was learnt of
        those.
    options : array of shape (2,)
        Probability of a random action, kernel width.
    counters : array of shape (4,)
        Steps, transitions pushed, visits counted, steps between two updates of `frozen`.
    """

    reward: int
    values: Any
    window: Any
    counts: np.ndarray[Any, Any]
    frozen: np.ndarray[Any, Any]
    bins: np.ndarray[Any, Any]
    resolution: np.ndarray[Any, Any]
    frequencies: np.ndarray[Any, Any]
    phases: np.ndarray[Any, Any]
    target: np.ndarray[Any, Any]
    predictor: np.ndarray[Any, Any]
    options: np.ndarray[Any, Any]
    counters: np.ndarray[Any, Any]


@compiled
def bin_of(seen: Any, bins: Any, resolution: Any) -> Any:
    """Return the number of the bin that holds a state."""
    index = 0
    for c in range(seen.size):
        # Cells of a maze lie on the edges of bins: rounding must not push them into the bin below.
        place = min(max(int(seen[c] * resolution[c] + 1e-9), 0), bins[c] - 1)
        index = index * bins[c] + place
    return index


@compiled
def prediction_error(agent: Any, seen: Any) -> Any:
    """Return the mean squared error of the predictor at a state, and take a normalised gradient step."""
    m, k = agent.phases.size, agent.target.shape[0]
    features = np.empty(m)
    power = 0.0
    for i in range(m):
        angle = agent.phases[i]
        for c in range(seen.size):
            angle += agent.frequencies[i, c] * seen[c]
        features[i] = math.cos(angle)
        power += features[i] * features[i]
    total = 0.0
    for o in range(k):
        error = 0.0
        for i in range(m):
            error += (agent.target[o, i] - agent.predictor[o, i]) * features[i]
        total += error * error
        for i in range(m):
            agent.predictor[o, i] += 0.1 * error * features[i] / power
    return total / k


@compiled
def intrinsic(agent: Any, seen: Any, action: int, upcoming: Any, actions: Any, given: float) -> Any:
    """Record a transition and return the reward that the agent makes for itself."""
    if agent.reward == ENTROPY or agent.reward == RELATIVE_ENTROPY:
        index = bin_of(upcoming, agent.bins, agent.resolution)
        agent.counts[index] += 1
        agent.counters[VISITS] += 1
        if agent.counters[VISITS] % agent.counters[EPOCH] == 0:
            agent.frozen[:] = agent.counts
        total = agent.counters[VISITS] // agent.counters[EPOCH] * agent.counters[EPOCH]
        density = (agent.frozen[index] + 1.0) / (total + agent.frozen.size)
        return -math.log(density * agent.frozen.size if agent.reward == RELATIVE_ENTROPY else density)
    if agent.reward == COUNT:
        index = bin_of(upcoming, agent.bins, agent.resolution)
        agent.counts[index] += 1
        return 1.0 / math.sqrt(agent.counts[index])
    if agent.reward == PREDICTION:
        return prediction_error(agent, upcoming)
    if agent.reward >= CS:
        d = seen.size
        row = np.empty(2 * d + actions.shape[1])
        row[:d] = seen
        row[d : d + actions.shape[1]] = actions[action]
        row[d + actions.shape[1] :] = upcoming
        sliding_loops.push(agent.window, agent.counters[PUSHED], row)
        agent.counters[PUSHED] += 1
        sizes = agent.window.sizes
        if agent.reward == GIVEN:
            return given
        if min(sizes[sliding_loops.OLD], sizes[sliding_loops.NEW]) < 2:
            return 0.0
        if agent.reward == CS:
            return sliding_loops.conditional_cs(agent.window)
        if agent.reward == EUCLIDEAN:
            return sliding_loops.conditional_euclidean(agent.window)
        return sliding_loops.joint_mmd(agent.window)
    return 0.0


@compiled
def rollout(
    environment: Any, agent: Any, state: Any, steps: int, rng: Any, given: float, until_goal: bool, path: Any
) -> Any:
    """Let the agent act for up to `steps` steps from `state`, which ends as the last state.

    Returns the number of steps taken and of goals reached, and the step that first reached one (-1: none). States after
    each step are written to `path` as long as it has room. At the goal the rollout ends or, if not `until_goal`, goes
    on from the start.
    """
    values = agent.values
    scale = 1.0 / agent.options[WIDTH]
    seen, upcoming = np.empty(environment.low.size), np.empty(environment.low.size)
    dynamics.observe(environment, state, seen)
    n_actions = environment.actions.shape[0]
    is_random = agent.options[EPSILON] >= 1.0
    if not is_random:
        value_loops.write_state(values, 0, seen, scale)
        value_loops.evaluate(values, 0)
    goals, first = 0, -1
    for t in range(steps):
        if is_random:
            action = int(rng.integers(0, n_actions))
        else:
            action = value_loops.choose(values.q[values.sizes[value_loops.CURRENT]], agent.options[EPSILON], rng)
        reward, reached = dynamics.step(environment, state, action, agent.counters[STEPS], rng)
        dynamics.observe(environment, state, upcoming)
        agent.counters[STEPS] += 1
        if t < path.shape[0]:
            path[t] = state
        if not is_random:
            value_loops.write_state(values, 1, upcoming, scale)
            value_loops.evaluate(values, 1)
            if agent.reward == GOAL:
                reward = 1.0 if reached else 0.0
            elif agent.reward != EXTRINSIC:
                reward = intrinsic(agent, seen, action, upcoming, environment.actions, given)
            value_loops.learn(values, action, reward, reached)
        seen[:] = upcoming
        if reached:
            goals += 1
            if first < 0:
                first = t + 1
            if until_goal:
                return t + 1, goals, first
            state[:] = environment.start
            dynamics.observe(environment, state, seen)
            if not is_random:
                value_loops.write_state(values, 1, seen, scale)
                value_loops.evaluate(values, 1)
        if not is_random:
            value_loops.advance(values)
    return steps, goals, first
