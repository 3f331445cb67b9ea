"""A matrix of distances on disk, with a mask of the blocks that are done: a killed run continues where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from condcs.core.errors import ParameterError
from condcs.timeseries.collection import FloatArray
from condcs.timeseries.jobs import Job
from condcs.timeseries.windowed import Windowed

_FLUSH_SECONDS = 5.0


class MatrixStore:
    """A folder with ``distances.npy``, ``done.npy`` and ``problem.json``.

    Attributes
    ----------
    values : memory-mapped array
        The distances.
    side : int
        Series on a side of a block.
    """

    def __init__(self, folder: Path, values: FloatArray, done: FloatArray, side: int) -> None:
        self.folder, self.values, self.side = folder, values, side
        self._done = done
        self._pending: list[tuple[int, int]] = []
        self._flushed = time.monotonic()

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], job: Job, a: Windowed, b: Windowed | None, dtype: Any, side: int
    ) -> MatrixStore:
        """Open a folder, which is empty or holds the same problem."""
        path = Path(folder)
        shape = (a.count, a.count if b is None else b.count)
        problem = {"fingerprint": fingerprint(job, a, b), "shape": list(shape), "dtype": np.dtype(dtype).name}
        description, matrix, mask = path / "problem.json", path / "distances.npy", path / "done.npy"
        if description.exists():
            held = json.loads(description.read_text(encoding="utf-8"))
            differing = [name for name in problem if held.get(name) != problem[name]]
            if differing:
                raise ParameterError(
                    f"`store` must be a new folder or one begun with the same series and settings, got {str(path)!r}, "
                    f"whose {differing[0]} differs. Pass another folder, or delete this one."
                )
            values = np.load(matrix, mmap_mode="r+", allow_pickle=False)
            return cls(path, values, np.load(mask, mmap_mode="r+", allow_pickle=False), int(held["side"]))
        drafts = {matrix.name, mask.name, "problem.json.part"}
        if path.exists() and (not path.is_dir() or {entry.name for entry in path.iterdir()} - drafts):
            raise ParameterError(
                f"`store` must be a new folder or one that an earlier call began, got {str(path)!r}, which holds other "
                "things. Pass another folder."
            )
        path.mkdir(parents=True, exist_ok=True)
        grid = (-(-shape[0] // side), -(-shape[1] // side))
        values = np.lib.format.open_memmap(matrix, "w+", np.dtype(dtype), shape)  # type: ignore[no-untyped-call]
        done = np.lib.format.open_memmap(mask, "w+", np.dtype(np.uint8), grid)  # type: ignore[no-untyped-call]
        # Written last and in one step: a folder without it is one whose making was cut short.
        draft = path / "problem.json.part"
        draft.write_text(json.dumps({**problem, "side": side}, indent=1), encoding="utf-8")
        draft.replace(description)
        return cls(path, values, done, side)

    def is_done(self, i: int, j: int) -> bool:
        """Whether a block has been computed, here or by an earlier run."""
        return bool(self._done[i, j])

    def mark(self, i: int, j: int) -> None:
        """Note that a block has been written; every few seconds, make sure of it on disk (values first)."""
        self._pending.append((i, j))
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def close(self) -> FloatArray:
        """Flush, and return the matrix, memory-mapped for reading."""
        self.flush()
        return np.asanyarray(np.load(self.folder / "distances.npy", mmap_mode="r", allow_pickle=False))

    def flush(self) -> None:
        """Make sure that all blocks so far are on disk."""
        self.values.flush()  # type: ignore[attr-defined]
        for i, j in self._pending:
            self._done[i, j] = 1
        self._done.flush()  # type: ignore[attr-defined]
        self._pending.clear()
        self._flushed = time.monotonic()


def fingerprint(job: Job, a: Windowed, b: Windowed | None) -> str:
    """Hash of everything that the matrix depends on."""
    digest = hashlib.sha256(json.dumps({**asdict(job), "order": a.order}, sort_keys=True, default=repr).encode())
    for side in (a,) if b is None else (a, b):
        for array in (side.collection.frames, side.collection.starts, side.windows, side.ends):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
