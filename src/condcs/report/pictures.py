"""Pictures inside a page: matplotlib figures and image files as data URIs."""

from __future__ import annotations

import base64
import io
import re
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condcs.core.errors import DataError

# A vector picture with thousands of points is larger, and slower to show, than the same picture in pixels.
LARGEST_VECTOR = 300_000
PIXELS_PER_INCH = 96
_SHARP = 2.0

# Not allowed in XML, and found there if a name on a picture holds them: matplotlib repeats its words in comments.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


@dataclass(frozen=True)
class Picture:
    """An image as a data URI and its width on a screen, in CSS pixels."""

    uri: str
    width: int
    height: int


def embed_figure(figure: Any) -> Picture:
    """Draw a matplotlib figure as SVG, or as PNG where the SVG would be large."""
    if not hasattr(figure, "savefig"):
        raise DataError(
            f"`figure` must be a matplotlib figure, got {type(figure).__name__}. Pass e.g. matplotlib.figure.Figure()."
        )
    import matplotlib

    inches = figure.get_size_inches()
    width, height = (round(float(side) * PIXELS_PER_INCH) for side in inches)
    options: dict[str, Any] = {"facecolor": "none", "edgecolor": "none"}
    # No date and no random ids: equal figures give equal pages. Letters as outlines: they look alike on every machine.
    with matplotlib.rc_context({"svg.hashsalt": "condcs", "svg.fonttype": "path"}), warnings.catch_warnings():
        # Names may be in any script; what the font lacks is drawn as a box, and the page has it in words.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, **options)
        if file.tell() <= LARGEST_VECTOR:
            return Picture(_uri("image/svg+xml", _CONTROL.sub(b"?", file.getvalue())), width, height)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=_SHARP * PIXELS_PER_INCH, metadata={"Software": None}, **options)
    return Picture(_uri("image/png", file.getvalue()), width, height)


def embed_file(path: Path) -> Picture:
    """Read a PNG or SVG file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"`path` must be a readable image, got {path}: {error.strerror}. Check the path and its permissions."
        ) from error
    if content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) > 24:
        width, height = struct.unpack(">II", content[16:24])
        return Picture(_uri("image/png", content), round(width / _SHARP), round(height / _SHARP))
    size = re.search(rb'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', content[:4000])
    if size is not None:
        # matplotlib's SVG measures in points, 72 to the inch.
        width, height = (round(float(side) * PIXELS_PER_INCH / 72) for side in size.groups())
        return Picture(_uri("image/svg+xml", content), width, height)
    raise DataError(f"`path` must be a PNG or an SVG with a viewBox, got {path}. Convert the image first.")


def _uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
