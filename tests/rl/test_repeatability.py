"""What a run leaves alone, keeps, and says of how it was computed.

That training reads and changes no global generator is what every golden trace is checked for (support/golden.py).
"""

import dataclasses
import json
import platform

import pytest
from click.testing import CliRunner
from support.late import lates

torch, golden, oracles, tiny, exactness = lates("torch support.golden support.oracles support.tiny support.exactness")
adapters, experience, trainer = lates("lm.adapters rl.experience rl.trainer", "grue.")


def test_a_result_says_how_it_was_computed(tmp_path):
    from grue.cli.main import main

    arguments = ["evaluate", "--baseline", "zero-shot", "--task", "imdb", "--limit", "2", "--runs", str(tmp_path)]
    told = CliRunner().invoke(main, arguments)
    assert told.exit_code == 0, told.output
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
    state = trainer.start(run.trainer, run.plan.config).state_dict()
    assert state.keys() == {field.name for field in dataclasses.fields(trainer.TrainState)} - {
        "reference",
        "anchor",
        "fixed",
    }


def test_an_encoder_that_learns_is_run_anew(tmp_path):
    """Its states are kept for an update only where it is frozen."""
    run, _, found = exactness.world("seq2seq", tmp_path / "learning", "everything", masked=False)
    assert found.rollout.encoded is None
    assert any(p.requires_grad for p in run.trainer.policy.get_encoder().parameters())
    with torch.no_grad():
        for parameter in run.trainer.policy.get_encoder().block.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    scored = experience.score_tokens(run.trainer.policy, None, found.rollout, torch.tensor([3]), 1.0, run.plan.config)
    said = exactness.real(found.rollout.responses, 3)
    logits = exactness.alone(run.trainer.policy, exactness.real(found.rollout.prompts, 3), said)
    expected = [oracles.token_log_prob(one, token) for one, token in zip(logits, said, strict=True)]
    assert scored.plain[0].tolist() == pytest.approx(expected, abs=2e-4)
    assert found.log_probs[3, : len(said)].tolist() != pytest.approx(expected, abs=1e-2)

    frozen = tiny.run("seq2seq", "ppo", tmp_path / "frozen", freeze_encoder=True)
    adapters.adapt(frozen.trainer.policy, frozen.plan.config)
    kept = experience.collect(
        frozen.trainer, trainer.start(frozen.trainer, frozen.plan.config), frozen.plan.config, 0
    ).rollout.encoded
    assert kept is not None and not any(p.requires_grad for p in frozen.trainer.policy.get_encoder().parameters())
