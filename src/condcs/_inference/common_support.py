r"""Where two samples both have rows, and means over that.

With densities p and q of x in two samples, their *common support* is the distribution with a density proportional to
p q / (p + q) (Cai, Namkoong, Yadlowsky, arXiv 2303.02011): wide where both samples have rows, nothing where one has
none. Let t be 1 for rows of the second sample, s(x) = q / (p + q) its share at x if both samples weighed the same, and
u = t - s(x). Then means over the common support are weighted by s (1 - s), and u^2 has that mean given x.

For any function r of a row with means m0(x) and m1(x) in the samples, the means over the common support of these are
estimated by the sums of ``u^2 m0 + (1 - t) s (r - m0)`` and of ``u^2 m1 + t (1 - s) (r - m1)``, each over the sum of
u^2. Errors of s and of m0, m1 enter only in the second order; the fits at a row are made without it, or without its
cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit, stdtrit

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._core.settings import one_blas_thread
from condcs._inference.propensities import Propensity, balanced_log_odds, chosen_propensity
from condcs._regression.designs import Design
from condcs._regression.left_out_fits import LeftOutFit, Units, left_out_error, ridge_of_sample
from condcs._regression.ridge import LEAST_ONE_MINUS_LEVERAGE
from condcs._regression.smoother import Smoother

_LEAST_SHARE = 1e-3
"""Smallest share of a sample at some x: one row of a thousand has no more to say of the other sample."""

_LEAST_PROBABILITY = 1e-6
"""Probabilities are kept so far from 0 and 1, where their log-odds would be infinite."""

_LEAST_FREEDOM, _MOST_FREEDOM = 2.0, 1e6
"""Degrees of freedom of an interval. Where one row decides an estimate it would have 1 or less, and an interval of 95%
would reach 12.7 standard errors or more; with 2 it reaches 4.3. From a million on, quantiles are those of a normal
distribution to six digits."""

_RESAMPLED_ENTRIES = 2**18
"""Entries of the arrays of resamples that are held at once; more of them do not fit into the cache."""


@dataclass(frozen=True, eq=False)
class CommonSupport:
    """Rows of two samples, one after the other, and where both have some."""

    smoother: Smoother  # for the inputs of all rows
    second: BoolArray  # (n,): which rows are of the second sample
    odds: LeftOutFit  # log-odds of the second sample at each row's x, if both samples weighed the same
    weights: FloatArray  # (n,): weights of the rows, such that the samples weigh the same; their sum is 1
    units: Units  # what is drawn as a whole; the units of the first sample have the lower numbers

    def design(self, target: FloatArray) -> Design:
        """Return the functions of x that do best for a target (n,) and for its difference between the samples."""
        residuals = self.smoother.residuals(target[:, None]).left_out[:, 0]
        # Residuals of the target, with the sign of the sample, follow the difference; both errors are in one unit.
        sign = (self.second - self.second.mean()) / self.second.std()  # (n,)
        target_and_difference = np.column_stack([target, sign * residuals])  # (n, 2)
        with one_blas_thread():
            return min(self.smoother.designs, key=lambda d: left_out_error(d, target_and_difference, self.units))

    def regressions(self, target: FloatArray, design: Design) -> tuple[LeftOutFit, LeftOutFit]:
        """Regress a target on x in each sample: two fits at all rows, the one of the first sample first."""
        with one_blas_thread():
            functions = design.functions
            first = ridge_of_sample(functions, target, ~self.second, self.units)
            return first, ridge_of_sample(functions, target, self.second, self.units)

    def residuals(self, target: FloatArray, design: Design) -> FloatArray:
        """Return a target minus its mean given x in the row's sample (n,), each unit left out of the fit.

        In each sample the target itself is regressed, or its difference from the regression of the other sample:
        whichever leaves less. Of few rows alone hardly anything can be fitted, and what is left of the mean would pass
        for noise (2.7 times as much in 20 rows as in 300, at the same noise); many rows of the other sample know more.
        """
        residuals = np.empty(len(target))
        in_first, in_second = self.regressions(target, design)
        for sample, in_sample, in_other in ((~self.second, in_first, in_second), (self.second, in_second, in_first)):
            difference = target - in_other.values  # (n,)
            with one_blas_thread():
                of_difference = ridge_of_sample(design.functions, difference, sample, self.units)
            by_itself = (target - in_sample.values)[sample]
            by_difference = (difference - of_difference.values)[sample]
            residuals[sample] = min(by_itself, by_difference, key=lambda r: float(r @ r))
        return residuals

    def difference(self, target: FloatArray, design: Design, folds: IntArray) -> FloatArray:
        """Return the second sample's regression of a target minus the first's (n,), at each fold from the others."""
        difference = np.empty(len(target))
        with one_blas_thread():
            functions = design.functions
            for fold in np.unique(folds):
                inside, outside = folds == fold, folds != fold
                first = ridge_of_sample(functions, target, outside & ~self.second, self.units)
                second = ridge_of_sample(functions, target, outside & self.second, self.units)
                difference[inside] = (second.values - first.values)[inside]
        return difference

    def folds(self, n_folds: int, rng: np.random.Generator) -> IntArray:
        """Deal the units of each sample out to so many folds, and return the fold of each row (n,)."""
        fold_of_unit = np.concatenate([rng.permutation(count) % n_folds for count in self._unit_counts])
        return fold_of_unit[self.units.unit_of_row]

    def redrawn_weights(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Return how often each row is drawn (n x draws) if units of each sample are drawn again with replacement."""
        of_units = np.concatenate([times_drawn(count, n_draws, rng) for count in self._unit_counts])
        return of_units[self.units.unit_of_row]

    @cached_property
    def _unit_counts(self) -> tuple[int, int]:
        """How many units each sample has; those of the first come first."""
        of_first = int(self.units.unit_of_row[~self.second].max()) + 1
        return of_first, self.units.n_units - of_first


