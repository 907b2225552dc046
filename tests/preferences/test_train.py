"""Training a reward model: its loss and gradient against loops in double precision, resuming, and what it writes."""

import copy
import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support import preferences
from support.preferences import EXAMPLES, TASK, backbone, pairs, train

from grue import files
from grue.errors import ConfigError, DataError, TrainingError
from grue.lm.reward_folder import HEAD, REWARD, RewardManifest, read_reward_manifest, sealed
from grue.lm.reward_model import RewardModel, load_backbone, load_reward_model, pooling_of, seen_prompt
from grue.lm.seeds import generator
from grue.metrics.neural.reward_model import logits, room, token_ids
from grue.metrics.registry import make_metric
from grue.preferences.read import read_pairs
from grue.preferences.settings import reward_settings
from grue.preferences.train import (
    _learner,
    _schedule,
    _step,
    batch_loss,
    epoch_order,
    pair_losses,
    train_reward_model,
)
from grue.runs.train import Interrupted
from grue.shapes import from_dict


def learner(folder, path, family, **settings):
    """A learner before its first step, its tokenizer, and the pairs that it learns from."""
    config = reward_settings({**preferences.SETTINGS, **settings})
    trunk, tokenizer = load_backbone(folder)
    model = RewardModel(trunk, pooling_of(trunk, len(tokenizer)), config.seed)
    most = room(model, tokenizer, config.max_tokens)
    learned = read_pairs(path, TASK, EXAMPLES, 1).of("train")
    prompts = [pair.prompt for pair in learned]
    rows = tuple(
        token_ids(tokenizer, model.pooling, most, prompts, [getattr(pair, side) for pair in learned])
        for side in ("first", "second")
    )
    return _learner(model, tokenizer, config, (learned, rows), ([], ([], []))), tokenizer, learned


