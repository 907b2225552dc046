"""Packing: what goes in comes out, the same bytes each time, and what could never pass is refused by name."""

import gzip
import hashlib
import json
import os
import subprocess
import tomllib
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.factories import a_result

from grue import __version__, files
from grue.errors import ConfigError, DataError, SubmissionError
from grue.records import Example, Prediction
from grue.submissions.folder import read_result, read_submission, systems
from grue.submissions.packing import collect
from grue.submissions.packing import pack as packing
from grue.submissions.packing.collect import PackedRun, failed_beside, failed_run, find_runs, read_run
from grue.submissions.packing.pack import describe, refusals
from grue.task_files import load_task

COMMONGEN, IMDB = load_task("commongen"), load_task("imdb")
GIVEN = {"authors": ["A. Author"], "licence": "CC0", "training_data": "none", "budget": "1 hour"}
SYSTEM = {"name": "ours", "algorithm": "ppo", "backbone": "mini:seq2seq"}


def a_run(of=COMMONGEN, /, seed=1, text=None, **changes):
    predictions = (Prediction("a", text or f"text {seed}"), Prediction("b", "ü\u2028", truncated=True))
    result = replace(a_result(of, "ours", seed, 50.0), **({"system": SYSTEM} | changes))
    return PackedRun(result, predictions, f"{of.name}-{seed}")


def write_run(folder, run):
    files.write_json(folder / "result.json", run.result)
    files.write_jsonl(folder / "predictions.jsonl", run.predictions or ())
    return folder


