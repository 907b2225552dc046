"""BERTScore against bert-score's own scorer."""

import copy

import pytest
from support.late import late

from grue.errors import ConfigError
from grue.metrics.registry import make_metric
from grue.records import Example

torch, transformers, tiny_bert = late("torch"), late("transformers"), late("support.tiny_bert")
bert_score, scorers = late("bert_score"), late("grue.lm.scorers")
module = late("grue.metrics.neural.bertscore")

REFERENCES = [
    ("the film is slow .", "the music is lovely and the end is a surprise ."),
    ("I liked it very much indeed .",),
    ("lovely", "slow", "the end"),
    ("größe 東京 🙂", "a\r\nb"),
    ("the film",),
    ("the end is slow but the film is lovely",),
]
TEXTS = ["the film is lovely .", "I did not like it", "surprise", "東京 café", "the film", "indeed very" * 4]
EXAMPLES = [Example(f"e{i}", "", references) for i, references in enumerate(REFERENCES)]
PARTS = ["precision", "recall", "f1"]
SMALL = {"d_model": 16, "num_layers": 3}
KINDS = {
    "bert": ("BertModel", {}, {"add_pooling_layer": False}),
    "roberta": ("RobertaModel", {"pad_token_id": 0}, {"add_pooling_layer": False}),
    "albert": ("AlbertModel", {"embedding_size": 8}, {}),
    "distilbert": ("DistilBertModel", {"dim": 16, "hidden_dim": 32, "n_layers": 3, "n_heads": 2}, {}),
    "bart": (
        "BartModel",
        {"d_model": 16, "encoder_layers": 3, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
        | {"encoder_attention_heads": 2, "decoder_attention_heads": 2},
        {},
    ),
    "t5": ("T5Model", SMALL | {"d_kv": 8, "d_ff": 32, "num_heads": 2, "decoder_start_token_id": 0}, {}),
}


@pytest.fixture
def encoder(models):
    return models["encoder"]


def values(examples, texts, prepare=True, **options):
    metric = make_metric("bertscore", **options)
    if prepare:
        metric.prepare(examples)
    return metric.per_example(metric.statistics(examples, texts))


def library(folder, layer, idf=False):
    """bert-score's own model, and its P, R and F for each text, one pair a call, so that it pads nothing."""
    scorer = bert_score.BERTScorer(model_type=folder, num_layers=layer, idf=idf, idf_sents=None, nthreads=0)
    if idf:
        scorer.compute_idf([text for references in REFERENCES for text in references])
    found = []
    for references, text in zip(REFERENCES, TEXTS, strict=True):
        each = [torch.stack(scorer.score([text], [reference]))[:, 0] for reference in references]
        found.append(torch.stack(each).max(dim=0).values.tolist())
    return scorer._model, found


# --- the values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_values_and_layers_are_the_librarys_for_every_kind_of_encoder(tmp_path, kind):
    torch.manual_seed(11)
    name, settings, options = KINDS[kind]
    config = tiny_bert.config(getattr(transformers, name.replace("Model", "Config")), **settings)
    folder, *_ = tiny_bert.save(tmp_path / kind, getattr(transformers, name)(config, **options))
    ids = torch.tensor([[1, 40, 50, 60, 2], [1, 41, 2, 0, 0]])
    mask = (ids != 0).long()
    whole = scorers.load_encoder(folder)[0](ids, attention_mask=mask)[0]
    for layer, idf in ((1, True), (2, False), (3, True)):
        model, expected = library(folder, layer, idf)
        cut = scorers.load_encoder(folder, layers=layer)[0](ids, attention_mask=mask)[0]
        torch.testing.assert_close(cut, model(ids, attention_mask=mask)[0])
        assert torch.equal(cut, whole) == (layer == 3)
        assert max(f1 for *_, f1 in expected) - min(f1 for *_, f1 in expected) > 0.02
        for column, part in enumerate(PARTS):
            if kind == "bert" or part == PARTS[layer - 1]:
                found = values(EXAMPLES, TEXTS, model=folder, layer=layer, idf=idf, part=part)
                assert found == pytest.approx([row[column] for row in expected], abs=1e-5), (layer, part)


@pytest.mark.parametrize("idf", [False, True])
def test_neither_batches_nor_blocks_nor_room_nor_preparing_matter(encoder, idf, monkeypatch, refused):
    """But for the weights by rarity, which are those of the prepared references."""
    options = {"model": encoder[0], "layer": 1, "idf": idf}
    expected = pytest.approx([row[2] for row in library(encoder[0], 1, idf)[1]], abs=1e-5)
    for size in (1, 2, 64):
        metric = make_metric("bertscore", **options, batch_size=size)
        metric.prepare(EXAMPLES)
        assert metric.statistics(EXAMPLES[::-1], TEXTS[::-1])[::-1, 0] == expected
        assert [metric.statistics([e], [t])[0, 0] for e, t in zip(EXAMPLES, TEXTS, strict=True)] == expected
    monkeypatch.setattr(module, "BLOCK", 4)
    assert values(EXAMPLES, TEXTS, **options) == expected
    monkeypatch.setattr(module, "MOST_KEPT", 16 * 4 * 30)
    metric = make_metric("bertscore", **options)
    metric.prepare(EXAMPLES)
    for _ in range(2):
        assert metric.statistics(EXAMPLES, TEXTS)[:, 0] == expected
    kept = sum(each.pieces.nbytes for each in metric.prepare.__self__._prepared.values() if each is not None)
    assert 0 < kept <= 16 * 4 * 30
    if idf:
        with refused(ConfigError):
            values(EXAMPLES, TEXTS, prepare=False, **options)
    else:
        assert values(EXAMPLES, TEXTS, prepare=False, **options) == expected


def test_a_negative_cosine_stays_negative_beside_a_longer_pair(encoder, tmp_path):
    """bert-score's padding is a cosine of 0, which beats a negative one; here a pair does not see the others."""
    _, model, tokenizer = encoder
    model = copy.deepcopy(model)
    table = model.embeddings.word_embeddings.weight.data
    a, b = tiny_bert.plain_ids(tokenizer, "a")[0], tiny_bert.plain_ids(tokenizer, "b")[0]
    table[b], table[tiny_bert.CLS], table[tiny_bert.SEP] = -table[a], -table[a], -table[a]
    for parameter in model.embeddings.position_embeddings.parameters():
        parameter.data.zero_()
    model.embeddings.token_type_embeddings.weight.data.zero_()
    for layer in model.encoder.layer:  # a layer that adds nothing
        layer.attention.output.dense.weight.data.zero_()
        layer.output.dense.weight.data.zero_()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    short, long = Example("short", "", ("b",)), Example("long", "", ("the film is slow .",))
    options = {"model": str(tmp_path), "layer": 1, "part": "precision"}
    alone = values([short], ["a"], **options)[0]
    assert alone == pytest.approx(-1, abs=1e-5)
    assert values([short, long], ["a", "the film is"], **options)[0] == pytest.approx(alone, abs=1e-5)
    scorer = bert_score.BERTScorer(model_type=str(tmp_path), num_layers=1, nthreads=0)
    assert float(scorer.score(["a", "the film is"], ["b", "the film is slow ."])[0][0]) == 0.0


# --- odd inputs ------------------------------------------------------------------------------------------------------


def test_long_texts_are_cut_on_the_right_by_a_tokenizer_without_a_limit_too(encoder, tmp_path):
    folder, model, tokenizer = encoder
    text, other = "the film is slow " * 30, "the film is slow " * 600
    kept = tokenizer.decode(tiny_bert.plain_ids(tokenizer, text)[: tiny_bert.WINDOW - 2])
    model.save_pretrained(tmp_path)
    tiny_bert.tokenizer(model_max_length=None).save_pretrained(tmp_path)
    for each in (folder, str(tmp_path)):
        first, second, third = values([EXAMPLES[0]] * 3, [text, kept, other], model=each, layer=2)
        assert (first, third) == pytest.approx((second, second), abs=1e-5)


def test_a_model_that_counts_positions_from_behind_its_padding(tmp_path):
    torch.manual_seed(8)
    config = tiny_bert.config(transformers.RobertaConfig, pad_token_id=1)
    model = transformers.RobertaModel(config, add_pooling_layer=False)
    folder, *_ = tiny_bert.save(tmp_path, model, model_max_length=None)
    long = "the film " * 100
    assert values([Example("long", "", (long,))], [long], model=folder, layer=2) == pytest.approx([1.0], abs=1e-6)


def test_prepared_references_are_embedded_once(encoder, monkeypatch):
    seen, real = [], module.get_bert_embedding
    monkeypatch.setattr(
        module, "get_bert_embedding", lambda texts, *rest, **more: seen.extend(texts) or real(texts, *rest, **more)
    )
    metric = make_metric("bertscore", model=encoder[0], layer=2)
    metric.prepare(EXAMPLES)
    first = metric.statistics(EXAMPLES, TEXTS)
    assert sorted(seen) == sorted({*TEXTS, *(text for group in REFERENCES for text in group)})
    seen.clear()
    second = metric.statistics(EXAMPLES, [text.upper() for text in TEXTS])
    assert sorted(seen) == sorted({text.upper() for text in TEXTS})
    assert first.tolist() != second.tolist()
    assert metric.statistics(EXAMPLES, TEXTS).tolist() == first.tolist()


# --- layers and options ----------------------------------------------------------------------------------------------


def test_recommended_layers():
    for model, layer in {
        "roberta-large": 17,
        "FacebookAI/roberta-large": 17,
        "bert-base-multilingual-cased": 9,
        "google-bert/bert-base-multilingual-cased": 9,
        "microsoft/deberta-xlarge-mnli": 40,
    }.items():
        assert module.recommended_layer(model) == layer


def test_options_that_cannot_be(encoder, tmp_path, monkeypatch, refused):
    for options in ({"layer": 4}, {"layer": -1}, {}, {"layer": 1, "part": "F"}):
        with refused(ConfigError):
            make_metric("bertscore", model=encoder[0], **options)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roberta-large").mkdir()
    for unknown in ("someone/roberta-large", "roberta-large"):
        with refused(ConfigError):
            module.recommended_layer(unknown)
