"""What the comparison of the groups of a table found, as text, plain values or a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import condcs
from condcs._core.equality import ByValue
from condcs._core.errors import ParameterError
from condcs._core.printable import harmless
from condcs.comparison._reported import Reported
from condcs.comparison._result import Comparison
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


def holm(pvalues: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values for their number: the smallest times n, the next times n - 1, ..., and never falling.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    p = np.asarray(pvalues, float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1.0)
    return tuple(float(value) for value in adjusted)


def _about_group(page: Page, title: str, found: Comparison) -> None:
    page.section(title)
    page.table(["all rows", "before", "now"], found.response)
    if found.regions:
        regions = where(found)
        page.table(regions.columns, regions.rows)
