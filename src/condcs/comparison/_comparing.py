"""The comparison of two tables: read, test the inputs, test the relation, find the regions, measure the change.

`compare` reads the tables and `compare_pair` takes the steps, of which `_steps` has one function each.
`assert_same_relation` is the same as an assertion, for the tests of a pipeline.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from condcs._core.checks import check_alpha, check_integer, check_rng, fewest_resamples
from condcs._core.errors import BalanceWarning, CondcsWarning, OverlapWarning, ParameterError, public
from condcs._core.printable import harmless
from condcs._core.settings import config_context, one_blas_thread
from condcs._core.vocabulary import named, setting, table_setting
from condcs._tables.in_memory import as_table
from condcs._tables.pair import Pair, ReadOptions, as_keys, read_pair
from condcs._tables.sources import Columns, MissingCells, TableOptions
from condcs.comparison._influential_rows import influential_row_notes
from condcs.comparison._label_combinations import label_notes
from condcs.comparison._loss_columns import PREDICTED, Losses, loss_column, split_losses, with_predictions
from condcs.comparison._result import Comparison, Limits
from condcs.comparison._row_dependence import find_row_dependence
from condcs.comparison._steps import (
    Tell,
    collected_warnings,
    compare_inputs,
    compare_relation,
    fit_adjustment,
    locate_change,
    measure_sizes,
)
from condcs.comparison._wording import overall_sentences, regions_table, table_accounts, table_lines

STEPS = {"reading": 0.05, "inputs": 0.15, "relation": 0.55, "where": 0.12, "how large": 0.13}
"""The steps whose beginning `compare` reports, and about what share of the time each takes, for the progress bar."""

ALPHA = 0.05
"""Level of the tests by default, in Python, on the command line and in the GitHub action: the convention."""
RESAMPLES = 199
"""Of both tests, by default: the smallest p-value, 1/200, is a tenth of the level, and p = 0.05 has a standard error of
0.015. More take time in proportion."""
MOST_COMPARED_ROWS = 100_000
"""Rows of each table that are compared at most by default, whatever the time budget: a bound on memory, which grows
with the rows."""
_FEWEST_COMPARED_ROWS = 1000
"""Rows of each table that are compared at least, however small the budget: fewer would miss all but large changes."""
_TIME_BUDGET = 60.0
"""Seconds of processor time by default: a minute, in which about 18,000 rows of each table are compared."""
_SECONDS = 3.0
"""Processor time of a comparison that does not grow with the rows."""
_SECONDS_PER_ROW = 0.0016
"""Processor time that every pooled row adds. On the safe side: 17,000 rows in each table, of five columns of numbers,
took 11 s on one thread of an EPYC, where these two numbers say 57."""


@dataclass(frozen=True)
class Run:
    """How a comparison is run."""

    n_resamples: int  # of the tests
    seed: int
    n_jobs: int | None  # threads
    tell: Tell  # called with the name of each step as it begins


def checked_run(
    n_resamples: int,
    rng: int | np.random.Generator | None,
    n_jobs: int | None,
    progress: Callable[[str], None] | None,
) -> Run:
    """Check how a comparison is to be run."""
    check_integer("n_resamples", n_resamples, 1)
    generator = check_rng(rng)
    seed = int(rng) if isinstance(rng, Integral) else int(generator.integers(2**31))
    return Run(n_resamples, seed, n_jobs, progress or (lambda step: None))


@public
def compare(
    reference: Any,
    current: Any,
    *,
    y: Columns,
    x: Columns | None = None,
    prediction: Any = None,
    loss: str | int | None = None,
    tolerance: float | Limits | None = None,
    alpha: float = ALPHA,
    n_resamples: int = RESAMPLES,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    missing: MissingCells | None = None,
    max_rows: int | None = None,
    tables: TableOptions | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Test whether the relation of y to x changed between two tables, and estimate where and by how much.

    Two hypotheses are tested separately, to distinguish a covariate shift from a change of the relation: that p(x) is
    the same (by permutations, which are exact), and that p(y|x) is the same (by `conditional_test` with the propensity
    null, so that shifted inputs alone are not evidence of a change). Each test combines several views, such as
    bandwidths or kinds of change, in one p-value. The size of the change is estimated in units of y, for the same
    inputs, over the inputs that both tables have. Numbers get Gaussian kernels, each column in units of its own spread,
    text gets delta kernels; a response with two values is a label. Cost O(n^2) for up to 10,000 pooled rows, and linear
    in their number beyond; memory O(n).

    Parameters
    ----------
    reference, current : DataFrame, stream of Arrow batches, dict of columns, 2-d array, str or Path
        The earlier and the later table: a DataFrame of pandas, polars or Spark, what streams Arrow batches
        (``__arrow_c_stream__``, relations of DuckDB, expressions of ibis, datasets), a mapping from names to sequences,
        an array with variables in its columns, or the path of a file (csv, jsonl, parquet, arrow, xlsx, SQLite or
        DuckDB; "-" is standard input), or of a folder or glob of files.
        The columns are those of the reference; the current table must have them too, in any order.
    y : str, int or sequence of them
        Response: names, globs (``"sensor_*"``), several with commas between them; numbers for the columns of an array.
    x : str, int or sequence of them, optional
        Inputs; ``"!name"`` leaves one out. By default all columns without another role.
    prediction : str, int, or fitted model, optional
        A model's prediction of y: its column, which is then not an input, or a scikit-learn model, whose `predict` is
        called. The result's `loss_change` says why the model got worse: inputs that moved, inputs that are new, or the
        relation. The loss is the squared error of numbers, the share of errors of labels, and the log loss if y has two
        labels and the predictions are probabilities of the later one.
    loss : str or int, optional
        The same for a column that holds the loss of every row.
    tolerance : float or Limits, optional
        Changes of y for the same inputs, in its units (for labels, in shares), that are too small to matter. The
        relation then counts as changed only if mean or spread of y changed by more, over all inputs (in root mean
        square) or in a region, and as the same only if both did by less, with confidence (`Comparison.decision`).
        `Limits` can also hold a loss of overlap.
    alpha : float
        Level of both tests.
    n_resamples : int
        Resamples of both tests; those of the regions are as many, but 499 and 2 / alpha at least.
    rng : int or Generator
        Seed of the sample of rows and of the tests.
    n_jobs : int, optional
        Threads; by default one per core.
    missing : {"as-value", "drop", "error"}, optional
        What becomes of missing values, as in `TableOptions`: by default gaps of x count as values, and rows without y
        are left out.
    max_rows : int, optional
        Rows of each table that are compared, as in `TableOptions`.
    tables : TableOptions, optional
        How else the tables are read: columns of numbers that are labels, weights, clusters, decimal commas, and a
        budget of time in place of `max_rows`.
    progress : function of a str, optional
        Called with the name of each step as it begins.

    Returns
    -------
    Comparison
        `verdict`, `decision`, `relation_changed`, `inputs_shifted`, `effects`, `loss_change`, `relation`, `inputs` and
        `regions`; it prints as a summary, shows as a page in notebooks, and has the methods `report`, `plot` and
        `to_dict`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def month(slope):
    ...     area = rng.normal(100, 20, size=120)
    ...     return {"area": area, "price": slope * area + rng.normal(0, 10, size=120)}
    >>> comparison = compare(month(2), month(3), y="price")
    >>> comparison.relation_changed, comparison.inputs_shifted
    (True, False)
    >>> round(comparison.effects[0].average.value, -1)
    100.0
    """
    tables = table_options(tables, missing, max_rows)
    run = checked_run(n_resamples, rng, n_jobs, progress)
    check_level(alpha, n_resamples)
    limits = tolerance if isinstance(tolerance, Limits) else Limits(tolerance)
    loss_source = loss_column(prediction, loss)
    if loss_source is not None and loss_source.column == PREDICTED:
        reference = with_predictions("reference", reference, prediction, y, x)
        current = with_predictions("current", current, prediction, y, x)
    sources = as_table("reference", reference), as_table("current", current)
    budget = _TIME_BUDGET if tables.time_budget is None else tables.time_budget
    most_rows = rows_within(budget) if tables.max_rows is None else tables.max_rows
    reading = {**vars(tables), "max_rows": most_rows}
    options = ReadOptions(**reading, x=as_keys(x), y=as_keys(y), loss=loss_source, seed=run.seed)
    run.tell("reading")
    pair, losses = split_losses(read_pair(*sources, options), loss_source)
    _check_tolerance(limits, pair)
    comparison = compare_pair(pair, run, alpha=alpha, losses=losses, limits=limits)
    is_sampled = pair.reference.sampled or pair.current.sampled
    if tables.max_rows is not None or not is_sampled:
        return comparison
    note = (
        f"At most {most_rows:,} rows of each table were compared, to stay within {budget:g} s of processor time. Raise "
        f"{named('time_budget')}, or set {named('max_rows')}, to compare more."
    )
    return replace(comparison, notes=(note, *comparison.notes))


