"""Numbers, columns and rows of a comparison in words: the same in the terminal, on the page and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from condcs._core.printable import alike, harmless, listed
from condcs._inference.effects import Effect
from condcs._inference.explain import Region, ends_of, interval_of, level_words, show_p
from condcs._inference.results import Estimate
from condcs._tables.kinds import Column, describe_columns
from condcs._tables.pair import Account
from condcs.comparison._cautions import cautions

if TYPE_CHECKING:
    from condcs.comparison._result import Comparison
    from condcs.comparison._steps import Shift


_LEAST_IN_COMMON = 0.05
"""Part of the rows that must be worth something for effects to be said: an effect of fewer speaks of hardly any of the
rows, and the verdict says so instead."""
_MANY_INPUTS = 10
"""Inputs from which on an answer without evidence says that fewer would show more: of a few, a reader leaves none
out."""
_SOME_DEPENDENCE, _DEPENDENCE_BY_CHANCE = 0.02, 13.0
"""Share of the variance of y that an input must explain to be named as one that y depends on: a fiftieth, and more than
chance gives. By chance, ten bins explain 13 of n rows' variance beyond the 9 that are expected once in a hundred inputs
(chi-squared with 9 degrees of freedom above 22)."""
_MOST_TELLING_INPUTS, _MOST_RESPONSES_UNSEEN, _MOST_EFFECTS = 3, 2, 3
"""Inputs that are named, responses whose smallest visible change is given, and effects that are told in one sentence,
at most: a longer one is not read."""


def account_words(account: Account, seed: int) -> str:
    """Say what became of a table's rows."""
    words = f"{account.used:,} rows"
    if account.sampled:
        words += f", sampled with seed {seed} from {account.seen - account.gaps:,}"
    if account.short_of_memory:
        words += " (limited by memory)"
    if account.gaps:
        words += f"; {account.gaps:,} with missing values dropped"
    return words


def column_words(columns: tuple[Column, ...], most: int = 8) -> str:
    """Name columns and their kinds."""
    return listed(describe_columns(columns), most)


def as_date(days: float) -> str:
    """Write days since 1970 as a date."""
    return str(np.datetime64("1970-01-01") + np.timedelta64(int(np.floor(days)), "D"))


