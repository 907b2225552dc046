"""Training a reward model: its loss and gradient against loops in double precision, resuming, and what it writes."""

import copy
import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
from support.late import lates

from grue import files
from grue.errors import ConfigError, DataError, TrainingError
from grue.lm.reward_folder import HEAD, REWARD, RewardManifest, read_reward_manifest, sealed
from grue.metrics.registry import make_metric
from grue.preferences.read import read_pairs
from grue.preferences.settings import reward_settings
from grue.shapes import from_dict

torch, safetensors, preferences = lates("torch safetensors.torch support.preferences")
training, reward_model, metric, seeds, runs = lates(
    "preferences.train lm.reward_model metrics.neural.reward_model lm.seeds runs.train", "grue."
)


def learner(tmp_path, family, **settings):
    """A learner before its first step, and the pairs that it learns from."""
    folder, path = preferences.backbone(tmp_path / "backbone", family), preferences.pairs(tmp_path / "pairs")
    config = reward_settings({**preferences.SETTINGS, **settings})
    trunk, tokenizer = reward_model.load_backbone(folder)
    model = reward_model.RewardModel(trunk, reward_model.pooling_of(trunk, len(tokenizer)), config.seed)
    most = metric.room(model, tokenizer, config.max_tokens)
    learned = read_pairs(path, preferences.TASK, preferences.EXAMPLES, 1, split="train").of("train")
    prompts = [pair.prompt for pair in learned]
    rows = tuple(
        metric.token_ids(tokenizer, model.pooling, most, prompts, [getattr(pair, side) for pair in learned])
        for side in ("first", "second")
    )
    return training._learner(model, tokenizer, config, (learned, rows), ([], ([], []))), learned


