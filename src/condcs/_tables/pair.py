"""Two tables as the four arrays that condcs compares, with an account of every row on the way."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condcs._core.equality import ByValue
from condcs._core.errors import DataError, OverlapError, ParameterError
from condcs._tables.column_choice import choose_x_and_y, select_columns
from condcs._tables.kinds import Column, is_missing, tell_kind
from condcs._tables.sources import Batch, FileOptions, Row, Table, open_table

_ROW_OVERHEAD = 120
"""Bytes of a row beside its cells, its key included."""

_Kept = tuple[float, int, Row, int]
"""Key, line, row and size of it."""

FloatArray = np.ndarray[Any, Any]

FEWEST_ROWS = 10
_MEGABYTE = 1 << 20
_SHOWN = 5


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


@dataclass(frozen=True)
class ReadOptions:
    """Which columns and rows of two tables are wanted, and how they are read."""

    x: Sequence[str] = ()
    y: Sequence[str] = ()
    category: Sequence[str] = ()
    number: Sequence[str] = ()
    drop_missing: bool = False
    max_rows: int = 2000
    seed: int = 0
    files: FileOptions = field(default_factory=FileOptions)


@dataclass(frozen=True)
class Account:
    """What became of a table's rows."""

    title: str
    seen: int
    gaps: int
    used: int
    short_of_memory: bool

    @property
    def sampled(self) -> bool:
        """Whether some rows without gaps were left out."""
        return self.used < self.seen - self.gaps


@dataclass(frozen=True, eq=False)
class Pair(ByValue):
    """Two tables, read.

    Attributes
    ----------
    x, y : tuple of Column
        Columns that are compared.
    xp, yp, xq, yq : array
        The reference and the current table. Categories are coded by their place in `Column.labels`.
    reference, current : Account
        What became of the rows.
    notes : tuple of str
        What was left out, and why.
    """

    x: tuple[Column, ...]
    y: tuple[Column, ...]
    xp: FloatArray
    yp: FloatArray
    xq: FloatArray
    yq: FloatArray
    reference: Account
    current: Account
    notes: tuple[str, ...] = ()


def read_pair(reference: str | Table, current: str | Table, options: ReadOptions) -> Pair:
    """Read two tables; the columns of the first decide, and the second must have them too."""
    if reference == current == "-":
        raise ParameterError("only one of the two tables can come from standard input. Name a file for the other.")
    samples: list[tuple[Table, Sample]] = []
    x: list[str] = []
    y: list[str] = []
    for place, source in enumerate((reference, current)):
        with open_table(source, options.files) as table:
            if place == 0:
                x, y = choose_x_and_y(options.x, options.y, table.names, table.title)
            samples.append((table, read_sample(table, [*x, *y], options, place)))
    told = tell_columns([*x, *y], samples, options, responses=set(y))
    cells = [list(zip(*sample.rows, strict=True)) for _, sample in samples]
    values = [
        [c.encode(column, t.title) for c, column in zip(told, columns, strict=True)]
        for (t, _), columns in zip(samples, cells, strict=True)
    ]
    columns, notes = _varying(told, values, responses=set(y))
    arrays = [np.column_stack([table[i] for i, _ in columns]) for table in values]
    inputs = [place for place, (i, _) in enumerate(columns) if i < len(x)]
    others = [place for place, (i, _) in enumerate(columns) if i >= len(x)]
    if not inputs:
        raise DataError("every column of `x` has the same value in all rows: there is nothing to condition on.")
    kinds = [column for _, column in columns]
    _check_overlap([kinds[i] for i in inputs], arrays[0][:, inputs], arrays[1][:, inputs])
    accounts = [Account(t.title, s.seen, s.gaps, len(s.rows), s.short_of_memory) for t, s in samples]
    return Pair(
        tuple(kinds[i] for i in inputs),
        tuple(kinds[i] for i in others),
        arrays[0][:, inputs],
        arrays[0][:, others],
        arrays[1][:, inputs],
        arrays[1][:, others],
        accounts[0],
        accounts[1],
        tuple(notes),
    )


