"""The value function against the sum that defines it."""

import numpy as np
import pytest

from condcs._core.errors import CondcsError, DataError
from condcs.explore import KernelTD

ACTIONS = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.5]])


def test_equals_the_definition_without_merging(rng):
    """Value = initial + alpha sum_j delta_j kernel((s, a), (s_j, a_j)), delta by the values before the step."""
    width, alpha, gamma, initial = 0.3, 0.4, 0.8, 5.0
    value = KernelTD(
        2, ACTIONS, bandwidth=width, learning_rate=alpha, discount=gamma, initial_value=initial, merge_radius=1e-9
    )
    points, deltas = [], []

    def q(state, action):
        z = np.concatenate([state, ACTIONS[action]])
        return initial + alpha * sum(
            d * np.exp(-np.sum((z - p) ** 2) / (2 * width**2)) for p, d in zip(points, deltas, strict=True)
        )

    for step in range(60):
        state, upcoming = rng.random(2), rng.random(2)
        action, reward, ends = int(rng.integers(3)), float(rng.normal()), step % 7 == 0
        best = 0.0 if ends else max(q(upcoming, a) for a in range(3))
        expected = reward + gamma * best - q(state, action)
        assert value.update(state, action, reward, upcoming, terminated=ends) == pytest.approx(expected, abs=1e-11)
        points.append(np.concatenate([state, ACTIONS[action]]))
        deltas.append(expected)
    assert len(value) == 60
    where = rng.random(2)
    assert value.values(where) == pytest.approx([q(where, a) for a in range(3)], abs=1e-11)


def test_near_states_share_a_centre():
    """Within the merge radius, same action: one centre; another action or farther away: another."""
    value = KernelTD(1, [[0.0], [1.0]], merge_radius=0.02)
    for state, action, count in ((0.5, 0, 1), (0.515, 0, 1), (0.525, 0, 2), (0.5, 1, 3), (0.501, 1, 3)):
        value.update([state], action, 1.0, [0.9])
        assert len(value) == count


def test_dictionary_is_bounded(rng):
    """A full dictionary learns on at its nearest centre, and never at one of another action."""
    value = KernelTD(1, [[0.0], [5.0]], capacity=10, learning_rate=0.5, discount=0.0, initial_value=0.0)
    for _ in range(100):
        value.update(rng.random(1), 0, 1.0, rng.random(1))
    assert len(value) == 10
    before = value.values([0.5])
    value.update([0.5], 1, 100.0, [0.6])
    assert np.array_equal(value.values([0.5]), before)


def test_what_was_not_tried_for_long_has_its_initial_value():
    """Two steps at one place halve its value twice, 10 to 2.5; each loses its share of -7.5 after three more steps."""
    value = KernelTD(1, [[0.0], [9.0]], learning_rate=0.5, initial_value=10.0, memory=4)
    for _ in range(2):
        value.update([0.0], 0, 0.0, [0.0], terminated=True)
    expected = [2.5, 2.5, 6.25, 10.0, 10.0]
    for step, after in enumerate(expected, start=1):
        value.update([0.9 * step], 1, 0.0, [5.0], terminated=True)
        assert value.values([0.0])[0] == pytest.approx(after, abs=1e-9)
    assert value.values([0.9 * 5])[1] == pytest.approx(5.0, abs=1e-6)


@pytest.mark.parametrize("memory", [0, 7])
def test_values_at_the_next_state_are_corrected(rng, memory):
    """After a step the values known of the next state are those that a new look finds."""
    value = KernelTD(2, ACTIONS, bandwidth=0.5, learning_rate=0.3, memory=memory)
    state = rng.random(2)
    value.look(state)
    for _ in range(50):
        upcoming = np.clip(state + 0.1 * rng.normal(size=2), 0, 1)
        value.look(upcoming, ahead=True)
        value.learn(int(rng.integers(3)), float(rng.random()))
        assert value.q == pytest.approx(value.values(upcoming), abs=1e-9)
        state = upcoming


def test_ties_are_broken_at_random():
    """Equal values: each action about as often; 99.9% interval of 3,000 draws with p = 1/3."""
    from condcs.explore._kernel_td import choose

    rng = np.random.default_rng(0)
    drawn = np.bincount([choose(np.array([1.0, 2.0, 2.0, 2.0]), 0.0, rng) for _ in range(3000)], minlength=4)
    assert drawn[0] == 0
    assert np.abs(drawn[1:] - 1000).max() < 3.3 * np.sqrt(3000 * (1 / 3) * (2 / 3))
    half = np.bincount([choose(np.array([1.0, 2.0]), 0.5, rng) for _ in range(3000)], minlength=2)
    assert abs(half[0] - 750) < 3.3 * np.sqrt(3000 * 0.25 * 0.75)


def test_saved_and_restored(rng, tmp_path):
    """Through a file without pickle; both go on alike, and forget the same steps."""
    value = KernelTD(2, ACTIONS, bandwidth=0.2, memory=20)
    for _ in range(30):
        value.update(rng.random(2), int(rng.integers(3)), 1.0, rng.random(2))
    value.save(tmp_path / "value.npz")
    restored = KernelTD.load(tmp_path / "value.npz")
    for _ in range(15):
        assert np.array_equal(restored.values([0.3, 0.4]), value.values([0.3, 0.4]))
        step = rng.random(2), int(rng.integers(3)), 1.0, rng.random(2)
        assert restored.update(*step) == value.update(*step)
    # Files of versions without a memory.
    earlier = {name: array for name, array in value.state_dict().items() if name != "recent"}
    assert np.array_equal(KernelTD.from_state_dict(earlier).values([0.3, 0.4]), value.values([0.3, 0.4]))
    broken = value.state_dict()
    broken["centre_actions"] = broken["centre_actions"] + 5
    with pytest.raises(DataError, match="Save it again"):
        KernelTD.from_state_dict(broken)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"dim_state": 0}, "`dim_state`"),
        ({"actions": [0.0, 1.0]}, "`actions` must be finite, with one row per action"),
        ({"bandwidth": 0.0}, "`bandwidth` must be a positive"),
        ({"learning_rate": 2.0}, "`learning_rate` must be in"),
        ({"discount": 1.0}, "`discount` in"),
        ({"merge_radius": -1.0}, "`merge_radius` must be a positive"),
        ({"capacity": 0}, "`capacity`"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(CondcsError, match=words):
        KernelTD(**{"dim_state": 1, "actions": [[0.0], [1.0]], **arguments})


@pytest.mark.parametrize(
    ("state", "action", "words"),
    [([np.nan], 0, "`state` must be finite"), ([0.0, 1.0], 0, "`state` must be 1 numbers"), ([0.0], 2, "`action`")],
)
def test_bad_steps(state, action, words):
    with pytest.raises(CondcsError, match=words):
        KernelTD(1, [[0.0], [1.0]]).update(state, action, 0.0, [0.5])
