"""Supervised training within an epoch: it logs, saves and stops there, and learns what a whole epoch would."""

import pytest
import torch
from support import tiny

from grue.algorithms import supervised
from grue.runs.train import Interrupted

SETTINGS = {"epochs": 2, "batch_size": 2, "validate_every": 1, "warmup": 0.25, "learning_rate": 1e-2}


def with_steps(run, monkeypatch, count):
    """Train with `count` optimiser steps an update."""
    monkeypatch.setattr(supervised, "STEPS", count)
    return tiny.train(run)


def run_in(folder, **settings):
    return tiny.run("causal", "supervised", folder, **{**SETTINGS, **settings})


def test_an_epoch_in_parts_is_the_epoch(tmp_path, monkeypatch):
    whole = with_steps(run_in(tmp_path / "whole"), monkeypatch, 1000)
    pairs = len(whole.trainer.pairs)
    batches = -(-pairs // 2)
    assert batches > 5
    parts = with_steps(run_in(tmp_path / "parts"), monkeypatch, 4)
    assert torch.equal(tiny.weights(whole.trainer.policy), tiny.weights(parts.trainer.policy))
    updates = -(-batches // 4)
    assert whole.observer.begin == (0, 2) and parts.observer.begin == (0, 2 * updates)
    assert [done for done, _, _ in whole.observer.validations] == [0, 1, 2]
    assert [done for done, _, _ in parts.observer.validations] == [0, updates, 2 * updates]
    assert sum(line["episodes"] for line in parts.observer.lines) == 2 * pairs
    for name in ("episodes", "tokens"):
        in_parts = [line[name] for line in parts.observer.lines]
        assert [sum(in_parts[:updates]), sum(in_parts[updates:])] == [line[name] for line in whole.observer.lines]


def test_the_log_has_loss_and_learning_rate_of_every_update(tmp_path, monkeypatch):
    run = with_steps(run_in(tmp_path, schedule="linear", warmup=0.0), monkeypatch, 1)
    lines = [line for line in tiny.logged(tmp_path) if "loss/total" in line]
    total = len(lines)
    assert total == 2 * -(-len(run.trainer.pairs) // 2) and {line["of"] for line in lines} == {total}
    expected = [1e-2 * (1 - step / total) for step in range(total)]
    assert [line["policy/learning_rate"] for line in lines] == pytest.approx(expected)


def test_a_run_stops_within_an_epoch_and_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    whole = with_steps(run_in(tmp_path / "whole"), monkeypatch, 2)
    stopped = run_in(tmp_path / "stopped", save_every=100)
    stopped.stop = lambda: len(stopped.observer.lines) == 2
    with pytest.raises(Interrupted, match="stopped after update 2 of"):
        tiny.train(stopped)
    again = tiny.train(run_in(tmp_path / "stopped", save_every=100))
    assert again.observer.begin == (2, whole.observer.begin[1])
    assert torch.equal(tiny.weights(whole.trainer.policy), tiny.weights(again.trainer.policy))
    assert tiny.logged(tmp_path / "stopped") == tiny.logged(tmp_path / "whole")
