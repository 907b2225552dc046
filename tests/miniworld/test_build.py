"""Making the small models: span corruption, batches, the schedule, and a build of toys that repeats to the byte."""

import json
import math
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, ModernBertConfig, ModernBertForMaskedLM

from grue.errors import ConfigError
from grue.lm.scorers import load_classifier
from grue.metrics.bertscore import bertscore
from grue.metrics.bleurt import bleurt
from grue.metrics.summac import summac
from grue.mini.manifest import read_manifest
from grue.records import Example
from miniworld import build, pairs, pretrain, scorers, text, writers
from miniworld.chance import Dice
from miniworld.world import REVISION

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


class Fixed(torch.nn.Module):
    """A model that says what it is told to."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, **batch):
        return type("Output", (), {"logits": self.logits})


def test_calibration_error_of_two_labels_by_hand():
    logit = torch.tensor([0.95, 0.95, 0.15, 0.15]).logit()  # probability of label 1
    model = Fixed(torch.stack([torch.zeros(4), logit], 1).tolist())
    accuracy, error = pretrain.class_figures(model, [pretrain.classifier_batch([[5]] * 4, [1, 0, 0, 0])])
    assert accuracy == 0.75
    assert error == pytest.approx((abs(1.9 - 1) + abs(0.3 - 0)) / 4)


def test_calibration_error_of_three_labels_by_hand():
    probabilities = [[0.85, 0.12, 0.03], [0.85, 0.03, 0.12]]
    model = Fixed(torch.tensor(probabilities).log().tolist())
    accuracy, error = pretrain.class_figures(model, [pretrain.classifier_batch([[5]] * 2, [0, 2])])
    assert accuracy == 0.5
    first = abs(1.7 - 1) / 2  # both in one bin
    second = (0.12 + 0.03) / 2  # two bins, none of them true
    third = (0.03 + (1 - 0.12)) / 2
    assert error == pytest.approx((first + second + third) / 3, abs=1e-6)


def test_rank_correlation_and_squared_error_by_hand():
    model = Fixed([[0.1], [0.5], [0.5], [0.9]])
    rank, error = pretrain.value_figures(model, [pretrain.classifier_batch([[5]] * 4, [0.0, 0.5, 1.0, 0.5])])
    # ranks 1, 2.5, 2.5, 4 and 1, 2.5, 4, 2.5: covariance 2.25, variances 4.5 and 4.5
    assert rank == pytest.approx(2.25 / 4.5)
    assert error == pytest.approx((0.01 + 0 + 0.25 + 0.16) / 4)


def test_labels_are_whole_for_classes_and_not_for_a_regression():
    assert pretrain.classifier_batch([[5], [6, 7]], [2, 0])["labels"].dtype == torch.int64
    assert pretrain.classifier_batch([[5], [6, 7]], [1.0, 0.25])["labels"].dtype == torch.float32


def test_token_figures_look_one_token_ahead_where_asked():
    logits = [[[0.0, 9.0, 0.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0]]]  # says 1, 2, 0
    batch = {"labels": torch.tensor([[0, 1, 2]])}
    assert pretrain.token_figures(Fixed(logits), [batch], ahead=1)[1] == 1.0
    assert pretrain.token_figures(Fixed(logits), [batch])[1] == 0.0


def test_shared_tokens_by_hand():
    ids = torch.tensor([[3, 7, 8, 1, 8, 9, 1, 0], [3, 7, 1, 5, 1, 0, 0, 0]])
    sides = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0]])
    found = pretrain.shared_tokens(ids, sides, ids != 0)
    assert found.tolist() == [
        [False, False, True, True, True, False, True, False],
        [False, False, True, False, True] + [False] * 3,
    ]


def test_the_loss_of_hidden_tokens_is_the_models_own():
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = ModernBertForMaskedLM(ModernBertConfig(**shape, vocab_size=50, pad_token_id=0)).train(False)
    ignored = pretrain.IGNORED
    batch = pretrain.masked_batch([([3, 9, 4, 1], [ignored, ignored, 12, ignored]), ([3, 4, 1], [ignored, 7, ignored])])
    assert pretrain.hidden_loss(model, batch).item() == pytest.approx(pretrain.own_loss(model, batch).item(), rel=1e-5)


def test_matches_are_bertscore_and_its_loss_prefers_the_paraphrase():
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = ModernBertForMaskedLM(ModernBertConfig(**shape, vocab_size=50, pad_token_id=0)).train(False)
    triples = [([3, 9, 4, 1], [3, 9, 7, 4, 1], [3, 8, 4, 1]), ([3, 20, 1], [3, 21, 20, 1], [3, 22, 23, 1])]
    batch = pretrain.contrast_batch(triples)
    same, worse = pretrain.matches(model, batch)

    def states(row):
        with torch.no_grad():
            return model.base_model(torch.tensor([row])).last_hidden_state[0]

    for found, part in ((same, 1), (worse, 2)):
        for i in range(2):
            for j in range(2):
                one, other = states(triples[i][0]), states(triples[j][part])
                cosines = torch.nn.functional.cosine_similarity(one[:, None], other[None], dim=-1)
                means = cosines.amax(1)[1:-1].mean(), cosines.amax(0)[1:-1].mean()
                recall, precision = (mean.clamp(min=1e-3) for mean in means)  # never negative, so F1 is defined
                assert found[i, j].item() == pytest.approx(
                    float(2 * recall * precision / (recall + precision)), abs=1e-5
                )
    assert pretrain.encoding_loss(model, batch).item() == pytest.approx(pretrain.contrast_loss(model, batch).item())
    told = pretrain.contrast_batch([(said, said, worse) for said, _, worse in triples])
    upside_down = pretrain.contrast_batch([(said, worse, said) for said, _, worse in triples])
    assert pretrain.contrast_loss(model, told) < pretrain.contrast_loss(model, upside_down)


# --- a build of toys -------------------------------------------------------------------------------------------------

READ = 12
"""Texts of a kind that a toy reads, of the models that ship."""


def german(count, seed, revision=REVISION):
    return [f"Der Bauer sieht {1 + (seed + index) % 9} alte Pferde. Sie stehen im Stall." for index in range(count)]


def translations(count, seed, revision=REVISION):
    return [(f"The farmer has {seed + index} cows.", f"Der Bauer hat {seed + index} Kühe.") for index in range(count)]


def acts(count, seed, revision=REVISION):
    replies = ("It is in the barn.", "Where is it?", "Please close the door.", "I will help you.")
    return [("Have you seen my hat?", replies[index % 4], 1 + index % 4) for index in range(count)]


def claims(count, seed, revision=REVISION):
    dice = Dice(seed)
    return [pairs.claim(dice, revision) for _ in range(count)]


def likenesses(count, seed, revision=REVISION):
    dice = Dice(seed)
    return [pairs.likeness(dice, revision) for _ in range(count)]


def contrasts(count, seed, revision=REVISION):
    dice = Dice(seed)
    return [pairs.near_miss(dice, revision) for _ in range(count)]


def german_contrasts(count, seed, revision=REVISION):
    farmers = [f"Der Bauer sieht {1 + (seed + index) % 9} Pferde." for index in range(count)]
    return [(said, f"Es ist der Bauer, der sie sieht: {said}", said.replace("Bauer", "Koch")) for said in farmers]


@pytest.fixture
def toys(monkeypatch):
    for stand_in in (german, translations, acts, claims, likenesses, contrasts, german_contrasts):
        monkeypatch.setattr(text, stand_in.__name__, stand_in, raising=False)
    for module in (writers, scorers):
        monkeypatch.setattr(module, "HELD_OUT", 10)
    small = {
        name: replace(each, size=400, training=tuple(replace(data, count=100) for data in each.training))
        for name, each in build.VOCABULARIES.items()
    }
    monkeypatch.setattr(build, "VOCABULARIES", small)
    toys = {
        name: replace(
            recipe,
            training=tuple(replace(data, count=READ if recipe.ships else 2) for data in recipe.training),
            chapters=min(recipe.chapters, 2 if name == "seq2seq" else 1),
        )
        for name, recipe in build.RECIPES.items()
    }
    monkeypatch.setattr(build, "RECIPES", toys)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """All models as toys, made once."""
    with pytest.MonkeyPatch.context() as patch:
        toys.__wrapped__(patch)
        folder = tmp_path_factory.mktemp("mini")
        lines = []
        build.build(folder, lines.append)
    return folder, lines


def test_build_makes_every_recipe(built):
    folder, lines = built
    manifest = read_manifest(folder)
    assert sorted(manifest.models) == sorted(build.RECIPES)
    assert any(line.startswith("seq2seq: chapter 2 of 2, ") for line in lines)
    for name, model in manifest.models.items():
        assert (model.training, *model.besides)[0].text == build.RECIPES[name].training[0].text
        assert all(math.isfinite(value) for value in model.held_out.values()), name
        assert {path.name for path in (folder / "models" / name).iterdir()} == set(model.files)


def test_every_judge_is_what_its_metric_expects(built):
    folder, _ = built
    for name, labels in (("sentiment", 2), ("acts", 4), ("entailment", 3), ("similarity", 1)):
        model, _ = load_classifier(str(folder / "models" / name))
        assert model.config.num_labels == labels
    assert load_classifier(str(folder / "models" / "entailment"))[0].config.id2label[2] == "entailment"
    assert load_classifier(str(folder / "models" / "acts"))[0].config.id2label[0] == "inform"


def test_a_pair_is_read_as_two_parted_texts(built):
    folder, _ = built
    tokenizer = AutoTokenizer.from_pretrained(folder / "models" / "entailment")
    ids = tokenizer("A dog.", "A cat.").input_ids
    alone = tokenizer("A dog.").input_ids
    assert ids[: len(alone)] == alone
    assert ids[0] == tokenizer.cls_token_id != tokenizer.pad_token_id
    assert ids[-1] == alone[-1] == tokenizer.sep_token_id
    assert ids.count(tokenizer.sep_token_id) == 2
    longest = tokenizer("dog " * 500, "A cat.", truncation=True).input_ids
    assert len(longest) == 128
    assert longest[-len(tokenizer("A cat.").input_ids) + 1 :] == tokenizer("A cat.").input_ids[1:]


def test_bertscore_and_bleurt_and_summac_take_the_models(built):
    folder, _ = built
    example = Example(
        "1", "The dog sat on the mat near the door.", ("A dog sat on a mat.",), {"document": "A dog sat on a mat."}
    )
    for metric, low, high in (
        (bertscore(str(folder / "models" / "encoder"), layer=2), -1, 1.001),
        (bertscore(str(folder / "models" / "encoder-de"), layer=3), -1, 1.001),
        (bleurt(str(folder / "models" / "similarity")), -10, 10),
        (summac(str(folder / "models" / "entailment"), 2, 0), 0, 1),
    ):
        value = metric.corpus(metric.statistics([example], ["A dog sat on the mat."]))
        assert low <= value <= high


def test_masks_hide_about_a_quarter_and_never_a_special_token():
    row, hidden = [3, *range(40, 100), 1], Counter()
    rng = random.Random(1)
    for _ in range(500):
        shown, labels = scorers.masked(row, {0, 1, 3}, 4, 400, rng)
        assert labels[0] == labels[-1] == pretrain.IGNORED
        for token, seen, label in zip(row, shown, labels, strict=True):
            assert label == token or (label == pretrain.IGNORED and seen == token)
            hidden["told"] += label != pretrain.IGNORED
            hidden["mask"] += seen == 4
            hidden["kept"] += label == seen
    assert 0.24 < hidden["told"] / (500 * 60) < 0.26
    assert 0.78 < hidden["mask"] / hidden["told"] < 0.82
    assert 0.08 < hidden["kept"] / hidden["told"] < 0.12


def test_translations_keep_their_prompt_and_texts_are_restored(built, toys):
    folder, _ = built
    recipe = build.RECIPES["translator"]
    tokenizer = AutoTokenizer.from_pretrained(folder / "models" / "translator")
    batches = writers.restorations(recipe, tokenizer, random.Random(1))
    rows = [row for batch in batches for row in zip(batch["input_ids"], batch["labels"], strict=True) if row[1][0] >= 0]
    sources = [tokenizer.decode(source) for source, _ in rows]
    targets = [tokenizer.decode(target[target >= 0]) for _, target in rows]
    asked = [index for index, source in enumerate(sources) if source.startswith("translate English to German: ")]
    assert len(asked) == READ
    assert all(targets[index].startswith("Der Bauer hat ") and targets[index].endswith("<eos>") for index in asked)
    restored = [index for index, source in enumerate(sources) if "<extra_id_0>" in source]
    assert len(restored) == len(sources) - len(asked)
    assert not any("<extra_id_0>" in targets[index] for index in restored)


def test_tokenizers_are_written_without_white_space(built):
    folder, _ = built
    written = (folder / "models" / "encoder" / "tokenizer.json").read_text(encoding="utf-8")
    assert written.count("\n") == 1
    assert AutoTokenizer.from_pretrained(folder / "models" / "encoder").decode([40]) != ""


def without_minutes(folder):
    """The manifest of a build, but how long each model took."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for model in manifest["models"].values():
        del model["minutes"]
    return manifest


