"""Signatures: choices are Literal types, options are grouped, and names that are loaded lazily have types."""

import ast
import dataclasses
import importlib
import inspect
import re
import typing

import pytest

PACKAGES = ("adapters", "explore", "nn")
LAZY = ("adapters", "explore")


def public_callables(package):
    """Yield what has the docstring, and the function with the annotations."""
    if package == "nn":
        pytest.importorskip("torch")
    module = importlib.import_module(f"condcs.{package}")
    for name in module.__all__:
        try:
            value = getattr(module, name)
        except ImportError:
            continue  # its library is not installed
        if inspect.isclass(value):
            yield value, value if dataclasses.is_dataclass(value) else value.__init__
            yield from ((f, f) for f in vars(value).values() if inspect.isfunction(f) and f.__name__[0] != "_")
        elif inspect.isfunction(value):
            yield value, value


def documented_choices(package):
    """Yield the parameters that a docstring describes as one of a few names: function, parameter, names."""
    for value, function in public_callables(package):
        for names, choices in re.findall(r"^([\w, ]+) : \{(.*)\}", inspect.getdoc(value) or "", flags=re.MULTILINE):
            for name in names.split(", "):
                yield inspect.unwrap(function), name, set(re.findall(r'"([^"]+)"', choices))


def literals(annotation):
    if typing.get_origin(annotation) is typing.Literal:
        return set(typing.get_args(annotation))
    return set().union(*(literals(part) for part in typing.get_args(annotation)))


@pytest.mark.parametrize("package", PACKAGES)
def test_documented_choices_are_literal_types(package):
    found = list(documented_choices(package))
    assert found
    for function, name, choices in found:
        assert literals(typing.get_type_hints(function)[name]) == choices, (function, name)


@pytest.mark.parametrize("package", [*PACKAGES, "drift"])
def test_signatures_have_at_most_ten_parameters(package):
    """More than ten are grouped in dataclasses, whose own fields do not count."""
    for value, function in public_callables(package):
        if not dataclasses.is_dataclass(value):
            parameters = inspect.signature(function).parameters.values()
            named = [p for p in parameters if p.name != "self" and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
            assert len(named) <= 10, function.__qualname__


@pytest.mark.parametrize("package", LAZY)
def test_lazily_loaded_names_have_types(package):
    """Each public name is imported for type checkers, from the module that it is loaded from."""
    module = importlib.import_module(f"condcs.{package}")
    tree = ast.parse(inspect.getsource(module))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    typed = {alias.name: node.module for node in block.body for alias in node.names}
    homes = {name: home if isinstance(home, str) else home[0] for name, home in module._HOMES.items()}
    assert typed == {name: f"condcs.{package}.{home}" for name, home in homes.items()}
    assert module.__all__ == sorted(homes)
