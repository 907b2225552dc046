"""Merging a small adapter into an encoder: the same classifier, bit for bit, on every machine.

An adapter's file holds, under the names of the layers that it changes, the low-rank factors `….A` [rank, in] and `….B`
[out, rank] of W + BA (Hu et al. 2022), and entire layers that the encoder lacks, such as the head, all in float16.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from grue import files

LABELS = ("negative", "positive")
WEIGHTS, CONFIG = "model.safetensors", "config.json"


def merge(folder: Path, adapter: Path) -> None:
    """Turn the BERT encoder in a folder into a classifier, in place.

    Products are summed in float64 and in a fixed order, since the last bits of a matrix product differ between
    machines.
    """
    changes = load_file(adapter)
    weights: dict[str, NDArray[Any]] = {f"bert.{name}": value for name, value in load_file(folder / WEIGHTS).items()}
    weights.pop("bert.embeddings.position_ids", None)  # counted, not learned
    layers = {name.removesuffix(".A") for name in changes if name.endswith(".A")}
    for layer in sorted(layers):
        weights[f"{layer}.weight"] = _add_low_rank(
            weights[f"{layer}.weight"], changes[f"{layer}.A"], changes[f"{layer}.B"]
        )
    weights |= {name: value.astype(np.float32) for name, value in changes.items() if name[-2:] not in (".A", ".B")}
    config = files.read_json(folder / CONFIG)
    named = {"id2label": dict(enumerate(LABELS)), "label2id": {label: number for number, label in enumerate(LABELS)}}
    files.write_json(folder / CONFIG, {**config, "architectures": ["BertForSequenceClassification"], **named})
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


def _add_low_rank(weight: NDArray[Any], a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    updated = weight.astype(np.float64)
    for row, column in zip(a.astype(np.float64), b.astype(np.float64).T, strict=True):
        updated += column[:, None] * row
    return updated.astype(np.float32)
