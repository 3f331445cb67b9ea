"""Run every experiment, one after the other, and write one page of them all."""

from __future__ import annotations

import shlex
import time

import typer

from condcs._core.files import WriteError
from condcs.cli.boundary import FAILED, check_folder, tell_stop
from condcs.cli.terminal import Terminal, foreign
from condcs_reproduction.data import DatasetError
from condcs_reproduction.index_page import Done, Left, index_page
from condcs_reproduction.known_experiments import experiment_names
from condcs_reproduction.reproduce import Options, run_and_write
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
    try:
        for name in experiment_names():
            outcomes.append(_run_one(name, options))
            _tell(outcomes[-1], errors)
        words = ["condcs", "reproduce", "all", *(["--quick"] if options.quick else [])]
        words += [] if options.trials is None else ["--trials", str(options.trials)]
        out.mkdir(exist_ok=True)
        path = index_page(outcomes, shlex.join(words), quick=options.quick).write(out / INDEX)
    except Interrupted as stopped:
        tell_stop(str(stopped))
    except KeyboardInterrupt:
        tell_stop("Interrupted. What is done is stored: the same command continues.")
    left = [o for o in outcomes if isinstance(o, Left)]
    console = Terminal()
    console.print(
        f"{len(outcomes) - len(left)} experiments in {time.perf_counter() - start:.0f} s; {len(left)} left out."
    )
    console.print(f"Page: [bold]{foreign(str(path))}[/bold]", soft_wrap=True)
    if any(o.failed for o in left):
        raise typer.Exit(FAILED)


def _run_one(name: str, options: Options) -> Done | Left:
    try:
        return run_and_write(name, options)
    except DatasetError as error:
        return Left(name, str(error), failed=False)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] in ("condcs", "condcs_reproduction"):
            return Left(name, str(error), failed=True)
        return Left(name, f"needs the package {error.name!r}, which is not installed", failed=False)
    except (Interrupted, KeyboardInterrupt, WriteError):  # what cannot be written for one cannot be for the others
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
