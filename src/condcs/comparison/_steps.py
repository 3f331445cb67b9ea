"""The steps of a comparison: whether p(x) and p(y|x) are the same, where the relation changed, and by how much.

`_comparing.compare_pair` takes them in this order: `fit_adjustment`, which all others read, `compare_inputs`,
`compare_relation`, `locate_change`, and `measure_sizes`, which uses the regions. Each makes a generator of its own from
the same seed, so that its random numbers depend neither on which other steps are taken nor on how many numbers these
draw.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from condcs._core.arrays import BoolArray, ByValue, FloatArray, IntArray
from condcs._core.checks import fewest_resamples
from condcs._core.errors import BandwidthWarning, CondcsWarning, CostWarning
from condcs._core.printable import Printable
from condcs._core.settings import one_blas_thread
from condcs._inference.adjustment import Adjustment
from condcs._inference.common_support import common_support, some_rows
from condcs._inference.conditional_tests import TestedSamples, conditional_test_by_views
from condcs._inference.effects import LOWER_BOUNDS, Effect, level_of_each, measure_effect
from condcs._inference.explain import (
    ColumnWords,
    ExplainedPool,
    Explanation,
    Region,
    decimals,
    deviation,
    explain_pool,
    interval_words,
)
from condcs._inference.loss_split import LossChange, split_change
from condcs._inference.propensities import Propensity
from condcs._inference.region_effects import Change
from condcs._inference.regions import boxwise_change
from condcs._inference.resampling import Resampling
from condcs._inference.responses import response_for_divergence
from condcs._inference.results import Estimate, TestResult
from condcs._inference.statistics import TestedMeasure
from condcs._inference.two_sample_tests import PooledRows, two_sample_test_by_views
from condcs._inference.weights_and_clusters import RowOptions, checked_clusters
from condcs._inference.witness import Witness, witness_of_problem
from condcs._kernels.named_kernels import Kernel, KernelName, borrowing
from condcs._measures.inputs import conditional_problem
from condcs._measures.inputs import pair as parts_of_pair
from condcs._tables.kinds import Column
from condcs._tables.pair import Pair
from condcs.comparison._label_combinations import label_overlap_of
from condcs.comparison._loss_columns import Losses
from condcs.comparison._wording import as_date

Tell = Callable[[str], None]

INTERVAL_RESAMPLES = 100
"""Resamples of the interval of a divergence, each of which takes the divergence anew: more cost time in proportion,
with fewer the ends of the interval scatter more."""
INPUT_ROWS = 50_000
"""Rows of each table by which the inputs are compared; of longer ones a uniform sample. More would show shifts that are
too small to matter, at a cost that grows with the rows."""

WITNESS_ROWS = 250
"""Rows of both tables at which the local divergence is drawn: each is a dot of a picture, and more dots of the same
cloud cost time in proportion."""
_WITNESS_RESAMPLES = 60
"""Resamples of the local divergence: of these, only the dashed line of what chance gives is drawn, which is their mean
and has an eighth of the scatter of one."""
_WITNESS_LEVEL = 0.95
"""Level of its bands, which are not drawn: the default of `condcs.witness`."""
_MOST_REGIONS = 4
"""Regions that are named at most, and boxes that are proposed for each function of y: the default of `condcs.explain`.
Boxes are tested together, so that with more of them each needs a clearer change."""
_FEWEST_REGION_RESAMPLES = 499
"""Resamples of the regions at least: two halves are two looks, so that p-values are twice as coarse as those of a test,
and these cost little."""
_BIN_EDGES = np.linspace(0, 1, 11)[1:-1]
"""Ten bins with equally many rows, by which it is judged how far y depends on an input: more bins see finer waves and
explain more by chance: `_wording._DEPENDENCE_BY_CHANCE` is how much, for ten."""

EFFECT_ROWS = 10_000
"""Rows of each table that effects are measured on; of longer ones a uniform sample, which is precise enough."""
_LOSS_RESAMPLES = 300
"""Resamples of the parts of a loss: a standard deviation of so many draws errs by 4%."""
_MOST_LABELS = 8
"""Labels of a response whose shares are measured, the most frequent ones: rarer ones have too few rows for a size of
their own."""


@dataclass(frozen=True, eq=False)
class ViewsOutcome(ByValue):
    """Outcome of a test by all views: of the inputs of two tables, or of the relation.

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

    @classmethod
    def of(cls, result: TestResult, seed: int) -> ViewsOutcome:
        """Make it of the result of a test with all views."""
        return cls(
            pvalue=result.pvalue,
            statistic=result.statistic,
            null_distribution=result.null_distribution,
            views=result.details["views"],
            pvalues=result.details["pvalues"],
            divergence=result.divergence,
            by_chance=result.divergence_by_chance,
            diagnostics=result.diagnostics,
            estimated=partial(result.estimate, n_resamples=INTERVAL_RESAMPLES, rng=seed),
        )

    @cached_property
    def estimate(self) -> Estimate:
        """D without the bias of finite samples, and its interval; made when it is asked for."""
        # What it warns of, the test has warned of.
        with collected_warnings():
            return self.estimated()

    @property
    def overlap(self) -> float:
        """Cosine between the two, without the bias of finite samples: 1 for equal ones.

        It sees large changes only. One that is small, or confined to few rows, leaves it at 1, whatever its p-value.
        """
        return _cosine(self.estimate.value)

    @property
    def overlap_interval(self) -> tuple[float, float]:
        """Where the overlap lies, by the interval of `estimate`; `overlap` is always inside."""
        return _cosine(self.estimate.high), _cosine(self.estimate.low)


