"""Adapters for other libraries; each imports its library only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from condcs.adapters._aeon import AeonDistance
    from condcs.adapters._braindecode import EEGNetFeatures, eegnet_network
    from condcs.adapters._causal_learn import CausalLearnTest
    from condcs.adapters._scikit_learn import ConditionalShiftTest
    from condcs.adapters._series_distances import SeriesDistances
    from condcs.adapters._skada import CSAlignmentLoss, DeepConditionalCS
    from condcs.adapters._skorch import ConditionalCSRegressor
    from condcs.adapters._tigramite import TigramiteTest

# Name, the module that defines it, and what to install for it. (tigramite is under the GPL-3: in no extra of condcs.)
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
        return getattr(import_module(f"condcs.adapters._{module}"), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if not target or missing == "condcs":
            raise
        raise ImportError(f"{name} needs {missing}: pip install '{target}'", name=missing) from error
