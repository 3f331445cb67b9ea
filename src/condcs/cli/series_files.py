"""Collections of series from files and folders: tables in any layout, arrays, and aeon's format.

`read_series` is the function to read first. What cells of a table mean is the subject of `series_cells`; here it is
decided which of them are series, in rows, in columns or in a long table, and which are names, times and classes.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray
from condcs._core.errors import CondcsError, DataError, ShapeError
from condcs._core.printable import counted
from condcs._tables.cells import cells_of
from condcs.causal._series import grid_indices, on_grid
from condcs.cli.series_cells import (
    ID_TITLES,
    TIME_TITLES,
    CellTable,
    FileLayout,
    NumberPart,
    SeriesOptions,
    Times,
    is_index_title,
    read_loose_cells,
    split_by_series,
    without_index,
)
from condcs.datasets._npz_files import read_array, read_arrays
from condcs.timeseries._collection import AxisOrder

TABLE_ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".arrow", ".feather", ".jsonl", ".ndjson", ".xlsx")
SERIES_ENDINGS = (*TABLE_ENDINGS, ".npy", ".npz", ".ts")

NO_LABELS = "none"
"""Value of ``--labels`` that keeps every column as values."""

_TIMES = (*TIME_TITLES, "t", "step", "index", "")
_COUNTED_TIMES = ("t", "step", "year", "quarter", "month", "week", "day", "hour", "minute", "second", "period", "tick")
"""Titles of columns of numbers that tell the time of each row of a long table."""

_CLASSES = ("class", "label", "labels", "target", "y", "kind", "group")

_SHORTEST = 3
"""Rows that each series of a table must have for it to be recognised as a long one: `read_series` needs 3 times."""

_MOST_CLASSES = 60
"""So many different whole numbers beside values that are not whole still look like classes: the sets of the UCR archive
have up to 60 classes; more are counts or numbers of rows."""

_LONG_AND_NARROW = 3
"""A titled table with more rows than so many times its columns has times below one another: collections with a series
per row, as in the UCR archive, hardly ever have three times as many series as times."""


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
    if ending not in SERIES_ENDINGS and not path.is_dir():
        raise DataError(f"`FILE` must be a folder or end in one of {', '.join(SERIES_ENDINGS)}, got {path.name!r}.")
    if options.labels not in (None, NO_LABELS) and not is_table:
        raise DataError(
            "`--labels` names a column of a table; arrays and .ts files bring their labels along, those of a folder "
            "are its subfolders. Leave it out."
        )
    allowed = ("auto", "rows", "columns", "long") if is_table else ("auto", "nct", "ntc")
    if options.layout not in allowed:
        what = "a table" if is_table else "a folder or an array"
        raise DataError(f"`--layout` must be {', '.join(allowed)} for {what}, got {options.layout!r}. Leave it out.")
    collection = _from_folder(path, options) if path.is_dir() else _from_file(path, options)
    X = collection.X
    names = collection.names or tuple(f"number {i + 1}" for i in range(len(X)))
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
        how = collection.how or "one per row"
        raise ShapeError(f"{path} must hold at least 3 series, got {len(X)} ({how}). {remedy}, or pass more.")
    return replace(collection, title=path.name or str(path))


def _from_file(path: Path, options: SeriesOptions) -> SeriesFile:
    ending = path.suffix.lower()
    try:
        if ending == ".ts":
            return _from_ts(path)
        if ending in (".npy", ".npz"):
            return _from_arrays(path, _axes(options))
        return _from_table(_cells(path, options), options)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} could not be read: {error}. Check the file.") from error


# --- tables -----------------------------------------------------------------------------------------------------------


def _cells(path: Path, options: SeriesOptions) -> CellTable:
    """Read the cells of a table, without row numbers unless columns are given by number."""
    special = [title for title in (options.labels, options.id, options.time) if title is not None]
    table = read_loose_cells(path, options.files, special)
    return table if any(title.isdecimal() for title in special) else without_index(table)


def _from_table(table: CellTable, options: SeriesOptions) -> SeriesFile:
    layout = _layout(table, options) if options.layout == "auto" else options.layout
    readers: dict[str, Callable[[CellTable, SeriesOptions], SeriesFile]]
    readers = {"rows": _rows, "columns": _columns, "long": _long}
    return readers[layout](table, options)


def _layout(table: CellTable, options: SeriesOptions) -> FileLayout:
    if options.id is not None or _long_columns(table, options) is not None:
        return "long"
    if _clock(table, options) is not None:
        return "columns"
    dates = table.column_titled(TIME_TITLES)
    if dates is not None and not _may_be_times(table, dates):
        # Times that cannot be read: saying so is better than taking them for the names of series.
        return "columns"
    # Without any other sign: a titled table much longer than wide has times below one another.
    if table.names is not None and options.labels is None and table.column_titled(_CLASSES) is None:
        all_numbers = all(map(table.is_numeric, range(table.width)))
        return "columns" if len(table) > _LONG_AND_NARROW * table.width and all_numbers else "rows"
    return "rows"


def _time_column(table: CellTable, options: SeriesOptions) -> int | None:
    """Return the column of times: the one that was named, else the first whose title says so."""
    return table.index_of("--time", options.time) if options.time is not None else table.column_titled(_TIMES)


def _clock(table: CellTable, options: SeriesOptions) -> int | None:
    """Return the column that tells the times of series in columns, None if there is none.

    The one that was named; one whose title says that it holds times; one that counts years, days or the like; or else
    the first one of dates. Where titles count through, they are the times, and dates name the series.
    """
    if options.time is not None:
        return table.index_of("--time", options.time)
    titled = table.column_titled(_TIMES)
    if titled is not None and _tell_time(table, titled):
        return titled
    if table.names is None or _count_through([title for title in table.names if title.strip().isdecimal()]):
        return None
    dated = (c for c in range(table.width) if table.is_dated(c))
    candidates = [table.column_titled(_COUNTED_TIMES), next(dated, None)]
    for column in candidates:
        others = [c for c in range(table.width) if c != column]
        if column is not None and _tell_time(table, column) and all(map(table.is_numeric, others)):
            return column
    return None


def _count_through(titles: Sequence[str]) -> bool:
    """Whether titles are consecutive whole numbers, at least two."""
    numbers = [int(title) for title in titles]
    return len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _may_be_times(table: CellTable, column: int) -> bool:
    """Whether every cell of a column is a number, a date or a gap."""
    dates = np.isfinite(table.days(column))
    return bool(np.all(table.are_values(column) | dates | table.gaps[column]))


def _tell_time(table: CellTable, column: int) -> bool:
    """Whether a column holds times, each once: numbers that only grow or only fall, or dates in any order."""
    if table.are_values(column).all():
        steps = np.diff(table.numbers[column])
        return bool(np.all(steps > 0) or np.all(steps < 0))
    return table.is_dated(column) and len(np.unique(table.days(column))) == len(table)


# --- one row per series ---


def _rows(table: CellTable, options: SeriesOptions) -> SeriesFile:
    table = _aligned(table)
    label, name, note = _special_columns(table, options)
    if table.names is None and label is None and len(table) > _LONG_AND_NARROW * table.width:
        note += " (or --layout columns)"
    columns = [c for c in range(table.width) if c not in (label, name)]
    _refuse_words(table, columns, together=True)
    values = table.numbers[columns].T  # (series, times)
    # Shorter series end in empty cells; gaps within a series stay.
    present = ~table.gaps[columns].T
    lengths = np.max(present * np.arange(1, len(columns) + 1), axis=1, initial=0)
    X = [np.ascontiguousarray(row[:length])[None] for row, length in zip(values, lengths, strict=True)]
    classes = None if label is None else _classes(table, label)
    names = () if name is None else tuple(table.labels(name))
    return SeriesFile(X, classes, names, f"one per row{note}")


def _aligned(table: CellTable) -> CellTable:
    """Return rows of different lengths that all end with a word, their class, with the word in a column of its own."""
    widths = table.widths
    if len(set(widths.tolist())) < 2 or 0 in widths:
        return table
    is_number = np.array([table.are_values(c) for c in range(table.width)]) | table.gaps  # (columns, rows)
    rows = np.arange(len(table))
    if is_number[widths - 1, rows].any():
        return table
    cells = [column.tolist() for column in table.columns]
    words = [cells[width - 1][row] for row, width in enumerate(widths.tolist())]
    for row, width in enumerate(widths.tolist()):
        cells[width - 1][row] = None
    columns = [cells_of(column) for column in (*cells[:-1], words)]
    return replace(table, columns=columns, widths=np.full(len(table), table.width))


def _special_columns(table: CellTable, options: SeriesOptions) -> tuple[int | None, int | None, str]:
    """Find the columns of classes and of names among series in rows, and say so."""
    # Columns of words alone: a word among numbers is a mistake.
    word_columns = [c for c in range(table.width) if not table.are_values(c).any() and not table.is_numeric(c)]
    label, was_detected = None, False
    if options.labels is not None and options.labels != NO_LABELS:
        label = table.index_of("--labels", options.labels)
    elif options.labels is None:
        repeated = next((c for c in word_columns if len(set(table.labels(c))) < len(table)), None)
        titled = table.column_titled(_CLASSES)
        label = next((c for c in (repeated, titled, _coded_column(table)) if c is not None), None)
        was_detected = label is not None
    may_be_names = (c for c in (*word_columns, table.column_titled(ID_TITLES)) if c not in (label, None))
    name = next((c for c in may_be_names if len(set(table.labels(c))) == len(table)), None)
    note = f", classes in {table.column_words(label)}" if label is not None else ""
    note += f", names in {table.column_words(name)}" if name is not None else ""
    return label, name, note + (" (or --labels none)" if was_detected else "")


def _coded_column(table: CellTable) -> int | None:
    """Return the first or last column if it alone holds few different whole numbers: classes without a name."""
    is_value = np.array([table.are_values(c) for c in range(table.width)])  # (columns, rows)
    for column in (0, table.width - 1):
        codes = table.numbers[column]
        whole = bool(is_value[column].all()) and bool(np.all(codes == np.rint(codes)))
        few = 2 <= len(np.unique(codes)) <= min(_MOST_CLASSES, len(codes) // 2)
        if not whole or not few:
            continue
        # Most of the other values must not be whole: else these are counts like all the rest.
        elsewhere = np.delete(table.numbers, column, axis=0)[np.delete(is_value, column, axis=0)]
        if np.sum(elsewhere != np.rint(elsewhere)) > len(elsewhere) / 2:
            return column
    return None


def _classes(table: CellTable, column: int) -> AnyArray:
    """Return a column as classes (n,). Codes are often written with the digits of the values beside them."""
    codes = table.numbers[column]
    whole = table.are_values(column) & (codes == np.rint(codes))
    labels = zip(whole, codes, table.labels(column), strict=True)
    return np.array([f"{code:.0f}" if is_whole else label for is_whole, code, label in labels])


# --- one column per series ---


def _columns(table: CellTable, options: SeriesOptions) -> SeriesFile:
    if options.labels not in (None, NO_LABELS):
        raise DataError(
            f"`--labels` names a column of classes, but {table.title} was read with a series per column. Leave it out, "
            "or pass --layout rows, or long with --id."
        )
    values, columns, time = _values_by_time(table, options)
    names = tuple(table.names[c] if table.names else f"column {c + 1}" for c in columns)
    note = f", times in {table.column_words(time)}" if time is not None else ""
    by_content = options.layout == "auto" and options.time is None and time not in (None, table.column_titled(_TIMES))
    note += " (or --layout rows)" if by_content else ""
    return SeriesFile([_trimmed(series[None]) for series in values], None, names, f"one per column{note}")


def _values_by_time(table: CellTable, options: SeriesOptions) -> tuple[FloatArray, list[int], int | None]:
    """Return values (columns, times) in the order of time, the indices of their columns, and that of the times."""
    time = _clock(table, options)
    titled = table.column_titled(_TIMES)
    # A titled column of numbers without an order holds values; one of words holds times that cannot be read.
    if time is None and titled is not None and not table.is_numeric(titled):
        time = titled
    times = None if time is None else table.times(time)
    columns = [c for c in range(table.width) if c != time]
    _refuse_words(table, columns)
    return _in_time(table.numbers[columns], times), columns, time


def _trimmed(series: FloatArray) -> FloatArray:
    """Cut off the times before the first value and after the last: shorter series are padded with empty cells."""
    present = np.flatnonzero(~np.isnan(series).all(axis=0))
    return series[:, present[0] : present[-1] + 1] if len(present) else series


# --- one row per series and time ---


@dataclass(frozen=True)
class _LongColumns:
    """The columns of a long table that tell its series and times; whether only what they hold says so, or a title."""

    series: int
    time: int | None
    by_content: bool


def _long_columns(table: CellTable, options: SeriesOptions) -> _LongColumns | None:
    """Return the columns that make a table a long one, with a row per series and time; None if it is none."""
    time = _time_column(table, options)
    titled = table.column_titled(ID_TITLES)
    if titled is not None and len(set(table.labels(titled))) < len(table):
        return _LongColumns(titled, time, by_content=False)
    if table.names is None:
        return None
    clocks = (
        [time] if options.time is not None else [table.column_titled(TIME_TITLES), table.column_titled(_COUNTED_TIMES)]
    )
    # Numbers are dates in no calendar: only a title says that they are times.
    clocks += [c for c in range(table.width) if table.is_dated(c)]
    for clock in dict.fromkeys(c for c in clocks if c is not None):
        times = table.labels(clock)
        if len(set(times)) == len(times):
            continue
        candidates = [c for c in range(table.width) if c != clock and _owns_rows(table, c, clock, times)]
        # Words before codes, and of these the one with fewest values: (value, time) can be unique, too.
        candidates.sort(key=lambda c: (table.is_numeric(c), len(set(table.labels(c))), c))
        if candidates:
            return _LongColumns(candidates[0], clock, by_content=True)
    return None


def _owns_rows(table: CellTable, column: int, clock: int, times: Sequence[str]) -> bool:
    """Whether a column can hold the series of a long table: each has several rows, no two of them at one time.

    There must be values beside the two columns.
    """
    codes = table.numbers[column][table.are_values(column)]
    if table.gaps[column].any() or np.any(codes != np.rint(codes)):
        return False
    names = table.labels(column)
    rows_each = Counter(names)
    if len(rows_each) < 2 or min(rows_each.values()) < _SHORTEST:
        return False
    if len(set(zip(names, times, strict=True))) < len(times):
        return False
    return any(table.is_numeric(c) for c in range(table.width) if c not in (column, clock))


def _long(table: CellTable, options: SeriesOptions) -> SeriesFile:
    series, time, by_content = _series_and_time(table, options)
    series_of_row = table.labels(series)
    label, label_note = _label_column(table, options, series_of_row, (series, time))
    values = [c for c in range(table.width) if c not in (series, time, label) and not _numbers_rows(table, c)]
    if not values:
        raise DataError(f"{table.title} must have a column of values beside the series and times. Check its columns.")
    times = None if time is None else table.times(time)
    _refuse_words(table, values)
    names, rows_of_series = split_by_series(series_of_row)
    numbers = table.numbers[values]  # (channels, rows)
    X = [
        _in_time(numbers[:, rows], None if times is None else Times(times.values[rows], times.are_dates))
        for rows in rows_of_series
    ]
    classes = None
    if label is not None:
        # The last row of a series tells its class; where classes are found and not named, all rows say the same.
        labels = table.labels(label)
        classes = np.array([labels[int(rows[-1])] for rows in rows_of_series])
    note = f", times in {table.column_words(time)}" if time is not None else ""
    note += " (or --id and --time, or --layout)" if by_content else ""
    # Rows at a time that their series already has.
    repeats = 0 if times is None else sum(len(rows) - len(np.unique(times.values[rows])) for rows in rows_of_series)
    note += f" ({counted(repeats, 'row')} with a time that the series already has)" if repeats else ""
    note += f", classes in {table.column_words(label)}{label_note}" if label is not None else ""
    return SeriesFile(X, classes, names, f"one row per time, series in {table.column_words(series)}{note}")


def _series_and_time(table: CellTable, options: SeriesOptions) -> tuple[int, int | None, bool]:
    """Return the columns of the series and of the times, and whether only what they hold says so."""
    if options.id is not None:
        return table.index_of("--id", options.id), _time_column(table, options), False
    columns = _long_columns(table, options)
    if columns is not None:
        return columns.series, columns.time, columns.by_content
    titled = table.column_titled(ID_TITLES)
    if titled is None:
        raise DataError(f"`--id` must name the column of {table.title} that tells series apart. Pass e.g. --id id.")
    return titled, _time_column(table, options), False


def _label_column(
    table: CellTable, options: SeriesOptions, series_of_row: Sequence[str], taken: Sequence[int | None]
) -> tuple[int | None, str]:
    """Return the column of classes of a long table, None if there is none, and what to say if nobody named it."""
    if options.labels == NO_LABELS:
        return None, ""
    if options.labels is not None:
        return table.index_of("--labels", options.labels), ""
    titled = table.column_titled([word for word in _CLASSES if word != "y"])
    others = (c for c in range(table.width) if c not in taken)
    label = titled if titled is not None else next((c for c in others if _are_classes(table, c, series_of_row)), None)
    return label, "" if label is None else " (or --labels none)"


def _numbers_rows(table: CellTable, column: int) -> bool:
    """Whether a column without a title holds what pandas leaves of the numbers of rows: whole ones, each once."""
    untitled = table.names is not None and is_index_title(table.names[column])
    if not untitled or not table.are_values(column).all():
        return False
    numbers = table.numbers[column]
    return len(np.unique(numbers)) == len(numbers) and bool(np.all(numbers == np.rint(numbers)))


def _are_classes(table: CellTable, column: int, series_of_row: Sequence[str]) -> bool:
    """Whether a column of a long table holds words alone, the same one for all times of a series."""
    if table.are_values(column).any() or table.gaps[column].all():
        return False
    return len(set(zip(series_of_row, table.labels(column), strict=True))) == len(set(series_of_row))


# --- values ---


def _in_time(values: FloatArray, times: Times | None) -> FloatArray:
    """Return values (channels, times) in the order of time, NaN where rows are absent.

    Times that fit no grid of equal steps, or that are repeated, say nothing of absent rows.
    """
    if times is None:
        return np.ascontiguousarray(values)
    order = np.argsort(times.values, kind="stable")
    values, sorted_times = np.ascontiguousarray(values[:, order]), times.values[order]
    if not np.all(np.diff(sorted_times) > 0):
        return values
    try:
        return np.ascontiguousarray(on_grid(grid_indices(sorted_times, "The series"), values.T).T)
    except DataError:
        return values


def _refuse_words(table: CellTable, columns: Sequence[int], *, together: bool = False) -> None:
    """Refuse columns of values that hold something else than numbers and gaps: one by one, or as one part."""
    otherwise = "Name texts that mean a missing value with --gaps"
    without = (
        "name columns that hold something else with --labels, --id or --time (a title, or a number counted from 1), or "
        "leave them out of the file"
    )
    rows = np.arange(len(table))
    if together:
        parts = [NumberPart("its series", table.title, columns, rows, otherwise, without)]
    else:
        parts = []
        for column in columns:
            name = table.names[column] if table.names else str(column + 1)
            title = f"column {table.column_words(column).removeprefix('column ')}"
            parts.append(NumberPart(title, name, [column], rows, otherwise, without))
    table.refuse_words(parts)


# --- arrays, folders and .ts ------------------------------------------------------------------------------------------


def _axes(options: SeriesOptions) -> AxisOrder:
    return "ntc" if options.layout == "ntc" else "nct"


def _from_arrays(path: Path, axes: AxisOrder) -> SeriesFile:
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


def _from_array(X: AnyArray, y: AnyArray | None, classes: AnyArray | None, title: str, axes: AxisOrder) -> SeriesFile:
    if X.dtype.kind not in "fiub" or X.ndim not in (2, 3) or 0 in X.shape:
        raise ShapeError(
            f"{title} must hold numbers of shape (series, times) or with three axes, got {X.dtype} of shape {X.shape}. "
            "Reshape it."
        )
    if X.ndim == 2:
        channels, times = 1, X.shape[1]
    elif axes == "nct":
        channels, times = X.shape[1:]
    else:
        times, channels = X.shape[1:]
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
    # Whole numbers beside the names of the classes are their indices.
    if y is not None and classes is not None and classes.ndim == 1 and y.dtype.kind in "iu":
        y = classes[y] if y.min() >= 0 and y.max() < len(classes) else y
    words = {"nct": "(series, channels, times)", "ntc": "(series, times, channels)"}[axes]
    how = f"axes {words}" if X.ndim == 3 else "axes (series, times)"
    if X.ndim == 3 and axes == "nct" and X.shape[1] > X.shape[2]:
        how += f", though {X.shape[1]} channels at {X.shape[2]} times is unusual (--layout ntc if it is the reverse)"
    return SeriesFile([_one_series(series, axes) for series in X], None if y is None else y.astype(str), (), how)


def _one_series(array: AnyArray, axes: AxisOrder) -> FloatArray:
    """Return one series as (channels, times)."""
    values = np.asarray(array, dtype=float)
    if values.ndim == 1:
        return values[None]
    return values if axes == "nct" else values.T


def _from_folder(path: Path, options: SeriesOptions) -> SeriesFile:
    """Read one series per file; a folder of folders has its classes in their names."""
    endings = tuple(e for e in SERIES_ENDINGS if e not in (".npz", ".ts"))
    files = sorted(f for f in path.rglob("*") if f.is_file() and f.suffix.lower() in endings)
    if not files:
        raise DataError(f"{path} must hold a file for each series ({', '.join(endings)}), got none. Check the folder.")
    X: list[FloatArray] = []
    for file in files:
        if file.suffix.lower() == ".npy":
            array = read_array(file)
            if array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
                raise ShapeError(f"{file} must hold one series, an array with one or two axes, got {array.shape}.")
            X.append(_one_series(array, _axes(options)))
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
