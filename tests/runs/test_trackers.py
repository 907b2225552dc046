"""Observers and trackers: what they are told, what they write, how they go on after a stop, and how they fail.

Weights & Biases and trackio run in processes of their own, without a network; what they wrote is read from their files.
"""

import json
import sqlite3
import struct
import sys
from importlib.util import find_spec

import pytest
from support.late import late

from grue.errors import ConfigError, TrainingError, Unavailable
from grue.runs import trackers
from grue.runs.trackers import BACKENDS, Tracker, chosen, installed, open_trackers

tiny, processes = late("support.tiny"), late("support.processes")

# A run on a tiny model, stopped after 3 of 5 updates, its state saved after 2, and gone on with; each tracker by name.
SCRIPT = """
import sys
from pathlib import Path
from support import tiny
from grue.runs.trackers import open_trackers
from grue.runs.observers import Observers

class Killed(Exception):
    pass

def killed():
    killed.asked += 1
    if killed.asked == 3:
        raise Killed
    return False

killed.asked = 0
folder, names = Path(sys.argv[1]), sys.argv[2:]
for stop in (killed, lambda: False):
    run = tiny.run("causal", "ppo", folder, updates=5, stop=stop, save_every=2, epochs=1)
    try:
        with open_trackers(names, lambda done, message: print("warned", done, message)) as opened:
            run.observer = Observers([*opened, run.observer])
            run.trainer.shown = run.observer.sampled
            tiny.train(run)
            run.observer.warned(5, "a [warning] of the test")
    except Killed:
        pass
"""


def warnings_of(code, folder, **environment):
    """Run a script in a process of its own; return the warnings that it printed."""
    process = processes.start(code, folder / "output", **environment)
    process.join()
    printed = (folder / "output").read_text()
    assert process.exitcode == 0, printed
    return [line for line in printed.splitlines() if line.startswith("warned")]


def tracked(folder, name, **environment):
    # Forked from a process that may have imported the tracker, which reads its folder when it is imported.
    anew = f"for held in [held for held in sys.modules if held.partition('.')[0] == {name!r}]:\n    del sys.modules[held]\n"
    place = f"import os, sys\n{anew}os.chdir({str(folder)!r})\nsys.argv = ['', {str(folder)!r}, {name!r}]\n"
    return warnings_of(place + SCRIPT, folder, **environment)


class Memory:
    """A backend that remembers, and fails with what `error` is."""

    def __init__(self):
        self.told, self.error = [], None

    def _tell(self, *what):
        if self.error is not None:
            raise self.error
        self.told.append(what)

    def open(self, plan, done):
        print("a line of chatter")
        self._tell("open", trackers.run_name(plan), done)
        return self

    def figures(self, figures, step):
        self._tell("figures", dict(figures), step)

    def samples(self, rows, step):
        self._tell("samples", rows, step)

    def warning(self, message, step):
        self._tell("warning", message, step)

    def close(self, exit_code):
        self._tell("close", exit_code)


@pytest.fixture
def plan(tmp_path):
    return tiny.run("causal", "ppo", tmp_path).plan


@pytest.fixture
def memory():
    """A tracker, its backend, and the warnings that it gives."""
    backend, warnings = Memory(), []
    return Tracker("memory", backend.open, lambda *warning: warnings.append(warning)), backend, warnings


def test_a_tracker_tells_its_backend_and_keeps_stdout_clean(plan, memory, capsys):
    (tracker, backend, warnings), example = memory, tiny.examples()[0]
    tracker.started(plan, 0, 40)
    tracker.validated(0, {"reward": 0.25}, True)
    for update in range(1, 12):
        tracker.sampled(example, f"text {update}", update / 10)
        tracker.updated(update, 40, {"loss/total": 1.0})
    tracker.warned(11, "look")
    tracker.validated(11, {"reward": 0.5}, True)
    tracker.validated(12, {"reward": 0.75}, False)
    tracker.close()
    tracker.close()
    last = [(example.prompt, f"text {n}", n / 10) for n in range(4, 12)]
    assert backend.told == [
        ("open", "tests/tiny/ppo/seed-1", 0),
        ("figures", {"validation/reward": 0.25}, 0),
        *[("figures", {"loss/total": 1.0}, n) for n in range(1, 12)],
        ("warning", "look", 11),
        ("figures", {"validation/reward": 0.5}, 11),
        ("samples", last, 11),
        ("figures", {"validation/reward": 0.75}, 12),
        ("close", 0),
    ]
    assert warnings == [] and capsys.readouterr() == ("", "a line of chatter\n")


