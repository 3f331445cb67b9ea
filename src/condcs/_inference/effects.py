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
from condcs._inference.common_support import CommonSupport, FloatArray, share
from condcs._inference.loss_split import MeansOnSupport, normal_quantile
from condcs._inference.results import Estimate

_MOST_FUNCTIONS, _ROWS_PER_FUNCTION = 60, 15
_MOST_LEVERAGE = 0.9
_SPREAD_RESAMPLES = 200
_POWER = 0.8
_PART = 0.1
"""Share of the rows of a change that is confined to a part of x."""
_PLACES_PER_COLUMN = 10
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
        The same for a shift in a tenth of the rows, wherever that may be.
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
    s = share(support.odds.values)
    u = support.second - s
    weights = np.sqrt(support.weights)[:, None]
    designs = [support.design(column) for column in columns.T]
    fits = [support.regressions(column, design) for column, design in zip(columns.T, designs, strict=True)]
    first, second = (np.column_stack([pair[which].values for pair in fits]) for which in (0, 1))
    left = columns - first - s[:, None] * (second - first)
    z = normal_quantile(confidence_level)
    half = rng.permutation(len(columns)) % 2 == 0
    both = zip(columns.T, designs, strict=True)
    direction = np.column_stack([support.difference(column, design, half) for column, design in both])
    total = float(np.sum(support.weights * u**2))
    averages = (support.weights * u) @ left / total
    influence = (u[:, None] * left - averages * (u**2)[:, None]) * support.weights[:, None] / total
    errors = np.sqrt((influence**2).sum(axis=0))
    with one_blas_thread():
        aimed = weights * u[:, None] * direction
        # Two lower bounds, each with half of the risk: that of the direction, and the average.
        value, low = _lower_bound(weights * left, aimed, normal_quantile((1 + confidence_level) / 2))
        high = _upper_bound(weights * left, aimed, weights * u[:, None] * _functions(support, u), z)
    # Labels of several kinds: each share that one loses another gains.
    scale = np.sqrt(0.5) if columns.shape[1] > 1 else 1.0
    value, low, high = (float(scale * v / np.sqrt(total)) for v in (value, low, high))
    average = None
    if columns.shape[1] == 1:
        mean, error = float(averages[0]), float(errors[0])
        average = Estimate(mean, mean - z * error, mean + z * error)
        low = max(low, abs(mean) - normal_quantile((1 + confidence_level) / 2) * error)
        value = max(value, np.sqrt(max(mean**2 - error**2, 0.0)))
    high = max(high, low)
    size = Estimate(float(np.clip(value, low, high)), low, high)
    spread = None
    if numeric:
        own = np.where(support.second[:, None], second, first)
        spread = _spread(support, (columns - own)[:, 0], z, rng)
    places = _PLACES_PER_COLUMN * (support.smoother.numbers.shape[1] + len(support.smoother.categories))
    error = float(scale * np.sqrt((errors**2).sum()))
    return Effect(
        name,
        size,
        average,
        spread,
        error * _power_units(alpha * _MEAN_WEIGHT),
        error / np.sqrt(_PART) * _power_units(alpha * _MEAN_WEIGHT / places),
    )


def _functions(support: CommonSupport, u: FloatArray) -> FloatArray:
    """Functions of x that a change may follow: a constant, the inputs, and smooth functions of all of them."""
    smoother = support.smoother
    informative = 4 * len(u) * float(np.sum(support.weights * u**2))
    most = int(np.clip(informative // _ROWS_PER_FUNCTION, 1, _MOST_FUNCTIONS))
    # Bumps of one median where there are numbers, else the products of the labels.
    design = next((d for d in smoother.designs if d.name.startswith("bumps")), smoother.designs[-1])
    order = np.argsort(-design.spectrum)
    blocks = [np.ones((len(u), 1)), np.clip(smoother.numbers, -3, 3), *(b[:, 1:] for b in smoother.indicators)]
    linear = np.hstack(blocks)
    return np.hstack([linear, design.basis[:, order] * np.sqrt(len(u))])[:, : max(most, 1)]


def _lower_bound(left: FloatArray, aimed: FloatArray, z: float) -> tuple[float, float]:
    """Length of what a change explains of `left` (n x c), and a bound that it exceeds.

    `aimed` (n x c) is an estimate of what it explains that the row itself had no say in: no direction shows more of the
    change than its whole length.
    """
    along, length = float((left * aimed).sum()), float(np.sqrt((aimed**2).sum()))
    if length == 0:
        return 0.0, 0.0
    # Two rows that agree by chance count twice, each in what is aimed at for the other; of a change only once.
    twice = 2 - min(max(along, 0.0) / length**2, 1.0)
    error = float(np.sqrt(twice * ((aimed * (left - aimed)).sum(axis=1) ** 2).sum()))
    return max(along / length, 0.0), max((along - z * error) / length, 0.0)


def _upper_bound(left: FloatArray, aimed: FloatArray, functions: FloatArray, z: float) -> float:
    """Return the largest length of a combination of functions, a constant first, that `left` allows for."""
    orthonormal, triangle = np.linalg.qr(functions)
    size = np.abs(np.diag(triangle))
    basis = orthonormal[:, size > 1e-8 * size.max()]
    leverage = np.minimum((basis**2).sum(axis=1), _MOST_LEVERAGE)[:, None]
    # What the other rows say of a row: its product with the row is not biased by noise.
    others = (basis @ (basis.T @ left) - leverage * left) / (1 - leverage)
    squared = float((left * others).sum())
    noise = (left - others) * np.sqrt(1 - leverage)
    pairs = [(a, b) for a in noise.T for b in noise.T]
    by_noise = 2 * sum(float((((basis * (a * b)[:, None]).T @ basis) ** 2).sum()) for a, b in pairs)
    # Along the change itself: the variance for each unit of its square, and that of how it is spread over the rows.
    constant = functions[:, 0] ** 2
    along = 4 * float((constant[:, None] * noise**2).sum() / constant.sum())
    local = (aimed**2).sum(axis=1)
    over_rows = float(((local - constant * local.sum() / constant.sum()) ** 2).sum())
    # The largest q for which the estimate lies no more than z deviations below it.
    reach = z * np.sqrt(by_noise + over_rows + along * max(squared, 0.0) + (z * along) ** 2 / 4)
    return float(np.sqrt(max(squared + z**2 * along / 2 + reach, 0.0)))


def _spread(support: CommonSupport, residuals: FloatArray, z: float, rng: np.random.Generator) -> Spread:
    """Return the standard deviations of what the regressions leave, over the common support."""
    means = MeansOnSupport.of(support, residuals**2, _SPREAD_RESAMPLES, rng)
    before, now = np.sqrt(np.maximum(means.observed[1:3], 0.0))
    draws = np.sqrt(np.maximum(means.redrawn[1:3], 0.0))
    reach = z * float((draws[1] - draws[0]).std())
    change = float(now - before)
    return Spread(float(before), float(now), Estimate(change, change - reach, change + reach))


def _power_units(level: float) -> float:
    """Return how many standard errors a change must have to be found with the power aimed at, two-sided."""
    from scipy.special import ndtri

    return float(-ndtri(level / 2) + ndtri(_POWER))


def _plain(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "interval": [estimate.low, estimate.high]}
