"""What a run shows of itself: exact texts, on a terminal of fixed width and where there is none."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from grue import files
from grue.cli.console import error_console, printable, shortened
from grue.cli.progress import TrainingProgress
from grue.cli.train import evaluated_on
from grue.records import Example

LINE = {
    "update": 1,
    "seconds": 2.0,
    "objective/reward": 0.4567,
    "objective/kl": 0.0312,
    "objective/entropy": 1.923,
    "objective/length": 11.28,
    "tokens": 2468.0,
}
TOLD = {"reward_label": "meteor", "validation_label": "validated on 300 examples", "init": None}
TOLD |= {"config": SimpleNamespace(keep="best")}


def plan(folder, title="nlpo on commongen, seed 1", **changed):
    of_mini = {"task": SimpleNamespace(suite="mini"), "checkpoint": folder / "checkpoint"}
    return SimpleNamespace(title=title, folder=folder, **of_mini, **{**TOLD, **changed})


def kept(folder, update, last=None):
    """Write the part of a checkpoint's manifest that is read, and a log of two validations, the second of the last."""
    last = update if last is None else last
    log = [{"update": 0, "validation/reward": 0.1, "validation/preference": 30.04, "validation/error": 0.62}]
    log += [{"update": n, "seconds": 1.0} for n in range(1, last + 1)]
    gained = {"validation/gain": 3.21, "validation/gain_error": 0.44, "validation/error": 0.58}
    log += [{"update": last, "validation/reward": 0.5, "validation/preference": 33.25, **gained}] if last else []
    files.write_jsonl(folder / "train.jsonl", log)
    files.write_json(folder / "checkpoint" / "grue.json", {"update": update})


def example(prompt):
    return Example("1", prompt, ())


def console(width=80, **settings):
    """A console that is asked for its text; one like a terminal's with `force_terminal`."""
    usual = {"file": io.StringIO(), "height": 40, "color_system": None, "highlight": False, "legacy_windows": False}
    return Console(width=width, **{**usual, **settings})


def test_plain_lines(tmp_path, refused):
    page = console()
    with TrainingProgress(page) as progress:
        progress.planned(plan(tmp_path))
        progress.started(plan(tmp_path), 3, 50)
        progress.sampled(example("ski mountain"), "a skier [skis]\nfast\x1b[31m", 0.25)
        progress.updated(10, 50, LINE)
        progress.warned(10, "entropy has fallen to 0.050 nats a token. Lower learning_rate.")
        gained = {"error": 0.58, "gain": 3.21, "gain_error": 0.44}
        progress.validated(10, {"reward": 0.5, "preference": 33.25, **gained}, True)
        progress.validated(20, {"reward": 0.5, "kl": 2.5, "error": 0.0625}, False)
        kept(tmp_path, 10)
        progress.finished(plan(tmp_path))
        progress.started(plan(tmp_path), 0, 2)
        kept(tmp_path, 0)
        progress.finished(plan(tmp_path))
        progress.planned(plan(tmp_path, title="ppo on [odd], seed 1"))
        progress.finished(plan(tmp_path))
    refused.message(page.file.getvalue())


def test_a_line_every_few_seconds(tmp_path, refused):
    page, clock = console(), [100.0]
    progress = TrainingProgress(page, now=lambda: clock[0])
    progress.started(plan(tmp_path), 4, 50)
    for done in range(5, 13):
        clock[0] += 4.0
        progress.updated(done, 50, LINE | {"loss/total": 1.5, "update": done})
    refused.message(page.file.getvalue())  # 43 updates of 4 seconds: 172, 3 min left


def test_the_next_commands_are_said_and_name_the_file_of_a_task_of_ones_own(tmp_path, refused):
    page = console()
    progress = TrainingProgress(page, beside=" --task my.toml")
    progress.suggest()
    start, second = plan(tmp_path / "start"), plan(tmp_path / "my runs")
    first = plan(tmp_path / "first", init=start.checkpoint)  # what it began from is evaluated by who asks for it
    for one in (start, first, second):
        progress.finished(one)
    progress.suggest()
    refused.message(page.file.getvalue())


@pytest.mark.parametrize(
    ("task", "suite", "of_task", "options"),
    [
        ("my tasks/imdb.toml", "mini", "mini", " --task 'my tasks/imdb.toml'"),  # a copy of a task that ships
        ("haiku", "acme", "acme", " --task haiku --suite acme"),
        ("imdb", "mini", "mini", ""),
    ],
)
def test_the_next_command_evaluates_on_the_task_that_was_trained_on(task, suite, of_task, options):
    assert evaluated_on(task, suite, of_task) == options


def test_the_other_processes_say_nothing(tmp_path, capfd):
    with TrainingProgress(error_console(quiet=True)) as progress:
        progress.planned(plan(tmp_path))
        progress.started(plan(tmp_path), 0, 2)
        progress.updated(1, 2, LINE)
        progress.warned(1, "something")
        progress.validated(1, {"reward": 0.5}, True)
        progress.finished(plan(tmp_path))
    assert capfd.readouterr() == ("", "")


def test_a_terminal_is_left_as_it_was_with_the_validations_in_it(tmp_path):
    page = console(width=80, force_terminal=True)
    with TrainingProgress(page) as progress:
        progress.planned(plan(tmp_path))
        progress.started(plan(tmp_path), 0, 50)
        progress.updated(1, 50, LINE)
        progress.validated(1, {"reward": 0.5}, False)
        kept(tmp_path, 1)
        progress.finished(plan(tmp_path))
    shown = page.file.getvalue()
    for figure in (" 1/50 ", " left ", "reward 0.457", "KL 0.031", "entropy 1.92", "11.3"):
        assert figure in shown
    assert "  update    1  validation: reward 0.500\n" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
    cleared, _, last = shown.rpartition("\x1b[2K")
    assert cleared and last.strip().startswith(
        "kept update 1: the best on validation: preference 30.0 ± 0.6 → 33.2 ± 0.6"
    )


@pytest.mark.parametrize("width", [10, 40, 80])
def test_texts_cannot_break_the_terminal(tmp_path, width):
    odd = "\x1b[2J\x07[bold]x[/bold] \r\n\t\x00 \u202e\ud800 [/] 日本語 " * 3
    page = console(width=width)
    with TrainingProgress(page) as progress:
        progress.started(plan(tmp_path), 0, 50)
        progress.sampled(example(odd), odd, 0.1)
        progress.validated(1, {"reward": 0.5}, False)
    (_, line) = page.file.getvalue().splitlines()
    assert line.isprintable() and "�[2J�[bold]x[/bold]" in line


def test_texts_are_shortened_in_the_middle_and_control_nothing():
    for text, width, short in (
        ("one two", 7, "one two"),
        ("one two three four five six", 20, "one two t … five six"),
        ("abcdefghijklmnop", 9, "abc … nop"),
    ):
        assert shortened(text, width) == short and len(short) <= width
    assert printable("a\nb\tc\u2028d\x1b[0m\u200be\ud800") == "a b c d�[0m�e�"
    assert printable("½ é 日本 👍") == "½ é 日本 👍"
