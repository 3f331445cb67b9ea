r"""Tiled row sums: for each pooled row j, group h and kernel k, :math:`\log \sum_i k(z_i, z_j) W_{ih}`.

This is the only place that visits pairs of samples. No n x n array exists: tiles live in a core's cache (numpy) or are
recomputed in the backward pass (torch, JAX).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from condcs.core.arrays import Array
from condcs.core.groups import Groups
from condcs.core.settings import current_settings
from condcs.core.thread_limit import one_blas_thread
from condcs.kernels.log_kernels import Condensed, Expanded, LogKernel

FloatArray = np.ndarray[Any, Any]

# Sums above this hold no digits lost to gradual underflow: n terms are each off by at most the smallest subnormal.
_SAFE_SUM = {8: 1e-290, 4: 1e-30}
_ROWS_WORTH_A_THREAD = 512


def log_row_sums(kernels: Sequence[LogKernel], groups: Groups) -> list[Array]:
    """Return, for each kernel, the logarithm of every pooled row's kernel mass in every group (n x G).

    Cost O(n^2 d) per kernel, memory O(n G). Finite unless a kernel is exactly zero on a whole group.
    """
    backend = kernels[0].backend
    if backend.name == "numpy":
        return [_finish_in_log_domain(k, s, groups) for k, s in zip(kernels, row_sums(kernels, groups), strict=True)]
    from condcs.kernels.differentiable import differentiable_log_row_sums

    return differentiable_log_row_sums(kernels, groups)


def row_sums(kernels: Sequence[LogKernel], groups: Groups) -> list[FloatArray]:
    """Return, for each kernel, every pooled row's kernel mass in every group, as float64 (numpy only).

    Each unordered pair of tiles is visited once and serves the rows of both. Sums may underflow to 0.
    """
    n, settings = groups.n, current_settings()
    if n <= settings.tile:
        return _single_tile(kernels, groups)
    sums = [np.zeros((n, groups.count)) for _ in kernels]
    blocks = [slice(i, min(i + settings.tile, n)) for i in range(0, n, settings.tile)]
    dtype = np.result_type(*(k.dtype for k in kernels))
    weights = [groups.block(rows, dtype) for rows in blocks]
    tasks = range(len(blocks))
    n_threads = min(settings.n_threads, len(blocks), max(1, n // _ROWS_WORTH_A_THREAD))

    def work(i: int) -> tuple[list[FloatArray], list[FloatArray]]:
        return _row_block(i, kernels, blocks, weights, groups.count)

    def collect(i: int, result: tuple[list[FloatArray], list[FloatArray]]) -> None:
        # Results are added in the order of the blocks, so the sums do not depend on the number of threads.
        for total, own, others in zip(sums, *result, strict=True):
            total[blocks[i]] += own
            total[blocks[i].stop :, weights[i][0]] += others

    if n_threads == 1:
        # Handing a few tiles to a thread and waiting for it takes longer than the tiles.
        with one_blas_thread():
            for i in tasks:
                collect(i, work(i))
        return sums
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        pending = deque((i, pool.submit(work, i)) for i in tasks[: 2 * n_threads])
        upcoming = iter(tasks[2 * n_threads :])
        while pending:
            i, future = pending.popleft()
            collect(i, future.result())
            for following in upcoming:
                pending.append((following, pool.submit(work, following)))
                break
    return sums


def _row_block(
    i: int,
    kernels: Sequence[LogKernel],
    blocks: list[slice],
    weights: list[tuple[slice, FloatArray]],
    n_groups: int,
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Visit the tiles of block row `i` on and right of the diagonal; return its row sums and those of later rows."""
    rows, (row_groups, row_weights) = blocks[i], weights[i]
    height, n = rows.stop - rows.start, blocks[-1].stop
    own = [np.zeros((height, n_groups)) for _ in kernels]
    others = [np.zeros((n - rows.stop, row_groups.stop - row_groups.start)) for _ in kernels]
    scratch = [np.empty(height * height, k.dtype) for k in kernels]
    lefts = [tuple(a[rows] for a in k.left) for k in kernels]
    for columns, (column_groups, column_weights) in zip(blocks[i:], weights[i:], strict=True):
        width = columns.stop - columns.start
        for kernel, buffer, left, mine, theirs in zip(kernels, scratch, lefts, own, others, strict=True):
            if isinstance(kernel, Expanded):
                tile = buffer[: height * width].reshape(height, width)
                np.matmul(left[0], kernel.right[0][columns].T, out=tile)
            else:
                tile = np.ascontiguousarray(kernel.evaluate(left, tuple(a[columns] for a in kernel.right)))
            exp_in_place(tile)
            mine[:, column_groups] += _as_columns(tile @ column_weights)
            if columns.start > rows.start:
                part = slice(columns.start - rows.stop, columns.stop - rows.stop)
                theirs[part] += _as_columns(row_weights.T @ tile, transpose=True)
    return own, others


