"""The command ``condcs reproduce``: its options. condcs finds it through the entry point in pyproject.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condcs.cli.workers import EFFORT, DaskOption, on_workers


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="An experiment, or all. Without it they are listed."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small data, few trials, no verdicts.")] = False,
    trials: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Repetitions of each cell, instead of the paper's number.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Processes; by default one per core.", rich_help_panel=EFFORT),
    ] = None,
    dask: DaskOption = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the results.")] = Path("results"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget stored trials and start again.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Run only cases whose name contains this, e.g. conditional_cs; repeatable."),
    ] = None,
) -> None:
    """Run an experiment of the paper and show our numbers beside the paper's.

    Finished trials are stored as they end: after Ctrl-C or a crash, the same command continues where it stopped.
    """
    from condcs_reproduction.reproduce import Options, kind_named, list_experiments, reproduce_one
    from condcs_reproduction.reproduce_all import reproduce_all

    if name is None:
        return list_experiments()
    beginning = kind_named(name)
    if beginning is not None:
        return list_experiments(beginning)
    options = Options(quick, trials, jobs, out, fresh, only or ())
    with on_workers(dask):
        if name == "all":
            reproduce_all(options)
        else:
            reproduce_one(name, options)
