"""Submissions as a whole: the good one passes, everything that is wrong is told, and nothing else."""

import gzip
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.commands import grue
from support.factories import a_result
from support.good_submission import (
    EXAMPLES,
    FAILED,
    IDS,
    OTHER_WAY,
    PREDICTIONS,
    RESULT,
    SEEDS,
    TASK,
    codes,
    edit,
    hand_in,
    have_tasks,
    no_examples,
    remove_seeds,
    result_says,
    say,
    seal,
    system_says,
    texts_of,
    told,
)

from grue import files
from grue.errors import ConfigError, DataError, visible
from grue.evaluation.scoring import Scored
from grue.records import Score
from grue.submissions.checks import rescoring
from grue.submissions.checks.check import check
from grue.submissions.checks.rescoring import check_scores
from grue.submissions.entries import results
from grue.submissions.folder import illegible, systems
from grue.submissions.problems import problem
from grue.submissions.reading import MOST_FILES
from grue.task_files import load_task

NO_SEED = "names no seed, which is a whole number from 0 to 4294967295, without leading zeros."


def test_what_may_be_said_and_what_counts_as_rounding(ours):
    authors = ["Łukasz Żółć", "王 伟", "さくら 花子", "Αλέξανδρος", "محمد علي"]
    say(ours, authors=authors, link="https://example.org/a?b=c&d=e#f")
    share = 1 / sum(spec.axis == "preference" for spec in TASK.metrics)

    def shift(data, change):
        """Move METEOR, of which the preference has its share, and what follows from it."""
        (meteor,) = [score for score in data["scores"] if score["metric"] == "meteor"]
        meteor.update(value=meteor["value"] + change, scaled=meteor["scaled"] + 100 * change)
        data.update(preference=data["preference"] + 100 * change * share)

    edit(ours, lambda data: shift(data, 1e-7), 2)
    edit(ours, lambda data: shift(data, -1e-7), 3)
    result_says(ours, 1, **FAILED)
    (ours / PREDICTIONS).unlink()
    assert check(seal(ours)) == []


