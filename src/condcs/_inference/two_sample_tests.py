"""The test of two samples without inputs: whether p(y) is the same in both.

Labels of rows, or of clusters of rows, are permuted, which is exact. By default several views of the permuted labels
share one p-value: kernels of several bandwidths, which see a change of any form; each column with its square; and
products of two columns, because among many columns distances hardly notice that one of them moved. Read `views_of`
first; a new view is one more entry of `VIEWS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from condcs._core.arrays import Array, FloatArray, IntArray, LabelArray
from condcs._core.checks import Parts, numpy_parts, without_absent_rows
from condcs._core.errors import ParameterError, public
from condcs._core.settings import one_blas_thread
from condcs._core.vocabulary import named, setting
from condcs._inference.nulls import label_sampler
from condcs._inference.resampling import Resampling, largest_studentised, run_test
from condcs._inference.results import TestResult
from condcs._inference.statistics import AGGREGATE_MULTIPLES, TestedMeasure
from condcs._inference.weights_and_clusters import checked_clusters, weights_of_mean_one
from condcs._kernels.bandwidths import median_widths
from condcs._kernels.low_rank import inverse_root
from condcs._measures.inputs import MarginalProblem
from condcs._regression.standardised import normal_scores, squared_distances

MarginalMeasure = Literal["cs", "mmd"]

_LANDMARKS = 100
"""Rows at which the kernel is exact: the test is exact whatever their number, and more hardly add to its power."""
_SMALLEST_EIGENVALUE = 1e-6
"""Eigenvalue of the landmarks' Gram matrix, in units of the largest one, below which a direction is rounding error."""
_MOST_PRODUCTS = 600
"""Products of two columns beyond which none are looked at: the largest of so many hides a moderate change."""
_BATCH = 100
"""Resamples whose labels are held as floating-point numbers at once."""


@public
def two_sample_test(
    yp: Array,
    yq: Array,
    *,
    measure: MarginalMeasure | None = None,
    weights_p: Array | None = None,
    weights_q: Array | None = None,
    clusters_p: Array | None = None,
    clusters_q: Array | None = None,
    n_resamples: int = 500,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    **options: Any,
) -> TestResult:
    """Test whether two samples have the same distribution.

    The null hypothesis: p(y) = q(y). Labels are permuted, which is exact. By default several views share one p-value:
    kernels of several bandwidths, single columns, and products of two columns; cost O(n (m + P) m) with m = 100
    landmark rows, memory O(n P). With the name of a measure that measure alone is the statistic; cost O(n^2 (d + P)).

    Parameters
    ----------
    yp, yq : array, shape (n, d) and (m, d)
        The samples.
    measure : {"cs", "mmd"}, optional
        A registered measure of one variable, in place of all views.
    weights_p, weights_q : array, optional
        A non-negative weight per row, such as survey weights; both or neither. Rows keep their weights when labels are
        permuted. For the views only.
    clusters_p, clusters_q : array, optional
        The cluster that each row belongs to, if rows depend on one another: labels are then permuted by cluster. For
        the views only.
    n_resamples, rng, progress
        As in `conditional_test`.
    n_jobs : int, optional
        Threads, as in `conditional_test`.
    **options
        ``kernel``: "delta" for labels, a sequence for mixed columns. With a measure its other options, too:
        ``bandwidth`` (also "aggregate"), ``estimator``, ``unbiased``.

    Returns
    -------
    TestResult
        With `statistic`, `pvalue`, `null_distribution`, and `confidence_interval()`. Of all views, `divergence` is the
        Cauchy-Schwarz divergence at the bandwidth that tells most, and `details` has the p-value of each view.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.random.default_rng(0).normal(size=(2, 100))
    >>> two_sample_test(y[0], y[1] + 1, n_resamples=99, rng=0).pvalue
    0.01
    """
    resampling = Resampling.checked(n_resamples, rng, n_jobs, progress)
    weights = numpy_parts(weights_p=weights_p, weights_q=weights_q)
    clusters = numpy_parts(clusters_p=clusters_p, clusters_q=clusters_q)
    tested = TestedMeasure.of("cs" if measure is None else measure, options, takes_x=False)
    parts = numpy_parts(yp=yp, yq=yq)
    with resampling.threads():
        if measure is None:
            _check_options_of_views(options)
            _check_both(weights)
            weights, parts, clusters = without_absent_rows(weights, parts, clusters)
            problem = tested.pool([], parts, weights).problem
            assert isinstance(problem, MarginalProblem)
            y = problem.y.variable
            rows = PooledRows(
                np.asarray(y.values, np.float64),
                y.labels or (False,) * y.values.shape[1],
                y.sizes,
                weights_of_mean_one(problem.groups),
                checked_clusters(clusters, y.sizes),
            )
            return two_sample_test_by_views(rows, resampling)
        _check_plain(measure, [*weights, *clusters])
        pools = tested.pools([], parts)
        draw = label_sampler("permutation", None, pools.first.labels, rng=resampling.rng)
        return run_test(pools, draw, "permutation", {}, resampling)


