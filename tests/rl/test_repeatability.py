"""What a run leaves alone, keeps, and says of how it was computed.

That training reads and changes no global generator is what every golden trace is checked for (support/golden.py).
"""

import dataclasses
import json
import platform

import pytest
from support import commands
from support.late import lates

torch, golden, tiny = lates("torch support.golden support.tiny")
adapters, experience, trainer = lates("lm.adapters rl.experience rl.trainer", "grue.")


def test_a_result_says_how_it_was_computed(tmp_path):
    commands.grue("evaluate", "--baseline", "zero-shot", "--task", "imdb", "--limit", "2", "--runs", tmp_path)
    (path,) = tmp_path.rglob("result*.json")
    result = json.loads(path.read_text())
    assert result["determinism"]["threads"] == torch.get_num_threads()
    assert (result["determinism"]["dtype"], result["determinism"]["device"]) == ("float32", "cpu")
    assert platform.machine() in result["determinism"]["machine"]
    assert result["packages"]["torch"].startswith(torch.__version__.partition("+")[0])


def test_a_card_says_how_many_threads_trained():
    readme = (golden.trace("causal", "ppo", reward="flat", updates=6).folder / "checkpoint/README.md").read_text()
    assert f"| threads | `{torch.get_num_threads()}` |" in readme


def test_a_state_holds_all_that_changes(tmp_path):
    """All but reference, anchor and a file's responses, which never change: no field can be added and forgotten."""
    run = tiny.run("causal", "nlpo", tmp_path)
    saved = trainer.start(run.trainer, run.plan.config).state_dict().keys()
    assert saved == {field.name for field in dataclasses.fields(trainer.TrainState)} - {"reference", "anchor", "fixed"}


@pytest.mark.parametrize("frozen", [False, True])
def test_what_an_encoder_says_is_kept_for_an_update_only_where_it_is_frozen(frozen, tmp_path):
    run = tiny.run("seq2seq", "ppo", tmp_path, freeze_encoder=frozen)
    adapters.adapt(run.trainer.policy, run.plan.config)
    state = trainer.start(run.trainer, run.plan.config)
    found = experience.collect(run.trainer, state, run.plan.config, 0)
    learning = [p.requires_grad for p in run.trainer.policy.get_encoder().parameters()]
    assert (found.rollout.encoded is not None) == frozen == (not any(learning))
