"""The comparison of two tables: read, test the inputs, test the relation, measure its change, find the regions.

And the same as an assertion, for the tests of a pipeline.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.checks import check_alpha, check_integer, check_rng
from condcs._core.errors import BalanceWarning, CondcsWarning, DataError, OverlapWarning, ParameterError, public
from condcs._core.printable import harmless
from condcs._core.settings import one_blas_thread
from condcs._tables.in_memory import as_table
from condcs._tables.pair import Pair, ReadOptions, as_keys, choose_x_and_y, name_of, read_pair
from condcs._tables.sources import Columns, MissingCells, TableOptions, column_name
from condcs.comparison._label_combinations import check_labels_meet, label_notes
from condcs.comparison._result import Comparison, Limits
from condcs.comparison._row_dependence import find_row_dependence
from condcs.comparison._steps import (
    Losses,
    Tell,
    collected_warnings,
    compare_inputs,
    compare_relation,
    find_places,
    fit_adjustment,
    measure_sizes,
)
from condcs.comparison._wording import responses, set_lines, sizes, where

STEPS = {"reading": 0.05, "inputs": 0.15, "relation": 0.55, "where": 0.12, "how large": 0.13}
"""The steps that `compare` tells of as they begin, and about how much of the time each takes."""

ALPHA = 0.05
"""Level of the tests by default, in Python, on the command line and in the GitHub action."""
RESAMPLES = 199
"""Of both tests, by default."""
MOST_ROWS = 100_000
"""Rows of each table that are compared at most by default, whatever the time budget."""
_TIME_BUDGET = 60.0
_SECONDS, _SECONDS_PER_ROW = 3.0, 0.0016
"""Processor time of a comparison: the part that does not grow, and what every pooled row adds."""


@dataclass(frozen=True)
class Run:
    """How a comparison is run: resamples of the tests, seed, threads, and what is told of each step."""

    n_resamples: int
    seed: int
    n_jobs: int | None
    tell: Tell


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
    reference, current : DataFrame, pyarrow Table, dict of columns, 2-d array, str or Path
        The earlier and the later table: of pandas or polars, a mapping from names to sequences, an array with
        variables in its columns, or the path of a file (csv, jsonl, parquet, arrow or xlsx; "-" is standard input).
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
        Changes of y for the same inputs, in its units (for labels, in shares), that are too small to matter. The answer
        is then "changed" only if mean or spread of y changed by more, over all inputs (in root mean square) or in a
        region, and "same" only if both did by less, with confidence. `Limits` can also hold a loss of overlap.
    alpha : float
        Level of both tests.
    n_resamples : int
        Resamples of both tests; those of the regions are as many, but 499 and 2 / alpha at least.
    rng : int or Generator
        Seed of the sample of rows and of the tests.
    n_jobs : int, optional
        Threads; by default one per core.
    missing : {"error", "drop", "as-value"}, optional
        What becomes of rows with missing values, as in `TableOptions`: an error by default.
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
    >>> found = compare(month(2), month(3), y="price")
    >>> found.relation_changed, found.inputs_shifted
    (True, False)
    >>> round(found.effects[0].average.value, -1)
    100.0
    """
    tables, run = given_tables(tables, missing, max_rows), checked_run(n_resamples, rng, n_jobs, progress)
    check_level(alpha, n_resamples)
    limits = tolerance if isinstance(tolerance, Limits) else Limits(tolerance)
    source = loss_source(prediction, loss)
    if source is not None and source.column == PREDICTED:
        reference, current = (
            _predicted(role, table, prediction, y, x)
            for role, table in (("reference", reference), ("current", current))
        )
    both = as_table("reference", reference), as_table("current", current)
    budget = _TIME_BUDGET if tables.time_budget is None else tables.time_budget
    most = rows_within(budget) if tables.max_rows is None else tables.max_rows
    options = ReadOptions(**{**vars(tables), "max_rows": most}, x=as_keys(x), y=as_keys(y), seed=run.seed)
    if source is not None:
        source = replace(source, column=name_of(source.column, getattr(both[0], "names", ())))
        options = replace(options, y=[*as_keys(options.y), source.column])
    run.tell("reading")
    pair, losses = read_with_losses(both, options, source)
    _check_tolerance(limits, pair)
    found = compare_pair(pair, run, alpha=alpha, losses=losses, limits=limits)
    if tables.max_rows is not None or not (pair.reference.sampled or pair.current.sampled):
        return found
    said = (
        f"At most {most:,} rows of each table were compared, to stay within {budget:g} s of processor time. Raise "
        "`time_budget`, or set `max_rows`, to compare more."
    )
    return replace(found, notes=(said, *found.notes))


def _check_tolerance(limits: Limits, pair: Pair) -> None:
    if limits.tolerance is not None and limits.tolerance >= 1 and all(column.is_category for column in pair.y):
        raise ParameterError(
            f"`tolerance` must be a share below 1 for labels, as {pair.y[0].name!r} holds, got {limits.tolerance:g}. "
            "Pass e.g. tolerance=0.05 for 5 percentage points."
        )


