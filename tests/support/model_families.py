"""Tiny random models of further families: those that train like the ones of `tiny_models`, and those that are refused."""

from support import tiny_models
from support.late import lates
from support.tiny_models import HEADS, IDS, POSITIONS, SIZE, T5

torch, hf = lates("torch transformers")

PLAIN = {"vocab_size": SIZE, "hidden_size": 32, "num_hidden_layers": 2, **IDS}
HEADED = {**PLAIN, "num_attention_heads": 2, "intermediate_size": 48, "max_position_embeddings": POSITIONS}
LLAMA = {**HEADED, **HEADS}
EXPERTS = {**HEADED, "moe_intermediate_size": 16, "num_experts_per_tok": 2}
BERT = {key: value for key, value in HEADED.items() if key not in ("eos_token_id", "bos_token_id")}
BART = {
    **{"vocab_size": SIZE, "d_model": 32, "max_position_embeddings": POSITIONS, "decoder_start_token_id": 1, **IDS},
    **{f"{side}_{part}": 2 for side in ("encoder", "decoder") for part in ("layers", "attention_heads")},
    **{f"{side}_ffn_dim": 48 for side in ("encoder", "decoder")},
}


def encoder_decoder(width=32):
    """A BERT that reads and a BERT that writes; the reading one may have another width."""
    reading, writing = hf.BertConfig(**BERT | {"hidden_size": width}), hf.BertConfig(**BERT)
    config = hf.EncoderDecoderConfig.from_encoder_decoder_configs(reading, writing)
    config.decoder_start_token_id, config.pad_token_id = 1, 0
    return hf.EncoderDecoderModel(config)


def t5gemma():
    sides = {side: hf.T5GemmaModuleConfig(**LLAMA | {"bos_token_id": 2}) for side in ("encoder", "decoder")}
    return hf.T5GemmaForConditionalGeneration(hf.T5GemmaConfig(vocab_size=SIZE, **sides))


def led():
    rooms = {f"max_{side}_position_embeddings": POSITIONS for side in ("encoder", "decoder")}
    shape = {key: value for key, value in BART.items() if key != "max_position_embeddings"}
    return hf.LEDForConditionalGeneration(hf.LEDConfig(**shape, **rooms, attention_window=4))


def qwen3_next():
    linear = {f"linear_num_{part}_heads": 2 for part in ("key", "value")}
    linear |= {f"linear_{part}_head_dim": 8 for part in ("key", "value")}
    layers = {"layer_types": ["linear_attention", "full_attention"], "shared_expert_intermediate_size": 16}
    return hf.Qwen3NextForCausalLM(hf.Qwen3NextConfig(**EXPERTS | HEADS, num_experts=4, **linear, **layers))


def deepseek_v3():
    ranks = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16}
    experts = {"n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
    return hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**EXPERTS, num_key_value_heads=2, **ranks, **experts))


CAUSAL = {
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**HEADED, num_key_value_heads=1)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**LLAMA)),
    "phi": lambda: hf.PhiForCausalLM(hf.PhiConfig(**HEADED)),
    "falcon": lambda: hf.FalconForCausalLM(hf.FalconConfig(**PLAIN, num_attention_heads=2)),
    "gpt_neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**HEADED)),
    "qwen2_moe": lambda: hf.Qwen2MoeForCausalLM(
        hf.Qwen2MoeConfig(**EXPERTS, num_key_value_heads=1, num_experts=4, shared_expert_intermediate_size=16)
    ),
    "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**LLAMA, num_local_experts=4)),
    "qwen3_next": qwen3_next,
    "deepseek_v3": deepseek_v3,
}
SEQ2SEQ = {
    "pegasus": lambda: hf.PegasusForConditionalGeneration(hf.PegasusConfig(**BART)),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**BART)),
    "mbart": lambda: hf.MBartForConditionalGeneration(hf.MBartConfig(**BART)),
    "led": led,
    "t5gemma": t5gemma,
    "encoder_decoder": encoder_decoder,
}
REFUSED = {
    "mamba": lambda: hf.MambaForCausalLM(hf.MambaConfig(**PLAIN, state_size=4)),
    "recurrent_gemma": lambda: hf.RecurrentGemmaForCausalLM(
        hf.RecurrentGemmaConfig(
            **PLAIN | {"num_hidden_layers": 3}, num_attention_heads=2, intermediate_size=48, lru_width=32
        )
    ),
    "rwkv": lambda: hf.RwkvForCausalLM(hf.RwkvConfig(**PLAIN, attention_hidden_size=32, context_length=POSITIONS)),
    "xlnet": lambda: hf.XLNetLMHeadModel(
        hf.XLNetConfig(vocab_size=SIZE, d_model=32, n_layer=2, n_head=2, d_inner=48, **IDS)
    ),
    "electra": lambda: hf.ElectraForCausalLM(hf.ElectraConfig(**BERT, embedding_size=16, is_decoder=True)),
    "fsmt": lambda: hf.FSMTForConditionalGeneration(
        hf.FSMTConfig(langs=["en", "de"], src_vocab_size=SIZE, tgt_vocab_size=SIZE, **BART)
    ),
    "switch": lambda: hf.SwitchTransformersForConditionalGeneration(
        hf.SwitchTransformersConfig(
            vocab_size=SIZE, num_experts=2, num_sparse_encoder_layers=1, pad_token_id=0, eos_token_id=1, **T5
        )
    ),
    "encoder_decoder of two widths": lambda: encoder_decoder(width=48),
}
SUPPORTED = CAUSAL | SEQ2SEQ


def model(kind):
    """A random model in evaluation mode, far from uniform."""
    torch.manual_seed(0)
    made = (SUPPORTED | REFUSED)[kind]().eval()
    made.get_output_embeddings().weight.data.mul_(5.0)
    return made


def family(kind):
    return "causal" if kind in CAUSAL else "seq2seq"


def batch(kind):
    """A model of either module, with prompts and responses."""
    if kind in tiny_models.ALL:
        return tiny_models.batch(kind)
    return tiny_models.batch("gpt2" if kind in CAUSAL else "bart", model(kind))
