r"""Kernel widths of the causal score, found without knowing the graph.

A width too large smooths the target's own past: then the past of any related series sharpens it again, and the reverse
of a true link looks significant. A width too small leaves rows without neighbours, and nothing is found. What decides
is therefore prediction, and that can be measured: the width is chosen by the leave-one-out likelihood of the target
given both pasts, with the source turned round in time so that it says nothing. The link itself is never looked at,
which leaves the test valid; and the width narrows by itself with more samples, fewer dimensions or less noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs.causal.problem import CausalProblem, Link
from condcs.causal.series import FloatArray
from condcs.core.checks import check_positive
from condcs.core.errors import BandwidthError
from condcs.kernels.bandwidths import bandwidth as median_width
from condcs.kernels.row_sums import exp_in_place

RULES = ("predictive", "median")

WIDEST = 2.0
"""Largest width tried, in medians of the distance between two values of the series; each next one is smaller by
sqrt(2), so that its kernel is the square of the one before."""

LEVELS = 12
"""Number of widths tried: down to 1/22 of the median."""

SHIFTS = 8
"""Number of turns of the source, evenly spaced."""

ROWS = 1024
"""Most rows that the choice looks at: the first ones."""

PSEUDO_COUNT = 0.1
"""Weight of the marginal distribution in each prediction, in neighbours: a row without any is predicted by it."""


def base_widths(problem: CausalProblem, bandwidth: Any) -> tuple[FloatArray, bool]:
    """Return the width of each series, in its unit, and whether the predictive rule has yet to narrow it."""
    if isinstance(bandwidth, str):
        if bandwidth not in RULES:
            raise BandwidthError(
                f"`bandwidth` must be a positive number or one of the rules 'predictive', 'median', got {bandwidth!r}. "
                'Pass bandwidth="predictive".'
            )
        medians = np.array([float(median_width(s.values, rule="joint_median")) for s in problem.series])
        return (WIDEST * medians, True) if bandwidth == "predictive" else (medians, False)
    return np.array([width_in_unit(bandwidth, s.exponent) for s in problem.series]), False


def width_in_unit(bandwidth: Any, exponent: int) -> Any:
    """Express a width that was given as a number in units of 2**exponent; leave the name of a rule alone."""
    if isinstance(bandwidth, str):
        return bandwidth
    # Beyond these bounds every kernel value is 1, or 0, and squares would leave the range of a double.
    with np.errstate(over="ignore"):
        return float(np.clip(np.ldexp(check_positive("bandwidth", bandwidth), -exponent), 2.0**-500, 2.0**500))


def chosen_levels(problem: CausalProblem, widths: FloatArray) -> np.ndarray[Any, Any]:
    """Choose, for each link, how often the widest width is divided by sqrt(2)."""
    rows = min(problem.rows, ROWS)
    grams = DenseGrams(problem, widths, rows)
    return np.array([int(np.argmax(predictive_likelihoods(grams, link))) for link in problem.links])


def predictive_likelihoods(grams: DenseGrams, link: Link) -> FloatArray:
    r"""Return the mean leave-one-out log-likelihood of the target at each level, up to a constant.

    .. math:: \ell(\sigma) = \frac{1}{n} \sum_j \log \frac{B^{12}_j - 1 + \epsilon m}{A^{12}_j - 1 + \epsilon}
              - d_y \log \sigma

    with row sums as in `condcs.conditional_cs_predictors`, m the mean of L, averaged over the turns of the source.
    """
    from condcs.causal.compiled import reordered_sums

    n = grams.rows
    shifts = (np.arange(1, SHIFTS + 1) * n) // (SHIFTS + 1)
    orders = (np.arange(n) + shifts[:, None]) % n
    K1, L = grams.condition(link), grams.target(link)
    sums = reordered_sums(K1, K1 * L, grams.source(link), orders, LEVELS) - 1.0
    # Rounding may leave a row without neighbours a hair below 0.
    A, B = np.maximum(sums[:, :, 0], 0.0), np.maximum(sums[:, :, 1], 0.0)
    marginal = np.empty((LEVELS, 1))
    for level in range(LEVELS):
        marginal[level] = max((float(L.sum()) - n) / (n * (n - 1)), np.finfo(float).tiny)
        L = L * L
    fit = np.log(B + PSEUDO_COUNT * marginal) - np.log(A + PSEUDO_COUNT)
    columns = grams.problem.series[link.target].values.shape[1]
    return np.asarray(fit.mean(axis=(0, 2)) + columns * np.log(2.0) / 2 * np.arange(LEVELS))


class DenseGrams:
    """One Gram matrix per series; pasts and targets are products of its sub-blocks."""

    def __init__(self, problem: CausalProblem, widths: FloatArray, rows: int, levels: int = 0) -> None:
        self.problem, self.rows, self._widths, self._levels = problem, rows, widths, levels
        self._grams: dict[int, FloatArray] = {}
        self._pasts: dict[tuple[int, tuple[int, ...]], FloatArray] = {}

    def _gram(self, v: int) -> FloatArray:
        if v not in self._grams:
            values = self.problem.series[v].values[: self.problem.embedding.reach + self.rows]
            gram = np.zeros((len(values), len(values)))
            for column in values.T:
                gram -= (column[:, None] - column) ** 2
            gram *= 2.0**self._levels / (2 * self._widths[v] ** 2)
            exp_in_place(gram)
            self._grams[v] = gram
        return self._grams[v]

    def shifted(self, v: int, steps: int) -> FloatArray:
        """Gram matrix of the values so many steps before the targets."""
        start = self.problem.embedding.reach - steps
        return self._gram(v)[start : start + self.rows, start : start + self.rows]

    def past(self, v: int, steps: tuple[int, ...]) -> FloatArray:
        """Gram matrix of past values: the product of the shifted ones."""
        if (v, steps) not in self._pasts:
            made = self.shifted(v, steps[0]).copy()
            for s in steps[1:]:
                made *= self.shifted(v, s)
            self._pasts[v, steps] = made
        return self._pasts[v, steps]

    def forget(self, v: int) -> None:
        """Free the matrices of a series."""
        self._grams.pop(v, None)
        self._pasts = {key: made for key, made in self._pasts.items() if key[0] != v}

    def target(self, link: Link) -> FloatArray:
        """Gram matrix of the targets."""
        return self.shifted(link.target, 0)

    def condition(self, link: Link) -> FloatArray:
        """Gram matrix of what is conditioned on."""
        made = self.past(link.target, self.problem.embedding.own_steps)
        for z in link.given:
            made = made * self.past(z, self.problem.embedding.source_steps)
        return made

    def source(self, link: Link) -> FloatArray:
        """Gram matrix of the source's past."""
        return self.past(link.source, self.problem.embedding.source_steps)
