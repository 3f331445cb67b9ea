"""Rows of two tables whose labels occur together in one table only: what is said of them."""

from __future__ import annotations

import numpy as np

from condcs._core.printable import counted, listed
from condcs._inference.label_overlap import LabelOverlap, label_overlap
from condcs._tables.pair import Pair

_MOST_NAMED = 12
"""Columns that are named at most: a message with all of a hundred is not read."""


def label_overlap_of(pair: Pair) -> LabelOverlap:
    """Find the labels of the inputs that both tables have."""
    x = np.concatenate([pair.xp, pair.xq])  # (n, d)
    samples = np.repeat([0, 1], [len(pair.xp), len(pair.xq)])  # (n,)
    return label_overlap(x, [column.is_category for column in pair.x], samples, 2)


def label_notes(pair: Pair) -> tuple[str, ...]:
    """Say how many rows have no counterpart by their labels, and name the columns."""
    overlap = label_overlap_of(pair)
    if overlap.matched.all():
        return ()
    rows, unmatched = len(overlap.matched), int((~overlap.matched).sum())
    labels = [pair.x[j].name for j in overlap.columns]
    alone = [
        f"{pair.x[j].name} ({counted(count, 'row')})"
        for j, count in zip(overlap.columns, overlap.unmatched_by_column, strict=True)
        if count
    ]
    some, all_labels = f"In {unmatched:,} of {counted(rows, 'row')}", listed(labels, _MOST_NAMED)
    if len(labels) == 1:
        return (
            f"{some} {labels[0]} has a label that the other table does not have. The test compares such rows with "
            "rows of other labels.",
        )
    if alone:
        words = (
            f"{some} the combination of labels of {all_labels} does not occur in the other table, among "
            f"them rows with a label that it does not have at all: {listed(alone, _MOST_NAMED)}."
        )
    else:
        words = (
            f"{some} the combination of labels of {all_labels} does not occur in the other table, though "
            "each label by itself does."
        )
    return (f"{words} The test compares such rows with rows of which only some labels differ.",)
