"""A reward model as a metric and as a reward: what it is named, whose it is, and which one a run was trained on."""

import shutil
from dataclasses import replace

import pytest
from support import preferences, tiny
from support.factories import a_result, a_task
from support.good_submission import STAGE
from support.good_submission import TASK as COMMONGEN
from support.preferences import EXAMPLES, TASK, train

from grue import files
from grue.data.scored import read_scored
from grue.errors import ConfigError, DataError, UnknownName
from grue.evaluation.best_of import choose_best_of, is_oracle
from grue.evaluation.reward_models import named_in, recorded
from grue.evaluation.rewards import make_reward, parse_reward
from grue.evaluation.samples import write_samples
from grue.evaluation.scoring import score_predictions
from grue.evaluation.systems import System, _reward_models_of, with_best_of
from grue.leaderboard.trained_on import rewards_of
from grue.lm.checkpoint import CheckpointManifest
from grue.lm.reward_folder import REWARD, read_reward_manifest
from grue.metrics.registry import is_metric, make_metric, metric_factory
from grue.preferences.judge import evaluate_reward_model
from grue.records import Prediction
from grue.rl.groups import learnable
from grue.runs import plan
from grue.runs.algorithms import find_algorithm
from grue.runs.folder import claim_folder
from grue.submissions.checks.learned import leaking_models, unnamed_models
from grue.submissions.configuration import Configuration, Stage, demands, foreign_terms
from grue.submissions.packing.collect import PackedRun
from grue.submissions.packing.refusals import refusals
from grue.tasks import MetricSpec, Source


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A reward model's folder, which no test changes, and what it says of itself."""
    return train(tmp_path_factory.mktemp("reward"))


def a_plan(folder, reward, task=TASK, algorithm="ppo"):
    config = find_algorithm(algorithm).settings(learning_rate=1e-3)
    return plan.Plan(task, algorithm, config, reward, 1, "system", folder)


# --- its name --------------------------------------------------------------------------------------------------------


def test_its_name_ends_at_a_blank_in_any_sum(trained):
    assert parse_reward("0.5*meteor + 0.5*model:runs/a+b/seed-1 - 2*coverage") == [
        (0.5, "meteor"), (0.5, "model:runs/a+b/seed-1"), (-2.0, "coverage"),
    ]  # fmt: skip
    assert named_in("model:a + rouge1 + 2*model:b - model:a") == ["model:a", "model:b"]
    assert named_in("model is not + a sum") == []
    with pytest.raises(ConfigError, match="cannot be read at 'folder'"):
        parse_reward("model:my folder")
    with pytest.raises(UnknownName):
        make_metric("models")


def test_it_is_a_metric_by_its_name_or_with_an_option(trained):
    folder, _ = trained
    texts = ["the the dog", "a cat"]
    by_name, by_option = make_metric(f"model:{folder}"), make_metric("model", dir=str(folder), batch_size=1)
    values = by_name.statistics(EXAMPLES[:2], texts)
    assert values[:, 0] == pytest.approx(by_option.statistics(EXAMPLES[:2], texts)[:, 0], abs=1e-5)
    assert by_name.signature == by_option.signature and is_metric(f"model:{folder}")
    for options, message in ({"dri": "x"}, "no option 'dri'"), ({"batch_size": 1.5}, "must be a whole number"):
        with pytest.raises(ConfigError, match=message):
            metric_factory(f"model:{folder}", options)
    with pytest.raises(ConfigError, match="needs the option 'dir'"):
        make_metric("model")
    with pytest.raises(ConfigError, match="batch_size must be at least 1"):
        make_metric("model", dir=str(folder), batch_size=0)


