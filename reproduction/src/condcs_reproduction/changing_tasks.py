"""Four tasks whose dynamics change once, and planners that meet them with and without a change signal.

The best return is the same before and after each change (a mirrored map, reversed actions), so that a learner has
recovered when it does as well as it could before.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Literal

import gymnasium
import numpy as np

from condcs._core.compiling import njit
from condcs.adapters import DynamicsMonitor

MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Rows and columns of the actions left, down, right, up."""

Signal = Literal["none", "monitor", "page-hinkley"]
Bonus = Literal["none", "count", "prediction"]


class ChangingGrid(gymnasium.Env):
    """A grid with walls and holes; `change` puts another map in place of the first.

    Each step costs 1, and a hole 100 more; a hole or the goal ends an episode.

    Parameters
    ----------
    before, after : sequence of str
        Maps: ``S`` start, ``G`` goal, ``#`` wall, ``H`` hole, ``.`` free.
    slip : float
        Probability that a step goes to one side of its direction instead.
    """

    def __init__(self, before: tuple[str, ...], after: tuple[str, ...], slip: float = 0.0) -> None:
        self._maps, self.slip = (before, after), slip
        self.rows, self.columns = len(before), len(before[0])
        self.observation_space = gymnasium.spaces.Discrete(self.rows * self.columns)
        self.action_space = gymnasium.spaces.Discrete(4)
        self.map = before
        self._start = next((r, row.index("S")) for r, row in enumerate(before) if "S" in row)
        self.cell = self._start

    def change(self) -> None:
        """Put the second map in place."""
        self.map = self._maps[1]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Go to the start."""
        super().reset(seed=seed)
        self.cell = self._start
        return self._observation(), {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Go to a neighbouring cell unless a wall is there."""
        if self.slip and self.np_random.random() < self.slip:
            action = (int(action) + (1 if self.np_random.random() < 0.5 else 3)) % 4
        row, column = self.cell[0] + MOVES[action][0], self.cell[1] + MOVES[action][1]
        if 0 <= row < self.rows and 0 <= column < self.columns and self.map[row][column] != "#":
            self.cell = (row, column)
        kind = self.map[self.cell[0]][self.cell[1]]
        return self._observation(), -101.0 if kind == "H" else -1.0, kind in "HG", False, {}

    def _observation(self) -> int:
        return self.cell[0] * self.columns + self.cell[1]


def _rooms() -> tuple[tuple[str, ...], tuple[str, ...]]:
    rows = [["."] * 11 for _ in range(9)]
    for row in rows:
        row[5] = "#"
    rows[4][0], rows[4][10] = "S", "G"
    rows[0][5] = "."
    before = tuple("".join(row) for row in rows)
    return before, before[::-1]


# Ice around rocks, with two ways to the goal; a hole is in the one, then in the other.
_LAKE = (
    "S...H...",
    ".######.",
    ".######.",
    ".######.",
    ".######.",
    ".######.",
    ".######.",
    ".......G",
)


def _reverse_force(environment: Any) -> None:
    inner = environment.unwrapped
    if hasattr(inner, "force_mag"):
        inner.force_mag = -inner.force_mag
    else:
        inner.force = -inner.force


def _bins(*edges: Any) -> Callable[[Any], int]:
    """Return the number of the bin of an observation, with edges for each column."""
    columns = [[float(e) for e in column] for column in edges]

    def number(observation: Any) -> int:
        place = 0
        for value, column in zip(observation, columns, strict=True):
            place = place * (len(column) + 1) + bisect_left(column, value)
        return place

    return number


@dataclass(frozen=True)
class ChangingTask:
    """A task.

    Attributes
    ----------
    make : callable
        Makes the environment.
    change : callable
        Changes its dynamics.
    number : callable
        From an observation to the number of a state, of which there are `n_states`.
    n_states : int
        Number of states of the learner.
    limit : int
        Steps after which an episode is cut off.
    steps, at : int
        Length of a run, and the step before which the dynamics change.
    target : float
        Mean return of ten episodes at which a learner has recovered.
    discount, initial_value : float
        Of the planner; the initial value is optimistic.
    plan_every : int
        Steps of an episode between two plans.
    """

    make: Callable[[], Any]
    change: Callable[[Any], None]
    number: Callable[[Any], int]
    n_states: int
    limit: int
    steps: int
    at: int
    target: float
    discount: float = 0.98
    plan_every: int = 50
    initial_value: float = 0.0


def _ns_gym(identifier: str, wrapper: str, update: str, parameter: str, value: Any, **options: Any) -> Any:
    """Make an environment of NS-Gym whose parameter gets another value once ``unwrapped.is_due`` is set."""
    import ns_gym  # type: ignore[import-not-found]

    made = gymnasium.make(identifier, max_episode_steps=-1, **({"is_slippery": False} if options else {}))
    inner: Any = made.unwrapped
    inner.is_due = False
    when = ns_gym.schedulers.CustomScheduler(lambda t: inner.is_due)
    changes = {parameter: getattr(ns_gym.update_functions, update)(when, [value])}
    changing = getattr(ns_gym.wrappers, wrapper)(made, changes, persistent_params=True, **options)
    return gymnasium.wrappers.TransformObservation(changing, lambda seen: seen["state"], inner.observation_space)