def test_build_repeats_to_the_byte(toys, tmp_path):
    names = ["seq2seq", "similarity", "encoder-de"]
    torch.manual_seed(1)
    build.build(tmp_path / "first", lambda line: None, only=names)
    torch.manual_seed(2)  # the build neither heeds nor moves the global generator
    expected = torch.Generator().manual_seed(2)
    build.build(tmp_path / "second", lambda line: None, only=names)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=expected))
    first, second = (without_minutes(tmp_path / run) for run in ("first", "second"))
    assert first == second
    assert sorted(first["models"]) == sorted(names)


def test_build_of_one_leaves_the_others(toys, tmp_path):
    build.build(tmp_path, lambda line: None, only=["sentiment", "seq2seq"])
    before = without_minutes(tmp_path)
    weights = (tmp_path / "models" / "sentiment" / "model.safetensors").stat().st_mtime_ns
    build.build(tmp_path, lambda line: None, only=["seq2seq"])
    assert without_minutes(tmp_path) == before
    assert (tmp_path / "models" / "sentiment" / "model.safetensors").stat().st_mtime_ns == weights
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "models" / "seq2seq")
    assert len(AutoTokenizer.from_pretrained(tmp_path / "models" / "seq2seq")) == model.config.vocab_size


def test_a_model_grows_only_from_one_of_its_tokenizer(toys, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"models has no seq2seq, from which this model grows\..*--only seq2seq"):
        build.build(tmp_path, lambda line: None, only=["seq2seq-m"])
    build.build(tmp_path, lambda line: None, only=["seq2seq", "seq2seq-m"])
    made = read_manifest(tmp_path).models
    assert made["seq2seq-m"].grown_from == "seq2seq"
    assert made["seq2seq"].grown_from == ""
    other = {name: replace(each, size=390) for name, each in build.VOCABULARIES.items()}
    monkeypatch.setattr(build, "VOCABULARIES", other)
    with pytest.raises(ConfigError, match=r"The tokenizer of .*seq2seq is not that of today's recipe"):
        build.build(tmp_path, lambda line: None, only=["seq2seq-m"])
