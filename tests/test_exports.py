"""The public names: complete, sorted, documented, and nothing besides."""

import importlib
import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest

import condcs

DESIGN = {
    "cs",
    "cs_gaussian_mixture",
    "mmd",
    "joint_mmd",
    "conditional_euclidean",
    "conditional_cs",
    "conditional_cs_responses",
    "conditional_cs_predictors",
    "conditional_mmd",
    "mcmd",
    "conditional_kl",
    "conditional_bregman",
    "pairwise",
}
"""The names that the design fixes for kernels and measures."""

PACKAGES = (
    "adapters",
    "causal",
    "comparison",
    "datasets",
    "drift",
    "exceptions",
    "explore",
    "nn",
    "report",
    "timeseries",
)

FUNCTIONS = [name for name in condcs.__all__ if inspect.isfunction(getattr(condcs, name))]


def sections(name: str) -> list[str]:
    return re.findall(r"^(\w+)\n-+$", inspect.getdoc(getattr(condcs, name)) or "", flags=re.MULTILINE)


def test_all_is_sorted_without_repetition():
    """One name, one place; constants and classes first."""
    assert condcs.__all__ == sorted(set(condcs.__all__), key=lambda name: (not name.isupper(), name.islower(), name))


def test_the_names_of_the_design_are_there():
    """Names are fixed: later layers and users rely on them."""
    assert set(condcs.__all__) >= DESIGN


@pytest.mark.parametrize("name", condcs.__all__)
def test_names_are_public(name):
    """Each name exists and has no leading underscore."""
    assert hasattr(condcs, name)
    assert not name.startswith("_")


def test_nothing_else_is_public():
    """A fresh interpreter lists the exports and the public packages, and nothing that leaked from an import."""
    code = "import condcs; print(*(n for n in dir(condcs) if not n.startswith('_')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {*condcs.__all__, *PACKAGES}


def test_private_modules_carry_an_underscore():
    """Users import from packages; only `condcs.nn.functional` is a public module, as torch has it."""
    home = Path(condcs.__file__).parent
    modules = {f"{name}.{file.stem}" for name in PACKAGES for file in (home / name).glob("[!_]*.py")}
    assert modules == {"nn.functional"}
    assert {folder.name for folder in home.glob("[!_]*") if folder.is_dir()} == {*PACKAGES, "cli"} - {"exceptions"}


def test_packages_had_to_be_imported_by_their_full_names():
    """`import condcs` is enough: a package is loaded when it is first used."""
    pytest.importorskip("torch", reason="condcs.nn needs torch")
    code = f"import condcs; print(*(getattr(condcs, n).__all__[-1] for n in {PACKAGES}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [importlib.import_module(f"condcs.{name}").__all__[-1] for name in PACKAGES]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'condcs' has no attribute 'conditonal_cs'"):
        _ = condcs.conditonal_cs


def test_results_errors_and_measures_are_public():
    """What the functions return, raise and look up can be imported without knowing the inner layers."""
    y = np.arange(12.0)
    result = condcs.two_sample_test(y, y + 3, n_resamples=19, rng=0)
    assert isinstance(result, condcs.TestResult)
    assert isinstance(result.estimate(n_resamples=20, rng=0), condcs.Estimate)
    assert condcs.MEASURES["conditional_cs"].function is condcs.conditional_cs
    with pytest.raises(condcs.exceptions.ShapeError):
        condcs.cs(np.ones((3, 2)), np.ones((3, 1)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_documented(name):
    """A docstring with what goes in, what comes out, and an example that the doctests run."""
    function = getattr(condcs, name)
    found = sections(name)
    assert found[0] == "Parameters"
    assert "Examples" in found
    assert ">>> " in function.__doc__
    if name != "config_context":
        assert "Returns" in found
    first = inspect.getdoc(function).splitlines()[0]
    assert first.endswith((".", "?"))
    assert len(first) < 120


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_documented(name):
    """Each parameter is explained, or the docstring says whose parameters they are."""
    function = getattr(condcs, name)
    text = inspect.getdoc(function)
    block = text.partition("Parameters\n----------\n")[2].partition("\n\nReturns")[0]
    documented = set(re.findall(r"\w+", " ".join(line for line in block.splitlines() if not line.startswith(" "))))
    assert set(inspect.signature(function).parameters) <= documented


@pytest.mark.parametrize("name", FUNCTIONS)
def test_options_are_keyword_only(name):
    """Arguments without a default are data and come first; everything after them is given by name."""
    for parameter in inspect.signature(getattr(condcs, name)).parameters.values():
        # The k-sample form of conditional_test takes a list as its first argument and no other samples.
        is_sample = parameter.name in ("yp", "xq", "yq")
        if parameter.default is not parameter.empty and not is_sample:
            assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.annotation is not parameter.empty


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_know_their_name(name):
    """Messages, pickles and help pages call a function what the package calls it."""
    assert getattr(condcs, name).__name__ == name


def test_the_version_is_the_one_installed():
    """A version number of three parts."""
    assert re.fullmatch(r"\d+\.\d+\.\d+\w*", condcs.__version__)


def test_parts_of_an_explanation_had_no_public_name():
    """What `explain` returns can be annotated: the classes of its regions, of their changes and of its inputs."""
    found = condcs.explain(*([[0.0], [1.0]] * 20, [0.0, 1.0] * 20) * 2, n_resamples=99, rng=0)
    assert isinstance(found, condcs.Explanation)
    assert isinstance(found.inputs[0], condcs.comparison.InputChange)
    assert typing.get_type_hints(condcs.Region)["changes"] == tuple[condcs.comparison.Change, ...]
