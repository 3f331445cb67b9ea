"""The discrepancies of unsupervised domain adaptation, by method: what is added to the source's cross-entropy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from condcs.nn import functional
from condcs.nn._losses import MKMMDLoss


@dataclass(frozen=True)
class Domains:
    """One batch of each domain as the network sees it.

    Attributes
    ----------
    layers_source, layers_target : list of tensors
        Layers of the bottleneck, first to last.
    y_source : tensor
        One-hot labels.
    y_target : tensor
        Predicted class probabilities.
    """

    layers_source: list[Tensor]
    y_source: Tensor
    layers_target: list[Tensor]
    y_target: Tensor


Discrepancy = Callable[..., Tensor]


def _ddc(d: Domains, **options: Any) -> Tensor:
    return functional.mmd_loss(d.layers_source[-1], d.layers_target[-1], **options)


def _dan(d: Domains, *, layers: str = "all", **options: Any) -> Tensor:
    first = 0 if layers == "all" else -1
    found: Tensor = MKMMDLoss(**options)(d.layers_source[first:], d.layers_target[first:])
    return found


def _jan(d: Domains, **options: Any) -> Tensor:
    return functional.jmmd_loss(d.layers_source, d.layers_target, **options)


def _djp_mmd(d: Domains, **options: Any) -> Tensor:
    return functional.djp_mmd_loss(d.layers_source[-1], d.y_source, d.layers_target[-1], d.y_target, **options)


def _cs(d: Domains, **options: Any) -> Tensor:
    return functional.conditional_cs_alignment_loss(
        d.layers_source[-1], d.y_source, d.layers_target[-1], d.y_target, **options
    )


AdaptationMethod = Literal["none", "ddc", "dan", "jan", "djp_mmd", "cs"]

METHODS: Mapping[AdaptationMethod, Discrepancy | None] = {
    "none": None,
    "ddc": _ddc,
    "dan": _dan,
    "jan": _jan,
    "djp_mmd": _djp_mmd,
    "cs": _cs,
}
"""Discrepancy of each method; options are those of its function in `condcs.nn.functional`, and `layers` for DAN
("all", as its equation says, or "last", as the paper's text does)."""

DEFAULTS: Mapping[AdaptationMethod, Mapping[str, Any]] = {
    "none": {},
    "ddc": {"bandwidth": "mean"},
    "dan": {"bandwidth": "mean"},
    "jan": {"bandwidth": "mean"},
    "djp_mmd": {"bandwidth": "mean"},
    "cs": {"bandwidth": 1.0, "normalize": True},
}
"""Options where the caller gives none: a bandwidth per batch for the MMD-based methods, the paper's for CS."""