def double_logit(model, head, ids, family):
    """The logit of one text, alone and unpadded, in double precision, without our model's forward pass."""
    trunk = model.get_encoder() if family == "seq2seq" else model
    states = trunk(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
    states = states.last_hidden_state[0]
    pooled = states[-1] if family == "causal" else sum(states[place] for place in range(len(ids))) / len(ids)
    return (pooled * head).sum()


@pytest.mark.parametrize("family", ["causal", "seq2seq", "bert"])
def test_the_loss_and_its_gradient_are_those_of_a_loop(family, tmp_path):
    found, learned = learner(tmp_path, family, micro_batch_size=3)
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
        first, second = (double_logit(exact, head, side[at], family) for side in found.rows)
        chance = 1 / (1 + torch.exp(second - first))
        if learned[at].target == 1.0:
            total = total - torch.log(chance)
        else:
            total = total - (torch.log(chance) + torch.log(1 - chance)) / 2
    total.backward()
    loss = training.batch_loss(found, places)
    loss.backward()
    assert loss.item() == pytest.approx(total.item(), rel=1e-5)
    assert torch.allclose(found.model.head.weight.grad[0].double(), head.grad, rtol=1e-3, atol=1e-5)
    trunk = exact.get_encoder() if family == "seq2seq" else exact
    gradients = {f"trunk.{name}": weight.grad for name, weight in trunk.named_parameters() if weight.grad is not None}
    learning = {name for name, weight in found.weights.items() if weight.grad is not None}
    assert gradients.keys() >= learning - {"head.weight"}
    for name, gradient in gradients.items():
        scale = max(float(gradient.abs().max()), 1.0)
        assert torch.allclose(found.weights[name].grad.double(), gradient, rtol=1e-3, atol=1e-4 * scale), name


def test_a_tie_pulls_two_logits_together_and_a_pair_apart():
    gaps = torch.tensor([2.0, 2.0, -2.0], requires_grad=True)
    losses = training.pair_losses(gaps, torch.tensor([1.0, 0.5, 0.5]))
    small = math.log1p(math.exp(-2))
    assert losses.tolist() == pytest.approx([small, 1 + small, 1 + small], rel=1e-6)
    losses.sum().backward()
    assert gaps.grad[0] < 0 and gaps.grad[1] > 0 and gaps.grad[2] < 0
    assert torch.isfinite(training.pair_losses(torch.tensor([900.0, -900.0]), torch.tensor([0.5, 1.0]))).all()


def test_micro_batches_change_nothing_but_rounding(tmp_path):
    gradients = []
    for size in (1, 4):
        found, _ = learner(tmp_path, "causal", micro_batch_size=size, max_grad_norm=1e9)
        training._step(found)
        gradients.append(torch.cat([one.grad.flatten() for one in found.weights.values() if one.grad is not None]))
    assert torch.allclose(*gradients, atol=1e-6) and float(gradients[0].norm()) > 0.1


def test_the_learning_rate_rises_then_falls():
    shares = [training._schedule(n, 10, 0.2) for n in range(10)]
    assert shares[:3] == [0.5, 1.0, 1.0] and shares[-1] == pytest.approx(1 / 8)
    assert training._schedule(0, 1, 0.0) == 1.0 and training._schedule(0, 1, 0.9) == 1.0


def test_an_epoch_has_one_order_which_is_drawn_once(tmp_path):
    found, _ = learner(tmp_path, "causal")
    training.epoch_order.cache_clear()
    for _ in range(found.total):
        training._step(found)
    assert training.epoch_order.cache_info().misses == found.config.epochs == 2 < found.total
    expected = torch.randperm(24, generator=seeds.generator(1, "pairs", 1)).tolist()
    assert list(training.epoch_order(24, 1, 1)) == expected


@pytest.mark.parametrize("family", ["causal", "seq2seq", "bert"])
def test_texts_are_read_with_their_end_cut_at_the_prompts_beginning_and_no_padding_is_seen(family, tmp_path):
    trunk, tokenizer = reward_model.load_backbone(preferences.backbone(tmp_path / "backbone", family))
    model = reward_model.RewardModel(trunk, reward_model.pooling_of(trunk, len(tokenizer)))
    prompts, texts = ["the dog", "a", "man"], ["sees the red ball", "", "in the small house"]
    rows = metric.token_ids(tokenizer, model.pooling, 30, prompts, texts)
    together = metric.logits(model, tokenizer, rows, 8)
    alone = [metric.logits(model, tokenizer, [row], 1)[0] for row in rows]
    assert np.allclose(together, alone, atol=1e-4) and len(set(np.round(together, 4))) == 3
    if family == "causal":
        (ids,) = metric.token_ids(tokenizer, "last", 6, ["the dog sees a red ball"], ["in the house"])
        assert tokenizer.decode(ids[:-1]).split() == "red ball in the house".split()
        assert ids[-1] == tokenizer.eos_token_id
        assert metric.token_ids(tokenizer, "last", 6, [""], [""]) == [[tokenizer.eos_token_id]]
        assert metric.token_ids(tokenizer, "mean", 6, [""], [""]) == [[tokenizer.pad_token_id]]


# --- the folder ------------------------------------------------------------------------------------------------------


def test_it_learns_and_says_what_it_is(tmp_path):
    folder, made = preferences.train(tmp_path, epochs=6)
    assert made == read_reward_manifest(folder)
    assert made.held_out.accuracy > 0.75 and made.held_out.low < made.held_out.accuracy <= made.held_out.high
    assert made.pairs == {"train": 24, "validation": 6, "test": 6} and made.held_out.prompts == 2
    assert sum(one[2] for one in made.held_out.bins) + made.held_out.ties == 6
    prompts = [reward_model.seen_prompt(one.prompt) for one in preferences.EXAMPLES[:10]]
    assert set(files.read_json(folder / "prompts.json")) == set(prompts)
    card = (folder / "README.md").read_text()
    assert f"{made.held_out.accuracy:.1%}" in card and made.pairs_sha256 in card
    assert not (tmp_path / "rm.partial").exists() and not list(tmp_path.glob(".rm*"))
    best = min(made.validation, key=lambda step: made.validation[step]["log_loss"])
    assert str(made.step) == best  # the earliest of the best is kept


def test_scores_are_in_standard_deviations_of_the_texts_that_it_learned_from(trained):
    folder, made = trained
    found = make_metric(f"model:{folder}")
    by_id = {one.id: one for one in preferences.EXAMPLES}
    lines = [line for _, line in files.read_jsonl(folder.parent / "pairs.jsonl") if line["part"] == "train"]
    texts = [line[side] for side in ("chosen", "rejected") for line in lines]
    statistics = found.statistics([by_id[line["id"]] for line in lines] * 2, texts)
    values = found.per_example(statistics)
    assert values.mean() == pytest.approx(0, abs=1e-5) and values.std() == pytest.approx(1, abs=1e-5)
    assert found.signature.startswith(f"model|sha256:{made.sha256[:16]}")
    assert found.direction == "higher" and found.corpus(statistics) == pytest.approx(0, abs=1e-5)


def test_the_split_and_the_limit_that_were_read_are_stated(tmp_path, refused):
    folder, made = preferences.train(tmp_path, split="some/where/held-back.jsonl", max_tokens=512, epochs=1)
    assert made.split == "held-back.jsonl" and made.max_tokens < 512  # what the backbone has room for
    said = (folder / "README.md").read_text()
    assert "prompts of `held-back.jsonl`" in said
    assert f"{made.max_tokens} tokens of prompt and text at most" in said
    assert f"| `max_tokens` | `{made.max_tokens}; 512 were asked for" in said
    with refused(ConfigError):
        preferences.train(tmp_path, max_tokens=512, epochs=1)
    for few in (1, 4):
        with refused(ConfigError):
            preferences.train(tmp_path, f"few-{few}", max_tokens=few)
        assert not (tmp_path / f"few-{few}").exists()


def without_part(path, part):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    files.write_jsonl(path, [line for line in lines if line["part"] != part])


def test_without_a_test_part_nothing_is_claimed_of_it_and_without_validation_nothing_is_trained(tmp_path, refused):
    without_part(preferences.pairs(tmp_path / "pairs.jsonl"), "test")
    folder, made = preferences.train(tmp_path, epochs=1)
    assert made.held_out is None
    assert "nothing is known of pairs that it did not see" in (folder / "README.md").read_text()
    without_part(tmp_path / "pairs.jsonl", "validation")
    with refused(DataError):
        preferences.train(tmp_path, "other")


# --- resuming --------------------------------------------------------------------------------------------------------


def weights_of(folder):
    head = safetensors.load_file(folder / HEAD)["weight"]
    return {**safetensors.load_file(folder / "model.safetensors"), "head": head}


@pytest.mark.parametrize("at", [1, 7, 11])
def test_a_training_that_is_killed_after_any_step_goes_on_bit_for_bit(at, trained):
    (whole, made), told = trained, []

    def killed(done, total, said):
        told.append(done)
        if done == at:
            raise KeyboardInterrupt  # before the step's state is saved: the step is repeated

    name = f"killed-{at}"
    with pytest.raises(KeyboardInterrupt):
        preferences.train(whole.parent, name, progress=killed)
    assert not (whole.parent / name).exists()
    folder, found = preferences.train(whole.parent, name, progress=lambda done, total, said: told.append(done))
    assert told == [*range(1, at + 1), *range(at, 13)]
    assert found == made and files.sha256_file(folder / REWARD) == files.sha256_file(whole / REWARD)
    one, other = weights_of(whole), weights_of(folder)
    assert all(torch.equal(one[key], other[key]) for key in one) and one.keys() == other.keys()


def test_another_seed_gives_another_model(trained, second):
    assert trained[1].sha256 != second[1].sha256


def test_a_stop_saves_and_a_finished_folder_is_only_read(tmp_path, refused):
    settings = {"save_every": 100, "epochs": 1}
    with refused(runs.Interrupted):
        preferences.train(tmp_path, stop=lambda: True, **settings)
    with refused(ConfigError):  # nor do others go on with it
        preferences.train(tmp_path, learning_rate=1e-3, **settings)
    states = tmp_path / "rm.partial/states"
    shutil.copytree(states, tmp_path / "kept")
    for state in states.iterdir():
        state.write_bytes(state.read_bytes()[:-200])
    with pytest.raises(DataError, match="no saved state is whole"):
        preferences.train(tmp_path, **settings)
    shutil.rmtree(states)
    (tmp_path / "kept").rename(states)
    folder, made = preferences.train(tmp_path, **settings)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert preferences.train(tmp_path, epochs=1)[1] == made
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    with refused(ConfigError):
        preferences.train(tmp_path, epochs=3)
    preferences.pairs(tmp_path / "pairs.jsonl", seed=9)
    with pytest.raises(ConfigError, match="holds a reward model with pairs_sha256"):
        preferences.train(tmp_path, epochs=1)


def test_a_failed_attempt_does_not_stand_in_the_way(tmp_path):
    path, nothing = preferences.pairs(tmp_path / "pairs.jsonl"), tmp_path / "empty"
    nothing.mkdir()
    asked = (path, preferences.TASK, preferences.EXAMPLES, tmp_path / "rm", reward_settings(preferences.SETTINGS))
    with pytest.raises(DataError):
        training.train_reward_model(*asked, backbone=str(nothing), split="train")
    assert not (tmp_path / "rm.partial").exists()
    _, made = preferences.train(tmp_path, epochs=1)
    assert made.backbone == str(tmp_path / "backbone") and not (tmp_path / "rm.partial").exists()


# --- what is refused -------------------------------------------------------------------------------------------------


def test_what_cannot_be_trained(tmp_path, refused):
    with pytest.raises(TrainingError, match="not a number; lower learning_rate|scores all texts alike"):
        preferences.train(tmp_path, learning_rate=1e9, max_grad_norm=1e9)
    (tmp_path / "there").mkdir()
    with refused(ConfigError):
        preferences.train(tmp_path, "there")
    for settings in ({"epochs": 0}, {"epoch": 1}):
        with refused(ConfigError):
            reward_settings(settings)


def relink(path):
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def damage(path):
    path.write_bytes(path.read_bytes()[:-1] + b"\1")


def edit(folder, **changes):
    files.write_json(folder / REWARD, {**files.read_json(folder / REWARD), **changes})


DAMAGES = {
    "weights": lambda folder: damage(folder / HEAD),
    "tokenizer": lambda folder: damage(folder / "tokenizer.json"),
    "missing": lambda folder: (folder / "model.safetensors").unlink(),
    "stranger": lambda folder: (folder / "adapter_config.json").write_text("{}"),
    "link": lambda folder: relink(folder / HEAD),
    "scale": lambda folder: edit(folder, spread=1e-3),
    "key": lambda folder: edit(folder, evil=1),
    "other": lambda folder: edit(folder, grue="checkpoint"),
    "cut": lambda folder: (folder / REWARD).write_text("{"),
    "none": lambda folder: (folder / REWARD).unlink(),
    "gone": shutil.rmtree,
}


@pytest.mark.parametrize("spoil", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_folder_is_one_clear_error(spoil, trained, tmp_path, refused):
    reward_model.load_reward_model(trained[0])  # what was loaded once is not taken for what is there now
    shutil.copytree(trained[0], tmp_path / "rm")
    spoil(tmp_path / "rm")
    with refused(DataError) as caught:
        make_metric(f"model:{tmp_path / 'rm'}")
    assert "\n" not in str(caught.value)


def code(folder):
    config = files.read_json(folder / "config.json")
    files.write_json(folder / "config.json", {**config, "auto_map": {"AutoModel": "evil.Evil"}})


def head(folder):
    safetensors.save_file({"weight": torch.zeros(1, 5)}, folder / HEAD)


def nan(folder):
    weight = safetensors.load_file(folder / HEAD)["weight"]
    safetensors.save_file({"weight": weight.fill_(torch.nan)}, folder / HEAD)


@pytest.mark.parametrize("change", [code, head, nan])
def test_a_folder_that_was_sealed_anew_still_runs_no_code_and_has_its_own_head(change, trained, tmp_path, refused):
    folder = tmp_path / "rm"
    shutil.copytree(trained[0], folder)
    change(folder)
    manifest = from_dict(RewardManifest, files.read_json(folder / REWARD), "test")
    sums = {path.name: files.sha256_file(path) for path in folder.iterdir() if path.name in manifest.files}
    files.write_json(folder / REWARD, sealed(replace(manifest, files=sums)))
    with refused(DataError):
        reward_model.load_reward_model(folder)
