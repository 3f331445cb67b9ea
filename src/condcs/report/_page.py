"""One HTML file with text, tables and pictures; everything given to it is plain text and is shown as such."""

from __future__ import annotations

import base64
import html
import io
import json
import math
import platform
import re
import struct
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

import numpy as np

from condcs._core.checks import check_choice
from condcs._core.errors import DataError, ShapeError
from condcs._core.files import atomic_write, writing
from condcs._core.printable import Printable
from condcs._core.version import condcs_version

PACKAGES = ("numpy", "scipy", "scikit-learn", "matplotlib")

# Scripts never run in a page and nothing is fetched, whatever a file that was compared may hold.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

# Control characters have no place in HTML; surrogates, from undecodable file names, cannot be written as UTF-8.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

# What messages put between backticks: names of arguments and options, without spaces.
_NAME = re.compile(r"`([^`\s]+)`")

_NUMBER = re.compile(r"[-−+<≤≥>~]?\s*\d[\d,]*(\.\d+)?([eE][-+]?\d+)?\s*(%|ms|s|MB|x)?(\s*(±|\+-)\s*[\d.]+)?")

# Bytes: a vector picture with thousands of points is larger, and slower to show, than the same picture in pixels.
LARGEST_VECTOR = 300_000
# What CSS calls an inch; matplotlib's SVG measures in points, 72 to the inch.
PIXELS_PER_INCH = 96
POINTS_PER_INCH = 72
# Pixels of a PNG for each pixel of CSS: screens with twice the resolution show it sharp.
_SHARP = 2.0
# Sections from which on a page begins with a list of them: fewer are seen at a glance.
_SECTIONS_WITH_CONTENTS = 4
# Bytes at the start of an SVG within which its size is sought: its first element says it.
_SVG_HEAD = 4000
_LONG_TITLE = 32
"""Characters of the head of a column from which on it may break: in one line it would push the next out of sight."""

