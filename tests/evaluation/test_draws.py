"""Several draws a prompt: drawn by seeds of their own, written and read beside the first, each scored as a corpus."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.commands import grue, printed_json
from support.factories import a_task
from support.late import late

from grue import files
from grue.api.evaluate import generate
from grue.api.score import compare
from grue.errors import DataError, SubmissionError
from grue.evaluation.comparison import axis_metrics, worth
from grue.evaluation.predictions import match, read_predictions, write_predictions
from grue.evaluation.scoring import counts_of, score_predictions
from grue.records import Draw, Example, Prediction
from grue.submissions.checks.copies import RunTexts, check_copies
from grue.submissions.checks.rescoring import check_legible
from grue.tasks import MetricSpec

tiny, predict, seeds = late("support.tiny"), late("grue.evaluation.predict"), late("grue.lm.seeds")
chat_models = late("support.chat_models")
CHAT = {"version": 1, "user": "{prompt}"}

EXAMPLES = [
    Example("a", "dog run", ("the dog runs fast .", "a dog ran"), {"concepts": ["dog", "run"]}),
    Example("b", "cat sleep", ("a cat sleeps on a mat",), {"concepts": ["cat", "sleep"]}),
    Example("c", "boat", ("two boats on a lake",), {"concepts": ["boat"]}),
]
TASK = a_task(
    "tiny",
    (
        MetricSpec("rougeL", "preference", (0.0, 1.0)),
        MetricSpec("bleu2", "preference", (0.0, 1.0)),
        MetricSpec("mean_length", "naturalness", (0.0, 4.0)),
    ),
)
DRAWN = (
    ("the dog runs", "a cat sleeps", "two boats on a lake"),
    ("a dog ran", "", "boats"),
    ("dogs", "a cat sleeps on a red mat", "three boats on a lake"),
)
PREDICTIONS = [
    Prediction(example.id, first, more=(Draw(second, truncated=example.id == "a"), Draw(third)))
    for example, first, second, third in zip(EXAMPLES, *DRAWN, strict=True)
]


def scored(predictions):
    return score_predictions(TASK, "test", EXAMPLES, predictions)


def test_each_draw_is_a_corpus_and_the_mean_of_their_values_is_scaled():
    apart = [scored([Prediction(*one) for one in zip("abc", texts, strict=True)]) for texts in DRAWN]
    found = scored(PREDICTIONS)
    for place, score in enumerate(found.scores):
        value = sum(one.scores[place].value for one in apart) / 3
        assert score.value == pytest.approx(value)
        spec = next((spec for spec in TASK.metrics if spec.name == score.metric), None)
        assert score.scaled == (None if spec is None else pytest.approx(spec.scale(value)))
        assert (score.n, score.signature) == (3, apart[0].scores[place].signature)
    assert found.preference == pytest.approx(sum(one.preference for one in apart) / 3)  # both metrics are linear
    assert found.per_example.keys() == apart[0].per_example.keys()
    for metric, values in found.per_example.items():
        assert values == pytest.approx(np.mean([one.per_example[metric] for one in apart], axis=0))
    assert found.counts == {"expected": 3, "scored": 3, "empty": 1, "truncated": 1, "samples": 3}
    assert found.hashes["predictions"] != apart[0].hashes["predictions"]
    assert scored(PREDICTIONS[::-1]) == found


def test_what_an_example_is_worth_is_the_mean_of_its_draws():
    metrics = axis_metrics(TASK, EXAMPLES, "preference")
    apart = [worth(metrics, EXAMPLES, [Prediction(*one) for one in zip("abc", texts, strict=True)]) for texts in DRAWN]
    found = worth(metrics, EXAMPLES, PREDICTIONS)
    assert found.score == pytest.approx(np.mean([one.score for one in apart]))
    assert found.values == pytest.approx(np.mean([one.values for one in apart], axis=0))
    assert found.score == pytest.approx(scored(PREDICTIONS).preference)


def test_further_draws_stand_in_a_line_where_there_are_any(tmp_path):
    path = tmp_path / "p.jsonl"
    write_predictions(path, PREDICTIONS)
    assert json.loads(path.read_text().splitlines()[0]) == {
        "id": "a",
        "text": "the dog runs",
        "more": [{"text": "a dog ran", "truncated": True}, {"text": "dogs"}],
    }
    assert read_predictions(path) == PREDICTIONS
    single = Prediction("a", "the dog runs", True)
    write_predictions(path, [single])
    assert path.read_text() == '{"id":"a","text":"the dog runs","truncated":true}\n'
    assert files.canonical_json(single) == '{"id":"a","text":"the dog runs","truncated":true}'


def test_all_examples_have_equally_many_draws(tmp_path, refused):
    path = tmp_path / "p.jsonl"
    uneven = [*PREDICTIONS[:2], replace(PREDICTIONS[2], more=PREDICTIONS[2].more[:1])]
    write_predictions(path, uneven)
    with refused(SubmissionError):
        read_predictions(path)
    with refused(DataError):
        read_predictions(path, DataError)
    with refused(SubmissionError):
        match(EXAMPLES, uneven)
    files.write_jsonl(path, [{"id": "a", "text": "b", "more": ["c"]}])
    with refused(SubmissionError):
        read_predictions(path)


@pytest.mark.parametrize("family", ["causal", "seq2seq"])
def test_each_draw_has_a_seed_of_its_own_and_the_first_is_that_of_one(family):
    model, tokenizer, task, examples = tiny.model(family), tiny.tokenizer(family), tiny.task(family), tiny.examples(6)
    several = replace(task.decoding, samples=3)
    made = predict.predict((model, tokenizer), task, examples, several, 7)
    for number in range(3):
        alone = predict.predict((model, tokenizer), task, examples, task.decoding, seeds.sample_seed(7, number))
        drawn = [one.draws[number] for one in made]
        assert [(one.text, one.truncated) for one in drawn] == [(one.text, one.truncated) for one in alone]
    assert len({one.text for one in made[0].draws}) > 1
    fewer = predict.predict((model, tokenizer), task, examples, replace(several, samples=2), 7)
    assert fewer == [replace(one, more=one.more[:1]) for one in made]


SAMPLED = {"max_new_tokens": 6, "do_sample": True}


@pytest.fixture
def sampled(own):
    """A task that is scored by two samples a prompt."""
    return own(rollout=SAMPLED, decoding={**SAMPLED, "samples": 2})


def test_a_task_of_several_samples_is_evaluated_scored_generated_and_compared(sampled, tmp_path, cut_off):
    asked = ("evaluate", "--baseline", "zero-shot", "--task", sampled, "--batch-size", 2)
    found = printed_json(*asked)[0]
    assert (found["generation"]["samples"], found["counts"]["samples"], found["counts"]["expected"]) == (2, 2, 5)
    path = tmp_path / "runs/own/words/zero-shot/seed-1/predictions.jsonl"
    predictions = read_predictions(path)
    assert {len(one.draws) for one in predictions} == {2} and any(one.text != one.more[0].text for one in predictions)
    again = printed_json("score", path, "--task", sampled)
    assert again["preference"] == found["preference"] and again["counts"] == found["counts"]
    generate("zero-shot", "made.jsonl", str(sampled), batch_size=2)
    assert read_predictions(tmp_path / "made.jsonl") == predictions
    # Gone on with after a kill: the same bytes.
    whole = cut_off(path.parent, 2)
    assert printed_json(*asked)[0]["hashes"] == found["hashes"] and path.read_bytes() == whole
    assert "5 examples × 2 samples, " in grue(*asked).stdout
    null = printed_json("evaluate", "--baseline", "null", "--task", sampled)[0]
    best = printed_json(*asked, "--best-of", 2)[0]
    assert not any("samples" in one[key] for one in (null, best) for key in ("counts", "generation"))
    other = printed_json(*asked, "--seed", 2)[0]
    second = read_predictions(tmp_path / "runs/own/words/zero-shot/seed-2/predictions.jsonl")
    (compared,) = compare("zero-shot", "null", tasks=[str(sampled)], show=1).tasks
    zero_shot = [one["preference"] for one in (found, other)]
    assert compared.difference.value == pytest.approx(sum(zero_shot) / 2 - null["preference"])
    assert compared.examples[0].a.text in {one.text for one in predictions} | {one.text for one in second}


def test_a_chat_model_is_asked_as_often(own, tmp_path):
    chat_models.chat_model(tmp_path / "talk")
    prompt, found = {"max_tokens": 8, "truncation": "left", "chat": CHAT}, {}
    for samples in (1, 2):
        task = own(rollout=SAMPLED, prompt=prompt, decoding={**SAMPLED, "samples": samples})
        path = tmp_path / str(samples) / "predictions.jsonl"
        one = printed_json("evaluate", "--model", "talk", "--chat", "--task", task, "-o", path.parent)[0]
        assert one["counts"].get("samples", 1) == samples
        found[samples] = read_predictions(path)
    assert [one.text for one in found[1]] == [one.text for one in found[2]]
    assert any(one.text != one.more[0].text for one in found[2])


def test_checks_read_every_draw(tmp_path):
    copied = [Prediction(one.id, "something else", more=(Draw(one.references[0]),)) for one in EXAMPLES]
    hidden = [replace(copied[0], more=(Draw("a\u200bb"),))]
    long = [replace(copied[0], more=(Draw("x" * 1000),))]
    for texts in (hidden, long):
        assert [one.id for one in check_legible(tmp_path, EXAMPLES[:1], texts, 8, False)] == ["GRUE-S046"]
    empty = [Prediction(name, f"a text {name}", more=(Draw("", True), Draw("", True))) for name in "abcde"]
    assert counts_of(empty)["truncated"] == 10


def test_copies_are_found_in_whatever_order_they_were_drawn(tmp_path):
    def of(predictions):
        return RunTexts.of(tmp_path / "row/imdb/seed-1", None, predictions)

    turned = [Prediction(one.id, one.more[1].text, more=(Draw(one.text), one.more[0])) for one in PREDICTIONS]
    assert [one.id for one in check_copies(of(turned), [of(PREDICTIONS)], [])] == ["GRUE-S017"]
    others = [Prediction(one.id, one.text, more=(Draw("unlike"), Draw("any other"))) for one in PREDICTIONS]
    assert not list(check_copies(of(others), [of(PREDICTIONS)], []))
