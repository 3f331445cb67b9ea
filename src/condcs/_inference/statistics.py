"""A measure as a statistic of a pool and its groups: fixed data and widths, many ways to label the rows.

A test asks for the same divergence under hundreds of relabellings. What does not depend on the labels (kernels,
neighbour tables, moments) is found once. `Regrouped` is the plain way, right for every measure: sort the pool by label
and evaluate. The others are tested against it.

For measures made of Gram matrices let W be the n x P indicator columns of one group: ``K @ W`` holds its kernel masses
for all P labellings, so that one exponential per pair of rows serves them all. Row tiles of K are made, multiplied and
dropped; no n x n array exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from condcs._core.arrays import Array
from condcs._core.checks import Groups, Parts, Variable, label_type
from condcs._core.errors import DataError
from condcs._core.progress import report_done
from condcs._core.settings import current_settings, one_blas_thread
from condcs._kernels.log_kernels import LogKernel, product
from condcs._kernels.row_sums import exp_in_place
from condcs._measures.bregman import bregman_pairs
from condcs._measures.formulas import (
    check_direction,
    contrast,
    directed,
    linear_interaction,
    linear_pooled_interaction,
)
from condcs._measures.inputs import ConditionalProblem, MarginalProblem, NumericProblem, Problem
from condcs._measures.neighbours import joint_and_marginal_points
from condcs._measures.registry import Measure

FloatArray = np.ndarray[Any, Any]
LabelArray = np.ndarray[Any, Any]
Rows = slice | LabelArray

_FIRST_NEIGHBOURS = 64
# Sums above this hold no digits lost to underflow.
_SAFE_SUM = 1e-290
_KEPT_SHARE = 1e-3
# Products of this many rounds take about as long as the labellings one by one, if all rows are lost.
_ROUNDS = 32
_BATCH_FLOATS = 2**25
"""Largest number of entries of the indicator columns held at once (256 MB)."""


class PoolStatistic(Protocol):
    """A statistic of the pool for each of several labellings."""

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels` (P x n, groups 0 .. G-1)."""


class Anchors(NamedTuple):
    """Rows of a pool that stand for all, for how many each of them stands, and landmark rows of a low rank."""

    rows: LabelArray
    shares: FloatArray
    landmarks: LabelArray


@dataclass(frozen=True)
class MeasuredPool:
    """A checked pool, the measure to evaluate on it, and the options that are not kernels or widths."""

    measure: Measure
    problem: Problem
    options: dict[str, Any]
    anchors: Anchors | None = None
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
    def anchor_rows(self) -> LabelArray | None:
        """Rows whose kernel masses are exact; None if all are."""
        return None if self.anchors is None else self.anchors.rows

    @property
    def widths(self) -> dict[str, FloatArray]:
        """Bandwidths that are used."""
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

    def with_weights(self, weights: FloatArray | None) -> MeasuredPool:
        """Return the pool with other weights of the rows."""
        if weights is None:
            return self
        return replace(self, problem=replace(self.problem, groups=Groups(self.sizes, weights)))

    def observed(self) -> FloatArray:
        """Return the divergences between all pairs of groups as given (G x G)."""
        return np.asarray(self.measure.pairs(self.problem, **self.options), dtype=np.float64)

    def divergence(self) -> float:
        """Return the divergence of the groups as given, summed over all pairs of them."""
        if self.anchors is not None:
            return float(pool_statistic(self)(self.labels[None])[0])
        pairs = np.asarray(self.measure.pairs(self.problem, **self.options), dtype=np.float64)
        return float(total_divergence(pairs, symmetric=self.measure.symmetric))


def measured_pool(
    measure: Measure, x_parts: Parts, y_parts: Parts, options: dict[str, Any], weight_parts: Parts | None = None
) -> MeasuredPool:
    """Check the samples and split the options into those of the kernels and those of the measure."""
    weights = [("weights", None)] * len(y_parts) if weight_parts is None else weight_parts
    return MeasuredPool(measure, *measure.problem(x_parts, y_parts, weights, options))


def anchored_pool(pool: MeasuredPool, rng: np.random.Generator) -> MeasuredPool:
    """Return the pool with anchors, if it is large and its measure can use them."""
    from condcs._inference.anchored_divergence import MEASURES, drawn_by_mass
    from condcs._inference.anchors import drawn_anchors

    pilot = drawn_anchors(sum(pool.sizes), rng)
    fits = pool.measure.name in MEASURES and not (pool.options.get("estimator") == "pooled" and len(pool.sizes) > 2)
    return pool if pilot is None or not fits else replace(pool, anchors=drawn_by_mass(pool, pilot, rng))


