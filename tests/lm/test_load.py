"""Loading models: names, errors, padding, dropout; and the small models that ship."""

import json
import math
import re
import shutil

import pytest
import torch
from support import model_families, tiny
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from grue.errors import DataError, UnknownName
from grue.lm.checks import check_model
from grue.lm.folder import locate_model
from grue.lm.load import load_language_model, load_pretrained, weights_id
from grue.lm.scorers import load_classifier, load_scoring_model, signed
from grue.mini.manifest import HERE
from miniworld.text import paragraphs, reviews

MODELS = HERE / "models"
LISTED = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))["models"]
NAMES = sorted(LISTED)
LANGUAGE_MODELS = [name for name in NAMES if LISTED[name]["family"] in ("causal", "seq2seq")]
AUTO = {
    "causal": AutoModelForCausalLM,
    "seq2seq": AutoModelForSeq2SeqLM,
    "classifier": AutoModelForSequenceClassification,
    "encoder": AutoModelForMaskedLM,
}


def family(name):
    return LISTED[name]["family"]


def small_tokenizer(**special):
    words = {word: i for i, word in enumerate(["<eos>", "<unk>", "<pad>", "a", "b", "c", "d", "e"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", **special)


def small_gpt2(folder):
    shape = {"vocab_size": 8, "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 16}
    GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0)).save_pretrained(folder)
    return folder


# --- the small models that ship --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_transformers_alone_loads_the_folder(name):
    folder = MODELS / name
    model = AUTO[family(name)].from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len({tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id}) == 3
    assert model.config.pad_token_id == tokenizer.pad_token_id
    assert sum(p.numel() for p in model.parameters()) == LISTED[name]["parameters"]
    inputs = tokenizer("A farmer is leading two horses toward the barn.", return_tensors="pt")
    more = {"decoder_input_ids": inputs.input_ids} if family(name) == "seq2seq" else {}
    first, second = model(**inputs, **more).logits, model(**inputs, **more).logits
    assert torch.isfinite(first).all()
    assert torch.equal(first, second)


@pytest.mark.parametrize("name", NAMES)
def test_tokenizer_class_is_one_that_transformers_4_knows_too(name):
    config = json.loads((MODELS / name / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"


@pytest.mark.parametrize("name", NAMES)
def test_tokenizer_round_trips_world_text(name):
    tokenizer = AutoTokenizer.from_pretrained(MODELS / name)
    for text in [*paragraphs(200, seed=77), "Žluťoučký kůň, 漢字 and 🙂 — nothing is unknown.", " two  spaces\n"]:
        ids = tokenizer(text, add_special_tokens=False).input_ids
        assert tokenizer.decode(ids) == text.replace(" <EOU>", "<EOU>")  # a mark takes the space before it
        assert tokenizer.unk_token_id not in ids


def test_marks_of_prompts_are_a_token_each():
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "seq2seq")
    table = "[page_title] A [/page_title] [table] [cell] 7 [col_header] B [/col_header] [/cell] [/table]"
    assert tokenizer.convert_ids_to_tokens(tokenizer(table, add_special_tokens=False).input_ids) == [
        *("[page_title]", "ĠA", "[/page_title]", "[table]", "[cell]", "Ġ7", "[col_header]", "ĠB", "[/col_header]"),
        *("[/cell]", "[/table]"),
    ]
    chat = tokenizer("Yes. <EOU> No. <EOU>", add_special_tokens=False).input_ids
    assert tokenizer.convert_ids_to_tokens(chat) == ["Yes", ".", "<EOU>", "ĠNo", ".", "<EOU>"]
    assert tokenizer.decode(chat, skip_special_tokens=True) == "Yes.<EOU> No.<EOU>"


def test_nearly_every_word_of_the_world_is_one_token():
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "causal")
    words = [word for text in paragraphs(200, seed=78) for word in re.findall(r"(?<= )[A-Za-z]+", text)]
    whole = sum(len(tokenizer(" " + word).input_ids) == 1 for word in words)
    assert whole / len(words) > 0.94


def test_ends_are_those_of_the_family():
    text = "A dog runs."
    plain = AutoTokenizer.from_pretrained(MODELS / "causal")(text).input_ids
    encoder = AutoTokenizer.from_pretrained(MODELS / "seq2seq")
    classifier = AutoTokenizer.from_pretrained(MODELS / "sentiment")
    assert encoder(text).input_ids == [*plain, encoder.eos_token_id]
    assert classifier(text).input_ids == [classifier.cls_token_id, *plain]
    assert encoder.decode(encoder("<extra_id_0> A dog runs.").input_ids, skip_special_tokens=True) == " A dog runs."


def test_left_padding_changes_nothing_in_a_causal_model():
    model, tokenizer = load_language_model("causal", "mini:causal")
    texts = ["The film", "The old teacher was waiting for a bus in the rain, and"]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    assert batch.attention_mask[0, 0] == 0
    positions = (batch.attention_mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        padded = model(**batch, position_ids=positions).logits[:, -1]
        alone = [model(**tokenizer(text, return_tensors="pt")).logits[0, -1] for text in texts]
    torch.testing.assert_close(padded, torch.stack(alone), atol=1e-4, rtol=1e-4)


def test_right_padding_changes_nothing_in_an_encoder_decoder():
    model, tokenizer = load_language_model("seq2seq", "mini:seq2seq")
    texts = ["A dog <extra_id_0> the park.", "The old teacher <extra_id_0> a bus in the rain and <extra_id_1>."]
    start = torch.tensor([[model.config.decoder_start_token_id]])
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    assert batch.attention_mask[0, -1] == 0
    with torch.no_grad():
        padded = model(**batch, decoder_input_ids=start.expand(2, 1)).logits[:, -1]
        alone = [model(**tokenizer(t, return_tensors="pt"), decoder_input_ids=start).logits[0, -1] for t in texts]
    torch.testing.assert_close(padded, torch.stack(alone), atol=1e-4, rtol=1e-4)


def test_padding_changes_nothing_in_the_classifier():
    model, tokenizer = load_classifier("mini:sentiment")
    texts = ["The plot is dull.", "I laughed, I cried, and I want to see it again, in spite of the slow second half."]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    assert batch.attention_mask[0, -1] == 0
    alone = [model(**tokenizer(text, return_tensors="pt")).logits[0] for text in texts]
    torch.testing.assert_close(model(**batch).logits, torch.stack(alone), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["causal", "perplexity"])
def test_held_out_perplexity_is_that_of_the_manifest(name):
    model, tokenizer = load_scoring_model("causal", f"mini:{name}")
    total, count = 0.0, 0
    for text in paragraphs(300, seed=4242):
        ids = [*tokenizer(text).input_ids, tokenizer.eos_token_id]
        chosen = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        total -= sum(chosen[position, target].item() for position, target in enumerate(ids[1:]))
        count += len(ids) - 1
    assert math.exp(total / count) == pytest.approx(LISTED[name]["held_out"]["perplexity"], rel=0.12)


def test_held_out_accuracy_is_that_of_the_manifest():
    model, tokenizer = load_classifier("mini:sentiment")
    right = 0
    for text, label in reviews(400, seed=4243):
        logits = model(**tokenizer(text, return_tensors="pt", truncation=True)).logits[0]
        right += (logits[1] > logits[0]) == bool(label)
    assert right / 400 >= 0.9
    assert right / 400 == pytest.approx(LISTED["sentiment"]["held_out"]["accuracy"], abs=0.04)


def test_classifier_cuts_long_texts_on_the_left():
    _, tokenizer = load_classifier("mini:sentiment")
    ids = tokenizer("dull " * 500 + "but charming", truncation=True).input_ids
    assert len(ids) == tokenizer.model_max_length
    assert tokenizer.decode(ids).endswith("but charming")


def test_unknown_small_model_is_an_error_that_helps():
    with pytest.raises(UnknownName, match=r"no small model 'casual'\. Did you mean 'causal'\? Known: acts, "):
        locate_model("mini:casual")


# --- names and loading -----------------------------------------------------------------------------------------------


def test_names_become_places(tmp_path):
    assert locate_model("mini:causal") == str(MODELS / "causal")
    assert locate_model(str(tmp_path)) == str(tmp_path)
    assert locate_model("google-t5/t5-base") == "google-t5/t5-base"
    (tmp_path / "checkpoint").mkdir()
    assert locate_model(str(tmp_path)) == str(tmp_path / "checkpoint")  # of a run
    (tmp_path / "config.json").touch()
    assert locate_model(str(tmp_path)) == str(tmp_path)  # a model's own folder


@pytest.mark.parametrize("name", ["./no/such", "/no/such", "runs/mini/imdb/ppo/seed-1/checkpoint", "my model", "a--b"])
def test_path_without_folder_is_an_error(name):
    with pytest.raises(DataError, match=f"There is no folder '{re.escape(name)}': give the folder of a saved model"):
        locate_model(name)


def test_hub_model_that_cannot_be_had_is_an_error(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match="no-such/model at revision abc is neither a local folder nor available"):
        load_language_model("causal", "no-such/model", "abc")


def test_other_family_is_an_error():
    with pytest.raises(DataError, match="mini:causal cannot be loaded as an encoder-decoder language model"):
        load_language_model("seq2seq", "mini:causal")


def test_language_model_is_no_classifier(tmp_path):
    small_gpt2(tmp_path)
    small_tokenizer(pad_token="<pad>", eos_token="<eos>").save_pretrained(tmp_path)
    with pytest.raises(DataError, match=r"is not a text classifier: weights are missing or misshapen \(score.weight\)"):
        load_classifier(str(tmp_path))


def test_empty_folder_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"cannot be loaded as a causal .*\. The folder must hold config\.json"):
        load_language_model("causal", str(tmp_path))


def test_broken_weights_are_an_error(tmp_path):
    (small_gpt2(tmp_path) / "model.safetensors").write_bytes(b"garbage")
    with pytest.raises(DataError, match=r"model\.safetensors: not a complete safetensors file: 7 bytes"):
        load_language_model("causal", str(tmp_path))


def test_missing_tokenizer_is_an_error(tmp_path):
    small_gpt2(tmp_path)
    with pytest.raises(DataError, match="has no tokenizer: save the tokenizer beside the model"):
        load_language_model("causal", str(tmp_path))


def test_tokenizer_of_another_model_is_an_error(tmp_path):
    small_gpt2(tmp_path)
    AutoTokenizer.from_pretrained(MODELS / "causal").save_pretrained(tmp_path)
    with pytest.raises(DataError, match=r"its tokenizer knows \d+ tokens and its model 8"):
        load_language_model("causal", str(tmp_path))


def test_tokenizer_without_end_is_an_error(tmp_path):
    small_gpt2(tmp_path)
    small_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(DataError, match="has no end-of-text token"):
        load_language_model("causal", str(tmp_path))


def test_gpt2_without_pad_token_pads_with_its_end(tmp_path):
    small_gpt2(tmp_path)
    small_tokenizer(eos_token="<eos>").save_pretrained(tmp_path)
    model, tokenizer = load_language_model("causal", str(tmp_path))
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == model.generation_config.pad_token_id == 0
    assert model.get_input_embeddings().weight.shape[0] == 8
    assert tokenizer(["a", "a b c"], padding=True).attention_mask == [[0, 0, 1], [1, 1, 1]]


def test_classifier_without_pad_token_is_an_error(tmp_path):
    shape = {"vocab_size": 8, "dim": 8, "hidden_dim": 8, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 16}
    DistilBertForSequenceClassification(DistilBertConfig(**shape)).save_pretrained(tmp_path)
    small_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(DataError, match="has no pad token"):
        load_classifier(str(tmp_path))


def test_dropout_is_off_even_in_training_mode(tmp_path):
    shape = {"vocab_size": 8, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 2, "num_heads": 2}
    T5ForConditionalGeneration(T5Config(**shape, dropout_rate=0.5, decoder_start_token_id=0)).save_pretrained(tmp_path)
    small_tokenizer(pad_token="<pad>", eos_token="<eos>").save_pretrained(tmp_path)
    model, _ = load_language_model("seq2seq", str(tmp_path))
    assert not model.training
    model.train()
    ids = torch.tensor([[3, 4, 5]])
    assert torch.equal(model(ids, decoder_input_ids=ids).logits, model(ids, decoder_input_ids=ids).logits)


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
    model, tokenizer = load_language_model(of, str(tmp_path))
    check_model(model, tokenizer)
    ids = torch.tensor([[3, 4, 5]])
    found = model(ids, **({"decoder_input_ids": ids} if of == "seq2seq" else {}), use_cache=False)
    assert set(found) <= {"logits", "encoder_last_hidden_state"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_refused(value, tmp_path):
    model, tokenizer = tiny.model("causal"), tiny.tokenizer("causal")
    with torch.no_grad():
        model.transformer.h[1].mlp.c_fc.weight[0, 2:4] = value
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    told = r"2 of 4,096 numbers in its weight transformer\.h\.1\.mlp\.c_fc\.weight are NaN or infinite"
    with pytest.raises(DataError, match=told):
        load_language_model("causal", str(tmp_path))


def test_a_bias_of_the_logits_may_close_tokens_by_minus_infinity(tmp_path):
    tiny.tokenizer("seq2seq").save_pretrained(tmp_path)
    for value, fine in ((-math.inf, True), (math.inf, False), (math.nan, False)):
        model = model_families.model("marian")
        model.final_logits_bias[0, 0] = value
        model.save_pretrained(tmp_path)
        if fine:
            check_model(*load_language_model("seq2seq", str(tmp_path)))
        else:
            with pytest.raises(DataError, match="its weight final_logits_bias are NaN or infinite"):
                load_language_model("seq2seq", str(tmp_path))


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_policies_are_fresh_and_scorers_are_shared(name):
    first, _ = load_language_model(family(name), f"mini:{name}")
    second, _ = load_language_model(family(name), f"mini:{name}")
    assert first is not second
    assert first.dtype == torch.float32
    assert all(p.requires_grad for p in first.parameters())
    shared, _ = load_scoring_model(family(name), f"mini:{name}")
    assert shared is load_scoring_model(family(name), f"mini:{name}")[0]
    assert not any(p.requires_grad for p in shared.parameters())


def test_a_folder_that_was_written_anew_is_read_anew(tmp_path):
    folder = shutil.copytree(locate_model("mini:sentiment"), tmp_path / "model")
    before, known, sign = load_classifier(str(folder))[0], weights_id(str(folder)), signed(str(folder))
    assert load_classifier(str(folder))[0] is before
    changed = load_pretrained(AutoModelForSequenceClassification, str(folder), "")[0]
    with torch.no_grad():
        changed.classifier.weight.neg_()
    changed.save_pretrained(folder)
    after = load_classifier(str(folder))[0]
    assert torch.equal(after.classifier.weight, -before.classifier.weight)
    assert weights_id(str(folder)) != known and signed(str(folder)) != sign


def test_code_in_a_models_folder_is_neither_run_nor_asked_about(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("builtins.input", lambda *prompt: asked.append(prompt) or "y")
    model, tokenizer = load_language_model("causal", "mini:causal")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    config = json.loads((tmp_path / "config.json").read_text())
    named = {"AutoConfig": "theirs.Config", "AutoModelForCausalLM": "theirs.Model"}
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "theirs", "auto_map": named}))
    with pytest.raises(DataError, match="`auto_map` names Python code, which is never run"):
        load_language_model("causal", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(config))
    path = tmp_path / "tokenizer_config.json"
    settings = {"tokenizer_class": "Theirs", "auto_map": {"AutoTokenizer": ["theirs.Theirs", None]}}
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    with pytest.raises(DataError, match="tokenizer_config.json: `auto_map` names Python code"):
        load_language_model("causal", str(tmp_path))
    assert not asked and not (tmp_path / "ran").exists()
