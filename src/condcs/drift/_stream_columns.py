"""Columns of a reference and of the rows that follow it: numbers as they are, labels as codes, and gaps.

`encode_reference` finds out what the columns of a reference are, and `StreamColumns` encodes the rows that follow it,
one by one or many at a time. What makes a row unusable is said in `StreamColumns.unusable`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray, IntArray
from condcs._core.errors import DataError, ShapeError
from condcs._core.vocabulary import named
from condcs._tables.cells import cells_of_array, is_missing
from condcs._tables.kinds import Column, tell_kind

UNSEEN = -1.0
"""Code of a label that the reference does not have."""

USABLE, HAS_GAP, HAS_UNSEEN_LABEL = 0, 1, 2
"""Whether a row can be used, and why not. The first is false, so that codes of x and of y are joined by `or`."""


@dataclass(frozen=True)
class StreamColumns:
    """The columns of x or of y."""

    role: str  # "x" or "y"
    columns: tuple[Column, ...]
    are_named: bool  # by the reference; then rows may be dicts

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @cached_property
    def are_labels(self) -> list[bool]:
        """Which columns are labels."""
        return [column.is_category for column in self.columns]

    @cached_property
    def _has_labels(self) -> bool:
        return any(self.are_labels)

    def one(self, row: Any) -> FloatArray:
        """Return one row of numbers and codes, of shape (1, d); gaps are NaN."""
        if isinstance(row, Mapping):
            if not self.are_named:
                raise DataError(
                    f"{named(self.role)} must be an array, got a dict. Make the reference a DataFrame, or pass an "
                    "array."
                )
            self._check_names(row)
            row = [row[name] for name in self.names]
        elif isinstance(row, np.ndarray) and row.dtype.kind in "fi" and not self._has_labels and row.ndim == 1:
            self._check_width(len(row))
            return row[None].astype(np.float64)
        elif type(row) in (float, np.float64) and len(self.columns) == 1 and not self._has_labels:
            return np.array([[row]])
        cells = np.atleast_1d(np.asarray(_with_python_times(row), dtype=object))
        if cells.ndim != 1:
            raise ShapeError(
                f"{named(self.role)} must be one row, got shape {np.shape(row)}. Use `update_many` for several."
            )
        self._check_width(len(cells))
        return np.array([[_encode(column, cell) for column, cell in zip(self.columns, cells, strict=True)]])

    def many(self, table: Any) -> FloatArray:
        """Return rows of numbers and codes, of shape (n, d); gaps are NaN."""
        names, arrays = _names_and_arrays(self.role, table)
        if self.are_named and names is not None:
            self._check_names(names)
            arrays = [arrays[names.index(name)] for name in self.names]
        self._check_width(len(arrays))
        encoded = [
            np.asarray(cells, np.float64)
            if cells.dtype.kind in "fiu" and not column.is_category
            else np.array([_encode(column, cell) for cell in _with_python_times(cells).tolist()], np.float64)
            for column, cells in zip(self.columns, arrays, strict=True)
        ]
        return np.column_stack(encoded)

    def _check_names(self, names: Collection[str]) -> None:
        missing = [name for name in self.names if name not in names]
        if missing:
            raise DataError(
                f"{named(self.role)} must have the columns of the reference, but lacks {missing[0]!r}. Add it."
            )

    def _check_width(self, width: int) -> None:
        if width != len(self.columns):
            raise ShapeError(
                f"{named(self.role)} must have {len(self.columns)} columns, as the reference has, got {width}. "
                "Pass the same columns in the same order."
            )

    def unusable(self, rows: FloatArray) -> IntArray:
        """Return for each row (n,) `USABLE`, `HAS_GAP` (or a word for a number) or `HAS_UNSEEN_LABEL`."""
        gaps = ~np.isfinite(rows).all(axis=1)
        if not self._has_labels:
            return np.where(gaps, HAS_GAP, USABLE)
        unseen = (rows[:, self.are_labels] == UNSEEN).any(axis=1)
        return np.where(gaps, HAS_GAP, np.where(unseen, HAS_UNSEEN_LABEL, USABLE))

    def unusable_row(self, row: list[float]) -> int:
        """Return the same of a single row, without the cost of arrays."""
        if not all(map(math.isfinite, row)):
            return HAS_GAP
        return HAS_UNSEEN_LABEL if self._has_labels and UNSEEN in compress(row, self.are_labels) else USABLE

    def describe(self) -> dict[str, Any]:
        """Return plain JSON values."""
        columns = [column.description for column in self.columns]
        return {"role": self.role, "named": self.are_named, "columns": columns}

    @classmethod
    def from_description(cls, about: Mapping[str, Any]) -> StreamColumns:
        """Undo `describe`."""
        columns = tuple(map(Column.from_description, about["columns"]))
        if not columns:
            raise ValueError("no columns")
        return cls(str(about["role"]), columns, bool(about["named"]))


def encode_reference(
    role: str, argument: str, table: Any, category: Collection[str]
) -> tuple[StreamColumns, FloatArray]:
    """Return the columns of a reference, and its rows as numbers and codes."""
    names, arrays = _names_and_arrays(argument, table)
    # Columns without names are called x, or x0, x1 and so on.
    titles = names or [role if len(arrays) == 1 else f"{role}{index}" for index in range(len(arrays))]
    if not arrays or not len(arrays[0]):
        raise ShapeError(f"{named(argument)} must have rows and columns, got none. Rows are observations.")
    columns, encoded = [], []
    for name, array in zip(titles, arrays, strict=True):  # array: (n,)
        cells = _with_python_times(array).tolist()
        gap = next((row for row, cell in enumerate(cells) if is_missing(cell)), None)
        if gap is not None:
            raise DataError(
                f"{named(argument)} must be finite, got {cells[gap]!r} in row {gap} of column {name!r}. Remove such "
                "rows first."
            )
        are_numbers, is_declared = array.dtype.kind in "fiu", name in category
        if are_numbers and not is_declared and not (role == "y" and len(np.unique(array)) == 2):
            column = Column(name, "number")
        else:
            # Text and truth values, a declared category, and a response of two values, which is a label.
            response = "y" if role == "y" else None
            column = tell_kind(name, [cells], category=True if is_declared else None, response=response)
        columns.append(column)
        encoded.append(column.encode(cells, named(argument)))
    return StreamColumns(role, tuple(columns), names is not None), np.column_stack(encoded)


def _with_python_times(values: Any) -> Any:
    """Return arrays of times or durations, and single ones of numpy, as those of Python, and anything else as it is.

    What numpy itself makes of those in nanoseconds, as pandas has them, are whole numbers.
    """
    if not isinstance(values, np.ndarray | np.generic) or values.dtype.kind not in "mM":
        return values
    cells = cells_of_array(np.ravel(values))
    assert cells is not None  # times and durations have cells
    return np.array(cells.tolist(), object).reshape(np.shape(values))[()]


def _encode(column: Column, cell: Any) -> float:
    if type(cell) is float and column.kind == "number":  # the commonest case
        return cell
    cell = _with_python_times(cell)
    if is_missing(cell):
        return float("nan")
    try:
        return float(column.encode([cell], "row")[0])
    except DataError:
        return float("nan")


def _names_and_arrays(name: str, table: Any) -> tuple[list[str] | None, list[AnyArray]]:
    """Return the names of the columns, if they have any, and the columns as arrays (n,)."""
    if isinstance(table, Mapping):
        return [str(key) for key in table], _same_lengths(name, [np.asarray(column) for column in table.values()])
    columns = getattr(table, "columns", None)
    if columns is not None:
        arrays = [np.asarray(table[column]) for column in columns]
        return [str(column) for column in columns], _same_lengths(name, arrays)
    array = np.asarray(table)
    if array.dtype.kind in "US" and not isinstance(table, np.ndarray):  # numbers beside text would become text
        array = np.asarray(table, dtype=object)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ShapeError(
            f"{named(name)} must have one or two dimensions, got shape {array.shape}. Rows are observations."
        )
    return None, [array[:, index] for index in range(array.shape[1])]


def _same_lengths(name: str, arrays: Sequence[AnyArray]) -> list[AnyArray]:
    if any(array.ndim != 1 or len(array) != len(arrays[0]) for array in arrays):
        raise ShapeError(f"{named(name)} must hold one-dimensional columns of one length. Rows are observations.")
    return list(arrays)