def _single_tile(kernels: Sequence[LogKernel], groups: Groups) -> list[FloatArray]:
    if groups.weights is None and all(isinstance(kernel, Condensed) for kernel in kernels):
        return [kernel.row_sums(groups.sizes) for kernel in kernels if isinstance(kernel, Condensed)]
    _, weights = groups.block(slice(0, groups.n), kernels[0].dtype)
    sums = []
    for kernel in kernels:
        tile = np.ascontiguousarray(kernel.evaluate(kernel.left, kernel.right))
        exp_in_place(tile)
        sums.append(_as_columns(tile @ weights).astype(np.float64, copy=False))
    return sums


def exp_in_place(tile: FloatArray) -> None:
    """Replace a contiguous tile of exponents by their exponentials."""
    if tile.dtype == np.float64:
        from condcs.kernels import compiled

        compiled.exp_in_place(tile.reshape(-1))
    else:
        np.exp(tile, out=tile)


def _as_columns(a: FloatArray, *, transpose: bool = False) -> FloatArray:
    return a[:, None] if a.ndim == 1 else a.T if transpose else a


def _finish_in_log_domain(kernel: LogKernel, sums: FloatArray, groups: Groups) -> FloatArray:
    """Take logarithms; rows whose mass in a group underflowed are summed again, largest exponent taken out."""
    lost = sums < _SAFE_SUM[kernel.dtype.itemsize]
    if not lost.any():
        return np.asarray(np.log(sums))
    with np.errstate(divide="ignore"):
        logs = np.log(sums)
    step = current_settings().tile
    for g, columns in enumerate(groups.slices):
        rows = np.flatnonzero(lost[:, g])
        for start in range(0, len(rows), step):
            chunk = rows[start : start + step]
            logs[chunk, g] = _log_sums_of_rows(kernel, chunk, columns, groups.weights)
    return logs


def _log_sums_of_rows(kernel: LogKernel, rows: FloatArray, columns: slice, weights: Array | None) -> FloatArray:
    """Log row sums over `columns`, tile by tile with a running maximum."""
    step = 16 * current_settings().tile
    peak = np.full(len(rows), -np.inf)
    total = np.zeros(len(rows))
    for start in range(columns.start, columns.stop, step):
        part = slice(start, min(start + step, columns.stop))
        exponents = kernel.block(rows, part).astype(np.float64, copy=False)
        if weights is not None:
            with np.errstate(divide="ignore"):
                exponents = exponents + np.log(weights[part].astype(np.float64))
        new_peak = np.maximum(peak, exponents.max(axis=1))
        shift = np.where(np.isfinite(new_peak), new_peak, 0.0)
        total = total * np.exp(peak - shift) + np.exp(exponents - shift[:, None]).sum(axis=1)
        peak = new_peak
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(np.isfinite(peak), peak, 0.0) + np.log(total))
