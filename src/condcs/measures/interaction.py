r"""The interaction matrix and its contrasts: the one idea that carries every Gram-based divergence.

With A = K W and B = (K * L) W (row sums over the groups' members),

.. math:: T_{gh} = \sum_j W_{jg} \frac{B_{jh}}{A_{jg} A_{jh}} \quad\text{(conditional)}, \qquad
          T_{gh} = w_g' L w_h \quad\text{(marginal)},

all in logarithms. A contrast turns T into divergences between all pairs of groups at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs.core.arrays import Array, Backend, log_weights, logsumexp
from condcs.core.errors import OverlapError, OverlapWarning, warn_caller
from condcs.core.groups import Groups
from condcs.kernels.log_kernels import LogKernel, product
from condcs.kernels.mass_ratios import log_mass_ratios
from condcs.kernels.row_sums import log_row_sums


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


def conditional_interaction(masses: RowMasses) -> Array:
    """Log T of Prop. 2: row g holds the sums over the members of group g."""
    backend, groups = masses.backend, masses.groups
    rows = []
    for g, span in enumerate(groups.slices):
        terms = masses.log_ratio[span] - masses.log_a[span, g : g + 1]
        rows.append(logsumexp(backend, weighted_terms(backend, groups, span, terms), axis=0))
    return _checked_overlap(backend, _stack(backend, rows))


def pooled_interaction(masses: RowMasses, g: int, h: int) -> Array:
    r"""Log T of two groups with all integrals estimated over both samples: never a negative divergence.

    .. math:: T_{gh} = \sum_j (W_{jg} + W_{jh}) \frac{f_{jg} f_{jh}}{B_{jg} + B_{jh}}, \qquad f = B / A,

    which is a weighted inner product of f_g and f_h, so that the Cauchy-Schwarz inequality holds exactly.
    """
    backend, groups = masses.backend, masses.groups
    concat = backend.concat
    spans = [groups.slices[g], groups.slices[h]]
    log_b, log_ratio = (concat([table[s] for s in spans]) for table in (masses.log_b, masses.log_ratio))
    log_r = logsumexp(backend, _stack(backend, [log_b[:, g], log_b[:, h]]), axis=0)
    ratio = {k: log_ratio[:, k] for k in (g, h)}
    rows = []
    for a in (g, h):
        row = []
        for b in (g, h):
            terms = (ratio[a] + ratio[b] - log_r)[:, None]
            parts = [terms[: groups.sizes[g]], terms[groups.sizes[g] :]]
            weighted = [weighted_terms(backend, groups, s, p) for s, p in zip(spans, parts, strict=True)]
            row.append(logsumexp(backend, concat(weighted), axis=0)[0])
        rows.append(_stack(backend, row))
    return _checked_overlap(backend, _stack(backend, rows))


def marginal_interaction(kernel: LogKernel, groups: Groups) -> Array:
    """Log of the mean kernel value between every two groups (weighted means, diagonal included)."""
    # Diagonal kept: without it the Cauchy-Schwarz inequality no longer holds and D can go negative.
    backend = kernel.backend
    (log_sums,) = log_row_sums([kernel], groups)
    log_total = log_totals(backend, groups, log_sums)
    rows = [
        logsumexp(backend, weighted_terms(backend, groups, span, log_sums[span]), axis=0) - log_total - log_total[g]
        for g, span in enumerate(groups.slices)
    ]
    return _checked_overlap(backend, _stack(backend, rows))


def log_totals(backend: Backend, groups: Groups, like: Array) -> Array:
    """Log of the total weight of each group."""
    xp = backend.xp
    if groups.weights is None:
        return backend.from_numpy(np.log(groups.sizes), like)
    return _stack(backend, [xp.log(xp.sum(groups.weights[s])) for s in groups.slices])


def log_contrast(log_t: Array) -> Array:
    """D[g,h] = log T[g,g] + log T[h,h] - log T[g,h] - log T[h,g], for all pairs."""
    return linear_contrast(log_t)


def linear_contrast(t: Array) -> Array:
    """D[g,h] = T[g,g] + T[h,h] - T[g,h] - T[h,g], for all pairs."""
    own = t.diagonal()
    return own[:, None] + own[None, :] - t - t.T


def _stack(backend: Backend, arrays: list[Any]) -> Array:
    return backend.xp.stack(arrays)


def weighted_terms(backend: Backend, groups: Groups, span: slice, terms: Array) -> Array:
    """Add the log weights of the rows in `span` to their terms."""
    return terms if groups.weights is None else log_weights(backend, groups.weights[span])[:, None] + terms


def _without_absent_rows(backend: Backend, groups: Groups, log_a: Array, log_b: Array) -> tuple[Array, Array]:
    """Rows with no mass in a group (an absent category) add 0 to the terms with that group, and are counted."""
    xp = backend.xp
    absent = backend.detach(log_a) == -xp.inf
    if backend.is_traced(absent) or bool(xp.any(absent)):
        if not backend.is_traced(absent):
            rows = xp.any(absent, axis=1)
            if groups.weights is not None:
                rows = rows & (groups.weights > 0)
            if (count := int(rows.sum())) > 0:
                warn_caller(
                    f"{count} of {groups.n} rows have an x that does not occur in some other sample; they add "
                    "nothing to the comparison with it.",
                    OverlapWarning,
                )
        log_a = xp.where(absent, xp.zeros_like(log_a), log_a)
        log_b = xp.where(absent, -xp.inf * xp.ones_like(log_b), log_b)
    return log_a, log_b


def _checked_overlap(backend: Backend, log_t: Array) -> Array:
    if not backend.is_traced(log_t) and bool((backend.detach(log_t) == -backend.xp.inf).any()):
        raise OverlapError(
            "the samples must overlap: no row of one has any kernel similarity to the other, so there is nothing to "
            "compare. "
            'Check that both use the same categories, or use a kernel without compact support, e.g. "gaussian".'
        )
    return log_t
