"""A GGUF file of a tiny Gemma 3, written by the package gguf as llama.cpp's converter writes one."""

import gguf
import torch
import transformers

WORDS = ["a", "b", "▁", "▁a", "▁b", "ab", "▁ab", "▁abb"]
TOKENS = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS]
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
NAMES = {
    **{f"self_attn.{one}_proj": f"attn_{one}" for one in "qkv"},
    **{f"self_attn.{one}_norm": f"attn_{one}_norm" for one in "qk"},
    **{f"mlp.{one}_proj": f"ffn_{one}" for one in ("gate", "up", "down")},
    **{"input_layernorm": "attn_norm", "self_attn.o_proj": "attn_output"},
    **{"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm"},
    "post_feedforward_layernorm": "post_ffw_norm",
}


def tiny_gemma():
    """A Gemma 3 of two layers with random weights, norms included."""
    torch.manual_seed(7)
    config = transformers.Gemma3TextConfig(
        vocab_size=len(TOKENS), num_hidden_layers=2, sliding_window=8, max_position_embeddings=64, **SHAPE
    )
    model = transformers.Gemma3ForCausalLM(config).eval()
    for weight in model.parameters():
        weight.data.normal_(0, 0.3)
    return model


def gguf_name(key):
    """Return the name in a GGUF file of one of the model's weights."""
    if not key.startswith("model.layers."):
        return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}[key]
    _, _, layer, rest = key.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def write_gguf(path, model, architecture="gemma3", left_out=()):
    """Write the model; its embedding is quantised (Q8_0), and norms hold 1 + weight, as llama.cpp wants them."""
    writer = gguf.GGUFWriter(path, architecture)
    shape = {"embedding_length": "hidden_size", "feed_forward_length": "intermediate_size", "key_length": "head_dim"}
    shape |= {"value_length": "head_dim", "head_count": "num_attention_heads", "head_count_kv": "num_key_value_heads"}
    header = {
        **{"context_length": 64, **{name: SHAPE[key] for name, key in shape.items()}, "block_count": 2},
        **{"layer_norm_rms_eps": 1e-6, "rope_freq_base": 1e6, "sliding_window": 8},
        **{"tokenizer_model": "llama", "token_list": TOKENS},
        "token_scores": [-1000.0] * (5 + 256) + [-float(rank) for rank in range(len(WORDS))],
        "token_types": [3, 3, 3, 2, 3, *[6] * 256, *[1] * len(WORDS)],
        **{"bos_token_id": 2, "eos_token_id": 1, "unk_token_id": 3, "pad_token_id": 0},
        **{"add_bos_token": True, "add_eos_token": False, "add_space_prefix": False},
    }
    for name, value in header.items():
        getattr(writer, f"add_{name}")(value)
    for key, weight in model.state_dict().items():
        if key == "lm_head.weight" or key in left_out:  # tied to the embedding
            continue
        value = weight.numpy() + (1 if "norm" in key else 0)
        if key == "model.embed_tokens.weight":
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(gguf_name(key), gguf.quants.quantize(value, kind), raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(key), value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
