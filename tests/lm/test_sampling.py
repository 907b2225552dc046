"""Sampled responses: independent of the batch, no shorter than asked, and only from a policy with finite logits."""

import math
from functools import partial

import pytest
from support.late import late

from grue.errors import TrainingError
from grue.tasks import Generation, Prompt

torch, tiny, sampling, tokens = late("torch"), late("support.tiny"), late("grue.lm.sampling"), late("grue.lm.tokens")
predicting, seeds, models = late("grue.evaluation.predict"), late("grue.lm.seeds"), late("grue.lm.model")
profiler = late("torch.profiler")

FAMILIES = ["causal", "seq2seq"]
TEXTS = ("the dog sees", "a cat likes the red ball", "man")


def asked(family, texts=TEXTS):
    model, prompt = tiny.model(family), Prompt(max_tokens=10, truncation="left")
    return model, tokens.encode_prompts(model, tiny.tokenizer(family), texts, prompt)


def uniforms():
    return torch.rand(3, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_do_not_depend_on_the_batch(family):
    settings, examples = Generation(max_new_tokens=8, do_sample=True, top_k=7), tiny.examples(6)

    def answers(chosen):
        model, prompts = asked(family, [example.prompt for example in chosen])
        rollout = sampling.sample_responses(model, prompts, settings, seeds.example_uniforms(3, chosen, 8), eos=1)
        texts = tokens.decode_responses(tiny.tokenizer(family), rollout.responses, rollout.truncated)
        return dict(zip([example.id for example in chosen], texts, strict=True))

    together = answers(examples)
    assert len(set(together.values())) > 1
    for example in examples:
        assert answers([example]) == {example.id: together[example.id]}
    assert answers(examples[::-1]) == together


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("sampled", [{"top_k": 0}, {"top_k": 3}, {"top_p": 0.5}, {"do_sample": False}])
def test_no_token_is_drawn_from_broken_logits_however_late_they_come(family, sampled):
    settings = Generation(**{"max_new_tokens": 6, "min_new_tokens": 4, "do_sample": True, **sampled})
    for first, value in ((0, math.nan), (2, math.nan), (0, math.inf), (1, -math.inf)):
        model, prompts = asked(family)
        steps = []

        def broken(module, inputs, logits, first=first, value=value, steps=steps):
            steps.append(1)
            if len(steps) <= first:
                return logits
            return torch.full_like(logits, value) if value < 0 else logits.index_fill(-1, torch.tensor([2]), value)

        model.get_output_embeddings().register_forward_hook(broken)
        draw = partial(sampling.sample_responses, model, prompts, settings, uniforms(), eos=1, keep="scores")
        if not settings.do_sample:
            asking = (model, tiny.tokenizer(family), prompts, tiny.examples(3), settings, 1, 1)
            draw = partial(predicting.continuations, *asking)
        with pytest.raises(TrainingError, match=r"its logits hold NaN or \+∞, or no finite number at all, so no token"):
            draw()
        assert len(steps) == first + 1


@pytest.mark.parametrize("family", FAMILIES)
def test_no_response_ends_before_its_minimum_length(family):
    model, prompts = asked(family)
    settings = Generation(max_new_tokens=6, min_new_tokens=4, do_sample=True)
    rollout = sampling.sample_responses(model, prompts, settings, uniforms(), eos=1)
    assert (rollout.responses.mask.sum(1) >= 4).all()
    assert not (rollout.responses.ids[:, :4] == 1).any()
    support = rollout.open_vocabulary(torch.arange(3), rollout.responses.ids.shape[1], model.config.vocab_size)
    assert not support[:, :4, 1].any()
    assert support[:, 4:, 1].all()


@pytest.mark.parametrize("family", FAMILIES)
def test_frozen_weights_are_cast_once_for_all_tokens_and_the_draws_are_those_of_casting_each_time(family):
    model, prompts = asked(family)
    model.requires_grad_(False)
    settings, head = (
        Generation(max_new_tokens=6, min_new_tokens=6, do_sample=True),
        model.get_output_embeddings().weight,
    )

    def drawn(*once):
        low, watched = torch.autocast("cpu", torch.bfloat16), profiler.profile(record_shapes=True)
        with torch.no_grad(), low, models.cast_once(*once), watched as profile:
            ids = sampling.sample_responses(model, prompts, settings, uniforms(), eos=1).responses.ids
        shapes = [one.input_shapes[:1] for one in profile.events() if one.name == "aten::_to_copy"]
        return ids, shapes.count([list(head.shape)])

    (each, many), (kept, once) = drawn(None), drawn(model, None)
    assert torch.equal(each, kept)
    assert (many, once) == (6, 1)
    assert not any(parameter.requires_grad for parameter in model.parameters())
