"""The cells of a column as an array, and how they are read: as gaps, numbers, days and labels.

Every source of tables hands out its columns as `Cells`, a subclass for each way in which cells are stored:

=================  =====================================  ==========================================
`FloatCells`       float64, NaN for gaps                  most columns of DataFrames, arrays, parquet
`IntegerCells`     int64 or uint64                        counts, codes
`TruthCells`       bool                                   flags
`DayCells`         datetime64[D]                          dates of typed tables
`TimeCells`        datetime64[us] without a time zone     times of typed tables
`DurationCells`    timedelta64[us]                        durations of typed tables
`TextCells`        Python strings                         csv; labels
`OtherCells`       any Python values                      columns of several types; decimals; time zones
=================  =====================================  ==========================================

What a text or another Python value means is said once, for one cell: `is_missing`, `as_number`, `as_day`, `label_of`.
The classes apply these to whole columns: typed ones by arithmetic on the array, others once for each different cell.
Read `Cells` first, then `cells_of`, which chooses the class for a list of Python values. Nothing here knows about names
of columns, samples or tables, or decides what a column is; that is the subject of `kinds`.
"""

from __future__ import annotations

import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as DecimalNumber
from functools import cached_property
from numbers import Real
from operator import itemgetter
from typing import Any, ClassVar, Literal, Self

import numpy as np

from condcs._core.arrays import AnyArray, BoolArray, FloatArray, IntArray

DecimalSign = Literal[".", ","]
"""DecimalSign signs that can be chosen."""

GAPS = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "null", "none", "nat", "<na>", "inf", "-inf", "+inf", "infinity", "-infinity"}
)
"""Texts that stand for a missing value, in small letters; infinite values cannot be compared and count too."""

GAP_LABEL = "missing"
"""The category of gaps."""

# Room for blanks around a mark, so that the length alone tells that most texts are none.
_LONGEST_MARK = max(map(len, GAPS)) + 4

_SECONDS_OF_A_DAY = 86_400.0  # leap seconds are not counted, as in POSIX time


# --- one cell ---------------------------------------------------------------------------------------------------------


def is_missing(cell: Any) -> bool:
    """Whether a cell is a gap: nothing, NaN or infinity, or a text that says so."""
    if cell is None:
        return True
    if isinstance(cell, str):
        if not cell or cell.isspace():
            return True
        # Most cells are decided by their last character or their length.
        return not cell[-1].isdigit() and len(cell) <= _LONGEST_MARK and cell.strip().lower() in GAPS
    return isinstance(cell, float) and not math.isfinite(cell)


def gap_marks(marks: Sequence[str]) -> Callable[[Any], bool]:
    """Return what tells marks of gaps, comma-separated texts, from other cells.

    Text counts as it is written, but for blanks around it and capitals; typed numbers count by their value.
    """
    texts = {mark.strip().lower() for listed in marks for mark in listed.split(",")} - {""}
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


def as_number(cell: Any, decimal: DecimalSign = ".") -> float:
    """Return a cell as a finite number, durations in days, or raise `ValueError`."""
    if isinstance(cell, timedelta):
        return cell.total_seconds() / _SECONDS_OF_A_DAY
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


YEAR_LAST = re.compile(r"\s*(\d{1,2})[./-](\d{1,2})[./-](\d{4})(?!\d)")
"""The beginning of a date in numbers whose year stands last: which of the others is the month, it does not say."""


def as_day(cell: Any, day_first: bool | None = None) -> float:
    """Return a date as days since 1970, or raise `ValueError`.

    `day_first` tells how to read 03/04/2026; None leaves such dates unread.
    """
    if isinstance(cell, str):
        numbers = YEAR_LAST.match(cell) if day_first is not None else None
        if numbers is not None:
            day, month = (numbers[1], numbers[2]) if day_first else (numbers[2], numbers[1])
            cell = f"{numbers[3]}-{int(month):02}-{int(day):02}{cell[numbers.end() :]}"
        # With the year first, slashes leave no doubt about what is a month.
        cell = datetime.fromisoformat(cell.strip().replace("/", "-"))
    elif hasattr(cell, "to_timestamp"):
        # A period of pandas, such as a month, is its beginning.
        cell = cell.to_timestamp()
    try:
        if isinstance(cell, datetime):
            return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp() / _SECONDS_OF_A_DAY
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


