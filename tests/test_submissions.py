"""Submissions: the good one passes, and every way to be wrong is told with its id, place and cure."""

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from factories import a_result

from grue import files
from grue.errors import DataError
from grue.records import Example, Prediction, Result
from grue.scoring import score_predictions
from grue.submissions import checks
from grue.submissions.checks import check
from grue.submissions.folder import results
from grue.submissions.problems import CURES
from grue.tasks import load_task

TASK = load_task("commongen")
EXAMPLES = [
    Example(
        "a", "generate a sentence with: dog run.", ("A dog runs.", "The dog runs fast."), {"concepts": ["dog", "run"]}
    ),
    Example("b", "generate a sentence with: cat sit.", ("The cat sits here.",), {"concepts": ["cat", "sit"]}),
    Example("c", "generate a sentence with: man walk.", ("A man is walking.",), {"concepts": ["man", "walk"]}),
]
TEXTS = {"a": "A dog runs fast.", "b": "The cat sits.", "c": "A walk."}
TOML = {
    "name": "ours",
    "authors": ["A. Author"],
    "licence": "CC-BY-4.0",
    "algorithm": "ppo",
    "backbone": "mini:seq2seq",
    "seeds": [1, 2],
    "training_data": "none",
    "budget": "1 GPU hour",
}


@pytest.fixture(autouse=True)
def _few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "load_examples", lambda task, split: SimpleNamespace(examples=EXAMPLES))


def a_scored_result(seed: int, texts: dict[str, str]) -> Result:
    scored = score_predictions(TASK, "test", EXAMPLES, [Prediction(*pair) for pair in texts.items()])
    result = a_result(TASK, "ours", seed, scored.preference, scored.naturalness)
    return replace(result, scores=scored.scores, hashes=scored.hashes, counts=scored.counts)


