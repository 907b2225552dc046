"""Every figure that an algorithm logs is explained, and what is explained is logged."""

import dataclasses

import pytest
from logged_figures import OF_UPDATES, RUN, figures_of
from support.late import late

from grue.algorithms import BUILT_IN
from grue.evaluation.rewards import Reward, give_name, make_reward
from grue.runs.algorithms import find_card
from grue.tasks import MetricSpec

tiny = late("support.tiny")

NATURAL = MetricSpec("rouge2", "naturalness", (0.0, 1.0))
# One update, and what turns on the figures that are not always logged.
SWITCHED = {"updates": 1, "epochs": 2, "samples_per_prompt": 2, "value_prompts": 8, "validate_every": 1}
SWITCHED |= {"cg_steps": 2, "critic_epochs": 1, "supervised_coefficient": 0.1, "mask": "learned_top_p"}


def odd(examples, texts):
    """A reward that applies to some texts only."""
    return [len(text) / 10 if len(text) % 2 else None for text in texts]


def odd_and_short(examples, texts):
    return [1.0 if len(text) % 2 and len(text) < 20 else None for text in texts]


def sum_of_two(task):
    """A reward of two terms, neither of which applies to every text."""
    parts = [make_reward(give_name(function), task, tiny.examples()) for function in (odd, odd_and_short)]
    return Reward(tuple(term for part in parts for term in part.terms))


def names_of(lines):
    """The names of what was logged; that of a reward's term is NAME."""
    names = {name for line in lines for name in line}
    terms = {name for name in names if name.startswith(("reward/", "validation/reward/", "validation/sampled_reward/"))}
    return {"seconds"} | names - terms | {name[: name.index("reward/")] + "reward/NAME" for name in terms}


@pytest.mark.parametrize("algorithm", BUILT_IN)
def test_what_is_logged_is_explained_and_the_other_way_round(algorithm, tmp_path):
    found, told = find_card(algorithm), figures_of(algorithm)
    defaults = {field.name: field.default for field in dataclasses.fields(found.settings)}
    can = defaults.keys() - found.without_effect
    task = tiny.task("causal")
    task = dataclasses.replace(task, metrics=(*task.metrics, NATURAL))
    settings = {key: value for key, value in SWITCHED.items() if key in can}
    run = tiny.run("causal", algorithm, tmp_path, task_=task, **settings)
    run.trainer.reward = sum_of_two(task)
    tiny.train(run)
    plain, switched = names_of(tiny.updated(tiny.run("causal", algorithm, tmp_path))), names_of(tiny.logged(tmp_path))
    assert plain | switched == set(told)
    off = [name for name, figure in told.items() if figure.setting and not defaults.get(figure.setting)]
    assert plain.isdisjoint(off)


def test_a_figure_is_explained_once_to_each_algorithm_and_to_some():
    for algorithm in BUILT_IN:
        names = [name for one in (*RUN, *OF_UPDATES) for name in figures_of(algorithm, (one,))]
        assert len(names) == len(set(names)), algorithm
    for figure in (*RUN, *OF_UPDATES):
        assert any(figures_of(algorithm, (figure,)) for algorithm in BUILT_IN), figure.name
        classes = {cls.__name__ for algorithm in BUILT_IN for cls in find_card(algorithm).settings.__mro__}
        assert {*figure.by, *figure.but} <= {*BUILT_IN, *classes}, figure.name
