"""`grue tools study`: from systems' predictions over (synthetic) answers to what they say, on a few examples of mini IMDB."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.commands import grue, printed_json
from support.late import late
from support.paths import ROOT
from support.studies import PAIRS, SCALES, a_study, filled, written

from grue import files
from grue.api import study as api
from grue.api.examples import examples
from grue.study.key import read_key

questionnaire = late("grue.render.questionnaire")
FEW = 40


@pytest.fixture(scope="module")
def synthetic():
    sys.path.insert(0, str(ROOT / "experiments"))
    yield importlib.import_module("synthetic_study")
    sys.path.remove(str(ROOT / "experiments"))


@pytest.fixture(scope="module")
def systems(tmp_path_factory):
    """Three systems' predictions where praise is asked for: the references, praise, and scorn."""
    folder = tmp_path_factory.mktemp("systems")
    found = [example for example in examples("imdb") if example.meta["asked"]][:FEW]
    words = ("a", "the", "this", "that")
    texts = {
        "whole": [example.references[0] for example in found],
        "praise": [f"{words[i % 4]} film with a wonderful cast." for i in range(FEW)],
        "scorn": [f"{words[i % 4]} film with a terrible plot." for i in range(FEW)],
    }
    for name, by in texts.items():
        lines = [{"id": example.id, "text": text} for example, text in zip(found, by, strict=True)]
        files.write_jsonl(folder / f"{name}.jsonl", lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "examples", lambda task, **more: found)
        yield folder


def make(systems, study, *more, code=0):
    named = ",".join(f"{name}={systems / name}.jsonl" for name in ("whole", "praise", "scorn"))
    return grue("tools", "study", "make", "--task", "imdb", "--systems", named, *more, "-o", study, code=code)


def answered(synthetic, study, **how):
    """Put synthetic answers into a study's folder, by sentiment; return its key."""
    key = read_key(study)
    for answers in synthetic.answer(key, "asked_sentiment", seed=0, **how):
        files.write_json(study / "answers" / f"{answers.annotator}.json", answers)
    return key


def published(folder, template=SCALES, rule=None, **about):
    """Publish a small study; return files with answers to it by a rule."""
    key = a_study(template, **about)
    questionnaire.publish(key, folder)
    usual = (lambda number, screen, question: 1 + screen.item % 5) if template.kind == "scales" else (lambda *_: "a")
    return written(folder.parent, filled(key, rule or usual))


def analyse(*arguments, code=0):
    return grue("tools", "study", "analyse", *arguments, "--draws", 100, code=code)


def test_the_whole_road(systems, synthetic, tmp_path):
    study = tmp_path / "study"
    made = make(systems, study, "--items", 12).stdout
    assert "3 systems, 12 items, 36 pages for each of 3." in made and "key.json to yourself" in made
    key = answered(synthetic, study, noise=0.5)
    assert [system.name for system in key.systems] == ["whole", "praise", "scorn"]
    assert [system.files[""] for system in key.systems] == [
        files.sha256_file(systems / f"{system.name}.jsonl") for system in key.systems
    ]
    of_metric = key.items[0].scores["asked_sentiment"]
    assert key.metrics["asked_sentiment"] == "higher" and of_metric[1] > of_metric[2]

    said = analyse(study, "-o", tmp_path / "study.png").stdout
    for part in (
        "Synthetic: annotator-1, annotator-2, annotator-3 are programs. These are no opinions of people.",
        "annotator-1 36 of 36",
        "One-way ANOVA: F(2, 33) = ",
    ):
        assert part in said
    assert (tmp_path / "study.png").read_bytes().startswith(b"\x89PNG")

    found = printed_json("tools", "study", "analyse", study, "--draws", 200)
    means = {one["system"]: one["mean"] for one in found["scales"][0]["systems"]}
    assert means["praise"] > means["scorn"] + 1
    agreement = {one["metric"]: one["kendall"]["value"] for one in found["agreement"] if one["question"] == "coherence"}
    assert agreement["asked_sentiment"] == max(agreement.values()), "they were made from it"
    assert found["scales"][0]["alpha"][0]["value"] > 0.5 and found["scales"][0]["within_items_p"] < 0.01


