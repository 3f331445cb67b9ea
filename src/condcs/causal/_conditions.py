"""What a link is conditioned on beside its own past, and the memory that regressions on past values leave."""

from __future__ import annotations

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray
from condcs._inference.smoothing import Smoother
from condcs.causal._series import FEWEST_ROWS, CausalProblem, Link, Series

_LEAST_NOISE = 0.01
"""Share of the variance of a target that must be left unexplained for the test by signs."""

_HELPFUL = 0.99
"""A series helps to predict a target if its last value reduces what is left unexplained by this factor."""

_CLEAR = 3.0
"""Standard errors from which an autocorrelation is clearly not 0."""

_LINE = 1e-3
"""p-value of a wave that stands out."""

_TREND = 4.0
"""Standard errors from which a slope in time is a trend; those of a random walk are seldom above 3.5."""

_MOST_SMOOTHERS = 8
"""Sets of past values of which the regressions are kept: conditional links all have the same one."""


Values = tuple[tuple[int, int], ...]
"""Past values: (series, steps before the target), in increasing order."""


class Conditions:
    """What each link is conditioned on, and what regressions on past values leave of a target.

    Beside the own past and those of the series that are given, a link is conditioned on the third series that helps
    most to predict the target: a driver of the target is also known to the older past of what the target drives, so
    that without it the reverse of a true link would be significant. And on what time itself tells: the value of the
    target one season ago, if its own past leaves an autocorrelation there; and time, if source and target both have a
    trend, or waves in time, if both have a season of the same length. Noise hides the phase of a season that two series
    share; each would tell it the other.
    """

    def __init__(self, problem: CausalProblem) -> None:
        self.problem = problem
        self._smoothers: dict[Values, tuple[BoolArray, Smoother | None]] = {}
        self._series = list(problem.series)
        self._kept: dict[tuple[int, Values], tuple[FloatArray, float]] = {}
        self._helpers: dict[int, list[int]] = {}
        self._seasons: dict[int, tuple[int, ...]] = {}

    def of(self, link: Link) -> Values:
        """Return the past values that a link is conditioned on."""
        steps = self.problem.embedding.source_steps
        least = {*self._own(link.target), *((v, step) for v in link.given for step in steps)}
        season = ((link.target, step) for step in self._season(link.target))
        shared = self._shared_by_time(link)
        most = {*least, *((v, step) for v in self._helper(link) for step in steps), *season, *shared}
        # Helpers may be missing, and a season is not known of the first times.
        enough = np.isfinite(self.columns(tuple(most))).all(axis=1).sum() >= FEWEST_ROWS
        return tuple(sorted(most if enough else least))

    def columns(self, values: Values) -> FloatArray:
        """Return past values as columns; NaN before the first time and where not measured."""
        times = self.problem.times
        return np.hstack(
            [np.where((times >= step)[:, None], self._series[v].values[times - step], np.nan) for v, step in values]
        )

    def leave_noise(self, link: Link) -> bool:
        """Whether more than 1% of the variance of the target is left by what the link is conditioned on."""
        return self._share(link.target, (*link.given, *self._helper(link))) > _LEAST_NOISE

    def left(self, target: int, values: Values) -> FloatArray:
        """Return what a regression on past values leaves of the target; NaN where one of them is missing."""
        return self._regressed(target, values)[0]

    def _own(self, target: int) -> Values:
        return tuple((target, step) for step in self.problem.embedding.own_steps)

    def _season(self, target: int) -> tuple[int, ...]:
        """Return the step at which what the own past leaves of the target is autocorrelated most, if it clearly is."""
        if target not in self._seasons:
            problem = self.problem
            found = _autocorrelations(_on_grid(problem, self.left(target, self._own(target))))
            found[[k - 1 for k in problem.embedding.own_steps if k <= len(found)]] = 0.0
            best = int(np.argmax(found))
            self._seasons[target] = (best + 1,) if found[best] > _CLEAR / np.sqrt(problem.rows) else ()
        return self._seasons[target]

    def _shared_by_time(self, link: Link) -> Values:
        """Return functions of time that source and target both follow: a trend, waves of a season and of half of it."""
        source, target = (self.problem.series[v].values[:, 0] for v in link[:2])
        n = len(target)
        found: Values = ()
        if has_trend(source) and has_trend(target):
            found += self._function("trend", np.arange(n) / n)
        lines = spectral_line(source), spectral_line(target)
        if lines[0] is not None and lines[1] is not None and abs(lines[0] - lines[1]) <= 1 / (2 * n):
            turns = 2 * np.pi * lines[1] * np.arange(n)
            for k in (1, 2):
                found += self._function(f"{k} sin {lines[1]}", np.sin(k * turns))
                found += self._function(f"{k} cos {lines[1]}", np.cos(k * turns))
        return found

    def _function(self, name: str, values: FloatArray) -> Values:
        """Take a function of time as one more series, whose present value is known."""
        names = [one.name for one in self._series[len(self.problem.series) :]]
        if name not in names:
            self._series.append(Series(name, values[:, None]))
            names.append(name)
        return ((len(self.problem.series) + names.index(name), 0),)

    def _helper(self, link: Link) -> tuple[int, ...]:
        """Return the third series that helps most to predict the target, if one does."""
        others = set(range(len(self.problem.series))) - {link.source, link.target, *link.given}
        return tuple(v for v in self._helpers_of(link.target) if v in others)[:1] if others else ()

    def _helpers_of(self, target: int) -> list[int]:
        """Return the two series whose last values help most, if they do: one of them may be the source itself."""
        if target not in self._helpers:
            chosen: list[int] = []
            others = [v for v in range(len(self.problem.series)) if v != target]
            while others and len(chosen) < 2:
                now = self._share(target, tuple(chosen))
                best = min(others, key=lambda v: self._share(target, (*chosen, v)))
                if now <= _LEAST_NOISE or self._share(target, (*chosen, best)) >= _HELPFUL * now:
                    break
                chosen.append(best)
                others.remove(best)
            self._helpers[target] = chosen
        return self._helpers[target]

    def _share(self, target: int, others: tuple[int, ...]) -> float:
        return self._regressed(target, tuple(sorted({*self._own(target), *((v, 1) for v in others)})))[1]

    def _smoother(self, values: Values) -> tuple[BoolArray, Smoother | None]:
        """Return which rows have all values, and regressions on these; only the latest are kept, for their size."""
        if values not in self._smoothers:
            inputs = self.columns(values)
            complete = np.asarray(np.isfinite(inputs).all(axis=1))
            enough = complete.sum() >= FEWEST_ROWS
            smoother = Smoother(inputs[complete], (False,) * inputs.shape[1]) if enough else None
            if len(self._smoothers) == _MOST_SMOOTHERS:
                del self._smoothers[next(iter(self._smoothers))]
            self._smoothers[values] = complete, smoother
        return self._smoothers[values]

    def _regressed(self, target: int, values: Values) -> tuple[FloatArray, float]:
        """Return what is left of the target, and as a share of its variance with each row left out of the fit."""
        if (target, values) not in self._kept:
            complete, smoother = self._smoother(values)
            y = self.problem.past(target, (0,))
            left, share = np.full_like(y, np.nan), 1.0
            if smoother is not None:
                left[complete], left_out = smoother.residuals(y[complete])
                share = float(np.max((left_out**2).mean(axis=0) / y[complete].var(axis=0)))
            self._kept[target, values] = left, share
        return self._kept[target, values]


