"""Quantised kernel temporal differences: a value function of states and actions that learns at every step.

A value function is a tuple of plain arrays (`ValueArrays`), so that compiled rollouts can carry it along.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray, IntArray
from condcs._core.checks import check_integer, check_positive
from condcs._core.compiling import njit
from condcs._core.errors import DataError, ParameterError, ShapeError
from condcs._core.files import State, Stateful
from condcs._core.vocabulary import named
from condcs._kernels.compiled import exp_in_place

# Entries of `ValueArrays.options`.
INITIAL, LEARNING_RATE, DISCOUNT, MERGE_EXPONENT = range(4)
# Entries of `ValueArrays.sizes`.
COUNT, CURRENT, LEARNT = range(3)

HERE, AHEAD = np.int64(0), np.int64(1)
"""The two states: of numpy's type, because plain numbers in a call are types of their own to numba."""

_compiled = njit(nogil=True, fastmath={"contract", "reassoc"})


class ValueArrays(NamedTuple):
    """Centres, their weights and the values at two states: the current one and the next."""

    centres: FloatArray  # d x capacity: states of the dictionary, in units of the kernel bandwidth
    actions: IntArray  # action of each centre
    weights: FloatArray  # contribution of each centre to the value at its own place
    action_kernel: FloatArray  # between actions; the kernel between pairs is its product with the one between states
    options: FloatArray  # initial value, learning rate, discount, log kernel value from which a centre is shared
    sizes: IntArray  # centres in use, which scratch row belongs to the current state, steps learnt
    # Centres of the last steps, -1 where there was none, step t in place t % memory; empty if nothing is forgotten.
    recent: IntArray
    support: IntArray  # how many of those steps each centre has
    exponents: FloatArray  # 2 x capacity: log kernel values of the current and of the next state against all centres
    q: FloatArray  # 2 x n_actions: values of all actions at these two states
    states: FloatArray  # 2 x d: the two states, in units of the kernel bandwidth
    work: FloatArray


@_compiled
def look(values: Any, which: int, state: Any, scale: float) -> None:
    """Make `state` the current one (`HERE`) or the next (`AHEAD`), and fill in the values of all actions there."""
    n = values.sizes[COUNT]
    slot = (values.sizes[CURRENT] + which) % 2
    for c in range(state.size):
        values.states[slot, c] = state[c] * scale
    row, work, centres, state = values.exponents[slot], values.work, values.centres, values.states[slot]
    for j in range(n):
        row[j] = 0.0
    for c in range(centres.shape[0]):
        column, coordinate = centres[c], state[c]
        for j in range(n):
            difference = column[j] - coordinate
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


@_compiled
def learn(values: Any, action: int, reward: float, is_terminal: bool) -> Any:
    """Move the value of `action` at the current state towards the target; return the temporal difference.

    The values at the next state, which are already known, are corrected for this step.
    """
    current = values.sizes[CURRENT]
    upcoming = 1 - current
    memory = values.recent.size
    slot = values.sizes[LEARNT] % memory if memory else 0
    if values.sizes[LEARNT] >= memory > 0:
        _forget(values, values.recent[slot])
    best = 0.0
    if not is_terminal:
        best = values.q[upcoming, 0]
        for a in range(1, values.q.shape[1]):
            best = max(best, values.q[upcoming, a])
    difference = reward + values.options[DISCOUNT] * best - values.q[current, action]
    amount = values.options[LEARNING_RATE] * difference
    centre = _centre(values, action)
    if memory:
        values.recent[slot] = centre
        values.sizes[LEARNT] += 1
    if centre < 0:
        return difference
    values.support[centre] += 1
    values.weights[centre] += amount
    _correct(values, centre, amount, upcoming)
    return difference


@_compiled
def _forget(values: Any, centre: int) -> None:
    """Take a step's share of the weight from its centre: all of it, if no later step has this centre."""
    if centre < 0:
        return
    share = values.weights[centre] / values.support[centre]
    values.support[centre] -= 1
    values.weights[centre] -= share
    for slot in range(2):
        _correct(values, centre, -share, slot)


