"""gymnasium, imported when it is needed."""

from __future__ import annotations

from typing import Any

from condcs._core.errors import MissingPartnerError


def gymnasium() -> Any:
    """Return the gymnasium module, or raise an error that says how to install it."""
    try:
        import gymnasium as module
    except ModuleNotFoundError as error:
        raise MissingPartnerError(
            "gymnasium must be installed for environments and wrappers. Install it with: pip install 'condcs[rl]'"
        ) from error
    return module
