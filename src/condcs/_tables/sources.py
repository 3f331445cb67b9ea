"""Open a table in any of the formats and hand out its rows in batches, never the whole of it at once.

`Table` is what every source of tables is: a title, names of columns, and `batches`, which yields batch after batch of
some of the columns as `Cells`, each row with its line in the file. `open_table` is the function to read first: it tells
the format of a file from its first bytes and its ending, and opens it; `CsvTable` and `JsonLinesTable` are here, typed
files in `typed_files`, databases in `databases`, many files in `folders`, tables in memory in `in_memory`, and what
streams Arrow batches in `streams`.

A source knows nothing of what its columns mean: whether texts are numbers, which columns are wanted and which rows are
sampled is decided above it, in `kinds`, `pair` and `sampling`. A new format is a class with the members of `Table`, a
row in `ENDINGS` and a branch in `_table`.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import json
import sys
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np

from condcs._core.arrays import AnyArray, IntArray
from condcs._core.checks import check_choice, check_integer, check_positive
from condcs._core.errors import DataError, ParameterError
from condcs._core.printable import counted, listed
from condcs._core.vocabulary import named, setting, table_setting
from condcs._tables.cells import Cells, DecimalSign, cells_of, gap_marks

Format = Literal["csv", "jsonl", "parquet", "arrow", "xlsx", "sqlite", "duckdb"]

ENDINGS: dict[str, Format] = {
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
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".duckdb": "duckdb",
}
"""The format of a file by the ending of its name, where its first bytes do not tell."""

_PARQUET, _ARROW_FILE, _ARROW_STREAM, _GZIP = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff", b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_SQLITE, _DUCKDB = b"SQLite format 3\0", b"DUCK"
_DUCKDB_AT = 8
"""Bytes before the mark of a DuckDB file: a checksum."""

# Files that are taken for tables, and would end in a guess about their encoding.
_FOREIGN = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old Excel file (.xls), or one with a password",
    b"%PDF": "a PDF document",
    b"\x80\x04\x95": "a Python pickle",
    b"\x80\x05\x95": "a Python pickle",
    b"\x93NUMPY": "a numpy array",
    b"\x89HDF": "an HDF5 file",
    b"\x28\xb5\x2f\xfd": "a file compressed by zstd",
    b"BZh": "a file compressed by bzip2",
    b"\xfd7zXZ": "a file compressed by xz",
}

MEGABYTE = 1 << 20
"""Bytes of a megabyte, the unit of `FileOptions.memory`."""

BATCH_BYTES = 1 << 22
"""About what the cells of a batch may take up, as they are in the file."""

FEWEST_TABLE_ROWS = 10
"""Rows that a table must have to be compared."""

_BATCH_ROWS, _BATCH_CELLS = 5_000, 200_000
"""Rows and cells of a batch at most. Larger ones take more memory, some 60 bytes for a short text; smaller ones take
more calls of numpy for each row."""

_BUFFER_BYTES = 1 << 20
"""What is read from a file at once; a page of parquet is about as large."""

_HEAD_BYTES = 16
"""First bytes of a file that tell what it is: all marks above end within these."""

_NAMES_SHOWN = 5
"""Names of columns that a message about a header lists."""

TableRow = Sequence[Any]

Columns = str | int | Sequence[str | int]
"""Columns: names, globs, or numbers for those of an array."""

MissingCells = Literal["error", "drop", "as-value"]
"""What becomes of missing values."""

UnusableInputs = Literal["leave-out", "error"]
"""What becomes of columns of x of which nothing can be compared."""


class RowError(DataError):
    """One row of a table cannot be read; calling `Table.batches` again goes on with the row after it."""


@dataclass(frozen=True)
class FileOptions:
    """How files, and text in tables, are read."""

    format: Format | None = None  # by default a file's first bytes and its ending tell
    encoding: str = "utf-8"  # of csv and jsonl
    decimal: DecimalSign = "."  # of numbers that are written as text
    gaps: str | Sequence[str] = ()  # texts for a missing value beside the usual ones, perhaps several with commas
    memory: int = 500  # megabytes that the sampled rows may take up
    table: str | None = None  # of a database that holds several
    sql: str | None = None  # a query to a database, instead of one of its tables

    def __post_init__(self) -> None:
        if self.format is not None:
            check_choice("format", self.format, get_args(Format))
        check_choice("decimal", self.decimal, get_args(DecimalSign))
        check_integer("memory", self.memory, 1)
        for name in ("table", "sql"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value.strip()):
                raise ParameterError(f"{named(name)} must be text, got {value!r}. Leave it out to read the only table.")
        if self.table is not None and self.sql is not None:
            raise ParameterError(
                f"{named('table', 'sql')} must not both be given, got {self.table!r} and {self.sql!r}. Name the table "
                "in the query."
            )


@dataclass(frozen=True)
class TableOptions(FileOptions):
    """How tables are read, and what their columns are for.

    Parameters
    ----------
    format, encoding, decimal, gaps, memory
        Of files, and of text in tables: the format, if a file's first bytes and its ending do not tell ("csv",
        "jsonl", "parquet", "arrow", "xlsx", "sqlite" or "duckdb"), the encoding of csv and jsonl, the decimal sign
        ("." or ","), texts that stand for a missing value beside the usual ones, and the megabytes that the sampled
        rows may take up.
    table, sql : str, optional
        Of database files: the table to read, or a query whose rows are read. A database of one table needs neither.
    missing : {"as-value", "drop", "error"}
        Whether gaps of x count as values (a category "missing", or the median of a number and a column that flags the
        gaps) and rows without y are left out, or all rows with missing values are left out, or they are an error.
    unusable : {"leave-out", "error"}
        Whether columns of x of which nothing can be compared are left out, and named in the answer, or an error:
        identifiers, free text, dates in which day and month could be confused, and columns without a value in common.
    category, number : str, int or sequence of them
        Columns of numbers that are labels, and responses of two values that are numbers.
    weights : str or int, optional
        Column of the weights of the rows; it is not an input. A row of weight 0 is absent.
    cluster : str or int, optional
        Column with the cluster of each row (a customer, a day): labels are redrawn by cluster. It is not an input.
    max_rows : int, optional
        Rows of each table that are compared; of longer ones a uniform sample. By default as many as `time_budget`
        allows for, and 2,000 of each group.
    time_budget : float, optional
        Approximate processor time for the comparison of two tables, in seconds; 60 by default. A note says how many
        rows were compared.

    Examples
    --------
    >>> TableOptions(missing="drop", category="plan", decimal=",").missing
    'drop'
    """

    missing: MissingCells = "as-value"
    unusable: UnusableInputs = "leave-out"
    category: Columns = ()
    number: Columns = ()
    weights: str | int | None = None
    cluster: str | int | None = None
    max_rows: int | None = None
    time_budget: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("missing", self.missing, get_args(MissingCells))
        check_choice("unusable", self.unusable, get_args(UnusableInputs))
        if self.max_rows is not None:
            check_integer("max_rows", self.max_rows, FEWEST_TABLE_ROWS)
        if self.time_budget is not None:
            check_positive("time_budget", self.time_budget)

    def __repr__(self) -> str:
        """Show what differs from the defaults."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        shown = [f"{name}={value!r}" for name, (value, default) in values.items() if value != default]
        return f"{type(self).__name__}({', '.join(shown)})"