def _check_tolerance(limits: Limits, pair: Pair) -> None:
    """Raise an error if a tolerance for labels is no share."""
    if limits.tolerance is not None and limits.tolerance >= 1 and all(column.is_category for column in pair.y):
        raise ParameterError(
            f"{named('tolerance')} must be a share below 1 for labels, as {pair.y[0].name!r} holds, got "
            f"{limits.tolerance:g}. Pass e.g. {setting('tolerance', 0.05)} for 5 percentage points."
        )


def table_options(
    tables: TableOptions | None, missing: MissingCells | None = None, max_rows: int | None = None
) -> TableOptions:
    """Return how tables are read, from options and from the two of them that can be passed by themselves."""
    if tables is not None and not isinstance(tables, TableOptions):
        raise ParameterError(
            f"{named('tables')} must be a TableOptions, got {type(tables).__name__}. Pass e.g. "
            f"{table_setting('missing', 'drop')}."
        )
    options, defaults = tables or TableOptions(), TableOptions()
    direct: dict[str, Any] = {"missing": missing, "max_rows": max_rows}
    for name, value in direct.items():
        in_options = getattr(options, name)
        if value is not None and in_options not in (value, getattr(defaults, name)):
            raise ParameterError(
                f"{named(name)} must be given once, got {value!r} and, in {named('tables')}, {in_options!r}. Leave one "
                "out."
            )
    return replace(options, **{name: value for name, value in direct.items() if value is not None})


