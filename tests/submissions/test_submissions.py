"""Submissions: the good one passes, and every way to be wrong is told with its id, place and cure."""

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.factories import a_result
from support.good_submission import (
    EXAMPLES,
    OTHER_WAY,
    PREDICTIONS,
    RESULT,
    SEEDS,
    TASK,
    edit,
    few_examples,
    hand_in,
    no_examples,
    packed,
    say,
    seal,
    texts_of,
    told,
    use_few_examples,
    write_good,
)

from grue import files
from grue.cli.main import main
from grue.errors import ConfigError, DataError, Unavailable, visible
from grue.evaluation.scoring import Scored
from grue.records import Score
from grue.submissions.checks import check as checks
from grue.submissions.checks import rescoring, structure
from grue.submissions.checks.check import check
from grue.submissions.checks.claims import check_claims
from grue.submissions.checks.wording import skeleton
from grue.submissions.entries import results
from grue.submissions.folder import systems
from grue.submissions.problems import error
from grue.submissions.reading import MOST_FILES, read_unscanned_predictions
from grue.task_files import load_task

NO_SEED = "names no seed, which is a whole number from 0 to 4294967295, without leading zeros."


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A submission of five seeds without fault."""
    use_few_examples(monkeypatch)
    return write_good(tmp_path / "submissions/mini/ours")


# --- messages --------------------------------------------------------------------------------------------------------


def test_a_good_submission_has_no_problem(ours: Path) -> None:
    assert told(ours) == []
    assert check(ours.parent) == check(ours.parent.parent) == []


def test_an_empty_folder_is_fine_and_a_missing_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Submissions lie here.")
    assert check(tmp_path) == []
    assert results(tmp_path) == []
    for read in (check, results):
        with pytest.raises(DataError) as caught:
            read(tmp_path / "none")
        assert str(caught.value) == f"{tmp_path}/none: there is no such folder of submissions."


def test_a_system_without_its_toml_is_still_one(ours: Path) -> None:
    (ours / "submission.toml").unlink()
    assert systems(ours) == [ours]
    assert ("GRUE-S002", "submission.toml", "is missing.") in told(ours)


def test_a_checkout_may_be_called_like_a_suite(tmp_path: Path) -> None:
    """The project's own name is that of a suite: grue/submissions is no system."""
    folder = tmp_path / "grue/submissions"
    folder.mkdir(parents=True)
    assert systems(folder) == []
    (folder / "mini/ours").mkdir(parents=True)
    assert systems(folder) == systems(folder / "mini") == [folder / "mini/ours"]


def test_results_carry_file_and_status(ours: Path) -> None:
    (ours / "commongen/seed-2.predictions.jsonl.gz").unlink()
    found = results(ours.parent.parent)
    assert [(e.result.seed, e.path.name, e.status) for e in found[:2]] == [
        (1, "seed-1.result.json", "rescored"),
        (2, "seed-2.result.json", "reported"),
    ]


def test_files_that_do_not_belong_are_told(ours: Path) -> None:
    (ours / "evil.py").write_text("raise SystemExit")
    (ours / "cooking").mkdir()
    (ours / "commongen/seed-01.result.json").write_text("{}")
    (ours / "commongen/seed-6.predictions.jsonl.gz").write_bytes(packed({"a": "b"}))
    seal(ours)
    assert [problem for problem in told(ours) if problem[0] == "GRUE-S001"] == [
        ("GRUE-S001", "commongen/seed-01.result.json", NO_SEED),
        ("GRUE-S001", "commongen/seed-6.predictions.jsonl.gz", "has no seed-6.result.json beside it."),
        ("GRUE-S001", "cooking", "is not a folder of a submission."),
        ("GRUE-S001", "evil.py", "is not a file of a submission."),
    ]


@pytest.mark.parametrize("seed", ["4294967296", "9999999999", "1" * 200, "007", "-1", "", "1٣", "²", "x"])
def test_a_file_of_no_seed_is_told_and_refused(ours: Path, seed: str) -> None:
    """2^32 - 1 is the largest; a digit of another script is none."""
    names = [f"seed-{seed}.{ending}" for ending in ("predictions.jsonl.gz", "result.json")]
    for name, there in zip(names, (PREDICTIONS, RESULT), strict=True):
        shutil.copy(ours / there, ours / "commongen" / name)
    seal(ours)
    assert told(ours) == [("GRUE-S001", f"commongen/{name}", NO_SEED) for name in names]
    with pytest.raises(DataError, match=f"seed-{seed}.*: names no seed, which is a whole number"):
        results(ours.parent.parent)


