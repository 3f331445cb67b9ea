"""What a link is conditioned on beside its own past, and the memory that regressions on past values leave."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from condcs._core.arrays import BoolArray, FloatArray
from condcs._regression.smoother import Smoother
from condcs.causal._series import (
    CLEAR_CORRELATION,
    FEWEST_TARGETS,
    CausalProblem,
    Link,
    Series,
    level_and_steps,
    persistent_columns,
)

_LEAST_NOISE = 0.01
"""Share of the variance of a target, or of its steps if these vary less, that must be left unexplained for the test by
signs. The last value alone explains 99% of the variance of a persistent series, such as a random walk, whose noise is
in its steps; those of a chaotic map vary more than its values."""

_HELPFUL = 0.99
"""A series helps to predict a target if its last value reduces what is left unexplained to less than this share. A
smaller gain is not worth more inputs in the regressions of a link."""

_MOST_HELPERS = 2
"""Series that are looked for as helpers of a target: a link has one, and the first may be its source."""

_LARGEST_LINE_PVALUE = 1e-3
"""p-value up to which a wave stands out. Waves are looked for in every series, and one that is not there would add four
more inputs to the regressions of a link."""

_FINER_FREQUENCIES = 16
"""Frequencies that are tried for one of the periodogram. Waves of two series count as the same if they are at most half
a frequency of the periodogram apart, so the frequency of each must be known to a small part of one."""

_CLEAR_TREND = 4.0
"""Standard errors from which a slope in time is a trend; those of a random walk are seldom above 3.5."""

_LEAST_COVERAGE = 0.5
"""Share of a link's rows that must have a value for the link to be conditioned on it, too. What stabilises a test must
not cost it most of its rows: between pieces far apart a value so many steps back may exist for a few rows only."""

_LONGEST_SEASON = 0.25
"""Longest season that is looked for, as a share of the times with a target: an estimate needs several of them. Times
between pieces are not counted, so that a longer pause does not make room for longer seasons, which are shorter than the
longest piece in any case."""

_SHORTEST_PAUSE = 20
"""Times without a value, one after the other, that end a piece. Lost values and weekends of daily series do not: a
season goes on across them."""

_MOST_SMOOTHERS = 8
"""Sets of past values of which the regressions are kept: conditional links all have the same one."""

_LARGEST_PERSISTENCE = 0.999
"""Bound on autocorrelations at one step: at 1 the variance inflation would be infinite."""

_TINY = float(np.finfo(float).tiny)


PastIndices = tuple[tuple[int, int], ...]
"""Which past values: (series, steps before the target), in increasing order. Functions of time, whose present value is
known, count as series, too, with step 0."""


class _Regression(NamedTuple):
    """A target, or the step to it of a persistent series, regressed on past values."""

    residuals: FloatArray
    """One row per target, shape (rows, columns of the target); NaN where a past value is missing."""
    unexplained_share: float
    """Mean squared error of rows left out of the fit, over the variance of the target, or over that of its steps if
    that is less. Of several columns, the largest share."""


class Conditions:
    """What each link is conditioned on, and what regressions on past values leave of a target.

    Beside the target's own past and the series of its conditioning set, a link is conditioned on the third series that
    helps most to predict the target: a driver of the target is also known to the older past of what the target drives,
    so that without it the reverse of a true link would be significant. And on what time itself tells: the value of the
    target one season ago, if its own past leaves an autocorrelation there; and time, if source and target both have a
    trend, or waves in time, if both have a season of the same length. Noise hides the phase of a season that two series
    share; each would tell it the other.
    """

    def __init__(self, problem: CausalProblem) -> None:
        self.problem = problem
        # The series of the problem, and after them functions of time as they are needed, with their indices by name.
        self._variables = list(problem.series)
        # Which columns of each of these variables are persistent, as far as they were asked for.
        self._persistent: dict[int, BoolArray] = {}
        self._time_functions: dict[str, int] = {}
        self._smoothers: dict[PastIndices, tuple[BoolArray, Smoother | None]] = {}
        self._regressions: dict[tuple[int, PastIndices], _Regression] = {}
        self._helpers: dict[int, list[int]] = {}
        self._seasons: dict[int, tuple[int, ...]] = {}

    def of(self, link: Link) -> PastIndices:
        """Return the past values that a link is conditioned on."""
        steps = self.problem.embedding.source_steps
        indices = {*self._own_past(link.target), *((v, step) for v in link.conditioning_set for step in steps)}
        time_functions = set(self._shared_time_functions(link))
        helper = {(v, step) for v in self._helper(link) for step in steps}
        season = {(link.target, step) for step in self._season(link.target)}
        # Each is added if enough rows have its values together with those added before: a helper may be missing at many
        # times, and a season is not known of the first times of each piece. Functions of time cost no row.
        for extra in (time_functions, helper, season):
            if self._cover_enough_rows(indices | extra):
                indices |= extra
        return tuple(sorted(indices))

    def complete(self, indices: PastIndices) -> BoolArray:
        """Return which rows have all of these past values, shape (rows,)."""
        return np.asarray(np.isfinite(self.columns(indices)).all(axis=1))

    def _cover_enough_rows(self, indices: set[tuple[int, int]]) -> bool:
        """Whether enough rows have all of these values for a test to be conditioned on them."""
        rows = int(self.complete(tuple(sorted(indices))).sum())
        return rows >= max(FEWEST_TARGETS, _LEAST_COVERAGE * self.problem.rows)

    def columns(self, indices: PastIndices) -> FloatArray:
        """Return past values as columns, one row per target; of persistent series, their latest value and their steps.

        They are NaN before the first time and where not measured.
        """
        times = self.problem.times  # (rows,)
        blocks = []
        for v, of_variable in groupby(indices, key=lambda index: index[0]):
            pasts = []
            for _, step in of_variable:
                is_within = times >= step  # an index below 0 would take a value from the end of the series
                pasts.append(np.where(is_within[:, None], self._variables[v].values[times - step], np.nan))
            blocks.append(level_and_steps(pasts, self._persistent_columns(v)))
        return np.hstack(blocks)

    def source_past(self, link: Link) -> FloatArray:
        """Return the source's past as columns, one row per target; of a persistent one, its latest value and steps."""
        return self.columns(tuple((link.source, step) for step in self.problem.embedding.source_steps))

    def targets(self, target: int, indices: PastIndices) -> FloatArray:
        """Return the target, one row each; of a persistent one the step to it, if its last value is in the condition.

        Regressions shrink towards 0, that is towards the last value if steps are regressed.
        """
        y = self.problem.past(target, (0,))  # (rows, columns of the target)
        if (target, 1) not in indices:
            return y
        return np.where(self._persistent_columns(target), y - self.problem.past(target, (1,)), y)

    def _persistent_columns(self, v: int) -> BoolArray:
        """Return which columns of a series, or of a function of time, are persistent (columns,)."""
        if v not in self._persistent:
            self._persistent[v] = persistent_columns(self._variables[v].values)
        return self._persistent[v]

    def leave_noise(self, link: Link) -> bool:
        """Whether a regression leaves more than 1% of the variance of the target, or of its steps if these vary less.

        The regression is on the target's own past, and on the last values of the conditioning set and of the helper.
        """
        return self._unexplained_share(link.target, (*link.conditioning_set, *self._helper(link))) > _LEAST_NOISE

    def residuals(self, target: int, indices: PastIndices) -> FloatArray:
        """Return the residuals of the target regressed on past values; NaN where one of them is missing."""
        return self._regression(target, indices).residuals

    def _own_past(self, target: int) -> PastIndices:
        return tuple((target, step) for step in self.problem.embedding.own_steps)

    def _season(self, target: int) -> tuple[int, ...]:
        """Return the one step at which what the own past leaves of the target is most autocorrelated.

        None, as an empty tuple, if it is clearly autocorrelated nowhere. Only values of the same piece are compared.
        """
        if target not in self._seasons:
            problem, own_past = self.problem, self._own_past(target)
            unexplained, longest = _pieces_apart(problem, self.residuals(target, own_past))
            correlations, pairs = _autocorrelations(unexplained, longest)  # both (steps,)
            # In standard errors: a few pairs of values are correlated by chance.
            heights = np.where(correlations > 0, correlations, 0.0) * np.sqrt(pairs)  # (steps,)
            for step, pair_count in enumerate(pairs, start=1):
                if step in problem.embedding.own_steps or pair_count < _LEAST_COVERAGE * problem.rows:
                    heights[step - 1] = 0.0
            highest = int(np.argmax(heights))
            # The largest of so many is clear in as few series as a single one would be.
            clear = -ndtri(ndtr(-CLEAR_CORRELATION) / len(heights))
            self._seasons[target] = (highest + 1,) if heights[highest] > clear else ()
        return self._seasons[target]

    def _shared_time_functions(self, link: Link) -> PastIndices:
        """Return functions of time that source and target both follow: a trend, waves of a season and of half of it.

        Of series of several columns, the first is looked at.
        """
        source = self.problem.series[link.source].values[:, 0]  # (times,)
        target = self.problem.series[link.target].values[:, 0]
        n = len(target)
        functions: PastIndices = ()
        if has_trend(source) and has_trend(target):
            functions += self._time_function("trend", np.arange(n) / n)
        source_frequency, target_frequency = spectral_line(source), spectral_line(target)
        # The same wave: at most half a frequency of the periodogram, 1 / n, apart.
        if (
            source_frequency is not None
            and target_frequency is not None
            and abs(source_frequency - target_frequency) <= 1 / (2 * n)
        ):
            angles = 2 * np.pi * target_frequency * np.arange(n)
            for k in (1, 2):
                functions += self._time_function(f"{k} sin {target_frequency}", np.sin(k * angles))
                functions += self._time_function(f"{k} cos {target_frequency}", np.cos(k * angles))
        return functions

    def _time_function(self, name: str, values: FloatArray) -> PastIndices:
        """Return the index of a function of time, which becomes one more series when it is first asked for."""
        if name not in self._time_functions:
            self._time_functions[name] = len(self._variables)
            self._variables.append(Series(name, values[:, None]))
        return ((self._time_functions[name], 0),)

    def _helper(self, link: Link) -> tuple[int, ...]:
        """Return the third series that helps most to predict the target; an empty tuple if none does."""
        third_series = set(range(len(self.problem.series))) - {link.source, link.target, *link.conditioning_set}
        if not third_series:
            return ()  # without any regression
        return tuple(v for v in self._helpers_of(link.target) if v in third_series)[:1]

    def _helpers_of(self, target: int) -> list[int]:
        """Return the series whose last values help most, if they do, at most two: one of them may be the source."""
        if target not in self._helpers:
            helpers: list[int] = []
            others = [v for v in range(len(self.problem.series)) if v != target]
            while others and len(helpers) < _MOST_HELPERS:
                unexplained = self._unexplained_share(target, tuple(helpers))
                shares = {v: self._unexplained_share(target, (*helpers, v)) for v in others}
                best = min(others, key=lambda v: shares[v])
                if unexplained <= _LEAST_NOISE or shares[best] >= _HELPFUL * unexplained:
                    break
                helpers.append(best)
                others.remove(best)
            self._helpers[target] = helpers
        return self._helpers[target]

    def _unexplained_share(self, target: int, others: tuple[int, ...]) -> float:
        """Return the share of the target that its own past and the last values of other series do not explain."""
        last_values = ((v, 1) for v in others)
        indices = tuple(sorted({*self._own_past(target), *last_values}))
        return self._regression(target, indices).unexplained_share

    def _regression(self, target: int, indices: PastIndices) -> _Regression:
        """Regress the target on past values; without enough complete rows, all of it is left unexplained."""
        if (target, indices) not in self._regressions:
            complete, smoother = self._smoother(indices)
            y = self.problem.past(target, (0,))  # (rows, columns of the target)
            residuals, share = np.full_like(y, np.nan), 1.0
            if smoother is not None:
                residuals[complete], left_out_errors = smoother.residuals(self.targets(target, indices)[complete])
                steps = y - self.problem.past(target, (1,))
                varying = np.minimum(y[complete].var(axis=0), steps[complete].var(axis=0))
                # A series that only repeats its last value has no noise; the fit is exact up to rounding.
                shares = (left_out_errors**2).mean(axis=0) / np.maximum(varying, _TINY)
                share = float(np.max(shares))
            self._regressions[target, indices] = _Regression(residuals, share)
        return self._regressions[target, indices]

    def _smoother(self, indices: PastIndices) -> tuple[BoolArray, Smoother | None]:
        """Return which rows have all past values, and regressions on these, or None for want of rows."""
        if indices not in self._smoothers:
            inputs, complete = self.columns(indices), self.complete(indices)
            enough = complete.sum() >= FEWEST_TARGETS
            smoother = Smoother(inputs[complete], (False,) * inputs.shape[1]) if enough else None
            # Only the latest are kept, for their size. Dictionaries are in the order of filling: the first is the
            # oldest.
            if len(self._smoothers) == _MOST_SMOOTHERS:
                del self._smoothers[next(iter(self._smoothers))]
            self._smoothers[indices] = complete, smoother
        return self._smoothers[indices]


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
    of_source, _ = _autocorrelations(problem.series[link.source].values, longest)  # r_k, shape (steps,)
    of_target, _ = _autocorrelations(problem.series[link.target].values, longest)
    of_residuals, pairs = _autocorrelations(_at_target_times(problem, residuals), longest)  # s_k

    a = float(np.clip(of_source[0], 0.0, _LARGEST_PERSISTENCE))
    b = float(np.clip(of_target[0], 0.0, _LARGEST_PERSISTENCE))
    by_persistence = 2 * (1 + 3 * b) / problem.rows * a / (1 - a * b)

    # r_k s_k where s_k is clearly not 0; products of opposite signs would narrow, and count as 0.
    is_clear = np.abs(of_residuals) * np.sqrt(pairs) > CLEAR_CORRELATION
    products = np.where(is_clear, of_residuals * of_source, 0.0)
    by_seasons = 2 * np.maximum(products, 0.0).sum()
    return float(1 + by_persistence + by_seasons)


