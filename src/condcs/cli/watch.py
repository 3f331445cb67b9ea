"""``condcs watch``: rows from standard input, and a word when their relation leaves that of the reference."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import typer

from condcs.cli.boundary import CHANGED, INTERRUPTED
from condcs.cli.tables.missing import is_missing
from condcs.cli.tables.one_hot import LABEL_WIDTH, OneHot
from condcs.cli.tables.pair import ReadOptions, read_sample, tell_columns
from condcs.cli.tables.selection import choose_x_and_y
from condcs.cli.tables.sources import open_table
from condcs.cli.terminal import Terminal, foreign
from condcs.core.errors import CondcsError, DataError
from condcs.drift import ConditionalDriftDetector


class Watcher:
    """A detector together with the columns it reads."""

    def __init__(self, detector: ConditionalDriftDetector, x: OneHot, y: OneHot) -> None:
        self.detector, self.x, self.y = detector, x, y
        self.rows = self.gaps = self.alarms = 0

    @property
    def names(self) -> list[str]:
        """Columns of x, then of y."""
        return [c.name for c in (*self.x.columns, *self.y.columns)]

    def see(self, row: Any, title: str) -> bool:
        """Take in a row of cells; returns whether it raised an alarm."""
        self.rows += 1
        if any(map(is_missing, row)):
            self.gaps += 1
            return False
        split = len(self.x.columns)
        x, y = self.x.encode([row[:split]], title), self.y.encode([row[split:]], title)
        alarm = self.detector.update(x[0], y[0]).drift_detected
        self.alarms += alarm
        return alarm

    def save(self, path: Path) -> None:
        """Write everything to a file that `open_watcher` continues from."""
        about: dict[str, Any] = {"x": self.x.describe(), "y": self.y.describe()}
        about |= {"rows": self.rows, "gaps": self.gaps, "alarms": self.alarms}
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            try:
                with part.open("wb") as file:
                    arrays: dict[str, Any] = {"about": np.array(json.dumps(about)), **self.detector.state_dict()}
                    np.savez(file, **arrays)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise CondcsError(
                f"`--state` {path} could not be written: {error.strerror or error}. Name another place."
            ) from error


def open_watcher(path: Path) -> Watcher:
    """Continue from a saved state."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            state = {name: stored[name] for name in stored.files}
        about = json.loads(str(state.pop("about").item()))
        watcher = Watcher(
            ConditionalDriftDetector.load(state),
            OneHot.from_description(about["x"]),
            OneHot.from_description(about["y"]),
        )
        watcher.rows, watcher.gaps, watcher.alarms = (int(about[name]) for name in ("rows", "gaps", "alarms"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"`--state` {path} must be a state that condcs watch wrote, got something else ({error}). Remove it."
        ) from error
    return watcher


def new_watcher(reference: str, options: ReadOptions, *, window: int, run_length: float) -> Watcher:
    """Read the reference and calibrate a detector on it."""
    with options.open(reference) as table:
        x, y = choose_x_and_y(options.x, options.y, table.names, table.title)
        sample = read_sample(table, [*x, *y], options, 0)
        title = table.title
    columns = tell_columns([*x, *y], [(table, sample)], options, responses=set(y))
    inputs, responses = OneHot(tuple(columns[: len(x)])), OneHot(tuple(columns[len(x) :]))
    detector = ConditionalDriftDetector(
        inputs.encode([row[: len(x)] for row in sample.rows], title),
        responses.encode([row[len(x) :] for row in sample.rows], title),
        window=window,
        expected_run_length=run_length,
        bandwidth_y=LABEL_WIDTH if responses.all_labels else "median",
        rng=options.seed,
    )
    return Watcher(detector, inputs, responses)


def run(
    reference: str,
    options: ReadOptions,
    *,
    window: int,
    run_length: float,
    state: Path | None,
    as_machine: bool,
    form: str | None,
) -> None:
    """Watch standard input; ends with 1 if there was an alarm, 0 if not, 2 on errors."""
    console, errors = Terminal(), Terminal(stderr=True)
    watcher: Watcher | None = None
    try:
        if state is not None and state.exists():
            watcher = open_watcher(state)
            errors.print(f"[dim]Going on after row {watcher.rows:,}.[/dim]")
        else:
            errors.print("[dim]Calibrating on the reference ...[/dim]")
            watcher = new_watcher(reference, options, window=window, run_length=run_length)
        with open_table("-", form=form, encoding=options.encoding, missing=options.missing) as table:
            missing = [name for name in watcher.names if name not in table.names]
            if missing:
                raise DataError(f"standard input must have the columns of the reference, but lacks {missing[0]!r}.")
            places = [table.names.index(name) for name in watcher.names]
            for batch in table.batches(places, 1):
                if watcher.see(batch[0], table.title):
                    _tell(watcher, console, as_machine)
                if watcher.gaps and not options.drop_missing:
                    raise DataError(
                        f"standard input must have no gaps in the columns watched, got one in row {watcher.rows}. "
                        "Leave such rows out with --drop-missing."
                    )
        if state is not None:
            watcher.save(state)
    except KeyboardInterrupt:
        words = "Stopped."
        if watcher is not None and state is not None:
            watcher.save(state)
            words = f"Stopped; the state is in {state}, and the same command goes on from there."
        errors.print(f"[yellow]{foreign(words)}[/yellow]", soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    left = f", {watcher.gaps:,} with gaps left out" if watcher.gaps else ""
    errors.print(f"[dim]{watcher.rows:,} rows{left}, {watcher.alarms:,} alarms.[/dim]")
    if watcher.alarms:
        raise typer.Exit(CHANGED)


def _tell(watcher: Watcher, console: Terminal, as_machine: bool) -> None:
    detector = watcher.detector
    if as_machine:
        found = {
            "row": watcher.rows,
            "statistic": detector.statistic,
            "threshold": detector.threshold,
            "outside": detector.n_outside,
        }
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
    else:
        count = detector.n_outside
        outside = f"; {count} of them with inputs outside its range" if count else ""
        console.print(
            f"[bold red]row {watcher.rows:,}[/bold red]: the relation of the last {detector.window} rows has left that "
            f"of the reference ({detector.statistic:.3g} > {detector.threshold:.3g}){outside}",
            highlight=False,
        )