def test_the_largest_seed_is_one(ours: Path) -> None:
    for number in (0, 4294967295):
        hand_in(ours, number, texts_of(1, "Far away a {0} is running through the {1} and never stops."))
        for seed in SEEDS:
            (ours / f"commongen/seed-{seed}.result.json").unlink(missing_ok=True)
            (ours / f"commongen/seed-{seed}.predictions.jsonl.gz").unlink(missing_ok=True)
        say(ours, seeds=[number])
        seal(ours)
        assert [problem[0] for problem in told(ours)] == ["GRUE-S030"]  # one seed is few
        assert [entry.result.seed for entry in results(ours.parent.parent)] == [number]
        (ours / f"commongen/seed-{number}.result.json").unlink()
        (ours / f"commongen/seed-{number}.predictions.jsonl.gz").unlink()


@pytest.mark.parametrize("seed", ["-1", "4294967296", f"0x{'f' * 5_000}", "1" * 5_000])
def test_a_seed_that_is_none_is_told_in_words(ours: Path, seed: str) -> None:
    """Python writes no number of more than 4,300 digits, and reads one only as hexadecimal."""
    path = ours / "submission.toml"
    path.write_text(re.sub(r"seeds = \[[^]]*\]", f"seeds = [1, {seed}]", path.read_text()))
    result = ours / "commongen/seed-2.result.json"
    if "x" not in seed:
        result.write_text(result.read_text().replace('"seed": 2', f'"seed": {seed}'))
    seal(ours)
    of_toml, of_result = (
        "seeds: expected whole numbers from 0 to 4294967295.",
        "seed: expected a whole number from 0 to",
    )
    messages = {(problem[1], problem[2]) for problem in told(ours)}
    if len(seed) < 4_300:
        assert ("submission.toml", of_toml) in messages
        assert ("commongen/seed-2.result.json", f"{of_result} 4294967295.") in messages
    assert {problem[0] for problem in told(ours)} - {"GRUE-S030"} == (
        {"GRUE-S002"} if "x" in seed else {"GRUE-S002", "GRUE-S003"}
    )
    with pytest.raises((ConfigError, DataError)):
        results(ours.parent.parent)


def test_a_system_is_not_called_like_the_files_of_its_suite(ours: Path) -> None:
    """A folder of that name would be read in place of another system's record, and break the board."""
    for name in ("theirs.trust.json", "theirs.reported.json"):
        there = write_good(ours.with_name(name))
        wrong = "is not a valid name of a system: use letters, digits, '_', '-', '+' and '.'."
        assert ("GRUE-S001", ".", wrong) in told(there)
        shutil.rmtree(there)


def test_a_configuration_belongs_to_results(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "task_names", lambda suite: ["commongen", "imdb"])
    (ours / "imdb").mkdir()
    (ours / "imdb/config.json").write_text("{}")
    seal(ours)
    assert ("GRUE-S001", "imdb/config.json", "belongs to no result.") in told(ours)


def test_a_submission_needs_a_suite_a_name_and_a_result(tmp_path: Path) -> None:
    (tmp_path / "maxi/ours").mkdir(parents=True)
    (tmp_path / "mini/our system").mkdir(parents=True)
    assert [(p.id, p.message) for p in check(tmp_path)] == [
        ("GRUE-S001", "'maxi' is not a suite; a submission is in a folder under mini or grue."),
        ("GRUE-S001", "holds no result."),
        ("GRUE-S001", "is not a valid name of a system: use letters, digits, '_', '-', '+' and '.'."),
        ("GRUE-S011", "is missing."),
        ("GRUE-S002", "is missing."),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON: "),
        ('{"schema": 99}', "not a result of schema 1, which this version of grue reads: 99."),
        ('{"schema": 1}', "the key 'status' is missing."),
        ("[" * 90_000, "not valid JSON: "),
        ('{"schema": ' + "[" * 21 + "]" * 21 + "}", "nests deeper than 20 levels."),
    ],
)
def test_an_unreadable_result_is_told(ours: Path, content: str, message: str) -> None:
    (ours / RESULT).write_text(content)
    seal(ours)
    ((name, where, said),) = told(ours)
    assert (name, where) == ("GRUE-S003", RESULT)
    assert said.startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"suite": "grue"}, "suite: the file states 'grue', its path 'mini'."),
        ({"system": {"name": "x"}}, "system: the file states 'x', its path 'ours'."),
        ({"task": "imdb"}, "task: the file states 'imdb', its path 'commongen'."),
        ({"seed": 7}, "seed: the file states 'seed-7', its path 'seed-1'."),
    ],
)
def test_a_result_lies_where_it_says(ours: Path, change: dict[str, Any], message: str) -> None:
    edit(ours, lambda data: data.update(change))
    seal(ours)
    assert told(ours) == [("GRUE-S004", RESULT, message)]


