"""Keywords that a function does not have: what other libraries call an option, and what it is called here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from functools import cache
from typing import Any, get_type_hints

# What several of the names below are called here.
_RNG = ("rng",)
_RESAMPLES = ("n_resamples",)
_BANDWIDTHS = ("bandwidth", "bandwidth_x", "bandwidth_y")
_WEIGHTS = ("weights", "weights_p", "weights_q")

NAMES_HERE: dict[str, tuple[str, ...]] = {
    # Seeds: scikit-learn, statsmodels, older scipy
    "random_state": _RNG,
    "random_seed": _RNG,
    "seed": _RNG,
    # Resamples: scikit-learn, hyppo, dcor, scipy
    "n_permutations": _RESAMPLES,
    "num_permutations": _RESAMPLES,
    "permutations": _RESAMPLES,
    "n_perm": _RESAMPLES,
    "n_bootstrap": _RESAMPLES,
    "n_boot": _RESAMPLES,
    "reps": _RESAMPLES,
    # Work: hyppo, torch
    "n_workers": ("n_jobs", "n_threads"),
    "num_workers": ("n_jobs", "n_threads"),
    "workers": ("n_jobs", "n_threads"),
    "verbose": ("progress",),
    "progress_bar": ("progress",),
    # Levels: statsmodels, scipy
    "alpha": ("confidence_level", "expected_run_length"),
    "level": ("alpha", "confidence_level", "expected_run_length"),
    "significance_level": ("alpha", "confidence_level", "expected_run_length"),
    # Kernels: scikit-learn, GPyTorch, hyppo
    "sigma": _BANDWIDTHS,
    "gamma": _BANDWIDTHS,
    "length_scale": _BANDWIDTHS,
    "lengthscale": _BANDWIDTHS,
    "bw": _BANDWIDTHS,
    "kernel": ("kernel_x", "kernel_y"),
    "metric": ("measure",),
    # Rows and regressions: scikit-learn, pywhy-stats
    "sample_weight": _WEIGHTS,
    "sample_weights": _WEIGHTS,
    "condition_on": ("given",),
    "z": ("given",),
    "n_clusters": ("k",),
    "lambda_": ("regularization",),
    "reg": ("regularization",),
}
"""What other libraries call an option, and its names here; a function has some of these, or none."""

FIELDS_OF_TABLES = frozenset(
    {
        "format", "encoding", "decimal", "gaps", "memory", "missing", "unusable", "category", "number", "weights",
        "cluster", "max_rows", "time_budget", "table", "sql",
    }
)  # fmt: skip
"""Fields of `condcs.TableOptions`, the value of the option `tables`."""

_LEVELS = frozenset({"alpha", "level", "significance_level"})


@cache
def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """Return the names of the parameters of a function, and whether it takes any other options as well."""
    parameters = inspect.signature(function).parameters.values()
    names = tuple(p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))
    return names, any(p.kind is p.VAR_KEYWORD for p in parameters)


def check_keywords(function: Callable[..., Any], caller: str, keywords: Collection[str]) -> None:
    """Raise a `TypeError` that names the option meant, if a function does not have a keyword.

    It is called when a call has failed. Functions that pass options on, to a measure say, check those themselves: of
    theirs, only words of other libraries are looked at.
    """
    parameters, passes_on = _parameters(function)
    unknown = [name for name in keywords if name not in parameters]
    for name in unknown:
        remedy = _remedy(name, parameters, function)
        if remedy is None and not passes_on:
            remedy = _any_remedy(name, [word for word in parameters if word != "self"])
        if remedy is not None:
            raise TypeError(f"{caller}: there is no option `{name}`. {remedy}") from None


def _remedy(name: str, parameters: Collection[str], function: Callable[..., Any]) -> str | None:
    """Say what an option of another library is called here, or where its answer is; None if it has no counterpart."""
    here = [f"`{word}`" for word in NAMES_HERE.get(name, ()) if word in parameters]
    if here == ["`expected_run_length`"]:
        return f"A stream has no end, and so no level: pass {here[0]}, the mean number of rows until a false alarm."
    if name == "alpha" and here:
        return f"Pass {here[0]}, which is 1 - alpha."
    if here:
        unit = ": a bandwidth sigma, with gamma = 1 / (2 sigma^2)" if name == "gamma" else ""
        return f"It is called {_listed(here)} here{unit}."
    if name in FIELDS_OF_TABLES and "tables" in parameters:
        return f"It is a field of `tables`: pass tables=condcs.TableOptions({name}=...)."
    if name in _LEVELS and "n_resamples" in parameters:
        return _remedy_of_level(function)
    return None


def _remedy_of_level(function: Callable[..., Any]) -> str | None:
    """Say where the result of a test is held against a level; None if it has no p-value."""
    result = get_type_hints(function).get("return")
    names = [*getattr(result, "__dataclass_fields__", ()), *vars(result or object)]
    pvalues = [name for name in names if name.startswith("pvalue")]
    if not pvalues:
        return None
    # A result with several p-values has methods that take the level, the one that lists them first.
    taking = [name for name in names if name[0] != "_" and "alpha" in _parameters_if_any(getattr(result, name, None))]
    if taking:
        return f"Pass it to the result, `{taking[0]}(alpha)`, or compare its `{pvalues[-1]}` with the level."
    return f"The result has the p-value, `{pvalues[0]}`: compare it with the level."


def _parameters_if_any(value: Any) -> tuple[str, ...]:
    return _parameters(value)[0] if inspect.isfunction(value) else ()


def _any_remedy(name: str, parameters: list[str]) -> str:
    """Name the option that is spelt most alike, and all that there are."""
    alike = get_close_matches(name, parameters, n=1)
    meant = f"Did you mean `{alike[0]}`? " if alike else ""
    return f"{meant}Its parameters are {', '.join(parameters) or 'none'}."


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
