"""What an experiment is: frozen parameters, seeds and paper's numbers, a trial function and a summary."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from condcs._core.checks import check_integer

if TYPE_CHECKING:
    from condcs_reproduction.report import Report

Parameters = Mapping[str, Any]
"""Settings of an experiment: plain JSON values."""

Result = dict[str, Any]
"""What a trial returns: plain JSON values."""

Results = Mapping[str, Mapping[int, Result]]
"""Finished trials: case, then repeat."""


@dataclass(frozen=True)
class Task:
    """One trial to run.

    Attributes
    ----------
    case : str
        Which cell of the table it belongs to, e.g. ``"conditional_cs d-e"``.
    repeat : int
        Which repetition of the case.
    stream : tuple of int
        Which random stream it draws from. Cases with equal streams see the same data: measures are compared on it.
    arguments : mapping
        What the trial function needs to know of the case.
    """

    case: str
    repeat: int
    stream: tuple[int, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the trial in the store."""
        return f"{self.case} #{self.repeat}"


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Attributes
    ----------
    name, title : str
        Name on the command line, and what it is in words.
    reproduces : str
        Which table or figure, and its claim.
    parameters : mapping
        Everything the trials depend on; `quick` holds what a quick version overrides.
    repeats, quick_repeats : int
        Independent repetitions of every case. Not part of the fingerprint: more repeats continue the same store.
    seed : int
        Entropy of all random streams.
    paper : mapping
        The paper's numbers, by cell.
    tolerance : float
        Differences from the paper up to this size agree whatever the standard errors say.
    tasks : callable
        ``tasks(parameters, repeats)``: all trials, in the order in which they are run.
    trial : callable
        ``trial(parameters, arguments, rng)``: one result, of plain JSON values.
    summarise : callable
        ``summarise(experiment, results)``: the report.
    draw : callable
        ``draw(experiment, results, figure)``: the figure, on an empty matplotlib figure.
    source : str
        Name of the store; an experiment that only shows another's trials names that one.
    revision : int
        Raised whenever the code of the trial changes its numbers.
    """

    name: str
    title: str
    reproduces: str
    parameters: Parameters
    quick: Parameters
    repeats: int
    quick_repeats: int
    seed: int
    paper: Mapping[str, Any]
    tolerance: float
    tasks: Callable[[Parameters, int], Sequence[Task]]
    trial: Callable[[Parameters, Mapping[str, Any], np.random.Generator], Result]
    summarise: Callable[[Experiment, Results], Report]
    draw: Callable[[Experiment, Results, Any], None]
    source: str = ""
    revision: int = 1
    is_quick: bool = False

    def version(self, *, quick: bool = False, trials: int | None = None) -> Experiment:
        """Return the experiment as it will be run: quick or in full, with another number of repeats if given."""
        chosen = self
        if quick:
            parameters = {**self.parameters, **self.quick}
            chosen = replace(self, parameters=parameters, repeats=self.quick_repeats, is_quick=True)
        if trials is not None:
            chosen = replace(chosen, repeats=check_integer("trials", trials, 1))
        return chosen

    @property
    def store_name(self) -> str:
        """Folder of the trials; quick ones have their own, so that they never stand in the way of the full run."""
        return (self.source or self.name) + ("-quick" if self.is_quick else "")

    @property
    def folder_name(self) -> str:
        """Folder of the report."""
        return self.name + ("-quick" if self.is_quick else "")

    def description(self) -> dict[str, Any]:
        """Return everything that determines the result of a trial, as plain JSON values."""
        from condcs import __version__

        return {
            "condcs": __version__,
            "experiment": self.source or self.name,
            "revision": self.revision,
            "seed": self.seed,
            "parameters": json.loads(json.dumps(dict(self.parameters))),
        }

    def fingerprint(self) -> str:
        """Content hash of `description`: equal fingerprints mean interchangeable trials."""
        text = json.dumps(self.description(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def generator(self, task: Task) -> np.random.Generator:
        """Return the random generator of a trial: it depends on the seed and the task's stream, on nothing else."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=task.stream))
