"""How far a long run has come: a bar where one is wanted, and else a warning if it is going to take long.

Also what makes the first run of all long: loops that are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from time import monotonic as clock

from condcs._core.errors import CostWarning, warn_caller
from condcs._core.vocabulary import named

LONG_SECONDS = 120.0
"""Runs estimated to take longer than this say so: two minutes, after which one wonders whether anything happens."""

MEASURED_SECONDS = 1.0
"""Work that an estimate is based on, at least: from less, a pause of the machine would make it a warning."""

Advance = Callable[[float], None]

_inside: ContextVar[Advance | None] = ContextVar("condcs_advance", default=None)


_compilation_listeners: list[Callable[[], None]] = []
"""What to call when loops are about to be compiled rather than read from the cache."""


def call_at_compilation(listener: Callable[[], None]) -> None:
    """Call a function once, if this process has to compile a loop that no earlier one has compiled."""
    _compilation_listeners.append(listener)


def report_compilation() -> None:
    """Tell whoever wants to know that loops are compiled from here on."""
    while _compilation_listeners:
        _compilation_listeners.pop()()


def remedy_for_resamples(*, all_pairs: bool) -> str:
    """Say what to do about a long test, which visits all pairs of rows or those of a row and an anchor."""
    fewer = "fewer rows (the time grows with their square)" if all_pairs else "fewer rows"
    return f"Use {fewer}, pass fewer {named('n_resamples')} or more {named('n_jobs')}, or watch it with progress=True."


@contextmanager
def progress_bar(total: int, wanted: bool, title: str, *, remedy: str | None = None) -> Iterator[Advance]:
    """Yield a function that is told how much of the total has been done since the last call.

    It advances a bar if one is wanted and `rich` is installed. Otherwise, if there is a remedy to offer, it warns once
    when the whole is going to take longer than two minutes.
    """
    silent = _CostEstimate(total, title, remedy) if remedy else lambda count: None
    if not wanted:
        yield silent
        return
    try:
        from rich.progress import Progress
    except ModuleNotFoundError:
        yield silent
        return
    with Progress(transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)


class _CostEstimate:
    """The time that a run takes, from its first steps; the very first may load and compile, and does not count."""

    def __init__(self, total: int, title: str, remedy: str) -> None:
        self.total, self.title, self.remedy = total, title, remedy
        self.start: float | None = None
        self.done = 0.0
        self.told = False

    def __call__(self, count: float) -> None:
        if self.start is None:
            self.start = clock()
            return
        self.done += count
        elapsed = clock() - self.start
        if self.told or elapsed < MEASURED_SECONDS or self.done <= 0:
            return
        estimate = elapsed / self.done * self.total
        if estimate > LONG_SECONDS:
            self.told = True
            warn_caller(f"{self.title} is going to take about {_duration(estimate)}. {self.remedy}", CostWarning)


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 100 else f"{minutes / 60:.0f} hours"


@contextmanager
def steps_inside(advance: Advance, count: float, scale: float = 1.0) -> Iterator[None]:
    """Pass on what `report_done` is told within the block, times `scale`, and at its end the rest of `count`."""
    reported = 0.0

    def passed_on(done: float) -> None:
        nonlocal reported
        reported += scale * done
        advance(scale * done)

    token = _inside.set(passed_on)
    try:
        yield
    finally:
        _inside.reset(token)
    if count > reported:
        advance(count - reported)


def report_done(count: float) -> None:
    """Tell whoever waits for a batch of resamples that so many more of them are done; parts of one count."""
    advance = _inside.get()
    if advance is not None:
        advance(count)


def part_of_the_work(share: float) -> AbstractContextManager[None]:
    """Count what `report_done` is told within a ``with`` block as a share only: other parts of the work follow."""
    outer = _inside.get()
    return nullcontext() if outer is None else steps_inside(outer, 0.0, share)
