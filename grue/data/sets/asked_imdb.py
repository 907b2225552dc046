"""IMDB with the sentiment asked for: continuations of film reviews that are to end positive, or negative."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from grue.data.archives import FolderRows
from grue.data.rows import Row, numbered, short_hash, text_of, with_columns
from grue.data.sets.imdb import halves
from grue.errors import DataError
from grue.records import Example

WORDS = ("Negative", "Positive")


def examples(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per review: "Positive: " or "Negative: " and its first half; the reference ends as asked.

    `meta` is what the metric `asked_sentiment` reads: "asked" (1 for positive) and "text", the first half alone. A
    constant continuation pleases half of the prompts.
    """
    times: dict[int, int] = {}
    columns = ("text", "asked", "positive_continuation", "negative_continuation")
    for where, row in with_columns(rows, "asked_imdb", *columns):
        review, asked = text_of(row["text"], "text", where), row["asked"]
        first, _ = halves(review)
        if asked not in (0, 1) or not first:
            expected = "expected asked 0 or 1 and a text of two words or more"
            raise DataError(f"{where}: {expected}, found {asked!r}, {review!r}.")
        asked = int(asked)
        yield Example(
            id=numbered(f"asked_imdb-{short_hash(review)}", times),
            prompt=f"{WORDS[asked]}: {first}",
            references=(text_of(row[f"{WORDS[asked].lower()}_continuation"], "continuation", where),),
            meta={"asked": asked, "text": first},
        )


def read_folder(folder: Path, split: str) -> FolderRows:
    """Refuse a folder: IMDB's own files have no continuations that end as asked."""
    raise DataError(
        f"{folder}: asked_imdb has no original layout, since IMDB's reviews end one way each; leave --data-dir out."
    )
