"""A uniform sample of the rows of a table that is read once and may be longer than memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from condcs._core.errors import DataError
from condcs._tables.kinds import Decimal, as_number, is_missing, reads, separates_thousands
from condcs._tables.sources import Batch, Row

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
        In the table's order; gaps are None.
    lines : list of int
        The line, or number, of each of them.
    seen : int
        Rows that the table had.
    gaps : int
        Rows with a missing value that is not wanted, none of them kept.
    gaps_by_column : list of int
        Missing values in each column.
    short_of_memory : bool
        Whether the budget, not the number wanted, limited the sample.
    keys : list of float
        The random key of each row: of several samples together, those with the smallest keys are a sample as well.
    """

    rows: list[Row]
    lines: list[int]
    seen: int
    gaps: int
    gaps_by_column: list[int]
    short_of_memory: bool = False
    keys: list[float] = field(default_factory=list)


class RowSampler:
    """Keeps a uniform sample of the rows that it is given.

    Each row has a random key and the rows with the smallest keys stay, so memory is bounded by the sample, and neither
    the batches nor the length of the table, which is unknown until its end, change what is drawn. When the kept rows
    outgrow `memory`, fewer are kept from there on: the smallest keys still are a uniform sample.

    Parameters
    ----------
    columns : int
        Cells of a row.
    most : int
        Rows to keep.
    memory : int
        Bytes that the kept rows may take up.
    may_lack : int
        So many cells at the beginning of a row may be missing; a gap in another one drops the row.
    """

    def __init__(self, columns: int, *, most: int, memory: int, may_lack: int = 0) -> None:
        self._kept: list[_Kept] = []
        self._limit, self._bound, self._memory, self._may_lack = most, 1.0, memory, may_lack
        self._short = False
        self.seen = self.gaps = 0
        self._by_column = [0] * columns

    def add(self, rows: Iterable[Row], lines: Iterable[int], keys: Iterable[float]) -> None:
        """Take in rows, each with its line and its key."""
        # Rows that no sample could want are still looked through for gaps, which are counted over the whole table.
        for key, line, row in zip(keys, lines, rows, strict=True):
            self.seen += 1
            absent = [c for c, cell in enumerate(row) if is_missing(cell)]
            for c in absent:
                self._by_column[c] += 1
            if absent and absent[-1] >= self._may_lack:
                self.gaps += 1
            elif key < self._bound:
                kept = [None if c in absent else cell for c, cell in enumerate(row)] if absent else row
                self._kept.append((key, line, kept, _bytes(kept)))
        self._trim()

    def _trim(self) -> None:
        kept = self._kept
        if len(kept) > self._limit:
            kept.sort(key=_key)
            del kept[self._limit :]
            self._bound = kept[-1][0]
        size = sum(entry[3] for entry in kept)
        if size > self._memory:
            kept.sort(key=_key)
            while size > self._memory and kept:
                size -= kept.pop()[3]
            if not kept:
                raise DataError(
                    "`memory` must have room for a few rows, but a single one is larger. Choose fewer columns with "
                    "`x`, or give more memory."
                )
            self._limit, self._bound, self._short = len(kept), kept[-1][0], True

    def sample(self) -> Sample:
        """Return the rows, in the table's order."""
        kept = sorted(self._kept, key=lambda entry: entry[1])
        return Sample(
            [entry[2] for entry in kept],
            [entry[1] for entry in kept],
            self.seen,
            self.gaps,
            self._by_column,
            self._short,
            [entry[0] for entry in kept],
        )


def sample_rows(
    batches: Iterable[Batch], columns: int, *, most: int, memory: int, seed: tuple[int, int], may_lack: int = 0
) -> Sample:
    """Keep a uniform sample of the rows of a table; see `RowSampler`.

    Parameters
    ----------
    batches : iterable of Batch
        The table.
    columns, most, memory, may_lack : int
        As in `RowSampler`.
    seed : pair of int
        Seed, and which table it is.
    """
    generator = np.random.default_rng(seed)
    sampler = RowSampler(columns, most=most, memory=memory, may_lack=may_lack)
    for batch in batches:
        sampler.add(batch, batch.lines, generator.random(len(batch)).tolist())
    return sampler.sample()


def together(samples: Sequence[Sample], most: int) -> list[tuple[int, int]]:
    """Return a uniform sample of several samples' tables: which sample, and which row of it."""
    # Beyond the largest key of a sample that left rows out, rows of its table are absent.
    bound = min((max(s.keys) for s in samples if len(s.keys) < s.seen - s.gaps), default=1.0)
    rows = sorted((key, place, row) for place, s in enumerate(samples) for row, key in enumerate(s.keys))
    return sorted((place, row) for key, place, row in rows[:most] if key <= bound)


def _key(entry: _Kept) -> float:
    return entry[0]


def _bytes(row: Row) -> int:
    return _ROW_OVERHEAD + sum(map(_size, row))


def _size(cell: Any) -> int:
    return sys.getsizeof(cell) + 8


def same_decimals(
    samples: Sequence[Sample], titles: Sequence[str], columns: int, decimal: Decimal
) -> tuple[list[Sample], list[str]]:
    """Return samples whose first columns have the decimal sign that was named, and a note on each that had another.

    A column is rewritten where one table has numbers by the named sign alone, and another by the other sign alone,
    unless that one may separate thousands.
    """
    other: Decimal = "," if decimal == "." else "."
    rewritten: list[list[int]] = [[] for _ in samples]
    for place in range(columns):
        cells = [[row[place] for row in sample.rows if isinstance(row[place], str)] for sample in samples]
        foreign = [any(other in cell for cell in texts) and _by(texts, other) for texts in cells]
        if any(foreign) and any(any(decimal in cell for cell in texts) and _by(texts, decimal) for texts in cells):
            for number, is_foreign in enumerate(foreign):
                rewritten[number] += [place] if is_foreign else []
    made = [
        replace(s, rows=[_rewritten(row, places, other, decimal) for row in s.rows]) if places else s
        for s, places in zip(samples, rewritten, strict=True)
    ]
    sign = {".": "points", ",": "commas"}[other]
    found = dict.fromkeys(title for title, places in zip(titles, rewritten, strict=True) if places)
    return made, [f"{title} has decimal {sign}: its numbers were read so." for title in found]


def _by(texts: Sequence[str], decimal: Decimal) -> bool:
    """Whether texts are numbers with a decimal sign which does not separate thousands."""
    signed = [text for text in texts if decimal in text]
    return not all(map(separates_thousands, signed)) and all(reads(as_number, text, decimal) for text in texts)


def _rewritten(row: Sequence[Any], places: Sequence[int], other: str, decimal: str) -> list[Any]:
    cells = list(row)
    for place in places:
        if isinstance(cells[place], str):
            cells[place] = cells[place].replace(other, decimal)
    return cells