def test_what_the_task_was_and_is_stands_in_the_message(ours: Path) -> None:
    edit(ours, lambda data: data.update(task_hash="0" * 64, split="validation"))
    seal(ours)
    version = TASK.version
    assert told(ours) == [
        (
            "GRUE-S006",
            RESULT,
            f"was evaluated on version {version} (000000000000), split 'validation'; "
            f"the task is now version {version} ({TASK.hash[:12]}), split 'test'.",
        )
    ]


@pytest.mark.parametrize(
    ("content", "number", "message"),
    [
        (b"plain", 7, "cannot be read: Not a gzipped file (b'pl')."),
        (packed(texts_of(1))[:-9], 7, "cannot be read"),
        (gzip.compress(b'{"id": "a", "txt": "x"}\n'), 7, "line 1: unknown key 'txt'. Did you mean 'text'? "),
        (gzip.compress(b'{"id": "a"}\n'), 7, "line 1: the key 'text' is missing."),
        (gzip.compress(b'{"id": "a", "text": ' + b"[" * 30 + b"]" * 30 + b"}"), 7, "line 1: nests too deeply."),
        (gzip.compress(b" " * 10_000_001), 14, "unpacks to more than 10,000,000 bytes."),
        (gzip.compress(b'{"id": "a", "text": ""}' + b"\n" * 9_000_000), 14, "has more than 200,000 lines."),
        (gzip.compress(b" " * 10), 16, "holds only white space."),
        (gzip.compress(b"\n" + b"a" * 100_001), 15, "line 2 has 100,001 characters, more than 100,000."),
    ],
)
def test_unreadable_predictions_are_told(ours: Path, content: bytes, number: int, message: str) -> None:
    (ours / PREDICTIONS).write_bytes(content)
    seal(ours)
    ((name, where, said),) = told(ours)
    assert (name, where) == (f"GRUE-S{number:03}", PREDICTIONS)
    assert said.startswith(message)


@pytest.mark.parametrize("first", [b"", b'{"id": "a", "text": ""}'])
def test_a_file_of_blank_lines_is_not_read(tmp_path: Path, first: bytes) -> None:
    path = tmp_path / "seed-1.predictions.jsonl.gz"
    path.write_bytes(gzip.compress(first + b"\n" * 9_000_000))
    with pytest.raises(DataError, match=r"gz: has more than 200,000 lines; it is not read\."):
        read_unscanned_predictions(path)


def test_ids_that_are_not_the_splits_are_told(ours: Path) -> None:
    texts = texts_of(1) | {"id-elk": "x"}
    del texts["id-man"]
    (ours / PREDICTIONS).write_bytes(packed(texts))
    seal(ours)
    ((name, where, said),) = told(ours)
    assert (name, where) == ("GRUE-S008", PREDICTIONS)
    assert re.search(r"1 missing \('id-man'\); 1 unknown \('id-elk'\)", said)


@pytest.mark.parametrize("change", [1e-7, -1e-7])
def test_rounding_is_no_difference(ours: Path, change: float) -> None:
    def shift(data: dict[str, Any]) -> None:
        """Move METEOR, of which the preference has a fifth, and what follows from it."""
        (meteor,) = [score for score in data["scores"] if score["metric"] == "meteor"]
        meteor.update(value=meteor["value"] + change, scaled=meteor["scaled"] + 100 * change)
        data.update(preference=data["preference"] + 100 * change * share)

    preferences = [spec.name for spec in TASK.metrics if spec.axis == "preference"]
    share = 1 / len(preferences) if "meteor" in preferences else 0.0
    edit(ours, shift)
    seal(ours)
    assert told(ours) == []


