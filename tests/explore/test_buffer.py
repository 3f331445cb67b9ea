"""The transition buffer against estimators that start afresh, and its bad input."""

import numpy as np
import pytest

import condcs
from condcs._core.errors import BandwidthError, CondcsError, DataError, ParameterError, ShapeError
from condcs.explore import TransitionBuffer

WIDTHS = {"bandwidth_x": 0.3, "bandwidth_y": 0.4}


def stream(rng, n):
    """A walk that sticks, with three actions: what an agent sees."""
    state = np.clip(np.cumsum(0.2 * rng.normal(size=(n + 1, 2)) * (rng.random((n + 1, 1)) < 0.5), axis=0), -1, 1)
    action = rng.integers(-1, 2, size=(n, 1))
    return np.concatenate([state[:-1], action], axis=1), state[1:]


def filled(size, n, rng, **options):
    x, y = stream(rng, n)
    buffer = TransitionBuffer(size, 3, 2, bandwidth_x=0.3, bandwidth_y=0.4, **options)
    for row, response in zip(x, y, strict=True):
        buffer.push(row, response)
    return buffer, x, y


def test_halves_while_filling_and_after(rng):
    """The oldest half, rounded up, is old; below 2 rows per half the divergence is 0."""
    x, y = stream(rng, 30)
    buffer = TransitionBuffer(10, 3, 2, bandwidth_x=0.3, bandwidth_y=0.4)
    for t in range(30):
        buffer.push(x[t], y[t])
        n = min(t + 1, 10)
        assert len(buffer) == n
        assert buffer.pushed == t + 1
        (old_x, old_y), (new_x, new_y) = buffer.halves()
        assert len(old_x) == (n + 1) // 2
        assert np.array_equal(np.concatenate([old_x, new_x]), x[t + 1 - n : t + 1])
        assert np.array_equal(np.concatenate([old_y, new_y]), y[t + 1 - n : t + 1])
        assert (buffer.divergence() == 0.0) == (t < 3)


@pytest.mark.parametrize("measure", ["conditional_cs", "conditional_euclidean", "joint_mmd", "conditional_mmd"])
def test_every_step_equals_the_core(measure, rng):
    """Long after the first row left, the divergence is that of the two halves."""
    x, y = stream(rng, 400)
    buffer = TransitionBuffer(24, 3, 2, bandwidth_x=0.3, bandwidth_y=0.4, refresh_every=1)
    for t in range(400):
        buffer.push(x[t], y[t])
        old, new = buffer.halves()
        if t >= 3:
            expected = getattr(condcs, measure)(*old, *new, **WIDTHS)
            assert buffer.divergence(measure) == pytest.approx(expected, rel=1e-9, abs=1e-9), t


@pytest.mark.parametrize("measure", ["conditional_kl", "conditional_mmd"])
def test_costly_measures_are_refreshed_every_m_pushes(measure, rng):
    """Between two estimates the last value stands; each estimate is that of the core, new half from old."""
    x, y = stream(rng, 120)
    x, y = x + 1e-3 * rng.normal(size=x.shape), y + 1e-3 * rng.normal(size=y.shape)
    buffer = TransitionBuffer(40, 3, 2, bandwidth_x=0.3, bandwidth_y=0.4, refresh_every=10, k=3)
    seen = []
    for t in range(120):
        buffer.push(x[t], y[t])
        if t >= 49:
            seen.append(buffer.divergence(measure))
            if (t - 49) % 10 == 0:
                old, new = buffer.halves()
                options = {"k": 3} if measure == "conditional_kl" else {"bandwidth_x": 0.3, "bandwidth_y": 0.4}
                assert seen[-1] == pytest.approx(getattr(condcs, measure)(*new, *old, **options), rel=1e-12)
    assert all(len(set(seen[i : i + 10])) == 1 for i in range(0, len(seen), 10))
    assert len(set(seen)) == 8