class TableBatch:
    """Some rows of a table: its columns as `Cells`, and for each row the line of the file that it starts in.

    Readers of text come by rows, which become columns when columns are asked for.
    """

    def __init__(self, columns: Sequence[Cells], lines: Sequence[int] | IntArray) -> None:
        self._columns: Sequence[Cells] | None = columns
        self._rows: Sequence[TableRow] | None = None
        self.lines: IntArray = np.asarray(lines, dtype=int)  # (n,)

    @classmethod
    def of_rows(cls, rows: Sequence[TableRow], lines: Sequence[int] | IntArray) -> TableBatch:
        """Return rows of Python values as a batch."""
        batch = cls((), lines)
        batch._columns, batch._rows = None, rows
        return batch

    @property
    def columns(self) -> Sequence[Cells]:
        """The columns."""
        if self._columns is None:
            self._columns = [cells_of(cells) for cells in zip(*(self._rows or ()), strict=True)]
        return self._columns

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[TableRow]:
        """Yield rows of Python values; gaps as they are written."""
        return iter(self._rows if self._rows is not None else zip(*(c.tolist() for c in self.columns), strict=True))

    def take(self, rows: AnyArray | slice) -> TableBatch:
        """Return some of the rows."""
        return TableBatch([cells.take(rows) for cells in self.columns], self.lines[rows])

    def parts(self, most: int) -> Iterator[TableBatch]:
        """Yield the rows in batches of at most so many."""
        if len(self) <= most:
            yield self
            return
        for start in range(0, len(self), most):
            yield self.take(slice(start, start + most))

    def with_marks(self, is_mark: Callable[[Any], bool]) -> TableBatch:
        """Return the batch with gaps where there are marks of them."""
        if self._rows is None:
            return TableBatch([cells.with_marks(is_mark) for cells in self.columns], self.lines)
        return TableBatch.of_rows([[None if is_mark(cell) else cell for cell in row] for row in self._rows], self.lines)


