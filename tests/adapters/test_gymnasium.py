"""The monitor of dynamics: quiet while they stay, whatever the agent does, and precise when they change."""

import numpy as np
import pytest

from condcs._core.errors import CondcsError

gymnasium = pytest.importorskip("gymnasium")

from condcs.adapters import DynamicsMonitor  # noqa: E402


class Ring(gymnasium.Env):
    """A ring of places; the steps of action 0 go back, those of 1 forward, with a slip. A place may be shut."""

    def __init__(self, places=12, slip=0.0, start=0):
        self.places, self.slip, self.shut = places, slip, None
        self.observation_space = gymnasium.spaces.Discrete(places, start=start)
        self.action_space = gymnasium.spaces.Discrete(2, start=1)
        self.first = start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.first, {}

    def step(self, action):
        way = 2 * int(action) - 3
        if self.np_random.random() < self.slip:
            way = -way
        if self.place != self.shut:
            self.place = (self.place + way) % self.places
        return self.place + self.first, 0.0, False, False, {"place": self.place}


def run(environment, n, policy, seed=0, change=None, at=None):
    """Return the signals, with the steps at which they came."""
    rng = np.random.default_rng(seed)
    observation, info = environment.reset(seed=seed)
    assert info["dynamics_changed"] is None
    found = []
    for t in range(n):
        if t == at:
            change(environment.unwrapped)
        observation, _, terminated, truncated, info = environment.step(policy(observation, rng, t))
        if info["dynamics_changed"] is not None:
            found.append((t + 1, info["dynamics_changed"]))
        if terminated or truncated:
            observation, _ = environment.reset()
    return found


