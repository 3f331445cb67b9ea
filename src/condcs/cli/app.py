"""Commands and their options; each delegates to a module of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import condcs

app = typer.Typer(
    help="Did the relation between y and x change? Measure, test and explain differences of p(y|x), from samples.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"condcs {condcs.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every command."""


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=20, help="Rows of each sample.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated data.")] = 0,
    out: Annotated[Path, typer.Option(help="Picture to write (PNG, SVG or PDF).")] = Path("condcs-demo.png"),
) -> None:
    """Compare two built-in samples whose p(y|x) differ only in one region of x."""
    from condcs.cli.demo import run

    run(rows=rows, seed=seed, out=out)


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which experiment; none lists them all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small data and few trials: seconds.")] = False,
    trials: Annotated[int | None, typer.Option(min=1, help="Repetitions of each cell instead of the paper's.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; by default one per core.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of all results.")] = Path("results"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget stored trials and start again.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Run only cases whose name contains this, e.g. conditional_cs; repeatable.")
    ] = None,
) -> None:
    """Run a table or figure of the paper and show ours beside the paper's numbers.

    Finished trials are stored as they end: after Ctrl-C or a crash, the same command continues where it stopped.
    """
    from condcs.cli.reproduce import list_experiments
    from condcs.cli.reproduce import reproduce as run_experiment

    if name is None:
        list_experiments()
    else:
        run_experiment(name, quick=quick, trials=trials, jobs=jobs, out=out, fresh=fresh, only=only or [])
