"""A reward model as a metric and as a reward: what it is named, whose it is, and which one a run was trained on."""

import shutil
from dataclasses import replace

import pytest
from support.factories import a_result, a_task
from support.late import lates

from grue import files
from grue.errors import ConfigError, DataError, UnknownName
from grue.evaluation.reward_models import named_in, recorded
from grue.evaluation.rewards import make_reward, parse_reward
from grue.evaluation.scoring import score_predictions
from grue.leaderboard.trained_on import rewards_of
from grue.lm.reward_folder import REWARD, read_reward_manifest
from grue.metrics.registry import is_metric, make_metric, metric_factory
from grue.records import Prediction
from grue.runs.folder import claim_folder
from grue.submissions.configuration import Configuration, Stage, demands, foreign_terms
from grue.tasks import MetricSpec, Source

tiny, preferences, good, saved = lates("tiny preferences good_submission saved", "support.")
best_of, systems, samples = lates("best_of systems samples", "grue.evaluation.")
judge, groups, plan, algorithms = lates("preferences.judge rl.groups runs.plan runs.algorithms", "grue.")


def named_in_a_task(folder):
    """A task whose file names a reward model's folder as an option of the metric `model`."""
    spec = MetricSpec("model", "preference", (-3.0, 3.0), options={"dir": str(folder)})
    return replace(preferences.TASK, metrics=(*preferences.TASK.metrics, spec))


# --- its name --------------------------------------------------------------------------------------------------------


def test_its_name_ends_at_a_blank_in_any_sum(refused):
    assert parse_reward("0.5*meteor + 0.5*model:runs/a+b/seed-1 - 2*coverage") == [
        (0.5, "meteor"), (0.5, "model:runs/a+b/seed-1"), (-2.0, "coverage"),
    ]  # fmt: skip
    assert named_in("model:a + rouge1 + 2*model:b - model:a") == ["model:a", "model:b"]
    assert named_in("model is not + a sum") == []
    with refused(ConfigError):
        parse_reward("model:my folder")
    with pytest.raises(UnknownName):
        make_metric("models")


def test_it_is_a_metric_by_its_name_or_with_an_option(trained, refused):
    folder, texts, examples = trained[0], ["the the dog", "a cat"], preferences.EXAMPLES[:2]
    by_name, by_option = make_metric(f"model:{folder}"), make_metric("model", dir=str(folder), batch_size=1)
    values = [metric.statistics(examples, texts)[:, 0] for metric in (by_name, by_option)]
    assert values[0] == pytest.approx(values[1], abs=1e-5)
    assert by_name.signature == by_option.signature and is_metric(f"model:{folder}")
    for options in ({"dri": "x"}, {"batch_size": 1.5}):
        with refused(ConfigError):
            metric_factory(f"model:{folder}", options)
    for options in ({}, {"dir": str(folder), "batch_size": 0}):
        with refused(ConfigError):
            make_metric("model", **options)


def test_in_a_sum_it_weighs_what_is_written_and_it_reads_no_references(trained):
    model, examples = f"model:{trained[0]}", preferences.EXAMPLES

    def rewards(expression, task=None):
        texts = [example.references[0] for example in examples[:4]]
        return make_reward(expression, task or preferences.TASK, examples)(examples[:4], texts)

    alone, other = rewards(model), rewards("rouge1")
    wanted = [0.5 * b - 0.25 * a for a, b in zip(alone, other, strict=True)]
    assert rewards(f"0.5*rouge1 - 0.25*{model}") == pytest.approx(wanted, rel=1e-9)
    assert rewards("model", named_in_a_task(trained[0])) == pytest.approx(alone)
    assert not best_of.is_oracle(model) and best_of.is_oracle(f"rouge1 + {model}")


