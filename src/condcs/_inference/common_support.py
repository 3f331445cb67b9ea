r"""Where two samples both have rows, and means over that.

With densities p and q of x in two samples, their *common support* is the distribution with a density proportional to
p q / (p + q) (Cai, Namkoong, Yadlowsky, arXiv 2303.02011): wide where both samples have rows, nothing where one has
none. Let t be 1 for rows of the second sample, s(x) = q / (p + q) its share at x if both samples weighed the same, and
u = t - s(x). Then means over the common support are weighted by s (1 - s), and u^2 has that mean given x.

For any function r of a row with means m0(x) and m1(x) in the samples, the means over the common support of these are
estimated by the sums of ``u^2 m0 + (1 - t) s (r - m0)`` and of ``u^2 m1 + t (1 - s) (r - m1)``, each over the sum of
u^2. Errors of s and of m0, m1 enter only in the second order; every row, or cluster of rows, is left out of the fits
that it is put into.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, stdtrit

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._core.settings import one_blas_thread
from condcs._inference.propensities import Propensity, chosen_propensity
from condcs._regression.designs import Design
from condcs._regression.left_out_fits import LeftOutFit, Units, left_out_error, ridge_of_sample
from condcs._regression.ridge import LEAST_ONE_MINUS_LEVERAGE
from condcs._regression.smoother import Smoother

_LEAST_SHARE = 1e-3
"""Smallest share of a sample at some x: one row of a thousand has no more to say of the other sample."""

_LEAST_PROBABILITY = 1e-6
"""Probabilities are kept so far from 0 and 1, where their log-odds would be infinite."""

_FREEDOM = 2.0, 1e6
"""Degrees of freedom of an interval. Where one row decides an estimate it would have 1 or less, and an interval of 95%
would reach 12.7 standard errors or more; with 2 it reaches 4.3. From a million on, quantiles are those of a normal
distribution to six digits."""

_ENTRIES = 2**18
"""Entries of the arrays of resamples that are held at once; more of them do not fit into the cache."""


@dataclass(frozen=True, eq=False)
class CommonSupport:
    """Rows of two samples, one after the other, and where both have some."""

    smoother: Smoother  # for the inputs of all rows
    second: BoolArray  # n: which rows are of the second sample
    odds: LeftOutFit  # log-odds of the second sample at each row's x, if both samples weighed the same
    weights: FloatArray  # n: weights of the rows, such that the samples weigh the same; their sum is 1
    units: Units  # what is drawn as a whole; the units of the first sample have the lower numbers

    def design(self, target: FloatArray) -> Design:
        """Return the functions of x that do best for a target and for its difference between the samples."""
        residuals = self.smoother.residuals(target[:, None]).left_out[:, 0]
        # Residuals of the target, with the sign of the sample, follow the difference; both errors are in one unit.
        sign = (self.second - self.second.mean()) / self.second.std()
        both = np.column_stack([target, sign * residuals])
        with one_blas_thread():
            return min(self.smoother.designs, key=lambda design: left_out_error(design, both, self.units))

    def regressions(self, target: FloatArray, design: Design) -> tuple[LeftOutFit, LeftOutFit]:
        """Regress a target on x in each sample: two fits at all rows, the one of the first sample first."""
        with one_blas_thread():
            functions = design.functions
            first = ridge_of_sample(functions, target, ~self.second, self.units)
            return first, ridge_of_sample(functions, target, self.second, self.units)

    def residuals(self, target: FloatArray, design: Design) -> FloatArray:
        """Return a target minus its mean given x in the row's sample (n), each unit left out of the fit.

        Where few rows know less of their mean than the many rows of the other sample, what is regressed is the
        difference from the regression of the other sample. Of few rows alone hardly anything can be fitted, and what is
        left of the mean would pass for noise: 2.7 times as much in 20 rows as in 300, at the same noise.
        """
        residuals = np.empty(len(target))
        of_first, of_second = self.regressions(target, design)
        for sample, of_sample, other in ((~self.second, of_first, of_second), (self.second, of_second, of_first)):
            difference = target - other.values
            with one_blas_thread():
                of_difference = ridge_of_sample(design.functions, difference, sample, self.units)
            by_itself = (target - of_sample.values)[sample]
            by_difference = (difference - of_difference.values)[sample]
            residuals[sample] = min(by_itself, by_difference, key=lambda r: float(r @ r))
        return residuals

    def difference(self, target: FloatArray, design: Design, folds: IntArray) -> FloatArray:
        """Regress a target in each sample, and return the difference of both, rows of a fold from all other rows."""
        difference = np.empty(len(target))
        with one_blas_thread():
            functions = design.functions
            for fold in np.unique(folds):
                inside, outside = folds == fold, folds != fold
                first = ridge_of_sample(functions, target, outside & ~self.second, self.units)
                second = ridge_of_sample(functions, target, outside & self.second, self.units)
                difference[inside] = (second.values - first.values)[inside]
        return difference

    def folds(self, count: int, rng: np.random.Generator) -> IntArray:
        """Deal the units of each sample out to so many folds, and return the fold of each row."""
        first, second = self._sizes
        return np.concatenate([rng.permutation(n) % count for n in (first, second)])[self.units.numbers]

    def redrawn_weights(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return how often each row is drawn (n x count) if units of each sample are drawn again with replacement."""
        return np.concatenate([times_drawn(size, count, rng) for size in self._sizes])[self.units.numbers]

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        """Units of each sample; those of the first come first."""
        numbers = self.units.numbers
        first = int(numbers[~self.second].max()) + 1
        return first, int(numbers.max()) + 1 - first


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

    A propensity that has been fitted before is used as it is. Rows may have weights, and belong to clusters 0, 1, ...,
    those of the first sample first.
    """
    second = np.repeat([False, True], sizes)
    if propensity is None:
        labels = second.astype(np.int8)
        propensity = chosen_propensity(None, smoother.numbers, smoother, clusters, labels, 2, rng)
    units = Units(len(second), clusters)
    with one_blas_thread():
        odds = _odds(propensity, second, units)
    weights = np.ones(len(second)) if weights is None else np.asarray(weights, np.float64)
    # The samples weigh the same.
    weights = weights / np.where(second, 2 * weights[second].sum(), 2 * weights[~second].sum())
    return CommonSupport(smoother, second, odds, weights, units)


def _odds(propensity: Propensity, second: BoolArray, units: Units) -> LeftOutFit:
    """Log-odds of a fitted ridge logistic regression of units, each left out of the fit, to first order."""
    (fit,) = propensity.fits
    first = slice(None) if units.means is None else units.means.first
    second = second[first]
    p = np.clip(propensity.probabilities[:, 1], _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    variance = p * (1 - p)
    terms = fit.design.terms(slice(None))
    solved = terms @ fit.inverse
    leverage = np.minimum(variance * np.einsum("ij,ij->i", terms, solved), 1 - LEAST_ONE_MINUS_LEVERAGE)
    values = np.log(p / (1 - p)) - (second - p) / variance * leverage / (1 - leverage)
    # From shares of the pool to shares of two samples of equal weight.
    values -= np.log(second.sum() / (~second).sum())
    right = solved * (second - p)[:, None]
    if units.means is not None:
        right /= units.means.sizes[:, None]
    return LeftOutFit(units.of_rows(values), units.of_rows(terms), units.of_rows(right), units)


def share(odds: FloatArray) -> FloatArray:
    """Return the share of the second sample from log-odds, away from 0 and 1."""
    return np.asarray(np.clip(expit(odds), _LEAST_SHARE, 1 - _LEAST_SHARE))


@dataclass(frozen=True, eq=False)
class MeansOnSupport:
    """Means of a column: in the first sample, on the common support by each sample's relation, in the second sample."""

    observed: FloatArray  # 4
    redrawn: FloatArray  # 4 x B: the same with rows drawn again, and regressions that follow to first order
    influence: FloatArray  # 4 x units: what each unit adds to the error of the means, to first order

    @classmethod
    def of(
        cls,
        support: CommonSupport,
        column: FloatArray,
        count: int,
        rng: np.random.Generator,
    ) -> MeansOnSupport:
        """Estimate them, after a regression of the column in each sample."""
        fits = (support.odds, *support.regressions(column, support.design(column)))
        terms = _terms(support, column, support.weights[:, None], *(fit.values[:, None] for fit in fits))
        observed = np.array([above.sum(axis=0) / below.sum(axis=0) for above, below in terms])
        influence = [
            support.units.sums((a - m * b)[:, 0] / b.sum()) for (a, b), m in zip(terms, observed[:, 0], strict=True)
        ]
        redrawn = []
        drawn = support.redrawn_weights(count, rng)  # n x B
        for times in np.array_split(drawn, max(1, drawn.size // _ENTRIES), axis=1):
            weights = support.weights[:, None] * times
            terms = _terms(support, column, weights, *(fit.redrawn(times - 1) for fit in fits))
            redrawn.append([above.sum(axis=0) / below.sum(axis=0) for above, below in terms])
        return cls(observed[:, 0], np.concatenate(redrawn, axis=1), np.array(influence))


def _terms(
    support: CommonSupport,
    column: FloatArray,
    weights: FloatArray,
    odds: FloatArray,
    first: FloatArray,
    second: FloatArray,
) -> list[tuple[FloatArray, FloatArray]]:
    """Return what the rows add to each of the four means, a numerator and a denominator (n x B each).

    There is one column for each column of weights and fits. `first` and `second` are the regressions in the samples.
    """
    t, s, r = support.second[:, None], share(odds), column[:, None]
    squares = weights * (t - s) ** 2
    lower = squares * first + np.where(t, 0.0, weights * s) * (r - first)
    upper = squares * second + np.where(t, weights * (1 - s), 0.0) * (r - second)
    of_first, of_second = np.where(t, 0.0, weights), np.where(t, weights, 0.0)
    return [(of_first * r, of_first), (lower, squares), (upper, squares), (of_second * r, of_second)]


def times_drawn(size: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Return how often each of some units is drawn (size x count) if as many are drawn with replacement."""
    drawn = rng.integers(size, size=(size, count)) * count + np.arange(count)
    return np.bincount(drawn.reshape(-1), minlength=size * count).reshape(size, count).astype(np.float64)


def some_rows(sizes: tuple[int, int], most: int, rng: np.random.Generator) -> tuple[IntArray, tuple[int, int]]:
    """Draw at most so many rows of each of two samples of a pool; return the rows, and how many of each sample."""
    rows, start = [], 0
    for size in sizes:
        drawn = np.arange(size) if size <= most else np.sort(rng.choice(size, most, replace=False))
        rows.append(start + drawn)
        start += size
    return np.concatenate(rows), (len(rows[0]), len(rows[1]))


def student_quantile(confidence_level: float, influence: FloatArray) -> float:
    """Return how many standard errors a two-sided interval reaches, by Student's t: few rows may decide an estimate.

    The relative variance of a sum of squares with f degrees of freedom is 2 / f; here it is that of the squared
    influences (Satterthwaite).
    """
    squares = influence**2
    total = float(squares.sum())
    spread = float((squares**2).sum()) - total**2 / len(squares)
    freedom = 2 * total**2 / spread if spread > 0 else np.inf
    least, most = _FREEDOM
    return float(stdtrit(min(max(freedom, least), most), (1 + confidence_level) / 2))
