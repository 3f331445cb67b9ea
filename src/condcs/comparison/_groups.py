"""The groups of one table, each compared with the others: which of them differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

import condcs
from condcs._core.arrays import ByValue, FloatArray
from condcs._core.checks import check_choice, fewest_resamples
from condcs._core.errors import DataError, OverlapError, ParameterError, public
from condcs._core.printable import summarised
from condcs._core.vocabulary import named
from condcs._inference.explain import show_p
from condcs._inference.input_changes import holm
from condcs._kernels.named_kernels import borrowing
from condcs._tables.grouped_table import GroupedTable, read_groups
from condcs._tables.in_memory import as_table
from condcs._tables.pair import ReadOptions, as_keys
from condcs._tables.sources import Columns, MissingCells, TableOptions
from condcs.comparison._cautions import cautions_by_group
from condcs.comparison._comparing import (
    ALPHA,
    RESAMPLES,
    Run,
    check_level,
    checked_run,
    compare_pair,
    table_options,
)
from condcs.comparison._mirrored import mirrored
from condcs.comparison._result import Comparison, Reported
from condcs.comparison._steps import kernels
from condcs.comparison._wording import (
    BEFORE_AND_NOW,
    DIFFERS,
    NO_EVIDENCE,
    SHIFTED,
    Passage,
    WordTable,
    about_variables,
    change_at_same_inputs,
    change_title,
    change_words,
    effects_table,
    given_others_words,
    left_out_words,
    overall_rows,
    regions_table,
    resamples_words,
    rows_words,
    table_with_answers,
)
from condcs.report._page import Page

GROUPS_SCHEMA = "condcs/compare-groups/1"

_MOST_GROUP_ROWS = 2000
"""Rows of each group that are compared, by default: there are up to 50 groups, and with the rest for a reference each
of them takes a comparison per group that differs."""

_AGAINST = {
    "rest": "each against all others together",
    "first": "each against the first",
    "previous": "each against the one before",
}


@dataclass(frozen=True, eq=False, repr=False)
class GroupComparison(ByValue, Reported):
    """What `condcs.compare_groups` found out.

    ``print(result)`` shows a line per group; ``result["March"]`` is the `Comparison` of one.

    Attributes
    ----------
    title, column : str
        The table, and its column that names the groups.
    against : str
        What each group was compared with: "rest", "first" or "previous".
    names : tuple of str
        The groups that were compared.
    comparisons : tuple of Comparison
        What was found for each of them, in intervals that hold for all groups together. Their own p-values are not
        adjusted, but their levels are, so that they agree with `changed`.
    pvalues : tuple of float
        P-values of the relation of each group, adjusted for their number (Holm).
    alpha : float
        Level, for all groups together.
    groups : tuple of str
        All groups, as `divergences` has them.
    divergences : array, optional
        Conditional CS divergence between all pairs of groups.
    notes : tuple of str
        What to know besides: groups left out, columns left out, rows without a counterpart.
    set_aside : tuple of str
        Groups that differ so clearly that they are no part of the rest that the others are compared with.
    """

    title: str
    column: str
    against: str
    names: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    pvalues: tuple[float, ...]
    alpha: float
    groups: tuple[str, ...]
    divergences: FloatArray | None
    notes: tuple[str, ...]
    set_aside: tuple[str, ...] = ()

    @property
    def inputs_pvalues(self) -> tuple[float, ...]:
        """P-values of the inputs of each group, adjusted for their number (Holm)."""
        return holm([comparison.inputs.pvalue for comparison in self.comparisons])

    @property
    def changed(self) -> tuple[str, ...]:
        """The groups whose relation differs, at the level alpha for all groups together."""
        return tuple(name for name, p in zip(self.names, self.pvalues, strict=True) if p <= self.alpha)

    @property
    def relation_changed(self) -> bool:
        """Whether the relation of any group differs."""
        return bool(self.changed)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        y = ", ".join(column.name for column in self.comparisons[0].pair.y)
        count = f"({self.compared_with})"
        answer = f"No evidence that the relation of {y} to the inputs differs by {self.column} {count}."
        if self.changed:
            differing = ", ".join(self.changed)
            answer = f"The relation of {y} to the inputs differs where {self.column} is {differing} {count}."
        left_out = [each for comparison in self.comparisons for each in comparison.pair.left_out]
        given = given_others_words(list(dict.fromkeys(each.column for each in left_out if each.could_matter)))
        return " ".join([answer, *given, *cautions_by_group(self.column, self.names, self.comparisons)])

    @property
    def compared_with(self) -> str:
        """How many groups there are, and what each was compared with."""
        against = _AGAINST[self.against]
        if self.against == "rest" and len(self.groups) == 2:
            against = "each against the other"
        elif self.set_aside:
            against += f", without {', '.join(self.set_aside)}"
        return f"{len(self.names)} groups, {against}"

    @property
    def pvalue_is_bound(self) -> tuple[bool, ...]:
        """Whether no resample of a group's test reached its statistic: more of them might make its p-value smaller."""
        return tuple(each.relation.pvalue <= _smallest_pvalue(each) for each in self.comparisons)

    def __getitem__(self, name: str | int) -> Comparison:
        name = str(name)
        if name not in self.names:
            names = ", ".join(map(repr, self.names))
            raise ParameterError(f"`name` must be a group that was compared, got {name!r}. They are {names}.")
        return self.comparisons[self.names.index(name)]

    def __repr__(self) -> str:
        return summarised(self, self.verdict)

    def _passages(self) -> list[Passage]:
        return [
            (
                "about",
                (
                    ("table", f"{self.title}, by {self.column}"),
                    *self.variables,
                    ("resamples", resamples_words(self.comparisons[0])),
                ),
            ),
            ("table", self.lines()),
            ("answer", (self.verdict, *self.changes)),
            ("notes", self.all_notes),
        ]

    @property
    def changes(self) -> tuple[str, ...]:
        """For each group that differs, what y does there for the same inputs, and where most clearly."""
        return tuple(
            f"{self.column} = {name}: for the same inputs, {change_words(self[name])}." for name in self.changed
        )

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """The columns of y and of x, of the first comparison."""
        return about_variables(self.comparisons[0])

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Notes on the groups, then those of the comparisons, each once: with its groups unless it holds for all."""
        names_by_note: dict[str, list[str]] = {}
        for name, comparison in zip(self.names, self.comparisons, strict=True):
            left_out = comparison.pair.left_out
            left_out_note = [f"Left out: {left_out_words(left_out)}."] if left_out else []
            for note in dict.fromkeys([*left_out_note, *comparison.notes]):
                names_by_note.setdefault(note, []).append(name)
        notes = list(self.notes)
        for note, names in names_by_note.items():
            holds_for_all = len(names) == len(self.names)
            notes.append(note if holds_for_all else f"{self.column} = {', '.join(names)}: {note}")
        return tuple(dict.fromkeys(notes))

    @property
    def has_all_rows(self) -> bool:
        """Whether raw values are those of all rows, in every group and in what it is compared with."""
        return all(comparison.has_all_rows for comparison in self.comparisons)

    def lines(self) -> WordTable:
        """Return a line per group: both answers, what y does for the same inputs, and its raw mean or share."""
        rows = []
        for name, comparison, p, is_bound, p_inputs in zip(
            self.names, self.comparisons, self.pvalues, self.pvalue_is_bound, self.inputs_pvalues, strict=True
        ):
            _, of_reference, of_group = overall_rows(comparison)[0]
            rows.append(
                (
                    name,
                    f"{comparison.pair.current.used:,}",
                    DIFFERS if p <= self.alpha else NO_EVIDENCE,
                    f"at most {show_p(p)}" if is_bound else show_p(p),
                    SHIFTED if p_inputs <= self.alpha else NO_EVIDENCE,
                    change_at_same_inputs(comparison),
                    f"{of_reference} → {of_group}",
                )
            )
        first = self.comparisons[0]
        change = change_title(first.pair.y[0], first.effects[0])
        of_sample = "" if self.has_all_rows else " of the rows used"
        raw = f"raw {first.response[0][0]}{of_sample}, {' → '.join(first.sides)}"
        columns = (self.column, "rows", "relation", "p-value", "inputs", change, raw)
        return table_with_answers(columns, rows, frozenset({"rows", "p-value", change, raw}))

    def to_dict(self) -> dict[str, Any]:
        """Return everything that was found as plain values: what ``condcs compare --group --json`` prints."""
        return {
            "schema": GROUPS_SCHEMA,
            "condcs": condcs.__version__,
            "table": self.title,
            "group": self.column,
            "against": self.against,
            "alpha": self.alpha,
            "verdict": self.verdict,
            "changed": list(self.changed),
            "groups": [
                {
                    "name": name,
                    "pvalue_adjusted": p,
                    "pvalue_is_bound": is_bound,
                    "inputs_pvalue_adjusted": q,
                    "comparison": comparison.to_dict(),
                }
                for name, p, is_bound, q, comparison in zip(
                    self.names, self.pvalues, self.pvalue_is_bound, self.inputs_pvalues, self.comparisons, strict=True
                )
            ],
            "divergences": None
            if self.divergences is None
            else {"groups": list(self.groups), "matrix": self.divergences.tolist()},
            "notes": list(self.notes),
        }

    def _page(self, command: str | None = None) -> Page:
        y = ", ".join(column.name for column in self.comparisons[0].pair.y)
        page = Page(f"Where does the relation of {y} to its inputs differ by {self.column}?", f"{self.title}.")
        page.verdict(self.verdict, "bad" if self.changed else "good")
        lines = self.lines()
        page.table(
            lines.columns,
            lines.rows,
            f'P-values are adjusted for {len(self.names)} groups (Holm); "at most" where no resample reached the '
            "statistic. Changes for the same inputs have confidence intervals that hold for all groups together; raw "
            f"values are those of {rows_words(all_rows=self.has_all_rows)}, whatever their inputs.",
        )
        for name in self.changed:
            _about_group(page, f"{self.column} = {name}", self[name])
        if self.divergences is not None:
            page.section("Between all groups")
            page.table(
                [self.column, *self.groups],
                [
                    [name, *(f"{value:.3f}" for value in row)]
                    for name, row in zip(self.groups, self.divergences, strict=True)
                ],
                "Conditional Cauchy-Schwarz divergence between all pairs: 0 for equal relations, more by chance.",
            )
        page.section("How it was made")
        page.facts({**dict(self.variables), "level": self.alpha, "resamples": resamples_words(self.comparisons[0])})
        if self.all_notes:
            page.points(self.all_notes)
        if command:
            page.command(command)
        page.data("condcs-comparison", self.to_dict())
        return page


def _smallest_pvalue(comparison: Comparison) -> float:
    """Return the smallest p-value that the resamples of a test can give."""
    return 1 / (1 + len(comparison.relation.null_distribution))


def _about_group(page: Page, title: str, comparison: Comparison) -> None:
    """Show what y does in a group for the same inputs, and where."""
    page.section(title)
    page.text(f"For the same inputs, {change_words(comparison)}.")
    lines = effects_table(comparison)
    if lines.rows:
        page.table(lines.columns, lines.rows)
    if comparison.regions:
        regions = regions_table(comparison)
        page.table(regions.columns, regions.rows)


Against = Literal["rest", "first", "previous"]
"""What each group is compared with."""


@public
def compare_groups(
    table: Any,
    *,
    group: str | int,
    y: Columns,
    x: Columns | None = None,
    against: Against = "rest",
    alpha: float = ALPHA,
    matrix: bool = False,
    n_resamples: int | None = None,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    missing: MissingCells | None = None,
    max_rows: int | None = None,
    tables: TableOptions | None = None,
    progress: Callable[[str], None] | None = None,
) -> GroupComparison:
    """Find the groups of a table (months, sites, versions) in which the relation of y to x differs.

    Each group is compared as `condcs.compare` compares two tables, and the p-values are adjusted for their number
    (Holm): if all relations are the same, the probability of naming any group is at most alpha. Intervals have level
    1 - alpha / groups, so that those of all groups hold together.

    A group that differs is part of the rest for all others, which would then differ too. So the most significant group
    is named and removed, and the others are compared again.

    Parameters
    ----------
    table : DataFrame, pyarrow Table, dict of columns, 2-d array, str or Path
        As in `condcs.compare`.
    group : str or int
        Column that names the groups: at most 50, of 10 rows or more. It is not an input.
    y, x : str, int or sequence of them
        Response and inputs, as in `condcs.compare`.
    against : {"rest", "first", "previous"}
        Each group against all others together (at most half of which are left out because they differ), against the
        first group, or against the one before it. Groups are in the order of their numbers or dates, other names in
        that of their first rows.
    alpha : float
        Level of the tests, for all groups together.
    matrix : bool
        Whether to estimate the conditional CS divergence between all pairs of groups as well.
    n_resamples : int, optional
        Resamples of each test, and of regions 499 at least; by default 199, or more where many groups need them.
    rng, n_jobs, progress
        Seed, threads, and what is called with the name of each step, as in `condcs.compare`.
    missing, max_rows, tables
        How the table is read, as in `condcs.compare`; `max_rows` are those of each group.

    Returns
    -------
    GroupComparison
        `changed` names the groups; `comparisons` holds what `condcs.compare` finds for each.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> month = np.repeat(["January", "February", "March"], 80)
    >>> area = rng.normal(100, 20, size=240)
    >>> price = np.where(month == "March", 3, 2) * area + rng.normal(0, 10, size=240)
    >>> result = compare_groups(
    ...     {"month": month, "area": area, "price": price}, group="month", y="price", against="first"
    ... )
    >>> result.changed
    ('March',)
    """
    check_choice("against", against, get_args(Against))
    tables = table_options(tables, missing, max_rows)
    run = checked_run(RESAMPLES if n_resamples is None else n_resamples, rng, n_jobs, progress)
    if tables.time_budget is not None:
        raise ParameterError(
            f"{named('time_budget')} must be None for groups, got {tables.time_budget:g}. Set {named('max_rows')} of "
            "each group."
        )
    check_level(alpha, run.n_resamples)
    source, tell = as_table("table", table), run.tell
    most_rows = _MOST_GROUP_ROWS if tables.max_rows is None else tables.max_rows
    reading = ReadOptions(**{**vars(tables), "max_rows": most_rows}, x=as_keys(x), y=as_keys(y), seed=run.seed)
    tell("reading")
    groups = read_groups(source, group, reading)
    pairs = list(_references(range(len(groups.groups)), against))
    if n_resamples is None:
        # Half the level is within reach of the smallest of the adjusted p-values.
        n_resamples = max(RESAMPLES, fewest_resamples(alpha, looks=2 * len(pairs)))
    check_level(alpha / len(pairs), n_resamples)
    run = replace(run, n_resamples=n_resamples)
    notes = list(groups.notes)
    level = alpha / len(pairs)  # of intervals and regions, for all groups together

    def compare_all(pairs: list[tuple[list[int], int]]) -> dict[int, _AdjustedComparison]:
        comparison_of = _compared(groups, pairs, run, level, reading.max_rows, notes)
        adjusted = holm([comparison.relation.pvalue for comparison in comparison_of.values()])
        return dict(zip(comparison_of, map(_AdjustedComparison, comparison_of.values(), adjusted), strict=True))

    remaining = compare_all(pairs)
    removed: dict[int, _AdjustedComparison] = {}
    most_removed = len(groups.groups) // 2 if against == "rest" else 0
    while len(removed) < most_removed and len(remaining) > 2:
        differing = [group_number for group_number, (_, p) in remaining.items() if p <= alpha]
        if not differing:
            break
        # The group that differs most clearly is no part of the rest any more, and the others are compared again.
        clearest = max(differing, key=lambda group_number: remaining[group_number].comparison.relation.statistic)
        removed[clearest] = remaining.pop(clearest)
        remaining = compare_all(list(_references(list(remaining), against)))
    if not remaining:
        raise DataError(" ".join(["no group could be compared.", *notes]))
    compared = dict(sorted((removed | remaining).items()))
    comparisons, pvalues = zip(*compared.values(), strict=True)
    are_sampled = any(each.pair.current.sampled or each.pair.reference.sampled for each in comparisons)
    if tables.max_rows is None and are_sampled:
        notes.append(
            f"At most {most_rows:,} rows of each group, and of what it is compared with, were used. Set "
            f"{named('max_rows')} to use more."
        )
    return GroupComparison(
        title=groups.title,
        column=groups.column,
        against=against,
        names=tuple(groups.groups[group_number] for group_number in compared),
        comparisons=_as_judged(comparisons, pvalues, alpha, _sides(groups, against)),
        pvalues=pvalues,
        alpha=alpha,
        groups=groups.groups,
        divergences=_divergences(groups) if matrix else None,
        notes=tuple(dict.fromkeys(notes)),
        set_aside=tuple(groups.groups[group_number] for group_number in sorted(removed)),
    )


class _AdjustedComparison(NamedTuple):
    """The comparison of a group, and the p-value of its relation, adjusted for the number of groups."""

    comparison: Comparison
    pvalue: float


def _sides(groups: GroupedTable, against: Against) -> tuple[str, str]:
    """Return what a group is compared with, and the group, in sentences."""
    if against == "previous":
        return BEFORE_AND_NOW
    return ("elsewhere" if against == "rest" else f"where {groups.column} is {groups.groups[0]}"), "here"


def _as_judged(
    comparisons: Sequence[Comparison], pvalues: Sequence[float], alpha: float, sides: tuple[str, str]
) -> tuple[Comparison, ...]:
    """Return comparisons at the levels that the adjustment for their number leaves each, in the words of groups."""
    pvalues_of_inputs = holm([comparison.inputs.pvalue for comparison in comparisons])
    return tuple(
        replace(
            comparison,
            alpha=_unadjusted_level(comparison.relation.pvalue, p, alpha),
            inputs_alpha=_unadjusted_level(comparison.inputs.pvalue, p_inputs, alpha),
            sides=sides,
        )
        for comparison, p, p_inputs in zip(comparisons, pvalues, pvalues_of_inputs, strict=True)
    )


def _unadjusted_level(pvalue: float, adjusted: float, alpha: float) -> float:
    """Return the level that a p-value does not exceed if and only if its adjusted one does not exceed alpha."""
    level = alpha * pvalue / adjusted
    # Only rounding would make a difference.
    return max(level, pvalue) if adjusted <= alpha else min(level, math.nextafter(pvalue, 0))


def _compared(
    groups: GroupedTable,
    pairs: list[tuple[list[int], int]],
    run: Run,
    alpha: float,
    max_rows: int,
    notes: list[str],
) -> dict[int, Comparison]:
    """Compare groups with their references, given by their numbers; what cannot be compared is noted.

    Two groups that are each compared with the other are compared once, the later one with the earlier one.
    """
    comparison_of = {}
    for references, current in pairs:
        each_other = ([current], references[0]) in pairs and len(references) == 1
        if each_other and references[0] > current:
            continue
        name = groups.groups[current]
        try:
            pair = groups.pair(references, current, max_rows)
            comparison = compare_pair(pair, replace(run, tell=_telling(run.tell, name)), alpha=alpha)
        except (DataError, OverlapError) as error:
            names = f"{groups.groups[references[0]]} and {name}" if each_other else name
            notes.append(f"{names} could not be compared: {error}")
            continue
        comparison_of[current] = comparison
        if each_other:
            comparison_of[references[0]] = mirrored(comparison)
    return comparison_of


def _references(group_numbers: Sequence[int], against: Against) -> Iterator[tuple[list[int], int]]:
    """Yield what each group is compared with, and the group, by their numbers."""
    for rank, current in enumerate(group_numbers):
        if against == "rest":
            yield [other for other in group_numbers if other != current], current
        elif rank:
            yield [group_numbers[0 if against == "first" else rank - 1]], current


def _telling(tell: Callable[[str], None], name: str) -> Callable[[str], None]:
    return lambda step: tell(f"{name}: {step}")


def _divergences(groups: GroupedTable) -> FloatArray:
    """Return the conditional CS divergence between all pairs of groups, with the widths of all rows together."""
    x, y, samples = groups.arrays()
    return np.asarray(condcs.pairwise(samples, kernel_x=borrowing(kernels(x)), kernel_y=kernels(y)))
