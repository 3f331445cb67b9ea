r"""Bandwidth, lag and order chosen by prediction, without knowing the graph.

With too large a bandwidth, the target's own past is smoothed: then the past of any related series sharpens it again,
and the reverse of a true link looks significant. With too small a bandwidth, rows have no neighbours, and no link is
found. So the bandwidth is chosen by how well it predicts: by the leave-one-out likelihood of the target given both
pasts, with the source circularly shifted in time so that it carries no information. The link itself is not used, which
keeps the test valid, and the bandwidth shrinks with more samples, fewer dimensions or less noise. Lag and order are
chosen by the same likelihood of each series given its past.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from condcs._core.arrays import Array, FloatArray, IntArray
from condcs._core.checks import check_integer
from condcs._core.errors import ShapeError, public
from condcs._core.printable import Printable
from condcs._regression.smoother import Smoother
from condcs.causal._grams import DenseGrams
from condcs.causal._influence_measures import InfluenceBandwidthRule, bandwidth_in_unit, median_bandwidth
from condcs.causal._series import (
    FEWEST_TARGETS,
    CausalProblem,
    Embedding,
    Link,
    MissingTimes,
    Series,
    check_embedding,
    check_flag,
    check_series_table,
    in_ranks,
    level_and_steps,
    needs_steps,
    persistent_columns,
)

EmbeddingOption = int | Embedding | Literal["auto"]

LAGS, ORDERS = (1, 2, 3), (1, 2, 3, 4)
"""Lags and orders that are tried by default: ten pairs. More cost more time, and leave fewer rows to compare them on:
each candidate predicts only the targets that have a complete past of the longest."""

LARGEST_IN_MEDIANS = 2.0
"""Largest bandwidth tried, in medians of the distance between two values of the series; each next one is smaller by
sqrt(2), so that its kernel is the square of the one before."""

BANDWIDTH_LEVELS = 12
"""Number of bandwidths tried: down to 1/22 of the median."""

SOURCE_SHIFTS = 8
"""Number of circular shifts of the source, evenly spaced."""

_ROWS_OF_EMBEDDING = 512
"""Number of rows that the choice of lag and order uses at most. Each candidate costs 36 products of matrices of so many
rows and columns; more rows tell candidates apart that differ less."""

_NARROWER = (0, 2, 4)
"""How many levels narrower than on the target the bandwidth on the past is tried: equal, half and a quarter."""

_TIMES_PER_STEP = 10
"""An embedding that is chosen looks back over at most a tenth of the series."""

_ROWS_PER_COLUMN = 3
"""Rows for each column of a past that a regression on it must have: with fewer, hardly any row is left to check it."""

ROWS_OF_CHOICE = 1024
"""Number of rows that the choice of a bandwidth, or of one embedding for all series, uses at most: the first ones. Time
and memory grow with their square."""

PSEUDO_COUNT = 0.1
"""Weight of the marginal distribution in each prediction, in neighbours: it predicts rows without any."""


def largest_bandwidths(problem: CausalProblem, bandwidth: InfluenceBandwidthRule | float) -> FloatArray:
    """Return the bandwidth of each series, in its unit, shape (variables,): the largest one if levels are tried."""
    if not isinstance(bandwidth, str):
        return np.array([bandwidth_in_unit(bandwidth, one.exponent) for one in problem.series])
    medians = np.array([median_bandwidth(one.measured) for one in problem.series])
    return LARGEST_IN_MEDIANS * medians if bandwidth == "predictive" else medians


def bandwidth_levels(
    problem: CausalProblem, largest: FloatArray, bandwidth: InfluenceBandwidthRule | float
) -> IntArray:
    """Return how often the bandwidths of each link are divided by sqrt(2), shape (links,).

    The predictive rule chooses that by prediction; other bandwidths stay as they are.
    """
    if bandwidth != "predictive":
        return np.zeros(len(problem.links), np.int64)
    grams = DenseGrams(problem, largest, min(problem.rows, ROWS_OF_CHOICE))
    return np.array([int(np.argmax(predictive_likelihoods(grams, link))) for link in problem.links])


def predictive_likelihoods(grams: DenseGrams, link: Link) -> FloatArray:
    r"""Return the mean leave-one-out log-likelihood of the target at each level, up to a constant.

    .. math:: \ell(\sigma) = \frac{1}{n} \sum_j \log \frac{B^{12}_j - 1 + \epsilon m}{A^{12}_j - 1 + \epsilon}
              - d_y \log \sigma

    with row sums as in `condcs.conditional_cs_predictors`, m the mean of L, averaged over the shifts of the source.
    """
    from condcs.causal._gram_loops import reordered_sums

    n = grams.rows
    shifts = (np.arange(1, SOURCE_SHIFTS + 1) * n) // (SOURCE_SHIFTS + 1)
    row_orders = (np.arange(n) + shifts[:, None]) % n  # (shifts, n)
    K1, L = grams.condition(link), grams.target(link)
    sums = reordered_sums(K1, K1 * L, grams.source(link), row_orders, BANDWIDTH_LEVELS)  # (shifts, levels, 2, n)
    A12, B12 = sums[:, :, 0], sums[:, :, 1]
    marginal = np.empty((BANDWIDTH_LEVELS, 1))
    for level in range(BANDWIDTH_LEVELS):
        marginal[level] = _mean_off_diagonal(L)
        # Squared, a kernel has a bandwidth smaller by sqrt(2): the next level.
        L = L * L
    likelihoods = _log_likelihood(A12, B12, marginal).mean(axis=(0, 2))  # (levels,)
    # -d log sigma: each level adds d log(2) / 2.
    d = grams.problem.series[link.target].values.shape[1]
    return np.asarray(likelihoods + d * np.log(2.0) / 2 * np.arange(BANDWIDTH_LEVELS))


def _mean_off_diagonal(L: FloatArray) -> float:
    """Return the mean of a Gram matrix without its diagonal of ones; positive, because its logarithm is taken."""
    n = len(L)
    return max((float(L.sum()) - n) / (n * (n - 1)), float(np.finfo(float).tiny))


def _log_likelihood(A: FloatArray, B: FloatArray, marginal: Any) -> FloatArray:
    """Return the log of B / A without the row itself, whose kernel value is 1, mixed with the marginal."""
    # Rounding may leave a row without neighbours slightly below 0.
    A, B = np.maximum(A - 1.0, 0.0), np.maximum(B - 1.0, 0.0)
    return np.asarray(np.log(B + PSEUDO_COUNT * marginal) - np.log(A + PSEUDO_COUNT))


@dataclass(frozen=True)
class EmbeddingChoice(Printable):
    """Lag and order that predict a series best.

    Attributes
    ----------
    lag, order : int
        The simplest pair whose likelihood is within one standard error of the best, of two past values at least where
        the steps of a persistent series are autocorrelated.
    companion : str or None
        The other series whose last value helps most to predict this one, if any does.
    likelihoods : dict
        Mean leave-one-out log-likelihood of each (lag, order), up to a constant.
    errors : dict
        Standard error of its difference from the best.
    """

    lag: int
    order: int
    companion: str | None
    likelihoods: dict[tuple[int, int], float] = field(repr=False)
    errors: dict[tuple[int, int], float] = field(repr=False)

    @property
    def embedding(self) -> Embedding:
        """The choice as `causal_graph` and `causal_test` take it; the source's past, too, starts one step back."""
        return Embedding(self.order, self.lag, delay=1)


