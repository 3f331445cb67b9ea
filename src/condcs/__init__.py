"""condcs: measure, test and explain how far apart two conditional distributions p(y|x) and q(y|x) are."""

from condcs.core.settings import config_context
from condcs.measures.conditional import (
    conditional_cs,
    conditional_cs_predictors,
    conditional_cs_responses,
    conditional_euclidean,
)
from condcs.measures.marginal import cs, joint_mmd, mmd

__version__ = "0.1.0"

__all__ = [
    "conditional_cs",
    "conditional_cs_predictors",
    "conditional_cs_responses",
    "conditional_euclidean",
    "config_context",
    "cs",
    "joint_mmd",
    "mmd",
]
