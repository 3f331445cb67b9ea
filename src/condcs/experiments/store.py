"""Finished trials on disk: a file that only grows, one JSON line per trial."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from condcs.core.errors import CondcsError
from condcs.experiments.spec import Experiment, Result, Task

REMEDY = "Pass --fresh to start it again, or --out DIR to keep both."


class StoreError(CondcsError):
    """A store of trials cannot be used: another experiment's, damaged, or in use."""


class TrialStore:
    """Results by task, appended as they come; what was stored survives a kill at any moment.

    The first line says which specification the trials belong to, every other line is a trial. A line that was cut off
    by a kill is dropped when the file is opened again.

    Parameters
    ----------
    path : Path
        The file; made with its folder if absent.
    experiment : Experiment
        Whose trials these are. A file with another fingerprint is refused.
    fresh : bool
        Forget what is stored.
    """

    def __init__(self, path: Path, experiment: Experiment, *, fresh: bool = False) -> None:
        self.path = path
        self.results: dict[str, Result] = {}
        self.seconds: dict[str, float] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab+")
        try:
            self._lock()
            if fresh:
                self._file.truncate(0)
            self._load(experiment)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> TrialStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __contains__(self, task: Task) -> bool:
        return task.key in self.results

    def append(self, task: Task, result: Result, seconds: float) -> None:
        """Store one finished trial; when this returns, it is on the disk."""
        line = json.dumps({"trial": task.key, "seconds": round(seconds, 4), "result": result}, allow_nan=False)
        self._write(line)
        # Read back what was written: a resumed run sees the same numbers as one that never stopped.
        self.results[task.key], self.seconds[task.key] = json.loads(line)["result"], seconds

    def _write(self, line: str) -> None:
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _lock(self) -> None:
        # An advisory lock ends with its process, however that dies; a lock file would stay behind.
        with contextlib.suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StoreError(
                    f"{self.path} is in use by another run. Wait for it, or pass --out DIR to keep both."
                ) from None

    def _load(self, experiment: Experiment) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._file.truncate(whole)
        lines = content[:whole].splitlines()
        if not lines:
            header = {"fingerprint": experiment.fingerprint(), "specification": experiment.description()}
            self._write(json.dumps(header))
            return
        self._check_header(_parsed(lines[0]), experiment)
        for number, line in enumerate(lines[1:], start=2):
            record = _parsed(line)
            if record is None or not {"trial", "result", "seconds"} <= record.keys():
                raise StoreError(f"{self.path} is damaged at line {number}. {REMEDY}")
            self.results[record["trial"]], self.seconds[record["trial"]] = record["result"], record["seconds"]

    def _check_header(self, header: dict[str, Any] | None, experiment: Experiment) -> None:
        if header is None or "fingerprint" not in header:
            raise StoreError(f"{self.path} is not a store of trials: its first line names no experiment. {REMEDY}")
        if header["fingerprint"] != experiment.fingerprint():
            changed = _differences(header.get("specification", {}), experiment.description())
            raise StoreError(
                f"{self.path} holds trials of another specification ({changed}); results of the two must not be mixed. "
                f"{REMEDY}"
            )


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _differences(stored: Any, wanted: dict[str, Any], prefix: str = "") -> str:
    """Say in words which entries of two descriptions differ."""
    if not isinstance(stored, dict):
        return "unreadable"
    found = []
    for key in sorted(stored.keys() | wanted.keys()):
        there, here = stored.get(key), wanted.get(key)
        if isinstance(there, dict) and isinstance(here, dict):
            if there != here:
                found.append(_differences(there, here, f"{prefix}{key}."))
        elif there != here:
            found.append(f"{prefix}{key}: stored {there!r}, wanted {here!r}")
    return "; ".join(found) or "its fingerprint differs"