def reads(read: Callable[..., float], *arguments: Any) -> bool:
    """Whether a function can read a cell."""
    try:
        read(*arguments)
    except ValueError:
        return False
    return True


def _value_or_nan(read: Callable[..., float], *arguments: Any) -> float:
    """Return what a function reads in a cell, NaN where it cannot."""
    try:
        return read(*arguments)
    except ValueError:
        return math.nan


# --- the cells of a column --------------------------------------------------------------------------------------------


class Cells(ABC):
    """The cells of one column of some rows: `values` (n,) as they are stored, and in which rows there are `gaps` (n,).

    A subclass says how its values are listed as Python values, and reads those kinds that its type allows; what it does
    not override holds for no cell (`days` of numbers) or follows from the cells one by one (labels).
    """

    def __init__(self, values: AnyArray, gaps: BoolArray) -> None:
        self.values, self.gaps = values, gaps

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: AnyArray | slice) -> Self:
        """Return the cells of some rows."""
        return type(self)(self.values[rows], self.gaps[rows])

    def with_gaps(self, gaps: BoolArray) -> Self:
        """Return the cells with gaps (n,) in further rows."""
        return type(self)(self.values, self.gaps | gaps)

    def tolist(self) -> list[Any]:
        """Return Python values (n,), and for gaps None or what stands for them."""
        cells: list[Any] = self.values.tolist()
        for row in np.flatnonzero(self.gaps):
            cells[row] = None
        return cells

    def cell(self, row: int) -> Any:
        """Return one cell as a Python value, None for a gap."""
        return None if self.gaps[row] else self.take(slice(row, row + 1)).tolist()[0]

    @cached_property
    def distinct(self) -> tuple[list[Any], IntArray]:
        """Different cells in the order of their first rows, and which of them (n,) each row has, -1 for gaps."""
        codes = np.full(len(self), -1)
        different, first, inverse = np.unique(self.values[~self.gaps], return_index=True, return_inverse=True)
        by_first_row = np.argsort(first)
        rank = np.empty(len(first), dtype=int)
        rank[by_first_row] = np.arange(len(first))
        codes[~self.gaps] = rank[inverse]
        return different[by_first_row].tolist(), codes

    def with_marks(self, is_mark: Callable[[Any], bool]) -> Self:
        """Return the cells with gaps where there are marks of them."""
        cells, codes = self.distinct
        # The last one is that of gaps, by the code -1.
        are_marks = np.array([*map(is_mark, cells), False])
        return self.with_gaps(are_marks[codes]) if are_marks.any() else self

    def label_codes(self) -> tuple[list[str], IntArray]:
        """Return the labels in the order of their first rows, and which of them (n,) each row has, -1 for gaps."""
        cells, codes = self.distinct
        # Several cells, such as "1" and "1.0", may be one label.
        code_of_label: dict[str, int] = {}
        label_codes = [code_of_label.setdefault(label_of(cell), len(code_of_label)) for cell in cells]
        return list(code_of_label), np.array([*label_codes, -1])[codes]

    def labels(self) -> list[str]:
        """Return the cells (n,) as categories."""
        labels, codes = self.label_codes()
        return np.array([*labels, GAP_LABEL], dtype=object)[codes].tolist()  # type: ignore[no-any-return]

    def label_counts(self) -> dict[str, int]:
        """Return how many rows have each label, in the order of their first rows, gaps left out."""
        labels, codes = self.label_codes()
        return dict(zip(labels, np.bincount(codes[codes >= 0], minlength=len(labels)).tolist(), strict=True))

    def numbers(self, decimal: DecimalSign = ".") -> FloatArray:
        """Return the cells (n,) as numbers, NaN for gaps and for what is no number."""
        return np.full(len(self), np.nan)

    def days(self) -> FloatArray:
        """Return the cells (n,) as days since 1970, NaN for gaps and for what is no date."""
        return np.full(len(self), np.nan)

    def read_each(self, read: Callable[..., float], *options: Any) -> FloatArray:
        """Return what a function reads in the cells (n,), NaN for gaps and where it raises `ValueError`."""
        cells, codes = self.distinct
        return np.array([*(_value_or_nan(read, cell, *options) for cell in cells), math.nan])[codes]

    def texts(self) -> list[str]:
        """Return those cells that are texts."""
        return []

    def with_sign(self, sign: str, instead_of: str) -> Cells:
        """Return the cells with another decimal sign in their texts."""
        return self

    def sizes(self) -> IntArray:
        """Return about how many bytes each cell (n,) takes up: a reference, and its value as a Python object.

        For typed values, of 8 bytes each, that is an upper bound.
        """
        return np.where(self.gaps, _GAP_SIZE, self._value_sizes()) + _REFERENCE_SIZE

    @abstractmethod
    def _value_sizes(self) -> IntArray | int: ...


