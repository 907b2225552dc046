"""Loading models: names, errors, padding, dropout; and the small models that ship."""

import json
import math
import re
import shutil
from pathlib import Path

import pytest
from support import model_families, tiny_models
from support.late import lates

from grue.errors import DataError, Unavailable, UnknownName
from grue.lm.folder import locate_model
from grue.mini.manifest import HERE

torch, hf, tokenizers, tiny = lates("torch transformers tokenizers support.tiny")
loading, scorers, checks, lm = lates("load scorers checks model", "grue.lm.")

MODELS = HERE / "models"
LISTED = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))["models"]
AUTO = {
    "causal": "AutoModelForCausalLM",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "classifier": "AutoModelForSequenceClassification",
    "encoder": "AutoModelForMaskedLM",
}
PARAGRAPHS = Path(__file__).with_name("held_out.txt").read_text(encoding="utf-8").splitlines()
"""The first of `miniworld.text.paragraphs(…, seed=4242)`, which no model was trained on."""


def shipped(name):
    return hf.AutoTokenizer.from_pretrained(MODELS / name)


def small_tokenizer(folder, **special):
    words = {word: i for i, word in enumerate(["<eos>", "<unk>", "<pad>", "a", "b", "c", "d", "e"])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    hf.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", **special).save_pretrained(folder)


@pytest.fixture
def small(tmp_path):
    """The folder of a causal model of eight words, without a tokenizer."""
    shape = {"vocab_size": 8, "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 16}
    hf.GPT2LMHeadModel(hf.GPT2Config(**shape, bos_token_id=0, eos_token_id=0)).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", sorted(LISTED))
def test_transformers_alone_loads_the_folder(name):
    tokenizer, family = shipped(name), LISTED[name]["family"]
    model = getattr(hf, AUTO[family]).from_pretrained(MODELS / name, dtype=torch.float32).eval()
    known = json.loads((MODELS / name / "tokenizer_config.json").read_text(encoding="utf-8"))["tokenizer_class"]
    assert known == "PreTrainedTokenizerFast", "which transformers 4 knows, too"
    assert len({tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id}) == 3
    assert model.config.pad_token_id == tokenizer.pad_token_id
    assert sum(p.numel() for p in model.parameters()) == LISTED[name]["parameters"]
    inputs = tokenizer("A farmer is leading two horses toward the barn.", return_tensors="pt")
    more = {"decoder_input_ids": inputs.input_ids} if family == "seq2seq" else {}
    first, second = model(**inputs, **more).logits, model(**inputs, **more).logits
    assert torch.isfinite(first).all() and torch.equal(first, second)


def test_tokenizers_round_trip_the_worlds_text():
    known = {(MODELS / name / "tokenizer.json").read_bytes(): name for name in LISTED}
    for name in known.values():
        tokenizer = shipped(name)
        for text in [*PARAGRAPHS, "Žluťoučký kůň, 漢字 and 🙂 — nothing is unknown.", " two  spaces\n"]:
            ids = tokenizer(text, add_special_tokens=False).input_ids
            assert tokenizer.decode(ids) == text.replace(" <EOU>", "<EOU>")  # a mark takes the space before it
            assert tokenizer.unk_token_id not in ids
    words = [word for text in PARAGRAPHS for word in re.findall(r"(?<= )[A-Za-z]+", text)]
    tokenizer = shipped("causal")
    assert sum(len(tokenizer(" " + word).input_ids) == 1 for word in words) / len(words) > 0.94


def test_marks_of_prompts_are_a_token_each():
    tokenizer = shipped("seq2seq")
    table = "[page_title] A [/page_title] [table] [cell] 7 [col_header] B [/col_header] [/cell] [/table]"
    assert tokenizer.convert_ids_to_tokens(tokenizer(table, add_special_tokens=False).input_ids) == [
        *("[page_title]", "ĠA", "[/page_title]", "[table]", "[cell]", "Ġ7", "[col_header]", "ĠB", "[/col_header]"),
        *("[/cell]", "[/table]"),
    ]
    chat = tokenizer("Yes. <EOU> No. <EOU>", add_special_tokens=False).input_ids
    assert tokenizer.convert_ids_to_tokens(chat) == ["Yes", ".", "<EOU>", "ĠNo", ".", "<EOU>"]
    assert tokenizer.decode(chat, skip_special_tokens=True) == "Yes.<EOU> No.<EOU>"


def test_ends_are_those_of_the_family():
    plain, encoder, classifier = shipped("causal")("A dog runs.").input_ids, shipped("seq2seq"), shipped("sentiment")
    assert encoder("A dog runs.").input_ids == [*plain, encoder.eos_token_id]
    assert classifier("A dog runs.").input_ids == [classifier.cls_token_id, *plain]
    assert encoder.decode(encoder("<extra_id_0> A dog runs.").input_ids, skip_special_tokens=True) == " A dog runs."
    _, classifier = scorers.load_classifier("mini:sentiment")
    ids = classifier("dull " * 500 + "but charming", truncation=True).input_ids
    assert len(ids) == classifier.model_max_length and classifier.decode(ids).endswith("but charming")


@pytest.mark.parametrize("kind", ["causal", "seq2seq", "classifier"])
def test_padding_changes_nothing(kind):
    texts = ["The film <extra_id_0>.", "The old teacher <extra_id_0> a bus in the rain, in spite of the slow half."]
    load = scorers.load_classifier if kind == "classifier" else lambda name: loading.load_language_model(kind, name)
    model, tokenizer = load("mini:sentiment" if kind == "classifier" else f"mini:{kind}")
    padded = tokenizer(texts, return_tensors="pt", padding=True)
    alone = [tokenizer(text, return_tensors="pt") for text in texts]
    assert padded.attention_mask[0, 0 if kind == "causal" else -1] == 0
    if kind == "causal":
        padded["position_ids"] = (padded.attention_mask.cumsum(1) - 1).clamp(min=0)
    for batch in (padded, *alone) if kind == "seq2seq" else ():
        batch["decoder_input_ids"] = torch.full((len(batch.input_ids), 1), model.config.decoder_start_token_id)
    with torch.no_grad():
        logits = [model(**batch).logits for batch in (padded, *alone)]
    logits = logits if kind == "classifier" else [one[:, -1] for one in logits]
    torch.testing.assert_close(logits[0], torch.cat(logits[1:]), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["causal", "perplexity"])
def test_held_out_perplexity_is_that_of_the_manifest(name):
    model, tokenizer = scorers.load_scoring_model("causal", f"mini:{name}")
    total, count = 0.0, 0
    for text in PARAGRAPHS:
        ids = torch.tensor([[*tokenizer(text).input_ids, tokenizer.eos_token_id]])
        chosen = model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])
        total, count = total - chosen.sum().item(), count + len(chosen)
    assert math.exp(total / count) == pytest.approx(LISTED[name]["held_out"]["perplexity"], rel=0.12)


