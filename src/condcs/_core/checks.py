"""Input checks: done once, in public functions; every message names the argument, the rule and the remedy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import accumulate
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from condcs._core.arrays import AnyArray, Array, Backend, IntArray, backend_of
from condcs._core.errors import CondcsError, DataError, ParameterError, ShapeError
from condcs._core.printable import counted
from condcs._core.vocabulary import named, setting

Choice = TypeVar("Choice", bound=str)

Parts = Sequence[tuple[str, Any]]
"""The arguments that hold one variable of each group, with their names: ``[("xp", xp), ("xq", xq)]``."""


def as_numpy(array: Array) -> Array:
    """Take tensors to numpy, where no gradients are needed. Everything else, None included, is left as it is."""
    backend = backend_of(array)
    return array if backend.name == "numpy" else backend.to_numpy(array)


def numpy_parts(**arrays: Any) -> Parts:
    """Return arguments with their names, tensors as numpy arrays: tests resample values and need no gradients."""
    return [(name, as_numpy(array)) for name, array in arrays.items()]


@dataclass(frozen=True)
class Variable:
    """One variable of the pooled sample, checked."""

    values: Array  # n x d: all groups, one after the other; label columns hold integer codes
    sizes: tuple[int, ...]  # rows of each group
    names: tuple[str, ...]  # of the columns: from a DataFrame, or made up ("x1", "x2", ...)
    title: str  # how messages call it: "`xp` and `xq`"
    labels: tuple[bool, ...] = ()  # which columns are labels; empty means none


def check_variable(
    parts: Parts,
    backend: Backend,
    dtype: Any,
    *,
    labels: bool | Sequence[bool] = False,
    kernel_option: str | None = None,
    stem: str = "x",
    min_rows: int = 2,
) -> Variable:
    """Check the arguments that hold one variable, one part per group, and pool them.

    Columns that are `labels` may hold strings; `kernel_option` names the option that admits them, for the message.
    Columns without a name are called after `stem`: x1, x2, ...
    """
    title = _title(parts)
    tables = [_as_table(name, value, backend) for name, value in parts]
    width = tables[0].shape[1]
    for (name, _), table in zip(parts, tables, strict=True):
        if table.shape[1] != width:
            raise ShapeError(_columns_differ(parts[0][0], tables[0].shape, name, table.shape))
        if width == 0:
            raise ShapeError(
                f"{named(name)} must have at least one column, got shape {tuple(table.shape)}. Pass the columns to use."
            )
        if table.shape[0] < min_rows:
            raise ShapeError(_too_few_rows(name, tuple(table.shape), min_rows))
    if not all(type(value) is np.ndarray for _, value in parts):
        tables = _matched_by_name(parts, tables)
    names = _column_names(parts, width, stem)
    flags = (labels,) * width if isinstance(labels, bool) else tuple(labels)
    if len(flags) != width:
        raise ParameterError(
            f"{named(kernel_option or 'kernel')} must name one kernel per column of {title} ({width}), got "
            f"{len(flags)}. Give one kernel name per column, or a single name for all."
        )
    tables = _encode_labels(title, tables, names, flags, backend, dtype)
    floats = []
    for (name, _), table in zip(parts, tables, strict=True):
        floats.append(_as_float(name, table, names, backend, dtype, kernel_option))
    values = floats[0] if len(floats) == 1 else backend.concat(floats)
    if not backend.is_traced(values) and not bool(backend.xp.isfinite(backend.detach(values)).all()):
        raise DataError(_not_finite(parts, floats, names, backend))
    return Variable(values, tuple(t.shape[0] for t in tables), names, title, flags)


def label_names(parts: Parts, variable: Variable, column: int) -> dict[float, str]:
    """Return what the codes of a label column of a checked variable stand for."""
    tables = _matched_by_name(parts, [_as_table(name, value, backend_of(value)) for name, value in parts])
    cells = [cell for table in tables for cell in table[:, column].tolist()]  # of the pool
    codes, first_rows = np.unique(np.asarray(variable.values)[:, column], return_index=True)
    names = {}
    for code, row in zip(codes, first_rows, strict=True):
        cell = cells[row]
        # 3 for 3.0
        is_whole = isinstance(cell, float) and cell.is_integer()
        names[float(code)] = str(int(cell) if is_whole else cell)
    return names


def check_same_rows(first: Variable, first_parts: Parts, second: Variable, second_parts: Parts) -> None:
    """Check that two variables have the same rows in every group."""
    for size, other, (name, _), (other_name, _) in zip(
        first.sizes, second.sizes, first_parts, second_parts, strict=True
    ):
        if size != other:
            turned = _turned(name, (size, first.values.shape[1]), other_name, (other, second.values.shape[1]), axis=0)
            remedy = turned or "Drop the rows that only one of them has."
            raise ShapeError(
                f"{named(name)} and {named(other_name)} must have the same number of rows, got {size} and {other}. "
                f"Rows are observations: row i of one belongs to row i of the other. {remedy}"
            )


@dataclass(frozen=True)
class PresentRows:
    """Which rows of each sample count: a row of weight 0 is absent, from every sum, rule, count and resample alike.

    Rows are dropped once, before anything else looks at them: a bandwidth, a category or a design that rested on an
    absent row would let it count after all.
    """

    rows: tuple[IntArray | None, ...]  # of each sample, in order; None where all are present
    sizes: tuple[int, ...]  # rows of each sample as given

    @classmethod
    def of(cls, weights: Parts, *variables: Parts) -> PresentRows:
        """Look at the weights of each sample.

        Weights that do not fit the variables, or are no weights, drop nothing: later checks say what is wrong. Nor do
        those that are not known yet (inside `jax.jit`): the formulas give rows of weight 0 no part in any sum.
        """
        sizes = tuple(_row_count(value) for _, value in weights)
        fits = all(
            weight is None or _row_count(value) == size
            for parts in variables
            for (_, value), (_, weight), size in zip(parts, weights, sizes, strict=True)
            if value is not None
        )
        return cls(tuple(_positive_rows(name, value) if fits else None for name, value in weights), sizes)

    def of_parts(self, parts: Parts) -> Parts:
        """Return the samples of a variable, or their weights or clusters, without absent rows."""
        return [
            (name, value if rows is None or value is None else _taken_rows(value, rows))
            for (name, value), rows in zip(parts, self.rows, strict=True)
        ]

    def of_pool(self, values: Any) -> Any:
        """Return numbers of all pooled rows, those of the first sample first, without those of absent rows."""
        if all(rows is None for rows in self.rows) or _row_count(values) != sum(self.sizes):
            return values
        starts = accumulate(self.sizes, initial=0)  # one more than samples: the last is the end of the pool
        pooled_rows = []
        for rows, size, start in zip(self.rows, self.sizes, starts, strict=False):
            pooled_rows.append(start + (np.arange(size) if rows is None else rows))
        return _taken_rows(values, np.concatenate(pooled_rows))


def without_absent_rows(weights: Parts, *variables: Parts) -> tuple[Parts, ...]:
    """Return weights and variables without the rows of weight 0."""
    if all(value is None for _, value in weights):
        return weights, *variables
    present = PresentRows.of(weights, *variables)
    return tuple(present.of_parts(parts) for parts in (weights, *variables))


def _row_count(value: Any) -> int:
    """Return the number of rows of anything that may be a sample, or -1 if it has none."""
    try:
        return -1 if isinstance(value, str | bytes | dict | set) else len(value)
    except TypeError:
        return -1


def _positive_rows(name: str, value: Any) -> IntArray | None:
    """Return the rows of positive weight; None if that is all of them, or these are no weights."""
    if value is None:
        return None
    backend = backend_of(value)
    if backend.is_traced(value):
        return None
    try:
        weights = backend.to_numpy(_as_table(name, value, backend)).astype(np.float64)
    except (CondcsError, TypeError, ValueError):
        return None
    if weights.shape[1] != 1 or (weights != 0).all() or not (np.isfinite(weights) & (weights >= 0)).all():
        return None
    rows = np.flatnonzero(weights)
    if len(rows) == 1:
        raise DataError(
            f"{named(name)} must be positive for at least two rows, got one: a row of weight 0 counts as absent. Give "
            "other rows a positive weight."
        )
    return rows if len(rows) else None


def _taken_rows(value: Any, rows: IntArray) -> Any:
    """Return some rows of a sample: an array of any library, a table or column with its names, or a list."""
    backend = backend_of(value)
    if backend.name != "numpy":
        indices = backend.xp.asarray(rows, device=value.device) if backend.name == "torch" else backend.xp.asarray(rows)
        return backend.xp.take(value, indices, axis=0)
    if isinstance(value, list | tuple):
        return [value[row] for row in rows]
    if hasattr(value, "iloc"):
        return value.iloc[rows]
    return value.take(rows) if type(value).__module__.partition(".")[0] == "pyarrow" else value[rows]


def check_weights(parts: Parts, sizes: tuple[int, ...], backend: Backend, dtype: Any) -> Groups:
    """Check sample weights (None means one everywhere) and return the groups they make.

    Weights are divided by their common maximum, which changes no divergence and keeps sums away from overflow. A group
    whose weights would vanish beside another's is kept in sight: nothing but the pooled estimator sees the ratio of
    groups, and that one not below rounding.
    """
    if all(value is None for _, value in parts):
        return Groups(sizes)
    xp = backend.xp
    columns = []
    for (name, value), size in zip(parts, sizes, strict=True):
        if value is None:
            other_weights = next(weights for _, weights in parts if weights is not None)
            value = np.ones(size) if backend.name == "numpy" else backend.from_numpy(np.ones(size), other_weights)
        table = _as_table(name, value, backend)
        if table.shape != (size, 1):
            raise ShapeError(
                f"{named(name)} must hold one weight per row of its sample, got shape {tuple(np.shape(value))} for "
                f"{size} rows. Pass a 1-d array."
            )
        column = _as_float(name, table, (name,), backend, dtype)[:, 0]
        if not backend.is_traced(column):
            is_weight = xp.isfinite(column) & (column >= 0)
            if not bool(xp.all(is_weight)):
                first_bad = float(backend.to_numpy(column)[~backend.to_numpy(is_weight)][0])
                raise DataError(
                    f"{named(name)} must be finite and not negative, got {first_bad}. Set unwanted rows to 0, and "
                    "replace NaN."
                )
            if not bool(xp.any(column > 0)):
                raise DataError(
                    f"{named(name)} must have a positive sum, got all zeros. Give at least one row a positive weight."
                )
        columns.append(column)
    peaks = [backend.detach(xp.max(column)) for column in columns]
    top = xp.max(xp.stack(peaks))
    # Far below rounding, and far above the smallest number, so that the weights of no group become 0.
    floor = float(xp.finfo(dtype).eps) ** 4
    scaled = []
    for column, peak in zip(columns, peaks, strict=True):
        # Two factors: the weights of a group in units of its largest, and that beside those of the other groups.
        scaled.append(column / peak * xp.clip(peak / top, floor, None))
    return Groups(sizes, backend.concat(scaled))


def float_type(backend: Backend, arrays: Iterable[Any]) -> tuple[Any, Any]:
    """Return (type to compute in, type to return): the narrowest float that holds all of some arrays.

    That is the widest float among the arrays, and double precision if there are integers that it would round, such as
    times in seconds. Halves are computed in single precision.
    """
    present = [a for a in arrays if a is not None]
    if backend.name == "numpy":
        columns = [column for a in present for column in _typed_columns(a)]
        size = max((c.dtype.itemsize for c in columns if c.dtype.kind == "f"), default=8)
        if size >= 8 or not all(_fits_single(c) for c in columns):
            return np.dtype(np.float64), np.dtype(np.float64)
        return np.dtype(np.float32), np.dtype(f"f{size}")
    xp = backend.xp
    default = xp.asarray(0.0).dtype
    floats = [a.dtype for a in present if "float" in str(a.dtype)]
    widest = max(floats, key=lambda d: xp.finfo(d).bits) if floats else default
    if xp.finfo(widest).bits < 64 and not all(_holds_exactly(a, backend, xp.float32) for a in present):
        # JAX has double precision only where it is switched on; it is the default there.
        double = default if backend.name == "jax" else xp.float64
        return double, double
    return (xp.float32 if xp.finfo(widest).bits < 32 else widest), widest


def _typed_columns(a: Any) -> list[Any]:
    """Return what has a type like numpy's: the array itself, each column of a DataFrame, or what a list becomes."""
    if hasattr(a, "iloc") and hasattr(a, "columns"):
        return [a.iloc[:, c] for c in range(a.shape[1])]
    if hasattr(getattr(a, "dtype", None), "kind"):
        return [a]
    try:
        return [_to_ndarray("", a)]
    except CondcsError:
        return []


