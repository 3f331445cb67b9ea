"""Run every experiment, one after the other, and write one page of them all."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from pathlib import Path

from condcs._core.files import WriteError
from condcs.cli.boundary import FAILED, check_folder, tell_stop
from condcs.cli.output_files import OutputFile, answer_then_write, in_folder, write_files
from condcs.cli.terminal import Terminal, foreign
from condcs_reproduction.data import DatasetError
from condcs_reproduction.index_page import Done, Left, index_page
from condcs_reproduction.known_experiments import experiment_names
from condcs_reproduction.reproduce import Options, files_of, run_one
from condcs_reproduction.runner import Interrupted

INDEX = "index.html"


def reproduce_all(options: Options) -> None:
    """Run what is missing of every experiment; what needs data or packages that are absent is skipped by name.

    Ends with 2 if an experiment failed, though the others were run; Ctrl-C keeps what is done.
    """
    out = options.out
    check_folder("--out", out)
    errors = Terminal(stderr=True)
    start = time.perf_counter()
    outcomes: list[Done | Left] = []
    all_written = True
    try:
        for name in experiment_names():
            outcome = _run_one(name, options)
            outcomes.append(outcome)
            _tell(outcome, errors)
            if isinstance(outcome, Done):
                files = [replace(file, notice="") for file in files_of(outcome)]
                all_written &= write_files(files)
    except Interrupted as stopped:
        tell_stop(str(stopped))
    except KeyboardInterrupt:
        tell_stop("Interrupted. What is done is stored: the same command continues.")
    words = ["condcs", "reproduce", "all", *(["--quick"] if options.quick else [])]
    words += [] if options.trials is None else ["--trials", str(options.trials)]
    left = [o for o in outcomes if isinstance(o, Left)]

    def answer() -> None:
        spent = time.perf_counter() - start
        Terminal().print(f"{len(outcomes) - len(left)} experiments in {spent:.0f} s; {len(left)} left out.")

    def write_page(path: Path) -> None:
        index_page(outcomes, shlex.join(words), quick=options.quick).write(in_folder(path))

    page = OutputFile(out / INDEX, write_page, f"Page: [bold]{foreign(out / INDEX)}[/bold]")
    code = FAILED if any(o.failed for o in left) else 0
    answer_then_write(answer, [page], code=code, earlier_written=all_written)


def _run_one(name: str, options: Options) -> Done | Left:
    try:
        return run_one(name, options)
    except DatasetError as error:
        return Left(name, str(error), failed=False)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] in ("condcs", "condcs_reproduction"):
            return Left(name, str(error), failed=True)
        return Left(name, f"needs the package {error.name!r}, which is not installed", failed=False)
    except (Interrupted, KeyboardInterrupt, WriteError):  # a folder that cannot be made for one cannot be for others
        raise
    except Exception as error:  # one experiment that fails must not cost the others
        return Left(name, f"{type(error).__name__}: {error}", failed=True)


def _tell(outcome: Done | Left, errors: Terminal) -> None:
    if isinstance(outcome, Left):
        word, colour = ("failed", "red") if outcome.failed else ("skipped", "yellow")
        errors.print(f"[{colour}]{outcome.name} {word}: {foreign(outcome.reason)}[/{colour}]")
        return
    agree, judged = outcome.report.agreement()
    without = "run, without verdicts" if outcome.experiment.is_quick else "nothing to compare with"
    verdict = f"{agree} of {judged} {outcome.report.agreement_label()}" if judged else without
    errors.print(f"[green]{outcome.experiment.name}[/green]: {verdict}")
