"""What an argument is called in a message: `n_resamples` in Python, `--resamples` on the command line.

A message is written once, where it arises, and names arguments by these functions. Whoever calls the library decides in
whose words: a command speaks of its options (`speaking`), everybody else of arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Vocabulary:
    """The words of Python."""

    def name(self, argument: str) -> str:
        """Return what an argument is called."""
        return argument

    def setting(self, argument: str, value: object) -> str:
        """Return how an argument is given a value."""
        return f"{argument}={value:g}" if isinstance(value, float) else f"{argument}={value!r}"

    def table_setting(self, field: str, value: object) -> str:
        """Return how a field of `condcs.TableOptions` is given a value."""
        return f"tables=TableOptions({self.setting(field, value)})"


_IN_FORCE: ContextVar[Vocabulary] = ContextVar("vocabulary", default=Vocabulary())  # noqa: B039 - it has no state


@contextmanager
def speaking(vocabulary: Vocabulary) -> Iterator[None]:
    """Name arguments in messages by the words of `vocabulary`."""
    token = _IN_FORCE.set(vocabulary)
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def named(*arguments: str) -> str:
    """Return arguments as a message names them; those that one word stands for are named once.

    Examples
    --------
    >>> named("xp", "xq")
    '`xp` and `xq`'
    """
    return " and ".join(dict.fromkeys(f"`{_IN_FORCE.get().name(argument)}`" for argument in arguments))


def setting(argument: str, value: object) -> str:
    """Return what to write so that an argument has a value.

    Examples
    --------
    >>> setting("null", "local")
    "null='local'"
    """
    return _IN_FORCE.get().setting(argument, value)


def table_setting(field: str, value: object) -> str:
    """Return what to write so that a field of `condcs.TableOptions` has a value.

    Examples
    --------
    >>> table_setting("decimal", ",")
    "tables=TableOptions(decimal=',')"
    """
    return _IN_FORCE.get().table_setting(field, value)