def _fits_single(column: Any) -> bool:
    """Whether single precision holds all integers of a column; what is no integer decides by its type alone."""
    if column.dtype.kind not in "iuO" or (column.dtype.kind != "O" and column.dtype.itemsize <= 2):
        return True
    numbers: Any = column
    if column.dtype.kind == "O":
        numbers = [v for v in np.asarray(column).flat if isinstance(v, Integral)]
    # From 2 / eps on (2^24), floats are more than 1 apart.
    limit = 2 / float(np.finfo(np.float32).eps)
    return not len(numbers) or bool(-limit <= np.min(numbers) and np.max(numbers) <= limit)


def check_choice(name: str, value: Any, choices: Sequence[Choice]) -> Choice:
    """Check that an option is one of a few names."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(repr(c) for c in choices)
        alike = get_close_matches(value.lower(), choices, n=1) if isinstance(value, str) else []
        raise ParameterError(
            f"{named(name)} must be one of {options}, got {value!r}. Pass {setting(name, (*alike, *choices)[0])}."
        )
    return choices[choices.index(value)]


def check_options(names: Iterable[str], options: Iterable[str], owner: str) -> None:
    """Refuse names that are no options of `owner`, e.g. a measure."""
    listed = sorted(options)
    unknown = sorted(set(names) - set(listed))
    if unknown:
        raise ParameterError(
            f"{named(unknown[0])} must be an option of {owner!r}. Its options are {', '.join(listed)}."
        )


def check_alpha(alpha: Any) -> float:
    """Return the size of a test as a float, or raise if it does not lie between 0 and 1."""
    return check_probability("alpha", alpha, 0.05)


def fewest_resamples(alpha: float, *, looks: int = 1) -> int:
    """Return the fewest resamples with which a p-value, at least looks / (1 + resamples), can be as small as alpha.

    Examples
    --------
    >>> fewest_resamples(0.05), fewest_resamples(0.05, looks=2)
    (19, 39)
    """
    return rounded_up(looks / alpha) - 1


def rounded_up(number: float) -> int:
    """Return the smallest whole number that is not below a quotient or a product, but for its rounding.

    2 / 0.05 or 0.95 * 20 may come out a last digit above the whole number that they are.

    Examples
    --------
    >>> rounded_up(0.1 + 0.2 + 1.7), rounded_up(2.1)
    (2, 3)
    """
    return math.ceil(number - 1e-9)


def check_probability(name: str, value: Any, example: float) -> float:
    """Check that an option lies strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ParameterError(
            f"{named(name)} must lie between 0 and 1, got {value!r}. Pass e.g. {setting(name, example)}."
        )
    return float(value)


