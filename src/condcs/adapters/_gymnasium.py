"""A change signal for agents: bets on p(next state | state, action), as a gymnasium wrapper."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtri

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._core.checks import check_integer, check_positive, check_rng
from condcs._core.compiling import njit
from condcs._core.errors import ParameterError
from condcs._core.printable import Printable
from condcs.drift._betting import overall_bets

Transition = tuple[Any, int, Any, bool]
"""Observation, action, next observation, and whether the episode ended there."""

PREDICTED_SHARE = 0.7
"""With fewer known rows among the last, states have moved beyond the reference, and a new one is taken."""

MOST_REFERENCES = 4
"""Most steps of a later reference, in units of the first: policies return to where they were."""

MISFITS = 20.0
"""Least noise, in units of what the local prediction misses in all but a tenth of the rows."""

LAST_ROWS = 1_000
"""Rows among which the beginning of a change is looked for."""

_LEAST_SPREAD = 1e-9
"""Stands for a spread of 0, of a column that is constant or predicted without error: no division by 0."""

_RIDGE = 1e-6
"""Ridge on the slopes of a local fit: neighbours may lie on a line. Far below the squared distances of columns in units
of their spread, which are about 1."""

_NAMING_SHARE = 0.1
"""Share of the evidence from which a family of smaller cells may name where a change is."""

_USUAL_LARGEST = 0.9
"""The quantile over rows that stands for the usual largest: a tenth of them may lie farther, or be predicted worse."""

_QUARTILES = (0.25, 0.5, 0.75)
"""Where the quarters of a column of the state end."""

_FARTHEST = 3.0
"""Scores are cut here, so that no single step is evidence enough: a wall that the reference never met is no change."""


@dataclass(frozen=True)
class DynamicsChanged(Printable):
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

    Continuous observations: the same bets are placed on the errors of a local linear prediction of the displacement
    from state and action, fitted to a reference of `reference_steps` steps: on those of all rows, of each action, and
    of the quarters of each column of the state. Without noise in the dynamics these errors show
    nothing but the misfit of the prediction, which changes with the policy; therefore noise is added, `dither` times
    the standard deviation of the displacement and at least 20 times the misfit. A change that is small against it takes
    longer to be noticed. No single step is evidence enough, however large its error: a wall that is met for the first
    time is no change. Where states move beyond the reference, the last steps, four times as many at most, become a
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
        self.expected_run_length = check_positive("expected_run_length", expected_run_length, 10_000)
        self.check_every = check_integer("check_every", check_every, 1)
        # A child: an environment that is seeded with the same number would draw the very numbers that break ties.
        self._generator = check_rng(rng).spawn(1)[0]
        self._watcher: _DiscreteWatcher | _BoxWatcher
        if isinstance(observed, spaces.Discrete):
            self._watcher = _DiscreteWatcher(observed, acted, self.expected_run_length, self._generator)
        elif isinstance(observed, spaces.Box) and len(observed.shape) == 1:
            steps = check_integer("reference_steps", reference_steps, 100)
            noise = check_positive("dither", dither)
            self._watcher = _BoxWatcher(acted, steps, noise, self.expected_run_length, self._generator)
        else:
            raise ParameterError(
                f"the observation space must be discrete or a box of one dimension, got {observed}. Flatten it with "
                "gymnasium.wrappers.FlattenObservation first."
            )
        self._waiting: list[Transition] = []
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
        self._waiting.append((self._state, int(action) - self._watcher.first_action, observation, bool(terminated)))
        self._state = observation
        change = None
        if len(self._waiting) >= self.check_every:
            change, self._waiting = self._watcher.watch(self._waiting, self.steps), []
        return observation, reward, terminated, truncated, {**info, "dynamics_changed": change}


@njit(nogil=True)
def _grow(sums: Any, evidence: Any, bets: Any, cells: Any, scores: Any, limit: float) -> bool:
    """Add rows to the statistics of their cells; say whether the evidence in a family has reached the limit."""
    n_bets = len(bets)
    for i in range(len(cells)):
        for family in range(len(evidence)):
            z, statistics = scores[i, family], sums[family, cells[i, family]]
            grown = 0.0
            for b in range(n_bets):
                after = (statistics[b] + 1.0) * math.exp(bets[b, 0] + bets[b, 1] * z + bets[b, 2] * z * z)
                grown += after - statistics[b]
                statistics[b] = after
            evidence[family] += grown / n_bets
        if evidence.max() >= limit:
            return True
    return False


class _Verdict(NamedTuple):
    """What bets have won by."""

    family: int
    cell: int  # of this family
    rows_since: int  # after the row with which the change began
    evidence: float  # in units of what is asked for a signal


class _Bets:
    """Bets on normal scores in the cells of several families: all rows, each state, each state and action.

    The evidence in a family is the sum of the Shiryaev-Roberts statistics of its cells, the mean over the bets of the
    stream detector on all rows. Without a change it grows by 1 with each row on average, whatever the next cell is.
    """

    def __init__(self, sizes: Sequence[int], run_length: float) -> None:
        # The detector's bound: 2 A times the number of families.
        self.limit = 2.0 * run_length * len(sizes)
        self._bets = overall_bets()
        self._sums = np.zeros((len(sizes), max(sizes), len(self._bets)))
        self._evidence = np.zeros(len(sizes))
        self._last_rows: deque[tuple[IntArray, FloatArray]] = deque(maxlen=LAST_ROWS)

    def add(self, cells: IntArray, scores: FloatArray) -> bool:
        """Take in cells and scores of rows, one column per family; say whether there is evidence enough."""
        self._last_rows.extend(zip(cells, scores, strict=True))
        return bool(_grow(self._sums, self._evidence, self._bets, cells, scores, self.limit))

    def verdict(self) -> _Verdict:
        """Return where the change is, and when it began."""
        # The last family, those of the smallest cells, that holds a good part of the evidence.
        family = int(np.flatnonzero(self._evidence >= _NAMING_SHARE * self._evidence.max())[-1])
        cell, bet = np.unravel_index(int(np.argmax(self._sums[family])), self._sums[family].shape)
        cells = np.array([cells[family] for cells, _ in self._last_rows])
        scores = np.array([scores[family] for _, scores in self._last_rows])
        constant, slope, curve = self._bets[bet]
        logs = np.where(cells == cell, constant + slope * scores + curve * scores**2, 0.0)
        # The likeliest beginning: the largest product of the winning bet from there on.
        began = int(np.argmax(np.cumsum(logs[::-1])[::-1]))
        return _Verdict(family, int(cell), len(logs) - 1 - began, float(self._evidence.max() / self.limit))


_STATES, _PAIRS = 1, 2
"""Families of a `_DiscreteWatcher` after that of all rows: each state, and each state with an action."""


class _DiscreteWatcher:
    """Conformal ranks of outcomes, and bets on their normal scores: over all rows, in each state and in each pair."""

    def __init__(self, states: Any, actions: Any, run_length: float, rng: np.random.Generator) -> None:
        self.n_actions, self.first_state, self.first_action = int(actions.n), int(states.start), int(actions.start)
        self.run_length, self.rng = run_length, rng
        self._sizes = (1, int(states.n), int(states.n) * self.n_actions)
        self._counts: dict[int, dict[int, int]] = {}
        self._bets = _Bets(self._sizes, run_length)

    def watch(self, rows: list[Transition], step: int) -> DynamicsChanged | None:
        """Take in transitions, the last of them of this step; say what was found, if there is evidence enough."""
        state_indices = np.array([int(state) for state, _, _, _ in rows]) - self.first_state
        pairs = state_indices * self.n_actions + np.array([action for _, action, _, _ in rows])
        outcomes = [2 * int(upcoming) + ended for _, _, upcoming, ended in rows]
        ranks = [self._rank(pair, outcome) for pair, outcome in zip(pairs.tolist(), outcomes, strict=True)]
        scores = ndtri(np.clip(ranks, 1e-12, 1 - 1e-12))
        cells = np.column_stack([np.zeros_like(pairs), state_indices, pairs])
        return self._report(step) if self._bets.add(cells, np.tile(scores, (3, 1)).T) else None

    def _report(self, step: int) -> DynamicsChanged:
        """Say where and since when, and forget what no longer holds."""
        family, cell, rows_since, evidence = self._bets.verdict()
        # 1. Forget the pairs of the cell.
        pairs_per_cell = self._sizes[_PAIRS] // self._sizes[family]
        for pair in [pair for pair in self._counts if pair // pairs_per_cell == cell]:
            del self._counts[pair]
        self._bets = _Bets(self._sizes, self.run_length)
        # 2. The state, and perhaps the action, of the cell.
        state: int | None = None
        action: int | None = None
        if family == _STATES:
            state = self.first_state + cell
        elif family == _PAIRS:
            state, action = self.first_state + cell // self.n_actions, self.first_action + cell % self.n_actions
        words = [f"{name} {value}" for name, value in (("state", state), ("action", action)) if value is not None]
        return DynamicsChanged(
            step=step,
            since=max(1, step - rows_since),
            region=", ".join(words) or "everywhere",
            state=state,
            action=action,
            bounds={},
            evidence=evidence,
        )

    def _rank(self, pair: int, outcome: int) -> float:
        seen = self._counts.setdefault(pair, {})
        frequency, total = seen.get(outcome, 0) + 1, sum(seen.values())
        # Frequencies with this row counted, as a conformal rank wants: it is one of total + 1 rows like the others.
        commoner = sum(n for other, n in seen.items() if other != outcome and n > frequency)
        tied = frequency + sum(n for other, n in seen.items() if other != outcome and n == frequency)
        seen[outcome] = frequency
        return (commoner + self.rng.random() * tied) / (total + 1)


_BY_ACTION, _BY_COLUMN = 1, 2
"""Divisions of a `_BoxWatcher` after that of all rows: by action; by the first column of the state, and after it by
the others."""


class _BoxWatcher:
    """Errors of a local linear prediction of the displacement, with noise added, and bets on them.

    The errors of each column are scores in families of their own: all rows, each action, and the quarters of each
    column of the state.
    """

    def __init__(
        self, actions: Any, reference_steps: int, dither: float, run_length: float, rng: np.random.Generator
    ) -> None:
        self.n_actions, self.first_action = int(actions.n), int(actions.start)
        self.reference_steps, self.dither = reference_steps, dither
        self.run_length, self.rng = run_length, rng
        self._model: _LocalLinear | None = None
        self._rows: list[tuple[FloatArray, int, FloatArray]] = []
        # Since the reference was looked at last: rows, and how many of them were predicted.
        self._n_rows = self._n_predicted = 0

    def watch(self, rows: list[Transition], step: int) -> DynamicsChanged | None:
        """Take in transitions, the last of them of this step; say what was found, if there is evidence enough."""
        vectors = [(_vector(seen), action, _vector(upcoming)) for seen, action, upcoming, _ in rows]
        self._rows = (self._rows + vectors)[-MOST_REFERENCES * self.reference_steps :]
        if self._model is None:
            if len(self._rows) >= self.reference_steps:
                self._learn()
            return None
        states, actions, moves = _states_actions_moves(vectors)
        errors, is_predicted = self._model.errors(states, actions, moves)
        # Without a change the noise alone is standard normal.
        scores = np.clip(errors + self.rng.normal(size=errors.shape), -_FARTHEST, _FARTHEST)  # (n, dim)
        dim = states.shape[1]
        quarters = [np.searchsorted(edges, column) for edges, column in zip(self._edges, states.T, strict=True)]
        divisions = np.column_stack([np.zeros_like(actions), actions, *quarters])  # (n, 2 + dim)
        # A family for each error in each division, in the order of `_family_sizes`.
        cells, scores = np.repeat(divisions, dim, axis=1), np.tile(scores, 2 + dim)
        if self._bets.add(cells[is_predicted], scores[is_predicted]):
            return self._report(step)
        self._n_rows += len(is_predicted)
        self._n_predicted += int(is_predicted.sum())
        if self._n_rows >= self.reference_steps:
            if self._n_predicted < PREDICTED_SHARE * self._n_rows:
                self._learn()
            self._n_rows = self._n_predicted = 0
        return None

    def _report(self, step: int) -> DynamicsChanged:
        """Say where and since when, and wait for a new reference."""
        family, cell, rows_since, evidence = self._bets.verdict()
        dim = len(self._edges)
        division, region = family // dim, "everywhere"
        bounds: dict[str, Any] = {}
        if division == _BY_ACTION:
            action = cell + self.first_action
            bounds, region = {"action": (action,)}, f"action {action}"
        elif division >= _BY_COLUMN:
            column = division - _BY_COLUMN
            low, high = [-np.inf, *self._edges[column], np.inf][cell : cell + 2]
            name = f"state{column}"
            bounds, region = {name: (float(low), float(high))}, f"{low:.3g} < {name} <= {high:.3g}"
        self._model, self._rows = None, []
        return DynamicsChanged(
            step=step,
            # Rows that were not passed on are so few that they do not move the beginning.
            since=max(1, step - rows_since),
            region=region,
            state=None,
            action=None,
            bounds=bounds,
            evidence=evidence,
        )

    def _learn(self) -> None:
        """Take the last rows as the reference."""
        states, actions, moves = _states_actions_moves(self._rows)
        self._model = _LocalLinear(states, actions, moves, self.dither)
        self._edges = np.quantile(states, _QUARTILES, axis=0).T  # (dim, 3)
        self._bets = _Bets(self._family_sizes(states.shape[1]), self.run_length)
        self._n_rows = self._n_predicted = 0

    def _family_sizes(self, dim: int) -> list[int]:
        """Return the number of cells of each family: of each error for all rows, by action, and by each column."""
        n_quarters = len(_QUARTILES) + 1
        return [1] * dim + [self.n_actions] * dim + [n_quarters] * dim * dim


class _NearestRows(NamedTuple):
    """The rows of the reference that have an action."""

    tree: cKDTree
    states: FloatArray  # (n, dim), scaled
    moves: FloatArray  # (n, dim)
    farthest: float  # beyond this distance from its last neighbour a row is not predicted


class _LocalLinear:
    """Displacement by a linear function of the state, fitted to the nearest rows of the same action."""

    def __init__(self, states: FloatArray, actions: IntArray, moves: FloatArray, dither: float) -> None:
        self._units = np.maximum(states.std(axis=0), _LEAST_SPREAD)
        self._rows_by_action: dict[int, _NearestRows] = {}
        self._noise = np.ones(moves.shape[1])
        scaled, misfits = states / self._units, []
        for action in np.unique(actions):
            rows = np.flatnonzero(actions == action)
            if len(rows) < 4 * self._neighbours(states):
                continue
            # Errors at every second row show what the prediction misses.
            fitted, others = rows[::2], rows[1::2]
            half = self._nearest_rows(scaled[fitted], moves[fitted])
            predicted, _, is_predicted = self._predict(half, scaled[others])
            if is_predicted.any():
                misfits.append(np.abs(predicted - moves[others])[is_predicted])
                self._rows_by_action[int(action)] = self._nearest_rows(scaled[rows], moves[rows])
        missed = np.quantile(np.concatenate(misfits), _USUAL_LARGEST, axis=0) if misfits else np.zeros(moves.shape[1])
        self._noise = np.maximum(np.maximum(dither * moves.std(axis=0), MISFITS * missed), _LEAST_SPREAD)

    def errors(self, states: FloatArray, actions: IntArray, moves: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return errors in units of the noise, and which rows have neighbours."""
        errors, is_predicted = np.zeros_like(moves), np.zeros(len(states), bool)
        for action, reference in self._rows_by_action.items():
            rows = np.flatnonzero(actions == action)
            if len(rows):
                predicted, misfit, is_predicted[rows] = self._predict(reference, states[rows] / self._units)
                # Where the neighbours themselves are fitted badly, at a wall for example, more noise is due.
                errors[rows] = (moves[rows] - predicted) / np.maximum(self._noise, MISFITS * misfit)
        return errors, is_predicted

    @staticmethod
    def _neighbours(states: FloatArray) -> int:
        """Return how many rows a linear function is fitted to: three for each of its coefficients."""
        return 3 * (int(states.shape[1]) + 1)

    def _nearest_rows(self, scaled: FloatArray, moves: FloatArray) -> _NearestRows:
        tree = cKDTree(scaled)
        distances, _ = tree.query(scaled, k=min(self._neighbours(scaled), len(scaled)))
        return _NearestRows(tree, scaled, moves, float(np.quantile(distances[:, -1], _USUAL_LARGEST)))

    def _predict(self, reference: _NearestRows, scaled: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return displacements, what the fit misses among the neighbours (root mean square), and which are known."""
        n_neighbours = min(self._neighbours(reference.states), len(reference.states))
        distances, near = reference.tree.query(scaled, k=n_neighbours)
        predicted, misfit, leverage = _local_fits(reference.states, reference.moves, near, scaled)
        # Beyond its neighbours, or off the line on which they lie, a row is not predicted but guessed.
        return predicted, misfit, (distances[:, -1] <= reference.farthest) & (leverage <= 1.0)


@njit(nogil=True)
def _local_fits(rows: Any, moves: Any, near: Any, points: Any) -> Any:
    """Fit linear functions to the rows `near` each point; return values there, misfits of the rows, and leverages."""
    (n, k), dim, columns = near.shape, rows.shape[1], moves.shape[1]
    predicted, misfit, leverage = np.empty((n, columns)), np.zeros((n, columns)), np.empty(n)
    design, responses = np.ones((k, dim + 1)), np.empty((k, columns))
    for i in range(n):
        for j in range(k):
            design[j, 1:] = rows[near[i, j]] - points[i]
            responses[j] = moves[near[i, j]]
        gram = design.T @ design
        for c in range(1, dim + 1):
            gram[c, c] += _RIDGE
        inverse = np.linalg.inv(gram)
        slopes = inverse @ (design.T @ responses)
        predicted[i], leverage[i] = slopes[0], inverse[0, 0]
        errors = responses - design @ slopes
        for c in range(columns):
            misfit[i, c] = math.sqrt(np.mean(errors[:, c] ** 2))
    return predicted, misfit, leverage


def _vector(observation: Any) -> FloatArray:
    return np.asarray(observation, np.float64).reshape(-1)


def _states_actions_moves(
    rows: list[tuple[FloatArray, int, FloatArray]],
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return states (n, dim), actions (n,) and displacements (n, dim) of states, actions and next states."""
    states = np.array([state for state, _, _ in rows])
    actions = np.array([action for _, action, _ in rows])
    return states, actions, np.array([upcoming for _, _, upcoming in rows]) - states