def batch_rows(columns: int) -> int:
    """Rows of a batch: thousands, fewer of a wide table."""
    return max(1, min(_BATCH_ROWS, _BATCH_CELLS // max(1, columns)))


def in_batches(
    rows: Iterable[tuple[int, TableRow, int]], most: int, live_lines: CountedLines | None = None
) -> Iterator[TableBatch]:
    """Collect rows, each with its line and its size in the file, in batches that are bounded in both.

    A batch also ends before a row that cannot be read, and, of lines that are watched, where the next has not arrived.
    """
    collected: list[TableRow] = []
    lines: list[int] = []
    size = 0
    try:
        for line, row, length in rows:
            collected.append(row)
            lines.append(line)
            size += length
            is_last_here = live_lines is not None and not live_lines.has_arrived
            if len(collected) == most or size > BATCH_BYTES or is_last_here:
                yield TableBatch.of_rows(collected, lines)
                collected, lines, size = [], [], 0
    except RowError:
        if collected:
            yield TableBatch.of_rows(collected, lines)
        raise
    if collected:
        yield TableBatch.of_rows(collected, lines)


class Table(Protocol):
    """A table that is read once, from its first row to its last; `unit` is what `TableBatch.lines` counts."""

    title: str
    unit: str
    names: tuple[str, ...]

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[TableBatch]:
        """Yield rows, cut down to some columns, `most` at a time (by default a few thousand)."""


def open_table(source: str | Table, files: FileOptions, *, live: bool = False) -> AbstractContextManager[Table]:
    """Open a file, or "-" for standard input, for reading; a table that is open already is handed out as it is.

    A `live` one is watched while it is written: a batch of text ends where the next line has not arrived yet, and bytes
    that the encoding does not have become replacement characters, instead of an error.
    """
    if isinstance(source, str):
        from condcs._tables.folders import files_table, is_many_files

        if is_many_files(source):
            # The files are opened one by one, and gaps are marked in each.
            return nullcontext(files_table(source, files))
        return _opened(source, files, live)
    return nullcontext(_Marked(source, files.gaps) if files.gaps else source)


def check_paths(sources: Sequence[str | Table], files: FileOptions) -> None:
    """Raise an error if a file is absent, or no database has a use for a query: before the first table is read."""
    from condcs._tables.folders import is_many_files

    are_databases = []
    for source in sources:
        if not isinstance(source, str) or source == "-" or is_many_files(source):
            continue
        with _finding(source):
            Path(source).stat()
            if Path(source).is_file():
                with open(source, "rb") as file:
                    are_databases.append(_database_form(file.read(_HEAD_BYTES)) is not None)
    asked = [name for name in ("table", "sql") if getattr(files, name) is not None]
    if asked and not any(are_databases) and files.format not in ("sqlite", "duckdb"):
        titles = [source if isinstance(source, str) else source.title for source in sources]
        raise ParameterError(
            f"{named(*asked)} must be left out where no table is a database file of SQLite or DuckDB, got "
            f"{' and '.join(dict.fromkeys(titles))}."
        )


@contextmanager
def _finding(title: str) -> Iterator[None]:
    """Turn failures to open a file into an error that names it."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{title} could not be read: {error.strerror or error}. Check the path and its permissions."
        ) from error


@contextmanager
def _opened(path: str, files: FileOptions, live: bool) -> Iterator[Table]:
    with _reading(path, files) as source:
        table = _table(source, files, live)
        yield _Marked(table, files.gaps) if files.gaps else table


@contextmanager
def open_lines(path: str, files: FileOptions) -> Iterator[CountedLines]:
    """Open a file of text, perhaps compressed by gzip, for those who know better than a `Table` what its lines are."""
    with _reading(path, files) as source:
        yield source.lines(files.encoding)


@dataclass
class _Source:
    """A file, or standard input, that is open: its bytes, which gzip may have compressed, and what is closed after."""

    path: str
    title: str
    stream: io.BufferedReader
    closing: ExitStack

    def __post_init__(self) -> None:
        self.head = self.stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        self.name = self.path
        self.content: Any = self.stream
        if self.head.startswith(_GZIP):
            self.content = gzip.GzipFile(fileobj=self.stream)
            self.name = self.path.removesuffix(".gz")
            self.head = self.content.peek(_HEAD_BYTES)[:_HEAD_BYTES]

    @property
    def is_compressed(self) -> bool:
        return self.content is not self.stream

    def lines(self, encoding: str, errors: str = "strict") -> CountedLines:
        return CountedLines(self.content, _checked_codec(encoding), errors, self.title)


@contextmanager
def _reading(path: str, files: FileOptions) -> Iterator[_Source]:
    """Open a file for reading; what goes wrong on the way through it becomes an error with a remedy."""
    title = "standard input" if path == "-" else path
    with _finding(title):
        stream = _raw_stream(path, title)
    # In the reverse order: first the readers of other libraries, then what they read from.
    closing = ExitStack()
    if path != "-":
        closing.callback(stream.close)
    try:
        yield _Source(path, title, stream, closing)
    except UnicodeError as error:
        # Some codecs say no more than that they cannot read it: UTF-16 without a byte order mark.
        what: object = error
        if isinstance(error, UnicodeDecodeError):
            what = f"the byte 0x{error.object[error.start]:02x}, which does not occur in it"
        raise DataError(
            f"{title} must be text in {files.encoding}, got {what}. Name its encoding, e.g. "
            f"{table_setting('encoding', 'latin-1')}."
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{title} must be a whole gzip file, got a damaged one ({error}). Fetch it again.") from error
    except OSError as error:
        raise DataError(
            f"{title} could not be read: {error.strerror or error}. Check the file and its disk."
        ) from error
    finally:
        closing.close()


def _raw_stream(path: str, title: str) -> io.BufferedReader:
    """Return the bytes of a file or of standard input, whose beginning can be looked at before it is read."""
    if path == "-":
        stdin: Any = sys.stdin.buffer
        return stdin if hasattr(stdin, "peek") else io.BufferedReader(stdin)
    if Path(path).is_dir():
        # A folder is opened by `folders`; here, one of its files was asked for.
        raise DataError(f"{title} must be a file, got a folder. Name one file in it.")
    return io.BufferedReader(io.FileIO(path), _BUFFER_BYTES)


def _table(source: _Source, files: FileOptions, live: bool) -> Table:
    """Return an open file as the table that its first bytes and its name say it is.

    What must be closed with it is added to `source.closing`.
    """
    title, stream = source.title, source.stream
    if not source.head:
        raise DataError(f"{title} is empty. A table needs a header and rows.")
    _check_kind(source.head, title, files.format)
    form = files.format or _form(source.name, source.head)
    if form == "xlsx":
        from condcs._tables.typed_files import ExcelTable

        if source.is_compressed or source.path == "-":
            raise DataError(f"{title} must be a file of its own to be read as Excel. Unpack it, or save it to a file.")
        return ExcelTable(stream, title)
    if form in ("sqlite", "duckdb"):
        from condcs._tables.databases import duckdb_table, sqlite_table

        if source.is_compressed or source.path == "-":
            raise DataError(f"{title} must be a file of its own to be read as a database. Unpack it, or save it.")
        open_database = sqlite_table if form == "sqlite" else duckdb_table
        return open_database(source.path, title, files, source.closing)
    if form in ("parquet", "arrow"):
        from condcs._tables.typed_files import arrow_file_table, arrow_stream_table, parquet_table

        if source.is_compressed:
            raise DataError(
                f"{title} must not be compressed as a whole: {form} is compressed inside. Run gunzip on it."
            )
        if form == "arrow" and not source.head.startswith(_ARROW_FILE):
            return arrow_stream_table(stream, title, source.closing)
        if source.path == "-" or not stream.seekable():
            what = "parquet" if form == "parquet" else "an Arrow file"
            raise DataError(
                f"{title} must be csv, jsonl or an Arrow stream, got {what}, which is read from its end. "
                "Save it to a file and name that."
            )
        if form == "parquet":
            return parquet_table(stream, title, source.closing)
        return arrow_file_table(source.path, title, source.closing)
    lines = source.lines(files.encoding, "replace" if live else "strict")
    return CsvTable(lines, title, live=live) if form == "csv" else JsonLinesTable(lines, title, live=live)


def _check_kind(head: bytes, title: str, form: str | None) -> None:
    """Refuse a file whose first bytes are those of something else than a table, or than the format named."""
    what = next((words for start, words in _FOREIGN.items() if head.startswith(start)), None)
    if what is not None:
        raise DataError(
            f"{title} must be a table (csv, jsonl, parquet, arrow or xlsx), got {what}. Save it as one of these, e.g. "
            "as CSV UTF-8 in a spreadsheet."
        )
    database = _database_form(head)
    if database is not None and form not in (None, database):
        raise DataError(f"{title} must be {form}, got a database file ({database}). Leave {named('format')} out.")
    if head.startswith(_ZIP) and form not in (None, "xlsx"):
        raise DataError(
            f"{title} must be {form}, got a zip archive or an Excel file. Unpack it, or leave {named('format')} out."
        )


def _database_form(head: bytes) -> Format | None:
    """Tell by the first bytes of a file which database wrote it, if one did."""
    if head.startswith(_SQLITE):
        return "sqlite"
    return "duckdb" if head[_DUCKDB_AT:].startswith(_DUCKDB) else None


def _form(name: str, head: bytes) -> str:
    """Tell the format of a table from its first bytes, else from the ending of its name."""
    ending = ENDINGS.get(Path(name).suffix.lower())
    if Path(name).suffix.lower() == ".json" and head.lstrip().startswith(b"["):
        raise DataError(
            f"{name} must hold one JSON object per line, got an array. Write it as lines, e.g. with pandas "
            "to_json(path, orient='records', lines=True)."
        )
    database = _database_form(head)
    if database is not None:
        return database
    if head.startswith(_ZIP):
        return "xlsx"
    if head.startswith(_PARQUET):
        return "parquet"
    if head.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return "arrow"
    return ending or ("jsonl" if head.lstrip().startswith(b"{") else "csv")


def _checked_codec(encoding: str) -> str:
    """Return the codec of an encoding; refuse one that Python does not have."""
    try:
        "".encode(encoding)
    except (LookupError, ValueError) as error:
        raise DataError(
            f"{named('encoding')} must be the name of a text encoding, got {encoding!r}. Pass e.g. "
            f"{setting('encoding', 'latin-1')}."
        ) from error
    # A byte order mark at the start is no part of the first name.
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding


class _Marked:
    """A table in which some texts stand for gaps."""

    def __init__(self, table: Table, gaps: str | Sequence[str]) -> None:
        self._table = table
        self._is_mark = gap_marks([gaps] if isinstance(gaps, str) else gaps)
        self.title, self.unit, self.names = table.title, table.unit, table.names

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[TableBatch]:
        for batch in self._table.batches(columns, most):
            yield batch.with_marks(self._is_mark)


LONGEST_LINE = 1 << 22
"""Characters of a line, or of a record of several lines; a longer one is not a table, and would not fit in memory."""

_SEPARATORS = ",;\t|"


_CHUNK_BYTES = 1 << 16
"""Bytes that are asked for at a time: as many as a pipe holds. Fewer come if no more are there."""


class CountedLines:
    """The lines of a file of text, counted, and none of them without bound.

    Not a `TextIOWrapper`, which does not say whether another line has arrived: waiting for one that has not would hold
    back the rows before it.
    """

    def __init__(self, stream: Any, encoding: str, errors: str, title: str) -> None:
        self._stream, self._title = stream, title
        decoder = codecs.getincrementaldecoder(encoding)(errors)
        # It keeps a carriage return back until it is known whether a line feed follows.
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=False)
        self._arrived: deque[str] = deque()
        self._beginning = ""  # of a line that has not arrived as a whole
        self._is_at_end = False
        self.number = self.characters = 0

    @property
    def has_arrived(self) -> bool:
        """Whether the next line is there, so that nobody waits for it."""
        return bool(self._arrived)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while not self._arrived:
            if self._is_at_end:
                raise StopIteration
            self._receive()
        line = self._arrived.popleft()
        self.number += 1
        self.characters += len(line)
        if self.characters >= LONGEST_LINE:
            raise DataError(
                f"{self._title} must have lines of less than {LONGEST_LINE >> 20} million characters, got more in line "
                f"{self.number}. Look for a quote that is never closed, or name its {named('format')} if it is not "
                "text."
            )
        if "\0" in line:
            raise RowError(
                f"{self._title} must be text, got a zero byte. If it is UTF-16, pass "
                f"{table_setting('encoding', 'utf-16')}; else name its {named('format')}."
            )
        if not line.isascii():
            check_characters(line, self._title, self.number)
        return line

    def _receive(self) -> None:
        """Wait for bytes, and take the lines that end in them."""
        content = self._stream.read1(_CHUNK_BYTES)
        self._is_at_end = not content
        text = self._beginning + self._decoder.decode(content, final=self._is_at_end)
        # Like a file that keeps its line ends: \n, \r and \r\n, and no others.
        lines = io.StringIO(text, newline="").readlines()
        self._beginning = ""
        if lines and not self._is_at_end and not lines[-1].endswith(("\n", "\r")) and len(lines[-1]) < LONGEST_LINE:
            self._beginning = lines.pop()
        self._arrived.extend(lines)


class CsvTable:
    """Comma-, semicolon-, tab- or bar-separated values with a header line; the separator is the header's most frequent.

    Lines are read one at a time: memory does not grow with the file. Not through pyarrow: its csv reader waits for a
    full block, so that rows from a pipe would come late, stops at the first bad row, and its messages name no lines.
    """

    unit = "line"

    def __init__(self, lines: CountedLines, title: str, *, live: bool = False) -> None:
        self.title, self._lines, self._live = title, lines, live
        first = next((line for line in self._lines if line.strip()), "")
        if not first:
            raise DataError(f"{title} is empty. A table needs a header and rows.")
        self._separator = max(_SEPARATORS, key=first.count)
        # Strict: a quote that is never closed would otherwise swallow the rest of the file as one cell. Not a generator
        # in front: one that has raised an error cannot go on.
        self._reader = csv.reader(itertools.chain([first], self._lines), delimiter=self._separator, strict=True)
        self.names = check_names(self._next() or [], title)

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[TableBatch]:
        """Yield rows of strings."""
        return in_batches(self._rows(columns), most or batch_rows(len(columns)), self._lines if self._live else None)

    def _rows(self, columns: Sequence[int]) -> Iterator[tuple[int, TableRow, int]]:
        """Yield rows that are not empty, each with the line that it starts in and its number of characters."""
        width, start = len(self.names), self._lines.number + 1
        while (row := self._next()) is not None:
            if row:
                if len(row) != width:
                    raise RowError(
                        f"{self.title} must have {counted(width, 'cell')} in every row, got {len(row)} in line {start}."
                        " Quote cells that hold the separator, or correct the line."
                    )
                yield start, [row[c] for c in columns], self._lines.characters
            start = self._lines.number + 1

    def _next(self) -> list[str] | None:
        """Return the cells of the next row, none of an empty line; None at the end."""
        self._lines.characters = 0
        try:
            return next(self._reader, None)
        except csv.Error as error:
            raise RowError(
                f"{self.title} must be csv, got something else by line {self._lines.number}: {error}. "
                f"Look for a quote that is never closed, or name its {named('format')}."
            ) from error


class JsonLinesTable:
    """One JSON object per line; the first names the columns, and a key that a later one lacks is a gap."""

    unit = "line"

    def __init__(self, lines: CountedLines, title: str, *, live: bool = False) -> None:
        self.title, self._lines, self._live = title, lines, live
        self._first = self._next()
        if self._first is None:
            raise DataError(f"{title} is empty. A table needs rows.")
        self.names = check_names(list(self._first), title)

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[TableBatch]:
        """Yield rows of strings, numbers, booleans and None."""
        return in_batches(self._rows(columns), most or batch_rows(len(columns)), self._lines if self._live else None)

    def _rows(self, columns: Sequence[int]) -> Iterator[tuple[int, TableRow, int]]:
        """Yield rows, each with its line and its number of characters."""
        keys = [self.names[c] for c in columns]
        record, self._first = self._first or self._next(), None
        while record is not None:
            cells = [self._scalar(record.get(key), key) for key in keys]
            yield self._lines.number, cells, self._lines.characters
            record = self._next()

    def _next(self) -> dict[str, Any] | None:
        """Return the object of the next line that is not empty; None at the end."""
        self._lines.characters = 0
        for line in self._lines:
            if not line.strip():
                self._lines.characters = 0
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                # ValueError: no JSON, or an integer of thousands of digits, which Python does not read.
                raise RowError(
                    f"{self.title} must hold one JSON object per line, got something else in line "
                    f"{self._lines.number}: {error}. Correct the line, or name its {named('format')}."
                ) from error
            if not isinstance(record, dict):
                raise RowError(
                    f"{self.title} must hold one JSON object per line, got {type(record).__name__} in line "
                    f"{self._lines.number}. "
                    'Write rows as {"name": value, ...}.'
                )
            if "\\u" in line:
                check_characters(json.dumps(record, ensure_ascii=False), self.title, self._lines.number)
            return record
        return None

    def _scalar(self, value: Any, key: str) -> Any:
        """Return a cell; refuse lists and objects."""
        if isinstance(value, list | dict):
            raise RowError(
                f"{self.title} must hold numbers or text in column {key!r}, got a {type(value).__name__} in line "
                f"{self._lines.number}. Flatten it, or leave the column out."
            )
        return value


def column_name(key: Any) -> str:
    """Return the name of a column that goes by any key; columns of arrays go by numbers."""
    return f"column {key}" if isinstance(key, int | np.integer) else str(key)


def check_names(names: Sequence[str], title: str) -> tuple[str, ...]:
    """Check the header; a column without a name gets one."""
    full_names = tuple(name or f"column {number}" for number, name in enumerate(names, start=1))
    twice = [name for name, count in Counter(full_names).items() if count > 1]
    if twice:
        shown = listed([*map(repr, twice)], _NAMES_SHOWN)
        raise DataError(f"{title} must name each column once, got {shown} more than once. Rename them.")
    return full_names


def check_characters(text: str, title: str, line: int) -> None:
    """Refuse halves of surrogate pairs, which are not characters: they can be neither printed nor written."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RowError(
            f"{title} must be text, got an unpaired surrogate (U+{ord(text[error.start]):04X}) in line {line}. Correct "
            f"the line, or name its {named('encoding')}."
        ) from error
