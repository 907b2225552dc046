"""Causal and encoder-decoder models seen alike: padding, caches and batch composition change nothing."""

import math

import pytest
import torch
from support import oracles, tiny

from grue.algorithms.ppo import PPOConfig
from grue.errors import TrainingError
from grue.lm.critic import Critic
from grue.lm.forward import forward, next_logits, trunk_states
from grue.lm.sampling import sample_responses
from grue.lm.seeds import example_uniforms
from grue.lm.tokens import Tokens, decode_responses, encode_prompts, encode_responses
from grue.rl.experience import score_tokens
from grue.tasks import Generation, Prompt

FAMILIES = ["causal", "seq2seq"]
PROMPT = Prompt(max_tokens=10, truncation="left")


def batch(
    family,
    texts=("the dog sees", "a cat likes the red ball", "man"),
    replies=("a house", "the tree", "a small blue bird"),
):
    model, tokenizer = tiny.model(family), tiny.tokenizer(family)
    return model, encode_prompts(model, tokenizer, texts, PROMPT), encode_responses(model, tokenizer, replies, 6)


def plain_logits(family, model, prompt_ids, response_ids):
    """One example, no padding, the model called as its documentation says."""
    if family == "causal":
        out = model(input_ids=torch.tensor([prompt_ids + response_ids])).logits[0]
        return out[len(prompt_ids) - 1 : -1]
    decoder = torch.tensor([[0, *response_ids[:-1]]])
    return model(input_ids=torch.tensor([prompt_ids]), decoder_input_ids=decoder).logits[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_padded_batch_gives_the_logits_of_each_example_alone(family):
    model, prompts, responses = batch(family)
    with torch.no_grad():
        logits, states = forward(model, prompts, responses, states=True)
        for i in range(3):
            asked = prompts.ids[i][prompts.mask[i]].tolist()
            said = responses.ids[i][responses.mask[i]].tolist()
            alone = plain_logits(family, model, asked, said)
            assert torch.allclose(logits[i, : len(said)], alone, atol=1e-5)
        trunk = trunk_states(model, prompts, responses)
    assert torch.allclose(trunk[responses.mask], states[responses.mask], atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_those_that_the_logits_come_from(family):
    model, prompts, responses = batch(family)
    with torch.no_grad():
        logits, states = forward(model, prompts, responses, states=True)
    scale = model.config.d_model**-0.5 if family == "seq2seq" else 1.0
    assert torch.allclose(model.get_output_embeddings()(states * scale), logits, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_stepwise_decoding_with_its_cache_gives_the_same_logits(family):
    model, prompts, responses = batch(family)
    with torch.no_grad():
        whole, _ = forward(model, prompts, responses)
        step = next_logits(model, prompts)
        drawn = None
        for t in range(responses.ids.shape[1]):
            rows = responses.mask[:, t]
            assert torch.allclose(step(drawn)[rows], whole[rows, t], atol=1e-5)
            drawn = responses.ids[:, t]


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
def test_a_policy_that_is_none_any_more_is_not_sampled(family):
    model, prompts, _ = batch(family)
    settings = Generation(max_new_tokens=6, do_sample=True)
    with torch.no_grad():
        model.get_output_embeddings().weight[2, 0] = float("nan")
    with pytest.raises(TrainingError, match="The policy's logits are not finite"):
        sample_responses(model, prompts, settings, torch.zeros(3, 6), eos=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_response_ends_before_its_minimum_length(family):
    model, prompts, _ = batch(family)
    settings = Generation(max_new_tokens=6, min_new_tokens=4, do_sample=True)
    rollout = sample_responses(
        model, prompts, settings, torch.rand(3, 6, generator=torch.Generator().manual_seed(0)), eos=1
    )
    assert (rollout.responses.mask.sum(1) >= 4).all()
    assert not (rollout.responses.ids[:, :4] == 1).any()
    support = rollout.open_vocabulary(torch.arange(3), rollout.responses.ids.shape[1], model.config.vocab_size)
    assert not support[:, :4, 1].any()
    assert support[:, 4:, 1].all()


def test_a_separate_critic_starts_from_the_policy_and_says_zero():
    model, prompts, responses = batch("seq2seq")
    critic = Critic(model, shared=False)
    assert torch.equal(tiny.weights(critic.trunk), tiny.weights(model))
    assert (critic(prompts, responses, None) == 0).all()


def test_the_seam_between_prompt_and_response_is_a_space_for_causal_models():
    class Recorder:
        eos_token_id = 1

        def __init__(self):
            self.seen = []

        def __call__(self, text, **settings):
            self.seen.append(text)
            return {"input_ids": [5, 6] if text == "." else [5, 6, 7]}

    behind, alone = Recorder(), Recorder()
    assert encode_responses(tiny.model("causal"), behind, ["house "], 4).ids.tolist() == [[7, 1]]
    assert behind.seen == [".", ". house"]
    assert encode_responses(tiny.model("seq2seq"), alone, [" house"], 4).ids.tolist() == [[5, 6, 7, 1]]
    assert alone.seen == ["house"]


def test_references_end_with_the_end_token_only_where_they_fit():
    model, tokenizer = tiny.model("causal"), tiny.tokenizer("causal")
    responses = encode_responses(model, tokenizer, ["the dog", "the dog sees a cat"], 4)
    assert responses.mask.sum(1).tolist() == [3, 4]
    assert responses.ids[0, 2] == 1
    assert 1 not in responses.ids[1].tolist()


def test_prompts_are_cut_on_the_side_the_task_names():
    model, tokenizer = tiny.model("causal"), tiny.tokenizer("causal")
    left = encode_prompts(model, tokenizer, ["the dog sees a cat"], Prompt(2, "left"))
    right = encode_prompts(model, tokenizer, ["the dog sees a cat"], Prompt(2, "right"))
    assert tokenizer.decode(left.ids[0]) == "a cat"
    assert tokenizer.decode(right.ids[0]) == "the dog"


def test_rows_drops_the_columns_that_nobody_uses():
    ids = torch.arange(12).reshape(3, 4)
    mask = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)
    part = Tokens(ids, mask).rows(torch.tensor([0, 1]))
    assert part.ids.tolist() == [[1, 2, 3], [5, 6, 7]]
    assert part.mask.tolist() == [[False, True, True], [True, True, True]]


@pytest.mark.parametrize("chunk", [0, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_scored_tokens_are_those_of_the_stored_support(family, chunk):
    model, prompts, _ = batch(family)
    settings = Generation(max_new_tokens=6, do_sample=True, top_k=5)
    uniforms = torch.rand(3, 6, generator=torch.Generator().manual_seed(1))
    rollout = sample_responses(model, prompts, settings, uniforms, eos=1)
    with torch.no_grad():
        scored = score_tokens(model, None, rollout, torch.arange(3), 1.0, PPOConfig(log_prob_chunk=chunk), entropy=True)
        logits, _ = forward(model, prompts, rollout.responses)
    for b, t in rollout.responses.mask.nonzero().tolist():
        row, token = logits[b, t].tolist(), int(rollout.responses.ids[b, t])
        kept = sorted(range(len(row)), key=lambda v: -row[v])[:5]
        probabilities = oracles.softmax(row)
        assert float(scored.plain[b, t]) == pytest.approx(oracles.token_log_prob(row, token), abs=1e-4)
        assert float(scored.restricted[b, t]) == pytest.approx(oracles.token_log_prob(row, token, kept), abs=1e-4)
        assert math.exp(float(scored.log_mass[b, t])) == pytest.approx(sum(probabilities[v] for v in kept), abs=1e-4)
        expected = oracles.entropy(oracles.softmax([row[v] for v in kept]))
        assert float(scored.entropy[b, t]) == pytest.approx(expected, abs=1e-4)
