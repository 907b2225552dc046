"""Supervised training: its loss, and an epoch in parts, which logs, saves and stops there and learns what a whole one would."""

import pytest
from support.late import late, lates

from grue.errors import TrainingError

torch, tiny, oracles, scored = lates("torch support.tiny support.oracles support.scored")
supervised, runs = late("grue.algorithms.supervised"), late("grue.runs.train")


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Train in a folder with so many optimiser steps an update."""

    def train(name, steps, stop=None):
        monkeypatch.setattr(supervised, "STEPS", steps)
        often = {"epochs": 2, "batch_size": 2, "validate_every": 1, "save_every": 100, "warmup": 0.25}
        run = tiny.run("causal", "supervised", tmp_path / name, learning_rate=1e-2, **often)
        if stop is not None:
            run.stop = lambda: len(run.observer.lines) == stop
        return tiny.train(run)

    return train


def test_an_epoch_in_parts_is_the_epoch_and_can_be_stopped_within(trained, tmp_path, refused):
    whole, parts = trained("whole", 1000), trained("parts", 4)
    pairs = len(whole.trainer.pairs)
    batches = -(-pairs // 2)
    assert batches > 5
    assert torch.equal(tiny.weights(whole.trainer.policy), tiny.weights(parts.trainer.policy))
    updates = -(-batches // 4)
    assert whole.observer.begin == (0, 2) and parts.observer.begin == (0, 2 * updates)
    assert [done for done, _, _ in whole.observer.validations] == [0, 1, 2]
    assert [done for done, _, _ in parts.observer.validations] == [0, updates, 2 * updates]
    assert sum(line["episodes"] for line in parts.observer.lines) == 2 * pairs
    for name in ("episodes", "tokens"):
        in_parts = [line[name] for line in parts.observer.lines]
        assert [sum(in_parts[:updates]), sum(in_parts[updates:])] == [line[name] for line in whole.observer.lines]
    with refused(runs.Interrupted):
        trained("stopped", 4, stop=2)
    again = trained("stopped", 4)
    assert again.observer.begin == (2, 2 * updates)
    assert torch.equal(tiny.weights(whole.trainer.policy), tiny.weights(again.trainer.policy))
    assert tiny.logged(tmp_path / "stopped") == tiny.logged(tmp_path / "parts")


def test_the_loss_is_over_the_response_only(tmp_path):
    run = tiny.run("causal", "supervised", tmp_path, epochs=1, batch_size=24, learning_rate=1e-12)
    (line,) = tiny.updated(run)
    total, tokens = 0.0, 0
    model = tiny.model("causal")
    for example in run.trainer.examples:
        for reference in example.references:
            said = scored.ids_of(reference)
            rows = scored.logits_of(model, scored.Response(example, said, None))
            total -= sum(oracles.token_log_prob(row, token) for row, token in zip(rows, said, strict=True))
            tokens += len(said)
    assert line["loss/total"] == pytest.approx(total / tokens, rel=1e-5)
    assert line["tokens"] == tokens


def test_training_without_references_is_refused(tmp_path, refused):
    run = tiny.run("causal", "supervised", tmp_path)
    run.trainer.examples = [type(e)(e.id, e.prompt, ()) for e in run.trainer.examples]
    with refused(TrainingError):
        tiny.updated(run)


@pytest.mark.parametrize("chunk", [0, 2])
def test_logits_in_chunks_are_never_all_held(tmp_path, monkeypatch, chunk):
    run, sizes = tiny.run("causal", "supervised", tmp_path, epochs=1, log_prob_chunk=chunk), []
    monkeypatch.setattr(runs.Run, "_validate", lambda *ignored: None)  # which decodes
    monkeypatch.setattr(runs.Run, "_keep", lambda *ignored: None)
    head = run.trainer.policy.get_output_embeddings()
    head.register_forward_hook(lambda module, inputs, logits: sizes.append(logits.numel()))
    tiny.train(run)
    assert sizes and (set(sizes) == {0}) == bool(chunk), "with chunks, the head gives none beside them"