def pooled_variables(pool: MeasuredPool) -> tuple[Variable, Variable]:
    """Return x and y of all samples."""
    problem = pool.problem
    if isinstance(problem, ConditionalProblem):
        return problem.x.variable, problem.y.variable
    assert isinstance(problem, NumericProblem)
    return problem.x, problem.y


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
        weights = problem.groups.weights
        sizes = tuple(int(s) for s in np.bincount(labels, minlength=count))
        groups = Groups(sizes, None if weights is None else weights[order])
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


class CovarianceMoments:
    """First and second moments of every group are linear in its indicator, so ``W' Z`` and ``W' ZZ`` give them all."""

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, NumericProblem)
        self.pool = pool
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
        covariances = []
        for g in range(len(self.pool.sizes)):
            members = (labels == g).astype(np.float64)
            size = members.sum(axis=1)[:, None]
            means = members @ self.joint / size
            second = (members @ self.products).reshape(-1, d, d)
            covariances.append(
                (second - size[:, :, None] * means[:, :, None] * means[:, None, :]) / (size[:, :, None] - 1)
            )
        generator = self.pool.options.get("generator", "von_neumann")
        direction = self.pool.options.get("direction", "pq")
        pairs = [
            bregman_pairs(self.pool.problem.inputs.backend, list(matrices), self.columns_x, generator, direction)
            for matrices in zip(*covariances, strict=True)
        ]
        return total_divergence(np.array(pairs), symmetric=False)


class NeighbourTable:
    """Nearest neighbours do not depend on labels: each row walks along its sorted list until every group has met k."""

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, NumericProblem)
        from scipy.spatial import cKDTree

        self.pool, self.k = pool, int(pool.options.get("k", 3))
        self.direction = check_direction(pool.options.get("direction", "pq"))
        self.plain = Regrouped(pool)
        n = sum(pool.sizes)
        joint, marginal, floor = joint_and_marginal_points(pool.problem)
        length = min(n, max(_FIRST_NEIGHBOURS, 16 * self.k * len(pool.sizes)) + 1)
        self.tables = []
        for points in (joint, marginal):
            distances, indices = cKDTree(points).query(points, k=length)
            logs = np.log(np.maximum(distances, floor))
            self.tables.append((np.ascontiguousarray(indices, dtype=np.int64), logs, points.shape[1]))

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        from condcs._inference.relabelling_loops import neighbour_divergences

        count = len(self.pool.sizes)
        labels = np.ascontiguousarray(np.atleast_2d(labels), dtype=label_type(count))
        parts = [neighbour_divergences(indices, logs, d, labels, self.k, count) for indices, logs, d in self.tables]
        pairs = directed(self.pool.problem.inputs.backend, parts[0] - parts[1], self.direction)
        values = total_divergence(pairs, symmetric=False)
        # NaN: some list ended before a group had met k neighbours. Rare, and then done the plain way.
        for i in np.flatnonzero(~np.isfinite(values)):
            values[i] = self.plain(labels[i])[0]
        return values


class OperatorGram:
    r"""Conditional MMD squared as one trace, CMMD^2 = tr(L C K C').

    C is the block matrix of the inverses :math:`\tilde K_p^{-1}` and :math:`-\tilde K_q^{-1}`. Cost O(n^3) for each
    labelling, spread over threads; memory O(n^2).
    """

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, ConditionalProblem)
        everything = slice(0, sum(pool.sizes))
        self.K = np.exp(pool.problem.x.kernel.block(everything, everything)).astype(np.float64)
        self.L = np.exp(pool.problem.y.kernel.block(everything, everything)).astype(np.float64)
        self.regularization = float(pool.options.get("regularization", 0.1))
        self.plain = Regrouped(pool)
        self.count = len(pool.sizes)

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        labels = np.atleast_2d(labels)
        if self.count > 2:
            return self.plain(labels)
        with one_blas_thread(), ThreadPoolExecutor(current_settings().n_threads) as threads:
            return np.array(list(threads.map(self._one, labels)))

    def _one(self, labels: LabelArray) -> float:
        inside = [np.flatnonzero(labels == g) for g in (0, 1)]
        factors = []
        for rows in inside:
            ridged = self.K[np.ix_(rows, rows)]
            ridged[np.diag_indices(len(rows))] += self.regularization
            factors.append(cho_factor(ridged, lower=True, overwrite_a=True, check_finite=False))
        half = np.empty_like(self.K)
        for sign, rows, factor in zip((1.0, -1.0), inside, factors, strict=True):
            half[rows] = sign * cho_solve(factor, self.K[rows], check_finite=False)
        total = 0.0
        for sign, rows, factor in zip((1.0, -1.0), inside, factors, strict=True):
            embedded = sign * cho_solve(factor, half[:, rows].T, check_finite=False)
            total += float(np.einsum("ij,ij->", embedded, self.L[rows]))
        return total


