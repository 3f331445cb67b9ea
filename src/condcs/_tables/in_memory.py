"""Tables in memory as the readers of files hand them out: DataFrames, dictionaries of columns, arrays.

`as_table` is the function to read first: it finds the columns of whatever it is given, or takes it for the path of a
file. `TableInMemory` hands them out in batches; typed columns (numpy, nullable pandas, Arrow) stay arrays, and others
are listed as Python values and told by `cells_of`. A library is recognised by what its tables can do, never imported.
What streams its rows as Arrow batches is the subject of `streams`; any other library needs a branch in `as_table` that
lists its columns, and if these are typed, one in `_typed_cells`.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from condcs._core.checks import is_missing_value
from condcs._core.errors import DataError, ParameterError, ShapeError
from condcs._core.vocabulary import named
from condcs._tables.arrow_cells import is_text, readable_cells
from condcs._tables.cells import Cells, TextCells, cells_of, cells_of_array, cells_of_codes
from condcs._tables.sources import TableBatch, batch_rows, check_names, column_name
from condcs._tables.streams import streamed_table
from condcs._tables.typed_files import ColumnarTable

_LISTING = ("to_pylist", "to_list", "tolist")
"""What turns a column into Python values: of pyarrow, of polars, of numpy and pandas."""

_PLAIN = (float, str, int)
"""Types whose values need no look: nothing else can be NaN, bytes or a list."""


class TableInMemory:
    """A table in memory, which is read a few thousand rows at a time."""

    unit = "row"

    def __init__(self, title: str, columns: Sequence[tuple[Hashable, Any]]) -> None:
        self.title = title
        # A list of pairs: pandas allows a name twice, which is told.
        keys, values = zip(*columns, strict=True) if columns else ((), ())
        self.names = check_names([*map(column_name, keys)], title)
        self._columns = [_without_index(column) for column in values]
        for name, column in zip(self.names, self._columns, strict=True):
            _check_column(title, name, column)
            if len(column) != len(self):
                raise ShapeError(
                    f"{title} must hold columns of equal length, got {len(self):,} cells in the first and "
                    f"{len(column):,} in {name!r}. Rows are observations."
                )

    def __len__(self) -> int:
        return len(self._columns[0]) if self._columns else 0

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[TableBatch]:
        """Yield columns; what stands for a missing value is a gap."""
        most = most or batch_rows(len(columns))
        for start in range(0, len(self), most):
            stop = min(start + most, len(self))
            cells = [self._cells(c, start, stop) for c in columns]
            yield TableBatch(cells, np.arange(start + 1, stop + 1))

    def _cells(self, index: int, start: int, stop: int) -> Cells:
        """Return some rows of a column as cells: typed where its type has such, else by the Python values."""
        column = self._columns[index][start:stop]
        if hasattr(column, "combine_chunks"):
            array = column.combine_chunks()
            if _has_cells(array.type):
                return readable_cells(array, self.title, self.names[index], start + 1)
        typed = _typed_cells(column)
        if typed is not None:
            return typed
        listing = next((name for name in _LISTING if hasattr(column, name)), None)
        cells = list(column) if listing is None else getattr(column, listing)()
        if all(issubclass(kind, _PLAIN) for kind in set(map(type, cells))):
            return cells_of(cells)
        for row, cell in enumerate(cells):
            if isinstance(cell, _PLAIN):
                continue
            if hasattr(cell, "__len__"):
                got = "bytes" if isinstance(cell, bytes) else f"a {type(cell).__name__}"
                remedy = "Decode them" if isinstance(cell, bytes) else "Flatten it"
                raise DataError(
                    f"{self.title} must hold numbers or text in column {self.names[index]!r}, got {got} in row "
                    f"{start + row + 1:,}. {remedy}, or leave the column out of {named('x')}."
                )
            cells[row] = None if is_missing_value(cell) else cell.item() if isinstance(cell, np.generic) else cell
        return cells_of(cells)


def _typed_cells(column: Any) -> Cells | None:
    """Return a typed column as cells without listing its values, None if it has none of the types of cells."""
    if isinstance(column, np.ndarray):
        return cells_of_array(column)
    stored_as = getattr(getattr(column, "dtype", None), "numpy_dtype", None)
    if stored_as is not None and stored_as.kind in "fiub":
        # A nullable column of pandas.
        gaps = np.asarray(column.isna())
        return cells_of_array(column.to_numpy(dtype=stored_as, na_value=stored_as.type(0)), gaps)
    if hasattr(column, "codes") and hasattr(column, "categories"):
        # A categorical column of pandas. Of other types than text its values are changed by gaps among them.
        labels = cells_of_codes(column.codes, lambda used: column.categories.take(used).tolist())
        return labels if isinstance(labels, TextCells) else None
    return None


def _has_cells(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers, truth values, times or texts; of others, values are looked at."""
    types = import_module("pyarrow").types
    texts = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_boolean, types.is_integer, types.is_floating, types.is_temporal)
    return is_text(texts) or any(test(kind) for test in tests)


