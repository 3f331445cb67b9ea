r"""Two groups that slide by one row at a time: divergences in O(rows) per step instead of O(rows^2).

Every row j keeps its kernel masses :math:`A_{jg} = \sum_{i \in g} K_{ji}` and :math:`B_{jg} = \sum_{i \in g} K_{ji}
L_{ji}` in both groups. A row that enters, leaves or changes groups changes every sum by one term, so a step costs a few
kernel rows. Rounding does not gather, but cancellation does: a sum that falls far below its peak keeps the peak's
rounding error. Such sums are found by their peaks and summed afresh; sums too small for a double are kept with a scale
of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from condcs._core.arrays import Array
from condcs._core.checks import check_choice, check_integer
from condcs._core.errors import BandwidthError, CondcsError, DataError, ParameterError, ShapeError
from condcs._core.stateful import State, Stateful

FloatArray = np.ndarray[Any, Any]

OLD, NEW = 0, 1
"""The two groups."""

MEASURES = ("conditional_cs", "conditional_euclidean", "joint_mmd")
"""Measures that cost O(rows) once the sums are known."""

SMALLEST_GROUP = 2
"""With fewer rows in a group there is nothing to compare: the divergence is 0."""


class SlidingWindow(Stateful):
    """Rows in slots, each in one of two groups, with exact running kernel sums.

    The ground that replay buffers and drift detectors stand on; rows are checked by those. Gaussian kernels.

    Parameters
    ----------
    capacity : int
        Largest number of rows.
    dim_x, dim_y : int
        Columns of x and y.
    bandwidth_x, bandwidth_y : float or sequence of float
        Widths of the kernels, one number or one per column. Fixed: a rule would have to see the data first.

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

    def move(self, slot: int, group: int) -> None:
        """Move the row in a slot to the other group."""
        self._loops.move(self.arrays, slot, group)
        self._loops.mend(self.arrays)

    def push(self, pushed: int, row: FloatArray) -> None:
        """Push a row to a buffer of an old and a new half; `pushed` counts the rows before it."""
        self._loops.push(self.arrays, pushed, row)

    def divergence(self, measure: str = "conditional_cs") -> float:
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

    def members(self, group: int) -> FloatArray:
        """Return the slots of a group."""
        return np.flatnonzero(self.arrays.group == group)

    def state_dict(self) -> State:
        """Return everything as plain arrays: sums included, so that a restored window goes on bit for bit."""
        kept = self.arrays._asdict()
        del kept["work"], kept["inverse_widths"]
        return {**{name: array.copy() for name, array in kept.items()}, "widths": self.widths.copy()}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, FloatArray]) -> SlidingWindow:
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
                raise _broken(f"{name} of shape {given.shape} where {array.shape} is due")
            if array.dtype.kind == "f" and not np.isfinite(given).all():
                raise _broken(f"{name} that is not finite")
            array[...] = given
        n, group = len(made), made.arrays.group
        counted = tuple(int(np.sum(group[:n] == g)) for g in (OLD, NEW))
        if not 0 <= n <= made.capacity or counted != made.counts or sum(counted) != n:
            raise _broken(f"{made.counts} rows announced and {counted} found")
        made.arrays.sizes[made._loops.SHIFTED] = int(np.count_nonzero(made.arrays.shifts[:, :n]))
        return made


