"""docs/how-to/other-trainers.md does what it says: its blocks are run as they stand, with the trainers that are installed."""

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec

import pytest
from support.paths import ROOT

PAGE = (ROOT / "docs" / "how-to" / "other-trainers.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = {part.split("\n", 1)[0]: part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]}

pytestmark = pytest.mark.slow


def needs(*packages):
    missing = [package for package in packages if find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def run(folder, *arguments):
    """Run Python with `arguments` in a folder, and return what it printed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def follow(section, folder):
    """Follow a section of the page in a folder; return what each command printed."""
    printed = {}
    for match in BLOCK.finditer(SECTIONS[section]):
        if match["language"] == "python":
            (folder / re.match(r"# ([\w]+\.py)\n", match["text"])[1]).write_text(match["text"], encoding="utf-8")
        for line in match["text"].splitlines() if match["language"] == "console" else ():
            program, *rest = shlex.split(line)
            printed[line] = run(folder, *(["-m", "grue"] if program == "grue" else []), *rest)
    return printed


@needs("trl")
def test_trl_trains_on_our_rewards_and_the_board_has_the_result(tmp_path):
    printed = follow("TRL", tmp_path)
    (state,) = [json.loads(line) for line in run(tmp_path, "-c", LOOK_AT_TRL).splitlines()]
    assert state == {"changed": True, "shapes": True}
    trained = printed["python train_trl.py"]
    assert "'reward/asked_sentiment':" in trained and "'rewards/asked_sentiment/mean':" in trained, trained
    assert trained.count("'grue/preference':") == 3 and (tmp_path / "trl/grue/best/model.safetensors").exists()
    result = json.loads((tmp_path / "runs/mini/imdb/trl-model/seed-1/result.json").read_text())
    assert result["status"] == "complete" and result["counts"]["scored"] == 1000
    assert re.search(r"\| *trl-model +\| local", printed["grue leaderboard --task imdb"])


def test_a_model_is_measured_for_any_trainer(tmp_path):
    printed = follow("Measure in any trainer", tmp_path)
    assert re.fullmatch(r"preference \d+\.\d, naturalness \d+\.\d", printed["python watch_anywhere.py"].strip())


def test_the_loss_of_the_page_is_grues(tmp_path):
    section = SECTIONS["Does another trainer learn the same?"]
    (loss,) = [match["text"] for match in BLOCK.finditer(section) if match["language"] == "python"]
    (tmp_path / "my_losses.py").write_text(loss, encoding="utf-8")
    command = "grue tools conform --algo grpo --loss my_losses:grpo"
    assert f"\n{command}\n" in section
    assert "The first step is the same, on 64 responses" in run(tmp_path, "-m", *shlex.split(command))


LOOK_AT_TRL = """
import json
from safetensors.torch import load_file
from grue.lm.folder import locate_model
before, after = (load_file(f"{folder}/model.safetensors") for folder in (locate_model("mini:causal"), "trl-model"))
common = before.keys() & after.keys()
shapes = bool(common) and all(before[key].shape == after[key].shape for key in common)
print(json.dumps({"changed": any(bool((before[key] != after[key]).any()) for key in common), "shapes": shapes}))
"""


@needs("verifiers")
def test_verifiers_loads_our_taskset_and_scores_a_trace(tmp_path):
    follow("verifiers", tmp_path)
    (said,) = [json.loads(line) for line in run(tmp_path, "-c", ASK_VERIFIERS).splitlines()]
    assert said["prompt"].startswith("generate a sentence with: ") and said["id"].startswith("commongen-")
    assert said["reward"] == pytest.approx(1, abs=0.01) and said["metrics"]["reward/coverage"] == 1


ASK_VERIFIERS = """
import asyncio, json
import grue
import verifiers.v1 as vf
from verifiers.v1.utils.loaders import load_taskset

taskset = load_taskset(vf.TasksetConfig(id="grue-commongen"))
task = next(iter(taskset.skip(3).take(1)))
example = grue.examples("commongen", "rl")[3]
trace = vf.Trace.model_construct(root_reply=example.references[0], rewards={}, metrics={})
asyncio.run(task.score(trace))
(reward,) = trace.rewards.values()
print(json.dumps({"id": task.data.id, "prompt": task.data.prompt, "reward": reward.score, "metrics": trace.metrics}))
"""


def test_the_files_are_loaded_by_path_as_verl_and_openrlhf_load_them(tmp_path):
    """As `verl.utils.import_utils.load_module` and OpenRLHF's `SingleTurnAgentExecutor`, without the two."""
    follow("OpenRLHF", tmp_path)
    follow("verl", tmp_path)
    said = json.loads(run(tmp_path, "-c", LOAD_BY_PATH))
    assert said["verl"] == pytest.approx(1, abs=0.01) and said["openrlhf"] == pytest.approx(said["verl"], abs=1e-6)


LOAD_BY_PATH = """
import importlib.util, json
import pyarrow.parquet as pq
from grue.lm.load import load_tokenizer

def load(path, name):
    spec = importlib.util.spec_from_file_location(f"custom_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)

row = pq.read_table("train.parquet").to_pylist()[5]
answer = row["reward_model"]["ground_truth"][0]
score = load("verl_reward.py", "compute_score")(
    data_source=row["data_source"], solution_str=answer, ground_truth=answer, extra_info=row["extra_info"]
)
prompt = [json.loads(line) for line in open("prompts.jsonl", encoding="utf-8")][5]
tokenizer = load_tokenizer("mini:causal")
ids = [*tokenizer(f"{prompt['input']} {answer}")["input_ids"], tokenizer.eos_token_id]
given = load("openrlhf_reward.py", "reward_func")([tokenizer.decode(ids)], [prompt["input"]], [prompt["label"]])
print(json.dumps({"verl": score["score"], "openrlhf": given["rewards"].item()}))
"""
