"""Simulated subjects: what is said to differ does, and nothing else."""

import numpy as np
import pytest

from condcs._core.errors import ParameterError
from condcs_reproduction.data import SHIFTS, make_two_subject_eeg


def band_power(x, low=8, high=14):
    frequencies = np.fft.rfftfreq(x.shape[-1], 1 / 128)
    power = np.abs(np.fft.rfft(x)) ** 2
    return power[..., (frequencies > low) & (frequencies < high)].sum(-1)


def lateral(x, y):
    """Difference between classes of the log power difference between the two ends of the row of electrodes."""
    ratio = np.log(band_power(x[:, 1])) - np.log(band_power(x[:, 4]))
    return ratio[y == 1].mean() - ratio[y == 0].mean()


def test_imagery_attenuates_the_opposite_side():
    """Right hand (1) lowers the left rhythm: the left-right power difference falls; of inverted subjects it rises."""
    data = make_two_subject_eeg("inverted", 400, rng=1)
    assert lateral(data.x_source, data.y_source) < -0.3
    assert lateral(data.x_target, data.y_target) > 0.3


def test_no_shift_is_no_shift():
    """Equal subjects: mean band power differs by less than four standard errors in every channel."""
    data = make_two_subject_eeg("none", 400, rng=2)
    a, b = np.log(band_power(data.x_source)), np.log(band_power(data.x_target))
    error = np.sqrt((a.var(0) + b.var(0)) / 400)
    assert np.all(np.abs(a.mean(0) - b.mean(0)) < 4 * error)


def test_shifts_are_what_they_say():
    faster = make_two_subject_eeg("band power", 200, rng=0)
    peaks = []
    for x in (faster.x_source, faster.x_target):
        spectrum = (np.abs(np.fft.rfft(x[:, [1, 4]])) ** 2).mean((0, 1))
        peaks.append(np.argmax(spectrum[10:40]) + 10)
    assert np.array(peaks) / 2 == pytest.approx([10.0, 11.5], abs=0.5)
    shares = make_two_subject_eeg("class shares", 200, rng=0)
    assert shares.y_source.mean() == 0.5
    assert shares.y_target.mean() == 0.2
    assert {name for name, s in SHIFTS.items() if not s.alignable} == {"none", "class shares", "inverted"}


def test_subjects_are_scaled_and_seeded():
    one, again = (make_two_subject_eeg("mixing", 10, n_channels=3, n_times=100, rng=5) for _ in range(2))
    assert one.x_source.shape == (10, 3, 100)
    assert one.x_source.dtype == np.float32
    assert one.x_target.std() == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_array_equal(one.x_target, again.x_target)


def test_bad_input():
    with pytest.raises(ParameterError, match="make_two_subject_eeg: `shift` must be one of"):
        make_two_subject_eeg("rotation")
