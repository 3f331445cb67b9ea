"""Tables in many files: a folder, or a glob, read one file after the other as if it were one table.

`files_table` is the function to read first. The files have one format, whichever of `sources` it is, and are opened one
at a time, so that memory does not grow with their number. The first one names the columns, which the others must have
too. Parts of a path of the form `key=value`, as Spark, Dask and pyarrow write them, are columns with one value per
file. Nothing here knows what a file holds.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from condcs._core.errors import DataError
from condcs._core.printable import listed
from condcs._core.vocabulary import named
from condcs._tables.cells import Cells, cells_of
from condcs._tables.sources import ENDINGS, FileOptions, TableBatch, batch_rows, check_names, open_table

_GAP_OF_HIVE = "__HIVE_DEFAULT_PARTITION__"
"""What stands in a path for a missing value."""

_NAMES_SHOWN = 5
"""Names of columns or formats that a message lists."""

_VERSIONED = {
    "_delta_log": ("Delta", "deltalake.DeltaTable(path).to_pyarrow_dataset()"),
    "metadata": ("Iceberg", "StaticTable.from_metadata(path).scan().to_arrow_batch_reader() of pyiceberg"),
}
"""Subfolders that say which files of a folder still count, what keeps such, and what reads it."""


def is_many_files(path: str) -> bool:
    """Whether a path is a folder or a glob; a file whose name holds a star is itself."""
    return path != "-" and (Path(path).is_dir() or (glob.has_magic(path) and not Path(path).exists()))


def files_table(path: str, options: FileOptions) -> FilesTable:
    """Find the files of a folder or a glob."""
    base = _fixed_part(path)
    matches = sorted(map(Path, glob.glob(path, recursive=True))) if glob.has_magic(path) else []
    matches = matches or [Path(path)]
    files = [file for match in matches for file in (_files_within(match, path) if match.is_dir() else [match])]
    if not any(file.is_file() for file in files):
        what = "a folder without files of a known ending" if Path(path).is_dir() else "a pattern that no file fits"
        raise DataError(
            f"{path} must name tables ({', '.join(ENDINGS)}), got {what}. Name the files by a pattern, e.g. "
            f"{Path(base) / 'part-*'}."
        )
    # A folder may hold notes and other formats beside a table; which of them is meant, only its user knows.
    formats = {_format_of(file) for file in files} - {None}
    if options.format is None and len(formats) > 1:
        raise DataError(
            f"{path} must hold tables of one format, got {listed(sorted(map(str, formats)), _NAMES_SHOWN)}. Name the "
            f"files by a pattern, e.g. {Path(base) / '**' / '*.parquet'}."
        )
    return FilesTable(path, files, base, options)


def _fixed_part(path: str) -> str:
    """Return the folders of a path before its first wildcard."""
    parts = Path(path).parts
    fixed = next((n for n, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return str(Path(*parts[:fixed])) if fixed else "."


def _files_within(folder: Path, title: str) -> list[Path]:
    """Return the tables in a folder and its subfolders, in the order of their paths."""
    for subfolder, (library, remedy) in _VERSIONED.items():
        log = folder / subfolder
        if log.is_dir() and (library == "Delta" or any(log.glob("*.metadata.json"))):
            raise DataError(
                f"{title} must be a folder whose files all count, got a {library} table, whose files may hold rows "
                f"that were removed. Pass what {remedy} returns, or name the files by a pattern."
            )
    files = []
    for file in sorted(folder.rglob("*")):
        # Spark marks what is no data by the first character: _SUCCESS, .part-0.crc.
        is_hidden = any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
        if not is_hidden and _format_of(file) is not None and file.is_file():
            files.append(file)
    return files


def _format_of(file: Path) -> str | None:
    """Return the format that the ending of a file says."""
    return ENDINGS.get(Path(file.name.removesuffix(".gz")).suffix.lower())


class FilesTable:
    """Tables in files, one after the other; `unit` counts the rows of all."""

    unit = "row"

    def __init__(self, title: str, files: Sequence[Path], base: str, options: FileOptions) -> None:
        self.title = title
        self._files, self._options = files, options
        self._keys = [_keys_of(file, base) for file in files]
        self._partitions = list(dict.fromkeys(key for keys in self._keys for key in keys))
        with open_table(str(files[0]), options) as first:
            self._of_files = first.names
        # A file may hold what its path says as well.
        self.names = check_names([*self._of_files, *(k for k in self._partitions if k not in self._of_files)], title)
        self._are_numbers = {
            key: all(_is_whole_number(keys.get(key)) for keys in self._keys) for key in self._partitions
        }

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[TableBatch]:
        """Yield the rows of one file after the other, each with its number among all."""
        names = [self.names[column] for column in columns]
        within = [name for name in names if name in self._of_files]
        n_rows = 0
        for file, keys in zip(self._files, self._keys, strict=True):
            with open_table(str(file), self._options) as table:
                lacking = [name for name in within if name not in table.names]
                if lacking:
                    raise DataError(
                        f"{table.title} must have the columns of {self._files[0]}, but lacks "
                        f"{listed([*map(repr, lacking)], _NAMES_SHOWN)}. Leave these out of {named('x')}, or the file "
                        "out of the folder."
                    )
                # Something must be read, so that the rows are known.
                indices = [table.names.index(name) for name in within] or [0]
                for batch in table.batches(indices, most or batch_rows(len(columns))):
                    in_file = dict(zip(within, batch.columns, strict=False))
                    cells = [in_file[n] if n in in_file else self._constant(n, keys, len(batch)) for n in names]
                    yield TableBatch(cells, np.arange(n_rows + 1, n_rows + len(batch) + 1))
                    n_rows += len(batch)

    def _constant(self, name: str, keys: dict[str, str | None], count: int) -> Cells:
        """Return what a path says of a column, as the cells of so many rows."""
        value = keys.get(name)
        cell = int(value) if value is not None and self._are_numbers[name] else value
        return cells_of([cell]).take(np.zeros(count, int))


def _keys_of(file: Path, base: str) -> dict[str, str | None]:
    """Return the columns that the folders of a file name, below those that were asked for."""
    folders = file.relative_to(base).parts[:-1] if base != "." else file.parts[:-1]
    pairs = (folder.split("=", 1) for folder in folders if "=" in folder.strip("="))
    return {unquote(key): None if value == _GAP_OF_HIVE else unquote(value) for key, value in pairs}


def _is_whole_number(value: str | None) -> bool:
    """Whether a value of a path is a number that is written as numbers are: 01 is a label, or part of a date."""
    return value is None or (value.isascii() and value.lstrip("-").isdigit() and str(int(value)) == value)
