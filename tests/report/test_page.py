"""Pages: everything escaped, nothing fetched, readable on a phone, in the dark and by keyboard."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure

from condcs._core.errors import CondcsError, DataError, ParameterError, ShapeError
from condcs.report import Page
from tests.browser import chromium, problems

NASTY = '</script><script>window.hit = 1</script><img src=x onerror="window.hit=1">&\'"'


def small_figure(points: int = 40, width: float = 4.6) -> Figure:
    figure = Figure(figsize=(width, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(np.linspace(0, 1, points), np.linspace(0, 1, points) ** 2, "o")
    axes.set(xlabel="area", ylabel="price")
    return figure


def full_page() -> Page:
    page = Page(f"Prices {NASTY}", f"Lead {NASTY}")
    page.verdict(f"The relation changed. {NASTY}", "bad")
    for title in ("One", "Two", NASTY, "Four"):
        page.section(title)
        page.text(f"First paragraph {NASTY}\n\nSecond {'long' * 100}")
        page.points([NASTY, "short"])
        page.facts({NASTY: NASTY, "rows": 12, "x" * 90: "y" * 200})
        page.table([NASTY, *(f"column {i}" for i in range(14))], [[NASTY, *np.arange(14) / 3]], caption=NASTY)
        page.figure(small_figure(), alt=NASTY, caption=NASTY)
        page.figure(small_figure(width=11), alt="a wide one", caption="wide")
        page.command(f"condcs compare {NASTY} {'w' * 300}")
    page.data("result", {NASTY: [NASTY, float("nan"), np.float64(1.5), np.arange(3)]})
    return page


class Elements(HTMLParser):
    """The elements that a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_markup_in_any_argument_is_shown_as_text():
    """The nasty text makes no element: one script (of data), no image with a handler, no attribute named on...."""
    seen = Elements()
    seen.feed(full_page().html())
    scripts = [attributes for tag, attributes in seen.found if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "result"}]
    assert not [a for _, attributes in seen.found for a in attributes if a.startswith("on")]
    assert all(a["src"].startswith("data:") for tag, a in seen.found if tag == "img")


def test_embedded_json_cannot_end_its_element():
    text = full_page().html()
    body = re.search(r'<script type="application/json" id="result">(.*?)</script>', text, re.DOTALL)[1]
    assert "<" not in body
    assert "\\u003c" in body
    assert json.loads(body) == {NASTY: [NASTY, None, 1.5, [0, 1, 2]]}


def test_equal_pages_are_equal_bytes():
    assert full_page().html() == full_page().html()


def test_undecodable_and_control_characters_are_written_as_a_replacement(tmp_path):
    page = Page("bad \ud800 and \x00\x1b[2J")
    assert "bad � and ��[2J" in page.write(tmp_path / "page.html").read_text(encoding="utf-8")


def test_many_points_become_pixels():
    page = Page("t")
    page.figure(small_figure(), alt="few")
    page.figure(small_figure(20_000), alt="many")
    kinds = re.findall(r'src="data:([a-z+/]+);', page.html())
    assert kinds == ["image/svg+xml", "image/png"]


def test_numbers_are_flush_right_and_text_is_not():
    page = Page("t")
    page.table(["name", "value", "p"], [["a", 1.23456, "0.002"], ["b", None, "< 0.001"]])
    assert '<td>a</td><td class="number">1.235</td><td class="number">0.002</td>' in page.html()
    assert '<td class="number">–</td><td class="number">&lt; 0.001</td>' in page.html()


def test_contents_appear_with_the_fourth_section():
    page = Page("t")
    for title in "abc":
        page.section(title)
    assert "<nav" not in page.html()
    page.section("d: a long title", short="d")
    assert '<a href="#s4">d</a>' in page.html()
    assert "d: a long title</h2>" in page.html()


def test_names_with_control_characters_or_rare_letters_broke_pictures(tmp_path):
    """XML has no escape for them: the picture did not show, and the font's complaints were printed."""
    figure = small_figure()
    figure.axes[0].set_xlabel("area \x1b[2J 東京")
    page = Page("t")
    page.figure(figure, alt="x")
    with chromium(390) as window:
        assert problems(window, page.write(tmp_path / "page.html")) == []


