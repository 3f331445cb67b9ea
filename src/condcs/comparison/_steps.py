"""The steps of a comparison: whether p(x) and p(y|x) are the same, how large the change is, and where."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np

import condcs
from condcs._core.arrays import BoolArray, ByValue, FloatArray, IntArray
from condcs._core.errors import CondcsWarning, CostWarning
from condcs._core.settings import one_blas_thread
from condcs._inference.effects import Effect, common_support, measure_effect, some_rows
from condcs._inference.explain import (
    ColumnWords,
    Explanation,
    Region,
    decimals,
    deviation,
    explained,
    interval_words,
)
from condcs._inference.loss_split import LossChange, split_change
from condcs._inference.regions import Ground, mean_steps
from condcs._inference.resampling import ROUNDING, largest_studentised, pvalue
from condcs._inference.results import Estimate
from condcs._inference.smoothing import Smoother, normal_scores, squared_distances
from condcs._inference.statistics import AGGREGATE_MULTIPLES
from condcs._inference.views import adjusted_values
from condcs._inference.weights_and_clusters import checked_clusters
from condcs._inference.witness import Witness
from condcs._kernels import bandwidths
from condcs._kernels.log_kernels import Kernel, KernelName
from condcs._tables.kinds import Column
from condcs._tables.pair import Pair
from condcs.comparison._wording import show

Tell = Callable[[str], None]
Features = list[FloatArray]

INTERVAL_RESAMPLES = 100

LANDMARKS = 100
"""Rows at which the kernel on the inputs is exact; the test is exact whatever their number."""
INPUT_ROWS = 50_000
"""Rows of each table by which the inputs are compared; of longer ones a uniform sample."""
_SMALLEST_EIGENVALUE = 1e-6
_MOST_PAIRS = 600
"""Products of pairs of inputs beyond which none are looked at."""
Losses = tuple[FloatArray, FloatArray]

EFFECT_ROWS = 10_000
"""Rows of each table that effects are measured on; of longer ones a uniform sample, which is precise enough."""
_LOSS_RESAMPLES = 300
_MOST_LABELS = 8


@dataclass(frozen=True, eq=False)
class Shift(ByValue):
    """Outcome of one comparison, from several views of the same tables.

    Attributes
    ----------
    pvalue : float
        Valid for all views together.
    statistic, null_distribution : float, array
        The evidence of all views, observed and resampled.
    views : tuple of str
        What was looked at: several bandwidths, or several kinds of change.
    pvalues : tuple of float
        The p-value of each view by itself.
    divergence : float
        D, of the most telling bandwidth or of the adjusted response.
    by_chance : float
        Mean of D over the resamples: what it would be if nothing had changed.
    diagnostics : dict
        How far the p-value can be trusted, as in `TestResult`.
    estimated : function
        Makes `estimate`, by many resamples.
    """

    pvalue: float
    statistic: float
    null_distribution: FloatArray
    views: tuple[str, ...]
    pvalues: tuple[float, ...]
    divergence: float
    by_chance: float
    diagnostics: dict[str, Any]
    estimated: Callable[[], Estimate] = field(compare=False, repr=False)

    @cached_property
    def estimate(self) -> Estimate:
        """D without the bias of finite samples, and where it lies with 95% confidence; made when it is asked for."""
        # What it warns of, the test has warned of.
        with collected_warnings():
            return self.estimated()

    @property
    def overlap(self) -> float:
        """Cosine between the two, without the bias of finite samples: 1 for equal ones."""
        return _cosine(self.estimate.value)

    @property
    def overlap_interval(self) -> tuple[float, float]:
        """Where the overlap lies, with 95% confidence; `overlap` is always inside."""
        return _cosine(self.estimate.high), _cosine(self.estimate.low)


def known_rows(pair: Pair, seed: int) -> Ground:
    """Pool the tables, and fit what all questions need to know about the inputs."""
    sizes = (len(pair.xp), len(pair.xq))
    weights = None
    if pair.weights_p is not None and pair.weights_q is not None:
        weights = np.concatenate([pair.weights_p, pair.weights_q])
    return Ground.of(
        np.concatenate([pair.xp, pair.xq]),
        [column.is_category for column in pair.x],
        sizes,
        np.random.default_rng(seed),
        weights=weights,
        clusters=checked_clusters([("cluster", pair.clusters_p), ("cluster", pair.clusters_q)], sizes),
    )


def compare_inputs(pair: Pair, ground: Ground, *, resamples: int, seed: int) -> Shift:
    """Test p(x): permuted labels of rows or clusters, which is exact. Cost O(n (m + resamples) m), m landmarks."""
    rng = np.random.default_rng(seed)
    rows, sizes = some_rows((len(pair.xp), len(pair.xq)), INPUT_ROWS, rng)
    x = ground.x[rows]
    xp, xq = standardised(pair.x, x[: sizes[0]], x[sizes[0] :])
    pool = np.concatenate([xp, xq])
    units = np.arange(len(rows))
    if ground.propensity.units is not None:
        units = np.unique(ground.propensity.units[rows], return_inverse=True)[1].reshape(-1)
    # Units of the first table come first.
    labels = (np.arange(units.max() + 1) > units[: sizes[0]].max()).astype(np.float64)[:, None]
    permuted = rng.permuted(np.broadcast_to(labels, (len(labels), resamples)), axis=0)
    every = np.hstack([labels, permuted])[units]
    multiples = (1.0,) if all(column.is_category for column in pair.x) else AGGREGATE_MULTIPLES
    features = _low_rank(pair.x, pool, median_widths(pair.x, pool), multiples, rng)
    features = [ground.weights[rows, None] * own for own in features]
    with one_blas_thread():
        kernels_only = np.array([_by_label(own, every) for own in features])
        # Among many inputs, distances hardly notice that one of them moved.
        few = _inputs_and_pairs(pair.x, pool, ground.weights[rows])
        values = np.array([*kernels_only, *(_largest_square(own, every) for own in few.values())])
        # The same permuted labels in every view, so that they can share one p-value.
        combined = largest_studentised(values[:, 0], values[:, 1:])
        telling = largest_studentised(kernels_only[:, 0], kernels_only[:, 1:]).most_telling
        draws = _redrawn_divergences(features[telling], units, len(xp), rng)
    divergence, by_chance = float(values[telling, 0]), float(values[telling, 1:].mean())
    low, middle, high = np.quantile(draws, [0.025, 0.5, 0.975])
    # As in `TestResult.estimate`: down from the divergence without what chance adds, up from the divergence.
    ends = divergence - by_chance, divergence - by_chance - (middle - low), divergence + (high - middle)
    return Shift(
        pvalue=combined.pvalue,
        statistic=combined.statistic,
        null_distribution=combined.null_distribution,
        views=(*(f"bandwidth {m:g} x median" for m in multiples), *few),
        pvalues=tuple(pvalue(float(row[0]), row[1:], rounding=ROUNDING) for row in values),
        divergence=divergence,
        by_chance=by_chance,
        diagnostics={},
        estimated=partial(Estimate, *(max(0.0, float(v)) for v in ends)),
    )


def _inputs_and_pairs(columns: Sequence[Column], pool: FloatArray, weights: FloatArray) -> dict[str, FloatArray]:
    """Return functions of single inputs and of pairs of them, by view, times the weights of the rows."""
    blocks = [
        (own[:, None] == np.unique(own)[1:]).astype(np.float64) if c.is_category else normal_scores(own)[:, None]
        for c, own in zip(columns, pool.T, strict=True)
    ]
    squares = [block**2 for c, block in zip(columns, blocks, strict=True) if not c.is_category]
    found = {"each input": np.hstack([*blocks, *squares])}
    pairs = [(a[:, :, None] * b[:, None, :]).reshape(len(pool), -1) for a, b in combinations(blocks, 2)]
    if pairs and sum(own.shape[1] for own in pairs) <= _MOST_PAIRS:
        found["pairs of inputs"] = np.hstack(pairs)
    return {name: weights[:, None] * (own - np.average(own, axis=0, weights=weights)) for name, own in found.items()}


def _largest_square(functions: FloatArray, labels: FloatArray) -> FloatArray:
    """Largest squared sum of any function over the rows with label 1, in deviations, for each column of labels."""
    sums = functions.T @ labels
    deviation = sums.std(axis=1, keepdims=True)
    return np.asarray(((sums / np.where(deviation > 0, deviation, 1.0)) ** 2).max(axis=0))


def _low_rank(
    columns: Sequence[Column],
    pool: FloatArray,
    widths: FloatArray,
    multiples: Sequence[float],
    rng: np.random.Generator,
) -> Features:
    """For each bandwidth, features of all rows whose products are the kernel, exact at some landmark rows."""
    places = np.sort(rng.choice(len(pool), min(len(pool), LANDMARKS), replace=False))
    category = np.array([column.is_category for column in columns])
    numbers = pool[:, ~category] / widths[~category]
    squared = squared_distances(numbers, numbers[places]) / 2
    same = np.ones_like(squared)
    for codes in pool[:, category].T:
        same *= codes[:, None] == codes[places]
    found = []
    for multiple in multiples:
        kernel = np.exp(-squared / multiple**2) * same
        spectrum, turn = np.linalg.eigh(kernel[places])
        kept = spectrum > _SMALLEST_EIGENVALUE * spectrum[-1]
        found.append(kernel @ (turn[:, kept] / np.sqrt(spectrum[kept])))
    return found


def _by_label(features: FloatArray, labels: FloatArray) -> FloatArray:
    """Divergence between the rows with label 0 and those with label 1, for each column of labels."""
    second = features.T @ labels
    return _divergences(features.sum(axis=0)[:, None] - second, second)


def _divergences(first: FloatArray, second: FloatArray) -> FloatArray:
    """CS divergences from the sums of features over two groups (k x P each)."""
    tiny = np.finfo(float).tiny
    within = np.log(np.maximum((first**2).sum(axis=0), tiny)) + np.log(np.maximum((second**2).sum(axis=0), tiny))
    return np.asarray(within - 2 * np.log(np.maximum((first * second).sum(axis=0), tiny)))


def _redrawn_divergences(features: FloatArray, units: IntArray, first: int, rng: np.random.Generator) -> FloatArray:
    """Divergences of rows, or clusters of them, drawn again with replacement within each table."""
    sums = []
    for own, drawn_as in ((features[:first], units[:first]), (features[first:], units[first:])):
        count = int(np.ptp(drawn_as)) + 1
        drawn = rng.multinomial(count, np.full(count, 1 / count), INTERVAL_RESAMPLES).T
        sums.append(own.T @ drawn[drawn_as - drawn_as.min()])
    return _divergences(*sums)


def compare_relation(pair: Pair, ground: Ground, *, resamples: int, seed: int, jobs: int | None) -> Shift:
    """Test p(y|x): labels redrawn from an estimate of P(table | x), so that a shift of x alone is no evidence."""
    xp, xq = standardised(pair.x, pair.xp, pair.xq)
    yp, yq = standardised(pair.y, pair.yp, pair.yq)
    labels = [column.is_category for column in pair.y]
    adjusted = adjusted_values(np.concatenate([yp, yq]), labels, ground.smoother)
    found = condcs.conditional_test(
        xp,
        yp,
        xq,
        yq,
        kernel_x=kernels(pair.x),
        kernel_y=kernels(pair.y),
        bandwidth_x=median_widths(pair.x, np.concatenate([xp, xq])),
        bandwidth_y=None if adjusted is None else median_widths(pair.y, adjusted),
        # Rows with weights are redrawn given these as well, which takes a fit of its own.
        propensity=None if pair.weights_p is not None else ground,
        n_resamples=resamples,
        rng=seed,
        n_jobs=jobs,
        weights_p=pair.weights_p,
        weights_q=pair.weights_q,
        clusters_p=pair.clusters_p,
        clusters_q=pair.clusters_q,
    )
    return Shift(
        pvalue=found.pvalue,
        statistic=found.statistic,
        null_distribution=found.null_distribution,
        views=found.details["views"],
        pvalues=found.details["pvalues"],
        divergence=found.divergence,
        by_chance=found.divergence_by_chance,
        diagnostics=found.diagnostics,
        estimated=partial(found.estimate, n_resamples=INTERVAL_RESAMPLES, rng=seed),
    )


def kernels(columns: Sequence[Column]) -> Kernel:
    """Gaussian for numbers, delta for categories; one name where all columns are alike."""
    names: tuple[KernelName, ...] = tuple("delta" if column.is_category else "gaussian" for column in columns)
    return names[0] if len(set(names)) == 1 else names


def standardised(columns: Sequence[Column], p: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Numbers in units of their pooled standard deviation, so that no column weighs more for its unit."""
    numeric = np.array([not column.is_category for column in columns])
    pooled = np.concatenate([p, q])
    # Divided by the largest first: the squares of large numbers would overflow.
    top = np.where(numeric, np.maximum(np.abs(pooled).max(axis=0), 1e-300), 1.0)
    scaled = pooled / top
    centre = np.where(numeric, scaled.mean(axis=0), 0.0)
    spread = np.where(numeric, scaled.std(axis=0), 1.0)
    values = (scaled - centre) / np.where(spread > 0, spread, 1.0)
    return values[: len(p)], values[len(p) :]


