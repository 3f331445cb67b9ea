"""``condcs compare``: compare, print, and answer with an exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from condcs.cli.boundary import CHANGED
from condcs.cli.outputs import check_file
from condcs.cli.terminal import Terminal, foreign
from condcs.comparison._comparing import STEPS
from condcs.comparison._result import Comparison
from condcs.comparison._wording import Lines, answers, effects, loss_parts, responses, sizes, variables, where

_STYLES = {"shifted": "bold red", "changed": "bold red", "same": "bold green", "no evidence": "green"}


def run(
    compared: Callable[[Callable[[str], None]], Comparison], *, as_machine: bool, report: Path | None, command: str
) -> None:
    """Compare two tables and end with 0 (no evidence of a change), 1 (changed) or 2 (error).

    Parameters
    ----------
    compared : function
        Compares them; it is given what to call with the name of each step.
    as_machine : bool
        Whether to print JSON.
    report : Path, optional
        Page to write.
    command : str
        The command line, for the page.
    """
    if report is not None:
        check_file("--report", report)
    with _progress(Terminal(stderr=True)) as tell:
        found = compared(tell)
    if report is not None:
        found.report(report, command=command)
    if as_machine:
        print(json.dumps(found.to_dict(), ensure_ascii=True))
    else:
        print_comparison(found, Terminal(), report)
    if found.relation_changed:
        raise typer.Exit(CHANGED)


def print_comparison(found: Comparison, console: Terminal, report: Path | None) -> None:
    """Print sizes, both answers, what y does, and the regions."""
    accounts = Table.grid(padding=(0, 2))
    for _ in range(3):
        accounts.add_column(overflow="fold")
    for role, title, rows in sizes(found).rows:
        accounts.add_row(f"[dim]{role}[/dim]", foreign(title), foreign(rows))
    console.print()
    console.print(accounts)
    for name, words in variables(found):
        console.print(f"[dim]{name:<9}[/dim]  {foreign(words)}")
    console.print()
    console.print(f"[bold]{foreign(found.verdict)}[/bold]")
    for line in responses(found):
        console.print(foreign(line))
    for table in (effects(found), *([] if found.loss_change is None else [loss_parts(found)]), answers(found)):
        console.print()
        console.print(console.fitted(_table(table)))
    if found.relation_changed:
        console.print()
        console.print(console.fitted(_table(where(found))))
    for note in found.notes:
        console.print(f"[yellow]- {foreign(note)}[/yellow]")
    if report is not None:
        console.print(f"\nReport: [bold]{foreign(str(report))}[/bold]")


def _table(lines: Lines) -> Table:
    """Return a table for the terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, title in enumerate(lines.columns):
        style = "cyan" if place == 0 else "dim" if title == "95% interval" else None
        justify: Any = "right" if title in lines.numbers else "left"
        table.add_column(foreign(title), justify=justify, overflow="fold" if place == 0 else "ellipsis", style=style)
    for row in lines.rows:
        table.add_row(*(f"[{_STYLES[cell]}]{cell}[/]" if cell in _STYLES else foreign(cell) for cell in row))
    return table


@contextmanager
def _progress(console: Terminal) -> Iterator[Callable[[str], None]]:
    """Show a bar in a terminal, a line per step in a dumb one, and nothing elsewhere: a pipeline has no use for it."""
    if not console.is_interactive:
        yield lambda step: console.print(step, style="dim") if console.is_terminal else None
        return
    words = TextColumn("[dim]{task.description}")
    columns = [TextColumn("[cyan]Comparing"), BarColumn(), TimeElapsedColumn(), words, TimeRemainingColumn()]
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("", total=sum(STEPS.values()))
        begun: list[str] = []

        def tell(step: str) -> None:
            # About how much of the time the steps before this one take, so that what is left can be estimated.
            bar.update(shown, completed=sum(STEPS[name] for name in begun), description=step)
            begun.append(step)

        yield tell