@dataclass(frozen=True, eq=False)
class PooledRows:
    """The rows of two samples, those of the first one first."""

    values: FloatArray  # (n, d): labels coded as numbers
    is_label: tuple[bool, ...]  # (d,): which columns are labels
    sizes: tuple[int, ...]  # rows of each sample
    weights: FloatArray | None = None  # (n,): of the rows, with a mean of 1 in each sample
    clusters: IntArray | None = None  # (n,): cluster 0, 1, ... of each row, those of the first sample first

    @property
    def units(self) -> IntArray:
        """What changes sides as a whole: each row, or the cluster that it belongs to (n,)."""
        return np.arange(len(self.values)) if self.clusters is None else self.clusters


@dataclass(frozen=True, eq=False)
class View(ABC):
    """A statistic of labels, made of the sums of some functions of y over the rows with label 1."""

    functions: FloatArray  # (n, k)

    def sums(self, labels: FloatArray) -> FloatArray:
        """Return the sums for labels of all rows, 0 or 1: (n, P) gives (k, P)."""
        return np.asarray(self.functions.T @ labels)

    @abstractmethod
    def of_sums(self, sums: FloatArray) -> FloatArray:
        """Return the statistic of each labelling: (k, P) gives (P,)."""


@dataclass(frozen=True, eq=False)
class KernelDivergence(View):
    """Cauchy-Schwarz divergence of the rows with label 1 from the others, by functions whose products are a kernel."""

    widths: FloatArray | None = None  # (d,): bandwidths of the kernel, NaN for labels; None if all are labels

    def of_sums(self, sums: FloatArray) -> FloatArray:
        """Return the divergence of each labelling."""
        return _divergences(self.functions.sum(axis=0)[:, None] - sums, sums)

    def redrawn(self, rng: np.random.Generator, count: int, units: IntArray, n_first: int) -> FloatArray:
        """Return divergences (count,) of units drawn with replacement, among the first rows and among the others."""
        sums = []
        for rows in (slice(0, n_first), slice(n_first, None)):
            unit_of_row = units[rows] - units[rows].min()
            n_units = int(unit_of_row.max()) + 1
            times_drawn = rng.multinomial(n_units, np.full(n_units, 1 / n_units), count).T  # (units, count)
            sums.append(self.functions[rows].T @ times_drawn[unit_of_row])
        return _divergences(*sums)


class LargestSquaredSum(View):
    """The largest squared sum of any function over the rows with label 1, in units of its variance over labellings."""

    def of_sums(self, sums: FloatArray) -> FloatArray:
        """Return the largest of each labelling."""
        deviation = sums.std(axis=1, keepdims=True)
        return np.asarray(((sums / np.where(deviation > 0, deviation, 1.0)) ** 2).max(axis=0))


