"""Loaders of the EEG sets, on small files in the same formats."""

import numpy as np
import pytest
from scipy.io import savemat

from condcs._core.errors import CondcsWarning, DataError, ParameterError
from condcs_reproduction.data import DatasetError
from condcs_reproduction.data.eeg import load_bci3b, load_seed
from tests.experiments.gdf_file import write_gdf

RATE = 125


@pytest.fixture
def signal():
    return np.random.default_rng(0).normal(scale=10, size=(2, 40 * RATE))


def marks(kinds):
    """A trial of 8 seconds each: start at once, cue 3 seconds later."""
    events = []
    for i, kind in enumerate(kinds):
        events += [(8 * i * RATE, 768), ((8 * i + 3) * RATE, kind)]
    return events


def test_gdf_trials_are_cut_at_their_start(tmp_path, signal):
    pytest.importorskip("mne")
    write_gdf(tmp_path / "S4b.gdf", signal, RATE, marks([769, 770, 783, 770]))
    found = load_bci3b(tmp_path, "S4b")
    assert found.y.tolist() == [0, 1, 1]
    assert found.x.shape == (3, 2, 7 * RATE)
    assert found.sampling_rate == RATE
    np.testing.assert_allclose(found.x[2], signal[:, 24 * RATE : 31 * RATE], rtol=1e-4, atol=1e-4)


def test_gdf_labels_of_the_test_part_are_filled_in(tmp_path, signal):
    pytest.importorskip("mne")
    write_gdf(tmp_path / "X11b.gdf", signal, RATE, marks([769, 783, 783, 770]))
    found = load_bci3b(tmp_path, "X11b", labels=[2, 1], seconds=2)
    assert found.y.tolist() == [0, 1, 0, 1]
    assert found.x.shape == (4, 2, 2 * RATE)
    with pytest.raises(ParameterError, match="`labels` must be 1 or 2 for each trial with an unknown cue"):
        load_bci3b(tmp_path, "X11b", labels=[2])
    with pytest.raises(ParameterError, match="with values"):
        load_bci3b(tmp_path, "X11b", labels=[0, 1])


def test_gdf_without_cues_is_refused(tmp_path, signal):
    pytest.importorskip("mne")
    write_gdf(tmp_path / "S4b.gdf", signal, RATE, [(0, 768)])
    with pytest.raises(DatasetError, match="as many trial starts"):
        load_bci3b(tmp_path, "S4b")


def test_exports_are_joined_and_gaps_filled(tmp_path):
    rng = np.random.default_rng(1)
    signal = rng.normal(size=(6, 750, 2))
    signal[0, 10, 1] = np.nan
    for part in ("train", "test"):
        np.savez(tmp_path / f"X11b_{part}.npz", signal=signal, label=np.array([1, 2, 1, 2, 1, 2]))
    found = load_bci3b(tmp_path, "X11b")
    assert found.x.shape == (12, 2, 750)
    assert found.y.tolist() == [0, 1, 0, 1, 0, 1] * 2
    others = np.delete(signal[0, :, 1], 10)
    assert found.x[0, 1, 10] == pytest.approx(others.mean(), abs=1e-6)
    np.testing.assert_allclose(found.x[1], signal[1].T, rtol=1e-6)


def test_export_with_another_checksum_is_said(tmp_path):
    np.savez(tmp_path / "S4b_train.npz", signal=np.zeros((2, 750, 2)), label=[1, 2])
    with pytest.warns(CondcsWarning, match="not the export whose checksum is known"):
        load_bci3b(tmp_path, "S4b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"signal": np.zeros((2, 750, 2))}, "must be a .npz file with `signal` and `label`"),
        ({"signal": np.zeros((2, 2, 750)), "label": [1, 2]}, "trials, times, 2 channels"),
        ({"signal": np.zeros((2, 750, 2)), "label": [0, 1]}, "labels 1 .left. and 2 .right."),
        ({"signal": np.zeros((2, 750, 2)), "label": np.array([1, None])}, "must be a .npz file"),
    ],
)
def test_bad_exports(tmp_path, content, message):
    np.savez(tmp_path / "X11b_train.npz", **content)
    with pytest.raises(DatasetError, match=message):
        load_bci3b(tmp_path, "X11b")


def test_absent_files_say_where_to_get_them(tmp_path):
    with pytest.raises(DatasetError, match=r"bbci\.de/competition/iii"):
        load_bci3b(tmp_path, "S4b")
    with pytest.raises(DatasetError, match=r"bcmi\.sjtu\.edu\.cn"):
        load_seed(tmp_path, 1)
    with pytest.raises(ParameterError, match="`subject` must be one of 'S4b', 'X11b'"):
        load_bci3b(tmp_path, "O3VR")


LABELS = np.array([1, 0, -1, -1, 0, 1, -1, 0, 1, 1, 0, -1, 0, 1, -1])


def seed_folder(folder, channels=62, films=15, seconds=5):
    rng = np.random.default_rng(2)
    content = {f"djc_eeg{k}": rng.normal(size=(channels, seconds * 200)) for k in range(1, films + 1)}
    savemat(folder / "1_20131027.mat", content)
    savemat(folder / "1_20131030.mat", {k: -v for k, v in content.items()})
    savemat(folder / "label.mat", {"label": LABELS[None]})
    return content


def test_seed_windows(tmp_path):
    content = seed_folder(tmp_path)
    found = load_seed(tmp_path, 1, window=2.0)
    assert found.x.shape == (30, 62, 400)
    assert found.y.tolist() == np.repeat(LABELS + 1, 2).tolist()
    np.testing.assert_allclose(found.x[3], content["djc_eeg2"][:, 400:800], rtol=1e-6)
    second = load_seed(tmp_path, 1, session=2, window=2.0, step=0.5, max_windows=1)
    np.testing.assert_allclose(second.x[0], -content["djc_eeg1"][:, :400], rtol=1e-6)
    assert len(second.y) == 15


def test_bad_seed_files(tmp_path):
    seed_folder(tmp_path, films=14)
    with pytest.raises(DatasetError, match="film 15 is absent"):
        load_seed(tmp_path, 1)
    seed_folder(tmp_path, channels=3)
    with pytest.raises(DatasetError, match=r"film 1 is of shape \(3, 1000\)"):
        load_seed(tmp_path, 1)
    seed_folder(tmp_path)
    with pytest.raises(DataError, match="`window` must fit into film 1"):
        load_seed(tmp_path, 1, window=60.0)
    with pytest.raises(DatasetError, match="3 or more files"):
        load_seed(tmp_path, 1, session=3)
    (tmp_path / "label.mat").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match="must be a MATLAB file"):
        load_seed(tmp_path, 1)
