"""Agents with one face: ``act(observation)`` and ``learn(next_observation, reward, terminated)``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from condcs.core.checks import check_choice, check_integer
from condcs.core.errors import ParameterError, public
from condcs.core.random import check_rng
from condcs.explore.buffer import BUFFER_MEASURES, TransitionBuffer
from condcs.explore.encoders import Encoder
from condcs.explore.interface import Interface
from condcs.explore.kernel_td import KernelTD
from condcs.explore.settings import ENVIRONMENTS, METHODS, Hyperparameters, hyperparameters


class RandomAgent:
    """Any action, with equal probabilities."""

    def __init__(self, interface: Interface, *, rng: int | np.random.Generator | None = None) -> None:
        self.interface, self.rng = interface, check_rng(rng)

    def act(self, observation: Any) -> Any:
        """Return an action for the environment."""
        self.interface.state(observation)
        return self.interface.action(int(self.rng.integers(0, len(self.interface.actions))))

    def learn(self, observation: Any, reward: float, terminated: bool) -> float:
        """Learn nothing."""
        return 0.0


class KernelAgent:
    """Acts by a kernel value function: greedily with random ties, or at random with probability `epsilon`.

    By itself it learns from nothing: with an optimistic initial value, the control of all divergence-to-go agents.

    Parameters
    ----------
    interface : Interface
        States and actions of the environment.
    value : KernelTD
        What is learnt.
    epsilon : float
        Probability of a random action.
    rng : int or Generator, optional
        Random actions and ties.
    """

    def __init__(
        self,
        interface: Interface,
        value: KernelTD,
        *,
        epsilon: float = 0.0,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        from condcs.explore import value_loops

        if not 0 <= float(epsilon) <= 1:
            raise ParameterError(f"`epsilon` must be between 0 and 1, got {epsilon!r}. Pass e.g. epsilon=0.1.")
        if value.arrays.centres.shape[0] != interface.dim_state or len(value.actions) != len(interface.actions):
            raise ParameterError(
                f"`value` must fit the environment ({interface.dim_state} numbers in a state, "
                f"{len(interface.actions)} actions), got {value.arrays.centres.shape[0]} and {len(value.actions)}. "
                "Make it with KernelTD(interface.dim_state, interface.vectors)."
            )
        self._choose = value_loops.choose
        self.interface, self.value, self.epsilon, self.rng = interface, value, float(epsilon), check_rng(rng)
        self._state: np.ndarray[Any, Any] | None = None
        self._action = -1

    def act(self, observation: Any) -> Any:
        """Return an action for the environment."""
        state = self.interface.state(observation)
        if self._state is None or not np.array_equal(state, self._state):
            self.value.look(state)
            self._state = state
        self._action = int(self._choose(self.value.q, self.epsilon, self.rng))
        return self.interface.action(self._action)

    def learn(self, observation: Any, reward: float, terminated: bool) -> float:
        """Learn from what the last action led to; return the reward that was learnt from."""
        if self._state is None or self._action < 0:
            raise ParameterError("`learn` must come after `act`: there is no action yet. Call agent.act(observation).")
        upcoming = self.interface.state(observation)
        self.value.look(upcoming, ahead=True)
        used = self.reward(self._state, self._action, upcoming, float(reward), bool(terminated))
        self.value.learn(self._action, used, terminated=bool(terminated))
        self._state = upcoming
        return used

    def reward(self, state: Any, action: int, upcoming: Any, extrinsic: float, terminated: bool) -> float:
        """Return the reward to learn from."""
        return 0.0


class OptimismControl(KernelAgent):
    """The control: a divergence-to-go agent whose divergence is always 0."""


class KernelQLearning(KernelAgent):
    """Q-learning from the environment's reward, or, `sparse`, from 1 at the goal and 0 elsewhere."""

    def __init__(self, interface: Interface, value: KernelTD, *, sparse: bool = False, **options: Any) -> None:
        super().__init__(interface, value, **options)
        self.sparse = sparse

    def reward(self, state: Any, action: int, upcoming: Any, extrinsic: float, terminated: bool) -> float:
        """Return the reward to learn from."""
        return float(terminated) if self.sparse else extrinsic


