"""Tiny random models for the metrics that ask one."""

import pytest


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Kind → (folder, model, tokenizer): an encoder, a regression, a classifier of three labels, a language model."""
    import torch
    from support import tiny_bert
    from transformers import GPT2Config, GPT2LMHeadModel

    root = tmp_path_factory.mktemp("models")
    torch.manual_seed(3)
    tokens = {"model_max_length": tiny_bert.WINDOW, "eos_token": "[SEP]", "special": False}
    config = GPT2Config(
        vocab_size=len(tiny_bert.tokenizer()),
        n_positions=tiny_bert.WINDOW,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=None,
        eos_token_id=tiny_bert.SEP,
    )
    language_model = GPT2LMHeadModel(config)
    language_model.transformer.wte.weight.data.mul_(20 / 8)  # predictions far from uniform
    return {
        "encoder": tiny_bert.encoder(root / "encoder"),
        "regression": tiny_bert.classifier(root / "regression", labels=1),
        "classifier": tiny_bert.classifier(root / "classifier", labels=3, seed=21),
        "language model": tiny_bert.save(root / "language model", language_model, **tokens),
    }


@pytest.fixture(scope="session")
def damaged(models, tmp_path_factory):
    """Kind → the folder of a copy whose answers are NaN, although its weights are finite."""
    from support import tiny_bert

    root = tmp_path_factory.mktemp("damaged")
    return {kind: tiny_bert.damage(root / kind, *parts) for kind, (_, *parts) in models.items()}
