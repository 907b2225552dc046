"""Packing: what goes in comes out, the same bytes each time, and what could never pass is refused by name."""

import gzip
import hashlib
import json
import os
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.factories import a_result

from grue import files
from grue.errors import ConfigError, DataError, SubmissionError
from grue.records import Example, Prediction
from grue.submissions.folder import Submission, read_result, read_submission, systems
from grue.submissions.packing import pack as packing
from grue.submissions.packing.collect import (
    PackedRun,
    failed_beside,
    failed_run,
    find_predictions,
    find_runs,
    parse_failed,
    read_run,
    runs_of,
    score_run,
)
from grue.submissions.packing.describe import describe
from grue.submissions.packing.pack import manifest, pack, zipped
from grue.submissions.packing.refusals import refusals
from grue.task_files import load_task
from grue.tasks import Task

COMMONGEN, IMDB = load_task("commongen"), load_task("imdb")
MADE = {"grue": {"version": "0", "commit": "c", "dirty": False}, "packages": {"python": "3"}}
GIVEN = {"authors": ["A. Author"], "licence": "CC0", "training_data": "none", "budget": "1 hour"}
SYSTEM = {"name": "ours", "algorithm": "ppo", "backbone": "mini:seq2seq"}


def a_run(of: Task = COMMONGEN, /, seed: int = 1, text: str | None = None, **changes: Any) -> PackedRun:
    predictions = (Prediction("a", text or f"text {seed}"), Prediction("b", "ü\u2028", truncated=True))
    result = replace(a_result(of, "ours", seed, 50.0), **({"system": SYSTEM} | changes))
    return PackedRun(result, predictions, f"{of.name}-{seed}")


def write_run(folder: Path, run: PackedRun) -> Path:
    files.write_json(folder / "result.json", run.result)
    files.write_jsonl(folder / "predictions.jsonl", run.predictions or ())
    return folder


