"""Rollouts of compiled agents in compiled environments: thousands of steps without Python in between."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from condcs._core.arrays import ByValue, FloatArray, IntArray
from condcs._core.checks import check_choice, check_integer, check_rng
from condcs._core.compiling import njit
from condcs._core.errors import public
from condcs._measures import sliding_loops
from condcs._measures.operator import conditional_mmd
from condcs.explore import Hyperparameters
from condcs.explore import _kernel_td as kernel_td
from condcs.explore._buffer import BUFFER_MEASURES, neighbour_divergence
from condcs.explore._kernel_td import AHEAD, CURRENT, HERE
from condcs.explore._rewards import local_reward
from condcs_reproduction.exploration import METHODS as GYMNASIUM_METHODS
from condcs_reproduction.exploration import TASKS
from condcs_reproduction.exploration.tasks import NAMES, EnvironmentName
from condcs_reproduction.exploration_environments import MAZE, Environment, observe, step

Reward = Literal[
    "nothing",
    "extrinsic",
    "goal",
    "entropy",
    "relative_entropy",
    "local",
    "conditional_cs",
    "conditional_euclidean",
    "joint_mmd",
    "conditional_kl",
    "conditional_mmd",
]
REWARDS: tuple[Reward, ...] = get_args(Reward)
"""What agents learn from: those of `condcs.explore`, the environment's reward, 1 at the goal, minus the log density of
visited states, and the same relative to the uniform density."""

# Rewards by number, in the order of `REWARDS`. The last two are estimated outside the compiled loop.
NOTHING, EXTRINSIC, GOAL, ENTROPY, RELATIVE_ENTROPY, LOCAL, CS, EUCLIDEAN, MMD, GIVEN = range(10)
_GIVEN = REWARDS[GIVEN:]

METHODS: dict[str, str] = {
    "random": GYMNASIUM_METHODS["random"].title,
    "q-learning": "Q-learning",
    "maxent": "MaxEnt",
    "maxent-relative": "MaxEnt, relative to uniform",
    **{name: method.title for name, method in GYMNASIUM_METHODS.items() if name != "random"},
}
"""Methods for gymnasium's environments and the paper's other rivals, with their names in tables."""


@dataclass(frozen=True)
class PaperSettings(Hyperparameters):
    """Settings of an agent, those of the entropy reward among them.

    Attributes
    ----------
    bins : int
        Bins of each column of the state in the entropy reward (of a maze: its cells).
    rollout_steps : int
        Steps between two updates of the density in the entropy reward.
    """

    reward: Reward = "nothing"  # type: ignore[assignment]
    bins: int = 20
    rollout_steps: int = 1_000


def paper_settings(environment: EnvironmentName, method: str) -> PaperSettings:
    """Return the settings of a method in one of the paper's environments.

    Examples
    --------
    >>> paper_settings("maze", "q-learning").epsilon
    0.5
    """
    check_choice("method", method, tuple(METHODS))
    task = TASKS[check_choice("environment", environment, NAMES)]
    if method in GYMNASIUM_METHODS:
        return PaperSettings(**GYMNASIUM_METHODS[method].settings(task).as_dict())
    base = PaperSettings(**{**task.settings.as_dict(), "initial_value": 0.0})
    if method == "q-learning":
        # The pendulum's reward is dense and negative: an initial value of 0 is optimistic, without random actions.
        dense = environment == "pendulum"
        return replace(base, epsilon=0.0 if dense else 0.5, reward="extrinsic" if dense else "goal")
    return replace(base, epsilon=0.1, reward="entropy" if method == "maxent" else "relative_entropy")


# Entries of `AgentArrays.options`.
EPSILON, BANDWIDTH, CHANGE, NOVELTY = range(4)
# Entries of `Visits.counters`: states counted, and steps between two updates of the density.
COUNTED, EPOCH = range(2)

compiled = njit(nogil=True)


class Visits(NamedTuple):
    """A histogram of visited states.

    Attributes
    ----------
    counts, frozen : arrays of shape (product of bins,)
        Visits of each bin so far, and those at the last update of the density.
    bins, resolution : arrays of shape (d_s,)
        Number of bins of each column, and bins per unit of what the kernel sees.
    counters : array of shape (2,)
        States counted; steps between two updates of `frozen`.
    """

    counts: FloatArray
    frozen: FloatArray
    bins: IntArray
    resolution: FloatArray
    counters: IntArray


class AgentArrays(NamedTuple):
    """An agent as plain arrays.

    Attributes
    ----------
    reward : int
        What it learns from.
    values : ValueArrays
        Its value function.
    window : Window
        Its transitions, where the reward is a divergence.
    pushed : array of shape (1,)
        How many transitions were recorded.
    visits : Visits
        States visited, where the reward is an entropy.
    options : array of shape (4,)
        Probability of a random action, bandwidth of the kernel, weights of local divergence and novelty.
    """

    reward: int
    values: Any
    window: Any
    pushed: IntArray
    visits: Any
    options: FloatArray


@compiled
def bin_of(seen: Any, bins: Any, resolution: Any) -> Any:
    """Return the number of the bin that holds a state."""
    index = 0
    for c in range(seen.size):
        # Cells of a maze lie on the edges of bins: rounding must not push them into the bin below.
        place = min(max(int(seen[c] * resolution[c] + 1e-9), 0), bins[c] - 1)
        index = index * bins[c] + place
    return index


@compiled
def entropy_reward(visits: Any, upcoming: Any, relative: bool) -> Any:
    """Count a visit and return minus the log density there, as it was at its last update."""
    counts, frozen, counters = visits.counts, visits.frozen, visits.counters
    index = bin_of(upcoming, visits.bins, visits.resolution)
    counts[index] += 1
    counters[COUNTED] += 1
    if counters[COUNTED] % counters[EPOCH] == 0:
        frozen[:] = counts
    total = counters[COUNTED] // counters[EPOCH] * counters[EPOCH]
    density = (frozen[index] + 1.0) / (total + frozen.size)
    return -math.log(density * frozen.size if relative else density)


@compiled
def intrinsic_reward(agent: Any, seen: Any, action: Any, upcoming: Any, given: float) -> Any:
    """Record a transition and return the reward that the agent makes for itself; `action` is a vector."""
    if agent.reward == ENTROPY or agent.reward == RELATIVE_ENTROPY:
        return entropy_reward(agent.visits, upcoming, agent.reward == RELATIVE_ENTROPY)
    if agent.reward < LOCAL:
        return 0.0
    d = seen.size
    row = np.empty(2 * d + action.size)
    row[:d] = seen
    row[d : d + action.size] = action
    row[d + action.size :] = upcoming - seen if agent.reward == LOCAL else upcoming
    sliding_loops.push(agent.window, agent.pushed[0], row)
    slot = agent.pushed[0] % agent.window.group.size
    agent.pushed[0] += 1
    if agent.reward == LOCAL:
        return local_reward(agent.window, slot, d, agent.options[CHANGE], agent.options[NOVELTY])
    if agent.reward == GIVEN:
        return given
    sizes = agent.window.sizes
    if min(sizes[sliding_loops.OLD], sizes[sliding_loops.NEW]) < 2:
        return 0.0
    if agent.reward == CS:
        return sliding_loops.window_conditional_cs(agent.window)
    if agent.reward == EUCLIDEAN:
        return sliding_loops.window_conditional_euclidean(agent.window)
    return sliding_loops.window_joint_mmd(agent.window)


@compiled
def _rollout(
    environment: Any, agent: Any, state: Any, steps: int, rng: Any, given: float, until_goal: bool, path: Any
) -> Any:
    """Let the agent act for up to `steps` steps from `state`, which ends as the last state.

    Returns the number of steps taken and of goals reached, and the step that first reached one (-1: none). States after
    each step are written to `path` as long as it has room. At the goal the rollout ends or, if not `until_goal`, goes
    on from the start.
    """
    values = agent.values
    scale = 1.0 / agent.options[BANDWIDTH]
    seen, upcoming = np.empty(environment.low.size), np.empty(environment.low.size)
    observe(environment, state, seen)
    n_actions = environment.actions.shape[0]
    is_random = agent.options[EPSILON] >= 1.0
    if not is_random:
        kernel_td.look(values, HERE, seen, scale)
    goals, first = 0, -1
    for t in range(steps):
        if is_random:
            action = int(rng.integers(0, n_actions))
        else:
            action = kernel_td.choose(values.q[values.sizes[CURRENT]], agent.options[EPSILON], rng)
        reward, reached = step(environment, state, action)
        observe(environment, state, upcoming)
        if t < path.shape[0]:
            path[t] = state
        if not is_random:
            kernel_td.look(values, AHEAD, upcoming, scale)
            if agent.reward == GOAL:
                reward = 1.0 if reached else 0.0
            elif agent.reward != EXTRINSIC:
                reward = intrinsic_reward(agent, seen, environment.actions[action], upcoming, given)
            kernel_td.learn(values, action, reward, reached)
        seen[:] = upcoming
        if reached:
            goals += 1
            if first < 0:
                first = t + 1
            if until_goal:
                return t + 1, goals, first
            state[:] = environment.start
            observe(environment, state, seen)
            if not is_random:
                kernel_td.look(values, AHEAD, seen, scale)
        if not is_random:
            kernel_td.advance(values)
    return steps, goals, first


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
        State after each step (position and velocity; angle and speed; column and row), if it was asked for.
    centres : int
        Size of the value function's dictionary.
    """

    steps: int
    goals: int
    first_goal: int
    path: FloatArray
    centres: int

    @property
    def reached(self) -> bool:
        """Whether the goal was reached."""
        return self.goals > 0


