"""The page as text: what it holds, what it escapes, what it may load, and how large it gets."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from support.factories import entries
from support.page_boards import (
    STORIES,
    crowded_board,
    empty_board,
    hostile_board,
    small_board,
    trained_board,
    unnatural_board,
)
from support.paths import ROOT

from grue import __version__
from grue.leaderboard.rank import rank
from grue.records import Example
from grue.render import html
from grue.render.page import lean_script, lean_style
from grue.render.web.axes import axis_over
from grue.render.web.plot import PlotPoint, plot_of
from grue.render.web.view import overview, task_panel
from grue.stats.intervals import Interval
from grue.submissions.reported import read_reported

BOARDS = {
    "small": small_board,
    "empty": empty_board,
    "hostile": hostile_board,
    "unnatural": unnatural_board,
    "crowded": lambda: crowded_board(12),
}


class Reader(HTMLParser):
    """Collects the elements, and what stands in tables, of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.rows, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag in ("tbody", "table"):
            self.rows.append([])

    def handle_data(self, data):
        self.text.append(data)
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def row(self, *start):
        """The first row that begins with these cells, white space apart."""
        rows = [[" ".join(cell.split()) for cell in row] for row in self.rows if row]
        return next(row for row in rows if all(cell.startswith(s) for cell, s in zip(row, start, strict=False)))


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


@pytest.mark.parametrize("name", BOARDS)
def test_equal_boards_give_equal_bytes(name):
    assert html.render(BOARDS[name]()) == html.render(BOARDS[name]())


@pytest.mark.parametrize("name", BOARDS)
def test_nothing_is_loaded_from_anywhere(name):
    page = Reader(html.render(BOARDS[name]()))
    for tag, attributes in page.elements:
        assert not attributes.keys() & {"src", "srcset", "action", "background", "poster", "style"}, tag
        assert not any(key.startswith("on") for key in attributes), tag
        if tag == "link":
            assert attributes["rel"] == "icon" and attributes["href"].startswith("data:")
        if tag == "a":
            assert re.match(r"#|https?://|(mini|grue)\.html$|\.\./(README|docs/[a-z/-]+)\.md$", attributes["href"])
    assert not re.search(r"@import|url\((?!#)", html.render(BOARDS[name]()))


def test_the_policy_names_the_hashes_of_the_style_and_the_script_and_allows_nothing_else():
    text = html.render(small_board())
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    script = re.search(r"<script>(.*?)</script>", text, re.S)[1]
    hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (style, script)]
    policy = next(a["content"] for a in Reader(text).all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}' 'self' file:; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@pytest.mark.parametrize("name", BOARDS)
def test_every_id_is_there_once_and_whatever_points_at_an_id_finds_it(name):
    page = Reader(html.render(BOARDS[name]()))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    wanted = {a["href"][1:] for a in page.all("a") if a["href"].startswith("#")}
    wanted |= {tip for _, a in page.elements for tip in a.get("data-tip", "").split()}
    wanted |= {a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a}
    assert wanted <= set(ids)


# --- content ---------------------------------------------------------------------------------------------------------


def test_the_overview_shows_ranks_means_half_widths_and_tasks():
    # Each seed of ppo is its mean plus -1, -0.5, 0, 0.5, 1, on two tasks: the variance of the mean over tasks is
    # 2 · 0.625 / (4 · 5) = 0.0625, with 8 degrees of freedom, whose t at 97.5 % is 2.306. The difference of nlpo and
    # ppo, 0.5, has t = 0.5 / (2 · 0.0625)^0.5 = 1.41 with 16, so that they share a rank.
    page = Reader(html.render(small_board()))
    half = f"±{2.306 * 0.0625**0.5:.1f}"
    assert page.row("1=", "nlpo rescored")[2:] == [f"63.0{half}", "", "45.0", "65.0", "61.0"]
    assert page.row("1=", "ppo rescored")[2:] == [f"62.5{half}", "", "30.0", "64.5", "60.5"]
    assert page.row("3", "supervised rescored")[2:] == [f"42.0{half}", "", "55.0", "44.0", "40.0"]
    # Of young, 50, 52 and 51 twice: a variance of 2 · 1 / (4 · 3) with 4 degrees of freedom, whose t is 2.776.
    assert page.row("–", "young local preliminary, 3 seeds")[2:4] == [f"51.0±{2.776 * (1 / 6) ** 0.5:.1f}", ""]
    assert page.row("–", "partial local 1 of 2 tasks")[2:] == ["–", "", "–", "–", "33.0"]
    assert page.row("–", "oracle")[2:] == ["95.0", "", "50.0", "95.0", "95.0"]


