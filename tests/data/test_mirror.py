"""The mirror: fetched once, atomically, by any number of processes; then everything works without a network."""

import json
import os
import re
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from support.hub_server import HEAD_COMMIT, Fault, add_data_sets, parquet, row, small, suite
from support.late import late

from grue import __version__
from grue.data import mirror
from grue.data.load import load_examples
from grue.data.places import fetch_split, places
from grue.errors import DataError
from grue.files import sha256_file

tiny, commands = late("support.tiny"), late("support.commands")


@pytest.fixture
def wmt(hub, waited):
    """A task whose data set the hub has."""
    add_data_sets(hub, "wmt16")
    return small("wmt16")


@pytest.fixture
def folder(tmp_path):
    """Where its data are kept."""
    return tmp_path / "cache/mirror/wmt--wmt16--de-en" / HEAD_COMMIT


def pinned(task, revision):
    sources = (replace(task.data.sources[0], revision=revision),)
    return replace(task, data=replace(task.data, sources=sources))


def offline(task, split="test"):
    return load_examples(task, split, offline=True)


def test_the_manifest_describes_the_folder(wmt, folder):
    for split in ("train", "test"):
        fetch_split(wmt, split)
    manifest = json.loads((folder / "manifest.json").read_text())
    said = {"schema": 1, "kind": "hub", "name": "wmt/wmt16", "config": "de-en", "asked": "", "revision": HEAD_COMMIT}
    assert manifest.items() >= (said | {"licence": wmt.data.licence, "grue": __version__}).items()
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT.*\+00:00", manifest["fetched"])
    assert set(manifest["files"]) == {"train.parquet", "test.parquet"}
    for name, figures in manifest["files"].items():
        path = folder / name
        assert (figures["bytes"], figures["sha256"]) == (path.stat().st_size, sha256_file(path))
        assert (figures["rows"], figures["columns"]) == (pq.read_metadata(path).num_rows, ["translation"])
    shards = [f"de-en/train-0000{part}-of-00002.parquet" for part in (0, 1)]
    assert manifest["files"]["train.parquet"]["origin"] == shards
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "manifest.json", "test.parquet", "train.parquet"]
    assert pq.read_table(folder / "train.parquet").to_pylist() == [row("wmt16", "train", n) for n in range(60)]


def test_undamaged_files_are_not_fetched_again(hub, wmt, folder):
    fetch_split(wmt, "test")
    served = hub.bytes_of("parquet")
    fetch_split(wmt, "test")
    assert hub.bytes_of("parquet") == served
    requests = len(hub.requests)
    fetch_split(pinned(wmt, HEAD_COMMIT), "test")
    assert len(hub.requests) == requests, "a pinned commit needs no request"
    (source,) = wmt.data.sources
    assert mirror.find(source, "test") is not None and mirror.find(replace(source, columns=()), "test") is None
    (folder / "test.parquet").write_bytes(b"damaged")
    fetch_split(wmt, "test")
    assert hub.bytes_of("parquet") == 2 * served


def test_damage_is_reported_of_the_mirror_its_manifest_and_the_cache(wmt, folder, tmp_path):
    before = tuple(fetch_split(wmt, "test")[0].examples)
    path, manifest = folder / "test.parquet", folder / "manifest.json"
    (cached,) = (tmp_path / "cache" / "examples").glob("*.arrow")
    cached.write_bytes(cached.read_bytes()[:-50])
    with pytest.raises(DataError, match=f"{cached}: cannot be read: .*. Delete it; it will be rebuilt from the data"):
        offline(wmt)
    cached.unlink()
    assert tuple(offline(wmt).examples) == before
    cached.unlink()
    content = path.read_bytes()
    path.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    told = f"{path}: sha256 is .*, but manifest.json says .*: it is damaged. Delete the folder and fetch"
    with pytest.raises(DataError, match=told):
        offline(wmt)
    path.unlink()
    with pytest.raises(DataError, match=f"{path}: is missing, though manifest.json lists it"):
        offline(wmt)
    manifest.write_text(manifest.read_text().replace('"schema": 1', '"schema": 2'))
    with pytest.raises(DataError, match="manifest.json: schema 2, but this version of grue reads 1"):
        offline(wmt)


def test_the_pinned_commit_counts_and_of_a_branch_the_last_one_fetched(hub, waited, refused):
    versions = {"b" * 40: 3, "a" * 40: 5}
    for commit, count in versions.items():
        content = parquet([row("wmt16", "test", number) for number in range(count)])
        hub.add("datasets", "wmt/wmt16", {"de-en/test-00000-of-00001.parquet": content}, "main", commit)
        hub.revisions["datasets", "wmt/wmt16"][commit] = commit
        fetch_split(small("wmt16"), "test")
    assert offline(small("wmt16")).revision == "a" * 40
    for commit, count in versions.items():
        loaded = offline(pinned(small("wmt16"), commit))
        assert (loaded.revision, len(loaded.examples)) == (commit, count)
    with refused(DataError):
        offline(pinned(small("wmt16"), "c" * 40))


def test_a_mirror_can_be_elsewhere(wmt, monkeypatch, tmp_path):
    monkeypatch.setenv("GRUE_DATA", str(tmp_path / "elsewhere"))
    fetch_split(wmt, "test")
    assert (tmp_path / "elsewhere" / "wmt--wmt16--de-en" / HEAD_COMMIT / "test.parquet").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "moved")
    with pytest.raises(DataError, match="is not on this machine"):
        offline(wmt)
    monkeypatch.setenv("GRUE_DATA", str(tmp_path / "moved"))
    assert len(offline(wmt).examples) == 10


