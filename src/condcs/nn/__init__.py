"""Losses and domain adaptation for torch: functions in `condcs.nn.functional`, thin modules here."""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError("condcs.nn needs torch: pip install 'condcs[torch]'") from _error

from condcs.nn import functional
from condcs.nn._adaptation import BottleneckNetwork, DomainAdapter, Stopping, choose_weight, reverse_validation
from condcs.nn._losses import (
    METHODS,
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
    "Stopping",
    "choose_weight",
    "functional",
    "reverse_validation",
]