def test_a_task_shows_its_raw_metrics_and_ranks_whoever_has_the_seeds_for_it():
    page = Reader(html.render(small_board()))
    rows = [row for row in page.rows if len(row) == 7 and row[1].strip() == "partial"]
    stories = next(row for row in rows if row[5].strip() == "0.330")
    # fluent is 2000 / naturalness of 50
    assert [cell.strip() for cell in stories] == ["4", "partial", "33.0±2.0", "", "50.0", "0.330", "40.00"]


def test_the_headline_sentence_says_who_leads_and_who_is_too_close():
    text = html.render(small_board())
    assert (
        "nlpo leads with a mean preference of 63.0, 95 % interval 62.4 to 63.6, 0.5 above ppo. Too close to call: ppo. "
        "3 ranked systems stand on 2 ranks." in text
    )
    # on one task the half width is t of 4 degrees of freedom, 2.776, times (0.625 / 5)^0.5
    assert (
        "nlpo leads with a preference of 61.0, 95 % interval 60.0 to 62.0, 0.5 above ppo. Too close to call: ppo. "
        "4 ranked systems stand on 3 ranks." in text
    )
    assert "No results yet." in html.render(empty_board())
    assert "No system is ranked yet" in html.render(unnatural_board())


def test_the_best_and_what_cannot_be_told_from_it_are_marked():
    text = html.render(small_board())
    overview = text[text.index('<table class=board data-table="overview"') : text.index('<ul class="legend"')]
    assert sorted(re.findall(r'best">([\d.]+)', overview)) == ["60.5", "61.0", "64.5", "65.0"]


def shades_of(**means):
    """The shades of systems with these means on one task, in the board's order."""
    found = []
    for name, at in means.items():
        values = {seed: at + step for seed, step in enumerate((-1.0, -0.5, 0.0, 0.5, 1.0), start=1)}
        found += entries(STORIES, name, values if name != "few" else {1: at})
    column = [row.values[0] for group in overview(rank(found, [STORIES])).groups for row in group.lines]
    return [(value.text, value.shade) for value in column]


def test_shades_show_no_more_than_there_is():
    assert shades_of(a=60.0, b=50.0) == [("60.0", "h6"), ("50.0", "h0")]
    assert shades_of(a=54.9, b=54.9) == [("54.9", "h0"), ("54.9", "h0")]
    assert shades_of(a=54.95, b=54.45) == [("55.0", "h3"), ("54.5", "h0")], "half a point is half of the least scale"
    assert shades_of(a=60.0, few=50.0) == [("60.0", ""), ("50.0", "")], "one system alone is ranked"


def test_reported_figures_stand_in_tables_of_their_own_with_their_footnotes():
    text = html.render(small_board())
    page = Reader(text)
    assert page.row("PPO", "liked")[3:] == ["0.5± 0.01", "–"]
    ours = [table for table in re.findall(r"<table.*?</table>", text, re.S) if "data-table" in table]
    assert len(ours) == 3 and not any("PPO" in table for table in ours)
    assert "Counted on &lt;another&gt; set." in text and "test split, seeds not stated" in text


def test_the_overview_sums_up_what_the_paper_prints():
    reported = read_reported(ROOT / "submissions", "grue")
    tasks = tuple(replace(small_board().tasks[0], name=name) for name in ("dailydialog", "totto"))
    board = replace(empty_board(), suite="grue", tasks=tasks, reported=reported)
    (table,) = re.findall(r'<table class="paper sums">.*?</table>', html.render(board), re.S)
    rows = re.findall(r"<tr><th>([^<]+)<td>([^<\n]+)<td>([^<\n]+)", table)
    assert ("PPO", "34.8", "25.3") in rows  # (.221 + .474) / 2 and, with METEOR + PARENT, (.161 + .345) / 2
    assert ("Zero-Shot", "30.9", "7.6") in rows  # (.191 + .427) / 2 and (.036 + .116) / 2


