"""tools/build_site.py: pages keep their links on the site, and what a site must not have is noticed."""

import re
from pathlib import Path

import build_site
import pytest
from support.browser import chromium
from support.paths import ROOT


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a page of each kind."""
    for name, text in {
        "README.md": "# Home\n[docs](docs/README.md#start) [board](leaderboard/mini.md) [gone](docs/gone.md)\n",
        "docs/README.md": "# Docs\n## Start\n- [A page](how/page.md): x; [what it\n  says](how/other.md).\n"
        "## Reference\n- [Parts](parts.md): y.\n- [A notebook](how/first.ipynb): z.\n",
        "docs/how/page.md": "[code](../../lib/code.py#L3) [flow](../../.hidden/flow.yml) ![p](../p.png) [lib](../../lib)\n"
        "`[span](../../lib/code.py)` [out](https://example.org/x.py) [up](../../../secret.txt)\n"
        "```\n[block](../../lib/code.py)\n<!-- api: not.this -->\n```\n",
        "docs/how/other.md": "Functions:\n\n<!-- api: lib.code -->\n\n[a](../a.gz)\n",
        "docs/a.gz": "packed",
        "docs/parts.md": "[one](parts/one.md)\n",
        "docs/parts/one.md": "# One\n",
        "docs/p.png": "png",
        "docs/how/first.ipynb": '{"cells": [{"cell_type": "markdown", "source": ["[p](page.md)"]},'
        ' {"cell_type": "code", "source": ["print(1)"], "outputs": [{"text": ["1\\n", "```\\n"]},'
        ' {"data": {"image/svg+xml": ["<svg/>"], "text/plain": ["<SVG>"]}}]}]}',
        "lib/code.py": "A = '''\n```\n'''\n",
        "lib/README.md": "# Library\n",
        ".hidden/flow.yml": "on: push\n",
        "leaderboard/mini.md": "# Mini\n",
        "leaderboard/mini.html": '<a href="../README.md"></a><a href="../docs/how/page.md"></a><a href="grue.html"></a>',
        "leaderboard/grue.html": "",
        **dict.fromkeys(("tools/site.css", "tools/site.js"), ""),
    }.items():
        path = tmp_path / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "secret.txt").write_text("nobody's business")
    return tmp_path / "repository"


def test_links_lead_to_what_the_site_has(repository: Path) -> None:
    staged = repository.parent / "pages"
    build_site.stage(repository, staged)
    home, page = ((staged / name).read_text() for name in ("README.md", "docs/how/page.md"))
    assert home == "# Home\n[docs](docs/README.md#start) [board](leaderboard/mini.html) [gone](docs/gone.md)\n"
    assert page == (
        "[code](../../lib/code.py.md#L3) [flow](../../hidden/flow.yml.md) ![p](../p.png) [lib](../../lib/README.md)\n"
        "`[span](../../lib/code.py)` [out](https://example.org/x.py) [up](../../../secret.txt)\n"
        "```\n[block](../../lib/code.py)\n<!-- api: not.this -->\n```\n"
    )
    assert (staged / "docs/how/other.md").read_text() == "Functions:\n\n::: lib.code\n\n[a](../a.gz)\n"
    assert (staged / "docs/a.gz").read_text() == "packed"
    assert (staged / "lib/code.py.md").read_text() == "# `lib/code.py`\n\n````python\nA = '''\n```\n'''\n````\n"
    assert (staged / "hidden/flow.yml.md").exists() and (staged / "lib/README.md").exists()
    assert not list(staged.rglob("secret*"))
    assert (staged / "docs/how/first.ipynb.md").read_text() == (
        "[p](page.md)\n\n```python\nprint(1)\n```\n\n````text\n1\n```\n````\n\n![What the cell drew](first-1.svg)\n"
    )
    assert (staged / "docs/how/first-1.svg").read_text() == "<svg/>"
    assert (staged / "leaderboard/mini.html").read_text() == (
        '<a href="../index.html"></a><a href="../docs/how/page.html"></a><a href="grue.html"></a>'
    )


def test_the_index_is_the_table_of_contents(repository: Path) -> None:
    index = (repository / "docs/README.md").read_text()
    assert build_site.contents(index, Path("docs"), repository) == [
        {"GRUE": "README.md"},
        {"Start": [{"A page": "docs/how/page.md"}, {"What it says": "docs/how/other.md"}]},
        {
            "Reference": [
                {"Parts": ["docs/parts.md", "docs/parts/one.md"]},
                {"A notebook": "docs/how/first.ipynb.md"},
            ]
        },
        {"Board": [{"mini": "leaderboard/mini.html"}, {"grue": "leaderboard/grue.html"}]},
    ]


def test_what_a_browser_would_fetch_from_elsewhere_is_noticed(tmp_path: Path) -> None:
    for page, found in {
        '<script src="https://cdn.example/x.js"></script>': "https://cdn.example/x.js",
        "<script defer src=//cdn.example/x.js></script>": "//cdn.example/x.js",
        '<link rel="stylesheet" href="https://fonts.example/css">': "https://fonts.example/css",
        '<link href="https://fonts.example" rel="preconnect">': "https://fonts.example",
        '<img alt="x" src="http://badge.example/b.svg">': "http://badge.example/b.svg",
        "<style>@import 'https://fonts.example/css';</style>": "https://fonts.example/css",
        "<style>a{background:url(https://img.example/x.png)}</style>": "https://img.example/x.png",
        '<p style="background:url(//img.example/x.png)">': "//img.example/x.png",
        '<a href="https://example.org">a link</a><img src="here.png"><link rel="canonical" href="https://me.example">': "",
        "<style>a{}</style><td>as url(https://example.org) and @import '//x' say in a submission": "",
    }.items():
        (tmp_path / "page.html").write_text(page)
        assert build_site.fetched_from_elsewhere(tmp_path) == ([f"page.html: {found}"] if found else [])


def test_a_link_without_a_target_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a b.html").write_text("")
    (tmp_path / "index.html").write_text(
        '<a href="docs/a%20b.html?x=1#top"></a><a href="https://example.org/no.html"></a><a href="#here"></a>'
        '<a href="data:text/plain,x"></a><a href="gone.html"></a><img src="docs/gone.png"><a href="mailto:a@b"></a>'
    )
    assert build_site.dangling(tmp_path) == ["index.html: gone.html", "index.html: docs/gone.png"]


def test_every_name_of_the_api_has_its_docstring_on_the_site() -> None:
    import grue

    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^<!-- api: grue\.(\w+) -->$", page, re.MULTILINE))
    assert set(grue.__all__) <= named


@pytest.mark.slow
def test_the_site_is_built_and_shows_docstrings_and_results_of_notebooks() -> None:
    pytest.importorskip("zensical", reason="make site installs it")
    build_site.main()
    site = ROOT / "site"
    python = (site / "docs/reference/python.html").read_text(encoding="utf-8")
    assert "the same call resumes an interrupted run" in python and "&lt;!-- api" not in python
    assert 'href="./leaderboard/mini.html"' in (site / "index.html").read_text(encoding="utf-8")
    assert "<pre>" in (site / "docs/notebooks/first-run.ipynb.html").read_text(encoding="utf-8")
    assert (site / "search.json").stat().st_size > 100_000


@pytest.mark.slow
def test_what_the_theme_adds_can_be_reached_by_keys_and_is_no_landmark(tmp_path: Path) -> None:
    """Its shapes, some of which come after the page: a table that scrolls, a code's buttons, parts of the contents."""
    (tmp_path / "page.html").write_text(
        '<body><nav class="md-nav md-nav--secondary" aria-label="Contents"><nav class="md-nav" aria-label="Errors"></nav>'
        '</nav><main></main><script src="site.js"></script></body>'
    )
    (tmp_path / "site.js").write_text((ROOT / "tools" / "site.js").read_text(encoding="utf-8"))
    late = (
        '<div class="md-typeset__scrollwrap"><table><tr><th></th><th>a</th></tr></table></div>'
        '<nav class="md-code__nav"><button>Copy</button></nav>'
    )
    with chromium(tmp_path) as browser:
        browser.get((tmp_path / "page.html").as_uri())
        browser.execute_script("document.querySelector('main').innerHTML = arguments[0]", late)
        assert browser.execute_script(
            "const role = (query) => document.querySelector(query).getAttribute('role');"
            "return [document.querySelector('.md-typeset__scrollwrap').tabIndex, document.querySelectorAll('th').length,"
            " document.querySelectorAll('td').length, role('.md-code__nav'), role('.md-nav .md-nav'), role('.md-nav')]"
        ) == [0, 1, 1, "none", "none", None]