class ReferenceWindow(Stateful):
    """A fixed reference sample and a sliding window of recent rows, compared at every step.

    A push costs O(reference + window) kernel values, a divergence O(reference + window) divisions. Reference rows are
    the old group, recent rows the new one.

    Parameters
    ----------
    x, y : array, shape (n, d_x) and (n, d_y)
        The reference: rows are observations; 1-d arrays are one column.
    size : int
        Rows of the sliding window.
    bandwidth_x, bandwidth_y : float or sequence of float
        Widths of the kernels, e.g. from `condcs.bandwidth` of the reference.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 50)
    >>> window = ReferenceWindow(x, np.sin(x), 10, bandwidth_x=0.3, bandwidth_y=0.3)
    >>> for value in x[::5]:
    ...     window.push(value, -np.sin(value))
    >>> len(window), window.divergence() > 0.1
    (10, True)
    """

    def __init__(self, x: Array, y: Array, size: int, *, bandwidth_x: Any, bandwidth_y: Any) -> None:
        given = [check_rows("x", x), check_rows("y", y)]
        if len(given[0]) != len(given[1]):
            raise ShapeError(
                f"`x` and `y` must have the same number of rows, got {len(given[0])} and {len(given[1])}. "
                "Row i of one belongs to row i of the other."
            )
        if len(given[0]) < SMALLEST_GROUP:
            raise ShapeError(
                f"`x` must have at least {SMALLEST_GROUP} rows, got {len(given[0])}. Pass a longer sample."
            )
        self.size = check_integer("size", size, SMALLEST_GROUP)
        self._n_reference = len(given[0])
        self._window = SlidingWindow(
            self._n_reference + self.size,
            given[0].shape[1],
            given[1].shape[1],
            bandwidth_x=bandwidth_x,
            bandwidth_y=bandwidth_y,
        )
        for row in np.concatenate(given, axis=1):
            self._window.append(row, OLD)
        self._pushed = 0

    def __len__(self) -> int:
        return min(self._pushed, self.size)

    @property
    def is_full(self) -> bool:
        """Whether the window holds `size` rows."""
        return self._pushed >= self.size

    def push(self, x: Any, y: Any) -> None:
        """Add one recent row; when the window is full, the oldest leaves."""
        row = joined_row(x, y, self._window.dim_x, self._window.dim_y)
        if self.is_full:
            self._window.replace(self._slot(self._pushed), row, NEW)
        else:
            self._window.append(row, NEW)
        self._pushed += 1

    def _slot(self, pushed: int) -> int:
        return self._n_reference + pushed % self.size

    def divergence(self, measure: str = "conditional_cs") -> float:
        """Return a divergence of the window from the reference; 0 while the window has fewer than 2 rows."""
        return self._window.divergence(measure)

    def reference(self) -> tuple[FloatArray, FloatArray]:
        """Return copies of x and y of the reference."""
        return self._window.rows(slice(0, self._n_reference))

    def recent(self) -> tuple[FloatArray, FloatArray]:
        """Return copies of x and y of the window, oldest first."""
        first = self._pushed - len(self)
        return self._window.rows(np.array([self._slot(i) for i in range(first, self._pushed)], dtype=np.int64))

    def clear(self) -> None:
        """Forget the recent rows and keep the reference. Cost O(reference^2)."""
        made = ReferenceWindow(
            *self.reference(),
            self.size,
            bandwidth_x=self._window.widths[: self._window.dim_x],
            bandwidth_y=self._window.widths[self._window.dim_x :],
        )
        self._window, self._pushed = made._window, 0

    def state_dict(self) -> State:
        """Return everything as plain arrays."""
        return {**self._window.state_dict(), "pushed": np.array([self._n_reference, self.size, self._pushed])}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, FloatArray]) -> ReferenceWindow:
        """Return the window that `state` describes."""
        made = cls.__new__(cls)
        made._window = SlidingWindow.from_state_dict(state)
        pushed = _entry(state, "pushed")
        if pushed.shape != (3,):
            raise _broken(f"pushed of shape {pushed.shape} where (3,) is due")
        n, made.size, made._pushed = (int(value) for value in pushed)
        if n + made.size != made._window.capacity or made._window.counts != (n, min(made._pushed, made.size)):
            raise _broken(f"{made._window.counts} rows in the groups, {n} and {made.size} announced")
        made._n_reference = n
        return made


def check_widths(name: str, value: Any, columns: int) -> FloatArray:
    """Return one positive width per column."""
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


def check_rows(name: str, value: Any) -> FloatArray:
    """Return a sample as finite float64 rows; 1-d arrays are one column."""
    try:
        rows = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"`{name}` must hold numbers. Encode labels as numbers, one 0/1 column per category."
        ) from error
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ShapeError(f"`{name}` must have one or two dimensions, got shape {rows.shape}. Rows are observations.")
    if not np.isfinite(rows).all():
        raise DataError(f"`{name}` must be finite, got NaN or infinite values. Drop those rows, or impute them.")
    return rows


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


def _entry(state: Mapping[str, FloatArray], name: str) -> FloatArray:
    if name not in state:
        raise _broken(f"no {name!r}")
    return np.asarray(state[name])


def _broken(what: str) -> CondcsError:
    return DataError(f"`state` must come from `state_dict()` of the same class, got {what}. Save it again.")
