"""Scoring: matching of ids, scales, axis means, hashes, and reading predictions."""

import json
import random
from dataclasses import replace

import pytest
from support.factories import a_task

from grue.errors import ConfigError, DataError, SubmissionError, Unavailable, UnknownName
from grue.evaluation.predictions import match, read_predictions
from grue.evaluation.scoring import chosen_metrics, prepared_metric, score_examples, score_predictions
from grue.metrics.metric import Average
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


def task(*metrics):
    return a_task("tiny", metrics)


def raw(name):
    metric = make_metric(name)
    metric.prepare(EXAMPLES)
    statistics = metric.statistics(EXAMPLES, [p.text for p in PREDICTIONS])
    return metric.corpus(statistics), tuple(metric.per_example(statistics))


def test_scores():
    scored = score_predictions(task(ROUGE, COVERAGE, LENGTH), "test", EXAMPLES, PREDICTIONS)
    by_name = {score.metric: score for score in scored.scores}
    assert list(by_name) == ["rougeL", "coverage", "mean_length", *(n for n in DIVERSITY if n != "mean_length")]
    value, each = raw("rougeL")
    assert by_name["rougeL"].value == value
    assert by_name["rougeL"].scaled == pytest.approx(100 * value)
    assert by_name["rougeL"].n == 3
    assert by_name["rougeL"].signature == make_metric("rougeL").signature
    assert by_name["coverage"].value == pytest.approx(2 / 3)
    assert by_name["coverage"].scaled == 100.0, "clipped at the end of the range"
    assert by_name["msttr"].axis == "diversity"
    assert by_name["msttr"].scaled is None
    assert scored.preference == pytest.approx((100 * value + 100) / 2)
    assert scored.naturalness == pytest.approx(10 * (4 + 0 + 2) / 3)
    assert scored.ids == ("a", "b", "c")
    assert set(scored.per_example) == {"rougeL", "coverage", "mean_length"}
    assert scored.per_example["rougeL"] == each
    assert scored.counts == {"expected": 3, "scored": 3, "empty": 1, "truncated": 1}
    assert scored.split == "test"


def test_a_task_without_naturalness():
    scored = score_predictions(task(ROUGE), "test", EXAMPLES, PREDICTIONS)
    assert scored.naturalness is None
    assert scored.preference is not None


def test_order_does_not_matter():
    expected = score_predictions(task(ROUGE, LENGTH), "test", EXAMPLES, PREDICTIONS)
    shuffled = random.Random(1).sample(PREDICTIONS, 3)
    assert shuffled != PREDICTIONS
    assert score_predictions(task(ROUGE, LENGTH), "test", EXAMPLES, shuffled) == expected


def test_hashes_tell_predictions_apart():
    first = score_predictions(task(ROUGE), "test", EXAMPLES, PREDICTIONS).hashes
    other = score_predictions(task(ROUGE), "test", EXAMPLES, [*PREDICTIONS[:2], Prediction("c", "a boat")]).hashes
    assert first["predictions"] != other["predictions"]
    assert (first["examples"], first["prompts"]) == (other["examples"], other["prompts"])


def test_only_some_metrics():
    scored_task = task(ROUGE, COVERAGE, LENGTH)
    specs = chosen_metrics(scored_task, ["msttr", "coverage", "mean_length", "chrf"])
    scored = score_predictions(scored_task, "test", EXAMPLES, PREDICTIONS, specs)
    assert [(score.metric, score.axis) for score in scored.scores] == [
        ("msttr", "diversity"),
        ("coverage", "preference"),
        ("mean_length", "naturalness"),
        ("chrf", "none"),
    ]
    assert scored.scores[3].scaled is None
    assert set(scored.per_example) == {"coverage", "mean_length", "chrf"}
    assert scored.preference is None, "half of the preference metrics are no preference"
    assert scored.naturalness is not None
    with pytest.raises(UnknownName, match=r"There is no metric 'covrage'\. Did you mean 'coverage'\?"):
        chosen_metrics(scored_task, ["covrage"])


