"""Whether the rows of a reference depend on those before them, what is done about it, and what cannot be promised.

`find_dependence`, the only function that others call, fits an autoregression to residuals in the order of time and
says in sentences what it has found. It does not know the regressions or scores. A further test of dependence is a
further fault in `_faults`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_toeplitz
from scipy.stats import binom, chi2, rankdata

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._inference.portmanteau import first_autocorrelation, portmanteau

LARGEST_RESIDUAL = 6.0
"""Residuals beyond this count as this much, in units of their spread: a single outlier would otherwise decide on an
autoregression, and be what the next ten rows are predicted from."""

_MOST_ORDER = 10
"""Largest order of an autoregression; what ten rows do not show is left to `_wander`."""

_RECOGNISED = 0.01
"""Level of the test whether residuals need an autoregression: one that is not needed costs little."""

_LEFT_OVER = 0.003
"""Level of the tests after which nothing is promised. There are four and more of them, so that one reference in a
hundred is told so though its rows are independent."""

_ALIKE_WITHIN_FOLDS = 4.0
"""By how much smaller the p-value of a wandering level must be than others: the errors of a fit without a fold of the
rows are alike within that fold, and make the level wander a little where nothing does."""

_CLUSTERED_FOLDS = 10.0
"""The same for clusters of large residuals in all rows: residuals of folds that were left out of a fit differ a little
in size from fold to fold."""

_ROWS_PER_LAG = 20
"""Rows of a reference for each lag of an autoregression: 40 rows, the fewest, have two."""

_LONGEST_MEMORY = 0.9
"""Sum of the coefficients of an autoregression above which residuals hardly return to their mean: what is left of a
shock after seven rows is half of it."""

_SHORTEST_STRETCH, _STRETCHES = 25, 40
"""Rows of a stretch whose mean is compared with those of others, beyond the order of an autoregression; and the largest
number of stretches, which are longer in a long reference."""

_COPIES = 0.05
"""Share of rows that may be copies of others: a row that is ranked may have been fitted, and then scores too well."""

_AGREEING = 0.99
"""Share of the pairs of equal cells, in the column that has the fewest, that are pairs of equal rows if rows are
copies; of rows that are none, few agree in all columns where they agree in one of many values."""

_SHORTEST = 6.0
"""Least square root of the number of rows, times one less the sum of the coefficients of an autoregression. The mean of
the residuals is known to one over this, in units of innovations: to a sixth. So 0.8 wants 900 rows."""


class Dependence(NamedTuple):
    """How residuals depend on those of the rows before them, and what that means for the stated rate."""

    coefficients: FloatArray  # (order, t), of an autoregression; order 0 if none is needed
    notes: tuple[str, ...]  # sentences
    promises: bool  # whether the stated rate can be promised


def find_dependence(
    rows: FloatArray, residuals: FloatArray, unfitted: BoolArray, names: Sequence[str], is_label: BoolArray
) -> Dependence:
    """Fit an autoregression to the residuals that need one; say what was found, and whether the rate can be promised.

    Given `rows` (n, d) of the reference in the order of time, inputs and responses; `residuals` (n, t) of the targets,
    in units of their spread; which rows were `unfitted` (n,); the `names` of the targets' columns, and which of the
    targets are labels (t,).
    """
    limited = np.clip(residuals, -LARGEST_RESIDUAL, LARGEST_RESIDUAL)
    fits, notes, promises = [], [], True
    for column, name, label in zip(limited.T, names, is_label, strict=True):
        series = column - column.mean()
        fit = _fit_order(series) if portmanteau(series) < _RECOGNISED else np.zeros(0)
        fits.append(fit)
        if len(fit):
            notes.append(
                f"Rows are not independent: residuals of {name} have an autocorrelation of "
                f"{first_autocorrelation(series):.2f} from row to row. Innovations of an autoregression of order "
                f"{len(fit)} are watched instead."
            )
        if faults := _faults(series, fit, unfitted, is_label=bool(label)):
            promises = False
            notes.append(f"The stated run length cannot be promised for {name}: {' and '.join(faults)}.")
    if repetition := _repetition(rows):
        promises = False
        notes.append(f"The stated run length cannot be promised: {repetition}.")
    coefficients = np.zeros((max(map(len, fits)), len(fits)))
    for target, fit in enumerate(fits):
        coefficients[: len(fit), target] = fit
    return Dependence(coefficients, tuple(dict.fromkeys(notes)), promises)


def _faults(series: FloatArray, fit: FloatArray, unfitted: BoolArray, *, is_label: bool) -> list[str]:
    """Say what an autoregression leaves of dependence among the residuals (n,) of a target.

    Whether large residuals come in clusters is asked of the rows that were not fitted, and less sharply of all: those
    of folds that were left out of a fit differ a little in size from fold to fold.
    """
    innovations = series.copy()
    for lag, coefficient in enumerate(fit, start=1):
        innovations[lag:] -= coefficient * series[:-lag]
    faults = []
    if portmanteau(innovations) < _LEFT_OVER:
        faults.append("innovations are still autocorrelated")
    elif _wander(innovations) < _LEFT_OVER / _ALIKE_WITHIN_FOLDS:
        faults.append("the level of the residuals wanders slowly")
    if fit.sum() > _LONGEST_MEMORY:
        faults.append("the residuals hardly return to their mean")
    elif (1 - fit.sum()) * np.sqrt(len(series)) < _SHORTEST:
        faults.append("the reference is too short for residuals that depend so strongly on those before them")
    if is_label:
        # Sizes of a label's residuals follow from its probability, and are alike where the inputs are.
        return faults
    clusters_in_unfitted = _clustered(innovations[unfitted], np.ones(int(unfitted.sum()), bool))
    clusters_in_all = _clustered(innovations, unfitted)
    if min(clusters_in_unfitted, _CLUSTERED_FOLDS * clusters_in_all) < _LEFT_OVER:
        faults.append("large residuals come in clusters")
    return faults


def _wander(series: FloatArray) -> float:
    """Return the p-value of a test whether means over stretches of rows differ more than those of independent rows."""
    length = max(_SHORTEST_STRETCH, len(series) // _STRETCHES)
    count = len(series) // length
    means = series[: count * length].reshape(count, length).mean(axis=1)
    variance = float(series.var())
    if count < 2 or variance <= 0:
        return 1.0
    return float(chi2.sf(length * np.sum((means - means.mean()) ** 2) / variance, count - 1))


def _clustered(residuals: FloatArray, group: BoolArray) -> float:
    """Return the p-value of a test whether large residuals follow each other.

    Of the ranks of their sizes, because two outliers would be a cluster of few rows; within a group and without it,
    because their sizes may differ.
    """
    ranks = np.empty(len(residuals))
    for rows in (group, ~group):
        ranks[rows] = (rankdata(np.abs(residuals[rows])) - 0.5) / max(int(rows.sum()), 1) - 0.5
    return portmanteau(ranks)


def _repetition(rows: FloatArray) -> str:
    """Say whether rows equal the one before them more often than two rows at random do, or are copies of others."""
    n = len(rows)
    row_counts = np.unique(rows, axis=0, return_counts=True)[1]  # how often each different row occurs
    equal_rows = _ordered_pairs(row_counts)
    n_following = int(np.sum((rows[1:] == rows[:-1]).all(axis=1)))
    if n_following and binom.sf(n_following - 1, n - 1, equal_rows / (n * (n - 1.0))) < _LEFT_OVER:
        return "rows of the reference are repeated one after the other"
    n_different = len(row_counts)
    # Copies agree in all columns if they do in one of many values. Columns of few values make equal rows of themselves.
    has_many_values = n_different > n / 10
    has_copies = n_different < (1 - _COPIES) * n
    if not (has_many_values and has_copies):
        return ""
    equal_cells = min(_ordered_pairs(np.unique(column, return_counts=True)[1]) for column in rows.T)
    if equal_rows > _AGREEING * equal_cells:
        return f"{n - n_different:,} rows of the reference are copies of others. Leave them out"
    return ""


def _ordered_pairs(counts: IntArray) -> float:
    """Return the number of ordered pairs of equal ones, where each of several occurs so often."""
    return float(np.sum(counts * (counts - 1.0)))


def _fit_order(series: FloatArray) -> FloatArray:
    """Return the Yule-Walker coefficients of the order that the Bayesian information criterion chooses."""
    n = len(series)
    most = max(1, min(_MOST_ORDER, n // _ROWS_PER_LAG))
    covariances = np.array([series[lag:] @ series[: n - lag] for lag in range(most + 1)]) / n
    least_criterion, best = np.inf, np.zeros(0)
    for order in range(1, most + 1):
        coefficients = solve_toeplitz(covariances[:order], covariances[1 : order + 1])
        variance = covariances[0] - coefficients @ covariances[1 : order + 1]
        criterion = n * np.log(max(variance, 1e-300)) + order * np.log(n)
        if criterion < least_criterion:
            least_criterion, best = criterion, coefficients
    return best
