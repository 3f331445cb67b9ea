"""Which version of condcs is at work."""

from __future__ import annotations

import sys


def condcs_version() -> str:
    """Return ``condcs.__version__``; no layer below the package itself can import it from there."""
    return str(sys.modules["condcs"].__version__)