def test_the_embedded_numbers_are_those_of_the_board():
    board = small_board()
    data = data_of(html.render(board))
    assert [system["system"] for system in data["systems"]] == [row.system for row in board.rows]
    first = data["systems"][0]
    assert "seeds" not in first and data["systems"][3]["seeds"] == [1, 2, 3] and first["rank"] == 1
    assert first["cells"] == [
        [1, [6400, 6450, 6500, 6550, 6600], [4500] * 5],
        [1, [6000, 6050, 6100, 6150, 6200], [4500] * 5],
    ]


@pytest.mark.parametrize("name", ["empty", "unnatural"])
def test_boards_with_little_on_them_have_every_section(name):
    page = Reader(html.render(BOARDS[name]()))
    sections = [attributes["id"] for attributes in page.all("section")]
    assert (
        sections[0] == "overview"
        and sections[-4:] == ["examples", "compare", "method", "system"]
        and "task-stories" in sections
    )


def test_a_board_without_intervals_and_one_on_the_papers_scale_say_so():
    rows = tuple(replace(row, interval=None, rank=None, task_ranks={}) for row in small_board().rows)
    plain = replace(small_board(), interval_kind="none", rows=rows)
    assert "made without intervals" in html.render(plain)
    assert "plain means of raw metrics" in html.render(replace(small_board(), scoring="paper"))


def test_a_task_is_explained_with_an_example_and_its_decoding():
    example = Example("1", "Tell <me> a story." + " And on." * 200, ("Once\u202e upon.", "Other."))
    board = small_board()
    text = html.render(board, {"stories": example}, ["stories"])
    page = Reader(text)
    task = text[text.index('<section id="task-stories"') : text.index('<section id="examples"')]
    assert "Tell &lt;me&gt; a story." in task and "Once� upon." in task and "Other." not in task
    assert len(re.search(r"<dt>Prompt<dd>(.*?)<dt>", task, re.S)[1]) < 730
    assert f"Texts are drawn by {board.tasks[1].decoding}." in task
    assert 'href="#examples&amp;task=stories"' in task and "#examples&amp;task=reviews" not in text
    assert "Prompt" not in text[text.index('<section id="task-reviews"') : text.index('<section id="task-stories"')]
    assert not page.all("img")


def test_the_head_says_what_the_page_was_made_from():
    text = html.render(trained_board())
    assert f"Made by grue {__version__} from 18 results of 6 systems." in text
    assert "The results were made by grue 0, 0.1.0 (09d6de5)" in text
    assert f"Made by grue {__version__}." in html.render(empty_board())


def test_a_suite_without_rows_opens_with_what_papers_report():
    reported = read_reported(ROOT / "submissions", "grue")
    tasks = tuple(replace(small_board().tasks[0], name=name) for name in ("dailydialog", "totto"))
    text = html.render(replace(empty_board(), suite="grue", tasks=tasks, reported=reported))
    overview = text[text.index('<section id="overview"') : text.index('<section id="task-dailydialog"')]
    assert overview.index('<table class="paper sums">') < overview.index("There are no results of the suite grue yet.")
    assert "What papers report on the tasks of this suite. No system has been submitted yet." in overview
    assert "no system has been submitted." in text[text.index('<section id="examples"') :]
    assert text.count('href="../docs/how-to/submitting.md"') == 4  # the head, the overview and both tasks


def test_what_training_took_is_embedded_by_task_and_row():
    data = data_of(html.render(trained_board()))
    names = [system["system"] for system in data["systems"]]
    spent = dict(zip(names, data["spent"][0], strict=True))
    # tokens are 1000 · (1 + 2 + 3 + 4 + 5); of the episodes of supervised+ppo, 8000 are its start's
    assert spent["supervised+ppo"] == [15_000, 5 * 2048, 450, 16, 1_417_600]
    assert spent["supervised"] == [15_000, 0, 450, 16, 1_417_600]
    assert spent["nlpo"] == [15_000, 5 * 4096, 450, [16, 16, 16, 0, 0], 1_417_600]
    assert spent["oracle"] == 0
    assert data_of(html.render(small_board()))["spent"] == [[], []]
    board = trained_board()
    (row,) = (row for row in board.rows if row.system == "supervised+ppo")
    stated = {"prompts": dict.fromkeys(range(1, 6), 2048.0), "steps": {1: 64.0, 2: 64.0}}
    cell = replace(row.cells["stories"], training={**row.cells["stories"].training, **stated})
    rows = tuple(replace(row, cells={"stories": cell}) if one is row else one for one in board.rows)
    spent = dict(zip(names, data_of(html.render(replace(board, rows=rows)))["spent"][0], strict=True))
    assert spent["supervised+ppo"] == [15_000, 5 * 2048, 450, 16, 1_417_600, 10_240, None, [128, 2]]
    families = [system["family"] for system in data["systems"]]
    assert dict(zip(names, families, strict=True)) == {
        **{"supervised": "supervised", "supervised+ppo": "rl-supervised", "nlpo": "rl-backbone"},
        **dict.fromkeys(("null", "copy", "oracle"), "reference"),
    }