def check_positive(name: str, value: Any, example: float = 0.1) -> float:
    """Check that an option is a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(float(value)) or float(value) <= 0:
        raise ParameterError(
            f"{named(name)} must be a positive, finite number, got {value!r}. Pass e.g. {setting(name, example)}."
        )
    return float(value)


def check_integer(name: str, value: Any, low: int, high: int | None = None, because: str = "") -> int:
    """Check that an option is an integer in a range; `because` says where the upper end comes from."""
    whole = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else low - 1
    if whole < low or (high is not None and whole > high):
        rule = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}{because}"
        raise ParameterError(f"{named(name)} must be {rule}, got {value!r}. Pass e.g. {setting(name, low)}.")
    return whole


def _title(parts: Parts) -> str:
    """Name the arguments that hold one variable: all of a few, of many the first and the last."""
    names = list(dict.fromkeys(named(name) for name, _ in parts))
    return " and ".join(names) if len(names) < 4 else f"{names[0]} ... {names[-1]}"


def _as_table(name: str, value: Any, backend: Backend) -> Any:
    """Return `value` as a 2-d array of its own library; 1-d arrays are one column."""
    if value is None:
        raise DataError(f"{named(name)} must be an array, got None. Pass the observations, one per row.")
    if backend.name == "numpy":
        if type(value) is not np.ndarray:
            value = _to_ndarray(name, value)
        if value.dtype.kind not in "fiubOUSV" or value.dtype.names is not None:
            raise DataError(
                f"{named(name)} must hold real numbers or labels, got dtype {value.dtype}. "
                "Convert it first: dates to numbers, complex values to two columns."
            )
    if value.ndim == 1:
        return value[:, None]
    if value.ndim == 0:
        raise ShapeError(
            f"{named(name)} must have one or two dimensions, got a single value. Pass an array with one row per "
            "observation."
        )
    if value.ndim != 2:
        raise ShapeError(
            f"{named(name)} must have one or two dimensions (rows are observations), got {value.ndim}: "
            f"shape {tuple(value.shape)}. Reshape it, e.g. `{name}.reshape(len({name}), -1)`."
        )
    return value


def _to_ndarray(name: str, value: Any) -> AnyArray:
    """Return anything that may be a sample, such as lists and tables, as an array of numpy."""
    if isinstance(value, str | bytes | dict | set):
        raise DataError(
            f"{named(name)} must be an array, got {type(value).__name__}. Pass the observations, one per row."
        )
    if hasattr(value, "tocsr"):
        raise DataError(f"{named(name)} must be a dense array, got a sparse matrix. Pass `{name}.toarray()`.")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DataError(
            f"{named(name)} must have no masked values, got a masked array. Drop those rows, or fill them with "
            f"`{name}.filled(...)`."
        )
    try:
        if type(value).__module__.partition(".")[0] == "pyarrow":
            return _from_arrow(value)
        array = np.asarray(value.to_numpy() if hasattr(value, "to_numpy") else value)
        # numpy writes the numbers of a list with strings as strings too, and a missing label as "nan".
        return np.array(value, dtype=object) if array.dtype.kind in "US" and isinstance(value, list | tuple) else array
    except ValueError as error:
        raise ShapeError(
            f"{named(name)} must be rectangular, got rows of different lengths. Pad or drop rows."
        ) from error


def _from_arrow(value: Any) -> AnyArray:
    """Return a pyarrow Table or RecordBatch, or one column of it, as an array; missing values become NaN or None."""
    if hasattr(value, "itercolumns"):
        columns = [_from_arrow(column) for column in value.itercolumns()]
        return np.stack(columns, axis=1) if columns else np.empty((value.num_rows, 0))
    import pyarrow

    # A dictionary holds categories: what counts are their values.
    plain = value.cast(value.type.value_type) if pyarrow.types.is_dictionary(value.type) else value
    chunks = plain.chunks if hasattr(plain, "chunks") else [plain]
    return np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in chunks] or [np.empty(0)])


def column_names(table: Any) -> list[Any] | None:
    """Return the names of a table's columns (pandas, polars, pyarrow); None for arrays and numbered columns."""
    if type(table) is np.ndarray:
        return None
    schema = getattr(table, "schema", None)
    names = getattr(schema, "names", None) if hasattr(schema, "names") else getattr(table, "columns", None)
    if callable(names):
        names = names()
    if names is None:
        return None
    listed = list(names)
    is_numbered = listed == list(range(len(listed)))
    return None if is_numbered else listed


