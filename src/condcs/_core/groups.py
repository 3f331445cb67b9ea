"""Groups of the pooled sample: columns of non-negative weights, stored the way they are used."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from condcs._core.arrays import Array


def label_type(count: int) -> np.dtype[np.generic]:
    """Return the integer type that labels 0 .. count - 1 are kept in: small, because a test holds hundreds of rows."""
    return np.dtype(np.int8 if count <= 127 else np.int32)


@dataclass(frozen=True)
class Groups:
    """Disjoint groups that lie one after the other in the pool: a block-diagonal weight matrix W (n x G).

    Attributes
    ----------
    sizes : tuple of int
        Rows of each group.
    weights : array of shape (n,), optional
        Weight of each pooled row; None means one everywhere.
    """

    sizes: tuple[int, ...]
    weights: Array | None = None

    @property
    def n(self) -> int:
        """Rows of the pool."""
        return sum(self.sizes)

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.sizes)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Rows of each group, as slices of the pool."""
        ends = tuple(accumulate(self.sizes))
        return tuple(slice(end - size, end) for size, end in zip(self.sizes, ends, strict=True))

    def weights_of(self, rows: slice) -> Array | None:
        """Return the weights of some rows; None if all are one."""
        return None if self.weights is None else self.weights[rows]

    def block(self, rows: slice, dtype: np.dtype[np.generic]) -> tuple[slice, Array]:
        """Return the part of W that is not zero on `rows`: the groups met there, and their weights (rows x groups).

        A block that meets one group is a vector, so that multiplying by it is a matrix-vector product.
        """
        slices = self.slices
        met = [g for g, s in enumerate(slices) if s.start < rows.stop and s.stop > rows.start]
        weights = np.ones(rows.stop - rows.start, dtype) if self.weights is None else self.weights[rows]
        if len(met) == 1:
            return slice(met[0], met[0] + 1), weights
        block = np.zeros((rows.stop - rows.start, len(met)), dtype)
        for column, g in enumerate(met):
            part = slice(max(slices[g].start, rows.start) - rows.start, min(slices[g].stop, rows.stop) - rows.start)
            block[part, column] = weights[part]
        return slice(met[0], met[-1] + 1), block