def test_an_ensemble_is_the_mean_of_its_members_or_their_lowest(trained, second, refused):
    one, two = str(trained[0]), str(second[0])
    texts, examples = ["the the dog", "a cat", "the"], preferences.EXAMPLES[:3]

    def scores(name):
        return make_reward(name, preferences.TASK, preferences.EXAMPLES)(examples, texts)

    pairs = list(zip(scores(f"model:{one}"), scores(f"model:{two}"), strict=True))
    assert scores(f"model:{one};{two}") == pytest.approx([(a + b) / 2 for a, b in pairs])
    assert scores(f"model:min;{one};{two}") == pytest.approx([a if a < b else b for a, b in pairs])
    robust = f"0.25*model:{one};{two} + 0.75*model:min;{one};{two}"
    assert scores(robust) == pytest.approx([0.125 * (a + b) + 0.75 * min(a, b) for a, b in pairs])
    assert len({a < b for a, b in pairs}) == 2, "neither member is the lowest of all texts"
    hashes = {made.sha256 for _, made in (trained, second)}
    assert {known["sha256"] for known in recorded(robust)} == hashes
    assert {known["name"] for known in recorded(robust)} == {f"model:{one}", f"model:{two}"}
    assert not best_of.is_oracle(robust)
    signature = make_metric(f"model:min;{one};{two}").signature
    assert signature.startswith("lowest of model|sha256:") and all(known[:16] in signature for known in hashes)
    for name in (f"min;{one}", f"{one};", f"{one};{one}", ";"):
        with refused(ConfigError):
            make_metric(f"model:{name}")
    with pytest.raises(DataError, match="tests/other"):
        make_reward(f"model:{one};{two}", replace(preferences.TASK, name="other"), preferences.EXAMPLES)


def test_a_reward_model_of_another_task_is_refused(trained):
    folder, task, examples = trained[0], preferences.TASK, preferences.EXAMPLES
    other_data = replace(task.data, sources=(Source("mini", "imdb"),))
    cases = {
        "tests/other": replace(task, name="other"),
        "mini/tiny": replace(task, suite="mini"),
        "another version of tests/tiny": replace(task, data=other_data),
    }
    specs = [MetricSpec("model", "preference", (-3.0, 3.0), options={"dir": str(folder)})]
    predictions = [Prediction(one.id, "the") for one in examples]
    for message, other in cases.items():
        for use in (
            lambda other=other: make_reward(f"0.5*rouge1 + model:{folder}", other, examples),
            lambda other=other: score_predictions(other, "test", examples, predictions, specs),
            lambda other=other: judge.evaluate_reward_model(
                folder, folder.parent / "pairs.jsonl", other, examples, split="train"
            ),
        ):
            with pytest.raises(DataError, match=message):
                use()


# --- which one a run was trained on ----------------------------------------------------------------------------------


def a_system():
    return systems.System("s", {"name": "s"}, 1, "w", model=tiny.model("causal"), tokenizer=tiny.tokenizer("causal"))


def test_another_reward_model_under_the_same_path_is_not_taken_for_the_first(trained, second, tmp_path, monkeypatch):
    monkeypatch.setattr("grue.lm.load.weights_id", lambda *given: "0" * 64)
    (folder, made), place, path = trained, tmp_path / "rm", tmp_path / "samples.jsonl"
    config = algorithms.find_algorithm("ppo").settings(learning_rate=1e-3)
    run, plain = (
        plan.Plan(preferences.TASK, "ppo", config, reward, 1, "system", tmp_path / "run")
        for reward in (f"0.5*rouge1 + model:{place}", "rouge1")
    )
    assert "reward_models" not in plain.record()
    system = a_system()

    def write():
        return samples.write_samples(
            *(preferences.TASK, system, preferences.EXAMPLES[:2], path),
            **{"split": "train", "samples": 2, "train": preferences.EXAMPLES, "reward": f"model:{place}"},
        )

    shutil.copytree(folder, place)
    for _ in range(2):  # the same goes on
        claim_folder(run)
        assert write().reward_models == {f"model:{place}": made.sha256}
    known = {"name": f"model:{place}", "sha256": made.sha256, "judge": made.judge, "split": made.split}
    assert files.read_toml(tmp_path / "run/config.toml")["reward_models"] == [known]
    shutil.rmtree(place)
    shutil.copytree(second[0], place)
    with pytest.raises(ConfigError, match=r"holds a run with reward_models = .*a name of its own"):
        claim_folder(run)
    with pytest.raises(ConfigError, match="holds responses with reward_models"):
        write()
    shutil.rmtree(place)
    with pytest.raises(DataError, match="no such folder of a reward model"):
        claim_folder(run)


