"""Draw the pictures of the documentation: ``python docs/pictures [NAME ...] [--quick] [--out FOLDER]``."""

from __future__ import annotations

import argparse
from pathlib import Path

import first_page
import nulls
import weights
import widths
from style import IMAGES

PARTS = {"first_page": first_page, "nulls": nulls, "widths": widths, "weights": weights}


def main() -> None:
    """Draw what was asked for, or everything."""
    parser = argparse.ArgumentParser(prog="python docs/pictures", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(PARTS)}; all by default")
    parser.add_argument(
        "--quick", action="store_true", help="few runs: seconds, for a look at the layout"
    )
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the pictures")
    options = parser.parse_args()
    unknown = set(options.names) - set(PARTS)
    if unknown:
        parser.error(f"unknown picture {min(unknown)!r}; there are {', '.join(PARTS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or PARTS:
        for path in PARTS[name].draw_all(options.out, quick=options.quick):
            print(path)


if __name__ == "__main__":
    main()