def compare_pair(
    pair: Pair,
    run: Run,
    *,
    alpha: float,
    losses: Losses | None = None,
    limits: Limits | None = None,
) -> Comparison:
    """Compare two tables that have been read; `losses` are those of a model in each row, if there is one.

    The designs for regressions on x and P(table | x) are made once, first of all; `Adjustment` says which steps have
    their own. The regions come before the sizes: no size is below what they imply.
    """
    tell, seed, n_resamples = run.tell, run.seed, run.n_resamples
    # Most products are small: more threads of BLAS would wait for one another, at the cost of twice the processor time.
    with one_blas_thread(), config_context(n_threads=run.n_jobs), collected_warnings() as collected:
        tell("inputs")
        adjustment = fit_adjustment(pair, seed)
        inputs = compare_inputs(pair, adjustment, n_resamples=n_resamples, seed=seed)
        tell("relation")
        relation = compare_relation(pair, adjustment, n_resamples=n_resamples, seed=seed, n_jobs=run.n_jobs)
        tell("where")
        location = locate_change(pair, adjustment, n_resamples=n_resamples, seed=seed, alpha=alpha)
        tell("how large")
        sizes = measure_sizes(pair, adjustment, losses, implied_sizes=location.implied_sizes, alpha=alpha, seed=seed)
        row_dependence = find_row_dependence(pair)
    return Comparison(
        pair,
        inputs,
        relation,
        sizes,
        location,
        alpha,
        n_resamples,
        seed,
        notes=(
            *pair.notes,
            *label_notes(pair),
            *influential_row_notes(pair, sizes.effects),
            *_notes_of_warnings(collected),
        ),
        limits=Limits() if limits is None else limits,
        row_dependence=row_dependence,
    )


