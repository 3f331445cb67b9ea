"""Agents with ``act(observation)`` and ``learn(next_observation, reward, terminated)``, and their settings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.checks import check_choice, check_integer, check_rng
from condcs._core.errors import ParameterError, public
from condcs.explore._buffer import BUFFER_MEASURES, BufferMeasure, TransitionBuffer
from condcs.explore._kernel_td import KernelTD, choose
from condcs.explore._rewards import DivergenceReward, LocalReward, TransitionReward
from condcs.explore._spaces import MAZE_ID, Encoder, EnvironmentName, Spaces

Method = Literal["random", "dtg", "dtg-kl", "dtg-mmd", "dtg-cs", "dtg-local", "control"]

METHODS: dict[Method, str] = {
    "random": "Random",
    "dtg": "DTG",
    "dtg-kl": "DTG-KL",
    "dtg-mmd": "DTG-MMD",
    "dtg-cs": "DTG-CS",
    "dtg-local": "DTG-local",
    "control": "control: D = 0, optimism only",
}
"""Methods, and their names in tables."""

Reward = Literal["nothing", "local"] | BufferMeasure
REWARDS: tuple[Reward, ...] = ("nothing", "local", *BUFFER_MEASURES)
"""What agents learn from."""

_MEMORY = 3
"""Memory of the local agent's values, in lengths of its buffer. Shorter, it loses what it has learnt of rare
successes, as in a wind that mostly blows it back; longer, it is slow to notice that a door has opened."""

_REWARD_OF: dict[Method, Reward] = {
    "random": "nothing",
    "dtg": "conditional_euclidean",
    "dtg-kl": "conditional_kl",
    "dtg-mmd": "joint_mmd",
    "dtg-cs": "conditional_cs",
    "dtg-local": "local",
    "control": "nothing",
}

_PAPERS: dict[str, EnvironmentName] = {"Pendulum-v1": "pendulum", MAZE_ID: "maze"}
"""Environments of the paper by gymnasium's names; all others get the settings of the mountain car."""


