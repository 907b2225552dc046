"""The scores of sampled tokens against slow loops over the stored supports."""

import math

import pytest
import torch
from support import oracles, tiny

from grue.algorithms.cards.ppo import PPOConfig
from grue.lm.forward import forward
from grue.lm.sampling import sample_responses
from grue.lm.tokens import encode_prompts
from grue.rl.experience import score_tokens
from grue.tasks import Generation, Prompt


@pytest.mark.parametrize("chunk", [0, 3])
@pytest.mark.parametrize("family", ["causal", "seq2seq"])
def test_scored_tokens_are_those_of_the_stored_support(family, chunk):
    model, texts = tiny.model(family), ("the dog sees", "a cat likes the red ball", "man")
    prompts = encode_prompts(model, tiny.tokenizer(family), texts, Prompt(max_tokens=10, truncation="left"))
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