def predictions(texts: dict[str, str]) -> bytes:
    return gzip.compress("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in texts.items()).encode())


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A submission of two seeds without fault."""
    system = tmp_path / "submissions/mini/ours"
    files.write_toml(system / "submission.toml", TOML)
    for seed in (1, 2):
        texts = TEXTS | {"b": f"The cat sits {seed}."}
        files.write_json(system / f"commongen/seed-{seed}.result.json", a_scored_result(seed, texts))
        (system / f"commongen/seed-{seed}.predictions.jsonl.gz").write_bytes(predictions(texts))
    return system


def edit(system: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the result of seed 1."""
    path = system / "commongen/seed-1.result.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


def told(system: Path) -> list[tuple[str, str, str]]:
    """Check, and return (id, path below the system, message) of every problem."""
    problems = check(system)
    for problem in problems:
        assert problem.severity == "error"
        assert problem.cure == CURES[problem.id]
    assert check(system.parent.parent) == problems  # from above, the same is found
    return [(p.id, Path(p.path).relative_to(system).as_posix(), p.message) for p in problems]


def test_a_good_submission_has_no_problem(ours: Path) -> None:
    assert told(ours) == []


def test_an_empty_folder_is_fine_and_a_missing_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Submissions lie here.")
    assert check(tmp_path) == []
    assert results(tmp_path) == []
    for read in (check, results):
        with pytest.raises(DataError) as caught:
            read(tmp_path / "none")
        assert str(caught.value) == f"{tmp_path}/none: there is no such folder of submissions."


def test_results_carry_file_and_status(ours: Path) -> None:
    (ours / "commongen/seed-2.predictions.jsonl.gz").unlink()
    found = results(ours.parent.parent)
    assert [(e.result.seed, e.path.name, e.status) for e in found] == [
        (1, "seed-1.result.json", "rescored"),
        (2, "seed-2.result.json", "reported"),
    ]


def test_files_that_do_not_belong_are_told(ours: Path) -> None:
    (ours / "evil.py").write_text("raise SystemExit")
    (ours / "cooking").mkdir()
    files.write_json(ours / "cooking/seed-1.result.json", {})
    (ours / "commongen/seed-01.result.json").write_text("{}")
    (ours / "commongen/seed-3.predictions.jsonl.gz").write_bytes(b"")
    assert told(ours) == [
        ("GRUE-S001", "commongen/seed-01.result.json", "is not a file of a submission."),
        ("GRUE-S001", "cooking/seed-1.result.json", "is not a file of a submission."),
        ("GRUE-S001", "evil.py", "is not a file of a submission."),
        ("GRUE-S001", "commongen/seed-3.predictions.jsonl.gz", "has no seed-3.result.json beside it."),
    ]


def test_a_link_stops_the_reading(ours: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (ours / "commongen/seed-3.result.json").symlink_to(tmp_path / "secret")
    assert told(ours) == [("GRUE-S001", "commongen/seed-3.result.json", "is a link.")]


def test_a_submission_needs_a_suite_a_name_and_a_result(tmp_path: Path) -> None:
    (tmp_path / "maxi/ours").mkdir(parents=True)
    (tmp_path / "mini/our system").mkdir(parents=True)
    assert [(p.id, p.message) for p in check(tmp_path)] == [
        ("GRUE-S001", "'maxi' is no suite; a submission lies under mini or grue."),
        ("GRUE-S001", "is no name of a system: use letters, digits, '_', '-', '+' and '.'."),
        ("GRUE-S001", "holds no result."),
        ("GRUE-S002", "cannot be read: No such file or directory."),
    ]


def test_submission_toml_is_read_strictly(ours: Path) -> None:
    files.write_toml(ours / "submission.toml", TOML | {"link": "https://example.org", "check": False})
    ((name, path, message),) = told(ours)
    assert (name, path) == ("GRUE-S002", "submission.toml")
    assert message.startswith("unknown key 'check'. Known: name, authors, ")
    files.write_toml(ours / "submission.toml", TOML | {"name": "theirs"})
    assert told(ours) == [("GRUE-S002", "submission.toml", "name: 'theirs', but the folder is called 'ours'.")]


def test_declared_seeds_are_the_files(ours: Path) -> None:
    files.write_toml(ours / "submission.toml", TOML | {"seeds": [3, 1, 2]})
    assert told(ours) == [("GRUE-S010", "commongen", "has seeds 1, 2; submission.toml declares 1, 2, 3.")]
    files.write_toml(ours / "submission.toml", TOML | {"seeds": [1, 2, 2]})
    assert told(ours) == [("GRUE-S010", "submission.toml", "seeds: one stands there twice: 1, 2, 2.")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON: "),
        ('{"schema": 99}', "not a result of schema 1, which this version of grue reads: 99."),
        ('{"schema": 1}', "the key 'status' is missing."),
        ("[" * 100_000, "not valid JSON: "),
    ],
)
def test_an_unreadable_result_is_told(ours: Path, content: str, message: str) -> None:
    (ours / "commongen/seed-1.result.json").write_text(content)
    ((name, where, said),) = told(ours)
    assert (name, where) == ("GRUE-S003", "commongen/seed-1.result.json")
    assert said.startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"suite": "grue"}, "suite: the file says 'grue', its place says 'mini'."),
        ({"system": {"name": "x"}}, "system: the file says 'x', its place says 'ours'."),
        ({"task": "imdb"}, "task: the file says 'imdb', its place says 'commongen'."),
        ({"seed": 7}, "seed: the file says 'seed-7', its place says 'seed-1'."),
    ],
)
def test_a_result_lies_where_it_says(ours: Path, change: dict[str, Any], message: str) -> None:
    edit(ours, lambda data: data.update(change))
    assert told(ours) == [("GRUE-S004", "commongen/seed-1.result.json", message)]


def test_a_limited_result_is_told(ours: Path) -> None:
    edit(ours, lambda data: data.update(limited=True))
    assert told(ours) == [("GRUE-S005", "commongen/seed-1.result.json", "was scored on a part of the split.")]


@pytest.mark.parametrize(("key", "value"), [("task_hash", "0" * 64), ("split", "validation")])
def test_a_result_of_another_task_or_split_is_told(ours: Path, key: str, value: str) -> None:
    edit(ours, lambda data: data.update({key: value}))
    now = {"task_hash": TASK.hash, "split": "test"}
    said = [f"{v['task_hash'][:12]}, split {v['split']!r}" for v in (now | {key: value}, now)]
    message = f"what was evaluated and what the task is now differ: {said[0]} and {said[1]}."
    assert told(ours) == [("GRUE-S006", "commongen/seed-1.result.json", message)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory."),
        (b"plain", "cannot be read: Not a gzipped file (b'pl')."),
        (predictions(TEXTS)[:-9], "cannot be read"),
        (gzip.compress(b'{"id": "a", "txt": "x"}\n'), "line 1: unknown key 'txt'. Did you mean 'text'? "),
        (gzip.compress(b" " * 10_000_001), "unpacks to more than 10,000,000 bytes."),
    ],
)
def test_unreadable_predictions_are_told(ours: Path, content: bytes | None, message: str) -> None:
    path = ours / "commongen/seed-1.predictions.jsonl.gz"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    ((name, where, said),) = told(ours)
    assert (name, where) == ("GRUE-S007", "commongen/seed-1.predictions.jsonl.gz")
    assert said.startswith(message)


