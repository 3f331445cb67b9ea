"""Losses as modules, which keep the options of a function in `condcs.nn.functional`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from torch import Tensor, nn

from condcs._measures.formulas import PredictorForm, ResponseForm
from condcs.nn import functional
from condcs.nn._dense import Reduction, Width
from condcs.nn.functional import AlignmentEstimator, LossKernel, MMDForm


@dataclass(eq=False, repr=False, kw_only=True)
class _Loss(nn.Module):
    """A module whose options are its fields; numbers and rule names are all the state there is."""

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def options(self) -> dict[str, Any]:
        """The options of the function."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def extra_repr(self) -> str:
        """Show the options."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


@dataclass(eq=False, repr=False, kw_only=True)
class _FeatureLoss(_Loss):
    """A loss between two batches of features, by a function of `condcs.nn.functional`."""

    function: ClassVar[Callable[..., Tensor]]
    bandwidth: Width = "joint_median"
    normalize: bool = False
    reduction: Reduction = "mean"

    def forward(
        self, source: Any, target: Any, weights_source: Tensor | None = None, weights_target: Tensor | None = None
    ) -> Tensor:
        """Return the divergence of two batches."""
        return type(self).function(
            source, target, weights_source=weights_source, weights_target=weights_target, **self.options
        )


@dataclass(eq=False, repr=False, kw_only=True)
class CSLoss(_FeatureLoss):
    """Cauchy-Schwarz divergence between two batches of features.

    Parameters
    ----------
    bandwidth, normalize, reduction
        As in `condcs.nn.functional.cs_loss`.

    Examples
    --------
    >>> import torch
    >>> z = torch.tensor([[0.0], [1.0]])
    >>> CSLoss(bandwidth=1.0)(z, z).item()
    0.0
    """

    function = functional.cs_loss


@dataclass(eq=False, repr=False, kw_only=True)
class MMDLoss(_FeatureLoss):
    """Squared maximum mean discrepancy between two batches of features (DDC).

    Parameters
    ----------
    bandwidth, normalize, reduction
        As in `condcs.nn.functional.mmd_loss`.
    """

    function = functional.mmd_loss


@dataclass(eq=False, repr=False, kw_only=True)
class JMMDLoss(_FeatureLoss):
    """Squared joint MMD over several layers, which are passed as sequences (JAN).

    Parameters
    ----------
    bandwidth, normalize, reduction
        As in `condcs.nn.functional.jmmd_loss`.
    """

    function = functional.jmmd_loss


def _mk_mmd_of_layers(source: Any, target: Any, **options: Any) -> Tensor:
    layers_source = [source] if isinstance(source, Tensor) else source
    layers_target = [target] if isinstance(target, Tensor) else target
    layers = [functional.mk_mmd_loss(a, b, **options) for a, b in zip(layers_source, layers_target, strict=True)]
    return sum(layers[1:], layers[0])


@dataclass(eq=False, repr=False, kw_only=True)
class MKMMDLoss(_FeatureLoss):
    """Squared multi-kernel MMD (DAN); layers given as a sequence are summed.

    Parameters
    ----------
    bandwidth, multiples, normalize, reduction
        As in `condcs.nn.functional.mk_mmd_loss`.
    """

    function = _mk_mmd_of_layers
    multiples: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(eq=False, repr=False, kw_only=True)
class DJPMMDLoss(_Loss):
    """Discriminative joint-probability MMD between two labelled batches (DJP-MMD).

    Parameters
    ----------
    form, trade_off, bandwidth, normalize
        As in `condcs.nn.functional.djp_mmd_loss`.
    """

    form: MMDForm = "discriminative"
    trade_off: float = 0.1
    bandwidth: Width = "joint_median"
    normalize: bool = False

    def forward(self, source: Tensor, y_source: Tensor, target: Tensor, y_target: Tensor) -> Tensor:
        """Return the discrepancy of two labelled batches."""
        return functional.djp_mmd_loss(source, y_source, target, y_target, **self.options)


@dataclass(eq=False, repr=False, kw_only=True)
class CMMDLoss(_Loss):
    """Squared conditional MMD between p_s(y|z) and p_t(y|z).

    Parameters
    ----------
    regularization, bandwidth, bandwidth_y, normalize
        As in `condcs.nn.functional.cmmd_loss`.
    """

    regularization: float = 0.1
    bandwidth: Width = "joint_median"
    bandwidth_y: Width = 1.0
    normalize: bool = False

    def forward(self, source: Tensor, y_source: Tensor, target: Tensor, y_target: Tensor) -> Tensor:
        """Return the discrepancy of two labelled batches."""
        return functional.cmmd_loss(source, y_source, target, y_target, **self.options)


@dataclass(eq=False, repr=False, kw_only=True)
class ConditionalCSLoss(_Loss):
    """Conditional CS divergence between predictions and truth given the inputs: a loss for regression (Prop. 3).

    Parameters
    ----------
    form, bandwidth_x, bandwidth_y, scale_x, scale_y, normalize, reduction
        As in `condcs.nn.functional.conditional_cs_loss`.

    Examples
    --------
    >>> import torch
    >>> x = torch.linspace(0, 1, 20)
    >>> loss = ConditionalCSLoss()
    >>> bool(loss(x + 0.1, x, x) < loss(x + 0.2, x, x))
    True
    """

    form: ResponseForm = "paper"
    bandwidth_x: Width = "median"
    bandwidth_y: Width = "median"
    scale_x: float = 0.1
    scale_y: float = 2.0
    normalize: bool = False
    reduction: Reduction = "mean"

    def forward(self, y_pred: Tensor, y_true: Tensor, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the divergence of predictions from the truth at these inputs."""
        return functional.conditional_cs_loss(y_pred, y_true, x, weights=weights, **self.options)


