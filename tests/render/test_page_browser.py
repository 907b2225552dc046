"""The page in a real browser: sorting, tabs, search, theme, address, downloads, and what axe-core thinks of it."""

import csv
import json
from dataclasses import replace

import pytest
from support.boards import five
from support.browser import axe_violations, click, complaints, find, go, press, requests, script, sized, until
from support.examples import HOSTILE_TEXTS, some_examples
from support.factories import entries
from support.late import late
from support.page_boards import (
    HOSTILE,
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

from grue.leaderboard.rank import rank
from grue.records import About
from grue.render import as_examples, html
from grue.render.layout import plain_table
from grue.render.page import source
from grue.render.report import DrawnDifference, Part, as_page
from grue.render.web.embed import quantiles
from grue.stats.intervals import Interval, satterthwaite_interval

stats = late("scipy.stats")
# Chromium is another program with a clock of its own: what fails once may be its delay, and is tried again.
pytestmark = [pytest.mark.slow, pytest.mark.flaky(reruns=2)]
TABS = ["overview", "task-reviews", "task-stories", "compare", "method"]
SMALL, TRAINED = small_board(), trained_board()
ENTER, SPACE, END, RIGHT, ESCAPE = "\ue007", "\ue00d", "\ue010", "\ue014", "\ue00c"


@pytest.fixture
def opened(browser, folder):
    """Open a board's page at an address; nothing is asked for but the page, nothing is complained of.

    The page that is open already stays open, if it is of that board.
    """

    def open_page(board, address="overview", examples=None):
        if (board, examples) != getattr(browser, "shows", None):
            (folder / "mini.html").write_text(
                html.render(board, shown=["stories"] if examples else ()), encoding="utf-8"
            )
            (folder / "examples/mini").mkdir(parents=True, exist_ok=True)
            if examples is not None:
                (folder / "examples/mini/stories.js").write_text(as_examples.render(examples), encoding="utf-8")
            browser.get("about:blank")
            complaints(browser), requests(browser)
            browser.shows = (board, examples)
        browser.get((folder / "mini.html").as_uri() + f"#{address}")
        return browser

    yield open_page
    assert complaints(browser) == []
    asked = {url.partition("#")[0] for url in requests(browser) if not url.startswith(("blob:", "data:"))}
    beside = (folder / "examples/mini/stories.js").as_uri()
    assert asked <= {(folder / "mini.html").as_uri(), beside, "about:blank"}


def names(page, table, cells="row.querySelector('th').firstChild.textContent.trim()"):
    """The systems that a table shows, in its order."""
    rows = f"document.querySelectorAll(`table[data-table='{table}'] tr[data-r]`)"
    return script(page, f"return [...{rows}].filter(row => row.checkVisibility()).map(row => {cells})")


def shown_panels(page):
    return script(
        page, "return [...document.querySelectorAll('section')].filter(s => s.checkVisibility()).map(s => s.id)"
    )


def sort_state(page, table):
    heads = f"document.querySelectorAll(`table[data-table='{table}'] th[aria-sort]`)"
    return script(page, f"return [...{heads}].map(th => [th.dataset.key, th.getAttribute('aria-sort')])")


def text_of(page, selector):
    """The text that is shown of an element, with single spaces."""
    return " ".join(script(page, "return document.querySelector(arguments[0]).innerText", selector).split())


def test_tables_are_sorted_by_mouse_and_keyboard_within_their_groups(opened):
    page, rest = opened(SMALL), ["young", "partial", "oracle"]
    assert names(page, "overview") == ["nlpo", "ppo", "supervised", *rest]
    click(page, "table[data-table=overview] th[data-key=naturalness] button")
    assert names(page, "overview")[:3] == ["supervised", "nlpo", "ppo"]
    assert sort_state(page, "overview") == [["naturalness", "descending"]]
    click(page, "table[data-table=overview] th[data-key=naturalness] button")
    assert names(page, "overview")[:3] == ["ppo", "nlpo", "supervised"]
    assert names(page, "overview")[3:] == rest, "what is not known stands last in its group"
    assert sort_state(page, "overview") == [["naturalness", "ascending"]]
    page = opened(SMALL, "task-stories")
    press(page, ENTER, on='table[data-table=stories] th[data-key="m:fluent"] button')
    assert sort_state(page, "stories") == [["m:fluent", "ascending"]], "what is better low begins low"
    assert names(page, "stories")[:4] == ["supervised", "partial", "nlpo", "ppo"]
    press(page, SPACE)
    assert sort_state(page, "stories") == [["m:fluent", "descending"]]
    assert script(page, "return document.activeElement.closest('th').dataset.key") == "m:fluent"


def test_the_search_leaves_the_systems_that_have_every_word_and_says_how_many(opened):
    page = opened(SMALL)
    press(page, "PPO causal", on="#search")
    assert names(page, "overview") == ["ppo"]
    assert script(page, "return document.getElementById('said').textContent") == "1 of 6 systems"
    assert page.current_url.endswith("#overview&q=PPO+causal")


def test_metrics_are_shown_raw_or_from_0_to_100_and_explained_on_focus(opened):
    page = opened(SMALL, "task-stories")

    def cells():
        return names(page, "stories", "[...row.querySelectorAll('td')].slice(4, 6).map(c => c.textContent.trim())")[0]

    # nlpo: liked 0.61 of 0 to 1; fluent is 2000 / 45 = 44.44, and its score 100 · 20 / 44.44
    assert cells() == ["0.610", "44.44"]
    click(page, "[data-raw='0']")
    assert cells() == ["61.0", "45.0"]
    click(page, "[data-raw='1']")
    assert cells() == ["0.610", "44.44"]
    tip = "return document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent"
    script(page, "document.querySelector('table[data-table=stories] th[data-key=\"m:liked\"] button').focus()")
    assert "Higher is better" in script(page, tip) and "from 0 to 1 (liked)" in script(page, tip)
    press(page, ESCAPE)
    assert script(page, tip) == ""
    described = "document.activeElement.getAttribute('aria-describedby').split(' ')"
    told = script(page, f"return {described}.map(id => document.getElementById(id).textContent).join(' ')")
    assert "Higher is better" in told


def test_the_first_hundred_of_many_systems_are_shown_and_all_are_sorted(opened):
    page = opened(crowded_board(120, seeds=1))
    click(page, "table[data-table=overview] th[data-key=naturalness] button")
    first = names(page, "overview", "+row.cells[4].textContent")
    assert len(first) == 100
    click(page, "#panel-overview .more")
    everything = names(page, "overview", "+row.cells[4].textContent")
    assert len(everything) == 120 and everything == sorted(everything, reverse=True) and everything[:100] == first


def test_tabs_are_moved_through_by_keys_and_the_back_button(opened):
    page = opened(SMALL)
    assert shown_panels(page) == ["panel-overview"]
    press(page, RIGHT, on="#tabs [aria-selected=true]")
    assert shown_panels(page) == ["panel-task-reviews"]
    press(page, END)
    assert shown_panels(page) == ["panel-method"]
    press(page, RIGHT)
    assert shown_panels(page) == ["panel-overview"]
    page.back()
    assert until(lambda: shown_panels(page) == ["panel-method"])
    assert script(page, "return document.querySelectorAll('#tabs [tabindex=\"0\"]').length") == 1


def test_the_address_keeps_tab_sort_search_scale_theme_and_pair_over_a_reload(opened):
    page = opened(SMALL, "task-stories&sort=m:liked.up&q=p&scale=100&theme=dark&a=supervised&b=ppo")

    def seen():
        return (
            shown_panels(page),
            names(page, "stories"),
            sort_state(page, "stories"),
            script(page, "return [document.documentElement.dataset.theme, getComputedStyle(document.body).color]"),
            script(page, "return document.querySelector('[data-raw=\"0\"]').getAttribute('aria-pressed')"),
            script(page, "return ['first', 'second'].map(id => document.getElementById(id).selectedOptions[0].text)"),
        )

    page.refresh()
    before = seen()
    systems = ["partial", "supervised", "ppo", "nlpo", "young"]
    assert before[:3] == (["panel-task-stories"], systems, [["m:liked", "ascending"]])
    assert before[3][0] == "dark" and before[4] == "true" and before[5] == ["supervised", "ppo"]
    click(page, "#theme")
    assert script(page, "return document.documentElement.dataset.theme") == "light"
    click(page, "#theme")
    page.refresh()
    assert seen() == before


def test_a_systems_name_opens_its_page_and_the_back_button_closes_it(opened, refused):
    page = opened(TRAINED)
    click(page, "table[data-table=overview] tr[data-r='0'] th a")
    assert shown_panels(page)[0] == "system" and page.current_url.endswith("#system=supervised+ppo")
    assert script(page, "return document.activeElement.id") == "h-system"
    page.refresh()
    # of five seeds a tenth apart the standard error is (0.025 / 5)^0.5, and t of 4 degrees of freedom 2.776: ± 0.2
    refused.message(text_of(page, "#system"))
    links = script(page, "return [...document.querySelectorAll('#system .card a')].map(a => a.getAttribute('href'))")
    assert links == ["https://example.org/x", "../docs/log.md"]
    page.back()
    assert until(lambda: shown_panels(page) == ["panel-overview"])
    go(page, "system=nlpo&theme=dark")
    refused.message(text_of(page, "#system .spent"))
    go(page, "system=nobody")
    assert shown_panels(page) == ["panel-overview"], "no such system: the first tab"
    assert text_of(page, "#lost") == "This page has no system=nobody: the address is wrong or old."


def test_a_systems_page_says_that_a_rank_is_shared_and_gives_spreads_the_decimals_of_their_means(opened, refused):
    page = opened(SMALL, "system=nlpo")
    assert text_of(page, "#system .lead").startswith("Rank 1= among 3 ranked systems")
    # half the interval is t of 4 degrees of freedom, 2.776, times (0.625 / 5)^0.5 hundredths: ± 0.010
    refused.message(text_of(page, "#system .figures"))
    go(page, "system=supervised")
    assert text_of(page, "#system .lead").startswith("Rank 3 among 3 ranked systems")


def test_a_systems_page_names_what_its_held_out_preference_is_of(opened):
    board = another_reward(marked_board())
    for name, said in (("nlpo", "held-out 19.0 coverage"), ("done", "held-out 11.0 meteor, rougeL")):
        page = opened(board, f"system={name}")
        assert said in " ".join(text_of(page, "#system .figures").split())
    go(page, "task-texts")
    for _ in range(2):  # from the lowest
        script(page, "document.querySelector('table[data-table=texts] [data-key=held_out] button').click()")
    assert names(page, "texts")[::6] == ["done §", "ppo"]


def test_a_record_that_leads_out_of_the_repository_is_no_link(opened):
    logs = ("../../etc/passwd", "/etc/passwd", "https://example.org", "javascript:alert(1)", "a/../../b")
    rows = [
        replace(
            TRAINED.rows[0], system=f"s{i}", about=replace(TRAINED.rows[0].about, link="javascript:alert(1)", log=log)
        )
        for i, log in enumerate(logs)
    ]
    page = opened(replace(TRAINED, rows=tuple(rows)))
    for i, log in enumerate(logs):
        go(page, f"system=s{i}")
        assert f"Status verified: {log}" in text_of(page, "#system .card")
        assert script(page, "return document.querySelectorAll('#system .card a').length") == 0


def test_systems_are_filtered_and_a_search_without_a_match_says_so(opened):
    page = opened(TRAINED)

    def choose(name, value):
        chosen = f"const s = document.querySelector('[name={name}]'); s.value = '{value}';"
        script(page, f"{chosen} s.dispatchEvent(new Event('change', {{bubbles: true}}))")

    choose("family", "rl-backbone")
    assert names(page, "overview") == ["nlpo"] and page.current_url.endswith("#overview&family=rl-backbone")
    choose("start", "with")
    assert names(page, "overview") == []
    assert text_of(page, "#nothing") == "No system fits RL from the backbone, supervised start. Show all"
    choose("family", "")
    assert names(page, "overview") == ["supervised+ppo", "supervised"]
    page.refresh()
    assert names(page, "overview") == ["supervised+ppo", "supervised"]
    click(page, "#clear")
    assert len(names(page, "overview")) == 6
    choose("status", "rescored")
    assert names(page, "overview") == ["null", "copy", "oracle"]
    press(page, "xyz", on="#search")
    assert text_of(page, "#nothing") == "No system fits “xyz”, rescored. Show all"
    click(page, "#nothing button")
    assert len(names(page, "overview")) == 6 and not page.current_url.endswith("xyz")


def test_what_training_took_is_shown_and_sorted_by(opened):
    page = opened(TRAINED, "task-stories")
    costs = "[...row.querySelectorAll('.cost')].filter(c => c.checkVisibility()).map(c => c.textContent)"
    assert names(page, "stories", costs)[:3] == [[], [], []]
    click(page, "[name=costs]")
    spent = [["≥ 3 k", "≥ 2.05 k", "≥ 90 s"], ["6 k", "4.1 k", "3 min"], ["≥ 3 k", "≥ 0", "≥ 90 s"]]
    assert names(page, "stories", costs)[:3] == spent
    click(page, "th[data-key='c:calls'] button")
    assert names(page, "stories")[:3] == ["supervised", "supervised+ppo", "nlpo"]
    assert page.current_url.endswith("#task-stories&sort=c%3Acalls.up&costs=1")
    page.refresh()
    assert names(page, "stories")[:3] == ["supervised", "supervised+ppo", "nlpo"]


def articles(page):
    return script(page, "return [...document.querySelectorAll('article h3 a')].map(a => a.textContent)")


def test_examples_stand_side_by_side_and_are_found_sorted_and_chosen(opened):
    page = opened(SMALL, "examples", some_examples())
    assert until(lambda: articles(page)) == [f"stories-{i}" for i in range(11, 1, -1)], "ten, the most different first"
    assert text_of(page, "article .written") == (
        "nlpo seed 1 nlpo wrote 11 meteor 0.24 ppo seed 1 ppo wrote 11 meteor 0.50 · cut off at the length limit"
    )
    assert "Tell story 11." in text_of(page, "article .given") and "2 references" in text_of(page, "article .given")
    click(page, "#further")
    assert len(articles(page)) == 12
    assert script(page, "return document.activeElement.textContent") == "stories-1"
    press(page, "wrote 3", on="[name=find]")
    assert articles(page) == ["stories-3"] and "find=wrote+3" in page.current_url
    go(page, "examples&task=stories&only=differ&order=high.meteor&systems=nlpo+ppo")
    assert articles(page)[0] == "stories-11" and "stories-3" not in articles(page), "there both wrote the same"
    go(page, "examples&only=drawn&order=low.meteor&systems=nlpo")
    assert articles(page) == [f"stories-{i}" for i in (0, 2, 4, 6, 8, 10)]
    click(page, "#outputs input[value=oracle]")
    assert "oracle seed 0 no text" in text_of(page, "article .written") and "systems=nlpo+oracle" in page.current_url
    click(page, "article h3 a")
    assert page.current_url.endswith("example=stories-0") and articles(page) == ["stories-0"]
    page.refresh()
    assert until(lambda: articles(page)) == ["stories-0"] and "oracle seed 0" in text_of(page, "article .written")
    page.back()
    assert until(lambda: len(articles(page)) == 6)
    go(page, "examples&find=nowhere")
    assert articles(page) == [] and text_of(page, "#count").startswith("No example fits; of 1,000")
    assert axe_violations(page) == []


def test_a_hostile_text_is_text(opened):
    shown = [replace(some_examples(text).examples[i], difference=1 - i / 10) for i, text in enumerate(HOSTILE_TEXTS)]
    page = opened(SMALL, "examples", replace(some_examples(), examples=tuple(shown)))
    assert until(lambda: len(articles(page))) == len(HOSTILE_TEXTS)
    written = "[...document.querySelectorAll('article .written')].map(a => a.querySelector('.text').textContent)"
    assert script(page, f"return {written}") == [as_examples.printable_lines(text)[:2000] for text in HOSTILE_TEXTS]
    told = script(page, "return [...document.querySelectorAll('article')].map(a => a.innerText)")
    assert ["the first 2,000 of 5,000 characters" in text for text in told] == [len(t) == 5000 for t in HOSTILE_TEXTS]
    assert script(page, "return document.querySelectorAll('article img, article script').length") == 0


def test_examples_of_another_version_of_the_task_are_not_shown(opened):
    page = opened(SMALL, "examples", replace(some_examples(), hash="0" * 64))
    said = "examples/mini/stories.js is not beside this page, or is of another version of the task."
    assert until(lambda: text_of(page, "#count") == said) and articles(page) == []


def test_the_scripts_statistics_are_scipys_and_ours(opened):
    page, degrees = opened(empty_board()), (1.0, 1.01, 1.7, 2.0, 4.0, 7.9, 28.0, 250.0, 4000.0)
    script_of = source("statistics.js")
    each = f"{script_of}; return arguments[1].map((d) => studentQuantile(arguments[0], 1 / d))"
    found = script(page, each, quantiles(0.95), degrees)
    assert found == pytest.approx([stats.t.ppf(0.975, d) for d in degrees], rel=5e-4)
    a = {"x": [50.0, 52.0, 51.5, 49.0, 50.5], "y": [30.0, 33.0, 31.0]}
    b = {"x": [47.0, 48.0, 49.5], "y": [30.5, 29.0, 30.0, 31.0]}
    pairs = [{"a": a[task], "b": b[task]} for task in a]
    found = script(page, f"{script_of}; return difference(arguments[0], arguments[1])", pairs, quantiles(0.95))
    # The mean of the differences is twice the mean over four samples, those of b with their signs turned round.
    samples = {f"a {task}": values for task, values in a.items()} | {f"b {task}": [-v for v in b[task]] for task in b}
    interval = satterthwaite_interval(samples)
    assert found["value"] == pytest.approx(interval.low + interval.high)
    assert found["half"] == pytest.approx(2 * interval.half_width, rel=5e-4)


def test_two_systems_are_compared_task_by_task(opened):
    page = opened(SMALL, "compare&a=ppo&b=supervised")
    # 8 seeds' degrees of freedom a system: 4 samples of variance 0.625, each over 5 seeds and 2 tasks, t of 16 is 2.120
    half = 2.120 * (4 * 0.625 / 5 / 4) ** 0.5
    assert text_of(page, "#verdict") == (
        f"ppo is preferred: ppo − supervised is +20.5 (+{20.5 - half:.1f} to +{20.5 + half:.1f}) in preference on the "
        "mean over tasks. In naturalness it is the other way round: −25.0 (−25.0 to −25.0), by this interval alone."
    )
    rows = script(page, "return [...document.querySelectorAll('#differences tbody th')].map(th => th.textContent)")
    assert rows == ["Mean over tasks", "reviews", "stories"]
    click(page, "#swap")
    assert page.current_url.endswith("#compare&a=supervised&b=ppo")
    assert "supervised − ppo is −20.5" in text_of(page, "#verdict")
    go(page, "compare&a=ppo&b=partial")
    # of 59.5, 60, ... and of 31, 32, ... the variances of the means are 0.125 and 0.5
    half = stats.t.ppf(0.975, 0.625**2 / ((0.125**2 + 0.5**2) / 4)) * 0.625**0.5
    assert text_of(page, "#verdict") == (
        f"ppo is preferred: ppo − partial is +27.5 (+{27.5 - half:.1f} to +{27.5 + half:.1f}) in preference on stories. "
        "This is by the interval of this pair alone: the board does not rank both. In naturalness it is the other way "
        "round: −20.0 (−20.0 to −20.0), by this interval alone."
    )


def test_the_verdict_on_two_ranked_systems_is_the_boards(opened):
    """Alone, a and b differ: by 1.2, with t of 8 degrees of freedom, 2.306, times 0.5; p is 4.3 %, of three pairs 13 %."""
    means = {"a": 50.0, "between": 49.4, "b": 48.8}
    found = [entry for name, at in means.items() for entry in entries(STORIES, name, five(at, 0.5))]
    page = opened(rank(found, [STORIES]), "compare&a=a&b=b")
    assert text_of(page, "#verdict") == (
        "Too close to call: a − b is +1.20 (+0.05 to +2.35) in preference on stories. This interval alone leaves out 0, "
        "but the board, which corrects for its 3 pairs, does not tell the two apart."
    )
    go(page, "compare&a=a&b=between")
    said = "Too close to call: a − between is +0.6 (−0.6 to +1.8) in preference on stories."
    assert text_of(page, "#verdict") == said


def test_the_comparison_opens_on_two_systems_with_a_task_in_common(opened):
    """The first two share no task; two systems that depend on no seed have no interval for that reason."""
    fixed = About(deterministic=True)
    found = [*entries(REVIEWS, "a", five(50.0, 0.5)), *entries(STORIES, "b", five(40.0, 0.5))]
    found += [replace(one, about=fixed) for at in (5.0, 6.0) for one in entries(STORIES, f"at-{at:g}", {0: at})]
    page = opened(rank(found, [STORIES, REVIEWS]), "compare")
    assert text_of(page, "#verdict").startswith("b is preferred: b − at-6 is +34.0")
    rows = "return [...document.querySelectorAll('#differences tbody th')].map(th => th.textContent)"
    assert script(page, rows) == ["stories"], "nothing is to be compared on the other"
    go(page, "compare&a=at-6&b=at-5")
    said = "at-6 − at-5: +1.0 preference on stories; no interval, since neither depends on a seed."
    assert text_of(page, "#verdict") == said
    go(page, "compare&a=b&b=b")
    assert text_of(page, "#verdict") == "Choose two different systems." and script(page, rows) == []


def test_an_address_of_what_is_not_there_says_so_until_something_is_chosen(opened):
    page = opened(SMALL, "nonsense")
    assert shown_panels(page) == ["panel-overview"]
    assert text_of(page, "#lost") == "This page has no nonsense: the address is wrong or old."
    go(page, "compare&a=ppo&b=nobody&id=3")
    assert text_of(page, "#lost") == "This page has no b=nobody, no id=3: the address is wrong or old."
    go(page, "examples&task=stories")
    assert text_of(page, "#lost") == "This page has no examples, no task=stories: the address is wrong or old."
    click(page, "#tab-task-stories")
    assert text_of(page, "#lost") == ""
    script(page, "document.querySelector('.skip').click()")
    assert page.current_url.endswith("#task-stories"), "the skip link leads to no other section"


def test_one_difference_reads_alike_wherever_it_stands(opened):
    """2.7485 is 2.7; of scores rounded to hundredths it would be 2.75, and so 2.8."""
    a, b = (dict.fromkeys(range(1, 6), at) for at in (98.6785, 95.93))
    page = opened(rank([*entries(STORIES, "a", a), *entries(STORIES, "b", b)], [STORIES]), "compare")
    assert "a − b is +2.7 (" in text_of(page, "#verdict")
    assert ", 2.7 above b." in script(page, "return document.querySelector('#panel-overview .lead').textContent")


def downloaded(page, folder, form):
    path = folder / f"grue-leaderboard-mini.{form}"
    path.unlink(missing_ok=True)
    click(page, f"[data-form={form}]")
    until(lambda: path.exists() and path.stat().st_size)  # an empty file of this name comes first
    return path.read_text(encoding="utf-8")


def test_the_numbers_can_be_downloaded_and_no_spreadsheet_runs_a_name(opened, folder):
    page = opened(SMALL)
    rows = list(csv.DictReader(downloaded(page, folder, "csv").splitlines()))
    line = {"suite": "mini", "system": "ppo", "status": "rescored", "standing": "ranked", "task": "stories"}
    assert {**line, "measure": "preference", "seed": "2", "value": "60"} in rows
    assert [r["value"] for r in rows if {**line, "measure": "liked"}.items() <= r.items()] == ["0.605"]
    stories = json.loads(downloaded(page, folder, "json"))["systems"][1]["tasks"]["stories"]
    assert stories["preference"] == [59.5, 60, 60.5, 61, 61.5]
    assert stories["metrics"]["fluent"] == pytest.approx(66.67)
    assert downloaded(page, folder, "bib").startswith("@inproceedings{ramamurthy2023,")
    page = opened(hostile_board('=cmd|" /C calc"!A0'))
    rows = csv.DictReader(downloaded(page, folder, "csv").splitlines())
    assert {row["system"] for row in rows} == {'\'=cmd|" /C calc"!A0'}


@pytest.mark.parametrize(
    ("board", "addresses"),
    [
        (SMALL, ["overview", "task-stories", "compare", "method"]),
        (TRAINED, ["system=supervised+ppo", "examples", "overview&costs=1", "overview&q=nobody"]),
    ],
    ids=["small", "trained"],
)
def test_axe_finds_nothing_serious(opened, board, addresses):
    """In the dark only the colours are others."""
    for address in addresses:
        page = opened(board, address, some_examples())
        assert shown_panels(page)[0] in (f"panel-{address.partition('&')[0]}", "system")
        assert axe_violations(page) == []
        go(page, f"{address}&theme=dark")
        assert axe_violations(page, "color-contrast") == []


@pytest.fixture
def resized(opened):
    """Open a page on a screen of some width."""
    used = []

    def open_sized(width, *arguments):
        page = opened(*arguments)
        sized(page, width)
        used.append(page)
        page.refresh()
        return page

    yield open_sized
    for page in used:
        sized(page, None)


@pytest.mark.parametrize("width", [400, 800])
def test_a_phone_sees_no_sideways_scrolling_but_in_tables(resized, width):
    page = resized(width, TRAINED, "overview", some_examples("x" * 5_000))
    script(page, "document.querySelectorAll('details').forEach(d => d.open = true)")
    for view in ("overview&costs=1", "task-stories", "examples", "compare", "method", "system=supervised+ppo"):
        go(page, view)
        assert script(page, "return document.documentElement.scrollWidth") <= width, view


def test_no_tab_is_hidden_and_no_table_runs_over_the_edge(resized):
    for width in (1241, 1280, 1421, 1600):
        page = resized(width, crowded_board(6), "task-cnn_dailymail")
        hidden = "const s = document.getElementById('tabs'); return s.scrollWidth - s.clientWidth"
        assert script(page, hidden) <= 0
        go(page, "overview")
        beyond = (
            "const table = document.querySelector('#panel-overview table'), box = table.parentElement;"
            "const isCut = getComputedStyle(box).overflowX !== 'visible';"
            "return isCut ? 0 : table.getBoundingClientRect().right - box.getBoundingClientRect().right"
        )
        assert script(page, beyond) <= 0


def test_training_cost_comes_into_view_on_a_phone(resized):
    page = resized(400, TRAINED, "overview")
    click(page, "[name=costs]")
    seen = "const r = document.querySelector('#panel-overview th[data-key=\"c:seconds\"]').getBoundingClientRect();"
    assert script(page, f"{seen} return r.right <= innerWidth")


def test_headings_stay_whole_words_over_their_columns_on_a_phone(resized):
    page = resized(400, crowded_board(6), "overview")
    box = "document.querySelector('#panel-overview .scroll')"
    script(page, f"{box}.scrollLeft = 100")
    seen = (
        f"const box = {box}, heads = [...box.querySelectorAll('thead th')].filter(th => th.checkVisibility());"
        "const [rank, system, ...rest] = heads.map(th => th.getBoundingClientRect());"
        "const under = document.elementFromPoint(rank.left + 8, rank.bottom - 8);"
        "return [heads[0].contains(under), rest.every(r => r.right <= system.right + 2 || r.left >= system.right - 2)]"
    )
    assert until(lambda: script(page, seen) == [True, True])


def test_a_table_fades_at_the_edge_until_it_is_scrolled_to_its_end(resized):
    page = resized(390, SMALL, "task-stories")
    mask = "return getComputedStyle(document.querySelector('#panel-task-stories .scroll')).maskImage"
    assert "gradient" in script(page, mask)
    script(page, "document.querySelector('#panel-task-stories .scroll').scrollLeft = 9999")
    assert until(lambda: script(page, mask) == "none")


@pytest.mark.parametrize("width", [320, 400, 700, 1400])
def test_labels_do_not_meet_as_the_browser_draws_them(resized, width):
    """On a phone a plot has the width that is there, and the size of its letters."""
    page = resized(width, crowded_board(12), "overview")
    letters = (
        "const svg = document.querySelector('#panel-overview .plot svg'), box = svg.getBoundingClientRect();"
        "const scale = box.width / svg.viewBox.baseVal.width, plot = svg.parentElement;"
        "const texts = [...svg.querySelectorAll('text')].filter(text => text.checkVisibility());"
        "const isInside = (t) => { const b = t.getBoundingClientRect(); return b.left > box.left - 2 && b.right < box.right + 2; };"
        "return [texts.every(text => parseFloat(getComputedStyle(text).fontSize) * scale >= 11), texts.every(isInside),"
        " plot.scrollWidth <= plot.clientWidth, texts.filter(text => text.dataset.r).length > 5]"
    )
    assert script(page, letters) == [True, True, True, True]
    meeting = script(
        page,
        "const texts = [...document.querySelectorAll('#panel-overview .plot text[data-r]')].filter(t => t.checkVisibility());"
        "const boxes = texts.map(t => t.getBBox());"
        "return boxes.flatMap((a, i) => boxes.slice(0, i).filter(b => a.x < b.x + b.width && b.x < a.x + a.width"
        " && a.y + 3 < b.y + b.height && b.y + 3 < a.y + a.height)).length",
    )
    assert meeting == 0


def test_a_hostile_name_runs_nothing(opened):
    page, shown = opened(hostile_board()), HOSTILE.replace("\u202e", "�")
    assert names(page, "overview") == [shown]
    click(page, *(f"#tab-{tab}" for tab in TABS), "#tab-overview", "table[data-table=overview] tr[data-r] th a")
    assert script(page, "return document.querySelector('#h-system').firstChild.textContent") == shown
    page.refresh()
    assert shown_panels(page)[0] == "system"
    assert script(page, "return document.scripts.length") == 2


def test_without_javascript_every_section_is_there(browser, folder):
    path = folder / "plain.html"
    path.write_text(html.render(SMALL), encoding="utf-8")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get("about:blank")
        browser.shows = None
        browser.get(path.as_uri() + "#task-stories")
        assert shown_panels(browser) == TABS
        assert names(browser, "overview")[0] == "nlpo"
        assert not find(browser, "#tools").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_report_of_a_comparison_shows_every_column_where_there_is_room(browser, folder):
    names = ("supervised-mymodel+best-of-8", "supervised+rank_grpo-mymodel")
    heads = ("A", "B", "A − B", "95 % interval", "test", "p", "p, signs", "Holm p", "decided")
    row = (*names, "+12.3", "[+10.3, +14.3]", "paired", "0.001", "0.250", "0.014", "yes")
    table = plain_table(heads, [row] * 3, left=(0, 1))
    drawn = [DrawnDifference(12.3, Interval(10.3, 14.3), True)] * 3
    parts = [Part(items=("better " * 40,), lines=("word " * 80,)), Part("Every two", table=table, drawn=drawn)]
    path = folder / "report.html"
    path.write_text(as_page("Comparison on mini: " + "task, " * 12, parts, "board.html"), encoding="utf-8")
    browser.shows = None
    try:
        for width, hidden in ((2400, False), (1400, False), (900, False), (400, True)):
            sized(browser, width)
            browser.get(path.as_uri())
            over = "const box = document.querySelector('.wide'); return box.scrollWidth > box.clientWidth"
            assert script(browser, over) == hidden, width
            assert not script(browser, "return document.documentElement.scrollWidth > innerWidth"), width
            assert axe_violations(browser) == []
    finally:
        sized(browser, None)
