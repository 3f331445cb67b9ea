"""Time series, checked once, and the past values that predict them.

A series has a value for every step of a grid of equally spaced times; where none was measured it is NaN. A target is
used if it and its whole past were measured, so that no past reaches across a hole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from condcs._core.arrays import Array, BoolArray, ByValue, FloatArray, IntArray, backend_of, ranked
from condcs._core.checks import check_choice, check_integer, column_names
from condcs._core.errors import CondcsError, DataError, ParameterError, ShapeError
from condcs._core.vocabulary import named, setting

MissingTimes = Literal["error", "drop"]
"""What to do about NaN: refuse them, or leave out every time whose value or past is missing."""

FEWEST_TARGETS = 20
"""Fewest rows (target, past) that a score is computed on, and so that a window of a surrogate has. Fewer leave a
regression on a few past values hardly any residual; more would refuse short yearly series."""

_PERSISTENT = 0.5
"""Variance of the steps of a persistent series, as a share of that of its values, is less than this: its
autocorrelation at one step is above 0.75. The steps of chaotic maps, and of series that soon forget their past, vary
more."""

CLEAR_CORRELATION = 3.0
"""Standard errors from which an autocorrelation is clearly not 0: of a hundred that are 0, fewer than one exceeds
it."""

_UNEVEN, _MOST_UNEVEN = 0.25, 0.05
"""A step that differs from a multiple of the median by more than a quarter of it is uneven; one in 20 may be."""

_MOST_TIMES_PER_ROW = 1000
"""A grid of more times per row than this is refused: it would be almost empty and take that many times the memory of
the rows. Steps that short beside the others are a sign that the times are not what they seem."""

_MOST_ABOVE = 1000
"""Binary digits that the largest value may lie above the unit: 2**1024 is not a double any more."""


@dataclass(frozen=True, eq=False)
class Series(ByValue):
    """One variable over time.

    Attributes
    ----------
    name : str
        Name in messages, tables and figures.
    values : array, shape (n, columns), float64
        One row per time, in units of 2**exponent; NaN where there is none.
    exponent : int
        Of the unit, in which the median magnitude of a checked series is about 1: squares of values near 1e-160 or
        1e160 would underflow or overflow, and a power of two changes no digit.
    """

    name: str
    values: FloatArray
    exponent: int = 0

    def __len__(self) -> int:
        """Return the number of times."""
        return len(self.values)

    @property
    def measured(self) -> FloatArray:
        """Rows without a missing value."""
        return self.values[self.is_measured]

    @property
    def is_measured(self) -> BoolArray:
        """Whether each row has all its values."""
        return np.asarray(np.isfinite(self.values).all(axis=1))


def check_one_series(argument: str, value: Array, name: str, missing: MissingTimes) -> Series:
    """Check a variable of one or more columns."""
    values = _as_floats(argument, value)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ShapeError(
            f"{named(argument)} must have one or two dimensions (rows are times), got shape {values.shape}. "
            "Pass one row per time and one column per component."
        )
    columns = [name] if values.shape[1] == 1 else column_names(value) or range(values.shape[1])
    _check_values(argument, values, [str(c) for c in columns], missing)
    return _in_median_unit(name, on_grid(row_grid_indices(argument, value), values))


def check_series_table(
    argument: str, value: Array | Mapping[str, Array], missing: MissingTimes = "error"
) -> list[Series]:
    """Check an array (time, variables), a DataFrame, or a mapping from names to series: one variable per column."""
    if isinstance(value, Mapping):
        # Times that a series lacks are holes in time, which need no permission; NaN do.
        series = [check_one_series(argument, part, str(name), missing) for name, part in value.items()]
        aligned = _aligned(value)
        if aligned is not value:
            series = [check_one_series(argument, part, str(name), "drop") for name, part in aligned.items()]
        if len(series) < 2:
            raise ShapeError(f"{named(argument)} must hold at least two series, got {len(series)}. Add another.")
        check_same_length(*series)
        check_different(series)
        return series
    table = _as_floats(argument, value)
    if table.ndim != 2 or table.shape[1] < 2:
        raise ShapeError(
            f"{named(argument)} must have one row per time and at least two columns, one per variable, got shape "
            f"{table.shape}. Stack the series with np.column_stack."
        )
    if table.shape[0] < table.shape[1]:
        raise ShapeError(
            f"{named(argument)} must have more times than variables, got shape {table.shape}. Rows are times; if "
            f"{named(argument)} holds one variable per row, pass `{argument}.T`."
        )
    titles = [str(c) for c in column_names(value) or (f"x{i + 1}" for i in range(table.shape[1]))]
    repeated = next((title for title in titles if titles.count(title) > 1), None)
    if repeated is not None:
        raise ParameterError(
            f"{named(argument)} must have columns with different names, got {repeated!r} twice. Rename one of them."
        )
    _check_values(argument, table, titles, missing)
    table = on_grid(row_grid_indices(argument, value), table)
    series = [_in_median_unit(title, np.ascontiguousarray(table[:, [j]])) for j, title in enumerate(titles)]
    check_different(series)
    return series


def row_grid_indices(argument: str, value: Any) -> IntArray | None:
    """Return the indices of the rows of a pandas object on a grid of equally spaced times, None without an index."""
    index = getattr(value, "index", None)
    if index is None or not hasattr(index, "is_monotonic_increasing"):
        return None
    if not index.is_monotonic_increasing:
        raise DataError(
            f"{named(argument)} must be in time order, but its index goes backwards. Sort it: "
            f"`{argument}.sort_index()`."
        )
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise DataError(
            f"{named(argument)} must have one row per time, but its index holds {twice!s} more than once. Average or "
            "drop the repeated rows."
        )
    times = np.asarray(index.asi8 if hasattr(index, "asi8") else index)
    return grid_indices(times.astype(np.float64), f"{named(argument)}") if times.dtype.kind in "iuf" else None


@dataclass(frozen=True, eq=False)
class TimeAxis(ByValue):
    """The times of the rows of a table, for pictures.

    Attributes
    ----------
    name : str
        The column that holds them.
    values : array, shape (n,)
        Numbers that grow; dates as days since 1970.
    are_dates : bool
        Whether they are dates.
    """

    name: str
    values: FloatArray
    are_dates: bool


def grid_indices(times: FloatArray, what: str) -> IntArray:
    """Return the index of each time on a grid of equally spaced times; `times` increase.

    The step of the grid is the median step. A step of 1.5 times that and more is a hole, and as long as the number of
    steps that it is nearest to.

    Examples
    --------
    >>> grid_indices(np.array([0.0, 0.25, 0.5, 0.76, 1.75]), "the series").tolist()
    [0, 1, 2, 3, 7]
    """
    steps = np.diff(times)
    if not len(steps):
        return np.zeros(len(times), np.int64)
    lengths = np.maximum(np.rint(steps / np.median(steps)), 1)
    indices = np.concatenate([[0], np.cumsum(lengths)])
    uneven = float(np.mean(np.abs(steps / np.median(steps) - lengths) > _UNEVEN))
    if uneven > _MOST_UNEVEN or indices[-1] > _MOST_TIMES_PER_ROW * len(times):
        raise DataError(
            f"{what} must have equally spaced times, holes apart, but {uneven:.0%} of the steps are no multiple of the "
            f"median step, {np.median(steps):g}, and {indices[-1] + 1:,.0f} times would hold {len(times):,} rows. "
            "Resample it to equal steps, or leave the times out to take every row as the step after the one before."
        )
    return indices.astype(np.int64)


def on_grid(grid_indices: IntArray | None, values: FloatArray) -> FloatArray:
    """Put each row at its index on the grid; rows in between are NaN."""
    if grid_indices is None or len(values) == 0 or grid_indices[-1] == len(values) - 1:
        return values
    rows_on_grid = np.full((grid_indices[-1] + 1, *values.shape[1:]), np.nan)
    rows_on_grid[grid_indices] = values
    return rows_on_grid


def _aligned(series: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return pandas series on the times of all of them together, NaN where one has none; others as they are."""
    indices: list[Any] = [getattr(one, "index", None) for one in series.values()]
    if not indices or not all(hasattr(index, "union") for index in indices):
        return series
    together = indices[0]
    for index in indices[1:]:
        if not together.equals(index):
            together = together.union(index)
    return {name: one if one.index.equals(together) else one.reindex(together) for name, one in series.items()}