def fit_adjustment(pair: Pair, seed: int) -> Adjustment:
    """Pool the tables, make the designs on x and fit P(table | x), once for the test, the regions and the sizes."""
    row_counts = (len(pair.xp), len(pair.xq))
    weights = None
    if pair.weights_p is not None and pair.weights_q is not None:
        weights = np.concatenate([pair.weights_p, pair.weights_q])
    return Adjustment.of(
        np.concatenate([pair.xp, pair.xq]),
        [column.is_category for column in pair.x],
        row_counts,
        np.random.default_rng(seed),
        weights=weights,
        clusters=checked_clusters([("cluster", pair.clusters_p), ("cluster", pair.clusters_q)], row_counts),
        responses=(np.concatenate([pair.yp, pair.yq]), [column.is_category for column in pair.y]),
    )


def compare_inputs(pair: Pair, adjustment: Adjustment, *, n_resamples: int, seed: int) -> ViewsOutcome:
    """Test p(x) by all views of `condcs.two_sample_test`, on a uniform sample of long tables."""
    rng = np.random.default_rng(seed)
    rows, row_counts = some_rows((len(pair.xp), len(pair.xq)), INPUT_ROWS, rng)
    clusters = _clusters_of_rows(adjustment, rows)
    pooled = PooledRows(adjustment.x[rows], adjustment.is_category, row_counts, adjustment.weights[rows], clusters)
    return ViewsOutcome.of(two_sample_test_by_views(pooled, Resampling(n_resamples, rng, None, progress=False)), seed)


def compare_relation(
    pair: Pair, adjustment: Adjustment, *, n_resamples: int, seed: int, n_jobs: int | None
) -> ViewsOutcome:
    """Test p(y|x): labels redrawn from an estimate of P(table | x), so that a shift of x alone is no evidence."""
    options = {"kernel_x": kernels(pair.x), "kernel_y": kernels(pair.y)}
    samples = TestedSamples(
        TestedMeasure.of("conditional_cs", options, takes_x=True),
        [("x", pair.xp), ("x", pair.xq)],
        [("y", pair.yp), ("y", pair.yq)],
        RowOptions(
            [("weights", pair.weights_p), ("weights", pair.weights_q)],
            [("cluster", pair.clusters_p), ("cluster", pair.clusters_q)],
        ),
    )
    resampling = Resampling(n_resamples, np.random.default_rng(seed), n_jobs, progress=False)
    with resampling.threads():
        result = conditional_test_by_views(samples, resampling, adjustment=adjustment)
    return ViewsOutcome.of(result, seed)


def _clusters_of_rows(adjustment: Adjustment, rows: IntArray) -> IntArray | None:
    """Return the clusters 0, 1, ... of some rows, None if every row is by itself."""
    if adjustment.clusters is None:
        return None
    return np.unique(adjustment.clusters[rows], return_inverse=True)[1].reshape(-1)


def kernels(columns: Sequence[Column]) -> Kernel:
    """Gaussian for numbers, delta for categories; one name where all columns are alike."""
    names: tuple[KernelName, ...] = tuple("delta" if column.is_category else "gaussian" for column in columns)
    return names[0] if len(set(names)) == 1 else names


@contextmanager
def collected_warnings() -> Iterator[list[CondcsWarning]]:
    """Collect what a block warns of, in order."""
    collected: list[CondcsWarning] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CondcsWarning)
        yield collected
    for warning in caught:
        # What a run is going to cost is no news when it is over, and bandwidths are not the caller's business here.
        if isinstance(warning.message, CondcsWarning) and not isinstance(
            warning.message, BandwidthWarning | CostWarning
        ):
            collected.append(warning.message)


