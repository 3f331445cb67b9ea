"""Rows that are read anew for each pass: the source of the sampled supplier for data larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from condcs._core.arrays import NUMPY
from condcs._core.checks import Variable
from condcs._core.errors import DataError, ShapeError
from condcs._kernels.bandwidths import Bandwidth, median_rows
from condcs._kernels.log_kernels import KernelOption, log_kernel
from condcs._kernels.row_chunks import PAIRS, RowChunk, RowKernels, rounded_centre
from condcs._parallel.row_parts import Part
from condcs._parallel.spreading import Shared, active_workers, in_order, spread
from condcs._parallel.threads import on_threads

FloatArray = np.ndarray[Any, Any]
T = TypeVar("T")

_PIECE = 8_192
_MOST_LABELS = 100_000


@dataclass(frozen=True)
class _Reader:
    """How the rows of a part become numbers.

    Attributes
    ----------
    names : tuple of str
        What the two samples are called.
    kernels : tuple of KernelOption
        Kernels of x and y.
    labels : tuple of dict
        Labels in ascending order of each label column of x and y, once they are known: {column: labels}.
    """

    names: tuple[str, ...]
    kernels: tuple[KernelOption, KernelOption]
    labels: tuple[dict[int, list[Any]], dict[int, list[Any]]] | None = None

    def tables(self, part: Part, group: int) -> tuple[list[Any], FloatArray | None]:
        """Return x and y of a part as tables, and its weights."""
        x, y, weights = part() if callable(part) else part
        found = []
        for which, value in (("x", x), ("y", y)):
            table = np.asarray(value)
            table = table[:, None] if table.ndim == 1 else table
            if table.ndim != 2 or table.shape[1] == 0:
                raise ShapeError(
                    f"`{self.names[group]}` must have rows of {which}, got shape {table.shape} in a chunk."
                )
            found.append(table)
        if len(found[0]) != len(found[1]):
            raise ShapeError(
                f"`{self.names[group]}` must have x and y of the same rows, got {len(found[0])} and {len(found[1])} in "
                "a chunk."
            )
        if weights is None:
            return found, None
        weights = self._numbers(np.asarray(weights).reshape(-1, 1), group, "weights")[:, 0]
        if len(weights) != len(found[0]) or (weights < 0).any():
            raise DataError(f"`{self.names[group]}` must have a weight for each row, none of them negative.")
        return found, weights

    def values(self, tables: list[Any], group: int) -> list[FloatArray]:
        """Return x and y as numbers, labels as codes."""
        assert self.labels is not None
        found = []
        for which, table, known in zip("xy", tables, self.labels, strict=True):
            numbers = np.empty(table.shape)
            for c in range(table.shape[1]):
                column = table[:, c]
                if c in known:
                    numbers[:, c] = np.searchsorted(np.array(known[c]), column.astype(type(known[c][0])))
                else:
                    numbers[:, c] = self._numbers(column[:, None], group, which)[:, 0]
            found.append(numbers)
        return found

    def label_columns(self, which: int, columns: int) -> list[int]:
        """Return which columns of x (0) or y (1) are labels."""
        return [c for c, name in enumerate(self.kernels[which].names(columns)) if name == "delta"]

    def _numbers(self, table: Any, group: int, which: str) -> FloatArray:
        try:
            numbers = table.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"`{self.names[group]}` must hold numbers in {which}, or labels with the delta kernel, got "
                f"{table[0, 0]!r}. Pass e.g. kernel_{which}='delta', or one kernel per column."
            ) from None
        if not np.isfinite(numbers).all():
            raise DataError(
                f"`{self.names[group]}` must be finite, got NaN or infinity in {which}. Leave out such rows."
            )
        return np.asarray(numbers)


@dataclass(frozen=True)
class _Summary:
    """What the first pass finds in a part."""

    size: int
    columns: tuple[int, int]
    sums: tuple[FloatArray, FloatArray]
    labels: tuple[dict[int, set[Any]], dict[int, set[Any]]]
    heaviest: float


class ChunkedRows:
    """The rows of two samples, part by part, in constant memory.

    The first pass counts rows and labels; the second, if a rule is to find a bandwidth, picks the rows that the rule
    looks at: the same as if all rows were in memory. Then come the passes of the sampled supplier.

    Parameters
    ----------
    names : tuple of str
        What the caller calls the samples.
    samples : tuple of callable
        Functions that make the parts of each sample anew.
    kernels : tuple of KernelOption
        Kernels of x and y.
    bandwidths : tuple of Bandwidth
        Bandwidths of x and y.
    """

    def __init__(
        self,
        names: tuple[str, str],
        samples: tuple[Callable[[], Iterable[Part]], ...],
        kernels: tuple[KernelOption, KernelOption],
        bandwidths: tuple[Bandwidth, Bandwidth],
    ) -> None:
        self._samples, self._reader = samples, _Reader(names, kernels)
        self._starts: list[list[int]] = [[], []]
        self._heaviest = 1.0
        means = self._count(names)
        widths = self._widths(kernels, bandwidths, means)
        self.kernels = RowKernels(kernels, widths, means, PAIRS)
        self.categories = np.zeros(1, np.int64), np.array([self.sizes])
        if self._reader.label_columns(0, len(means[0])):
            self.categories = self._count_categories()

    def _count(self, names: tuple[str, str]) -> tuple[FloatArray, FloatArray]:
        """Count rows and labels; return the means of the columns."""
        reader, found = self._reader, list[list[_Summary]]([[], []])
        for group, summary in self._each(lambda part, group, start: (group, _summary(reader, part, group))):
            found[group].append(summary)
        self._starts = [[0, *np.cumsum([s.size for s in of_group]).tolist()] for of_group in found]
        self.sizes = tuple(starts[-1] for starts in self._starts)
        for name, size in zip(names, self.sizes, strict=True):
            if size < 2:
                raise ShapeError(f"`{name}` must have at least 2 rows, got {size}. Pass more chunks.")
        every = [s for of_group in found for s in of_group if s.size]
        if len(widths := {s.columns for s in every}) > 1:
            raise ShapeError(f"`{names[0]}` and `{names[1]}` must have the same columns in all chunks, got {widths}.")
        self._heaviest = max(s.heaviest for s in every)
        if not self._heaviest > 0:
            raise DataError(f"`{names[0]}` and `{names[1]}` must have rows of positive weight.")
        labels: list[dict[int, list[Any]]] = [{}, {}]
        for which in (0, 1):
            for c in reader.label_columns(which, every[0].columns[which]):
                labels[which][c] = sorted(set().union(*(s.labels[which][c] for s in every)))
                if len(labels[which][c]) > _MOST_LABELS:
                    raise DataError(f"column {c} of {'xy'[which]} must have at most {_MOST_LABELS:,} labels.")
        self._reader = _Reader(reader.names, reader.kernels, (labels[0], labels[1]))
        totals = [sum(s.sums[which] for s in every) / sum(self.sizes) for which in (0, 1)]
        return rounded_centre(np.asarray(totals[0])), rounded_centre(np.asarray(totals[1]))

    def _widths(
        self,
        kernels: tuple[KernelOption, KernelOption],
        bandwidths: tuple[Bandwidth, Bandwidth],
        means: tuple[FloatArray, FloatArray],
    ) -> tuple[FloatArray | None, FloatArray | None]:
        reader, n = self._reader, sum(self.sizes)
        wanted = np.arange(n)[median_rows(n)]

        def picked(part: Part, group: int, start: int) -> list[FloatArray]:
            tables, _ = reader.tables(part, group)
            first = start + (self.sizes[0] if group else 0)
            rows = wanted[(wanted >= first) & (wanted < first + len(tables[0]))] - first
            return reader.values([t[rows] for t in tables], group)

        if any(isinstance(b, str) for b in bandwidths):
            some = list(self._each(picked))
            values = [np.concatenate([s[which] for s in some]) for which in (0, 1)]
        else:
            values = [np.stack([m, m + 1]) for m in means]
        found = []
        for which, (option, bandwidth, table) in enumerate(zip(kernels, bandwidths, values, strict=True)):
            if isinstance(bandwidth, str) and bandwidth not in ("median", "joint_median"):
                raise DataError(
                    f"`bandwidth_{'xy'[which]}` must be a number, one per column, 'median' or 'joint_median' for data "
                    f"in chunks, got {bandwidth!r}. Find it from a subsample, with `condcs.bandwidth`."
                )
            names = tuple(f"{'xy'[which]}{c + 1}" for c in range(table.shape[1]))
            title = " and ".join(f"`{name}`" for name in reader.names)
            variable = Variable(table, (len(table),), names, title)
            found.append(
                log_kernel(option, f"bandwidth_{'xy'[which]}", bandwidth, variable, NUMPY, response=which == 1)[1]
            )
        return found[0], found[1]

    def _count_categories(self) -> tuple[FloatArray, FloatArray]:
        counts: dict[int, FloatArray] = {}
        for group, codes, sizes in self.map(
            lambda chunk: (chunk.groups[0], *np.unique(chunk.codes, return_counts=True))
        ):
            for code, size in zip(codes.tolist(), sizes.tolist(), strict=True):
                counts.setdefault(code, np.zeros(2, np.int64))[group] += size
        ordered = sorted(counts)
        return np.array(ordered), np.stack([counts[c] for c in ordered])

    def count_absent(self) -> int:
        """Return how many rows have a category that the other sample does not have."""
        _, counts = self.categories
        return int(counts[(counts == 0).any(axis=1)].sum())

    def map(self, function: Callable[[RowChunk], T]) -> Iterator[T]:
        """Yield what a function makes of each chunk, in the order of the chunks."""
        reader, heaviest = self._reader, self._heaviest
        for results in self._each(lambda part, group, start: _visited(function, reader, heaviest, part, group, start)):
            yield from results

    def _calls(self) -> Iterator[tuple[Part, int, int]]:
        for group, sample in enumerate(self._samples):
            for i, part in enumerate(sample()):
                yield part, group, self._starts[group][i] if self._starts[group] else 0

    def _each(self, function: Callable[[Part, int, int], T]) -> Iterator[T]:
        """Call a function with every part, its group and where it starts: on threads, or on workers that are active."""
        workers = active_workers()
        if workers is not None:
            shared = Shared(lambda: function)
            calls = ((shared, *call) for call in self._calls())
            yield from in_order(spread(_called, calls, workers, ahead=2))
            return
        yield from on_threads(function, self._calls())


def _called(function: Callable[..., T], part: Part, group: int, start: int) -> T:
    return function(part, group, start)


def _summary(reader: _Reader, part: Part, group: int) -> _Summary:
    tables, weights = reader.tables(part, group)
    labels: list[dict[int, set[Any]]] = []
    sums = []
    for which, table in enumerate(tables):
        names = reader.label_columns(which, table.shape[1])
        labels.append({c: set(table[:, c].tolist()) for c in names})
        total = np.zeros(table.shape[1])
        for c in range(table.shape[1]):
            if c not in names:
                total[c] = reader._numbers(table[:, c : c + 1], group, "xy"[which]).sum()
        sums.append(total)
    heaviest = 1.0 if weights is None else float(weights.max(initial=0.0))
    columns = tables[0].shape[1], tables[1].shape[1]
    return _Summary(len(tables[0]), columns, (sums[0], sums[1]), (labels[0], labels[1]), heaviest)


def _visited(
    function: Callable[[RowChunk], T], reader: _Reader, heaviest: float, part: Part, group: int, start: int
) -> list[T]:
    """Return what a function makes of a part, in pieces that fit in memory several times over."""
    tables, weights = reader.tables(part, group)
    values, n = reader.values(tables, group), len(tables[0])
    weights = np.ones(n) if weights is None else weights / heaviest
    assert reader.labels is not None
    codes = np.zeros(n, np.int64)
    for c, labels in reader.labels[0].items():
        codes = codes * len(labels) + values[0][:, c].astype(np.int64)
    rows = RowChunk(tuple(values), weights, np.full(n, group), np.arange(start, start + n), codes)
    return [function(rows.take(slice(first, first + _PIECE))) for first in range(0, n, _PIECE)]
