"""Cold starts: every command and the first calls of a library, with nothing compiled and again with all of it.

Processor time of the whole process, imports included, because that is what somebody waits for.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from condcs.cli.warm_up_command import ENTRY, calls, write_data

_ARRAYS = "import numpy, condcs; rows = numpy.random.default_rng(0).normal(size=(4, 1000, 1)); "

FUNCTIONS = {
    "condcs.conditional_cs": _ARRAYS + "condcs.conditional_cs(*rows)",
    "condcs.conditional_test": _ARRAYS + "condcs.conditional_test(*rows, rng=0)",
    "condcs.compare": "import condcs; condcs.compare('before.csv', 'after.csv', y='y')",
    "import pandas": "import pandas",
}
"""First calls on 1,000 + 1,000 rows, and an import to compare them with."""


@dataclass(frozen=True)
class ColdStart:
    """Processor seconds of a process that finds nothing compiled, and of one that finds everything."""

    name: str
    cold: float
    warm: float

    @property
    def ratio(self) -> float:
        """How many times as long the first call takes."""
        return self.cold / self.warm


def cold_starts() -> Iterator[ColdStart]:
    """Measure them one after the other, with caches of their own."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        for arguments, input_file in calls():
            content = (folder / input_file).read_bytes() if input_file is not None else b""
            yield _measured(f"condcs {arguments[0]}", folder, [ENTRY, *arguments], content)
        for title, code in FUNCTIONS.items():
            yield _measured(title, folder, [code], b"")


def _measured(name: str, folder: Path, code_and_arguments: list[str], content: bytes) -> ColdStart:
    """Run a command twice: its cache is empty, then full."""
    with TemporaryDirectory() as cache:
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        environment = {**os.environ, **one_thread, "NUMBA_CACHE_DIR": cache}
        seconds = []
        for _ in range(2):
            before = _seconds_of_children()
            done = subprocess.run(
                [sys.executable, "-c", *code_and_arguments],
                input=content,
                capture_output=True,
                cwd=folder,
                env=environment,
                check=False,
            )
            if done.returncode not in (0, 1):
                sys.exit(done.stderr.decode(errors="replace"))
            seconds.append(_seconds_of_children() - before)
    return ColdStart(name, *seconds)


def _seconds_of_children() -> float:
    """Return the processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the table."""
    for start in cold_starts():
        print(f"{start.name:<24} cold {start.cold:5.1f} s   warm {start.warm:5.1f} s   ratio {start.ratio:4.1f}")
