"""The exact KL of two policies, against the definition and against the mean of drawn log-ratios."""

from contextlib import nullcontext

import pytest
import torch
from support import tiny

from grue.lm.divergence import kl_divergence
from grue.lm.log_probs import token_log_probs
from grue.lm.model import eos_id
from grue.lm.sampling import sample_responses
from grue.lm.tokens import encode_prompts
from grue.tasks import Generation


def moved(model, by=0.05):
    """The model with noise on its weights."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight += by * torch.randn_like(weight)
    return model


@pytest.mark.parametrize("family", ["causal", "seq2seq"])
def test_it_is_the_definition_token_by_token(family):
    """Enumerated from next-token log-probabilities of every id of the vocabulary, one at a time."""
    policy, start, tokenizer = moved(tiny.model(family)), tiny.model(family), tiny.tokenizer(family)
    task, examples = tiny.task(family), tiny.examples(3)
    prompts = encode_prompts(policy, tokenizer, [one.prompt for one in examples], task.prompt)
    uniforms = torch.rand(3, 4, generator=torch.Generator().manual_seed(1))
    rollout = sample_responses(policy, prompts, Generation(4, do_sample=True), uniforms, eos_id(policy, tokenizer))
    responses = rollout.responses
    expected = torch.zeros(3)
    for token in range(policy.config.vocab_size):
        for t in range(responses.ids.shape[1]):
            ids = responses.ids.clone()
            ids[:, t] = token
            other = type(responses)(ids, responses.mask)
            now, before = (token_log_probs(m, prompts, other, 1.0).restricted[:, t].detach() for m in (policy, start))
            expected += now.exp() * (now - before) * responses.mask[:, t]
    found = kl_divergence(policy, nullcontext(start), prompts, responses)
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-4)
    assert (found > 0).all()
    assert kl_divergence(policy, nullcontext(policy), prompts, responses).tolist() == [0.0] * 3


def test_its_mean_over_samples_is_that_of_the_drawn_log_ratios():
    policy, start, tokenizer = moved(tiny.model("causal")), tiny.model("causal"), tiny.tokenizer("causal")
    one = tiny.examples(1)[0]
    prompts = encode_prompts(policy, tokenizer, [one.prompt] * 4000, tiny.task("causal").prompt)
    uniforms = torch.rand(4000, 4, generator=torch.Generator().manual_seed(2))
    rollout = sample_responses(policy, prompts, Generation(4, do_sample=True), uniforms, eos_id(policy, tokenizer))
    exact = kl_divergence(policy, nullcontext(start), prompts, rollout.responses)
    with torch.no_grad():
        now, before = (token_log_probs(m, prompts, rollout.responses, 1.0).restricted for m in (policy, start))
    drawn = (now - before).sum(1)
    error = float(drawn.std() / len(drawn) ** 0.5)
    assert float(exact.mean()) == pytest.approx(float(drawn.mean()), abs=4 * error)
    assert exact.std() < drawn.std()
