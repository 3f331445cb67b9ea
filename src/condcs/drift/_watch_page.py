"""The page of ``condcs watch``: the stream with its alarms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.printable import counted
from condcs.drift import Alarm
from condcs.drift._alarm import FEWEST_SUMMARISED
from condcs.report._page import Page, drawing

BUCKETS = 600
"""Most points of a curve: more than a figure of eight inches shows, and even, because buckets are joined in pairs."""

_DESCRIBED = 10
"""Alarms, the last ones, that are described in sentences: the table has all of them."""

_COLUMNS = 6  # of the table of buckets, which `StreamHistory.buckets` lists

_LIMIT = 6.0
"""Scores beyond this count as this much in a bucket's mean, so that one outlier does not set the scale of the curve."""

_BLUE, _RED, _GREY = "#2b6cb0", "#c53030", "#718096"


class StreamHistory:
    """The course of a stream in at most 600 buckets of rows, whose length doubles whenever these are full."""

    def __init__(self) -> None:
        # Last row, rows with a score, their sum, sum of squares, largest statistic, and whether rows were learned.
        self._table = np.zeros((0, _COLUMNS))
        self._length = 1

    def add(self, row: int, score: float, statistic: float, learning: bool) -> None:
        """Add a row."""
        fresh = not len(self._table) or (row - 1) % self._length == 0
        if fresh and len(self._table) == BUCKETS:
            pairs = self._table.reshape(-1, 2, _COLUMNS)
            self._table = np.column_stack([pairs[:, 1, 0], pairs[:, :, 1:4].sum(axis=1), pairs[:, :, 4:].max(axis=1)])
            self._length *= 2
            fresh = (row - 1) % self._length == 0
        if fresh:
            self._table = np.vstack([self._table, np.zeros((1, _COLUMNS))])
        last = self._table[-1]
        last[0] = row
        if np.isfinite(score):
            limited = float(np.clip(score, -_LIMIT, _LIMIT))
            last[1:4] += 1, limited, limited**2
        last[4:] = np.maximum(last[4:], [statistic, learning])

    def table(self) -> FloatArray:
        """Return everything as one array."""
        return np.vstack([np.full((1, _COLUMNS), float(self._length)), self._table])

    @classmethod
    def from_table(cls, table: FloatArray) -> StreamHistory:
        """Undo `table`."""
        if table.ndim != 2 or table.shape[1] != _COLUMNS or not 1 <= len(table) <= BUCKETS + 1:
            raise ValueError(f"history of shape {table.shape}")
        history = cls()
        history._table, history._length = np.asarray(table[1:], np.float64), int(table[0, 0])
        return history

    @property
    def buckets(self) -> FloatArray:
        """Last row, rows with a score, their sum and sum of squares, largest statistic, whether rows were learned."""
        return self._table


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
    inputs = ", ".join(f"{k} = {v:.4g}" if isinstance(v, float) else f"{k} = {v}" for k, v in alarm.witness_at.items())
    return f" The local divergence is largest, {alarm.witness_value:.3g}, at {inputs}."


def draw_stream(history: StreamHistory, alarms: Sequence[Alarm], threshold: float) -> Any:
    """Draw residuals and evidence over rows."""
    figure, (above, below) = drawing(8, 4.4, 2, 1, sharex=True)
    last, count, total, squares, statistic, learning = history.buckets.T
    groups = np.arange(len(last)) // max(1, len(last) // 100)
    sums = [np.bincount(groups, values) for values in (count, total, squares)]
    # Lines are broken where rows were learned.
    rows = np.where(sums[0] > 1, sums[0], np.nan)
    at, mean = np.bincount(groups, last) / np.bincount(groups), sums[1] / rows
    error = 2 * np.sqrt(np.maximum(sums[2] / rows - mean**2, 0) / rows)
    above.fill_between(at, mean - error, mean + error, color=_BLUE, alpha=0.25, lw=0)
    above.plot(at, mean, color=_BLUE, lw=1.2)
    above.axhline(0, color=_GREY, lw=0.8)
    evidence = np.where((learning > 0) & (statistic == 0), np.nan, np.log10(np.maximum(statistic, 0.1)))
    below.plot(last, evidence, color=_BLUE, lw=1.2)
    below.axhline(np.log10(threshold), color=_GREY, lw=1, ls="--")
    learned = {"where": learning > 0, "step": "pre", "color": _GREY, "alpha": 0.18, "lw": 0}
    for axes in (above, below):
        axes.fill_between(last, 0, 1, transform=axes.get_xaxis_transform(), **learned)
        for alarm in alarms:
            axes.axvspan(*alarm.since_range, color=_RED, alpha=0.18, lw=0)
            axes.axvline(alarm.row, color=_RED, lw=1.4)
        axes.spines[["left", "bottom"]].set_color(_GREY)
        axes.tick_params(colors=_GREY)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_color(_GREY)
    above.set_ylabel("residual")
    below.set(ylabel="evidence", xlabel="row")
    below.yaxis.set_major_formatter(lambda value, _: f"{10**value:,.0f}" if value >= 0 else f"{10**value:g}")
    return figure