def check_kind(argument: str, value: Any, kinds: Sequence[Any], *others: str) -> Any:
    """Check a value of one of several classes, or the name of one, which stands for its default options."""
    by_name = {kind.name: kind for kind in kinds}
    if isinstance(value, tuple(kinds)):
        return value
    if isinstance(value, str) and value in by_name:
        return by_name[value]()
    raise ParameterError(
        f"{named(argument)} must be one of {', '.join(map(repr, [*by_name, *others]))}, or an instance of "
        f"{', '.join(kind.__name__ for kind in kinds)}, got {value!r}. Pass {setting(argument, next(iter(by_name)))}."
    )


def check_flag(argument: str, value: Any) -> bool:
    """Check that an option is True or False."""
    if not isinstance(value, bool):
        raise ParameterError(
            f"{named(argument)} must be True or False, got {value!r}. Pass {setting(argument, False)}."
        )
    return value


def in_common_unit(series: Sequence[Series]) -> tuple[Series, ...]:
    """Express all series in the largest of their units, for measures that compare values of different series."""
    largest = max(one.exponent for one in series)
    return tuple(Series(one.name, np.ldexp(one.values, one.exponent - largest), largest) for one in series)


def in_ranks(series: list[Series]) -> list[Series]:
    """Replace the values of each series by their ranks."""
    ranked_series = []
    for one in series:
        values = np.full_like(one.values, np.nan)
        values[one.is_measured] = ranked(one.measured)
        ranked_series.append(Series(one.name, values))
    return ranked_series


