"""Sliding windows, of the buffer and of a rival in `reproduce drift`, against estimators that start afresh."""

import io

import numpy as np
import pytest

import condcs
from condcs._measures import sliding_loops
from condcs.explore import TransitionBuffer
from condcs_reproduction.divergence_window import ReferenceWindow

MEASURES = ("conditional_cs", "conditional_euclidean", "joint_mmd")
WIDTHS = {"bandwidth_x": 0.1, "bandwidth_y": 0.2}


def uniform(rng, n):
    x = rng.random((n, 2))
    return x, x + 0.1 * rng.normal(size=(n, 2))


def clustered(rng, n):
    centre = rng.normal(size=(5, 2))[rng.integers(5, size=n)]
    return centre + 0.02 * rng.normal(size=(n, 2)), centre[:, ::-1] + 0.05 * rng.normal(size=(n, 2))


def discrete(rng, n):
    x = rng.integers(3, size=(n, 2)).astype(float)
    return x, x[:, ::-1] + rng.integers(2, size=(n, 2))


def sticky(rng, n):
    """Stays at a place for long, then moves by a few widths: sums fall from many to almost nothing."""
    place = np.cumsum(rng.random(n) < 0.04)
    x = np.stack([0.71 * place, np.zeros(n)], axis=1)
    return x, np.where(rng.random((n, 1)) < 0.5, x, -x)


def jumping(rng, n):
    """Jumps by hundreds of widths: kernel sums underflow, and rows must be finished in the log domain."""
    place = rng.choice([0.0, 30.0, 31.0, -80.0], size=n)[np.cumsum(rng.random(n) < 0.05)]
    x = np.stack([place, rng.random(n)], axis=1)
    return x, x + rng.random((n, 2))


def with_rows_far_away(rng, n):
    """A few rows 1e8 and more widths from all others: their exponents have no digits left for those of y."""
    x, y = uniform(rng, n)
    x[rng.random(n) < 0.05, 0] = 1e7
    x[rng.random(n) < 0.05, 1] = -1e9
    return x, y


STREAMS = [uniform, clustered, discrete, sticky, jumping, with_rows_far_away]


def difference(ours, reference, scale=1.0):
    return abs(ours - reference) / max(scale, abs(reference))


def core(measure, old, new):
    return getattr(condcs, measure)(*old, *new, **WIDTHS)


@pytest.mark.parametrize("stream", STREAMS)
def test_halves_that_slide_together(stream, rng):
    """Every measure equals the core's at every step, while the buffer fills and long after."""
    size, steps = 30, 240
    x, y = stream(rng, steps)
    buffer = TransitionBuffer(size, 2, 2, **WIDTHS)
    for t in range(steps):
        buffer.push(x[t], y[t])
        first = max(0, t + 1 - size)
        middle = first + (t + 2 - first) // 2
        if t < 3:
            assert buffer.divergence() == 0.0
            continue
        old, new = (x[first:middle], y[first:middle]), (x[middle : t + 1], y[middle : t + 1])
        for measure in MEASURES:
            assert difference(buffer.divergence(measure), core(measure, old, new)) < 1e-9, (t, measure)


@pytest.mark.parametrize("stream", STREAMS)
def test_reference_and_recent_rows(stream, rng):
    """The window against a fixed reference, at every step."""
    n, size, steps = 40, 12, 150
    x, y = stream(rng, n + steps)
    window = ReferenceWindow(np.column_stack([x, y])[:n], 2, size, tuple(WIDTHS.values()))
    for t in range(n, n + steps):
        found = window.push(np.append(x[t], y[t]))
        recent = slice(max(n, t + 1 - size), t + 1)
        for measure in MEASURES:
            reference = core(measure, (x[:n], y[:n]), (x[recent], y[recent])) if t > n else None
            if reference is not None:
                ours = sliding_loops.WINDOW_DIVERGENCES[measure](window.sums)
                assert difference(ours, reference) < 1e-9, (t, measure)
        assert np.isnan(found) if t + 1 - n < size else found == sliding_loops.window_conditional_cs(window.sums)


def test_a_sum_that_falls_from_fifty_to_nothing(rng):
    """What cancellation ruins without the guard: many rows near a point leave, one far away stays."""
    near = 1e-3 * rng.normal(size=60)
    far = np.concatenate([[1.0, 1.1], 1.0 + 0.01 * rng.random(58)])
    reference = np.linspace(-0.05, 0.05, 20)
    window = ReferenceWindow(np.column_stack([reference, reference]), 1, 60, (0.1, 0.1))
    for value in np.concatenate([near, far]):
        found = window.push(np.array([value, value]))
    expected = condcs.conditional_cs(reference, reference, far, far, bandwidth_x=0.1, bandwidth_y=0.1)
    assert found == pytest.approx(expected, rel=1e-11)


