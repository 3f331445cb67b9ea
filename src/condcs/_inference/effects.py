r"""How large a change of the relation is, in units of y, with bounds that hold, and what would not have been seen.

Over the common support of two samples (see `common_support`), with u the label of a row minus its share and r the
response minus its regression on x, the difference t(x) of the means of y given x is what u t(x) explains of r. Its root
mean square is estimated from functions of x: each row's r times what the others say of it there, which chance does not
bias. The lower bound holds for any t (by Cauchy and Schwarz, t has at least the length of its projection on any
direction that the row itself had no say in), the upper one for those that these functions can tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from condcs._core.thread_limit import one_blas_thread
from condcs._inference.common_support import CommonSupport, FloatArray, LeftOutFit, MeansOnSupport, share
from condcs._inference.results import Estimate

_MOST_FUNCTIONS, _ROWS_PER_FUNCTION = 60, 15
_MOST_LEVERAGE = 0.9
_FOLDS = 4
_RESAMPLES = 200
_POWER = 0.8
_PART = 0.1
"""Share of the rows of a change that is confined to a part of x."""
_MEAN_WEIGHT = 0.4
"""Share of the level that a change of the mean has in the combined test."""


class Spread(NamedTuple):
    """Standard deviation of y for equal inputs: before, now, and its change with an interval."""

    before: float
    now: float
    change: Estimate


@dataclass(frozen=True)
class Effect:
    """How much one response changed for equal inputs, over the inputs that both samples have.

    Attributes
    ----------
    name : str
        The response.
    size : Estimate
        Root mean square of the difference between the means of y given x: in units of y, or in shares for labels.
    average : Estimate, optional
        Mean of that difference, with its sign; none for labels of more than two kinds.
    spread : Spread, optional
        How far y scatters for equal inputs; none for labels.
    detectable : float
        A shift of y everywhere that the test would find with a probability of 80%.
    detectable_in_part : float
        The same for a shift in a tenth of the rows, whichever they are: it moves the average by a tenth as much. Where
        the rows lie together in a few inputs, smaller ones are found.
    """

    name: str
    size: Estimate
    average: Estimate | None
    spread: Spread | None
    detectable: float
    detectable_in_part: float

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
            "size": _plain(self.size),
            "average": None if self.average is None else _plain(self.average),
            "spread": None
            if spread is None
            else {"reference": spread.before, "current": spread.now, "change": _plain(spread.change)},
            "detectable": self.detectable,
            "detectable_in_a_tenth_of_the_rows": self.detectable_in_part,
        }


def measure_effect(
    name: str,
    support: CommonSupport,
    columns: FloatArray,
    *,
    numeric: bool,
    confidence_level: float,
    alpha: float,
    rng: np.random.Generator,
) -> Effect:
    """Measure the change of a response: a column of numbers (n x 1), or indicators of labels (n x c)."""
    # Squares of large numbers would overflow.
    unit = float(np.abs(columns).max()) or 1.0
    residuals = _Residuals.of(support, columns / unit, rng)
    z, stricter = _normal_quantile(confidence_level), _normal_quantile((1 + confidence_level) / 2)
    # Labels of several kinds: each share that one loses another gains.
    scale = unit * (np.sqrt(0.5) if columns.shape[1] > 1 else 1.0)
    with one_blas_thread():
        # Two lower bounds, each with half of the risk: that of the direction, and the average.
        value, low = residuals.length(), residuals.lower_bound(stricter)
        high = residuals.upper_bound(z)
    averages, errors = residuals.averages()
    average = None
    if columns.shape[1] == 1:
        mean = float(averages[0])
        # Rows drawn again: what errors of the regressions add is of the second order, but not nothing.
        means = MeansOnSupport.of(support, columns[:, 0] / unit, _RESAMPLES, rng, residuals.regressions)
        error = float((means.redrawn[2] - means.redrawn[1]).std())
        average = _times(unit, mean, mean - z * error, mean + z * error)
        low = max(low, abs(mean) - stricter * error)
        value = max(value, np.sqrt(max(mean**2 - error**2, 0.0)))
    high = max(high, low)
    spread = None
    if numeric:
        before, now, *change = _spread(support, residuals.own[:, 0], z, rng)
        spread = Spread(unit * before, unit * now, _times(unit, *change))
    detectable = scale * float(np.sqrt((errors**2).sum())) * _power_units(alpha * _MEAN_WEIGHT)
    return Effect(
        name,
        _times(scale, np.clip(value, low, high), low, high),
        average,
        spread,
        detectable,
        # Views for local changes may see less; what moves the average enough is seen wherever it is.
        detectable / _PART,
    )


@dataclass(frozen=True, eq=False)
class _Residuals:
    """What is left of a response, in the units of the common support: u^2 and its weights add up to 1.

    Attributes
    ----------
    support : CommonSupport
        The rows.
    surprises : array, shape (n, 1)
        Labels minus shares, times the roots of the weights.
    left : array, shape (n, c)
        The response minus its regression on the pool, times the roots of the weights.
    aimed : array, shape (n, c)
        What rows of other folds say that the change explains of it.
    explained : array, shape (n, c)
        The same by all other rows. (Their fits, but not the choice among them, are without the row.)
    own : array, shape (n, c)
        The response minus the regression in its own sample.
    regressions : pair of LeftOutFit
        Those of the last column.
    """

    support: CommonSupport
    surprises: FloatArray
    left: FloatArray
    aimed: FloatArray
    explained: FloatArray
    own: FloatArray
    regressions: tuple[LeftOutFit, LeftOutFit]

    @classmethod
    def of(cls, support: CommonSupport, columns: FloatArray, rng: np.random.Generator) -> _Residuals:
        """Regress a response on x in each sample, and subtract."""
        s = share(support.odds.values)[:, None]
        t = support.second[:, None]
        folds = support.folds(_FOLDS, rng)
        found = []
        for column in columns.T:
            design = support.design(column)
            fits = support.regressions(column, design)
            found.append([fits[0].values, fits[1].values, support.difference(column, design, folds)])
        first, second, direction = np.moveaxis(np.array(found), 0, -1)
        total = np.sum(support.weights * (t - s)[:, 0] ** 2)
        roots = np.sqrt(support.weights / total)[:, None]
        u = roots * (t - s)
        left = roots * (columns - first - s * (second - first))
        own = columns - np.where(t, second, first)
        return cls(support, u, left, u * direction, u * (second - first), own, fits)

    def averages(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean change of each column, and its standard error."""
        averages = (self.surprises * self.left).sum(axis=0)
        influence = self.support.units.sums(self.surprises * (self.left - averages * self.surprises))
        return averages, np.sqrt((influence**2).sum(axis=0))

    def length(self) -> float:
        """Return the length of the change along what other rows say of it."""
        along, length = float((self.left * self.explained).sum()), float(np.sqrt((self.explained**2).sum()))
        return max(along / length, 0.0) if length > 0 else 0.0

    def lower_bound(self, z: float) -> float:
        """Return a bound that the length of the change exceeds: no direction shows more of it than its whole length."""
        along, length = float((self.left * self.aimed).sum()), float(np.sqrt((self.aimed**2).sum()))
        if length == 0:
            return 0.0
        # Two rows that agree by chance count twice, each in what is aimed at for the other; of a change only once.
        twice = 2 - min(max(along, 0.0) / length**2, 1.0)
        errors = self.support.units.sums((self.aimed * (self.left - self.aimed)).sum(axis=1))
        error = float(np.sqrt(twice * (errors**2).sum()))
        return max((along - z * error) / length, 0.0)

    def upper_bound(self, z: float) -> float:
        """Return the largest length of a change made of some functions of x that the response allows for."""
        orthonormal, triangle = np.linalg.qr(self.surprises * _functions(self.support, self.surprises))
        size = np.abs(np.diag(triangle))
        basis = orthonormal[:, size > 1e-8 * size.max()]
        leverage = np.minimum((basis**2).sum(axis=1), _MOST_LEVERAGE)[:, None]
        # What the other rows say of a row: its product with the row is not biased by noise.
        others = (basis @ (basis.T @ self.left) - leverage * self.left) / (1 - leverage)
        squared = float((self.left * others).sum())
        noise = (self.left - others) * np.sqrt(1 - leverage)
        pairs = [(a, b) for a in noise.T for b in noise.T]
        by_noise = 2 * sum(float((((basis * (a * b)[:, None]).T @ basis) ** 2).sum()) for a, b in pairs)
        # Along the change itself: the variance for each unit of its square, and that of how it is spread over the rows.
        own = self.surprises**2
        along = 4 * float((own * noise**2).sum())
        local = (self.aimed**2).sum(axis=1)
        over_rows = float(((local - own[:, 0] * local.sum()) ** 2).sum())
        # The largest q for which the estimate lies no more than z deviations below it.
        reach = z * np.sqrt(by_noise + over_rows + along * max(squared, 0.0) + (z * along) ** 2 / 4)
        return float(np.sqrt(max(squared + z**2 * along / 2 + reach, 0.0)))


