"""Spaces of an environment as agents see them: observations become states, and numbers become actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.checks import check_integer, check_positive, check_rng
from condcs._core.errors import DataError, ParameterError, ShapeError
from condcs._core.printable import Printable
from condcs.explore._gymnasium_module import gymnasium
from condcs.explore._tasks import task_of

Encoder = Callable[[Any], Any]
"""A function from an observation to a vector, preferably with entries between 0 and 1."""


class RandomFeatures(Printable):
    r"""Random features of an observation: :math:`(1 + \tanh(W o + b)) / 2` with fixed, random W and b.

    Different observations have different features, without any training. This is enough to count and compare visits to
    images and other high-dimensional observations.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of an observation.
    dim : int
        Number of features.
    scale : float
        Observations are divided by this number first (255 for images).
    rng : int or Generator, optional
        Draws W and b.

    Examples
    --------
    >>> import numpy as np
    >>> encoder = RandomFeatures((8, 8), 3, rng=0)
    >>> encoder(np.zeros((8, 8))).shape
    (3,)
    """

    def __init__(
        self, shape: int | Sequence[int], dim: int, *, scale: float = 1.0, rng: int | np.random.Generator | None = None
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(s) for s in shape)
        self.dim, self.scale = check_integer("dim", dim, 1), check_positive("scale", scale)
        generator = check_rng(rng)
        size = math.prod(self.shape)
        # Pre-activations of unit variance for standardised inputs: the slope of tanh keeps neighbours apart.
        self._weights = generator.normal(size=(self.dim, size)) / math.sqrt(size)
        self._bias = 0.5 * generator.normal(size=self.dim)

    def __call__(self, observation: Any) -> FloatArray:
        """Return the features of one observation."""
        values = np.asarray(observation, dtype=np.float64)
        if values.shape != self.shape:
            raise ShapeError(
                f"`observation` must have shape {self.shape}, got {values.shape}. Make the encoder for that shape."
            )
        return np.asarray(0.5 * (1.0 + np.tanh(self._weights @ (values.reshape(-1) / self.scale) + self._bias)))


def unit_range(low: Any, high: Any) -> tuple[FloatArray, FloatArray]:
    """Return shift and scale that bring a box to the unit range."""
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (high > low).all()):
        raise ParameterError(
            f"the observation space must have finite bounds, got low {low.tolist()} and high {high.tolist()}. Pass "
            "`low` and `high`, or an `encoder` that returns numbers between 0 and 1."
        )
    return low, 1.0 / (high - low)


class States(Printable):
    """Observations in the units of the kernel, which sees ``(observation - low) * scale``.

    An `encoder` is applied to observations first; `low` and `scale` are then those of its result.
    """

    def __init__(self, low: Any, scale: Any, encoder: Encoder | None = None) -> None:
        self.low, self.scale = np.array(low, np.float64), np.array(scale, np.float64)
        self.encoder = encoder

    @property
    def dim_state(self) -> int:
        """Columns of a state."""
        return len(self.low)

    def state(self, observation: Any) -> FloatArray:
        """Return the state of an observation."""
        features = observation if self.encoder is None else self.encoder(observation)
        return np.asarray((_checked(features, self.dim_state) - self.low) * self.scale)


class Spaces(States):
    """The spaces of an environment as an agent sees them: states in the units of the kernel, and a list of actions.

    Parameters
    ----------
    low, scale : array
        The kernel sees ``(observation - low) * scale``.
    encoder : callable, optional
        Applied to observations first; `low` and `scale` are then those of its result.
    vectors : array, shape (n_actions, d_a)
        Actions as the kernel sees them.
    actions : sequence
        The same actions as the environment expects them.
    """

    def __init__(
        self, low: Any, scale: Any, vectors: Any, actions: Sequence[Any], encoder: Encoder | None = None
    ) -> None:
        super().__init__(low, scale, encoder)
        self.vectors, self.actions = np.array(vectors, np.float64), list(actions)

    def action(self, index: int) -> Any:
        """Return an action as the environment expects it."""
        return self.actions[index]

    @classmethod
    def of(cls, environment: Any, *, levels: int = 5, encoder: Encoder | None = None) -> Spaces:
        """Read an environment's spaces; the kernel sees discrete actions as unit vectors, continuous ones as they are.

        Parameters
        ----------
        environment : gymnasium.Env
            Its observations are a bounded box of one dimension, or `encoder` maps them to numbers between 0 and 1. Its
            actions are discrete, or a bounded box that is discretised.
        levels : int
            Number of values in each column of continuous actions.
        encoder : callable, optional
            Function from an observation to a vector.
        """
        low, scale = state_range(environment.observation_space, encoder)
        vectors, actions = _actions(environment.action_space, levels)
        task = task_of(environment)
        if task is not None:
            if task.state_scale is not None and encoder is None:
                scale = np.full(scale.shape, task.state_scale)
            vectors_of_task = task.action_vectors(levels)
            if vectors_of_task is not None:
                vectors = vectors_of_task
                actions = _actions_of(environment.action_space, vectors)
        return cls(low, scale, vectors, actions, encoder)


def state_range(space: Any, encoder: Encoder | None) -> tuple[FloatArray, FloatArray]:
    """Return shift and scale that bring observations to the unit range; what an encoder returns is in it already."""
    if encoder is not None:
        dim = len(_checked(encoder(space.sample()), None))
        return np.zeros(dim), np.ones(dim)
    if not isinstance(space, gymnasium().spaces.Box) or len(space.shape) != 1:
        raise ParameterError(
            f"the observation space must be a box of one dimension, got {space}. Wrap the environment in "
            "`gymnasium.wrappers.FlattenObservation`, or pass an `encoder`, for images e.g. "
            "`condcs.explore.RandomFeatures(environment.observation_space.shape, 8)`."
        )
    return unit_range(space.low, space.high)


def _actions(space: Any, levels: int) -> tuple[FloatArray, list[Any]]:
    """Return actions as the kernel sees them (n_actions, d_a), and as the environment expects them."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Discrete):
        unit_vectors = np.eye(int(space.n))
        return unit_vectors, _actions_of(space, unit_vectors)
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and np.isfinite([space.low, space.high]).all():
        levels = check_integer("levels", levels, 2)
        columns = [np.linspace(a, b, levels) for a, b in zip(space.low, space.high, strict=True)]
        grid = np.stack([g.reshape(-1) for g in np.meshgrid(*columns, indexing="ij")], axis=1)
        return grid, _actions_of(space, grid)
    raise ParameterError(
        f"the action space must be discrete, or a bounded box of one dimension, got {space}. Wrap the environment, "
        "e.g. with gymnasium.wrappers.TransformAction."
    )


def _actions_of(space: Any, vectors: FloatArray) -> list[Any]:
    """Return actions as the environment expects them: the numbers of discrete ones, the vectors of continuous ones."""
    if isinstance(space, gymnasium().spaces.Discrete):
        return [int(space.start) + i for i in range(len(vectors))]
    return [vector.astype(space.dtype) for vector in vectors]


def _checked(values: Any, dim: int | None) -> FloatArray:
    """Return an observation, or what an encoder made of it, as a finite vector of the right length."""
    state = np.array(values, dtype=np.float64).reshape(-1)
    if dim is not None and state.size != dim:
        raise ShapeError(f"the observation must have {dim} numbers, got {state.size}. Use one environment per agent.")
    if not np.isfinite(state).all():
        raise DataError(
            f"the observation must be finite, got {state.tolist()}. Check the environment, or clean observations with "
            "an `encoder`."
        )
    return state
