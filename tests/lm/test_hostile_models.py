"""Models, tokenizers and checkpoints from untrusted places: refused with one error, before any of it could do harm."""

import ast
import json
import os
import pickle
import re
import shlex
import shutil
import struct
import sys

import pytest
from click.testing import CliRunner
from support.late import lates
from support.paths import ROOT

from grue.cli.main import main
from grue.errors import DataError, Unavailable
from grue.files import sha256_file
from grue.lm import checkpoint

torch, safetensors, loading, scorers = lates("torch safetensors.torch grue.lm.load grue.lm.scorers")
tiny, saving, hub_server = lates("tiny saved hub_server", "support.")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of ours, which tests copy."""
    saving.save(folder := tmp_path_factory.mktemp("saved") / "checkpoint")
    return folder


@pytest.fixture
def model(saved, tmp_path):
    """The folder of a model that was made elsewhere."""
    return shutil.copytree(saved, tmp_path / "model", ignore=shutil.ignore_patterns("grue.json"))


@pytest.fixture
def ours(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "checkpoint")


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def refusal(where):
    """What loading the folder says, in one line."""
    with pytest.raises(DataError) as caught:
        loading.load_language_model("causal", str(where))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def is_ours(loaded):
    return torch.equal(tiny.weights(loaded), tiny.weights(tiny.model("causal")))


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


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
        told = f"{model / file}: `auto_map` names Python code, which is never run"
        assert told in refusal(model)
        for load in (loading.load_tokenizer, scorers.load_classifier, scorers.load_encoder):
            with pytest.raises(DataError, match=re.escape(told)):
                load(str(model))
        (model / file).write_text(plain[file])
    loading.load_language_model("causal", str(model))  # a file of Python alone is not looked at
    assert not (tmp_path / "ran").exists()


def test_every_call_of_from_pretrained_forbids_code():
    """Also those of our tools; `AutoModel.from_config` asks the same question."""
    for room in ("grue", "miniworld", "tools", "benchmarks", "experiments"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if not re.search(r"from_pretrained|from_config|torch\.load|pickle", text):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    named, place = {one.arg: one.value for one in node.keywords}, f"{path}:{node.lineno}"
                    if node.func.attr in ("from_pretrained", "from_config"):
                        assert ast.unparse(named["trust_remote_code"]) == "False", place
                    if ast.unparse(node.func) == "torch.load":
                        assert ast.unparse(named["weights_only"]) == "True", place
                    assert ast.unparse(node.func) not in ("pickle.load", "pickle.loads"), place


def test_a_kernel_or_another_file_is_not_fetched(model, refused):
    before = (model / "config.json").read_text()
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
        change(model / "config.json", **{key: value})
        refused.message(refusal(model))
        (model / "config.json").write_text(before)
    change(model / "tokenizer_config.json", fast_tokenizer_files=["../tokenizer.1.json"])
    refused.message(refusal(model))


def test_pickles_are_never_opened_and_read_once_converted_as_the_error_says(model, tmp_path, monkeypatch, refused):
    names = ("pytorch_model.bin", "model.pt", "weights.pkl", "adapter_model.bin", "training_args.bin", "optimizer.pt")
    for name in names:
        (model / name).write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    loading.load_language_model("causal", str(model))
    state = safetensors.load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    refused.message(refusal(model))
    assert not (tmp_path / "ran").exists()
    for name in names:
        (model / name).unlink()
    torch.save(state, model / "pytorch_model.bin")
    program, option, code, *folders = shlex.split(refusal(model).partition("convert them once: ")[2])
    assert (program, option) == ("python", "-c")
    monkeypatch.setattr(sys, "argv", ["-c", *folders])
    exec(code)
    assert is_ours(loading.load_language_model("causal", str(model))[0])


def test_of_a_hub_model_only_safetensors_are_downloaded(saved, hub, waited, tmp_path):
    content = {path.name: path.read_bytes() for path in saved.iterdir()}
    bomb = {"pytorch_model.bin": pickle.dumps(Bomb(tmp_path / "ran")), "evil.py": b"", "a/b.json": b"{}"}
    hub.add("models", "some/model", content | bomb)
    loading.load_tokenizer("some/model")
    assert not hub.bytes_of("safetensors"), "the weights are not needed for the tokenizer"
    loaded, tokenizer = loading.load_language_model("causal", "some/model")
    assert is_ours(loaded)
    assert (loaded.name_or_path, tokenizer.name_or_path) == ("some/model", "some/model")
    assert not hub.bytes_of(r"\.bin|\.py|b\.json")
    hub.add("models", "some/pickle", {"config.json": content["config.json"], **bomb})
    code = {"tokenizer_config.json": b'{"auto_map": {"AutoTokenizer": ["e.E", null]}}'}
    hub.add("models", "some/code", content | code)
    for load, name, error in (
        (loading.fetch_model, "some/pickle", Unavailable),
        (lambda name: loading.load_language_model("causal", name), "some/pickle", Unavailable),
        (loading.load_tokenizer, "some/code", DataError),
        (lambda name: loading.load_language_model("causal", name), "some/code", DataError),
    ):
        with pytest.raises(error) as caught:
            load(name)
        what = "pickled (pytorch_model.bin)" if name == "some/pickle" else "json: `auto_map` names Python code"
        assert what in str(caught.value) and caught.type is error
    assert not (tmp_path / "ran").exists()
    hub.revisions.clear()  # what is in the cache needs no connection
    loading.load_language_model("causal", "some/model")


def test_a_hub_model_is_known_by_its_commit_so_that_new_weights_are_another_model(saved, hub, waited):
    content = {path.name: path.read_bytes() for path in saved.iterdir()}
    hub.add("models", "some/model", content)
    assert loading.weights_id("some/model") == f"some/model@{hub_server.HEAD_COMMIT}"
    hub.add("models", "some/model", content, commit="2" * 40)
    assert loading.weights_id("some/model") == f"some/model@{'2' * 40}" == loading.weights_id("some/model", "2" * 40)
    hub.revisions.clear()  # without a connection it is the commit of the cache, which is loaded
    assert loading.weights_id("some/model") == f"some/model@{'2' * 40}"
    assert loading.weights_id("some/other") == "some/other@main"


def test_a_tasks_model_that_is_only_pickled_is_converted_and_no_code_in_it_runs(
    saved, hub, waited, tmp_path, monkeypatch
):
    monkeypatch.setenv("GRUE_CACHE", str(tmp_path / "cache"))
    hub_server.add_data_sets(hub, "imdb")
    content = {path.name: path.read_bytes() for path in saved.iterdir()}
    weights = {key: value for key, value in tiny.model("causal").state_dict().items() if key != "lm_head.weight"}
    torch.save(weights, tmp_path / "weights.bin")
    old = {name: text for name, text in content.items() if name != "model.safetensors"}
    hub.add("models", "openai-community/gpt2", content)
    hub.add("models", "lvwerra/gpt2-imdb", old | {"pytorch_model.bin": (tmp_path / "weights.bin").read_bytes()})
    hub.add("models", "lvwerra/distilbert-imdb", old | {"pytorch_model.bin": pickle.dumps(Bomb(tmp_path / "ran"))})
    command = ["data", "fetch", "imdb", "--suite", str(hub_server.suite(tmp_path, "imdb")), "--models"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 3 and "lvwerra/distilbert-imdb: pytorch_model.bin holds more than weights" in done.output
    assert not (tmp_path / "ran").exists()
    hub.revisions.clear()  # the converted copy needs no connection
    assert is_ours(loading.load_language_model("causal", "lvwerra/gpt2-imdb")[0])


def test_a_checkpoint_lists_everything_it_holds_and_what_it_does_not_list_is_refused(ours, refused):
    listed = set(json.loads((ours / "grue.json").read_text())["files"])
    assert listed == {path.name for path in ours.iterdir()} - {"grue.json", "README.md"}
    loading.load_language_model("causal", str(ours))
    for name in (
        *("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin", "model-00001-of-00002.safetensors"),
        *("model.safetensors.index.json", "shard-00000-model-00001-of-00001.safetensors", "tokenizer.model"),
        *("added_tokens.json", "chat_template.jinja", "modeling_evil.py", "custom_generate/generate.py", ".hidden"),
    ):
        path = ours / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"{}")
        told = f"{ours}: damaged: it holds {name}, which grue.json does not list"
        with pytest.raises(DataError, match=re.escape(told)):
            checkpoint.read_manifest(ours)
        assert told in refusal(ours)  # as any model of a folder, too
        assert told in refusal(ours.parent)  # and as that of its run
        path.unlink()
        if path.parent != ours:
            path.parent.rmdir()
    for number in range(5):
        (ours / f"\x1b[31m{number}.json").write_text("{}")
    refused.message(refusal(ours))


def test_what_the_manifest_lists_must_be_as_it_was(ours, refused):
    """And someone who makes a checkpoint may list what they like."""
    listed = json.loads((ours / "grue.json").read_text())["files"]
    (ours / "adapter_config.json").write_text("{}")
    change(ours / "grue.json", files={**listed, "adapter_config.json": sha256_file(ours / "adapter_config.json")})
    refused.message(refusal(ours))
    change(ours / "generation_config.json", max_new_tokens=1)
    refused.message(refusal(ours))
    change(ours / "grue.json", files={"../../etc/passwd": "0" * 64})
    with refused(DataError):
        checkpoint.read_manifest(ours)


def test_links_and_special_files_of_a_checkpoint_are_refused(ours, tmp_path, refused):
    weights = ours / "model.safetensors"
    weights.rename(tmp_path / "elsewhere")
    for path, make in (
        (weights, lambda path: path.symlink_to(tmp_path / "elsewhere")),
        (weights, os.mkfifo),
        (ours / "more", lambda path: path.symlink_to(tmp_path)),
    ):
        make(path)
        with refused(DataError):
            checkpoint.read_manifest(ours)
        path.unlink()


def test_templates_in_a_folder_of_their_own_are_listed(tmp_path):
    words = tiny.tokenizer("causal")
    words.chat_template = {"default": "{{ 1 }}", "other": "{{ 2 }}"}
    checkpoint.save_checkpoint(tmp_path / "c", tiny.model("causal"), words, saving.MANIFEST, saving.SAMPLED, "")
    assert "additional_chat_templates/other.jinja" in checkpoint.read_manifest(tmp_path / "c").files


def test_a_configuration_that_cannot_be_is_one_error(model):
    config = model / "config.json"
    before = config.read_text()
    for values, expected in [
        ({"n_embd": "a"}, "Field 'n_embd' expected int, got str"),
        ({"n_layer": 0}, "its files hold weights that config.json does not describe"),
        ({"n_layer": 1}, "its files hold weights that config.json does not describe (transformer.h.1."),
        ({"n_layer": 3}, "weights are missing or misshapen (transformer.h.2."),
        ({"n_head": 0}, "config.json: ZeroDivisionError"),
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
    loading.load_language_model("causal", str(model))


def test_a_file_that_is_too_deep_or_no_object_is_one_error(model):
    for name in ("config.json", "tokenizer_config.json", "generation_config.json", "tokenizer.json"):
        path, before = model / name, (model / name).read_bytes()
        path.write_text("[" * 10_000 + "]" * 10_000)
        deep = refusal(model)
        assert name in deep or "its files" in deep
        path.write_text("[1]")
        assert refusal(model)
        path.write_bytes(before)
    loading.load_language_model("causal", str(model))


def test_an_adapter_beside_the_weights_is_refused(model, refused):
    (model / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "someone/else"}')
    refused.message(refusal(model))
    (model / "config.json").unlink()
    refused.message(refusal(model))


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


def header(content, body=b""):
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
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
        header({"a": one, "b": one}, bytes(8)),  # overlapping
        header({"a": one, "b": {**one, "data_offsets": [9, 17]}}, bytes(17)),  # a hole
        header({"a": {**one, "shape": [2**62, 2**62]}}, bytes(8)),
        header({"a": {**one, "shape": [-2]}}, bytes(8)),
        header({"a": {**one, "shape": [10**9], "data_offsets": [0, 4 * 10**9]}}, bytes(8)),
        header({"a": {**one, "dtype": "Q7"}}, bytes(8)),
        header(b"[" * 10_000),
        header(b"not json"),
    ]:
        weights.write_bytes(content)
        assert f"{weights}: not a complete safetensors file: " in refusal(model)


def test_an_index_of_shards_stays_within_the_folder(model, refused):
    weights = safetensors.load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    index, names = model / "model.safetensors.index.json", sorted(weights)
    held = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    for file, listed in held.items():
        safetensors.save_file({name: weights[name] for name in listed}, model / file, {"format": "pt"})
    right = {name: file for file, listed in held.items() for name in listed}
    index.write_text(json.dumps({"metadata": {}, "weight_map": right}))
    assert is_ours(loading.load_language_model("causal", str(model))[0])
    for found in (
        {**right, names[0]: "../a.safetensors"},
        {**right, names[0]: "/etc/passwd"},
        {**right, names[0]: "pytorch_model.bin"},
        {**right, names[0]: 5},
        [],
        {**right, names[0]: "b.safetensors"},
        {**right, "x": "a.safetensors"},
        {**right, "x": "c.safetensors"},
    ):
        index.write_text(json.dumps({"metadata": {}, "weight_map": found}))
        refused.message(refusal(model))
    (model / "shard-00000-model-00001-of-00001.safetensors").write_bytes(b"")
    refused.message(refusal(model))
