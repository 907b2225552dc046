"""Systems: those without training, models that are no checkpoints of ours, and the reward of those that are."""

import hashlib
import json
from dataclasses import replace

import pytest
from support.commands import grue, printed_json
from support.late import late

from grue import files
from grue.api.evaluate import locate
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError
from grue.leaderboard.rank import rank
from grue.lm.checkpoint import CheckpointManifest
from grue.lookups import find
from grue.records import Entry, Example
from grue.submissions.packing.collect import PackedRun
from grue.submissions.packing.pack import refusals
from grue.task_files import load_task

torch = late("torch")
evaluate, systems = late("grue.evaluation.evaluate"), late("grue.evaluation.systems")


def test_the_lead_is_the_first_three_sentences_of_the_document_or_the_prompt():
    text = "One it is. Two at 3.5 p.m. today! Is it? Four."
    told = Example("a", "Summarize: One. Two! Three? Four.", (), {"document": text})
    assert evaluate.lead(told) == "One it is.\nTwo at 3.5 p.m. today!\nIs it?"
    assert evaluate.lead(Example("b", "Say it. Now.", ())) == "Say it.\nNow."


def test_a_model_of_any_make_is_evaluated_as_a_checkpoint_is(tmp_path, refused):
    options = ("--task", "imdb", "--limit", 3, "--runs", tmp_path, "--seed", 4)
    grue("evaluate", "--checkpoint", "mini:causal", *options)
    record = files.read_json(tmp_path / "mini/imdb/causal/seed-4/result.json")
    assert (record["system"]["algorithm"], record["seed"], record["counts"]["scored"]) == ("external", 4, 3)
    refused.command("evaluate", "--checkpoint", "nowhere/at/all", *options, code=3)


def test_what_a_metric_cannot_see_is_told_below_the_table_and_kept(own):
    rows = [
        {"id": "a", "prompt": "say it", "references": ["पुस्तकालय", ""]},
        {"id": "b", "prompt": "x", "references": ["dog"]},
    ]
    options = ("evaluate", "--task", own({"test": rows}), "--baseline", "oracle")
    notes = [
        "1 of 2 examples have a blank reference beside others: it counts as missing, as in sacreBLEU.",
        "rouge1 sees nothing of the references of 1 of 2 examples: exact copies of them get 0, too. It reads only a–z "
        "and 0–9, and ROUGE-2 pairs of words; for other scripts and single words take chrf.",
    ]
    for _ in range(2):  # the second is read from the result
        told = grue(*options).stdout.splitlines()
        assert [line.removeprefix("  Note: ") for line in told if "Note" in line] == notes
    assert printed_json(*options)[0]["notes"] == notes


def test_whatever_answers_does_so_where_models_score(monkeypatch):
    # "meta" is a device that every machine has and that no model comes on by itself.
    monkeypatch.setattr(systems, "scoring_device", lambda: torch.device("meta"))
    task = load_task("imdb")
    for system in systems.baseline_system(task, "zero-shot", 1), systems.external_system(task, "mini:causal", 1):
        assert system.model.device.type == "meta"


# --- lookups ---------------------------------------------------------------------------------------------------------


def test_a_lookup_sees_the_training_split_and_neither_references_nor_labels(monkeypatch, tmp_path):
    seen = {}

    def spy(task, train, asked, seed):
        seen.update(train=train, asked=asked, seed=seed)
        return ["Lovely."] * len(asked)

    monkeypatch.setattr(find, "LOOKUPS_OF", {"dailydialog": {"best-of-n": spy}})
    task = load_task("dailydialog")
    result = evaluate.evaluate(task, systems.baseline_system(task, "best-of-n", 4), tmp_path / "run", limit=3)
    train = load_examples(task, "train")
    assert list(seen["train"]) == list(train.examples)
    assert [example.id for example in seen["asked"]] == [e.id for e in load_examples(task, "test").examples[:3]]
    assert "intent" in train.examples[0].meta
    assert all(example.references == () and "intent" not in example.meta for example in seen["asked"])
    assert seen["seed"] == result.seed == 4
    read = {"split": "train", "examples": len(train.examples), "ids_sha256": train.ids_sha256}
    assert result.system == {"name": "best-of-n", "algorithm": "best-of-n", "read": read, "weights": "best-of-n"}
    assert (tmp_path / "run/predictions.jsonl").read_text().count('"text":"Lovely."') == 3


def test_a_lookup_that_cannot_answer_leaves_no_claim(monkeypatch, tmp_path, refused):
    def refuse(task, train, asked, seed):
        raise DataError("There is nothing to count.")

    command = ("evaluate", "--task", "imdb", "--limit", 2, "--runs", tmp_path, "--baseline")
    monkeypatch.setattr(evaluate, "find_lookup", lambda task, name: refuse)
    refused.command(*command, "nearest", code=3)
    monkeypatch.setattr(find, "LOOKUPS_OF", {})
    refused.command(*command, "lexicon", code=2)
    (tmp_path / "empty").mkdir()
    refused.command(*command, "copy", "--data-dir", tmp_path / "empty", code=3)
    assert not list(tmp_path.rglob("evaluation.json"))
    grue(*command, "copy")


