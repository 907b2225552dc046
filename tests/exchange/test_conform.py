"""grue's trainer beside another: which figures are compared, what faults show, and what is refused."""

import json
from dataclasses import replace
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from grue import files
from grue.cli.main import main
from grue.conform import STATE, Stated, compared, conform, settings_of_grue, settings_of_trl
from grue.errors import ConfigError, DataError
from grue.task_files import load_task

STATED = Stated("grpo", updates=2, batch=8, group=4, every=1, examples=4)


def run_of_grue(folder, seed, curve=(1.0, 2.0, 3.0), norm=0.5):
    """A run's log as `grue train` writes it."""
    lines = [{"update": 0, "validation/preference": curve[0], "validation/kl": 0.0}]
    for update in (1, 2):
        lines += [
            {
                "update": update,
                "seconds": 1,
                "objective/reward": 0.5 + seed / 100,
                "objective/ended": 0.25,
                "policy/grad_norm": norm,
            },
            {"update": update, "validation/preference": curve[update] + seed / 100, "validation/kl": 0.1 * update},
        ]
    (folder / f"seed-{seed}").mkdir(parents=True)
    files.write_jsonl(folder / f"seed-{seed}/train.jsonl", lines)
    return folder / f"seed-{seed}"


def run_of_trl(folder, seed, curve=(1.0, 2.0, 3.0), norm=0.5):
    """Figures as the callback writes them, and the state as TRL does."""
    figures = [{"step": n, "preference": value + seed / 100 * (n > 0), "kl": 0.1 * n} for n, value in enumerate(curve)]
    (folder / f"seed-{seed}").mkdir(parents=True)
    files.write_jsonl(folder / f"seed-{seed}/figures.jsonl", figures)
    line = {
        "step": 1,
        "loss": 0,
        "reward": 0.5 + seed / 100,
        "completions/clipped_ratio": 0.75,
        "grad_norm": norm + seed / 1000,
    }
    history = [{"step": 0, "grue/kl": 0}, {"step": 1, "grue/kl": 0.1}, line]
    files.write_json(folder / f"seed-{seed}" / STATE, {"log_history": history})
    return folder / f"seed-{seed}"


def test_equal_logs_are_called_equal_and_others_not(tmp_path):
    ours = {seed: run_of_grue(tmp_path / "grue", seed) for seed in range(5)}
    same = compared(STATED, "TRL", ours, {seed: run_of_trl(tmp_path / "trl", seed) for seed in range(5)})
    assert not same.differs and same.causes == ()
    assert {one.name: one.ratio for one in same.first} == {
        "reward": pytest.approx(1),
        "share that ended": pytest.approx(1),
        "gradient's norm": pytest.approx(1.004),
    }
    slow = {seed: run_of_trl(tmp_path / "slow", seed, curve=(1.0, 1.5, 2.0)) for seed in range(5)}
    found = compared(STATED, "TRL", ours, slow)
    assert found.differs and found.causes == ()
    assert [test.is_decided for curve in found.curves for test in curve.tests] == [True, True, False, False]
    scaled = compared(STATED, "TRL", ours, {seed: run_of_trl(tmp_path / "scaled", seed, norm=12) for seed in range(5)})
    assert scaled.differs and [cause.split(":")[0] for cause in scaled.causes] == ["gradient's norm"]
    # Figures of any trainer, without a first update.
    others = compared(STATED, "mine", ours, tmp_path / "slow")
    assert others.first == () and [curve.means for curve in others.curves] == [curve.means for curve in found.curves]


def test_all_tests_are_corrected_together(tmp_path):
    ours = {seed: run_of_grue(tmp_path / "grue", seed) for seed in range(3)}
    found = compared(STATED, "TRL", ours, {seed: run_of_trl(tmp_path / "trl", seed, norm=0.51) for seed in range(3)})
    p = [test.p for curve in found.curves for test in curve.tests] + [one.p for one in found.first]
    corrected = [test.p_holm for curve in found.curves for test in curve.tests] + [one.p_holm for one in found.first]
    assert len(p) == 7 and min(corrected) == pytest.approx(min(1, 7 * min(p)))


def test_both_are_set_to_the_same():
    task = load_task("imdb", "mini")
    of_grue, of_trl = settings_of_grue(STATED), settings_of_trl(task, STATED)
    for ours, theirs in (
        ("learning_rate", "learning_rate"),
        ("updates", "max_steps"),
        ("rollouts", "per_device_train_batch_size"),
        ("samples_per_prompt", "num_generations"),
        ("kl_coefficient", "beta"),
        ("max_grad_norm", "max_grad_norm"),
        ("weight_decay", "weight_decay"),
        ("rollout_temperature", "temperature"),
    ):
        assert of_grue[ours] == of_trl[theirs], ours


def test_bad_input(tmp_path, refused):
    task = load_task("imdb", "mini")
    for stated, seeds in (
        (replace(STATED, method="ppo"), [1, 2]),
        (STATED, [1, 1]),
        (replace(STATED, updates=5, every=2), [1, 2]),
        (replace(STATED, batch=6), [1, 2]),
    ):
        with refused(ConfigError):
            conform(task, stated, seeds, tmp_path / "x")
    with refused(ConfigError):
        conform(load_task("commongen", "mini"), STATED, [1, 2], tmp_path / "x")
    files.write_json(tmp_path / "x/conform.json", {"method": "rloo"})
    with refused(DataError):
        conform(task, STATED, [1, 2], tmp_path / "x")
    with refused(DataError):
        conform(task, STATED, [1, 2], tmp_path / "y", tmp_path / "nowhere")
    assert not (tmp_path / "y").exists()
    ours = {seed: run_of_grue(tmp_path / "grue", seed) for seed in range(2)}
    other = {seed: run_of_trl(tmp_path / "other", seed, curve=(9.0, 2.0, 3.0)) for seed in range(2)}
    with refused(DataError):
        compared(STATED, "TRL", ours, other)
    (tmp_path / "empty").mkdir()
    with refused(DataError):
        compared(STATED, "mine", ours, tmp_path / "empty")


@pytest.mark.skipif(find_spec("trl") is None, reason="not installed: trl")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # TRL calls transformers by old names
@pytest.mark.parametrize("method", ["grpo", "rloo"])
def test_trl_beside_grue(tmp_path, method):
    """Two seeds of two updates: the same start answers alike, the first updates see what the same policy draws."""
    command = [
        "tools",
        "conform",
        str(tmp_path / "out"),
        "--algo",
        method,
        "--seeds",
        "1-2",
        "--updates",
        "2",
        "--every",
        "1",
    ]
    command += ["--batch", "16", "--examples", "8", "--json"]
    done = CliRunner().invoke(main, command, prog_name="grue")
    assert done.exit_code in (0, 1), done.output
    found = json.loads(done.stdout)
    preference, kl = found["curves"]
    assert preference["means"][0][0] == preference["means"][1][0] and kl["means"][0][0] == kl["means"][1][0] == 0
    assert preference["steps"] == [0, 1, 2]
    first = {one["name"]: one for one in found["first"]}
    assert first.keys() == {
        "reward",
        "tokens of a response",
        "share that ended",
        "entropy, nats a token",
        "gradient's norm",
    }
    assert (
        abs(first["tokens of a response"]["ratio"] - 1) < 0.1
        and abs(first["entropy, nats a token"]["ratio"] - 1) < 0.25
    )
    if method == "rloo":  # TRL's loss is a sum over the response's tokens, ours their mean
        assert first["gradient's norm"]["ratio"] > 10
    again = CliRunner().invoke(main, command, prog_name="grue")
    assert json.loads(again.stdout) == found
