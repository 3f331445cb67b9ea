"""What a link is conditioned on beside its own past, and the memory that regressions on past values leave."""

from __future__ import annotations

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray
from condcs._regression.smoother import Smoother
from condcs.causal._series import FEWEST_ROWS, CausalProblem, Link, Series

_LEAST_NOISE = 0.01
"""Share of the variance of a target, or of its steps if these vary less, that must be left unexplained for the test by
signs. The last value alone explains 99% of the variance of a persistent series, such as a random walk, whose noise is
in its steps; those of a chaotic map vary more than its values."""

_HELPFUL = 0.99
"""A series helps to predict a target if its last value reduces what is left unexplained by this factor."""

_CLEAR = 3.0
"""Standard errors from which an autocorrelation is clearly not 0: of a hundred that are 0, fewer than one exceeds
it."""

_LINE = 1e-3
"""p-value up to which a wave stands out. Waves are looked for in every series, and one that is not there would add four
more inputs to the regressions of a link."""

_FINER_FREQUENCIES = 16
"""Frequencies that are tried for one of the periodogram. Waves of two series count as the same if they are at most half
a frequency of the periodogram apart, so the frequency of each must be known to a small part of one."""

_TREND = 4.0
"""Standard errors from which a slope in time is a trend; those of a random walk are seldom above 3.5."""

_FEWEST_KEPT = 0.5
"""Share of a link's rows that must remain for it to be conditioned on one value more. What stabilises a test must not
cost it most of its rows: between pieces far apart a value so many steps back may exist for a few rows only."""

