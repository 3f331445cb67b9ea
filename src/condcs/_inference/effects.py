r"""How large a change of the relation is, in units of y, with bounds that hold, and what would not have been seen.

All means are over the common support of the samples (`common_support`). With r the response minus the mixture m0 + s
(m1 - m0) of its regressions on x in the two samples, the difference d(x) of the means of y given x is what u d(x)
explains of r. Its root mean square is estimated from functions of x: by the product of each row's r with what a fit to
the other rows predicts of it, which is unbiased. The lower bound holds for any d (by Cauchy and Schwarz, d has at least
the length of its projection on any direction that the row itself had no say in), the upper one for those that these
functions can tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from condcs._core.arrays import FloatArray
from condcs._core.printable import Printable
from condcs._core.settings import one_blas_thread
from condcs._inference.common_support import CommonSupport, MeansOnSupport, share, student_quantile
from condcs._inference.regions import BoxwiseChange
from condcs._inference.responses import CLIPPED_INPUT
from condcs._inference.results import Estimate, around, estimate_fields, in_units, within
from condcs._inference.views import MEAN_SHARE
from condcs._regression.standardised import largest_size

_MOST_FUNCTIONS = 60
"""Functions of x that a change may follow: the noise of each widens the upper bound."""
_ROWS_PER_FUNCTION = 15
"""Informative rows for each of these functions at least, for the same reason."""
_MOST_LEVERAGE = 0.9
"""Largest part that a row has in its own fit: one that decides it alone says nothing of the others."""
_FOLDS = 4
"""Parts of the rows whose change is predicted from the others: each costs two regressions."""
_RESAMPLES = 200
"""Draws for the standard error of a spread: their own noise is a twentieth of it."""
_POWER = 0.8
"""Probability with which a test finds a change that is called detectable: the convention in planning studies."""
_PART = 0.1
"""Share of the rows in the part of x for which `Effect.detectable_in_part` is."""
_MOST_REACH = 5.0
"""Half of the longest interval of the logarithm of a deviation: a factor of 150 says that nothing is known."""
_INFLUENTIAL = 0.5
"""Share of the variance of the average change from which on one row is said to carry it: it has more to say than all
others together. Of 80 rows with normal noise, the farthest one carries a tenth."""
LOWER_BOUNDS = 3
"""Lower bounds of a size: by a projection, by the average, and by what is implied from a part of the inputs, if any."""
_NEGLIGIBLE = 1e-8
"""Part of the longest direction below which one is made of rounding errors."""


class _ReferenceCurrentChange(NamedTuple):
    """What `Spread` is a tuple of."""

    reference: float
    current: float
    change: Estimate


class Spread(Printable, _ReferenceCurrentChange):
    """Standard deviation of y for equal inputs: in the first sample, in the second, and its change."""


class InfluentialRow(NamedTuple):
    """A row without which an effect would be another one."""

    row: int  # of all rows, those of the first sample first
    share: float  # of the variance of the average change


@dataclass(frozen=True)
class Effect(Printable):
    """How much one response changed for equal inputs, over the inputs that both samples have.

    Attributes
    ----------
    name : str
        The response.
    size : Estimate
        Root mean square of the difference between the means of y given x: in units of y, or in shares for labels;
        not less than the size of `average`.
    average : Estimate, optional
        Mean of that difference, with its sign; none for labels of more than two kinds.
    spread : Spread, optional
        How far y scatters for equal inputs; none for labels. Mean and spread are two claims about one response: the
        interval of this one has half of the risk of the others, as its `confidence_level` says.
    detectable : float
        A shift of y everywhere that the test would find with a probability of 80%.
    detectable_in_part : float
        The same for a shift in a tenth of the rows, whichever they are: it moves the average by a tenth as much. Where
        the rows lie together in a few inputs, smaller ones are found.
    influential : InfluentialRow, optional
        A row that carries most of the variance of `average`, such as an outlier; none if no row does.
    """

    name: str
    size: Estimate
    average: Estimate | None
    spread: Spread | None
    detectable: float
    detectable_in_part: float
    influential: InfluentialRow | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the larger of both changes, that of the mean and that of the spread."""
        low, high = self.size.low, self.size.high
        if self.spread is not None:
            change = self.spread.change
            low = max(low, change.low, -change.high)
            high = max(high, -change.low, change.high)
        return low, high

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        spread = self.spread
        return {
            "response": self.name,
            "size": estimate_fields(self.size),
            "average": None if self.average is None else estimate_fields(self.average),
            "spread": None
            if spread is None
            else {"reference": spread.reference, "current": spread.current, "change": estimate_fields(spread.change)},
            "detectable": self.detectable,
            "detectable_in_a_tenth_of_the_rows": self.detectable_in_part,
        }


