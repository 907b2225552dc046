"""Which lookups a task has."""

import pkgutil
import subprocess
import sys
from dataclasses import replace

import pytest

from grue import lookups
from grue.data import sets
from grue.errors import ConfigError
from grue.lookups import find
from grue.lookups.find import find_lookup, lookups_of
from grue.lookups.nearest import nearest
from grue.records import BASELINES, LOOKUPS, SEEDLESS, Example
from grue.task_files import SUITES, load_task, task_names


def with_format(name: str):
    task = load_task("imdb")
    return replace(task, data=replace(task.data, format=name))


def test_a_format_without_a_file_has_the_nearest_of_any():
    assert dict(lookups_of(with_format("examples"))) == {"nearest": nearest}


def test_a_name_that_a_task_does_not_have_is_refused_with_those_that_it_has(monkeypatch):
    monkeypatch.setattr(find, "LOOKUPS_OF", {"imdb": {"nearest": nearest, "best-of-n": nearest}})
    assert find_lookup(load_task("imdb"), "best-of-n") is nearest
    with pytest.raises(ConfigError) as caught:
        find_lookup(load_task("imdb"), "mbr")
    assert str(caught.value) == (
        "mini/imdb has no lookup 'mbr': its data format, imdb, has nearest, best-of-n."
    )  # fmt: skip


def test_every_file_of_a_data_set_is_found_and_has_known_names_only():
    files = {found.name for found in pkgutil.iter_modules(lookups.__path__)}
    assert set(find.LOOKUPS_OF.names()) == files & {found.name for found in pkgutil.iter_modules(sets.__path__)}
    for suite in SUITES:
        for name in task_names(suite):
            assert set(lookups_of(load_task(name, suite))) <= set(LOOKUPS)


def test_names_are_in_one_order_and_only_best_of_n_has_chance():
    assert [name for name in BASELINES if name in LOOKUPS] == list(LOOKUPS)
    assert set(BASELINES) - set(SEEDLESS) == {"best-of-n", "zero-shot"}
    assert [*BASELINES][:3] == ["null", "copy", "lead"] and [*BASELINES][-1] == "oracle"


def test_the_nearest_answers_with_the_reference_of_the_most_similar_prompt():
    train = [
        Example("a", "say: cat, milk", ("The cat drinks milk.", "Milk!")),
        Example("b", "say: dog, milk", ()),
        Example("c", "say: dog, bone", ("A dog has a bone.",)),
    ]
    asked = [Example("x", "say: Dog, milk", ()), Example("y", "say: bone", ())]
    assert nearest(load_task("imdb"), train, asked, 1) == ["The cat drinks milk.", "A dog has a bone."]


def test_lookups_load_no_torch():
    names = ", ".join(f"grue.lookups.{found.name}" for found in pkgutil.iter_modules(lookups.__path__))
    code = f"import sys, {names}\nassert not {{'torch', 'transformers', 'scipy', 'sklearn'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
