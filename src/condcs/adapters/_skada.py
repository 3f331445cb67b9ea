"""The CS alignment as a deep adaptation method for skada: a loss for its criterion, and a network factory."""

from __future__ import annotations

from typing import Any

import torch
from skada.deep.base import (
    BaseDALoss,
    DomainAwareCriterion,
    DomainAwareModule,
    DomainAwareNet,
    DomainBalancedDataLoader,
)

from condcs.nn import ConditionalCSAlignment


class CSAlignmentLoss(BaseDALoss):  # type: ignore[misc]
    """Divergence between source and target in p(z) and in p(y|z), for skada's `DomainAwareCriterion`.

    Parameters
    ----------
    **options
        Those of `condcs.nn.ConditionalCSAlignment`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.alignment = ConditionalCSAlignment(**options)

    def forward(self, y_s: Any, y_pred_t: Any, features_s: Any, features_t: Any, **others: Any) -> Any:
        """Return the divergence of one batch; `y_pred_t` are logits."""
        return self.alignment(features_s, y_s.long(), features_t, y_pred_t.softmax(1))


# Named like skada's own factories, DeepCoral and DeepJDOT.
def DeepConditionalCS(
    module: Any, layer_name: str, *, reg: float = 1.0, base_criterion: Any = None, loss: Any = None, **options: Any
) -> Any:
    """Make a skada network that aligns p(z) and p(y|z) by the Cauchy-Schwarz divergence.

    Parameters
    ----------
    module : nn.Module
        The network; its outputs are logits.
    layer_name : str
        Layer whose outputs are aligned.
    reg : float
        Weight of the divergence.
    base_criterion : nn.Module, optional
        Loss on the source's labels; cross-entropy by default.
    loss : mapping, optional
        Options of `condcs.nn.ConditionalCSAlignment`.
    **options
        Passed to `skada.deep.base.DomainAwareNet`, e.g. ``max_epochs``.

    Returns
    -------
    DomainAwareNet
        To be fitted with ``fit(X, y, sample_domain)``, target labels masked.
    """
    return DomainAwareNet(
        module=DomainAwareModule,
        module__base_module=module,
        module__layer_name=layer_name,
        iterator_train=DomainBalancedDataLoader,
        criterion=DomainAwareCriterion,
        criterion__base_criterion=base_criterion or torch.nn.CrossEntropyLoss(),
        criterion__reg=reg,
        criterion__adapt_criterion=CSAlignmentLoss(**(loss or {})),
        **options,
    )
