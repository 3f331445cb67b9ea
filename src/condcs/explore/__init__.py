"""Exploration without rewards: intrinsic rewards for any agent, and divergence-to-go agents.

Gymnasium (``pip install 'condcs[rl]'``) is imported when an environment is made or wrapped.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from condcs.explore._agents import KernelAgent, play
    from condcs.explore._buffer import TransitionBuffer
    from condcs.explore._intrinsic import IntrinsicReward, LocalForm, VectorIntrinsicReward
    from condcs.explore._kernel_td import KernelTD
    from condcs.explore._methods import hyperparameters, make_agent
    from condcs.explore._rewards import DivergenceReward, LocalReward
    from condcs.explore._settings import Hyperparameters
    from condcs.explore._spaces import RandomFeatures, Spaces
    from condcs.explore._tasks import make_environment

_HOMES = {
    "DivergenceReward": "_rewards",
    "Hyperparameters": "_settings",
    "IntrinsicReward": "_intrinsic",
    "KernelAgent": "_agents",
    "KernelTD": "_kernel_td",
    "LocalForm": "_intrinsic",
    "LocalReward": "_rewards",
    "RandomFeatures": "_spaces",
    "Spaces": "_spaces",
    "TransitionBuffer": "_buffer",
    "VectorIntrinsicReward": "_intrinsic",
    "hyperparameters": "_methods",
    "make_agent": "_methods",
    "make_environment": "_tasks",
    "play": "_agents",
}

__all__ = [
    "DivergenceReward",
    "Hyperparameters",
    "IntrinsicReward",
    "KernelAgent",
    "KernelTD",
    "LocalForm",
    "LocalReward",
    "RandomFeatures",
    "Spaces",
    "TransitionBuffer",
    "VectorIntrinsicReward",
    "hyperparameters",
    "make_agent",
    "make_environment",
    "play",
]

# Hidden from type checkers, which would take any name for one that it knows.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            return getattr(import_module(f"condcs.explore.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'condcs.explore' has no attribute {name!r}")