def variance_inflation(problem: CausalProblem, link: Link, left: FloatArray) -> float:
    r"""Return the factor by which the memory of both series widens sums of products of their residuals.

    A regression of a series of persistence b (its autocorrelation at one step) on its past underestimates b by
    :math:`(1 + 3 b) / n` on average (Kendall 1954). What it leaves is therefore autocorrelated, and so is the past of a
    source of persistence a: the variance of the sum of their products is larger than that of independent products by
    the first two terms of

    .. math:: 1 + \frac{2 (1 + 3 b)}{n} \frac{a}{1 - a b} + 2 \sum_k r_k s_k.

    The last term is for what the past that is looked at does not explain, such as seasons: r are autocorrelations of
    the source, and s those of `left` (what both pasts leave of the target, one row per target), where they are clearly
    not 0 and both of the same sign.

    Without it, independent series of persistence 0.95 would look linked in 9% of all cases at a level of 5%, and those
    with a season beyond the past that is looked at in half of them.
    """
    of_source = _autocorrelations(problem.series[link.source].values)
    of_target = _autocorrelations(problem.series[link.target].values)
    a, b = (float(np.clip(found[0], 0.0, 0.999)) for found in (of_source, of_target))
    unexplained = _autocorrelations(_on_grid(problem, left))
    clear = np.where(np.abs(unexplained) > _CLEAR / np.sqrt(problem.rows), unexplained * of_source, 0.0)
    return float(1 + 2 * (1 + 3 * b) / problem.rows * a / (1 - a * b) + 2 * np.maximum(clear, 0.0).sum())


