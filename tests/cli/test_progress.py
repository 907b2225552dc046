"""What a run shows of itself: exact texts, on a terminal of fixed width and where there is none."""

import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from grue.cli.live import LiveView, beginning, printable, shortened, sparkline
from grue.cli.progress import TrainingProgress, no_console
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


def plan(folder, title="nlpo on commongen, seed 1"):
    task = SimpleNamespace(suite="mini")
    return SimpleNamespace(
        title=title,
        task=task,
        told_reward="meteor",
        told_validation="validated on 300 examples",
        init=None,
        folder=folder,
        checkpoint=folder / "checkpoint",
    )


def kept(folder, update):
    """The part of a checkpoint's manifest that is read, and a log of two validations."""
    log = [{"update": 0, "validation/reward": 0.1, "validation/preference": 30.04}]
    log += [{"update": n, "seconds": 1.0} for n in range(1, update + 1)]
    log += [{"update": update, "validation/reward": 0.5, "validation/preference": 33.25}] if update else []
    (folder / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "grue.json").write_text(json.dumps({"update": update}))


def example(prompt):
    return Example("1", prompt, ())


def terminal(width=80, **settings):
    """A console like a terminal's, that is asked for its text."""
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, height=40, color_system=None, highlight=False,
        legacy_windows=False, **settings
    )  # fmt: skip


def drawn(view, width=80):
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    console.print(view)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def view(*lines, samples=(), total=50, title="nlpo on commongen, seed 1"):
    """A live view whose clock stands still after 2 seconds an update."""
    clock = [0.0]
    shown = LiveView(Console(file=io.StringIO()))
    shown.bar.get_time = lambda: clock[0]
    shown.begin(title, 0, total, [])
    for number, line in enumerate(lines, 1):
        clock[0] = 2.0 * number
        shown.update(number, line, samples)
    return shown


# --- without a terminal -----------------------------------------------------------------------------------------------


def test_plain_lines(tmp_path):
    console = Console(file=io.StringIO(), width=80, highlight=False)
    progress = TrainingProgress(console)
    with progress:
        progress.planned(plan(tmp_path))
        progress.started(plan(tmp_path), 3, 50)
        progress.sampled(example("ski mountain"), "a skier [skis]\nfast\x1b[31m", 0.25)
        progress.updated(10, 50, LINE)
        progress.warned(10, "entropy has fallen to 0.050 nats a token. Lower learning_rate.")
        progress.validated(10, {"reward": 0.5, "preference": 33.25}, True)
        progress.validated(20, {"reward": 0.5}, False)
        kept(tmp_path, 10)
        progress.finished(plan(tmp_path))
    assert console.file.getvalue() == (
        f"nlpo on commongen, seed 1  suite mini, reward meteor, validated on 300 examples → {tmp_path}\n"
        "  resuming after update 3 of 50\n"
        "  warning: update 10: entropy has fallen to 0.050 nats a token. Lower learning_rate.\n"
        "  update   10  validation: reward 0.500  preference 33.250  best so far, kept\n"
        "    ski mountain  →  a skier [skis] fast�[31m  (0.250)\n"
        "  update   20  validation: reward 0.500\n"
        "  kept update 10: the best on validation: preference 30.0 → 33.2\n"
    )


def test_a_run_that_did_not_beat_its_start_says_so(tmp_path):
    console = Console(file=io.StringIO(), width=80, highlight=False)
    progress = TrainingProgress(console)
    progress.started(plan(tmp_path), 0, 2)
    kept(tmp_path, 0)
    progress.finished(plan(tmp_path))
    assert console.file.getvalue() == "  kept update 0: training did not beat its start on validation\n"


def test_a_line_every_few_seconds(tmp_path):
    console, clock = Console(file=io.StringIO(), width=80, highlight=False), [100.0]
    progress = TrainingProgress(console, now=lambda: clock[0])
    progress.started(plan(tmp_path), 4, 50)
    for done in range(5, 13):
        clock[0] += 4.0
        progress.updated(done, 50, LINE | {"loss/total": 1.5, "update": done})
    figures = "reward 0.457  loss 1.500  KL 0.031  entropy 1.92  length 11.3"
    assert console.file.getvalue().splitlines()[1:] == [
        f"  update    7 of 50  {figures}  3 min left",  # 43 updates of 4 seconds: 172
        f"  update   10 of 50  {figures}  3 min left",
    ]


