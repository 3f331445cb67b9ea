"""Distances between the dynamics of time series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condcs.core.checks import check_integer, check_positive
from condcs.core.errors import BandwidthError, BandwidthWarning, public, warn_caller
from condcs.core.settings import current_settings
from condcs.kernels.bandwidths import MEDIAN_ROWS
from condcs.kernels.bandwidths import bandwidth as bandwidth_of
from condcs.timeseries.collection import Collection, FloatArray, check_collection, check_same_channels, check_series
from condcs.timeseries.embedding import check_windows, embed_frames

Widths = tuple[float, float]


@public
def ccs_distance(
    x: Any,
    y: Any,
    *,
    order: int,
    bandwidth: str | float | Sequence[float] = "pair-median",
    factor: float = 1.0,
    layout: str = "nct",
    missing: str = "error",
) -> float:
    """Conditional Cauchy-Schwarz divergence between the dynamics of two series."""
    p, q = check_series("x", x, layout, missing), check_series("y", y, layout, missing)
    check_same_channels("x", p, "y", q, layout)
    return float(_pairwise(("x", p), ("y", q), order, bandwidth, factor, 1)[0, 0])


@public
def ccs_pairwise_distance(
    X: Any,
    Y: Any = None,
    *,
    order: int,
    bandwidth: str | float | Sequence[float] = "pair-median",
    factor: float = 1.0,
    layout: str = "nct",
    missing: str = "error",
    n_jobs: int | None = None,
) -> FloatArray:
    """Conditional Cauchy-Schwarz divergences between the dynamics of all pairs of series."""
    a = check_collection("X", X, layout, missing)
    if Y is None:
        return _pairwise(("X", a), None, order, bandwidth, factor, n_jobs)
    b = check_collection("Y", Y, layout, missing)
    check_same_channels("X", a, "Y", b, layout)
    return _pairwise(("X", a), ("Y", b), order, bandwidth, factor, n_jobs)


def _pairwise(
    first: tuple[str, Collection],
    second: tuple[str, Collection] | None,
    order: int,
    bandwidth: str | float | Sequence[float],
    factor: float,
    n_jobs: int | None,
) -> FloatArray:
    from joblib import Parallel, delayed

    order = check_integer("order", order, 1)
    factor = check_positive("factor", factor)
    sides = [first] if second is None else [first, second]
    windows = [check_windows(name, c, order) for name, c in sides]
    widths = _widths(bandwidth, [c for _, c in sides], windows, order)
    a, b = sides[0][1], sides[-1][1]
    a_windows, b_windows = windows[0], windows[-1]
    out = np.zeros((a.count, b.count))
    step = 16
    n_jobs = current_settings().n_threads if n_jobs is None else n_jobs
    tasks = [(i, j) for i in range(0, a.count, step) for j in range(i if second is None else 0, b.count, step)]

    def work(i: int, j: int) -> FloatArray:
        return _block(
            a.part(i, min(i + step, a.count)),
            a_windows[i : i + step],
            b.part(j, min(j + step, b.count)),
            b_windows[j : j + step],
            order,
            second is None and i == j,
            widths,
            factor,
            out[i : i + step, j : j + step],
        )

    fallbacks = sum(Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")(delayed(work)(*t) for t in tasks))
    if np.any(fallbacks):
        warn_caller(
            f"the median distance was 0 in {int(max(fallbacks))} or more of the pairs of series.", BandwidthWarning
        )
    if second is None:
        out = np.triu(out, 1)
        out += out.T
    return out


def _block(
    a: Collection,
    a_windows: list[FloatArray],
    b: Collection,
    b_windows: list[FloatArray],
    order: int,
    above_diagonal: bool,
    widths: Widths | None,
    factor: float,
    out: FloatArray,
) -> Any:
    from condcs.timeseries.engine import block_divergences

    def packed(c: Collection, windows: list[FloatArray]) -> tuple[FloatArray, ...]:
        return (
            c.frames,
            c.starts,
            np.einsum("ij,ij->i", c.frames, c.frames),
            np.concatenate(windows),
            np.cumsum([0] + [len(w) for w in windows]),
        )

    x, y = widths or (0.0, 0.0)
    block = np.zeros(out.shape)
    fallbacks = block_divergences(
        *packed(a, a_windows), *packed(b, b_windows), order, above_diagonal, x, y, factor, True, WIDE, 8, block
    )
    out[...] = block
    return fallbacks


WIDE = False


def _widths(
    bandwidth: Any, collections: list[Collection], windows: list[list[FloatArray]], order: int
) -> Widths | None:
    """Return the widths on x and y for all pairs; None if each pair has its own."""
    if isinstance(bandwidth, str):
        if bandwidth == "pair-median":
            return None
        if bandwidth == "pooled-median":
            return _pooled_medians(collections, windows, order)
        raise BandwidthError(
            '`bandwidth` must be "pair-median", "pooled-median", a positive number or two of them (x, y), got '
            f'{bandwidth!r}. Pass e.g. bandwidth="pair-median".'
        )
    try:
        given = np.asarray(bandwidth, np.float64)
    except (TypeError, ValueError):
        given = np.array([np.nan])
    if given.shape not in ((), (2,)) or not np.all(np.isfinite(given)) or not np.all(given > 0):
        raise BandwidthError(
            '`bandwidth` must be "pair-median", "pooled-median", a positive number or two of them (x, y), got '
            f'{bandwidth!r}. Pass e.g. bandwidth="pair-median".'
        )
    wx, wy = np.broadcast_to(given, (2,)).tolist()
    return wx, wy


def _pooled_medians(collections: list[Collection], windows: list[list[FloatArray]], order: int) -> Widths:
    owners = [(c, i, len(w)) for c, ws in zip(collections, windows, strict=True) for i, w in enumerate(ws)]
    counts = np.array([n for _, _, n in owners])
    total, ends = int(counts.sum()), np.cumsum(counts)
    rows = np.arange(total)
    if total > MEDIAN_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(total, MEDIAN_ROWS, replace=False))
    flat = [w for ws in windows for w in ws]
    parts = []
    for k in np.unique(np.searchsorted(ends, rows, side="right")):
        c, i, n = owners[k]
        own = rows[(rows >= ends[k] - n) & (rows < ends[k])] - (ends[k] - n)
        parts.append(embed_frames(c.series(i), flat[k][own], order))
    x, y = (np.concatenate([p[s] for p in parts]) for s in (0, 1))
    return float(bandwidth_of(x)), float(bandwidth_of(y))
