"""Run the paper's experiments: progress while they run, ours beside the paper's when they are done."""

from __future__ import annotations

import io
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from condcs._core.files import WriteError
from condcs.cli.boundary import check_folder, tell_stop, tell_unwritten
from condcs.cli.output_files import OutputFile, answer_then_write, in_folder
from condcs.cli.terminal import Terminal, foreign
from condcs.report._page import write_whole
from condcs_reproduction.index_page import Done
from condcs_reproduction.known_experiments import experiment_named, experiment_names
from condcs_reproduction.report import QUICK_NOTE, Report
from condcs_reproduction.runner import TRIALS_FILE, Interrupted, run
from condcs_reproduction.spec import Experiment, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {"figure": "fig", "table": "table"}
"""What experiments can be asked for together, and how their names begin."""


def kind_named(name: str) -> str | None:
    """Return how the names of a kind of experiments begin ("figure", "Tables", "fig"), None for anything else."""
    word = name.strip().lower().removesuffix("s")
    return KINDS.get(word, word if word in KINDS.values() else None)


def list_experiments(beginning: str = "") -> None:
    """Print the names of the experiments that begin so, and what they reproduce."""
    table = Table(box=None, pad_edge=False)
    table.add_column("name", style="cyan")
    table.add_column("reproduces")
    table.add_column("trials", justify="right")
    for name in (name for name in experiment_names() if name.startswith(beginning)):
        experiment = experiment_named(name)
        count = len(experiment.tasks(experiment.parameters, experiment.repeats))
        table.add_row(name, experiment.reproduces, str(count))
    console = Terminal()
    console.print(console.fitted(table))
    console.print(
        "\nRun one with [bold]condcs reproduce NAME[/bold]; add --quick for a small version without verdicts (at most "
        "half a minute of a free core, and as much again where code is compiled for the first time)."
    )


@dataclass(frozen=True)
class Options:
    """How experiments are run: the options of the command."""

    quick: bool
    trials: int | None
    jobs: int | None
    out: Path
    fresh: bool
    only: Sequence[str]


def reproduce_one(name: str, options: Options) -> None:
    """Run an experiment, print its tables and write its files."""
    start = time.perf_counter()
    check_folder("--out", options.out)
    try:
        done = run_one(name, options)
    except Interrupted as stopped:
        tell_stop(str(stopped))

    def answer() -> None:
        console, report = Terminal(), done.report
        if options.quick:
            console.print(f"\n[yellow]{QUICK_NOTE}[/yellow]")
        console.print(f"\n[bold]{foreign(report.title)}[/bold]\n{foreign(done.experiment.reproduces)}\n")
        for table in report.to_rich():
            console.print(console.fitted(table))
            console.print()
        console.print(report.conclusion(), markup=False)
        for note in (n for n in report.notes if n != QUICK_NOTE):
            console.print(f"[dim]- {foreign(note)}[/dim]")
        spent = f"{time.perf_counter() - start:.0f} s now; {done.seconds:.0f} s of computing in all stored trials"
        console.print(f"\n{spent}.\n")

    answer_then_write(answer, files_of(done))


def run_one(name: str, options: Options) -> Done:
    """Run what is missing of an experiment."""
    experiment = experiment_named(name).version(quick=options.quick, trials=options.trials)
    unstored: WriteError | None = None

    def keep(error: WriteError | None) -> None:
        nonlocal unstored
        if error is not None and unstored is None:
            tell_unwritten(error, f"{error} The run goes on; until there is space, its trials are in memory alone.")
        unstored = error

    with shown_progress(experiment, Terminal(stderr=True)) as tell:
        results, seconds = run(
            experiment,
            options.out,
            jobs=options.jobs,
            fresh=options.fresh,
            only=options.only,
            progress=tell,
            stored=keep,
        )
    report = with_facts(experiment, experiment.summarise(experiment, results), results)
    folder = options.out / experiment.folder_name
    return Done(experiment, results, report, folder, sum(seconds.values()), unstored)


def files_of(done: Done) -> list[OutputFile]:
    """Return the trials if they are not stored, the report as JSON and Markdown and the figure as PNG and SVG."""
    experiment, report = done.experiment, done.report
    command = f"Made by `{command_of(experiment)}` on seed {experiment.seed}."
    drawn = cache(lambda: _drawn(experiment, done.results))
    contents: dict[str, Callable[[], bytes]] = {
        "json": lambda: report.to_json().encode(),
        "md": lambda: f"{report.to_markdown()}\n{command}\n".encode(),
        "png": lambda: _picture(drawn(), "png", dpi=150),
        # No date and no random ids: equal trials give equal files.
        "svg": lambda: _picture(drawn(), "svg", metadata={"Date": None}),
    }
    titles = {"json": "Numbers:", "md": "Tables: ", "png": "Figure: ", "svg": "Figure: "}
    files = []
    if done.unstored is not None:
        files.append(OutputFile(done.folder / TRIALS_FILE, _failing(done.unstored)))
    for ending, content in contents.items():
        path = done.folder / f"{experiment.name}.{ending}"
        files.append(OutputFile(path, _writer(content), f"{titles[ending]} [bold]{foreign(path)}[/bold]"))
    return files


def _failing(error: WriteError) -> Callable[[Path], object]:
    def fail(path: Path) -> None:
        raise error

    return fail


def _writer(content: Callable[[], bytes]) -> Callable[[Path], object]:
    return lambda path: write_whole(in_folder(path), content())


def _drawn(experiment: Experiment, results: Results) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    experiment.draw(experiment, results, figure)
    return figure


def _picture(figure: Figure, form: str, **options: Any) -> bytes:
    import matplotlib

    picture = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "condcs"}):
        figure.savefig(picture, format=form, **options)
    return picture.getvalue()


def command_of(experiment: Experiment) -> str:
    """Return the command that runs this version of an experiment."""
    words = ["condcs", "reproduce", experiment.name, *(["--quick"] if experiment.is_quick else [])]
    return shlex.join([*words, "--trials", str(experiment.repeats)])


def with_facts(experiment: Experiment, report: Report, results: Results) -> Report:
    """Add to a report what it was made from; take the verdicts from that of a quick version."""
    facts = {
        "fingerprint": experiment.fingerprint(),
        "specification": experiment.description(),
        "trials": sum(len(repeats) for repeats in results.values()),
        "command": command_of(experiment),
    }
    if experiment.is_quick:
        report = replace(report.without_verdicts(), notes=[QUICK_NOTE, *report.notes])
    return replace(report, facts={**facts, **report.facts})


@contextmanager
def shown_progress(experiment: Experiment, console: Terminal) -> Iterator[Callable[[int, int, str], None]]:
    """Show a live bar in a terminal, and a line per tenth of the work elsewhere."""
    if not console.is_interactive:
        yield _plain_progress(experiment.name)
        return
    columns = [TextColumn("[cyan]{task.fields[name]}"), BarColumn(None), MofNCompleteColumn()]
    columns += [TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("[dim]{task.fields[case]}")]
    with Progress(*columns, console=console, transient=False) as bar:
        shown = bar.add_task("trials", name=experiment.name, case="", total=None)

        def tell(done: int, total: int, case: str) -> None:
            bar.update(shown, completed=done, total=total, case=case)

        yield tell


def _plain_progress(name: str) -> Callable[[int, int, str], None]:
    said = -1

    def tell(done: int, total: int, case: str) -> None:
        nonlocal said
        tenth = 10 * done // max(1, total)
        if tenth > said:
            said = tenth
            print(f"{name}: {done} of {total} trials", file=sys.stderr, flush=True)

    return tell