def read_sample(table: Table, names: list[str], options: ReadOptions, place: int) -> Sample:
    """Read a sample of some columns; gaps are an error unless they are to be dropped."""
    found = {name: place for place, name in enumerate(table.names)}
    missing = [name for name in names if name not in found]
    if missing:
        # One message for all: a table of another shape would otherwise be mended name by name.
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise DataError(
            f"{table.title} must have the columns of the reference, but lacks "
            f"{', '.join(map(repr, missing[:_SHOWN]))}{more}. Name the columns to compare with `x`."
        )
    places = [found[name] for name in names]
    memory = options.files.memory * _MEGABYTE // 2
    sample = sample_rows(
        table.batches(places), len(names), most=options.max_rows, memory=memory, seed=(options.seed, place)
    )
    if sample.gaps and not options.drop_missing:
        worst = sorted(zip(names, sample.gaps_by_column, strict=True), key=lambda pair: -pair[1])
        told = ", ".join(f"{name!r} ({count:,})" for name, count in worst[:_SHOWN] if count)
        raise DataError(
            f"{table.title} must have no missing values in the columns compared, got {sample.gaps:,} of "
            f"{sample.seen:,} rows with one: {told}. Drop such rows with missing='drop', or fill them in first."
        )
    if len(sample.rows) < FEWEST_ROWS:
        whole = (
            f"{sample.seen:,} rows"
            if not sample.gaps
            else f"{sample.seen:,} rows, {sample.gaps:,} of them with missing values"
        )
        raise DataError(f"{table.title} must have at least {FEWEST_ROWS} rows to compare, got {whole}. Collect more.")
    return sample


def tell_columns(
    names: Sequence[str], samples: Sequence[tuple[Table, Sample]], options: ReadOptions, responses: set[str]
) -> list[Column]:
    """Find out what the columns are; all that cannot be used are named in one error."""
    category = set(select_columns("category", options.category, names, "the columns compared"))
    number = set(select_columns("number", options.number, names, "the columns compared"))

    def where(place: int, row: int) -> str:
        table, sample = samples[place]
        return f" in {table.unit} {sample.lines[row]:,} of {table.title}"

    columns, faults = [], []
    for place, name in enumerate(names):
        cells = [[row[place] for row in sample.rows] for _, sample in samples]
        said = True if name in category else False if name in number else None
        try:
            columns.append(
                tell_kind(
                    name, cells, category=said, response=name in responses, decimal=options.files.decimal, where=where
                )
            )
        except DataError as error:
            faults.append((name, str(error)))
    refuse_columns(faults)
    return columns


def refuse_columns(faults: Sequence[tuple[str, str]]) -> None:
    """Raise one error for all columns that cannot be used: pairs of a name and what is wrong with it."""
    if len(faults) == 1:
        raise DataError(faults[0][1])
    if faults:
        told = " ".join(f"({number}) {words}" for number, (_, words) in enumerate(faults[:_SHOWN], start=1))
        rest = ", ".join(repr(name) for name, _ in faults[_SHOWN:])
        raise DataError(f"{len(faults)} columns cannot be used. {told}{f' The same holds for {rest}.' if rest else ''}")


def _varying(
    columns: Sequence[Column], values: Sequence[Sequence[FloatArray]], responses: set[str]
) -> tuple[list[tuple[int, Column]], list[str]]:
    """Return the columns that vary, with their places, and notes on all."""
    kept, notes, faults = [], [], []
    for place, column in enumerate(columns):
        name = column.name
        if np.ptp(np.concatenate([table[place] for table in values])) > 0:
            kept.append((place, column))
            notes += [column.note] if column.note else []
        elif name in responses:
            faults.append((name, f"`y` must vary, but {name!r} has the same value in all rows. Name another column."))
        else:
            notes.append(f"Column {name!r} has the same value in all rows and was left out.")
    refuse_columns(faults)
    return kept, notes


def _check_overlap(columns: Sequence[Column], xp: FloatArray, xq: FloatArray) -> None:
    apart = []
    for place, column in enumerate(columns):
        p, q = xp[:, place], xq[:, place]
        if not set(p) & set(q) if column.is_category else float(p.max()) < q.min() or float(q.max()) < p.min():
            apart.append(column.name)
    if apart:
        have = f"column {apart[0]!r} has" if len(apart) == 1 else f"columns {', '.join(map(repr, apart))} have"
        raise OverlapError(
            f"{have} no value in common between the two tables, so no rows with equal inputs can be compared. Leave "
            f"{'it' if len(apart) == 1 else 'them'} out with x={','.join(f'!{name}' for name in apart)!r} (a date or "
            "a running number is not an input)."
        )