def double_logit(model, head, ids, family):
    """The logit of one text, alone and unpadded, in double precision, without our model's forward pass."""
    trunk = model.get_encoder() if family == "seq2seq" else model
    states = trunk(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
    states = states.last_hidden_state[0]
    pooled = states[-1] if family == "causal" else sum(states[place] for place in range(len(ids))) / len(ids)
    return (pooled * head).sum()


@pytest.mark.parametrize("family", ["causal", "seq2seq", "bert"])
def test_the_loss_and_its_gradient_are_those_of_a_loop(family, tmp_path):
    folder, path = backbone(tmp_path / "backbone", family), pairs(tmp_path / "pairs")
    found, _, learned = learner(folder, path, family, micro_batch_size=3)
    assert found.model.pooling == ("last" if family == "causal" else "mean")
    exact = copy.deepcopy(found.model.backbone).double()
    for weight in exact.parameters():
        weight.requires_grad_(True)
    head = found.model.head.weight.detach()[0].double().requires_grad_(True)
    ties = [at for at, pair in enumerate(learned) if pair.target == 0.5]
    places = [0, 5, 7, *ties[:2], 20, 3]
    assert {learned[at].target for at in places} == {0.5, 1.0}  # ties are among them
    total = torch.zeros((), dtype=torch.float64)
    for at in places:
        gap = double_logit(exact, head, found.rows[0][at], family) - double_logit(
            exact, head, found.rows[1][at], family
        )
        chance = 1 / (1 + torch.exp(-gap))
        if learned[at].target == 1.0:
            total = total - torch.log(chance)
        else:
            total = total - (torch.log(chance) + torch.log(1 - chance)) / 2
    total.backward()
    loss = batch_loss(found, places)
    loss.backward()
    assert loss.item() == pytest.approx(total.item(), rel=1e-5)
    assert torch.allclose(found.model.head.weight.grad[0].double(), head.grad, rtol=1e-3, atol=1e-5)
    trunk = exact.get_encoder() if family == "seq2seq" else exact
    gradients = {f"trunk.{name}": weight.grad for name, weight in trunk.named_parameters() if weight.grad is not None}
    assert gradients.keys() >= {name for name, weight in found.weights.items() if weight.grad is not None} - {
        "head.weight"
    }
    for name, gradient in gradients.items():
        scale = max(float(gradient.abs().max()), 1.0)
        assert torch.allclose(found.weights[name].grad.double(), gradient, rtol=1e-3, atol=1e-4 * scale), name


def test_a_tie_pulls_two_logits_together_and_a_pair_apart():
    gaps = torch.tensor([2.0, 2.0, -2.0], requires_grad=True)
    losses = pair_losses(gaps, torch.tensor([1.0, 0.5, 0.5]))
    assert losses.tolist() == pytest.approx(
        [math.log1p(math.exp(-2)), 1 + math.log1p(math.exp(-2)), 1 + math.log1p(math.exp(-2))], rel=1e-6
    )
    losses.sum().backward()
    assert gaps.grad[0] < 0 and gaps.grad[1] > 0 and gaps.grad[2] < 0
    assert torch.isfinite(pair_losses(torch.tensor([900.0, -900.0]), torch.tensor([0.5, 1.0]))).all()


def test_micro_batches_change_nothing_but_rounding(tmp_path):
    folder, path = backbone(tmp_path / "backbone"), pairs(tmp_path / "pairs")
    gradients = []
    for size in (1, 4):
        found, *_ = learner(folder, path, "causal", micro_batch_size=size)
        _step(found)
        gradients.append(torch.cat([one.grad.flatten() for one in found.weights.values() if one.grad is not None]))
    assert torch.allclose(*gradients, atol=1e-6) and float(gradients[0].norm()) > 0.1


def test_the_learning_rate_rises_then_falls():
    shares = [_schedule(n, 10, 0.2) for n in range(10)]
    assert shares[:3] == [0.5, 1.0, 1.0] and shares[-1] == pytest.approx(1 / 8)
    assert _schedule(0, 1, 0.0) == 1.0 and _schedule(0, 1, 0.9) == 1.0


def test_texts_are_read_with_their_end_and_cut_at_the_prompts_beginning(tmp_path):
    _, tokenizer = load_backbone(backbone(tmp_path / "backbone"))
    (ids,) = token_ids(tokenizer, "last", 6, ["the dog sees a red ball"], ["in the house"])
    assert tokenizer.decode(ids[:-1]).split() == "red ball in the house".split() and ids[-1] == tokenizer.eos_token_id
    assert token_ids(tokenizer, "last", 6, [""], [""]) == [[tokenizer.eos_token_id]]
    assert token_ids(tokenizer, "mean", 6, [""], [""]) == [[tokenizer.pad_token_id]]


@pytest.mark.parametrize("family", ["causal", "seq2seq", "bert"])
def test_padding_changes_no_logit(family, tmp_path):
    trunk, tokenizer = load_backbone(backbone(tmp_path / "backbone", family))
    model = RewardModel(trunk, pooling_of(trunk, len(tokenizer)))
    rows = token_ids(
        tokenizer, model.pooling, 30, ["the dog", "a", "man"], ["sees the red ball", "", "in the small house"]
    )
    together = logits(model, tokenizer, rows, 8)
    alone = [logits(model, tokenizer, [row], 1)[0] for row in rows]
    assert np.allclose(together, alone, atol=1e-4) and len(set(np.round(together, 4))) == 3


# --- the folder ------------------------------------------------------------------------------------------------------


def test_it_learns_and_says_what_it_is(tmp_path):
    folder, made = train(tmp_path, epochs=12)
    assert made == read_reward_manifest(folder)
    assert made.held_out.accuracy > 0.75 and made.held_out.low < made.held_out.accuracy <= made.held_out.high
    assert made.pairs == {"train": 24, "validation": 6, "test": 6} and made.held_out.prompts == 2
    assert sum(one[2] for one in made.held_out.bins) + made.held_out.ties == 6
    best = min(made.validation.items(), key=lambda item: item[1]["log_loss"])
    assert str(made.step) == best[0]  # the earliest of the best is kept
    assert set(files.read_json(folder / "prompts.json")) == {seen_prompt(one.prompt) for one in EXAMPLES[:10]}
    card = (folder / "README.md").read_text()
    assert f"{made.held_out.accuracy:.1%}" in card and made.pairs_sha256 in card
    assert not (tmp_path / "rm.partial").exists() and not list(tmp_path.glob(".rm*"))


def test_scores_are_in_standard_deviations_of_the_texts_that_it_learned_from(tmp_path):
    folder, made = train(tmp_path)
    metric = make_metric(f"model:{folder}")
    by_id = {one.id: one for one in EXAMPLES}
    lines = [line for _, line in files.read_jsonl(tmp_path / "pairs.jsonl") if line["part"] == "train"]
    examples = [by_id[line["id"]] for line in lines] * 2
    texts = [line["chosen"] for line in lines] + [line["rejected"] for line in lines]
    values = metric.per_example(metric.statistics(examples, texts))
    assert values.mean() == pytest.approx(0, abs=1e-5) and values.std() == pytest.approx(1, abs=1e-5)
    assert metric.signature.startswith(f"model|sha256:{made.sha256[:16]}")
    assert metric.direction == "higher" and metric.corpus(metric.statistics(examples, texts)) == pytest.approx(
        0, abs=1e-5
    )


def test_the_split_that_was_answered_is_stated(tmp_path):
    folder, made = train(tmp_path, split="test")
    assert made.split == "test" and "prompts of `test`" in (folder / "README.md").read_text()
    with pytest.raises(ConfigError, match="holds a reward model with split = 'test', not 'train'"):
        train(tmp_path)
    assert train(tmp_path, "rows", split="some/where/held-back.jsonl")[1].split == "held-back.jsonl"


def test_accuracy_can_choose(tmp_path):
    _, made = train(tmp_path, choose="accuracy", epochs=4)
    most = max(one["accuracy"] for one in made.validation.values())
    equal = {step: one["log_loss"] for step, one in made.validation.items() if one["accuracy"] == most}
    assert str(made.step) == min(equal, key=equal.get)


# --- resuming --------------------------------------------------------------------------------------------------------


def weights_of(folder):
    return {**load_file(folder / "model.safetensors"), "head": load_file(folder / HEAD)["weight"]}


def test_a_training_that_is_killed_after_any_step_goes_on_bit_for_bit(tmp_path):
    whole, made = train(tmp_path, "whole")
    steps = []
    for at in (1, 4, 7, 11):
        told = []

        def killed(done, total, said, at=at, told=told):
            told.append(done)
            if done == at and told[0] == 1:
                raise KeyboardInterrupt  # before the step's state is saved: the step is repeated

        name = f"killed-{at}"
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, name, progress=killed)
        assert not (tmp_path / name).exists()
        again = []
        folder, found = train(tmp_path, name, progress=lambda done, total, said, again=again: again.append(done))
        steps.append(again[0])
        assert found == made and files.sha256_file(folder / REWARD) == files.sha256_file(whole / REWARD)
        one, other = weights_of(whole), weights_of(folder)
        assert all(torch.equal(one[key], other[key]) for key in one) and one.keys() == other.keys()
    assert steps == [1, 4, 7, 11]


