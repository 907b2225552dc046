"""A questionnaire in a real browser: answered by keys and mouse, closed in the middle, saved, loaded, analysed."""

import json
from dataclasses import replace

import pytest
from support.browser import axe_violations, click, complaints, find, press, requests, script, sized, until
from support.studies import PAIRS, a_study, outputs

from grue.api import study as api
from grue.render.questionnaire import publish
from grue.study.answers import FOLDER, read_answers

# Chromium is another program with a clock of its own: what fails once may be its delay, and is tried again.
pytestmark = [pytest.mark.slow, pytest.mark.flaky(reruns=2)]
HOSTILE = (
    "</script><script>document.title = 'owned'</script>",
    "<img src=x onerror=alert(1)>",
    "a\u202eb",
    "x" * 5000,
    "",
)
WIDE, NARROW = 1280, 360
ENTER, LEFT, RIGHT, SHIFT, NULL = "\ue007", "\ue012", "\ue014", "\ue008", "\ue000"


@pytest.fixture
def opened(browser, folder):
    """Open an annotator's page with an empty store; it asks for nothing else, and complains of nothing."""

    def open_page(key, annotator=0, fresh=True):
        page = publish(key, folder / key.study)[annotator]
        browser.get("about:blank")
        complaints(browser), requests(browser)
        browser.get(page.as_uri())
        if fresh:
            script(browser, "localStorage.clear()")
            browser.get(page.as_uri())
        return browser

    yield open_page
    assert complaints(browser) == []
    asked = [url for url in requests(browser) if not url.startswith(("blob:", "data:"))]
    assert {url.rpartition("/")[2][:10] for url in asked} <= {"annotator-"}
    sized(browser, None)


def text_of(page, selector):
    return script(page, "return document.querySelector(arguments[0]).textContent", selector)


def shown(page):
    return script(page, "return document.querySelector('main > section:not([hidden])').id")


def kept(page):
    return script(page, "return Object.values(JSON.parse(Object.values(localStorage)[0] ?? '{}'))")


def reload(page, holds):
    """Reload until something holds: Chromium writes its store in another process, and an early reload misses it."""
    assert until(lambda: page.refresh() or holds()), kept(page)


def saved(page, folder, key, selector="#save"):
    """The file that the page saves."""
    path = folder / f"answers-{key.study}-annotator-1.json"
    path.unlink(missing_ok=True)
    click(page, selector)
    assert until(lambda: path.exists() and path.stat().st_size), f"{path} was not saved"
    return path


def test_the_whole_road_by_keys_and_mouse_with_a_reload_in_the_middle(opened, folder):
    key = a_study(systems=("alpha", "beta"), items=2, annotators=2)
    page = opened(key)
    assert shown(page) == "start" and text_of(page, "#count") == "0 of 4"
    script(page, "document.getElementById('begin').focus()")
    press(page, ENTER)
    assert text_of(page, "#h-screen") == "Page 1 of 4"
    first = text_of(page, "#texts .text")
    press(page, "4", "2", ENTER)
    assert text_of(page, "#h-screen") == "Page 2 of 4" and text_of(page, "#count") == "1 of 4"
    press(page, "5", "1", LEFT)  # the focus is on the second question's first point, then on Next
    reload(page, lambda: text_of(page, "#count") == "2 of 4")
    assert text_of(page, "#begin") == "Go on"
    click(page, "#begin")
    assert text_of(page, "#h-screen") == "Page 3 of 4"
    answer = "#questions fieldset:nth-child({}) label:nth-child({})"
    click(page, answer.format(1, 3), answer.format(2, 5), "#next")
    press(page, "1", RIGHT, RIGHT, ENTER)  # arrows change the answer that has the focus
    assert shown(page) == "end" and text_of(page, "#h-end") == "All is answered. Thank you!"
    press(page, ENTER)  # nothing is pressed by chance at the end

    path = saved(page, folder, key, "#finish")
    assert text_of(page, "#said") == f"Saved as {path.name}, with 4 of 4 answered."
    found = json.loads(path.read_text())
    screens = key.annotators[0].screens
    assert first == key.items[screens[0].item].texts[screens[0].systems[0]]
    assert [answer["screen"] for answer in found["answers"]] == [screen.id for screen in screens]
    values = [answer["values"] for answer in found["answers"]]
    assert values[:3] == [{"coherence": 4, "joy": 2}, {"coherence": 5, "joy": 1}, {"coherence": 3, "joy": 5}]
    assert values[3]["coherence"] == 1 and values[3]["joy"] in (2, 3)
    assert read_answers([path], key).answers["annotator-1"][screens[0].id] == {"coherence": 4, "joy": 2}
    answers = folder / key.study / FOLDER
    answers.mkdir()
    path.rename(answers / path.name)
    analysis = api.analyse_study(folder / key.study, draws=100)
    assert [(one.done, one.asked) for one in analysis.annotators] == [(4, 4), (0, 4)]
    assert sum(one.answers for one in analysis.scales[0].systems) == 4


