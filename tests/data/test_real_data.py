"""The `grue` suite against slices of the real data, real tokenizers, and a Hugging Face cache with stand-in models."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
    T5Config,
    T5ForConditionalGeneration,
    T5Tokenizer,
)

from benchmarks.stand_ins import read_sentencepiece
from grue.data.load import differences, load_examples
from grue.evaluation.predictions import read_predictions, write_predictions
from grue.lm.checkpoint import read_manifest
from grue.lm.forward import forward
from grue.lm.load import load_language_model
from grue.lm.plain_text import read_as_text
from grue.lm.tokens import Tokens, encode_prompts, encode_responses
from grue.mini.manifest import HERE
from grue.records import Prediction
from grue.task_files import load_task
from grue.tasks import Prompt

REAL = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason=f"the slices of real data are not here: no folder {REAL}")

CONCEPTS = re.compile(r"generate a sentence with: ([a-z]+(?: [a-z]+){1,4})\.")
TINY = {
    "updates": 2,
    "rollouts": 4,
    "minibatch_size": 4,
    "epochs": 1,
    "validation_examples": 4,
    "validate_every": 1,
    "learning_rate": 1e-3,
}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


# --- loading ---------------------------------------------------------------------------------------------------------


def load(name, split):
    return load_examples(load_task(name, "grue"), split, REAL / name)


def test_the_whole_commongen_dev_set_is_the_frozen_test_split():
    loaded = load("commongen", "test")
    assert (loaded.rows, len(loaded.examples)) == (993, 992)
    assert sum(len(example.references) for example in loaded.examples) == 4018
    assert loaded.ids_sha256 == load_task("commongen", "grue").data.splits["test"].ids_sha256
    assert loaded.provenance()["source"] == str(REAL / "commongen")
    assert loaded.checked is False


@pytest.mark.parametrize("name", ["wmt16", "narrativeqa", "dailydialog"])
@pytest.mark.parametrize("split", ["validation", "test"])
def test_the_ids_of_the_complete_splits_are_pinned(name, split):
    loaded, pinned = load(name, split), load_task(name, "grue").data.splits[split]
    assert pinned.ids_sha256 and list(differences(pinned, loaded)) == []


@pytest.mark.parametrize(
    ("name", "part", "examples"), [("dailydialog", "hf_dummy/ijcnlp_dailydialog", 7), ("narrativeqa", "hf_dummy", 1)]
)
def test_a_part_in_another_layout_has_the_ids_of_the_whole_and_is_not_taken_for_it(name, part, examples):
    task = load_task(name, "grue")
    some = load_examples(task, "test", REAL / name / part)
    assert len(some.examples) == examples
    assert {one.id for one in some.examples} < {one.id for one in load(name, "test").examples}
    assert not task.data.splits["test"].fits(None, some.ids_sha256)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_commongen_prompts_are_concepts_and_references_are_sentences(split):
    for example in load("commongen", split).examples:
        found = CONCEPTS.fullmatch(example.prompt)
        assert found, example.prompt
        assert found[1].split() == example.meta["concepts"]
        assert example.references
        assert all(len(reference.split()) > 1 for reference in example.references)


def test_commongen_train_and_validation_share_nothing_and_lose_nothing():
    train, validation = load("commongen", "train"), load("commongen", "validation")
    path = REAL / "commongen" / "official" / "commongen.train.first1500.tgt.txt"
    sentences = path.read_text(encoding="utf-8").splitlines()
    assert train.rows == validation.rows == len(sentences) == 1500
    found = [r for loaded in (train, validation) for e in loaded.examples for r in e.references]
    assert sorted(found) == sorted(sentences)
    assert not {e.id for e in train.examples} & {e.id for e in validation.examples}
    assert len(validation.examples) == round(0.02 * (len(train.examples) + len(validation.examples)))


def test_imdb_splits_take_their_shares_of_the_reviews():
    sizes = {split: len(load("imdb", split).examples) for split in ("train", "validation", "test")}
    assert sizes == {"train": 400, "validation": 100, "test": 100}
    assert len(list((REAL / "imdb" / "aclImdb").glob("*/*/*.txt"))) == 1000
    train, validation = ({e.id for e in load("imdb", split).examples} for split in ("train", "validation"))
    assert not train & validation


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_imdb_prompts_are_first_halves_and_only_good_reviews_have_a_reference(split):
    folder = REAL / "imdb" / "aclImdb" / ("test" if split == "test" else "train")
    names = ("neg", "pos")
    raw = [[letters(path.read_bytes().decode()) for path in (folder / name).glob("*.txt")] for name in names]
    for example in load("imdb", split).examples:
        assert "<br" not in example.prompt
        assert len(example.references) == example.meta["label"]
        reviews = [review for review in raw[example.meta["label"]] if review.startswith(letters(example.prompt))]
        assert reviews
        if example.references:
            assert letters(example.prompt + example.references[0]) in reviews
            assert len(example.references[0].split(" ")) - len(example.prompt.split(" ")) in (0, 1)


def letters(text):
    """The text without line breaks and spaces, which the format may change."""
    return text.replace("<br />", "").replace(" ", "")


def test_next_line_characters_survive_loading_and_predicting(tmp_path):
    examples = [e for split in ("train", "validation", "test") for e in load("imdb", split).examples]
    texts = [text for e in examples for text in (e.prompt, *e.references) if "\x85" in text]
    for known in ('"Best Of\x85" film lists', "fiery climax)\x85though the", 'custard pie artist \x85" who'):
        assert any(known in text for text in texts)
    written = [Prediction(f"p{i}", text) for i, text in enumerate(texts)]
    write_predictions(tmp_path / "predictions.jsonl", written)
    assert read_predictions(tmp_path / "predictions.jsonl") == written


# --- the real tokenizers ---------------------------------------------------------------------------------------------


def real_gpt2_tokenizer():
    folder = REAL / "tokenizers" / "gpt2"
    return GPT2Tokenizer(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"))


def real_t5_tokenizer():
    pieces, charsmap = read_sentencepiece(REAL / "tokenizers" / "t5" / "spiece.model")
    extra = [(f"<extra_id_{i}>", 0.0) for i in reversed(range(100))]
    return T5Tokenizer(vocab=[*pieces, *extra], _spm_precompiled_charsmap=charsmap)


def random_gpt2(folder):
    """A tiny GPT-2 with the real vocabulary: no pad token, and end-of-text as the beginning, too."""
    torch.manual_seed(0)
    shape = {"n_layer": 2, "n_embd": 32, "n_head": 2, "n_positions": 160}
    GPT2LMHeadModel(GPT2Config(**shape)).save_pretrained(folder)
    real_gpt2_tokenizer().save_pretrained(folder)
    return folder


def random_t5(folder):
    """A tiny T5 with the real vocabulary, its embedding rows padded beyond it, as the published ones are."""
    torch.manual_seed(0)
    shape = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 32128}
    T5ForConditionalGeneration(T5Config(**shape, decoder_start_token_id=0)).save_pretrained(folder)
    real_t5_tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("make", [real_gpt2_tokenizer, real_t5_tokenizer])
def test_the_real_tokenizers_read_special_tokens_as_text_and_all_else_as_before(make):
    before, after = make(), make()
    read_as_text("m", after)
    texts = [text for e in load("imdb", "train").examples[:200] for text in (e.prompt, *e.references)]
    assert before(texts)["input_ids"] == after(texts)["input_ids"]
    for token in before.all_special_tokens:
        ids = after(f"a {token}{token} b {token}", add_special_tokens=False)["input_ids"]
        assert token == before.unk_token != before.eos_token or before.convert_tokens_to_ids(token) not in ids


def test_padding_with_the_end_token_changes_nothing_under_the_real_gpt2_tokenizer(tmp_path):
    model, tokenizer = load_language_model("causal", str(random_gpt2(tmp_path / "gpt2")))
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 50256
    long = [e for e in load("imdb", "train").examples if e.references and len(e.prompt.split()) > 64]
    examples = long[:3]
    texts = ["Short one.", *(e.prompt for e in examples)]
    answers = ["Good.", *(e.references[0] for e in examples)]
    prompts = encode_prompts(model, tokenizer, texts, Prompt(64, "left"))
    responses = encode_responses(model, tokenizer, answers, 48)
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
    model, tokenizer = load_language_model("seq2seq", str(random_t5(tmp_path / "t5")))
    assert (len(tokenizer), tokenizer.pad_token_id, tokenizer.eos_token_id) == (32100, 0, 1)
    assert tokenizer("Hello world, it is great.")["input_ids"] == [8774, 296, 6, 34, 19, 248, 5, 1]
    task = load_task("commongen", "grue")
    examples = load("commongen", "test").examples
    prompts: Tokens = encode_prompts(model, tokenizer, [e.prompt for e in examples], task.prompt)
    for example, ids, mask in zip(examples, prompts.ids, prompts.mask, strict=True):
        assert ids[mask][-1] == 1
        assert tokenizer.decode(ids[mask], skip_special_tokens=True) == example.prompt


# --- from data to result, on the command line ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Environment of a machine whose Hugging Face cache holds the IMDB task's models: the mini suite's stand in."""
    home = tmp_path_factory.mktemp("huggingface")
    stand_ins = {
        "lvwerra/gpt2-imdb": "causal",
        "lvwerra/distilbert-imdb": "sentiment",
        "openai-community/gpt2": "perplexity",
    }
    for name, asset in stand_ins.items():
        folder = home / "hub" / f"models--{name.replace('/', '--')}"
        shutil.copytree(HERE / "models" / asset, folder / "snapshots" / COMMIT)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(COMMIT)
    return {"HF_HOME": str(home), "HF_HUB_CACHE": str(home / "hub"), "HF_HUB_OFFLINE": "1"}