_LONGEST_SEASON = 0.25
"""Longest season that is looked for, as a share of the times with a target: an estimate needs several of them. Times
between pieces are not counted, so that a longer pause does not make room for longer seasons."""

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
        self._regressions: dict[tuple[int, Values], tuple[FloatArray, float]] = {}
        self._helpers: dict[int, list[int]] = {}
        self._seasons: dict[int, tuple[int, ...]] = {}

    def of(self, link: Link) -> Values:
        """Return the past values that a link is conditioned on."""
        steps = self.problem.embedding.source_steps
        values = {*self._own_past(link.target), *((v, step) for v in link.conditioning_set for step in steps)}
        helper = {(v, step) for v in self._helper(link) for step in steps}
        season = {(link.target, step) for step in self._season(link.target)}
        shared = set(self._shared_by_time(link))
        # A helper may be missing at many times, and a season is not known of the first times of each piece.
        for extra in (shared, helper, season):
            if self._supports(values | extra):
                values |= extra
        return tuple(sorted(values))

    def complete(self, values: Values) -> BoolArray:
        """Return which rows have all of these past values."""
        return np.asarray(np.isfinite(self.columns(values)).all(axis=1))

    def _supports(self, values: set[tuple[int, int]]) -> bool:
        """Whether enough rows have all of these values for a test to be conditioned on them."""
        rows = int(self.complete(tuple(values)).sum())
        return rows >= max(FEWEST_ROWS, _FEWEST_KEPT * self.problem.rows)

    def columns(self, values: Values) -> FloatArray:
        """Return past values as columns; NaN before the first time and where not measured."""
        times = self.problem.times
        return np.hstack(
            [np.where((times >= step)[:, None], self._series[v].values[times - step], np.nan) for v, step in values]
        )

    def leave_noise(self, link: Link) -> bool:
        """Whether more than 1% of what varies in the target is left by what the link is conditioned on."""
        return self._share(link.target, (*link.conditioning_set, *self._helper(link))) > _LEAST_NOISE

    def residuals(self, target: int, values: Values) -> FloatArray:
        """Return the residuals of the target regressed on past values; NaN where one of them is missing."""
        return self._regressed(target, values)[0]

    def _own_past(self, target: int) -> Values:
        return tuple((target, step) for step in self.problem.embedding.own_steps)

    def _season(self, target: int) -> tuple[int, ...]:
        """Return the step at which what the own past leaves of the target is autocorrelated most, if it clearly is."""
        if target not in self._seasons:
            problem, own_past = self.problem, self._own_past(target)
            unexplained = _at_target_times(problem, self.residuals(target, own_past))
            correlations, pairs = _autocorrelations(unexplained, _longest_season(problem))  # both (steps,)
            # In standard errors: a few pairs of values are correlated by chance.
            heights = np.where(correlations > 0, correlations, 0.0) * np.sqrt(pairs)
            for step, pair_count in enumerate(pairs, start=1):
                if step in problem.embedding.own_steps or pair_count < _FEWEST_KEPT * problem.rows:
                    heights[step - 1] = 0.0
            best = int(np.argmax(heights))
            self._seasons[target] = (best + 1,) if heights[best] > _CLEAR else ()
        return self._seasons[target]

    def _shared_by_time(self, link: Link) -> Values:
        """Return functions of time that source and target both follow: a trend, waves of a season and of half of it."""
        source, target = (self.problem.series[v].values[:, 0] for v in link[:2])
        n = len(target)
        functions: Values = ()
        if has_trend(source) and has_trend(target):
            functions += self._function("trend", np.arange(n) / n)
        lines = spectral_line(source), spectral_line(target)
        if lines[0] is not None and lines[1] is not None and abs(lines[0] - lines[1]) <= 1 / (2 * n):
            turns = 2 * np.pi * lines[1] * np.arange(n)
            for k in (1, 2):
                functions += self._function(f"{k} sin {lines[1]}", np.sin(k * turns))
                functions += self._function(f"{k} cos {lines[1]}", np.cos(k * turns))
        return functions

    def _function(self, name: str, values: FloatArray) -> Values:
        """Take a function of time as one more series, whose present value is known."""
        names = [one.name for one in self._series[len(self.problem.series) :]]
        if name not in names:
            self._series.append(Series(name, values[:, None]))
            names.append(name)
        return ((len(self.problem.series) + names.index(name), 0),)

    def _helper(self, link: Link) -> tuple[int, ...]:
        """Return the third series that helps most to predict the target, if one does."""
        others = set(range(len(self.problem.series))) - {link.source, link.target, *link.conditioning_set}
        return tuple(v for v in self._helpers_of(link.target) if v in others)[:1] if others else ()

    def _helpers_of(self, target: int) -> list[int]:
        """Return the two series whose last values help most, if they do: one of them may be the source itself."""
        if target not in self._helpers:
            chosen: list[int] = []
            others = [v for v in range(len(self.problem.series)) if v != target]
            while others and len(chosen) < 2:
                unexplained = self._share(target, tuple(chosen))
                best = min(others, key=lambda v: self._share(target, (*chosen, v)))
                if unexplained <= _LEAST_NOISE or self._share(target, (*chosen, best)) >= _HELPFUL * unexplained:
                    break
                chosen.append(best)
                others.remove(best)
            self._helpers[target] = chosen
        return self._helpers[target]

    def _share(self, target: int, others: tuple[int, ...]) -> float:
        return self._regressed(target, tuple(sorted({*self._own_past(target), *((v, 1) for v in others)})))[1]

    def _smoother(self, values: Values) -> tuple[BoolArray, Smoother | None]:
        """Return which rows have all values, and regressions on these; only the latest are kept, for their size."""
        if values not in self._smoothers:
            inputs, complete = self.columns(values), self.complete(values)
            enough = complete.sum() >= FEWEST_ROWS
            smoother = Smoother(inputs[complete], (False,) * inputs.shape[1]) if enough else None
            # Dictionaries keep the order in which they were filled: the first entry is the oldest.
            if len(self._smoothers) == _MOST_SMOOTHERS:
                del self._smoothers[next(iter(self._smoothers))]
            self._smoothers[values] = complete, smoother
        return self._smoothers[values]

    def _regressed(self, target: int, values: Values) -> tuple[FloatArray, float]:
        """Return the residuals of the target regressed on past values, and the share of variance left unexplained.

        The share is the mean squared error of rows left out of the fit, over the variance of the target, or over that
        of its steps if that is less. Of several columns, the largest share.
        """
        if (target, values) not in self._regressions:
            complete, smoother = self._smoother(values)
            y = self.problem.past(target, (0,))
            residuals, share = np.full_like(y, np.nan), 1.0
            if smoother is not None:
                residuals[complete], left_out_errors = smoother.residuals(y[complete])
                steps = y - self.problem.past(target, (1,))
                varying = np.minimum(y[complete].var(axis=0), steps[complete].var(axis=0))
                # A series that only repeats its last value has no noise; the fit is exact up to rounding.
                shares = (left_out_errors**2).mean(axis=0) / np.maximum(varying, np.finfo(float).tiny)
                share = float(np.max(shares))
            self._regressions[target, values] = residuals, share
        return self._regressions[target, values]


def variance_inflation(problem: CausalProblem, link: Link, residuals: FloatArray) -> float:
    r"""Return the factor by which the memory of both series widens sums of products of their residuals.

    A regression of a series of persistence b (its autocorrelation at one step) on its past underestimates b by
    :math:`(1 + 3 b) / n` on average (Kendall 1954). What it leaves is therefore autocorrelated, and so is the past of a
    source of persistence a: the variance of the sum of their products is larger than that of independent products by
    the first two terms of

    .. math:: 1 + \frac{2 (1 + 3 b)}{n} \frac{a}{1 - a b} + 2 \sum_k r_k s_k.

    The last term is for what the past that is looked at does not explain, such as seasons: r are autocorrelations of
    the source, and s those of `residuals` (what both pasts leave of the target, one row per target), where they are
    clearly not 0 and both of the same sign.

    Without it, independent series of persistence 0.95 would look linked in 9% of all cases at a level of 5%, and those
    with a season beyond the past that is looked at in half of them.
    """
    longest = _longest_season(problem)
    of_source, _ = _autocorrelations(problem.series[link.source].values, longest)
    of_target, _ = _autocorrelations(problem.series[link.target].values, longest)
    # Persistence a and b; below 1, where the factor 1 / (1 - a b) would be infinite.
    a, b = (float(np.clip(correlations[0], 0.0, 0.999)) for correlations in (of_source, of_target))
    unexplained, pairs = _autocorrelations(_at_target_times(problem, residuals), longest)
    by_persistence = 2 * (1 + 3 * b) / problem.rows * a / (1 - a * b)
    # r_k s_k where s_k is clearly not 0; products of opposite signs would narrow, and count as 0.
    products = np.where(np.abs(unexplained) * np.sqrt(pairs) > _CLEAR, unexplained * of_source, 0.0)
    by_seasons = 2 * np.maximum(products, 0.0).sum()
    return float(1 + by_persistence + by_seasons)


