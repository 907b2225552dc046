"""A headless Chromium for the tests of the page; tests that need one skip, with the reason, where there is none."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium(downloads: Path) -> Iterator[Any]:
    """Start a browser that saves downloads in a folder and logs what the page asks for and complains of."""
    binary = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium with chromedriver: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--disable-gpu", "--window-size=1400,1000", "--force-device-scale-factor=1"):
        options.add_argument(argument)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium's sandbox does not run as root
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield browser
    finally:
        browser.quit()


def until(condition: Callable[[], Any]) -> Any:
    """Return what a condition gives once it holds, or at last: a page and its store go on beside the test."""
    for _ in range(600):
        if found := condition():
            return found
        time.sleep(0.05)
    return condition()


def go(browser: Any, address: str) -> None:
    """Change what follows `#` in the page's address, and wait until the page has followed."""
    browser.execute_async_script(
        "addEventListener('hashchange', () => setTimeout(arguments[1]), {once: true}); location.hash = arguments[0]",
        address,
    )


def complaints(browser: Any) -> list[str]:
    """Return what the console has said since the last call."""
    return [entry["message"] for entry in browser.get_log("browser")]


def requests(browser: Any) -> list[str]:
    """Return the addresses that were asked for since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


def axe_violations(browser: Any) -> list[str]:
    """Return the serious and critical violations that axe-core finds in what is shown."""
    pytest.importorskip("axe_core_python")
    source = (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    browser.execute_script(source)
    found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    return [
        f"{violation['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
