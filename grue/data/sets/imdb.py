"""IMDB: positive continuations of film reviews.

Source: Maas et al. 2011, "Learning Word Vectors for Sentiment Analysis"; as a task, Ramamurthy et al. 2023.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from grue.data.archives import File, FolderRows, text
from grue.data.rows import Row, numbered, short_hash, text_of
from grue.errors import DataError
from grue.records import Example


def examples(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per review: its first half is the prompt, a positive second half the reference.

    The HTML line breaks of the original files (`<br />`, mostly in pairs) become one space, and the text is split at
    spaces; the prompt is the first half of these words, rounded down. The reference is the row's
    `positive_continuation` if it has one, else the second half of a positive review; a negative review has none. An id
    is the hash of the row's text, numbered if the text is repeated.
    """
    times: dict[int, int] = {}
    for number, row in enumerate(rows, start=1):
        where = f"imdb, row {number}"
        if "text" not in row or row.get("label") not in (0, 1):
            label = f", label {row['label']!r}" if "label" in row else ""
            raise DataError(
                f"{where}: expected the columns text and label (0 or 1), found {', '.join(row)}{label}. "
                "Is this a labelled split of the right data set?"
            )
        review = text_of(row["text"], "text", where)
        first, second = halves(review)
        if not first:
            raise DataError(f"{where}: {review!r} has fewer than two words and cannot be halved.")
        continuation = text_of(row.get("positive_continuation") or "", "positive_continuation", where)
        yield Example(
            id=numbered(f"imdb-{short_hash(review)}", times),
            prompt=first,
            references=(continuation,) if continuation else (second,) if row["label"] == 1 else (),
            meta={"label": int(row["label"])},
        )


def halves(review: str) -> tuple[str, str]:
    """Return the first and the second half of a review, by words; of an odd number the second has one more."""
    words = words_of(review)
    half = len(words) // 2
    return " ".join(words[:half]), " ".join(words[half:])


def words_of(review: str) -> list[str]:
    """Return the words of a review, split at spaces; HTML line breaks are spaces."""
    return list(filter(None, re.sub(r"(?:\s*<br\s*/?>\s*)+", " ", review).split(" ")))


def read_folder(folder: Path, split: str) -> FolderRows:
    """Return the rows of `<split>/{neg,pos}/<id>_<rating>.txt`, as aclImdb unpacks, in the order of the ids."""
    root = next((parent for parent in (folder, folder / "aclImdb") if (parent / split).is_dir()), None)
    if root is None:
        raise DataError(f"{folder}: no folder {split!r} with pos and neg in it, nor in aclImdb below it.")
    reviews = [
        (File(path), label)
        for label, name in enumerate(("neg", "pos"))
        for path in sorted((root / split / name).glob("*.txt"), key=_review_order)
    ]
    if not reviews:
        raise DataError(f"{root / split}: no reviews (*.txt) under pos and neg.")
    files = tuple(file for file, _ in reviews)
    return FolderRows(files, lambda: ({"text": text(file), "label": label} for file, label in reviews))


def _review_order(path: Path) -> tuple[int, str]:
    identifier = path.stem.split("_")[0]
    return len(identifier), identifier  # numeric order without parsing: a file may have any name
