"""Compiled loops of the kernel temporal-difference value function; imported when first needed.

A value function is a tuple of plain arrays, so that compiled rollouts can carry it along.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condcs.core.compiling import njit
from condcs.kernels.compiled import exp_in_place

# Entries of `Values.options`.
INITIAL, LEARNING_RATE, DISCOUNT, MERGE_EXPONENT = range(4)
# Entries of `Values.sizes`: centres in use, and which of the two scratch rows belongs to the current state.
COUNT, CURRENT = range(2)

compiled = njit(nogil=True, fastmath={"contract", "reassoc"})


class Values(NamedTuple):
    """Centres, their weights and the values at two states: the current one and the next.

    Attributes
    ----------
    centres : array of shape (d, capacity)
        States of the dictionary, in units of the kernel width.
    actions : array of shape (capacity,)
        Action of each centre.
    weights : array of shape (capacity,)
        What each centre adds to the value at its own place.
    action_kernel : array of shape (n_actions, n_actions)
        Kernel between actions; the kernel between pairs is its product with the one between states.
    options : array of shape (4,)
        Initial value, learning rate, discount, log kernel value from which a centre is shared.
    sizes : array of shape (2,)
        Centres in use; which scratch row belongs to the current state.
    exponents : array of shape (2, capacity)
        Log kernel values of the current and of the next state against all centres.
    q : array of shape (2, n_actions)
        Values of all actions at these two states.
    states : array of shape (2, d)
        The two states, in units of the kernel width.
    work : array of shape (capacity,)
        Scratch.
    """

    centres: np.ndarray[Any, Any]
    actions: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any]
    action_kernel: np.ndarray[Any, Any]
    options: np.ndarray[Any, Any]
    sizes: np.ndarray[Any, Any]
    exponents: np.ndarray[Any, Any]
    q: np.ndarray[Any, Any]
    states: np.ndarray[Any, Any]
    work: np.ndarray[Any, Any]


@compiled
def evaluate(values: Any, which: int) -> None:
    """Fill the values of all actions at state 0 (current) or 1 (next) after `states` was written there."""
    n = values.sizes[COUNT]
    slot = (values.sizes[CURRENT] + which) % 2
    row, work, centres, state = values.exponents[slot], values.work, values.centres, values.states[slot]
    for j in range(n):
        row[j] = 0.0
    for c in range(centres.shape[0]):
        column, own = centres[c], state[c]
        for j in range(n):
            difference = column[j] - own
            row[j] -= 0.5 * difference * difference
    for j in range(n):
        work[j] = row[j]
    exp_in_place(work[:n])
    q, kernel = values.q[slot], values.action_kernel
    n_actions = kernel.shape[0]
    sums = np.zeros(n_actions)
    for j in range(n):
        sums[values.actions[j]] += values.weights[j] * work[j]
    for a in range(n_actions):
        total = values.options[INITIAL]
        for b in range(n_actions):
            total += kernel[a, b] * sums[b]
        q[a] = total


@compiled
def write_state(values: Any, which: int, state: Any, scale: float) -> None:
    """Write a state, in units of the kernel width."""
    slot = (values.sizes[CURRENT] + which) % 2
    for c in range(state.size):
        values.states[slot, c] = state[c] * scale


@compiled
def learn(values: Any, action: int, reward: float, is_terminal: bool) -> Any:
    """Move the value of `action` at the current state towards the target; return the temporal difference.

    The values at the next state, which are already known, are corrected for the step, and are those of the current
    state after `advance`.
    """
    current = values.sizes[CURRENT]
    upcoming = 1 - current
    best = 0.0
    if not is_terminal:
        best = values.q[upcoming, 0]
        for a in range(1, values.q.shape[1]):
            best = max(best, values.q[upcoming, a])
    difference = reward + values.options[DISCOUNT] * best - values.q[current, action]
    amount = values.options[LEARNING_RATE] * difference
    centre = _centre(values, action)
    if centre < 0:
        return difference
    values.weights[centre] += amount
    nearness = math.exp(values.exponents[upcoming, centre])
    for a in range(values.q.shape[1]):
        values.q[upcoming, a] += amount * values.action_kernel[a, action] * nearness
    return difference


@compiled
def _centre(values: Any, action: int) -> Any:
    """Return the centre that stands for the current state and `action`: a near one, else a new one.

    In a full dictionary it is the nearest one; -1 if that has no centre of this action.
    """
    current, n = values.sizes[CURRENT], values.sizes[COUNT]
    row = values.exponents[current]
    nearest, exponent = -1, -np.inf
    for j in range(n):
        if values.actions[j] == action and row[j] > exponent:
            nearest, exponent = j, row[j]
    is_full = n == values.weights.size
    if exponent >= values.options[MERGE_EXPONENT] or is_full:
        return nearest
    squared = 0.0
    for c in range(values.centres.shape[0]):
        values.centres[c, n] = values.states[current, c]
        difference = values.states[current, c] - values.states[1 - current, c]
        squared += difference * difference
    values.actions[n] = action
    values.weights[n] = 0.0
    values.exponents[current, n] = 0.0
    values.exponents[1 - current, n] = -0.5 * squared
    values.sizes[COUNT] += 1
    return n


@compiled
def advance(values: Any) -> None:
    """Make the next state the current one."""
    values.sizes[CURRENT] = 1 - values.sizes[CURRENT]


@compiled
def choose(q: Any, epsilon: float, rng: Any) -> Any:
    """Return the action of highest value, ties broken at random, or with probability `epsilon` any action."""
    if epsilon > 0.0 and rng.random() < epsilon:
        return int(rng.integers(0, q.size))
    best = q[0]
    for a in range(1, q.size):
        best = max(best, q[a])
    ties = 0
    for a in range(q.size):
        ties += q[a] == best
    chosen = int(rng.integers(0, ties)) if ties > 1 else 0
    for a in range(q.size):
        if q[a] == best:
            if chosen == 0:
                return a
            chosen -= 1
    return 0
