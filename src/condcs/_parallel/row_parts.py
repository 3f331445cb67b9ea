"""Samples that are larger than memory, part by part: arrays on disk, Parquet and Arrow datasets, Dask collections.

A part is a function without arguments that returns x, y and weights of some rows (weights may be None), and can be sent
to another process; or, of a generator, the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from condcs._core.errors import DataError, ParameterError, ShapeError

Rows = tuple[Any, Any, Any]
Part = Callable[[], Rows] | Rows

PART_ROWS = 65_536
"""Rows of a part of an array."""


def sample_parts(
    name: str, source: Any, x: Sequence[str] | None, y: Sequence[str] | None, weights: str | None
) -> Callable[[], Iterable[Part]]:
    """Return a function that makes the parts of a sample anew, for each time that it is read.

    Parameters
    ----------
    name : str
        What the caller calls the sample.
    source
        A pair of arrays (x, y), or (x, y, weights); a path or a dataset of pyarrow; a Dask DataFrame; or a function
        without arguments that makes an iterator of such pairs, or of tables.
    x, y, weights
        Columns of tables.
    """
    columns = None if x is None or y is None else _Columns(name, tuple(x), tuple(y), weights)
    if callable(source):
        return lambda: (_rows_of(name, chunk, columns) for chunk in source())
    if isinstance(source, tuple | list):
        parts = _array_parts(name, tuple(source))
    elif columns is None:
        raise ParameterError(
            f"`x` and `y` must name columns where `{name}` is a table or a dataset. Pass e.g. x=['age'], y='price'."
        )
    elif isinstance(source, str | Path) or type(source).__module__.startswith("pyarrow"):
        parts = _arrow_parts(name, source, columns)
    elif hasattr(source, "npartitions") and hasattr(source, "partitions"):
        chosen = source[columns.names]
        parts = [partial(_computed_frame, chosen.partitions[i], columns) for i in range(source.npartitions)]
    else:
        raise DataError(
            f"`{name}` must be a pair of arrays (x, y), the path of a Parquet dataset, a dataset of pyarrow, a Dask "
            f"DataFrame, or a function that makes an iterator of chunks, got {type(source).__name__}."
        )
    return lambda: parts


class _Columns:
    """The columns of a table that are x, y and weights."""

    def __init__(self, sample: str, x: tuple[str, ...], y: tuple[str, ...], weights: str | None) -> None:
        self.sample, self.x, self.y, self.weights = sample, x, y, weights

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*self.x, *self.y, *([] if self.weights is None else [self.weights])]))

    def of(self, table: Any) -> Rows:
        """Return x, y and weights of a table: of pandas, pyarrow, polars, or a dictionary of columns."""
        try:
            x, y = ([np.asarray(table[name]) for name in names] for names in (self.x, self.y))
            weights = None if self.weights is None else np.asarray(table[self.weights])
        except (KeyError, LookupError) as error:
            raise DataError(f"`{self.sample}` must have the columns {', '.join(self.names)}: {error}.") from None
        return _table(x), _table(y), weights


def _table(columns: list[Any]) -> Any:
    return columns[0][:, None] if len(columns) == 1 else np.column_stack([_plain(c) for c in columns])


def _plain(column: Any) -> Any:
    """Return a column that can stand beside others: numbers as they are, anything else as objects."""
    return column if column.dtype.kind in "fiub" else column.astype(object)


def _rows_of(name: str, chunk: Any, columns: _Columns | None) -> Rows:
    if isinstance(chunk, tuple | list) and len(chunk) in (2, 3):
        return chunk[0], chunk[1], chunk[2] if len(chunk) == 3 else None
    if columns is None:
        raise ParameterError(
            f"`{name}` must yield pairs (x, y), or (x, y, weights), where `x` and `y` name no columns, got "
            f"{type(chunk).__name__}. Pass e.g. x=['age'], y='price'."
        )
    return columns.of(chunk)


def _array_parts(name: str, arrays: tuple[Any, ...]) -> list[Part]:
    if len(arrays) not in (2, 3):
        raise ShapeError(f"`{name}` must be a pair (x, y), or (x, y, weights), got {len(arrays)} entries.")
    lengths = [a.shape[0] for a in arrays]
    if any(np.isnan(n) for n in lengths):
        raise ShapeError(f"`{name}` must have known lengths. Call `.compute_chunk_sizes()` of its Dask arrays first.")
    if len(set(lengths)) != 1:
        raise ShapeError(f"`{name}` must hold arrays of the same number of rows, got {lengths}.")
    spans = [slice(start, start + PART_ROWS) for start in range(0, int(lengths[0]), PART_ROWS)]
    return [partial(_computed_arrays, tuple(a[span] for a in arrays)) for span in spans]


def _computed_arrays(arrays: tuple[Any, ...]) -> Rows:
    found = [np.asarray(_computed(a)) for a in arrays]
    return found[0], found[1], found[2] if len(found) == 3 else None


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
