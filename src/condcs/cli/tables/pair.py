"""Two tables as the four arrays that condcs compares, with an account of every row on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs.cli.tables.kinds import Column, tell_kind
from condcs.cli.tables.sampling import Sample, sample_rows
from condcs.cli.tables.selection import choose_x_and_y, select_columns
from condcs.cli.tables.sources import Table, open_table
from condcs.core.errors import DataError, OverlapError, ParameterError

FloatArray = np.ndarray[Any, Any]

FEWEST_ROWS = 10
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class ReadOptions:
    """How tables are read: see `condcs compare --help`."""

    x: Sequence[str] = ()
    y: Sequence[str] = ()
    category: Sequence[str] = ()
    number: Sequence[str] = ()
    drop_missing: bool = False
    max_rows: int = 2000
    memory: int = 500
    seed: int = 0
    form: str | None = None
    encoding: str = "utf-8"


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


@dataclass(frozen=True)
class Pair:
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


def read_pair(reference: str, current: str, options: ReadOptions) -> Pair:
    """Read two tables; the columns of the first decide, and the second must have them too."""
    if reference == current == "-":
        raise ParameterError("only one of the two tables can come from standard input. Name a file for the other.")
    samples: list[tuple[str, Sample]] = []
    x: list[str] = []
    y: list[str] = []
    for place, path in enumerate((reference, current)):
        with open_table(path, form=options.form, encoding=options.encoding) as table:
            if place == 0:
                x, y = choose_x_and_y(options.x, options.y, table.names, table.title)
            samples.append((table.title, read_sample(table, [*x, *y], options, place)))
    columns, notes = _tell_columns([*x, *y], [s.rows for _, s in samples], options, responses=set(y))
    arrays = []
    for title, sample in samples:
        cells = list(zip(*sample.rows, strict=True))
        arrays.append(np.column_stack([c.encode(cells[i], title) for i, c in columns]))
    inputs = [place for place, (i, _) in enumerate(columns) if i < len(x)]
    others = [place for place, (i, _) in enumerate(columns) if i >= len(x)]
    if not inputs:
        raise DataError("every column of --x has the same value in all rows: there is nothing to condition on.")
    kinds = [column for _, column in columns]
    _check_overlap([kinds[i] for i in inputs], arrays[0][:, inputs], arrays[1][:, inputs])
    accounts = [Account(t, s.seen, s.gaps, len(s.rows), s.short_of_memory) for t, s in samples]
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
    missing = [name for name in names if name not in table.names]
    if missing:
        # One message for all: a table of another shape would otherwise be mended name by name.
        raise DataError(
            f"{table.title} must have the columns of the reference, but lacks {', '.join(map(repr, missing[:5]))}"
            f"{f' and {len(missing) - 5} more' if len(missing) > 5 else ''}. Name the columns to compare with --x."
        )
    places = [table.names.index(name) for name in names]
    memory = options.memory * _MEGABYTE // 2
    sample = sample_rows(
        table.batches(places), len(names), most=options.max_rows, memory=memory, seed=(options.seed, place)
    )
    if sample.gaps and not options.drop_missing:
        worst = sorted(zip(names, sample.gaps_by_column, strict=True), key=lambda pair: -pair[1])
        told = ", ".join(f"{name!r} ({count:,})" for name, count in worst[:5] if count)
        raise DataError(
            f"{table.title} must have no gaps in the columns compared, got {sample.gaps:,} of {sample.seen:,} rows "
            f"with one: {told}. Leave such rows out with --drop-missing, or fill the gaps first."
        )
    if len(sample.rows) < FEWEST_ROWS:
        whole = (
            f"{sample.seen:,} rows" if not sample.gaps else f"{sample.seen:,} rows, {sample.gaps:,} of them with gaps"
        )
        raise DataError(f"{table.title} must have at least {FEWEST_ROWS} rows to compare, got {whole}. Collect more.")
    return sample


def _tell_columns(
    names: list[str], rows: list[list[Any]], options: ReadOptions, responses: set[str]
) -> tuple[list[tuple[int, Column]], list[str]]:
    category = set(select_columns("--category", options.category, names, "the columns compared"))
    number = set(select_columns("--number", options.number, names, "the columns compared"))
    columns, notes = [], []
    for place, name in enumerate(names):
        cells = [[row[place] for row in table] for table in rows]
        said = True if name in category else False if name in number else None
        column = tell_kind(name, cells, category=said, response=name in responses)
        values = np.concatenate([column.encode(c, "the table") for c in cells])
        if np.ptp(values) == 0:
            if name in responses:
                raise DataError(f"`--y` must vary, but {name!r} has the same value in all rows. Name another column.")
            notes.append(f"Column {name!r} has the same value in all rows and was left out.")
            continue
        columns.append((place, column))
    return columns, notes


def _check_overlap(columns: Sequence[Column], xp: FloatArray, xq: FloatArray) -> None:
    for place, column in enumerate(columns):
        p, q = xp[:, place], xq[:, place]
        apart = not set(p) & set(q) if column.is_category else float(p.max()) < q.min() or float(q.max()) < p.min()
        if apart:
            raise OverlapError(
                f"column {column.name!r} has no value in common between the two tables, so no rows with equal inputs "
                f"can be compared. Leave it out with --x '!{column.name}' (a date or a running number is no input)."
            )
