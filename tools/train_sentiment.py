"""Train the adapter that makes MiniLM the sentiment classifier `small:sentiment`.

    python tools/train_sentiment.py FOLDER_OF_IMDB --out FOLDER

Low-rank adapters (Hu et al. 2022) on all linear layers, and a head. Some 7,000 reviews of IMDB's training split are
read once, as passages of 32 to 160 words, since that is what a prompt with its continuation is; one of twelve is read
whole. What is kept is float16: 0.7 MB. Some ten minutes of one core (estimated); an interrupted run resumes.
"""

import math
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoTokenizer, BertForSequenceClassification

from grue.data.sets.imdb import read_folder, words_of
from grue.lm.folder import locate_model

RANK, ALPHA = 8, 16
STEPS = 200
RATE = 1e-3
SHARES = {0: 0.0, 17: 1.0, 120: 0.678, STEPS: 0.0}
"""Step → share of the rate, linear between."""
TOKENS = 4096  # padding included, in a batch
REVIEWS = 12_000  # in some 340 batches of texts of one length; those of the steps are read
WHOLE = 1 / 12  # share of the reviews that are read whole
WINDOW = (32, 160)  # words of a passage
LONGEST = 512  # tokens that MiniLM reads
SAVED_EVERY = 20  # steps

Batch = tuple[list[list[int]], list[int]]


@click.command()
@click.argument("imdb", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to write to.")
@click.option("--encoder", default="small:minilm", show_default=True, help="MiniLM.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the passages, their order and A.")
def main(imdb: Path, out: Path, encoder: str, seed: int) -> None:
    """Train on the training split of IMDB, unpacked in the folder IMDB."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    folder = locate_model(encoder)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = get_peft_model(
        BertForSequenceClassification.from_pretrained(folder, num_labels=2, trust_remote_code=False).eval(),
        LoraConfig(
            r=RANK, lora_alpha=ALPHA, target_modules=["query", "key", "value", "dense"], modules_to_save=["classifier"]
        ),
    )
    learned = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    optimizer = torch.optim.AdamW(learned.values(), lr=RATE, weight_decay=0.01)
    batches = batches_of(tokenizer, [*read_folder(imdb, "train")], random.Random(seed))[:STEPS]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    state, done = out / "state.pt", 0
    out.mkdir(parents=True, exist_ok=True)
    if state.exists():
        saved = torch.load(state, weights_only=True)
        done = saved["step"]
        model.load_state_dict(saved["weights"], strict=False)
        optimizer.load_state_dict(saved["optimizer"])
        schedule.load_state_dict(saved["schedule"])
    began, loss_sum, right, count = time.monotonic(), 0.0, 0, 0
    for step in range(done, len(batches)):
        ids, mask, labels = tensors(batches[step], tokenizer.pad_token_id)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=ids, attention_mask=mask).logits.float()
        loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learned.values(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        loss_sum, right = loss_sum + float(loss) * len(labels), right + int((logits.argmax(1) == labels).sum())
        count += len(labels)
        if (step + 1) % SAVED_EVERY == 0 or step + 1 == len(batches):
            weights = {name: parameter.detach() for name, parameter in learned.items()}
            kept = {"step": step + 1, "weights": weights, "optimizer": optimizer.state_dict()}
            torch.save(kept | {"schedule": schedule.state_dict()}, out / "state.new")
            (out / "state.new").replace(state)
            seconds = time.monotonic() - began
            told = f"loss {loss_sum / count:.3f}, accuracy {right / count:.3f} before learning from it"
            click.echo(f"step {step + 1} of {len(batches)}, {seconds:.0f} s: {told}")
            loss_sum, right, count = 0.0, 0, 0
    save_file(parts(learned), out / "sentiment.safetensors")


def rate(step: int) -> float:
    """Return the share of the rate at a step."""
    return float(np.interp(step, [*SHARES], [*SHARES.values()]))


def batches_of(tokenizer: Any, rows: Sequence[Any], dice: random.Random) -> list[Batch]:
    """Return texts as ids with their labels, in batches of similar length and in no order."""
    rows = dice.sample(rows, REVIEWS)
    texts = [passage(words_of(row["text"]), dice) for row in rows]
    tokenizer.truncation_side = "left"  # as the metric cuts
    encoded = tokenizer(texts, truncation=True, max_length=LONGEST)["input_ids"]
    order = sorted(range(len(rows)), key=lambda index: (len(encoded[index]), dice.random()))
    found: list[Batch] = []
    for index in reversed(order):
        width = len(found[-1][0][0]) if found else 0
        if not found or width * (len(found[-1][0]) + 1) > TOKENS:
            found.append(([], []))
        found[-1][0].append(encoded[index])
        found[-1][1].append(rows[index]["label"])
    dice.shuffle(found)
    return found


def passage(words: Sequence[str], dice: random.Random) -> str:
    """Return a passage of a review, or now and then the whole of it."""
    if dice.random() < WHOLE:
        return " ".join(words)
    length = round(math.exp(dice.uniform(*map(math.log, WINDOW))))
    start = dice.randint(0, max(0, len(words) - length))
    return " ".join(words[start : start + length])


def tensors(batch: Batch, pad: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ids and mask, [texts, length], and labels."""
    rows, labels = batch
    width = max(map(len, rows))
    ids = torch.tensor([row + [pad] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return ids, mask, torch.tensor(labels)


def parts(learned: dict[str, torch.nn.Parameter]) -> dict[str, torch.Tensor]:
    """Return the factors of each layer and the head as `grue.lm.packaged` reads them."""
    endings = {".lora_A.default.weight": ".A", ".lora_B.default.weight": ".B", ".modules_to_save.default": ""}
    found = {}
    for name, parameter in learned.items():
        place = name.removeprefix("base_model.model.")
        for theirs, ours in endings.items():
            place = place.replace(theirs, ours)
        found[place] = (parameter.detach() * (ALPHA / RANK if place.endswith(".B") else 1)).half().contiguous()
    return found


if __name__ == "__main__":
    main()
