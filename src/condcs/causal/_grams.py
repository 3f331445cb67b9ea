"""Gram matrices of targets and pasts, from one kernel per series."""

from __future__ import annotations

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._kernels.row_sums import exp_in_place
from condcs.causal._series import CausalProblem, Link


class DenseGrams:
    """Gram matrices of the first `rows` rows of a problem, shape (rows, rows), computed when first asked for.

    Parameters
    ----------
    problem : CausalProblem
        The series, the embedding and the targets.
    bandwidths : array, shape (variables,)
        Bandwidth of the Gaussian kernel on each series, in its unit.
    rows : int
        Number of rows.
    level : int
        How often all bandwidths are divided by sqrt(2).
    """

    def __init__(self, problem: CausalProblem, bandwidths: FloatArray, rows: int, level: int = 0) -> None:
        self.problem, self.rows, self._bandwidths, self._level = problem, rows, bandwidths, level
        self._pasts: dict[tuple[int, tuple[int, ...]], FloatArray] = {}

    def past(self, v: int, steps: tuple[int, ...]) -> FloatArray:
        """Gram matrix of the values of a series so many steps before the targets."""
        if (v, steps) not in self._pasts:
            # exp(-|a - b|^2 / (2 s^2)) with s = bandwidth / sqrt(2)^level
            scale = 2.0**self._level / (2 * self._bandwidths[v] ** 2)
            gram = self.exponents(self.problem.past(v, steps)[: self.rows], scale)
            exp_in_place(gram)
            self._pasts[v, steps] = gram
        return self._pasts[v, steps]

    def exponents(self, values: FloatArray, scale: float) -> FloatArray:
        """Squared distances between rows, times -scale; shape (rows, rows)."""
        negated_squares = np.zeros((len(values), len(values)))
        for column in values.T:
            negated_squares -= (column[:, None] - column) ** 2
        return negated_squares * scale

    def target(self, link: Link) -> FloatArray:
        """L: Gram matrix of the targets."""
        return self.past(link.target, (0,))

    def condition(self, link: Link) -> FloatArray:
        """K1: Gram matrix of what is conditioned on."""
        gram = self.past(link.target, self.problem.embedding.own_steps)
        for z in link.conditioning_set:
            gram = gram * self.past(z, self.problem.embedding.source_steps)
        return gram

    def source(self, link: Link) -> FloatArray:
        """K2: Gram matrix of the source's past."""
        return self.past(link.source, self.problem.embedding.source_steps)
