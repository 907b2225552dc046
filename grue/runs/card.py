"""The model card of a checkpoint: front matter for the hub, and what a stranger needs to use the model."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import grue
from grue import files
from grue.lm.checkpoint import CheckpointManifest
from grue.provenance import package_versions
from grue.tasks import Task

FIGURES = {"preference": "Preference (0–100)", "naturalness": "Naturalness (0–100)", "reward": "Mean reward"}
OF_THE_CHOICE = {
    "error": "Standard error of what it was chosen by",
    "gain": "Gain on the start",
    "gain_error": "Standard error of the gain",
}
"""Figures that say how certain the others are."""
CITATION = """\
@inproceedings{ramamurthy2023reinforcement,
  title = {Is Reinforcement Learning (Not) for Natural Language Processing: Benchmarks, Baselines, and Building Blocks
           for Natural Language Policy Optimization},
  author = {Ramamurthy, Rajkumar and Ammanabrolu, Prithviraj and Brantley, Kiant{\\'e} and Hessel, Jack and
            Sifa, Rafet and Bauckhage, Christian and Hajishirzi, Hannaneh and Choi, Yejin},
  booktitle = {International Conference on Learning Representations},
  year = {2023},
  url = {https://arxiv.org/abs/2210.01241}
}"""


def card(
    task: Task,
    manifest: CheckpointManifest,
    reward: str,
    config: Mapping[str, Any],
    versions: Mapping[str, str],
    hub_id: str,
) -> str:
    """Return the text of `README.md`; `hub_id` is empty if the base model is not of the hub."""
    name = f"{manifest.suite}/{manifest.task}"
    kind = "best on validation" if manifest.kept == "best" else "last"
    folder = "final" if manifest.kept == "final" else "checkpoint"
    texts = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in config.values())
    settings = zip(map(_code, config), map(_code, texts), strict=True)
    parts = [
        f"---\n{files.yaml_text(_front_matter(task, manifest, hub_id))}---",
        f"# {_plain(manifest.system)} on {_plain(name)}, seed {manifest.seed}",
        _plain(" ".join(filter(None, (task.title + "." if task.title else "", task.description)))),
        f"The {kind} of the models of a training run with [GRUE]"
        "(https://arxiv.org/abs/2210.01241), a benchmark for reinforcement learning on language generation.",
        f"## Scores on the validation split\n\n{_table('score', _scores(manifest))}",
        f"## Use\n\n{_usage(task)}",
        "## Evaluate\n\nIn the folder that holds this one, with GRUE installed:\n\n"
        f"```\ngrue evaluate --checkpoint {folder}\n```",
        f"## Training\n\n{_table('what', _training(manifest, reward))}",
        f"### Configuration\n\n{_table('key', settings)}",
        f"### Versions\n\n{_table('package', ((_plain(key), _code(value)) for key, value in versions.items()))}",
        f"## Licence\n\nData: {_plain(task.data.licence or 'none stated')}. "
        f"The base model, {_code(manifest.backbone)}, has its own; both bind what is made of them.",
        f"## Citation\n\n```bibtex\n{CITATION}\n```",
    ]
    if task.data.citation:
        parts.append(f"Data: {_plain(task.data.citation)}.")
    # A folder's name may hold bytes that are not text; the card must be writable all the same.
    return ("\n\n".join(filter(None, parts)) + "\n").encode("utf-8", "replace").decode("utf-8")


def training_versions() -> dict[str, str]:
    """Return the versions of the packages that decide how training goes."""
    return {"grue": grue.__version__, **package_versions(("torch", "transformers", "tokenizers"))}


# --- front matter ----------------------------------------------------------------------------------------------------


def _front_matter(task: Task, manifest: CheckpointManifest, hub_id: str) -> dict[str, Any]:
    ours = manifest.backbone.startswith("mini:") and task.data.licence == "Apache-2.0"
    licence = {"license": "apache-2.0"} if ours else {"license": "other", "license_name": "as-data-and-base-model"}
    datasets = list(dict.fromkeys(source.name for source in task.data.sources if source.kind == "hub"))
    metrics = list(dict.fromkeys(spec.name for spec in task.metrics if spec.axis != "diversity"))
    results = {
        "task": {"type": "text-generation", "name": task.title or task.name},
        "dataset": {
            "type": datasets[0] if datasets else f"{manifest.suite}/{manifest.task}",
            "name": f"{manifest.suite}/{manifest.task}",
            "split": "validation",
        },
        "metrics": [
            {"type": key, "name": FIGURES.get(key, key), "value": round(value, 4)}
            for key, value in manifest.validation.items()
            if key not in OF_THE_CHOICE
        ],
    }
    return {
        "language": task.data.language,
        **licence,
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        **({"base_model": hub_id} if hub_id else {}),
        **({"datasets": datasets} if datasets else {}),
        "metrics": metrics,
        "tags": ["grue", "reinforcement-learning", f"grue-{manifest.suite}", *manifest.algorithm.split("+")],
        "model-index": [{"name": f"{manifest.system}-{manifest.task}-seed-{manifest.seed}", "results": [results]}],
    }


# --- text ------------------------------------------------------------------------------------------------------------


def _usage(task: Task) -> str:
    causal = task.backbone.family == "causal"
    auto = "AutoModelForCausalLM" if causal else "AutoModelForSeq2SeqLM"
    answer = 'output[0, inputs["input_ids"].shape[1]:]' if causal else "output[0]"
    stop = f", stop_strings={list(task.decoding.stop)}, tokenizer=tokenizer" if task.decoding.stop else ""
    return f"""\
```python
from transformers import AutoTokenizer, {auto}
tokenizer = AutoTokenizer.from_pretrained(".", truncation_side="{task.prompt.truncation}")
model = {auto}.from_pretrained(".")
inputs = tokenizer(["the prompt"], truncation=True, max_length={task.prompt.max_tokens}, return_tensors="pt")
output = model.generate(**inputs{stop})
print(tokenizer.decode({answer}, skip_special_tokens=True))
```

`generation_config.json` holds the decoding of the benchmark ({task.decoding.in_words()}), so that a plain `generate`
decodes as it does. Prompts are cut to {task.prompt.max_tokens} tokens on the {task.prompt.truncation}."""


def _scores(manifest: CheckpointManifest) -> Iterable[tuple[str, str]]:
    names = {**FIGURES, **OF_THE_CHOICE}
    return ((_plain(names.get(name, name)), f"{value:.4f}") for name, value in manifest.validation.items())


def _training(manifest: CheckpointManifest, reward: str) -> list[tuple[str, str]]:
    task = f"{manifest.suite}/{manifest.task}, {manifest.task_hash[:12]}"
    return [
        ("task and its hash", _code(task)),
        ("base model", _code(manifest.backbone)),
        ("algorithm", _code(manifest.algorithm)),
        ("reward", _code(reward)),
        ("seed", str(manifest.seed)),
        ("updates", str(manifest.update)),
        *((_plain(key.replace("_", " ")), f"{value:.0f}") for key, value in manifest.training.items()),
        ("configuration's sha256", _code(manifest.config_sha256[:12])),
        *([("machine", _plain(manifest.machine))] if manifest.machine else []),
    ]


def _table(head: str, rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join([f"| {head} | value |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows)])


def _plain(text: str) -> str:
    """Return text on one line, escaped for Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&$!])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Return text as a code span for a table's cell: its fence is longer than any within, and bars are escaped."""
    text = " ".join(text.split()).replace("|", "\\|") or " "
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
