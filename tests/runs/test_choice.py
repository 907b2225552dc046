"""Which policy a run keeps: on which answers, how sure that is, and what is said of it."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.late import late

from grue import files
from grue.evaluation.rewards import make_reward
from grue.lm.checkpoint import FINAL, read_manifest
from grue.runs.choice import choice
from grue.runs.recipes import make_config
from grue.task_files import load_task

tiny, exactness, golden = late("support.tiny"), late("support.exactness"), late("support.golden")
comparison, sampling = late("grue.evaluation.comparison"), late("grue.evaluation.predict")
records, validation = late("grue.runs.recorded"), late("grue.runs.validate")
RATE = {"learning_rate": 0.05, "validate_every": 1}


class Heard:
    """A reward that is easy to learn, and keeps the texts of each validation: its examples are known by their ids."""

    def __init__(self, validation):
        self.ids, self.texts = [example.id for example in validation], []

    def __call__(self, examples, texts):
        if [example.id for example in examples] == self.ids:
            self.texts.append(list(texts))
        return exactness.letters(examples, texts)


def run_of(folder, algorithm="ppo", *, drop=(), **given):
    """A tiny run that is validated on nine examples, and what its reward hears; `drop` metrics of an axis."""
    task = tiny.task("causal")
    task = dataclasses.replace(task, metrics=tuple(one for one in task.metrics if one.axis not in drop))
    heard = Heard(tiny.examples(9))
    run = tiny.run("causal", algorithm, folder, task_=task, reward=heard, **RATE, **given)
    run.validation = tiny.examples(9)
    return tiny.train(run), heard


def unigram_f1(example, text):
    """ROUGE-1 by its definition, the best of the references; none of the words here has a stem of another's."""
    return max(_f1(text.split(), reference.split()) for reference in example.references)


def _f1(said, wanted):
    hits = sum(min(said.count(word), wanted.count(word)) for word in set(said))
    return 2 * hits / (len(said) + len(wanted)) if hits else 0.0


def spread(values):
    """The standard error of a mean, by its definition."""
    middle = sum(values) / len(values)
    return (sum((value - middle) ** 2 for value in values) / (len(values) - 1) / len(values)) ** 0.5


def test_the_error_bars_are_those_of_the_examples_and_of_their_pairs(tmp_path):
    run, heard = run_of(tmp_path, updates=2, validate_on="rollouts")
    shown = [figures for _, figures, _ in run.observer.validations]
    answers = heard.texts[::2]  # each is heard twice: as an answer, and as the sample that KL is from
    values = [[100 * unigram_f1(*pair) for pair in zip(run.validation, texts, strict=True)] for texts in answers]
    for figures, mine in zip(shown, values, strict=True):
        assert figures["preference"] == pytest.approx(sum(mine) / 9)
        assert figures["error"] == pytest.approx(spread(mine))
    assert "gain" not in shown[0]
    for figures, mine in zip(shown[1:], values[1:], strict=True):
        pairs = [one - other for one, other in zip(mine, values[0], strict=True)]
        assert any(pairs)
        assert figures["gain"] == pytest.approx(sum(pairs) / 9)
        assert figures["gain_error"] == pytest.approx(spread(pairs))


def test_without_a_preference_the_reward_is_compared(tmp_path):
    run, heard = run_of(tmp_path, updates=1, drop=("preference",))
    first, last = (exactness.letters(run.validation, texts) for texts in heard.texts[::2])
    (_, begun, _), (_, ended, _) = run.observer.validations
    assert begun["error"] == pytest.approx(spread(first))
    assert ended["gain_error"] == pytest.approx(spread([one - other for one, other in zip(last, first, strict=True)]))


def test_the_terms_of_a_sum_are_measured_on_answers_and_on_plain_samples(tmp_path):
    run = tiny.run("causal", "ppo", tmp_path, updates=1, validate_every=1)
    run.trainer.reward = make_reward("2*rouge1 - meteor", run.plan.task, tiny.examples())
    tiny.train(run)
    (_, first, _), *_ = run.observer.validations
    for name in ("reward", "sampled_reward"):
        assert first[name] == pytest.approx(2 * first[f"{name}/rouge1"] - first[f"{name}/meteor"])


def test_supervised_training_has_no_start_to_be_near():
    assert all("kl" not in found for _, found, _ in golden.trace("causal", "supervised").validations)


def test_the_error_of_a_mean_over_some_examples_is_that_of_drawing_the_examples_again():
    """A mean over the examples that have a value is a ratio, whose denominator is drawn, too."""
    generator = np.random.default_rng(3)
    values = [None if place % 3 == 0 else float(one) for place, one in enumerate(generator.normal(5.0, 2.0, 240))]
    found = comparison.worth_of_mean(values)
    drawn = [[values[i] for i in generator.integers(0, 240, 240)] for _ in range(4000)]
    means = [np.mean([one for one in some if one is not None]) for some in drawn]
    assert found.score == pytest.approx(np.mean([one for one in values if one is not None]))
    assert found.error == pytest.approx(np.std(means), rel=0.05)


