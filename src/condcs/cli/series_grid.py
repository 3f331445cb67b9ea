"""Series on one grid of times, from tables and arrays: what ``condcs causal`` tests.

`read_series_table` is the function to read first. What cells of a table mean is the subject of `series_cells`; here a
file becomes columns that share their times, with NaN where a time has no value.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.errors import DataError, ParameterError
from condcs._core.printable import counted
from condcs._tables.cells import as_number, is_missing, reads
from condcs._tables.pair import MOST_COLUMNS, select_columns
from condcs._tables.sources import column_name, open_table
from condcs.causal._series import TimeAxis, grid_indices, on_grid
from condcs.cli.series_cells import (
    ID_TITLES,
    TIME_TITLES,
    CellTable,
    NumberPart,
    SeriesOptions,
    as_series_day,
    is_index_title,
    read_cells,
    split_by_series,
)
from condcs.datasets._npz_files import read_array, read_arrays

SeriesLayout = Literal["columns", "rows", "long"]
"""A series is a column, a row, or the rows with the same id."""

_MOST_EVEN = 0.9
"""Share of equal steps from which increasing numbers count time: hourly stamps with some holes do, cumulated sums do
not."""


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """Series of a file: a column each, a row per time of the grid, NaN where there is no value.

    `missing` counts the empty cells of each series. Times that are not in the file at all are holes: `holes` counts
    stretches of them, `absent` their times. `detected_time` is the column of times, if no option names it; `counters`
    are columns that only count the rows, left out; `axis` has the times of the grid, those of holes interpolated, None
    if the table has no times.
    """

    title: str
    names: tuple[str, ...]
    values: FloatArray
    missing: tuple[int, ...]
    holes: int = 0
    absent: int = 0
    detected_time: str | None = None
    counters: tuple[str, ...] = ()
    axis: TimeAxis | None = None

    def words(self) -> str:
        """Say how much was read, and what is missing."""
        words = f"{len(self.names)} series of {len(self.values):,} times"
        if self.detected_time is not None:
            words += f" (column {self.detected_time!r})"
        if self.counters:
            verbs = ("counts", "is") if len(self.counters) == 1 else ("count", "are")
            words += f"; {', '.join(map(repr, self.counters))} only {verbs[0]} them and {verbs[1]} left out"
        if self.holes:
            words += f"; {counted(self.holes, 'hole')} in time, {counted(self.absent, 'time')} absent"
        lacking = int(np.isnan(self.values).sum()) - self.absent * len(self.names) - sum(self.missing)
        if lacking:
            words += f"; {counted(lacking, 'time')} absent of some of the series"
        if any(self.missing):
            words += f"; {self.missing_words()}"
        return words + "."

    def missing_words(self) -> str:
        """Say how many values are missing, and of which series."""
        count = sum(self.missing)
        where = (
            f"{'most ' if np.count_nonzero(self.missing) > 1 else ''}in {self.names[int(np.argmax(self.missing))]!r}"
        )
        return f"{counted(count, 'missing value')}, {where}"


def read_series_table(path: str, options: SeriesOptions) -> SeriesTable:
    """Read series; the ending of the name, the options and the first bytes of the file say how."""
    if Path(path).suffix.lower() in (".npy", ".npz"):
        column_option = next((name for name in ("time", "id", "value") if getattr(options, name) is not None), None)
        if column_option is not None or options.layout == "long":
            option = column_option or "layout"
            raise ParameterError(f"`--{option}` must be left out for an array, which has no named columns.")
        title, names, values = _from_array(Path(path), options)
        return _check_series(SeriesTable(title, tuple(names), values, _empty_cells(values)), options)
    completed = _with_detected_columns(path, options)
    if completed.layout == "rows":
        table = _from_rows(path, completed)
    elif completed.layout == "long" or completed.id is not None:
        table = _from_long_table(path, completed)
    else:
        table = _from_columns(path, completed)
    detected_time = table.detected_time or (None if options.time else completed.time)
    return _check_series(replace(table, detected_time=detected_time), completed)


def _with_detected_columns(path: str, options: SeriesOptions) -> SeriesOptions:
    """Take the first column of dates for the times; where a row is a series, a column for their names.

    That is a first column of words, or an index of pandas; else one whose title says so.

    Only if nothing is said about them, and not from a pipe, which can be read once only. A column that --columns leaves
    out by name does not tell the times.
    """
    if not Path(path).is_file() or options.time or (options.layout == "rows" and options.id):
        return options
    with open_table(path, options.files) as table:
        left_out = [pattern for pattern in options.columns if pattern.startswith("!")]
        of_series = options.layout in ("rows", "long") or options.id is not None or not left_out
        possible = table.names if of_series else select_columns("--columns", left_out, table.names, table.title)
        every_column = list(range(len(table.names)))
        first_row = next((row for batch in table.batches(every_column) for row in batch), ())
        # Cells of the first row that are no numbers, by column.
        words = {
            name: cell
            for name, cell in zip(table.names, first_row, strict=False)
            if name in possible and not is_missing(cell) and not reads(as_number, cell, options.files.decimal)
        }
        if options.layout == "rows":
            # Beside titles of times, an empty one is that of an index.
            first_is_index = table.names[:1] == (column_name(1),) and table.names[1:2] != (column_name(2),)
            first_is_index |= bool(table.names) and is_index_title(table.names[0])
            naming = [name for name in table.names if name.strip().lower() in ID_TITLES]
            if table.names and (table.names[0] in words or first_is_index):
                naming = [table.names[0]]
            return replace(options, id=next(iter(naming), None))
    return replace(options, time=next((name for name, cell in words.items() if reads(as_series_day, cell)), None))


def _check_series(table: SeriesTable, options: SeriesOptions) -> SeriesTable:
    rows, columns = table.values.shape
    if columns < 2 or not rows:
        raise DataError(
            f"{table.title} must hold at least two series of numbers and a row per time, got {columns} series and "
            f"{counted(rows, 'time')}. Give a table with a header and one series per column, or see --layout."
        )
    if rows <= columns:
        other = "columns" if options.layout == "rows" else "rows"
        raise DataError(
            f"{table.title} must have more times than series, got {counted(rows, 'time')} of {columns} series. If a "
            f"series is one of its {other}, pass --layout {other}; else choose some series with --columns."
        )
    constant = [
        name
        for name, column in zip(table.names, table.values.T, strict=True)
        if len(np.unique(column[np.isfinite(column)])) == 1
    ]
    if constant:
        without = " ".join(f"--columns {shlex.quote(f'!{name}')}" for name in constant)
        raise DataError(
            f"{table.title} must hold series that vary, got one value throughout {', '.join(map(repr, constant))}. A "
            f"constant neither drives nor is driven: leave it out with {without}."
        )
    if any(table.missing) and not options.drop_missing:
        raise DataError(
            f"{table.title} must have no missing values, got {table.missing_words()}. Fill them in, leave the series "
            "out with --columns, or pass --drop-missing to leave out every time whose value or past is missing."
        )
    return table


def _from_array(path: Path, options: SeriesOptions) -> tuple[str, list[str], FloatArray]:
    if path.suffix.lower() == ".npy":
        X, names = read_array(path), None
    else:
        arrays = read_arrays(path)
        lines = {name: a for name, a in arrays.items() if a.ndim == 1 and a.dtype.kind in "fiub"}
        if "X" in arrays:
            X, names = arrays["X"], None
        elif lines and len({len(a) for a in lines.values()}) == 1:
            X, names = np.column_stack(list(lines.values())), list(lines)
        else:
            raise DataError(
                f"{path} must hold an array X (times, series), or series of equal length by name, got "
                f"{', '.join(sorted(arrays)) or 'nothing'}. Save it with np.savez(file, X=...)."
            )
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise DataError(f"{path} must hold numbers of shape (times, series), got {X.dtype} of shape {X.shape}.")
    values = np.asarray(X.T if options.layout == "rows" and names is None else X, np.float64)
    names = names or [f"x{i + 1}" for i in range(values.shape[1])]
    chosen = _selected_names(options, names, str(path))
    return path.name, chosen, values[:, [names.index(name) for name in chosen]]


def _from_columns(path: str, options: SeriesOptions) -> SeriesTable:
    """Read a series per column; columns that only count the rows are left out, and one may tell the times."""
    with open_table(path, options.files) as table:
        _check_header(table.names, table.title)
        _check_column(table.names, table.title, "time", options.time)
        chosen = _check_count(
            [name for name in _selected_names(options, table.names, table.title) if name != options.time]
        )
        cells = read_cells(table, options.files.decimal, [*chosen, *([options.time] if options.time else [])])
    rows = np.arange(len(cells))
    # 1. The times of the rows, which increase.
    axis = None
    if options.time is not None:
        times = cells.times(len(chosen))
        _check_increasing(times.values, cells, len(chosen), rows, repr(options.time))
        axis = TimeAxis(options.time, times.values, times.are_dates)
    # 2. The values of the series, a column each.
    cells.refuse_words([_number_part("column", name, [c], rows) for c, name in enumerate(chosen)])
    values = cells.numbers[: len(chosen)].T
    # 3. Columns that count the rows are no series, unless they were asked for; the first tells the times.
    is_asked_for = any(not pattern.startswith("!") for pattern in options.columns)
    counters = [] if is_asked_for else [c for c, name in enumerate(chosen) if _only_counts(name, values[:, c])]
    clock = counters[0] if counters and axis is None else None
    if clock is not None:
        axis = TimeAxis(chosen[clock], values[:, clock], are_dates=False)
    series = [c for c in range(len(chosen)) if c not in counters]
    series_values = values[:, series]
    on_grid_of_times = _with_holes(
        Path(cells.title).name, [chosen[c] for c in series], axis, series_values, _empty_cells(series_values)
    )
    return replace(
        on_grid_of_times,
        detected_time=None if clock is None else chosen[clock],
        counters=tuple(chosen[c] for c in counters if c != clock),
    )


def _only_counts(name: str, values: FloatArray) -> bool:
    """Whether numbers only tell the time: they increase, nine times of ten by the same step, or are called so."""
    steps = np.diff(values)
    if len(steps) < 2 or not np.all(steps > 0):
        return False
    return name.strip().lower() in TIME_TITLES or float(np.mean(np.isclose(steps, np.median(steps)))) >= _MOST_EVEN


def _check_header(names: Sequence[str], title: str) -> None:
    """Refuse a first row of values, which would be the names of the series; pandas counts columns without a name."""
    if not names or not all(reads(as_number, name) for name in names):
        return
    numbers = [as_number(name) for name in names]
    if any(step != 1 for step in np.diff(numbers)) or not numbers[0].is_integer():
        raise DataError(
            f"{title} must have the names of its columns in its first row, got numbers: {', '.join(names[:4])}. Add a "
            "row of names, or save the numbers as .npy."
        )


def _with_holes(
    title: str, names: Sequence[str], axis: TimeAxis | None, values: FloatArray, missing: tuple[int, ...]
) -> SeriesTable:
    if axis is None or not len(axis.values):
        return SeriesTable(title, tuple(names), values, missing)
    indices = grid_indices(axis.values, title)  # of the rows on the grid of times
    n_times = int(indices[-1]) + 1
    holes, absent = int(np.sum(np.diff(indices) > 1)), n_times - len(indices)
    axis = replace(axis, values=np.interp(np.arange(n_times), indices, axis.values))
    return SeriesTable(title, tuple(names), on_grid(indices, values), missing, holes, absent, axis=axis)


def _from_rows(path: str, options: SeriesOptions) -> SeriesTable:
    """Read a series per row; the header names the times, and the column `id` the series."""
    with open_table(path, options.files) as table:
        _check_column(table.names, table.title, "id", options.id)
        cells = read_cells(table, options.files.decimal)
    columns = [c for c, name in enumerate(table.names) if name != options.id]
    names = [f"x{row + 1}" for row in range(len(cells))]
    if options.id is not None:
        names = [name.strip() for name in cells.labels(table.names.index(options.id))]
        repeated = next((row for row, name in enumerate(names) if name in names[:row]), None)
        if repeated is not None:
            raise DataError(
                f"{cells.title} must have one row per series, got {names[repeated]!r} again in {cells.unit} "
                f"{cells.lines[repeated]:,}."
            )
    chosen = _check_count(_selected_names(options, names, cells.title))
    rows = [row for row, name in enumerate(names) if name in chosen]
    cells.refuse_words([_number_part("row", names[row], columns, np.array([row])) for row in rows])
    values = cells.numbers[np.ix_(columns, rows)]  # (times, series)
    return SeriesTable(Path(cells.title).name, tuple(names[row] for row in rows), values, _empty_cells(values))


def _from_long_table(path: str, options: SeriesOptions) -> SeriesTable:
    """Read a value per row, with the name of its series and its time; absent times of a series are NaN."""
    with open_table(path, options.files) as table:
        names = table.names
        if options.id is None or options.time is None:
            option, what = ("id", "names of the series") if options.id is None else ("time", "times")
            raise ParameterError(
                f"`--{option}` must name the column of {table.title} that holds the {what}: a long table has a row per "
                f"series and time. It has: {', '.join(names[:12])}."
            )
        _check_column(names, table.title, "id", options.id)
        _check_column(names, table.title, "time", options.time)
        # pandas stores the row numbers of a sorted table in a column of such a name.
        others = [name for name in names if name not in (options.id, options.time, "__index_level_0__")]
        if options.value is None and len(others) != 1:
            raise ParameterError(
                f"`--value` must name the column of values of {table.title}. It has: {', '.join(others[:12])}."
            )
        value = others[0] if options.value is None else options.value
        _check_column(names, table.title, "value", value)
        cells = read_cells(table, options.files.decimal, [options.id, options.time, value])
    # 1. The rows of each series, in which time increases.
    series = split_by_series(cells.labels(0))
    clock = cells.times(1)
    rows_of = dict(zip(series.names, series.rows, strict=True))
    for name, rows in rows_of.items():
        _check_increasing(clock.values[rows], cells, 1, rows, f"series {name!r}")
    chosen = _check_count(_selected_names(options, list(series.names), cells.title))
    cells.refuse_words([_number_part("series", name, [2], rows_of[name]) for name in chosen])
    # 2. One grid of all their times, with a column for each series.
    times = np.unique(np.concatenate([np.empty(0), *(clock.values[rows_of[name]] for name in chosen)]))
    values = np.full((len(times), len(chosen)), np.nan)
    for column, name in enumerate(chosen):
        rows = rows_of[name]
        values[np.searchsorted(times, clock.values[rows]), column] = cells.numbers[2, rows]
    missing = tuple(int(np.isnan(cells.numbers[2, rows_of[name]]).sum()) for name in chosen)
    axis = TimeAxis(options.time, times, clock.are_dates)
    return _with_holes(Path(cells.title).name, chosen, axis, values, missing)


def _check_column(names: Sequence[str], title: str, option: str, name: str | None) -> None:
    """Refuse an option that names no column."""
    if name is not None and name not in names:
        raise ParameterError(
            f"`--{option}` must be a column of {title}, got {name!r}. It has: {', '.join(names[:12])}."
        )


def _check_increasing(times: FloatArray, cells: CellTable, column: int, rows: IntArray, where: str) -> None:
    """Refuse times (n,) of some rows of a column that do not increase."""
    backward_steps = np.flatnonzero(~(np.diff(times) > 0))
    if len(backward_steps):
        row = int(rows[backward_steps[0] + 1])
        raise DataError(
            f"{cells.title} must be in time order, but time does not increase at {where} in {cells.unit} "
            f"{cells.lines[row]:,} ({cells.columns[column].cell(row)}). Sort the rows by time and keep one row per "
            "time; if it has a row per series and time, name the series with --id."
        )


def _number_part(
    kind: Literal["column", "row", "series"], name: str, columns: Sequence[int], rows: IntArray
) -> NumberPart:
    """Return the cells of a series as a part of the table that must hold numbers."""
    otherwise = (
        "If it holds times, name it with --time and write them as 2026-01-31 18:00; if names of series, name it with "
        "--id"
    )
    without = f"leave the {kind} out with --columns {shlex.quote(f'!{name}')}"
    return NumberPart(f"{kind} {name!r}", name, columns, rows, otherwise, without)


def _empty_cells(values: FloatArray) -> tuple[int, ...]:
    return tuple(int(count) for count in np.isnan(values).sum(axis=0))


def _selected_names(options: SeriesOptions, names: Sequence[str], title: str) -> list[str]:
    return select_columns("--columns", options.columns, names, title) if options.columns else list(names)


def _check_count(names: list[str]) -> list[str]:
    if len(names) > MOST_COLUMNS:
        raise ParameterError(
            f"`--columns` must name at most {MOST_COLUMNS} series, got {len(names):,}. Name the ones that matter."
        )
    return names
