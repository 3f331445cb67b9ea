"""Tables in files whose cells have types: Parquet and Arrow, batch by batch, and sheets of Excel.

`ColumnarTable` is what parquet and Arrow files are alike: record batches, checked, become a `TableBatch` of typed
columns. `parquet_table`, `arrow_file_table` and `arrow_stream_table` open the three; `ExcelTable` reads row by row. All
are bounded in memory whatever a file says of itself, and damage becomes an error that names the file. Which columns are
wanted, and what they mean, is not known here.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np

from condcs._core.errors import CondcsError, DataError
from condcs._core.vocabulary import named
from condcs._tables.arrow_cells import first_line, is_text, is_text_view, readable_cells
from condcs._tables.sources import BATCH_BYTES, TableBatch, TableRow, batch_rows, check_names, in_batches

_LABEL_BYTES, _CODE_BYTES = 1 << 23, 4
"""What the labels of a column of a row group may take up to be read as such, and the code of a row."""

_LONGEST_CELL = 1 << 17
"""Bytes of a cell, on average; csv has the same bound for each."""

_FRONT_CODED_ROWS = 16
"""Rows that are read at a time where nothing says how long their texts are."""


_BUFFER_BYTES = 1 << 20
"""What is read of a column of a row group at once, about a page: without a buffer whole chunks are held."""

_COLUMNS_SHOWN = 5
"""Columns that a message about types lists."""


class ColumnarTable:
    """A table of typed columns; `read` makes an iterator of record batches for some of them."""

    unit = "row"

    def __init__(self, schema: Any, read: Callable[[list[int], int], Iterator[Any]], title: str) -> None:
        self.title = title
        self.names = check_names(schema.names, title)
        self._schema = schema
        self._read = read

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[TableBatch]:
        """Yield typed columns."""
        self._check_types(columns)
        step, row = batch_rows(len(columns)), 1
        for batch in _checked(self._read(list(columns), most or step), self.title):
            for start in range(0, batch.num_rows, step):
                part = batch.slice(start, step)
                names = (self.names[c] for c in columns)
                cells = [readable_cells(c, self.title, n, row) for c, n in zip(part.columns, names, strict=True)]
                whole = TableBatch(cells, np.arange(row, row + part.num_rows))
                row += part.num_rows
                # Rows that are wanted one by one are cut from arrays: an Arrow array for each would take longer.
                yield from whole.parts(most or step)

    def _check_types(self, columns: Sequence[int]) -> None:
        """Refuse columns of lists, structures and the like."""
        odd = [(self.names[c], self._schema.field(c).type) for c in columns]
        odd = [(name, kind) for name, kind in odd if not _is_plain(kind)]
        if odd:
            raise DataError(
                f"{self.title} must hold numbers or text in "
                f"{', '.join(f'column {name!r}, got {kind}' for name, kind in odd[:_COLUMNS_SHOWN])}. "
                "Flatten it, or leave the column out."
            )


def parquet_table(stream: BinaryIO, title: str, closing: ExitStack) -> ColumnarTable:
    """Open a parquet file, until `closing` ends."""
    parquet = _pyarrow(title, "pyarrow.parquet")
    with _reading(title, "parquet"):
        file = parquet.ParquetFile(stream)
        chunks = _chunks(file)
        # Text whose labels are in the file once is read as labels and codes: long ones are not repeated for every row.
        labels = [
            f.name for f in file.schema_arrow if is_text(f.type) and all(map(_has_labels, chunks.get(f.name, ())))
        ]
        fronts = {name for name, parts in chunks.items() if any("DELTA_BYTE_ARRAY" in c.encodings for c in parts)}
        # A buffer, so that pages are read as they are needed, not whole column chunks.
        file = parquet.ParquetFile(stream, read_dictionary=labels, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        # By force: pyarrow leaves readers open of what was open before.
        closing.callback(file.close, force=True)
        schema = file.schema_arrow

    def read(columns: list[int], most: int) -> Iterator[Any]:
        names = [schema.names[c] for c in columns]
        sizes = {name: _cell_bytes(chunks.get(name, ())) for name in names}
        for name, size in sizes.items():
            if size > _LONGEST_CELL:
                # A page of such cells, which is unpacked as a whole, has no bound that is of use.
                raise DataError(
                    f"{title} must have cells of less than {_LONGEST_CELL:,} bytes, got {size:,} on average in column "
                    f"{name!r}. Leave the column out of {named('x')}."
                )
        rows = max(1, min(most, BATCH_BYTES // max(1, sum(sizes.values()))))
        if fronts & set(names):
            rows = min(rows, _FRONT_CODED_ROWS)
        return (batch.select(names) for batch in file.iter_batches(batch_size=rows, columns=names, use_threads=False))

    return ColumnarTable(schema, read, title)


def arrow_file_table(path: str, title: str, closing: ExitStack) -> ColumnarTable:
    """Open an Arrow IPC file (Feather), until `closing` ends."""
    ipc = _pyarrow(title, "pyarrow.ipc")
    with _reading(title, "Arrow"):
        # A file of pyarrow's own. The footer is read by a thread of pyarrow, which may be the last to let go of the
        # file, after a damaged one has been given up. To free an object of Python it would need the interpreter; where
        # that is about to end, the thread is ended instead, in a destructor, and the process with it (exit code 134).
        file = closing.enter_context(import_module("pyarrow").OSFile(path))
        reader = ipc.open_file(file, options=_in_this_thread(ipc))
        schema = reader.schema

    def read(columns: list[int], most: int) -> Iterator[Any]:
        batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        return (batch.select(columns) for batch in batches)

    return ColumnarTable(schema, read, title)


def arrow_stream_table(stream: BinaryIO, title: str, closing: ExitStack) -> ColumnarTable:
    """Open an Arrow IPC stream, which may come through a pipe, until `closing` ends."""
    ipc = _pyarrow(title, "pyarrow.ipc")
    with _reading(title, "Arrow"):
        reader = ipc.open_stream(stream, options=_in_this_thread(ipc))
        closing.callback(reader.close)
        schema = reader.schema

    def read(columns: list[int], most: int) -> Iterator[Any]:
        return (batch.select(columns) for batch in reader)

    return ColumnarTable(schema, read, title)


def _in_this_thread(ipc: Any) -> Any:
    """Return options that unpack a batch in the calling thread: its bytes may be Python's, see `arrow_file_table`."""
    return ipc.IpcReadOptions(use_threads=False)


