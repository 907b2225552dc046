"""Model cards, to the letter, and as the hub's own library reads them."""

import dataclasses
import re

import pytest
import yaml
from huggingface_hub import ModelCard
from support import tiny

from grue.lm.checkpoint import CheckpointManifest
from grue.runs.card import card, training_versions
from grue.task_files import load_task, task_names
from grue.tasks import Source

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

EXPECTED = """\
---
language: "en"
license: "other"
license_name: "as-data-and-base-model"
library_name: "transformers"
pipeline_tag: "text-generation"
base_model: "org/small"
datasets:
- "org/words"
metrics:
- "rouge1"
tags:
- "grue"
- "reinforcement-learning"
- "grue-tests"
- "supervised"
- "ppo"
model-index:
- name: "ours-tiny-seed-3"
  results:
  - task:
      type: "text-generation"
      name: "Words"
    dataset:
      type: "org/words"
      name: "tests/tiny"
      split: "validation"
    metrics:
    - type: "preference"
      name: "Preference (0–100)"
      value: 34.5679
    - type: "reward"
      name: "Mean reward"
      value: 0.5
---

# ours on tests/tiny, seed 3

Words. Write \\*words\\*.

The best on validation of the models of a training run with [GRUE](https://arxiv.org/abs/2210.01241), a benchmark for reinforcement learning on language generation.

## Scores on the validation split

| score | value |
|---|---|
| Preference (0–100) | 34.5679 |
| Mean reward | 0.5000 |

## Use

```python
from transformers import AutoTokenizer, AutoModelForCausalLM
tokenizer, model = AutoTokenizer.from_pretrained("."), AutoModelForCausalLM.from_pretrained(".")
inputs = tokenizer(["the prompt"], truncation=True, max_length=10, return_tensors="pt")
output = model.generate(**inputs)
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))
```

`generation_config.json` holds the decoding of the benchmark (sampling at temperature 0.7, from the 5 likeliest tokens, up to 8 tokens), so that a plain `generate`
decodes as it does. Prompts are cut to 10 tokens on the left.

## Evaluate

In the folder that holds this one, with GRUE installed:

```
grue evaluate --checkpoint checkpoint
```

## Training

| what | value |
|---|---|
| task and its hash | `tests/tiny, 0123456789ab` |
| base model | `org/small` |
| algorithm | `supervised+ppo` |
| reward | `0.5*meteor + 0.5*coverage` |
| seed | 3 |
| updates | 12 |
| tokens | 1000 |
| episodes | 96 |
| seconds | 12 |
| configuration's sha256 | `fedcba987654` |

### Configuration

| key | value |
|---|---|
| `learning_rate` | `1e-06` |
| `kl_target` | `null` |
| `schedule` | `constant` |

### Versions

| package | value |
|---|---|
| torch | `2.13.0` |

## Licence

Data: MIT. The base model, `org/small`, has its own; both bind what is made of them.

## Citation

```bibtex
@inproceedings{ramamurthy2023reinforcement,
  title = {Is Reinforcement Learning (Not) for Natural Language Processing: Benchmarks, Baselines, and Building Blocks
           for Natural Language Policy Optimization},
  author = {Ramamurthy, Rajkumar and Ammanabrolu, Prithviraj and Brantley, Kiant{\\'e} and Hessel, Jack and
            Sifa, Rafet and Bauckhage, Christian and Hajishirzi, Hannaneh and Choi, Yejin},
  booktitle = {International Conference on Learning Representations},
  year = {2023},
  url = {https://arxiv.org/abs/2210.01241}
}
```

Data: Writer et al., Words, 2020.
"""


def words_task():
    task = tiny.task("causal", temperature=0.7, top_k=5)
    data = dataclasses.replace(
        task.data,
        licence="MIT",
        sources=(Source("hub", "org/words"), Source("files", "words")),
        citation="Writer et al., Words, 2020",
    )
    return dataclasses.replace(task, title="Words", description="Write *words*.", data=data)


def make(task=None, manifest=MANIFEST, reward="0.5*meteor + 0.5*coverage", hub_id="org/small", config=None):
    config = {"learning_rate": 1e-6, "kl_target": None, "schedule": "constant"} if config is None else config
    return card(task or words_task(), manifest, reward, config, {"torch": "2.13.0"}, hub_id)


def front_matter(text):
    return yaml.safe_load(text[4 : text.index("\n---\n") + 1])


def test_a_card_to_the_letter():
    assert make() == EXPECTED


def test_the_hubs_library_reads_it():
    read = ModelCard(make())
    data = read.data
    assert (data.language, data.license, data.library_name) == ("en", "other", "transformers")
    assert (data.base_model, data.datasets, data.metrics) == ("org/small", ["org/words"], ["rouge1"])
    assert data.model_name == "ours-tiny-seed-3"
    assert [(result.metric_type, result.metric_value) for result in data.eval_results] == [
        ("preference", 34.5679),
        ("reward", 0.5),
    ]
    assert {(result.dataset_type, result.dataset_split, result.task_type) for result in data.eval_results} == {
        ("org/words", "validation", "text-generation")
    }
    assert read.text.lstrip().startswith("# ours on tests/tiny, seed 3")


def test_a_final_model_says_so():
    text = make(manifest=dataclasses.replace(MANIFEST, kept="final"))
    assert "The last of the models of a training run" in text
    assert "grue evaluate --checkpoint final\n" in text


def test_a_model_that_is_not_from_the_hub_names_none_there():
    matter = front_matter(make(hub_id=""))
    assert "base_model" not in matter
    assert matter["license"] == "other"


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
    assert ModelCard(made).data.model_name == model["name"]
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


@pytest.mark.parametrize("suite", ["mini", "grue"])
def test_every_task_makes_a_card_that_the_hub_reads(suite):
    for name in task_names(suite):
        task = load_task(name, suite)
        backbone = task.backbone.model
        manifest = dataclasses.replace(MANIFEST, suite=suite, task=name, backbone=backbone)
        hub_id = "" if backbone.startswith("mini:") else backbone
        made = card(task, manifest, task.reward, {"updates": 12}, training_versions(), hub_id)
        data = ModelCard(made).data
        assert data.license == ("apache-2.0" if suite == "mini" else "other")
        assert data.base_model == (None if suite == "mini" else backbone)
        assert data.eval_results
        assert ("AutoModelForCausalLM" in made) == (task.backbone.family == "causal")
        assert "`mini:" in made or suite == "grue"


def test_the_code_on_the_card_runs(tmp_path, monkeypatch, capsys):
    """As a stranger would paste it."""
    from grue.lm.checkpoint import save_checkpoint

    for family in ("causal", "seq2seq"):
        task = tiny.task(family)
        readme = card(task, MANIFEST, "rouge1", {}, {}, "")
        folder = tmp_path / family
        save_checkpoint(folder, tiny.model(family), tiny.tokenizer(family), MANIFEST, task.decoding, readme)
        code = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
        assert len(code.splitlines()) == 5
        monkeypatch.chdir(folder)
        exec(code.replace("the prompt", "the dog sees"), {})
        assert set(capsys.readouterr().out.split()) <= set(tiny.WORDS) | {"<unk>"}
