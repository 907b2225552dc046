"""Every relative link of the Markdown pages leads to a file, and every #anchor to a heading of it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")])
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings: lower case, blanks as hyphens, no other punctuation."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def problems(page: Path) -> list[str]:
    found = []
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            found.append(f"{link}: no such file")
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
            found.append(f"{link}: no such heading")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert problems(page) == []


def test_a_broken_link_is_noticed(tmp_path):
    (tmp_path / "other.md").write_text("# A `code` heading, twice?\n```\n# no heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](other.md) [b](other.md#a-code-heading-twice) [c](#here) [d](https://example.org)\n"
        "[e](gone.md) [f](other.md#no-heading)\n[g](#there)\n```\n[h](gone.md)\n```\n"
    )
    assert problems(page) == [
        "gone.md: no such file",
        "other.md#no-heading: no such heading",
        "#there: no such heading",
    ]


def test_the_index_lists_every_page():
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link).resolve() for link in LINK.findall(index.read_text(encoding="utf-8"))}
    pages = {*ROOT.glob("docs/*/*.md"), *ROOT.glob("docs/*/*.ipynb")}
    assert listed == pages | {ROOT / "docs" / "architecture.md"}


def test_the_page_of_algorithms_links_to_each():
    page = ROOT / "docs" / "reference" / "algorithms.md"
    listed = {(page.parent / link).resolve() for link in LINK.findall(page.read_text(encoding="utf-8"))}
    assert listed >= set(ROOT.glob("docs/reference/algorithms/*.md"))
    assert set(ROOT.glob("docs/*/*/*.md")) == set(ROOT.glob("docs/reference/algorithms/*.md"))


def test_pages_that_the_code_names_are_there():
    folders = ("grue", "benchmarks", "experiments", "tools", "tasks", "leaderboard", "submissions")
    files = [path for folder in folders for end in ("py", "toml", "md") for path in ROOT.glob(f"{folder}/**/*.{end}")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in [*files, *ROOT.glob("*.md"), ROOT / "Makefile"])
    named = set(re.findall(r"\bdocs/[\w/-]+\.md\b", text))
    assert named and {name for name in named if not (ROOT / name).is_file()} == set()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_files_that_a_page_names_are_there(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    named = set(re.findall(r"`((?:grue|tests|benchmarks|experiments|tools|tasks)/[\w/.-]+?)/?`", text))
    assert {name for name in named if not (ROOT / name).exists()} == set()
