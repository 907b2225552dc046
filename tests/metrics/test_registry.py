"""How metrics are found by name, with their options; none loads torch to be looked up, and one's own function is one."""

import hashlib
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from support import task_package
from support.factories import a_task
from support.metric_texts import LEXICAL
from support.paths import ROOT

from grue.errors import ConfigError, DataError, UnknownName
from grue.evaluation.comparison import axis_metrics
from grue.evaluation.needed_models import needed_models
from grue.evaluation.rewards import make_reward
from grue.evaluation.scoring import chosen_metrics, score_examples, score_predictions
from grue.metrics.card import CARDS, FAMILIES
from grue.metrics.registry import METRICS, make_metric, metric_factory, metric_parameters
from grue.records import Example, Prediction
from grue.task_files import SUITES, load_task, task_names
from grue.tasks import MetricSpec

ROOM = ROOT / "grue" / "metrics"
EXAMPLES = [Example("a", "", ("yes",)), Example("b", "", ("no",))]
PREDICTIONS = [Prediction("a", "yes please"), Prediction("b", "no")]
POLITE = "MARK = 'please'\n\ndef politeness(examples, texts):\n    return [float(MARK in text) for text in texts]\n"


OFFERED = """
from grue.metrics.metric import Average
def polite(word="please"):
    return Average(f"polite|{word}", lambda examples, texts: [float(word in text) for text in texts])
made = polite()
def function():
    return lambda examples, texts: [1.0]
"""


