"""Runs that are stopped, killed or started twice: the same command goes on, and ends where it would have ended.

What is stopped is a process of its own, met by real signals; what goes on afterwards runs here.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support.commands import SETTINGS, contents, here, run_folder, train_command
from support.paths import ROOT

from grue.errors import DataError
from grue.exchange.measured import read_measured
from grue.lm.checkpoint import read_manifest
from grue.runs.folder import finished
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.submissions.packing.collect import read_run
from grue.task_files import load_task

UPDATES = SETTINGS["updates"]
LIMIT = "24"


def evaluate_command(output, batch_size=4):
    options = ["--limit", LIMIT, "--batch-size", str(batch_size), "--output", str(output)]
    return ["evaluate", "--baseline", "zero-shot", "--task", "imdb", *options]


def start(*command):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "grue", *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip


def wait_for_lines(path, count, process):
    """Wait until a file has so many whole lines; the process that writes it must not end before."""
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


def log(runs):
    """The log without its clock."""
    lines = [json.loads(line) for line in (run_folder(runs) / "train.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("seconds", None)
        line.get("training", {}).pop("seconds", None)
    return lines


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The runs folder of a run that nobody disturbed."""
    runs = tmp_path_factory.mktemp("whole")
    done = here(*train_command(runs))
    assert done.exit_code == 0, done.output
    return runs


def assert_goes_on_to_the_same_end(command, runs, whole):
    again = here(*command)
    assert again.exit_code == 0, again.output
    assert read_manifest(run_folder(runs) / "checkpoint").files == read_manifest(run_folder(whole) / "checkpoint").files
    assert log(runs) == log(whole)
    assert folder_names(runs) == folder_names(whole)
    return again


def folder_names(runs):
    return sorted(path.name for path in run_folder(runs).iterdir())


# --- training --------------------------------------------------------------------------------------------------------


def test_training_gets_somewhere(whole):
    """Else the comparisons below would say nothing: neither the weights nor β nor the checkpoint are the first ones."""
    assert read_manifest(run_folder(whole) / "checkpoint").update > 0
    first, *_, last = [line for line in log(whole) if "objective/kl" in line]
    assert first["objective/kl"] == 0 != last["objective/kl"]
    assert first["objective/kl_coefficient"] != last["objective/kl_coefficient"]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_stops_after_the_update_and_the_same_command_goes_on(number, whole, tmp_path):
    process = start(*train_command(tmp_path))
    wait_for_lines(run_folder(tmp_path) / "train.jsonl", 2, process)
    process.send_signal(number)
    output, errors = process.communicate()
    assert process.returncode == 130, errors
    done = max(line["update"] for line in log(tmp_path))
    assert 1 <= done < UPDATES
    assert "Stopping after this update; press Ctrl-C again to stop at once." in errors
    assert (
        f"Error: {run_folder(tmp_path)}: stopped after update {done} of {UPDATES}; the same command resumes.\n"
    ) in errors
    assert "Traceback" not in errors
    assert output == ""
    assert f"state-{done:06d}.pt" in [path.name for path in (run_folder(tmp_path) / "states").iterdir()]
    again = assert_goes_on_to_the_same_end(train_command(tmp_path), tmp_path, whole)
    assert f"resuming after update {done} of {UPDATES}" in again.stderr


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_end(tmp_path, whole):
    command = train_command(tmp_path, save_every=2)
    process = start(*command)
    # Five lines are the first validation, three updates and the second validation; the next state comes after update 4.
    wait_for_lines(run_folder(tmp_path) / "train.jsonl", 5, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    with (run_folder(tmp_path) / "train.jsonl").open("ab") as file:
        file.write(b'{"update":4,"objec')  # as a kill in the middle of a write would leave it
    again = assert_goes_on_to_the_same_end(command, tmp_path, whole)
    assert re.search(r"resuming after update [24] of 6", again.stderr)


def test_a_finished_run_is_left_as_it_is(whole):
    before = contents(whole)
    again = here(*train_command(whole))
    assert again.exit_code == 0
    assert "already finished; nothing to do" in again.stderr
    assert again.stdout == f"{run_folder(whole) / 'checkpoint'}\n"
    assert contents(whole) == before


def model_of(folder):
    return folder / "checkpoint" / "model.safetensors"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda folder: shutil.rmtree(folder / "checkpoint"), "no such checkpoint folder"),
        (lambda folder: (folder / "checkpoint/grue.json").unlink(), "not a checkpoint"),
        (lambda folder: model_of(folder).write_bytes(model_of(folder).read_bytes()[:-1]), "model.safetensors differs"),
        (lambda folder: (folder / "config.toml").unlink(), "holds a finished run without its config.toml."),
    ],
)
def test_a_finished_run_that_lost_something_is_neither_finished_nor_begun_again(damage, told, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "runs")
    damage(run_folder(tmp_path / "runs"))
    before = contents(tmp_path / "runs")
    refused = here(*train_command(tmp_path / "runs"))
    assert refused.exit_code == 3, refused.output
    assert told in refused.stderr
    assert (
        f"remove {run_folder(tmp_path / 'runs')} to train again." in refused.stderr
        or "remove the folder" in refused.stderr
    )
    assert refused.stdout == ""
    assert contents(tmp_path / "runs") == before


