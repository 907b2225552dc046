"""Two systems compared: systems found by name or folder, tested, and what the user reads."""

import gzip
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from support.factories import a_result

from grue import files
from grue.api import score as api
from grue.api.evaluate import evaluate as api_evaluate
from grue.cli.compare import show_comparison
from grue.cli.main import main
from grue.data.load import load_examples
from grue.errors import ConfigError, SubmissionError, Unavailable
from grue.evaluation.comparison import (
    Disagreement,
    Metrics,
    Side,
    axis_metrics,
)
from grue.evaluation.scoring import score_predictions
from grue.leaderboard.compare import Comparison, TaskComparison
from grue.leaderboard.systems import find_systems
from grue.records import Axis, Example, Prediction
from grue.stats.intervals import Interval
from grue.stats.paired import Difference, MeanDifference
from grue.submissions.folder import Submission
from grue.task_files import load_task
from grue.tasks import Task


def answers(examples: Sequence[Example], right_every: int) -> list[Prediction]:
    """Right answers to some questions; to the others half of the answer, then words of the question."""
    found = []
    for number, example in enumerate(examples):
        words = example.references[0].split()
        text = " ".join(
            words if number % right_every == 0 else [*words[: len(words) // 2], *example.prompt.split()[:3]]
        )
        found.append(Prediction(example.id, text))
    return found


# --- finding systems -------------------------------------------------------------------------------------------------

NQA = load_task("narrativeqa")


def write_run(folder: Path, system: str, seed: int, right_every: int, task: Task = NQA, **changes: Any) -> Path:
    """Write a run of the layout of runs/; returns its folder."""
    place = folder / task.suite / task.name / system / f"seed-{seed}"
    examples = load_examples(task, "test").examples
    files.write_json(place / "result.json", files.plain(a_result(task, system, seed, 50.0, **changes)))
    files.write_jsonl(place / "predictions.jsonl", map(files.plain, answers(examples, right_every)))
    return place


CLONE = " The rows that ship have no texts to compare: name the `submissions` of a clone with --submissions."


def write_submission(folder: Path, system: str, seeds: Sequence[int], declared: Sequence[int] | None = None) -> Path:
    place = folder / "mini" / system
    submission = Submission(system, ("We",), "CC-BY-4.0", "ppo", "mini:seq2seq", tuple(declared or seeds), "", "1 hour")
    files.write_toml(place / "submission.toml", files.plain(submission))
    for seed in seeds:
        run = write_run(folder / "unpacked", system, seed, 2)
        (place / NQA.name).mkdir(exist_ok=True)
        (run / "result.json").rename(place / NQA.name / f"seed-{seed}.result.json")
        packed = gzip.compress((run / "predictions.jsonl").read_bytes())
        (place / NQA.name / f"seed-{seed}.predictions.jsonl.gz").write_bytes(packed)
    return place


def grue(folder: Path, *arguments: object) -> Result:
    places = ("--runs", folder / "runs", "--submissions", folder / "submissions")
    return CliRunner().invoke(main, ["compare", *map(str, (*arguments, *places))])


def test_systems_are_found_by_name_and_by_folder(tmp_path: Path) -> None:
    runs, submissions = tmp_path / "runs", tmp_path / "submissions"
    write_run(runs, "ours", 1, 2)
    write_run(runs, "ours", 2, 3)
    submitted = write_submission(submissions, "theirs", [1, 2])
    (ours,) = find_systems(["ours"], "mini", submissions, runs)
    assert (ours.name, ours.origin, ours.deterministic) == ("ours", "runs", False)
    assert {task: list(seeds) for task, seeds in ours.entries.items()} == {"narrativeqa": [1, 2]}
    assert find_systems(["theirs"], "mini", submissions, runs)[0].origin == "submissions"
    for folder in (submitted, runs / "mini/narrativeqa/ours", runs / "mini/narrativeqa/ours/seed-1"):
        (found,) = find_systems([str(folder)], "mini", submissions, runs)
        assert (found.origin, found.name) == (str(folder), "theirs" if folder == submitted else "ours")


def test_a_run_that_was_scored_on_other_examples_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "ours", 1, 2)
    strange = write_run(tmp_path / "runs", "theirs", 1, 3, hashes={"examples": "0" * 64})
    result = grue(tmp_path, "ours", "theirs")
    assert result.exit_code == 3 and result.stderr.startswith(
        f"Error: {strange}/result.json: was scored on other examples than those of mini/narrativeqa here (hashes.examples "
        "000000000000…, not 0d195a4b9b5a…); evaluate it again on these"
    )


def test_a_name_in_both_places_must_say_which(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "ours", 1, 2)
    write_submission(tmp_path / "submissions", "ours", [1])
    result = grue(tmp_path, "ours", "ours")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: ours: names both a submission and runs; write submissions:ours or runs:ours.\n",
    )
    result = grue(tmp_path, "submissions:ours", "runs:ours", "--examples", 0)
    assert result.exit_code == 0
    assert "A  ours  in submissions\nB  ours  in runs\n" in result.stdout