def test_rollouts_are_what_checkpoints_are_compared_on_if_that_is_asked_for(tmp_path, monkeypatch):
    """Drawn at the rollouts' temperature, and only once where they are the plain samples that KL is from."""
    drawn, draw = [], sampling.respond

    def counted(*given):
        drawn.append(given[3])
        return draw(*given)

    monkeypatch.setattr("grue.runs.validate.respond", counted)
    run, _ = run_of(tmp_path / "a", updates=1, validate_on="rollouts")
    for _, figures, _ in run.observer.validations:
        assert figures["reward"] == figures["sampled_reward"]
    assert drawn == []
    sharp, _ = run_of(tmp_path / "b", updates=1, validate_on="rollouts", rollout_temperature=0.05)
    assert {one.temperature for one in drawn} == {0.05}
    again = [figures for _, figures, _ in sharp.observer.validations]
    assert all(figures["reward"] != figures["sampled_reward"] for figures in again)


def test_a_mask_restricts_no_validation_and_supervised_training_is_asked_as_the_task_says(tmp_path):
    """A mask that leaves one token open fixes every rollout; answers of the start stay what they are."""
    opened, closed = (
        run_of(tmp_path / str(top_p), "nlpo", updates=1, top_p=top_p, validate_on="rollouts")[0]
        for top_p in (1.0, 0.01)
    )
    assert opened.observer.validations[0] == closed.observer.validations[0]
    task = load_task("commongen", "mini")
    assert validation.answering(task, make_config(task, "supervised", {"validate_on": "rollouts"})) == task.rollout
    assert task.rollout.temperature == 0.6 != task.decoding.temperature
    hotter = make_config(task, "ppo", {"validate_on": "rollouts", "rollout_temperature": 0.9})
    assert validation.answering(task, hotter).temperature == 0.9


def test_by_default_answers_are_decoded_as_before_and_the_record_is_what_it_was():
    task = load_task("commongen", "grue")
    assert (task.decoding.num_beams, task.rollout.do_sample) == (5, True)
    for algorithm in ("ppo", "supervised"):
        config = make_config(task, algorithm, {})
        assert validation.answering(task, config) == task.decoding
        recorded = records.effective_settings(files.plain(config))
        assert not {"validate_on", "keep"} & recorded.keys()
        other = records.effective_settings(
            files.plain(dataclasses.replace(config, validate_on="rollouts", keep="last"))
        )
        assert other == {**recorded, "validate_on": "rollouts", "keep": "last"}


def test_the_last_is_kept_where_that_is_asked_for_better_or_not(tmp_path):
    made = {keep: run_of(tmp_path / keep, updates=3, keep=keep)[0] for keep in ("best", "last")}
    best, final = (read_manifest(tmp_path / "best" / name) for name in ("checkpoint", FINAL))
    last = read_manifest(tmp_path / "last" / "checkpoint")
    assert [kept for _, _, kept in made["last"].observer.validations] == [True] * 4
    assert (last.update, last.kept, final.update) == (3, "last", 3)
    assert (final.kept, best.kept) == ("final", "best")
    assert final.files == last.files  # the choice changes no update
    assert not (tmp_path / "last" / FINAL).exists()


def line(update, value, error, gain=None, by="preference", **more):
    compared = {f"validation/{by}": value, "validation/error": error}
    if gain is not None:
        compared |= {"validation/gain": gain[0], "validation/gain_error": gain[1]}
    return {"update": update, **compared, **{f"validation/{key}": one for key, one in more.items()}}


START = line(0, 38.31, 0.62, naturalness=70.0)
SAID = {
    "better": ("best", 12, [START, line(6, 39.0, 0.6, (0.7, 0.5)), line(12, 40.4, 0.6, (2.1, 0.5), naturalness=69.0)]),
    "an earlier one": ("best", 6, [START, line(6, 40.4, 0.6, (2.1, 0.5)), line(12, 38.0, 0.6, (-0.3, 0.5))]),
    "the start": ("best", 0, [START, line(12, 38.04, 0.6, (-0.27, 0.5))]),
    "the last": ("last", 12, [START, line(12, 38.04, 0.6, (-0.27, 0.5))]),
    "a reward": ("best", 12, [line(0, 0.25, 0.01, by="reward"), line(12, 0.5, 0.02, (0.25, 0.015), by="reward")]),
    "of an older version": ("best", 12, [{"update": 0, "validation/preference": 30.0}, line(12, 40.4, None)]),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_said_of_the_choice(case, refused):
    keep, kept, lines = SAID[case]
    lines = [{key: one for key, one in line.items() if one is not None} for line in lines]
    plan = SimpleNamespace(config=SimpleNamespace(keep=keep), folder=Path("my runs"))
    refused.message("\n".join(choice(plan, kept, lines, " --task my.toml")))