def test_what_whole_runs_took_is_embedded_where_it_is_known():
    """supervised+ppo states its last update: of seed 5, which kept update 8, half of the calls and no seconds."""
    board = trained_board()
    (row,) = (row for row in board.rows if row.system == "supervised+ppo")
    cell = row.cells["stories"]
    seeds = range(1, 6)
    training = {
        "tokens": dict.fromkeys(seeds, 1000.0),
        "seconds": dict.fromkeys(seeds, 90.0),
        "reward_calls": {**dict.fromkeys(seeds, 2048.0), 5: 1024.0},
    }
    changes = {
        "training": training,
        "updates": {**dict.fromkeys(seeds, 16), 5: 8},
        "last_updates": dict.fromkeys(seeds, 16),
        "whole": {"tokens": {5: 2000.0}},
    }
    rows = tuple(replace(one, cells={"stories": replace(cell, **changes)}) if one is row else one for one in board.rows)
    data = data_of(html.render(replace(board, rows=rows)))
    names = [system["system"] for system in data["systems"]]
    whole = dict(zip(names, data["whole"][0], strict=True))
    assert whole["supervised+ppo"] == [5 * 2048, 4 * 1000 + 2000]
    assert whole["supervised"] == [0], "it asked no reward"
    assert whole["nlpo"] == [5 * 4096, 2 * 15_000, 5 * 180] and whole["oracle"] == 0
    assert data_of(html.render(small_board()))["whole"] == [[], []]


def pairs_of(names, rows):
    """The pairs of names that are set in rows of hexadecimal digits."""
    bits = [f"{int(digits, 16):0{4 * len(digits)}b}" if digits else "" for digits in rows]
    return {(names[i], names[j]) for i, row in enumerate(bits) for j, bit in enumerate(row) if bit == "1"}


def test_pairs_of_systems_are_embedded_as_bits():
    board = trained_board()
    data = data_of(html.render(board))
    names = [system["system"] for system in data["systems"]]
    pairs = pairs_of(names, data["pairs"][0])
    assert pairs == {("supervised", "supervised+ppo"), ("supervised+ppo", "supervised")}
    assert data_of(html.render(small_board()))["pairs"] == [[], []]


def test_whom_the_ranks_tell_apart_is_embedded_as_bits():
    data = data_of(html.render(small_board()))
    names = [system["system"] for system in data["systems"]]
    assert pairs_of(names, data["apart"]) == {
        *(("nlpo", "supervised"), ("ppo", "supervised"), ("supervised", "nlpo"), ("supervised", "ppo"))
    }
    assert data_of(html.render(empty_board()))["apart"] == data_of(html.render(unnatural_board()))["apart"] == []


def test_our_own_script_and_style_lose_spaces_and_comments_alone():
    source = '// a\n  const a = b ? "c ? d" : `e + ${f + `g = h`} i`;\n  x = y / z;\n  s.split(/ = /);\n'
    assert lean_script(source) == ('const a=b?"c ? d":`e + ${f + `g = h`} i`;\nx=y/z;\ns.split(/ = /);')
    assert lean_style("/* a */\n  p { color: red; margin: 0 1px; }\n  a :hover, b { x: calc(1px + 2px); }") == (
        "p{color:red;margin:0 1px;}\na :hover,b{x:calc(1px + 2px);}"
    )


