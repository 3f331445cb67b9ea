"""``condcs watch``: rows from standard input, and an alarm when their relation departs from that of the reference.

A watch runs for weeks and can be stopped by anything. Its state is therefore kept on disk as rows come in, always that
between two rows and never within one; signals end it after the rows in hand; a row that cannot be used does not end it.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import typer

from condcs._core.arrays import FloatArray
from condcs._core.checks import check_positive
from condcs._core.errors import CondcsError, CondcsWarning, DataError
from condcs._core.files import InUseError, WriteError, atomic_write, locked, remove_parts, sealed, unsealed, writing
from condcs._core.printable import counted
from condcs._core.vocabulary import named
from condcs._tables.cells import label_of
from condcs._tables.kinds import Column
from condcs._tables.pair import ReadOptions, choose_x_and_y, read_sample, tell_columns
from condcs._tables.sources import Format, RowError, Table, TableBatch, TableRow, check_paths, open_table
from condcs.cli.boundary import CHANGED, OUTPUT_CLOSED, check_file, tell_unwritten, with_unwritten
from condcs.cli.output_files import OutputFile, write_files
from condcs.cli.signals import OutputClosed, Stopped, Stops
from condcs.cli.terminal import Terminal, abandon_output, foreign
from condcs.drift import AfterAlarm, Alarm, ConditionalDriftDetector
from condcs.drift._watch_page import StreamHistory, watch_page

SIGNALLED = 128
"""Exit code as of any program that a signal ends: its number is added."""

MOST_NAMED = 5
"""So many rows that cannot be used are named; further ones are counted."""

SAVED_ROWS, SAVED_SECONDS = 1000, 5.0
"""The state on disk is written after so many rows or seconds; a batch, of as many rows, is taken in before that."""

SETTINGS = "x", "y", "run_length", "after_alarm", "seed"
"""What a state must have been made with, as options of the command."""

MOST_REPORTED = 100
"""Alarms that are kept for the report."""

_COUNTS = ("rows", "gaps", "bad", "alarms")


@dataclass(frozen=True)
class Reference:
    """The reference, and the settings that a state must have been made with."""

    x: tuple[Column, ...]
    y: tuple[Column, ...]
    table: dict[str, Any]  # values by name of the column: numbers, and labels as text
    # Plain JSON values: columns and kinds, run length, what follows an alarm, seed, and a hash of the rows.
    about: dict[str, Any]


class Gap(DataError):
    """A row has a missing value in a column that is watched."""


class Unusable(NamedTuple):
    """A row that cannot be used, and why."""

    error: DataError


class Watcher:
    """A detector together with the columns it reads, and an account of what became of the rows."""

    def __init__(self, detector: ConditionalDriftDetector, reference: Reference) -> None:
        self.detector, self.x, self.y, self.about = detector, reference.x, reference.y, reference.about
        self.rows = self.gaps = self.bad = self.alarms = 0
        # Alarms as plain values: the one that is not printed yet, if there is one, and the last ones for the page.
        self.unprinted_alarm: dict[str, Any] | None = None
        self.reported: list[dict[str, Any]] = []
        self.history = StreamHistory()

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of x, then of y."""
        return *self.x, *self.y

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [column.name for column in self.columns]

    def see(self, batch: TableBatch | RowError, title: str) -> Iterator[Unusable | Alarm]:
        """Take in rows, or one that could not be read.

        Yield each row that cannot be used, and each alarm; `rows` counts up to that row then. The detector is given
        every row, so that its numbers of rows are those of the stream: a row that cannot be read, or has a gap, as
        gaps.
        """
        if isinstance(batch, RowError):
            self.bad += 1
            yield self._pass_over(batch)
            return
        pairs = zip(self.columns, batch.columns, strict=True)
        is_usable = np.logical_and.reduce([column.fits(cells) for column, cells in pairs])  # (n,)
        # Where stretches of rows that can be used end: in front of each row that cannot, and at the end of the batch.
        ends = np.append(np.flatnonzero(~is_usable), len(batch))
        row = 0
        while row < len(batch):
            end = int(ends[np.searchsorted(ends, row)])
            if row == end:
                yield self._unusable(batch.take(slice(row, row + 1)), title)
                row += 1
                continue
            row += self._watch(batch.take(slice(row, end)), title)
            if self.detector.drift_detected:
                alarm = self.detector.alarm
                assert alarm is not None
                self.alarms += 1
                self.unprinted_alarm = alarm.as_dict()
                self.reported = [*self.reported, self.unprinted_alarm][-MOST_REPORTED:]
                yield alarm

    def _watch(self, batch: TableBatch, title: str) -> int:
        """Give rows that can be used to the detector, until an alarm; return how many."""
        course = self.detector.take_until_alarm(*self._encoded(batch, title))
        rows = zip(course.scores.tolist(), course.statistics.tolist(), course.is_learning.tolist(), strict=True)
        for row, (score, evidence, is_learning) in enumerate(rows, start=self.rows + 1):
            self.history.add(row, score, evidence, is_learning)
        self.rows += len(course.scores)
        return len(course.scores)

    def _unusable(self, row: TableBatch, title: str) -> Unusable:
        """Take in a row (1,) that cannot be used, and say why: a gap, a cell that cannot be read, or a label."""
        # 1. A gap.
        gap = next((name for name, cells in zip(self.names, row.columns, strict=True) if cells.gaps[0]), None)
        if gap is not None:
            self.gaps += 1
            return self._pass_over(
                Gap(f"it has a missing value in {gap!r}. With --drop-missing such rows are dropped silently.")
            )
        # 2. A cell that is none of numbers, or of dates.
        try:
            x, y = self._encoded(row, title)
        except DataError as error:
            self.bad += 1
            return self._pass_over(error)
        # 3. A label that the reference does not have; the detector counts those.
        self.rows += 1
        self.detector.take_until_alarm(x, y)
        unseen = (pair for pair in zip(self.columns, row.columns, strict=True) if not pair[0].fits(pair[1])[0])
        column, cells = next(unseen)
        return Unusable(
            DataError(f"{column.name!r} is {cells.labels()[0]!r}, a label that the reference does not have.")
        )

    def _pass_over(self, error: DataError) -> Unusable:
        """Count a row without values, and have the detector count it as a gap."""
        self.rows += 1
        self.detector.take_until_alarm(np.full((1, len(self.x)), np.nan), np.full((1, len(self.y)), np.nan))
        return Unusable(error)

    def _encoded(self, batch: TableBatch, title: str) -> tuple[FloatArray, FloatArray]:
        """Return x (n, d_x) and y (n, d_y) of rows without gaps as numbers and codes."""
        encoded = []
        for column, of_detector, cells in zip(self.columns, self.detector.columns, batch.columns, strict=True):
            # Codes are those of the detector; it takes dates for the numbers that they are here.
            coding = of_detector if column.is_category else column
            encoded.append(coding.encode(cells, title))  # (n,)
        rows = np.column_stack(encoded)
        return rows[:, : len(self.x)], rows[:, len(self.x) :]

    def to_bytes(self) -> bytes:
        """Return everything as an npz file with a checksum."""
        counts = {name: getattr(self, name) for name in (*_COUNTS, "unprinted_alarm", "reported")}
        about = np.array(json.dumps({"settings": self.about, **counts}))
        arrays: dict[str, Any] = {"about": about, "stream_history": self.history.table(), **self.detector.state_dict()}
        content = io.BytesIO()
        np.savez(content, **arrays)
        return sealed(content.getvalue())

    @classmethod
    def from_bytes(cls, content: bytes, reference: Reference, path: Path) -> Watcher:
        """Undo `to_bytes`; an error if the content is damaged, or was made with other settings."""
        try:
            with np.load(io.BytesIO(unsealed(content)), allow_pickle=False) as stored:
                state = {name: stored[name] for name in stored.files}
            about = json.loads(str(state.pop("about").item()))
            differing = _differences(about["settings"], reference.about)
            watcher = cls(ConditionalDriftDetector.from_state_dict(state), reference)
            for name in _COUNTS:
                setattr(watcher, name, int(about[name]))
            watcher.unprinted_alarm, watcher.reported = about["unprinted_alarm"], list(about["reported"])
            watcher.history = StreamHistory.from_table(state["stream_history"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile) as error:
            raise DataError(
                f"`--state` {path} must be a complete state that condcs watch wrote: {error}. "
                "Name another --state, or delete it."
            ) from error
        if differing:
            raise DataError(
                f"`--state` {path} must have been made with the same reference and settings, but they differ: "
                f"{'; '.join(differing)}. Name another --state, or delete it to start again."
            )
        return watcher


class StateFile:
    """The state on disk: locked, replaced as a whole, and never much older than the watcher.

    Rows are taken in under `taking_in`, so that no state is written in the middle of one.
    """

    def __init__(self, path: Path, watcher: Watcher) -> None:
        self._path, self._watcher = path, watcher
        self._unsaved, self._saved_at = 0, time.monotonic()
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._error: CondcsError | None = None
        # A thread, because rows may stop coming: the last ones would then never get old enough.
        self._thread = threading.Thread(target=self._save_in_time, daemon=True)

    def __enter__(self) -> StateFile:
        self.save()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._closing.set()
        self._thread.join()
        # Any other error may have come in the middle of a row.
        if kind is None or issubclass(kind, CondcsError | Stopped | OutputClosed):
            self.save()

    @contextmanager
    def taking_in(self, n_rows: int) -> Iterator[None]:
        """Take in so many rows within a ``with`` block: no state is written meanwhile."""
        with self._lock:
            yield
            self._unsaved += n_rows
            if self._unsaved >= SAVED_ROWS:
                self._write()
        if self._error is not None:
            raise self._error

    def save(self) -> None:
        """Write the state."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        with writing(f"`--state` {self._path}"), atomic_write(self._path) as file:
            file.write(self._watcher.to_bytes())
        self._unsaved, self._saved_at = 0, time.monotonic()

    def _save_in_time(self) -> None:
        while not self._closing.wait(SAVED_SECONDS / 5):
            with self._lock:
                if self._unsaved and time.monotonic() - self._saved_at >= SAVED_SECONDS:
                    try:
                        self._write()
                    except CondcsError as error:
                        self._error = error
                        return


def read_reference_file(path: str, options: ReadOptions, *, run_length: float, after_alarm: AfterAlarm) -> Reference:
    """Read the reference, and describe what a detector on it depends on."""
    check_paths([path], options)
    with open_table(path, options) as table:
        x, y = choose_x_and_y(options.x, options.y, table.names, table.title)
        sample = read_sample(table, [*x, *y], options, 0)
        title = table.title
    columns, _ = tell_columns([*x, *y], [(table, sample)], options, responses=dict.fromkeys(y, "y"))
    inputs, responses = tuple(columns[: len(x)]), tuple(columns[len(x) :])
    values = _values_by_column(columns, sample.rows, title)
    digest = hashlib.sha256()
    for column in columns:
        content = [*column.description, column.decimal, values[column.name]]
        digest.update(json.dumps(content).encode())
    about = {
        "x": ", ".join(f"{c.name} ({c.kind})" for c in inputs),
        "y": ", ".join(f"{c.name} ({c.kind})" for c in responses),
        "run_length": run_length,
        "after_alarm": after_alarm,
        "seed": options.seed,
        "rows": len(sample.rows),
        "sampled": len(sample.rows) < sample.seen - sample.gaps,
        "title": title,
        "hash": digest.hexdigest()[:16],
    }
    return Reference(inputs, responses, values, about)


def new_watcher(reference: Reference) -> Watcher:
    """Make a detector on the reference."""
    columns = (*reference.x, *reference.y)
    detector = ConditionalDriftDetector(
        {column.name: reference.table[column.name] for column in reference.x},
        {column.name: reference.table[column.name] for column in reference.y},
        expected_run_length=reference.about["run_length"],
        after_alarm=reference.about["after_alarm"],
        category=[column.name for column in columns if column.is_category],
        rng=reference.about["seed"],
    )
    return Watcher(detector, reference)


def _values_by_column(columns: Sequence[Column], rows: Sequence[TableRow], title: str) -> dict[str, Any]:
    """Return the columns of some rows of cells: numbers, days since 1970, and labels as text."""
    values: dict[str, Any] = {}
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        if column.is_category:
            values[column.name] = [label_of(cell) for cell in cells]
        else:
            values[column.name] = column.encode(cells, title).tolist()
    return values


def _differences(stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """Say which settings differ, with both values."""
    differences = [
        f"{named(name)}: stored {stored[name]}, asked {asked[name]}" for name in SETTINGS if stored[name] != asked[name]
    ]
    # Other columns make other rows.
    if stored["hash"] != asked["hash"] and (stored["x"], stored["y"]) == (asked["x"], asked["y"]):
        values = (f"{about['rows']:,} rows of {about['title']} ({about['hash']})" for about in (stored, asked))
        differences.append("the reference: stored {}, asked {}".format(*values))
    return differences


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
        if self._bad <= MOST_NAMED:
            self.say(f"Row {row:,} of standard input is dropped: {why}", "yellow")
        elif self._bad == MOST_NAMED + 1:
            self.say("Further rows that cannot be used are only counted.", "yellow")


def run(
    path: str,
    options: ReadOptions,
    *,
    run_length: float,
    after_alarm: AfterAlarm = "learn",
    state: Path | None,
    report: Path | None = None,
    command: str = "",
    as_machine: bool,
    stream_format: Format | None,
) -> None:
    """Watch standard input with the reference in a file; end with an exit code.

    That is 1 if there was an alarm, 0 if not, 2 on errors, and 128 plus its number by a signal. Where a file could not
    be written, 4 is added to 0 or 1, also if that was the state in the middle of the stream, which ends the watch.
    """
    notes = Notes()
    with Stops() as stops:
        watcher: Watcher | None = None
        has_read_all, all_written = False, True
        try:
            check_positive("run_length", run_length, 10_000)
            for option, file in (("--report", report), ("--state", state)):
                if file is not None:
                    check_file(option, file)
            with stops.waiting():
                reference = read_reference_file(path, options, run_length=run_length, after_alarm=after_alarm)
            with ExitStack() as stack:
                watcher, state_file = _resume_or_learn(reference, state, stops, notes, stack)
                # A stream is no database, whatever the reference is.
                live = replace(options, format=stream_format, table=None, sql=None)
                _watch_input(watcher, state_file, live, stops, as_machine, notes)
                has_read_all = True
                notes.say(_account(watcher))
        except WriteError as error:
            if watcher is None:
                raise
            # The alarms so far are the answer.
            tell_unwritten(error, str(error))
            if not has_read_all:
                notes.say(_account(watcher))
            all_written = False
        except Stopped:
            where = f"; the state is in {state}, and the same command resumes from there" if state is not None else ""
            notes.say(f"Stopped{where}.", "yellow")
            raise typer.Exit(SIGNALLED + stops.caught) from None
        except OutputClosed:
            raise typer.Exit(OUTPUT_CLOSED) from None
        finally:
            # After an error or a signal, too; that then decides the exit code.
            if watcher is not None and report is not None:
                all_written &= write_files([OutputFile(report, _report_writer(watcher, command))])
    assert watcher is not None  # else an error has ended it
    code = CHANGED if watcher.alarms else 0
    if not all_written:
        code = with_unwritten(code)
    if code:
        raise typer.Exit(code)


def _report_writer(watcher: Watcher, command: str) -> Callable[[Path], object]:
    """Return what makes the page and writes it to a path."""

    def write_page(path: Path) -> None:
        page = watch_page(
            watcher.about,
            [Alarm.from_dict(alarm) for alarm in watcher.reported],
            watcher.history,
            _account(watcher),
            watcher.detector.notes,
            command,
        )
        page.write(path)

    return write_page


def _account(watcher: Watcher) -> str:
    """Say what became of the rows."""
    counts = watcher.detector.counts
    unseen, outside, learned = (counts[name] for name in ("unseen labels", "outside", "learned"))
    parts = [f"{watcher.gaps:,} with missing values"] if watcher.gaps else []
    parts += [f"{watcher.bad:,} that could not be read"] if watcher.bad else []
    parts += [f"{unseen:,} with labels that the reference does not have"] if unseen else []
    if len(parts) > 1:
        parts = [", ".join(parts[:-1]), parts[-1]]
    dropped = f", {' and '.join(parts)} dropped" if parts else ""
    unwatched = [f"{counted(outside, 'row')} with inputs unlike those of the reference"] if outside else []
    unwatched += [f"{counted(learned, 'row')} from which a new reference was learned after an alarm"] if learned else []
    others = f" Not watched: {' and '.join(unwatched)}." if unwatched else ""
    return f"{counted(watcher.rows, 'row')}{dropped}, {counted(watcher.alarms, 'alarm')}.{others}"


def _resume_or_learn(
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


def _watch_input(
    watcher: Watcher,
    state_file: StateFile | None,
    options: ReadOptions,
    stops: Stops,
    as_machine: bool,
    notes: Notes,
) -> None:
    """Take in all rows of standard input, in the format and encoding that the options say."""
    _print_alarm(watcher, as_machine)
    n_earlier, n_left_out = watcher.rows, 0
    with ExitStack() as stack:
        with stops.waiting():
            # A wrong byte is a matter of one row, not the end of a watch.
            table = stack.enter_context(open_table("-", options, live=True))
        for batch in _batches(table, watcher.names, stops):
            n_rows = 1 if isinstance(batch, RowError) else len(batch)
            with nullcontext() if state_file is None else state_file.taking_in(n_rows):
                for event in watcher.see(batch, table.title):
                    if isinstance(event, Alarm):
                        _print_alarm(watcher, as_machine)
                        continue
                    n_left_out += 1
                    if not (isinstance(event.error, Gap) and options.missing == "drop"):
                        notes.left_out(watcher.rows - n_earlier, event.error.message)
    n_seen = watcher.rows - n_earlier
    if n_seen and n_left_out == n_seen and notes.first_bad:
        raise DataError(f"standard input must have rows that can be used, got none in {n_seen:,}. {notes.first_bad}")


def _batches(table: Table, names: list[str], stops: Stops) -> Iterator[TableBatch | RowError]:
    """Yield rows as they come, many at a time if many are there, and the error of a row that cannot be read."""
    missing = [name for name in names if name not in table.names]
    if missing:
        lacking = ", ".join(map(repr, missing))
        unreadable = any("\ufffd" in name or "\0" in name for name in table.names)
        hint = " Its header is not text in the encoding expected: name it with --encoding." if unreadable else ""
        raise DataError(f"standard input must have the columns of the reference, but lacks {lacking}.{hint}")
    indices = [table.names.index(name) for name in names]
    batches = table.batches(indices, SAVED_ROWS)
    while True:
        try:
            with stops.waiting():
                batch = next(batches, None)
        except RowError as error:
            yield error
            batches = table.batches(indices, SAVED_ROWS)
            continue
        if batch is None:
            return
        # Sources of typed rows have batches of their own length.
        yield from batch.parts(SAVED_ROWS)


def _print_alarm(watcher: Watcher, as_machine: bool) -> None:
    """Print the alarm that has not been printed yet, if there is one; a state says so until it has been."""
    if watcher.unprinted_alarm is None:
        return
    try:
        # Within the block: rich writes too, if only nothing.
        sys.stdout.write(
            json.dumps(watcher.unprinted_alarm) + "\n" if as_machine else _sentence(watcher.unprinted_alarm)
        )
        sys.stdout.flush()
    except OSError as error:
        abandon_output()
        if isinstance(error, BrokenPipeError):
            raise OutputClosed from None
        raise CondcsError(
            f"standard output could not be written: {error.strerror or error}. Make room for it, or send it somewhere "
            "else."
        ) from error
    watcher.unprinted_alarm = None


def _sentence(alarm_fields: dict[str, Any]) -> str:
    alarm, console = Alarm.from_dict(alarm_fields), Terminal()
    with console.capture() as capture:
        console.print(f"[bold red]row {alarm.row:,}[/bold red]: {foreign(alarm._change_in_words())}")
    return str(capture.get())
