"""`grue study`: from systems' predictions over (synthetic) answers to what they say, on mini IMDB."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import ROOT
from support.studies import PAIRS, SCALES, a_study, filled, written

from grue import files
from grue.api import study as api
from grue.api.examples import examples
from grue.cli.main import main
from grue.errors import ConfigError
from grue.render.questionnaire import publish
from grue.study.key import read_key


def grue(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)


@pytest.fixture(scope="module")
def synthetic():
    sys.path.insert(0, str(ROOT / "experiments"))
    yield importlib.import_module("synthetic_study")
    sys.path.remove(str(ROOT / "experiments"))


@pytest.fixture(scope="module")
def systems(tmp_path_factory):
    """Three systems' predictions: the references, praise, and scorn."""
    folder = tmp_path_factory.mktemp("systems")
    found = examples("imdb")
    words = ("a", "the", "this", "that")
    texts = {
        "whole": [example.references[0] for example in found],
        "praise": [f"{words[i % 4]} film with a wonderful cast." for i, _ in enumerate(found)],
        "scorn": [f"{words[i % 4]} film with a terrible plot." for i, _ in enumerate(found)],
    }
    for name, written_by in texts.items():
        lines = [{"id": example.id, "text": text} for example, text in zip(found, written_by, strict=True)]
        files.write_jsonl(folder / f"{name}.jsonl", lines)
    return {name: folder / f"{name}.jsonl" for name in texts}


def named(systems):
    return ",".join(f"{name}={path}" for name, path in systems.items())


def test_the_whole_road(systems, synthetic, tmp_path):
    study = tmp_path / "study"
    made = grue("study", "make", "--task", "imdb", "--systems", named(systems), "--items", 12, "-o", study)
    assert made.exit_code == 0, made.output
    assert "3 systems, 12 items, 36 pages for each of 3." in made.stdout and "key.json to yourself" in made.stdout
    key = read_key(study)
    assert [system.name for system in key.systems] == ["whole", "praise", "scorn"]
    assert {system.files[""] for system in key.systems} == {files.sha256_file(path) for path in systems.values()}
    assert (
        key.metrics["sentiment"] == "higher"
        and key.items[0].scores["sentiment"][1] > key.items[0].scores["sentiment"][2]
    )

    for answers in synthetic.answer(key, "sentiment", noise=0.5, seed=0):
        files.write_json(study / "answers" / f"{answers.annotator}.json", answers)
    said = grue("study", "analyse", study, "--draws", 200, "-o", tmp_path / "study.png")
    assert said.exit_code == 0, said.output
    assert (
        "Synthetic: annotator-1, annotator-2, annotator-3 are programs. These are no opinions of people." in said.stdout
    )
    assert "annotator-1 36 of 36" in said.stdout and "One-way ANOVA: F(2, 33) = " in said.stdout
    assert (tmp_path / "study.png").read_bytes().startswith(b"\x89PNG")

    found = json.loads(grue("study", "analyse", study, "--draws", 200, "--json").stdout)
    means = {one["system"]: one["mean"] for one in found["scales"][0]["systems"]}
    assert means["praise"] > means["scorn"] + 1
    agreement = {one["metric"]: one["kendall"]["value"] for one in found["agreement"] if one["question"] == "coherence"}
    assert agreement["sentiment"] == max(agreement.values()), "they were made from it"
    assert found["scales"][0]["alpha"][0]["value"] > 0.5 and found["scales"][0]["within_items_p"] < 0.01


def test_pairs_and_the_file_of_choices(systems, synthetic, tmp_path):
    study, lines = tmp_path / "study", tmp_path / "choices.jsonl"
    arguments = ["--task", "imdb", "--systems", named(systems), "--kind", "pairs", "--items", 6, "--annotators", 2]
    assert grue("study", "make", *arguments, "-o", study).exit_code == 0
    for answers in synthetic.answer(read_key(study), "sentiment", noise=0.2, seed=0, share=0.5):
        files.write_json(study / "answers" / f"{answers.annotator}.json", answers)
    said = grue("study", "analyse", study, "--draws", 100, "--answers", lines)
    assert said.exit_code == 0 and "annotator-1 9 of 18" in said.stdout and str(lines) in said.stdout
    alone = grue("study", "analyse", study, study / "answers" / "annotator-1.json", "--draws", 100)
    assert "Synthetic: annotator-1 is a program. These are no opinions" in alone.stdout
    written_lines = [line for _, line in files.read_jsonl(lines)]
    assert len(written_lines) == 18
    keys = {"item", "annotator", "prompt", "id", "a", "b", "systems", "choice", "synthetic"}
    assert set(written_lines[0]) == keys and all(line["synthetic"] is True for line in written_lines)
    pairs = tmp_path / "pairs.jsonl"
    made = grue("pairs", "from-study", lines, "--task", "imdb", "-o", pairs)
    assert made.exit_code == 0 and "Answered by programs: answers of programs are no opinions of people" in made.stderr
    refused = grue("study", "analyse", study, "--complete")
    assert refused.exit_code == 3 and "annotator-1 9 of 18, annotator-2 9 of 18" in refused.stderr


