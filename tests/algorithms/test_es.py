"""Evolution strategies: an update by slow loops, ranks by hand, weights that come back, and what is refused."""

import copy
import hashlib

import pytest
from support.late import late, lates

from grue.algorithms.cards.es import ESConfig
from grue.errors import ConfigError, TrainingError
from grue.runs.algorithms import find_card

torch, stats, tiny, exactness, es = lates("torch scipy.stats support.tiny support.exactness grue.algorithms.es")
adapters, distributed = late("grue.lm.adapters"), late("grue.lm.distributed")
EOS, SEED = 1, 1
TWO_PROMPTS = {"rollouts": 12, "perturbations": 3}


def run_of(family, folder, **settings):
    return tiny.run(family, "es", folder, seed=SEED, **{**TWO_PROMPTS, **settings})


def begun(run):
    return run, run.plan.config, es.start(run.trainer, run.plan.config)


def chance(*purpose):
    """The generator of a purpose, as docs/architecture.md describes it."""
    digest = hashlib.sha256(repr((SEED, *purpose)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def likeliest(model, tokenizer, prompt):
    """The greedy answer to one prompt, without a batch, a cache or a sampler; and whether it never ended."""
    said = exactness.greedy(model, tokenizer(prompt, truncation=True, max_length=10)["input_ids"], 8)
    return tokenizer.decode(said, skip_special_tokens=True).strip(), said[-1] != EOS


def by_hand(family, n, noise, penalty):
    """Texts and fitness of the six members of update `n`, and the gradient of each weight."""
    tokenizer, examples = tiny.tokenizer(family), tiny.examples()
    order = torch.randperm(12, generator=chance("order", 0)).tolist()
    prompts = [examples[place].prompt for place in order[2 * n : 2 * n + 2]]
    texts, fitness, drawn = [], [], []
    for pair in range(3):
        stream = chance("perturbation", n, pair)
        drawn.append([torch.randn(p.shape, generator=stream) for p in tiny.model(family).parameters()])
        for sign in (1.0, -1.0):
            member = tiny.model(family)
            for weight, epsilon in zip(member.parameters(), drawn[-1], strict=True):
                weight.data = weight.data + sign * noise * epsilon
            answers = [likeliest(member, tokenizer, prompt) for prompt in prompts]
            texts += [text for text, _ in answers]
            paid = [exactness.letters([], [text])[0] - penalty * cut for text, cut in answers]
            fitness.append(sum(paid) / 2)
    ranks = [(rank - 1) / 5 - 0.5 for rank in stats.rankdata([round(value, 9) for value in fitness])]
    gradient = [
        sum((ranks[2 * pair] - ranks[2 * pair + 1]) * drawn[pair][k].double() for pair in range(3)) / (2 * 3 * noise)
        for k in range(len(drawn[0]))
    ]
    return texts, fitness, gradient


@pytest.mark.parametrize(("family", "n"), [("causal", 1), ("seq2seq", 0)])
def test_an_update_is_that_of_slow_loops(family, n, tmp_path, monkeypatch):
    asked, seen = [], []

    def reward(examples, texts):
        asked.extend(texts)
        return exactness.letters(examples, texts)

    def step(trainer, optimizer, config, where):
        seen.extend(-weight.grad for weight in trainer.policy.parameters())
        return real(trainer, optimizer, config, where)

    real = es.step
    monkeypatch.setattr(es, "step", step)
    run, config, state = begun(run_of(family, tmp_path, reward=reward, noise=0.3, missing_eos_penalty=0.25))
    line = es.update(run.trainer, state, config, n)
    texts, fitness, gradient = by_hand(family, n, 0.3, 0.25)
    assert asked == texts
    assert len(set(fitness)) > 2, "members that differ"
    spread = torch.tensor(fitness, dtype=torch.float64).std(correction=0)
    assert line["es/fitness_sd"] == pytest.approx(float(spread), rel=1e-6)
    for found, wanted in zip(seen, gradient, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=1e-6)
    norm = sum(float(one.square().sum()) for one in gradient) ** 0.5
    assert line["policy/grad_norm"] == pytest.approx(norm, rel=1e-5)
    moved = tiny.weights(run.trainer.policy) - tiny.weights(tiny.model(family))
    upwards = torch.cat([one.flatten() for one in gradient])
    assert torch.equal(moved[upwards > 0.1] > 0, torch.ones(int((upwards > 0.1).sum()), dtype=bool)), "uphill"


def test_of_equally_likely_tokens_the_first_is_said(tmp_path):
    run = run_of("causal", tmp_path, noise=1e-30)
    run.trainer.policy.transformer.wte.weight.data.zero_()  # the head, too: all logits are 0
    run.trainer.policy.requires_grad_(False).transformer.wpe.requires_grad_(True)
    run, config, state = begun(run)
    sampled = es.answer(run.trainer, state, config, 0)
    assert sampled.rollout.responses.ids.tolist() == [[0] * 8] * 12


def test_ranks_by_hand():
    nan = float("nan")
    cases = {
        (3.0, 1.0, 2.0, 7.0): [1 / 6, -1 / 2, -1 / 6, 1 / 2],
        (0.0, 5.0, 5.0, 9.0): [-1 / 2, 0.0, 0.0, 1 / 2],  # ranks 0, 1½, 1½, 3 of 3
        (1.0, 1.0, 1.0, 0.0): [1 / 6, 1 / 6, 1 / 6, -1 / 2],  # 2, 2, 2, 0
        (4.0, 4.0, 4.0, 4.0): [0.0, 0.0, 0.0, 0.0],
        (2.0, nan, 1.0, 3.0): [0.0, 0.0, -1 / 2, 1 / 2],
        (nan, 1.0): [0.0, 0.0],
        (-1e9, 1e-9): [-1 / 2, 1 / 2],
    }
    for fitness, ranks in cases.items():
        assert es.centred_ranks(torch.tensor(fitness, dtype=torch.float64)).tolist() == pytest.approx(ranks)
    assert es.tied_share(torch.tensor([1.0, 1.0, 2.0, 3.0])) == 0.5
    assert es.tied_share(torch.tensor([1.0, 4.0, 2.0, 3.0])) == 0.0


def test_members_without_any_score_are_not_compared(tmp_path):
    """Of the first member nothing has a score, of the second one answer: its mean is over that one."""

    def reward(examples, texts):
        return [None, None, 0.75, None, *(k / 10 for k in range(len(texts) - 4))][: len(texts)]

    run, config, state = begun(run_of("causal", tmp_path, reward=reward))
    found = es.score(run.trainer, state, config, 0, es.answer(run.trainer, state, config, 0))
    fitness = es.member_fitness(found, 6)
    assert fitness[0].isnan() and fitness[1:].tolist() == pytest.approx([0.75, 0.05, 0.25, 0.45, 0.65])


def test_without_a_difference_nothing_moves(tmp_path):
    """Neither by what AdamW remembers of earlier steps, nor by weight decay."""
    calls = []

    def reward(examples, texts):
        calls.append(len(texts))
        return exactness.letters(examples, texts) if len(calls) == 1 else [0.5] * len(texts)

    run, config, state = begun(run_of("causal", tmp_path, reward=reward, weight_decay=0.1))
    assert es.update(run.trainer, state, config, 0)["steps"] == 1.0
    before, optimizer = tiny.weights(state.policy), copy.deepcopy(state.optimizer.state_dict())
    line = es.update(run.trainer, state, config, 1)
    assert torch.equal(tiny.weights(state.policy), before)
    for key, kept in optimizer["state"].items():
        assert all(torch.equal(state.optimizer.state_dict()["state"][key][name], kept[name]) for name in kept)
    assert (line["steps"], line["policy/grad_norm"], line["es/tied"], line["es/fitness_sd"]) == (0.0, 0.0, 1.0, 0.0)
    assert (line["reward_calls"], line["prompts"]) == (12.0, 2.0)


@pytest.mark.parametrize("settings", [{}, {"lora_rank": 2}, {"freeze_encoder": True}], ids=str)
def test_weights_come_back_bit_for_bit_and_only_those_that_learn_ever_move(settings, tmp_path):
    run = run_of("seq2seq", tmp_path, noise=0.1, **settings)
    adapters.adapt(run.trainer.policy, run.plan.config)
    policy, config = run.trainer.policy, run.plan.config
    learning = [p.requires_grad for p in policy.parameters()]
    assert any(learning) and all(learning) == (not settings)
    before = [p.detach().clone() for p in policy.parameters()]
    centre, seen = tiny.weights(policy), []
    for _ in es.members(run.trainer, config, 0):
        for weight, kept, learns in zip(policy.parameters(), before, learning, strict=True):
            assert torch.equal(weight, kept) != learns
        seen.append(tiny.weights(policy))
    for plus, minus in zip(seen[::2], seen[1::2], strict=True):
        torch.testing.assert_close((plus + minus) / 2, centre, rtol=0, atol=1e-6)
    assert torch.equal(tiny.weights(policy), centre)


def test_weights_come_back_from_a_member_that_cannot_answer(tmp_path, refused):
    run, config, state = begun(run_of("causal", tmp_path, noise=1e38))
    before = tiny.weights(run.trainer.policy)
    with refused(TrainingError) as caught:
        es.update(run.trainer, state, config, 0)
    assert caught.tb, "its frames are alive"
    assert torch.equal(tiny.weights(run.trainer.policy), before)


def test_what_a_recipe_sets_for_other_learners_changes_nothing(tmp_path):
    others = {
        **{"samples_per_prompt": 5, "minibatch_size": 64, "epochs": 3, "redraws": 2, "calibration_samples": 2},
        **{"calibration_tilt": 2.0, "supervised_coefficient": 0.5},
        **{"mask": "learned_top_p", "top_p": 0.1, "rollout_temperature": 9.0, "rollout_top_k": 7},
    }
    assert ESConfig(rollouts=32, **others).prompts == 2
    assert list(ESConfig(rollouts=32, **others).problems()) == []
    assert not {*others} - find_card("es").without_effect
    settings = {"reward": exactness.letters, "normalize_terms": True}
    plain, shared = run_of("causal", tmp_path, **settings), run_of("causal", tmp_path, **settings, **others)
    assert tiny.updated(plain, 2) == tiny.updated(shared, 2)
    assert torch.equal(tiny.weights(plain.trainer.policy), tiny.weights(shared.trainer.policy))
    assert not torch.equal(tiny.weights(plain.trainer.policy), tiny.weights(tiny.model("causal")))


def test_more_processes_than_pairs_are_refused(tmp_path, refused):
    run = run_of("causal", tmp_path)
    run.trainer.distributed = distributed.DistributedContext(rank=0, size=4)
    with refused(ConfigError):
        begun(run)
