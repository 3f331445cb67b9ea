r"""The ratio of two kernel masses, :math:`B_{jh} / A_{jh}`, also where a row is far from a group.

:math:`B / A` is an average of the kernel on y with weights from the kernel on x. A row R bandwidths from a group has
exponents of about :math:`-R^2 / 2` there: in double precision, from R = 1e7 on nothing is left of the exponents of y
that are added to them, nor of the differences among them, which decide the weights. Those differences are all that
matters, so they are found without the exponents: relative to the row of the group that is nearest, as differences of
squares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condcs.core.arrays import Array, Backend, log_weights, logsumexp
from condcs.core.groups import Groups
from condcs.kernels.log_kernels import EXACT_EXPONENT, LogKernel, Rows

_BLOCK_FLOATS = 2**20


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
            ratios = backend.replaced(ratios, (chosen, g), _ratio_of_rows(kernel_x, kernel_y, groups, chosen, span))
    return ratios


def _ratio_of_rows(kernel_x: LogKernel, kernel_y: LogKernel, groups: Groups, rows: Any, span: slice) -> Array:
    """Return log(B / A) of some rows in the group at `span`."""
    parts = [tuple(a[rows] for a in k.left) for k in (kernel_x, kernel_y)]
    ratio = _recomputed(kernel_x.backend, lambda *left: _ratio(kernel_x, kernel_y, groups, left[0], left[1], span))
    return ratio(*parts)


def _ratio(kernel_x: LogKernel, kernel_y: LogKernel, groups: Groups, left: Rows, left_y: Rows, span: slice) -> Array:
    backend, xp = kernel_x.backend, kernel_x.backend.xp
    right = tuple(a[span] for a in kernel_x.right)
    weights = 0.0 if groups.weights is None else log_weights(backend, groups.weights[span])
    relative = kernel_x.evaluate(left, right)
    # Rounding may hide which row is the nearest at first; relative to one of the near rows it is plain to see.
    for _ in range(2):
        relative = kernel_x.relative(left, right, xp.argmax(backend.detach(relative + weights), axis=1))
    relative = relative + weights
    with_y = relative + kernel_y.evaluate(left_y, tuple(a[span] for a in kernel_y.right))
    return logsumexp(backend, with_y, axis=1) - logsumexp(backend, relative, axis=1)


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
            def one_row(left: tuple[Rows, Rows], span: slice = span) -> Array:
                parts = [tuple(a[None] for a in rows) for rows in left]
                return _ratio(kernel_x, kernel_y, groups, parts[0], parts[1], span)[0]

            step = max(1, _BLOCK_FLOATS // (span.stop - span.start))
            columns.append(jax.lax.map(one_row, (kernel_x.left, kernel_y.left), batch_size=step))
        return jax.numpy.where(far, jax.numpy.stack(columns, axis=1), ratios)

    return jax.lax.cond(far.any(), mended, lambda ratios: ratios, ratios)
