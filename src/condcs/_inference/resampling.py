"""From redrawn labels to a p-value and a result: the part that all tests share."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from condcs._core.arrays import FloatArray, IntArray, LabelArray
from condcs._core.checks import check_integer, check_rng
from condcs._core.errors import DataError
from condcs._core.progress import Advance, progress_bar, remedy_for_resamples, steps_inside
from condcs._core.settings import config_context
from condcs._inference.results import TestResult
from condcs._inference.statistics import MeasuredPool, MeasuredPools, anchored_pool, pool_statistic
from condcs._parallel.spreading import Shared, Workers, active_workers, spread

_BATCH_OF_FEW_ROWS = 500
"""Resamples at once that visit all pairs of rows. Kernels are evaluated anew for every batch: large ones save time."""
_BATCH_OF_MORE_ROWS = 200
"""The same of more rows, of which a large batch takes memory."""
_FEW_ROWS = 2_000
"""Up to so many rows are few: their batches of 500 take 8 MB for each array of numbers."""
_ANCHORED_BATCH = 250
"""Resamples at once with anchors, which are evaluated anew for every batch as well."""
_BOOTSTRAP_BATCH = 50
"""Samples at once that are drawn with replacement. 400 samples of 4,000 rows take 2.0 s; with 10 at once 5.6 s, with
200 and more 1.4 s, but then workers get fewer and less even shares."""

TIE = 1e-10
"""Resampled values this close to the statistic, in units of its own size, count as reaching it."""

ROUNDING = 1e-12
"""Rounding error of a statistic, in units of the terms that it is a difference of.