def test_a_stop_saves_and_a_finished_folder_is_only_read(tmp_path):
    with pytest.raises(Interrupted, match="stopped after step 1 of 12; the same command resumes"):
        train(tmp_path, stop=lambda: True, save_every=100)
    folder, made = train(tmp_path, save_every=100)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert train(tmp_path)[1] == made
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    with pytest.raises(ConfigError, match=r"holds a reward model with config.epochs = 2, not 3"):
        train(tmp_path, epochs=3)
    pairs(tmp_path / "pairs.jsonl", seed=9)
    with pytest.raises(ConfigError, match="holds a reward model with pairs_sha256"):
        train(tmp_path)


def test_other_settings_do_not_go_on_with_an_interrupted_training(tmp_path):
    with pytest.raises(Interrupted):
        train(tmp_path, stop=lambda: True)
    with pytest.raises(ConfigError, match=r"rm.partial: holds a reward model with config.learning_rate"):
        train(tmp_path, learning_rate=1e-3)
    for state in (tmp_path / "rm.partial/states").iterdir():
        state.write_bytes(state.read_bytes()[:-200])
    with pytest.raises(DataError, match="no saved state is whole"):
        train(tmp_path)


def test_a_failed_attempt_does_not_stand_in_the_way(tmp_path):
    path, nothing = pairs(tmp_path / "pairs.jsonl"), tmp_path / "empty"
    nothing.mkdir()
    with pytest.raises(DataError):
        train_reward_model(
            path, TASK, EXAMPLES, tmp_path / "rm", reward_settings(preferences.SETTINGS), backbone=str(nothing)
        )
    assert (tmp_path / "rm.partial/claim.json").is_file()
    _, made = train(tmp_path)
    assert made.backbone == str(tmp_path / "backbone") and not (tmp_path / "rm.partial").exists()


def test_an_epoch_has_one_order_which_is_drawn_once(tmp_path):
    found, *_ = learner(backbone(tmp_path / "backbone"), pairs(tmp_path / "pairs"), "causal")
    epoch_order.cache_clear()
    for _ in range(found.total):
        _step(found)
    assert epoch_order.cache_info().misses == found.config.epochs == 2 < found.total
    expected = torch.randperm(24, generator=generator(1, "pairs", 1)).tolist()
    assert list(epoch_order(24, 1, 1)) == expected


def test_equal_seeds_are_equal_and_others_are_not(tmp_path):
    one, other, same = (train(tmp_path, name, seed=seed) for name, seed in (("a", 1), ("b", 2), ("c", 1)))
    assert one[1].sha256 == same[1].sha256 != other[1].sha256


# --- what is refused -------------------------------------------------------------------------------------------------


def test_what_cannot_be_trained(tmp_path):
    with pytest.raises(TrainingError, match="not a number; lower learning_rate|scores all texts alike"):
        train(tmp_path, learning_rate=1e9, max_grad_norm=1e9)
    (tmp_path / "rm.partial").exists() and shutil.rmtree(tmp_path / "rm.partial")
    (tmp_path / "there").mkdir()
    with pytest.raises(ConfigError, match="holds something else; choose another folder"):
        train(tmp_path, "there")
    with pytest.raises(ConfigError, match="epochs"):
        reward_settings({"epochs": 0})
    with pytest.raises(ConfigError, match="unknown key 'epoch'. Did you mean 'epochs'"):
        reward_settings({"epoch": 1})
    lines = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    files.write_jsonl(tmp_path / "pairs.jsonl", [line for line in lines if line["part"] != "validation"])
    with pytest.raises(
        DataError, match=r"its part 'validation' holds no pairs \(pairs: 24 train, 0 validation, 6 test\)"
    ):
        train(tmp_path)


