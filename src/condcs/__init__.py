"""condcs: how far apart are two conditional distributions p(y|x) and q(y|x)? An answer from samples alone.

The subpackages are imported when they are first used: after ``import condcs``, ``condcs.timeseries.cluster`` works.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from condcs._core.settings import config_context
from condcs._inference.conditional_tests import conditional_test
from condcs._inference.independence_tests import PermutedMeasure, independence_test
from condcs._inference.results import ConfidenceInterval, Estimate, TestResult
from condcs._inference.two_sample_tests import two_sample_test
from condcs._kernels.bandwidths import bandwidth
from condcs._measures.bregman import conditional_bregman
from condcs._measures.conditional import (
    conditional_cs,
    conditional_cs_predictors,
    conditional_cs_responses,
    conditional_euclidean,
)
from condcs._measures.gaussian_mixtures import cs_gaussian_mixture
from condcs._measures.marginal import cs, joint_mmd, mmd
from condcs._measures.neighbours import conditional_kl
from condcs._measures.operator import conditional_mmd, mcmd
from condcs._measures.registry import MEASURES, Measure, pairwise
from condcs._measures.sampled import Sampled, SampledFloat, SampledMatrix

if TYPE_CHECKING:
    from condcs import adapters as adapters
    from condcs import causal as causal
    from condcs import comparison as comparison
    from condcs import datasets as datasets
    from condcs import drift as drift
    from condcs import exceptions as exceptions
    from condcs import explore as explore
    from condcs import nn as nn
    from condcs import report as report
    from condcs import timeseries as timeseries
    from condcs._inference.explain import Explanation, Region, explain
    from condcs._inference.loss_split import LossChange, loss_change
    from condcs._inference.witness import Witness, witness
    from condcs._measures.chunked import chunked_divergence
    from condcs._tables.sources import TableOptions
    from condcs.comparison._comparing import assert_same_relation, compare
    from condcs.comparison._groups import GroupComparison, compare_groups
    from condcs.comparison._result import Comparison, Limits

__version__ = "0.1.0"

__all__ = [
    "MEASURES",
    "Comparison",
    "ConfidenceInterval",
    "Estimate",
    "Explanation",
    "GroupComparison",
    "Limits",
    "LossChange",
    "Measure",
    "PermutedMeasure",
    "Region",
    "Sampled",
    "SampledFloat",
    "SampledMatrix",
    "TableOptions",
    "TestResult",
    "Witness",
    "assert_same_relation",
    "bandwidth",
    "chunked_divergence",
    "compare",
    "compare_groups",
    "conditional_bregman",
    "conditional_cs",
    "conditional_cs_predictors",
    "conditional_cs_responses",
    "conditional_euclidean",
    "conditional_kl",
    "conditional_mmd",
    "conditional_test",
    "config_context",
    "cs",
    "cs_gaussian_mixture",
    "explain",
    "independence_test",
    "joint_mmd",
    "loss_change",
    "mcmd",
    "mmd",
    "pairwise",
    "two_sample_test",
    "witness",
]

_SUBPACKAGES = (
    "adapters",
    "causal",
    "comparison",
    "datasets",
    "drift",
    "exceptions",
    "explore",
    "nn",
    "report",
    "timeseries",
)
"""Public packages; not in `__all__`, because ``from condcs import *`` would then need torch."""

_HOMES = {
    "Comparison": "comparison._result",
    "Explanation": "_inference.explain",
    "GroupComparison": "comparison._groups",
    "Limits": "comparison._result",
    "LossChange": "_inference.loss_split",
    "Region": "_inference.explain",
    "TableOptions": "_tables.sources",
    "Witness": "_inference.witness",
    "assert_same_relation": "comparison._comparing",
    "chunked_divergence": "_measures.chunked",
    "compare": "comparison._comparing",
    "compare_groups": "comparison._groups",
    "explain": "_inference.explain",
    "loss_change": "_inference.loss_split",
    "witness": "_inference.witness",
}
"""Names that are imported when they are first used, and the modules that define them."""

# Hidden from type checkers, which would take any name for one that it knows.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _SUBPACKAGES:
            return import_module(f"condcs.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'condcs' has no attribute {name!r}")
        value = getattr(import_module(f"condcs.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted([*__all__, *_SUBPACKAGES, "__version__"])
