"""Plots: what is read from logs and boards, what stands in the pictures, and what bad input is told."""

import re
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.factories import LIKED, a_task, entries

from grue import files
from grue.cli.plot import plot
from grue.errors import ConfigError, DataError, GrueError, Unavailable, UnknownName
from grue.leaderboard.rank import rank
from grue.plots.curves import Curve, CurvePanel, panels_of, read_figures, read_logs
from grue.plots.drawing import COLOURS, _mark, draw_curves, draw_tradeoff
from grue.plots.labels import Box, leader, place
from grue.plots.tradeoff import TradeoffPoint, points_of
from grue.records import About
from grue.stats.intervals import Interval

REWARD, KL, PREFERENCE = "objective/reward", "validation/kl", "validation/preference"


def write_run(task: Path, system: str, seed: int, lines: Sequence[Mapping[str, Any]]) -> Path:
    """Write the log of a run below a task's folder; returns its path."""
    path = task / system / f"seed-{seed}" / "train.jsonl"
    files.write_jsonl(path, lines)
    return path


def a_log(rewards: Sequence[float], preference: float = 40.0, **more: float) -> list[dict[str, Any]]:
    """A run's log: a validation before and after, an update for every reward, and the last line."""
    return [
        {"update": 0, PREFERENCE: 10.0},
        *({"update": i, "seconds": 1.0, REWARD: value, KL: i / 2, **more} for i, value in enumerate(rewards, start=1)),
        {"update": len(rewards), PREFERENCE: preference},
        {"finished": True, "training": {"seconds": 9.0}},
    ]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Runs of mini CommonGen: PPO and NLPO with two seeds, supervised training, and a baseline."""
    task = tmp_path / "runs" / "mini" / "commongen"
    write_run(task, "ppo", 1, a_log([1.0, 2.0, 4.0], **{"mask/size": 1.0, "mask/mass": 1.0}))
    write_run(task, "ppo", 2, a_log([3.0, 6.0, 4.0], 50.0, **{"mask/size": 1.0, "mask/mass": 1.0}))
    for seed in (1, 2):
        write_run(task, "nlpo", seed, a_log([2.0], **{"mask/size": 0.1, "mask/mass": 0.9, "mask/disagreement": 0.0}))
    write_run(
        task, "supervised", 1, [{"update": 1, "seconds": 1.0, "loss/total": 2.0}, {"update": 1, PREFERENCE: 30.0}]
    )
    (task / "zero-shot" / "seed-1").mkdir(parents=True)
    return tmp_path / "runs"


def run(*arguments: object, **environment: str) -> Result:
    return CliRunner().invoke(plot, list(map(str, arguments)), env=environment)


def refused(error: type[GrueError], *arguments: object) -> str:
    """Run a command that fails with an error of ours; returns its message."""
    result = run(*arguments)
    assert type(result.exception) is error, result.output
    return str(result.exception)


def drawn(path: Path) -> str:
    """Return the texts of an SVG file, one a line."""
    return "\n".join(re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8")))


# --- reading curves --------------------------------------------------------------------------------------------------


def test_a_curve_is_the_mean_of_its_seeds_with_the_lowest_and_the_highest(runs: Path) -> None:
    logs, notes = read_logs(runs / "mini/commongen", ["ppo"])
    panels, gaps = panels_of(logs, [REWARD, PREFERENCE])
    assert panels == [
        CurvePanel(REWARD, (Curve("ppo", (1, 2), (1, 2, 3), (2.0, 4.0, 4.0), (1.0, 2.0, 4.0), (3.0, 6.0, 4.0)),)),
        CurvePanel(PREFERENCE, (Curve("ppo", (1, 2), (0, 3), (10.0, 45.0), (10.0, 40.0), (10.0, 50.0)),)),
    ]
    assert notes == gaps == []


def test_seeds_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for seed in (10, 9, 1):
        write_run(tmp_path, "ppo", seed, a_log([float(seed)]))
    logs, _ = read_logs(tmp_path)
    assert [log.seed for log in logs] == [1, 9, 10]


def test_a_curve_ends_where_its_shortest_seed_ends(tmp_path: Path) -> None:
    write_run(tmp_path, "ppo", 1, a_log([1.0, 1.0, 1.0, 1.0])[:-2])
    write_run(tmp_path, "ppo", 3, a_log([5.0, 5.0])[:-2])
    panels, notes = panels_of(read_logs(tmp_path)[0], [REWARD])
    assert panels[0].curves[0].updates == (1, 2)
    assert panels[0].curves[0].mean == (3.0, 3.0)
    assert notes == ["ppo: drawn up to the last update that all its seeds reached (seed 1 to 4, seed 3 to 2)."]


def test_what_is_missing_is_told(runs: Path) -> None:
    task = runs / "mini/commongen"
    (task / "ppo" / "seed-7").mkdir()
    write_run(
        task,
        "ppo",
        8,
        [
            {"update": 0, PREFERENCE: 10.0},
            *({"update": n, "seconds": 1.0} for n in (1, 2, 3)),
            {"update": 3, PREFERENCE: 20.0},
        ],
    )
    logs, notes = read_logs(task)
    assert notes == [
        "ppo, seed 7: left out, since there is no train.jsonl.",
        "zero-shot: left out, since only trained systems have a train.jsonl.",
    ]
    panels, notes = panels_of(logs, [REWARD, KL, PREFERENCE])
    assert notes == [
        "ppo, seed 8: has no objective/reward, validation/kl.",
        "supervised: has no objective/reward, validation/kl.",
    ]
    assert [(curve.system, curve.seeds) for curve in panels[0].curves] == [("nlpo", (1, 2)), ("ppo", (1, 2))]
    assert [(curve.system, curve.seeds) for curve in panels[2].curves][1:] == [("ppo", (1, 2, 8)), ("supervised", (1,))]


def test_a_mask_that_closes_nothing_is_none(runs: Path) -> None:
    figures, _ = read_figures(runs / "mini/commongen/ppo/seed-1/train.jsonl")
    assert sorted(figures) == [REWARD, "seconds", KL, PREFERENCE]
    figures, _ = read_figures(runs / "mini/commongen/nlpo/seed-1/train.jsonl")
    assert figures["mask/size"] == {1: 0.1}


def test_a_torn_last_line_is_left_out_and_told(tmp_path: Path) -> None:
    path = write_run(tmp_path, "ppo", 1, a_log([1.0, 2.0])[:3])
    with path.open("a") as handle:
        handle.write('{"update": 3, "objective/rew')
    logs, notes = read_logs(tmp_path)
    assert logs[0].figures[REWARD] == {1: 1.0, 2: 2.0}
    assert notes == [f"{path}: the last line is incomplete, as after a kill, and was left out."]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"update": 1, "objective/rew', "line 2: not valid JSON"),
        ('{"update": 1.5, "objective/reward": 1.0}', "line 2: update: expected a whole number, found 1.5"),
        (
            '{"update": 1, "seconds": 1.0, "objective/reward": "high"}',
            "line 2: objective/reward: expected a number, found 'high'",
        ),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(f'{{"update": 0}}\n{line}\n{{"update": 2, "seconds": 1.0}}\n')
    with pytest.raises(DataError, match=f"{re.escape(str(path))}, {told}"):
        read_figures(path)


def test_a_log_that_lost_a_line_is_not_drawn(runs: Path, tmp_path: Path) -> None:
    path = runs / "mini/commongen/ppo/seed-1/train.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], *lines[3:]]))
    told = refused(DataError, "curves", "--task", "commongen", "--runs", runs, "-o", tmp_path / "x.svg")
    assert told == (
        f"{path}, line 3: update 3 follows update 1. Lines are missing or repeated, or are another run's; restore the log."
    )
    assert not (tmp_path / "x.svg").exists()


def test_a_folder_of_another_name_is_no_seed(tmp_path: Path) -> None:
    write_run(tmp_path, "ppo", 1, a_log([1.0]))
    (tmp_path / "ppo" / "seed-old").mkdir()
    with pytest.raises(DataError, match=r"seed-old: the folder of a run is named seed-<number>; rename or remove it"):
        read_logs(tmp_path)


# --- drawing curves --------------------------------------------------------------------------------------------------


def test_curves_are_drawn_with_words_units_and_systems(runs: Path, tmp_path: Path) -> None:
    output = tmp_path / "pictures" / "curves.svg"
    result = run("curves", "--task", "commongen", "--runs", runs, "-o", output)
    assert result.stdout == f"{output}\n"
    assert result.stderr.splitlines() == [
        "zero-shot: left out, since only trained systems have a train.jsonl.",
        "supervised: has no objective/reward, validation/kl.",
    ]
    texts = drawn(output).splitlines()
    assert {"CommonGen in the mini world", "Reward", "Validation: preference", "KL from the start"} <= set(texts)
    assert {"mean of sampled sequences", "score, 0–100", "nats a response"} <= set(texts)
    assert texts.count("update") == 3
    assert texts[-4:] == [
        "Lines: mean over seeds; bands: from the lowest to the highest seed.",
        *("nlpo (2 seeds)", "ppo (2 seeds)", "supervised (1 seed)"),
    ]


def test_the_same_numbers_give_the_same_bytes(runs: Path, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg", "a.png", "b.png"):
        assert run("curves", "--task", "commongen", "--runs", runs, "-o", tmp_path / name).exit_code == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert "dc:date" not in (tmp_path / "a.svg").read_text()


def test_a_png_is_one_of_1200_pixels(runs: Path, tmp_path: Path) -> None:
    output = tmp_path / "curves.PNG"
    assert run("curves", "--task", "commongen", "--runs", runs, "-o", output).exit_code == 0
    content = output.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", content[16:20]) == (1200,)


def test_a_system_has_one_colour_in_all_panels(runs: Path, tmp_path: Path) -> None:
    chosen = ("--system", "supervised", "--system", "ppo", "--figure", REWARD, "--figure", PREFERENCE)
    assert run("curves", "--task", "commongen", "--runs", runs, *chosen, "-o", tmp_path / "x.svg").exit_code == 0
    svg = (tmp_path / "x.svg").read_text()
    reward, preference = svg.split('<g id="axes_')[1:]
    assert COLOURS[0] not in reward and COLOURS[1] in reward
    assert COLOURS[0] in preference and COLOURS[1] in preference
    assert drawn(tmp_path / "x.svg").splitlines()[-2:] == ["supervised (1 seed)", "ppo (2 seeds)"]


def test_a_single_seed_has_no_band(runs: Path, tmp_path: Path) -> None:
    output = tmp_path / "x.svg"
    run("curves", "--task", "commongen", "--runs", runs, "--system", "supervised", "-o", output)
    assert "PolyCollection" not in output.read_text()
    assert "bands" not in drawn(output)
    run("curves", "--task", "commongen", "--runs", runs, "--system", "ppo", "-o", output)
    assert "PolyCollection" in output.read_text()


def test_figures_that_are_not_there_are_left_out_of_the_usual_ones(runs: Path, tmp_path: Path) -> None:
    arguments = ("curves", "--task", "commongen", "--runs", runs, "-o", tmp_path / "x.svg", "--system", "supervised")
    assert run(*arguments).stderr.splitlines() == [
        "objective/reward: no run logged it.",
        "validation/kl: no run logged it.",
    ]
    assert "Validation: preference" in drawn(tmp_path / "x.svg")
    assert refused(UnknownName, *arguments, "--figure", "los/total") == (
        "No run has logged 'los/total'. Did you mean 'loss/total'? Logged: loss/total, seconds, validation/preference."
    )


def test_a_figure_without_words_stands_under_its_own_name(tmp_path: Path) -> None:
    curve = Curve("mine", (1,), (1, 2), (0.5, 0.6), (0.5, 0.6), (0.5, 0.6))
    draw_curves([CurvePanel("mine/own", (curve,))], ["mine"], "A title", tmp_path / "x.svg")
    assert {"mine/own", "A title"} <= set(drawn(tmp_path / "x.svg").splitlines())


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    curve = Curve("a_$x^2$<&\x07", (1,), (1, 2), (0.5, 0.6), (0.5, 0.6), (0.5, 0.6))
    draw_curves([CurvePanel(REWARD, (curve,))], [curve.system], "A title", tmp_path / "x.svg")
    assert "a_$x^2$&lt;&amp;� (1 seed)" in drawn(tmp_path / "x.svg").splitlines()


def test_more_systems_than_can_be_told_apart_are_refused(tmp_path: Path) -> None:
    curves = tuple(Curve(f"s{i}", (1,), (1,), (0.5,), (0.5,), (0.5,)) for i in range(22))
    with pytest.raises(ConfigError, match="22 systems are too many, 21 can be drawn apart; choose some with --system"):
        draw_curves([CurvePanel(REWARD, curves)], [curve.system for curve in curves], "A title", tmp_path / "x.svg")
    assert not (tmp_path / "x.svg").exists()


def test_systems_without_a_curve_are_not_counted(tmp_path: Path) -> None:
    curve = Curve("s21", (1,), (1,), (0.5,), (0.5,), (0.5,))
    draw_curves([CurvePanel(REWARD, (curve,))], [f"s{i}" for i in range(22)], "A title", tmp_path / "x.svg")
    assert drawn(tmp_path / "x.svg").splitlines()[-1] == "s21 (1 seed)"
    assert COLOURS[0] in (tmp_path / "x.svg").read_text()


def test_what_the_sampler_closes_by_itself_is_no_mask(tmp_path: Path) -> None:
    path = write_run(tmp_path, "ppo-top-k", 1, a_log([1.0], **{"mask/size": 0.02, "mask/mass": 0.9}))
    assert not any(name.startswith("mask/") for name in read_figures(path)[0])


def test_the_mask_is_drawn_where_there_is_one(runs: Path, tmp_path: Path) -> None:
    result = run("mask", "--task", "commongen", "--runs", runs, "-o", tmp_path / "mask.svg")
    assert "ppo: has no mask/size, mask/mass, mask/disagreement." in result.stderr.splitlines()
    texts = drawn(tmp_path / "mask.svg").splitlines()
    assert {"Size of the mask", "Mass of the mask", "Disagreement", "open tokens, share of vocabulary"} <= set(texts)
    assert texts[-1] == "nlpo (2 seeds)"
    message = refused(DataError, "mask", "--task", "commongen", "--runs", runs, "--system", "ppo", "-o", "x.svg")
    assert message.startswith("No run has logged mask/size or mask/mass or mask/disagreement. Logged: objective/rew")


def test_options_come_from_the_environment_too(runs: Path, tmp_path: Path) -> None:
    result = run("curves", GRUE_TASK="commongen", GRUE_RUNS=str(runs), GRUE_OUTPUT=str(tmp_path / "x.svg"))
    assert result.stdout == f"{tmp_path / 'x.svg'}\n"


# --- bad input -------------------------------------------------------------------------------------------------------


def test_an_unknown_system_is_told_its_neighbours(runs: Path) -> None:
    asked = ("--task", "commongen", "--runs", runs, "--system", "pppo", "-o", "x.svg")
    folder = runs / "mini" / "commongen"
    assert refused(UnknownName, "curves", *asked) == (
        f"{folder} has no runs of 'pppo'. Did you mean 'ppo'? Known: nlpo, ppo, supervised, zero-shot."
    )


def test_an_unknown_task_is_told_its_neighbours(runs: Path) -> None:
    message = refused(UnknownName, "curves", "--task", "comongen", "--runs", runs, "-o", "x.svg")
    assert "Did you mean 'commongen'?" in message


def test_nothing_to_draw_is_an_error(runs: Path, tmp_path: Path) -> None:
    message = refused(DataError, "curves", "--task", "imdb", "--runs", runs, "-o", "x.svg")
    assert message.endswith("imdb: holds no runs; train some with `grue train`, or name another folder with --runs.")
    asked = ("--task", "commongen", "--runs", runs, "--system", "zero-shot", "-o", "x.svg")
    assert refused(DataError, "curves", *asked).endswith("no run has logged an update; train one with `grue train`.")
    write_run(tmp_path / "empty", "ppo", 1, [])
    with pytest.raises(DataError, match="no run has logged an update"):
        read_logs(tmp_path / "empty")


def test_a_file_of_another_kind_is_refused(runs: Path, tmp_path: Path) -> None:
    asked = ("--task", "commongen", "--runs", runs, "-o", tmp_path / "x.gif")
    assert refused(ConfigError, "curves", *asked) == (
        f"{tmp_path / 'x.gif'}: a plot is a .png, an .svg or a .pdf file; give it one of these endings."
    )


def test_a_pdf_holds_letters_and_equal_points_give_equal_bytes(tmp_path: Path) -> None:
    point = TradeoffPoint("ppo", 50.0, 60.0, Interval(49.0, 51.0), Interval(59.0, 61.0), False)
    for name in ("a.pdf", "b.pdf"):
        draw_tradeoff([point], "A title", tmp_path / name)
    drawn = (tmp_path / "a.pdf").read_bytes()
    assert drawn == (tmp_path / "b.pdf").read_bytes() and drawn.startswith(b"%PDF-")
    assert b"/FontFile2" in drawn and b"CreationDate" not in drawn


def test_a_place_that_cannot_be_written_is_named(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "x.svg"
    message = refused(DataError, "curves", "--task", "commongen", "--runs", runs, "-o", output)
    assert message.startswith(f"{output}: cannot be written: ")


def test_without_matplotlib_the_cure_is_told(runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refused(Unavailable, "curves", "--task", "commongen", "--runs", runs, "-o", tmp_path / "x.svg")
    assert message == "Plots need matplotlib, which is not installed: pip install 'grue[plot]'"


# --- preference and naturalness --------------------------------------------------------------------------------------


def test_points_are_the_rows_of_the_board() -> None:
    task = a_task()
    board = rank([*entries(task, "ppo", {1: 40.0, 2: 50.0, 3: 60.0}), *entries(task, "one", {1: 30.0})], [task])
    points, notes = points_of(board)
    ppo, one = points
    assert (ppo.label, ppo.naturalness, ppo.preference, ppo.is_reference) == ("ppo", 50.0, 50.0, False)
    assert ppo.naturalness_interval == Interval(50.0, 50.0)
    assert ppo.preference_interval is not None
    assert ppo.preference_interval.half_width == pytest.approx(4.302653 * 10 / 3**0.5, rel=1e-6)  # t with 2 degrees
    assert one == TradeoffPoint("one", 50.0, 30.0, None, None, False, is_local=True)
    assert notes == ["one: drawn without intervals, which need two seeds on every task."]


def test_references_need_no_interval() -> None:
    task = a_task()
    (entry,) = entries(task, "null", {1: 5.0})
    points, notes = points_of(rank([replace(entry, about=About(deterministic=True))], [task]))
    assert points == [TradeoffPoint("null", 50.0, 5.0, None, None, True, is_local=True)]
    assert notes == []


def test_rows_of_one_name_are_told_apart_and_systems_chosen() -> None:
    task = a_task()
    board = rank(
        [*entries(task, "ppo", {1: 40.0, 2: 50.0}), *entries(task, "ppo", {1: 41.0, 2: 50.0}, "rescored")], [task]
    )
    assert sorted(point.label for point in points_of(board)[0]) == ["ppo (local)", "ppo (rescored)"]
    with pytest.raises(UnknownName, match=r"The board has no system 'pop'. Did you mean 'ppo'\? Known: ppo\."):
        points_of(board, ["pop"])
    assert [len(points_of(board, names)[0]) for names in ([], ["ppo"])] == [2, 2]


def test_rows_without_a_place_are_told() -> None:
    tasks = [a_task("stories"), a_task("tales")]
    everywhere = [entry for task in tasks for entry in entries(task, "ppo", {1: 40.0, 2: 50.0})]
    board = rank([*everywhere, *entries(tasks[0], "half", {1: 40.0, 2: 50.0})], tasks)
    points, notes = points_of(board)
    assert [point.label for point in points] == ["ppo"]
    assert notes == ["half: left out, without a result on tales (--task draws one task)."]
    with pytest.raises(DataError, match="No system has both preference and naturalness. half: left out, without a res"):
        points_of(board, ["half"])
    with pytest.raises(DataError, match="No system has both preference and naturalness. Evaluate runs with"):
        points_of(rank([], tasks))


def test_a_task_without_naturalness_has_no_points() -> None:
    task = a_task(metrics=(LIKED,))
    board = rank(entries(task, "ppo", {1: 40.0, 2: 50.0}, naturalness=None), [task])
    with pytest.raises(DataError, match="ppo: left out, without one of the two scores"):
        points_of(board)


def test_the_board_that_ships_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("tradeoff", "-o", "x.svg")
    assert result.stdout == "x.svg\n", result.output
    texts = drawn(tmp_path / "x.svg").splitlines()
    assert {"Suite mini: mean over 7 tasks", "naturalness (score, 0–100)", "preference (score, 0–100)"} <= set(texts)
    assert {"nearest", "null", "copy", "lead", "oracle", "reference"} <= set(texts)
    assert run("tradeoff", "--task", "totto", "--system", "nearest", "-o", "y.svg").exit_code == 0
    texts = drawn(tmp_path / "y.svg").splitlines()
    assert {"ToTTo in the mini world", "nearest", "reference"} <= set(texts)
    assert "oracle" not in texts
    assert "Did you mean 'nearest'?" in refused(UnknownName, "tradeoff", "--system", "neerest", "-o", "z.svg")


def test_rows_of_this_machine_have_a_mark_of_their_own(tmp_path: Path) -> None:
    kinds = {
        (False, False): "system",
        (False, True): "local system",
        (True, False): "reference",
        (True, True): "local reference",
    }
    points = [TradeoffPoint(f"{i}", 50.0 + i, 40.0, None, None, *kind) for i, kind in enumerate(kinds)]
    draw_tradeoff(points, "A title", tmp_path / "a.svg")
    assert set(kinds.values()) <= set(drawn(tmp_path / "a.svg").splitlines())
    marks = [_mark(point, "#000000") for point in points]
    assert len({(mark.get_marker(), mark.get_markerfacecolor()) for mark in marks}) == 4
    draw_tradeoff(points[:1], "A title", tmp_path / "b.svg")
    assert not {"local system", "reference"} & set(drawn(tmp_path / "b.svg").splitlines())


def test_points_give_the_same_bytes_twice(tmp_path: Path) -> None:
    near = [
        TradeoffPoint(f"system-{i}", 50 + i / 10, 40.0, Interval(49.0, 52.0), Interval(39.0, 41.0), False)
        for i in range(9)
    ]
    for name in ("a.svg", "b.svg"):
        draw_tradeoff([*near, TradeoffPoint("oracle", 99.0, 99.0, None, None, True)], "A title", tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert all(f"system-{i}" in drawn(tmp_path / "a.svg") for i in range(9))


# --- labels ----------------------------------------------------------------------------------------------------------

ROOM = Box(0, 0, 800, 500)


def test_the_area_that_boxes_share_is_that_of_their_overlap() -> None:
    assert Box(0, 0, 4, 3).shared(Box(2, 1, 9, 9)) == 4
    assert Box(0, 0, 4, 3).shared(Box(5, 1, 9, 9)) == 0
    assert Box(0, 0, 4, 3).nearest((9, 1)) == (4, 1)


def test_a_label_stands_beside_its_point_if_there_is_room() -> None:
    assert place([(100, 100)], [(60, 12)], [], ROOM) == [Box(106, 94, 166, 106)]
    assert place([(790, 100)], [(60, 12)], [], ROOM) == [Box(724, 94, 784, 106)]
    assert leader((100, 100), Box(106, 94, 166, 106)) == []


def test_labels_of_a_crowd_cover_nothing() -> None:
    points = [(300 + 9 * (i % 4), 200 + 11 * (i // 4)) for i in range(12)]
    marks = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    placed = place(points, [(90, 12)] * 12, marks, ROOM)
    assert all(one.shared(other) == 0 for one, other in combinations(placed, 2))
    assert all(label.shared(mark) == 0 for label in placed for mark in marks)
    assert all(label.shared(ROOM) == pytest.approx(90 * 12) for label in placed)
    assert any(leader(point, label) for point, label in zip(points, placed, strict=True))


def test_where_nothing_is_free_the_least_is_covered() -> None:
    narrow = Box(0, 0, 70, 20)
    (label,) = place([(5, 10)], [(60, 12)], [Box(0, 0, 30, 20), Box(60, 0, 70, 20)], narrow)
    assert label == Box(11, 4, 71, 16)
