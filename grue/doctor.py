"""What is installed, what is missing, and what it would be for."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from grue.errors import GrueError
from grue.metrics import spice
from grue.mini import assets

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
    """One thing looked at; `needed` if nothing works without it."""

    what: str
    fine: bool
    state: str
    needed: bool


def examine() -> Iterator[Finding]:
    """Look at packages, small models and the tools that some metrics need."""
    for name in NEEDED:
        found = _version(name)
        yield Finding(name, found is not None, found or "missing", needed=True)
    for name, purpose in OPTIONAL.items():
        found = _version(name)
        yield Finding(name, found is not None, found or f"missing; it would give {purpose}", needed=False)
    for name in assets.read_manifest().assets:
        try:
            assets.locate(name)
            yield Finding(f"mini:{name}", True, "whole", needed=True)
        except GrueError as error:
            yield Finding(f"mini:{name}", False, str(error), needed=True)
    missing = spice.problems(*spice.settings())
    state = "ready" if not missing else f"{' '.join(missing)} It would give the metric spice; spice_lite needs nothing."
    yield Finding("spice", not missing, state, needed=False)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