def inflated_pvalue(p: float, inflation: float) -> float:
    """Return the two-sided p-value of a normal statistic whose variance is larger than was thought by a factor."""
    return float(2 * ndtr(ndtri(p / 2) / np.sqrt(inflation)))


def _at_target_times(problem: CausalProblem, rows: FloatArray) -> FloatArray:
    """Put a value for each target at its time; NaN at other times."""
    grid_values = np.full((len(problem.series[0]), rows.shape[1]), np.nan)
    grid_values[problem.times] = rows
    return grid_values


def _pieces_apart(problem: CausalProblem, rows: FloatArray) -> tuple[FloatArray, int]:
    """Put a value for each target on a grid on which the pieces are too far apart for a season to join them.

    Return also the number of steps below which seasons are looked for: no season is as long as the longest piece. What
    a value has in common with one of an earlier piece may be due to the choice of the pieces.
    """
    times = problem.times  # (rows,)
    # Each hole also takes as many targets as the past is long.
    skipped = np.diff(times, prepend=times[0] - 1) - 1  # (rows,)
    piece = np.cumsum(skipped >= _SHORTEST_PAUSE + problem.embedding.reach)  # (rows,), from 0
    first_rows = np.flatnonzero(np.diff(piece, prepend=-1))
    last_rows = np.append(first_rows[1:], len(times)) - 1
    longest_piece = int((times[last_rows] - times[first_rows] + 1).max())
    longest = max(2, min(_longest_season(problem), longest_piece))

    grid_values = np.full((len(problem.series[0]) + longest * int(piece[-1]), rows.shape[1]), np.nan)
    grid_values[times + longest * piece] = rows
    return grid_values, longest