def test_of_names_in_both_places_those_are_meant_that_lie_together(tmp_path: Path) -> None:
    runs, submissions = tmp_path / "runs", tmp_path / "submissions"
    for name in ("both", "also"):
        write_run(runs, name, 1, 2)
        write_submission(submissions, name, [1])
    write_run(runs, "local", 1, 2)
    write_submission(submissions, "theirs", [1])
    for given, wanted in {
        ("both", "also"): "runs",
        ("both", "local"): "runs",
        ("local", "both"): "runs",
        ("both", "theirs"): "submissions",
        ("both", "submissions:also"): "submissions",
    }.items():
        assert [one.origin for one in find_systems(given, "mini", submissions, runs)] == [wanted, wanted], given
    with pytest.raises(ConfigError, match="both: names both a submission and runs"):
        find_systems(["both", "local", "theirs"], "mini", submissions, runs)


def test_five_submitted_seeds_do_not_lose_to_one_local_seed_unasked(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        write_run(tmp_path / "runs", name, 1, 2)
        write_submission(tmp_path / "submissions", name, [1, 2, 3, 4, 5])
    write_run(tmp_path / "runs", "mine", 1, 3)
    for a, b in (("ours", "theirs"), ("ours", "mine")):
        result = grue(tmp_path, a, b, "--examples", 0, "--draws", 100)
        assert "A  ours  in submissions\n" in result.stdout
        said = "ours is taken from submissions (5 results; runs has 1): runs:ours takes those."
        assert said in " ".join(result.stdout.split())
    result = grue(tmp_path, "runs:ours", "runs:theirs", "--examples", 0, "--draws", 100)
    assert "A  ours  in runs\nB  theirs  in runs\n" in result.stdout and "is taken from" not in result.stdout
    for seed in range(2, 7):
        write_run(tmp_path / "runs", "ours", seed, 2)
    found = find_systems(["ours", "theirs"], "mini", tmp_path / "submissions", tmp_path / "runs")
    assert [one.origin for one in found] == ["runs", "submissions"]


def test_only_results_on_tasks_of_both_places_count(tmp_path: Path) -> None:
    imdb = load_task("imdb")
    write_submission(tmp_path / "submissions", "ours", [1, 2])
    for seed in (1, 2, 3):
        write_run(tmp_path / "runs", "ours", seed, 2, task=imdb)
    write_run(tmp_path / "runs", "ours", 1, 2)
    found = find_systems(["ours"], "mini", tmp_path / "submissions", tmp_path / "runs")
    assert [one.origin for one in found] == ["submissions"], "on NarrativeQA it has 2 results, the runs have 1"


def test_a_system_is_known_by_the_algo_that_made_it(tmp_path: Path) -> None:
    runs, submissions = tmp_path / "runs", tmp_path / "submissions"
    plus = "reinforce_plus_plus"
    made = {"mine": "supervised+plain:PLAIN", "other": plus, "other+best-of-8": plus, "p1": "ppo", "p2": "ppo"}
    for name, algorithm in made.items():
        path = write_run(runs, name, 1, 2, generation={"best_of": {"n": 8}} if "best" in name else {}) / "result.json"
        result = json.loads(path.read_text())
        files.write_json(path, {**result, "system": {"name": name, "algorithm": algorithm}})
    for given, wanted in {
        "supervised+plain:PLAIN": "mine",
        "runs:supervised+plain:PLAIN": "mine",
        "reinforce++": "other",
        "p1": "p1",
    }.items():
        (found,) = find_systems([given], "mini", submissions, runs)
        assert (found.name, bool(found.meant)) == (wanted, given != wanted), given
    with pytest.raises(ConfigError, match="ppo: is the --algo of several systems, p1, p2; name one of them"):
        find_systems(["ppo"], "mini", submissions, runs)


def test_a_task_is_named_by_its_file_and_has_its_own_suite(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"prompt": f"p{n}", "references": [f"the answer is {n}"]}) + "\n" for n in range(6))
    files.write_text(tmp_path / "test.jsonl", rows)
    files.write_text(
        tmp_path / "mine.toml",
        """
        reward = "rougeL"
        metrics = [{ name = "rougeL", axis = "preference", range = [0, 1] }]
        [data]
        sources = [{ kind = "local", files = { train = "test.jsonl", test = "test.jsonl" } }]
        [backbone]
        family = "causal"
        model = "mini:causal"
        """,
    )
    mine = str(tmp_path / "mine.toml")
    for name in ("copy", "null"):
        api_evaluate(name, mine, runs=tmp_path / "runs")
    (found,) = api.compare("copy", "null", tasks=[mine], runs=tmp_path / "runs", submissions=tmp_path, draws=100).tasks
    assert (found.task, found.difference.a) == ("mine", 0.0)
    # The constant is one of the answers: it is right once, and shares three of four words with the other five.
    assert found.difference.b == pytest.approx((100 + 5 * 75) / 6)
    with pytest.raises(ConfigError, match="several suites, mini, own"):
        api.compare("copy", "null", tasks=[mine, "imdb"], runs=tmp_path / "runs")


