"""A uniform sample of rows as they pass by: of any length, within a number of rows and a budget of memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs.core.errors import DataError
from condcs.tables.missing import is_missing
from condcs.tables.sources import Batch, Row

_ROW_OVERHEAD = 120
"""Bytes of a row beside its cells, its key included."""

_Kept = tuple[float, int, Row, int]
"""Key, line, row and size of it."""


@dataclass(frozen=True)
class Sample:
    """Rows that were kept of a table.

    Attributes
    ----------
    rows : list
        In the table's order.
    lines : list of int
        The line, or number, of each of them.
    seen : int
        Rows that the table had.
    gaps : int
        Rows with a missing value, none of them kept.
    gaps_by_column : list of int
        Missing values in each column.
    short_of_memory : bool
        Whether the budget, not the number wanted, limited the sample.
    """

    rows: list[Row]
    lines: list[int]
    seen: int
    gaps: int
    gaps_by_column: list[int]
    short_of_memory: bool = False


def sample_rows(batches: Iterable[Batch], columns: int, *, most: int, memory: int, seed: tuple[int, int]) -> Sample:
    """Keep a uniform sample of the rows without gaps.

    Each row gets a random key and the rows with the smallest keys stay, so memory is bounded by the sample, and neither
    the batches nor the length of the table, which is unknown until its end, change what is drawn. When the kept rows
    outgrow `memory`, fewer are kept from there on: the smallest keys still are a uniform sample.

    Parameters
    ----------
    batches : iterable of Batch
        The table.
    columns : int
        Cells of a row.
    most : int
        Rows to keep.
    memory : int
        Bytes that the kept rows may take up.
    seed : pair of int
        Seed, and which table it is.
    """
    generator = np.random.default_rng(seed)
    kept: list[_Kept] = []
    seen = gaps = 0
    by_column = [0] * columns
    limit, bound, short = most, 1.0, False
    for batch in batches:
        keys = generator.random(len(batch))
        # Rows that no sample could want are still looked through for gaps, which are counted over the whole table.
        for key, line, row in zip(keys.tolist(), batch.lines, batch, strict=True):
            seen += 1
            absent = [c for c, cell in enumerate(row) if is_missing(cell)]
            if absent:
                gaps += 1
                for c in absent:
                    by_column[c] += 1
            elif key < bound:
                kept.append((key, line, row, _bytes(row)))
        if len(kept) > limit:
            kept.sort(key=_key)
            del kept[limit:]
            bound = kept[-1][0]
        size = sum(entry[3] for entry in kept)
        if size > memory:
            kept.sort(key=_key)
            while size > memory and kept:
                size -= kept.pop()[3]
            if not kept:
                raise DataError(
                    "`memory` must have room for a few rows, but a single one is larger. Choose fewer columns with "
                    "`x`, or give more memory."
                )
            limit, bound, short = len(kept), kept[-1][0], True
    kept.sort(key=lambda entry: entry[1])
    return Sample([entry[2] for entry in kept], [entry[1] for entry in kept], seen, gaps, by_column, short)


def _key(entry: _Kept) -> float:
    return entry[0]


def _bytes(row: Row) -> int:
    return _ROW_OVERHEAD + sum(map(_size, row))


def _size(cell: Any) -> int:
    return sys.getsizeof(cell) + 8