def test_where_systems_are_looked_for(ours, tmp_path, refused):
    """A system without its toml is still one, and grue/submissions, the project's own folder, is none."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/README.md").write_text("Submissions lie here.")
    assert check(tmp_path / "empty") == results(tmp_path / "empty") == []
    for path in (tmp_path / "none", tmp_path / "empty/README.md"):
        for read in (check, results):
            with refused(DataError):
                read(path)
    for path in (ours / "commongen", tmp_path / "empty"):
        refused.command("submit", "check", path, code=3)
    (ours / "submission.toml").unlink()
    assert systems(ours) == [ours]
    assert ("GRUE-S002", "submission.toml", "is missing.") in told(ours)
    folder = tmp_path / "grue/submissions"
    folder.mkdir(parents=True)
    assert systems(folder) == []
    (folder / "mini/ours").mkdir(parents=True)
    assert systems(folder) == systems(folder / "mini") == [folder / "mini/ours"]


def test_a_submission_needs_a_suite_a_name_and_a_result(tmp_path, ours, monkeypatch, refused):
    """A folder named like a record would be read in place of it, and break the board."""
    other = tmp_path / "other"
    for name in ("maxi/ours", "mini/our system"):
        (other / name).mkdir(parents=True)
    for name in ("theirs.trust.json", "theirs.reported.json"):
        shutil.copytree(ours, other / "mini" / name)
    have_tasks(monkeypatch, "commongen", "imdb")
    (ours / "imdb").mkdir()
    (ours / "imdb/config.json").write_text("{}")
    problems = [*check(other), *check(seal(ours))]
    lines = [f"{p.id} {p.path}: {p.message}" for p in problems if p.id in ("GRUE-S001", "GRUE-S002")]
    refused.message("\n".join(lines))


def test_a_file_of_no_seed_is_told_and_refused(ours, refused):
    """2^32 - 1 is the largest; a digit of another script is none."""
    seeds = ("4294967296", "9999999999", "1" * 200, "007", "-1", "", "1٣", "²", "x")
    names = [f"seed-{seed}.{kind}" for seed in seeds for kind in ("predictions.jsonl.gz", "result.json")]
    for name in names:
        shutil.copy(ours / (RESULT if name.endswith("json") else PREDICTIONS), ours / "commongen" / name)
    assert told(seal(ours)) == [("GRUE-S001", f"commongen/{name}", NO_SEED) for name in sorted(names)]
    with refused(DataError):
        results(ours.parent.parent)
    for name in names:
        (ours / "commongen" / name).unlink()
    remove_seeds(ours, *SEEDS)
    for number in (0, 4294967295):
        hand_in(ours, number, texts_of(1, OTHER_WAY))
        say(ours, seeds=[number])
        assert codes(check(seal(ours))) == {30}  # one seed is few
        assert [entry.result.seed for entry in results(ours.parent.parent)] == [number]
        remove_seeds(ours, number)


@pytest.mark.parametrize("seed", [f"0x{'f' * 5_000}", "1" * 5_000], ids=["hexadecimal", "decimal"])
def test_a_seed_of_thousands_of_digits_is_told(ours, seed):
    """Python writes no number of more than 4,300 digits, and reads one only as hexadecimal."""
    path, result = ours / "submission.toml", ours / "commongen/seed-2.result.json"
    path.write_text(re.sub(r"seeds = \[[^]]*\]", f"seeds = [1, {seed}]", path.read_text()))
    if "x" not in seed:
        result.write_text(result.read_text().replace('"seed": 2', f'"seed": {seed}'))
    assert codes(check(seal(ours))) - {30} == ({2} if "x" in seed else {2, 3})
    with pytest.raises((ConfigError, DataError)):
        results(ours.parent.parent)


def test_results_carry_file_and_status(ours):
    (ours / "commongen/seed-2.predictions.jsonl.gz").unlink()
    found = [(e.result.seed, e.path.name, e.status) for e in results(ours.parent.parent)[:2]]
    assert found == [(1, "seed-1.result.json", "rescored"), (2, "seed-2.result.json", "reported")]


def test_a_models_figure_may_differ_in_its_last_digits_and_the_axes_follow_from_it():
    """Once a preference of 99.22 passed where the figure said .9825: the tolerance was meant for the figure."""
    task = load_task("imdb")
    (sentiment,) = [spec for spec in task.metrics if spec.axis == "preference"]

    def score(of):
        return Score("asked_sentiment", "preference", of, sentiment.scale(of), 4, "higher", "v1")

    def wrong(value, preference=None):
        truth = Scored("test", (score(0.9825),), (), {}, 98.25, None, {}, {})
        said = sentiment.scale(value) if preference is None else preference
        made = replace(a_result(task, "ours", 1, None, None), scores=(score(value),), preference=said)
        return [problem.message for problem in check_scores(Path("x"), made, truth, task)]

    assert wrong(0.9825 + 9e-5) == []
    assert wrong(0.9825 + 2e-4) == ["asked_sentiment: states 0.9827; computed: 0.9825."]
    assert wrong(0.9825, preference=99.22) == ["preference: states 99.22; follows: 98.25."]
    assert wrong(0.9825, preference=98.2501) == ["preference: states 98.2501; follows: 98.25."]


def test_what_this_machine_lacks_is_no_fault_of_the_submission(ours, monkeypatch, refused):
    with monkeypatch.context() as patch:
        patch.setattr(rescoring, "load_examples", no_examples)
        refused.message("\n".join(f"{p.id} {p.message}" for p in check(ours)))
        assert grue("submit", "check", ours, code=3).stderr.endswith("see GRUE-S039 in the report.\n")
    score = rescoring.score_predictions

    def without_cider(*arguments, prepare):
        scored = score(*arguments, prepare=prepare)
        return replace(scored, scores=scored.scores[1:], preference=None, errors=("cider: no such model",))

    monkeypatch.setattr(rescoring, "score_predictions", without_cider)
    assert codes(check(ours)) == {39}
    edit(ours, lambda data: data["scores"][1].update(value=0.123))
    refused.message("\n".join(f"{p.id} {p.message}" for p in check(seal(ours))))


def test_texts_that_no_metric_can_score_are_told(ours, monkeypatch, refused):
    def refuse(*_, **__):
        raise DataError("not a finite number")

    monkeypatch.setattr(rescoring, "score_predictions", refuse)
    assert {(name, said) for name, _, said in told(ours)} == {("GRUE-S009", "cannot be scored: not a finite number")}
    monkeypatch.setattr(rescoring, "prepared_metric", refuse)
    assert codes(check(ours)) == {39}


def test_references_may_be_alike_and_say_what_people_said(ours):
    """A lead and a copy of short prompts are the same texts; neither has a rank, nor five seeds."""
    shutil.rmtree(ours)
    for name in ("copy", "oracle"):
        system = ours.with_name(name)
        say(system, deterministic=True, seeds=[1])
        hand_in(system, 1, {example.id: example.references[0] for example in EXAMPLES})
        seal(system)
    assert check(ours.parent.parent) == []
    learned = shutil.copytree(system, ours)  # what depends on no seed may have learned, and says what it wrote itself
    say(learned, deterministic=True, seeds=[1])
    hand_in(learned, 1, {example.id: example.references[0] for example in EXAMPLES})
    assert [problem.id[-2:] for problem in check(seal(learned))] == ["33"]
    shutil.rmtree(learned)
    say(system, seeds=[1])
    assert [problem.id[-2:] for problem in check(seal(system))] == ["01", "30", "18", "33"]


def test_what_learned_nothing_is_a_reference_with_five_seeds_or_with_one_and_on_some_tasks(ours, monkeypatch):
    """Lookups say what people said in training; a backbone says the same for every seed unless it is sampled from."""
    shutil.rmtree(ours)
    for name, seeds in (("nearest", (1,)), ("mbr", (1,)), ("best-of-n", SEEDS), ("zero-shot", SEEDS)):
        system = ours.with_name(name)
        say(system, algorithm=name, backbone="none", seeds=list(seeds), deterministic=len(seeds) == 1)
        for seed in seeds:
            drawn = 1 if name == "zero-shot" else seed
            hand_in(system, seed, {**texts_of(drawn), IDS[0]: f"Draw {drawn}."})
            system_says(system, seed, algorithm=name)
        seal(system)
    have_tasks(monkeypatch, "commongen", "imdb")
    assert check(ours.parent.parent) == []


def test_a_neighbour_that_cannot_be_read_is_no_problem_of_ours(ours):
    theirs = ours.with_name("theirs")
    (theirs / "commongen").mkdir(parents=True)
    for name in ("submission.toml", RESULT, PREDICTIONS):
        (theirs / name).write_bytes(b"\xff")
    assert check(ours) == []


def test_too_many_files_are_not_looked_at(ours):
    for index in range(MOST_FILES):
        os.mknod(ours / f"commongen/{index}")
    assert told(ours) == [("GRUE-S014", ".", f"holds more than {MOST_FILES:,} files; none of them was read.")]


def test_small_files_that_unpack_to_more_than_memory_holds_are_not_read(ours, monkeypatch):
    monkeypatch.setattr("grue.submissions.reading.MOST_UNPACKED", 2_000_000)
    packed = gzip.compress((b" " * 99_999 + b"\n") * 9 + b"{}")
    for seed in range(100, 103):
        (ours / f"commongen/seed-{seed}.result.json").write_text("{}")
        (ours / f"commongen/seed-{seed}.predictions.jsonl.gz").write_bytes(packed)
    assert told(ours) == [("GRUE-S014", ".", "unpacks to more than 2,000,000 bytes; it was not read.")]


def test_a_sample_recomputes_one_seed_and_checks_everything_else_of_all(ours, refused):
    for seed in SEEDS:
        edit(ours, lambda data: data["scores"][1].update(value=0.123), seed)
    seal(ours)

    def recomputed(**options):
        return {problem.path for problem in check(ours, **options) if "computed" in problem.message}

    everything = recomputed()
    assert len(everything) == len(SEEDS)
    drawn = [recomputed(sample=str(n)) for n in range(6)]
    assert all(len(found) == 1 and found < everything for found in drawn)
    assert len(set.union(*drawn)) > 1, "another text may draw another seed"
    assert recomputed(sample="1") == drawn[1]
    result_says(ours, 2, within="hashes", predictions="0" * 64)
    seal(ours)
    for n in range(3):
        [other] = [problem for problem in check(ours, sample=str(n)) if "predictions: states" in problem.message]
        assert other.path.endswith("seed-2.result.json")
    refused.command("submit", "check", "--sample", "a", "--against", "main", code=2)


def test_two_processes_find_what_one_does(tmp_path):
    """Two tasks whose data is not here, with one result each whose predictions cannot be read."""
    system = tmp_path / "grue/ours"
    say(system, seeds=[1], deterministic=True)
    for name in ("commongen", "totto"):
        (system / name).mkdir()
        (system / name / "seed-1.predictions.jsonl.gz").write_bytes(b"plain")
        files.write_json(system / name / "seed-1.result.json", a_result(load_task(name, "grue"), "ours", 1, 50.0))
    found = check(seal(system), processes=2)
    assert found == check(system, processes=1)
    assert [problem.id[-2:] for problem in found] == ["39", "39", "07", "07"]


def test_messages_show_what_cannot_be_seen():
    assert visible("a\u202eb\n\udcff é 東\x1b[31m") == r"a\u202eb\n\udcff é 東\x1b[31m"
    found = problem(1, Path("x\u202ey"), "z" * 5_000)
    assert (found.path, len(found.message)) == (r"x\u202ey", 1_000)
    assert json.loads(json.dumps(files.plain(found)))["id"] == "GRUE-S001"


def test_only_the_strings_at_which_answers_end_may_have_line_ends():
    stop = {"generation": {"stop": ["\n", "<EOU>", "\n\n"]}}
    assert not [*illegible(stop), *illegible({"searched": stop})]
    assert [*illegible({"generation": {"stop": ["\n\u202e"]}})] == ["generation.stop[0]: has U+202E"]
    assert [*illegible({"generation": {"start": "a\nb"}})] == ["generation.start: has U+000A"]


def test_a_letter_that_nobody_sees_is_told():
    assert [*illegible({"authors": ["\u3164"]})] == ["authors[0]: has U+3164"]
