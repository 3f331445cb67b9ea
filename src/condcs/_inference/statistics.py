"""A measure as a statistic of a pool and its groups: fixed data and widths, many ways to label the rows.

A test asks for the same divergence under hundreds of relabellings. What does not depend on the labels (kernels,
neighbour tables, moments) is found once. `Regrouped` is the plain way, right for every measure: sort the pool by label
and evaluate. The others are tested against it.

For measures made of Gram matrices let W be the n x P indicator columns of one group: ``K @ W`` holds its kernel masses
for all P labellings, so that one exponential per pair of rows serves them all. Row tiles of K are made, multiplied and
dropped; no n x n array exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, LabelArray, RowIndex
from condcs._core.checks import Groups, Parts, Variable, check_choice, label_type
from condcs._core.errors import DataError, ParameterError
from condcs._core.settings import current_settings
from condcs._core.vocabulary import named, setting
from condcs._kernels.log_kernels import LogKernel, product
from condcs._kernels.low_rank import pseudo_inverse
from condcs._kernels.named_kernels import borrowing
from condcs._kernels.row_sums import PLAIN_TESTS, exp_in_place
from condcs._measures.bregman import bregman_pairs
from condcs._measures.formulas import (
    check_direction,
    contrast,
    directed,
    linear_interaction,
    linear_pooled_interaction,
)
from condcs._measures.inputs import (
    ConditionalProblem,
    KernelVariable,
    MarginalProblem,
    NumericProblem,
    Problem,
    refuse_both,
    regrouped,
)
from condcs._measures.neighbours import joint_and_marginal_points
from condcs._measures.registry import MEASURES, Measure
from condcs._parallel.many_rows import drawn_anchors, over_rows, total
from condcs._parallel.spreading import on_threads

_LEAST_NEIGHBOURS, _NEIGHBOURS_OF_GROUP = 64, 16
"""Length of the lists of neighbours: 64 at least, and 16 for each of the k that each group must be met. About one for
each is needed where groups are alike; a labelling for which a list is too short is done the plain way, and longer lists
take memory, 16 bytes for each row and neighbour."""
_SAFE_SUM = 1e-290
"""Sums above this hold no digits lost to underflow: a term that underflows is below 1e-307, a part of 1e-17."""
_KEPT_SHARE = 1e-3
"""Share of the total from which on a difference from it keeps 13 of 16 digits."""
_ROUNDS = 32
"""Rounds for rows with masses that underflow: so many products take about as long as the labellings one by one, if all
rows are such rows."""
_BATCH_FLOATS = 2**25
"""Largest number of entries of the indicator columns held at once (256 MB)."""

Weights = Callable[[RowIndex], list[FloatArray]]
"""Takes rows, and returns the weights of these rows in each group (rows x P each)."""

Masses = list[list[FloatArray]]
"""Kernel masses of rows for each kernel (on x, on x and y) and group (rows x P each)."""

AGGREGATE_MULTIPLES = (0.25, 0.5, 1.0, 2.0)
"""Multiples of the median width that "aggregate" combines where one width is varied."""

AGGREGATE_PAIRS = ((1.0, 1.0), (1.0, 2.0), (0.25, 2.0), (0.1, 2.0), (0.25, 0.25))
"""Multiples for x and y where both are. Changes of the mean of y want a wide kernel on y, and one on x as narrow as the
change; changes of the shape of p(y|x) want a narrow kernel on y."""

_PER_SAMPLE = {"weights_p", "weights_q"}
"""Arguments of a measure that belong to its samples, and are no options."""

ANCHORED_MEASURES = ("conditional_cs", "conditional_euclidean")
"""Measures that are sums over rows of a term made of kernel masses: of many rows, anchors are enough."""

_LANDMARKS = 400
"""Landmark rows of the low rank at most: all rows meet all of them. The expectation over anchors is exact with any
number of them; fewer leave more to the correction at the anchors, which is noisier."""
_ROWS = 2_048
"""Rows that meet all anchors and landmarks at once: with 1,400 of these a block of 23 MB for each kernel."""
_SMALLEST_EIGENVALUE = 1e-9
"""Part of the largest eigenvalue of the landmarks' Gram matrix below which directions are left out: dividing by less
would make errors above 1e-7 of rounding errors of 1e-16."""
_LEAST_MASS = 1e-9
"""Masses of low rank that are a smaller share of the largest possible one are errors of the approximation."""


class PoolStatistic(Protocol):
    """A statistic of the pool for each of several labellings, or of rows drawn from it."""

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels` (P x n, groups 0 .. G-1)."""

    def redrawn(self, rows: Sequence[IntArray]) -> FloatArray:
        """Return one value for each of several lists of rows of the pool, some taken more than once."""


class MassAnchors(NamedTuple):
    """Rows of a pool whose kernel masses are exact and stand for those of all, and landmark rows of a low rank."""

    rows: IntArray  # (m,)
    shares: FloatArray  # (m,): for how many rows each of them stands
    landmarks: IntArray  # (r,)


