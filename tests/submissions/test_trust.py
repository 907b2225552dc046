"""`grue submit verify` and `retrain`: a row run again, and what they refuse; also the row of the runs' last policies."""

import gzip
import hashlib
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import commands
from support.factories import a_result
from support.late import late

from grue import files
from grue.errors import SubmissionError
from grue.submissions.checks.check import check
from grue.submissions.entries import results
from grue.submissions.trust.draw import draw
from grue.submissions.trust.record import read_trust
from grue.task_files import load_task

tiny_row, good_submission, checkpoint = (
    late("support.tiny_row"),
    late("support.good_submission"),
    late("grue.lm.checkpoint"),
)
api, packing = late("grue"), late("grue.submissions.packing.pack")
models, retrain = late("grue.submissions.trust.models"), late("grue.submissions.trust.retrain")
trusted, collect = late("grue.submissions.trust.models"), late("grue.submissions.packing.collect")
external, load = late("grue.evaluation.systems"), late("grue.lm.load")
RECORD = ("--record", "--by", "A. M.")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the runs of a row, the row, and that of the last policies of the same runs."""
    home = tmp_path_factory.mktemp("row")
    with tiny_row.few_examples():
        tiny_row.make_row(home)
        for seed in tiny_row.SEEDS:
            api.evaluate(home / f"runs/mini/imdb/ours/seed-{seed}/final")
        runs = [collect.read_run(run) for run in collect.runs_of("ours+last", home / "runs", "mini")]
        packing.pack(runs, replace(tiny_row.SAID, name="ours+last"), home / "submissions")
        yield home


@pytest.fixture
def row(made, tmp_path, monkeypatch):
    """A copy of the row, in a working directory of its own; the code counts as committed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("grue.provenance.code_is_changed", lambda: False)
    return Path(shutil.copytree(made / "submissions/mini", tmp_path / "submissions/mini")) / "ours"


@pytest.fixture
def place(made):
    """The checkpoint of the first seed."""
    return made / "runs/mini/imdb/ours/seed-1/checkpoint"


def grue(*arguments, code=0):
    return commands.grue("submit", *arguments, code=code)


def fails(code, said, *arguments):
    """Expect a command to fail, and to end with a message that has these words; return it."""
    error = grue(*arguments, code=code).stderr.strip().splitlines()[-1].strip()
    assert said in error, (arguments, error)
    return error


def edit_result(row, seed, **changes):
    path = row / f"imdb/seed-{seed}.result.json"
    result = files.read_json(path)
    files.write_json(path, result | {k: result[k] | v if isinstance(v, dict) else v for k, v in changes.items()})
    good_submission.seal(row)
    return result


def say(row, **said):
    """Change what `submission.toml` says."""
    path = row / "submission.toml"
    files.write_toml(path, files.read_toml(path) | said)
    good_submission.seal(row)


def rewrite(row, seed, text):
    """Replace every text of a seed's predictions."""
    path = row / f"imdb/seed-{seed}.predictions.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    changed = "".join(json.dumps({"id": line["id"], "text": text}) + "\n" for line in lines)
    path.write_bytes(gzip.compress(changed.encode(), mtime=0))
    good_submission.seal(row)


def drawn_seed(row):
    return draw([target.result for target in trusted.targets(row)])["imdb"].seed


def configure(row, stage=-1, within=None, **changes):
    """Change a stage of the row's configuration, with results that agree."""
    tiny_row.configure(row, lambda one: (one[within] if within else one).update(changes), stage)


def status(row):
    return {entry.status for entry in results(row)}


