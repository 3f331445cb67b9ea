"""Environments: the maze, and compiled dynamics step by step against gymnasium's."""

from dataclasses import replace

import numpy as np
import pytest

from condcs._core.errors import CondcsError
from condcs.explore import (
    compiled_environment,
    hyperparameters,
    make_agent,
    make_environment,
    make_maze,
    play,
    register_environments,
    rollout,
)
from condcs.explore._mazes import MOVES, picture
from condcs_reproduction.fig7 import steps_from_start

gymnasium = pytest.importorskip("gymnasium")

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
    from condcs.explore._compiled_environments import observe, step

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


@pytest.mark.parametrize(
    "method", ["random", "q-learning", "maxent", "maxent-relative", "dtg", "dtg-mmd", "dtg-cs", "dtg-local", "control"]
)
@pytest.mark.parametrize("name", NAMES)
def test_rollouts_are_the_agents_own_steps(name, method):
    """The compiled rollout and the agent in gymnasium walk the same path, state by state."""
    settings = replace(hyperparameters(name, method), buffer=60, rollout_steps=50)
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
        hyperparameters("maze", "random"),
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


@pytest.mark.parametrize("algorithm", ["dfs", "prim"])
@pytest.mark.parametrize("shape", [(2, 2), (5, 9), (20, 20)])
def test_mazes_are_perfect(algorithm, shape):
    """A spanning tree: one passage fewer than cells, all cells reached, every passage open from both sides."""
    passages = make_maze(*shape, algorithm=algorithm, rng=3)
    assert passages.sum() == 2 * (shape[0] * shape[1] - 1)
    assert np.isfinite(steps_from_start(passages)).all()
    for row, column, action in np.argwhere(passages):
        dc, dr = MOVES[action]
        assert passages[row + dr, column + dc, action ^ 1] == 1
    assert np.array_equal(passages, make_maze(*shape, algorithm=algorithm, rng=3))


def test_depth_first_ways_are_longer():
    """What the two algorithms are known for, over 20 mazes each."""
    longest = {
        a: np.mean([steps_from_start(make_maze(12, algorithm=a, rng=s)).max() for s in range(20)])
        for a in ("dfs", "prim")
    }
    assert longest["dfs"] > 1.5 * longest["prim"]


def test_picture_shows_walls_agent_and_goal():
    passages = make_maze(4, 6, rng=0)
    image = picture(passages, (0, 0), (5, 3))
    assert image.shape == (4 * 12 + 2, 6 * 12 + 2, 3)
    assert tuple(image[7, 7]) == (229, 62, 62)
    assert tuple(image[3 * 12 + 7, 5 * 12 + 7]) == (43, 108, 176)
    # Between the cells (0, 0) and (1, 0) there is a wall unless one can go right.
    assert (image[7, 12] == 255).all() == bool(passages[0, 0, 1])


def test_maze_passes_gymnasiums_checks():
    from gymnasium.utils.env_checker import check_env

    register_environments()
    register_environments()
    check_env(gymnasium.make("condcs/Maze-v0", render_mode="rgb_array", rows=5).unwrapped)
    made = gymnasium.make("condcs.explore:condcs/Maze-v0", rows=4, columns=7, algorithm="prim", maze_rng=2)
    made.reset(seed=0)
    first = made.unwrapped.passages.copy()
    made.reset(seed=1)
    assert np.array_equal(first, made.unwrapped.passages)
    assert made.observation_space.high.tolist() == [6.0, 3.0]


def test_maze_reset_with_a_seed_draws_a_new_one():
    environment = make_environment("maze", rows=8)
    environment.reset(seed=0)
    first = environment.unwrapped.passages
    environment.reset()
    assert environment.unwrapped.passages is first
    environment.reset(seed=1)
    assert not np.array_equal(environment.unwrapped.passages, first)


def test_time_limits():
    """None by default, where gymnasium would cut off after 200 steps; else the one asked for."""
    environment = make_environment("mountain-car")
    environment.reset(seed=0)
    assert not any(environment.step(1)[3] for _ in range(400))
    short = make_environment("pendulum", time_limit=5)
    short.reset(seed=0)
    assert [short.step(np.zeros(1, np.float32))[3] for _ in range(5)] == [False] * 4 + [True]


def test_pendulum_starts_down_and_ends_upright():
    environment = make_environment("pendulum")
    observation, _ = environment.reset(seed=0)
    assert observation == pytest.approx([-1.0, 0.0, 0.0], abs=1e-6)
    environment.unwrapped.state = np.array([0.19, -0.1])
    assert environment.step(np.zeros(1, np.float32))[2]
    environment.unwrapped.state = np.array([2 * np.pi + 0.4, 0.0])
    assert not environment.step(np.zeros(1, np.float32))[2]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_environment("cart-pole"), "make_environment: `name` must be one of 'mountain-car'"),
        (lambda: make_environment("maze", time_limit=0), "`time_limit`"),
        (lambda: compiled_environment("maze", rows=1), "`rows` must be an integer of at least 2"),
        (lambda: compiled_environment("maze", algorithm="kruskal"), "`algorithm` must be one of 'dfs'"),
        (lambda: compiled_environment("maze", spacing=0), "`spacing` must be a positive"),
        (lambda: make_maze(3, rng=-1), "`rng` must be a non-negative"),
        (lambda: hyperparameters("maze", "dqn"), "`method` must be one of 'random'"),
        (lambda: make_environment("maze", rows=0), "`rows` must be an integer"),
    ],
)
def test_bad_arguments(call, words):
    with pytest.raises(CondcsError, match=words):
        call()


def test_runs_without_a_seed_are_refused():
    environment = make_environment("mountain-car")
    with pytest.raises(CondcsError, match="play: `rng` must be an integer of at least 0, got None"):
        play(make_agent("random", environment, rng=0), environment, steps=5, rng=None)
