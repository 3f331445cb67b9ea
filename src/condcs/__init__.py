"""condcs: how far apart are two conditional distributions p(y|x) and q(y|x)? An answer from samples alone."""

from condcs.core.settings import config_context
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

__version__ = "0.1.0"

__all__ = [
    "bandwidth",
    "conditional_bregman",
    "conditional_cs",
    "conditional_cs_predictors",
    "conditional_cs_responses",
    "conditional_euclidean",
    "conditional_kl",
    "conditional_mmd",
    "config_context",
    "cs",
    "cs_gaussian_mixture",
    "joint_mmd",
    "mcmd",
    "mmd",
    "pairwise",
]
