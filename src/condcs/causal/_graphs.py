"""All links between several series: scores and p-values, how they are printed, exported and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from condcs._core.arrays import Array, BoolArray, ByValue, FloatArray, IntArray
from condcs._core.checks import check_alpha, check_rng
from condcs._core.colours import BLUE, NAVY, ORANGE, PALE_GREY
from condcs._core.errors import MissingPartnerError, ParameterError, public
from condcs._core.printable import counted
from condcs._core.settings import config_context
from condcs._core.vocabulary import named, setting
from condcs.causal._influence_measures import InfluenceMeasure
from condcs.causal._link_tests import LinkNull, LinkTests, joined_tests, run_link_tests
from condcs.causal._predictive_choice import EmbeddingOption, embeddings_of
from condcs.causal._series import (
    CausalProblem,
    Embedding,
    Link,
    MissingTimes,
    Series,
    check_embedding,
    check_flag,
    check_series_table,
    in_ranks,
)

_MOST_LABELLED = 12
"""Series up to which nodes are large and the entries of the matrix are written out; of more, the numbers, in a font of
eight points on a drawing four inches wide, would run into one another."""

_STARRED = 0.05
"""Adjusted p-value up to which a printed link has a star; that of `links` where the caller names none."""

_MOST_NAMED = 5
"""Links that a verdict names, the most certain ones; the others are counted, so that it stays one short sentence."""


@dataclass(frozen=True, eq=False)
class CausalGraph(ByValue):
    """Result of `causal_graph`; entry [i, j] of every matrix is for i -> j, the diagonal is NaN.

    Attributes
    ----------
    names : tuple of str
        Names of the series.
    scores : array, shape (variables, variables)
        `causal_score` on the whole series.
    statistics : array
        What was tested: -log10 of the p-value (null "signs"), or the score, over windows or on the whole series.
    pvalues, pvalues_adjusted : array
        Raw, and adjusted for testing all links by Benjamini and Hochberg.
    null_distributions : array, shape (variables, variables, n_resamples)
        Scores of the surrogates; NaN for links tested by signs, and empty if all are.
    embeddings : tuple of Embedding
        Lags and orders used, one for each target.
    measure, null : str
        What was computed, and how it was tested; "signs and windows" if links differ.
    window : int
        Rows of a window; of the whole series for other nulls. If links differ by missing values, the fewest.
    times : int
        Length of the series, holes included.
    complete : array of int
        Number of times at which the target and both pasts were measured.
    rows_used : array of int
        Rows that each link was really tested on. Fewer than `complete` if the link was also conditioned on a value that
        some of the rows lack, such as that of a third series, or of the target one season ago.
    bandwidths : array or None
        Bandwidth on the source's and on the target's values (last axis), for conditional CS.
    """

    names: tuple[str, ...]
    scores: FloatArray
    statistics: FloatArray = field(repr=False)
    pvalues: FloatArray
    pvalues_adjusted: FloatArray = field(repr=False)
    null_distributions: FloatArray = field(repr=False)
    embeddings: tuple[Embedding, ...]
    measure: str
    null: str
    window: int
    times: int
    complete: IntArray = field(repr=False)
    rows_used: IntArray = field(repr=False)
    bandwidths: FloatArray | None = field(repr=False, default=None)

    def links(self, alpha: float = 0.05, *, adjusted: bool = True) -> list[tuple[str, str]]:
        """Return the links with an (adjusted) p-value of at most `alpha`, smallest p-value first."""
        is_link = self.adjacency(alpha, adjusted=adjusted)  # (variables, variables)
        return [(self.names[i], self.names[j]) for i, j in self._ranked() if is_link[i, j]]

    def adjacency(self, alpha: float = 0.05, *, adjusted: bool = True) -> BoolArray:
        """Return the significant links as a matrix of bool."""
        pvalues = self.pvalues_adjusted if adjusted else self.pvalues
        is_link = pvalues <= check_alpha(alpha)
        np.fill_diagonal(is_link, False)
        return np.asarray(is_link)

    def _ranked(self) -> list[tuple[int, int]]:
        pairs = [(i, j) for i in range(len(self.names)) for j in range(len(self.names)) if i != j]
        return sorted(pairs, key=lambda ij: (self.pvalues[ij], -self.scores[ij]))

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per link, smallest p-value first: source, target, score, p-values, rows used by the test."""
        return [
            {
                "source": self.names[i],
                "target": self.names[j],
                "score": float(self.scores[i, j]),
                "pvalue": float(self.pvalues[i, j]),
                "pvalue_adjusted": float(self.pvalues_adjusted[i, j]),
                "rows_used": int(self.rows_used[i, j]),
            }
            for i, j in self._ranked()
        ]

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return _partner("to_frame", "pandas", "condcs[cli]").DataFrame(self.rows())

    def to_networkx(self, alpha: float = 0.05, *, adjusted: bool = True) -> Any:
        """Return the significant links as a networkx DiGraph; edges carry the numbers of `rows`."""
        graph = _partner("to_networkx", "networkx", "condcs[causal]").DiGraph()
        graph.add_nodes_from(self.names)
        links = set(self.links(alpha, adjusted=adjusted))
        for row in self.rows():
            ends = row.pop("source"), row.pop("target")
            if ends in links:
                graph.add_edge(*ends, **row)
        return graph

    @public
    def plot(self, alpha: float = 0.05, *, adjusted: bool = True, axes: Any = None) -> Any:
        """Plot the graph of significant links beside the matrix of scores; return the matplotlib figure."""
        from matplotlib.figure import Figure

        is_link = self.adjacency(alpha, adjusted=adjusted)
        if axes is None:
            axes = Figure(figsize=(9.6, 4.4), layout="constrained").subplots(1, 2)
        graph_axes, matrix_axes = axes
        draw_links(graph_axes, self.names, is_link, strengths=self.scores)
        graph_axes.set_title(f"links with {'adjusted p' if adjusted else 'p'} ≤ {alpha:g}", fontsize=10)
        draw_matrix(matrix_axes, self.names, self.scores, is_link)
        return matrix_axes.figure

    def __str__(self) -> str:
        wide = max(len(name) for name in self.names)
        lines = [f"{'link':<{2 * wide + 4}}  {'score':>9}  {'rows':>7}  {'p':>7}  {'adjusted':>8}"]
        for row in self.rows():
            mark = " *" if row["pvalue_adjusted"] <= _STARRED else ""
            link = f"{row['source']:>{wide}} -> {row['target']:<{wide}}"
            p, adjusted = (pvalue_words(row[name]) for name in ("pvalue", "pvalue_adjusted"))
            lines.append(f"{link}  {row['score']:9.4g}  {row['rows_used']:>7,}  {p:>7}  {adjusted:>8}{mark}")
        lines.append(f"{self.measure}, {self.null_words()}, {self.embedding_words()}; * adjusted p <= {_STARRED:g}")
        if self.missing_words():
            lines.append(self.missing_words())
        return "\n".join(lines)

    def missing_words(self) -> str:
        """Say how many times were left out because of missing values; empty if there were none."""
        reach = max(e.reach for e in self.embeddings)
        possible = self.times - reach
        if self._of_links(self.complete).min() == possible:
            return ""
        return (
            f"Missing values: {_span(self._of_links(self.complete))} of {possible:,} times have a complete past, which "
            f"does not reach across a hole. The tests used {_span(self._of_links(self.rows_used))} of them."
        )

    def _of_links(self, matrix: IntArray) -> IntArray:
        """Return the entries of a matrix that belong to links."""
        return np.asarray(matrix[~np.eye(len(self.names), dtype=bool)])

    def verdict_words(self, alpha: float = 0.05) -> str:
        """Say which links there is evidence for; that there is none for any of them does not mean that none exists."""
        links, tested = self.links(alpha), len(self._ranked())
        scope = f"{len(links)} of {counted(tested, 'possible link')} at a false discovery rate of {alpha:g}"
        if not links:
            return (
                f"No evidence that any series drives another: {scope}. That is no evidence against a link: one may be "
                "too weak for so few rows."
            )
        clauses = [f"{source} drives {target}" for source, target in links[:_MOST_NAMED]]
        if len(links) > _MOST_NAMED:
            clauses.append(counted(len(links) - _MOST_NAMED, "more link"))
        return f"{', '.join(clauses)}: {scope}."

    def null_words(self) -> str:
        """Say how links were tested, and on how much."""
        drawn = self.null_distributions.shape[-1]
        rows = self._of_links(self.rows_used)
        words = f"{self.null} null on {_span(rows)} rows"
        if self.window < rows.min():
            words += f", windows of {self.window:,}"
        return words + (f", {counted(drawn, 'resample')}" if drawn else "")

    def embedding_words(self) -> str:
        """Say lag and order, for each target if they differ."""
        embeddings = [e.words() for e in self.embeddings]
        if len(set(embeddings)) == 1:
            return embeddings[0]
        return "; ".join(f"{name}: {embedding}" for name, embedding in zip(self.names, embeddings, strict=True))


