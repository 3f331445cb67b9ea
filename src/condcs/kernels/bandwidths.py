"""Bandwidths: given as numbers, or found by a rule from the pooled sample. Sigma means exp(-r^2 / (2 sigma^2))."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from condcs.core.arrays import Array, Backend, backend_of
from condcs.core.checks import Variable, check_choice, check_variable, float_type
from condcs.core.errors import BandwidthError, BandwidthWarning, ShapeError, public, warn_caller

Bandwidth = float | str | Sequence[float] | Array
"""A positive number, one per column, or the name of a rule."""

RULES = ("median", "silverman", "scott")

MEDIAN_ROWS = 2_000
"""Up to this many pooled rows the median distance is exact; above, it is that of a subsample of this size."""

_MEDIAN_SEED = 20250
_FALLBACK_PERCENTILES = range(51, 101)
_LARGEST = float(np.finfo(np.float64).max)


@public
def bandwidth(*samples: Array, rule: str = "median") -> float | np.ndarray[Any, Any]:
    """Width that a bandwidth rule finds for samples of one variable, pooled.

    "median" is the square root of the median squared distance over all pairs of rows, exact up to 2,000 pooled rows and
    that of a subsample with a fixed seed above. "silverman" and "scott" are the factors of `scipy.stats.gaussian_kde`
    times the pooled standard deviation of each column. Cost O(min(n, 2000)^2 d).

    Parameters
    ----------
    *samples : array, shape (n, d)
        One or more samples of the same variable.
    rule : {"median", "silverman", "scott"}
        Which rule.

    Returns
    -------
    float or array of shape (d,)
        One width for all columns ("median"), or one per column.

    Examples
    --------
    >>> import numpy as np
    >>> bandwidth(np.array([0.0, 1.0]), np.array([3.0]))
    2.0
    """
    check_choice("rule", rule, RULES)
    if not samples:
        raise ShapeError("`samples` must hold at least one array, got none. Pass e.g. bandwidth(xp, xq).")
    backend = backend_of(*samples)
    parts = [(f"samples[{i}]", sample) for i, sample in enumerate(samples)]
    variable = check_variable(parts, backend, float_type(backend, samples)[0], min_rows=2 if len(samples) == 1 else 1)
    widths = column_widths("rule", rule, variable, backend, jointly=True, response=False)
    return float(widths[0]) if rule == "median" else widths


def column_widths(
    option: str, bandwidth: Bandwidth, variable: Variable, backend: Backend, *, jointly: bool, response: bool
) -> np.ndarray[Any, Any]:
    """Return one width per column, as float64.

    Parameters
    ----------
    option : str
        Name of the option, for messages.
    bandwidth
        What the caller gave.
    variable, backend
        The pooled variable and its array library.
    jointly : bool
        Whether "median" finds one width for all columns together (the default kernels), or one for each column alone
        (columns of mixed kinds, which have no common unit).
    response : bool
        Whether this is y. A constant response makes every kernel value 1 whatever the width, so it only warns; a
        constant x leaves nothing to condition on and is an error.
    """
    columns = variable.values.shape[1]
    if isinstance(bandwidth, str):
        if bandwidth not in RULES:
            rules = ", ".join(repr(r) for r in RULES)
            raise BandwidthError(
                f"`{option}` must be a positive number, one number per column, or one of the rules {rules}, got "
                f'{bandwidth!r}. Pass e.g. {option}="median".'
            )
        if backend.is_traced(variable.values):
            raise BandwidthError(
                f"`{option}` must be a number where the data cannot be looked at (inside jax.jit or jax.vmap), got "
                f"the rule {bandwidth!r}. Find the width first, with `condcs.bandwidth(...)`, and pass it."
            )
        values = backend.to_numpy(variable.values).astype(np.float64, copy=False)
        if bandwidth == "median" and jointly:
            return np.full(columns, _median(option, values, variable.title, variable.names, response))
        if bandwidth == "median":
            each = [
                _median(option, values[:, [c]], variable.title, variable.names[c : c + 1], response)
                for c in range(columns)
            ]
            return np.array(each)
        return _deviation_rule(option, bandwidth, values, variable, response)
    if type(bandwidth) is float and 0.0 < bandwidth < math.inf:
        return np.full(columns, bandwidth)
    widths = _as_numbers(option, bandwidth)
    if widths.ndim == 0:
        widths = np.full(columns, float(widths))
    if widths.shape != (columns,):
        raise BandwidthError(
            f"`{option}` must be one number, or one per column of {variable.title} ({columns}), got shape "
            f"{widths.shape}. Pass a single number, or {columns} of them."
        )
    if not np.all(np.isfinite(widths)) or not np.all(widths > 0):
        raise BandwidthError(
            f"`{option}` must be positive and finite, got {bandwidth!r}. Pass a positive width in the units of "
            f'{variable.title}, or {option}="median".'
        )
    return widths


def _as_numbers(option: str, bandwidth: Any) -> np.ndarray[Any, Any]:
    try:
        if hasattr(bandwidth, "detach"):
            bandwidth = bandwidth.detach().cpu()
        given = np.asarray(bandwidth)
        if given.dtype.kind not in "fiuO" or bandwidth is None:
            raise TypeError
        return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BandwidthError(
            f"`{option}` must be a positive number, one number per column, or a rule name, got {bandwidth!r}. "
            f'Pass e.g. {option}=1.0 or {option}="median".'
        ) from error


def median_rows(n: int) -> slice | np.ndarray[Any, Any]:
    """Return which of n pooled rows the median distance is taken over: all, or a subsample in ascending order."""
    if n <= MEDIAN_ROWS:
        return slice(None)
    # A fixed seed: the width is a property of the data, and the same call must give the same answer.
    return np.sort(np.random.default_rng(_MEDIAN_SEED).choice(n, MEDIAN_ROWS, replace=False))


def _median(option: str, values: np.ndarray[Any, Any], title: str, names: tuple[str, ...], response: bool) -> float:
    """Square root of the median squared distance over all pairs i < j."""
    values = values[median_rows(len(values))]
    unit, (median, squared) = 1.0, _median_squared(values)
    if not 1e-200 < median < 1e200 and (peak := float(np.max(np.abs(values)))) > 0:
        # Squares overflow or underflow in these units: measure in units of the largest value (a power of two is exact).
        unit = float(2.0 ** np.floor(np.log2(peak)))
        median, squared = _median_squared(values / unit)
    if median > 0.0:
        return min(float(np.sqrt(median)) * unit, _LARGEST)
    if not np.any(squared > 0):
        return _constant(option, title, names, response)
    return _smallest_positive(option, squared, unit, title)


def _median_squared(values: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
    """Median squared distance over all pairs, and the squared distances in no particular order."""
    from condcs.kernels.compiled import squared_distances

    squared = squared_distances(np.ascontiguousarray(values))
    middle = len(squared) // 2
    squared.partition(middle)
    median = float(squared[middle])
    if len(squared) % 2 == 0:
        median = 0.5 * (median + float(squared[:middle].max()))
    return median, squared


def _smallest_positive(option: str, squared: np.ndarray[Any, Any], unit: float, title: str) -> float:
    """Take the lowest percentile above the median that is positive, and say so."""
    quantiles = np.percentile(squared, list(_FALLBACK_PERCENTILES), method="higher")
    level, quantile = next((p, q) for p, q in zip(_FALLBACK_PERCENTILES, quantiles, strict=True) if q > 0)
    width = min(float(np.sqrt(quantile)) * unit, _LARGEST)
    warn_caller(
        f"{title}: more than half of all pairs of rows are equal, so the median distance is 0. `{option}` falls "
        "back to the "
        f"smallest positive percentile of the distances (the {level}th: {width:.4g}). Pass a number to choose it, "
        "or the delta kernel if the values are labels.",
        BandwidthWarning,
    )
    return width


def _deviation_rule(
    option: str, rule: str, values: np.ndarray[Any, Any], variable: Variable, response: bool
) -> np.ndarray[Any, Any]:
    """Silverman's or Scott's factor, as in `scipy.stats.gaussian_kde`, times each column's standard deviation."""
    n, d = values.shape
    factor = n ** (-1 / (d + 4)) if rule == "scott" else (n * (d + 2) / 4) ** (-1 / (d + 4))
    unit = np.maximum(np.max(np.abs(values), axis=0), np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        widths = np.minimum(factor * np.std(values / unit, axis=0, ddof=1) * unit, _LARGEST)
    # Rounding can leave a constant column with a deviation of an epsilon or so instead of 0.
    for c in np.flatnonzero(np.max(values, axis=0) == np.min(values, axis=0)):
        widths[c] = _constant(option, variable.title, variable.names[c : c + 1], response)
    return np.asarray(widths)


def _constant(option: str, title: str, names: tuple[str, ...], response: bool) -> float:
    what = f"column {names[0]!r}" if len(names) == 1 else "every column"
    if not response:
        raise BandwidthError(
            f"{title} must vary for `{option}` to be estimated, but {what} is constant. Drop the constant column, "
            f"or pass {option} as a number."
        )
    warn_caller(
        f"{title}: {what} is constant, so any width gives the same similarities; `{option}` is set to 1.",
        BandwidthWarning,
    )
    return 1.0
