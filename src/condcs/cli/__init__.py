"""The command line: ``condcs --help``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; say what to install where its parts are missing."""
    try:
        from condcs.cli.app import app
    except ImportError as error:
        words = (
            f"unexpected error in condcs: {error}. The installation seems to be damaged: reinstall it, or report a bug."
        )
        if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != "condcs":
            words = f"The command line needs {error.name!r}, which is not installed. "
            words += "Install it with: pip install 'condcs[cli]'"
        # Not sys.exit with the words: that ends with 1, which means "changed".
        print(words, file=sys.stderr)
        sys.exit(2)
    app()
