r"""Rewards of transitions, for agents and wrappers alike: the divergence of a buffer's halves, and the local reward.

The local reward is for places where p(next state | state, action) has changed, and for what the buffer has hardly seen.
Its response is the displacement, next state minus state. With the next state itself the kernel average around (s, a)
moves with the places that each half of the buffer happens to have visited, and halves differ where nothing changed.

1. The *local divergence* at the last transition is the conditional CS divergence of the halves in which row j counts
   with the weight :math:`w_j = K(x, x_j)`,

   .. math:: T_x[g, h] = \sum_{j \in g} w_j \frac{B_{jh}}{A_{jg} A_{jh}}, \qquad
             D(x) = \log \frac{T_x[o, o] \, T_x[n, n]}{T_x[o, n] \, T_x[n, o]},

   less what is due to chance. It falls to 0 as the old half takes over the new rows.
2. *Novelty* is the kernel mass of arrivals in the buffer near the next state, itself included, to the power -3/4.
   What has left the buffer is new again, so that an agent returns to see whether it still holds. (With -1/2 the agent
   stays too long where it is; with -1 it hardly sees a difference between places that it knows.)

Both cost O(buffer) with the running sums of `condcs._measures.sliding_loops`.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.checks import check_choice
from condcs._core.compiling import njit
from condcs._core.errors import ParameterError
from condcs._core.printable import Printable
from condcs._measures import sliding_loops
from condcs._measures.sliding_loops import window_terms
from condcs.explore._buffer import BUFFER_MEASURES, BufferMeasure, TransitionBuffer

CHANCE = 2.0
"""How many times its expectation under no change the local divergence must exceed to count."""

DECAY = 0.75
"""Novelty is the number of arrivals to minus this power."""

ENOUGH = 1.0
"""Kernel mass that each half must have around a row for a comparison."""

# Rows with a smaller log kernel value, 1e-11, are left out: sums of them are beside a mass of at least `ENOUGH`.
_NEGLIGIBLE = -25.0
_OLD, _NEW = 0, 1

_compiled = njit(nogil=True)


@_compiled
def local_divergence(window: Any, slot: int) -> Any:
    r"""Return the divergence of the groups around the row in `slot`, and its expectation if nothing changed.

    Of n responses the mean embedding has a squared norm of m + (1 - m) / n in expectation, where m is the mean
    similarity of two of them. So the expectation is about :math:`\log(1 + v / n_o) + \log(1 + v / n_n)` with
    :math:`v = (1 - m) / m` and kernel masses :math:`n_o, n_n`. Both values are 0 where a group has too little mass.
    """
    sums, shifts, rests, group = window.sums, window.shifts, window.rests, window.group
    if shifts[_OLD, slot] != 0.0 or shifts[_NEW, slot] != 0.0:
        return 0.0, 0.0
    n_old, n_new = sums[_OLD, slot], sums[_NEW, slot]
    if n_old < ENOUGH or n_new < ENOUGH:
        return 0.0, 0.0
    near = window.work[4]
    sliding_loops._exponents(window, slot, near, window.work[5])
    within, cross, total = np.zeros(2), np.zeros(2), np.zeros(2)
    for j in range(window.sizes[sliding_loops.ROWS]):
        if near[j] < _NEGLIGIBLE:
            continue
        weight, g = math.exp(near[j]), group[j]
        h = 1 - g
        # The own masses contain the row itself, so that only those of the other group can be too small for a double.
        shift = (shifts[2 + h, j] - shifts[h, j]) + (rests[2 + h, j] - rests[h, j])
        within_term, cross_term = window_terms(sums[g, j], sums[2 + g, j], sums[h, j], sums[2 + h, j])
        within[g] += weight * within_term
        cross[g] += weight * cross_term * math.exp(shift)
        total[g] += weight / sums[g, j]
    if min(cross[_OLD], cross[_NEW]) <= 0.0:
        return 0.0, 0.0
    divergence = math.log(within[_OLD]) + math.log(within[_NEW]) - math.log(cross[_OLD]) - math.log(cross[_NEW])
    similarity = math.sqrt(cross[_OLD] / total[_OLD] * cross[_NEW] / total[_NEW])
    spread = max(0.0, 1.0 - similarity) / similarity
    return divergence, math.log1p(spread / n_old) + math.log1p(spread / n_new)


@_compiled
def arrivals_near(window: Any, slot: int, dim_state: int) -> Any:
    """Return the kernel mass of arrivals (state plus displacement) near that of the row in `slot`."""
    values, dim_x, scales = window.values, window.sizes[sliding_loops.DIM_X], window.inverse_widths
    mass = 0.0
    for j in range(window.sizes[sliding_loops.ROWS]):
        exponent = 0.0
        for c in range(dim_state):
            difference = (values[c, j] - values[c, slot]) + (values[dim_x + c, j] - values[dim_x + c, slot])
            exponent -= 0.5 * (difference * scales[c]) ** 2
        if exponent > _NEGLIGIBLE:
            mass += math.exp(exponent)
    return mass


@_compiled
def local_reward(window: Any, slot: int, dim_state: int, change: float, novelty: float) -> Any:
    """Return the reward of the transition in `slot`, the last one."""
    divergence, by_chance = local_divergence(window, slot)
    changed = max(0.0, divergence - CHANCE * by_chance)
    return change * changed + novelty * arrivals_near(window, slot, dim_state) ** -DECAY


class LocalReward(Printable):
    """The local reward of transitions, one after the other: `change` times local divergence, `novelty` times novelty.

    Parameters
    ----------
    size : int
        Transitions of both halves of the buffer; even.
    dim_state, dim_action : int
        Numbers in a state and in the vector of an action.
    bandwidth : float
        Bandwidth of all kernels.
    change, novelty : float
        Weights of the two parts.
    """

    def __init__(
        self,
        size: int,
        dim_state: int,
        dim_action: int,
        *,
        bandwidth: float = 0.1,
        change: float = 0.25,
        novelty: float = 2.0,
    ) -> None:
        self.dim_state, self.change, self.novelty = dim_state, change, novelty
        self.buffer = TransitionBuffer(
            size, dim_state + dim_action, dim_state, bandwidth_x=bandwidth, bandwidth_y=bandwidth
        )

    def reward(self, state: FloatArray, action: Any, upcoming: FloatArray) -> float:
        """Record a transition and return its reward; `action` is a vector."""
        self.buffer.push(np.concatenate([state, action]), upcoming - state)
        slot = (self.buffer.pushed - 1) % self.buffer.size
        return float(local_reward(self.buffer.window, slot, self.dim_state, self.change, self.novelty))


DivergenceForm = Literal["level", "change", "surprise"]


class DivergenceReward(Printable):
    """The divergence of the halves of a buffer as the reward of the last transition: divergence-to-go.

    Parameters
    ----------
    buffer : TransitionBuffer
        x is state and action, y the next state.
    measure : {"conditional_cs", "conditional_euclidean", "joint_mmd", "conditional_mmd", "conditional_kl"}
        A measure of the buffer.
    form : {"level", "change", "surprise"}
        The divergence after the transition, the paper's reward; its change by the transition; or, for "conditional_cs"
        only, the log ratio of the densities of the next state given state and action in the newer and the older half.
    """

    def __init__(
        self, buffer: TransitionBuffer, *, measure: BufferMeasure = "conditional_cs", form: DivergenceForm = "level"
    ) -> None:
        self.buffer, self.measure = buffer, check_choice("measure", measure, BUFFER_MEASURES)
        self.form = check_choice("form", form, get_args(DivergenceForm))
        check_form_of_measure(form, measure)
        self._level = 0.0

    def reward(self, state: FloatArray, action: Any, upcoming: FloatArray) -> float:
        """Record a transition and return its reward; `action` is a vector."""
        self.buffer.push(np.concatenate([state, action]), upcoming)
        if self.form == "surprise":
            return self.buffer.surprise()
        previous, self._level = self._level, self.buffer.divergence(self.measure)
        return self._level if self.form == "level" else self._level - previous


TransitionReward = LocalReward | DivergenceReward


def check_form_of_measure(form: str, measure: BufferMeasure) -> None:
    """Check that a form of reward is defined for a measure."""
    if form in ("local", "surprise") and measure != "conditional_cs":
        raise ParameterError(
            f'`form`="{form}" must go with measure="conditional_cs", got {measure!r}. Pass form="level".'
        )
