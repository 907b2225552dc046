"""The exact KL of two policies, against the definition and against the mean of drawn log-ratios."""

from contextlib import nullcontext

import pytest
from support.late import late

from grue.tasks import Generation

torch, tiny, sampling, tokens = late("torch"), late("support.tiny"), late("grue.lm.sampling"), late("grue.lm.tokens")
divergence, scoring = late("grue.lm.divergence"), late("grue.lm.log_probs")


def moved(model, by=0.05):
    """The model with noise on its weights."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight += by * torch.randn_like(weight)
    return model


def sampled(family, texts, seed):
    policy = moved(tiny.model(family))
    prompts = tokens.encode_prompts(policy, tiny.tokenizer(family), texts, tiny.task(family).prompt)
    uniforms = torch.rand(len(texts), 4, generator=torch.Generator().manual_seed(seed))
    rollout = sampling.sample_responses(policy, prompts, Generation(4, do_sample=True), uniforms, eos=1)
    return policy, tiny.model(family), prompts, rollout.responses


def log_probs(model, prompts, responses):
    with torch.no_grad():
        return scoring.token_log_probs(model, prompts, responses, 1.0).restricted


@pytest.mark.parametrize("family", ["causal", "seq2seq"])
def test_it_is_the_definition_token_by_token(family):
    """Enumerated from next-token log-probabilities of every id of the vocabulary, one at a time."""
    policy, start, prompts, said = sampled(family, [one.prompt for one in tiny.examples(3)], seed=1)
    expected = torch.zeros(3)
    for token in range(policy.config.vocab_size):
        for t in range(said.ids.shape[1]):
            ids = said.ids.clone()
            ids[:, t] = token
            now, before = (log_probs(m, prompts, type(said)(ids, said.mask))[:, t] for m in (policy, start))
            expected += now.exp() * (now - before) * said.mask[:, t]
    found = divergence.kl_divergence(policy, nullcontext(start), prompts, said)
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-4)
    assert (found > 0).all()
    assert divergence.kl_divergence(policy, nullcontext(policy), prompts, said).tolist() == [0.0] * 3


def test_its_mean_over_samples_is_that_of_the_drawn_log_ratios():
    policy, start, prompts, said = sampled("causal", [tiny.examples(1)[0].prompt] * 2000, seed=2)
    with torch.no_grad():
        exact = divergence.kl_divergence(policy, nullcontext(start), prompts, said)
    drawn = (log_probs(policy, prompts, said) - log_probs(start, prompts, said)).sum(1)
    error = float(drawn.std() / len(drawn) ** 0.5)
    assert float(exact.mean()) == pytest.approx(float(drawn.mean()), abs=4 * error)
    assert exact.std() < drawn.std()
