"""Environments: the maze, time limits, and the pendulum with a goal."""

import numpy as np
import pytest

from condcs._core.errors import CondcsError
from condcs.explore import Spaces, hyperparameters, make_agent, make_environment, play
from condcs_reproduction.exploration import RandomAgent, make_maze, register_environments
from condcs_reproduction.exploration.gymnasium_environments import MOVES
from condcs_reproduction.fig7 import steps_from_start

gymnasium = pytest.importorskip("gymnasium")


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


def test_maze_passes_gymnasiums_checks():
    from gymnasium.utils.env_checker import check_env

    register_environments()
    register_environments()
    check_env(gymnasium.make("condcs/Maze-v0", rows=5).unwrapped)
    made = gymnasium.make(
        "condcs_reproduction.exploration:condcs/Maze-v0", rows=4, columns=7, algorithm="prim", maze_rng=2
    )
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


def test_agents_see_the_papers_torques_and_moves():
    """Five torques of half gymnasium's range; cells of a maze lie one bandwidth apart, and actions are moves."""
    pendulum = Spaces.of(make_environment("pendulum"))
    assert pendulum.vectors[:, 0].tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert [float(torque[0]) for torque in pendulum.actions] == [-1.0, -0.5, 0.0, 0.5, 1.0]
    finer = Spaces.of(make_environment("pendulum"), levels=3)
    assert finer.vectors[:, 0].tolist() == [-2.0, 0.0, 2.0]
    maze = Spaces.of(make_environment("maze", rows=5))
    assert maze.state(np.array([1.0, 3.0], np.float32)).tolist() == pytest.approx([0.1, 0.3])
    assert maze.vectors.tolist() == [list(move) for move in MOVES]
    assert maze.actions == [0, 1, 2, 3]


def test_a_random_agent_makes_no_value_function():
    agent = make_agent("random", make_environment("maze", rows=3), rng=0)
    assert isinstance(agent, RandomAgent)
    assert agent.learn(np.zeros(2, np.float32), 1.0, False) == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_environment("cart-pole"), "make_environment: `name` must be one of 'mountain-car'"),
        (lambda: make_environment("maze", time_limit=0), "`time_limit`"),
        (lambda: make_maze(3, algorithm="kruskal"), "`algorithm` must be one of 'dfs'"),
        (lambda: make_maze(3, rng=-1), "`rng` must be a non-negative"),
        (lambda: hyperparameters("maze", "dqn"), "`method` must be one of 'dtg-cs'"),
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
