"""The entries of `docs/reference/papers.toml`: papers, and the commands that run them here."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from page import anchor

from grue.shapes import from_dict

SOURCE = Path(__file__).parent.parent / "docs" / "reference" / "papers.toml"


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper.

    Attributes:
        authors: Family names.
        others: Whether there are more authors than these.
        where: "arXiv 1707.06347", or where else it appeared.
        link: To it; empty for an arXiv number, which has one.
        text: What it proposes, and how ours differs.
        commands: Each runs it here.
        algorithm: Whose method this is; empty for a paper about a setting or about decoding.
    """

    title: str
    authors: str
    year: int
    where: str
    text: str
    commands: tuple[str, ...]
    others: bool = False
    link: str = ""
    algorithm: str = ""

    @property
    def short(self) -> str:
        """How a text names it: "Schulman et al. 2017"."""
        names = self.authors.split(", ")
        return (
            f"{names[0]}{'' if len(names) == 1 else f' and {names[1]}' if len(names) == 2 else ' et al.'} {self.year}"
        )

    @property
    def anchor(self) -> str:
        """Of its entry on the page."""
        return anchor(self.title)


@dataclass(frozen=True, slots=True)
class Part:
    """Papers about one thing."""

    title: str
    papers: tuple[Paper, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """All entries."""

    parts: tuple[Part, ...]


def read_papers(source: Path = SOURCE) -> tuple[Part, ...]:
    """Return the entries by part.

    Raises:
        ConfigError: The file has another shape.
    """
    return from_dict(Index, tomllib.loads(source.read_text(encoding="utf-8")), str(source)).parts
