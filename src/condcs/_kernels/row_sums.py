r"""Kernel masses: for each pooled row j, group h and kernel k, :math:`\log \sum_i k(z_i, z_j) W_{ih}`.

The exact divergences of `conditional`, `marginal` and `bregman` in `condcs._measures` are sums of these masses, and
every library of arrays has its way here. No n x n array exists: tiles live in a core's cache (numpy) or are recomputed
in the backward pass (torch, JAX). Other visits to pairs of rows are elsewhere: sums of a few rows over chunks of many
in `row_chunks`, medians of distances in `pair_medians`, sums under redrawn labels with the tests of
`condcs._inference`, and those of windows and series in compiled loops of their own.

The ratio of two masses, :math:`B_{jh} / A_{jh}`, is an average of the kernel on y with weights from the kernel on x. A
row R bandwidths from a group has exponents of about :math:`-R^2 / 2` there: in double precision, from R = 1e7 on
nothing is left of the exponents of y that are added to them, nor of the differences among them, which decide the
weights. Those differences are all that matters, so they are found without the exponents: relative to the row of the
group that is nearest, as differences of squares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from condcs._core.arrays import Array, Backend, FloatArray, IntArray, RealArray, log_weights, logsumexp
from condcs._core.checks import Groups
from condcs._core.errors import OverlapWarning, warn_caller
from condcs._core.printable import counted
from condcs._core.settings import current_settings
from condcs._kernels.log_kernels import EXACT_EXPONENT, Expanded, Features, LogKernel, product
from condcs._parallel.spreading import on_threads

# Sums above this hold no digits lost to gradual underflow: n terms are each off by at most the smallest subnormal.
# By the bytes of a number.
_SAFE_SUM = {8: 1e-290, 4: 1e-30}
# Rows for each thread: handing a few tiles to a thread and waiting for it takes longer than the tiles.
_ROWS_WORTH_A_THREAD = 512
# The logarithm of 2 to the power of -1020, below which the compiled exponential returns 0.
_SMALLEST_EXPONENT = -1020.0 * math.log(2.0)

# The compiled exponential takes half the time of numpy's with AVX-512, a seventh without. In a process's first call it
# takes 0.7 s to load, and 0.2 s more to compile where no earlier process did.
PLAIN_SUMS = 512
"""Row sums over up to so many pooled rows use numpy's exponential: 0.1 ms slower with AVX-512, 1 ms without."""
PLAIN_TESTS = 2_000
"""So do tests, of which exponentials are a small part: 6 of 400 ms slower at this size, 45 without AVX-512."""

# Pairs of rows whose exponents are found again at a time: 8 MB in double precision. More take more memory, fewer more
# calls.
_BLOCK_FLOATS = 2**20


@dataclass(frozen=True)
class RowMasses:
    """Log kernel masses of every pooled row in every group: log A (x alone) and log B (x and y), both n x G.

    Their difference log (B / A) is a member of its own: far from a group it has digits that the masses have not.
    """

    backend: Backend
    groups: Groups
    log_a: Array
    log_b: Array
    log_ratio: Array


def row_masses(kernel_x: LogKernel, kernel_y: LogKernel, groups: Groups) -> RowMasses:
    """Visit all pairs once and return log A and log B."""
    log_a, log_b = log_row_sums([kernel_x, product([kernel_x, kernel_y])], groups)
    if kernel_x.may_vanish or groups.weights is not None:
        log_a, log_b = _without_absent_rows(kernel_x.backend, groups, log_a, log_b)
    log_ratio = log_mass_ratios(kernel_x, kernel_y, groups, log_a, log_b)
    return RowMasses(kernel_x.backend, groups, log_a, log_b, log_ratio)


