"""The suite small on real data: its caps, what it pins, and that training and test have nothing in common."""

import pytest
from support.paths import REAL

from grue.data.load import load_examples
from grue.task_files import load_task, task_names

FOLDERS = {"commongen": "commongen_full"}


def loaded(name, split):
    folder = REAL / FOLDERS.get(name, name)
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: slices of the real data")
    return load_examples(load_task(name, "small"), split, folder)


def test_caps_are_those_of_the_suite():
    for name in task_names("small"):
        task = load_task(name, "small")
        for split, most in (("train", 4000), ("validation", 500), ("test", 500)):
            said = task.data.splits[split]
            assert 0 < (said.most or said.examples) <= most, (name, split)
        assert task.backbone.model == "small:gemma-3-270m" and task.backbone.family == "causal"
        assert task.decoding.do_sample and task.decoding.samples == 2
        assert all(
            getattr(task.decoding, key) == getattr(task.rollout, key) for key in ("top_k", "stop", "temperature")
        )


@pytest.mark.parametrize("name", ["wmt16", "narrativeqa", "dailydialog"])
def test_what_is_pinned_is_what_the_official_files_give(name):
    found = {split: loaded(name, split) for split in ("train", "validation", "test")}
    for split, one in found.items():
        said = load_task(name, "small").data.splits[split]
        assert said.ids_sha256 and said.fits(len(one.examples), one.ids_sha256) and one.rows == said.rows
    ids = [{example.id for example in one.examples} for one in found.values()]
    assert sum(map(len, ids)) == len(set.union(*ids))


def test_commongen_takes_either_release_of_its_training_sets():
    train, validation, test = (loaded("commongen", split) for split in ("train", "validation", "test"))
    assert [len(one.examples) for one in (train, validation, test)] == [4000, 500, 500]
    assert load_task("commongen", "small").data.splits["test"].fits(500, test.ids_sha256)
    concepts = [
        {tuple(sorted(example.meta["concepts"])) for example in one.examples} for one in (train, validation, test)
    ]
    assert sum(map(len, concepts)) == len(set.union(*concepts))