@pytest.mark.parametrize(
    ("change", "start"),
    [
        (lambda d: d["scores"].pop(0), "cider: is missing; computed: "),
        (lambda d: d["scores"].append(d["scores"][0] | {"metric": "x"}), "x: is not computed for this task."),
        (lambda d: d["scores"].append(d["scores"][0]), "A metric has two scores."),
        (lambda d: d["scores"][0].update(value=0.5), "cider: states 0.5; computed: "),
        (lambda d: d["scores"][0].update(signature="other"), "cider: signature: states 'other'; computed: 'cider|"),
        (lambda d: d["scores"][0].update(n=400), "cider: n: states 400; computed: 8."),
        (lambda d: d["scores"][0].update(scaled=99.0), "cider: scaled: states 99; follows: 17.7"),
        (lambda d: d.update(preference=99.0), "preference: states 99; follows: 38.6"),
        (lambda d: d.update(preference=None), "preference: states nothing; follows: 38.6"),
        (lambda d: d.update(naturalness=1.5), "naturalness: states 1.5; follows: 20."),
    ],
)
def test_every_part_of_a_score_is_compared(ours: Path, change: Callable[[dict[str, Any]], object], start: str) -> None:
    edit(ours, change)
    seal(ours)
    ((name, _, message),) = told(ours)
    assert name == "GRUE-S009"
    assert message.startswith(start)


def claims_of(value: float, **said: Any) -> list[str]:
    """Return what is wrong with IMDB's sentiment, a model's figure, where it is .9825 and `value` is claimed."""
    task = load_task("imdb")
    specs = {spec.name: spec for spec in task.metrics if spec.axis == "preference"}
    (sentiment,) = specs.values()

    def score(of: float) -> Score:
        return Score("sentiment", "preference", of, sentiment.scale(of), 4, "higher", "v1")

    truth = Scored("test", (score(0.9825),), (), {}, 98.25, None, {}, {})
    made = replace(a_result(task, "ours", 1, None, None), scores=(score(value),), preference=sentiment.scale(value))
    return [problem.message for problem in check_claims(Path("x"), replace(made, **said), truth, task)]


def test_a_models_figure_may_differ_in_its_last_digits() -> None:
    assert claims_of(0.9825 + 9e-5) == []
    assert claims_of(0.9825 + 2e-4) == ["sentiment: states 0.9827; computed: 0.9825."]


def test_the_axes_follow_from_the_figures() -> None:
    """Once a preference of 99.22 passed where the figure said .9825: the tolerance was meant for the figure."""
    assert claims_of(0.9825, preference=99.22) == ["preference: states 99.22; follows: 98.25."]
    assert claims_of(0.9825, preference=98.2501) == ["preference: states 98.2501; follows: 98.25."]


def test_a_failed_run_counts_without_predictions(ours: Path) -> None:
    edit(ours, lambda data: data.update(status="failed", scores=[], preference=None, naturalness=None))
    (ours / PREDICTIONS).unlink()
    seal(ours)
    assert told(ours) == []


def test_all_problems_are_told_not_the_first(ours: Path) -> None:
    (ours / "notes.txt").write_text("x")
    say(ours, seeds=[1], licence="")
    edit(ours, lambda data: data.update(limited=True, seed=9))
    (ours / "commongen/seed-2.predictions.jsonl.gz").write_bytes(packed({"a": "b"}))
    (ours / "commongen/seed-3.result.json").write_text("{")
    (ours / "commongen/seed-3.predictions.jsonl.gz").write_bytes(b"x")
    broken = write_good(ours.with_name("broken"), how=OTHER_WAY)
    (broken / "submission.toml").write_bytes(b"\xff")
    found = {(problem.id[-2:], Path(problem.path).name) for problem in check(ours.parent.parent)}
    assert found >= {
        ("01", "notes.txt"),
        ("02", "submission.toml"),
        ("03", "seed-3.result.json"),
        ("04", "seed-1.result.json"),
        ("05", "seed-1.result.json"),
        ("07", "seed-3.predictions.jsonl.gz"),
        ("08", "seed-2.predictions.jsonl.gz"),
        ("10", "commongen"),
        ("12", "submission.toml"),
        ("25", "submission.toml"),
    }


