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


def axe_violations(browser: Any, *rules: str) -> list[str]:
    """Return the serious and critical violations that axe-core finds in what is shown; of some of its rules, if named."""
    pytest.importorskip("axe_core_python")
    if not browser.execute_script("return 'axe' in window"):
        browser.execute_script((resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = browser.execute_async_script(
        "axe.run(arguments[0].length ? {runOnly: arguments[0]} : {}).then(arguments[arguments.length - 1])", list(rules)
    )
    return [
        f"{violation['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def script(browser: Any, text: str, *arguments: Any) -> Any:
    """Return what a script returns in the page."""
    return browser.execute_script(text, *arguments)


def find(browser: Any, selector: str) -> Any:
    """Return the first element of a selector."""
    return browser.find_element("css selector", selector)


def click(browser: Any, *selectors: str) -> None:
    """Click on the first elements of some selectors, one after another."""
    for selector in selectors:
        find(browser, selector).click()


def press(browser: Any, *keys: str, on: str = "") -> None:
    """Press keys on an element, or each on the one that has the focus then."""
    for key in keys:
        (find(browser, on) if on else browser.switch_to.active_element).send_keys(key)


def sized(browser: Any, width: int | None, height: int = 800) -> None:
    """Show the page on a screen of some width, a phone's below 500; on the window's own if there is none."""
    if width is None:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    else:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
