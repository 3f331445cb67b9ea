"""Bandwidths: given as numbers, or found by a rule from the pooled sample. Sigma means exp(-r^2 / (2 sigma^2))."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from condcs._core.arrays import Array, Backend, FloatArray, IntArray, backend_of
from condcs._core.checks import Variable, check_choice, check_variable, float_type
from condcs._core.errors import BandwidthError, BandwidthWarning, ShapeError, public, warn_caller
from condcs._core.vocabulary import named, setting
from condcs._kernels.pair_medians import median_differences, median_squared_distance

BandwidthRuleName = Literal["median", "joint_median", "silverman", "scott"]


class _Numbers(Protocol):
    """An array of any library, but no string: in a union with `Any` a type checker would pass every word for a rule."""

    @property
    def shape(self) -> Any: ...


Bandwidth = float | BandwidthRuleName | Sequence[float] | _Numbers
"""A positive number, one per column, or the name of a rule."""

MEDIAN_ROWS = 2_000
"""Up to this many pooled rows the median distance is exact; above, it is that of a subsample of this size."""

# Any number does, as long as it stays: the same call must give the same answer.
_MEDIAN_SEED = 20250
# A column whose typical difference is a smaller part of its largest value than this differs by rounding alone.
_ROUNDING = 1e-14
_LARGEST = float(np.finfo(np.float64).max)
# A median squared distance beyond these may be of squares that lost digits to underflow, or overflowed.
_SAFE_SQUARES = 1e-200, 1e200


class RuleWidths(NamedTuple):
    """What a rule makes of some rows."""

    widths: FloatArray
    """(d,), 0 for a column without a spread."""
    percentile: int = 50
    """Of the distances: 50 for the median, more where the median is 0."""


@public
def bandwidth(*samples: Array, rule: BandwidthRuleName = "median") -> float | FloatArray:
    """Bandwidth by a rule, from the pooled samples of one variable.

    "median" measures every column in units of its own spread, the square root of the median squared difference between
    two rows, and multiplies these units by the square root of the median squared distance in them: one bandwidth per
    column, which changes with the unit of that column only. "joint_median" is the rule of the paper, the square root of
    the median squared distance over the columns as they are: one bandwidth for all columns, dominated by those with the
    largest numbers. For a single column the two are the same. Medians are exact up to 2,000 pooled rows, and those of a
    subsample with a fixed seed above. "silverman" and "scott" are the factors of `scipy.stats.gaussian_kde` times the
    pooled standard deviation of each column. Cost O(min(n, 2000)^2 d).

    Parameters
    ----------
    *samples : array, shape (n, d)
        One or more samples of the same variable.
    rule : {"median", "joint_median", "silverman", "scott"}
        The rule.

    Returns
    -------
    float or array of shape (d,)
        One bandwidth per column; a float for "joint_median", and for "median" of a single column.

    Examples
    --------
    >>> import numpy as np
    >>> bandwidth(np.array([0.0, 1.0]), np.array([3.0]))
    2.0
    >>> metres = np.array([[0.0, 5.0], [1.0, 0.0], [3.0, 1.0]])
    >>> bandwidth(metres * [1, 1000]) / bandwidth(metres)
    array([   1., 1000.])
    """
    check_choice("rule", rule, tuple(BANDWIDTH_RULES))
    if not samples:
        raise ShapeError("`samples` must hold at least one array, got none. Pass e.g. bandwidth(xp, xq).")
    backend = backend_of(*samples)
    parts = [(f"samples[{i}]", sample) for i, sample in enumerate(samples)]
    variable = check_variable(parts, backend, float_type(backend, samples)[0], min_rows=2 if len(samples) == 1 else 1)
    widths = column_widths("rule", rule, variable, backend, response=False)
    return float(widths[0]) if rule == "joint_median" or (rule == "median" and len(widths) == 1) else widths


def column_widths(
    option: str, bandwidth: Bandwidth, variable: Variable, backend: Backend, *, response: bool
) -> FloatArray:
    """Return one bandwidth per column, as float64, from what the caller gave as `option`.

    A constant response makes every kernel value 1 whatever the bandwidth, so that it only warns; a constant x leaves
    nothing to condition on and is an error.
    """
    columns = variable.values.shape[1]
    if isinstance(bandwidth, str):
        if bandwidth not in BANDWIDTH_RULES:
            rules = ", ".join(repr(r) for r in BANDWIDTH_RULES)
            raise BandwidthError(
                f"{named(option)} must be a positive number, one number per column, or one of the rules {rules}, got "
                f"{bandwidth!r}. Pass e.g. {setting(option, 'median')}."
            )
        if backend.is_traced(variable.values):
            raise BandwidthError(
                f"{named(option)} must be a number inside jax.jit and jax.vmap, where values are not known yet, got "
                f"the rule {bandwidth!r}. Compute the bandwidth first, with `condcs.bandwidth(...)`, and pass it."
            )
        values = backend.to_numpy(variable.values).astype(np.float64, copy=False)
        return _widths_by_rule(option, bandwidth, values, variable, response)
    if type(bandwidth) is float and 0.0 < bandwidth < math.inf:
        return np.full(columns, bandwidth)
    widths = _as_numbers(option, bandwidth)
    if widths.ndim == 0:
        widths = np.full(columns, float(widths))
    if widths.shape != (columns,):
        raise BandwidthError(
            f"{named(option)} must be one number, or one per column of {variable.title} ({columns}), got shape "
            f"{widths.shape}. Pass a single number, or {columns} of them."
        )
    if not np.all(np.isfinite(widths)) or not np.all(widths > 0):
        raise BandwidthError(
            f"{named(option)} must be positive and finite, got {bandwidth!r}. Pass a positive number in the units of "
            f"{variable.title}, or {setting(option, 'median')}."
        )
    return widths


def _as_numbers(option: str, bandwidth: Any) -> FloatArray:
    try:
        if hasattr(bandwidth, "detach"):
            bandwidth = bandwidth.detach().cpu()
        numbers = np.asarray(bandwidth)
        if numbers.dtype.kind not in "fiuO" or bandwidth is None:
            raise TypeError
        return numbers.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BandwidthError(
            f"{named(option)} must be a positive number, one number per column, or a rule name, got {bandwidth!r}. "
            f"Pass e.g. {setting(option, 1.0)} or {setting(option, 'median')}."
        ) from error


def median_widths(values: FloatArray, *, joint: bool = False) -> tuple[FloatArray, int]:
    """Return one bandwidth per column by the rule "median" or "joint_median", and which percentile it is.

    50 stands for the median; where more than half of all pairs of rows are equal, the lowest percentile above it that
    is positive takes its place. If all rows are equal, bandwidths are 0, without a warning.
    """
    values = values[median_rows(len(values))]
    columns = values.shape[1]
    if joint or columns == 1:
        width, percentile = median_distance(values)
        return np.full(columns, width), percentile
    units, _, peaks = _column_medians(values)
    constant = units <= _ROUNDING * peaks
    if constant.any():
        # The size of a constant column stands for the spread that it has not: it then adds nothing to any distance.
        units[constant] = np.where(peaks > 0, peaks, 1.0)[constant]
    width, percentile = median_distance(values / units)
    return width * np.minimum(units, _LARGEST / max(width, 1.0)), percentile


def median_rows(n: int) -> slice | IntArray:
    """Return which of n pooled rows the median distance is taken over: all, or a subsample in ascending order."""
    if n <= MEDIAN_ROWS:
        return slice(None)
    return np.sort(np.random.default_rng(_MEDIAN_SEED).choice(n, MEDIAN_ROWS, replace=False))


def _column_medians(values: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """Square root of the median squared difference in each column, which percentile it is, and the largest size."""
    ordered = np.array(values.T, order="C")
    ordered.sort(axis=1)
    peaks = np.maximum(-ordered[:, 0], ordered[:, -1])
    if peaks.max() < 0.25 * _LARGEST:
        return *median_differences(ordered), peaks
    # Differences of the largest floats overflow, those of their halves do not.
    widths, percentiles = median_differences(0.5 * ordered)
    return 2.0 * np.minimum(widths, 0.5 * _LARGEST), percentiles, peaks


def median_distance(values: FloatArray) -> tuple[float, int]:
    """Square root of the median squared distance over all pairs of rows, and which percentile it is; 0 if all are 0."""
    if values.shape[1] == 1:
        widths, percentiles, _ = _column_medians(values)
        return float(widths[0]), int(percentiles[0])
    unit = 1.0
    middle, percentile = median_squared_distance(values)
    low, high = _SAFE_SQUARES
    if not low < middle < high and (peak := float(np.max(np.abs(values)))) > 0:
        # Squares overflow or underflow in these units: measure in units of the largest value (a power of two is exact).
        unit = float(2.0 ** np.floor(np.log2(peak)))
        middle, percentile = median_squared_distance(values / unit)
    return min(math.sqrt(middle) * unit, _LARGEST), percentile


def _deviation_widths(values: FloatArray, factor: float) -> RuleWidths:
    """Return a factor times the standard deviation of each column (n, d)."""
    unit = np.maximum(np.max(np.abs(values), axis=0), np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        widths = np.minimum(factor * np.std(values / unit, axis=0, ddof=1) * unit, _LARGEST)
    # Rounding can leave a constant column with a deviation of an epsilon or so instead of 0.
    widths[np.max(values, axis=0) == np.min(values, axis=0)] = 0.0
    return RuleWidths(widths)


def _median_rule(values: FloatArray) -> RuleWidths:
    """Return one width per column, in units of the column's own median difference."""
    return RuleWidths(*median_widths(values))


