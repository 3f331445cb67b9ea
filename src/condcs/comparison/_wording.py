"""Numbers, columns and rows of a comparison in words: the same in the terminal, on the page and in a notebook.

`all_passages` is everything that is said of a comparison, in order. Its verdict, the first sentence, is made in
`_answer`: what y does now for the same inputs, or how small a change would not have been seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from condcs._core.printable import alike, harmless, listed
from condcs._inference.effects import Effect
from condcs._inference.explain import Region, ends_of, interval_of, level_words, show_p
from condcs._inference.results import Estimate
from condcs._tables.kinds import Column, LeftOut, describe_columns
from condcs._tables.pair import Account
from condcs.comparison._cautions import cautions

if TYPE_CHECKING:
    from condcs.comparison._result import Comparison, Decision
    from condcs.comparison._steps import ViewsOutcome


_LEAST_EFFECTIVE_SHARE = 0.05
"""Effective rows, as a share of all, from which on effects are stated. With fewer, an effect holds for the inputs of
hardly any row, and the verdict says so instead."""
_MANY_INPUTS = 10
"""Inputs from which on an answer without evidence suggests to compare fewer: of fewer than these, there are hardly any
to leave out."""
_LEAST_DEPENDENCE = 0.02
"""Share of the variance of y that an input must explain to be named as one that y depends on: a fiftieth."""
_DEPENDENCE_BY_CHANCE = 13.0
"""Of n rows an input must also explain more than this number divided by n. Ten bins explain 9/n of the variance if y
does not depend on them, and 13/n more than that in one of a hundred inputs (22 is the 99% quantile of chi-squared with
9 degrees of freedom)."""
_MOST_TELLING_INPUTS = 3
"""Inputs that are named in one sentence at most; more make it too long to read."""
_MOST_GAPPY_INPUTS = 5
"""Inputs with gaps that are listed in the account of a table: of a survey, all of them have some."""
_MOST_RESPONSES = 2
"""Responses whose undetectable changes are given in one sentence at most, for the same reason."""
_MOST_EFFECTS = 3
"""Effects that are told in one sentence at most, for the same reason."""
_SPREAD_VIEWS = frozenset({"spread", "spread along x"})
"""Views of the test that see how far y scatters."""


class ShownAnswer(NamedTuple):
    """How an answer is shown: its word in tables, the tone of the page, the style of the word in the terminal."""

    word: str
    tone: Literal["neutral", "good", "bad"]
    style: str = ""


SHOWN_DECISIONS: dict[Decision, ShownAnswer] = {
    "changed": ShownAnswer("changed", "bad", "bold red"),
    "same": ShownAnswer("same", "good", "bold green"),
    "undecided": ShownAnswer("undecided", "neutral"),
}
"""How each decision is shown. Its own name is what `Comparison.decision` and the JSON say, whatever the word here."""

NO_EVIDENCE = ShownAnswer("no evidence", "neutral", "green")
SHIFTED = ShownAnswer("shifted", "neutral", "bold red")
DIFFERS = ShownAnswer("differs", "bad")

BEFORE_AND_NOW = "before", "now"
"""The reference and the current table, in sentences."""

NO_REGION = "No region by itself shows the change clearly enough to be named."
"""Stands in place of the table of regions if there is none."""


def account_words(account: Account, seed: int) -> str:
    """Say what became of a table's rows."""
    words = f"{account.used:,} rows"
    if account.sampled:
        words += f", sampled with seed {seed} from {account.seen - account.gaps:,}"
    if account.short_of_memory:
        words += " (limited by memory)"
    if account.gaps:
        lacking = f"without {' or '.join(account.required)}" if account.required else "with missing values"
        words += f"; {account.gaps:,} {lacking} dropped"
    if account.gaps_by_input:
        gaps = listed([f"{name} ({count:,})" for name, count in account.gaps_by_input], _MOST_GAPPY_INPUTS)
        words += f"; gaps count as values in {gaps}"
    return words


def left_out_words(left_out: Sequence[LeftOut]) -> str:
    """Name the columns that are no inputs, each with the reason."""
    return "; ".join(f"{each.column} ({each.reason})" for each in left_out)


def column_words(columns: tuple[Column, ...], most: int = 8) -> str:
    """Name columns and their kinds."""
    return listed(describe_columns(columns), most)


