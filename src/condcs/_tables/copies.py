"""Rows of a table that repeat other rows exactly, where chance does not explain that.

In a table of few labels equal rows are to be expected. There are three signs of copies; chance makes the last two once
in a million tables:

- Some column of many values tells nearly all different rows apart, and rows are equal all the same.
- Nearly all different rows occur a multiple of 2 (or 3, ...) times. The number of independent rows with some values is
  close to a Poisson variable X of mean m, for which P(X even | X > 0) = (1 - exp(-m)) / 2: below a half, whatever m is.
- A block of rows is repeated in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from condcs._core.arrays import FloatArray, IntArray

_FEWEST_COPIES = 0.05
"""Part of a table's rows that must repeat others for a word on them; with fewer of them p-values hardly change."""
_NEARLY_ALL_DIFFERENT = 0.9
"""Of the different rows, so many values of one column make equal rows a surprise."""
_CHANCE = 1e-6
"""Probability of what is taken for copies in a table without any."""
_MOST_TIMES = 10
"""Times that each row may occur for all to be noticed as copies: where all occur more often, values are few."""
_SHORTEST_BLOCK = 0.1
"""Part of a table's rows in a block that is repeated: shorter ones occur in series of few values, such as in two
seasons."""
_SNIPPET = 4
"""Rows in a row that are sought elsewhere in the table. Fewer would be found in many places of a coarse table."""
_MOST_DISTANCES = 5
"""Distances between a block and its copy that are looked at: those at which most snippets are repeated."""
_COMPARED_DISTANCES = 30
"""Other distances by which it is judged how often rows agree that are no copies. Rows of a design, which are repeated
at every multiple of its length, agree at many of these as well."""


def count_copies(columns: Sequence[FloatArray]) -> int:
    """Count rows that repeat others, 0 if they are few or if chance explains them. Cost O(n log n)."""
    n, most_values = len(columns[0]), 0
    for column in columns:
        most_values = max(most_values, len(np.unique(column)))
        if most_values == n:
            return 0
    # By their bytes: gaps are then equal to one another.
    rows = np.column_stack(columns)
    as_bytes = np.ascontiguousarray(rows).view(f"V{rows.itemsize * rows.shape[1]}").reshape(-1)
    _, kinds, times = np.unique(as_bytes, return_inverse=True, return_counts=True)
    least = _FEWEST_COPIES * n
    if n - len(times) < least:
        return 0
    if most_values >= _NEARLY_ALL_DIFFERENT * len(times) and len(times) * _MOST_TIMES >= n:
        return n - len(times)
    by_times, in_block = _copies_by_times(times), _copies_in_blocks(kinds.reshape(-1))
    if in_block < _SHORTEST_BLOCK * n:
        in_block = 0
    copies = max(by_times, in_block)
    return copies if copies >= least else 0


def _copies_by_times(times: IntArray) -> int:
    """Count copies where nearly all different rows occur (k,) a multiple of 2, 3, ... times."""
    from scipy.stats import binom

    copies = [0]
    for factor in range(2, _MOST_TIMES + 1):
        multiples = int((times % factor == 0).sum())
        # P(a multiple of more than 2 | X > 0) is below a half as well.
        if binom.sf(multiples - 1, len(times), 0.5) < _CHANCE:
            copies.append(int((times - np.ceil(times / factor)).sum()))
    return max(copies)


def _copies_in_blocks(kinds: IntArray) -> int:
    """Count rows, given as numbers of their kinds (n,), in the longest block that repeats another one in its order."""
    # A run of equal rows, as in a sorted table, counts as one: it is as long as the table is coarse.
    first_rows = np.flatnonzero(np.concatenate([[True], kinds[1:] != kinds[:-1]]))
    row_counts = np.diff(np.append(first_rows, len(kinds)))  # (runs,)
    runs = np.unique(np.column_stack([kinds[first_rows], row_counts]), axis=0, return_inverse=True)[1].reshape(-1)
    if len(runs) < 2 * _SNIPPET:
        return 0
    # 1. Distances between a snippet and the next one that is equal.
    snippets = np.lib.stride_tricks.sliding_window_view(runs, _SNIPPET)  # (snippets, rows of one)
    numbers = np.unique(snippets, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(numbers, kind="stable")
    is_repeated = np.diff(numbers[order]) == 0
    distances, counts = np.unique(np.diff(order)[is_repeated], return_counts=True)
    if not len(distances):
        return 0
    by_count = np.argsort(-counts, kind="stable")
    copies = 0
    for distance in distances[by_count[:_MOST_DISTANCES]]:
        # 2. The longest block that agrees at this distance.
        agree = runs[distance:] == runs[:-distance]
        ends = np.flatnonzero(np.diff(np.concatenate([[0], agree.astype(np.int8), [0]])))
        starts, stops = ends[::2], ends[1::2]
        longest = int((stops - starts).argmax())
        length = int(stops[longest] - starts[longest])
        # 3. How often rows agree at other distances, which chance and the order of the table explain.
        others = np.concatenate([np.arange(1, 1 + _COMPARED_DISTANCES), distances[by_count[:_COMPARED_DISTANCES]]])
        others = others[(others != distance) & (others < len(runs) - _SNIPPET)]
        agreeing = max((float((runs[other:] == runs[:-other]).mean()) for other in others), default=0.0)
        # So many blocks of this length would agree by chance: one may start anywhere, at any distance.
        by_chance = 2 * np.log(len(runs)) + length * np.log(max(agreeing, 1 / len(runs)))
        if by_chance < np.log(_CHANCE):
            copies = max(copies, int(row_counts[starts[longest] : stops[longest]].sum()))
    return copies
