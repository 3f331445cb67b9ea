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
        MaxEnt,
        OptimismControl,
        RandomAgent,
        make_agent,
        play,
    )
    from condcs.explore._buffer import TransitionBuffer
    from condcs.explore._compiled_environments import compiled_environment
    from condcs.explore._environments import make_environment, register_environments
    from condcs.explore._intrinsic import IntrinsicReward, VectorIntrinsicReward
    from condcs.explore._kernel_td import KernelTD
    from condcs.explore._mazes import make_maze
    from condcs.explore._methods import Hyperparameters, hyperparameters
    from condcs.explore._rollouts import rollout
    from condcs.explore._spaces import RandomFeatures, Spaces

_HOMES = {
    "DivergenceToGo": "agents",
    "Hyperparameters": "methods",
    "IntrinsicReward": "intrinsic",
    "KernelAgent": "agents",
    "KernelQLearning": "agents",
    "KernelTD": "kernel_td",
    "MaxEnt": "agents",
    "OptimismControl": "agents",
    "RandomAgent": "agents",
    "RandomFeatures": "spaces",
    "Spaces": "spaces",
    "TransitionBuffer": "buffer",
    "VectorIntrinsicReward": "intrinsic",
    "compiled_environment": "compiled_environments",
    "hyperparameters": "methods",
    "make_agent": "agents",
    "make_environment": "environments",
    "make_maze": "mazes",
    "play": "agents",
    "register_environments": "environments",
    "rollout": "rollouts",
}

__all__ = [
    "DivergenceToGo",
    "Hyperparameters",
    "IntrinsicReward",
    "KernelAgent",
    "KernelQLearning",
    "KernelTD",
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
        return getattr(import_module(f"condcs.explore._{_HOMES[name]}"), name)
    raise AttributeError(f"module 'condcs.explore' has no attribute {name!r}")


# `gymnasium.make("condcs.explore:condcs/Maze-v0")` imports this module and expects the environment to be there.
if "gymnasium" in sys.modules:
    import_module("condcs.explore._environments").register_environments()
