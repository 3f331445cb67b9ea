"""``condcs causal``: read series from tables and arrays, test all ordered pairs, print the links and write a page."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.table import Table as PrintedTable

from condcs._core.arrays import FloatArray
from condcs._core.checks import check_alpha, check_integer
from condcs.causal import CausalGraph, Embedding, causal_graph
from condcs.causal._graphs import pvalue_words
from condcs.causal._influence_measures import InfluenceName
from condcs.causal._link_tests import NullName
from condcs.causal._predictive_choice import LAGS, ORDERS, EmbeddingSearch, common_embedding
from condcs.causal._series import check_series_table, in_ranks
from condcs.cli.boundary import check_file
from condcs.cli.output_files import OutputFile, answer_then_write
from condcs.cli.series_cells import SeriesOptions
from condcs.cli.series_grid import SeriesTable, read_series_table
from condcs.cli.terminal import Terminal, foreign


@dataclass(frozen=True)
class CausalOptions:
    """What to do with the series: the options of ``condcs causal``, where they are explained."""

    series: SeriesOptions = field(default_factory=SeriesOptions)
    lag: int | Literal["auto"] = "auto"
    order: int | Literal["auto"] = "auto"
    measure: InfluenceName = "conditional_cs"
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
        graph = graph_of(table, options)
    from condcs.causal._causal_page import causal_page

    def answer() -> None:
        if as_machine:
            print(json.dumps(link_fields(table, graph, options), indent=1, ensure_ascii=True, allow_nan=False))
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


def graph_of(table: SeriesTable, options: CausalOptions) -> CausalGraph:
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
        chosen = [search.choice(target).embedding for target in range(len(targets))]
    # A lag that was given is also the number of steps from a cause to its effect.
    delay = 1 if options.lag == "auto" else None
    return {one.name: replace(e, delay=delay) for one, e in zip(targets, chosen, strict=True)}


def link_fields(table: SeriesTable, graph: CausalGraph, options: CausalOptions) -> dict[str, Any]:
    """Return what was read and found as plain values, for JSON."""
    between_series = ~np.eye(len(graph.names), dtype=bool)
    complete, rows_used = graph.complete[between_series], graph.rows_used[between_series]  # (links,)
    return {
        "file": table.title,
        "rows": len(table.values),
        "holes": table.holes,
        "absent_times": table.absent,
        "missing_values": sum(table.missing),
        "verdict": graph.verdict_words(options.alpha),
        "rows_complete": [int(complete.min()), int(complete.max())],
        "rows_used": [int(rows_used.min()), int(rows_used.max())],
        "measure": graph.measure,
        "null": graph.null,
        "window": graph.window,
        "embeddings": {
            name: {"lag": embedding.lag, "order": embedding.order_x}
            for name, embedding in zip(graph.names, graph.embeddings, strict=True)
        },
        "links": graph.rows(),
    }


def print_links(graph: CausalGraph, options: CausalOptions, console: Terminal) -> None:
    """Print the links, most certain first; significant ones are marked."""
    table = PrintedTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("source", "", "target", "score", "rows", "p", "adjusted p", ""):
        table.add_column(title, justify="left" if title in ("", "target") else "right")
    for row in graph.rows():
        is_link = row["pvalue_adjusted"] <= options.alpha
        table.add_row(
            foreign(row["source"]),
            "→",
            foreign(row["target"]),
            f"{row['score']:.4g}",
            f"{row['rows_used']:,}",
            pvalue_words(row["pvalue"]),
            pvalue_words(row["pvalue_adjusted"]),
            "drives" if is_link else "",
            style="bold green" if is_link else "dim",
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
