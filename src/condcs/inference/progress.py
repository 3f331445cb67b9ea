"""A progress bar for long resampling runs, where the terminal library is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(total: int, wanted: bool, title: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances the bar; without `rich`, or if not wanted, it does nothing."""
    if not wanted:
        yield lambda count: None
        return
    try:
        from rich.progress import Progress
    except ModuleNotFoundError:
        yield lambda count: None
        return
    with Progress(transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)
