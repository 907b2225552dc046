"""docs/reference/papers.toml: the commands of every entry are read by the command line, and run, shortened, in order.

Training commands go through the real command line and `make_config` on the task that they name; the settings that come
out of it train a tiny model of that task's family for two updates, in the folder that the command would write to.
Decoding commands run as they are on four examples.
"""

import dataclasses
import json
import re
import shlex
import shutil

import pytest
from click.testing import CliRunner
from papers import read_papers
from support.late import late
from support.paths import ROOT

from grue import files
from grue.metrics.card import MODEL
from grue.task_files import load_task

tiny, api = late("support.tiny"), late("grue.api.train")
main, plans = late("grue.cli.main"), late("grue.runs.plan")
PAPERS = [paper for part in read_papers() for paper in part.papers]
# Numbers that make a run long, and what they are at most here.
SHORT = {"updates": 2, "rollouts": 32, "minibatch_size": 32, "epochs": 2, "calibration_samples": 2, "value_prompts": 8}
RARE = {"save_every": 9, "validate_every": 2, "validation_examples": 4}


def ask(command, *more):
    """Call the command line, without a process of its own."""
    program, *arguments = shlex.split(command)
    assert program == "grue"
    done = CliRunner().invoke(main.main, [*arguments, *more])
    assert done.exit_code == 0, f"{command}\n{done.output}"


def planned(command, monkeypatch):
    """Return what `grue train` would carry out: the last stage for each seed."""
    requests = []
    with monkeypatch.context() as patch:
        patch.setattr(api, "train", lambda request, **rest: requests.append(request))
        ask(command)
    return [plans.stages_of(request)[-1] for request in requests]


def write_scored(folder):
    """Write the files that commands name, about tiny examples: rewards, pairs and rankings."""
    texts = {"the dog": 1.0, "the cat": 0.5, "a cat": 0.0}
    forms = {
        "samples": {"responses": [{"text": text, "reward": reward} for text, reward in texts.items()]},
        "pairs": {"chosen": "the dog", "rejected": "a cat"},
        "rankings": {"ranking": list(texts)},
    }
    for name, form in forms.items():
        lines = [json.dumps({"id": example.id, **form}) + "\n" for example in tiny.examples()]
        (folder / f"{name}.jsonl").write_text("".join(lines))


@pytest.fixture(scope="session")
def reward_models(tmp_path_factory):
    """Two reward models of mini's IMDB that commands name."""
    from support import preferences

    folder, task = tmp_path_factory.mktemp("models"), load_task("imdb")
    return [
        preferences.train(folder, f"reward-{seed}", task, split=task.data.reward_split, seed=seed)[0] for seed in (1, 2)
    ]


def shortened(plan):
    """Return the settings of a plan, less what makes it long."""
    values = {field.name: getattr(plan.config, field.name) for field in dataclasses.fields(plan.config)}
    values |= {key: min(values[key], most) for key, most in SHORT.items() if key in values}
    if str(values.get("select")).startswith("hard:"):
        values["select"] = "hard:8"  # of twelve examples
    if "noise" in values:
        values["noise"] = 0.3  # greedy answers of so small a model need much to differ
    return {**values, **RARE}


def train(plan):
    """Train a tiny model as a plan says."""
    from grue.evaluation.rewards import make_reward
    from grue.lm.distributed import DistributedContext
    from grue.runs.train import load_anchor

    family = plan.task.backbone.family
    task = tiny.task(family)
    run = tiny.run(family, plan.algorithm.split("+")[-1], plan.folder, seed=plan.seed, task_=task, **shortened(plan))
    if plan.reward != plan.task.reward:
        of_models = plan.task if MODEL in plan.reward else task
        run.trainer.reward = make_reward(plan.reward, of_models, tiny.examples())
    policy = (run.trainer.policy, run.trainer.tokenizer)
    run.trainer.anchor = load_anchor(run.plan, policy, DistributedContext())
    plan.folder.mkdir(parents=True)
    files.write_toml(plan.folder / "config.toml", run.plan.record())
    before = tiny.weights(run.trainer.policy)
    tiny.train(run)
    assert [line["update"] for line in tiny.logged(plan.folder) if "of" in line] == [1, 2]
    assert not before.equal(tiny.weights(run.trainer.policy))
    files.append_jsonl(run.log_path, [{"finished": True, "training": run.training}])


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.anchor[:40])
def test_the_commands_of_an_entry_run(paper, reward_models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_scored(tmp_path)
    for folder in reward_models:
        shutil.copytree(folder, tmp_path / folder.name)
    for number, command in enumerate(paper.commands):
        if command.startswith("grue evaluate "):
            folder = tmp_path / f"evaluated-{number}"
            ask(command, "--limit", "4", "--output", str(folder))
            result = json.loads((folder / "result.json").read_text())
            assert result["counts"]["scored"] == 4 and re.match(r"zero-shot\+\w", result["system"]["name"])
        else:
            for plan in planned(command, monkeypatch):
                train(plan)


def test_entries_differ_and_have_commands_to_train_or_to_evaluate():
    for key in ("title", "where", "anchor"):
        assert len({getattr(paper, key) for paper in PAPERS}) == len(PAPERS), key
    for paper in PAPERS:
        assert paper.commands and paper.text.strip(), paper.title
        assert all(re.match("grue (train|evaluate) ", command) for command in paper.commands), paper.title


def test_the_commands_can_be_run_one_after_another(reward_models, tmp_path, monkeypatch):
    """No two of them ask for different runs in the same folder, which would be refused; nor do those of a page."""
    monkeypatch.chdir(tmp_path)
    write_scored(tmp_path)
    for folder in reward_models:
        shutil.copytree(folder, tmp_path / folder.name)
    (tmp_path / "FILE").write_bytes((tmp_path / "samples.jsonl").read_bytes())  # as the pages call it
    pages = [ROOT / "docs" / "reference" / "algorithms" / f"{name}.md" for name in tiny.ALGORITHMS]
    of_pages = [re.findall(r"^grue train .*$", page.read_text(encoding="utf-8"), re.MULTILINE) for page in pages]
    of_papers = [command for paper in PAPERS for command in paper.commands if command.startswith("grue train ")]
    assert all(of_pages)
    for commands in [of_papers, *of_pages]:
        found = {}
        for command in commands:
            for plan in planned(command, monkeypatch):
                assert found.setdefault(plan.folder, plan) == plan, command
