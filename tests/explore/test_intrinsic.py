"""Intrinsic rewards for other agents: wrappers, their vectorised form, and a learner of another library."""

import math

import numpy as np
import pytest

from condcs._core.errors import CondcsError
from condcs.explore import RandomFeatures, TransitionBuffer

gymnasium = pytest.importorskip("gymnasium")

from condcs.explore._intrinsic import IntrinsicReward, LocalForm, VectorIntrinsicReward  # noqa: E402


class Line(gymnasium.Env):
    """Walk on a line of 9 places; the last one ends the episode."""

    def __init__(self, actions=None):
        self.observation_space = gymnasium.spaces.Box(0.0, 8.0, (1,))
        self.action_space = actions or gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 4
        return np.array([4.0], np.float32), {"fresh": True}

    def step(self, action):
        way = (
            2 * int(action) - 1 if isinstance(self.action_space, gymnasium.spaces.Discrete) else int(np.sign(action[0]))
        )
        self.place = int(np.clip(self.place + way, 0, 8))
        return np.array([self.place], np.float32), 2.0, self.place == 8, False, {"place": self.place}


def walk(environment, n, seed=0):
    """Yield (observation, action, step) of a random walk with resets."""
    rng = np.random.default_rng(seed)
    observation, _ = environment.reset(seed=seed)
    for _ in range(n):
        action = int(rng.integers(2))
        result = environment.step(action)
        yield observation, action, result
        observation = environment.reset()[0] if result[2] else result[0]


def test_equals_a_buffer_filled_by_hand():
    """Info holds the divergence; with weight 0 the reward stays; a reset is not a transition."""
    environment = IntrinsicReward(Line(), size=20, bandwidth=0.2, weight=0.0, form="level")
    buffer = TransitionBuffer(20, 3, 1, bandwidth_x=0.2, bandwidth_y=0.2)
    for observation, action, (upcoming, reward, _, _, info) in walk(environment, 100):
        buffer.push([observation[0] / 8, *np.eye(2)[action]], upcoming / 8)
        assert info["intrinsic_reward"] == buffer.divergence()
        assert info["place"] == upcoming[0]
        assert reward == 2.0
    assert buffer.divergence() > 0


@pytest.mark.parametrize("vectorised", [False, True])
def test_the_wrapper_did_nothing_to_the_reward_by_default(vectorised):
    if vectorised:
        environment = VectorIntrinsicReward(gymnasium.vector.SyncVectorEnv([Line]), size=20, bandwidth=0.2)
    else:
        environment = IntrinsicReward(Line(), size=20, bandwidth=0.2)
    environment.reset(seed=0)
    bonuses = []
    for action in [0, 0, 0, 1, 1, 1] * 4:
        _, reward, *_, info = environment.step(np.array([action]) if vectorised else action)
        assert reward == pytest.approx(2.0 + info["intrinsic_reward"])
        bonuses.append(float(np.max(info["intrinsic_reward"])))
    assert max(bonuses) > 0


def test_rewards_are_mixed():
    environment = IntrinsicReward(Line(), size=20, weight=3.0, extrinsic_weight=0.5)
    for _, _, (_, reward, _, _, info) in walk(environment, 40):
        assert reward == pytest.approx(1.0 + 3.0 * info["intrinsic_reward"])


def test_forms():
    """Changes add up to the level; surprise is the log ratio of two conditional densities at the transition."""
    level = [s[4]["intrinsic_reward"] for _, _, s in walk(IntrinsicReward(Line(), size=20, form="level"), 60)]
    change = [s[4]["intrinsic_reward"] for _, _, s in walk(IntrinsicReward(Line(), size=20, form="change"), 60)]
    assert np.cumsum(change) == pytest.approx(level, abs=1e-12)
    wrapper = IntrinsicReward(Line(), size=20, bandwidth=0.2, form="surprise")
    for observation, action, (upcoming, _, _, _, info) in walk(wrapper, 60):
        (old_x, old_y), (new_x, new_y) = wrapper.buffer.halves()
        if len(new_x) < 2:
            assert info["intrinsic_reward"] == 0
            continue
        x, y = np.array([observation[0] / 8, *np.eye(2)[action]]), upcoming / 8

        def density(xs, ys, x=x, y=y):
            k = np.exp(-((xs - x) ** 2).sum(1) / (2 * 0.2**2))
            return (k * np.exp(-((ys - y) ** 2).sum(1) / (2 * 0.2**2))).sum() / k.sum()

        expected = math.log(density(new_x, new_y)) - math.log(density(old_x, old_y))
        assert info["intrinsic_reward"] == pytest.approx(expected, abs=1e-8)


