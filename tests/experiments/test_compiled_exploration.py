"""Compiled exploration: environments and agents step by step against those of gymnasium and condcs.explore."""

import math
from dataclasses import replace

import numpy as np
import pytest

from condcs._core.errors import CondcsError
from condcs.explore import make_agent, make_environment
from condcs_reproduction.exploration import make_maze
from condcs_reproduction.exploration_environments import compiled_environment, observe, step
from condcs_reproduction.exploration_rollouts import _rollout, compiled_agent, intrinsic_reward, paper_settings, rollout
from condcs_reproduction.fig7 import picture

pytest.importorskip("gymnasium")

NAMES = ("mountain-car", "pendulum", "maze")


def twin(name, seed, **options):
    """Return a gymnasium environment, reset, and its compiled twin with the same start and maze."""
    environment = make_environment(name, **options)
    observation, _ = environment.reset(seed=seed)
    compiled = compiled_environment(name, rng=0, **options)
    inner = environment.unwrapped
    if name == "maze":
        return environment, observation, compiled._replace(passages=inner.passages)
    return environment, observation, compiled._replace(start=np.array(inner.state, dtype=float))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_compiled_steps_are_gymnasiums(name, seed):
    """Observation, reward and end of 3,000 random steps are equal, bit for bit."""
    environment, observation, compiled = twin(name, seed)
    rng = np.random.default_rng(seed)
    state, seen = compiled.start.copy(), np.empty(len(compiled.low))
    plain = compiled._replace(low=np.zeros_like(compiled.low), scale=np.ones_like(compiled.scale))
    observe(plain, state, seen)
    assert np.array_equal(seen, observation.astype(float))
    for t in range(3000):
        action = int(rng.integers(len(compiled.actions)))
        given = np.array([compiled.actions[action, 0]], np.float32) if name == "pendulum" else action
        observation, reward, terminated, truncated, _ = environment.step(given)
        ours, reached = step(compiled, state, action)
        observe(plain, state, seen)
        assert np.array_equal(seen, observation.astype(float)), t
        assert ours == reward
        assert bool(reached) == terminated
        assert not truncated


@pytest.mark.parametrize("method", ["random", "dtg", "dtg-mmd", "dtg-cs", "dtg-local", "control"])
@pytest.mark.parametrize("name", NAMES)
def test_rollouts_are_the_agents_own_steps(name, method):
    """The compiled rollout and the agent in gymnasium walk the same path, state by state."""
    settings = replace(paper_settings(name, method), buffer=60)
    environment, observation, compiled = twin(name, 3)
    done = rollout(compiled, settings, steps=250, until_goal=False, keep_path=True, rng=5)
    agent = make_agent(method, environment, settings=settings, rng=5)
    for t in range(250):
        observation, reward, terminated, _, _ = environment.step(agent.act(observation))
        agent.learn(observation, reward, terminated)
        inner = environment.unwrapped
        assert np.array_equal(done.path[t], inner.cell if name == "maze" else inner.state), t
        assert not terminated


def test_rollout_starts_again_at_the_goal():
    """In a small maze the exit is found many times; the path jumps back to the start each time."""
    done = rollout(
        compiled_environment("maze", rows=3, rng=1),
        paper_settings("maze", "random"),
        steps=2000,
        until_goal=False,
        keep_path=True,
        rng=0,
    )
    at_exit = np.flatnonzero((done.path == 2).all(axis=1))
    assert done.goals == len(at_exit) > 5
    assert done.first_goal == at_exit[0] + 1
    following = at_exit[at_exit + 1 < 2000] + 1
    assert (np.abs(done.path[following]).sum(axis=1) <= 1).all()


@pytest.mark.parametrize(("method", "scale"), [("maxent", 1), ("maxent-relative", 16)])
def test_entropy_reward_is_minus_log_density(method, scale):
    """With the density updated at every step: (visits + 1) / (steps + cells), visits of the cell included."""
    environment = compiled_environment("maze", rows=4, rng=0)
    agent = compiled_agent(environment, replace(paper_settings("maze", method), rollout_steps=1))
    rng, visits = np.random.default_rng(0), {}
    state, seen, upcoming = environment.start.copy(), np.zeros(2), np.zeros(2)
    for t in range(1, 80):
        action = int(rng.integers(4))
        step(environment, state, action)
        observe(environment, state, upcoming)
        cell = tuple(state)
        visits[cell] = visits.get(cell, 0) + 1
        paid = intrinsic_reward(agent, seen, environment.actions[action], upcoming, 0.0)
        assert paid == pytest.approx(-math.log(scale * (visits[cell] + 1) / (t + 16)))


def test_q_learning_learns_the_reward_or_the_goal():
    """One action from the start: the value of it is the learning rate times the reward, or 0 away from the goal."""
    for name, due in (("pendulum", -1e-3 * math.pi**2), ("mountain-car", 0.0)):
        settings = paper_settings(name, "q-learning")
        assert (settings.reward, settings.initial_value) == ("extrinsic" if name == "pendulum" else "goal", 0.0)
        environment = compiled_environment(name, rng=0)
        agent = compiled_agent(environment, settings)
        _rollout(environment, agent, environment.start.copy(), 1, np.random.default_rng(0), 0.0, True, np.empty((0, 2)))
        # The torque costs at most 0.001 of the pendulum's reward.
        assert agent.values.weights[0] == pytest.approx(due, abs=2e-6)


@pytest.mark.parametrize("method", ["dtg-kl", "maxent", "q-learning"])
def test_same_seed_same_path(method):
    settings = replace(paper_settings("maze", method), buffer=100, refresh_every=20)
    paths = [
        rollout(compiled_environment("maze", rows=6, rng=2), settings, steps=300, keep_path=True, rng=4).path
        for _ in range(2)
    ]
    assert np.array_equal(*paths)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rows": 1}, "`rows` must be an integer of at least 2"),
        ({"algorithm": "kruskal"}, "`algorithm` must be one of 'dfs'"),
        ({"spacing": 0}, "`spacing` must be a positive"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(CondcsError, match=words):
        compiled_environment("maze", **arguments)


def test_picture_shows_walls_agent_and_goal():
    passages = make_maze(4, 6, rng=0)
    image = picture(passages, (0, 0), (5, 3))
    assert image.shape == (4 * 12 + 2, 6 * 12 + 2, 3)
    assert tuple(image[7, 7]) == (229, 62, 62)
    assert tuple(image[3 * 12 + 7, 5 * 12 + 7]) == (43, 108, 176)
    # Between the cells (0, 0) and (1, 0) there is a wall unless one can go right.
    assert (image[7, 12] == 255).all() == bool(passages[0, 0, 1])