def as_date(days: float) -> str:
    """Write days since 1970 as a date."""
    return str(np.datetime64("1970-01-01") + np.timedelta64(int(np.floor(days)), "D"))


@dataclass(frozen=True)
class WordTable:
    """A table of words; columns named in `numbers` are set flush right, those in `intervals` are printed dim.

    `styles` has the styles of single cells in the terminal, by row and column: what a cell says does not tell.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()
    intervals: frozenset[str] = frozenset()
    styles: Mapping[tuple[int, int], str] = field(default_factory=dict)


def table_with_answers(
    columns: tuple[str, ...],
    rows: Sequence[Sequence[str | ShownAnswer]],
    numbers: frozenset[str],
    intervals: frozenset[str] = frozenset(),
) -> WordTable:
    """Make a table in which some cells are answers, with their words and styles."""
    words = tuple(tuple(cell.word if isinstance(cell, ShownAnswer) else cell for cell in row) for row in rows)
    styles = {
        (row_index, column_index): cell.style
        for row_index, row in enumerate(rows)
        for column_index, cell in enumerate(row)
        if isinstance(cell, ShownAnswer)
    }
    return WordTable(columns, words, numbers, intervals, styles)


Passage = tuple[Literal["about", "answer", "table", "notes"], Any]
"""A part of what is said, and its kind: pairs of a name and words ("about"), sentences of which the first is the
answer, a `WordTable`, or notes."""


def table_accounts(comparison: Comparison) -> WordTable:
    """Say what became of the rows of each table."""
    roles = (("reference", comparison.pair.reference), ("current", comparison.pair.current))
    rows = tuple((role, account.title, account_words(account, comparison.seed)) for role, account in roles)
    return WordTable(("table", "title", "rows"), rows)


def about_comparison(comparison: Comparison) -> list[tuple[str, str]]:
    """Say which tables were compared, and which of their columns."""
    tables = [(role, f"{title}, {rows}") for role, title, rows in table_accounts(comparison).rows]
    left_out = comparison.pair.left_out
    return [
        *tables,
        *about_variables(comparison),
        *([("left out", left_out_words(left_out))] if left_out else []),
        ("resamples", resamples_words(comparison)),
    ]


def resamples_words(comparison: Comparison) -> str:
    """Say how many resamples were made, of the tests and of the regions."""
    return f"{comparison.n_resamples:,} of each test, {comparison.location.n_resamples:,} of the regions"


def rows_words(*, all_rows: bool) -> str:
    """Name the rows that raw values of y are of: all rows of the tables, or a sample."""
    return "all rows" if all_rows else "the rows used"


def about_variables(comparison: Comparison) -> tuple[tuple[str, str], ...]:
    """Name the columns of y and of x."""
    return ("y", column_words(comparison.pair.y)), ("given x", column_words(comparison.pair.x))


def verdict_words(comparison: Comparison) -> str:
    """Give the answer, and why the p-value is not to be taken at its word."""
    given = given_others_words([each.column for each in comparison.pair.left_out if each.could_matter])
    return " ".join([_answer(comparison), *given, *(caution.sentence for caution in cautions(comparison))])


def given_others_words(left_out: Sequence[str]) -> list[str]:
    """Say of an answer that some columns could not be compared; nothing if there are none."""
    if not left_out:
        return []
    was = "was" if len(left_out) == 1 else "were"
    columns = listed(left_out, _MOST_TELLING_INPUTS)
    return [f"This is given the other inputs: {columns} could not be compared and {was} left out."]


def _answer(comparison: Comparison) -> str:
    """Give the answer, the first sentence without statistics: what y does now for the same inputs, then how sure."""
    y = ", ".join(column.name for column in comparison.pair.y)
    p = f"p = {show_p(comparison.relation.pvalue)}"
    if not comparison.inputs_shifted:
        shifted = "no evidence that the inputs shifted"
    elif comparison.relation_changed:
        shifted = "the inputs themselves shifted as well"
    else:
        shifted = "the inputs themselves shifted (covariate shift)"
    if comparison.relation_changed:
        words = change_words(comparison)
        return f"For the same inputs, {words}. The relation of {y} to the inputs changed ({p}); {shifted}."
    if comparison.decision == "same":
        most = _bounds_words(comparison, only_most=True)
        return f"The relation of {y} to the inputs is the same within {_limit_words(comparison)}: {most}; {shifted}."
    if comparison.limits.are_set:
        return (
            f"Undecided whether the relation of {y} to the inputs changed by more than {_limit_words(comparison)}: "
            f"{_bounds_words(comparison)} ({p}); {shifted}."
        )
    evidence = f"evidence that the relation of {y} to the inputs changed ({p})"
    if _hardly_overlaps(comparison):
        rows = len(comparison.pair.xp) + len(comparison.pair.xq)
        effective_rows = comparison.relation.diagnostics["effective_rows"]
        return (
            f"The two tables have hardly any inputs in common, so that little can be said about {y} for the same "
            f"inputs: {rows:,} rows are as informative as {effective_rows:.0f} would be with full overlap. There "
            f"is no {evidence}, but a change is not ruled out; {shifted}."
        )
    return f"No {evidence}; {shifted}. {undetectable_words(comparison)}"


def _hardly_overlaps(comparison: Comparison) -> bool:
    """Whether there is hardly anything to compare: too few rows, or a small share of them, are informative."""
    rows = len(comparison.pair.xp) + len(comparison.pair.xq)
    diagnostics = comparison.relation.diagnostics
    return bool(diagnostics["hardly_overlaps"] or diagnostics["effective_rows"] < _LEAST_EFFECTIVE_SHARE * rows)


def undetectable_words(comparison: Comparison) -> str:
    """Say how large a change these rows can miss, so that no evidence is not taken for no change."""
    pair, rows = comparison.pair, comparison.row_dependence
    if rows.has_copies or rows.along_rows:
        # The errors behind such a size count every row as an observation of its own.
        depend = "repeat one another" if rows.has_copies else "depend on their neighbours"
        return f"Changes are not ruled out; how small ones these rows can miss is not known, because they {depend}."
    pooled_y = np.concatenate([pair.yp, pair.yq])  # (n, responses)
    shifts = []
    for column, effect, values in zip(pair.y, comparison.effects, pooled_y.T, strict=True):
        # A shift cannot be larger than the range of y.
        largest = 1.0 if column.is_category else float(np.ptp(values))
        everywhere, in_part = (
            f"by less than {_amount(column, size)}" if size < largest else "of any size"
            for size in (effect.detectable, effect.detectable_in_part)
        )
        shifts.append(
            f"a shift of {_response_name(column)} {everywhere} everywhere, or {in_part} in a tenth of the rows"
        )
    said = ", and ".join(shifts[:_MOST_RESPONSES])
    words = f"Small changes are not ruled out: these rows can miss {said}."
    if len(pair.x) < _MANY_INPUTS:
        return words
    # So many inputs hide what happens in a few of them.
    names = _inputs_that_y_depends_on(comparison)
    fewer = f" {pair.y[0].name} depends most on {_enumerated(names)}." if names else ""
    return (
        f"{words} With {len(pair.x)} inputs, changes in a few places are hard to see: fewer inputs, or more rows, show "
        f"more.{fewer}"
    )


def _inputs_that_y_depends_on(comparison: Comparison) -> list[str]:
    """Name the inputs that the first response depends on most, as far as that is more than chance."""
    pair, dependence = comparison.pair, comparison.location.dependence
    least = max(_LEAST_DEPENDENCE, _DEPENDENCE_BY_CHANCE / (len(pair.xp) + len(pair.xq)))
    by_dependence = np.argsort(-np.array(dependence), kind="stable")
    return [pair.x[k].name for k in by_dependence[:_MOST_TELLING_INPUTS] if dependence[k] > least]


def _enumerated(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _is_spread_seen(comparison: Comparison) -> bool:
    """Whether a view of the test sees another spread, at the level of the test.

    A standard deviation for the same inputs is measured around a regression in each table, and holds the errors of
    both. The view is measured around one regression for all rows, with redrawn labels: what it sees is no such error.
    """
    views = zip(comparison.relation.views, comparison.relation.pvalues, strict=True)
    return any(p <= comparison.alpha for name, p in views if name in _SPREAD_VIEWS)


def effect_words(
    column: Column,
    effect: Effect,
    sides: tuple[str, str] = BEFORE_AND_NOW,
    *,
    spread_seen: bool = True,
    up_and_down: bool = False,
) -> list[str]:
    """Say what a response does for the same inputs: each change whose interval excludes 0.

    A change of the spread must also have been seen by the test, which `spread_seen` says. `up_and_down` says whether
    the response is clearly higher in one region and lower in another.
    """
    sentences = []
    average, size, response = effect.average, effect.size, _response_name(column)
    if average is not None and _excludes_zero(average):
        nearer, farther = sorted((abs(average.low), abs(average.high)))
        value, low, high = _amounts(column, abs(average.value), nearer, farther)
        direction = "higher" if average.value > 0 else "lower"
        # Equal everywhere, a change would have its average as its root mean square.
        where = ", but not equally everywhere" if size.low > farther else ""
        sentences.append(f"{response} is {_with_unit(column, value)} {direction} on average ({low} to {high}){where}")
    elif size.low > 0:
        value, low, high = _amounts(column, *size)
        if _is_plural(column):
            sentences.append(f"{response} differ by about {_with_unit(column, value)} ({low} to {high})")
        else:
            # A root mean square beyond the interval of the average does not say that there are changes of both signs.
            is_unequal = average is not None and size.low > max(-average.low, average.high)
            where = ", not equally everywhere" if is_unequal else ""
            where = ", up in some places and down in others" if up_and_down else where
            sentences.append(f"{response} differs by about {_with_unit(column, value)} ({low} to {high}){where}")
    spread = effect.spread
    if spread is not None and spread_seen and _excludes_zero(spread.change):
        more = "more" if spread.change.value > 0 else "less"
        # Two digits of each at least: none is 0 beside a much larger one.
        length = spread.change.high - spread.change.low
        in_first, in_second = (
            alike(value, length=min(length, value))[0] for value in (spread.reference, spread.current)
        )
        deviation = f"standard deviation {in_first} {sides[0]}, {in_second} {sides[1]}"
        sentences.append(f"{'it' if sentences else column.name} scatters {more} ({deviation})")
    return sentences


def _is_up_and_down(regions: Sequence[Region], column: Column) -> bool:
    """Whether the mean of a response, or the share of a label, clearly rose in one region and fell in another."""
    rose, fell = set[str](), set[str]()
    for region in regions:
        for change in region.changes:
            if change.column == column.name and change.quantity != "spread" and change.is_clear:
                (rose if change.change.value > 0 else fell).add(change.words)
    return bool(rose & fell)


def change_words(comparison: Comparison) -> str:
    """Say what y does for the same inputs, and in which region most clearly, unless that is everywhere."""

    def every_effect(*, spread_seen: bool) -> list[str]:
        sentences: list[str] = []
        for column, effect in zip(comparison.pair.y, comparison.effects, strict=True):
            sentences += effect_words(
                column,
                effect,
                comparison.sides,
                spread_seen=spread_seen,
                up_and_down=_is_up_and_down(comparison.regions, column),
            )
        return sentences

    # If the interval of the spread is all that excludes 0, it is said, whether or not a view sees it.
    words = every_effect(spread_seen=_is_spread_seen(comparison)) or every_effect(spread_seen=True)
    y = ", ".join(column.name for column in comparison.pair.y)
    if _hardly_overlaps(comparison):
        words = [f"{y} is distributed differently, as far as the two have inputs in common"]
    said = ", and ".join(words[:_MOST_EFFECTS]) or f"{y} is distributed differently, {_amount_words(comparison)}"
    if not comparison.regions or not comparison.regions[0].bounds:
        return said
    region = comparison.regions[0]
    change = region.sized_change
    if change is None:
        return f"{said}, most clearly where {region.words} ({region.change_words})"
    in_first, in_second = level_words(change)
    first, second = comparison.sides
    return f"{said}, most clearly where {region.words} ({change.words}: {in_first} {first}, {in_second} {second})"


def _amount_words(comparison: Comparison) -> str:
    """Say between which bounds a change lies of which no interval excludes 0.

    Such an interval is no evidence that mean and spread are the same. They are said to be nearly so only where every
    upper bound is below what matters: the tolerance, or, without one, a shift that the test would find.
    """
    responses = list(zip(comparison.pair.y, comparison.effects, strict=True))
    tolerance = comparison.limits.tolerance
    if all(effect.bounds[1] <= (effect.detectable if tolerance is None else tolerance) for _, effect in responses):
        most = [
            f"{_bounded_words(column)} by at most {_amount(column, effect.bounds[1])} in root mean square"
            for column, effect in responses[:_MOST_RESPONSES]
        ]
        return f"though {_enumerated(most)}"
    amounts = []
    for column, effect in responses[:_MOST_RESPONSES]:
        low, high = _amounts(column, effect.size.low, effect.size.high)
        of_response = f" of {_response_name(column)}" if len(responses) > 1 else ""
        amounts.append(f"{low} to {high}{_unit(column)}{of_response}")
    return f"by an amount that is not certain ({_enumerated(amounts)} in root mean square)"


def _bounded_words(column: Column) -> str:
    """Begin a sentence on the bounds of a response: what it is that differs."""
    if not column.is_category:
        return f"mean and spread of {column.name} differ"
    return f"{_response_name(column)} {'differ' if _is_plural(column) else 'differs'}"


def _limit_words(comparison: Comparison) -> str:
    """Say how large a change must be to matter."""
    limits, words = comparison.limits, list[str]()
    if limits.tolerance is not None:
        words.append(_amount(comparison.pair.y[0], limits.tolerance))
    if limits.min_effect is not None:
        words.append(f"{limits.min_effect:g} of overlap")
    return " and ".join(words)


def _bounds_words(comparison: Comparison, *, only_most: bool = False) -> str:
    """Say between which bounds the change lies, or only below which, in the units of each limit."""
    words = []
    if comparison.limits.tolerance is not None:
        for column, effect in zip(comparison.pair.y, comparison.effects, strict=True):
            low, high = effect.bounds
            least, most = _amounts(column, low, high)
            amount = f"at most {_with_unit(column, most)}"
            if low > 0 and not only_most:
                amount = f"{least} to {most}{_unit(column)}"
            words.append(f"for the same inputs, {_bounded_words(column)} by {amount} in root mean square")
        words += map(_region_bounds_words, comparison.regions[:1])
    if comparison.limits.min_effect is not None:
        words.append("the overlap is {:.3f} to {:.3f}".format(*comparison.relation.overlap_interval))
    return ", and ".join(words)


def _region_bounds_words(region: Region) -> str:
    """Say by how much what changed most changed in a region."""
    where_it_is = f"where {region.words}" if region.bounds else "everywhere"
    change = region.sized_change
    if change is None:
        return f"the {region.change_words} changed {where_it_is}"
    what = f"{change.column} = {change.label}" if change.quantity == "share" else change.column
    by = "by a factor of" if change.quantity == "spread" else "by"
    return f"the {change.quantity} of {what} changed {by} {ends_of(change)} {where_it_is}"


def _response_name(column: Column) -> str:
    if not column.is_category:
        return column.name
    return f"shares of {column.name}" if _is_plural(column) else f"the share of {column.name} = {column.labels[1]}"


def _is_plural(column: Column) -> bool:
    return column.is_category and len(column.labels) > 2


def _amount(column: Column, value: float) -> str:
    """Write a difference by itself: shares in percentage points, dates in days."""
    # Two digits, which from 99.5 points on would be written as 1e+02.
    if column.is_category and value < 0.995:
        return _with_unit(column, f"{100 * value:.2g}")
    value = _in_units(column, value)
    # Three digits from 1,000 on would come with an exponent: these are written as whole numbers, up to nine digits.
    return _with_unit(column, f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.3g}")


def _amounts(column: Column, *values: float, signed: bool = False) -> list[str]:
    """Write an estimate and its interval, without the unit."""
    return alike(*(_in_units(column, value) for value in values), signed=signed)


def _in_units(column: Column, value: float) -> float:
    return 100 * value if column.is_category else value


def _unit(column: Column) -> str:
    return " points" if column.is_category else " days" if column.kind == "date" else ""


def _with_unit(column: Column, number: str) -> str:
    """Write a number with its unit: 1 point, 2 points."""
    unit = _unit(column)
    return number + (unit.removesuffix("s") if number.lstrip("+-") == "1" else unit)


def _excludes_zero(estimate: Estimate) -> bool:
    return estimate.low > 0 or estimate.high < 0


class _NamedEstimate(NamedTuple):
    """A row of the table of effects."""

    name: str
    column: Column
    estimate: Estimate
    has_sign: bool


def effects_table(comparison: Comparison) -> WordTable:
    """Say how large the change is: what y does for the same inputs, in its own units, unless these are hardly any."""
    named = [] if _hardly_overlaps(comparison) else _named_estimates(comparison)
    levels = {each.estimate.confidence_level for each in named}
    rows = []
    for name, column, estimate, has_sign in named:
        value, interval = _estimate_words(column, estimate, signed=has_sign)
        # Intervals of several levels under one title: each says its own.
        rows.append((name, value, interval if len(levels) == 1 else f"{interval} ({_level_words(estimate)})"))
    title = interval_title(named[0].estimate) if len(levels) == 1 else "interval"
    return WordTable(
        ("for the same inputs", "estimate", title), tuple(rows), frozenset({"estimate"}), frozenset({title})
    )


def _named_estimates(comparison: Comparison) -> list[_NamedEstimate]:
    """Return the rows of the table of effects: average, size and spread of each response, as far as it has them."""
    named: list[_NamedEstimate] = []
    for column, effect in zip(comparison.pair.y, comparison.effects, strict=True):
        response = _response_name(column)
        if effect.average is not None:
            named.append(_NamedEstimate(f"average change of {response}", column, effect.average, True))
        named.append(_NamedEstimate(f"change of {response} (root mean square)", column, effect.size, False))
        if effect.spread is not None:
            title = f"change of the spread of {column.name}"
            named.append(_NamedEstimate(title, column, effect.spread.change, True))
    return named


def interval_title(estimate: Estimate) -> str:
    """Call an interval by its confidence level."""
    return f"{_level_words(estimate)} interval"


def _level_words(estimate: Estimate) -> str:
    """Write a confidence level in percent, with no more digits than it has."""
    return f"{100 * estimate.confidence_level:.5g}%"


def change_title(column: Column, effect: Effect) -> str:
    """Name what `change_at_same_inputs` shows."""
    kind, estimate = ("", effect.average) if effect.average else ("root mean square, ", effect.size)
    return f"change of {_response_name(column)} for the same inputs ({kind}{interval_title(estimate)})"


def change_at_same_inputs(comparison: Comparison) -> str:
    """Write how much the first response changed for the same inputs, with its interval, or why it is not known."""
    if _hardly_overlaps(comparison):
        return "hardly any common inputs"
    column, effect = comparison.pair.y[0], comparison.effects[0]
    estimate = effect.size if effect.average is None else effect.average
    value, interval = _estimate_words(column, estimate, signed=effect.average is not None)
    return f"{value} ({interval})"


def loss_table(comparison: Comparison) -> WordTable:
    """Say why the mean loss changed."""
    loss = comparison.loss_change
    assert loss is not None
    rows = tuple((words, value, f"{low} to {high}") for words, value, low, high in loss.rows)
    title = interval_title(loss.total)
    return WordTable(("the mean loss changed because of", "by", title), rows, frozenset({"by"}), frozenset({title}))


def _estimate_words(column: Column, estimate: Estimate, *, signed: bool = False) -> tuple[str, str]:
    value, low, high = _amounts(column, *estimate, signed=signed)
    return _with_unit(column, value), f"{low} to {high}{_unit(column)}"


def answers_table(comparison: Comparison) -> WordTable:
    """Answer both questions, with the overlap only if a limit of it was set.

    Changes that the test finds can be far too small, or too local, for the overlap to differ from 1.
    """
    shows_overlap = comparison.limits.min_effect is not None
    title = interval_title(comparison.relation.estimate) if shows_overlap else ""
    columns = ("question", "answer", "p-value", *(("overlap", title) if shows_overlap else ()))
    answered = (
        ("is p(x) the same?", SHIFTED if comparison.inputs_shifted else NO_EVIDENCE, comparison.inputs),
        ("is p(y|x) the same?", shown_decision(comparison), comparison.relation),
    )
    rows = [
        (question, answer, show_p(outcome.pvalue), *(_overlap_words(outcome) if shows_overlap else ()))
        for question, answer, outcome in answered
    ]
    return table_with_answers(columns, rows, frozenset({"p-value", "overlap"}), frozenset({title}))


def shown_decision(comparison: Comparison) -> ShownAnswer:
    """Say how the decision is shown: without a limit, undecided is no evidence."""
    if comparison.decision == "undecided" and not comparison.limits.are_set:
        return NO_EVIDENCE
    return SHOWN_DECISIONS[comparison.decision]


def overall_sentences(comparison: Comparison) -> tuple[str, ...]:
    """Say what y does whatever the inputs, and the loss: over all rows, or over those used if some were left out."""
    first, second = comparison.sides
    overall = "Overall" if comparison.has_all_rows else f"Over {rows_words(all_rows=False)}"
    lines = [
        f"{overall}, {words}: {in_first} {first}, {in_second} {second}."
        for words, in_first, in_second in overall_rows(comparison)
    ]
    if comparison.loss_change is not None:
        in_first, in_second = comparison.loss_change.levels
        # Of long tables losses are measured on some of the rows.
        seen = comparison.pair.reference.seen, comparison.pair.current.seen
        of_sample = "" if comparison.sizes.rows == seen else f" of {rows_words(all_rows=False)}"
        lines.append(f"Mean loss{of_sample}: {in_first} {first}, {in_second} {second}.")
    return tuple(lines)


def overall_rows(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Say what each response does over the rows used, whatever their inputs: words, and its value in both tables."""
    rows = []
    for column, (words, *values) in zip(comparison.pair.y, comparison.response, strict=True):
        if column.is_category:
            in_first, in_second = (f"{100 * value:.3g}%" for value in values)
        elif column.kind == "date":
            in_first, in_second = map(as_date, values)
        else:
            # Four digits of the larger one (`alike` writes two of the length), and no fewer than whole numbers have.
            length = min(max(map(abs, values)) / 100, 10.0)
            in_first, in_second = alike(*values, length=length)
        rows.append((words, in_first, in_second))
    return rows


