"""What goes into a loss: checked tensors in single or double precision, outside autocast."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from condcs._core.errors import DataError, ShapeError


def check_table(name: str, value: Any, *, rows: int | None = None, columns: int | None = None) -> Tensor:
    """Return a float tensor of shape (rows, columns); more dimensions than two are flattened, 1-d is one column.

    Half precision becomes single, double stays.
    """
    if not isinstance(value, Tensor):
        raise DataError(
            f"`{name}` must be a torch tensor, got {type(value).__name__}. Convert it with `torch.as_tensor`."
        )
    if value.is_complex():
        raise DataError(f"`{name}` must hold real numbers, got {value.dtype}. Split real and imaginary parts.")
    if value.ndim == 0:
        raise ShapeError(f"`{name}` must have one row per observation, got a single value. Pass a batch.")
    table = value[:, None] if value.ndim == 1 else value.flatten(1)
    _check_sizes(name, table, rows, columns)
    table = table if table.dtype in (torch.float32, torch.float64) else table.float()
    # The graph of a compiled loss must not depend on values.
    if not torch.compiler.is_compiling() and not bool(torch.isfinite(table.detach()).all()):
        raise DataError(
            f"`{name}` must be finite, got {int((~torch.isfinite(table)).sum())} NaN or infinite value(s). Look at the "
            "learning rate and the inputs of the network; with a gradient scaler, skip the batch."
        )
    return table


def _check_sizes(name: str, table: Tensor, rows: int | None, columns: int | None) -> None:
    if table.shape[0] < 2:
        raise ShapeError(
            f"`{name}` must have at least 2 rows, got {table.shape[0]}. A divergence is between samples: use larger "
            "batches, or `drop_last=True` in the data loader."
        )
    if table.shape[1] == 0:
        raise ShapeError(f"`{name}` must have at least one column, got shape {tuple(table.shape)}.")
    if rows is not None and table.shape[0] != rows:
        raise ShapeError(
            f"`{name}` must have {rows} rows, one for each row of the other argument, got {table.shape[0]}. "
            "Row i of one belongs to row i of the other."
        )
    if columns is not None and table.shape[1] != columns:
        raise ShapeError(
            f"`{name}` must have {columns} columns as in the other sample, got {table.shape[1]}. Rows are observations."
        )


def check_pair(names: tuple[str, str], first: Any, second: Any) -> tuple[Tensor, Tensor]:
    """Check two samples of one variable."""
    a = check_table(names[0], first)
    a, b = common(a, check_table(names[1], second, columns=a.shape[1]))
    return a, b


def common(*tables: Tensor) -> tuple[Tensor, ...]:
    """Bring tensors to the wider of their floating types."""
    wide = torch.float64 if any(t.dtype == torch.float64 for t in tables) else torch.float32
    return tuple(t if t.dtype == wide else t.to(wide) for t in tables)


def class_table(name: str, value: Any, rows: int, classes: int | None = None) -> Tensor:
    """Return labels as one row of class probabilities each; integer labels become one-hot."""
    if isinstance(value, Tensor) and not value.is_floating_point() and value.ndim == 1:
        if classes is None:
            raise ShapeError(
                f"`{name}` must be one-hot or probabilities (one column per class) when the other labels are integers "
                "too: nothing else says how many classes there are. Use `torch.nn.functional.one_hot`."
            )
        if value.shape[0] and not torch.compiler.is_compiling() and not bool(((value >= 0) & (value < classes)).all()):
            raise DataError(
                f"`{name}` must hold classes 0 to {classes - 1}, got {int(value.min())} to {int(value.max())}. "
                "Number the classes from 0."
            )
        value = torch.nn.functional.one_hot(value.long(), classes)
    return check_table(name, value, rows=rows, columns=classes)


def check_weights(name: str, value: Any, like: Tensor) -> Tensor | None:
    """Check non-negative sample weights, one per row of `like`."""
    if value is None:
        return None
    weights = check_table(name, value)
    if weights.shape != (like.shape[0], 1):
        raise ShapeError(f"`{name}` must have one weight per row ({like.shape[0]}), got shape {tuple(value.shape)}.")
    weights = weights[:, 0].to(like.dtype)
    if not torch.compiler.is_compiling() and (bool((weights < 0).any()) or int((weights > 0).sum()) < 2):
        raise DataError(f"`{name}` must not be negative, and at least two must be positive. Drop the other rows.")
    return weights


def unit_rows(table: Tensor) -> Tensor:
    """Scale rows to length 1; rows near 0 stay near 0, with a bounded gradient."""
    return table * torch.rsqrt((table * table).sum(1, keepdim=True) + 1e-8)
