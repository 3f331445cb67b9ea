"""Exploration without rewards: divergence-to-go agents, intrinsic rewards for other agents, and environments.

Gymnasium (``pip install 'condcs[rl]'``) is imported when an environment is made or wrapped.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

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

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"condcs.explore.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'condcs.explore' has no attribute {name!r}")


# `gymnasium.make("condcs.explore:condcs/Maze-v0")` imports this module and expects the environment to be there.
if "gymnasium" in sys.modules:
    import_module("condcs.explore.environments").register_environments()
