"""What T5's attention costs in supervised training on a CPU: `python benchmarks/attention.py`.

Steps of `mini:seq2seq` on a task's first training pairs, with the fused kernel and with attention step by step in turn,
one thread. CPU seconds of forward and backward passes.
"""

import argparse
import time

import torch

import grue
from grue.lm.forward import forward
from grue.lm.load import load_language_model
from grue.lm.tokens import encode_prompts, encode_responses
from grue.task_files import load_task

BATCH, STEPS, ROUNDS = 20, 25, 3


def main() -> None:
    """Print seconds a thousand pairs, and their ratio, for each task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", default="commongen,narrativeqa")
    torch.set_num_threads(1)
    print("| task | fused: s per 1,000 pairs | step by step | ratio |", "|---|---|---|---|", sep="\n")
    for name in parser.parse_args().tasks.split(","):
        seconds = dict.fromkeys(("sdpa", "eager"), 0.0)
        for _ in range(ROUNDS):
            for kind in seconds:
                seconds[kind] += passes(name, kind)
        pairs = ROUNDS * STEPS * BATCH / 1000
        fused, plain = (total / pairs for total in seconds.values())
        print(f"| {name} | {fused:.2f} | {plain:.2f} | {fused / plain:.2f} |")


def passes(name: str, kind: str) -> float:
    """Return the CPU seconds of the steps with one kind of attention."""
    task = load_task(name, "mini")
    model, tokenizer = load_language_model("seq2seq", "mini:seq2seq")
    model.set_attn_implementation(kind)
    examples = grue.examples(name, split="train")[: (STEPS + 1) * BATCH]
    seconds = 0.0
    for start in range(0, len(examples), BATCH):
        batch = examples[start : start + BATCH]
        prompts = encode_prompts(model, tokenizer, [example.prompt for example in batch], task.prompt)
        texts = [example.references[0] for example in batch]
        responses = encode_responses(model, tokenizer, texts, task.rollout.max_new_tokens)
        begun = time.process_time()
        logits, _ = forward(model, prompts, responses)
        chosen = logits.log_softmax(-1).gather(-1, responses.ids.unsqueeze(-1)).squeeze(-1)
        (-chosen[responses.mask].mean()).backward()
        seconds += (time.process_time() - begun) * (start > 0)  # what is set up once is not counted
    return seconds


if __name__ == "__main__":
    main()