@pytest.mark.parametrize(
    ("a", "code", "told"),
    [
        (
            "urs",
            2,
            f"No system 'urs' of the suite mini in {{0}}/submissions or {{0}}/runs. Did you mean 'ours'? Known: ours.{CLONE}",
        ),
        ("submissions:ours", 2, f"No system 'ours' of the suite mini in {{0}}/submissions. Known: none.{CLONE}"),
        (
            "old:ours",
            2,
            "old:ours: no system has that name or was made by that --algo, whose presets and settings are no part of a name. Write submissions:ours or runs:ours, or a folder with a '/' in it.",
        ),
        ("{0}/nowhere", 3, "{0}/nowhere: there is no such folder. (A system's name has no '/'.)"),
        ("{0}/empty", 2, "{0}/empty: holds no result; name the folder of a submission or of evaluated runs."),
        ("{0}/several", 2, "{0}/several: holds several systems, one, two; add --runs {0}/several and name one."),
        ("{0}/grue", 2, "{0}/grue: holds results of the suite grue, not mini; add --suite grue."),
    ],
)
def test_what_is_no_system_is_told(tmp_path: Path, a: str, code: int, told: str) -> None:
    write_run(tmp_path / "runs", "ours", 1, 2)
    (tmp_path / "empty").mkdir()
    for name in ("one", "two"):
        write_run(tmp_path / "several", name, 1, 2)
    write_run(tmp_path / "grue", "ours", 1, 2, suite="grue")
    result = grue(tmp_path, a.format(tmp_path), "ours")
    assert (result.exit_code, result.stderr) == (code, f"Error: {told.format(tmp_path)}\n")


@pytest.mark.parametrize(
    ("changes", "code", "told"),
    [
        (
            {"limited": True},
            3,
            "only a part of the split was evaluated; evaluate it all with `grue evaluate --force`.",
        ),
        (
            {"task_hash": "0" * 64},
            3,
            "was made for another version of the task; evaluate it again with `grue evaluate --force`.",
        ),
        (
            {"split": "dev"},
            3,
            "was made on the split 'dev' instead of 'test'; evaluate it again with `grue evaluate --force`.",
        ),
    ],
)
def test_results_that_cannot_be_compared_are_refused(
    tmp_path: Path, changes: dict[str, Any], code: int, told: str
) -> None:
    write_run(tmp_path / "runs", "ours", 1, 2)
    place = write_run(tmp_path / "runs", "theirs", 1, 2, **changes)
    result = grue(tmp_path, "ours", "theirs")
    assert (result.exit_code, result.stderr) == (code, f"Error: {place / 'result.json'}: {told}\n")


def test_predictions_must_be_there_and_fit(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "ours", 1, 2)
    place = write_run(tmp_path / "runs", "theirs", 1, 2) / "predictions.jsonl"
    lines = place.read_text(encoding="utf-8").splitlines(keepends=True)
    place.write_text("".join(lines[1:]), encoding="utf-8")
    result = grue(tmp_path, "ours", "theirs")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {place}: The predictions do not fit the 1000 examples: 1 missing")
    place.unlink()
    result = grue(tmp_path, "ours", "theirs")
    assert result.exit_code == 3
    assert str(place) in result.stderr


