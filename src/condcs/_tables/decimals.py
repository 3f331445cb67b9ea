"""Decimal points in one table and decimal commas in the other: the cells of one are written as those of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from condcs._tables.kinds import Decimal, as_number, reads, separates_thousands
from condcs._tables.samples import Sample


def same_decimals(
    samples: Sequence[Sample], titles: Sequence[str], columns: int, decimal: Decimal
) -> tuple[list[Sample], list[str]]:
    """Return samples whose first columns have the decimal sign that was named, and a note on each that had another.

    A column is rewritten where one table has numbers by the named sign alone, and another by the other sign alone,
    unless that one may separate thousands.
    """
    other: Decimal = "," if decimal == "." else "."
    rewritten: list[list[int]] = [[] for _ in samples]
    for place in range(columns):
        cells = [[row[place] for row in sample.rows if isinstance(row[place], str)] for sample in samples]
        foreign = [any(other in cell for cell in texts) and _by(texts, other) for texts in cells]
        if any(foreign) and any(any(decimal in cell for cell in texts) and _by(texts, decimal) for texts in cells):
            for number, is_foreign in enumerate(foreign):
                rewritten[number] += [place] if is_foreign else []
    made = [
        replace(s, rows=[_rewritten(row, places, other, decimal) for row in s.rows]) if places else s
        for s, places in zip(samples, rewritten, strict=True)
    ]
    sign = {".": "points", ",": "commas"}[other]
    found = dict.fromkeys(title for title, places in zip(titles, rewritten, strict=True) if places)
    return made, [f"{title} has decimal {sign}: its numbers were read so." for title in found]


def _by(texts: Sequence[str], decimal: Decimal) -> bool:
    """Whether texts are numbers with a decimal sign which does not separate thousands."""
    signed = [text for text in texts if decimal in text]
    return not all(map(separates_thousands, signed)) and all(reads(as_number, text, decimal) for text in texts)


def _rewritten(row: Sequence[Any], places: Sequence[int], other: str, decimal: str) -> list[Any]:
    cells = list(row)
    for place in places:
        if isinstance(cells[place], str):
            cells[place] = cells[place].replace(other, decimal)
    return cells
