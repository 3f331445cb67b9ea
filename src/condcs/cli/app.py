"""Commands and their options; each delegates to a module of its own."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

import condcs
from condcs._core.checks import check_choice
from condcs._core.progress import call_at_compilation
from condcs.cli.boundary import Commands
from condcs.cli.terminal import Terminal
from condcs.cli.workers import EFFORT, DaskOption, on_workers
from condcs.timeseries._baseline_distances import ClusterMeasure

app = typer.Typer(
    cls=Commands,
    help="Did the relation between y and x change? Measure, test and explain differences of p(y|x) from samples.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)


def _listed(choices: Any) -> str:
    """Return the strings of a `Literal` as the help of an option lists them."""
    *others, last = get_args(choices)
    return f"{', '.join(others)} or {last}."


# Options by panel of the help page; those without one are about what is asked.
_result_option = partial(typer.Option, rich_help_panel="Results")
_table_option = partial(typer.Option, rich_help_panel="How tables are read")
_effort_option = partial(typer.Option, rich_help_panel=EFFORT)
# Short names of values: typer's own for whole numbers takes half of a narrow help page.
_file_option = partial(_result_option, metavar="FILE")
_column_option = partial(_table_option, metavar="COLUMN")
_count_option = partial(_effort_option, metavar="N")

DecimalOption = Annotated[str, _table_option("--decimal", help="Decimal sign of numbers written as text: . or ,")]
GapsOption = Annotated[
    list[str] | None,
    _table_option(
        "--gaps", metavar="TEXTS", help="Further texts that mean a missing value, comma-separated: '?' or '-,unknown'."
    ),
]
FormatOption = Annotated[
    str | None,
    _table_option(
        "--format", help="csv, jsonl, parquet, arrow, xlsx, sqlite or duckdb; recognised from the file by default."
    ),
]
DatabaseTableOption = Annotated[
    str | None, _table_option("--table", metavar="NAME", help="Table of an SQLite or DuckDB file that holds several.")
]
SqlOption = Annotated[
    str | None, _table_option("--sql", metavar="QUERY", help="Query to an SQLite or DuckDB file, instead of --table.")
]
EncodingOption = Annotated[str, _table_option(help="Text encoding of csv and jsonl files.")]
JobsOption = Annotated[int | None, _count_option(min=1, help="Number of threads; by default one per core.")]
JsonOption = Annotated[bool, _result_option("--json", help="Print the result as JSON.")]
ReportOption = Annotated[Path, _file_option(help="HTML report to write.")]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--x", metavar="COLUMNS", help="Inputs: names, globs, '!name' to leave one out; by default all columns but y."
    ),
]
ResponseOption = Annotated[
    list[str], typer.Option("--y", metavar="COLUMNS", help="Response: names or globs, comma-separated.")
]
CategoriesOption = Annotated[
    list[str] | None, _table_option(metavar="COLUMNS", help="Columns of numbers to be read as categories.")
]


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
    call_at_compilation(_say_that_loops_are_compiled)


def _say_that_loops_are_compiled() -> None:
    """Say why a first call takes longer, where somebody waits for it."""
    console = Terminal(stderr=True)
    if console.is_terminal:
        console.print("Compiling, first time only ...", style="dim")


@app.command()
def demo(
    rows: Annotated[int, typer.Option(metavar="N", min=20, help="Rows of each sample.")] = 400,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the simulated data.")] = 0,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Figure to write (PNG, SVG or PDF).")] = Path(
        "condcs-demo.png"
    ),
) -> None:
    """Compare two built-in samples whose p(y|x) differ only in one region of x."""
    from condcs.cli.demo_command import run

    run(rows=rows, seed=seed, out=out)


@app.command("warm-up")
def warm_up() -> None:
    """Compile the loops of all commands now, so that no first call has to: for images of containers.

    numba keeps them in NUMBA_CACHE_DIR, else beside the installed package, else in the user's home.
    """
    from condcs.cli.warm_up_command import run

    run()


@app.command("compare")
def compare_tables(
    reference: Annotated[
        str,
        typer.Argument(metavar="REFERENCE", help="The earlier table: a file, a folder or glob of files; - is stdin."),
    ],
    y: ResponseOption,
    current: Annotated[
        str | None, typer.Argument(metavar="CURRENT", help="The later table; not given with --group.")
    ] = None,
    x: ColumnsOption = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Compare the groups of one table, named by this column, e.g. months."),
    ] = None,
    against: Annotated[
        str, typer.Option(help="What each group is compared with: rest (all others), first or previous.")
    ] = "rest",
    prediction: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A model's predictions of y, to explain a change of its loss.")
    ] = None,
    loss: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A model's loss in each row, instead of --prediction.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Change of y for the same inputs, in its units, that is too small to matter.")
    ] = None,
    min_effect: Annotated[
        float | None, typer.Option(help="Loss of overlap that is too small to matter, e.g. 0.05.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Significance level of the tests.")] = 0.05,
    report: Annotated[Path | None, _file_option(help="HTML report to write.")] = None,
    junit: Annotated[Path | None, _file_option(help="JUnit XML to write, for test reports.")] = None,
    markdown: Annotated[Path | None, _file_option(help="Summary in Markdown to write.")] = None,
    as_json: JsonOption = False,
    missing: Annotated[
        str, _table_option(help="Missing values: as-value (gaps of x count as values), drop (such rows), or error.")
    ] = "as-value",
    drop_missing: Annotated[bool, _table_option("--drop-missing", help="The same as --missing drop.")] = False,
    unusable: Annotated[
        str, _table_option(help="Columns of x of which nothing can be compared: leave-out (and name them), or error.")
    ] = "leave-out",
    category: CategoriesOption = None,
    number: Annotated[
        list[str] | None, _table_option(metavar="COLUMNS", help="Responses with two values to be read as numbers.")
    ] = None,
    weights: Annotated[str | None, _column_option(help="Weights of the rows; one of weight 0 is absent.")] = None,
    cluster: Annotated[str | None, _column_option(help="Tells which rows belong together, e.g. the customer.")] = None,
    form: FormatOption = None,
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = ".",
    gaps: GapsOption = None,
    table: DatabaseTableOption = None,
    sql: SqlOption = None,
    max_rows: Annotated[
        int | None, _count_option(min=10, help="Rows of each table; by default as many as --time-budget allows.")
    ] = None,
    time_budget: Annotated[
        float | None,
        _effort_option(metavar="SECONDS", help="Approximate processor time for two tables; 60 by default."),
    ] = None,
    memory: Annotated[int, _count_option(min=1, help="Memory for the sampled rows, in megabytes.")] = 500,
    resamples: Annotated[
        int | None,
        _count_option(
            min=1, help="Resamples of both tests; by default 199, or more for many groups. Of regions 499 at least."
        ),
    ] = None,
    seed: Annotated[int, _count_option(min=0, help="Seed of the sample and of the tests.")] = 0,
    jobs: JobsOption = None,
    dask: DaskOption = None,
) -> None:
    """Test whether the relation of y to x changed between two tables, or between groups of one, and show where.

    Numbers get Gaussian kernels, text gets delta kernels; a response with two values is a label. Exit code: 0 = no
    evidence that p(y|x) changed (even if p(x) did), 1 = changed at --alpha, 2 = error; 4 and 5 = as 0 and 1, but a
    file could not be written.
    """
    from condcs._tables.sources import MissingCells, TableOptions, UnusableInputs
    from condcs.cli.compare_command import Files, chosen_tables, run

    if missing not in get_args(MissingCells):
        raise typer.BadParameter(
            f"--missing must be as-value, drop or error, got {missing!r}. Texts that stand for a missing value are "
            f"named by --gaps {shlex.quote(missing)}"
        )
    tables = TableOptions(
        format=cast(Any, form),
        encoding=encoding,
        decimal=cast(Any, decimal),
        gaps=gaps or (),
        memory=memory,
        missing="drop" if drop_missing else cast(Any, missing),
        unusable=_one_of(UnusableInputs, "unusable", unusable),
        category=category or (),
        number=number or (),
        weights=weights,
        cluster=cluster,
        max_rows=max_rows,
        time_budget=time_budget,
        table=table,
        sql=sql,
    )
    options = {"y": y, "x": x, "alpha": alpha, "rng": seed, "n_jobs": jobs, "tables": tables}
    compared = chosen_tables(
        reference,
        current,
        group,
        against=against,
        pairs_only={"prediction": prediction, "loss": loss, "tolerance": tolerance, "min_effect": min_effect},
        options=options if resamples is None else {**options, "n_resamples": resamples},
    )
    with on_workers(dask):
        run(compared, as_machine=as_json, files=Files(report, junit, markdown), command=_command_line())


@app.command("cluster")
def cluster_series(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Series: a table (csv, tsv, parquet, ...), .npy, .npz (X, y), .ts, or a folder."
        ),
    ],
    k: Annotated[str, typer.Option(metavar="N", help="Number of clusters, or auto.")],
    labels: Annotated[str | None, _column_option(help="Column of known classes: its name or number, or none.")] = None,
    layout: Annotated[
        str,
        _table_option(
            help="Where a series is in a table: in rows, in columns, or long (a row per series and time); recognised "
            "by default. Axes of an array with three: nct (series, channels, times) or ntc."
        ),
    ] = "auto",
    id_: Annotated[
        str | None, _column_option("--id", help="Column of a long table with the names of the series.")
    ] = None,
    time: Annotated[str | None, _column_option(help="Column with the times (numbers or ISO dates).")] = None,
    measure: Annotated[str, typer.Option(help=_listed(ClusterMeasure))] = "conditional_cs",
    method: Annotated[str, typer.Option(help="spectral or k_medoids.")] = "spectral",
    order: Annotated[str, typer.Option(metavar="N", help="Window length; auto: chosen without labels.")] = "auto",
    factor: Annotated[
        str, typer.Option(metavar="NUMBER", help="Bandwidth in median distances; auto: chosen without labels.")
    ] = "auto",
    scaling: Annotated[
        str,
        typer.Option(
            help="Standardisation: global (over all series), series (within each) or raw (none); auto: chosen."
        ),
    ] = "auto",
    seed: Annotated[int, _count_option(min=0, help="Seed of the clustering.")] = 0,
    jobs: JobsOption = None,
    dask: DaskOption = None,
    out: Annotated[Path, _result_option(metavar="FOLDER", help="Folder for labels.csv and clusters.html.")] = Path(
        "condcs-clusters"
    ),
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = ".",
    gaps: GapsOption = None,
) -> None:
    """Cluster time series by their dynamics; write the labels and an HTML report with figures to a folder.

    The settings of the distance are chosen without labels unless they are given.
    """
    from condcs._tables.sources import FileOptions
    from condcs.cli.cluster_command import ClusterMethod, ClusterOptions, ClusterScaling, run
    from condcs.cli.series_cells import FileLayout, SeriesOptions

    options = ClusterOptions(
        k=_number_or_auto(k),
        measure=_one_of(ClusterMeasure, "measure", measure),
        method=_one_of(ClusterMethod, "method", method),
        order=_number_or_auto(order),
        factor=_number_or_auto(factor),
        scaling=_one_of(ClusterScaling, "scaling", scaling),
        seed=seed,
        jobs=jobs,
        reading=SeriesOptions(
            layout=_one_of(FileLayout, "layout", layout),
            labels=labels,
            id=id_,
            time=time,
            files=FileOptions(encoding=encoding, decimal=cast(Any, decimal), gaps=gaps or ()),
        ),
    )
    with on_workers(dask):
        run(file, options, out=out, command=_command_line())


@app.command()
def causal(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Table with one series per column (csv, jsonl, parquet, arrow, xlsx), or npy or npz."
        ),
    ],
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMNS", help="Series: names, globs, '!name' to leave one out; by default all."),
    ] = None,
    time: Annotated[
        str | None, _column_option(help="Column of times (numbers or ISO dates), used to find gaps.")
    ] = None,
    layout: Annotated[
        str, _table_option(help="Where a series is: in columns, in rows, or long (a row per series and time).")
    ] = "columns",
    id_column: Annotated[
        str | None, _column_option("--id", help="Column with the names of the series; implies a long table.")
    ] = None,
    value: Annotated[str | None, _column_option(help="Column of values of a long table, if there are several.")] = None,
    lag: Annotated[
        str,
        typer.Option(
            metavar="N", help="Spacing of past values, and steps from a cause to its effect; auto: by prediction."
        ),
    ] = "auto",
    order: Annotated[
        str,
        typer.Option(metavar="N", help="Number of past values to condition on; auto: by prediction, for each target."),
    ] = "auto",
    measure: Annotated[
        str, typer.Option(help="conditional_cs, linear_granger, kernel_granger or transfer_entropy.")
    ] = "conditional_cs",
    null: Annotated[
        str,
        typer.Option(
            help="Test: signs (of residuals), or surrogates by windows (of other times), circular (shifts) or local "
            "(permutations); auto: signs where the past leaves noise, else windows. analytic: F, for linear_granger."
        ),
    ] = "auto",
    conditional: Annotated[
        bool, typer.Option("--conditional", help="Condition each link on all other series.")
    ] = False,
    ranks: Annotated[bool, typer.Option("--ranks", help="Use ranks instead of values (robust to outliers).")] = False,
    alpha: Annotated[float, typer.Option(help="False discovery rate of the links.")] = 0.05,
    resamples: Annotated[int, _count_option(min=1, help="Surrogates of each test.")] = 200,
    seed: Annotated[int, _count_option(min=0, help="Seed of the surrogates.")] = 0,
    drop_missing: Annotated[
        bool, _table_option("--drop-missing", help="Leave out times whose value, or past, has missing values.")
    ] = False,
    jobs: JobsOption = None,
    dask: DaskOption = None,
    as_json: JsonOption = False,
    out: ReportOption = Path("condcs-causal.html"),
    form: FormatOption = None,
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = ".",
    gaps: GapsOption = None,
) -> None:
    """Test which series of a table drive which others; print the links and write an HTML report with the graph."""
    from condcs._tables.sources import FileOptions
    from condcs.causal._influence_measures import InfluenceName
    from condcs.causal._link_tests import NullName
    from condcs.cli.causal_command import CausalOptions, run
    from condcs.cli.series_cells import SeriesOptions
    from condcs.cli.series_grid import SeriesLayout

    options = CausalOptions(
        series=SeriesOptions(
            layout=_one_of(SeriesLayout, "layout", layout),
            columns=tuple(columns or ()),
            time=time,
            id=id_column,
            value=value,
            files=FileOptions(format=cast(Any, form), encoding=encoding, decimal=cast(Any, decimal), gaps=gaps or ()),
            drop_missing=drop_missing,
        ),
        lag=_number_or_auto(lag),
        order=_number_or_auto(order),
        measure=_one_of(InfluenceName, "measure", measure),
        null=_one_of(NullName, "null", null),
        conditional=conditional,
        ranks=ranks,
        alpha=alpha,
        resamples=resamples,
        seed=seed,
        jobs=jobs,
    )
    with on_workers(dask):
        run(file, options, out=out, as_machine=as_json, command=_command_line())


@app.command("explore")
def explore_environment(
    environment: Annotated[
        str,
        typer.Argument(metavar="ENVIRONMENT", help="mountain-car; pendulum and maze come with condcs-reproduction."),
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="dtg-cs (the default), dtg-local or control; repeatable. random, dtg, dtg-kl and dtg-mmd come with "
            "condcs-reproduction.",
        ),
    ] = None,
    seeds: Annotated[int, _count_option(min=1, help="Runs of each method.")] = 20,
    seed: Annotated[int, _count_option(min=0, help="Seed of the first run.")] = 0,
    steps: Annotated[int, _count_option(min=10, help="Steps of each run.")] = 10_000,
    rows: Annotated[int, typer.Option(metavar="N", min=2, help="Rows and columns of the maze.")] = 20,
    jobs: JobsOption = None,
    dask: DaskOption = None,
    out: ReportOption = Path("condcs-explore.html"),
) -> None:
    """Let agents explore an environment without rewards; write learning curves and heat maps to an HTML report."""
    from condcs.cli.explore_command import run
    from condcs.explore._trials import ExploreOptions

    methods = tuple(method or ["dtg-cs"])
    options = ExploreOptions(environment, methods, n_runs=seeds, rng=seed, steps=steps, rows=rows, n_jobs=jobs)
    with on_workers(dask):
        run(options, out=out, command=_command_line())


@app.command()
def watch(
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="Table to compare with: a file, a folder or glob of files.")
    ],
    y: ResponseOption,
    x: ColumnsOption = None,
    run_length: Annotated[
        float, typer.Option(metavar="ROWS", help="Lower bound of the mean number of rows until a false alarm.")
    ] = 10_000,
    after_alarm: Annotated[
        str,
        typer.Option(
            help="learn: the next 500 rows become the new reference. keep: the reference stays, and alarms continue."
        ),
    ] = "learn",
    report: Annotated[Path | None, _file_option(help="HTML report to write, with the stream and its alarms.")] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File (npz) to save the state in, and to resume from.")
    ] = None,
    drop_missing: Annotated[bool, _table_option("--drop-missing", help="Drop rows with missing values.")] = False,
    category: CategoriesOption = None,
    as_json: Annotated[bool, _result_option("--json", help="Print one JSON object per alarm.")] = False,
    max_rows: Annotated[int, _count_option(min=10, help="Rows of the reference; a longer one is sampled.")] = 20_000,
    seed: Annotated[int, _count_option(min=0, help="Seed of the sample and of the ranks of ties.")] = 0,
    form: Annotated[
        str | None, _table_option("--format", help="Format of standard input: csv, jsonl or arrow.")
    ] = None,
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = ".",
    gaps: GapsOption = None,
    table: DatabaseTableOption = None,
    sql: SqlOption = None,
) -> None:
    """Read rows from standard input and report when their relation of y to x departs from that of the reference.

    After an alarm the new relation is learned from the next 500 rows, or with --after-alarm keep the old one is kept.
    The state is saved in --state as rows come in, so that the same command resumes after any interruption. Exit code:
    0 = no alarm, 1 = alarms, 2 = error; 4 and 5 = as 0 and 1, but a file could not be written.
    """
    from condcs._tables.pair import ReadOptions
    from condcs._tables.sources import Format
    from condcs.cli.watch_command import run
    from condcs.drift import AfterAlarm

    options = ReadOptions(
        x=x,
        y=y,
        category=category or (),
        missing="drop" if drop_missing else "error",
        unusable="error",  # a detector's columns stay what they are: each must be one that can be watched
        max_rows=max_rows,
        seed=seed,
        encoding=encoding,
        decimal=cast(Any, decimal),
        gaps=gaps or (),
        table=table,
        sql=sql,
    )
    stream_format = None if form is None else _one_of(Format, "format", form)
    run(
        reference,
        options,
        run_length=run_length,
        after_alarm=_one_of(AfterAlarm, "after_alarm", after_alarm),
        state=state,
        report=report,
        command=_command_line(),
        as_machine=as_json,
        stream_format=stream_format,
    )


def _one_of(choices: Any, name: str, value: str) -> Any:
    """Return a value that must be one of the strings of a `Literal`."""
    return check_choice(name, value, get_args(choices))


def _number_or_auto(value: str) -> Any:
    """Return a number, or the text as it is for the library to judge."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(value)
    return value


def _command_line() -> str:
    return shlex.join(["condcs", *sys.argv[1:]])


def _add_commands() -> None:
    """Add the commands of other packages: functions that these name as entry points of the group condcs.commands."""
    added_commands = entry_points(group="condcs.commands")
    for entry in added_commands:
        try:
            app.command(entry.name)(entry.load())
        except Exception as error:  # a damaged package must not take the other commands with it
            _say_why_not(entry.name, error)
    if "reproduce" not in added_commands.names:
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
