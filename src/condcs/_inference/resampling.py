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
from condcs._inference.statistics import (
    MeasuredPool,
    MeasuredPools,
    anchored_pool,
    pool_statistic,
)
from condcs._parallel.spreading import Shared, active_workers, spread

_BATCH, _SMALL_BATCH, _FEW_ROWS = 500, 200, 2_000
"""Resamples at once, of few rows and of more. Kernels are evaluated anew for every batch; of many rows, large batches
take memory."""
_ANCHORED_BATCH = 250
"""Resamples at once with anchors."""
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

_LEAST_VARIANCE = 1e-12
"""Variance of the other values, in units of that of all, where a value is the only one that differs: what they have is
rounding, and it is divided by."""

_LEAST_DEVIATION = ROUNDING * 1e-3
"""Deviation of a statistic up to which it is the same under every labelling, but for rounding. All answers that
`python -m benchmarks answers` compares are the same with 1e-12 and with 1e-18."""

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
    """Return the values of each statistic, first those of the labels as given, then those of redrawn labels.

    The labels as given are the first column of the first batch: statistic and null come from one computation.
    """
    rows = sum(pool.sizes)
    of_all_pairs = _BATCH if rows <= _FEW_ROWS else _SMALL_BATCH
    batch = of_all_pairs if anchors is None else _ANCHORED_BATCH
    batches = drawn(draw, resampling.count, batch)
    first = np.vstack([pool.labels[None], next(batches)])
    title = f"the test by {pool.measure.name} with {resampling.count} resamples of {rows:,} rows"
    with progress_bar(resampling.count + 1, resampling.progress, title, remedy=remedy(anchors)) as advance:
        return batch_values(statistics, chain([first], batches), n_jobs=resampling.n_jobs, advance=advance)


def anchors_used(anchors: IntArray | None) -> dict[str, Any]:
    """Return what `TestResult.diagnostics` say about anchors: nothing if all pairs of rows were visited."""
    return {} if anchors is None else {"anchors": len(anchors)}


def remedy(anchors: IntArray | None) -> str:
    """Return what to do about a test that takes long."""
    return remedy_for_resamples(all_pairs=anchors is None)


def drawn(sampler: Callable[[int], Any], total: int, batch: int) -> Iterator[Any]:
    """Yield `total` draws in batches; the last one may be smaller."""
    for start in range(0, total, batch):
        yield sampler(min(batch, total - start))


def batch_values(
    statistics: Sequence[Shared[Any]],
    batches: Iterable[Any],
    *,
    n_jobs: int | None = None,
    advance: Advance = lambda count: None,
) -> FloatArray:
    """Return the values of each statistic (rows) on all batches, computed here or by the workers of joblib's backend.

    A statistic has one value per row of a batch: of labels, of orders, of rows to take. Batches are drawn here and cut
    as they are in either case, so the values are the same.
    """
    workers = active_workers(n_jobs)
    if workers is None:
        values_of_batches = []  # for each batch: statistics x rows of the batch
        for batch in batches:
            values_of_batch = []
            for statistic in statistics:
                with steps_inside(advance, len(batch) / len(statistics), 1 / len(statistics)):
                    values_of_batch.append(statistic.ready(batch))
            values_of_batches.append(values_of_batch)
        return np.concatenate(values_of_batches, axis=1)
    width = len(statistics)
    values_of_call: dict[int, FloatArray] = {}
    # Call i is that of statistic i % width on batch i // width; calls may end in any order.
    calls = ((statistic, batch) for batch in batches for statistic in statistics)
    for index, values in spread(operator.call, calls, workers):
        values_of_call[index] = values
        if index % width == 0:
            advance(len(values))
    rows = []
    for first in range(width):
        calls_of_statistic = range(first, len(values_of_call), width)
        rows.append(np.concatenate([values_of_call[index] for index in calls_of_statistic]))
    return np.array(rows)


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
        spans = self.pool.problem.groups.slices
        members: list[IntArray] | None = None  # the rows of each cluster
        if self.clusters is not None:
            by_cluster = np.argsort(self.clusters, kind="stable")
            members = np.split(by_cluster, np.cumsum(np.bincount(self.clusters))[:-1])

        def one() -> IntArray:
            if members is None or self.clusters is None:
                taken = [s.start + generator.integers(s.stop - s.start, size=s.stop - s.start) for s in spans]
            else:
                # Clusters are numbered sample by sample.
                ends = [(self.clusters[s].min(), self.clusters[s].max() + 1) for s in spans]
                units = np.concatenate([generator.integers(low, high, size=high - low) for low, high in ends])
                taken = [members[unit] for unit in units]
            return np.concatenate(taken)

        def draw(number: int) -> list[IntArray]:
            return [one() for _ in range(number)]

        batches = drawn(draw, count, _BOOTSTRAP_BATCH)
        title = f"the interval from {count} resamples of {sum(self.pool.sizes):,} rows"
        with progress_bar(count, False, title, remedy=remedy(self.pool.anchor_rows)) as advance:
            return np.asarray(batch_values([Shared(partial(_redrawing, self.pool))], batches, advance=advance)[0])


