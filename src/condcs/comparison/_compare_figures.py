"""Pictures of a comparison: y over an input in both tables, the tests' null distributions, and the parts of a loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.colours import BLUE, GREEN, INK, ORANGE, RED, SILVER, SLATE
from condcs._inference.loss_split import LossChange
from condcs._inference.plots import bin_means
from condcs._inference.witness import Witness
from condcs._tables.kinds import Column
from condcs.comparison._result import Comparison
from condcs.comparison._steps import Location, ViewsOutcome
from condcs.comparison._wording import as_date
from condcs.report._page import drawing

_WIDTH = 4.6
"""Inches of a picture: lettering of wider ones than about 5 is too small on a phone (`Page.figure`)."""
_BINS = 10
"""Bins of an input, with equally many rows each: a curve of so many points shows a bend or two."""
_FEWEST_IN_BIN = 8
"""Rows of one table in a bin at least: fewer say little of the quantiles that the band is drawn by."""
MIDDLE_SHARE = 0.8
"""Share of the values of y that the band around a mean holds: the tenths at either end would be its outliers."""
SHARE_LEVEL = 0.95
"""Level of the interval around a share, which has no middle of values."""
_MOST_LABELS = 10
"""Labels along an axis: more have no room for their words in a picture of this width."""
_LONGEST_TITLE = 42
"""Letters of the title of an axis: as many as fit the width of a picture. Longer ones are cut off."""
_LONGEST_LABEL = 14
"""Letters of one label along an axis; longer ones are cut off."""
_LETTERS_IN_A_ROW = 36
"""Letters of all labels along an axis that fit beside one another; with more they are written at an angle."""
_LONG_NUMBER = 1e7
"""Numbers from here on are written with an exponent in pictures: with all their digits they run into one another."""
_WITNESS_TOP = 0.98
"""Quantile of the local divergence at which its axis ends: a few points with hardly a neighbour would flatten all
others."""
_WITNESS_ENDS = 0.005, 0.995
"""Quantiles of the input between which the local divergence is drawn, for the same reason."""


def loss_figure(loss: LossChange) -> Any:
    """Draw how the mean loss got from what it was to what it is, part by part."""
    figure, axes = _compare_figure(2.9)
    names = ["before", "inputs\nmoved", "new\ninputs", "relation", "now"]
    parts = [loss.inputs_moved, loss.new_inputs, loss.relation]
    levels = loss.reference + np.cumsum([0.0, *(part.value for part in parts)])
    axes.bar([0, 4], [loss.reference, loss.current], width=0.6, color=[BLUE, ORANGE])
    # Each part begins at the level to which the parts before it lead.
    for position, (part, level) in enumerate(zip(parts, levels[:-1], strict=True), start=1):
        axes.bar(position, part.value, bottom=level, width=0.6, color=RED if part.value > 0 else GREEN, alpha=0.85)
        axes.vlines(position, level + part.low, level + part.high, color=INK, lw=1.6)
        axes.hlines(level, position - 0.7, position + 0.3, color=SILVER, lw=1)
    axes.hlines(levels[-1], 3.3, 4.3, color=SILVER, lw=1)
    ends = loss.reference, loss.current
    written = loss.levels if loss.current < _LONG_NUMBER else [f"{value:.3g}" for value in ends]
    for position, value, words in zip((0, 4), ends, written, strict=True):
        axes.annotate(words, (position, value), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=9)
    axes.set_xticks(range(5), names, fontsize=9)
    axes.set_ylabel("mean loss")
    axes.margins(y=0.12)
    return figure


def null_figure(outcome: ViewsOutcome, title: str) -> Any:
    """Draw the histogram of the null distribution, and where the observed value lies."""
    figure, axes = _compare_figure(2.9)
    values = outcome.null_distribution
    low, high = min(values.min(), outcome.statistic), max(values.max(), outcome.statistic)
    # Some width even where all values are equal.
    top = max(values.max(), low + 1e-9)
    axes.hist(values, bins=24, range=(float(low), float(top)), color=SILVER, lw=0)
    axes.axvline(outcome.statistic, color=RED, lw=2.2)
    side = "right" if outcome.statistic > (low + high) / 2 else "left"
    # Across in the units of the statistic, upwards in shares of the picture.
    transform = axes.get_xaxis_transform()
    pad = -1 if side == "right" else 1
    axes.annotate(
        "observed", (outcome.statistic, 0.97), xycoords=transform, xytext=(5 * pad, 0),
        textcoords="offset points", ha=side, va="top", color=RED, fontsize=9,
    )  # fmt: skip
    axes.text(
        float(np.median(values)), 1.01, "if nothing had changed", transform=transform,
        ha="center", va="bottom", color=SLATE, fontsize=9,
    )  # fmt: skip
    span = high - low
    axes.set(xlabel=title, ylabel="resamples", xlim=(low - 0.06 * span, high + 0.06 * span))
    return figure


def telling_columns(comparison: Comparison, most: int = 3) -> list[int]:
    """Columns of x to show: those that the change involves, then those that y depends on; cycles of dates last."""
    location = comparison.location
    inputs = location.explanation.inputs

    def rank(column_index: int) -> tuple[float, bool, float]:
        """Sort by these, the smallest first."""
        return (
            -inputs[column_index].involvement,
            location.pair.x[column_index].cycle is not None,
            -location.dependence[column_index],
        )

    return sorted(range(len(inputs)), key=rank)[:most]


def input_figure(comparison: Comparison, column_index: int) -> Any:
    """Draw what y does over one input in both tables, and below it where the relations differ."""
    pair = comparison.location.pair
    column = pair.x[column_index]
    figure, (above, below) = _compare_figure(4.9, panels=2)
    if column.is_category:
        _by_label(above, comparison.location, column_index, comparison.sides)
        _witness_by_label(below, comparison.location.witness, column, column_index)
    else:
        _over_numbers(above, comparison.location, column_index, comparison.sides)
        _witness_over_numbers(below, comparison.location.witness, column, column_index)
    above.set_ylabel(_short(response_title(comparison.location)))
    for axes in (above, below):
        # Above the axes, where they hide no bar and no line.
        axes.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderpad=0)
    largest = max(map(abs, above.get_ylim()))
    if not pair.y[0].is_category and largest >= 1e4:
        # Five digits and more with commas between thousands, as in the tables of the page.
        above.yaxis.set_major_formatter("{x:,.0f}" if largest < _LONG_NUMBER else "{x:.3g}")
    below.set_xlabel(_short(column.name))
    below.set_ylabel("local divergence")
    return figure


def response_title(location: Location) -> str:
    """Name what the pictures show of y: the first response, or the share of one of its labels."""
    column = location.pair.y[0]
    return f"share of {column.name} = {column.labels[location.shown[0]]}" if column.is_category else column.name


def _over_numbers(axes: Any, location: Location, column_index: int, sides: tuple[str, str]) -> None:
    """Draw the mean of y and the band around it over a column of numbers, in bins with equally many rows."""
    pair = location.pair
    pooled = np.concatenate([pair.xp, pair.xq])[:, column_index]  # (n,)
    edges = np.unique(np.quantile(pooled, np.linspace(0, 1, _BINS + 1)[1:-1]))
    are_shares = pair.y[0].is_category
    for x, y, color, label in zip((pair.xp, pair.xq), location.responses, (BLUE, ORANGE), sides, strict=True):
        bins = np.searchsorted(edges, x[:, column_index], side="right")
        rows_of_bins = [np.flatnonzero(bins == b) for b in range(len(edges) + 1)]
        rows_of_bins = [rows for rows in rows_of_bins if len(rows) >= _FEWEST_IN_BIN]
        if not rows_of_bins:
            continue
        at = np.array([x[rows, column_index].mean() for rows in rows_of_bins])
        means, low, high = _mean_and_band([y[rows] for rows in rows_of_bins], are_shares=are_shares)
        axes.fill_between(at, low, high, color=color, alpha=0.16, lw=0)
        axes.plot(at, means, color=color, lw=2.2, marker="o", ms=3.5, label=label)


def _mean_and_band(parts: list[FloatArray], *, are_shares: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean of each part of the rows, and around it the middle of them, or the interval of a share."""
    means = np.array([part.mean() for part in parts])
    if not are_shares:
        ends = ((1 - MIDDLE_SHARE) / 2, (1 + MIDDLE_SHARE) / 2)
        low, high = (np.array([np.quantile(part, q) for part in parts]) for q in ends)
        return means, low, high
    errors = np.sqrt(np.maximum(means * (1 - means), 0.0) / [len(part) for part in parts])
    reach = float(ndtri((1 + SHARE_LEVEL) / 2)) * errors
    return means, means - reach, means + reach


