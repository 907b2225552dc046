"""Stand-ins for the models and data of the suite grue: what is written loads as the task files say."""

import sys

import pytest
from support.late import late, lates
from support.paths import REAL, ROOT

from grue.data.load import load_examples
from grue.task_files import load_task

sys.path.append(str(ROOT / "benchmarks"))

stand_ins = late("stand_ins")
lm, scorers = lates("load scorers", "grue.lm.")

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason=f"the slices of real data are not here: no folder {REAL}")


def test_a_tiny_task_loads_with_its_models(tmp_path):
    stand_ins.main([str(tmp_path), "--data", str(REAL), "--tasks", "imdb", "--tiny"])
    task = load_task("imdb", str(tmp_path / "suite"))
    assert task.recipes == load_task("imdb", "grue").recipes
    train = load_examples(task, "train").examples
    assert len(train) == task.data.splits["train"].rows == 1000
    assert sum(len(example.references) for example in train) == 500, "every other review is positive"
    model, tokenizer = lm.load_language_model(task.backbone.family, task.backbone.model)
    assert (model.config.n_layer, len(tokenizer)) == (2, 50257)
    classifier, _ = scorers.load_classifier(task.metrics[0].options["model"])
    assert classifier.config.num_labels == 2


def test_robertas_pairs_are_joined_as_published():
    tokenizer = stand_ins.roberta_tokenizer(REAL / "tokenizers")
    ids = tokenizer("A film.", "Yes")["input_ids"]
    assert tokenizer.decode(ids) == "<s>A film.</s></s>Yes</s>"
    assert len(tokenizer) <= 50265
