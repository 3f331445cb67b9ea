"""Collections of series from files and folders: tables in any layout, arrays, and aeon's format."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray
from condcs._core.errors import CondcsError, DataError, ShapeError
from condcs._core.printable import counted
from condcs._tables.cells import as_day, as_number, gap_marks, is_missing, label_of, reads
from condcs._tables.sources import FileOptions, open_table
from condcs.causal._series import grid_indices, on_grid
from condcs.datasets._npz_files import read_array, read_arrays

Axes = Literal["nct", "ntc"]
"""Order of the axes of an array: n series, c channels, t times."""

Layout = Literal["auto", "rows", "columns", "long", "nct", "ntc"]
"""Where series are: in a table one per row, one per column, or one row per series and time; in an array its axes."""

TEXT_ENDINGS = (".csv", ".tsv", ".txt")
TABLE_ENDINGS = (*TEXT_ENDINGS, ".parquet", ".pq", ".arrow", ".feather", ".jsonl", ".ndjson", ".xlsx")
ENDINGS = (*TABLE_ENDINGS, ".npy", ".npz", ".ts")

NO_LABELS = "none"
"""Value of ``--labels`` that keeps every column as values."""

TIME_TITLES = ("time", "timestamp", "date", "datetime", "ds")
"""Titles, in small letters, of columns that hold times and nothing else."""

_SEPARATORS = ",;\t|"
_IDS = ("id", "series", "series_id", "unique_id", "unit", "subject", "item", "case", "name")
_TIMES = (*TIME_TITLES, "t", "step", "index", "")
_COUNTED_TIMES = ("t", "step", "year", "quarter", "month", "week", "day", "hour", "minute", "second", "period", "tick")
"""Titles of columns of numbers that tell the time of each row of a long table."""

_SHORTEST = 3
"""Rows that each series of a table must have for it to be recognised as a long one: `read_series` needs 3 times."""

_CLASSES = ("class", "label", "labels", "target", "y", "kind", "group")
# A column of whole numbers beside values that are not: so many different ones still look like classes.
_MOST_CLASSES = 60


@dataclass(frozen=True)
class SeriesOptions:
    """How series are read.

    Attributes
    ----------
    layout : {"auto", "rows", "columns", "long", "nct", "ntc"}
        Where the series of a table are, or the order of the axes of an array.
    labels : str, optional
        Column with classes: its name, or its number counted from 1; "none" for no such column.
    id, time : str, optional
        Columns of a long table, or the time column of series in columns.
    files : FileOptions
        How tables are read.
    """

    layout: Layout = "auto"
    labels: str | None = None
    id: str | None = None
    time: str | None = None
    files: FileOptions = field(default_factory=FileOptions)

    @property
    def axes(self) -> Axes:
        """Order of the axes of an array."""
        return "ntc" if self.layout == "ntc" else "nct"


@dataclass(frozen=True, eq=False)
class SeriesFile:
    """Series of a file or folder.

    Attributes
    ----------
    X : list of arrays, shape (channels, times)
        The series; NaN marks gaps.
    labels : array of str or None
        Known classes.
    names : tuple of str
        Names of the series; empty if they have none.
    how : str
        How the file was understood.
    title : str
        Name of the file.
    """

    X: list[FloatArray]
    labels: AnyArray | None = None
    names: tuple[str, ...] = ()
    how: str = ""
    title: str = ""

    @property
    def channels(self) -> int:
        """Number of channels of the first series."""
        return len(self.X[0])

    @property
    def lengths(self) -> list[int]:
        """Number of time points of each series."""
        return [series.shape[1] for series in self.X]

    def summary(self) -> str:
        """Say what was read: sizes, gaps, and where it was found."""
        short, long = min(self.lengths), max(self.lengths)
        times = f"{short:,}" if short == long else f"{short:,} to {long:,}"
        words = f"{len(self.X):,} series of {times} time points"
        if self.channels > 1:
            words += f", {self.channels:,} channels"
        gaps = sum(int(np.isnan(series).sum()) for series in self.X)
        parts = [words, self.how, f"{counted(gaps, 'value')} missing" if gaps else ""]
        return "; ".join(part for part in parts if part)


@dataclass(frozen=True)
class _Cells:
    """A table in memory: its header, if it has one, and its rows, each with the number of its line."""

    title: str
    names: tuple[str, ...] | None
    rows: list[Sequence[Any]]
    lines: list[int]

    @property
    def width(self) -> int:
        return max(map(len, self.rows), default=0)

    def column(self, c: int) -> list[Any]:
        return [row[c] if c < len(row) else None for row in self.rows]

    def place(self, option: str, name: str) -> int:
        """Return the index of a column given by its name or its number."""
        titles = self.names or ()
        if name in titles:
            return titles.index(name)
        if name.isdecimal() and 1 <= int(name) <= self.width:
            return int(name) - 1
        known = f" It has the columns {', '.join(titles[:6])}." if titles else " It has no header."
        raise DataError(
            f"`{option}` must be the title of a column of {self.title} or its number from 1 to {self.width}, got "
            f"{name!r}.{known}"
        )

    def named(self, known: Sequence[str]) -> int | None:
        """Return the index of the first column whose title is one of the known words."""
        titles = ["" if _is_index(name) else name.strip().lower() for name in self.names or ()]
        return next((titles.index(word) for word in known if word in titles), None)

    def says(self, c: int) -> str:
        return f"{self.names[c]!r}" if self.names and c < len(self.names) and self.names[c] else f"column {c + 1}"


def read_series(path: Path, options: SeriesOptions | None = None) -> SeriesFile:
    """Read a collection of series; the ending of the name says how.

    Parameters
    ----------
    path : Path
        A table (csv, tsv, parquet, arrow, jsonl, xlsx): series in rows, whose lengths may differ, in columns, or one
        row per series and time; an array (.npy; .npz with ``X`` and perhaps ``y``, or one array per series) of shape
        (series, times) or with three axes; aeon's .ts; or a folder with one file per series, whose subfolders, if
        there are any, are the classes.
    options : SeriesOptions
        How they are read.
    """
    options = options or SeriesOptions()
    if not path.exists():
        raise DataError(f"`FILE` must be an existing file or folder, got {path}. Check the path.")
    ending = path.suffix.lower()
    is_table = ending in TABLE_ENDINGS and not path.is_dir()
    if ending not in ENDINGS and not path.is_dir():
        raise DataError(f"`FILE` must be a folder or end in one of {', '.join(ENDINGS)}, got {path.name!r}.")
    if options.labels not in (None, NO_LABELS) and not is_table:
        raise DataError(
            "`--labels` names a column of a table; arrays and .ts files bring their labels along, those of a folder "
            "are its subfolders. Leave it out."
        )
    fitting = ("auto", "rows", "columns", "long") if is_table else ("auto", "nct", "ntc")
    if options.layout not in fitting:
        what = "a table" if is_table else "a folder or an array"
        raise DataError(f"`--layout` must be {', '.join(fitting)} for {what}, got {options.layout!r}. Leave it out.")
    found = _from_folder(path, options) if path.is_dir() else _from_file(path, options)
    X = found.X
    names = found.names or tuple(f"number {i + 1}" for i in range(len(X)))
    for name, series in zip(names, X, strict=True):
        if series.ndim != 2 or 0 in series.shape or np.isnan(series).all():
            raise ShapeError(f"{path} must hold values of every series, got none of series {name}. Leave it out.")
        if len(series) != len(X[0]):
            raise ShapeError(
                f"{path} must have the same channels in every series, got {len(X[0])} in {names[0]} and {len(series)} "
                f"in {name}. Leave out what is not common to all, or pass --layout ntc for arrays (times, channels)."
            )
    if len(X) < 3:
        remedy = "Name the array X" if path.suffix.lower() == ".npz" else "If they lie otherwise, see --layout"
        raise ShapeError(
            f"{path} must hold at least 3 series, got {len(X)} ({found.how or 'one per row'}). {remedy}, or pass more."
        )
    return replace(found, title=path.name or str(path))


def _from_file(path: Path, options: SeriesOptions) -> SeriesFile:
    ending = path.suffix.lower()
    try:
        if ending == ".ts":
            return _from_ts(path)
        if ending in (".npy", ".npz"):
            return _from_arrays(path, options.axes)
        return _from_table(_cells(path, options), options)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} could not be read: {error}. Check the file.") from error


# --- tables -----------------------------------------------------------------------------------------------------------


def _cells(path: Path, options: SeriesOptions) -> _Cells:
    """Read a table. Text may lack a header, and its rows may differ in length: series often come like that."""
    plain = _plain(options.files)
    if path.suffix.lower() not in TEXT_ENDINGS:
        with open_table(str(path), options.files) as table:
            batches = list(table.batches(range(len(table.names))))
        rows: list[Sequence[Any]] = [[plain(cell) for cell in row] for batch in batches for row in batch]
        lines = [line for batch in batches for line in batch.lines]
        return _without_index(_Cells(path.name, table.names, rows, lines), options)
    encoding = "utf-8-sig" if options.files.encoding == "utf-8" else options.files.encoding
    with path.open(newline="", encoding=encoding) as file:
        first = next((line for line in file if line.strip()), "")
        file.seek(0)
        # Where there are semicolons, commas are decimal signs.
        separator = ";" if ";" in first else max(_SEPARATORS, key=first.count)
        if separator not in first and first.split():
            separator = " "
        # Strict: a quote that is never closed would otherwise swallow the rest of the file as one cell.
        reader = csv.reader(file, delimiter=separator, strict=True, skipinitialspace=True)
        kept = [([plain(cell.strip()) for cell in row], reader.line_num) for row in reader if any(row)]
    if not kept:
        raise DataError(f"{path} must hold series, got an empty table. Check the file.")
    names = tuple(kept[0][0]) if _is_header(kept[0][0], [row for row, _ in kept[1:6]], options) else None
    kept = kept[1:] if names is not None else kept
    return _without_index(_Cells(path.name, names, [row for row, _ in kept], [line for _, line in kept]), options)


def _plain(files: FileOptions) -> Callable[[Any], Any]:
    """Return what makes a cell empty if it is a mark of a gap, and gives numbers decimal points."""
    is_gap = gap_marks([files.gaps] if isinstance(files.gaps, str) else files.gaps)

    def plain(cell: Any) -> Any:
        if is_gap(cell):
            return ""
        commas = files.decimal == "," and isinstance(cell, str) and reads(as_number, cell, ",")
        return cell.replace(",", ".") if commas else cell

    return plain


def _without_index(cells: _Cells, options: SeriesOptions) -> _Cells:
    """Leave out the row numbers that pandas writes into the first or last column, in any order or again and again."""
    if cells.names is None or any(given and given.isdecimal() for given in (options.labels, options.id, options.time)):
        return cells
    for c in {0, len(cells.names) - 1}:
        numbers = [as_number(cell) for cell in cells.column(c) if _is_index(cells.names[c]) and _is_value(cell)]
        restart = all(b in (0, a + 1) for a, b in itertools.pairwise([-1, *numbers]))
        if len(numbers) == len(cells.rows) and (restart or sorted(numbers) == list(range(len(numbers)))):
            rows: list[Sequence[Any]] = [[*row[:c], *row[c + 1 :]] for row in cells.rows]
            return _Cells(cells.title, cells.names[:c] + cells.names[c + 1 :], rows, cells.lines)
    return cells


def _is_index(name: str) -> bool:
    """Whether pandas calls an index without a name so."""
    return name in ("", "Unnamed: 0") or name.startswith("__index_level_")


def _is_header(first: list[str], following: list[list[str]], options: SeriesOptions) -> bool:
    """Whether the first row holds titles: text above numbers, or times that are counted through."""
    if any(given is not None and given in first for given in (options.labels, options.id, options.time)):
        return True
    if not following or (_end_with_words([first, *following]) and any(map(_is_value, first))):
        return False
    for c, cell in enumerate(first):
        below = [row[c] for row in following if c < len(row) and row[c]]
        if cell and not _is_number(cell) and not _is_day(cell) and below and all(map(_is_number, below)):
            return True
    return (_counts(first) and not all(map(_counts, following))) or all(
        not _is_number(c) and not _is_day(c) for c in first
    )


def _counts(row: Sequence[str]) -> bool:
    """Whether a row counts through from 0, or beside some text from 0 or 1, as titles of times do."""
    numbers = [as_number(cell) for cell in row if _is_value(cell)]
    starts = (0,) if all(map(_is_number, row)) else (0, 1)
    counted = len(numbers) > 2 and numbers == [numbers[0] + i for i in range(len(numbers))] and numbers[0] in starts
    return counted and not any(map(is_missing, row[1:]))


def _from_table(cells: _Cells, options: SeriesOptions) -> SeriesFile:
    layout = _layout(cells, options) if options.layout == "auto" else options.layout
    readers: dict[str, Callable[[_Cells, SeriesOptions], SeriesFile]]
    readers = {"rows": _rows, "columns": _columns, "long": _long}
    return readers[layout](cells, options)


def _layout(cells: _Cells, options: SeriesOptions) -> Layout:
    if options.id is not None or _long_columns(cells, options) is not None:
        return "long"
    time = cells.place("--time", options.time) if options.time is not None else cells.named(_TIMES)
    if options.time is not None or (time is not None and _tell_time(cells.column(time))):
        return "columns"
    dates = cells.named(TIME_TITLES)
    if dates is not None and not all(_is_number(cell) or _is_day(cell) for cell in cells.column(dates)):
        # Times that cannot be read: saying so is better than taking them for the names of series.
        return "columns"
    # Without any other sign: a titled table much longer than wide has times below one another.
    if cells.names is not None and options.labels is None and cells.named(_CLASSES) is None:
        return "columns" if len(cells.rows) > 3 * cells.width and _all_numbers(cells) else "rows"
    return "rows"


@dataclass(frozen=True)
class _LongColumns:
    """The columns of a long table that tell its series and times; whether only what they hold says so, or a title."""

    series: int
    time: int | None
    by_content: bool


def _long_columns(cells: _Cells, options: SeriesOptions) -> _LongColumns | None:
    """Return the columns that make a table a long one, with a row per series and time; None if it is none."""
    time = cells.place("--time", options.time) if options.time is not None else cells.named(_TIMES)
    titled = cells.named(_IDS)
    if titled is not None and len({label_of(cell) for cell in cells.column(titled)}) < len(cells.rows):
        return _LongColumns(titled, time, by_content=False)
    if cells.names is None:
        return None
    named = [time] if options.time is not None else [cells.named(TIME_TITLES), cells.named(_COUNTED_TIMES)]
    # Numbers are dates in no calendar: only a title says that they are times.
    dated = [c for c in range(cells.width) if cells.rows and all(map(_is_day, cells.column(c)))]
    for clock in dict.fromkeys(c for c in (*named, *dated) if c is not None):
        times = [label_of(stamp) for stamp in cells.column(clock)]
        if len(set(times)) == len(times):
            continue
        owners = [c for c in range(cells.width) if c != clock and _owns_rows(cells, c, clock, times)]
        # Words before codes, and of these the one with fewest values: (value, time) can be unique, too.
        numeric = {c: _numeric(cells.column(c)) for c in owners}
        owners.sort(key=lambda c: (numeric[c], len(set(map(label_of, cells.column(c)))), c))
        if owners:
            return _LongColumns(owners[0], clock, by_content=True)
    return None


def _owns_rows(cells: _Cells, c: int, clock: int, times: Sequence[str]) -> bool:
    """Whether a column can hold the series of a long table: each has several rows, no two of them at one time.

    There must be values beside the two columns.
    """
    column = cells.column(c)
    if any(map(is_missing, column)) or any(_is_value(cell) and not as_number(cell).is_integer() for cell in column):
        return False
    names = [label_of(cell) for cell in column]
    rows_each = Counter(names)
    if len(rows_each) < 2 or min(rows_each.values()) < _SHORTEST:
        return False
    if len(set(zip(names, times, strict=True))) < len(times):
        return False
    return any(d not in (c, clock) and _numeric(cells.column(d)) for d in range(cells.width))


def _rows(cells: _Cells, options: SeriesOptions) -> SeriesFile:
    cells = _aligned(cells)
    label, name, told = _special_columns(cells, options)
    if cells.names is None and label is None and len(cells.rows) > 3 * cells.width:
        told += " (or --layout columns)"
    aside = {c for c in (label, name) if c is not None}
    X = []
    for row, line in zip(cells.rows, cells.lines, strict=True):
        kept = [cell for c, cell in enumerate(row) if c not in aside]
        while kept and is_missing(kept[-1]):
            kept.pop()
        X.append(_numbers(kept, cells.title, line)[None])
    classes = None if label is None else np.array([_class_of(cell) for cell in cells.column(label)])
    names = () if name is None else tuple(label_of(cell) for cell in cells.column(name))
    return SeriesFile(X, classes, names, f"one per row{told}")


def _aligned(cells: _Cells) -> _Cells:
    """Return rows of different lengths that all end with a word, their class, with the word in a column of its own."""
    if not _end_with_words(cells.rows):
        return cells
    rows: list[Sequence[Any]] = [[*row[:-1], *[None] * (cells.width - len(row)), row[-1]] for row in cells.rows]
    return _Cells(cells.title, cells.names, rows, cells.lines)


def _end_with_words(rows: Sequence[Sequence[Any]]) -> bool:
    return len({len(row) for row in rows}) > 1 and all(len(row) > 0 and not _is_number(row[-1]) for row in rows)


def _special_columns(cells: _Cells, options: SeriesOptions) -> tuple[int | None, int | None, str]:
    """Find the columns of classes and of names among series in rows, and say so."""
    # Columns of words alone: a word among numbers is a mistake.
    texts = [c for c in range(cells.width) if not any(map(_is_value, cells.column(c)))]
    texts = [c for c in texts if not _numeric(cells.column(c))]
    kinds = {c: len({label_of(v) for v in cells.column(c)}) for c in texts}
    label, noticed = None, False
    if options.labels is not None and options.labels != NO_LABELS:
        label = cells.place("--labels", options.labels)
    elif options.labels is None:
        repeated = next((c for c in texts if kinds[c] < len(cells.rows)), None)
        titled = cells.named(_CLASSES)
        label = next((c for c in (repeated, titled, _coded_column(cells)) if c is not None), None)
        noticed = label is not None
    names = (c for c in (*texts, cells.named(_IDS)) if c not in (label, None))
    name = next((c for c in names if len({label_of(v) for v in cells.column(c)}) == len(cells.rows)), None)
    told = f", classes in {cells.says(label)}" if label is not None else ""
    told += f", names in {cells.says(name)}" if name is not None else ""
    return label, name, told + (" (or --labels none)" if noticed else "")


def _coded_column(cells: _Cells) -> int | None:
    """Return the first or last column if it alone holds few different whole numbers: classes without a name."""
    for c in (0, cells.width - 1):
        values = [as_number(v) for v in cells.column(c) if _is_value(v)]
        others = [as_number(v) for row in cells.rows for d, v in enumerate(row) if d != c and _is_value(v)]
        whole = len(values) == len(cells.rows) and all(v == int(v) for v in values)
        few = 2 <= len(set(values)) <= min(_MOST_CLASSES, len(values) // 2)
        # Most of the other values must not be whole: else these are counts like all the rest.
        if whole and few and sum(v != int(v) for v in others) > len(others) / 2:
            return c
    return None


def _columns(cells: _Cells, options: SeriesOptions) -> SeriesFile:
    if options.labels not in (None, NO_LABELS):
        raise DataError(
            f"`--labels` names a column of classes, but {cells.title} was read with a series per column. Leave it out, "
            "or pass --layout rows, or long with --id."
        )
    table, places, time = _values_by_time(cells, options)
    names = tuple(cells.names[c] if cells.names else f"column {c + 1}" for c in places)
    told = f", times in {cells.says(time)}" if time is not None else ""
    return SeriesFile([_trimmed(values[None]) for values in table], None, names, f"one per column{told}")


def _values_by_time(cells: _Cells, options: SeriesOptions) -> tuple[FloatArray, list[int], int | None]:
    """Return the columns of values (columns, times) in the order of time, their places, and that of the times."""
    time = cells.place("--time", options.time) if options.time is not None else cells.named(_TIMES)
    # Numbers without an order are values; words are times that cannot be read.
    if (
        options.time is None
        and time is not None
        and _numeric(cells.column(time))
        and not _tell_time(cells.column(time))
    ):
        time = None
    times = _times(cells, time)
    places = [c for c in range(cells.width) if c != time]
    return _in_time(np.stack([_column_numbers(cells, c) for c in places]), times), places, time


def _trimmed(series: FloatArray) -> FloatArray:
    """Cut off the times before the first value and after the last: shorter series are padded with empty cells."""
    present = np.flatnonzero(~np.isnan(series).all(axis=0))
    return series[:, present[0] : present[-1] + 1] if len(present) else series


def _long(cells: _Cells, options: SeriesOptions) -> SeriesFile:
    found = None if options.id is not None else _long_columns(cells, options)
    titled = cells.named(_IDS)
    time = cells.place("--time", options.time) if options.time is not None else cells.named(_TIMES)
    if options.id is not None:
        series = cells.place("--id", options.id)
    elif found is not None:
        series, time = found.series, found.time
    elif titled is not None:
        series = titled
    else:
        raise DataError(f"`--id` must name the column of {cells.title} that tells series apart. Pass e.g. --id id.")
    owners = np.array([label_of(cell) for cell in cells.column(series)])
    label, noticed = None, ""
    if options.labels is not None and options.labels != NO_LABELS:
        label = cells.place("--labels", options.labels)
    elif options.labels is None:
        others = (c for c in range(cells.width) if c not in (series, time))
        words = next((c for c in others if _are_classes(cells.column(c), owners)), None)
        titled = cells.named([word for word in _CLASSES if word != "y"])
        label = words if titled is None else titled
        noticed = "" if label is None else " (or --labels none)"
    values = [c for c in range(cells.width) if c not in (series, time, label) and not _numbers_rows(cells, c)]
    if not values:
        raise DataError(f"{cells.title} must have a column of values beside the series and times. Check its columns.")
    times = _times(cells, time)
    table = np.stack([_column_numbers(cells, c) for c in values])
    names = tuple(dict.fromkeys(owners.tolist()))
    own = [owners == name for name in names]
    X = [_in_time(table[:, rows], None if times is None else times[rows]) for rows in own]
    classes = None
    if label is not None:
        of = dict(zip(owners.tolist(), map(label_of, cells.column(label)), strict=True))
        classes = np.array([of[name] for name in names])
    told = f", times in {cells.says(time)}" if time is not None else ""
    again = 0 if times is None else len(times) - len(set(zip(owners.tolist(), times.tolist(), strict=True)))
    told += " (or --id and --time, or --layout)" if found is not None and found.by_content else ""
    told += f" ({counted(again, 'row')} with a time that the series already has)" if again else ""
    told += f", classes in {cells.says(label)}{noticed}" if label is not None else ""
    return SeriesFile(X, classes, names, f"one row per time, series in {cells.says(series)}{told}")


def _numbers_rows(cells: _Cells, c: int) -> bool:
    """Whether a column without a title holds what pandas leaves of the numbers of rows: whole ones, each once."""
    column = cells.column(c)
    if not (cells.names and c < len(cells.names) and _is_index(cells.names[c]) and all(map(_is_value, column))):
        return False
    numbers = [as_number(cell) for cell in column]
    return len(set(numbers)) == len(numbers) and all(number.is_integer() for number in numbers)


def _are_classes(column: Sequence[Any], owners: AnyArray) -> bool:
    """Whether a column of a long table holds words alone, the same one for all times of a series."""
    if any(map(_is_value, column)) or all(map(is_missing, column)):
        return False
    return len(set(zip(owners.tolist(), map(label_of, column), strict=True))) == len(set(owners.tolist()))


def _times(cells: _Cells, time: int | None) -> FloatArray | None:
    """Return the times of the rows as numbers, None without a column of them."""
    if time is None:
        return None
    stamps = cells.column(time)
    read = as_number if all(map(_is_value, stamps)) else as_day
    bad = next((i for i, stamp in enumerate(stamps) if not reads(read, stamp)), None)
    if bad is not None:
        raise DataError(
            f"The times in {cells.says(time)} of {cells.title} must be numbers or ISO dates, got {stamps[bad]!r} in "
            f"line {cells.lines[bad]}. Write dates as 2026-01-31 or 2026-01-31 18:00; if the column names series, pass "
            "--layout rows."
        )
    return np.array([read(stamp) for stamp in stamps])


def _in_time(values: FloatArray, times: FloatArray | None) -> FloatArray:
    """Return values (channels, times) in the order of time, NaN where rows are absent.

    Times that fit no grid of equal steps, or that are repeated, say nothing of absent rows.
    """
    if times is None:
        return np.ascontiguousarray(values)
    order = np.argsort(times, kind="stable")
    values, times = np.ascontiguousarray(values[:, order]), times[order]
    if not np.all(np.diff(times) > 0):
        return values
    try:
        return np.ascontiguousarray(on_grid(grid_indices(times, "The series"), values.T).T)
    except DataError:
        return values


def _column_numbers(cells: _Cells, c: int) -> FloatArray:
    values = cells.column(c)
    bad = next((i for i, cell in enumerate(values) if not _is_number(cell)), None)
    if bad is not None:
        raise DataError(
            f"{cells.title} must hold numbers, got {values[bad]!r} in line {cells.lines[bad]}, {cells.says(c)}. "
            f"{_remedy(values[bad])}"
        )
    return np.array([np.nan if is_missing(cell) else as_number(cell) for cell in values])


def _numbers(row: Sequence[Any], title: str, line: int) -> FloatArray:
    bad = next((cell for cell in row if not _is_number(cell)), None)
    if bad is not None:
        raise DataError(f"{title} must hold numbers, got {bad!r} in line {line}. {_remedy(bad)}")
    return np.array([np.nan if is_missing(cell) else as_number(cell) for cell in row])


def _remedy(cell: Any) -> str:
    """Say what can be done about a cell that is not a number."""
    if reads(as_number, cell, ","):
        return "Pass --decimal , for decimal commas."
    return (
        "Name columns that hold something else with --labels, --id or --time (a title, or a number counted from 1), "
        "texts that mean a missing value with --gaps, or leave the column out of the file."
    )


def _is_number(cell: Any) -> bool:
    return is_missing(cell) or reads(as_number, cell)


def _is_value(cell: Any) -> bool:
    return not is_missing(cell) and reads(as_number, cell)


def _class_of(cell: Any) -> str:
    # Codes are often written with the digits of the values beside them.
    return f"{as_number(cell):.0f}" if _is_value(cell) and as_number(cell).is_integer() else label_of(cell)


def _is_day(cell: Any) -> bool:
    return reads(as_day, cell)


def _numeric(column: Sequence[Any]) -> bool:
    return all(map(_is_number, column))


def _all_numbers(cells: _Cells) -> bool:
    return all(_numeric(row) for row in cells.rows[:50])


def _tell_time(column: Sequence[Any]) -> bool:
    """Whether a column holds times, each once: numbers that only grow or only fall, or dates in any order."""
    if all(reads(as_number, cell) for cell in column):
        steps = np.diff([as_number(cell) for cell in column])
        return bool(np.all(steps > 0) or np.all(steps < 0))
    return all(map(_is_day, column)) and len({as_day(cell) for cell in column}) == len(column)


# --- arrays, folders and .ts ------------------------------------------------------------------------------------------


def _from_arrays(path: Path, axes: Axes) -> SeriesFile:
    if path.suffix.lower() == ".npy":
        return _from_array(read_array(path), None, None, path.name, axes)
    arrays = read_arrays(path)
    if "X" in arrays:
        return _from_array(arrays["X"], arrays.get("y"), arrays.get("classes"), f"array 'X' in {path.name}", axes)
    if not arrays or any(a.ndim not in (1, 2) or a.dtype.kind not in "fiub" for a in arrays.values()):
        raise DataError(
            f"{path} must hold an array X, or one array per series, got {', '.join(sorted(arrays)) or 'nothing'}. "
            "Save it again, e.g. with np.savez(path, X=series)."
        )
    X = [_one_series(array, axes) for array in arrays.values()]
    return SeriesFile(X, None, tuple(arrays), "one per array of the file")


def _from_array(X: AnyArray, y: AnyArray | None, classes: AnyArray | None, title: str, axes: Axes) -> SeriesFile:
    if X.dtype.kind not in "fiub" or X.ndim not in (2, 3) or 0 in X.shape:
        raise ShapeError(
            f"{title} must hold numbers of shape (series, times) or with three axes, got {X.dtype} of shape {X.shape}. "
            "Reshape it."
        )
    channels, times = (X.shape[1:] if axes == "nct" else X.shape[:0:-1]) if X.ndim == 3 else (1, X.shape[1])
    if times < 3 <= channels:
        other = "ntc" if axes == "nct" else "nct"
        raise ShapeError(
            f"{title} must hold at least 3 times, got {times} (and {channels} channels) in shape {X.shape} with "
            f"--layout {axes}. Pass --layout {other} if the axes are the other way round."
        )
    if y is not None and y.shape != (len(X),):
        raise ShapeError(
            f"array 'y' beside {title} must hold a label for each of {len(X)} series, got shape {y.shape}."
        )
    names = classes
    if y is not None and names is not None and names.ndim == 1 and y.dtype.kind in "iu":
        y = names[y] if y.min() >= 0 and y.max() < len(names) else y
    words = {"nct": "(series, channels, times)", "ntc": "(series, times, channels)"}[axes]
    how = f"axes {words}" if X.ndim == 3 else "axes (series, times)"
    if X.ndim == 3 and axes == "nct" and X.shape[1] > X.shape[2]:
        how += f", though {X.shape[1]} channels at {X.shape[2]} times is unusual (--layout ntc if it is the reverse)"
    return SeriesFile([_one_series(series, axes) for series in X], None if y is None else y.astype(str), (), how)


def _one_series(array: AnyArray, axes: Axes) -> FloatArray:
    values = np.asarray(array, dtype=float)
    return values[None] if values.ndim == 1 else values if axes == "nct" else values.T


def _from_folder(path: Path, options: SeriesOptions) -> SeriesFile:
    """Read one series per file; a folder of folders has its classes in their names."""
    endings = tuple(e for e in ENDINGS if e not in (".npz", ".ts"))
    files = sorted(f for f in path.rglob("*") if f.is_file() and f.suffix.lower() in endings)
    if not files:
        raise DataError(f"{path} must hold a file for each series ({', '.join(endings)}), got none. Check the folder.")
    X: list[FloatArray] = []
    for file in files:
        if file.suffix.lower() == ".npy":
            array = read_array(file)
            if array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
                raise ShapeError(f"{file} must hold one series, an array with one or two axes, got {array.shape}.")
            X.append(_one_series(array, options.axes))
            continue
        try:
            X.append(_trimmed(_values_by_time(_cells(file, options), options)[0]))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{file} could not be read: {error}. Check the file.") from error
        except DataError as error:
            raise DataError(f"{error} If {file.name} is not a series, move it out of the folder.") from error
    parents = [file.parent.relative_to(path).as_posix() for file in files]
    classes = np.array(parents) if len(set(parents)) > 1 and "." not in parents else None
    how = "one per file" + (", classes are the folders" if classes is not None else "")
    return SeriesFile(X, classes, tuple(file.relative_to(path).as_posix() for file in files), how)


def _from_ts(path: Path) -> SeriesFile:
    try:
        from aeon.datasets import load_from_ts_file
    except ModuleNotFoundError as error:
        raise CondcsError(
            "Reading .ts files needs the package aeon, which is not installed. "
            "Install it with: pip install 'condcs[timeseries]'."
        ) from error
    try:
        content = load_from_ts_file(str(path))
    except CondcsError:
        raise
    except Exception as error:
        # aeon's reader raises whatever its parsing meets.
        raise DataError(f"{path} must be a .ts file that aeon can read: {error}. Check the file.") from error
    X, y = content if isinstance(content, tuple) else (content, None)
    labels = np.array([str(label) for label in y]) if y is not None and len(y) == len(X) else None
    return SeriesFile([np.asarray(series, dtype=float) for series in X], labels)