@dataclass(frozen=True)
class WordTable:
    """A table of words; columns named in `numbers` are set flush right, those in `intervals` stand back."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()
    intervals: frozenset[str] = frozenset()


Block = tuple[Literal["about", "answer", "table", "notes"], Any]
"""A part of what is said: pairs of a name and words, sentences of which the first is the answer, a table, or notes."""


def sizes(comparison: Comparison) -> WordTable:
    """Say what became of the rows of each table."""
    roles = (("reference", comparison.pair.reference), ("current", comparison.pair.current))
    rows = tuple((role, account.title, account_words(account, comparison.seed)) for role, account in roles)
    return WordTable(("table", "title", "rows"), rows)


def about(comparison: Comparison) -> list[tuple[str, str]]:
    """Say which tables were compared, and which of their columns."""
    tables = [(role, f"{title}, {rows}") for role, title, rows in sizes(comparison).rows]
    return [*tables, *variables(comparison)]


def variables(comparison: Comparison) -> tuple[tuple[str, str], ...]:
    """Name the columns of y and of x."""
    return ("y", column_words(comparison.pair.y)), ("given x", column_words(comparison.pair.x))


def verdict_words(comparison: Comparison) -> str:
    """Give the answer, and why the p-value is not to be taken at its word."""
    return " ".join([_answer(comparison), *(caution.sentence for caution in cautions(comparison))])


def _answer(comparison: Comparison) -> str:
    """Give the answer, the first sentence without statistics: what y does now for the same inputs, then how sure."""
    y = ", ".join(column.name for column in comparison.pair.y)
    p = f"p = {show_p(comparison.relation.pvalue)}"
    shifted = "no evidence that the inputs shifted"
    if comparison.inputs_shifted:
        shifted = "the inputs themselves shifted" + (
            " as well" if comparison.decision == "changed" else " (covariate shift)"
        )
    if comparison.decision == "changed":
        words = change_words(comparison)
        return f"For the same inputs, {words}. The relation of {y} to the inputs changed ({p}); {shifted}."
    if comparison.decision == "same":
        most = _range(comparison, only_most=True)
        return f"The relation of {y} to the inputs is the same within {_limit(comparison)}: {most}; {shifted}."
    if comparison.limits.are_set:
        return (
            f"Undecided whether the relation of {y} to the inputs changed by more than {_limit(comparison)}: "
            f"{_range(comparison)} ({p}); {shifted}."
        )
    nothing = f"no evidence that the relation of {y} to the inputs changed ({p})"
    if _is_apart(comparison):
        rows = len(comparison.pair.xp) + len(comparison.pair.xq)
        effective_rows = comparison.relation.diagnostics["effective_rows"]
        return (
            f"The two tables have hardly any inputs in common, so that little can be said about {y} for the same "
            f"inputs: {rows:,} rows are as informative as {effective_rows:.0f} would be with full overlap. There "
            f"is {nothing}, but a change is not ruled out; {shifted}."
        )
    return f"N{nothing[1:]}; {shifted}. {unseen(comparison)}"


def _is_apart(comparison: Comparison) -> bool:
    """Whether there is hardly anything to compare: too few rows, or a small share of them, have counterparts."""
    rows = len(comparison.pair.xp) + len(comparison.pair.xq)
    diagnostics = comparison.relation.diagnostics
    return bool(diagnostics["hardly_overlaps"] or diagnostics["effective_rows"] < _LEAST_IN_COMMON * rows)


def unseen(comparison: Comparison) -> str:
    """Say how small a change these rows would not show, so that no evidence does not read as no change."""
    pair = comparison.pair
    pooled_y = np.concatenate([pair.yp, pair.yq])  # (n, responses)
    shifts = []
    for column, effect, values in zip(pair.y, comparison.effects, pooled_y.T, strict=True):
        # A shift cannot be larger than the range of y.
        largest = 1.0 if column.is_category else float(np.ptp(values))
        everywhere, in_part = (
            f"by less than {_amount(column, size)}" if size < largest else "of any size"
            for size in (effect.detectable, effect.detectable_in_part)
        )
        shifts.append(f"a shift of {_what(column)} {everywhere} everywhere, or {in_part} in a tenth of the rows")
    said = ", and ".join(shifts[:_MOST_RESPONSES_UNSEEN])
    words = f"Small changes are not ruled out: these rows can miss {said}."
    if len(pair.x) < _MANY_INPUTS:
        return words
    # So many inputs hide what happens in a few of them.
    names = _telling_inputs(comparison)
    fewer = f" {pair.y[0].name} depends most on {_listed(names)}." if names else ""
    return (
        f"{words} With {len(pair.x)} inputs, changes in a few places are hard to see: fewer inputs, or more rows, show "
        f"more.{fewer}"
    )


def _telling_inputs(comparison: Comparison) -> list[str]:
    """Name the inputs that the first response depends on most, as far as that is more than chance."""
    pair, dependence = comparison.pair, comparison.location.dependence
    least = max(_SOME_DEPENDENCE, _DEPENDENCE_BY_CHANCE / (len(pair.xp) + len(pair.xq)))
    by_dependence = np.argsort(-np.array(dependence), kind="stable")
    return [pair.x[k].name for k in by_dependence[:_MOST_TELLING_INPUTS] if dependence[k] > least]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


BEFORE_AND_NOW = "before", "now"
"""The reference and the current table, in sentences."""


_SPREAD_VIEWS = frozenset({"spread", "spread along x"})
"""Views of the test that see how far y scatters."""


def _is_spread_seen(comparison: Comparison) -> bool:
    """Whether a view of the test sees another spread, at the level of the test.

    A standard deviation for the same inputs is measured around a regression in each table, and holds the errors of
    both. The view is measured around one regression for all rows, with redrawn labels: what it sees is no such error.
    """
    views = zip(comparison.relation.views, comparison.relation.pvalues, strict=True)
    return any(p <= comparison.alpha for name, p in views if name in _SPREAD_VIEWS)


def effect_words(
    column: Column, effect: Effect, sides: tuple[str, str] = BEFORE_AND_NOW, *, spread_seen: bool = True
) -> list[str]:
    """Say what a response does for the same inputs, as far as intervals, and the test of the spread, are sure of it."""
    sentences = []
    average, size = effect.average, effect.size
    if average is not None and _sure(average):
        uneven = size.low > max(abs(average.low), abs(average.high))
        nearer, farther = sorted((abs(average.low), abs(average.high)))
        value, low, high = _amounts(column, abs(average.value), nearer, farther)
        sentences.append(
            f"{_what(column)} is {value}{_unit(column)} {'higher' if average.value > 0 else 'lower'} on average "
            f"({low} to {high})" + (", but not equally everywhere" if uneven else "")
        )
    elif size.low > 0:
        value, low, high = _amounts(column, *size)
        sentences.append(
            f"{_what(column)} differ{'' if _is_plural(column) else 's'} by about {value}{_unit(column)} "
            f"({low} to {high})" + ("" if _is_plural(column) else ", up in some places and down in others")
        )
    spread = effect.spread
    if spread is not None and spread_seen and _sure(spread.change):
        more = "more" if spread.change.value > 0 else "less"
        in_first, in_second = alike(spread.reference, spread.current, length=spread.change.high - spread.change.low)
        deviation = f"standard deviation {in_first} {sides[0]}, {in_second} {sides[1]}"
        sentences.append(f"{'it' if sentences else column.name} scatters {more} ({deviation})")
    return sentences


def change_words(comparison: Comparison) -> str:
    """Say what y does for the same inputs, and in which region most clearly, unless that is everywhere."""

    def every_effect(*, spread_seen: bool) -> list[str]:
        words: list[str] = []
        for column, effect in zip(comparison.pair.y, comparison.effects, strict=True):
            words += effect_words(column, effect, comparison.sides, spread_seen=spread_seen)
        return words

    # If the interval of the spread is all there is, it is said: "about the same spread" would contradict it.
    words = every_effect(spread_seen=_is_spread_seen(comparison)) or every_effect(spread_seen=True)
    y = ", ".join(column.name for column in comparison.pair.y)
    if _is_apart(comparison):
        words = [f"{y} is distributed differently, as far as the two have inputs in common"]
    about_the_same = "shares" if all(column.is_category for column in comparison.pair.y) else "mean and spread"
    said = (
        ", and ".join(words[:_MOST_EFFECTS])
        or f"{y} follows the inputs in another way, with about the same {about_the_same}"
    )
    if not comparison.regions or not comparison.regions[0].bounds:
        return said
    region = comparison.regions[0]
    change = region.changes[0]
    in_first, in_second = level_words(change)
    first, second = comparison.sides
    return f"{said}, most clearly where {region.words} ({change.words}: {in_first} {first}, {in_second} {second})"


def _limit(comparison: Comparison) -> str:
    """Say how large a change must be to matter."""
    limits, words = comparison.limits, list[str]()
    if limits.tolerance is not None:
        words.append(_amount(comparison.pair.y[0], limits.tolerance))
    if limits.min_effect is not None:
        words.append(f"{limits.min_effect:g} of overlap")
    return " and ".join(words)


def _range(comparison: Comparison, *, only_most: bool = False) -> str:
    """Say between which bounds the change lies, or only below which, in the units of each limit."""
    words = []
    if comparison.limits.tolerance is not None:
        for column, effect in zip(comparison.pair.y, comparison.effects, strict=True):
            low, high = effect.bounds
            of = _what(column) if column.is_category else f"mean and spread of {column.name}"
            least, most = _amounts(column, low, high)
            least = f"{least} to " if low > 0 and not only_most else "at most "
            differ = "differ" if not column.is_category or _is_plural(column) else "differs"
            words.append(f"for the same inputs, {of} {differ} by {least}{most}{_unit(column)} in root mean square")
        words += map(_region_range, comparison.regions[:1])
    if comparison.limits.min_effect is not None:
        words.append("the overlap is {:.3f} to {:.3f}".format(*comparison.relation.overlap_interval))
    return ", and ".join(words)


def _region_range(region: Region) -> str:
    """Say by how much what changed most changed in a region."""
    change = region.changes[0]
    what = f"{change.column} = {change.label}" if change.quantity == "share" else change.column
    by = "by a factor of" if change.quantity == "spread" else "by"
    where_it_is = f"where {region.words}" if region.bounds else "everywhere"
    return f"the {change.quantity} of {what} changed {by} {ends_of(change)} {where_it_is}"


def _what(column: Column) -> str:
    if not column.is_category:
        return column.name
    return f"shares of {column.name}" if _is_plural(column) else f"the share of {column.name} = {column.labels[1]}"


def _is_plural(column: Column) -> bool:
    return column.is_category and len(column.labels) > 2


def _amount(column: Column, value: float) -> str:
    """Write a difference by itself: shares in percentage points, dates in days."""
    # Two digits of 99.5 points and more would be written as 1e+02.
    if column.is_category and value < 0.995:
        return f"{100 * value:.2g}{_unit(column)}"
    value = _in_units(column, value)
    # Whole numbers where three digits would come with an exponent, unless they are longer than one reads.
    return (f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.3g}") + _unit(column)


def _amounts(column: Column, *values: float, signed: bool = False) -> list[str]:
    """Write an estimate and its interval, without the unit."""
    return alike(*(_in_units(column, value) for value in values), signed=signed)


def _in_units(column: Column, value: float) -> float:
    return 100 * value if column.is_category else value


def _unit(column: Column) -> str:
    return " points" if column.is_category else " days" if column.kind == "date" else ""


def _sure(estimate: Estimate) -> bool:
    return estimate.low > 0 or estimate.high < 0


class _NamedEstimate(NamedTuple):
    """A row of the table of effects."""

    what: str
    column: Column
    estimate: Estimate
    has_sign: bool


def effects(comparison: Comparison) -> WordTable:
    """Say how large the change is: what y does for the same inputs, in its own units, unless these are hardly any."""
    estimates: list[_NamedEstimate] = []
    for column, effect in () if _is_apart(comparison) else zip(comparison.pair.y, comparison.effects, strict=True):
        if effect.average is not None:
            estimates.append(_NamedEstimate(f"average change of {_what(column)}", column, effect.average, True))
        estimates.append(_NamedEstimate(f"change of {_what(column)} (root mean square)", column, effect.size, False))
        if effect.spread is not None:
            title = f"change of the spread of {column.name}"
            estimates.append(_NamedEstimate(title, column, effect.spread.change, True))
    levels = {each.estimate.confidence_level for each in estimates}
    rows = []
    for what, column, estimate, has_sign in estimates:
        value, interval = _estimate(column, estimate, signed=has_sign)
        # Intervals of several levels under one title: each says its own.
        rows.append((what, value, interval if len(levels) == 1 else f"{interval} ({_level(estimate)})"))
    title = interval_title(estimates[0].estimate) if len(levels) == 1 else "interval"
    return WordTable(
        ("for the same inputs", "estimate", title), tuple(rows), frozenset({"estimate"}), frozenset({title})
    )


def interval_title(estimate: Estimate) -> str:
    """Call an interval by its confidence level."""
    return f"{_level(estimate)} interval"


def _level(estimate: Estimate) -> str:
    """Write a confidence level in percent, with no more digits than it has."""
    return f"{100 * estimate.confidence_level:.5g}%"


def change_title(column: Column, effect: Effect) -> str:
    """Name what `change_at_same_inputs` shows."""
    kind, estimate = ("", effect.average) if effect.average else ("root mean square, ", effect.size)
    return f"change of {_what(column)} for the same inputs ({kind}{interval_title(estimate)})"


def change_at_same_inputs(comparison: Comparison) -> str:
    """Write how much the first response changed for the same inputs, with its interval; "" if these are hardly any."""
    if _is_apart(comparison):
        return ""
    column, effect = comparison.pair.y[0], comparison.effects[0]
    estimate = effect.size if effect.average is None else effect.average
    value, interval = _estimate(column, estimate, signed=effect.average is not None)
    return f"{value} ({interval})"


def loss_parts(comparison: Comparison) -> WordTable:
    """Say why the mean loss changed."""
    loss = comparison.loss_change
    assert loss is not None
    rows = tuple((words, value, f"{low} to {high}") for words, value, low, high in loss.rows)
    title = interval_title(loss.total)
    return WordTable(("the mean loss changed because of", "by", title), rows, frozenset({"by"}), frozenset({title}))


def _estimate(column: Column, estimate: Estimate, *, signed: bool = False) -> tuple[str, str]:
    value, low, high = _amounts(column, *estimate, signed=signed)
    return value + _unit(column), f"{low} to {high}{_unit(column)}"


def answers(comparison: Comparison) -> WordTable:
    """Answer both questions, with the overlap only if a limit of it was set.

    Changes that the test finds can be far too small, or too local, for the overlap to differ from 1.
    """
    shows_overlap = comparison.limits.min_effect is not None
    title = interval_title(comparison.relation.estimate) if shows_overlap else ""
    columns = ("question", "answer", "p-value", *(("overlap", title) if shows_overlap else ()))
    answered = (
        ("is p(x) the same?", "shifted" if comparison.inputs_shifted else "no evidence", comparison.inputs),
        ("is p(y|x) the same?", decision_words(comparison), comparison.relation),
    )
    rows = tuple(
        (question, answer, show_p(shift.pvalue), *(_overlap(shift) if shows_overlap else ()))
        for question, answer, shift in answered
    )
    return WordTable(columns, rows, frozenset({"p-value", "overlap"}), frozenset({title}))


def decision_words(comparison: Comparison) -> str:
    """Answer in a word or two."""
    if comparison.decision == "undecided" and not comparison.limits.are_set:
        return "no evidence"
    return comparison.decision


def responses(comparison: Comparison) -> tuple[str, ...]:
    """Say what y does over all rows, and the loss."""
    first, second = comparison.sides
    lines = [
        f"Overall, {words}: {in_first} {first}, {in_second} {second}."
        for words, in_first, in_second in overall(comparison)
    ]
    if comparison.loss_change is not None:
        lines.append("Mean loss: {} before, {} now.".format(*comparison.loss_change.levels))
    return tuple(lines)


def overall(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Say what each response does over all rows, whatever their inputs: words, and its value in both tables."""
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