def pack(runs, output, force=False, **given):
    return packing.pack(runs, describe(runs, GIVEN | given), output, force)


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_pack_holds_results_predictions_description_and_manifest_as_the_same_bytes(tmp_path):
    runs = [a_run(seed=2), a_run(seed=1)]
    folder = pack(runs, tmp_path)
    assert folder == tmp_path / "mini/ours"
    packed = contents(folder)
    names = [f"commongen/seed-{n}.{kind}" for n in (1, 2) for kind in ("predictions.jsonl.gz", "result.json")]
    assert list(packed) == ["MANIFEST.sha256", *names, "submission.toml"]
    assert read_result(folder / "commongen/seed-2.result.json") == runs[0].result
    zipped = packed["commongen/seed-1.predictions.jsonl.gz"]
    lines = '{"id":"a","text":"text 1"}\n{"id":"b","text":"ü\u2028","truncated":true}\n'
    assert gzip.decompress(zipped).decode("utf-8") == lines
    assert zipped[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"  # no flag for a name or a comment, and no time
    expected = SYSTEM | {"authors": ["A. Author"], "licence": "CC0", "seeds": [1, 2]}
    assert tomllib.loads(packed["submission.toml"].decode()) == expected | {"training_data": "none", "budget": "1 hour"}
    manifest = "".join(f"{hashlib.sha256(packed[name]).hexdigest()}  {name}\n" for name in [*names, "submission.toml"])
    assert packed["MANIFEST.sha256"].decode() == manifest
    checked = subprocess.run(["sha256sum", "--check", "--strict", "MANIFEST.sha256"], cwd=folder, capture_output=True)
    assert checked.returncode == 0, checked.stderr
    assert contents(pack(runs[::-1], tmp_path / "other")) == packed


def test_another_name_goes_into_every_result_and_is_no_path(tmp_path):
    folder = pack([a_run()], tmp_path / "submissions", name="theirs")
    assert read_result(folder / "commongen/seed-1.result.json").system == SYSTEM | {"name": "theirs"}
    assert (folder.name, read_submission(folder).name) == ("theirs", "theirs")
    for name in ("../evil", "a/b", ".hidden", "our system", "", "ünsere"):
        named = replace(describe([a_run()], GIVEN), name=name)
        with pytest.raises(ConfigError, match="use letters, digits"):
            packing.pack([a_run()], named, tmp_path / "submissions")
    assert [path.name for path in tmp_path.rglob("*") if path.is_dir()] == [
        "submissions",
        "mini",
        "theirs",
        "commongen",
    ]


@pytest.fixture
def packed(tmp_path):
    """A submission, and what is in it."""
    folder = pack([a_run(), a_run(IMDB)], tmp_path)
    return folder, contents(folder)


def test_a_pack_that_fails_leaves_what_was_there(packed, monkeypatch, refused):
    folder, before = packed
    rename = os.replace

    def full(*arguments):
        raise OSError(28, "No space left on device")

    def denied(source, target):
        if target == folder and not source.name.endswith(".previous"):
            raise PermissionError(13, "Permission denied")
        rename(source, target)

    for owner, place, fault in ((packing, "manifest", full), (packing, "zipped", full), (os, "replace", denied)):
        with monkeypatch.context() as patched, refused(DataError):
            patched.setattr(owner, place, fault)
            pack([a_run()], folder.parent.parent, force=True)
        assert contents(folder) == before
        assert list(folder.parent.iterdir()) == [folder]


def pack_and_be_killed(owner, place, when, *arguments, **options):
    """Pack in a process that ends where a function is called with such arguments."""
    real = getattr(owner, place)
    if (child := os.fork()) == 0:
        setattr(owner, place, lambda *given: os._exit(9) if when(*given) else real(*given))
        pack(*arguments, **options)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_what_a_killed_pack_left_is_cleared_and_never_read(tmp_path):
    place = tmp_path / "mini/ours"
    pack_and_be_killed(os, "replace", lambda source, target: target == place, [a_run()], tmp_path)
    (leaving,) = (tmp_path / "mini").iterdir()
    assert leaving.name.startswith(".ours.")
    assert systems(tmp_path) == []
    folder = pack([a_run()], tmp_path)
    assert list((tmp_path / "mini").iterdir()) == [folder]


def test_a_submission_is_replaced_as_a_whole_by_force_and_a_kill_between_the_renames_loses_none(packed, refused):
    (folder, before), new = packed, [a_run(text="better")]
    output = folder.parent.parent
    pack_and_be_killed(os, "replace", lambda source, target: target == folder, new, output, force=True)
    assert not folder.exists()
    with refused(ConfigError):
        pack(new, output)
    assert contents(folder) == before
    pack(new, output, force=True)
    assert contents(folder) != before and not (folder / "imdb").exists()
    assert list(folder.parent.iterdir()) == [folder]


SAME = [a_run(text="same"), a_run(seed=2, text="same")]


@pytest.mark.parametrize(
    ("runs", "deterministic", "reasons"),
    [
        ([a_run(limited=True)], False, 1),
        ([a_run(task_hash="0")], False, 1),
        ([a_run(split="train")], False, 1),
        ([a_run(task="x")], False, 1),
        ([a_run(suite="own")], False, 1),
        ([a_run(), a_run(seed=2, system={"name": "theirs"})], False, 1),
        ([a_run(), replace(a_run(text="other"), origin="elsewhere")], False, 1),
        (SAME, True, 1),
        ([a_run(), a_run(seed=2), a_run(IMDB, seed=2), a_run(IMDB, seed=3)], False, 2),
        ([a_run(limited=True), a_run(IMDB, split="train")], False, 2),
    ],
)
def test_what_could_never_pass_is_refused_with_every_reason(tmp_path, refused, runs, deterministic, reasons):
    found = list(refusals(runs, deterministic))
    assert len(found) == reasons
    with refused(SubmissionError) as caught:
        pack(runs, tmp_path, deterministic=deterministic)
    assert str(caught.value) == "\n  ".join(["These runs cannot be one submission:", *found])
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_is_a_result_without_scores(tmp_path):
    runs = [a_run(), a_run(IMDB), a_run(seed=2), failed_run(IMDB, 2, SYSTEM)]
    folder = pack(runs, tmp_path)
    assert not (folder / "imdb/seed-2.predictions.jsonl.gz").exists()
    result = read_result(folder / "imdb/seed-2.result.json")
    assert (result.status, result.scores, result.preference, result.task_hash) == ("failed", (), None, IMDB.hash)
    assert (result.grue["version"], result.system) == (__version__, SYSTEM) and "python" in result.packages
    assert not list(refusals([a_run(), a_run(IMDB)], deterministic=True))
    assert not list(refusals(SAME)), "the check tells whether they are one run"


def test_a_failed_run_of_another_task_is_of_that_task():
    """What a task brings itself, its backbone and its chat prompt, is not taken from a run of another one."""
    trained = a_run(system=SYSTEM | {"backbone": COMMONGEN.backbone.model}).result
    failed = failed_beside([trained], IMDB, 2).result
    assert (failed.task, failed.system["backbone"]) == ("imdb", IMDB.backbone.model)
    own = a_run(IMDB, system=SYSTEM | {"backbone": "a/model"}).result
    assert failed_beside([trained, own], IMDB, 2).result.system["backbone"] == "a/model"
    asked = {"prompting": {"kind": "chat", "version": 1, "hash": COMMONGEN.chat_hash, "shots": ["train-1"]}}
    chat = a_run(system=SYSTEM | {"backbone": "a/model"}, generation=asked).result
    assert failed_beside([chat], COMMONGEN, 2).result.generation == asked
    other = failed_beside([chat], IMDB, 2).result
    assert other.system["backbone"] == "a/model"
    assert other.generation == {
        "prompting": {"kind": "chat", "version": IMDB.prompt.chat.version, "hash": IMDB.chat_hash}
    }
    assert IMDB.chat_hash != COMMONGEN.chat_hash


def test_runs_are_found_by_run_by_system_and_by_name(tmp_path, refused):
    places = [tmp_path / f"mini/{task}/ours/seed-{n}" for task in ("commongen", "imdb") for n in (1, 2)]
    ours = [write_run(place, a_run()) for place in places]
    write_run(tmp_path / "mini/imdb/theirs/seed-1", a_run())
    assert find_runs([ours[1], tmp_path / "mini/imdb/ours", ours[1]]) == [ours[1], ours[2], ours[3]]
    assert collect.runs_of("ours", tmp_path, "mini") == ours
    with refused(DataError):
        collect.runs_of("her", tmp_path, "mini")
    for wrong in (tmp_path / "none", tmp_path / "mini"):
        with refused(DataError):
            find_runs([wrong])


def test_a_run_without_result_is_evaluated_or_declared_failed(tmp_path, refused):
    folder = tmp_path / "runs/mini/imdb/ours/seed-4"
    folder.mkdir(parents=True)
    assert find_runs([folder]) == find_runs([folder.parent]) == [folder]
    with refused(DataError):
        read_run(folder)
    write_run(folder, a_run(seed=2**32))
    with refused(DataError):
        read_run(folder)
    write_run(folder, a_run())
    assert read_run(folder) == replace(a_run(), origin=str(folder))
    (folder / "predictions.jsonl").unlink()
    with refused(DataError):
        read_run(folder)


def test_a_failed_run_is_named_by_task_and_seed(refused):
    for seed in ("", "x", "-1", "01", "²", "4294967296", "1" * 5_000):
        with pytest.raises(ConfigError, match=f"--failed imdb:{seed}: write TASK:SEED, such as"):
            collect.parse_failed(f"imdb:{seed}", "mini")
    for text in ("imdb", ":1x"):
        with refused(ConfigError):
            collect.parse_failed(text, "mini")
    for seed in (0, 2**32 - 1):
        assert collect.parse_failed(f"imdb:{seed}", "mini") == (IMDB, seed)


def test_predictions_made_elsewhere_lie_by_task_and_seed(tmp_path, refused):
    with refused(DataError):
        collect.find_predictions(tmp_path, "mini")
    for name in ("imdb/seed-10.jsonl", "imdb/seed-2.jsonl", "commongen/seed-1.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = [(task.name, seed) for task, seed, _ in collect.find_predictions(tmp_path, "mini")]
    assert found == [("commongen", 1), ("imdb", 10), ("imdb", 2)]
    for stray in (
        *("notes.txt", "cooking/seed-1.jsonl", "imdb/seed-01.jsonl", "imdb/1.jsonl", "a/imdb/seed-1.jsonl"),
        *("imdb/seed-4294967296.jsonl", f"imdb/seed-{'1' * 200}.jsonl"),
    ):
        (tmp_path / stray).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / stray).write_text("")
        with pytest.raises(DataError) as caught:
            collect.find_predictions(tmp_path, "mini")
        assert str(caught.value).startswith(f"{tmp_path / stray}: expected {tmp_path}/<task>/seed-<n>.jsonl, with a ")
        (tmp_path / stray).unlink()


def test_predictions_made_elsewhere_are_scored(tmp_path, monkeypatch, refused):
    examples = [Example(name, f"say {name}", (f"this is {name}",), {"concepts": [name]}) for name in ("a", "b")]
    loaded = SimpleNamespace(examples=examples, provenance=lambda: {"source": "mini", "examples": 2})
    monkeypatch.setattr(collect, "load_examples", lambda task, split, data_dir, offline: loaded)
    path = tmp_path / "seed-3.jsonl"
    path.write_text('{"id": "b", "text": "no"}\n{"text": "this is a", "id": "a", "truncated": true}\n')
    run = collect.score_run(COMMONGEN, 3, path, SYSTEM)
    result = run.result
    coverage = next(score for score in result.scores if score.metric == "coverage")
    assert (coverage.value, coverage.n) == (0.5, 2)
    assert (result.status, result.task, result.seed, result.system) == ("complete", "commongen", 3, SYSTEM)
    assert (result.task_hash, result.split, result.limited) == (COMMONGEN.hash, "test", False)
    assert result.data == {"source": "mini", "examples": 2}
    assert result.counts == {"expected": 2, "scored": 2, "empty": 0, "truncated": 1}
    assert run.predictions == (Prediction("b", "no"), Prediction("a", "this is a", True))
    folder = pack([run], tmp_path)
    assert json.loads((folder / "commongen/seed-3.result.json").read_text())["preference"] == result.preference
    path.write_text('{"id": "a", "text": "x"}\n')
    with refused(SubmissionError):
        collect.score_run(COMMONGEN, 3, path, SYSTEM)


def test_the_results_say_algorithm_backbones_seeds_and_budget_and_what_is_not_known_is_asked_for(refused):
    def trained(backbone, tokens):
        return SYSTEM | {"backbone": backbone, "training": {"tokens": tokens, "episodes": 8.0, "seconds": 3600.0}}

    runs = [
        *(a_run(system=trained("b", 1e6)), a_run(IMDB, system=trained("a", 3e6))),
        a_run(seed=2, system=trained("b", 2e6)),
    ]
    given = {key: value for key, value in GIVEN.items() if key != "budget"}
    described = describe([*runs, failed_run(IMDB, 2, SYSTEM)], given)
    assert (described.algorithm, described.backbone, described.seeds) == ("ppo", "a, b, mini:seq2seq", (1, 2))
    assert described.budget == "2.00 M tokens a run, 3.0 hours for all 3 runs (2 tasks)"
    assert describe(runs, GIVEN).budget == "1 hour"
    with refused(ConfigError):
        describe([*runs, a_run(IMDB, seed=2)], given)  # one of them does not say what it cost
    with refused(ConfigError):
        describe([a_run(system={"name": "ours"})], {})


def test_models_that_another_trainer_saved_are_of_the_backbone_that_is_said_of_them(tmp_path, refused):
    """Their results name a folder for each seed, so that no row could say what it was trained from."""

    def saved(place, seed):
        return a_run(seed=seed, system={"name": "ours", "algorithm": "external", "backbone": place})

    runs = [saved(f"trl/seed-{seed}", seed) for seed in (1, 2)]
    with refused(ConfigError):
        describe(runs, GIVEN)
    folder = pack(runs, tmp_path, backbone="mini:causal")
    assert {read_result(path).system["backbone"] for path in folder.rglob("*.result.json")} == {"mini:causal"}
    assert describe([saved("org/model", seed) for seed in (1, 2)], GIVEN).backbone == "org/model"
