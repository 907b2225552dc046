"""Runs that are stopped or started twice: the same command goes on, and ends where it would have ended.

What is stopped is a process of its own, met by real signals; what goes on afterwards runs here.
"""

import json
import os
import shutil
import signal
import time

import pytest
from support.late import late
from support.paths import ROOT

from grue import files
from grue.errors import DataError
from grue.exchange.measured import read_measured, result_files
from grue.lm.checkpoint import read_manifest
from grue.runs.folder import finished
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.submissions.packing.collect import read_run
from grue.task_files import load_task

tiny, commands, processes = late("support.tiny"), late("support.commands"), late("support.processes")
predicting, evaluating = late("grue.evaluation.predict"), late("grue.evaluation.evaluate")

LIMIT = "24"


def train(runs, **changes):
    return commands.here(*commands.train_command(runs, **changes))


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """The file of mini's IMDB with answers that are sampled."""
    path, table = tmp_path_factory.mktemp("task") / "imdb.toml", files.read_toml(ROOT / "tasks/mini/imdb.toml")
    files.write_toml(path, table | {"suite": "own", "decoding": table["rollout"]})
    return str(path)


def evaluate(task, output, *options, batch_size=4):
    what = ["--baseline", "zero-shot", "--task", task, "--limit", LIMIT, "--batch-size", str(batch_size)]
    return commands.here("evaluate", *what, "--output", str(output), *options)


def log(folder):
    """The log without its clock."""
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("seconds", None)
        line.get("training", {}).pop("seconds", None)
    return lines


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The runs folder of a run that nobody disturbed."""
    runs = tmp_path_factory.mktemp("whole")
    done = train(runs)
    assert done.exit_code == 0, done.output
    return runs


@pytest.fixture
def copied(whole, tmp_path):
    """A copy of it, and of the run's folder in it."""
    runs = shutil.copytree(whole, tmp_path / "runs")
    return runs, commands.run_folder(runs)


def assert_refused(refused, runs, code, **changes):
    before = commands.contents(runs)
    refused.command(*commands.train_command(runs, **changes), code=code)
    assert commands.contents(runs) == before


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_stops_after_the_update_and_the_same_command_goes_on(number, whole, tmp_path):
    folder, wanted, updates = commands.run_folder(tmp_path), commands.run_folder(whole), commands.SETTINGS["updates"]
    code = f"from grue.cli.main import main\nmain({commands.train_command(tmp_path)!r}, prog_name='grue')\n"
    process = processes.start(code, tmp_path / "output")
    path = folder / "train.jsonl"
    while not path.exists() or path.read_bytes().count(b"\n") < 2:
        assert process.is_alive(), (tmp_path / "output").read_text()
        time.sleep(0.005)
    os.kill(process.pid, number)
    process.join()
    told, done = (tmp_path / "output").read_text(), max(line["update"] for line in log(folder))
    assert process.exitcode == 130 and 1 <= done < updates
    assert "Stopping after this update; press Ctrl-C again to stop at once." in told
    assert f"Error: {folder}: stopped after update {done} of {updates}; the same command resumes.\n" in told
    assert "Traceback" not in told
    assert f"state-{done:06d}.pt" in commands.names(folder / "states")
    again = train(tmp_path)
    assert again.exit_code == 0 and f"resuming after update {done} of {updates}" in again.stderr
    assert read_manifest(folder / "checkpoint").files == read_manifest(wanted / "checkpoint").files
    assert log(folder) == log(wanted) and commands.names(folder) == commands.names(wanted)
    # Else the comparisons would say nothing: neither the weights nor β nor the checkpoint are the first ones.
    assert read_manifest(folder / "checkpoint").update > 0
    first, *_, last = [line for line in log(wanted) if "objective/kl" in line]
    assert first["objective/kl"] == 0 != last["objective/kl"]
    assert first["objective/kl_coefficient"] != last["objective/kl_coefficient"]


def test_a_finished_run_is_left_as_it_is_and_other_settings_in_its_folder_are_refused(whole, refused):
    before, folder = commands.contents(whole), commands.run_folder(whole)
    again = train(whole)
    assert again.exit_code == 0 and "already finished; nothing to do" in again.stderr
    assert again.stdout == f"{folder / 'checkpoint'}\n"
    assert commands.contents(whole) == before
    assert not (folder / "run_id").exists()
    assert_refused(refused, whole, 2, clip=0.3)


@pytest.mark.parametrize(
    "damage", ["checkpoint", "checkpoint/grue.json", "checkpoint/model.safetensors", "config.toml"]
)
def test_a_finished_run_that_lost_something_is_neither_finished_nor_begun_again(damage, copied, refused):
    runs, folder = copied
    path = folder / damage
    if path.is_dir():
        shutil.rmtree(path)
    elif damage.endswith("safetensors"):
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    assert_refused(refused, runs, 3)
    if damage == "config.toml":
        path.write_text("")  # a configuration that was emptied is another one
        assert_refused(refused, runs, 2)


