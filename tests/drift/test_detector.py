"""The drift detector: an exact statistic, run lengths as stated, saved states, and what it makes of bad input."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import condcs
from condcs._core.errors import CondcsError
from condcs.drift import ConditionalDriftDetector, ShiftControl
from condcs.drift._calibration import null_statistics, threshold_for
from condcs.drift._reference_regression import FITTED_ROWS, fit_regression


def make_rows(n, rng, *, shift=0.0, dim=1):
    x = rng.normal(size=(n, dim))
    return x, np.sin(2 * x[:, 0]) + 0.5 * rng.normal(size=n) + shift


@pytest.fixture(scope="module")
def detector_state():
    x, y = make_rows(300, np.random.default_rng(0))
    made = ConditionalDriftDetector(x, y, window=30, expected_run_length=1000, n_streams=60, rng=0)
    return made.state_dict()


@pytest.mark.parametrize("ranks", [True, False])
def test_without_controls_the_statistic_is_conditional_cs_of_the_window(ranks):
    """Against the public function on the same rows, with the ranks worked out by hand."""
    rng = np.random.default_rng(1)
    x, y = make_rows(200, rng, dim=2)
    options = {"bandwidth_x": 0.4, "bandwidth_y": 0.7}
    detector = ConditionalDriftDetector(
        x, y, window=25, shift_control=ShiftControl(0, adjust=False, ranks=ranks), threshold=9.0, rng=3, **options
    )
    new_x, new_y = make_rows(40, rng, dim=2)
    assert not detector.update_many(new_x, new_y).any()

    def inputs(values):
        if not ranks:
            return values
        less = (x[None] < values[:, None]).mean(axis=1)
        return less + 0.5 * (x[None] == values[:, None]).mean(axis=1)

    chosen = np.sort(np.random.default_rng(3).permutation(200)[:100])
    expected = condcs.conditional_cs(inputs(x[chosen]), y[chosen], inputs(new_x[-25:]), new_y[-25:], **options)
    assert detector.statistic == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_null_streams_are_windows_of_the_reference(scale):
    """Each value equals the public divergence of that window; at the larger scale kernel values underflow."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(60, 1)) * scale, rng.normal(size=(60, 1))
    options = {"rows": 25, "window": 10, "controls": 0, "count": 3, "generator": np.random.default_rng(5)}
    found = null_statistics(x, y, np.array([1.0]), [np.array([1.0]), np.array([2.0])], **options)
    assert found.shape == (2, 3, 26)
    # The same draws: the rows behind those that are compared with, permuted.
    stream = 25 + np.random.default_rng(5).permutation(35)
    for start in (0, 13, 25):
        rows = stream[start : start + 10]
        for number, width in enumerate((1.0, 2.0)):
            expected = condcs.conditional_cs(x[:25], y[:25], x[rows], y[rows], bandwidth_x=1.0, bandwidth_y=width)
            assert found[number, 0, start] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_threshold_of_gumbel_maxima():
    """Independent Gumbel values: P(max of L <= h) = F(h)^L, so that the rate is -log F(h) = exp(-h) per step.

    With 4,000 streams the rate at the threshold is within 12% of the target: the scale has a standard error of 1.2%,
    and the threshold lies about 4 scales above the location.
    """
    rng = np.random.default_rng(0)
    values = rng.gumbel(size=(4000, 30))
    run_length, window = 2010.0, 10
    threshold = threshold_for(values, run_length, window)
    rate = -np.log1p(-(1 - np.exp(-np.exp(-threshold))))
    assert rate == pytest.approx(1 / (run_length - window), rel=0.12)


@pytest.mark.slow
def test_run_length_is_as_stated():
    """200 streams that follow the reference, 10 on each of 20 references: the mean is within 20% of the stated one.

    Run lengths are nearly exponential, so 200 of them have a standard error of about 8%; streams end at eight times the
    stated length, which takes next to nothing off the mean.
    """
    stated = 500
    lengths = [
        length
        for reference in range(20)
        for length in run_lengths(np.random.default_rng([8, reference]), stated=stated, window=25, streams=10)
    ]
    assert len(lengths) == 200
    assert np.mean(lengths) == pytest.approx(stated, rel=0.2)


