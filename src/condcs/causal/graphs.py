"""All links of a set of series: scores, p-values, and a result that prints, exports and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condcs.causal.embedding import Embedding, check_embedding
from condcs.causal.linear_granger import MissingPartnerError
from condcs.causal.measures import CS
from condcs.causal.problem import CausalProblem, Link
from condcs.causal.selection import choose_embedding
from condcs.causal.series import FloatArray, Series, check_flag, check_series_table, in_ranks
from condcs.causal.testing import N_WINDOWS, LinkTests, NullSettings, tested_links
from condcs.core.arrays import Array
from condcs.core.checks import check_alpha, check_integer
from condcs.core.equality import ByValue
from condcs.core.errors import public

_LARGEST_LAG, _LARGEST_ORDER = 3, 4


@dataclass(frozen=True, eq=False)
class CausalGraph(ByValue):
    """Outcome of `causal_graph`; entry [i, j] of every matrix is for i -> j, the diagonal is NaN.

    Attributes
    ----------
    names : tuple of str
        Names of the series.
    scores : array, shape (variables, variables)
        `causal_score` on the whole series.
    statistics : array
        The score that was tested: the mean over windows, or on the whole series for other nulls.
    pvalues, pvalues_adjusted : array
        Raw, and adjusted for testing all links by Benjamini and Hochberg.
    null_distributions : array, shape (variables, variables, n_resamples)
        Scores of the surrogates.
    embedding : Embedding
        Lags and orders in force.
    measure, null : str
        What was computed, and how surrogates were made.
    window : int
        Rows of a window; of the whole series for other nulls.
    bandwidths : array or None
        Width on the source's and on the target's values, last axis, for conditional CS.
    """

    names: tuple[str, ...]
    scores: FloatArray
    statistics: FloatArray = field(repr=False)
    pvalues: FloatArray
    pvalues_adjusted: FloatArray = field(repr=False)
    null_distributions: FloatArray = field(repr=False)
    embedding: Embedding
    measure: str
    null: str
    window: int
    bandwidths: FloatArray | None = field(repr=False, default=None)

    def links(self, alpha: float = 0.05, *, adjusted: bool = True) -> list[tuple[str, str]]:
        """Return the links with an (adjusted) p-value of at most `alpha`, most certain first."""
        return [(self.names[i], self.names[j]) for i, j in self._ranked() if self._values(adjusted)[i, j] <= alpha]

    def adjacency(self, alpha: float = 0.05, *, adjusted: bool = True) -> np.ndarray[Any, Any]:
        """Return the significant links as a matrix of bool."""
        found = self._values(adjusted) <= check_alpha(alpha)
        np.fill_diagonal(found, False)
        return np.asarray(found)

    def _values(self, adjusted: bool) -> FloatArray:
        return self.pvalues_adjusted if adjusted else self.pvalues

    def _ranked(self) -> list[tuple[int, int]]:
        pairs = [(i, j) for i in range(len(self.names)) for j in range(len(self.names)) if i != j]
        return sorted(pairs, key=lambda ij: (self.pvalues[ij], -self.scores[ij]))

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per link, most certain first: source, target, score, p-values."""
        return [
            {
                "source": self.names[i],
                "target": self.names[j],
                "score": float(self.scores[i, j]),
                "pvalue": float(self.pvalues[i, j]),
                "pvalue_adjusted": float(self.pvalues_adjusted[i, j]),
            }
            for i, j in self._ranked()
        ]

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise _missing("to_frame", "pandas", "condcs[cli]") from error
        return pandas.DataFrame(self.rows())

    def to_networkx(self, alpha: float = 0.05, *, adjusted: bool = True) -> Any:
        """Return the significant links as a networkx DiGraph; edges carry score, pvalue and pvalue_adjusted."""
        try:
            import networkx
        except ImportError as error:
            raise _missing("to_networkx", "networkx", "condcs[causal]") from error
        graph = networkx.DiGraph()
        graph.add_nodes_from(self.names)
        found = self.adjacency(alpha, adjusted=adjusted)
        for i, j in np.argwhere(found):
            graph.add_edge(
                self.names[i],
                self.names[j],
                score=float(self.scores[i, j]),
                pvalue=float(self.pvalues[i, j]),
                pvalue_adjusted=float(self.pvalues_adjusted[i, j]),
            )
        return graph

    def plot(self, alpha: float = 0.05, *, adjusted: bool = True, axes: Any = None) -> Any:
        """Draw the graph of significant links beside the matrix of scores; return the matplotlib figure."""
        from condcs.causal.plots import draw_causal_graph

        return draw_causal_graph(self, check_alpha(alpha), adjusted=adjusted, axes=axes)

    def __str__(self) -> str:
        wide = max(len(name) for name in self.names)
        lines = [f"{'link':<{2 * wide + 4}}  {'score':>9}  {'p':>7}  {'adjusted':>8}"]
        for row in self.rows():
            mark = " *" if row["pvalue_adjusted"] <= 0.05 else ""
            link = f"{row['source']:>{wide}} -> {row['target']:<{wide}}"
            lines.append(f"{link}  {row['score']:9.4g}  {row['pvalue']:7.4f}  {row['pvalue_adjusted']:8.4f}{mark}")
        e = self.embedding
        lines.append(
            f"{self.measure}, {self.null} null, {self.window} rows, lag {e.lag}, order {e.order_x}; "
            "* adjusted p <= 0.05"
        )
        return "\n".join(lines)


