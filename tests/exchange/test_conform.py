"""grue's trainer beside another: first steps of TRL and losses of one's own, learning curves, and what is refused."""

import json
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
from support.commands import grue
from support.late import late

from grue import files
from grue.conform import STATE, Stated, compared, conform_curves, conform_step
from grue.errors import ConfigError, DataError, Unavailable
from grue.task_files import load_task

torch, tiny, api = late("torch"), late("support.tiny"), late("grue.conform")
STATED = Stated("grpo", updates=2, batch=8, group=4, every=1, examples=4)
TASK = """
reward = "rouge1"
metrics = [{ name = "rouge1", axis = "preference", range = [0, 1] }]
[data]
sources = [{ kind = "local", files = { train = "train.jsonl", validation = "train.jsonl", test = "train.jsonl" } }]
[prompt]
max_tokens = 10
[rollout]
max_new_tokens = 6
do_sample = true
temperature = 0.8
[backbone]
family = "causal"
"""
LOSSES = """
import torch

def log_probs(model, batch):
    kept = {"attention_mask": batch.attention_mask, "position_ids": batch.position_ids}
    logits = model(batch.ids, **kept).logits[:, :-1] / batch.temperature
    return logits.log_softmax(-1).gather(-1, batch.ids[:, 1:, None])[..., 0]

def grpo(model, batch):
    new, mask = log_probs(model, batch), batch.response_mask[:, 1:]
    gap = batch.reference[:, 1:] - new
    groups = batch.rewards.view(-1, batch.group_size)
    advantages = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).view(-1, 1)
    losses = batch.penalty * (gap.exp() - gap - 1) - new * advantages
    return ((losses * mask).sum(1) / mask.sum(1)).mean()

def summed(model, batch):
    return grpo(model, batch) * len(batch.ids)

def vector(model, batch):
    return log_probs(model, batch)

def number(model, batch):
    return 1.0

def without_gradient(model, batch):
    return grpo(model, batch).detach()

def infinite(model, batch):
    return grpo(model, batch) / 0

def broken(model, batch):
    return batch.labels
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model and two tasks for it: prompts of one length, and of several."""
    home = tmp_path_factory.mktemp("tiny")
    tiny.model("causal", spread=0.3).save_pretrained(home / "model")
    tiny.tokenizer("causal").save_pretrained(home / "model")
    (home / "losses_of_mine.py").write_text(LOSSES)
    for name, texts in {
        "even": [f"the {a} sees {b}" for a in tiny.WORDS[2:6] for b in tiny.WORDS[8:12]],
        "uneven": ["the " * n + word for n in (1, 3, 5) for word in tiny.WORDS[2:6]],
    }.items():
        (home / name).mkdir()
        rows = [{"prompt": text, "references": ["the dog sees a red ball"]} for text in texts]
        files.write_jsonl(home / name / "train.jsonl", rows)
        (home / name / f"{name}.toml").write_text(f'{TASK}model = "{home / "model"}"\n')
    return home


def task_of(folder, name="even"):
    return load_task(str(folder / name / f"{name}.toml"))


def run_of_grue(folder, seed, curve=(1.0, 2.0, 3.0)):
    """A run's log as `grue train` writes it."""
    lines = [{"update": 0, "validation/preference": curve[0], "validation/kl": 0.0}]
    for n in (1, 2):
        figures = {"validation/preference": curve[n] + seed / 100, "validation/kl": 0.1 * n}
        lines += [{"update": n, "seconds": 1}, {"update": n, **figures}]
    (folder / f"seed-{seed}").mkdir(parents=True)
    files.write_jsonl(folder / f"seed-{seed}/train.jsonl", lines)
    return folder / f"seed-{seed}"


def run_of_trl(folder, seed, curve=(1.0, 2.0, 3.0)):
    """Figures as the callback writes them, beside TRL's state."""
    figures = [{"step": n, "preference": value + seed / 100 * (n > 0), "kl": 0.1 * n} for n, value in enumerate(curve)]
    (folder / f"seed-{seed}").mkdir(parents=True)
    files.write_jsonl(folder / f"seed-{seed}/figures.jsonl", figures)
    files.write_json(folder / f"seed-{seed}" / STATE, {"log_history": [{"step": 1, "loss": 0}]})
    return folder / f"seed-{seed}"


