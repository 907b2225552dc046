"""Write stand-ins for the suite grue's models and data, to measure its cost on a machine without the hub.

    python benchmarks/stand_ins.py stand-ins --data path/to/data      # models/ and the task files suite/, of every task
    python benchmarks/cost.py --suite stand-ins/suite --sizes-of grue

The models have the published ones' architecture and size, and random weights: a step takes as long, but responses may
have other lengths, and scores say nothing. The folder of data holds a folder for each task, parts of the data set in
its original layout, and `tokenizers/` with GPT-2's vocab.json and merges.txt, T5's spiece.model and BERT's vocab.txt.
RoBERTa's tokenizer is GPT-2's with its special tokens and other ids; multilingual BERT has English BERT's.
"""

import argparse
import json
import struct
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
import transformers as hf

from grue import files
from grue.data.formats import read_folder
from grue.task_files import suite_folder, task_names

ROWS = 1000  # of training, repeated where there are fewer; other splits are only cut
SPLITS = {"train": 0, "validation": 0, "test": 1}
SLICES = {  # task → the splits of its folder that train and test are read from
    "cnn_dailymail": ("train", "train"),
    "commongen": ("train", "validation"),
    "dailydialog": ("validation", "test"),
    "imdb": ("train", "test"),
    "narrativeqa": ("validation", "test"),
    "totto": ("validation", "validation"),
    "wmt16": ("validation", "test"),
}
TINY_LAYERS, TINY_WIDTH, TINY_HEADS = 2, 64, 2

Tokenizer = Callable[[Path], Any]  # of the folder of tokenizers
Model = Callable[[bool], Any]  # of whether it is tiny


# --- tokenizers ------------------------------------------------------------------------------------------------------


def gpt2_tokenizer(folder: Path) -> Any:
    vocab, merges = (str(folder / "gpt2" / name) for name in ("vocab.json", "merges.txt"))
    return hf.GPT2Tokenizer(vocab=vocab, merges=merges, model_max_length=1024)


def roberta_tokenizer(folder: Path) -> Any:
    pieces = json.loads((folder / "gpt2" / "vocab.json").read_text(encoding="utf-8"))
    words = [word for word in sorted(pieces, key=lambda word: int(pieces[word])) if word != "<|endoftext|>"]
    names = ["<s>", "<pad>", "</s>", "<unk>", *words, "<mask>"]
    vocab = {name: index for index, name in enumerate(names)}
    lines = (folder / "gpt2" / "merges.txt").read_text(encoding="utf-8").split("\n")
    merges: Any = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    return hf.RobertaTokenizer(vocab=vocab, merges=merges, model_max_length=512)


def t5_tokenizer(folder: Path) -> Any:
    pieces, characters = read_sentencepiece(folder / "t5" / "spiece.model")
    extra = [(f"<extra_id_{index}>", 0.0) for index in reversed(range(100))]
    return hf.T5Tokenizer(vocab=[*pieces, *extra], _spm_precompiled_charsmap=characters, model_max_length=512)


def bert_tokenizer(folder: Path) -> Any:
    return hf.BertTokenizer(vocab=str(folder / "bert-base-uncased" / "vocab.txt"), model_max_length=512)


def read_sentencepiece(path: Path) -> tuple[list[tuple[str, float]], bytes]:
    """Return the pieces with their scores, and the character map, of a sentencepiece model."""
    fields = list(_protobuf_fields(path.read_bytes()))
    pieces = [dict(_protobuf_fields(value)) for number, value in fields if number == 1]
    normalizer = dict(_protobuf_fields(next(value for number, value in fields if number == 3)))
    return [(piece[1].decode(), struct.unpack("<f", piece[2])[0]) for piece in pieces], normalizer[2]


