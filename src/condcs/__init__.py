"""condcs: how far apart are two conditional distributions p(y|x) and q(y|x)? An answer from samples alone."""

from typing import TYPE_CHECKING

from condcs.core.settings import config_context
from condcs.inference.conditional import conditional_test, two_sample_test
from condcs.inference.explain import explain
from condcs.inference.independence import independence_test
from condcs.inference.witness import witness
from condcs.kernels.bandwidths import bandwidth
from condcs.measures.bregman import conditional_bregman
from condcs.measures.conditional import (
    conditional_cs,
    conditional_cs_predictors,
    conditional_cs_responses,
    conditional_euclidean,
)
from condcs.measures.gaussian_mixture import cs_gaussian_mixture
from condcs.measures.marginal import cs, joint_mmd, mmd
from condcs.measures.neighbours import conditional_kl
from condcs.measures.operator import conditional_mmd, mcmd
from condcs.measures.pairwise import pairwise

if TYPE_CHECKING:
    from condcs.comparison.comparing import compare

__version__ = "0.1.0"

__all__ = [
    "bandwidth",
    "compare",
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
    "mcmd",
    "mmd",
    "pairwise",
    "two_sample_test",
    "witness",
]

_HOMES = {"compare": "comparison.comparing"}
"""Names that are imported when they are first used, and where they live."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'condcs' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"condcs.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
