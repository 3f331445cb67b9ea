"""``condcs warm-up``: every command once, on small made-up data, so that numba's cache holds their loops."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import numpy as np

from condcs._core.errors import CondcsError
from condcs.cli.boundary import CHANGED
from condcs.cli.terminal import Terminal

_ROWS = 1_000
"""Rows of each table: numpy's exponentials serve for a few hundred, and only more are visited by compiled loops."""

_REGIONS = ("north", "south", "west")

_SHIFT = 2.0
"""How far y moves, in its standard deviations: far enough for a change, and an alarm, to be explained."""

_SERIES, _VALUES = 8, 160
"""Series, and values of each: as many as the choices that `cluster` and `causal` make by themselves ask for."""

ENTRY = "import sys; sys.argv[0] = 'condcs'; from condcs.cli.app import app; app()"
"""What a process runs as the command line, with its arguments after it."""


def run() -> None:
    """Run each command in a process of its own, and print the seconds that it took."""
    console = Terminal()
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        for arguments, input_file in calls():
            start = monotonic()
            with Terminal(stderr=True).working(f"condcs {arguments[0]} ..."):
                _call(arguments, folder, input_file)
            console.print(f"condcs {arguments[0]:<9}{monotonic() - start:6.1f} s")
    console.print("No first call has to compile loops now.")


def calls() -> list[tuple[list[str], str | None]]:
    """Return the arguments of each command, and the file that it reads from standard input."""
    page = ["--report", "page.html"]
    return [
        (["compare", "before.csv", "after.csv", "--y", "y", *page], None),
        (["watch", "before.csv", "--y", "y", *page], "after.csv"),
        (["cluster", "series.csv", "--k", "2", "--out", "clusters"], None),
        (["causal", "series.csv", "--out", "page.html"], None),
        (["explore", "mountain-car", "--seeds", "1", "--steps", "200", "--out", "page.html"], None),
    ]


def _call(arguments: list[str], folder: Path, input_file: str | None) -> None:
    """Run a command without a word; whether it finds a change does not matter here."""
    content = (folder / input_file).read_bytes() if input_file is not None else b""
    done = subprocess.run(
        [sys.executable, "-c", ENTRY, *arguments], input=content, capture_output=True, cwd=folder, check=False
    )
    if done.returncode not in (0, CHANGED):
        raise CondcsError(f"condcs {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}")


def write_data(folder: Path) -> None:
    """Write two tables with another relation of y to x in the second, and series."""
    rng = np.random.default_rng(0)
    for name, shift in (("before.csv", 0.0), ("after.csv", _SHIFT)):
        x = rng.normal(size=(_ROWS, 2))
        region = rng.integers(len(_REGIONS), size=_ROWS)
        y = x[:, 0] + region + shift + rng.normal(size=_ROWS)
        rows = zip(x[:, 0].tolist(), x[:, 1].tolist(), (_REGIONS[r] for r in region), y.tolist(), strict=True)
        _write_csv(folder / name, ["a", "b", "region", "y"], rows)
    series = rng.normal(size=(_VALUES, _SERIES))
    _write_csv(folder / "series.csv", [f"s{number}" for number in range(_SERIES)], series.tolist())


def _write_csv(path: Path, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