def _cosine(divergence: float) -> float:
    """Return the cosine between two distributions, exp(-D/2); an estimate of D can lie below 0."""
    return min(1.0, math.exp(-divergence / 2))


@dataclass(frozen=True, eq=False)
class Location(ByValue):
    """Where the relation changed: regions, and the local divergence at some rows."""

    explanation: Explanation  # the regions in which a change is significant, and what became of each input
    pair: Pair
    shown: tuple[int, ...]  # for each response, the code of the label whose share is shown (0 for numbers)
    implied_sizes: tuple[Estimate | None, ...]  # for each response, the root mean square that the regions imply
    adjusted_y: FloatArray  # (n, responses): both tables; numbers minus their regression on x, labels as they are
    propensity: Propensity = field(compare=False)  # P(table | x), without its fits
    n_resamples: int  # of the tests of the regions
    seed: int  # of the local divergence

    @property
    def significant_regions(self) -> tuple[Region, ...]:
        """Regions that are significant by their own tests, whatever the test of p(y|x) says, most certain first.

        `Comparison.regions` are these, or none where that test does not reject.
        """
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
        tiny = np.finfo(float).tiny
        y = np.concatenate(self.responses)  # (n,)
        # In units of its largest value, so that squares neither overflow nor vanish.
        y = y / max(float(np.abs(y).max()), tiny)
        pooled_x = np.concatenate([self.pair.xp, self.pair.xq])  # (n, d)
        shares = []
        for column, x in zip(self.pair.x, pooled_x.T, strict=True):
            bins = x if column.is_category else np.searchsorted(np.unique(np.quantile(x, _BIN_EDGES)), x)
            bin_of_row = np.unique(bins, return_inverse=True)[1].reshape(-1)  # (n,): 0, 1, ...
            sizes = np.bincount(bin_of_row)
            means = np.bincount(bin_of_row, y - y.mean()) / sizes
            # The variance between bins, over that of all rows.
            share = float(sizes @ means**2) / max(len(y) * float(y.var()), tiny)
            # By chance, k bins explain k - 1 of n rows' variance.
            shares.append(share - (len(sizes) - 1) / len(y))
        return tuple(shares)

    @cached_property
    def witness(self) -> Witness:
        """The local divergence at some rows of `pair`, by the regression and the propensity of the test.

        Only pictures need it: it is estimated when one is drawn.
        """
        pair, rng = self.pair, np.random.default_rng(self.seed)
        x = np.concatenate([pair.xp, pair.xq])  # (n, d)
        # Where one table alone has a label, there is nothing to draw.
        matched = np.flatnonzero(label_overlap_of(pair).matched_by_column)
        rows = np.sort(rng.choice(matched, min(WITNESS_ROWS, len(matched)), replace=False))
        x_parts = parts_of_pair("x", pair.xp, pair.xq)
        of_reference = len(pair.xp)
        # What it warns of, the test has warned of.
        with collected_warnings():
            problem = conditional_problem(
                x_parts,
                parts_of_pair("y", self.adjusted_y[:of_reference], self.adjusted_y[of_reference:]),
                parts_of_pair("weights_", pair.weights_p, pair.weights_q),
                kernel_x=borrowing(kernels(pair.x)),
                kernel_y=kernels(pair.y),
                bandwidth_x="silverman",  # narrower than the median rule: local differences stay local
                bandwidth_y="median",
            )
            drawn = self.propensity.draw(_WITNESS_RESAMPLES, rng)
            return witness_of_problem(
                problem, x_parts, x[rows], drawn, null="propensity", confidence_level=_WITNESS_LEVEL
            )


def locate_change(
    pair: Pair, adjustment: Adjustment, *, n_resamples: int = _FEWEST_REGION_RESAMPLES, seed: int, alpha: float
) -> Location:
    """Find the regions of x in which the relation changed: all rows take part, and half of them test each region."""
    y = np.concatenate([pair.yp, pair.yq])  # (n, responses)
    # One more than needed: rounding may leave the smallest p-value, 2 / (1 + n_resamples), just above alpha.
    n_resamples = max(n_resamples, _FEWEST_REGION_RESAMPLES, 1 + fewest_resamples(alpha, looks=2))
    explained = explain_pool(
        adjustment,
        y,
        [_words_of_column(column, values) for column, values in zip(pair.x, adjustment.x.T, strict=True)],
        [_words_of_column(column, values) for column, values in zip(pair.y, y.T, strict=True)],
        alpha=alpha,
        max_regions=_MOST_REGIONS,
        n_resamples=n_resamples,
        rng=np.random.default_rng(seed),
    )
    explanation = explained.explanation
    with one_blas_thread():
        adjusted = response_for_divergence(y, [column.is_category for column in pair.y], adjustment.smoother)
    return Location(
        explanation,
        pair,
        _labels_to_show(pair, explanation),
        implied_sizes=_implied_sizes(explained, pair.y),
        adjusted_y=y if adjusted is None else adjusted,
        # Fits hold functions of all rows, which nothing needs any more.
        propensity=replace(adjustment.propensity, fits=(), fitted_to=None),
        n_resamples=n_resamples,
        seed=seed,
    )


