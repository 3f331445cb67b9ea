"""The parts of fig2, table7, fairness and invariance that can be wrong without a run showing it."""

import numpy as np
import pytest

pytest.importorskip("torch")

from condcs_reproduction import eeg_domains, fairness, fig2, invariance, table7
from condcs_reproduction.tradeoffs import best_at


def test_images_are_turned_about_their_centre():
    """A quarter turn is numpy's quarter turn; no turn changes nothing."""
    image = np.zeros((1, 28, 28), dtype=np.uint8)
    image[0, 3:9, 10:12] = 255
    np.testing.assert_allclose(fig2.rotated(image, np.array([0.0])).reshape(28, 28), image[0] / 255, atol=1e-5)
    turned = fig2.rotated(image, np.array([90.0])).reshape(28, 28)
    candidates = [np.rot90(image[0] / 255, k) for k in (1, -1)]
    assert min(np.abs(turned - c).max() for c in candidates) < 1e-4


def test_both_losses_see_the_same_split():
    tasks = fig2.tasks(fig2.EXPERIMENT.parameters, 2)
    streams = {(t.arguments["data"], t.repeat, t.arguments["loss"]): t.stream for t in tasks}
    assert streams["mnist", 1, "MSE"] == streams["mnist", 1, "conditional CS"]
    assert streams["mnist", 1, "MSE"] != streams["california", 1, "MSE"]


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        ([1.0, 1.1, 0.9], [1.3, 1.4, 1.2], "better"),
        ([1.3, 1.4, 1.2], [1.0, 1.1, 0.9], "worse"),
        ([1.0, 1.3, 0.9], [1.1, 1.1, 1.0], "equal"),
        ([2.0, 2.0, 2.0], [1.99, 2.0, 2.0], "neither learns"),
    ],
)
def test_verdict_on_the_losses(ours, theirs, word):
    cell, _ = fig2._verdict(dict(enumerate(ours)), dict(enumerate(theirs)), 2.0)
    assert cell.ours == word
    assert cell.verdict == ("agrees" if word == "better" else "differs")


def test_log_euclidean_features_are_centred_and_isometric():
    """Whitening by the mean: the identity maps to 0; distances of vectors are those of matrix logarithms."""
    rng = np.random.default_rng(0)
    scale = rng.uniform(0.5, 2.0, size=(6, 1, 1))
    base = np.cov(rng.normal(size=(3, 50)))
    covariances = base * scale
    features = eeg_domains.log_euclidean(covariances)
    assert features.shape == (6, 6)
    expected = np.log(scale[:, 0, 0] / scale.mean()) * np.sqrt(3)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), np.abs(expected), rtol=1e-4)


def test_alpha_is_chosen_without_the_target():
    """The score of reverse validation decides, whatever the target says; the oracle looks."""
    result = {"alphas": {"1": {"target": 0.9, "reverse": 0.6}, "10": {"target": 0.4, "reverse": 0.8}}}
    assert table7.accuracy(result) == 0.4
    assert table7.accuracy(result, oracle=True) == 0.9


def test_real_sets_take_part_when_their_files_are_there(tmp_path, monkeypatch):
    monkeypatch.setenv("CONDCS_DATA", str(tmp_path))
    sets = lambda: {t.arguments["data"] for t in table7.tasks(table7.EXPERIMENT.parameters, 1)}  # noqa: E731
    assert sets() == {"covariances", "simulated"}
    (tmp_path / "bci3b").mkdir()
    (tmp_path / "seed").mkdir()
    for name in ("S4b_train.npz", "X11b_train.npz"):
        np.savez(tmp_path / "bci3b" / name, signal=np.random.default_rng(0).normal(size=(8, 750, 2)), label=[1, 2] * 4)
    (tmp_path / "seed" / "label.mat").touch()
    assert sets() == {"covariances", "simulated", "bci3b", "seed"}


@pytest.mark.filterwarnings("ignore::condcs._core.errors.CondcsWarning")
def test_the_users_recordings_run(tmp_path, monkeypatch):
    """One quick trial of BCI IIIb, end to end through EEGNet."""
    monkeypatch.setenv("CONDCS_DATA", str(tmp_path))
    (tmp_path / "bci3b").mkdir()
    rng = np.random.default_rng(0)
    for name in ("S4b_train.npz", "X11b_train.npz"):
        np.savez(tmp_path / "bci3b" / name, signal=rng.normal(size=(20, 750, 2)), label=[1, 2] * 10)
    quick = table7.EXPERIMENT.version(quick=True)
    arguments = {"data": "bci3b", "pair": "S4b to X11b", "method": "CS"}
    found = table7.trial(quick.parameters, arguments, np.random.default_rng(0))
    (only,) = found["alphas"].values()
    assert 0 <= only["target"] <= 1
    assert 0 <= only["reverse"] <= 1


def test_paper_has_a_number_for_every_method():
    assert set(table7.PAPER) == set(table7.METHODS)
    assert table7.PAPER["CS"] == (0.631, 0.801, 0.578)


def test_gaps_of_equalized_odds():
    """Group 1 is always said yes to, group 0 never: the gap is 1; equal rates given the outcome: 0."""
    y, group = np.array([0, 0, 1, 1] * 2), np.repeat([0, 1], 4)
    assert fairness.odds_gaps(group * 0.9, y, group) == {"gap": 1.0, "soft_gap": pytest.approx(0.9)}
    assert fairness.odds_gaps(y * 0.9, y, group) == {"gap": 0.0, "soft_gap": 0.0}


def test_accuracy_left_at_a_gap():
    points = np.array([[0.3, 0.8], [0.1, 0.7], [0.05, 0.6]])
    assert best_at(points, 0.2) == pytest.approx(0.75)
    assert best_at(points, 0.1) == pytest.approx(0.7)
    assert best_at(points, 0.01) is None


def test_penalties_vanish_where_they_should():
    """Logits that say the same of both groups given the outcome; risks that are equal in both environments."""
    import torch

    y, group = torch.tensor([0, 0, 1, 1] * 8), torch.arange(2).repeat(16)
    fair = 2.0 * y - 1
    for name, penalty in fairness.PENALTIES.items():
        assert abs(float(penalty(fair, y, group))) < 1e-6, name
        assert float(penalty(fair + group, y, group)) > 1e-3, name
    # Three of four predictions are right in one environment, one of four in the other.
    right = torch.tensor([1, 1, 1, -1]).repeat(8)
    same = fair * right
    for name in ("V-REx", "conditional CS"):
        penalty = invariance.PENALTIES[name]
        environment = torch.arange(2).repeat_interleave(16)
        assert abs(float(penalty(same, y, environment))) < 1e-5, name
        assert float(penalty(same * (1.0 - 2.0 * environment), y, environment)) > 1e-2, name
