r"""Why the mean loss changed: inputs that moved, inputs that are new, or the relation (DISDE).

The change of the mean loss between two samples is the sum of three steps (Cai, Namkoong, Yadlowsky, arXiv 2303.02011):
from the first sample's inputs to those that both samples have, from the first sample's relation to the second's on
these, and from there to the second sample's inputs. The four means between which these steps lead are estimated by
`common_support.MeansOnSupport`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.arrays import NUMPY, Array, FloatArray
from condcs._core.checks import (
    check_integer,
    check_probability,
    check_rng,
    check_same_rows,
    check_variable,
    numpy_parts,
)
from condcs._core.errors import ShapeError, public
from condcs._core.printable import Printable, alike
from condcs._inference.common_support import (
    CommonSupport,
    MeansOnSupport,
    common_support,
    some_rows,
    student_quantile,
)
from condcs._inference.results import Estimate, around, estimate_fields
from condcs._kernels.named_kernels import Kernel, check_kernel
from condcs._regression.smoother import Smoother

_MOST_ROWS = 20_000
"""Rows of each sample that the split is made of; of longer samples as many are drawn at random. Resamples of more would
narrow the intervals little, at a cost that grows with the rows."""

_FEWEST_ROWS = 20
"""Rows that each sample must have: in each, the loss is regressed on x."""

_FEWEST_RESAMPLES = 50
"""Resamples of an interval: with so many, a standard error is itself off by a tenth."""

_PART_WORDS = {
    "inputs_moved": "inputs that both have, more or less often",
    "new_inputs": "inputs that are new",
    "relation": "the relation of y to the inputs",
}
"""Parts of the change, in words."""


@dataclass(frozen=True)
class LossChange(Printable):
    """The change of a mean loss and its parts, each with its interval; the parts add up to the total.

    Attributes
    ----------
    total : Estimate
        Mean loss of the second sample minus that of the first.
    inputs_moved : Estimate
        Because the inputs that both samples have became more or less frequent.
    new_inputs : Estimate
        Because of inputs of the second sample that hardly occur in the first.
    relation : Estimate
        Because the loss differs for equal inputs.
    reference, current : float
        Mean losses of the first and of the second sample.
    confidence_level : float
        Of the intervals.
    """

    total: Estimate
    inputs_moved: Estimate
    new_inputs: Estimate
    relation: Estimate
    reference: float
    current: float
    confidence_level: float = 0.95

    @property
    def parts(self) -> dict[str, Estimate]:
        """The three parts by name."""
        return {name: getattr(self, name) for name in _PART_WORDS}

    def __str__(self) -> str:
        """Table of the parts."""
        width = max(len(words) for words, *_ in self.rows)
        lines = ["mean loss: {} before, {} now".format(*self.levels)]
        lines += [f"{words:<{width}}  {value:>10}  ({low} to {high})" for words, value, low, high in self.rows]
        return "\n".join(lines)

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """Each part and their sum as text: name, estimate, and the ends of its interval, all rounded alike."""
        parts = [*((_PART_WORDS[name], part) for name, part in self.parts.items()), ("together", self.total)]
        # One precision for all of them: numbers that add up should be seen to do so.
        length = self.total.high - self.total.low
        return [(words, *alike(*part, length=length, signed=True)) for words, part in parts]  # type: ignore[misc]

    @property
    def levels(self) -> list[str]:
        """The mean losses of both samples as text."""
        return alike(self.reference, self.current, length=self.total.high - self.total.low)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        levels = {"reference": self.reference, "current": self.current, "confidence_level": self.confidence_level}
        parts = {name: estimate_fields(part) for name, part in self.parts.items()}
        return {**levels, "total": estimate_fields(self.total), **parts}


@public
def loss_change(
    xp: Array,
    loss_p: Array,
    xq: Array,
    loss_q: Array,
    *,
    kernel_x: Kernel = "gaussian",
    confidence_level: float = 0.95,
    n_resamples: int = 300,
    rng: int | np.random.Generator | None = 0,
) -> LossChange:
    r"""Split the change of a model's mean loss into inputs that moved, inputs that are new, and the relation.

    With densities p and q of x in the samples and mean losses given x of :math:`\ell_p(x)` and :math:`\ell_q(x)`, let S
    be the distribution of x with a density proportional to :math:`p q / (p + q)`, the inputs that both have. Then the
    change of the mean loss is :math:`(E_S \ell_p - E_p \ell_p) + (E_q \ell_q - E_S \ell_q) + (E_S \ell_q - E_S
    \ell_p)`: inputs moved, new inputs, relation. The estimates are doubly robust; what errors of the regressions on x
    contribute is part of the intervals, which come from rows drawn again. Cost O(n p (p + B)) with p functions of x and
    B resamples; of samples longer than 20,000 rows that many are drawn.

    Parameters
    ----------
    xp, xq : array
        Inputs of the two samples.
    loss_p, loss_q : array
        Loss of each row: of a model that saw neither sample, or was fitted to rows of neither.
    kernel_x : str or sequence of str
        "gaussian" for numbers, "delta" for labels, or one of these per column.
    confidence_level : float
        Coverage of the intervals.
    n_resamples : int
        Resamples for the intervals, at least 50.
    rng : int or Generator, optional
        Seed.

    Returns
    -------
    LossChange
        `total`, `inputs_moved`, `new_inputs` and `relation`, each with `value`, `low` and `high`; prints as a table.

    Examples
    --------
    The loss grows with x, x has moved, and the relation is the same:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> xp, xq = rng.normal(size=500), rng.normal(0.8, 1, size=500)
    >>> change = loss_change(xp, np.exp(xp / 2), xq, np.exp(xq / 2))
    >>> change.total.low > 0, change.relation.low < 0 < change.relation.high
    (True, True)
    """
    level = check_probability("confidence_level", confidence_level, 0.95)
    check_integer("n_resamples", n_resamples, _FEWEST_RESAMPLES)
    generator = check_rng(rng)
    option = check_kernel("kernel_x", kernel_x)
    x_parts, loss_parts = numpy_parts(xp=xp, xq=xq), numpy_parts(loss_p=loss_p, loss_q=loss_q)
    x = check_variable(
        x_parts, NUMPY, np.float64, labels=option.labels, kernel_option=option.option, min_rows=_FEWEST_ROWS
    )
    losses = check_variable(loss_parts, NUMPY, np.float64, stem="loss", min_rows=_FEWEST_ROWS)
    check_same_rows(x, x_parts, losses, loss_parts)
    if losses.values.shape[1] != 1:
        raise ShapeError(
            f"`loss_p` and `loss_q` must have one column, got {losses.values.shape[1]}. Pass one loss per row."
        )
    rows, sizes = some_rows((x.sizes[0], x.sizes[1]), _MOST_ROWS, generator)
    smoother = Smoother(x.values[rows], x.labels)
    support = common_support(smoother, sizes, generator)
    return split_change(support, losses.values[rows, 0], level, n_resamples, generator)


def split_change(
    support: CommonSupport, loss: FloatArray, confidence_level: float, n_resamples: int, rng: np.random.Generator
) -> LossChange:
    """Split the change of the mean of a column over the rows of two samples."""
    means = MeansOnSupport.of(support, loss, n_resamples, rng)
    observed, redrawn, influence = map(_differences, (means.observed, means.redrawn, means.influence))

    def estimate(name: str) -> Estimate:
        reach = student_quantile(confidence_level, influence[name]) * float(redrawn[name].std())
        return around(float(observed[name]), reach, confidence_level)

    return LossChange(
        **{name: estimate(name) for name in ("total", *_PART_WORDS)},
        reference=float(means.observed[0]),
        current=float(means.observed[3]),
        confidence_level=confidence_level,
    )


def _differences(means: FloatArray) -> dict[str, FloatArray]:
    """Return the total and its parts: differences between the four means of `MeansOnSupport` (4, or 4 x B)."""
    first, first_on_common, second_on_common, second = means
    return {
        "total": second - first,
        "inputs_moved": first_on_common - first,
        "new_inputs": second - second_on_common,
        "relation": second_on_common - first_on_common,
    }
