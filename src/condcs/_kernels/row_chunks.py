"""Kernel sums between some rows and a chunk of many: the pairs that the sampled supplier visits.

Nothing here needs the pool: what is found for the chunks of a group adds up, on threads, over the batches of a file, or
over the workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from condcs._core.arrays import NUMPY, FloatArray, IntArray, logsumexp
from condcs._kernels.log_kernels import LogKernel, product
from condcs._kernels.named_kernels import KernelOption, kernel_of_widths
from condcs._kernels.row_sums import exp_in_place, log_sums_of, relative_exponents

T = TypeVar("T")

PAIRS = ((0,), (0, 1))
"""Products of kernels for x and y: K, and K L."""

# Query rows and chunk rows of a tile: its exponents are 1 MB, which a core's second-level cache holds.
_TILE = 256, 512


@dataclass(frozen=True)
class RowChunk:
    """Some rows of the pool."""

    values: tuple[FloatArray, ...]  # the variables (n x d each); label columns hold codes
    weights: FloatArray
    groups: IntArray  # the group of each row; chunks of a source hold one group
    index: IntArray  # which row of its group each is
    codes: IntArray  # categories, between which there is no similarity; all 0 where there are no labels

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, rows: Any) -> RowChunk:
        """Return some of the rows."""
        others = (self.weights[rows], self.groups[rows], self.index[rows], self.codes[rows])
        return RowChunk(tuple(v[rows] for v in self.values), *others)


def joined_rows(*chunks: RowChunk) -> RowChunk:
    """Return the rows of all chunks, one after the other."""
    values = tuple(np.concatenate(of_variable) for of_variable in zip(*(c.values for c in chunks), strict=True))
    names = ("weights", "groups", "index", "codes")
    return RowChunk(values, *(np.concatenate([getattr(c, name) for c in chunks]) for name in names))


@dataclass(frozen=True)
class RowKernels:
    """Kernels of several variables with fixed bandwidths, and the products of them whose sums are wanted."""

    options: tuple[KernelOption, ...]  # the kernel of each variable
    widths: tuple[FloatArray | None, ...]  # its bandwidths, one per column
    centres: tuple[FloatArray, ...]  # the middle of its values: distances are found from there
    products: tuple[tuple[int, ...], ...]  # which variables enter each product: ((0,), (0, 1)) is K and K L

    def on(self, values: Sequence[FloatArray]) -> list[LogKernel]:
        """Return the products on some rows."""
        variables = zip(self.options, self.widths, values, self.centres, strict=True)
        kernels = [kernel_of_widths(option, widths, rows, centre=centre) for option, widths, rows, centre in variables]
        return [product([kernels[i] for i in chosen]) for chosen in self.products]

    def codes(self, values: FloatArray) -> IntArray:
        """Return the category of each row, from columns of the first variable that must match: they split rows."""
        labels = self.options[0].matched_columns(values.shape[1])
        if not labels:
            return np.zeros(len(values), np.int64)
        return np.unique(values[:, labels], axis=0, return_inverse=True)[1].reshape(-1)


class RowSource(Protocol):
    """Rows in chunks."""

    kernels: RowKernels
    sizes: tuple[int, ...]
    categories: tuple[IntArray, IntArray]
    """Codes of the categories in ascending order, and how many rows of each group they have (codes x G)."""

    def count_absent(self) -> tuple[int, int]:
        """Return how many rows have a category that some group does not have, and how many rows there are."""
        ...

    def weights(self) -> FloatArray:
        """Return the total weight of each group."""
        ...

    def totals(self) -> FloatArray:
        """Return total weights, sums of squared weights, and the same times each row's own similarity (3 x G)."""
        ...

    def map(self, function: Callable[[RowChunk], T]) -> Iterator[T]:
        """Yield what a function makes of each chunk, in the order of the chunks."""
        ...


def rounded_centre(mean: FloatArray) -> FloatArray:
    """Return a point near the mean that is the same in whatever order rows were added up."""
    with np.errstate(over="ignore"):
        near = mean.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(near), near, mean)


def block_exponents(kernels: list[LogKernel], m: int, rows: slice, columns: slice) -> list[FloatArray]:
    """Return the exponents of some of the first `m` rows against some of those after them, one block per kernel."""
    columns = slice(m + columns.start, m + columns.stop)
    return [np.ascontiguousarray(k.block(rows, columns), np.float64) for k in kernels]


def _blocks(first: IntArray, second: IntArray) -> list[tuple[Any, Any]]:
    """Return, for each category that occurs in both, the indices of its rows in one and in the other."""
    if first.size == 0 or second.size == 0:
        return []
    low = min(first[0], second[0])
    if (first == low).all() and (second == low).all():
        return [(slice(0, len(first)), slice(0, len(second)))]
    order, other = np.argsort(first, kind="stable"), np.argsort(second, kind="stable")
    # The span of each category of the first among its ordered rows, and among those of the second.
    categories, starts = np.unique(first[order], return_index=True)
    ends = np.append(starts[1:], len(first))
    other_starts = np.searchsorted(second[other], categories)
    other_ends = np.searchsorted(second[other], categories, "right")
    spans = zip(starts, ends, other_starts, other_ends, strict=True)
    return [(order[a:b], other[c:e]) for a, b, c, e in spans if e > c]


