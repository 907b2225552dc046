"""Which lookups a task has; and the committed rows of what needs no learning, made again from the training split."""

import gzip
import json
import pkgutil
from dataclasses import replace

import pytest
from support.late import late
from support.paths import ROOT

from grue import lookups
from grue.data import sets
from grue.data.load import load_examples
from grue.errors import ConfigError
from grue.lookups import find
from grue.lookups.find import find_lookup, lookups_of
from grue.lookups.nearest import nearest
from grue.records import BASELINES, LOOKUPS, SEEDLESS, Example
from grue.task_files import SUITES, load_task, task_names

evaluate, systems = late("grue.evaluation.evaluate"), late("grue.evaluation.systems")
FILES = [found.name for found in pkgutil.iter_modules(lookups.__path__)]


def test_a_task_has_those_of_its_format_or_the_nearest_of_any(monkeypatch, refused):
    task = load_task("imdb")
    assert dict(lookups_of(replace(task, data=replace(task.data, format="examples")))) == {"nearest": nearest}
    monkeypatch.setattr(find, "LOOKUPS_OF", {"asked_imdb": {"nearest": nearest, "best-of-n": nearest}})
    assert find_lookup(task, "best-of-n") is nearest
    with refused(ConfigError):
        find_lookup(task, "mbr")


def test_every_file_of_a_data_set_is_found_and_has_known_names_only():
    assert {*find.LOOKUPS_OF.names()} == {*FILES} & {found.name for found in pkgutil.iter_modules(sets.__path__)}
    for suite in SUITES:
        for name in task_names(suite):
            assert set(lookups_of(load_task(name, suite))) <= set(LOOKUPS)


def test_names_are_in_one_order_and_only_best_of_n_has_chance():
    assert [name for name in BASELINES if name in LOOKUPS] == list(LOOKUPS)
    assert set(BASELINES) - set(SEEDLESS) == {"best-of-n", "few-shot", "zero-shot"}
    assert [*BASELINES][:3] == ["null", "copy", "lead"] and [*BASELINES][-1] == "oracle"


def test_the_nearest_answers_with_the_reference_of_the_most_similar_prompt():
    train = [
        Example("a", "say: cat, milk", ("The cat drinks milk.", "Milk!")),
        Example("b", "say: dog, milk", ()),
        Example("c", "say: dog, bone", ("A dog has a bone.",)),
    ]
    asked = [Example("x", "say: Dog, milk", ()), Example("y", "say: bone", ())]
    assert nearest(load_task("imdb"), train, asked, 1) == ["The cat drinks milk.", "A dog has a bone."]


@pytest.mark.slow
@pytest.mark.parametrize("name", task_names("mini"))
def test_every_row_of_a_task_is_made_again(name):
    task, made = load_task(name, "mini"), []
    train, asked = (load_examples(task, split).examples for split in ("train", "test"))
    for baseline in ("null", "copy", "lead", *lookups_of(task)):
        path = ROOT / "submissions/mini" / baseline / name / "seed-1.predictions.jsonl.gz"
        if path.exists():
            system = systems.baseline_system(task, baseline, 1)
            found = evaluate.answer_without_model(task, system, asked, train)
            rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
            assert [(row["id"], row["text"]) for row in rows] == [(each.id, each.text) for each in found], baseline
            made.append(baseline)
    assert {"null", "copy", "lead", "nearest"} <= {*made}
