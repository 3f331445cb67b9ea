"""The page of ``condcs compare``: the answer first, then pictures, then how it was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.colours import BLUE, GREEN, INK, ORANGE, RED, SILVER, SLATE
from condcs._core.printable import alike, counted
from condcs._inference.explain import show_p
from condcs._inference.loss_split import LossChange
from condcs._inference.plots import bin_means
from condcs._inference.witness import Witness
from condcs._tables.kinds import Column
from condcs.comparison._result import Comparison
from condcs.comparison._row_dependence import RowDependence
from condcs.comparison._steps import Location, ViewsOutcome
from condcs.comparison._wording import (
    NO_REGION,
    WordTable,
    account_words,
    answers_table,
    as_date,
    column_words,
    effects_table,
    interval_title,
    loss_table,
    overall_rows,
    regions_table,
    undetectable_words,
)
from condcs.report._page import Page, drawing

_METHOD = """
Two questions are tested separately. Are the inputs distributed as before? And, for the same inputs, is the response
distributed as before? Only the second is about the relation: a model of y can stay right when the inputs shift, and
become wrong when they do not.

The first is a two-sample test in which rows are assigned to the two tables at random, which is exact. The second uses
the residuals of a regression of the response on the inputs, fitted to both tables together. Rows are assigned to the
two tables with the estimated probability that a row with these inputs comes from each; the estimate is refined until it
explains how the inputs differ. So a shift of the inputs alone is not evidence for a change of the relation.

The first test combines the Cauchy-Schwarz divergence at several bandwidths with tests of each input and of pairs of
inputs; the second combines several kinds of change: of the mean, of how strongly the response follows the inputs, of
the influence of single inputs and of pairs, of the spread, of the shape, in some regions only, and the conditional
Cauchy-Schwarz divergence (Yu et al., TPAMI 2025). Each p-value is valid for all views together.

