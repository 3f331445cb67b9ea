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
