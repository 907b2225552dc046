"""Examples: `load_examples(task, split)` from the mini suite, the mirror, the hub, official files or a folder.

Whatever the source, rows become examples through the task's format, a split takes its share of them, and the counts
and the hash of the ids are compared with the task file before anything is returned. The examples are cached in a file,
under a key of everything they depend on, and read from there: see `grue.data.examples`.
"""

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from grue import __version__, files
from grue.data.cache import cache_folder, locked, mirror_folder, mirror_folders
from grue.data.examples import ExampleFile, write_examples
from grue.data.formats import FORMATS, LAYOUTS, read_folder
from grue.data.rows import Progress, Rows, no_progress
from grue.errors import DataError
from grue.mini import assets
from grue.records import Example
from grue.task_files import command_name
from grue.tasks import FILE_ENDINGS, Source, Split, Task, split_of

if TYPE_CHECKING:
    from grue.data import mirror

LAID_OUT = "{}--folder"  # in the mirror, by the name of the format


@dataclass(frozen=True, slots=True)
class Loaded:
    """The examples of a split, and where they came from.

    Attributes:
        source: "mini", the hub's data set id, the name of the official files, the local file, or the folder.
        revision: The commit on the hub, the revision of the mini world, the hash of official files' addresses, or the
            sha256 of a local file or of the files read of a folder.
        rows: Number of rows at the source.
        checked: Whether count and ids were compared with the task file; those of a folder in the original layout are
            not, because it may hold a part of the data set.
    """

    examples: ExampleFile
    source: str
    revision: str
    rows: int
    ids_sha256: str
    checked: bool

    def provenance(self) -> dict[str, Any]:
        """Return what a result records about its data; of a folder its name alone, since results are published."""
        place = Path(self.source)
        return {
            "source": place.name if place.is_absolute() else self.source,
            "revision": self.revision,
            "rows": self.rows,
            "examples": len(self.examples),
            "ids_sha256": self.ids_sha256,
            "checked": self.checked,
        }


@dataclass(frozen=True, slots=True)
class LocalRows:
    """Rows on this machine.

    Attributes:
        source, revision: As in `Loaded`.
        identity: A hash of their content.
        held: Their place in the mirror, if any.
        path: The local file with the rows, if it is a single one.
    """

    source: str
    revision: str
    identity: str
    rows: Callable[[], Rows]
    check: Callable[[], None] = lambda: None
    held: "mirror.Held | None" = None
    path: Path | None = None


def load_examples(
    task: Task, split: str, data_dir: Path | None = None, offline: bool = False, progress: Progress = no_progress
) -> Loaded:
    """Load one split of a task.

    Args:
        split: A split of the task, or a file of rows in the data set's columns, such as a fresh test set.
        data_dir: A folder in the data set's original layout, read instead of the task's sources.
        offline: Open no connection: use the mini world, the mirror and the hub's cache. HF_HUB_OFFLINE=1 does the same.
        progress: Called with (bytes done, bytes in all) during a transfer.

    Raises:
        DataError: No source can be read, or the data differs from what the task file says; or the file is missing,
            damaged or empty, has other columns, or holds prompts of the training split.
    """
    if is_file(task, split):
        return _load_file(task, Path(split), data_dir, offline)
    loaded = read_split(task, split, data_dir, offline, progress)
    for figure, value, expected in differences(task.data.splits[split], loaded) if loaded.checked else ():
        raise DataError(
            f"{task.suite}/{task.name}, split {split!r} of {loaded.source}@{loaded.revision}: {figure} {value}, but "
            f"the task file says {expected}. The data set has changed, or is not whole; `grue data verify "
            f"{command_name(task)}` compares everything."
        )
    return loaded


def differences(split: Split, loaded: Loaded) -> Iterator[tuple[str, object, object]]:
    """Yield (figure, value, expected value) for each figure in the task file from which the data differs."""
    for figure, value, expected in (
        ("rows", loaded.rows, split.rows),
        ("examples", len(loaded.examples), split.examples),
        ("ids_sha256", loaded.ids_sha256, split.ids_sha256),
    ):
        if expected and value != expected:
            yield figure, value, expected


def read_split(
    task: Task, split: str, data_dir: Path | None = None, offline: bool = False, progress: Progress = no_progress
) -> Loaded:
    """Load one split as `load_examples` does, without comparing it with the task file."""
    split_of(task, split)
    origin = obtain(task, split, data_dir, offline, progress)
    path = examples_path(task, split, origin, data_dir, offline)
    if not _is_built(path):
        _build(task, split, origin, path, data_dir, offline)
    examples, about = ExampleFile(path), files.read_json(about_path(path))
    if not examples:
        cure = f" Write one row per line, in the columns of {task.data.format}." if origin.path else ""
        raise DataError(f"{task.suite}/{task.name}, split {split!r} of {origin.source}: no examples.{cure}")
    checked = data_dir is None
    return Loaded(examples, origin.source, origin.revision, about["rows"], about["ids_sha256"], checked)


