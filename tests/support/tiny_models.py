"""Tiny random models of every family that the trainer is tested with, with the vocabulary of `tiny.tokenizer`."""

from support.late import lates

from grue.tasks import Prompt

torch, tiny, hf, tokens = lates("torch support.tiny transformers grue.lm.tokens")

SIZE = 23  # tiny.WORDS, and <pad>, <eos> and <unk>
POSITIONS = 40
IDS = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1}
HEADS = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
LLAMA = {"vocab_size": SIZE, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": POSITIONS, **HEADS}
T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}

# Every dropout rate is left as its family has it, so that silencing it is tested; the models are in evaluation mode.
MAKERS = {
    "gpt2": lambda size: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=size, n_layer=2, n_embd=32, n_head=2, n_positions=POSITIONS, **IDS)
    ),
    "opt": lambda size: hf.OPTForCausalLM(
        hf.OPTConfig(
            vocab_size=size, hidden_size=32, word_embed_proj_dim=20, ffn_dim=48, num_hidden_layers=2,
            num_attention_heads=2, max_position_embeddings=POSITIONS, do_layer_norm_before=False, **IDS,
        )
    ),
    "llama": lambda size: hf.LlamaForCausalLM(hf.LlamaConfig(**{**LLAMA, "vocab_size": size}, **IDS)),
    "mistral": lambda size: hf.MistralForCausalLM(
        hf.MistralConfig(**{**LLAMA, "vocab_size": size}, sliding_window=4, **IDS)
    ),
    "gemma2": lambda size: hf.Gemma2ForCausalLM(
        hf.Gemma2Config(**{**LLAMA, "vocab_size": size}, sliding_window=4, final_logit_softcapping=1.5, **IDS)
    ),
    "t5": lambda size: hf.T5ForConditionalGeneration(
        hf.T5Config(vocab_size=size, tie_word_embeddings=True, pad_token_id=0, eos_token_id=1, **T5)
    ),
    "mt5": lambda size: hf.MT5ForConditionalGeneration(
        hf.MT5Config(
            vocab_size=size, feed_forward_proj="gated-gelu", tie_word_embeddings=False, pad_token_id=0, eos_token_id=1, **T5
        )
    ),
    "bart": lambda size: hf.BartForConditionalGeneration(
        hf.BartConfig(
            vocab_size=size, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=POSITIONS,
            decoder_start_token_id=1, forced_bos_token_id=1, forced_eos_token_id=1, **IDS,
        )
    ),
}  # fmt: skip
CAUSAL, SEQ2SEQ = ("gpt2", "opt", "llama", "mistral", "gemma2"), ("t5", "mt5", "bart")
ALL = CAUSAL + SEQ2SEQ


def family(kind):
    return "causal" if kind in CAUSAL else "seq2seq"


def model(kind, seed=0, size=SIZE, spread=5.0):
    """A random model far from uniform: wide embeddings and projections, and a bias where BART keeps one."""
    torch.manual_seed(seed)
    made = MAKERS[kind](size)
    made.get_output_embeddings().weight.data.mul_(1.0 if kind in ("t5", "mt5") else spread)
    if kind == "opt":
        made.model.decoder.project_out.weight.data.mul_(4 * spread)
    if kind == "bart":
        made.final_logits_bias.normal_()
    return made.eval()


def wide():
    """A vocabulary of more than 50 tokens, all about equally likely: what a hidden top-k of 50 cuts off is seen."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 300, "n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 64}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, **IDS)).eval()


def gradients(model, loss):
    """The gradient of a loss by each weight that has a part in it."""
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def batch(
    kind,
    made=None,
    texts=("the dog sees", "a cat likes the red ball", "man"),
    replies=("a house", "the tree", "a small blue bird"),
):
    """A model, prompts of three lengths and responses of three lengths."""
    made = made or model(kind)
    tokenizer = tiny.tokenizer(family(kind))
    prompts = tokens.encode_prompts(made, tokenizer, texts, Prompt(max_tokens=10, truncation="left"))
    return made, prompts, tokens.encode_responses(made, tokenizer, replies, 6)