def dense_local_reward(x, y, group, width, change, novelty, dim_state):
    """The local reward of the last row by the formulas of its docstring, from whole Gram matrices."""

    def gram(rows):
        return np.exp(-((rows[:, None] - rows[None]) ** 2).sum(-1) / (2 * width**2))

    K, L = gram(x), gram(y)
    old, new = group == 0, group == 1
    arrivals = novelty * gram(x[:, :dim_state] + y)[-1].sum() ** -0.75
    n_old, n_new = K[-1, old].sum(), K[-1, new].sum()
    if min(n_old, n_new) < 1:
        return arrivals
    A, B = (np.column_stack([M[:, old].sum(1), M[:, new].sum(1)]) for M in (K, K * L))
    w = K[-1]
    T = np.array([[(w[m] * B[m, h] / (A[m, g] * A[m, h])).sum() for h in (0, 1)] for g, m in enumerate((old, new))])
    divergence = np.log(T[0, 0] * T[1, 1] / (T[0, 1] * T[1, 0]))
    similarity = np.sqrt(T[0, 1] / (w[old] / A[old, 0]).sum() * T[1, 0] / (w[new] / A[new, 1]).sum())
    spread = max(0.0, 1 - similarity) / similarity
    chance = np.log1p(spread / n_old) + np.log1p(spread / n_new)
    return change * max(0.0, divergence - 2 * chance) + arrivals


