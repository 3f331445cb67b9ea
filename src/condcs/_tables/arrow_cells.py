"""Arrays of Arrow as `Cells`: numbers, dates and truth values as arrays of numpy, texts by their different values.

`cells_of_arrow` is the function to read first. Whoever calls it has an array of pyarrow, which is therefore installed.
Nothing here knows whether the array comes from a file or from memory.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from condcs._core.arrays import AnyArray, BoolArray
from condcs._core.errors import DataError
from condcs._core.vocabulary import named
from condcs._tables.cells import Cells, TimeCells, cells_of, cells_of_array, cells_of_codes, cells_of_dates


def readable_cells(array: Any, title: str, name: str, first_row: int) -> Cells:
    """Return an array (n,) of a column as cells, with an error that names the column where values cannot be read."""
    try:
        return cells_of_arrow(array)
    except (ValueError, ArithmeticError, SystemError, LookupError) as error:
        # Dates beyond the years 1 to 9999, times that are no time of day, time zones that nobody knows.
        raise DataError(
            f"{title} must hold readable values in column {name!r} (dates: years 1 to 9999), got unreadable "
            f"{array.type} between rows {first_row:,} and {first_row + len(array) - 1:,}: {first_line(error)}. Correct "
            f"it, or leave the column out of {named('x')}."
        ) from error


def cells_of_arrow(array: Any) -> Cells:
    """Return an array (n,) as cells; errors are those of pyarrow."""
    types, kind = import_module("pyarrow").types, array.type
    if types.is_dictionary(kind):
        return _of_dictionary(array)
    if is_text_view(kind):
        array = _without_views(array)
        kind = array.type
    if is_text(kind):
        # Each text once: a long one that repeats would otherwise be copied for every row.
        return _of_dictionary(array.dictionary_encode())
    if types.is_boolean(kind):
        return _typed(array.fill_null(False), _nulls(array))
    if types.is_integer(kind):
        return _typed(array.fill_null(0), _nulls(array))
    if types.is_float32(kind) or types.is_float64(kind):
        # Nulls come out as NaN.
        return _typed(array, None)
    cells = None
    if types.is_date32(kind):
        cells = cells_of_dates(array.to_numpy(zero_copy_only=False))
    elif types.is_timestamp(kind) and kind.tz is None and kind.unit != "ns":
        # Nanoseconds are times of pandas, which are written with all their digits.
        cells = _times(array.to_numpy(zero_copy_only=False))
    return cells if cells is not None else cells_of(array.to_pylist())


def _times(times: AnyArray) -> Cells | None:
    """Return times (n,) as cells, None if Python has no such times, which pyarrow then says."""
    cells = cells_of_array(times)
    return cells if isinstance(cells, TimeCells) else None


def is_text(kind: Any) -> bool:
    """Whether a type is one of texts."""
    types = import_module("pyarrow").types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def is_text_view(kind: Any) -> bool:
    """Whether a type is one of texts with views, as polars has them; pyarrow has those from version 16 on."""
    is_view = getattr(import_module("pyarrow").types, "is_string_view", None)
    return is_view is not None and bool(is_view(kind))


def _without_views(array: Any) -> Any:
    """Return texts with views as plain ones, which can be coded; as they are where pyarrow cannot do that yet."""
    try:
        return array.cast("large_string")
    except NotImplementedError:
        return array


def _nulls(array: Any) -> BoolArray:
    """Return which values of an Arrow array (n,) are gaps."""
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), bool)


def _typed(array: Any, gaps: BoolArray | None) -> Cells:
    """Return an Arrow array of a type that numpy has as cells."""
    cells = cells_of_array(array.to_numpy(zero_copy_only=False), gaps)
    assert cells is not None  # only types that numpy has come here
    return cells


def _of_dictionary(array: Any) -> Cells:
    """Return labels and codes as cells; of the labels only those that occur are read."""
    codes = array.indices.cast("int64").fill_null(-1).to_numpy()  # (n,)
    return cells_of_codes(codes, lambda used: array.dictionary.take(import_module("pyarrow").array(used)).to_pylist())


def first_line(error: BaseException) -> str:
    """Return what an error says, without the details that other libraries append."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