# --- a file as a split -----------------------------------------------------------------------------------------------


def is_file(task: Task, split: str) -> bool:
    """Whether a split is a file of rows; a split in the task file never is."""
    return split not in task.data.splits and split.endswith(FILE_ENDINGS)


def file_id(task: Task, split: str) -> str | None:
    """Return the sha256 of a file given as a split; None for a split of the task."""
    if not is_file(task, split):
        return None
    if not Path(split).is_file():
        raise DataError(
            f"{split}: no such file. Give --split a split of {task.suite}/{task.name} "
            f"({', '.join(task.data.splits)}) or a file of rows in the data set's columns."
        )
    return files.sha256_file(Path(split))


def _load_file(task: Task, path: Path, data_dir: Path | None, offline: bool) -> Loaded:
    """Load a file of rows as a split of the task, none of whose prompts may be in a split that is learned from."""
    file_id(task, str(path))
    source = Source("local", path.name, files={path.name: str(path.absolute())})
    data = replace(task.data, sources=(source,), splits={path.name: Split(path.name)})
    loaded = replace(read_split(replace(task, data=data), path.name), source=path.name, checked=False)
    for learned, label in (("train", "the training split"), ("rl", "the split rl")):
        if learned not in task.data.splits:
            continue
        if common := common_prompts(loaded.examples, read_split(task, learned, data_dir, offline).examples):
            raise DataError(
                f"{path}: {common:,} of its {len(loaded.examples):,} prompts are in {label} of "
                f"{task.suite}/{task.name}, so that their answers can be looked up. Remove these rows, or draw others "
                "with another seed."
            )
    return loaded


def common_prompts(evaluated: ExampleFile, train: ExampleFile) -> int:
    """Return how many of the evaluated examples have a prompt that also occurs in `train`."""
    prompts = Counter(_column(evaluated, "prompt"))
    return sum(prompts.pop(prompt, 0) for prompt in _column(train, "prompt"))


# --- sources of rows -------------------------------------------------------------------------------------------------


def is_offline(offline: bool = False) -> bool:
    """Whether connections are forbidden, by the argument or by HF_HUB_OFFLINE."""
    return offline or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def obtain(
    task: Task, split: str, data_dir: Path | None, offline: bool, progress: Progress = no_progress, renew: bool = False
) -> LocalRows:
    """Return a split's rows from the first source that has them, fetched if they are not on this machine.

    Args:
        renew: Whether to ask the hub again, whose branch may have moved since the rows were fetched.
    """
    name = task.data.splits[split].source
    if data_dir is not None:
        return _rows_of_folder(task.data.format, data_dir, name)
    folder, problems = laid_out(task), []
    for source in task.data.sources:
        try:
            if source.kind == "mini":
                key = (source.name, name, source.revision)
                sha256 = assets.describe_rows(*key).sha256
                return LocalRows("mini", source.revision, sha256, partial(assets.read_rows, *key))
            if source.kind == "local":
                return _rows_of_local(task, source, name)
            from grue.data import mirror

            held = None if renew else mirror.find(source, name)
            if held is None and folder is not None:
                try:
                    return _rows_of_folder(task.data.format, folder, name)
                except DataError as error:
                    problems.append(f"  folder {error}")
                    folder = None
            licence, closed = task.data.licence, is_offline(offline)
            return held_rows(held or mirror.fetch(source, name, mirror_folder(), licence, closed, progress))
        except DataError as error:
            problems.append(f"  {source.kind} {source.name}: {error}")
    kinds = {source.kind for source in task.data.sources}
    if kinds == {"local"}:
        problems.append("Paths in a task file are relative to it.")
    elif kinds != {"mini"}:  # a problem with mini is one of the installation
        problems.append(
            "Connect to the network, copy a mirror and name it with GRUE_DATA, or put the data's folder, in its "
            f"original layout, at {mirror_folder() / LAID_OUT.format(task.data.format)}."
        )
    listed = "\n".join(problems)
    raise DataError(f"{task.suite}/{task.name}, split {split!r}: no source could be read:\n{listed}")


