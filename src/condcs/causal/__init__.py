"""Causality: which series drives which, tested by what its past adds to the other's own."""

from condcs.causal.embedding import Embedding
from condcs.causal.graphs import CausalGraph, causal_graph
from condcs.causal.scores import causal_score
from condcs.causal.selection import EmbeddingChoice, select_embedding
from condcs.causal.testing import causal_test

__all__ = [
    "CausalGraph",
    "Embedding",
    "EmbeddingChoice",
    "causal_graph",
    "causal_score",
    "causal_test",
    "select_embedding",
]