_REFERENCE_SIZE = 8  # bytes of a pointer, which is what a list holds of each value
_GAP_SIZE = sys.getsizeof(None)


class FloatCells(Cells):
    """Numbers; a gap is NaN or infinite."""

    def __init__(self, values: AnyArray, gaps: BoolArray | None = None) -> None:
        values = values.astype(np.float64, copy=False)
        super().__init__(values, ~np.isfinite(values) if gaps is None else gaps)

    def tolist(self) -> list[Any]:
        """Return Python values, NaN for gaps."""
        return self.numbers().tolist() if self.gaps.any() else self.values.tolist()  # type: ignore[no-any-return]

    def numbers(self, decimal: DecimalSign = ".") -> FloatArray:
        """Return the numbers."""
        return np.where(self.gaps, np.nan, self.values)

    def _value_sizes(self) -> int:
        return sys.getsizeof(1.0)


_INTEGER_STEPS = np.array([1, 1 << 30, 1 << 60], np.uint64)  # from these on, an integer has one more digit of 30 bits
_INTEGER_SIZES = np.array([sys.getsizeof(n) for n in (0, 1, 1 << 30, 1 << 60)])
"""Python's integers grow by four bytes with every 30 bits."""


class IntegerCells(Cells):
    """Whole numbers of up to 64 bits."""

    def numbers(self, decimal: DecimalSign = ".") -> FloatArray:
        """Return the numbers."""
        return np.where(self.gaps, np.nan, self.values.astype(np.float64))

    def _value_sizes(self) -> IntArray:
        # The absolute value of the lowest integer is right only as one without a sign.
        magnitude = np.abs(self.values).astype(np.uint64)
        return _INTEGER_SIZES[np.searchsorted(_INTEGER_STEPS, magnitude, side="right")]


class TruthCells(Cells):
    """Truth values; they are labels, and no numbers."""

    def _value_sizes(self) -> IntArray:
        return np.where(self.values, sys.getsizeof(True), sys.getsizeof(False))


_EXACT_MICROSECONDS = 1 << 53
"""More of them, from the year 2255 on, are no exact floating-point number."""


class _SpanCells(Cells):
    """Dates, times or durations; a gap is NaT."""

    _example: ClassVar[date | timedelta]

    def __init__(self, values: AnyArray, gaps: BoolArray | None = None) -> None:
        super().__init__(values, np.isnat(values) if gaps is None else gaps)

    def _in_days(self, read: Callable[[Any], float]) -> FloatArray:
        """Return microseconds in days: as `read`, which is applied where doubles are not exact."""
        microseconds = self.values.astype(np.int64)
        days = microseconds / 1e6 / _SECONDS_OF_A_DAY
        days[self.gaps] = np.nan
        inexact = ~self.gaps & (np.abs(microseconds) >= _EXACT_MICROSECONDS)
        if inexact.any():
            days[inexact] = [read(cell) for cell in self.values[inexact].tolist()]
        return days

    def _value_sizes(self) -> int:
        return sys.getsizeof(self._example)


class DayCells(_SpanCells):
    """Dates without a time of day, in the years 1 to 9999."""

    _example = date(1970, 1, 1)

    def days(self) -> FloatArray:
        """Return days since 1970."""
        return np.where(self.gaps, np.nan, self.values.astype(np.int64).astype(np.float64))


class TimeCells(_SpanCells):
    """Times without a time zone, in the years 1 to 9999."""

    _example = datetime(1970, 1, 1)

    def days(self) -> FloatArray:
        """Return days since 1970."""
        return self._in_days(as_day)


class DurationCells(_SpanCells):
    """Durations; their number is that of their days."""

    _example = timedelta(1)

    def numbers(self, decimal: DecimalSign = ".") -> FloatArray:
        """Return days."""
        return self._in_days(as_number)


