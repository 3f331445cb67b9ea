"""Pictures of a comparison: y over an input, the local divergence, the null distribution, the parts of a loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs._inference.loss_split import LossChange
from condcs._inference.plots import bin_means
from condcs._inference.witness import Witness
from condcs._tables.kinds import Column
from condcs._tables.pair import Pair
from condcs.comparison._regions import Places
from condcs.comparison._result import Comparison
from condcs.comparison._shifts import Shift
from condcs.comparison._wording import show, show_short

FloatArray = np.ndarray[Any, Any]

BLUE, ORANGE, GREY, RED, INK = "#2b6cb0", "#d9621c", "#b9bfc9", "#b83218", "#2d3440"
_WIDTH = 4.6
_BINS, _FEWEST_IN_BIN = 10, 8
_BAND = (0.1, 0.9)
_MOST_LABELS = 10


def loss_figure(loss: LossChange) -> Any:
    """Draw how the mean loss got from what it was to what it is, part by part."""
    figure, axes = _figure(2.9)
    names = ["before", "inputs\nmoved", "new\ninputs", "relation", "now"]
    parts = [loss.inputs_moved, loss.new_inputs, loss.relation]
    levels = loss.before + np.cumsum([0.0, *(part.value for part in parts)])
    axes.bar([0, 4], [loss.before, loss.now], width=0.6, color=[BLUE, ORANGE])
    for place, (part, level) in enumerate(zip(parts, levels[:-1], strict=True), start=1):
        axes.bar(place, part.value, bottom=level, width=0.6, color=RED if part.value > 0 else "#2f6f4e", alpha=0.85)
        axes.vlines(place, level + part.low, level + part.high, color=INK, lw=1.6)
        axes.hlines(level, place - 0.7, place + 0.3, color=GREY, lw=1)
    axes.hlines(levels[-1], 3.3, 4.3, color=GREY, lw=1)
    for place, value in ((0, loss.before), (4, loss.now)):
        axes.annotate(
            show_short(value), (place, value), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=9
        )
    axes.set_xticks(range(5), names, fontsize=9)
    axes.set_ylabel("mean loss")
    axes.margins(y=0.12)
    return figure


def null_figure(shift: Shift, title: str) -> Any:
    """Draw the histogram of the null distribution, and where the observed value lies."""
    figure, axes = _figure(2.9)
    values = shift.null_distribution
    low, high = min(values.min(), shift.statistic), max(values.max(), shift.statistic)
    axes.hist(values, bins=24, range=(float(low), float(max(values.max(), low + 1e-9))), color=GREY, lw=0)
    axes.axvline(shift.statistic, color=RED, lw=2.2)
    side = "right" if shift.statistic > (low + high) / 2 else "left"
    place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "fontsize": 9}
    pad = -1 if side == "right" else 1
    axes.annotate(
        "observed", (shift.statistic, 0.97), xycoords=axes.get_xaxis_transform(), xytext=(5 * pad, 0),
        textcoords="offset points", ha=side, va="top", color=RED, fontsize=9,
    )  # fmt: skip
    axes.text(
        float(np.median(values)), 1.01, "if nothing had changed", ha="center", va="bottom", color="#6b7280", **place
    )
    span = high - low
    axes.set(xlabel=title, ylabel="resamples", xlim=(low - 0.06 * span, high + 0.06 * span))
    return figure


def telling_columns(found: Comparison, most: int = 3) -> list[int]:
    """Columns of x to show: those that the change involves, then those that y depends on; cycles of dates last."""
    places = found.places
    inputs = places.explanation.inputs

    def rank(place: int) -> tuple[float, bool, float]:
        return -inputs[place].involvement, places.pair.x[place].cycle is not None, -places.dependence[place]

    return sorted(range(len(inputs)), key=rank)[:most]


def input_figure(found: Comparison, place: int) -> Any:
    """Draw what y does over one input in both tables, and below it where the relations differ."""
    pair = found.places.pair
    column = pair.x[place]
    figure, (above, below) = _figure(4.9, panels=2)
    if column.is_category:
        _by_label(above, found.places, place)
        _witness_by_label(below, found.places.witness, column, place)
    else:
        _over_numbers(above, found.places, place)
        _witness_over_numbers(below, found.places.witness, column, place)
    above.set_ylabel(_short(response_title(found.places)))
    above.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderpad=0)
    if not pair.y[0].is_category and max(map(abs, above.get_ylim())) >= 1e4:
        above.yaxis.set_major_formatter("{x:,.0f}" if max(map(abs, above.get_ylim())) < 1e7 else "{x:.3g}")
    below.set_xlabel(_short(column.name))
    below.set_ylabel("local divergence")
    return figure


def response_title(places: Places) -> str:
    """Name what the pictures show of y: the first response, or the share of one of its labels."""
    column = places.pair.y[0]
    return f"share of {column.name} = {column.labels[places.shown[0]]}" if column.is_category else column.name


def _over_numbers(axes: Any, places: Places, place: int) -> None:
    pair = places.pair
    pooled = np.concatenate([pair.xp, pair.xq])[:, place]
    edges = np.unique(np.quantile(pooled, np.linspace(0, 1, _BINS + 1)))
    shares = pair.y[0].is_category
    for x, y, color, label in zip((pair.xp, pair.xq), places.responses, (BLUE, ORANGE), ("before", "now"), strict=True):
        bins = np.clip(np.searchsorted(edges, x[:, place], side="right") - 1, 0, len(edges) - 2)
        rows = [np.flatnonzero(bins == b) for b in range(len(edges) - 1)]
        rows = [r for r in rows if len(r) >= _FEWEST_IN_BIN]
        if not rows:
            continue
        at = np.array([x[r, place].mean() for r in rows])
        means = np.array([y[r].mean() for r in rows])
        if shares:
            spread = np.sqrt(np.maximum(means * (1 - means), 0.0) / [len(r) for r in rows])
            low, high = means - 1.96 * spread, means + 1.96 * spread
        else:
            low, high = (np.array([np.quantile(y[r], q) for r in rows]) for q in _BAND)
        axes.fill_between(at, low, high, color=color, alpha=0.16, lw=0)
        axes.plot(at, means, color=color, lw=2.2, marker="o", ms=3.5, label=label)


def band_words(pair: Pair) -> str:
    """Say what the bands around the means are."""
    return "95% interval" if pair.y[0].is_category else "the middle 80%"


def _by_label(axes: Any, places: Places, place: int) -> None:
    pair = places.pair
    count = min(len(pair.x[place].labels), _MOST_LABELS)
    codes = _frequent(pair, place, count)
    shares = pair.y[0].is_category
    data = zip((pair.xp, pair.xq), places.responses, (BLUE, ORANGE), ("before", "now"), (-0.14, 0.14), strict=True)
    for x, y, color, label, offset in data:
        rows = [(i, y[x[:, place] == code]) for i, code in enumerate(codes)]
        rows = [(i, r) for i, r in rows if len(r)]
        at = np.array([i for i, _ in rows]) + offset
        means = np.array([r.mean() for _, r in rows])
        if shares:
            reach = 1.96 * np.sqrt(means * (1 - means) / [len(r) for _, r in rows])
            low, high = means - reach, means + reach
        else:
            low, high = (np.array([np.quantile(r, q) for _, r in rows]) for q in _BAND)
        axes.vlines(at, low, high, color=color, alpha=0.3, lw=6)
        axes.plot(at, means, "o", color=color, ms=6, label=label)
    _label_ticks(axes, pair.x[place], codes)


def _witness_over_numbers(axes: Any, witness: Witness, column: Column, place: int) -> None:
    shown = np.isfinite(witness.values)
    x, values = witness.at[shown, place], witness.values[shown]
    axes.plot(x, values, "o", color=INK, ms=2.6, alpha=0.25, mew=0)
    axes.plot(*bin_means(x, values), color=INK, lw=2.2, label="observed")
    if witness.expected is not None:
        axes.plot(*bin_means(x, witness.expected[shown]), color="#6b7280", lw=1.5, ls="--", label="by chance")
    _finish_witness(axes, values)
    low, high = np.quantile(x, [0.005, 0.995])
    axes.set_xlim((low, high) if low < high else None)
    if column.kind == "date":
        left, right = axes.get_xlim()
        ticks = np.linspace(left, right, 7)[1::2]
        axes.set_xticks(ticks, [show(column, t) for t in ticks], fontsize=8)
    elif column.cycle is not None:
        axes.set_xticks(*column.cycle.ticks(), fontsize=8)


def _witness_by_label(axes: Any, witness: Witness, column: Column, place: int) -> None:
    shown = np.isfinite(witness.values)
    values = witness.values[shown]
    at = witness.at[shown, place].astype(int)
    codes = [int(c) for c in np.argsort(-np.bincount(at, minlength=len(column.labels)), kind="stable")[:_MOST_LABELS]]
    codes = sorted(codes)
    means = [values[at == code].mean() if (at == code).any() else np.nan for code in codes]
    axes.bar(range(len(codes)), means, width=0.55, color=INK, alpha=0.8, label="observed")
    if witness.expected is not None:
        expected = witness.expected[shown]
        chance = [expected[at == code].mean() if (at == code).any() else np.nan for code in codes]
        axes.hlines(
            chance,
            np.arange(len(codes)) - 0.38,
            np.arange(len(codes)) + 0.38,
            color="#9aa1ac",
            lw=2.2,
            label="by chance",
        )
    _label_ticks(axes, column, codes)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8.5)


def _finish_witness(axes: Any, values: FloatArray) -> None:
    # A few points with hardly a neighbour would flatten everything else.
    axes.set_ylim(bottom=0, top=1.15 * float(np.quantile(values, 0.98)) or None)
    axes.legend(frameon=False, fontsize=8.5)


def _label_ticks(axes: Any, column: Column, codes: list[int]) -> None:
    words = [_short(column.labels[code], 14) for code in codes]
    turn = {"rotation": 35, "ha": "right"} if sum(map(len, words)) > 36 else {}
    axes.set_xticks(range(len(codes)), words, fontsize=9, **turn)
    axes.set_xlim(-0.6, len(codes) - 0.4)


def _frequent(pair: Pair, place: int, count: int) -> list[int]:
    values = np.concatenate([pair.xp, pair.xq])[:, place].astype(int)
    sizes = np.bincount(values, minlength=len(pair.x[place].labels))
    return sorted(int(c) for c in np.argsort(-sizes, kind="stable")[:count])


def _short(text: str, most: int = 42) -> str:
    # matplotlib reads a dollar sign as the start of a formula.
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text.replace("\\", "\\\\").replace("$", r"\$")


def _figure(height: float, panels: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.subplots(panels, 1, sharex=panels > 1, height_ratios=[3, 2][:panels])
    for each in np.atleast_1d(axes):
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(labelsize=9)
    return figure, axes
