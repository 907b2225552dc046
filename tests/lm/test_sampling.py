"""Sampled responses: independent of the batch, no shorter than asked, and only from a policy with finite logits."""

import math
from functools import partial

import pytest
from support.late import late, lates

from grue.errors import TrainingError
from grue.tasks import Generation, Prompt

torch, dispatch = lates("torch torch.utils._python_dispatch")
tiny, tiny_models = lates("support.tiny support.tiny_models")
sampling, tokens, distributions, seeds, models = lates("sampling tokens distributions seeds model", "grue.lm.")
predicting = late("grue.evaluation.predict")

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
            asking = ((model, tiny.tokenizer(family)), prompts, tiny.examples(3), settings, 1, 1)
            draw = partial(predicting.continuations, *asking)
        with pytest.raises(TrainingError, match=r"its logits hold NaN or \+∞, or no finite number at all, so no token"):
            draw()
        assert len(steps) == first + 1


@pytest.mark.parametrize("kind", ["gpt2", "t5", "gemma2"])
def test_what_has_ended_leaves_the_batch_and_every_draw_stays_what_it_was(kind, monkeypatch):
    """Also where a cache forgets what lies outside of a sliding window, which is shorter than the responses here."""
    examples = tiny.examples(24)
    _, prompts = asked(tiny_models.family(kind), [example.prompt for example in examples])
    model, other = tiny_models.model(kind), tiny_models.model(kind, seed=1)
    mask = sampling.Mask(other, partial(distributions.top_p_support, p=0.95))
    settings = Generation(max_new_tokens=24, do_sample=True, top_k=22, temperature=3.0)
    chance = seeds.example_uniforms(3, examples, 24)
    rows = []
    model.get_output_embeddings().register_forward_hook(lambda module, inputs, logits: rows.append(len(logits)))

    def draw(wide):
        rows.clear()
        monkeypatch.setattr(models, "WIDE", wide)
        return sampling.sample_responses(model, prompts, settings, chance, 1, mask, keep="states"), list(rows)

    (whole, all_rows), (cut, fewer) = draw(10**6), draw(1)
    fewer = fewer[1:]  # the first pass is one of each different prompt
    assert set(all_rows) == {24} and fewer == sorted(fewer, reverse=True) and len(set(fewer)) > 2
    counted = whole.responses.mask
    assert counted.float().mean() < 0.9 and 0 < whole.truncated.float().mean() < 1
    for name in ("ids", "mask"):
        assert torch.equal(getattr(cut.responses, name), getattr(whole.responses, name))
    assert torch.equal(cut.truncated, whole.truncated)
    length, size = counted.shape[1], model.config.vocab_size
    every = torch.arange(24)
    assert torch.equal(cut.open_vocabulary(every, length, size), whole.open_vocabulary(every, length, size))
    for name in ("mask_size", "disagreement"):
        assert torch.equal(getattr(cut, name)[counted], getattr(whole, name)[counted])
    for name in ("plain", "restricted", "entropy", "states"):
        found, wanted = (getattr(rollout.sampler_scores, name) for rollout in (cut, whole))
        torch.testing.assert_close(found[counted], wanted[counted])
        assert not found[~counted].isnan().any()


@pytest.mark.parametrize("kind", ["gpt2", "gemma2"])
def test_responses_to_one_prompt_share_its_pass_and_every_draw_stays_what_it_was(kind, monkeypatch):
    _, prompts = asked("causal", [example.prompt for example in tiny.examples(3)])
    model, prompts = tiny_models.model(kind), prompts.rows(torch.tensor([1, 0, 2, 1, 0, 1]))
    settings, chance = Generation(max_new_tokens=9, do_sample=True), torch.rand(6, 9, generator=seeds.generator(4, "a"))
    rows = []
    model.base_model.register_forward_hook(lambda module, inputs, out: rows.append(len(out[0])))

    def draw(wide):
        rows.clear()
        monkeypatch.setattr(models, "WIDE", wide)
        return sampling.sample_responses(model, prompts, settings, chance, 1, keep="states"), rows[:2]

    (each, apart), (together, once) = draw(10**6), draw(1)
    assert (apart, once) == ([6, 6], [3, 6])
    assert torch.equal(each.responses.ids, together.responses.ids)
    for name in ("plain", "restricted", "entropy", "states"):
        kept = (getattr(rollout.sampler_scores, name)[each.responses.mask] for rollout in (each, together))
        torch.testing.assert_close(*kept)


@pytest.mark.parametrize("family", FAMILIES)
def test_frozen_weights_are_cast_once_for_all_tokens_and_the_draws_are_those_of_casting_each_time(family):
    model, prompts = asked(family)
    model.requires_grad_(False)
    settings = Generation(max_new_tokens=6, min_new_tokens=6, do_sample=True)
    head, cast = model.get_output_embeddings().weight, []

    class Casts(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, given=(), named=None):
            if operation is torch.ops.aten._to_copy.default:
                cast.append(given[0].shape)
            return operation(*given, **(named or {}))

    def drawn(*once):
        cast.clear()
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), models.cast_once(*once), Casts():
            ids = sampling.sample_responses(model, prompts, settings, uniforms(), eos=1).responses.ids
        return ids, cast.count(head.shape)

    (each, many), (kept, once) = drawn(None), drawn(model, None)
    assert torch.equal(each, kept)
    assert (many, once) == (6, 1)
    assert not any(parameter.requires_grad for parameter in model.parameters())