class OtherCells(Cells):
    """Python values of any type, in an array of objects; each is looked at by itself.

    Not once for several that are equal: `True == 1`, and a moment in two time zones, are written differently.
    """

    def __init__(self, values: AnyArray, gaps: BoolArray | None = None) -> None:
        gaps = np.fromiter(map(is_missing, values), bool, len(values)) if gaps is None else gaps
        super().__init__(values, gaps)

    def with_gaps(self, gaps: BoolArray) -> Self:
        """Return the cells with gaps in further rows."""
        # Unlike the cells that come as gaps, whose texts some callers use, marks are not kept.
        values = self.values.copy()
        values[gaps] = None
        return type(self)(values, self.gaps | gaps)

    def tolist(self) -> list[Any]:
        """Return the values; gaps as they were written."""
        return self.values.tolist()  # type: ignore[no-any-return]

    @cached_property
    def distinct(self) -> tuple[list[Any], IntArray]:
        """The cells that are no gaps, and which of them each row has."""
        rows = np.flatnonzero(~self.gaps)
        codes = np.full(len(self), -1)
        codes[rows] = np.arange(len(rows))
        return self.values[rows].tolist(), codes

    def numbers(self, decimal: DecimalSign = ".") -> FloatArray:
        """Return numbers, also those that are written as texts."""
        return self.read_each(as_number, decimal)

    def days(self) -> FloatArray:
        """Return days since 1970, also of dates that are written as texts (ISO 8601)."""
        return self.read_each(as_day)

    def texts(self) -> list[str]:
        """Return those cells that are texts."""
        return [cell for cell in self.values[~self.gaps] if isinstance(cell, str)]

    def with_sign(self, sign: str, instead_of: str) -> Cells:
        """Return the cells with another decimal sign in their texts."""
        rewritten = (cell.replace(instead_of, sign) if isinstance(cell, str) else cell for cell in self.values)
        return type(self)(_objects(rewritten, len(self)), self.gaps)

    def _value_sizes(self) -> IntArray:
        return np.fromiter(map(sys.getsizeof, self.values), int, len(self))


class TextCells(OtherCells):
    """Texts; gaps may be anything, such as NaN."""

    def __init__(self, values: AnyArray, gaps: BoolArray | None = None) -> None:
        super().__init__(values, _gaps_of_texts(values) if gaps is None else gaps)

    @cached_property
    def distinct(self) -> tuple[list[Any], IntArray]:
        """Different texts in the order of their first rows, and which of them each row has."""
        code_of_text: dict[str, int] = {}
        codes = np.full(len(self), -1)
        present = ~self.gaps
        codes[present] = [code_of_text.setdefault(text, len(code_of_text)) for text in self.values[present]]
        return list(code_of_text), codes

    def numbers(self, decimal: DecimalSign = ".") -> FloatArray:
        """Return numbers that are written as texts."""
        texts = self.values[~self.gaps]
        joined = "".join(texts)
        # What `as_number` refuses before it asks Python.
        if "_" not in joined and not (decimal == "," and "." in joined):
            plain = _objects((text.replace(",", ".") for text in texts), len(texts)) if decimal == "," else texts
            values = _as_floats(plain)
            if values is not None and np.isfinite(values).all():
                numbers = np.full(len(self), np.nan)
                numbers[~self.gaps] = values
                return numbers
        return super().numbers(decimal)


def _as_floats(texts: AnyArray) -> FloatArray | None:
    """Return texts as Python reads numbers, None if one of them is no number."""
    try:
        return texts.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _gaps_of_texts(texts: AnyArray) -> BoolArray:
    """Return which texts (n,) are gaps, None included."""
    try:
        may_be_gaps = not all(last.isdigit() for last in set(map(_last_character, texts)))
    except (IndexError, TypeError):
        # An empty text, or none.
        may_be_gaps = True
    # Most columns of csv are numbers, whose last characters tell enough.
    gaps = {text for text in set(texts) if is_missing(text)} if may_be_gaps else set()
    if not gaps:
        return np.zeros(len(texts), bool)
    return np.fromiter((text in gaps for text in texts), bool, len(texts))


_last_character = itemgetter(-1)