def test_a_question_can_be_left_open_after_a_warning_and_found_again(opened):
    page = opened(a_study(systems=("alpha",), items=2))
    click(page, "#begin")
    press(page, "3", ENTER)
    assert text_of(page, "#h-screen") == "Page 1 of 2" and "Is it fun?" in text_of(page, "#open")
    assert script(page, "return document.activeElement.name") == "joy", "the open question has the focus"
    press(page, ENTER)
    assert text_of(page, "#h-screen") == "Page 2 of 2"
    press(page, SHIFT + ENTER)
    assert text_of(page, "#h-screen") == "Page 1 of 2"
    press(page, NULL)
    click(page, "#next", "#next", "#next", "#next")
    assert text_of(page, "#h-end") == "2 of 2 are open"
    click(page, "#missing")
    assert text_of(page, "#h-screen") == "Page 1 of 2"
    assert kept(page) == [{"coherence": 3}]


def load(page, path):
    script(page, "document.getElementById('said').textContent = ''")
    field = find(page, "#file")
    script(page, "arguments[0].hidden = false", field)
    field.send_keys(str(path))


def said(page):
    return until(lambda: text_of(page, "#said"))


def test_a_saved_file_goes_on_in_another_browser_and_nothing_is_lost(opened, folder):
    key = a_study(systems=("alpha",), items=3)
    page = opened(key)
    click(page, "#begin")
    press(page, "4", "4")
    path = saved(page, folder, key)
    page = opened(key)  # an empty store, as another browser's
    load(page, path)
    assert "1 answer of the file was put together" in said(page) and text_of(page, "#count") == "1 of 3"
    reload(page, lambda: kept(page) == [{"coherence": 4, "joy": 4}])

    click(page, "#about", "#begin"), press(page, "2", "2")
    click(page, "#back"), press(page, "1", "1")
    load(page, path)
    page.switch_to.alert.dismiss()
    said(page)
    assert kept(page) == [{"coherence": 1, "joy": 1}, {"coherence": 2, "joy": 2}], "those here are kept"
    load(page, path)
    page.switch_to.alert.accept()
    said(page)
    before = [{"coherence": 4, "joy": 4}, {"coherence": 2, "joy": 2}]
    assert kept(page) == before, "those of the file are taken"

    other, wrong = json.loads(path.read_text()), folder / "wrong.json"
    for text, why in (
        ("{", "was not saved by this page"),
        (json.dumps({**other, "annotator": "annotator-2"}), "belongs to another page"),
        (json.dumps({**other, "study": "0"}), "belongs to another page"),
        ("null", "belongs to another page"),
        (json.dumps({**other, "answers": [{"screen": "x", "values": {}}]}), "does not ask for"),
        (json.dumps(other).replace('"joy": 4', '"joy": 9'), "does not ask for"),
        (json.dumps({**other, "answers": [None]}), "does not ask for"),
    ):
        wrong.write_text(text)
        load(page, wrong)
        assert why in said(page) and kept(page) == before


def test_a_second_tab_loses_nothing_of_the_first(opened):
    key = a_study(systems=("alpha",), items=2)
    page = opened(key)
    click(page, "#begin")
    first = page.current_window_handle
    page.switch_to.new_window("tab")
    opened(key, fresh=False)
    click(page, "#begin", "#next", "#next")
    press(page, "5", "5")
    page.close()
    page.switch_to.window(first)
    assert until(lambda: kept(page)), "what the other tab has written comes over"
    press(page, "1", "1")
    assert sorted(map(str, kept(page))) == ["{'coherence': 1, 'joy': 1}", "{'coherence': 5, 'joy': 5}"]
    assert text_of(page, "#count") == "2 of 2"


