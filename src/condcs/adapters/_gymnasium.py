"""A change signal for agents: the drift detector on (state, action) -> next state, as a gymnasium wrapper."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtri

from condcs._core.checks import check_integer, check_positive, check_rng
from condcs._core.errors import ParameterError
from condcs.drift import ConditionalDriftDetector
from condcs.drift._betting import overall_bets

FloatArray = np.ndarray[Any, Any]

Row = tuple[Any, int, Any, bool]
"""Observation, action, next observation, and whether the episode ended there."""

KNOWN_SHARE = 0.7
"""With fewer known rows among the last, states have moved beyond the reference, and a new one is taken."""

MEMORY = 4
"""Most steps of a later reference, in units of the first: policies return to where they were."""

MISFITS = 20.0
"""Least noise, in units of what the local prediction misses in all but a tenth of the rows."""

KEPT_ROWS = 1_000
"""Rows among which the beginning of a change is looked for."""

_LEAST_SPREAD = 1e-9


@dataclass(frozen=True)
class DynamicsChanged:
    """What `DynamicsMonitor` reports.

    Attributes
    ----------
    step : int
        The step at which the change was noticed, counted from 1 over all episodes.
    since : int
        Estimate of the step at which it began.
    region : str
        Where, in words; "everywhere" if no part stands out.
    state, action : int or None
        Of discrete observations, the state (and the action) in which most of the evidence lies, if it is one.
    bounds : dict
        Of continuous observations, the column (``state0``, ... or ``action``) and its limits or labels.
    evidence : float
        In units of what is asked for a signal.
    """

    step: int
    since: int
    region: str
    state: int | None
    action: int | None
    bounds: dict[str, Any]
    evidence: float


class Report(NamedTuple):
    """What a watcher found: how many steps ago it began, where, and the evidence."""

    behind: int
    where: str
    state: int | None
    action: int | None
    bounds: dict[str, Any]
    evidence: float


class DynamicsMonitor(gymnasium.Wrapper):
    r"""Watch p(next state | state, action) and report a change in ``info["dynamics_changed"]``.

    The entry is None in all steps but those in which a change is noticed; there it is a `DynamicsChanged`. Rewards and
    observations are not touched.

    Discrete observations: each outcome of a step (the next state, and whether the episode ended there) has a rank among
    those seen so far in the same state and action, the frequent ones first, drawn at random within a tie. As long as
    the dynamics stay these ranks are independent and uniform, whatever the agent does and whether the dynamics are
    random or not, so that the run length is promised from the first step on, by the theorem of
    `condcs.drift.ConditionalDriftDetector`. Its bets are placed on the normal scores of all ranks, of those of each
    state, and of each state and action.

    Continuous observations: the detector watches the errors of a local linear prediction of the displacement from state
    and action, fitted to a reference of `reference_steps` steps. Without noise in the dynamics these errors show
    nothing but the misfit of the prediction, which changes with the policy; therefore noise is added, `dither` times
    the standard deviation of the displacement and at least 20 times the misfit. A change that is small against it takes
    longer to be noticed. Where states move beyond the reference, the last steps, four times as many at most, become a
    new one.

    Parameters
    ----------
    env : gymnasium.Env
        Discrete actions; discrete observations, or a box of one dimension.
    expected_run_length : float
        Least mean number of steps until a false signal.
    reference_steps : int
        Length of the first reference for continuous observations.
    check_every : int
        Steps between two looks at the evidence: transitions are passed on in blocks, which is faster.
    dither : float
        Standard deviation of the noise added to continuous displacements, in units of theirs.
    rng : int, Generator or None
        Ranks within ties, and noise.

    Examples
    --------
    >>> environment = DynamicsMonitor(gymnasium.make("FrozenLake-v1"))
    >>> _ = environment.reset(seed=0)
    >>> environment.step(1)[4]["dynamics_changed"] is None
    True
    """

    def __init__(
        self,
        env: Any,
        *,
        expected_run_length: float = 10_000_000,
        reference_steps: int = 2_000,
        check_every: int = 10,
        dither: float = 0.3,
        rng: int | np.random.Generator | None = 0,
    ) -> None:
        super().__init__(env)
        spaces = gymnasium.spaces
        observed, acted = env.observation_space, env.action_space
        if not isinstance(acted, spaces.Discrete):
            raise ParameterError(f"the action space must be discrete, got {acted}. Discretise it with a wrapper first.")
        self.expected_run_length = check_positive("expected_run_length", expected_run_length)
        self.check_every = check_integer("check_every", check_every, 1)
        # A child: an environment that is seeded with the same number would draw the very numbers that break ties.
        self._generator = check_rng(rng).spawn(1)[0]
        self._first_action, self._first_state = int(acted.start), int(getattr(observed, "start", 0))
        self._watcher: _DiscreteWatcher | _BoxWatcher
        if isinstance(observed, spaces.Discrete):
            sizes = int(observed.n), int(acted.n)
            self._watcher = _DiscreteWatcher(*sizes, self._first_state, self.expected_run_length, self._generator)
        elif isinstance(observed, spaces.Box) and len(observed.shape) == 1:
            steps = check_integer("reference_steps", reference_steps, 100)
            noise = check_positive("dither", dither)
            self._watcher = _BoxWatcher(steps, noise, self.expected_run_length, self._generator)
        else:
            raise ParameterError(
                f"the observation space must be discrete or a box of one dimension, got {observed}. Flatten it with "
                "gymnasium.wrappers.FlattenObservation first."
            )
        self._waiting: list[Row] = []
        self._state: Any = None
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; all episodes are parts of one stream."""
        self._state, info = self.env.reset(seed=seed, options=options)
        return self._state, {**info, "dynamics_changed": None}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step; say in `info` whether a change was noticed."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        self._waiting.append((self._state, int(action) - self._first_action, observation, bool(terminated)))
        self._state = observation
        found = None
        if len(self._waiting) >= self.check_every:
            found, self._waiting = self._look(self._waiting), []
        return observation, reward, terminated, truncated, {**info, "dynamics_changed": found}

    def _look(self, rows: list[Row]) -> DynamicsChanged | None:
        report = self._watcher.watch(rows)
        if report is None:
            return None
        state = None if report.state is None else report.state + self._first_state
        action = None if report.action is None else report.action + self._first_action
        words = [f"{name} {value}" for name, value in (("state", state), ("action", action)) if value is not None]
        where = report.where or ", ".join(words) or "everywhere"
        since = max(1, self.steps - report.behind)
        return DynamicsChanged(self.steps, since, where, state, action, report.bounds, report.evidence)


