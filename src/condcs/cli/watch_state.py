"""What ``condcs watch`` has seen, and how it is kept on disk."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from zipfile import BadZipFile

import numpy as np

from condcs._core.errors import CondcsError, DataError
from condcs._core.files import atomic_write, sealed, unsealed, writing
from condcs._tables.kinds import Column, is_missing, label_of
from condcs._tables.pair import ReadOptions, choose_x_and_y, read_sample, tell_columns
from condcs._tables.sources import Row, RowError, open_table
from condcs.cli.signals import OutputClosed, Stopped
from condcs.drift import AfterAlarm, ConditionalDriftDetector
from condcs.report._watch_page import StreamHistory

SAVED_ROWS, SAVED_SECONDS = 1000, 5.0
"""The state on disk is at most this old."""

OPTIONS = {name: f"--{name.replace('_', '-')}" for name in ("x", "y", "run_length", "after_alarm", "seed", "encoding")}
OPTIONS |= {"format": "--format", "gaps": "--gaps"}
"""Arguments as options of the command."""

MOST_TOLD = 100
"""Alarms that are kept for the report."""

_COUNTS = ("rows", "gaps", "bad", "alarms", "untold", "told")


@dataclass(frozen=True)
class Reference:
    """The reference, and the settings that a state must have been made with.

    Attributes
    ----------
    x, y : tuple of Column
        Columns.
    table_x, table_y : dict
        Their values by name: numbers, and labels as text.
    about : dict
        Plain JSON values: columns and kinds, run length, what follows an alarm, seed, and a hash of the rows.
    """

    x: tuple[Column, ...]
    y: tuple[Column, ...]
    table_x: dict[str, Any]
    table_y: dict[str, Any]
    about: dict[str, Any]


class Gap(DataError):
    """A row has a missing value in a column that is watched."""


class Watcher:
    """A detector together with the columns it reads, and an account of what became of the rows."""

    def __init__(self, detector: ConditionalDriftDetector, reference: Reference) -> None:
        self.detector, self.x, self.y, self.about = detector, reference.x, reference.y, reference.about
        self.rows = self.gaps = self.bad = self.alarms = 0
        self.untold: dict[str, Any] | None = None
        self.told: list[dict[str, Any]] = []
        self.history = StreamHistory()

    @property
    def names(self) -> list[str]:
        """Columns of x, then of y."""
        return [c.name for c in (*self.x, *self.y)]

    def see(self, row: Row | RowError, title: str) -> None:
        """Take in a row of cells and note an alarm; an error, counted, if the row cannot be used."""
        self.rows += 1
        if isinstance(row, RowError):
            self.bad += 1
            raise row
        gap = next((name for name, cell in zip(self.names, row, strict=True) if is_missing(cell)), None)
        if gap is not None:
            self.gaps += 1
            raise Gap(f"it has a missing value in {gap!r}. With --drop-missing such rows are dropped silently.")
        split = len(self.x)
        try:
            x, y = _values(self.x, [row[:split]], title), _values(self.y, [row[split:]], title)
        except DataError:
            self.bad += 1
            raise
        self.detector.update({n: v[0] for n, v in x.items()}, {n: v[0] for n, v in y.items()})
        alarm = self.detector.alarm if self.detector.drift_detected else None
        statistic = self.detector.statistic if alarm is None else alarm.statistic
        self.history.add(self.rows, self.detector.score, statistic, self.detector.is_learning)
        if alarm is not None:
            self.alarms += 1
            # The detector has not seen the rows that could not be used.
            behind = self.rows - alarm.row
            found = alarm.as_dict()
            found |= {"row": self.rows, "since": found["since"] + behind}
            found["since_range"] = [row + behind for row in found["since_range"]]
            self.untold = found
            self.told = [*self.told, found][-MOST_TOLD:]

    def to_bytes(self) -> bytes:
        """Return everything as an npz file with a checksum."""
        counts = {name: getattr(self, name) for name in _COUNTS}
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
            watcher.rows, watcher.gaps, watcher.bad, watcher.alarms = (
                int(about[name]) for name in ("rows", "gaps", "bad", "alarms")
            )
            watcher.untold, watcher.told = about["untold"], list(about["told"])
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

    Rows are taken in under `between_rows`, so that no state is written in the middle of one.

    Parameters
    ----------
    path : Path
        The file.
    watcher : Watcher
        Whose state it is.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()
        # Any other error may have come in the middle of a row.
        if kind is None or issubclass(kind, CondcsError | Stopped | OutputClosed):
            self.save()

    @contextmanager
    def between_rows(self) -> Iterator[None]:
        """Keep the state from being written within a ``with`` block, and count a row more."""
        with self._lock:
            yield
            self._unsaved += 1
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


def read_reference(path: str, options: ReadOptions, *, run_length: float, after_alarm: AfterAlarm) -> Reference:
    """Read the reference, and describe what a detector on it depends on."""
    with open_table(path, options.files) as table:
        x, y = choose_x_and_y(options.x, options.y, table.names, table.title)
        sample = read_sample(table, [*x, *y], options, 0)
        title = table.title
    columns = tell_columns([*x, *y], [(table, sample)], options, responses=set(y))
    inputs, responses = tuple(columns[: len(x)]), tuple(columns[len(x) :])
    tables = [
        _values(inputs, [row[: len(x)] for row in sample.rows], title),
        _values(responses, [row[len(x) :] for row in sample.rows], title),
    ]
    digest = hashlib.sha256()
    for column in columns:
        digest.update(json.dumps([column.name, column.kind, list(column.labels), column.decimal]).encode())
    for part in tables:
        digest.update(json.dumps({name: list(values) for name, values in part.items()}).encode())
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
    return Reference(inputs, responses, tables[0], tables[1], about)


def new_watcher(reference: Reference) -> Watcher:
    """Make a detector on the reference."""
    detector = ConditionalDriftDetector(
        reference.table_x,
        reference.table_y,
        expected_run_length=reference.about["run_length"],
        after_alarm=reference.about["after_alarm"],
        category=[column.name for column in (*reference.x, *reference.y) if column.is_category],
        rng=reference.about["seed"],
    )
    return Watcher(detector, reference)


def _values(columns: tuple[Column, ...], rows: list[Any], title: str) -> dict[str, Any]:
    """Return the columns of some rows of cells: numbers, days since 1970, and labels as text."""
    cells = zip(*rows, strict=True)
    return {
        column.name: [label_of(cell) for cell in own] if column.is_category else column.encode(own, title).tolist()
        for column, own in zip(columns, cells, strict=True)
    }


def _differences(stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """Say which settings differ, with both values."""
    found = [
        f"{option}: stored {stored[name]}, asked {asked[name]}"
        for name, option in OPTIONS.items()
        if name in stored and stored[name] != asked[name]
    ]
    # Other columns make other rows.
    if stored["hash"] != asked["hash"] and (stored["x"], stored["y"]) == (asked["x"], asked["y"]):
        values = (f"{about['rows']:,} rows of {about['title']} ({about['hash']})" for about in (stored, asked))
        found.append("the reference: stored {}, asked {}".format(*values))
    return found
