r"""The formulas as the sampled supplier sees them: what a row adds to each sum, and the divergence of the sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from condcs._core.arrays import NUMPY
from condcs._core.groups import Groups
from condcs._measures.formulas import (
    checked_overlap,
    conditional_terms,
    contrast,
    log_totals,
    pooled_terms,
    predictor_terms,
)

FloatArray = np.ndarray[Any, Any]


class RowSums(Protocol):
    r"""A divergence :math:`D = c + \sum_k a_k \phi(S_k)` of sums over rows, :math:`\phi` a logarithm or nothing."""

    @property
    def coefficients(self) -> FloatArray:
        """The numbers a (K)."""
        ...

    @property
    def logs(self) -> bool:
        """Whether the function of a sum is its logarithm."""
        ...

    def added(self, log_sums: FloatArray, log_weights: FloatArray, group: int) -> FloatArray:
        """Return what rows of a group add to the sums (rows x K), from their log masses (products x rows x G)."""
        ...

    def value(self, sums: FloatArray) -> float:
        """Return D."""
        ...


@dataclass(frozen=True)
class ConditionalSums:
    """Prop. 2: four sums, T[p,p], T[p,q], T[q,p], T[q,q]."""

    estimator: str = "paper"
    logs = True

    @property
    def coefficients(self) -> FloatArray:
        """Derivatives of the divergence by the logarithms of the sums."""
        return np.array({"paper": [1, -1, -1, 1], "p": [1, -2, 0, 1], "q": [1, 0, -2, 1]}[self.estimator], float)

    def added(self, log_sums: FloatArray, log_weights: FloatArray, group: int) -> FloatArray:
        """Return what rows of a group add to the sums."""
        log_a, log_b = _present(log_sums)
        added = np.zeros((len(log_weights), 4))
        terms = conditional_terms(log_b - log_a, log_a[:, group : group + 1])
        added[:, 2 * group : 2 * group + 2] = np.exp(terms + log_weights[:, None])
        return added

    def value(self, sums: FloatArray) -> float:
        """Return the divergence."""
        with np.errstate(divide="ignore"):
            log_t = checked_overlap(NUMPY, np.log(sums.reshape(2, 2)))
        return float(contrast(log_t, self.estimator)[0, 1])


@dataclass(frozen=True)
class LinearSums(ConditionalSums):
    """The same sums with the linear contrast."""

    logs = False

    def value(self, sums: FloatArray) -> float:
        """Return the divergence."""
        return float(contrast(sums.reshape(2, 2))[0, 1])


@dataclass(frozen=True)
class PooledSums:
    """The pooled estimator: three sums over both groups."""

    logs = True
    coefficients = np.array([1.0, 1.0, -2.0])

    def added(self, log_sums: FloatArray, log_weights: FloatArray, group: int) -> FloatArray:
        """Return what rows of a group add to the sums."""
        log_a, log_b = _present(log_sums)
        ratio, log_r = log_b - log_a, np.logaddexp(log_b[:, 0], log_b[:, 1])
        pairs = ((0, 0), (1, 1), (0, 1))
        terms = [pooled_terms(ratio[:, a], ratio[:, b], log_r) + log_weights for a, b in pairs]
        return np.asarray(np.exp(np.stack(terms, axis=1)))

    def value(self, sums: FloatArray) -> float:
        """Return the divergence."""
        with np.errstate(divide="ignore"):
            return float(self.coefficients @ checked_overlap(NUMPY, np.log(sums)))


@dataclass(frozen=True)
class PredictorSums:
    """Prop. 4: three sums over one group, of the products K1, K1 L, K1 K2 and K1 K2 L."""

    form: str = "corrected"
    logs = True
    coefficients = np.array([1.0, 1.0, -2.0])

    def added(self, log_sums: FloatArray, log_weights: FloatArray, group: int) -> FloatArray:
        """Return what rows add to the sums."""
        a1, b1, a12, b12 = log_sums[:, :, 0]
        terms = [t + log_weights for _, t in predictor_terms(a1, b1, a12, b12, self.form)]
        return np.asarray(np.exp(np.stack(terms, axis=1)))

    def value(self, sums: FloatArray) -> float:
        """Return the divergence."""
        return float(self.coefficients @ np.log(sums))


class MarginalSums:
    """Mean kernel values between two groups: four sums, of which the log or the linear contrast is taken.

    Parameters
    ----------
    groups : Groups
        The groups, with their weights.
    logs : bool
        Whether the contrast is that of logarithms.
    within : tuple of (float, float), optional
        What the mean within each group is diminished by, and then divided by: the unbiased estimate.
    """

    def __init__(self, groups: Groups, *, logs: bool, within: tuple[tuple[float, float], ...] = ((0.0, 1.0),) * 2):
        self.logs, self._within = logs, within
        self._log_totals = log_totals(NUMPY, groups, np.zeros(1))
        self.coefficients = np.array([1 / within[0][1], -1.0, -1.0, 1 / within[1][1]])

    def added(self, log_sums: FloatArray, log_weights: FloatArray, group: int) -> FloatArray:
        """Return what rows of a group add to the sums."""
        added = np.zeros((len(log_weights), 4))
        logs = log_sums[0] - self._log_totals - self._log_totals[group] + log_weights[:, None]
        added[:, 2 * group : 2 * group + 2] = np.exp(logs)
        return added

    def value(self, sums: FloatArray) -> float:
        """Return the divergence."""
        t = sums.reshape(2, 2)
        if self.logs:
            with np.errstate(divide="ignore"):
                return float(contrast(checked_overlap(NUMPY, np.log(t)))[0, 1])
        own = [(t[g, g] - itself) / others for g, (itself, others) in enumerate(self._within)]
        return float(own[0] + own[1] - t[0, 1] - t[1, 0])


def _present(log_sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log A and log B; rows without mass in a group (an absent category) add nothing to its terms."""
    log_a, log_b = log_sums
    absent = log_a == -np.inf
    return np.where(absent, 0.0, log_a), np.where(absent, -np.inf, log_b)