def test_a_run_that_was_finished_before(tmp_path):
    console = Console(file=io.StringIO(), width=80, highlight=False)
    progress = TrainingProgress(console)
    progress.planned(plan(tmp_path, title="ppo on [odd], seed 1"))
    progress.finished(plan(tmp_path))
    assert console.file.getvalue() == (
        f"ppo on [odd], seed 1  suite mini, reward meteor, validated on 300 examples → {tmp_path}\n  already finished; nothing to do\n"
    )


def test_the_next_commands_are_said_and_name_the_file_of_a_task_of_ones_own(tmp_path):
    console = Console(file=io.StringIO(), width=80, highlight=False)
    progress = TrainingProgress(console, beside=" --task my.toml")
    progress.suggest()
    start, second = plan(tmp_path / "start"), plan(tmp_path / "my runs")
    first = plan(tmp_path / "first")
    first.init = start.checkpoint  # what a run began from is evaluated by who asks for it
    for one in (start, first, second):
        progress.finished(one)
    progress.suggest()
    assert console.file.getvalue().splitlines() == [
        *["  already finished; nothing to do"] * 3,
        f"  next: grue evaluate --checkpoint {tmp_path}/first/checkpoint --task my.toml",
        f"  next: grue evaluate --checkpoint '{tmp_path}/my runs/checkpoint' --task my.toml",
    ]


def test_the_other_processes_say_nothing(tmp_path, capfd):
    with TrainingProgress(no_console()) as progress:
        progress.planned(plan(tmp_path))
        progress.started(plan(tmp_path), 0, 2)
        progress.updated(1, 2, LINE)
        progress.warned(1, "something")
        progress.validated(1, {"reward": 0.5}, True)
        progress.finished(plan(tmp_path))
    assert capfd.readouterr() == ("", "")


# --- on a terminal ----------------------------------------------------------------------------------------------------


def test_the_live_view():
    samples = [("ski mountain skier", "a skier skis down the mountain .", 0.912), ("dog catch", "", -0.5)]
    lines = [{**LINE, "objective/reward": value} for value in (0.1, 0.2, 0.3, 0.4)]
    assert drawn(view(*lines, samples=samples)) == [
        "nlpo on commongen, seed 1 ━━                           4/50 0:00:08 left 0:01:32",
        "  reward 0.400 ▁▃▆█        KL 0.031  entropy 1.92  length 11.3  1,234 tokens/s",
        "",
        "   0.912  ski mountain skier",
        "          → a skier skis down the mountain .",
        "",
        "  -0.500  dog catch",
        "          → (empty)",
    ]


def test_the_live_view_of_supervised_training():
    lines = [{"update": n, "seconds": 0.0, "loss/total": 3.0 / n, "tokens": 100.0} for n in (1, 2, 3)]
    assert drawn(view(*lines, total=4, title="supervised on commongen, seed 1"))[1:] == ["  loss 1.000 █▃▁"]


def test_before_the_first_update_there_is_only_the_bar_and_without_a_run_nothing():
    assert drawn(view()) == ["nlpo on commongen, seed 1                              0/50 0:00:00 left -:--:--"]
    assert drawn(LiveView(Console(file=io.StringIO()))) == []


def test_a_narrow_terminal_gets_more_lines_and_a_wide_one_is_left_empty():
    one = view(LINE, samples=[("a b", "c d", 1.0)])
    assert drawn(one, 44)[1:4] == [
        "  reward 0.457 ▅           KL 0.031",
        "  entropy 1.92  length 11.3  1,234 tokens/s",
        "",
    ]
    assert drawn(one, 300) == drawn(one, 100)
    assert max(map(len, drawn(one, 300))) == 100


