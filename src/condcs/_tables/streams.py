"""Tables that other libraries hold, as streams of Arrow batches: never the whole of one, and only the columns wanted.

`streamed_table` is the function to read first: it finds the row of `_SOURCES` that knows how to ask an object for some
of its columns, batch by batch, and hands out a `ColumnarTable`. What an object can do decides, and its library is never
imported. Any object with `__arrow_c_stream__` is a stream, whatever library it comes from; those that could compute
fewer columns, or would compute all rows before the first is handed out, have a class of their own before it. A new one
is a subclass of `ArrowSource` and its row in `_SOURCES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar

from condcs._core.errors import CondcsError, DataError
from condcs._tables.arrow_cells import first_line
from condcs._tables.typed_files import ColumnarTable

_PAGE_BYTES = 1 << 20
"""What is read of a column of a parquet file at once, about a page: without this whole row groups are held."""


class ArrowSource(ABC):
    """An object that holds a table: its schema, and batches of some of its columns, from the first row each time."""

    abilities: ClassVar[tuple[str, ...]]  # attributes by which such objects are known

    def __init__(self, value: Any, title: str) -> None:
        self._value, self._title = value, title

    @abstractmethod
    def schema(self) -> Any:
        """Return the Arrow schema, without a look at the rows if possible."""

    @abstractmethod
    def batches(self, names: list[str], rows: int) -> Iterable[Any]:
        """Return record batches that hold these columns, of about so many rows where that can be chosen."""


class DatasetSource(ArrowSource):
    """A dataset of pyarrow, which reads no other columns than those wanted."""

    abilities = ("scanner", "get_fragments", "schema")

    def schema(self) -> Any:
        """Return the schema of all its files."""
        return self._value.schema

    def batches(self, names: list[str], rows: int) -> Iterable[Any]:
        """Return batches, one file after the other."""
        dataset = import_module("pyarrow.dataset")
        options: dict[str, Any] = {}
        if getattr(getattr(self._value, "format", None), "default_extname", None) == "parquet":
            # Else a file of ten million rows takes 150 MB, a row group after the other; so it takes 25.
            options["fragment_scan_options"] = dataset.ParquetFragmentScanOptions(
                use_buffered_stream=True, buffer_size=_PAGE_BYTES, pre_buffer=False
            )
        # One thread, no reading ahead: rows come in their order, and memory does not grow with the number of files.
        scanner = self._value.scanner(
            columns=names, batch_size=rows, batch_readahead=0, fragment_readahead=0, use_threads=False, **options
        )
        return scanner.to_batches()  # type: ignore[no-any-return]


class LazyFrameSource(ArrowSource):
    """A LazyFrame of polars, whose query is run without the columns that are not wanted."""

    abilities = ("collect_schema", "collect", "select", "lazy")

    def schema(self) -> Any:
        """Return the schema of the query's result, from none of its rows."""
        return _stream(self._value.limit(0).collect()).schema

    def batches(self, names: list[str], rows: int) -> Iterable[Any]:
        """Yield batches as the query makes them; polars before 1.34 makes all rows of these columns first."""
        query = self._value.select(names)
        frames = query.collect_batches(chunk_size=rows) if hasattr(query, "collect_batches") else [query.collect()]
        for frame in frames:
            yield from _stream(frame)


class RelationSource(ArrowSource):
    """A relation of DuckDB: each pass is a query of its own, which names the columns wanted."""

    abilities = ("project", "limit", "fetchall", "types")

    def schema(self) -> Any:
        """Return the schema of the query's result, from none of its rows."""
        with self._reader(self._value.limit(0), 1) as reader:
            return reader.schema

    def batches(self, names: list[str], rows: int) -> Iterable[Any]:
        """Yield batches as the query makes them."""
        # Closed at once: a connection that has an open result refuses the next query.
        with self._reader(self._value.project(", ".join(map(quoted_name, names))), rows) as reader:
            yield from reader

    def _reader(self, relation: Any, rows: int) -> Any:
        """Return a reader of a relation's rows; before DuckDB 1.4 the method has another name."""
        fetch = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
        return fetch(rows)


class IbisSource(ArrowSource):
    """A table expression of ibis, on any of its engines."""

    abilities = ("to_pyarrow_batches", "select", "schema")

    def schema(self) -> Any:
        """Return the schema of the expression."""
        return self._value.schema().to_pyarrow()

    def batches(self, names: list[str], rows: int) -> Iterable[Any]:
        """Return batches as the engine makes them."""
        return self._value.select(names).to_pyarrow_batches(chunk_size=rows)  # type: ignore[no-any-return]


class SparkSource(ArrowSource):
    """A DataFrame of Spark: its workers write Arrow batches, which come one partition at a time.

    `toArrow` would bring all rows at once, and rows of Python values would take longer.
    """

    abilities = ("mapInArrow", "toLocalIterator", "select", "limit")

    def schema(self) -> Any:
        """Return the schema, as Spark turns it into Arrow's."""
        if hasattr(self._value, "toArrow"):
            return self._value.limit(0).toArrow().schema
        # Before Spark 4.
        return import_module("pyspark.sql.pandas.types").to_arrow_schema(self._value.schema)

    def batches(self, names: list[str], rows: int) -> Iterable[Any]:
        """Yield batches of the size that Spark is configured to make."""
        pyarrow = import_module("pyarrow")

        def written(batches: Any) -> Any:
            # Workers have pyarrow, but perhaps not this package: a function within a function is sent as a whole.
            import pyarrow

            for batch in batches:
                sink = pyarrow.BufferOutputStream()
                with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
                    writer.write_batch(batch)
                yield pyarrow.record_batch([pyarrow.array([sink.getvalue().to_pybytes()])], names=["stream"])

        # Names with a dot would be taken for fields of a structure.
        columns = [f"`{name.replace('`', '``')}`" for name in names]
        # Nor does `mapInArrow` find those; the order of the columns tells them apart.
        frame = self._value.select(*columns).toDF(*(f"column{n}" for n in range(len(columns))))
        for row in frame.mapInArrow(written, "stream binary").toLocalIterator():
            with pyarrow.ipc.open_stream(pyarrow.py_buffer(bytes(row[0]))) as reader:
                yield from reader


