"""Two systems compared: found by name or folder, tested on their predictions, and shown."""

import gzip
import json
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from support.commands import grue
from support.factories import a_result, a_task
from support.own_task import OWN_TASK
from support.paths import TESTS

from grue import files
from grue.api import score as api
from grue.cli.compare import show_comparison
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError, SubmissionError, Unavailable, UnknownName
from grue.evaluation.comparison import Disagreement, Side, axis_metrics
from grue.leaderboard.compare import Comparison, TaskComparison, compare_systems
from grue.leaderboard.systems import find_systems
from grue.records import Example
from grue.stats.intervals import Interval
from grue.stats.paired import Difference, MeanDifference
from grue.submissions.folder import Submission
from grue.task_files import load_task
from grue.tasks import MetricSpec

QA, TABLES = TASKS = [
    a_task(name, (MetricSpec("rougeL", "preference", (0.0, 1.0)),), reward="rougeL")
    for name in ("narrativeqa", "totto")
]
NAMES = [task.name for task in TASKS]
EXAMPLES = [Example(f"e{i}", f"question {i}", (f"answer number {i}",)) for i in range(20)]


@pytest.fixture(autouse=True)
def loaded(monkeypatch):
    """The examples of both tasks are at hand; own task files are loaded as ever."""
    monkeypatch.setattr(
        "grue.leaderboard.compare.load_examples", lambda task, split, offline: SimpleNamespace(examples=EXAMPLES)
    )


def write_run(folder, name, seed=1, right_every=2, task=QA, said=None, **changes):
    """A run of the layout of runs/, right on every nth example and on no word of the others; returns its folder."""
    place = folder / task.suite / task.name / name / f"seed-{seed}"
    result = replace(a_result(task, name, seed, 50.0, **changes), system={"name": name, **(said or {})})
    files.write_json(place / "result.json", files.plain(result))
    texts = {one.id: one.references[0] if i % right_every == 0 else "?" for i, one in enumerate(EXAMPLES)}
    files.write_jsonl(place / "predictions.jsonl", [{"id": name, "text": text} for name, text in texts.items()])
    return place


def write_submission(folder, system, seeds, declared=None):
    place = folder / "mini" / system
    submission = Submission(
        system, ("We",), "CC-BY-4.0", "ppo", "mini:seq2seq", tuple(declared or seeds), "none", "1 hour"
    )
    files.write_toml(place / "submission.toml", files.plain(submission))
    (place / "narrativeqa").mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        run = write_run(folder / "unpacked", system, seed)
        (run / "result.json").rename(place / f"narrativeqa/seed-{seed}.result.json")
        packed = gzip.compress((run / "predictions.jsonl").read_bytes())
        (place / f"narrativeqa/seed-{seed}.predictions.jsonl.gz").write_bytes(packed)
    return place


def find(folder, *given):
    return find_systems(given, "mini", folder / "submissions", folder / "runs", NAMES)


def compare(folder, a, b, tasks=TASKS, **options):
    return compare_systems(*find(folder, a, b), tasks, np.random.default_rng(0), **{"draws": 100, **options})


def shown(compared):
    """What a terminal of 80 columns shows."""
    show_comparison(compared, Console(file=(written := StringIO()), width=80, highlight=False))
    return written.getvalue()


def test_systems_are_found_by_name_and_by_folder(tmp_path):
    runs = tmp_path / "runs"
    write_run(runs, "ours", 1)
    write_run(runs, "ours", 2)
    submitted = write_submission(tmp_path / "submissions", "theirs", [1, 2])
    ours, theirs = find(tmp_path, "ours", "theirs")
    assert (ours.name, ours.origin, ours.deterministic, theirs.origin) == ("ours", "runs", False, "submissions")
    assert {task: list(seeds) for task, seeds in ours.entries.items()} == {"narrativeqa": [1, 2]}
    for folder in (submitted, runs / "mini/narrativeqa/ours", runs / "mini/narrativeqa/ours/seed-1"):
        (found,) = find(tmp_path, str(folder))
        assert (found.origin, found.name) == (str(folder), "theirs" if folder == submitted else "ours")


def test_a_name_in_both_places_is_refused_until_it_says_which(tmp_path, refused):
    write_run(tmp_path / "runs", "both")
    write_submission(tmp_path / "submissions", "both", [1, 2])
    assert [one.origin for one in find(tmp_path, "submissions:both", "runs:both")] == ["submissions", "runs"]
    with refused(ConfigError):
        find(tmp_path, "both", "runs:both")