def common_support(
    smoother: Smoother,
    sizes: tuple[int, int],
    rng: np.random.Generator,
    *,
    propensity: Propensity | None = None,
    weights: FloatArray | None = None,
    clusters: IntArray | None = None,
) -> CommonSupport:
    """Estimate where two samples, one after the other in the pool, both have rows.

    `sizes` are the rows of each sample. A propensity that has been fitted before is used as it is; it must have its
    fits, by which rows are left out, so that probabilities of the caller will not do. Rows may have weights, and belong
    to clusters 0, 1, ..., those of the first sample first.
    """
    second = np.repeat([False, True], sizes)
    if propensity is None:
        labels = second.astype(np.int8)
        # A regression on the designs of the smoother: x itself is for classifiers of the caller.
        propensity = chosen_propensity(None, smoother.numbers, smoother, clusters, labels, 2, rng)
    units = Units(len(second), clusters)
    with one_blas_thread():
        odds = _left_out_odds(propensity, second, units)
    weights = np.ones(len(second)) if weights is None else np.asarray(weights, np.float64)
    # The samples weigh the same.
    weights = weights / np.where(second, 2 * weights[second].sum(), 2 * weights[~second].sum())
    return CommonSupport(smoother, second, odds, weights, units)


def _left_out_odds(propensity: Propensity, second: BoolArray, units: Units) -> LeftOutFit:
    """Log-odds of a fitted ridge logistic regression of units, each left out of the fit, to first order."""
    (fit,) = propensity.fits
    first_rows = slice(None) if units.means is None else units.means.first_rows
    t = second[first_rows]  # (units,)
    p = np.clip(propensity.probabilities[:, 1], _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)  # (units,)
    variance = p * (1 - p)
    terms = fit.design.terms(slice(None))  # (units, 1 + p)
    solved = terms @ fit.inverse  # (units, 1 + p)
    leverage = np.minimum(variance * np.einsum("ij,ij->i", terms, solved), 1 - LEAST_ONE_MINUS_LEVERAGE)
    # One step of Newton's method from the fit of all units to that without one.
    odds = np.log(p / (1 - p)) - (t - p) / variance * leverage / (1 - leverage)  # (units,)
    # From shares of the pool to shares of two samples of equal weight.
    odds = balanced_log_odds(odds, t)
    # A weight v more of a unit adds v times its residual to the gradient; each row of a unit has its part of that.
    pulls = solved * (t - p)[:, None]
    if units.means is not None:
        pulls /= units.means.row_counts[:, None]
    return LeftOutFit(units.of_rows(odds), units.of_rows(terms), units.of_rows(pulls), units)


def share(odds: FloatArray) -> FloatArray:
    """Return the share of the second sample from log-odds, away from 0 and 1."""
    return np.asarray(np.clip(expit(odds), _LEAST_SHARE, 1 - _LEAST_SHARE))


