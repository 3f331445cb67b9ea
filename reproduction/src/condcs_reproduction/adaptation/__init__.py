"""Domain adaptation as in the paper's Table 7: networks, their training, and the choice of a weight without labels.

The losses are those of `condcs.nn`; `condcs.adapters.DeepConditionalCS` trains with one of them in skada.
"""

from condcs_reproduction.adaptation.discrepancies import METHODS
from condcs_reproduction.adaptation.domain_adapter import (
    BottleneckNetwork,
    DomainAdapter,
    Stopping,
    choose_weight,
    reverse_validation,
)
from condcs_reproduction.adaptation.eegnet import EEGNetFeatures, eegnet_network

__all__ = [
    "METHODS",
    "BottleneckNetwork",
    "DomainAdapter",
    "EEGNetFeatures",
    "Stopping",
    "choose_weight",
    "eegnet_network",
    "reverse_validation",
]
