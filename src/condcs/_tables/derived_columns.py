"""What the kernels see of a column: numbers and labels as they are, dates in parts, gaps as flags."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condcs._tables.cycles import CYCLES
from condcs._tables.kinds import Column

FloatArray = np.ndarray[Any, Any]

_COVERED = 0.9
"""A part of a date counts where each table covers this share of its cycle."""

_FEWEST_IN_COMMON = 0.1
"""A trend counts where this share of the rows of either table lies in the time that both cover."""


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
    """Return the columns that an input is compared by, and what a reader should know about them.

    Parameters
    ----------
    column : Column
        The input.
    values : sequence of array
        Its numbers, codes or days in each table; NaN are gaps.
    """
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
    and weekday alone, and that is said.
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

    Parameters
    ----------
    columns : sequence of Column
        The inputs.
    values : sequence of sequences of array
        For each of them (others may follow), its values in each table.
    named : set of str
        Inputs that were asked for by their names: a running number is one only if it is among them.
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
