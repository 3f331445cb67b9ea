r"""Conditional divergences of many rows, under many labellings: low rank for all rows, corrected at anchor rows.

The interaction of Prop. 2 is a sum over rows j of a term made of the kernel masses A and B of that row. Masses by low
rank (a Nystrom approximation at landmark rows) cost O(n r) for all rows; exact masses of m anchor rows cost O(n m).
Put together,

.. math:: T = \beta \sum_j \tilde t_j + \frac 1 m \sum_{a} \frac{t_a - \beta \tilde t_a}{\pi_a},

where t are the exact terms and :math:`\tilde t` those of low rank. Terms are large where rows are few, so an anchor is
drawn with a probability :math:`\pi` that is half even, half inverse to the mass of the pool there. The expectation over
anchors is exact whatever the low rank is worth, and where that is good there is hardly any error left. How good it is
says :math:`\beta`, found once, from the masses of the pool without its labels. Nothing here depends on labels but the
terms themselves, so that the divergence of the data and those of resamples are values of one statistic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from condcs._inference.anchors import over_rows, total
from condcs._inference.statistics import Anchors, FloatArray, LabelArray, MeasuredPool, total_divergence
from condcs._kernels.log_kernels import pseudo_inverse
from condcs._kernels.row_sums import exp_in_place
from condcs._measures.formulas import contrast, linear_interaction, linear_pooled_interaction
from condcs._measures.inputs import ConditionalProblem

Weights = Callable[[slice | LabelArray], list[FloatArray]]
"""Takes rows, and returns the weights of these rows in each group (rows x P each)."""

Masses = list[list[FloatArray]]
"""Kernel masses of rows for each kernel (on x, on x and y) and group (rows x P each)."""

MEASURES = ("conditional_cs", "conditional_euclidean")
"""Measures of this form."""

_LANDMARKS = 400
_ROWS = 2_048
_SMALLEST_EIGENVALUE = 1e-9
_LEAST_MASS = 1e-9
"""Masses of low rank that are a smaller share of the largest possible one are errors of the approximation."""
_SAFE_SUM = 1e-290


class AnchoredConditional:
    """Conditional CS divergence (every estimator) or conditional Euclidean distance of a large pool.

    Parameters
    ----------
    pool : MeasuredPool
        The pool, with anchors; groups may have weights.
    """

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, ConditionalProblem)
        assert pool.anchors is not None
        self.pool, (self.anchors, self.shares, self.landmarks) = pool, pool.anchors
        self.n, self.count = sum(pool.sizes), len(pool.sizes)
        self.x, self.y = pool.problem.x.kernel, pool.problem.y.kernel
        self.estimator = pool.options.get("estimator", "paper")
        weights = pool.problem.groups.weights
        self.weights = np.ones(self.n) if weights is None else np.asarray(weights, np.float64)
        # Kernels with 1 on the diagonal: a mass is at least the row's own weight, and B at most A.
        self.bounded = self.x.diagonal() is None and self.y.diagonal() is None
        self._inverses = [
            pseudo_inverse(gram, _SMALLEST_EIGENVALUE) for gram in self._grams(self.landmarks, self.landmarks)
        ]
        self._trust = self._found_trust()

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        labels = np.atleast_2d(labels)

        def weights(rows: slice | LabelArray) -> list[FloatArray]:
            own = self.weights[rows, None]
            return [np.multiply((labels[:, rows] == g).T, own) for g in range(self.count)]

        return self._values(weights)

    def redrawn(self, rows: list[LabelArray] | LabelArray) -> FloatArray:
        """Return one value for each of several lists of rows: rows of the pool, some taken more than once."""
        counts = np.stack([np.bincount(taken, minlength=self.n).astype(np.uint16) for taken in rows])
        groups = self.pool.labels

        def weights(rows: slice | LabelArray) -> list[FloatArray]:
            own = counts[:, rows].T * self.weights[rows, None]
            return [np.where(groups[rows, None] == g, own, 0.0) for g in range(self.count)]

        return self._values(weights)

    def _values(self, weights: Weights) -> FloatArray:
        # Half of the work is done with each of the two sums over all rows.
        resamples = weights(slice(0, 1))[0].shape[1] / 2
        exact, coefficients = self._masses(weights, resamples)

        def terms(rows: slice) -> FloatArray:
            return self._interaction(self._low_rank(rows, coefficients), weights(rows), self._least)

        everywhere = total(terms, self.n, _ROWS, resamples=resamples)
        own, low_rank = weights(self.anchors), self._low_rank(self.anchors, coefficients)
        plain = self._interaction(exact, own, _SAFE_SUM, self.shares)
        corrected = plain + self._trust * (everywhere - self._interaction(low_rank, own, self._least, self.shares))
        # A correction larger than what it corrects, or no anchor in a group: one of the two alone.
        found = np.where(corrected > 0, corrected, np.where(plain > 0, plain, everywhere))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = found if self.pool.measure.name == "conditional_euclidean" else np.log(found)
            pairs = np.asarray(contrast(t, self.estimator))
        return total_divergence(np.moveaxis(pairs, -1, 0), symmetric=True)

    def _masses(self, weights: Weights, resamples: float = 0.0) -> tuple[Masses, Masses]:
        """Return the exact masses of the anchors, and what the landmarks count in those of low rank."""
        both, ends = np.concatenate([self.landmarks, self.anchors]), len(self.landmarks)

        def sums(rows: slice) -> FloatArray:
            own = np.array(weights(rows))
            return np.array([gram @ own for gram in self._grams(both, rows)])

        found = total(sums, self.n, _ROWS, resamples=resamples)
        exact = [list(of_kernel[:, ends:]) for of_kernel in found]
        coefficients = [list(i @ of_kernel[:, :ends]) for i, of_kernel in zip(self._inverses, found, strict=True)]
        return exact, coefficients

    def _low_rank(self, rows: slice | LabelArray, coefficients: Masses) -> Masses:
        grams = self._grams(rows, self.landmarks)
        return [[gram @ c for c in own] for gram, own in zip(grams, coefficients, strict=True)]

    def _interaction(
        self, masses: Masses, weights: list[FloatArray], least: float, shares: FloatArray | float = 1.0
    ) -> FloatArray:
        """Sum the terms of some rows (G x G x P), times `shares`; masses that are rounding errors add nothing."""
        a, b = masses
        if self.bounded:
            a, b = ([np.maximum(m, own) for m, own in zip(part, weights, strict=True)] for part in masses)
        ratios = [self._ratio(ah, bh, least) for ah, bh in zip(a, b, strict=True)]
        shares = np.reshape(shares, (-1, 1))
        if self.estimator == "pooled" and self.count == 2:
            pooled = shares * (weights[0] + weights[1]) / np.maximum(b[0] + b[1], least)
            return linear_pooled_interaction(pooled, ratios)
        return linear_interaction(
            [shares * w / np.maximum(ag, least) for w, ag in zip(weights, a, strict=True)], ratios
        )

    def _ratio(self, a: FloatArray, b: FloatArray, least: float) -> FloatArray:
        with np.errstate(over="ignore"):
            found = np.where(a > least, b / np.maximum(a, least), 0.0)
        return np.clip(found, 0.0, 1.0 if self.bounded else None)

    def _found_trust(self) -> float:
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
        return float(_LEAST_MASS * self.weights.sum())

    def _grams(self, rows: slice | LabelArray, columns: slice | LabelArray) -> list[FloatArray]:
        """Kernel on x, and on x and y, of rows against columns."""
        x, y = (np.array(k.block(rows, columns), dtype=np.float64, order="C") for k in (self.x, self.y))
        y += x
        exp_in_place(x)
        exp_in_place(y)
        return [x, y]


def drawn_by_mass(pool: MeasuredPool, pilot: LabelArray, rng: np.random.Generator) -> Anchors:
    """Draw as many anchors as there are pilot rows, half of them evenly, half where the pool has little mass of x."""
    assert isinstance(pool.problem, ConditionalProblem)
    kernel, n = pool.problem.x.kernel, sum(pool.sizes)
    share = n / len(pilot)

    def inverse_masses(rows: slice) -> FloatArray:
        gram = np.array(kernel.block(rows, pilot), dtype=np.float64, order="C")
        exp_in_place(gram)
        # Every row has its own mass, whether it is a pilot or not.
        return np.asarray(1 / np.maximum(share * gram.sum(axis=1), 1.0))

    found = np.concatenate(list(over_rows(inverse_masses, n, _ROWS)))
    chances = 0.5 / n + 0.5 * found / found.sum()
    chances /= chances.sum()
    rows = rng.choice(n, len(pilot), p=chances)
    # Landmarks of their own: there the low rank is exact, and anchors among them would find nothing to correct.
    landmarks = np.unique(rng.choice(n, min(_LANDMARKS, len(pilot)), p=chances))
    return Anchors(rows, 1 / (len(pilot) * chances[rows]), landmarks)
