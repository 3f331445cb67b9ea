"""Results of tests: frozen, with everything that was used, and able to say how sure the statistic itself is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from condcs.core.checks import check_integer
from condcs.core.errors import ParameterError, public
from condcs.core.random import check_rng

FloatArray = np.ndarray[Any, Any]

TIE = 1e-10
"""Resampled values this close to the statistic count as reaching it."""


class ConfidenceInterval(NamedTuple):
    """Ends of a confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class TestResult:
    """Outcome of a resampling test.

    Attributes
    ----------
    statistic : float
        The measure on the samples as given (summed over pairs of groups where there are more than two).
    pvalue : float
        (1 + number of resampled values that reach the statistic) / (1 + number of resamples): never 0.
    null_distribution : array
        The resampled values.
    measure, null : str
        What was compared, and how labels were redrawn.
    sizes : tuple of int
        Rows of each sample.
    bandwidths : dict
        Widths in force, per column.
    details : dict
        Anything else that was used or found: with ``bandwidth="aggregate"`` the multiples of the median widths, and the
        value and p-value at each.
    """

    __test__ = False  # not a test case, whatever pytest makes of the name

    statistic: float
    pvalue: float
    null_distribution: FloatArray = field(repr=False)
    measure: str
    null: str
    sizes: tuple[int, ...]
    bandwidths: dict[str, FloatArray] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    _resample: Callable[[np.random.Generator, int], FloatArray] | None = field(default=None, repr=False, compare=False)

    @property
    def n_resamples(self) -> int:
        """Number of resamples."""
        return len(self.null_distribution)

    @public
    def confidence_interval(
        self, level: float = 0.95, *, n_resamples: int = 200, rng: int | np.random.Generator | None = None
    ) -> ConfidenceInterval:
        """Bootstrap interval of the divergence itself.

        Rows are drawn again with replacement within each sample, widths kept. The interval is the basic (reflected)
        one: resampled divergences lie above the estimate by about as much as the estimate lies above the truth, because
        repeated rows look alike; reflection takes that bias out. Measures that are never negative are cut off at 0.

        Parameters
        ----------
        level : float
            Coverage aimed at.
        n_resamples : int
            Bootstrap samples.
        rng : int or Generator, optional
            Seed.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``.
        """
        if not isinstance(level, float) or not 0 < level < 1:
            raise ParameterError(f"`level` must lie between 0 and 1, got {level!r}. Pass e.g. level=0.95.")
        check_integer("n_resamples", n_resamples, 20)
        if self._resample is None:
            raise ParameterError(
                f"`confidence_interval` is not defined for {self.details.get('bandwidth', 'this test')!r}."
            )
        generator = check_rng(rng)
        values = self._resample(generator, n_resamples)
        low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
        reflected = 2 * self.statistic - np.array([high, low])
        floor = 0.0 if self.details.get("nonnegative") else -np.inf
        return ConfidenceInterval(float(max(reflected[0], floor)), float(max(reflected[1], floor)))


def pvalue(statistic: float, null_distribution: FloatArray) -> float:
    """Return (1 + #{null >= statistic}) / (1 + P), ties within 1e-10 counted."""
    return float((1 + np.sum(null_distribution >= statistic - TIE)) / (1 + len(null_distribution)))
