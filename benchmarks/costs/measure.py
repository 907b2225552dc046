"""What `cost.py --measure` measures: the machine's peak, the trainer's share of it, the host's seconds, and texts.

The trainer is measured by the processes of `trainer.py`: GPT-2 124M and T5-base with random weights at the paper's
lengths, and the same depth at a width of 24, where nothing is left but what the host does for a pass.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import trainer
from costs.flops import GPT2, T5_BASE, iteration_flops
from costs.lengths import quantiles
from transformers import GenerationConfig
from workers.setting import Setting, random_model

from grue.data.load import load_examples
from grue.errors import DataError
from grue.evaluation.scoring import score_predictions
from grue.lm.load import load_tokenizer
from grue.metrics.neural.batching import seam
from grue.metrics.rewards import make_reward
from grue.metrics.summac import LONGEST, MOST, informative
from grue.records import Example, Prediction
from grue.task_files import load_task, task_names
from grue.tasks import Task

ASK_MODELS = {"sentiment", "perplexity", "intent", "summac", "bertscore", "bleurt"}
WITHOUT_A_MODEL = {"spice"}  # a Java program of its own; not counted
SCORED, WARMING = 100, 5  # texts whose scoring is timed, and some before
TOKENIZED = 500
BEAMS = 4
TINY = {"width": 24, "vocabulary": 512, "prompt": 8, "response": 16, "rollouts": 1, "micro_batch": 1}


# --- the trainer -----------------------------------------------------------------------------------------------------


def settings(device: str, threads: int) -> dict[str, Setting]:
    """Return what is measured: the paper's shapes, and the same depth without width."""
    base = Setting(
        layers=12, width=768, heads=12, epochs=1, device=device, threads=threads, options={"value_model": "separate"}
    )
    rows = 4 if device == "cpu" else 64
    gpt2 = replace(base, vocabulary=GPT2.vocabulary, prompt=64, response=48, rollouts=rows, micro_batch=rows)
    t5 = replace(gpt2, family="seq2seq", vocabulary=T5_BASE.vocabulary, prompt=20, response=20)
    summaries = replace(t5, prompt=512, response=100, rollouts=max(1, rows // 4), micro_batch=max(1, rows // 4))
    if device != "cpu":
        gpt2, t5, summaries = (replace(each, precision="bfloat16") for each in (gpt2, t5, summaries))
    return {
        "PPO, GPT-2 124M, 64 + 48 tokens": gpt2,
        "NLPO, GPT-2 124M, 64 + 48 tokens": replace(gpt2, algorithm="nlpo"),
        "PPO, T5-base, 20 + 20 tokens": t5,
        "PPO, T5-base, 512 + 100 tokens": summaries,
        "no width, causal": replace(base, **TINY),
        "no width, seq2seq": replace(base, **TINY, family="seq2seq"),
    }


def machine_rates(device: str, threads: int, rounds: int) -> dict[str, Any]:
    """Return the machine's peak, the share of it that updates reach, the host's seconds, and the rows behind them."""
    rows, top = trainer_rows(device, threads, rounds), peak(device)
    return {"peak": top, "compute": compute_share(rows, top), "host": host_kinds(rows, beam_step(device)), "rows": rows}


def trainer_rows(device: str, threads: int, rounds: int) -> list[dict[str, Any]]:
    """Return the seconds of each phase of an iteration, for every setting, one process after the other."""
    rows = []
    for name, setting in settings(device, threads).items():
        count = 5 * rounds if name.startswith("no width") else rounds
        group = trainer.Group(name, name, (trainer.Row(name, "grue", setting),), count)
        answers, _ = trainer.measure(group, {"grue": sys.executable})
        line = trainer.summary(group, answers)[0]
        print(f"{name}: {json.dumps({key: line[key] for key in ('generation', 'scoring', 'update')})}", flush=True)
        rows.append({key: line[key] for key in ("row", "setting", "generation", "scoring", "update", "peak_mib")})
    return rows


def compute_share(rows: Sequence[Mapping[str, Any]], peak: Mapping[str, float]) -> float:
    """Return the share of the peak that the update of the longest texts reaches."""
    row = next(row for row in rows if row["row"].endswith("512 + 100 tokens"))
    reached = iteration_flops(row["setting"])["update"] / row["update"]
    return round(reached / peak[row["setting"]["precision"]], 3)


def host_kinds(rows: Sequence[Mapping[str, Any]], beam: float) -> dict[str, float]:
    """Return kind of pass → the host's seconds, from the rows without width.

    Scoring is three passes; an update is two models' forward and backward passes and the optimiser's step.
    """
    kinds = {}
    for row in rows:
        if row["row"].startswith("no width"):
            family = row["setting"]["family"]
            kinds[f"{family} decode"] = row["generation"] / row["setting"]["response"]
            kinds[f"{family} forward"] = row["scoring"] / 3
            kinds[f"{family} train"] = row["update"] / 2
    kinds["seq2seq beam"] = beam
    kinds["layer"] = kinds["causal forward"] / GPT2.layers
    return {kind: round(seconds, 6) for kind, seconds in kinds.items()}


# --- the machine -----------------------------------------------------------------------------------------------------


def clock(work: Callable[[], object], device: str, times: int = 5) -> float:
    """Return the least seconds of some work after a first time: a core's on a CPU, behind a synchronisation else."""

    def once() -> float:
        now = time.process_time if device == "cpu" else time.perf_counter
        start = now()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        return now() - start

    once()
    return min(once() for _ in range(times))


def peak(device: str) -> dict[str, float]:
    """Return FLOP/s of large matrix products in both precisions, and bytes/s of a large copy."""
    size = 2048 if device == "cpu" else 8192
    found = {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        if device == "cpu" and dtype is torch.bfloat16:
            found[name] = found["float32"]  # emulated on most processors; runs here are float32
            continue
        square = torch.randn(size, size, device=device, dtype=dtype)
        found[name] = 2 * size**3 / clock(lambda one=square: one @ one, device)  # type: ignore[misc]
    source, target = (torch.zeros(64 << 20, device=device) for _ in range(2))
    found["bandwidth"] = 2 * source.nbytes / clock(lambda: target.copy_(source), device)
    if device != "cpu":
        found["memory"] = float(torch.cuda.get_device_properties(0).total_memory)
    return found


@torch.no_grad()
def beam_step(device: str) -> float:
    """Return the host's seconds for a step of beam search, without width."""
    model = random_model(Setting(layers=12, heads=12, device=device, family="seq2seq", **TINY))
    steps = TINY["response"]
    config = GenerationConfig(
        num_beams=BEAMS, max_new_tokens=steps, min_new_tokens=steps, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0,
    )  # fmt: skip
    ids = torch.randint(2, TINY["vocabulary"], (1, TINY["prompt"]), device=device)
    return clock(lambda: model.generate(ids, generation_config=config), device) / steps


# --- texts -----------------------------------------------------------------------------------------------------------


def texts(data: Path, tokenizers: Path | None) -> dict[str, Any]:
    """Return the lengths of every task's texts, and what scoring them takes, from folders named after the tasks."""
    found = {}
    for name in task_names("grue"):
        task = load_task(name, "grue")
        split, examples = largest(task, data / name)
        tokenizer = load_tokenizer(tokenizer_of(task, tokenizers))
        found[name] = {"split": split, "examples": len(examples), **lengths(task, examples, tokenizer)}
        found[name] |= scoring_seconds(task, examples)
        print(f"{name}: {json.dumps(found[name])}", flush=True)
    return found


def tokenizer_of(task: Task, tokenizers: Path | None) -> str:
    """Return the backbone's tokenizer, or its folder's: gpt2 or t5-base."""
    family = "gpt2" if task.backbone.family == "causal" else "t5-base"
    return task.backbone.model if tokenizers is None else str(tokenizers / family)


def largest(task: Task, folder: Path) -> tuple[str, list[Example]]:
    """Return the split of which the folder holds most examples, and some of them.

    Raises:
        SystemExit: It holds none.
    """
    found: dict[str, Sequence[Example]] = {}
    for split in task.data.splits:
        try:
            found[split] = load_examples(task, split, folder, offline=True).examples
        except DataError as error:
            print(f"{task.name}: {error}", file=sys.stderr)
    if not found:
        raise SystemExit(f"{folder} holds no split of {task.name} in its original layout.")
    split = max(found, key=lambda name: len(found[name]))
    step = max(1, len(found[split]) // TOKENIZED)
    return split, list(found[split])[::step]


def lengths(task: Task, examples: Sequence[Example], tokenizer: Any) -> dict[str, Any]:
    """Return quantiles of the tokens that the trainer reads, and what SummaC makes of documents."""

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    end = 0 if task.backbone.family == "causal" else 1  # T5 puts its end token behind a prompt, too
    prompts = [min(task.prompt.max_tokens, count(each.prompt) + end) for each in examples]
    references = [(each, text) for each in examples for text in each.references]
    limit = task.rollout.max_new_tokens
    responses = [min(limit, count(seam(each.prompt, text)[1]) + 1) for each, text in references]
    found: dict[str, Any] = {
        "prompt": quantiles(prompts),
        "response": quantiles(responses),
        "references": round(len(references) / len(examples), 2),
    }
    if any(metric.name == "summac" for metric in task.metrics):
        found |= summac_pairs(examples, count)
    return found


def summac_pairs(examples: Sequence[Example], count: Callable[[str], int]) -> dict[str, float]:
    """Return how many pairs of sentences SummaC asks about for a reference, and how long they are."""
    pairs = tokens = 0
    for example in examples:
        premises = [count(text) for text in informative(str(example.meta["document"]))[:MOST]]
        for hypothesis in map(count, informative(example.references[0])):
            pairs += len(premises)
            tokens += sum(min(LONGEST, premise + hypothesis + 4) for premise in premises)
    return {"pairs": round(pairs / len(examples), 1), "pair": round(tokens / pairs, 1)}


def scoring_seconds(task: Task, examples: Sequence[Example]) -> dict[str, float]:
    """Return the core seconds that a text takes, by all metrics that ask no model and by the reward's.

    A text is half an example's reference and half its neighbour's: neither right nor quite wrong. Each is new to the
    metric, which may remember texts.
    """
    some = [example for example in examples if example.references][: SCORED + WARMING]
    texts = [crossed(one, other) for one, other in zip(some, [*some[1:], some[0]], strict=True)]
    words = [metric for metric in task.metrics if metric.name not in ASK_MODELS | WITHOUT_A_MODEL]
    terms = [term for term in task.reward.split(" + ") if not any(name in term for name in ASK_MODELS)]
    found = {"words": 0.0, "reward": 0.0}
    if words:

        def score(part: slice) -> object:
            answers = [Prediction(one.id, text) for one, text in zip(some[part], texts[part], strict=True)]
            return score_predictions(task, "test", some[part], answers, words, skip_unavailable=True)

        found["words"] = a_text(score, len(some))
    if terms:
        reward = make_reward(" + ".join(terms), task, some)
        found["reward"] = a_text(lambda part: reward(some[part], texts[part]), len(some))
    return found


def crossed(one: Example, other: Example) -> str:
    """Return the first half of an example's reference, and the second half of another's."""
    first, second = one.references[0].split(), other.references[0].split()
    return " ".join([*first[: (len(first) + 1) // 2], *second[len(second) // 2 :]])


def a_text(work: Callable[[slice], object], count: int) -> float:
    """Return the core seconds of one text, after some that are not counted."""
    work(slice(0, WARMING))
    start = time.process_time()
    work(slice(WARMING, count))
    return round((time.process_time() - start) / (count - WARMING), 6)
