"""Which combinations of the labels in x occur in every sample: kernels on labels compare the rows with these only."""

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
        For each of `columns`, how many rows have a label in this column that does not occur in every sample.
    """

    columns: tuple[int, ...]
    counts: IntArray
    matched: BoolArray
    unmatched_by_column: tuple[int, ...]

    @property
    def unmatched(self) -> int:
        """How many rows have a combination that some sample does not have."""
        return int((~self.matched).sum())

    @property
    def columns_alone(self) -> tuple[int, ...]:
        """The columns with a label that some sample does not have; elsewhere only combinations are lacking."""
        return tuple(c for c, rows in zip(self.columns, self.unmatched_by_column, strict=True) if rows)


def label_overlap(x: RealArray, is_category: Sequence[bool], sample_of_row: IntArray, n_samples: int) -> LabelOverlap:
    """Count the combinations of the labels in x (n x d) by sample; labels are in the columns with `is_category`."""
    columns = tuple(np.flatnonzero(is_category).tolist())
    counts, matched = _count_and_match(x[:, columns], sample_of_row, n_samples)
    unmatched_by_column = []
    for column in columns:
        _, matched_in_column = _count_and_match(x[:, [column]], sample_of_row, n_samples)
        unmatched_by_column.append(int((~matched_in_column).sum()))
    return LabelOverlap(columns, counts, matched, tuple(unmatched_by_column))


def _count_and_match(labels: RealArray, sample_of_row: IntArray, n_samples: int) -> tuple[IntArray, BoolArray]:
    """Return how many rows of each sample have each combination of labels (k x G), and which have a common one (n,).

    Labels are (n x columns); a combination is common if it occurs in every sample.
    """
    rows = np.ascontiguousarray(labels, np.float64) + 0.0  # no negative zeros
    n, n_columns = rows.shape
    # Rows are compared by their bytes: sorting them column by column takes several times as long.
    keys = rows.view(f"V{rows.itemsize * n_columns}").reshape(-1) if n_columns else np.zeros(n)
    combination_of_row = np.unique(keys, return_inverse=True)[1].reshape(-1)  # (n,)
    n_combinations = int(combination_of_row.max()) + 1
    cells = combination_of_row * n_samples + sample_of_row
    counts = np.bincount(cells, minlength=n_combinations * n_samples).reshape(-1, n_samples)
    is_common = np.all(counts > 0, axis=1)  # (k,)
    return counts, np.asarray(is_common[combination_of_row])
