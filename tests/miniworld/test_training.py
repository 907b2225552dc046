"""Making the small models: span corruption, batches, the schedule, growing, and a build of toys that repeats to the byte."""

import json
import math
import random
import re
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from support.late import late

from grue.errors import ConfigError
from grue.mini.manifest import read_manifest
from grue.records import Example
from miniworld import recipes, text

torch, transformers = late("torch"), late("transformers")
build, pretrain, scorers, writers = (late(f"miniworld.{name}") for name in ("build", "pretrain", "scorers", "writers"))
growing, classifiers = late("miniworld.growing"), late("grue.lm.scorers")
bertscore, bleurt, summac = (late(f"grue.metrics.{name}") for name in ("bertscore", "bleurt", "summac"))

# --- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2, 3, 10, 57, 200])
def test_spans_are_disjoint_ordered_and_of_the_asked_amount(length):
    rng = random.Random(length)
    for density, mean in ((density, mean) for density in (0.15, 0.5) for mean in (1.0, 3.0) for _ in range(50)):
        hidden = pretrain.spans(length, density, mean, 32, rng)
        flat = [edge for span in hidden for edge in span]
        assert flat == sorted(set(flat))  # no empty span, no two that touch: one sentinel would do for both
        assert flat[0] >= 0 and flat[-1] <= length and len(hidden) <= 32
        assert sum(end - start for start, end in hidden) == min(max(round(length * density), 1), length - 1)
    first = sum(pretrain.spans(40, 0.15, 3.0, 32, rng)[0][0] == 0 for _ in range(1000))
    assert 420 < first < 580  # half of the texts begin with one


def test_rows_become_batches():
    assert pretrain.corrupt([10, 11, 12, 13, 14, 15], [(1, 3), (5, 6)], [90, 91, 92]) == [10, 90, 13, 14, 91]
    lengths = [random.Random(i).randint(1, 60) for i in range(500)]
    groups = pretrain.buckets(lengths, 128, random.Random(1))
    assert sorted(i for group in groups for i in group) == list(range(500))
    assert all(len(group) * max(lengths[i] for i in group) <= 128 for group in groups)
    drawn = [[7] * random.Random(i).randint(5, 60) for i in range(400)]
    rows = pretrain.causal_rows(drawn, 1, 256, random.Random(3))
    assert [token for row in rows for token in row] == [token for paragraph in drawn for token in [*paragraph, 1]]
    assert 180 < max(map(len, rows)) <= 256
    assert sum(len(row) > 61 for row in rows) / len(rows) == pytest.approx(1 / 30, abs=0.03)
    batch = pretrain.seq2seq_batch([([5, 6, 1], [7, 1]), ([5, 1], [7, 8, 1])])
    assert batch["input_ids"].tolist() == [[5, 6, 1], [5, 1, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["labels"].tolist() == [[7, 1, -100], [7, 8, 1]]
    causal = pretrain.causal_batch([[5, 6, 1], [5, 1]])
    assert causal["input_ids"].tolist() == [[5, 6, 1], [5, 1, 0]]
    assert causal["labels"].tolist() == [[5, 6, 1], [5, 1, -100]]
    for labels, kind in ([2, 0], torch.int64), ([1.0, 0.25], torch.float32):  # whole for classes
        assert pretrain.classifier_batch([[5], [6, 7]], labels)["labels"].dtype == kind


def test_masks_hide_about_a_quarter_and_never_a_special_token():
    row, hidden, rng = [3, *range(40, 100), 1], Counter(), random.Random(1)
    for _ in range(500):
        shown, labels = scorers.masked(row, {0, 1, 3}, 4, 400, rng)
        assert labels[0] == labels[-1] == pretrain.IGNORED
        for token, seen, label in zip(row, shown, labels, strict=True):
            assert label == token or (label == pretrain.IGNORED and seen == token)
            hidden["told"] += label != pretrain.IGNORED
            hidden["mask"] += seen == 4
            hidden["kept"] += label == seen
    assert 0.24 < hidden["told"] / (500 * 60) < 0.26
    assert 0.78 < hidden["mask"] / hidden["told"] < 0.82 and 0.08 < hidden["kept"] / hidden["told"] < 0.12


# --- losses and figures ----------------------------------------------------------------------------------------------


def test_schedule_warms_up_and_decays_to_zero():
    scales = list(pretrain._schedule(200))
    assert len(scales) == 200 and scales[0] == 0.1 and max(scales) == scales[9] == 1.0
    assert scales[-1] == pytest.approx(0.0) and scales[9:] == sorted(scales[9:], reverse=True)


def fixed(logits):
    """A model that says what it is told to."""
    return lambda **batch: type("Output", (), {"logits": torch.tensor(logits)})


def test_figures_by_hand():
    logit = torch.tensor([0.95, 0.95, 0.15, 0.15]).logit()  # probability of label 1
    model = fixed(torch.stack([torch.zeros(4), logit], 1).tolist())
    accuracy, error = pretrain.class_figures(model, [pretrain.classifier_batch([[5]] * 4, [1, 0, 0, 0])])
    assert accuracy == 0.75 and error == pytest.approx((abs(1.9 - 1) + abs(0.3 - 0)) / 4)
    model = fixed(torch.tensor([[0.85, 0.12, 0.03], [0.85, 0.03, 0.12]]).log().tolist())
    accuracy, error = pretrain.class_figures(model, [pretrain.classifier_batch([[5]] * 2, [0, 2])])
    first, second = abs(1.7 - 1) / 2, (0.12 + 0.03) / 2  # both in one bin; two bins, none of them true
    assert accuracy == 0.5 and error == pytest.approx((first + second + (0.03 + 1 - 0.12) / 2) / 3, abs=1e-6)
    batch = pretrain.classifier_batch([[5]] * 4, [0.0, 0.5, 1.0, 0.5])
    rank, error = pretrain.value_figures(fixed([[0.1], [0.5], [0.5], [0.9]]), [batch])
    # ranks 1, 2.5, 2.5, 4 and 1, 2.5, 4, 2.5: covariance 2.25, variances 4.5 and 4.5
    assert rank == pytest.approx(2.25 / 4.5) and error == pytest.approx((0.01 + 0 + 0.25 + 0.16) / 4)
    model, batch = fixed([[[0.0, 9.0, 0.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0]]]), {"labels": torch.tensor([[0, 1, 2]])}
    assert [pretrain.token_figures(model, [batch], ahead=ahead)[1] for ahead in (0, 1)] == [0.0, 1.0]  # says 1, 2, 0
    ids = torch.tensor([[3, 7, 8, 1, 8, 9, 1, 0], [3, 7, 1, 5, 1, 0, 0, 0]])
    sides = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0]])
    assert pretrain.shared_tokens(ids, sides, ids != 0).nonzero().tolist() == [
        [0, 2],
        [0, 3],
        [0, 4],
        [0, 6],
        [1, 2],
        [1, 4],
    ]


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.ModernBertConfig(**shape, vocab_size=50, pad_token_id=0)
    return transformers.ModernBertForMaskedLM(config).train(False)


