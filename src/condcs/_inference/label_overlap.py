"""Which labels in x occur in every sample, and which combinations of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condcs._core.arrays import BoolArray, IntArray, RealArray
from condcs._kernels.label_similarities import combination_of_row


@dataclass(frozen=True, eq=False)
class LabelOverlap:
    """The labels of x, and which samples they occur in.

    Attributes
    ----------
    columns : tuple of int
        The columns of x that hold labels.
    matched : array, shape (n,)
        Which rows have a combination of labels that occurs in every sample.
    matched_in_columns : array, shape (n, len(columns))
        Which rows have a label, in each of these columns by itself, that occurs in every sample.
    columns_apart : tuple of int
        The columns in which two samples have no label in common.
    """

    columns: tuple[int, ...]
    matched: BoolArray
    matched_in_columns: BoolArray
    columns_apart: tuple[int, ...]

    @property
    def matched_by_column(self) -> BoolArray:
        """Which rows have labels that each occur in every sample, if not in this combination (n,)."""
        return np.asarray(self.matched_in_columns.all(axis=1))

    @property
    def unmatched_by_column(self) -> tuple[int, ...]:
        """For each of `columns`, how many rows have a label in it that some sample does not have."""
        return tuple((~self.matched_in_columns).sum(axis=0).tolist())

    @property
    def columns_alone(self) -> tuple[int, ...]:
        """The columns with a label that some sample does not have."""
        return tuple(c for c, rows in zip(self.columns, self.unmatched_by_column, strict=True) if rows)


def label_overlap(x: RealArray, is_category: Sequence[bool], sample_of_row: IntArray, n_samples: int) -> LabelOverlap:
    """Find the labels in x (n x d) that occur in every sample; labels are in the columns with `is_category`."""
    columns = tuple(np.flatnonzero(is_category).tolist())
    matched = _occurs_in_every(_samples_of_combinations(x[:, columns], sample_of_row, n_samples))
    matched_in_columns = np.ones((len(x), len(columns)), bool)
    columns_apart = []
    for column_index, column in enumerate(columns):
        occurrence = _samples_of_combinations(x[:, [column]], sample_of_row, n_samples)
        matched_in_columns[:, column_index] = _occurs_in_every(occurrence)
        in_sample = occurrence[0].astype(np.int64)  # (labels, G)
        common_labels = in_sample.T @ in_sample  # (G, G)
        if not common_labels.all():
            columns_apart.append(column)
    return LabelOverlap(columns, matched, matched_in_columns, tuple(columns_apart))


def has_labels_of_every_sample(
    points: RealArray, x: RealArray, is_category: Sequence[bool], sample_of_row: IntArray, n_samples: int
) -> BoolArray:
    """Return which points (r x d) have labels that each occur in every sample of x (n x d)."""
    has_all = np.ones(len(points), bool)
    for column in np.flatnonzero(is_category):
        in_samples = [x[sample_of_row == sample, column] for sample in range(n_samples)]
        for labels in in_samples:
            has_all &= np.isin(points[:, column], labels)
    return has_all


def _samples_of_combinations(labels: RealArray, sample_of_row: IntArray, n_samples: int) -> tuple[BoolArray, IntArray]:
    """Return which samples each combination of labels (n x columns) occurs in (k x G), and that of each row (n,)."""
    combinations = combination_of_row(labels)  # (n,)
    occurs = np.zeros((int(combinations.max()) + 1, n_samples), bool)
    occurs[combinations, sample_of_row] = True
    return occurs, combinations


def _occurs_in_every(occurrence: tuple[BoolArray, IntArray]) -> BoolArray:
    """Return which rows have a combination that occurs in every sample (n,)."""
    occurs, combinations = occurrence
    in_every = np.asarray(occurs.all(axis=1))  # (k,)
    return np.asarray(in_every[combinations])
