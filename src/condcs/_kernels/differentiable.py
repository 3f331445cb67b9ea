r"""Log row sums for arrays that carry gradients, in linear memory.

The derivative of :math:`\log S_{jh} = \log\sum_{i \in h} e^{E_{ji}} w_i` with respect to an exponent is a softmax
weight,
:math:`e^{E_{ji}} w_i / S_{jh}`, which needs only the stored sums: the backward pass recomputes each tile of exponents
and keeps none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from condcs._core.arrays import Array, log_weights, logsumexp
from condcs._core.groups import Groups
from condcs._kernels.log_kernels import LogKernel, Rows

DENSE_PAIRS = 2**22
"""Up to this many pairs the whole block of exponents is held at once (32 MB in double precision)."""

_TILE_FLOATS = 2**20


def differentiable_log_row_sums(kernels: Sequence[LogKernel], groups: Groups) -> list[Array]:
    """Return the log of every pooled row's kernel mass in every group (n x G), for torch, JAX and other libraries."""
    backend = kernels[0].backend
    weights = None if groups.weights is None else log_weights(backend, groups.weights)
    n = groups.n
    dense = n * n * max(k.floats_per_pair for k in kernels) <= DENSE_PAIRS
    if backend.name == "torch" and not dense:
        return [_torch_tiled(k, groups, weights) for k in kernels]
    if backend.name == "jax" and not dense:
        return [_jax_tiled(k, groups, weights) for k in kernels]
    step = n if dense else max(1, _TILE_FLOATS // (n * max(k.floats_per_pair for k in kernels)))
    return [_by_row_blocks(k, groups, weights, step) for k in kernels]


def _rows_against_all(kernel: LogKernel, left: Rows, right: Rows, groups: Groups, weights: Array | None) -> Array:
    exponents = kernel.evaluate(left, right)
    if weights is not None:
        exponents = exponents + weights
    backend = kernel.backend
    return backend.xp.stack([logsumexp(backend, exponents[:, s], axis=1) for s in groups.slices], axis=1)


def _by_row_blocks(kernel: LogKernel, groups: Groups, weights: Array | None, step: int) -> Array:
    n = groups.n
    if step >= n:
        return _rows_against_all(kernel, kernel.left, kernel.right, groups, weights)
    blocks = [
        _rows_against_all(kernel, tuple(a[i : i + step] for a in kernel.left), kernel.right, groups, weights)
        for i in range(0, n, step)
    ]
    return kernel.backend.xp.concat(blocks)


def _jax_tiled(kernel: LogKernel, groups: Groups, weights: Array | None) -> Array:
    import jax

    @jax.checkpoint
    def one_row(left: Rows) -> Array:
        rows = tuple(a[None] for a in left)
        return _rows_against_all(kernel, rows, kernel.right, groups, weights)[0]

    step = max(1, _TILE_FLOATS // (groups.n * kernel.floats_per_pair))
    return jax.lax.map(one_row, kernel.left, batch_size=step)


def _torch_tiled(kernel: LogKernel, groups: Groups, weights: Array | None) -> Array:
    return _torch_function().apply(kernel, groups, weights, len(kernel.left), *kernel.left, *kernel.right)


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
                        found = torch.autograd.grad(exponents, parts, upstream, allow_unused=True)
                        for total, spot, part in zip(gradients, spots, found, strict=True):
                            if part is not None:
                                total[spot] += part
            return (None, None, weight_gradient, None, *gradients)

    return LogRowSums


def _row_tiles(kernel: LogKernel, groups: Groups) -> list[slice]:
    height = max(16, 1024 // kernel.floats_per_pair)
    return [slice(i, min(i + height, groups.n)) for i in range(0, groups.n, height)]


def _column_tiles(kernel: LogKernel, span: slice, rows: slice) -> list[slice]:
    width = max(16, _TILE_FLOATS // ((rows.stop - rows.start) * kernel.floats_per_pair))
    return [slice(i, min(i + width, span.stop)) for i in range(span.start, span.stop, width)]


def _running_logsumexp(
    torch: Any, kernel: LogKernel, left: Rows, right: Rows, rows: slice, span: slice, weights: Array | None
) -> Array:
    """Log row sums over a span of columns, tile by tile."""
    own = tuple(a[rows] for a in left)
    parts = []
    for columns in _column_tiles(kernel, span, rows):
        exponents = kernel.evaluate(own, tuple(a[columns] for a in right))
        if weights is not None:
            exponents = exponents + weights[columns]
        parts.append(torch.logsumexp(exponents, dim=1))
    return torch.logsumexp(torch.stack(parts, dim=1), dim=1)