def log_row_sums(kernels: Sequence[LogKernel], groups: Groups) -> list[Array]:
    """Return, for each kernel, the logarithm of every pooled row's kernel mass in every group (n x G).

    Cost O(n^2 d) per kernel, memory O(n G). Finite unless a kernel is exactly zero on a whole group.
    """
    backend = kernels[0].backend
    if backend.name == "numpy":
        return [_finish_in_log_domain(k, s, groups) for k, s in zip(kernels, _row_sums(kernels, groups), strict=True)]
    return _differentiable_log_row_sums(kernels, groups)


def _row_sums(kernels: Sequence[LogKernel], groups: Groups) -> list[FloatArray]:
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

    def work(i: int) -> tuple[list[FloatArray], list[FloatArray]]:
        return _row_block(i, kernels, blocks, weights, groups.count)

    n_threads = min(settings.n_threads, len(blocks), max(1, n // _ROWS_WORTH_A_THREAD))
    results = on_threads(work, ((i,) for i in range(len(blocks))), n_threads)
    # In the order of the blocks, so that the sums do not depend on the number of threads.
    for rows, (groups_met, _), (block_sums, later_sums) in zip(blocks, weights, results, strict=True):
        for total, of_block, of_later in zip(sums, block_sums, later_sums, strict=True):
            total[rows] += of_block
            total[rows.stop :, groups_met] += of_later
    return sums


row_sums = _row_sums
"""The same for callers whose sums cannot underflow, or who know what to do if they do."""


def _row_block(
    i: int,
    kernels: Sequence[LogKernel],
    blocks: list[slice],
    weights: list[tuple[slice, RealArray]],
    n_groups: int,
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Visit the tiles of block row `i` on and right of the diagonal.

    Return, for each kernel, what they add to the sums of the rows of the block (height, G), and of all later rows, in
    the groups that the block's rows are of.
    """
    rows, (row_groups, row_weights) = blocks[i], weights[i]
    height, n = rows.stop - rows.start, blocks[-1].stop
    block_sums = [np.zeros((height, n_groups)) for _ in kernels]
    later_sums = [np.zeros((n - rows.stop, row_groups.stop - row_groups.start)) for _ in kernels]
    scratch = [np.empty(height * height, k.dtype) for k in kernels]
    lefts = [tuple(a[rows] for a in k.left) for k in kernels]
    for columns, (column_groups, column_weights) in zip(blocks[i:], weights[i:], strict=True):
        width = columns.stop - columns.start
        for kernel, buffer, left, of_block, of_later in zip(
            kernels, scratch, lefts, block_sums, later_sums, strict=True
        ):
            if isinstance(kernel, Expanded):
                tile = buffer[: height * width].reshape(height, width)
                np.matmul(left[0], kernel.right[0][columns].T, out=tile)
            else:
                tile = np.ascontiguousarray(kernel.evaluate(left, tuple(a[columns] for a in kernel.right)))
            exp_in_place(tile, compiled=n > PLAIN_SUMS)
            of_block[:, column_groups] += _as_columns(tile @ column_weights)
            if columns.start > rows.start:
                part = slice(columns.start - rows.stop, columns.stop - rows.stop)
                of_later[part] += _as_columns(row_weights.T @ tile, transpose=True)
    return block_sums, later_sums


def _single_tile(kernels: Sequence[LogKernel], groups: Groups) -> list[FloatArray]:
    """Return the same as `_row_sums` of rows that fit in one tile, all pairs of which are computed at once."""
    _, weights = groups.block(slice(0, groups.n), kernels[0].dtype)
    sums = []
    for kernel in kernels:
        tile = np.ascontiguousarray(kernel.evaluate(kernel.left, kernel.right))
        exp_in_place(tile, compiled=groups.n > PLAIN_SUMS)
        sums.append(_as_columns(tile @ weights).astype(np.float64, copy=False))
    return sums


def exp_in_place(tile: RealArray, *, compiled: bool = True) -> None:
    """Replace a contiguous tile of exponents by their exponentials, by a compiled loop or by numpy.

    Callers choose by the size of their whole task: the loop is faster, but loading it takes most of a second. Below
    -707 both return 0: such sums are flagged as underflowing anyway.
    """
    if tile.dtype != np.float64:
        np.exp(tile, out=tile)
        return
    if compiled:
        from condcs._kernels import compiled as loops

        loops.exp_in_place(tile.reshape(-1))
        return
    # numpy takes ten times as long for a number that underflows.
    vanishing = tile < _SMALLEST_EXPONENT
    if not vanishing.any():
        np.exp(tile, out=tile)
        return
    tile[vanishing] = 0.0
    np.exp(tile, out=tile)
    tile[vanishing] = 0.0


def _as_columns(a: RealArray, *, transpose: bool = False) -> RealArray:
    """Return sums as columns, one per group; those of a single group come as a vector."""
    return a[:, None] if a.ndim == 1 else a.T if transpose else a


def _finish_in_log_domain(kernel: LogKernel, sums: FloatArray, groups: Groups) -> FloatArray:
    """Take logarithms; rows whose mass in a group underflowed are summed again, largest exponent taken out."""
    lost = sums < _SAFE_SUM[kernel.dtype.itemsize]  # (n, G)
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


def _log_sums_of_rows(kernel: LogKernel, rows: IntArray, columns: slice, weights: Array | None) -> FloatArray:
    """Log row sums over `columns`, tile by tile with a running maximum."""
    # Wider tiles than elsewhere, and so fewer calls; few rows come here.
    step = 16 * current_settings().tile
    peak = np.full(len(rows), -np.inf)
    total = np.zeros(len(rows))
    for start in range(columns.start, columns.stop, step):
        part = slice(start, min(start + step, columns.stop))
        exponents = kernel.block(rows, part).astype(np.float64, copy=False)
        if weights is not None:
            with np.errstate(divide="ignore"):
                exponents = exponents + np.log(weights[part].astype(np.float64))
        peak, total = joined_log_sums((peak, total), log_sums_of(exponents))
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(np.isfinite(peak), peak, 0.0) + np.log(total))


def log_sums_of(exponents: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest exponent of each row, and its sum of exponentials relative to that."""
    peak = exponents.max(axis=1)
    return peak, np.exp(exponents - np.where(np.isfinite(peak), peak, 0.0)[:, None]).sum(axis=1)


def joined_log_sums(
    first: tuple[FloatArray, FloatArray], second: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Add up two results of `log_sums_of`, for the same rows and other columns."""
    peak = np.maximum(first[0], second[0])
    # Without any mass the peak is minus infinity, and minus infinity less itself would be NaN.
    shift = np.where(np.isfinite(peak), peak, 0.0)
    return peak, sum(total * np.exp(part_peak - shift) for part_peak, total in (first, second))


def _without_absent_rows(backend: Backend, groups: Groups, log_a: Array, log_b: Array) -> tuple[Array, Array]:
    """Rows with no mass in a group (an absent category) add 0 to the terms with that group, and are counted."""
    xp = backend.xp
    absent = backend.detach(log_a) == -xp.inf
    if backend.is_traced(absent) or bool(xp.any(absent)):
        if not backend.is_traced(absent):
            rows = xp.any(absent, axis=1)
            if groups.weights is not None:
                rows = rows & (groups.weights > 0)
            warn_of_absent(int(rows.sum()), groups.n)
        log_a = xp.where(absent, xp.zeros_like(log_a), log_a)
        log_b = xp.where(absent, -xp.inf * xp.ones_like(log_b), log_b)
    return log_a, log_b


def warn_of_absent(count: int, n: int) -> None:
    """Say how many of n rows have a category, or a combination of them, that another group does not have."""
    if count > 0:
        words = (
            f"in {count:,} of {counted(n, 'row')} x has a label, or a combination of labels, that another sample does "
            "not have; such rows add nothing to the comparison with it."
        )
        warn_caller(OverlapWarning(words, rows=count, of_rows=n))


def log_mass_ratios(kernel_x: LogKernel, kernel_y: LogKernel, groups: Groups, log_a: Array, log_b: Array) -> Array:
    """Return log(B / A) of every pooled row in every group (n x G), given log A and log B.

    It is their difference, but for rows so far from a group that the difference would have lost digits; those are
    done again. Cost O(n d) for each such row and group.
    """
    backend, xp = kernel_x.backend, kernel_x.backend.xp
    ratios = log_b - log_a
    if not kernel_x.reaches_far:
        return ratios
    limit = EXACT_EXPONENT[xp.finfo(kernel_x.dtype).bits]
    if backend.is_traced(log_a):
        return _mended_when_run(kernel_x, kernel_y, groups, log_a, ratios, limit)
    lowest = backend.detach(log_a)
    if not bool((lowest < -limit).any()):
        return ratios
    far = backend.to_numpy((lowest < -limit) & (lowest > -xp.inf))
    for g, span in enumerate(groups.slices):
        rows = np.flatnonzero(far[:, g])
        step = max(1, _BLOCK_FLOATS // (span.stop - span.start))
        for start in range(0, len(rows), step):
            chosen = rows[start : start + step]
            left = [tuple(a[chosen] for a in k.left) for k in (kernel_x, kernel_y)]
            ratio = _recomputed(backend, partial(_ratio, kernel_x, kernel_y, groups, span))
            ratios = backend.replaced(ratios, (chosen, g), ratio(*left))
    return ratios


def _ratio(
    kernel_x: LogKernel, kernel_y: LogKernel, groups: Groups, span: slice, left: Features, left_y: Features
) -> Array:
    """Return log(B / A) of some rows in the group at `span`."""
    backend = kernel_x.backend
    right = tuple(a[span] for a in kernel_x.right)
    weights = 0.0 if groups.weights is None else log_weights(backend, groups.weights[span])
    relative, _ = relative_exponents(kernel_x, left, right, weights)
    with_y = relative + kernel_y.evaluate(left_y, tuple(a[span] for a in kernel_y.right))
    return logsumexp(backend, with_y, axis=1) - logsumexp(backend, relative, axis=1)


def relative_exponents(kernel: LogKernel, left: Features, right: Features, log_weights: Any) -> tuple[Array, Array]:
    """Return weighted exponents of rows, each relative to its kernel at one of the nearest `right` rows; and which."""
    backend, xp = kernel.backend, kernel.backend.xp
    nearest = xp.argmax(backend.detach(kernel.evaluate(left, right) + log_weights), axis=1)
    # Rounding may hide which row is the nearest at first; relative to one of the near rows it is plain to see.
    relative = kernel.relative(left, right, nearest)
    nearest = xp.argmax(backend.detach(relative + log_weights), axis=1)
    return kernel.relative(left, right, nearest) + log_weights, nearest


def _recomputed(backend: Backend, function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function that keeps no intermediate results for its derivative: they are found again when asked for."""
    if backend.name == "torch":
        from torch.utils.checkpoint import checkpoint

        return lambda *args: checkpoint(function, *args, use_reentrant=False)
    if backend.name == "jax":
        import jax

        return jax.checkpoint(function)
    return function


def _mended_when_run(
    kernel_x: LogKernel, kernel_y: LogKernel, groups: Groups, log_a: Array, ratios: Array, limit: float
) -> Array:
    """Do the same inside `jax.jit`, where values cannot be looked at before the compiled function runs."""
    import jax

    far = jax.lax.stop_gradient((log_a < -limit) & (log_a > -np.inf))

    def mended(ratios: Array) -> Array:
        columns = []
        for span in groups.slices:

            @jax.checkpoint
            def one_row(left: tuple[Features, Features], span: slice = span) -> Array:
                parts = [tuple(a[None] for a in rows) for rows in left]
                return _ratio(kernel_x, kernel_y, groups, span, *parts)[0]

            step = max(1, _BLOCK_FLOATS // (span.stop - span.start))
            columns.append(jax.lax.map(one_row, (kernel_x.left, kernel_y.left), batch_size=step))
        return jax.numpy.where(far, jax.numpy.stack(columns, axis=1), ratios)

    return jax.lax.cond(far.any(), mended, lambda ratios: ratios, ratios)


# Arrays that carry gradients, in linear memory. The derivative of log S, S being the sum of exp(E_i) w_i over a group,
# by an exponent is a softmax weight, exp(E_i) w_i / S, which needs only the stored sums: the backward pass recomputes
# each tile of exponents and keeps none.


DENSE_PAIRS = 2**22
"""Up to this many pairs the whole block of exponents is held at once (32 MB in double precision)."""

# Numbers of a tile of exponents: 8 MB in double precision. The backward pass holds a few such tiles at a time.
_TILE_FLOATS = 2**20
# Rows of a tile, for kernels of one number a pair, and the fewest rows and columns of any: a narrow tile spends its
# time in calls.
_TILE_ROWS, _FEWEST_IN_TILE = 1024, 16


def _differentiable_log_row_sums(kernels: Sequence[LogKernel], groups: Groups) -> list[Array]:
    """Return the log of every pooled row's kernel mass in every group (n x G), for torch, JAX and other libraries."""
    backend = kernels[0].backend
    weights = None if groups.weights is None else log_weights(backend, groups.weights)
    n = groups.n
    dense = n * n * max(k.floats_per_pair for k in kernels) <= DENSE_PAIRS
    if backend.name == "torch" and not dense:
        function = _torch_function()
        return [function.apply(k, groups, weights, len(k.left), *k.left, *k.right) for k in kernels]
    if backend.name == "jax" and not dense:
        return [_jax_tiled(k, groups, weights) for k in kernels]
    step = n if dense else max(1, _TILE_FLOATS // (n * max(k.floats_per_pair for k in kernels)))
    return [_by_row_blocks(k, groups, weights, step) for k in kernels]


def _rows_against_all(
    kernel: LogKernel, left: Features, right: Features, groups: Groups, weights: Array | None
) -> Array:
    """Return the log row sums of `left` rows (m, G) over all pooled rows, given the logarithms of their weights."""
    exponents = kernel.evaluate(left, right)
    if weights is not None:
        exponents = exponents + weights
    backend = kernel.backend
    return backend.xp.stack([logsumexp(backend, exponents[:, s], axis=1) for s in groups.slices], axis=1)


def _by_row_blocks(kernel: LogKernel, groups: Groups, weights: Array | None, step: int) -> Array:
    """Return the log row sums (n, G), of `step` rows at a time."""
    blocks = []
    for start in range(0, groups.n, step):
        left = tuple(a[start : start + step] for a in kernel.left)
        blocks.append(_rows_against_all(kernel, left, kernel.right, groups, weights))
    return blocks[0] if len(blocks) == 1 else kernel.backend.xp.concat(blocks)


def _jax_tiled(kernel: LogKernel, groups: Groups, weights: Array | None) -> Array:
    """Return the log row sums (n, G) of JAX arrays; exponents are computed again in the backward pass."""
    import jax

    @jax.checkpoint
    def one_row(left: Features) -> Array:
        rows = tuple(a[None] for a in left)
        return _rows_against_all(kernel, rows, kernel.right, groups, weights)[0]

    step = max(1, _TILE_FLOATS // (groups.n * kernel.floats_per_pair))
    return jax.lax.map(one_row, kernel.left, batch_size=step)


@lru_cache(maxsize=1)
def _torch_function() -> Any:
    """Make the autograd function; torch is imported only when a tensor is seen."""
    import torch

    class LogRowSums(torch.autograd.Function):
        """Log row sums whose backward pass recomputes tiles instead of keeping them."""

        @staticmethod
        def forward(ctx: Any, kernel: LogKernel, groups: Groups, weights: Array, n_left: int, *arrays: Array) -> Array:
            left, right = arrays[:n_left], arrays[n_left:]
            sums = left[0].new_empty((groups.n, groups.count), dtype=kernel.dtype)
            for rows in _row_tiles(kernel, groups):
                for g, span in enumerate(groups.slices):
                    sums[rows, g] = _running_logsumexp(torch, kernel, left, right, rows, span, weights)
            ctx.kernel, ctx.groups, ctx.n_left, ctx.weighted = kernel, groups, n_left, weights is not None
            ctx.save_for_backward(sums, *arrays, *([weights] if weights is not None else []))
            return sums

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, gradient: Array) -> Any:
            sums, *arrays = ctx.saved_tensors
            weights = arrays.pop() if ctx.weighted else None
            kernel, groups, n_left = ctx.kernel, ctx.groups, ctx.n_left
            gradients = [torch.zeros_like(a) for a in arrays]
            weight_gradient = None if weights is None else torch.zeros_like(weights)
            for rows in _row_tiles(kernel, groups):
                for g, span in enumerate(groups.slices):
                    for columns in _column_tiles(kernel, span, rows):
                        spots = [rows] * n_left + [columns] * (len(arrays) - n_left)
                        with torch.enable_grad():
                            parts = [a[s].detach().requires_grad_() for a, s in zip(arrays, spots, strict=True)]
                            exponents = kernel.evaluate(tuple(parts[:n_left]), tuple(parts[n_left:]))
                        weighted = exponents.detach()
                        if weights is not None:
                            weighted = weighted + weights[columns]
                        peak = sums[rows, g, None]
                        # A row without mass (sum minus infinity) takes no part; the subtraction would give NaN there.
                        softmax = torch.exp(weighted - torch.where(torch.isinf(peak), torch.zeros_like(peak), peak))
                        upstream = softmax.mul_(gradient[rows, g, None])
                        if weight_gradient is not None:
                            weight_gradient[columns] += upstream.sum(0)
                        if not exponents.requires_grad:
                            continue
                        part_gradients = torch.autograd.grad(exponents, parts, upstream, allow_unused=True)
                        for total, spot, part in zip(gradients, spots, part_gradients, strict=True):
                            if part is not None:
                                total[spot] += part
            return (None, None, weight_gradient, None, *gradients)

    return LogRowSums


def _row_tiles(kernel: LogKernel, groups: Groups) -> list[slice]:
    """Return the rows of each tile."""
    height = max(_FEWEST_IN_TILE, _TILE_ROWS // kernel.floats_per_pair)
    return [slice(i, min(i + height, groups.n)) for i in range(0, groups.n, height)]


def _column_tiles(kernel: LogKernel, span: slice, rows: slice) -> list[slice]:
    """Return the columns of each tile within a span, for tiles of so many rows."""
    width = max(_FEWEST_IN_TILE, _TILE_FLOATS // ((rows.stop - rows.start) * kernel.floats_per_pair))
    return [slice(i, min(i + width, span.stop)) for i in range(span.start, span.stop, width)]


def _running_logsumexp(
    torch: Any, kernel: LogKernel, left: Features, right: Features, rows: slice, span: slice, weights: Array | None
) -> Array:
    """Log row sums over a span of columns, tile by tile."""
    left_rows = tuple(a[rows] for a in left)
    parts = []
    for columns in _column_tiles(kernel, span, rows):
        exponents = kernel.evaluate(left_rows, tuple(a[columns] for a in right))
        if weights is not None:
            exponents = exponents + weights[columns]
        parts.append(torch.logsumexp(exponents, dim=1))
    return torch.logsumexp(torch.stack(parts, dim=1), dim=1)
