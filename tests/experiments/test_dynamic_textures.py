"""Simulated textures follow their systems; folders of clips are read back as they were."""

import numpy as np
import pytest

from condcs._core.errors import DataError, ParameterError, ShapeError
from condcs_reproduction.data import load, load_frames, make_dynamic_textures

SMALL = {"height": 6, "width": 5, "n_frames": 12}


def test_shapes_and_labels():
    clips = make_dynamic_textures(7, **SMALL)
    assert clips.X.shape == (7, 30, 12)
    assert clips.y.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert np.array_equal(make_dynamic_textures(7, layout="ntc", **SMALL).X, np.moveaxis(clips.X, 1, 2))


def test_same_seed_same_clips():
    assert np.array_equal(make_dynamic_textures(4, rng=5, **SMALL).X, make_dynamic_textures(4, rng=5, **SMALL).X)
    assert not np.array_equal(make_dynamic_textures(4, rng=5, **SMALL).X, make_dynamic_textures(4, rng=6, **SMALL).X)


def test_systems_are_stable_and_distinct():
    """Eigenvalues inside the unit circle; no two classes turn at the same speed."""
    clips = make_dynamic_textures(6, n_classes=3, **SMALL)
    values = np.linalg.eigvals(clips.transitions)
    assert np.abs(values).max() < 1
    angles = np.abs(np.angle(values))
    for k in range(2):
        assert angles[k].max() < angles[k + 1].min()


def test_least_squares_finds_the_transition():
    """From a long clip with little noise, states regressed on their past give A, up to 5 / sqrt(n) per entry.

    The states are recovered by least squares on the images; an entry of the estimate has a standard error of at most
    sqrt(1 / n) for unit noise and states of variance above 1, and scaling states by their deviations keeps damped
    rotations what they are, pair by pair.
    """
    n = 4000
    clips = make_dynamic_textures(1, n_classes=1, n_frames=n, height=12, width=12, n_states=4, noise=1e-3, layout="ntc")
    states = np.linalg.lstsq(clips.outputs[0], clips.X[0].T, rcond=None)[0].T
    found = np.linalg.lstsq(states[:-1], states[1:], rcond=None)[0].T
    assert found == pytest.approx(clips.transitions[0], abs=5 / np.sqrt(n))
    # Standardised by their stationary deviations: variance 1, with a standard error of about sqrt(2 (1 + r^2) /
    # (1 - r^2) / n) = 0.16 at most for r = 0.98.
    assert states.var(axis=0) == pytest.approx(np.ones(4), abs=0.5)


def test_shared_output():
    assert np.array_equal(*make_dynamic_textures(2, n_classes=2, **SMALL).outputs)
    own = make_dynamic_textures(2, n_classes=2, shared_output=False, **SMALL).outputs
    assert not np.array_equal(*own)


def test_folders_of_npy_and_mat(tmp_path):
    """Frames first in .npy, last in .mat; both give the same series, cut to the shortest."""
    from scipy.io import savemat

    clips = make_dynamic_textures(4, n_classes=2, layout="ntc", **SMALL).X.reshape(4, 12, 6, 5)
    for label, name in enumerate(("light", "heavy")):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "b.npy", clips[2 * label])
        savemat(tmp_path / name / "a.mat", {"clip": np.moveaxis(clips[2 * label + 1][:9], 0, 2), "rate": 10.0})
    (tmp_path / "notes.txt").write_text("not a clip")
    found = load_frames(tmp_path, layout="ntc")
    assert found.classes == ("heavy", "light")
    assert found.files == ("heavy/a.mat", "heavy/b.npy", "light/a.mat", "light/b.npy")
    assert found.y.tolist() == [0, 0, 1, 1]
    assert found.X.shape == (4, 9, 30)
    assert np.array_equal(found.X[0], clips[3][:9].reshape(9, 30))
    assert np.array_equal(found.X[3], clips[0][:9].reshape(9, 30))
    assert np.array_equal(load_frames(tmp_path).X, np.moveaxis(found.X, 1, 2))
    whole = load_frames(tmp_path, cut=False).X
    assert [clip.shape for clip in whole] == [(30, 9), (30, 12), (30, 9), (30, 12)]


def test_traffic_and_ucla_are_read_from_folders(tmp_path, monkeypatch):
    clips = make_dynamic_textures(4, n_classes=2, layout="ntc", **SMALL).X.reshape(4, 12, 6, 5)
    for i, name in enumerate(("fire", "fire", "sea", "sea")):
        folder = tmp_path / "timeseries" / "ucla" / name
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{i}.npy", (clips[i] * 20 + 100).astype(np.uint8))
    monkeypatch.setenv("CONDCS_DATA", str(tmp_path))
    data = load("ucla")
    assert data.X.shape == (4, 30, 12)
    assert data.X.dtype == float
    assert data.classes == ("fire", "sea")
    assert data.files[0] == "fire/0.npy"


def made(folder, *shapes):
    (folder / "fire").mkdir()
    for i, shape in enumerate(shapes):
        np.save(folder / "fire" / f"{i}.npy", np.zeros(shape))
    return folder


def test_bad_folders(tmp_path):
    with pytest.raises(DataError, match="must be a folder of clips"):
        load_frames(tmp_path / "nowhere")
    with pytest.raises(DataError, match="must hold a subfolder for each class"):
        load_frames(tmp_path)
    made(tmp_path, (5, 4, 4), (5, 4, 3))
    with pytest.raises(ShapeError, match=r"frames of one size, got 16 pixels in 0\.npy and 12 in 1\.npy"):
        load_frames(tmp_path)
    np.save(tmp_path / "fire" / "1.npy", np.zeros((5, 4, 4, 3)))
    with pytest.raises(ShapeError, match="Convert colour frames to grey"):
        load_frames(tmp_path)
    np.save(tmp_path / "fire" / "1.npy", np.array([None, {}], dtype=object))
    with pytest.raises(DataError, match="must be a readable clip"):
        load_frames(tmp_path)
    np.save(tmp_path / "fire" / "1.npy", np.full((5, 4, 4), np.nan))
    with pytest.raises(DataError, match="finite values"):
        load_frames(tmp_path)


@pytest.mark.parametrize(
    "arguments", [{"n_classes": 0}, {"n_clips": 2}, {"n_frames": 1}, {"noise": 0.0}, {"layout": "x"}, {"n_states": 1}]
)
def test_bad_arguments(arguments):
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        make_dynamic_textures(**{"n_clips": 6, **arguments})