def _column_names(parts: Parts, width: int, stem: str) -> tuple[str, ...]:
    """Return the names of the columns of a variable: of the first part that has some, else made up of a stem."""
    for _, value in parts:
        columns = column_names(value)
        if columns is not None and len(columns) == width:
            return tuple(str(c) for c in columns)
        if width == 1 and isinstance(getattr(value, "name", None), str):
            return (value.name,)
    return (stem,) if width == 1 else tuple(f"{stem}{i + 1}" for i in range(width))


def _matched_by_name(parts: Parts, tables: list[Any]) -> list[Any]:
    """Bring the columns of tables with names into the order of the first; refuse tables with other names."""
    names_by_part = {i: names for i, (_, value) in enumerate(parts) if (names := column_names(value)) is not None}
    if len(names_by_part) < 2:
        return tables
    (first, expected), *others = names_by_part.items()
    matched = list(tables)
    for i, columns in others:
        if columns != expected:
            matched[i] = tables[i][:, column_order(parts[first][0], expected, parts[i][0], columns)]
    return matched


def unless_named_alike(first: Any, second: Any) -> Any:
    """Return the second table without its names if they are not those of the first: it is then compared by place."""
    names, others = column_names(first), column_names(second)
    if names is None or others is None or set(names) == set(others):
        return second
    return _to_ndarray("", second)


