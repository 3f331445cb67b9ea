"""Many rows: what is visited in chunks of rows, and the anchor rows that stand for all in sums over pairs.

Up to `EXACT_ROWS` pooled rows, statistics that are sums over pairs of rows visit all pairs. Above, they are sums over
pairs of an anchor row and any row. The anchors are drawn without a look at y or at labels and are the same for the data
and for every resample: they are a part of the statistic, so a test is as valid as it is with all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from condcs._core.arrays import IntArray
from condcs._core.progress import report_done
from condcs._parallel.spreading import on_threads

T = TypeVar("T")

EXACT_ROWS = 10_000
"""Pooled rows up to which all pairs of rows are visited."""

ANCHORS = 1_000
"""Anchor rows of a larger pool."""

ROWS_AT_ONCE = 2**14
"""Rows that are visited at once; more than `EXACT_ROWS`, so that smaller pools are one chunk."""


def drawn_anchors(rows: int, rng: np.random.Generator, count: int | None = None) -> IntArray | None:
    """Draw the anchors of a pool, in ascending order; None if it is small enough to visit all pairs."""
    if rows <= EXACT_ROWS:
        return None
    return np.sort(rng.choice(rows, min(count or ANCHORS, rows), replace=False))


def chunks(rows: int, size: int = ROWS_AT_ONCE) -> list[slice]:
    """Cut rows into chunks of a fixed size: what is summed over them does not depend on the number of threads."""
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def over_rows(work: Callable[[slice], T], rows: int, size: int = ROWS_AT_ONCE) -> Iterator[T]:
    """Yield what `work` makes of each chunk of rows: computed on threads, in the order of the rows."""
    parts = chunks(rows, size)
    if len(parts) == 1:
        yield work(parts[0])
        return
    yield from on_threads(work, ((part,) for part in parts))


def total(work: Callable[[slice], Any], rows: int, size: int = ROWS_AT_ONCE, *, progress: float = 0.0) -> Any:
    """Return the sum of what `work` makes of each chunk of rows.

    `progress` is what the whole sum counts for where progress is shown, in resamples: chunk by chunk, a share of it is
    reported as done.
    """
    running_total: Any = None
    for part, chunk in zip(over_rows(work, rows, size), chunks(rows, size), strict=True):
        running_total = part if running_total is None else running_total + part
        if progress:
            report_done(progress * (chunk.stop - chunk.start) / rows)
    return running_total
