"""The page as text: what it holds, what it escapes, what it may load, and how large it gets."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest
from support import page_boards
from support.boards import five, row
from support.factories import entries
from support.hostile_names import with_names
from support.page_boards import (
    REVIEWS,
    STORIES,
    another_reward,
    crowded_board,
    empty_board,
    hostile_board,
    marked_board,
    small_board,
    trained_board,
)
from support.paths import ROOT

from grue.leaderboard.board import Estimate
from grue.leaderboard.rank import rank
from grue.records import Example
from grue.render import html, markdown, publish
from grue.render.page import lean_script, lean_style
from grue.render.web.axes import axis_over
from grue.render.web.plot import PlotPoint, plot_of
from grue.render.web.view import overview, task_panel
from grue.stats.intervals import Interval
from grue.submissions.reported import read_reported

NAMES = ["small", "empty", "hostile", "unnatural", "trained"]
SMALL, TRAINED, EMPTY = small_board(), trained_board(), empty_board()


@cache
def page_of(name):
    """The text of the page of a board in `page_boards`."""
    return html.render(getattr(page_boards, f"{name}_board")())


class Reader(HTMLParser):
    """Collects the elements and the words of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def by_system(board, key):
    """What a page has of each system, of the first task."""
    data = data_of(html.render(board))
    return dict(zip([system["system"] for system in data["systems"]], data[key][0], strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_page_loads_nothing_and_whatever_points_at_an_id_finds_it(name):
    text = page_of(name)
    page = Reader(text)
    for tag, attributes in page.elements:
        assert not attributes.keys() & {"src", "srcset", "action", "background", "poster", "style"}, tag
        assert not any(key.startswith("on") for key in attributes), tag
        if tag == "link":
            assert attributes["rel"] == "icon" and attributes["href"].startswith("data:")
        if tag == "a":
            assert re.match(
                r"#|https?://|(mini|small|grue)\.html$|\.\./(README|docs/[a-z/-]+)\.md$", attributes["href"]
            )
    assert not re.search(r"@import|url\((?!#)", text)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    wanted = {a["href"][1:] for a in page.all("a") if a["href"].startswith("#")}
    wanted |= {tip for _, a in page.elements for tip in a.get("data-tip", "").split()}
    wanted |= {a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a}
    assert wanted <= set(ids)
    sections = [attributes["id"] for attributes in page.all("section")]
    assert sections[0] == "overview" and "task-stories" in sections
    assert sections[-3:] == ["compare", "method", "system"] and "examples" not in sections, "there are none"
    assert html.render(getattr(page_boards, f"{name}_board")()) == text, "equal boards give equal bytes"


def test_the_policy_names_the_hashes_of_the_style_and_the_script_and_allows_nothing_else():
    text = page_of("small")
    found = [re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)[1] for tag in ("style", "script")]
    style, script = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in found)
    policy = next(a["content"] for a in Reader(text).all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}' 'self' file:; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def shades_of(**means):
    """The shades of systems with these means on one task, in the board's order."""
    found = [e for n, at in means.items() for e in entries(STORIES, n, five(at, 0.5) if n != "few" else {1: at})]
    column = [line.values[0] for line in overview(rank(found, [STORIES])).lines]
    return [(value.text, value.shade) for value in column]


def test_shades_show_no_more_than_there_is():
    assert shades_of(a=60.0, b=50.0) == [("60.0", "h6"), ("50.0", "h0")]
    assert shades_of(a=54.9, b=54.9) == [("54.9", "h0"), ("54.9", "h0")]
    assert shades_of(a=54.95, b=54.45) == [("55.0", "h3"), ("54.5", "h0")], "half a point is half of the least scale"
    assert shades_of(a=60.0, few=50.0) == [("60.0", ""), ("50.0", "")], "one system alone is ranked"


def test_a_task_is_explained_with_an_example_and_its_decoding():
    example = Example("1", "Tell <me> a story." + " And on." * 200, ("Once\u202e upon.", "Other."))
    text = html.render(SMALL, {"stories": example}, ["stories"])
    reviews, task = re.split('<section id="(?:task-stories|examples)"', text)[:2]
    assert '<a href="#examples">Examples</a>' in text and '<section id="examples"' in text
    assert "Tell &lt;me&gt; a story." in task and "Once� upon." in task and "Other." not in task
    assert len(re.search(r"<dt>Prompt<dd>(.*?)<dt>", task, re.S)[1]) < 730
    assert f"Texts are drawn by {SMALL.tasks[1].decoding}." in task
    assert 'href="#examples&amp;task=stories"' in task and "#examples&amp;task=reviews" not in text
    assert "Prompt" not in reviews[reviews.index('<section id="task-reviews"') :]
    assert not Reader(text).all("img")


