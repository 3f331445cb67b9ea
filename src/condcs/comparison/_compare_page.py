"""The page of ``condcs compare``: the answer first, then pictures, then how it was found."""

from __future__ import annotations

from typing import Literal

from condcs._tables.kinds import Column
from condcs.comparison._compare_figures import (
    band_words,
    input_figure,
    loss_figure,
    null_figure,
    response_title,
    telling_columns,
)
from condcs.comparison._result import Comparison
from condcs.comparison._wording import (
    NOWHERE,
    Lines,
    account_words,
    answers,
    column_words,
    effects,
    interval_words,
    loss_parts,
    overall,
    show,
    show_level,
    show_number,
    show_p,
    unseen,
)
from condcs.report._page import Page

_METHOD = """
Two questions are asked apart. Are the inputs distributed as before? And, for equal inputs, is the response
distributed as before? Only the second is about the relation: a model of y can stay right when the inputs shift, and
go wrong when they do not.

The first is a two-sample test in which rows are assigned to the two tables at random, which is exact. The second is
about what is left of the response when its regression on the inputs is subtracted, a regression that does not know
which row is from which table. Rows are assigned to the two tables with the probability that their inputs have of coming
from each, an estimate that is made richer until it explains how the inputs differ. So a shift of the inputs alone is no
evidence against the relation.

The first looks at the Cauchy-Schwarz divergence at several bandwidths, at each input and at pairs of inputs; the second
at several kinds of change: of the mean, of how strongly the response follows the inputs, of the influence of single
inputs and of pairs, of the spread, of the shape, in some places only, and at the conditional Cauchy-Schwarz divergence
(Yu et al., TPAMI 2025). Each p-value is valid for all views together.

How large the change is was measured over the inputs that both tables have (with a density proportional to pq/(p + q)):
in each table y is regressed on the inputs, every row left out of its own fit, and what chance adds is allowed for. The
lower bound of the root mean square holds for changes of any form, the upper one for those that smooth functions of the
inputs can follow.
"""

_OVERLAP = """
Overlap compares whole distributions: 1 if they are the same, 0 if they have nothing in common. It is the cosine between
the two, exp(-D/2) with D the Cauchy-Schwarz divergence of the inputs at the most telling bandwidth, and of the response
without its regression on the inputs; what samples of this size lose by chance is not counted.
"""

_LOSS = """
The change of the mean loss is the sum of three parts. Inputs moved: rows that both tables have became more or less
frequent. New inputs: rows that the reference has not, or hardly. Relation: for equal inputs the loss is another one.
Only the last says that the model has become wrong; the first two, that it is used where it always was worse, or better.
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

_MOST_INPUTS = 20
_TONES: dict[str, Literal["neutral", "good", "bad"]] = {"changed": "bad", "same": "good", "undecided": "neutral"}


def compare_page(found: Comparison, command: str | None = None) -> Page:
    """Write up a comparison."""
    pair = found.pair
    y = ", ".join(column.name for column in pair.y)
    lead = f"{pair.current.title} against {pair.reference.title}: {y}, given {column_words(pair.x)}."
    page = Page(f"Did the relation of {y} to its inputs change?", lead)
    page.verdict(found.verdict, _TONES[found.decision])
    _sizes(page, found)
    _loss(page, found)
    _where(page, found)
    _inputs(page, found)
    _evidence(page, found)
    page.section("Method and assumptions")
    page.text(_METHOD)
    page.points(_ASSUMPTIONS)
    _reproduce(page, found, command)
    page.data("condcs-comparison", found.to_dict())
    return page


def _sizes(page: Page, found: Comparison) -> None:
    page.section("How large")
    _lines(page, effects(found), "For equal inputs: rows of both tables whose inputs are alike are compared.")
    if found.limits.given and found.decision != "changed":
        page.text(unseen(found))
    page.table(
        ["all rows, whatever their inputs", "before", "now"],
        overall(found),
    )


def _loss(page: Page, found: Comparison) -> None:
    if found.loss_change is None:
        return
    page.section("Why the loss changed", "The loss")
    page.text(_LOSS)
    loss = found.loss_change
    page.figure(
        loss_figure(loss),
        alt=f"Bars from the mean loss before, {loss.before:.3g}, by its three parts to the one now, {loss.now:.3g}.",
        caption="Mean loss before and now, and what lies between them; lines are 95% intervals of the parts.",
    )
    _lines(page, loss_parts(found))


def _lines(page: Page, lines: Lines, caption: str = "") -> None:
    page.table(lines.columns, lines.rows, caption)


def _where(page: Page, found: Comparison) -> None:
    places = found.places
    page.section("Where" if found.relation_changed else "The tables side by side")
    if not found.relation_changed:
        small = found.relation.pvalue <= found.alpha
        page.text(
            "The test found a change, but not one that is known to matter."
            if small
            else "The test found no evidence of a change. Chance, and other inputs that shifted, can explain what "
            "differs in the pictures."
        )
    else:
        _regions(page, found)
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


def _regions(page: Page, found: Comparison) -> None:
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
                show_level(change, change.before.value),
                show_level(change, change.now.value),
                interval_words(change),
                show_p(region.p_value),
            ]
            for region in found.regions
            for change in region.changes[:1]
        ],
        caption="Regions in which the relation changed, found on one half of the rows and tested on the other; "
        "p-values are adjusted for all regions that were looked at. Before and now are for the same inputs.",
    )


def _inputs(page: Page, found: Comparison) -> None:
    """Show which inputs the change involves, and which of them shifted, side by side."""
    pairs = zip(found.places.explanation.inputs, found.pair.x, strict=True)
    # A sine or cosine of the time of day has something to say only if something happened to it.
    shown = [(i, c) for i, c in pairs if c.cycle is None or i.involvement > 0 or i.p_value <= found.alpha]
    shown.sort(key=lambda pair: (-pair[0].involvement, pair[0].p_value))
    if not shown:
        return
    page.section("The inputs")
    page.table(
        ["input", "share of the change", "shifted: p-value", "before", "now", "how"],
        [
            [
                one.name,
                f"{one.involvement:.0%}",
                show_p(one.p_value),
                *one.sparklines,
                "; ".join(_how(column, *summary) for summary in one.summaries[:2]),
            ]
            for one, column in shown[:_MOST_INPUTS]
        ],
        caption="Share of the change of the relation that involves each input, and how the input itself is "
        "distributed in both tables.",
    )


def _how(column: Column, what: str, before: float, now: float) -> str:
    if column.is_category:
        return f"{what} {before:.0%} → {now:.0%}"
    if what == "mean":
        return f"mean {show(column, before)} → {show(column, now)}"
    return f"{what} {show_number(before)} → {show_number(now)}{' days' if column.kind == 'date' else ''}"


def _evidence(page: Page, found: Comparison) -> None:
    page.section("How sure")
    _lines(page, answers(found))
    page.text(_OVERLAP)
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