def laid_out(task: Task) -> Path | None:
    """Return the mirror's folder with the task's data in its original layout, or None."""
    folders = (root / LAID_OUT.format(task.data.format) for root in mirror_folders())
    return next((folder for folder in folders if folder.is_dir()), None)


def held_rows(held: "mirror.Held") -> LocalRows:
    """Return the rows of a split in the mirror."""
    from grue.data import mirror

    manifest, identity = held.manifest, held.identity
    if manifest.kind == "files":
        identity = files.sha256_json([identity, _code_hash(LAYOUTS[manifest.name])])
    return LocalRows(
        manifest.name, manifest.revision, identity, lambda: mirror.rows(held), lambda: mirror.check(held), held
    )


def local_path(task: Task, source: Source, name: str) -> Path:
    """Return the file that a local source names for a split, or its folder in a data set's original layout."""
    if source.folder:
        path = Path(task.folder) / source.folder
        if not path.is_dir():
            raise DataError(f"{path}: no such folder.")
        return path
    if name not in source.files:
        raise DataError(f"it has no file for {name!r}, only for {', '.join(source.files) or 'nothing'}.")
    path = Path(task.folder) / source.files[name]
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    return path


def local_data_id(task: Task, data_dir: Path | None = None, *splits: str) -> str:
    """Return the hash of the contents of a task's local files that some splits are read from; "" without any.

    Args:
        data_dir: A folder to read instead.
        splits: Those that are files themselves, or not of the task, do not count.
    """
    read = [split for split in splits if split in task.data.splits]
    if data_dir is not None:
        return files.sha256_json([_contents_in(data_dir, task, split) for split in read])
    names = {task.data.splits[each].source for split in read for each in _with_left_out(task, split)}
    sums: list[Any] = []
    for source in (source for source in task.data.sources if source.kind == "local"):
        if source.folder:
            sums.append([_contents_in(local_path(task, source, split), task, split) for split in read])
        else:
            named = sorted(names & source.files.keys())
            sums.append({name: files.sha256_file(local_path(task, source, name)) for name in named})
    return files.sha256_json(sums) if sums else ""


def _with_left_out(task: Task, split: str) -> Iterator[str]:
    """Yield a split and those that it leaves out."""
    yield split
    for excluded in task.data.splits[split].without:
        yield from _with_left_out(task, excluded)


def _rows_of_local(task: Task, source: Source, name: str) -> LocalRows:
    path = local_path(task, source, name)
    if source.folder:
        return _rows_of_folder(task.data.format, path, name)
    from grue.data.tables import read_rows

    content = files.sha256_file(path)
    identity = files.sha256_json([content, path.suffixes, _code_hash(read_rows)])
    return LocalRows(source.files[name], content, identity, lambda: read_rows(path), path=path)


def _contents_in(folder: Path, task: Task, split: str) -> list[Any]:
    """Return hashes of a folder's files of a split, and of the splits that it leaves out."""
    spec = task.data.splits[split]
    content = read_folder(task.data.format, folder, spec.source).sha256(folder)
    return [content, *(_contents_in(folder, task, excluded) for excluded in spec.without)]


def _rows_of_folder(layout: str, folder: Path, name: str) -> LocalRows:
    rows = read_folder(layout, folder, name)
    content = rows.sha256(folder)
    identity = files.sha256_json([name, content, _code_hash(LAYOUTS[layout])])
    return LocalRows(str(folder), content, identity, lambda: rows)


# --- rows into examples ----------------------------------------------------------------------------------------------


def _build(task: Task, split: str, origin: LocalRows, path: Path, data_dir: Path | None, offline: bool) -> None:
    """Write the file of a split's examples; the file about it comes last, so that an unfinished one does not count."""
    spec, rows = task.data.splits[split], 0

    def counted() -> Iterator[Mapping[str, Any]]:
        nonlocal rows
        for row in origin.rows():
            rows += 1
            # ToTTo's facts are read off the table, others' are a column of the mini world.
            yield {"facts": True, **row} if task.data.facts else {key: row[key] for key in row if key != "facts"}

    excluded = (read_split(task, name, data_dir, offline).examples for name in spec.without)
    left_out = {identity for examples in excluded for identity in _column(examples, "id")}
    with locked(path.with_suffix(".lock")):
        if _is_built(path):
            return  # another process was faster
        about_path(path).unlink(missing_ok=True)  # of a file that was removed: it must not vouch for an unfinished one
        origin.check()
        try:
            write_examples(path, FORMATS[task.data.format](counted()))
        except DataError as error:  # a format names the row; only the reader of a local file names the file
            if origin.path is None or str(origin.path) in str(error):
                raise
            raise DataError(f"{origin.path}: {error}") from error
        examples = ExampleFile(path)
        if left_out or spec.most or (spec.begin, spec.end) != (0.0, 1.0):
            selected = _selection(_column(examples, "id"), spec, left_out)
            write_examples(path, (example for example, keep in zip(examples, selected, strict=True) if keep))
            examples = ExampleFile(path)
        if origin.held is None and obtain(task, split, data_dir, offline).identity != origin.identity:
            raise DataError(f"{origin.source}: its files changed while they were read; run the command again.")
        files.write_json(about_path(path), {"rows": rows, "ids_sha256": hash_ids(_column(examples, "id"))})


