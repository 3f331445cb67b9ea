"""Rows without which the size of a change would be another one: where they stand, and what is unusual about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from condcs._inference.effects import Effect
from condcs._tables.pair import Pair

_LEAST_WIDTH = 1e-9
"""Distance between the quartiles below which a value is as far away as can be: half of the rows have one value."""


@dataclass(frozen=True)
class LocatedRow:
    """A row that carries most of the variance of an average change, and the column in which it is farthest out."""

    response: str
    table: Literal["reference", "current"]
    title: str  # of the table
    unit: str  # in which its lines are counted
    line: int
    share: float  # of the variance of the average change
    column: str
    value: float
    quartiles: tuple[float, float]  # of the column, in both tables together

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "table": self.table,
            "line": self.line,
            "share_of_variance": self.share,
            "column": self.column,
            "value": self.value,
            "quartiles": list(self.quartiles),
        }


def located_row(pair: Pair, effect: Effect) -> LocatedRow | None:
    """Return where the influential row of an effect stands, None if there is none."""
    if effect.influential is None:
        return None
    row, n_reference = effect.influential.row, len(pair.xp)
    in_reference = row < n_reference
    account, lines = (pair.reference, pair.lines_p) if in_reference else (pair.current, pair.lines_q)
    row_of_table = row if in_reference else row - n_reference
    # The response itself, and the inputs that are numbers as they stand in the table.
    response = next(k for k, column in enumerate(pair.y) if column.name == effect.name)
    values = {effect.name: np.concatenate([pair.yp[:, response], pair.yq[:, response]])}
    for k, column in enumerate(pair.x):
        if column.kind == "number" and not column.source:
            values[column.name] = np.concatenate([pair.xp[:, k], pair.xq[:, k]])
    distances, quartiles = dict[str, float](), dict[str, tuple[float, float]]()
    for name, of_column in values.items():
        lower, middle, upper = map(float, np.quantile(of_column, (0.25, 0.5, 0.75)))
        distances[name] = abs(float(of_column[row]) - middle) / max(upper - lower, _LEAST_WIDTH)
        quartiles[name] = lower, upper
    farthest = max(distances, key=lambda name: distances[name])
    return LocatedRow(
        effect.name,
        "reference" if in_reference else "current",
        account.title,
        account.unit,
        row_of_table + 1 if lines is None else int(lines[row_of_table]),
        effect.influential.share,
        farthest,
        float(values[farthest][row]),
        quartiles[farthest],
    )


def influential_row_notes(pair: Pair, effects: Sequence[Effect]) -> Iterator[str]:
    """Yield a note on each response whose change is that of one row."""
    for effect in effects:
        located = located_row(pair, effect)
        if located is not None:
            lower, upper = located.quartiles
            yield (
                f"{located.unit.capitalize()} {located.line:,} of {located.title} carries {located.share:.0%} of the "
                f"variance of the average change of {located.response}, so that sizes and intervals are those of one "
                f"row. There {located.column} is {located.value:,.7g}; half of all rows lie between {lower:,.4g} and "
                f"{upper:,.4g}. Correct the row, or leave it out."
            )