# --- cells from Python values and numpy arrays ------------------------------------------------------------------------


def cells_of(values: Cells | Sequence[Any]) -> Cells:
    """Return Python values as the cells of a column; gaps are what `is_missing` says."""
    if isinstance(values, Cells):
        return values
    types = set(map(type, values))
    may_be_none = types - {type(None)}
    if may_be_none <= {str}:
        return TextCells(_objects(values, len(values)))
    if may_be_none == {float}:
        return FloatCells(np.array(values, np.float64))
    if may_be_none in ({int}, {bool}):
        gaps = np.fromiter((value is None for value in values), bool, len(values))
        plain = [value or 0 for value in values] if gaps.any() else values
        if may_be_none == {bool}:
            return TruthCells(np.array(plain, bool), gaps)
        try:
            return IntegerCells(np.array(plain, np.int64), gaps)
        except OverflowError:
            return OtherCells(_objects(values, len(values)), gaps)
    cells = OtherCells(_objects(values, len(values)))
    if set(map(type, cells.values[~cells.gaps])) <= {str}:
        # Texts with gaps that are none, as pandas has NaN among them.
        return TextCells(cells.values, cells.gaps)
    return cells


def cells_of_array(array: AnyArray, gaps: BoolArray | None = None) -> Cells | None:
    """Return a typed numpy array (n,) as cells, None if its type is none of theirs."""
    no_gaps = np.zeros(len(array), bool) if gaps is None else gaps
    kind = array.dtype.kind
    if kind == "f" and array.itemsize <= 8:
        cells = FloatCells(array)
        return cells if gaps is None else cells.with_gaps(gaps)
    if kind in "iu":
        return IntegerCells(array.astype(np.uint64 if kind == "u" else np.int64, copy=False), no_gaps)
    if kind == "b":
        return TruthCells(array, no_gaps)
    if kind == "M":
        times = array.astype("datetime64[us]")
        # What Python has no time for comes out as whole numbers.
        return TimeCells(times) if _are_python_times(array) else cells_of(times.tolist())
    if kind == "m":
        return DurationCells(array.astype("timedelta64[us]"))
    return None


def _are_python_times(times: AnyArray) -> bool:
    """Whether times (n,) of any unit are in the years 1 to 9999, for which Python has times."""
    present = times[~np.isnat(times)]
    if np.datetime_data(times.dtype)[0] in _FINE_UNITS:
        return True
    # In their own unit: what is outside may not fit another one.
    first, last = (np.datetime64(end, "us").astype(times.dtype) for end in (datetime.min, datetime.max))
    return bool(np.all((present >= first) & (present <= last)))


_FINE_UNITS = ("ns", "ps", "fs", "as")
"""Of nanoseconds, 64 bits hold 584 years around 1970; of finer units, less."""


def cells_of_dates(dates: AnyArray) -> Cells | None:
    """Return dates (n,), in days, as cells without a time of day; None if one is not in the years 1 to 9999."""
    return DayCells(dates) if _are_python_times(dates) else None


def cells_of_codes(codes: IntArray, labels: Callable[[IntArray], list[Any]]) -> Cells:
    """Return labels by their codes (n,), -1 for gaps; `labels` returns those of some codes, and is asked once."""
    used, row_ranks = np.unique(codes, return_inverse=True)  # the code of row i is used[row_ranks[i]]
    gap_label = [None] if np.any(used < 0) else []
    return cells_of([*gap_label, *labels(used[used >= 0])]).take(row_ranks)


def join_cells(parts: Sequence[Cells]) -> Cells:
    """Return the cells of several batches of one column; where their types differ, as the Python values ask for."""
    if len(parts) < 2:
        return parts[0] if parts else cells_of([])
    first = parts[0]
    if all(type(part) is type(first) and part.values.dtype == first.values.dtype for part in parts):
        gaps = np.concatenate([part.gaps for part in parts])
        return type(first)(np.concatenate([part.values for part in parts]), gaps)
    return cells_of(
        [None if gap else cell for part in parts for cell, gap in zip(part.tolist(), part.gaps, strict=True)]
    )


def _objects(values: Iterable[Any], count: int) -> AnyArray:
    """Return Python values as an array (n,) of objects."""
    array = np.empty(count, dtype=object)
    array[:] = values if isinstance(values, list) else list(values)
    return array
