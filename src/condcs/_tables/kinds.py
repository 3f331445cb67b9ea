"""What a column is (numbers, dates, categories), and how it becomes the numbers that kernels see.

`tell_kind` is the function to read first: from the cells of all tables together it makes a `Column`, which turns the
cells of any table into numbers (`Column.encode`); `derive_inputs` then makes of each column what is compared of it,
such as the cycles of a date. The kinds that cells can be read as are rows of `READ_KINDS`, each a class that reads
cells as numbers and derives inputs; what none of them reads is a category. A new kind is a new class and its row. What
a kind has to know of a column to read it, such as the decimal sign, is an attribute of `Column` (`ReadKind.column`).

Everything here works on `Cells`, whole columns at a time; how they were stored, in which file, and how rows were
sampled are not known here.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray
from condcs._core.errors import DataError
from condcs._core.vocabulary import named, setting, table_setting
from condcs._tables.cells import (
    GAP_LABEL,
    YEAR_LAST,
    Cells,
    DayCells,
    DecimalSign,
    TimeCells,
    as_day,
    as_number,
    cells_of,
    label_of,
    reads,
)
from condcs._tables.cycles import CYCLES, Cycle

ColumnKind = Literal["number", "date", "category"]
"""What a column is."""

_UNKNOWN = -1.0
"""Code of a label that the column did not have when its labels were told."""

_NEARLY_ALL = 0.8
"""From this share of numbers on, a column is taken for one of numbers with a few cells that went wrong."""

_MOST_MARKS = 3
"""With more different texts among numbers than this, they are mistakes to be corrected rather than marks of gaps."""

_LONGEST_SHOWN = 40
"""Characters of a text that an error shows: of a longer one the beginning, so that the message stays readable."""

# Numbers that Python does not read: a decimal comma; separated thousands; a currency, a percent sign.
_COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)
_THOUSANDS = re.compile(
    r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?|[+-]?\d{1,3}(\.\d{3})+(,\d*)?|[+-]?\d{1,3}([ '’\u00a0\u202f]\d{3})+([.,]\d*)?"
)
_SIGNS = re.compile(r"\s*([$€£¥₹%]|USD|EUR|GBP|CHF|JPY)\s*", re.IGNORECASE)

MOST_LABELS = 20
"""With more labels than this, the rare ones become one: a label of a few rows has nothing to be compared with. Fewer
labels keep their names, however rare: kernels let them borrow strength from the others. Merging those of fewer than 5
rows changed neither the level nor the power of the test (240 rows, 1 and 4 columns of 20 and 15 labels with
frequencies as 1/k: power 0.86 for 0.80, and 0.74 for 0.76, with a standard error of 0.06)."""

OTHER = "other"

_FEWEST_REPEATS = 2.0
"""Rows per label, on average, below which labels match nothing: identifiers, texts, dates in another notation."""

_WORDS_OF_A_TEXT = 3.0
"""Words per cell, on average, from which on such a column is called free text: names are shorter."""

_MOSTLY_DATES = 0.9
"""From this share of dates in another notation on, a column is one of dates; the rest are mistakes."""

_OTHER_DATES = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}([ T].*)?|\d{1,2}[ .-]+[A-Za-z]{3,9}[ .,-]+\d{2,4}([ T].*)?")

_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})

Where = Callable[[int, int], str]
"""Says where a row of a sample is: from the number of the sample and the row."""

_COVERED = 0.9
"""A part of a date counts where each table covers this share of its cycle."""

_FEWEST_IN_COMMON = 0.1
"""A trend counts where this share of the rows of either table lies in the time that both cover."""


class UnusableInput(DataError):
    """A column of which nothing could be compared, as an input; `reason` says why in a few words."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class LeftOut:
    """A column of the table, or a part of one, that is no input, and why.

    Attributes
    ----------
    column : str
        Its name.
    reason : str
        Why, in a few words.
    could_matter : bool
        Whether y may depend on it: a running number, or one value in all rows, takes nothing from an answer.
    """

    column: str
    reason: str
    could_matter: bool = True


_OF_PARTS = {"of_parts": True}
"""Marks attributes of `Column` that only parts of a column have, which are derived from it anew and never saved."""


@dataclass(frozen=True)
class Column:
    """How one column is read: numbers, dates as days since 1970, or categories as codes."""

    name: str
    kind: ColumnKind
    labels: tuple[str, ...] = ()
    decimal: DecimalSign = "."  # of numbers that are written as text
    note: str = field(default="", compare=False)  # what a reader of the result should know about it
    # By default the index of each label; spellings of one value, and rare labels, share a code.
    _codes: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    # The column of the table that it is derived from, if it is: a part of a date, or a flag of gaps.
    source: str = field(default="", metadata=_OF_PARTS)
    cycle: Cycle | None = field(default=None, metadata=_OF_PARTS)  # if it is a part of a date
    day_first: bool | None = None  # of dates as 31/03/2026 or 03/31/2026; None: there are none

    @property
    def is_category(self) -> bool:
        """Whether cells are compared for equality only."""
        return self.kind == "category"

    def encode(self, cells: Cells | Sequence[Any], title: str) -> FloatArray:
        """Return numbers (n,), or codes; a category that was not among the labels gets a code of its own.

        A gap is NaN, and in a category a label as any other.
        """
        if not isinstance(cells, Cells):
            # Python values are mostly those of a single row of a stream, for which arrays would be slower.
            return np.array([self._encode_value(cell, title) for cell in cells], np.float64)
        if self.is_category:
            codes = self._label_codes()
            labels, label_of_row = cells.label_codes()
            # The last one is that of gaps, by the index -1.
            code_of = [codes.get(label, _UNKNOWN) for label in (*labels, GAP_LABEL)]
            return np.array(code_of, np.float64)[label_of_row]
        values = _read_kind(self.kind).values(cells, self)
        unread = np.isnan(values) & ~cells.gaps
        if unread.any():
            raise self._unread_error(cells.cell(int(np.argmax(unread))), title)
        return values

    def fits(self, cells: Cells) -> BoolArray:
        """Return which cells (n,) are of this kind: neither gaps nor, in a category, labels that it does not have."""
        if not self.is_category:
            return ~cells.gaps & ~_read_kind(self.kind).unread(cells, self)
        codes = self._label_codes()
        labels, label_of_row = cells.label_codes()
        # The last one is that of gaps, by the index -1.
        is_known = np.array([*(label in codes for label in labels), False])
        return np.asarray(is_known[label_of_row])

    def _encode_value(self, value: Any, title: str) -> float:
        """Return what `encode` does, of one Python value."""
        if self.is_category:
            return self._label_codes().get(label_of(value), _UNKNOWN)
        if value is None:
            return math.nan
        if type(value) is float and self.kind == "number":
            return value
        try:
            return _read_kind(self.kind).read(value, self)
        except ValueError as error:
            raise self._unread_error(value, title) from error

    def _label_codes(self) -> dict[str, int]:
        """Return the code of each label."""
        return self._codes or {label: code for code, label in enumerate(self.labels)}

    def _unread_error(self, cell: Any, title: str) -> DataError:
        return DataError(
            f"{title} must hold a {self.kind} in every cell of column {self.name!r}, as the reference does, got "
            f"{cell!r}."
        )

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the defaults of what says how cells are read, beside name, kind and labels."""
        always = ("name", "kind", "labels")
        return {
            attribute.name: attribute.default
            for attribute in fields(cls)
            if attribute.name not in always and attribute.compare and not attribute.metadata
        }

    @property
    def description(self) -> list[Any]:
        """What the column is, as plain JSON values: name, kind, labels, and a dict of the attributes that are set."""
        attributes = {name: getattr(self, name) for name in self._defaults()}
        are_set = {name: value for name, value in attributes.items() if value != self._defaults()[name]}
        always = [self.name, self.kind, list(self.labels)]
        return [*always, are_set] if are_set else always

    @classmethod
    def from_description(cls, description: Sequence[Any]) -> Column:
        """Undo `description`; a `ValueError` if the kind is none, or an attribute."""
        name, kind, labels, *are_set = description
        attributes = dict(are_set[0]) if are_set else {}
        if kind not in get_args(ColumnKind):
            raise ValueError(f"no kind of columns: {kind!r}")
        if unknown := attributes.keys() - cls._defaults():
            raise ValueError(f"no attributes of columns: {', '.join(sorted(unknown))}")
        return cls(str(name), kind, **attributes).relabelled([str(label) for label in labels])

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


def remedy_for_texts(texts: Iterable[str], points: bool, decimal: DecimalSign) -> str:
    """Return what can be done about cells that are not numbers, as a sentence without its full stop."""
    advice = advice_for_texts(texts, points, decimal)
    return advice[:1].upper() + advice[1:]


def advice_for_texts(texts: Iterable[str], points: bool, decimal: DecimalSign) -> str:
    """Return what can be done about cells that are not numbers, as the end of a sentence."""
    texts = list(texts)
    marks = [text for text in texts if not written_otherwise(text)]
    commas = [text for text in texts if _COMMA.fullmatch(text)]
    others = [text for text in texts if text not in marks and text not in commas]
    advice = []
    if decimal == "," and others and all(reads(as_number, text) for text in others):
        advice.append(
            f"leave {named('decimal')} out if points are decimal signs, or write 1200 for 1.200 if they separate "
            "thousands"
        )
    elif others or (commas and points):
        shown = (others or commas)[0]
        advice.append(f"write numbers without thousands separators, currency and percent signs, not as {shown!r}")
    elif commas and all(_THOUSANDS.fullmatch(text) for text in commas):
        advice.append(
            f"pass {table_setting('decimal', ',')} if commas are decimal signs, or write 1200 for 1,200 if they "
            "separate thousands"
        )
    elif commas:
        advice.append(f"pass {table_setting('decimal', ',')} for decimal commas")
    if len(marks) > _MOST_MARKS or any("," in mark for mark in marks):
        advice.append("correct these cells")
    elif marks:
        advice.append(f"pass {table_setting('gaps', ','.join(marks))} if that means a missing value")
    return "; ".join(advice)


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


def have_points(samples: Sequence[Cells]) -> bool:
    """Whether some cells are texts of numbers with a decimal point."""
    return any("." in text and reads(as_number, text, ".") for cells in samples for text in cells.texts())


# --- kinds that cells are read as -------------------------------------------------------------------------------------


class ReadKind(ABC):
    """A kind of column whose cells are read as numbers."""

    name: ColumnKind

    def column(self, name: str, samples: Sequence[Cells], decimal: DecimalSign) -> Column:
        """Return a column of this kind, with what is to be known of all samples together to read one of its cells."""
        return Column(name, self.name, decimal=decimal)

    @abstractmethod
    def read(self, cell: Any, column: Column) -> float:
        """Return one cell of a column, as a Python value, as a number, or raise `ValueError`."""

    @abstractmethod
    def derive(self, column: Column, values: Sequence[FloatArray]) -> list[Derived]:
        """Return the inputs that such a column is compared by; `values` has gaps as NaN."""

    def values(self, cells: Cells, column: Column) -> FloatArray:
        """Return cells (n,) of a column as numbers; NaN for gaps, and for those that are not of this kind."""
        return cells.read_each(self.read, column)

    def unread(self, cells: Cells, column: Column) -> BoolArray:
        """Return which cells (n,) of a column are neither gaps nor of this kind."""
        return np.isnan(self.values(cells, column)) & ~cells.gaps

    def read_all(self, samples: Sequence[Cells], column: Column) -> list[FloatArray] | None:
        """Return all cells of a column as numbers, None if some that are no gaps are not of this kind."""
        first_cells = (cells.cell(int(np.argmin(cells.gaps))) for cells in samples if len(cells))
        if not all(cell is None or reads(self.read, cell, column) for cell in first_cells):
            # A word at the beginning saves a look at all that follows.
            return None
        values = [self.values(cells, column) for cells in samples]
        unread = any(np.any(np.isnan(v) & ~cells.gaps) for v, cells in zip(values, samples, strict=True))
        return None if unread else values


class NumberKind(ReadKind):
    """Numbers, and durations in days."""

    name = "number"

    def read(self, cell: Any, column: Column) -> float:
        """Return a number."""
        return as_number(cell, column.decimal)

    def values(self, cells: Cells, column: Column) -> FloatArray:
        """Return the numbers, of typed cells without a look at each."""
        return cells.numbers(column.decimal)

    def derive(self, column: Column, values: Sequence[FloatArray]) -> list[Derived]:
        """Return the numbers, with gaps in the middle of them."""
        pooled = np.concatenate(values)
        present = pooled[~np.isnan(pooled)]
        middle = float(np.median(present)) if len(present) else 0.0
        return [Derived(column, tuple(np.where(np.isnan(v), middle, v) for v in values))]


class DateKind(ReadKind):
    """Dates and times, as days since 1970.

    In dates as 03/04/2026 the column decides: with 31/03/2026 in some cell, and no cell as 03/31/2026, days come first.
    """

    name = "date"

    def column(self, name: str, samples: Sequence[Cells], decimal: DecimalSign) -> Column:
        """Return a column of dates, which knows whether days or months come first, if some cell tells."""
        return Column(name, self.name, decimal=decimal, day_first=_day_comes_first(samples))

    def read(self, cell: Any, column: Column) -> float:
        """Return days."""
        return as_day(cell, column.day_first)

    def values(self, cells: Cells, column: Column) -> FloatArray:
        """Return days, of typed cells without a look at each."""
        return cells.days() if column.day_first is None else cells.read_each(self.read, column)

    def derive(self, column: Column, values: Sequence[FloatArray]) -> list[Derived]:
        """Return the trend and the cycles that can be compared."""
        return date_parts(column, values)


def _day_comes_first(samples: Sequence[Cells]) -> bool | None:
    """Say whether days come first in dates as 31/03/2026; None where no cell tells, or cells contradict one another."""
    first_beyond_12 = second_beyond_12 = False
    for cells in samples:
        for text in cells.texts():
            numbers = YEAR_LAST.match(text)
            if numbers is None:
                # Columns of other texts are left at their first cell.
                break
            first_beyond_12 |= int(numbers[1]) > 12
            second_beyond_12 |= int(numbers[2]) > 12
    return first_beyond_12 if first_beyond_12 != second_beyond_12 else None


_NUMBERS, _DATES = NumberKind(), DateKind()

READ_KINDS: list[ReadKind] = [_NUMBERS, _DATES]
"""The kinds that are tried, in this order, before a column is a category."""


def _read_kind(name: str) -> ReadKind:
    """Return the kind of this name; only those that cells are read as."""
    return next(kind for kind in READ_KINDS if kind.name == name)


def _read_as(name: str, samples: Sequence[Cells], decimal: DecimalSign) -> Column | None:
    """Return a column of the first kind that all cells can be read as, None if there is none."""
    columns = (kind.column(name, samples, decimal) for kind in READ_KINDS)
    return next((column for column in columns if _read_kind(column.kind).read_all(samples, column) is not None), None)


def tell_kind(
    name: str,
    cells_by_sample: Sequence[Cells | Sequence[Any]],
    *,
    category: bool | None,
    response: str | None,
    decimal: DecimalSign = ".",
    where: Where = lambda sample, row: "",
) -> Column:
    """Find out what a column is from the cells of all samples together.

    A number if every cell reads as one, however few values there are: that 3 rooms lie between 2 and 4 is worth
    knowing, and codes are declared by `category`. A date if every cell is one (ISO 8601), else a category. Truth
    values, and a response that takes two values only, are categories. Truth values may be spelled differently in the
    samples. Of more than `MOST_LABELS` labels the rare ones are merged. A column of numbers with a few other cells is
    an error: as a category it would answer another question. `response` is the argument that names the column as one;
    None makes it an input.
    """
    samples = [cells_of(cells) for cells in cells_by_sample]
    # 1. More than two different numbers are neither truth values nor a response of two labels. So are nearly all
    # columns, which are then told without their labels. So are dates of typed tables; in texts they take longer to
    # read than labels do.
    as_numbers = _NUMBERS.column(name, samples, decimal)
    if category is None and _more_than_two_values(samples, as_numbers):
        return as_numbers
    if category is None and all(isinstance(cells, DayCells | TimeCells) for cells in samples):
        as_dates = _DATES.column(name, samples, decimal)
        if _more_than_two_values(samples, as_dates):
            return as_dates
    # 2. Truth values, which may look like numbers in one of the tables.
    counts_by_sample = [Counter(cells.label_counts()) for cells in samples]
    counts = sum(counts_by_sample, Counter[str]())
    has_gaps = any(cells.gaps.any() for cells in samples)
    if category is not False and (truth := _truth_values(name, counts_by_sample, has_gaps)) is not None:
        return truth
    # 3. A kind that all cells can be read as.
    note = ""
    if category is not True:
        column = _read_as(name, samples, decimal)
        if column is None:
            _refuse_other_dates(name, counts)
            note = _not_numbers(as_numbers, samples, counts.total(), category=category, where=where)
        elif response is None or len(counts) != 2 or category is not None:
            return column
    # 4. Labels, if they repeat.
    if len(counts) > 2 and all(len(each) > each.total() / _FEWEST_REPEATS for each in counts_by_sample if each):
        raise _hardly_repeats(name, counts, response)
    labels, codes, merged = _merged(name, counts)
    if has_gaps and GAP_LABEL not in codes:
        codes[GAP_LABEL] = len(labels)
        labels.append(GAP_LABEL)
    return Column(
        name,
        "category",
        labels=tuple(labels),
        decimal=decimal,
        note=" ".join(filter(None, (note, merged))),
        _codes=codes,
    )


def _more_than_two_values(samples: Sequence[Cells], column: Column) -> bool:
    """Whether all cells but gaps are of the kind of a column, and of more than two different values."""
    values_by_sample = _read_kind(column.kind).read_all(samples, column)
    if values_by_sample is None:
        return False
    values = np.concatenate(values_by_sample)
    values = values[~np.isnan(values)]
    others = values[values != values[:1]]
    return bool(np.any(others != others[:1]))


def _not_numbers(column: Column, samples: Sequence[Cells], total: int, *, category: bool | None, where: Where) -> str:
    """Return a note on a column that is a category because of some cells, or raise an error where it should not be.

    `column` is what it would be if all cells were numbers; `total` is how many cells are no gaps.
    """
    name, decimal = column.name, column.decimal
    unread = [_NUMBERS.unread(cells, column) for cells in samples]
    n_unread = int(sum(rows.sum() for rows in unread))
    sample = next(number for number, rows in enumerate(unread) if rows.any())
    row = int(np.argmax(unread[sample]))
    first = f"the first {samples[sample].cell(row)!r}{where(sample, row)}"
    counts = (Counter(cells.take(rows).label_counts()) for cells, rows in zip(samples, unread, strict=True))
    texts = sum(counts, Counter[str]())
    if category is False or meant_as_numbers(texts, total):
        mostly_unread = n_unread > total / 2 and all(map(written_otherwise, texts))
        holds = "numbers that cannot be read in" if mostly_unread else "numbers, except for"
        rule, otherwise = (
            (
                f"{named('number')} must name columns of numbers, but {name!r} has other values in",
                f"leave it out of {named('number')}",
            )
            if category is False
            else (f"column {name!r} holds {holds}", f"pass {setting('category', name)} if it is a category")
        )
        points = have_points(samples)
        message = (
            f"{rule} {n_unread:,} of {total:,} cells, {first}. "
            f"{remedy_for_texts(texts, points, decimal)}, or {otherwise}."
        )
        if category is False:
            raise DataError(message)
        advice = advice_for_texts(texts, points, decimal)
        raise UnusableInput(message, f"{holds} {n_unread:,} of {total:,} cells, {first}; {advice}")
    _check_alike(name, samples, decimal, where)
    if n_unread == total:
        return ""
    return f"Column {name!r} was read as a category: {n_unread:,} of {total:,} cells are not numbers, {first}."


def _check_alike(name: str, samples: Sequence[Cells], decimal: DecimalSign, where: Where) -> None:
    """Raise an error if a column is of another type in each table, and has no label in common."""
    types: dict[str, str] = {}
    labels: list[set[str]] = []
    for sample, cells in enumerate(samples):
        if cells.gaps.all():
            continue
        column = _read_as(name, [cells], decimal)
        shown_rows = ~cells.gaps
        if column is None:
            # Of dates and words together, a word: a date would not show why they are text.
            shown_rows = _DATES.unread(cells, _DATES.column(name, [cells], decimal))
        row = int(np.argmax(shown_rows))
        cell = cells.cell(row)
        words = f"{column.kind}s" if column is not None else "truth values" if isinstance(cell, bool) else "text"
        types.setdefault(words, f"{words} ({cell!r}{where(sample, row)})")
        labels.append(set(cells.label_counts()))
    if len(types) > 1 and not set.intersection(*labels):
        raise UnusableInput(
            f"column {name!r} must hold the same type of values in all tables, got {' and '.join(types.values())}. "
            f"Convert one of them, or leave the column out with {setting('x', f'!{name}')}.",
            f"holds {' and '.join(types.values())}",
        )


def _refuse_other_dates(name: str, counts: Mapping[str, int]) -> None:
    """Raise an error if a column holds dates in a notation in which day and month could be mistaken."""
    dates = {text: count for text, count in counts.items() if _OTHER_DATES.fullmatch(text)}
    if sum(dates.values()) >= _MOSTLY_DATES * sum(counts.values()):
        raise UnusableInput(
            f"column {name!r} must hold dates as 2026-03-31, got {next(iter(dates))!r}, in which day and month could "
            f"be confused. Write them in that form, e.g. with pandas.to_datetime(..., dayfirst=True), leave the "
            f"column out with {setting('x', f'!{name}')}, or pass {setting('category', name)} if it holds labels.",
            f"dates such as {next(iter(dates))!r}, in which day and month could be confused",
        )


def _hardly_repeats(name: str, counts: Mapping[str, int], response: str | None) -> UnusableInput:
    """Return an error that says why a column of text cannot be used, and what to do instead."""
    total, first = sum(counts.values()), next(iter(counts))
    shown = first if len(first) <= _LONGEST_SHOWN else f"{first[: _LONGEST_SHOWN - 1]}…"
    extent = f"({len(counts):,} different values in {total:,} rows, e.g. {shown!r})"
    without = (
        f"name another column as {named(response)}" if response else f"leave it out with {setting('x', f'!{name}')}"
    )
    if sum(len(text.split()) * count for text, count in counts.items()) / total >= _WORDS_OF_A_TEXT:
        return UnusableInput(
            f"column {name!r} holds free text {extent}, of which nothing could be compared. Turn it into numbers or "
            f"categories first, such as its length, topic or embedding, or {without}.",
            f"free text, e.g. {shown!r}",
        )
    return UnusableInput(
        f"column {name!r} holds text that hardly repeats {extent}, so as a category nothing could be compared. If it "
        f"is an identifier, {without}; else turn it into a number or a coarser category.",
        f"text that hardly repeats, e.g. {shown!r}",
    )


def _truth_values(name: str, counts_by_sample: Sequence[Mapping[str, int]], has_gaps: bool) -> Column | None:
    """Return a column of truth values that are spelled differently in the samples; None if it is not one."""
    spelled: dict[bool, dict[str, None]] = {False: {}, True: {}}
    for counts in counts_by_sample:
        for label in counts:
            if label.lower() not in _TRUE | _FALSE:
                return None
            spelled[label.lower() in _TRUE][label] = None
        # Two spellings of one value in one table may well be two labels.
        if any(sum(label in counts for label in spellings) > 1 for spellings in spelled.values()):
            return None
    if max(map(len, spelled.values())) < 2:
        return None
    labels = [next(iter(spelled[value]), str(value)) for value in (False, True)]
    codes = {label: int(value) for value, spellings in spelled.items() for label in spellings}
    if has_gaps:
        labels.append(GAP_LABEL)
        codes[GAP_LABEL] = 2
    same = ", ".join("/".join(spelled[value]) for value in (True, False) if spelled[value])
    return Column(name, "category", tuple(labels), note=f"Column {name!r} holds truth values: {same}.", _codes=codes)


def _merged(name: str, counts: Mapping[str, int]) -> tuple[list[str], dict[str, int], str]:
    """Return the labels, the code of each text, and a note if rare labels became one."""
    if len(counts) <= MOST_LABELS:
        labels = sorted(counts)
        return labels, {label: code for code, label in enumerate(labels)}, ""
    frequent = sorted(counts, key=lambda label: (label == OTHER, -counts[label], label))[: MOST_LABELS - 1]
    labels = [*sorted(frequent), OTHER]
    codes = {label: code for code, label in enumerate(labels)}
    rare = [label for label in counts if label not in codes]
    codes |= dict.fromkeys(rare, codes[OTHER])
    share = sum(counts[label] for label in rare) / sum(counts.values())
    note = (
        f"Column {name!r} has {len(counts):,} labels: the {len(frequent)} most frequent were kept, the others "
        f"({share:.0%} of the rows) merged as {OTHER!r}."
    )
    return labels, codes, note


@dataclass(frozen=True)
class Derived:
    """A column of numbers for the kernels, in each of the tables."""

    column: Column
    values: tuple[FloatArray, ...]

    @property
    def varies(self) -> bool:
        """Whether there are two different values."""
        return bool(np.ptp(np.concatenate(self.values)) > 0)


def derive(column: Column, values: Sequence[FloatArray]) -> list[Derived]:
    """Return the columns that an input is compared by, with one that says where it has gaps, if it has some."""
    inputs = [Derived(column, tuple(values))]
    if not column.is_category:
        inputs = _read_kind(column.kind).derive(column, values)
    gaps = [np.isnan(v) for v in values]
    if not any(rows.any() for rows in gaps) or all(rows.all() for rows in gaps):
        # A column without any value is constant, and is left out as such.
        return [replace(d, values=tuple(np.nan_to_num(v) for v in d.values)) for d in inputs]
    flag = Column(f"{column.name} (missing)", "category", ("no", "yes"), source=column.name)
    return [*inputs, Derived(flag, tuple(rows.astype(float) for rows in gaps))]


def date_parts(column: Column, values: Sequence[FloatArray]) -> list[Derived]:
    """Return a date as its trend and those cycles that each table covers; gaps are in the middle of each.

    Tables of different times, such as two months, have no trend that could be compared: they are then compared by hour
    and weekday alone.
    """
    present = [v[~np.isnan(v)] for v in values]
    parts: list[Derived] = []
    name = column.name
    if _overlap_in_time(present):
        middle = float(np.median(np.concatenate(present)))
        trend = replace(column, name=f"{name} (trend)", source=name)
        parts.append(Derived(trend, tuple(np.where(np.isnan(v), middle, v) for v in values)))
    for pair in CYCLES:
        part, period = pair[0].part, pair[0].period
        if not all(_covers(v, part, period) for v in present):
            continue
        for function, cycle in zip(("cosine", "sine"), pair, strict=True):
            parts.append(
                Derived(
                    Column(f"{name} ({part}, {function})", "number", source=name, cycle=cycle),
                    tuple(np.nan_to_num(cycle(v)) for v in values),
                )
            )
    return parts


@dataclass(frozen=True)
class DerivedInputs:
    """What is compared of the columns of x; notes on them, and what is not compared."""

    derived: list[Derived]
    notes: list[str]
    left_out: list[LeftOut]


def derive_inputs(
    columns: Sequence[Column], values: Sequence[Sequence[FloatArray]], asked_for: Set[str]
) -> DerivedInputs:
    """Return what is compared of the columns of x.

    Of each column `values` has its numbers in every table. A running number is an input only if its name is among those
    `asked_for`.
    """
    inputs: list[Derived] = []
    notes: list[str] = []
    left_out: list[LeftOut] = []
    flags: dict[bytes, int] = {}
    running = {
        index
        for index, column in enumerate(columns)
        if column.name not in asked_for and column.kind == "number" and all(map(_is_running, values[index]))
    }
    others = [index for index in range(len(columns)) if index not in running]
    if not any(each.varies for index in others for each in derive(columns[index], values[index])):
        # Better a number of rows than nothing to condition on.
        running = set()
    for index, column in enumerate(columns):
        name = column.name
        if index in running:
            left_out.append(LeftOut(name, "a running number; name it as an input to keep it", could_matter=False))
            continue
        derived = derive(column, values[index])
        varying = [d for d in derived if d.varies]
        if column.note and varying:
            notes.append(column.note)
        if derived and not varying:
            left_out.append(LeftOut(name, "the same value in all rows", could_matter=False))
        if column.kind == "date" and not any(d.column.kind == "date" for d in derived):
            part = f"{name} (trend)" if varying else name
            left_out.append(LeftOut(part, "the two tables hardly overlap in time"))
        for each in varying:
            if each.column.name == f"{name} (missing)":
                # Columns that are missing together, such as those of one survey, have one flag.
                same = flags.setdefault(np.concatenate(each.values).tobytes(), len(inputs))
                if same < len(inputs):
                    inputs[same] = _shared(inputs[same], name)
                    continue
            inputs.append(each)
    return DerivedInputs(inputs, notes, left_out)


def _shared(flag: Derived, name: str) -> Derived:
    """Return a flag of gaps under the names of its columns and one more."""
    names = [*flag.column.name.removesuffix(" (missing)").split(", "), name]
    return replace(flag, column=replace(flag.column, name=f"{', '.join(names)} (missing)"))


def _is_running(values: FloatArray) -> bool:
    """Whether values are whole numbers in rising order, each once: so is a number of rows, and hardly an input."""
    return bool(np.all(np.diff(values) > 0) and np.all(values == np.floor(values)))


def _overlap_in_time(values: Sequence[FloatArray]) -> bool:
    """Whether enough rows of each table lie in the time that all of them cover, for a trend to be compared."""
    if any(not len(v) for v in values):
        return False
    start, end = max(v.min() for v in values), min(v.max() for v in values)
    return all(np.mean((v >= start) & (v <= end)) >= _FEWEST_IN_COMMON for v in values)


def _covers(days: FloatArray, part: str, period: float) -> bool:
    """Whether the dates of a table cover a cycle."""
    if len(days) < 2 or np.ptp(days) < _COVERED * period:
        return False
    # Dates without a time of day are all at midnight.
    return part != "hour of day" or bool(np.ptp(days % 1.0) > 0)
