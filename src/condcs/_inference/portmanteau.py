"""Whether a series depends on its own past: the portmanteau test of Ljung and Box."""

from __future__ import annotations

import numpy as np

from condcs._core.arrays import FloatArray

LAGS = 10
"""Lags that are tested together: a day of hours or a week of days still shows in them, and more would cost power."""


def autocorrelations(series: FloatArray) -> FloatArray:
    """Return the autocorrelations of a series of mean 0 at lags 1 to 10; up to n / 4 of n < 40 rows."""
    products = _products(series)
    square = max(float(series @ series), np.finfo(float).tiny)
    return np.array([product.sum() for product in products]) / square  # (lags,)


def portmanteau(series: FloatArray) -> float:
    r"""P-value of the Ljung-Box test of a series of mean 0 for autocorrelation up to lag ten.

    .. math:: Q = n (n + 2) \sum_{k=1}^{10} \frac{\rho_k^2}{n - k}

    with :math:`\rho_k` the autocorrelation at lag k, is chi-squared with ten degrees of freedom if rows are
    independent. Fewer lags are used in series of fewer than 40 rows. Cost O(n).
    """
    n, correlations = len(series), autocorrelations(series)
    lags = np.arange(1, len(correlations) + 1)
    return _tail(n * (n + 2) * float(np.sum(correlations**2 / (n - lags))), len(lags))


def portmanteau_of_any_spread(series: FloatArray) -> float:
    r"""P-value of the same test where the spread of the series changes along the rows, as in a table sorted by x.

    .. math:: Q = \sum_{k=1}^{10} \frac{(\sum_t e_t e_{t-k})^2}{\sum_t e_t^2 e_{t-k}^2}

    Each sum of products is divided by its own standard error. Of outliers, or of a rare label, this is no estimate:
    their products are too few. The larger one of both p-values holds for either kind of series.
    """
    products = _products(series)
    sums = np.array([product.sum() for product in products])
    squares = np.array([product @ product for product in products])
    ratios = np.divide(sums**2, squares, out=np.zeros(len(sums)), where=squares > 0)
    return max(portmanteau(series), _tail(float(ratios.sum()), len(sums)))


def _products(series: FloatArray) -> list[FloatArray]:
    """Return the products of values that are 1, 2, ... rows apart."""
    return [series[lag:] * series[:-lag] for lag in range(1, min(LAGS, len(series) // 4) + 1)]


def _tail(statistic: float, lags: int) -> float:
    """P-value of a chi-squared statistic; 1 for a series too short for any lag."""
    from scipy.stats import chi2

    return float(chi2.sf(statistic, lags)) if lags else 1.0


def first_autocorrelation(series: FloatArray) -> float:
    """Return the autocorrelation from row to row of a series of mean 0."""
    return float(series[1:] @ series[:-1] / max(float(series @ series), np.finfo(float).tiny))
