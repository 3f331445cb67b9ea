"""The script that draws the pictures runs, and draws exactly those that the pages show."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.docs.pages import DOCS, ROOT

DRAWN_BY_COMMANDS = {"demo.png", "exploration-rewards.png"}
"""By `condcs demo` and `condcs reproduce rewards`."""


@pytest.mark.slow
def test_the_script_draws_the_pictures_of_the_pages(tmp_path):
    """With few runs, into another folder; each picture has a light and a dark edition."""
    pytest.importorskip("matplotlib")
    command = [sys.executable, "docs/pictures", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (DOCS / "images").iterdir()} - DRAWN_BY_COMMANDS
    assert {name.replace("-light", "-dark") for name in drawn if "-light" in name} == {n for n in drawn if "-dark" in n}
