"""A headless Chromium that looks at pages the way a reader would, without a network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_LOADING_SECONDS = 60
"""Longest time for a page from a file, on a machine that does much else."""


@contextmanager
def chromium(width: int = 1000, *, dark: bool = False) -> Iterator[Any]:
    """Yield a selenium driver; the test is skipped, with a reason, where browser or driver is absent."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("chromium and chromedriver (Debian: chromium, chromium-driver) are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        # Any request to a host fails, and is seen in the log.
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    window = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        # Device metrics, not a window size: headless windows are never narrower than 500 pixels.
        window.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        yield window
    finally:
        window.quit()


def open_page(window: Any, path: Path) -> None:
    """Open a page and wait for all of it: on a busy machine `get` has returned with the page before."""
    from selenium.webdriver.support.wait import WebDriverWait

    address = path.resolve().as_uri()
    window.get(address)
    shown = "return document.readyState === 'complete' && location.href.split('#')[0] === arguments[0]"
    WebDriverWait(window, _LOADING_SECONDS).until(lambda w: w.execute_script(shown, address))


def problems(window: Any, path: Path) -> list[str]:
    """Open a page and list what a reader would stumble over: errors, requests, overflow, scripts that ran."""
    open_page(window, path)
    found = [entry["message"] for entry in window.get_log("browser")]
    for entry in window.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            if not url.startswith(("file://", "data:", "chrome")):
                found.append(f"request to {url}")
    width, inner = window.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    if width > inner:
        found.append(f"the page is {width} pixels wide on a screen of {inner}")
    broken = "return [...document.images].filter(i => !i.complete || i.naturalWidth === 0).length"
    if window.execute_script(broken):
        found.append("an image does not show")
    scrolling = """
        return [...document.querySelectorAll('*')].filter(e => e.scrollWidth > e.clientWidth + 1
            && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0).length"""
    if window.execute_script(scrolling):
        found.append("something scrolls that the keyboard cannot reach")
    return found
