"""`reference = "soup:A,B"`: KL against the mean of the weights of checkpoints, while validation's stays from the start."""

import dataclasses

import pytest
from support.late import late

from grue import files
from grue.errors import ConfigError, DataError
from grue.lm import checkpoint
from grue.rl.settings import RewardedConfig
from grue.runs.algorithms import find_algorithm
from grue.runs.named import malformed

torch, oracles, tiny, saving = late("torch"), late("support.oracles"), late("support.tiny"), late("support.saved")
tiny_models, exactness = late("support.tiny_models"), late("support.exactness")
soups, loading = late("grue.lm.soup"), late("grue.lm.load")
experience, rl, diagnosing = late("grue.rl.experience"), late("grue.rl.trainer"), late("grue.runs.diagnose")
adapters, training, distributed = late("grue.lm.adapters"), late("grue.runs.train"), late("grue.lm.distributed")


def run(folder, *checkpoints, algorithm="reinforce", **settings):
    """A run with what `reference` names, as `prepare` makes it."""
    named = {"reference": "soup:" + ",".join(map(str, checkpoints))} if checkpoints else {}
    made = tiny.run("causal", algorithm, folder, **{"updates": 1, **named, **settings})
    began = (made.trainer.policy, made.trainer.tokenizer)
    made.trainer.anchor = training.load_anchor(made.plan, began, distributed.DistributedContext())
    adapters.adapt(made.trainer.policy, made.plan.config)
    return made


def mean_of(*models):
    """A model with the mean of the weights of several, made of their states at once and in double precision."""
    states = [model.state_dict() for model in models]
    found = {key: torch.stack([state[key].double() for state in states]).mean(0) for key in states[0]}
    models[0].load_state_dict({key: value.to(states[0][key].dtype) for key, value in found.items()})
    return models[0]


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])  # tied and untied heads, buffers that are not saved
def test_a_soup_is_the_mean_of_the_weights(name, tmp_path):
    family, places = "seq2seq" if name == "t5" else "causal", [tmp_path / str(seed) for seed in range(3)]
    for seed, place in enumerate(places):
        torch.manual_seed(seed)
        saving.save(place, family, model=tiny_models.MAKERS[name](tiny_models.SIZE))
    began, *others = (loading.load_language_model(family, str(place)) for place in places)
    for count in (2, 3):
        found = soups.soup(family, places[:count], began)
        models = [loading.load_language_model(family, str(places[0]))[0], *(one for one, _ in others)]
        expected = mean_of(*models[:count]).state_dict()
        assert found.state_dict().keys() == expected.keys()
        for key, value in found.state_dict().items():
            torch.testing.assert_close(value, expected[key], rtol=0, atol=1e-6)
        assert not any(p.requires_grad for p in found.parameters()) and not found.training
    alone = soups.soup(family, places[:1] * 3, began)
    assert torch.equal(tiny.weights(alone), tiny.weights(began[0])), "equal weights give just those"


def test_the_penalty_is_against_the_soup_and_validation_from_the_start(tmp_path):
    models = [saving.save(tmp_path / str(seed), seed=seed) for seed in (1, 2)]
    made = run(tmp_path / "run", tmp_path / "1", tmp_path / "2", kl_coefficient=0.5)
    config = made.plan.config
    found = experience.collect(made.trainer, state := rl.start(made.trainer, config), config, 0)
    policy, mean = tiny.model("causal"), mean_of(*models)
    for row in range(3):
        prompt, said = (exactness.real(part, row) for part in (found.rollout.prompts, found.rollout.responses))
        here, there = (
            [oracles.token_log_prob(*pair) for pair in zip(exactness.alone(model, prompt, said), said, strict=True)]
            for model in (policy, mean)
        )
        kl = [mine - other for mine, other in zip(here, there, strict=True)]
        assert found.kl[row, : len(said)].tolist() == pytest.approx(kl, abs=1e-3)
        assert found.reference[row, : len(said)].tolist() == pytest.approx(there, abs=1e-3)
        penalised = [-0.5 * value for value in kl]
        penalised[-1] += float(found.scores[row])
        assert found.rewards[row, : len(said)].tolist() == pytest.approx(penalised, abs=1e-3)
    with state.initial_policy() as began:
        assert torch.equal(tiny.weights(began), tiny.weights(policy))
    tiny.train(made)
    assert abs(made.observer.lines[0]["objective/kl"]) > 0.01
    assert made.observer.validations[0][1]["kl"] == 0.0


@pytest.fixture
def pair(tmp_path):
    for seed in (1, 2):
        saving.save(tmp_path / str(seed), seed=seed)
    return tmp_path / "1", tmp_path / "2"


def test_a_soup_of_the_start_alone_changes_nothing(tmp_path):
    saving.save(tmp_path / "a", seed=0)
    made = run(tmp_path / "soup", tmp_path / "a", tmp_path / "a", algorithm="grpo", samples_per_prompt=2)
    plain = run(tmp_path / "plain", algorithm="grpo", samples_per_prompt=2)
    tiny.train(made), tiny.train(plain)
    assert made.observer.lines[0]["objective/kl"] == 0.0
    first, last = (figures["kl"] for _, figures, _ in plain.observer.validations)
    assert first == 0.0 < last
    assert torch.equal(tiny.weights(made.trainer.policy), tiny.weights(plain.trainer.policy))


