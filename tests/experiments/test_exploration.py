"""Experiments of exploration: their verdicts, and that the rooms are what they are said to be."""

import numpy as np
import pytest

from condcs_reproduction import experiment_named
from condcs_reproduction.changing_rooms import ROOMS, SIZE, changing_room, steps_in_room
from condcs_reproduction.nonstationary import recovery
from condcs_reproduction.table6 import mean_cell, rate_cell
from condcs_reproduction.table6b import difference_cell


def test_every_method_of_the_paper_has_its_numbers():
    experiment = experiment_named("table6")
    assert experiment.paper["dtg-cs"] == {"mountain-car": (946, None), "pendulum": (4105, None), "maze": (2581, 0.75)}
    cases = {task.case for task in experiment.tasks(experiment.parameters, 1)}
    assert len(cases) == 27
    assert {f"{m}; {e}" for m in experiment.paper for e in experiment.paper[m]} | {
        f"{m}; {e}" for m in ("control", "maxent-relative") for e in ("mountain-car", "pendulum", "maze")
    } == cases


def test_rates_by_the_two_proportion_test():
    """75 of 100 against 60 of 100: z = 2.26, not different at 1%; against 57: z = 2.69, different."""
    assert rate_cell(60, 100, 0.75).verdict == "agrees"
    assert rate_cell(57, 100, 0.75).verdict == "lower"
    assert rate_cell(100, 100, 0.5).verdict == "higher"


def test_means_agree_within_a_tenth():
    experiment = experiment_named("table6")
    assert mean_cell(experiment, np.array([1000.0, 1000.0]), 946).verdict == "agrees"
    assert mean_cell(experiment, np.array([1100.0, 1100.0]), 946).verdict == "higher"
    assert mean_cell(experiment, np.array([]), 946).verdict == "differs"


def test_differences_run_by_run():
    """A constant difference is certain; the same differences around 0 say nothing."""
    rng = np.random.default_rng(0)
    base = rng.integers(100, 10_000, size=50).astype(float)
    assert difference_cell(base - 10, base, "fewer").verdict == "agrees"
    assert difference_cell(base - 10, base, "fewer").detail.endswith("fewer in 50 of 50 runs")
    assert difference_cell(base + 10, base, "fewer").ours == "more"
    noise = np.tile([-5.0, 5.0], 25)
    assert difference_cell(base + noise, base, "no difference").verdict == "agrees"


def walk(room, steps, seed=0, actions=None):
    """Yield (time, before, action, after) of random or given actions."""
    from condcs_reproduction.changing_room_rollouts import step

    rng = np.random.default_rng(seed)
    environment = changing_room(room)
    state = environment.start.copy()
    for t in range(steps):
        action = int(rng.integers(4)) if actions is None else actions[t % len(actions)]
        before = state.copy()
        step(environment, state, action, t, rng)
        yield t, before, action, state.copy()


@pytest.mark.parametrize("room", list(ROOMS))
def test_walls_hold(room):
    """No step leaves the room, and a step goes at most one cell, two with the wind."""
    for _, before, _, after in walk(room, 3000):
        assert ((after[:2] >= 0) & (after[:2] < SIZE)).all()
        assert np.abs(after[:2] - before[:2]).sum() <= (2 if room == "wind" else 1)


def test_wind_comes_and_goes():
    """Actions up and down: the column falls while it blows (90% of steps; 99.9% interval), and stays when not."""
    from condcs_reproduction.changing_room_rollouts import step

    rng, environment = np.random.default_rng(1), changing_room("wind")
    for time, low, high in ((0, 0.85, 0.95), (2_999, 0.85, 0.95), (3_000, 0.0, 0.0), (6_000, 0.85, 0.95)):
        moved = 0
        for _ in range(1000):
            state = np.array([6.0, 6.0, 0.0])
            step(environment, state, 2, time, rng)
            moved += state[0] == 5
        assert low <= moved / 1000 <= high


def test_screen_is_random_in_its_corner_alone():
    seen = [(tuple(after[:2]), after[2]) for _, _, _, after in walk("screen", 20_000)]
    on = [value for (column, row), value in seen if column >= 9 and row < 3]
    assert len(set(on)) == len(on) > 50
    assert all(value == 0 for (column, row), value in seen if column < 9 or row >= 3)
    assert 0.4 < np.mean(on) < 0.6


def test_rooms_of_other_sizes():
    """Doors and screens follow the size; parameters may be others, and mistakes are told."""
    from condcs._core.errors import CondcsError

    assert changing_room("door").parameters[7:].tolist() == [5, 6, 4_000]
    assert changing_room("screen").parameters[4:7].tolist() == [9, 0, 3]
    small = changing_room("door", size=8, door_row=1, door_time=10)
    assert small.passages.shape == (8, 8, 4)
    assert small.passages[:, 3, 1].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    for arguments in ({"door_row": 12}, {"size": 2}, {"gravity": 1.0}):
        with pytest.raises(CondcsError, match="must be"):
            changing_room("door", **arguments)
    assert np.array_equal(
        steps_in_room("local", "still", repeats=2, size=6, steps=300),
        steps_in_room("local", "still", repeats=2, size=6, steps=300),
    )


def test_recovery_needs_ten_good_episodes():
    assert recovery(np.array([5.0] * 9 + [-50.0] + [5.0] * 12), np.arange(10, 230, 10), 5.0, 999) == 200
    assert recovery(np.array([-1.0] * 30), np.arange(30), 0.0, 999) == 999
    assert recovery(np.array([5.0] * 9), np.arange(9), 5.0, 999) == 999


def test_maps_of_changing_tasks_are_as_long_before_and_after():
    """The best way has the same length in both maps, and the first way is shut in the second."""
    pytest.importorskip("gymnasium")
    from condcs_reproduction.changing_tasks import TASKS

    for name in ("rooms", "frozen lake"):
        environment = TASKS[name].make()
        lengths = []
        for _ in range(2):
            best, frontier, seen = 0, [environment._start], {environment._start}
            while not any(environment.map[r][c] == "G" for r, c in frontier):
                best += 1
                steps = {(r + a, c + b) for r, c in frontier for a, b in ((0, 1), (1, 0), (0, -1), (-1, 0))} - seen
                frontier = [
                    (r, c)
                    for r, c in steps
                    if 0 <= r < environment.rows and 0 <= c < environment.columns and environment.map[r][c] in ".GS"
                ]
                seen |= set(frontier)
            lengths.append(best)
            environment.change()
        assert lengths[0] == lengths[1] > 10


def test_door_opens_late():
    """To the right of the wall only after 4,000 steps, and only through the door."""
    from condcs_reproduction.changing_room_rollouts import step

    rng, environment = np.random.default_rng(0), changing_room("door")
    for time, row, column in ((0, 6, 5), (3_999, 6, 5), (4_000, 6, 6), (4_000, 5, 5)):
        state = np.array([5.0, float(row), 0.0])
        step(environment, state, 1, time, rng)
        assert state[0] == column
    assert all(after[0] <= 5 for t, _, _, after in walk("door", 4000))