# Not allowed in XML, and found there if a name on a picture holds them: matplotlib repeats its words in comments.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class Page(Printable):
    """A page that is built from top to bottom and written as one self-contained file.

    It reads well on a phone, on paper, in light and in dark, and needs neither scripts nor the network. Every argument
    is plain text: markup in it is shown, not obeyed. Names between backticks in sentences are set as code.

    Parameters
    ----------
    title : str
        Heading and name of the page.
    lead : str
        What the page says, in a sentence or two.

    Examples
    --------
    >>> page = Page("Prices", "Did the relation between price and area change?")
    >>> page.section("Numbers")
    >>> page.table(["sample", "rows"], [["March", 200], ["<April>", 180]])
    >>> "&lt;April&gt;" in page.html()
    True
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self._title, self._lead = title, lead
        self._sections: list[str] = []
        self._entries: list[str] = []
        # What comes before the first section stands outside of any.
        self._parts: list[list[str]] = [[]]
        self._figures: list[str] = []

    def section(self, title: str, short: str = "") -> None:
        """Start a section with a heading; a page with four or more gets a list of them, or of `short`, at its top."""
        self._flush()
        self._sections.append(title)
        self._entries.append(short or title)
        self._parts.append([])

    def text(self, words: str) -> None:
        """Add paragraphs; a blank line separates them."""
        for paragraph in re.split(r"\n\s*\n", words.strip()):
            self._add(f"<p>{_prose(paragraph)}</p>")

    def points(self, items: Iterable[str]) -> None:
        """Add a list of short texts."""
        self._add("<ul>" + "".join(f"<li>{_prose(item)}</li>" for item in items) + "</ul>")

    def verdict(self, words: str, tone: Literal["neutral", "good", "bad"] = "neutral") -> None:
        """Add the sentence that says it all, set apart from the text; `tone` is "neutral", "good" or "bad"."""
        check_choice("tone", tone, ("neutral", "good", "bad"))
        self._add(f'<p class="verdict {tone}">{_prose(words)}</p>')

    def table(self, columns: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str = "") -> None:
        """Add a table; numbers are set flush right, floats with four significant digits."""
        body = [list(row) for row in rows]
        for number, row in enumerate(body):
            if len(row) != len(columns):
                raise ShapeError(
                    f"`rows` must have one cell per column ({len(columns)}), got {len(row)} in row {number}. "
                    "Fill missing cells with None."
                )
        # Columns that hold nothing but numbers, or nothing in a cell.
        are_numbers = [bool(body) and all(_is_number(row[c]) for row in body) for c in range(len(columns))]
        head = "".join(_head(title, is_number=is_number) for title, is_number in zip(columns, are_numbers, strict=True))
        attributes = [' class="number"' if is_number else "" for is_number in are_numbers]
        lines = []
        for row in body:
            cells = [f"<td{kind}>{_escape(_show(cell))}</td>" for kind, cell in zip(attributes, row, strict=True)]
            lines.append(f"<tr>{''.join(cells)}</tr>")
        # Beside the table, not in it: the caption of a wide table would scroll out of sight with it.
        title = f'<p class="caption">{_escape(caption)}</p>' if caption else ""
        label = _escape(caption or (self._sections[-1] if self._sections else self._title))
        # Focusable, so that a table wider than the screen can be scrolled with the keyboard.
        self._add(
            f'{title}<div class="scroll" tabindex="0" role="region" aria-label="Table: {label}">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
        )

    def figure(self, figure: Any, alt: str, caption: str = "") -> None:
        """Add a matplotlib figure; `alt` says in words what it shows. Figures in a row stand side by side if they fit.

        Lettering stays legible on a phone for figures up to about five inches wide; wider ones scroll there.
        """
        self._add_picture(embed_figure(figure), alt, caption)

    def image(self, path: str | Path, alt: str, caption: str = "") -> None:
        """Add a PNG or SVG file as a figure."""
        self._add_picture(embed_file(Path(path)), alt, caption)

    def facts(self, values: Mapping[str, Any]) -> None:
        """Add a list of labels and values."""
        pairs = (f"<dt>{_escape(label)}</dt><dd>{_escape(_show(value))}</dd>" for label, value in values.items())
        self._add(f"<dl>{''.join(pairs)}</dl>")

    def command(self, words: str) -> None:
        """Add a command line, set in type of fixed width."""
        self._add(f'<pre tabindex="0" aria-label="Command"><code>{_escape(words)}</code></pre>')

    def data(self, name: str, value: Any) -> None:
        """Embed a value as JSON for machines, in an element whose id is `name`; it is not shown.

        NaN and infinity, which JSON lacks, become null; "<", ">" and "&" are written as escapes, so that no text in it
        can end the element.
        """
        text = as_json(value)
        for sign in "<>&":
            text = text.replace(sign, f"\\u{ord(sign):04x}")
        self._add(f'<script type="application/json" id="{_escape(name)}">{text}</script>')

    def html(self) -> str:
        """Return the page as text."""
        self._flush()
        style = resources.files("condcs.report").joinpath("page.css").read_text(encoding="utf-8")
        sections = []
        for number, (title, parts) in enumerate(zip(self._sections, self._parts[1:], strict=True), start=1):
            head = f'<h2 id="s{number}">{_escape(title)}</h2>'
            sections.append(f'<section aria-labelledby="s{number}">{head}{"".join(parts)}</section>')
        lead = f'<p class="lead">{_escape(self._lead)}</p>' if self._lead else ""
        return "\n".join(
            [
                "<!doctype html>",
                '<html lang="en"><head><meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                '<meta name="color-scheme" content="light dark">',
                f'<title>{_escape(self._title)}</title><link rel="icon" href="data:,">',
                f"<style>\n{style}</style></head><body>",
                '<a class="skip" href="#content">Skip to the content</a>',
                f"<header><h1>{_escape(self._title)}</h1>{lead}{self._contents()}</header>",
                '<main id="content">',
                *self._parts[0],
                *sections,
                "</main>",
                f"<footer>{_escape(versions())}</footer>",
                "</body></html>\n",
            ]
        )

    def framed(self, height: int = 600) -> str:
        """Return the page as an element of another page, such as a notebook, which it can neither style nor script."""
        return (
            f'<iframe sandbox title="{_escape(self._title)}" srcdoc="{html.escape(self.html(), quote=True)}" '
            f'style="width: 100%; height: {height}px; border: 0"></iframe>'
        )

    def write(self, path: str | Path) -> Path:
        """Write the file and return its path; an older file is replaced only once the new one is complete."""
        return write_whole(path, self.html())

    def _contents(self) -> str:
        """Return the list of sections, if there are enough."""
        if len(self._sections) < _SECTIONS_WITH_CONTENTS:
            return ""
        items = []
        for number, entry in enumerate(self._entries, start=1):
            items.append(f'<li><a href="#s{number}">{_escape(entry)}</a></li>')
        return f'<nav aria-label="Contents"><ul>{"".join(items)}</ul></nav>'

    def _add(self, part: str) -> None:
        self._flush()
        self._parts[-1].append(part)

    def _add_picture(self, picture: Picture, alt: str, caption: str) -> None:
        """Add a picture to the row of figures that is not closed yet."""
        if not alt.strip():
            raise DataError("`alt` must say in words what the picture shows, got nothing. Describe it in a sentence.")
        words = f"<figcaption>{_escape(caption)}</figcaption>" if caption else ""
        self._figures.append(
            f'<figure style="--wide:{picture.width}px">'
            '<div class="picture" tabindex="0" role="group" aria-label="Picture">'
            f'<img src="{picture.uri}" alt="{_escape(alt)}" width="{picture.width}" height="{picture.height}">'
            f"</div>{words}</figure>"
        )

    def _flush(self) -> None:
        """Close a row of figures."""
        if self._figures:
            self._parts[-1].append(f'<div class="figures">{"".join(self._figures)}</div>')
            self._figures = []


def write_whole(path: str | Path, text: str | bytes) -> Path:
    """Write text (as UTF-8) or bytes to a file, replacing an older one only once the new one is complete."""
    path = Path(path)
    content = text.encode() if isinstance(text, str) else text
    with writing(f"`{path}`"):
        if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
            path.write_bytes(content)
        else:
            with atomic_write(path) as file:
                file.write(content)
    return path


def as_json(value: Any) -> str:
    """Return a value as JSON in ASCII; NaN and infinity, which JSON lacks, are null."""
    return json.dumps(_finite(value), ensure_ascii=True, allow_nan=False)


def versions(packages: Sequence[str] = PACKAGES) -> str:
    """Say which versions of condcs, Python and some packages are at work."""
    partners = [f"Python {platform.python_version()}"]
    for name in packages:
        try:
            partners.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return f"Made by condcs {condcs_version()} with {', '.join(partners)}."


def _escape(value: Any) -> str:
    return html.escape(_UNPRINTABLE.sub("�", str(value)), quote=True)


def _prose(words: str) -> str:
    """Escape sentences, and set names between backticks, such as those of options, as code."""
    return _NAME.sub(r"<code>\1</code>", _escape(words))


def _show(value: Any) -> str:
    """Write the value of a cell or of a fact."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Real) and not isinstance(value, Integral):
        # Whole numbers from 1,000 on: of five digits, four would come with an exponent. Of ten or more they do.
        return f"{float(value):,.0f}" if 1e3 <= abs(float(value)) < 1e9 else f"{float(value):.4g}"
    return str(value)


