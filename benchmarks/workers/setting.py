"""What both sides of the trainer's benchmark share: the setting, the random model, the prompts and the protocol.

Each side is its own process, since TRL needs its own environment. Once its trainer is built it answers `ready`; from
then on each line `go` on its standard input runs one iteration, answered by one line of JSON; `profile` also reports
the most expensive operators (grue's side only). The sides take turns, so that noise on the machine affects all of them.
"""

import json
import math
import os
import random
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

PAD, EOS = 0, 1
NATS = 3.5  # about the entropy of a trained model's distribution; the cost of a mask depends on it
EXAMPLES = 256


@dataclass(frozen=True)
class Setting:
    """One measured configuration: sizes, algorithm and machine.

    Attributes:
        family: "causal" is GPT-2, "seq2seq" T5, "gemma" Gemma 3, with the 4 query heads of its smallest.
        model: Folder of a pretrained causal model in place of a random one, of the setting's vocabulary, with 0 as the
            padding token and 1 as the end.
        micro_batch: Sequences in one forward pass.
        options: Settings of grue's configuration beyond those named here.
    """

    family: str = "causal"
    model: str = ""
    layers: int = 4
    width: int = 256
    heads: int = 4
    vocabulary: int = 5000
    prompt: int = 32
    response: int = 32
    rollouts: int = 32
    epochs: int = 4
    minibatches: int = 1
    micro_batch: int = 32
    algorithm: str = "ppo"
    precision: str = "float32"
    device: str = "cpu"
    threads: int = 1
    options: dict[str, Any] = field(default_factory=dict)


def read_setting() -> Setting:
    """Return the setting that the command line carries as JSON, and set the number of threads."""
    setting = Setting(**json.loads(sys.argv[1]))
    torch.set_num_threads(setting.threads)
    return setting


def make_model(setting: Setting) -> PreTrainedModel:
    """Return the pretrained model, or a random one as peaked as a trained one, which rarely ends a text."""
    if setting.model:
        return (
            AutoModelForCausalLM.from_pretrained(setting.model, dtype=torch.float32, trust_remote_code=False)
            .eval()
            .to(setting.device)
        )
    torch.manual_seed(0)
    size = setting.vocabulary
    if setting.family == "causal":
        config = GPT2Config(
            vocab_size=size, n_layer=setting.layers, n_embd=setting.width, n_head=setting.heads,
            n_positions=setting.prompt + setting.response, bos_token_id=EOS, eos_token_id=EOS, pad_token_id=PAD,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )  # fmt: skip
        model = GPT2LMHeadModel(config).eval()
        _sharpen(model, model.transformer.ln_f.weight.data, {})
    elif setting.family == "gemma":
        gemma = Gemma3TextConfig(
            vocab_size=size, num_hidden_layers=setting.layers, hidden_size=setting.width,
            intermediate_size=16 * setting.width // 5, num_attention_heads=setting.heads, num_key_value_heads=1,
            head_dim=setting.width // setting.heads // 10 * 16, bos_token_id=EOS, eos_token_id=EOS, pad_token_id=PAD,
        )  # fmt: skip
        model = Gemma3ForCausalLM(gemma).eval()
        _sharpen(model, model.model.norm.weight.data.add_(1.0), {})
        model.model.norm.weight.data.sub_(1.0)  # its norm multiplies by one more than the weight
    else:
        config = T5Config(
            vocab_size=size, d_model=setting.width, d_kv=setting.width // setting.heads, d_ff=4 * setting.width,
            num_layers=setting.layers, num_heads=setting.heads, dropout_rate=0.0,
            pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD,
        )  # fmt: skip
        model = T5ForConditionalGeneration(config).eval()
        start = {"decoder_input_ids": torch.randint(2, size, (4, 16))}
        _sharpen(model, model.decoder.final_layer_norm.weight.data, start)
    return model.to(setting.device)


@torch.no_grad()
def _sharpen(model: PreTrainedModel, last_norm: Tensor, more: dict[str, Tensor]) -> None:
    """Scale the logits to an entropy of about NATS, and give the special tokens a logit of 0, far below the likely."""
    size = model.config.vocab_size
    model.get_input_embeddings().weight.data[: EOS + 1] = 0.0
    # Random signs, or tied embeddings would make every token predict itself.
    last_norm.mul_(torch.where(torch.rand(last_norm.shape) < 0.5, -1.0, 1.0))
    logits = model(input_ids=torch.randint(2, size, (4, 16)), **more).logits
    # Normal logits of variance s² have an entropy of about ln V − s²/2.
    last_norm.mul_(math.sqrt(2.0 * (math.log(size) - NATS)) / logits.std())


def make_tokenizer(setting: Setting) -> PreTrainedTokenizerFast:
    """Return a tokenizer with one word a token: w2 is 2."""
    vocabulary = {f"w{index}": index for index in range(setting.vocabulary)}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="w2"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # As whole words only: w1 would be found in w12.
    special = {"pad_token": "w0", "eos_token": "w1", "unk_token": "w2"}
    special_tokens = {name: AddedToken(word, single_word=True, special=True) for name, word in special.items()}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **special_tokens)


def prompts(setting: Setting) -> list[list[int]]:
    """Return the token ids of all prompts, each of the same length."""
    chance = random.Random(0)
    return [chance.choices(range(2, setting.vocabulary), k=setting.prompt) for _ in range(EXAMPLES)]


class Peer:
    """A side's end of the line to the driver, and the clock of its iterations.

    Args:
        setting: Says on which device the work is done.
    """

    def __init__(self, setting: Setting) -> None:
        self.cuda = setting.device == "cuda"
        # Libraries print to stdout: only answers may reach the driver.
        self.out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.at_rest = pages * resource.getpagesize()
        self.marks: list[tuple[str, float, float]] = []

    def _mark(self, name: str) -> None:
        if self.cuda:
            torch.cuda.synchronize()
        self.marks.append((name, time.process_time(), time.perf_counter()))

    def tell(self, **answer: Any) -> None:
        """Send one line to the driver."""
        print(json.dumps(answer), file=self.out, flush=True)

    def wait(self) -> str:
        """Wait for `go` or `profile`, start the clock and return the word; exit if the driver is done."""
        word = sys.stdin.readline().strip()
        if not word:
            raise SystemExit(0)
        self.marks = []
        self._mark("start")
        return word

    def mark(self, name: str) -> None:
        """Note that a phase of the iteration is over."""
        self._mark(name)

    def done(self, **more: Any) -> None:
        """Answer with the seconds of each phase, and the most memory that the process held so far."""
        phases = {
            name: {"cpu": cpu - before_cpu, "wall": wall - before_wall}
            for (_, before_cpu, before_wall), (name, cpu, wall) in zip(self.marks, self.marks[1:], strict=False)
        }
        total = {clock: sum(phase[clock] for phase in phases.values()) for clock in ("cpu", "wall")}
        self.tell(phases=phases, **total, peak_mib=self._peak(), **more)

    def _peak(self) -> float:
        """Return MiB: on a GPU what was allocated there, else resident memory less what the imports take."""
        if self.cuda:
            return torch.cuda.max_memory_allocated() / 2**20
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self.at_rest) / 2**20
