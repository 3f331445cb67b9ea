"""Paths of results, checked before the work begins."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from condcs._core.errors import ParameterError


def check_file(option: str, path: Path, endings: Sequence[str] = ()) -> None:
    """Check that a file can be written; its folder must exist, since a mistyped one would be created silently.

    Parameters
    ----------
    option : str
        The option that names it.
    path : Path
        The file, which may exist: it is replaced. A pipe or a device is written to.
    endings : sequence of str
        What its name must end in; empty means anything.
    """
    if path.is_dir():
        raise ParameterError(f"`{option}` must be a file, got the folder {path}. Name a file in it.")
    if endings and path.suffix.lower() not in endings:
        raise ParameterError(f"`{option}` must end in {' or '.join(endings)}, got {path.name!r}. Rename it.")
    if not path.exists() or path.is_file():
        _check_writable(option, path.parent)


def check_folder(option: str, path: Path) -> None:
    """Check that files can be written into a folder; the last part of its path may be new."""
    if path.exists() and not path.is_dir():
        raise ParameterError(f"`{option}` must be a folder, got the file {path}. Name another place.")
    _check_writable(option, path if path.is_dir() else path.parent)


def _check_writable(option: str, folder: Path) -> None:
    if folder.is_file():
        raise ParameterError(f"`{option}` must lie in a folder, but {folder} is a file. Name another place.")
    if not folder.is_dir():
        raise ParameterError(
            f"`{option}` must lie in a folder, but {folder} does not exist. Create it, or correct the path."
        )
    try:
        # Tried: permissions alone do not tell of read-only disks.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ParameterError(
            f"`{option}` must be a path that you may write to, but in {folder}: {error.strerror or error}. Name "
            "another place."
        ) from error
