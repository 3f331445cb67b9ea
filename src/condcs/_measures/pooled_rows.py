"""Rows in memory, in chunks, on threads: the source of the sampled supplier for arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from condcs._core.groups import Groups
from condcs._kernels.row_chunks import RowChunk, RowKernels, rounded_centre
from condcs._measures.inputs import KernelVariable
from condcs._parallel.threads import on_threads

FloatArray = np.ndarray[Any, Any]
T = TypeVar("T")

CHUNK = 8_192
"""Rows of a chunk. Chunks do not depend on threads, so that sums do not either."""


class PooledRows:
    """The rows of a pool, ordered by category within each group so that a chunk meets few of them.

    Parameters
    ----------
    variables : sequence of KernelVariable
        The variables with their kernels.
    products : tuple of tuple of int
        Which of them enter each product of kernels.
    groups : Groups
        Groups of the pool, and weights of its rows.
    """

    def __init__(
        self, variables: Sequence[KernelVariable], products: tuple[tuple[int, ...], ...], groups: Groups
    ) -> None:
        self._values = [v.variable.values for v in variables]
        centres = tuple(rounded_centre(v.mean(axis=0, dtype=np.float64)) for v in self._values)
        self.kernels = RowKernels(
            tuple(v.option for v in variables), tuple(v.widths for v in variables), centres, products
        )
        self._weights = np.ones(groups.n) if groups.weights is None else groups.weights.astype(np.float64)
        if self.kernels.labels_only([v.shape[1] for v in self._values]):
            groups = self._keep_distinct(groups)
        self.sizes = groups.sizes
        self._codes = self.kernels.codes(self._values[0])
        order = [s.start + np.argsort(self._codes[s], kind="stable") for s in groups.slices]
        self._spans = [
            (g, groups.slices[g].start, rows[start : start + CHUNK])
            for g, rows in enumerate(order)
            for start in range(0, len(rows), CHUNK)
        ]
        codes, places = np.unique(self._codes, return_inverse=True)
        counts = [np.bincount(places[s], minlength=len(codes)) for s in groups.slices]
        self.categories = codes, np.stack(counts, axis=1)

    def _keep_distinct(self, groups: Groups) -> Groups:
        """Keep one of all equal rows of a group, with the sum of their weights: labels have few combinations."""
        rows, weights = [], []
        for span in groups.slices:
            table = np.concatenate([v[span] for v in self._values], axis=1)
            _, first, place = np.unique(table, axis=0, return_index=True, return_inverse=True)
            rows.append(span.start + first)
            weights.append(np.bincount(place.reshape(-1), self._weights[span]))
        self._values = [v[np.concatenate(rows)] for v in self._values]
        self._weights = np.concatenate(weights)
        return Groups(tuple(len(w) for w in weights))

    def count_absent(self) -> int:
        """Return how many rows have a category that some group does not have."""
        codes, _ = self.categories
        spans = Groups(self.sizes).slices
        present = [np.bincount(np.searchsorted(codes, self._codes[s]), self._weights[s], len(codes)) > 0 for s in spans]
        absent = np.logical_not(np.all(present, axis=0))
        return int((absent[np.searchsorted(codes, self._codes)] & (self._weights > 0)).sum())

    def _chunk(self, group: int, start: int, rows: FloatArray) -> RowChunk:
        values = tuple(np.ascontiguousarray(v[rows], np.float64) for v in self._values)
        return RowChunk(values, self._weights[rows], np.full(len(rows), group), rows - start, self._codes[rows])

    def map(self, function: Callable[[RowChunk], T]) -> Iterator[T]:
        """Yield what a function makes of each chunk, in the order of the chunks."""
        yield from on_threads(lambda *span: function(self._chunk(*span)), self._spans)