Kernel masses keep 13 digits or more, because one group's may be the total less the other's. A log contrast is made of
four sums of them, so equal divergences are found within four times that of one another. Where the terms all but cancel
(two samples that are the same under every labelling), what is left is this error alone and has no size of its own.
"""

_LEAST_VARIANCE_OF_OTHERS = 1e-12
"""Least variance of the other values, in units of that of all, since it is divided by: where one value is the only one
that differs, the others vary by rounding alone."""

_DEVIATION_BY_ROUNDING = ROUNDING * 1e-3
"""Deviation of a view up to which it is the same under every labelling, but for rounding. Below `ROUNDING`, because a
divergence may be in small units, those of a variance. All answers that `python -m benchmarks answers` compares are the
same with 1e-12 and with 1e-18."""

_SKEWNESSES = 0.05, 6.0
"""Skewness of a gamma distribution between which its cube root is taken as normal: at 0 the formula divides by 0, and
from 6 on, where the mean 1 - skewness^2 / 36 of the root is no longer positive, it makes no sense."""

_LEAST_RATIO = 1e-9
"""Ratio to the mean of a gamma distribution that stands for values below its support, so that it has a root."""

_LEAST_CHANCE = 1e-15
"""Smallest chance of a value: its inverse is added to others, and a larger one would leave no digits for these."""


@dataclass(frozen=True)
class Resampling:
    """How many resamples there are, from which random numbers, and how the work is spread and shown."""

    count: int
    rng: np.random.Generator
    n_jobs: int | None
    progress: bool

    @classmethod
    def checked(cls, count: int, rng: Any, n_jobs: int | None, progress: bool) -> Resampling:
        """Check what the caller of a test gave."""
        return cls(check_integer("n_resamples", count, 1), check_rng(rng), n_jobs, progress)

    def threads(self) -> AbstractContextManager[Any]:
        """Compute on so many threads within a ``with`` block."""
        return nullcontext() if self.n_jobs is None else config_context(n_threads=self.n_jobs)


def run_test(
    measured: MeasuredPools,
    draw: Callable[[int], LabelArray],
    null: str,
    diagnostics: dict[str, Any],
    resampling: Resampling,
) -> TestResult:
    """Evaluate the measure on the samples and on relabelled pools, and count."""
    pools = [anchored_pool(pool, resampling.rng) for pool in measured.pools]
    anchors, measure = pools[0].anchor_rows, pools[0].measure
    statistics = [Shared(partial(pool_statistic, pool)) for pool in pools]
    values = relabelled_values(statistics, pools[0], anchors, draw, resampling)
    diagnostics = diagnostics | anchors_used(anchors)
    if measured.multiples:
        return _aggregated(pools, measured.multiples, values, null, diagnostics)
    observed, resampled = float(values[0, 0]), values[0, 1:]
    return TestResult(
        statistic=observed,
        pvalue=pvalue(observed, resampled, rounding=ROUNDING * pools[0].magnitude),
        null_distribution=resampled,
        measure=measure.name,
        null=null,
        sizes=pools[0].sizes,
        bandwidths=pools[0].widths,
        divergence=observed,
        diagnostics=diagnostics,
        details={"nonnegative": measure.nonnegative},
        _resample=Bootstrap(pools[0]),
    )


def relabelled_values(
    statistics: Sequence[Shared[Any]],
    pool: MeasuredPool,
    anchors: IntArray | None,
    draw: Callable[[int], LabelArray],
    resampling: Resampling,
) -> FloatArray:
    """Return the values of each statistic, first those of the labels as given, then those of P redrawn ones.

    They have the shape (statistics, 1 + P), or (statistics, 1 + P, k) if a statistic has k values for each labelling.
    The labels as given are the first row of the first batch: statistic and null come from one computation.
    """
    n = sum(pool.sizes)
    of_all_pairs = _BATCH_OF_FEW_ROWS if n <= _FEW_ROWS else _BATCH_OF_MORE_ROWS
    size = of_all_pairs if anchors is None else _ANCHORED_BATCH
    batches = batches_of_draws(draw, resampling.count, size)
    first = np.vstack([pool.labels[None], next(batches)])  # (1 + size, n)
    title = f"the test by {pool.measure.name} with {resampling.count} resamples of {n:,} rows"
    remedy = remedy_for_resamples(all_pairs=anchors is None)
    with progress_bar(resampling.count + 1, resampling.progress, title, remedy=remedy) as advance:
        return batch_values(statistics, chain([first], batches), n_jobs=resampling.n_jobs, advance=advance)


def anchors_used(anchors: IntArray | None) -> dict[str, Any]:
    """Return what `TestResult.diagnostics` say about anchors: nothing if all pairs of rows were visited."""
    return {} if anchors is None else {"anchors": len(anchors)}


def batches_of_draws(draw: Callable[[int], Any], total: int, size: int) -> Iterator[Any]:
    """Yield `total` draws in batches of this size; the last one may be smaller."""
    for start in range(0, total, size):
        yield draw(min(size, total - start))


def batch_values(
    statistics: Sequence[Shared[Any]],
    batches: Iterable[Any],
    *,
    n_jobs: int | None = None,
    advance: Advance = lambda count: None,
) -> FloatArray:
    """Return the values of each statistic on all batches, computed here or by the workers of joblib's backend.

    A batch is a list of labels, of orders, or of rows to take. A statistic has a value for each of them, or a row of k
    values: the result has the shape (statistics, all in the batches), or (statistics, all in the batches, k). Batches
    are drawn here and cut as they are in either case, so the values are the same.
    """
    workers = active_workers(n_jobs)
    if workers is None:
        return _values_here(statistics, batches, advance)
    return _values_from_workers(statistics, batches, advance, workers)


def _values_here(statistics: Sequence[Shared[Any]], batches: Iterable[Any], advance: Advance) -> FloatArray:
    """Return the values of each statistic on all batches, one call after the other."""
    progress_share = 1 / len(statistics)
    values_of_batches = []  # for each batch (statistics, size of the batch, ...)
    for batch in batches:
        values_of_batch = []
        for statistic in statistics:
            with steps_inside(advance, progress_share * len(batch), progress_share):
                values_of_batch.append(statistic.ready(batch))
        values_of_batches.append(values_of_batch)
    return np.concatenate(values_of_batches, axis=1)


def _values_from_workers(
    statistics: Sequence[Shared[Any]], batches: Iterable[Any], advance: Advance, workers: Workers
) -> FloatArray:
    """Return the values of each statistic on all batches, each call computed by some worker."""
    n_statistics = len(statistics)
    values_of_call: dict[int, FloatArray] = {}
    # Call i is that of statistic i % n_statistics on batch i // n_statistics; calls may end in any order.
    calls = ((statistic, batch) for batch in batches for statistic in statistics)
    for index, values in spread(operator.call, calls, workers):
        values_of_call[index] = values
        if index % n_statistics == 0:
            advance(len(values))
    values_of_statistics = []
    for number in range(n_statistics):
        calls_of_statistic = range(number, len(values_of_call), n_statistics)
        values_of_statistics.append(np.concatenate([values_of_call[index] for index in calls_of_statistic]))
    return np.array(values_of_statistics)


def _aggregated(
    pools: list[MeasuredPool],
    multiples: list[tuple[float, ...]],
    values: FloatArray,
    null: str,
    diagnostics: dict[str, Any],
) -> TestResult:
    """Combine bandwidths: the largest studentised value, against the largest of each resample."""
    observed = values[:, 0]
    combined = largest_studentised(observed, values[:, 1:])
    # One number where one width is varied, a pair (x, y) where both are.
    shown = [m if len(m) > 1 else m[0] for m in multiples]
    details = {"bandwidth": "aggregate", **combined.details(shown, observed, each="multiple")}
    return TestResult(
        statistic=combined.statistic,
        pvalue=combined.pvalue,
        null_distribution=combined.null_distribution,
        measure=pools[0].measure.name,
        null=null,
        sizes=pools[0].sizes,
        bandwidths=pools[multiples.index((1.0,) * len(multiples[0]))].widths,
        diagnostics=diagnostics,
        details=details,
    )


@dataclass(frozen=True)
class Bootstrap:
    """The measure on rows, or clusters of rows, drawn with replacement within each group of a pool.

    Data only, so that it can be pickled.
    """

    pool: MeasuredPool
    clusters: IntArray | None = None

    def __call__(self, generator: np.random.Generator, count: int) -> FloatArray:
        """Return the values on so many samples."""
        one_sample = self._rows_with_replacement if self.clusters is None else self._clusters_with_replacement()

        def draw(n_draws: int) -> list[IntArray]:
            return [one_sample(generator) for _ in range(n_draws)]

        batches = batches_of_draws(draw, count, _BOOTSTRAP_BATCH)
        statistic = Shared(partial(_statistic_of_rows, self.pool))
        title = f"the interval from {count} resamples of {sum(self.pool.sizes):,} rows"
        remedy = remedy_for_resamples(all_pairs=self.pool.anchor_rows is None)
        with progress_bar(count, False, title, remedy=remedy) as advance:
            return np.asarray(batch_values([statistic], batches, advance=advance)[0])

    def _rows_with_replacement(self, generator: np.random.Generator) -> IntArray:
        """Draw as many rows as each group has (n,)."""
        spans = self.pool.problem.groups.slices
        return np.concatenate([s.start + generator.integers(s.stop - s.start, size=s.stop - s.start) for s in spans])

    def _clusters_with_replacement(self) -> Callable[[np.random.Generator], IntArray]:
        """Return a function that draws as many clusters as each group has, and returns their rows."""
        assert self.clusters is not None
        by_cluster = np.argsort(self.clusters, kind="stable")
        members = np.split(by_cluster, np.cumsum(np.bincount(self.clusters))[:-1])  # the rows of each cluster
        # Clusters are numbered group by group.
        of_groups = [self.clusters[span] for span in self.pool.problem.groups.slices]
        ends = [(clusters.min(), clusters.max() + 1) for clusters in of_groups]

        def draw(generator: np.random.Generator) -> IntArray:
            drawn = np.concatenate([generator.integers(low, high, size=high - low) for low, high in ends])
            return np.concatenate([members[cluster] for cluster in drawn])

        return draw


def _statistic_of_rows(pool: MeasuredPool) -> Callable[[Sequence[IntArray]], FloatArray]:
    """Return the function that `Bootstrap` calls, made where the call is: what it holds is not sent to workers."""
    return pool_statistic(pool).redrawn


def pvalue(statistic: float, null_distribution: FloatArray, *, rounding: float = 0.0) -> float:
    """Return (1 + #{null >= statistic}) / (1 + P), ties counted as reached.

    Two values tie if they differ by at most 1e-10 of the larger of the statistic and the median resampled value (both
    without sign), or by the rounding error. So the unit of the data does not matter, and one resampled value that lies
    far out does not turn others into ties. Values that are not finite are an error: NaN is never >= anything, and would
    get the smallest p-value.

    Examples
    --------
    >>> pvalue(2.0, np.array([1.0, 2.0, 0.5]))
    0.5
    """
    null = np.asarray(null_distribution, np.float64)
    check_numbers(np.asarray(statistic), "for the samples as given")
    check_numbers(null, f"for {np.sum(~np.isfinite(null))} of {len(null)} resamples")
    size = max(abs(statistic), float(np.median(np.abs(null)))) if len(null) else 0.0
    return float((1 + np.sum(null >= statistic - max(TIE * size, rounding))) / (1 + len(null)))


def check_numbers(values: FloatArray, where: str) -> None:
    """Refuse statistics that are not numbers: no p-value follows from them."""
    bad = values[~np.isfinite(values)]
    if len(bad):
        raise DataError(
            f"the statistic must be a finite number, got {bad[0]} {where}. The cause is a column that is constant "
            "in a sample, or values whose squares overflow or underflow. Drop constant columns, bring the data to "
            "a common scale (divide by the standard deviation), or use another measure."
        )


class Evidence(NamedTuple):
    """What k statistics tell together, and by themselves."""

    statistic: float  # their evidence together
    null_distribution: FloatArray  # (P,): the same of each resample
    pvalue: float  # of the evidence together
    pvalues: FloatArray  # (k,): of each statistic by itself
    most_telling: int  # which statistic gives most of the evidence

    def details(self, names: Sequence[Any], observed: FloatArray, *, each: str = "view") -> dict[str, Any]:
        """Return what a result says of the statistics, by name."""
        return {
            f"{each}s": tuple(names),
            "statistics": tuple(float(v) for v in observed),
            "pvalues": tuple(float(p) for p in self.pvalues),
            f"best_{each}": names[self.most_telling],
        }


def _single_pvalues(observed: FloatArray, values: FloatArray) -> FloatArray:
    """Return the p-value of each statistic by itself (k,) from its value (k,) and its resampled values (k, P)."""
    return np.array([pvalue(float(o), v, rounding=ROUNDING) for o, v in zip(observed, values, strict=True)])


def largest_studentised(observed: FloatArray, values: FloatArray) -> Evidence:
    """Combine k statistics by the largest studentised value, against the largest of each of P resamples.

    `observed` are their values on the data (k,), and `values` those on the resamples (k, P). Mean and deviation are
    those of the resamples and the observed value together, so that under the null all of them are exchangeable and the
    p-value is as valid as that of a single statistic.
    """
    everything = np.concatenate([observed[:, None], values], axis=1)
    check_numbers(everything[:, 0], "for the samples as given")
    check_numbers(everything[:, 1:], "for some resamples")
    deviation = everything.std(axis=1, keepdims=True)
    # A statistic that is the same under every labelling varies by rounding alone, which must not be blown up.
    varies = deviation > np.maximum(TIE * np.abs(everything).max(axis=1, keepdims=True), ROUNDING)
    studentised = (everything - everything.mean(axis=1, keepdims=True)) / np.where(varies, deviation, 1.0)
    largest = studentised.max(axis=0)
    statistic = float(largest[0])
    return Evidence(
        statistic=statistic,
        null_distribution=largest[1:],
        pvalue=pvalue(statistic, largest[1:], rounding=ROUNDING),
        pvalues=_single_pvalues(observed, values),
        most_telling=int(np.argmax(studentised[:, 0])),
    )


def combined_evidence(values: FloatArray, weights: FloatArray | None = None) -> Evidence:
    """Combine k statistics, of the data (first column) and of P resamples, in one p-value: `values` are (k, 1 + P).

    The evidence of a column is the logarithm of the (weighted) mean over the statistics of 1/p, p being the chance of
    its value under a gamma distribution that has the first three moments of the other columns: the harmonic mean of
    p-values, which one strong statistic is enough to make small (Wilson 2019). All columns are treated alike, so under
    the null hypothesis they are exchangeable, and the p-value is as valid as that of a single statistic; the gamma
    distributions only decide how the statistics are weighed against one another.
    """
    check_numbers(values[:, 0], "for the samples as given")
    check_numbers(values[:, 1:], "for some resamples")
    inverse_chances = 1 / _chances(values)  # (k, 1 + P)
    evidence = np.log(np.average(inverse_chances, axis=0, weights=weights))  # (1 + P,)
    statistic = float(evidence[0])
    # What each statistic adds to that mean, for the data. (By rank, all that no resample reaches have one p-value.)
    contributions = inverse_chances[:, 0] if weights is None else weights * inverse_chances[:, 0]  # (k,)
    return Evidence(
        statistic=statistic,
        null_distribution=evidence[1:],
        pvalue=pvalue(statistic, evidence[1:], rounding=ROUNDING),
        pvalues=_single_pvalues(values[:, 0], values[:, 1:]),
        most_telling=int(np.argmax(contributions)),
    )


def _chances(values: FloatArray) -> FloatArray:
    """Chance of a value at least as large under a gamma distribution, for each value of each statistic (k, 1 + P).

    The distribution has the first three moments of the other columns: if the value itself counted, one that lies far
    out would widen the distribution that it is compared with. With shape a, the cube root of X / a is nearly normal
    with mean 1 - 1 / (9 a) and variance 1 / (9 a) (Wilson and Hilferty); the skewness is 2 / sqrt(a).
    """
    deviation = values.std(axis=1, keepdims=True)  # (k, 1)
    varies = deviation > np.maximum(TIE * np.abs(values).max(axis=1, keepdims=True), _DEVIATION_BY_ROUNDING)
    units = np.where(varies, (values - values.mean(axis=1, keepdims=True)) / np.where(varies, deviation, 1.0), 0.0)

    # Moments of the other columns (k, 1 + P).
    others = max(units.shape[1] - 1, 1)
    first, second, third = (((units**k).sum(axis=1, keepdims=True) - units**k) / others for k in (1, 2, 3))
    variance = np.maximum(second - first**2, _LEAST_VARIANCE_OF_OTHERS)
    skewness = np.clip((third - 3 * first * second + 2 * first**3) / variance**1.5, *_SKEWNESSES)

    # X / a = 1 + z / sqrt(a), z being the value in standard deviations.
    ratios = 1 + (units - first) / np.sqrt(variance) * skewness / 2
    roots = np.cbrt(np.maximum(ratios, _LEAST_RATIO))
    ninth = skewness**2 / 36  # 1 / (9 a)
    return np.asarray(np.maximum(ndtr(-(roots - 1 + ninth) / np.sqrt(ninth)), _LEAST_CHANCE))
