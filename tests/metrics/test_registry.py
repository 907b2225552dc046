"""How metrics are found by name: one file each, none loads torch to be looked up, and a user's own function is one."""

import ast
import hashlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.factories import a_task

from grue.errors import ConfigError, DataError
from grue.evaluation.comparison import axis_metrics
from grue.evaluation.needed_models import needed_models
from grue.evaluation.rewards import make_reward
from grue.evaluation.scoring import chosen_metrics, score_examples, score_predictions
from grue.metrics import registry
from grue.metrics.card import Card
from grue.metrics.metric import Average
from grue.metrics.registry import CARDS, METRICS, make_metric, metric_factory, metric_parameters
from grue.records import Example, Prediction
from grue.task_files import SUITES, load_task, task_names
from grue.tasks import MetricSpec

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "grue" / "metrics"
EXAMPLES = [Example("a", "", ("yes",)), Example("b", "", ("no",))]
PREDICTIONS = [Prediction("a", "yes please"), Prediction("b", "no")]
POLITE = "MARK = 'please'\n\ndef politeness(examples, texts):\n    return [float(MARK in text) for text in texts]\n"


# --- built-in metrics ------------------------------------------------------------------------------------------------


def imports_of(path):
    """All imports of a module, those inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_no_family_knows_the_registry():
    """The registry imports every module of the room, and none of them imports it: there is no circle."""
    assert {path.stem for path in ROOM.rglob("*.py") if "grue.metrics.registry" in imports_of(path)} == set()


def test_a_built_in_metric_is_one_file(tmp_path):
    """Copy the package, add one module, and the metric is listed, shown, made and a reward."""
    ignored = shutil.ignore_patterns("__pycache__", "mini")
    shutil.copytree(ROOT / "grue", tmp_path / "grue", ignore=ignored)
    (tmp_path / "grue" / "metrics" / "politeness.py").write_text(
        '"""Politeness."""\n'
        "from grue.metrics.card import Card\n"
        "from grue.metrics.metric import Average\n"
        "def politeness(word: str = 'please') -> Average:\n"
        "    return Average(f'politeness|{word}', lambda examples, texts: [float(word in t) for t in texts])\n"
        "CARDS = {'politeness': Card(politeness, 'overlap', (0, 1), 'Share of polite texts.', 'here', needs='')}\n"
    )
    code = (
        "from grue.cli.main import main\n"
        "from grue.metrics.registry import make_metric\n"
        "metric = make_metric('politeness', word='thanks')\n"
        "assert list(metric.per_example(metric.statistics([], ['thanks', 'no']))) == [1.0, 0.0]\n"
        "import sys; sys.argv = ['grue', 'metrics', 'show', 'politeness']; main()\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert shown.stderr == ""
    assert "  Share of polite texts.\n" in shown.stdout
    assert "    word: str = 'please'\n" in shown.stdout


def test_looking_up_every_metric_loads_no_model_library():
    code = (
        "import sys\n"
        "from grue.metrics.registry import METRICS, metric_parameters\n"
        "for name in METRICS.names(): metric_parameters(name)\n"
        "heavy = {'torch', 'transformers', 'datasets', 'evaluate', 'bert_score', 'nltk', 'sacrebleu'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_two_metrics_of_one_name_are_refused(monkeypatch):
    twin = Card(lambda: None, "overlap", (0, 1), "another meteor", "nowhere")
    monkeypatch.setattr("grue.metrics.ter.CARDS", {"meteor": twin})
    with pytest.raises(ConfigError, match="Two metrics are called 'meteor'; rename one of them."):
        registry._cards()


def test_a_metric_of_another_package(monkeypatch):
    monkeypatch.setitem(
        METRICS._things, "theirs", lambda: Average("theirs", lambda examples, texts: [1.0] * len(texts))
    )
    assert "theirs" not in CARDS
    assert make_metric("theirs").signature == "theirs"


@pytest.mark.parametrize("suite", SUITES)
def test_our_tasks_name_no_code(suite):
    """`grue submit check` scores by our tasks, and must import nothing that is not installed."""
    for name in task_names(suite):
        assert [spec.name for spec in load_task(name, suite).metrics if spec.name not in METRICS] == []


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


def own_task(folder, *names):
    specs = [MetricSpec(name, "preference", (0.0, 1.0)) for name in names]
    return replace(a_task("tiny", specs), folder=str(folder))


def test_a_function_beside_the_task_file_is_a_metric(folder):
    task = own_task(folder, "own_politeness:politeness")
    scored = score_predictions(task, "test", EXAMPLES, PREDICTIONS, list(task.metrics))
    (score,) = scored.scores
    assert (score.metric, score.value, score.scaled, score.direction) == (
        "own_politeness:politeness",
        0.5,
        50.0,
        "higher",
    )
    assert scored.per_example == {"own_politeness:politeness": (1.0, 0.0)}
    digest = hashlib.sha256(POLITE.encode()).hexdigest()[:16]
    assert score.signature == f"own_politeness:politeness|sha256:{digest}|corpus:mean"
    ((_, metric),) = axis_metrics(task, EXAMPLES, "preference")
    assert metric.corpus(metric.statistics(EXAMPLES, ["please", "please"])) == 1.0
    assert needed_models(task)[1:] == []
    assert make_reward("own_politeness:politeness", task, EXAMPLES)(EXAMPLES, ["please", ""]) == [1.0, 0.0]


def test_a_function_in_the_working_directory_is_a_metric(folder):
    Path("own_here.py").write_text(POLITE)
    (spec,) = chosen_metrics(None, ["own_here:politeness"])
    assert score_examples([spec], EXAMPLES, PREDICTIONS).scores[0].value == 0.5
    assert list(metric_parameters("own_here:politeness")) == []


def test_a_name_that_is_neither_a_metric_nor_a_module(folder):
    with pytest.raises(ConfigError) as caught:
        metric_factory("meteor:rl4lm", {})
    assert str(caught.value) == (
        f"The metric 'meteor:rl4lm': the module 'meteor' cannot be imported: it is not installed, nor in {Path.cwd()}. "
        "Did you mean 'meteor:rl4lms'?"
    )
    with pytest.raises(ConfigError, match="own_politeness has no function 'polite'. Did you mean 'politeness'?"):
        metric_factory("own_politeness:polite", {}, str(folder))
    with pytest.raises(ConfigError, match="The metric 'own_politeness:politeness' has no option 'word'. It has none."):
        metric_factory("own_politeness:politeness", {"word": "x"}, str(folder))
    with pytest.raises(ConfigError, match=r"The metric 'sys:exit' must be a function of \(examples, texts\)"):
        metric_factory("sys:exit", {})
    with pytest.raises(ConfigError, match="The metric 'itertools:chain': itertools is built in"):
        metric_factory("itertools:chain", {})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return [1.0]", "gave 1 values for 2 texts; return one number per text."),
        ("return [0.0, float('nan')]", "gave nan for the example 'b'; a metric must be a finite number."),
        ("return [1 / (text != 'no') for text in texts]", "raised ZeroDivisionError.* for the example 'b'; the text"),
    ],
)
def test_what_an_own_metric_returns_is_checked(folder, body, message):
    Path("own_bad.py").write_text(f"def bad(examples, texts):\n    {body}\n")
    with pytest.raises(DataError, match=f"The metric 'own_bad:bad' {message}"):
        score_examples([MetricSpec("own_bad:bad", "none")], EXAMPLES, PREDICTIONS)