def test_a_submission_cannot_leave_out_a_seed(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "ours", 1, 2)
    place = write_submission(tmp_path / "submissions", "theirs", [1, 2], declared=[1, 2, 3])
    with pytest.raises(SubmissionError, match="declares seeds without a result on narrativeqa: 3;"):
        api.compare("ours", place, runs=tmp_path / "runs")


def test_systems_without_a_common_task_cannot_be_compared(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "ours", 1, 2)
    write_run(tmp_path / "runs", "theirs", 1, 2, load_task("imdb"))
    result = grue(tmp_path, "ours", "theirs")
    assert (result.exit_code, result.stderr) == (
        3,
        "Error: The systems have no task in common: ours has narrativeqa; theirs has imdb. "
        "Evaluate what is missing with `grue evaluate`.\n",
    )
    result = grue(tmp_path, "ours", "theirs", "--task", "imdb")
    assert (result.exit_code, result.stderr) == (
        3,
        "Error: ours has no result on imdb. Evaluate what is missing with `grue evaluate`, or leave the task out.\n",
    )


# --- comparing -------------------------------------------------------------------------------------------------------


def test_what_a_result_claims_is_not_used(tmp_path: Path) -> None:
    """Both claim a preference of 50; their predictions say otherwise."""
    for seed, every in ((1, 1), (2, 2)):
        write_run(tmp_path / "runs", "better", seed, every)
        write_run(tmp_path / "runs", "worse", seed, 10 * every)
    write_run(tmp_path / "runs", "better", 1, 2, load_task("imdb"))
    (tmp_path / "runs/mini/narrativeqa/worse/seed-3").mkdir()
    failed = a_result(NQA, "worse", 4, None, None, status="failed")
    files.write_json(tmp_path / "runs/mini/narrativeqa/worse/seed-4/result.json", files.plain(failed))
    compared = api.compare("better", "worse", runs=tmp_path / "runs", submissions=tmp_path, draws=500, show=2)
    (found,) = compared.tasks
    assert (found.verdict, found.seeds_a, found.seeds_b) == ("too close to call", (1, 2), (1, 2, 4))
    assert (compared.only_a, compared.only_b) == (("imdb",), ())
    assert compared.notes == (
        "narrativeqa: worse failed with seed 4, which counts as 0.",
        "narrativeqa: seed-3 of worse has no result yet and is left out.",
    )
    examples = load_examples(NQA, "test").examples
    wanted = [
        np.mean(
            [
                score_predictions(NQA, "test", examples, answers(examples, every), specs).preference
                for every in every_two
            ]
        )
        for specs in ([spec for spec in NQA.metrics if spec.axis == "preference"],)
        for every_two in ((1, 2), (10, 20))
    ]
    assert (found.difference.a, found.difference.b) == pytest.approx((wanted[0], wanted[1] * 2 / 3))
    assert len(found.examples) == 2
    assert found.examples[0].prompt in {example.prompt for example in examples}


def test_json_holds_everything_and_equal_seeds_give_equal_bytes(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "ours", 1, 2)
    write_run(tmp_path / "runs", "theirs", 1, 3)
    arguments = ("ours", "theirs", "--draws", 300, "--json")
    result = grue(tmp_path, *arguments)
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert (data["a"], data["b"], data["origin_a"], data["seed"], data["draws"]) == ("ours", "theirs", "runs", 0, 300)
    assert len(data["tasks"][0]["examples"]) == 3
    assert data["notes"] == [
        f"{name} has one seed on narrativeqa: p and intervals do not cover what other seeds would give."
        for name in ("ours", "theirs")
    ]
    assert grue(tmp_path, *arguments).stdout == result.stdout


def test_a_baseline_is_not_blamed_for_its_one_seed(tmp_path: Path) -> None:
    for name, every in (("null", 2), ("ours", 3)):
        place = write_run(tmp_path / "runs", name, 1, every) / "result.json"
        result = files.read_json(place)
        files.write_json(place, {**result, "system": {"name": name, "algorithm": name}})
    compared = api.compare("null", "ours", runs=tmp_path / "runs", submissions=tmp_path, draws=200)
    assert compared.notes == (
        "null depends on no seed: one result is complete.",
        "ours has one seed on narrativeqa: p and intervals do not cover what other seeds would give.",
    )