# --- hostile names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "<!--<script>", "{{ 7*7 }}", "a\u202eb"],
)
def test_a_name_can_be_nothing_but_a_name(name):
    text = html.render(hostile_board(name))
    page = Reader(text)
    assert len(page.all("script")) == 2 and not page.all("img")
    assert text.count("<!--") == 0 and "javascript:" not in text and "\u202e" not in text
    shown = name.replace("\u202e", "�")
    assert data_of(text)["systems"][0]["system"] == shown
    assert shown in "".join(page.text)


def test_a_long_name_is_shortened_in_the_plot_alone():
    name = "x" * 300
    text = html.render(hostile_board(name))
    plots = "".join(re.findall(r"<figure.*?</figure>", text, re.S))
    assert f">{'x' * 25}…</text>" in plots and f"<th>{name}" in text


# --- marks -----------------------------------------------------------------------------------------------------------


def test_an_axis_holds_its_values_between_round_ticks():
    axis = axis_over([41.2, 58.9], 0, 100)
    assert (axis.low, axis.high) == (40.0, 60.0)
    assert [label for _, label in axis.ticks] == ["40", "45", "50", "55", "60"]
    assert axis.place(50) == 50.0 and axis.place(1000) == 100.0
    assert axis_over([0.42, 0.44], 0, 100).ticks[0] == (0.0, "0.420")
    one = axis_over([7.0], 0, 100)
    assert one.low <= 7.0 <= one.high and one.low < one.high


def test_a_system_alone_is_drawn_among_the_references():
    """With a second one, the axes zoom in on what competes."""
    references = [PlotPoint(i, f"floor-{i}", "reference", 20.0 + i, 30.0, None, None) for i in range(2)]
    alone = PlotPoint(2, "ours", "ranked", 60.0, 70.0, Interval(59.5, 60.5), None)
    plot = plot_of([alone, *references])
    assert plot.x.holds(20.0) and plot.x.holds(60.5) and plot.y.holds(30.0)
    other = PlotPoint(3, "theirs", "ranked", 61.0, 71.0, None, None)
    assert not plot_of([alone, other, *references]).x.holds(20.0)


def test_references_outside_are_arrows_with_their_position():
    ours = [PlotPoint(i, f"ours-{i}", "ranked", 60.0 + i, 70.0 + i, None, None) for i in range(3)]
    far = [
        PlotPoint(3, "null", "reference", 5.0, 6.0, None, None),
        PlotPoint(4, "copy", "reference", 9.0, 8.0, None, None),
    ]
    right = PlotPoint(5, "oracle", "reference", 99.0, 71.0, None, None)
    plot = plot_of([*ours, *far, right])
    texts = {label.text: label for label in plot.labels}
    assert {"null (5, 6)", "copy (9, 8)", "oracle (99, 71)", "ours-0"} <= set(texts)
    assert plot.beyond == 3 and len(plot.outside) == 2, "one arrow towards those beyond the same corner"
    assert texts["null (5, 6)"].y != texts["copy (9, 8)"].y and texts["oracle (99, 71)"].anchor == "end"
    assert {mark.index for marks in plot.marks.values() for mark in marks} == {0, 1, 2}
    whole = plot_of([*ours, *far, right], zoomed=False)
    assert whole.beyond == 0 and not whole.outside and whole.x.holds(5.0) and whole.x.holds(99.0)
    text = html.render(trained_board())
    assert text.count("With every reference on the axes") == 2  # the overview and its only task


def test_a_label_has_its_points_colour_and_stands_nearer_to_it_than_to_any_other():
    """Beyond the end of the wide interval of "start" there is room, but that is far from its point."""
    wide = PlotPoint(0, "start", "ranked", 50.0, 60.0, Interval(45.0, 55.0), None, 3)
    others = [
        PlotPoint(i, f"other-{i}", "ranked", 70.0, 60.0 + 4 * side, None, None, i) for i, side in ((1, -1), (2, 1))
    ]
    far = PlotPoint(3, "floor", "reference", 41.0, 58.0, None, None)
    plot = plot_of([wide, *others, far])
    labels = {label.text: label for label in plot.labels}
    assert [labels[name].colour for name in ("start", "other-1", "other-2", "floor")] == [3, 1, 2, None]
    assert abs(labels["start"].x - plot.x.place(50.0)) < 10 and abs(labels["start"].y - plot.y.place(60.0)) < 20
    text = html.render(trained_board())
    assert re.search(r'<text data-r=0 x=\d+ y=\d+ class="?(?:end |middle )?c0"?>supervised\+ppo</text>', text)