def test_a_suite_without_rows_opens_with_a_sum_of_what_papers_report():
    reported = read_reported(ROOT / "submissions", "grue")
    tasks = tuple(replace(SMALL.tasks[0], name=name) for name in ("dailydialog", "totto"))
    text = html.render(replace(EMPTY, suite="grue", tasks=tasks, reported=reported))
    first = text[text.index('<section id="overview"') : text.index('<section id="task-dailydialog"')]
    assert first.index('<table class="paper sums">') < first.index("There are no results of the suite grue yet.")
    assert "What papers report on the tasks of this suite. No system has been submitted yet." in first
    assert text.count('href="../docs/how-to/submitting.md"') == 4  # the head, the overview and both tasks
    (table,) = re.findall(r'<table class="paper sums">.*?</table>', text, re.S)
    rows = re.findall(r"<tr><th>([^<]+)<td>([^<\n]+)<td>([^<\n]+)", table)
    assert ("PPO", "34.8", "25.3") in rows  # (.221 + .474) / 2 and, with METEOR + PARENT, (.161 + .345) / 2
    assert ("Zero-Shot", "30.9", "7.6") in rows  # (.191 + .427) / 2 and (.036 + .116) / 2


def changed(**changes):
    """The trained board with other things said of the cell of supervised+ppo."""
    cell = replace(row(TRAINED, "supervised+ppo").cells["stories"], **changes)
    return replace(
        TRAINED,
        rows=tuple(replace(r, cells={"stories": cell}) if r.system == "supervised+ppo" else r for r in TRAINED.rows),
    )


SEEDS = (1, 2, 3, 4, 5)


def test_what_is_stated_of_training_goes_first():
    known = row(TRAINED, "supervised+ppo").cells["stories"].training
    stated = {**known, "prompts": dict.fromkeys(SEEDS, 2048.0), "steps": {1: 64.0, 2: 64.0}}
    spent = by_system(changed(training=stated), "spent")
    # tokens are 1000 · (1 + 2 + 3 + 4 + 5)
    assert spent["supervised+ppo"] == [15_000, 5 * 2048, 450, 16, 1_417_600, 10_240, None, [128, 2]]
    assert spent["nlpo"] == [15_000, 5 * 4096, 450, [16, 16, 16, 0, 0], 1_417_600]


def test_what_whole_runs_took_is_embedded_where_it_is_known():
    """supervised+ppo states its last update: of seed 5, which kept update 8, the calls and no seconds."""
    board = changed(
        training={
            "tokens": dict.fromkeys(SEEDS, 1000.0),
            "seconds": dict.fromkeys(SEEDS, 90.0),
            "reward_calls": {**dict.fromkeys(SEEDS, 2048.0), 5: 1024.0},
        },
        updates={**dict.fromkeys(SEEDS, 16), 5: 8},
        last_updates=dict.fromkeys(SEEDS, 16),
        whole={"tokens": {5: 2000.0}, "reward_calls": {5: 2048.0}},
    )
    whole = by_system(board, "whole")
    assert whole["supervised+ppo"] == [5 * 2048, 4 * 1000 + 2000]
    assert whole["nlpo"] == [5 * 4096, 2 * 15_000, 5 * 180] and whole["oracle"] == 0


def test_searched_answers_have_a_column_of_their_own_where_a_row_has_them():
    assert 'data-key="searched"' not in page_of("trained") and "what-searched" not in page_of("trained")
    page = html.render(changed(searched=Estimate(61.0, 1.6, five(61.0))))
    assert 'data-key="searched" data-tip="what-searched">Searched' in page and '<dd id="what-searched">Searched' in page
    known = {system["system"]: system.get("searched") for system in data_of(page)["systems"]}
    assert known["supervised+ppo"] == {"0": 61} and known["nlpo"] is None and "<td>61.0" in page