def median_widths(columns: Sequence[Column], values: FloatArray) -> FloatArray:
    """One width per column by the rule "median", over the numbers alone; categories have none (1 stands for it)."""
    numeric = np.array([not column.is_category for column in columns])
    widths = np.ones(len(columns))
    if numeric.any():
        widths[numeric] = bandwidths.median_widths(values[:, numeric])[0]
    return widths


@contextmanager
def collected_warnings() -> Iterator[dict[type[Warning], str]]:
    """Collect what a block warns of: of each kind the first, which is about the tables as they are."""
    first: dict[type[Warning], str] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CondcsWarning)
        yield first
    for warning in caught:
        # What a run is going to cost is no news when it is over; the command shows its progress itself.
        if issubclass(warning.category, CondcsWarning) and warning.category is not CostWarning:
            first.setdefault(warning.category, str(warning.message))


def _cosine(divergence: float) -> float:
    return min(1.0, math.exp(-divergence / 2))


@dataclass(frozen=True)
class Sizes:
    """Sizes of the change.

    Attributes
    ----------
    effects : tuple of Effect
        One for each response.
    loss : LossChange, optional
        Why the mean loss changed, if a loss was asked for.
    rows : tuple of int
        Rows of each table that they were measured on.
    """

    effects: tuple[Effect, ...]
    loss: LossChange | None
    rows: tuple[int, int]


