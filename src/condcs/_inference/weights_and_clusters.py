"""Clusters and weights of rows in the test of two samples.

The rows of a cluster have one label, which is redrawn for all of them. Functions of the rows are therefore summed
within each cluster before a view is made of them, so that its scale is that of sums over clusters. Kernels are left as
they are: pairs of rows within a cluster count in a sum over pairs, alike for labels as given and redrawn, so that a
p-value is as valid. The weight of a row multiplies the functions, and one factor of each kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, RealArray
from condcs._core.checks import Groups, Parts, PresentRows, is_missing_value
from condcs._core.errors import CondcsWarning, DataError, ParameterError, ShapeError, warn_caller
from condcs._core.vocabulary import named, setting
from condcs._inference.propensities import Propensity
from condcs._inference.statistics import ANCHORED_MEASURES, MeasuredPool
from condcs._inference.views import PairKernel, SurpriseViews
from condcs._measures.registry import Measure
from condcs._regression.ridge import ClusterMeans
from condcs._regression.smoother import Smoother

_LEAST_WEIGHT = 1e-3
"""Weight, as a part of the mean weight, below which all weights have one logarithm: that of a weight near 0 would
outweigh all others."""

_MOST_SHARED_VALUES = 200
"""Distinct weights of a sample above which every row has neighbours by weight in the other sample anyway."""

_LARGEST_SCALE_ERROR = 0.5
"""Largest error of the logarithm of an estimated scale: that of twenty rows whose weights differ tenfold, say."""

_LEAST_SHARED = 0.5
"""Part of the rows whose weights must be among those of the other sample before a scale is taken for theirs."""

_SAME_SCALE = 1e-9
"""Difference of logarithms that is rounding."""

FEWEST_CLUSTERS = 5
"""Clusters that each sample must have: with fewer, too few labellings differ for a small p-value to exist."""

FEW_CLUSTERS = 20
"""Clusters of a sample below which a warning says that the test is weak and only nearly valid."""


@dataclass(frozen=True)
class RowOptions:
    """Weights and clusters of the rows, by sample."""

    weights: Parts
    clusters: Parts

    @property
    def weighted(self) -> bool:
        """Whether some sample has weights."""
        return any(value is not None for _, value in self.weights)

    def present(self, rows: PresentRows) -> RowOptions:
        """Return those of the rows that are present."""
        return RowOptions(rows.of_parts(self.weights), rows.of_parts(self.clusters))

    def check(self, measure: Measure, samples: int, *, all_views: bool, propensity: Any) -> None:
        """Refuse what the test cannot do with weights or clusters."""
        passed = [name for name, value in (*self.weights, *self.clusters) if value is not None]
        if not passed:
            return
        if samples != 2 or not all_views:
            why = "two samples" if samples != 2 else f"{setting('views', 'all')} and {setting('null', 'propensity')}"
            raise ParameterError(f"{named(passed[0])} must go with {why}, the default. Leave it out for other tests.")
        weighted = [name for name in passed if name.startswith("weights")]
        if len(weighted) == 1:
            missing = "weights_q" if weighted[0] == "weights_p" else "weights_p"
            raise ParameterError(
                f"{named(missing)} must be given if {named(weighted[0])} is: rows keep their weights when labels are "
                "redrawn. Weights that make the x of one sample look like that of the other are not needed and can be "
                "left out."
            )
        if weighted and measure.name not in ANCHORED_MEASURES:
            raise ParameterError(
                f"{named(weighted[0])} must go with one of the measures {', '.join(ANCHORED_MEASURES)}, got "
                f"{measure.name!r}. Leave the weights out, or take the default measure."
            )
        if hasattr(propensity, "fit") and len(passed) > len(weighted):
            raise ParameterError(
                f"{named('propensity')} must be None or an array of probabilities if there are clusters, got a "
                "classifier. Pass the probabilities of the clusters, one for every row."
            )


def weights_on_one_scale(pool: MeasuredPool, smoother: Smoother, propensity: Propensity) -> FloatArray | None:
    """Return the weights of all rows (n,), with a mean of 1; None if there are none.

    Each sample may have weights on a scale of its own (say, both add up to the population). Since rows keep their
    weights when labels are redrawn, these must be on one scale. By how much the scales differ is the difference of the
    log-weights between the samples at equal x: the slope of their residuals on the surprises.
    """
    weights = weights_of_mean_one(pool.problem.groups)
    if weights is None:
        return None
    log_residuals = smoother.residuals(clipped_log_weights(weights)[:, None]).in_sample[:, 0]  # (n,)
    second = pool.labels == 1
    surprises = second - propensity.of_rows[:, 1]  # (n,)
    slope = (surprises @ log_residuals) / (surprises @ surprises)
    weights[second] *= np.exp(-slope)
    weights[second] = _on_scale_of_shared_values(weights[~second], weights[second])
    return np.asarray(weights / weights.mean())


def _on_scale_of_shared_values(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the weights of the second sample on the scale on which most of their values are those of the first.

    Both are on scales that are the same up to an error. Where there are few values, such as 1 and 2, that error alone
    would tell the samples apart: no row would have a counterpart of its own weight.
    """
    first_values, first_counts = np.unique(first, return_counts=True)  # (a,)
    second_values, value_of_row, second_counts = np.unique(second, return_inverse=True, return_counts=True)  # (b,)
    if max(len(first_values), len(second_values)) > _MOST_SHARED_VALUES:
        return second
    # On some scale the two values of a pair are equal, and then the samples share the rows that have them.
    log_scales = np.log(first_values[:, None] / second_values).reshape(-1)  # (a b,)
    first_shares, second_shares = first_counts / len(first), second_counts / len(second)
    shares = np.minimum(first_shares[:, None], second_shares).reshape(-1)  # (a b,)
    near = np.abs(log_scales) <= _LARGEST_SCALE_ERROR
    if not near.any():
        return second
    order = np.argsort(log_scales[near])
    log_scales, shares = log_scales[near][order], shares[near][order]  # (near pairs,) each
    # Pairs with the same scale, but for rounding, add up.
    scale_of_pair = np.cumsum(np.diff(log_scales, prepend=log_scales[0]) > _SAME_SCALE)
    shares_of_scales = np.bincount(scale_of_pair, weights=shares)
    most_shared = int(np.argmax(shares_of_scales))
    if shares_of_scales[most_shared] < _LEAST_SHARED:
        return second
    scaled = second_values * np.exp(log_scales[scale_of_pair == most_shared][0])  # (b,)
    # The very same numbers: a last digit would tell the samples apart as well.
    nearest = first_values[np.abs(scaled[:, None] - first_values).argmin(axis=1)]  # (b,)
    is_equal = np.abs(np.log(scaled / nearest)) <= _SAME_SCALE
    return np.asarray(np.where(is_equal, nearest, scaled)[value_of_row])