def check_same_length(first: Series, *others: Series) -> None:
    """Check that all series cover the same times."""
    for other in others:
        if len(other) != len(first):
            raise ShapeError(
                f"{named(first.name)} and {named(other.name)} must have the same number of times, got {len(first)} and "
                f"{len(other)}. Restrict them to the times they share."
            )


def check_different(series: Sequence[Series]) -> None:
    """Check that no series is a copy of another."""
    for j, b in enumerate(series):
        for a in series[:j]:
            if a.exponent == b.exponent and np.array_equal(a.values, b.values, equal_nan=True):
                raise DataError(
                    f"{named(a.name)} and {named(b.name)} must be different series, but they are equal. Drop one of "
                    "them: copies cannot be told apart."
                )


def _in_median_unit(name: str, values: FloatArray) -> Series:
    """Return a series in units of the power of two near the median of its magnitudes."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    median = np.partition(sizes, len(sizes) // 2)[len(sizes) // 2]
    # The exponents of the powers of two next to these two.
    middle, largest = np.frexp([median, sizes.max()])[1]
    # Not the largest value but the median counts, so that one outlier does not push the others out of range.
    exponent = int(max(middle, largest - _MOST_ABOVE))
    return Series(name, np.ldexp(values, -exponent), exponent)


def _as_floats(argument: str, value: Any) -> FloatArray:
    """Return an array of any library as float64; an error says which columns hold something else."""
    if value is None or isinstance(value, str | bytes | dict | set):
        raise DataError(
            f"{named(argument)} must be an array, got {type(value).__name__}. Pass numbers, one row per time."
        )
    backend = backend_of(value)
    value = backend.to_numpy(value) if backend.name != "numpy" else value
    try:
        array = np.asarray(value)
        if array.dtype.kind in "cM":
            raise TypeError
        return array.astype(np.float64)
    except CondcsError:
        raise
    except (TypeError, ValueError) as error:
        got = str(getattr(value, "dtype", type(value).__name__))
        if hasattr(value, "dtypes") and hasattr(value, "columns"):
            others = [
                repr(name) for name, kind in zip(value.columns, value.dtypes, strict=True) if not _is_numeric(kind)
            ]
            got += f" with others in {', '.join(others[:5])}" if others else ""
        raise DataError(
            f"{named(argument)} must hold numbers only, got {got}. Drop columns of dates and labels; times belong in "
            "the index."
        ) from error


def _is_numeric(kind: Any) -> bool:
    return getattr(kind, "kind", "O") in "fiub"


def _check_values(argument: str, values: FloatArray, names: Sequence[str], missing: MissingTimes) -> None:
    """Check that there are rows, values in every column, none that are infinite or not allowed to be missing."""
    check_choice("missing", missing, get_args(MissingTimes))
    if not len(values):
        raise ShapeError(f"{named(argument)} must have rows, got none. Pass one row per time.")
    absent = np.isnan(values).all(axis=0)  # (columns,)
    if absent.any():
        raise DataError(
            f"{named(argument)} must have values, but column {names[int(np.argmax(absent))]!r} is NaN. Drop it."
        )
    allowed, kind, remedy = np.isnan(values), "infinite", "Use NaN where there is no value"
    if missing == "error" and allowed.any():
        allowed, kind = np.zeros_like(allowed), "missing or infinite"
        remedy = (
            f"Fill gaps in, or pass {setting('missing', 'drop')} to leave out every time whose value or past is missing"
        )
    bad = ~(np.isfinite(values) | allowed)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise DataError(
            f"{named(argument)} must have finite values, got {int(bad.sum())} {kind} one(s), first in row {row}, "
            f"column {names[column]!r}. {remedy}."
        )
    constant = np.flatnonzero(np.nanmax(values, axis=0) == np.nanmin(values, axis=0))
    if len(constant):
        raise DataError(
            f"{named(argument)} must vary, but column {names[int(constant[0])]!r} is constant. Drop it: a constant "
            "neither drives nor is driven."
        )


@dataclass(frozen=True)
class Embedding:
    r"""Which past values predict the target.

    The target :math:`y_t` is predicted from its own past :math:`y_{t-1}, y_{t-1-\tau}, \ldots` (`order_y` values) and
    from the source's :math:`x_{t-\delta}, x_{t-\delta-\tau}, \ldots` (`order_x` values), with :math:`\tau` = `lag` and
    :math:`\delta` = `delay`. With ``lag=1``, or with ``delay=1`` for any lag, this is the paper's embedding.

    Attributes
    ----------
    order : int or (int, int)
        Number of past values of both series, or of x and of y.
    lag : int
        Spacing of the past values.
    delay : int, optional
        Steps from the latest value of the source to the target; by default `lag`. The own past always starts one step
        back.
    """

    order: int | tuple[int, int] = 1
    lag: int = 1
    delay: int | None = None

    def __post_init__(self) -> None:
        for order in self.order if isinstance(self.order, tuple) and len(self.order) == 2 else (self.order,):
            check_integer("order", order, 1)
        check_integer("lag", self.lag, 1)
        if self.delay is not None:
            check_integer("delay", self.delay, 1)

    @property
    def order_x(self) -> int:
        """Number of past values of the source."""
        return self.order[0] if isinstance(self.order, tuple) else self.order

    @property
    def order_y(self) -> int:
        """Number of past values of the target."""
        return self.order[1] if isinstance(self.order, tuple) else self.order

    def words(self) -> str:
        """Say lag and order in a few words."""
        return f"lag {self.lag}, order {self.order_x}"

    @property
    def own_steps(self) -> tuple[int, ...]:
        """How many steps before the target its own past values lie."""
        return tuple(1 + k * self.lag for k in range(self.order_y))

    @property
    def source_steps(self) -> tuple[int, ...]:
        """How many steps before the target the source's past values lie."""
        delay = self.lag if self.delay is None else self.delay
        return tuple(delay + k * self.lag for k in range(self.order_x))

    @property
    def reach(self) -> int:
        """How many times at the start have no complete past."""
        return max(*self.own_steps, *self.source_steps)


