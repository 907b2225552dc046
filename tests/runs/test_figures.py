"""Every figure that an algorithm logs is explained, and what is explained is logged."""

import dataclasses

import pytest
from support import tiny

from grue.algorithms import BUILT_IN
from grue.evaluation.rewards import Reward, give_name, make_reward
from grue.runs.algorithms import find_algorithm
from grue.runs.figures import OF_UPDATES, RUN, figures_of
from grue.tasks import MetricSpec

NATURAL = MetricSpec("rouge2", "naturalness", (0.0, 1.0))
FEW = {"updates": 2, "epochs": 2, "samples_per_prompt": 2, "value_prompts": 8, "save_every": 9, "validate_every": 1}
# What turns on the figures that are not always logged.
SWITCHES = {"supervised_coefficient": 0.1, "mask": "learned_top_p"}


def odd(examples, texts):
    """A reward that applies to some texts only."""
    return [len(text) / 10 if len(text) % 2 else None for text in texts]


def odd_and_short(examples, texts):
    return [1.0 if len(text) % 2 and len(text) < 20 else None for text in texts]


def sum_of_two(task):
    """A reward of two terms, neither of which applies to every text."""
    parts = [make_reward(give_name(function), task, tiny.examples()) for function in (odd, odd_and_short)]
    return Reward(tuple(term for part in parts for term in part.terms))


def logged(algorithm, folder, settings, reward=None):
    """The names that a run logs; that of a reward's term is NAME."""
    found = find_algorithm(algorithm)
    can = {field.name for field in dataclasses.fields(found.settings)} - found.without_effect
    task = tiny.task("causal")
    task = dataclasses.replace(task, metrics=(*task.metrics, NATURAL))
    chosen = {key: value for key, value in {**FEW, **settings}.items() if key in can}
    run = tiny.run("causal", algorithm, folder, task_=task, **chosen)
    if reward is not None:
        run.trainer.reward = reward(task)
    tiny.train(run)
    names = {name for line in tiny.logged(folder) for name in line}
    kinds = ("reward/", "validation/reward/", "validation/sampled_reward/")
    terms = {name for name in names if name.startswith(kinds)}
    return {"seconds"} | names - terms | {name[: name.index("reward/")] + "reward/NAME" for name in terms}


def defaults(algorithm):
    return {field.name: field.default for field in dataclasses.fields(find_algorithm(algorithm).settings)}


@pytest.mark.parametrize("algorithm", BUILT_IN)
def test_what_is_logged_is_explained_and_the_other_way_round(algorithm, tmp_path):
    told = figures_of(algorithm)
    plain = logged(algorithm, tmp_path / "plain", {})
    switched = logged(algorithm, tmp_path / "switched", SWITCHES, sum_of_two)
    assert plain | switched == set(told)
    off = [name for name, figure in told.items() if figure.setting and not defaults(algorithm).get(figure.setting)]
    assert plain.isdisjoint(off)


def test_a_figure_is_explained_once_to_each_algorithm_and_to_some():
    for algorithm in BUILT_IN:
        names = [name for one in (*RUN, *OF_UPDATES) for name in figures_of(algorithm, (one,))]
        assert len(names) == len(set(names)), algorithm
    for figure in (*RUN, *OF_UPDATES):
        assert any(figures_of(algorithm, (figure,)) for algorithm in BUILT_IN), figure.name
        assert {name for name in (*figure.by, *figure.but) if isinstance(name, str)} <= set(BUILT_IN), figure.name
