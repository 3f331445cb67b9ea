"""Input checks: done once, in public functions; every message names the argument, the rule and the remedy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from condcs.core.arrays import Array, Backend
from condcs.core.errors import DataError, ParameterError, ShapeError
from condcs.core.groups import Groups

Parts = Sequence[tuple[str, Any]]
"""The arguments that hold one variable of each group, with their names: ``[("xp", xp), ("xq", xq)]``."""


@dataclass(frozen=True)
class Variable:
    """One variable of the pooled sample, checked.

    Attributes
    ----------
    values : array of shape (n, d)
        All groups, one after the other. Label columns hold integer codes.
    sizes : tuple of int
        Rows of each group.
    names : tuple of str
        Column names, from a DataFrame or made up ("x1", "x2", ...).
    title : str
        How messages call it: "`xp` and `xq`".
    """

    values: Array
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    title: str


def check_variable(
    parts: Parts,
    backend: Backend,
    dtype: Any,
    *,
    labels: bool | Sequence[bool] = False,
    kernel_option: str | None = None,
    min_rows: int = 2,
) -> Variable:
    """Check the arguments that hold one variable and pool them.

    Parameters
    ----------
    parts : sequence of (name, array)
        One per group.
    backend, dtype
        Library and floating type to compute in.
    labels : bool or sequence of bool
        Which columns are compared for equality only, so that strings are welcome.
    kernel_option : str, optional
        Name of the option that would admit labels, for the message.
    min_rows : int
        Fewest rows a group may have.
    """
    title = " and ".join(f"`{name}`" for name, _ in parts) if len(parts) < 4 else f"`{parts[0][0]}` ... `{parts[-1][0]}`"
    tables = [_as_table(name, value, backend) for name, value in parts]
    width = tables[0].shape[1]
    for (name, _), table in zip(parts, tables, strict=True):
        if table.shape[1] != width:
            raise ShapeError(_columns_differ(parts[0][0], tables[0].shape, name, table.shape))
        if width == 0:
            raise ShapeError(f"`{name}` must have at least one column, got shape {tuple(table.shape)}. Pass the columns to use.")
        if table.shape[0] < min_rows:
            raise ShapeError(_too_few_rows(name, tuple(table.shape), min_rows))
    names = _column_names(parts, width)
    flags = (labels,) * width if isinstance(labels, bool) else tuple(labels)
    if len(flags) != width:
        raise ShapeError(
            f"{title} must have one column per kernel, got {width} columns and {len(flags)} kernels. "
            "Give one kernel name per column, or a single name for all."
        )
    tables = _encode_labels(parts, tables, names, flags) if backend.name == "numpy" else tables
    floats = [_as_float(name, t, names, backend, dtype, kernel_option) for (name, _), t in zip(parts, tables, strict=True)]
    values = floats[0] if len(floats) == 1 else backend.concat(floats)
    if not backend.is_traced(values) and not bool(backend.xp.isfinite(backend.detach(values)).all()):
        raise DataError(_not_finite(parts, floats, names, backend))
    return Variable(values, tuple(t.shape[0] for t in tables), names, title)


def check_same_rows(first: Variable, first_parts: Parts, second: Variable, second_parts: Parts) -> None:
    """Check that two variables have the same rows in every group."""
    for size, other, (name, _), (other_name, _) in zip(first.sizes, second.sizes, first_parts, second_parts, strict=True):
        if size != other:
            raise ShapeError(
                f"`{name}` and `{other_name}` must have the same number of rows, got {size} and {other}. "
                "Rows are observations: row i of one belongs to row i of the other; "
                f"if `{other_name}` holds one feature per row, pass `{other_name}.T`."
            )


def check_weights(parts: Parts, sizes: tuple[int, ...], backend: Backend, dtype: Any) -> Groups:
    """Check sample weights (None means one everywhere) and return the groups they make.

    Weights are divided by their common maximum, which changes no divergence and keeps sums away from overflow.
    """
    if all(value is None for _, value in parts):
        return Groups(sizes)
    xp = backend.xp
    columns = []
    for (name, value), size in zip(parts, sizes, strict=True):
        if value is None:
            value = np.ones(size) if backend.name == "numpy" else backend.from_numpy(np.ones(size), _first(parts))
        table = _as_table(name, value, backend)
        if table.shape != (size, 1):
            raise ShapeError(
                f"`{name}` must hold one weight per row of its sample, got shape {tuple(np.shape(value))} for {size} rows. "
                "Pass a 1-d array."
            )
        column = _as_float(name, table, (name,), backend, dtype)[:, 0]
        if not backend.is_traced(column):
            if not bool(xp.all(xp.isfinite(column))) or bool(xp.any(column < 0)):
                raise DataError(f"`{name}` must be finite and not negative. Set unwanted rows to 0, and replace NaN.")
            if not bool(xp.any(column > 0)):
                raise DataError(f"`{name}` must have a positive sum, got all zeros. Give at least one row a positive weight.")
        columns.append(column)
    weights = backend.concat(columns)
    return Groups(sizes, weights / backend.detach(xp.max(weights)))


def float_type(backend: Backend, arrays: Iterable[Any]) -> tuple[Any, Any]:
    """Return (type to compute in, type to return): the widest float given; halves are computed in single precision."""
    if backend.name == "numpy":
        wide: Any = None
        for a in arrays:
            given = getattr(a, "dtype", None)
            if given is not None and getattr(given, "kind", "") == "f":
                wide = given if wide is None or given.itemsize > wide.itemsize else wide
        if wide is None or wide.itemsize >= 8:
            return np.dtype(np.float64), np.dtype(np.float64)
        return np.dtype(np.float32), np.dtype(wide)
    xp = backend.xp
    given = [a.dtype for a in arrays if a is not None and "float" in str(a.dtype)]
    if not given:
        default = xp.asarray(0.0).dtype
        return default, default
    widest = max(given, key=lambda d: xp.finfo(d).bits)
    return (xp.float32 if xp.finfo(widest).bits < 32 else widest), widest


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Check that an option is one of a few names."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(repr(c) for c in choices)
        raise ParameterError(f"`{name}` must be one of {options}, got {value!r}. Pass {name}={choices[0]!r}.")
    return value


def check_positive(name: str, value: Any) -> float:
    """Check that an option is a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(float(value)) or float(value) <= 0:
        raise ParameterError(f"`{name}` must be a positive, finite number, got {value!r}. Pass e.g. {name}=0.1.")
    return float(value)


