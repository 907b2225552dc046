"""`grue submit reproduce` and `grue submit retrain`: a row made again, and what they refuse."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.good_submission import seal
from support.paths import ROOT
from support.tiny_row import SAID, SEEDS, configure, few_examples, make_row

from grue import files
from grue.api.evaluate import evaluate
from grue.cli.main import main
from grue.lm import checkpoint
from grue.submissions.checks.structure import read_system
from grue.submissions.entries import results
from grue.submissions.packing.collect import read_run
from grue.submissions.packing.pack import pack
from grue.submissions.trust import reproduce as reproducing
from grue.submissions.trust.again import threads_of
from grue.submissions.trust.ladder import read_seen
from grue.submissions.trust.retrain import plan_retraining
from grue.submissions.trust.rows import targets


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the runs of a row, and the row."""
    home = tmp_path_factory.mktemp("row")
    with few_examples():
        make_row(home)
        yield home


@pytest.fixture
def row(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the row, in a working directory of its own; the code counts as committed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("grue.provenance.code_is_changed", lambda: False)
    return Path(shutil.copytree(made / "submissions/mini/ours", tmp_path / "submissions/mini/ours"))


def grue(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["submit", *map(str, arguments)])


def told(*arguments: object) -> tuple[int, str]:
    """Return the exit code and the last line on stderr."""
    done = grue(*arguments)
    return done.exit_code, done.stderr.strip().splitlines()[-1]


def rewrite(row: Path, seed: int, text: str) -> None:
    """Replace every text of a seed's predictions."""
    path = row / f"imdb/seed-{seed}.predictions.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    changed = "".join(json.dumps({"id": line["id"], "text": text}) + "\n" for line in lines)
    path.write_bytes(gzip.compress(changed.encode(), mtime=0))
    seal(row)


def score(row: Path, seed: int, preference: float) -> None:
    """State another preference of a seed."""
    path = row / f"imdb/seed-{seed}.result.json"
    files.write_json(path, files.read_json(path) | {"preference": preference, "naturalness": None})
    seal(row)


# --- reproducing -----------------------------------------------------------------------------------------------------


def test_a_row_is_reproduced_from_its_runs_and_recorded(made: Path, row: Path) -> None:
    done = grue("reproduce", row, "--checkpoint", made / "runs", "--record", "--by", "A. M.", "--date", "2026-01-31")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [f"imdb seed {seed}: equal texts" for seed in SEEDS]
    assert all("equal weights; 100.0% equal texts; preference " in line for line in lines)
    seen = read_seen(row)
    assert [(one.seed, one.by, one.date, one.equal_texts) for one in seen] == [
        (seed, "A. M.", "2026-01-31", 1.0) for seed in SEEDS
    ]
    assert all(one.weights_then == one.weights_now != "" and one.then == one.now for one in seen)
    assert all(set(one.grue) == {"version", "commit"} and one.machine and "torch" in one.packages for one in seen)
    assert str(row.parent) not in (row.parent / "ours.trust.json").read_text()  # no path of this machine
    assert {entry.status for entry in results(row.parent.parent)} == {"reproduced"}
    configure(row, lambda stage: stage["config"].update(clip=0.3))  # the results agree with it
    assert {entry.status for entry in results(row.parent.parent)} == {"rescored"}


def test_checkpoints_are_named_one_by_one_or_by_a_pattern(made: Path, row: Path) -> None:
    runs = made / "runs/mini/imdb/ours"
    pattern = str(made / "runs/mini/{task}/ours/seed-{seed}/checkpoint")
    assert grue("reproduce", row, "--checkpoint", pattern, "--seed", 2).stdout.startswith("imdb seed 2: equal texts")
    assert grue("reproduce", row, "--checkpoint", runs / "seed-3").stdout.startswith("imdb seed 3: equal texts")
    code, error = told("reproduce", row, "--checkpoint", runs / "seed-3", "--seed", 1)
    assert (code, error) == (
        1,
        f"Error: {runs}/seed-3/checkpoint: is the checkpoint of mini/imdb seed 3, which is none of: imdb seed 1.",
    )


def test_another_checkpoint_is_refused_with_both_hashes(made: Path, row: Path, tmp_path: Path) -> None:
    place = made / "runs/mini/imdb/ours/seed-1/checkpoint"
    first = checkpoint.read_manifest(place).weights
    forged = Path(shutil.copytree(place, tmp_path / "forged"))
    config = forged / "config.json"
    config.write_text(config.read_text() + "\n")
    manifest = files.read_json(forged / "grue.json")
    manifest["files"]["config.json"] = hashlib.sha256(config.read_bytes()).hexdigest()
    files.write_json(forged / "grue.json", manifest)
    other = checkpoint.read_manifest(forged).weights
    assert other != first
    code, error = told("reproduce", row, "--checkpoint", forged)
    assert code == 1
    assert error.strip() == f"{forged}: has the weights {other!r}; imdb seed 1 was answered with {first!r}."
    code, error = told("reproduce", row, "--checkpoint", str(place).replace("seed-1", "{task}-{seed}"), "--seed", 2)
    assert code == 3 and "there is no such checkpoint" in error


def test_a_checkpoint_of_another_seed_is_told(made: Path, row: Path, tmp_path: Path) -> None:
    (tmp_path / "imdb").symlink_to(made / "runs/mini/imdb/ours/seed-1")
    done = grue("reproduce", row, "--checkpoint", tmp_path / "{task}", "--seed", 2)
    first, seed, weights = done.stderr.splitlines()
    assert (done.exit_code, first) == (1, "Error: These are not the row's checkpoints:")
    assert seed.strip() == f"{tmp_path}/imdb/checkpoint: is of mini/imdb seed 1, not of imdb seed 2."
    assert "has the weights" in weights


@pytest.mark.parametrize(("key", "said"), [("algorithm", "ppo"), ("backbone", "mini:other"), ("update", 99)])
def test_a_row_that_says_otherwise_than_its_checkpoint_is_refused(made: Path, row: Path, key: str, said: Any) -> None:
    path = row / "imdb/seed-1.result.json"
    result = files.read_json(path)
    files.write_json(path, result | {"system": result["system"] | {key: said}})
    (row / "imdb/config.json").unlink()  # it would contradict the result
    seal(row)
    place = made / "runs/mini/imdb/ours/seed-1"
    code, error = told("reproduce", row, "--checkpoint", place, "--seed", 1)
    true = result["system"][key]
    assert true != said
    assert (code, error.strip()) == (1, f"{place}/checkpoint: says {key} {true!r}; imdb seed 1 says {said!r}.")


def test_no_checkpoint_and_one_that_could_hold_code(made: Path, row: Path, tmp_path: Path) -> None:
    code, error = told("reproduce", row, "--checkpoint", tmp_path / "none")
    assert code == 3 and "there is no such checkpoint" in error
    pickled = tmp_path / "pickled"
    shutil.copytree(made / "runs/mini/imdb/ours/seed-1/checkpoint", pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    code, error = told("reproduce", row, "--checkpoint", pickled)
    assert code == 3 and "holds no weights in the format safetensors" in error


def test_a_damaged_checkpoint_is_not_loaded(made: Path, row: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(made / "runs/mini/imdb/ours/seed-1/checkpoint", tmp_path / "damaged"))
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    code, error = told("reproduce", row, "--checkpoint", damaged)
    assert code == 3 and "damaged: model.safetensors differs" in error


def test_other_texts_are_not_reproduced_and_that_is_recorded(made: Path, row: Path) -> None:
    rewrite(row, 1, "Nothing.")
    place = made / "runs/mini/imdb/ours/seed-1"
    code, error = told("reproduce", row, "--checkpoint", place, "--record", "--by", "A. M.")
    assert (code, error) == (1, "Error: Not reproduced: imdb seed 1 is different.")
    assert [(one.verdict, one.equal_texts) for one in read_seen(row)] == [("different", 0.0)]
    assert {entry.status for entry in results(row.parent.parent)} == {"rescored"}


def test_a_hub_id_is_fetched_once_and_compared(made: Path, row: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fetch(name: str) -> Path:
        asked.append(name)
        return made / f"runs/mini/imdb/ours/{name.removeprefix('me/')}/checkpoint"

    monkeypatch.setattr(reproducing, "fetch_model", fetch)
    done = grue("reproduce", row, "--checkpoint", "me/seed-{seed}", "--seed", 1, "--seed", 2)
    assert done.exit_code == 0, done.output
    assert asked == ["me/seed-1", "me/seed-2"]


def test_a_row_that_picks_by_code_is_refused(made: Path, row: Path) -> None:
    path = row / "imdb/seed-1.result.json"
    result = files.read_json(path)
    for best_of in ({"n": 4, "pick_by": "os:system"}, {"n": 10**9, "pick_by": "likelihood"}, {"n": "4"}, 4):
        result["generation"]["best_of"] = best_of
        files.write_json(path, result)
        seal(row)
        code, error = told("reproduce", row, "--checkpoint", made / "runs/mini/imdb/ours/seed-1")
        assert code == 1 and "which is not done again here" in error


def test_a_baseline_is_reproduced_without_a_checkpoint(row: Path, tmp_path: Path) -> None:
    for name in ("copy", "nearest", "zero-shot"):
        evaluate(name, "imdb", runs=tmp_path / "runs")
        runs = [read_run(tmp_path / f"runs/mini/imdb/{name}/seed-1")]
        folder = pack(runs, replace(SAID, name=name, seeds=(1,), deterministic=True), tmp_path / "submissions")
        assert grue("reproduce", folder).stdout.startswith(
            "imdb seed 1: equal texts (equal weights; 100.0% equal texts"
        )
    code, error = told("reproduce", row)
    assert code == 2
    assert error == "Error: imdb seed 1: was answered by a model of its authors; say where it is, with --checkpoint."


def test_the_rows_threads_are_used_within_reason(row: Path) -> None:
    path = row / "imdb/seed-1.result.json"
    result = files.read_json(path)
    for threads, used in ((3, 3), (10**6, None), (0, None), ("2", None), (True, None)):
        result["determinism"]["threads"] = threads
        files.write_json(path, result)
        seal(row)
        assert threads_of(targets(row, seeds=[1])) == used


# --- retraining ------------------------------------------------------------------------------------------------------


def test_a_packed_configuration_has_both_runs_and_is_in_order(row: Path) -> None:
    stages = files.read_json(row / "imdb/config.json")["stages"]
    assert [stage["algorithm"] for stage in stages] == ["supervised", "supervised+ppo"]
    assert stages[1]["config"]["updates"] == 3 and stages[1]["config"]["train_share"] is None
    assert "seed" not in stages[1] and "data_dir" not in stages[1]
    assert "imdb/config.json" in (row / "MANIFEST.sha256").read_text()
    assert [problem.message for problem in read_system(row).problems if problem.severity == "error"] == []


def test_a_row_is_retrained_to_the_same_bytes(row: Path) -> None:
    done = grue("retrain", row, "--seed", 2, "--runs", "again", "--record", "--by", "A. M.")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("imdb seed 2: equal weights (equal weights; 100.0% equal texts; ")
    assert f"about 16,712 texts; configuration: {row / 'imdb/config.json'}" in done.stderr
    (seen,) = read_seen(row)
    assert (seen.rung, seen.configuration, seen.seed) == ("retrained", "submitted", 2)
    assert {entry.status for entry in results(row.parent.parent)} == {"retrained"}
    config = row / "imdb/config.json"
    assert seen.of.configuration == hashlib.sha256(config.read_bytes()).hexdigest()
    before = {path: path.stat().st_mtime_ns for path in Path("again").rglob("*.safetensors")}
    assert grue("retrain", row, "--seed", 2, "--runs", "again").exit_code == 0  # finished: nothing is trained again
    assert before == {path: path.stat().st_mtime_ns for path in Path("again").rglob("*.safetensors")}
    code = next(Path("again").rglob("ours/seed-2/code.json"))
    files.write_json(code, {"version": "0", "commit": "another"})
    number, error = told("retrain", row, "--seed", 2, "--runs", "again")
    assert number == 1 and "was begun by other code" in error


def test_other_texts_are_judged_by_the_other_seeds(row: Path) -> None:
    rewrite(row, 2, "Nothing.")
    done = grue("retrain", row, "--seed", 2, "--runs", "again")  # as the seeds of the row are
    assert done.exit_code == 0 and done.stdout.startswith("imdb seed 2: inside (")
    assert ", expected " in done.stdout
    score(row, 1, 1.0)
    score(row, 3, 1.1)
    code, error = told("retrain", row, "--seed", 2, "--runs", "again", "--record", "--by", "A. M.")
    assert code == 1 and error == "Error: Not retrained: imdb seed 2 is undecided."  # naturalness of no other seed
    for seed in (1, 3):
        path = row / f"imdb/seed-{seed}.result.json"
        files.write_json(path, files.read_json(path) | {"naturalness": 50.0 + seed})
    seal(row)
    code, error = told("retrain", row, "--seed", 2, "--runs", "again", "--record", "--by", "A. M.")
    assert code == 1 and error == "Error: Not retrained: imdb seed 2 is outside."
    assert [one.verdict for one in read_seen(row)] == ["outside"]


def test_a_folder_of_other_runs_is_not_taken(made: Path, row: Path) -> None:
    first = grue("retrain", row, "--seed", 1, "--runs", "again", "--dry-run").stdout
    folder = next(line.split(" = ")[1] for line in first.splitlines() if line.startswith("  folder"))
    shutil.copytree(made / "runs/mini/imdb/supervised/seed-1", folder)
    code, error = told("retrain", row, "--seed", 1, "--runs", "again")
    assert code == 1 and "was not begun by `grue submit retrain`" in error


def test_a_row_without_configuration_is_retrained_by_the_recipe_or_not_at_all(row: Path) -> None:
    (row / "imdb/config.json").unlink()
    seal(row)
    code, error = told("retrain", row, "--seed", 1)
    assert code == 1
    assert "has no config.json, and its training was not by the task's recipe, whose hash is another" in error
    ours = plan_retraining(targets(ROOT / "submissions/mini/supervised+ppo", ["totto"], [4])[0], Path("again"))
    assert ours.origin in ("recipe", "submitted")
    assert [plan.algorithm for plan in ours.stages] == ["supervised", "supervised+ppo"]


def test_a_row_that_was_not_trained_says_so() -> None:
    code, error = told("retrain", ROOT / "submissions/mini/nearest", "--task", "imdb", "--seed", 1)
    assert code == 1 and "does not say how it was trained" in error


HOSTILE: tuple[tuple[dict[str, Any], str], ...] = (
    ({"algorithm": "supervised+evil:ALGORITHM"}, "algorithm 'evil:ALGORITHM' is code that is not grue's"),
    ({"algorithm": "supervised+evil"}, "algorithm 'evil' is code that is not grue's"),
    ({"reward": "evil:reward"}, "reward 'evil:reward' is code that is not grue's"),
    ({"reward": "sentiment + 0*evil:reward"}, "reward 'evil:reward' is code that is not grue's"),
    ({"reward": "evaluate:evil"}, "reward 'evaluate:evil' is code that is not grue's"),
    ({"reward": "evil:reward (sha256 0123456789abcdef)"}, "is code that is not grue's"),
    ({"backbone": ""}, "backbone '' is a folder of one machine"),  # the working directory
    ({"backbone": "/etc"}, "backbone '/etc' is a folder of one machine"),
    ({"backbone": "../model"}, "backbone '../model' is a folder of one machine"),
    ({"backbone": "mini:../../model"}, "is a folder of one machine"),
    ({"backbone": "evil"}, "backbone 'evil' is a folder of one machine"),  # it lies in the working directory
)


def test_nothing_that_a_configuration_names_is_imported_or_opened(row: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nALGORITHM = reward = print\n")
    (tmp_path / "evil").mkdir()
    pristine = Path(shutil.copytree(row, tmp_path / "pristine"))
    for change, error in HOSTILE:
        shutil.rmtree(row)
        shutil.copytree(pristine, row)
        configure(row, lambda stage, change=change: stage.update(change))  # type: ignore[misc]
        code, told_of = told("retrain", row, "--seed", 1, "--runs", "again")
        assert code == 1 and error in told_of, (change, told_of)
    assert not (tmp_path / "ran").exists() and not (tmp_path / "again").exists()


def test_a_configuration_says_nothing_of_data_or_starts(row: Path) -> None:
    for key, value in (("data_dir", "/etc"), ("init", "/etc"), ("init_sha256", "0" * 64)):
        pristine = (row / "imdb/config.json").read_text()
        configure(row, lambda stage, key=key, value=value: stage.update({key: value}))  # type: ignore[misc]
        code, error = told("retrain", row, "--seed", 1)
        assert code == 1 and f"unknown key {key!r}" in error
        (row / "imdb/config.json").write_text(pristine)


def test_a_model_of_the_hub_needs_leave(row: Path) -> None:
    for stage in (0, 1):
        configure(row, lambda one: one.update(backbone="me/model", backbone_weights="me/model@main"), stage)
    code, error = told("retrain", row, "--seed", 1)
    assert code == 1
    assert error.endswith("starts from 'me/model' of the hub; allow that with --allow-download.")
    allowed = grue("retrain", row, "--seed", 1, "--allow-download", "--dry-run")
    assert allowed.exit_code == 0 and "starts from = me/model" in allowed.stdout


def test_absurd_budgets_are_refused_with_what_they_would_cost(row: Path) -> None:
    configure(row, lambda stage: stage["config"].update(updates=10**9))
    code, error = told("retrain", row, "--seed", 1)
    assert code == 1 and "and 2,000,000 are allowed; allow them with --at-most" in error
    texts = int(error.rsplit(" ", 1)[1].rstrip("."))
    assert texts > 32 * 10**9  # 16 rollouts an update, each sampled and learned from
    assert grue("retrain", row, "--seed", 1, "--at-most", texts, "--dry-run").exit_code == 0
    configure(row, lambda stage: stage["config"].update(updates=1, lora_rank=10**9))
    assert "lora_rank is 1,000,000,000; at most 1,024" in told("retrain", row, "--seed", 1, "--at-most", texts)[1]
    configure(row, lambda stage: stage["config"].update(lora_rank=0, learning_rate=-1.0))
    assert "learning_rate must be above 0" in told("retrain", row, "--seed", 1)[1]
    configure(row, lambda stage: stage["config"].update(learning_rate=1e-4, keep_last=10**9, save_every=1))
    plan = plan_retraining(targets(row, seeds=[1])[0], Path("again")).stages[-1]
    assert (plan.config.keep_last, plan.config.save_every) == (2, 10)  # a disk is not filled with states


def test_what_has_changed_since_is_told(row: Path) -> None:
    configure(row, lambda stage: stage.update(backbone_weights="0" * 64))
    code, error = told("retrain", row, "--seed", 1)
    assert code == 3 and "the backbone had the hash '000" in error


def test_a_configuration_of_other_results_is_refused(row: Path) -> None:
    path = row / "imdb/config.json"
    data = files.read_json(path)
    data["stages"][-1]["config"]["clip"] = 0.3
    files.write_json(path, data)
    seal(row)
    code, error = told("retrain", row, "--seed", 1)
    assert code == 1 and "imdb/config.json: its hash with seed 1 is" in error


def test_a_row_out_of_order_is_not_read(row: Path) -> None:
    (row / "imdb/seed-1.predictions.jsonl.gz").unlink()
    (row / "imdb/seed-1.predictions.jsonl.gz").symlink_to("/etc/passwd")
    for command in (["retrain", row, "--seed", 1], ["reproduce", row, "--checkpoint", "runs"]):
        code, error = told(*command)
        assert code == 1 and "is a link. Correct what `grue submit check" in error


def test_wrong_commands(row: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, code, said in (
        (["--task", "totto", "--seed", 1], 2, "has no complete run of task totto. It has: imdb."),
        (["--seed", 9], 2, "has no complete run of seed 9. It has: 1, 2, 3."),
        (["--seed", 1, "--record"], 2, "--record: say who made it again, with --by NAME."),
        (["--seed", 1, "--record", "--by", "A. M.", "--date", "tomorrow"], 2, "write it as 2026-01-31."),
    ):
        found, error = told("retrain", row, *arguments)
        assert (found, error.endswith(said)) == (code, True), error
    monkeypatch.setattr("grue.provenance.code_is_changed", lambda: True)
    code, error = told("retrain", row, "--seed", 1, "--record", "--by", "A. M.")
    assert code == 2 and "the code has uncommitted changes" in error
    code, error = told("retrain", row.parent / "theirs", "--seed", 1)
    assert code == 3 and "there is no such folder" in error
