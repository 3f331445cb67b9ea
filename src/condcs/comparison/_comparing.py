"""The comparison of two tables: read, test the inputs, test the relation, measure its change, find the regions.

And the same as an assertion, for the tests of a pipeline.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, get_args

import numpy as np

from condcs._core.checks import check_alpha, check_choice, check_integer, check_positive, check_rng
from condcs._core.errors import DataError, ParameterError, public
from condcs._core.printable import harmless
from condcs._tables.in_memory import TableInMemory, as_table, column_patterns
from condcs._tables.pair import FEWEST_ROWS, Missing, Pair, ReadOptions, read_pair
from condcs._tables.sources import FileOptions
from condcs.comparison._losses import PREDICTED, LossColumn, split_off, with_predictions
from condcs.comparison._regions import Places, find_places
from condcs.comparison._result import Comparison, Limits
from condcs.comparison._shifts import (
    Losses,
    Shift,
    Sizes,
    Tell,
    collected_warnings,
    compare_inputs,
    compare_relation,
    known_rows,
    measure_sizes,
)
from condcs.comparison._wording import responses, set_lines, sizes, where

STEPS = {"reading": 0.05, "inputs": 0.15, "relation": 0.45, "how sure": 0.15, "how large": 0.12, "where": 0.08}
"""The steps that `compare` tells of as they begin, and about how much of the time each takes."""

MOST_ROWS = 100_000
"""Rows of each table that are compared at most by default, whatever the time budget."""
_SECONDS, _SECONDS_PER_ROW = 3.0, 0.0016
"""Processor time of a comparison: the part that does not grow, and what every pooled row adds."""

Columns = str | int | Sequence[str | int]


@public
def compare(
    reference: Any,
    current: Any,
    *,
    y: Columns,
    x: Columns | None = None,
    alpha: float = 0.05,
    n_resamples: int = 199,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    max_rows: int | None = None,
    time_budget: float = 60.0,
    prediction: Any = None,
    loss: str | int | None = None,
    tolerance: float | None = None,
    min_effect: float | None = None,
    category: Columns = (),
    number: Columns = (),
    missing: Missing = "error",
    weights: str | int | None = None,
    cluster: str | int | None = None,
    files: FileOptions | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Say whether the relation of y to x changed between two tables, where, and how sure that is.

    Two questions are asked separately, to distinguish a covariate shift from a change of the relation:
    whether p(x) is the same (by permutations, which are exact), and whether p(y|x) is (the conditional CS
    test with the propensity null, so that shifted inputs alone are no evidence). Each has one p-value for several
    views together: bandwidths, or kinds of change. How large the change is comes in units of y, as a difference of
    the means of y for equal inputs, over the inputs that both tables have. Numbers get Gaussian kernels in units of
    their pooled standard deviation, text gets delta kernels; a response with two values is a label. Cost O(n^2) for up
    to 10,000 pooled rows, and linear in their number beyond; memory O(n).

    Parameters
    ----------
    reference, current : DataFrame, pyarrow Table, dict of columns, 2-d array, str or Path
        The earlier and the later table: of pandas or polars, a mapping from names to sequences, an array with
        variables in its columns, or the path of a file (csv, jsonl, parquet, arrow or xlsx; "-" is standard input).
        The columns are those of the reference; the current table must have them too, in any order.
    y : str, int or sequence of them
        Response: names, globs (``"sensor_*"``), several with commas between them; numbers for the columns of an array.
    x : str, int or sequence of them, optional
        Inputs; ``"!name"`` leaves one out. By default all columns but y.
    alpha : float
        Level of both tests.
    n_resamples : int
        Resamples of each test.
    rng : int or Generator
        Seed of the sample of rows and of the tests.
    n_jobs : int, optional
        Threads; by default one per core.
    max_rows : int, optional
        Rows of each table that are compared; of longer ones a uniform sample. By default as many as `time_budget`
        allows for.
    time_budget : float
        Seconds of processor time that the comparison may take, about; what it means for the rows is said.
    prediction : str, int, or fitted model, optional
        A model's prediction of y: its column, which is then no input, or a scikit-learn model, which is asked to
        predict. The result's `loss_change` says why the model got worse: inputs that moved, inputs that are new, or the
        relation. The loss is the squared error of numbers, the share of errors of labels, and the log loss if y has two
        labels and the predictions are probabilities of the later one.
    loss : str or int, optional
        The same for a column that holds the loss of every row.
    tolerance : float, optional
        Changes of y for equal inputs, in its units (for labels, in shares), that are too small to matter. The answer is
        then "changed" only if mean or spread of y changed by more, over all inputs (in root mean square) or in a
        region, and "same" only if both did by less, with confidence.
    min_effect : float, optional
        The same as a loss of overlap: with 0.05, overlaps above 0.95 are too small a change to matter.
    category, number : str, int or sequence of them
        Columns of numbers that are labels, and responses of two values that are numbers.
    missing : {"error", "drop", "as-value"}
        Whether rows with missing values are an error, or left out, or gaps of x count as values: a category "missing",
        or the median of a number and a column that flags the gaps. Rows without y are then left out.
    weights : str or int, optional
        Column of positive weights of the rows; it is no input.
    cluster : str or int, optional
        Column that says which rows belong together (a customer, a day): labels are redrawn by cluster. It is no input.
    files : FileOptions, optional
        How files, and numbers in text, are read.
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
    >>> found = compare(month(2), month(3), y="price", n_resamples=39)
    >>> found.relation_changed, found.inputs_shifted
    (True, False)
    >>> round(found.effects[0].average.value, -1)
    100.0
    """
    check_level(alpha, n_resamples)
    limits = Limits(_checked("tolerance", tolerance), _checked("min_effect", min_effect, below=1.0))
    source = loss_source(prediction, loss)
    if source is not None and source.column == PREDICTED:
        reference, current = with_predictions((reference, current), prediction, y, x)
    tables = as_table("reference", reference), as_table("current", current)
    seed = as_seed(rng)
    budget = check_positive("time_budget", time_budget)
    options = read_options(
        tables[0],
        {"x": x, "y": y, "category": category, "number": number, "weights": weights, "cluster": cluster},
        missing=missing,
        max_rows=rows_within(budget) if max_rows is None else max_rows,
        seed=seed,
        files=files,
    )
    if source is not None:
        (column,) = column_patterns(source.option, source.column, tables[0])
        source = LossColumn(source.option, column)
        options = replace(options, y=[*options.y, column])
    tell = progress or (lambda step: None)
    tell("reading")
    pair, losses = read_with_losses(tables, options, source)
    found = compare_pair(
        pair, alpha=alpha, n_resamples=n_resamples, seed=seed, n_jobs=n_jobs, tell=tell, losses=losses, limits=limits
    )
    if max_rows is not None or not (pair.reference.sampled or pair.current.sampled):
        return found
    said = (
        f"At most {options.max_rows:,} rows of each table were compared, to stay within {budget:g} s of processor "
        "time. Raise `time_budget`, or set `max_rows`, to compare more."
    )
    return replace(found, notes=(said, *found.notes))


