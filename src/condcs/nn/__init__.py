"""Losses for torch: functions in `condcs.nn.functional`, thin modules here."""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError("condcs.nn needs torch: pip install 'condcs[torch]'") from _error

from condcs.nn import functional
from condcs.nn._losses import (
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
    "CMMDLoss",
    "CSLoss",
    "ConditionalCSAlignment",
    "ConditionalCSLoss",
    "ConditionalIndependencePenalty",
    "DJPMMDLoss",
    "JMMDLoss",
    "MKMMDLoss",
    "MMDLoss",
    "functional",
]