def test_what_a_run_was_rewarded_with_stays_at_home(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs/mini/commongen/ours/seed-1", a_run())
    for name in ("rewards.jsonl", "selected.json", "train.jsonl"):
        (folder / name).write_text("{}\n")
    runs = [read_run(folder)]
    packed = contents(pack(runs, describe(runs, GIVEN), tmp_path))
    assert {path.rpartition("/")[2] for path in packed} == {
        "MANIFEST.sha256", "seed-1.predictions.jsonl.gz", "seed-1.result.json", "submission.toml",
    }  # fmt: skip


def submission(runs: list[PackedRun], **given: Any) -> Submission:
    return describe(runs, GIVEN | given)


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_pack_holds_results_predictions_description_and_manifest(tmp_path: Path) -> None:
    runs = [a_run(seed=seed) for seed in (2, 1)]
    folder = pack(runs, submission(runs), tmp_path)
    assert folder == tmp_path / "mini/ours"
    assert sorted(contents(folder)) == [
        "MANIFEST.sha256",
        "commongen/seed-1.predictions.jsonl.gz",
        "commongen/seed-1.result.json",
        "commongen/seed-2.predictions.jsonl.gz",
        "commongen/seed-2.result.json",
        "submission.toml",
    ]
    assert read_result(folder / "commongen/seed-2.result.json") == runs[0].result
    lines = gzip.decompress((folder / "commongen/seed-1.predictions.jsonl.gz").read_bytes()).decode("utf-8")
    assert lines == '{"id":"a","text":"text 1"}\n{"id":"b","text":"ü\u2028","truncated":true}\n'
    assert tomllib.loads((folder / "submission.toml").read_text()) == {
        **{"name": "ours", "authors": ["A. Author"], "licence": "CC0", "algorithm": "ppo", "backbone": "mini:seq2seq"},
        **{"seeds": [1, 2], "training_data": "none", "budget": "1 hour"},
    }


def test_the_manifest_is_what_sha256sum_writes(tmp_path: Path) -> None:
    runs = [a_run()]
    folder = pack(runs, submission(runs), tmp_path)
    names = sorted(name for name in contents(folder) if name != "MANIFEST.sha256")
    expected = "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    assert (folder / "MANIFEST.sha256").read_text() == expected == manifest(folder)
    checked = subprocess.run(["sha256sum", "--check", "--strict", "MANIFEST.sha256"], cwd=folder, capture_output=True)
    assert checked.returncode == 0, checked.stderr


def test_packing_twice_gives_equal_bytes(tmp_path: Path) -> None:
    runs = [a_run(seed=1), a_run(IMDB, seed=1)]
    one = pack(runs, submission(runs), tmp_path / "one")
    other = pack(runs[::-1], submission(runs[::-1]), tmp_path / "other")
    assert contents(one) == contents(other)


def test_zipped_bytes_hold_no_time_and_no_name() -> None:
    data = zipped([Prediction("a", "x")])
    assert data[:4] == b"\x1f\x8b\x08\x00"  # no flag: neither a name nor a comment
    assert data[4:8] == b"\x00\x00\x00\x00"  # no time


def test_a_submission_is_replaced_as_a_whole_and_only_by_force(tmp_path: Path) -> None:
    old, new = [a_run(), a_run(IMDB)], [a_run(text="better")]
    folder = pack(old, submission(old), tmp_path)
    before = contents(folder)
    with pytest.raises(ConfigError) as caught:
        pack(new, submission(new), tmp_path)
    assert str(caught.value) == f"{folder}: exists; replace it with --force, or choose another --name."
    assert contents(folder) == before
    pack(new, submission(new), tmp_path, force=True)
    assert not (folder / "imdb").exists()
    assert list(folder.parent.iterdir()) == [folder]


def test_a_pack_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [a_run()]
    folder = pack(runs, submission(runs), tmp_path)
    before = contents(folder)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    for place in ("manifest", "zipped"):
        with monkeypatch.context() as patched:
            patched.setattr(packing, place, full)
            with pytest.raises(DataError, match="cannot be written: No space left on device"):
                pack(runs, submission(runs), tmp_path, force=True)
    assert contents(folder) == before
    assert list(folder.parent.iterdir()) == [folder]


def test_what_a_killed_pack_left_is_cleared_and_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [a_run()]

    def killed(*arguments: object) -> None:
        os._exit(9)

    monkeypatch.setattr(packing, "_put_in_place", killed)
    if (child := os.fork()) == 0:
        pack(runs, submission(runs), tmp_path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    monkeypatch.undo()
    (leaving,) = (tmp_path / "mini").iterdir()
    assert leaving.name.startswith(".ours.")
    assert systems(tmp_path) == []
    folder = pack(runs, submission(runs), tmp_path)
    assert list((tmp_path / "mini").iterdir()) == [folder]


def test_a_pack_that_is_killed_between_its_renames_loses_no_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = [a_run()], [a_run(text="better")]
    folder = pack(old, submission(old), tmp_path)
    before, rename = contents(folder), os.rename

    def killed(source: Path, target: Path) -> None:
        if target == folder:
            os._exit(9)
        rename(source, target)

    monkeypatch.setattr(os, "rename", killed)
    if (child := os.fork()) == 0:
        pack(new, submission(new), tmp_path, force=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    monkeypatch.undo()
    assert not folder.exists()
    with pytest.raises(ConfigError, match="exists; replace it with --force"):
        pack(new, submission(new), tmp_path)
    assert contents(folder) == before
    pack(new, submission(new), tmp_path, force=True)
    assert contents(folder) != before
    assert list(folder.parent.iterdir()) == [folder]


def test_a_pack_that_cannot_be_put_in_place_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [a_run()]
    folder = pack(runs, submission(runs), tmp_path)
    before, rename = contents(folder), os.rename

    def refused(source: Path, target: Path) -> None:
        if target == folder and not source.name.endswith(".previous"):
            raise PermissionError(13, "Permission denied")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(DataError, match="cannot be written: Permission denied"):
        pack(runs, submission(runs), tmp_path, force=True)
    assert contents(folder) == before
    assert list(folder.parent.iterdir()) == [folder]


def test_another_name_goes_into_every_result(tmp_path: Path) -> None:
    runs = [a_run()]
    folder = pack(runs, submission(runs, name="theirs"), tmp_path)
    assert folder.name == "theirs"
    assert read_result(folder / "commongen/seed-1.result.json").system == SYSTEM | {"name": "theirs"}
    assert read_submission(folder).name == "theirs"


@pytest.mark.parametrize("name", ["../evil", "a/b", ".hidden", "our system", "", "ünsere"])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    runs = [a_run()]
    named = replace(submission(runs), name=name)
    with pytest.raises(ConfigError, match="use letters, digits"):
        pack(runs, named, tmp_path / "submissions")
    assert list(tmp_path.iterdir()) == []


# --- what could never pass -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "deterministic", "reasons"),
    [
        ([a_run(limited=True)], False, ["commongen-1: was scored on a part of the split; evaluate all of it, with --force."]),
        ([a_run(task_hash="0")], False, ["commongen-1: was made for another version of commongen; evaluate it again, with --force."]),
        ([a_run(split="train")], False, ["commongen-1: was evaluated on the split 'train', not on 'test'; evaluate it again."]),
        ([a_run(task="x")], False, ["commongen-1: mini/x is not a task of a board; the boards are those of mini and grue."]),
        ([a_run(suite="own")], False, ["commongen-1: own/commongen is not a task of a board; the boards are those of mini and grue."]),
        (
            [a_run(), a_run(seed=2, system={"name": "theirs"})],
            False,
            ["These are runs of 2 systems, ours, theirs; pack each by itself."],
        ),
        (
            [a_run(), replace(a_run(text="other"), origin="elsewhere")],
            False,
            ["elsewhere and commongen-1 are both commongen with seed 1; leave one out."],
        ),
        (
            [a_run(text="same"), a_run(seed=2, text="same")],
            False,
            [
                "commongen-2 and commongen-1 have the same predictions. Each run enters once; if the output depends on "
                "no seed, pack one seed with --deterministic."
            ],
        ),
        (
            [a_run(text="same"), a_run(seed=2, text="same")],
            True,
            ["--deterministic: takes one seed; these are 1, 2. Pack one."],
        ),
        (
            [a_run(), a_run(seed=2), a_run(IMDB, seed=2), a_run(IMDB, seed=3)],
            False,
            [
                "commongen has no seed 3, which other tasks have: add the run, or --failed commongen:3.",
                "imdb has no seed 1, which other tasks have: add the run, or --failed imdb:1.",
            ],
        ),
        (
            [a_run(limited=True), a_run(IMDB, split="train")],
            False,
            [
                "commongen-1: was scored on a part of the split; evaluate all of it, with --force.",
                "imdb-1: was evaluated on the split 'train', not on 'test'; evaluate it again.",
            ],
        ),
        ([a_run(), a_run(seed=2), a_run(IMDB), failed_run(IMDB, 2, SYSTEM, MADE)], False, []),
        ([a_run(), a_run(IMDB)], True, []),
    ],
)  # fmt: skip
def test_what_could_never_pass_is_refused_with_every_reason(
    tmp_path: Path, runs: list[PackedRun], deterministic: bool, reasons: list[str]
) -> None:
    assert refusals(runs, deterministic) == reasons
    described = replace(submission(runs), deterministic=deterministic)
    if not reasons:
        assert pack(runs, described, tmp_path).is_dir()
        return
    with pytest.raises(SubmissionError) as caught:
        pack(runs, described, tmp_path)
    assert str(caught.value) == "These runs cannot be one submission:\n  " + "\n  ".join(reasons)
    assert list(tmp_path.iterdir()) == []


def test_seeds_of_a_backbone_may_be_alike() -> None:
    system = {"name": "zero-shot", "algorithm": "zero-shot"}
    assert refusals([a_run(seed=seed, text="same", system=system) for seed in (1, 2)]) == []


def test_a_failed_run_is_a_result_without_scores(tmp_path: Path) -> None:
    runs = [a_run(), a_run(IMDB), a_run(seed=2), failed_run(IMDB, 2, SYSTEM, MADE)]
    folder = pack(runs, submission(runs), tmp_path)
    assert not (folder / "imdb/seed-2.predictions.jsonl.gz").exists()
    result = read_result(folder / "imdb/seed-2.result.json")
    assert (result.status, result.scores, result.preference, result.task_hash) == ("failed", (), None, IMDB.hash)
    assert (result.grue, result.packages, result.system) == (MADE["grue"], MADE["packages"], SYSTEM)


def test_a_failed_run_of_another_task_is_of_that_task(tmp_path: Path) -> None:
    """What a task brings itself, its backbone and its chat prompt, is not taken from a run of another one."""
    trained = a_run(system=SYSTEM | {"backbone": COMMONGEN.backbone.model}).result
    failed = failed_beside([trained], IMDB, 2, MADE).result
    assert (failed.task, failed.system["backbone"]) == ("imdb", IMDB.backbone.model)
    own = a_run(IMDB, system=SYSTEM | {"backbone": "a/model"}).result
    assert failed_beside([trained, own], IMDB, 2, MADE).result.system["backbone"] == "a/model"
    asked = {"prompting": {"kind": "chat", "version": 1, "hash": COMMONGEN.chat_hash, "shots": ["train-1"]}}
    chat = a_run(system=SYSTEM | {"backbone": "a/model"}, generation=asked).result
    assert failed_beside([chat], COMMONGEN, 2, MADE).result.generation == asked
    other = failed_beside([chat], IMDB, 2, MADE).result
    assert other.system["backbone"] == "a/model"
    assert other.generation == {"prompting": {"kind": "chat", "version": 1, "hash": IMDB.chat_hash}}
    assert IMDB.chat_hash != COMMONGEN.chat_hash


# --- collecting ------------------------------------------------------------------------------------------------------


def test_runs_are_found_by_run_by_system_and_by_name(tmp_path: Path) -> None:
    ours = [
        write_run(tmp_path / f"mini/{t}/ours/seed-{n}", a_run(seed=n)) for t in ("commongen", "imdb") for n in (1, 2)
    ]
    write_run(tmp_path / "mini/imdb/theirs/seed-1", a_run())
    assert find_runs([ours[1], tmp_path / "mini/imdb/ours", ours[1]]) == [ours[1], ours[2], ours[3]]
    assert runs_of("ours", tmp_path, "mini") == ours
    with pytest.raises(DataError, match="has no run of a system 'her'; `grue leaderboard` lists the systems"):
        runs_of("her", tmp_path, "mini")
    for wrong in (tmp_path / "none", tmp_path / "mini"):
        with pytest.raises(
            DataError, match=r"is neither a run nor a system's folder of runs, such as runs/mini/commongen/ppo\."
        ):
            find_runs([wrong])


def test_a_run_without_result_is_evaluated_or_declared_failed(tmp_path: Path) -> None:
    folder = tmp_path / "runs/mini/imdb/ours/seed-4"
    folder.mkdir(parents=True)
    assert find_runs([folder]) == find_runs([folder.parent]) == [folder]
    with pytest.raises(DataError) as caught:
        read_run(folder)
    said = f"{folder}: has no result.json. Evaluate the run; if it failed, declare it: --failed imdb:4."
    assert str(caught.value) == said
    write_run(folder, a_run(seed=2**32))
    with pytest.raises(DataError, match=r"result\.json: seed: expected a whole number from 0 to 4294967295\."):
        read_run(folder)
    write_run(folder, a_run())
    assert read_run(folder) == replace(a_run(), origin=str(folder))
    (folder / "predictions.jsonl").unlink()
    with pytest.raises(DataError, match="predictions.jsonl: cannot be read: No such file"):
        read_run(folder)


@pytest.mark.parametrize(
    "text", ["imdb", "imdb:", "imdb:x", "imdb:-1", "imdb:01", "imdb:²", ":1x", "imdb:4294967296", f"imdb:{'1' * 5_000}"]
)
def test_a_failed_run_is_named_by_task_and_seed(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_failed(text, "mini")
    asked = "write TASK:SEED, such as --failed commongen:3, with a seed from 0 to 4294967295."
    assert str(caught.value) == f"--failed {text}: {asked}"
    assert parse_failed("imdb:0", "mini") == (IMDB, 0)
    assert parse_failed("imdb:4294967295", "mini") == (IMDB, 2**32 - 1)


@pytest.mark.parametrize(
    "stray",
    [
        *("notes.txt", "cooking/seed-1.jsonl", "imdb/seed-01.jsonl", "imdb/1.jsonl", "a/imdb/seed-1.jsonl"),
        *("imdb/seed-4294967296.jsonl", f"imdb/seed-{'1' * 200}.jsonl"),
    ],
)
def test_predictions_made_elsewhere_lie_by_task_and_seed(tmp_path: Path, stray: str) -> None:
    with pytest.raises(DataError, match=r"holds no predictions; expected files <task>/seed-<n>\.jsonl\."):
        find_predictions(tmp_path, "mini")
    for name in ("imdb/seed-10.jsonl", "imdb/seed-2.jsonl", "commongen/seed-1.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert [(task.name, seed) for task, seed, _ in find_predictions(tmp_path, "mini")] == [
        ("commongen", 1),
        ("imdb", 10),
        ("imdb", 2),
    ]
    (tmp_path / stray).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / stray).write_text("")
    with pytest.raises(DataError) as caught:
        find_predictions(tmp_path, "mini")
    assert str(caught.value).startswith(
        f"{tmp_path / stray}: expected {tmp_path}/<task>/seed-<n>.jsonl, with a task of "
    )


def test_predictions_made_elsewhere_are_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [Example(name, f"say {name}", (f"this is {name}",), {"concepts": [name]}) for name in ("a", "b")]
    loaded = SimpleNamespace(examples=examples, provenance=lambda: {"source": "mini", "examples": 2})
    monkeypatch.setattr("grue.submissions.packing.collect.load_examples", lambda task, split, data_dir, offline: loaded)
    path = tmp_path / "seed-3.jsonl"
    path.write_text('{"id": "b", "text": "no"}\n{"text": "this is a", "id": "a", "truncated": true}\n')
    run = score_run(COMMONGEN, 3, path, SYSTEM, MADE)
    result = run.result
    coverage = next(score for score in result.scores if score.metric == "coverage")
    assert (coverage.value, coverage.n) == (0.5, 2)
    assert (result.status, result.task, result.seed, result.system) == ("complete", "commongen", 3, SYSTEM)
    assert (result.task_hash, result.split, result.limited) == (COMMONGEN.hash, "test", False)
    assert result.data == {"source": "mini", "examples": 2}
    assert result.counts == {"expected": 2, "scored": 2, "empty": 0, "truncated": 1}
    assert run.predictions == (Prediction("b", "no"), Prediction("a", "this is a", True))
    folder = pack([run], submission([run]), tmp_path)
    assert json.loads((folder / "commongen/seed-3.result.json").read_text())["preference"] == result.preference
    path.write_text('{"id": "a", "text": "x"}\n')
    with pytest.raises(SubmissionError, match=r"seed-3\.jsonl: .*1 missing \('b'\)"):
        score_run(COMMONGEN, 3, path, SYSTEM, MADE)


# --- describing ------------------------------------------------------------------------------------------------------


def test_what_is_not_known_is_asked_for_by_option() -> None:
    with pytest.raises(ConfigError) as caught:
        describe([a_run(system={"name": "ours"})], {})
    said = "--authors, --licence, --algorithm, --backbone, --training-data, --budget"
    assert str(caught.value) == f"The results do not record everything; add {said}."


def test_the_results_say_algorithm_backbones_seeds_and_budget() -> None:
    def trained(backbone: str, tokens: float) -> dict[str, Any]:
        return SYSTEM | {"backbone": backbone, "training": {"tokens": tokens, "episodes": 8.0, "seconds": 3600.0}}

    runs = [
        a_run(system=trained("b", 1e6)),
        a_run(IMDB, system=trained("a", 3e6)),
        a_run(seed=2, system=trained("b", 2e6)),
    ]
    given = {key: value for key, value in GIVEN.items() if key != "budget"}
    described = describe([*runs, failed_run(IMDB, 2, SYSTEM, MADE)], given)
    assert described.algorithm == "ppo"
    assert described.backbone == "a, b, mini:seq2seq"
    assert described.seeds == (1, 2)
    assert described.budget == "2.00 M tokens a run, 3.0 hours for all 3 runs (2 tasks)"
    assert describe(runs, GIVEN).budget == "1 hour"
    with pytest.raises(ConfigError, match="add --budget"):
        describe([*runs, a_run(IMDB, seed=2)], given)  # one of them does not say what it cost