class MaxEnt(KernelAgent):
    """Maximum-entropy exploration (Hazan et al., 2019): the reward is minus the log density of visited states.

    The density is a histogram with one visit added to every bin, updated every `rollout_steps` steps.

    Parameters
    ----------
    interface, value, epsilon, rng
        As in `KernelAgent`.
    bins, resolution : sequence
        Bins of each column of the state, and bins per unit.
    rollout_steps : int
        Steps between two updates of the density.
    relative : bool
        Whether the density is taken relative to the uniform one: then what is visited more often than that costs, and
        what is new pays, where the plain reward pays everywhere and makes the agent stay with what it knows.
    """

    def __init__(
        self,
        interface: Interface,
        value: KernelTD,
        *,
        bins: Any,
        resolution: Any,
        rollout_steps: int,
        relative: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(interface, value, **options)
        self.bins, self.resolution = np.array(bins, np.int64), np.array(resolution, np.float64)
        self.rollout_steps, self.relative = rollout_steps, relative
        self.counts = np.zeros(int(np.prod(self.bins)))
        self._frozen, self._visits = self.counts.copy(), 0

    def reward(self, state: Any, action: int, upcoming: Any, extrinsic: float, terminated: bool) -> float:
        """Return the reward to learn from."""
        from condcs.explore.rollout_loops import bin_of

        index = int(bin_of(upcoming, self.bins, self.resolution))
        self.counts[index] += 1
        self._visits += 1
        if self._visits % self.rollout_steps == 0:
            self._frozen[:] = self.counts
        total = self._visits // self.rollout_steps * self.rollout_steps
        density = (self._frozen[index] + 1.0) / (total + self._frozen.size)
        return -math.log(density * self._frozen.size if self.relative else density)


class DivergenceToGo(KernelAgent):
    """Divergence-to-go: the reward is the divergence between the old and the new half of the transition buffer.

    Parameters
    ----------
    interface : Interface
        States and actions of the environment.
    value : KernelTD
        What is learnt; its optimistic initial value matters more than the divergence where nothing is random.
    buffer : TransitionBuffer
        x is state and action, y the next state.
    measure : str
        A measure of the buffer.
    epsilon, rng
        As in `KernelAgent`.

    Examples
    --------
    >>> import gymnasium
    >>> environment = gymnasium.make("MountainCar-v0")
    >>> agent = make_agent("dtg-cs", environment, rng=0)
    >>> observation, _ = environment.reset(seed=0)
    >>> for _ in range(10):
    ...     action = agent.act(observation)
    ...     observation, reward, terminated, truncated, _ = environment.step(action)
    ...     divergence = agent.learn(observation, reward, terminated)
    >>> divergence > 0
    True
    """

    def __init__(
        self,
        interface: Interface,
        value: KernelTD,
        buffer: TransitionBuffer,
        *,
        measure: str = "conditional_cs",
        **options: Any,
    ) -> None:
        super().__init__(interface, value, **options)
        self.buffer, self.measure = buffer, check_choice("measure", measure, BUFFER_MEASURES)
        due = (interface.dim_state + interface.vectors.shape[1], interface.dim_state)
        if (buffer.window.dim_x, buffer.window.dim_y) != due:
            raise ParameterError(
                f"`buffer` must have {due[0]} columns of x (state and action) and {due[1]} of y (next state), got "
                f"{buffer.window.dim_x} and {buffer.window.dim_y}. Make it with TransitionBuffer(size, *{due}, ...)."
            )

    def reward(self, state: Any, action: int, upcoming: Any, extrinsic: float, terminated: bool) -> float:
        """Return the reward to learn from."""
        self.buffer.push(np.concatenate([state, self.interface.vectors[action]]), upcoming)
        return self.buffer.divergence(self.measure)


@public
def make_agent(
    method: str,
    environment: Any,
    *,
    settings: Hyperparameters | None = None,
    levels: int = 5,
    encoder: Encoder | None = None,
    rng: int | np.random.Generator | None = None,
) -> Any:
    """Make an agent for a gymnasium environment.

    Parameters
    ----------
    method : str
        "random", "q-learning", "maxent", "maxent-relative", "dtg", "dtg-kl", "dtg-mmd", "dtg-cs" or "control".
    environment : gymnasium.Env
        Its spaces are read (see `Interface.of`).
    settings : Hyperparameters, optional
        By default those of the paper's environment of that name, and for others those of the mountain car.
    levels : int
        Values of each column of continuous actions.
    encoder : callable, optional
        From observations to vectors, for observations of many dimensions.
    rng : int or Generator, optional
        Random actions and ties.

    Returns
    -------
    agent
        With ``act(observation)`` and ``learn(next_observation, reward, terminated)``.

    Examples
    --------
    >>> import gymnasium
    >>> type(make_agent("random", gymnasium.make("MountainCar-v0"), rng=0)).__name__
    'RandomAgent'
    """
    check_choice("method", method, tuple(METHODS))
    interface = Interface.of(environment, levels=levels, encoder=encoder)
    name = _paper_name(environment)
    chosen = settings if settings is not None else hyperparameters(name, method)
    return build_agent(interface, chosen, is_maze=name == "maze", environment=environment, rng=rng)


@public
def play(agent: Any, environment: Any, *, steps: int, seed: int, until_goal: bool = True) -> int:
    """Let an agent act in a gymnasium environment; return the number of steps.

    Parameters
    ----------
    agent : agent
        From `make_agent`.
    environment : gymnasium.Env
        It is reset with `seed` first, and again without one at the end of an episode.
    steps : int
        Longest run.
    seed : int
        Seed of the environment: without one the run could not be repeated.
    until_goal : bool
        Whether to stop when the environment terminates.

    Returns
    -------
    int
        Steps taken.

    Examples
    --------
    >>> import gymnasium
    >>> environment = gymnasium.make("MountainCar-v0")
    >>> play(make_agent("control", environment, rng=0), environment, steps=20, seed=0)
    20
    """
    steps, seed = check_integer("steps", steps, 1), check_integer("seed", seed, 0)
    observation, _ = environment.reset(seed=seed)
    for t in range(steps):
        observation, reward, terminated, truncated, _ = environment.step(agent.act(observation))
        agent.learn(observation, float(reward), bool(terminated))
        if terminated and until_goal:
            return t + 1
        if terminated or truncated:
            observation, _ = environment.reset()
    return steps


def build_agent(interface: Interface, settings: Hyperparameters, *, is_maze: bool, environment: Any, rng: Any) -> Any:
    """Make the agent that the settings describe."""
    if settings.epsilon >= 1:
        return RandomAgent(interface, rng=rng)
    value = KernelTD(
        interface.dim_state,
        interface.vectors,
        width=settings.width,
        learning_rate=settings.learning_rate,
        discount=settings.discount,
        initial_value=settings.initial_value,
        merge_radius=settings.merge_radius,
        capacity=settings.dictionary,
    )
    options: dict[str, Any] = {"epsilon": settings.epsilon, "rng": rng}
    if settings.reward in ("extrinsic", "goal"):
        return KernelQLearning(interface, value, sparse=settings.reward == "goal", **options)
    if settings.reward in ("entropy", "relative_entropy"):
        space = environment.observation_space
        bins, resolution = histogram_bins(settings, interface, space.high - space.low + 1 if is_maze else None)
        return MaxEnt(
            interface,
            value,
            bins=bins,
            resolution=resolution,
            rollout_steps=settings.rollout_steps,
            relative=settings.reward == "relative_entropy",
            **options,
        )
    if settings.reward == "nothing":
        return OptimismControl(interface, value, **options)
    check_choice("reward", settings.reward, BUFFER_MEASURES)
    buffer = TransitionBuffer(
        settings.buffer,
        interface.dim_state + interface.vectors.shape[1],
        interface.dim_state,
        settings.width,
        settings.width,
        refresh_every=settings.refresh_every,
    )
    return DivergenceToGo(interface, value, buffer, measure=settings.reward, **options)


def histogram_bins(settings: Hyperparameters, interface: Any, cells: Any) -> tuple[Any, Any]:
    """Return the bins of each column and the bins per unit: the cells of a maze, or equal parts of the unit range."""
    if cells is not None:
        sizes = np.asarray(cells).astype(np.int64)
        per_unit = 1.0 / interface.scale
        # The third column of a changing room is a number from 0 to 1, not a cell.
        per_unit[2:] *= sizes[2:]
        return sizes, per_unit
    return np.full(len(interface.low), settings.bins), np.full(len(interface.low), float(settings.bins))


def _paper_name(environment: Any) -> str:
    identifier = getattr(getattr(environment, "spec", None), "id", "")
    known = {"MountainCar-v0": "mountain-car", "Pendulum-v1": "pendulum", "condcs/Maze-v0": "maze"}
    name = known.get(identifier, "mountain-car")
    assert name in ENVIRONMENTS
    return name