def test_in_a_sum_it_weighs_what_is_written(trained):
    folder, _ = trained
    texts = [example.references[0] for example in EXAMPLES[:4]]
    alone = make_reward(f"model:{folder}", TASK, EXAMPLES)(EXAMPLES[:4], texts)
    other = make_reward("rouge1", TASK, EXAMPLES)(EXAMPLES[:4], texts)
    both = make_reward(f"0.5*rouge1 - 0.25*model:{folder}", TASK, EXAMPLES)(EXAMPLES[:4], texts)
    assert both == pytest.approx([0.5 * b - 0.25 * a for a, b in zip(alone, other, strict=True)], rel=1e-9)
    option = replace(
        TASK, metrics=(*TASK.metrics, MetricSpec("model", "preference", (-3.0, 3.0), options={"dir": str(folder)}))
    )
    assert make_reward("model", option, EXAMPLES)(EXAMPLES[:4], texts) == pytest.approx(alone)


def test_it_reads_no_references(trained):
    assert not is_oracle(f"model:{trained[0]}") and is_oracle(f"rouge1 + model:{trained[0]}")


# --- of another task -------------------------------------------------------------------------------------------------


def test_a_reward_model_of_another_task_is_refused(trained):
    folder, _ = trained
    cases = {
        "tests/other": replace(TASK, name="other"),
        "mini/tiny": replace(TASK, suite="mini"),
        "another version of tests/tiny": replace(TASK, data=replace(TASK.data, sources=(Source("mini", "imdb"),))),
    }
    predictions = [Prediction(one.id, "the") for one in EXAMPLES]
    for message, task in cases.items():
        with pytest.raises(DataError, match=message):
            make_reward(f"0.5*rouge1 + model:{folder}", task, EXAMPLES)
        specs = [MetricSpec("model", "preference", (-3.0, 3.0), options={"dir": str(folder)})]
        with pytest.raises(DataError, match=message):
            score_predictions(task, "test", EXAMPLES, predictions, specs)
        with pytest.raises(DataError, match=message):
            evaluate_reward_model(folder, folder.parent / "pairs.jsonl", task, EXAMPLES)


# --- which one a run was trained on ----------------------------------------------------------------------------------


def test_another_reward_model_under_the_same_path_is_refused_on_resume(trained, tmp_path, monkeypatch):
    monkeypatch.setattr("grue.lm.load.weights_id", lambda *given: "0" * 64)
    folder, made = trained
    place = tmp_path / "rm"
    shutil.copytree(folder, place)
    run = a_plan(tmp_path / "run", f"0.5*rouge1 + model:{place}")
    claim_folder(run)
    claim_folder(run)  # the same goes on
    written = files.read_toml(tmp_path / "run/config.toml")
    assert written["reward_models"] == [
        {"name": f"model:{place}", "sha256": made.sha256, "judge": made.judge, "split": made.split}
    ]
    shutil.rmtree(place)
    shutil.copytree(train(tmp_path, "second", seed=2)[0], place)
    with pytest.raises(ConfigError, match=r"holds a run with reward_models = .*Choose another --system"):
        claim_folder(run)
    shutil.rmtree(place)
    with pytest.raises(DataError, match="no such folder of a reward model"):
        claim_folder(run)


def test_a_run_without_a_reward_model_keeps_its_record(tmp_path, monkeypatch):
    monkeypatch.setattr("grue.lm.load.weights_id", lambda *given: "0" * 64)
    assert "reward_models" not in a_plan(tmp_path, "rouge1").record()


def test_a_task_files_reward_model_counts_too(trained):
    folder, made = trained
    task = replace(TASK, metrics=(MetricSpec("model", "preference", (-3.0, 3.0), options={"dir": str(folder)}),))
    assert [one["sha256"] for one in recorded("rouge1 + model", task)] == [made.sha256]
    assert recorded("rouge1", task) == []


