"""Growing a small model: what it computes stays, and its copies part."""

import re

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

from miniworld.growing import grow
from miniworld.pretrain import own_loss

IDS = torch.tensor([[3, 9, 4, 17, 25, 1], [8, 2, 11, 6, 40, 30]])


def gpt2(width, layers):
    torch.manual_seed(width)
    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    shape = {"n_embd": width, "n_layer": layers, "n_head": width // 32, "n_positions": 16, "initializer_range": 0.3}
    return GPT2LMHeadModel(GPT2Config(vocab_size=50, bos_token_id=1, eos_token_id=1, **shape, **off)).train(False)


def t5(width, layers):
    torch.manual_seed(width)
    shape = {"d_model": width, "d_kv": 32, "d_ff": 4 * width, "num_heads": width // 32}
    shape |= {"num_layers": layers, "num_decoder_layers": layers, "initializer_factor": 0.7}
    tokens = {"vocab_size": 50, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    return T5ForConditionalGeneration(T5Config(**shape, **tokens, dropout_rate=0.0)).train(False)


@pytest.mark.parametrize("make", [gpt2, t5])
@pytest.mark.parametrize(("width", "layers"), [(64, 2), (128, 2), (64, 3), (128, 5), (192, 4)])
def test_a_grown_model_computes_what_the_small_one_does(make, width, layers):
    small, large = make(64, 2), make(width, layers)
    batch = {"input_ids": IDS, "labels": IDS.flip(1)}
    expected, before = small(**batch), large(**batch)
    grow(small, large)
    found = large(**batch)
    torch.testing.assert_close(found.logits, expected.logits, rtol=1e-4, atol=1e-4)
    assert expected.logits.std() > 0.1
    assert (width, layers) == (64, 2) or not torch.allclose(before.logits, expected.logits, atol=0.1)


@pytest.mark.parametrize(
    ("make", "unit"), [(gpt2, "transformer.h.0.mlp.c_fc.bias"), (t5, "encoder.block.0.layer.1.layer_norm.weight")]
)
def test_copies_part_after_a_step(make, unit):
    small, large = make(64, 2), make(128, 3)
    grow(small, large)
    copies = large.get_parameter(unit).view(-1, 2, 32)
    torch.testing.assert_close(copies[:, 0], copies[:, 1])
    own_loss(large, {"input_ids": IDS, "labels": IDS.flip(1)}).backward()
    torch.optim.SGD(large.parameters(), lr=0.1).step()
    assert not torch.allclose(copies[:, 0], copies[:, 1], atol=1e-4)
    repeated = re.compile(r"\.(h|block)\.1\..*\.(c_proj|wo)\.weight")
    added = [parameter for name, parameter in large.named_parameters() if repeated.search(name)]
    assert len(added) == 2
    assert all(parameter.abs().max() > 0 for parameter in added)  # the layer that added nothing learns, too
