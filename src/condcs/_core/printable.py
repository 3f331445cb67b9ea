"""Text that is safe to print: names and cells of a file may hold what a terminal would obey.

Numbers as text, and results: public ones are `Printable`, with a repr of one line and HTML in notebooks.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten
from typing import Any

_LEAST_LENGTH, _LARGEST = 1e-6, 1e12
"""Length between numbers, and size of a number, beyond which `alike` writes three digits with an exponent: with all
their digits they would be longer than one reads."""


def harmless(text: str, keep: str = "") -> str:
    r"""Show characters that a terminal would obey, or hide, as the escapes that `repr` writes for them.

    These are the control characters (escape sequences begin with one), marks that turn the direction of writing, other
    invisible characters, and surrogates, which no encoding has. Those in `keep` stay as they are.

    Examples
    --------
    >>> print(harmless("price\x1b[2J\u202e"))
    price\x1b[2J\u202e
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def counted(count: int, noun: str) -> str:
    """Write how many there are of something.

    Examples
    --------
    >>> counted(1, "row"), counted(2500, "row")
    ('1 row', '2,500 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(words: Sequence[str], most: int, joint: str = "and") -> str:
    """Write words in a row, and how many more there are.

    Examples
    --------
    >>> listed(["area", "rooms", "age"], 2)
    'area, rooms and 1 more'
    """
    more = f" {joint} {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def alike(*values: float, length: float | None = None, signed: bool = False) -> list[str]:
    """Write numbers that belong together, rounded alike: to two digits of the length between them, or three.

    An estimate and the ends of its interval, say. `length` is given if that is not the range of the numbers.

    Examples
    --------
    >>> alike(32.71, 25.18, 40.2)
    ['33', '25', '40']
    >>> alike(0.1341, 0.09476, 0.19)
    ['0.134', '0.095', '0.190']
    >>> alike(13_531, 8_270, 18_791, signed=True)
    ['+14,000', '+8,000', '+19,000']
    """
    span, sign = max(values) - min(values) if length is None else length, "+" if signed else ""
    if not _LEAST_LENGTH < span < math.inf or max(map(abs, values)) >= _LARGEST:
        return [format(value, f"{sign}.3g") for value in values]
    decimals = 1 - math.floor(math.log10(span))
    # An end that is not 0 shows on which side of it it lies, if one digit more can.
    decimals += any(value and not round(value, decimals) for value in values)
    # 0 is added: no number is written as minus nothing.
    rounded = [round(value, decimals) + 0.0 for value in values]
    return [format(value, f"{sign if value else ''},.{max(0, decimals)}f") for value in rounded]


class Printable:
    """Base of public results and options: a repr of one short line, and the same, or the result's words, as HTML.

    The repr names the class and its fields, those that are not at their defaults, as far as there is room: no arrays,
    no addresses. Fields are those of a dataclass, or what a constructor takes and keeps under the same name.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Give the class a repr of its own, which `dataclass` then leaves as it is."""
        super().__init_subclass__(**options)
        if cls.__repr__ is Printable.__repr__:
            cls.__repr__ = Printable.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        name, shown = type(self).__name__, list[str]()
        room = _LONGEST - len(f"{name}(, ...)")
        for field, value in _fields(self):
            shown.append(f"{field}={brief(value)}")
            if len(", ".join(shown)) > room:
                shown[-1] = "..."
                break
        return f"{name}({', '.join(shown)})"

    def _repr_html_(self) -> str | None:
        """Return what a notebook shows: the text of results that have words, else a table of the fields."""
        from html import escape

        if type(self).__str__ is not object.__str__:
            return f"<pre>{escape(harmless(str(self), keep=_BREAK))}</pre>"
        cells = "".join(
            f"<tr><th>{escape(field)}</th><td>{escape(brief(value))}</td></tr>" for field, value in _fields(self)
        )
        return f"<table><caption>{escape(type(self).__name__)}</caption>{cells}</table>"


def summarised(result: object, sentence: str) -> str:
    """Return a repr that holds the answer of a result in words, as far as there is room."""
    name = type(result).__name__
    return f"<{name}: {shorten(sentence, _LONGEST - len(name) - 4, placeholder=' ...')}>"


_LONGEST = 200
"""Characters of a repr: two lines of a terminal."""

_LONGEST_VALUE = 48
"""Characters of a value in a repr, so that at least three have room."""

_LONGEST_NUMBER = 8
"""Characters of a number in a repr, such as 0.123456: longer ones are rounded to four digits."""

_MOST_ITEMS = 4
"""Items of a value that a repr writes out: of more it says how many there are, because they rarely fit."""

_BREAK = "\n"


def _fields(of: Any) -> Iterator[tuple[str, Any]]:
    """Return names and values of what a repr shows: fields of a dataclass or a tuple, or parameters that were kept."""
    if dataclasses.is_dataclass(of):
        for field in dataclasses.fields(of):
            if not field.repr or field.name.startswith("_"):
                continue
            value = getattr(of, field.name)
            if not _is_default(value, field.default):
                yield field.name, value
    elif hasattr(of, "_fields"):
        yield from zip(of._fields, of, strict=True)
    else:
        names = list(inspect.signature(type(of).__init__).parameters)[1:]
        for name in names:
            value = getattr(of, name, _Nothing)
            # Of objects at work, arrays are data that they were made from.
            if value is not _Nothing and not hasattr(value, "shape"):
                yield name, value


class _Nothing:
    """Stands for an attribute that is not there."""


def _is_default(value: Any, default: Any) -> bool:
    """Whether a plain value is the default; NaN is like NaN."""
    plain = isinstance(value, str | int | float | None)
    return plain and type(value) is type(default) and (value == default or value != value)


def brief(value: Any) -> str:
    """Write a value in a few words: no arrays, no addresses, long values by their sizes.

    Examples
    --------
    >>> brief(0.123456789), brief({"a": 1}), brief(("area", 2.0)), brief(range(500))
    ('0.1235', '<1 entry>', "('area', 2.0)", '<500 items>')
    """
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<shape {tuple(value.shape)}>" if len(value.shape) else brief(value.item())
    if isinstance(value, float):
        plain = float(value)
        return repr(plain) if len(repr(plain)) <= _LONGEST_NUMBER else format(plain, ".4g")
    if isinstance(value, str):
        text = repr(harmless(value))
        return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 4]}...{text[0]}"
    if value is None or isinstance(value, bool | int):
        return str(value)
    if isinstance(value, Mapping):
        return "{}" if not value else f"<{len(value):,} {'entry' if len(value) == 1 else 'entries'}>"
    if isinstance(value, Printable) and len(repr(value)) <= _LONGEST_VALUE:
        return repr(value)
    if isinstance(value, tuple | list | set | frozenset | range):
        return _brief_items(value)
    name = value.__name__ if callable(value) and hasattr(value, "__name__") else type(value).__name__
    return f"<{name}>"


def _brief_items(values: Any) -> str:
    """Write a few values between the brackets of their kind, or how many there are."""
    if len(values) <= _MOST_ITEMS and not isinstance(values, range):
        items = [brief(value) for value in values]
        if hasattr(values, "_fields"):
            first, last = f"{type(values).__name__}(", ")"
        elif isinstance(values, tuple):
            first, last = "(", ",)" if len(items) == 1 else ")"
        else:
            first, last = "[]" if isinstance(values, list) else "{}"
        text = f"{first}{', '.join(items)}{last}"
        if len(text) <= _LONGEST_VALUE and "<" not in text:
            return text
    return f"<{counted(len(values), 'item')}>"
