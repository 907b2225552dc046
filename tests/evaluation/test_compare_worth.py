"""What an example is worth to a score, and a task compared from predictions alone."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from grue.data.load import load_examples
from grue.errors import ConfigError, DataError
from grue.evaluation.comparison import (
    ScoredRun,
    Side,
    Worth,
    axis_metrics,
    compare_task,
    disagreements,
    worth,
)
from grue.evaluation.scoring import score_predictions
from grue.records import Example, Prediction
from grue.task_files import load_task
from grue.tasks import MetricSpec, Task

FEW = 12


def task_of(*metrics: MetricSpec) -> Task:
    return replace(load_task("narrativeqa"), metrics=metrics)


def some_examples(count: int = FEW) -> Sequence[Example]:
    return load_examples(load_task("narrativeqa"), "test").examples[:count]


def answers(examples: Sequence[Example], right_every: int) -> list[Prediction]:
    """Right answers to some questions; to the others half of the answer, then words of the question."""
    found = []
    for number, example in enumerate(examples):
        words = example.references[0].split()
        text = " ".join(
            words if number % right_every == 0 else [*words[: len(words) // 2], *example.prompt.split()[:3]]
        )
        found.append(Prediction(example.id, text))
    return found


# --- what an example is worth ----------------------------------------------------------------------------------------

MIXES = {
    "means": (MetricSpec("rouge1", "preference", (0.0, 1.0)), MetricSpec("meteor", "preference", (0.0, 1.0))),
    "sums of counts": (
        MetricSpec("sacrebleu", "preference", (0.0, 100.0)),
        MetricSpec("chrf", "preference", (0.0, 100.0)),
    ),
    "lower is better": (MetricSpec("ter", "preference", (100.0, 0.0)),),
    "clipped": (MetricSpec("rougeL", "preference", (0.0, 0.3)), MetricSpec("bleu2", "preference", (0.0, 1.0))),
}


@pytest.mark.parametrize("metrics", MIXES.values(), ids=MIXES)
def test_pseudo_values_are_those_of_scoring_without_each_example(metrics: tuple[MetricSpec, ...]) -> None:
    task, examples = task_of(*metrics), some_examples()
    predictions = answers(examples, 3)

    def preference(kept: Sequence[int]) -> float:
        scored = score_predictions(
            task, "test", [examples[i] for i in kept], [predictions[i] for i in kept], list(metrics)
        )
        assert scored.preference is not None
        return scored.preference

    whole = preference(range(FEW))
    wanted = [FEW * whole - (FEW - 1) * preference([i for i in range(FEW) if i != left]) for left in range(FEW)]
    found = worth(axis_metrics(task, examples, "preference"), examples, predictions)
    assert found.values == pytest.approx(wanted, abs=1e-8)
    assert found.score == pytest.approx(whole)


def test_the_worth_of_an_example_to_a_mean_is_its_own_value() -> None:
    spec = MetricSpec("rouge1", "preference", (0.0, 1.0))
    examples = some_examples()
    predictions = answers(examples, 3)
    scored = score_predictions(task_of(spec), "test", examples, predictions, [spec])
    found = worth(axis_metrics(task_of(spec), examples, "preference"), examples, predictions)
    assert found.values == pytest.approx([100 * value for value in scored.per_example["rouge1"]])


def test_a_subset_s_strangers_are_worth_the_score() -> None:
    """An example that a metric leaves out changes nothing when it is left out, so that it adds no spread."""
    task = load_task("totto")
    examples = load_examples(task, "test").examples[:FEW]
    spec = MetricSpec("parent_overlap", "preference", (0.0, 1.0))
    predictions = [Prediction(example.id, example.references[0]) for example in examples]
    predictions[0] = Prediction(examples[0].id, "nothing")
    found = worth(axis_metrics(replace(task, metrics=(spec,)), examples, "preference"), examples, predictions)
    strangers = [place for place, example in enumerate(examples) if example.meta["overlap"] is not True]
    assert 0 < len(strangers) < FEW
    assert found.values[strangers] == pytest.approx([found.score] * len(strangers))


def test_a_failed_run_is_worth_nothing() -> None:
    task, examples = task_of(*MIXES["means"]), some_examples()
    found = worth(axis_metrics(task, examples, "preference"), examples, None)
    assert (found.score, found.values.tolist()) == (0.0, [0.0] * FEW)


def test_one_example_is_too_few() -> None:
    task, examples = task_of(*MIXES["means"]), some_examples(1)
    with pytest.raises(DataError, match="1 example: nothing is left when one is left out"):
        worth(axis_metrics(task, examples, "preference"), examples, answers(examples, 1))


def test_an_axis_without_metrics_cannot_be_compared() -> None:
    with pytest.raises(ConfigError, match="narrativeqa has no metric that counts towards naturalness"):
        axis_metrics(task_of(*MIXES["means"]), some_examples(), "naturalness")


def test_a_task_is_compared_on_what_the_board_shows() -> None:
    task, examples = task_of(*MIXES["means"]), some_examples(60)
    good, fair, poor = (answers(examples, every) for every in (1, 2, 20))
    found = compare_task(task, examples, [good, fair], [poor, None], np.random.default_rng(1), draws=500)
    values = [
        score_predictions(task, "test", examples, each, list(task.metrics)).preference for each in (good, fair, poor)
    ]
    best, middle, worst = (value for value in values if value is not None)
    assert (found.a, found.b) == pytest.approx(((best + middle) / 2, worst / 2))
    assert (found.seeds_a, found.seeds_b, found.examples) == (2, 2, 60)
    assert found.sd_b == pytest.approx(worst / 2**0.5)


def test_disagreements_come_largest_first_with_the_most_usual_text() -> None:
    examples = [Example(str(place), f"Q{place}", (f"R{place}",)) for place in range(4)]

    def run(seed: int, values: list[float]) -> ScoredRun:
        texts = [Prediction(str(place), f"seed {seed}, {place}") for place in range(4)]
        return ScoredRun(seed, texts, Worth(0.0, np.array(values)))

    a = [run(1, [50.0, 0.0, 10.0, 10.0]), run(2, [50.0, 80.0, 10.0, 10.0]), run(3, [50.0, 90.0, 10.0, 10.0])]
    b = [run(1, [50.0, 0.0, 90.0, 20.0])]
    found = disagreements(examples, a, b, 3)
    assert [(each.id, each.a.seed, each.a.text) for each in found] == [
        ("2", 1, "seed 1, 2"),
        ("1", 2, "seed 2, 1"),
        ("3", 1, "seed 1, 3"),
    ]
    assert found[1].a.mean == pytest.approx(170 / 3)
    assert found[1].a.value == 80.0
    failed = disagreements(examples, a, [ScoredRun(1, None, Worth(0.0, np.zeros(4)))], 1)
    assert failed[0].b == Side(None, "", 0.0, 0.0)
