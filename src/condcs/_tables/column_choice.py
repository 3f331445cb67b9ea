"""Which columns: names, globs, and everything but."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from condcs._core.errors import ParameterError

MOST_COLUMNS = 500
"""Columns of x; with more, neither the nulls nor distances have a meaning that samples of this size could carry."""

_SHOWN = 12


def select_columns(option: str, patterns: Sequence[str], names: Sequence[str], title: str) -> list[str]:
    """Return the columns that patterns name, in the table's order within each pattern.

    A pattern is a name, a glob (``area_*``), or either with a leading ``!``, which takes columns away again; several
    may be separated by commas. A column whose name holds a comma or a star is matched by its whole name first.
    """
    chosen: dict[str, None] = {}
    known = set(names)
    unknown = []
    for pattern in _split(patterns, names):
        without = pattern.startswith("!") and pattern not in known
        wanted = pattern[1:] if without else pattern
        matches = [wanted] if wanted in known else [name for name in names if fnmatchcase(name, wanted)]
        if not matches:
            unknown.append(wanted)
        elif without:
            # A list of exceptions alone means everything else.
            chosen = chosen or dict.fromkeys(names)
            for name in matches:
                chosen.pop(name, None)
        else:
            chosen.update(dict.fromkeys(matches))
    if unknown:
        # All of them in one message: a long list would otherwise be mended name by name.
        remedies = " ".join(dict.fromkeys(_remedy(wanted, names) for wanted in unknown))
        raise ParameterError(
            f"`{option}` must name columns of {title}, got {', '.join(map(repr, unknown))}. {remedies}"
        )
    return list(chosen)


def select_one(option: str, patterns: Sequence[str], names: Sequence[str], title: str) -> str | None:
    """Return the one column that patterns name, or None where there are none."""
    chosen = select_columns(option, patterns, names, title)
    if len(chosen) > 1:
        raise ParameterError(
            f"`{option}` must name one column of {title}, got {', '.join(map(repr, chosen[:_SHOWN]))}. Name one of "
            "them."
        )
    return chosen[0] if chosen else None


def choose_x_and_y(
    x: Sequence[str], y: Sequence[str], names: Sequence[str], title: str, aside: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Return the columns of x and of y; x is everything but y, and what stands aside, where it is not given."""
    responses = select_columns("y", y, names, title)
    if set(responses) & set(aside):
        raise ParameterError(
            f"`y` must be a column of its own, got {', '.join(map(repr, aside))}, which has another role. Name another."
        )
    if not responses:
        raise ParameterError(f"`y` must name a column of {title}, got none. {_remedy('', names)}")
    taken = {*responses, *aside}
    inputs = [name for name in select_columns("x", x or ["*"], names, title) if name not in taken]
    if not inputs:
        raise ParameterError(
            f"`x` must leave at least one column beside `y`, got none of the {len(names)} columns of {title}. "
            f"{_remedy('', names)}"
        )
    if len(inputs) > MOST_COLUMNS:
        raise ParameterError(
            f"`x` must name at most {MOST_COLUMNS} columns, got {len(inputs):,}. Name the ones that matter, e.g. "
            f"x={','.join(inputs[:3])!r}, or a glob such as x={inputs[0][:4] + '*'!r}."
        )
    return inputs, responses


def _split(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    parts: list[str] = []
    for pattern in patterns:
        parts += [pattern] if pattern in names else [part.strip() for part in pattern.split(",") if part.strip()]
    return parts


def _remedy(wanted: str, names: Sequence[str]) -> str:
    close = get_close_matches(wanted, names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return f"Its columns are {shown}{f' and {len(names) - _SHOWN:,} more' if len(names) > _SHOWN else ''}."
