"""Cycles of time (day, week, year) as a sine and a cosine, and bounds on these in words of hours, days and months."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from condcs._core.arrays import FloatArray

_HOUR = 1 / 24  # times are in days
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_YEAR = 365.2425  # days of the Gregorian calendar, leap years included: cycles of years do not drift from the months
_FIRST_DAY = 3  # 1970 began with a Thursday, three days after a Monday, and with a January


@dataclass(frozen=True)
class Cycle:
    """The cosine of time around a peak.

    Two of them, a quarter of a period apart, are the point of a cycle on a circle: its end is close to its beginning.
    """

    part: str  # "hour of day", "day of week" or "month"
    period: float  # in days
    peak: float  # where the cosine is 1, in days from the beginning of a cycle

    def __call__(self, days: FloatArray) -> FloatArray:
        """Return the cosine at times in days since 1970."""
        return np.asarray(np.cos(2 * np.pi * (self._phase(days) - self.peak) / self.period))

    def words(self, low: float, high: float) -> str:
        """Say when the cosine is above `low` and at most `high`: "on Saturday or Sunday"."""
        if self.part == "hour of day":
            return " or ".join(f"between {_clock(start)} and {_clock(end)}" for start, end in self._arcs(low, high))
        names = _DAYS if self.part == "day of week" else _MONTHS
        step = self.period / len(names)
        # A weekday is one point; of a month its middle counts.
        offset = 0.0 if self.part == "day of week" else step / 2
        at = np.cos(2 * np.pi * (step * np.arange(len(names)) + offset - self.peak) / self.period)
        inside = [bool(low < value <= high) for value in at]
        return f"{'on' if self.part == 'day of week' else 'in'} {_listed(names, inside)}"

    def ticks(self) -> tuple[list[float], list[str]]:
        """Return values for an axis, and the times that have them: two, but for the peak and its opposite."""
        if self.part == "hour of day":
            times, labels = _HOUR * np.arange(0, 24, 6), [f"{hour:02d}:00" for hour in range(0, 24, 6)]
        elif self.part == "day of week":
            times, labels = np.arange(7.0), [name[:3] for name in _DAYS]
        else:
            times, labels = _YEAR / 12 * (np.arange(0, 12, 3) + 0.5), [name[:3] for name in _MONTHS[::3]]
        labels_at: dict[float, list[str]] = {}
        for time, label in zip(times, labels, strict=True):
            labels_at.setdefault(round(float(np.cos(2 * np.pi * (time - self.peak) / self.period)), 1), []).append(
                label
            )
        return list(labels_at), [" / ".join(same) for same in labels_at.values()]

    def _phase(self, days: FloatArray) -> FloatArray:
        """Return days since the beginning of the cycle; of a week whole ones, since a weekday is one point."""
        if self.part == "day of week":
            return (np.floor(days) + _FIRST_DAY) % self.period
        return days % self.period

    def _arcs(self, low: float, high: float) -> list[tuple[float, float]]:
        """Return when a cycle is that far from its peak, in days from its beginning."""
        near, far = (math.acos(min(1.0, max(-1.0, value))) / (2 * math.pi) * self.period for value in (high, low))
        if near == 0.0:
            return [(self.peak - far, self.peak + far)]
        if 2 * far >= self.period:
            return [(self.peak + near, self.peak - near)]
        return [(self.peak - far, self.peak - near), (self.peak + near, self.peak + far)]


CYCLES = (
    # Day or night; evening or morning.
    (Cycle("hour of day", 1.0, 12 * _HOUR), Cycle("hour of day", 1.0, 18 * _HOUR)),
    # Around the midnight between Saturday and Sunday, so that one cut parts the weekend from the week; late or early
    # in the week.
    (Cycle("day of week", 7.0, 5.5), Cycle("day of week", 7.0, 5.5 - 7 / 4)),
    # Summer or winter (of the north); autumn or spring.
    (Cycle("month", _YEAR, 0.54 * _YEAR), Cycle("month", _YEAR, 0.79 * _YEAR)),
)
"""Each cycle of a date as two cosines."""


def _clock(time: float) -> str:
    """Write a time of day, in days, as hours and minutes."""
    minutes = round(time % 1.0 * 24 * 60) % (24 * 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _listed(names: tuple[str, ...], inside: list[bool]) -> str:
    """Name what is inside of a circle of names, three in a row or more by the first and the last of them."""
    count = len(names)
    if all(inside) or not any(inside):
        return f"{'any' if all(inside) else 'none'} of {names[0]} to {names[-1]}"
    runs = []
    for start in range(count):
        if inside[start] and not inside[start - 1]:
            length = next(n for n in range(1, count) if not inside[(start + n) % count])
            run = [names[(start + n) % count] for n in range(length)]
            runs += run if length < 3 else [f"{run[0]} to {run[-1]}"]
    return runs[0] if len(runs) == 1 else f"{', '.join(runs[:-1])} or {runs[-1]}"
