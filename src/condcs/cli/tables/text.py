"""Tables as lines of text: csv with any usual separator, and JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from condcs.cli.tables.sources import Row, batch_rows
from condcs.core.errors import DataError

LONGEST_LINE = 1 << 26
"""Characters of a line; a longer one is no table, and would not fit in memory."""

_SEPARATORS = ",;\t|"


class CsvTable:
    """Comma-, semicolon-, tab- or bar-separated values with a header line; the separator is the header's most frequent.

    Lines are read one at a time: memory does not grow with the file.
    """

    def __init__(self, lines: TextIO, title: str) -> None:
        self.title = title
        self._lines = _guarded(lines, title)
        first = next((line for line in self._lines if line.strip()), "")
        if not first:
            raise DataError(f"{title} is empty. A table needs a header and rows.")
        self._separator = max(_SEPARATORS, key=first.count)
        self._reader = csv.reader(_chain(first, self._lines), delimiter=self._separator)
        self.names = check_names(next(self._parsed()), title)

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[list[Row]]:
        """Yield rows of strings."""
        width, most = len(self.names), most or batch_rows(len(columns))
        batch: list[Row] = []
        for row in self._parsed():
            if not row:
                continue
            if len(row) != width:
                line = self._reader.line_num
                raise DataError(
                    f"{self.title} must have {width} cells in every row, got {len(row)} in line {line}. "
                    "Quote cells that hold the separator, or mend the line."
                )
            batch.append([row[c] for c in columns])
            if len(batch) == most:
                yield batch
                batch = []
        if batch:
            yield batch

    def _parsed(self) -> Iterator[list[str]]:
        try:
            yield from self._reader
        except csv.Error as error:
            raise DataError(
                f"{self.title} must be csv, got something else by line {self._reader.line_num}: {error}. "
                "Look for a quote that is never closed, or name the format with --format."
            ) from error


class JsonLinesTable:
    """One JSON object per line; the first names the columns, and a key that a later one lacks is a gap."""

    def __init__(self, lines: TextIO, title: str) -> None:
        self.title = title
        self._lines = _guarded(lines, title)
        self._line = 0
        self._first = self._next()
        if self._first is None:
            raise DataError(f"{title} is empty. A table needs rows.")
        self.names = check_names(list(self._first), title)

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[list[Row]]:
        """Yield rows of strings, numbers, booleans and None."""
        keys = [self.names[c] for c in columns]
        batch: list[Row] = []
        most = most or batch_rows(len(columns))
        record = self._first
        while record is not None:
            batch.append([self._scalar(record.get(key), key) for key in keys])
            if len(batch) == most:
                yield batch
                batch = []
            record = self._next()
        if batch:
            yield batch

    def _next(self) -> dict[str, Any] | None:
        for line in self._lines:
            self._line += 1
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise DataError(
                    f"{self.title} must hold one JSON object per line, got something else in line {self._line}: "
                    f"{error}. Mend the line, or name the format with --format."
                ) from error
            if not isinstance(record, dict):
                raise DataError(
                    f"{self.title} must hold one JSON object per line, got {type(record).__name__} in line "
                    f"{self._line}. "
                    'Write rows as {"name": value, ...}.'
                )
            return record
        return None

    def _scalar(self, value: Any, key: str) -> Any:
        if isinstance(value, list | dict):
            raise DataError(
                f"{self.title} must hold numbers or text in column {key!r}, got a {type(value).__name__} in line "
                f"{self._line}. Flatten it, or leave the column out of --x."
            )
        return value


def check_names(names: Sequence[str], title: str) -> tuple[str, ...]:
    """Check the header; a column without a name gets one."""
    named = tuple(name or f"column {number}" for number, name in enumerate(names, start=1))
    twice = [name for name in dict.fromkeys(named) if named.count(name) > 1] if len(set(named)) < len(named) else []
    if twice:
        raise DataError(f"{title} must name each column once, got {twice[0]!r} more than once. Rename one of them.")
    return named


def _guarded(lines: TextIO, title: str) -> Iterator[str]:
    while line := lines.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise DataError(
                f"{title} must have lines of less than {LONGEST_LINE >> 20} million characters. "
                "Name its --format if it is no text."
            )
        if "\0" in line:
            raise DataError(
                f"{title} must be text, got a zero byte. If it is UTF-16, pass --encoding utf-16; else name --format."
            )
        yield line


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest
