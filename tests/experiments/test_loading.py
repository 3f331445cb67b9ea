"""Data by name: lookup order, one format, checked downloads, and errors that say where to get it."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from condcs._core.errors import ParameterError
from condcs_reproduction.data import DatasetError, cache_folder, dataset_names, load
from condcs_reproduction.data.catalogue import CATALOGUE
from condcs_reproduction.data.downloads import content_sums, parse_robot_failures

PAPER = {
    "coffee": (28, 286, 1, 2),
    "diatom": (306, 345, 1, 4),
    "distalphalanxtw": (400, 80, 1, 6),
    "ecg5000": (469, 140, 1, 2),
    "faceall": (560, 131, 1, 14),
    "synthetic_control": (600, 60, 1, 6),
    "pendigits": (3498, 8, 2, 10),
    "libras": (180, 45, 2, 15),
    "uwave": (200, 315, 3, 8),
    "robot_lp1": (88, 15, 6, 4),
    "robot_lp2": (47, 15, 6, 5),
    "robot_lp3": (47, 15, 6, 4),
    "robot_lp4": (117, 15, 6, 3),
    "robot_lp5": (164, 15, 6, 5),
}
"""Series, length, channels and classes in the paper's table of data sets."""


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """No data folder, an empty cache, and no network."""

    def refuse(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.delenv("CONDCS_DATA", raising=False)
    monkeypatch.setenv("CONDCS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("urllib.request.urlopen", refuse)
    return tmp_path


def present(name):
    folder = os.environ.get("CONDCS_DATA", "")
    return bool(folder) and (Path(folder) / CATALOGUE[name].path).exists()


@pytest.mark.parametrize("name", PAPER)
def test_sizes_are_those_of_the_paper(name):
    if not present(name):
        pytest.skip("CONDCS_DATA names no folder with this data set")
    data = load(name)
    series, length, channels, classes = PAPER[name]
    assert data.X.shape == (series, channels, length)
    assert data.X.dtype == float
    assert data.y.shape == (series,)
    assert set(data.y.tolist()) == set(range(classes))
    assert len(data.classes) == classes
    assert np.isfinite(data.X).all()
    assert np.array_equal(load(name, layout="ntc").X, np.moveaxis(data.X, 1, 2))


@pytest.mark.parametrize("name", [n for n, entry in CATALOGUE.items() if entry.content])
def test_sums_of_downloads_are_those_of_the_data(name):
    """What a download is compared with, computed from the data at hand."""
    if not present(name):
        pytest.skip("CONDCS_DATA names no folder with this data set")
    data = load(name, layout="ntc")
    assert content_sums(data.X, data.y) == pytest.approx(CATALOGUE[name].content, rel=1e-5)


def test_other_kinds_of_data():
    if not present("netsim"):
        pytest.skip("CONDCS_DATA names no folder with these data sets")
    netsim, housing, digits = load("netsim"), load("california_housing"), load("mnist10k")
    assert (len(netsim.X), netsim.X[0].shape, netsim.y[0].shape) == (28, (200, 5), (5, 5))
    assert housing.feature_names[0] == "MedInc"
    assert housing.y.mean() == pytest.approx(2.06856, abs=1e-5)
    assert digits.X.shape == (10_000, 28, 28)
    assert digits.y[:5].tolist() == [7, 2, 1, 0, 4]
    assert load("eeg").X.shape == (3, 200, 16, 16)
    assert load("temperature").y is None
    with pytest.raises(AttributeError, match="has no 'colour'"):
        _ = housing.colour


def test_sets_shipped_with_aeon_need_no_network(alone):
    pytest.importorskip("aeon")
    data = load("basic_motions")
    assert data.X.shape == (40, 6, 100)
    assert data.classes == ("badminton", "running", "standing", "walking")
    assert not cache_folder().exists()


def test_own_folder_comes_before_the_cache(alone, monkeypatch):
    """The folder of CONDCS_DATA, then the cache; integer labels and single precision become one format."""
    for folder, value in (("mine", 1.0), ("cache", 2.0)):
        path = alone / folder / CATALOGUE["coffee"].path
        path.parent.mkdir(parents=True)
        np.savez(path, X=np.full((2, 5, 1), value, dtype=np.float32), y=np.array([0, 1]), classes=np.array(["a", "b"]))
    assert load("coffee").X[0, 0, 0] == 2.0
    monkeypatch.setenv("CONDCS_DATA", str(alone / "mine"))
    data = load("coffee")
    assert data.X[0, 0, 0] == 1.0
    assert data.X.shape == (2, 1, 5)
    assert data.classes == ("a", "b")
    assert data.origin.startswith(str(alone / "mine"))


@pytest.mark.parametrize("name", [n for n, entry in CATALOGUE.items() if not entry.download])
def test_absent_data_says_where_to_get_it(alone, name):
    with pytest.raises(DatasetError) as caught:
        load(name)
    message = str(caught.value)
    assert message.startswith("load: ")
    assert CATALOGUE[name].path in message
    assert CATALOGUE[name].where in message
    assert "CONDCS_DATA (not set)" in message


def test_offline_says_where_to_get_it(alone):
    with pytest.raises(DatasetError, match=r"could not be fetched \(OSError: no network\).*Get it from UCI archive"):
        load("robot_lp1")


def test_no_download_unless_wanted(alone):
    with pytest.raises(DatasetError, match="it is in neither"):
        load("pendigits", download=False)


def robot_file(seed, series=3):
    values = np.random.default_rng(seed).integers(-50, 50, size=(series, 15, 6))
    names = ["normal", "collision", "normal"]
    blocks = [
        f"{name}\n" + "\n".join("\t" + "\t".join(map(str, row)) for row in rows) + "\n\n"
        for name, rows in zip(names, values, strict=True)
    ]
    return "".join(blocks), values


def archive(member, text):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr(member, text)
    content.seek(0)
    return content


def test_robot_failures_are_parsed():
    text, values = robot_file(0)
    arrays = parse_robot_failures(text)
    assert np.array_equal(arrays["X"], values)
    assert arrays["y"].tolist() == [1, 0, 1]
    assert arrays["classes"].tolist() == ["collision", "normal"]


def test_download_is_checked_and_kept(alone, monkeypatch):
    """The right content is cached and not asked for again; any other is refused and leaves nothing behind."""
    text, values = robot_file(0)
    asked = []

    def answer(url, timeout):
        asked.append(url)
        return archive("some/folder/lp1.data", text)

    monkeypatch.setattr("urllib.request.urlopen", answer)
    with pytest.raises(DatasetError, match="is not the data that is expected"):
        load("robot_lp1")
    assert not (cache_folder() / CATALOGUE["robot_lp1"].path).exists()
    good = dict(CATALOGUE["robot_lp1"].__dict__, content=content_sums(values, np.array([1, 0, 1])))
    monkeypatch.setitem(CATALOGUE, "robot_lp1", type(CATALOGUE["robot_lp1"])(**good))
    assert np.array_equal(load("robot_lp1", layout="ntc").X, values)
    assert np.array_equal(load("robot_lp1", layout="ntc").X, values)
    assert len(asked) == 2
    assert "138" in asked[0]


def test_a_download_does_not_unpack_without_bound(alone, monkeypatch):
    """A zip of some kB that unpacks to more than any of these files has, and an answer that never ends."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("lp1.data", bytes(1 << 24))
    content.seek(0)
    assert len(content.getvalue()) < 50_000
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: content)
    with pytest.raises(DatasetError, match=r"lp1\.data must hold at most 4 MB, got more"):
        load("robot_lp1")

    class Endless(io.RawIOBase):
        def read(self, size=-1):
            assert 0 < size < 1 << 26
            return bytes(size)

    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: Endless())
    with pytest.raises(DatasetError, match="must hold at most 32 MB"):
        load("robot_lp1")


def test_sums_see_values_labels_and_order():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(30, 8, 2)), np.arange(30) % 3
    known = content_sums(X, y)
    swapped = np.r_[1, 0, 2:30]
    changed = X.copy()
    changed[4, 2, 1] += 0.5
    for other in (content_sums(X[swapped], y), content_sums(X, y[swapped]), content_sums(changed, y)):
        assert not np.allclose(other, known, rtol=1e-4, atol=1e-4)
    assert np.allclose(content_sums(np.round(X, 6), y), known, rtol=1e-4, atol=1e-4)


def test_damaged_files_are_named(alone):
    path = cache_folder() / CATALOGUE["coffee"].path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(DatasetError, match=r"coffee\.npz must be a \.npz file"):
        load("coffee")
    np.savez(path, X=np.zeros((3, 4)), y=np.zeros(3))
    with pytest.raises(DatasetError, match="must hold X of shape"):
        load("coffee")
    np.savez(path, Z=np.zeros((3, 4)))
    with pytest.raises(DatasetError, match="must hold an array 'X', got Z"):
        load("coffee")


def test_pickles_are_not_loaded(alone):
    path = cache_folder() / CATALOGUE["coffee"].path
    path.parent.mkdir(parents=True)
    np.savez(path, X=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DatasetError, match="plain arrays"):
        load("coffee")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"name": "tea"}, "`name` must be one of"), ({"name": "coffee", "layout": "tnc"}, "layout")],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ParameterError, match=words):
        load(**arguments)


def test_names_are_unique_paths():
    assert len({entry.path for entry in CATALOGUE.values()}) == len(dataset_names())
