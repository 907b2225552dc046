"""Sampled responses: independent of the batch, no shorter than asked, and only from a policy with finite logits."""

import pytest
import torch
from support import tiny

from grue.errors import TrainingError
from grue.lm.sampling import sample_responses
from grue.lm.seeds import example_uniforms
from grue.lm.tokens import decode_responses, encode_prompts
from grue.tasks import Generation, Prompt

FAMILIES = ["causal", "seq2seq"]
PROMPT = Prompt(max_tokens=10, truncation="left")


def asked(family):
    model, tokenizer = tiny.model(family), tiny.tokenizer(family)
    return model, encode_prompts(model, tokenizer, ("the dog sees", "a cat likes the red ball", "man"), PROMPT)


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_do_not_depend_on_the_batch(family):
    model, tokenizer, examples = tiny.model(family), tiny.tokenizer(family), tiny.examples(6)
    settings = Generation(max_new_tokens=8, do_sample=True, top_k=7)

    def answers(chosen):
        prompts = encode_prompts(model, tokenizer, [example.prompt for example in chosen], PROMPT)
        rollout = sample_responses(model, prompts, settings, example_uniforms(3, chosen, 8), eos=1)
        return dict(zip([e.id for e in chosen], decode_responses(tokenizer, rollout.responses), strict=True))

    together = answers(examples)
    assert len(set(together.values())) > 1
    for example in examples:
        assert answers([example]) == {example.id: together[example.id]}
    assert answers(examples[::-1]) == together


@pytest.mark.parametrize("family", FAMILIES)
def test_a_policy_with_broken_weights_is_not_sampled(family):
    model, prompts = asked(family)
    settings = Generation(max_new_tokens=6, do_sample=True)
    with torch.no_grad():
        model.get_output_embeddings().weight[2, 0] = float("nan")
    with pytest.raises(
        TrainingError,
        match="The policy's logits are not finite: its weights have diverged; train with a lower learning rate",
    ):
        sample_responses(model, prompts, settings, torch.zeros(3, 6), eos=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_response_ends_before_its_minimum_length(family):
    model, prompts = asked(family)
    settings = Generation(max_new_tokens=6, min_new_tokens=4, do_sample=True)
    rollout = sample_responses(
        model, prompts, settings, torch.rand(3, 6, generator=torch.Generator().manual_seed(0)), eos=1
    )
    assert (rollout.responses.mask.sum(1) >= 4).all()
    assert not (rollout.responses.ids[:, :4] == 1).any()
    support = rollout.open_vocabulary(torch.arange(3), rollout.responses.ids.shape[1], model.config.vocab_size)
    assert not support[:, :4, 1].any()
    assert support[:, 4:, 1].all()