@public
def select_embeddings(
    series: Array | Mapping[str, Array],
    *,
    max_lag: int = LAGS[-1],
    max_order: int = ORDERS[-1],
    ranks: bool = False,
    missing: MissingTimes = "error",
) -> dict[str, EmbeddingChoice]:
    """Choose lag and order of each series by how well its past predicts it.

    A series that is driven by another has a longer memory than its own dynamics: its older values tell of the driver.
    So the other series whose last value helps most, its companion, may help to predict it too. Each candidate has the
    bandwidths, on the past and on the target, that suit it best; of all candidates within one standard error of the
    best likelihood, the one with the lowest order, then the smallest lag, is chosen. The order is at least 2 for a
    persistent series whose steps are autocorrelated, such as a walk that drifts in one direction for a while. Cost
    O(V + 2 C) products of min(n, 512)^2 numbers for each of V series and C candidates, 36 pairs of bandwidths each.

    Parameters
    ----------
    series : array, shape (n, variables), DataFrame, or mapping from names to series
        Rows are equally spaced times.
    max_lag, max_order : int
        Largest spacing and largest number of past values tried.
    ranks, missing
        As in `causal_graph`.

    Returns
    -------
    dict of EmbeddingChoice
        By name: ``lag`` and ``order``, and the likelihood of each candidate.

    Examples
    --------
    >>> from condcs.datasets import make_henon_chain
    >>> choices = select_embeddings(make_henon_chain(400, n_maps=2).series)
    >>> {name: (choice.lag, choice.order) for name, choice in choices.items()}
    {'x1': (1, 2), 'x2': (1, 2)}
    """
    max_lag, max_order = check_integer("max_lag", max_lag, 1), check_integer("max_order", max_order, 1)
    variables = check_series_table("series", series, missing)
    variables = in_ranks(variables) if check_flag("ranks", ranks) else variables
    search = EmbeddingSearch(variables, lags=range(1, max_lag + 1), orders=range(1, max_order + 1))
    return {one.name: search.choice(target) for target, one in enumerate(variables)}


