"""The page of ``condcs watch``: the stream with its alarms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.colours import BLUE, GREY, RED
from condcs._core.printable import counted
from condcs.drift import Alarm
from condcs.drift._alarm import FEWEST_SUMMARISED
from condcs.report._page import Page, drawing

BUCKETS = 600
"""Most points of a curve: more than a figure of eight inches shows, and even, because buckets are joined in pairs."""

_DESCRIBED = 10
"""Alarms, the last ones, that are described in sentences: the table has all of them."""

_LIMIT = 6.0
"""Scores beyond this count as this much in a bucket's mean, so that one outlier does not set the scale of the curve."""

_CURVE_POINTS = 100
"""Points of the curve of mean residuals: with more, their standard errors would hide it."""

_LAST_ROW, _COUNT, _SUM, _SQUARES, _EVIDENCE, _IS_LEARNING = range(6)
"""Columns of the table of buckets: the last row; how many rows have a score, the sum of these and of their squares; the
largest evidence; and whether rows were learned."""

_N_COLUMNS = 6

_LEAST_EVIDENCE = 0.1
"""Where the axis of evidence, which is logarithmic, begins: less is nothing."""


class StreamHistory:
    """The course of a stream in at most 600 buckets of rows, whose length doubles whenever these are full."""

    def __init__(self) -> None:
        self.buckets: FloatArray = np.zeros((0, _N_COLUMNS))
        self._length = 1  # rows of a bucket

    def add(self, row: int, score: float, evidence: float, is_learning: bool) -> None:
        """Add a row."""
        if (row - 1) % self._length == 0 and len(self.buckets) == BUCKETS:
            self._join_pairs()
        if not len(self.buckets) or (row - 1) % self._length == 0:
            self.buckets = np.vstack([self.buckets, np.zeros((1, _N_COLUMNS))])
        bucket = self.buckets[-1]
        bucket[_LAST_ROW] = row
        if np.isfinite(score):
            limited = float(np.clip(score, -_LIMIT, _LIMIT))
            bucket[_COUNT] += 1
            bucket[_SUM] += limited
            bucket[_SQUARES] += limited**2
        bucket[_EVIDENCE] = max(bucket[_EVIDENCE], evidence)
        bucket[_IS_LEARNING] = max(bucket[_IS_LEARNING], is_learning)

    def _join_pairs(self) -> None:
        """Make one bucket of every two."""
        first, second = self.buckets[::2], self.buckets[1::2]
        joined = np.maximum(first, second)
        summed = [_COUNT, _SUM, _SQUARES]
        joined[:, summed] = first[:, summed] + second[:, summed]
        self.buckets, self._length = joined, 2 * self._length

    def table(self) -> FloatArray:
        """Return everything as one array: the length of a bucket, and below it the buckets."""
        return np.vstack([np.full((1, _N_COLUMNS), float(self._length)), self.buckets])

    @classmethod
    def from_table(cls, table: FloatArray) -> StreamHistory:
        """Undo `table`."""
        if table.ndim != 2 or table.shape[1] != _N_COLUMNS or not 1 <= len(table) <= BUCKETS + 1:
            raise ValueError(f"history of shape {table.shape}")
        history = cls()
        history.buckets, history._length = np.asarray(table[1:], np.float64), int(table[0, 0])
        return history


def watch_page(
    about: Mapping[str, Any],
    alarms: Sequence[Alarm],
    history: StreamHistory,
    account: str,
    notes: Sequence[str],
    command: str,
) -> Page:
    """Return the page: the stream with its alarms, what each alarm says, and what was done."""
    page = Page(
        f"Watching {_names(about['y'])}",
        f"Given {_names(about['x'])}, compared with the {about['rows']:,} rows of {about['title']}.",
    )
    if alarms:
        times = "once," if len(alarms) == 1 else f"{len(alarms):,} times, the last time"
        page.verdict(f"The relation changed {times} at {alarms[-1]}.", "bad")
    else:
        page.verdict("No change of the relation was found.", "good")
    page.text(account)
    if notes:
        page.points(notes)
    if len(history.buckets):
        page.section("The stream")
        page.figure(
            draw_stream(history, alarms, float(about["run_length"])),
            f"Residuals and evidence by row, with {counted(len(alarms), 'alarm')}.",
            "Above: mean residual of the first response, in units of its spread at the same inputs, with two standard "
            "errors. Below: evidence for a change; an alarm is raised at the dashed line. Red lines are alarms, red "
            "areas the ranges in which the changes began; in grey areas a new reference was learned.",
        )
    if alarms:
        page.section("Alarms")
        columns = ["row", "change", "where", "began at", "range", "before", "now", "divergence"]
        rows = [[f"{a.row:,}", a.change, a.region, f"{a.since:,}", _range(a), *_sides(a), a.divergence] for a in alarms]
        page.table(columns, rows)
        for alarm in alarms[-_DESCRIBED:]:
            words = str(alarm)
            page.text(f"{words[:1].upper()}{words[1:]}.{_witness_words(alarm)}")
    page.section("How it was made")
    page.facts({"mean run length, at least": about["run_length"], "after an alarm": about["after_alarm"]})
    if command:
        page.command(command)
    return page