def test_seeds_that_are_named_are_run_on_the_public_test_alone(made, row):
    done = grue("verify", row, "--checkpoint", made / "runs", "--seed", 1, "--seed", 3)
    *lines, last = done.stdout.splitlines()
    assert lines == [f"imdb seed {seed}: 100.0% equal texts" for seed in (1, 3)] and last.endswith(
        "the others were not made again."
    )
    assert status(row) == {"rescored"}  # nothing is recorded
    fails(2, "leave out --task and --seed", "verify", row, "--checkpoint", made / "runs", "--seed", 1, *RECORD)
    fails(2, "--drawn: the draw names the seeds; leave out --seed.", "verify", row, "--seed", 1, "--drawn")


def test_a_row_is_verified_on_rows_that_no_split_has(made, row):
    """By its runs, wherever `submission.toml` says they are, and by training them again."""
    command = ("verify", row, "--salt", "run 7", *RECORD, "--date", "2026-01-31")
    done = grue(*command, "--checkpoint", made / "runs")
    (drawn,) = draw([target.result for target in trusted.targets(row)], "run 7").values()
    *runs, bound, verdict = done.stdout.splitlines()
    first = runs.pop(tiny_row.SEEDS.index(drawn.seed))
    assert first.startswith(f"imdb seed {drawn.seed}: 100.0% equal texts; preference ") and " public, " in first
    others = [seed for seed in tiny_row.SEEDS if seed != drawn.seed]
    assert runs == [f"imdb seed {seed}: 100.0% equal texts" for seed in others]
    assert bound.startswith("imdb: preference: ") and bound.endswith(" in 10,000 tries.")
    assert verdict == f"{row}: verified." and status(row) == {"verified"}
    trust = read_trust(row)
    assert [run.seed for run in trust.reruns] == list(tiny_row.SEEDS)
    (run,) = [run for run in trust.reruns if run.fresh]
    assert (trust.by, trust.date, trust.salt, run.seed) == ("A. M.", "2026-01-31", "run 7", drawn.seed)
    assert set(trust.grue) == {"version", "commit"} and trust.machine and "torch" in trust.packages
    assert run.fresh.seed == drawn.rows_seed and set(run.fresh.gaps) == {"preference", "naturalness"}
    recorded = row.with_name("ours.trust.json")
    before = recorded.read_bytes()
    assert str(row.parent) not in before.decode()  # no path of this machine
    say(row, checkpoints="config.json")
    assert status(row) == {"rescored"}  # other files
    grue(*command, "--drawn", "--runs", "again")
    (again,) = read_trust(row).reruns
    assert again == run and status(row) == {"verified"}
    assert [path.parent.name for path in Path("again").rglob("ours/*/checkpoint")] == [f"seed-{drawn.seed}"]


def test_beside_verified_rows_the_lead_over_them_is_judged(made, row, tmp_path):
    """A copy under another name leads by nothing on either split; by a lot, once its record has other fresh scores."""
    command = ("verify", row, "--drawn", "--checkpoint", made / "runs", *RECORD)
    grue(*command)
    (alone,) = read_trust(row).reruns
    assert alone.fresh.leads == {} and alone.fresh.judged == alone.fresh.gaps
    copy = shutil.copytree(row, row.with_name("theirs"))
    for seed in tiny_row.SEEDS:
        edit_result(copy, seed, system={"name": "theirs"})
    say(copy, name="theirs")
    recorded = copy.with_name("theirs.trust.json")
    record = files.read_json(row.with_name("ours.trust.json"))
    files.write_json(recorded, record | {"manifest": files.sha256_file(copy / "MANIFEST.sha256")})
    assert "lead in preference 0.00 public, 0.00 fresh (± " in grue(*command).stdout
    (run,) = read_trust(row).reruns
    assert run.fresh.gaps == alone.fresh.gaps and run.fresh.verified == {"theirs": run.seed}
    for axis, lead in run.fresh.leads.items():
        own = alone.fresh.gaps[axis].fresh_error
        assert (lead.public, lead.fresh, lead.public_error) == (0, 0, 0) and lead.error == pytest.approx(own * 2**0.5)
    say(copy, budget="hours")  # no longer verified
    grue(*command)
    assert read_trust(row).reruns == (alone,)
    record["manifest"] = files.sha256_file(copy / "MANIFEST.sha256")
    (seen,) = record["reruns"]
    for gap in seen["fresh"]["gaps"].values():
        gap["fresh"] += 90
    files.write_json(recorded, record)
    fails(1, "imdb: lead in naturalness is 0.00 on the public test and -90.00 on the fresh draw", *command)
    assert status(row) == {"rescored"}
    # What stands elsewhere decides, whatever becomes of the rows and records beside the row.
    base = shutil.copytree(row.parent, tmp_path / "base/submissions/mini")
    for gap in seen["fresh"]["gaps"].values():
        gap["fresh"] -= 90
    files.write_json(recorded, record)
    grue(*command)
    fails(1, "imdb: lead in naturalness is 0.00 on", *command, "--beside", base.parent)
    say(copy, budget="days")  # nor by making them rows that are not verified
    fails(1, "imdb: lead in naturalness is 0.00 on", *command, "--beside", base.parent)
    fails(3, "there is no such folder of submissions", *command, "--beside", tmp_path / "nowhere")


