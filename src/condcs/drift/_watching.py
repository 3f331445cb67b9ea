"""What the detector does with rows of the stream, in one compiled loop: `watch_rows`, the algorithm.

From rows that can be used (numbers, and labels as codes) it makes evidence for a change of p(y|x), by steps that are
each a function of another module: `_scores` scores a row, `_cells` says where over x it is, `_betting` ranks the score
there and bets on the rank. It does not know what an alarm says, or what follows it. A new step belongs here; what is
fixed until the next reference goes into `Plan`, and what rows change into `Sums` or `KeptRows`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.compiling import inner, njit
from condcs.drift._betting import Bets, CellGeometry, RowBatch, bet_on_row
from condcs.drift._cells import CellTree, RegionArrays, locate_cells, locate_regions
from condcs.drift._reference_regression import Regression
from condcs.drift._scores import ScoreArrays, design_rows, near_reference, score_rows

KEPT_ROWS = 1000
"""Rows of the stream that are kept, and of the reference, for what an alarm says: it is then usually a few dozen rows
old, and a change that is older than all rows kept is said to be so (`Alarm.at_least`)."""


class Plan(NamedTuple):
    """What is fixed until the next reference."""

    n_labels: IntArray  # (d_x,), number of labels of each input, 0 for numbers
    scores: ScoreArrays
    regions: RegionArrays
    cells: CellTree
    geometry: CellGeometry
    bets: Bets
    key: np.uint64  # seed of the random numbers

    def unnamed(self) -> tuple[Any, ...]:
        """Return the same as plain tuples, which compiled functions take in a third less time than named ones."""
        regressions = map(tuple, self.scores[:3])
        parts = map(tuple, (self.scores[3:], self.regions, self.cells, self.geometry, self.bets))
        return (self.n_labels, *regressions, *parts, self.key)


@inner(inline="always")
def _named(unnamed: Any) -> Any:
    """Undo `Plan.unnamed`."""
    n_labels, means, spreads, links, scores, regions, cells, geometry, bets, key = unnamed
    score_arrays = ScoreArrays(Regression(*means), Regression(*spreads), Regression(*links), *scores)
    parts = RegionArrays(*regions), CellTree(*cells), CellGeometry(*geometry), Bets(*bets)
    return Plan(n_labels, score_arrays, *parts, key)


class KeptRows(NamedTuple):
    """The last rows that were watched, in rings or oldest first."""

    numbers: IntArray  # (n,)
    x: FloatArray  # (n, d_x)
    y: FloatArray  # (n, d_y)
    outcomes: FloatArray  # (n, s, f), what was bet on: normal scores of ranks, of labels the ranks themselves


@njit(nogil=True)
def watch_rows(
    x: Any,
    y: Any,
    numbers: Any,
    usable_numbers: Any,
    unnamed: Any,
    sums: Any,
    history: Any,
    rings: Any,
    n_earlier: int,
    alarm_value: float,
) -> Any:
    """Take in rows x (n, d_x) and y (n, d_y) until an alarm.

    `unnamed` is that of a `Plan`. `numbers` (n,) count the rows of the stream, `usable_numbers` (n,) only those that
    can be used: they choose the random numbers, so that other rows change nothing. `history` (order, t) are the
    residuals of the rows before these, and `n_earlier` is how many rows have been put into the `rings`. Return how many
    rows were taken in and how many of them watched, whether there was an alarm, the first score of each row with the
    largest value after it (taken, 2), and the history of the next one. A single call, because each costs as much as the
    work on several rows.
    """
    plan = _named(unnamed)
    # 1. Score each row: the residual of y from its regression on x in units of its spread there.
    inputs = design_rows(x, plan.n_labels)  # (n, p)
    scores, residuals = score_rows(inputs, y, history, plan.key, usable_numbers, plan.scores)  # (n, s)
    # 2. Where the reference has no rows near x, p(y|x) is unknown.
    is_near = near_reference(inputs, plan.scores.units, plan.scores.fitted, plan.scores.farthest)  # (n,)
    # 3. Locate it in each family of regions of x: its region, and the cell of the region.
    regions = locate_regions(x, plan.regions)  # (n, f)
    cells = locate_cells(inputs, regions, plan.cells)  # (n, f)
    batch = RowBatch(scores, inputs, regions, cells, usable_numbers)
    taken, watched, alarm = 0, 0, False
    course = np.empty((len(x), 2))
    largest_value = sums.values.max()
    for t in range(len(x)):
        taken += 1
        course[t, 0], course[t, 1] = np.nan, largest_value
        if not is_near[t]:
            continue
        # 4. Rank the scores in their cells and bet on the ranks; what the row says is kept for an alarm to explain.
        slot = (n_earlier + watched) % KEPT_ROWS
        largest_value = bet_on_row(batch, t, plan.geometry, plan.bets, plan.key, sums, rings.outcomes[slot])
        rings.numbers[slot] = numbers[t]
        _copy(x[t], rings.x[slot])
        _copy(y[t], rings.y[slot])
        course[t, 0], course[t, 1] = scores[t, 0], largest_value
        watched += 1
        # 5. A large enough value of a family is an alarm.
        if largest_value >= alarm_value:
            alarm = True
            break
    return taken, watched, alarm, course[:taken], residuals[taken : taken + len(history)].copy()


@inner()
def _copy(values: Any, into: Any) -> None:
    # Compiling the assignment of a row of an array takes seconds, most of them for the words of an error.
    for i in range(len(values)):
        into[i] = values[i]
