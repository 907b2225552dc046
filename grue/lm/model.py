"""Properties of a language model, causal or encoder-decoder: special tokens, head, sizes, frozen parts, dropout."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue.errors import ConfigError


def is_seq2seq(model: PreTrainedModel) -> bool:
    """Whether the model has an encoder of its own for the prompt."""
    return bool(model.config.is_encoder_decoder)


def eos_id(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the id that ends a response; a ConfigError without one, since the policy could never stop."""
    if tokenizer.eos_token_id is None:
        raise ConfigError(f"{display_name(model)}: the tokenizer has no end-of-text token; set `eos_token` in it.")
    return int(tokenizer.eos_token_id)


def start_id(model: PreTrainedModel) -> int:
    """Return the id that an encoder-decoder's decoder reads first; it is not part of a response.

    T5Gemma keeps it as its decoder's `bos_token_id`, other families as `decoder_start_token_id`. It is a ConfigError if
    the configuration does not name it.
    """
    config, place, examples = model.config, "decoder_start_token_id", "0 for T5, 2 for BART"
    if config.model_type in ("t5gemma", "t5gemma2"):
        config, place, examples = config.decoder, "bos_token_id", "2 for T5Gemma"
    start = getattr(config, place, None)
    if start is None:
        where = "the decoder's part of its config.json" if config is not model.config else "its config.json"
        raise ConfigError(f"{display_name(model)}: set `{place}` in {where} ({examples}).")
    return int(start)


def language_head(model: PreTrainedModel) -> nn.Linear:
    """Return the layer that maps states to logits; its weight is [V, H]. A ConfigError if the model has none."""
    head: nn.Linear | None = model.get_output_embeddings()
    if head is None:
        raise ConfigError(
            f"{display_name(model)}: {type(model).__name__} has no language head, so it cannot generate; load it with "
            "AutoModelForCausalLM or AutoModelForSeq2SeqLM, from a folder that was saved with its head."
        )
    return head


def vocabulary_size(model: PreTrainedModel) -> int:
    """Return V, the number of rows of the language head."""
    return language_head(model).weight.shape[0]


WIDE = 2**14
"""V from which unneeded logits are not computed; below, that saves little and would change rounding."""


def is_wide(model: PreTrainedModel) -> bool:
    """Whether the vocabulary is so large that its logits take most of a pass."""
    return vocabulary_size(model) >= WIDE


def hidden_size(model: PreTrainedModel) -> int:
    """Return H, the width of the states that the language head reads (not always that of the layers: OPT-350M)."""
    return language_head(model).weight.shape[1]


def display_name(model: PreTrainedModel) -> str:
    """Return the model's name in messages."""
    return model.name_or_path or f"the {type(model).__name__}"


def freeze(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of the model that is never trained: the reference, or the masking policy."""
    frozen: PreTrainedModel = copy.deepcopy(model).requires_grad_(False).eval()
    return frozen


@contextmanager
def cast_once(*models: PreTrainedModel | None) -> Iterator[None]:
    """Let autocast cast frozen weights once per block instead of at each step; for passes without gradients.

    It caches casts only of weights that require a gradient, which frozen weights (of an adapted model, say) do not.
    """
    frozen = [p for model in models if model is not None for p in model.parameters() if not p.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def freeze_encoder(model: PreTrainedModel) -> None:
    """Exclude the encoder from training, so that `encode` can be computed once; a ConfigError if there is none.

    Embeddings that it shares with the decoder and the head are excluded, too.
    """
    if not is_seq2seq(model):
        raise ConfigError(
            f"freeze_encoder: {display_name(model)} is a causal model and has no encoder; set it to false."
        )
    model.get_encoder().requires_grad_(False)


def choose_attention(model: PreTrainedModel) -> None:
    """Use T5's eager attention when training on a CPU.

    Its position bias is trained, and the fused CPU kernel has no backward pass for a bias.
    """
    if model.config.model_type in ("t5", "mt5") and model.device.type == "cpu":
        model.set_attn_implementation("eager")


def recomputes(model: nn.Module) -> bool:
    """Whether the model's layers recompute their activations in the backward pass, in training mode."""
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def dropout_rates(module: nn.Module) -> list[str]:
    """Return the attributes that hold a dropout rate above 0: the module's own, or one it passes to a function."""
    return [key for key in dropout_places(module) if getattr(module, key) > 0]


def dropout_places(module: nn.Module) -> list[str]:
    """Return the attributes that hold a dropout rate, 0 included."""
    numbers = [key for key, value in vars(module).items() if isinstance(value, float | int)]
    return [key for key in numbers if "drop" in key or (key == "p" and "Dropout" in type(module).__name__)]


def assert_no_dropout(model: nn.Module) -> None:
    """Fail if dropout is active: rollouts and updates must see the same policy (paper §5.4)."""
    active = [name for name, module in model.named_modules() if module.training and dropout_rates(module)]
    assert not active, f"dropout is active in {active[:3]}"