The size of the change is estimated over the inputs that both tables have (with a density proportional to pq/(p + q)):
in each table y is regressed on the inputs, with every row left out of its own fit, and the part that chance contributes
is subtracted. The lower bound of the root mean square is valid for changes of any form, the upper bound for changes
that are smooth functions of the inputs.
"""

_REGIONS = (
    "Regions in which the relation changed, found on one half of the rows and tested on the other; p-values are "
    "adjusted for all regions that were looked at. Before and now are for the same inputs; of the changes the "
    "confidence intervals are shown."
)

_OVERLAP = """
Overlap compares whole distributions: 1 if they are the same, 0 if they have nothing in common. It is the cosine between
the two, exp(-D/2) with D the Cauchy-Schwarz divergence of the inputs at the most significant bandwidth, and of the
residuals of the response; the mean of D under the null hypothesis is subtracted first. It sees large changes only: one
that is small, or confined to few rows, leaves an overlap of 1.000, whatever its p-value.
"""

_LOSS = """
The change of the mean loss is the sum of three parts. Inputs moved: inputs of both tables became more or less
frequent. New inputs: inputs that hardly occur in the reference. Relation: for the same inputs, the loss is different.
Only the last part means that the model has become wrong; the first two mean that it is used where it was always worse,
or better.
"""

_ASSUMPTIONS = (
    "Rows are independent of one another. Repeated measurements of the same thing make p-values too small. Copies of "
    "rows and dependence on the rows before are looked for, other dependence is not.",
    "The response given the inputs, or the probability of the table given the inputs, is a smooth function of the "
    "inputs. No test of a conditional relation is valid without some such assumption.",
    "Where only one table has rows, nothing can be compared, and the answer does not apply.",
    "Regions that are listed were tested on rows that were not used to find them. If none is listed, a change is not "
    "excluded; where exactly a region ends is an estimate.",
    "A p-value above the level means that these samples do not show a change, not that there is none.",
)

_MOST_INPUTS = 20
"""Inputs in the table of inputs, at most: those that the change involves come first, and the JSON has all."""
_NAMED_COLUMNS = 50
"""Columns of y and of x that are named under the data, at most: the page is to say what was compared, but names of
hundreds of columns would be all one sees."""
_TONES: dict[str, Literal["neutral", "good", "bad"]] = {"changed": "bad", "same": "good", "undecided": "neutral"}


def compare_page(comparison: Comparison, command: str | None = None) -> Page:
    """Write up a comparison."""
    pair = comparison.pair
    y = ", ".join(column.name for column in pair.y)
    lead = f"{pair.current.title} against {pair.reference.title}: {y}, given {column_words(pair.x)}."
    page = Page(f"Did the relation of {y} to its inputs change?", lead)
    page.verdict(comparison.verdict, _TONES[comparison.decision])
    _how_large(page, comparison)
    _why_the_loss_changed(page, comparison)
    _where(page, comparison)
    _inputs(page, comparison)
    _evidence(page, comparison)
    page.section("Method and assumptions")
    page.text(_METHOD)
    page.points(_ASSUMPTIONS)
    _reproduce(page, comparison, command)
    page.data("condcs-comparison", comparison.to_dict())
    return page


def _how_large(page: Page, comparison: Comparison) -> None:
    """Show how much y changed: for the same inputs, and over all rows."""
    page.section("How large")
    effects = effects_table(comparison)
    if effects.rows:
        _add_table(page, effects, "For the same inputs: rows of both tables whose inputs are alike are compared.")
    if comparison.limits.are_set and comparison.decision != "changed":
        page.text(undetectable_words(comparison))
    page.table(
        ["all rows, whatever their inputs", *comparison.sides],
        overall_rows(comparison),
    )


def _why_the_loss_changed(page: Page, comparison: Comparison) -> None:
    """Show why the mean loss changed, if a loss was asked for."""
    if comparison.loss_change is None:
        return
    page.section("Why the loss changed", "The loss")
    page.text(_LOSS)
    loss = comparison.loss_change
    page.figure(
        loss_figure(loss),
        alt="Bars from the mean loss before, {}, by its three parts to the one now, {}.".format(*loss.levels),
        caption=f"Mean loss before and now, and what lies between them; lines are {interval_title(loss.total)}s of the "
        "parts.",
    )
    _add_table(page, loss_table(comparison))


def _add_table(page: Page, lines: WordTable, caption: str = "") -> None:
    page.table(lines.columns, lines.rows, caption)


def _where(page: Page, comparison: Comparison) -> None:
    """Show the regions in which y changed, and pictures over the inputs that tell most."""
    location = comparison.location
    page.section("Where" if comparison.relation_changed else "The tables side by side")
    if not comparison.relation_changed:
        small = comparison.relation.pvalue <= comparison.alpha
        page.text(
            "The test found a change, but not one that is known to matter."
            if small
            else "The test found no evidence of a change. Chance, and other inputs that shifted, can explain what "
            "differs in the pictures."
        )
    elif not comparison.regions:
        page.text(NO_REGION)
    else:
        _add_table(page, regions_table(comparison), _REGIONS)
    for column_index in telling_columns(comparison):
        column, response = location.pair.x[column_index], response_title(location)
        below = "each dot a row of either table, all inputs considered" if not column.is_category else "on average"
        band = f"{_SHARE_LEVEL:.0%} interval" if location.pair.y[0].is_category else f"the middle {_MIDDLE:.0%}"
        page.figure(
            input_figure(comparison, column_index),
            alt=f"{response} over {column.name} in both tables, and below it the local divergence between the two "
            "relations, with what chance alone would give.",
            caption=f"{response} over {column.name}: mean and {band} of it in both tables. "
            f"Below: how far apart the two relations are there, {below}.",
        )


def _inputs(page: Page, comparison: Comparison) -> None:
    """Show which inputs the change involves, and which of them shifted, side by side."""
    pairs = zip(comparison.location.explanation.inputs, comparison.pair.x, strict=True)
    # A sine or cosine of the time of day has something to say only if something happened to it.
    shown = [
        (change, column)
        for change, column in pairs
        if column.cycle is None or change.involvement > 0 or change.pvalue <= comparison.alpha
    ]
    shown.sort(key=lambda pair: (-pair[0].involvement, pair[0].pvalue))
    if not shown:
        return
    rows = []
    for change, column in shown[:_MOST_INPUTS]:
        # Without a region it is unknown which inputs the change involves.
        involvement = f"{change.involvement:.0%}" if comparison.regions else None
        # Mean and spread, or the two labels whose shares differ most.
        how = _shift_words(column, change.summaries[:2])
        rows.append([change.name, involvement, show_p(change.pvalue), *change.sparklines, how])
    page.section("The inputs")
    page.table(
        ["input", "share of the change", "shifted: p-value", *comparison.sides, "how"],
        rows,
        caption="Share of the change of the relation that involves each input, and how the input itself is "
        "distributed in both tables. Shares need not add up to 100%: a change can be the same at all inputs, or "
        "involve several of them.",
    )


def _shift_words(column: Column, summaries: Sequence[tuple[str, float, float]]) -> str:
    """Say how an input is distributed in both tables."""
    if column.is_category:
        return "; ".join(f"{what} {share_p:.0%} → {share_q:.0%}" for what, share_p, share_q in summaries)
    (_, *means), (_, *spreads) = summaries
    # Two digits of how far it scatters.
    words = [" → ".join(alike(*values, length=max(spreads))) for values in (means, spreads)]
    if column.kind == "date":
        words = [" → ".join(map(as_date, means)), f"{words[1]} days"]
    return f"mean {words[0]}; spread {words[1]}"


def _evidence(page: Page, comparison: Comparison) -> None:
    """Show both tests, their views, and how far they can be trusted."""
    page.section("How sure")
    _add_table(page, answers_table(comparison))
    if comparison.limits.min_effect is not None:
        page.text(_OVERLAP)
    for outcome, what in ((comparison.inputs, "inputs"), (comparison.relation, "relation")):
        count = len(outcome.null_distribution)
        reached = f"{sum(value >= outcome.statistic for value in outcome.null_distribution)} of {count} resamples"
        page.figure(
            null_figure(outcome, f"{what}: evidence of all views"),
            alt=f"Histogram of the statistic of the {what} over the resamples; {reached} reach the observed value, "
            f"{outcome.statistic:.2f}.",
            caption=f"{what.capitalize()}: {reached} reach the observed value (p = {show_p(outcome.pvalue)}).",
        )
    for outcome, what in ((comparison.inputs, "Inputs"), (comparison.relation, "Relation")):
        page.table(
            ["view", "p"],
            [[name, show_p(pvalue)] for name, pvalue in zip(outcome.views, outcome.pvalues, strict=True)],
            caption=f"{what}: each view by itself. Do not pick one of these p-values: the one above is valid for "
            f"all of them together. D is {outcome.divergence:.3g}, by chance {outcome.by_chance:.3g}.",
        )
    if diagnostics := comparison.relation.diagnostics:
        page.facts(
            {
                "check of balance": f"{diagnostics['balance']}, p = {show_p(diagnostics['balance_pvalue'])} (small if "
                "the estimated probability of the table given the inputs does not explain how the inputs differ)",
                "independence of rows": _independence_words(comparison.row_dependence),
                "effective rows": f"{diagnostics['effective_rows']:,.0f} (the number of rows with the same information "
                "if the tables overlapped fully)",
            }
        )


def _independence_words(rows: RowDependence) -> str:
    """Say what is known of the dependence of rows on their neighbours, and of copies."""
    copies = f"copies of other rows: {sum(rows.copies):,}" if rows.has_copies else "no copies"
    if rows.pvalues is None or rows.autocorrelations is None or rows.lags is None:
        return f"{copies}; dependence along the rows was not tested"
    tables = ("in the reference", "in the current table")
    said = []
    for correlation, lag, table, pvalue in zip(rows.autocorrelations, rows.lags, tables, rows.pvalues, strict=True):
        lags = counted(lag, "row")
        said.append(f"{correlation:.2f} over {lags} {table} (p = {show_p(pvalue)} over ten lags)")
    return f"{copies}; largest autocorrelation of the residuals of {rows.response} along the rows: {' and '.join(said)}"


def _reproduce(page: Page, comparison: Comparison, command: str | None) -> None:
    """Show which data and settings made the page."""
    pair = comparison.pair
    page.section("Data and command" if command else "Data")
    page.facts(
        {
            "reference": f"{pair.reference.title}: {account_words(pair.reference, comparison.seed)}",
            "current": f"{pair.current.title}: {account_words(pair.current, comparison.seed)}",
            "y": column_words(pair.y, _NAMED_COLUMNS),
            "x": column_words(pair.x, _NAMED_COLUMNS),
            "kernels": "Gaussian on numbers, each in units of its own spread; delta (equal or not) on categories",
            "level": comparison.alpha,
            "resamples": comparison.n_resamples,
            "seed": comparison.seed,
        }
    )
    if comparison.notes:
        page.points(comparison.notes)
    if command:
        page.command(command)


_WIDTH = 4.6
"""Inches of a picture: lettering of wider ones than about 5 is too small on a phone (`Page.figure`)."""
_BINS, _FEWEST_IN_BIN = 10, 8
"""Bins of an input with equally many rows, and rows of one table in a bin at least: fewer say little
of the quantiles that the band is drawn by."""
_MIDDLE = 0.8
"""Share of the values of y that the band around a mean holds: the tenths at either end would be its outliers."""
_SHARE_LEVEL = 0.95
"""Level of the interval around a share, which has no middle of values."""
_MOST_LABELS = 10
"""Labels along an axis: more have no room for their words in a picture of this width."""
_LONGEST_TITLE, _LONGEST_LABEL, _LETTERS_IN_A_ROW = 42, 14, 36
"""Letters of the title of an axis, of one label along it, and of all labels that stand beside one another: as many as
fit the width of a picture. Longer ones are cut off, and more labels are turned."""
_LONG_NUMBER = 1e7
"""Numbers from here on are written with an exponent in pictures: with all their digits they run into one another."""
_WITNESS_TOP, _WITNESS_MIDDLE = 0.98, (0.005, 0.995)
"""Quantiles of the local divergence, and of the input, at which the axes of its picture end: a few points with hardly a
neighbour would flatten everything else."""


def loss_figure(loss: LossChange) -> Any:
    """Draw how the mean loss got from what it was to what it is, part by part."""
    figure, axes = _figure(2.9)
    names = ["before", "inputs\nmoved", "new\ninputs", "relation", "now"]
    parts = [loss.inputs_moved, loss.new_inputs, loss.relation]
    levels = loss.reference + np.cumsum([0.0, *(part.value for part in parts)])
    axes.bar([0, 4], [loss.reference, loss.current], width=0.6, color=[BLUE, ORANGE])
    for position, (part, level) in enumerate(zip(parts, levels[:-1], strict=True), start=1):
        axes.bar(position, part.value, bottom=level, width=0.6, color=RED if part.value > 0 else GREEN, alpha=0.85)
        axes.vlines(position, level + part.low, level + part.high, color=INK, lw=1.6)
        axes.hlines(level, position - 0.7, position + 0.3, color=SILVER, lw=1)
    axes.hlines(levels[-1], 3.3, 4.3, color=SILVER, lw=1)
    written = (
        loss.levels if loss.current < _LONG_NUMBER else [f"{value:.3g}" for value in (loss.reference, loss.current)]
    )
    for position, value, words in zip((0, 4), (loss.reference, loss.current), written, strict=True):
        axes.annotate(words, (position, value), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=9)
    axes.set_xticks(range(5), names, fontsize=9)
    axes.set_ylabel("mean loss")
    axes.margins(y=0.12)
    return figure


def null_figure(outcome: ViewsOutcome, title: str) -> Any:
    """Draw the histogram of the null distribution, and where the observed value lies."""
    figure, axes = _figure(2.9)
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
    figure, (above, below) = _figure(4.9, panels=2)
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
    shares = pair.y[0].is_category
    for x, y, color, label in zip((pair.xp, pair.xq), location.responses, (BLUE, ORANGE), sides, strict=True):
        bins = np.searchsorted(edges, x[:, column_index], side="right")
        rows_of_bins = [np.flatnonzero(bins == b) for b in range(len(edges) + 1)]
        rows_of_bins = [rows for rows in rows_of_bins if len(rows) >= _FEWEST_IN_BIN]
        if not rows_of_bins:
            continue
        at = np.array([x[rows, column_index].mean() for rows in rows_of_bins])
        means, low, high = _mean_and_band([y[rows] for rows in rows_of_bins], shares=shares)
        axes.fill_between(at, low, high, color=color, alpha=0.16, lw=0)
        axes.plot(at, means, color=color, lw=2.2, marker="o", ms=3.5, label=label)


def _mean_and_band(parts: list[FloatArray], *, shares: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean of each part of the rows, and around it the middle of them, or the interval of a share."""
    means = np.array([part.mean() for part in parts])
    if not shares:
        ends = ((1 - _MIDDLE) / 2, (1 + _MIDDLE) / 2)
        low, high = (np.array([np.quantile(part, q) for part in parts]) for q in ends)
        return means, low, high
    errors = np.sqrt(np.maximum(means * (1 - means), 0.0) / [len(part) for part in parts])
    reach = float(ndtri((1 + _SHARE_LEVEL) / 2)) * errors
    return means, means - reach, means + reach


def _by_label(axes: Any, location: Location, column_index: int, sides: tuple[str, str]) -> None:
    """Draw the mean of y and the band around it for each label of a column, the two tables side by side."""
    pair = location.pair
    codes = _frequent(np.concatenate([pair.xp, pair.xq])[:, column_index].astype(int), pair.x[column_index])
    shares = pair.y[0].is_category
    data = zip((pair.xp, pair.xq), location.responses, (BLUE, ORANGE), sides, (-0.14, 0.14), strict=True)
    for x, y, color, label, offset in data:
        responses = [y[x[:, column_index] == code] for code in codes]
        # Labels that this table has.
        present = [i for i, values in enumerate(responses) if len(values)]
        at = np.array(present) + offset
        means, low, high = _mean_and_band([responses[i] for i in present], shares=shares)
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
    low, high = np.quantile(x, _WITNESS_MIDDLE)
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


def _figure(height: float, panels: int = 1) -> tuple[Any, Any]:
    """Return a picture of the width that all on the page have, and its axes, panels one below the other."""
    figure, axes = drawing(_WIDTH, height, panels, 1, sharex=panels > 1, height_ratios=[3, 2][:panels])
    for each in np.atleast_1d(axes):
        each.tick_params(labelsize=9)
    return figure, axes
