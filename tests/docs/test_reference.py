"""The pages of the reference and the public names are the same set, both ways; neither needs the site to be built."""

from __future__ import annotations

import importlib
import re
import sys

import pytest

import condcs
from tests.docs.pages import DOCS

pytest.importorskip("mkdocs", reason="mkdocs is not installed (extra: docs)")


@pytest.fixture
def tooling(monkeypatch):
    """The modules that make the reference, by name."""
    monkeypatch.setattr(sys, "path", [str(DOCS / "tooling"), *sys.path])
    return {name: importlib.import_module(name) for name in ("exports", "reference")}


def described(tooling) -> list[str]:
    text = "\n".join(text for _, text in tooling["reference"].pages().values())
    return re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)


def test_every_public_name_has_one_entry_and_every_entry_is_public(tooling):
    entries = described(tooling)
    assert len(entries) == len(set(entries))
    assert set(entries) == set(tooling["exports"].all_exports().values())


def test_names_read_from_the_sources_are_those_of_the_packages(tooling):
    """Every public package is there, with what it exports at run time, and each name leads to the object itself."""
    pytest.importorskip("torch")  # condcs.nn is one of them.
    exports = tooling["exports"]
    packages = {name for name in dir(condcs) if not name.startswith("_")} - {*condcs.__all__}
    assert set(exports.SUBPACKAGES) == packages
    for module in ("condcs", *(f"condcs.{name}" for name in packages)):
        package = importlib.import_module(module)
        found = exports.exports(module)
        assert list(found) == list(package.__all__)
        for name, path in found.items():
            home, _, last = path.rpartition(".")
            assert last == name
            assert getattr(importlib.import_module(home), name) is getattr(package, name)
