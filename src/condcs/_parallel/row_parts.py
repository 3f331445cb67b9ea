"""Samples that are larger than memory, part by part: arrays on disk, Parquet and Arrow datasets, Dask collections.

A part is a function without arguments that returns the variables of some rows, such as x and y, and their weights or
None, and can be sent to another process; or, of a generator, the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from condcs._core.errors import DataError, ParameterError, ShapeError

Rows = tuple[list[Any], Any]
Part = Callable[[], Rows] | Rows

PART_ROWS = 65_536
"""Rows of a part of an array."""


def sample_parts(
    name: str, source: Any, variables: Mapping[str, Sequence[str] | None], weights: str | None
) -> Callable[[], Iterable[Part]]:
    """Return a function that makes the parts of a sample anew, for each time that it is read.

    Parameters
    ----------
    name : str
        What the caller calls the sample.
    source
        A tuple of arrays, one per variable, with or without weights, or a single array; a path or a dataset of pyarrow;
        a Dask DataFrame; or a function without arguments that makes an iterator of such tuples, or of tables.
    variables : mapping of str to sequence of str
        The variables, "x" and "y" or "y" alone, and their columns in tables.
    weights
        The column of tables that holds weights.
    """
    given = {which: tuple(columns) for which, columns in variables.items() if columns is not None}
    columns = _Columns(name, given, weights) if len(given) == len(variables) else None
    if callable(source):
        return lambda: (_rows_of(name, chunk, tuple(variables), columns) for chunk in source())
    if isinstance(source, Iterator):
        raise ParameterError(
            f"`{name}` must be a function that makes the iterator, because rows are read several times, got the "
            f"iterator itself. Pass e.g. {name}=lambda: chunks()."
        )
    if isinstance(source, tuple | list) or (len(variables) == 1 and _is_array(source)):
        parts = _array_parts(name, _as_tuple(source), tuple(variables))
    elif columns is None:
        options = " and ".join(f"`{which}`" for which in variables)
        raise ParameterError(
            f"{options} must name columns where `{name}` is a table or a dataset. Pass e.g. x=['age'], y='price'."
        )
    elif isinstance(source, str | Path) or type(source).__module__.startswith("pyarrow"):
        parts = _arrow_parts(name, source, columns)
    elif hasattr(source, "npartitions") and hasattr(source, "partitions"):
        chosen = source[columns.names]
        parts = [partial(_computed_frame, chosen.partitions[i], columns) for i in range(source.npartitions)]
    elif hasattr(source, "columns") and hasattr(source, "shape"):
        spans = [slice(start, start + PART_ROWS) for start in range(0, len(source), PART_ROWS)]
        parts = [partial(_computed_frame, source[span], columns) for span in spans]
    else:
        raise DataError(
            f"`{name}` must be {_expected(tuple(variables))}, a DataFrame (of Dask as well), the path of a Parquet "
            f"dataset, a dataset of pyarrow, or a function that makes an iterator of chunks, got "
            f"{type(source).__name__}."
        )
    return lambda: parts


def _expected(variables: tuple[str, ...]) -> str:
    return "an array, or a pair (y, weights)" if len(variables) == 1 else "a pair (x, y), or (x, y, weights)"


def _is_array(source: Any) -> bool:
    """Whether this can be sliced by rows: an array, not a table with columns of its own."""
    return hasattr(source, "shape") and hasattr(source, "dtype")


def _as_tuple(source: Any) -> tuple[Any, ...]:
    return tuple(source) if isinstance(source, tuple | list) else (source,)


class _Columns:
    """The columns of a table that are variables and weights."""

    def __init__(self, sample: str, variables: dict[str, tuple[str, ...]], weights: str | None) -> None:
        self.sample, self.variables, self.weights = sample, variables, weights

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        chosen = [name for names in self.variables.values() for name in names]
        return list(dict.fromkeys([*chosen, *([] if self.weights is None else [self.weights])]))

    def of(self, table: Any) -> Rows:
        """Return the variables and the weights of a table: of pandas, pyarrow, polars, or a dictionary of columns."""
        try:
            found = [[np.asarray(table[name]) for name in names] for names in self.variables.values()]
            weights = None if self.weights is None else np.asarray(table[self.weights])
        except (KeyError, LookupError) as error:
            raise DataError(f"`{self.sample}` must have the columns {', '.join(self.names)}: {error}.") from None
        return [_table(columns) for columns in found], weights


def _table(columns: list[Any]) -> Any:
    return columns[0][:, None] if len(columns) == 1 else np.column_stack([_plain(c) for c in columns])


def _plain(column: Any) -> Any:
    """Return a column that can stand beside others: numbers as they are, anything else as objects."""
    return column if column.dtype.kind in "fiub" else column.astype(object)


def _rows_of(name: str, chunk: Any, variables: tuple[str, ...], columns: _Columns | None) -> Rows:
    count = len(variables)
    if isinstance(chunk, tuple | list) or (count == 1 and _is_array(chunk)):
        arrays = _as_tuple(chunk)
        if len(arrays) in (count, count + 1):
            return list(arrays[:count]), arrays[count] if len(arrays) > count else None
    if columns is None:
        raise ParameterError(
            f"`{name}` must yield {_expected(variables)}, where no columns are named, got {type(chunk).__name__}. Pass "
            "e.g. x=['age'], y='price'."
        )
    return columns.of(chunk)


def _array_parts(name: str, arrays: tuple[Any, ...], variables: tuple[str, ...]) -> list[Part]:
    if len(arrays) not in (len(variables), len(variables) + 1):
        raise ShapeError(f"`{name}` must be {_expected(variables)}, got {len(arrays)} entries.")
    lengths = [a.shape[0] for a in arrays]
    if any(np.isnan(n) for n in lengths):
        raise ShapeError(f"`{name}` must have known lengths. Call `.compute_chunk_sizes()` of its Dask arrays first.")
    if len(set(lengths)) != 1:
        raise ShapeError(f"`{name}` must hold arrays of the same number of rows, got {lengths}.")
    spans = [slice(start, start + PART_ROWS) for start in range(0, int(lengths[0]), PART_ROWS)]
    return [partial(_computed_arrays, tuple(a[span] for a in arrays), len(variables)) for span in spans]


def _computed_arrays(arrays: tuple[Any, ...], count: int) -> Rows:
    found = [np.asarray(_computed(a)) for a in arrays]
    return found[:count], found[count] if len(found) > count else None


def _computed_frame(frame: Any, columns: _Columns) -> Rows:
    return columns.of(_computed(frame))


def _computed(collection: Any) -> Any:
    """Compute a Dask collection where this runs: its parts have been spread already."""
    return collection.compute(scheduler="synchronous") if hasattr(collection, "compute") else collection


def _arrow_parts(name: str, source: Any, columns: _Columns) -> list[Part]:
    try:
        import pyarrow.dataset
    except ModuleNotFoundError:
        raise ParameterError(
            f"`{name}` must be readable by pyarrow, which is not installed. Install it: pip install pyarrow."
        ) from None
    try:
        dataset = source if hasattr(source, "get_fragments") else pyarrow.dataset.dataset(source)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"`{name}` must be a Parquet or Arrow dataset: {str(error).splitlines()[0]}") from None
    missing = [column for column in columns.names if column not in dataset.schema.names]
    if missing:
        raise DataError(f"`{name}` must have the column {missing[0]!r}; it has {', '.join(dataset.schema.names)}.")
    return [partial(_read_fragment, piece, columns) for f in dataset.get_fragments() for piece in _pieces(f)]


def _pieces(fragment: Any) -> Iterator[Any]:
    """Yield the row groups of a file of Parquet, or a file of another format as it is."""
    yield from fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]


def _read_fragment(fragment: Any, columns: _Columns) -> Rows:
    # One thread: parts are read by several threads or workers already.
    return columns.of(fragment.to_table(columns=columns.names, use_threads=False))