def column_order(first: str, expected: list[Any], name: str, columns: list[Any]) -> list[int]:
    """Return where the expected columns stand among those of another table; refuse other names."""
    missing = [str(column) for column in expected if column not in columns]
    extra = [str(column) for column in columns if column not in expected]
    if missing or extra or len(set(columns)) < len(columns):
        differ = [f"{named(name)} lacks {', '.join(map(repr, missing))}"] if missing else []
        differ += [f"{named(first)} lacks {', '.join(map(repr, extra))}"] if extra else []
        raise DataError(
            f"{named(first)} and {named(name)} must have the same column names, each once, got {expected} and {columns}"
            f"{': ' if differ else ''}{' and '.join(differ)}. Rename the columns, or pass arrays, e.g. "
            f"`{name}.to_numpy()`, to compare them by place."
        )
    return [columns.index(c) for c in expected]


def _encode_labels(
    title: str, tables: list[Any], names: tuple[str, ...], flags: tuple[bool, ...], backend: Backend, dtype: Any
) -> list[Any]:
    """Replace label columns that `dtype` cannot hold (strings, objects, large integers) by codes, one set for all."""
    if not any(flags) or all(_holds_exactly(t, backend, dtype) for t in tables):
        return tables
    pool = backend.concat(tables)
    columns = [pool[:, c] for c in range(pool.shape[1])]
    for c, is_label in enumerate(flags):
        if not is_label:
            continue
        if backend.name == "numpy":
            columns[c] = _label_codes(title, columns[c], names[c])
        else:
            columns[c] = backend.xp.unique_inverse(columns[c])[1]
    coded = np.stack(columns, 1) if backend.name == "numpy" else backend.xp.stack(columns, axis=1)
    ends = list(accumulate(t.shape[0] for t in tables))
    return [coded[end - t.shape[0] : end] for t, end in zip(tables, ends, strict=True)]