def run_lengths(rng, *, stated, window, streams):
    """Run lengths of one detector on null streams.

    Many windows are answered at once with the calibration's own loop, which the tests above hold to `conditional_cs`.
    """
    from condcs.drift._calibration import _gram, nearest_rows, stream_divergences

    x, y = make_rows(40 * window, rng)
    detector = ConditionalDriftDetector(x, y, window=window, expected_run_length=stated, n_streams=200, rng=rng)
    rows_x, rows_y = detector._windows[0].reference()
    m, width_x = len(rows_x), detector._width_x
    widths_y = [sliding._window.widths[1:] for sliding in detector._windows[:: 1 + detector.controls]]
    lengths = []
    for _ in range(streams):
        recent_x, recent_y = np.empty((0, 1)), np.empty(0)
        seen, above = 0, np.empty(0)
        while not len(above) and seen < 8 * stated:
            new_x, new_y = make_rows(10 * window, rng)
            new_y = new_y - detector._regression.predict(new_x)[:, 0]
            all_x, all_y = np.concatenate([recent_x, new_x]), np.concatenate([recent_y, new_y])
            inputs = detector._as_inputs(all_x)
            K = _gram(np.concatenate([rows_x, inputs]), width_x)
            nearest = np.array([nearest_rows(row) for row in -np.abs(inputs - detector._donors_x.T)])
            values = np.empty((len(detector._scales), 1 + detector.controls, len(all_x) - window + 1))
            for control in range(1 + detector.controls):
                drawn = nearest[np.arange(len(nearest)), rng.integers(nearest.shape[1], size=len(nearest))]
                response = detector._donors_y[drawn] if control else all_y[:, None]
                for number, width in enumerate(widths_y):
                    M = K * _gram(np.concatenate([rows_y, response]), width)
                    stream_divergences(K, M, m, window, values[number, control])
            differences = values[:, 0] - values[:, 1:].mean(axis=1)
            largest = ((differences.T - detector._centres) / detector._scales).max(axis=1)
            above = np.flatnonzero(largest > detector.threshold)
            seen += (window - 1 if seen == 0 else 0) + (int(above[0]) + 1 if len(above) else len(largest))
            recent_x, recent_y = all_x[1 - window :], all_y[1 - window :]
        lengths.append(seen)
    return lengths


def make_wave(n, rng, *, low=-1.0, noise=0.3, raised=0.0):
    """Inputs spread evenly from `low` to 1, responses on a wave; `raised` above x = 0.5."""
    x = rng.uniform(low, 1, size=n)
    return x, np.sin(3 * x) + raised * (x > 0.5) + noise * rng.normal(size=n)


@pytest.fixture(scope="module")
def wave_states():
    made = []
    for seed in range(4):
        reference = make_wave(600, np.random.default_rng([11, seed]))
        options = {"window": 60, "expected_run_length": 3000, "n_streams": 100}
        made.append(ConditionalDriftDetector(*reference, rng=seed, **options).state_dict())
    return made


def alarms_of(states, streams, **change):
    """Streams of 300 rows with an alarm."""
    found = 0
    for seed, state in enumerate(states):
        for stream in range(streams):
            rows = make_wave(300, np.random.default_rng([12, seed, stream]), **change)
            found += bool(ConditionalDriftDetector.from_state_dict(state).update_many(*rows).any())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("low", [-1.0, 0.0, 0.5])
def test_shifts_of_the_inputs_alone_raise_no_alarms(wave_states, low):
    """The same relation on the whole range, its upper half or quarter: 12 streams of 300 rows.

    One alarm in 3,000 rows after the window has filled is 0.08 per stream; more than 5 in 12 have probability 2e-4.
    """
    assert alarms_of(wave_states, 3, low=low) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"raised": 0.6}, {"noise": 0.12}, {"noise": 0.5}])
def test_changes_of_the_relation_raise_alarms(wave_states, change):
    """A local rise, quieter and louder noise: 8 streams of 300 rows, where chance alone gives more than 4 at 2e-4."""
    assert alarms_of(wave_states, 2, **change) >= 5


def test_rows_outside_the_reference_are_counted():
    x = np.linspace(0, 1, 100)
    for ranks in (True, False):
        detector = ConditionalDriftDetector(
            x, x**2, window=10, shift_control=ShiftControl(ranks=ranks), threshold=1e9, n_streams=20, rng=0
        )
        detector.update_many([-0.1, 0.0, 0.5, 1.0, 1.1, 2.0], np.zeros(6))
        assert detector.n_outside == 3
        detector.update_many(np.full(9, 0.5), np.zeros(9))
        assert detector.n_outside == 1