def test_examples_are_loaded_once_for_all_systems(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    def load(task: Any, split: str, offline: bool = False) -> Any:
        calls.append((task.name, split))
        return few_examples(task, split)

    write_good(ours.with_name("theirs"), how=OTHER_WAY)
    monkeypatch.setattr(rescoring, "load_examples", load)
    check(ours.parent.parent)
    assert calls == [("commongen", "test"), ("commongen", "train")]


# --- what is no fault of the submission ------------------------------------------------------------------------------


def test_data_that_cannot_be_had_is_no_fault_of_the_submission(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescoring, "load_examples", no_examples)
    with pytest.raises(Unavailable) as caught:
        check(ours)
    assert str(caught.value) == "This machine could not check everything:\nmini/commongen: no network"


def test_a_metric_that_cannot_be_had_is_no_fault_of_the_submission(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score = rescoring.score_predictions

    def without_cider(*arguments: Any, prepare: Any) -> Any:
        scored = score(*arguments, prepare=prepare)
        return replace(scored, scores=scored.scores[1:], preference=None, errors=("cider: no such model",))

    monkeypatch.setattr(rescoring, "score_predictions", without_cider)
    with pytest.raises(Unavailable, match=r"mini/commongen: cider: no such model$"):
        check(ours)
    edit(ours, lambda data: data["scores"][1].update(value=0.123))
    seal(ours)
    assert [(name, message.partition(":")[0]) for name, _, message in _below(ours)] == [
        ("GRUE-S039", "mini/commongen"),
        ("GRUE-S009", "rouge2"),
    ]


def _below(ours: Path) -> Iterator[tuple[str, str, str]]:
    return ((p.id, p.path, p.message) for p in check(ours))


def test_texts_that_no_metric_can_score_are_told(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise DataError("not a finite number")

    monkeypatch.setattr(rescoring, "score_predictions", refuse)
    monkeypatch.setattr(rescoring, "check_against_references", lambda *_: [])
    assert {(name, message) for name, _, message in told(ours)} == {
        ("GRUE-S009", "cannot be scored: not a finite number")
    }
    monkeypatch.setattr(rescoring, "prepared_metric", refuse)
    with pytest.raises(Unavailable, match=r"mini/commongen: not a finite number$"):
        check(ours)


# --- other systems ---------------------------------------------------------------------------------------------------


def test_references_may_be_alike_and_say_what_people_said(ours: Path) -> None:
    """A lead and a copy of short prompts are the same texts; neither has a rank, nor five seeds."""
    shutil.rmtree(ours)
    for name in ("copy", "oracle"):
        system = ours.with_name(name)
        say(system, deterministic=True, seeds=[1])
        hand_in(system, 1, {example.id: example.references[0] for example in EXAMPLES})
        seal(system)
    assert check(ours.parent.parent) == []
    say(system, seeds=[1])
    seal(system)
    assert [problem.id for problem in check(system)] == ["GRUE-S023", "GRUE-S030", "GRUE-S018", "GRUE-S033"]


def test_what_learned_nothing_is_a_reference_with_five_seeds_or_with_one_and_on_some_tasks(
    ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lookups say what people said in training, and nearly what other references say.

    A backbone says the same for every seed where its answers are not sampled.
    """
    shutil.rmtree(ours)
    for name, seeds in (("nearest", (1,)), ("mbr", (1,)), ("best-of-n", SEEDS), ("zero-shot", SEEDS)):
        system = ours.with_name(name)
        say(system, algorithm=name, backbone="none", seeds=list(seeds), deterministic=len(seeds) == 1)
        for seed in seeds:
            drawn = 1 if name == "zero-shot" else seed
            hand_in(system, seed, {**texts_of(drawn), EXAMPLES[0].id: f"Draw {drawn}."})
            edit(system, lambda data, name=name: data["system"].update(algorithm=name), seed)
        seal(system)
    for module in (checks, structure):
        monkeypatch.setattr(module, "task_names", lambda suite: ["commongen", "imdb"])
    assert check(ours.parent.parent) == []


def test_a_system_is_held_against_others_elsewhere(ours: Path, tmp_path: Path) -> None:
    """The merge base has the system itself, in its last version, and one with the same texts under another name."""
    for name in ("ours", "theirs"):
        write_good(tmp_path / f"base/mini/{name}")
    assert check(ours) == []
    found = check(ours, others=tmp_path / "base")
    assert {problem.id for problem in found} == {"GRUE-S018"}
    assert len(found) == len(SEEDS)
    assert found[0].message == "has the same texts as theirs, seed-1.predictions.jsonl.gz."


def test_a_neighbour_that_cannot_be_read_is_no_problem_of_ours(ours: Path) -> None:
    theirs = ours.with_name("theirs")
    (theirs / "commongen").mkdir(parents=True)
    (theirs / "submission.toml").write_bytes(b"\xff")
    (theirs / RESULT).write_bytes(b"\xff")
    (theirs / PREDICTIONS).write_bytes(b"\xff")
    assert check(ours) == []


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [
        ("NLPO-1", "nlpo_l", True),
        ("lead", "Iead", True),
        ("modern", "rnodem", True),
        ("0racle", "oracle", True),
        ("zero-shot", "zero_shot", True),
        ("ppo-1.1", "ppo-11", True),
        ("supervised+nlpo", "supervised-nlpo", True),
        ("ppo", "nlpo", False),
    ],
)
def test_names_that_look_alike(one: str, other: str, are_alike: bool) -> None:
    assert (skeleton(one) == skeleton(other)) is are_alike


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ({"authors": ["Łukasz Żółć", "王 伟", "さくら 花子", "Αλέξανδρος", "محمد علي"]}, None),
        ({"link": "https://example.org/a?b=c&d=e#f"}, None),
        ({"link": "http://[::1"}, 24),
        ({"link": "https:///path"}, 24),
        ({"link": "https://a.org/<script>"}, 24),
        ({"link": "data:text/html,x"}, 24),
        ({"budget": "one\nhour"}, 22),
        ({"contact": "a\u200bb"}, 22),
        ({"algorithm": "ppo\u2066"}, 22),
        ({"backbone": "gрt2"}, 22),
    ],
)
def test_what_may_be_said(ours: Path, said: Mapping[str, Any], number: int | None) -> None:
    say(ours, **said)
    seal(ours)
    assert {name for name, _, _ in told(ours)} == ({f"GRUE-S{number:03}"} if number else set())


def test_too_many_files_are_not_looked_at(ours: Path) -> None:
    for index in range(MOST_FILES):
        os.mknod(ours / f"commongen/{index}")
    assert told(ours) == [("GRUE-S014", ".", f"holds more than {MOST_FILES:,} files; none of them was read.")]


def test_a_sample_recomputes_one_seed_and_checks_everything_else_of_all(ours: Path) -> None:
    for seed in SEEDS:
        edit(ours, lambda data: data["scores"][1].update(value=0.123), seed)
    seal(ours)
    everything = {problem.path for problem in check(ours) if "computed" in problem.message}
    assert len(everything) == len(SEEDS)
    drawn = [
        {problem.path for problem in check(ours, sample=str(n)) if "computed" in problem.message} for n in range(12)
    ]
    assert all(len(found) == 1 and found < everything for found in drawn)
    assert len(set.union(*drawn)) > 1, "another text may draw another seed"
    assert check(ours, sample="1") == check(ours, sample="1")
    edit(ours, lambda data: data["hashes"].update(predictions="0" * 64), 2)
    seal(ours)
    for n in range(6):
        [other] = [problem for problem in check(ours, sample=str(n)) if "predictions: states" in problem.message]
        assert other.path.endswith("seed-2.result.json")


def test_what_is_handed_in_is_recomputed_whole() -> None:
    done = CliRunner().invoke(main, ["submit", "check", "--sample", "a", "--against", "main"])
    assert done.exit_code == 2 and "--sample is for submissions that stand" in done.stderr


def test_two_processes_find_what_one_does(tmp_path: Path) -> None:
    """Two tasks of the suite as it is, with one result each for examples that are none of theirs."""
    system = tmp_path / "mini/ours"
    say(system, seeds=[1])
    for name in ("commongen", "totto"):
        (system / name).mkdir()
        (system / name / "seed-1.predictions.jsonl.gz").write_bytes(packed({"a": "b"}))
        files.write_json(system / name / "seed-1.result.json", a_result(load_task(name), "ours", 1, 50.0))
    seal(system)
    found = check(system, processes=2)
    assert found == check(system, processes=1)
    assert [problem.id for problem in found] == ["GRUE-S030", "GRUE-S031", "GRUE-S008", "GRUE-S008"]


def test_messages_show_what_cannot_be_seen() -> None:
    assert visible("a\u202eb\n\udcff é 東\x1b[31m") == r"a\u202eb\n\udcff é 東\x1b[31m"
    problem = error(1, Path("x\u202ey"), "z" * 5_000)
    assert (problem.path, len(problem.message)) == (r"x\u202ey", 1_000)
    assert json.loads(json.dumps(files.plain(problem)))["id"] == "GRUE-S001"


def test_a_path_without_a_submission_is_not_fine(ours: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (ours / "commongen", tmp_path / "empty"):
        done = CliRunner().invoke(main, ["submit", "check", str(path)])
        assert done.exit_code == 3 and f"{path}: holds no submission" in done.stderr
