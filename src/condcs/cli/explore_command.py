"""``condcs explore``: let agents look for a goal, watch them, and write a page about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.live import Live
from rich.table import Table

from condcs.cli.boundary import check_file
from condcs.cli.output_files import OutputFile, answer_then_write
from condcs.cli.terminal import Terminal, foreign
from condcs.explore._trials import COLUMNS, ExploreOptions, MethodRuns, RunsByMethod, explore, rows_of


def run(options: ExploreOptions, *, out: Path, command: str) -> None:
    """Run, show and write."""
    check_file("--out", out)
    console = Terminal()
    with _shown_progress(options, console) as tell:
        runs_by_method = explore(options, tell)
    from condcs.explore._explore_page import explore_page

    def write_page(path: Path) -> None:
        explore_page(options, runs_by_method, command).write(path)

    def answer() -> None:
        # On a terminal it has been printed as it grew.
        if not console.is_interactive:
            console.print(console.fitted(_table(options, runs_by_method)))

    notice = f"Written to [bold]{foreign(out)}[/bold]: heat maps and learning curves."
    answer_then_write(answer, [OutputFile(out, write_page, notice)])


def _table(options: ExploreOptions, runs_by_method: RunsByMethod) -> Table:
    title = f"{options.environment}, {options.steps:,} steps per run"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if i == 0 else "right", style="cyan" if i == 0 else None)
    for row in rows_of(options, runs_by_method):
        table.add_row(*row)
    return table


@contextmanager
def _shown_progress(options: ExploreOptions, console: Terminal) -> Iterator[Callable[[RunsByMethod], None]]:
    """Show the table as it grows in a terminal, and nothing elsewhere."""
    if not console.is_interactive:
        yield lambda runs_by_method: None
        return
    no_runs = {method: MethodRuns() for method in options.methods}
    with Live(console.fitted(_table(options, no_runs)), console=console, refresh_per_second=8) as live:
        yield lambda runs_by_method: live.update(console.fitted(_table(options, runs_by_method)))
