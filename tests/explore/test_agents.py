"""Agents: what they learn from, which spaces they accept, and that they explore."""

import math
from dataclasses import replace

import numpy as np
import pytest

from condcs._core.errors import CondcsError
from condcs.explore import (
    DivergenceReward,
    KernelAgent,
    KernelTD,
    RandomFeatures,
    Spaces,
    TransitionBuffer,
    hyperparameters,
    make_agent,
    make_environment,
    play,
)

gymnasium = pytest.importorskip("gymnasium")

spaces = gymnasium.spaces


class Toy(gymnasium.Env):
    """Any spaces; observations are what the test puts in."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space


BOX = spaces.Box(0.0, 2.0, (2,))


def steps(environment, agent, n, seed=0):
    """Let the agent act and return what it learnt from."""
    observation, _ = environment.reset(seed=seed)
    used = []
    for _ in range(n):
        observation, reward, terminated, _, _ = environment.step(agent.act(observation))
        used.append((reward, agent.learn(observation, reward, terminated)))
    return used


def test_divergence_is_that_of_the_transitions():
    """The reward equals a buffer filled by hand with scaled states, raw actions and next states."""
    environment = make_environment("mountain-car")
    agent = make_agent(
        "dtg-cs", environment, settings=replace(hyperparameters("mountain-car", "dtg-cs"), buffer=20), rng=0
    )
    by_hand = TransitionBuffer(20, 3, 2, bandwidth_x=0.1, bandwidth_y=0.1)
    observation, _ = environment.reset(seed=0)
    low, high = np.array([-1.2, -0.07]), np.array([0.6, 0.07])
    for _ in range(60):
        action = agent.act(observation)
        upcoming, reward, terminated, _, _ = environment.step(action)
        used = agent.learn(upcoming, reward, terminated)
        by_hand.push([*((observation - low) / (high - low)), action - 1], (upcoming - low) / (high - low))
        assert used == pytest.approx(by_hand.divergence(), rel=1e-4, abs=1e-6)
        observation = upcoming
    assert used > 0


def test_the_control_learns_from_nothing():
    car = make_environment("mountain-car")
    assert all(used == 0 for _, used in steps(car, make_agent("control", car, rng=0), 30))


@pytest.mark.parametrize("method", ["dtg-cs", "control"])
def test_optimism_finds_the_flag(method):
    """Mountain car: within 2,000 steps from any of 5 starts, where random actions need tens of thousands."""
    environment = make_environment("mountain-car")
    settings = replace(hyperparameters("mountain-car", method), buffer=200)
    for seed in range(5):
        agent = make_agent(method, environment, settings=settings, rng=seed)
        assert play(agent, environment, steps=2000, rng=seed) < 2000
        assert len(agent.value) > 100


def test_same_seed_same_run():
    environment = make_environment("mountain-car")
    settings = replace(hyperparameters("mountain-car", "dtg-local"), buffer=100, epsilon=0.2)
    used = [steps(environment, make_agent("dtg-local", environment, settings=settings, rng=4), 120) for _ in range(2)]
    assert used[0] == used[1]


def test_spaces_become_states_and_actions():
    """Boxes are brought to the unit range; discrete actions are unit vectors, continuous ones a grid."""
    toy = Spaces.of(Toy(BOX, spaces.Discrete(3, start=-1)))
    assert toy.state(np.array([1.0, 2.0], np.float32)).tolist() == [0.5, 1.0]
    assert toy.actions == [-1, 0, 1]
    assert np.array_equal(toy.vectors, np.eye(3))
    grid = Spaces.of(Toy(BOX, spaces.Box(-1.0, 1.0, (2,))), levels=3)
    assert len(grid.actions) == 9
    assert grid.vectors[0].tolist() == [-1.0, -1.0]
    assert grid.actions[5].dtype == np.float32
    car = Spaces.of(make_environment("mountain-car"))
    assert car.vectors[:, 0].tolist() == [-1.0, 0.0, 1.0]
    assert car.actions == [0, 1, 2]


def test_images_through_an_encoder():
    """High-dimensional observations: random features keep apart what differs."""
    image = spaces.Box(0, 255, (16, 16, 3), np.uint8)
    encoder = RandomFeatures((16, 16, 3), 6, scale=255, rng=0)
    agent = make_agent("dtg-cs", Toy(image, spaces.Discrete(2)), encoder=encoder, rng=0)
    rng = np.random.default_rng(0)
    observation = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    for _ in range(10):
        agent.act(observation)
        observation = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
        divergence = agent.learn(observation, 0.0, False)
    assert math.isfinite(divergence)
    assert agent.value.arrays.centres.shape[0] == 6
    first, second = encoder(observation), encoder(255 - observation)
    assert np.abs(first - second).max() > 0.01
    assert ((first > 0) & (first < 1)).all()


@pytest.mark.parametrize(
    ("observations", "actions", "words"),
    [
        (spaces.Discrete(4), spaces.Discrete(2), "observation space must be a box of one dimension, got Discrete"),
        (spaces.Box(0, 1, (4, 4)), spaces.Discrete(2), "FlattenObservation`, or pass an `encoder`"),
        (spaces.Box(-np.inf, np.inf, (2,)), spaces.Discrete(2), "must have finite bounds"),
        (BOX, spaces.MultiDiscrete([2, 2]), "action space must be discrete, or a bounded box"),
        (BOX, spaces.Box(-np.inf, np.inf, (1,)), "action space must be discrete, or a bounded box"),
    ],
)
def test_wrong_spaces(observations, actions, words):
    with pytest.raises(CondcsError, match=f"make_agent: .*{words}"):
        make_agent("dtg-cs", Toy(observations, actions), rng=0)


def test_nan_observations_are_refused():
    agent = make_agent("dtg-cs", Toy(BOX, spaces.Discrete(2)), rng=0)
    with pytest.raises(CondcsError, match="observation must be finite"):
        agent.act(np.array([np.nan, 0.0]))
    agent.act(np.zeros(2))
    with pytest.raises(CondcsError, match="observation must be finite"):
        agent.learn(np.array([np.inf, 0.0]), 0.0, False)
    with pytest.raises(CondcsError, match="observation must have 2 numbers, got 3"):
        agent.act(np.zeros(3))


def test_parts_that_do_not_fit():
    known = Spaces.of(Toy(BOX, spaces.Discrete(3)))
    with pytest.raises(CondcsError, match="`value` must fit the environment"):
        KernelAgent(known, KernelTD(2, [[0.0], [1.0]]))
    buffer = TransitionBuffer(10, 2, 2, bandwidth_x=0.1, bandwidth_y=0.1)
    with pytest.raises(CondcsError, match="`reward` must have a buffer with 5 columns of x"):
        KernelAgent(known, KernelTD(2, known.vectors), reward=DivergenceReward(buffer))
    with pytest.raises(CondcsError, match="must go with measure"):
        DivergenceReward(buffer, measure="joint_mmd", form="surprise")
    with pytest.raises(CondcsError, match="`epsilon` must be between 0 and 1"):
        KernelAgent(known, KernelTD(2, known.vectors), epsilon=2.0)
    with pytest.raises(CondcsError, match="`learn` must come after `act`"):
        KernelAgent(known, KernelTD(2, known.vectors)).learn(np.zeros(2), 0.0, False)
    with pytest.raises(CondcsError, match="`levels`"):
        Spaces.of(Toy(BOX, spaces.Box(-1.0, 1.0, (1,))), levels=1)
