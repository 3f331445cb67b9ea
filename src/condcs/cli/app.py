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
def compare(
    reference: Annotated[str, typer.Argument(help="The earlier table: csv, jsonl, parquet or arrow; - is stdin.")],
    current: Annotated[str, typer.Argument(help="The later table.")],
    y: Annotated[list[str], typer.Option("--y", help="Response: names or globs, comma-separated.")],
    x: Annotated[
        list[str] | None, typer.Option("--x", help="Inputs: names, globs, '!name' to leave out; default all but y.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Level of the tests.")] = 0.05,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with gaps.")] = False,
    category: Annotated[list[str] | None, typer.Option(help="Columns of numbers that are categories.")] = None,
    number: Annotated[list[str] | None, typer.Option(help="Two-valued responses that are numbers.")] = None,
    report: Annotated[Path | None, typer.Option(help="Page to write (HTML).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    max_rows: Annotated[int, typer.Option(min=10, help="Rows of each table; more are sampled.")] = 2000,
    memory: Annotated[int, typer.Option(min=1, help="Megabytes that the sampled rows may take up.")] = 500,
    resamples: Annotated[int, typer.Option(min=1, help="Redrawn samples of each test.")] = 299,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample and of the tests.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Threads; by default one per core.")] = None,
    form: Annotated[str | None, typer.Option("--format", help="csv, jsonl, parquet or arrow.")] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of csv and jsonl.")] = "utf-8",
) -> None:
    """Say whether the relation of y to x changed between two tables, where, and how sure that is.

    Numbers get Gaussian kernels, text gets delta kernels; a response of two values is a label. Exit code: 0 = no
    evidence that p(y|x) changed (even if p(x) did), 1 = changed at --alpha, 2 = error.
    """
    import shlex
    import sys

    from condcs.cli.compare import run
    from condcs.cli.tables.pair import ReadOptions

    options = ReadOptions(
        x=x or (),
        y=y,
        category=category or (),
        number=number or (),
        drop_missing=drop_missing,
        max_rows=max_rows,
        memory=memory,
        seed=seed,
        form=form,
        encoding=encoding,
    )
    run(
        reference,
        current,
        options,
        alpha=alpha,
        resamples=resamples,
        jobs=jobs,
        as_machine=as_json,
        report=report,
        command=shlex.join(["condcs", *sys.argv[1:]]),
    )


@app.command()
def cluster(
    file: Annotated[Path, typer.Argument(help="Series: .csv or .tsv (a row each), .npz (X, y) or .ts.")],
    k: Annotated[int, typer.Option(min=2, help="Number of clusters.")],
    labels: Annotated[str | None, typer.Option(help="Column of a table with known classes: title or number.")] = None,
    measure: Annotated[str, typer.Option(help="conditional_cs, dtw, msm, twed or tck.")] = "conditional_cs",
    method: Annotated[str, typer.Option(help="spectral or k_medoids.")] = "spectral",
    order: Annotated[
        int | None, typer.Option(min=1, help="Window K; by default 10, or 1 for several channels.")
    ] = None,
    factor: Annotated[
        float | None, typer.Option(help="Kernel width in medians; by default chosen by self-prediction.")
    ] = None,
    scaling: Annotated[str, typer.Option(help="raw, global or series: how values are standardised.")] = "raw",
    layout: Annotated[str, typer.Option(help="Axes of an array: ntc (series, times, channels) or nct.")] = "ntc",
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out windows with gaps.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the clustering.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Threads; by default one per core.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of labels.csv and clusters.html.")] = Path("condcs-clusters"),
) -> None:
    """Cluster time series by their dynamics: a table here, labels and a page with pictures in a folder."""
    import shlex
    import sys

    from condcs.cli.cluster import ClusterOptions, run

    options = ClusterOptions(
        k=k,
        measure=measure,
        method=method,
        order=order,
        factor=factor,
        scaling=scaling,
        missing="drop" if drop_missing else "error",
        seed=seed,
        jobs=jobs,
    )
    run(file, options, labels=labels, layout=layout, out=out, command=shlex.join(["condcs", *sys.argv[1:]]))


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