def test_texts_that_the_checkpoint_did_not_write_are_not_verified(made, row):
    """References, texts that were improved by hand, and those of another seed: whatever their scores."""
    rewrite(row, drawn_seed(row), "What a great and beautiful film. I loved it.")
    said = "0.0% of its public texts came out again, of 99%"
    fails(1, said, "verify", row, "--drawn", "--checkpoint", made / "runs", *RECORD)
    assert status(row) == {"rescored"}  # though the failure is recorded


def test_texts_of_a_seed_that_is_not_drawn_are_seen_too(made, row):
    """A draw of one seed of several would miss them most of the time, and one may carry the mean."""
    seed = next(seed for seed in tiny_row.SEEDS if seed != drawn_seed(row))
    rewrite(row, seed, "What a great and beautiful film. I loved it.")
    command = ("verify", row, "--checkpoint", made / "runs")
    fails(1, f"imdb seed {seed}: 0.0% of its public texts came out again", *command, *RECORD)
    assert status(row) == {"rescored"}
    assert "verified" in grue(*command, "--drawn").stdout  # which the option says


def test_another_model_at_the_address_is_refused(made, row, monkeypatch, tmp_path):
    """It was handed in by its hash; one that was trained on the draw is another."""
    asked = []

    def serve(url, target, **limits):
        asked.append(url)
        target.parent.mkdir(parents=True)
        shutil.make_archive(str(target).removesuffix(".tar.gz"), "gztar", served[0].parent, served[0].name)

    monkeypatch.setenv("GRUE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(models, "download", serve)
    say(row, checkpoints="https://example.org/{task}/{seed}.tar.gz")
    seed = drawn_seed(row)
    another = next(one for one in tiny_row.SEEDS if one != seed)
    served = [made / f"runs/mini/imdb/ours/seed-{another}/checkpoint"]
    assert "has the weights" in grue("verify", row, "--drawn", code=1).stderr
    served[0] = made / f"runs/mini/imdb/ours/seed-{seed}/checkpoint"
    assert grue("verify", row, "--drawn").stdout.startswith(f"imdb seed {seed}: 100.0% equal texts; ")
    assert asked == [f"https://example.org/imdb/{seed}.tar.gz"] * 2


def test_checkpoints_are_named_one_by_one_by_a_pattern_or_as_models_of_the_hub(made, row, monkeypatch):
    runs, asked = made / "runs/mini/imdb/ours", []
    pattern = made / "runs/mini/{task}/ours/seed-{seed}/checkpoint"
    assert grue("verify", row, "--checkpoint", pattern, "--seed", 2).stdout.startswith("imdb seed 2: 100.0% equal")
    assert grue("verify", row, "--checkpoint", runs / "seed-2", "--seed", 2).stdout.startswith("imdb seed 2: 100.0% eq")
    renamed = Path(shutil.copytree(row, row.with_name("renamed")))
    for result in renamed.rglob("*.result.json"):
        result.write_text(result.read_text().replace('"name": "ours"', '"name": "renamed"'))
    say(renamed, name="renamed")
    said = (
        f"renamed/seed-2: there is no such run; if its system has another NAME there, give '{made}/runs/mini/{{task}}/"
    )
    fails(3, said, "verify", renamed, "--checkpoint", made / "runs", "--seed", 2)
    fails(2, "is one model, and these are 2 runs", "verify", row, "--checkpoint", runs, "--seed", 1, "--seed", 2)

    def fetch(name):
        asked.append(name)
        return runs / name.removeprefix("me/") / "checkpoint"

    monkeypatch.setattr(models, "fetch_model", fetch)
    grue("verify", row, "--checkpoint", "me/seed-{seed}", "--seed", 1, "--seed", 3)
    assert asked == ["me/seed-1", "me/seed-3"]


def test_another_checkpoint_is_refused(row, place, tmp_path):
    """One of another seed, with both hashes; a forged one; a damaged one; one that could hold code; and none."""
    first = checkpoint.read_manifest(place).weights
    forged = Path(shutil.copytree(place, tmp_path / "forged"))
    config = forged / "config.json"
    config.write_text(config.read_text() + "\n")
    manifest = files.read_json(forged / "grue.json")
    manifest["files"]["config.json"] = hashlib.sha256(config.read_bytes()).hexdigest()
    files.write_json(forged / "grue.json", manifest)
    other = checkpoint.read_manifest(forged).weights
    assert other != first
    command = ("verify", row, "--seed", 1, "--checkpoint")
    said = f"{forged}: has the weights {other!r}; imdb seed 1 was answered with {first!r}."
    assert fails(1, said, *command, forged).endswith(said)
    said = f"has the weights {first!r}; imdb seed 2 was answered with"
    fails(1, said, "verify", row, "--seed", 2, "--checkpoint", place)
    damaged = Path(shutil.copytree(place, tmp_path / "damaged")) / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\0")
    fails(3, "damaged: model.safetensors differs", *command, damaged.parent)
    damaged.rename(damaged.with_name("pytorch_model.bin"))
    fails(3, "holds no weights in the format safetensors", *command, damaged.parent)
    for name in ("none", "{task}-{seed}"):
        fails(3, "there is no such checkpoint", *command, tmp_path / name)


def test_a_model_that_another_trainer_saved_is_run_from_a_folder_and_not_by_an_address(
    row, place, monkeypatch, tmp_path
):
    """An address of the hub names no files, so that what it holds cannot be the folder that was evaluated."""
    saved = Path(shutil.copytree(place, tmp_path / "saved"))
    (saved / "grue.json").unlink()
    weights = external.weights_id(str(saved))
    edit_result(row, 1, system={"weights": weights})
    assert grue("verify", row, "--seed", 1, "--checkpoint", saved).stdout.startswith("imdb seed 1: 100.0% equal texts")
    monkeypatch.setattr(models, "fetch_model", lambda name: saved)
    monkeypatch.setattr(external, "weights_id", lambda name: f"{name}@main")
    monkeypatch.setattr(external, "family_of", lambda name: "causal")
    monkeypatch.setattr(external, "_load", lambda family, name: load.load_language_model(family, str(saved)))
    fails(1, f"answered with {weights!r}. Of a model that", "verify", row, "--seed", 1, "--checkpoint", "me/model")


def test_a_row_that_states_another_size_than_its_model_has_is_refused(row, place):
    edit_result(row, 1, system={"parameters": 10})
    fails(1, "imdb seed 1: states 10 parameters; its model has", "verify", row, "--seed", 1, "--checkpoint", place)


def test_a_row_that_picks_by_code_or_by_references_that_it_hides_is_refused(row, place):
    for best_of in ({"n": 4, "pick_by": "os:system"}, {"n": 10**9, "pick_by": "likelihood"}, {"n": "4"}, 4):
        edit_result(row, 1, generation={"best_of": best_of})
        fails(1, "which is not done again here", "verify", row, "--seed", 1, "--checkpoint", place)
    edit_result(row, 1, generation={"best_of": {"n": 4, "pick_by": "sacrebleu", "oracle": False}})
    fails(1, "which reads references, and does not state `oracle`.", "verify", row, "--seed", 1, "--checkpoint", place)
    edit_result(row, 1, generation={"guided": {"decoder": "deal"}})
    fails(1, "its decoding is guided, which is not done again here", "verify", row, "--seed", 1, "--checkpoint", place)


def test_a_baseline_needs_no_checkpoint(row, tmp_path):
    from grue.api.evaluate import evaluate

    for name, backbone in (("nearest", "none"), ("zero-shot", "mini:causal")):
        evaluate(name, "imdb", runs=tmp_path / "runs")
        runs = [collect.read_run(tmp_path / f"runs/mini/imdb/{name}/seed-1")]
        said = replace(tiny_row.SAID, name=name, algorithm=name, backbone=backbone, seeds=(1,), deterministic=True)
        done = grue("verify", packing.pack(runs, said, tmp_path / "submissions"), "--seed", 1)
        assert done.stdout.startswith("imdb seed 1: 100.0% equal texts")
    said = "was answered by a model of its authors; say where it is, with --checkpoint or as `checkpoints` in submission.toml."
    fails(2, said, "verify", row)


def test_the_rows_threads_are_used_within_reason(row):
    for threads, used in ((3, 3), (10**6, None), (0, None), ("2", None), (True, None)):
        edit_result(row, 1, determinism={"threads": threads})
        assert trusted.threads_of(trusted.targets(row, seeds=[1])) == used


def test_a_row_is_retrained_to_the_same_bytes_and_other_texts_are_judged_by_the_other_seeds(row):
    command = ("retrain", row, "--seed", 2, "--runs", "again")
    done = grue(*command)
    assert done.stdout.startswith("imdb seed 2: equal texts (equal weights, 100.0% equal texts)")
    assert f"about 8,640 texts; {row / 'imdb/config.json'}" in done.stderr
    before = {path: path.stat().st_mtime_ns for path in Path("again").rglob("*.safetensors")}
    rewrite(row, 2, "Nothing.")
    done = grue(*command)  # as the seeds of the row are
    assert done.stdout.startswith("imdb seed 2: inside: ") and ", expected " in done.stdout
    for seed in (1, 3):
        edit_result(row, seed, preference=1.0 + seed / 10, naturalness=50.0 + seed)
    fails(1, "Error: Not the runs of the row: imdb seed 2: outside: ", *command)
    assert before == {path: path.stat().st_mtime_ns for path in Path("again").rglob("*.safetensors")}, "trained once"


def test_other_seeds_decide_what_is_retrained():
    """With two axes each has 97.5 %: t of 3 degrees of freedom is 4.177, so 50 to 53 expects 44.5 to 58.5."""

    def made(preference, naturalness=10.0):
        return replace(a_result(load_task("imdb"), "ours", 1, 50.0), preference=preference, naturalness=naturalness)

    others = [made(value) for value in (50.0, 51.0, 52.0, 53.0)]
    half = 4.1765 * math.sqrt(5 / 3) * math.sqrt(1.25)

    def judge(now, share=0.5, others=others):
        return retrain.judge(share, now, made(50.0), others)

    for preference, passed in ((51.5 + half - 0.01, True), (51.5 + half + 0.01, False), (40.0, False)):
        assert judge(made(preference))[0] == passed
    assert f"expected {51.5 - half:.2f} to {51.5 + half:.2f}" in judge(made(51.5))[1]
    assert not judge(made(51.5, 10.1))[0]  # naturalness counts, too
    assert judge(made(0.0, 0.0), 1.0, []) == (True, "equal texts")
    for passed, line in (judge(made(51.0), others=others[:1]), judge(made(None, None))):
        assert not passed and line.startswith("undecided")
    assert judge(made(51.0, None))[0]


HOSTILE = (
    ({"algorithm": "supervised+evil:ALGORITHM"}, "algorithm 'evil:ALGORITHM' is code that is not grue's"),
    ({"reward": "sentiment + 0*evil:reward"}, "reward 'evil:reward' is code that is not grue's"),
    ({"reward": "evaluate:evil"}, "reward 'evaluate:evil' is code that is not grue's"),
    ({"reward": "evil:reward (sha256 0123456789abcdef)"}, "is code that is not grue's"),
    # a folder of the working directory, and the working directory itself
    *(({"backbone": name}, f"backbone {name!r} is a folder of one machine") for name in ("/etc", "../model", "evil")),
    ({"backbone": "mini:../../model"}, "is a folder of one machine"),
    *(({key: value}, f"unknown key {key!r}") for key, value in (("data_dir", "/etc"), ("init", "/etc"))),
    ({"init_sha256": "0" * 64}, "unknown key 'init_sha256'"),
)


def test_nothing_that_a_configuration_names_is_imported_or_opened(row, tmp_path):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nALGORITHM = reward = print\n")
    (tmp_path / "evil").mkdir()
    pristine = Path(shutil.copytree(row, tmp_path / "pristine"))
    for change, error in HOSTILE:
        shutil.rmtree(row)
        shutil.copytree(pristine, row)
        configure(row, **change)
        fails(1, error, "retrain", row, "--seed", 1, "--runs", "again")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "again").exists()


