"""The methods that the paper compares with, as far as they explore in gymnasium's environments."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs._core.checks import check_rng
from condcs.explore import Hyperparameters, Spaces
from condcs.explore._agents import Agent
from condcs.explore._methods import PACKAGE_METHODS, Method


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


class RandomMethod(Method):
    """Random actions: nothing is learnt, so that no value function is made."""

    def make_agent(self, spaces: Spaces, settings: Hyperparameters, rng: int | np.random.Generator | None) -> Agent:
        """Return the agent; only the spaces matter."""
        return RandomAgent(spaces, rng=rng)


BASELINES = (
    RandomMethod("random", "Random", "#a0aec0", {"epsilon": 1.0, "initial_value": 0.0}),
    # The paper's agent with another divergence between the halves of its buffer.
    Method("dtg", "DTG", "#2f855a", {"reward": "conditional_euclidean"}),
    Method("dtg-kl", "DTG-KL", "#6b46c1", {"reward": "conditional_kl"}),
    Method("dtg-mmd", "DTG-MMD", "#dd6b20", {"reward": "joint_mmd"}),
)

METHODS = {method.name: method for method in (*BASELINES, *PACKAGE_METHODS)}
"""All methods by name, in the order of the paper's tables."""