def test_no_axis_goes_beyond_100():
    """Of 96, 98, 100, 100 and 100 the interval ends at 101: 98.8 + 2.776 times (3.2 / 5)^0.5."""
    values = dict(enumerate((96.0, 98.0, 100.0, 100.0, 100.0), start=1))
    board = rank([*entries(STORIES, "a", values), *entries(STORIES, "b", dict.fromkeys(range(1, 6), 90.0))], [STORIES])
    assert board.rows[0].interval.high > 100
    for panel in (overview(board), task_panel(board, board.tasks[0])):
        assert (panel.ruler.axis.low, panel.ruler.axis.high) == (90.0, 100.0)
        assert panel.plot.x.high == 100.0


def test_every_explanation_of_a_cost_names_its_column():
    text = html.render(trained_board())
    for name, title in {"tokens": "Tokens", "calls": "Reward calls", "seconds": "Time"}.items():
        assert f'<span id="what-{name}"><em>{title}:</em> ' in text


def test_the_area_of_reward_hacking_is_defined_by_the_start():
    start = PlotPoint(0, "supervised", "ranked", 60.0, 70.0, None, None)
    natural = PlotPoint(1, "ppo", "ranked", 65.0, 69.5, None, None)
    hacking = PlotPoint(2, "nlpo", "ranked", 66.0, 50.0, None, None)
    floor = PlotPoint(3, "null", "reference", 90.0, 10.0, None, None)
    found = plot_of([start, natural, hacking, floor], "supervised").hacked
    assert found.words == (
        "Reward hacking: a preference above that of supervised, 60.0, and a naturalness more than 1 point below its 70.0 "
        "(shaded). In it: nlpo."
    )
    assert found.path
    near = plot_of([start, natural], "supervised")
    assert "No system is in it." in near.hacked.words
    assert bool(near.hacked.path) == (near.y.low < 69.0) and ("(shaded)" in near.hacked.words) == bool(near.hacked.path)
    assert plot_of([natural, hacking], "supervised").hacked is None


def test_labels_of_a_plot_meet_neither_each_other_nor_the_edge():
    points = [
        PlotPoint(i, f"system-{i}", "ranked", 40 + i % 3, 50 + i % 4, Interval(39 + i % 3, 41 + i % 3), None)
        for i in range(40)
    ]
    plot = plot_of(points)
    boxes = []
    for label in plot.labels:
        width = 6.6 * len(label.text)
        left = label.x - {"start": 0, "middle": width / 2, "end": width}[label.anchor]
        boxes.append((left, label.y - 11, left + width, label.y + 3))
    assert boxes and all(b[0] >= 44 and b[2] <= 720 for b in boxes)
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]


def test_forty_systems_on_seven_tasks_with_five_seeds_take_less_than_310_kilobytes():
    assert len(html.render(crowded_board(40)).encode()) <= 310_000


def test_points_that_do_not_follow_from_a_mean_of_raw_values_are_embedded():
    """Fluent counts 20 / value: of 80 and 80 / 3 that is 25 and 75, on average 50; of their mean it would be 37.5."""
    found = [
        entry
        for seed, (liked, natural) in enumerate([(40.0, 25.0), (50.0, 75.0)], start=1)
        for entry in entries(STORIES, "ppo", {seed: liked}, naturalness=natural)
    ]
    data = data_of(html.render(rank(found, [STORIES])))
    columns = [metric if isinstance(metric, str) else metric[0] for metric in data["tasks"][0]["metrics"]]
    assert data["systems"][0]["points"] == {"0": {str(columns.index("fluent")): 500}}


def test_points_of_a_clipped_range_are_embedded():
    """Liked is clipped at 1: of 0.9 and 1.4 it counts 90 and 100, of their mean it would be 100."""
    found = [entry for seed, liked in ((1, 90.0), (2, 140.0)) for entry in entries(STORIES, "ppo", {seed: liked})]
    data = data_of(html.render(rank(found, [STORIES])))
    columns = [metric if isinstance(metric, str) else metric[0] for metric in data["tasks"][0]["metrics"]]
    assert data["systems"][0]["points"]["0"][str(columns.index("liked"))] == 950
