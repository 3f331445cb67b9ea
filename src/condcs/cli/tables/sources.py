"""Open a table in any of the formats and hand out its rows in batches, never the whole of it at once."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

from condcs.core.checks import check_choice
from condcs.core.errors import DataError

FORMATS = ("csv", "jsonl", "parquet", "arrow")

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
}
_PARQUET, _ARROW_FILE, _ARROW_STREAM, _GZIP = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff", b"\x1f\x8b"

Row = Sequence[Any]


def batch_rows(columns: int) -> int:
    """Rows of a batch: thousands, fewer of a wide table."""
    return max(1, min(5_000, 200_000 // max(1, columns)))


class Table(Protocol):
    """A table that is read once, from its first row to its last."""

    title: str
    names: tuple[str, ...]

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[list[Row]]:
        """Yield rows, cut down to some columns, `most` at a time (by default a few thousand)."""


def open_table(path: str, *, form: str | None = None, encoding: str = "utf-8") -> AbstractContextManager[Table]:
    """Open a table for reading.

    Parameters
    ----------
    path : str
        A file, or "-" for standard input.
    form : {"csv", "jsonl", "parquet", "arrow"}, optional
        The format; by default the file's ending and its first bytes tell.
    encoding : str
        Of csv and jsonl.

    Returns
    -------
    context manager
        Gives the `Table`, and closes the file.
    """
    if form is not None:
        check_choice("--format", form, FORMATS)
    return _opened(path, form, encoding)


@contextmanager
def _opened(path: str, form: str | None, encoding: str) -> Iterator[Table]:
    title = "standard input" if path == "-" else path
    try:
        stream = _raw_stream(path, title)
    except OSError as error:
        raise DataError(
            f"{title} could not be read: {error.strerror or error}. Check the path and its permissions."
        ) from error
    try:
        yield _table(stream, path, title, form, encoding)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{title} must be text in {encoding}, got byte 0x{error.object[error.start]:02x} which is none. "
            "Name its encoding, e.g. --encoding latin-1."
        ) from error
    except (gzip.BadGzipFile, EOFError) as error:
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


def _table(stream: io.BufferedReader, path: str, title: str, form: str | None, encoding: str) -> Table:
    head = stream.peek(8)[:8]
    if not head:
        raise DataError(f"{title} is empty. A table needs a header and rows.")
    text: Any = stream
    name = path
    if head.startswith(_GZIP):
        text = gzip.GzipFile(fileobj=stream)
        name = name.removesuffix(".gz")
        head = text.peek(8)[:8]
    form = form or _form(name, head)
    if form in ("parquet", "arrow"):
        from condcs.cli.tables.columnar import arrow_table, parquet_table

        if text is not stream:
            raise DataError(f"{title} must not be compressed as a whole: {form} compresses inside. Run gunzip on it.")
        if form == "parquet":
            return parquet_table(stream, title, piped=path == "-")
        return arrow_table(stream, title, piped=path == "-", is_file=head.startswith(_ARROW_FILE))
    from condcs.cli.tables.text import CsvTable, JsonLinesTable

    codec = _checked_codec(encoding)
    lines = io.TextIOWrapper(cast(Any, _Unclosed(text)), encoding=codec, newline="")
    return CsvTable(lines, title) if form == "csv" else JsonLinesTable(lines, title)


def _form(name: str, head: bytes) -> str:
    ending = _ENDINGS.get(Path(name).suffix.lower())
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
            f"`--encoding` must be the name of a text encoding, got {encoding!r}. Pass e.g. --encoding latin-1."
        ) from error
    # A byte order mark at the start is no part of the first name.
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding


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