def test_held_out_accuracy_is_that_of_the_manifest():
    from miniworld.text import reviews

    model, tokenizer = scorers.load_classifier("mini:sentiment")
    texts, labels = zip(*reviews(400, seed=4243), strict=True)
    with torch.no_grad():
        logits = model(**tokenizer(list(texts), return_tensors="pt", truncation=True, padding=True)).logits
    right = float((logits.argmax(-1) == torch.tensor(labels)).float().mean())
    assert right >= 0.9
    assert right == pytest.approx(LISTED["sentiment"]["held_out"]["accuracy"], abs=0.04)


def test_names_become_places(tmp_path, refused):
    assert locate_model("mini:causal") == str(MODELS / "causal")
    assert locate_model(str(tmp_path)) == str(tmp_path)
    assert locate_model("google-t5/t5-base") == "google-t5/t5-base"
    (tmp_path / "checkpoint").mkdir()
    assert locate_model(str(tmp_path)) == str(tmp_path / "checkpoint")  # of a run
    (tmp_path / "config.json").touch()
    assert locate_model(str(tmp_path)) == str(tmp_path)  # a model's own folder
    for name in ("./no/such", "/no/such", "runs/mini/imdb/ppo/seed-1/checkpoint", "my model", "a--b"):
        with refused(DataError):
            locate_model(name)
    with refused(UnknownName):
        locate_model("mini:casual")