def weights_of_mean_one(groups: Groups) -> FloatArray | None:
    """Return the weights of all rows, with a mean of 1 in each sample; None if there are none."""
    if groups.weights is None:
        return None
    weights = np.asarray(groups.weights, np.float64)
    return np.asarray(np.concatenate([weights[rows] / weights[rows].mean() for rows in groups.slices]))


def clipped_log_weights(weights: FloatArray) -> FloatArray:
    """Return logarithms of weights with a mean of 1, weights below 1e-3 clipped."""
    return np.asarray(np.log(np.maximum(weights, _LEAST_WEIGHT)))


def checked_clusters(parts: Parts, sizes: tuple[int, ...]) -> IntArray | None:
    """Return the cluster of every pooled row, 0, 1, ...; None if no sample has clusters.

    Clusters lie within a sample: the same name in two samples means two clusters. Rows of a sample without clusters are
    one each.
    """
    if all(ids is None for _, ids in parts):
        return None
    cluster_of_row, start = [], 0
    for (name, ids), size in zip(parts, sizes, strict=True):
        codes = np.arange(size) if ids is None else _codes(name, ids, size)
        count = int(codes.max()) + 1
        if count < FEWEST_CLUSTERS:
            raise DataError(
                f"{named(name)} must name at least {FEWEST_CLUSTERS} clusters, got {count}. Labels are redrawn by "
                "cluster, and so few cannot show a change; collect more clusters."
            )
        if count < FEW_CLUSTERS:
            warn_caller(
                f"{named(name)} names only {count} clusters. Labels are redrawn by cluster, so that the test has "
                f"little power and its level holds only roughly; at least {FEW_CLUSTERS} clusters in each sample are "
                "better.",
                CondcsWarning,
            )
        cluster_of_row.append(start + codes)
        start += count
    return np.asarray(np.concatenate(cluster_of_row))


def _codes(name: str, ids: Any, size: int) -> IntArray:
    """Return the clusters of a sample's rows as numbers 0, 1, ... in the order in which they occur."""
    try:
        values = np.asarray(ids)
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if values.shape != (size,):
            raise ShapeError(
                f"{named(name)} must hold one cluster per row of its sample, got shape {np.shape(ids)} for {size} "
                "rows. Pass a 1-d array."
            )
        names = values.tolist()
        missing = sum(map(is_missing_value, names))
        codes: dict[Any, int] = {}
        code_of_row = np.array([codes.setdefault(cluster, len(codes)) for cluster in names])
    except (TypeError, ValueError) as error:
        if isinstance(error, ShapeError):
            raise
        raise DataError(
            f"{named(name)} must hold names that can be compared, such as strings or numbers. Convert them first, e.g. "
            "with `str`."
        ) from error
    if missing:
        raise DataError(
            f"{named(name)} must name a cluster for every row, got {missing} missing. Give rows that belong to no "
            "other a name of their own."
        )
    return code_of_row


def with_weights_and_clusters(
    views: SurpriseViews, weights: FloatArray | None, clusters: IntArray | None
) -> SurpriseViews:
    """Return views whose functions and kernels are multiplied with weights (n,); functions are summed over clusters.

    The sum of a cluster stands in its first row, with zeros in the others.
    """
    if weights is None and clusters is None:
        return views

    def weighted_sums(functions: RealArray) -> RealArray:
        """Return functions of the rows (n x m), weighted and summed."""
        weighted = functions if weights is None else functions * weights[:, None]
        if clusters is None:
            return weighted
        summed = np.zeros_like(weighted)
        means = ClusterMeans(clusters)
        summed[means.first_rows] = means.sums @ weighted
        return summed

    def weighted_kernel(kernel: PairKernel) -> PairKernel:
        """Return a kernel of pairs of rows, weighted."""
        if weights is None:
            return kernel
        # k(i, j) w_i w_j: the weights belong to one of the factors.
        first, *others = kernel.features
        return PairKernel(kernel.bandwidth, [first * weights[:, None], *others])

    return replace(
        views,
        sums={name: weighted_sums(functions) for name, functions in views.sums.items()},
        largest={name: weighted_sums(functions) for name, functions in views.largest.items()},
        kernels={name: weighted_kernel(kernel) for name, kernel in views.kernels.items()},
    )
