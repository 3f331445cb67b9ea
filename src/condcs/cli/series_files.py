"""Collections of series from files: tables with a row per series, arrays, and aeon's format."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from condcs._core.errors import CondcsError, DataError, ShapeError
from condcs._tables.kinds import as_number, is_missing
from condcs.datasets._npz_files import read_arrays

FloatArray = np.ndarray[Any, Any]

Layout = Literal["ntc", "nct"]
"""Axes of an array: n series, t times, c channels."""

SEPARATORS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True, eq=False)
class SeriesFile:
    """Series of a file.

    Attributes
    ----------
    X : list of arrays, shape (channels, times)
        The series.
    labels : array of str or None
        Known classes.
    title : str
        Name of the file.
    """

    X: list[FloatArray]
    labels: FloatArray | None
    title: str

    @property
    def channels(self) -> int:
        """Number of channels of the first series."""
        return len(self.X[0])

    @property
    def lengths(self) -> list[int]:
        """Number of time points of each series."""
        return [series.shape[1] for series in self.X]


def read_series(path: Path, *, labels: str | None = None, layout: Layout = "ntc") -> SeriesFile:
    """Read a collection; the ending of the name says how.

    Parameters
    ----------
    path : Path
        ``.csv`` or ``.tsv``: a row per series, empty cells at its end make it shorter; ``.npz``: an array ``X`` of
        shape (series, times), or with three axes, and perhaps labels ``y``; ``.ts``: aeon's format.
    labels : str, optional
        Column of a table that holds classes: its name in the first row, or its number, counted from 1.
    layout : {"ntc", "nct"}
        Order of the axes of an array: (series, times, channels) or (series, channels, times).
    """
    ending = path.suffix.lower()
    if ending not in (*SEPARATORS, ".npz", ".ts"):
        raise DataError(f"`FILE` must end in .csv, .tsv, .npz or .ts, got {path.name!r}. Convert it first.")
    if not path.is_file():
        raise DataError(f"`FILE` must be an existing file, got {path}. Check the path.")
    if labels is not None and ending not in SEPARATORS:
        raise DataError(
            "`--labels` names a column of a table; .npz and .ts files bring their labels along. Leave it out."
        )
    try:
        if ending in SEPARATORS:
            X, y = _from_table(path, SEPARATORS[ending], labels)
        elif ending == ".npz":
            X, y = _from_arrays(path, layout)
        else:
            X, y = _from_ts(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} could not be read: {error}. Check the file.") from error
    if any(series.ndim != 2 or 0 in series.shape for series in X):
        raise ShapeError(f"{path} must hold values of every series, got an empty one. Leave it out.")
    if len(X) < 3:
        raise ShapeError(f"{path} must hold at least 3 series, got {len(X)}. Rows are series, columns are times.")
    return SeriesFile(X, y, path.name)


def _from_table(path: Path, separator: str, labels: str | None) -> tuple[list[FloatArray], FloatArray | None]:
    series, found = [], []
    column: int | None = None
    first = True
    with path.open(newline="", encoding="utf-8-sig") as file:
        # Strict: a quote that is never closed would otherwise swallow the rest of the file as one cell.
        reader = csv.reader(file, delimiter=separator, strict=True)
        for row in reader:
            if not any(row):
                continue
            if first:
                first = False
                column = _label_column(path, row, labels)
                named = any(not _is_number(cell) for c, cell in enumerate(row) if cell.strip() and c != column)
                if named or (labels is not None and column is not None and row[column].strip() == labels):
                    continue
            series.append(_series(path, [cell for c, cell in enumerate(row) if c != column], reader.line_num))
            found.append(row[column].strip() if column is not None and column < len(row) else "")
    if first:
        raise DataError(f"{path} must hold a row for each series, got none. Check the file.")
    return series, np.array(found) if column is not None else None


def _series(path: Path, row: list[str], line: int) -> FloatArray:
    cells = [cell.strip() for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    bad = next((cell for cell in cells if cell and not _is_number(cell)), None)
    if bad is not None:
        raise DataError(
            f"{path} must hold numbers, got {bad!r} in line {line}. If that column holds classes, name it with "
            "--labels (its title, or its number counted from 1)."
        )
    if not cells:
        raise DataError(f"{path} must have values in every row, got none in line {line}. Leave that row out.")
    return np.array([[np.nan if is_missing(cell) else as_number(cell) for cell in cells]])


def _label_column(path: Path, header: list[str], labels: str | None) -> int | None:
    if labels is None:
        return None
    titles = [cell.strip() for cell in header]
    if labels in titles:
        return titles.index(labels)
    if labels.isdecimal() and 1 <= int(labels) <= len(header):
        return int(labels) - 1
    raise DataError(
        f"`--labels` must be the title of a column of {path.name} or its number from 1 to {len(header)}, got "
        f"{labels!r}. The first row starts with {', '.join(titles[:3])}."
    )


def _is_number(cell: str) -> bool:
    try:
        return is_missing(cell) or math.isfinite(as_number(cell))
    except ValueError:
        return False


def _from_arrays(path: Path, layout: Layout) -> tuple[list[FloatArray], FloatArray | None]:
    arrays = read_arrays(path)
    if "X" not in arrays:
        raise DataError(f"{path} must hold an array X, got {', '.join(sorted(arrays)) or 'nothing'}. Rename it.")
    X, y = arrays["X"], arrays.get("y")
    if X.dtype.kind not in "fiub" or X.ndim not in (2, 3) or 0 in X.shape:
        raise ShapeError(
            f"`X` in {path.name} must hold numbers of shape (series, times) or with three axes, got {X.dtype} of shape "
            f"{X.shape}. Reshape it."
        )
    if y is not None and y.shape != (len(X),):
        raise ShapeError(f"`y` in {path.name} must hold a label for each of {len(X)} series, got shape {y.shape}.")
    ordered = X[:, None, :] if X.ndim == 2 else X if layout == "nct" else np.moveaxis(X, 2, 1)
    names = arrays.get("classes")
    if (
        y is not None
        and names is not None
        and names.ndim == 1
        and y.dtype.kind in "iu"
        and y.min() >= 0
        and y.max() < len(names)
    ):
        y = names[y]
    return [np.asarray(series, dtype=float) for series in ordered], None if y is None else y.astype(str)


def _from_ts(path: Path) -> tuple[list[FloatArray], FloatArray | None]:
    try:
        from aeon.datasets import load_from_ts_file
    except ModuleNotFoundError as error:
        raise CondcsError(
            "Reading .ts files needs the package aeon, which is not installed. "
            "Install it with: pip install 'condcs[timeseries]'."
        ) from error
    try:
        content = load_from_ts_file(str(path))
    except CondcsError:
        raise
    except Exception as error:
        # aeon's reader raises whatever its parsing meets.
        raise DataError(f"{path} must be a .ts file that aeon can read: {error}. Check the file.") from error
    X, y = content if isinstance(content, tuple) else (content, None)
    has_labels = y is not None and len(y) == len(X)
    return [np.asarray(series, dtype=float) for series in X], np.asarray(y).astype(str) if has_labels else None
