"""Rows as numbers alone, for what knows no categories: a 0/1 column for each label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs.tables.kinds import Column

FloatArray = np.ndarray[Any, Any]

LABEL_WIDTH = 0.5
"""Kernel width for 0/1 columns: two labels, sqrt(2) apart, have a similarity of exp(-4)."""


@dataclass(frozen=True)
class OneHot:
    """Columns of a table, and how their cells become numbers."""

    columns: tuple[Column, ...]

    def encode(self, rows: Sequence[Sequence[Any]], title: str) -> FloatArray:
        """Return one row of numbers per row of cells; a label never seen before is all zeros."""
        parts = []
        for cells, column in zip(zip(*rows, strict=True), self.columns, strict=True):
            codes = column.encode(cells, title)
            parts.append(
                (codes[:, None] == np.arange(len(column.labels))).astype(float)
                if column.is_category
                else codes[:, None]
            )
        return np.concatenate(parts, axis=1)

    @property
    def all_labels(self) -> bool:
        """Whether there is no number among the columns."""
        return all(column.is_category for column in self.columns)

    def describe(self) -> list[dict[str, Any]]:
        """Return the columns as plain JSON values."""
        return [{"name": c.name, "kind": c.kind, "labels": list(c.labels), "decimal": c.decimal} for c in self.columns]
