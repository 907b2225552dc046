"""`reference = "soup:A,B"`: KL against the mean of the weights of checkpoints, while validation's stays from the start."""

import dataclasses

import pytest
import torch
from support import oracles, tiny
from support.exactness import alone, real
from support.saved import MANIFEST, SAMPLED, save
from support.tiny_models import MAKERS

from grue import files
from grue.errors import ConfigError, DataError
from grue.lm import checkpoint
from grue.lm.adapters import adapt
from grue.lm.distributed import DistributedContext
from grue.lm.load import load_language_model
from grue.lm.soup import soup
from grue.rl.experience import collect
from grue.rl.settings import RewardedConfig
from grue.rl.trainer import start
from grue.runs import diagnose as diagnosing
from grue.runs.algorithms import find_algorithm
from grue.runs.diagnose import diagnose, measure
from grue.runs.train import load_anchor

FAMILIES = ("causal", "seq2seq")


def run(folder, *checkpoints, family="causal", algorithm="reinforce", **settings):
    """A run with what `reference` names, as `prepare` makes it."""
    named = {"reference": "soup:" + ",".join(map(str, checkpoints))} if checkpoints else {}
    made = tiny.run(family, algorithm, folder, **{"updates": 1, **named, **settings})
    began = (made.trainer.policy, made.trainer.tokenizer)
    made.trainer.anchor = load_anchor(made.plan, began, DistributedContext())
    adapt(made.trainer.policy, made.plan.config)
    return made


def mean_of(*models):
    """A model with the mean of the weights of several, number by number of its state."""
    states = [model.state_dict() for model in models]
    found = {}
    for key in states[0]:
        flat = [state[key].double().flatten().tolist() for state in states]
        values = [sum(numbers) / len(numbers) for numbers in zip(*flat, strict=True)]
        found[key] = torch.tensor(values, dtype=states[0][key].dtype).view(states[0][key].shape)
    models[0].load_state_dict(found)
    return models[0]


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "mt5"])  # tied and untied heads, buffers that are not saved
def test_a_soup_is_the_mean_of_the_weights(name, tmp_path):
    family = "seq2seq" if "t5" in name else "causal"
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(save(tmp_path / str(seed), family, model=MAKERS[name](len(tiny.WORDS) + 3)))
    began = load_language_model(family, str(tmp_path / "0"))
    for count in (2, 3):
        found = soup(family, [tmp_path / str(seed) for seed in range(count)], began)
        loaded = [load_language_model(family, str(tmp_path / str(seed)))[0] for seed in range(count)]
        expected = mean_of(*loaded).state_dict()
        assert found.state_dict().keys() == expected.keys()
        for key, value in found.state_dict().items():
            torch.testing.assert_close(value, expected[key], rtol=0, atol=1e-6)
        assert not any(p.requires_grad for p in found.parameters()) and not found.training


