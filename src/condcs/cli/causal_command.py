"""``condcs causal``: read series from a table, test all ordered pairs, print the links and write a page."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from rich.table import Table as PrintedTable

from condcs._core.checks import check_alpha, check_choice, check_integer
from condcs._core.errors import DataError, ParameterError
from condcs._tables.column_choice import MOST_COLUMNS, select_columns
from condcs._tables.kinds import Decimal, as_day, as_number, is_missing, meant_as_numbers, remedy
from condcs._tables.pair import refuse_columns
from condcs._tables.sources import FileOptions, Table, open_table
from condcs.causal import CausalGraph, Embedding, causal_graph
from condcs.causal._influence_measures import MeasureName
from condcs.causal._link_tests import NullName
from condcs.causal._predictive_choice import LAGS, ORDERS, EmbeddingSearch
from condcs.causal._series import check_series_table, in_ranks
from condcs.cli.outputs import check_file
from condcs.cli.terminal import Terminal, foreign

FloatArray = np.ndarray[Any, Any]

CausalMeasure = Literal["conditional_cs", "linear_granger", "kernel_granger", "transfer_entropy"]
CausalNull = Literal["windows", "circular", "local"]

_MOST_TEXTS = 100
"""Different texts among numbers that are looked at for a remedy."""


@dataclass(frozen=True)
class CausalOptions:
    """What to do with the series.

    Attributes
    ----------
    columns : tuple of str
        Patterns of the columns to use; empty means all but the time.
    time : str, optional
        Column of times, which must increase.
    lag, order : int or "auto"
        Embedding.
    measure, null : str
        As in `condcs.causal.causal_graph`.
    conditional, ranks : bool
        Likewise.
    alpha : float
        Level of the links that are marked and drawn, for adjusted p-values.
    resamples, seed : int
        Surrogates and seed.
    jobs : int, optional
        Threads.
    files : FileOptions
        How the table is read.
    """

    columns: tuple[str, ...] = ()
    time: str | None = None
    lag: int | Literal["auto"] = "auto"
    order: int | Literal["auto"] = "auto"
    measure: CausalMeasure = "conditional_cs"
    null: CausalNull = "windows"
    conditional: bool = False
    ranks: bool = False
    alpha: float = 0.05
    resamples: int = 200
    seed: int = 0
    jobs: int | None = None
    files: FileOptions = field(default_factory=FileOptions)


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """Series read from a table: a column each."""

    title: str
    names: tuple[str, ...]
    values: FloatArray


def run(path: str, options: CausalOptions, *, out: Path, as_machine: bool, command: str) -> None:
    """Test a file, print the links and write a page."""
    check_alpha(options.alpha)
    check_file("--out", out)
    table = read_table(path, options)
    count = len(table.names)
    with Terminal(stderr=True).working(f"Testing {count * (count - 1):,} links ..."):
        graph = tested(table, options)
    from condcs.report._causal_page import causal_page

    page = causal_page(graph, table.values, title=table.title, alpha=options.alpha, seed=options.seed, command=command)
    page.write(out)
    if as_machine:
        print(json.dumps(as_json(table, graph), indent=1, ensure_ascii=True, allow_nan=False))
        return
    console = Terminal()
    print_links(graph, options, console)
    console.print(f"\nPage: [bold]{foreign(str(out))}[/bold]", soft_wrap=True)


def read_table(path: str, options: CausalOptions) -> SeriesTable:
    """Read the columns of numbers; the time column, if one is named, must increase."""
    decimal = options.files.decimal
    with open_table(path, options.files) as table:
        names = [name for name in table.names if name != options.time]
        if options.time is not None and options.time not in table.names:
            known = ", ".join(table.names[:12])
            raise ParameterError(f"`--time` must be a column of {table.title}, got {options.time!r}. It has: {known}.")
        chosen = select_columns("--columns", options.columns, names, table.title) if options.columns else names
        if len(chosen) > MOST_COLUMNS:
            raise ParameterError(
                f"`--columns` must name at most {MOST_COLUMNS} columns, got {len(chosen):,}. Name the ones that matter."
            )
        found = {name: place for place, name in enumerate(table.names)}
        time = [] if options.time is None else [options.time]
        series = [_Series(name, decimal) for name in chosen]
        last = -math.inf
        for batch in table.batches([found[name] for name in (*chosen, *time)]):
            for cells, line in zip(batch, batch.lines, strict=True) if time else ():
                at = f"{time[0]!r} in {table.unit} {line:,}"
                last = _check_increasing(cells[-1], last, at, table.title, decimal)
            for place, one in enumerate(series):
                one.take([row[place] for row in batch], batch.lines)
        title = table.title
    refuse_columns([(one.name, one.fault(table)) for one in series if one.gaps or one.odd])
    rows = len(series[0]) if series else 0
    if len(chosen) < 2 or not rows:
        raise DataError(
            f"{title} must hold at least two columns of numbers and a row per time, got {len(chosen)} column(s) and "
            f"{rows} row(s). Give a table with a header and one series per column."
        )
    if rows <= len(chosen):
        raise DataError(
            f"{title} must have more rows than columns, got {rows} rows and {len(chosen)} columns. Rows are "
            "times, and a column is a series: transpose the table, or choose some series with --columns."
        )
    return SeriesTable(Path(title).name, tuple(chosen), np.column_stack([one.values() for one in series]))


class _Series:
    """A column that must hold numbers only, read batch by batch, and an account of the cells that do not."""

    def __init__(self, name: str, decimal: Decimal) -> None:
        self.name, self._decimal = name, decimal
        self._parts: list[FloatArray] = []
        self.gaps = self.odd = 0
        self._first_gap = self._first_odd = 0
        self._texts: Counter[str] = Counter()
        self._points = False

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def values(self) -> FloatArray:
        return np.concatenate(self._parts)

    def take(self, cells: Sequence[Any], lines: Sequence[int]) -> None:
        try:
            self._parts.append(np.array([self._number(cell) for cell in cells]))
        except ValueError:
            self._parts.append(np.full(len(cells), np.nan))
            self._account(cells, lines)

    def _number(self, cell: Any) -> float:
        return float(cell) if isinstance(cell, bool) else as_number(cell, self._decimal)

    def _account(self, cells: Sequence[Any], lines: Sequence[int]) -> None:
        for cell, line in zip(cells, lines, strict=True):
            try:
                self._number(cell)
                self._points |= isinstance(cell, str) and "." in cell
            except ValueError:
                if is_missing(cell):
                    self._first_gap = self._first_gap or line
                    self.gaps += 1
                    continue
                self.odd += 1
                self._first_odd = self._first_odd or line
                text = str(cell).strip()
                if text in self._texts or len(self._texts) < _MOST_TEXTS:
                    self._texts[text] += 1

    def fault(self, table: Table) -> str:
        """Say what is wrong, where it begins, and what to do."""
        without = f"leave the column out with --columns {shlex.quote(f'!{self.name}')}"
        if not self.odd:
            return (
                f"{table.title} must have no missing values, got {self.gaps:,} in column {self.name!r}, the first in "
                f"{table.unit} {self._first_gap:,}. Interpolate, or {without}."
            )
        first = f"the first {next(iter(self._texts))!r} in {table.unit} {self._first_odd:,}"
        meant = meant_as_numbers(self._texts, len(self) - self.gaps)
        advice = remedy(self._texts, self._points, self._decimal) if meant else "If it holds times, name it with --time"
        return (
            f"{table.title} must hold numbers, got {self.odd:,} of {len(self):,} cells of column {self.name!r} that "
            f"are not numbers, {first}. {advice}, or {without}."
        )


def _check_increasing(cell: Any, last: float, place: str, title: str, decimal: Decimal) -> float:
    try:
        now = _moment(cell, decimal)
    except ValueError as error:
        raise DataError(
            f"{title} must have a number or an ISO date in its time column, got {cell!r} for {place}. Correct it."
        ) from error
    if not now > last:
        raise DataError(
            f"{title} must be in time order, but time does not increase at {place} ({cell}). Sort the rows by time and "
            "keep one row per time."
        )
    return now


def _moment(cell: Any, decimal: Decimal) -> float:
    """Return a number that grows with time: the number itself, or days of an ISO date."""
    try:
        return as_number(cell, decimal)
    except ValueError:
        return as_day(cell)


def tested(table: SeriesTable, options: CausalOptions) -> CausalGraph:
    """Test all ordered pairs of columns."""
    measure: MeasureName = check_choice("measure", options.measure, get_args(MeasureName))
    null: NullName = check_choice("null", options.null, get_args(NullName))
    series = dict(zip(table.names, table.values.T, strict=True))
    return causal_graph(
        series,
        embedding=_embeddings(series, options),
        measure=measure,
        null=null,
        conditional=options.conditional,
        ranks=options.ranks,
        n_resamples=options.resamples,
        rng=options.seed,
        n_jobs=options.jobs,
    )


def _embeddings(series: dict[str, FloatArray], options: CausalOptions) -> dict[str, Embedding]:
    """Return lag and order as given; what is "auto" is chosen for each target by prediction."""
    lags = LAGS if options.lag == "auto" else (check_integer("lag", options.lag, 1),)
    orders = ORDERS if options.order == "auto" else (check_integer("order", options.order, 1),)
    if len(lags) == len(orders) == 1:
        return dict.fromkeys(series, Embedding(orders[0], lags[0]))
    targets = check_series_table("series", series)
    targets = in_ranks(targets) if options.ranks else targets
    search = EmbeddingSearch(targets, lags=lags, orders=orders)
    chosen = {one.name: search.choice(place) for place, one in enumerate(targets)}
    # A lag that was given is also the number of steps from a cause to its effect.
    delay = 1 if options.lag == "auto" else None
    return {name: Embedding(choice.order, choice.lag, delay) for name, choice in chosen.items()}


def as_json(table: SeriesTable, graph: CausalGraph) -> dict[str, Any]:
    """Return everything as plain values."""
    return {
        "file": table.title,
        "rows": len(table.values),
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
    for title in ("source", "", "target", "score", "p", "adjusted p", ""):
        table.add_column(title, justify="right" if title in ("source", "score", "p", "adjusted p") else "left")
    for row in graph.rows():
        found = row["pvalue_adjusted"] <= options.alpha
        table.add_row(
            foreign(row["source"]),
            "→",
            foreign(row["target"]),
            f"{row['score']:.4g}",
            f"{row['pvalue']:.4f}",
            f"{row['pvalue_adjusted']:.4f}",
            "drives" if found else "",
            style="bold green" if found else "dim",
        )
    console.print()
    console.print(console.fitted(table))
    console.print(f"\n{settings_words(graph)}")


def settings_words(graph: CausalGraph) -> str:
    """Say in a line what was tested and how."""
    return (
        f"{graph.measure}, {graph.embedding_words()}; {graph.null} null on {graph.window:,} rows, "
        f"{graph.null_distributions.shape[-1]} surrogates; adjusted for {len(graph.rows())} tests (Benjamini-Hochberg)."
    )