def _fall_due(environment: Any) -> None:
    environment.unwrapped.is_due = True


def _even(low: float, high: float, n: int) -> Any:
    return np.linspace(low, high, n + 1)[1:-1]


TASKS: dict[str, ChangingTask] = {
    "rooms": ChangingTask(
        lambda: ChangingGrid(*_rooms()),
        lambda e: e.unwrapped.change(),
        int,
        99,
        200,
        20_000,
        10_000,
        -26.0,
        plan_every=10,
    ),
    "frozen lake": ChangingTask(
        lambda: ChangingGrid(_LAKE, tuple("".join(column) for column in zip(*_LAKE, strict=True)), 0.1),
        lambda e: e.unwrapped.change(),
        int,
        64,
        200,
        20_000,
        10_000,
        -30.0,
        plan_every=10,
    ),
    "mountain car": ChangingTask(
        lambda: gymnasium.make("MountainCar-v0", max_episode_steps=-1),
        _reverse_force,
        _bins(_even(-1.2, 0.6, 18), _even(-0.07, 0.07, 14)),
        18 * 14,
        400,
        60_000,
        30_000,
        -190.0,
        discount=0.99,
    ),
    "cart pole": ChangingTask(
        lambda: gymnasium.make("CartPole-v1", max_episode_steps=-1),
        _reverse_force,
        _bins(
            np.array([-0.8, 0.8]), np.array([-0.5, 0.5]), _even(-0.21, 0.21, 8), np.array([-1.5, -0.5, 0.0, 0.5, 1.5])
        ),
        3 * 3 * 8 * 6,
        200,
        40_000,
        20_000,
        130.0,
        discount=0.98,
        initial_value=50.0,
    ),
}


if find_spec("ns_gym") is not None:
    # Steps go to the right of their direction; the force is reversed, by NS-Gym itself.
    costs = {"S": -1, "F": -1, "G": -1, "H": -101}
    TASKS["NS-Gym lake"] = ChangingTask(
        lambda: _ns_gym(
            "FrozenLake-v1",
            "NSFrozenLakeWrapper",
            "DistributionStepWiseUpdate",
            "P",
            [0, 1, 0],
            initial_prob_dist=[1, 0, 0],
            modified_rewards=costs,
        ),
        _fall_due,
        int,
        16,
        200,
        20_000,
        10_000,
        -12.0,
        plan_every=10,
    )
    TASKS["NS-Gym pole"] = replace(
        TASKS["cart pole"],
        make=lambda: _ns_gym("CartPole-v1", "NSClassicControlWrapper", "StepWiseUpdate", "force_mag", -10.0),
        change=_fall_due,
    )


class PageHinkley:
    """Page-Hinkley test for a fall of episode returns, in units of their running standard deviation."""

    def __init__(self, delta: float = 0.2, threshold: float = 15.0, least: int = 30) -> None:
        self.delta, self.threshold, self.least = delta, threshold, least
        self.restart()

    def restart(self) -> None:
        """Forget everything."""
        self._n, self._mean, self._square, self._sum, self._low = 0, 0.0, 0.0, 0.0, 0.0

    def update(self, value: float) -> bool:
        """Take in a return; say whether it has fallen."""
        self._n += 1
        step = value - self._mean
        self._mean += step / self._n
        self._square += step * (value - self._mean)
        deviation = math.sqrt(self._square / self._n) if self._n > 1 else 0.0
        if self._n < self.least or deviation == 0.0:
            return False
        self._sum += (self._mean - value) / deviation - self.delta
        self._low = min(self._low, self._sum)
        return self._sum - self._low > self.threshold


@dataclass
class LearningRun:
    """What a learner did: returns and last steps of its episodes, and the steps of its signals."""

    returns: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    signals: list[int] = field(default_factory=list)


@njit(nogil=True)
def _record(seen: Any, numbers: Any, pair: int, upcoming: int) -> bool:
    """Count an outcome of a pair; say whether there was room for it. Free places hold -1."""
    for k in range(seen.shape[1]):
        if seen[pair, k] == upcoming or seen[pair, k] < 0:
            seen[pair, k] = upcoming
            numbers[pair, k] += 1
            return True
    return False