@_compiled
def _correct(values: Any, centre: int, amount: float, slot: int) -> None:
    """Add to the values at the current or the next state what a weight has gained."""
    nearness = math.exp(values.exponents[slot, centre])
    for a in range(values.q.shape[1]):
        values.q[slot, a] += amount * values.action_kernel[a, values.actions[centre]] * nearness


@_compiled
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


@_compiled
def advance(values: Any) -> None:
    """Make the next state the current one."""
    values.sizes[CURRENT] = 1 - values.sizes[CURRENT]


@_compiled
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


class KernelTD(Stateful):
    r"""Value function :math:`q(s, a) = q_0 + \alpha \sum_j \delta_j \kappa((s, a), (s_j, a_j))`.

    Each step adds its temporal difference :math:`\delta = r + \gamma \max_{a'} q(s', a') - q(s, a)` to the dictionary:
    to a centre of the same action within `merge_radius` if there is one, else as a new centre; when the dictionary is
    full, to the nearest centre. A high initial value makes what is unknown attractive (optimism). One evaluation of all
    actions costs O(centres).

    Parameters
    ----------
    dim_state : int
        Number of columns of a state.
    actions : array, shape (n_actions, d_a)
        Each action as a vector, in the same units as states.
    bandwidth : float
        Bandwidth of the Gaussian kernel on state and action.
    learning_rate, discount : float
        :math:`\alpha` and :math:`\gamma`.
    initial_value : float
        Value of states and actions far from all centres.
    merge_radius : float
        Distance up to which two states share a centre.
    capacity : int
        Largest number of centres.
    memory : int
        Steps that are remembered; 0: all. When one is forgotten its centre loses a share of its weight, all of it with
        the last of its steps: what has not been tried for so long has its initial value again.

    Examples
    --------
    >>> import numpy as np
    >>> value = KernelTD(1, np.array([[-1.0], [1.0]]), learning_rate=0.5, discount=0.9, initial_value=10.0)
    >>> value.update([0.2], 0, 1.0, [0.3])  # 1 + 0.9 * 10 - 10
    0.0
    >>> value.update([0.2], 0, 0.0, [0.3], terminated=True)
    -10.0
    >>> value.values([0.2]).tolist()
    [5.0, 10.0]
    """

    def __init__(
        self,
        dim_state: int,
        actions: Any,
        *,
        bandwidth: float = 0.1,
        learning_rate: float = 0.5,
        discount: float = 0.9,
        initial_value: float = 500.0,
        merge_radius: float = 0.02,
        capacity: int = 20_000,
        memory: int = 0,
    ) -> None:
        d, n = check_integer("dim_state", dim_state, 1), check_integer("capacity", capacity, 1)
        self.bandwidth, self.merge_radius = (
            check_positive("bandwidth", bandwidth),
            check_positive("merge_radius", merge_radius),
        )
        vectors = np.array(actions, dtype=np.float64)
        if vectors.ndim != 2 or len(vectors) < 1 or not np.isfinite(vectors).all():
            raise ShapeError(
                f"`actions` must be finite, with one row per action, got shape {vectors.shape}. "
                "Pass e.g. [[-1.0], [0.0], [1.0]]."
            )
        if not 0 < float(learning_rate) <= 1 or not 0 <= float(discount) < 1:
            raise ParameterError(
                f"`learning_rate` must be in (0, 1] and `discount` in [0, 1), got {learning_rate} and {discount}. "
                "Pass e.g. learning_rate=0.5, discount=0.9."
            )
        self.actions = vectors
        squared = ((vectors[:, None, :] - vectors[None, :, :]) ** 2).sum(axis=-1)
        options = [float(initial_value), learning_rate, discount, -0.5 * (self.merge_radius / self.bandwidth) ** 2]
        self.arrays = ValueArrays(
            np.zeros((d, n)),
            np.zeros(n, np.int64),
            np.zeros(n),
            np.exp(-0.5 * squared / self.bandwidth**2),
            np.array(options),
            np.zeros(3, np.int64),
            np.full(check_integer("memory", memory, 0), -1),
            np.zeros(n, np.int64),
            np.zeros((2, n)),
            np.full((2, len(vectors)), float(initial_value)),
            np.zeros((2, d)),
            np.zeros(n),
        )

    def __len__(self) -> int:
        return int(self.arrays.sizes[COUNT])

    @property
    def q(self) -> FloatArray:
        """Values of all actions at the current state (a view)."""
        return np.asarray(self.arrays.q[self.arrays.sizes[CURRENT]])

    def look(self, state: Any, *, ahead: bool = False) -> None:
        """Evaluate all actions at the current state or, with `ahead`, at the next one."""
        look(self.arrays, int(ahead), self._checked(state), 1.0 / self.bandwidth)

    def learn(self, action: int, reward: float, *, terminated: bool = False) -> float:
        """Learn from the step to the next state, which becomes the current one; return the temporal difference."""
        difference = float(learn(self.arrays, action, float(reward), terminated))
        advance(self.arrays)
        return difference

    def update(self, state: Any, action: int, reward: float, next_state: Any, *, terminated: bool = False) -> float:
        """Learn from one transition; return the temporal difference."""
        n = len(self.actions)
        check_integer("action", action, 0, n - 1, because=f" (there are {n} actions)")
        self.look(state)
        self.look(next_state, ahead=True)
        return self.learn(action, reward, terminated=terminated)

    def values(self, state: Any) -> FloatArray:
        """Return the values of all actions at a state, without changing the current state."""
        n, scaled = len(self), self._checked(state) / self.bandwidth
        arrays = self.arrays
        near = np.exp(-0.5 * ((arrays.centres[:, :n].T - scaled) ** 2).sum(axis=1)) * arrays.weights[:n]
        return np.asarray(arrays.options[INITIAL] + arrays.action_kernel[:, arrays.actions[:n]] @ near)

    def _checked(self, state: Any) -> FloatArray:
        vector = np.array(state, dtype=np.float64).reshape(-1)
        if vector.size != self.arrays.centres.shape[0]:
            raise ShapeError(
                f"{named('state')} must be {self.arrays.centres.shape[0]} numbers, got {vector.size}. Pass one state "
                "at a time."
            )
        if not np.isfinite(vector).all():
            raise DataError(
                f"{named('state')} must be finite, got {vector.tolist()}. Check the environment's observations."
            )
        return vector

    def state_dict(self) -> State:
        """Return the whole state as plain arrays."""
        n = len(self)
        arrays = self.arrays
        return {
            "centres": arrays.centres[:, :n].copy(),
            "centre_actions": arrays.actions[:n].copy(),
            "weights": arrays.weights[:n].copy(),
            "actions": self.actions.copy(),
            "options": arrays.options.copy(),
            "sizes": np.array([arrays.weights.size, arrays.sizes[LEARNT]]),
            "recent": arrays.recent.copy(),
            "widths": np.array([self.bandwidth, self.merge_radius]),
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, AnyArray]) -> KernelTD:
        """Return the value function that `state` describes."""
        try:
            centres, weights = np.asarray(state["centres"]), np.asarray(state["weights"])
            initial, learning_rate, discount, _ = (float(v) for v in state["options"])
            bandwidth, merge_radius = (float(v) for v in state["widths"])
            # Files of earlier versions have no memory.
            recent = np.asarray(state.get("recent", ()), np.int64)
            function = cls(
                centres.shape[0],
                state["actions"],
                bandwidth=bandwidth,
                learning_rate=learning_rate,
                discount=discount,
                initial_value=initial,
                merge_radius=merge_radius,
                capacity=int(state["sizes"][0]),
                memory=len(recent),
            )
            n = len(weights)
            actions = np.asarray(state["centre_actions"])
            if not (np.isfinite(centres).all() and np.isfinite(weights).all()) or n > function.arrays.weights.size:
                raise ValueError("not finite, or too many")
            if n and not (actions.min() >= 0 and actions.max() < len(function.actions)):
                raise ValueError("unknown action")
            function.arrays.centres[:, :n], function.arrays.actions[:n], function.arrays.weights[:n] = (
                centres,
                actions,
                weights,
            )
            function.arrays.recent[:], function.arrays.sizes[LEARNT] = recent, state["sizes"][-1] if len(recent) else 0
            np.add.at(function.arrays.support[:n], recent[recent >= 0], 1)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise DataError(f"{named('state')} must come from `KernelTD.state_dict()`. Save it again.") from error
        function.arrays.sizes[COUNT] = n
        return function
