"""Real data by name: from a folder of yours, the cache, or the archive that keeps it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from condcs._core.checks import check_choice
from condcs._core.errors import CondcsError, DataError, public
from condcs._core.files import atomic_write, writing
from condcs.datasets._npz_files import read_arrays
from condcs_reproduction.data.catalogue import CATALOGUE, Entry
from condcs_reproduction.data.downloads import CONTENT_TOLERANCE, DOWNLOADS, Arrays, content_sums
from condcs_reproduction.data.frames import load_frames

LAYOUTS = ("nct", "ntc")
"""Orders of the axes of a collection of series: n series, c channels, t times."""


class DatasetError(CondcsError):
    """A data set is absent and cannot be fetched, or its file is not what it should be."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set; what the file holds beside `X` and `y` is in `extras` and can be read as an attribute.

    Attributes
    ----------
    name, title : str
        Name to load it by, and its name in tables.
    X : array, or tuple of arrays
        Series: (series, channels, times) or (series, times, channels), as asked for; a tuple of such series if their
        lengths differ. Tables: rows and columns. Networks: a tuple of series (times, nodes).
    y : array, tuple of arrays or None
        Labels 0, 1, ... or targets; of networks a tuple of adjacency matrices; None if there are none.
    classes : tuple of str
        The names behind the labels; empty if the file has none.
    extras : mapping
        Further arrays, e.g. ``feature_names``.
    origin : str
        Where it was found.
    """

    name: str
    title: str
    X: Any
    y: Any
    classes: tuple[str, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""

    def __getattr__(self, name: str) -> Any:
        extras = self.__dict__.get("extras", {})
        if name in extras:
            return extras[name]
        raise AttributeError(f"the data set has no {name!r}; it has X, y, classes {', '.join(sorted(extras))}")


def dataset_names() -> tuple[str, ...]:
    """Return the names that `load` knows."""
    return tuple(CATALOGUE)


@public
def load(name: str, *, layout: str = "nct", download: bool = True) -> Dataset:
    """Load a data set by name.

    It is looked for in the folder named by the environment variable ``CONDCS_DATA``, then in the cache
    (``CONDCS_CACHE``, else the user's cache folder), then fetched from its archive, checked, and kept in the cache.

    Parameters
    ----------
    name : str
        One of `dataset_names()`.
    layout : {"nct", "ntc"}
        Order of the axes of a collection of series: (series, channels, times), as in aeon, or (series, times,
        channels). Without effect on other data.
    download : bool
        Whether the network may be asked.

    Returns
    -------
    Dataset
        `X` and `y`, with what else is known.

    Raises
    ------
    DatasetError
        If the data is absent and cannot be fetched; the message says where to get it and where to put it.

    Examples
    --------
    >>> "coffee" in dataset_names()
    True
    """
    entry = CATALOGUE[check_choice("name", name, tuple(CATALOGUE))]
    check_choice("layout", layout, LAYOUTS)
    for folder in _folders():
        path = folder / entry.path
        if entry.kind == "frames" and path.is_dir():
            clips = load_frames(path, layout=layout)
            return Dataset(name, entry.title, clips.X, clips.y, clips.classes, {"files": clips.files}, str(path))
        if entry.kind != "frames" and path.is_file():
            return _dataset(name, entry, _read(path), layout, str(path))
    if not (download and entry.download):
        raise DatasetError(_absent(name, entry))
    return _dataset(name, entry, _fetch(name, entry), layout, f"download: {entry.where}")


def cache_folder() -> Path:
    """Return the folder that downloads are kept in: ``CONDCS_CACHE``, else the system's folder for caches."""
    given = os.environ.get("CONDCS_CACHE", "").strip()
    if given:
        return Path(given).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "condcs"


def _folders() -> list[Path]:
    given = os.environ.get("CONDCS_DATA", "").strip()
    return ([Path(given).expanduser()] if given else []) + [cache_folder()]


def _read(path: Path) -> Arrays:
    try:
        return read_arrays(path)
    except DataError as error:
        raise DatasetError(f"{error} Or fetch it again.") from error


def _dataset(name: str, entry: Entry, arrays: Arrays, layout: str, origin: str) -> Dataset:
    if entry.kind == "networks":
        numbers = sorted(int(key[3:]) for key in arrays if key.startswith("ts_") and key[3:].isdecimal())
        if not numbers or any(f"A_{k}" not in arrays for k in numbers):
            raise DatasetError(f"{origin} must hold arrays ts_1, A_1, ts_2, A_2, ... Fetch it again.")
        series, graphs = (tuple(arrays[f"{stem}_{k}"] for k in numbers) for stem in ("ts", "A"))
        return Dataset(name, entry.title, series, graphs, origin=origin)
    used = {part: entry.keys.get(part, part) for part in ("X", "y")}
    if used["X"] not in arrays:
        raise DatasetError(
            f"{origin} must hold an array {used['X']!r}, got {', '.join(sorted(arrays)) or 'nothing'}. Fetch it again."
        )
    X, y = arrays[used["X"]], arrays.get(used["y"])
    if entry.kind == "series":
        if X.ndim != 3 or (y is not None and y.shape != (len(X),)):
            shapes = f"X {X.shape}, y {None if y is None else y.shape}"
            raise DatasetError(
                f"{origin} must hold X of shape (series, times, channels) and a label for each, got {shapes}. "
                "Fetch it again."
            )
        X = np.ascontiguousarray(np.moveaxis(X, 2, 1) if layout == "nct" else X, dtype=float)
    classes = tuple(str(c) for c in arrays.get("classes", ()))
    extras = {key: value for key, value in arrays.items() if key not in (*used.values(), "classes")}
    return Dataset(name, entry.title, X, y, classes, extras, origin)


def _fetch(name: str, entry: Entry) -> Arrays:
    function, *arguments = entry.download
    cache = cache_folder()
    try:
        arrays = DOWNLOADS[function](cache, *arguments)
    except ModuleNotFoundError as error:
        raise DatasetError(
            f"{name!r} is fetched with {error.name}, which is not installed. "
            f"Install it with: pip install 'condcs[timeseries]'. {_absent(name, entry)}"
        ) from error
    except Exception as error:
        # Downloaders fail in many ways: no network, a moved page, a changed format. All mean the same to the caller.
        raise DatasetError(
            f"{name!r} could not be fetched ({type(error).__name__}: {error}). {_absent(name, entry)}"
        ) from error
    if not entry.content:
        # It came with an installed package: nothing to check, nothing to keep.
        return arrays
    check_content(name, entry, arrays)
    path = cache / entry.path
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(f"{path}"), atomic_write(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return arrays


def check_content(name: str, entry: Entry, arrays: Arrays) -> None:
    """Refuse a download whose sums are not the known ones."""
    found = content_sums(arrays[entry.keys.get("X", "X")], arrays[entry.keys.get("y", "y")])
    if not np.allclose(found, entry.content, rtol=CONTENT_TOLERANCE, atol=CONTENT_TOLERANCE):
        raise DatasetError(
            f"{name!r} was fetched, but is not the data that is expected: its sums are {found[0]:.6g} and "
            f"{found[1]:.6g} instead of {entry.content[0]:.6g} and {entry.content[1]:.6g}. The archive may have "
            f"changed it. {_absent(name, entry)}"
        )


def _absent(name: str, entry: Entry) -> str:
    given = os.environ.get("CONDCS_DATA", "").strip()
    looked = f"CONDCS_DATA ({given})" if given else "CONDCS_DATA (not set)"
    form = (
        "a folder of clips, one subfolder per class"
        if entry.kind == "frames"
        else "an .npz file of arrays X (series, times, channels) and y"
        if entry.kind == "series"
        else "an .npz file"
    )
    return (
        f"{name!r} must lie at {entry.path} in the folder {looked} or in the cache {cache_folder()}, as {form}; "
        f"it is in neither. Get it from {entry.where}."
    )