def _functions(support: CommonSupport, surprises: FloatArray) -> FloatArray:
    """Functions of x that a change may follow: a constant, the inputs, and smooth functions of all of them."""
    smoother, n = support.smoother, len(surprises)
    informative = 1 / float((surprises**4).sum())
    most = int(np.clip(informative // _ROWS_PER_FUNCTION, 1, _MOST_FUNCTIONS))
    # Bumps of one median where there are numbers, else the products of the labels.
    design = next((d for d in smoother.designs if d.name.startswith("bumps")), smoother.designs[-1])
    order = np.argsort(-design.spectrum)[:most]
    linear = [np.ones((n, 1)), np.clip(smoother.numbers, -3, 3), *(b[:, 1:] for b in smoother.indicators)]
    return np.hstack([*linear, design.basis[:, order] * np.sqrt(n)])[:, :most]


def _spread(
    support: CommonSupport, residuals: FloatArray, z: float, rng: np.random.Generator
) -> tuple[float, float, float, float, float]:
    """Return standard deviations over the common support, before and now, and their difference with its interval."""
    means = MeansOnSupport.of(support, residuals**2, _RESAMPLES, rng)
    before, now = np.sqrt(np.maximum(means.observed[1:3], 0.0))
    draws = np.sqrt(np.maximum(means.redrawn[1:3], 0.0))
    reach = z * float((draws[1] - draws[0]).std())
    return float(before), float(now), float(now - before), float(now - before - reach), float(now - before + reach)


def _times(unit: float, *ends: Any) -> Estimate:
    return Estimate(*(float(unit * end) for end in ends))


def _normal_quantile(confidence_level: float) -> float:
    """Return how many standard errors a two-sided interval reaches."""
    from scipy.special import ndtri

    return float(ndtri((1 + confidence_level) / 2))


def _power_units(level: float) -> float:
    """Return how many standard errors a change must have to be found with the power aimed at, two-sided."""
    from scipy.special import ndtri

    return float(-ndtri(level / 2) + ndtri(_POWER))


def _plain(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "interval": [estimate.low, estimate.high]}
