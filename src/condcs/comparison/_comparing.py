"""The comparison of two tables: read, test the inputs, test the relation, find the regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, get_args

import numpy as np

from condcs._core.checks import check_alpha, check_choice, check_integer
from condcs._core.errors import ParameterError, public
from condcs._core.random import check_rng
from condcs._tables.in_memory import TableInMemory, as_table, column_patterns
from condcs._tables.pair import FEWEST_ROWS, Missing, Pair, ReadOptions, read_pair
from condcs._tables.sources import FileOptions
from condcs.comparison._regions import Places, find_places
from condcs.comparison._result import Comparison
from condcs.comparison._shifts import Shift, Tell, collected_warnings, compare_inputs, compare_relation

STEPS = 9
"""How often `compare` tells where it is, at most: the reading, four widths of the inputs, five of the relation, an
interval for each, the regions."""

Columns = str | int | Sequence[str | int]


@public
def compare(
    reference: Any,
    current: Any,
    *,
    y: Columns,
    x: Columns | None = None,
    alpha: float = 0.05,
    n_resamples: int = 299,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    max_rows: int = 2000,
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
    whether p(x) is the same (a CS test with permutations, which is exact), and whether p(y|x) is (the conditional CS
    test with the propensity null, so that shifted inputs alone are no evidence). Each has one p-value for several
    views together: bandwidths, or kinds of change. Numbers get Gaussian kernels in units of their pooled standard
    deviation, text gets delta kernels; a response with two values is a label. Cost O(n^2) per bandwidth with
    n = 2 `max_rows`; memory O(n).

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
    max_rows : int
        Rows of each table that are compared; of longer ones a uniform sample.
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
        `relation_changed`, `inputs_shifted`, `relation`, `inputs`, `regions` and `verdict`; it prints as a summary,
        shows as a page in notebooks, and has the methods `report`, `plot` and `to_dict`.

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
    >>> print(found.verdict)
    The relation of price to the inputs changed (p = 0.025); no evidence that the inputs shifted.
    """
    check_level(alpha, n_resamples)
    tables = as_table("reference", reference), as_table("current", current)
    seed = as_seed(rng)
    options = read_options(
        tables[0],
        {"x": x, "y": y, "category": category, "number": number, "weights": weights, "cluster": cluster},
        missing=missing,
        max_rows=max_rows,
        seed=seed,
        files=files,
    )
    tell = progress or (lambda step: None)
    tell("reading")
    pair = read_pair(*tables, options)
    return compare_pair(pair, alpha=alpha, n_resamples=n_resamples, seed=seed, n_jobs=n_jobs, tell=tell)


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
    pair: Pair, *, alpha: float, n_resamples: int, seed: int, n_jobs: int | None, tell: Tell
) -> Comparison:
    """Compare two tables that have been read."""

    def run() -> tuple[Shift, Shift, Places]:
        inputs = compare_inputs(pair, resamples=n_resamples, seed=seed, jobs=n_jobs, tell=tell)
        relation = compare_relation(pair, resamples=n_resamples, seed=seed, jobs=n_jobs, tell=tell)
        tell("where")
        return inputs, relation, find_places(pair, seed=seed, alpha=alpha)

    (inputs, relation, places), said = collected_warnings(run)
    return Comparison(pair, inputs, relation, places, alpha, n_resamples, seed, (*pair.notes, *said))


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
