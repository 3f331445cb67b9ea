"""Linear Granger causality: whether the source's past improves a linear prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs.core.errors import CondcsError

FloatArray = np.ndarray[Any, Any]


class MissingPartnerError(CondcsError):
    """An optional library is not installed."""


def f_test(target: FloatArray, condition: FloatArray, source: FloatArray) -> tuple[float, float]:
    """Return statsmodels' F statistic and p-value of adding the source to a regression on the condition.

    For a target of several columns: the largest F, with Bonferroni's p-value.
    """
    try:
        from statsmodels.regression.linear_model import OLS
    except ImportError as error:
        raise MissingPartnerError(
            '`measure`="linear_granger" must have statsmodels, which is not installed. Install it with: '
            "pip install 'condcs[causal]'"
        ) from error
    ones = np.ones((len(target), 1))
    small, large = np.hstack([ones, condition]), np.hstack([ones, condition, source])
    results = []
    for column in target.T:
        statistic, pvalue, _ = OLS(column, large).fit().compare_f_test(OLS(column, small).fit())
        results.append((float(statistic), float(pvalue)))
    return max(r[0] for r in results), min(1.0, len(results) * min(r[1] for r in results))


def linear_granger(target: FloatArray, condition: FloatArray, source: FloatArray) -> float:
    """F statistic of the source's past in a linear regression of the target on both pasts (Granger 1969)."""
    return f_test(target, condition, source)[0]