def as_table(role: str, value: Any) -> str | TableInMemory | ColumnarTable:
    """Return a table in memory, a stream of one, or the path of a file as text."""
    if isinstance(value, str | os.PathLike):
        return os.fsdecode(value)
    title = f"{role} ({type(value).__name__})"
    if isinstance(value, Mapping):
        return TableInMemory(title, list(value.items()))
    if callable(getattr(value, "to_native", None)):
        # A wrapper of narwhals.
        return as_table(role, value.to_native())
    # Columns that are in memory are cut into batches here, without Arrow in between.
    is_pandas = hasattr(value, "iloc") and hasattr(value, "columns")
    is_arrow_in_memory = hasattr(value, "column_names") and hasattr(value, "slice")
    # A Series streams Arrow batches as well, but has no columns.
    is_one_column = len(getattr(value, "shape", ())) == 1
    if not is_pandas and not is_arrow_in_memory and not is_one_column:
        streamed = streamed_table(value, title)
        if streamed is not None:
            return streamed
    if callable(getattr(value, "collect", None)):
        raise ParameterError(
            f"{named(role)} must be a table whose rows are known, got {type(value).__name__}, which is lazy. Pass "
            "the table that its method `collect` returns."
        )
    if is_pandas:
        return TableInMemory(title, [(key, value.iloc[:, i]) for i, key in enumerate(value.columns)])
    names = getattr(value, "column_names", None) or getattr(value, "columns", None)
    if names is not None and not callable(names) and hasattr(value, "__getitem__"):
        return TableInMemory(title, [(name, value[name]) for name in names])
    if hasattr(value, "shape") and len(value.shape) == 2:
        array = np.asarray(value)
        return TableInMemory(title, list(enumerate(array.T)))
    raise ParameterError(
        f"{named(role)} must be a table (a DataFrame, anything that streams Arrow batches, a dict of columns, a 2-d "
        "array) or the path of one, got "
        f"{type(value).__name__}{f' of shape {tuple(value.shape)}' if hasattr(value, 'shape') else ''}. Pass e.g. a "
        "DataFrame with a column per variable."
    )


def _without_index(column: Any) -> Any:
    """Return a column as it is; of pandas the values themselves, since slices of a Series may go by its index."""
    if not hasattr(column, "iloc"):
        return column
    return column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array


def _check_column(title: str, name: str, column: Any) -> None:
    """Refuse a column that is no list or array of one dimension."""
    if isinstance(column, str | bytes | Mapping) or not (hasattr(column, "__len__") and hasattr(column, "__getitem__")):
        raise DataError(
            f"{title} must hold columns of values, got {type(column).__name__} for {name!r}. Pass a list or an array."
        )
    if len(getattr(column, "shape", (0,))) != 1:
        raise ShapeError(
            f"{title} must hold one-dimensional columns, got shape {tuple(column.shape)} for {name!r}. Give each "
            "column a name of its own."
        )
