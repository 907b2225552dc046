"""NLPO's presets: what the published code really did, and what the paper says, each against slow oracles.

The preset `stable` counts as the experiences of tests/rl/test_exact_samples.py do.

RL4LMs' sampler asks the copy of the policy that it was built with, for ever (`update_mask_model` rebinds another); it
keeps at least 100 tokens and all special ones; and its ratio and KL are of the full softmax.
"""

import dataclasses
import math

import pytest
from support.late import late, lates

from grue.runs.recipes import make_config

torch, tiny, oracles, lm = lates("torch support.tiny support.oracles grue.lm.forward")
values_, masking = late("grue.rl.experience"), late("grue.rl.responses")
SIZES = {"rollouts": 12, "minibatch_size": 12, "epochs": 2, "learning_rate": 3e-2}


@pytest.fixture
def experiences(tmp_path, monkeypatch):
    """Train for some updates; return what each learnt from, and the policy's weights when it was sampled."""
    seen, original = [], values_.collect

    def spying(run_, learner, *arguments, **named):
        weights = {name: value.clone() for name, value in learner.policy.state_dict().items()}
        experience = original(run_, learner, *arguments, **named)
        seen.append((weights, experience))
        return experience

    monkeypatch.setattr(values_, "collect", spying)

    def learn(family, preset, updates, recipe=None, **settings):
        task = dataclasses.replace(tiny.task(family), recipes={"nlpo": recipe or {}})
        config = make_config(task, "nlpo", {**SIZES, **settings}, preset)
        named = {name: getattr(config, name) for name in type(config).__dataclass_fields__}
        tiny.updated(tiny.run(family, "nlpo", tmp_path, **named), updates)
        assert len(seen) == updates
        return seen

    return learn


def rows_of(model, experience):
    """Each token's logits under a model, as lists, with the ids that were open and the id that was drawn."""
    rollout = experience.rollout
    with torch.no_grad():
        logits, _ = lm.forward(model, rollout.prompts, rollout.responses)
    everyone = torch.arange(len(logits))
    support = rollout.open_vocabulary(everyone, logits.shape[1], logits.shape[2])
    for b, t in rollout.responses.mask.nonzero().tolist():
        opened = set(support[b, t].nonzero().flatten().tolist())
        yield (b, t), logits[b, t].tolist(), opened, int(rollout.responses.ids[b, t])


def likeliest(row, count):
    return set(sorted(range(len(row)), key=lambda token: -row[token])[:count])


@pytest.mark.parametrize("family", ["causal", "seq2seq"])
def test_rl4lms_asks_the_initial_policy_for_ever_and_counts_the_full_softmax(family, experiences):
    """Whatever μ says, what may be drawn is the nucleus of the policy of the very beginning.

    The old log-probability and the KL penalty are not renormalised over what could be drawn.
    """
    seen = experiences(family, "rl4lms", 3, {"mask_updates": 1}, min_tokens_to_keep=3, top_p=0.6)
    initial, moved, narrowed = tiny.model(family), 0, 0
    for weights, experience in seen:
        now = tiny.model(family)
        now.load_state_dict(weights)
        pairs = zip(rows_of(initial, experience), rows_of(now, experience), strict=True)
        for ((b, t), row, opened, drawn), (_, own, _, _) in pairs:
            special = {0, 1, 2}  # <pad>, <eos>, <unk>: never closed, however unlikely
            assert opened == oracles.nucleus(row, 0.6) | likeliest(row, 3) | special
            assert drawn in opened
            moved += oracles.nucleus(own, 0.6) | likeliest(own, 3) | special != opened
            plain = oracles.token_log_prob(own, drawn)
            assert float(experience.log_probs[b, t]) == pytest.approx(plain, abs=1e-4)
            assert float(experience.kl[b, t]) == pytest.approx(plain - oracles.token_log_prob(row, drawn), abs=1e-4)
            narrowed += math.log(sum(math.exp(oracles.token_log_prob(own, token)) for token in opened)) < -0.05
    assert moved > 0, "the policy has moved away from its mask, and the mask has not followed"
    assert narrowed > 0, "somewhere, renormalising would have mattered"


def test_the_paper_counts_what_could_be_drawn(experiences):
    """The ratio is of π_ψ, renormalised inside the nucleus (Eq. 6); the penalty's KL is of the whole vocabulary."""
    weights, experience = experiences("causal", "paper", 2, top_p=0.6, mask_updates=2)[-1]
    now, initial = tiny.model("causal"), tiny.model("causal")
    now.load_state_dict(weights)
    pairs = zip(rows_of(now, experience), rows_of(initial, experience), strict=True)
    for ((b, t), row, opened, drawn), (_, before, _, _) in pairs:
        masked = oracles.token_log_prob(row, drawn, opened)
        assert float(experience.log_probs[b, t]) == pytest.approx(masked, abs=1e-4)
        whole = oracles.token_log_prob(row, drawn) - oracles.token_log_prob(before, drawn)
        assert float(experience.kl[b, t]) == pytest.approx(whole, abs=1e-4)


def test_rl4lms_keeps_a_hundred_tokens(tmp_path):
    config = make_config(tiny.task("causal"), "nlpo", {}, "rl4lms")
    assert (config.min_tokens_to_keep, config.always_open, config.mask_source) == (100, "special", "frozen")
    logits = torch.zeros(1, 300)
    logits[0, 7] = 50.0  # a nucleus of one token
    assert int(masking.own_mask(tiny.run("causal", "nlpo", tmp_path).trainer, config).rule(logits).sum()) == 100
