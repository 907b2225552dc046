"""Peak memory and time of an update's forward and backward pass: `python benchmarks/log_probs.py` prints the table.

GPT-2, 2 layers x 256, V = 50,257, 32 prompts and responses of 32 tokens, one thread; with `--gemma` Gemma 3 270M,
V = 262,144, responses of 20 tokens. Each line has its own process, which makes the pass three times: the seconds are
the least, the peak is the memory above the level before the first pass, gradients included. Linux only.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

VOCABULARY, ROWS, LENGTH, PASSES = 50_257, 32, 32, 3
WAYS = {
    "log_softmax, then the drawn tokens": "plain",
    "grue, all logits at once": "0",
    "grue, log_prob_chunk = 256": "256",
    "grue, log_prob_chunk = 128": "128",
    "grue, log_prob_chunk = 64": "64",
    "grue, 1,024 open tokens, all logits at once": "masked",
}


def memory(key: str) -> float:
    """Return a figure of this process's memory, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) / 1024


def measure(way: str, gemma: bool) -> None:
    """Run the passes and print their CPU seconds and their peak in MiB."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from grue.lm.distributions import pack_bits
    from grue.lm.forward import forward
    from grue.lm.load import load_language_model
    from grue.lm.log_probs import token_log_probs
    from grue.lm.model import vocabulary_size
    from grue.lm.tokens import Tokens

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if gemma:
        model, _ = load_language_model("causal", "small:gemma-3-270m")
    else:
        config = GPT2Config(
            vocab_size=VOCABULARY, n_layer=2, n_embd=256, n_head=4, n_positions=128, bos_token_id=0, eos_token_id=0
        )
        model = GPT2LMHeadModel(config).eval()
    size, length = vocabulary_size(model), 20 if gemma else LENGTH
    prompts, responses = (
        Tokens(torch.randint(0, size, (ROWS, each)), torch.ones(ROWS, each, dtype=torch.bool))
        for each in (LENGTH, length)
    )
    support = None
    if way == "masked":
        opened = torch.zeros(ROWS, length, size, dtype=torch.bool)
        opened[..., torch.randperm(size)[:1024]] = True
        support = pack_bits(opened.scatter_(-1, responses.ids.unsqueeze(-1), True))
        del opened
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def step(rows: "Tensor") -> None:
        asked = (model, prompts.rows(rows), responses.rows(rows))
        if way == "plain":
            logits, _ = forward(*asked)
            chosen = torch.log_softmax(logits.float(), -1).gather(-1, asked[2].ids.unsqueeze(-1))
        else:
            opened = None if support is None else support[rows]
            chunk = int(way) if way.isdigit() else 0
            scores = token_log_probs(*asked, 1.0, opened, chunk=chunk, want_entropy=support is not None)
            chosen = scores.restricted if scores.entropy is None else scores.restricted + scores.entropy
        chosen.sum().backward()

    step(torch.tensor([0]))  # what is set up once is not counted
    Path("/proc/self/clear_refs").write_text("5")
    before, seconds, peak = memory("VmRSS"), [], 0.0
    for _ in range(PASSES):
        started = time.process_time()
        step(torch.arange(ROWS))
        seconds.append(time.process_time() - started)
        peak = peak or memory("VmHWM") - before
    print(min(seconds), peak)


def main() -> None:
    gemma = "--gemma" in sys.argv
    if ways := [word for word in sys.argv[1:] if word != "--gemma"]:
        measure(ways[0], gemma)
        return
    print(f"{'':44} {'CPU s':>6} {'peak MiB':>9} {'of the first':>13}")
    first = 0.0
    for name, way in WAYS.items():
        command = [sys.executable, __file__, way, *["--gemma"] * gemma]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, peak = (float(part) for part in output.split()[-2:])
        first = first or peak
        print(f"{name:44} {seconds:6.2f} {peak:9.0f} {peak / first:13.0%}", flush=True)


if __name__ == "__main__":
    main()