class _Tiled:
    """Accumulate a G x G x P interaction over row tiles of the pool, spread over threads, added in a fixed order."""

    def __init__(self, pool: MeasuredPool, kernels: Sequence[LogKernel]) -> None:
        self.pool, self.kernels = pool, kernels
        self.n, self.count = sum(pool.sizes), len(pool.sizes)
        self.plain = Regrouped(pool)
        weights = pool.problem.groups.weights
        self.weights = None if weights is None else np.asarray(weights, np.float64)

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        labels = np.atleast_2d(labels)
        batch = max(1, _BATCH_FLOATS // (self.n * self.count))
        parts = [self._batch(labels[i : i + batch]) for i in range(0, len(labels), batch)]
        return np.concatenate(parts)

    def redrawn(self, rows: Sequence[LabelArray]) -> FloatArray:
        """Return one value for each of several lists of rows of the pool, some taken more than once.

        How often a row was taken is its weight, so that all samples share one product as labellings do.
        """
        counts = np.zeros((self.n, len(rows)))
        for column, taken in enumerate(rows):
            counts[:, column] = np.bincount(taken, self._of(taken), minlength=self.n)
        spans = self.pool.problem.groups.slices
        weights = [np.zeros_like(counts) for _ in spans]
        for own, span in zip(weights, spans, strict=True):
            own[span] = counts[span]

        def masses(gram: FloatArray) -> list[FloatArray]:
            return [gram[:, span] @ own[span] for own, span in zip(weights, spans, strict=True)]

        values = self._values(weights, masses)
        # As below: sums over all rows that underflow are made again in logs.
        for i in np.flatnonzero(~np.isfinite(values)):
            pairs = self.plain.pairs(self.pool.labels[rows[i]], rows[i])
            values[i] = total_divergence(pairs, symmetric=self.pool.measure.symmetric)
        return values

    def _of(self, rows: LabelArray) -> FloatArray | None:
        return None if self.weights is None else self.weights[rows]

    def _batch(self, labels: LabelArray) -> FloatArray:
        members = labels.T[None] == np.arange(self.count, dtype=labels.dtype)[:, None, None]
        indicators = [np.ascontiguousarray(m, dtype=np.float64) for m in members]
        if self.weights is not None:
            for own in indicators:
                own *= self.weights[:, None]
        values = self._values(indicators, lambda gram: group_masses(gram, indicators, self.weights))
        # Sums over all rows that underflow, as for responses very far apart, are made again in logs, as is what is NaN.
        for i in np.flatnonzero(~np.isfinite(values)):
            values[i] = self.plain(labels[i])[0]
        return values

    def _values(self, weights: list[FloatArray], masses: Callable[[FloatArray], list[FloatArray]]) -> FloatArray:
        """Return one value per column of the groups' weights; not finite where a sum over all rows underflows."""
        interaction = self._accumulate(weights, masses)
        with np.errstate(divide="ignore", invalid="ignore"):
            pairs = self.contrast(interaction, weights)
        return total_divergence(np.moveaxis(pairs, -1, 0), symmetric=True)

    def _accumulate(self, weights: list[FloatArray], masses: Callable[[FloatArray], list[FloatArray]]) -> FloatArray:
        settings = current_settings()
        tiles = [slice(i, min(i + settings.tile, self.n)) for i in range(0, self.n, settings.tile)]
        total = np.zeros((self.count, self.count, weights[0].shape[1]))

        def work(rows: slice) -> FloatArray:
            grams = self.tile_exponents(rows)
            for tile in grams:
                exp_in_place(tile)
            return self.tile_sums([masses(g) for g in grams], rows, weights)

        with one_blas_thread(), ThreadPoolExecutor(settings.n_threads) as threads:
            for part in threads.map(work, tiles):
                total += part
                report_done(total.shape[2] / len(tiles))
        return total

    def tile_exponents(self, rows: Rows) -> list[FloatArray]:
        """Return the exponents of some rows against all, one array per kernel."""
        return [np.array(k.block(rows, slice(0, self.n)), dtype=np.float64, order="C") for k in self.kernels]

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
    first = gram @ indicators[0]
    total = gram.sum(axis=1, keepdims=True) if weights is None else (gram @ weights)[:, None]
    second = total - first
    lost = np.flatnonzero(second.min(axis=1) < _KEPT_SHARE * total[:, 0])
    if len(lost):
        second[lost] = gram[lost] @ indicators[1]
    return [first, second]


class ConditionalGram(_Tiled):
    """Conditional CS divergence (every estimator) and conditional Euclidean distance."""

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, ConditionalProblem)
        super().__init__(pool, [pool.problem.x.kernel, pool.problem.y.kernel])
        self.estimator = pool.options.get("estimator", "paper")

    def tile_exponents(self, rows: Rows) -> list[FloatArray]:
        """Return the exponents on x, and on x and y."""
        x, y = super().tile_exponents(rows)
        y += x
        return [x, y]

    def tile_sums(self, masses: list[list[FloatArray]], rows: slice, weights: list[FloatArray]) -> FloatArray:
        """Return T[g,h] = sum_j W[j,g] B[j,h] / (A[j,g] A[j,h]) over the rows of the tile."""
        a, b = masses
        own = [w[rows] for w in weights]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = [bh / ah for ah, bh in zip(a, b, strict=True)]
            # A row in no group has weight 0 and whatever mass; a row's mass in its own group includes itself.
            if self.estimator == "pooled":
                shares = [np.where(own[0] + own[1] > 0, (own[0] + own[1]) / (b[0] + b[1]), 0.0)]
            else:
                shares = [np.where(w > 0, w / ag, 0.0) for w, ag in zip(own, a, strict=True)]
        lost = np.flatnonzero(np.min([ah.min(axis=1) for ah in a], axis=0) < _SAFE_SUM)
        if len(lost):
            for r, found in zip(ratio, self._lost_ratios(rows.start + lost, weights), strict=True):
                r[lost] = found
        if self.estimator == "pooled":
            return linear_pooled_interaction(shares[0], ratio)
        return linear_interaction(shares, ratio)

    def _lost_ratios(self, rows: LabelArray, weights: list[FloatArray]) -> list[FloatArray]:
        """Return B[j,h] / A[j,h] (rows x P, per group) for rows with a mass that underflows under some labelling.

        Masses are taken in units of the nearest row's kernel value, and exponents relative to its own, as in
        `condcs._kernels.row_sums`: far away they have no digits left for differences. If a labelling puts all rows
        near it into another group, those are left out and the next nearest gives the unit, until every labelling has a
        mass: few rounds for most rows, because hardly any labelling misses a whole neighbourhood. Rows with no mass at
        all (a category that a group does not have) get 0, which is what they add. What is not found in 32 rounds is
        NaN, and the labelling is done the plain way.
        """
        kernel_x = self.kernels[0]
        everywhere = slice(0, self.n)
        x, y = (np.array(k.block(rows, everywhere), dtype=np.float64) for k in self.kernels)
        ratios = [np.zeros((len(rows), w.shape[1])) for w in weights]
        waiting = [np.ones(r.shape, bool) for r in ratios]
        left, passed = np.arange(len(rows)), np.zeros(x.shape, bool)
        for _ in range(_ROUNDS):
            finite = x.max(axis=1) > -np.inf
            left, x, y, passed = left[finite], x[finite], y[finite], passed[finite]
            features = tuple(a[rows[left]] for a in kernel_x.left)
            # Rounding may hide which row is the nearest at first; relative to one of the near rows it is plain to see.
            for _ in range(2):
                x = np.where(passed, -np.inf, kernel_x.relative(features, kernel_x.right, x.argmax(axis=1)))
            gram, joint = np.exp(x), np.exp(x + y)
            missing = np.zeros(len(left), bool)
            for w, ratio, wait in zip(weights, ratios, waiting, strict=True):
                a = gram @ w
                here = wait[left] & (a >= _SAFE_SUM)
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio[left] = np.where(here, joint @ w / a, ratio[left])
                wait[left] &= ~here
                missing |= wait[left].any(axis=1)
            # Where a mass is still missing, none of its rows can be among these: each would have been enough.
            passed |= gram >= _SAFE_SUM
            x = np.where(passed, -np.inf, x)
            left, x, y, passed = left[missing], x[missing], y[missing], passed[missing]
            if not len(left):
                return ratios
        for ratio, wait in zip(ratios, waiting, strict=True):
            ratio[left] = np.where(wait[left], np.nan, ratio[left])
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
            kernel = problem.kernel
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


def pool_statistic(pool: MeasuredPool) -> PoolStatistic:
    """Return the fastest statistic for this measure and these options."""
    if pool.anchors is not None:
        from condcs._inference.anchored_divergence import AnchoredConditional

        return AnchoredConditional(pool)
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
    from condcs._core.arrays import backend_of

    if array is None:
        return None
    backend = backend_of(array)
    return array if backend.name == "numpy" else backend.to_numpy(array)
