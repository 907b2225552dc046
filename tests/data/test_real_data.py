"""The `grue` suite on slices of the real data, with real tokenizers and without its models."""

import pytest
from support.late import late
from support.paths import REAL

import grue
from grue.data.load import load_examples
from grue.errors import Unavailable
from grue.task_files import load_task
from grue.tasks import Prompt

torch, transformers, stand_ins = late("torch"), late("transformers"), late("benchmarks.stand_ins")
language_models, tokens = late("grue.lm.load"), late("grue.lm.tokens")
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason=f"the slices of real data are not here: no folder {REAL}")


def load(name, split):
    return load_examples(load_task(name, "grue"), split, REAL / name).examples


def gpt2_tokenizer():
    folder = REAL / "tokenizers" / "gpt2"
    return transformers.GPT2Tokenizer(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"))


def t5_tokenizer():
    pieces, charsmap = stand_ins.read_sentencepiece(REAL / "tokenizers" / "t5" / "spiece.model")
    extra = [(f"<extra_id_{i}>", 0.0) for i in reversed(range(100))]
    return transformers.T5Tokenizer(vocab=[*pieces, *extra], _spm_precompiled_charsmap=charsmap)


def random_gpt2(folder):
    """A tiny GPT-2 with the real vocabulary: no pad token, and end-of-text as the beginning, too."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions=160)
    for one in (transformers.GPT2LMHeadModel(config), gpt2_tokenizer()):
        one.save_pretrained(folder)
    return folder


def random_t5(folder):
    """A tiny T5 with the real vocabulary, its embedding rows padded beyond it, as the published ones are."""
    torch.manual_seed(0)
    shape = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 32128}
    config = transformers.T5Config(**shape, decoder_start_token_id=0)
    for one in (transformers.T5ForConditionalGeneration(config), t5_tokenizer()):
        one.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("make", [gpt2_tokenizer, t5_tokenizer])
def test_the_real_tokenizers_read_special_tokens_as_text_and_all_else_as_before(make):
    from grue.lm.plain_text import read_as_text

    before, after = make(), make()
    read_as_text("m", after)
    texts = [text for e in load("imdb", "train")[:200] for text in (e.prompt, *e.references)]
    assert before(texts)["input_ids"] == after(texts)["input_ids"]
    for token in before.all_special_tokens:
        ids = after(f"a {token}{token} b {token}", add_special_tokens=False)["input_ids"]
        assert token == before.unk_token != before.eos_token or before.convert_tokens_to_ids(token) not in ids


def test_padding_with_the_end_token_changes_nothing_under_the_real_gpt2_tokenizer(tmp_path):
    from grue.lm.forward import forward

    model, tokenizer = language_models.load_language_model("causal", str(random_gpt2(tmp_path / "gpt2")))
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 50256
    long = [e for e in load("imdb", "train") if e.references and len(e.prompt.split()) > 64][:3]
    texts, answers = ["Short one.", *(e.prompt for e in long)], ["Good.", *(e.references[0] for e in long)]
    prompts = tokens.encode_prompts(model, tokenizer, texts, Prompt(64, "left"))
    responses = tokens.encode_responses(model, tokenizer, answers, 48)
    assert prompts.mask.sum(1).tolist()[1:] == [64, 64, 64]
    assert responses.ids[0][responses.mask[0]].tolist() == [*tokenizer(" Good.")["input_ids"], 50256]
    with torch.no_grad():
        together = forward(model, prompts, responses)[0]
        for row, (text, answer) in enumerate(zip(texts, answers, strict=True)):
            ids = tokenizer(text)["input_ids"][-64:]
            target = [*tokenizer(" " + answer)["input_ids"], 50256][:48]
            alone = model(torch.tensor([ids + target])).logits[0, len(ids) - 1 : -1]
            torch.testing.assert_close(together[row, : len(target)], alone, atol=2e-5, rtol=1e-4)


def test_the_real_t5_tokenizer_ends_prompts_and_cuts_no_concept(tmp_path):
    model, tokenizer = language_models.load_language_model("seq2seq", str(random_t5(tmp_path / "t5")))
    assert (len(tokenizer), tokenizer.pad_token_id, tokenizer.eos_token_id) == (32100, 0, 1)
    assert tokenizer("Hello world, it is great.")["input_ids"] == [8774, 296, 6, 34, 19, 248, 5, 1]
    examples, prompt = load("commongen", "test"), load_task("commongen", "grue").prompt
    prompts = tokens.encode_prompts(model, tokenizer, [e.prompt for e in examples], prompt)
    for example, ids, mask in zip(examples, prompts.ids, prompts.mask, strict=True):
        assert ids[mask][-1] == 1
        assert tokenizer.decode(ids[mask], skip_special_tokens=True) == example.prompt


def test_without_the_cache_the_message_names_the_model_and_the_cure(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "huggingface"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Unavailable) as caught:
        grue.train("imdb", "ppo", suite="grue", runs=tmp_path / "runs", data_dir=REAL / "imdb")
    # The model of the reward is met first, unless an earlier test has loaded it.
    missing = str(caught.value).split()[0]
    assert missing in ("lvwerra/distilbert-imdb", "lvwerra/gpt2-imdb")
    assert f"{missing} is neither a local folder nor available from the hub" in str(caught.value)
    assert f"hf download {missing}`" in str(caught.value)
    assert caught.value.exit_code == 3 and not (tmp_path / "runs").exists()
