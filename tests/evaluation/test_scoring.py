"""Scoring: matching of ids, scales, axis means, hashes, and reading predictions."""

import json
import random
from dataclasses import replace

import pytest
from support.factories import a_task

from grue.errors import ConfigError, DataError, SubmissionError, Unavailable, UnknownName
from grue.evaluation.predictions import read_predictions
from grue.evaluation.scoring import chosen_metrics, score_examples, score_predictions
from grue.metrics.metric import Average, OfCorpusOnly
from grue.metrics.registry import DIVERSITY, METRICS, make_metric
from grue.records import Example, Prediction
from grue.task_files import load_task
from grue.tasks import MetricSpec

EXAMPLES = [
    Example("a", "dog run", ("the dog runs .", "a dog ran"), {"concepts": ["dog", "run"]}),
    Example("b", "cat sleep", ("a cat sleeps .",), {"concepts": ["cat", "sleep"]}),
    Example("c", "boat", ("two boats",), {"concepts": ["boat"]}),
]
PREDICTIONS = [
    Prediction("a", "the dog runs fast", truncated=True),
    Prediction("b", ""),
    Prediction("c", "two boats"),
]
ROUGE = MetricSpec("rougeL", "preference", (0.0, 1.0))
COVERAGE = MetricSpec("coverage", "preference", (0.0, 0.5))
LENGTH = MetricSpec("mean_length", "naturalness", (0.0, 10.0))
SPICE = MetricSpec("spice", "naturalness", (0.0, 1.0))


def task(*metrics):
    return a_task("tiny", metrics)


def score(*metrics, predictions=PREDICTIONS, wanted=None):
    return score_predictions(task(*metrics), "test", EXAMPLES, predictions, wanted)


def test_scores():
    scored = score(ROUGE, COVERAGE, LENGTH)
    by_name = {score.metric: score for score in scored.scores}
    assert list(by_name) == ["rougeL", "coverage", "mean_length", *(n for n in DIVERSITY if n != "mean_length")]
    metric = make_metric("rougeL")
    statistics = metric.statistics(EXAMPLES, [p.text for p in PREDICTIONS])
    value = metric.corpus(statistics)
    rouge = by_name["rougeL"]
    assert (rouge.value, rouge.n, rouge.signature) == (value, 3, metric.signature)
    assert rouge.scaled == pytest.approx(100 * value)
    assert by_name["coverage"].value == pytest.approx(2 / 3)
    assert by_name["coverage"].scaled == 100.0, "clipped at the end of the range"
    assert (by_name["msttr"].axis, by_name["msttr"].scaled) == ("diversity", None)
    assert scored.preference == pytest.approx((100 * value + 100) / 2)
    assert scored.naturalness == pytest.approx(10 * (4 + 0 + 2) / 3)
    assert scored.ids == ("a", "b", "c")
    assert set(scored.per_example) == {"rougeL", "coverage", "mean_length"}
    assert scored.per_example["rougeL"] == tuple(metric.per_example(statistics))
    assert scored.counts == {"expected": 3, "scored": 3, "empty": 1, "truncated": 1}
    assert scored.split == "test"
    shuffled = random.Random(1).sample(PREDICTIONS, 3)
    assert shuffled != PREDICTIONS and score(ROUGE, COVERAGE, LENGTH, predictions=shuffled) == scored
    assert score(ROUGE).naturalness is None


def test_hashes_tell_predictions_apart():
    first = score(ROUGE).hashes
    other = score(ROUGE, predictions=[*PREDICTIONS[:2], Prediction("c", "a boat")]).hashes
    assert first["predictions"] != other["predictions"]
    assert (first["examples"], first["prompts"]) == (other["examples"], other["prompts"])
    changed = [replace(EXAMPLES[0], references=("a dog",)), *EXAMPLES[1:]]
    assert score_predictions(task(ROUGE), "test", changed, PREDICTIONS).hashes["examples"] != first["examples"]


def test_only_some_metrics(refused):
    specs = chosen_metrics(task(ROUGE, COVERAGE, LENGTH), ["msttr", "coverage", "mean_length", "chrf"])
    scored = score(ROUGE, COVERAGE, LENGTH, wanted=specs)
    assert [(score.metric, score.axis) for score in scored.scores] == [
        ("msttr", "diversity"), ("coverage", "preference"), ("mean_length", "naturalness"), ("chrf", "none"),
    ]  # fmt: skip
    assert scored.scores[3].scaled is None
    assert set(scored.per_example) == {"coverage", "mean_length", "chrf"}
    assert scored.preference is None, "half of the preference metrics are no preference"
    assert scored.naturalness is not None
    with refused(UnknownName):
        chosen_metrics(task(ROUGE), ["covrage"])


def test_options_go_before_the_task_files(refused):
    stemmed = task(replace(ROUGE, options={"stem": True}))
    (chosen,) = chosen_metrics(stemmed, ["rougeL"], {"rougeL": {"stem": False}})
    assert (chosen.options, chosen.range) == ({"stem": False}, ROUGE.range)
    for options in ({"rougel": {"stem": False}}, {"rougeL": {"steam": True}}):
        with refused(ConfigError):
            chosen_metrics(stemmed, ["rougeL"], options)


