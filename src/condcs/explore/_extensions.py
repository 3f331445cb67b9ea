"""Tasks and methods that other packages add to `condcs explore`, `make_agent` and `make_environment`.

A package names an `Extension` as an entry point of the group ``condcs.exploration``:

    [project.entry-points."condcs.exploration"]
    paper = "condcs_reproduction.exploration:EXTENSION"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, TypeVar

from condcs._core.checks import check_choice
from condcs._core.errors import MissingPartnerError
from condcs._core.vocabulary import setting

if TYPE_CHECKING:
    from condcs.explore._methods import Method
    from condcs.explore._tasks import Task

GROUP = "condcs.exploration"

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Extension:
    """What a package adds."""

    tasks: tuple[Task, ...] = ()
    methods: tuple[Method, ...] = ()


@lru_cache(maxsize=1)
def extensions() -> tuple[Extension, ...]:
    """Return what the installed packages add."""
    return tuple(entry.load() for entry in entry_points(group=GROUP))


def entry_named(argument: str, name: str, entries: Mapping[str, Entry], of_the_paper: Sequence[str]) -> Entry:
    """Return the entry with a name; say what to install for one that comes with the paper's experiments."""
    if name in of_the_paper and name not in entries:
        raise MissingPartnerError(
            f"`{setting(argument, name)}` comes with the package 'condcs-reproduction', which is not installed. "
            "Install it with: pip install condcs-reproduction (in a clone: pip install ./reproduction)"
        )
    return entries[check_choice(argument, name, tuple(entries))]