@dataclass(frozen=True, eq=False)
class MeansOnSupport:
    """Means of a column: in the first sample, on the common support by each sample's relation, in the second sample."""

    observed: FloatArray  # (4,)
    redrawn: FloatArray  # (4, B): the same with units drawn again, and regressions that follow to first order
    influence: FloatArray  # (4, units): what each unit adds to the error of the means, to first order

    @classmethod
    def of(
        cls,
        support: CommonSupport,
        column: FloatArray,
        n_resamples: int,
        rng: np.random.Generator,
    ) -> MeansOnSupport:
        """Estimate them, after a regression of the column (n,) in each sample."""
        in_first, in_second = support.regressions(column, support.design(column))
        fits = (support.odds, in_first, in_second)
        means = _weighted_means(support, column, support.weights[:, None], *(fit.values[:, None] for fit in fits))
        # The error of a ratio of sums a / b, to first order: what a row adds to (a - m b) / b, with m the ratio.
        influence = []
        for mean in means:
            of_rows = (mean.numerators - mean.values * mean.denominators)[:, 0] / mean.denominators.sum()  # (n,)
            influence.append(support.units.sums(of_rows))
        drawn = support.redrawn_weights(n_resamples, rng)  # (n, B)
        redrawn = []
        for times in np.array_split(drawn, max(1, drawn.size // _RESAMPLED_ENTRIES), axis=1):  # (n, a part of B)
            weights = support.weights[:, None] * times
            of_draws = _weighted_means(support, column, weights, *(fit.redrawn(times - 1) for fit in fits))
            redrawn.append([mean.values for mean in of_draws])
        return cls(
            np.array([float(mean.values[0]) for mean in means]),
            np.concatenate(redrawn, axis=1),
            np.array(influence),
        )


class _WeightedMean(NamedTuple):
    """A mean as a ratio of two sums over the rows, for each of B weightings."""

    numerators: FloatArray  # (n, B)
    denominators: FloatArray  # (n, B)

    @property
    def values(self) -> FloatArray:
        """The mean (B,)."""
        return np.asarray(self.numerators.sum(axis=0) / self.denominators.sum(axis=0))


def _weighted_means(
    support: CommonSupport,
    column: FloatArray,
    weights: FloatArray,
    odds: FloatArray,
    m0: FloatArray,
    m1: FloatArray,
) -> list[_WeightedMean]:
    """Return the four means of `MeansOnSupport`.

    The column is (n,). Weights of the rows, log-odds of the second sample, and regressions of the column in the first
    sample (m0) and in the second (m1) are (n, B), one column for each weighting.
    """
    t, s, r = support.second[:, None], share(odds), column[:, None]  # (n, 1), (n, B), (n, 1)
    in_first, in_second = np.where(t, 0.0, weights), np.where(t, weights, 0.0)  # (n, B) each
    squares = weights * (t - s) ** 2  # u^2
    # u^2 m0 + (1 - t) s (r - m0), and u^2 m1 + t (1 - s) (r - m1)
    first_on_common = squares * m0 + np.where(t, 0.0, weights * s) * (r - m0)
    second_on_common = squares * m1 + np.where(t, weights * (1 - s), 0.0) * (r - m1)
    return [
        _WeightedMean(in_first * r, in_first),
        _WeightedMean(first_on_common, squares),
        _WeightedMean(second_on_common, squares),
        _WeightedMean(in_second * r, in_second),
    ]


def times_drawn(n_units: int, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Return how often each unit is drawn (units x draws) if as many as there are are drawn with replacement."""
    drawn = rng.integers(n_units, size=(n_units, n_draws))
    # A cell for each unit and draw, counted in one call.
    cells = drawn * n_draws + np.arange(n_draws)
    counts = np.bincount(cells.reshape(-1), minlength=n_units * n_draws)
    return counts.reshape(n_units, n_draws).astype(np.float64)


def some_rows(sizes: tuple[int, int], most: int, rng: np.random.Generator) -> tuple[IntArray, tuple[int, int]]:
    """Draw at most so many rows of each of two samples of a pool; return the rows, and how many of each sample."""
    rows_by_sample, start = [], 0
    for size in sizes:
        drawn = np.arange(size) if size <= most else np.sort(rng.choice(size, most, replace=False))
        rows_by_sample.append(start + drawn)
        start += size
    first, second = rows_by_sample
    return np.concatenate(rows_by_sample), (len(first), len(second))


def student_quantile(confidence_level: float, influence: FloatArray) -> float:
    """Return how many standard errors a two-sided interval reaches, by Student's t: few rows may decide an estimate.

    The relative variance of a sum of squares with f degrees of freedom is 2 / f; here it is that of the squared
    influences (Satterthwaite).
    """
    squares = influence**2
    variance = float(squares.sum())
    spread = float((squares**2).sum()) - variance**2 / len(squares)
    freedom = 2 * variance**2 / spread if spread > 0 else np.inf
    freedom = min(max(freedom, _LEAST_FREEDOM), _MOST_FREEDOM)
    return float(stdtrit(freedom, (1 + confidence_level) / 2))