def test_what_this_machine_cannot_compute_is_told(monkeypatch):
    monkeypatch.setenv("GRUE_SPICE_HOME", "")
    scored = score(ROUGE, SPICE)
    assert "spice" not in [score.metric for score in scored.scores]
    assert scored.preference is not None and scored.naturalness is None
    assert len(scored.errors) == 1 and scored.errors[0].startswith("spice: spice cannot run here:\n- ")
    with pytest.raises(Unavailable, match="spice cannot run here"):
        score(ROUGE, SPICE, wanted=[SPICE])


def test_metrics_are_prepared_before_any_is_computed():
    """So that what cannot be computed is said at once, and not after an hour of the others."""
    order, told = [], []

    def prepare(spec, examples):
        order.append(f"prepare {spec.name}")
        if spec.name == "spice":
            raise Unavailable("spice cannot run here")
        return Average(spec.name, lambda examples, texts: order.append(f"compute {spec.name}") or [0.5] * len(texts))

    specs = [ROUGE, SPICE, *chosen_metrics(None, ["meteor"])]
    asked = {"prepare": prepare, "progress": lambda done, total: told.append((done, total))}
    scored = score_examples(specs, EXAMPLES, PREDICTIONS, skip_unavailable=True, **asked)
    prepared = [f"prepare {name}" for name in ("rougeL", "spice", "meteor")]
    assert order == [*prepared, "compute rougeL", "compute meteor"]
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert [score.metric for score in scored.scores] == ["rougeL", "meteor"]
    assert scored.errors == ("spice: spice cannot run here",)
    order.clear()
    with pytest.raises(Unavailable, match="spice cannot run here"):
        score_examples(specs, EXAMPLES, PREDICTIONS, prepare=prepare)
    assert not [step for step in order if step.startswith("compute")]


def test_a_subset_counts_its_own_examples(refused):
    examples = [replace(e, meta={**e.meta, "overlap": index == 0}) for index, e in enumerate(EXAMPLES)]
    specs = chosen_metrics(None, ["sacrebleu", "sacrebleu_overlap", "sacrebleu_nonoverlap"])
    scored = score_examples(specs, examples, PREDICTIONS)
    assert [score.n for score in scored.scores] == [3, 1, 2]
    assert scored.per_example["sacrebleu_overlap"] == scored.per_example["sacrebleu"]
    alone = score_examples(specs[:1], examples[:1], PREDICTIONS[:1])
    assert scored.scores[1].value == alone.scores[0].value
    with refused(DataError):
        score_examples(specs, EXAMPLES, PREDICTIONS)
    with refused(Unavailable):
        score_examples(specs[2:], examples[:1], PREDICTIONS[:1])


def test_references_score_best_and_empty_texts_0():
    commongen = load_task("commongen")

    def of(text):
        predictions = [Prediction(example.id, text(example)) for example in EXAMPLES]
        return score_predictions(commongen, "test", EXAMPLES, predictions)

    empty = of(lambda example: "")
    assert {score.value for score in empty.scores} == {0.0} and empty.counts["empty"] == 3
    some = score_predictions(commongen, "test", EXAMPLES, PREDICTIONS)
    assert empty.preference == 0.0 < some.preference < of(lambda example: example.references[0]).preference


def test_what_cannot_be_scored(monkeypatch, refused):
    wrong = [Prediction("a", "x"), Prediction("a", "y"), *(Prediction(f"z{i}", "") for i in range(5))]
    with refused(SubmissionError):
        score(ROUGE, predictions=wrong)
    with refused(DataError):
        score_predictions(task(ROUGE), "dev", [], [])
    with refused(ConfigError):
        score(MetricSpec("rougeL", "preference", (1.0, 0.0)))
    with refused(OfCorpusOnly):
        score(MetricSpec("msttr", "preference", (0.0, 1.0)))
    monkeypatch.setitem(METRICS._things, "broken", lambda: Average("broken", lambda e, t: [0.0, float("nan"), 1.0]))
    with refused(DataError):
        score(MetricSpec("broken", "preference", (0.0, 1.0)))


def test_read_predictions(tmp_path, refused):
    path, text = tmp_path / "p.jsonl", "größe\u0085\u2028 \n line"
    second = json.dumps({"text": "", "id": "b", "truncated": True})
    path.write_text(f"{json.dumps({'id': 'a', 'text': text})}\n\n{second}\n")
    assert read_predictions(path) == [Prediction("a", text), Prediction("b", "", truncated=True)]
    with refused(DataError):
        read_predictions(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"id": "b", "txt": "x"}', SubmissionError),
        ('{"id": "b"}', SubmissionError),
        ('{"id": 3, "text": "x"}', SubmissionError),
        ('{"id": "b", "text": "x", "truncated": 1}', SubmissionError),
        ('{"id": "b", "text": "\\ud800"}', DataError),
        ('["b", "x"]', DataError),
        ('{"id": "b", "text": "x"', DataError),
        ('{"id": "b", "id": "c", "text": "x"}', DataError),
        ('{"id": "b", "text": "\xff"}', DataError),
    ],
)
def test_predictions_that_cannot_be_read(tmp_path, line, error, refused):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "a", "text": "x"}\n' + line + "\n", encoding="latin-1")
    with refused(error):
        read_predictions(path)