@dataclass(frozen=True)
class MeasuredPool:
    """A checked pool, the measure to evaluate on it, and the options that are not kernels or widths."""

    measure: Measure
    problem: Problem
    options: dict[str, Any]
    mass_anchors: MassAnchors | None = None
    """Rows whose kernel masses are exact, if there are too many rows to find all."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each group as given."""
        return self.problem.groups.sizes

    @property
    def labels(self) -> LabelArray:
        """Labels as given: 0 for the rows of the first group, and so on."""
        return np.repeat(np.arange(len(self.sizes), dtype=label_type(len(self.sizes))), self.sizes)

    @property
    def anchor_rows(self) -> IntArray | None:
        """Rows whose kernel masses are exact; None if all are."""
        return None if self.mass_anchors is None else self.mass_anchors.rows

    @property
    def widths(self) -> dict[str, FloatArray]:
        """Bandwidths that are used."""
        by_option = {option: variable.widths for option, variable in self.kernel_variables.items()}
        return {option: widths for option, widths in by_option.items() if widths is not None}

    @property
    def kernel_variables(self) -> dict[str, KernelVariable]:
        """Variables with kernels, by the name of the option that sets their bandwidths."""
        if isinstance(self.problem, ConditionalProblem):
            return {"bandwidth_x": self.problem.x, "bandwidth_y": self.problem.y}
        if isinstance(self.problem, MarginalProblem):
            return {"bandwidth": self.problem.y}
        return {}

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
            variance = sum(float(np.var(v.values, axis=0).sum()) for v in (self.problem.x, self.problem.y))
        if not np.finfo(np.float64).tiny < variance < np.inf:
            raise DataError(
                "the variances of x and y must be numbers that double precision can hold, got a total of "
                f"{variance:g}. Bring the data to another unit: multiply x and y by a constant."
            )
        return variance

    def with_weights(self, weights: FloatArray | None) -> MeasuredPool:
        """Return the pool with other weights of the rows."""
        if weights is None:
            return self
        return replace(self, problem=replace(self.problem, groups=Groups(self.sizes, weights)))

    def observed(self) -> FloatArray:
        """Return the divergences between all pairs of groups as given (G x G)."""
        return np.asarray(self.measure.pairs(self.problem, **self.options), dtype=np.float64)


class MeasuredPools(NamedTuple):
    """A pool, or one for each of several multiples of the median bandwidths, and these."""

    pools: list[MeasuredPool]
    multiples: list[tuple[float, ...]]

    @property
    def first(self) -> MeasuredPool:
        """The first of them: all have the same rows."""
        return self.pools[0]


@dataclass(frozen=True)
class TestedMeasure:
    """A registered measure and those of its options that were given."""

    __test__ = False  # not a test case, whatever pytest makes of the name

    measure: Measure
    options: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, options: Mapping[str, Any], *, takes_x: bool) -> TestedMeasure:
        """Choose a measure of x and y, or of y alone; plain `bandwidth` sets those of x and y.

        Labels in x borrow strength from one another.
        """
        fitting = tuple(m.name for m in MEASURES.values() if m.takes_x == takes_x)
        first = "conditional_cs" if takes_x else "cs"
        measure = MEASURES[check_choice("measure", name, (first, *(n for n in fitting if n != first)))]
        allowed = measure.options - _PER_SAMPLE
        unknown = sorted(set(options) - allowed)
        if unknown:
            raise ParameterError(
                f"{named(unknown[0])} must be an option of the test or of {measure.name!r}. Those of the measure are "
                f"{', '.join(sorted(allowed))}."
            )
        if measure.gram and "kernel_x" in options:
            options = {**options, "kernel_x": borrowing(options["kernel_x"])}
        if not takes_x or "bandwidth" not in options:
            return cls(measure, options)
        refuse_both([name for name in ("bandwidth_x", "bandwidth_y") if name in options])
        rest = {k: v for k, v in options.items() if k != "bandwidth"}
        return cls(measure, {**rest, "bandwidth_x": options["bandwidth"], "bandwidth_y": options["bandwidth"]})

    @property
    def aggregated(self) -> list[str]:
        """Bandwidths of which several multiples of the median are to be combined."""
        return [
            k for k, v in self.options.items() if k.startswith("bandwidth") and isinstance(v, str) and v == "aggregate"
        ]

    def pool(self, x_parts: Parts, y_parts: Parts, weight_parts: Parts | None = None) -> MeasuredPool:
        """Check the samples, and split the options into those of the kernels and those of the measure."""
        weights = [("weights", None)] * len(y_parts) if weight_parts is None else weight_parts
        return MeasuredPool(self.measure, *self.measure.problem(x_parts, y_parts, weights, dict(self.options)))

    def pools(self, x_parts: Parts, y_parts: Parts) -> MeasuredPools:
        """Return one pool, or one for each of several multiples of the median bandwidths."""
        if not self.aggregated:
            return MeasuredPools([self.pool(x_parts, y_parts)], [])
        if not self.measure.gram:
            raise ParameterError(
                f"`{setting('bandwidth', 'aggregate')}` must go with a kernel measure, got {self.measure.name!r}. "
                "Leave it out."
            )
        medians = self._with(dict.fromkeys(self.aggregated, "median"))
        of_medians = medians.pool(x_parts, y_parts)
        widths, variables = of_medians.widths, of_medians.kernel_variables
        # Labels have no width to vary: if x or y has no other columns, only the other one is varied.
        varied = [k for k in self.aggregated if variables[k].has_numbers]
        multiples: list[tuple[float, ...]] = [(m,) * len(varied) for m in AGGREGATE_MULTIPLES]
        if len(varied) == 2:
            multiples = list(AGGREGATE_PAIRS)
        pools = []
        for factors in multiples:
            # Those of labels are not read, and NaN: any number stands for it.
            scaled = {k: np.nan_to_num(factor * widths[k], nan=1.0) for k, factor in zip(varied, factors, strict=True)}
            pools.append(medians._with(scaled).pool(x_parts, y_parts))
        return MeasuredPools(pools, multiples)

    def _with(self, options: Mapping[str, Any]) -> TestedMeasure:
        """Return the measure with some options changed."""
        return TestedMeasure(self.measure, {**self.options, **options})


