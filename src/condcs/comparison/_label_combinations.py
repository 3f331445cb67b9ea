"""Rows of two tables whose labels occur together in one table only: what is said of them, and what can be left out."""

from __future__ import annotations

import numpy as np

from condcs._core.errors import OverlapError
from condcs._core.printable import counted, listed
from condcs._core.vocabulary import named, setting
from condcs._inference.label_overlap import LabelOverlap, label_overlap
from condcs._tables.kinds import Column
from condcs._tables.pair import Pair

_MOST_NAMED = 12
"""Columns that are named at most: a message with all of a hundred is not read."""


def label_overlap_of(pair: Pair) -> LabelOverlap:
    """Find the labels of the inputs that both tables have."""
    x = np.concatenate([pair.xp, pair.xq])  # (n, d)
    samples = np.repeat([0, 1], [len(pair.xp), len(pair.xq)])  # (n,)
    return label_overlap(x, [column.is_category for column in pair.x], samples, 2)


def check_labels_meet(pair: Pair) -> None:
    """Raise an error, with a remedy, if the tables have no label of some input in common."""
    columns_apart = label_overlap_of(pair).columns_apart
    if not columns_apart:
        return
    apart = [pair.x[j] for j in columns_apart]
    shown = listed([f"{column.name} ({counted(len(column.labels), 'label')})" for column in apart], _MOST_NAMED)
    raise OverlapError(f"no label occurs in both tables in {shown}. {_remedy(pair, apart)}")


def _remedy(pair: Pair, apart: list[Column]) -> str:
    """Name the inputs that are left."""
    # With the column of the table goes everything that is made of it.
    dropped = {_source(column) for column in apart}
    names = list(dict.fromkeys(_source(column) for column in pair.x if _source(column) not in dropped))
    if not names:
        return f"Pass other columns as {named('x')}, with labels that both tables have."
    return f"Compare the other inputs, with {setting('x', ','.join(names))}, or give equal labels equal names."


def _source(column: Column) -> str:
    """Return the column of the table that an input is made of."""
    return column.source or column.name


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
