"""After `condcs warm-up` no command compiles anything; before, the terminal says why the first call takes longer."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from condcs._core import progress
from condcs.cli import app as commands

pytestmark = pytest.mark.slow

ENTRY = "import sys; sys.argv[0] = 'condcs'; from condcs.cli.app import app; app()"


def condcs(*arguments, cache, stdin=b""):
    return subprocess.run(
        [sys.executable, "-c", ENTRY, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        check=False,
    )


def machine_code(cache):
    return sorted(path.name for path in cache.rglob("*.nbc"))


def test_no_command_compiles_after_a_warm_up(tmp_path):
    """Other data than those of the warm-up: three inputs, an unchanged stream, series in another layout."""
    cache = tmp_path / "cache"
    done = condcs("warm-up", cache=cache)
    assert done.returncode == 0, done.stderr
    kept = machine_code(cache)
    assert len(kept) > 10
    rng = np.random.default_rng(1)
    tables = []
    for name in ("p.csv", "q.csv"):
        x = rng.normal(size=(700, 3))
        rows = np.column_stack([x, x.sum(axis=1) + rng.normal(size=700)])
        np.savetxt(tmp_path / name, rows, "%.6f", ",", header="a,b,c,y", comments="")
        tables.append(tmp_path / name)
    series = tmp_path / "walks.csv"
    np.savetxt(series, rng.normal(size=(200, 5)), "%.6f", ",", header="v,w,x,y,z", comments="")
    page = tmp_path / "page.html"
    calls = [
        condcs("compare", *tables, "--y", "y", cache=cache),
        condcs("watch", tables[0], "--y", "y", cache=cache, stdin=tables[1].read_bytes()),
        condcs("cluster", series, "--k", "2", "--out", tmp_path / "clusters", cache=cache),
        condcs("causal", series, "--out", page, cache=cache),
        condcs("explore", "mountain-car", "--seeds", "1", "--steps", "100", "--out", page, cache=cache),
    ]
    for call in calls:
        assert call.returncode in (0, 1), call.stderr
    assert machine_code(cache) == kept


def test_a_terminal_is_told_once_that_loops_are_compiled(monkeypatch):
    said = []
    monkeypatch.setattr(progress, "_compilation_listeners", [])
    progress.call_at_compilation(lambda: said.append("compiling"))
    progress.report_compilation()
    progress.report_compilation()
    assert said == ["compiling"]


def test_every_command_listens_for_compilation(monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "_compilation_listeners", [])
    CliRunner().invoke(commands.app, ["compare", str(tmp_path / "none.csv"), str(tmp_path / "none.csv"), "--y", "y"])
    assert len(progress._compilation_listeners) == 1
