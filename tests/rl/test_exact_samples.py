"""What is sampled is what is scored, down to the last token (docs/reference/exactness.md), against slow loops."""

import math
import statistics

import pytest
from support.late import lates

from grue.errors import TrainingError
from grue.task_files import load_task
from grue.tasks import Generation

torch, tiny, tiny_models, oracles, exactness, losses = lates(
    "torch support.tiny support.tiny_models support.oracles support.exactness support.losses"
)
loading, data, predicting, rewards = lates("lm.load data.load evaluation.predict evaluation.rewards", "grue.")
adapters, lm, scoring, sampling, tokens = lates("adapters model log_probs sampling tokens", "grue.lm.")
experience, optimize, trainer = lates("experience optimize trainer", "grue.rl.")
EOS = 1


@pytest.mark.parametrize(
    ("family", "sampler", "masked", "chunk"),
    [
        ("causal", "everything", False, 0),
        ("seq2seq", "temperature", True, 0),
        ("causal", "top-k", True, 3),
        ("seq2seq", "top-p", False, 3),
        ("causal", "least length", True, 0),
        ("seq2seq", "all of them", False, 0),
        ("causal", "all of them", True, 0),
    ],
)
def test_an_experience_is_what_slow_loops_make_of_the_drawn_ids(family, sampler, masked, chunk, tmp_path):
    run, learner, found = exactness.world(family, tmp_path, sampler, masked, log_prob_chunk=chunk)
    settings, rollout, size = run.trainer.task.rollout, found.rollout, lm.vocabulary_size(run.trainer.policy)
    logged = dict.fromkeys(["kl", "kl_vocabulary", "entropy", "mass", "kl_k3"], 0.0)
    count = 0
    for row in range(12):
        prompt, said = exactness.real(rollout.prompts, row), exactness.real(rollout.responses, row)
        policy, reference = (exactness.alone(m, prompt, said) for m in (run.trainer.policy, learner.reference))
        masking = exactness.alone(learner.mask_model, prompt, said) if masked else None
        for t, token in enumerate(said):
            now, before = ([x / settings.temperature for x in logits[t]] for logits in (policy, reference))
            allowed = exactness.slow_support(now, settings, t, masking and masking[t], 0.8)
            assert token in allowed
            opened = rollout.open_vocabulary(torch.tensor([row]), t + 1, size)
            stored = set(range(size)) if opened is None else set(opened[0, t].nonzero().flatten().tolist())
            assert stored == allowed
            over = oracles.token_log_prob(now, token, allowed)
            kl = over - oracles.token_log_prob(before, token, allowed)
            full = oracles.token_log_prob(now, token) - oracles.token_log_prob(before, token)
            chances = oracles.softmax(now)
            entropy = oracles.entropy(oracles.softmax([now[v] for v in allowed]))
            assert float(found.log_probs[row, t]) == pytest.approx(over, abs=2e-4)
            assert float(found.kl[row, t]) == pytest.approx(kl, abs=4e-4)
            assert float(found.kl_vocabulary[row, t]) == pytest.approx(full, abs=4e-4)
            last = exactness.letters([], [run.trainer.tokenizer.decode(said, skip_special_tokens=True).strip()])[0]
            last -= 0.25 * (said[-1] != EOS)
            assert float(found.rewards[row, t]) == pytest.approx(last * (t == len(said) - 1) - 0.3 * kl, abs=4e-4)
            never_negative = math.exp(-kl) - 1 + kl
            terms = (kl, full, entropy, sum(chances[v] for v in allowed), never_negative)
            for name, value in zip(logged, terms, strict=True):
                logged[name] += value
            count += 1
    line = experience.describe(found, learner)
    assert line["tokens"] == count
    for name, total in logged.items():
        found_mean = line["mask/mass" if name == "mass" else f"objective/{name}"]
        assert found_mean == pytest.approx(total / count, rel=2e-4, abs=2e-4), name