def test_finite_where_the_printed_formula_is_not():
    """With y apart by 200 widths and x by 100: closed form, two rows per group.

    K within a group is 1 (equal x), so A_own = 2, B_own = 1 + L; across, K cancels in B / A = mean of L.
    """
    buffer = TransitionBuffer(4, 1, 1, bandwidth_x=0.01, bandwidth_y=0.5)
    for x, y in ((0, 0), (0, 0), (1, 100), (1, 100)):
        buffer.push(x, y)
    # T_own = 2 rows * 2 / 4 = 1; T_cross = 2 rows * (2 L) / (2 * 2) relative to K = L, with log L = -0.5 * 200^2.
    assert buffer.divergence() == pytest.approx(2 * 0.5 * 200.0**2, rel=1e-14)
    assert buffer.divergence("joint_mmd") == pytest.approx(2.0)


def test_rows_that_stay_for_ever_gather_no_rounding(rng):
    """After thousands of pushes the sums of the reference are those of a window built afresh, to a few digits."""
    rows = np.column_stack(uniform(rng, 20))
    window, fresh = (ReferenceWindow(rows, 2, 8, tuple(WIDTHS.values())) for _ in range(2))
    recent = rng.random((4000, 4))
    found = [window.push(row) for row in recent]
    expected = [fresh.push(row) for row in recent[-8:]]
    assert found[-1] == pytest.approx(expected[-1], rel=1e-13)


def test_saved_and_restored_without_pickle(rng):
    """A restored window goes on bit for bit, through a file."""
    x, y = jumping(rng, 200)
    buffer = TransitionBuffer(20, 2, 2, **WIDTHS)
    for t in range(100):
        buffer.push(x[t], y[t])
    file = io.BytesIO()
    np.savez(file, **buffer.state_dict())
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        restored = TransitionBuffer.from_state_dict(saved)
    for t in range(100, 200):
        buffer.push(x[t], y[t])
        restored.push(x[t], y[t])
        assert buffer.divergence() == restored.divergence()
    assert np.array_equal(buffer.halves()[0][0], restored.halves()[0][0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"values": None}, "no 'values'"),
        ({"widths": np.ones(7)}, "widths of shape"),
        ({"sums": np.zeros((4, 3))}, "sums of shape"),
        ({"sums": np.full((4, 36), np.nan)}, "not finite"),
        ({"sizes": np.array([2, 30, 20, 9, 0])}, "rows announced"),
    ],
)
def test_a_broken_state_is_refused(change, words, rng):
    x, y = uniform(rng, 30)
    buffer = TransitionBuffer(36, 2, 2, **WIDTHS)
    for t in range(30):
        buffer.push(x[t], y[t])
    state = {name: value for name, value in {**buffer.state_dict(), **change}.items() if value is not None}
    with pytest.raises(condcs.exceptions.DataError, match=words):
        TransitionBuffer.from_state_dict(state)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"bandwidth_x": 0.0}, "`bandwidth_x` must be positive"),
        ({"bandwidth_y": -1.0}, "`bandwidth_y` must be positive"),
        ({"bandwidth_x": "median"}, "got the rule 'median'"),
        ({"bandwidth_x": [1.0, 2.0, 3.0]}, "one per column"),
        ({"bandwidth_x": None}, "`bandwidth_x` must be positive"),
        ({"dim_x": 0}, "`dim_x` must be an integer of at least 1"),
    ],
)
def test_bad_arguments(arguments, words):
    given = {"size": 4, "dim_x": 2, "dim_y": 1, "bandwidth_x": 1.0, "bandwidth_y": 1.0}
    with pytest.raises(condcs.exceptions.CondcsError, match=words):
        TransitionBuffer(**{**given, **arguments})


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([0.0, np.nan], [0.0], "`x` must be finite"),
        ([0.0, 0.0], [np.inf], "`y` must be finite"),
        ([0.0], [0.0], "`x` must be one row of 2"),
        ([0.0, 1.0], [0.0, 1.0], "`y` must be one row of 1"),
        (["a", "b"], [0.0], "`x` must hold numbers"),
    ],
)
def test_bad_rows(x, y, words):
    buffer = TransitionBuffer(4, 2, 1, bandwidth_x=1.0, bandwidth_y=1.0)
    with pytest.raises(condcs.exceptions.CondcsError, match=words):
        buffer.push(x, y)
    with pytest.raises(condcs.exceptions.ParameterError, match="`measure` must be one of"):
        buffer.divergence("cs")
