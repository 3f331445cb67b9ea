"""One look for all pictures, in a light and a dark edition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

IMAGES = Path(__file__).parents[1] / "images"


@dataclass(frozen=True)
class Colours:
    """What things are drawn in."""

    edition: str
    ink: str
    faint: str
    shade: str
    first: str
    second: str
    third: str


LIGHT = Colours("light", "#26394d", "#9fb0c0", "#eef2f6", "#2b6cb0", "#c8551b", "#2f855a")
DARK = Colours("dark", "#d5e0ea", "#566b80", "#1b2c3f", "#7fb5ea", "#f0894a", "#68d391")


@contextmanager
def edition(colours: Colours) -> Iterator[None]:
    """Draw in these colours, on nothing: the page shows through."""
    settings = {
        "axes.edgecolor": colours.faint,
        "axes.labelcolor": colours.ink,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": colours.ink,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "figure.constrained_layout.use": True,
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "legend.frameon": False,
        "savefig.transparent": True,
        "svg.fonttype": "path",
        "svg.hashsalt": "condcs",
        "text.color": colours.ink,
        "xtick.color": colours.ink,
        "ytick.color": colours.ink,
    }
    with plt.rc_context(settings):
        yield


def both(name: str, draw: Callable[[Colours], Any], folder: Path, *, dpi: int = 140) -> list[Path]:
    """Draw a picture twice and write NAME-light.png and NAME-dark.png."""
    written = []
    for colours in (LIGHT, DARK):
        with edition(colours):
            figure = draw(colours)
            path = folder / f"{name}-{colours.edition}.png"
            # No date and no version inside: the same picture is the same file.
            figure.savefig(path, dpi=dpi, metadata={"Software": None})
            plt.close(figure)
        written.append(path)
    return written