def test_long_texts_are_cut_between_words():
    prompt = "Summarize: " + "The mayor opened a bridge on Monday. " * 20
    response = "One two three four five six seven eight nine ten " * 5
    assert drawn(view(LINE, samples=[(prompt, response, 12.5)]))[3:] == [
        "  12.500  Summarize: The mayor opened a … mayor opened a bridge on Monday.",
        "          → One two three four five six seven eight nine ten One two three four",
        "            five six seven eight nine ten One two three four five six seven …",
    ]


@pytest.mark.parametrize("width", [10, 40, 80])
def test_texts_cannot_break_the_view(width):
    odd = "\x1b[2J\x07[bold]x[/bold] \r\n\t\x00 \u202e\ud800 [/] 日本語 " * 3
    lines = drawn(view(LINE, samples=[(odd, odd, 0.1), ("x" * 500, "y" * 500, 0.2)], title="[b]odd[/x]"), width)
    assert all(character.isprintable() for line in lines for character in line)
    assert len(lines) <= 4 + 5 + 2 * 4
    if width == 80:
        assert lines[0].startswith("[b]odd[/x] ")
        assert lines[3].startswith("   0.100  �[2J�[bold]x[/bold]")


def test_a_terminal_is_left_as_it_was_with_the_validations_in_it(tmp_path):
    console = terminal()
    with TrainingProgress(console) as progress:
        progress.planned(plan(tmp_path))
        progress.started(plan(tmp_path), 0, 50)
        progress.sampled(example("ski"), "a skier", 0.25)
        progress.sampled(example("dog"), "a dog", 0.75)
        progress.updated(1, 50, LINE)
        progress.validated(1, {"reward": 0.5}, False)
        kept(tmp_path, 1)
        progress.finished(plan(tmp_path))
    shown = console.file.getvalue()
    for text in (" 1/50", "1,234", "   0.250  ski", "→ a skier", "   0.750  dog", "→ a dog"):
        assert text in shown
    assert "  update    1  validation: reward 0.500\n" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
    cleared, _, last = shown.rpartition("\x1b[2K")
    assert cleared and last.strip() == "kept update 1: the best on validation: preference 30.0 → 33.2"


def test_without_colour_the_view_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system="truecolor", legacy_windows=False)
    console.print(view(LINE, samples=[("ski", "a skier", 0.25)]))
    assert "\x1b[3" not in console.file.getvalue().replace("\x1b[39m", "")
    assert "0.457" in console.file.getvalue()


def test_a_run_that_goes_on_has_its_history(tmp_path):
    lines = [{"update": 0, "validation/reward": 0.1}]
    lines += [{**LINE, "update": n, "objective/reward": n / 10} for n in range(1, 5)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    progress = TrainingProgress(terminal())
    with progress:
        progress.started(plan(tmp_path), 4, 50)
        progress.updated(5, 50, {**LINE, "objective/reward": 0.5})
        assert progress.view.history == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_a_value_that_is_not_finite_is_left_out_of_the_history():
    lines = [{**LINE, "objective/reward": value} for value in (0.1, float("nan"), 0.2, float("inf"))]
    assert drawn(view(*lines))[1].startswith("  reward inf ▁█ ")


# --- pieces -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], ""),
        ([3.0], "▅"),
        ([1.0, 1.0], "▅▅"),
        ([0.0, 1.0], "▁█"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([7, -7], "█▁"),
        ([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7], "▁▂▃▄▅▆▇█"),
    ],
)
def test_sparkline(values, bars):
    assert sparkline(values, 8) == bars


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("one two", 7, "one two"),
        ("one two three four five six", 20, "one two … five six"),
        ("one two three four five six", 12, "one … six"),
        ("abcdefghijklmnop", 9, "abc … nop"),
    ],
)
def test_shortened(text, width, short):
    assert shortened(text, width) == short
    assert len(short) <= width


def test_beginning():
    assert beginning("one two three", 9) == "one two"
    assert beginning("one two three", 7) == "one two"
    assert beginning("onetwothree", 4) == "onet"


def test_printable():
    assert printable("a\nb\tc\u2028d\x1b[0m\u200be\ud800") == "a b c d�[0m�e�"
    assert printable("½ é 日本 👍") == "½ é 日本 👍"
