"""Commands and their options; each delegates to a module of its own."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

import condcs
from condcs.cli.boundary import Commands
from condcs.cli.workers import Dask

app = typer.Typer(
    cls=Commands,
    help="Did the relation between y and x change? Measure, test and explain differences of p(y|x), from samples.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)

Decimal = Annotated[str, typer.Option("--decimal", help="Decimal sign of numbers in text: . or ,")]
Missing = Annotated[
    list[str] | None, typer.Option("--missing", help="Marks of gaps, comma-separated, e.g. '?' or '-,unknown'.")
]
Form = Annotated[str | None, typer.Option("--format", help="csv, jsonl, parquet, arrow or xlsx.")]
Encoding = Annotated[str, typer.Option(help="Encoding of csv and jsonl.")]


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
    from condcs.cli.demo_command import run

    run(rows=rows, seed=seed, out=out)


@app.command()
def compare(
    reference: Annotated[
        str, typer.Argument(help="The earlier table: csv, jsonl, parquet, arrow or xlsx; - is stdin.")
    ],
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
    dask: Dask = None,
    form: Form = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    missing: Missing = None,
) -> None:
    """Say whether the relation of y to x changed between two tables, where, and how sure that is.

    Numbers get Gaussian kernels, text gets delta kernels; a response of two values is a label. Exit code: 0 = no
    evidence that p(y|x) changed (even if p(x) did), 1 = changed at --alpha, 2 = error.
    """
    import shlex
    import sys

    from condcs.cli.compare_command import run
    from condcs.cli.workers import on_workers
    from condcs.tables import FileOptions

    with on_workers(dask):
        run(
            reference,
            current,
            y=y,
            x=x,
            alpha=alpha,
            n_resamples=resamples,
            rng=seed,
            n_jobs=jobs,
            max_rows=max_rows,
            category=category or (),
            number=number or (),
            missing="drop" if drop_missing else "error",
            files=FileOptions(form, encoding, decimal, missing or (), memory),
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
    dask: Dask = None,
    out: Annotated[Path, typer.Option(help="Folder of labels.csv and clusters.html.")] = Path("condcs-clusters"),
) -> None:
    """Cluster time series by their dynamics: a table here, labels and a page with pictures in a folder."""
    import shlex
    import sys

    from condcs.cli.cluster_command import ClusterOptions, run
    from condcs.cli.workers import on_workers

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
    with on_workers(dask):
        run(file, options, labels=labels, layout=layout, out=out, command=shlex.join(["condcs", *sys.argv[1:]]))


@app.command()
def causal(
    file: Annotated[str, typer.Argument(help="Table with one series per column: csv, jsonl, parquet, arrow or xlsx.")],
    columns: Annotated[
        list[str] | None, typer.Option(help="Series: names, globs, '!name' to leave out; default all.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column of times (numbers or ISO dates).")] = None,
    lag: Annotated[str, typer.Option(help="Steps from a cause to its effect, or auto.")] = "1",
    order: Annotated[str, typer.Option(help="Number of past values, or auto.")] = "auto",
    measure: Annotated[
        str, typer.Option(help="conditional_cs, linear_granger, kernel_granger or transfer_entropy.")
    ] = "conditional_cs",
    null: Annotated[str, typer.Option(help="windows, circular or local.")] = "windows",
    conditional: Annotated[
        bool, typer.Option("--conditional", help="Condition each link on all other series.")
    ] = False,
    ranks: Annotated[bool, typer.Option("--ranks", help="Work on ranks: robust to outliers.")] = False,
    alpha: Annotated[float, typer.Option(help="False discovery rate of the links shown.")] = 0.05,
    resamples: Annotated[int, typer.Option(min=1, help="Surrogates of each test.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the surrogates.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Threads; by default one per core.")] = None,
    dask: Dask = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    out: Annotated[Path, typer.Option(help="Page to write (HTML).")] = Path("condcs-causal.html"),
    form: Form = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    missing: Missing = None,
) -> None:
    """Find out which series of a table drives which: links with p-values here, graph and scores on a page."""
    import shlex
    import sys

    from condcs.cli.causal_command import CausalOptions, run
    from condcs.cli.workers import on_workers

    options = CausalOptions(
        columns=tuple(columns or ()),
        time=time,
        lag=int(lag) if lag.isdecimal() else lag,
        order=int(order) if order.isdecimal() else order,
        measure=measure,
        null=null,
        conditional=conditional,
        ranks=ranks,
        alpha=alpha,
        resamples=resamples,
        seed=seed,
        jobs=jobs,
        form=form,
        encoding=encoding,
        decimal=decimal,
        missing=tuple(missing or ()),
    )
    with on_workers(dask):
        run(file, options, out=out, as_machine=as_json, command=shlex.join(["condcs", *sys.argv[1:]]))


@app.command()
def explore(
    environment: Annotated[str, typer.Argument(help="mountain-car, pendulum or maze.")],
    method: Annotated[
        list[str] | None,
        typer.Option(help="dtg-cs, dtg, dtg-kl, dtg-mmd, control, random, q-learning, maxent(-relative); repeatable."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each method.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run.")] = 0,
    steps: Annotated[int, typer.Option(min=10, help="Steps of each run.")] = 10_000,
    rows: Annotated[int, typer.Option(min=2, help="Rows and columns of the maze.")] = 20,
    jobs: Annotated[int | None, typer.Option(min=1, help="Threads; by default one per core.")] = None,
    dask: Dask = None,
    out: Annotated[Path, typer.Option(help="Page to write.")] = Path("condcs-explore.html"),
) -> None:
    """Let agents explore without rewards: a table that grows here, heat maps and learning curves on a page."""
    import shlex
    import sys

    from condcs.cli.explore_command import run
    from condcs.cli.workers import on_workers
    from condcs.explore.trials import ExploreOptions

    options = ExploreOptions(environment, tuple(method or ["dtg-cs"]), seeds, seed, steps, rows, jobs)
    with on_workers(dask):
        run(options, out=out, command=shlex.join(["condcs", *sys.argv[1:]]))


@app.command()
def watch(
    reference: Annotated[
        str, typer.Argument(help="Table of how things should be: csv, jsonl, parquet, arrow or xlsx.")
    ],
    y: Annotated[list[str], typer.Option("--y", help="Response: names or globs, comma-separated.")],
    x: Annotated[
        list[str] | None, typer.Option("--x", help="Inputs: names, globs, '!name' to leave out; default all but y.")
    ] = None,
    window: Annotated[int, typer.Option(min=5, help="Latest rows that are compared with the reference.")] = 100,
    run_length: Annotated[float, typer.Option(help="Rows until a false alarm, on average.")] = 10_000,
    state: Annotated[Path | None, typer.Option(help="File (npz) to go on from, and to leave the state in.")] = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with gaps.")] = False,
    category: Annotated[list[str] | None, typer.Option(help="Columns of numbers that are categories.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per alarm.")] = False,
    max_rows: Annotated[int, typer.Option(min=10, help="Rows of the reference; more are sampled.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample and of the calibration.")] = 0,
    form: Annotated[str | None, typer.Option("--format", help="Of standard input: csv, jsonl or arrow.")] = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    missing: Missing = None,
) -> None:
    """Read rows from standard input and report when their relation of y to x leaves that of the reference.

    After an alarm the window starts empty. The state is kept in --state as rows come in, so that the same command goes
    on after any end. Exit code: 0 = no alarm, 1 = alarms, 2 = error.
    """
    from condcs.cli.watch_command import run
    from condcs.tables.pair import ReadOptions

    options = ReadOptions(
        x=x or (),
        y=y,
        category=category or (),
        drop_missing=drop_missing,
        max_rows=max_rows,
        seed=seed,
        encoding=encoding,
        decimal=decimal,
        missing=missing or (),
    )
    run(reference, options, window=window, run_length=run_length, state=state, as_machine=as_json, form=form)


def _add_commands() -> None:
    """Add the commands of other packages: functions that these name as entry points of the group condcs.commands."""
    found = entry_points(group="condcs.commands")
    for entry in found:
        try:
            app.command(entry.name)(entry.load())
        except Exception as error:  # a damaged package must not take the other commands with it
            _say_why_not(entry.name, error)
    if "reproduce" not in found.names:
        words = "`condcs reproduce` comes with the package 'condcs-reproduction', which is not installed. "
        words += "Install it with: pip install condcs-reproduction (in a clone: pip install ./reproduction)"
        _say_why_not("reproduce", ImportError(words))


def _say_why_not(name: str, error: Exception) -> None:
    """Add a command that fails with an error, whatever its arguments are, and that no help page shows."""
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command(name, hidden=True, add_help_option=False, context_settings=anything)
    def fail() -> None:
        raise error


_add_commands()
