"""Excel tables (.xlsx): the first sheet, row by row."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, BinaryIO

from condcs._core.errors import CondcsError, DataError
from condcs._tables.sources import Batch, batch_rows
from condcs._tables.text import check_names

_EXPORT = "save the sheet as CSV UTF-8 in the spreadsheet"
_MOST_BYTES = 1 << 26
"""What the parts that are kept in memory, all but the sheets, may unpack to."""


class ExcelTable:
    """The first sheet of a workbook; its first row that is not empty names the columns."""

    unit = "row"

    def __init__(self, stream: BinaryIO, title: str) -> None:
        self.title = title
        self._rows = _rows(stream, title)
        for number, cells in self._rows:
            self._header = number
            names = ["" if cell is None else str(cell).strip() for cell in cells]
            break
        else:
            raise DataError(f"{title} is empty. A table needs a header and rows in its first sheet.")
        while names and not names[-1]:
            names.pop()
        self.names = check_names(names, title)

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[Batch]:
        """Yield rows of numbers, strings, booleans, dates and None."""
        width, most = len(self.names), most or batch_rows(len(columns))
        batch = Batch()
        for number, cells in self._rows:
            if any(cell is not None for cell in cells[width:]):
                raise DataError(
                    f"{self.title} must have a name above every column, got a cell beyond the last of {width} in row "
                    f"{number}. Name that column, or clear the cell."
                )
            batch.append([cells[c] if c < len(cells) else None for c in columns])
            batch.lines.append(number)
            if len(batch) == most:
                yield batch
                batch = Batch()
        if batch:
            yield batch


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
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{title} must be a readable Excel file (.xlsx), but: {words}. Save it again, or {_EXPORT}."
        ) from error


def _check_archive(stream: BinaryIO, title: str) -> None:
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
