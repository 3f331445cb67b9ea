"""What cells and columns are (gaps, numbers, dates, categories), and how they become the numbers that kernels see."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as DecimalNumber
from numbers import Real
from typing import Any, Literal

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.errors import DataError
from condcs._tables.cycles import CYCLES, Cycle

GAPS = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "null", "none", "nat", "<na>", "inf", "-inf", "+inf", "infinity", "-infinity"}
)
"""Texts that stand for a missing value, in small letters; infinite values cannot be compared and count too."""

_LONGEST = max(map(len, GAPS)) + 4


Decimal = Literal[".", ","]
"""Decimal signs that can be chosen."""

Kind = Literal["number", "date", "category"]
"""What a column is."""

_DAY = 86_400.0
_UNKNOWN = -1.0
# From this share of numbers on, a column is taken for one of numbers with a few cells that went wrong.
_NEARLY_ALL = 0.8
_MOST_MARKS = 3
_LONGEST_SHOWN = 40

# Numbers that Python does not read: a decimal comma; separated thousands; a currency, a percent sign.
_COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)
_THOUSANDS = re.compile(
    r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?|[+-]?\d{1,3}(\.\d{3})+(,\d*)?|[+-]?\d{1,3}([ '’\u00a0\u202f]\d{3})+([.,]\d*)?"
)
_SIGNS = re.compile(r"\s*([$€£¥₹%]|USD|EUR|GBP|CHF|JPY)\s*", re.IGNORECASE)

Odd = tuple[int, int, Any]
"""A cell that is not a number: which sample, which row of it, and the cell."""

MOST_LABELS = 20
"""With more labels than this, the rare ones become one: a label of a few rows has nothing to be compared with."""

OTHER = "other"

# A category that hardly repeats matches nothing: an identifier, a text, or a date in a notation that is not read.
_FEWEST_REPEATS = 2.0
_WORDS_OF_A_TEXT = 3.0
_MOSTLY_DATES = 0.9
_OTHER_DATES = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}([ T].*)?|\d{1,2}[ .-]+[A-Za-z]{3,9}[ .,-]+\d{2,4}([ T].*)?")

_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})

Cells = Sequence[Any]
Where = Callable[[int, int], str]

GAP_LABEL = "missing"
"""The category of gaps."""

_COVERED = 0.9
"""A part of a date counts where each table covers this share of its cycle."""

_FEWEST_IN_COMMON = 0.1
"""A trend counts where this share of the rows of either table lies in the time that both cover."""


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
    """How one column is read: numbers, dates as days since 1970, or categories as codes."""

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    decimal: Decimal = "."  # of numbers that are written as text
    note: str = field(default="", compare=False)  # what a reader of the result should know about it
    # By default the place of each label; spellings of one value, and rare labels, share a code.
    _codes: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    source: str = ""  # the column of the table that it is derived from, if it is: a part of a date, or a flag of gaps
    cycle: Cycle | None = None  # if it is a part of a date

    @property
    def is_category(self) -> bool:
        """Whether cells are compared for equality only."""
        return self.kind == "category"

    def encode(self, cells: Sequence[Any], title: str) -> FloatArray:
        """Return numbers, or codes; a category that was not among the labels gets a code of its own.

        A gap (None) is NaN, and in a category a label as any other.
        """
        if self.is_category:
            codes = self._codes or {label: code for code, label in enumerate(self.labels)}
            return np.array([codes.get(label_of(cell), _UNKNOWN) for cell in cells], np.float64)
        if self.kind == "number" and _are_floats(cells):
            return np.array(cells, np.float64)
        try:
            return np.array([math.nan if cell is None else self._read(cell) for cell in cells], np.float64)
        except ValueError as error:
            bad = next(cell for cell in cells if cell is not None and not reads(self._read, cell))
            raise DataError(
                f"{title} must hold a {self.kind} in every cell of column {self.name!r}, as the reference does, got "
                f"{bad!r}."
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
    """Return what can be done about cells that are not numbers, as a sentence without its full stop."""
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
            "pass tables=TableOptions(decimal=',') if commas are decimal signs, or write 1200 for 1,200 if they "
            "separate thousands"
        )
    elif commas:
        advice.append("pass tables=TableOptions(decimal=',') for decimal commas")
    if len(marks) > _MOST_MARKS or any("," in mark for mark in marks):
        advice.append("correct these cells")
    elif marks:
        advice.append(f"pass tables=TableOptions(gaps={','.join(marks)!r}) if that means a missing value")
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


def _are_floats(cells: Iterable[Any]) -> bool:
    """Whether cells are Python floats, or gaps."""
    return set(map(type, cells)) <= {float, type(None)}


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


def tell_kind(
    name: str,
    samples: Sequence[Cells],
    *,
    category: bool | None,
    response: bool,
    decimal: Decimal = ".",
    where: Where = lambda sample, row: "",
) -> Column:
    """Find out what a column is from the cells of all samples together.

    A number if every cell reads as one, however few values there are: that 3 rooms lie between 2 and 4 is worth
    knowing, and codes are declared by `category`. A date if every cell is one (ISO 8601), else a category. Truth
    values, and a response that takes two values only, are categories. Truth values may be spelled differently in the
    samples. Of more than `MOST_LABELS` labels the rare ones are merged. A column of numbers with a few other cells is
    an error: as a category it would answer another question.
    """
    values = {cell for cells in samples for cell in cells}
    if category is None and _are_floats(values) and len(values - {None}) > 2:
        # What nearly all columns of arrays are; the same answer as below, without a look at every cell.
        return Column(name, "number", decimal=decimal)
    found = [Counter(label_of(cell) for cell in cells if cell is not None) for cells in samples]
    counts = sum(found, Counter[str]())
    has_gaps = any(cell is None for cells in samples for cell in cells)
    note = ""
    if category is not False and (truth := _truth_values(name, found, has_gaps)) is not None:
        return truth
    if category is not True:
        odd = odd_cells(samples, decimal)
        kind: Kind | None = "number" if not odd else "date" if are_dates(samples) else None
        if kind is not None and not (response and len(counts) == 2 and category is None):
            return Column(name, kind, decimal=decimal)
        if kind is None:
            _refuse_other_dates(name, counts)
            note = _not_numbers(name, samples, odd, counts.total(), category=category, decimal=decimal, where=where)
    if len(counts) > 2 and all(len(each) > each.total() / _FEWEST_REPEATS for each in found if each):
        raise DataError(_hardly_repeats(name, counts, response=response))
    labels, codes, merged = _merged(name, counts)
    if has_gaps and GAP_LABEL not in codes:
        codes[GAP_LABEL] = len(labels)
        labels.append(GAP_LABEL)
    return Column(name, "category", tuple(labels), decimal, " ".join(filter(None, (note, merged))), codes)


def _not_numbers(
    name: str,
    samples: Sequence[Cells],
    odd: Sequence[Odd],
    total: int,
    *,
    category: bool | None,
    decimal: Decimal,
    where: Where,
) -> str:
    """Return a note on a column that is a category because of some cells, or raise an error where it should not be."""
    first = f"the first {odd[0][2]!r}{where(*odd[0][:2])}"
    texts = Counter(label_of(cell) for _, _, cell in odd)
    if category is False or meant_as_numbers(texts, total):
        unread = len(odd) > total / 2 and all(map(written_otherwise, texts))
        holds = "numbers that cannot be read in" if unread else "numbers, except for"
        rule, otherwise = (
            (f"`number` must name columns of numbers, but {name!r} has other values in", "leave it out of `number`")
            if category is False
            else (f"column {name!r} holds {holds}", f"pass category={name!r} if it is a category")
        )
        raise DataError(
            f"{rule} {len(odd):,} of {total:,} cells, {first}. "
            f"{remedy(texts, have_points(samples), decimal)}, or {otherwise}."
        )
    _check_alike(name, samples, decimal, where)
    if len(odd) == total:
        return ""
    return f"Column {name!r} was read as a category: {len(odd):,} of {total:,} cells are not numbers, {first}."


def _check_alike(name: str, samples: Sequence[Cells], decimal: Decimal, where: Where) -> None:
    """Raise an error if a column is of another type in each table, and has no label in common."""
    types: dict[str, str] = {}
    seen: list[set[str]] = []
    for place, cells in enumerate(samples):
        rows = [(row, cell) for row, cell in enumerate(cells) if cell is not None]
        if rows:
            numbers = all(reads(as_number, cell, decimal) for _, cell in rows)
            # Of dates and words together, a word: a date would not show why they are text.
            row, cell = next((rc for rc in rows if not numbers and not are_dates([rc[1:]])), rows[0])
            words = "truth values" if isinstance(cell, bool) else "text"
            kind = "numbers" if numbers else "dates" if are_dates([cells]) else words
            types.setdefault(kind, f"{kind} ({cell!r}{where(place, row)})")
            seen.append({label_of(cell) for _, cell in rows})
    if len(types) > 1 and not set.intersection(*seen):
        raise DataError(
            f"column {name!r} must hold the same type of values in all tables, got {' and '.join(types.values())}. "
            f"Convert one of them, or leave the column out with x={f'!{name}'!r}."
        )


def _refuse_other_dates(name: str, counts: Mapping[str, int]) -> None:
    """Raise an error if a column holds dates in a notation in which day and month could be mistaken."""
    dates = {text: count for text, count in counts.items() if _OTHER_DATES.fullmatch(text)}
    if sum(dates.values()) >= _MOSTLY_DATES * sum(counts.values()):
        raise DataError(
            f"column {name!r} must hold dates as 2026-03-31, got {next(iter(dates))!r}, in which day and month could "
            f"be confused. Write them in that form, e.g. with pandas.to_datetime(..., dayfirst=True), leave the "
            f"column out with x={f'!{name}'!r}, or pass category={name!r} if it holds labels."
        )


def _hardly_repeats(name: str, counts: Mapping[str, int], *, response: bool) -> str:
    """Say why a column of text cannot be used, and what to do instead."""
    total, first = sum(counts.values()), next(iter(counts))
    shown = first if len(first) <= _LONGEST_SHOWN else f"{first[: _LONGEST_SHOWN - 1]}…"
    found = f"({len(counts):,} different values in {total:,} rows, e.g. {shown!r})"
    without = "name another column as `y`" if response else f"leave it out with x={f'!{name}'!r}"
    if sum(len(text.split()) * count for text, count in counts.items()) / total >= _WORDS_OF_A_TEXT:
        return (
            f"column {name!r} holds free text {found}, of which nothing could be compared. Turn it into numbers or "
            f"categories first, such as its length, topic or embedding, or {without}."
        )
    return (
        f"column {name!r} holds text that hardly repeats {found}, so as a category nothing could be compared. If it "
        f"is an identifier, {without}; else turn it into a number or a coarser category."
    )


def _truth_values(name: str, found: Sequence[Mapping[str, int]], has_gaps: bool) -> Column | None:
    """Return a column of truth values that are spelled differently in the samples; None if it is not one."""
    spelled: dict[bool, dict[str, None]] = {False: {}, True: {}}
    for counts in found:
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


def derive(column: Column, values: Sequence[FloatArray]) -> tuple[list[Derived], list[str]]:
    """Return the columns that an input is compared by, and what a reader should know about them."""
    made, notes = date_parts(column, values) if column.kind == "date" else ([Derived(column, tuple(values))], [])
    pooled = np.concatenate(values)
    gaps = np.isnan(pooled)
    if not gaps.any() or gaps.all():
        # A column without any value is constant, and is left out as such.
        return [replace(d, values=tuple(np.nan_to_num(v) for v in d.values)) for d in made], notes
    if column.kind == "number":
        middle = float(np.median(pooled[~gaps]))
        made = [Derived(column, tuple(np.where(np.isnan(v), middle, v) for v in values))]
    flag = Column(f"{column.name} (missing)", "category", ("no", "yes"), source=column.name)
    return [*made, Derived(flag, tuple(np.isnan(v).astype(float) for v in values))], notes


def date_parts(column: Column, values: Sequence[FloatArray]) -> tuple[list[Derived], list[str]]:
    """Return a date as its trend and those cycles that each table covers; gaps are in the middle of each.

    Tables of different times, such as two months, have no trend that could be compared: they are then compared by hour
    and weekday alone, with a note.
    """
    present = [v[~np.isnan(v)] for v in values]
    made: list[Derived] = []
    name = column.name
    if _overlap_in_time(present):
        middle = float(np.median(np.concatenate(present)))
        trend = replace(column, name=f"{name} (trend)", source=name)
        made.append(Derived(trend, tuple(np.where(np.isnan(v), middle, v) for v in values)))
    for pair in CYCLES:
        part, period = pair[0].part, pair[0].period
        if not all(_covers(v, part, period) for v in present):
            continue
        for function, cycle in zip(("cosine", "sine"), pair, strict=True):
            made.append(
                Derived(
                    Column(f"{name} ({part}, {function})", "number", source=name, cycle=cycle),
                    tuple(np.nan_to_num(cycle(v)) for v in values),
                )
            )
    if made and made[0].column.kind == "date":
        return made, []
    parts = ", ".join(dict.fromkeys(d.column.cycle.part for d in made if d.column.cycle))
    what = f"its trend was left out; what remains is {parts}" if parts else "it was left out"
    return made, [f"Column {name!r}: the two tables hardly overlap in time, so that {what}."]


def derive_inputs(
    columns: Sequence[Column], values: Sequence[Sequence[FloatArray]], named: Set[str]
) -> tuple[list[Derived], list[str]]:
    """Return what is compared of the columns of x, and notes on all of them.

    Of each column `values` has its numbers in every table; a running number is an input only if it is among `named`.
    """
    made: list[Derived] = []
    notes: list[str] = []
    flags: dict[bytes, int] = {}
    running = {
        place
        for place, column in enumerate(columns)
        if column.name not in named and column.kind == "number" and all(map(_is_running, values[place]))
    }
    if len(running) == len(columns):
        running = set()
    for place, column in enumerate(columns):
        name = column.name
        if place in running:
            notes.append(f"Column {name!r} is a running number and was left out; name it as an input to keep it.")
            continue
        derived, said = derive(column, values[place])
        varying = [d for d in derived if d.varies]
        notes += [*said, *([column.note] if column.note and varying else [])]
        if derived and not varying:
            notes.append(f"Column {name!r} has the same value in all rows and was left out.")
        for each in varying:
            if each.column.name == f"{name} (missing)":
                # Columns that are missing together, such as those of one survey, have one flag.
                same = flags.setdefault(np.concatenate(each.values).tobytes(), len(made))
                if same < len(made):
                    made[same] = _shared(made[same], name)
                    continue
            made.append(each)
    return made, notes


def _shared(flag: Derived, name: str) -> Derived:
    names = [*flag.column.name.removesuffix(" (missing)").split(", "), name]
    return replace(flag, column=replace(flag.column, name=f"{', '.join(names)} (missing)"))


def _is_running(values: FloatArray) -> bool:
    """Whether values are whole numbers in rising order, each once: so is a number of rows, and hardly an input."""
    return bool(np.all(np.diff(values) > 0) and np.all(values == np.floor(values)))


def _overlap_in_time(values: Sequence[FloatArray]) -> bool:
    if any(not len(v) for v in values):
        return False
    start, end = max(v.min() for v in values), min(v.max() for v in values)
    return all(np.mean((v >= start) & (v <= end)) >= _FEWEST_IN_COMMON for v in values)


def _covers(days: FloatArray, part: str, period: float) -> bool:
    if len(days) < 2 or np.ptp(days) < _COVERED * period:
        return False
    # Dates without a time of day are all at midnight.
    return part != "hour of day" or bool(np.ptp(days % 1.0) > 0)