def test_a_result_says_which_reward_models_it_was_trained_on_and_picked_by(trained, tmp_path):
    folder, made = trained
    task, named = preferences.TASK, named_in_a_task(folder)
    assert [one["sha256"] for one in recorded("rouge1 + model", named)] == [made.sha256]
    assert recorded("rouge1", named) == []
    config = {"suite": "mini", "task": "imdb", "algorithm": "ppo", "seed": 3, "reward": f"model:{folder}"}
    known = [{"name": f"model:{folder}", "sha256": made.sha256, "judge": "sentiment", "split": "train"}]
    files.write_toml(tmp_path / "config.toml", config | {"reward_models": known})
    manifest = replace(saved.MANIFEST, suite="mini", task="imdb", seed=3)
    assert systems._trained_on(tmp_path / "checkpoint", manifest)["reward_models"] == known
    other = replace(manifest, seed=4)
    assert systems._trained_on(tmp_path / "checkpoint", other) == {}

    def picked(by, of):
        return systems.with_best_of(a_system(), best_of.choose_best_of(of, 2, by), of).record

    for by, of in (f"model:{folder}", task), ("model", named):
        assert [one["sha256"] for one in picked(by, of)["reward_models"]] == [made.sha256]
    assert "reward_models" not in picked("likelihood", task)


# --- submissions and boards ------------------------------------------------------------------------------------------

KNOWN = {"name": "model:rm", "sha256": "a" * 64, "judge": "liked", "split": "train"}


def result(models=None, reward="0.5*liked + model:rm", **changes):
    system = {"name": "s", "reward": reward, **({} if models is None else {"reward_models": models})}
    return replace(a_result(a_task(), "s", 1, 50.0, **changes), system=system)


def test_who_raises_a_learned_reward_raises_its_judge():
    """A metric behind a reward model is no held-out metric."""
    assert rewards_of([result([KNOWN], "model:rm")], ["other"]) == ("liked", "model:rm")
    assert rewards_of([result([{**KNOWN, "judge": "people"}], "model:rm")], []) == ("model:rm",)


def test_its_folder_is_of_one_machine(refused):
    assert foreign_terms("liked + model:/tmp/rm") == ["liked", "model:/tmp/rm"]
    stage = Stage(**{**good.STAGE, "reward": "meteor + model:/tmp/rm"})
    refused.message("\n".join(demands(Configuration(1, (stage,)), good.TASK)))


# --- judging and learning --------------------------------------------------------------------------------------------


def test_it_is_judged_on_what_is_held_out_unless_asked_otherwise(trained, tmp_path, refused):
    (folder, made), path = trained, trained[0].parent / "pairs.jsonl"

    def judged(pairs, *part):
        return judge.evaluate_reward_model(folder, pairs, preferences.TASK, preferences.EXAMPLES, *part, split="train")

    found, whole = judged(path), judged(path, "all")
    assert found.found == made.held_out and (found.part, found.seen) == ("test", 0)
    assert (whole.found.pairs, whole.seen) == (36, 10)
    other = preferences.pairs(tmp_path / "other", parts=False, seed=5)
    assert judged(other).part == "all"
    lines = [line for _, line in files.read_jsonl(path) if line["part"] != "test"]
    files.write_jsonl(tmp_path / "none", lines)
    for pairs, part in (other, ["test"]), (tmp_path / "none", []):
        with refused(DataError):
            judged(pairs, *part)


def test_the_manifest_has_its_own_hash(trained):
    manifest = read_reward_manifest(trained[0])
    assert manifest.fingerprint == manifest.sha256 == files.read_json(trained[0] / REWARD)["sha256"]
    assert replace(manifest, temperature=9.0).fingerprint != manifest.sha256


def test_a_policy_learns_the_train_part_of_a_file_of_pairs_and_no_tie(tmp_path, refused):
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
    files.write_jsonl(tmp_path / "pairs", lines[6:])
    with refused(DataError):
        groups.read_data(run.plan.config, tiny.task("causal"), tiny.examples())
