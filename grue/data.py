"""Examples: `load_examples(task, split)` from the hub, a folder in a data set's original layout, or the mini world.

Whatever the source, rows become examples through the task's format, and counts and the hash of the ids are checked
against the task file before anything is returned.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import DataError
from grue.formats import FORMATS
from grue.mini import draw
from grue.records import Example
from grue.registry import Registry
from grue.tasks import Source, Split, Task

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The examples of a split, and where they came from.

    Attributes:
        source: "mini", the hub's data set id, or the folder.
        checked: Whether count and ids were compared with the task file; a folder in the original layout may hold a
            part of the data set, and is not.
    """

    examples: tuple[Example, ...]
    source: str
    revision: str
    rows: int
    ids_sha256: str
    checked: bool

    def provenance(self) -> dict[str, Any]:
        """Return what a result says of its data."""
        return {
            "source": self.source,
            "revision": self.revision,
            "rows": self.rows,
            "examples": len(self.examples),
            "ids_sha256": self.ids_sha256,
            "checked": self.checked,
        }


def load_examples(task: Task, split: str, data_dir: Path | None = None, offline: bool = False) -> Loaded:
    """Load one split of a task.

    Args:
        data_dir: A folder in the data set's original layout, read instead of the task's sources.
        offline: Use only what is on this machine: the mini world, or the hub's cache.

    Raises:
        DataError: No source can be read, or one is not what the task file says.
    """
    if split not in task.data.splits:
        raise DataError(f"{task.suite}/{task.name} has no split {split!r}; it has {', '.join(task.data.splits)}.")
    wanted = task.data.splits[split]
    if data_dir is not None:
        rows = list(read_folder(task.data.format, data_dir, wanted.source))
        return _examples(task, wanted, rows, str(data_dir), "", checked=False)
    problems = []
    for source in task.data.sources:
        try:
            rows = list(_read_source(source, wanted, offline))
        except DataError as error:
            problems.append(f"  {source.kind} {source.name}: {error}")
            continue
        return _examples(task, wanted, rows, _source_name(source), source.revision, checked=True)
    raise DataError(
        f"{task.suite}/{task.name}, split {split!r}: no source could be read:\n" + "\n".join(problems) + "\n"
        "Connect to the network, or give the data's folder with --data-dir."
    )


def _source_name(source: Source) -> str:
    return "mini" if source.kind == "mini" else source.name


def _read_source(source: Source, split: Split, offline: bool) -> Rows:
    if source.kind == "mini":
        return draw.rows(source.name, split.source, source.revision)
    return _read_hub(source, split, offline)


def _examples(
    task: Task, split: Split, rows: Sequence[Mapping[str, Any]], name: str, revision: str, checked: bool
) -> Loaded:
    where = f"{task.suite}/{task.name}, split {split.source!r} of {name}"
    if checked and split.rows and len(rows) != split.rows:
        raise DataError(
            f"{where}: {len(rows)} rows, the task file says {split.rows}. The data set has changed; see its revision."
        )
    examples = tuple(_select(list(FORMATS[task.data.format](rows)), split))
    ids_sha256 = hash_ids(examples)
    if not examples:
        raise DataError(f"{where}: no examples.")
    if checked and split.examples and len(examples) != split.examples:
        raise DataError(
            f"{where}: {len(examples)} examples, the task file says {split.examples}. The data set has changed."
        )
    if checked and split.ids_sha256 and ids_sha256 != split.ids_sha256:
        raise DataError(
            f"{where}: the ids' sha256 is {ids_sha256}, the task file says {split.ids_sha256}. It has changed."
        )
    return Loaded(examples, name, revision, len(rows), ids_sha256, checked)


def _select(examples: list[Example], split: Split) -> list[Example]:
    """Return the share of the examples that the split takes, in their own order."""
    if (split.begin, split.end) == (0.0, 1.0):
        return examples
    order = sorted(examples, key=lambda example: files.sha256_text(example.id))
    first, last = round(split.begin * len(order)), round(split.end * len(order))
    chosen = {example.id for example in order[first:last]}
    return [example for example in examples if example.id in chosen]


def hash_ids(examples: Sequence[Example]) -> str:
    """Return the sha256 of the sorted ids, one a line; the order of a source's rows is no part of a data set."""
    return files.sha256_text("".join(sorted(f"{example.id}\n" for example in examples)))


# --- the hub ---------------------------------------------------------------------------------------------------------


def _read_hub(source: Source, split: Split, offline: bool) -> Rows:
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets

    try:
        table = datasets.load_dataset(
            source.name,
            source.config or None,
            split=split.source,
            revision=source.revision or None,
            data_files={split.source: source.files[split.source]} if source.files else None,
        )
    except Exception as error:  # the library raises many kinds, none of which it documents
        raise DataError(f"cannot be loaded: {type(error).__name__}: {str(error).splitlines()[0]}") from error
    rows: Rows = table.select_columns(list(source.columns)) if source.columns else table
    return rows


# --- folders in the original layout ----------------------------------------------------------------------------------

FOLDERS: Registry[Callable[[Path, str], Rows]] = Registry("data layout")


def read_folder(layout: str, folder: Path, split: str) -> Rows:
    """Yield the rows of a split from a folder in the layout in which a data set was first handed out.

    Raises:
        DataError: The folder is not there, or has no such split.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; --data-dir wants the folder of the original data.")
    return FOLDERS[layout](folder, split)


@FOLDERS.register("commongen")
def read_commongen(folder: Path, split: str) -> Rows:
    """Yield CommonGen's rows: `commongen.<split>.jsonl`, or its `src_alpha` and `tgt` texts, line by line."""
    short = {"validation": "dev"}.get(split, split)
    # The folder itself or one below it; where several files hold the split, the fullest.
    names = (f"commongen.{short}.jsonl", f"commongen.{short}*.src_alpha.txt")
    found = [path for name in names for pattern in (name, f"*/{name}") for path in folder.glob(pattern)]
    if not found:
        raise DataError(f"{folder}: no {names[0]} and no {names[1]} in it or in a folder of it.")
    best = max(sorted(found), key=lambda path: path.stat().st_size)
    if best.suffix == ".jsonl":
        return (row for _, row in files.read_jsonl(best))
    targets = Path(str(best).replace(".src_alpha.txt", ".tgt.txt"))
    concepts, sentences = _lines(best), _lines(targets)
    if len(concepts) != len(sentences):
        raise DataError(f"{targets}: {len(sentences)} lines, but {best.name} has {len(concepts)}.")
    pairs = zip(concepts, sentences, strict=True)
    return ({"concepts": words.split(), "target": sentence} for words, sentence in pairs)


@FOLDERS.register("imdb")
def read_imdb(folder: Path, split: str) -> Rows:
    """Yield IMDB's rows from `<split>/{neg,pos}/<id>_<rating>.txt`, as the aclImdb archive unpacks."""
    root = next((parent for parent in (folder, folder / "aclImdb") if (parent / split).is_dir()), None)
    if root is None:
        raise DataError(f"{folder}: no folder {split!r} with pos and neg in it, neither here nor under aclImdb.")
    rows = [
        {"text": path.read_bytes().decode("utf-8"), "label": label}
        for label, name in enumerate(("neg", "pos"))
        for path in sorted((root / split / name).glob("*.txt"), key=lambda path: int(path.stem.split("_")[0]))
    ]
    if not rows:
        raise DataError(f"{root / split}: no reviews (*.txt) under pos and neg.")
    return rows


def _lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}.") from error
