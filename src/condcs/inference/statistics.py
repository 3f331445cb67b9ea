"""A measure as a statistic of a pool and its groups: fixed data and widths, many ways to label the rows.

A test asks for the same divergence under hundreds of relabellings. What does not depend on the labels (kernels,
neighbour
tables, moments) is found once; how each measure uses that is in the modules beside this one. `Regrouped` is the plain
way, right for every measure: sort the pool by label and evaluate. The others are tested against it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from condcs.core.arrays import Array
from condcs.core.checks import Parts
from condcs.core.errors import DataError
from condcs.core.groups import Groups, label_type
from condcs.measures.problem import (
    ConditionalProblem,
    MarginalProblem,
    NumericProblem,
    conditional_problem,
    marginal_problem,
    numeric_problem,
)
from condcs.measures.registry import Measure

FloatArray = np.ndarray[Any, Any]
LabelArray = np.ndarray[Any, Any]
Problem = ConditionalProblem | MarginalProblem | NumericProblem

_KERNELS_WITH_X = {"kernel_x": "gaussian", "kernel_y": "gaussian", "bandwidth_x": "median", "bandwidth_y": "median"}
_KERNEL_WITHOUT_X = {"kernel": "gaussian", "bandwidth": "median"}


class PoolStatistic(Protocol):
    """A statistic of the pool for each of several labellings."""

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels` (P x n, groups 0 .. G-1)."""