@public
def rollout(
    environment: Environment,
    settings: PaperSettings,
    *,
    steps: int = 50_000,
    until_goal: bool = True,
    keep_path: bool = False,
    rng: int | np.random.Generator | None = None,
) -> Rollout:
    """Let an agent explore a compiled environment.

    The same steps as `make_agent` in the gymnasium environment, one by one, with the same generator. One thing differs:
    an estimate of the conditional KL or of the conditional MMD is used one step later here.

    Parameters
    ----------
    environment : Environment
        From `compiled_environment`.
    settings : PaperSettings
        From `paper_settings`.
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
        Steps, goals and, if asked for, the path.

    Examples
    --------
    >>> from condcs_reproduction.exploration_environments import compiled_environment
    >>> environment = compiled_environment("maze", rows=3, rng=0)
    >>> rollout(environment, paper_settings("maze", "random"), steps=1_000, rng=0).reached
    True
    """
    steps, rng = check_integer("steps", steps, 1), check_rng(rng)
    agent = compiled_agent(environment, settings)
    state = environment.start.copy()
    path = np.empty((steps if keep_path else 0, len(state)))
    # Where the reward is estimated outside the loop, pieces end when an estimate is due, for the step that follows.
    longest = settings.refresh_every if settings.reward in _GIVEN else steps
    done, goals, when, given = 0, 0, -1, 0.0
    while done < steps and not (goals and until_goal):
        piece, part = min(longest, steps - done), path[done:] if keep_path else path
        taken, reached, first = _rollout(environment, agent, state, piece, rng, given, until_goal, part)
        when = done + int(first) if when < 0 <= first else when
        done, goals = done + int(taken), goals + int(reached)
        if settings.reward in _GIVEN:
            given = _estimate(settings.reward, agent.window)
    return Rollout(done, goals, when, path[:done], int(agent.values.sizes[kernel_td.COUNT]))