def test_the_limit_that_was_read_is_stated_and_holds_a_text(tmp_path):
    folder, made = train(tmp_path, max_tokens=512)
    assert made.max_tokens < 512  # what the backbone has room for
    said = (folder / "README.md").read_text()
    assert f"{made.max_tokens} tokens of prompt and text at most" in said
    assert f"| `max_tokens` | `{made.max_tokens}; 512 were asked for" in said
    for few in (1, 2, 4):
        with pytest.raises(ConfigError, match=f"max_tokens {few}: .* nothing of their prompts is read: give more with"):
            train(tmp_path, f"few-{few}", max_tokens=few)
        assert not (tmp_path / f"few-{few}").exists()


def test_without_a_test_part_nothing_is_claimed_of_it(tmp_path):
    pairs(tmp_path / "pairs.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    files.write_jsonl(tmp_path / "pairs.jsonl", [line for line in lines if line["part"] != "test"])
    folder, made = train(tmp_path)
    assert (
        made.held_out is None and "nothing is known of pairs that it did not see" in (folder / "README.md").read_text()
    )


DAMAGES = {
    "weights": (lambda folder: damage(folder / HEAD), "head.safetensors differs from the saved file"),
    "tokenizer": (lambda folder: damage(folder / "tokenizer.json"), "tokenizer.json differs from the saved file"),
    "missing": (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
    "stranger": (lambda folder: (folder / "adapter_config.json").write_text("{}"), "adapter_config.json, which reward"),
    "link": (lambda folder: relink(folder / HEAD), "head.safetensors is a link"),
    "scale": (lambda folder: edit(folder, spread=1e-3), "does not have the sha256 that it states"),
    "key": (lambda folder: edit(folder, evil=1), "unknown key 'evil'"),
    "other": (lambda folder: edit(folder, grue="checkpoint"), "reads a reward model of schema 1"),
    "cut": (lambda folder: (folder / REWARD).write_text("{"), "not valid JSON"),
    "none": (lambda folder: (folder / REWARD).unlink(), "not a reward model: it has no reward.json"),
    "gone": (shutil.rmtree, "no such folder of a reward model"),
}


def test_a_folder_that_was_sealed_anew_still_runs_no_code_and_has_its_own_head(tmp_path):
    whole, _ = train(tmp_path)

    def reseal(name):
        manifest = read_reward_manifest_unchecked(tmp_path / name)
        sums = {
            path.name: files.sha256_file(path) for path in (tmp_path / name).iterdir() if path.name in manifest.files
        }
        files.write_json(tmp_path / name / REWARD, sealed(replace(manifest, files=sums)))

    for name in ("code", "head", "nan"):
        shutil.copytree(whole, tmp_path / name)
    config = files.read_json(tmp_path / "code/config.json")
    files.write_json(tmp_path / "code/config.json", {**config, "auto_map": {"AutoModel": "evil.Evil"}})
    save_file({"weight": torch.zeros(1, 5)}, tmp_path / "head" / HEAD)
    weight = load_file(tmp_path / "nan" / HEAD)["weight"]
    save_file({"weight": weight.fill_(torch.nan)}, tmp_path / "nan" / HEAD)
    messages = {
        "code": "names Python code, which is never run",
        "head": "is of another backbone",
        "nan": "in its weight head.safetensors are NaN or infinite",
    }
    for name, message in messages.items():
        reseal(name)
        with pytest.raises(DataError, match=message):
            load_reward_model(tmp_path / name)


def read_reward_manifest_unchecked(folder):
    return from_dict(RewardManifest, files.read_json(folder / REWARD), "test")


def damage(path):
    path.write_bytes(path.read_bytes()[:-1] + b"\1")


def relink(path):
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def edit(folder, **changes):
    files.write_json(folder / REWARD, {**files.read_json(folder / REWARD), **changes})


def test_a_damaged_folder_is_one_clear_error(tmp_path):
    whole, _ = train(tmp_path)
    load_reward_model(whole)  # what was loaded once is not taken for what is there now
    for name, (spoil, message) in DAMAGES.items():
        folder = tmp_path / name
        shutil.copytree(whole, folder)
        spoil(folder)
        with pytest.raises(DataError) as caught:
            make_metric(f"model:{folder}")
        assert message in str(caught.value) and str(caught.value).count("\n") == 0, name
