"""How a model is made ready to learn: low-rank adapters, a frozen encoder, checkpointing, dropout off or on.

Adapters are put into the layers of the model itself (peft), which stays a `PreTrainedModel` with all that belongs to
one; peft comes with `pip install 'grue[lora]'`. A copy of an adapted model has adapters of its own.
"""

import copy
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.activations import NewGELUActivation
from transformers.pytorch_utils import Conv1D

from grue.errors import ConfigError, Unavailable
from grue.lm.log_probs import assert_head_is_separable
from grue.lm.model import dropout_places, dropout_rates, freeze_encoder, recomputes
from grue.lm.settings import ModelSettings


def adapt(model: PreTrainedModel, settings: ModelSettings, seed: int = 0) -> None:
    """Prepare a freshly loaded policy for training as the settings say; copies made of it later behave alike.

    Raises:
        ConfigError: The model cannot do what a setting asks for.
        Unavailable: peft is needed and not installed.
    """
    silence_dropout(model)
    fuse_activations(model)
    if settings.lora_rank:
        add_lora(model, settings.lora_rank, settings.lora_alpha, seed)
    if settings.freeze_encoder:
        freeze_encoder(model)
    if settings.gradient_checkpointing:
        enable_checkpointing(model)
    if settings.log_prob_chunk:
        assert_head_is_separable(model)


def fuse_activations(model: nn.Module) -> None:
    """Compute GPT-2's GELU in one kernel: the same function as transformers' chain of eight, up to rounding."""
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, NewGELUActivation):
                setattr(module, name, nn.GELU(approximate="tanh"))


# --- low-rank adapters -----------------------------------------------------------------------------------------------


def add_lora(model: PreTrainedModel, rank: int, alpha: float, seed: int = 0) -> None:
    """Put low-rank adapters beside all weight matrices but the language head's, and train nothing else.

    Hu et al. (2022): W becomes W + alpha/rank · BA. B starts at 0, so the model begins as it was; A is drawn with the
    seed.

    Raises:
        ConfigError: The model has no layers for them.
        Unavailable: peft is not installed.
    """
    try:
        from peft import LoraConfig
    except ImportError as error:
        raise Unavailable(
            f"lora_rank is {rank}, but peft is not installed: pip install 'grue[lora]', or set lora_rank = 0."
        ) from error
    head = model.get_output_embeddings()
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and module is not head
    }
    if not layers:
        raise ConfigError(f"lora_rank: {type(model).__name__} has no linear layers to adapt; set lora_rank = 0.")
    transposed = any(isinstance(module, Conv1D) for module in layers.values())
    settings: dict[str, Any] = {"r": rank, "lora_alpha": alpha, "fan_in_fan_out": transposed}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="fan_in_fan_out")  # a model with layers of both kinds
        warnings.filterwarnings("ignore", message=".*_pattern keys did not match")  # a model refused below
        torch.manual_seed(seed)
        model.add_adapter(LoraConfig(target_modules=list(layers), **settings))
    if _adapted_layers(model).keys() != layers.keys():  # peft rewrites the list for some mixtures of experts
        raise ConfigError(
            f"lora_rank: peft adapts other weights of {type(model).__name__} than its linear layers, in a form that "
            "cannot be merged; set lora_rank = 0."
        )


def _adapted_layers(model: nn.Module) -> dict[str, Any]:
    """Return the layers that carry an adapter, by name; none for a model without."""
    if not getattr(model, "_hf_peft_config_loaded", False):
        return {}
    from peft.tuners.tuners_utils import BaseTunerLayer

    return {name: module for name, module in model.named_modules() if isinstance(module, BaseTunerLayer)}


@contextmanager
def adapter_off(model: PreTrainedModel) -> Iterator[None]:
    """Turn the model into the one it was before its adapter, for the time of the block: the reference policy."""
    layers = _adapted_layers(model).values()
    assert layers, "the model has no adapter"
    learning = {parameter: parameter.requires_grad for parameter in model.parameters()}
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
        for parameter, learns in learning.items():  # peft's switch decides what learns, too
            parameter.requires_grad_(learns)


def merged(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy with its adapters added into the weights, which `save_pretrained` writes as any other model.

    A model without adapters is returned as it is.
    """
    if not _adapted_layers(model):
        return model
    plain = copy.deepcopy(model)
    for name, layer in _adapted_layers(plain).items():
        layer.merge()
        plain.set_submodule(name, layer.get_base_layer())
    plain._hf_peft_config_loaded = False
    del plain.peft_config
    return plain.requires_grad_(True)


# --- dropout and checkpointing ---------------------------------------------------------------------------------------


def silence_dropout(model: nn.Module) -> None:
    """Set every dropout rate to 0, of modules, of functions and in the configuration: training mode changes nothing."""
    for module in model.modules():
        for key in dropout_rates(module):
            setattr(module, key, 0.0)
        for key, value in vars(getattr(module, "config", object)).items():
            if "drop" in key and isinstance(value, float):
                setattr(module.config, key, 0.0)


@contextmanager
def dropping_out(model: nn.Module, rate: float | None, seed: int) -> Iterator[None]:
    """Let dropout act on a silenced model for the time of the block, which has to hold the backward pass too.

    Every place that the architecture has for dropout gets the rate, but no layer is left out as a whole. All chance
    comes from the seed, and the global generator is found again as it was.

    Args:
        rate: Share of the activations set to 0; with 0 or None nothing happens.
    """
    if not rate:
        yield
        return
    places = [(one, key) for one in model.modules() for key in dropout_places(one) if "layerdrop" not in key]
    devices = [p.device for p in list(model.parameters())[:1] if p.device.type == "cuda"]
    mode = model.training
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        try:
            for module, key in places:
                setattr(module, key, rate)
            model.train()
            yield
        finally:
            for module, key in places:
                setattr(module, key, 0.0)
            model.train(mode)


def enable_checkpointing(model: PreTrainedModel) -> None:
    """Make layers compute their activations again in the backward pass, inside `recomputing` blocks.

    Raises:
        ConfigError: The architecture does not support it.
    """
    silence_dropout(model)
    # Early releases of transformers 5 know only the second name, later ones warn of it.
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    try:
        enable({"use_reentrant": False})
    except ValueError as error:
        raise ConfigError(f"gradient_checkpointing: {str(error).rstrip('.')}; set it to false.") from error
    model.disable_input_require_grads()  # which only reentrant checkpointing needs; it would wake a frozen encoder


@contextmanager
def recomputing(*models: nn.Module | None) -> Iterator[None]:
    """Hold models in training mode, outside of which transformers ignores checkpointing.

    Wraps forward passes whose gradients are wanted, and the backward passes, which must find the same mode. Sampling
    has to stay outside, since checkpointing forbids caches.
    Changes no result, and nothing at all for models without checkpointing.
    """
    with ExitStack() as stack:
        for model in models:
            if model is not None and recomputes(model):
                stack.callback(model.train, model.training)
                model.train()
        yield
