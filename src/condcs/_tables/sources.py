"""Open a table in any of the formats and hand out its rows in batches, never the whole of it at once."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args

from condcs._core.checks import check_choice, check_integer
from condcs._core.errors import DataError
from condcs._tables.kinds import Decimal, gap_marks

Format = Literal["csv", "jsonl", "parquet", "arrow", "xlsx"]

_ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
_PARQUET, _ARROW_FILE, _ARROW_STREAM, _GZIP = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff", b"\x1f\x8b"
_ZIP = b"PK\x03\x04"

# Files that are taken for tables, and would end in a guess about their encoding.
_FOREIGN = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old Excel file (.xls), or one with a password",
    b"%PDF": "a PDF document",
    b"\x93NUMPY": "a numpy array",
    b"\x89HDF": "an HDF5 file",
    b"SQLite f": "an SQLite database",
    b"\x28\xb5\x2f\xfd": "a file compressed by zstd",
    b"BZh": "a file compressed by bzip2",
    b"\xfd7zXZ": "a file compressed by xz",
}

BATCH_BYTES = 1 << 22
"""About what the cells of a batch may take up, as they are in the file."""

Row = Sequence[Any]


class RowError(DataError):
    """One row of a table cannot be read; calling `Table.batches` again goes on with the row after it."""


@dataclass(frozen=True)
class FileOptions:
    """How files, and text in tables, are read.

    Parameters
    ----------
    format : {"csv", "jsonl", "parquet", "arrow", "xlsx"}, optional
        By default a file's first bytes and its ending tell.
    encoding : str
        Of csv and jsonl.
    decimal : {".", ","}
        Decimal sign of numbers that are written as text.
    gaps : str or sequence of str
        Texts that stand for a missing value, beside the usual ones; each perhaps several with commas between them.
    memory : int
        Megabytes that the sampled rows may take up.
    """

    format: Format | None = None
    encoding: str = "utf-8"
    decimal: Decimal = "."
    gaps: str | Sequence[str] = ()
    memory: int = 500

    def __post_init__(self) -> None:
        if self.format is not None:
            check_choice("format", self.format, get_args(Format))
        check_choice("decimal", self.decimal, get_args(Decimal))
        check_integer("memory", self.memory, 1)


class Batch(list[Row]):
    """Rows, and for each the line of the file that it starts in, or its number."""

    def __init__(self, rows: Iterable[Row] = (), lines: Iterable[int] = ()) -> None:
        super().__init__(rows)
        self.lines = list(lines)


def batch_rows(columns: int) -> int:
    """Rows of a batch: thousands, fewer of a wide table."""
    return max(1, min(5_000, 200_000 // max(1, columns)))


class Table(Protocol):
    """A table that is read once, from its first row to its last; `unit` is what `Batch.lines` counts."""

    title: str
    unit: str
    names: tuple[str, ...]

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[Batch]:
        """Yield rows, cut down to some columns, `most` at a time (by default a few thousand)."""


def open_table(source: str | Table, files: FileOptions, *, any_bytes: bool = False) -> AbstractContextManager[Table]:
    """Open a table for reading.

    Parameters
    ----------
    source : str or Table
        A file, "-" for standard input, or a table that is open already.
    files : FileOptions
        How it is read.
    any_bytes : bool
        Whether bytes that the encoding does not have become replacement characters, instead of an error.

    Returns
    -------
    context manager
        Gives the `Table`, and closes the file.
    """
    if isinstance(source, str):
        return _opened(source, files, any_bytes)
    return nullcontext(_Marked(source, files.gaps) if files.gaps else source)


@contextmanager
def _opened(path: str, files: FileOptions, any_bytes: bool) -> Iterator[Table]:
    title = "standard input" if path == "-" else path
    try:
        stream = _raw_stream(path, title)
    except OSError as error:
        raise DataError(
            f"{title} could not be read: {error.strerror or error}. Check the path and its permissions."
        ) from error
    try:
        table = _table(stream, path, title, files, any_bytes)
        yield _Marked(table, files.gaps) if files.gaps else table
    except UnicodeError as error:
        # Some codecs say no more than that they cannot read it: UTF-16 without a byte order mark.
        what: object = error
        if isinstance(error, UnicodeDecodeError):
            what = f"the byte 0x{error.object[error.start]:02x}, which does not occur in it"
        raise DataError(
            f"{title} must be text in {files.encoding}, got {what}. Name its encoding, e.g. "
            "files=FileOptions(encoding='latin-1')."
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{title} must be a whole gzip file, got a damaged one ({error}). Fetch it again.") from error
    except OSError as error:
        raise DataError(
            f"{title} could not be read: {error.strerror or error}. Check the file and its disk."
        ) from error
    finally:
        if path != "-":
            stream.close()


def _raw_stream(path: str, title: str) -> io.BufferedReader:
    if path == "-":
        given: Any = sys.stdin.buffer
        return given if hasattr(given, "peek") else io.BufferedReader(given)
    if Path(path).is_dir():
        raise DataError(f"{title} must be a file, got a folder. Name one file in it.")
    return io.BufferedReader(io.FileIO(path), 1 << 20)


def _table(stream: io.BufferedReader, path: str, title: str, files: FileOptions, any_bytes: bool) -> Table:
    head = stream.peek(8)[:8]
    if not head:
        raise DataError(f"{title} is empty. A table needs a header and rows.")
    text: Any = stream
    name = path
    if head.startswith(_GZIP):
        text = gzip.GzipFile(fileobj=stream)
        name = name.removesuffix(".gz")
        head = text.peek(8)[:8]
    _check_kind(head, title, files.format)
    form = files.format or _form(name, head)
    if form == "xlsx":
        from condcs._tables.excel import ExcelTable

        if text is not stream or path == "-":
            raise DataError(f"{title} must be a file of its own to be read as Excel. Unpack it, or save it to a file.")
        return ExcelTable(stream, title)
    if form in ("parquet", "arrow"):
        from condcs._tables.columnar import arrow_table, parquet_table

        if text is not stream:
            raise DataError(f"{title} must not be compressed as a whole: {form} compresses inside. Run gunzip on it.")
        if form == "parquet":
            return parquet_table(stream, title, piped=path == "-")
        return arrow_table(stream, title, piped=path == "-", is_file=head.startswith(_ARROW_FILE))
    from condcs._tables.text import CsvTable, JsonLinesTable

    codec = _checked_codec(files.encoding)
    errors = "replace" if any_bytes else "strict"
    lines = io.TextIOWrapper(cast(Any, _Unclosed(text)), encoding=codec, errors=errors, newline="")
    return CsvTable(lines, title) if form == "csv" else JsonLinesTable(lines, title)


def _check_kind(head: bytes, title: str, form: str | None) -> None:
    what = next((words for start, words in _FOREIGN.items() if head.startswith(start)), None)
    if what is not None:
        raise DataError(
            f"{title} must be a table (csv, jsonl, parquet, arrow or xlsx), got {what}. Save it as one of these, e.g. "
            "as CSV UTF-8 in a spreadsheet."
        )
    if head.startswith(_ZIP) and form not in (None, "xlsx"):
        raise DataError(
            f"{title} must be {form}, got a zip archive or an Excel file. Unpack it, or leave `format` out."
        )


def _form(name: str, head: bytes) -> str:
    ending = _ENDINGS.get(Path(name).suffix.lower())
    if head.startswith(_ZIP):
        return "xlsx"
    if head.startswith(_PARQUET):
        return "parquet"
    if head.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return "arrow"
    return ending or ("jsonl" if head.lstrip().startswith(b"{") else "csv")


def _checked_codec(encoding: str) -> str:
    try:
        "".encode(encoding)
    except (LookupError, ValueError) as error:
        raise DataError(
            f"`encoding` must be the name of a text encoding, got {encoding!r}. Pass e.g. encoding='latin-1'."
        ) from error
    # A byte order mark at the start is no part of the first name.
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding


class _Marked:
    """A table in which some texts stand for gaps."""

    def __init__(self, table: Table, gaps: str | Sequence[str]) -> None:
        self._table = table
        self._is_gap = gap_marks([gaps] if isinstance(gaps, str) else gaps)
        self.title, self.unit, self.names = table.title, table.unit, table.names

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[Batch]:
        is_gap = self._is_gap
        for batch in self._table.batches(columns, most):
            yield Batch(([None if is_gap(cell) else cell for cell in row] for row in batch), batch.lines)


class _Unclosed(io.BufferedIOBase):
    """A stream that the text layer does not close when it is collected: it is not ours, or closed elsewhere."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        return bytes(self._stream.read(size))

    def read1(self, size: int = -1, /) -> bytes:
        return bytes(self._stream.read1(size))