def test_our_own_script_and_style_lose_spaces_and_comments_alone():
    source = '// a\n  const a = b ? "c ? d" : `e + ${f + `g = h`} i`; // b\n  x = y / z;\n  s.split(/ = /);\n'
    assert lean_script(source) == ('const a=b?"c ? d":`e + ${f + `g = h`} i`;\nx=y/z;\ns.split(/ = /);')
    assert lean_style("/* a */\n  p { color: red; margin: 0 1px; }\n  a :hover, b { x: calc(1px + 2px); }") == (
        "p{color:red;margin:0 1px;}\na :hover,b{x:calc(1px + 2px);}"
    )


@pytest.mark.parametrize(
    "name",
    ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "<!--<script>", "{{ 7*7 }}", "a\u202eb"],
)
def test_a_name_can_be_nothing_but_a_name(name):
    for board in (*with_names(name), hostile_board(name)):  # of papers and in notes, too
        text = html.render(board)
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


def test_an_axis_holds_its_values_between_round_ticks():
    axis = axis_over([41.2, 58.9], 0, 100)
    assert (axis.low, axis.high) == (40.0, 60.0)
    assert [label for _, label in axis.ticks] == ["40", "45", "50", "55", "60"]
    assert axis.place(50) == 50.0 and axis.place(1000) == 100.0
    assert axis_over([0.42, 0.44], 0, 100).ticks[0] == (0.0, "0.420")
    one = axis_over([7.0], 0, 100)
    assert one.low <= 7.0 <= one.high and one.low < one.high


def point(index, name, x, y, half=None, kind="ranked", up=None, seeds=5):
    """A point with an interval of so much to either side, and up and down."""
    interval = None if half is None else Interval(x - half, x + half)
    return PlotPoint(index, name, kind, x, y, interval, Interval(y - up, y + up) if up else None, index, seeds)


def test_a_system_alone_is_drawn_among_the_references():
    """With a second one, the axes zoom in on what competes."""
    references = [point(i, f"floor-{i}", 20.0 + i, 30.0, kind="reference") for i in range(2)]
    alone = point(2, "ours", 60.0, 70.0, 0.5)
    plot = plot_of([alone, *references])
    assert plot.x.holds(20.0) and plot.x.holds(60.5) and plot.y.holds(30.0)
    assert not plot_of([alone, point(3, "theirs", 61.0, 71.0), *references]).x.holds(20.0)


def test_references_outside_are_arrows_with_their_position():
    ours = [point(i, f"ours-{i}", 60.0 + i, 70.0 + i) for i in range(3)]
    beyond = {"null": (5.0, 6.0), "copy": (9.0, 8.0), "oracle": (99.0, 71.0)}
    far = [point(i, name, *at, kind="reference") for i, (name, at) in enumerate(beyond.items(), start=3)]
    plot = plot_of([*ours, *far])
    texts = {label.text: label for label in plot.labels}
    assert {"null (5, 6)", "copy (9, 8)", "oracle (99, 71)", "ours-0"} <= set(texts)
    assert plot.beyond == 3 and len(plot.outside) == 2, "one arrow towards those beyond the same corner"
    assert texts["null (5, 6)"].y != texts["copy (9, 8)"].y and texts["oracle (99, 71)"].anchor == "end"
    assert {mark.index for marks in plot.marks.values() for mark in marks} == {0, 1, 2}
    whole = plot_of([*ours, *far], zoomed=False)
    assert whole.beyond == 0 and not whole.outside and whole.x.holds(5.0) and whole.x.holds(99.0)


def test_a_label_has_its_points_colour_and_stands_nearer_to_it_than_to_any_other():
    """Beyond the end of the wide interval of "start" there is room, but that is far from its point."""
    others = [point(1, "other-1", 70.0, 56.0), point(2, "other-2", 70.0, 64.0)]
    far = point(3, "floor", 41.0, 58.0, kind="reference")
    plot = plot_of([replace(point(0, "start", 50.0, 60.0, 5.0), colour=3), *others, far])
    labels = {label.text: label for label in plot.labels}
    assert [labels[name].colour for name in ("start", "other-1", "other-2", "floor")] == [3, 1, 2, None]
    assert abs(labels["start"].x - plot.x.place(50.0)) < 10 and abs(labels["start"].y - plot.y.place(60.0)) < 20
    label = r'<text data-r=0 x=\d+ y=\d+ class="?(?:end |middle )?c0"?>supervised\+ppo</text>'
    assert re.search(label, page_of("trained"))


