"""What the sources promise to every machine: hints that can be followed, and text files that are UTF-8 everywhere."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for root in ("src", "reproduction/src") for path in (ROOT / root).rglob("*.py"))


def test_an_install_hint_named_an_extra_that_does_not_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {
        (extra, path.name)
        for path in SOURCES
        for words in re.findall(r"condcs\[([^]]*)\]", path.read_text(encoding="utf-8"))
        for extra in words.split(",")
    }
    assert {extra for extra, _ in named} >= {"cli", "torch", "timeseries", "causal"}
    # Written out, never put together: only `install_hint`, which asks the installed metadata, fills in a name.
    allowed = {*project["optional-dependencies"]} | {"{extra}"}
    assert {(extra, name) for extra, name in named if extra not in allowed} == set()


def test_text_files_were_read_in_the_encoding_of_the_machine():
    """`open`, `read_text` and `write_text` name their encoding; Windows would take cp1252."""
    found = []
    for path in SOURCES:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or any(word.arg == "encoding" for word in call.keywords):
                continue
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            if name in ("read_text", "write_text"):
                found.append(f"{path.name}:{call.lineno}")
            if (isinstance(call.func, ast.Name) and name == "open") or name in ("fdopen", "NamedTemporaryFile"):
                modes = [part.value for part in ast.walk(call) if isinstance(part, ast.Constant)]
                if not any(isinstance(mode, str) and "b" in mode for mode in modes):
                    found.append(f"{path.name}:{call.lineno}")
    assert found == []


def test_modules_that_windows_lacks_are_asked_for_where_they_are_needed():
    """At the top of a module, they would make it unusable there."""
    absent = {"fcntl", "resource", "pwd", "grp", "termios", "pty"}
    found = []
    for path in SOURCES:
        for part in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(part, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in part.names} | {getattr(part, "module", None)}
                found += [(path.name, name) for name in names & absent]
    assert found == []


def test_private_parts_of_joblib_were_used():
    """They change without notice; `get_active_backend` has no underscore, and says where joblib was told to compute."""
    found = set()
    for path in SOURCES:
        for part in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(part, ast.ImportFrom) and (part.module or "").startswith("joblib."):
                found |= {(part.module, alias.name) for alias in part.names}
            if isinstance(part, ast.Import):
                found |= {(alias.name, "") for alias in part.names if alias.name.startswith("joblib.")}
    assert found == {("joblib.parallel", "get_active_backend")}


def test_a_file_name_meant_two_things():
    """A name without its folder is enough to find a module."""
    names = Counter(path.name for path in SOURCES if not path.name.startswith("__"))
    assert {name for name, count in names.items() if count > 1} == set()


VAGUE = {"found", "own", "made", "left", "given", "kept", "known", "place", "places", "before"}
"""Words that fit anything, and were names of six hundred things."""


def test_names_said_nothing_of_what_they_hold():
    """`left` beside `right` is a side; `given` is the public argument of tests of x and y given z."""
    vague = []
    for path in SOURCES:
        if "reproduction" in path.parts:
            continue
        parts = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names = [part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
        names += [part.arg for part in parts if isinstance(part, ast.arg)]
        allowed = {"given"} | ({"left"} if "right" in names else set())
        vague += [f"{path.name}: {name}" for name in names if name.strip("_") in VAGUE - allowed]
    assert vague == []