def measure_effect(
    name: str,
    support: CommonSupport,
    columns: FloatArray,
    *,
    numeric: bool,
    by_boxes: BoxwiseChange | None = None,
    implied: Estimate | None = None,
    confidence_level: float,
    alpha: float,
    rng: np.random.Generator,
) -> Effect:
    """Measure the change of a response: a column of numbers (n x 1), or indicators of labels (n x c).

    `by_boxes` says by how much the mean of numbers changed in boxes with sharp bounds. Smooth regressions cannot
    follow these: they would miss most of a change in few rows, and leave it as a larger spread. `implied` is the
    root mean square that is known from a part of the inputs, in units of y: that over all inputs is not below it. It
    has the level of one of `LOWER_BOUNDS` claims, which share the risk of one of `confidence_level`.
    """
    unit = largest_size(columns)
    # Labels of several kinds: each share that one loses another gains, so that every change is in two columns.
    scale = unit * (np.sqrt(0.5) if columns.shape[1] > 1 else 1.0)

    # 1. The size of the change, and its average if the response is one column.
    residuals = _best_residuals(support, columns, unit, by_boxes, rng)
    averages = residuals.averages()
    implied_ends = None if implied is None else [end / scale for end in implied]
    size = in_units(_size(residuals, averages, implied_ends, confidence_level), scale)
    average = None
    if columns.shape[1] == 1:
        mean, reach = float(averages.values[0]), _reach(averages.influence[:, 0], confidence_level)
        average = in_units(around(mean, reach, confidence_level), unit)
    if not numeric:
        # A share changes by no more than 1.
        size, average = within(size, -1, 1), None if average is None else within(average, -1, 1)

    # 2. The spread of numbers, without the change of their mean in boxes.
    spread = None
    if numeric:
        level = columns[:, 0] / unit
        if by_boxes is not None:
            level = level - np.where(support.second, by_boxes.by_all_rows / unit, 0.0)
        of_level = support.residuals(level, support.design(level))
        # Mean and spread are two claims about one response: this one must not come from looking twice.
        first, second, change = _spread(support, of_level, _stricter(confidence_level), rng)
        spread = Spread(unit * first, unit * second, in_units(change, unit))

    # 3. What the test would find: the view of the mean sees a shift everywhere, with its share of the level.
    error = float(np.sqrt((averages.errors**2).sum()))
    detectable = scale * error * _detectable_in_errors(alpha * MEAN_SHARE)
    # Views for local changes may see less; what moves the average enough is seen wherever it is.
    return Effect(
        name,
        size,
        average,
        spread,
        detectable,
        detectable_in_part=detectable / _PART,
        influential=residuals.influential_row(averages) if numeric else None,
    )


def _stricter(confidence_level: float) -> float:
    """Return the level of each of two claims that share the risk of one."""
    return level_of_each(confidence_level, 2)


def level_of_each(confidence_level: float, n_claims: int) -> float:
    """Return the level of each of so many claims that share the risk of one (Bonferroni)."""
    return (n_claims - 1 + confidence_level) / n_claims


def _best_residuals(
    support: CommonSupport,
    columns: FloatArray,
    unit: float,
    by_boxes: BoxwiseChange | None,
    rng: np.random.Generator,
) -> _Residuals:
    """Return residuals of a response in some unit, after regressions that follow boxes or not."""
    scaled = columns / unit
    no_heights, no_boxes = np.zeros_like(columns), np.empty((len(columns), 0))
    smooth = _Residuals.of(support, scaled, no_heights, no_boxes, rng)
    if by_boxes is None or not by_boxes.by_other_half.any():
        return smooth
    following_boxes = _Residuals.of(support, scaled, by_boxes.by_other_half[:, None] / unit, by_boxes.boxes, rng)
    # Boxes imitate a smooth change badly, and smooth functions a step: what predicts y better, each row left out.
    return min(smooth, following_boxes, key=lambda residuals: residuals.error)