def test_no_axis_goes_beyond_100():
    """Of 96, 98, 100, 100 and 100 the interval ends at 101: 98.8 + 2.776 times (3.2 / 5)^0.5."""
    values = dict(enumerate((96.0, 98.0, 100.0, 100.0, 100.0), start=1))
    board = rank([*entries(STORIES, "a", values), *entries(STORIES, "b", dict.fromkeys(range(1, 6), 90.0))], [STORIES])
    assert board.rows[0].interval.high > 100
    for panel in (overview(board), task_panel(board, board.tasks[0])):
        assert (panel.ruler.axis.low, panel.ruler.axis.high) == (90.0, 100.0)
        assert panel.plot.x.high == 100.0


def hacked(*points):
    return plot_of([point(0, "supervised", 60.0, 70.0, 1.0, up=1.0), *points], "supervised").hacked


def test_the_area_of_reward_hacking_is_defined_by_the_start():
    natural, floor = point(1, "ppo", 65.0, 72.0, 1.0, up=1.0), point(3, "null", 90.0, 10.0, kind="reference")
    found = hacked(natural, point(2, "nlpo", 66.0, 50.0, 1.0, up=1.0), floor)
    words = "Reward hacking: a preference above that of supervised, 60.0, and a naturalness more than 1 point below its 70.0"
    assert found.path and found.words == f"{words} (shaded). In it, by their intervals: nlpo."
    assert hacked(natural).words == f"{words}. No system is in it." and not hacked(natural).path
    assert plot_of([natural, floor], "supervised").hacked is None


def test_only_a_system_whose_intervals_lie_there_is_called_a_reward_hacker():
    """Its naturalness is at 67 with the border at 69: the point is in the area, the interval up to 71 is not."""
    wide = point(1, "ppo", 66.0, 67.0, 1.0, up=4.0)
    assert hacked(wide).words.endswith(
        "No system is in it for certain. Undecided, with an interval across its border: 1 system."
    )
    assert hacked(wide).inside == ()
    across = point(1, "ppo", 60.5, 50.0, 1.0, up=1.0)
    assert hacked(across).inside == (), "its preference may be the start's"
    few = point(1, "ppo", 66.0, 50.0, 1.0, up=1.0, seeds=4)
    assert hacked(few).words.endswith("(shaded)."), "of four seeds nothing is said"
    assert not hacked(few).is_judged


def test_the_overview_says_what_single_tasks_say_of_reward_hacking():
    """ppo gains 10 points on both tasks; its naturalness is 20 lower on one and 40 higher on the other."""
    found = [
        entry
        for task, natural in ((STORIES, 40.0), (REVIEWS, 80.0))
        for name, at, of in (("supervised", 40.0, 60.0), ("ppo", 50.0, natural), ("nlpo", 40.0, 60.0))
        for entry in entries(task, name, five(at, 0.5), naturalness=of)
    ]
    text = html.render(rank(found, [STORIES, REVIEWS]))
    overviews = text[: text.index('<section id="task-reviews"')]
    assert (
        "No system is in it. This is about the mean over tasks; on single tasks, in it for certain: ppo on stories."
        in overviews
    )


def test_a_cell_whose_runs_mostly_kept_their_start_is_marked():
    kept = {**dict.fromkeys((1, 2, 3), 0), 4: 8, 5: 8}
    text = html.render(changed(updates=kept))
    assert re.search(r'<td class="h6 best u">50\.3', text) and "<td class=u>50.3<i>" in text
    note = "‖ In most seeds no update was better than the start on validation: update 0 was kept"
    assert text.count(note) == 2, "below the overview and the task"
    assert note not in html.render(changed(updates={**kept, 3: 8}))


def test_the_method_tells_what_a_status_means_and_which_rows_are_ranked_without_verification():
    found = rank(
        [
            replace(entry, is_rerun=status == "reproduced" and entry.result.seed == 1)
            for name, status, at in (("old", "reproduced", 40.0), ("ppo", "verified", 50.0), ("mine", "local", 45.0))
            for entry in entries(STORIES, name, five(at, 0.5), status)
        ],
        [STORIES],
    )
    text = html.render(found)
    told = text[text.index("<dt>Trust") :]
    assert (
        "<dd>Ranked without verification: old. These rows are from before verification, and keep a rank until mini&#39;s"
        in told
    )
    assert "Predictions drawn again from checkpoints: 1 of 5 runs of each of old." in told
    assert data_of(text)["systems"][2].get("reruns") == 1
    assert "Some rows are ranked without verification" in text
    other = html.render(replace(found, suite="grue"))
    assert "without verification" not in other, "that suite has no fresh draw to verify a row on"
    assert "Ranked without verification: old." in markdown.render(found)