@pytest.mark.parametrize(
    ("family", "sampler", "masked"),
    [("causal", "temperature", True), ("seq2seq", "top-k", False), ("causal", "all of them", True)],
)
def test_a_later_epoch_replays_the_stored_support(family, sampler, masked, tmp_path):
    """The policy has moved since; the support is that of the rollout, not the one it would draw from now."""
    extra = {"mass_coefficient": 0.4} if masked else {}
    run, learner, found = exactness.world(family, tmp_path, sampler, masked, entropy_coefficient=0.2, **extra)
    with torch.no_grad():
        for parameter in run.trainer.policy.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7)))
    rows, config = torch.tensor([7, 2, 9, 4]), run.plan.config
    chance = torch.Generator().manual_seed(8)
    advantages, returns = (torch.randn(found.mask.shape, generator=chance) for _ in range(2))
    loss = losses.of_ppo(run, learner, config, found, advantages, returns, rows)
    expected, size, moved = 0.0, lm.vocabulary_size(run.trainer.policy), 0
    for row in rows.tolist():
        prompt, said = exactness.real(found.rollout.prompts, row), exactness.real(found.rollout.responses, row)
        policy = exactness.alone(run.trainer.policy, prompt, said)
        for t, token in enumerate(said):
            now = [x / run.trainer.task.rollout.temperature for x in policy[t]]
            opened = found.rollout.open_vocabulary(torch.tensor([row]), t + 1, size)
            allowed = range(size) if opened is None else opened[0, t].nonzero().flatten().tolist()
            over = oracles.token_log_prob(now, token, allowed)
            advantage = float(advantages[row, t])
            expected += oracles.clipped_loss(over, float(found.log_probs[row, t]), advantage, 0.2)
            expected -= 0.2 * oracles.entropy(oracles.softmax([now[v] for v in allowed]))
            expected -= 0.4 * masked * (oracles.token_log_prob(now, token) - over)
            moved += abs(over - float(found.log_probs[row, t])) > 0.05
    values = 0.5 * float(loss["value_loss"].detach())
    assert moved > 4
    assert float(loss["loss"].detach()) - values == pytest.approx(expected, rel=1e-3, abs=2e-3)


def test_a_sampler_has_no_limit_that_nobody_set():
    model, count = tiny_models.wide(), 6000
    prompts = tokens.Tokens(torch.tensor([[5, 6]]).expand(count, -1), torch.ones(count, 2, dtype=torch.bool))
    uniforms = ((torch.arange(count) + 0.5) / count).unsqueeze(1)
    rollout = sampling.sample_responses(model, prompts, Generation(max_new_tokens=1, do_sample=True), uniforms, EOS)
    assert rollout.support is None
    shares = torch.bincount(rollout.responses.ids[:, 0], minlength=300) / count
    assert (shares > 0).sum() == 300
    assert shares.tolist() == pytest.approx(oracles.softmax(exactness.alone(model, [5, 6], [0])[0]), abs=2 / count)


def test_beam_search_finds_the_likeliest_of_all_sequences():
    model, tokenizer, task = tiny.model("seq2seq"), tiny.tokenizer("seq2seq"), tiny.task("seq2seq")
    (example,) = tiny.examples(1)
    prompt, size = tokenizer(example.prompt)["input_ids"], lm.vocabulary_size(model)
    begun = torch.cartesian_prod(torch.arange(size), torch.arange(size))
    begun = begun[(begun != EOS).all(1)]
    likelihoods = {}
    for (first, second), logits in zip(begun.tolist(), exactness.at_once(model, prompt, begun), strict=True):
        chance = oracles.token_log_prob(logits[0], first) + oracles.token_log_prob(logits[1], second)
        for third in set(range(size)) - {EOS}:
            likelihoods[first, second, third] = chance + oracles.token_log_prob(logits[2], third)
    best = max(likelihoods, key=likelihoods.get)
    beams = Generation(max_new_tokens=3, min_new_tokens=3, num_beams=size * size)
    (found,) = predicting.predict((model, tokenizer), task, [example], beams, seed=1)
    assert found.text == tokenizer.decode(best, skip_special_tokens=True).strip()
    assert found.truncated


