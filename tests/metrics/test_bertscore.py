"""BERTScore against bert-score's own scorer, and against plain loops over unpadded forward passes."""

import copy
import math
from importlib.metadata import version

import pytest
import torch
from bert_score import BERTScorer
from bert_score.utils import get_model
from support import tiny_bert
from transformers import (
    AlbertConfig,
    AlbertModel,
    BartConfig,
    BartModel,
    DistilBertConfig,
    DistilBertModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5Model,
)

from grue.errors import ConfigError, DataError
from grue.lm.scorers import load_encoder, signed
from grue.metrics.neural import bertscore as module
from grue.metrics.registry import make_metric
from grue.records import Example

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
KINDS = {
    "roberta": lambda: RobertaModel(tiny_bert.config(RobertaConfig, pad_token_id=0), add_pooling_layer=False),
    "albert": lambda: AlbertModel(tiny_bert.config(AlbertConfig, embedding_size=8)),
    "distilbert": lambda: DistilBertModel(
        tiny_bert.config(DistilBertConfig, dim=16, hidden_dim=32, n_layers=3, n_heads=2)
    ),
    "bart": lambda: BartModel(
        tiny_bert.config(
            BartConfig, d_model=16, encoder_layers=3, decoder_layers=2, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
        )
    ),
    "t5": lambda: T5Model(
        tiny_bert.config(T5Config, d_model=16, d_kv=8, d_ff=32, num_layers=3, num_heads=2, decoder_start_token_id=0)
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_bert.encoder(tmp_path_factory.mktemp("encoder"))


def values(examples, texts, prepare=True, **options):
    metric = make_metric("bertscore", **options)
    if prepare:
        metric.prepare(examples)
    return metric.per_example(metric.statistics(examples, texts))


def library(folder, layer, examples, texts, idf=False):
    """P, R and F of bert-score itself, one pair a call, so that it pads nothing."""
    references = [text for example in examples for text in example.references]
    scorer = BERTScorer(model_type=folder, num_layers=layer, idf=idf, idf_sents=None, nthreads=0)
    if idf:
        scorer.compute_idf(references)
    found = []
    for example, text in zip(examples, texts, strict=True):
        each = [torch.stack(scorer.score([text], [reference]))[:, 0] for reference in example.references]
        found.append(torch.stack(each).max(dim=0).values.tolist())
    return found


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def by_hand(model, layer, reference, text):
    """F1 of ids by plain loops: each piece takes its best partner, what opens and closes a text does not count."""
    sides = []
    for ids in (reference, text):
        with torch.no_grad():
            states = model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[layer]
        sides.append(states[0].double().tolist())
    recall, precision = (
        sum(max(cosine(piece, other) for other in others) for piece in own[1:-1]) / (len(own) - 2)
        for own, others in (sides, sides[::-1])
    )
    return 2 * precision * recall / (precision + recall)


# --- the values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize("idf", [False, True])
def test_values_are_the_librarys(encoder, layer, idf):
    folder = encoder[0]
    expected = library(folder, layer, EXAMPLES, TEXTS, idf)
    assert max(f1 for *_, f1 in expected) - min(f1 for *_, f1 in expected) > 0.05
    for column, part in enumerate(PARTS):
        found = values(EXAMPLES, TEXTS, model=folder, layer=layer, idf=idf, part=part)
        assert found == pytest.approx([row[column] for row in expected], abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layer", "idf"), [(1, True), (2, False), (3, True)])
def test_values_are_the_librarys_for_every_kind_of_encoder(tmp_path, kind, layer, idf):
    torch.manual_seed(11)
    folder, *_ = tiny_bert.save(tmp_path / kind, KINDS[kind]())
    expected = library(folder, layer, EXAMPLES, TEXTS, idf)
    assert max(f1 for *_, f1 in expected) - min(f1 for *_, f1 in expected) > 0.02
    for column, part in enumerate(PARTS):
        found = values(EXAMPLES, TEXTS, model=folder, layer=layer, idf=idf, part=part)
        assert found == pytest.approx([row[column] for row in expected], abs=1e-5)


def test_several_references_are_the_librarys(encoder):
    folder = encoder[0]
    scorer = BERTScorer(model_type=folder, num_layers=2, nthreads=0)
    for index, (example, text) in enumerate(zip(EXAMPLES, TEXTS, strict=True)):
        best = [row[0] for row in scorer.score([text], [list(example.references)], batch_size=1)]
        for column, part in enumerate(PARTS):
            found = values(EXAMPLES, TEXTS, model=folder, layer=2, part=part)
            assert found[index] == pytest.approx(float(best[column]), abs=1e-5)


def test_values_by_hand(encoder):
    folder, model, tokenizer = encoder
    ids = [[tokenizer(text)["input_ids"] for text in example.references] for example in EXAMPLES]
    expected = [
        max(by_hand(model, 2, reference, tokenizer(text.strip())["input_ids"]) for reference in group)
        for group, text in zip(ids, TEXTS, strict=True)
    ]
    assert values(EXAMPLES, TEXTS, model=folder, layer=2) == pytest.approx(expected, abs=1e-5)


def test_a_copy_of_a_reference_is_one(encoder):
    found = values(EXAMPLES, [example.references[-1] for example in EXAMPLES], model=encoder[0], layer=3)
    assert found == pytest.approx([1.0] * len(EXAMPLES), abs=1e-6)


@pytest.mark.parametrize("batch_size", [1, 2, 5, 64])
@pytest.mark.parametrize("idf", [False, True])
def test_values_do_not_depend_on_the_batch(encoder, batch_size, idf):
    expected = values(EXAMPLES, TEXTS, model=encoder[0], layer=1, idf=idf)
    metric = make_metric("bertscore", model=encoder[0], layer=1, idf=idf, batch_size=batch_size)
    metric.prepare(EXAMPLES)
    assert metric.statistics(EXAMPLES[::-1], TEXTS[::-1])[::-1, 0] == pytest.approx(expected, abs=1e-5)
    alone = [metric.statistics([e], [t])[0, 0] for e, t in zip(EXAMPLES, TEXTS, strict=True)]
    assert alone == pytest.approx(expected, abs=1e-5)


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
    scorer = BERTScorer(model_type=str(tmp_path), num_layers=1, nthreads=0)
    assert float(scorer.score(["a", "the film is"], ["b", "the film is slow ."])[0][0]) == 0.0


# --- odd inputs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", PARTS)
def test_empty_texts_and_references_are_zero(encoder, part):
    examples = [EXAMPLES[0], Example("empty", "", (" ",)), Example("both", "", ("",))]
    for blank in tiny_bert.BLANK:
        found = values(examples, [blank, "the film", blank], model=encoder[0], layer=2, part=part)
        assert found.tolist() == [0.0, 0.0, 0.0]


def test_an_empty_reference_beside_another_does_not_count(encoder):
    both, one = Example("both", "", ("", "the film")), Example("one", "", ("the film",))
    expected = values([one], ["the end"], model=encoder[0], layer=2)
    assert expected[0] > 0
    assert values([both], ["the end"], model=encoder[0], layer=2) == pytest.approx(expected, abs=1e-6)


def test_odd_texts(encoder):
    examples = [Example(str(i), "", (text,)) for i, text in enumerate(tiny_bert.ODD)]
    found = values(examples, tiny_bert.ODD, model=encoder[0], layer=2)
    assert found == pytest.approx([1.0] * len(found), abs=1e-6)
    shifted = values(examples, [*tiny_bert.ODD[1:], tiny_bert.ODD[0]], model=encoder[0], layer=2)
    assert (shifted < 1).all()


def test_long_texts_are_cut_on_the_right(encoder):
    folder, _, tokenizer = encoder
    text, other = "the film is slow " * 30, "the film is slow " * 6000
    kept = tokenizer.decode(tiny_bert.plain_ids(tokenizer, text)[: tiny_bert.WINDOW - 2])
    examples = [EXAMPLES[0]] * 3
    first, second, third = values(examples, [text, kept, other], model=folder, layer=2)
    assert first == pytest.approx(second, abs=1e-5)
    assert third == pytest.approx(second, abs=1e-5)


def test_a_tokenizer_without_a_limit(encoder, tmp_path):
    folder, model, _ = encoder
    model.save_pretrained(tmp_path)
    tiny_bert.tokenizer(model_max_length=None).save_pretrained(tmp_path)
    expected = values(EXAMPLES, ["the film " * 100] * len(EXAMPLES), model=folder, layer=2)
    found = values(EXAMPLES, ["the film " * 100] * len(EXAMPLES), model=str(tmp_path), layer=2)
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_model_that_counts_positions_from_behind_its_padding(tmp_path):
    torch.manual_seed(8)
    model = RobertaModel(tiny_bert.config(RobertaConfig, pad_token_id=1), add_pooling_layer=False)
    folder, *_ = tiny_bert.save(tmp_path, model, model_max_length=None)
    long = "the film " * 100
    assert values([Example("long", "", (long,))], [long], model=folder, layer=2) == pytest.approx([1.0], abs=1e-6)


def test_no_reference_is_an_error(encoder):
    with pytest.raises(DataError, match="The example 'none' has no reference, which bertscore needs"):
        values([Example("none", "", ())], ["the film"], prepare=False, model=encoder[0], layer=2)


def test_no_examples(encoder):
    metric = make_metric("bertscore", model=encoder[0], layer=2)
    assert metric.statistics([], []).shape == (0, 1)


def test_a_damaged_model_is_an_error(encoder, tmp_path):
    folder = tiny_bert.damage(tmp_path, *encoder[1:])
    with pytest.raises(DataError) as caught:
        values(EXAMPLES, ["", *TEXTS[1:]], model=folder, layer=2)
    assert str(caught.value) == (
        f"The metric 'bertscore': {folder} gave a value that is not a finite number for the example 'e1'; "
        "its weights are damaged, or it does not work in float32. Take another copy or another model."
    )


# --- preparation -----------------------------------------------------------------------------------------------------


def test_prepared_references_are_embedded_once(encoder, monkeypatch):
    seen = []
    real = module.get_bert_embedding
    monkeypatch.setattr(module, "get_bert_embedding", lambda texts, *rest, **more: seen.extend(texts) or real(texts, *rest, **more))  # fmt: skip
    metric = make_metric("bertscore", model=encoder[0], layer=2)
    metric.prepare(EXAMPLES)
    first = metric.statistics(EXAMPLES, TEXTS)
    assert sorted(seen) == sorted({*TEXTS, *(text for group in REFERENCES for text in group)})
    seen.clear()
    second = metric.statistics(EXAMPLES, [text.upper() for text in TEXTS])
    assert sorted(seen) == sorted({text.upper() for text in TEXTS})
    assert first.tolist() != second.tolist()
    assert metric.statistics(EXAMPLES, TEXTS).tolist() == first.tolist()


def test_references_that_find_no_room_are_embedded_again(encoder, monkeypatch):
    expected = values(EXAMPLES, TEXTS, model=encoder[0], layer=2)
    monkeypatch.setattr(module, "MOST_KEPT", 16 * 4 * 30)
    metric = make_metric("bertscore", model=encoder[0], layer=2)
    metric.prepare(EXAMPLES)
    for _ in range(2):
        assert metric.statistics(EXAMPLES, TEXTS)[:, 0] == pytest.approx(expected, abs=1e-6)


def test_unprepared_references_give_the_same(encoder):
    expected = values(EXAMPLES, TEXTS, model=encoder[0], layer=2)
    assert values(EXAMPLES, TEXTS, prepare=False, model=encoder[0], layer=2) == pytest.approx(expected, abs=1e-6)


def test_blocks_of_examples_give_the_same(encoder, monkeypatch):
    expected = values(EXAMPLES, TEXTS, model=encoder[0], layer=2)
    monkeypatch.setattr(module, "BLOCK", 4)
    assert values(EXAMPLES, TEXTS, model=encoder[0], layer=2) == pytest.approx(expected, abs=1e-6)


def test_weights_by_rarity_stay_those_of_the_prepared_references(encoder):
    metric = make_metric("bertscore", model=encoder[0], layer=2, idf=True)
    metric.prepare(EXAMPLES)
    expected = library(encoder[0], 2, EXAMPLES, TEXTS, idf=True)
    found = [metric.statistics([e], [t])[0, 0] for e, t in zip(EXAMPLES, TEXTS, strict=True)]
    assert found == pytest.approx([row[2] for row in expected], abs=1e-5)


def test_weights_by_rarity_need_preparation(encoder):
    with pytest.raises(ConfigError) as caught:
        values(EXAMPLES, TEXTS, prepare=False, model=encoder[0], layer=2, idf=True)
    assert str(caught.value) == (
        "bertscore with idf weighs word pieces by how rare they are in references: call prepare(examples) first."
    )


# --- layers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer", [1, 2, 3])
def test_layers_are_cut_as_the_library_cuts_them(tmp_path, kind, layer):
    torch.manual_seed(9)
    folder, *_ = tiny_bert.save(tmp_path / kind, KINDS[kind]())
    ids = torch.tensor([[1, 40, 50, 60, 2], [1, 41, 2, 0, 0]])
    mask = (ids != 0).long()
    expected = get_model(folder, layer)(ids, attention_mask=mask)[0]
    found = load_encoder(folder, layers=layer)[0](ids, attention_mask=mask)[0]
    whole = load_encoder(folder)[0](ids, attention_mask=mask)[0]
    torch.testing.assert_close(found, expected)
    assert torch.equal(found, whole) == (layer == 3)


def test_encoders_are_shared_and_each_depth_stands_by_itself(encoder):
    folder, model, _ = encoder
    ids = torch.tensor([[1, 40, 50, 2]])
    states = model(ids, output_hidden_states=True).hidden_states
    for layer in (1, 3, 2):
        torch.testing.assert_close(load_encoder(folder, layers=layer)[0](ids)[0], states[layer])
    assert load_encoder(folder, layers=1)[0] is load_encoder(folder, layers=1)[0]
    assert not any(p.requires_grad for p in load_encoder(folder, layers=1)[0].parameters())


def test_a_layer_that_the_model_lacks_is_an_error(encoder):
    for layer in (4, -1):
        with pytest.raises(ConfigError) as caught:
            make_metric("bertscore", model=encoder[0], layer=layer)
        assert str(caught.value) == f"{encoder[0]} has the layers 1 to 3, not {layer}; give one of them."


@pytest.mark.parametrize(
    ("model", "layer"),
    [
        ("roberta-large", 17),
        ("FacebookAI/roberta-large", 17),
        ("bert-base-multilingual-cased", 9),
        ("google-bert/bert-base-multilingual-cased", 9),
        ("microsoft/deberta-xlarge-mnli", 40),
    ],
)
def test_recommended_layers(model, layer):
    assert module.recommended_layer(model) == layer


def test_a_folder_has_no_recommended_layer(encoder, tmp_path, monkeypatch):
    for model in (encoder[0], "someone/roberta-large"):
        with pytest.raises(ConfigError) as caught:
            make_metric("bertscore", model=model)
        assert str(caught.value) == (
            f"The metric 'bertscore': bert-score recommends no layer for {model}; set the option layer, "
            "say to two thirds of the model's number of layers."
        )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roberta-large").mkdir()
    with pytest.raises(ConfigError, match="recommends no layer for roberta-large"):
        module.recommended_layer("roberta-large")


def test_another_part_is_an_error(encoder):
    with pytest.raises(ConfigError) as caught:
        make_metric("bertscore", model=encoder[0], layer=1, part="F")
    assert str(caught.value) == "The metric 'bertscore': part must be one of precision, recall, f1, found 'F'."


def test_signature(encoder):
    metric = make_metric("bertscore", model=encoder[0], layer=2, idf=True, part="recall", batch_size=3)
    assert metric.direction == "higher"
    assert metric.signature == (
        f"bertscore|{signed(encoder[0])}|layer:2|idf:prepared|part:recall"
        f"|rescaled:no|cut:right|empty:0|refs:best|bert-score:{version('bert-score')}"
    )