def response_summary(
    columns: Sequence[Column],
    yp: FloatArray,
    yq: FloatArray,
    shown: Sequence[int],
    weights: tuple[FloatArray | None, FloatArray | None] = (None, None),
) -> tuple[tuple[str, float, float], ...]:
    """Say what y does in both samples: means of numbers, and the share of the label to show of categories."""
    summaries = []
    for column, code, of_p, of_q in zip(columns, shown, yp.T, yq.T, strict=True):
        words = f"mean {column.name}"
        if column.is_category:
            of_p, of_q = of_p == code, of_q == code
            words = f"share of {column.name} = {column.labels[code]}"
        summaries.append((words, _mean(of_p, weights[0]), _mean(of_q, weights[1])))
    return tuple(summaries)


def _labels_to_show(pair: Pair, explanation: Explanation) -> tuple[int, ...]:
    """For each response the code of the label to show, 0 for numbers.

    Of two labels that is the later one; of more, the one whose share changed most: in the first region, or overall if
    there is none.
    """
    codes = []
    for column, of_p, of_q in zip(pair.y, pair.yp.T, pair.yq.T, strict=True):
        count = len(column.labels)
        if count <= 2:
            codes.append(max(0, count - 1))
            continue
        changes = [change for region in explanation.regions[:1] for change in region.changes]
        of_labels = [change for change in changes if change.column == column.name and change.label]
        if of_labels:
            label = max(of_labels, key=lambda change: abs(change.change.value)).label
            codes.append(column.labels.index(label or ""))
            continue
        shares_p, shares_q = (np.bincount(y.astype(int), minlength=count) / len(y) for y in (of_p, of_q))
        codes.append(int(np.argmax(np.abs(shares_q - shares_p))))
    return tuple(codes)


def _mean(values: FloatArray | BoolArray, weights: FloatArray | None = None) -> float:
    return float(np.average(values, weights=weights)) if len(values) else float("nan")


def _words_of_column(column: Column, values: FloatArray) -> ColumnWords:
    """Return how a column is called in words, its labels and its intervals."""
    names_by_code = None
    if column.is_category:
        names_by_code = {float(code): label for code, label in enumerate(column.labels)}
    return ColumnWords(column.name, names_by_code, _interval_writer(column, values))


def _interval_writer(column: Column, values: FloatArray) -> Callable[[float, float], str]:
    """Return a function that puts an interval of a column into words, from its two ends."""
    if column.cycle is not None:
        cycle = column.cycle
        return lambda low, high: f"{column.source} {cycle.words(low, high)}"
    is_date = column.kind == "date"
    return interval_words(column.name, as_date if is_date else decimals(deviation(values)), "≤")


@dataclass(frozen=True)
class ChangeSizes(Printable):
    """How large the change of the relation is.

    Attributes
    ----------
    effects : tuple of Effect
        One for each response.
    loss : LossChange, optional
        Why the mean loss changed, if a loss was asked for.
    rows : tuple of int
        Number of rows of each table that they were measured on.
    """

    effects: tuple[Effect, ...]
    loss: LossChange | None
    rows: tuple[int, int]