@dataclass(frozen=True)
class Hyperparameters:
    """Settings of an agent.

    Attributes
    ----------
    learning_rate, discount : float
        Learning rate and discount factor of the value function.
    bandwidth : float
        Bandwidth of all Gaussian kernels (value function, and x and y of the divergence), on states in the unit range
        and raw actions.
    merge_radius : float
        Distance up to which two states share a centre of the value function.
    dictionary : int
        Largest number of centres.
    initial_value : float
        Value of unknown states. It drives the exploration of all divergence-to-go methods and of the control.
    epsilon : float
        Probability of a random action; 1 is the random agent.
    reward : str
        What the agent learns from: "nothing", "local" (local divergence and novelty; see `IntrinsicReward`), or a
        divergence between the halves of the buffer, by its name in `TransitionBuffer.divergence`.
    buffer : int
        Transitions of both halves of the buffer.
    refresh_every : int
        Steps between two estimates of the conditional KL or MMD.
    memory : int
        Steps after which the value function forgets what was not tried again; 0: never (see `KernelTD`).
    change, novelty : float
        Weights of the local divergence and of novelty in the local reward. Values of about ``novelty / (1 - discount)``
        must not be far above the initial value: rewards of known places would hide unknown ones.
    """

    learning_rate: float
    discount: float
    bandwidth: float = 0.1
    merge_radius: float = 0.02
    dictionary: int = 20_000
    initial_value: float = 500.0
    epsilon: float = 0.0
    reward: Reward = "nothing"
    buffer: int = 2_000
    refresh_every: int = 50
    memory: int = 0
    change: float = 0.25
    novelty: float = 2.0

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as a dict."""
        return asdict(self)

    def value_function(self, dim_state: int, actions: Any) -> KernelTD:
        """Return an untrained value function for states of `dim_state` numbers; `actions` has one row per action."""
        return KernelTD(
            dim_state,
            actions,
            bandwidth=self.bandwidth,
            learning_rate=self.learning_rate,
            discount=self.discount,
            initial_value=self.initial_value,
            merge_radius=self.merge_radius,
            capacity=self.dictionary,
            memory=self.memory,
        )


ENVIRONMENTS: dict[EnvironmentName, Hyperparameters] = {
    "mountain-car": Hyperparameters(learning_rate=0.5, discount=0.9),
    "pendulum": Hyperparameters(learning_rate=1e-3, discount=0.99),
    "maze": Hyperparameters(learning_rate=0.2, discount=0.9),
}
"""Settings that all methods share in each environment."""


@public
def hyperparameters(environment: EnvironmentName, method: Method) -> Hyperparameters:
    """Return the settings of a method in one of the paper's environments.

    Parameters
    ----------
    environment : {"mountain-car", "pendulum", "maze"}
        Which environment.
    method : {"random", "dtg", "dtg-kl", "dtg-mmd", "dtg-cs", "dtg-local", "control"}
        Which method.

    Returns
    -------
    Hyperparameters
        Change them with `dataclasses.replace`.

    Examples
    --------
    >>> hyperparameters("mountain-car", "dtg-cs").reward
    'conditional_cs'
    """
    check_choice("environment", environment, tuple(ENVIRONMENTS))
    check_choice("method", method, tuple(METHODS))
    base = ENVIRONMENTS[environment]
    if method == "random":
        return replace(base, epsilon=1.0, initial_value=0.0)
    return replace(base, reward=_REWARD_OF[method], memory=_MEMORY * base.buffer if method == "dtg-local" else 0)


class RandomAgent:
    """Takes every action with the same probability."""

    def __init__(self, spaces: Spaces, *, rng: int | np.random.Generator | None = None) -> None:
        self.spaces, self.rng = spaces, check_rng(rng)

    def act(self, observation: Any) -> Any:
        """Return an action for the environment."""
        self.spaces.state(observation)
        return self.spaces.action(int(self.rng.integers(0, len(self.spaces.actions))))

    def learn(self, observation: Any, reward: float, terminated: bool) -> float:
        """Learn nothing."""
        return 0.0


class KernelAgent:
    """Acts greedily by a kernel value function, ties broken at random, or at random with probability `epsilon`.

    It learns from a reward of its own making, not from that of the environment. With a `DivergenceReward` it is
    divergence-to-go. With a `LocalReward` it seeks places where p(next state | state, action) has changed, and those
    that its buffer has hardly seen: with an optimistic value function it explores faster than optimism alone, and with
    one that has a `memory` it goes on testing what it knows. Without a reward it is the control of both: in
    deterministic environments an optimistic initial value matters more than a divergence.

    Parameters
    ----------
    spaces : Spaces
        States and actions of the environment.
    value : KernelTD
        The value function that is learnt.
    reward : DivergenceReward or LocalReward, optional
        What it learns from; by default 0.
    epsilon : float
        Probability of a random action.
    rng : int or Generator, optional
        Random actions and ties.

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
        spaces: Spaces,
        value: KernelTD,
        *,
        reward: TransitionReward | None = None,
        epsilon: float = 0.0,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        if not 0 <= float(epsilon) <= 1:
            raise ParameterError(f"`epsilon` must be between 0 and 1, got {epsilon!r}. Pass e.g. epsilon=0.1.")
        if value.arrays.centres.shape[0] != spaces.dim_state or len(value.actions) != len(spaces.actions):
            raise ParameterError(
                f"`value` must fit the environment ({spaces.dim_state} numbers in a state, "
                f"{len(spaces.actions)} actions), got {value.arrays.centres.shape[0]} and {len(value.actions)}. "
                "Make it with KernelTD(spaces.dim_state, spaces.vectors)."
            )
        due = (spaces.dim_state + spaces.vectors.shape[1], spaces.dim_state)
        if reward is not None and (found := (reward.buffer.dim_x, reward.buffer.dim_y)) != due:
            raise ParameterError(
                f"`reward` must have a buffer with {due[0]} columns of x (state and action) and {due[1]} of y (next "
                f"state), got {found[0]} and {found[1]}. Make it with TransitionBuffer(size, *{due}, ...)."
            )
        self.spaces, self.value, self.epsilon, self.rng = spaces, value, float(epsilon), check_rng(rng)
        self.reward = reward
        self._state: FloatArray | None = None
        self._action = -1

    def act(self, observation: Any) -> Any:
        """Return an action for the environment."""
        state = self.spaces.state(observation)
        if self._state is None or not np.array_equal(state, self._state):
            self.value.look(state)
            self._state = state
        self._action = int(choose(self.value.q, self.epsilon, self.rng))
        return self.spaces.action(self._action)

    def learn(self, observation: Any, reward: float, terminated: bool) -> float:
        """Learn from the outcome of the last action; return the reward that was learnt from."""
        if self._state is None or self._action < 0:
            raise ParameterError("`learn` must come after `act`: there is no action yet. Call agent.act(observation).")
        upcoming = self.spaces.state(observation)
        self.value.look(upcoming, ahead=True)
        vector = self.spaces.vectors[self._action]
        used = 0.0 if self.reward is None else self.reward.reward(self._state, vector, upcoming)
        self.value.learn(self._action, used, terminated=bool(terminated))
        self._state = upcoming
        return used


