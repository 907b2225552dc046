"""Metrics of the library evaluate, with the real library and without a connection."""

import re

import numpy as np
import pytest
from support.late import late

from grue.errors import ConfigError, DataError
from grue.metrics.evaluate_library import evaluate_metric
from grue.metrics.registry import make_metric, metric_factory
from grue.records import Example

evaluate = late("evaluate")

SHARES = '''
"""How many texts are a reference, and their mean length."""
import datasets
import evaluate
import numpy as np


class Shares(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        kinds = [{"predictions": text, "references": [text]}, {"predictions": text, "references": text}]
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="", features=[datasets.Features(kind) for kind in kinds]
        )

    def _compute(self, predictions, references, power=1):
        equal = [text == wanted or text in list(wanted) for text, wanted in zip(predictions, references)]
        return {
            "shares": np.float64(np.mean(equal)) ** power,
            "length": 10 / sum(map(len, predictions)),
            "each": equal,
            "broken": sum("\\ufffd" in text for text in predictions),
        }
'''
COPIES = '''
"""Only single strings."""
import datasets
import evaluate


class Copies(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        features = datasets.Features({"predictions": text, "references": text, "sources": text})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references, sources):
        rows = zip(predictions, references, sources)
        return {"copies": sum(text in (reference, source) for text, reference, source in rows)}
'''
SCRIPTS = {
    "shares": SHARES,
    "copies": COPIES,
    "tables": COPIES.replace("Copies", "Tables").replace('"sources"', '"tables"'),
    "alone": COPIES.replace("Copies", "Alone").replace('"references": text, "sources": text', ""),
    "lacks": '"""No such package."""\nimport a_package_that_nobody_wrote\n',
}
EXAMPLES = [
    Example("a", "ask", ("yes", "no")),
    Example("b", "why", ("because",)),
    Example("c", "who", ("me", "you", "her")),
]
TEXTS = ["no", "why", "you"]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Make the metric of a script; the library keeps its copies and caches beside it."""
    folder = tmp_path_factory.mktemp("scripts")
    for name, code in SCRIPTS.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate.config, "HF_MODULES_CACHE", str(folder / "modules"))
        patch.setattr(evaluate.config, "HF_METRICS_CACHE", str(folder / "metrics"))
        patch.setattr(evaluate.config, "DOWNLOADED_EVALUATE_PATH", folder / "downloads")
        yield lambda name, **options: make_metric(f"evaluate:{folder}/{name}.py", **options)


def test_a_script_is_a_metric_whose_corpus_value_is_one_computation(make):
    metric = make("shares")
    metric.prepare(EXAMPLES)
    statistics = metric.statistics(EXAMPLES, TEXTS)
    assert (statistics.shape, statistics.dtype, metric.direction) == ((3, 1), np.float64, "higher")
    assert list(metric.per_example(statistics)) == [1.0, 0.0, 1.0]
    assert metric.corpus(statistics) == pytest.approx(2 / 3)
    assert metric.corpus(statistics[[1, 1, 2, 2]]) == 0.5, "rows may be drawn again"
    metric = make("shares", key="length", direction="lower")
    statistics = metric.statistics(EXAMPLES, TEXTS)
    assert list(metric.per_example(statistics)) == [5.0, pytest.approx(10 / 3), pytest.approx(10 / 3)]
    assert (metric.corpus(statistics), metric.direction) == (10 / 8, "lower")
    metric = make("copies", references="first")
    assert metric.corpus(metric.statistics(EXAMPLES, ["yes", "why", "ask"])) == 2.0, "sources are prompts"


def test_options_and_signature(make):
    metric = make("shares", references="first", arguments={"power": 2})
    statistics = metric.statistics(EXAMPLES, ["yes", "no", "you"])
    assert metric.corpus(statistics) == pytest.approx(1 / 9), "the second reference is not seen"
    version = rf"evaluate-{evaluate.__version__},script-\w{{12}}"
    assert re.fullmatch(rf"evaluate:shares\|key:shares\|refs:first\|power:2\|version:{version}", metric.signature)
    assert make("shares").signature != metric.signature


def test_odd_texts(make):
    odd = ["", " ", "\x00", "\r\n", "\x85\u2028", "\ud800", "😀", "שלום", "東京", "x" * 100_000]
    examples = [Example(str(index), "", (text,)) for index, text in enumerate(odd)]
    metric = make("shares")
    assert metric.corpus(metric.statistics(examples, odd)) == 1.0
    metric = make("shares", key="broken")
    assert list(metric.per_example(metric.statistics(examples[1:], odd[1:]))) == [0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_no_reference_is_an_error(make, refused):
    unanswered = Example("d", "ask", ())
    for ask in (make("shares").prepare, lambda examples: make("shares").statistics(examples, ["a text"] * 4)):
        with refused(DataError):
            ask([*EXAMPLES, unanswered])
    make("alone").prepare([unanswered])  # this one reads texts only


def test_statistics_hold_until_the_next_call(make, refused):
    metric = make("shares")
    before = metric.statistics(EXAMPLES, TEXTS)
    after = metric.statistics(EXAMPLES[:1], ["maybe"])
    assert metric.corpus(after) == 0.0
    with refused(ConfigError):
        metric.corpus(before)


@pytest.mark.parametrize(
    ("name", "options", "texts"),
    [
        ("shares", {"key": "share"}, TEXTS),
        ("shares", {"key": "each"}, TEXTS),
        ("shares", {}, ["", "", ""]),  # a division by zero
        ("shares", {"direction": "up"}, TEXTS),
        ("shares", {"references": "some"}, TEXTS),
        ("tables", {}, TEXTS),
    ],
)
def test_what_cannot_be(make, name, options, texts, refused):
    with refused(ConfigError):
        metric = make(name, **options)
        metric.corpus(metric.statistics(EXAMPLES, texts))


def test_a_metric_that_is_not_there(make, refused):
    with refused(DataError):
        make_metric("evaluate:rouge")
    with pytest.raises(
        DataError, match="lacks.py' needs a package that is not installed: .*a_package_that_nobody_wrote"
    ):
        make("lacks")
    with refused(ConfigError):
        evaluate_metric("evaluate:")
    assert callable(evaluate_metric("evaluate:no_such_metric")), "nothing is loaded"
    assert callable(metric_factory("evaluate:no_such_metric", {"key": "f1"})), "nor to check options"
