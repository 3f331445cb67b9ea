"""A matrix of distances on disk, with a checksum of every finished block: a killed run continues where it stopped."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from condcs.core.errors import CondcsWarning, ParameterError, warn_caller
from condcs.core.files import InUseError, atomic_write, locked, reserve, sealed_line, unsealed_line, writing
from condcs.timeseries.collection import FloatArray
from condcs.timeseries.jobs import Job
from condcs.timeseries.windowed import Windowed

_FLUSH_SECONDS = 5.0
_PROBLEM, _MATRIX, _SUMS, _LOCK = "problem.json", "distances.npy", "done.npy", ".lock"
_FORMAT = 2
# Above any checksum: no finished block has the sum 0, which stands for an unfinished one.
_DONE = 1 << 32


class MatrixStore:
    """A folder with ``distances.npy``, ``done.npy`` (the checksums of finished blocks) and ``problem.json``.

    Attributes
    ----------
    values : memory-mapped array
        The distances.
    side : int
        Series on a side of a block.
    """

    def __init__(self, folder: Path, shape: tuple[int, int], dtype: Any, side: int, *, mirrored: bool) -> None:
        self.folder, self.side, self._mirrored = folder, side, mirrored
        self.values = _mapped(folder / _MATRIX, np.dtype(dtype), shape)
        grid = (-(-shape[0] // side), -(-shape[1] // side))
        self._sums = _mapped(folder / _SUMS, np.dtype(np.uint64), grid)
        self._pending: list[tuple[int, int]] = []
        self._flushed = time.monotonic()

    @classmethod
    @contextmanager
    def open(
        cls, folder: str | os.PathLike[str], job: Job, a: Windowed, b: Windowed | None, dtype: Any, side: int
    ) -> Iterator[MatrixStore]:
        """Use a folder, which is new or holds the same problem, within a ``with`` block."""
        path = Path(folder)
        shape = (a.count, a.count if b is None else b.count)
        about = {"format": _FORMAT, "fingerprint": fingerprint(job, a, b), "shape": list(shape)}
        about["dtype"] = np.dtype(dtype).name
        with ExitStack() as stack:
            with writing(f"`store` {path}"):
                _check_folder(path)
                path.mkdir(parents=True, exist_ok=True)
                _lock(path, stack)
                side = _held_side(path, about) or side
                store = cls(path, shape, dtype, side, mirrored=b is None and job.symmetric)
                if not (path / _PROBLEM).exists():
                    # Only now: a folder without it is one whose making was cut short.
                    store._sums[...] = 0
                    with atomic_write(path / _PROBLEM) as file:
                        file.write(sealed_line({**about, "side": side}))
            try:
                yield store
            finally:
                store.flush()

    def forget_damaged(self) -> None:
        """Look over what an earlier run has left: blocks that have changed on the disk are to be computed again."""
        done = np.argwhere(self._sums)
        damaged = 0
        for i, j in done:
            copies = [self._block(i, j), self._block(j, i).T] if self._mirrored else [self._block(i, j)]
            if any(_checksum(copy) != self._sums[i, j] for copy in copies):
                self._sums[i, j] = 0
                damaged += 1
        if damaged:
            warn_caller(
                f"{damaged} of {len(done)} finished blocks of distances in {self.folder} have changed since they were "
                "written, or were cut off; they are computed again. Check the disk if this comes back.",
                CondcsWarning,
            )

    def is_done(self, i: int, j: int) -> bool:
        """Whether a block has been computed, here or by an earlier run."""
        return bool(self._sums[i, j])

    def mark(self, i: int, j: int) -> None:
        """Note that a block has been written; every few seconds, make sure of it on disk."""
        self._pending.append((i, j))
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Make sure that all blocks so far are on disk."""
        with writing(f"`store` {self.folder}"):
            self.values.flush()
            for i, j in self._pending:
                self._sums[i, j] = _checksum(self._block(i, j))
            self._sums.flush()
        self._pending.clear()
        self._flushed = time.monotonic()

    def matrix(self) -> FloatArray:
        """Return the matrix, memory-mapped for reading."""
        return np.asanyarray(np.load(self.folder / _MATRIX, mmap_mode="r", allow_pickle=False))

    def _block(self, i: int, j: int) -> FloatArray:
        side = self.side
        return self.values[i * side : (i + 1) * side, j * side : (j + 1) * side]


def _lock(path: Path, stack: ExitStack) -> None:
    try:
        stack.enter_context(locked(path / _LOCK))
    except InUseError:
        raise ParameterError(
            f"`store` must be a folder that no other process is using, got {str(path)!r}. "
            "Wait for that process, or pass another folder."
        ) from None


def _check_folder(path: Path) -> None:
    """Refuse a folder that holds anything but a store, or one whose making was cut short."""
    if not path.exists() or (path / _PROBLEM).exists():
        return
    begun = (_MATRIX, _SUMS, _LOCK)
    if not path.is_dir() or any(
        entry.name not in begun and not entry.name.endswith(".part") for entry in path.iterdir()
    ):
        raise ParameterError(
            f"`store` must be a new folder or one that an earlier call began, got {str(path)!r}, which holds other "
            "things. Pass another folder."
        )


def _held_side(path: Path, about: dict[str, Any]) -> int | None:
    """Return the side of the blocks in a folder of the same problem; None if there is nothing in it yet."""
    description = path / _PROBLEM
    if not description.exists():
        return None
    held = unsealed_line(description.read_bytes())
    if held is None:
        raise ParameterError(
            f"`store` must be a new folder or one begun with the same series and settings, got {str(path)!r}, whose "
            f"{_PROBLEM} is damaged or of an older version. Pass another folder, or delete this one."
        )
    differing = [name for name in about if held.get(name) != about[name]]
    if differing:
        raise ParameterError(
            f"`store` must be a new folder or one begun with the same series and settings, got {str(path)!r}, "
            f"whose {differing[0]} differs. Pass another folder, or delete this one."
        )
    return int(held["side"])


def _mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, int]) -> np.memmap[Any, Any]:
    """Map an .npy file into memory, made or mended to its whole length, so that no block can meet a full disk.

    What was damaged or cut off is left to the checksums of the blocks.
    """
    header = io.BytesIO()
    described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)  # type: ignore[no-untyped-call]
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.write(header.getvalue())
        reserve(file, header.tell() + dtype.itemsize * shape[0] * shape[1])
    return np.memmap(path, dtype, "r+", header.tell(), shape)


def _checksum(values: FloatArray) -> int:
    return _DONE | zlib.crc32(np.ascontiguousarray(values).data)


def fingerprint(job: Job, a: Windowed, b: Windowed | None) -> str:
    """Hash of everything that the matrix depends on."""
    digest = hashlib.sha256(json.dumps({**asdict(job), "order": a.order}, sort_keys=True, default=repr).encode())
    for side in (a,) if b is None else (a, b):
        for array in (side.collection.frames, side.collection.starts, side.windows, side.ends):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