def embeddings_of(
    variables: Sequence[Series], targets: Sequence[int], embedding: EmbeddingOption, *, conditional: bool
) -> tuple[Embedding, ...]:
    """Return an embedding for each target: as given, or the one that predicts best.

    A conditional link looks at the pasts of all series, so that it is all of them together that have to predict.
    """
    length = len(variables[0])
    if not isinstance(embedding, str) or embedding != "auto":
        return (check_embedding(embedding, length),) * len(targets)
    check_embedding(Embedding(1, delay=1), length)
    if conditional:
        return (common_embedding(variables, targets),) * len(targets)
    search = EmbeddingSearch(variables)
    return tuple(search.embedding(target) for target in targets)


def common_embedding(
    variables: Sequence[Series],
    targets: Sequence[int],
    lags: Sequence[int] = LAGS,
    orders: Sequence[int] = ORDERS,
) -> Embedding:
    """Choose the lag and order at which regressions on the pasts of all series leave least of the targets.

    Regressions are on level and steps of persistent series, as those of the tests are. The errors, with each row left
    out of the fit, are averaged over the targets as logarithms; pasts of more columns than a third of the rows are not
    tried.
    """
    columns, indices = sum(one.values.shape[1] for one in variables), range(len(variables))
    links = tuple(Link(i, j) for i in indices for j in indices if i != j)
    simplest, *others = (Embedding(order, lag, delay=1) for lag, order in _pairs_to_try(lags, orders))
    candidates, times = [simplest], CausalProblem(tuple(variables), simplest, links).times
    for embedding in others:
        # All candidates predict the same targets, those with a complete past of each.
        shared_times = np.intersect1d(times, CausalProblem(tuple(variables), embedding, links).times)
        enough_rows = len(shared_times) >= _ROWS_PER_COLUMN * columns * embedding.order_x
        if enough_rows and embedding.reach <= len(variables[0]) // _TIMES_PER_STEP:
            candidates.append(embedding)
            times = shared_times
    if len(candidates) == 1:
        return simplest
    times = times[:ROWS_OF_CHOICE]
    are_persistent = [persistent_columns(one.values) for one in variables]  # (columns,) each
    # The last value is an input of every candidate, so that what is left of a step is what is left of the value.
    steps_or_values = [
        np.where(are_persistent[target], values[times] - values[times - 1], values[times])
        for target, values in ((target, variables[target].values) for target in targets)
    ]
    y = np.hstack(steps_or_values)  # (rows, columns of the targets)

    def error(embedding: Embedding) -> float:
        """Return the mean log squared error over the targets, each row left out of the fit that predicts it."""
        pasts = [[one.values[times - step] for step in embedding.source_steps] for one in variables]
        inputs = np.hstack([level_and_steps(*past) for past in zip(pasts, are_persistent, strict=True)])
        left_out_errors = Smoother(inputs, (False,) * inputs.shape[1]).residuals(y).left_out
        squared_errors = (left_out_errors**2).mean(axis=0)
        return float(np.log(np.maximum(squared_errors, np.finfo(float).tiny)).mean())

    return min(candidates, key=error)


def _pairs_to_try(lags: Sequence[int], orders: Sequence[int]) -> list[tuple[int, int]]:
    """Return all pairs (lag, order), the lowest order first; of a single past value the lag has no meaning."""
    return [(lag, order) for order in orders for lag in (lags if order > 1 else lags[:1])]