def spectral_line(values: FloatArray) -> float | None:
    r"""Return the frequency of a wave that stands out of what the last value leaves, in turns per step, or None.

    By Fisher's test: of m periodogram values of white noise the largest exceeds a share g of their sum with a
    probability of about :math:`m (1 - g)^{m - 1}`.
    """
    centred = np.nan_to_num(values - np.nanmean(values))
    previous, current = centred[:-1], centred[1:]
    residuals = current - previous * (previous @ current) / (previous @ previous)
    n = len(residuals)
    # The periodogram without frequency 0 and without the highest one, which an even length has.
    power = np.abs(np.fft.rfft(residuals))[1 : (n + 1) // 2] ** 2
    m = len(power)
    g = power.max() / max(float(power.sum()), _TINY)
    if m * (1 - g) ** (m - 1) > _LARGEST_LINE_PVALUE:
        return None
    # The largest of finer frequencies, up to one frequency of the periodogram away from its own largest.
    finer_spectrum = np.abs(np.fft.rfft(residuals, _FINER_FREQUENCIES * n))
    peak = _FINER_FREQUENCIES * (int(power.argmax()) + 1)  # + 1: `power` leaves out frequency 0
    around_peak = peak + np.arange(-_FINER_FREQUENCIES, _FINER_FREQUENCIES + 1)
    candidates = np.minimum(around_peak, len(finer_spectrum) - 1)
    finer_peak = candidates[int(finer_spectrum[candidates].argmax())]
    return float(finer_peak / (_FINER_FREQUENCIES * n))


def has_trend(values: FloatArray) -> bool:
    """Whether time helps clearly to predict a series beyond its last value, linearly."""
    n = len(values) - 1
    rows = np.column_stack([np.ones(n), np.arange(float(n)), values[:-1], values[1:]])
    rows = rows[np.isfinite(rows).all(axis=1)]
    inputs, y = rows[:, :3], rows[:, 3]  # inputs: 1, time, last value
    # Centred, time and last value are orthogonal to the 1.
    design = inputs - np.concatenate([[0.0], inputs[:, 1:].mean(axis=0)])
    inverse = np.linalg.pinv(design.T @ design)
    slopes = inverse @ (design.T @ y)
    noise = ((y - design @ slopes) ** 2).sum() / max(len(y) - 3, 1)
    slope_in_time, variance = slopes[1], noise * inverse[1, 1]
    return bool(np.abs(slope_in_time) > _CLEAR_TREND * np.sqrt(variance))


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
    products = _lagged_products(centred)[steps]  # (steps, columns)
    pairs = np.rint(_lagged_products(present.astype(np.float64))[steps])  # whole numbers but for rounding
    correlations = products / np.maximum(pairs, 1) / np.nanvar(values, axis=0)
    return correlations.max(axis=1), pairs.min(axis=1)


def _lagged_products(columns: FloatArray) -> FloatArray:
    """Return sums of products of values 0, 1, 2, ... steps apart, shape (n, columns): row k is for k steps."""
    n = len(columns)
    # The inverse transform of the power spectrum; that of twice the length does not wrap the end round to the start.
    power = np.abs(np.fft.rfft(columns, 2 * n, axis=0)) ** 2
    return np.fft.irfft(power, 2 * n, axis=0)[:n]