def test_what_make_refuses_leaves_nothing(systems, tmp_path):
    short = tmp_path / "short.jsonl"
    short.write_text("".join(Path(systems["whole"]).read_text().splitlines(keepends=True)[:-1]))
    one = f"whole={systems['whole']}"
    faults = [
        (["--systems", f"{one},{one}"], 2, "Two systems are called 'whole'"),
        (
            ["--systems", f"{one},short={short}"],
            1,
            f"{short}: The predictions do not fit the 1000 examples: 1 missing",
        ),
        (["--systems", f"no={tmp_path / 'no.jsonl'}"], 3, "no.jsonl: cannot be read"),
        (["--systems", f"../x={short}"], 3, "there is no such folder"),
        (["--systems", f"a b={short}"], 2, "The system name 'a b'"),
        (["--systems", ","], 2, "There is no system to ask about"),
        (["--systems", "nobody"], 2, "No system 'nobody' of the suite mini"),
        (["--systems", one, "--items", "1001"], 3, "There are 1000 examples to ask about, not 1001; lower --items."),
        (["--systems", one, "--kind", "pairs"], 2, "Pairs need two systems"),
        (["--systems", one, "--template", "totto"], 2, "The questionnaire totto is for totto, not for imdb"),
        (["--systems", one, "--template", "stars"], 2, "No questionnaire 'stars'"),
    ]
    for arguments, code, said in faults:
        found = grue(
            "study",
            "make",
            "--task",
            "imdb",
            "--runs",
            tmp_path / "runs",
            "--submissions",
            tmp_path,
            *arguments,
            "-o",
            tmp_path / "s",
        )
        assert found.exit_code == code and said in found.stderr, (arguments, found.stderr)
        assert not (tmp_path / "s").exists()


def test_there_is_something_to_ask_and_somebody(tmp_path):
    for asked in ({"items": 0}, {"annotators": 0}):
        with pytest.raises(ConfigError, match="0: give a whole number, 1 at least"):
            api.make_study(tmp_path / "s", "imdb", ["x=y"], **asked)


def test_a_study_of_one_item_says_what_it_can(tmp_path):
    for template in (SCALES, PAIRS):
        key = a_study(template, items=1)
        publish(key, tmp_path / template.name)
        rule = (lambda number, screen, question: 1 + number) if template is SCALES else (lambda *_: "a")
        found = grue(
            "study", "analyse", tmp_path / template.name, *written(tmp_path, filled(key, rule)), "--draws", 100
        )
        assert found.exit_code == 0 and "1 items" in found.stdout, found.output


def test_ratings_have_no_choices_to_write(tmp_path):
    key = a_study()
    publish(key, tmp_path / "s")
    paths = written(tmp_path, filled(key, lambda number, screen, question: 1 + number))
    found = grue("study", "analyse", tmp_path / "s", *paths, "--draws", 100, "--answers", tmp_path / "x.jsonl")
    assert found.exit_code == 3 and "it has no choices" in found.stderr and not (tmp_path / "x.jsonl").exists()


def test_choices_replace_nothing_that_is_there(tmp_path):
    key = a_study(PAIRS)
    publish(key, tmp_path / "s")
    person, *others = written(tmp_path, filled(key, lambda *_: "a"))
    for there in (person, tmp_path / "s/key.json", tmp_path / "s"):
        before = there.read_bytes() if there.is_file() else None
        found = grue("study", "analyse", tmp_path / "s", person, *others, "--draws", 100, "--answers", there)
        assert found.exit_code == 2 and f"{there}: is there already and is not replaced" in found.stderr
        assert before is None or there.read_bytes() == before
    for _ in range(2):  # the same choices again are no other file
        again = grue("study", "analyse", tmp_path / "s", person, "--draws", 100, "--answers", tmp_path / "new.jsonl")
        assert again.exit_code == 0 and (tmp_path / "new.jsonl").is_file()