def test_equal_weights_give_just_those(tmp_path):
    model = save(tmp_path / "a")
    found = soup("causal", [tmp_path / "a"] * 3, load_language_model("causal", str(tmp_path / "a")))
    assert torch.equal(tiny.weights(found), tiny.weights(model))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_penalty_is_against_the_soup_and_validation_from_the_start(family, tmp_path):
    models = [save(tmp_path / str(seed), family, seed) for seed in (1, 2)]
    made = run(tmp_path / "run", tmp_path / "1", tmp_path / "2", family=family, kl_coefficient=0.5)
    config = made.plan.config
    found = collect(made.trainer, state := start(made.trainer, config), config, 0)
    policy, mean = tiny.model(family), mean_of(*models)
    for row in range(3):
        prompt, said = real(found.rollout.prompts, row), real(found.rollout.responses, row)
        here, there = (
            [
                oracles.token_log_prob(logits, token)
                for logits, token in zip(alone(model, prompt, said), said, strict=True)
            ]
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


@pytest.mark.parametrize("settings", [{}, {"lora_rank": 2}])
def test_a_soup_of_the_start_alone_changes_nothing(settings, tmp_path):
    save(tmp_path / "a", seed=0)
    made = run(tmp_path / "soup", tmp_path / "a", tmp_path / "a", algorithm="grpo", samples_per_prompt=2, **settings)
    plain = run(tmp_path / "plain", algorithm="grpo", samples_per_prompt=2, **settings)
    tiny.train(made), tiny.train(plain)
    assert made.observer.lines[0]["objective/kl"] == 0.0
    assert torch.equal(tiny.weights(made.trainer.policy), tiny.weights(plain.trainer.policy))


def test_a_run_with_adapters_has_both_the_soup_and_its_start(tmp_path):
    for seed in (1, 2):
        save(tmp_path / str(seed), seed=seed)
    made = tiny.train(run(tmp_path / "run", tmp_path / "1", tmp_path / "2", lora_rank=2))
    assert abs(made.observer.lines[0]["objective/kl"]) > 0.01
    assert made.observer.validations[0][1]["kl"] == 0.0 < made.observer.validations[-1][1]["kl"]


def test_a_resumed_run_is_the_one_that_was_not_stopped(tmp_path):
    for seed in (1, 2):
        save(tmp_path / str(seed), seed=seed)
    pair, settings = (tmp_path / "1", tmp_path / "2"), {"updates": 3, "kl_coefficient": 0.5}
    whole = tiny.train(run(tmp_path / "whole", *pair, **settings))
    begun = run(tmp_path / "begun", *pair, **settings)
    begun.stop = lambda: len(begun.observer.lines) >= 1
    with pytest.raises(Exception, match="stopped after update 1"):
        tiny.train(begun)
    again = tiny.train(run(tmp_path / "begun", *pair, **settings))
    assert torch.equal(tiny.weights(again.trainer.policy), tiny.weights(whole.trainer.policy))


def test_an_algorithm_that_would_not_see_the_soup_is_refused(tmp_path):
    save(tmp_path / "a")
    made, theirs = run(tmp_path / "run", tmp_path / "a", tmp_path / "a"), find_algorithm("reinforce")
    deaf = dataclasses.replace(
        theirs, start=lambda trainer, config: start(dataclasses.replace(trainer, anchor=None), config)
    )
    with pytest.raises(ConfigError, match="reference: the state that reinforce starts from has no anchor"):
        made.carry_out(deaf)


# --- what is refused -------------------------------------------------------------------------------------------------


def saved_as(folder, seed=1, model=None, tokenizer=None, **changes):
    manifest = dataclasses.replace(MANIFEST, **changes)
    words = tiny.tokenizer("causal") if tokenizer is None else tokenizer
    checkpoint.save_checkpoint(folder, model or tiny.model("causal", seed), words, manifest, SAMPLED, "")
    return folder


def test_unlike_checkpoints_are_refused_and_both_are_named(tmp_path):
    good = saved_as(tmp_path / "good")
    wide, deep, heads = (tiny.model("causal") for _ in range(3))
    wide = type(wide)(type(wide.config)(**{**wide.config.to_dict(), "n_embd": 64}))
    deep = type(deep)(type(deep.config)(**{**deep.config.to_dict(), "n_layer": 3}))
    heads = type(heads)(type(heads.config)(**{**heads.config.to_dict(), "n_head": 4}))
    other_words = tiny.tokenizer("causal")
    other_words.add_tokens(["never"], special_tokens=False)
    bigger = tiny.model("causal")
    bigger.resize_token_embeddings(len(other_words))
    cases = {
        "wide": (saved_as(tmp_path / "wide", model=wide), ["good", r"is \[\d+.*\] in one and"]),
        "deep": (saved_as(tmp_path / "deep", model=deep), ["good", "h.2", "absent"]),
        "heads": (saved_as(tmp_path / "heads", model=heads), ["good", "4 attention heads, the other 2"]),
        "words": (saved_as(tmp_path / "words", model=bigger, tokenizer=other_words), ["good", "tokenizers differ"]),
        "llama": (saved_as(tmp_path / "llama", model=MAKERS["llama"](23)), ["good", "LlamaForCausalLM"]),
        "task": (saved_as(tmp_path / "task", task="another"), ["tests/another", "tests/tiny"]),
        "backbone": (saved_as(tmp_path / "backbone", backbone="large"), ["large", "tiny"]),
    }
    for name, (folder, said) in cases.items():
        for each in (name, *said):
            with pytest.raises(DataError, match=each):
                run(tmp_path / "run", good, folder)
    for name in ("wide", "words"):  # two that are alike, but not like the start
        with pytest.raises(DataError, match=f"{name} and the model that training starts from"):
            run(tmp_path / "run", cases[name][0], cases[name][0])
    saved = good / "model.safetensors"
    saved.write_bytes(saved.read_bytes()[:-1])
    with pytest.raises(DataError, match="damaged"):
        run(tmp_path / "run", good, good)
    with pytest.raises(DataError, match="nowhere: no such checkpoint"):
        run(tmp_path / "run", tmp_path / "nowhere", good)


def test_an_encoder_decoder_is_none_for_a_causal_task(tmp_path):
    save(tmp_path / "a"), save(tmp_path / "b", "seq2seq")
    with pytest.raises(DataError, match=r"b: its model is seq2seq"):
        run(tmp_path / "run", tmp_path / "a", tmp_path / "b")


def test_the_settings_say_what_cannot_be_read_or_does_not_go_together():
    for text in ("soup", "soup:", "soup:a", "soup:a,", "soup:,a", "mean:a,b", ""):
        (problem,) = RewardedConfig(reference=text).problems()
        assert "write soup:A,B" in problem, text
    assert not list(RewardedConfig(reference="soup:a, b,c:d/e").problems())
    (problem,) = RewardedConfig(reference="soup:a,b", freeze_encoder=True).problems()
    assert problem.startswith("reference does not go with freeze_encoder")


def test_the_identity_of_a_run_covers_the_weights(tmp_path):
    (tmp_path / "run-a").mkdir()
    saved_as(tmp_path / "run-a" / "checkpoint", 1)
    saved_as(tmp_path / "b", 2)
    made = tiny.run("causal", "ppo", tmp_path / "run", reference=f"soup:{tmp_path / 'run-a'},{tmp_path / 'b'}")
    sums = [checkpoint.read_manifest(tmp_path / one).weights for one in ("run-a/checkpoint", "b")]
    before = made.plan.record()
    assert before["reference_sha256"] == files.sha256_json(sums)
    saved_as(tmp_path / "b", 3)
    assert made.plan.record()["reference_sha256"] != before["reference_sha256"]


# --- grue diagnose ---------------------------------------------------------------------------------------------------


def test_a_diagnosis_tells_how_far_an_update_moves_from_the_policy_before(tmp_path):
    for seed in (1, 2):
        save(tmp_path / str(seed), seed=seed)
    settings = {"reward": tiny.share_of_the, "kl_coefficient": 0.0, "samples_per_prompt": 4}
    plain, made = run(tmp_path / "a", **settings), run(tmp_path / "b", tmp_path / "1", tmp_path / "2", **settings)
    found = [measure(one.plan, one.trainer, 5).move.kl_token for one in (plain, made)]
    assert found[0] == found[1] > 0


def test_a_diagnosis_looks_at_the_prompts_that_a_run_would_learn_from_and_writes_nothing(tmp_path, monkeypatch):
    asked = []

    def reward(examples, texts):
        asked.append({example.id for example in examples})
        return [float(example.id[1:]) + len(text) for example, text in zip(examples, texts, strict=True)]

    settings = {"select": "hard:4", "rollouts": 4, "minibatch_size": 4, "samples_per_prompt": 2}
    made = tiny.run("causal", "rloo", tmp_path / "run", reward=reward, **settings)
    monkeypatch.setattr(diagnosing, "prepare", lambda *given: made)
    diagnose(made.plan, 5, lambda done, total: None, DistributedContext())
    first, *others = asked
    assert len(first) == 12 and len(set().union(*others)) <= 4
    assert not (tmp_path / "run").exists()