def given_tables(
    tables: TableOptions | None, missing: MissingCells | None = None, max_rows: int | None = None
) -> TableOptions:
    """Return how tables are read, from options and from the two of them that can be passed by themselves."""
    if tables is not None and not isinstance(tables, TableOptions):
        raise ParameterError(
            f"`tables` must be a TableOptions, got {type(tables).__name__}. Pass e.g. "
            "tables=condcs.TableOptions(missing='drop')."
        )
    options, defaults = tables or TableOptions(), TableOptions()
    direct: dict[str, Any] = {"missing": missing, "max_rows": max_rows}
    for name, value in direct.items():
        within = getattr(options, name)
        if value is not None and within not in (value, getattr(defaults, name)):
            raise ParameterError(
                f"`{name}` must be given once, got {value!r} and, in `tables`, {within!r}. Leave one out."
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
    """Compare two tables that have been read."""
    check_labels_meet(pair)
    tell, seed, n_resamples = run.tell, run.seed, run.n_resamples
    # Most products are small: more threads of BLAS would wait for one another, at the cost of twice the processor time.
    with one_blas_thread(), collected_warnings() as said:
        tell("inputs")
        adjustment = fit_adjustment(pair, seed)
        inputs = compare_inputs(pair, adjustment, resamples=n_resamples, seed=seed)
        tell("relation")
        relation = compare_relation(pair, adjustment, resamples=n_resamples, seed=seed, jobs=run.n_jobs)
        tell("where")
        places = find_places(pair, adjustment, resamples=n_resamples, seed=seed, alpha=alpha)
        tell("how large")
        sizes = measure_sizes(pair, adjustment, losses, regions=places.regions, alpha=alpha, seed=seed)
        rows = find_row_dependence(pair)
    notes, limits = (*pair.notes, *label_notes(pair), *_warned_of(said)), Limits() if limits is None else limits
    return Comparison(pair, inputs, relation, sizes, places, alpha, n_resamples, seed, notes, limits, rows)


def _warned_of(said: Sequence[CondcsWarning]) -> Iterator[str]:
    """Yield what a reader of the tables should know of warnings, of each kind the first, which is about all rows."""
    first: dict[type[CondcsWarning], CondcsWarning] = {}
    for warning in said:
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


def loss_source(prediction: Any, loss: str | int | None) -> LossColumn | None:
    """Return where the loss of a row comes from, or None if none was asked for."""
    if prediction is None:
        return None if loss is None else LossColumn("loss", loss)
    if loss is not None:
        raise ParameterError(f"`loss` must be None if `prediction` is given, got {loss!r}. Pass one of the two.")
    if isinstance(prediction, str | int):
        return LossColumn("prediction", prediction)
    if not hasattr(prediction, "predict"):
        raise ParameterError(
            f"`prediction` must be a column or a fitted model with a method `predict`, got "
            f"{type(prediction).__name__}. Pass e.g. prediction='predicted_price'."
        )
    return LossColumn("prediction", PREDICTED)


def read_with_losses(
    tables: tuple[Any, Any], options: ReadOptions, source: LossColumn | None
) -> tuple[Pair, Losses | None]:
    """Read two tables, and the loss of each row if there is one; its column is read as a further response."""
    if source is None:
        return read_pair(*tables, options), None
    try:
        pair = read_pair(*tables, options)
    except (ParameterError, DataError) as error:
        if repr(source.column) in str(error):
            raise type(error)(str(error).replace("`y`", f"`{source.option}`")) from None
        raise
    return split_off(pair, source)


def rows_within(seconds: float) -> int:
    """Return how many rows of each table can be compared in so much processor time."""
    return int(np.clip((seconds - _SECONDS) / _SECONDS_PER_ROW / 2, 1000, MOST_ROWS))


def check_level(alpha: Any, n_resamples: int) -> None:
    """Check that a level is one, and that this many resamples can reach it."""
    check_alpha(alpha)
    if 1 / (1 + n_resamples) > alpha:
        least = int(1 / alpha)
        raise ParameterError(
            f"`n_resamples` must be at least {least} for a p-value to reach alpha={alpha:g}, got {n_resamples}. "
            f"Pass n_resamples={2 * least}."
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
    found: Comparison = inspect.unwrap(compare)(
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
    if found.relation_changed:
        raise AssertionError(failure_words(found))
    return found


def failure_words(found: Comparison) -> str:
    """Say what changed and where, the answer first: pytest shows the first line in its summary."""
    blocks = [
        [found.verdict, *responses(found)],
        set_lines(where(found)) if found.regions else [],
        [f"{role}: {title}, {rows}" for role, title, rows in sizes(found).rows],
        [f"- {note}" for note in found.notes],
    ]
    return "\n\n".join("\n".join(map(harmless, lines)) for lines in blocks if lines)


PREDICTED = "(prediction)"
"""Name of the column with what a model predicts."""
_LEAST_PROBABILITY = 1e-6


@dataclass(frozen=True)
class LossColumn:
    """Where the loss of a row comes from."""

    option: str  # that named it: "prediction" or "loss"
    column: str | int


def _predicted(name: str, table: Any, model: Any, y: Any, x: Any) -> Any:
    if not hasattr(table, "columns") or not hasattr(table, "assign"):
        raise ParameterError(
            f"`prediction` must be a column unless the tables are pandas DataFrames, got a model and a "
            f"{type(table).__name__} as `{name}`. Read the table with pandas, or predict first and pass the column."
        )
    features = getattr(model, "feature_names_in_", None)
    if features is None:
        keys = {column_name(key): key for key in table.columns}
        inputs, _ = choose_x_and_y(x, y, list(keys), name)
        features = [keys[column] for column in inputs]
    lacking = [c for c in features if c not in table.columns]
    if lacking:
        raise DataError(
            f"`{name}` must have the columns that the model was fitted to, but lacks "
            f"{', '.join(map(repr, lacking[:5]))}. Pass the tables with all of them."
        )
    return table.assign(**{PREDICTED: np.asarray(model.predict(table[list(features)]))})


def split_off(pair: Pair, source: LossColumn) -> tuple[Pair, Losses]:
    """Take the column of the loss, which was read as a response, out of a pair, and return the losses of the rows."""
    place = next((i for i, column in enumerate(pair.y) if column.name == source.column), None)
    if place is None:
        raise ParameterError(
            f"`{source.option}` must be the name of one column, got {source.column!r}. Name the column of the "
            f"{source.option} in full."
        )
    others = [i for i in range(len(pair.y)) if i != place]
    if not others:
        raise ParameterError(
            f"`{source.option}` must be another column than `y`, got {source.column!r} for both. Name the column "
            f"of the {source.option}."
        )
    plain = replace(pair, y=tuple(pair.y[i] for i in others), yp=pair.yp[:, others], yq=pair.yq[:, others])
    if source.option == "loss":
        if pair.y[place].is_category and not _are_numbers(pair.y[place].labels):
            raise DataError(f"`loss` must be a column of numbers, got labels in {source.column!r}. Name another one.")
        values = [_as_numbers(pair, place, y) for y in (pair.yp, pair.yq)]
        return plain, (values[0], values[1])
    if len(others) > 1:
        raise ParameterError(
            f"`prediction` must be for one response, got {len(others)} columns as `y`. Compare them one by one, or "
            "pass a column of losses as `loss`."
        )
    with np.errstate(over="ignore"):
        losses = _loss(pair, others[0], place, pair.yp), _loss(pair, others[0], place, pair.yq)
    if not all(np.isfinite(loss).all() for loss in losses):
        raise DataError("the losses must be finite, but squares of the errors overflow. Rescale y and `prediction`.")
    return plain, losses


def _loss(pair: Pair, response: int, prediction: int, y: FloatArray) -> FloatArray:
    """Squared error of numbers, errors of labels, and the log loss of probabilities of the later of two labels."""
    truth, guess = pair.y[response], pair.y[prediction]
    if not truth.is_category:
        if guess.is_category and not _are_numbers(guess.labels):
            raise DataError(
                f"`prediction` must be a column of numbers, as {truth.name!r} is, got labels in {guess.name!r}. "
                "Name another column."
            )
        return np.asarray((y[:, response] - _as_numbers(pair, prediction, y)) ** 2)
    if guess.is_category:
        said = np.array(guess.labels, dtype=object)[y[:, prediction].astype(int)]
        true = np.array(truth.labels, dtype=object)[y[:, response].astype(int)]
        return np.asarray(said != true, dtype=np.float64)
    p = y[:, prediction]
    if len(truth.labels) != 2 or p.min() < 0 or p.max() > 1:
        raise DataError(
            f"`prediction` must hold labels of {truth.name!r}, or probabilities of the later of two labels, got "
            f"numbers from {p.min():.4g} to {p.max():.4g} for {len(truth.labels)} labels. Pass the predicted labels, "
            "or a column of losses as `loss`."
        )
    p = np.clip(p, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return np.asarray(-np.log(np.where(y[:, response] == 1, p, 1 - p)))


def _as_numbers(pair: Pair, place: int, y: FloatArray) -> FloatArray:
    """Return the values of a column that may have been taken for labels because it has two values."""
    column = pair.y[place]
    if not column.is_category:
        return np.asarray(y[:, place])
    return np.asarray(np.array([float(label) for label in column.labels])[y[:, place].astype(int)])


def _are_numbers(labels: Sequence[str]) -> bool:
    try:
        return bool([float(label) for label in labels])
    except ValueError:
        return False
