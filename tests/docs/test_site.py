"""The built site: strict build, every internal link and anchor, formulas set, nothing fetched from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from tests.browser import chromium, open_page, problems
from tests.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.slow

_NEEDED = ("mkdocs", "material", "mkdocstrings_handlers.python", "latex2mathml", "ziamath", "typer")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once; a warning is an error (with --quiet it would not be: warnings are then never counted)."""
    for name in _NEEDED:
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            pytest.skip(f"{name.partition('.')[0]} is not installed (extra: docs)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@dataclass
class Page(HTMLParser):
    """Ids, links and sources of one page."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.ids |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.sources.append(given["href"])
        elif "src" in given:
            self.sources.append(given["src"])


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: read(path) for path in sorted(site.rglob("*.html"))}


def test_internal_links_and_anchors_resolve(site, pages):
    """Each link leads to a page that is there, and to an id on it."""
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # served from anywhere, so its links are absolute
            continue
        for link in [*page.links, *page.sources]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data"):
                continue
            target = path if not parts.path else Path(unquote(urlsplit(urljoin(path.as_uri(), parts.path)).path))
            if target.is_dir():
                target = target / "index.html"
            if not target.exists() or site not in target.parents:
                broken.append(f"{path.relative_to(site)}: {link}")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in pages[target].ids:
                broken.append(f"{path.relative_to(site)}: no id for {link}")
    assert not broken


def test_pages_name_no_other_host(site, pages):
    """No picture, script, style or font comes from another machine: pages work without a network."""
    outside = [(path.name, s) for path, page in pages.items() for s in page.sources if re.match(r"(https?:)?//", s)]
    assert not outside
    styles = " ".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.findall(r"url\([\"']?https?:|@import", styles)
    assert (site / "theme" / "formulas.woff").stat().st_size > 10_000


def test_formulas_are_set(site, pages):
    """Every formula became MathML: no marks of LaTeX are left, and the converter met nothing that it does not know."""
    count = 0
    for path in pages:
        text = path.read_text(encoding="utf-8")
        count += text.count("<math ")
        assert "arithmatex" not in text
        seen = re.sub(r"<pre.*?</pre>|<code.*?</code>|<math .*?</math>|<script.*?</script>", "", text, flags=re.DOTALL)
        assert "$$" not in seen, path.name
        assert not re.search(r"\.\. math|:math:", seen), path.name
        for formula in re.findall(r"<math .*?</math>", text, flags=re.DOTALL):
            left = re.sub(r'aria-label="[^"]*"', "", formula)
            assert "\\" not in left, f"{path.name}: {formula}"
    assert count > 30


def test_every_public_name_has_an_entry(site, pages):
    """The reference holds all that the packages export."""
    sys.path.insert(0, str(DOCS / "tooling"))
    try:
        from exports import all_exports
    finally:
        sys.path.pop(0)
    anchors = set().union(*(page.ids for page in pages.values()))
    assert {path for path in all_exports().values() if path not in anchors} == set()


def test_every_command_has_a_page():
    """A command of the program is described, and none that the program does not have."""
    typer = pytest.importorskip("typer")
    from condcs.cli.app import app

    described = {page.stem for page in (DOCS / "commands").glob("*.md")} - {"index"}
    assert described == set(typer.main.get_command(app).commands)


def test_every_picture_is_shown(pages):
    """No picture lies about unused."""
    shown = {Path(unquote(urlsplit(s).path)).name for page in pages.values() for s in page.sources}
    # The one of the README.
    assert {p.name for p in (DOCS / "images").iterdir()} - shown <= {"demo.png"}


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1280, False)])
def test_pages_in_a_browser(site, width, dark):
    """On a phone and on a desk: nothing overflows, no error, no request leaves, the keyboard gets everywhere."""
    chosen = ["index", "start", "mathematics", "guide/null", "commands/compare", "reference/tests"]
    if width < 400 and not dark:
        chosen = [str(path.relative_to(site).with_suffix("")) for path in site.rglob("*.html") if path.stem != "404"]
    with chromium(width, dark=dark) as window:
        found = {page: problems(window, site / f"{page}.html") for page in chosen}
    assert {page: said for page, said in found.items() if said} == {}


def test_search_works_from_a_folder(site):
    """The search finds a function on pages that no server serves."""
    with chromium(1280) as window:
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.wait import WebDriverWait

        open_page(window, site / "index.html")
        WebDriverWait(window, 20).until(lambda w: w.find_elements(By.CSS_SELECTOR, ".md-search__input"))
        box = window.find_element(By.CSS_SELECTOR, ".md-search__input")
        box.click()
        box.send_keys("conditional_test")
        links = WebDriverWait(window, 20).until(lambda w: w.find_elements(By.CSS_SELECTOR, ".md-search-result__link"))
        assert any("reference/tests" in link.get_attribute("href") for link in links)


@pytest.mark.parametrize("width", [390, 1280])
def test_printed_sentences_were_cut_at_the_edge_of_the_window(site, width):
    """Tables in blocks scroll; sentences end where the block ends."""
    with chromium(width) as window:
        for page in ("start.html", "how-to/pipelines.html", "commands/compare.html"):
            open_page(window, site / page)
            cut = window.execute_script("""
                const sentences = [...document.querySelectorAll("article pre .sentence")];
                if (!sentences.length) return ["no sentences"];
                return sentences.filter(s => s.getBoundingClientRect().right
                    > s.closest("code").getBoundingClientRect().right + 1).map(s => s.textContent);
            """)
            assert cut == [], page
