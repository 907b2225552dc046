"""Write the entries of `docs/reference/papers.md` from `papers.toml`: `python tools/papers_page.py [--check]`.

Only the part between the two marks is written; `--check` writes nothing and fails if the page is stale.
"""

from page import write_or_check
from papers import SOURCE, Paper, read_papers

BEGIN = "<!-- written by tools/papers_page.py from docs/reference/papers.toml -->"


def listing() -> str:
    """Return all entries."""
    return "\n\n".join(
        f"## {part.title}\n\n" + "\n\n".join(entry(paper) for paper in part.papers) for part in read_papers()
    )


def entry(paper: Paper) -> str:
    """Return a paper, what it proposes, and how to run it."""
    link = paper.link or f"https://arxiv.org/abs/{paper.where.split()[-1]}"
    page = f" Page: [{paper.algorithm}](algorithms/{paper.algorithm}.md)." if paper.algorithm else ""
    commands = "\n".join(paper.commands)
    return (
        f"### {paper.title}\n\n{paper.short}, [{paper.where}]({link}). "
        f"{' '.join(paper.text.split())}{page}\n\n```\n{commands}\n```"
    )


if __name__ == "__main__":
    write_or_check(SOURCE.with_suffix(".md"), BEGIN, listing())