def _chunks(file: Any) -> dict[str, list[Any]]:
    """Return what is known about each column of each row group, by the column's name."""
    chunks: dict[str, list[Any]] = {}
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        for chunk in map(group.column, range(group.num_columns)):
            chunks.setdefault(chunk.path_in_schema, []).append(chunk)
    return chunks


def _has_labels(chunk: Any) -> bool:
    """Whether a chunk is no more than labels and codes; other texts after them would all become labels."""
    most = _LABEL_BYTES + _CODE_BYTES * chunk.num_values
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most)


def _cell_bytes(chunks: Iterable[Any]) -> int:
    """Return about how many bytes a cell takes up in the file, unpacked, where it takes most."""
    return max((chunk.total_uncompressed_size // max(1, chunk.num_values) for chunk in chunks), default=0)


def _checked(batches: Iterator[Any], title: str) -> Iterator[Any]:
    """Yield batches whose lengths and offsets hold: reading a damaged one could end the process."""
    with _reading(title, "a readable table"):
        for batch in batches:
            batch.validate(full=True)
            yield batch


@contextmanager
def _reading(title: str, form: str) -> Iterator[None]:
    """Turn failures of a part of the reading into an error that calls the file damaged."""
    # Beside pyarrow's own errors: names that are no text, sizes that are negative or too large for Python.
    arrow_error = import_module("pyarrow").ArrowException
    try:
        yield
    except CondcsError:
        raise
    except (arrow_error, OSError, ValueError, LookupError, OverflowError, SystemError, MemoryError) as error:
        raise DataError(
            f"{title} must be {form}, but reading it failed: {first_line(error)}. Write the file again."
        ) from error


def _is_plain(kind: Any) -> bool:
    """Whether cells of an Arrow type are single values: numbers, times, truth values, texts or nothing."""
    types = import_module("pyarrow").types
    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    tests = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_temporal, types.is_null)
    return is_text(kind) or is_text_view(kind) or any(test(kind) for test in tests)


def _pyarrow(title: str, module: str) -> Any:
    """Import a module of pyarrow; say what to install where it is absent."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise CondcsError(
            f"{title} is a parquet or Arrow table, and reading it needs pyarrow. Install it: pip install pyarrow"
        ) from error


_EXPORT = "save the sheet as CSV UTF-8 in the spreadsheet"
_MOST_BYTES = 1 << 26
"""What the parts that are kept in memory, all but the sheets, may unpack to."""


class ExcelTable:
    """The first sheet of a workbook; its first row that is not empty names the columns."""

    unit = "row"

    def __init__(self, stream: BinaryIO, title: str) -> None:
        self.title = title
        self._rows = _rows(stream, title)
        _, header = next(self._rows, (0, None))
        if header is None:
            raise DataError(f"{title} is empty. A table needs a header and rows in its first sheet.")
        names = ["" if cell is None else str(cell).strip() for cell in header]
        while names and not names[-1]:
            names.pop()
        self.names = check_names(names, title)

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[TableBatch]:
        """Yield rows of numbers, strings, booleans, dates and None."""
        return in_batches(self._cells(columns), most or batch_rows(len(columns)))

    def _cells(self, columns: Sequence[int]) -> Iterator[tuple[int, TableRow, int]]:
        """Yield rows, each with its number; their size in the file is not known, and counts as 0."""
        width = len(self.names)
        for number, cells in self._rows:
            if any(cell is not None for cell in cells[width:]):
                raise DataError(
                    f"{self.title} must have a name above every column, got a cell beyond the last of {width} in row "
                    f"{number}. Name that column, or clear the cell."
                )
            yield number, [cells[c] if c < len(cells) else None for c in columns], 0


def _rows(stream: BinaryIO, title: str) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the rows that are not empty, with their numbers."""
    try:
        openpyxl = import_module("openpyxl")
    except ModuleNotFoundError as error:
        raise CondcsError(
            f"{title} is an Excel file, and reading it needs openpyxl. Install it: pip install openpyxl; or {_EXPORT}."
        ) from error
    try:
        _check_archive(stream, title)
        with warnings.catch_warnings():
            # About styles and extensions of the sheet, of which nothing is read.
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
            for number, cells in enumerate(book.worksheets[0].iter_rows(values_only=True), start=1):
                if any(cell is not None for cell in cells):
                    yield number, cells
    except CondcsError:
        raise
    except Exception as error:
        # openpyxl raises whatever its parsing of a damaged file meets.
        raise DataError(
            f"{title} must be a readable Excel file (.xlsx), but: {first_line(error)}. Save it again, or {_EXPORT}."
        ) from error


def _check_archive(stream: BinaryIO, title: str) -> None:
    """Refuse a zip archive that is no workbook, or one that would unpack to more than fits in memory."""
    with zipfile.ZipFile(stream) as archive:
        parts = archive.infolist()
    if not any(part.filename == "xl/workbook.xml" for part in parts):
        raise DataError(
            f"{title} must be a table (csv, jsonl, parquet, arrow or xlsx), got a zip archive of other files. Unpack "
            f"it and name the table; if it is a spreadsheet, {_EXPORT}."
        )
    size = sum(part.file_size for part in parts if not part.filename.startswith("xl/worksheets/"))
    if size > _MOST_BYTES:
        raise DataError(
            f"{title} must unpack to less than {_MOST_BYTES >> 20} MB beside its sheets, got {size >> 20:,} MB. "
            f"Instead, {_EXPORT}."
        )
