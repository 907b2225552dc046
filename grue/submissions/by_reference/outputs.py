"""Published files of outputs: fetched, read, and their lines matched with a split's examples.

They are untrusted: nothing is received or unpacked beyond a limit, and nothing of them is kept.
"""

import codecs
import gzip
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from grue import files
from grue.data.download import download
from grue.data.formats import FORMATS
from grue.data.load import Loaded, is_offline, load_examples, obtain
from grue.errors import DataError, SubmissionError, Unavailable
from grue.evaluation.scoring import Scored, chosen_metrics, score_predictions
from grue.records import Prediction
from grue.submissions.by_reference.system import PublishedFile
from grue.submissions.folder import nests_too_deep
from grue.submissions.reading import MOST_BYTES, MOST_CHARACTERS, MOST_LINES
from grue.tasks import Task


def fetch(file: PublishedFile, folder: Path, offline: bool = False) -> Path:
    """Download a published file into a folder; its sha256 is not compared.

    Raises:
        Unavailable: No connection is allowed, or the server cannot be reached.
        DataError: The server refuses the file, or it is too large.
    """
    if is_offline(offline):
        raise Unavailable(f"{file.url}: cannot be downloaded: no connection is allowed (--offline, HF_HUB_OFFLINE).")
    target = folder / "outputs"
    download(file.url, target, most=MOST_BYTES)
    return target


def read_texts(path: Path, file: PublishedFile) -> list[str]:
    """Return the texts in a copy of a published file, in its order.

    Raises:
        DataError: It is damaged, too large, not UTF-8, or a line has another form.
    """
    content = _content(path, file.gzip)
    if file.form == "jsonl":
        return list(_fields(content, file.field))
    lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
    return [_text(line, number, file) for number, line in enumerate(lines[: -1 if not lines[-1] else None], start=1)]


def _content(path: Path, packed: bool) -> bytes:
    try:
        with gzip.open(path) if packed else path.open("rb") as handle:
            content = handle.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"the file cannot be read: {files.reason(error)}.") from error
    if len(content) > MOST_BYTES:
        raise DataError(f"the file {'unpacks to' if packed else 'has'} more than {MOST_BYTES:,} bytes.")
    if content.count(b"\n") > MOST_LINES:
        raise DataError(f"the file has more than {MOST_LINES:,} lines.")
    return content


def _text(line: bytes, number: int, file: PublishedFile) -> str:
    try:
        text = line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError(f"line {number} is not UTF-8.") from error
    if len(text) > MOST_CHARACTERS:
        raise DataError(f"line {number} has {len(text):,} characters, more than {MOST_CHARACTERS:,}.")
    if file.form == "text":
        return text
    cells = text.split("\t")
    if len(cells) < file.column:
        raise DataError(f"line {number} has {len(cells)} columns; the texts are in column {file.column}.")
    return cells[file.column - 1]


def _fields(content: bytes, field: str) -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "outputs.jsonl"
        path.write_bytes(content)
        try:
            for number, record in files.read_jsonl(path):
                text = None if nests_too_deep(record) else record.get(field)
                if not isinstance(text, str) or len(text) > MOST_CHARACTERS:
                    raise DataError(
                        f"line {number} has no text of at most {MOST_CHARACTERS:,} characters as {field!r}."
                    )
                yield text
        except DataError as error:
            raise DataError(str(error).removeprefix(str(path)).lstrip(":, ")) from error


# --- lines and examples ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lines:
    """The examples of a split, and the id of the one that each line of a published file is for."""

    loaded: Loaded
    ids: tuple[str, ...]


def lines_of(task: Task, split: str, file: PublishedFile, data_dir: Path | None, offline: bool = False) -> Lines:
    """Return what the lines of a published file must be for.

    Raises:
        DataError: The data cannot be read.
    """
    loaded = load_examples(task, split, data_dir, offline)
    if file.each == "example":
        return Lines(loaded, tuple(example.id for example in loaded.examples))
    examples, rows = FORMATS[task.data.format], obtain(task, split, data_dir, offline).rows()
    ids = tuple(example.id for row in rows for example in examples([row]) for _ in example.references)
    return Lines(loaded, ids)


def score_copy(
    task: Task, split: str, path: Path, file: PublishedFile, lines: Lines, metrics: Collection[str] | None = None
) -> Scored:
    """Score a copy of a published file.

    Args:
        metrics: Those to compute, as far as this machine can; None for the task's and the diversity set.

    Raises:
        DataError: The file cannot be read, or a text gives a metric no finite value.
        SubmissionError: Its texts do not fit the examples.
    """
    predictions = list(_predictions(read_texts(path, file), file, lines.ids))
    specs = [spec for spec in chosen_metrics(task) if metrics is None or spec.name in metrics]
    return score_predictions(task, split, lines.loaded.examples, predictions, specs, skip_unavailable=True)


def _predictions(texts: Sequence[str], file: PublishedFile, ids: Sequence[str]) -> Iterator[Prediction]:
    """Yield one prediction for each example."""
    if len(texts) != len(ids):
        raise SubmissionError(f"the file has {len(texts):,} texts, but the split has {len(ids):,} {file.each}s.")
    found: dict[str, str] = {}
    for number, (identity, text) in enumerate(zip(ids, texts, strict=True), start=1):
        if found.setdefault(identity, text) != text:
            raise SubmissionError(f"text {number} differs from an earlier one for the same example, {identity!r}.")
    yield from (Prediction(identity, text) for identity, text in found.items())
