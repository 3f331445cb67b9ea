"""What a column is, found out from the cells of all tables together, and the rules that decide."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from condcs._core.errors import DataError
from condcs._tables.kinds import (
    GAP_LABEL,
    Column,
    Decimal,
    Kind,
    Odd,
    are_dates,
    as_number,
    have_points,
    label_of,
    meant_as_numbers,
    odd_cells,
    reads,
    remedy,
)

MOST_LABELS = 20
"""With more labels than this, the rare ones become one: a label of a few rows has nothing to be compared with."""

OTHER = "other"

# A category that hardly repeats matches nothing: an identifier, a text, or a date in a notation that is not read.
_FEWEST_REPEATS = 2.0
_WORDS_OF_A_TEXT = 3.0
_NEARLY_ALL = 0.9
_OTHER_DATES = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}([ T].*)?|\d{1,2}[ .-]+[A-Za-z]{3,9}[ .,-]+\d{2,4}([ T].*)?")

_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})

Cells = Sequence[Any]
Where = Callable[[int, int], str]


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

    Parameters
    ----------
    name : str
        The column.
    samples : sequence of sequences
        Its cells in each table; gaps are None.
    category : bool or None
        What the caller says it is; None lets the cells tell.
    response : bool
        Whether it is a column of y.
    decimal : {".", ","}
        Decimal sign of numbers that are written as text.
    where : function of a sample and a row
        Says in words where a cell came from.
    """
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
        raise DataError(_hardly_repeats(name, counts))
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
        rule, otherwise = (
            (f"`number` must name columns of numbers, but {name!r} has other values in", "leave it out of `number`")
            if category is False
            else (f"column {name!r} holds numbers, except for", f"pass category={name!r} if it is a category")
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
            row, cell = rows[0]
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
    if sum(dates.values()) >= _NEARLY_ALL * sum(counts.values()):
        raise DataError(
            f"column {name!r} must hold dates as 2026-03-31, got {next(iter(dates))!r}, in which day and month could "
            f"be mistaken for one another. Write them so, e.g. with pandas.to_datetime(..., dayfirst=True), leave the "
            f"column out with x={f'!{name}'!r}, or pass category={name!r} if it holds labels."
        )


def _hardly_repeats(name: str, counts: Mapping[str, int]) -> str:
    """Say why a column of text cannot be used, and what to do instead."""
    total = sum(counts.values())
    found = f"({len(counts):,} different values in {total:,} rows, e.g. {_shortened(next(iter(counts)))!r})"
    without = f"leave it out with x={f'!{name}'!r}"
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


def _shortened(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