def test_ids_that_are_not_the_splits_are_told(ours: Path) -> None:
    (ours / "commongen/seed-1.predictions.jsonl.gz").write_bytes(predictions({"a": "x", "b": "y", "z": "w"}))
    ((name, where, said),) = told(ours)
    assert (name, where) == ("GRUE-S008", "commongen/seed-1.predictions.jsonl.gz")
    assert re.search(r"1 missing \('c'\); 1 unknown \('z'\)", said)


def test_a_score_that_does_not_follow_from_the_predictions_is_told(ours: Path) -> None:
    def raise_meteor(data: dict[str, Any]) -> None:
        (meteor,) = [score for score in data["scores"] if score["metric"] == "meteor"]
        meteor["value"] += 2e-6

    edit(ours, raise_meteor)
    ((name, where, message),) = told(ours)
    assert (name, where) == ("GRUE-S009", "commongen/seed-1.result.json")
    assert re.match(r"meteor: says 0\.\d+ → .*; computed from the predictions: 0\.\d+ → ", message)


@pytest.mark.parametrize("change", [1e-7, -1e-7])
def test_rounding_is_no_difference(ours: Path, change: float) -> None:
    edit(ours, lambda data: [score.update(value=score["value"] + change) for score in data["scores"]])
    assert told(ours) == []


@pytest.mark.parametrize(
    ("change", "start"),
    [
        (lambda d: d["scores"].pop(0), "cider: missing; computed from the predictions: "),
        (lambda d: d["scores"].append(d["scores"][0] | {"metric": "x"}), "x: is not computed for this task."),
        (lambda d: d["scores"][0].update(signature="other"), "cider: says "),
        (lambda d: d["scores"][0].update(n=400), "cider: says "),
        (lambda d: d["scores"][0].update(scaled=99.0), "cider: says "),
        (lambda d: d.update(preference=99.0), "preference: says 99.0; computed from the predictions: "),
        (lambda d: d.update(preference=None), "preference: says None; computed from the predictions: "),
        (lambda d: d.update(naturalness=50.0), "naturalness: says 50.0; computed from the predictions: 60.0."),
    ],
)
def test_every_part_of_a_score_is_compared(ours: Path, change: Callable[[dict[str, Any]], object], start: str) -> None:
    edit(ours, change)
    ((name, _, message),) = told(ours)
    assert name == "GRUE-S009"
    assert message.startswith(start)


def test_a_metric_that_runs_a_model_may_differ_in_its_last_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IMDB's metrics run models; here their values are given."""
    task = load_task("imdb")
    truth = a_result(task, "ours", 1, 40.0, 50.0)
    scores = tuple(replace(s, metric=spec.name) for s, spec in zip(truth.scores, task.metrics, strict=True))
    truth = replace(truth, scores=scores)
    monkeypatch.setattr(checks, "score_predictions", lambda *_: truth)
    system = tmp_path / "mini/ours"
    files.write_toml(system / "submission.toml", TOML | {"seeds": [1]})
    (system / "imdb").mkdir()
    (system / "imdb/seed-1.predictions.jsonl.gz").write_bytes(predictions({}))
    for shift, problems in ((9e-5, 0), (2e-4, 1)):
        first = replace(scores[0], value=scores[0].value + shift)
        files.write_json(system / "imdb/seed-1.result.json", replace(truth, scores=(first, scores[1])))
        assert len(check(system)) == problems


def test_a_failed_run_needs_no_predictions(ours: Path) -> None:
    edit(ours, lambda data: data.update(status="failed", scores=[], preference=None))
    (ours / "commongen/seed-1.predictions.jsonl.gz").unlink()
    assert told(ours) == []


def test_all_problems_are_told_not_the_first(ours: Path) -> None:
    (ours / "notes.txt").write_text("")
    files.write_toml(ours / "submission.toml", TOML | {"seeds": [1]})
    edit(ours, lambda data: data.update(limited=True, seed=9))
    (ours / "commongen/seed-2.predictions.jsonl.gz").write_bytes(predictions({}))
    assert [name[-4:] for name, _, _ in told(ours)] == ["S001", "S010", "S004", "S005", "S008"]


def test_examples_are_loaded_once(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    def load(task: Any, split: str) -> Any:
        calls.append((task.name, split))
        return SimpleNamespace(examples=EXAMPLES)

    monkeypatch.setattr(checks, "load_examples", load)
    assert check(ours) == []
    assert calls == [("commongen", "test")]


def test_data_that_cannot_be_had_is_no_fault_of_the_submission(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(task: Any, split: str) -> Any:
        raise DataError("no network")

    monkeypatch.setattr(checks, "load_examples", load)
    with pytest.raises(DataError, match=r"^no network$"):
        check(ours)
