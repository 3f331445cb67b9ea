"""Layer 5: faces for other libraries; each imports its partner only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Name, the module here that has it, and what to install for its partner. (tigramite is GPL-3: in no extra of condcs.)
_HOMES = {
    "AeonDistance": ("aeon", "condcs[timeseries]"),
    "CSAlignmentLoss": ("skada", "condcs[adapt]"),
    "CausalLearnTest": ("causal_learn", "condcs[causal]"),
    "ConditionalCSRegressor": ("skorch", "condcs[adapt]"),
    "ConditionalShiftTest": ("scikit_learn", ""),
    "DeepConditionalCS": ("skada", "condcs[adapt]"),
    "EEGNetFeatures": ("braindecode", "condcs[adapt]"),
    "SeriesDistances": ("series_distances", ""),
    "TigramiteTest": ("tigramite", "tigramite"),
    "eegnet_network": ("braindecode", "condcs[adapt]"),
}

__all__ = [
    "AeonDistance",
    "CSAlignmentLoss",
    "CausalLearnTest",
    "ConditionalCSRegressor",
    "ConditionalShiftTest",
    "DeepConditionalCS",
    "EEGNetFeatures",
    "SeriesDistances",
    "TigramiteTest",
    "eegnet_network",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'condcs.adapters' has no attribute {name!r}")
    module, target = _HOMES[name]
    try:
        return getattr(import_module(f"condcs.adapters.{module}"), name)
    except ModuleNotFoundError as error:
        partner = (error.name or "").partition(".")[0]
        if not target or partner == "condcs":
            raise
        raise ImportError(f"{name} needs {partner}: pip install '{target}'", name=partner) from error
