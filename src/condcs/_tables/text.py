"""Tables as lines of text: csv with any usual separator, and JSON lines.

Not read through pyarrow: its csv reader waits for a full block, so that rows from a pipe would come late, stops at the
first bad row, and names no lines in its messages.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from condcs._core.errors import DataError
from condcs._tables.sources import BATCH_BYTES, Batch, RowError, batch_rows

LONGEST_LINE = 1 << 22
"""Characters of a line, or of a record of several lines; a longer one is not a table, and would not fit in memory."""

_SEPARATORS = ",;\t|"


class Lines:
    """The lines of a file, counted, and none of them without bound.

    Attributes
    ----------
    number : int
        Lines read.
    characters : int
        Characters read since it was last set to 0.
    """

    def __init__(self, text: TextIO, title: str) -> None:
        self._text, self._title = text, title
        self.number = self.characters = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(LONGEST_LINE)
        if not line:
            raise StopIteration
        self.number += 1
        self.characters += len(line)
        if self.characters >= LONGEST_LINE:
            raise DataError(
                f"{self._title} must have lines of less than {LONGEST_LINE >> 20} million characters, got more in line "
                f"{self.number}. Look for a quote that is never closed, or name its `format` if it is not text."
            )
        if "\0" in line:
            raise RowError(
                f"{self._title} must be text, got a zero byte. If it is UTF-16, pass "
                "files=FileOptions(encoding='utf-16'); else name its `format`."
            )
        if not line.isascii():
            check_characters(line, self._title, self.number)
        return line


class CsvTable:
    """Comma-, semicolon-, tab- or bar-separated values with a header line; the separator is the header's most frequent.

    Lines are read one at a time: memory does not grow with the file.
    """

    unit = "line"

    def __init__(self, text: TextIO, title: str) -> None:
        self.title = title
        self._lines = Lines(text, title)
        first = next((line for line in self._lines if line.strip()), "")
        if not first:
            raise DataError(f"{title} is empty. A table needs a header and rows.")
        self._separator = max(_SEPARATORS, key=first.count)
        # Strict: a quote that is never closed would otherwise swallow the rest of the file as one cell. Not a generator
        # in front: one that has raised an error cannot go on.
        self._reader = csv.reader(itertools.chain([first], self._lines), delimiter=self._separator, strict=True)
        self.names = check_names(self._next() or [], title)

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[Batch]:
        """Yield rows of strings."""
        width, most = len(self.names), most or batch_rows(len(columns))
        batch, read, start = Batch(), 0, self._lines.number + 1
        while (row := self._next()) is not None:
            if row:
                if len(row) != width:
                    raise RowError(
                        f"{self.title} must have {width} cells in every row, got {len(row)} in line {start}. "
                        "Quote cells that hold the separator, or correct the line."
                    )
                batch.append([row[c] for c in columns])
                batch.lines.append(start)
                read += self._lines.characters
                if len(batch) == most or read > BATCH_BYTES:
                    yield batch
                    batch, read = Batch(), 0
            start = self._lines.number + 1
        if batch:
            yield batch

    def _next(self) -> list[str] | None:
        self._lines.characters = 0
        try:
            return next(self._reader, None)
        except csv.Error as error:
            raise RowError(
                f"{self.title} must be csv, got something else by line {self._lines.number}: {error}. "
                "Look for a quote that is never closed, or name its `format`."
            ) from error


class JsonLinesTable:
    """One JSON object per line; the first names the columns, and a key that a later one lacks is a gap."""

    unit = "line"

    def __init__(self, text: TextIO, title: str) -> None:
        self.title = title
        self._lines = Lines(text, title)
        self._first = self._next()
        if self._first is None:
            raise DataError(f"{title} is empty. A table needs rows.")
        self.names = check_names(list(self._first), title)

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[Batch]:
        """Yield rows of strings, numbers, booleans and None."""
        keys = [self.names[c] for c in columns]
        batch, read = Batch(), 0
        most = most or batch_rows(len(columns))
        record, self._first = self._first or self._next(), None
        while record is not None:
            batch.append([self._scalar(record.get(key), key) for key in keys])
            batch.lines.append(self._lines.number)
            read += self._lines.characters
            if len(batch) == most or read > BATCH_BYTES:
                yield batch
                batch, read = Batch(), 0
            record = self._next()
        if batch:
            yield batch

    def _next(self) -> dict[str, Any] | None:
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
                    f"{self._lines.number}: {error}. Correct the line, or name its `format`."
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
        if isinstance(value, list | dict):
            raise RowError(
                f"{self.title} must hold numbers or text in column {key!r}, got a {type(value).__name__} in line "
                f"{self._lines.number}. Flatten it, or leave the column out of `x`."
            )
        return value


def check_names(names: Sequence[str], title: str) -> tuple[str, ...]:
    """Check the header; a column without a name gets one."""
    named = tuple(name or f"column {number}" for number, name in enumerate(names, start=1))
    twice = [name for name, count in Counter(named).items() if count > 1]
    if twice:
        more = f" and {len(twice) - 5:,} more" if len(twice) > 5 else ""
        raise DataError(
            f"{title} must name each column once, got {', '.join(map(repr, twice[:5]))}{more} more than once. Rename "
            "them."
        )
    return named


def check_characters(text: str, title: str, line: int) -> None:
    """Refuse halves of surrogate pairs, which are not characters: they can be neither printed nor written."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RowError(
            f"{title} must be text, got half of a character (U+{ord(text[error.start]):04X}) in line {line}. Correct "
            "the line, or name its `encoding`."
        ) from error