def regions_table(comparison: Comparison) -> WordTable:
    """Say where the relation changed, and what y does there for the same inputs."""
    title = "where the relation changed"
    if not comparison.regions:
        return WordTable((title,), ((NO_REGION,),))
    changes = [region.sized_change for region in comparison.regions]
    # What all of them are about stands above the column.
    common = {"" if change is None else change.words for change in changes}
    what = common.pop() if len(common) == 1 else ""
    rows = []
    for region, change in zip(comparison.regions, changes, strict=True):
        levels, interval = region.change_words, "-"
        if change is not None:
            levels = ("" if what else f"{change.words}: ") + " → ".join(level_words(change))
            interval = interval_of(change)
        in_each_table = f"{region.share_p:.0%} → {region.share_q:.0%}"
        rows.append((region.words, in_each_table, levels, interval, show_p(region.pvalue)))
    (level,) = {_level_words(region.changes[0].change) for region in comparison.regions}
    columns = (title, "rows", what or "what y does there", f"change ({level} interval)", "p-value")
    return WordTable(columns, tuple(rows), frozenset(columns[1:]))


def all_passages(comparison: Comparison) -> list[Passage]:
    """Return everything that is said, in order."""
    tables = [effects_table(comparison)]
    if comparison.loss_change is not None:
        tables.append(loss_table(comparison))
    tables.append(answers_table(comparison))
    if comparison.relation_changed:
        tables.append(regions_table(comparison))
    return [
        ("about", tuple(about_comparison(comparison))),
        ("answer", (comparison.verdict, *overall_sentences(comparison))),
        *(("table", table) for table in tables if table.rows),
        ("notes", comparison.notes),
    ]


def as_text(blocks: Sequence[Passage]) -> str:
    """Return blocks as plain text."""
    written = []
    for kind, content in blocks:
        if kind == "about":
            width = max(len(name) for name, _ in content)
            lines = [f"{name:<{width}}  {words}" for name, words in content]
        elif kind == "table":
            lines = table_lines(content)
        else:
            lines = [f"- {line}" if kind == "notes" else line for line in content]
        written.append("\n".join(map(harmless, lines)))
    return "\n\n".join(filter(None, written))


def table_lines(table: WordTable) -> list[str]:
    """Return a table as lines of text."""
    rows = [table.columns, *table.rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if title in table.numbers else cell.ljust(width)
            for title, cell, width in zip(table.columns, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _overlap_words(outcome: ViewsOutcome) -> tuple[str, str]:
    low, high = outcome.overlap_interval
    return f"{outcome.overlap:.3f}", f"{low:.3f} to {high:.3f}"