def test_options_go_before_the_task_files():
    spec = replace(ROUGE, options={"stem": True})
    (chosen,) = chosen_metrics(task(spec), ["rougeL"], {"rougeL": {"stem": False}})
    assert (chosen.options, chosen.range) == ({"stem": False}, ROUGE.range)
    with pytest.raises(ConfigError) as error:
        chosen_metrics(task(spec), ["rougeL"], {"rougel": {"stem": False}})
    assert str(error.value) == (
        "There are options for 'rougel', which is not computed. Did you mean 'rougeL'? Computed: rougeL."
    )
    with pytest.raises(ConfigError, match=r"The metric 'rougeL' has no option 'steam'\. Did you mean 'stem'\?"):
        chosen_metrics(None, ["rougeL"], {"rougeL": {"steam": True}})


def test_what_this_machine_cannot_compute_is_told(monkeypatch):
    monkeypatch.setenv("GRUE_SPICE_HOME", "")
    spice = MetricSpec("spice", "naturalness", (0.0, 1.0))
    scored = score_predictions(task(ROUGE, spice), "test", EXAMPLES, PREDICTIONS)
    assert "spice" not in [score.metric for score in scored.scores]
    assert scored.preference is not None
    assert scored.naturalness is None
    assert len(scored.errors) == 1
    assert scored.errors[0].startswith("spice: spice cannot run here:\n- ")
    with pytest.raises(Unavailable, match="spice cannot run here"):
        score_predictions(task(ROUGE, spice), "test", EXAMPLES, PREDICTIONS, [spice])


def test_metrics_are_prepared_before_any_is_computed():
    """So that what cannot be computed is said at once, and not after an hour of the others."""
    order = []

    def prepare(spec, examples):
        order.append(("prepare", spec.name))
        if spec.name == "spice":
            raise Unavailable("spice cannot run here")
        metric = prepared_metric(spec, examples)
        real = metric.statistics

        def statistics(*arguments):
            order.append(("compute", spec.name))
            return real(*arguments)

        metric.statistics = statistics
        return metric

    specs = [ROUGE, MetricSpec("spice", "naturalness", (0.0, 1.0)), *chosen_metrics(None, ["meteor"])]
    scored = score_examples(specs, EXAMPLES, PREDICTIONS, skip_unavailable=True, prepare=prepare)
    assert order == [
        ("prepare", "rougeL"),
        ("prepare", "spice"),
        ("prepare", "meteor"),
        ("compute", "rougeL"),
        ("compute", "meteor"),
    ]
    assert ([score.metric for score in scored.scores], scored.errors) == (
        ["rougeL", "meteor"],
        ("spice: spice cannot run here",),
    )
    order.clear()
    with pytest.raises(Unavailable, match="spice cannot run here"):
        score_examples(specs, EXAMPLES, PREDICTIONS, prepare=prepare)
    assert not [step for step, _ in order if step == "compute"]


