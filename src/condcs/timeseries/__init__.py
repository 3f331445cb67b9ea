"""Distances between the dynamics of time series: p(next value | window) compared by a conditional divergence."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "adjusted_rand_index": "clustering",
    "baseline_pairwise_distance": "baselines",
    "ccs_distance": "distances",
    "ccs_pairwise_distance": "distances",
    "choose_factor": "prediction",
    "choose_order": "distances",
    "choose_scale": "clustering",
    "cluster": "clustering",
    "embed": "embedding",
    "false_neighbours": "orders",
    "normalized_mutual_information": "clustering",
    "self_prediction": "prediction",
    "silhouette": "clustering",
    "tck_kernel": "tck",
    "tck_pairwise_distance": "tck",
}

__all__ = [
    "adjusted_rand_index",
    "baseline_pairwise_distance",
    "ccs_distance",
    "ccs_pairwise_distance",
    "choose_factor",
    "choose_order",
    "choose_scale",
    "cluster",
    "embed",
    "false_neighbours",
    "normalized_mutual_information",
    "self_prediction",
    "silhouette",
    "tck_kernel",
    "tck_pairwise_distance",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"condcs.timeseries.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'condcs.timeseries' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
