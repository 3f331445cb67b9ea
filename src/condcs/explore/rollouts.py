"""Rollouts without Python between the steps: what the full tables need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs.core.checks import check_choice, check_integer
from condcs.core.equality import ByValue
from condcs.core.errors import public
from condcs.core.random import check_rng
from condcs.explore.agents import histogram_bins
from condcs.explore.buffer import BUFFER_MEASURES, neighbour_divergence
from condcs.explore.kernel_td import KernelTD
from condcs.explore.settings import Hyperparameters

_SIMPLE = ("nothing", "extrinsic", "goal", "entropy", "relative_entropy", "count", "prediction")
_REWARDS = (*_SIMPLE, "conditional_cs", "conditional_euclidean", "joint_mmd")
_GIVEN = ("conditional_kl", "conditional_mmd")

PREDICTOR_FEATURES, PREDICTOR_OUTPUTS = 64, 8
"""Size of the random network and of its predictor, where the reward is a prediction error."""


@dataclass(frozen=True, eq=False)
class Rollout(ByValue):
    """What came of a rollout.

    Attributes
    ----------
    steps : int
        Steps taken.
    goals : int
        Times that the goal was reached.
    first_goal : int
        The step that first reached it; -1 if none did.
    path : array of shape (steps, 2)
        State after each step (position and velocity; angle and speed; column and row), if it was wanted.
    centres : int
        Size of the value function's dictionary.
    """

    steps: int
    goals: int
    first_goal: int
    path: np.ndarray[Any, Any]
    centres: int

    @property
    def reached(self) -> bool:
        """Whether the goal was reached."""
        return self.goals > 0


@public
def rollout(
    environment: Any,
    settings: Hyperparameters,
    *,
    steps: int = 50_000,
    until_goal: bool = True,
    keep_path: bool = False,
    rng: int | np.random.Generator | None = None,
) -> Rollout:
    """Let an agent explore a compiled environment.

    The same steps as `make_agent` in the gymnasium environment, one by one, with the same generator (but an estimate
    of the conditional KL is used one step later here).

    Parameters
    ----------
    environment : Environment
        From `compiled_environment`.
    settings : Hyperparameters
        From `hyperparameters`.
    steps : int
        Longest rollout.
    until_goal : bool
        Whether to end at the goal; otherwise the environment starts again there.
    keep_path : bool
        Whether to keep the state after each step.
    rng : int or Generator, optional
        Random actions and ties.

    Returns
    -------
    Rollout
        Steps, goals and, if wanted, the path.

    Examples
    --------
    >>> from condcs.explore import compiled_environment, hyperparameters
    >>> environment = compiled_environment("maze", rows=3, rng=0)
    >>> rollout(environment, hyperparameters("maze", "random"), steps=1_000, rng=0).reached
    True
    """
    from condcs.explore import rollout_loops

    steps, rng = check_integer("steps", steps, 1), check_rng(rng)
    agent = compiled_agent(environment, settings, rng)
    state = environment.start.copy()
    path = np.empty((steps if keep_path else 0, len(state)))
    if settings.reward not in _GIVEN:
        taken, goals, first = rollout_loops.rollout(environment, agent, state, steps, rng, 0.0, until_goal, path)
        return Rollout(int(taken), int(goals), int(first), path[:taken], int(agent.values.sizes[0]))
    done, goals, when, given = 0, 0, -1, 0.0
    while done < steps and not (goals and until_goal):
        # Pieces end where the divergence is due: it is estimated after the push, for the step that follows it.
        piece = min(settings.refresh_every, steps - done)
        part = path[done:] if keep_path else path
        taken, reached, first = rollout_loops.rollout(environment, agent, state, piece, rng, given, until_goal, part)
        when = done + int(first) if when < 0 <= first else when
        done, goals = done + int(taken), goals + int(reached)
        given = _estimate(settings.reward, agent.window)
    return Rollout(done, goals, when, path[:done], int(agent.values.sizes[0]))


def compiled_agent(environment: Any, settings: Hyperparameters, rng: np.random.Generator) -> Any:
    """Return the agent that the settings describe, as plain arrays; `rng` draws the features of its predictor."""
    from condcs.explore import dynamics, rollout_loops
    from condcs.measures import sliding_loops

    names = (*_REWARDS, *_GIVEN)
    check_choice("reward", settings.reward, names)
    code = min(names.index(settings.reward), rollout_loops.GIVEN)
    dim, (_, dim_action) = len(environment.low), environment.actions.shape
    value = KernelTD(
        dim,
        environment.actions,
        width=settings.width,
        learning_rate=settings.learning_rate,
        discount=settings.discount,
        initial_value=settings.initial_value,
        merge_radius=settings.merge_radius,
        capacity=settings.dictionary,
    )
    capacity = settings.buffer if settings.reward in BUFFER_MEASURES else 4
    window = sliding_loops.empty_window(capacity, dim + dim_action, np.full(2 * dim + dim_action, settings.width))
    cells = None
    if environment.kind >= dynamics.MAZE:
        # Beyond column and row there is the screen of a changing room.
        cells = [*environment.passages.shape[1::-1], settings.bins][:dim]
    bins, resolution = histogram_bins(settings, environment, cells)
    counts = np.zeros(int(np.prod(bins)) if settings.reward in ("entropy", "relative_entropy", "count") else 1)
    n_features = PREDICTOR_FEATURES if settings.reward == "prediction" else 1
    frequencies, phases = np.zeros((n_features, dim)), np.zeros(n_features)
    target = np.zeros((PREDICTOR_OUTPUTS, n_features))
    if settings.reward == "prediction":
        frequencies = rng.normal(size=frequencies.shape) / settings.width
        phases = rng.uniform(0, 2 * np.pi, size=n_features)
        target = rng.normal(size=target.shape) * np.sqrt(2 / n_features)
    return rollout_loops.Agent(
        code,
        value.arrays,
        window,
        counts,
        counts.copy(),
        bins,
        resolution,
        frequencies,
        phases,
        target,
        np.zeros_like(target),
        np.array([settings.epsilon, settings.width]),
        np.array([0, 0, 0, settings.rollout_steps]),
    )


def _estimate(measure: str, window: Any) -> float:
    from condcs.measures.operator import conditional_mmd

    dim_x = int(window.sizes[0])
    halves = []
    for g in (0, 1):
        rows = window.values[:, window.group == g].T
        halves.append((np.ascontiguousarray(rows[:, :dim_x]), np.ascontiguousarray(rows[:, dim_x:])))
    if min(len(x) for x, _ in halves) < 2:
        return 0.0
    if measure == "conditional_kl":
        return neighbour_divergence(*halves)
    widths = 1.0 / window.inverse_widths
    return float(conditional_mmd(*halves[0], *halves[1], bandwidth_x=widths[:dim_x], bandwidth_y=widths[dim_x:]))
