"""Distances between the dynamics of time series: p(next value | window) compared by a conditional divergence."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "ccs_distance": "distances",
    "ccs_pairwise_distance": "distances",
    "embed": "embedding",
}

__all__ = ["ccs_distance", "ccs_pairwise_distance", "embed"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"condcs.timeseries.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'condcs.timeseries' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
