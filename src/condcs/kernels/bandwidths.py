"""Bandwidths: given as numbers, or found by a rule from the pooled sample. Sigma always means exp(-r^2 / (2 sigma^2))."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from condcs.core.arrays import Array, Backend
from condcs.core.checks import Variable
from condcs.core.errors import BandwidthError, BandwidthWarning

Bandwidth = float | str | Sequence[float] | Array
"""A positive number, one per column, or the name of a rule."""

RULES = ("median", "silverman", "scott")

MEDIAN_ROWS = 2_000
"""Up to this many pooled rows the median distance is exact; above, it is that of a subsample of this size."""

_MEDIAN_SEED = 20250
_FALLBACK_PERCENTILES = range(51, 101)


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
        Whether this is y. A constant response makes every kernel value 1 whatever the width, so it only warns; a constant
        x leaves nothing to condition on and is an error.
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
                f"`{option}` must be a number where the data cannot be looked at (inside jax.jit or jax.vmap), got the rule "
                f"{bandwidth!r}. Find the width first, with `condcs.bandwidth(...)`, and pass it."
            )
        values = backend.to_numpy(variable.values).astype(np.float64, copy=False)
        if bandwidth == "median" and jointly:
            return np.full(columns, _median(option, values, variable.title, variable.names, response))
        if bandwidth == "median":
            each = [_median(option, values[:, [c]], variable.title, variable.names[c : c + 1], response) for c in range(columns)]
            return np.array(each)
        return _deviation_rule(option, bandwidth, values, variable, response)
    widths = _as_numbers(option, bandwidth)
    if widths.ndim == 0:
        widths = np.full(columns, float(widths))
    if widths.shape != (columns,):
        raise BandwidthError(
            f"`{option}` must be one number, or one per column of {variable.title} ({columns}), got shape {widths.shape}. "
            f"Pass a single number, or {columns} of them."
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
        if isinstance(bandwidth, bool) or bandwidth is None:
            raise TypeError
        return np.asarray(bandwidth, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BandwidthError(
            f"`{option}` must be a positive number, one number per column, or a rule name, got {bandwidth!r}. "
            f'Pass e.g. {option}=1.0 or {option}="median".'
        ) from error


def _median(option: str, values: np.ndarray[Any, Any], title: str, names: tuple[str, ...], response: bool) -> float:
    """Square root of the median squared distance over all pairs i < j."""
    if len(values) > MEDIAN_ROWS:
        # A fixed seed: the width is a property of the data, and the same call must give the same answer.
        chosen = np.random.default_rng(_MEDIAN_SEED).choice(len(values), MEDIAN_ROWS, replace=False)
        values = values[np.sort(chosen)]
    peak = float(np.max(np.abs(values)))
    unit = 2.0 ** np.floor(np.log2(peak)) if not 1e-100 < peak < 1e100 and peak > 0 else 1.0
    squared = pdist(values / unit if unit != 1.0 else values, "sqeuclidean")
    middle = len(squared) // 2
    squared.partition(middle)
    median = float(squared[middle])
    if len(squared) % 2 == 0:
        median = 0.5 * (median + float(squared[:middle].max()))
    if median == 0.0:
        median = _fallback_median(option, squared, title, names, response)
    return float(np.sqrt(median)) * unit


def _fallback_median(
    option: str, squared: np.ndarray[Any, Any], title: str, names: tuple[str, ...], response: bool
) -> float:
    if not np.any(squared > 0):
        return _constant(option, title, names, response) ** 2
    quantiles = np.percentile(squared, list(_FALLBACK_PERCENTILES), method="higher")
    level, median = next((p, q) for p, q in zip(_FALLBACK_PERCENTILES, quantiles, strict=True) if q > 0)
    warnings.warn(
        f"{title}: more than half of all pairs of rows are equal, so the median distance is 0. `{option}` falls back to the "
        f"smallest positive percentile of the distances (the {level}th: {np.sqrt(median):.4g}). Pass a number to choose it, "
        "or the delta kernel if the values are labels.",
        BandwidthWarning,
        stacklevel=_stack_depth(),
    )
    return float(median)


def _deviation_rule(
    option: str, rule: str, values: np.ndarray[Any, Any], variable: Variable, response: bool
) -> np.ndarray[Any, Any]:
    """Silverman's or Scott's factor, as in `scipy.stats.gaussian_kde`, times the pooled standard deviation of each column."""
    n, d = values.shape
    factor = n ** (-1 / (d + 4)) if rule == "scott" else (n * (d + 2) / 4) ** (-1 / (d + 4))
    unit = np.maximum(np.max(np.abs(values), axis=0), np.finfo(float).tiny)
    deviation = np.std(values / unit, axis=0, ddof=1)
    # Rounding can leave a constant column with a deviation of an epsilon or so instead of 0.
    constant = np.ptp(values, axis=0) == 0
    for c in np.flatnonzero(constant):
        deviation[c] = _constant(option, variable.title, variable.names[c : c + 1], response) / (factor * unit[c])
    return np.asarray(factor * deviation * unit)


def _constant(option: str, title: str, names: tuple[str, ...], response: bool) -> float:
    what = f"column {names[0]!r}" if len(names) == 1 else "every column"
    if not response:
        raise BandwidthError(
            f"{title} must vary for `{option}` to be estimated, but {what} is constant. Drop the constant column, or pass "
            f"{option} as a number."
        )
    warnings.warn(
        f"{title}: {what} is constant, so any width gives the same similarities; `{option}` is set to 1.",
        BandwidthWarning,
        stacklevel=_stack_depth(),
    )
    return 1.0


def _stack_depth() -> int:
    """Number of frames up to the first one outside condcs, so that the warning points at the caller's line."""
    import sys

    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("condcs"):
        frame, depth = frame.f_back, depth + 1
    return depth