def check_integer(name: str, value: Any, low: int, high: int | None = None, because: str = "") -> int:
    """Check that an option is an integer in a range; `because` says where the upper end comes from."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low or (high is not None and value > high):
        rule = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}{because}"
        raise ParameterError(f"`{name}` must be {rule}, got {value!r}. Pass e.g. {name}={low}.")
    return int(value)


def _first(parts: Parts) -> Any:
    return next(value for _, value in parts if value is not None)


def _as_table(name: str, value: Any, backend: Backend) -> Any:
    """Return `value` as a 2-d array of its own library; 1-d arrays are one column."""
    if value is None:
        raise DataError(f"`{name}` must be an array, got None. Pass the observations, one per row.")
    if backend.name == "numpy":
        if type(value) is not np.ndarray:
            value = _to_ndarray(name, value)
        if value.dtype.kind not in "fiubOUSV" or value.dtype.names is not None:
            raise DataError(
                f"`{name}` must hold real numbers or labels, got dtype {value.dtype}. "
                "Convert it first: dates to numbers, complex values to two columns."
            )
    if value.ndim == 1:
        return value[:, None]
    if value.ndim != 2:
        raise ShapeError(
            f"`{name}` must have one or two dimensions (rows are observations), got {value.ndim}: shape {tuple(value.shape)}. "
            f"Reshape it, e.g. `{name}.reshape(len({name}), -1)`."
        )
    return value


def _to_ndarray(name: str, value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, str | bytes | dict | set):
        raise DataError(f"`{name}` must be an array, got {type(value).__name__}. Pass the observations, one per row.")
    if hasattr(value, "tocsr"):
        raise DataError(f"`{name}` must be a dense array, got a sparse matrix. Pass `{name}.toarray()`.")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DataError(f"`{name}` must have no masked values. Drop those rows or fill them with `{name}.filled(...)`.")
    try:
        return np.asarray(value.to_numpy() if hasattr(value, "to_numpy") else value)
    except ValueError as error:
        raise ShapeError(f"`{name}` must be rectangular: every row needs the same number of entries. Pad or drop rows.") from error


def _column_names(parts: Parts, width: int) -> tuple[str, ...]:
    for name, value in parts:
        columns = getattr(value, "columns", None)
        if columns is not None and len(columns) == width:
            return tuple(str(c) for c in columns)
        if width == 1 and isinstance(getattr(value, "name", None), str):
            return (value.name,)
    stem = parts[0][0].rstrip("pq0123456789[]") or parts[0][0]
    return (stem,) if width == 1 else tuple(f"{stem}{i + 1}" for i in range(width))


def _encode_labels(parts: Parts, tables: list[Any], names: tuple[str, ...], flags: tuple[bool, ...]) -> list[Any]:
    """Replace strings and other objects in label columns by integer codes shared by all groups."""
    if not any(flags) or all(t.dtype.kind in "fiub" for t in tables):
        return tables
    columns = []
    for c, is_label in enumerate(flags):
        pooled = np.concatenate([t[:, c] for t in tables])
        if is_label and pooled.dtype.kind not in "fiub":
            missing = [v is None or v != v for v in pooled.tolist()]
            if any(missing):
                raise DataError(
                    f"{' and '.join(f'`{n}`' for n, _ in parts)} must have no missing labels, got {sum(missing)} in column "
                    f"{names[c]!r}. Drop those rows or give them a label of their own."
                )
            pooled = np.unique(pooled.astype(str), return_inverse=True)[1].reshape(-1)
        columns.append(pooled)
    pool = np.empty((len(columns[0]), len(columns)), dtype=object)
    for c, column in enumerate(columns):
        pool[:, c] = column
    return np.split(pool, np.cumsum([len(t) for t in tables])[:-1])


def _as_float(
    name: str, table: Any, names: tuple[str, ...], backend: Backend, dtype: Any, kernel_option: str | None = None
) -> Any:
    if backend.name != "numpy":
        if "complex" in str(table.dtype):
            raise DataError(f"`{name}` must hold real numbers, got {table.dtype}. Split real and imaginary parts in two columns.")
        return backend.xp.astype(table, dtype)
    if table.dtype.kind in "fiub":
        return table.astype(dtype, copy=False)
    try:
        return table.astype(dtype)
    except (TypeError, ValueError) as error:
        bad = next(c for c in range(table.shape[1]) if not _is_numeric(table[:, c]))
        remedy = (
            f'Use the delta kernel for labels: {kernel_option}="delta", or one kernel name per column.'
            if kernel_option
            else "Encode the labels as numbers, e.g. one 0/1 column per category."
        )
        raise DataError(
            f"`{name}` must hold numbers, got labels in column {names[bad]!r} (e.g. {table[0, bad]!r}). {remedy}"
        ) from error


def _is_numeric(column: Any) -> bool:
    try:
        column.astype(float)
    except (TypeError, ValueError):
        return False
    return True


def _columns_differ(first: str, first_shape: Any, name: str, shape: Any) -> str:
    return (
        f"`{first}` and `{name}` must have the same number of columns, got {first} {tuple(first_shape)} and "
        f"{name} {tuple(shape)}. Rows are observations; if `{name}` holds one feature per row, pass `{name}.T`."
    )


def _too_few_rows(name: str, shape: tuple[int, ...], min_rows: int) -> str:
    got = "no rows" if shape[0] == 0 else f"{shape[0]} row{'s' if shape[0] > 1 else ''}"
    hint = f" If `{name}` holds one feature per row, pass `{name}.T`." if shape[1] > shape[0] else ""
    return f"`{name}` must have at least {min_rows} rows, got {got} (shape {shape}). Collect more observations.{hint}"


def _not_finite(parts: Parts, tables: list[Any], names: tuple[str, ...], backend: Backend) -> str:
    for (name, _), table in zip(parts, tables, strict=True):
        bad = ~np.isfinite(backend.to_numpy(table))
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            return (
                f"`{name}` must be finite, got {int(bad.sum())} NaN or infinite value(s), first in row {row}, column "
                f"{names[column]!r}. Drop those rows, e.g. `{name}[np.isfinite({name}).all(axis=1)]` (and the same rows of "
                "the other variable), or impute them."
            )
    return "values overflow in the common floating type. Rescale the data or pass float64."
