"""CommonGen: a sentence that uses all of a few concepts.

Source: Lin et al. 2020, "CommonGen: A Constrained Text Generation Challenge for Generative Commonsense Reasoning".
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from grue import files
from grue.data.archives import File, FolderRows, lines
from grue.data.rows import Row, short_hash, text_of, texts_of
from grue.errors import DataError
from grue.records import Example


def examples(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per concept set, with all its references.

    Three layouts are read: the mini suite's (`concepts`, `targets`), the hub's (one row per reference: `concepts`,
    `target`) and the original files' (`concept_set` "field_N#look_V#stand_V", `scene`). Rows with the same concepts in
    any order are one example, because a system could not tell them apart: their references are joined in the order of
    the rows, and the prompt has the concepts in the order of the first row.
    """
    found: dict[str, tuple[tuple[str, ...], list[str]]] = {}
    for number, row in enumerate(rows, start=1):
        concepts, targets = _concepts_and_targets(row, f"commongen, row {number}")
        key = " ".join(sorted(" ".join(concepts).split()))
        if not key:
            raise DataError(f"commongen, row {number}: there are no concepts.")
        found.setdefault(key, (concepts, []))[1].extend(filter(None, targets))
    for key, (concepts, references) in found.items():
        yield Example(
            id=f"commongen-{short_hash(key)}",
            prompt=f"generate a sentence with: {' '.join(concepts)}.",
            references=tuple(references),
            meta={"concepts": list(concepts)},
        )


def _concepts_and_targets(row: Row, where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if "concept_set" in row:
        marked = text_of(row["concept_set"], "concept_set", where).split("#")
        scenes = texts_of(row.get("scene", ()), "scene", where)
        return tuple(re.sub("_[NV]$", "", concept) for concept in marked), scenes
    if "concepts" in row and ("targets" in row or "target" in row):
        targets = row["targets"] if "targets" in row else (row["target"],)
        return texts_of(row["concepts"], "concepts", where), texts_of(targets, "targets", where)
    raise DataError(
        f"{where}: expected the columns concepts and target (or targets), or concept_set and scene; "
        f"found {', '.join(row)}. Is this the right data set?"
    )


def read_folder(folder: Path, split: str) -> FolderRows:
    """Return the rows of `commongen.<split>.jsonl`, or of its `src_alpha` and `tgt` text files, line by line.

    Files are looked for in the folder and one level below; of several with the split, the largest is read.
    """
    short = {"validation": "dev"}.get(split, split)
    names = (f"commongen.{short}.jsonl", f"commongen.{short}*.src_alpha.txt")
    matching = [path for name in names for pattern in (name, f"*/{name}") for path in folder.glob(pattern)]
    if not matching:
        raise DataError(f"{folder}: no {names[0]} and no {names[1]} in it or in a folder below it.")
    best = max(sorted(matching), key=lambda path: path.stat().st_size)
    if best.suffix == ".jsonl":
        return FolderRows((File(best),), lambda: (row for _, row in files.read_jsonl(best)))
    pair = (File(best), File(Path(str(best).replace(".src_alpha.txt", ".tgt.txt"))))
    return FolderRows(pair, lambda: _pairs(*pair))


def _pairs(source: File, target: File) -> Iterator[Row]:
    concepts, sentences = list(lines(source)), list(lines(target))
    if len(concepts) != len(sentences):
        raise DataError(f"{target}: {len(sentences)} lines, but {source.name} has {len(concepts)}.")
    for words, sentence in zip(concepts, sentences, strict=True):
        yield {"concepts": words.split(), "target": sentence}
