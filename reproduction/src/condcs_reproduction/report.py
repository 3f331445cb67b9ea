"""Ours beside the paper's: a verdict for each cell, as Markdown, JSON or a rich table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

MARKS = {"agrees": "✓", "higher": "▲", "lower": "▼", "differs": "✗", "": ""}
"""Sign of each verdict; the empty one means that the paper has no number there."""

_COLOURS = {"agrees": "green", "higher": "yellow", "lower": "yellow", "differs": "red", "": "default"}

SPREAD_FACTOR = 2.576
"""How many standard errors of the difference still agree: 99% of a normal distribution."""


@dataclass(frozen=True)
class Cell:
    """One number or word of a table.

    Attributes
    ----------
    ours, paper : float, str or None
        What was measured and what is printed; None where there is nothing.
    verdict : str
        A key of `MARKS`.
    error : float, optional
        Standard error of ours.
    detail : str
        More about ours, shown behind it.
    digits : int
        Decimals shown.
    """

    ours: float | str | None
    paper: float | str | None = None
    verdict: str = ""
    error: float | None = None
    detail: str = ""
    digits: int = 2

    def __str__(self) -> str:
        parts = [self._shown(self.ours) + (f" ± {self._shown(self.error)}" if self.error is not None else "")]
        if self.detail:
            parts.append(f"[{self.detail}]")
        if self.paper is not None:
            parts.append(f"({self._shown(self.paper)})")
        if self.verdict:
            parts.append(MARKS[self.verdict])
        return " ".join(parts)

    def _shown(self, value: float | str | None) -> str:
        if value is None:
            return "–"
        # 0 is added: no number is written as minus nothing.
        return value if isinstance(value, str) else f"{round(value, self.digits) + 0.0:.{self.digits}f}"


MISSING = Cell(None)
"""A cell whose trials have not been run."""


@dataclass(frozen=True)
class Grid:
    """A table: `cells[row][column]`."""

    title: str
    corner: str
    columns: Sequence[str]
    cells: Mapping[str, Mapping[str, Cell]]


@dataclass(frozen=True)
class Report:
    """Tables of an experiment and what to know about them.

    `beyond_paper` says that the paper has no such experiment: what stands in brackets is what was expected.
    """

    title: str
    grids: Sequence[Grid]
    notes: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    beyond_paper: bool = False

    def cells(self) -> Iterator[Cell]:
        """Yield all cells."""
        for grid in self.grids:
            for row in grid.cells.values():
                yield from row.values()

    def agreement(self) -> tuple[int, int]:
        """Return how many cells agree with the paper (or with what was expected), and how many have a verdict."""
        verdicts = [cell.verdict for cell in self.cells() if cell.verdict]
        return verdicts.count("agrees"), len(verdicts)

    def conclusion(self) -> str:
        """Say in a line how ours compares with the paper's, or with what was expected."""
        agree, judged = self.agreement()
        if not judged:
            return UNJUDGED_LEGEND_BEYOND if self.beyond_paper else UNJUDGED_LEGEND
        legend = LEGEND_BEYOND if self.beyond_paper else LEGEND
        return f"{agree} of {judged} {self.agreement_label()}. {legend}"

    def without_verdicts(self) -> Report:
        """Return the same numbers without a verdict on any."""
        grids = [
            replace(
                grid,
                cells={
                    name: {column: replace(cell, verdict="") for column, cell in row.items()}
                    for name, row in grid.cells.items()
                },
            )
            for grid in self.grids
        ]
        return replace(self, grids=grids)

    def agreement_label(self) -> str:
        """Say what the first number of `agreement` counts."""
        return "cells are as expected" if self.beyond_paper else "cells agree with the paper"

    def to_json(self) -> str:
        """Return everything as JSON text; equal trials give equal text."""
        agree, judged = self.agreement()
        content = {
            "title": self.title,
            "facts": dict(self.facts),
            "agree": agree,
            "judged": judged,
            "notes": list(self.notes),
            "tables": [
                {
                    "title": grid.title,
                    "cells": {r: {c: asdict(cell) for c, cell in row.items()} for r, row in grid.cells.items()},
                }
                for grid in self.grids
            ],
        }
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def to_markdown(self) -> str:
        """Return the tables as Markdown."""
        lines = [f"# {self.title}", "", self.conclusion(), ""]
        for grid in self.grids:
            lines += [f"## {grid.title}", "", f"| {grid.corner} | " + " | ".join(grid.columns) + " |"]
            lines.append("| --- |" + " --- |" * len(grid.columns))
            for name, row in grid.cells.items():
                lines.append(f"| {name} | " + " | ".join(str(row.get(c, MISSING)) for c in grid.columns) + " |")
            lines.append("")
        lines += [f"- {note}" for note in self.notes]
        return "\n".join(lines).rstrip() + "\n"

    def to_rich(self) -> list[Table]:
        """Return the tables for a terminal, coloured by verdict."""
        from rich.table import Table
        from rich.text import Text

        tables = []
        for grid in self.grids:
            table = Table(title=grid.title, title_justify="left", title_style="bold", box=None, pad_edge=False)
            table.add_column(grid.corner, style="cyan", no_wrap=True)
            for column in grid.columns:
                table.add_column(column, justify="right")
            for name, row in grid.cells.items():
                cells = [row.get(c, MISSING) for c in grid.columns]
                table.add_row(name, *(Text(str(cell), style=_COLOURS[cell.verdict]) for cell in cells))
            tables.append(table)
        return tables


QUICK_NOTE = (
    "Quick version: smaller data and few trials. It shows that things run. There are no verdicts: its numbers say "
    "nothing about the paper."
)
"""Stands above a report of a quick version."""

UNJUDGED_LEGEND_BEYOND = "Not in the paper. In brackets, where something was expected, what; – not run."
UNJUDGED_LEGEND = "Ours first, the paper's in brackets; – not run."
LEGEND_BEYOND = "Not in the paper. In brackets, where something was expected, what: ✓ so it is, ✗ it is not, – not run."
LEGEND = "Ours first, the paper's in brackets: ✓ agrees, ▲ ours is higher, ▼ lower, ✗ differs, – not run."


def judged(ours: float, paper: float, *, spread: float, tolerance: float) -> str:
    """Return the verdict on two numbers whose difference has the standard error `spread`."""
    if abs(ours - paper) <= max(tolerance, SPREAD_FACTOR * spread) + 1e-12:
        return "agrees"
    return "higher" if ours > paper else "lower"


def rate_error(successes: int, trials: int) -> float:
    """Return the standard error of a rate, by Agresti and Coull's rule: not 0 when all trials end alike."""
    rate = (successes + 2) / (trials + 4)
    return math.sqrt(rate * (1 - rate) / (trials + 4))
