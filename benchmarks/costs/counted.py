"""What torch's own counter says of whole models, built without memory: the figures that `flops` is held to."""

import torch
from costs.flops import GPT2, T5_BASE, TRAIN, Architecture, forward_flops
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, T5Config, T5ForConditionalGeneration

SHAPES = ((GPT2, 64, 48), (GPT2, 128, 50), (T5_BASE, 20, 20), (T5_BASE, 512, 100))


def build(shape: Architecture, device: str = "meta") -> PreTrainedModel:
    """Return a language model of that shape; on the device "meta" it takes no memory."""
    # Attention as plain products of matrices, which the counter knows on every device.
    plain = {"attn_implementation": "eager", "bos_token_id": 1, "eos_token_id": 1}
    with torch.device(device):
        if shape.kind == "causal":
            sizes = {"n_layer": shape.layers, "n_embd": shape.width, "n_head": shape.inner // 16}
            return GPT2LMHeadModel(
                GPT2Config(vocab_size=shape.vocabulary, n_positions=shape.positions, **sizes, **plain)
            ).eval()
        sizes = {"d_model": shape.width, "d_kv": 16, "d_ff": shape.feed_forward, "num_heads": shape.inner // 16}
        return T5ForConditionalGeneration(
            T5Config(
                vocab_size=shape.vocabulary, num_layers=shape.layers, decoder_start_token_id=0, pad_token_id=0,
                **sizes, **plain,
            )
        ).eval()  # fmt: skip


def torch_counts(model: PreTrainedModel, prompt: int, response: int) -> tuple[float, float]:
    """Return the FLOPs of a forward pass of one sequence, and of it with its backward pass."""
    tokens = [torch.zeros(1, length, dtype=torch.long, device=model.device) for length in (prompt, response)]
    if model.config.is_encoder_decoder:
        inputs = {"input_ids": tokens[0], "decoder_input_ids": tokens[1]}
    else:
        # A mask that is made already: making one asks for values, which tensors without memory do not have.
        size = prompt + response
        mask = torch.zeros(1, 1, size, size, device=model.device)
        inputs = {"input_ids": torch.cat(tokens, 1), "attention_mask": mask, "logits_to_keep": response}
    with FlopCounterMode(display=False) as counter:
        logits = model(**inputs, use_cache=False).logits
        forward = counter.get_total_flops()
        logits.sum().backward()
    return float(forward), float(counter.get_total_flops())


def comparison() -> list[tuple[Architecture, int, int, int, float, float, float]]:
    """Return for every shape: lengths, transformers' parameters, torch's FLOPs forward, ours, and the same of both."""
    lines = []
    for shape, prompt, response in SHAPES:
        model = build(shape)
        forward, both = torch_counts(model, prompt, response)
        parameters = sum(p.numel() for p in model.parameters())
        ours = forward_flops(shape, prompt, response)
        lines.append((shape, prompt, response, parameters, forward, ours / forward, TRAIN * ours / both))
    return lines
