r"""Two groups that slide by one row at a time: divergences in O(rows) per step instead of O(rows^2).

Every row j keeps its kernel masses :math:`A_{jg} = \sum_{i \in g} K_{ji}` and :math:`B_{jg} = \sum_{i \in g} K_{ji}
L_{ji}` in both groups. A row that enters, leaves or changes groups changes every sum by one term, so a step costs a few
kernel rows. Rounding does not gather, but cancellation does: a sum that falls far below its peak keeps the peak's
rounding error. Such sums are found by their peaks and summed afresh; sums too small for a double are kept with a scale
of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray
from condcs._core.checks import check_choice, check_integer
from condcs._core.errors import BandwidthError, CondcsError, DataError, ParameterError, ShapeError
from condcs._core.files import State, Stateful

OLD, NEW = 0, 1
"""The two groups."""

SlidingMeasure = Literal["conditional_cs", "conditional_euclidean", "joint_mmd"]
MEASURES: tuple[SlidingMeasure, ...] = get_args(SlidingMeasure)
"""Measures that cost O(rows) once the sums are known."""

SMALLEST_GROUP = 2
"""With fewer rows in a group there is nothing to compare: the divergence is 0."""


class SlidingWindow(Stateful):
    """Rows in slots, each in one of two groups, with exact running kernel sums.

    The ground that replay buffers stand on; rows are checked by those. Gaussian kernels.

    Parameters
    ----------
    capacity : int
        Largest number of rows.
    dim_x, dim_y : int
        Columns of x and y.
    bandwidth_x, bandwidth_y : float or sequence of float
        Bandwidths of the kernels, one number or one per column; no rules, which would have to see the data first.

    Examples
    --------
    >>> import numpy as np
    >>> window = SlidingWindow(4, 1, 1, bandwidth_x=1.0, bandwidth_y=1.0)
    >>> for x, group in ((0.0, OLD), (1.0, OLD), (0.0, NEW), (1.0, NEW)):
    ...     slot = window.append(np.array([x, x]), group)
    >>> round(window.divergence("conditional_cs"), 12) + 0.0
    0.0
    """

    def __init__(self, capacity: int, dim_x: int, dim_y: int, *, bandwidth_x: Any, bandwidth_y: Any) -> None:
        from condcs._measures import sliding_loops

        self._loops = sliding_loops
        self.capacity = check_integer("capacity", capacity, 2)
        self.dim_x, self.dim_y = check_integer("dim_x", dim_x, 1), check_integer("dim_y", dim_y, 1)
        self.widths = np.concatenate(
            [check_widths("bandwidth_x", bandwidth_x, self.dim_x), check_widths("bandwidth_y", bandwidth_y, self.dim_y)]
        )
        self.arrays = sliding_loops.empty_window(self.capacity, self.dim_x, self.widths)

    def __len__(self) -> int:
        return int(self.arrays.sizes[self._loops.ROWS])

    @property
    def counts(self) -> tuple[int, int]:
        """Rows of the old and of the new group."""
        return int(self.arrays.sizes[self._loops.OLD]), int(self.arrays.sizes[self._loops.NEW])

    def append(self, row: FloatArray, group: int) -> int:
        """Put a row (x and y in one array) in the next free slot and return that slot."""
        slot = len(self)
        if slot == self.capacity:
            raise ParameterError(f"`row` must find a free slot, but all {slot} are taken. Use `replace` instead.")
        self._loops.put_in(self.arrays, slot, row, group)
        self._loops.mend(self.arrays)
        return slot

    def replace(self, slot: int, row: FloatArray, group: int) -> None:
        """Put a row in place of another; one row more is summed afresh, so that old rows gather no rounding."""
        self._loops.exchange(self.arrays, slot, row, group)

    def push(self, pushed: int, row: FloatArray) -> None:
        """Push a row to a buffer of an old and a new half; `pushed` counts the rows before it."""
        self._loops.push(self.arrays, pushed, row)

    def divergence(self, measure: SlidingMeasure = "conditional_cs") -> float:
        """Return a divergence between the two groups; 0 while either has fewer than 2 rows. Cost O(rows)."""
        check_choice("measure", measure, MEASURES)
        if min(self.counts) < SMALLEST_GROUP:
            return 0.0
        function: Callable[[Any], float] = getattr(self._loops, measure)
        return float(function(self.arrays))

    def rows(self, slots: Any) -> tuple[FloatArray, FloatArray]:
        """Return copies of x and y of the rows in `slots` (an index array or a slice)."""
        taken = self.arrays.values[:, : len(self)][:, slots].T
        return np.ascontiguousarray(taken[:, : self.dim_x]), np.ascontiguousarray(taken[:, self.dim_x :])

    def state_dict(self) -> State:
        """Return everything as plain arrays: sums included, so that a restored window goes on bit for bit."""
        kept = self.arrays._asdict()
        del kept["work"], kept["inverse_widths"]
        return {**{name: array.copy() for name, array in kept.items()}, "widths": self.widths.copy()}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, AnyArray]) -> SlidingWindow:
        """Return the window that `state` describes."""
        values, widths, sizes = (_entry(state, name) for name in ("values", "widths", "sizes"))
        if values.ndim != 2 or widths.shape != values.shape[:1] or sizes.shape != (6,):
            raise _broken(f"values of shape {values.shape} with widths of shape {widths.shape}")
        dim_x = int(sizes[0])
        if not 1 <= dim_x < len(widths):
            raise _broken(f"{dim_x} columns of x among {len(widths)}")
        made = cls(values.shape[1], dim_x, len(widths) - dim_x, bandwidth_x=widths[:dim_x], bandwidth_y=widths[dim_x:])
        for name, array in made.arrays._asdict().items():
            # States of earlier versions have no rests; those of 0 go on as they did there.
            if name in ("work", "inverse_widths") or (name == "rests" and name not in state):
                continue
            given = _entry(state, name)
            if given.shape != array.shape or given.dtype.kind not in "fi":
                raise _broken(f"{name} of shape {given.shape} where {array.shape} is expected")
            if array.dtype.kind == "f" and not np.isfinite(given).all():
                raise _broken(f"{name} that is not finite")
            array[...] = given
        n, group = len(made), made.arrays.group
        counted = tuple(int(np.sum(group[:n] == g)) for g in (OLD, NEW))
        if not 0 <= n <= made.capacity or counted != made.counts or sum(counted) != n:
            raise _broken(f"{made.counts} rows announced and {counted} found")
        made.arrays.sizes[made._loops.SHIFTED] = int(np.count_nonzero(made.arrays.shifts[:, :n]))
        return made


def check_widths(name: str, value: Any, columns: int) -> FloatArray:
    """Return one positive bandwidth per column."""
    if isinstance(value, str):
        raise BandwidthError(
            f"`{name}` must be a positive number, or one per column, got the rule {value!r}: rows come one by one, so "
            f"there is no sample to estimate it from. Find it first, e.g. condcs.bandwidth(sample, rule={value!r})."
        )
    try:
        widths = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        widths = np.array(np.nan)
    if widths.ndim == 0:
        widths = np.full(columns, float(widths))
    if widths.shape != (columns,):
        raise BandwidthError(
            f"`{name}` must be one number, or one per column ({columns}), got shape {widths.shape}. Pass one number."
        )
    with np.errstate(divide="ignore", over="ignore"):
        usable = np.isfinite(widths) & (widths > 0) & np.isfinite(1 / widths)
    if not usable.all():
        raise BandwidthError(f"`{name}` must be positive and finite, got {value!r}. Pass e.g. {name}=0.1.")
    return widths


def joined_row(x: Any, y: Any, dim_x: int, dim_y: int) -> FloatArray:
    """Return x and y of one observation in one array, checked."""
    row = np.empty(dim_x + dim_y)
    for name, value, part in (("x", x, row[:dim_x]), ("y", y, row[dim_x:])):
        try:
            given = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"`{name}` must hold numbers, got {value!r}. Encode labels as numbers.") from error
        if given.size != part.size or given.ndim > 1:
            raise ShapeError(
                f"`{name}` must be one row of {part.size} numbers, got shape {given.shape}. Push one row at a time."
            )
        part[:] = given
    if not np.isfinite(row).all():
        name = "x" if not np.isfinite(row[:dim_x]).all() else "y"
        raise DataError(f"`{name}` must be finite, got {row.tolist()}. Leave out such rows, or impute them.")
    return row


def _entry(state: Mapping[str, AnyArray], name: str) -> AnyArray:
    if name not in state:
        raise _broken(f"no {name!r}")
    return np.asarray(state[name])


def _broken(what: str) -> CondcsError:
    return DataError(f"`state` must come from `state_dict()` of the same class, got {what}. Save it again.")
