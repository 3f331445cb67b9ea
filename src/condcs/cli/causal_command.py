"""``condcs causal``: read series from a table, test all ordered pairs, print the links and write a page."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from rich.table import Table as PrintedTable

from condcs._core.checks import check_alpha, check_choice, check_integer
from condcs._core.settings import config_context
from condcs.causal import CausalGraph, Embedding, causal_graph
from condcs.causal._influence_measures import MeasureName
from condcs.causal._link_tests import NullName
from condcs.causal._predictive_choice import LAGS, ORDERS, EmbeddingSearch
from condcs.causal._series import check_series_table, in_ranks
from condcs.cli.causal_series import SeriesOptions, SeriesTable, read_series_table
from condcs.cli.outputs import check_file
from condcs.cli.terminal import Terminal, foreign

FloatArray = np.ndarray[Any, Any]

CausalMeasure = Literal["conditional_cs", "linear_granger", "kernel_granger", "transfer_entropy"]
CausalNull = Literal["auto", "signs", "windows", "circular", "local"]


@dataclass(frozen=True)
class CausalOptions:
    """What to do with the series.

    Attributes
    ----------
    series : SeriesOptions
        Where the series are, and how the file is read.
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

    series: SeriesOptions = field(default_factory=SeriesOptions)
    lag: int | Literal["auto"] = "auto"
    order: int | Literal["auto"] = "auto"
    measure: CausalMeasure = "conditional_cs"
    null: CausalNull = "auto"
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
    threads = config_context(n_threads=options.jobs) if options.jobs is not None else nullcontext()
    with Terminal(stderr=True).working(f"Testing {count * (count - 1):,} links ..."), threads:
        graph = tested(table, options)
    from condcs.report._causal_page import causal_page

    page = causal_page(
        graph,
        table.values,
        title=table.title,
        sizes=table.words(),
        alpha=options.alpha,
        seed=options.seed,
        command=command,
    )
    page.write(out)
    if as_machine:
        print(json.dumps(as_json(table, graph), indent=1, ensure_ascii=True, allow_nan=False))
        return
    console = Terminal()
    console.print(foreign(table.words()))
    print_links(graph, options, console)
    console.print(f"\nPage: [bold]{foreign(str(out))}[/bold]", soft_wrap=True)


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
        missing="drop",
    )


def _embeddings(series: dict[str, FloatArray], options: CausalOptions) -> dict[str, Embedding]:
    """Return lag and order as given; what is "auto" is chosen for each target by prediction."""
    lags = LAGS if options.lag == "auto" else (check_integer("lag", options.lag, 1),)
    orders = ORDERS if options.order == "auto" else (check_integer("order", options.order, 1),)
    if len(lags) == len(orders) == 1:
        return dict.fromkeys(series, Embedding(orders[0], lags[0]))
    targets = check_series_table("series", series, "drop")
    targets = in_ranks(targets) if options.ranks else targets
    search = EmbeddingSearch(targets, lags=lags, orders=orders)
    chosen = {one.name: search.choice(place) for place, one in enumerate(targets)}
    # A lag that was given is also the number of steps from a cause to its effect.
    delay = 1 if options.lag == "auto" else None
    return {name: Embedding(choice.order, choice.lag, delay) for name, choice in chosen.items()}


def as_json(table: SeriesTable, graph: CausalGraph) -> dict[str, Any]:
    """Return everything as plain values."""
    off = ~np.eye(len(graph.names), dtype=bool)
    return {
        "file": table.title,
        "rows": len(table.values),
        "holes": table.holes,
        "absent_times": table.absent,
        "missing_values": sum(table.missing),
        "rows_used": [int(graph.complete[off].min()), int(graph.complete[off].max())],
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
    if graph.missing_words():
        console.print(graph.missing_words())


def settings_words(graph: CausalGraph) -> str:
    """Say in a line what was tested and how."""
    return (
        f"{graph.measure}, {graph.embedding_words()}; {graph.null_words()}; adjusted for {len(graph.rows())} tests "
        "(Benjamini-Hochberg)."
    )
