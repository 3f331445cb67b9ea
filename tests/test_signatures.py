"""Public names: at most ten options beside the data; those of the packages for series documented, typed and light."""

import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
import typing

import pytest

import condcs
from condcs import adapters, causal, datasets, drift, explore, timeseries
from condcs._measures.registry import MEASURES
from condcs.timeseries._distance_matrix import SeriesMeasure

PACKAGES = [causal, datasets, timeseries]
FUNCTIONS = [
    getattr(package, name)
    for package in PACKAGES
    for name in package.__all__
    if inspect.isfunction(getattr(package, name))
]
NAMES = [
    f"{package.__name__}.{name}"
    for package in (condcs, *PACKAGES, explore, drift, adapters)
    for name in package.__all__
]
if importlib.util.find_spec("torch"):
    from condcs import nn

    NAMES += [f"{package.__name__}.{name}" for package in (nn, nn.functional) for name in package.__all__]
DATA = {"x", "y", "given", "at", "group", "prediction", "weights", "clusters"}
"""Keywords that hold a value for every row or the names of columns; the two samples have one of them each."""
OPTIONS = [
    getattr(package, name)
    for package in PACKAGES
    for name in package.__all__
    if inspect.isclass(getattr(package, name)) and getattr(package, name).__dataclass_params__.eq
]
"""Values that a user makes; results compare arrays and are declared with ``eq=False``."""


@pytest.mark.parametrize("package", PACKAGES)
def test_names_exist(package):
    assert all(hasattr(package, name) for name in package.__all__)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_parameter_is_documented_and_options_are_keywords(function):
    text = inspect.getdoc(function)
    block = text.partition("Parameters\n----------\n")[2].partition("\n\nReturns")[0]
    documented = set(re.findall(r"\w+", " ".join(line for line in block.splitlines() if not line.startswith(" "))))
    assert set(inspect.signature(function).parameters) <= documented


@pytest.mark.parametrize("name", NAMES)
def test_at_most_ten_options_beside_the_data(name):
    """More are grouped in a value of their own: `TableOptions`, `Embedding`, `Stopping`."""
    try:
        made = pkgutil.resolve_name(name)
    except ImportError as error:  # adapters of packages that an extra installs
        pytest.skip(f"{name}: {error}")
    if not inspect.isroutine(made) and not inspect.isclass(made):
        return
    parameters = inspect.signature(made).parameters.values()
    options = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert len({option for option in options if option.partition("_")[0] not in DATA}) <= 10


@pytest.mark.parametrize("made", [*FUNCTIONS, *OPTIONS])
def test_a_choice_was_any_string_for_a_type_checker(made):
    """Strings are literals, unless they are names or paths: mypy then refuses a word that the function would refuse."""
    hints = typing.get_type_hints(made)
    loose = {name for name, hint in hints.items() if str in (hint, *_parts(hint))}
    assert loose <= {"return", "name", "companion", "store", "words"}


def _parts(hint):
    """Return the members of unions, however deep, but not what containers hold."""
    if typing.get_origin(hint) in (typing.Union, type(int | str)):
        return [part for member in typing.get_args(hint) for part in (member, *_parts(member))]
    return []


def test_measures_of_series_are_those_that_take_x():
    assert set(typing.get_args(SeriesMeasure)) == {m.name for m in MEASURES.values() if m.takes_x}


def test_import_is_light():
    """Neither partners nor pictures nor tables are loaded before they are used."""
    heavy = "{'matplotlib', 'pandas', 'statsmodels', 'networkx', 'numba', 'torch', 'tigramite', 'causallearn', 'aeon'}"
    code = f"import sys, condcs.causal, condcs.timeseries; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