def _holds_exactly(table: Any, backend: Backend, dtype: Any) -> bool:
    """Whether all numbers of a table stay what they are in `dtype`; floats do, because `dtype` is the widest one."""
    if backend.name == "numpy" and table.dtype.kind not in "iu":
        return table.dtype.kind in "fb"
    if "int" not in str(table.dtype) or backend.is_traced(table):
        return True
    # From 2 / eps on, floats are more than 1 apart.
    limit = 2 / float(backend.xp.finfo(dtype).eps)
    return float(backend.xp.max(table)) <= limit and float(backend.xp.min(table)) >= -limit


def _label_codes(title: str, column: AnyArray, name: str) -> AnyArray:
    """Return a column of labels as codes, in the order in which labels first occur; numbers are left as they are."""
    if column.dtype.kind in "fb":
        return column
    codes: dict[Any, int] = {}
    labels = column.tolist()
    try:
        coded = np.array([codes.setdefault(label, len(codes)) for label in labels])
    except TypeError as error:
        raise DataError(
            f"{title} must hold labels that can be compared, such as strings or numbers, got "
            f"{type(labels[0]).__name__} in column {name!r}. Convert them first, e.g. with `str`."
        ) from error
    missing = sum(is_missing_value(label) for label in labels) if any(map(is_missing_value, codes)) else 0
    if missing:
        raise DataError(
            f"{title} must have no missing labels, got {missing} in column {name!r}. "
            "Drop those rows, or give them a label of their own."
        )
    return coded