def test_local_form_equals_whole_gram_matrices():
    """At every step, also long after the first row left; walls that turn round make the divergence positive."""
    wrapper = IntrinsicReward(Line(), size=40, bandwidth=0.15, form=LocalForm(change=0.7, novelty=1.5))
    rows, positive = [], 0
    wrapper.reset(seed=0)
    rng, place = np.random.default_rng(0), 4
    for t in range(160):
        action = int(rng.integers(2))
        # After 100 steps the world is mirrored: the same action leads the other way.
        used = action if t < 100 else 1 - action
        wrapper.env.place = place
        upcoming = int(np.clip(place + 2 * used - 1, 0, 8))
        reward = wrapper.intrinsic(np.array([place / 8]), action, np.array([upcoming / 8]))
        rows.append([place / 8, *np.eye(2)[action], (upcoming - place) / 8])
        place = 4 if upcoming == 8 else upcoming
        kept = np.array(rows[-40:])
        n = len(kept)
        group = (np.arange(n) >= (n + 1) // 2).astype(int)
        expected = dense_local_reward(kept[:, :3], kept[:, 3:], group, 0.15, 0.7, 1.5, 1)
        assert reward == pytest.approx(expected, rel=1e-8), t
        novelty = dense_local_reward(kept[:, :3], kept[:, 3:], group, 0.15, 0.0, 1.5, 1)
        positive += reward > novelty + 0.1
        if 40 <= t < 100 or t >= 145:
            assert reward == pytest.approx(novelty, abs=0.3)
    assert positive > 10


def test_local_form_far_from_the_other_half():
    """Masses of the other half that are too small for a double: no comparison, novelty alone, nothing infinite."""
    wrapper = IntrinsicReward(Line(), size=8, bandwidth=1e-3)
    wrapper.reset(seed=0)
    rewards = [wrapper.step(a)[4]["intrinsic_reward"] for a in (1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1)]
    assert np.isfinite(rewards).all()
    assert rewards[0] == 2.0


def test_continuous_actions_and_encoders():
    environment = IntrinsicReward(
        Line(gymnasium.spaces.Box(-1.0, 1.0, (1,))), size=10, encoder=RandomFeatures((1,), 4, scale=8, rng=0)
    )
    environment.reset(seed=0)
    rewards = [environment.step(np.array([a], np.float32))[4]["intrinsic_reward"] for a in np.linspace(-1, 0.9, 30)]
    assert np.isfinite(rewards).all()
    assert environment.buffer.dim_x == 5
    assert max(rewards) > 0


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_vectorised_pushes_every_transition_once(mode):
    """All environments feed one buffer in their order; resets are left out, last observations of episodes are not."""
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    vector = SyncVectorEnv([Line, Line, Line], autoreset_mode=AutoresetMode[mode])
    environment = VectorIntrinsicReward(vector, size=40, bandwidth=0.2, weight=1.0, form="level")
    buffer = TransitionBuffer(40, 3, 1, bandwidth_x=0.2, bandwidth_y=0.2)
    rng = np.random.default_rng(0)
    places, ended = [4] * 3, [False] * 3
    environment.reset(seed=0)
    ends = 0
    for _ in range(120):
        actions = rng.integers(2, size=3)
        _, rewards, terminations, _, infos = environment.step(actions)
        for i in range(3):
            if ended[i]:
                places[i], ended[i], expected = 4, False, 0.0
            else:
                upcoming = int(np.clip(places[i] + 2 * actions[i] - 1, 0, 8))
                buffer.push([places[i] / 8, *np.eye(2)[actions[i]]], [upcoming / 8])
                expected, places[i] = buffer.divergence(), upcoming
                assert terminations[i] == (upcoming == 8)
                if upcoming == 8:
                    ends += 1
                    places[i], ended[i] = (4, False) if mode == "SAME_STEP" else (8, True)
            assert infos["intrinsic_reward"][i] == expected
            if expected:
                assert rewards[i] == pytest.approx(2.0 + expected)
    assert ends > 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"size": 5}, "`size` must be even"),
        ({"bandwidth": 0.0}, "`bandwidth_x` must be positive"),
        ({"measure": "cs"}, "`measure` must be one of"),
        ({"form": "novelty"}, "`form` must be one of"),
        ({"form": "surprise", "measure": "joint_mmd"}, "must go with measure"),
        ({"measure": "joint_mmd"}, '`form`="local" must go with measure'),
        ({"weight": math.nan}, "`weight` must be a finite number"),
        ({"weight": "much"}, "`weight` must be a finite number, got 'much'"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(CondcsError, match=words):
        IntrinsicReward(Line(), **arguments)


def test_weights_of_the_local_form_are_finite():
    with pytest.raises(CondcsError, match="`novelty` must be a finite number"):
        LocalForm(novelty=math.inf)


def test_bad_spaces():
    toy = Line()
    toy.observation_space = gymnasium.spaces.Discrete(9)
    with pytest.raises(CondcsError, match="observation space must be a box"):
        IntrinsicReward(toy)
    with pytest.raises(CondcsError, match="action space must be discrete or a box"):
        IntrinsicReward(Line(gymnasium.spaces.MultiBinary(2)))


def test_nan_observations_and_missing_seeds():
    environment = IntrinsicReward(Line(), require_seed=True)
    with pytest.raises(CondcsError, match="must be seeded at its first reset"):
        environment.reset()
    environment.reset(seed=0)
    environment.reset()
    environment.unwrapped.step = lambda action: (np.array([np.nan]), 0.0, False, False, {})
    with pytest.raises(CondcsError, match="observation must be finite"):
        environment.step(0)


def test_a_learner_of_another_library():
    """PPO of Stable-Baselines3 trains through the wrapper, and sees the mixed reward."""
    library = pytest.importorskip("stable_baselines3")
    torch = pytest.importorskip("torch")
    from stable_baselines3.common.monitor import Monitor

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        environment = Monitor(IntrinsicReward(gymnasium.wrappers.TimeLimit(Line(), 30), size=40, weight=1.0))
        model = library.PPO("MlpPolicy", environment, n_steps=64, batch_size=32, n_epochs=2, seed=0, device="cpu")
        model.learn(192)
        assert environment.env.buffer.pushed == 192
        returns, lengths = environment.get_episode_rewards(), environment.get_episode_lengths()
        assert sum(returns) > 2.0 * sum(lengths)
    finally:
        torch.set_num_threads(threads)