def test_equal_logs_are_called_equal_and_others_not(tmp_path):
    ours = [run_of_grue(tmp_path / "grue", seed) for seed in range(5)]
    same = compared("TRL", ours, [run_of_trl(tmp_path / "trl", seed) for seed in range(5)])
    assert not any(test.is_decided for curve in same for test in curve.tests)
    slow = [run_of_trl(tmp_path / "slow", seed, curve=(1.0, 1.5, 2.0)) for seed in range(5)]
    found = compared("TRL", ours, slow)
    assert [test.is_decided for curve in found for test in curve.tests] == [True, True, False, False]
    # Figures of any trainer.
    others = compared("mine", ours, tmp_path / "slow")
    assert [curve.means for curve in others] == [curve.means for curve in found]


def test_all_tests_are_corrected_together(tmp_path):
    ours = [run_of_grue(tmp_path / "grue", seed) for seed in range(3)]
    slower = [run_of_trl(tmp_path / "trl", seed, curve=(1.0, 1.9, 2.9)) for seed in range(3)]
    tests = [test for curve in compared("TRL", ours, slower) for test in curve.tests]
    assert len(tests) == 4 and min(test.p_holm for test in tests) == pytest.approx(min(1, 4 * min(t.p for t in tests)))


def test_bad_input(tmp_path, refused):
    task = load_task("imdb", "mini")
    for stated, seeds in (
        (replace(STATED, method="dpo"), [1, 2]),
        (STATED, [1, 1]),
        (replace(STATED, updates=5, every=2), [1, 2]),
        (replace(STATED, batch=6), [1, 2]),
    ):
        with refused(ConfigError):
            conform_curves(task, stated, seeds, tmp_path / "x")
    with refused(ConfigError):
        conform_step(load_task("commongen", "mini"), STATED)
    with refused(ConfigError):
        conform_step(task, replace(STATED, method="ppo"))
    files.write_json(tmp_path / "x/conform.json", {"method": "rloo"})
    with refused(DataError):
        conform_curves(task, STATED, [1, 2], tmp_path / "x")
    with refused(DataError):
        conform_curves(task, STATED, [1, 2], tmp_path / "y", tmp_path / "nowhere")
    assert not (tmp_path / "y").exists()
    ours = [run_of_grue(tmp_path / "grue", seed) for seed in range(2)]
    other = [run_of_trl(tmp_path / "other", seed, curve=(9.0, 2.0, 3.0)) for seed in range(2)]
    with refused(DataError):
        compared("TRL", ours, other)
    (tmp_path / "empty").mkdir()
    with refused(DataError):
        compared("mine", ours, tmp_path / "empty")


# --- a loss of one's own ----------------------------------------------------------------------------------------------


def conform(*arguments, code=0):
    return grue("tools", "conform", *arguments, code=code)