@dataclass(eq=False, repr=False, kw_only=True)
class ConditionalCSAlignment(_Loss):
    """CS divergence of two domains in p(z), plus their conditional CS divergence in p(y|z).

    Parameters
    ----------
    marginal, conditional, estimator, bandwidth, bandwidth_y, normalize, reduction
        As in `condcs.nn.functional.conditional_cs_alignment_loss`.
    """

    marginal: float = 1.0
    conditional: float = 1.0
    estimator: AlignmentEstimator = "paper"
    bandwidth: Width = 1.0
    bandwidth_y: Width = 1.0
    normalize: bool = True
    reduction: Reduction = "mean"

    def forward(
        self,
        source: Tensor,
        y_source: Tensor,
        target: Tensor,
        y_target: Tensor,
        weights_source: Tensor | None = None,
        weights_target: Tensor | None = None,
    ) -> Tensor:
        """Return the divergence of two labelled batches."""
        options = {"weights_source": weights_source, "weights_target": weights_target, **self.options}
        return functional.conditional_cs_alignment_loss(source, y_source, target, y_target, **options)


@dataclass(eq=False, repr=False, kw_only=True)
class ConditionalIndependencePenalty(_Loss):
    """Divergence between p(y|x1) and p(y|x1, x2): a penalty for fairness and invariance (Prop. 4).

    Equalized Odds: ``penalty(prediction, outcome, protected)`` with delta kernels on the last two. Invariance:
    ``penalty(outcome, representation, environment)`` with delta kernels on the first and the last.

    Parameters
    ----------
    form, bandwidth_y, bandwidth_x1, bandwidth_x2, kernel_y, kernel_x1, kernel_x2, reduction
        As in `condcs.nn.functional.conditional_independence_loss`.
    """

    form: PredictorForm = "corrected"
    bandwidth_y: Width = "median"
    bandwidth_x1: Width = "median"
    bandwidth_x2: Width = "median"
    kernel_y: LossKernel = "gaussian"
    kernel_x1: LossKernel = "gaussian"
    kernel_x2: LossKernel = "gaussian"
    reduction: Reduction = "mean"

    def forward(self, y: Tensor, x1: Tensor, x2: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return how much x2 adds about y beyond x1."""
        return functional.conditional_independence_loss(y, x1, x2, weights=weights, **self.options)
