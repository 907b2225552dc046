"""Models, tokenizers and checkpoints from untrusted places: refused with one error, before any of it could do harm."""

import ast
import base64
import json
import os
import pickle
import re
import shlex
import shutil
import struct
import sys

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from support import tiny
from support.hub_server import add_data_sets, suite
from support.paths import ROOT
from support.saved import MANIFEST, SAMPLED, save
from tokenizers.normalizers import Replace

from grue.cli.main import main
from grue.errors import DataError, Unavailable
from grue.lm import checkpoint, folder
from grue.lm.load import fetch_model, load_language_model, load_tokenizer
from grue.lm.scorers import load_classifier, load_encoder
from grue.lm.tokenizer_parts import backtracks, check_loaded


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of ours, which tests copy."""
    save(tmp_path_factory.mktemp("saved") / "checkpoint")
    return tmp_path_factory.getbasetemp() / "saved0" / "checkpoint"


@pytest.fixture
def model(saved, tmp_path):
    """The folder of a model that was made elsewhere."""
    shutil.copytree(saved, tmp_path / "model", ignore=shutil.ignore_patterns("grue.json"))
    return tmp_path / "model"


@pytest.fixture
def ours(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def refusal(where):
    """What loading the folder says, in one line."""
    with pytest.raises(DataError) as caught:
        load_language_model("causal", str(where))
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


# --- code ------------------------------------------------------------------------------------------------------------


def test_code_in_a_folder_is_neither_run_nor_asked_about(model, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question was asked on the terminal"))
    (model / "evil.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\n")
    plain = {file: (model / file).read_text() for file in ("config.json", "tokenizer_config.json")}
    code = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM", "AutoModel"), "evil.Evil")
    for file, values in [
        ("config.json", {"auto_map": code}),
        ("config.json", {"auto_map": code, "model_type": "evil"}),
        ("config.json", {"model_type": "encoder-decoder", "decoder": {"model_type": "evil", "auto_map": code}}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}}),
        ("tokenizer_config.json", {"auto_map": ["someone/else--evil.Evil", None], "tokenizer_class": "Evil"}),
    ]:
        change(model / file, **values)
        expected = f"{model / file}: `auto_map` names Python code, which is never run"
        assert expected in refusal(model)
        for loading in (load_tokenizer, load_classifier, load_encoder):
            with pytest.raises(DataError, match="`auto_map` names Python code"):
                loading(str(model))
        (model / file).write_text(plain[file])
    assert not (tmp_path / "ran").exists()
    load_language_model("causal", str(model))  # a file of Python alone is not looked at
    assert not (tmp_path / "ran").exists()


def test_every_call_of_from_pretrained_forbids_code():
    """Also those of our tools; `AutoModel.from_config` asks the same question."""
    for room in ("grue", "miniworld", "tools", "benchmarks", "experiments"):
        texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / room).rglob("*.py")}
        for path in (
            path for path, text in texts.items() if re.search(r"from_pretrained|from_config|torch\.load|pickle", text)
        ):
            for node in ast.walk(ast.parse(texts[path])):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    named = {one.arg: one.value for one in node.keywords}
                    if node.func.attr in ("from_pretrained", "from_config"):
                        forbidden = named.get("trust_remote_code")
                        assert isinstance(forbidden, ast.Constant), f"{path}:{node.lineno}"
                        assert forbidden.value is False, f"{path}:{node.lineno}"
                    if ast.unparse(node.func) == "torch.load":
                        assert ast.unparse(named["weights_only"]) == "True", f"{path}:{node.lineno}"
                    assert ast.unparse(node.func) not in ("pickle.load", "pickle.loads"), f"{path}:{node.lineno}"


def test_a_kernel_or_another_file_is_not_fetched(model):
    for key, value in {
        "use_kernels": True,
        "use_pretrained_backbone": True,
        "kernel_config": {"RMSNorm": "someone/kernel"},
        "attn_implementation": "someone/kernel",
        "_attn_implementation": {"": "sdpa", "text_config": "someone/kernel:flash"},
        "experts_implementation": "someone/kernel",
        "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True},
        "transformers_weights": "../other.safetensors",
        "configuration_files": ["config.9.json"],
    }.items():
        before = (model / "config.json").read_text()
        change(model / "config.json", **{key: value})
        assert f"{model / 'config.json'}: `{key}` " in refusal(model)
        (model / "config.json").write_text(before)
    change(model / "tokenizer_config.json", fast_tokenizer_files=["../tokenizer.1.json"])
    assert "`fast_tokenizer_files` names other files" in refusal(model)


# --- pickles ---------------------------------------------------------------------------------------------------------


def test_pickles_are_never_opened(model, tmp_path):
    names = ("pytorch_model.bin", "model.pt", "weights.pkl", "adapter_model.bin", "training_args.bin", "optimizer.pt")
    for name in names:
        (model / name).write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    load_language_model("causal", str(model))
    (model / "model.safetensors").unlink()
    told = refusal(model)
    assert "its weights are pickled (adapter_model.bin, model.pt, optimizer.pt)" in told
    assert 'python -c "import sys; from transformers import AutoModelForCausalLM as M' in told
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_are_read_once_converted_as_the_error_says(model, monkeypatch):
    state = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    torch.save(state, model / "pytorch_model.bin")
    program, option, code, *folders = shlex.split(refusal(model).partition("convert it once: ")[2])
    assert (program, option) == ("python", "-c")
    monkeypatch.setattr(sys, "argv", ["-c", *folders])
    exec(code)
    loaded, _ = load_language_model("causal", str(model))
    assert torch.equal(tiny.weights(loaded), tiny.weights(tiny.model("causal")))


def test_of_a_hub_model_only_safetensors_are_downloaded(saved, hub, waited, tmp_path):
    content = {path.name: path.read_bytes() for path in saved.iterdir()}
    bomb = {"pytorch_model.bin": pickle.dumps(Bomb(tmp_path / "ran")), "evil.py": b"", "a/b.json": b"{}"}
    hub.add("models", "some/model", content | bomb)
    loaded, tokenizer = load_language_model("causal", "some/model")
    assert torch.equal(tiny.weights(loaded), tiny.weights(tiny.model("causal")))
    assert (loaded.name_or_path, tokenizer.name_or_path) == ("some/model", "some/model")
    assert not hub.bytes_of(r"\.bin|\.py|b\.json")
    hub.add("models", "some/pickle", {"config.json": content["config.json"], **bomb})
    for load_it in (fetch_model, lambda name: load_language_model("causal", name)):
        with pytest.raises(
            Unavailable, match=r"some/pickle: its weights are pickled \(pytorch_model.bin\).*save its token"
        ):
            load_it("some/pickle")
    hub.add(
        "models", "some/code", content | {"tokenizer_config.json": b'{"auto_map": {"AutoTokenizer": ["e.E", null]}}'}
    )
    for load_it in (load_tokenizer, lambda name: load_language_model("causal", name)):
        with pytest.raises(DataError, match=r"tokenizer_config.json: `auto_map` names Python code"):
            load_it("some/code")
    assert not (tmp_path / "ran").exists()


def test_a_tasks_model_that_is_only_pickled_is_converted_and_no_code_in_it_runs(
    saved, hub, waited, tmp_path, monkeypatch
):
    monkeypatch.setenv("GRUE_CACHE", str(tmp_path / "cache"))
    add_data_sets(hub, "imdb")
    content = {path.name: path.read_bytes() for path in saved.iterdir()}
    weights = {key: value for key, value in tiny.model("causal").state_dict().items() if key != "lm_head.weight"}
    torch.save(weights, tmp_path / "weights.bin")
    old = {name: text for name, text in content.items() if name != "model.safetensors"}
    hub.add("models", "openai-community/gpt2", content)
    hub.add("models", "lvwerra/gpt2-imdb", old | {"pytorch_model.bin": (tmp_path / "weights.bin").read_bytes()})
    hub.add("models", "lvwerra/distilbert-imdb", old | {"pytorch_model.bin": pickle.dumps(Bomb(tmp_path / "ran"))})
    command = ["data", "fetch", "imdb", "--suite", str(suite(tmp_path, "imdb")), "--models"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 3
    assert "lvwerra/distilbert-imdb: pytorch_model.bin holds more than weights" in done.output
    assert not (tmp_path / "ran").exists()
    hub.revisions.clear()  # the converted copy needs no connection
    loaded, _ = load_language_model("causal", "lvwerra/gpt2-imdb")
    assert torch.equal(tiny.weights(loaded), tiny.weights(tiny.model("causal")))


def test_a_hub_model_is_read_from_the_cache_without_a_connection(saved, hub, waited):
    hub.add("models", "some/model", {path.name: path.read_bytes() for path in saved.iterdir()})
    load_tokenizer("some/model")
    assert not hub.bytes_of("safetensors"), "the weights are not needed for the tokenizer"
    load_language_model("causal", "some/model")
    hub.revisions.clear()
    load_language_model("causal", "some/model")


# --- what a checkpoint holds -----------------------------------------------------------------------------------------


def test_what_the_manifest_does_not_list_is_refused(ours):
    for name, content in {
        "adapter_config.json": b'{"peft_type": "LORA", "base_model_name_or_path": "x", "r": 1}',
        "adapter_model.safetensors": b"",
        "adapter_model.bin": b"",
        "model-00001-of-00002.safetensors": b"",
        "model.safetensors.index.json": b'{"weight_map": {}}',
        "shard-00000-model-00001-of-00001.safetensors": b"",
        "tokenizer.model": b"",
        "added_tokens.json": b'{"x": 5}',
        "chat_template.jinja": b"{{ 1 }}",
        "modeling_evil.py": b"",
        "custom_generate/generate.py": b"",
        ".hidden": b"",
    }.items():
        path = ours / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        told = f"{ours}: damaged: it holds {name}, which grue.json does not list"
        with pytest.raises(DataError, match=told.replace(".", r"\.")):
            checkpoint.read_manifest(ours)
        assert told in refusal(ours)  # as any model of a folder, too
        assert told in refusal(ours.parent)  # and as that of its run
        path.unlink()
        if path.parent != ours:
            path.parent.rmdir()
    for number in range(5):
        (ours / f"\x1b[31m{number}.json").write_text("{}")
    assert r"it holds \x1b[31m0.json, \x1b[31m1.json, \x1b[31m2.json and 2 more, which" in refusal(ours)


def test_what_the_manifest_lists_must_be_as_it_was(ours):
    change(ours / "generation_config.json", max_new_tokens=1)
    assert "damaged: generation_config.json differs from the saved file" in refusal(ours)
    change(ours / "grue.json", files={"../../etc/passwd": "0" * 64})
    with pytest.raises(DataError, match="it holds config.json, .* which grue.json does not list"):
        checkpoint.read_manifest(ours)


def test_links_and_special_files_of_a_checkpoint_are_refused(ours, tmp_path):
    weights = ours / "model.safetensors"
    weights.rename(tmp_path / "elsewhere")
    for make in (
        lambda: weights.symlink_to(tmp_path / "elsewhere"),
        lambda: os.mkfifo(weights),
        lambda: (ours / "more").symlink_to(tmp_path),
    ):
        made = make() or (ours / "more" if (ours / "more").is_symlink() else weights)
        with pytest.raises(DataError, match=f"{made}: a link or a special file"):
            checkpoint.read_manifest(ours)
        made.unlink()


def test_a_listed_adapter_or_code_is_refused_like_that_of_any_model(ours):
    """Someone who makes a checkpoint may list what they like."""
    (ours / "adapter_config.json").write_text("{}")
    listed = json.loads((ours / "grue.json").read_text())["files"]
    change(
        ours / "grue.json",
        files={**listed, "adapter_config.json": folder.files.sha256_file(ours / "adapter_config.json")},
    )
    assert "adapter_config.json would add an adapter to the weights. Merge it" in refusal(ours)


def test_a_checkpoint_lists_everything_it_holds_but_its_card(ours):
    """So one that was written before the listing was enforced still loads."""
    held = {path.name for path in ours.iterdir()}
    assert set(json.loads((ours / "grue.json").read_text())["files"]) == held - {"grue.json", "README.md"}
    load_language_model("causal", str(ours))


def test_templates_in_a_folder_of_their_own_are_listed(tmp_path):
    words = tiny.tokenizer("causal")
    words.chat_template = {"default": "{{ 1 }}", "other": "{{ 2 }}"}
    checkpoint.save_checkpoint(tmp_path / "c", tiny.model("causal"), words, MANIFEST, SAMPLED, "")
    listed = checkpoint.read_manifest(tmp_path / "c").files
    assert "additional_chat_templates/other.jinja" in listed


# --- configurations --------------------------------------------------------------------------------------------------


def test_a_configuration_that_cannot_be_is_one_error_and_takes_no_memory(model):
    config = model / "config.json"
    before = config.read_text()
    for values, expected in [
        ({"n_embd": "a"}, "Field 'n_embd' expected int, got str"),
        ({"n_layer": 1.5}, "Field 'n_layer' expected int, got float"),
        ({"n_layer": -1}, f"{config}: `n_layer` must be 0 to 4,096 here, found -1"),
        ({"n_layer": 10**6}, f"{config}: `n_layer` must be 0 to 4,096 here, found 1000000"),
        ({"n_layer": 4000}, f"{config}: `n_layer` must be 0 to "),
        ({"n_layer": 0}, "its files hold weights that config.json does not describe"),
        ({"n_layer": 1}, "its files hold weights that config.json does not describe (transformer.h.1."),
        ({"n_layer": 3}, "weights are missing or misshapen (transformer.h.2."),
        ({"num_labels": 10**9}, f"{config}: `num_labels` must be 0 to 4,096 here"),
        ({"n_head": 0}, "config.json: ZeroDivisionError"),
        ({"n_head": -2}, f"{config}: `n_head` must be 0 to 4,096 here, found -2"),
        ({"vocab_size": 10**12}, "config.json describes a model of 64,000,000,0"),
        ({"n_positions": 10**9}, "config.json describes a model of 32,000,0"),
        ({"n_embd": 10**6}, "config.json describes a model of"),
        ({"vocab_size": 24}, "transformer.wte.weight is [23, 32], config.json says [24, 32]"),
        ({"n_embd": 16}, "transformer.h.0.attn.c_attn.bias is [96], config.json says [48]"),
        ({"initializer_range": float("nan")}, f"{config}: not valid JSON: NaN is not a JSON number"),
        ({"layer_norm_epsilon": {"__float__": "NaN"}}, f"{config}: a value is not a number (NaN)"),
        ({"model_type": ["gpt2"]}, "config.json: TypeError"),
        ({"model_type": "\x1b[2Jnone"}, r"model type `\x1b[2Jnone`"),
        ({"activation_function": "nope"}, "config.json: KeyError: 'nope'"),
        ({"eos_token_id": "x"}, "Field 'eos_token_id' with value 'x'"),
    ]:
        change(config, **values)
        assert expected in refusal(model), values
        config.write_text(before)
    load_language_model("causal", str(model))


def test_a_file_that_is_too_large_or_too_deep_is_refused_before_it_is_read(model):
    for name in ("config.json", "tokenizer_config.json", "generation_config.json", "tokenizer.json"):
        before = (model / name).read_bytes()
        with (model / name).open("wb") as handle:
            handle.truncate(200_000_000 if name != "tokenizer.json" else 600_000_000)  # sparse: no byte is written
        assert f"{model / name}: {'2' if name != 'tokenizer.json' else '6'}00,000,000 bytes, more than the" in refusal(
            model
        )
        (model / name).write_text("[" * 10_000 + "]" * 10_000)
        deep = refusal(model)
        assert name in deep or "its files" in deep
        (model / name).write_text("[1]")
        assert refusal(model)
        (model / name).write_bytes(before)
    load_language_model("causal", str(model))


def test_what_is_no_file_does_not_block(model):
    for name in ("config.json", "tokenizer.json", "model.safetensors", "other.json"):
        if (model / name).exists():
            (model / name).rename(model.parent / name)
        os.mkfifo(model / name)
        assert f"{model / name}: neither a file nor a folder" in refusal(model)
        (model / name).unlink()
        if (model.parent / name).exists():
            (model.parent / name).rename(model / name)


def test_an_adapter_beside_the_weights_is_refused(model):
    (model / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "someone/else"}')
    assert "adapter_config.json would add an adapter to the weights" in refusal(model)
    (model / "config.json").unlink()
    assert "it has no config.json" in refusal(model)


def within(part, *steps):
    """A part of several steps, in a sequence within a sequence."""
    name = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}.get(
        part, "processors"
    )
    return {"type": "Sequence", name: [{"type": "Sequence", name: [*steps]}]}


def replace_by(content, **pattern):
    return {"type": "Replace", "pattern": pattern, "content": content}


TEMPLATE = {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}
ITSELF = [{"Sequence": {"id": "A", "type_id": 0}}]
TABLE = base64.b64encode(bytes(4) + b"\0" + b"x" * 20_000 + b"\0").decode()


@pytest.mark.parametrize(
    ("part", "steps", "told"),
    [
        (
            "normalizer",
            [replace_by("b" * 20_000, String="a")],
            "normalizer and pre_tokenizer may make a text more than",
        ),
        ("normalizer", [replace_by("aa", String="a")] * 14, "may make a text more than 10,000 times as long"),
        ("normalizer", [replace_by("b" * 20_000, Regex=".")], "may make a text more than"),
        ("normalizer", [{"type": "Prepend", "prepend": "x" * 20_000}], "may make a text more than"),
        ("normalizer", [{"type": "Precompiled", "precompiled_charsmap": TABLE}], "may make a text more than"),
        ("normalizer", [{"type": "ByteLevel"}] * 7, "may make a text more than"),
        ("decoder", [replace_by("b" * 20_000, String="a")], "decoder may make a text more than"),
        ("post_processor", [TEMPLATE | {"single": ITSELF * 2000}], "a template of more than 1,000 pieces"),
        ("post_processor", [TEMPLATE | {"single": ITSELF * 2}] * 10, "a template of more than 1,000 pieces"),
        ("pre_tokenizer", [{"type": "Split", "pattern": {"Regex": "(a+)+$"}}], "'(a+)+$' repeats what repeats"),
        ("decoder", [replace_by("", Regex="(?:x|a*b+)*c")], "repeats what repeats"),
    ],
)
def test_a_tokenizer_that_makes_texts_far_longer_is_refused(model, part, steps, told):
    change(model / "tokenizer.json", **{part: within(part, *steps)})
    said = refusal(model)
    assert said.startswith(f"{model / 'tokenizer.json'}: refused: the tokenizer's") and told in said


def test_what_a_tokenizer_is_made_of_is_bounded_from_whatever_file(model):
    tokenizer = load_tokenizer(str(model))
    tokenizer.backend_tokenizer.normalizer = Replace("a", "b" * 20_000)
    with pytest.raises(DataError, match="some model: refused: the tokenizer's normalizer and pre_tokenizer may make"):
        check_loaded("some model", tokenizer)
    content = (model / "tokenizer.json").read_text()
    twice = json.dumps({"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 20_000})
    (model / "tokenizer.json").write_text('{"normalizer": ' + twice + ', "normalizer": null, ' + content.lstrip()[1:])
    assert "tokenizer.json: a key is repeated in an object" in refusal(model)


@pytest.mark.parametrize(
    ("expression", "refused"),
    [
        ("(a+)+$", True),
        ("(?:a*)*", True),
        ("(?i:a+|b)+", True),
        ("(?<word>a+)*", True),
        ("(?=a+)b+", False),
        (r"((\w+)\s?)+$", False),  # \s? may be left out, but is no repeat
        (r"(\w+\s*)+$", True),
        ("(a*b*){2,}", True),
        ("([^(]+)+", True),
        (r"(?:\p{L}\p{M}*)+", False),
        (r"\(a+\)+", False),
        ("[(a+]+", False),
        (r"\d{1,3}(?=(\d{3})*(?!\d))", False),
        (r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", False),
        (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+", False),
        (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{M}]*[\p{Ll}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}| ?[^\s\p{L}]+[\r\n/]*|\s+(?!\S)", False),
        (r" ?[^(\s|[.,!?…。，、।۔،])]+", False),
    ],
)  # fmt: skip
def test_expressions_that_may_run_for_ever(expression, refused):
    assert backtracks(expression) is refused


def test_a_tokenizer_that_cannot_be_is_one_error(model):
    for name, content in [
        ("tokenizer.json", "{}"),
        ("tokenizer.json", "[" * 10_000),
        ("tokenizer_config.json", '{"eos_token": 5}'),
    ]:
        before = (model / name).read_bytes()
        (model / name).write_text(content)
        assert f"{model} cannot be loaded as a tokenizer: its files: " in refusal(model)
        (model / name).write_bytes(before)


# --- weights ---------------------------------------------------------------------------------------------------------


def safetensors(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def test_a_header_that_lies_is_refused(model):
    weights = model / "model.safetensors"
    before = weights.read_bytes()
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for content in [
        b"",
        b"1234567",
        before[: len(before) // 2],
        before + b"more",
        struct.pack("<Q", 2**63) + before[8:],
        struct.pack("<Q", len(before)) + before[8:],
        safetensors({"a": one, "b": one}, bytes(8)),  # overlapping
        safetensors({"a": one, "b": {**one, "data_offsets": [9, 17]}}, bytes(17)),  # a hole
        safetensors({"a": {**one, "shape": [2**62, 2**62]}}, bytes(8)),
        safetensors({"a": {**one, "shape": [-2]}}, bytes(8)),
        safetensors({"a": {**one, "shape": [10**9], "data_offsets": [0, 4 * 10**9]}}, bytes(8)),
        safetensors({"a": {**one, "dtype": "Q7"}}, bytes(8)),
        safetensors(b"[" * 10_000),
        safetensors(b"not json"),
    ]:
        weights.write_bytes(content)
        assert f"{weights}: not a complete safetensors file: " in refusal(model)


def test_weights_that_do_not_fit_are_named(model):
    path = model / "model.safetensors"
    weights = load_file(path)
    name = "transformer.h.1.mlp.c_fc.weight"
    rest = {key: value for key, value in weights.items() if key != name}
    for changed, expected in [
        (rest, f"weights are missing or misshapen ({name})"),
        ({**rest, name: torch.zeros(2, 2)}, f"({name} is [2, 2], config.json says [32, 128])"),
    ]:
        save_file(changed, path, {"format": "pt"})
        assert expected in refusal(model)


def test_an_index_of_shards_stays_within_the_folder(model):
    weights = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    index, names = model / "model.safetensors.index.json", sorted(weights)
    parts = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    for file, held in parts.items():
        save_file({name: weights[name] for name in held}, model / file, {"format": "pt"})
    listed = {name: file for file, held in parts.items() for name in held}

    def write(found):
        index.write_text(json.dumps({"metadata": {}, "weight_map": found}))

    write(listed)
    loaded, _ = load_language_model("causal", str(model))
    assert torch.equal(tiny.weights(loaded), tiny.weights(tiny.model("causal")))
    for found, expected in [
        ({**listed, names[0]: "../a.safetensors"}, "`weight_map` must map weights to safetensors files of this folder"),
        ({**listed, names[0]: "/etc/passwd"}, "`weight_map` must map"),
        ({**listed, names[0]: "pytorch_model.bin"}, "`weight_map` must map"),
        ({**listed, names[0]: 5}, "`weight_map` must map"),
        ([], "`weight_map` must map"),
        ({**listed, names[0]: "b.safetensors"}, f"{names[0]} is not in the file that `weight_map` says"),
        ({**listed, "x": "a.safetensors"}, "x is not in the file that `weight_map` says"),
        ({**listed, "x": "c.safetensors"}, "c.safetensors: cannot be read: No such file"),
    ]:
        write(found)
        assert expected in refusal(model)
    (model / "shard-00000-model-00001-of-00001.safetensors").write_bytes(b"")
    assert "is a distributed checkpoint's; save the model whole" in refusal(model)
