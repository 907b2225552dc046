"""Preparing a model for training: low-rank adapters, a frozen encoder, checkpointing, and dropout.

peft inserts adapters into the layers of the model, which stays a `PreTrainedModel`; `pip install 'grue[lora]'` installs
peft. A copy of an adapted model has its own adapters.
"""

import copy
import sys
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
    """Prepare a freshly loaded policy for training as the settings say; later copies behave the same.

    Raises:
        ConfigError, Unavailable: As `add_lora`, `freeze_encoder` and `enable_checkpointing`.
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
    """Compute GPT-2's GELU in one kernel instead of transformers' eight; the same function up to rounding."""
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, NewGELUActivation):
                setattr(module, name, nn.GELU(approximate="tanh"))


# --- low-rank adapters -----------------------------------------------------------------------------------------------


def add_lora(model: PreTrainedModel, rank: int, alpha: float, seed: int = 0) -> None:
    """Add low-rank adapters to all linear layers but the language head, and train nothing else.

    Hu et al. (2022): W becomes W + alpha/rank · BA. B starts at 0, so the model is unchanged at first; A is drawn with
    the seed. Experts that a mixture keeps in one tensor are not linear layers and get no adapters.

    Raises:
        ConfigError: The model has no linear layers, or peft would adapt other weights.
        Unavailable: peft is not installed.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
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
        inject_adapter_in_model(LoraConfig(target_modules=list(layers), **settings), model)
    if _adapted_layers(model).keys() != layers.keys():  # peft rewrites the list for some mixtures of experts
        raise ConfigError(
            f"lora_rank: peft adapts weights of {type(model).__name__} other than its linear layers, in a form that "
            "cannot be merged; set lora_rank = 0."
        )


def _adapted_layers(model: nn.Module) -> dict[str, Any]:
    """Return the layers with an adapter, by name; others than these functions may have added it."""
    utilities = sys.modules.get("peft.tuners.tuners_utils")  # without it, nobody added one
    if utilities is None:
        return {}
    return {name: module for name, module in model.named_modules() if isinstance(module, utilities.BaseTunerLayer)}


@contextmanager
def adapter_off(model: PreTrainedModel) -> Iterator[None]:
    """Switch the adapters off inside the block, which gives the model they were added to: the reference policy."""
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
        for parameter, learns in learning.items():  # peft's switch also sets requires_grad
            parameter.requires_grad_(learns)


def merged(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy with the adapters merged into the weights, which `save_pretrained` writes like any other model.

    A model without adapters is returned unchanged.
    """
    if not _adapted_layers(model):
        return model
    plain = copy.deepcopy(model)
    for name, layer in _adapted_layers(plain).items():
        layer.merge()
        plain.set_submodule(name, layer.get_base_layer())
    del plain.peft_config
    return plain.requires_grad_(True)


# --- dropout and checkpointing ---------------------------------------------------------------------------------------


def silence_dropout(model: nn.Module) -> None:
    """Set every dropout rate of modules, functions and configurations to 0, so that training mode changes nothing."""
    for module in model.modules():
        for key in dropout_rates(module):
            setattr(module, key, 0.0)
        for key, value in vars(getattr(module, "config", object)).items():
            if "drop" in key and isinstance(value, float):
                setattr(module.config, key, 0.0)


@contextmanager
def dropping_out(model: nn.Module, rate: float | None, seed: int) -> Iterator[None]:
    """Switch a silenced model's dropout on inside the block, which must include the backward pass.

    Every dropout of the architecture except layer dropout gets the rate; 0 or None changes nothing. All randomness
    comes from the seed; the global generator is restored.
    """
    if not rate:
        yield
        return
    places = [(module, key) for module in model.modules() for key in dropout_places(module) if "layerdrop" not in key]
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
    """Make layers recompute their activations in the backward pass, inside `recomputing` blocks.

    It is a ConfigError if the architecture does not support it.
    """
    silence_dropout(model)
    try:
        model.activation_checkpointing_enable({"use_reentrant": False})
    except ValueError as error:
        raise ConfigError(f"gradient_checkpointing: {str(error).rstrip('.')}; set it to false.") from error
    model.disable_input_require_grads()  # only reentrant checkpointing needs it; it unfreezes encoders


@contextmanager
def recomputing(*models: nn.Module | None) -> Iterator[None]:
    """Keep models in training mode, without which transformers ignores checkpointing.

    Wrap forward passes that need gradients together with their backward passes, which need the same mode. Sampling
    stays outside, since checkpointing disables caches. No result changes; models without checkpointing are untouched.
    """
    with ExitStack() as stack:
        for model in models:
            if model is not None and recomputes(model):
                stack.callback(model.train, model.training)
                model.train()
        yield
