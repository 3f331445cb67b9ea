"""The groups of one table, each compared with others: which months differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypedDict, Unpack, get_args

import numpy as np

import condcs
from condcs._core.checks import check_choice
from condcs._core.errors import DataError, OverlapError, public
from condcs._tables.grouped_table import GroupedTable, read_groups
from condcs._tables.in_memory import as_table, column_patterns
from condcs._tables.pair import Missing
from condcs._tables.sources import FileOptions
from condcs.comparison._comparing import Columns, as_seed, check_level, compare_pair, read_options
from condcs.comparison._group_comparison import GroupComparison
from condcs.comparison._shifts import kernels, standardised

Against = Literal["rest", "first", "previous"]
"""What each group is compared with."""

FloatArray = np.ndarray[Any, Any]


class TableOptions(TypedDict, total=False):
    """How a table is read: keywords of `condcs.compare`."""

    category: Columns
    number: Columns
    missing: Missing
    weights: str | int | None
    cluster: str | int | None
    max_rows: int
    files: FileOptions | None


@public
def compare_groups(
    table: Any,
    *,
    group: str | int,
    y: Columns,
    x: Columns | None = None,
    against: Against = "rest",
    alpha: float = 0.05,
    n_resamples: int | None = None,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    matrix: bool = False,
    progress: Callable[[str], None] | None = None,
    **options: Unpack[TableOptions],
) -> GroupComparison:
    """Say in which groups of a table (months, sites, versions) the relation of y to x differs.

    Each group is compared as `condcs.compare` compares two tables, and the p-values are adjusted for their number
    (Holm): the probability of naming any group whose relation is the same is at most alpha.

    Parameters
    ----------
    table : DataFrame, pyarrow Table, dict of columns, 2-d array, str or Path
        As in `condcs.compare`.
    group : str or int
        Column that names the groups: at most 50, of 10 rows or more. It is no input.
    y, x : str, int or sequence of them
        Response and inputs, as in `condcs.compare`.
    against : {"rest", "first", "previous"}
        Each group against all others together, against the first group, or against the one before it. Groups are in
        the order of their numbers or dates, other names in that of their first rows.
    alpha : float
        Level of the tests, for all groups together.
    n_resamples : int, optional
        Resamples of each test; by default 199, or more where the adjustment needs them.
    rng, n_jobs, progress
        As in `condcs.compare`.
    matrix : bool
        Whether to estimate the conditional CS divergence between all pairs of groups as well.
    **options
        `category`, `number`, `missing`, `weights`, `cluster`, `max_rows` (of each group) and `files`, as in
        `condcs.compare`.

    Returns
    -------
    GroupComparison
        `changed` names the groups; `comparisons` holds what `condcs.compare` finds for each.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> month = np.repeat(["January", "February", "March"], 80)
    >>> area = rng.normal(100, 20, size=240)
    >>> price = np.where(month == "March", 3, 2) * area + rng.normal(0, 10, size=240)
    >>> found = compare_groups(
    ...     {"month": month, "area": area, "price": price}, group="month", y="price", against="first"
    ... )
    >>> found.changed
    ('March',)
    """
    check_choice("against", against, get_args(Against))
    check_level(alpha, 199 if n_resamples is None else n_resamples)
    source, seed, tell = as_table("table", table), as_seed(rng), progress or (lambda step: None)
    columns = {name: options.get(name, ()) for name in ("category", "number", "weights", "cluster")}
    reading = read_options(
        source,
        {"x": x, "y": y, **columns},
        missing=options.get("missing", "error"),
        max_rows=options.get("max_rows", 2000),
        seed=seed,
        files=options.get("files"),
    )
    tell("reading")
    groups = read_groups(source, column_patterns("group", group, source), reading)
    pairs = list(_references(len(groups.groups), against))
    if n_resamples is None:
        # Half the level is within reach of the smallest of the adjusted p-values.
        n_resamples = max(199, math.ceil(2 * len(pairs) / alpha) - 1)
    check_level(alpha / len(pairs), n_resamples)
    names, found, notes = [], [], list(groups.notes)
    for places, current in pairs:
        name = groups.groups[current]
        try:
            pair = groups.pair(places, current, reading.max_rows)
        except (DataError, OverlapError) as error:
            notes.append(f"{name} could not be compared: {error}")
            continue
        compared = compare_pair(
            pair, alpha=alpha, n_resamples=n_resamples, seed=seed, n_jobs=n_jobs, tell=_telling(tell, name)
        )
        names.append(name)
        found.append(compared)
    if not found:
        raise DataError(" ".join(["no group could be compared.", *notes]))
    return GroupComparison(
        title=groups.title,
        column=groups.column,
        against=against,
        names=tuple(names),
        comparisons=tuple(found),
        alpha=alpha,
        groups=groups.groups,
        divergences=_divergences(groups) if matrix else None,
        notes=tuple(notes),
    )


def _references(count: int, against: Against) -> Iterator[tuple[list[int], int]]:
    """Yield what each group is compared with, and the group."""
    for current in range(0 if against == "rest" else 1, count):
        if against == "rest":
            yield [place for place in range(count) if place != current], current
        else:
            yield [0 if against == "first" else current - 1], current


def _telling(tell: Callable[[str], None], name: str) -> Callable[[str], None]:
    return lambda step: tell(f"{name}: {step}")


def _divergences(groups: GroupedTable) -> FloatArray:
    """Return the conditional CS divergence between all pairs of groups, with the widths of all rows together."""
    x, y, arrays = groups.arrays()
    ends = np.cumsum([len(gx) for gx, _ in arrays])[:-1]
    parts = []
    for place, columns in enumerate((x, y)):
        pooled = np.concatenate([a[place] for a in arrays])
        scaled, _ = standardised(columns, pooled, pooled[:0])
        parts.append(np.split(scaled, ends))
    samples = list(zip(*parts, strict=True))
    return np.asarray(condcs.pairwise(samples, kernel_x=kernels(x), kernel_y=kernels(y)))
