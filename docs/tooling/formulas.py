"""Formulas as MathML: set by the browser itself, with no script and no request, in a font that comes with the site.

A hook of mkdocs. The extension arithmatex marks up `$x$` and `$$x$$`; here its marks become MathML. The font STIX Two
Math (SIL Open Font License, shipped by the package ziamath) is cut down to the characters that formulas can use.
"""

from __future__ import annotations

import html
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

_MARKED = re.compile(r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', re.DOTALL)
_FONT = "theme/formulas.woff"
# What the converter does not know: names of functions set upright.
_WORDS = {r"\tr": r"\operatorname{tr}", r"\diag": r"\operatorname{diag}"}
# Names of functions are names, not operators, and stand apart from what is around them; a minus after a bracket is a
# sign, not a subtraction.
_SPACING = (
    (re.compile(r"<mo>(\w{2,})</mo>"), r"<mi>\1</mi>"),
    (
        re.compile(r"<mo>&#x0002F;</mo>"),
        '<mo lspace="0.05em" rspace="0.05em">&#x0002F;</mo>',
    ),
    (
        re.compile(r"(<mi>(?:log|exp|det)</mi>)(?!<mo[^>]*>&#x00028;|</mrow>)"),
        r'\1<mspace width="0.17em" />',
    ),
    (re.compile(r"(</mn>)(<mi>(?:log|exp)</mi>)"), r'\1<mspace width="0.17em" />\2'),
    (
        re.compile(r"(<mo[^>]*>&#x00028;</mo>)<mo>&#x02212;</mo>"),
        r'\1<mo form="prefix">&#x02212;</mo>',
    ),
)


def to_mathml(source: str, *, display: bool) -> str:
    """Return a formula in LaTeX as MathML, with its source for copying and for readers without MathML."""
    for word, meaning in _WORDS.items():
        source = re.sub(re.escape(word) + r"(?![a-zA-Z])", lambda _, m=meaning: m, source)
    mathml = convert(source, display="block" if display else "inline")
    for pattern, mended in _SPACING:
        mathml = pattern.sub(mended, mathml)
    # Accents are short: the converter lets them stretch.
    mathml = mathml.replace(
        '<mo stretchy="true">&#x000AF;</mo>', '<mo stretchy="false">&#x000AF;</mo>'
    )
    return mathml.replace("<math ", f'<math aria-label="{html.escape(source, quote=True)}" ', 1)


def on_page_content(text: str, **_: Any) -> str:
    """Set the formulas of a page."""

    def formula(match: re.Match[str]) -> str:
        display = match[2] == "["
        source = html.unescape(match[3]).strip()
        set_formula = to_mathml(source, display=display)
        # A wide formula scrolls by itself; theme/keyboard.js lets the keyboard reach it.
        return f'<div class="formula">{set_formula}</div>' if display else set_formula

    return _MARKED.sub(formula, text)


def on_post_build(config: Any, **_: Any) -> None:
    """Write the font of the formulas."""
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont

    wanted = {
        *range(0x20, 0x180),
        *range(0x370, 0x400),
        *range(0x2000, 0x2300),
        *range(0x27E8, 0x27EC),
    }
    # Italic, bold and script letters, which the browser puts in place of plain ones.
    wanted |= {
        *range(0x1D400, 0x1D4D0),
        *range(0x1D6A8, 0x1D71C),
        0x2B9,
        0x2DC,
        0x302,
        0x303,
        0x304,
    }
    # Found, not imported: the package itself is not needed.
    spec = find_spec("ziamath")
    if spec is None or spec.origin is None:
        raise PluginError("The font of the formulas comes with ziamath: pip install ziamath")
    font = TTFont(Path(spec.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf")
    subsetter = Subsetter(
        Options(name_IDs=["*"], notdef_outline=True, layout_features=["ssty", "dtls", "ccmp"])
    )
    subsetter.populate(unicodes=wanted)
    subsetter.subset(font)
    font.flavor = "woff"
    target = Path(config.site_dir) / _FONT
    target.parent.mkdir(parents=True, exist_ok=True)
    font.save(target)