def compiled_agent(environment: Environment, settings: PaperSettings) -> AgentArrays:
    """Return the agent that the settings describe, as plain arrays."""
    check_choice("reward", settings.reward, REWARDS)
    dim, (_, dim_action) = len(environment.low), environment.actions.shape
    capacity = settings.buffer if settings.reward in (*BUFFER_MEASURES, "local") else 4
    widths = np.full(2 * dim + dim_action, settings.bandwidth)
    cells = environment.passages.shape[1::-1] if environment.kind == MAZE else None
    bins, resolution = histogram_bins(settings, environment.scale, cells)
    return AgentArrays(
        min(REWARDS.index(settings.reward), GIVEN),
        settings.value_function(dim, environment.actions).arrays,
        sliding_loops.empty_window(capacity, dim + dim_action, widths),
        np.zeros(1, np.int64),
        no_visits(bins, resolution, settings.rollout_steps),
        np.array([settings.epsilon, settings.bandwidth, settings.change, settings.novelty]),
    )


def histogram_bins(settings: PaperSettings, scale: Any, cells: Any) -> tuple[Any, Any]:
    """Return the bins of each column and the bins per unit: the cells of a maze, or equal parts of the unit range."""
    if cells is not None:
        return np.asarray(cells).astype(np.int64), 1.0 / scale
    return np.full(len(scale), settings.bins), np.full(len(scale), float(settings.bins))


def no_visits(bins: Any, resolution: Any, rollout_steps: int) -> Visits:
    """Return an empty histogram."""
    bins, counts = np.array(bins, np.int64), np.zeros(int(np.prod(bins)))
    return Visits(counts, counts.copy(), bins, np.array(resolution, np.float64), np.array([0, rollout_steps]))


def _estimate(measure: str, window: Any) -> float:
    """Return a divergence between the halves of a window that has no running sums."""
    dim_x = int(window.sizes[sliding_loops.DIM_X])
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
