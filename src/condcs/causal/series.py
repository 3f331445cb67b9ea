"""Time series as they come in: checked once, one block of columns per variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs.core.arrays import Array, backend_of
from condcs.core.equality import ByValue
from condcs.core.errors import CondcsError, DataError, ParameterError, ShapeError
from condcs.core.ranks import ranked

FloatArray = np.ndarray[Any, Any]

_MOST_ABOVE = 1000
"""Binary digits that the largest value may lie above the unit: 2**1024 is no double any more."""


@dataclass(frozen=True, eq=False)
class Series(ByValue):
    """One variable over time.

    Attributes
    ----------
    name : str
        What messages, tables and pictures call it.
    values : array, shape (n, columns), float64
        One row per time, in units of 2**exponent.
    exponent : int
        Of the unit. Checked series have one in which their median size is about 1: squares of values near 1e-160 or
        1e160 would underflow or overflow, and a power of two changes no digit.
    """

    name: str
    values: FloatArray
    exponent: int = 0

    def __len__(self) -> int:
        """Return the number of times."""
        return len(self.values)


def check_one_series(argument: str, value: Array, name: str | None = None) -> Series:
    """Check a variable of one or more columns."""
    check_time_order(argument, value)
    values = _as_floats(argument, value)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ShapeError(
            f"`{argument}` must have one or two dimensions (rows are times), got shape {values.shape}. "
            "Pass one row per time and one column per component."
        )
    _check_values(argument, values, [str(c) for c in getattr(value, "columns", range(values.shape[1]))])
    return _in_own_unit(name or str(getattr(value, "name", None) or argument), values)


def check_series_table(argument: str, value: Array, names: Sequence[str] | None) -> list[Series]:
    """Check an array (time, variables) or a DataFrame: one variable per column."""
    check_time_order(argument, value)
    table = _as_floats(argument, value)
    if table.ndim != 2 or table.shape[1] < 2:
        raise ShapeError(
            f"`{argument}` must have one row per time and at least two columns, one per variable, got shape "
            f"{table.shape}. Stack the series with np.column_stack."
        )
    if table.shape[0] < table.shape[1]:
        raise ShapeError(
            f"`{argument}` must have more times than variables, got shape {table.shape}. Rows are times; if "
            f"`{argument}` holds one variable per row, pass `{argument}.T`."
        )
    titles = check_names(names, [str(c) for c in getattr(value, "columns", [])], table.shape[1])
    _check_values(argument, table, titles)
    for j in range(table.shape[1]):
        for i in range(j):
            if np.array_equal(table[:, i], table[:, j]):
                raise DataError(
                    f"`{argument}` must hold different series, but columns {titles[i]!r} and {titles[j]!r} are equal. "
                    "Drop one of them: copies cannot be told apart."
                )
    return [_in_own_unit(title, np.ascontiguousarray(table[:, [j]])) for j, title in enumerate(titles)]


def check_names(names: Sequence[str] | None, columns: list[str], count: int) -> list[str]:
    """Return names given, names of columns, or x1, x2, ..."""
    if names is None:
        chosen = columns or [f"x{i + 1}" for i in range(count)]
    elif isinstance(names, str) or len(names) != count:
        raise ParameterError(
            f"`names` must hold one name per variable ({count}), got {names!r}. Leave it out for x1 ..."
        )
    else:
        chosen = [str(name) for name in names]
    repeated = next((name for name in chosen if chosen.count(name) > 1), None)
    if repeated is not None:
        raise ParameterError(
            f"`names` must differ from one another, got {repeated!r} twice. Rename one of the columns."
        )
    return chosen


def check_time_order(argument: str, value: Any) -> None:
    """Refuse a pandas index that does not go forward: rows are read as equally spaced times."""
    index = getattr(value, "index", None)
    if index is None or not hasattr(index, "is_monotonic_increasing"):
        return
    if not index.is_monotonic_increasing:
        raise DataError(
            f"`{argument}` must be in time order, but its index goes backwards. Sort it: `{argument}.sort_index()`."
        )
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise DataError(
            f"`{argument}` must have one row per time, but its index holds {twice!s} more than once. Average or drop "
            "the repeated rows."
        )


def check_flag(argument: str, value: Any) -> bool:
    """Check that an option is True or False."""
    if not isinstance(value, bool):
        raise ParameterError(f"`{argument}` must be True or False, got {value!r}. Pass {argument}=False.")
    return value


def in_common_unit(series: Sequence[Series]) -> tuple[Series, ...]:
    """Bring all series to the largest of their units, for measures that compare values of one with those of another."""
    largest = max(one.exponent for one in series)
    return tuple(Series(one.name, np.ldexp(one.values, one.exponent - largest), largest) for one in series)


def in_ranks(series: list[Series]) -> list[Series]:
    """Replace the values of each series by their ranks."""
    return [Series(one.name, ranked(one.values)) for one in series]


def check_same_length(first: Series, *others: Series) -> None:
    """Check that all series cover the same times."""
    for other in others:
        if len(other) != len(first):
            raise ShapeError(
                f"`{first.name}` and `{other.name}` must have the same number of times, got {len(first)} and "
                f"{len(other)}. Cut them to the times they share."
            )


def _in_own_unit(name: str, values: FloatArray) -> Series:
    sizes = np.abs(values[values != 0])
    middle, largest = np.frexp([np.partition(sizes, len(sizes) // 2)[len(sizes) // 2], sizes.max()])[1]
    # Not the largest value but the median counts, so that one outlier does not push the others out of range.
    exponent = int(max(middle, largest - _MOST_ABOVE))
    return Series(name, np.ldexp(values, -exponent), exponent)


def _as_floats(argument: str, value: Any) -> FloatArray:
    if value is None or isinstance(value, str | bytes | dict | set):
        raise DataError(f"`{argument}` must be an array, got {type(value).__name__}. Pass numbers, one row per time.")
    backend = backend_of(value)
    value = backend.to_numpy(value) if backend.name != "numpy" else value
    try:
        array = np.asarray(value)
        if array.dtype.kind in "cM":
            raise TypeError
        return array.astype(np.float64)
    except CondcsError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(
            f"`{argument}` must hold numbers only, got {getattr(value, 'dtype', type(value).__name__)}. Drop columns "
            "of dates and labels; times belong in the index."
        ) from error


def _check_values(argument: str, values: FloatArray, names: Sequence[str]) -> None:
    if not len(values):
        raise ShapeError(f"`{argument}` must have rows, got none. Pass one row per time.")
    bad = ~np.isfinite(values)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise DataError(
            f"`{argument}` must have no gaps, got {int(bad.sum())} NaN or infinite value(s), first in row {row}, "
            f"column {names[column]!r}. Interpolate them, or use the longest stretch without gaps: dropping rows "
            "would join times that are apart."
        )
    constant = np.flatnonzero(values.max(axis=0) == values.min(axis=0))
    if len(constant):
        raise DataError(
            f"`{argument}` must vary, but column {names[int(constant[0])]!r} is constant. Drop it: it drives nothing "
            "and nothing drives it."
        )