def two_sample_test_by_views(rows: PooledRows, resampling: Resampling) -> TestResult:
    """Evaluate all views on the samples and on permuted labels, and combine them."""
    rng, n_first = resampling.rng, rows.sizes[0]
    # 1. Permute the labels of units; those of the data come first. Units are numbered sample by sample.
    units = rows.units  # (n,)
    last_of_first = units[:n_first].max()
    label_of_unit = (np.arange(units.max() + 1) > last_of_first).astype(np.int8)[:, None]  # (units, 1)
    permuted = rng.permuted(np.broadcast_to(label_of_unit, (len(label_of_unit), resampling.count)), axis=0)
    labels = np.hstack([label_of_unit, permuted])  # (units, 1 + P)

    # 2. Evaluate every view on the same labels, so that they can share one p-value.
    views = views_of(rows, rng)
    with one_blas_thread():
        values = np.array([_values(view, labels, units) for view in views.values()])  # (views, 1 + P)
    evidence = largest_studentised(values[:, 0], values[:, 1:])

    # 3. The divergence is that of the bandwidth which tells most.
    kernel_views = [view for view in views.values() if isinstance(view, KernelDivergence)]
    of_kernels = values[[isinstance(view, KernelDivergence) for view in views.values()]]  # (kernel views, 1 + P)
    most_telling = largest_studentised(of_kernels[:, 0], of_kernels[:, 1:]).most_telling
    divergence = kernel_views[most_telling]
    return TestResult(
        statistic=evidence.statistic,
        pvalue=evidence.pvalue,
        null_distribution=evidence.null_distribution,
        measure="cs",
        null="permutation",
        sizes=rows.sizes,
        bandwidths={} if divergence.widths is None else {"bandwidth": divergence.widths},
        divergence=float(of_kernels[most_telling, 0]),
        details={"nonnegative": True, **evidence.details(list(views), values[:, 0])},
        _divergences=of_kernels[most_telling, 1:],
        _resample=RedrawnDivergence(divergence, units, n_first),
    )