def test_one_seed_gets_no_verdict(tmp_path: Path) -> None:
    """The difference is large: every answer against a tenth of them."""
    for name, every, seeds in (("one", 1, (1,)), ("two", 10, (1, 2))):
        for seed in seeds:
            write_run(tmp_path / "runs", name, seed, every)
    (found,) = api.compare("one", "two", runs=tmp_path / "runs", submissions=tmp_path, draws=500).tasks
    assert (found.verdict, found.p_holm < 0.01) == ("one seed: no verdict", True)
    assert "one seed: no verdict" in grue(tmp_path, "one", "two").stdout


def began(name: str, weights: str, start: str | None = None) -> dict[str, str]:
    return {"name": name, "algorithm": name, "weights": weights} | ({} if start is None else {"start": start})


@pytest.mark.parametrize(
    ("a", "b", "paired"),
    [
        (  # from the same starts
            [("a1", "s1"), ("a2", "s2"), ("a3", "s3")],
            [("b1", "s1"), ("b2", "s2"), ("b3", "s3")],
            True,
        ),
        (  # one is the other's start
            [("a1", "s1"), ("a2", "s2"), ("a3", "s3")],
            [("s1", None), ("s2", None), ("s3", None)],
            True,
        ),
        ([("a1", "s1"), ("a2", "s2")], [("b1", "s1"), ("b2", "s2")], False),  # two say too little of their variance
        (
            [("a1", "s1"), ("a2", "s2"), ("a3", "s3")],
            [("b1", "s1"), ("b2", "s2"), ("b3", "s4")],
            False,
        ),
        ([("a1", "s1"), ("a2", "s1")], [("b1", "s1"), ("b2", "s1")], False),  # one start for all is no pairing
        ([("a1", None), ("a2", None)], [("b1", None), ("b2", None)], False),
        ([("a1", "s1"), ("a2", "s2")], [("b1", "s1"), ("b2", "s2"), ("b3", "s3")], False),
        ([("a1", "s1")], [("b1", "s1")], False),
        ([("", ""), ("", "")], [("", ""), ("", "")], False),
    ],
)
def test_seeds_that_began_alike_are_paired(
    tmp_path: Path, a: list[tuple[str, str | None]], b: list[tuple[str, str | None]], paired: bool
) -> None:
    for name, every, runs in (("a", 2, a), ("b", 3, b)):
        for seed, (weights, start) in enumerate(runs, 1):
            place = write_run(tmp_path / "runs", name, seed, every) / "result.json"
            files.write_json(place, {**files.read_json(place), "system": began(name, weights, start)})
    compared = api.compare("a", "b", runs=tmp_path / "runs", submissions=tmp_path, draws=200)
    assert compared.tasks[0].difference.paired == paired
    said = "Seeds are paired: seed k of both began from the same weights."
    assert (said in " ".join(grue(tmp_path, "a", "b").stdout.split())) == paired


def test_a_system_equals_itself(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "ours", 1, 2)
    compared = api.compare("ours", "ours", runs=tmp_path / "runs", submissions=tmp_path, show=3)
    assert (compared.tasks[0].difference.value, compared.tasks[0].p_holm) == (0.0, 1.0)
    assert compared.tasks[0].verdict == "equal"
    assert compared.tasks[0].examples == ()


def test_a_task_that_cannot_be_scored_here_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, every in (("ours", 2), ("theirs", 3)):
        write_run(tmp_path / "runs", name, 1, every)
        write_run(tmp_path / "runs", name, 1, every, load_task("totto"))

    def without_parent(task: Task, examples: Sequence[Example], axis: Axis) -> Metrics:
        if task.name == "totto":
            raise Unavailable("parent cannot run here.")
        return axis_metrics(task, examples, axis)

    monkeypatch.setattr("grue.leaderboard.compare.axis_metrics", without_parent)
    compared = api.compare("ours", "theirs", runs=tmp_path / "runs", submissions=tmp_path, draws=200)
    assert [task.task for task in compared.tasks] == ["narrativeqa"]
    assert compared.notes[0] == "totto is left out: parent cannot run here."
    with pytest.raises(Unavailable, match="parent cannot run here"):
        api.compare("ours", "theirs", tasks=["totto"], runs=tmp_path / "runs", submissions=tmp_path)


