"""Matrices of distances, block by block: in parallel, with progress, and on disk so that a killed run continues."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs.core.parallel import active_workers, spread
from condcs.core.progress import progress_bar
from condcs.core.settings import current_settings
from condcs.core.thread_limit import one_blas_thread
from condcs.timeseries.collection import FloatArray
from condcs.timeseries.jobs import Job
from condcs.timeseries.store import MatrixStore
from condcs.timeseries.widths import Fallbacks
from condcs.timeseries.windowed import Windowed

_SECONDS_PER_BLOCK = (0.25, 0.005)
_MAX_SIDE = 512
_MIN_BLOCKS = 8
_SECONDS_WORTH_A_THREAD = 0.005


@dataclass(frozen=True)
class Block:
    """The pairs between two runs of series; sent to a worker as it is, with nothing but the series it needs.

    Workers get the data inside the task, not as a reference to data that another worker holds: if one dies, its tasks
    are simply given to the others.
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
    """Choose how many series a side of a block has: a fraction of a second's work, and enough blocks to share out."""
    longest, shortest = (math.sqrt(seconds / job.seconds(a, b)) for seconds in _SECONDS_PER_BLOCK)
    side = math.ceil(max(a.count, b.count) / _MIN_BLOCKS)
    return int(max(1, min(max(side, shortest), longest, _MAX_SIDE)))


def distance_matrix(
    job: Job,
    a: Windowed,
    b: Windowed | None,
    *,
    n_jobs: int | None,
    progress: bool,
    dtype: Any,
    store: str | os.PathLike[str] | None,
) -> tuple[FloatArray, Fallbacks]:
    """Compute all pairs of a, or of a with b."""
    other = a if b is None else b
    side = block_side(job, a, other)
    shape = (a.count, other.count)
    with ExitStack() as stack:
        kept = None
        if store is not None:
            kept = stack.enter_context(MatrixStore.open(store, job, a, b, dtype, side))
            kept.forget_damaged()
            side = kept.side
        out = np.zeros(shape, dtype) if kept is None else kept.values
        blocks = _blocks(job, a, b, side)
        if kept is not None:
            blocks = (block for block in blocks if not kept.is_done(block[0] // side, block[1] // side))
        total = a.count * (a.count - 1) // 2 if b is None and job.symmetric else shape[0] * shape[1]
        fallbacks = Fallbacks()
        computed = _computed(job, a, other, b is None, side, blocks, n_jobs)
        advance = stack.enter_context(progress_bar(total, progress, "distances"))
        stack.enter_context(one_blas_thread() if job.wide else nullcontext())
        for row, column, values, fell_back in computed:
            _write(out, row, column, values, mirrored=b is None and job.symmetric)
            fallbacks += fell_back
            if kept is not None:
                kept.mark(row // side, column // side)
            advance(values.size if row != column else values.size // 2)
    return (out if kept is None else kept.matrix()), fallbacks


def _write(out: FloatArray, row: int, column: int, values: FloatArray, *, mirrored: bool) -> None:
    if mirrored and row == column:
        values = values + values.T
    rows, columns = slice(row, row + values.shape[0]), slice(column, column + values.shape[1])
    out[rows, columns] = values
    if mirrored:
        out[columns, rows] = values.T


def _blocks(job: Job, a: Windowed, b: Windowed | None, side: int) -> Iterator[tuple[int, int]]:
    columns = a.count if b is None else b.count
    for row in range(0, a.count, side):
        for column in range(row if b is None and job.symmetric else 0, columns, side):
            yield row, column


def _computed(
    job: Job, a: Windowed, b: Windowed, same: bool, side: int, blocks: Iterator[tuple[int, int]], n_jobs: int | None
) -> Iterator[tuple[int, int, FloatArray, Fallbacks]]:
    """Run the blocks here if there is little to do, else wherever joblib is told to; in any order."""

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
        for _, done in spread(Block.run, calls, workers, ahead="4*n_jobs"):
            yield done
        return
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    if n_jobs is None:
        # What an enclosing joblib.parallel_config says; else all cores.
        n_jobs = get_active_backend()[1] or current_settings().n_threads
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(Block.run)(task(row, column)) for row, column in blocks)
