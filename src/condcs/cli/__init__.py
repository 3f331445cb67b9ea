"""The command line: ``condcs --help``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; say what to install where its parts are missing."""
    try:
        from condcs.cli.app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "condcs":
            raise
        # Not sys.exit with the words: that ends with 1, which means "changed".
        words = f"The command line needs {error.name!r}, which is not installed."
        print(f"{words} Install it with: pip install 'condcs[cli]'", file=sys.stderr)
        sys.exit(2)
    app()