def _names(columns: str) -> str:
    """Return the columns without their kinds."""
    return re.sub(r" \((number|date|category)\)", "", columns)


def _range(alarm: Alarm) -> str:
    return f"{alarm.since_range[0]:,} to {alarm.since_range[1]:,}"


def _sides(alarm: Alarm) -> list[str]:
    """Return what changed, before and now: the mean (of a label, its share), or the spread of the residuals.

    A value that does not show the change says so, with the rows that it is of; of too few rows there is none.
    """
    cells = []
    for side in (alarm.reference, alarm.recent):
        value = side.deviation if alarm.of_spread else side.mean
        enough = side.rows >= FEWEST_SUMMARISED and value is not None
        words = f"{'sd ' if alarm.of_spread else ''}{value:.4g}" if enough else "too few rows"
        cells.append(words)
    if not alarm.shown:
        cells[1] += f" ({counted(alarm.recent.rows, 'row')}, no change shown)"
    return cells


def _witness_words(alarm: Alarm) -> str:
    if alarm.witness_value is None:
        return ""
    inputs = [
        f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in alarm.witness_at.items()
    ]
    return f" The local divergence is largest, {alarm.witness_value:.3g}, at {', '.join(inputs)}."


def draw_stream(history: StreamHistory, alarms: Sequence[Alarm], threshold: float) -> Any:
    """Draw residuals and evidence over rows."""
    figure, (above, below) = drawing(8, 4.4, 2, 1, sharex=True)
    last_rows, counts, sums, squares, evidence, is_learning = history.buckets.T
    # 1. Mean residuals with two standard errors, of several buckets each.
    groups = np.arange(len(last_rows)) // max(1, len(last_rows) // _CURVE_POINTS)
    middles = np.bincount(groups, last_rows) / np.bincount(groups)
    counts, sums, squares = (np.bincount(groups, column) for column in (counts, sums, squares))
    # Lines are broken where rows were learned.
    counts = np.where(counts > 1, counts, np.nan)
    means = sums / counts
    errors = 2 * np.sqrt(np.maximum(squares / counts - means**2, 0) / counts)
    above.fill_between(middles, means - errors, means + errors, color=BLUE, alpha=0.25, lw=0)
    above.plot(middles, means, color=BLUE, lw=1.2)
    above.axhline(0, color=GREY, lw=0.8)
    # 2. The evidence of each bucket; there is none where all rows were learned.
    logs = np.where((is_learning > 0) & (evidence == 0), np.nan, np.log10(np.maximum(evidence, _LEAST_EVIDENCE)))
    below.plot(last_rows, logs, color=BLUE, lw=1.2)
    below.axhline(np.log10(threshold), color=GREY, lw=1, ls="--")
    # 3. Where rows were learned, and where changes began and were noticed.
    learned = {"where": is_learning > 0, "step": "pre", "color": GREY, "alpha": 0.18, "lw": 0}
    for axes in (above, below):
        axes.fill_between(last_rows, 0, 1, transform=axes.get_xaxis_transform(), **learned)
        for alarm in alarms:
            axes.axvspan(*alarm.since_range, color=RED, alpha=0.18, lw=0)
            axes.axvline(alarm.row, color=RED, lw=1.4)
        axes.spines[["left", "bottom"]].set_color(GREY)
        axes.tick_params(colors=GREY)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_color(GREY)
    above.set_ylabel("residual")
    below.set(ylabel="evidence", xlabel="row")
    below.yaxis.set_major_formatter(lambda value, _: f"{10**value:,.0f}" if value >= 0 else f"{10**value:g}")
    return figure
