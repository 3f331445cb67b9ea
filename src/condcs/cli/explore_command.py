"""``condcs explore``: let agents look for a goal, watch them, and write a page about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

from condcs.cli.boundary import check_file
from condcs.cli.terminal import Terminal, foreign
from condcs.explore._trials import COLUMNS, ExploreOptions, Found, MethodRuns, explore, rows_of


def run(options: ExploreOptions, *, out: Path, command: str) -> None:
    """Run, show and write."""
    check_file("--out", out)
    console = Terminal()
    with _display(options, console) as tell:
        found = explore(options, tell)
    from condcs.report._explore_page import explore_page

    path = explore_page(options, found, command).write(out)
    console.print(f"Written to [bold]{foreign(path)}[/bold]: heat maps and learning curves.", soft_wrap=True)


def _table(options: ExploreOptions, found: Found) -> Table:
    title = f"{options.environment}, {options.steps:,} steps per run"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if i == 0 else "right", style="cyan" if i == 0 else None)
    for row in rows_of(options, found):
        table.add_row(*row)
    return table


@contextmanager
def _display(options: ExploreOptions, console: Terminal) -> Iterator[Any]:
    """Show the table as it grows in a terminal; elsewhere once, at the end."""
    last: Found = {method: MethodRuns() for method in options.methods}
    if console.is_interactive:
        with Live(console.fitted(_table(options, last)), console=console, refresh_per_second=8) as live:
            yield lambda found: live.update(console.fitted(_table(options, found)))
        return

    def keep(found: Found) -> None:
        last.update(found)

    yield keep
    console.print(console.fitted(_table(options, last)))
