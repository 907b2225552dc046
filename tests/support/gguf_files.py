"""A GGUF file of a tiny Gemma 3, written by the package gguf as llama.cpp's converter writes one."""

import gguf
import torch
import transformers

WORDS = ["a", "b", "▁", "▁a", "▁b", "ab", "▁ab", "▁abb"]
TOKENS = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS]
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
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
    writer.add_context_length(64)
    writer.add_embedding_length(SHAPE["hidden_size"])
    writer.add_block_count(2)
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_head_count(SHAPE["num_attention_heads"])
    writer.add_head_count_kv(SHAPE["num_key_value_heads"])
    writer.add_key_length(SHAPE["head_dim"])
    writer.add_value_length(SHAPE["head_dim"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_sliding_window(8)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([-1000.0] * (5 + 256) + [-float(rank) for rank in range(len(WORDS))])
    writer.add_token_types([3, 3, 3, 2, 3, *[6] * 256, *[1] * len(WORDS)])
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(3)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
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