def _at_target_times(problem: CausalProblem, rows: FloatArray) -> FloatArray:
    """Put a value for each target at its time; NaN at other times."""
    grid_values = np.full((len(problem.series[0]), rows.shape[1]), np.nan)
    grid_values[problem.times] = rows
    return grid_values


def spectral_line(values: FloatArray) -> float | None:
    r"""Return the frequency of a wave that stands out of what the last value leaves, in turns per step, or None.

    By Fisher's test: of m periodogram values of white noise the largest exceeds a share g of their sum with a
    probability of about :math:`m (1 - g)^{m - 1}`.
    """
    centred = np.nan_to_num(values - np.nanmean(values))
    previous, current = centred[:-1], centred[1:]
    residuals = current - previous * (previous @ current) / (previous @ previous)
    # The periodogram without frequency 0 and without the highest one, which an even length has.
    power = np.abs(np.fft.rfft(residuals))[1 : (len(residuals) + 1) // 2] ** 2
    m, share = len(power), power.max() / max(float(power.sum()), np.finfo(float).tiny)
    if m * (1 - share) ** (m - 1) > _LINE:
        return None
    # The largest of finer frequencies, up to one frequency of the periodogram away from its own largest.
    finer = _FINER_FREQUENCIES
    spectrum = np.abs(np.fft.rfft(residuals, finer * len(residuals)))
    highest = finer * (int(power.argmax()) + 1)  # + 1: `power` leaves out frequency 0
    near = np.minimum(highest + np.arange(-finer, finer + 1), len(spectrum) - 1)
    return float(near[int(spectrum[near].argmax())] / (finer * len(residuals)))


def has_trend(values: FloatArray) -> bool:
    """Whether time helps clearly to predict a series beyond its last value, linearly."""
    pairs = np.column_stack([np.ones(len(values) - 1), np.arange(len(values) - 1.0), values[:-1], values[1:]])
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    # Columns: 1, time, last value, value. Centred, the second and third are orthogonal to the first.
    design = pairs[:, :3] - np.concatenate([[0.0], pairs[:, 1:3].mean(axis=0)])
    inverse = np.linalg.pinv(design.T @ design)
    slopes = inverse @ (design.T @ pairs[:, 3])
    noise = ((pairs[:, 3] - design @ slopes) ** 2).sum() / max(len(pairs) - 3, 1)
    return bool(np.abs(slopes[1]) > _TREND * np.sqrt(noise * inverse[1, 1]))


def _longest_season(problem: CausalProblem) -> int:
    """Return the number of steps below which seasons are looked for; at least 2."""
    start = max(problem.first, problem.embedding.reach)  # times without a past, if nothing is missing
    return max(2, int(_LONGEST_SEASON * (problem.rows + start)))


def _autocorrelations(values: FloatArray, longest: int) -> tuple[FloatArray, FloatArray]:
    """Return autocorrelations at 1, 2, ... steps, below `longest`, and how many pairs of values each of them rests on.

    Of several columns, the largest autocorrelation and the fewest pairs.
    """
    present = np.isfinite(values)  # (times, columns)
    centred = np.where(present, values - np.nanmean(values, axis=0), 0.0)
    steps = slice(1, longest)
    products = _lagged_products(centred)[steps]
    pairs = np.rint(_lagged_products(present.astype(np.float64))[steps])  # whole numbers but for rounding
    correlations = products / np.maximum(pairs, 1) / np.nanvar(values, axis=0)
    return correlations.max(axis=1), pairs.min(axis=1)


def _lagged_products(columns: FloatArray) -> FloatArray:
    """Return sums of products of values 0, 1, 2, ... steps apart; transforms of twice the length do not wrap."""
    n = len(columns)
    return np.fft.irfft(np.abs(np.fft.rfft(columns, 2 * n, axis=0)) ** 2, 2 * n, axis=0)[:n]


def widened(p: float, inflation: float) -> float:
    """Return the p-value of a normal statistic whose variance is larger than was thought."""
    from scipy.special import ndtr, ndtri

    return float(2 * ndtr(ndtri(p / 2) / np.sqrt(inflation)))
