"""Sampled responses: independent of the batch, no shorter than asked, and only from a policy with finite logits."""

import math
from functools import partial

import pytest
import torch
from support import tiny

from grue.errors import TrainingError
from grue.evaluation.predict import continuations
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
        return dict(
            zip([e.id for e in chosen], decode_responses(tokenizer, rollout.responses, rollout.truncated), strict=True)
        )

    together = answers(examples)
    assert len(set(together.values())) > 1
    for example in examples:
        assert answers([example]) == {example.id: together[example.id]}
    assert answers(examples[::-1]) == together


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("sampled", [{"top_k": 0}, {"top_k": 3}, {"top_p": 0.5}, {"do_sample": False}])
@pytest.mark.parametrize(
    ("first", "value"), [(0, math.nan), (2, math.nan), (0, math.inf), (1, -math.inf)], ids=lambda given: f"{given}"
)
def test_no_token_is_drawn_from_broken_logits_however_late_they_come(family, sampled, first, value):
    model, prompts = asked(family)
    settings, steps = Generation(**{"max_new_tokens": 6, "min_new_tokens": 4, "do_sample": True, **sampled}), [0]

    def broken(module, inputs, logits):
        place = steps[0]
        steps[0] += 1
        if place < first:
            return logits
        return torch.full_like(logits, value) if value < 0 else logits.index_fill(-1, torch.tensor([2]), value)

    model.get_output_embeddings().register_forward_hook(broken)
    uniforms = torch.rand(3, 6, generator=torch.Generator().manual_seed(0))
    draw = partial(sample_responses, model, prompts, settings, uniforms, eos=1, keep="scores")
    if not settings.do_sample:
        draw = partial(continuations, model, tiny.tokenizer(family), prompts, tiny.examples(3), settings, 1, 1)
    with pytest.raises(TrainingError, match=r"its logits hold NaN or \+∞, or no finite number at all, so no token"):
        draw()
    assert steps[0] == first + 1


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