def _by_label(axes: Any, location: Location, column_index: int, sides: tuple[str, str]) -> None:
    """Draw the mean of y and the band around it for each label of a column, the two tables side by side."""
    pair = location.pair
    codes = _frequent(np.concatenate([pair.xp, pair.xq])[:, column_index].astype(int), pair.x[column_index])
    are_shares = pair.y[0].is_category
    data = zip((pair.xp, pair.xq), location.responses, (BLUE, ORANGE), sides, (-0.14, 0.14), strict=True)
    for x, y, color, label, offset in data:
        responses = [y[x[:, column_index] == code] for code in codes]
        # Labels that this table has.
        present = [i for i, values in enumerate(responses) if len(values)]
        at = np.array(present) + offset
        means, low, high = _mean_and_band([responses[i] for i in present], are_shares=are_shares)
        axes.vlines(at, low, high, color=color, alpha=0.3, lw=6)
        axes.plot(at, means, "o", color=color, ms=6, label=label)
    _label_ticks(axes, pair.x[column_index], codes)


def _witness_over_numbers(axes: Any, witness: Witness, column: Column, column_index: int) -> None:
    """Draw the local divergence over a column of numbers: a dot for each row, their means, and those by chance."""
    shown = np.isfinite(witness.values)
    x, values = witness.at[shown, column_index], witness.values[shown]
    axes.plot(x, values, "o", color=INK, ms=2.6, alpha=0.25, mew=0)
    axes.plot(*bin_means(x, values), color=INK, lw=2.2, label="observed")
    if witness.expected is not None:
        axes.plot(*bin_means(x, witness.expected[shown]), color=SLATE, lw=1.5, ls="--", label="by chance")
    axes.set_ylim(bottom=0, top=1.15 * float(np.quantile(values, _WITNESS_TOP)) or None)
    low, high = np.quantile(x, _WITNESS_ENDS)
    margin = 0.03 * (high - low)
    axes.set_xlim((low - margin, high + margin) if margin > 0 else None)
    if column.kind == "date":
        start, end = axes.get_xlim()
        ticks = np.linspace(start, end, 7)[1::2]
        axes.set_xticks(ticks, [*map(as_date, ticks)], fontsize=8)
    elif column.cycle is not None:
        axes.set_xticks(*column.cycle.ticks(), fontsize=8)
    elif (x == np.round(x)).all():
        axes.xaxis.get_major_locator().set_params(integer=True)


