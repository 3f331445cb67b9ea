"""Lag and order by prediction: how much of its own past a series needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condcs.causal.embedding import FEWEST_ROWS, Embedding
from condcs.causal.problem import CausalProblem
from condcs.causal.series import FloatArray, Series, check_series_table
from condcs.causal.widths import LEVELS, PSEUDO_COUNT, ROWS, DenseGrams, base_widths
from condcs.core.arrays import Array
from condcs.core.checks import check_integer
from condcs.core.errors import ShapeError, public


@dataclass(frozen=True)
class EmbeddingChoice:
    """Lag and order that predict best.

    Attributes
    ----------
    lag, order : int
        The simplest pair whose likelihood is within one standard error of the best.
    likelihoods : dict
        Mean leave-one-out log-likelihood of each (lag, order), averaged over the series, up to a constant.
    errors : dict
        Standard error of its difference from the best.
    """

    lag: int
    order: int
    likelihoods: dict[tuple[int, int], float] = field(repr=False)
    errors: dict[tuple[int, int], float] = field(repr=False)


@public
def select_embedding(
    series: Array, *, max_lag: int = 3, max_order: int = 4, names: Sequence[str] | None = None
) -> EmbeddingChoice:
    """Choose lag and order by how well every series is predicted from its own past.

    Each candidate is given the kernel width that suits it best; of all within one standard error of the best likelihood
    the one with the lowest order, then the smallest lag, wins. Only own pasts are looked at: a choice by the strength
    of the links would make the tests of those links reject too often. Cost O(min(n, 1024)^2) per series and candidate.

    Parameters
    ----------
    series : array, shape (n, variables), or DataFrame
        Rows are equally spaced times.
    max_lag, max_order : int
        Largest spacing and largest number of past values tried.
    names : sequence of str, optional
        Names of the variables, for messages.

    Returns
    -------
    EmbeddingChoice
        ``lag`` and ``order``, and what each candidate reached.

    Examples
    --------
    >>> from condcs.datasets import make_henon_chain
    >>> choice = select_embedding(make_henon_chain(400, n_maps=2).series)
    >>> choice.lag, choice.order
    (1, 2)
    """
    max_lag, max_order = check_integer("max_lag", max_lag, 1), check_integer("max_order", max_order, 1)
    return choose_embedding(check_series_table("series", series, names), max_lag, max_order)


def choose_embedding(variables: list[Series], max_lag: int, max_order: int) -> EmbeddingChoice:
    """Choose lag and order for checked series."""
    reach = 1 + max_lag * (max_order - 1)
    rows = min(len(variables[0]) - reach, ROWS)
    if rows < FEWEST_ROWS:
        raise ShapeError(
            f"the series must be at least {FEWEST_ROWS + reach} long for `max_lag`={max_lag} and `max_order`="
            f"{max_order}, got {len(variables[0])}. Use a longer series, or pass lag and order."
        )
    # All candidates predict the same targets: those with a complete past of the longest.
    widest = CausalProblem(tuple(variables), Embedding(1, reach, 1, 1), ())
    grams = DenseGrams(widest, base_widths(widest, "predictive")[0], rows)
    candidates = [(1, 1), *((lag, order) for order in range(2, max_order + 1) for lag in range(1, max_lag + 1))]
    fits = {c: np.zeros(rows) for c in candidates}
    for v, one in enumerate(variables):
        L = np.ascontiguousarray(grams.shifted(v, 0))
        for lag, order in candidates:
            K = grams.past(v, tuple(1 + k * lag for k in range(order)))
            fits[lag, order] += _best_fit(K, L, one.values.shape[1]) / len(variables)
        grams.forget(v)
    best = max(candidates, key=lambda c: float(fits[c].mean()))
    errors = {c: float(np.std(fits[best] - fits[c], ddof=1) / np.sqrt(rows)) for c in candidates}
    likelihoods = {c: float(fits[c].mean()) for c in candidates}
    good = [c for c in candidates if likelihoods[c] >= likelihoods[best] - errors[c]]
    lag, order = min(good, key=lambda c: (c[1], c[0]))
    return EmbeddingChoice(lag, order, likelihoods, errors)


def _best_fit(K: FloatArray, L: FloatArray, columns: int) -> FloatArray:
    """Leave-one-out log-likelihood of every row at the width where their mean is largest."""
    n = len(K)
    best: Any = None
    KL = K * L
    for level in range(LEVELS):
        marginal = max((float(L.sum()) - n) / (n * (n - 1)), np.finfo(float).tiny)
        A, B = np.maximum(K.sum(axis=1) - 1, 0.0), np.maximum(KL.sum(axis=1) - 1, 0.0)
        fit = np.log(B + PSEUDO_COUNT * marginal) - np.log(A + PSEUDO_COUNT) + columns * np.log(2.0) / 2 * level
        if best is None or fit.mean() > best.mean():
            best = fit
        K, KL, L = K * K, KL * KL, L * L
    return np.asarray(best)