def test_a_run_id_does_not_outlive_the_run(whole):
    assert not (run_folder(whole) / "run_id").exists()


def test_an_evaluation_of_a_run_in_progress_stands_for_nothing_and_is_made_anew(whole, tmp_path):
    """Made in time for a look, it is on no board and in no submission; the finished run has its own."""
    runs = tmp_path / "runs"
    shutil.copytree(whole, runs)
    folder = run_folder(runs)
    (folder / "run_id").write_text("0" * 32 + "\n")
    command = ["evaluate", "--checkpoint", str(folder), "--limit", "4"]
    early = here(*command)
    assert early.exit_code == 0 and "is not finished: this result stands on no board" in early.stderr
    assert json.loads((folder / "result.json").read_text())["system"]["unfinished"] is True
    with pytest.raises(DataError, match="was evaluated while its run was not finished; finish it"):
        read_run(folder)
    with pytest.raises(DataError, match="made while the run was not finished"):
        read_measured([folder])
    assert "evaluating anew" not in here(*command).stderr  # the same look again
    (folder / "run_id").unlink()
    late = here(*command)
    assert (
        late.exit_code == 0 and "holds an evaluation of the run before it was finished; evaluating anew" in late.stderr
    )
    said = json.loads((folder / "result.json").read_text())["system"]
    assert "unfinished" not in said and said["last"]["update"] == UPDATES


def test_a_last_line_that_is_torn_finishes_no_run(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "runs")
    path = run_folder(tmp_path / "runs") / "train.jsonl"
    (plan,) = stages_of(
        RunRequest(task=load_task("imdb"), algorithm="ppo", runs=tmp_path / "runs", settings=dict(SETTINGS))
    )
    assert finished(plan)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(
        DataError, match=r"train\.jsonl: its last line was cut\. Restore the file, or remove the folder"
    ):
        finished(plan)
    (run_folder(tmp_path / "runs") / "run_id").write_text("0" * 32 + "\n")  # killed while it wrote the line
    assert not finished(plan)


def test_other_settings_in_the_same_folder_are_refused(whole):
    before = contents(whole)
    refused = here(*train_command(whole, clip=0.3))
    assert refused.exit_code == 2
    assert "this folder holds a run with config.clip = 0.2, not 0.3." in refused.stderr
    assert (
        "Choose another --system name for the new configuration (a warm start keeps its name: choose another --runs)"
        in refused.stderr
    )
    assert contents(whole) == before


def test_a_configuration_that_was_emptied_is_another_one(whole, tmp_path):
    runs = tmp_path / "runs"
    shutil.copytree(whole, runs)
    (run_folder(runs) / "config.toml").write_text("")
    refused = here(*train_command(runs))
    assert refused.exit_code == 2
    assert "config.toml: this folder holds a run with reward = None, not " in refused.stderr


# --- evaluation ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """The folder of an evaluation that nobody disturbed."""
    folder = tmp_path_factory.mktemp("evaluated")
    done = here(*evaluate_command(folder))
    assert done.exit_code == 0, done.output
    return folder