def measure_sizes(pair: Pair, ground: Ground, losses: Losses | None, *, alpha: float, seed: int) -> Sizes:
    """Measure the change of every response over the inputs that both tables have; alpha is shared among them."""
    rng = np.random.default_rng(seed)
    rows, sizes = some_rows((len(pair.xp), len(pair.xq)), EFFECT_ROWS, rng)
    y = np.concatenate([pair.yp, pair.yq])
    whole, clusters = len(rows) == len(ground.x), ground.propensity.units
    support = common_support(
        ground.smoother if whole else Smoother(ground.x[rows], ground.categorical),
        sizes,
        rng,
        propensity=ground.propensity if whole else None,
        weights=ground.weights[rows],
        clusters=None if clusters is None else np.unique(clusters[rows], return_inverse=True)[1].reshape(-1),
    )
    level = alpha / len(pair.y)
    effects = tuple(
        measure_effect(
            column.name,
            support,
            _numbers(column, values[rows]),
            numeric=not column.is_category,
            steps=None if column.is_category else mean_steps(ground, values)[rows],
            confidence_level=1 - level,
            alpha=level,
            rng=rng,
        )
        for column, values in zip(pair.y, y.T, strict=True)
    )
    if losses is None:
        return Sizes(effects, None, sizes)
    loss = np.concatenate(losses)[rows]
    return Sizes(effects, split_change(support, loss, 1 - alpha, _LOSS_RESAMPLES, rng), sizes)


