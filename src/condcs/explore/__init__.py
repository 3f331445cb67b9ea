"""Exploration without rewards: divergence-to-go agents, intrinsic rewards for other agents, and environments.

Gymnasium (``pip install 'condcs[rl]'``) is imported when an environment is made or wrapped.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from condcs.explore._agents import (
        DivergenceToGo,
        KernelAgent,
        KernelQLearning,
        LocalDivergence,
        MaxEnt,
        OptimismControl,
        RandomAgent,
        make_agent,
        play,
    )
    from condcs.explore._buffer import TransitionBuffer
    from condcs.explore._compiled_environments import compiled_environment
    from condcs.explore._environments import make_environment, register_environments
    from condcs.explore._intrinsic import IntrinsicReward, LocalForm, VectorIntrinsicReward
    from condcs.explore._kernel_td import KernelTD
    from condcs.explore._mazes import make_maze
    from condcs.explore._methods import Hyperparameters, hyperparameters
    from condcs.explore._rollouts import rollout
    from condcs.explore._spaces import RandomFeatures, Spaces

_HOMES = {
    "DivergenceToGo": "_agents",
    "Hyperparameters": "_methods",
    "IntrinsicReward": "_intrinsic",
    "KernelAgent": "_agents",
    "KernelQLearning": "_agents",
    "KernelTD": "_kernel_td",
    "LocalDivergence": "_agents",
    "LocalForm": "_intrinsic",
    "MaxEnt": "_agents",
    "OptimismControl": "_agents",
    "RandomAgent": "_agents",
    "RandomFeatures": "_spaces",
    "Spaces": "_spaces",
    "TransitionBuffer": "_buffer",
    "VectorIntrinsicReward": "_intrinsic",
    "compiled_environment": "_compiled_environments",
    "hyperparameters": "_methods",
    "make_agent": "_agents",
    "make_environment": "_environments",
    "make_maze": "_mazes",
    "play": "_agents",
    "register_environments": "_environments",
    "rollout": "_rollouts",
}

__all__ = [
    "DivergenceToGo",
    "Hyperparameters",
    "IntrinsicReward",
    "KernelAgent",
    "KernelQLearning",
    "KernelTD",
    "LocalDivergence",
    "LocalForm",
    "MaxEnt",
    "OptimismControl",
    "RandomAgent",
    "RandomFeatures",
    "Spaces",
    "TransitionBuffer",
    "VectorIntrinsicReward",
    "compiled_environment",
    "hyperparameters",
    "make_agent",
    "make_environment",
    "make_maze",
    "play",
    "register_environments",
    "rollout",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"condcs.explore.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'condcs.explore' has no attribute {name!r}")


# `gymnasium.make("condcs.explore:condcs/Maze-v0")` imports this module and expects the environment to be there.
if "gymnasium" in sys.modules:
    import_module("condcs.explore._environments").register_environments()