def _protobuf_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of a protocol buffer message: whole numbers, or the bytes of anything else."""

    def whole_number(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value, at

    at = 0
    while at < len(data):
        key, at = whole_number(at)
        kind = key & 7
        if kind == 0:
            value, at = whole_number(at)
        else:
            length, at = whole_number(at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            yield key >> 3, data[at : at + length]
            at += length
            continue
        yield key >> 3, value


# --- models ----------------------------------------------------------------------------------------------------------


def gpt2(tiny: bool) -> Any:
    shape: dict[str, Any] = {"n_layer": TINY_LAYERS, "n_embd": TINY_WIDTH, "n_head": TINY_HEADS} if tiny else {}
    full: dict[str, Any] = {"vocab_size": 50257, "n_positions": 1024, "n_layer": 12, "n_embd": 768, "n_head": 12}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**full | shape))


def t5_base(tiny: bool) -> Any:
    full: dict[str, Any] = {
        "vocab_size": 32128,
        "d_model": 768,
        "d_kv": 64,
        "d_ff": 3072,
        "num_layers": 12,
        "num_heads": 12,
        "decoder_start_token_id": 0,
    }
    small = {
        "d_model": TINY_WIDTH,
        "d_kv": 32,
        "d_ff": 4 * TINY_WIDTH,
        "num_layers": TINY_LAYERS,
        "num_heads": TINY_HEADS,
    }
    shape = full | small if tiny else full
    return hf.T5ForConditionalGeneration(hf.T5Config(**shape))


def distilbert(tiny: bool, labels: int) -> Any:
    full: dict[str, Any] = {
        "vocab_size": 30522,
        "max_position_embeddings": 512,
        "dim": 768,
        "hidden_dim": 3072,
        "n_layers": 6,
        "n_heads": 12,
    }
    small = {"dim": TINY_WIDTH, "hidden_dim": 4 * TINY_WIDTH, "n_layers": TINY_LAYERS, "n_heads": TINY_HEADS}
    shape = full | small if tiny else full
    return hf.DistilBertForSequenceClassification(hf.DistilBertConfig(**shape, **_labels(labels)))


def bert(tiny: bool, labels: int = 0, vocabulary: int = 30522) -> Any:
    config = hf.BertConfig(**_shape(768, 12, tiny), vocab_size=vocabulary, **_labels(labels))
    return hf.BertForSequenceClassification(config) if labels else hf.BertModel(config)


def roberta(tiny: bool, width: int, layers: int, labels: int = 0) -> Any:
    sizes: dict[str, Any] = {
        "vocab_size": 50265,
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
    }
    ids: dict[str, Any] = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = hf.RobertaConfig(**_shape(width, layers, tiny), **sizes, **ids, **_labels(labels))
    return hf.RobertaForSequenceClassification(config) if labels else hf.RobertaModel(config)


def _labels(count: int) -> dict[str, Any]:
    return {"num_labels": count} if count else {}


def _shape(width: int, layers: int, tiny: bool) -> dict[str, Any]:
    width, layers, heads = (TINY_WIDTH, TINY_LAYERS, TINY_HEADS) if tiny else (width, layers, width // 64)
    sizes = {"hidden_size": width, "intermediate_size": 4 * width}
    return {**sizes, "num_hidden_layers": layers, "num_attention_heads": heads}


MODELS: Mapping[str, tuple[Model, Tokenizer]] = {
    "openai-community/gpt2": (gpt2, gpt2_tokenizer),
    "lvwerra/gpt2-imdb": (gpt2, gpt2_tokenizer),
    "google-t5/t5-base": (t5_base, t5_tokenizer),
    "lvwerra/distilbert-imdb": (partial(distilbert, labels=2), bert_tokenizer),
    "FacebookAI/roberta-large": (partial(roberta, width=1024, layers=24), roberta_tokenizer),
    "FacebookAI/roberta-large-mnli": (partial(roberta, width=1024, layers=24, labels=3), roberta_tokenizer),
    "rajkumarrrk/roberta-daily-dialog-intent-classifier": (
        partial(roberta, width=768, layers=12, labels=4),
        roberta_tokenizer,
    ),
    "Elron/bleurt-base-128": (partial(bert, labels=1), bert_tokenizer),
    "google-bert/bert-base-multilingual-cased": (partial(bert, vocabulary=119547), bert_tokenizer),
}


def write_model(name: str, folder: Path, tokenizers: Path, tiny: bool) -> Path:
    """Write the stand-in of a hub model, once, and return its folder."""
    written = folder / name.rpartition("/")[2]
    if not written.exists():
        make, tokenizer = MODELS[name]
        torch.manual_seed(0)
        make(tiny).save_pretrained(written)
        tokenizer(tokenizers).save_pretrained(written)
    return written


# --- tasks -----------------------------------------------------------------------------------------------------------


def write_task(name: str, folder: Path, data: Path, tiny: bool) -> None:
    """Write a task of the suite grue with the stand-ins of its models and the slices of its data."""
    table: Any = tomllib.loads((suite_folder("grue") / f"{name}.toml").read_text(encoding="utf-8"))
    suite = folder / "suite"
    counts = {split: write_rows(name, split, data / name, suite / name) for split in SPLITS}
    paths = {split: f"{name}/{split}.jsonl" for split in SPLITS}
    table["suite"] = "suite"
    table["data"]["sources"] = [{"kind": "local", "files": paths}]
    table["data"]["splits"] = {split: {"source": split, "rows": rows} for split, rows in counts.items()}
    table["backbone"].pop("warm_start", None)
    for options in (table["backbone"], *(metric.get("options", {}) for metric in table["metrics"])):
        if "model" in options:
            written = write_model(options["model"], folder / "models", data / "tokenizers", tiny)
            options["model"] = str(written.resolve())
        if tiny and "layer" in options:
            options["layer"] = TINY_LAYERS
    files.write_toml(suite / f"{name}.toml", table)


def write_rows(name: str, split: str, data: Path, folder: Path) -> int:
    """Write the rows of a split in the data set's columns, and return their number."""
    rows = list(islice(read_folder(name, data, SLICES[name][SPLITS[split]]), ROWS))
    if split == "train":
        rows = list(islice(cycle(rows), ROWS))  # a format numbers the ids of repeated rows
        if name == "totto":  # whose training rows have one sentence each, unlike those of the slice
            rows = [{**row, "sentence_annotations": row["sentence_annotations"][:1]} for row in rows]
    folder.mkdir(parents=True, exist_ok=True)
    files.write_jsonl(folder / f"{split}.jsonl", rows)
    return len(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the stand-ins of the chosen tasks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of the slices and tokenizers")
    parser.add_argument("--tasks", nargs="+", choices=task_names("grue"), default=task_names("grue"))
    parser.add_argument("--tiny", action="store_true", help="models of two narrow layers, to try the programs")
    options = parser.parse_args(arguments)
    for name in options.tasks:
        write_task(name, options.folder, options.data, options.tiny)
        print(options.folder / "suite" / f"{name}.toml")


if __name__ == "__main__":
    main()