def _numbers(column: Column, values: FloatArray) -> FloatArray:
    """Numbers as they are; of labels the indicators: one of two, all of a few, the frequent ones of many."""
    if not column.is_category:
        return np.asarray(values[:, None])
    codes = values.astype(int)
    if len(column.labels) == 2:
        return np.asarray((codes == 1).astype(np.float64)[:, None])
    frequent = np.argsort(-np.bincount(codes, minlength=len(column.labels)), kind="stable")[:_MOST_LABELS]
    return np.asarray((codes[:, None] == np.sort(frequent)).astype(np.float64))


WITNESS_ROWS = 250
_RESAMPLES = 60
_MOST_REGIONS = 4
_FEWEST_RESAMPLES = 499
_BIN_EDGES = np.linspace(0, 1, 11)[1:-1]


@dataclass(frozen=True, eq=False)
class Places(ByValue):
    """Regions, and the local divergence at some rows."""

    explanation: Explanation  # the regions in which a change is significant, and what became of each input
    pair: Pair
    shown: tuple[int, ...]  # for each response, the label whose share is shown (0 for numbers)
    seed: int  # of the local divergence

    @property
    def regions(self) -> tuple[Region, ...]:
        """Regions, most certain first."""
        return self.explanation.regions

    @property
    def responses(self) -> tuple[FloatArray, FloatArray]:
        """What is shown of the first response in both tables: numbers, or whether it has the label to show."""
        p, q = self.pair.yp[:, 0], self.pair.yq[:, 0]
        if self.pair.y[0].is_category:
            return (p == self.shown[0]).astype(float), (q == self.shown[0]).astype(float)
        return p, q

    @cached_property
    def dependence(self) -> tuple[float, ...]:
        """Share of the variance of the first response that bins of each input by itself explain beyond chance."""
        y = np.concatenate(self.responses)
        y = y / max(float(np.abs(y).max()), np.finfo(float).tiny)
        found = []
        for column, x in zip(self.pair.x, np.concatenate([self.pair.xp, self.pair.xq]).T, strict=True):
            bins = x if column.is_category else np.searchsorted(np.unique(np.quantile(x, _BIN_EDGES)), x)
            codes = np.unique(bins, return_inverse=True)[1].reshape(-1)
            sizes = np.bincount(codes)
            means = np.bincount(codes, y - y.mean()) / sizes
            share = float(sizes @ means**2) / max(len(y) * float(y.var()), np.finfo(float).tiny)
            found.append(share - (len(sizes) - 1) / len(y))
        return tuple(found)

    @cached_property
    def witness(self) -> Witness:
        """The local divergence at some rows of `pair`. Only pictures need it, so that it is made for the first one."""
        pair, rng = self.pair, np.random.default_rng(self.seed)
        x = np.concatenate([pair.xp, pair.xq])
        at = np.sort(rng.choice(len(x), min(WITNESS_ROWS, len(x)), replace=False))
        # What it warns of, the test has warned of.
        with collected_warnings():
            return condcs.witness(
                pair.xp,
                pair.yp,
                pair.xq,
                pair.yq,
                at=x[at],
                kernel_x=kernels(pair.x),
                kernel_y=kernels(pair.y),
                n_resamples=_RESAMPLES,
                weights_p=pair.weights_p,
                weights_q=pair.weights_q,
                rng=self.seed,
            )


