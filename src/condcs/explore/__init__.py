"""Exploration without rewards: intrinsic rewards for any agent, divergence-to-go agents, and environments.

Gymnasium (``pip install 'condcs[rl]'``) is imported when an environment is made or wrapped.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from condcs.explore._agents import (
        Hyperparameters,
        KernelAgent,
        RandomAgent,
        hyperparameters,
        make_agent,
        play,
    )
    from condcs.explore._buffer import TransitionBuffer
    from condcs.explore._environments import make_environment, make_maze, register_environments
    from condcs.explore._intrinsic import IntrinsicReward, LocalForm, VectorIntrinsicReward
    from condcs.explore._kernel_td import KernelTD
    from condcs.explore._rewards import DivergenceReward, LocalReward
    from condcs.explore._spaces import RandomFeatures, Spaces

_HOMES = {
    "DivergenceReward": "_rewards",
    "Hyperparameters": "_agents",
    "IntrinsicReward": "_intrinsic",
    "KernelAgent": "_agents",
    "KernelTD": "_kernel_td",
    "LocalForm": "_intrinsic",
    "LocalReward": "_rewards",
    "RandomAgent": "_agents",
    "RandomFeatures": "_spaces",
    "Spaces": "_spaces",
    "TransitionBuffer": "_buffer",
    "VectorIntrinsicReward": "_intrinsic",
    "hyperparameters": "_agents",
    "make_agent": "_agents",
    "make_environment": "_environments",
    "make_maze": "_environments",
    "play": "_agents",
    "register_environments": "_environments",
}

__all__ = [
    "DivergenceReward",
    "Hyperparameters",
    "IntrinsicReward",
    "KernelAgent",
    "KernelTD",
    "LocalForm",
    "LocalReward",
    "RandomAgent",
    "RandomFeatures",
    "Spaces",
    "TransitionBuffer",
    "VectorIntrinsicReward",
    "hyperparameters",
    "make_agent",
    "make_environment",
    "make_maze",
    "play",
    "register_environments",
]

# Hidden from type checkers, which would take any name for one that it knows.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            return getattr(import_module(f"condcs.explore.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'condcs.explore' has no attribute {name!r}")


# `gymnasium.make("condcs.explore:condcs/Maze-v0")` imports this module and expects the environment to be there.
if "gymnasium" in sys.modules:
    import_module("condcs.explore._environments").register_environments()
