"""The pictures in docs/images of the board and of pages: `python tools/shoot_images.py` makes those anew that are old.

It needs Chromium (`apt-get install chromium chromium-driver`) and matplotlib. `docs/images/made-from.json` keeps the
hash of what each picture was made from; a quick test compares it with the files of now.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
RECORD = IMAGES / "made-from.json"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGE = "leaderboard/mini.html"
EXAMPLES = "leaderboard/examples/mini/imdb.js"
STUDY = ("study.html", "study.css", "study.js")

MADE_FROM: Mapping[str, tuple[str, ...]] = {
    "leaderboard.png": (PAGE,),
    "leaderboard-system.png": (PAGE,),
    "leaderboard-examples.png": (PAGE, EXAMPLES),
    "study-page.png": (*(f"grue/render/web/{name}" for name in STUDY), "grue/study/templates/commongen.toml"),
    "plot-tradeoff.png": (
        "leaderboard/mini.json",
        *(f"grue/plots/{name}.py" for name in ("drawing", "tradeoff")),
    ),
}
"""Picture → the files that decide what it shows."""

SHOTS: Mapping[str, tuple[str, str]] = {
    "leaderboard.png": ("#overview", "#panel-overview .beside"),
    "leaderboard-system.png": ("#system=supervised+nlpo_stable", "#system .figures section:nth-child(1)"),
    "leaderboard-examples.png": ("#examples&task=imdb", "#gallery article:nth-child(2)"),
}
"""Picture of the board's page → its address, and the last element that is to be seen whole."""
WINDOW = (1440, 2400)  # pixels; tall, since a table is never taller than the window


def sha256(*paths: Path) -> str:
    """Return the hash of some files, in this order."""
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in paths)).hexdigest()


def state(name: str) -> dict[str, str]:
    """Return the hash of a picture, and of what it would be made from now."""
    return {"picture": sha256(IMAGES / name), "made_from": sha256(*(ROOT / path for path in MADE_FROM[name]))}


def main() -> None:
    """Make the pictures that are not of today, or all with `--all`, and record what they were made from."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    old = [
        name
        for name in MADE_FROM
        if "--all" in sys.argv or not (IMAGES / name).is_file() or known.get(name) != state(name)
    ]
    with tempfile.TemporaryDirectory() as folder:
        if "plot-tradeoff.png" in old:
            grue(f"plot tradeoff --task commongen --no-local -o {IMAGES / 'plot-tradeoff.png'}")
        if shots := [name for name in old if name != "plot-tradeoff.png"]:
            with chromium() as browser:
                for name in shots:
                    (shoot_study(browser, Path(folder)) if name == "study-page.png" else shoot_board(browser, name))
    RECORD.write_text(json.dumps({name: state(name) for name in MADE_FROM}, indent=1) + "\n", encoding="utf-8")
    print("\n".join(f"docs/images/{name}" for name in old) or "Every picture is of today.")


def grue(arguments: str) -> None:
    """Run a command of grue in the checkout."""
    from grue.cli.main import main as command

    os.chdir(ROOT)
    command(arguments.split(), standalone_mode=False)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser without a window."""
    from selenium import webdriver

    binary, driver = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which("chromedriver")
    if binary is None or driver is None:
        sys.exit("There is no Chromium with chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium's sandbox does not run as root
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield browser
    finally:
        browser.quit()


def shoot_board(browser: Any, name: str) -> None:
    """Take a picture of the board's page, from its top to the end of an element."""
    address, last = SHOTS[name]
    size(browser, *WINDOW)
    browser.get("about:blank")
    browser.get((ROOT / PAGE).as_uri() + address)
    shoot(browser, name, last)


def shoot_study(browser: Any, folder: Path) -> None:
    """Take a picture of a page of a study, one of its questions answered."""
    systems = "supervised,supervised+ppo,supervised+nlpo_stable,nearest"
    grue(f"tools study make --task commongen --systems {systems} --annotators 1 -o {folder / 'study'} --runs {folder}")
    size(browser, 900, 700)
    browser.get((folder / "study" / "pages" / "annotator-1.html").as_uri())
    browser.execute_script("begin.click(); document.querySelectorAll('input[type=radio]')[3].click()")
    shoot(browser, "study-page.png", "footer", margin=0)


def size(browser: Any, width: int, height: int) -> None:
    """Set the size of the window in pixels."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def shoot(browser: Any, name: str, last: str, margin: int = 8) -> None:
    """Save what is above the end of the element `last` as a PNG with a palette: such a page has few colours."""
    from base64 import b64decode

    from PIL import Image
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 20).until(
        lambda page: page.execute_script("return document.querySelector(arguments[0])", last)
    )
    width, end = browser.execute_script(
        "return [innerWidth, document.querySelector(arguments[0]).getBoundingClientRect().bottom + scrollY]", last
    )
    clip = {"x": 0, "y": 0, "width": width, "height": end + margin, "scale": 1}
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    image = Image.open(BytesIO(b64decode(taken["data"]))).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(IMAGES / name, "png", optimize=True)


if __name__ == "__main__":
    main()
