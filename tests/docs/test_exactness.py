"""docs/reference/exactness.md: what a run leaves alone and keeps; and a check of the page itself."""

import ast
import dataclasses
import functools
import json
import pkgutil
import platform
import random
import re

import numpy
import pytest
import torch
from click.testing import CliRunner
from support import oracles, tiny
from support.exactness import (
    FEWER,
    MORE,
    alone,
    letters,
    real,
    world,
)
from support.paths import ROOT, TESTS
from support.tiny import ALGORITHMS

from grue.cli.main import main
from grue.lm.adapters import adapt
from grue.rl.experience import collect, score_tokens
from grue.rl.trainer import TrainState, start

# --- state -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_training_leaves_global_generators_alone(algorithm, tmp_path):
    settings = {"epochs": 2} if algorithm == "supervised" else FEWER | MORE.get(algorithm, {})
    run = tiny.run("causal", algorithm, tmp_path, **settings)
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].copy()
    tiny.train(run)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (numpy.random.get_state()[1] == before[2]).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_training_reads_no_global_generator(algorithm, tmp_path):
    found = []
    for seed in (3, 4):
        settings = {"epochs": 2} if algorithm == "supervised" else FEWER | MORE.get(algorithm, {})
        run = tiny.run("causal", algorithm, tmp_path / str(seed), reward=letters, **settings)
        torch.manual_seed(seed)
        random.seed(seed)
        found.append(tiny.weights(tiny.train(run).trainer.policy))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], tiny.weights(tiny.model("causal")))


def test_a_result_says_how_it_was_computed(tmp_path):
    arguments = ["evaluate", "--baseline", "zero-shot", "--task", "imdb", "--limit", "2", "--runs", str(tmp_path)]
    told = CliRunner().invoke(main, arguments)
    assert told.exit_code == 0, told.output
    (path,) = tmp_path.rglob("result*.json")
    result = json.loads(path.read_text())
    assert result["determinism"]["threads"] == torch.get_num_threads()
    assert (result["determinism"]["dtype"], result["determinism"]["device"]) == ("float32", "cpu")
    assert platform.machine() in result["determinism"]["machine"]
    assert result["packages"]["torch"].startswith(torch.__version__.partition("+")[0])


def test_a_card_says_how_many_threads_trained(tmp_path):
    tiny.train(tiny.run("causal", "reinforce", tmp_path, **FEWER))
    readme = (tmp_path / "checkpoint" / "README.md").read_text()
    assert f"| threads | `{torch.get_num_threads()}` |" in readme


def test_a_state_holds_all_that_changes(tmp_path):
    """All but reference, anchor and a file's responses, which never change: no field can be added and forgotten."""
    run = tiny.run("causal", "nlpo", tmp_path)
    state = start(run.trainer, run.plan.config).state_dict()
    assert state.keys() == {field.name for field in dataclasses.fields(TrainState)} - {"reference", "anchor", "fixed"}


def test_an_encoder_that_learns_is_run_anew(tmp_path):
    """Its states are kept for an update only where it is frozen."""
    run, _, found = world("seq2seq", tmp_path / "learning", "everything", masked=False)
    assert found.rollout.encoded is None
    assert any(p.requires_grad for p in run.trainer.policy.get_encoder().parameters())
    with torch.no_grad():
        for parameter in run.trainer.policy.get_encoder().block.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    scored = score_tokens(run.trainer.policy, None, found.rollout, torch.tensor([3]), 1.0, run.plan.config)
    said = real(found.rollout.responses, 3)
    logits = alone(run.trainer.policy, real(found.rollout.prompts, 3), said)
    expected = [oracles.token_log_prob(one, token) for one, token in zip(logits, said, strict=True)]
    assert scored.plain[0].tolist() == pytest.approx(expected, abs=2e-4)
    assert found.log_probs[3, : len(said)].tolist() != pytest.approx(expected, abs=1e-2)

    frozen = tiny.run("seq2seq", "ppo", tmp_path / "frozen", freeze_encoder=True)
    adapt(frozen.trainer.policy, frozen.plan.config)
    kept = collect(frozen.trainer, start(frozen.trainer, frozen.plan.config), frozen.plan.config, 0).rollout.encoded
    assert kept is not None and not any(p.requires_grad for p in frozen.trainer.policy.get_encoder().parameters())


# --- the page --------------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "reference" / "exactness.md").read_text()


@functools.cache
def functions_of(path):
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_detail_has_a_place_and_a_proof():
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE, flags=re.MULTILINE)
    assert [int(number) for number, *_ in rows] == list(range(1, 1 + len(rows)))
    for number, detail, place, proof in rows:
        assert detail.endswith("."), number
        assert re.search(r"`[\w.]+`", place), number
        assert re.search(r"`[\w/]*test_\w+\.py::test_\w+`", proof) or "at run time" in proof, number


def test_every_test_that_the_page_names_is_there():
    named = re.findall(r"`([\w/]*test_\w+\.py)::(test_\w+)`", PAGE)
    assert named
    missing = [f"{file}::{name}" for file, name in named if name not in functions_of(TESTS / file)]
    assert missing == []


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([a-z]\w*(?:\.\w+)+)`", PAGE)) - {"config.toml"}))
def test_every_place_that_the_page_names_is_there(name):
    pkgutil.resolve_name(f"grue.{name}")