def anchored_pool(pool: MeasuredPool, rng: np.random.Generator) -> MeasuredPool:
    """Return the pool with anchors, if it is large and its measure can use them."""
    pilot = drawn_anchors(sum(pool.sizes), rng)
    pooled_pairs = pool.options.get("estimator") == "pooled" and len(pool.sizes) > 2
    can_use_anchors = pool.measure.name in ANCHORED_MEASURES and not pooled_pairs
    if pilot is None or not can_use_anchors:
        return pool
    return replace(pool, mass_anchors=drawn_by_mass(pool, pilot, rng))


def pooled_variables(pool: MeasuredPool) -> tuple[Variable, Variable]:
    """Return x and y of all samples."""
    problem = pool.problem
    if isinstance(problem, ConditionalProblem):
        return problem.x.variable, problem.y.variable
    assert isinstance(problem, NumericProblem)
    return problem.x, problem.y


def total_divergence(pairs: FloatArray, *, symmetric: bool) -> FloatArray:
    """Sum the divergences of all pairs of groups: one number from a matrix (last two axes)."""
    count = pairs.shape[-1]
    if count == 2:
        return np.asarray(pairs[..., 0, 1])
    g, h = np.triu_indices(count, 1)  # all pairs g < h
    forth = pairs[..., g, h].sum(axis=-1)
    return np.asarray(forth if symmetric else forth + pairs[..., h, g].sum(axis=-1))


class Regrouped:
    """The plain way: sort the pool by label, evaluate the measure, for one labelling after the other."""

    def __init__(self, pool: MeasuredPool) -> None:
        self.pool = pool

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        # Other measures spread their own tiles over threads.
        n_threads = current_settings().n_threads if self.pool.measure.name == "conditional_mmd" else 1
        pairs = np.array(list(on_threads(self.pairs, ((row,) for row in np.atleast_2d(labels)), n_threads)))
        return total_divergence(pairs, symmetric=self.pool.measure.symmetric)

    def redrawn(self, rows: Sequence[IntArray]) -> FloatArray:
        """Return one value for each of several lists of rows of the pool."""
        pairs = np.array([self.pairs(self.pool.labels[taken], taken) for taken in rows])
        return total_divergence(pairs, symmetric=self.pool.measure.symmetric)

    def pairs(self, labels: LabelArray, rows: IntArray | None = None) -> FloatArray:
        """Return the divergences between all pairs of groups for one labelling (of `rows` of the pool, if given)."""
        problem, count = self.pool.problem, len(self.pool.sizes)
        order: IntArray = np.argsort(labels, kind="stable")
        order = order if rows is None else rows[order]
        sizes = tuple(int(s) for s in np.bincount(labels, minlength=count))
        relabelled = regrouped(problem, order, sizes)
        return np.asarray(self.pool.measure.pairs(relabelled, **self.pool.options), dtype=np.float64)


class CovarianceMoments(Regrouped):
    """First and second moments of every group are linear in its indicator, so ``W' Z`` and ``W' ZZ`` give them all."""

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, NumericProblem)
        super().__init__(pool)
        joint = np.concatenate([pool.problem.x.values, pool.problem.y.values], axis=1).astype(np.float64)
        # Centred first: second moments far from the origin would cancel.
        self.joint = joint - joint.mean(axis=0)
        n, d = joint.shape
        self.products = (self.joint[:, :, None] * self.joint[:, None, :]).reshape(n, d * d)
        self.columns_x = pool.problem.x.values.shape[1]

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        labels = np.atleast_2d(labels)
        d = self.joint.shape[1]
        covariances = []  # of each group (P, d, d)
        for g in range(len(self.pool.sizes)):
            members = (labels == g).astype(np.float64)  # (P, n)
            size = members.sum(axis=1)[:, None, None]  # (P, 1, 1)
            means = members @ self.joint / size[:, 0]  # (P, d)
            products = (members @ self.products).reshape(-1, d, d)
            covariances.append((products - size * means[:, :, None] * means[:, None, :]) / (size - 1))
        generator = self.pool.options.get("generator", "von_neumann")
        direction = self.pool.options.get("direction", "pq")
        pairs = [
            bregman_pairs(self.pool.problem.inputs.backend, list(matrices), self.columns_x, generator, direction)
            for matrices in zip(*covariances, strict=True)
        ]
        return total_divergence(np.array(pairs), symmetric=False)


