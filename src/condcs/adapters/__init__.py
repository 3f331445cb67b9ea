"""Layer 5: faces for other libraries; each imports its partner only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Name, the module here that has it, and the extra that brings its partner.
_HOMES = {
    "AeonDistance": ("aeon", "timeseries"),
    "CSAlignmentLoss": ("skada", "adapt"),
    "CausalLearnTest": ("causal_learn", "causal"),
    "ConditionalCSRegressor": ("skorch", "adapt"),
    "ConditionalShiftTest": ("scikit_learn", ""),
    "DeepConditionalCS": ("skada", "adapt"),
    "EEGNetFeatures": ("braindecode", "adapt"),
    "SeriesDistances": ("series_distances", ""),
    "TigramiteTest": ("tigramite", "causal-gpl"),
    "eegnet_network": ("braindecode", "adapt"),
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
    module, extra = _HOMES[name]
    try:
        return getattr(import_module(f"condcs.adapters.{module}"), name)
    except ModuleNotFoundError as error:
        partner = (error.name or "").partition(".")[0]
        if not extra or partner == "condcs":
            raise
        raise ImportError(f"{name} needs {partner}: pip install 'condcs[{extra}]'", name=partner) from error
