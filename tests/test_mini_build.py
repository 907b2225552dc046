"""Making the small models: span corruption, batches, the schedule, and a build of toys that repeats to the byte."""

import json
import random
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from grue.errors import UnknownName
from grue.mini import build, pretrain

CASES = [(length, density, mean) for length in (2, 3, 10, 57, 200) for density in (0.15, 0.5) for mean in (1.0, 3.0)]


@pytest.mark.parametrize(("length", "density", "mean"), CASES)
def test_spans_are_disjoint_ordered_and_of_the_asked_amount(length, density, mean):
    rng = random.Random(length)
    for _ in range(50):
        hidden = pretrain.spans(length, density, mean, 32, rng)
        flat = [edge for span in hidden for edge in span]
        assert flat == sorted(set(flat))  # no empty span, no two that touch: one sentinel would do for both
        assert flat[0] >= 0
        assert flat[-1] <= length
        assert len(hidden) <= 32
        assert sum(end - start for start, end in hidden) == min(max(round(length * density), 1), length - 1)


def test_spans_begin_a_text_about_half_the_time():
    rng = random.Random(5)
    first = sum(pretrain.spans(40, 0.15, 3.0, 32, rng)[0][0] == 0 for _ in range(1000))
    assert 420 < first < 580


def test_corrupt_by_hand():
    assert pretrain.corrupt([10, 11, 12, 13, 14, 15], [(1, 3), (5, 6)], [90, 91, 92]) == [10, 90, 13, 14, 91]


def test_buckets_cover_every_row_within_the_budget():
    lengths = [random.Random(i).randint(1, 60) for i in range(500)]
    groups = pretrain.buckets(lengths, 128, random.Random(1))
    assert sorted(i for group in groups for i in group) == list(range(500))
    assert all(len(group) * max(lengths[i] for i in group) <= 128 for group in groups)


def test_causal_rows_keep_every_paragraph_and_reach_late_positions():
    drawn = [[7] * random.Random(i).randint(5, 60) for i in range(400)]
    rows = pretrain.causal_rows(drawn, 1, 256, random.Random(3))
    assert [token for row in rows for token in row] == [token for paragraph in drawn for token in [*paragraph, 1]]
    assert 180 < max(map(len, rows)) <= 256
    assert sum(len(row) > 61 for row in rows) / len(rows) == pytest.approx(1 / 30, abs=0.03)


def test_batches_pad_on_the_right_and_ignore_padding():
    batch = pretrain.seq2seq_batch([([5, 6, 1], [7, 1]), ([5, 1], [7, 8, 1])])
    assert batch["input_ids"].tolist() == [[5, 6, 1], [5, 1, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["labels"].tolist() == [[7, 1, -100], [7, 8, 1]]
    causal = pretrain.causal_batch([[5, 6, 1], [5, 1]])
    assert causal["input_ids"].tolist() == [[5, 6, 1], [5, 1, 0]]
    assert causal["labels"].tolist() == [[5, 6, 1], [5, 1, -100]]


def test_schedule_warms_up_and_decays_to_zero():
    scales = list(pretrain._schedule(200))
    assert len(scales) == 200
    assert scales[0] == 0.1
    assert max(scales) == scales[9] == 1.0
    assert scales[-1] == pytest.approx(0.0)
    assert scales[9:] == sorted(scales[9:], reverse=True)


def test_calibration_error_by_hand():
    class Fixed(torch.nn.Module):
        def forward(self, input_ids, attention_mask, labels):
            # probability of label 1: 0.95, 0.95, 0.15, 0.15
            logit = torch.tensor([0.95, 0.95, 0.15, 0.15]).logit()
            return type("Output", (), {"logits": torch.stack([torch.zeros(4), logit], 1)})

    batch = pretrain.classifier_batch([[5], [5], [5], [5]], [1, 0, 0, 0])
    accuracy, error = pretrain.class_figures(Fixed(), [batch])
    assert accuracy == 0.75
    assert error == pytest.approx((abs(1.9 - 1) + abs(0.3 - 0)) / 4)


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.setattr(build, "VOCABULARY", 400)
    monkeypatch.setattr(build, "HELD_OUT", 10)
    monkeypatch.setattr(build, "TOKENIZER_DATA", replace(build.TOKENIZER_DATA, count=200))
    toys = {name: replace(r, training=replace(r.training, count=40)) for name, r in build.RECIPES.items()}
    monkeypatch.setattr(build, "RECIPES", toys)


def test_build_repeats_to_the_byte(toys, tmp_path):
    lines = []
    torch.manual_seed(1)
    build.build(tmp_path / "first", lines.append)
    torch.manual_seed(2)  # the build neither heeds nor moves the global generator
    expected = torch.Generator().manual_seed(2)
    build.build(tmp_path / "second", lines.append)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=expected))
    first, second = ((tmp_path / run / "manifest.json").read_text(encoding="utf-8") for run in ("first", "second"))
    assert first == second
    assert sorted(json.loads(first)["assets"]) == sorted(build.RECIPES)
    assert any(line.startswith("seq2seq: step ") for line in lines)


def test_build_of_one_leaves_the_others(toys, tmp_path):
    build.build(tmp_path, lambda line: None)
    before = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    weights = (tmp_path / "causal" / "model.safetensors").stat().st_mtime_ns
    build.build(tmp_path, lambda line: None, only=["seq2seq"])
    assert json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8")) == before
    assert (tmp_path / "causal" / "model.safetensors").stat().st_mtime_ns == weights
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "seq2seq")
    assert len(AutoTokenizer.from_pretrained(tmp_path / "seq2seq")) == model.config.vocab_size


def test_unknown_recipe_is_an_error(tmp_path):
    with pytest.raises(UnknownName, match=r"no recipe for a small model 'sentimental'\. Did you mean 'sentiment'\?"):
        build.build(tmp_path, lambda line: None, only=["sentimental"])
