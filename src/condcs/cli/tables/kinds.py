"""What a column is, number or category, and how its cells become the numbers that the kernels see."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from condcs.core.errors import DataError

FloatArray = np.ndarray[Any, Any]

_DAY = 86_400.0
# A category that hardly repeats matches nothing: an identifier, or a date written in words.
_FEWEST_REPEATS = 2.0
_UNKNOWN = -1.0


@dataclass(frozen=True)
class Column:
    """How one column is read.

    Attributes
    ----------
    name : str
        Its name.
    kind : {"number", "date", "category"}
        Dates are days since 1970.
    labels : tuple of str
        The categories; a cell's code is its place here.
    """

    name: str
    kind: str
    labels: tuple[str, ...] = ()
    _codes: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_category(self) -> bool:
        """Whether cells are compared for equality only."""
        return self.kind == "category"

    def encode(self, cells: Iterable[Any], title: str) -> FloatArray:
        """Return numbers, or codes; a category that was not there when kinds were told is coded apart."""
        if self.is_category:
            codes = self._codes or {label: code for code, label in enumerate(self.labels)}
            return np.array([codes.get(_label(cell), _UNKNOWN) for cell in cells], np.float64)
        read = _as_number if self.kind == "number" else _as_day
        try:
            return np.array([read(cell) for cell in cells], np.float64)
        except (ValueError, OverflowError) as error:
            raise DataError(
                f"{title} must hold a {self.kind} in every cell of column {self.name!r}, as before. {error}."
            ) from error

    def relabelled(self, labels: Sequence[str]) -> Column:
        """Return the column with its categories in another order."""
        return Column(self.name, self.kind, tuple(labels), {label: code for code, label in enumerate(labels)})


def tell_kind(name: str, samples: Sequence[Sequence[Any]], *, category: bool | None, response: bool) -> Column:
    """Find out what a column is from the cells of all samples together.

    A number if every cell reads as one, a date if every cell is one (ISO 8601), else a category. Truth values, and a
    response that takes two values only, are categories.

    Parameters
    ----------
    name : str
        The column.
    samples : sequence of sequences
        Its cells in each table, without gaps.
    category : bool or None
        What the caller says it is; None lets the cells tell.
    response : bool
        Whether it is a column of y.
    """
    counts = Counter(_label(cell) for cells in samples for cell in cells)
    total = sum(counts.values())
    if category is not True:
        kind = _numeric_kind(samples)
        if kind is not None and not (response and len(counts) == 2 and category is None):
            return Column(name, kind)
        if kind is None and category is False:
            raise DataError(
                f"`--number` must name columns of numbers, but {name!r} holds {_first_text(samples)!r}. Leave it out."
            )
    if len(counts) > max(2.0, total / _FEWEST_REPEATS):
        raise DataError(
            f"column {name!r} holds text that hardly repeats ({len(counts):,} different values in {total:,} rows), so "
            f"as a category nothing could be compared. Leave it out with --x '!{name}', or turn it into a number."
        )
    labels = sorted(counts)
    return Column(name, "category", tuple(labels), {label: code for code, label in enumerate(labels)})


def _numeric_kind(samples: Sequence[Sequence[Any]]) -> str | None:
    for kind, read in (("number", _as_number), ("date", _as_day)):
        try:
            for cells in samples:
                for cell in cells:
                    read(cell)
        except (ValueError, OverflowError):
            continue
        return kind
    return None


def _first_text(samples: Sequence[Sequence[Any]]) -> str:
    for cells in samples:
        for cell in cells:
            try:
                _as_number(cell)
            except ValueError:
                return str(cell)
    return ""


def _as_number(cell: Any) -> float:
    if isinstance(cell, bool) or not isinstance(cell, str | Real | Decimal):
        raise ValueError(f"{cell!r} is no number")
    if isinstance(cell, str) and "_" in cell:  # Python reads 1_000, tables do not mean it
        raise ValueError(f"{cell!r} is no number")
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError(f"{cell!r} is too large")
    return value


def _as_day(cell: Any) -> float:
    if isinstance(cell, str):
        cell = datetime.fromisoformat(cell.strip())
    if isinstance(cell, datetime):
        return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp() / _DAY
    if isinstance(cell, date):
        return float((cell - date(1970, 1, 1)).days)
    raise ValueError(f"{cell!r} is no date")


def _label(cell: Any) -> str:
    if isinstance(cell, str):
        return cell.strip()
    # 1 and 1.0, from two formats, are the same category.
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