def test_a_model_of_the_hub_needs_leave(row):
    for stage in (0, 1):
        configure(row, stage, backbone="me/model", backbone_weights="me/model@main")
    fails(1, "starts from 'me/model' of the hub; allow that with --allow-download.", "retrain", row, "--seed", 1)
    allowed = grue("retrain", row, "--seed", 1, "--allow-download", "--dry-run")
    assert "starts from = me/model" in allowed.stdout


def test_absurd_budgets_are_refused_with_what_they_would_cost(row):
    configure(row, within="config", updates=10**9)
    error = fails(1, "and 2,000,000 are allowed; allow them with --at-most", "retrain", row, "--seed", 1)
    texts = int(error.rsplit(" ", 1)[1].rstrip("."))
    assert texts > 16 * 10**9  # 8 rollouts an update, each sampled and learned from
    grue("retrain", row, "--seed", 1, "--at-most", texts, "--dry-run")
    configure(row, within="config", updates=1, lora_rank=10**9)
    said = "lora_rank is 1,000,000,000; at most 1,024"
    fails(1, said, "retrain", row, "--seed", 1, "--at-most", texts)
    configure(row, within="config", lora_rank=0, learning_rate=-1.0)
    fails(2, "learning_rate: must be above 0", "retrain", row, "--seed", 1)
    configure(row, within="config", learning_rate=1e-4, keep_last=10**9, save_every=1)
    plan = retrain.plan_retraining(trusted.targets(row, seeds=[1])[0], Path("again")).stages[-1]
    assert (plan.config.keep_last, plan.config.save_every) == (2, 10)  # a disk is not filled with states