Agent = RandomAgent | KernelAgent


@public
def make_agent(
    method: Method,
    environment: Any,
    *,
    settings: Hyperparameters | None = None,
    levels: int = 5,
    encoder: Encoder | None = None,
    rng: int | np.random.Generator | None = None,
) -> Agent:
    """Make an agent for a gymnasium environment.

    Parameters
    ----------
    method : {"random", "dtg", "dtg-kl", "dtg-mmd", "dtg-cs", "dtg-local", "control"}
        Which method.
    environment : gymnasium.Env
        Its spaces are read (see `Spaces.of`).
    settings : Hyperparameters, optional
        By default those of the paper's environment of that name; other environments get those of the mountain car.
    levels : int
        Number of values into which each column of continuous actions is discretised.
    encoder : callable, optional
        Function from observations to vectors, for observations of many dimensions.
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
    spaces = Spaces.of(environment, levels=levels, encoder=encoder)
    identifier = getattr(getattr(environment, "spec", None), "id", "")
    chosen = settings if settings is not None else hyperparameters(_PAPERS.get(identifier, "mountain-car"), method)
    reward = check_choice("reward", chosen.reward, REWARDS)
    if chosen.epsilon >= 1:
        return RandomAgent(spaces, rng=rng)
    value = chosen.value_function(spaces.dim_state, spaces.vectors)
    made: TransitionReward | None = None
    dim, dim_action, width = spaces.dim_state, spaces.vectors.shape[1], chosen.bandwidth
    if reward == "local":
        made = LocalReward(
            chosen.buffer, dim, dim_action, bandwidth=width, change=chosen.change, novelty=chosen.novelty
        )
    elif reward != "nothing":
        sizes = (chosen.buffer, dim + dim_action, dim)
        buffer = TransitionBuffer(*sizes, bandwidth_x=width, bandwidth_y=width, refresh_every=chosen.refresh_every)
        made = DivergenceReward(buffer, measure=reward)
    return KernelAgent(spaces, value, reward=made, epsilon=chosen.epsilon, rng=rng)


@public
def play(agent: Agent, environment: Any, *, steps: int, rng: int, until_goal: bool = True) -> int:
    """Let an agent act in a gymnasium environment and return the number of steps.

    Parameters
    ----------
    agent : agent
        From `make_agent`.
    environment : gymnasium.Env
        It is reset with the seed `rng` first, and without one at the end of each episode.
    steps : int
        Longest run.
    rng : int
        Seed of the environment. It is required: without a seed a run cannot be repeated.
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
    >>> play(make_agent("control", environment, rng=0), environment, steps=20, rng=0)
    20
    """
    steps = check_integer("steps", steps, 1)
    observation, _ = environment.reset(seed=check_integer("rng", rng, 0))
    for t in range(steps):
        observation, reward, terminated, truncated, _ = environment.step(agent.act(observation))
        agent.learn(observation, float(reward), bool(terminated))
        if terminated and until_goal:
            return t + 1
        if terminated or truncated:
            observation, _ = environment.reset()
    return steps
