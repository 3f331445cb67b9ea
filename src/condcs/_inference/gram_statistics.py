r"""Gram-based measures under many labellings at once.

With W the n x P indicator columns of one group, ``K @ W`` holds its kernel masses for all P labellings: one
exponential per
pair of rows serves them all. Row tiles of K are made, multiplied, and dropped, so no n x n array exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from condcs._core.progress import report_done
from condcs._core.settings import current_settings
from condcs._core.thread_limit import one_blas_thread
from condcs._inference.statistics import FloatArray, LabelArray, MeasuredPool, Regrouped, total_divergence
from condcs._kernels.log_kernels import LogKernel, product
from condcs._kernels.row_sums import exp_in_place
from condcs._measures.formulas import contrast, linear_interaction, linear_pooled_interaction
from condcs._measures.inputs import ConditionalProblem, MarginalProblem

Rows = slice | LabelArray

# Sums above this hold no digits lost to underflow.
_SAFE_SUM = 1e-290
_KEPT_SHARE = 1e-3
# Products of this many rounds take about as long as the labellings one by one, if all rows are lost.
_ROUNDS = 32
_BATCH_FLOATS = 2**25
"""Largest number of entries of the indicator columns held at once (256 MB)."""


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
