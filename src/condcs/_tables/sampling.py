"""A uniform sample of the rows of a table within a budget of memory, drawn while the table streams by.

`RowSampler.add` is the function to read first: it draws from a batch of columns by index. `sample_rows` does so for all
batches of a table. Nothing here knows what the cells mean; only where gaps are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.errors import DataError
from condcs._core.vocabulary import named
from condcs._tables.cells import Cells, join_cells
from condcs._tables.sources import TableBatch, TableRow

_ROW_OVERHEAD = 120
"""Bytes that a row is counted with beside its cells: its key, its line and its index."""

_MOST_STALE = 1.25
"""So many times the rows that are kept may be held, before those that are not wanted any more are let go.

Copying the rows at every batch would take a time that is quadratic in their number.
"""


@dataclass(frozen=True)
class Sample:
    """Rows that were kept of a table, in its order, as columns."""

    columns: Sequence[Cells]
    lines: IntArray  # (n,)
    keys: FloatArray  # (n,), random: of several samples together, the rows with the smallest keys are a sample as well
    seen: int
    gaps: int  # rows with a missing value that is not wanted, none of them kept
    gaps_by_column: list[int]
    short_of_memory: bool = False  # whether the budget, not the number wanted, limited the sample

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def rows(self) -> list[TableRow]:
        """The rows as Python values, None for gaps."""
        columns = (
            [None if gap else cell for cell, gap in zip(cells.tolist(), cells.gaps, strict=True)]
            for cells in self.columns
        )
        return list(zip(*columns, strict=True))


class RowSampler:
    """Keeps a uniform sample of the rows that it is given.

    Each row has a random key and the rows with the smallest keys stay, so memory is bounded by the sample, and neither
    the batches nor the length of the table, which is unknown until its end, change what is drawn. When the kept rows
    outgrow `memory` (bytes), fewer are kept from there on: the smallest keys still are a uniform sample. The first
    `may_lack` cells of a row may be missing; a gap in another one drops the row.
    """

    def __init__(self, columns: int, *, most: int, memory: int, may_lack: int = 0) -> None:
        # Columns of the rows that are held, batch after batch, and which of all these rows are wanted still.
        self._held: list[Sequence[Cells]] = []
        self._n_held = 0
        self._wanted: IntArray = np.empty(0, int)  # (n,)
        self._keys: FloatArray = np.empty(0)  # (n,)
        self._lines: IntArray = np.empty(0, int)  # (n,)
        self._sizes: IntArray = np.empty(0, int)  # (n,), bytes
        self._limit, self._bound, self._memory, self._may_lack = most, 1.0, memory, may_lack
        self._short = False  # whether the memory has limited the sample
        self.seen = self.gaps = 0
        self._by_column = [0] * columns  # gaps of each

    def add(self, batch: TableBatch, keys: FloatArray) -> None:
        """Take in rows, each with its key (n,)."""
        # 1. Gaps are counted over the whole table, also in rows that no sample could want.
        self.seen += len(batch)
        lacking = np.zeros(len(batch), bool)
        for index, cells in enumerate(batch.columns):
            count = int(cells.gaps.sum())
            self._by_column[index] += count
            if count and index >= self._may_lack:
                lacking |= cells.gaps
        self.gaps += int(lacking.sum())
        # 2. Rows whose keys are below the largest one that is kept.
        rows = np.flatnonzero(~lacking & (keys < self._bound))
        if len(rows):
            taken = batch.take(rows)
            self._held.append(taken.columns)
            self._wanted = np.concatenate([self._wanted, self._n_held + np.arange(len(rows))])
            self._n_held += len(rows)
            self._keys = np.concatenate([self._keys, keys[rows]])
            self._lines = np.concatenate([self._lines, taken.lines])
            sizes = _ROW_OVERHEAD + sum(cells.sizes() for cells in taken.columns)
            self._sizes = np.concatenate([self._sizes, sizes])
        # 3. Those that are one too many go.
        self._trim()

    def _trim(self) -> None:
        """Drop the rows with the largest keys beyond the number and the memory allowed."""
        if len(self._keys) > self._limit:
            self._keep_smallest(self._limit)
        if self._sizes.sum() > self._memory:
            count = int(np.sum(np.cumsum(self._sizes[np.argsort(self._keys, kind="stable")]) <= self._memory))
            if not count:
                raise DataError(
                    f"{named('memory')} must have room for a few rows, but a single one is larger. Choose fewer "
                    f"columns with {named('x')}, or give more memory."
                )
            self._keep_smallest(count)
            self._limit, self._short = count, True
        if self._n_held > _MOST_STALE * len(self._wanted):
            self._let_go()

    def _keep_smallest(self, count: int) -> None:
        """Keep the rows with the smallest keys."""
        smallest = np.zeros(len(self._keys), bool)
        smallest[np.argpartition(self._keys, count - 1)[:count]] = True
        self._wanted, self._keys = self._wanted[smallest], self._keys[smallest]
        self._lines, self._sizes = self._lines[smallest], self._sizes[smallest]
        self._bound = float(self._keys.max())

    def _let_go(self) -> None:
        """Hold no other rows than those that are kept."""
        self._held = [[join_cells(parts).take(self._wanted) for parts in zip(*self._held, strict=True)]]
        self._wanted = np.arange(len(self._wanted))
        self._n_held = len(self._wanted)

    def sample(self) -> Sample:
        """Return the rows, in the table's order."""
        order = np.argsort(self._lines, kind="stable")
        held = zip(*self._held, strict=True) if self._held else ((),) * len(self._by_column)
        columns = [join_cells(parts).take(self._wanted[order]) for parts in held]
        return Sample(
            columns=columns,
            lines=self._lines[order],
            keys=self._keys[order],
            seen=self.seen,
            gaps=self.gaps,
            gaps_by_column=self._by_column,
            short_of_memory=self._short,
        )


def sample_rows(
    batches: Iterable[TableBatch], columns: int, *, most: int, memory: int, seed: tuple[int, int], may_lack: int = 0
) -> Sample:
    """Keep a uniform sample of the rows of a table; see `RowSampler`."""
    generator = np.random.default_rng(seed)
    sampler = RowSampler(columns, most=most, memory=memory, may_lack=may_lack)
    for batch in batches:
        sampler.add(batch, generator.random(len(batch)))
    return sampler.sample()


def together(samples: Sequence[Sample], most: int) -> list[tuple[int, int]]:
    """Return a uniform sample of several samples' tables: which sample, and which row of it."""
    # Beyond the largest key of a sample that left rows out, rows of its table are absent.
    bound = min(
        (float(sample.keys.max()) for sample in samples if len(sample) < sample.seen - sample.gaps), default=1.0
    )
    keyed_rows = [
        (key, number, row) for number, sample in enumerate(samples) for row, key in enumerate(sample.keys.tolist())
    ]
    return sorted((number, row) for key, number, row in sorted(keyed_rows)[:most] if key <= bound)