def is_missing_value(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas.NA (which alone refuses to be compared)."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _as_float(
    name: str, table: Any, names: tuple[str, ...], backend: Backend, dtype: Any, kernel_option: str | None = None
) -> Any:
    """Return a table of numbers in a type of floats; an error that names the first cell that is none."""
    if backend.name != "numpy":
        if "complex" in str(table.dtype):
            raise DataError(
                f"{named(name)} must hold real numbers, got {table.dtype}. Split real and imaginary parts into two "
                "columns."
            )
        if backend.name == "jax" and not _holds_exactly(table, backend, dtype):
            raise DataError(
                f"{named(name)} must hold integers that {dtype} represents, got larger ones. Subtract an offset, or "
                'switch double precision on with jax.config.update("jax_enable_x64", True).'
            )
        return backend.xp.astype(table, dtype)
    if table.dtype.kind in "fiub":
        return table.astype(dtype, copy=False)
    try:
        return table.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(_not_numeric(name, table, names, kernel_option)) from error


def _not_numeric(name: str, table: Any, names: tuple[str, ...], kernel_option: str | None) -> str:
    """Say which cell of a table is the first that is no number, and what to do about it."""
    row, column = next((int(i), int(c)) for i, c in np.ndindex(table.shape) if not _is_number(table[i, c]))
    value, where = table[row, column], f"row {row}, column {names[column]!r}"
    if is_missing_value(value):
        return f"{named(name)} must have no missing values, got {value!r} in {where}. Drop those rows, or impute them."
    if isinstance(value, int):
        return f"{named(name)} must fit in a float, got an integer of {value.bit_length()} bits in {where}. Rescale it."
    remedy = (
        f'Use the delta kernel for labels: {kernel_option}="delta", or one kernel name per column.'
        if kernel_option
        else "Encode the labels as numbers, e.g. one 0/1 column per category."
    )
    shown = str(value) if isinstance(value, str) else value
    return f"{named(name)} must hold numbers, got labels in column {names[column]!r} (e.g. {shown!r}). {remedy}"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _columns_differ(first: str, first_shape: Any, name: str, shape: Any) -> str:
    """Say that two tables have different numbers of columns, and which of them may have to be transposed."""
    turned = _turned(first, tuple(first_shape), name, tuple(shape), axis=1)
    return (
        f"{named(first)} and {named(name)} must have the same number of columns, got {first} {tuple(first_shape)} and "
        f"{name} {tuple(shape)}. Rows are observations. {turned or 'Pass the same columns of both.'}"
    )


def _turned(first: str, first_shape: tuple[int, ...], name: str, shape: tuple[int, ...], axis: int) -> str:
    """Say which of two tables to transpose, if they then agree in their rows or columns (`axis`); else nothing."""
    if first_shape[1 - axis] == shape[1 - axis] and all(width > rows for rows, width in (first_shape, shape)):
        return f"If they hold one feature per row, pass `{first}.T` and `{name}.T`."
    ways = ((name, shape, first_shape), (first, first_shape, shape))
    # Rows, once turned, must be a sample: at least two.
    helps = [called for called, candidate, other in ways if candidate[1 - axis] == other[axis] and candidate[1] >= 2]
    # Where both ways would do, the table with more columns than rows is the one that lies on its side.
    wide = [called for called, candidate, _ in ways if called in helps and candidate[1] > candidate[0]]
    called = next(iter([*wide, *helps]), None)
    return f"If {named(called)} holds one feature per row, pass `{called}.T`." if called else ""


