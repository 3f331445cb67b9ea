"""``condcs causal``: read series from tables and arrays, test all ordered pairs, print the links and write a page."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.table import Table as PrintedTable

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.checks import check_alpha, check_integer
from condcs._core.errors import DataError, ParameterError
from condcs._core.printable import counted
from condcs._tables.cells import Decimal, as_day, as_number, is_missing, reads
from condcs._tables.kinds import meant_as_numbers, remedy
from condcs._tables.pair import MOST_COLUMNS, refuse_columns, select_columns
from condcs._tables.sources import FileOptions, Table, open_table
from condcs.causal import CausalGraph, Embedding, causal_graph
from condcs.causal._graphs import pvalue_words
from condcs.causal._influence_measures import MeasureName
from condcs.causal._link_tests import NullName
from condcs.causal._predictive_choice import LAGS, ORDERS, EmbeddingSearch, common_embedding
from condcs.causal._series import TimeAxis, check_series_table, grid_indices, in_ranks, on_grid
from condcs.cli.boundary import check_file
from condcs.cli.output_files import OutputFile, answer_then_write
from condcs.cli.series_files import TIME_TITLES
from condcs.cli.terminal import Terminal, foreign
from condcs.datasets._npz_files import read_array, read_arrays

SeriesLayout = Literal["columns", "rows", "long"]
"""A series is a column, a row, or the rows with the same id."""

_MOST_TEXTS = 100
"""Different texts among numbers that are looked at for a remedy."""


@dataclass(frozen=True)
class SeriesOptions:
    """Where the series of a file are: the options of ``condcs causal``; without patterns in `columns`, all are used."""

    layout: SeriesLayout = "columns"
    columns: tuple[str, ...] = ()
    time: str | None = None
    id: str | None = None
    value: str | None = None
    files: FileOptions = field(default_factory=FileOptions)
    drop_missing: bool = False


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """Series of a file: a column each, a row per time of the grid, NaN where there is no value.

    `missing` counts the empty cells of each series; times that are not in the file at all are holes. `found_time` is
    the column of times, if it was not named but found; `counters` are columns that only count the rows, left out;
    `axis` has the times of the grid, those of holes interpolated, None if the table has no times.
    """

    title: str
    names: tuple[str, ...]
    values: FloatArray
    missing: tuple[int, ...]
    holes: int = 0
    absent: int = 0
    found_time: str | None = None
    counters: tuple[str, ...] = ()
    axis: TimeAxis | None = None

    def words(self) -> str:
        """Say how much was read, and what is missing."""
        words = f"{len(self.names)} series of {len(self.values):,} times"
        if self.found_time is not None:
            words += f" (column {self.found_time!r})"
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
        place = (
            f"{'most ' if np.count_nonzero(self.missing) > 1 else ''}in {self.names[int(np.argmax(self.missing))]!r}"
        )
        return f"{counted(count, 'missing value')}, {place}"


@dataclass(frozen=True)
class CausalOptions:
    """What to do with the series: the options of ``condcs causal``, where they are explained."""

    series: SeriesOptions = field(default_factory=SeriesOptions)
    lag: int | Literal["auto"] = "auto"
    order: int | Literal["auto"] = "auto"
    measure: MeasureName = "conditional_cs"
    null: NullName = "auto"
    conditional: bool = False
    ranks: bool = False
    alpha: float = 0.05
    resamples: int = 200
    seed: int = 0
    jobs: int | None = None


def run(path: str, options: CausalOptions, *, out: Path, as_machine: bool, command: str) -> None:
    """Test a file, print the links and write a page."""
    check_alpha(options.alpha)
    check_file("--out", out)
    table = read_series_table(path, options.series)
    count = len(table.names)
    with Terminal(stderr=True).working(f"Testing {count * (count - 1):,} links ..."):
        graph = tested(table, options)
    from condcs.causal._causal_page import causal_page

    def answer() -> None:
        if as_machine:
            print(json.dumps(as_json(table, graph, options), indent=1, ensure_ascii=True, allow_nan=False))
            return
        console = Terminal()
        console.print(foreign(table.words()))
        print_links(graph, options, console)

    def write_page(path: Path) -> None:
        page = causal_page(
            graph,
            table.values,
            title=table.title,
            sizes=table.words(),
            alpha=options.alpha,
            seed=options.seed,
            command=command,
            axis=table.axis,
        )
        page.write(path)

    notice = "" if as_machine else f"\nPage: [bold]{foreign(str(out))}[/bold]"
    answer_then_write(answer, [OutputFile(out, write_page, notice)])


def tested(table: SeriesTable, options: CausalOptions) -> CausalGraph:
    """Test all ordered pairs of columns."""
    series = dict(zip(table.names, table.values.T, strict=True))
    return causal_graph(
        series,
        embedding=_embeddings(series, options),
        measure=options.measure,
        null=options.null,
        conditional=options.conditional,
        ranks=options.ranks,
        n_resamples=options.resamples,
        rng=options.seed,
        n_jobs=options.jobs,
        missing="drop",
    )


def _embeddings(
    series: dict[str, FloatArray], options: CausalOptions
) -> Literal["auto"] | Embedding | dict[str, Embedding]:
    """Return lag and order as given; what is "auto" is chosen by prediction, for each target or for all together."""
    if options.lag == options.order == "auto":
        return "auto"
    lags = LAGS if options.lag == "auto" else (check_integer("lag", options.lag, 1),)
    orders = ORDERS if options.order == "auto" else (check_integer("order", options.order, 1),)
    if len(lags) == len(orders) == 1:
        return Embedding(orders[0], lags[0])
    targets = check_series_table("series", series, "drop")
    targets = in_ranks(targets) if options.ranks else targets
    if options.conditional:
        chosen = [common_embedding(targets, range(len(targets)), lags, orders)] * len(targets)
    else:
        search = EmbeddingSearch(targets, lags=lags, orders=orders)
        chosen = [search.choice(place).embedding for place in range(len(targets))]
    # A lag that was given is also the number of steps from a cause to its effect.
    delay = 1 if options.lag == "auto" else None
    return {one.name: replace(e, delay=delay) for one, e in zip(targets, chosen, strict=True)}


def as_json(table: SeriesTable, graph: CausalGraph, options: CausalOptions) -> dict[str, Any]:
    """Return everything as plain values."""
    off = ~np.eye(len(graph.names), dtype=bool)
    return {
        "file": table.title,
        "rows": len(table.values),
        "holes": table.holes,
        "absent_times": table.absent,
        "missing_values": sum(table.missing),
        "verdict": graph.verdict_words(options.alpha),
        "rows_complete": [int(graph.complete[off].min()), int(graph.complete[off].max())],
        "rows_used": [int(graph.rows_used[off].min()), int(graph.rows_used[off].max())],
        "measure": graph.measure,
        "null": graph.null,
        "window": graph.window,
        "embeddings": {
            name: {"lag": e.lag, "order": e.order_x} for name, e in zip(graph.names, graph.embeddings, strict=True)
        },
        "links": graph.rows(),
    }


def print_links(graph: CausalGraph, options: CausalOptions, console: Terminal) -> None:
    """Print the links, most certain first; significant ones are marked."""
    table = PrintedTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("source", "", "target", "score", "rows", "p", "adjusted p", ""):
        table.add_column(title, justify="left" if title in ("", "target") else "right")
    for row in graph.rows():
        found = row["pvalue_adjusted"] <= options.alpha
        table.add_row(
            foreign(row["source"]),
            "→",
            foreign(row["target"]),
            f"{row['score']:.4g}",
            f"{row['rows_used']:,}",
            pvalue_words(row["pvalue"]),
            pvalue_words(row["pvalue_adjusted"]),
            "drives" if found else "",
            style="bold green" if found else "dim",
        )
    console.print()
    console.print(console.fitted(table))
    if not graph.links(options.alpha):
        console.print(f"\n{graph.verdict_words(options.alpha)}")
    console.print(f"\n{settings_words(graph)}")
    if graph.missing_words():
        console.print(graph.missing_words())


def settings_words(graph: CausalGraph) -> str:
    """Say in a line what was tested and how."""
    return (
        f"{graph.measure}, {graph.embedding_words()}; {graph.null_words()}; adjusted for {len(graph.rows())} tests "
        "(Benjamini-Hochberg)."
    )


def _empty_cells(values: FloatArray) -> tuple[int, ...]:
    return tuple(int(count) for count in np.isnan(values).sum(axis=0))


def read_series_table(path: str, options: SeriesOptions) -> SeriesTable:
    """Read series; the ending of the name, the options and the first bytes of the file say how."""
    if Path(path).suffix.lower() in (".npy", ".npz"):
        named = next((n for n in ("time", "id", "value") if getattr(options, n) is not None), None)
        if named is not None or options.layout == "long":
            raise ParameterError(f"`--{named or 'layout'}` must be left out for an array, which has no named columns.")
        title, names, values = _from_array(Path(path), options)
        return _checked(SeriesTable(title, tuple(names), values, _empty_cells(values)), options)
    given, options = options, _with_found_columns(path, options)
    if options.layout == "long" or (options.id is not None and options.layout == "columns"):
        table = _from_long_table(path, options)
    else:
        table = _from_rows(path, options) if options.layout == "rows" else _from_columns(path, options)
    found = table.found_time or (None if given.time else options.time)
    return _checked(replace(table, found_time=found), options)


def _with_found_columns(path: str, options: SeriesOptions) -> SeriesOptions:
    """Take the first column of dates for the times; where a row is a series, a first column of words for their names.

    Only if nothing is said about them, and not from a pipe, which can be read once only. A column that --columns leaves
    out by name does not tell the times.
    """
    if not Path(path).is_file() or options.time or (options.layout == "rows" and options.id):
        return options
    with open_table(path, options.files) as table:
        left_out = [pattern for pattern in options.columns if pattern.startswith("!")]
        of_series = options.layout != "columns" or options.id is not None or not left_out
        possible = table.names if of_series else select_columns("--columns", left_out, table.names, table.title)
        first = next((row for batch in table.batches(list(range(len(table.names)))) for row in batch), ())
        words = [
            (name, cell)
            for name, cell in zip(table.names, first, strict=False)
            if name in possible and not is_missing(cell) and not reads(as_number, cell, options.files.decimal)
        ]
        if options.layout == "rows":
            return replace(options, id=words[0][0]) if words and words[0][0] == table.names[0] else options
    return replace(options, time=next((name for name, cell in words if reads(as_day, cell)), None))


def _checked(table: SeriesTable, options: SeriesOptions) -> SeriesTable:
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
    kept = _chosen(options, names, str(path))
    return path.name, kept, values[:, [names.index(name) for name in kept]]


def _from_columns(path: str, options: SeriesOptions) -> SeriesTable:
    decimal = options.files.decimal
    with open_table(path, options.files) as table:
        _check_header(table.names, table.title)
        time = _column(table, "time", options.time)
        chosen = _limited([name for name in _chosen(options, table.names, table.title) if name != options.time])
        found = {name: place for place, name in enumerate(table.names)}
        series = [_Series(name, decimal) for name in chosen]
        times: list[float] = []
        are_dates = False
        for batch in table.batches([*(found[name] for name in chosen), *time]):
            for cells, line in zip(batch, batch.lines, strict=True) if time else ():
                times.append(_later(cells[-1], times, f"{options.time!r} in {table.unit} {line:,}", table, decimal))
                are_dates = are_dates or not reads(as_number, cells[-1], decimal)
            # After the columns of the series comes that of the times.
            for one, column in zip(series, zip(*batch, strict=True), strict=False):
                one.take(column, batch.lines)
        title = table.title
    refuse_columns([(one.name, one.fault(table)) for one in series if one.odd])
    columns = {one.name: one.values() for one in series}
    named = any(not pattern.startswith("!") for pattern in options.columns)
    counters = [] if named else [name for name, cells in columns.items() if _counts(name, cells)]
    clock = counters.pop(0) if counters and not times else None
    kept = [name for name in chosen if name not in (clock, *counters)]
    values = np.column_stack([columns[name] for name in kept]) if kept else np.empty((0, 0))
    axis = None if options.time is None else TimeAxis(options.time, np.array(times), are_dates)
    if clock is not None:
        axis = TimeAxis(clock, columns[clock], are_dates=False)
    read = _with_holes(Path(title).name, kept, axis, values, _empty_cells(values))
    return replace(read, found_time=clock, counters=tuple(counters))


def _counts(name: str, values: FloatArray) -> bool:
    """Whether numbers only tell the time: they increase, nine times of ten by the same step, or are called so."""
    steps = np.diff(values)
    if len(steps) < 2 or not np.all(steps > 0):
        return False
    return name.strip().lower() in TIME_TITLES or float(np.mean(np.isclose(steps, np.median(steps)))) >= 0.9


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
    places = grid_indices(axis.values, title)
    holes, absent = int(np.sum(np.diff(places) > 1)), int(places[-1]) + 1 - len(places)
    axis = replace(axis, values=np.interp(np.arange(places[-1] + 1), places, axis.values))
    return SeriesTable(title, tuple(names), on_grid(places, values), missing, holes, absent, axis=axis)


def _from_rows(path: str, options: SeriesOptions) -> SeriesTable:
    """Read a series per row; the header names the times, and the column `id` the series."""
    decimal = options.files.decimal
    with open_table(path, options.files) as table:
        names: list[str] = []
        series: list[_Series] = []
        own = _column(table, "id", options.id)
        cells = [place for place in range(len(table.names)) if place not in own]
        for batch in table.batches([*cells, *own]):
            for row, line in zip(batch, batch.lines, strict=True):
                name = str(row[-1]).strip() if own else f"x{len(names) + 1}"
                if name in names:
                    raise DataError(f"{table.title} must have one row per series, got {name!r} again in line {line:,}.")
                names.append(name)
                series.append(_Series(name, decimal, kind="row"))
                series[-1].take(list(row[: len(cells)]), [line] * len(cells))
        title = table.title
    chosen = _limited(_chosen(options, names, title))
    kept = [one for one in series if one.name in chosen]
    refuse_columns([(one.name, one.fault(table)) for one in kept if one.odd])
    values = np.column_stack([one.values() for one in kept]) if kept else np.empty((0, 0))
    return SeriesTable(Path(title).name, tuple(one.name for one in kept), values, _empty_cells(values))


def _from_long_table(path: str, options: SeriesOptions) -> SeriesTable:
    """Read a value per row, with the name of its series and its time; absent times of a series are NaN."""
    decimal = options.files.decimal
    with open_table(path, options.files) as table:
        if options.id is None or options.time is None:
            option, what = ("id", "names of the series") if options.id is None else ("time", "times")
            raise ParameterError(
                f"`--{option}` must name the column of {table.title} that holds the {what}: a long table has a row per "
                f"series and time. It has: {', '.join(table.names[:12])}."
            )
        own = [*_column(table, "id", options.id), *_column(table, "time", options.time)]
        # pandas stores the row numbers of a sorted table in a column of such a name.
        rest = [name for name in table.names if name not in (options.id, options.time, "__index_level_0__")]
        if options.value is None and len(rest) != 1:
            raise ParameterError(
                f"`--value` must name the column of values of {table.title}. It has: {', '.join(rest[:12])}."
            )
        value = _column(table, "value", options.value or rest[0])
        series: dict[str, _Series] = {}
        moments: dict[str, list[float]] = {}
        are_dates = False
        for batch in table.batches([*own, *value]):
            for row, line in zip(batch, batch.lines, strict=True):
                name = str(row[0]).strip()
                if name not in series:
                    _limited([*series, name])
                    series[name], moments[name] = _Series(name, decimal, kind="series"), []
                at = f"series {name!r} in {table.unit} {line:,}"
                moments[name].append(_later(row[1], moments[name], at, table, decimal))
                are_dates = are_dates or not reads(as_number, row[1], decimal)
                series[name].take([row[2]], [line])
        title = table.title
    chosen = _chosen(options, list(series), title)
    refuse_columns([(name, series[name].fault(table)) for name in chosen if series[name].odd])
    times = np.unique(np.concatenate([[], *(moments[name] for name in chosen)]))
    values = np.full((len(times), len(chosen)), np.nan)
    for column, name in enumerate(chosen):
        values[np.searchsorted(times, moments[name]), column] = series[name].values()
    missing = tuple(int(np.isnan(series[name].values()).sum()) for name in chosen)
    return _with_holes(Path(title).name, chosen, TimeAxis(options.time, times, are_dates), values, missing)


def _column(table: Table, option: str, name: str | None) -> list[int]:
    """Return the place of a named column; none without a name."""
    if name is None:
        return []
    if name not in table.names:
        known = ", ".join(table.names[:12])
        raise ParameterError(f"`--{option}` must be a column of {table.title}, got {name!r}. It has: {known}.")
    return [table.names.index(name)]


def _chosen(options: SeriesOptions, names: Sequence[str], title: str) -> list[str]:
    return select_columns("--columns", options.columns, names, title) if options.columns else list(names)


def _limited(names: list[str]) -> list[str]:
    if len(names) > MOST_COLUMNS:
        raise ParameterError(
            f"`--columns` must name at most {MOST_COLUMNS} series, got {len(names):,}. Name the ones that matter."
        )
    return names


class _Series:
    """A series that must hold numbers or gaps, read batch by batch, and an account of the cells that are neither."""

    def __init__(self, name: str, decimal: Decimal, kind: str = "column") -> None:
        self.name, self._decimal, self._kind = name, decimal, kind
        self._parts: list[FloatArray] = []
        self._gaps = self.odd = self._first_odd = 0
        self._texts: Counter[str] = Counter()
        self._points = False

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def values(self) -> FloatArray:
        return np.concatenate([[], *self._parts])

    def take(self, cells: Sequence[Any], lines: Sequence[int] | IntArray) -> None:
        try:
            self._parts.append(np.array([self._number(cell) for cell in cells]))
        except ValueError:
            self._parts.append(self._accounted(cells, lines))

    def _number(self, cell: Any) -> float:
        return float(cell) if isinstance(cell, bool) else as_number(cell, self._decimal)

    def _accounted(self, cells: Sequence[Any], lines: Sequence[int] | IntArray) -> FloatArray:
        found = np.full(len(cells), np.nan)
        for place, (cell, line) in enumerate(zip(cells, lines, strict=True)):
            try:
                found[place] = self._number(cell)
                self._points |= isinstance(cell, str) and "." in cell
            except ValueError:
                if is_missing(cell):
                    self._gaps += 1
                    continue
                self.odd += 1
                self._first_odd = self._first_odd or line
                text = str(cell).strip()
                if text in self._texts or len(self._texts) < _MOST_TEXTS:
                    self._texts[text] += 1
        return found

    def fault(self, table: Table) -> str:
        """Say what is wrong, where it begins, and what to do."""
        without = f"leave the {self._kind} out with --columns {shlex.quote(f'!{self.name}')}"
        first = f"the first {next(iter(self._texts))!r} in {table.unit} {self._first_odd:,}"
        numbers = len(self) - self._gaps - self.odd
        meant = meant_as_numbers(self._texts, numbers + self._texts.total())
        elsewhere = (
            "If it holds times, name it with --time and write them as 2026-01-31 18:00; if names of series, name it "
            "with --id"
        )
        advice = remedy(self._texts, self._points, self._decimal) if meant else elsewhere
        return (
            f"{table.title} must hold numbers, got {self.odd:,} of {len(self):,} cells of {self._kind} {self.name!r} "
            f"that are not numbers, {first}. {advice}, or {without}."
        )


def _later(cell: Any, before: Sequence[float], place: str, table: Table, decimal: Decimal) -> float:
    """Return a number that grows with time, and is larger than the last one of those before."""
    try:
        try:
            now = as_number(cell, decimal)
        except ValueError:
            now = as_day(cell)
    except ValueError as error:
        raise DataError(
            f"{table.title} must have a number or an ISO date in its time column, got {cell!r} for {place}. Write "
            "dates as 2026-01-31 or 2026-01-31 18:00."
        ) from error
    if not now > (before[-1] if before else -math.inf):
        raise DataError(
            f"{table.title} must be in time order, but time does not increase at {place} ({cell}). Sort the rows by "
            "time and keep one row per time; if it has a row per series and time, name the series with --id."
        )
    return now
