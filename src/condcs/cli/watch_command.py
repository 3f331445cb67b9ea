"""``condcs watch``: rows from standard input, and an alarm when their relation departs from that of the reference.

A watch runs for weeks and can be stopped by anything. Its state is therefore kept on disk as rows come in, always that
between two rows and never within one; signals end it after the row in hand; a row that cannot be used does not end it.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from condcs._core.checks import check_positive
from condcs._core.errors import CondcsError, CondcsWarning, DataError
from condcs._core.files import InUseError, locked, remove_parts, writing
from condcs._tables.pair import ReadOptions
from condcs._tables.sources import Format, Row, RowError, Table, open_table
from condcs.cli.boundary import CHANGED, in_options
from condcs.cli.signals import OutputClosed, Stopped, Stops
from condcs.cli.terminal import Terminal, abandon_output, foreign
from condcs.cli.watch_state import OPTIONS, Gap, Reference, StateFile, Watcher, new_watcher, read_reference
from condcs.drift import AfterAlarm, Alarm
from condcs.report._watch_page import watch_page

SIGNALLED, OUTPUT_CLOSED = 128, 141
"""Exit codes as of any program that a signal ends: its number is added. 141 is that of a closed pipe."""

NAMED = 5
"""So many rows that cannot be used are named; further ones are counted."""


class Output:
    """Alarms on standard output, as sentences or as JSON."""

    def __init__(self, *, as_machine: bool) -> None:
        self._as_machine, self._console = as_machine, Terminal()

    def tell(self, found: dict[str, Any]) -> None:
        """Print an alarm; its reader has it when this returns."""
        try:
            # Within the block: rich writes too, if only nothing.
            sys.stdout.write(json.dumps(found) + "\n" if self._as_machine else self._sentence(found))
            sys.stdout.flush()
        except OSError as error:
            abandon_output()
            if isinstance(error, BrokenPipeError):
                raise OutputClosed from None
            raise CondcsError(
                f"standard output could not be written: {error.strerror or error}. Make room for it, or send it "
                "somewhere else."
            ) from error

    def _sentence(self, found: dict[str, Any]) -> str:
        start, words = str(Alarm.from_dict(found)).split(": ", 1)
        with self._console.capture() as capture:
            self._console.print(f"[bold red]{start}[/bold red]: {foreign(words)}")
        return str(capture.get())


class Notes:
    """Words on standard error beside the alarms; whoever has closed it does not want them."""

    def __init__(self) -> None:
        self._console = Terminal(stderr=True)
        self._bad = 0
        self.first_bad = ""

    def say(self, words: str, style: str = "dim") -> None:
        """Print a line."""
        # rich turns a closed pipe into SystemExit(1), which would mean an alarm.
        with suppress(OSError, SystemExit):
            self._console.print(f"[{style}]{foreign(words)}[/{style}]", soft_wrap=True)

    def left_out(self, row: int, why: str) -> None:
        """Name a row that cannot be used, if not too many have been."""
        self._bad += 1
        self.first_bad = self.first_bad or why
        if self._bad <= NAMED:
            self.say(f"Row {row:,} of standard input is dropped: {why}", "yellow")
        elif self._bad == NAMED + 1:
            self.say("Further rows that cannot be used are only counted.", "yellow")


def run(
    reference: str,
    options: ReadOptions,
    *,
    run_length: float,
    after_alarm: AfterAlarm = "learn",
    state: Path | None,
    report: Path | None = None,
    command: str = "",
    as_machine: bool,
    form: Format | None,
) -> None:
    """Watch standard input; ends with 1 if there was an alarm, 0 if not, 2 on errors, 128 + its number by a signal."""
    notes = Notes()
    with Stops() as stops:
        watcher: Watcher | None = None
        try:
            check_positive("run_length", run_length)
            with stops.waiting():
                read = read_reference(reference, options, run_length=run_length, after_alarm=after_alarm)
            with ExitStack() as stack:
                watcher, file = _begin(read, state, stops, notes, stack)
                _watch(watcher, file, options, form, stops, Output(as_machine=as_machine), notes)
        except Stopped:
            kept = f"; the state is in {state}, and the same command resumes from there" if state is not None else ""
            notes.say(f"Stopped{kept}.", "yellow")
            raise typer.Exit(SIGNALLED + stops.caught) from None
        except OutputClosed:
            raise typer.Exit(OUTPUT_CLOSED) from None
        finally:
            if watcher is not None and report is not None:
                _write_report(watcher, report, command)
    notes.say(_account(watcher))
    if watcher.alarms:
        raise typer.Exit(CHANGED)


def _write_report(watcher: Watcher, path: Path, command: str) -> None:
    page = watch_page(
        watcher.about,
        [Alarm.from_dict(found) for found in watcher.told],
        watcher.history,
        _account(watcher),
        watcher.detector.notes,
        command,
    )
    page.write(path)


def _account(watcher: Watcher) -> str:
    """Say what became of the rows."""
    counts = watcher.detector.counts
    unseen, outside = counts["unseen labels"], counts["outside"]
    parts = [f"{watcher.gaps:,} with missing values"] if watcher.gaps else []
    parts += [f"{watcher.bad:,} that could not be read"] if watcher.bad else []
    parts += [f"{unseen:,} with labels that the reference does not have"] if unseen else []
    left = f", {' and '.join(parts)} dropped" if parts else ""
    unknown = f" {outside:,} rows with inputs unlike those of the reference were not watched." if outside else ""
    alarms = "1 alarm" if watcher.alarms == 1 else f"{watcher.alarms:,} alarms"
    return f"{watcher.rows:,} rows{left}, {alarms}.{unknown}"


def _begin(
    reference: Reference, path: Path | None, stops: Stops, notes: Notes, stack: ExitStack
) -> tuple[Watcher, StateFile | None]:
    """Resume from a state, or make a new detector; from then on, the state is kept."""
    if path is not None:
        try:
            with writing(f"`--state` {path}"):
                stack.enter_context(locked(path.with_name(f".{path.name}.lock")))
                remove_parts(path)
        except InUseError:
            raise DataError(
                f"`--state` {path} must be used by one condcs watch at a time, and another one is running. "
                "Wait for it, or name another --state."
            ) from None
    if path is not None and path.exists():
        if not path.is_file():
            raise DataError(f"`--state` {path} must be a file, got something else. Name another --state.")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(
                f"`--state` {path} could not be read: {error.strerror or error}. Check its permissions."
            ) from error
        watcher = Watcher.from_bytes(content, reference, path)
        notes.say(f"Resuming after row {watcher.rows:,}.")
    else:
        notes.say("Learning the reference ...")
        with stops.waiting(), warnings.catch_warnings():
            warnings.simplefilter("ignore", CondcsWarning)  # it is said below
            watcher = new_watcher(reference)
        for words in watcher.detector.notes:
            notes.say(words, "yellow" if not watcher.detector.promises else "dim")
        if reference.about["sampled"]:
            notes.say(
                "The reference was sampled, so that rows which depend on those before them cannot be recognised; "
                "--max-rows reads more.",
                "yellow",
            )
    return watcher, None if path is None else stack.enter_context(StateFile(path, watcher))


def _watch(
    watcher: Watcher,
    file: StateFile | None,
    options: ReadOptions,
    form: Format | None,
    stops: Stops,
    output: Output,
    notes: Notes,
) -> None:
    """Take in all rows of standard input."""
    _tell(watcher, output)
    used = row = 0
    with ExitStack() as stack:
        with stops.waiting():
            # A wrong byte is a matter of one row, not the end of a watch.
            table = stack.enter_context(open_table("-", replace(options.files, format=form), any_bytes=True))
        for row, cells in enumerate(_rows(table, watcher.names, stops), start=1):
            with nullcontext() if file is None else file.between_rows():
                try:
                    watcher.see(cells, table.title)
                    used += 1
                except DataError as error:
                    if not (isinstance(error, Gap) and options.drop_missing):
                        notes.left_out(row, in_options(str(error), OPTIONS))
                _tell(watcher, output)
    if row and not used and notes.first_bad:
        raise DataError(f"standard input must have rows that can be used, got none in {row:,}. {notes.first_bad}")


def _rows(table: Table, names: list[str], stops: Stops) -> Iterator[Row | RowError]:
    """Yield the rows one by one, and the error of a row that cannot be read in its place."""
    missing = [name for name in names if name not in table.names]
    if missing:
        lacking = ", ".join(map(repr, missing))
        unreadable = any("\ufffd" in name or "\0" in name for name in table.names)
        hint = " Its header is not text in the encoding expected: name it with --encoding." if unreadable else ""
        raise DataError(f"standard input must have the columns of the reference, but lacks {lacking}.{hint}")
    places = [table.names.index(name) for name in names]
    batches = table.batches(places, 1)
    while True:
        try:
            with stops.waiting():
                batch = next(batches, None)
        except RowError as error:
            yield error
            batches = table.batches(places, 1)
            continue
        if batch is None:
            return
        yield from batch


def _tell(watcher: Watcher, output: Output) -> None:
    """Print the alarm that has not been printed yet, if there is one; a state says so until it has been."""
    if watcher.untold is not None:
        output.tell(watcher.untold)
        watcher.untold = None