def test_a_tracker_that_fails_is_told_of_once_and_heard_of_again_in_the_next_run(plan, memory):
    tracker, backend, warnings = memory
    tracker.started(plan, 0, 4)
    tracker.updated(1, 4, {"loss/total": 1.0})
    backend.error = OSError(28, "No space left\n on device.")
    tracker.updated(2, 4, {"loss/total": 1.0})
    tracker.validated(2, {"reward": 0.5}, True)
    backend.error = None
    tracker.updated(3, 4, {"loss/total": 1.0})
    tracker.warned(3, "look")
    told = "memory failed and is disabled: {}. Training continues."
    assert warnings == [(2, told.format("OSError: [Errno 28] No space left on device"))]
    assert [step for what, *_, step in backend.told if what == "figures"] == [1]
    tracker.started(plan, 0, 4)
    tracker.updated(1, 4, {"loss/total": 1.0})
    assert backend.told[-1] == ("figures", {"loss/total": 1.0}, 1)
    backend.error = TimeoutError()
    tracker.close()
    assert warnings[1:] == [(1, told.format("TimeoutError"))]


def test_a_tracker_that_cannot_start_is_an_error_at_first_and_a_warning_later(plan, memory, refused):
    tracker, backend, warnings = memory
    backend.error = ConnectionError("no network")
    with refused(TrainingError):
        tracker.started(plan, 0, 4)
    backend.error = None
    tracker.started(plan, 0, 4)
    tracker.close()
    backend.error = ConnectionError("no network")
    tracker.started(plan, 0, 4)
    tracker.updated(1, 4, {})
    assert warnings == [(0, "memory failed and is disabled: ConnectionError: no network. Training continues.")]


@pytest.mark.parametrize(("error", "exit_code"), [(None, 0), (KeyboardInterrupt(), 1), (TrainingError("x"), 1)])
def test_trackers_are_closed_whatever_happens(plan, monkeypatch, error, exit_code):
    backend = Memory()
    monkeypatch.setattr(trackers, "BACKENDS", {"tensorboard": backend.open})
    monkeypatch.setattr(trackers, "installed", lambda name: True)
    try:
        with open_trackers([], lambda done, message: None) as (tracker,):
            tracker.started(plan, 0, 4)
            if error is not None:
                raise error
    except (KeyboardInterrupt, TrainingError):
        pass
    assert backend.told[-1] == ("close", exit_code)


def test_what_is_chosen_and_what_is_missing_is_said_before_anything_is_loaded(monkeypatch, tmp_path, refused):
    monkeypatch.setattr(trackers, "installed", lambda name: True)
    assert chosen([]) == ["tensorboard"]
    assert chosen(["wandb", "trackio", "wandb"]) == ["wandb", "trackio"]
    assert chosen(["none"]) == []
    with refused(ConfigError):
        chosen(["wandb", "none"])
    monkeypatch.setattr(trackers, "installed", lambda name: False)
    assert chosen([]) == [], "TensorBoard is left out in silence only where nobody asked for it"
    with refused(Unavailable):
        chosen(["tensorboard"])
    command = ["train", "--task", "imdb", "--algo", "ppo", "--runs", tmp_path, "--tracker", "wandb"]
    refused.command(*command, code=3)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_package_s_name_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / "ghostly").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not installed("ghostly")
    (tmp_path / "ghostly" / "__init__.py").touch()
    assert installed("ghostly")
    assert not installed("no_such_package")


def test_the_command_line_knows_every_tracker():
    from grue.cli.train import train

    option = next(option for option in train.params if option.name == "trackers")
    assert list(option.type.choices) == [*BACKENDS, "none"]


@pytest.fixture
def events():
    pytest.importorskip("tensorboard", reason="the tensorboard extra is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(folder):
        found = EventAccumulator(str(folder / "tensorboard"))
        found.Reload()
        return found

    return read


def texts(found, name):
    return [(event.step, event.tensor_proto.string_val[0].decode()) for event in found.Tensors(f"{name}/text_summary")]


def test_tensorboard_gets_every_figure_once_though_the_run_was_killed(tmp_path, events, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path), "tensorboard"])
    exec(SCRIPT, {})
    assert capsys.readouterr().out == ""
    found, lines = events(tmp_path), tiny.logged(tmp_path)
    for name in ("objective/reward", "objective/kl", "loss/total", "validation/preference"):
        expected = [(line["update"], pytest.approx(line[name], abs=1e-6)) for line in lines if name in line]
        assert [(event.step, event.value) for event in found.Scalars(name)] == expected
    assert [event.step for event in found.Scalars("validation/preference")] == [0, 2, 4, 5]
    assert texts(found, "warnings") == [(5, "    a [warning] of the test")]
    assert [step for step, _ in texts(found, "samples")] == [2, 4, 5]
    ((step, config),) = texts(found, "config")
    assert step == 0
    assert json.loads(config)["config"]["updates"] == 5