def _on_grid(problem: CausalProblem, rows: FloatArray) -> FloatArray:
    """Put a value for each target at its time; NaN at other times."""
    made = np.full((len(problem.series[0]), rows.shape[1]), np.nan)
    made[problem.times] = rows
    return made


def spectral_line(values: FloatArray) -> float | None:
    r"""Return the frequency of a wave that stands out of what the last value leaves, in turns per step, or None.

    By Fisher's test: of m periodogram values of white noise the largest exceeds a share g of their sum with a
    probability of about :math:`m (1 - g)^{m - 1}`.
    """
    centred = np.nan_to_num(values - np.nanmean(values))
    before, now = centred[:-1], centred[1:]
    left = now - before * (before @ now) / (before @ before)
    power = np.abs(np.fft.rfft(left))[1 : (len(left) + 1) // 2] ** 2
    m, share = len(power), power.max() / max(float(power.sum()), np.finfo(float).tiny)
    if m * (1 - share) ** (m - 1) > _LINE:
        return None
    fine = np.abs(np.fft.rfft(left, 16 * len(left)))
    near = np.minimum(16 * (int(power.argmax()) + 1) + np.arange(-16, 17), len(fine) - 1)
    return float(near[int(fine[near].argmax())] / (16 * len(left)))


def has_trend(values: FloatArray) -> bool:
    """Whether time helps clearly to predict a series beyond its last value, linearly."""
    pairs = np.column_stack([np.ones(len(values) - 1), np.arange(len(values) - 1.0), values[:-1], values[1:]])
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    design = pairs[:, :3] - np.concatenate([[0.0], pairs[:, 1:3].mean(axis=0)])
    inverse = np.linalg.pinv(design.T @ design)
    slopes = inverse @ (design.T @ pairs[:, 3])
    noise = ((pairs[:, 3] - design @ slopes) ** 2).sum() / max(len(pairs) - 3, 1)
    return bool(np.abs(slopes[1]) > _TREND * np.sqrt(noise * inverse[1, 1]))


def _autocorrelations(values: FloatArray) -> FloatArray:
    """Autocorrelations at 1, 2, ... steps, up to a quarter of the times; of several columns the largest."""
    present = np.isfinite(values)
    centred = np.where(present, values - np.nanmean(values, axis=0), 0.0)
    steps = slice(1, max(2, len(values) // 4))
    products, both = (_lagged_products(part)[steps] for part in (centred, present.astype(np.float64)))
    return np.asarray((products / np.maximum(np.rint(both), 1) / np.nanvar(values, axis=0)).max(axis=1))


def _lagged_products(columns: FloatArray) -> FloatArray:
    """Return sums of products of values 0, 1, 2, ... steps apart; transforms of twice the length do not wrap."""
    n = len(columns)
    return np.fft.irfft(np.abs(np.fft.rfft(columns, 2 * n, axis=0)) ** 2, 2 * n, axis=0)[:n]


def widened(p: float, inflation: float) -> float:
    """Return the p-value of a normal statistic whose variance is larger than was thought."""
    from scipy.special import ndtr, ndtri

    return float(2 * ndtr(ndtri(p / 2) / np.sqrt(inflation)))
