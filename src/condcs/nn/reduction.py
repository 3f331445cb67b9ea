"""From the terms of a divergence to what a loss returns: the divergence, its multiple, or a share for every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from condcs.core.checks import check_choice
from condcs.core.errors import ParameterError
from condcs.nn.exponents import log_sum

REDUCTIONS = ("mean", "sum", "none")


@dataclass(frozen=True)
class Part:
    """A sum over rows that enters a divergence: `coefficient` times the log of the sum, or the sum itself.

    Attributes
    ----------
    coefficient : float
        Factor of the sum.
    terms : tensor
        One term per row; logarithms of terms for a log contrast.
    rows : slice
        Which rows of the pooled batch the terms belong to.
    """

    coefficient: float
    terms: Tensor
    rows: slice


def check_reduction(reduction: str, *, per_row: bool = True, why: str = "") -> None:
    """Check the option; `per_row` says whether shares of rows can be had."""
    check_choice("reduction", reduction, REDUCTIONS)
    if reduction == "none" and not per_row:
        raise ParameterError(f'`reduction`="none" is not possible here: {why}. Pass reduction="mean".')


def scaled(value: Tensor, n: int, reduction: str) -> Tensor:
    """Return a divergence of `n` rows as "mean", or times `n` as "sum"."""
    return value * n if reduction == "sum" else value


def log_contrast(parts: Sequence[Part], n: int, reduction: str) -> Tensor:
    """Sum of coefficient times log-sum over the parts."""
    totals = [log_sum(part.terms, 0) for part in parts]
    if reduction != "none":
        return scaled(
            sum(
                (p.coefficient * t for p, t in zip(parts[1:], totals[1:], strict=True)),
                parts[0].coefficient * totals[0],
            ),
            n,
            reduction,
        )
    shares = parts[0].terms.new_zeros(n)
    for part, total in zip(parts, totals, strict=True):
        shares = _added(shares, part.rows, part.coefficient * n * total * torch.exp(part.terms - total))
    return shares


def linear_contrast(parts: Sequence[Part], n: int, reduction: str) -> Tensor:
    """Sum of coefficient times sum over the parts."""
    if reduction != "none":
        return scaled(
            sum((p.coefficient * p.terms.sum() for p in parts[1:]), parts[0].coefficient * parts[0].terms.sum()),
            n,
            reduction,
        )
    shares = parts[0].terms.new_zeros(n)
    for part in parts:
        shares = _added(shares, part.rows, part.coefficient * n * part.terms)
    return shares


def _added(shares: Tensor, rows: slice, values: Tensor) -> Tensor:
    start, stop, _ = rows.indices(len(shares))
    return shares + torch.nn.functional.pad(values, (start, len(shares) - stop))
