"""The page of ``condcs compare``: the answer first, then pictures, then how it was found."""

from __future__ import annotations

from collections.abc import Sequence

from condcs._core.printable import alike, counted
from condcs._inference.explain import show_p
from condcs._tables.kinds import Column
from condcs.comparison._compare_figures import (
    MIDDLE_SHARE,
    SHARE_LEVEL,
    input_figure,
    loss_figure,
    null_figure,
    response_title,
    telling_columns,
)
from condcs.comparison._result import Comparison
from condcs.comparison._row_dependence import RowDependence
from condcs.comparison._wording import (
    NO_REGION,
    WordTable,
    account_words,
    answers_table,
    as_date,
    column_words,
    effects_table,
    interval_title,
    left_out_words,
    loss_table,
    overall_rows,
    regions_table,
    resamples_words,
    rows_words,
    shown_decision,
    undetectable_words,
)
from condcs.report._page import Page

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


def compare_page(comparison: Comparison, command: str | None = None) -> Page:
    """Write up a comparison."""
    pair = comparison.pair
    y = ", ".join(column.name for column in pair.y)
    lead = f"{pair.current.title} against {pair.reference.title}: {y}, given {column_words(pair.x)}."
    page = Page(f"Did the relation of {y} to its inputs change?", lead)
    page.verdict(comparison.verdict, shown_decision(comparison).tone)
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
    """Show how much y changed: for the same inputs, and whatever these are."""
    page.section("How large")
    effects = effects_table(comparison)
    if effects.rows:
        _add_table(page, effects, "For the same inputs: rows of both tables whose inputs are alike are compared.")
    if comparison.limits.are_set and not comparison.relation_changed:
        page.text(undetectable_words(comparison))
    page.table(
        [f"{rows_words(all_rows=comparison.has_all_rows)}, whatever their inputs", *comparison.sides],
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
        caption=f"Mean loss before and now{_of_sample(comparison)}, and what lies between them; lines are "
        f"{interval_title(loss.total)}s of the parts.",
    )
    _add_table(page, loss_table(comparison))


def _of_sample(comparison: Comparison) -> str:
    """Say of values that they are those of a sample, if rows were left out."""
    return "" if comparison.has_all_rows else f", of {rows_words(all_rows=False)}"


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
        band = f"{SHARE_LEVEL:.0%} interval" if location.pair.y[0].is_category else f"the middle {MIDDLE_SHARE:.0%}"
        page.figure(
            input_figure(comparison, column_index),
            alt=f"{response} over {column.name} in both tables, and below it the local divergence between the two "
            "relations, with what chance alone would give.",
            caption=f"{response} over {column.name}: mean and {band} of it in both tables{_of_sample(comparison)}. "
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
        f"distributed in both tables{_of_sample(comparison)}. Shares need not add up to 100%: a change can be the same "
        "at all inputs, or involve several of them.",
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
        said.append(f"{correlation:.2f} over {lags} {table} (p = {show_p(pvalue)} over 24 rows)")
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
            **({"left out": left_out_words(pair.left_out)} if pair.left_out else {}),
            "kernels": "Gaussian on numbers, each in units of its own spread; delta (equal or not) on categories",
            "level": comparison.alpha,
            "resamples": resamples_words(comparison),
            "seed": comparison.seed,
        }
    )
    if comparison.notes:
        page.points(comparison.notes)
    if command:
        page.command(command)
