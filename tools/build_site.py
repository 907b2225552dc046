"""Build the documentation site from the pages of the repository: `python tools/build_site.py`, or `make site`.

The pages are laid out under `.site/pages` as they lie in the repository, so that a relative link which works on GitHub
works there too. What a page links to comes along: other pages as they are, code, task files and notebooks as pages that
show them. The table of contents is docs/README.md. Zensical makes HTML of it in `site/`, and fails on a link or an
anchor that leads nowhere; then every page is searched for what a browser would fetch from elsewhere.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import tomli_w

ROOT = Path(__file__).parent.parent
INDEX = Path("docs/README.md")
HOME = Path("README.md")
BOARDS = Path("leaderboard")

BLOCK = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"(\]\()([^()\s]+)(\))")
SECTION = re.compile(r"^## (.+)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
ENTRY = re.compile(r"\[([^\]]+)\]\(([^()\s#]+\.(?:md|ipynb))\)")
OBJECT = re.compile(r"^<!-- api: ([\w.]+) -->$", re.MULTILINE)
ELSEWHERE = re.compile(r"(?:https?:)?//\S+", re.IGNORECASE)
STYLED = re.compile(r"""(?:@import\s+(?:url\()?|url\()["']?((?:https?:)?//[^"'\s)]+)""", re.IGNORECASE)
FETCHING = ("script", "img", "iframe", "source", "video", "audio", "embed")
NAMED = ("canonical", "next", "prev")
"""Kinds of links in a page's head that a browser does not fetch."""
LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml", ".sh": "bash", ".json": "json", "": "text"}
"""Ending → the language that a file is shown in; a file of another ending is there to be fetched."""


@dataclass
class Staging:
    """The pages on their way to the site.

    Attributes:
        source: The repository.
        target: The folder that the pages are laid out in.
        staged: What is there, by its path in the repository.
    """

    source: Path
    target: Path
    staged: set[Path] = field(default_factory=set)

    def add(self, path: Path) -> None:
        """Lay out a file of the repository, and what it links to."""
        if path in self.staged:
            return
        self.staged.add(path)
        content = (self.source / path).read_bytes()
        if path.suffix == ".md":
            content = self.page(path, content.decode()).encode()
        elif path.suffix == ".ipynb":
            content = self.page(path, self.notebook(path)).encode()
        elif path.suffix in LANGUAGES:
            content = listing(path, content.decode()).encode()
        self.put(shown_as(path), content)

    def put(self, path: Path, content: bytes) -> None:
        """Write a file of the site's source."""
        (self.target / path).parent.mkdir(parents=True, exist_ok=True)
        (self.target / path).write_bytes(content)

    def page(self, path: Path, text: str) -> str:
        """Return a page with its links as the site has them, and its marks replaced by what docstrings say."""

        def linked(prose: str) -> str:
            return OBJECT.sub(r"::: \1", LINK.sub(lambda link: self.link(path, link), prose))

        return outside_code(text, linked)

    def link(self, page: Path, link: re.Match[str]) -> str:
        """Return a link of a page to what the site has in its place."""
        begin, address, end = link.groups()
        to, hash_sign, anchor = address.partition("#")
        if not to or re.match(r"\w+:", to):
            return link[0]
        found = (self.source / page).parent.joinpath(to).resolve()
        target = found.relative_to(self.source.resolve()) if found.is_relative_to(self.source.resolve()) else None
        if target is not None and found.is_dir():
            target = target / "README.md"
        if target is None or not (self.source / target).is_file():
            return link[0]  # the builder names it, with its line
        if target.parent == BOARDS and (self.source / target).with_suffix(".html").is_file():
            return f"{begin}{to.removesuffix('.md')}.html{end}"  # a board's page says more than its Markdown
        self.add(target)
        shown = Path(os.path.relpath(shown_as(target), page.parent)).as_posix()
        return f"{begin}{shown}{hash_sign}{anchor}{end}"

    def notebook(self, path: Path) -> str:
        """Return a notebook as a page; its pictures are put beside it."""
        cells = json.loads((self.source / path).read_text(encoding="utf-8"))["cells"]
        parts = []
        for number, cell in enumerate(cells):
            text = "".join(cell["source"])
            parts.append(text if cell["cell_type"] == "markdown" else fenced(text, "python"))
            for output in cell.get("outputs", ()):
                parts += self.output(path, number, output)
        return "\n\n".join(parts) + "\n"

    def output(self, path: Path, number: int, output: dict[str, Any]) -> Iterator[str]:
        """Yield what a cell of a notebook wrote."""
        data = output.get("data", {})
        if "image/svg+xml" in data:
            picture = path.with_name(f"{path.stem}-{number}.svg")
            self.put(picture, "".join(data["image/svg+xml"]).encode())
            yield f"![What the cell drew]({picture.name})"
        elif text := "".join(output.get("text", data.get("text/plain", ""))):
            yield fenced(text.rstrip("\n"), "text")


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply a change to a page's prose, not to its code."""
    return "".join(
        part if inside else "".join(piece if code else change(piece) for piece, code in split(part, SPAN))
        for part, inside in split(text, BLOCK)
    )


def split(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text and whether each matches."""
    at = 0
    for found in pattern.finditer(text):
        yield text[at : found.start()], False
        yield found[0], True
        at = found.end()
    yield text[at:], False


def shown_as(path: Path) -> Path:
    """Return the page that shows a file: `ppo.py.md` shows `ppo.py`; hidden folders are left out of a site."""
    seen = Path(*(part.lstrip(".") for part in path.parts))
    return seen.with_name(f"{seen.name}.md") if path.suffix in {".ipynb", *LANGUAGES} else seen


def listing(path: Path, text: str) -> str:
    """Return a page that shows a file."""
    return f"# `{path.as_posix()}`\n\n{fenced(text.rstrip(), LANGUAGES[path.suffix])}\n"


def fenced(text: str, language: str) -> str:
    """Return a text as a block of code that nothing in it can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def contents(index: str, folder: Path, source: Path) -> list[dict[str, Any]]:
    """Return the table of contents: the sections of docs/README.md with their pages.

    Pages in a folder that is named as a page are its parts: `algorithms/ppo.md` belongs to `algorithms.md`.
    """
    nav: list[dict[str, Any]] = [{"GRUE": HOME.as_posix()}]
    for section in SECTION.finditer(index):
        entries: list[dict[str, Any]] = []
        for title, link in ENTRY.findall(section[2]):
            page = folder / link
            name = " ".join(title.split())
            parts = sorted(part.relative_to(source) for part in (source / page).with_suffix("").glob("*.md"))
            shown = shown_as(page).as_posix()
            within = [shown, *(part.as_posix() for part in parts)] if parts else shown
            entries.append({name[0].upper() + name[1:]: within})
        nav.append({section[1].strip(): entries})
    boards = [{path.stem: path.as_posix()} for path in boards_of(source)]
    return [*nav, {"Board": boards}] if boards else nav


def boards_of(source: Path) -> list[Path]:
    """Return the boards' pages, mini first."""
    found = (path.relative_to(source) for path in (source / BOARDS).glob("*.html"))
    return sorted(found, key=lambda path: (path.stem != "mini", path))


def stage(source: Path, target: Path) -> Staging:
    """Lay out every page of docs/, the README, what they link to, and the boards."""
    if target.exists():
        shutil.rmtree(target)
    staging = Staging(source, target)
    for path in (HOME, *sorted(path.relative_to(source) for path in (source / "docs").rglob("*.md"))):
        staging.add(path)
    for board in boards_of(source):
        staging.put(board, as_on_the_site((source / board).read_text(encoding="utf-8")).encode())
    if (source / BOARDS / "examples").is_dir():
        shutil.copytree(source / BOARDS / "examples", target / BOARDS / "examples")
    for name in ("site.css", "site.js"):
        shutil.copy(source / "tools" / name, target / name)
    return staging


def as_on_the_site(board: str) -> str:
    """Return a board's page with links to pages of the site in place of Markdown files."""
    index = re.sub(r'(href="\.\./(?:[\w/-]*/)?)README\.md', r"\1index.html", board)
    return re.sub(r'(href="\.\./[\w/-]*)\.md', r"\1.html", index)


class Addresses(HTMLParser):
    """What the tags and styles of a page point to; its text may quote anything.

    Attributes:
        found: The addresses of links and pictures.
        fetched: The addresses on other hosts that a browser fetches by itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.fetched: list[str] = []
        self.is_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what the tag points to."""
        values = [(name, value.strip()) for name, value in attrs if value]
        self.found += [value for name, value in values if name in ("href", "src")]
        self.is_style = tag == "style"
        fetching: tuple[str, ...] = ("src", "srcset") if tag in FETCHING else ()
        if tag == "link" and dict(values).get("rel") not in NAMED:
            fetching = ("href",)
        self.fetched += [found[0] for name, value in values if name in fetching and (found := ELSEWHERE.match(value))]
        self.fetched += [address for name, value in values if name == "style" for address in STYLED.findall(value)]

    def handle_endtag(self, tag: str) -> None:
        """Leave a style."""
        self.is_style = False

    def handle_data(self, data: str) -> None:
        """Keep what a style points to."""
        self.fetched += STYLED.findall(data) if self.is_style else []


def addresses_of(page: Path) -> Addresses:
    """Return what a page points to."""
    addresses = Addresses()
    addresses.feed(page.read_text(encoding="utf-8"))
    return addresses


def fetched_from_elsewhere(site: Path) -> list[str]:
    """Return what pages and styles would have a browser fetch from other hosts."""
    fetched = {path: addresses_of(path).fetched for path in site.rglob("*.html")}
    fetched |= {path: STYLED.findall(path.read_text(encoding="utf-8")) for path in site.rglob("*.css")}
    return [f"{path.relative_to(site)}: {address}" for path in sorted(fetched) for address in fetched[path]]


def dangling(site: Path) -> list[str]:
    """Return the links and pictures of pages that lead to no file of the site; the builder looks at Markdown alone."""
    lost = []
    for page in sorted(site.rglob("*.html")):
        for address in dict.fromkeys(addresses_of(page).found):
            path = unquote(urlsplit(address).path)
            here = not urlsplit(address).scheme and not urlsplit(address).netloc and path
            if here and page.name != "404.html" and not (page.parent / path).exists():
                lost.append(f"{page.relative_to(site)}: {address}")
    return lost


def main() -> None:
    """Stage, build and check."""
    work = ROOT / ".site"
    stage(ROOT, work / "pages")
    settings = tomllib.loads((ROOT / "tools/site.toml").read_text(encoding="utf-8"))
    settings["project"]["nav"] = contents((ROOT / INDEX).read_text(encoding="utf-8"), INDEX.parent, ROOT)
    (work / "zensical.toml").write_text(tomli_w.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", "zensical.toml"]
    if status := subprocess.run(command, cwd=work).returncode:
        sys.exit(status)
    if (ROOT / "site").exists():
        shutil.rmtree(ROOT / "site")
    (work / "site").rename(ROOT / "site")
    if found := fetched_from_elsewhere(ROOT / "site"):
        sys.exit("A page must not fetch from another host:\n" + "\n".join(found))
    if lost := dangling(ROOT / "site"):
        sys.exit("Links that lead nowhere:\n" + "\n".join(lost))


if __name__ == "__main__":
    main()
