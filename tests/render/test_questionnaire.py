"""The page of a questionnaire as text: blind, self-contained, and safe from what systems write."""

import base64
import hashlib
import json
import re
from dataclasses import replace

from support.studies import PAIRS, RUNS, SCALES, a_study, outputs

from grue.render.questionnaire import publish, render
from grue.study.key import KEY, read_key

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!--<script>",
    "a\u202eb\u2028c\x1b[31m",
    "x" * 5000,
    "",
    "{{ 7*7 }}",
)


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def pages(key):
    return [render(key, annotator) for annotator in key.annotators]


def test_nothing_tells_who_wrote_a_text():
    key = a_study(systems=[outputs(name, 6, texts=lambda s, i: f"text {i}") for name in ("xenon", "ytterbium")])
    for page in pages(key):
        data = data_of(page)
        assert set(data) == {"study", "annotator", "label", "questions", "prompts", "screens"}
        assert all(set(screen) == {"id", "prompt", "texts"} for screen in data["screens"])
        assert "xenon" not in page and "ytterbium" not in page
        for word in ("runs", "id-", "length", "errors", *(run.sha256 for s in RUNS for run in outputs(s, 1).runs)):
            assert word not in json.dumps(data), word
    for template in (SCALES, PAIRS):
        key = a_study(template, [outputs(name, 6, texts=lambda s, i, n=name: f"{n} {i}") for name in ("p", "q")])
        swapped = replace(key, systems=tuple(replace(system, name="other", origin="o") for system in key.systems))
        assert pages(key) == pages(swapped), "the names of systems are nowhere"


def test_the_page_loads_nothing():
    for page in pages(a_study()):
        assert re.findall(r"(?:src|href|action)=[\"']?(\S{5})", page) == ["data:"]
        assert re.findall(r"\w+://[^\s'\"]+", page) == ["http://www.w3.org/2000/svg"]
        assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import|eval)\b\s*\(", page)


def test_the_policy_allows_this_style_and_script_alone():
    page = pages(a_study())[0]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    found = [re.search(rf"<{tag}>(.*?)</{tag}>", page, re.S)[1] for tag in ("style", "script")]
    style, script = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in found)
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert " style=" not in page and not re.search(r"<[^>]* on\w+=", page)


def test_hostile_texts_stay_texts():
    texts = list(HOSTILE)
    key = a_study(systems=[outputs("a", len(texts), texts=lambda s, i: texts[i])], items=len(texts), annotators=1)
    hostile = replace(SCALES, title=HOSTILE[0], instructions=HOSTILE[1], prompt_label=HOSTILE[2])
    page = render(replace(key, template=hostile), key.annotators[0])
    assert page.count("<script") == 2 and page.count("</script>") == 2 and "<img" not in page and "<!--" not in page
    assert "\u202e" not in page and "\u2028" not in page and "\x1b" not in page
    shown = {data_of(page)["screens"][i]["texts"][0] for i in range(len(texts))}
    assert shown == {text.replace("\u202e", "�").replace("\u2028", "�").replace("\x1b", "�") for text in texts}


def test_a_prompt_stands_once_however_many_texts_answer_it():
    data = data_of(pages(a_study(items=4))[0])
    assert len(data["prompts"]) == 4 and len(data["screens"]) == 12
    assert [screen["prompt"] for screen in data["screens"]] == [place for place in range(4) for _ in range(3)]


def test_pages_and_key_are_written_apart(tmp_path):
    key = a_study()
    written = publish(key, tmp_path / "study")
    assert [path.relative_to(tmp_path / "study").as_posix() for path in written] == [
        f"pages/annotator-{number}.html" for number in (1, 2, 3)
    ]
    assert [path.read_text(encoding="utf-8") for path in written] == pages(key)
    assert read_key(tmp_path / "study") == key
    assert sorted(path.name for path in (tmp_path / "study").iterdir()) == [KEY, "pages"]
