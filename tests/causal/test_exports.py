"""The public names of condcs.causal: documented, keyword-only after the data, and light to import."""

import inspect
import re
import subprocess
import sys

import pytest

from condcs import causal

FUNCTIONS = [name for name in causal.__all__ if inspect.isfunction(getattr(causal, name))]


def test_names_are_sorted_and_exist():
    assert causal.__all__ == sorted(causal.__all__)
    assert all(hasattr(causal, name) for name in causal.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_documented_and_options_are_keywords(name):
    function = getattr(causal, name)
    text = inspect.getdoc(function)
    block = text.partition("Parameters\n----------\n")[2].partition("\n\nReturns")[0]
    documented = set(re.findall(r"\w+", " ".join(line for line in block.splitlines() if not line.startswith(" "))))
    parameters = inspect.signature(function).parameters
    assert set(parameters) <= documented
    assert "Examples" in text
    for parameter in parameters.values():
        assert parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD) or parameter.default is parameter.empty


def test_import_is_light():
    """Neither partners nor pictures nor tables are loaded before they are used."""
    heavy = "{'matplotlib', 'pandas', 'statsmodels', 'networkx', 'numba', 'torch', 'tigramite', 'causallearn'}"
    code = f"import sys, condcs.causal; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
