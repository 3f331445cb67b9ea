"""The default test of conditional distributions: several views of the adjusted response, one p-value."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from condcs._core.checks import Parts, check_integer
from condcs._core.errors import BalanceWarning, OverlapWarning, warn_caller
from condcs._core.progress import part_of_the_work, progress_bar
from condcs._core.random import check_rng
from condcs._core.settings import config_context
from condcs._inference.anchored_contrasts import AnchoredContrasts
from condcs._inference.anchors import drawn_anchors
from condcs._inference.combining import combined_evidence
from condcs._inference.nulls import check_probabilities, cross_fitted
from condcs._inference.propensities import FunctionsOfX, Propensity, Surprises, fitted_propensity, given_propensity
from condcs._inference.resampling import Bootstrap, anchors_used, batch_size, batch_values, drawn, remedy
from condcs._inference.results import TestResult, check_numbers
from condcs._inference.smoothing import ClusterMeans, Smoother
from condcs._inference.statistics import (
    FloatArray,
    LabelArray,
    MeasuredPool,
    anchored_pool,
    measured_pool,
    pool_statistic,
    pooled_variables,
)
from condcs._inference.views import WEIGHTS, Contrasts, adjusted_response, sample_contrasts
from condcs._inference.weights_and_clusters import (
    RowOptions,
    checked_clusters,
    log_weights,
    unit_designs,
    weighted_units,
    with_common_unit,
)
from condcs._measures.registry import Measure
from condcs._parallel.spreading import Shared

_UNBALANCED = 0.01
_SAME_WEIGHT = 1e-6
_FEWEST_EFFECTIVE_ROWS, _LEAST_OVERLAP = 30, 0.25


@dataclass(frozen=True)
class EveryView:
    """All views of redrawn labels: data only, so that workers can receive it."""

    pool: MeasuredPool
    contrasts: Contrasts
    propensity: Propensity
    anchors: LabelArray | None

    def ready(self) -> Callable[[LabelArray], FloatArray]:
        """Return a function from labels (P x n) to views (P x views), the divergence last."""
        divergence, contrasts = pool_statistic(self.pool), self._contrasts()

        def values(labels: LabelArray) -> FloatArray:
            # Without anchors only the divergence reports what is done.
            with part_of_the_work(1.0 if self.anchors is None else 0.5):
                return np.column_stack([contrasts(self.propensity.surprises_of(labels)).T, divergence(labels)])

        return values

    def observed(self) -> FloatArray:
        """Return the views of the labels as given."""
        surprises = self.propensity.surprises_of(self.pool.labels[None], observed=True)
        return np.append(self._contrasts()(surprises)[:, 0], self.pool.divergence())

    def _contrasts(self) -> Callable[[Surprises], FloatArray]:
        if self.anchors is None:
            return lambda surprises: self.contrasts(surprises(slice(None)))
        return AnchoredContrasts(self.contrasts, self.anchors)

    def diagnostics(self) -> dict[str, Any]:
        """Return what the result says about how far the null can be trusted, and what was used."""
        propensity, rows = self.propensity, sum(self.pool.sizes)
        found: dict[str, Any] = {
            "balance_pvalue": propensity.balance_pvalue,
            "effective_rows": propensity.effective_rows * (rows / len(propensity.probabilities)),
            "propensity": propensity.design,
        }
        if propensity.units is not None:
            slices = self.pool.problem.groups.slices
            found["clusters"] = tuple(len(np.unique(propensity.units[s])) for s in slices)
        return found | anchors_used(self.anchors)


def _every_view(
    measure: Measure,
    x_parts: Parts,
    y_parts: Parts,
    options: dict[str, Any],
    rows: RowOptions,
    propensity: Any,
    rng: np.random.Generator,
) -> EveryView:
    """Adjust the response for x, estimate P(sample | x), and make the views of both."""
    pool = measured_pool(measure, x_parts, y_parts, options, rows.weights)
    x, y = pooled_variables(pool)
    values, responses = (np.asarray(v.values, dtype=np.float64) for v in (x, y))
    clusters = checked_clusters(rows.clusters, pool.sizes)
    anchors = drawn_anchors(len(values), rng)
    if anchors is None:
        # Measures whose terms no double can hold are refused, before any work.
        check_numbers(pool.observed() / pool.magnitude, "for the samples as given")
    flags = x.labels or (False,) * values.shape[1]
    smoother = Smoother(values, flags, clusters)
    response = adjusted_response(responses, y.labels or (False,) * responses.shape[1], smoother)
    found = chosen_propensity(propensity, values, smoother, clusters, pool.labels, len(pool.sizes), rng)
    weights = with_common_unit(pool, smoother, found)
    if weights is not None and np.ptp(weights) > _SAME_WEIGHT:
        # Rows keep their weights, so that labels must be redrawn given these as well.
        inputs = np.column_stack([values, log_weights(weights)])
        known = Smoother(inputs, (*flags, False), clusters)
        found = chosen_propensity(propensity, inputs, known, clusters, pool.labels, len(pool.sizes), rng)
    if not all(y.labels or (False,)):
        pool = measured_pool(measure, x_parts, _split(response.adjusted, y_parts, y.sizes), options, rows.weights)
    contrasts = weighted_units(sample_contrasts(response, smoother, found.of_rows), weights, clusters)
    return EveryView(anchored_pool(pool.with_weights(weights), rng), contrasts, found, anchors)


def views_test(
    measure: Measure,
    x_parts: Parts,
    y_parts: Parts,
    options: dict[str, Any],
    rows: RowOptions,
    *,
    propensity: Any,
    n_resamples: int,
    rng: int | np.random.Generator | None,
    n_jobs: int | None,
    progress: bool,
) -> TestResult:
    """Evaluate all views on the samples and on redrawn labels, and combine them."""
    check_integer("n_resamples", n_resamples, 1)
    generator = check_rng(rng)
    with config_context(n_threads=n_jobs) if n_jobs is not None else nullcontext():
        every = _every_view(measure, x_parts, y_parts, options, rows, propensity, generator)
        pool, found = every.pool, every.propensity
        observed = every.observed()
        title = f"the test by {measure.name} with {n_resamples} resamples of {sum(pool.sizes):,} rows"
        with progress_bar(n_resamples, progress, title, remedy=remedy(every.anchors)) as advance:
            batches = drawn(partial(found.draw, rng=generator), n_resamples, batch_size(every.anchors))
            resampled = batch_values([Shared(every.ready)], batches, n_jobs=n_jobs, advance=advance)[0]
    names = (*every.contrasts.names, "divergence")
    evidence = combined_evidence(
        np.column_stack([observed, resampled.T]), np.array([WEIGHTS.get(name, 1.0) for name in names])
    )
    warn_if_unreliable(found)
    return TestResult(
        statistic=evidence.statistic,
        pvalue=evidence.pvalue,
        null_distribution=evidence.null_distribution,
        measure=measure.name,
        null="propensity",
        sizes=pool.sizes,
        bandwidths=pool.widths,
        divergence=float(observed[-1]),
        diagnostics=every.diagnostics(),
        details={
            "nonnegative": measure.nonnegative,
            "views": names,
            "statistics": tuple(float(v) for v in observed),
            "pvalues": tuple(float(p) for p in evidence.pvalues),
            "best_view": names[int(np.argmin(evidence.pvalues))],
        },
        _divergences=resampled[:, -1],
        _resample=Bootstrap(pool, found.units),
    )


def chosen_propensity(
    given: Any,
    x: FloatArray,
    smoother: Smoother,
    clusters: LabelArray | None,
    labels: LabelArray,
    count: int,
    rng: np.random.Generator,
) -> Propensity:
    """Return P(sample | x): fitted by default, or from a classifier or probabilities that were given, or as given."""
    if isinstance(given, Propensity):
        return given
    functions: FunctionsOfX = smoother
    if given is not None:
        given = (
            cross_fitted(given, x, labels, count)
            if hasattr(given, "fit")
            else check_probabilities(given, len(x), count)
        )
    if clusters is not None:
        functions, means = unit_designs(smoother, clusters), ClusterMeans(clusters)
        given = None if given is None else means(given)
        labels = labels[means.first]
    if given is None:
        return fitted_propensity(functions, labels, count, rng, clusters)
    return given_propensity(given, functions, labels, rng, clusters)


def warn_if_unreliable(propensity: Propensity) -> None:
    """Warn where the imbalance of x is not explained, or the samples hardly overlap."""
    if propensity.balance_pvalue < _UNBALANCED:
        warn_caller(
            "the estimate of P(sample | x) does not explain how x differs between the samples (p-value of the check of "
            f"balance: {propensity.balance_pvalue:.3g}), so the p-value of the test rests on the adjustment of y for x "
            "alone and may be too small. Pass a richer classifier as `propensity`, or compare the samples where they "
            "overlap.",
            BalanceWarning,
        )
    count, clustered = len(propensity.probabilities), propensity.units is not None
    if propensity.effective_rows < min(_FEWEST_EFFECTIVE_ROWS, _LEAST_OVERLAP * count):
        where, units = ("x and in the size of clusters", "clusters") if clustered else ("x", "rows")
        warn_caller(
            f"the samples hardly overlap in {where}: the {count:,} {units} tell as much about p(y|x) as "
            f"{propensity.effective_rows:.0f} {units} of samples that overlap fully. A large p-value then says little. "
            "Compare the samples where both have rows, or with fewer inputs.",
            OverlapWarning,
        )


def _split(pooled: FloatArray, parts: Parts, sizes: tuple[int, ...]) -> Parts:
    """Cut a pooled array into the samples, under the names of `parts`."""
    ends = np.cumsum(sizes)
    return [(name, pooled[end - size : end]) for (name, _), size, end in zip(parts, sizes, ends, strict=True)]
