"""Agents with ``act(observation)`` and ``learn(next_observation, reward, terminated)``."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.checks import check_choice, check_integer, check_rng
from condcs._core.errors import ParameterError, public
from condcs._core.printable import Printable
from condcs.explore._buffer import TransitionBuffer
from condcs.explore._kernel_td import KernelTD, choose
from condcs.explore._rewards import DivergenceReward, LocalReward, TransitionReward
from condcs.explore._settings import REWARDS, Hyperparameters
from condcs.explore._spaces import Spaces


class Agent(Protocol):
    """What `play` and the trials of ``condcs explore`` ask of an agent."""

    def act(self, observation: Any) -> Any:
        """Return an action for the environment."""

    def learn(self, observation: Any, reward: float, terminated: bool) -> float:
        """Learn from the outcome of the last action; return the reward that was learnt from."""


class KernelAgent(Printable):
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
    >>> from condcs.explore import make_agent
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
        dim_x, dim_y = spaces.dim_state + spaces.vectors.shape[1], spaces.dim_state
        if reward is not None and (reward.buffer.dim_x, reward.buffer.dim_y) != (dim_x, dim_y):
            raise ParameterError(
                f"`reward` must have a buffer with {dim_x} columns of x (state and action) and {dim_y} of y (next "
                f"state), got {reward.buffer.dim_x} and {reward.buffer.dim_y}. Make it with TransitionBuffer(size, "
                f"{dim_x}, {dim_y}, ...)."
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
        intrinsic = 0.0 if self.reward is None else self.reward.reward(self._state, vector, upcoming)
        self.value.learn(self._action, intrinsic, terminated=bool(terminated))
        self._state = upcoming
        return intrinsic


def kernel_agent(
    spaces: Spaces, settings: Hyperparameters, rng: int | np.random.Generator | None = None
) -> KernelAgent:
    """Return the agent that settings describe, untrained."""
    check_choice("reward", settings.reward, REWARDS)
    dim_state, dim_action, width = spaces.dim_state, spaces.vectors.shape[1], settings.bandwidth
    reward: TransitionReward | None = None
    if settings.reward == "local":
        reward = LocalReward(
            settings.buffer,
            dim_state,
            dim_action,
            bandwidth=width,
            change=settings.change,
            novelty=settings.novelty,
        )
    elif settings.reward != "nothing":
        buffer = TransitionBuffer(
            settings.buffer,
            dim_state + dim_action,
            dim_state,
            bandwidth_x=width,
            bandwidth_y=width,
            refresh_every=settings.refresh_every,
        )
        reward = DivergenceReward(buffer, measure=settings.reward)
    value = settings.value_function(dim_state, spaces.vectors)
    return KernelAgent(spaces, value, reward=reward, epsilon=settings.epsilon, rng=rng)


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
    >>> from condcs.explore import make_agent
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
