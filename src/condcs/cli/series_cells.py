"""The cells of a table of series, and what is read from them: numbers, times, names, and which column is which.

`cluster` and `causal` read their files through this module, each with its own idea of what series are together: a
collection of any lengths (`series_files`), or columns on one grid of times (`series_grid`). `read_cells` is the
function to read first; `CellTable` is what it returns.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._core.errors import DataError, ParameterError
from condcs._tables.cells import (
    Cells,
    DecimalSign,
    OtherCells,
    TruthCells,
    as_day,
    as_number,
    cells_of,
    gap_marks,
    is_missing,
    join_cells,
    reads,
)
from condcs._tables.kinds import meant_as_numbers, remedy_for_texts
from condcs._tables.pair import refuse_columns
from condcs._tables.sources import CountedLines, FileOptions, Table, open_lines, open_table

FileLayout = Literal["auto", "rows", "columns", "long", "nct", "ntc"]
"""Where series are: in a table one per row, one per column, or one row per series and time; in an array its axes."""

TIME_TITLES = ("time", "timestamp", "date", "datetime", "ds")
"""Titles, in small letters, of columns that hold times and nothing else."""

ID_TITLES = ("id", "series", "series_id", "unique_id", "unit", "subject", "item", "case", "name")
"""Titles, in small letters, of columns that name series, also by numbers."""

_TEXT_ENDINGS = (".csv", ".tsv", ".txt")
_SEPARATORS = ",;\t|"

_ROWS_BELOW = 5
"""Rows below the first that tell whether it is a header: a few, as one alone may have gaps where it tells."""

_FEWEST_TITLES = 3
"""Titles of times that tell a header: two numbers always lie in equal steps, and a series has at least three times."""

_EVEN = 1e-6
"""Relative difference of steps that are equal as written: 0.1, 0.2, 0.3 differ by rounding, 1e-13 in the year 2000."""

_MOST_TEXTS = 100
"""Different texts among numbers that are looked at for a remedy: what a person can take in; a column of names of which
each is different would otherwise be kept in whole."""


_MONTH = re.compile(r"\s*(\d{4})[-/](0[1-9]|1[0-2])\s*")
"""A month as it is written in ISO 8601."""


def as_series_day(cell: Any) -> float:
    """Return a date of series as days since 1970, or raise `ValueError`; a month without a day is its first day.

    In other tables a text such as 2015-01 may as well be a code of two parts.
    """
    is_month = isinstance(cell, str) and _MONTH.fullmatch(cell)
    return as_day(f"{cell.strip()}-01" if is_month else cell)


@dataclass(frozen=True)
class SeriesOptions:
    """How series are read.

    Attributes
    ----------
    layout : {"auto", "rows", "columns", "long", "nct", "ntc"}
        Where the series of a table are, or the order of the axes of an array.
    labels : str, optional
        Column with classes: its name, or its number counted from 1; "none" for no such column.
    id, time, value : str, optional
        Columns of a long table, or the time column of series in columns.
    columns : tuple of str
        Patterns of the series that are wanted; without any, all are.
    drop_missing : bool
        Whether series on a grid may have missing values.
    files : FileOptions
        How tables are read.
    """

    layout: FileLayout = "auto"
    labels: str | None = None
    id: str | None = None
    time: str | None = None
    value: str | None = None
    columns: tuple[str, ...] = ()
    drop_missing: bool = False
    files: FileOptions = field(default_factory=FileOptions)


class Times(NamedTuple):
    """The times of rows: numbers (n,), dates as days since 1970, and whether they are dates."""

    values: FloatArray
    are_dates: bool


@dataclass(frozen=True, eq=False)
class CellTable:
    """A table in memory.

    Attributes
    ----------
    title, unit : str
        Name of the file, and what `lines` counts.
    names : tuple of str or None
        Titles of the columns, None without a header.
    columns : sequence of Cells
        The cells by column, each (n,).
    lines : array, shape (n,)
        Where each row is in the file.
    widths : array, shape (n,)
        Cells of each row as it was written: in text, rows may be shorter than the longest one.
    decimal : str
        Decimal sign of numbers that are written as text.
    """

    title: str
    unit: str
    names: tuple[str, ...] | None
    columns: Sequence[Cells]
    lines: IntArray
    widths: IntArray
    decimal: DecimalSign = "."

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.columns)

    # --- which column is which ---

    def index_of(self, option: str, title: str) -> int:
        """Return the index of a column given by its title or its number, counted from 1."""
        titles = self.names or ()
        if title in titles:
            return titles.index(title)
        if title.isdecimal() and 1 <= int(title) <= self.width:
            return int(title) - 1
        columns = f"It has: {', '.join(titles[:12])}." if titles else "It has no header."
        raise ParameterError(
            f"`{option}` must be a column of {self.title}, by its title or its number from 1 to {self.width}, got "
            f"{title!r}. {columns}"
        )

    def column_titled(self, words: Sequence[str]) -> int | None:
        """Return the index of the first column whose title is one of some words, in their order."""
        titles = ["" if is_index_title(name) else name.strip().lower() for name in self.names or ()]
        return next((titles.index(word) for word in words if word in titles), None)

    def column_words(self, column: int) -> str:
        """Return how a column is called in a message."""
        title = self.names[column] if self.names and column < len(self.names) else ""
        return repr(title) if title else f"column {column + 1}"

    # --- what columns hold ---

    @cached_property
    def numbers(self) -> FloatArray:
        """The cells as numbers (columns, n), truth values as 0 and 1; NaN for gaps, and for what is no number."""
        return np.array([_numbers(cells, self.decimal) for cells in self.columns]).reshape(self.width, len(self))

    @cached_property
    def gaps(self) -> BoolArray:
        """Which cells (columns, n) are gaps."""
        return np.array([cells.gaps for cells in self.columns], bool).reshape(self.width, len(self))

    def are_values(self, column: int) -> BoolArray:
        """Return which cells (n,) of a column are numbers; truth values tell classes apart and are none."""
        if isinstance(self.columns[column], TruthCells):
            return np.zeros(len(self), bool)
        return np.asarray(np.isfinite(self.numbers[column]))

    def is_numeric(self, column: int) -> bool:
        """Whether a column holds numbers and gaps alone."""
        return bool(np.all(self.are_values(column) | self.gaps[column]))

    def days(self, column: int) -> FloatArray:
        """Return the cells of a column (n,) as days since 1970, NaN for gaps and for what is no date."""
        cells = self.columns[column]
        return cells.read_each(as_series_day) if isinstance(cells, OtherCells) else cells.days()

    def is_dated(self, column: int) -> bool:
        """Whether all cells of a column are dates."""
        return len(self) > 0 and bool(np.isfinite(self.days(column)).all())

    def labels(self, column: int) -> list[str]:
        """Return the cells of a column (n,) as labels."""
        return self.columns[column].labels()

    def times(self, column: int) -> Times:
        """Return a column as times, or raise an error that names the first cell that is none."""
        cells = self.columns[column]
        are_dates = not np.isfinite(self.numbers[column]).all()
        times = self.days(column) if are_dates else self.numbers[column]
        unread = np.flatnonzero(~np.isfinite(times))
        if len(unread):
            row = int(unread[0])
            raise DataError(
                f"{self.title} must hold times in {self.column_words(column)}, a number or an ISO date in every row, "
                f"got {_as_written(cells, row)!r} in {self.unit} {self.lines[row]:,}. Write dates as 2026-01-31 or "
                "2026-01-31 18:00; if the column names series, pass --layout rows."
            )
        return Times(times, are_dates)

    def refuse_words(self, parts: Sequence[NumberPart]) -> None:
        """Raise one error for all parts of the table that must hold numbers or gaps, and hold something else."""
        refuse_columns([(part.name, fault) for part in parts if (fault := self._fault(part))])

    def _fault(self, part: NumberPart) -> str:
        """Say what is wrong with a part, where it begins, and what to do; nothing if it holds numbers and gaps."""
        cells_of_part = np.ix_(np.asarray(part.columns, int), part.rows)
        numbers, gaps = self.numbers[cells_of_part], self.gaps[cells_of_part]
        odd = np.isnan(numbers) & ~gaps  # (columns, rows) of the part
        if not odd.any():
            return ""
        # Row by row, as a person would look for them.
        odd_rows, odd_columns = np.nonzero(odd.T)
        texts: Counter[str] = Counter()
        for row, column in zip(part.rows[odd_rows], np.asarray(part.columns)[odd_columns], strict=True):
            text = str(self.columns[column].cell(int(row))).strip()
            if text in texts or len(texts) < _MOST_TEXTS:
                texts[text] += 1
        points = any("." in text for column in part.columns for text in self._numbers_written(column, part.rows))
        count = int(odd.sum())
        meant = meant_as_numbers(texts, int(np.isfinite(numbers).sum()) + texts.total())
        advice = remedy_for_texts(texts, points, self.decimal) if meant else part.otherwise
        return (
            f"{self.title} must hold numbers, got {count:,} of {odd.size:,} cells of {part.title} that are "
            f"not numbers, the first {next(iter(texts))!r} in {self.unit} {self.lines[part.rows[odd_rows[0]]]:,}. "
            f"{advice}, or {part.without}."
        )

    def _numbers_written(self, column: int, rows: IntArray) -> list[str]:
        """Return those cells of a column that are numbers written as text."""
        cells = self.columns[column].take(rows)
        return [text for text in cells.texts() if reads(as_number, text, self.decimal)]

    # --- other tables made of it ---

    def without_column(self, column: int) -> CellTable:
        """Return the table without a column."""
        names = self.names and self.names[:column] + self.names[column + 1 :]
        columns = [*self.columns[:column], *self.columns[column + 1 :]]
        return replace(self, names=names, columns=columns, widths=np.minimum(self.widths, len(columns)))


@dataclass(frozen=True)
class NumberPart:
    """A part of a table that must hold numbers, and what an error says of it.

    `title` calls it ("column 'x'"), `name` stands for it in a list; `otherwise` is the advice where it seems to hold
    something else than numbers, and `without` says how it is left out.
    """

    title: str
    name: str
    columns: Sequence[int]
    rows: IntArray
    otherwise: str
    without: str


def _numbers(cells: Cells, decimal: DecimalSign) -> FloatArray:
    if isinstance(cells, TruthCells):
        return np.where(cells.gaps, np.nan, cells.values.astype(np.float64))
    if type(cells) is OtherCells:
        return cells.read_each(_as_number_or_truth, decimal)
    return cells.numbers(decimal)


def _as_number_or_truth(cell: Any, decimal: DecimalSign) -> float:
    return float(cell) if isinstance(cell, bool) else as_number(cell, decimal)


def _as_written(cells: Cells, row: int) -> Any:
    return cells.take(slice(row, row + 1)).tolist()[0]


def is_index_title(title: str) -> bool:
    """Whether pandas calls an index without a name so."""
    return title in ("", "Unnamed: 0") or title.startswith("__index_level_")


# --- from a file to cells ---------------------------------------------------------------------------------------------


def read_cells(table: Table, decimal: DecimalSign, wanted: Sequence[str] | None = None) -> CellTable:
    """Read an open table with a header, cut down to some columns."""
    titles = table.names if wanted is None else tuple(wanted)
    batches = list(table.batches([table.names.index(title) for title in titles]))
    lines = np.concatenate([np.empty(0, int), *(batch.lines for batch in batches)])
    # (batches, columns) -> columns
    columns = [join_cells([batch.columns[c] for batch in batches]) for c in range(len(titles))]
    widths = np.full(len(lines), len(titles))
    return CellTable(table.title, table.unit, titles, columns, lines, widths, decimal)


def read_loose_cells(path: Path, files: FileOptions, titles: Sequence[str] = ()) -> CellTable:
    """Read a table of which text may lack a header and may have rows of different lengths, as series often come.

    A first row that holds one of `titles` is a header in any case.
    """
    if path.suffix.lower() not in _TEXT_ENDINGS:
        with open_table(str(path), files) as table:
            return replace(read_cells(table, files.decimal), title=path.name)
    rows, lines = _text_rows(path, files)
    if not rows:
        raise DataError(f"{path} must hold series, got an empty table. Check the file.")
    has_header = _is_header(rows[0], rows[1 : 1 + _ROWS_BELOW], titles, files.decimal)
    names = tuple(rows[0]) if has_header else None
    rows, lines = (rows[1:], lines[1:]) if has_header else (rows, lines)
    widths = np.array([len(row) for row in rows], int)
    columns = [cells_of(list(cells)) for cells in itertools.zip_longest(*rows)]
    if names is not None:
        # Titles above nothing, as of trailing separators, are no columns; columns without a title have none.
        names = (*names, *[""] * (len(columns) - len(names)))
        columns += [cells_of([None] * len(rows)) for _ in range(len(names) - len(columns))]
    return CellTable(path.name, "line", names, columns, np.array(lines, int), widths, files.decimal)


def _text_rows(path: Path, files: FileOptions) -> tuple[list[list[str]], list[int]]:
    """Return the rows of a text that hold anything, marks of gaps as empty cells, and their lines."""
    is_mark = gap_marks([files.gaps] if isinstance(files.gaps, str) else files.gaps)
    with open_lines(str(path), files) as lines:
        first = next((line for line in lines if line.strip()), "")
        # Where there are semicolons, commas are decimal signs.
        separator = ";" if ";" in first else max(_SEPARATORS, key=first.count)
        if separator not in first and first.split():
            separator = " "
        # Strict: a quote that is never closed would otherwise swallow the rest of the file as one cell.
        reader = csv.reader(
            itertools.chain([first], _counted_singly(lines)), delimiter=separator, strict=True, skipinitialspace=True
        )
        rows = []
        row_lines = []
        for row in reader:
            if any(row):
                rows.append(["" if is_mark(cell) else cell.strip() for cell in row])
                row_lines.append(lines.number)
        return rows, row_lines


def _counted_singly(lines: CountedLines) -> Any:
    """Yield lines; each begins a count of characters of its own, which bounds a line and not the file."""
    for line in lines:
        yield line
        lines.characters = 0


def _is_header(first: list[str], following: list[list[str]], titles: Sequence[str], decimal: DecimalSign) -> bool:
    """Whether the first row holds titles: text above numbers, or times in equal steps."""

    def is_value(cell: str) -> bool:
        return not is_missing(cell) and reads(as_number, cell, decimal)

    def may_be_value(cell: str) -> bool:
        return is_missing(cell) or is_value(cell)

    def is_word(cell: str) -> bool:
        return not may_be_value(cell) and not reads(as_series_day, cell)

    if any(title in first for title in titles):
        return True
    rows = [first, *following]
    end_with_words = len(set(map(len, rows))) > 1 and not any(may_be_value(row[-1]) for row in rows)
    if not following or (end_with_words and any(map(is_value, first))):
        return False
    for column, cell in enumerate(first):
        below = [row[column] for row in following if column < len(row) and row[column]]
        if cell and is_word(cell) and below and all(map(may_be_value, below)):
            return True
    are_named = _are_names([row[0] for row in rows], decimal)
    if _are_times(first, are_named, decimal) and not all(_are_times(row, are_named, decimal) for row in following):
        return True
    return all(map(is_word, first))


def _are_names(column: Sequence[str], decimal: DecimalSign) -> bool:
    """Whether a first column, with the cell of the first row, may name the series of the rows below.

    They are texts, or, as pandas writes them under an empty title, the numbers of the rows.
    """
    title, *below = column
    if all(not is_missing(cell) and not reads(as_number, cell, decimal) for cell in below):
        # A title that comes again below is a class or a name itself.
        return title not in below and not reads(as_number, title, decimal)
    return is_missing(title) and below == [str(row) for row in range(len(below))]


def _are_times(row: Sequence[str], are_named: bool, decimal: DecimalSign) -> bool:
    """Whether a row holds titles of times: numbers in equal steps, or dates.

    They begin anywhere where the rows have names. Elsewhere a row of values might look so by chance: there only counts
    from 0 are titles, or beside some text from 0 or 1.
    """
    if any(map(is_missing, row[1:])):
        return False
    if are_named:
        dates = [as_series_day(cell) for cell in row[1:] if reads(as_series_day, cell)]
        if len(dates) == len(row) - 1 and _increase(dates):
            return True
    numbers = [as_number(cell, decimal) for cell in row if not is_missing(cell) and reads(as_number, cell, decimal)]
    if len(numbers) < _FEWEST_TITLES:
        return False
    if are_named:
        return _increase(numbers) and bool(np.allclose(np.diff(numbers), numbers[1] - numbers[0], rtol=_EVEN, atol=0))
    has_text = len(numbers) < len(row) - is_missing(row[0])
    return numbers[0] in ((0, 1) if has_text else (0,)) and bool(np.all(np.diff(numbers) == 1))


def _increase(numbers: Sequence[float]) -> bool:
    return len(numbers) >= _FEWEST_TITLES and bool(np.all(np.diff(numbers) > 0))


def without_index(table: CellTable) -> CellTable:
    """Leave out the row numbers that pandas writes into the first or last column, in any order or again and again."""
    if table.names is None:
        return table
    for column in {0, table.width - 1}:
        if not is_index_title(table.names[column]) or not table.are_values(column).all():
            continue
        numbers = table.numbers[column]
        steps = np.diff(numbers, prepend=-1)
        restarts = bool(np.all((steps == 1) | (numbers == 0)))
        if restarts or np.array_equal(np.sort(numbers), np.arange(len(table))):
            return table.without_column(column)
    return table


# --- one row per series and time --------------------------------------------------------------------------------------


class LongSeries(NamedTuple):
    """The series of a long table: their names in the order of their first rows, and of each the rows that hold it."""

    names: tuple[str, ...]
    rows: list[IntArray]


def split_by_series(series_of_row: Sequence[str]) -> LongSeries:
    """Return which rows each series of a long table has, from the name of the series in each row (n,)."""
    names, first, codes = np.unique(
        np.asarray(series_of_row, dtype=object).astype(str), return_index=True, return_inverse=True
    )
    by_row = np.argsort(codes, kind="stable")
    rows = np.split(by_row, np.cumsum(np.bincount(codes, minlength=len(names)))[:-1])
    order = np.argsort(first)
    return LongSeries(tuple(str(names[k]) for k in order), [rows[k] for k in order])
