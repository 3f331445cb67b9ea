"""The page of ``condcs compare``: the answer first, then pictures, then how it was found."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs._inference.plots import bin_means, most_telling
from condcs._inference.witness import Witness
from condcs._tables.kinds import Column
from condcs._tables.pair import Pair
from condcs.comparison._regions import Places
from condcs.comparison._result import Comparison
from condcs.comparison._shifts import Shift
from condcs.comparison._wording import NOWHERE, account_words, column_words, interval_words, show, show_p
from condcs.report._page import Page

_METHOD = """
Two questions are asked apart. Are the inputs distributed as before? And, for equal inputs, is the response
distributed as before? Only the second is about the relation: a model of y can stay right when the inputs shift, and
go wrong when they do not.

The first is a two-sample test with the Cauchy-Schwarz divergence; rows are assigned to the two tables at random,
which is exact. The second is about what is left of the response when its regression on the inputs is subtracted, a
regression that does not know which row is from which table. Rows are assigned to the two tables with the probability
that their inputs have of coming from each, an estimate that is made richer until it explains how the inputs differ. So
a shift of the inputs alone is no evidence against the relation.

The first looks at several bandwidths, the second at several kinds of change: of the mean, of how strongly the response
follows the inputs, of the influence of single inputs and of pairs, of the spread, of the shape, in some places only,
and at the conditional Cauchy-Schwarz divergence (Yu et al., TPAMI 2025). Each p-value is valid for all views together.
The overlap is exp(-D/2), the cosine between the two (1: the same, 0: nothing in common), D being the divergence: that
of the inputs at the most telling bandwidth, and that of the response without its regression on the inputs. Finite
samples never overlap completely: the mean of D over the resamples, which is what D would be if nothing had changed, is
therefore subtracted from D first, in the estimate and in its interval.
"""

_ASSUMPTIONS = (
    "Rows are independent of one another. Repeated measurements of the same thing make p-values too small.",
    "The response given the inputs, or the probability of the table given the inputs, is a smooth function of the "
    "inputs. No test of a conditional relation is valid without some such assumption.",
    "Where only one table has rows, nothing can be compared, and nothing is said.",
    "Regions that are listed were tested on rows that had no part in finding them. Where none is listed a change is "
    "not excluded, and where exactly a region ends is an estimate.",
    "A p-value above the level means that these samples do not show a change, not that there is none.",
)

FloatArray = np.ndarray[Any, Any]

BLUE, ORANGE, GREY, RED, INK = "#2b6cb0", "#d9621c", "#b9bfc9", "#b83218", "#2d3440"
_WIDTH = 4.6
_BINS, _FEWEST_IN_BIN = 10, 8
_BAND = (0.1, 0.9)
_MOST_LABELS = 10


def compare_page(found: Comparison, command: str | None = None) -> Page:
    """Write up a comparison."""
    pair = found.pair
    y = ", ".join(column.name for column in pair.y)
    lead = f"{pair.current.title} against {pair.reference.title}: {y}, given {column_words(pair.x)}."
    page = Page(f"Did the relation of {y} to its inputs change?", lead)
    page.verdict(found.verdict, "bad" if found.relation_changed else "good")
    _answers(page, found)
    _where(page, found)
    _evidence(page, found)
    page.section("Method and assumptions")
    page.text(_METHOD)
    page.points(_ASSUMPTIONS)
    _reproduce(page, found, command)
    page.data("condcs-comparison", found.to_dict())
    return page


def _answers(page: Page, found: Comparison) -> None:
    page.section("The two questions")
    rows = [
        ("Are the inputs distributed as before?", "shifted" if found.inputs_shifted else "no evidence", found.inputs),
        ("Is y, for equal inputs, distributed as before?", _changed(found), found.relation),
    ]
    page.table(
        ["question", "answer", "p-value", "overlap", "95% interval"],
        [
            [
                question,
                answer,
                show_p(shift.pvalue),
                f"{shift.overlap:.3f}",
                _interval(shift),
            ]
            for question, answer, shift in rows
        ],
    )
    page.table(
        ["all rows", "before", "now"],
        [[words, before, after] for words, before, after in found.response],
    )


def _where(page: Page, found: Comparison) -> None:
    places = found.places
    page.section("Where" if found.relation_changed else "The tables side by side")
    if not found.relation_changed:
        page.text(
            "The tests found no evidence of a change; differences as the pictures show them are expected by chance."
        )
    for place in telling_columns(found):
        column, response = places.pair.x[place], response_title(places)
        below = "each dot a row of either table, all inputs considered" if not column.is_category else "on average"
        page.figure(
            input_figure(found, place),
            alt=f"{response} over {column.name} in both tables, and below it the local divergence between the two "
            "relations, with what chance alone would give.",
            caption=f"{response} over {column.name}: mean and {band_words(places.pair)} of it in both tables. "
            f"Below: how far apart the two relations are there, {below}.",
        )
    if not found.relation_changed:
        return
    if not found.regions:
        page.text(NOWHERE)
        return
    page.table(
        ["region", "rows before", "rows now", "what", "before", "now", "change, 95% interval", "p-value"],
        [
            [
                region.words,
                f"{region.share_p:.0%}",
                f"{region.share_q:.0%}",
                change.words,
                change.before.value,
                change.now.value,
                interval_words(change),
                show_p(region.p_value),
            ]
            for region in found.regions
            for change in region.changes[:1]
        ],
        caption="Regions in which the relation changed, found on one half of the rows and tested on the other; "
        "p-values are adjusted for all regions that were looked at. Before and now are for the same inputs.",
    )


def _evidence(page: Page, found: Comparison) -> None:
    page.section("How sure")
    for shift, what in ((found.inputs, "inputs"), (found.relation, "relation")):
        count = len(shift.null_distribution)
        reached = f"{sum(value >= shift.statistic for value in shift.null_distribution)} of {count} resamples"
        page.figure(
            null_figure(shift, f"{what}: evidence of all views"),
            alt=f"Histogram of the statistic of the {what} over the resamples; {reached} reach the observed value, "
            f"{shift.statistic:.2f}.",
            caption=f"{what.capitalize()}: {reached} reach the observed value (p = {show_p(shift.pvalue)}).",
        )
    for shift, what in ((found.inputs, "Inputs"), (found.relation, "Relation")):
        page.table(
            ["view", "p"],
            [[name, show_p(pvalue)] for name, pvalue in zip(shift.views, shift.pvalues, strict=True)],
            caption=f"{what}: each view by itself. Do not pick one of these p-values: the one above is valid for "
            f"all of them together. D is {shift.divergence:.3g}, by chance {shift.by_chance:.3g}.",
        )
    if found.relation.diagnostics:
        page.facts(
            {
                "check of balance": f"p = {show_p(found.relation.diagnostics['balance_pvalue'])} (small if the "
                "estimated probability of the table given the inputs does not explain how the inputs differ)",
                "effective rows": f"{found.relation.diagnostics['effective_rows']:,.0f} (as many rows of tables that "
                "overlap fully would tell as much)",
            }
        )


def _reproduce(page: Page, found: Comparison, command: str | None) -> None:
    pair = found.pair
    page.section("Data and command" if command else "Data")
    page.facts(
        {
            "reference": f"{pair.reference.title}: {account_words(pair.reference, found.seed)}",
            "current": f"{pair.current.title}: {account_words(pair.current, found.seed)}",
            "y": column_words(pair.y, 50),
            "x": column_words(pair.x, 50),
            "kernels": "Gaussian on standardised numbers, delta (equal or not) on categories",
            "level": found.alpha,
            "resamples": found.n_resamples,
            "seed": found.seed,
        }
    )
    if found.notes:
        page.points(found.notes)
    if command:
        page.command(command)


def _changed(found: Comparison) -> str:
    return "changed" if found.relation_changed else "no evidence"


def _interval(shift: Shift) -> str | None:
    interval = shift.overlap_interval
    return f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else None


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
    """Columns of x that the local divergence depends on most."""
    witness = found.places.witness
    shown = np.isfinite(witness.values)
    if not shown.any():
        return list(range(min(most, len(found.pair.x))))
    return list(most_telling(witness.at[shown], _excess(witness)[shown], most))


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


def _responses(places: Places) -> tuple[FloatArray, FloatArray]:
    p, q = places.pair.yp[:, 0], places.pair.yq[:, 0]
    if places.pair.y[0].is_category:
        return (p == places.shown[0]).astype(float), (q == places.shown[0]).astype(float)
    return p, q


def _over_numbers(axes: Any, places: Places, place: int) -> None:
    pair = places.pair
    pooled = np.concatenate([pair.xp, pair.xq])[:, place]
    edges = np.unique(np.quantile(pooled, np.linspace(0, 1, _BINS + 1)))
    shares = pair.y[0].is_category
    for x, y, color, label in zip(
        (pair.xp, pair.xq), _responses(places), (BLUE, ORANGE), ("before", "now"), strict=True
    ):
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
    data = zip((pair.xp, pair.xq), _responses(places), (BLUE, ORANGE), ("before", "now"), (-0.14, 0.14), strict=True)
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
        ticks = axes.get_xticks()
        axes.set_xticks(ticks[1:-1], [show(column, t) for t in ticks[1:-1]], fontsize=8)
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


def _excess(witness: Witness) -> FloatArray:
    expected = 0.0 if witness.expected is None else witness.expected
    return np.asarray(np.maximum(witness.values - expected, 0.0))


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