def where(comparison: Comparison) -> WordTable:
    """Say where the relation changed, and what y does there for the same inputs."""
    title = "where the relation changed"
    if not comparison.regions:
        return WordTable((title,), ((NOWHERE,),))
    first = [(region, region.changes[0]) for region in comparison.regions]
    # What all of them are about stands above the column.
    common = {change.words for _, change in first}
    what = common.pop() if len(common) == 1 else ""
    rows = tuple(
        (
            region.words,
            f"{region.share_p:.0%} → {region.share_q:.0%}",
            ("" if what else f"{change.words}: ") + " → ".join(level_words(change)),
            interval_of(change),
            show_p(region.pvalue),
        )
        for region, change in first
    )
    (level,) = {_level(change.change) for _, change in first}
    columns = (title, "rows", what or "what y does there", f"change ({level} interval)", "p-value")
    return WordTable(columns, rows, frozenset(columns[1:]))


NOWHERE = "No region by itself shows the change clearly enough to be named."


def said(comparison: Comparison) -> list[Block]:
    """Return everything that is said, in order."""
    tables = [effects(comparison), answers(comparison), *([where(comparison)] if comparison.relation_changed else [])]
    if comparison.loss_change is not None:
        tables.insert(1, loss_parts(comparison))
    return [
        ("about", tuple(about(comparison))),
        ("answer", (comparison.verdict, *responses(comparison))),
        *(("table", table) for table in tables if table.rows),
        ("notes", comparison.notes),
    ]


def as_text(blocks: Sequence[Block]) -> str:
    """Return blocks as plain text."""
    written = []
    for kind, content in blocks:
        if kind == "about":
            width = max(len(name) for name, _ in content)
            lines = [f"{name:<{width}}  {words}" for name, words in content]
        elif kind == "table":
            lines = set_lines(content)
        else:
            lines = [f"- {line}" if kind == "notes" else line for line in content]
        written.append("\n".join(map(harmless, lines)))
    return "\n\n".join(filter(None, written))


def set_lines(table: WordTable) -> list[str]:
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


def _overlap(shift: Shift) -> tuple[str, str]:
    low, high = shift.overlap_interval
    return f"{shift.overlap:.3f}", f"{low:.3f} to {high:.3f}"