def test_what_a_package_offers_as_a_metric_is_one(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(METRICS, "_things", dict(METRICS._things))
    (tmp_path / "offered_metrics.py").write_text(OFFERED)
    names = "\n".join(f"offered_{name} = offered_metrics:{name}" for name in ("polite", "made", "function"))
    task_package.install(tmp_path, f"[grue.metrics]\n{names}\n", "offered_metrics")
    assert list(metric_parameters("offered_polite")) == ["word"]
    assert make_metric("offered_polite", word="thanks").signature == "polite|thanks"
    for name, found in (
        ("made", r", found Average\."),
        ("function", "; what it returned has no direction, signature,"),
    ):
        with pytest.raises(
            ConfigError, match=f"^The metric 'offered_{name}' must be a function of its options .*{found}"
        ):
            make_metric(f"offered_{name}")


# --- built-in metrics ------------------------------------------------------------------------------------------------


def test_every_card_has_a_metric_whose_direction_it_says():
    assert sorted(CARDS) == METRICS.names()
    for name in [name for name, card in CARDS.items() if name in LEXICAL or card.family == "diversity"]:
        metric = make_metric(name)
        assert (metric.direction, metric.signature.split("|")[0]) == (CARDS[name].direction, name)


NEW_METRIC = """
from grue.metrics.metric import Average
def politeness(word: str = "please") -> Average:
    return Average(f"politeness|{word}", lambda examples, texts: [float(word in text) for text in texts])
METRICS = {"politeness": politeness}
"""
NEW_CARD = """
[politeness]
module = "politeness"
family = "overlap"
range = [0, 1]
definition = "Share of polite texts."
source = "here"
needs = ""
"""
LOOKED_UP = """
import sys
from grue.metrics.registry import METRICS, make_metric, metric_parameters
assert make_metric("politeness", word="thanks").statistics([], ["thanks", "no"]).tolist() == [[1.0], [0.0]]
for name in METRICS.names(): metric_parameters(name)
heavy = {"torch", "transformers", "datasets", "evaluate", "bert_score", "nltk", "sacrebleu"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


def test_a_built_in_metric_is_a_file_and_a_card_and_to_look_it_up_loads_no_model_library(tmp_path):
    """In a copy of the package with one more module and its card."""
    (tmp_path / "grue").mkdir()
    for path in (ROOT / "grue").iterdir():
        (tmp_path / "grue" / path.name).symlink_to(path)
    (tmp_path / "grue/metrics").unlink()
    shutil.copytree(ROOM, tmp_path / "grue/metrics", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "grue/metrics/politeness.py").write_text(NEW_METRIC)
    with (tmp_path / "grue/metrics/cards.toml").open("a", encoding="utf-8") as cards:
        cards.write(NEW_CARD)
    subprocess.run([sys.executable, "-c", LOOKED_UP], env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, check=True)


def test_every_card_has_its_metric_in_the_module_that_it_names_and_every_metric_a_card():
    made = {
        (name, path.stem)
        for path in ROOM.glob("*.py")
        if path.stem != "registry"
        for name in getattr(import_module(f"grue.metrics.{path.stem}"), "METRICS", ())
    }
    assert made == {(name, card.module) for name, card in CARDS.items()}
    families = [card.family for card in CARDS.values()]
    assert families == sorted(families, key=list(FAMILIES).index)


def test_our_tasks_name_no_code():
    """`grue submit check` scores by our tasks, and must import nothing that is not installed."""
    for suite in SUITES:
        for name in task_names(suite):
            assert [spec.name for spec in load_task(name, suite).metrics if spec.name not in METRICS] == []


@pytest.mark.parametrize(
    ("error", "name", "options"),
    [
        (UnknownName, "rouge3", {}),
        (ConfigError, "cider", {"tokeniser": "words"}),
        (ConfigError, "meteor", {"name": 1}),
        (ConfigError, "perplexity", {}),
        (ConfigError, "sentiment", {"label": "positive"}),
        (ConfigError, "sentiment", {"label": True}),
        (ConfigError, "perplexity:bounded", {"typical": "abc"}),
        (ConfigError, "perplexity:bounded", {"typical": None}),
        (ConfigError, "ter", {"case_sensitive": 1}),
        (ConfigError, "evaluate:exact_match", {"arguments": 5}),
    ],
)
def test_unknown_metrics_and_options_are_refused_before_a_metric_is_made(error, name, options, refused):
    with refused(error):
        metric_factory(name, options)


def test_options_of_several_types_and_values_that_are_known_when_a_metric_is_made(refused):
    for typical in (20, 2.5):  # a number may be whole
        assert callable(metric_factory("perplexity:bounded", {"model": "mini:causal", "typical": typical}))
    assert callable(metric_factory("evaluate:exact_match", {"arguments": None}))  # and a table left out
    with refused(ConfigError):
        make_metric("bleu4", tokenizer="word")
    with pytest.raises(ConfigError, match=r"sacrebleu has no tokenizer '13b'\. Did you mean '13a'\?"):
        make_metric("sacrebleu", tokenize="13b")  # whose tokenizers depend on its version


# --- a function of the user's own ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A task's folder with modules of the user's own; the working directory is another one."""
    (tmp_path / "work").mkdir()
    (tmp_path / "task").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    (tmp_path / "task" / "own_politeness.py").write_text(POLITE)
    yield tmp_path / "task"
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


def test_a_function_beside_the_task_file_is_a_metric(folder):
    spec = MetricSpec("own_politeness:politeness", "preference", (0.0, 1.0))
    task = replace(a_task("tiny", [spec]), folder=str(folder))
    scored = score_predictions(task, "test", EXAMPLES, PREDICTIONS, list(task.metrics))
    (score,) = scored.scores
    assert (score.metric, score.value, score.scaled, score.direction) == (spec.name, 0.5, 50.0, "higher")
    assert scored.per_example == {spec.name: (1.0, 0.0)}
    digest = hashlib.sha256(POLITE.encode()).hexdigest()[:16]
    assert score.signature == f"own_politeness:politeness|sha256:{digest}|corpus:mean"
    ((_, metric),) = axis_metrics(task, EXAMPLES, "preference")
    assert metric.corpus(metric.statistics(EXAMPLES, ["please", "please"])) == 1.0
    assert needed_models(task)[1:] == []
    assert make_reward("own_politeness:politeness", task, EXAMPLES)(EXAMPLES, ["please", ""]) == [1.0, 0.0]
    Path("own_here.py").write_text(POLITE)  # in the working directory
    assert score_examples(chosen_metrics(None, ["own_here:politeness"]), EXAMPLES, PREDICTIONS).scores[0].value == 0.5


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("meteor:rl4lm", {}),
        ("own_politeness:polite", {}),
        ("own_politeness:politeness", {"word": "x"}),
        ("sys:exit", {}),
        ("itertools:chain", {}),
    ],
)
def test_a_name_that_is_neither_a_metric_nor_a_module(folder, name, options, refused):
    with refused(ConfigError):
        metric_factory(name, options, "" if name == "meteor:rl4lm" else str(folder))


def test_what_an_own_metric_returns_is_checked(folder, refused):
    nan, fails = "return [0.0, float('nan')]", "return [1 / (text != 'no') for text in texts]"
    Path("own_bad.py").write_text(f"def nan(examples, texts): {nan}\ndef fails(examples, texts): {fails}\n")
    for name in ("nan", "fails"):
        with refused(DataError):
            score_examples([MetricSpec(f"own_bad:{name}", "none")], EXAMPLES, PREDICTIONS)