def read_options(
    table: str | TableInMemory,
    columns: Mapping[str, Any],
    *,
    missing: Missing,
    max_rows: int,
    seed: int,
    files: FileOptions | None,
) -> ReadOptions:
    """Return checked options of reading; `columns` says for each option which columns of a table it names."""
    check_choice("missing", missing, get_args(Missing))
    files = FileOptions() if files is None else files
    if not isinstance(files, FileOptions):
        raise ParameterError(
            f"`files` must be a FileOptions, got {type(files).__name__}. Pass e.g. "
            "files=FileOptions(encoding='latin-1')."
        )
    patterns = {option: column_patterns(option, given, table) for option, given in columns.items()}
    rows = check_integer("max_rows", max_rows, FEWEST_ROWS)
    return ReadOptions(**patterns, missing=missing, max_rows=rows, seed=seed, files=files)


def as_seed(rng: int | np.random.Generator | None) -> int:
    """Return a seed for all that is random: the number itself, or one drawn."""
    generator = check_rng(rng)
    return int(rng) if isinstance(rng, Integral) else int(generator.integers(2**31))


def compare_pair(
    pair: Pair,
    *,
    alpha: float,
    n_resamples: int,
    seed: int,
    n_jobs: int | None,
    tell: Tell,
    losses: Losses | None = None,
    limits: Limits | None = None,
) -> Comparison:
    """Compare two tables that have been read."""

    def run() -> tuple[Shift, Shift, Sizes, Places]:
        tell("inputs")
        ground = known_rows(pair, seed)
        inputs = compare_inputs(pair, ground, resamples=n_resamples, seed=seed)
        tell("relation")
        relation = compare_relation(pair, ground, resamples=n_resamples, seed=seed, jobs=n_jobs, tell=tell)
        tell("how large")
        sizes = measure_sizes(pair, ground, losses, alpha=alpha, seed=seed)
        tell("where")
        return inputs, relation, sizes, find_places(pair, ground, seed=seed, alpha=alpha)

    (inputs, relation, sizes, places), said = collected_warnings(run)
    return Comparison(
        pair,
        inputs,
        relation,
        sizes,
        places,
        alpha,
        n_resamples,
        seed,
        (*pair.notes, *said),
        Limits() if limits is None else limits,
    )


def loss_source(prediction: Any, loss: str | int | None) -> LossColumn | None:
    """Return where the loss of a row comes from, or None if none was asked for."""
    if prediction is None:
        return None if loss is None else LossColumn("loss", loss)
    if loss is not None:
        raise ParameterError(
            f"`loss` must be None if `prediction` is given, got {loss!r}. Pass the one that the tables hold."
        )
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


def _checked(name: str, value: float | None, below: float = np.inf) -> float | None:
    if value is None:
        return None
    if check_positive(name, value) >= below:
        raise ParameterError(f"`{name}` must lie below {below:g}, got {value!r}. Pass e.g. {name}=0.05.")
    return float(value)


def check_level(alpha: Any, n_resamples: Any) -> None:
    """Check that a level is one, and that this many resamples can reach it."""
    check_alpha(alpha)
    check_integer("n_resamples", n_resamples, 1)
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
    alpha: float = 0.01,
    tolerance: float | None = None,
    **options: Any,
) -> Comparison:
    """Raise an AssertionError if the relation of y to x changed between two tables.

    The same tables with the same `rng` always pass or always fail. Where nothing changed, an assertion on new tables
    fails with probability alpha; that the inputs shifted is no failure.

    Parameters
    ----------
    reference, current : DataFrame, pyarrow Table, dict of columns, 2-d array, str or Path
        The two tables, as in `condcs.compare`.
    y, x : str, int or sequence of them
        Response and inputs, as in `condcs.compare`.
    alpha : float
        Level of the test: how often an unchanged relation fails.
    tolerance : float, optional
        A change that does not matter, in the units of y, as in `condcs.compare`.
    **options
        Further keywords of `condcs.compare`, such as ``missing="drop"``.

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
    AssertionError: The relation of price to the inputs changed...
    """
    __tracebackhide__ = True  # pytest then shows the line of the test, not this one
    if tolerance is not None:
        options["tolerance"] = tolerance
    # Unwrapped, so that errors name this function.
    found: Comparison = inspect.unwrap(compare)(reference, current, y=y, x=x, alpha=alpha, **options)
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