def test_a_result_says_which_reward_models_it_was_trained_on_and_picked_by(trained, tmp_path):
    folder, made = trained
    config = {"suite": "mini", "task": "imdb", "algorithm": "ppo", "seed": 3, "reward": f"model:{folder}"}
    known = [{"name": f"model:{folder}", "sha256": made.sha256, "judge": "sentiment", "split": "train"}]
    files.write_toml(tmp_path / "config.toml", config | {"reward_models": known})
    (tmp_path / "checkpoint").mkdir()
    manifest = CheckpointManifest(
        suite="mini", task="imdb", task_hash="0", system="s", algorithm="ppo", backbone="b", seed=3, update=1,
        config_sha256="1", validation={}, training={},
    )  # fmt: skip
    assert _reward_models_of(tmp_path / "checkpoint", manifest, f"model:{folder}") == known
    assert _reward_models_of(tmp_path / "checkpoint", replace(manifest, seed=4), f"model:{folder}") is None
    system = System("s", {"name": "s"}, 1, "w", model=tiny.model("causal"), tokenizer=tiny.tokenizer("causal"))
    picking = with_best_of(system, choose_best_of(TASK, 2, f"model:{folder}"), TASK)
    assert [one["sha256"] for one in picking.record["reward_models"]] == [made.sha256]
    named = replace(TASK, metrics=(MetricSpec("model", "preference", (-3.0, 3.0), options={"dir": str(folder)}),))
    picking = with_best_of(system, choose_best_of(named, 2, "model"), named)  # the task file names the folder
    assert [one["sha256"] for one in picking.record["reward_models"]] == [made.sha256]
    assert "reward_models" not in with_best_of(system, choose_best_of(TASK, 2, "likelihood"), TASK).record


# --- submissions and boards ------------------------------------------------------------------------------------------

KNOWN = {"name": "model:rm", "sha256": "a" * 64, "judge": "liked", "split": "train"}


def result(models=None, reward="0.5*liked + model:rm", **changes):
    system = {"name": "s", "reward": reward, **({} if models is None else {"reward_models": models})}
    return replace(a_result(a_task(), "s", 1, 50.0, **changes), system=system)


def test_a_result_must_name_its_reward_models_by_their_hash():
    assert not list(unnamed_models(result([KNOWN]))) and not list(unnamed_models(result(None, "liked")))
    for models in (None, [], "model:rm", [{**KNOWN, "name": "model:other"}], [{**KNOWN, "sha256": "a" * 63}], [3]):
        assert [*unnamed_models(result(models))] == ["reward 'model:rm': reward_models states no sha256 of it."]
    for key in ("judge", "split"):
        lacking = {name: value for name, value in KNOWN.items() if name != key}
        assert "does not state the judge" in next(unnamed_models(result([lacking])))
    picked = result([], "liked", generation={"best_of": {"n": 2, "pick_by": "model:rm"}})
    assert len(list(unnamed_models(picked))) == 1


def test_one_that_has_seen_the_evaluation_split_is_named():
    assert not list(leaking_models(result([KNOWN]), "test"))
    (line,) = leaking_models(result([{**KNOWN, "split": "test"}]), "test")
    assert "its pairs answer prompts of the split 'test'" in line
    for split in ("validation", "held-back.jsonl", "other", None):
        (line,) = leaking_models(result([{**KNOWN, "split": split}]), "test")
        assert f"its pairs answer prompts of the split {split!r}, not of 'train'" in line


def test_who_raises_a_learned_reward_raises_its_judge():
    """A metric behind a reward model is no held-out metric."""
    assert rewards_of([result([KNOWN], "model:rm")], ["other"]) == ("liked", "model:rm")
    assert rewards_of([result([{**KNOWN, "judge": "people"}], "model:rm")], []) == ("model:rm",)


def test_its_folder_is_of_one_machine():
    assert foreign_terms("liked + model:/tmp/rm") == ["liked", "model:/tmp/rm"]
    stage = Stage(**{**STAGE, "reward": "meteor + model:/tmp/rm"})
    assert [*demands(Configuration(1, (stage,)), COMMONGEN)] == ["reward 'model:/tmp/rm' is a folder of one machine."]


# --- judging ---------------------------------------------------------------------------------------------------------


