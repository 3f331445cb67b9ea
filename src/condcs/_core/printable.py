"""Text that is safe to print: names and cells of a file may hold what a terminal would obey. And numbers as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

_LEAST_LENGTH, _LARGEST = 1e-6, 1e12


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