@dataclass(frozen=True)
class MeasuredPool:
    """A checked pool, the measure to evaluate on it, and the options that are not kernels or widths."""

    measure: Measure
    problem: Problem
    options: dict[str, Any]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each group as given."""
        return self.problem.groups.sizes

    @property
    def labels(self) -> LabelArray:
        """Labels as given: 0 for the rows of the first group, and so on."""
        return np.repeat(np.arange(len(self.sizes), dtype=label_type(len(self.sizes))), self.sizes)

    @property
    def widths(self) -> dict[str, FloatArray]:
        """Bandwidths in force."""
        if isinstance(self.problem, ConditionalProblem):
            found = {"bandwidth_x": self.problem.x.widths, "bandwidth_y": self.problem.y.widths}
        elif isinstance(self.problem, MarginalProblem):
            found = {"bandwidth": self.problem.widths}
        else:
            found = {}
        return {name: widths for name, widths in found.items() if widths is not None}

    @property
    def magnitude(self) -> float:
        """Size of the terms that the measure is a difference of, which its rounding error is relative to.

        Kernels, logarithms and determinants have no unit: 1. The von Neumann divergence of covariances has that of a
        variance.
        """
        if self.measure.name != "conditional_bregman":
            return 1.0
        covariances = self.options.get("matrix", "covariance") == "covariance"
        if not covariances or self.options.get("generator", "von_neumann") != "von_neumann":
            return 1.0
        assert isinstance(self.problem, NumericProblem)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            total = sum(float(np.var(v.values, axis=0).sum()) for v in (self.problem.x, self.problem.y))
        if not np.finfo(np.float64).tiny < total < np.inf:
            raise DataError(
                f"the variances of x and y must be numbers that double precision can hold, got a total of {total:g}. "
                "Bring the data to another unit: multiply x and y by a constant."
            )
        return total

    def observed(self) -> FloatArray:
        """Return the divergences between all pairs of groups as given (G x G)."""
        return np.asarray(self.measure.pairs(self.problem, **self.options), dtype=np.float64)


def measured_pool(measure: Measure, x_parts: Parts, y_parts: Parts, options: dict[str, Any]) -> MeasuredPool:
    """Check the samples and split the options into those of the kernels and those of the measure."""
    no_weights = [("weights", None)] * len(y_parts)
    if not measure.gram:
        return MeasuredPool(measure, numeric_problem(x_parts, y_parts), options)
    defaults = _KERNELS_WITH_X if measure.takes_x else {**_KERNEL_WITHOUT_X, "estimator": "resubstitution"}
    if not measure.takes_x and "estimator" not in measure.options:
        defaults = _KERNEL_WITHOUT_X
    kernel_options = {**defaults, **{k: v for k, v in options.items() if k in defaults}}
    own = {k: v for k, v in options.items() if k not in defaults}
    if measure.takes_x:
        return MeasuredPool(measure, conditional_problem(x_parts, y_parts, no_weights, **kernel_options), own)
    return MeasuredPool(measure, marginal_problem(y_parts, no_weights, **kernel_options), own)


def total_divergence(pairs: FloatArray, *, symmetric: bool) -> FloatArray:
    """Sum the divergences of all pairs of groups: one number from a matrix (last two axes)."""
    groups = pairs.shape[-1]
    if groups == 2:
        return np.asarray(pairs[..., 0, 1])
    upper = np.triu_indices(groups, 1)
    total = pairs[..., upper[0], upper[1]].sum(axis=-1)
    return np.asarray(total if symmetric else total + pairs[..., upper[1], upper[0]].sum(axis=-1))


class Regrouped:
    """The plain way: sort the pool by label, evaluate the measure, for one labelling after the other."""

    def __init__(self, pool: MeasuredPool) -> None:
        self.pool = pool

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        symmetric = self.pool.measure.symmetric
        return np.array([total_divergence(self.pairs(row), symmetric=symmetric) for row in np.atleast_2d(labels)])

    def pairs(self, labels: LabelArray, rows: LabelArray | None = None) -> FloatArray:
        """Return the divergences between all pairs of groups for one labelling (of `rows` of the pool, if given)."""
        problem, count = self.pool.problem, len(self.pool.sizes)
        order = np.argsort(labels, kind="stable")
        order = order if rows is None else rows[order]
        groups = Groups(tuple(int(s) for s in np.bincount(labels, minlength=count)))
        regrouped: Any
        if isinstance(problem, ConditionalProblem):
            x = replace(problem.x, kernel=problem.x.kernel.take(order))
            y = replace(problem.y, kernel=problem.y.kernel.take(order))
            regrouped = replace(problem, x=x, y=y, groups=groups)
        elif isinstance(problem, MarginalProblem):
            regrouped = replace(problem, kernel=problem.kernel.take(order), groups=groups)
        else:
            x_values, y_values = (replace(v, values=v.values[order]) for v in (problem.x, problem.y))
            regrouped = replace(problem, x=x_values, y=y_values, groups=groups)
        return np.asarray(self.pool.measure.pairs(regrouped, **self.pool.options), dtype=np.float64)


def pool_statistic(pool: MeasuredPool) -> PoolStatistic:
    """Return the fastest statistic for this measure and these options."""
    from condcs.inference.gram_statistics import ConditionalGram, MarginalGram
    from condcs.inference.moment_statistics import CovarianceMoments
    from condcs.inference.neighbour_statistics import NeighbourTable
    from condcs.inference.operator_statistics import OperatorGram

    makers: dict[str, Callable[[MeasuredPool], PoolStatistic]] = {
        "cs": MarginalGram,
        "mmd": MarginalGram,
        "joint_mmd": MarginalGram,
        "conditional_cs": ConditionalGram,
        "conditional_euclidean": ConditionalGram,
        "conditional_mmd": OperatorGram,
        "conditional_kl": NeighbourTable,
        "conditional_bregman": CovarianceMoments,
    }
    correntropy = pool.options.get("matrix", "covariance") != "covariance"
    # The pooled estimate of a pair leaves out the rows of other groups: no single sum serves all pairs.
    pooled_pairs = pool.options.get("estimator") == "pooled" and len(pool.sizes) > 2
    return Regrouped(pool) if correntropy or pooled_pairs else makers[pool.measure.name](pool)


def as_numpy(array: Array) -> Array:
    """Take tensors to numpy; tests resample values and need no gradients. Everything else is left as it is."""
    from condcs.core.arrays import backend_of

    if array is None:
        return None
    backend = backend_of(array)
    return array if backend.name == "numpy" else backend.to_numpy(array)