def result(folder):
    """The result without its clock."""
    found = json.loads((folder / "result.json").read_text())
    return {key: value for key, value in found.items() if key not in ("timing", "grue")}


def test_a_killed_evaluation_goes_on_to_the_same_predictions(evaluated, tmp_path):
    process = start(*evaluate_command(tmp_path))
    predictions = tmp_path / "predictions.jsonl"
    wait_for_lines(predictions, 4, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "result.json").exists()
    predictions.write_bytes(predictions.read_bytes()[:-10])  # a last line that was torn in the middle
    again = here(*evaluate_command(tmp_path))
    assert again.exit_code == 0, again.output
    assert predictions.read_bytes() == (evaluated / "predictions.jsonl").read_bytes()
    assert result(tmp_path) == result(evaluated)


def test_an_evaluation_interrupted_by_hand_says_how_to_go_on(evaluated, tmp_path, monkeypatch):
    from grue.evaluation import predict

    answered = []
    original = predict.predict

    def pressed(model, tokenizer, task, examples, settings, seed):
        if len(answered) == 20:
            raise KeyboardInterrupt
        answered.extend(example.id for example in examples)
        return original(model, tokenizer, task, examples, settings, seed)

    with monkeypatch.context() as patch:
        patch.setattr(predict, "predict", pressed)
        stopped = here(*evaluate_command(tmp_path))
    assert stopped.exit_code == 130
    assert "Interrupted. What was saved stays; the same command resumes." in stopped.stderr
    kept = [json.loads(line)["id"] for line in (tmp_path / "predictions.jsonl").read_text().split("\n")[:-1]]
    assert kept == answered
    again = here(*evaluate_command(tmp_path))
    assert again.exit_code == 0, again.output
    assert (tmp_path / "predictions.jsonl").read_bytes() == (evaluated / "predictions.jsonl").read_bytes()


@pytest.mark.parametrize("torn", range(4))
def test_batches_are_the_same_after_an_interruption(torn, tmp_path):
    """A batch that was half kept is decoded whole again, so that its rounding is what it would have been."""
    from support import tiny

    from grue.evaluation import predict

    seen = []
    original = predict.predict

    def watched(model, tokenizer, task, examples, settings, seed):
        seen.append([example.id for example in examples])
        return original(model, tokenizer, task, examples, settings, seed)

    arguments = (tiny.model("seq2seq"), tiny.tokenizer("seq2seq"), tiny.task("seq2seq"), tiny.examples(), 1)
    predict.predict = watched
    try:
        predict.predict_file(*arguments, tmp_path / "whole.jsonl", 4)
        batches, seen = seen, []
        lines = {json.loads(line)["id"]: line for line in (tmp_path / "whole.jsonl").read_text().splitlines()}
        kept = [name for batch in batches for name in batch][: 4 + torn]
        (tmp_path / "torn.jsonl").write_text("".join(lines[name] + "\n" for name in kept))
        predict.predict_file(*arguments, tmp_path / "torn.jsonl", 4)
    finally:
        predict.predict = original
    assert seen == batches[1:]
    assert (tmp_path / "torn.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("batch_size", [4, 64])
def test_equal_seeds_give_equal_files_whatever_the_batches(batch_size, evaluated, tmp_path):
    again = here(*evaluate_command(tmp_path, batch_size))
    assert again.exit_code == 0, again.output
    assert (tmp_path / "predictions.jsonl").read_bytes() == (evaluated / "predictions.jsonl").read_bytes()


def test_another_seed_gives_other_predictions(evaluated, tmp_path):
    other = here(*evaluate_command(tmp_path), "--seed", "2")
    assert other.exit_code == 0, other.output
    assert (tmp_path / "predictions.jsonl").read_bytes() != (evaluated / "predictions.jsonl").read_bytes()


def test_other_weights_are_not_mixed_with_old_predictions(whole, evaluated):
    before = contents(evaluated)
    checkpoint = str(run_folder(whole))
    other = here("evaluate", "--checkpoint", checkpoint, "--limit", LIMIT, "--output", str(evaluated))
    assert other.exit_code == 2
    assert f"{evaluated}: holds an evaluation with weights = '" in other.stderr
    assert contents(evaluated) == before