def restless(n_actions, start=0):
    """A policy that is random, then fixed, then random again: inputs move, dynamics do not."""
    return lambda o, rng, t: start + (int(rng.integers(n_actions)) if (t // 700) % 2 else 0)


@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_quiet_while_the_dynamics_stay(slip):
    """10,000 steps each; one false signal in ten million is stated, so that none is due.

    Environment and monitor have the same seed, which must not make them draw the same numbers.
    """
    assert run(DynamicsMonitor(Ring(slip=slip)), 10_000, restless(2, 1)) == []


def test_a_shut_place_is_named():
    """Deterministic steps: the place, and the time to within some visits; numbers of spaces count from `start`."""

    def shut(ring):
        ring.shut = 5

    found = run(DynamicsMonitor(Ring(start=3)), 3_000, lambda o, rng, t: 1 + int(rng.integers(2)), 1, shut, 2_000)
    step, signal = found[0]
    assert signal.state == 5 + 3
    assert signal.region.startswith("state 8")
    assert abs(signal.since - 2_000) < 50
    assert 2_000 < signal.step == step < 2_300
    assert signal.evidence >= 1


def test_a_change_everywhere_is_noticed():
    def slippery(ring):
        ring.slip = 0.5

    found = run(DynamicsMonitor(Ring(slip=0.1)), 4_000, restless(2, 1), 2, slippery, 2_500)
    assert found
    assert 2_500 < found[0][0] < 3_500
    assert abs(found[0][1].since - 2_500) < 300


def test_ranks_are_uniform_and_independent():
    """Conformal ranks of 20,000 random outcomes: uniform (Kolmogorov-Smirnov at 0.1%) and not correlated in time."""
    from scipy.stats import kstest

    from condcs.adapters._gymnasium import _DiscreteWatcher

    three, one = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(1)
    watcher = _DiscreteWatcher(three, one, 1e7, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    z = np.array(
        [watcher._rank(int(rng.integers(3)), int(rng.choice(4, p=[0.6, 0.2, 0.15, 0.05]))) for _ in range(20_000)]
    )
    assert kstest(z, "uniform").pvalue > 0.001
    assert abs(np.corrcoef(z[1:], z[:-1])[0, 1]) < 3.3 / np.sqrt(len(z))


def test_evidence_without_a_change_grows_by_one_with_each_row():
    """Scores of a standard normal, cells chosen by the last score: the mean of 4,000 first steps is 1, within 4 errors.

    A later step has the same mean but hardly ever shows it: products of densities are large in few runs.
    """
    from condcs.adapters._gymnasium import _Bets

    rng = np.random.default_rng(0)
    grown = np.zeros((4_000, 2))
    for run_ in grown:
        bets = _Bets((1, 3), 1e7)
        bets.add(np.array([[0, int(rng.integers(3))]]), np.full((1, 2), rng.normal()))
        run_[:] = bets._evidence
    error = grown.std(axis=0, ddof=1) / np.sqrt(len(grown))
    assert (np.abs(grown.mean(axis=0) - 1.0) < 4 * error).all()
    assert (error < 0.1).all()


class Track(gymnasium.Env):
    """A line from 0 to 1; actions go to either side, by less where it is steep. Beyond a place they may be reversed."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.reversed_from = 2.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0.5
        return np.array([self.place]), {}

    def step(self, action):
        way = (2 * int(action) - 1) * (-1 if self.place > self.reversed_from else 1)
        self.place = min(max(self.place + 0.05 * way / (1 + self.place), 0.0), 1.0)
        return np.array([self.place]), 0.0, False, False, {}


@pytest.mark.slow
def test_the_part_of_a_box_that_changed_is_named():
    def reverse(track):
        track.reversed_from = 0.8

    def to_and_fro(o, rng, t):
        return int(rng.integers(2)) if rng.random() < 0.4 else (t // 40) % 2

    found = run(DynamicsMonitor(Track()), 6_000, to_and_fro, 0, reverse, 4_000)
    step, signal = found[0]
    assert 4_000 < step < 4_500
    low, high = signal.bounds["state0"]
    assert 0.5 < low < 0.9
    assert high == np.inf
    assert signal.region == f"{low:.3g} < state0 <= inf"
    assert abs(signal.since - 4_000) < 400
    assert run(DynamicsMonitor(Track()), 6_000, to_and_fro) == []


def test_one_odd_step_is_no_change():
    """A mountain car that met the wall for the first time was taken for new dynamics."""

    class Thrown(Track):
        steps = 0

        def step(self, action):
            self.steps += 1
            if self.steps == 5_000:
                self.place += 0.4 if self.place < 0.5 else -0.4
            return super().step(action)

    assert run(DynamicsMonitor(Thrown()), 6_000, lambda o, rng, t: int(rng.integers(2))) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0"])
def test_continuous_dynamics_without_noise(name):
    """A policy that changes raises no signal; a reversed force does, within 200 steps."""

    def reverse(inner):
        if name == "CartPole-v1":
            inner.force_mag = -inner.force_mag
        else:
            inner.force = -inner.force

    def policy(o, rng, t):
        if (t // 2_000) % 2:
            return int(o[2] + 0.3 * o[3] > 0) if name == "CartPole-v1" else (2 if o[1] > 0 else 0)
        return int(rng.integers(2 if name == "CartPole-v1" else 3))

    found = run(DynamicsMonitor(gymnasium.make(name)), 9_000, policy, 0, reverse, 8_500)
    assert found
    assert 8_500 < found[0][0] < 8_700


def test_rewards_and_observations_are_left_alone():
    plain, watched = Ring(slip=0.2), DynamicsMonitor(Ring(slip=0.2))
    plain.reset(seed=3)
    watched.reset(seed=3)
    for t in range(50):
        expected, seen = plain.step(1 + t % 2), watched.step(1 + t % 2)
        assert expected[:4] == seen[:4]
        assert seen[4]["place"] == expected[4]["place"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"expected_run_length": 0}, "`expected_run_length` must be"),
        ({"check_every": 0}, "`check_every` must be"),
    ],
)
def test_bad_arguments(change, words):
    with pytest.raises(CondcsError, match=words):
        DynamicsMonitor(Ring(), **change)


def test_bad_spaces():
    ring = Ring()
    ring.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    with pytest.raises(CondcsError, match="the action space must be discrete"):
        DynamicsMonitor(ring)
    ring = Ring()
    ring.observation_space = gymnasium.spaces.Box(0.0, 1.0, (2, 2))
    with pytest.raises(CondcsError, match="the observation space must be discrete or a box of one dimension"):
        DynamicsMonitor(ring)