def test_training_without_a_reference_is_one_error_and_leaves_what_is_there(own, tmp_path, refused):
    rows = [{"id": f"e{n}", "prompt": f"a {n}", "references": [f"b {n}"]} for n in range(3)]
    command = ("evaluate", "--task", own({"train": rows, "test": rows}), "--output", tmp_path / "run", "--baseline")
    assert grue(*command, "nearest").stdout.startswith(
        "nearest on own/words, test, seed 1: 3 examples, 0 empty, 0 cut at the"
    )
    before = (tmp_path / "run/result.json").read_bytes()
    assert json.loads(before)["system"]["read"]["examples"] == 3
    files.write_jsonl(tmp_path / "train.jsonl", [{**row, "references": []} for row in rows])
    for baseline in ("nearest", "null"):
        refused.command(*command, baseline, "--force", code=3)
        assert (tmp_path / "run/result.json").read_bytes() == before


ASKED = {"asked": 1, "positive_continuation": "I would see it again.", "negative_continuation": "I left early."}


@pytest.fixture
def held_back(tmp_path):
    """Three rows of reviews that no split has."""
    text = "The {} in the middle is the best I have seen, although the beginning took its time, and nobody minds. "
    path = tmp_path / "held-back.jsonl"
    files.write_jsonl(path, [{**ASKED, "text": text.format(what) * 2} for what in ("chase", "song", "dance")])
    return path


def test_a_file_is_evaluated_as_a_split_and_its_result_is_neither_packed_nor_ranked(held_back, tmp_path, refused):
    options = ("--task", "imdb", "--split", held_back)
    command = ("evaluate", "--baseline", "copy", *options, "--output", tmp_path / "run")
    said = grue(*command).stdout
    assert "copy on mini/imdb, held-back.jsonl, seed 1: 3 examples" in said and "(limited: never ranked)" in said
    task = load_task("imdb")
    result = evaluate.evaluate(task, systems.baseline_system(task, "copy", 1), tmp_path / "run", split=str(held_back))
    assert (result.split, result.limited) == ("held-back.jsonl", True)
    assert result.data["source"] == "held-back.jsonl"
    assert result.data["revision"] == hashlib.sha256(held_back.read_bytes()).hexdigest()
    assert (result.data["examples"], result.data["checked"]) == (3, False)
    refused.message("\n".join(refusals([PackedRun(result, None, "run")])))
    board = rank([Entry(result, tmp_path, "local")], [task])
    assert board.rows == ()
    refused.message("\n".join(board.notes))
    grue("score", tmp_path / "run/predictions.jsonl", *options, "--metrics", "mean_length")
    with held_back.open("a") as file:
        file.write(json.dumps({**ASKED, "text": "Another one. " * 30}) + "\n")
    assert "holds an evaluation with file = " in grue(*command, code=2).stderr


MANIFEST = CheckpointManifest(
    suite="mini", task="commongen", task_hash="0", system="kind", algorithm="supervised+ppo", backbone="mini:seq2seq",
    seed=3, update=8, config_sha256="1", validation={}, training={},
)  # fmt: skip
CONFIG = {"suite": "mini", "task": "commongen", "algorithm": "supervised+ppo", "seed": 3, "reward": "rouge1"}


@pytest.mark.parametrize(
    ("config", "algorithm", "reward"),
    [
        (CONFIG, "supervised+ppo", "rouge1"),
        (CONFIG | {"reward": ""}, "supervised+ppo", None),
        (CONFIG | {"algorithm": "supervised", "reward": "meteor"}, "supervised", ""),  # it reads no reward
        (CONFIG | {"seed": 4}, "supervised+ppo", None),  # another run's
        (CONFIG | {"task": "imdb"}, "supervised+ppo", None),
        (None, "supervised+ppo", None),  # the checkpoint was taken elsewhere
        (None, "supervised", ""),
    ],
)
def test_the_reward_is_that_of_the_runs_configuration(config, algorithm, reward, tmp_path):
    if config is not None:
        files.write_toml(tmp_path / "config.toml", config)
    assert systems._trained_on(tmp_path / "checkpoint", replace(MANIFEST, algorithm=algorithm)).get("reward") == reward


@pytest.mark.parametrize("beside", ["checkpoint", "final"])
def test_a_checkpoint_beside_another_run_does_not_take_its_reward(beside, tmp_path):
    files.write_toml(tmp_path / "config.toml", CONFIG)
    files.write_json(tmp_path / beside / "grue.json", MANIFEST)
    assert systems._trained_on(tmp_path / "copied", MANIFEST).get("reward") == "rouge1"
    assert "reward" not in systems._trained_on(tmp_path / "copied", replace(MANIFEST, config_sha256="2"))


def test_a_checkpoint_of_a_changed_copy_of_a_task_is_not_evaluated_on_what_ships(tmp_path, refused):
    manifest = replace(MANIFEST, suite="mini", task="commongen")
    files.write_json(tmp_path / "grue.json", manifest)
    with refused(ConfigError):
        locate(tmp_path, None)
    shipped = load_task("commongen")
    assert locate(tmp_path, "commongen") == (shipped, tmp_path), "who names the task means it"
    files.write_json(tmp_path / "grue.json", replace(manifest, task_hash=shipped.hash))
    assert locate(tmp_path, None) == (shipped, tmp_path)
