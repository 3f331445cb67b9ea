"""Is p(x), is p(y|x) the same in two tables? One valid p-value each over several widths, and an effect size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import condcs
from condcs.core.equality import ByValue
from condcs.core.errors import BandwidthWarning, CondcsWarning, CostWarning
from condcs.inference.combining import largest_studentised
from condcs.inference.resampling import AGGREGATE_MULTIPLES, aggregate_multiples
from condcs.inference.results import Estimate, TestResult
from condcs.tables.kinds import Column
from condcs.tables.pair import Pair

FloatArray = np.ndarray[Any, Any]
Tell = Callable[[str], None]

INTERVAL_RESAMPLES = 100


@dataclass(frozen=True, eq=False)
class Shift(ByValue):
    """Outcome of one comparison over several widths.

    Attributes
    ----------
    pvalue : float
        Valid for all widths together.
    statistic, null_distribution : float, array
        Largest studentised divergence over the widths, observed and redrawn.
    multiples : tuple of tuple of float
        What the median widths were multiplied by: that of x, or those of x and y.
    divergences, chances, pvalues : tuple of float
        For each of these: the divergence D, its mean under the null, and its own p-value.
    estimate : Estimate
        D at the most telling width without the bias of finite samples, and where it lies with 95% confidence.
    """

    pvalue: float
    statistic: float
    null_distribution: FloatArray
    multiples: tuple[tuple[float, ...], ...]
    divergences: tuple[float, ...]
    chances: tuple[float, ...]
    pvalues: tuple[float, ...]
    most_telling: int
    estimate: Estimate

    @property
    def overlap(self) -> float:
        """Cosine between the two at the most telling width, without the bias of finite samples: 1 for equal ones."""
        return _cosine(self.estimate.value)

    @property
    def overlap_interval(self) -> tuple[float, float]:
        """Where the overlap lies, with 95% confidence; `overlap` is always inside."""
        return _cosine(self.estimate.high), _cosine(self.estimate.low)


def compare_inputs(pair: Pair, *, resamples: int, seed: int, jobs: int | None, tell: Tell) -> Shift:
    """Test p(x): permuted labels, which is exact."""
    xp, xq = standardised(pair.x, pair.xp, pair.xq)
    widths = median_widths(pair.x, xp, xq)

    def at(multiple: float) -> TestResult:
        tell(f"inputs, width x {multiple:g}")
        return condcs.two_sample_test(
            xp, xq, kernel=kernels(pair.x), bandwidth=multiple * widths, n_resamples=resamples, rng=seed, n_jobs=jobs
        )

    results = [at(m) for m in AGGREGATE_MULTIPLES]
    tell("inputs, how sure")
    return _combined(results, [(m,) for m in AGGREGATE_MULTIPLES], seed)


def compare_relation(pair: Pair, *, resamples: int, seed: int, jobs: int | None, tell: Tell) -> Shift:
    """Test p(y|x): labels redrawn from an estimate of P(table | x), so that a shift of x alone is no evidence."""
    xp, xq = standardised(pair.x, pair.xp, pair.xq)
    yp, yq = standardised(pair.y, pair.yp, pair.yq)
    x_widths, y_widths = median_widths(pair.x, xp, xq), median_widths(pair.y, yp, yq)

    def at(of_x: float, of_y: float) -> TestResult:
        tell(f"relation, widths x {of_x:g} and {of_y:g}")
        return condcs.conditional_test(
            xp,
            yp,
            xq,
            yq,
            kernel_x=kernels(pair.x),
            kernel_y=kernels(pair.y),
            bandwidth_x=of_x * x_widths,
            bandwidth_y=of_y * y_widths,
            n_resamples=resamples,
            rng=seed,
            n_jobs=jobs,
        )

    labels = [np.where([c.is_category for c in columns], np.nan, 1.0) for columns in (pair.x, pair.y)]
    multiples = aggregate_multiples(labels)
    results = [at(*pair_of) for pair_of in multiples]
    tell("relation, how sure")
    return _combined(results, multiples, seed)


def kernels(columns: Sequence[Column]) -> str | tuple[str, ...]:
    """Gaussian for numbers, delta for categories; one name where all columns are alike."""
    names = tuple("delta" if column.is_category else "gaussian" for column in columns)
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


def median_widths(columns: Sequence[Column], p: FloatArray, q: FloatArray) -> FloatArray:
    """One width per column: the median distance over all numbers jointly; categories have none (1 stands for it)."""
    numeric = [place for place, column in enumerate(columns) if not column.is_category]
    widths = np.ones(len(columns))
    if numeric:
        with warnings.catch_warnings():
            # Ties that make the median 0 fall back on a larger quantile; on rounded data that is no news.
            warnings.simplefilter("ignore", BandwidthWarning)
            widths[numeric] = condcs.bandwidth(p[:, numeric], q[:, numeric])
    return widths


def collected_warnings(run: Callable[[], Any]) -> tuple[Any, tuple[str, ...]]:
    """Run something and return what it warned of: of each kind the first, which is about the tables as they are."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CondcsWarning)
        result = run()
    first: dict[type, str] = {}
    for warning in caught:
        # What a run is going to cost is no news when it is over; the command shows its progress itself.
        if issubclass(warning.category, CondcsWarning) and warning.category is not CostWarning:
            first.setdefault(warning.category, str(warning.message))
    return result, tuple(first.values())


def _combined(results: Sequence[TestResult], multiples: Sequence[tuple[float, ...]], seed: int) -> Shift:
    """Combine widths: the largest studentised value against the largest of each redrawn sample.

    The same seed redraws the same labels at every width, so observed and redrawn columns are exchangeable under the
    null and the p-value is as valid as at a single width; it is what ``bandwidth="aggregate"`` does.
    """
    combined = largest_studentised(
        np.array([r.statistic for r in results]), np.array([r.null_distribution for r in results])
    )
    return Shift(
        pvalue=combined.pvalue,
        statistic=combined.statistic,
        null_distribution=combined.null_distribution,
        multiples=tuple(multiples),
        divergences=tuple(r.statistic for r in results),
        chances=tuple(float(np.mean(r.null_distribution)) for r in results),
        pvalues=tuple(r.pvalue for r in results),
        most_telling=combined.most_telling,
        estimate=results[combined.most_telling].estimate(n_resamples=INTERVAL_RESAMPLES, rng=seed),
    )


def _cosine(divergence: float) -> float:
    return min(1.0, math.exp(-divergence / 2))
