"""Parquet and Arrow tables, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, BinaryIO

from condcs.cli.tables.sources import Row, batch_rows
from condcs.cli.tables.text import check_names
from condcs.core.errors import CondcsError, DataError


class ColumnarTable:
    """A table of typed columns; `read` makes an iterator of record batches for some of them."""

    def __init__(self, names: Sequence[str], read: Callable[[list[str]], Iterator[Any]], title: str) -> None:
        self.title = title
        self.names = check_names(names, title)
        # A column without a name has one here; pyarrow wants the original.
        self._original = list(names)
        self._read = read

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[list[Row]]:
        """Yield rows of Python values."""
        chosen = [self._original[c] for c in columns]
        most = most or batch_rows(len(columns))
        for batch in _mended(self._read(chosen), self.title):
            for start in range(0, batch.num_rows, most):
                part = batch.slice(start, most)
                values = [self._values(part.column(name), name) for name in chosen]
                yield list(zip(*values, strict=True))

    def _values(self, column: Any, name: str) -> list[Any]:
        values: list[Any] = column.to_pylist()
        odd = next((v for v in values if isinstance(v, list | dict | bytes)), None)
        if odd is not None:
            raise DataError(
                f"{self.title} must hold numbers or text in column {name!r}, got {type(odd).__name__}. "
                "Flatten it, or leave the column out of --x."
            )
        return values


def parquet_table(stream: BinaryIO, title: str, *, piped: bool) -> ColumnarTable:
    """Open a parquet file."""
    pyarrow, parquet = _pyarrow(title), import_module("pyarrow.parquet")
    _check_seekable(title, "parquet", piped)
    try:
        file = parquet.ParquetFile(stream)
    except pyarrow.ArrowException as error:
        raise _damaged(title, "parquet", error) from error

    def read(columns: list[str]) -> Iterator[Any]:
        return iter(file.iter_batches(batch_size=batch_rows(len(columns)), columns=columns))

    return ColumnarTable(file.schema_arrow.names, read, title)


def arrow_table(stream: BinaryIO, title: str, *, piped: bool, is_file: bool) -> ColumnarTable:
    """Open an Arrow IPC file (Feather) or stream; only a stream can come through a pipe."""
    pyarrow, ipc = _pyarrow(title), import_module("pyarrow.ipc")
    if is_file:
        _check_seekable(title, "an Arrow file", piped)
    try:
        reader = ipc.open_file(stream) if is_file else ipc.open_stream(stream)
    except pyarrow.ArrowException as error:
        raise _damaged(title, "Arrow", error) from error

    def read(columns: list[str]) -> Iterator[Any]:
        if is_file:
            yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            yield from reader

    return ColumnarTable(reader.schema.names, read, title)


def _mended(batches: Iterator[Any], title: str) -> Iterator[Any]:
    pyarrow = _pyarrow(title)
    try:
        yield from batches
    except pyarrow.ArrowException as error:
        raise _damaged(title, "a readable table", error) from error


def _damaged(title: str, form: str, error: Exception) -> DataError:
    words = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError(f"{title} must be {form}, but reading it failed: {words}. Write the file again.")


def _check_seekable(title: str, form: str, piped: bool) -> None:
    if piped:
        raise DataError(
            f"{title} must be csv, jsonl or an Arrow stream, got {form}, which is read from its end. "
            "Save it to a file and name that."
        )


def _pyarrow(title: str) -> Any:
    try:
        return import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise CondcsError(
            f"{title} is a parquet or Arrow table, and reading it needs pyarrow. Install it: pip install pyarrow"
        ) from error
