"""Matrices of distances, computed block by block: in parallel, and on disk so that an interrupted run continues."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.checks import check_choice
from condcs._core.errors import CondcsWarning, ParameterError, warn_caller
from condcs._core.files import InUseError, atomic_write, locked, reserve, sealed_line, unsealed_line, writing
from condcs._core.progress import progress_bar
from condcs._core.settings import current_settings, one_blas_thread
from condcs._parallel.spreading import active_workers, spread
from condcs.timeseries._collection import FloatArray, Windowed
from condcs.timeseries._distance_job import Fallbacks, Job

_SECONDS_PER_BLOCK = (0.25, 0.005)
_MAX_SIDE = 512
_MIN_BLOCKS = 8
_SECONDS_WORTH_A_THREAD = 0.005

_FLUSH_SECONDS = 5.0
_PROBLEM, _MATRIX, _SUMS, _LOCK = "problem.json", "distances.npy", "done.npy", ".lock"
_FORMAT = 2
# Above any checksum: no finished block has the sum 0, which stands for an unfinished one.
_DONE = 1 << 32

DType = Literal["float64", "float32"]


@dataclass(frozen=True)
class MatrixOutput:
    """Where a matrix of distances is kept while it is computed, and what is shown.

    Attributes
    ----------
    dtype : {"float64", "float32"}
        Type of the matrix; distances are computed in double precision either way.
    store : path, optional
        Folder for a matrix on disk. The same call with the same folder continues where an interrupted run stopped, and
        returns the matrix memory-mapped. Finished blocks have checksums: blocks that have changed on disk or are
        missing are computed again, with a warning.
    progress : bool
        Show a progress bar (needs `rich`).
    """

    dtype: DType = "float64"
    store: str | os.PathLike[str] | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, get_args(DType))


IN_MEMORY = MatrixOutput()


@dataclass(frozen=True)
class Block:
    """The pairs between two runs of series, with only the series that they need; sent to a worker as it is.

    Workers receive the data with the task, not as a reference to data that another worker holds: if a worker dies, its
    tasks are given to the others.
    """

    job: Job
    row: int
    column: int
    a: Windowed
    b: Windowed
    above_diagonal: bool

    def run(self) -> tuple[int, int, FloatArray, Fallbacks]:
        """Compute the block."""
        with one_blas_thread() if self.job.wide else nullcontext():
            values, fallbacks = self.job.block(self.a, self.b, self.above_diagonal)
        return self.row, self.column, values, fallbacks


def block_side(job: Job, a: Windowed, b: Windowed) -> int:
    """Choose how many series a side of a block has: a fraction of a second of work, and a block for every worker."""
    longest, shortest = (math.sqrt(seconds / job.seconds(a, b)) for seconds in _SECONDS_PER_BLOCK)
    side = math.ceil(max(a.count, b.count) / _MIN_BLOCKS)
    return int(max(1, min(max(side, shortest), longest, _MAX_SIDE)))


def distance_matrix(
    job: Job,
    a: Windowed,
    b: Windowed | None,
    *,
    n_jobs: int | None,
    output: MatrixOutput,
) -> tuple[FloatArray, Fallbacks]:
    """Compute all pairs of a, or of a with b."""
    other = a if b is None else b
    side = block_side(job, a, other)
    shape = (a.count, other.count)
    with ExitStack() as stack:
        kept = None
        if output.store is not None:
            kept = stack.enter_context(MatrixStore.open(output.store, job, a, b, output.dtype, side))
            kept.forget_damaged()
            side = kept.side
        factors = (job.n_factors,) if job.n_factors > 1 else ()
        out = np.zeros(factors + shape, output.dtype) if kept is None else kept.values
        blocks = _blocks(job, a, b, side)
        if kept is not None:
            blocks = (block for block in blocks if not kept.is_done(block[0] // side, block[1] // side))
        total = a.count * (a.count - 1) // 2 if b is None and job.symmetric else shape[0] * shape[1]
        fallbacks = Fallbacks()
        computed = _computed(job, a, other, b is None, side, blocks, n_jobs)
        advance = stack.enter_context(progress_bar(total, output.progress, "distances"))
        stack.enter_context(one_blas_thread() if job.wide else nullcontext())
        for row, column, values, fell_back in computed:
            _write(out, row, column, values, mirrored=b is None and job.symmetric)
            fallbacks += fell_back
            if kept is not None:
                kept.mark(row // side, column // side)
            pairs = values.shape[-2] * values.shape[-1]
            advance(pairs if row != column else pairs // 2)
    return (out if kept is None else kept.matrix()), fallbacks


def _write(out: FloatArray, row: int, column: int, values: FloatArray, *, mirrored: bool) -> None:
    if mirrored and row == column:
        values = values + values.swapaxes(-1, -2)
    rows, columns = slice(row, row + values.shape[-2]), slice(column, column + values.shape[-1])
    out[..., rows, columns] = values
    if mirrored:
        out[..., columns, rows] = values.swapaxes(-1, -2)


def _blocks(job: Job, a: Windowed, b: Windowed | None, side: int) -> Iterator[tuple[int, int]]:
    columns = a.count if b is None else b.count
    for row in range(0, a.count, side):
        for column in range(row if b is None and job.symmetric else 0, columns, side):
            yield row, column


def _computed(
    job: Job, a: Windowed, b: Windowed, same: bool, side: int, blocks: Iterator[tuple[int, int]], n_jobs: int | None
) -> Iterator[tuple[int, int, FloatArray, Fallbacks]]:
    """Run the blocks in this thread if there are few of them, else with joblib's active backend; in any order."""

    def task(row: int, column: int) -> Block:
        rows, columns = a.part(row, min(row + side, a.count)), b.part(column, min(column + side, b.count))
        return Block(job, row, column, rows, columns, same and row == column)

    if a.count * b.count * job.seconds(a, b) < _SECONDS_WORTH_A_THREAD:
        for row, column in blocks:
            yield task(row, column).run()
        return
    workers = active_workers(n_jobs)
    if workers is not None and workers.client is not None:
        # Few at a time: blocks hold the series that they need.
        calls = ((task(row, column),) for row, column in blocks)
        for _, done in spread(Block.run, calls, workers, ahead=4):
            yield done
        return
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    if n_jobs is None:
        # What an enclosing joblib.parallel_config says; else all cores.
        n_jobs = get_active_backend()[1] or current_settings().n_threads
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(Block.run)(task(row, column)) for row, column in blocks)


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
                    # Written last: a folder without it was not completed.
                    store._sums[...] = 0
                    with atomic_write(path / _PROBLEM) as file:
                        file.write(sealed_line({**about, "side": side}))
            try:
                yield store
            finally:
                store.flush()

    def forget_damaged(self) -> None:
        """Find blocks of an earlier run that have changed on disk, so that they are computed again."""
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
                "written, or are incomplete; they are computed again. Check the disk if this happens repeatedly.",
                CondcsWarning,
            )

    def is_done(self, i: int, j: int) -> bool:
        """Whether a block has been computed, here or by an earlier run."""
        return bool(self._sums[i, j])

    def mark(self, i: int, j: int) -> None:
        """Record that a block has been written; every few seconds, flush to disk."""
        self._pending.append((i, j))
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all blocks so far to disk."""
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
    """Refuse a folder that holds anything but a store, complete or not."""
    if not path.exists() or (path / _PROBLEM).exists():
        return
    begun = (_MATRIX, _SUMS, _LOCK)
    if not path.is_dir() or any(
        entry.name not in begun and not entry.name.endswith(".part") for entry in path.iterdir()
    ):
        raise ParameterError(
            f"`store` must be a new folder or one that an earlier call created, got {str(path)!r}, which holds other "
            "files. Pass another folder."
        )


def _held_side(path: Path, about: dict[str, Any]) -> int | None:
    """Return the side of the blocks in a folder of the same problem; None if there is nothing in it yet."""
    description = path / _PROBLEM
    if not description.exists():
        return None
    held = unsealed_line(description.read_bytes())
    if held is None:
        raise ParameterError(
            f"`store` must be a new folder or one created with the same series and settings, got {str(path)!r}, whose "
            f"{_PROBLEM} is damaged or of an older version. Pass another folder, or delete this one."
        )
    differing = [name for name in about if held.get(name) != about[name]]
    if differing:
        raise ParameterError(
            f"`store` must be a new folder or one created with the same series and settings, got {str(path)!r}, "
            f"whose {differing[0]} differs. Pass another folder, or delete this one."
        )
    return int(held["side"])


def _mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, int]) -> np.memmap[Any, Any]:
    """Map an .npy file into memory, extended to its full length first, so that no block can meet a full disk.

    Damaged or missing parts are found by the checksums of the blocks.
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
