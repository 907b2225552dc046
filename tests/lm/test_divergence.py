"""The exact KL of two policies, against the definition."""

from contextlib import nullcontext

import pytest
from support.late import lates

from grue.tasks import Generation

torch, tiny, scored = lates("torch support.tiny support.scored")
sampling, tokens, divergence, scoring = lates("sampling tokens forward log_probs", "grue.lm.")


def log_probs(model, prompts, responses):
    with torch.no_grad():
        return scoring.token_log_probs(model, prompts, responses, 1.0).restricted


@pytest.mark.parametrize("family", ["causal", "seq2seq"])
def test_it_is_the_definition_token_by_token(family):
    """Enumerated from next-token log-probabilities of every id of the vocabulary, one at a time."""
    policy, start, texts = tiny.model(family), tiny.model(family), [one.prompt for one in tiny.examples(3)]
    scored.move(policy)
    prompts = tokens.encode_prompts(policy, tiny.tokenizer(family), texts, tiny.task(family).prompt)
    uniforms = torch.rand(3, 4, generator=torch.Generator().manual_seed(1))
    said = sampling.sample_responses(policy, prompts, Generation(4, do_sample=True), uniforms, eos=1).responses
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