def test_neighbours_of_an_agent_that_does_not_move():
    """Constant columns say nothing; a constant state says nothing at all."""
    buffer = TransitionBuffer(8, 2, 1, bandwidth_x=0.3, bandwidth_y=0.4, k=1, refresh_every=1)
    for _ in range(9):
        buffer.push([0.0, 1.0], 0.0)
    assert buffer.divergence("conditional_kl") == 0.0


def test_saved_and_restored(rng, tmp_path):
    """Through a file without pickle, bit for bit."""
    buffer, _, _ = filled(20, 57, rng)
    for measure in ("conditional_kl", "conditional_mmd"):
        buffer.divergence(measure)
    buffer.save(tmp_path / "buffer.npz")
    restored = TransitionBuffer.load(tmp_path / "buffer.npz")
    x, y = stream(rng, 60)
    for row, response in zip(x, y, strict=True):
        buffer.push(row, response)
        restored.push(row, response)
        for measure in ("conditional_cs", "conditional_kl", "conditional_mmd"):
            assert buffer.divergence(measure) == restored.divergence(measure)


def test_broken_states_are_refused(rng):
    """Missing entries, and counts that contradict one another."""
    buffer, _, _ = filled(20, 57, rng)
    state = buffer.state_dict()
    with pytest.raises(DataError, match="Save it again"):
        TransitionBuffer.from_state_dict({k: v for k, v in state.items() if k != "numbers"})
    with pytest.raises(DataError, match="got 7 pushes"):
        TransitionBuffer.from_state_dict({**state, "pushed": np.array([7, 3, 50, 0, 0])})
    with pytest.raises(DataError, match="got -1 pushes"):
        TransitionBuffer.from_state_dict({**state, "pushed": np.array([-1, 3, 50, 0, 0])})


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"size": 7}, ParameterError, "`size` must be even, got 7"),
        ({"size": 2}, ParameterError, "`size` must be an integer of at least 4"),
        ({"size": 10.0}, ParameterError, "`size` must be an integer"),
        ({"dim_x": 0}, ParameterError, "`dim_x` must be an integer of at least 1"),
        ({"bandwidth_x": 0}, BandwidthError, "`bandwidth_x` must be positive"),
        ({"bandwidth_y": float("nan")}, BandwidthError, "`bandwidth_y` must be positive"),
        ({"bandwidth_y": "median"}, BandwidthError, "got the rule 'median'"),
        ({"k": 0}, ParameterError, "`k` must be an integer of at least 1"),
        ({"refresh_every": 0}, ParameterError, "`refresh_every`"),
    ],
)
def test_bad_arguments(arguments, error, words):
    given = {"size": 10, "dim_x": 1, "dim_y": 1, "bandwidth_x": 1.0, "bandwidth_y": 1.0}
    with pytest.raises(error, match=words):
        TransitionBuffer(**{**given, **arguments})


@pytest.mark.parametrize(
    ("x", "y", "error", "words"),
    [
        ([np.nan, 0.0], [0.0], DataError, "push: `x` must be finite"),
        ([0.0], [0.0], ShapeError, "push: `x` must be one row of 2"),
        ([[0.0, 1.0]], [0.0], ShapeError, "push: `x` must be one row of 2"),
        ([0.0, 0.0], ["far"], DataError, "push: `y` must hold numbers"),
    ],
)
def test_bad_rows(x, y, error, words):
    buffer = TransitionBuffer(8, 2, 1, bandwidth_x=1.0, bandwidth_y=1.0)
    with pytest.raises(error, match=words):
        buffer.push(x, y)
    assert len(buffer) == 0


def test_more_neighbours_than_rows():
    """Said where the neighbours are asked for: other measures need none."""
    buffer = TransitionBuffer(8, 2, 1, bandwidth_x=1.0, bandwidth_y=1.0, k=4)
    assert buffer.divergence() == 0.0
    with pytest.raises(ParameterError, match="divergence: `k` must be an integer from 1 to 3"):
        buffer.divergence("conditional_kl")


def test_unknown_measure():
    with pytest.raises(CondcsError, match="divergence: `measure` must be one of 'conditional_cs'"):
        TransitionBuffer(8, 2, 1, bandwidth_x=1.0, bandwidth_y=1.0).divergence("mmd")
