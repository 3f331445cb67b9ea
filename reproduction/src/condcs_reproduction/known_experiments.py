"""Experiments by name; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from condcs._core.checks import check_choice
from condcs._core.errors import public
from condcs_reproduction.spec import Experiment

_NAMES = (
    "table1",
    "fig1",
    "table2",
    "fig3",
    "table3",
    "fig4",
    "table4",
    "table5",
    "clustering",
    "fig5",
    "fig6",
    "table8",
    "fig9",
    "table6",
    "table6b",
    "rewards",
    "table9",
    "fig7",
    "fig8",
    "fig2",
    "table7",
    "fig10",
    "fairness",
    "invariance",
    "netsim",
    "causalcompass",
    "drift",
    "nonstationary",
    "levels",
    "cond2st",
)


def experiment_names() -> tuple[str, ...]:
    """Return the names of all experiments, in the paper's order."""
    return _NAMES


@public
def experiment_named(name: str) -> Experiment:
    """Return an experiment, or say which there are.

    Examples
    --------
    >>> experiment_named("table2").title
    'Simulation I: power of the permutation test'
    """
    found = import_module(f"condcs_reproduction.{check_choice('name', name, _NAMES)}").EXPERIMENT
    assert isinstance(found, Experiment)
    return found
