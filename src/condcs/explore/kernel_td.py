"""Quantised kernel temporal differences: a value function of states and actions that learns at every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs.core.checks import check_integer, check_positive
from condcs.core.errors import DataError, ParameterError, ShapeError

FloatArray = np.ndarray[Any, Any]


class KernelTD:
    r"""Value function :math:`q(s, a) = q_0 + \alpha \sum_j \delta_j \kappa((s, a), (s_j, a_j))`.

    Each step adds its temporal difference :math:`\delta = r + \gamma \max_{a'} q(s', a') - q(s, a)` to the dictionary:
    to a centre of the same action within `merge_radius` if there is one, else as a new centre; when the dictionary is
    full, to the nearest centre. A high initial value makes what is unknown attractive (optimism). One evaluation of all
    actions costs O(centres).

    Parameters
    ----------
    dim_state : int
        Columns of a state.
    actions : array, shape (n_actions, d_a)
        Each action as a vector, in the same units as states.
    width : float
        Width of the Gaussian kernel on state and action.
    learning_rate, discount : float
        Alpha and gamma.
    initial_value : float
        Value of everything that is unknown.
    merge_radius : float
        Distance up to which two states share a centre.
    capacity : int
        Largest number of centres.

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
        width: float = 0.1,
        learning_rate: float = 0.5,
        discount: float = 0.9,
        initial_value: float = 500.0,
        merge_radius: float = 0.02,
        capacity: int = 20_000,
    ) -> None:
        from condcs.explore import value_loops

        self._loops = value_loops
        d, n = check_integer("dim_state", dim_state, 1), check_integer("capacity", capacity, 1)
        self.width, self.merge_radius = check_positive("width", width), check_positive("merge_radius", merge_radius)
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
        options = [float(initial_value), learning_rate, discount, -0.5 * (self.merge_radius / self.width) ** 2]
        self.arrays = value_loops.Values(
            np.zeros((d, n)),
            np.zeros(n, np.int64),
            np.zeros(n),
            np.exp(-0.5 * squared / self.width**2),
            np.array(options),
            np.zeros(2, np.int64),
            np.zeros((2, n)),
            np.full((2, len(vectors)), float(initial_value)),
            np.zeros((2, d)),
            np.zeros(n),
        )

    def __len__(self) -> int:
        return int(self.arrays.sizes[self._loops.COUNT])

    @property
    def q(self) -> FloatArray:
        """Values of all actions at the state last looked at (a view)."""
        return np.asarray(self.arrays.q[self.arrays.sizes[self._loops.CURRENT]])

    def look(self, state: Any, *, ahead: bool = False) -> None:
        """Evaluate all actions at the current state, or, `ahead`, at the next one."""
        self._loops.write_state(self.arrays, int(ahead), self._checked(state), 1.0 / self.width)
        self._loops.evaluate(self.arrays, int(ahead))

    def learn(self, action: int, reward: float, *, terminated: bool = False) -> float:
        """Learn from a step between the two states looked at, go to the next; return the temporal difference."""
        difference = float(self._loops.learn(self.arrays, action, float(reward), terminated))
        self._loops.advance(self.arrays)
        return difference

    def update(self, state: Any, action: int, reward: float, next_state: Any, *, terminated: bool = False) -> float:
        """Learn from a whole transition; return the temporal difference."""
        n = len(self.actions)
        check_integer("action", action, 0, n - 1, because=f" (there are {n} actions)")
        self.look(state)
        self.look(next_state, ahead=True)
        return self.learn(action, reward, terminated=terminated)

    def values(self, state: Any) -> FloatArray:
        """Return the values of all actions at a state; the current state stays what it is."""
        n, scaled = len(self), self._checked(state) / self.width
        arrays = self.arrays
        near = np.exp(-0.5 * ((arrays.centres[:, :n].T - scaled) ** 2).sum(axis=1)) * arrays.weights[:n]
        return np.asarray(arrays.options[self._loops.INITIAL] + arrays.action_kernel[:, arrays.actions[:n]] @ near)

    def _checked(self, state: Any) -> FloatArray:
        given = np.array(state, dtype=np.float64).reshape(-1)
        if given.size != self.arrays.centres.shape[0]:
            raise ShapeError(
                f"`state` must be {self.arrays.centres.shape[0]} numbers, got {given.size}. Pass one state at a time."
            )
        if not np.isfinite(given).all():
            raise DataError(f"`state` must be finite, got {given.tolist()}. Check the environment's observations.")
        return given

    def state(self) -> dict[str, FloatArray]:
        """Return everything as plain arrays, for `numpy.savez`."""
        n = len(self)
        arrays = self.arrays
        return {
            "centres": arrays.centres[:, :n].copy(),
            "centre_actions": arrays.actions[:n].copy(),
            "weights": arrays.weights[:n].copy(),
            "actions": self.actions.copy(),
            "options": arrays.options.copy(),
            "sizes": np.array([arrays.weights.size]),
            "widths": np.array([self.width, self.merge_radius]),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, FloatArray]) -> KernelTD:
        """Return the value function that `state` describes."""
        try:
            centres, weights = np.asarray(state["centres"]), np.asarray(state["weights"])
            initial, learning_rate, discount, _ = (float(v) for v in state["options"])
            width, merge_radius = (float(v) for v in state["widths"])
            made = cls(
                centres.shape[0],
                state["actions"],
                width=width,
                learning_rate=learning_rate,
                discount=discount,
                initial_value=initial,
                merge_radius=merge_radius,
                capacity=int(state["sizes"][0]),
            )
            n = len(weights)
            actions = np.asarray(state["centre_actions"])
            if not (np.isfinite(centres).all() and np.isfinite(weights).all()) or n > made.arrays.weights.size:
                raise ValueError("not finite, or too many")
            if n and not (actions.min() >= 0 and actions.max() < len(made.actions)):
                raise ValueError("unknown action")
            made.arrays.centres[:, :n], made.arrays.actions[:n], made.arrays.weights[:n] = centres, actions, weights
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise DataError("`state` must come from `KernelTD.state()`. Save it again.") from error
        made.arrays.sizes[made._loops.COUNT] = n
        return made
