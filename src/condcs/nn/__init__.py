"""Losses and domain adaptation for torch: functions in `condcs.nn.functional`, thin modules here."""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError("condcs.nn needs torch: pip install 'condcs[torch]'") from _error

from condcs.nn import functional
from condcs.nn.adaptation import DomainAdapter
from condcs.nn.choice_of_alpha import choose_alpha, reverse_validation
from condcs.nn.discrepancies import METHODS
from condcs.nn.losses import (
    CMMDLoss,
    ConditionalCSAlignment,
    ConditionalCSLoss,
    ConditionalIndependencePenalty,
    CSLoss,
    DJPMMDLoss,
    JMMDLoss,
    MKMMDLoss,
    MMDLoss,
)
from condcs.nn.networks import BottleneckNetwork

__all__ = [
    "METHODS",
    "BottleneckNetwork",
    "CMMDLoss",
    "CSLoss",
    "ConditionalCSAlignment",
    "ConditionalCSLoss",
    "ConditionalIndependencePenalty",
    "DJPMMDLoss",
    "DomainAdapter",
    "JMMDLoss",
    "MKMMDLoss",
    "MMDLoss",
    "choose_alpha",
    "functional",
    "reverse_validation",
]
