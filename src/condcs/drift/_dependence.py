"""Whether the rows of a reference depend on those before them, what is done about it, and what cannot be promised.

From residuals in the order of time it makes an autoregression and sentences: `find_dependence`, the only function that
others call. It does not know the regressions or scores. A further test of dependence is a further fault in its loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_toeplitz
from scipy.stats import binom, chi2, rankdata

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._inference.portmanteau import first_autocorrelation, portmanteau
from condcs._tables.kinds import Column

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

_ALIKE_WITHIN_PARTS = 4.0
"""By how much smaller the p-value of a wandering level must be than others: the errors of a fit without a part of the
rows are alike within that part, and make the level wander a little where nothing does."""

_CLUSTERED_PARTS = 10.0
"""The same for clusters of large residuals in all rows: residuals of parts that were left out of a fit differ a little
in size from part to part."""

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


def find_dependence(
    rows: FloatArray, residuals: FloatArray, others: BoolArray, targets: IntArray, responses: Sequence[Column]
) -> tuple[FloatArray, tuple[str, ...], bool]:
    """Fit an autoregression to the residuals that need one; say what was found, and whether the rate can be promised.

    Given `rows` (n, d) of the reference in the order of time, inputs and responses; `residuals` (n, t) of the targets,
    in units of their spread; and which rows were not fitted. Return coefficients (order, t), order 0 if none is needed;
    sentences; and whether the stated rate can be promised.

    Whether large residuals come in clusters is asked of the rows that were not fitted, and less sharply of all: those
    of parts that were left out of a fit differ a little in size from part to part.
    """
    limited = np.clip(residuals, -LARGEST_RESIDUAL, LARGEST_RESIDUAL)
    fits, notes, promises = [], [], True
    for series, (column, label) in zip(limited.T, targets, strict=True):
        series = series - series.mean()
        fit = _fit_order(series) if portmanteau(series) < _RECOGNISED else np.zeros(0)
        fits.append(fit)
        innovations = series.copy()
        for lag, coefficient in enumerate(fit, start=1):
            innovations[lag:] -= coefficient * series[:-lag]
        name = responses[column].name
        if len(fit):
            first = first_autocorrelation(series)
            notes.append(
                f"Rows are not independent: residuals of {name} have an autocorrelation of {first:.2f} from row to "
                f"row. Innovations of an autoregression of order {len(fit)} are watched instead."
            )
        faults = []
        if portmanteau(innovations) < _LEFT_OVER:
            faults.append("innovations are still autocorrelated")
        elif _wander(innovations) < _LEFT_OVER / _ALIKE_WITHIN_PARTS:
            faults.append("the level of the residuals wanders slowly")
        if fit.sum() > _LONGEST_MEMORY:
            faults.append("the residuals hardly return to their mean")
        elif (1 - fit.sum()) * np.sqrt(len(series)) < _SHORTEST:
            faults.append("the reference is too short for residuals that depend so strongly on those before them")
        in_others = _clustered(innovations[others], np.ones(int(others.sum()), bool))
        in_all = _clustered(innovations, others)
        if label < 0 and min(in_others, _CLUSTERED_PARTS * in_all) < _LEFT_OVER:
            faults.append("large residuals come in clusters")
        if faults:
            promises = False
            notes.append(f"The stated run length cannot be promised for {name}: {' and '.join(faults)}.")
    if fault := _repetition(rows):
        promises = False
        notes.append(f"The stated run length cannot be promised: {fault}.")
    coefficients = np.zeros((max(map(len, fits)), len(targets)))
    for target, fit in enumerate(fits):
        coefficients[: len(fit), target] = fit
    return coefficients, tuple(dict.fromkeys(notes)), promises


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
    counts = [np.unique(part, axis=0, return_counts=True)[1] for part in (rows, *rows.T)]
    # Ordered pairs of equal rows, and of equal cells in each column.
    equal, *equal_cells = (float(np.sum(count * (count - 1.0))) for count in counts)
    following = int(np.sum((rows[1:] == rows[:-1]).all(axis=1)))
    if following and binom.sf(following - 1, n - 1, equal / (n * (n - 1.0))) < _LEFT_OVER:
        return "rows of the reference are repeated one after the other"
    distinct = len(counts[0])
    # Copies agree in all columns if they do in one of many values. Columns of few values make equal rows of themselves.
    has_many_values = distinct > n / 10
    has_copies = distinct < (1 - _COPIES) * n
    if has_many_values and has_copies and equal > _AGREEING * min(equal_cells):
        return f"{n - distinct:,} rows of the reference are copies of others. Leave them out"
    return ""


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