@dataclass(frozen=True, eq=False)
class RedrawnDivergence:
    """Divergences of rows, or clusters of them, drawn again: data only, so that it can be pickled."""

    divergence: KernelDivergence
    units: IntArray  # (n,): unit of each row
    n_first: int  # rows of the first sample

    def __call__(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Return the divergences of so many pairs of samples."""
        return self.divergence.redrawn(rng, count, self.units, self.n_first)


def views_of(rows: PooledRows, rng: np.random.Generator) -> dict[str, View]:
    """Return all views of labels by name, the kernels first."""
    return {name: view for make in VIEWS for name, view in make(rows, rng)}


def _kernels(rows: PooledRows, rng: np.random.Generator) -> Iterator[tuple[str, View]]:
    """Kernels of several bandwidths: low-rank features of all rows, whose products are exact at some landmark rows."""
    n = len(rows.values)
    is_label = np.asarray(rows.is_label, bool)
    landmarks = np.sort(rng.choice(n, min(n, _LANDMARKS), replace=False))
    numbers = rows.values[:, ~is_label]
    widths = np.full(len(is_label), np.nan)
    if numbers.size:
        widths[~is_label] = median_widths(numbers)[0]
        numbers = numbers / widths[~is_label]
        # Squares of large numbers would hide their differences.
        numbers -= numbers.mean(axis=0)
    exponents = squared_distances(numbers, numbers[landmarks]) / 2  # (n, m)
    same_labels = np.ones_like(exponents)
    for codes in rows.values[:, is_label].T:
        same_labels *= codes[:, None] == codes[landmarks]
    weights = np.ones(n) if rows.weights is None else rows.weights
    for multiple in (1.0,) if is_label.all() else AGGREGATE_MULTIPLES:
        kernel = np.exp(-exponents / multiple**2) * same_labels
        features = kernel @ inverse_root(kernel[landmarks], _SMALLEST_EIGENVALUE)
        scaled = None if is_label.all() else multiple * widths
        yield f"bandwidth {multiple:g} x median", KernelDivergence(weights[:, None] * features, scaled)


def _each_column(rows: PooledRows, rng: np.random.Generator) -> Iterator[tuple[str, View]]:
    """Every column by itself: normal scores and their squares, indicators of labels."""
    blocks = _columns(rows)
    squares = [block**2 for block, is_label in zip(blocks, rows.is_label, strict=True) if not is_label]
    yield "each column", LargestSquaredSum(_centred(np.hstack([*blocks, *squares]), rows.weights))


def _pairs_of_columns(rows: PooledRows, rng: np.random.Generator) -> Iterator[tuple[str, View]]:
    """Products of two columns, unless they are too many."""
    products = [
        (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)  # (n, columns of a x columns of b)
        for a, b in combinations(_columns(rows), 2)
    ]
    if products and sum(block.shape[1] for block in products) <= _MOST_PRODUCTS:
        yield "pairs of columns", LargestSquaredSum(_centred(np.hstack(products), rows.weights))


VIEWS: tuple[Callable[[PooledRows, np.random.Generator], Iterator[tuple[str, View]]], ...] = (
    _kernels,
    _each_column,
    _pairs_of_columns,
)
"""What labels are looked at by: each makes views of the pooled rows, without a look at the labels."""


def _columns(rows: PooledRows) -> list[FloatArray]:
    """Return for each column its normal scores, or the indicators of all labels but one (n, k)."""
    return [
        (column[:, None] == np.unique(column)[1:]).astype(np.float64) if is_label else normal_scores(column)[:, None]
        for column, is_label in zip(rows.values.T, rows.is_label, strict=True)
    ]


def _centred(functions: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return functions minus their means, times the weights of the rows."""
    if weights is None:
        return np.asarray(functions - functions.mean(axis=0))
    return np.asarray(weights[:, None] * (functions - np.average(functions, axis=0, weights=weights)))


def _values(view: View, labels: LabelArray, units: IntArray) -> FloatArray:
    """Return the values of a view (1 + P) on the labels of units (units, 1 + P)."""
    batches = [labels[:, start : start + _BATCH] for start in range(0, labels.shape[1], _BATCH)]
    return view.of_sums(np.hstack([view.sums(batch[units].astype(np.float64)) for batch in batches]))


def _divergences(first: FloatArray, second: FloatArray) -> FloatArray:
    """Cauchy-Schwarz divergences from the sums of features over two groups (k, P) each."""
    tiny = np.finfo(float).tiny
    within = np.log(np.maximum((first**2).sum(axis=0), tiny)) + np.log(np.maximum((second**2).sum(axis=0), tiny))
    return np.asarray(within - 2 * np.log(np.maximum((first * second).sum(axis=0), tiny)))


def _check_options_of_views(options: dict[str, Any]) -> None:
    """Refuse options of a measure where no measure was named."""
    other = sorted(set(options) - {"kernel"})
    if other:
        raise ParameterError(
            f"{named(other[0])} must go with a measure: several bandwidths are combined by default. Pass "
            f"{setting('measure', 'cs')} as well, or leave it out."
        )


def _check_both(weights: Parts) -> None:
    """Refuse weights of one sample alone."""
    names = [name for name, value in weights if value is None]
    if len(names) == 1:
        raise ParameterError(
            f"{named(names[0])} must be given if the weights of the other sample are: rows keep their weights when "
            "labels are permuted. Pass ones if the rows of a sample count alike."
        )


def _check_plain(measure: str, of_rows: Parts) -> None:
    """Refuse weights and clusters where a measure is the statistic."""
    names = [name for name, value in of_rows if value is not None]
    if names:
        raise ParameterError(
            f"{named(names[0])} must go with all views, the default, got {setting('measure', measure)}. Leave one of "
            "the two out."
        )