def test_what_has_changed_since_is_told_and_a_row_out_of_order_is_not_read(row):
    configure(row, backbone_weights="0" * 64)
    fails(3, "the backbone had the hash '000", "retrain", row, "--seed", 1)
    data = files.read_json(row / "imdb/config.json")
    data["stages"][-1]["config"]["clip"] = 0.3
    files.write_json(row / "imdb/config.json", data)
    good_submission.seal(row)
    fails(1, "imdb/config.json: its hash with seed 1 is", "retrain", row, "--seed", 1)
    (row / "imdb/config.json").unlink()
    good_submission.seal(row)
    fails(1, "has no config.json; ask its authors to pack it again", "retrain", row, "--seed", 1)
    (row / "imdb/seed-1.predictions.jsonl.gz").unlink()
    (row / "imdb/seed-1.predictions.jsonl.gz").symlink_to("/etc/passwd")
    for command in (["retrain", row, "--seed", 1], ["verify", row, "--checkpoint", "runs"]):
        fails(1, "is a link. Correct what `grue submit check", *command)


def test_wrong_commands(row, monkeypatch, refused):
    command = ("submit", "retrain", row)
    refused.command(*command, "--task", "totto", "--seed", 1, code=2)
    refused.command(*command, "--seed", 9, code=2)
    verify = ("submit", "verify", row)
    refused.command(*verify, "--record", code=2)
    refused.command(*verify, *RECORD, "--date", "tomorrow", code=2)
    refused.command("submit", "retrain", row.parent / "theirs", "--seed", 1, code=3)
    monkeypatch.setattr("grue.provenance.code_is_changed", lambda: True)
    refused.command(*verify, *RECORD, code=2)


