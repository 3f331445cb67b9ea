"""Losses as pure functions of a batch; the modules in `condcs.nn` hold their options.

All work in single precision or better whatever autocast says, and accept a fixed or a per-batch width, which counts as
a constant. Above `condcs.nn.exponents.DENSE_ROWS` rows they switch from Gram matrices to the core's tiled row sums.
"""

from condcs.nn.conditional_losses import conditional_cs_loss, conditional_independence_loss
from condcs.nn.labelled_losses import cmmd_loss, conditional_cs_alignment_loss, djp_mmd_loss
from condcs.nn.marginal_losses import cs_loss, jmmd_loss, mk_mmd_loss, mmd_loss

__all__ = [
    "cmmd_loss",
    "conditional_cs_alignment_loss",
    "conditional_cs_loss",
    "conditional_independence_loss",
    "cs_loss",
    "djp_mmd_loss",
    "jmmd_loss",
    "mk_mmd_loss",
    "mmd_loss",
]