def _head(title: Any, *, is_number: bool) -> str:
    """Return the head of a column, which may take several lines if it is long."""
    is_long = len(str(title)) > _LONG_TITLE
    names = " ".join(name for name, holds in (("number", is_number), ("long", is_long)) if holds)
    kind = f' class="{names}"' if names else ""
    return f'<th scope="col"{kind}>{_escape(title)}</th>'


def _is_number(value: Any) -> bool:
    """Whether a cell stands flush right: a number, a text that reads as one, or nothing."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value or _NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, Real) and not isinstance(value, bool)


def _finite(value: Any) -> Any:
    """Return plain values that JSON has, arrays as lists; NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value) if math.isfinite(float(value)) else None
    tolist: Callable[[], Any] | None = getattr(value, "tolist", None)
    return _finite(tolist()) if tolist is not None else value


@dataclass(frozen=True)
class Picture:
    """An image as a data URI and its width on a screen, in CSS pixels."""

    uri: str
    width: int
    height: int


def drawing(width: float, height: float, *shape: int, framed: bool = False, **options: Any) -> tuple[Any, Any]:
    """Return a matplotlib figure and its axes; unless they are framed, without lines above and at the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(*shape, **options)
    for each in () if framed else np.atleast_1d(axes).flat:
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


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
    # The first chunk of a PNG is its header: width and height are the bytes 16 to 23.
    if content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) > 24:
        width, height = struct.unpack(">II", content[16:24])
        return Picture(_uri("image/png", content), round(width / _SHARP), round(height / _SHARP))
    size = re.search(rb'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', content[:_SVG_HEAD])
    if size is not None:
        width, height = (round(float(side) * PIXELS_PER_INCH / POINTS_PER_INCH) for side in size.groups())
        return Picture(_uri("image/svg+xml", content), width, height)
    raise DataError(f"`path` must be a PNG or an SVG with a viewBox, got {path}. Convert the image first.")


def _uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
