"""What lies between an environment and an agent: observations become states, action numbers become actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condcs.core.checks import check_integer
from condcs.core.errors import ParameterError
from condcs.explore.encoders import Encoder, checked_state
from condcs.explore.environments import MAZE_SPACING, TORQUES, unit_range
from condcs.explore.mazes import MOVES
from condcs.explore.partner import gymnasium


class Interface:
    """States in the units of the kernel, and a finite list of actions.

    Parameters
    ----------
    low, scale : array
        The kernel sees ``(observation - low) * scale``.
    vectors : array, shape (n_actions, d_a)
        Actions as the kernel sees them.
    actions : sequence
        The same actions as the environment wants them.
    encoder : callable, optional
        Applied to observations first; `low` and `scale` are then those of its result.
    """

    def __init__(
        self, low: Any, scale: Any, vectors: Any, actions: Sequence[Any], encoder: Encoder | None = None
    ) -> None:
        self.low, self.scale = np.array(low, np.float64), np.array(scale, np.float64)
        self.vectors, self.actions, self.encoder = np.array(vectors, np.float64), list(actions), encoder

    @property
    def dim_state(self) -> int:
        """Columns of a state."""
        return len(self.low)

    def state(self, observation: Any) -> np.ndarray[Any, Any]:
        """Return the state of an observation."""
        given = observation if self.encoder is None else self.encoder(observation)
        return np.asarray((checked_state(given, self.dim_state) - self.low) * self.scale)

    def action(self, index: int) -> Any:
        """Return an action as the environment wants it."""
        return self.actions[index]

    @classmethod
    def of(cls, environment: Any, *, levels: int = 5, encoder: Encoder | None = None, vectors: Any = None) -> Interface:
        """Read an environment's spaces.

        Parameters
        ----------
        environment : gymnasium.Env
            Its observations are a bounded box of one dimension, or `encoder` makes them so (numbers between 0 and 1).
            Its actions are discrete, or a bounded box that is discretised.
        levels : int
            Values of each column of continuous actions; the pendulum has the paper's five torques.
        encoder : callable, optional
            From an observation to a vector.
        vectors : array, optional
            Actions as the kernel sees them; by default unit vectors of discrete ones, and continuous ones as they are.
        """
        name = getattr(getattr(environment, "spec", None), "id", "")
        low, scale = _states(environment.observation_space, encoder, name)
        made, actions = _actions(environment.action_space, levels, name)
        if vectors is not None:
            made = np.array(vectors, np.float64)
            if made.ndim != 2 or len(made) != len(actions):
                raise ParameterError(
                    f"`vectors` must have one row per action ({len(actions)}), got shape {made.shape}. "
                    "Pass e.g. the identity matrix."
                )
        return cls(low, scale, made, actions, encoder)


def _states(space: Any, encoder: Encoder | None, name: str) -> tuple[Any, Any]:
    if encoder is not None:
        dim = len(checked_state(encoder(space.sample()), None))
        return np.zeros(dim), np.ones(dim)
    if not isinstance(space, gymnasium().spaces.Box) or len(space.shape) != 1:
        raise ParameterError(
            f"the observation space must be a box of one dimension, got {space}. Pass an `encoder`, e.g. "
            "`condcs.explore.RandomFeatures(environment.observation_space.shape, 8)`."
        )
    if name == "condcs/Maze-v0":
        return space.low, np.full(space.shape, MAZE_SPACING)
    return unit_range(space.low, space.high)


def _actions(space: Any, levels: int, name: str) -> tuple[Any, list[Any]]:
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Discrete):
        n = int(space.n)
        numbers = [int(space.start) + i for i in range(n)]
        if name == "condcs/Maze-v0":
            return np.array(MOVES, np.float64), numbers
        if name == "MountainCar-v0":
            return np.array([[-1.0], [0.0], [1.0]]), numbers
        return np.eye(n), numbers
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and np.isfinite([space.low, space.high]).all():
        levels = check_integer("levels", levels, 2)
        if name == "Pendulum-v1" and levels == len(TORQUES):
            columns = [np.array(TORQUES)]
        else:
            columns = [np.linspace(a, b, levels) for a, b in zip(space.low, space.high, strict=True)]
        grid = np.stack([g.reshape(-1) for g in np.meshgrid(*columns, indexing="ij")], axis=1)
        return grid, [row.astype(space.dtype) for row in grid]
    raise ParameterError(
        f"the action space must be discrete, or a bounded box of one dimension, got {space}. Wrap the environment, "
        "e.g. with gymnasium.wrappers.TransformAction."
    )