def test_it_is_judged_on_what_is_held_out_unless_asked_otherwise(trained, tmp_path):
    folder, made = trained
    path = folder.parent / "pairs.jsonl"
    found = evaluate_reward_model(folder, path, TASK, EXAMPLES)
    assert found.found == made.held_out and (found.part, found.seen) == ("test", 0)
    whole = evaluate_reward_model(folder, path, TASK, EXAMPLES, "all")
    assert (whole.found.pairs, whole.seen) == (36, 10)
    other = preferences.pairs(tmp_path / "other", parts=False, seed=5)
    assert evaluate_reward_model(folder, other, TASK, EXAMPLES).part == "all"
    with pytest.raises(DataError, match="names no parts"):
        evaluate_reward_model(folder, other, TASK, EXAMPLES, "test")
    lines = [line for _, line in files.read_jsonl(path) if line["part"] != "test"]
    files.write_jsonl(tmp_path / "none", lines)
    with pytest.raises(DataError, match="its part 'test' holds no pairs"):
        evaluate_reward_model(folder, tmp_path / "none", TASK, EXAMPLES)


def test_the_manifest_has_its_own_hash(trained):
    manifest = read_reward_manifest(trained[0])
    assert manifest.fingerprint == manifest.sha256 == files.read_json(trained[0] / REWARD)["sha256"]
    assert replace(manifest, temperature=9.0).fingerprint != manifest.sha256


def test_what_is_held_out_is_not_learned_by_a_policy(trained, tmp_path):
    data = read_scored(trained[0].parent / "pairs.jsonl", TASK, EXAMPLES)
    assert len(data.groups) == 36 and {group.part for group in learnable(data).groups} == {"train"}
    files.write_jsonl(tmp_path / "held", [{"id": "x1", "chosen": "a", "rejected": "b", "part": "test"}])
    with pytest.raises(DataError, match="all of its lines are held out"):
        learnable(read_scored(tmp_path / "held", TASK, EXAMPLES))


def test_runs_without_the_hash_are_not_packed():
    def refused(models):
        system = {"name": "s", "reward": "model:rm", **models}
        result = replace(a_result(COMMONGEN, "s", 1, 50.0), system=system)
        return refusals([PackedRun(result, None, "runs/s")])

    assert refused({"reward_models": [KNOWN]}) == []
    (line,) = refused({})
    assert line.startswith("runs/s: reward 'model:rm': reward_models states no sha256 of it. Evaluate it again")


def test_a_policy_learns_the_train_part_of_a_file_of_pairs_and_no_tie(tmp_path):
    ids = [example.id for example in tiny.examples()]
    lines = [{"id": one, "chosen": "the dog", "rejected": "a cat", "part": "train"} for one in ids[:6]]
    lines += [{**line, "id": one, "part": "test"} for one, line in zip(ids[6:], lines, strict=True)]
    lines[0]["tie"] = True
    files.write_jsonl(tmp_path / "pairs", lines)
    run = tiny.run("causal", "dpo", tmp_path / "run", data=str(tmp_path / "pairs"), updates=1, samples_per_prompt=2)
    found = tiny.train(run)
    assert found.training["prompts"] == 6.0  # what is held out took nothing
    (line,) = [one for one in tiny.logged(tmp_path / "run") if "loss/total" in one]
    assert line["objective/flat_groups"] == pytest.approx(1 / 6)


def test_samples_that_another_reward_model_scored_are_not_taken_for_its_own(trained, tmp_path):
    folder, made = trained
    place, path = tmp_path / "rm", tmp_path / "samples.jsonl"
    system = System("s", {"name": "s"}, 1, "w", model=tiny.model("causal"), tokenizer=tiny.tokenizer("causal"))

    def write():
        return write_samples(
            TASK, system, EXAMPLES[:2], path, split="train", samples=2, train=EXAMPLES, reward=f"model:{place}"
        )

    shutil.copytree(folder, place)
    assert write().reward_models == {f"model:{place}": made.sha256} == write().reward_models
    shutil.rmtree(place)
    shutil.copytree(train(tmp_path, "second", seed=2)[0], place)
    with pytest.raises(ConfigError, match="holds responses with reward_models = "):
        write()