def find_places(pair: Pair, ground: Ground, *, seed: int, alpha: float = 0.05) -> Places:
    """Find the regions of x in which the relation changed: all rows take part, and half of them test each region."""
    found = explained(
        ground,
        np.concatenate([pair.yp, pair.yq]),
        [_words(column, values) for column, values in zip(pair.x, ground.x.T, strict=True)],
        [_words(column, values) for column, values in zip(pair.y, np.concatenate([pair.yp, pair.yq]).T, strict=True)],
        alpha=alpha,
        max_regions=_MOST_REGIONS,
        n_resamples=max(_FEWEST_RESAMPLES, int(np.ceil(2 / alpha))),
        rng=np.random.default_rng(seed),
    )
    return Places(found, pair, _labels_to_show(pair, found), seed)


def response_summary(
    columns: Sequence[Column],
    yp: FloatArray,
    yq: FloatArray,
    shown: Sequence[int],
    weights: tuple[FloatArray | None, FloatArray | None] = (None, None),
) -> tuple[tuple[str, float, float], ...]:
    """Say what y does in both samples: means of numbers, and the share of the label to show of categories."""
    found = []
    for place, (column, code) in enumerate(zip(columns, shown, strict=True)):
        values, words = [yp[:, place], yq[:, place]], f"mean {column.name}"
        if column.is_category:
            values, words = [v == code for v in values], f"share of {column.name} = {column.labels[code]}"
        before, after = (_mean(v, w) for v, w in zip(values, weights, strict=True))
        found.append((words, before, after))
    return tuple(found)


def _labels_to_show(pair: Pair, found: Explanation) -> tuple[int, ...]:
    """For each response the label whose share changed most, in the first region or overall; of two labels the later."""
    shown = []
    for place, column in enumerate(pair.y):
        count = len(column.labels)
        if count <= 2:
            shown.append(max(0, count - 1))
            continue
        there = [c for region in found.regions[:1] for c in region.changes if c.column == column.name and c.label]
        if there:
            label = max(there, key=lambda c: abs(c.change.value)).label
            shown.append(column.labels.index(label or ""))
            continue
        shares = [np.bincount(y[:, place].astype(int), minlength=count) / len(y) for y in (pair.yp, pair.yq)]
        shown.append(int(np.argmax(np.abs(shares[1] - shares[0]))))
    return tuple(shown)


def _mean(values: FloatArray | BoolArray, weights: FloatArray | None = None) -> float:
    return float(np.average(values, weights=weights)) if len(values) else float("nan")


def _words(column: Column, values: FloatArray) -> ColumnWords:
    labels = {float(code): label for code, label in enumerate(column.labels)} if column.is_category else None
    return ColumnWords(column.name, labels, _writer(column, values))


def _writer(column: Column, values: FloatArray) -> Callable[[float, float], str]:
    if column.cycle is not None:
        cycle = column.cycle
        return lambda low, high: f"{column.source} {cycle.words(low, high)}"
    is_date = column.kind == "date"
    return interval_words(column.name, partial(show, column) if is_date else decimals(deviation(values)), "≤")
