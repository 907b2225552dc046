"""How the rows of a data set become examples: one registered function per data set.

A format sees all rows of a split at once, since some data sets spread one example over several rows.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from grue.errors import DataError
from grue.files import sha256_text
from grue.records import Example
from grue.registry import Registry

Row = Mapping[str, Any]
Format = Callable[[Iterable[Row]], Iterator[Example]]

FORMATS: Registry[Format] = Registry("data format", entry_points="grue.formats")


def short_hash(text: str) -> str:
    """Return the first 16 hex digits of the text's sha256."""
    return sha256_text(text)[:16]


@FORMATS.register("commongen")
def commongen(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per concept set, with all its references.

    Three layouts are read: the mini world's (`concepts`, `targets`), the hub's (one row per reference: `concepts`,
    `target`) and the original files' (`concept_set` "field_N#look_V#stand_V", `scene`). Rows with the same concepts in
    whatever order are one example, because a system could not tell them apart; their references are joined, in the
    order of the rows, and its prompt takes the concepts in the order of its first row.

    Source: Lin et al. 2020, "CommonGen: A Constrained Text Generation Challenge for Generative Commonsense Reasoning".

    Raises:
        DataError: A row in none of the three layouts; names the row.
    """
    prompts: dict[tuple[str, ...], tuple[str, ...]] = {}
    references: dict[tuple[str, ...], list[str]] = {}
    for number, row in enumerate(rows, start=1):
        concepts, targets = _concepts_and_targets(row, number)
        key = tuple(sorted(concepts))
        prompts.setdefault(key, concepts)
        references.setdefault(key, []).extend(target for target in targets if target)
    for key, concepts in prompts.items():
        yield Example(
            id=f"commongen-{short_hash(' '.join(key))}",
            prompt=f"generate a sentence with: {' '.join(concepts)}.",
            references=tuple(references[key]),
            meta={"concepts": list(concepts)},
        )


def _concepts_and_targets(row: Row, number: int) -> tuple[tuple[str, ...], Sequence[str]]:
    if "concept_set" in row:
        marked = str(row["concept_set"]).split("#")
        return tuple(re.sub("_[NV]$", "", concept) for concept in marked), row.get("scene", ())
    if "concepts" in row and ("targets" in row or "target" in row):
        return tuple(row["concepts"]), row["targets"] if "targets" in row else (row["target"],)
    raise DataError(
        f"commongen, row {number}: expected the columns concepts and target (or targets), or concept_set and scene; "
        f"found {', '.join(row)}. Is this the right data set?"
    )


@FORMATS.register("imdb")
def imdb(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per review: its first half is the prompt, a positive second half the reference.

    The HTML line breaks of the original files (`<br />`, mostly in pairs) become one space, and the text is split at
    its spaces; the prompt is the first half of these words, rounded down. The reference is the row's
    `positive_continuation` where there is one, else the second half of a positive review; a negative review has none.
    An id is the hash of the row's text; a text that comes again gets a number.

    Source: Maas et al. 2011, "Learning Word Vectors for Sentiment Analysis"; as a task, Ramamurthy et al. 2023.

    Raises:
        DataError: A row without text and label, or a text of fewer than two words; names the row.
    """
    seen: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        if "text" not in row or row.get("label") not in (0, 1):
            label = f", label {row['label']!r}" if "label" in row else ""
            raise DataError(
                f"imdb, row {number}: expected the columns text and label (0 or 1), found {', '.join(row)}{label}. "
                "Is this a labelled split of the right data set?"
            )
        first, second = split_review(row["text"])
        if not first:
            raise DataError(f"imdb, row {number}: {row['text']!r} has fewer than two words and cannot be halved.")
        seen[row["text"]] = seen.get(row["text"], 0) + 1
        again = seen[row["text"]]
        given = row.get("positive_continuation")
        yield Example(
            id=f"imdb-{short_hash(row['text'])}{f'-{again}' if again > 1 else ''}",
            prompt=first,
            references=(given,) if given else (second,) if row["label"] == 1 else (),
            meta={"label": int(row["label"])},
        )


def split_review(text: str) -> tuple[str, str]:
    """Return the first and the second half of a review, by words; the second has the odd one."""
    words = re.sub(r"(?:\s*<br\s*/?>\s*)+", " ", text).strip(" ").split(" ")
    words = [word for word in words if word]
    half = len(words) // 2
    return " ".join(words[:half]), " ".join(words[half:])