class NeighbourTable(Regrouped):
    """Nearest neighbours do not depend on labels: each row walks along its sorted list until every group has met k."""

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, NumericProblem)
        from scipy.spatial import cKDTree

        super().__init__(pool)
        self.k = int(pool.options.get("k", 3))
        self.direction = check_direction(pool.options.get("direction", "pq"))
        n = sum(pool.sizes)
        joint, marginal, floor = joint_and_marginal_points(pool.problem)
        length = min(n, max(_LEAST_NEIGHBOURS, _NEIGHBOURS_OF_GROUP * self.k * len(pool.sizes)) + 1)
        self.tables = []
        for points in (joint, marginal):
            distances, indices = cKDTree(points).query(points, k=length)
            logs = np.log(np.maximum(distances, floor))
            self.tables.append((np.ascontiguousarray(indices, dtype=np.int64), logs, points.shape[1]))

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        from condcs._inference.compiled_loops import neighbour_divergences

        count = len(self.pool.sizes)
        labels = np.ascontiguousarray(np.atleast_2d(labels), dtype=label_type(count))
        parts = [neighbour_divergences(indices, logs, d, labels, self.k, count) for indices, logs, d in self.tables]
        pairs = directed(self.pool.problem.inputs.backend, parts[0] - parts[1], self.direction)
        values = total_divergence(pairs, symmetric=False)
        # NaN: some list ended before a group had met k neighbours. Rare, and then done the plain way.
        for i in np.flatnonzero(~np.isfinite(values)):
            values[i] = super().__call__(labels[i])[0]
        return values