def _redrawing(pool: MeasuredPool) -> Callable[[Sequence[IntArray]], FloatArray]:
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
    """Evidence of several statistics together, that of each resample, the p-values, and which statistic tells most."""

    statistic: float
    null_distribution: FloatArray
    pvalue: float
    pvalues: FloatArray
    most_telling: int

    def details(self, names: Sequence[Any], observed: FloatArray, *, each: str = "view") -> dict[str, Any]:
        """Return what a result says of the statistics, by name."""
        return {
            f"{each}s": tuple(names),
            "statistics": tuple(float(v) for v in observed),
            "pvalues": tuple(float(p) for p in self.pvalues),
            f"best_{each}": names[self.most_telling],
        }


def _single_pvalues(observed: FloatArray, values: FloatArray) -> FloatArray:
    """Return the p-value of each statistic by itself (k) from its value (k) and its resampled values (k x P)."""
    return np.array([pvalue(float(o), v, rounding=ROUNDING) for o, v in zip(observed, values, strict=True)])


def largest_studentised(observed: FloatArray, values: FloatArray) -> Evidence:
    """Combine statistics (rows) by the largest studentised value, against the largest of each resample (columns).

    Mean and deviation are those of the resamples and the observed value together, so that under the null all of them
    are exchangeable and the p-value is as valid as that of a single statistic.
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
    """Combine statistics (rows) of the data (first column) and of resamples (the other columns) in one p-value.

    The evidence of a column is the logarithm of the (weighted) mean over the statistics of 1/p, p being the chance of
    its value under a gamma distribution that has the first three moments of the other columns: the harmonic mean of
    p-values, which one strong statistic is enough to make small (Wilson 2019). All columns are treated alike, so under
    the null hypothesis they are exchangeable, and the p-value is as valid as that of a single statistic; the gamma
    distributions only decide how the statistics are weighed against one another.
    """
    check_numbers(values[:, 0], "for the samples as given")
    check_numbers(values[:, 1:], "for some resamples")
    evidence = np.log(np.average(1 / _chances(values), axis=0, weights=weights))
    statistic = float(evidence[0])
    pvalues = _single_pvalues(values[:, 0], values[:, 1:])
    return Evidence(
        statistic=statistic,
        null_distribution=evidence[1:],
        pvalue=pvalue(statistic, evidence[1:], rounding=ROUNDING),
        pvalues=pvalues,
        most_telling=int(np.argmin(pvalues)),
    )


def _chances(values: FloatArray) -> FloatArray:
    """Chance of a value at least as large under a gamma distribution, for each value of each statistic (k x P).

    The distribution has the first three moments of the other columns: a value far out would else hide behind the
    deviation that it makes. With shape a, the cube root of X / a is nearly normal with mean 1 - 1 / (9 a) and variance
    1 / (9 a) (Wilson and Hilferty); the skewness is 2 / sqrt(a).
    """
    deviation = values.std(axis=1, keepdims=True)
    varies = deviation > np.maximum(TIE * np.abs(values).max(axis=1, keepdims=True), _LEAST_DEVIATION)
    units = np.where(varies, (values - values.mean(axis=1, keepdims=True)) / np.where(varies, deviation, 1.0), 0.0)

    # Moments of the other columns (k x P).
    others = max(units.shape[1] - 1, 1)
    first, second, third = (((units**k).sum(axis=1, keepdims=True) - units**k) / others for k in (1, 2, 3))
    variance = np.maximum(second - first**2, _LEAST_VARIANCE)
    skewness = np.clip((third - 3 * first * second + 2 * first**3) / variance**1.5, *_SKEWNESSES)

    # X / a = 1 + z / sqrt(a), z being the value in standard deviations.
    ratios = 1 + (units - first) / np.sqrt(variance) * skewness / 2
    roots = np.cbrt(np.maximum(ratios, _LEAST_RATIO))
    ninth = skewness**2 / 36  # 1 / (9 a)
    return np.asarray(np.maximum(ndtr(-(roots - 1 + ninth) / np.sqrt(ninth)), _LEAST_CHANCE))