def _size(
    residuals: _Residuals, averages: _Averages, implied: Sequence[float] | None, confidence_level: float
) -> Estimate:
    """Return the root mean square of a change with its interval; value and ends are not below the `implied` ones."""
    # The largest of several lower bounds holds if all of them do: they share the risk.
    stricter_level = level_of_each(confidence_level, LOWER_BOUNDS - (implied is None))
    with one_blas_thread():
        low = residuals.lower_bound(_normal_quantile(stricter_level))
        value, high = residuals.length_and_upper_bound(_normal_quantile(confidence_level))
    if len(averages.values) == 1:
        # No root mean square is below its mean: a second lower bound. Nor is the estimate of it, though chance adds to
        # that of the mean.
        mean = abs(float(averages.values[0]))
        low = max(low, mean - _reach(averages.influence[:, 0], stricter_level))
        value, high = max(value, mean), max(high, mean)
    if implied is not None:
        value, low, high = (max(pair) for pair in zip((value, low, high), implied, strict=True))
    high = max(high, low)
    return Estimate(min(max(value, low), high), low, high, confidence_level)


class _Averages(NamedTuple):
    """Averages of a change over the common support, by column of the response."""

    values: FloatArray  # (c,)
    influence: FloatArray  # (units, c): what each unit adds to the error of each

    @property
    def errors(self) -> FloatArray:
        """Standard errors (c,)."""
        return np.asarray(np.sqrt((self.influence**2).sum(axis=0)))


