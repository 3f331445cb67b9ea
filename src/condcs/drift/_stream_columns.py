"""Columns of a reference and of the rows that follow it: numbers as they are, labels as codes, and gaps."""

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
from condcs._tables.cells import is_missing
from condcs._tables.kinds import Column, tell_kind

UNSEEN = -1.0
"""Code of a label that the reference does not have."""


@dataclass(frozen=True)
class StreamColumns:
    """The columns of x or of y."""

    role: str  # "x" or "y"
    columns: tuple[Column, ...]
    named: bool  # whether the reference named them; then rows may be dicts

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
            if not self.named:
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
        cells = np.atleast_1d(np.asarray(row, dtype=object))
        if cells.ndim != 1:
            raise ShapeError(
                f"{named(self.role)} must be one row, got shape {np.shape(row)}. Use `update_many` for several."
            )
        self._check_width(len(cells))
        return np.array([[_encode(column, cell) for column, cell in zip(self.columns, cells, strict=True)]])

    def many(self, table: Any) -> FloatArray:
        """Return rows of numbers and codes, of shape (n, d); gaps are NaN."""
        names, parts = _parts(self.role, table)
        if self.named and names is not None:
            self._check_names(names)
            parts = [parts[names.index(name)] for name in self.names]
        self._check_width(len(parts))
        encoded = [
            np.asarray(part, np.float64)
            if part.dtype.kind in "fiu" and not column.is_category
            else np.array([_encode(column, cell) for cell in part.tolist()], np.float64)
            for column, part in zip(self.columns, parts, strict=True)
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
        """Return for each row 0 if it can be used, 1 for a gap (or a word for a number), 2 for a label never seen."""
        gaps = ~np.isfinite(rows).all(axis=1)
        if not self._has_labels:
            return np.asarray(gaps, np.int64)
        unseen = (rows[:, self.are_labels] == UNSEEN).any(axis=1)
        return np.where(gaps, 1, np.where(unseen, 2, 0))

    def unusable_row(self, row: list[float]) -> int:
        """Return the same of a single row, without the cost of arrays."""
        if not all(map(math.isfinite, row)):
            return 1
        return 2 if self._has_labels and UNSEEN in compress(row, self.are_labels) else 0

    def describe(self) -> dict[str, Any]:
        """Return plain JSON values."""
        listed = [[c.name, c.kind, list(c.labels)] for c in self.columns]
        return {"role": self.role, "named": self.named, "columns": listed}

    @classmethod
    def from_description(cls, about: Mapping[str, Any]) -> StreamColumns:
        """Undo `describe`."""
        columns = tuple(Column(str(n), k, ()).relabelled([str(label) for label in ls]) for n, k, ls in about["columns"])
        if not columns or any(c.kind not in ("number", "date", "category") for c in columns):
            raise ValueError("columns of no known kind")
        return cls(str(about["role"]), columns, bool(about["named"]))


def read_reference(role: str, argument: str, table: Any, category: Collection[str]) -> tuple[StreamColumns, FloatArray]:
    """Return the columns of a reference, and its rows as numbers and codes."""
    names, parts = _parts(argument, table)
    # Columns without names are called x, or x0, x1 and so on.
    titles = names or [role if len(parts) == 1 else f"{role}{index}" for index in range(len(parts))]
    if not parts or not len(parts[0]):
        raise ShapeError(f"{named(argument)} must have rows and columns, got none. Rows are observations.")
    columns, encoded = [], []
    for name, part in zip(titles, parts, strict=True):  # part: (n,)
        cells = part.tolist()
        gap = next((row for row, cell in enumerate(cells) if is_missing(cell)), None)
        if gap is not None:
            raise DataError(
                f"{named(argument)} must be finite, got {cells[gap]!r} in row {gap} of column {name!r}. Remove such "
                "rows first."
            )
        plain = part.dtype.kind in "fiu" and name not in category
        if plain and not (role == "y" and len(np.unique(part)) == 2):
            columns.append(Column(name, "number"))
        else:
            said = True if name in category else None
            columns.append(tell_kind(name, [cells], category=said, response="y" if role == "y" else None))
        encoded.append(columns[-1].encode(cells, f"{named(argument)}"))
    return StreamColumns(role, tuple(columns), names is not None), np.column_stack(encoded)


def _encode(column: Column, cell: Any) -> float:
    if type(cell) is float and column.kind == "number":  # the commonest case
        return cell
    if is_missing(cell):
        return float("nan")
    try:
        return float(column.encode([cell], "row")[0])
    except DataError:
        return float("nan")


def _parts(name: str, table: Any) -> tuple[list[str] | None, list[AnyArray]]:
    """Return the names of the columns, if they have any, and the columns."""
    if isinstance(table, Mapping):
        return [str(key) for key in table], _same_lengths(name, [np.asarray(column) for column in table.values()])
    columns = getattr(table, "columns", None)
    if columns is not None:
        parts = [np.asarray(table[column]) for column in columns]
        return [str(column) for column in columns], _same_lengths(name, parts)
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


def _same_lengths(name: str, parts: Sequence[AnyArray]) -> list[AnyArray]:
    if any(part.ndim != 1 or len(part) != len(parts[0]) for part in parts):
        raise ShapeError(f"{named(name)} must hold one-dimensional columns of one length. Rows are observations.")
    return list(parts)