@pytest.fixture
def beside_losses(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return ["--task", folder / "uneven/uneven.toml", "--batch", "16"]


def test_a_right_loss_and_a_scaled_one(beside_losses, tmp_path):
    found = json.loads(conform(tmp_path / "out", *beside_losses, "--loss", "losses_of_mine:grpo", "--json").stdout)
    assert [stage["name"] for stage in found["first_step"]["stages"]] == ["loss", "gradient"] and not found["differs"]
    assert found["first_step"]["stages"][1]["cosine"] == pytest.approx(1, abs=1e-8)
    assert files.read_json(tmp_path / "out/result.json") == found
    page = (tmp_path / "out/conform.html").read_text()
    assert "losses_of_mine:grpo beside grue" in page and "The first step is the same, on 16 responses" in page
    assert "board" not in page.partition("</style>")[2]
    summed = conform(*beside_losses, "--loss", "losses_of_mine:summed", code=1)
    assert "What explains the gradient exactly: grue's own loss, times 16." in summed.output


@pytest.mark.parametrize("name", ["vector", "number", "without_gradient", "infinite", "broken", "nothing"])
def test_losses_that_cannot_be_compared(beside_losses, folder, name, refused):
    with refused(ConfigError):
        conform_step(task_of(folder), replace(STATED, batch=8), loss=f"losses_of_mine:{name}")


def test_options_that_do_not_go_together(beside_losses):
    with_loss = conform(*beside_losses, "--loss", "losses_of_mine:grpo", "--seeds", "1-2", code=2)
    assert "A loss is compared on a fixed batch alone" in with_loss.output
    assert "Learning curves need a FOLDER" in conform(*beside_losses, "--seeds", "1-2", code=2).output


def test_without_trl(folder, monkeypatch, refused):
    monkeypatch.setitem(sys.modules, "trl", None)
    with refused(Unavailable):
        conform_step(task_of(folder), STATED)


# --- TRL --------------------------------------------------------------------------------------------------------------

with_trl = pytest.mark.skipif(find_spec("trl") is None, reason="not installed: trl")
quietly = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # of TRL


def causes_of(found):
    return [cause for stage in found.stages for cause in stage.causes]


@with_trl
@quietly
@pytest.mark.parametrize("method", ["grpo", "rloo", "dpo", "supervised"])
def test_trls_first_step(folder, method):
    """What TRL 1.16 makes of its own batch: the same, but that its RLOO sums over a response's tokens."""
    found = conform_step(task_of(folder), replace(STATED, method=method, batch=16))
    stages = {stage.name: stage for stage in found.stages}
    assert stages["tokens learned"].agrees and stages["optimiser's step"].agrees
    if method == "rloo":
        sums = "the loss is a mean over responses of the sums over their tokens"
        assert causes_of(found) == [sums] and stages["largest advantage"].agrees and stages["KL, nats a token"].agrees
    else:
        assert not found.differs and stages["loss"].agrees and stages["gradient"].error < 1e-5


@with_trl
@quietly
def test_trl_counts_the_padding_of_absolute_positions(folder, tmp_path):
    """Rotary positions are relative, so that a shift changes nothing."""
    from transformers import LlamaConfig, LlamaForCausalLM

    task = task_of(folder, "uneven")
    found = conform_step(task, replace(STATED, batch=16))
    assert causes_of(found) == ["positions count the padding on the left (no position_ids)"]
    sizes = {"vocab_size": len(tiny.WORDS) + 3, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    torch.manual_seed(1)
    rotary = LlamaForCausalLM(
        LlamaConfig(**sizes, num_attention_heads=2, bos_token_id=1, eos_token_id=1, pad_token_id=0)
    )
    rotary.save_pretrained(tmp_path / "rotary")
    tiny.tokenizer("causal").save_pretrained(tmp_path / "rotary")
    task = replace(task, backbone=replace(task.backbone, model=str(tmp_path / "rotary")))
    found = conform_step(task, replace(STATED, batch=16))
    assert not found.differs and "positions count the padding on the left (no position_ids)" in found.unseen


@with_trl
@quietly
def test_other_settings_of_trl_are_named(folder, tmp_path):
    task, stated = api.plain_task(task_of(folder)), replace(STATED, batch=16, penalty=1.0)
    by_batch = "advantages are divided by the batch's deviation, after the group's mean is taken off"
    unbiased = "the KL penalty has an unbiased gradient: k3 weighted by the policy's ratio, or k2"
    for key, value, cause in (
        ("scale_rewards", "batch", by_batch),
        ("scale_rewards", "none", "advantages are rewards less the group's mean, not divided"),
        ("loss_type", "bnpo", "the loss is a mean over all tokens of the batch"),
        ("use_bias_correction_kl", True, unbiased),
        ("beta", 0.0, "the KL penalty is left out"),
        ("learning_rate", 6e-4, "the learning rate is × 2"),
    ):
        trainer = api.make_trl(task, stated, 1, tmp_path, settings={key: value})
        assert causes_of(api.compare_first_step(trainer, task, stated)) == [cause]


@with_trl
@quietly
def test_trainers_that_cannot_be_compared(folder, tmp_path, refused):
    import transformers

    task, stated = api.plain_task(task_of(folder)), replace(STATED, batch=16)
    plain = transformers.Trainer(
        tiny.model("causal"), transformers.TrainingArguments(str(tmp_path), use_cpu=True, report_to="none")
    )
    with refused(ConfigError):
        api.compare_first_step(plain, task, stated)
    for settings in ({"gradient_accumulation_steps": 2}, {"bf16": True}):
        with refused(ConfigError):
            api.compare_first_step(api.make_trl(task, stated, 1, tmp_path, settings=settings), task, stated)
    trainer = api.make_trl(task, stated, 1, tmp_path)
    trainer.model.transformer.drop.p = 0.1
    with refused(ConfigError):
        api.compare_first_step(trainer, task, stated)
    trainer = api.make_trl(task, stated, 1, tmp_path)
    trainer.processing_class.add_tokens(["another"])
    with refused(ConfigError):
        api.compare_first_step(trainer, task, stated)


@with_trl
@pytest.mark.slow
@quietly
@pytest.mark.parametrize("method", ["grpo", "rloo"])
def test_curves_of_trl_beside_grue(tmp_path, method):
    """Two seeds of two updates: the same start answers alike."""
    command = [tmp_path / "out", "--algo", method, "--seeds", "1-2", "--updates", "2", "--every", "1"]
    command += ["--batch", "16", "--examples", "8", "--json"]
    found = json.loads(conform(*command, code=1).stdout)  # by the positions of its first step
    preference, kl = found["curves"]
    assert preference["means"][0][0] == preference["means"][1][0] and kl["means"][0][0] == kl["means"][1][0] == 0
    assert preference["steps"] == [0, 1, 2]
    assert json.loads(conform(*command, code=1).stdout) == found
