"""A file of predictions that somebody named: whose answers it holds, while it is made and after.

Until all are there they are kept in the folder `FILE.partial`, so that a file is whole wherever there is one;
`FILE.claim.json` beside a whole one says whose it is.
"""

import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

from grue import files
from grue.data.load import local_data_id
from grue.data.scored import unfinished
from grue.errors import ConfigError, DataError
from grue.evaluation.folder import PREDICTIONS
from grue.evaluation.predict import predict_file
from grue.evaluation.systems import System
from grue.records import Example
from grue.tasks import Generation, Task

CLAIM = "claim.json"
CURE = "Write elsewhere with --output, or remove it."

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PredictionsClaim:
    """Whose answers a file of predictions holds.

    Attributes:
        file: sha256 of the file of rows that `split` names; None where it is a split of the task.
        data_dir: Where the rows were read instead of the task's sources.
        data_sha256: Of the task's local files, or of what is read of `data_dir`; empty without either.
        checkpoint: sha256 of the weights, or a model's hub id and revision.
        generation: How they were decoded.
        prompts: How many are answered.
        sha256: Of the whole file; empty while it is made.
    """

    suite: str
    task: str
    task_hash: str
    split: str
    file: str | None
    data_dir: str | None
    checkpoint: str
    system: str
    seed: int
    generation: Generation
    prompts: int
    data_sha256: str = ""
    sha256: str = ""


def check_output(path: Path) -> None:
    """Refuse what cannot be a file of lines that we write.

    Raises:
        ConfigError: It is a folder, or its name says that it is compressed.
    """
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; name a file in it with --output, such as {path / PREDICTIONS}.")
    if path.suffix == ".gz":
        raise ConfigError(f"{path}: is written as plain JSON lines; choose a name without .gz.")


def write_generated(
    task: Task,
    system: System,
    examples: Sequence[Example],
    path: Path,
    *,
    split: str,
    file: str | None = None,
    data_dir: Path | None = None,
    batch_size: int = 64,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Answer all examples into a file, going on where an interrupted call stopped; a whole file is only read.

    Args:
        examples: Those of `split` that are answered.
        file: sha256 of the file of rows that `split` names; None where it is a split of the task.
        data_dir: Where the rows were read instead of the task's sources.

    Raises:
        ConfigError: The file holds something else, or another process writes it.
        DataError: Something cannot be read or written, or the file was changed.
    """
    check_output(path)
    wanted = PredictionsClaim(
        suite=task.suite,
        task=task.name,
        task_hash=task.hash,
        split=split,
        file=file,
        data_dir=None if data_dir is None else str(data_dir.resolve()),
        checkpoint=system.weights,
        system=system.name,
        seed=system.seed,
        generation=task.decoding,
        prompts=len(examples),
        data_sha256=local_data_id(task, data_dir, split),
    )
    partial = unfinished(path)
    if path.exists() and not partial.exists():
        return _check_finished(path, wanted)
    assert system.model is not None and system.tokenizer is not None
    with files.sole_owner(partial, f"{path}: another process is writing it; wait for that, or write elsewhere."):
        if path.exists():
            _check_finished(path, wanted)
        else:
            made = _resumed(partial, wanted)
            predict_file(system.model, system.tokenizer, task, examples, system.seed, made, batch_size, progress)
            # First whose it is: a kill in between leaves a claim without a file, which stands in nobody's way.
            files.write_json(claim_path(path), replace(wanted, sha256=files.sha256_file(made)))
            files.write_text(path, files.read_text(made))
        shutil.rmtree(partial)


def claim_path(path: Path) -> Path:
    """Return the file that says whose answers a whole file of predictions holds."""
    return path.with_name(f"{path.name}.{CLAIM}")


def check_same(found: T, wanted: T, where: Path, besides: Collection[str]) -> None:
    """Refuse what holds the responses of another call.

    Args:
        found: The claim that is there, a dataclass.
        besides: Its fields that say nothing of whose the responses are.

    Raises:
        ConfigError: They differ; names the first field that does.
    """
    names = [field.name for field in fields(type(wanted)) if field.name not in besides]  # type: ignore[arg-type]
    held, asked = ({name: getattr(claim, name) for name in names} for claim in (found, wanted))
    files.refuse_other(where, "responses", held, asked, CURE)


def check_unfinished(partial: Path, kept: str) -> None:
    """Refuse a folder of unfinished work that is of another kind of file.

    Args:
        kept: The name of the file that this kind is kept in.

    Raises:
        ConfigError: It holds something else than that and a claim.
    """
    others = sorted(one.name for one in partial.iterdir() if one.name not in (CLAIM, kept) and one.name[0] != ".")
    if others:
        raise ConfigError(f"{partial}: holds unfinished work of another kind, {others[0]}. {CURE}")


def _check_finished(path: Path, wanted: PredictionsClaim) -> None:
    claim = claim_path(path)
    if not claim.exists():
        raise ConfigError(f"{path}: is there already, and no {claim.name} says whose answers it holds. {CURE}")
    found = _read(claim, f"Write elsewhere with --output, or remove {path}.")
    if files.sha256_file(path) != found.sha256:
        raise ConfigError(f"{path}: holds something else than the answers that {claim.name} is of. {CURE}")
    check_same(found, wanted, path, ["sha256"])


def _resumed(partial: Path, wanted: PredictionsClaim) -> Path:
    """Return the file that is gone on with; a folder that holds nothing becomes that of this call."""
    check_unfinished(partial, PREDICTIONS)
    claim, made = partial / CLAIM, partial / PREDICTIONS
    if made.exists():
        check_same(_read(claim, f"Remove {partial} to begin anew."), wanted, partial, ["sha256"])
    else:
        files.write_json(claim, wanted)
    return made


def _read(claim: Path, cure: str) -> PredictionsClaim:
    try:
        return files.load_json(claim, PredictionsClaim)
    except DataError as error:
        raise DataError(f"{error} {cure}") from error