def test_tensorboard_shows_texts_as_they_are(plan, tmp_path, events):
    board = trackers.tensorboard(plan, 3)
    board.samples([("*a* <b>", "c\n# d", 0.5), ("e", "", -1.0)], 4)
    board.close(0)
    assert texts(events(tmp_path), "samples") == [
        (4, "    *a* <b>\n    → c\n    # d\n    (0.500)\n    \n    e\n    → \n    (-1.000)")
    ]


def wandb_records(path):
    """Read a .wandb file: records of protocol buffers in the blocks of LevelDB's log format."""
    from wandb.proto import wandb_internal_pb2

    data, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


@pytest.mark.slow
def test_weights_and_biases_keeps_a_run_without_a_network(tmp_path):
    pytest.importorskip("wandb", reason="the wandb extra is not installed")
    assert tracked(tmp_path, "wandb", WANDB_MODE="offline", WANDB_SILENT="true") == []
    folders = sorted((tmp_path / "wandb").glob("offline-run-*"))
    identity = (tmp_path / "wandb" / "grue-id").read_text().strip()
    assert len(folders) == 2
    assert all(folder.name.endswith(f"-{identity}") for folder in folders)
    lines, steps, alerts = tiny.logged(tmp_path), [], []
    for folder in folders:
        records = list(wandb_records(folder / f"run-{identity}.wandb"))
        run = next(record.run for record in records if record.WhichOneof("record_type") == "run")
        config = {item.key: json.loads(item.value_json) for item in run.config.update}
        assert (run.project, run.display_name, run.run_group) == ("grue", "tests/tiny/ppo/seed-1", "tests/tiny")
        assert (run.job_type, run.resumed or run.run_id) == ("ppo", identity)
        assert (config["system"], config["config"]["updates"]) == ("ppo", 5)
        alerts += [record.alert.text for record in records if record.WhichOneof("record_type") == "alert"]
        for record in records:
            if record.WhichOneof("record_type") == "history":
                held = record.history.item
                values = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in held}
                steps.append(values["_step"])
                for line in lines:
                    if line["update"] == values["_step"]:
                        shown = {name: value for name, value in line.items() if name != "update"}
                        assert {name: values[name] for name in shown} == shown
    assert steps == [0, 1, 2, 3, 3, 4, 5]  # the server leaves out what it has of a run with this id
    assert alerts == ["update 5: a [warning] of the test"]
    tables = [json.loads(path.read_text()) for path in tmp_path.glob("wandb/offline-run-*/files/media/table/*.json")]
    prompts = {example.prompt for example in tiny.examples()}
    assert [table["columns"] for table in tables] == [["prompt", "response", "score"]] * 3
    assert all(prompt in prompts and 0 <= score <= 1 for table in tables for prompt, _, score in table["data"])


@pytest.mark.slow
def test_trackio_keeps_a_run_in_its_database(tmp_path):
    if find_spec("trackio") is None:  # not imported here: it reads its folder when it is
        pytest.skip("the trackio extra is not installed")
    assert tracked(tmp_path, "trackio", TRACKIO_DIR=str(tmp_path / "db"), HF_HUB_OFFLINE="1") == []
    with sqlite3.connect(tmp_path / "db" / "grue.db") as database:
        rows = database.execute("select run_id, run_name, step, metrics from metrics order by id").fetchall()
        alerts = database.execute("select run_name, text, step from alerts").fetchall()
        ((config,),) = database.execute("select config from configs").fetchall()
    assert {name for _, name, _, _ in rows} == {"tests/tiny/ppo/seed-1"}
    assert len({identity for identity, _, _, _ in rows}) == 1
    assert alerts == [("tests/tiny/ppo/seed-1", "a [warning] of the test", 5)]
    assert json.loads(config)["config"]["updates"] == 5
    shown = [(step, json.loads(metrics)) for _, _, step, metrics in rows]
    rewards = [(step, metrics["objective/reward"]) for step, metrics in shown if "objective/reward" in metrics]
    assert [step for step, _ in rewards] == [1, 2, 3, 3, 4, 5]  # what is repeated is there twice
    logged = {line["update"]: line["objective/reward"] for line in tiny.logged(tmp_path) if "objective/reward" in line}
    assert rewards == [(step, logged[step]) for step in (1, 2, 3, 3, 4, 5)]
    tables = [metrics["samples"]["_value"] for _, metrics in shown if "samples" in metrics]
    assert [{key for row in table for key in row} for table in tables] == [{"prompt", "response", "score"}] * 3