class _SquaredLength(NamedTuple):
    """An estimate of the squared length q of a change, and its variance v + w q."""

    q_hat: float
    v: float
    w: float


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Residuals of a response in the units of the common support: squares of the weighted surprises add up to 1."""

    support: CommonSupport  # the rows
    weighted_surprises: FloatArray  # (n, 1): labels minus shares, times the roots of the weights
    about_mixture: FloatArray  # (n, c): the response minus m0 + s (m1 - m0), times the roots of the weights
    explained: FloatArray  # (n, c): what the change, as rows of other folds have it, explains of these residuals
    of_sample: FloatArray  # (n, c): the response minus the regression in the row's sample
    boxes: FloatArray  # (n, boxes): 1 where a part of the change that has sharp bounds may lie

    @classmethod
    def of(
        cls,
        support: CommonSupport,
        columns: FloatArray,
        heights: FloatArray,
        boxes: FloatArray,
        rng: np.random.Generator,
    ) -> _Residuals:
        """Regress a response (n x c) on x in each sample, and subtract.

        The change is the sum of its part with sharp bounds, of these heights (n x c) in the boxes (n x boxes), and of
        what smooth regressions see beyond it.
        """
        s = share(support.odds.values)[:, None]  # (n, 1): share of the second sample
        t = support.second[:, None]  # (n, 1): 1 for rows of the second sample

        # Regress each column, without the part with sharp bounds, in each sample; the difference of both from rows of
        # other folds.
        folds = support.folds(_FOLDS, rng)
        first_means, second_means, differences = [], [], []
        smooth = columns - np.where(t, heights, 0.0)
        for column in smooth.T:
            design = support.design(column)
            in_first, in_second = support.regressions(column, design)
            first_means.append(in_first.values)
            second_means.append(in_second.values)
            differences.append(support.difference(column, design, folds))
        first = np.array(first_means).T  # (n, c)
        second = np.array(second_means).T + heights  # (n, c)
        change = np.array(differences).T + heights  # (n, c)

        # Weights are in the units of the common support: those of u^2 add up to 1.
        total = np.sum(support.weights * (t - s)[:, 0] ** 2)
        roots = np.sqrt(support.weights / total)[:, None]  # (n, 1)
        u = roots * (t - s)  # (n, 1)
        return cls(
            support,
            weighted_surprises=u,
            about_mixture=roots * (columns - first - s * (second - first)),
            explained=u * change,
            of_sample=columns - np.where(t, second, first),
            boxes=boxes,
        )

    @property
    def error(self) -> float:
        """Squared error of the regressions, each row left out of its own."""
        return float(self.support.weights @ (self.of_sample**2).sum(axis=1))

    def averages(self) -> _Averages:
        """Return the mean change of each column: the sum of u r, since that of u^2 is 1.

        Residuals of rows that were left out of the fits are larger than the noise, by about as much as the errors of
        the fits, of the second order, add to the error of the mean. (Rows drawn again count these twice.)
        """
        u, r = self.weighted_surprises, self.about_mixture
        values = (u * r).sum(axis=0)  # (c,)
        return _Averages(values, self.support.units.sums(u * (r - values * u)))

    def influential_row(self, averages: _Averages) -> InfluentialRow | None:
        """Return the row that carries most of the variance of the average of the first column, if one does."""
        u, r = self.weighted_surprises[:, 0], self.about_mixture[:, 0]
        of_rows = (u * (r - averages.values[0] * u)) ** 2  # (n,)
        row = int(of_rows.argmax())
        # Rows of a cluster add up before they are squared, so that a row can have more than all units together.
        share = min(1.0, float(of_rows[row] / max(averages.errors[0] ** 2, np.finfo(float).tiny)))
        return InfluentialRow(row, share) if share >= _INFLUENTIAL else None

    def lower_bound(self, z: float) -> float:
        """Return a bound that the length of the change exceeds: no direction shows more of it than its whole length.

        The direction is that of the change as rows of other folds have it. The bound is z standard errors below the
        projection of the residuals on it.
        """
        product = float((self.about_mixture * self.explained).sum())
        length = float(np.sqrt((self.explained**2).sum()))
        if length == 0:
            return 0.0
        # Without a change the product is a sum over pairs of rows: what two of them have in common by chance stands in
        # the terms of both, and the variance is twice that of independent terms. Along a change it is once that. The
        # part of the direction that is change is about product / length^2.
        inflation = 2 - min(max(product, 0.0) / length**2, 1.0)
        of_units = self.support.units.sums((self.explained * (self.about_mixture - self.explained)).sum(axis=1))
        error = float(np.sqrt(inflation * (of_units**2).sum()))
        return max((product - z * error) / length, 0.0)

    def length_and_upper_bound(self, z: float) -> tuple[float, float]:
        r"""Return the length of a change made of some functions of x, and an upper bound of it, z standard errors away.

        The bound is the largest square q of which the estimate, with the variance v + w q, lies no more than z
        deviations below:

        .. math:: (q - \hat q)^2 = z^2 (v + w q), \quad
            q = \hat q + z^2 w / 2 + z \sqrt{v + w \hat q + z^2 w^2 / 4}.
        """
        q_hat, v, w = self._debiased_square()
        root = np.sqrt(v + w * max(q_hat, 0.0) + (z * w) ** 2 / 4)
        bound = q_hat + z**2 * w / 2 + float(z * root)
        return math.sqrt(max(q_hat, 0.0)), math.sqrt(max(bound, 0.0))

    def _debiased_square(self) -> _SquaredLength:
        """Estimate the squared length of a change made of some functions of x.

        With B an orthonormal basis of the weighted surprises times these functions, it is q = |B' r|^2, in which noise
        adds to the products of rows with themselves. The estimate has no such bias: it is the sum over rows of the
        product of r with what B predicts of it from the other rows. (The length along what regressions say of the
        change is too short: they shrink it.)
        """
        r, basis = self.about_mixture, self._basis_of_changes()  # (n, c), (n, k): B
        leverage = np.minimum((basis**2).sum(axis=1), _MOST_LEVERAGE)[:, None]  # (n, 1)
        # What the other rows say of a row: its product with the row is not biased by noise.
        by_others = (basis @ (basis.T @ r) - leverage * r) / (1 - leverage)  # (n, c)
        noise = (r - by_others) * np.sqrt(1 - leverage)  # (n, c)
        return _SquaredLength(float((r * by_others).sum()), *self._variance_terms(basis, noise))

    def _basis_of_changes(self) -> FloatArray:
        """Return an orthonormal basis (n, k) of the weighted surprises times functions that a change may follow."""
        functions = np.hstack([_functions(self.support, self.weighted_surprises), self.boxes])
        orthonormal, triangle = np.linalg.qr(self.weighted_surprises * functions)
        size = np.abs(np.diag(triangle))
        return np.asarray(orthonormal[:, size > _NEGLIGIBLE * size.max()])

    def _variance_terms(self, basis: FloatArray, noise: FloatArray) -> tuple[float, float]:
        """Return v and w of the variance v + w q, from a basis B (n, k) and the noise of each column (n, c)."""
        squares = self.weighted_surprises**2  # (n, 1)
        # v: the noise e that is there without any change, for columns k and l 2 |B' diag(e_k e_l) B|^2,
        pairs = [(e_k, e_l) for e_k in noise.T for e_l in noise.T]
        by_noise = 2 * sum(float((((basis * (e_k * e_l)[:, None]).T @ basis) ** 2).sum()) for e_k, e_l in pairs)
        # and how the change is spread over the rows that happened to be drawn.
        of_rows = (self.explained**2).sum(axis=1)  # (n,)
        by_rows = float(((of_rows - squares[:, 0] * of_rows.sum()) ** 2).sum())
        # w: the noise along the change itself.
        return by_noise + by_rows, 4 * float((squares * noise**2).sum())


def _functions(support: CommonSupport, weighted_surprises: FloatArray) -> FloatArray:
    """Functions of x that a change may follow: a constant, the inputs, and smooth functions of all of them."""
    smoother, n = support.smoother, len(weighted_surprises)
    # The squares of the weighted surprises add up to 1: this is how many rows of equal surprise would have such a sum.
    informative = 1 / float((weighted_surprises**4).sum())
    most = int(np.clip(informative // _ROWS_PER_FUNCTION, 1, _MOST_FUNCTIONS))
    # Bumps of one median where there are numbers, else the products of the labels.
    design = next((d for d in smoother.designs if d.name.startswith("bumps")), smoother.designs[-1])
    order = np.argsort(-design.spectrum)[:most]
    numbers = np.clip(smoother.numbers, -CLIPPED_INPUT, CLIPPED_INPUT)
    linear = [np.ones((n, 1)), numbers, *(block[:, 1:] for block in smoother.indicators)]
    return np.hstack([*linear, design.basis[:, order] * np.sqrt(n)])[:, :most]


def _spread(
    support: CommonSupport, residuals: FloatArray, confidence_level: float, rng: np.random.Generator
) -> tuple[float, float, Estimate]:
    """Return standard deviations over the common support in either sample, and their difference with its interval."""
    means = MeansOnSupport.of(support, residuals**2, _RESAMPLES, rng)
    # Of the four means those on the common support: in the first sample and in the second. (2,) and (2, units)
    variances = np.maximum(means.observed[1:3], np.finfo(float).tiny)
    influence = means.influence[1:3]
    deviations = np.sqrt(variances)
    # Logarithms of deviations are near to normal with few rows already. The error of log(sd) = log(variance) / 2 is
    # that of the variance, over twice the variance.
    errors = means.redrawn[1:3].std(axis=1) / (2 * variances)
    quantiles = [student_quantile(confidence_level, of_sample) for of_sample in influence]
    factors = np.exp(np.minimum(errors * quantiles, _MOST_REACH))
    # How far the ends of the intervals lie below and above each deviation.
    down_first, down_second = deviations * (1 - 1 / factors)
    up_first, up_second = deviations * (factors - 1)
    # An end of a difference is as far away as the ends of both terms on that side, their squares added (Zou and Donner
    # 2008).
    first, second = map(float, deviations)
    low = second - first - math.hypot(down_second, up_first)
    high = second - first + math.hypot(up_second, down_first)
    return first, second, Estimate(second - first, low, high, confidence_level)


def _reach(influence: FloatArray, confidence_level: float) -> float:
    """Return half of an interval about the sum of independent terms."""
    return student_quantile(confidence_level, influence) * float(np.sqrt((influence**2).sum()))


def _normal_quantile(confidence_level: float) -> float:
    """Return how many standard errors a two-sided interval reaches."""
    return float(ndtri((1 + confidence_level) / 2))


def _detectable_in_errors(level: float) -> float:
    """Return the number of standard errors that a two-sided test at some level detects with the power `_POWER`."""
    return float(-ndtri(level / 2) + ndtri(_POWER))