def test_residuals_are_those_of_a_fit_without_the_row():
    """Against fits of all rows but one, by plain linear algebra, at the width and ridge that were found."""
    rng = np.random.default_rng(13)
    x, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    y[:, 0] += 3 * np.sin(x[:, 0])
    fitted, residuals = fit_regression(x, y, np.random.default_rng(0))
    centre = np.median(x, axis=0)
    scale = (np.quantile(x, 0.75, axis=0) - np.quantile(x, 0.25, axis=0)) / 1.349
    z = np.clip((x - centre) / scale, -5, 5)
    K = np.exp(-((z[:, None] - z) ** 2).sum(axis=2) / (2 * fitted.width**2)) + 0.1 * z @ z.T
    centred = y - y.mean(axis=0)
    ridge = float(np.median((centred - K @ fitted.coefficients) / fitted.coefficients))
    for row in range(0, 60, 7):
        others = np.arange(60) != row
        weights = np.linalg.solve(K[np.ix_(others, others)] + ridge * np.eye(59), centred[others])
        np.testing.assert_allclose(residuals[row], centred[row] - K[row, others] @ weights, rtol=1e-7)
    np.testing.assert_allclose(fitted.predict(x), y.mean(axis=0) + K @ fitted.coefficients, rtol=1e-9)


def test_what_the_regression_explains_exactly_stays_as_it_is():
    """Residuals that are rounding errors would be compared digit by digit."""
    x = np.linspace(-1, 1, 200)[:, None]
    y = np.column_stack([np.zeros(200) + 2.0, np.random.default_rng(0).normal(size=200)])
    fitted, residuals = fit_regression(x, y, np.random.default_rng(0))
    np.testing.assert_array_equal(residuals[:, 0], y[:, 0])
    np.testing.assert_array_equal(fitted.predict(x)[:, 0], 0.0)


def test_more_rows_than_are_fitted():
    """Rows that the regression has not seen get plain residuals."""
    rng = np.random.default_rng(14)
    x, y = make_rows(FITTED_ROWS + 300, rng)
    fitted, residuals = fit_regression(x, y[:, None], np.random.default_rng(0))
    plain = np.isclose(residuals[:, 0], y - fitted.predict(x)[:, 0], rtol=1e-12)
    assert plain.sum() == 300
    assert residuals.std() == pytest.approx(0.5, rel=0.1)


def test_single_rows_batches_dicts_and_saved_states_agree(tmp_path, detector_state):
    """All ways of taking in the same rows end in the same state, to the last bit."""
    rng = np.random.default_rng(5)
    x, y = make_rows(80, rng, shift=0.6)
    singly, at_once = (ConditionalDriftDetector.from_state_dict(detector_state) for _ in range(2))
    flags = [singly.update(a, b).drift_detected for a, b in zip(x, y, strict=True)]
    assert flags == at_once.update_many(x, y).tolist()
    stopped = ConditionalDriftDetector.from_state_dict(detector_state)
    first = stopped.update_many(x[:37], y[:37])
    stopped.save(tmp_path / "state.npz")
    resumed = ConditionalDriftDetector.load(tmp_path / "state.npz")
    assert [*first, *resumed.update_many(x[37:], y[37:])] == flags
    for one, other in ((singly, at_once), (singly, resumed)):
        for name, array in one.state_dict().items():
            np.testing.assert_array_equal(array, other.state_dict()[name])


def test_rows_as_dicts_like_those_of_river():
    rng = np.random.default_rng(6)
    x, y = make_rows(120, rng, dim=2)
    frame = pd.DataFrame(x, columns=["b", "a"])
    options = {"window": 20, "threshold": 99.0, "n_streams": 20, "rng": 0}
    named, plain = ConditionalDriftDetector(frame, y, **options), ConditionalDriftDetector(x, y, **options)
    for row, response in zip(x[:30], y[:30], strict=True):
        named.update({"a": row[1], "b": row[0], "other": "ignored"}, response)
        plain.update(row, response)
    assert named.statistic == plain.statistic
    with pytest.raises(CondcsError, match="lacks 'b'"):
        named.update({"a": 1.0}, 0.0)
    with pytest.raises(CondcsError, match="got a dict"):
        plain.update({"a": 1.0}, 0.0)


def test_river_can_drive_it():
    """The part of river's protocol that its own code uses: `update`, then `drift_detected`."""
    base = pytest.importorskip("river.base", reason="river is not installed")
    for name in ("update", "drift_detected"):
        assert hasattr(base.DriftDetector, name)
        assert hasattr(ConditionalDriftDetector, name)


def test_the_window_starts_empty_after_an_alarm():
    rng = np.random.default_rng(8)
    x, y = make_rows(120, rng)
    detector = ConditionalDriftDetector(x, y, window=20, threshold=-99.0, n_streams=20, rng=0)
    alarms = np.flatnonzero(detector.update_many(*make_rows(70, rng)))
    assert alarms.tolist() == [19, 39, 59]


def test_threads_change_nothing():
    x, y = make_rows(200, np.random.default_rng(9))
    options = {"window": 20, "expected_run_length": 500, "n_streams": 30, "rng": 1}
    found = []
    for threads in (1, 3):
        with condcs.config_context(n_threads=threads):
            found.append(ConditionalDriftDetector(x, y, **options).threshold)
    assert found[0] == found[1]


