"""Finished trials on disk: a file that only grows, one JSON line per trial."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from condcs._core.errors import CondcsError
from condcs._core.files import InUseError, WriteError, lock, sealed_line, unsealed_line, writing
from condcs_reproduction.spec import Experiment, Result, Task

REMEDY = "Pass --fresh to start it again, or --out DIR to keep both."


class StoreError(CondcsError):
    """A store of trials cannot be used: another experiment's, damaged, or in use."""


class TrialStore:
    """Results by task, appended as they come; what was stored survives a kill at any moment.

    The first line says which specification the trials belong to, every other line is a trial, and each ends with its
    own checksum. A last line that was cut off by a kill is dropped when the file is opened again; a line that has
    changed otherwise is an error. A trial that finds no space on the disk stays in memory, and is written with the
    next one for which there is space.

    Parameters
    ----------
    path : Path
        The file; made with its folder if absent.
    experiment : Experiment
        Whose trials these are. A file with another fingerprint is refused.
    fresh : bool
        Forget what is stored.

    Attributes
    ----------
    results, seconds : dict
        Result and computing time by task.
    unstored : int
        Number of trials that are in memory alone.
    """

    def __init__(self, path: Path, experiment: Experiment, *, fresh: bool = False) -> None:
        self.path = path
        self.results: dict[str, Result] = {}
        self.seconds: dict[str, float] = {}
        self.unstored = 0
        self._unwritten = b""
        with writing(f"`{path}`"):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Without a buffer: what could not be written would be tried again, in vain, when the file is closed.
            self._file = path.open("ab+", buffering=0)
        try:
            lock(self._file)
            if fresh:
                self._file.truncate(0)
            self._load(experiment)
        except InUseError:
            self._file.close()
            raise StoreError(
                f"{self.path} is in use by another run. Wait for it, or pass --out DIR to keep both."
            ) from None
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> TrialStore:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __contains__(self, task: Task) -> bool:
        return task.key in self.results

    def append(self, task: Task, result: Result, seconds: float) -> None:
        """Store one finished trial; when this returns, it is on the disk, and after a `WriteError` in memory."""
        line = sealed_line({"trial": task.key, "seconds": round(seconds, 4), "result": result})
        # Read back what is written: a resumed run sees the same numbers as one that never stopped.
        self.results[task.key], self.seconds[task.key] = json.loads(line)["result"], seconds
        self.unstored += 1
        self._unwritten += line
        self._write()
        self.unstored = 0

    def _write(self) -> None:
        """Write what is not written yet."""
        with writing(f"`{self.path}`"):
            # A disk that is nearly full takes a part of it; the next trial goes on where it stopped.
            while self._unwritten:
                self._unwritten = self._unwritten[self._file.write(self._unwritten) :]
            os.fsync(self._file.fileno())

    def _load(self, experiment: Experiment) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with writing(f"`{self.path}`"):
                self._file.truncate(whole)
        lines = content[:whole].split(b"\n")[:-1]
        if not lines:
            header = {"fingerprint": experiment.fingerprint(), "specification": experiment.description()}
            self._unwritten = sealed_line(header)
            # Without space it is written, or its error raised, with the first trial.
            with suppress(WriteError):
                self._write()
            return
        self._check_header(unsealed_line(lines[0]), experiment)
        for number, line in enumerate(lines[1:], start=2):
            record = unsealed_line(line)
            if record is None:
                raise StoreError(
                    f"{self.path} is damaged at line {number}: its checksum is missing or wrong. Delete the line to "
                    f"run that trial again. {REMEDY}"
                )
            self.results[record["trial"]], self.seconds[record["trial"]] = record["result"], record["seconds"]

    def _check_header(self, header: dict[str, Any] | None, experiment: Experiment) -> None:
        if header is None or "fingerprint" not in header:
            raise StoreError(
                f"{self.path} is not a store of trials: its first line must name the experiment and have a checksum, "
                f"but does not, or not any more. {REMEDY}"
            )
        if header["fingerprint"] != experiment.fingerprint():
            changed = _differences(header.get("specification", {}), experiment.description())
            raise StoreError(
                f"{self.path} holds trials of another specification ({changed}); results of the two must not be mixed. "
                f"{REMEDY}"
            )


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