def test_a_run_with_adapters_has_both_the_soup_and_its_start(pair, tmp_path):
    made = tiny.train(run(tmp_path / "run", *pair, lora_rank=2))
    assert abs(made.observer.lines[0]["objective/kl"]) > 0.01
    assert made.observer.validations[0][1]["kl"] == 0.0 < made.observer.validations[-1][1]["kl"]


def test_an_algorithm_that_would_not_see_the_soup_is_refused(pair, tmp_path, refused):
    def without(trainer, config):
        return rl.start(dataclasses.replace(trainer, anchor=None), config)

    with refused(ConfigError):
        run(tmp_path / "run", *pair).carry_out(dataclasses.replace(find_algorithm("reinforce"), start=without))


def saved_as(folder, seed=1, model=None, tokenizer=None, **changes):
    manifest = dataclasses.replace(saving.MANIFEST, **changes)
    words = tiny.tokenizer("causal") if tokenizer is None else tokenizer
    checkpoint.save_checkpoint(folder, model or tiny.model("causal", seed), words, manifest, saving.SAMPLED, "")
    return folder


def test_unlike_checkpoints_are_refused_and_both_are_named(tmp_path, refused):
    def shaped(**changes):
        plain = tiny.model("causal")
        return type(plain)(type(plain.config)(**{**plain.config.to_dict(), **changes}))

    good, other_words, bigger = saved_as(tmp_path / "good"), tiny.tokenizer("causal"), tiny.model("causal")
    other_words.add_tokens(["never"], special_tokens=False)
    bigger.resize_token_embeddings(len(other_words))
    cases = {
        "wide": {"model": shaped(n_embd=64)},
        "deep": {"model": shaped(n_layer=3)},
        "heads": {"model": shaped(n_head=4)},
        "words": {"model": bigger, "tokenizer": other_words},
        "llama": {"model": tiny_models.MAKERS["llama"](23)},
        "task": {"task": "another"},
        "backbone": {"backbone": "large"},
    }
    for name, changes in cases.items():
        saved_as(tmp_path / name, **changes)
        with refused(DataError):
            run(tmp_path / "run", good, tmp_path / name)
        if name in ("wide", "words"):  # two that are alike, but not like the start
            with refused(DataError):
                run(tmp_path / "run", tmp_path / name, tmp_path / name)
    saving.save(tmp_path / "seq2seq", "seq2seq")
    with refused(DataError):
        run(tmp_path / "run", good, tmp_path / "seq2seq")
    with refused(DataError):
        run(tmp_path / "run", tmp_path / "nowhere", good)
    (good / "model.safetensors").write_bytes((good / "model.safetensors").read_bytes()[:-1])
    with refused(DataError):
        run(tmp_path / "run", good, good)


def test_the_settings_say_what_cannot_be_read_or_does_not_go_together():
    for text in ("soup", "soup:", "soup:a", "soup:a,", "soup:,a", "mean:a,b", ""):
        (problem,) = malformed(RewardedConfig(reference=text))
        assert "write soup:A,B" in problem, text
    assert not list(malformed(RewardedConfig(reference="soup:a, b,c:d/e")))
    (problem,) = RewardedConfig(reference="soup:a,b", freeze_encoder=True).problems()
    assert problem.startswith("reference cannot be combined with freeze_encoder")


def test_the_identity_of_a_run_covers_the_weights(tmp_path):
    for place, seed in ((tmp_path / "run-a" / "checkpoint", 1), (tmp_path / "b", 2)):
        place.parent.mkdir(exist_ok=True)
        saved_as(place, seed)
    made = tiny.run("causal", "ppo", tmp_path / "run", reference=f"soup:{tmp_path / 'run-a'},{tmp_path / 'b'}")
    sums = [checkpoint.read_manifest(tmp_path / one).weights for one in ("run-a/checkpoint", "b")]
    before = made.plan.record()
    assert before["reference_sha256"] == files.sha256_json(sums)
    saved_as(tmp_path / "b", 3)
    assert made.plan.record()["reference_sha256"] != before["reference_sha256"]


def test_a_diagnosis_tells_how_far_an_update_moves_from_the_policy_before(pair, tmp_path):
    settings = {"reward": tiny.share_of_the, "kl_coefficient": 0.0, "samples_per_prompt": 4}
    plain, made = run(tmp_path / "a", **settings), run(tmp_path / "b", *pair, **settings)
    found = [diagnosing.measure(one.plan, one.trainer, 4).move.kl_token for one in (plain, made)]
    assert found[0] == found[1] > 0


def test_a_diagnosis_looks_at_the_prompts_that_a_run_would_learn_from_and_writes_nothing(tmp_path, monkeypatch):
    asked = []

    def reward(examples, texts):
        asked.append({example.id for example in examples})
        return [float(example.id[1:]) + len(text) for example, text in zip(examples, texts, strict=True)]

    settings = {"select": "hard:4", "rollouts": 4, "minibatch_size": 4, "samples_per_prompt": 2}
    made = tiny.run("causal", "rloo", tmp_path / "run", reward=reward, **settings)
    monkeypatch.setattr(diagnosing, "prepare", lambda *given: made)
    diagnosing.diagnose(made.plan, 4, lambda done, total: None, distributed.DistributedContext())
    first, *others = asked
    assert len(first) == 12 and len(set().union(*others)) <= 4
    assert not (tmp_path / "run").exists()
