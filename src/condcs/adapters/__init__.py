"""Adapters for other libraries; each imports its library only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from condcs.adapters._aeon import AeonDistance
    from condcs.adapters._causal_learn import CausalLearnTest
    from condcs.adapters._gymnasium import DynamicsChanged, DynamicsMonitor
    from condcs.adapters._scikit_learn import ConditionalShiftTest
    from condcs.adapters._series_distances import SeriesClusterer, SeriesDistances
    from condcs.adapters._skada import CSAlignmentLoss, DeepConditionalCS
    from condcs.adapters._skorch import ConditionalCSRegressor
    from condcs.adapters._tigramite import TigramiteTest

# Name, the module that defines it, and what to install for it. (tigramite is under the GPL-3: in no extra of condcs.)
_HOMES = {
    "AeonDistance": ("_aeon", "condcs[timeseries]"),
    "CSAlignmentLoss": ("_skada", "condcs[adapt]"),
    "CausalLearnTest": ("_causal_learn", "condcs[causal]"),
    "ConditionalCSRegressor": ("_skorch", "condcs[adapt]"),
    "ConditionalShiftTest": ("_scikit_learn", ""),
    "DeepConditionalCS": ("_skada", "condcs[adapt]"),
    "DynamicsChanged": ("_gymnasium", "condcs[rl]"),
    "DynamicsMonitor": ("_gymnasium", "condcs[rl]"),
    "SeriesClusterer": ("_series_distances", ""),
    "SeriesDistances": ("_series_distances", ""),
    "TigramiteTest": ("_tigramite", "tigramite"),
}

__all__ = [
    "AeonDistance",
    "CSAlignmentLoss",
    "CausalLearnTest",
    "ConditionalCSRegressor",
    "ConditionalShiftTest",
    "DeepConditionalCS",
    "DynamicsChanged",
    "DynamicsMonitor",
    "SeriesClusterer",
    "SeriesDistances",
    "TigramiteTest",
]

# Hidden from type checkers, which would take any name for one that it knows.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'condcs.adapters' has no attribute {name!r}")
        module, target = _HOMES[name]
        try:
            return getattr(import_module(f"condcs.adapters.{module}"), name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if not target or missing == "condcs":
                raise
            raise ImportError(f"{name} needs {missing}: pip install '{target}'", name=missing) from error