def test_progress_counts_files_of_predictions(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "ours", 1, 2)
    write_run(tmp_path / "runs", "ours", 2, 2)
    seen = []
    api.compare(
        "ours",
        "ours",
        runs=tmp_path / "runs",
        submissions=tmp_path,
        draws=200,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


# --- what is printed -------------------------------------------------------------------------------------------------

HOSTILE = Disagreement(
    "x-1\x1b[31m",
    "Say [bold]it[/bold].\nTwice.",
    ("One answer.", "Another."),
    Side(3, "fine\x1b[2J\u202eenif", 71.25, 70.0),
    Side(None, "", 0.0, 0.0),
)


def a_comparison() -> Comparison:
    first = Difference(71.0, 60.5, 10.5, Interval(8.25, 12.75), 0.0001, 5, 5, 1.5, 2.25, 1.21, 0.5, 400)
    second = Difference(30.0, 30.25, -0.25, Interval(-1.5, 1.0), 0.62, 5, 1, 0.5, None, 0.22, 0.6, 1400)
    return Comparison(
        suite="mini",
        axis="preference",
        level=0.95,
        draws=10_000,
        a="ppo",
        b="null",
        origin_a="submissions",
        origin_b="runs",
        tasks=(
            TaskComparison("cnn_dailymail", (1, 2, 3, 4, 5), (1, 2, 3, 4, 5), first, 0.0002, "A better", (HOSTILE,)),
            TaskComparison("imdb", (1, 2, 3, 4, 5), (1,), second, 0.62, "too close to call", ()),
        ),
        mean=MeanDifference(50.5, 45.375, 5.125, Interval(3.75, 6.5), 0.0123),
        only_a=("totto",),
        only_b=(),
        notes=("imdb: seed-6 of ppo has no result yet and is left out.",),
    )


PRINTED = """\
GRUE comparison: suite mini, preference (0–100)
A  ppo  in submissions
B  null  in runs

task             A    B A − B  95% interval      p Holm p verdict
cnn_dailymail 71.0 60.5 +10.5 [+8.2, +12.8] <0.001 <0.001 A better
imdb          30.0 30.2  -0.2  [-1.5, +1.0]  0.620  0.620 too close to call
mean of 2     50.5 45.4  +5.1  [+3.8, +6.5]  0.012

task          seeds A seeds B sd A sd B error: seeds error: examples examples
cnn_dailymail       5       5 1.50 2.25         1.21            0.50      400
imdb                5       1 0.50    –         0.22            0.60    1,400

· p: how often chance alone gives such a difference, in 10,000 draws. Holm p:
  corrected for 2 tasks; the verdict follows it.
· sd: between seeds. error: standard error of A − B, from seeds and from the
  examples of the test set. –: unknown from one seed.
· Only ppo has totto: not compared.
· imdb: seed-6 of ppo has no result yet and is left out.
· Below, where they differ most: what an example is worth to each, seeds
  averaged, and a typical text.

cnn_dailymail  x-1�[31m  A − B = +70.0
  prompt     Say [bold]it[/bold]. Twice.
  reference  One answer. (and 1 more)
  A    70.0  fine�[2J�enif (seed 3: 71.2)
  B     0.0  (empty) (no run finished)
"""


@pytest.mark.parametrize("colour", [False, True])
def test_a_comparison_fits_80_columns_and_nothing_in_it_can_move_the_cursor(colour: bool) -> None:
    written = StringIO()
    console = Console(file=written, width=80, highlight=False, force_terminal=colour, color_system=None)
    show_comparison(a_comparison(), console)
    plain = written.getvalue().replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[2m", "")
    assert "\n".join(line.rstrip() for line in plain.split("\n")) == PRINTED


def test_help_names_both_ways_to_say_which_system() -> None:
    result = CliRunner().invoke(main, ["compare", "--help"])
    assert result.exit_code == 0
    assert "grue compare supervised zero-shot" in result.stdout
    assert "grue compare submissions:ppo runs:ppo" in result.stdout


def test_unlike_budgets_are_told(tmp_path: Path) -> None:
    for name, calls in (("ours", 4096.0), ("theirs", 2048.0)):
        last = {"update": 16, "training": {"reward_calls": calls}}
        path = write_run(tmp_path / "runs", name, 1, 2) / "result.json"
        data = json.loads(path.read_text())
        data["system"] |= {"algorithm": "ppo", "reward": "meteor", "last": last}
        path.write_text(json.dumps(data))
    shown = " ".join(grue(tmp_path, "ours", "theirs", "--examples", 0).stdout.split())
    assert (
        "training run of ours and theirs differ by more than 10 %: narrativeqa 4,096 and 2,048 (2.00 times)." in shown
    )
