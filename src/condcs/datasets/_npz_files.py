"""Arrays from .npz and .npy files: no pickles, no unlimited decompression, and one error for any kind of damage."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from condcs._core.arrays import AnyArray
from condcs._core.errors import DataError

MOST_BYTES = 1 << 31
"""Largest size of the arrays of a file, decompressed."""


def read_arrays(path: Path, names: Collection[str] | None = None, *, most: int = MOST_BYTES) -> dict[str, AnyArray]:
    """Return the arrays of a .npz file by name: all of them, or those of `names` that the file holds.

    Raises
    ------
    DataError
        If the file is damaged, holds objects, or unpacks to more than `most` bytes.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {m.filename.removesuffix(".npy"): m for m in archive.infolist() if m.filename.endswith(".npy")}
            chosen = {name: m for name, m in members.items() if names is None or name in names}
            size = sum(member.file_size for member in chosen.values())
            if size > most:
                raise DataError(
                    f"{path} must hold at most {most >> 20:,} MB of arrays, got {size >> 20:,} MB once it is unpacked. "
                    "Save fewer, or smaller, arrays."
                )
            return {name: _array(archive, member) for name, member in chosen.items()}
    except DataError:
        raise
    except Exception as error:
        raise _damaged(path, "a .npz file of plain arrays", "np.savez", error) from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> AnyArray:
    form: Any = np.lib.format  # numpy gives it no types
    with archive.open(member) as file:
        version = form.read_magic(file)
        # Python names do not matter here, so that a header of version 3 reads like one of version 2.
        read = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
        shape, _, dtype = read(file)
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > member.file_size:
        raise ValueError(f"{member.filename} says that its shape is {shape}, but is shorter")
    with archive.open(member) as file:
        return np.asarray(form.read_array(file, allow_pickle=False))


def read_array(path: Path) -> AnyArray:
    """Return the array of a .npy file; `DataError` if it is damaged or holds objects."""
    expected = "a .npy file of a plain array"
    try:
        content = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:
        raise _damaged(path, expected, "np.save", error) from error
    if isinstance(content, np.lib.npyio.NpzFile):
        # numpy goes by the first bytes, not by the name.
        content.close()
        raise DataError(
            f"{path} must be {expected}, got an archive of arrays (.npz). Rename it to {path.with_suffix('.npz').name}."
        )
    return np.asarray(content)


def _damaged(path: Path, expected: str, remedy: str, error: Exception) -> DataError:
    # On damaged files zipfile, zlib and numpy raise errors of many kinds.
    words = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    if "object" in words.lower():
        words, remedy = "it holds Python objects", "np.savez(path, *series) if the arrays differ in length"
    return DataError(f"{path} must be {expected}, but: {words}. Save it again with {remedy}.")
