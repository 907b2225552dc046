"""Peak memory and time of an update's forward and backward pass: `python benchmarks/log_probs.py` prints the table.

GPT-2, 2 layers x 256, V = 50,257, 1,024 response tokens, one thread. Each line has its own process; the peak is the
memory above the level before the pass, gradients included. Linux only.
"""

import subprocess
import sys
import time
from pathlib import Path

VOCABULARY, ROWS, LENGTH = 50_257, 32, 32
WAYS = {
    "log_softmax, then the drawn tokens": "plain",
    "grue, all logits at once": "0",
    "grue, log_prob_chunk = 256": "256",
    "grue, log_prob_chunk = 128": "128",
    "grue, log_prob_chunk = 64": "64",
}


def memory(key: str) -> float:
    """Return a figure of this process's memory, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) / 1024


def measure(way: str) -> None:
    """Run one pass and print its CPU seconds and its peak in MiB."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from grue.lm.forward import forward
    from grue.lm.log_probs import token_log_probs
    from grue.lm.tokens import Tokens

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_layer=2, n_embd=256, n_head=4, n_positions=128, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config).eval()
    everything = torch.ones(ROWS, LENGTH, dtype=torch.bool)
    prompts, responses = (Tokens(torch.randint(0, VOCABULARY, (ROWS, LENGTH)), everything) for _ in range(2))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def step(prompts: Tokens, responses: Tokens) -> None:
        if way == "plain":
            logits, _ = forward(model, prompts, responses)
            chosen = torch.log_softmax(logits.float(), -1).gather(-1, responses.ids.unsqueeze(-1))
        else:
            chosen = token_log_probs(model, prompts, responses, 1.0, chunk=int(way)).restricted
        chosen.sum().backward()

    one = torch.tensor([0])
    step(prompts.rows(one), responses.rows(one))  # what is set up once is not counted
    Path("/proc/self/clear_refs").write_text("5")
    before, started = memory("VmRSS"), time.process_time()
    step(prompts, responses)
    print(time.process_time() - started, memory("VmHWM") - before)


def main() -> None:
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        return
    print(f"{'':36} {'CPU s':>6} {'peak MiB':>9} {'of the first':>13}")
    first = 0.0
    for name, way in WAYS.items():
        command = [sys.executable, __file__, way]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, peak = (float(part) for part in output.split()[-2:])
        first = first or peak
        print(f"{name:36} {seconds:6.2f} {peak:9.0f} {peak / first:13.0%}")


if __name__ == "__main__":
    main()
