"""Metrics of the library evaluate, with the real library and without a connection."""

import re

import evaluate
import numpy as np
import pytest

from grue.errors import ConfigError, DataError
from grue.metrics.evaluate_library import evaluate_metric
from grue.metrics.registry import make_metric, metric_factory
from grue.records import Example

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
TABLES = COPIES.replace("Copies", "Tables").replace('"sources"', '"tables"')
ALONE = COPIES.replace("Copies", "Alone").replace('"references": text, "sources": text', "")
LACKS = '"""No such package."""\nimport a_package_that_nobody_wrote\n'

EXAMPLES = [
    Example("a", "ask", ("yes", "no")),
    Example("b", "why", ("because",)),
    Example("c", "who", ("me", "you", "her")),
]
TEXTS = ["no", "why", "you"]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """A folder of metric scripts; the library keeps its copies and caches beside it."""
    folder = tmp_path_factory.mktemp("scripts")
    for name, code in {"shares": SHARES, "copies": COPIES, "tables": TABLES, "alone": ALONE, "lacks": LACKS}.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate.config, "HF_MODULES_CACHE", str(folder / "modules"))
        patch.setattr(evaluate.config, "HF_METRICS_CACHE", str(folder / "metrics"))
        patch.setattr(evaluate.config, "DOWNLOADED_EVALUATE_PATH", folder / "downloads")
        yield folder


def test_a_script_is_a_metric(scripts):
    metric = make_metric(f"evaluate:{scripts}/shares.py")
    metric.prepare(EXAMPLES)
    statistics = metric.statistics(EXAMPLES, TEXTS)
    assert statistics.shape == (3, 1)
    assert statistics.dtype == np.float64
    assert list(metric.per_example(statistics)) == [1.0, 0.0, 1.0]
    assert metric.corpus(statistics) == pytest.approx(2 / 3)
    assert metric.corpus(statistics[[0, 2]]) == 1.0
    assert metric.corpus(statistics[[1, 1, 2, 2]]) == 0.5, "rows may be drawn again"
    assert metric.direction == "higher"


def test_a_corpus_value_is_one_computation(scripts):
    metric = make_metric(f"evaluate:{scripts}/shares.py", key="length", direction="lower")
    statistics = metric.statistics(EXAMPLES, TEXTS)
    assert list(metric.per_example(statistics)) == [5.0, pytest.approx(10 / 3), pytest.approx(10 / 3)]
    assert metric.corpus(statistics) == 10 / 8
    assert metric.direction == "lower"


def test_options_and_signature(scripts):
    metric = make_metric(f"evaluate:{scripts}/shares.py", references="first", arguments={"power": 2})
    statistics = metric.statistics(EXAMPLES, ["yes", "no", "you"])
    assert metric.corpus(statistics) == pytest.approx(1 / 9), "the second reference is not seen"
    expected = (
        rf"evaluate:shares\|key:shares\|refs:first\|power:2\|version:evaluate-{evaluate.__version__},script-\w{{12}}"
    )
    assert re.fullmatch(expected, metric.signature)
    assert make_metric(f"evaluate:{scripts}/shares.py").signature != metric.signature


def test_sources_are_prompts(scripts):
    metric = make_metric(f"evaluate:{scripts}/copies.py", references="first")
    assert metric.corpus(metric.statistics(EXAMPLES, TEXTS)) == 1.0
    assert metric.corpus(metric.statistics(EXAMPLES, ["yes", "why", "ask"])) == 2.0


def test_odd_texts(scripts):
    odd = ["", " ", "\x00", "\r\n", "\x85\u2028", "\ud800", "😀", "שלום", "東京", "x" * 100_000]
    examples = [Example(str(index), "", (text,)) for index, text in enumerate(odd)]
    metric = make_metric(f"evaluate:{scripts}/shares.py")
    assert metric.corpus(metric.statistics(examples, odd)) == 1.0
    metric = make_metric(f"evaluate:{scripts}/shares.py", key="broken")
    assert list(metric.per_example(metric.statistics(examples[1:], odd[1:]))) == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    with pytest.raises(DataError, match="The example 'a' has no reference, which evaluate:.*shares.py needs"):
        metric.statistics([Example("a", "", ())], ["a text"])


def test_no_reference_is_an_error_when_the_metric_is_prepared(scripts):
    unanswered = [*EXAMPLES, Example("d", "ask", ())]
    with pytest.raises(DataError, match="The example 'd' has no reference, which evaluate:.*shares.py needs"):
        make_metric(f"evaluate:{scripts}/shares.py").prepare(unanswered)
    make_metric(f"evaluate:{scripts}/alone.py").prepare(unanswered)  # this one reads texts only


def test_statistics_hold_until_the_next_call(scripts):
    metric = make_metric(f"evaluate:{scripts}/shares.py")
    before = metric.statistics(EXAMPLES, TEXTS)
    after = metric.statistics(EXAMPLES[:1], ["maybe"])
    assert metric.corpus(after) == 0.0
    with pytest.raises(ConfigError, match="keeps the texts of its last call of statistics only; ask for their values"):
        metric.corpus(before)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "shares",
            {"key": "share"},
            "returns no number 'share'; set its option key to one of: broken, length, shares.",
        ),
        ("shares", {"key": "each"}, "returns no number 'each'; set its option key to one of: broken, length, shares."),
        (
            "copies",
            {},
            "cannot compute these texts: .* Set its option references to 'all' or 'first', or its arguments",
        ),
        ("shares", {"arguments": {"power": "x"}}, "cannot compute these texts: .*Set its option references"),
        ("shares", {"direction": "up"}, "direction must be 'higher' or 'lower', found 'up'"),
        ("shares", {"references": "some"}, "references must be 'all' or 'first', found 'some'"),
        ("tables", {}, "needs tables besides predictions and references, which no example has; take another metric"),
        ("shares", {"tokenizer": "words"}, "has no option 'tokenizer'.* Known: key, direction, references, arguments."),
        ("shares", {"key": 3}, "the option 'key' must be a string, found 3"),
    ],
)
def test_what_cannot_be(scripts, name, options, message):
    def value():
        metric = make_metric(f"evaluate:{scripts}/{name}.py", **options)
        return metric.corpus(metric.statistics(EXAMPLES, TEXTS))

    with pytest.raises(ConfigError, match=message):
        value()


def test_no_text_at_all_is_refused(scripts):
    metric = make_metric(f"evaluate:{scripts}/shares.py")
    statistics = metric.statistics(EXAMPLES, ["", "", ""])
    with pytest.raises(ConfigError, match="cannot compute these texts: division by zero"):
        metric.corpus(statistics)


def test_a_metric_that_is_not_there(scripts):
    with pytest.raises(DataError) as caught:
        make_metric("evaluate:rouge")
    assert str(caught.value) == (
        "The library evaluate finds no metric 'rouge': it is no script on this machine, and could not be downloaded from "
        "the Hugging Face hub. Check the name and the connection, or copy the metric's folder from "
        "https://huggingface.co/spaces/evaluate-metric/rouge and name its script: evaluate:path/to/rouge.py."
    )
    with pytest.raises(
        DataError, match=r"lacks.py' needs a package that is not installed: .*a_package_that_nobody_wrote"
    ):
        make_metric(f"evaluate:{scripts}/lacks.py")


def test_nothing_is_loaded_to_check_options():
    assert callable(evaluate_metric("evaluate:no_such_metric"))
    assert callable(metric_factory("evaluate:no_such_metric", {"key": "f1"}))