def test_pairs_and_the_file_of_choices(systems, synthetic, tmp_path):
    study, choices, pairs = tmp_path / "study", tmp_path / "choices.jsonl", tmp_path / "pairs.jsonl"
    make(systems, study, "--kind", "pairs", "--items", 6, "--annotators", 2)
    answered(synthetic, study, noise=0.2, share=0.5)
    said = analyse(study, "--answers", choices).stdout
    assert "annotator-1 9 of 18" in said and str(choices) in said
    alone = analyse(study, study / "answers" / "annotator-1.json").stdout
    assert "Synthetic: annotator-1 is a program. These are no opinions" in alone
    lines = [line for _, line in files.read_jsonl(choices)]
    keys = {"item", "annotator", "prompt", "id", "a", "b", "systems", "choice", "synthetic"}
    assert len(lines) == 18 and set(lines[0]) == keys and all(line["synthetic"] is True for line in lines)
    told = grue("tools", "pairs", "from-study", choices, "--task", "imdb", "-o", pairs).stderr
    assert "Answered by programs: answers of programs are no opinions of people" in told
    assert "annotator-1 9 of 18, annotator-2 9 of 18" in analyse(study, "--complete", code=3).stderr


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        (2, "whole=whole.jsonl,whole=whole.jsonl"),
        (1, "whole=whole.jsonl,short=short.jsonl"),
        (3, "no=no.jsonl"),
        (2, ","),
        (2, "nobody"),
        (3, f"whole=whole.jsonl --items {FEW + 1}"),
        (2, "whole=whole.jsonl --template stars"),
        (2, "x=y -o there"),
    ],
)
def test_what_make_refuses_leaves_nothing(systems, code, asked, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    whole = (systems / "whole.jsonl").read_text()
    Path("whole.jsonl").write_text(whole)
    Path("short.jsonl").write_text("".join(whole.splitlines(keepends=True)[:-1]))
    published(tmp_path / "there")
    before = sorted(tmp_path.rglob("*")), Path("there/key.json").read_bytes()
    refused.command(
        "tools", "study", "make", "--task", "imdb", "--items", 12, "-o", "s", "--systems", *asked.split(), code=code
    )
    assert (sorted(tmp_path.rglob("*")), Path("there/key.json").read_bytes()) == before


def test_a_study_says_in_words_what_it_cannot_say(tmp_path):
    for name, template, rule, about, said in (
        ("one", SCALES, None, {"items": 1}, "1 items"),
        ("pair", PAIRS, None, {"items": 1}, "1 items"),
        ("alone", SCALES, None, {"annotators": 1}, "– (one annotator)"),
        ("equal", PAIRS, lambda *_: "tie", {"annotators": 2}, "– (all answers are equal)"),
    ):
        paths = published(tmp_path / name, template, rule, **about)
        assert said in analyse(tmp_path / name, *paths).stdout


def test_choices_are_of_pairs_and_replace_nothing_that_is_there(tmp_path):
    paths = published(tmp_path / "rated")
    said = analyse(tmp_path / "rated", *paths, "--answers", tmp_path / "x.jsonl", code=3).stderr
    assert "it has no choices" in said and not (tmp_path / "x.jsonl").exists()
    person, *others = published(tmp_path / "s", PAIRS)
    for there in (person, tmp_path / "s/key.json", tmp_path / "s"):
        before = there.read_bytes() if there.is_file() else None
        said = analyse(tmp_path / "s", person, *others, "--answers", there, code=2).stderr
        assert f"{there}: is there already and is not replaced" in said
        assert before is None or there.read_bytes() == before
    for _ in range(2):  # the same choices again are no other file
        analyse(tmp_path / "s", person, "--answers", tmp_path / "new.jsonl")
        assert (tmp_path / "new.jsonl").is_file()


def test_files_may_be_named_or_lie_in_the_folder(tmp_path):
    paths = published(tmp_path / "s", rule=lambda number, screen, question: 1 + screen.systems[0] + number % 2)
    assert "There are no answers" in analyse(tmp_path / "s", code=3).stderr
    named = analyse(tmp_path / "s", *paths).stdout
    (tmp_path / "s/answers").mkdir(exist_ok=True)
    for path in paths:
        path.rename(tmp_path / "s/answers" / path.name)
        (tmp_path / "s/answers" / f"._{path.name}").write_bytes(b"\0what macOS puts beside a file")
    assert analyse(tmp_path / "s").stdout == named
    assert "alpha" in named and "Synthetic" not in named


def test_hostile_names_are_shown_and_control_nothing(tmp_path):
    hostile = "[/red]\x1b[2J"
    for template in (SCALES, PAIRS):
        asked = replace(template, questions=(replace(template.questions[0], name=hostile),), title=hostile)
        paths = published(tmp_path / template.name, asked, systems=(hostile, "other"))
        shown = analyse(tmp_path / template.name, *paths).stdout
        assert "\x1b" not in shown and "[/red]�[2J" in shown
    path = published(tmp_path / "s")[0]
    path.write_text(path.read_text().replace("annotator-1", "\\u001b[2Jx\\u202e"))
    said = analyse(tmp_path / "s", path, code=3).stderr
    assert said[:-1].isprintable(), said


def test_a_picture_is_the_same_for_the_same_answers_and_needs_a_known_ending(tmp_path, refused):
    paths = published(tmp_path / "s", PAIRS)
    for name in ("one.svg", "two.svg"):
        analyse(tmp_path / "s", *paths, "-o", tmp_path / name)
    drawn = (tmp_path / "one.svg").read_text()
    assert drawn == (tmp_path / "two.svg").read_text()
    assert "alpha – beta" in drawn and "6 items, 3 annotators" in drawn
    refused.command(
        "tools", "study", "analyse", tmp_path / "s", *paths, "--draws", 100, "-o", tmp_path / "x.txt", code=2
    )