class _Tiled(Regrouped):
    """Accumulate a G x G x P interaction over row tiles of the pool, spread over threads, added in a fixed order."""

    def __init__(self, pool: MeasuredPool, kernels: Sequence[LogKernel]) -> None:
        super().__init__(pool)
        self.kernels, self.n, self.count = kernels, sum(pool.sizes), len(pool.sizes)
        weights = pool.problem.groups.weights
        self.weights = None if weights is None else np.asarray(weights, np.float64)

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        labels = np.atleast_2d(labels)
        batch = max(1, _BATCH_FLOATS // (self.n * self.count))
        parts = [self._batch(labels[i : i + batch]) for i in range(0, len(labels), batch)]
        return np.concatenate(parts)

    def redrawn(self, rows: Sequence[IntArray]) -> FloatArray:
        """Return one value for each of several lists of rows of the pool, some taken more than once.

        How often a row was taken is its weight, so that all samples share one product as labellings do.
        """
        counts = np.zeros((self.n, len(rows)))
        for column, taken in enumerate(rows):
            taken_weights = None if self.weights is None else self.weights[taken]
            counts[:, column] = np.bincount(taken, taken_weights, minlength=self.n)
        spans = self.pool.problem.groups.slices
        weights = [np.zeros_like(counts) for _ in spans]  # for each group (n, samples), 0 in the rows of the others
        for group_weights, span in zip(weights, spans, strict=True):
            group_weights[span] = counts[span]

        def masses(gram: FloatArray) -> list[FloatArray]:
            return [gram[:, span] @ group_weights[span] for group_weights, span in zip(weights, spans, strict=True)]

        values = self._values(weights, masses)
        # As below: sums over all rows that underflow are made again in logs.
        for i in np.flatnonzero(~np.isfinite(values)):
            values[i] = super().redrawn([rows[i]])[0]
        return values

    def _batch(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`, few enough for all indicator columns to be held at once."""
        turned = np.ascontiguousarray(labels.T)  # (n, P)
        indicators = [(turned == g).astype(np.float64) for g in range(self.count)]
        if self.weights is not None:
            for indicator in indicators:
                indicator *= self.weights[:, None]
        values = self._values(indicators, lambda gram: group_masses(gram, indicators, self.weights))
        # Sums over all rows that underflow, as for responses very far apart, are made again in logs, as is what is NaN.
        for i in np.flatnonzero(~np.isfinite(values)):
            values[i] = super().__call__(labels[i])[0]
        return values

    def _values(self, weights: list[FloatArray], masses: Callable[[FloatArray], list[FloatArray]]) -> FloatArray:
        """Return one value per column of the groups' weights; not finite where a sum over all rows underflows."""
        interaction = self._accumulate(weights, masses)
        with np.errstate(divide="ignore", invalid="ignore"):
            pairs = self.contrast(interaction, weights)
        return total_divergence(np.moveaxis(pairs, -1, 0), symmetric=True)

    def _accumulate(self, weights: list[FloatArray], masses: Callable[[FloatArray], list[FloatArray]]) -> FloatArray:
        """Sum over tiles of rows what `tile_sums` makes of their masses (G x G x P)."""

        def work(rows: slice) -> FloatArray:
            grams = self.tile_exponents(rows)
            for tile in grams:
                exp_in_place(tile, compiled=self.n > PLAIN_TESTS)
            return self.tile_sums([masses(g) for g in grams], rows, weights)

        return np.asarray(total(work, self.n, current_settings().tile, progress=weights[0].shape[1]))

    def tile_exponents(self, rows: RowIndex) -> list[FloatArray]:
        """Return the exponents of some rows against all, one array per kernel."""
        return [np.ascontiguousarray(k.block(rows, slice(0, self.n)), dtype=np.float64) for k in self.kernels]

    def tile_sums(self, masses: list[list[FloatArray]], rows: slice, weights: list[FloatArray]) -> FloatArray:
        """Return what some rows add: masses[kernel][group] are rows x P, weights[group] all rows x P."""
        raise NotImplementedError

    def contrast(self, interaction: FloatArray, weights: list[FloatArray]) -> FloatArray:
        """Return the divergences of all pairs (G x G x P)."""
        raise NotImplementedError


def group_masses(gram: FloatArray, indicators: list[FloatArray], weights: FloatArray | None = None) -> list[FloatArray]:
    """Return ``gram @ w`` for the (weighted) indicators of every group, each row of the pool being in exactly one.

    With two groups the second mass is the total minus the first wherever that keeps 13 digits, and a product of its
    own in the other rows: half the work. Without that guard the subtraction would cancel to nothing in rows that are
    far from the second group.
    """
    if len(indicators) != 2:
        return [gram @ w for w in indicators]
    first = gram @ indicators[0]  # (rows, P)
    of_pool = gram.sum(axis=1, keepdims=True) if weights is None else (gram @ weights)[:, None]  # (rows, 1)
    second = of_pool - first
    lost = np.flatnonzero(second.min(axis=1) < _KEPT_SHARE * of_pool[:, 0])
    if len(lost):
        second[lost] = gram[lost] @ indicators[1]
    return [first, second]


class ConditionalGram(_Tiled):
    """Conditional CS divergence (every estimator) and conditional Euclidean distance."""

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, ConditionalProblem)
        super().__init__(pool, [pool.problem.x.kernel, pool.problem.y.kernel])
        self.estimator = pool.options.get("estimator", "paper")

    def tile_exponents(self, rows: RowIndex) -> list[FloatArray]:
        """Return the exponents on x, and on x and y."""
        x, y = super().tile_exponents(rows)
        y += x
        return [x, y]

    def tile_sums(self, masses: list[list[FloatArray]], rows: slice, weights: list[FloatArray]) -> FloatArray:
        """Return T[g,h] = sum_j W[j,g] B[j,h] / (A[j,g] A[j,h]) over the rows of the tile."""
        a, b = masses
        weights_of_rows = [w[rows] for w in weights]
        lost = np.flatnonzero(np.min([ah.min(axis=1) for ah in a], axis=0) < _SAFE_SUM)
        with np.errstate(divide="ignore", invalid="ignore"):
            # A row in no group has weight 0 and whatever mass; a row's mass in its own group includes itself.
            pooled = weights_of_rows[0] + weights_of_rows[1] if self.estimator == "pooled" else None
            if pooled is not None:
                pooled = np.where(pooled > 0, pooled / (b[0] + b[1]), 0.0)
            # In place: to get memory for arrays of this size takes as long as to divide them.
            ratio = [np.divide(bh, ah, out=bh) for ah, bh in zip(a, b, strict=True)]
            shares = [np.divide(w, ag, out=ag) for w, ag in zip(weights_of_rows, a, strict=True)]
        if len(lost):
            for share, w in zip(shares, weights_of_rows, strict=True):
                share[lost] = np.where(w[lost] > 0, share[lost], 0.0)
            for of_group, without_underflow in zip(ratio, self._lost_ratios(rows.start + lost, weights), strict=True):
                of_group[lost] = without_underflow
        return linear_interaction(shares, ratio) if pooled is None else linear_pooled_interaction(pooled, ratio)

    def _lost_ratios(self, rows: IntArray, weights: list[FloatArray]) -> list[FloatArray]:
        """Return B[j,h] / A[j,h] for rows j with a mass that underflows under some labelling.

        Takes r rows of the pool, and the weights of all rows in each group (n x P); returns r x P ratios per group.

        Both masses of a row may be divided by the same number. In each round that is the kernel value on x of the
        nearest row, so that every labelling with a near row in the group has a mass, and its ratio is done. In the
        others none of the near rows is in the group: each by itself would have been a mass. So near rows are left out,
        and in the next round the nearest of the remaining rows gives the unit. Few rounds do for most rows, because
        hardly any labelling misses a whole neighbourhood.

        A row with no mass at all (of a category that a group does not have) gets 0, which is what it adds. What takes
        more than 32 rounds is NaN, and the labelling is done the plain way.
        """
        kernel_x, everywhere = self.kernels[0], slice(0, self.n)
        ratios = [np.zeros((len(rows), w.shape[1])) for w in weights]  # (r, P) for each group
        is_missing = [np.ones(ratio.shape, bool) for ratio in ratios]  # (r, P) for each group
        # The remaining k rows, by their numbers in `rows`, with their exponents against the pool (k, n), and the rows
        # of the pool that have been left out for them (k, n).
        remaining = np.arange(len(rows))
        log_x, log_y = (np.array(kernel.block(rows, everywhere), dtype=np.float64) for kernel in self.kernels)
        is_left_out = np.zeros(log_x.shape, bool)

        for _ in range(_ROUNDS):
            reached = log_x.max(axis=1) > -np.inf
            remaining, log_x, log_y, is_left_out = (a[reached] for a in (remaining, log_x, log_y, is_left_out))

            # Exponents are taken relative to that of the nearest row, from the rows themselves, as in
            # `condcs._kernels.row_sums`: far away, exponents have no digits left for differences. Rounding may hide at
            # first which row is the nearest; relative to one of the near rows it is plain to see.
            features = tuple(a[rows[remaining]] for a in kernel_x.left)
            for _ in range(2):
                relative = kernel_x.relative(features, kernel_x.right, log_x.argmax(axis=1))
                log_x = np.where(is_left_out, -np.inf, relative)
            gram, joint = np.exp(log_x), np.exp(log_x + log_y)  # (k, n)

            still_missing = np.zeros(len(remaining), bool)
            for w, ratio, missing in zip(weights, ratios, is_missing, strict=True):
                masses = gram @ w  # (k, P)
                done = missing[remaining] & (masses >= _SAFE_SUM)
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio[remaining] = np.where(done, joint @ w / masses, ratio[remaining])
                missing[remaining] &= ~done
                still_missing |= missing[remaining].any(axis=1)

            is_left_out |= gram >= _SAFE_SUM
            log_x = np.where(is_left_out, -np.inf, log_x)
            remaining, log_x, log_y, is_left_out = (a[still_missing] for a in (remaining, log_x, log_y, is_left_out))
            if not len(remaining):
                return ratios

        for ratio, missing in zip(ratios, is_missing, strict=True):
            ratio[remaining] = np.where(missing[remaining], np.nan, ratio[remaining])
        return ratios

    def contrast(self, interaction: FloatArray, weights: list[FloatArray]) -> FloatArray:
        """Return the divergences of all pairs (G x G x P)."""
        t = interaction if self.pool.measure.name == "conditional_euclidean" else np.log(interaction)
        return np.asarray(contrast(t, self.estimator))


class MarginalGram(_Tiled):
    """CS divergence and squared MMD, on y alone or on pairs (x, y)."""

    def __init__(self, pool: MeasuredPool) -> None:
        problem = pool.problem
        if isinstance(problem, MarginalProblem):
            kernel = problem.y.kernel
        else:
            assert isinstance(problem, ConditionalProblem)
            kernel = product([problem.x.kernel, problem.y.kernel])
        super().__init__(pool, [kernel])
        diagonal = kernel.diagonal()
        self.diagonal = np.ones(self.n) if diagonal is None else np.exp(diagonal)

    def tile_sums(self, masses: list[list[FloatArray]], rows: slice, weights: list[FloatArray]) -> FloatArray:
        """Return T[g,h] = sum_j W[j,g] (L W)[j,h] over the rows of the tile."""
        return linear_interaction([w[rows] for w in weights], masses[0])

    def contrast(self, interaction: FloatArray, weights: list[FloatArray]) -> FloatArray:
        """Return the divergences of all pairs (G x G x P)."""
        sizes = np.array([w.sum(axis=0) for w in weights])
        means = interaction / (sizes[:, None] * sizes[None])
        if not self.pool.options.get("unbiased", False):
            return np.asarray(contrast(np.log(means) if self.pool.measure.name == "cs" else means))
        itself = np.array([self.diagonal @ w for w in weights])
        within = (np.einsum("ggs->gs", interaction) - itself) / (sizes * (sizes - 1))
        return np.asarray(within[:, None] + within[None] - means - np.swapaxes(means, 0, 1))


class AnchoredConditional:
    r"""Conditional CS divergence (every estimator) or conditional Euclidean distance of a large pool.

    Low rank for all rows, corrected at anchor rows. The interaction of Prop. 2 is a sum over rows j of a term made of
    the kernel masses A and B of that row. Masses by low rank (a Nystrom approximation at landmark rows) cost O(n r) for
    all rows; exact masses of m anchor rows cost O(n m). Put together,

    .. math:: T = \beta \sum_j \tilde t_j + \frac 1 m \sum_{a} \frac{t_a - \beta \tilde t_a}{\pi_a},

    where t are the exact terms and :math:`\tilde t` those of low rank. Terms are large where rows are few, so an anchor
    is drawn with a probability :math:`\pi` that is half even, half inverse to the mass of the pool there. The
    expectation over anchors is exact whatever the low rank is worth, and where that is good there is hardly any error
    left. How good it is says :math:`\beta`, found once, from the masses of the pool without its labels.

    `condcs._measures.sampled` estimates the same sums in another way, on purpose. There anchors are drawn where the
    terms of the given groups are large, and more of them until the standard error is small enough. A test must not do
    that: its anchors would follow the labels as given, and not those of the resamples. Here nothing depends on labels
    but the terms themselves, so that the divergence of the data and those of resamples are values of one statistic, and
    the test is valid whatever its error. There is no standard error, because a test needs none.
    """

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, ConditionalProblem)
        assert pool.mass_anchors is not None
        self.pool, (self.anchors, self.shares, self.landmarks) = pool, pool.mass_anchors
        self.n, self.count = sum(pool.sizes), len(pool.sizes)
        self.x, self.y = pool.problem.x.kernel, pool.problem.y.kernel
        self.estimator = pool.options.get("estimator", "paper")
        weights = pool.problem.groups.weights
        self.weights = np.ones(self.n) if weights is None else np.asarray(weights, np.float64)
        # Kernels with 1 on the diagonal: a mass is at least the row's own weight, and B at most A.
        self.bounded = self.x.diagonal() is None and self.y.diagonal() is None
        at_landmarks = self._grams(self.landmarks, self.landmarks)
        self._inverses = [pseudo_inverse(gram, _SMALLEST_EIGENVALUE) for gram in at_landmarks]
        self._trust = self._fitted_trust()

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        labels = np.atleast_2d(labels)

        def weights(rows: RowIndex) -> list[FloatArray]:
            row_weights = self.weights[rows, None]
            return [np.multiply((labels[:, rows] == g).T, row_weights) for g in range(self.count)]

        return self._values(weights)

    def redrawn(self, rows: Sequence[IntArray]) -> FloatArray:
        """Return one value for each of several lists of rows: rows of the pool, some taken more than once."""
        counts = np.stack([np.bincount(taken, minlength=self.n).astype(np.uint16) for taken in rows])
        groups = self.pool.labels

        def weights(rows: RowIndex) -> list[FloatArray]:
            times_weights = counts[:, rows].T * self.weights[rows, None]  # (rows, samples)
            return [np.where(groups[rows, None] == g, times_weights, 0.0) for g in range(self.count)]

        return self._values(weights)

    def _values(self, weights: Weights) -> FloatArray:
        """Return one value per column of the groups' weights."""
        n_resamples = weights(slice(0, 1))[0].shape[1]  # P
        # Half of the work is done with each of the two sums over all rows.
        progress_share = 0.5
        exact, coefficients = self._masses(weights, progress=progress_share * n_resamples)

        def terms(rows: slice) -> FloatArray:
            return self._interaction(self._low_rank(rows, coefficients), weights(rows), self._least)

        # T by low rank at all rows, by exact masses at the anchors, and by low rank at the anchors: each G x G x P.
        everywhere = total(terms, self.n, _ROWS, progress=progress_share * n_resamples)
        anchor_weights = weights(self.anchors)
        plain = self._interaction(exact, anchor_weights, _SAFE_SUM, self.shares)
        low_rank = self._low_rank(self.anchors, coefficients)
        at_anchors = self._interaction(low_rank, anchor_weights, self._least, self.shares)
        corrected = plain + self._trust * (everywhere - at_anchors)
        # A correction larger than what it corrects, or no anchor in a group: one of the two alone.
        interaction = np.where(corrected > 0, corrected, np.where(plain > 0, plain, everywhere))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = interaction if self.pool.measure.name == "conditional_euclidean" else np.log(interaction)
            pairs = np.asarray(contrast(t, self.estimator))
        return total_divergence(np.moveaxis(pairs, -1, 0), symmetric=True)

    def _masses(self, weights: Weights, progress: float = 0.0) -> tuple[Masses, Masses]:
        """Return the exact masses of the anchors, and what the landmarks count in those of low rank."""
        both, ends = np.concatenate([self.landmarks, self.anchors]), len(self.landmarks)

        def sums(rows: slice) -> FloatArray:
            row_weights = np.array(weights(rows))  # (G, rows, P)
            return np.array([gram @ row_weights for gram in self._grams(both, rows)])

        masses = total(sums, self.n, _ROWS, progress=progress)  # (kernels, G, landmarks + anchors, P)
        exact, coefficients = [], []
        for inverse, of_kernel in zip(self._inverses, masses, strict=True):
            exact.append(list(of_kernel[:, ends:]))
            coefficients.append(list(inverse @ of_kernel[:, :ends]))
        return exact, coefficients

    def _low_rank(self, rows: RowIndex, coefficients: Masses) -> Masses:
        """Return the masses of some rows by low rank, for each kernel and group."""
        grams = self._grams(rows, self.landmarks)
        return [[gram @ c for c in of_groups] for gram, of_groups in zip(grams, coefficients, strict=True)]

    def _interaction(
        self, masses: Masses, weights: list[FloatArray], least: float, shares: FloatArray | float = 1.0
    ) -> FloatArray:
        """Sum the terms of some rows (G x G x P), times `shares`; masses that are rounding errors add nothing."""
        a, b = masses
        if self.bounded:
            a, b = ([np.maximum(m, w) for m, w in zip(of_kernel, weights, strict=True)] for of_kernel in masses)
        ratios = [self._ratio(ah, bh, least) for ah, bh in zip(a, b, strict=True)]
        shares = np.reshape(shares, (-1, 1))
        if self.estimator == "pooled" and self.count == 2:
            pooled = shares * (weights[0] + weights[1]) / np.maximum(b[0] + b[1], least)
            return linear_pooled_interaction(pooled, ratios)
        terms = [shares * w / np.maximum(ag, least) for w, ag in zip(weights, a, strict=True)]
        return linear_interaction(terms, ratios)

    def _ratio(self, a: FloatArray, b: FloatArray, least: float) -> FloatArray:
        """Return B / A, within what it can be; 0 where A is a rounding error."""
        with np.errstate(over="ignore"):
            ratio = np.where(a > least, b / np.maximum(a, least), 0.0)
        return np.clip(ratio, 0.0, 1.0 if self.bounded else None)

    def _fitted_trust(self) -> float:
        """Slope of exact terms B / A^2 on those of low rank, of the whole pool as one group, over the anchors."""
        exact, coefficients = self._masses(lambda rows: [self.weights[rows, None]])
        low_rank = self._low_rank(self.anchors, coefficients)
        terms = []
        for ((a,), (b,)), least in ((exact, _SAFE_SUM), (low_rank, self._least)):
            terms.append((self._ratio(a, b, least) / np.maximum(a, least))[:, 0] * self.shares)
        covariance = np.cov(np.array(terms) / max(np.abs(terms).max(), _SAFE_SUM))
        return float(np.clip(covariance[0, 1] / max(covariance[1, 1], _SAFE_SUM), 0.0, 1.0))

    @property
    def _least(self) -> float:
        """Mass of low rank up to which it is an error of the approximation."""
        return float(_LEAST_MASS * self.weights.sum())

    def _grams(self, rows: RowIndex, columns: RowIndex) -> list[FloatArray]:
        """Kernel on x, and on x and y, of rows against columns."""
        x, y = (np.array(k.block(rows, columns), dtype=np.float64, order="C") for k in (self.x, self.y))
        y += x
        exp_in_place(x)
        exp_in_place(y)
        return [x, y]


def drawn_by_mass(pool: MeasuredPool, pilot: IntArray, rng: np.random.Generator) -> MassAnchors:
    """Draw as many anchors as there are pilot rows, half of them evenly, half where the pool has little mass of x."""
    assert isinstance(pool.problem, ConditionalProblem)
    kernel, n = pool.problem.x.kernel, sum(pool.sizes)
    share = n / len(pilot)

    def inverse_masses(rows: slice) -> FloatArray:
        gram = np.array(kernel.block(rows, pilot), dtype=np.float64, order="C")
        exp_in_place(gram)
        # Every row has its own mass, whether it is a pilot or not.
        return np.asarray(1 / np.maximum(share * gram.sum(axis=1), 1.0))

    inverses = np.concatenate(list(over_rows(inverse_masses, n, _ROWS)))  # (n,)
    chances = 0.5 / n + 0.5 * inverses / inverses.sum()
    chances /= chances.sum()
    rows = rng.choice(n, len(pilot), p=chances)
    # Landmarks of their own: there the low rank is exact, and anchors among them would find nothing to correct.
    landmarks = np.unique(rng.choice(n, min(_LANDMARKS, len(pilot)), p=chances))
    return MassAnchors(rows, 1 / (len(pilot) * chances[rows]), landmarks)


def pool_statistic(pool: MeasuredPool) -> PoolStatistic:
    """Return the fastest statistic for this measure and these options."""
    if pool.mass_anchors is not None:
        return AnchoredConditional(pool)
    makers: dict[str, Callable[[MeasuredPool], PoolStatistic]] = {
        "cs": MarginalGram,
        "mmd": MarginalGram,
        "joint_mmd": MarginalGram,
        "conditional_cs": ConditionalGram,
        "conditional_euclidean": ConditionalGram,
        "conditional_mmd": Regrouped,
        "conditional_kl": NeighbourTable,
        "conditional_bregman": CovarianceMoments,
    }
    correntropy = pool.options.get("matrix", "covariance") != "covariance"
    # The pooled estimate of a pair leaves out the rows of other groups: no single sum serves all pairs.
    pooled_pairs = pool.options.get("estimator") == "pooled" and len(pool.sizes) > 2
    return Regrouped(pool) if correntropy or pooled_pairs else makers[pool.measure.name](pool)
