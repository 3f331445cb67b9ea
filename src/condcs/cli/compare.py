"""``condcs compare``: read, compare, print, and answer with an exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from condcs.cli.boundary import CHANGED
from condcs.cli.outputs import check_file
from condcs.cli.terminal import Terminal, foreign
from condcs.comparison.regions import response_summary
from condcs.comparison.result import STEPS, Comparison, as_json, check_level, compare
from condcs.comparison.shifts import Shift, Tell
from condcs.comparison.wording import account_words, column_words, show_number, show_p
from condcs.tables.pair import ReadOptions, read_pair


def run(
    reference: str,
    current: str,
    options: ReadOptions,
    *,
    alpha: float,
    resamples: int,
    jobs: int | None,
    as_machine: bool,
    report: Path | None,
    command: str,
) -> None:
    """Compare two tables and end with 0 (no evidence of a change), 1 (changed) or 2 (error)."""
    errors = Terminal(stderr=True)
    check_level(alpha, resamples)
    if report is not None:
        check_file("--report", report)
    with errors.working("Reading ..."):
        pair = read_pair(reference, current, options)
    with _progress(errors) as tell:
        found = compare(pair, alpha=alpha, resamples=resamples, seed=options.seed, jobs=jobs, tell=tell)
    if report is not None:
        from condcs.comparison.compare_page import compare_page

        compare_page(found, command).write(report)
    if as_machine:
        print(json.dumps(as_json(found), ensure_ascii=True))
    else:
        print_comparison(found, Terminal(), report)
    if found.relation_changed:
        raise typer.Exit(CHANGED)


def print_comparison(found: Comparison, console: Terminal, report: Path | None) -> None:
    """Print sizes, both answers, what y does, and the regions."""
    pair = found.pair
    sizes = Table.grid(padding=(0, 2))
    for _ in range(3):
        sizes.add_column(overflow="fold")
    for role, account in (("reference", pair.reference), ("current", pair.current)):
        sizes.add_row(f"[dim]{role}[/dim]", foreign(account.title), account_words(account, found.seed))
    console.print()
    console.print(sizes)
    console.print(f"[dim]y[/dim]          {foreign(column_words(pair.y))}")
    console.print(f"[dim]given x[/dim]    {foreign(column_words(pair.x))}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title, justify in (("question", "left"), ("answer", "left"), ("p-value", "right"), ("overlap", "right")):
        table.add_column(title, justify=justify, style="cyan" if title == "question" else None)  # type: ignore[arg-type]
    table.add_column("95% interval", style="dim")
    table.add_row("is p(x) the same?", _answer(found.inputs_shifted, "shifted", "no evidence"), *_numbers(found.inputs))
    table.add_row(
        "is p(y|x) the same?", _answer(found.relation_changed, "changed", "no evidence"), *_numbers(found.relation)
    )
    console.print()
    console.print(console.fitted(table))
    console.print()
    console.print(f"[bold]{foreign(found.verdict)}[/bold]")
    for words, before, after in response_summary(pair.y, pair.yp, pair.yq, found.places.shown):
        values = f"{show_number(before)} before, {show_number(after)} now"
        console.print(f"Overall, {foreign(words)}: {values}.")
    if found.relation_changed:
        console.print()
        console.print(console.fitted(_region_table(found)))
    for note in found.notes:
        console.print(f"[yellow]- {foreign(note)}[/yellow]")
    if report is not None:
        console.print(f"\nReport: [bold]{foreign(str(report))}[/bold]")


def _region_table(found: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("where the relation changed", style="cyan", overflow="fold")
    table.add_column("times average", justify="right")
    table.add_column("rows", justify="right", no_wrap=True)
    regions = found.places.regions
    for words, _, _ in regions[0].response[:2]:
        table.add_column(foreign(words), justify="right", no_wrap=True)
    for region in regions:
        values = [f"{show_number(before)} → {show_number(after)}" for _, before, after in region.response[:2]]
        shares = f"{region.share_p:.0%} → {region.share_q:.0%}"
        table.add_row(foreign(region.words), f"{region.ratio:.1f}", shares, *values)
    return table


def _answer(yes: bool, word: str, no_word: str) -> str:
    return f"[bold red]{word}[/bold red]" if yes else f"[green]{no_word}[/green]"


def _numbers(shift: Shift) -> tuple[str, str, str]:
    low, high = shift.overlap_interval
    return show_p(shift.pvalue), f"{shift.overlap:.3f}", f"{low:.3f} to {high:.3f}"


@contextmanager
def _progress(console: Terminal) -> Iterator[Tell]:
    """Show a bar in a terminal, a line per step in a dumb one, and nothing elsewhere: a pipeline has no use for it."""
    if not console.is_interactive:
        yield lambda step: console.print(step, style="dim") if console.is_terminal else None
        return
    columns = [TextColumn("[cyan]Comparing"), BarColumn(), TimeElapsedColumn(), TextColumn("[dim]{task.description}")]
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("", total=STEPS)
        done = -1

        def tell(step: str) -> None:
            nonlocal done
            done += 1
            bar.update(shown, completed=done, description=step)

        yield tell
