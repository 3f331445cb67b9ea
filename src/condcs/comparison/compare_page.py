"""The page of ``condcs compare``: the answer first, then pictures, then how it was found."""

from __future__ import annotations

from condcs.comparison.compare_pictures import band_words, input_figure, null_figure, response_title, telling_columns
from condcs.comparison.result import Comparison
from condcs.comparison.shifts import Shift
from condcs.comparison.wording import account_words, column_words, show_p
from condcs.report.page import Page

_METHOD = """
Two questions are asked apart. Are the inputs distributed as before? And, for equal inputs, is the response
distributed as before? Only the second is about the relation: a model of y can stay right when the inputs shift, and
go wrong when they do not.

The first is a two-sample test with the Cauchy-Schwarz divergence; rows are assigned to the two tables at random,
which is exact. The second uses the conditional Cauchy-Schwarz divergence (Yu et al., TPAMI 2025). Rows are assigned
to the two tables with the probability that their inputs have of coming from each, estimated by logistic regression
on splines of each input, with the balance of the inputs held: so a shift of the inputs alone is no evidence against
the relation.

Both look at several widths of "nearby", narrow and wide ones, and their p-values are valid for all of them together.
The overlap is exp(-D/2), the cosine between the two (1: the same, 0: nothing in common), at the
width where the evidence is strongest. Samples of finite size never overlap wholly, so what they would lose if nothing
had changed, the mean of D over the redrawn tables, is subtracted from D first, in the estimate and in its interval.
"""

_ASSUMPTIONS = (
    "Rows are independent of one another. Repeated measurements of the same thing make p-values too small.",
    "The probability of the table given the inputs is a smooth function of each input, added up on the log-odds scale. "
    "No test of a conditional relation is valid without some such assumption.",
    "Where only one table has rows, nothing can be compared, and nothing is said.",
    "Regions were chosen because they differ: they describe the change and are not tests of their own.",
    "A p-value above the level means that these samples do not show a change, not that there is none.",
)


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
    page.section("Where" if found.relation_changed else "Where it would be")
    if not found.relation_changed:
        page.text(
            "The tests found no evidence of a change. These are the places where the two tables look least alike; "
            "expect such differences from chance."
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
    heads = [words for words, _, _ in places.regions[0].response]
    page.table(
        [
            "region",
            "difference",
            "rows before",
            "rows now",
            *(f"{h} {when}" for h in heads for when in ("before", "now")),
        ],
        [
            [
                region.words,
                f"{region.ratio:.1f} x",
                f"{region.share_p:.0%}",
                f"{region.share_q:.0%}",
                *(value for _, before, after in region.response for value in (before, after)),
            ]
            for region in places.regions
        ],
        caption="Regions by how much the relations differ, as a multiple of the average difference.",
    )


def _evidence(page: Page, found: Comparison) -> None:
    page.section("How sure")
    for shift, what in ((found.inputs, "inputs"), (found.relation, "relation")):
        count = len(shift.null_distribution)
        reached = f"{sum(value >= shift.statistic for value in shift.null_distribution)} of {count} redrawn tables"
        page.figure(
            null_figure(shift, f"{what}: largest studentised divergence"),
            alt=f"Histogram of the statistic of the {what} in redrawn tables; {reached} reach the observed value, "
            f"{shift.statistic:.2f}.",
            caption=f"{what.capitalize()}: {reached} reach the observed value (p = {show_p(shift.pvalue)}).",
        )
    for shift, what, columns in (
        (found.inputs, "Inputs", ["width"]),
        (found.relation, "Relation", ["width on x", "width on y"]),
    ):
        page.table(
            [*columns, "D", "by chance", "p"],
            [
                [*(f"{m:g} x median" for m in multiples), divergence, chance, show_p(pvalue)]
                for multiples, divergence, chance, pvalue in zip(
                    shift.multiples, shift.divergences, shift.chances, shift.pvalues, strict=True
                )
            ],
            caption=f"{what}: each width by itself. These p-values are not to be picked from: the one above holds for "
            "all of them.",
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
            "redrawn tables": found.n_resamples,
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
