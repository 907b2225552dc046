"""Plots: what is read from logs and boards, what stands in the pictures, and what bad input is told."""

import re
import struct
import sys
from dataclasses import replace

import pytest
from support.boards import JOKES, STORIES, references
from support.commands import grue
from support.factories import entries
from support.late import late

from grue import files
from grue.errors import ConfigError, DataError, Unavailable, UnknownName
from grue.leaderboard.rank import rank
from grue.plots.curves import Curve, panels_of, read_figures, read_logs
from grue.plots.tradeoff import TradeoffPoint, points_of
from grue.stats.intervals import Interval

drawing = late("grue.plots.drawing")
REWARD, KL, PREFERENCE = "objective/reward", "validation/kl", "validation/preference"


def write_run(task, system, seed, lines):
    """Write the log of a run below a task's folder; returns its path."""
    path = task / system / f"seed-{seed}" / "train.jsonl"
    files.write_jsonl(path, lines)
    return path


def a_log(rewards, preference=40.0, **more):
    """A run's log: a validation before and after, an update for every reward, and the last line."""
    return [
        {"update": 0, PREFERENCE: 10.0},
        *({"update": i, "seconds": 1.0, REWARD: value, KL: i / 2, **more} for i, value in enumerate(rewards, start=1)),
        {"update": len(rewards), PREFERENCE: preference},
        {"finished": True, "training": {"seconds": 9.0}},
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of mini CommonGen: PPO and NLPO with two seeds, supervised training, and a baseline."""
    folder = tmp_path_factory.mktemp("runs")
    task = folder / "mini" / "commongen"
    write_run(task, "ppo", 1, a_log([1.0, 2.0, 4.0], **{"mask/size": 1.0, "mask/mass": 1.0}))
    write_run(task, "ppo", 2, a_log([3.0, 6.0, 4.0], 50.0, **{"mask/size": 1.0, "mask/mass": 1.0}))
    for seed in (1, 2):
        write_run(task, "nlpo", seed, a_log([2.0], **{"mask/size": 0.1, "mask/mass": 0.9, "mask/disagreement": 0.0}))
    losses = [{"update": 1, "seconds": 1.0, "loss/total": 2.0}, {"update": 1, PREFERENCE: 30.0}]
    write_run(task, "supervised", 1, losses)
    (task / "zero-shot" / "seed-1").mkdir(parents=True)
    return folder


def plot(*arguments, **environment):
    return grue("plot", *arguments, **environment)


def drawn(path):
    """The texts of an SVG file."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


def test_a_curve_is_the_mean_of_its_seeds_with_the_lowest_and_the_highest(runs):
    logs, notes = read_logs(runs / "mini/commongen", ["ppo"])
    panels, gaps = panels_of(logs, [REWARD, PREFERENCE])
    assert panels == {
        REWARD: [Curve("ppo", (1, 2), (1, 2, 3), (2.0, 4.0, 4.0), (1.0, 2.0, 4.0), (3.0, 6.0, 4.0))],
        PREFERENCE: [Curve("ppo", (1, 2), (0, 3), (10.0, 45.0), (10.0, 40.0), (10.0, 50.0))],
    }
    assert notes == gaps == []


def test_a_curve_ends_where_its_shortest_seed_ends_and_seeds_stand_in_the_order_of_their_numbers(tmp_path):
    write_run(tmp_path, "ppo", 1, a_log([1.0, 1.0, 1.0, 1.0])[:-2])
    for seed in (10, 9):
        write_run(tmp_path, "ppo", seed, a_log([5.0, 5.0])[:-2])
    logs, _ = read_logs(tmp_path)
    assert [log.seed for log in logs] == [1, 9, 10]
    panels, notes = panels_of(logs, [REWARD])
    assert (panels[REWARD][0].updates, panels[REWARD][0].mean) == ((1, 2), (11 / 3, 11 / 3))
    assert notes == [
        "ppo: drawn up to the last update that all its seeds reached (seed 1 to 4, seed 9 to 2, seed 10 to 2)."
    ]


def test_what_is_missing_is_told(tmp_path):
    write_run(tmp_path, "ppo", 2, a_log([1.0, 2.0, 4.0]))
    (tmp_path / "ppo/seed-7").mkdir()
    (tmp_path / "zero-shot/seed-1").mkdir(parents=True)
    plain = [{"update": n, "seconds": 1.0} for n in (1, 2, 3)]
    for system in ("ppo", "supervised"):
        write_run(tmp_path, system, 8, [{"update": 0, PREFERENCE: 10.0}, *plain, {"update": 3, PREFERENCE: 20.0}])
    torn = write_run(tmp_path, "torn", 1, a_log([1.0, 2.0])[:3])
    with torn.open("a") as handle:
        handle.write('{"update": 3, "objective/rew')
    logs, notes = read_logs(tmp_path)
    assert notes == [
        "ppo, seed 7: left out, since there is no train.jsonl.",
        f"{torn}: the last line is incomplete, as after a kill, and was left out.",
        "zero-shot: left out, since only trained systems have a train.jsonl.",
    ]
    panels, notes = panels_of(logs, [REWARD, KL, PREFERENCE])
    assert notes == [
        "ppo, seed 8: has no objective/reward, validation/kl.",
        "supervised: has no objective/reward, validation/kl.",
    ]
    assert [(curve.system, curve.seeds) for curve in panels[REWARD]] == [("ppo", (2,)), ("torn", (1,))]
    assert panels[REWARD][1].updates == (1, 2)
    assert [(c.system, c.seeds) for c in panels[PREFERENCE]] == [("ppo", (2, 8)), ("supervised", (8,)), ("torn", (1,))]


def test_a_mask_that_closes_nothing_or_is_the_samplers_own_is_none(runs, tmp_path):
    figures, _ = read_figures(runs / "mini/commongen/ppo/seed-1/train.jsonl")
    assert sorted(figures) == [REWARD, "seconds", KL, PREFERENCE]
    figures, _ = read_figures(runs / "mini/commongen/nlpo/seed-1/train.jsonl")
    assert figures["mask/size"] == {1: 0.1}
    path = write_run(tmp_path, "ppo-top-k", 1, a_log([1.0], **{"mask/size": 0.02, "mask/mass": 0.9}))
    assert not any(name.startswith("mask/") for name in read_figures(path)[0])


@pytest.mark.parametrize(
    "line",
    [
        '{"update": 1, "objective/rew',
        '{"update": 1.5, "objective/reward": 1.0}',
        '{"update": 1, "seconds": 1.0, "objective/reward": "high"}',
        '{"update": 2, "seconds": 1.0}',
    ],
    ids=["cut", "half", "text", "lost"],
)
def test_a_damaged_or_lost_line_is_named(tmp_path, refused, line):
    path = tmp_path / "train.jsonl"
    path.write_text(f'{{"update": 0}}\n{line}\n{{"update": 2, "seconds": 1.0}}\n')
    with refused(DataError):
        read_figures(path)


def test_a_folder_without_runs_or_with_what_is_none_is_refused(runs, tmp_path, refused):
    folder = runs / "mini/commongen"
    with refused(UnknownName):
        read_logs(folder, ["pppo"])
    with refused(DataError):
        read_logs(tmp_path)
    for systems in (["zero-shot"], []):
        with refused(DataError):
            read_logs(folder if systems else write_run(tmp_path, "ppo", 1, []).parents[2], systems)
    (tmp_path / "ppo/seed-old").mkdir()
    with refused(DataError):
        read_logs(tmp_path)


def test_curves_are_drawn_with_words_units_and_systems(runs, tmp_path):
    """A system has one colour in all panels; options come from the environment, too, and give the same bytes."""
    output = tmp_path / "pictures" / "curves.svg"
    done = plot("curves", "--task", "commongen", "--runs", runs, "-o", output)
    assert done.stdout == f"{output}\n"
    assert done.stderr.splitlines() == [
        "zero-shot: left out, since only trained systems have a train.jsonl.",
        "supervised: has no objective/reward, validation/kl.",
    ]
    texts, svg = drawn(output), output.read_text()
    assert {"CommonGen in the mini world", "Reward", "Validation: preference", "KL from the start"} <= set(texts)
    assert {"mean of sampled sequences", "score, 0–100", "nats a response"} <= set(texts)
    assert texts.count("update") == 3
    assert texts[-4:] == [
        "Lines: mean over seeds; bands: from the lowest to the highest seed.",
        *("nlpo (2 seeds)", "ppo (2 seeds)", "supervised (1 seed)"),
    ]
    reward, preference = svg.split('<g id="axes_')[1:3]
    colours = drawing.COLOURS[:3]
    shown = [[colour in panel for colour in colours] for panel in (reward, preference)]
    assert shown == [[True, True, False], [True] * 3]
    assert "PolyCollection" in svg and "dc:date" not in svg
    plot("curves", GRUE_TASK="commongen", GRUE_RUNS=str(runs), GRUE_OUTPUT=str(tmp_path / "x.svg"))
    assert (tmp_path / "x.svg").read_text() == svg


def test_a_single_seed_has_no_band_and_what_it_did_not_log_is_told(runs, tmp_path, refused):
    asked = ("curves", "--task", "commongen", "--runs", runs, "-o", tmp_path / "x.svg", "--system", "supervised")
    said = plot(*asked).stderr.splitlines()
    assert said == ["objective/reward: no run logged it.", "validation/kl: no run logged it."]
    texts = drawn(tmp_path / "x.svg")
    assert "Validation: preference" in texts and not any("bands" in text for text in texts)
    assert "PolyCollection" not in (tmp_path / "x.svg").read_text()
    refused.command("plot", *asked, "--figure", "los/total", code=2)


def a_curve(system):
    return Curve(system, (1,), (1, 2), (0.5, 0.6), (0.5, 0.6), (0.5, 0.6))


def test_names_are_drawn_as_they_are_and_systems_without_a_curve_are_not_counted(tmp_path, refused):
    name, others = "a_$x^2$<&\x07", [f"s{i}" for i in range(22)]
    drawing.draw_curves({"mine/own": [a_curve(name)]}, [*others, name], "A title", tmp_path / "x.svg")
    texts = drawn(tmp_path / "x.svg")
    assert {"mine/own", "A title"} <= set(texts) and texts[-1] == "a_$x^2$&lt;&amp;� (1 seed)"
    assert drawing.COLOURS[0] in (tmp_path / "x.svg").read_text()
    with refused(ConfigError):
        drawing.draw_curves({REWARD: [*map(a_curve, others)]}, others, "A title", tmp_path / "y.svg")
    assert not (tmp_path / "y.svg").exists()


def test_what_cannot_be_written_or_drawn_is_named(runs, tmp_path, refused, monkeypatch):
    (tmp_path / "file").write_text("")
    curves = {REWARD: [a_curve("a")]}, ["a"], "A title"
    with refused(DataError):
        drawing.draw_curves(*curves, tmp_path / "file" / "x.svg")
    with refused(ConfigError):
        drawing.draw_curves(*curves, tmp_path / "x.gif")
    refused.command("plot", "curves", "--task", "comongen", "--runs", runs, "-o", "x.svg", code=2)
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with refused(Unavailable):
        drawing.draw_curves(*curves, tmp_path / "x.svg")


def test_a_png_is_one_of_1200_pixels_and_a_pdf_holds_letters(tmp_path):
    drawing.draw_curves({REWARD: [a_curve("a")]}, ["a"], "A title", tmp_path / "a.PNG")
    content = (tmp_path / "a.PNG").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", content[16:20]) == (1200,)
    point = TradeoffPoint("ppo", 50.0, 60.0, Interval(49.0, 51.0), Interval(59.0, 61.0), False)
    for name in ("a.pdf", "b.pdf"):
        drawing.draw_tradeoff([point], "A title", tmp_path / name)
    content = (tmp_path / "a.pdf").read_bytes()
    assert content == (tmp_path / "b.pdf").read_bytes() and content.startswith(b"%PDF-")
    assert b"/FontFile2" in content and b"CreationDate" not in content


def test_points_are_the_rows_of_the_board():
    found = [*entries(STORIES, "ppo", {1: 40.0, 2: 50.0, 3: 60.0}), *entries(STORIES, "one", {1: 30.0})]
    board = rank([*found, *references(entries(STORIES, "null", {1: 5.0}))], [STORIES])
    (ppo, *others), notes = points_of(board)
    assert (ppo.label, ppo.naturalness, ppo.preference, ppo.is_reference) == ("ppo (local)", 50.0, 50.0, False)
    assert ppo.naturalness_interval == Interval(50.0, 50.0)
    assert ppo.preference_interval.half_width == pytest.approx(4.302653 * 10 / 3**0.5, rel=1e-6)  # t with 2 degrees
    assert others == [
        TradeoffPoint("one (local)", 50.0, 30.0, None, None, False),
        TradeoffPoint("null (local)", 50.0, 5.0, None, None, True),
    ]
    assert notes == ["one (local): drawn without intervals, which need two seeds on every task."]


def test_rows_of_one_name_are_told_apart_and_rows_without_a_place_are_told(refused):
    scores = {1: 40.0, 2: 50.0}
    board = rank([*entries(STORIES, "ppo", scores), *entries(STORIES, "ppo", scores, "rescored")], [STORIES])
    assert sorted(point.label for point in points_of(board, ["ppo"])[0]) == ["ppo (local)", "ppo (rescored)"]
    with refused(UnknownName):
        points_of(board, ["pop"])
    tasks, scores = [STORIES, JOKES], {1: 40.0, 2: 50.0}
    found = entries(STORIES, "ppo", scores) + entries(JOKES, "ppo", scores, naturalness=None)
    board = rank([*found, *entries(STORIES, "half", scores)], tasks)
    points, notes = points_of(board)
    assert [point.label for point in points] == ["ppo (local)"]
    assert notes == ["half (local): left out, without a result on jokes (--task draws one task)."]
    for empty, asked in ((board, ["half"]), (rank([], tasks), []), (rank(found, [JOKES]), [])):
        with refused(DataError):
            points_of(empty, asked)


def test_the_board_that_ships_is_drawn(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    assert plot("tradeoff", "-o", "x.svg").stdout == "x.svg\n"
    texts = set(drawn(tmp_path / "x.svg"))
    assert {"Suite mini: mean over 7 tasks", "naturalness (score, 0–100)", "preference (score, 0–100)"} <= texts
    assert {"nearest", "null", "copy", "lead", "oracle"} <= texts
    plot("tradeoff", "--task", "totto", "--system", "nearest", "-o", "y.svg")
    texts = set(drawn(tmp_path / "y.svg"))
    assert {"ToTTo in the mini world", "nearest"} <= texts and "oracle" not in texts


def test_no_two_points_look_alike_and_equal_ones_give_equal_bytes(tmp_path, refused):
    spread = Interval(49.0, 52.0), Interval(39.0, 41.0)
    systems = [TradeoffPoint(f"system-{i}", 50 + i / 10, 40.0, *spread, False) for i in range(20)]
    references = [TradeoffPoint(f"reference-{i}", 50.0 + i, 60.0 + i, None, None, True) for i in range(12)]
    for name in ("a.svg", "b.svg"):
        drawing.draw_tradeoff([*systems, *references], "A title", tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert {point.label for point in (*systems, *references)} <= set(drawn(tmp_path / "a.svg"))
    marks = drawing._marks([*systems, *references])
    assert len(set(marks.values())) == 32 and {marks[point.label][0] for point in references} == {drawing.GREY}
    many = [replace(references[0], label=f"reference-{i}") for i in range(13)]
    with refused(ConfigError):
        drawing.draw_tradeoff(many, "A title", tmp_path / "c.svg")