@pytest.mark.parametrize(
    ("module", "algorithm"),
    [("rl.experience", "nlpo"), ("algorithms.reinforce", "rloo"), ("algorithms.grpo", "grpo")],
)
def test_no_algorithm_learns_from_another_policys_samples(module, algorithm, tmp_path, monkeypatch, refused):
    collect = experience.collect

    def tampered(*arguments, **named):
        found = collect(*arguments, **named)
        found.log_probs.add_(0.5)
        return found

    monkeypatch.setattr(f"grue.{module}.collect", tampered)
    run = tiny.run("causal", algorithm, tmp_path, reward=exactness.letters, **tiny.SMALL.get(algorithm, {}))
    with refused(TrainingError):
        tiny.updated(run)
    assert torch.equal(tiny.weights(run.trainer.policy), tiny.weights(tiny.model("causal")))


@pytest.mark.parametrize("name", ["imdb", "narrativeqa"])
def test_what_a_trained_model_says_token_by_token_it_says_of_the_whole(name):
    """Models that write sentences, and prompts of unequal lengths; double precision behind the logits."""
    task = load_task(name)
    model, tokenizer = loading.load_language_model(task.backbone.family, task.backbone.model)
    asked = [example.prompt for example in data.load_examples(task, "train").examples[:16]]
    prompts = tokens.encode_prompts(model, tokenizer, asked, task.prompt)
    chance = torch.rand(16, task.rollout.max_new_tokens, generator=torch.Generator().manual_seed(0))
    found = sampling.sample_responses(model, prompts, task.rollout, chance, lm.eos_id(model, tokenizer), keep="scores")
    assert not prompts.mask.all()
    errors = []
    for row in range(16):
        said = exactness.real(found.responses, row)
        logits = torch.tensor(exactness.alone(model, exactness.real(prompts, row), said)).double()
        now = (logits / task.rollout.temperature).log_softmax(-1)
        errors += (found.sampler_scores.plain[row, : len(said)] - now[torch.arange(len(said)), said]).abs().tolist()
    print(f"{len(errors)} tokens, largest error {max(errors):.1e}")
    assert max(errors) < 5e-5


@pytest.mark.parametrize(
    ("family", "value_model", "precision"),
    [("causal", "shared", "float32"), ("seq2seq", "separate", "float32"), ("seq2seq", "shared", "bfloat16")],
)
def test_the_policy_reads_its_responses_again_only_in_half_precision(
    family, value_model, precision, tmp_path, monkeypatch
):
    read, scored, said_of, score_all = [], [], scoring.token_log_probs, experience.score_all

    def reads(model, *arguments, **named):
        read.append(model)
        return said_of(model, *arguments, **named)

    def scores(policy, critic, *arguments, **named):
        scored.append((arguments[0], score_all(policy, critic, *arguments, **named)))
        return scored[-1][1]

    monkeypatch.setattr(experience, "token_log_probs", reads)
    monkeypatch.setattr(experience, "score_all", scores)
    settings = {"value_model": value_model, "precision": precision, "micro_batch_size": 5}
    run, learner, found = exactness.world(family, tmp_path, "all of them", masked=True, **settings)
    assert any(model is learner.reference for model in read)
    assert any(model is run.trainer.policy for model in read) == (precision == "bfloat16")
    if precision == "float32":
        (rollout, kept), temperature = scored[0], run.trainer.task.rollout.temperature
        asked = (run.trainer.policy, learner.critic, rollout, temperature, run.plan.config)
        again = experience.score_all(*asked, entropy=True)
        for name in ("plain", "restricted", "entropy", "values"):
            assert torch.allclose(getattr(kept, name), getattr(again, name), atol=1e-5), name
        assert kept.values.std() > 0.1 and found.rollout.sampler_scores is None


