"""Text that is safe to print: names and cells of a file may hold what a terminal would obey."""

from __future__ import annotations


def harmless(text: str, keep: str = "") -> str:
    r"""Show characters that a terminal would obey, or hide, as the escapes that `repr` writes for them.

    These are the control characters (escape sequences begin with one), marks that turn the direction of writing, other
    invisible characters, and surrogates, which no encoding has.

    Parameters
    ----------
    text : str
        Any text.
    keep : str
        Characters to leave as they are.

    Examples
    --------
    >>> print(harmless("price\x1b[2J\u202e"))
    price\x1b[2J\u202e
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)