@public
def causal_graph(
    series: Array | Mapping[str, Array],
    *,
    embedding: EmbeddingOption | Mapping[str, Embedding] = "auto",
    conditional: bool = False,
    measure: InfluenceMeasure = "conditional_cs",
    ranks: bool = False,
    missing: MissingTimes = "error",
    null: LinkNull = "auto",
    n_resamples: int = 200,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> CausalGraph:
    """Test all ordered pairs of series for which drives which.

    The null hypothesis of each pair, and the choice of the test, are those of `causal_test`. Scores of all links and
    surrogates share one Gram matrix per series, and all links have the same surrogate windows. Cost O(V^2 P n^2);
    memory O(V n + V^2 P n).

    Parameters
    ----------
    series : array, shape (n, variables), DataFrame, or mapping from names to series
        Rows are equally spaced times. The columns of an array are called x1, x2, ... Of pandas objects the index must
        be increasing; dates and numbers in it show where times are absent. A time counts for a link if the target and
        both pasts were measured, so that no past reaches across a hole (`CausalGraph.complete` says how many do).
        A third series or a season is conditioned on only if at least half of these times have its value
        (`CausalGraph.rows_used`).
    embedding : "auto", int, Embedding, or mapping from names of targets to Embedding
        As in `causal_test`: by default lag and order of each target are those that predict it best
        (`select_embeddings` says how). With too short an own past, the reverse of a true link looks significant.
        Conditional links have one lag and order, at which the pasts of all series predict all of them best.
    conditional : bool
        Condition each link on the pasts of all other series, which excludes indirect links. The past then has as many
        dimensions as there are series, times the order; 150 times were enough for 7 series of order 1.
    measure, ranks, missing
        As in `causal_score`.
    null, n_resamples, rng, n_jobs
        As in `causal_test`.
    progress : bool
        Show a progress bar.

    Returns
    -------
    CausalGraph
        `scores[i, j]`, `pvalues[i, j]` and `pvalues_adjusted[i, j]` for i -> j; prints as a table.

    Examples
    --------
    >>> from condcs.datasets import make_nlvar3
    >>> graph = causal_graph(make_nlvar3(800, rng=2).series, rng=0)
    >>> graph.adjacency(adjusted=False).astype(int).tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    """
    variables = check_series_table("series", series, missing)
    variables = in_ranks(variables) if check_flag("ranks", ranks) else variables
    embeddings = _embeddings(embedding, variables, conditional=check_flag("conditional", conditional))
    links = _all_links(len(variables), conditional=conditional)
    generator = check_rng(rng)
    problems = _problems(tuple(variables), embeddings, links)
    with config_context(n_threads=n_jobs) if n_jobs is not None else nullcontext():
        tests = [run_link_tests(p, measure, null, n_resamples, generator, progress=progress) for p in problems]
    return _graph([one.name for one in variables], embeddings, problems, joined_tests(tests))


def _all_links(count: int, *, conditional: bool) -> tuple[Link, ...]:
    """Return the links between all ordered pairs of series, each given all other series if `conditional`."""
    links = []
    for target in range(count):
        for source in range(count):
            if source != target:
                others = tuple(k for k in range(count) if k not in (source, target))
                links.append(Link(source, target, others if conditional else ()))
    return tuple(links)


def _problems(
    variables: tuple[Series, ...], embeddings: tuple[Embedding, ...], links: tuple[Link, ...]
) -> list[CausalProblem]:
    """Group links with the same embedding and the same complete rows into one problem; they share all matrices."""
    # Without gaps all links have the same rows, those with a complete past of the longest.
    furthest = max(embedding.reach for embedding in embeddings)
    groups: dict[tuple[Embedding, bytes], list[Link]] = {}
    for link in links:
        embedding = embeddings[link.target]
        times = CausalProblem(variables, embedding, (link,), furthest).times  # (rows,)
        groups.setdefault((embedding, times.tobytes()), []).append(link)
    return [CausalProblem(variables, embedding, tuple(group), furthest) for (embedding, _), group in groups.items()]


def _embeddings(
    embedding: EmbeddingOption | Mapping[str, Embedding], targets: list[Series], *, conditional: bool
) -> tuple[Embedding, ...]:
    """Return the embedding of each target: from a mapping of names, one for all, or the one that predicts it best."""
    if not isinstance(embedding, Mapping):
        return embeddings_of(targets, range(len(targets)), embedding, conditional=conditional)
    absent = [target.name for target in targets if target.name not in embedding]
    if absent:
        raise ParameterError(
            f"{named('embedding')} must name every series if it is a mapping, got none for {absent[0]!r}. Add it, or "
            f"pass {setting('embedding', 'auto')}."
        )
    length = len(targets[0])
    return tuple(check_embedding(embedding[target.name], length) for target in targets)


def _graph(
    names: list[str], embeddings: tuple[Embedding, ...], problems: list[CausalProblem], tests: LinkTests
) -> CausalGraph:
    """Put the tests of links, in the order of the problems and their links, into matrices."""
    from scipy.stats import false_discovery_control

    count = len(names)
    links = [link for problem in problems for link in problem.links]
    sources = np.array([link.source for link in links])
    targets = np.array([link.target for link in links])
    complete = np.zeros((count, count), np.int64)
    complete[sources, targets] = [problem.rows for problem in problems for _ in problem.links]
    rows_used = np.zeros((count, count), np.int64)
    rows_used[sources, targets] = tests.rows_used

    def matrix(values: FloatArray) -> FloatArray:
        """Put the values of links, shape (links, ...), where source and target cross; NaN on the diagonal."""
        entries = np.full((count, count, *values.shape[1:]), np.nan)
        entries[sources, targets] = values
        return entries

    bandwidths = None
    if tests.bandwidths is not None:
        every = np.arange(len(links))
        # (links, variables) -> (links, 2): those of the source and of the target.
        of_ends = tests.bandwidths[every, sources], tests.bandwidths[every, targets]
        bandwidths = matrix(np.stack(of_ends, axis=1))
    return CausalGraph(
        names=tuple(names),
        scores=matrix(tests.scores),
        statistics=matrix(tests.statistics),
        pvalues=matrix(tests.pvalues),
        pvalues_adjusted=matrix(false_discovery_control(tests.pvalues, method="bh")),
        null_distributions=matrix(tests.null_distributions),
        embeddings=embeddings,
        measure=tests.measure,
        null=tests.null,
        window=tests.window,
        times=len(problems[0].series[0]),
        complete=complete,
        rows_used=rows_used,
        bandwidths=bandwidths,
    )


def _partner(method: str, name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPartnerError(
            f"{named(method)} needs {name}, which is not installed. Install it with: pip install '{extra}'"
        ) from error


def _span(counts: IntArray) -> str:
    """Return the fewest and the most of some counts, or the one number that they all are."""
    fewest, most = counts.min(), counts.max()
    return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"


def pvalue_words(p: float) -> str:
    """Return a p-value with four digits."""
    return f"{p:.4f}" if p >= 1e-4 else "<0.0001"


def without_formulas(name: str) -> str:
    """Return a name that matplotlib shows as it is: a dollar sign would start a formula."""
    return name.replace("$", r"\$")


def circle(count: int) -> Any:
    """Return where the nodes are drawn, shape (count, 2): on a circle, the first at the top, clockwise."""
    angles = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def draw_links(axis: Any, names: Any, is_link: Any, *, strengths: Any = None, colours: Any = None) -> None:
    """Draw nodes on a circle and an arrow per link; the arrows of a pair of opposite links are curved."""
    nodes, size = circle(len(names)), 17 if len(names) <= _MOST_LABELLED else 9
    top = np.nanmax(np.where(is_link, strengths, np.nan)) if strengths is not None and is_link.any() else 1.0
    for i, j in np.argwhere(is_link):
        share = 1.0 if strengths is None or not top > 0 else max(float(strengths[i, j]) / top, 0.0)
        axis.annotate(
            "",
            xy=nodes[j],
            xytext=nodes[i],
            arrowprops={
                "arrowstyle": "-|>,head_length=0.5,head_width=0.25",
                "connectionstyle": f"arc3,rad={0.18 if is_link[j, i] else 0.0}",
                "color": BLUE if colours is None else colours[i, j],
                "lw": 0.9 + 2.2 * share,
                "shrinkA": size * 0.75,
                "shrinkB": size * 0.75,
            },
        )
    axis.plot(*nodes.T, "o", ms=size * 1.35, color="white", mec=NAVY, mew=1.3, zorder=3)
    for name, node in zip(names, nodes, strict=True):
        if all(len(n) <= 4 for n in names):
            label = without_formulas(name)
            axis.text(*node, label, ha="center", va="center_baseline", fontsize=9, color=NAVY, zorder=4)
        else:
            side = "left" if node[0] > 0.1 else "right" if node[0] < -0.1 else "center"
            height = "bottom" if node[1] > 0.9 else "top" if node[1] < -0.9 else "center"
            axis.text(*(1.16 * node), without_formulas(name), ha=side, va=height, fontsize=9, color=NAVY, zorder=4)
    axis.set(xlim=(-1.45, 1.45), ylim=(-1.35, 1.35), aspect="equal")
    axis.set_axis_off()


def draw_matrix(axis: Any, names: Any, scores: Any, is_link: Any) -> None:
    """Draw scores as shades; significant links get a frame."""
    from matplotlib.patches import Rectangle

    shown = axis.imshow(
        np.where(np.isfinite(scores), scores, np.nan), cmap="Blues", vmin=0 if np.nanmin(scores) >= 0 else None
    )
    axis.figure.colorbar(shown, ax=axis, shrink=0.8, label="score")
    shown_names = [without_formulas(name) for name in names]
    axis.set_xticks(range(len(names)), shown_names, rotation=0 if max(map(len, names)) < 4 else 45, ha="center")
    axis.set_yticks(range(len(names)), shown_names)
    axis.set(xlabel="target", ylabel="source")
    if len(names) <= _MOST_LABELLED:
        middle = (np.nanmax(scores) + min(np.nanmin(scores), 0)) / 2
        digits = int(np.clip(1 - np.floor(np.log10(max(np.nanmax(np.abs(scores)), 1e-9))), 0, 6))
        for i, j in np.argwhere(np.isfinite(scores)):
            colour = "white" if scores[i, j] > middle else NAVY
            axis.text(j, i, f"{scores[i, j]:.{digits}f}", ha="center", va="center", fontsize=8, color=colour)
    for i, j in np.argwhere(is_link):
        axis.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, fill=False, ec=ORANGE, lw=1.8))
    axis.set_title("scores; framed: significant", fontsize=10)
    axis.tick_params(length=0)
    axis.spines[:].set_color(PALE_GREY)