class StreamSource(ArrowSource):
    """Any object that gives its rows as a stream by the Arrow C interface (`__arrow_c_stream__`).

    A reader gives them once: a pass without rows is then an error, which says so.
    """

    abilities = ("__arrow_c_stream__",)

    def __init__(self, value: Any, title: str) -> None:
        super().__init__(value, title)
        # The stream that the schema came from, for the first pass: it may be the only one.
        self._opened: Any = None

    def schema(self) -> Any:
        """Return the schema of the object itself if it has one, else that of a stream."""
        pyarrow = import_module("pyarrow")
        schema = getattr(self._value, "schema", None)
        if isinstance(schema, pyarrow.Schema):
            return schema
        self._opened = self._open()
        return self._opened.schema

    def batches(self, names: list[str], rows: int) -> Iterable[Any]:
        """Yield batches with these columns; a source of more has made the others already."""
        stream, self._opened = self._opened or self._open(), None
        n_rows = 0
        for batch in stream:
            n_rows += batch.num_rows
            yield batch.select(names)
        if not n_rows:
            raise self._used_up("got none")

    def _open(self) -> Any:
        try:
            return _stream(self._value)
        except Exception as error:
            raise self._used_up(f"but opening its stream failed: {first_line(error)}") from error

    def _used_up(self, what: str) -> DataError:
        return DataError(
            f"{self._title} must have rows, {what}. A stream can be read only once: pass a new one each time, or the "
            "table that it makes, such as that of `read_all()`."
        )


class ArraySource(ArrowSource):
    """Any object that gives all its rows as a structure by the Arrow C interface (`__arrow_c_array__`)."""

    abilities = ("__arrow_c_array__",)

    def schema(self) -> Any:
        """Return the schema of its one batch."""
        return self._batch().schema

    def batches(self, names: list[str], rows: int) -> Iterable[Any]:
        """Return its one batch."""
        return [self._batch().select(names)]

    def _batch(self) -> Any:
        return import_module("pyarrow").record_batch(self._value)


class InterchangeSource(ArrowSource):
    """Any object with the DataFrame interchange protocol (`__dataframe__`)."""

    abilities = ("__dataframe__",)

    def schema(self) -> Any:
        """Return the schema; the protocol has none, but its chunks."""
        first = next(iter(self._value.__dataframe__().get_chunks()), self._value)
        return self._table(first).schema

    def batches(self, names: list[str], rows: int) -> Iterable[Any]:
        """Yield batches, chunk by chunk."""
        for chunk in self._value.__dataframe__().select_columns_by_name(names).get_chunks():
            yield from self._table(chunk).to_batches()

    def _table(self, chunk: Any) -> Any:
        return import_module("pyarrow.interchange").from_dataframe(chunk)


_SOURCES: tuple[type[ArrowSource], ...] = (
    DatasetSource,
    LazyFrameSource,
    RelationSource,
    IbisSource,
    SparkSource,
    StreamSource,
    ArraySource,
    InterchangeSource,
)
"""What holds tables, by what its objects can do: the first that fits. Protocols, which say least, come last."""


def streamed_table(value: Any, title: str) -> ColumnarTable | None:
    """Return an object that holds a table as a stream of its batches, None if it is none of those."""
    source_type = next((each for each in _SOURCES if all(hasattr(value, name) for name in each.abilities)), None)
    if source_type is None:
        return None
    try:
        import_module("pyarrow")
    except ModuleNotFoundError as error:
        if hasattr(value, "get_columns"):
            # Of polars: its columns can be listed.
            return None
        raise CondcsError(
            f"{title} hands out its rows through Arrow, and reading them needs pyarrow. Install it: pip install pyarrow"
        ) from error
    return arrow_table(source_type(value, title), title)


def arrow_table(source: ArrowSource, title: str) -> ColumnarTable:
    """Return what a source holds as a table."""
    with _computing(title):
        schema = source.schema()

    def read(columns: list[int], rows: int) -> Iterator[Any]:
        names = [schema.names[column] for column in columns]
        with _computing(title):
            yield from source.batches(names, rows)

    return ColumnarTable(schema, read, title)


def quoted_name(name: str) -> str:
    """Return the name of a column or table as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def _stream(value: Any) -> Any:
    """Return a reader of the batches that an object gives by the Arrow C interface."""
    return import_module("pyarrow").RecordBatchReader.from_stream(value)


@contextmanager
def _computing(title: str) -> Iterator[None]:
    """Turn failures of the library that makes the rows into an error that names the table."""
    try:
        yield
    except (CondcsError, GeneratorExit):
        raise
    except Exception as error:
        # Queries fail with whatever their engine raises.
        raise DataError(
            f"{title} must be a table whose rows can be computed, but: {first_line(error)}. Correct its query, or pass "
            "the rows as a DataFrame."
        ) from error