def _too_few_rows(name: str, shape: tuple[int, ...], min_rows: int) -> str:
    least, got = counted(min_rows, "row"), counted(shape[0], "row") if shape[0] else "no rows"
    hint = f" If {named(name)} holds one feature per row, pass `{name}.T`." if shape[0] and shape[1] >= min_rows else ""
    return f"{named(name)} must have at least {least}, got {got} (shape {shape}). Collect more observations.{hint}"


def _not_finite(parts: Parts, tables: list[Any], names: tuple[str, ...], backend: Backend) -> str:
    """Say how many cells are not finite, and which is the first."""
    masks = [~np.isfinite(backend.to_numpy(table)) for table in tables]
    (name, value), bad = next((part, mask) for part, mask in zip(parts, masks, strict=True) if mask.any())
    row, column = (int(i) for i in np.argwhere(bad)[0])
    rows = f"np.isfinite({name})" if np.ndim(value) == 1 else f"np.isfinite({name}).all(axis=1)"
    return (
        f"{named(name)} must be finite, got {int(bad.sum())} NaN or infinite value(s), first in row {row}, column "
        f"{names[column]!r}. Drop those rows, e.g. `{name}[{rows}]` (and the same rows of the other variable), or "
        "impute them."
    )


def check_rng(rng: int | np.random.Generator | None) -> np.random.Generator:
    """Return a generator for a seed; a generator is used as it is, None draws fresh entropy."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None or (isinstance(rng, Integral) and not isinstance(rng, bool) and rng >= 0):
        return np.random.default_rng(None if rng is None else int(rng))
    raise ParameterError(
        f"{named('rng')} must be a non-negative integer or a numpy Generator, got {rng!r}. Pass e.g. "
        f"{setting('rng', 0)}."
    )


def label_type(count: int) -> np.dtype[np.generic]:
    """Return the integer type that labels 0 .. count - 1 are kept in: small, because a test holds hundreds of rows."""
    return np.dtype(np.int8 if count <= 127 else np.int32)


@dataclass(frozen=True)
class Groups:
    """Disjoint groups that lie one after the other in the pool: a block-diagonal weight matrix W (n x G)."""

    sizes: tuple[int, ...]  # rows of each group
    weights: Array | None = None  # of each pooled row; None means one everywhere

    @property
    def n(self) -> int:
        """Rows of the pool."""
        return sum(self.sizes)

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.sizes)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Rows of each group, as slices of the pool."""
        ends = tuple(accumulate(self.sizes))
        return tuple(slice(end - size, end) for size, end in zip(self.sizes, ends, strict=True))

    def weights_of(self, rows: slice) -> Array | None:
        """Return the weights of some rows; None if all are one."""
        return None if self.weights is None else self.weights[rows]

    def block(self, rows: slice, dtype: np.dtype[np.generic]) -> tuple[slice, Array]:
        """Return the part of W that is not zero on `rows`: the groups met there, and their weights (rows x groups).

        A block that meets one group is a vector, so that multiplying by it is a matrix-vector product.
        """
        slices = self.slices
        met = [g for g, s in enumerate(slices) if s.start < rows.stop and s.stop > rows.start]
        weights = np.ones(rows.stop - rows.start, dtype) if self.weights is None else self.weights[rows]
        if len(met) == 1:
            return slice(met[0], met[0] + 1), weights
        block = np.zeros((rows.stop - rows.start, len(met)), dtype)
        for column, g in enumerate(met):
            part = slice(max(slices[g].start, rows.start) - rows.start, min(slices[g].stop, rows.stop) - rows.start)
            block[part, column] = weights[part]
        return slice(met[0], met[-1] + 1), block