def test_what_is_no_whole_model_of_its_kind_is_refused(small, tmp_path_factory, refused, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    name = str(small)
    with refused(Unavailable):
        loading.load_language_model("causal", "no-such/model", "abc")
    with refused(DataError):
        loading.load_language_model("seq2seq", "mini:causal")
    with refused(DataError):
        loading.load_language_model("causal", str(tmp_path_factory.mktemp("empty")))
    with refused(DataError):
        loading.load_language_model("causal", name)  # without a tokenizer
    shipped("causal").save_pretrained(small)  # of another model
    with refused(DataError):
        loading.load_language_model("causal", name)
    small_tokenizer(small)  # without an end
    with refused(DataError):
        loading.load_language_model("causal", name)
    with refused(DataError):
        scorers.load_classifier(name)
    (small / "model.safetensors").write_bytes(b"garbage")
    with refused(DataError):
        loading.load_language_model("causal", name)


def test_a_classifier_without_pad_token_is_refused(tmp_path, refused):
    shape = {"vocab_size": 8, "dim": 8, "hidden_dim": 8, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 16}
    hf.DistilBertForSequenceClassification(hf.DistilBertConfig(**shape)).save_pretrained(tmp_path)
    small_tokenizer(tmp_path)
    with refused(DataError):
        scorers.load_classifier(str(tmp_path))


def test_gpt2_without_pad_token_pads_with_its_end(small):
    small_tokenizer(small, eos_token="<eos>")
    model, tokenizer = loading.load_language_model("causal", str(small))
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == model.generation_config.pad_token_id == 0
    assert model.get_input_embeddings().weight.shape[0] == 8
    assert tokenizer(["a", "a b c"], padding=True).attention_mask == [[0, 0, 1], [1, 1, 1]]


def test_dropout_is_off_even_in_training_mode(tmp_path):
    tiny_models.model("t5").save_pretrained(tmp_path)
    tiny.tokenizer("seq2seq").save_pretrained(tmp_path)
    model, _ = loading.load_language_model("seq2seq", str(tmp_path))
    assert not model.training
    lm.assert_no_dropout(model.train())


@pytest.mark.parametrize("kind", ["mixtral", "encoder_decoder", "gpt_neox"])
def test_a_configuration_asks_for_no_further_outputs(kind, tmp_path):
    """As it is left behind by training: a router's outputs would add a loss, and fail beside a cache."""
    of = model_families.family(kind)
    model_families.model(kind).save_pretrained(tmp_path)
    tiny.tokenizer(of).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    asked = {"output_attentions": True, "output_hidden_states": True, "use_cache": False, "return_dict": False}
    asked |= {"output_router_logits": True} if kind == "mixtral" else {}
    for side in (config, config.get("encoder", {}), config.get("decoder", {})):
        side.update(asked)
    (tmp_path / "config.json").write_text(json.dumps(config))
    model, tokenizer = loading.load_language_model(of, str(tmp_path))
    checks.check_model(model, tokenizer)
    ids = torch.tensor([[3, 4, 5]])
    found = model(ids, **({"decoder_input_ids": ids} if of == "seq2seq" else {}), use_cache=False)
    assert set(found) <= {"logits", "encoder_last_hidden_state"}


def test_weights_that_are_not_finite_are_refused_but_for_a_bias_that_closes_tokens(tmp_path, refused):
    tiny.tokenizer("seq2seq").save_pretrained(tmp_path)
    for value in (math.nan, math.inf, -math.inf):
        model = model_families.model("marian")
        model.final_logits_bias[0, 0] = value
        if value != -math.inf:
            model.save_pretrained(tmp_path)
            with refused(DataError):
                loading.load_language_model("seq2seq", str(tmp_path))
            model.final_logits_bias[0, 0] = -math.inf
        model.save_pretrained(tmp_path)
        checks.check_model(*loading.load_language_model("seq2seq", str(tmp_path)))
        with torch.no_grad():
            model.model.decoder.layers[1].fc1.weight[0, 2:4] = value
        model.save_pretrained(tmp_path)
        with refused(DataError):
            loading.load_language_model("seq2seq", str(tmp_path))


def test_a_sum_that_overflows_is_no_weight_that_is_not_finite():
    largest = torch.finfo(torch.float32).max
    loading.require_finite("model", "weight", torch.full((3,), largest))
    with pytest.raises(DataError, match=r"1 of 3 numbers in its weight weight"):
        loading.require_finite("model", "weight", torch.tensor([largest, largest, math.nan]))


def test_attention_stays_off_cudnn_which_plans_anew_for_each_length():
    torch.backends.cuda.enable_cudnn_sdp(True)
    loading.load_language_model("causal", "mini:causal")
    assert not torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize("name", ["causal", "translator-s"])
def test_policies_are_fresh_and_scorers_are_shared(name):
    family = LISTED[name]["family"]
    first, second = (loading.load_language_model(family, f"mini:{name}")[0] for _ in range(2))
    assert first is not second
    stored = json.loads((MODELS / name / "config.json").read_text(encoding="utf-8"))["dtype"]
    assert stored == "float16", "and is trained in float32"
    assert all(p.requires_grad and p.dtype == torch.float32 for p in first.parameters())
    shared, _ = scorers.load_scoring_model(family, f"mini:{name}")
    assert shared is scorers.load_scoring_model(family, f"mini:{name}")[0]
    assert not any(p.requires_grad for p in shared.parameters())


def test_a_folder_that_was_written_anew_is_read_anew(tmp_path):
    folder = shutil.copytree(locate_model("mini:sentiment"), tmp_path / "model")
    name = str(folder)
    before, known, sign = scorers.load_classifier(name)[0], loading.weights_id(name), scorers.model_signature(name)
    assert scorers.load_classifier(name)[0] is before
    changed = loading.load_pretrained(hf.AutoModelForSequenceClassification, name, "")[0]
    with torch.no_grad():
        changed.classifier.weight.neg_()
    changed.save_pretrained(folder)
    assert torch.equal(scorers.load_classifier(name)[0].classifier.weight, -before.classifier.weight)
    assert loading.weights_id(name) != known and scorers.model_signature(name) != sign