def grue(*arguments, folder, environment=None):
    """Run the command line as a process of its own, as the hub's library reads its environment once."""
    path = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **(environment or {})}
    command = [sys.executable, "-m", "grue", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def run_task(name, algorithm, folder, environment=None, backbone=None, data=None):
    """Train and evaluate on a real slice; return the run's log, its result and its folder."""
    data = data or REAL / name
    start = ["--backbone", backbone] if backbone else []
    values = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
    train = ["train", "--suite", "grue", "--task", name, "--algo", algorithm, "--data-dir", data, *start, *values]
    trained = grue(*train, folder=folder, environment=environment)
    assert trained.returncode == 0, trained.stderr
    system = f"{algorithm}-{Path(backbone).name.removeprefix('mini:')}" if backbone else algorithm
    run = folder / "runs" / "grue" / name / system / "seed-1"
    assert trained.stdout.split()[-1] == str(Path("runs", "grue", name, system, "seed-1", "checkpoint"))
    command = ["evaluate", "--checkpoint", run, "--data-dir", data, "--limit", 20, "--batch-size", 8]
    evaluated = grue(*command, folder=folder, environment=environment)
    assert evaluated.returncode == 0, evaluated.stderr
    log = [json.loads(line) for line in (run / "train.jsonl").read_text().splitlines()]
    return log, json.loads((run / "result.json").read_text()), run


def check(log, result, run, name):
    assert log[-1]["finished"] is True
    updates = [line for line in log if "objective/reward" in line]
    assert [line["update"] for line in updates] == [1, 2]
    assert all(line["policy/ratio_error"] < 1e-3 for line in updates)
    assert (result["suite"], result["task"], result["limited"]) == ("grue", name, True)
    assert result["counts"]["scored"] == len((run / "predictions.jsonl").read_bytes().split(b"\n")) - 1 == 20
    assert result["data"]["checked"] is False
    assert read_manifest(run / "checkpoint").suite == "grue"


@pytest.mark.slow
def test_commongen_from_a_warm_start_to_a_result(tmp_path):
    # The warm start takes the task's own recipe, four epochs over all pairs: a hundred of them are enough here.
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(REAL / "commongen" / "commongen.dev.jsonl", data)
    for kind in ("src_alpha", "tgt"):
        name = f"commongen.train.first1500.{kind}.txt"
        lines = (REAL / "commongen" / "official" / name).read_text(encoding="utf-8").splitlines()
        (data / name).write_text("\n".join(lines[:100]), encoding="utf-8")
    log, result, run = run_task("commongen", "supervised+nlpo", tmp_path, backbone="mini:seq2seq", data=data)
    check(log, result, run, "commongen")
    assert {score["metric"] for score in result["scores"]} >= {"cider", "rouge2", "bleu4", "meteor", "coverage"}
    start = run.parents[1] / "supervised-seq2seq" / "seed-1"
    warm = read_manifest(start / "checkpoint")
    assert warm.backbone == "mini:seq2seq"
    config = tomllib.loads((run / "config.toml").read_text())
    spelt = json.dumps(dict(warm.files), sort_keys=True, separators=(",", ":"))
    assert config["init_sha256"] == sha256(spelt.encode()).hexdigest()
    lines = (start / "train.jsonl").read_text().splitlines()
    losses = [line["loss/total"] for line in map(json.loads, lines) if "loss/total" in line]
    assert len(losses) == 4
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_imdb_with_models_from_the_hubs_cache(tmp_path, hub):
    log, result, run = run_task("imdb", "ppo", tmp_path, hub)
    check(log, result, run, "imdb")
    signatures = {score["metric"]: score["signature"] for score in result["scores"]}
    assert "model:lvwerra/distilbert-imdb" in signatures["sentiment"]
    assert "model:openai-community/gpt2" in signatures["perplexity"]
    assert read_manifest(run / "checkpoint").backbone == "lvwerra/gpt2-imdb"
    assert all(prediction.truncated for prediction in read_predictions(run / "predictions.jsonl"))


@pytest.mark.slow
def test_without_the_cache_the_message_names_the_model_and_the_cure(tmp_path, hub):
    empty = {**hub, "HF_HOME": str(tmp_path / "none"), "HF_HUB_CACHE": str(tmp_path / "none" / "hub")}
    arguments = ["train", "--suite", "grue", "--task", "imdb", "--algo", "ppo", "--data-dir", REAL / "imdb"]
    refused = grue(*arguments, folder=tmp_path, environment=empty)
    assert refused.returncode == 3
    assert "lvwerra/distilbert-imdb is neither a local folder nor available from the hub" in refused.stderr
    assert "hf download lvwerra/distilbert-imdb" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_gpt2_without_a_pad_token_trains_on_imdb(tmp_path, hub):
    backbone = random_gpt2(tmp_path / "gpt2")
    assert AutoTokenizer.from_pretrained(backbone).pad_token is None
    log, result, run = run_task("imdb", "ppo", tmp_path, hub, backbone=backbone)
    check(log, result, run, "imdb")
    assert all(line["tokens"] == 4 * 48 for line in log if "tokens" in line)


@pytest.mark.slow
def test_a_t5_with_the_real_tokenizer_trains_on_commongen(tmp_path):
    log, result, run = run_task("commongen", "ppo", tmp_path, backbone=random_t5(tmp_path / "t5"))
    check(log, result, run, "commongen")
    assert AutoTokenizer.from_pretrained(run / "checkpoint")("field")["input_ids"] == [1057, 1]