def test_the_loss_of_hidden_tokens_is_the_models_own(encoder):
    ignored = pretrain.IGNORED
    batch = pretrain.masked_batch([([3, 9, 4, 1], [ignored, ignored, 12, ignored]), ([3, 4, 1], [ignored, 7, ignored])])
    own = pretrain.own_loss(encoder, batch).item()
    assert pretrain.hidden_loss(encoder, batch).item() == pytest.approx(own, rel=1e-5)


def test_matches_are_bertscore_and_its_loss_prefers_the_paraphrase(encoder):
    triples = [([3, 9, 4, 1], [3, 9, 7, 4, 1], [3, 8, 4, 1]), ([3, 20, 1], [3, 21, 20, 1], [3, 22, 23, 1])]
    batch = pretrain.contrast_batch(triples)

    @torch.no_grad()
    def f1(one, other):
        one, other = (encoder.base_model(torch.tensor([row])).last_hidden_state[0] for row in (one, other))
        cosines = torch.nn.functional.cosine_similarity(one[:, None], other[None], dim=-1)
        means = cosines.amax(1)[1:-1].mean(), cosines.amax(0)[1:-1].mean()
        recall, precision = (mean.clamp(min=1e-3) for mean in means)  # never negative, so F1 is defined
        return float(2 * recall * precision / (recall + precision))

    for found, part in zip(pretrain.matches(encoder, batch), (1, 2), strict=True):
        wanted = [[f1(one[0], other[part]) for other in triples] for one in triples]
        assert found.tolist() == [pytest.approx(row, abs=1e-5) for row in wanted]
    assert pretrain.encoding_loss(encoder, batch).item() == pytest.approx(pretrain.contrast_loss(encoder, batch).item())
    told = pretrain.contrast_batch([(said, said, worse) for said, _, worse in triples])
    upside_down = pretrain.contrast_batch([(said, worse, said) for said, _, worse in triples])
    assert pretrain.contrast_loss(encoder, told) < pretrain.contrast_loss(encoder, upside_down)