@public
def causal_graph(
    series: Array,
    *,
    names: Sequence[str] | None = None,
    lag: int | str = 1,
    delay: int | None = None,
    order: int | str = 1,
    conditional: bool = False,
    ranks: bool = False,
    measure: str = CS,
    form: str = "corrected",
    bandwidth: Any = None,
    null: str = "windows",
    n_resamples: int = 200,
    window: int | None = None,
    minimum_offset: int | None = None,
    n_windows: int = N_WINDOWS,
    block: int = 1,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    **options: Any,
) -> CausalGraph:
    """Test all ordered pairs of series for which drives which.

    The null hypothesis of each pair is that of `causal_test`. Every series has one Gram matrix, shared by all links and
    all surrogates, and all links see the same surrogate windows. Cost O(V^2 P T^2); memory O(V n + V^2 P T).

    Parameters
    ----------
    series : array, shape (n, variables), or DataFrame
        Rows are equally spaced times. An index, if there is one, must go forward.
    names : sequence of str, optional
        Names of the variables; by default those of the columns, or x1, x2, ...
    lag, order : int or "auto"
        As in `causal_score`; "auto" chooses them by `select_embedding`.
    delay : int, optional
        As in `causal_score`.
    conditional : bool
        Condition each link on the pasts of all other series, which leaves out indirect links. That takes many samples:
        the past then has as many dimensions as there are series, times the order.
    ranks, measure, form, bandwidth, options
        As in `causal_score`.
    null, n_resamples, window, minimum_offset, n_windows, block, rng, n_jobs, progress
        As in `causal_test`.

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
    variables = check_series_table("series", series, names)
    variables = in_ranks(variables) if check_flag("ranks", ranks) else variables
    embedding = _embedding(variables, lag, delay, order)
    check_flag("conditional", conditional)
    count = len(variables)
    links = tuple(
        Link(i, j, tuple(k for k in range(count) if k not in (i, j)) if conditional else ())
        for j in range(count)
        for i in range(count)
        if i != j
    )
    problem = CausalProblem(tuple(variables), embedding, links)
    settings = NullSettings(null, n_resamples, window, minimum_offset, n_windows, block)
    found = tested_links(problem, measure, form, bandwidth, settings, rng, n_jobs, progress, options)
    return _graph(problem, found, measure, null)


def _embedding(variables: list[Series], lag: Any, delay: Any, order: Any) -> Embedding:
    length = len(variables[0])
    if "auto" not in (lag, order):
        return check_embedding(lag, delay, order, None, None, length)
    for name, value in (("lag", lag), ("order", order)):
        if value != "auto":
            check_integer(name, value, 1)
    chosen = choose_embedding(
        variables, _LARGEST_LAG if lag == "auto" else lag, _LARGEST_ORDER if order == "auto" else order
    )
    return check_embedding(
        chosen.lag if lag == "auto" else lag, delay, chosen.order if order == "auto" else order, None, None, length
    )


def _graph(problem: CausalProblem, found: LinkTests, measure: str, null: str) -> CausalGraph:
    from scipy.stats import false_discovery_control

    count = len(problem.series)
    sources, targets = (np.array([link[k] for link in problem.links]) for k in (0, 1))

    def matrix(values: FloatArray) -> FloatArray:
        made = np.full((count, count, *values.shape[1:]), np.nan)
        made[sources, targets] = values
        return made

    widths = None
    if found.widths is not None:
        every = np.arange(len(problem.links))
        widths = matrix(np.stack([found.widths[every, sources], found.widths[every, targets]], axis=1))
    return CausalGraph(
        names=tuple(s.name for s in problem.series),
        scores=matrix(found.scores),
        statistics=matrix(found.statistics),
        pvalues=matrix(found.pvalues),
        pvalues_adjusted=matrix(false_discovery_control(found.pvalues, method="bh")),
        null_distributions=matrix(found.nulls),
        embedding=problem.embedding,
        measure=measure,
        null=null,
        window=found.window,
        bandwidths=widths,
    )


def _missing(method: str, partner: str, target: str) -> MissingPartnerError:
    return MissingPartnerError(
        f"`{method}` must have {partner}, which is not installed. Install it with: pip install '{target}'"
    )
