"""Rows of two tables whose labels occur together in one table only: what is said of them, and what can be left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.errors import OverlapError
from condcs._core.printable import counted, listed
from condcs._core.vocabulary import named, setting
from condcs._inference.label_overlap import LabelOverlap, label_overlap
from condcs._tables.kinds import Column
from condcs._tables.pair import Pair

_MOST_RISK = 1e-5
"""Probability that a redraw of labels, or of rows, leaves no combination that both tables have; a comparison makes some
hundreds of redraws, and one of them without an answer would end it."""
_LEAST_MATCHED = 0.9
"""Share of the rows that have a counterpart with the inputs that the remedy proposes, at least: nearly all."""
_MOST_UNMATCHED = 0.5
"""Share of the rows without a counterpart above which a note proposes other inputs: below, the answer is about most of
the rows, and the note says how many are left out."""
_MOST_NAMED = 12
"""Columns that are named at most: a message with all of a hundred is not read."""


def label_overlap_of(pair: Pair, columns: Sequence[int] | None = None) -> LabelOverlap:
    """Count the combinations of labels of both tables; of all inputs, or of those with these indices."""
    used = list(range(len(pair.x)) if columns is None else columns)
    x = np.concatenate([pair.xp[:, used], pair.xq[:, used]])  # (n, d)
    samples = np.repeat([0, 1], [len(pair.xp), len(pair.xq)])  # (n,)
    return label_overlap(x, [pair.x[j].is_category for j in used], samples, 2)


def check_labels_meet(pair: Pair) -> None:
    """Raise an error, with a remedy, if hardly any row has the labels of a row of the other table."""
    if not any(column.is_category for column in pair.x):
        return
    overlap = label_overlap_of(pair)
    if _risk(overlap) <= _MOST_RISK:
        return
    labels = [pair.x[j] for j in overlap.columns]
    rows, matched = len(overlap.matched), int(overlap.matched.sum())
    shown = listed([f"{column.name} ({counted(len(column.labels), 'label')})" for column in labels], _MOST_NAMED)
    split = f"the {len(labels)} inputs with labels split" if len(labels) > 1 else "the input with labels splits"
    few = f"only {matched:,} of them have" if matched else "none of them has"
    raise OverlapError(
        f"{split} {rows:,} rows into {counted(len(overlap.counts), 'combination')} of labels, so that {few} the labels "
        f"of a row of the other table: {shown}. {_remedy(pair, overlap)}"
    )


def _risk(overlap: LabelOverlap) -> float:
    """Return the larger probability that nothing is left to compare: of redrawn labels, or of redrawn rows."""
    first, second = overlap.counts.T
    pooled = first + second
    # A combination of m rows falls to one table alone if m - 1 labels follow the first, with a probability of a half.
    labels = -float((pooled - 1).sum()) * np.log(2)
    # Rows that are drawn with replacement leave out all m of a combination with a probability of about exp(-m).
    in_both = (1 - np.exp(-first)) * (1 - np.exp(-second))
    # 1 less 1e-16 is the largest number below 1: the logarithm of 0 is minus infinity.
    rows = float(np.log1p(-np.minimum(in_both, 1 - 1e-16)).sum())
    return float(np.exp(max(labels, rows)))  # both are logarithms


def _remedy(pair: Pair, overlap: LabelOverlap) -> str:
    """Name the inputs that leave nearly all rows with a counterpart."""
    dropped = _columns_to_leave_out(pair, overlap)
    remaining = [j for j, column in enumerate(pair.x) if _source(column) not in dropped]
    if not remaining:
        return f"Pass other columns as {named('x')}, with fewer labels."
    matched = int(label_overlap_of(pair, remaining).matched.sum())
    names = ",".join(dict.fromkeys(_source(pair.x[j]) for j in remaining))
    return (
        f"Compare fewer inputs: with {setting('x', names)} {matched:,} of {len(overlap.matched):,} rows have a "
        "counterpart in the other table."
    )


def _columns_to_leave_out(pair: Pair, overlap: LabelOverlap) -> set[str]:
    """Return columns to leave out: labels are taken in from the coarsest on, as long as nearly all rows meet."""
    x = np.concatenate([pair.xp, pair.xq])
    chosen: list[int] = []
    dropped: set[str] = set()
    for j in sorted(overlap.columns, key=lambda j: _effective_number(x[:, j])):
        if label_overlap_of(pair, [*chosen, j]).matched.mean() >= _LEAST_MATCHED:
            chosen.append(j)
        else:
            # With the column of the table goes everything that is made of it.
            dropped.add(_source(pair.x[j]))
            chosen = [other for other in chosen if _source(pair.x[other]) not in dropped]
    return dropped


def _effective_number(codes: FloatArray) -> float:
    """Return how many labels of equal frequency would split rows as finely: the exponential of the entropy."""
    shares = np.unique(codes, return_counts=True)[1] / len(codes)
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _source(column: Column) -> str:
    """Return the column of the table that an input is made of."""
    return column.source or column.name


def label_notes(pair: Pair) -> tuple[str, ...]:
    """Say how many rows have no counterpart by their labels, and name the columns."""
    overlap = label_overlap_of(pair)
    if overlap.matched.all():
        return ()
    rows, unmatched = len(overlap.matched), overlap.unmatched
    labels = [pair.x[j].name for j in overlap.columns]
    alone = [
        f"{pair.x[j].name} ({counted(count, 'row')})"
        for j, count in zip(overlap.columns, overlap.unmatched_by_column, strict=True)
        if count
    ]
    some, all_labels = f"In {unmatched:,} of {counted(rows, 'row')}", listed(labels, _MOST_NAMED)
    if len(labels) == 1:
        words = f"{some} {labels[0]} has a label that the other table does not have."
    elif alone:
        words = (
            f"{some} the combination of labels of {all_labels} does not occur in the other table, among "
            f"them rows with a label that it does not have at all: {listed(alone, _MOST_NAMED)}."
        )
    else:
        words = (
            f"{some} the combination of labels of {all_labels} does not occur in the other table, though "
            "each label by itself does."
        )
    words += " The divergence leaves such rows out; the other views of the test take each column by itself."
    return (f"{words} {_remedy(pair, overlap)}" if unmatched > _MOST_UNMATCHED * rows else words,)