X, Y = np.linspace(0, 1, 100), np.linspace(0, 1, 100) ** 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y_ref": Y[:50]}, "`x_ref` and `y_ref` must have the same number of rows"),
        ({"window": 26}, "`x_ref` must have at least four windows of rows"),
        ({"window": 0}, "`window` must be an integer of at least 5"),
        ({"expected_run_length": 39}, "`expected_run_length` must be at least two windows"),
        ({"expected_run_length": -1}, "`expected_run_length` must be a positive"),
        ({"shift_control": {"controls": 0}}, "`shift_control` must be a condcs.drift.ShiftControl, got"),
        ({"n_streams": 3}, "`n_streams` must be an integer of at least 20"),
        ({"bandwidth_x": "scott"}, '`bandwidth_x` must be "median" or numbers'),
        ({"bandwidth_y": 0.0}, "`bandwidth_y` must be positive"),
        ({"x_ref": np.full(100, np.nan)}, "`x_ref` must be finite"),
        ({"x_ref": ["a"] * 100}, "`x_ref` must hold numbers"),
        ({"rng": -1}, "`rng` must be"),
    ],
)
def test_bad_references(change, words):
    with pytest.raises(CondcsError, match=words):
        ConditionalDriftDetector(**{"x_ref": X, "y_ref": Y, "window": 20, "expected_run_length": 500, **change})


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([1.0, 2.0], 0.0, "`x` must have 1 columns"),
        (np.nan, 0.0, "`x` must be finite"),
        ("a", 0.0, "`x` must hold numbers"),
        (0.0, [0.0, 1.0], "`y`"),
    ],
)
def test_bad_rows(detector_state, x, y, words):
    with pytest.raises(CondcsError, match=words):
        ConditionalDriftDetector.from_state_dict(detector_state).update(x, y)


def test_a_negative_number_of_controls_is_refused():
    with pytest.raises(CondcsError, match="`controls` must be an integer of at least 0, got -1"):
        ShiftControl(controls=-1)


def test_broken_states(detector_state):
    with pytest.raises(CondcsError, match="`state` must come from"):
        ConditionalDriftDetector.from_state_dict({})
    for name in (
        "settings",
        "statistic",
        "donors_x",
        "regression_width",
        "scales",
        "window_0_values",
        "window_1_pushed",
    ):
        with pytest.raises(CondcsError, match="`state` must come from"):
            ConditionalDriftDetector.from_state_dict({k: v for k, v in detector_state.items() if k != name})
    settings = json.loads(str(detector_state["settings"]))
    for broken in ({**settings, "generator": {"bit_generator": "PCG64"}}, {**settings, "window": None}):
        with pytest.raises(CondcsError, match="`state` must come from"):
            ConditionalDriftDetector.from_state_dict({**detector_state, "settings": np.array(json.dumps(broken))})


@pytest.mark.parametrize("ranks", [True, False])
def test_a_common_offset_raised_false_alarms(ranks):
    """The calibration lost the digits of its distances at an offset of 1e8; the stream did not."""
    x, y = make_rows(500, np.random.default_rng(0))
    found = []
    # Powers of two, and values on a grid: the offset itself changes no digit.
    x, y = np.round(x * 2**16) / 2**16, np.round(y * 2**16) / 2**16
    for offset in (0.0, 2.0**33):
        moved = x if ranks else x + offset
        options = {"window": 40, "expected_run_length": 2000, "n_streams": 40, "bandwidth_y": 0.5, "rng": 0}
        detector = ConditionalDriftDetector(
            moved[:300], y[:300] + offset, shift_control=ShiftControl(0, False, ranks), bandwidth_x=0.5, **options
        )
        detector.update_many(moved[300:], y[300:] + offset)
        found.append((detector.threshold, detector.statistic))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


@pytest.mark.parametrize("name", ["sorted", "donors_x", "donors_y", "centres", "scales"])
@pytest.mark.parametrize("change", [lambda a: a[:0], lambda a: a[0], lambda a: a * np.nan, lambda a: a.astype(complex)])
def test_damaged_arrays_of_a_state_are_refused_not_worked_with(detector_state, name, change):
    with pytest.raises(CondcsError, match="`state` must come from"):
        ConditionalDriftDetector.from_state_dict({**detector_state, name: change(detector_state[name])})


@pytest.mark.parametrize("change", [{"controls": -1}, {"threshold": float("nan")}, {"window": 31}, {"seen": 1e400}])
def test_damaged_settings_of_a_state_are_refused_not_worked_with(detector_state, change):
    settings = {**json.loads(str(detector_state["settings"])), **change}
    with pytest.raises(CondcsError, match="`state` must come from"):
        ConditionalDriftDetector.from_state_dict({**detector_state, "settings": np.array(json.dumps(settings))})
