"""Whether a series depends on its own past: the portmanteau test of Ljung and Box."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from condcs._core.arrays import FloatArray

LAGS = tuple(range(1, 11))
"""Lags that are tested together: a week of days still shows in them, and more would cost power."""
SEASONAL_LAGS = (*LAGS, 12, 24)
"""The same with a year of months and a day of hours, for rows that may be dates: a pattern by the hour shows at lag 24
alone."""


def lags_within(rows: int, lags: Sequence[int] = LAGS) -> list[int]:
    """Return the lags of which so many rows have enough products: up to a quarter of the rows."""
    return [lag for lag in lags if lag <= rows // 4]


def autocorrelations(series: FloatArray, lags: Sequence[int] = LAGS) -> FloatArray:
    """Return the autocorrelations of a series of mean 0 at `lags_within` its length."""
    square = max(float(series @ series), np.finfo(float).tiny)
    return np.array([product.sum() for product in _products(series, lags)]) / square  # (lags,)


def portmanteau(*series: FloatArray, lags: Sequence[int] = LAGS) -> float:
    r"""P-value of the Ljung-Box test of series of mean 0 for autocorrelation at some lags.

    .. math:: Q = n (n + 2) \sum_k \frac{\rho_k^2}{n - k}

    with :math:`\rho_k` the autocorrelation at lag k, is chi-squared if rows are independent, with as many degrees of
    freedom as there are lags; so is its sum over independent series, with those of all. Lags are up to a quarter of the
    rows. Cost O(n).
    """
    statistic, freedom = 0.0, 0
    for one in series:
        n, correlations, used = len(one), autocorrelations(one, lags), np.array(lags_within(len(one), lags))
        statistic += n * (n + 2) * float(np.sum(correlations**2 / (n - used)))
        freedom += len(used)
    return _tail(statistic, freedom)


def portmanteau_of_any_spread(*series: FloatArray, lags: Sequence[int] = LAGS) -> float:
    r"""P-value of the same test where the spread of a series changes along the rows, as in a table sorted by x.

    .. math:: Q = \sum_k \frac{(\sum_t e_t e_{t-k})^2}{\sum_t e_t^2 e_{t-k}^2}

    Each sum of products is divided by its own standard error. Of outliers, or of a rare label, this is no estimate:
    their products are too few. The larger one of both p-values holds for either kind of series.
    """
    statistic, freedom = 0.0, 0
    for one in series:
        products = _products(one, lags)
        sums = np.array([product.sum() for product in products])
        squares = np.array([product @ product for product in products])
        ratios = np.divide(sums**2, squares, out=np.zeros(len(sums)), where=squares > 0)
        statistic += float(ratios.sum())
        freedom += len(products)
    return max(portmanteau(*series, lags=lags), _tail(statistic, freedom))


def _products(series: FloatArray, lags: Sequence[int]) -> list[FloatArray]:
    """Return the products of values that are so many rows apart, for each lag."""
    return [series[lag:] * series[:-lag] for lag in lags_within(len(series), lags)]


def _tail(statistic: float, freedom: int) -> float:
    """P-value of a chi-squared statistic; 1 for series too short for any lag."""
    from scipy.stats import chi2

    return float(chi2.sf(statistic, freedom)) if freedom else 1.0


def first_autocorrelation(series: FloatArray) -> float:
    """Return the autocorrelation from row to row of a series of mean 0."""
    return float(series[1:] @ series[:-1] / max(float(series @ series), np.finfo(float).tiny))