# --- the last policies of runs that keep their best ------------------------------------------------------------------


def test_results_of_the_last_policies_lie_beside_those_of_the_best_and_say_what_it_took(made):
    for seed in tiny_row.SEEDS:
        names = ("ours", "ours+last")
        best, last = (files.read_json(made / f"runs/mini/imdb/{n}/seed-{seed}/result.json")["system"] for n in names)
        final = checkpoint.read_manifest(made / f"runs/mini/imdb/ours/seed-{seed}/final")
        assert (best["name"], last["name"], last["kept"], last["update"]) == ("ours", "ours+last", "last", 2)
        assert "kept" not in best and last["weights"] == final.weights
        for key in ("start", "config_sha256", "reward", "algorithm", "backbone", "last"):
            assert last[key] == best[key], key
        assert last["training"] == last["last"]["training"] == dict(final.training)
        assert last["training"]["reward_calls"] == 16


def test_the_last_policies_are_packed_checked_and_made_again_as_such(made, row):
    last = row.with_name("ours+last")
    assert files.read_json(last / "imdb/config.json") == files.read_json(row / "imdb/config.json")
    assert not [problem for problem in check(last) if problem.id in ("GRUE-S070", "GRUE-S071", "GRUE-S080")]
    done = grue("verify", last, "--checkpoint", made / "runs", "--seed", 2)
    assert done.stdout.startswith("imdb seed 2: 100.0% equal texts\n")
    done = grue("retrain", last, "--runs", "again", "--seed", 2)
    assert done.stdout.startswith("imdb seed 2: equal texts (equal weights, 100")


# --- other prompts ---------------------------------------------------------------------------------------------------


def a_target(**changes):
    task = load_task("imdb")
    return SimpleNamespace(result=replace(a_result(task, "m", 1, 40.0), **changes), task=task, seed=1, weights="")


def test_what_an_endpoint_answered_cannot_be_drawn_again():
    endpoint = {"name": "m", "algorithm": "endpoint", "endpoint": {"url": "https://api.example.org/v1", "model": "m-1"}}
    with pytest.raises(SubmissionError, match="was answered by an endpoint; there are no weights to draw its texts"):
        models.load(a_target(system=endpoint), Path("any"))


def test_a_chat_model_is_asked_again_as_it_was(monkeypatch):
    asked = []
    monkeypatch.setattr(models, "external_system", lambda *given, chat: asked.append((*given[1:], chat)))
    for generation in ({"prompting": {"kind": "chat"}}, {}):
        models.load(a_target(generation=generation), "me/model")
    assert asked == [("me/model", 1, True), ("me/model", 1, False)]
