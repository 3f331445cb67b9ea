"""Families of cells of x: all rows; fifths of every column of numbers, the labels of every other one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._tables.kinds import Column
from condcs.drift._reference_regression import stored

FloatArray = np.ndarray[Any, Any]

PARTS = 5
"""Cells of a column of numbers, with about as many rows each."""


@dataclass(frozen=True)
class Cells:
    """The cells, counted through all families; the first is that of all rows.

    Attributes
    ----------
    columns : tuple of Column
        The columns of x; each has a family.
    edges : tuple of arrays
        For columns of numbers, where a cell ends and the next begins; empty for labels.
    ends : array, shape (d, 2)
        Smallest and largest value of each column in the reference.
    """

    columns: tuple[Column, ...]
    edges: tuple[FloatArray, ...]
    ends: FloatArray

    @classmethod
    def of(cls, x: FloatArray, columns: tuple[Column, ...]) -> Cells:
        """Find the cells of a reference."""
        edges = []
        for column, values in zip(columns, x.T, strict=True):
            found = np.unique(np.quantile(values, np.arange(1, PARTS) / PARTS))
            # An edge at the smallest value would leave the cell below it empty.
            edges.append(np.zeros(0) if column.is_category else found[found > values.min()])
        return cls(columns, tuple(edges), np.column_stack([x.min(axis=0), x.max(axis=0)]))

    @property
    def sizes(self) -> list[int]:
        """Number of cells of each family."""
        pairs = zip(self.columns, self.edges, strict=True)
        return [1] + [len(column.labels) if column.is_category else len(edges) + 1 for column, edges in pairs]

    @property
    def ordered(self) -> list[bool]:
        """Whether the cells of a family have an order."""
        return [False] + [not column.is_category for column in self.columns]

    @property
    def first(self) -> FloatArray:
        """First cell of each family."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def locate(self, x: FloatArray) -> FloatArray:
        """Return the cell of each row in each family."""
        places = [np.zeros(len(x), np.int64)]
        for column, edges, values in zip(self.columns, self.edges, x.T, strict=True):
            places.append(
                values.astype(np.int64) if column.is_category else np.searchsorted(edges, values, side="right")
            )
        return np.column_stack(places) + self.first

    def holds(self, x: FloatArray, cell: int) -> FloatArray:
        """Which rows are in a cell."""
        return np.asarray((self.locate(x) == cell).any(axis=1))

    def bounds(self, cell: int) -> dict[str, Any]:
        """Return the column of a cell with its limits (None where it is open), or its label; nothing for all rows."""
        if cell == 0:
            return {}
        family = int(np.searchsorted(self.first, cell, side="right")) - 1
        column, edges, place = self.columns[family - 1], self.edges[family - 1], cell - int(self.first[family])
        if column.is_category:
            return {column.name: [column.labels[place]]}
        low = None if place == 0 else float(edges[place - 1])
        return {column.name: (low, None if place == len(edges) else float(edges[place]))}

    def words(self, cell: int) -> str:
        """Return where a cell is: ``load from 2.1 to 4.3``."""
        for name, limits in self.bounds(cell).items():
            if isinstance(limits, list):
                return f"{name} = {limits[0]}"
            low, high = limits
            if low is None or high is None:
                return f"{name} below {high:.4g}" if low is None else f"{name} from {low:.4g} on"
            return f"{name} from {low:.4g} to {high:.4g}"
        return "all rows"

    def state(self) -> dict[str, FloatArray]:
        """Return plain arrays."""
        lengths = np.array([len(edges) for edges in self.edges])
        return {"edges": np.concatenate([*self.edges, np.zeros(0)]), "edge_counts": lengths, "ends": self.ends}

    @classmethod
    def from_state(cls, state: Mapping[str, FloatArray], columns: tuple[Column, ...]) -> Cells:
        """Undo `state`."""
        counts = stored(state, "edge_counts").astype(np.int64)
        edges, ends = stored(state, "edges"), stored(state, "ends")
        if (
            edges.ndim != 1
            or counts.shape != (len(columns),)
            or counts.sum() != len(edges)
            or ends.shape != (len(columns), 2)
        ):
            raise ValueError("cells that do not fit the columns")
        return cls(columns, tuple(np.split(edges, np.cumsum(counts)[:-1])), ends)
