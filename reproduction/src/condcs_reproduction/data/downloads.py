"""Data from the archives that keep it, brought into one form and checked against known sums."""

from __future__ import annotations

import io
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray, LabelArray
from condcs._core.errors import DataError

Arrays = dict[str, AnyArray]
"""Arrays of a data set by name: `X` (of series: series, time, channels), `y` and more."""

CONTENT_TOLERANCE = 1e-4
"""How far the sums of a download may lie from the known ones, relative to the size of X."""

MOST_ARCHIVE, MOST_TEXT = 1 << 25, 1 << 22
"""Bytes that an archive of UCI and a file of text in it may have: ten times what the largest has."""

UCI = "https://archive.ics.uci.edu/static/public/"


def content_sums(X: FloatArray, y: LabelArray | FloatArray) -> tuple[float, float]:
    """Return two sums that change with any value, label or order of rows, but hardly with the last printed digit.

    The archives hand out text with different numbers of digits, so a hash of bytes would refuse a good file. The
    weights are cosines of growing angles: neither equal for any two entries nor dependent on a random generator.
    """
    table = np.asarray(X, dtype=float).reshape(len(X), -1)
    rows, columns = _weights(len(table)), _weights(table.shape[1])
    scale = float(np.linalg.norm(table)) or 1.0
    return float(rows @ table @ columns) / scale, float(rows @ np.asarray(y, dtype=float).reshape(len(y), -1).sum(1))


def _weights(n: int) -> FloatArray:
    return np.asarray(np.cos(np.arange(1, n + 1) ** 2 * 0.6180339887498949))


def from_aeon(cache: Path, archive: str, split: str | None, classes: Sequence[str]) -> Arrays:
    """Series of the UCR/UEA archive, through aeon; those of a few classes only if these are named."""
    from aeon.datasets import load_classification

    shipped = archive in _SHIPPED
    X, y = load_classification(archive, split=split, extract_path=None if shipped else str(cache / "aeon"))
    chosen = np.isin(y, classes) if classes else np.ones(len(y), dtype=bool)
    return _labelled(np.moveaxis(np.asarray(X), 1, 2)[chosen], np.asarray(y)[chosen])


_SHIPPED = ("GunPoint", "ItalyPowerDemand", "BasicMotions")
"""Sets that come with aeon itself."""


def uwave(cache: Path) -> Arrays:
    """Three accelerations of a gesture from the three univariate sets: the first 25 series of each class."""
    parts = [from_aeon(cache, f"UWaveGestureLibrary{axis}", "train", ()) for axis in "XYZ"]
    y = parts[0]["y"]
    chosen = np.sort(np.concatenate([np.flatnonzero(y == c)[:25] for c in range(8)]))
    X = np.concatenate([part["X"] for part in parts], axis=2)
    return {"X": X[chosen], "y": y[chosen], "classes": parts[0]["classes"]}


def robot_failures(cache: Path, number: int) -> Arrays:
    """Fetch forces and torques around failures of a robot: UCI 138."""
    return parse_robot_failures(_uci_file("138/robot+execution+failures.zip", f"lp{number}.data"))


def parse_robot_failures(text: str) -> Arrays:
    """Read blocks of a class name and fifteen lines of six numbers each."""
    series, labels, rows = [], [], []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 1:
            labels.append(words[0])
        elif words:
            rows.append([float(w) for w in words])
            if len(rows) == 15:
                series.append(rows)
                rows = []
    return _labelled(np.array(series), np.array(labels))


def pen_digits(cache: Path) -> Arrays:
    """Eight points of the pen per digit: the test file of UCI 81."""
    text = _uci_file("81/pen+based+recognition+of+handwritten+digits.zip", "pendigits.tes")
    table = np.loadtxt(io.StringIO(text), delimiter=",")
    return _labelled(table[:, :16].reshape(-1, 8, 2), table[:, 16].astype(int).astype(str))


def synthetic_control(cache: Path) -> Arrays:
    """Control charts, not normalised: UCI 139; the classes are blocks of a hundred rows."""
    text = _uci_file("139/synthetic+control+chart+time+series.zip", "synthetic_control.data")
    table = np.loadtxt(io.StringIO(text))
    return _labelled(table[:, :, None], np.repeat(np.arange(1, 7), 100).astype(str))


def california_housing(cache: Path) -> Arrays:
    """Houses of the 1990 census, through scikit-learn."""
    from sklearn.datasets import fetch_california_housing

    data = fetch_california_housing(data_home=str(cache / "scikit-learn"))
    return {"X": data.data, "y": data.target, "feature_names": np.array(data.feature_names)}


def electricity(cache: Path) -> Arrays:
    """Half-hours of an electricity market, in order of time, without date and weekday: OpenML 151."""
    data = _openml(cache, 151)
    names = ["period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer"]
    X = np.column_stack([np.asarray(data.data[name], dtype=float) for name in names])
    return {"X": X, "y": (np.asarray(data.target) == "UP").astype(np.int8), "feature_names": np.array(names)}


def mnist_test(cache: Path) -> Arrays:
    """Fetch the test images of MNIST: OpenML 554, whose first 60,000 rows are the training images."""
    data = _openml(cache, 554)
    images = np.asarray(data.data, dtype=np.uint8)[60_000:].reshape(-1, 28, 28)
    return {"images": images, "labels": np.asarray(data.target)[60_000:].astype(np.uint8)}


DOWNLOADS: dict[str, Callable[..., Arrays]] = {
    f.__name__: f
    for f in (
        from_aeon,
        uwave,
        robot_failures,
        pen_digits,
        synthetic_control,
        california_housing,
        electricity,
        mnist_test,
    )
}
"""What the catalogue can call, by name."""


def _openml(cache: Path, number: int) -> Any:
    from sklearn.datasets import fetch_openml

    return fetch_openml(data_id=number, data_home=str(cache / "scikit-learn"), parser="auto", as_frame=True)


def _uci_file(archive: str, member: str) -> str:
    # Not through ucimlrepo: it does not import the sets of series, only tables.
    with urllib.request.urlopen(UCI + archive, timeout=60) as answer:
        content = zipfile.ZipFile(io.BytesIO(_bounded(answer, MOST_ARCHIVE, archive)))
    found = next(name for name in content.namelist() if name.rpartition("/")[2] == member)
    with content.open(found) as file:
        return _bounded(file, MOST_TEXT, member).decode("ascii")


def _bounded(file: Any, most: int, name: str) -> bytes:
    content: bytes = file.read(most + 1)
    if len(content) > most:
        raise DataError(f"{name} must hold at most {most >> 20} MB, got more: it is not the file that is expected")
    return content


def _labelled(X: FloatArray, labels: AnyArray) -> Arrays:
    """Return series with their labels as 0..k-1, numbered in the order of the names (of their values if numbers)."""
    names = sorted(set(labels.tolist()), key=lambda name: (float(name), "") if _is_number(name) else (0.0, str(name)))
    codes = {name: i for i, name in enumerate(names)}
    return {"X": X, "y": np.array([codes[name] for name in labels.tolist()]), "classes": np.array(names)}


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