def _witness_by_label(axes: Any, witness: Witness, column: Column, column_index: int) -> None:
    """Draw the mean of the local divergence for each label of a column, and what it is by chance."""
    shown = np.isfinite(witness.values)
    values = witness.values[shown]
    at = witness.at[shown, column_index].astype(int)
    codes = _frequent(at, column)
    means = [values[at == code].mean() if (at == code).any() else np.nan for code in codes]
    axes.bar(range(len(codes)), means, width=0.55, color=INK, alpha=0.8, label="observed")
    if witness.expected is not None:
        expected = witness.expected[shown]
        chance = [expected[at == code].mean() if (at == code).any() else np.nan for code in codes]
        at_codes = np.arange(len(codes))
        axes.hlines(chance, at_codes - 0.38, at_codes + 0.38, color=SLATE, lw=2.2, label="by chance")
    _label_ticks(axes, column, codes)
    axes.set_ylim(bottom=0)


def _label_ticks(axes: Any, column: Column, codes: list[int]) -> None:
    """Write labels along an axis, at an angle if together they are wider than the picture."""
    words = [_short(column.labels[code], _LONGEST_LABEL) for code in codes]
    turn = {"rotation": 35, "ha": "right"} if sum(map(len, words)) > _LETTERS_IN_A_ROW else {}
    axes.set_xticks(range(len(codes)), words, fontsize=9, **turn)
    axes.set_xlim(-0.6, len(codes) - 0.4)


def _frequent(codes: IntArray, column: Column) -> list[int]:
    """Return the most frequent codes, in their order."""
    sizes = np.bincount(codes, minlength=len(column.labels))
    return sorted(int(c) for c in np.argsort(-sizes, kind="stable")[:_MOST_LABELS])


def _short(text: str, most: int = _LONGEST_TITLE) -> str:
    """Cut a text off, and write it so that matplotlib shows it as it is."""
    # matplotlib reads a dollar sign as the start of a formula.
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text.replace("\\", "\\\\").replace("$", r"\$")


def _compare_figure(height: float, panels: int = 1) -> tuple[Any, Any]:
    """Return a picture of the width that all on the page have, and its axes, panels one below the other."""
    figure, axes = drawing(_WIDTH, height, panels, 1, sharex=panels > 1, height_ratios=[3, 2][:panels])
    for each in np.atleast_1d(axes):
        each.tick_params(labelsize=9)
    return figure, axes
