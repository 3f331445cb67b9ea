"""What the detector does with rows of the stream, in one compiled loop: `watch_rows`, the algorithm.

Its rows are those that can be used: numbers, and labels as codes. Each step is a function of another module: `_scores`
scores a row, `_cells` says where over x it is, `_betting` ranks the score there and bets on the rank. The loop does not
know what an alarm says, or what follows it. A new step belongs here; what is fixed until the next reference goes into
`Plan`, and what rows change into `Sums` or `KeptRows`.
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
        unnamed: tuple[Any, ...] = _without_names(self)
        return unnamed


def _without_names(value: Any) -> Any:
    """Return named tuples, and those within them, as plain ones."""
    return tuple(map(_without_names, value)) if isinstance(value, tuple) else value


@inner(inline="always")
def _named(unnamed: Any) -> Any:
    """Undo `Plan.unnamed`."""
    n_labels, scores, regions, cells, geometry, bets, key = unnamed
    means, spreads, correlations = scores[:3]  # the fields of `ScoreArrays` that are regressions come first
    score_arrays = ScoreArrays(Regression(*means), Regression(*spreads), Regression(*correlations), *scores[3:])
    return Plan(
        n_labels, score_arrays, RegionArrays(*regions), CellTree(*cells), CellGeometry(*geometry), Bets(*bets), key
    )


COURSE_SCORE, COURSE_VALUE = 0, 1
"""Columns of the course of a stream, as `watch_rows` returns it."""


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
    residuals of the t targets in the rows before these, and `n_earlier` is how many rows have been put into the
    `rings`. Return how many rows were taken in and how many of them watched, whether there was an alarm, the course
    (n_taken, 2): the first score of each row and the largest value of a family after it; and the history of the next
    one. A single call, because each costs as much as the work on several rows.
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
    n_taken, n_watched, alarm = 0, 0, False
    course = np.empty((len(x), 2))
    largest_value = sums.values.max()
    for i in range(len(x)):
        n_taken += 1
        course[i, COURSE_SCORE], course[i, COURSE_VALUE] = np.nan, largest_value
        if not is_near[i]:
            continue
        # 4. Rank the scores in their cells and bet on the ranks; what the row says is kept for an alarm to explain.
        slot = (n_earlier + n_watched) % KEPT_ROWS
        largest_value = bet_on_row(batch, i, plan.geometry, plan.bets, plan.key, sums, rings.outcomes[slot])
        rings.numbers[slot] = numbers[i]
        _copy(x[i], rings.x[slot])
        _copy(y[i], rings.y[slot])
        course[i, COURSE_SCORE], course[i, COURSE_VALUE] = scores[i, 0], largest_value
        n_watched += 1
        # 5. A large enough value of a family is an alarm.
        if largest_value >= alarm_value:
            alarm = True
            break
    return n_taken, n_watched, alarm, course[:n_taken], residuals[n_taken : n_taken + len(history)].copy()


@inner()
def _copy(values: Any, into: Any) -> None:
    # Compiling the assignment of a row of an array takes seconds, most of them for the words of an error.
    for c in range(len(values)):
        into[c] = values[c]
