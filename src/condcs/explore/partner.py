"""The one place that imports gymnasium: it is optional, and its absence gets a plain message."""

from __future__ import annotations

from typing import Any

from condcs.core.errors import CondcsError


class MissingPartnerError(CondcsError, ImportError):
    """An optional library is needed and not installed."""


def gymnasium() -> Any:
    """Return the gymnasium module, or say how to install it."""
    try:
        import gymnasium as module
    except ModuleNotFoundError as error:
        raise MissingPartnerError(
            "gymnasium must be installed for environments and wrappers. Install it with: pip install 'condcs[rl]'"
        ) from error
    return module
