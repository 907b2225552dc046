"""Model cards, to the letter, and as the hub's own library reads them."""

import dataclasses
import re
from pathlib import Path

import pytest
import yaml
from support.late import late

from grue.lm.checkpoint import CheckpointManifest, save_checkpoint
from grue.runs.card import card
from grue.tasks import Source

tiny, hub, tokens = late("support.tiny"), late("huggingface_hub"), late("grue.lm.tokens")

MANIFEST = CheckpointManifest(
    suite="tests",
    task="tiny",
    task_hash="0123456789abcdef",
    system="ours",
    algorithm="supervised+ppo",
    backbone="org/small",
    seed=3,
    update=12,
    config_sha256="fedcba9876543210",
    validation={"preference": 34.56789, "reward": 0.5},
    training={"tokens": 1000.0, "episodes": 96.0, "seconds": 12.34},
)


def words_task():
    task = tiny.task("causal", temperature=0.7, top_k=5)
    sources, citation = (Source("hub", "org/words"), Source("files", "words")), "Writer et al., Words, 2020"
    data = dataclasses.replace(task.data, licence="MIT", sources=sources, citation=citation)
    return dataclasses.replace(task, title="Words", description="Write *words*.", data=data)


def make(task=None, manifest=MANIFEST, reward="0.5*meteor + 0.5*coverage", hub_id="org/small", config=None):
    config = {"learning_rate": 1e-6, "kl_target": None, "schedule": "constant"} if config is None else config
    return card(task or words_task(), manifest, reward, config, {"torch": "2.13.0"}, hub_id)


def front_matter(text):
    return yaml.safe_load(text[4 : text.index("\n---\n") + 1])


def test_a_card_to_the_letter():
    assert make() == Path(__file__).with_name("card.txt").read_text(encoding="utf-8")


def test_the_hubs_library_reads_it():
    data = hub.ModelCard(make()).data
    assert (data.language, data.license, data.library_name) == ("en", "other", "transformers")
    assert (data.base_model, data.datasets, data.metrics) == ("org/small", ["org/words"], ["rouge1"])
    assert data.model_name == "ours-tiny-seed-3"
    results = [(one.metric_type, one.metric_value, one.dataset_type, one.dataset_split) for one in data.eval_results]
    assert results == [(*figure, "org/words", "validation") for figure in (("preference", 34.5679), ("reward", 0.5))]
    assert {one.task_type for one in data.eval_results} == {"text-generation"}


def test_a_final_model_says_so_and_one_that_is_not_from_the_hub_names_none_there():
    text = make(manifest=dataclasses.replace(MANIFEST, kept="final"), hub_id="")
    assert "The last of the models of a training run" in text
    assert "grue evaluate --checkpoint final\n" in text
    matter = front_matter(text)
    assert "base_model" not in matter and matter["license"] == "other"


NASTY = [
    'quote " and \\ backslash',
    "colon: - # yes",
    "two\nlines\n---\nmore",
    "no",
    "\u2028line\u2029\x85\x7f\ufeff",
    "<script>alert(1)</script> ![x](y) `code` ``` | bar | $math$ &amp;",
    "emoji 😀 ümläut",
    "",
    "'",
    "\ud800 half a pair",
]


@pytest.mark.parametrize("text", NASTY)
def test_what_users_write_stays_text(text):
    task = dataclasses.replace(words_task(), title=text, description=text)
    manifest = dataclasses.replace(MANIFEST, system=text or "x", algorithm=text or "x", backbone=text or "x")
    made = make(task, manifest, reward=text, config={"note": text, text: 1})
    said = text.replace("\ud800", "?") or "x"
    (model,) = front_matter(made)["model-index"]
    assert model["name"] == f"{said}-tiny-seed-3"
    assert model["results"][0]["task"]["name"] == (said if text else "tiny")
    assert front_matter(made)["tags"][3:] == said.split("+")
    assert hub.ModelCard(made).data.model_name == model["name"]
    # What is written opens neither heading, fence nor table, and no tag outside a code span.
    assert shape(made) == shape(make(config={"note": "x", "y": 1}))
    assert "<script>" not in re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", body(made))
    made.encode("utf-8")


def body(text):
    return text.split("\n---\n", 1)[1]


def shape(text):
    """Where the blocks of a card begin."""
    lines = body(text).split("\n")
    return ["#" if line.startswith("#") else line for line in lines if line.startswith(("#", "```", "|---"))]


def test_the_code_on_the_card_runs(tmp_path, monkeypatch, capsys):
    """As a stranger would paste it."""
    for family in ("causal", "seq2seq"):
        task = tiny.task(family)
        readme = card(task, MANIFEST, "rouge1", {}, {}, "")
        folder = tmp_path / family
        save_checkpoint(folder, tiny.model(family), tiny.tokenizer(family), MANIFEST, task.decoding, readme)
        code = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
        assert len(code.splitlines()) == 6
        monkeypatch.chdir(folder)
        asked, pasted = "the dog sees " * 5, {}
        exec(code.replace("the prompt", asked), pasted)
        shown = tokens.encode_prompts(tiny.model(family), tiny.tokenizer(family), [asked], task.prompt).lists()
        assert pasted["inputs"]["input_ids"].tolist() == shown, "long prompts are cut as the task cuts them"
        assert set(capsys.readouterr().out.split()) <= set(tiny.WORDS) | {"<unk>"}