class EmbeddingSearch:
    """Lags and orders of series that have been checked, among those given in increasing order."""

    def __init__(
        self, variables: Sequence[Series], *, lags: Sequence[int] = LAGS, orders: Sequence[int] = ORDERS
    ) -> None:
        self.variables, self.lags, self.orders = variables, lags, orders
        self._grams: dict[bytes, DenseGrams] = {}

    def embedding(self, target: int) -> Embedding:
        """Choose the embedding of one series among those that look back over at most a tenth of it."""
        room = [order for order in self.orders if self._has_room(target, order)]
        if len(room) < min(2, len(self.orders)):
            return Embedding(1, delay=1)
        return self.choice(target, room).embedding

    def _has_room(self, target: int, order: int) -> bool:
        reach = 1 + self.lags[-1] * (order - 1)
        return (self._problem(target, reach).rows + reach) // _TIMES_PER_STEP >= reach

    def _problem(self, target: int, reach: int) -> CausalProblem:
        """All candidates predict the same targets: those with a complete past of the longest."""
        links = tuple(Link(i, target) for i in range(len(self.variables)) if i != target)
        return CausalProblem(tuple(self.variables), Embedding((1, reach)), links)

    def choice(self, target: int, orders: Sequence[int] | None = None) -> EmbeddingChoice:
        """Choose lag and order of one series."""
        orders, lags = orders or self.orders, self.lags
        problem = self._problem(target, 1 + lags[-1] * (orders[-1] - 1))
        rows = min(problem.rows, _ROWS_OF_EMBEDDING)
        if rows < FEWEST_TARGETS:
            reach = problem.embedding.reach
            raise ShapeError(
                f"the series must be at least {FEWEST_TARGETS + reach} long, without gaps, to choose among lags up to "
                f"{lags[-1]} and orders up to {orders[-1]}, got {len(self.variables[0])} times, {problem.rows} of them "
                "with a complete past. Use longer series, or smaller lags and orders."
            )
        key = problem.times.tobytes()
        if key not in self._grams:
            self._grams[key] = DenseGrams(problem, largest_bandwidths(problem, "predictive"), rows)
        grams = self._grams[key]
        candidates = _pairs_to_try(lags, orders)
        # 1. The likelihood of every row given the target's own past, for each candidate: (rows,).
        fit = _Fit(grams.past(target, (0,)), self.variables[target].values.shape[1])
        pasts: dict[tuple[int, int], FloatArray] = {}
        for lag, order in candidates:
            steps = tuple(1 + k * lag for k in range(order))
            pasts[lag, order] = grams.past(target, steps)
        fits = {c: fit(past) for c, past in pasts.items()}
        # 2. The companion: the other series whose last value helps most, beside the simplest past, if one helps.
        simplest = pasts[candidates[0]]
        others = {i: fit(simplest * grams.past(i, (1,))) for i in range(len(self.variables)) if i != target}
        best_other = max(others, key=lambda i: float(others[i].mean()), default=None)
        companion = None
        if best_other is not None and others[best_other].mean() > fits[candidates[0]].mean():
            companion = self.variables[best_other].name
            for c, past in pasts.items():
                both = fit(past * grams.past(best_other, (1,)))
                fits[c] = both if both.mean() > fits[c].mean() else fits[c]
        # 3. Of all candidates within one standard error of the best, the one with the lowest order, then lag.
        likelihoods = {c: float(fits[c].mean()) for c in candidates}
        best = max(candidates, key=lambda c: likelihoods[c])
        errors = {c: float(np.std(fits[best] - fits[c], ddof=1) / np.sqrt(rows)) for c in candidates}
        good = [c for c in candidates if likelihoods[c] >= likelihoods[best] - errors[c]]
        lag, order = min(good, key=lambda c: (c[1], c[0]))
        # 4. A step is two values.
        if order == 1 and len(orders) > 1 and needs_steps(self.variables[target].values):
            lag, order = lags[0], orders[1]
        return EmbeddingChoice(lag, order, companion, likelihoods, errors)


class _Fit:
    """How well pasts (their Gram matrices) predict a target: the log-likelihood of every row, left out.

    Past and target have bandwidths of their own. Were they one, a longer past would seem to predict better, only
    because its kernel is narrower.
    """

    def __init__(self, L: FloatArray, columns: int) -> None:
        # L at each level, whose bandwidth is that of the one before divided by sqrt(2).
        self._targets = [np.ascontiguousarray(L)]
        for _ in range(BANDWIDTH_LEVELS - 1):
            self._targets.append(self._targets[-1] * self._targets[-1])
        self._marginals = [_mean_off_diagonal(target) for target in self._targets]
        # What a level adds to the log of a density in so many dimensions: -d log sigma.
        self._gain = columns * np.log(2.0) / 2

    def __call__(self, K: FloatArray) -> FloatArray:
        """Return the likelihoods (rows,) at the bandwidths where their mean is largest; K is (rows, rows)."""
        best: Any = None
        # Squaring K divides the bandwidth on the past by sqrt(2), once for each level.
        for level in range(BANDWIDTH_LEVELS + _NARROWER[-1]):
            A = K.sum(axis=1)  # (rows,)
            for target_level in (level - narrower for narrower in _NARROWER):
                if not 0 <= target_level < BANDWIDTH_LEVELS:
                    continue
                B = np.einsum("ij,ij->i", K, self._targets[target_level])  # (rows,)
                fit = _log_likelihood(A, B, self._marginals[target_level]) + self._gain * target_level
                if best is None or fit.mean() > best.mean():
                    best = fit
            K = K * K
        return np.asarray(best)
