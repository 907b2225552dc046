"""The metric of stated facts: what counts, what loses, and what the tasks' own references and lazy texts get."""

import statistics
from dataclasses import replace

import pytest

from grue.data.load import load_examples
from grue.errors import DataError
from grue.metrics.registry import make_metric
from grue.records import Example
from grue.task_files import load_task

COAT = {"expected": [["a new coat", "coat"]], "wrong": ["cherry pie", "barrel of cider"]}
PAID = {"expected": [["Simon Hayes", "Simon"], ["two dollars"]], "closed": True}
PROMPT = "On Sunday Simon Hayes paid 2 dollars to Vera."


def value(facts, text, prompt=""):
    example = Example("e", prompt, (), {"facts": facts})
    metric = make_metric("facts")
    metric.prepare([example])
    return metric.corpus(metric.statistics([example], [text]))


@pytest.mark.parametrize(
    ("facts", "text", "expected"),
    [
        (COAT, "He gets NEW coats from a friend", 1),
        (COAT, "coating of cider", 1),  # the stem is coat; a part of a wrong wording is not wrong
        (COAT, "a coat or a cherry pie", 2 / 3),
        (COAT, "a coat, a cherry pie, a barrel of cider", 2 / 4),
        (COAT, "a cherry pie", 0),
        (COAT, "", 0),
        (COAT, "a coat, a new coat, a coat, a coat", 2 / 4),
        (COAT, "an old barrel of the cider", 0),
        (PAID, "Simon paid the second dollar. Then Simon left.", 1),
        (PAID, "It was Vera, not Simon.", 2 / 3),
        (PAID, "Simon paid Victor three dollars.", 2 / 5),
        (PAID, "Victor got two dollars. Simon paid.", 1),  # what opens a sentence may be any word
        ({"expected": []}, "anything", 1),
        ({"expected": [], "wrong": ["pie"]}, "a pie", 1 / 2),
        ({"expected": [["the"], ["pie"]]}, "a pie", 2 / 3),  # a wording without words is never stated
    ],
)
def test_value(facts, text, expected):
    assert value(facts, text, PROMPT) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({}, "has no facts in its meta"),
        ({"facts": {"wrong": ["pie"]}}, "has no facts in its meta"),
        ({"facts": {"expected": [["pie"]], "kind": "food"}}, "unknown key 'kind'. Known: expected, wrong, closed"),
        ({"facts": {"expected": ["pie"]}}, "must be a list of lists of wordings"),
        ({"facts": {"expected": [[1]]}}, "must be a list of lists of wordings"),
        ({"facts": {"expected": [], "closed": 1}}, "true or false as closed"),
        ({"facts": {"expected": [], "wrong": "pie"}}, "a list of wordings as wrong"),
    ],
)
def test_an_example_without_proper_facts_is_refused(meta, words):
    with pytest.raises(DataError, match=words) as caught:
        make_metric("facts").prepare([Example("e7", "", (), meta)])
    assert "'e7'" in str(caught.value)


@pytest.mark.parametrize("name", ["cnn_dailymail", "dailydialog", "narrativeqa", "totto"])
def test_the_worlds_references_state_the_facts_and_lazy_texts_do_not(name):
    data = load_task(name).data
    plain, task = (replace(load_task(name), data=replace(data, facts=asked)) for asked in (False, True))
    assert not any("facts" in example.meta for example in load_examples(plain, "validation").examples), (
        "unless asked for"
    )
    examples = load_examples(task, "validation").examples
    metric = make_metric("facts")

    def mean(texts):
        return metric.corpus(metric.statistics(examples, texts))

    def every_value(example):
        facts = example.meta["facts"]
        return ", ".join([*(fact[0] for fact in facts["expected"]), *facts["wrong"]])

    references = [example.references[0] for example in examples]
    assert mean(references) > 0.98
    assert mean([*references[1:], references[0]]) < 0.2
    assert mean([every_value(example) for example in examples]) < 0.6
    assert mean([f"{text} {text} {text}" for text in references]) < 0.95 * mean(references)
    assert mean([" ".join(text.split()[: len(text.split()) // 2]) for text in references]) < 0.8
    assert statistics.mean(len(example.meta["facts"]["expected"]) for example in examples) >= 1