def measure_sizes(
    pair: Pair,
    adjustment: Adjustment,
    losses: Losses | None,
    *,
    implied_sizes: Sequence[Estimate | None] = (),
    alpha: float,
    seed: int,
) -> ChangeSizes:
    """Measure the change of every response over the inputs that both tables have; alpha is shared among them.

    No size is below what the changes in the regions imply (`Location.implied_sizes`). `losses` are those of a model in
    each row, if there is one.
    """
    rng = np.random.default_rng(seed)
    rows, row_counts = some_rows((len(pair.xp), len(pair.xq)), EFFECT_ROWS, rng)
    y = np.concatenate([pair.yp, pair.yq])  # (n, responses)
    clusters = _clusters_of_rows(adjustment, rows)
    # A sample of the rows has regressions of its own; all rows have those of the test.
    are_all_rows = len(rows) == len(adjustment.x)
    support = common_support(
        adjustment.smoother if are_all_rows else adjustment.smoother_of(rows, clusters),
        row_counts,
        rng,
        propensity=adjustment.propensity if are_all_rows else None,
        weights=adjustment.weights[rows],
        clusters=clusters,
    )
    # Shared among the responses: the intervals of all their sizes hold together, and so do those of all averages.
    level = alpha / len(pair.y)
    effects = []
    implied_sizes = implied_sizes or len(pair.y) * (None,)
    for column, values, of_regions in zip(pair.y, y.T, implied_sizes, strict=True):
        by_boxes = None if column.is_category else boxwise_change(adjustment, values, rng).of_rows(rows)
        effect = measure_effect(
            column.name,
            support,
            _measured_columns(column, values[rows]),
            numeric=not column.is_category,
            by_boxes=by_boxes,
            implied=of_regions,
            confidence_level=1 - level,
            alpha=level,
            rng=rng,
        )
        if effect.influential is not None:
            # Its number among the rows that were measured is one among all.
            of_all = effect.influential._replace(row=int(rows[effect.influential.row]))
            effect = replace(effect, influential=of_all)
        effects.append(effect)
    loss_change = None
    if losses is not None:
        loss = np.concatenate(losses)[rows]  # (n,)
        loss_change = split_change(support, loss, 1 - alpha, _LOSS_RESAMPLES, rng)
    return ChangeSizes(tuple(effects), loss_change, row_counts)


def _implied_sizes(explained: ExplainedPool, columns: Sequence[Column]) -> tuple[Estimate | None, ...]:
    """Return for each response the root mean square over all inputs that its changes in regions imply, or None."""
    regions = explained.explanation.regions
    confidence_level = level_of_each(1 - explained.explanation.alpha, len(columns))
    implied: list[Estimate | None] = []
    for column in columns:
        n_changes = sum(_bears_on_size(change, column) for region in regions for change in region.changes)
        if not n_changes:
            implied.append(None)
            continue
        # The largest of as many lower bounds as there are changes, which is one of those of the size.
        stricter_level = level_of_each(level_of_each(confidence_level, LOWER_BOUNDS), n_changes)
        implied.append(_implied_size(regions, explained.regions_at_level(stricter_level), column))
    return tuple(implied)


def _bears_on_size(change: Change, column: Column) -> bool:
    """Whether a change is one of the mean, or of a share, of a response."""
    return change.column == column.name and change.quantity != "spread"


def _implied_size(
    regions: Sequence[Region], regions_at_stricter_level: Sequence[Region], column: Column
) -> Estimate | None:
    """Return the largest root mean square over all inputs that clear changes of a response in regions imply; or None.

    With a mean change m in a share w of the inputs the mean square is w m^2 at least. `Effect.size` counts half of the
    squared changes of several labels, because what one share gains others lose: so of a single one half counts. The
    value and the upper end are those that are listed; the lower end is a bound of the stricter level.
    """
    counted_part = 0.5 if len(column.labels) > 2 else 1.0
    value = low = high = 0.0
    for region, at_stricter_level in zip(regions, regions_at_stricter_level, strict=True):
        root = math.sqrt(counted_part * region.share_in_common)
        for change, stricter in zip(region.changes, at_stricter_level.changes, strict=True):
            if not (_bears_on_size(change, column) and change.is_clear):
                continue
            value = max(value, root * abs(change.change.value))
            low = max(low, root * max(stricter.change.low, -stricter.change.high))
            high = max(high, root * max(-change.change.low, change.change.high))
    if high == 0:
        return None
    (level,) = {change.change.confidence_level for region in regions_at_stricter_level for change in region.changes}
    return Estimate(value, low, high, level)


def _measured_columns(column: Column, values: FloatArray) -> FloatArray:
    """Return numbers as one column (n x 1); of labels the indicators (n x c).

    Of two labels that is the indicator of one of them, of a few those of all, of many those of the frequent ones.
    """
    if not column.is_category:
        return np.asarray(values[:, None])
    codes = values.astype(int)
    if len(column.labels) == 2:
        return np.asarray((codes == 1).astype(np.float64)[:, None])
    frequent = np.argsort(-np.bincount(codes, minlength=len(column.labels)), kind="stable")[:_MOST_LABELS]
    return np.asarray((codes[:, None] == np.sort(frequent)).astype(np.float64))
