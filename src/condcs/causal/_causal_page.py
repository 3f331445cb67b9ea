"""The page of ``condcs causal``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray
from condcs._core.colours import BLUE
from condcs.causal._graphs import draw_links, draw_matrix, pvalue_words, without_formulas
from condcs.causal._series import TimeAxis
from condcs.report._page import Page, drawing

if TYPE_CHECKING:
    from condcs.causal import CausalGraph


MOST_SERIES, MOST_TIMES = 12, 400
"""What the figure of the series shows: each of them is a strip of 0.6 inches, and 400 times on 8 inches are still seen
one by one. The tests use all of both."""


def causal_page(
    graph: CausalGraph,
    series: FloatArray,
    *,
    title: str,
    sizes: str,
    alpha: float,
    seed: int,
    command: str,
    axis: TimeAxis | None = None,
) -> Page:
    """Return the page: links in a table, the graph, the matrix of scores, the series over `axis`, what was done."""
    is_link, links = graph.adjacency(alpha), graph.links(alpha)
    page = Page(
        f"What drives what in {title}",
        f"{graph.verdict_words(alpha)} A link means that the past of one series carries information "
        "about the next value of another beyond that series' own past.",
    )
    page.section("Links")
    rows = [
        [
            r["source"],
            r["target"],
            r["score"],
            r["rows_used"],
            pvalue_words(r["pvalue"]),
            pvalue_words(r["pvalue_adjusted"]),
            "drives" if r["pvalue_adjusted"] <= alpha else "",
        ]
        for r in graph.rows()
    ]
    page.table(
        ["source", "target", "score", "rows used", "p", "adjusted p", ""], rows, "All ordered pairs, most certain first"
    )
    figure, axes = drawing(4.8, 4.4, framed=True)
    draw_links(axes, graph.names, is_link, strengths=graph.scores)
    page.figure(
        figure,
        "Graph of the links found: " + ("; ".join(f"{a} drives {b}" for a, b in links) or "none"),
        f"Links with an adjusted p-value of at most {alpha:g}; wider arrows have larger scores.",
    )
    figure, axes = drawing(5, 4.4, framed=True)
    draw_matrix(axes, graph.names, graph.scores, is_link)
    page.figure(
        figure,
        "Matrix of the scores, sources in rows and targets in columns",
        "Scores. Frames, not shades, say which are links: series with a long memory have large scores by chance.",
    )
    page.section("Series")
    page.figure(draw_series(graph.names, series, axis), "The series over time", _series_caption(series))
    page.section("How to read this")
    page.points(
        [
            "The test is Granger's: it is about prediction. A common cause that is not in the table can make two "
            "series look linked.",
            "Without --conditional, a chain a → b → c may show a → c as well: an influence, but an indirect one.",
            "The tests (signs where the past leaves noise, surrogate windows where it does not) assume that the series "
            "are stationary. A linear trend or a wave that two series share is allowed for; other trends and seasons "
            "look like an influence. Remove them first.",
        ]
    )
    page.section("How it was made")
    page.facts(
        {
            "series": sizes,
            **({"rows": graph.missing_words()} if graph.missing_words() else {}),
            "measure": graph.measure,
            "past values": graph.embedding_words(),
            "null": graph.null_words(),
            "adjusted for": f"{len(rows)} tests (Benjamini-Hochberg)",
            "seed": seed,
        }
    )
    page.command(command)
    return page


def draw_series(names: Sequence[str], series: FloatArray, times: TimeAxis | None = None) -> Any:
    """Draw each series over the times of its table, or over time steps if it has none."""
    names = names[:MOST_SERIES]
    figure, axes = drawing(8, 0.9 + 0.62 * len(names), len(names), 1, sharex=True, squeeze=False)
    steps: AnyArray = np.arange(len(series)) if times is None else times.values
    if times is not None and times.are_dates:
        # From days to milliseconds: matplotlib chooses the dates that it writes below.
        steps = np.rint(times.values * 86_400_000).astype("datetime64[ms]")
    for axis, name, column in zip(axes.flat, names, series.T, strict=False):
        axis.plot(steps[:MOST_TIMES], column[:MOST_TIMES], color=BLUE, lw=0.9)
        axis.set_ylabel(
            without_formulas(name if len(name) <= 14 else f"{name[:13]}…"),
            rotation=0,
            ha="right",
            va="center",
            fontsize=8,
        )
        axis.tick_params(labelsize=7)
    below = axes[-1, 0]
    below.set_xlabel("time step" if times is None else without_formulas(times.name), fontsize=8)
    return figure


def _series_caption(series: FloatArray) -> str:
    n = len(series)
    words = f"The first {MOST_TIMES:,} of {n:,} times" if n > MOST_TIMES else f"All {n:,} times"
    return f"{words}, the first {MOST_SERIES} series." if series.shape[1] > MOST_SERIES else f"{words}."
