"""Arithmetic and traffic of transformers: FLOPs of passes, from nothing but the shapes of their matrices.

A product of [m, k] and [k, n] is 2·m·k·n FLOPs. Softmax, norms and activations are left out: less than a per cent at
these widths. Attention counts every pair of positions, as `torch.utils.flop_counter` does, also those that a causal
mask closes. A backward pass is twice its forward pass. `tests/docs/test_cost.py` holds it to torch's own counter.

P = prompt tokens, T = response tokens; every figure is of one sequence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

TRAIN = 3  # a forward and a backward pass, in forward passes
FISHER = 7  # TRPO's product with the Fisher matrix: forward, backward, two products along a direction, backward again


@dataclass(frozen=True, slots=True)
class Architecture:
    """A transformer's shape.

    Attributes:
        kind: "causal", "seq2seq" (as many decoder layers as encoder layers), or "encoder".
        width: Of the states.
        inner: Heads times the size of a head.
        feed_forward: Width of the feed-forward layer, which has two matrices.
        vocabulary: Rows of the embedding; a language head is tied to it.
        positions: Rows of learnt positions, 0 without.
    """

    name: str
    kind: Literal["causal", "seq2seq", "encoder"]
    layers: int
    width: int
    inner: int
    feed_forward: int
    vocabulary: int
    positions: int = 0

    @property
    def attention(self) -> int:
        """Weights of one attention block."""
        return 4 * self.width * self.inner

    @property
    def layer(self) -> int:
        """Weights of a layer with one attention block."""
        return self.attention + 2 * self.width * self.feed_forward

    @property
    def stepped(self) -> int:
        """Weights that a step of decoding reads: all layers of the decoder, and the head."""
        cross = self.attention // 2 if self.kind == "seq2seq" else 0  # keys and values of the prompt are kept
        return self.layers * (self.layer + cross) + self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """All weights but biases and norms."""
        decoder = self.layers * (self.layer + self.attention) if self.kind == "seq2seq" else 0
        return (self.vocabulary + self.positions) * self.width + self.layers * self.layer + decoder


GPT2 = Architecture("GPT-2", "causal", 12, 768, 768, 3072, 50_257, 1024)
T5_BASE = Architecture("T5-base", "seq2seq", 12, 768, 768, 3072, 32_128)

# The models that the task files of the suite name, without what stands before the slash.
ARCHITECTURES = {
    "gpt2": GPT2,
    "gpt2-imdb": GPT2,
    "t5-base": T5_BASE,
    "distilbert-imdb": Architecture("DistilBERT", "encoder", 6, 768, 768, 3072, 30_522, 512),
    "roberta-daily-dialog-intent-classifier": Architecture("RoBERTa-base", "encoder", 12, 768, 768, 3072, 50_265, 514),
    "roberta-large": Architecture("RoBERTa-large", "encoder", 24, 1024, 1024, 4096, 50_265, 514),
    "roberta-large-mnli": Architecture("RoBERTa-large", "encoder", 24, 1024, 1024, 4096, 50_265, 514),
    "bert-base-multilingual-cased": Architecture("mBERT", "encoder", 12, 768, 768, 3072, 119_547, 512),
    "bleurt-base-128": Architecture("BLEURT-base", "encoder", 12, 768, 768, 3072, 30_522, 512),
}


def architecture(model: str) -> Architecture:
    """Return the architecture of a model that a task file names.

    Raises:
        SystemExit: It is not known here.
    """
    name = model.rpartition("/")[2]
    if name not in ARCHITECTURES:
        raise SystemExit(f"{model}: add its shape to ARCHITECTURES in {__file__}.")
    return ARCHITECTURES[name]


def layers_flops(model: Architecture, tokens: float) -> float:
    """Return the FLOPs of all layers over tokens that attend to each other, prompt or text alike."""
    return model.layers * (2 * tokens * model.layer + 4 * tokens**2 * model.inner)


def head_flops(model: Architecture, tokens: float) -> float:
    """Return the FLOPs of the logits of some tokens."""
    return 2 * tokens * model.width * model.vocabulary


def forward_flops(model: Architecture, prompt: float, response: float, head: bool = True) -> float:
    """Return the FLOPs of scoring a response behind a prompt; without the head, of a critic's pass."""
    logits = head_flops(model, response) if head else 0.0
    if model.kind == "causal":
        return layers_flops(model, prompt + response) + logits
    cross = model.layers * (model.attention * (response + prompt) + 4 * response * prompt * model.inner)
    return layers_flops(model, prompt) + layers_flops(model, response) + cross + logits


def prefill_flops(model: Architecture, prompt: float) -> float:
    """Return the FLOPs of reading the prompt before the first token is drawn."""
    if model.kind == "causal":
        return layers_flops(model, prompt)
    return layers_flops(model, prompt) + model.layers * model.attention * prompt


def step_flops(model: Architecture, prompt: float, before: float) -> float:
    """Return the FLOPs of drawing one token with a cache, `before` of the response being there."""
    return 2 * model.stepped + 4 * model.layers * model.inner * (prompt + before)


def cache_bytes(model: Architecture, tokens: float, size: int = 4) -> float:
    """Return the bytes of keys and values of some tokens in all layers."""
    return 2 * model.layers * model.inner * tokens * size


# --- what was measured ----------------------------------------------------------------------------------------------


def iteration_flops(setting: Mapping[str, Any]) -> dict[str, float]:
    """Return phase → FLOPs of one iteration of a measured row."""
    model = GPT2 if setting["family"] == "causal" else T5_BASE
    prompt, response, rows = setting["prompt"], setting["response"], setting["rollouts"]
    drawn = sum(step_flops(model, prompt, before) for before in range(response))
    both = [forward_flops(model, prompt, response, head) for head in (True, False)]
    return {
        "generation": rows * (prefill_flops(model, prompt) + drawn),
        "scoring": rows * (2 * both[0] + both[1]),
        "update": rows * setting["epochs"] * TRAIN * sum(both),
    }


def generation_bytes(setting: Mapping[str, Any]) -> float:
    """Return the bytes that the steps of generation read."""
    model = GPT2 if setting["family"] == "causal" else T5_BASE
    cache = setting["rollouts"] * cache_bytes(model, setting["prompt"] + 1.5 * setting["response"])
    return float(setting["response"] * (4 * model.stepped + cache))
