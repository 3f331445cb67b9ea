"""The package of the experiments beside the library: one version, one licence, and needs that the lock file covers."""

import tomllib
from pathlib import Path
from pkgutil import resolve_name

import pytest

import condcs
import condcs_reproduction
from condcs.explore._methods import METHODS_OF_THE_PAPER
from condcs.explore._tasks import TASKS_OF_THE_PAPER

packaging = pytest.importorskip("packaging.requirements")

ROOT = Path(__file__).parents[2]


def project(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_both_packages_have_the_same_version_and_licence():
    assert condcs_reproduction.__version__ == condcs.__version__
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "reproduction" / "LICENSE").read_bytes()


def test_the_experiments_need_this_version_of_the_library_and_what_the_tests_install():
    """`make lock` reads the needs of `condcs[dev]` alone, which holds `condcs[all]`."""
    own = project(ROOT / "reproduction")
    (library,) = (packaging.Requirement(line) for line in own["dependencies"])
    assert library.name == "condcs"
    assert str(library.specifier) == f"=={condcs.__version__}"
    extras = project(ROOT)["optional-dependencies"]
    assert library.extras <= packaging.Requirement(*extras["all"]).extras
    assert {need for needs in own["optional-dependencies"].values() for need in needs} <= set(extras["dev"])


def test_entry_points_lead_to_what_the_package_adds():
    """Of pyproject.toml, whatever was installed: the command, and the tasks and methods of `condcs explore`."""
    groups = project(ROOT / "reproduction")["entry-points"]
    assert set(groups) == {"condcs.commands", "condcs.exploration"}
    added = {name: resolve_name(path) for group in groups.values() for name, path in group.items()}
    assert added["reproduce"].__name__ == "reproduce"
    assert tuple(task.name for task in added["paper"].tasks) == TASKS_OF_THE_PAPER
    assert tuple(method.name for method in added["paper"].methods) == METHODS_OF_THE_PAPER