def check_embedding(embedding: Any, length: int) -> Embedding:
    """Check an embedding, or a number of past values, against the length of the series."""
    is_order = isinstance(embedding, int | np.integer) and not isinstance(embedding, bool) and embedding >= 1
    if not is_order and not isinstance(embedding, Embedding):
        raise ParameterError(
            f"{named('embedding')} must be a number of past values (1 or more) or an Embedding, got {embedding!r}. "
            f"Pass e.g. embedding=Embedding(order=2, lag=1)."
        )
    checked: Embedding = Embedding(int(embedding)) if is_order else embedding
    if length - checked.reach < FEWEST_TARGETS:
        raise ShapeError(
            f"the series must have at least {FEWEST_TARGETS + checked.reach} times, {FEWEST_TARGETS} of them with a "
            f"past of {checked.words()}, got {length}. Use longer series, or fewer or shorter lags."
        )
    return checked


class Link(NamedTuple):
    """A possible influence: indices of the source, the target, and the series whose pasts are conditioned on."""

    source: int
    target: int
    conditioning_set: tuple[int, ...] = ()


@dataclass(frozen=True)
class CausalProblem:
    """Series of equal length, their embedding, and the links to test.

    All links have the same rows: targets, not before `first`, that were measured together with every past value that
    any of the links looks at.
    """

    series: tuple[Series, ...]
    embedding: Embedding
    links: tuple[Link, ...]
    first: int = 0

    @cached_property
    def times(self) -> IntArray:
        """Times of the targets."""
        n, reach = len(self.series[0]), self.embedding.reach
        complete = np.arange(n) >= max(self.first, reach)  # (n,)
        if reach >= n:
            return np.flatnonzero(complete)
        for v, steps in {part for link in self.links for part in self._looked_at(link)}:
            is_measured = self.series[v].is_measured
            for s in steps:
                complete[reach:] &= is_measured[reach - s : n - s]
        return np.flatnonzero(complete)

    def _looked_at(self, link: Link) -> list[tuple[int, tuple[int, ...]]]:
        """Return the series that a link looks at, each with its steps before the target; 0 is the target itself."""
        e = self.embedding
        return [(link.target, (0, *e.own_steps)), *((v, e.source_steps) for v in (link.source, *link.conditioning_set))]

    @property
    def rows(self) -> int:
        """Number of targets."""
        return len(self.times)

    def past(self, v: int, steps: Sequence[int]) -> FloatArray:
        """Return the values of a series so many steps before the targets, as columns; step 0 is the target itself."""
        return np.concatenate([self.series[v].values[self.times - s] for s in steps], axis=1)

    def parts(self, link: Link) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the targets, the pasts that are conditioned on (the target's own first), and the source's past."""
        e = self.embedding
        pasts = [self.past(link.target, e.own_steps), *(self.past(z, e.source_steps) for z in link.conditioning_set)]
        return self.past(link.target, (0,)), np.concatenate(pasts, axis=1), self.past(link.source, e.source_steps)


def persistent_columns(values: FloatArray) -> BoolArray:
    """Return which columns of a series are persistent, shape (columns,): their steps vary clearly less than they do.

    Two values of such a column that are one step apart are nearly equal. Of the two as inputs of a regression, the
    penalty shrinks what tells them apart, which may be all that drives the target; so regressions are on the later
    value and on the step between them. Columns without two values one step apart are not persistent.
    """
    steps = np.diff(values, axis=0)
    return np.array(
        [
            _measured_variance(steps[:, column], if_none=np.inf) < _PERSISTENT * _measured_variance(values[:, column])
            for column in range(values.shape[1])
        ]
    )


def needs_steps(values: FloatArray) -> bool:
    """Whether any column of a series is persistent and the steps of it are clearly autocorrelated.

    Its last value then does not tell its next step, which the step before does. A likelihood of values hardly shows it,
    because the steps are a small part of them.
    """
    steps = np.diff(values, axis=0)[:, persistent_columns(values)]  # (times - 1, persistent columns)
    for column in range(steps.shape[1]):
        centred = steps[:, column] - np.nanmean(steps[:, column])
        products = centred[1:] * centred[:-1]
        pairs = int(np.isfinite(products).sum())
        correlation = np.nansum(products) / np.nansum(centred**2) if pairs else 0.0
        if abs(correlation) * np.sqrt(pairs) > CLEAR_CORRELATION:
            return True
    return False


def _measured_variance(values: FloatArray, if_none: float = np.nan) -> float:
    """Return the variance of the values (n,) that are not NaN."""
    measured = values[np.isfinite(values)]
    return float(measured.var()) if len(measured) else if_none


def level_and_steps(pasts: Sequence[FloatArray], persistent: BoolArray) -> FloatArray:
    """Return past values, the latest first, as columns; of persistent ones the latest, and the steps up to each.

    `pasts` are (rows, columns) each, and `persistent` is (columns,). Values and steps determine one another, so that
    to condition on the ones is to condition on the others.
    """
    steps = [np.where(persistent, later - earlier, earlier) for later, earlier in pairwise(pasts)]
    return np.hstack([pasts[0], *steps])


def check_rows(problem: CausalProblem) -> None:
    """Refuse links of which too few targets were measured together with their past."""
    if problem.rows < FEWEST_TARGETS:
        link = problem.links[0]
        source, target = (problem.series[v].name for v in link[:2])
        raise ShapeError(
            f"{named(source)} and {named(target)} must have at least {FEWEST_TARGETS} times with a complete past of "
            f"{problem.embedding.words()}, got {problem.rows} of {len(problem.series[0]):,} because of missing values. "
            "Use fewer or shorter lags, or leave out the series with most gaps."
        )
