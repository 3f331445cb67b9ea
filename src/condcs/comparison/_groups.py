"""The groups of one table, each compared with the others: which of them differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack, get_args

import numpy as np

import condcs
from condcs._core.arrays import ByValue
from condcs._core.checks import check_choice
from condcs._core.errors import DataError, OverlapError, ParameterError, public
from condcs._core.printable import harmless
from condcs._inference.explain import holm
from condcs._tables.grouped_table import GroupedTable, read_groups
from condcs._tables.in_memory import as_table, column_patterns
from condcs._tables.pair import Missing
from condcs._tables.sources import FileOptions
from condcs.comparison._comparing import Columns, as_seed, check_level, compare_pair, read_options
from condcs.comparison._reported import Reported
from condcs.comparison._result import Comparison
from condcs.comparison._shifts import kernels, standardised
from condcs.comparison._wording import Lines, set_lines, show_number, show_p, variables, where
from condcs.report._page import Page

FloatArray = np.ndarray[Any, Any]

SCHEMA = "condcs/compare-groups/1"

_AGAINST = {
    "rest": "each against all others together",
    "first": "each against the first",
    "previous": "each against the one before",
}


@dataclass(frozen=True, eq=False, repr=False)
class GroupComparison(ByValue, Reported):
    """What `condcs.compare_groups` found out.

    ``print(found)`` shows a line per group; ``found["March"]`` is the `Comparison` of one.

    Attributes
    ----------
    title, column : str
        The table, and its column that names the groups.
    against : str
        What each group was compared with: "rest", "first" or "previous".
    names : tuple of str
        The groups that were compared.
    comparisons : tuple of Comparison
        What was found for each of them. Their own p-values are not adjusted.
    alpha : float
        Level, for all groups together.
    groups : tuple of str
        All groups, as `divergences` has them.
    divergences : array, optional
        Conditional CS divergence between all pairs of groups.
    notes : tuple of str
        What a reader should know.
    """

    title: str
    column: str
    against: str
    names: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    alpha: float
    groups: tuple[str, ...]
    divergences: FloatArray | None
    notes: tuple[str, ...]

    @property
    def pvalues(self) -> tuple[float, ...]:
        """P-values of the relation of each group, adjusted for their number (Holm)."""
        return holm([found.relation.pvalue for found in self.comparisons])

    @property
    def inputs_pvalues(self) -> tuple[float, ...]:
        """P-values of the inputs of each group, adjusted for their number (Holm)."""
        return holm([found.inputs.pvalue for found in self.comparisons])

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
        count = f"({len(self.names)} groups, {_AGAINST[self.against]})"
        if not self.changed:
            return f"No evidence that the relation of {y} to the inputs differs by {self.column} {count}."
        return f"The relation of {y} to the inputs differs where {self.column} is {', '.join(self.changed)} {count}."

    def __getitem__(self, name: str) -> Comparison:
        if name not in self.names:
            known = ", ".join(map(repr, self.names))
            raise ParameterError(f"`name` must be a group that was compared, got {name!r}. They are {known}.")
        return self.comparisons[self.names.index(name)]

    def __repr__(self) -> str:
        return f"<GroupComparison: {self.verdict}>"

    def __str__(self) -> str:
        blocks = [
            [f"{self.title}, by {self.column}", *(f"{name:<7}  {words}" for name, words in self.variables)],
            set_lines(self.lines()),
            [self.verdict, *self.places],
            [f"- {note}" for note in self.all_notes],
        ]
        return "\n\n".join("\n".join(map(harmless, lines)) for lines in blocks if lines)

    @property
    def places(self) -> tuple[str, ...]:
        """For each group that differs, the first of its regions."""
        regions = {name: self[name].regions for name in self.changed}
        return tuple(
            f"{self.column} = {name}: first of all {place_words(found[0].words)}."
            for name, found in regions.items()
            if found
        )

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """The columns of y and of x, of the first comparison."""
        return variables(self.comparisons[0])

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Notes on the groups, then those of the comparisons, each once."""
        return tuple(dict.fromkeys([*self.notes, *(note for found in self.comparisons for note in found.notes)]))

    def lines(self) -> Lines:
        """Return a line per group: both answers, and what y does."""
        rows = []
        for name, found, p, p_inputs in zip(
            self.names, self.comparisons, self.pvalues, self.inputs_pvalues, strict=True
        ):
            _, before, after = found.response[0]
            rows.append(
                (
                    name,
                    f"{found.pair.current.used:,}",
                    "changed" if p <= self.alpha else "no evidence",
                    show_p(p),
                    "shifted" if p_inputs <= self.alpha else "no evidence",
                    f"{show_number(before)} → {show_number(after)}",
                )
            )
        mean = self.comparisons[0].response[0][0]
        columns = (self.column, "rows", "relation", "p-value", "inputs", mean)
        return Lines(columns, tuple(rows), frozenset({"rows", "p-value", mean}))

    def to_dict(self) -> dict[str, Any]:
        """Return everything that was found as plain values: what ``condcs compare --group --json`` prints."""
        return {
            "schema": SCHEMA,
            "condcs": condcs.__version__,
            "table": self.title,
            "group": self.column,
            "against": self.against,
            "alpha": self.alpha,
            "verdict": self.verdict,
            "changed": list(self.changed),
            "groups": [
                {"name": name, "pvalue_adjusted": p, "inputs_pvalue_adjusted": q, "comparison": found.to_dict()}
                for name, p, q, found in zip(
                    self.names, self.pvalues, self.inputs_pvalues, self.comparisons, strict=True
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
            f"P-values are adjusted for {len(self.names)} groups (Holm), {_AGAINST[self.against]}.",
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
        page.facts({**dict(self.variables), "level": self.alpha, "resamples": self.comparisons[0].n_resamples})
        if self.all_notes:
            page.points(self.all_notes)
        if command:
            page.command(command)
        page.data("condcs-comparison", self.to_dict())
        return page


def place_words(region: str) -> str:
    """Return a region as a place in a sentence: "where area > 100", or "everywhere"."""
    return region if region == "everywhere" else f"where {region}"


def _about_group(page: Page, title: str, found: Comparison) -> None:
    page.section(title)
    page.table(["all rows", "before", "now"], found.response)
    if found.regions:
        regions = where(found)
        page.table(regions.columns, regions.rows)


Against = Literal["rest", "first", "previous"]
"""What each group is compared with."""


class TableOptions(TypedDict, total=False):
    """How a table is read: keywords of `condcs.compare`."""

    category: Columns
    number: Columns
    missing: Missing
    weights: str | int | None
    cluster: str | int | None
    max_rows: int
    files: FileOptions | None


@public
def compare_groups(
    table: Any,
    *,
    group: str | int,
    y: Columns,
    x: Columns | None = None,
    against: Against = "rest",
    alpha: float = 0.05,
    n_resamples: int | None = None,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    matrix: bool = False,
    progress: Callable[[str], None] | None = None,
    **options: Unpack[TableOptions],
) -> GroupComparison:
    """Say in which groups of a table (months, sites, versions) the relation of y to x differs.

    Each group is compared as `condcs.compare` compares two tables, and the p-values are adjusted for their number
    (Holm): the probability of naming any group whose relation is the same is at most alpha.

    Parameters
    ----------
    table : DataFrame, pyarrow Table, dict of columns, 2-d array, str or Path
        As in `condcs.compare`.
    group : str or int
        Column that names the groups: at most 50, of 10 rows or more. It is no input.
    y, x : str, int or sequence of them
        Response and inputs, as in `condcs.compare`.
    against : {"rest", "first", "previous"}
        Each group against all others together, against the first group, or against the one before it. Groups are in
        the order of their numbers or dates, other names in that of their first rows.
    alpha : float
        Level of the tests, for all groups together.
    n_resamples : int, optional
        Resamples of each test; by default 199, or more where the adjustment needs them.
    rng, n_jobs, progress
        As in `condcs.compare`.
    matrix : bool
        Whether to estimate the conditional CS divergence between all pairs of groups as well.
    **options
        `category`, `number`, `missing`, `weights`, `cluster`, `max_rows` (of each group) and `files`, as in
        `condcs.compare`.

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
    >>> found = compare_groups(
    ...     {"month": month, "area": area, "price": price}, group="month", y="price", against="first"
    ... )
    >>> found.changed
    ('March',)
    """
    check_choice("against", against, get_args(Against))
    check_level(alpha, 199 if n_resamples is None else n_resamples)
    source, seed, tell = as_table("table", table), as_seed(rng), progress or (lambda step: None)
    columns = {name: options.get(name, ()) for name in ("category", "number", "weights", "cluster")}
    reading = read_options(
        source,
        {"x": x, "y": y, **columns},
        missing=options.get("missing", "error"),
        max_rows=options.get("max_rows", 2000),
        seed=seed,
        files=options.get("files"),
    )
    tell("reading")
    groups = read_groups(source, column_patterns("group", group, source), reading)
    pairs = list(_references(len(groups.groups), against))
    if n_resamples is None:
        # Half the level is within reach of the smallest of the adjusted p-values.
        n_resamples = max(199, math.ceil(2 * len(pairs) / alpha) - 1)
    check_level(alpha / len(pairs), n_resamples)
    names, found, notes = [], [], list(groups.notes)
    for places, current in pairs:
        name = groups.groups[current]
        try:
            pair = groups.pair(places, current, reading.max_rows)
        except (DataError, OverlapError) as error:
            notes.append(f"{name} could not be compared: {error}")
            continue
        compared = compare_pair(
            pair, alpha=alpha, n_resamples=n_resamples, seed=seed, n_jobs=n_jobs, tell=_telling(tell, name)
        )
        names.append(name)
        found.append(compared)
    if not found:
        raise DataError(" ".join(["no group could be compared.", *notes]))
    return GroupComparison(
        title=groups.title,
        column=groups.column,
        against=against,
        names=tuple(names),
        comparisons=tuple(found),
        alpha=alpha,
        groups=groups.groups,
        divergences=_divergences(groups) if matrix else None,
        notes=tuple(notes),
    )


def _references(count: int, against: Against) -> Iterator[tuple[list[int], int]]:
    """Yield what each group is compared with, and the group."""
    for current in range(0 if against == "rest" else 1, count):
        if against == "rest":
            yield [place for place in range(count) if place != current], current
        else:
            yield [0 if against == "first" else current - 1], current


def _telling(tell: Callable[[str], None], name: str) -> Callable[[str], None]:
    return lambda step: tell(f"{name}: {step}")


def _divergences(groups: GroupedTable) -> FloatArray:
    """Return the conditional CS divergence between all pairs of groups, with the widths of all rows together."""
    x, y, arrays = groups.arrays()
    ends = np.cumsum([len(gx) for gx, _ in arrays])[:-1]
    parts = []
    for place, columns in enumerate((x, y)):
        pooled = np.concatenate([a[place] for a in arrays])
        scaled, _ = standardised(columns, pooled, pooled[:0])
        parts.append(np.split(scaled, ends))
    samples = list(zip(*parts, strict=True))
    return np.asarray(condcs.pairwise(samples, kernel_x=kernels(x), kernel_y=kernels(y)))
