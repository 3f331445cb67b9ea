"""Is p(x), is p(y|x) the same in two tables? One valid p-value each from several views, and an effect size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import condcs
from condcs._core.equality import ByValue
from condcs._core.errors import BandwidthWarning, CondcsWarning, CostWarning
from condcs._inference.combining import largest_studentised
from condcs._inference.resampling import AGGREGATE_MULTIPLES
from condcs._inference.results import Estimate, TestResult
from condcs._tables.kinds import Column
from condcs._tables.pair import Pair

FloatArray = np.ndarray[Any, Any]
Tell = Callable[[str], None]

INTERVAL_RESAMPLES = 100


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
    estimate : Estimate
        D without the bias of finite samples, and where it lies with 95% confidence.
    diagnostics : dict
        How far the p-value can be trusted, as in `TestResult`.
    """

    pvalue: float
    statistic: float
    null_distribution: FloatArray
    views: tuple[str, ...]
    pvalues: tuple[float, ...]
    divergence: float
    by_chance: float
    estimate: Estimate
    diagnostics: dict[str, Any]

    @property
    def overlap(self) -> float:
        """Cosine between the two, without the bias of finite samples: 1 for equal ones."""
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
        tell(f"inputs, bandwidth x {multiple:g}")
        return condcs.two_sample_test(
            xp, xq, kernel=kernels(pair.x), bandwidth=multiple * widths, n_resamples=resamples, rng=seed, n_jobs=jobs
        )

    results = [at(m) for m in AGGREGATE_MULTIPLES]
    tell("inputs, how sure")
    # The same seed permutes the same labels at every bandwidth, so that they can share one p-value.
    combined = largest_studentised(
        np.array([r.statistic for r in results]), np.array([r.null_distribution for r in results])
    )
    telling = results[combined.most_telling]
    return Shift(
        pvalue=combined.pvalue,
        statistic=combined.statistic,
        null_distribution=combined.null_distribution,
        views=tuple(f"bandwidth {m:g} x median" for m in AGGREGATE_MULTIPLES),
        pvalues=tuple(r.pvalue for r in results),
        divergence=telling.divergence,
        by_chance=float(np.mean(telling.null_distribution)),
        estimate=telling.estimate(n_resamples=INTERVAL_RESAMPLES, rng=seed),
        diagnostics={},
    )


def compare_relation(pair: Pair, *, resamples: int, seed: int, jobs: int | None, tell: Tell) -> Shift:
    """Test p(y|x): labels redrawn from an estimate of P(table | x), so that a shift of x alone is no evidence."""
    xp, xq = standardised(pair.x, pair.xp, pair.xq)
    yp, yq = standardised(pair.y, pair.yp, pair.yq)
    tell("relation")
    found = condcs.conditional_test(
        xp,
        yp,
        xq,
        yq,
        kernel_x=kernels(pair.x),
        kernel_y=kernels(pair.y),
        bandwidth_x=median_widths(pair.x, xp, xq),
        n_resamples=resamples,
        rng=seed,
        n_jobs=jobs,
        **_rows_that_count(pair),
    )
    tell("relation, how sure")
    return Shift(
        pvalue=found.pvalue,
        statistic=found.statistic,
        null_distribution=found.null_distribution,
        views=found.details["views"],
        pvalues=found.details["pvalues"],
        divergence=found.divergence,
        by_chance=found.divergence_by_chance,
        estimate=found.estimate(n_resamples=INTERVAL_RESAMPLES, rng=seed),
        diagnostics=found.diagnostics,
    )


def _rows_that_count(pair: Pair) -> dict[str, Any]:
    """Return the weights and clusters of the rows, where there are any, as `conditional_test` calls them."""
    names = ("weights_p", "weights_q", "clusters_p", "clusters_q")
    return {name: getattr(pair, name) for name in names if getattr(pair, name) is not None}


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


def _cosine(divergence: float) -> float:
    return min(1.0, math.exp(-divergence / 2))
