"""``condcs reproduce all``: everything on one page, what cannot run left out by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner

from condcs.cli.app import app
from condcs_reproduction import fig1
from condcs_reproduction.data import DatasetError
from condcs_reproduction.index_page import duration
from tests.browser import chromium, problems


def _without_data(parameters, arguments, rng):
    raise DatasetError("`robots` must be in CONDCS_DATA, and is not.")


def _failing(parameters, arguments, rng):
    raise ZeroDivisionError("no <b>")


def _unpacked(parameters, arguments, rng):
    import package_that_is_absent  # noqa: F401


def _damaged(parameters, arguments, rng):
    import condcs_reproduction.module_that_is_absent  # noqa: F401


def _stopped(parameters, arguments, rng):
    raise KeyboardInterrupt


TRIALS = {
    "fig1": fig1.trial,
    "robots": _without_data,
    "faulty": _failing,
    "partner": _unpacked,
    "damaged": _damaged,
    "slow": _stopped,
}


@pytest.fixture
def names(monkeypatch):
    def choose(*chosen):
        made = {name: replace(fig1.EXPERIMENT, name=name, trial=TRIALS[name]) for name in chosen}
        monkeypatch.setattr("condcs_reproduction.reproduce_all.experiment_names", lambda: chosen)
        monkeypatch.setattr("condcs_reproduction.reproduce.experiment_named", made.__getitem__)

    return choose


def run(folder, *words):
    return CliRunner().invoke(app, ["reproduce", "all", "--quick", "--jobs", "1", "--out", str(folder), *words])


def test_what_cannot_run_is_left_out_by_name(names, tmp_path):
    names("robots", "partner", "fig1")
    done = run(tmp_path)
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert "robots skipped: `robots` must be in CONDCS_DATA" in said
    assert "partner skipped: needs the package 'package_that_is_absent'" in said
    assert "1 experiments in" in done.stdout
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    for words in (
        "CONDCS_DATA",
        "package_that_is_absent",
        "weights follow K_ij",
        "condcs reproduce all --quick",
        "seed",
    ):
        assert words in page


def test_a_failure_ends_with_two_after_the_rest_has_run(names, tmp_path):
    names("faulty", "fig1")
    done = run(tmp_path)
    assert done.exit_code == 2
    assert "faulty failed: ZeroDivisionError" in " ".join(done.stderr.split())
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "no &lt;b&gt;" in page
    assert "weights follow K_ij" in page


def test_a_module_of_its_own_that_is_absent_is_a_failure_not_a_missing_partner(names, tmp_path):
    names("damaged")
    done = run(tmp_path)
    assert done.exit_code == 2
    assert "damaged failed: No module named 'condcs_reproduction.module_that_is_absent'" in " ".join(
        done.stderr.split()
    )


def test_ctrl_c_keeps_what_is_done(names, tmp_path):
    """The second run has nothing left to do of the experiment that was finished."""
    names("fig1", "slow")
    stopped = run(tmp_path)
    assert stopped.exit_code == 130
    assert "the same command continues" in " ".join(stopped.stderr.split())
    stored = (tmp_path / "fig1-quick" / "trials.jsonl").read_bytes()
    names("fig1")
    assert run(tmp_path).exit_code == 0
    assert (tmp_path / "fig1-quick" / "trials.jsonl").read_bytes() == stored


def test_the_page_reads_well_on_a_phone(names, tmp_path):
    names("robots", "fig1")
    run(tmp_path)
    with chromium(390) as window:
        assert problems(window, tmp_path / "index.html") == []
        assert window.execute_script("return document.images.length") == 1


def test_the_claims_of_figure_1_can_fail():
    """With another weight, e.g. the square of K, the deviation is far beyond the tolerance."""
    import numpy as np

    original = fig1._cross_term
    try:
        fig1._cross_term = lambda K, Kpq, L: original(K, Kpq**2, L)
        found = fig1.trial(fig1.EXPERIMENT.parameters, {}, np.random.default_rng(0))
    finally:
        fig1._cross_term = original
    assert found["deviations"][0] > 0.1


def test_the_page_of_quick_versions_gave_verdicts(names, tmp_path):
    names("fig1")
    done = run(tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "There are no verdicts" in page
    assert not set("✓▲▼✗") & set(page + done.output)
    assert "agree" not in page
    assert "fig1: run, without verdicts" in " ".join(done.stderr.split())


@pytest.mark.parametrize(("seconds", "words"), [(3.21, "3.2 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations(seconds, words):
    assert duration(seconds) == words
