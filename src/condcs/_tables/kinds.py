"""What a cell is (a gap, a number, a date, a category), and how columns become the numbers that the kernels see."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as DecimalNumber
from numbers import Real
from typing import Any, Literal

import numpy as np

from condcs._core.errors import DataError
from condcs._tables.cycles import Cycle

GAPS = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "null", "none", "nat", "<na>", "inf", "-inf", "+inf", "infinity", "-infinity"}
)
"""Texts that stand for a missing value, in small letters; infinite values cannot be compared and count too."""

_LONGEST = max(map(len, GAPS)) + 4

FloatArray = np.ndarray[Any, Any]

Decimal = Literal[".", ","]
"""Decimal signs that can be chosen."""

Kind = Literal["number", "date", "category"]
"""What a column is."""

_DAY = 86_400.0
_UNKNOWN = -1.0
# From this share of numbers on, a column is taken for one of numbers with a few cells that went wrong.
_NEARLY_ALL = 0.8
_MOST_MARKS = 3

# Numbers that Python does not read: a decimal comma; separated thousands; a currency, a percent sign.
_COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)
_THOUSANDS = re.compile(
    r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?|[+-]?\d{1,3}(\.\d{3})+(,\d*)?|[+-]?\d{1,3}([ '’\u00a0\u202f]\d{3})+([.,]\d*)?"
)
_SIGNS = re.compile(r"\s*([$€£¥₹%]|USD|EUR|GBP|CHF|JPY)\s*", re.IGNORECASE)

Odd = tuple[int, int, Any]
"""A cell that is not a number: which sample, which row of it, and the cell."""

GAP_LABEL = "missing"
"""The category of gaps."""

LABEL_WIDTH = 0.5
"""Bandwidth for 0/1 columns: two labels, sqrt(2) apart, have a similarity of exp(-4)."""


def is_missing(cell: Any) -> bool:
    """Whether a cell is a gap: nothing, NaN or infinity, or a text that says so."""
    if cell is None:
        return True
    if isinstance(cell, str):
        if not cell or cell.isspace():
            return True
        # Most cells are decided by their last character or their length.
        return not cell[-1].isdigit() and len(cell) <= _LONGEST and cell.strip().lower() in GAPS
    return isinstance(cell, float) and not math.isfinite(cell)


def gap_marks(given: Sequence[str]) -> Callable[[Any], bool]:
    """Return what tells marks of gaps, comma-separated texts, from other cells.

    Text counts as it is written, but for blanks around it and capitals; typed numbers count by their value.
    """
    texts = {mark.strip().lower() for marks in given for mark in marks.split(",")} - {""}
    numbers = set()
    for text in texts:
        try:
            numbers.add(float(text))
        except ValueError:
            continue

    def is_mark(cell: Any) -> bool:
        if isinstance(cell, str):
            return cell.strip().lower() in texts
        return isinstance(cell, int | float) and not isinstance(cell, bool) and cell in numbers

    return is_mark


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
    decimal : {".", ","}
        Decimal sign of numbers that are written as text.
    note : str
        What a reader of the result should know about it.
    source : str
        The column of the table that it is a part of, if it is one: of a date, or a flag of gaps.
    cycle : Cycle, optional
        What it repeats with, if it is a part of a date.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    decimal: Decimal = "."
    note: str = field(default="", compare=False)
    _codes: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    source: str = ""
    cycle: Cycle | None = None

    @property
    def is_category(self) -> bool:
        """Whether cells are compared for equality only."""
        return self.kind == "category"

    def encode(self, cells: Iterable[Any], title: str) -> FloatArray:
        """Return numbers, or codes; a category that was not among the labels gets a code of its own.

        A gap (None) is NaN, and in a category a label as any other.
        """
        if self.is_category:
            codes = self._codes or {label: code for code, label in enumerate(self.labels)}
            return np.array([codes.get(label_of(cell), _UNKNOWN) for cell in cells], np.float64)
        try:
            return np.array([math.nan if cell is None else self._read(cell) for cell in cells], np.float64)
        except ValueError as error:
            raise DataError(
                f"{title} must hold a {self.kind} in every cell of column {self.name!r}, as before. {error}."
            ) from error

    def _read(self, cell: Any) -> float:
        return as_number(cell, self.decimal) if self.kind == "number" else as_day(cell)

    def relabelled(self, labels: Sequence[str]) -> Column:
        """Return the column with its categories in another order."""
        return replace(self, labels=tuple(labels), _codes={label: code for code, label in enumerate(labels)})


def describe_columns(columns: Sequence[Column]) -> list[str]:
    """Name columns and their kinds, the parts of a date together."""
    shown: dict[str, list[str]] = {}
    for column in columns:
        if column.source and column.kind != "category":
            part = column.cycle.part if column.cycle is not None else "trend"
            shown.setdefault(f"{column.source} (date: ", []).append(part)
        elif column.source:
            shown[column.name] = []
        else:
            what = f"{len(column.labels)} categories" if column.is_category else column.kind
            shown[f"{column.name} ({what})"] = []
    return [f"{words}{', '.join(dict.fromkeys(parts))})" if parts else words for words, parts in shown.items()]


def odd_cells(samples: Sequence[Sequence[Any]], decimal: Decimal) -> list[Odd]:
    """Return the cells that are not numbers."""
    return [
        (place, row, cell)
        for place, cells in enumerate(samples)
        for row, cell in enumerate(cells)
        if cell is not None and not reads(as_number, cell, decimal)
    ]


def remedy(texts: Iterable[str], points: bool, decimal: Decimal) -> str:
    """Return what can be done about cells that are not numbers, as a sentence without its full stop.

    Parameters
    ----------
    texts : iterable of str
        The cells that are not numbers, each once.
    points : bool
        Whether other cells are numbers with a decimal point.
    decimal : {".", ","}
        The decimal sign that they were read with.
    """
    texts = list(texts)
    marks = [text for text in texts if not written_otherwise(text)]
    commas = [text for text in texts if _COMMA.fullmatch(text)]
    others = [text for text in texts if text not in marks and text not in commas]
    advice = []
    if decimal == "," and others and all(reads(as_number, text) for text in others):
        advice.append(
            "leave `decimal` out if points are decimal signs, or write 1200 for 1.200 if they separate thousands"
        )
    elif others or (commas and points):
        shown = (others or commas)[0]
        advice.append(f"write numbers without thousands separators, currency and percent signs, not as {shown!r}")
    elif commas and all(_THOUSANDS.fullmatch(text) for text in commas):
        advice.append(
            "pass files=FileOptions(decimal=',') if commas are decimal signs, or write 1200 for 1,200 if they separate "
            "thousands"
        )
    elif commas:
        advice.append("pass files=FileOptions(decimal=',') for decimal commas")
    if len(marks) > _MOST_MARKS or any("," in mark for mark in marks):
        advice.append("correct these cells")
    elif marks:
        advice.append(f"pass files=FileOptions(gaps={','.join(marks)!r}) if that means a missing value")
    sentence = "; ".join(advice)
    return sentence[:1].upper() + sentence[1:]


def written_otherwise(text: str) -> bool:
    """Whether a text is a number in a notation that is not read: decimal comma, thousands, currency, percent."""
    bare = _SIGNS.sub("", text.replace("−", "-")).removeprefix("(").removesuffix(")")
    return reads(as_number, bare) or any(form.fullmatch(t) for form in (_COMMA, _THOUSANDS) for t in (bare, text))


def separates_thousands(text: str) -> bool:
    """Whether a text is a number whose points or commas can separate thousands."""
    return _THOUSANDS.fullmatch(text.strip()) is not None


def meant_as_numbers(texts: Mapping[str, int], total: int) -> bool:
    """Whether a column of `total` cells is one of numbers, though these texts, with their counts, are none."""
    others = {text: count for text, count in texts.items() if not written_otherwise(text)}
    # Signs alone ("?", "-", "*") stand for gaps, however many there are.
    signs = not any(c.isalnum() for text in others for c in text)
    odd = sum(others.values())
    return odd < total if signs else odd <= (1 - _NEARLY_ALL) * total


def have_points(samples: Sequence[Sequence[Any]]) -> bool:
    """Whether some cells are texts of numbers with a decimal point."""
    return any(
        isinstance(cell, str) and "." in cell and reads(as_number, cell, ".") for cells in samples for cell in cells
    )


def are_dates(samples: Sequence[Sequence[Any]]) -> bool:
    """Whether all cells but gaps are dates."""
    return all(cell is None or reads(as_day, cell) for cells in samples for cell in cells)


def reads(read: Callable[..., float], *arguments: Any) -> bool:
    """Whether a function can read a cell."""
    try:
        read(*arguments)
    except ValueError:
        return False
    return True


def as_number(cell: Any, decimal: Decimal = ".") -> float:
    """Return a cell as a finite number, durations in days, or raise `ValueError`."""
    if isinstance(cell, timedelta):
        return cell.total_seconds() / _DAY
    if isinstance(cell, bool) or not isinstance(cell, str | Real | DecimalNumber):
        raise ValueError(f"{cell!r} is not a number")
    if isinstance(cell, str):
        # Python reads 1_000, tables do not mean it; where the comma is the decimal sign, 1.200 may be a thousand.
        if "_" in cell or (decimal == "," and "." in cell):
            raise ValueError(f"{cell!r} is not a number")
        if decimal == ",":
            cell = cell.replace(",", ".")
    try:
        value = float(cell)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{cell!r} is too large")
    return value


def as_day(cell: Any) -> float:
    """Return a date as days since 1970, or raise `ValueError`."""
    if isinstance(cell, str):
        # With the year first, slashes leave no doubt about what is a month.
        cell = datetime.fromisoformat(cell.strip().replace("/", "-"))
    elif hasattr(cell, "to_timestamp"):
        # A period of pandas, such as a month, is its beginning.
        cell = cell.to_timestamp()
    try:
        if isinstance(cell, datetime):
            return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp() / _DAY
        if isinstance(cell, date):
            return float((cell - date(1970, 1, 1)).days)
    except OverflowError as error:
        raise ValueError(f"{cell!r} is out of the range of dates") from error
    raise ValueError(f"{cell!r} is not a date")


def label_of(cell: Any) -> str:
    """Return a cell as a category; what stands for a gap (None) is one of its own."""
    if cell is None:
        return GAP_LABEL
    if isinstance(cell, str):
        text = cell.strip()
        # Codes of a column with gaps are often written as floats.
        return text.removesuffix(".0") if text.endswith(".0") and text[:-2].lstrip("-").isdecimal() else text
    # 1 and 1.0, from two formats, are the same category.
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
