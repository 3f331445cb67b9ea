"""What a method of domain adaptation adds to the cross-entropy of the source: the discrepancy of the two domains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from torch import Tensor

from condcs._core.checks import check_options
from condcs.nn import ConditionalCSAlignment, DJPMMDLoss, JMMDLoss, MKMMDLoss, MMDLoss

AdaptationMethod = Literal["none", "ddc", "dan", "jan", "djp_mmd", "cs"]

METHODS: Mapping[AdaptationMethod, type[Any] | None] = {
    "none": None,
    "ddc": MMDLoss,
    "dan": MKMMDLoss,
    "jan": JMMDLoss,
    "djp_mmd": DJPMMDLoss,
    "cs": ConditionalCSAlignment,
}
"""Loss of each method. `DomainAdapter` takes its options, and for DAN `layers`: "all", as its equation says, or "last",
as the paper's text does. The MMD-based methods find a bandwidth for each batch by the rule "mean"."""


@dataclass(frozen=True)
class Domains:
    """One batch of each domain, as the network sees it."""

    layers_source: list[Tensor]  # layers of the bottleneck, first to last, (n, width) each
    y_source: Tensor  # labels, one-hot (n, classes)
    layers_target: list[Tensor]  # (m, width) each
    y_target: Tensor  # predicted probabilities (m, classes)


def discrepancy(method: AdaptationMethod, options: Mapping[str, Any]) -> Callable[[Domains], Tensor] | None:
    """Return what a method adds to the cross-entropy; None if that is nothing."""
    loss_class = METHODS[method]
    if loss_class is None:
        return None
    option_names = {field.name for field in fields(loss_class)}
    if loss_class is MKMMDLoss:
        option_names.add("layers")
    check_options(options, option_names, method)

    loss_options = dict(options)
    layers = loss_options.pop("layers", "all")
    if method != "cs":
        # The paper's rule for the MMD family; the CS alignment has a fixed width on normalised features.
        loss_options.setdefault("bandwidth", "mean")
    loss = loss_class(**loss_options)
    first_layer = 0 if layers == "all" else -1

    def of_batch(batch: Domains) -> Tensor:
        """Return the discrepancy of one batch of each domain."""
        last_source, last_target = batch.layers_source[-1], batch.layers_target[-1]
        value: Tensor
        if loss_class is MMDLoss:
            value = loss(last_source, last_target)
        elif loss_class in (JMMDLoss, MKMMDLoss):
            value = loss(batch.layers_source[first_layer:], batch.layers_target[first_layer:])
        else:
            value = loss(last_source, batch.y_source, last_target, batch.y_target)
        return value

    return of_batch