def test_an_evaluation_of_a_run_in_progress_stands_for_nothing_and_is_made_anew(copied):
    """Made in time for a look, it is on no board and in no submission; the finished run has its own."""
    _, folder = copied
    (folder / "run_id").write_text("0" * 32 + "\n")
    command = ["evaluate", "--checkpoint", str(folder), "--limit", "4"]
    early = commands.here(*command)
    assert early.exit_code == 0 and "is not finished: this result stands on no board" in early.stderr
    assert "grue view" not in early.stderr
    assert json.loads((folder / "result.json").read_text())["system"]["unfinished"] is True
    with pytest.raises(DataError, match="was evaluated while its run was not finished; finish it"):
        read_run(folder)
    with pytest.raises(DataError, match="made while the run was not finished"):
        read_measured(result_files([folder]))
    assert "evaluating anew" not in commands.here(*command).stderr  # the same look again
    (folder / "run_id").unlink()
    late_one = commands.here(*command)
    assert late_one.exit_code == 0
    assert "holds an evaluation of the run before it was finished; evaluating anew" in late_one.stderr
    said = json.loads((folder / "result.json").read_text())["system"]
    assert "unfinished" not in said and said["last"]["update"] == commands.SETTINGS["updates"]


def test_a_last_line_that_is_torn_finishes_no_run(copied, refused):
    runs, folder = copied
    request = RunRequest(task=load_task("imdb"), algorithm="ppo", runs=runs, settings=dict(commands.SETTINGS))
    (plan,) = stages_of(request)
    assert finished(plan)
    path = folder / "train.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    with refused(DataError):
        finished(plan)
    (folder / "run_id").write_text("0" * 32 + "\n")  # killed while it wrote the line
    assert not finished(plan)


@pytest.fixture(scope="module")
def evaluated(sampled, tmp_path_factory):
    """The folder of an evaluation that nobody disturbed."""
    folder = tmp_path_factory.mktemp("evaluated")
    done = evaluate(sampled, folder)
    assert done.exit_code == 0, done.output
    return folder


def result(folder):
    """The result without its clock."""
    found = json.loads((folder / "result.json").read_text())
    return {key: value for key, value in found.items() if key not in ("timing", "grue")}


def test_an_evaluation_that_was_interrupted_or_killed_goes_on_to_the_same_predictions(
    sampled, evaluated, tmp_path, monkeypatch
):
    answered, predictions = [], tmp_path / "predictions.jsonl"
    original = predicting.predict

    def pressed(loaded, task, examples, settings, seed):
        if len(answered) == 20:
            raise KeyboardInterrupt
        answered.extend(example.id for example in examples)
        return original(loaded, task, examples, settings, seed)

    with monkeypatch.context() as patch:
        patch.setattr(evaluating, "predict", pressed)
        stopped = evaluate(sampled, tmp_path)
    assert stopped.exit_code == 130
    assert "Interrupted. What was saved stays; the same command resumes." in stopped.stderr
    assert [json.loads(line)["id"] for line in predictions.read_text().split("\n")[:-1]] == answered
    assert not (tmp_path / "result.json").exists()
    predictions.write_bytes(predictions.read_bytes()[:-10])  # a last line that a kill tore in the middle
    again = evaluate(sampled, tmp_path)
    assert again.exit_code == 0, again.output
    assert predictions.read_bytes() == (evaluated / "predictions.jsonl").read_bytes()
    assert result(tmp_path) == result(evaluated)


def test_batches_are_the_same_after_an_interruption(tmp_path, monkeypatch):
    """A batch that was half kept is decoded whole again, so that its rounding is what it would have been."""
    seen, original = [], predicting.predict

    def watched(loaded, task, examples, settings, seed):
        seen.append([example.id for example in examples])
        return original(loaded, task, examples, settings, seed)

    task = tiny.task("seq2seq")

    def answer(batch):
        return predicting.predict((tiny.model("seq2seq"), tiny.tokenizer("seq2seq")), task, batch, task.decoding, 1)

    monkeypatch.setattr(predicting, "predict", watched)
    predicting.predict_file(tiny.examples(), tmp_path / "whole.jsonl", 4, answer)
    batches = [*seen]
    lines = {json.loads(line)["id"]: line for line in (tmp_path / "whole.jsonl").read_text().splitlines()}
    for torn in range(4):
        seen.clear()
        kept = [name for batch in batches for name in batch][: 4 + torn]
        (tmp_path / "torn.jsonl").write_text("".join(lines[name] + "\n" for name in kept))
        predicting.predict_file(tiny.examples(), tmp_path / "torn.jsonl", 4, answer)
        assert seen == batches[1:]
        assert (tmp_path / "torn.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
