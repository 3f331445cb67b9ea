"""Causality: which series drives which, tested by what its past adds to the prediction of the other."""

from condcs.causal._graphs import CausalGraph, causal_graph
from condcs.causal._influence_measures import ConditionalCS, KernelGranger, LinearGranger, TransferEntropy
from condcs.causal._link_tests import CircularShifts, LocalPermutations, ShiftedWindows, causal_score, causal_test
from condcs.causal._predictive_choice import EmbeddingChoice, select_embeddings
from condcs.causal._series import Embedding

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
    "select_embeddings",
]
