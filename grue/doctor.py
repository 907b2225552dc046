"""What is installed, what is missing, and what it is for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from grue.errors import DataError
from grue.metrics import spice
from grue.mini import assets
from grue.mini.manifest import TaskRows, read_manifest

NEEDED = (
    "torch",
    "transformers",
    "datasets",
    "evaluate",
    "sacrebleu",
    "rouge-score",
    "bert-score",
    "nltk",
    "rapidfuzz",
    "numpy",
    "pandas",
    "safetensors",
    "tomli-w",
    "rich",
    "click",
)
OPTIONAL = {
    "accelerate": "`accelerate launch` for several devices (torchrun works without): pip install 'grue[accelerate]'",
    "matplotlib": "plots (grue plot): pip install 'grue[plot]'",
    "peft": "low-rank adapters (lora_rank): pip install 'grue[lora]'",
    "ray": "sweeps on a cluster (grue sweep --executor ray): pip install 'grue[ray]'",
    "tensorboard": "training curves in TensorBoard: pip install 'grue[tensorboard]'",
    "trackio": "runs in trackio: pip install 'grue[trackio]'",
    "wandb": "runs in Weights & Biases: pip install 'grue[wandb]'",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `needed` if grue does not work without it."""

    what: str
    fine: bool
    state: str
    needed: bool


def examine() -> Iterator[Finding]:
    """Check packages, the files of the mini suite, and the tools that some metrics need."""
    for name in NEEDED:
        found = _version(name)
        yield Finding(name, found is not None, found or "missing", needed=True)
    for name, purpose in OPTIONAL.items():
        found = _version(name)
        yield Finding(name, found is not None, found or f"missing; it would give {purpose}", needed=False)
    manifest = read_manifest()
    for task, listed in manifest.rows.items():
        yield _whole(f"rows of mini/{task}", partial(_read_splits, task, listed))
    for name, model in manifest.models.items():
        yield _whole(f"mini:{name}", partial(assets.locate, name), needed=model.ships)
    missing = spice.problems(*spice.settings())
    state = "ready" if not missing else f"{' '.join(missing)} It would give the metric spice; spice_lite needs nothing."
    yield Finding("spice", not missing, state, needed=False)


def _read_splits(task: str, listed: TaskRows) -> None:
    for split in listed.splits:
        assets.read_rows(task, split, listed.revision)


def _whole(what: str, read: Callable[[], object], needed: bool = True) -> Finding:
    try:
        read()
    except DataError as error:
        return Finding(what, False, str(error), needed)
    return Finding(what, True, "whole", needed)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
