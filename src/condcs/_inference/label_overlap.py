"""Which combinations of labels, as x, occur in every sample: kernels on labels compare the rows with these only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condcs._core.arrays import BoolArray, IntArray, RealArray


@dataclass(frozen=True, eq=False)
class LabelOverlap:
    """The combinations of labels of x, and in which samples they occur.

    Attributes
    ----------
    columns : tuple of int
        The columns of x that hold labels.
    counts : array, shape (k, G)
        Rows of each combination in each sample.
    matched : array, shape (n,)
        Which rows have a combination that occurs in every sample.
    unmatched_by_column : tuple of int
        For each of `columns`, the rows whose label in this column alone does not occur in every sample.
    """

    columns: tuple[int, ...]
    counts: IntArray
    matched: BoolArray
    unmatched_by_column: tuple[int, ...]

    @property
    def unmatched(self) -> int:
        """Rows with a combination that some sample does not have."""
        return int((~self.matched).sum())

    @property
    def columns_alone(self) -> tuple[int, ...]:
        """The columns with a label that some sample does not have; elsewhere only combinations are lacking."""
        return tuple(c for c, rows in zip(self.columns, self.unmatched_by_column, strict=True) if rows)


def label_overlap(x: RealArray, categorical: Sequence[bool], samples: IntArray, count: int) -> LabelOverlap:
    """Count the combinations of the labels among the columns of x (n x d); `samples` (n) has the sample of each row."""
    columns = tuple(np.flatnonzero(categorical).tolist())
    counts, matched = _matched(x[:, columns], samples, count)
    alone = tuple(int((~_matched(x[:, [column]], samples, count)[1]).sum()) for column in columns)
    return LabelOverlap(columns, counts, matched, alone)


def _matched(labels: RealArray, samples: IntArray, count: int) -> tuple[IntArray, BoolArray]:
    """Return the rows of each combination by sample (k x G), and which rows have one that occurs in all (n)."""
    # By their bytes: sorting rows column by column takes several times as long.
    rows = np.ascontiguousarray(labels, np.float64) + 0.0  # no negative zeros
    keys = rows.view(f"V{max(1, rows.itemsize * rows.shape[1])}").reshape(-1) if rows.shape[1] else np.zeros(len(rows))
    kinds = np.unique(keys, return_inverse=True)[1].reshape(-1)
    counts = np.bincount(kinds * count + samples, minlength=(kinds.max() + 1) * count).reshape(-1, count)
    in_all = np.all(counts > 0, axis=1)  # (k,)
    return counts, np.asarray(in_all[kinds])
