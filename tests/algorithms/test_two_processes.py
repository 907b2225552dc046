"""Runs of two processes (gloo, CPU) are the runs of one: the same prompts, figures and weights up to rounding."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from support import tiny
from support.processes import together
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from grue.files import read_jsonl
from grue.lm.adapters import adapt
from grue.lm.distributed import DistributedContext
from grue.lm.sharding import whole
from grue.runs.train import Interrupted

# What is tried in both worlds. The odd numbers leave one process more rows than the other, in rollouts, minibatches and
# micro-batches alike; a large epsilon keeps Adam from blowing rounding up.
EXACT = {"adam_epsilon": 1e-3, "micro_batch_size": 2, "save_every": 10}
ROLLOUTS = {**EXACT, "updates": 3, "rollouts": 11, "minibatch_size": 4, "epochs": 2}
SUPERVISED = {**EXACT, "epochs": 2, "batch_size": 23}
SPLIT = {"sharded": True}
FAST = {
    "ppo-causal": ("ppo", "causal", {"top_k": 9}, ROLLOUTS),
    "nlpo-seq2seq": ("nlpo", "seq2seq", {}, {**ROLLOUTS, "mask_updates": 2, "mass_coefficient": 0.1}),
    "supervised-causal": ("supervised", "causal", {}, SUPERVISED),
    "nlpo-causal-sharded": ("nlpo", "causal", {"min_new_tokens": 2}, {**ROLLOUTS, **SPLIT, "mask_updates": 2}),
    "ppo-seq2seq-sharded": ("ppo", "seq2seq", {}, {**ROLLOUTS, **SPLIT, "value_model": "shared", "stop_kl": 0.02}),
}
SLOW = {
    "ppo-seq2seq": ("ppo", "seq2seq", {}, {**ROLLOUTS, "value_model": "shared", "stop_kl": 0.02}),
    "nlpo-causal": ("nlpo", "causal", {"min_new_tokens": 2}, {**ROLLOUTS, "mask_updates": 2}),
    "supervised-seq2seq": ("supervised", "seq2seq", {}, SUPERVISED),
    "a2c-causal": ("a2c", "causal", {}, ROLLOUTS),
    # From its ninth step on, the conjugate gradient blows rounding up.
    "trpo-seq2seq": ("trpo", "seq2seq", {}, {**ROLLOUTS, "critic_epochs": 2, "cg_steps": 8}),
    "rloo-causal": ("rloo", "causal", {}, {**ROLLOUTS, "rollouts": 12}),
    "grpo-seq2seq": ("grpo", "seq2seq", {}, {**ROLLOUTS, "rollouts": 16}),
    "ppo-causal-sharded": ("ppo", "causal", {"top_k": 9}, {**ROLLOUTS, **SPLIT, "gradient_checkpointing": True}),
    "nlpo-seq2seq-sharded": ("nlpo", "seq2seq", {}, {**ROLLOUTS, **SPLIT, "freeze_encoder": True, "mask_updates": 2}),
    "a2c-seq2seq-sharded": ("a2c", "seq2seq", {}, {**ROLLOUTS, **SPLIT}),
    "grpo-causal-sharded": ("grpo", "causal", {}, {**ROLLOUTS, **SPLIT, "rollouts": 16, "log_prob_chunk": 5}),
    "supervised-causal-sharded": ("supervised", "causal", {}, {**SUPERVISED, **SPLIT}),
    "supervised-seq2seq-sharded": ("supervised", "seq2seq", {}, {**SUPERVISED, **SPLIT}),
}
CASES = FAST | SLOW
RESUMED = ("nlpo-seq2seq", "nlpo-causal-sharded", "ppo-seq2seq", "supervised-seq2seq-sharded")


def cases(*names):
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in names]
    )


def trained(name, folder, world, stop_after=None):
    """Train one case in this process's part of a world; return all that must not depend on the world."""
    algorithm, family, generation, settings = CASES[name]
    asked = []

    def reward(examples, texts):
        if examples is not run.validation:
            asked.append([example.id for example in examples])
        return tiny.share_of_the(examples, texts)

    run = tiny.run(family, algorithm, folder, reward=reward, task_=tiny.task(family, **generation), **settings)
    adapt(run.trainer.policy, run.plan.config)
    run.trainer.distributed = world
    if stop_after is not None:
        run.stop = lambda: len(run.observer.lines) >= stop_after
    try:
        tiny.train(run)
        stopped = False
    except Interrupted:
        stopped = True
    rounds = [world.gather(one) for one in asked]  # every process is asked equally often
    return {
        "prompts": rounds,
        "lines": [{k: v for k, v in line.items() if k != "seconds"} for line in run.observer.lines],
        "validations": run.observer.validations,
        "weights": torch.cat(
            [weight.flatten() for weight in whole([p.detach() for p in run.trainer.policy.parameters()])]
        ),
        "share": 1.0 if run.trainer.sharded is None else share_of(run.trainer.sharded),
        "stopped": stopped,
        "begin": run.observer.begin,
    }


def share_of(split):
    """Return which share of the weights lies in this process."""
    return sum(p.to_local().numel() for p in split.parameters()) / sum(p.numel() for p in split.parameters())


