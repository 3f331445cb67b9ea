"""``condcs causal``: read series from a table, test all ordered pairs, print the links and write a page."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from condcs.causal import CausalGraph, causal_graph
from condcs.cli.comparison import check_alpha
from condcs.cli.outputs import check_file
from condcs.cli.tables.missing import is_missing
from condcs.cli.tables.selection import select_columns
from condcs.cli.tables.sources import open_table
from condcs.cli.terminal import Terminal, foreign
from condcs.core.errors import DataError, ParameterError

FloatArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CausalOptions:
    """What to do with the series.

    Attributes
    ----------
    columns : tuple of str
        Patterns of the columns to use; empty means all but the time.
    time : str, optional
        Column of times, which must go forward.
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
    """

    columns: tuple[str, ...] = ()
    time: str | None = None
    lag: int | str = 1
    order: int | str = 1
    measure: str = "conditional_cs"
    null: str = "windows"
    conditional: bool = False
    ranks: bool = False
    alpha: float = 0.05
    resamples: int = 200
    seed: int = 0
    jobs: int | None = None


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
    from condcs.report.causal_page import causal_page

    causal_page(table, graph, options, command).write(out)
    if as_machine:
        print(json.dumps(as_json(table, graph), indent=1, ensure_ascii=True, allow_nan=False))
        return
    console = Terminal()
    print_links(graph, options, console)
    console.print(f"\nPage: [bold]{foreign(str(out))}[/bold]", soft_wrap=True)


def read_table(path: str, options: CausalOptions) -> SeriesTable:
    """Read the columns of numbers; the time column, if one is named, must go forward."""
    with open_table(path) as table:
        names = [name for name in table.names if name != options.time]
        if options.time is not None and options.time not in table.names:
            known = ", ".join(table.names[:12])
            raise ParameterError(f"`--time` must be a column of {table.title}, got {options.time!r}. It has: {known}.")
        chosen = select_columns("--columns", options.columns, names, table.title) if options.columns else names
        places = [table.names.index(name) for name in chosen]
        if options.time is not None:
            places.append(table.names.index(options.time))
        rows: list[list[float]] = []
        last = -math.inf
        for batch in table.batches(places):
            for cells in batch:
                if options.time is not None:
                    last = _check_forward(cells[-1], last, options.time, len(rows) + 1, table.title)
                rows.append(
                    [_number(cell, name, len(rows) + 1, table.title) for cell, name in zip(cells, chosen, strict=False)]
                )
        title = table.title
    if len(chosen) < 2 or not rows:
        raise DataError(
            f"{title} must hold at least two columns of numbers and a row per time, got {len(chosen)} column(s) and "
            f"{len(rows)} row(s). Give a table with a header and one series per column."
        )
    if len(rows) <= len(chosen):
        raise DataError(
            f"{title} must have more rows than columns, got {len(rows)} rows and {len(chosen)} columns. Rows are "
            "times, and a column is a series: turn the table round, or choose some series with --columns."
        )
    return SeriesTable(Path(title).name, tuple(chosen), np.array(rows, dtype=np.float64))


def _check_forward(cell: Any, last: float, name: str, row: int, title: str) -> float:
    try:
        now = _moment(cell)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{title} must have a number or an ISO date in its time column {name!r}, got {cell!r} in row {row}. "
            "Mend it."
        ) from error
    if not now > last:
        raise DataError(
            f"{title} must be in time order, but {name!r} does not go forward in row {row} ({cell}). Sort the rows by "
            "time and keep one row per time."
        )
    return now


def _number(cell: Any, name: str, row: int, title: str) -> float:
    if is_missing(cell):
        raise DataError(
            f"{title} must have no gaps, got an empty cell in row {row}, column {name!r}. Interpolate it, or leave the "
            f"column out with --columns '!{name}'."
        )
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise DataError(
            f"{title} must hold numbers, got {cell!r} in row {row}, column {name!r}. Name a column of times with "
            f"--time {name}, or leave it out with --columns '!{name}'."
        ) from None


def _moment(cell: Any) -> float:
    """Return a number that grows with time: the number itself, or seconds of an ISO date."""
    if isinstance(cell, str):
        try:
            return float(cell)
        except ValueError:
            cell = datetime.fromisoformat(cell.strip())
    if isinstance(cell, date) and not isinstance(cell, datetime):
        cell = datetime(cell.year, cell.month, cell.day)
    if isinstance(cell, datetime):
        return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp()
    return float(cell)


def tested(table: SeriesTable, options: CausalOptions) -> CausalGraph:
    """Test all ordered pairs of columns."""
    return causal_graph(
        table.values,
        names=table.names,
        lag=options.lag,
        order=options.order,
        measure=options.measure,
        null=options.null,
        conditional=options.conditional,
        ranks=options.ranks,
        n_resamples=options.resamples,
        rng=options.seed,
        n_jobs=options.jobs,
    )


def as_json(table: SeriesTable, graph: CausalGraph) -> dict[str, Any]:
    """Return everything as plain values."""
    e = graph.embedding
    return {
        "file": table.title,
        "rows": len(table.values),
        "measure": graph.measure,
        "null": graph.null,
        "window": graph.window,
        "lag": e.lag,
        "order": e.order_x,
        "links": graph.rows(),
    }


def print_links(graph: CausalGraph, options: CausalOptions, console: Terminal) -> None:
    """Print the links, most certain first; significant ones are marked."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
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
    e = graph.embedding
    return (
        f"{graph.measure}, lag {e.lag}, order {e.order_x}; {graph.null} null on {graph.window:,} rows, "
        f"{graph.null_distributions.shape[-1]} surrogates; adjusted for {len(graph.rows())} tests (Benjamini-Hochberg)."
    )