def test_progress_is_told_by_metric():
    told = []
    specs = chosen_metrics(None, ["bleu1", "rouge1", "vocabulary"])
    score_examples(
        specs,
        [Example("a", "", ("one",))],
        [Prediction("a", "one")],
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_subset_counts_its_own_examples():
    examples = [replace(e, meta={**e.meta, "overlap": index == 0}) for index, e in enumerate(EXAMPLES)]
    specs = chosen_metrics(None, ["sacrebleu", "sacrebleu_overlap", "sacrebleu_nonoverlap"])
    scored = score_examples(specs, examples, PREDICTIONS)
    assert [score.n for score in scored.scores] == [len(examples), 1, len(examples) - 1]
    assert scored.per_example["sacrebleu_overlap"] == scored.per_example["sacrebleu"]
    alone = score_examples(specs[:1], examples[:1], [p for p in PREDICTIONS if p.id == examples[0].id])
    assert scored.scores[1].value == alone.scores[0].value
    with pytest.raises(DataError, match="has no overlap .true or false. in its meta, which sacrebleu_overlap needs"):
        score_examples(specs, EXAMPLES, PREDICTIONS)
    with pytest.raises(Unavailable, match="none of the 1 examples has overlap = False"):
        score_examples(specs[2:], examples[:1], [p for p in PREDICTIONS if p.id == examples[0].id])


def test_all_empty():
    empty = [Prediction(example.id, "") for example in EXAMPLES]
    scored = score_predictions(load_task("commongen"), "test", EXAMPLES, empty)
    assert scored.preference == 0.0
    assert scored.counts["empty"] == 3
    assert {score.value for score in scored.scores} == {0.0}


def test_references_score_best():
    commongen = load_task("commongen")
    perfect = [Prediction(example.id, example.references[0]) for example in EXAMPLES]
    best = score_predictions(commongen, "test", EXAMPLES, perfect)
    assert best.preference > score_predictions(commongen, "test", EXAMPLES, PREDICTIONS).preference


def test_ids_that_do_not_fit():
    wrong = [Prediction("a", "x"), Prediction("a", "y"), *(Prediction(f"z{i}", "") for i in range(5))]
    with pytest.raises(SubmissionError) as error:
        score_predictions(task(ROUGE), "test", EXAMPLES, wrong)
    assert str(error.value) == (
        "The predictions do not fit the 3 examples: 2 missing ('b', 'c'); 5 unknown ('z0', 'z1', 'z2', …); "
        "1 given more than once ('a'). "
        "Write exactly one prediction for each example; an empty text is allowed."
    )


def test_match_orders_by_example():
    assert [prediction.id for prediction in match(EXAMPLES, PREDICTIONS[::-1])] == ["a", "b", "c"]


def test_no_examples():
    with pytest.raises(DataError, match="The split 'dev' of tiny has no examples to score"):
        score_predictions(task(ROUGE), "dev", [], [])


def test_a_range_the_wrong_way_round():
    with pytest.raises(ConfigError) as error:
        score_predictions(task(MetricSpec("rougeL", "preference", (1.0, 0.0))), "test", EXAMPLES, PREDICTIONS)
    assert str(error.value) == (
        "The task file scales 'rougeL' as if lower were better, but higher is; swap the ends of its range."
    )


def test_a_diversity_metric_cannot_be_scored():
    with pytest.raises(ConfigError, match="give it the axis 'diversity'"):
        score_predictions(task(MetricSpec("msttr", "preference", (0.0, 1.0))), "test", EXAMPLES, PREDICTIONS)


def test_a_value_that_is_no_number(monkeypatch):
    monkeypatch.setitem(METRICS._things, "broken", lambda: Average("broken", lambda e, t: [0.0, float("nan"), 1.0]))
    with pytest.raises(DataError, match="The metric 'broken' gave a value that is not a finite number"):
        score_predictions(task(MetricSpec("broken", "preference", (0.0, 1.0))), "test", EXAMPLES, PREDICTIONS)


def write(path, *lines):
    path.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() + b"\n" for line in lines))
    return path


def test_read_predictions(tmp_path):
    path = write(
        tmp_path / "p.jsonl",
        json.dumps({"id": "a", "text": "größe\u0085\u2028 \n line"}),
        "",
        json.dumps({"text": "", "id": "b", "truncated": True}),
    )
    assert read_predictions(path) == [Prediction("a", "größe\u0085\u2028 \n line"), Prediction("b", "", truncated=True)]


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        (
            '{"id": "b", "txt": "x"}',
            SubmissionError,
            "unknown key 'txt'. Did you mean 'text'? Known: id, text, truncated.",
        ),
        ('{"id": "b"}', SubmissionError, "the key 'text' is missing."),
        (
            '{"id": 3, "text": "x"}',
            SubmissionError,
            'id: expected a string, found int 3. Write the id as a string, such as "3".',
        ),
        ('{"id": "b", "text": null}', SubmissionError, "text: expected a string, found null."),
        (
            '{"id": "b", "text": "x", "truncated": 1}',
            SubmissionError,
            "truncated: expected true or false, found int 1.",
        ),
        ('{"id": "b", "text": "\\ud800"}', DataError, "surrogate"),
        ('["b", "x"]', DataError, "expected an object"),
        ('{"id": "b", "text": "x"', DataError, "not valid JSON"),
        ('{"id": "b", "id": "c", "text": "x"}', DataError, "is repeated"),
        (b'{"id": "b", "text": "\xff"}\n', DataError, "not valid UTF-8"),
    ],
)
def test_predictions_that_cannot_be_read(tmp_path, line, error, message):
    path = write(tmp_path / "p.jsonl", '{"id": "a", "text": "x"}', line)
    with pytest.raises(error) as found:
        read_predictions(path)
    assert str(found.value).startswith(f"{path}, line 2: ")
    assert message in str(found.value)


def test_a_predictions_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_predictions(tmp_path / "none.jsonl")
