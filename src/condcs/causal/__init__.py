"""Causality: which series drives which, tested by what its past adds to the prediction of the other."""

from condcs.causal.graphs import CausalGraph, causal_graph
from condcs.causal.influence_measures import ConditionalCS, KernelGranger, LinearGranger, TransferEntropy
from condcs.causal.link_tests import CircularShifts, LocalPermutations, ShiftedWindows, causal_score, causal_test
from condcs.causal.predictive_choice import EmbeddingChoice, select_embedding
from condcs.causal.series import Embedding

__all__ = [
    "CausalGraph",
    "CircularShifts",
    "ConditionalCS",
    "Embedding",
    "EmbeddingChoice",
    "KernelGranger",
    "LinearGranger",
    "LocalPermutations",
    "ShiftedWindows",
    "TransferEntropy",
    "causal_graph",
    "causal_score",
    "causal_test",
    "select_embedding",
]