@pytest.mark.parametrize("dark", [False, True])
def test_wide_tables_on_a_phone_gave_no_hint_that_they_scroll(tmp_path, dark):
    """A shadow lies at an edge behind which there is more, and only there."""
    import io

    from matplotlib.image import imread

    page = Page("t")
    page.table([f"column {i}" for i in range(9)], [["a cell"] * 9] * 6)
    page.table(["narrow"], [["a"]] * 6)
    with chromium(390, dark=dark) as window:
        assert problems(window, page.write(tmp_path / "page.html")) == []
        frames = window.execute_script(
            "return [...document.querySelectorAll('.scroll')].map(e => { const b = e.getBoundingClientRect();"
            "return [b.left, b.right, b.top, e.clientHeight] })"
        )

        def edges():
            """Whether the left and right edges of each table, between two lines of text, differ from the paper."""
            picture = imread(io.BytesIO(window.get_screenshot_as_png()))[..., :3]
            paper = picture[2, 2]
            found = []
            for left, right, top, height in frames:
                rows = slice(int(top) + 3, int(top + height) - 3)
                strips = (picture[rows, round(left) + 1], picture[rows, round(right) - 2])
                found.append([bool((abs(strip - paper).max(axis=1) > 0.06).mean() > 0.9) for strip in strips])
            return found

        assert edges() == [[False, True], [False, False]]
        window.execute_script("document.querySelector('.scroll').scrollLeft = 100")
        assert edges()[0] == [True, True]
        window.execute_script("document.querySelector('.scroll').scrollLeft = 10000")
        assert edges()[0] == [True, False]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda p: p.table(["a", "b"], [[1]]), ShapeError, "`rows` must have one cell per column"),
        (lambda p: p.figure(small_figure(), alt=" "), DataError, "`alt` must say"),
        (lambda p: p.figure("no", alt="x"), DataError, "`figure` must be a matplotlib figure"),
        (lambda p: p.image("absent.png", alt="x"), DataError, "`path` must be a readable image"),
        (lambda p: p.image(__file__, alt="x"), DataError, "`path` must be a PNG"),
        (lambda p: p.verdict("x", "ugly"), ParameterError, "`tone` must be one of"),
        (lambda p: p.write("/dev/null/page.html"), CondcsError, "could not be written"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(Page("t"))


def test_a_full_disk_leaves_the_older_page(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("older")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(CondcsError, match="No space left on device"):
        Page("t").write(path)
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


def test_image_files_are_embedded(tmp_path):
    small_figure().savefig(tmp_path / "a.png", dpi=192)
    small_figure().savefig(tmp_path / "a.svg")
    page = Page("t")
    page.image(tmp_path / "a.png", alt="png")
    page.image(tmp_path / "a.svg", alt="svg")
    assert re.findall(r'width="(\d+)"', page.html()) == ["442", "442"]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1100, True)])
def test_a_reader_finds_nothing_wrong(tmp_path, width, dark):
    """Nothing overflows, fails, is fetched, or runs; the background follows the reader's scheme; tab reaches it all."""
    path = full_page().write(tmp_path / "page.html")
    with chromium(width, dark=dark) as window:
        assert problems(window, path) == []
        assert window.execute_script("return window.hit") is None
        red = (
            window.execute_script("return getComputedStyle(document.body).backgroundColor").split("(")[1].split(",")[0]
        )
        assert (int(red) < 60) == dark
        from selenium.webdriver.common.keys import Keys

        reached = set()
        for _ in range(60):
            window.switch_to.active_element.send_keys(Keys.TAB)
            reached.add(
                window.execute_script("return document.activeElement.className || document.activeElement.tagName")
            )
        assert {"skip", "A", "scroll", "picture", "PRE"} <= reached


def test_the_harness_sees_what_is_wrong(tmp_path):
    """A page with an overflow, a request and an error in the console is found out."""
    path = tmp_path / "bad.html"
    path.write_text(
        '<meta name="viewport" content="width=device-width"><div style="width:2000px">wide</div>'
        '<img src="http://example.invalid/a.png"><script>fail(</script>'
    )
    with chromium(390) as window:
        found = " ".join(problems(window, path))
    assert "the page is 2008 pixels wide on a screen of 390" in found
    assert "request to http://example.invalid" in found
    assert "SyntaxError" in found
    assert "an image does not show" in found