def test_a_browser_that_keeps_nothing_says_so_and_still_saves(opened, folder):
    key = a_study(systems=("alpha",), items=2)
    page = opened(key)
    script(page, "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }")
    click(page, "#begin")
    press(page, "4", "4")
    assert "keeps nothing of this page" in text_of(page, "#warning")
    assert script(page, "return !document.getElementById('warning').hidden") and text_of(page, "#count") == "1 of 2"
    assert json.loads(saved(page, folder, key).read_text())["answers"][0]["values"] == {"coherence": 4, "joy": 4}


def test_a_damaged_store_is_put_aside_and_annotators_are_kept_apart(opened):
    key = a_study(systems=("alpha",), items=2)
    page = opened(key)
    place = f"grue-study:{key.study}:annotator-1"
    for text in ("{", "[[1]]", '{"x": {}}', '{"__proto__": 1}', "null"):
        script(page, "localStorage.setItem(arguments[0], arguments[1])", place, text)
        damaged = "return localStorage.getItem(arguments[0])", place + ":damaged"
        reload(page, lambda damaged=damaged, text=text: script(page, *damaged) == text)
        assert text_of(page, "#count") == "0 of 2"
    click(page, "#begin"), press(page, "4", "4")
    assert text_of(opened(key, annotator=1, fresh=False), "#count") == "0 of 2"
    assert until(lambda: text_of(opened(key, annotator=0, fresh=False), "#count") == "1 of 2")


def test_pairs_stand_side_by_side_and_are_chosen(opened):
    page = opened(a_study(PAIRS, ("alpha", "beta"), 3))
    click(page, "#begin")
    labels = script(page, "return [...document.querySelectorAll('#texts h2')].map(h => h.textContent)")
    assert labels == ["Story 1", "Story 2"]
    press(page, "1"), click(page, "#next"), press(page, "2"), click(page, "#next"), press(page, "3", "9")
    assert [answer["better"] for answer in kept(page)] == ["a", "tie", "b"]


def hostile_study(template):
    count = len(HOSTILE)
    systems = [outputs(name, count, texts=lambda s, i, n=name: HOSTILE[i] + (n if template else "")) for name in "ab"]
    key = a_study(template, systems, count) if template else a_study(systems=systems, items=count)
    prompt = "word " * 800
    return replace(key, items=tuple(replace(item, prompt=prompt + item.prompt) for item in key.items))


@pytest.mark.parametrize("template", [None, PAIRS], ids=["scales", "pairs"])
def test_hostile_texts_are_shown_and_do_nothing_at_any_width(opened, template):
    key = hostile_study(template)
    page = opened(key)
    title = page.title
    click(page, "#begin")
    seen = set()
    for _ in key.annotators[0].screens:
        for width in (NARROW, WIDE):
            sized(page, width)
            assert script(page, "return document.documentElement.scrollWidth") <= width
        seen |= set(script(page, "return [...document.querySelectorAll('#texts .text')].map(t => t.textContent)"))
        click(page, "#next", "#next")
    assert shown(page) == "end" and page.title == title
    assert script(page, "return [document.scripts.length, document.images.length]") == [2, 0]
    clean = {text.replace("\u202e", "�") for text in HOSTILE}
    assert seen == ({text + n for text in clean for n in "ab"} if template else (clean - {""}) | {"(no text)"})


@pytest.mark.parametrize("template", [None, PAIRS], ids=["scales", "pairs"])
def test_axe_finds_nothing_serious(opened, template):
    """In the dark only the colours are others, and at another width only where things stand."""
    page = opened(hostile_study(template))

    def check():
        for width, scheme, rules in ((NARROW, "light", ()), (WIDE, "dark", ("color-contrast",))):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            sized(page, width)
            assert axe_violations(page, *rules) == []

    check()
    click(page, "#begin"), press(page, "3")
    check()
    click(page, "#next", "#next")
    script(page, "document.getElementById('open').textContent = 'Not answered yet.'")
    check()
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