class CommonCategory(NamedTuple):
    """Query rows and chunk rows of one category."""

    queries: Any  # indices of the query rows, or a slice
    rows: Any  # indices of the chunk rows, or a slice
    kernels: list[LogKernel]  # over these query rows, followed by these chunk rows
    n_queries: int


def common_categories(kernels: RowKernels, queries: RowChunk, chunk: RowChunk) -> Iterator[CommonCategory]:
    """Yield the rows of each category that both have, with their kernels."""
    for mine, theirs in _blocks(queries.codes, chunk.codes):
        pairs = zip(queries.values, chunk.values, strict=True)
        values = [np.concatenate([a[mine], b[theirs]]) for a, b in pairs]
        yield CommonCategory(mine, theirs, kernels.on(values), len(queries.weights[mine]))


def chunk_sums(kernels: RowKernels, queries: RowChunk, chunk: RowChunk) -> FloatArray:
    """Return every query row's kernel mass in the chunk, for each product of kernels: products x queries.

    Sums may underflow to 0. Cost O(queries x rows) exponentials within each category, memory O(queries + rows).
    """
    sums = np.zeros((len(kernels.products), len(queries)))
    for mine, theirs, category_kernels, m in common_categories(kernels, queries, chunk):
        weights = chunk.weights[theirs]
        part, n = np.zeros((len(category_kernels), m)), len(weights)
        for start in range(0, n, _TILE[1]):
            columns = slice(start, min(start + _TILE[1], n))
            for first in range(0, m, _TILE[0]):
                rows = slice(first, min(first + _TILE[0], m))
                for total, tile in zip(part, block_exponents(category_kernels, m, rows, columns), strict=True):
                    exp_in_place(tile)
                    total[rows] += tile @ weights[columns]
        sums[:, mine] += part
    return sums


def chunk_log_sums(kernels: RowKernels, queries: RowChunk, chunk: RowChunk) -> tuple[FloatArray, FloatArray]:
    """Return the largest log term of each query row, and the sum relative to it: both products x queries.

    For the rows whose plain sums underflow.
    """
    peaks = np.full((len(kernels.products), len(queries)), -np.inf)
    totals = np.zeros_like(peaks)
    for mine, theirs, category_kernels, m in common_categories(kernels, queries, chunk):
        weights, query_rows = _logs(chunk.weights[theirs]), np.arange(len(queries))[mine]
        for first in range(0, m, _TILE[0]):
            rows = slice(first, min(first + _TILE[0], m))
            for k, tile in enumerate(block_exponents(category_kernels, m, rows, slice(0, len(weights)))):
                peaks[k, query_rows[rows]], totals[k, query_rows[rows]] = log_sums_of(tile + weights)
    return peaks, totals


def _logs(weights: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights))


@dataclass(frozen=True)
class FarSums:
    """Log sums of rows that are so far from a chunk that their exponents have lost their digits.

    They are relative to the exponent at a row of the chunk that is among the nearest.
    """

    log_x: FloatArray
    log_xy: FloatArray
    nearest: FloatArray


def chunk_far_sums(kernels: RowKernels, queries: RowChunk, chunk: RowChunk) -> FarSums:
    """Return log sums of K and K L, relative to the value of K at one of the nearest rows of the chunk."""
    log_x, log_xy = np.full((2, len(queries)), -np.inf)
    nearest = np.zeros_like(queries.values[0])
    for mine, theirs, (kernel_x, kernel_y), m in common_categories(
        replace(kernels, products=((0,), (1,))), queries, chunk
    ):
        left, right = tuple(a[:m] for a in kernel_x.left), tuple(a[m:] for a in kernel_x.right)
        relative, nearest_rows = relative_exponents(kernel_x, left, right, _logs(chunk.weights[theirs]))
        with_y = relative + kernel_y.block(slice(0, m), slice(m, None))
        log_x[mine], log_xy[mine] = (logsumexp(NUMPY, a, axis=1) for a in (relative, with_y))
        nearest[mine] = chunk.values[0][theirs][nearest_rows]
    return FarSums(log_x, log_xy, nearest)


def joined_far_ratios(kernels: RowKernels, queries: RowChunk, far_sums: Sequence[FarSums]) -> FloatArray:
    """Return log(B / A) of each query row from the far sums of all chunks of a group."""
    ratios = np.full(len(queries), -np.inf)
    for j in range(len(queries)):
        # Other chunks have no rows of the category of row j.
        reached = [f for f in far_sums if f.log_x[j] > -np.inf]
        if not reached:
            continue
        near = np.stack([f.nearest[j] for f in reached])
        values = np.concatenate([queries.values[0][j : j + 1], near])
        kernel = kernel_of_widths(kernels.options[0], kernels.widths[0], values, centre=kernels.centres[0])
        left, right = tuple(a[:1] for a in kernel.left), tuple(a[1:] for a in kernel.right)
        relative, _ = relative_exponents(kernel, left, right, 0.0)
        log_x, log_xy = np.array([[f.log_x[j], f.log_xy[j]] for f in reached]).T
        ratios[j] = logsumexp(NUMPY, relative[0] + log_xy, 0) - logsumexp(NUMPY, relative[0] + log_x, 0)
    return ratios