def test_a_local_page_says_so_and_links_to_nothing_beside_it():
    text = html.render(SMALL, is_local=True)
    page = Reader(text)
    assert "<title>Local board, suite mini</title>" in text and "<h1>Local board: mini</h1>" in text
    assert not [a["href"] for a in page.all("a") if not a["href"].startswith(("#", "https://"))]
    assert data_of(text)["published"] is False and "GRUE leaderboard" not in text
    assert publish.render(SMALL, "html") == html.render(SMALL, publish._illustrations(SMALL), is_local=True)
    assert "GRUE leaderboard" in publish.render(SMALL, "html", [])


def test_an_overview_without_means_shows_both_axes_of_the_tasks_with_results():
    """No system has results on both tasks, so that rank and means would be dashes."""
    board = rank(entries(STORIES, "partial", five(40.0, 0.5), naturalness=12.34), [STORIES, REVIEWS])
    text = html.render(board)
    table = text[text.index('data-table="overview"') : text.index("</table>")]
    assert re.findall(r'data-key="([^"]+)"', table) == ["system", "t:stories"] and "–" not in table
    assert "<td>40.0<small>12.3</small>" in table
    assert "No results yet on reviews." in text


def test_a_tasks_table_shows_status_and_seeds_of_what_is_not_ranked():
    young = entries(STORIES, "young", {1: 30.0, 2: 31.0, 3: 32.0}, "rescored")
    text = html.render(rank([*young, *entries(STORIES, "ppo", five(40.0, 0.5))], [STORIES]))
    task = text[text.index('<section id="task-stories"') :]
    assert "<th>young <b class=rescored>rescored</b> <b>3 seeds</b><td>" in task and "<th>ppo<td>" in task


def test_the_scripts_scores_are_those_of_the_results():
    """5 runs of 2.748 and 2.752 are told apart, which in hundredths they are not."""
    values = dict(enumerate((2.748, 2.752, 100.0, 0.0, 33.33333), start=1))
    data = data_of(html.render(rank(entries(STORIES, "ppo", values), [STORIES])))
    digits = base64.b64decode(data["systems"][0]["cells"][0][1])
    assert [int.from_bytes(digits[i : i + 3]) / 1e5 for i in range(0, 15, 3)] == [2.748, 2.752, 100.0, 0.0, 33.33333]


def test_labels_of_a_plot_meet_neither_each_other_nor_the_edge():
    plot = plot_of([point(i, f"system-{i}", 40 + i % 3, 50 + i % 4, 1.0) for i in range(40)])
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


def test_held_out_metrics_are_named_once_and_again_only_where_they_are_others():
    (held,) = data_of(html.render(another_reward(marked_board())))["held"]
    assert held == ["coverage", [23.0, 21.0, 19.0, 17.0, 15.0, 13.0, [11.0, "meteor, rougeL"]]]


@pytest.mark.parametrize(
    ("metric", "seeds", "counted"),
    [
        # fluent counts 20 / value: of 80 and 80 / 3 that is 25 and 75, on average 50; of their mean it would be 37.5
        ("fluent", [(40.0, 25.0), (50.0, 75.0)], {"fluent": 500}),
        # liked is clipped at 1: of 0.9 and 1.4 it counts 90 and 100, of their mean it would be 100
        ("liked", [(90.0, 50.0), (140.0, 50.0)], {"liked": 950, "fluent": 500}),
    ],
)
def test_points_that_do_not_follow_from_a_mean_of_raw_values_are_embedded(metric, seeds, counted):
    found = [e for k, (liked, at) in enumerate(seeds, 1) for e in entries(STORIES, "ppo", {k: liked}, naturalness=at)]
    data = data_of(html.render(rank(found, [STORIES])))
    columns = [one if isinstance(one, str) else one[0] for one in data["tasks"][0]["metrics"]]
    points = data["systems"][0]["points"]["0"]
    assert {columns[int(place)]: value for place, value in points.items()} == counted
