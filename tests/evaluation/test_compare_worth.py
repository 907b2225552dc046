"""What an example is worth to a score, and a task compared from predictions alone."""

from dataclasses import replace

import numpy as np
import pytest

from grue.data.load import load_examples
from grue.errors import ConfigError, DataError
from grue.evaluation.comparison import ScoredRun, Side, Worth, axis_metrics, compare_task, disagreements, worth
from grue.evaluation.scoring import score_predictions
from grue.records import Example, Prediction
from grue.task_files import load_task
from grue.tasks import MetricSpec

FEW = 12


def spec(name, best=1.0, worst=0.0):
    return MetricSpec(name, "preference", (worst, best))


def task_of(*metrics):
    return replace(load_task("narrativeqa"), metrics=metrics)


def some_examples(count=FEW):
    return load_examples(load_task("narrativeqa"), "test").examples[:count]


def answers(examples, right_every):
    """Right answers to some questions; to the others half of the answer, then words of the question."""
    found = []
    for number, example in enumerate(examples):
        words = example.references[0].split()
        if number % right_every:
            words = [*words[: len(words) // 2], *example.prompt.split()[:3]]
        found.append(Prediction(example.id, " ".join(words)))
    return found


def preference(task, examples, predictions):
    return score_predictions(task, "test", examples, predictions, list(task.metrics)).preference


MIXES = {
    "means": (spec("rouge1"), spec("meteor")),
    "sums of counts": (spec("sacrebleu", 100.0), spec("chrf", 100.0)),
    "lower is better": (spec("ter", 0.0, 100.0),),
    "clipped": (spec("rougeL", 0.3), spec("bleu2")),
}


@pytest.mark.parametrize("metrics", MIXES.values(), ids=MIXES)
def test_pseudo_values_are_those_of_scoring_without_each_example(metrics):
    task, examples = task_of(*metrics), some_examples()
    predictions = answers(examples, 3)

    def without(left):
        kept = [i for i in range(FEW) if i != left]
        return preference(task, [examples[i] for i in kept], [predictions[i] for i in kept])

    whole = without(None)
    found = worth(axis_metrics(task, examples, "preference"), examples, predictions)
    wanted = [FEW * whole - (FEW - 1) * without(left) for left in range(FEW)]
    assert found.values == pytest.approx(wanted, abs=1e-8)
    assert found.score == pytest.approx(whole)


def test_a_subset_s_strangers_are_worth_the_score():
    """An example that a metric leaves out changes nothing when it is left out, so that it adds no spread."""
    examples = [replace(one, meta={"overlap": n % 3 == 0}) for n, one in enumerate(some_examples())]
    metrics = axis_metrics(task_of(spec("sacrebleu_overlap", 100.0)), examples, "preference")
    found = worth(metrics, examples, answers(examples, 2))
    strangers = [place for place, example in enumerate(examples) if not example.meta["overlap"]]
    assert found.values[strangers] == pytest.approx([found.score] * len(strangers))
    assert len({*np.round(found.values, 6)}) > 2  # and the others are worth what they are


def test_what_cannot_be_compared(refused):
    task, examples = task_of(*MIXES["means"]), some_examples(1)
    with refused(DataError):
        worth(axis_metrics(task, examples, "preference"), examples, answers(examples, 1))
    with refused(ConfigError):
        axis_metrics(task, examples, "naturalness")


def test_a_task_is_compared_on_what_the_board_shows_and_a_failed_run_is_worth_nothing():
    task, examples = task_of(*MIXES["means"]), some_examples(60)
    good, fair, poor = (answers(examples, every) for every in (1, 2, 20))
    found = compare_task(task, examples, [good, fair], [poor, None], np.random.default_rng(1))
    best, middle, worst = (preference(task, examples, each) for each in (good, fair, poor))
    assert (found.a, found.b) == pytest.approx(((best + middle) / 2, worst / 2))
    assert (found.seeds_a, found.seeds_b, found.examples) == (2, 2, 60)
    assert found.sd_b == pytest.approx(worst / 2**0.5)


def test_disagreements_come_largest_first_with_the_most_usual_text():
    examples = [Example(str(place), f"Q{place}", (f"R{place}",)) for place in range(4)]

    def run(seed, values):
        texts = [Prediction(str(place), f"seed {seed}, {place}") for place in range(4)]
        return ScoredRun(seed, texts, Worth(0.0, np.array(values)))

    a = [run(1, [50.0, 0.0, 10.0, 10.0]), run(2, [50.0, 80.0, 10.0, 10.0]), run(3, [50.0, 90.0, 10.0, 10.0])]
    found = disagreements(examples, a, [run(1, [50.0, 0.0, 90.0, 20.0])], 3)
    assert [(each.id, each.a.text) for each in found] == [("2", "seed 1, 2"), ("1", "seed 2, 1"), ("3", "seed 1, 3")]
    assert (found[1].a.seed, found[1].a.value, found[1].a.mean) == (2, 80.0, pytest.approx(170 / 3))
    failed = disagreements(examples, a, [ScoredRun(1, None, Worth(0.0, np.zeros(4)))], 1)
    assert failed[0].b == Side(None, "", 0.0, 0.0)