def test_a_system_is_known_by_the_algo_that_made_it(tmp_path, refused):
    plus = "reinforce_plus_plus"
    made = {"mine": "supervised+plain:PLAIN", "other": plus, "other+best-of-8": plus, "p1": "ppo", "p2": "ppo"}
    for name, algorithm in made.items():
        best = {"generation": {"best_of": {"n": 8}}} if "best" in name else {}
        write_run(tmp_path / "runs", name, said={"algorithm": algorithm}, **best)
    for given, wanted in {
        "supervised+plain:PLAIN": "mine",
        "runs:supervised+plain:PLAIN": "mine",
        "reinforce++": "other",
        "p1": "p1",
    }.items():
        (found,) = find(tmp_path, given)
        assert (found.name, bool(found.renamed)) == (wanted, given != wanted), given
    with refused(ConfigError):
        find(tmp_path, "ppo")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two runs, one not evaluated, a folder without results, one with two systems, and one of another suite."""
    folder = tmp_path_factory.mktemp("place")
    write_run(folder / "runs", "ours")
    (folder / "runs/mini/totto/ours+ppo/seed-1/checkpoint").mkdir(parents=True)
    (folder / "empty").mkdir()
    for name in ("one", "two"):
        write_run(folder / "several", name)
    write_run(folder / "grue", "ours", suite="grue")
    return folder


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("urs", UnknownName),
        ("runs:ours+ppo", UnknownName),
        ("submissions:ours", UnknownName),
        ("old:ours", ConfigError),
        ("{0}/nowhere", DataError),
        ("{0}/empty", ConfigError),
        ("{0}/several", ConfigError),
        ("{0}/grue", ConfigError),
    ],
)
def test_what_is_no_system_is_told(place, refused, given, error):
    with refused(error):
        find(place, given.format(place), "ours")


@pytest.mark.parametrize(
    "changes",
    [
        {"limited": True},
        {"task_hash": "0" * 64},
        {"split": "dev"},
        {"hashes": {"examples": "0" * 64}},
        {"task": TABLES},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_results_that_cannot_be_compared_are_refused(tmp_path, refused, changes):
    write_run(tmp_path / "runs", "ours")
    write_run(tmp_path / "runs", "theirs", **changes)
    with refused(DataError):
        compare(tmp_path, "ours", "theirs")


def test_predictions_must_be_there_and_fit_and_no_seed_or_task_can_be_left_out(tmp_path, refused):
    write_run(tmp_path / "runs", "ours")
    path = write_run(tmp_path / "runs", "theirs") / "predictions.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    with refused(SubmissionError):
        compare(tmp_path, "ours", "theirs")
    path.unlink()
    with refused(DataError):
        compare(tmp_path, "ours", "theirs")
    submitted = write_submission(tmp_path / "submissions", "sent", [1, 2], declared=[1, 2, 3])
    with refused(SubmissionError):
        compare(tmp_path, "ours", str(submitted))
    write_run(tmp_path / "runs", "ours", task=load_task("imdb"))
    refused.command("compare", "ours", "ours", "--task", "totto", "--runs", tmp_path / "runs", code=3)


def test_a_task_that_cannot_be_scored_here_is_left_out_and_told(tmp_path, refused, monkeypatch):
    for name in ("ours", "theirs"):
        write_run(tmp_path / "runs", name)
        write_run(tmp_path / "runs", name, task=TABLES)

    def without(task, examples, axis):
        if task.name in missing:
            raise Unavailable("parent cannot run here.")
        return axis_metrics(task, examples, axis)

    monkeypatch.setattr("grue.leaderboard.compare.axis_metrics", without)
    missing = {"totto"}
    compared = compare(tmp_path, "ours", "theirs")
    assert [task.task for task in compared.tasks] == ["narrativeqa"]
    assert compared.notes[0] == "totto is left out: parent cannot run here."
    missing = {"totto", "narrativeqa"}
    for tasks in (TASKS, [TABLES]):
        with refused(Unavailable):
            compare(tmp_path, "ours", "theirs", tasks)


def test_what_a_result_claims_is_not_used(tmp_path):
    """All claim a preference of 50; a share of 1, 1/2, 1/10 and 1/20 of the answers is right."""
    for seed, every in ((1, 1), (2, 2)):
        write_run(tmp_path / "runs", "better", seed, every)
        write_run(tmp_path / "runs", "worse", seed, 10 * every)
    write_run(tmp_path / "runs", "better", task=TABLES)
    (tmp_path / "runs/mini/narrativeqa/worse/seed-3").mkdir()
    failed = a_result(QA, "worse", 4, None, None, status="failed")
    files.write_json(tmp_path / "runs/mini/narrativeqa/worse/seed-4/result.json", files.plain(failed))
    compared = compare(tmp_path, "better", "worse", draws=500, show=2)
    (found,) = compared.tasks
    assert (found.difference.a, found.difference.b) == pytest.approx((75, (10 + 5 + 0) / 3))
    assert (found.verdict, found.seeds_a, found.seeds_b) == ("too close to call", (1, 2), (1, 2, 4))
    assert (compared.only_a, compared.only_b) == (("totto",), ())
    assert compared.notes == (
        "narrativeqa: worse failed with seed 4, which counts as 0.",
        "narrativeqa: seed-3 of worse has no result yet and is left out.",
    )
    assert [example.id for example in found.examples] == ["e2", "e4"], "A is right twice, B never"


def test_one_seed_gets_no_verdict_but_that_of_a_baseline(tmp_path):
    for name, every, seeds in (("one", 1, (1,)), ("two", 10, (1, 2)), ("null", 1, (1,))):
        for seed in seeds:
            write_run(tmp_path / "runs", name, seed, every, said={"algorithm": name})
    compared = compare(tmp_path, "one", "two", draws=500)
    assert (compared.tasks[0].verdict, compared.tasks[0].p_holm < 0.01) == ("one seed: no verdict", True)
    assert compared.notes == (
        "one has one seed on narrativeqa: p and intervals do not cover what other seeds would give.",
    )
    compared = compare(tmp_path, "null", "two", draws=500)
    assert compared.tasks[0].verdict == "A better"
    assert compared.notes == ("null depends on no seed: one result is complete.",)


S1, S2, S3 = (f"s{k}" for k in (1, 2, 3))
TWO, THREE = [("a1", S1), ("a2", S2)], [("a1", S1), ("a2", S2), ("a3", S3)]


@pytest.mark.parametrize(
    ("a", "b", "paired"),
    [
        (THREE, [("b1", S1), ("b2", S2), ("b3", S3)], True),  # from the same starts
        (THREE, [(S1, None), (S2, None), (S3, None)], True),  # one is the other's start
        (TWO, [("b1", S1), ("b2", S2)], False),  # two say too little of their variance
        (THREE, [("b1", S1), ("b2", S2), ("b3", "s4")], False),
        ([(name, S1) for name, _ in THREE], [("b1", S1), ("b2", S1), ("b3", S1)], False),  # one start for all
        ([("a1", None), ("a2", None), ("a3", None)], [("b1", None), ("b2", None), ("b3", None)], False),
        (TWO, [("b1", S1), ("b2", S2), ("b3", S3)], False),
        ([("", "")] * 3, [("", "")] * 3, False),
    ],
)
def test_seeds_that_began_alike_are_paired(tmp_path, a, b, paired):
    for name, every, runs in (("a", 2, a), ("b", 3, b)):
        for seed, (weights, start) in enumerate(runs, 1):
            line = {"weights": weights} | ({} if start is None else {"start": start})
            write_run(tmp_path / "runs", name, seed, every, said=line)
    compared = compare(tmp_path, "a", "b")
    assert compared.tasks[0].difference.paired == paired
    said = "Seeds are paired: seed k of both began from the same weights."
    assert (said in " ".join(shown(compared).split())) == paired


@pytest.mark.parametrize("common", [2, 3])
def test_a_seed_that_one_system_alone_has_is_told_where_it_keeps_others_from_being_pairs(tmp_path, common):
    for name, every, seeds in (("a", 2, common), ("b", 3, common + 1)):
        for seed in range(1, seeds + 1):
            write_run(tmp_path / "runs", name, seed, every, said={"weights": f"{name}{seed}", "start": f"s{seed}"})
    compared = compare(tmp_path, "a", "b")
    assert not compared.tasks[0].difference.paired
    said = (
        "narrativeqa: seeds are not paired, since one system alone has seed 4; a and b began alike with seed 1, 2, 3. "
        "With the same seeds the test tells smaller differences."
    )
    assert (said in compared.notes) == (common == 3)


def test_a_system_equals_itself_and_progress_counts_files_of_predictions(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / "runs", "ours", seed)
    seen = []
    compared = compare(tmp_path, "ours", "ours", show=3, progress=lambda done, total: seen.append((done, total)))
    assert (compared.tasks[0].difference.value, compared.tasks[0].p_holm) == (0.0, 1.0)
    assert (compared.tasks[0].verdict, compared.tasks[0].examples) == ("equal", ())
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


def test_unlike_budgets_are_told(tmp_path):
    for name, calls in (("ours", 4096.0), ("theirs", 2048.0)):
        last = {"update": 16, "training": {"reward_calls": calls}}
        write_run(tmp_path / "runs", name, said={"algorithm": "ppo", "reward": "rougeL", "last": last})
    (told,) = [note for note in compare(tmp_path, "ours", "theirs").notes if "budget" in note or "calls" in note]
    assert told.endswith("of ours and theirs differ by more than 10 %: narrativeqa 4,096 and 2,048 (2.00 times).")


def test_a_task_is_named_by_its_file_and_equal_seeds_give_equal_bytes(tmp_path, refused, monkeypatch):
    monkeypatch.undo()  # the examples of this task are in its file
    rows = [{"prompt": f"p{n}", "references": [f"the answer is {n}"]} for n in range(6)]
    files.write_jsonl(tmp_path / "rows.jsonl", rows)
    (tmp_path / "mine.toml").write_text(OWN_TASK.format(metric="rougeL"))
    mine, runs = str(tmp_path / "mine.toml"), tmp_path / "runs"
    ids = [example.id for example in load_examples(load_task(mine), "test").examples]
    for name, text in (("wrong", "?"), ("constant", "the answer is 0")):
        run = write_run(runs, name, task=load_task(mine))
        files.write_jsonl(run / "predictions.jsonl", [{"id": one, "text": text} for one in ids])
    (found,) = api.compare("wrong", "constant", tasks=[mine], runs=runs, submissions=tmp_path, draws=100).tasks
    # The constant is right once, and shares three of four words with the other five.
    assert (found.task, found.difference.a) == ("mine", 0.0)
    assert found.difference.b == pytest.approx((100 + 5 * 75) / 6)
    with refused(ConfigError):
        api.compare("wrong", "constant", tasks=[mine, "imdb"], runs=runs)
    asked = ("compare", "wrong", "constant", "--task", mine, "--runs", runs, "--draws", 300)
    plain, first, second = (grue(*asked, *more).stdout for more in ((), ("--json",), ("--json",)))
    assert plain.startswith("GRUE comparison: suite own") and first == second
    data = json.loads(first)
    said = {"a": "wrong", "b": "constant", "origin_a": "runs", "seed": 0, "draws": 300}
    assert said.items() <= data.items() and len(data["tasks"][0]["examples"]) == 3


HOSTILE = Disagreement(
    "x-1\x1b[31m",
    "Say [bold]it[/bold].\nTwice.",
    ("One answer.", "Another."),
    Side(3, "fine\x1b[2J\u202eenif", 71.25, 70.0),
    Side(None, "", 0.0, 0.0),
)
FIRST = Difference(71.0, 60.5, 10.5, Interval(8.25, 12.75), 0.0001, 5, 5, 1.5, 2.25, 1.21, 0.5, 400)
SECOND = Difference(30.0, 30.25, -0.25, Interval(-1.5, 1.0), 0.62, 5, 1, 0.5, None, 0.22, 0.6, 1400)
COMPARISON = Comparison(
    suite="mini",
    axis="preference",
    level=0.95,
    draws=10_000,
    a="ppo",
    b="null",
    origin_a="submissions",
    origin_b="runs",
    tasks=(
        TaskComparison("cnn_dailymail", (1, 2, 3, 4, 5), (1, 2, 3, 4, 5), FIRST, 0.0002, "A better", (HOSTILE,)),
        TaskComparison("imdb", (1, 2, 3, 4, 5), (1,), SECOND, 0.62, "too close to call", ()),
    ),
    mean=MeanDifference(50.5, 45.375, 5.125, Interval(3.75, 6.5), 0.0123),
    only_a=("totto",),
    only_b=(),
    notes=("imdb: seed-6 of ppo has no result yet and is left out.",),
)
PRINTED = (TESTS / "leaderboard/golden/comparison.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("colour", [False, True])
def test_a_comparison_fits_80_columns_and_nothing_in_it_can_move_the_cursor(colour):
    written = StringIO()
    show_comparison(
        COMPARISON, Console(file=written, width=80, highlight=False, force_terminal=colour, color_system=None)
    )
    plain = written.getvalue().replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[2m", "")
    assert "\n".join(line.rstrip() for line in plain.split("\n")) == PRINTED