def test_a_study_that_is_there_is_not_replaced(tmp_path):
    publish(a_study(), tmp_path / "s")
    before = (tmp_path / "s/key.json").read_bytes()
    found = grue("study", "make", "--task", "imdb", "--systems", "x=y", "-o", tmp_path / "s")
    assert found.exit_code == 2 and "is there already, perhaps with a study's answers" in found.stderr
    assert (tmp_path / "s/key.json").read_bytes() == before


def test_files_may_be_named_or_lie_in_the_folder(tmp_path):
    key = a_study()
    publish(key, tmp_path / "s")
    assert "There are no answers" in grue("study", "analyse", tmp_path / "s").stderr
    paths = written(tmp_path, filled(key, lambda number, screen, question: 1 + screen.systems[0] + number % 2))
    named_ones = grue("study", "analyse", tmp_path / "s", *paths, "--draws", 100)
    for path in paths:
        path.rename(files_folder(tmp_path) / path.name)
    assert grue("study", "analyse", tmp_path / "s", "--draws", 100).stdout == named_ones.stdout
    assert "alpha" in named_ones.stdout and "Synthetic" not in named_ones.stdout


def files_folder(tmp_path):
    folder = tmp_path / "s/answers"
    folder.mkdir(exist_ok=True)
    return folder


def test_one_annotator_and_equal_answers_are_said_in_words(tmp_path):
    key = a_study(annotators=1)
    publish(key, tmp_path / "s")
    (path,) = written(tmp_path, filled(key, lambda number, screen, question: 1 + screen.item % 5))
    assert "– (one annotator)" in grue("study", "analyse", tmp_path / "s", path, "--draws", 100).stdout
    key = a_study(PAIRS, annotators=2)
    publish(key, tmp_path / "p")
    paths = written(tmp_path, filled(key, lambda number, screen, question: "tie"))
    assert "– (all answers are equal)" in grue("study", "analyse", tmp_path / "p", *paths, "--draws", 100).stdout


def test_hostile_names_in_answers_do_not_reach_the_terminal(tmp_path):
    key = a_study(SCALES)
    publish(key, tmp_path / "s")
    path = written(tmp_path, filled(key, lambda number, screen, question: 3))[0]
    path.write_text(path.read_text().replace("annotator-1", "\\u001b[2Jx\\u202e"))
    found = grue("study", "analyse", tmp_path / "s", path)
    assert found.exit_code == 3 and found.stderr[:-1].isprintable(), found.stderr


def test_names_are_shown_as_they_are_and_control_nothing(tmp_path):
    hostile = "[/red]\x1b[2J"
    for template in (SCALES, PAIRS):
        asked = replace(template, questions=(replace(template.questions[0], name=hostile),), title=hostile)
        key = a_study(asked, (hostile, "other"))
        publish(key, tmp_path / template.name)
        rule = (lambda number, screen, question: 1 + screen.item % 5) if template is SCALES else (lambda *_: "a")
        paths = written(tmp_path, filled(key, rule))
        found = grue("study", "analyse", tmp_path / template.name, *paths, "--draws", 100)
        assert found.exit_code == 0 and "\x1b" not in found.stdout and "[/red]�[2J" in found.stdout, found.output


def test_a_picture_is_the_same_for_the_same_answers_and_needs_a_known_ending(tmp_path):
    key = a_study(PAIRS)
    publish(key, tmp_path / "s")
    paths = written(tmp_path, filled(key, lambda *_: "a"))
    drawn = []
    for name in ("one.svg", "two.svg"):
        assert grue("study", "analyse", tmp_path / "s", *paths, "--draws", 100, "-o", tmp_path / name).exit_code == 0
        drawn.append((tmp_path / name).read_text())
    assert drawn[0] == drawn[1] and "alpha – beta" in drawn[0] and "6 items, 3 annotators" in drawn[0]
    refused = grue("study", "analyse", tmp_path / "s", *paths, "--draws", 100, "-o", tmp_path / "x.txt")
    assert refused.exit_code == 2 and "give it one of these endings" in refused.stderr