# --- growing ---------------------------------------------------------------------------------------------------------


def gpt2(width, layers):
    torch.manual_seed(width)
    off = {
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "vocab_size": 50,
        "bos_token_id": 1,
        "eos_token_id": 1,
    }
    shape = {"n_embd": width, "n_layer": layers, "n_head": width // 32, "n_positions": 16, "initializer_range": 0.3}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, **off)).train(False)


def t5(width, layers):
    torch.manual_seed(width)
    shape = {"d_model": width, "d_kv": 32, "d_ff": 4 * width, "num_heads": width // 32, "dropout_rate": 0.0}
    shape |= {"num_layers": layers, "num_decoder_layers": layers, "initializer_factor": 0.7}
    tokens = {"vocab_size": 50, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**shape, **tokens)).train(False)


def asked():
    ids = torch.tensor([[3, 9, 4, 17, 25, 1], [8, 2, 11, 6, 40, 30]])
    return {"input_ids": ids, "labels": ids.flip(1)}


@pytest.mark.parametrize("make", [gpt2, t5])
@pytest.mark.parametrize(("width", "layers"), [(64, 2), (128, 2), (64, 3), (192, 5)])
def test_a_grown_model_computes_what_the_small_one_does(make, width, layers):
    small, large = make(64, 2), make(width, layers)
    expected, before = small(**asked()), large(**asked())
    growing.grow(small, large)
    torch.testing.assert_close(large(**asked()).logits, expected.logits, rtol=1e-4, atol=1e-4)
    assert expected.logits.std() > 0.1
    assert (width, layers) == (64, 2) or not torch.allclose(before.logits, expected.logits, atol=0.1)


@pytest.mark.parametrize(
    ("make", "unit"), [(gpt2, "transformer.h.0.mlp.c_fc.bias"), (t5, "encoder.block.0.layer.1.layer_norm.weight")]
)
def test_copies_part_after_a_step(make, unit):
    small, large = make(64, 2), make(128, 3)
    growing.grow(small, large)
    copies = large.get_parameter(unit).view(-1, 2, 32)
    torch.testing.assert_close(copies[:, 0], copies[:, 1])
    pretrain.own_loss(large, asked()).backward()
    torch.optim.SGD(large.parameters(), lr=0.1).step()
    assert not torch.allclose(copies[:, 0], copies[:, 1], atol=1e-4)
    repeated = re.compile(r"\.(h|block)\.1\..*\.(c_proj|wo)\.weight")
    added = [parameter for name, parameter in large.named_parameters() if repeated.search(name)]
    assert len(added) == 2
    assert all(parameter.abs().max() > 0 for parameter in added)  # the layer that added nothing learns, too


# --- a build of toys -------------------------------------------------------------------------------------------------

READ = 8
"""Texts of a kind that a toy reads, of the models that ship."""


@pytest.fixture(scope="module")
def toys(undrawn):
    """Let every recipe be that of a toy."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (writers, scorers):
            patch.setattr(module, "HELD_OUT", 10)
        fewer = {
            name: replace(each, size=800, training=tuple(replace(data, count=100) for data in each.training))
            for name, each in recipes.VOCABULARIES.items()
        }
        patch.setattr(build, "VOCABULARIES", fewer)
        made = {}
        for name, recipe in recipes.RECIPES.items():
            training = tuple(replace(data, count=READ if recipe.ships else 2) for data in recipe.training)
            chapters = min(recipe.chapters, 2 if name == "seq2seq" else 1)
            made[name] = replace(recipe, training=training, chapters=chapters, tokens=1024)
        patch.setattr(build, "RECIPES", made)
        yield


@pytest.fixture(scope="module")
def built(toys, tmp_path_factory):
    """The folder of all models as toys, made once."""
    folder, lines = tmp_path_factory.mktemp("mini"), []
    build.build(folder, lines.append)
    assert any(line.startswith("seq2seq: chapter 2 of 2, ") for line in lines)
    return folder


def named(built, name):
    return str(built / "models" / name)


def test_build_makes_every_recipe(built):
    manifest = read_manifest(built)
    assert sorted(manifest.models) == sorted(build.RECIPES)
    for name, model in manifest.models.items():
        assert (model.training, *model.besides)[0].text == build.RECIPES[name].training[0].text
        assert all(math.isfinite(value) for value in model.held_out.values()), name
        assert {path.name for path in (built / "models" / name).iterdir()} == set(model.files)
    assert [manifest.models[name].grown_from for name in ("seq2seq", "seq2seq-m")] == ["", "seq2seq"]
    assert (built / "models/encoder/tokenizer.json").read_text(encoding="utf-8").count("\n") == 1


def test_every_judge_is_what_its_metric_expects(built):
    for name, labels in (("sentiment", 2), ("acts", 4), ("entailment", 3), ("similarity", 1)):
        model, tokenizer = classifiers.load_classifier(named(built, name))
        assert model.config.num_labels == labels
        assert {"entailment": (2, "entailment"), "acts": (0, "inform")}.get(name, ()) in (
            *model.config.id2label.items(),
            (),
        )
        if name == "entailment":
            ids, alone = tokenizer("A dog.", "A cat.").input_ids, tokenizer("A dog.").input_ids
            assert ids[: len(alone)] == alone and ids[0] == tokenizer.cls_token_id != tokenizer.pad_token_id
            assert ids[-1] == alone[-1] == tokenizer.sep_token_id and ids.count(tokenizer.sep_token_id) == 2
            longest, second = (
                tokenizer("dog " * 500, "A cat.", truncation=True).input_ids,
                tokenizer("A cat.").input_ids,
            )
            assert len(longest) == 128 and longest[-len(second) + 1 :] == second[1:]
    example = Example("1", "The dog sat by the door.", ("A dog sat on a mat.",), {"document": "A dog sat on a mat."})
    for metric, low, high in (
        (bertscore.bertscore(named(built, "encoder"), layer=2), -1, 1.001),
        (bertscore.bertscore(named(built, "encoder-de"), layer=3), -1, 1.001),
        (bleurt.bleurt(named(built, "similarity")), -10, 10),
        (summac.summac(named(built, "entailment"), 2, 0), 0, 1),
    ):
        assert low <= metric.corpus(metric.statistics([example], ["A dog sat on the mat."])) <= high


def test_translations_keep_their_prompt_and_texts_are_restored(built):
    recipe, tokenizer = (
        build.RECIPES["translator"],
        transformers.AutoTokenizer.from_pretrained(named(built, "translator")),
    )
    batches = writers.restorations(recipe, tokenizer, random.Random(1))
    rows = [row for batch in batches for row in zip(batch["input_ids"], batch["labels"], strict=True) if row[1][0] >= 0]
    read = [(tokenizer.decode(source), tokenizer.decode(target[target >= 0])) for source, target in rows]
    asked = {target for source, target in read if source.startswith("translate English to German: ")}
    translations = next(data for data in recipe.training if data.text == "translations")
    assert asked == {f"{german}<eos>" for _, german in text.translations(READ, translations.seed)}
    restored = [target for source, target in read if "<extra_id_0>" in source]
    assert len(restored) == len(read) - READ and not any("<extra_id_0>" in target for target in restored)


def without_minutes(folder):
    """The manifest of a build, but how long each model took."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for model in manifest["models"].values():
        del model["minutes"]
    return manifest


def test_build_repeats_to_the_byte_and_leaves_the_others(built, tmp_path):
    shutil.copytree(built, tmp_path / "mini")
    names = ["seq2seq", "similarity", "encoder-de"]
    for name in names:
        shutil.rmtree(tmp_path / "mini/models" / name)
    kept = tmp_path / "mini/models/sentiment/model.safetensors"
    before = kept.stat().st_mtime_ns
    torch.manual_seed(2)  # the build neither heeds nor moves the global generator
    expected = torch.Generator().manual_seed(2)
    build.build(tmp_path / "mini", lambda line: None, only=names)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=expected))
    assert without_minutes(tmp_path / "mini") == without_minutes(built)
    assert kept.stat().st_mtime_ns == before


def test_a_model_grows_only_from_one_of_its_tokenizer(built, tmp_path, monkeypatch, refused):
    with refused(ConfigError):
        build.build(tmp_path / "empty", lambda line: None, only=["seq2seq-m"])
    shutil.copytree(built / "models/seq2seq", tmp_path / "models/seq2seq")
    other = {name: replace(each, size=790) for name, each in build.VOCABULARIES.items()}
    monkeypatch.setattr(build, "VOCABULARIES", other)
    with refused(ConfigError):
        build.build(tmp_path, lambda line: None, only=["seq2seq-m"])
