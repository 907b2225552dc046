"""The folder of a reward model: reading its `reward.json` and verifying its files.

It holds the backbone in Hugging Face format, `head.safetensors`, the tokenizer, a card, and `reward.json`, which has
the sha256 of each of these except the card, and its own. Nothing here loads torch.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from grue import files
from grue.errors import ConfigError, DataError, escaped
from grue.lm.folder import check_listed
from grue.shapes import from_dict, shown
from grue.tasks import Task

KIND: Final = "reward model"
SCHEMA_VERSION: Final = 1
REWARD, HEAD, README, SEEN = "reward.json", "head.safetensors", "README.md", "prompts.json"

Pooling = Literal["last", "mean"]
"""The state from which a text is scored: that of its last token, or the mean."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How well a reward model orders pairs.

    Attributes:
        pairs: Number of judged pairs.
        prompts: Number of their prompts.
        ties: Number of ties, which count only in the log-loss.
        accuracy: Share of the other pairs whose better text has the higher score; None if there are none.
        low: Lower end of its 95 % interval, over prompts.
        high: Upper end.
        log_loss: Mean, in nats, at the calibrated temperature; log 2 is chance.
        ece: Expected calibration error, 0–1.
        bins: Of confidence from ½ to 1: lower and upper end, pairs, mean confidence and share right.
    """

    pairs: int
    prompts: int
    ties: int
    accuracy: float | None
    low: float | None
    high: float | None
    log_loss: float
    ece: float | None
    bins: tuple[tuple[float, float, int, float | None, float | None], ...]


@dataclass(frozen=True, slots=True)
class RewardManifest:
    """The content of `reward.json`.

    Attributes:
        examples: Identifies the task's examples, see `examples_of`; its metrics and recipes do not matter.
        split: The split of the pairs' prompts.
        pairs_sha256: Of the file of pairs.
        judge: The reward that judged the pairs; of a study "people", "programs", or "people and programs"; "" if the
            file does not say.
        noise: Of that judge, or of a study the same as `judge`; "" if the file does not say.
        pairs: Part → number of the file's pairs; the model was trained on "train".
        contradictions: Pairs of texts that were judged both ways.
        backbone_weights: See `grue.lm.load.weights_id`.
        max_tokens: Most tokens of prompt and text that are read; the prompt's beginning is cut.
        temperature: Differences of logits are divided by it to give log-odds.
        centre: Mean logit of the training texts.
        spread: Their standard deviation: a score is (logit − centre) / spread.
        config: The requested settings, including the seed; their `max_tokens` may be more than is read.
        step: Optimiser step of the kept weights.
        validation: Step → log-loss and accuracy on the part "validation", at temperature 1.
        held_out: On the part "test"; None if it is empty.
        files: File name → sha256.
        sha256: Of all the above.
    """

    grue: Literal["reward model"]
    schema: Literal[1]
    suite: str
    task: str
    task_hash: str
    examples: str
    split: str
    pairs_sha256: str
    judge: str
    noise: str
    pairs: Mapping[str, int]
    contradictions: int
    backbone: str
    backbone_weights: str
    pooling: Pooling
    max_tokens: int
    temperature: float
    centre: float
    spread: float
    config: Mapping[str, Any]
    step: int
    validation: Mapping[str, Mapping[str, float]]
    held_out: Judgement | None
    files: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""

    @property
    def fingerprint(self) -> str:
        """The sha256 of all other fields, and so of all files."""
        return files.sha256_json(dataclasses.replace(self, sha256=""))


LOWEST = "min"
"""The first part of an ensemble's name whose value is its members' lowest, not their mean."""


def members(name: str) -> list[Path]:
    """Return the folders that a reward model's name has: "DIR", or of an ensemble "A;B;C" or "min;A;B;C".

    Raises:
        ConfigError: An ensemble has fewer than two members, or one twice.
    """
    folders = name.split(";")
    if len(folders) == 1:
        return [Path(name)]
    folders = folders[folders[0] == LOWEST :]
    if len(folders) < 2 or not all(folders) or len(set(folders)) < len(folders):
        raise ConfigError(f"model:{escaped(name)}: an ensemble takes two or more folders, each once: model:min;A;B.")
    return [Path(folder) for folder in folders]


def sealed(manifest: RewardManifest) -> RewardManifest:
    """Return a manifest with its own sha256."""
    return dataclasses.replace(manifest, sha256=manifest.fingerprint)


def read_reward_manifest(folder: Path) -> RewardManifest:
    """Read the manifest of a reward model's folder; a DataError if it is not one, or has been changed."""
    if not folder.is_dir():
        raise DataError(f"{escaped(folder)}: no such folder of a reward model; `grue tools reward train` writes one.")
    path = folder / REWARD
    if not path.is_file():
        raise DataError(
            f"{escaped(folder)}: not a reward model: it has no {REWARD}; `grue tools reward train` writes one."
        )
    data = files.read_json(path)
    if not isinstance(data, dict) or data.get("grue") != KIND or data.get("schema") != SCHEMA_VERSION:
        stated = {key: data.get(key) for key in ("grue", "schema")} if isinstance(data, dict) else shown(data)
        raise DataError(
            f"{path}: this version of grue reads a {KIND} of schema {SCHEMA_VERSION}, found {stated!r:.80}."
        )
    cure = "Train it again with `grue tools reward train`, or copy the whole folder again."
    try:
        manifest = from_dict(RewardManifest, data, str(path))
    except ConfigError as error:
        raise DataError(f"{escaped(error, 600)} {cure}") from error
    if manifest.fingerprint != manifest.sha256:
        raise DataError(f"{path}: damaged: its content does not match its sha256. {cure}")
    check_listed(folder, manifest.files, REWARD, (REWARD, README).__contains__)
    return manifest


def check_reward_task(manifest: RewardManifest, folder: Path, task: Task) -> None:
    """Raise a DataError if a reward model is of another task, or of a version with other examples."""
    if (manifest.suite, manifest.task) != (task.suite, task.name):
        raise DataError(
            f"{folder}: a reward model of {escaped(manifest.suite)}/{escaped(manifest.task)}, not of "
            f"{task.suite}/{task.name}; give one of that task."
        )
    if manifest.examples != examples_of(task):
        raise DataError(
            f"{folder}: a reward model of another version of {task.suite}/{task.name}, with other examples; train it "
            "again with `grue tools reward train`."
        )


def examples_of(task: Task) -> str:
    """Return the sha256 of a task's data section: source, format, counts and ids."""
    return files.sha256_json(task.data)