def _joint_median_rule(values: FloatArray) -> RuleWidths:
    """Return the median distance over the columns as they are, the rule of the paper."""
    return RuleWidths(*median_widths(values, joint=True))


def _silverman_rule(values: FloatArray) -> RuleWidths:
    """Return Silverman's factor, as in `scipy.stats.gaussian_kde`, times the standard deviations."""
    n, d = values.shape
    return _deviation_widths(values, (n * (d + 2) / 4) ** (-1 / (d + 4)))


def _scott_rule(values: FloatArray) -> RuleWidths:
    """Return Scott's factor, as in `scipy.stats.gaussian_kde`, times the standard deviations."""
    n, d = values.shape
    return _deviation_widths(values, n ** (-1 / (d + 4)))


BANDWIDTH_RULES: dict[str, Callable[[FloatArray], RuleWidths]] = {
    "median": _median_rule,
    "joint_median": _joint_median_rule,
    "silverman": _silverman_rule,
    "scott": _scott_rule,
}
"""What callers can name: functions of the pooled rows (n, d). A row needs its name in `BandwidthRuleName` as well, for
type checkers."""


def _widths_by_rule(option: str, rule: str, values: FloatArray, variable: Variable, response: bool) -> FloatArray:
    """Return widths by a rule, with an error or a warning where it has none."""
    widths, percentile = BANDWIDTH_RULES[rule](values)
    if percentile > 50:
        values_in_force = ", ".join(f"{w:.4g}" for w in np.unique(widths)[:4])
        warn_caller(
            f"{variable.title}: more than half of all pairs of rows are equal, so the median distance is 0. "
            f"{named(option)} falls back to the smallest positive percentile of the distances (the {percentile}th: "
            f"{values_in_force}). Pass a number to choose it, or the delta kernel if the values are labels.",
            BandwidthWarning,
        )
    constant = np.flatnonzero(widths == 0)
    if len(constant) == len(widths):
        widths[:] = _width_of_constant(option, variable.title, variable.names, response)
        return widths
    for c in constant:
        widths[c] = _width_of_constant(option, variable.title, variable.names[c : c + 1], response)
    return widths


def _width_of_constant(option: str, title: str, names: tuple[str, ...], response: bool) -> float:
    what = f"column {names[0]!r}" if len(names) == 1 else "every column"
    if not response:
        raise BandwidthError(
            f"{title} must vary for {named(option)} to be estimated, but {what} is constant. Drop the constant column, "
            "or choose a number as its bandwidth."
        )
    warn_caller(
        f"{title}: {what} is constant, so that every bandwidth gives the same kernel values; {named(option)} is set to "
        "1.",
        BandwidthWarning,
    )
    return 1.0