def test_the_hubs_own_cache_serves_offline(hub, waited):
    from huggingface_hub import snapshot_download

    add_data_sets(hub, "wmt16", "narrativeqa")
    for name in ("wmt/wmt16", "deepmind/narrativeqa"):
        snapshot_download(name, repo_type="dataset")
    hub.revisions.clear()
    requests = len(hub.requests)
    assert len(offline(small("wmt16"), "train").examples) == 60
    assert len(offline(small("narrativeqa")).examples) == 10
    assert len(hub.requests) == requests


def test_places_are_listed_in_the_order_of_use_and_say_what_is_there(wmt, folder):
    fetch_split(wmt, "test")
    found = [*places(wmt, "test", offline=True)]
    assert [(place.kind, place.available) for place in found] == [("cache", True), ("mirror", True), ("hub", False)]
    path = folder / "test.parquet"
    assert (found[1].where, found[1].bytes) == (str(path), path.stat().st_size)
    path.unlink()
    assert [place.available for place in places(wmt, "test", offline=True)] == [True, False, False]


def test_a_split_that_the_folder_in_the_mirror_lacks_comes_from_the_hub(wmt, tmp_path):
    beside = tmp_path / "cache/mirror/wmt16--folder"
    beside.mkdir(parents=True)
    assert [(place.kind, place.available) for place in places(wmt, "test")] == [("local", False), ("hub", True)]
    assert load_examples(wmt, "test").source == "wmt/wmt16"
    with pytest.raises(DataError, match=rf"\n  folder {beside}: no .*\n  hub wmt/wmt16: "):
        offline(wmt, "train")


# --- processes -------------------------------------------------------------------------------------------------------


def test_two_fetches_at_once(hub, wmt):
    gate = threading.Barrier(2)

    def fetched(_):
        gate.wait()
        return fetch_split(small("wmt16"), "train")[0].ids_sha256

    with ThreadPoolExecutor(2) as pool:
        assert len({*pool.map(fetched, range(2))}) == 1
    gets = [path for method, path, _ in hub.requests if method == "GET" and path.endswith("parquet")]
    assert len(gets) == 2, "each of the two files was fetched once"


def test_a_killed_fetch_resumes_when_rerun(hub, wmt, folder):
    """A process that is forked off is killed between the first file and the second."""
    gate = threading.Event()
    hub.faults = [Fault(r"train-00001.*\.parquet$", keep=0.6, gate=gate)]
    if not (child := os.fork()):
        try:
            fetch_split(wmt, "train")
        finally:
            os._exit(1)
    pause = threading.Event()
    while not [*folder.glob(".train.parts/*.parquet")]:
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
        pause.wait(0.02)
    os.kill(child, signal.SIGKILL)
    gate.set()
    assert os.waitpid(child, 0) == (child, signal.SIGKILL)
    assert not (folder / "train.parquet").exists()
    first = hub.bytes_of("train-00000")
    loaded, _ = fetch_split(wmt, "train")
    assert (loaded.rows, len(loaded.examples)) == (60, 60)
    assert hub.bytes_of("train-00000") == first, "a finished file is not fetched again"
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "manifest.json", "train.parquet"]


@pytest.mark.slow
def test_after_a_fetch_everything_works_without_a_network(hub, waited, tmp_path, monkeypatch):
    monkeypatch.setenv("GRUE_RUNS", str(tmp_path / "runs"))
    add_data_sets(hub, "commongen")
    model, task = tmp_path / "model", suite(tmp_path, "commongen") / "commongen.toml"
    for one in (tiny.model("seq2seq"), tiny.tokenizer("seq2seq")):
        one.save_pretrained(model)
    files = {path.name: path.read_bytes() for path in model.iterdir()}
    hub.add("models", "someone/tiny-t5", files | {"tf_model.h5": b"large", "pytorch_model.bin": b"old"})
    text = task.read_text(encoding="utf-8").replace("google-t5/t5-base", "someone/tiny-t5")
    task.write_text(re.sub(r'\[\[metrics\]\]\nname = "spice".*?\n\n', "", text, flags=re.DOTALL), encoding="utf-8")

    def grue(*arguments):
        done = commands.here(*map(str, arguments), "--suite", str(task.parent))
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "model someone/tiny-t5: " in grue("data", "fetch", "commongen", "--models")
    assert hub.bytes_of(r"h5$|bin$") == 0
    requests = len(hub.requests)

    def refuse(*arguments):
        raise AssertionError(f"a connection was opened: {arguments}")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    few = ("updates=1", "rollouts=2", "minibatch_size=2", "validation_examples=2")
    grue("train", "--task", "commongen", "--algo", "ppo", *(part for one in few for part in ("--set", one)))
    (checkpoint,) = (tmp_path / "runs").rglob("checkpoint")
    grue("evaluate", "--task", "commongen", "--checkpoint", checkpoint)
    (predictions,) = (tmp_path / "runs").rglob("predictions.jsonl")
    assert len(predictions.read_text().splitlines()) == 12
    assert "cider" in grue("score", predictions, "--task", "commongen")
    assert len(hub.requests) == requests