@pytest.mark.parametrize("family", ["causal", "seq2seq"])
def test_half_precision_finds_what_was_scored_bit_for_bit_and_stays_near_the_sampler(family, tmp_path):
    settings = {"task_": tiny.task(family, top_k=9), "precision": "bfloat16", "micro_batch_size": 5, "epochs": 1}
    run = tiny.run(family, "ppo", tmp_path, **settings)
    lm.choose_attention(run.trainer.policy)
    lines = tiny.updated(run, 3)
    assert all(line["policy/ratio_error"] == 0 for line in lines)
    assert all(line["policy/mismatch"] < 0.5 * optimize.NOISE for line in lines)
    assert lines[0]["objective/kl"] == 0 != lines[1]["objective/kl"]


@pytest.mark.parametrize("algorithm", ["supervised", "ppo"])
def test_training_does_not_begin_with_dropout(algorithm, tmp_path):
    run = tiny.run("seq2seq", algorithm, tmp_path, **tiny.SMALL.get(algorithm, {}))
    run.trainer.policy = tiny_models.model("t5").train()
    with pytest.raises(AssertionError, match="dropout is active"):
        tiny.train(run)
    adapters.adapt(run.trainer.policy, run.plan.config)
    assert not [m for m in run.trainer.policy.modules() if isinstance(m, torch.nn.Dropout) and m.p > 0]


def test_raw_scores_are_logged_whatever_is_made_of_them(tmp_path):
    """The penalty of an endless response comes first, then the scale, which moves no mean, then the clip."""
    settings = {"missing_eos_penalty": 1.5, "reward_scale": "running", "reward_clip": 1.5}
    task = tiny.task("causal", temperature=3.0)
    run = tiny.run("causal", "ppo", tmp_path, task_=task, reward=exactness.letters, **settings)
    learner = trainer.start(run.trainer, run.plan.config)
    paid = []
    for update in range(3):
        found = experience.collect(run.trainer, learner, run.plan.config, update)
        rows = [exactness.real(found.rollout.responses, row) for row in range(12)]
        texts = [run.trainer.tokenizer.decode(row, skip_special_tokens=True).strip() for row in rows]
        raw = exactness.letters([], texts)
        assert experience.describe(found, learner)["objective/reward"] == pytest.approx(statistics.fmean(raw), rel=1e-5)
        endless = [EOS not in row for row in rows]
        assert found.rollout.truncated.tolist() == endless and 0 < sum(endless) < 12
        paid += [score - 1.5 * cut for score, cut in zip(raw, endless, strict=True)]
        spread = statistics.pstdev(paid)
        expected = [max(-1.5, min(1.5, score / spread)) for score in paid[-12:]]
        assert found.scores.tolist() == pytest.approx(expected, rel=1e-4)
    assert any(abs(score) == 1.5 for score in expected) and min(expected) < 0 < max(expected)


@pytest.mark.parametrize("algorithm", ["alol", "dpo", "es", "ppo", "trpo"])
def test_a_policy_that_says_nothing_is_trained_all_the_same(algorithm, tmp_path):
    shown = []
    run = tiny.run("seq2seq", algorithm, tmp_path, epochs=1, **tiny.SMALL.get(algorithm, {}))
    run.trainer.policy = tiny_models.model("bart")
    run.trainer.policy.final_logits_bias[0, EOS] = 40.0
    run.trainer.reward = rewards.make_reward("rouge1 + 0.5*meteor + 0.5*bleu4", run.trainer.task, run.trainer.examples)
    run.trainer.shown = lambda example, text, score: shown.append(text)
    (line,) = tiny.updated(run)
    assert {*shown} == {""}
    assert (line["objective/length"], line["objective/reward"], line["objective/ended"]) == (1.0, 0.0, 1.0)
    assert all(math.isfinite(value) for value in line.values())