def _notes_of_warnings(collected: Sequence[CondcsWarning]) -> Iterator[str]:
    """Yield notes on what was warned of: of each kind of warning the first, which is about all rows."""
    first: dict[type[CondcsWarning], CondcsWarning] = {}
    for warning in collected:
        if isinstance(warning, OverlapWarning) and warning.kind != "support":
            continue  # labels, in the words of `label_notes`
        first.setdefault(type(warning), warning)
    for kind, warning in first.items():
        if isinstance(warning, OverlapWarning):
            yield (
                f"The two tables hardly overlap in the inputs: {warning.of_rows:,} rows or clusters are as informative "
                f"as {warning.rows:,} would be with full overlap. A large p-value then says little. Compare fewer "
                "inputs, or only rows whose inputs both tables have."
            )
        elif kind is not BalanceWarning:  # of which the verdict speaks
            yield str(warning)


def rows_within(seconds: float) -> int:
    """Return how many rows of each table can be compared in so much processor time."""
    pooled_rows = (seconds - _SECONDS) / _SECONDS_PER_ROW
    return int(np.clip(pooled_rows / 2, _FEWEST_COMPARED_ROWS, MOST_COMPARED_ROWS))


def check_level(alpha: Any, n_resamples: int) -> None:
    """Check that a level is one, and that this many resamples can reach it."""
    check_alpha(alpha)
    if 1 / (1 + n_resamples) > alpha:
        least = fewest_resamples(alpha)
        raise ParameterError(
            f"{named('n_resamples')} must be at least {least} for a p-value to reach {setting('alpha', alpha)}, got "
            f"{n_resamples}. Pass {setting('n_resamples', 2 * least + 1)}."
        )


@public
def assert_same_relation(
    reference: Any,
    current: Any,
    *,
    y: Columns,
    x: Columns | None = None,
    alpha: float = ALPHA,
    tolerance: float | Limits | None = None,
    n_resamples: int = RESAMPLES,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    tables: TableOptions | None = None,
) -> Comparison:
    """Raise an AssertionError if the relation of y to x changed between two tables.

    The answer is that of `condcs.compare`: the same tables with the same `rng` always pass or always fail. Where
    nothing changed, an assertion on new tables fails with probability alpha; that the inputs shifted is no failure.

    Parameters
    ----------
    reference, current : DataFrame, pyarrow Table, dict of columns, 2-d array, str or Path
        The two tables, as in `condcs.compare`.
    y, x : str, int or sequence of them
        Response and inputs, as in `condcs.compare`.
    alpha : float
        Level of the test: how often an unchanged relation fails.
    tolerance : float or Limits, optional
        A change that does not matter, in the units of y, as in `condcs.compare`.
    n_resamples, rng, n_jobs : int, optional
        Resamples, seed and threads, as in `condcs.compare`.
    tables : TableOptions, optional
        How the tables are read, as in `condcs.compare`.

    Returns
    -------
    Comparison
        What was found, if the relation did not change.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def month(slope):
    ...     area = rng.normal(100, 20, size=120)
    ...     return {"area": area, "price": slope * area + rng.normal(0, 10, size=120)}
    >>> checked = assert_same_relation(month(2), month(2), y="price")
    >>> assert_same_relation(month(2), month(3), y="price")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    AssertionError: For the same inputs, price is ...
    """
    __tracebackhide__ = True  # pytest then shows the line of the test, not this one
    # Unwrapped, so that errors name this function.
    comparison: Comparison = inspect.unwrap(compare)(
        reference,
        current,
        y=y,
        x=x,
        alpha=alpha,
        tolerance=tolerance,
        n_resamples=n_resamples,
        rng=rng,
        n_jobs=n_jobs,
        tables=tables,
    )
    if comparison.relation_changed:
        raise AssertionError(failure_words(comparison))
    return comparison


def failure_words(comparison: Comparison) -> str:
    """Say what changed and where, the answer first: pytest shows the first line in its summary."""
    blocks = [
        [comparison.verdict, *overall_sentences(comparison)],
        table_lines(regions_table(comparison)) if comparison.regions else [],
        [f"{role}: {title}, {rows}" for role, title, rows in table_accounts(comparison).rows],
        [f"- {note}" for note in comparison.notes],
    ]
    return "\n\n".join("\n".join(map(harmless, lines)) for lines in blocks if lines)