BOTH = """
from pathlib import Path
import torch
from algorithms.test_two_processes import RESUMED, trained
from grue.lm.distributed import join_processes, leave_processes

torch.set_num_threads(1)
world = join_processes()
out = {name: trained(name, Path(OUT) / name, world) for name in NAMES}
for name in (name for name in RESUMED if name in NAMES):
    out["first " + name] = trained(name, Path(OUT) / ("first " + name), world, stop_after=1)
    out["second " + name] = trained(name, Path(OUT) / ("second " + name), world)
torch.save(out, f"{OUT}/{world.rank}.pt")
leave_processes()
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """For a case: what one process and each of two saw of all cases beside it, and the folder of the two."""

    @functools.cache
    def of(slow):
        names, alone, folder = SLOW if slow else FAST, tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("two")
        one = {name: trained(name, alone / name, DistributedContext()) for name in names}
        for name in (name for name in RESUMED if name in names):  # begun by one process, gone on with by two
            assert trained(name, folder / f"second {name}", DistributedContext(), stop_after=1)["stopped"]
        return one, together(f"NAMES = {list(names)}\n{BOTH}", folder), folder

    return lambda name: of(name in SLOW)


@cases(*CASES)
def test_two_processes_train_as_one(both, name):
    one, saved, _ = both(name)
    wanted = one[name]
    for two in (process[name] for process in saved):
        assert two["prompts"] == wanted["prompts"]
        assert len(two["lines"]) == len(wanted["lines"]) > 1
        for mine, line in zip(two["lines"], wanted["lines"], strict=True):
            for key in mine.keys() | line.keys():
                assert mine[key] == pytest.approx(line[key], rel=1e-4, abs=1e-5), key
        for (done, figures, best), validated in zip(two["validations"], wanted["validations"], strict=True):
            assert (done, figures, best) == (validated[0], pytest.approx(validated[1], rel=1e-4), validated[2])
        torch.testing.assert_close(two["weights"], wanted["weights"], rtol=1e-4, atol=1e-5)
        assert not torch.equal(wanted["weights"], tiny.weights(tiny.model(CASES[name][1])))


@cases(*CASES)
def test_both_processes_hold_the_same_bits(both, name):
    first, second = (process[name] for process in both(name)[1])
    assert torch.equal(first["weights"], second["weights"])
    assert first["lines"] == second["lines"]


@cases(*CASES)
def test_each_process_holds_all_weights_or_its_part(both, name):
    shares = [process[name]["share"] for process in both(name)[1]]
    assert sum(shares) == pytest.approx(1.0 if "sharded" in name else 2.0)
    assert max(shares) < 0.6 or "sharded" not in name


@cases(*CASES)
def test_one_process_writes_one_log(both, name):
    _, saved, folder = both(name)
    logged = [line for _, line in read_jsonl(folder / name / "train.jsonl") if "seconds" in line]
    assert [{k: v for k, v in line.items() if k != "seconds"} for line in logged] == saved[0][name]["lines"]


@cases(*CASES)
def test_transformers_alone_loads_what_two_processes_kept(both, name):
    _, saved, folder = both(name)
    kind = AutoModelForSeq2SeqLM if "seq2seq" in name else AutoModelForCausalLM
    assert torch.equal(tiny.weights(kind.from_pretrained(folder / name / "final")), saved[0][name]["weights"])
    assert (folder / name / "checkpoint" / "model.safetensors").exists()


@cases(*RESUMED)
def test_two_processes_go_on_where_one_stopped(both, name):
    one, saved, _ = both(name)
    second, total = saved[0][f"second {name}"], len(one[name]["lines"])
    assert second["begin"] == (1, total)
    torch.testing.assert_close(second["weights"], one[name]["weights"], rtol=1e-4, atol=1e-5)


@cases(*RESUMED)
def test_one_process_goes_on_where_two_stopped(both, name):
    one, saved, folder = both(name)
    assert [process[f"first {name}"]["stopped"] for process in saved] == [True, True]
    gone_on = trained(name, folder / f"first {name}", DistributedContext())
    assert gone_on["begin"] == (1, len(one[name]["lines"]))
    torch.testing.assert_close(gone_on["weights"], one[name]["weights"], rtol=1e-4, atol=1e-5)


COMMAND = [
    *"-m grue train --task imdb --algo ppo --offline --tracker none --threads 1".split(),
    *"--set updates=500 --set rollouts=6 --set minibatch_size=3 --set epochs=1 --set validation_examples=2".split(),
    *"--set validate_every=500 --set save_every=500".split(),
]
LAUNCH = "-m accelerate.commands.launch --multi_gpu --num_processes 2 --main_process_port 0".split()


@pytest.mark.slow
def test_sigterm_to_the_launcher_saves_the_state(tmp_path):
    pytest.importorskip("accelerate")
    command = [sys.executable, *LAUNCH, *COMMAND, "--runs", str(tmp_path)]
    folder = tmp_path / "mini" / "imdb" / "ppo" / "seed-1"
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as launcher:
        try:
            wait_for_update(folder / "train.jsonl", launcher)
            os.kill(launcher.pid, signal.SIGTERM)
            printed, _ = launcher.communicate(timeout=100)
        finally:
            launcher.kill()
    assert launcher.returncode != 0
    assert "the same command resumes" in printed
    done = [line["update"] for _, line in read_jsonl(folder / "train.jsonl")][-1]
    assert f"stopped after update {done} of 500" in printed
    assert [path.name for path in (folder / "states").iterdir()] == [f"state-{done:06d}.pt"]


def wait_for_update(log, process):
    for _ in range(1200):
        if log.exists() and '"update":1}' in log.read_text():
            return
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    raise AssertionError("no update in two minutes")