@njit(nogil=True)
def _sweep(q: Any, seen: Any, numbers: Any, rewards: Any, discount: float, sweeps: int) -> None:
    """Iterate values; `rewards` are those of pairs that were tried, and NaN elsewhere. The last state is worth 0."""
    n_states, n_actions = q.shape
    values = np.zeros(n_states + 1)
    for _ in range(sweeps):
        for state in range(n_states):
            values[state] = q[state].max()
        for pair in range(rewards.size):
            if math.isnan(rewards[pair]):
                continue
            total, mean = 0, 0.0
            for k in range(seen.shape[1]):
                if seen[pair, k] < 0:
                    break
                total += numbers[pair, k]
                mean += numbers[pair, k] * values[seen[pair, k]]
            q[pair // n_actions, pair % n_actions] = rewards[pair] + discount * mean / total


class Planner:
    """A tabular model of the dynamics and optimistic plans by it: what was never tried is taken to be best.

    Parameters
    ----------
    n_states, n_actions : int
        Size of the tables.
    best : float
        Value of what was never tried.
    discount : float
        Of the values.
    bonus : {"none", "count", "prediction"}
        Added to rewards in plans: one over the square root of visits, or 0.9 to the power of visits of the next states,
        the error of a predictor of a random target for each state that learns a tenth of it with each visit.
    """

    def __init__(self, n_states: int, n_actions: int, *, best: float, discount: float, bonus: Bonus) -> None:
        self.best, self.discount, self.bonus = best, discount, bonus
        self.q = np.full((n_states, n_actions), best)
        self._seen: Any
        self._numbers: Any
        self._rewards: Any
        self._arrivals: Any
        self.forget()

    def record(self, state: int, action: int, reward: float, upcoming: int) -> None:
        """Count a transition; an end of the episode is state -1."""
        n_states, n_actions = self.q.shape
        # The last state is the end of an episode.
        pair, upcoming = state * n_actions + action, upcoming % (n_states + 1)
        if not _record(self._seen, self._numbers, pair, upcoming):
            self._seen = np.pad(self._seen, ((0, 0), (0, 8)), constant_values=-1)
            self._numbers = np.pad(self._numbers, ((0, 0), (0, 8)))
            _record(self._seen, self._numbers, pair, upcoming)
        self._rewards[pair] += reward
        self._arrivals[upcoming] += 1

    def plan(self, sweeps: int = 10) -> None:
        """Iterate values, beginning with the last ones."""
        visits = self._numbers.sum(axis=1)
        with np.errstate(invalid="ignore"):
            rewards = self._rewards / visits
            if self.bonus == "prediction":
                errors = np.where(self._seen >= 0, 0.9 ** self._arrivals[self._seen], 0.0)
                rewards = rewards + (self._numbers * errors).sum(axis=1) / visits
        if self.bonus == "count":
            rewards = rewards + np.maximum(visits, 1) ** -0.5
        _sweep(self.q, self._seen, self._numbers, rewards, self.discount, sweeps)

    def forget(self) -> None:
        """Forget everything."""
        n_states, n_actions = self.q.shape
        self._seen = np.full((n_states * n_actions, 8), -1)
        self._numbers = np.zeros((n_states * n_actions, 8), np.int64)
        self._rewards, self._arrivals = np.zeros(n_states * n_actions), np.zeros(n_states + 1)
        self.q[:] = self.best


def learn(
    task: ChangingTask,
    *,
    signal: Signal,
    bonus: Bonus,
    rng: np.random.Generator,
    steps: int,
    at: int | None,
    epsilon: float = 0.05,
) -> LearningRun:
    """Let a planner act for some steps; the dynamics change before step `at`. After a signal it forgets its model."""
    environment = task.make()
    if signal == "monitor":
        environment = DynamicsMonitor(environment, rng=rng)
    watch = PageHinkley()
    n_actions = int(environment.action_space.n)
    planner = Planner(task.n_states, n_actions, best=task.initial_value, discount=task.discount, bonus=bonus)
    done = LearningRun()
    observation, _ = environment.reset(seed=int(rng.integers(2**31)))
    state, total, length = task.number(observation), 0.0, 0
    draws, picks = rng.random(steps), rng.integers(n_actions, size=steps)
    for t in range(steps):
        if t == at:
            task.change(environment)
        action = int(picks[t]) if draws[t] < epsilon else int(planner.q[state].argmax())
        observation, reward, terminated, _, info = environment.step(action)
        upcoming, length, total = task.number(observation), length + 1, total + float(reward)
        planner.record(state, action, float(reward), -1 if terminated else upcoming)
        state = upcoming
        changed = signal == "monitor" and info["dynamics_changed"] is not None
        is_over = terminated or length == task.limit
        if is_over:
            done.returns.append(total)
            done.ends.append(t + 1)
            changed = changed or (signal == "page-hinkley" and watch.update(total))
            observation, _ = environment.reset()
            state, total, length = task.number(observation), 0.0, 0
        if changed:
            done.signals.append(t + 1)
            planner.forget()
            watch.restart()
        if is_over or changed or length % task.plan_every == 0:
            planner.plan()
    return done