def _column(examples: ExampleFile, name: Literal["id", "prompt"]) -> Iterator[str]:
    return (value for chunk in examples.column(name).chunks for value in chunk.to_pylist())


def _selection(ids: Iterable[str], split: Split, left_out: Set[str]) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return whether each example is in a split: in its share, in no excluded split, among the first `most`."""
    identities = list(ids)
    digests = b"".join(hashlib.sha256(identity.encode()).digest() for identity in identities)
    words = np.frombuffer(digests, dtype=">u8").reshape(-1, 4)
    order = np.lexsort(words.T[::-1])  # the order of the hex digests; the last key is the primary one
    share = order[round(split.begin * len(identities)) : round(split.end * len(identities))].tolist()
    selected = np.zeros(len(identities), dtype=bool)
    selected[[place for place in share if identities[place] not in left_out][: split.most or None]] = True
    return selected


def few_of(examples: Sequence[Example], most: int) -> Sequence[Example]:
    """Return `most` of the examples, in their order: those whose ids have the first hashes.

    The first examples would not do: a source can be sorted, as IMDB is by label.
    """
    if len(examples) <= most:
        return examples
    chosen = _selection((example.id for example in examples), Split("", most=most), frozenset())
    return [example for example, keep in zip(examples, chosen, strict=True) if keep]


def hash_ids(ids: Iterable[str]) -> str:
    """Return the sha256 of the sorted ids, one per line, so that their order does not matter; none may be repeated."""
    ordered = pa.array(ids, pa.large_string()).sort()  # by bytes, which in UTF-8 equals by characters
    twice = ordered[1:].filter(pc.equal(ordered[1:], ordered[:-1]))
    if len(twice):
        raise DataError(f"The id {twice[0].as_py()!r} is repeated: every example needs its own id.")
    digest = hashlib.sha256()
    for first in range(0, len(ordered), 1 << 16):
        digest.update("".join(f"{identity}\n" for identity in ordered[first : first + (1 << 16)].to_pylist()).encode())
    return digest.hexdigest()


# --- the cache of examples -------------------------------------------------------------------------------------------


def examples_path(task: Task, split: str, origin: LocalRows, data_dir: Path | None, offline: bool) -> Path:
    """Return the path of a split's examples in the cache, which may not exist."""
    key = files.sha256_json(_key(task, split, origin, data_dir, offline))[:24]
    return cache_folder() / "examples" / f"{task.data.format}-{key}.arrow"


def about_path(path: Path) -> Path:
    """Return the file beside a file of examples that records the number of source rows and the hash of the ids."""
    return path.with_suffix(".json")


def _is_built(path: Path) -> bool:
    return about_path(path).exists() and path.exists()


def _key(task: Task, split: str, origin: LocalRows, data_dir: Path | None, offline: bool) -> list[Any]:
    """Return what a split's examples depend on: rows, format and its code, the share, and the splits left out."""
    spec = task.data.splits[split]
    key = [origin.identity, task.data.format, _code_hash(FORMATS[task.data.format]), spec.begin, spec.end]
    key += [spec.most] if spec.most else []
    key += ["facts"] if task.data.facts else []
    excluded = ((name, obtain(task, name, data_dir, offline)) for name in spec.without)
    return [*key, *(_key(task, name, source, data_dir, offline) for name, source in excluded)]


@cache
def _code_hash(function: Callable[..., Any]) -> str:
    """Return the hash of a function's module and the modules it imports, so that changed code invalidates the cache."""
    package, pending, hashes = function.__module__.partition(".")[0], [function.__module__], {"": __version__}
    while pending:
        module = sys.modules[pending.pop()]
        if module.__name__ in hashes or not module.__file__:
            continue
        hashes[module.__name__] = files.sha256_file(Path(module.__file__))
        named = {getattr(each, "__module__", None) or getattr(each, "__name__", "") for each in vars(module).values()}
        pending += [name for name in named if f"{name}.".startswith(f"{package}.") and name in sys.modules]
    return files.sha256_json(hashes)
