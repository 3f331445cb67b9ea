"""How work is spread over threads and tiles. No setting changes a result beyond rounding."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from numbers import Integral

from condcs._core.errors import ParameterError


@dataclass(frozen=True)
class Settings:
    """Execution settings in force.

    Attributes
    ----------
    n_threads : int
        Threads of the tiled CPU path.
    tile : int
        Rows and columns of one tile. 256 x 256 doubles are half a megabyte: a tile stays in a core's second-level
        cache.
    """

    n_threads: int
    tile: int = 256


def _default_threads() -> int:
    given = os.environ.get("CONDCS_NUM_THREADS", "").strip()
    if given.isdecimal() and int(given) > 0:
        return int(given)
    if given:
        raise ParameterError(
            f"`CONDCS_NUM_THREADS` must be a positive integer, got {given!r}. "
            "Set it to e.g. 2, or unset it to use all cores."
        )
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_settings: ContextVar[Settings | None] = ContextVar("condcs_settings", default=None)


def current_settings() -> Settings:
    """Return the settings in force: those of the enclosing `config_context`, else the defaults of the machine."""
    settings = _settings.get()
    if settings is None:
        settings = Settings(n_threads=_default_threads())
        _settings.set(settings)
    return settings


@contextlib.contextmanager
def config_context(*, n_threads: int | None = None, tile: int | None = None) -> Iterator[Settings]:
    """Set threads and tile size within a ``with`` block.

    Results do not depend on either beyond rounding (1e-12), and not at all on the number of threads.

    Parameters
    ----------
    n_threads : int, optional
        Threads of the tiled CPU path; by default all cores this process may use, or ``CONDCS_NUM_THREADS``.
    tile : int, optional
        Rows and columns of one tile.

    Examples
    --------
    >>> with config_context(n_threads=1) as settings:
    ...     settings.n_threads
    1
    """
    for name, value in (("n_threads", n_threads), ("tile", tile)):
        if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or int(value) < 1):
            raise ParameterError(
                f"config_context: `{name}` must be a positive integer, got {value!r}. Pass e.g. {name}=2."
            )
    now = current_settings()
    settings = replace(now, n_threads=int(n_threads or now.n_threads), tile=int(tile or now.tile))
    token = _settings.set(settings)
    try:
        yield settings
    finally:
        _settings.reset(token)