class _DiscreteWatcher:
    """Conformal ranks of outcomes, and bets on their normal scores: over all rows, in each state and in each pair."""

    def __init__(
        self, n_states: int, n_actions: int, first_state: int, run_length: float, rng: np.random.Generator
    ) -> None:
        self.n_actions, self.first_state, self.rng = n_actions, first_state, rng
        sizes = (1, n_states, n_states * n_actions)
        # The detector's bound: 2 A times the number of families of cells.
        self.limit = 2.0 * run_length * len(sizes)
        self._bets = overall_bets()
        self._weight = 1.0 / len(self._bets)
        self._counts: dict[int, dict[int, int]] = {}
        self._kept: deque[tuple[int, float]] = deque(maxlen=KEPT_ROWS)
        self._sums = [np.zeros((size, len(self._bets))) for size in sizes]
        self._values = np.zeros(len(sizes))

    def watch(self, rows: list[Row]) -> Report | None:
        """Take in transitions until there is evidence enough; the others of the block are then left out."""
        for behind, (state, action, upcoming, ended) in enumerate(rows, start=1 - len(rows)):
            place = int(state) - self.first_state
            pair = place * self.n_actions + action
            z = self._score(pair, 2 * int(upcoming) + ended)
            self._kept.append((pair, z))
            densities = np.exp(self._bets @ np.array([1.0, z, z * z]))
            for family, cell in enumerate((0, place, pair)):
                sums = self._sums[family]
                grown = (sums[cell] + 1.0) * densities
                self._values[family] += self._weight * float((grown - sums[cell]).sum())
                sums[cell] = grown
            if self._values.max() >= self.limit:
                return self._report(-behind)
        return None

    def _report(self, behind: int) -> Report:
        """Say where and since when, and forget what no longer holds."""
        # The smallest cells that hold most of the evidence: a pair, a state, or all rows.
        family = next(f for f in (2, 1, 0) if self._values[f] >= 0.1 * self._values.max())
        cell, bet = np.unravel_index(int(np.argmax(self._sums[family])), self._sums[family].shape)
        inside = [p for p in self._counts if family == 0 or p // (self.n_actions if family == 1 else 1) == cell]
        pairs, z = np.array([p for p, _ in self._kept]), np.array([z for _, z in self._kept])
        logs = np.where(np.isin(pairs, inside), self._bets[bet] @ np.array([np.ones_like(z), z, z * z]), 0.0)
        # The likeliest beginning: the largest product of the winning bet from there on.
        began = int(np.argmax(np.cumsum(logs[::-1])[::-1]))
        for forgotten in inside:
            del self._counts[forgotten]
        for sums in self._sums:
            sums[:] = 0.0
        since, evidence = behind + len(z) - 1 - began, float(self._values.max() / self.limit)
        self._values[:] = 0.0
        self._kept.clear()
        state, action = None, None
        if family:
            state, action = divmod(int(cell), self.n_actions) if family == 2 else (int(cell), None)
        return Report(since, "", state, action, {}, evidence)

    def _score(self, pair: int, outcome: int) -> float:
        seen = self._counts.setdefault(pair, {})
        own, total = seen.get(outcome, 0) + 1, sum(seen.values())
        # Frequencies with this row counted, as a conformal rank wants: it is one of total + 1 rows like the others.
        before = sum(n for other, n in seen.items() if other != outcome and n > own)
        tied = own + sum(n for other, n in seen.items() if other != outcome and n == own)
        seen[outcome] = own
        rank = (before + self.rng.random() * tied) / (total + 1)
        return float(ndtri(min(max(rank, 1e-12), 1 - 1e-12)))


class _BoxWatcher:
    """Errors of a local linear prediction of the displacement, with noise added."""

    def __init__(self, reference_steps: int, dither: float, run_length: float, rng: np.random.Generator) -> None:
        self.reference_steps, self.dither, self.rng, self.run_length = reference_steps, dither, rng, run_length
        self._detector: ConditionalDriftDetector | None = None
        self._model: _LocalLinear | None = None
        self._rows: list[tuple[FloatArray, int, FloatArray]] = []
        self._looks = [0, 0]

    def watch(self, rows: list[Row]) -> Report | None:
        """Take in transitions; say what the alarm says, if there is one."""
        taken = [(_vector(seen), action, _vector(upcoming)) for seen, action, upcoming, _ in rows]
        self._rows = (self._rows + taken)[-MEMORY * self.reference_steps :]
        if self._detector is None or self._model is None:
            if len(self._rows) >= self.reference_steps:
                self._learn()
            return None
        states, actions, moves = _columns(taken)
        errors, known = self._model.errors(states, actions, moves)
        self._looks = [self._looks[0] + len(known), self._looks[1] + int(known.sum())]
        if known.any():
            noisy = errors[known] + self.rng.normal(size=errors[known].shape)
            alarms = self._detector.update_many(*_named(states[known], actions[known], noisy))
            alarm = self._detector.alarm
            if alarms.any() and alarm is not None:
                self._detector, self._rows = None, []
                # Rows that were not passed on are so few that they do not move the beginning.
                behind = int(alarms[::-1].argmax()) + alarm.row - alarm.since
                where = "" if alarm.region == "all rows" else alarm.region
                return Report(behind, where, None, None, alarm.bounds, alarm.statistic / alarm.threshold)
        if self._looks[0] >= self.reference_steps:
            if self._looks[1] < KNOWN_SHARE * self._looks[0]:
                self._learn()
            self._looks = [0, 0]
        return None

    def _learn(self) -> None:
        states, actions, moves = _columns(self._rows)
        self._model = _LocalLinear(states, actions, moves, self.dither)
        # Errors are standard normal by the noise that is added, so that the reference can be drawn.
        drawn = self.rng.normal(size=(len(moves), moves.shape[1]))
        self._detector = ConditionalDriftDetector(
            *_named(states, actions, drawn),
            expected_run_length=self.run_length,
            after_alarm="keep",
            category=("action",),
            rng=self.rng,
        )
        self._looks = [0, 0]


class _LocalLinear:
    """Displacement by a linear function of the state, fitted to the nearest rows of the same action."""

    def __init__(self, states: FloatArray, actions: FloatArray, moves: FloatArray, dither: float) -> None:
        self._units = np.maximum(states.std(axis=0), _LEAST_SPREAD)
        self._parts: dict[int, tuple[cKDTree, FloatArray, FloatArray, float]] = {}
        self._noise = np.ones(moves.shape[1])
        scaled, misfits = states / self._units, []
        for action in np.unique(actions):
            own = np.flatnonzero(actions == action)
            if len(own) < 4 * self._neighbours(states):
                continue
            # Errors at every second row show what the prediction misses.
            half = self._part(scaled[own[::2]], moves[own[::2]])
            found, known = self._predict(half, scaled[own[1::2]])
            if known.any():
                misfits.append(np.abs(found - moves[own[1::2]])[known])
                self._parts[int(action)] = self._part(scaled[own], moves[own])
        missed = np.quantile(np.concatenate(misfits), 0.9, axis=0) if misfits else np.zeros(moves.shape[1])
        self._noise = np.maximum(np.maximum(dither * moves.std(axis=0), MISFITS * missed), _LEAST_SPREAD)

    def errors(self, states: FloatArray, actions: FloatArray, moves: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return errors in units of the noise, and which rows have neighbours."""
        errors, known = np.zeros_like(moves), np.zeros(len(states), bool)
        for action, part in self._parts.items():
            own = np.flatnonzero(actions == action)
            if len(own):
                found, known[own] = self._predict(part, states[own] / self._units)
                errors[own] = (moves[own] - found) / self._noise
        return errors, known

    @staticmethod
    def _neighbours(states: FloatArray) -> int:
        return 3 * (int(states.shape[1]) + 1)

    def _part(self, scaled: FloatArray, moves: FloatArray) -> tuple[cKDTree, FloatArray, FloatArray, float]:
        tree = cKDTree(scaled)
        distances, _ = tree.query(scaled, k=min(self._neighbours(scaled), len(scaled)))
        return tree, scaled, moves, float(np.quantile(distances[:, -1], 0.9))

    def _predict(
        self, part: tuple[cKDTree, FloatArray, FloatArray, float], scaled: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        tree, rows, moves, farthest = part
        distances, near = tree.query(scaled, k=min(self._neighbours(rows), len(rows)))
        offsets = rows[near] - scaled[:, None, :]
        design = np.concatenate([np.ones((*near.shape, 1)), offsets], axis=2)
        # A little ridge on the slopes: neighbours may lie on a line.
        penalty = np.diag([0.0] + [1e-6] * rows.shape[1])
        gram = np.einsum("nki,nkj->nij", design, design) + penalty
        cross = np.einsum("nki,nkc->nic", design, moves[near])
        inverse = np.linalg.inv(gram)
        # The leverage: beyond its neighbours, or off the line on which they lie, a row is not predicted but guessed.
        known = (distances[:, -1] <= farthest) & (inverse[:, 0, 0] <= 1.0)
        return np.einsum("ni,nic->nc", inverse[:, 0], cross), known


def _vector(observation: Any) -> FloatArray:
    return np.asarray(observation, np.float64).reshape(-1)


def _columns(rows: list[tuple[FloatArray, int, FloatArray]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    states = np.array([state for state, _, _ in rows])
    return states, np.array([a for _, a, _ in rows]), np.array([upcoming for _, _, upcoming in rows]) - states


def _named(states: FloatArray, actions: FloatArray, errors: FloatArray) -> tuple[dict[str, Any], dict[str, Any]]:
    x: dict[str, Any] = {f"state{c}": column for c, column in enumerate(states.T)}
    x["action"] = np.array([str(action) for action in actions], dtype=object)
    return x, {f"move{c}": column for c, column in enumerate(errors.T)}
