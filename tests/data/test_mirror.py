"""The mirror: fetched once, atomically, by any number of processes; then everything works without a network."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import hub_server, tiny
from support.hub_server import BLOCKED, HEAD_COMMIT, Fault, finished, grue, small, suite
from support.paths import ROOT

from grue import __version__
from grue.data import mirror
from grue.data.load import load_examples
from grue.data.places import fetch_split, places
from grue.errors import DataError
from grue.evaluation.needed_models import needed_models
from grue.files import sha256_file


def folder_of(tmp_path, name="wmt--wmt16--de-en", commit=HEAD_COMMIT):
    return tmp_path / "cache" / "mirror" / name / commit


def pinned(task, revision):
    sources = (replace(task.data.sources[0], revision=revision),)
    return replace(task, data=replace(task.data, sources=sources))


def test_the_manifest_describes_the_folder(hub, waited, tmp_path):
    hub_server.add_data_sets(hub, "wmt16")
    task = small("wmt16")
    for split in ("train", "test"):
        loaded, _ = fetch_split(task, split)
    folder = folder_of(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {key: manifest[key] for key in ("schema", "kind", "name", "config", "asked", "revision", "licence", "grue")} == {
        "schema": 1, "kind": "hub", "name": "wmt/wmt16", "config": "de-en", "asked": "", "revision": HEAD_COMMIT,
        "licence": task.data.licence, "grue": __version__,
    }  # fmt: skip
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT.*\+00:00", manifest["fetched"])
    assert set(manifest["files"]) == {"train.parquet", "test.parquet"}
    for name, figures in manifest["files"].items():
        path = folder / name
        assert (figures["bytes"], figures["sha256"]) == (path.stat().st_size, sha256_file(path))
        assert (figures["rows"], figures["columns"]) == (pq.read_metadata(path).num_rows, ["translation"])
    assert manifest["files"]["train.parquet"]["origin"] == [
        "de-en/train-00000-of-00002.parquet",
        "de-en/train-00001-of-00002.parquet",
    ]
    assert manifest["ids"]["grue/wmt16"]["test"] == loaded.ids_sha256
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "manifest.json", "test.parquet", "train.parquet"]
    assert pq.read_table(folder / "train.parquet").to_pylist() == [
        hub_server.row("wmt16", "train", n) for n in range(60)
    ]


def test_undamaged_files_are_not_fetched_again(hub, waited, tmp_path):
    hub_server.add_data_sets(hub, "wmt16")
    fetch_split(small("wmt16"), "test")
    served = hub.bytes_of("parquet")
    fetch_split(small("wmt16"), "test")
    assert hub.bytes_of("parquet") == served
    requests = len(hub.requests)
    fetch_split(pinned(small("wmt16"), HEAD_COMMIT), "test")
    assert len(hub.requests) == requests, "a pinned commit needs no request"
    (folder_of(tmp_path) / "test.parquet").write_bytes(b"damaged")
    fetch_split(small("wmt16"), "test")
    assert hub.bytes_of("parquet") == 2 * served


def test_a_damaged_mirror_is_reported(hub, waited, tmp_path):
    hub_server.add_data_sets(hub, "wmt16")
    fetch_split(small("wmt16"), "test")
    path = folder_of(tmp_path) / "test.parquet"
    content = path.read_bytes()
    for cached in (tmp_path / "cache" / "examples").iterdir():
        cached.unlink()
    path.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    with pytest.raises(
        DataError, match=f"{path}: sha256 is .*, manifest.json says .*: it is damaged. Delete the folder and fetch"
    ):
        load_examples(small("wmt16"), "test", offline=True)
    path.unlink()
    with pytest.raises(DataError, match=f"{path}: is missing, though manifest.json lists it"):
        load_examples(small("wmt16"), "test", offline=True)


def test_a_file_of_examples_that_is_gone_or_damaged(hub, waited, tmp_path):
    hub_server.add_data_sets(hub, "wmt16")
    before = tuple(load_examples(small("wmt16"), "test").examples)
    (path,) = (tmp_path / "cache" / "examples").glob("*.arrow")
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match=f"{path}: cannot be read: .*. Delete it; it is rebuilt from the data"):
        load_examples(small("wmt16"), "test")
    path.unlink()
    assert tuple(load_examples(small("wmt16"), "test").examples) == before


def test_the_pinned_commit_counts_and_of_a_branch_the_last_one_fetched(hub, waited):
    old, new = "a" * 40, "b" * 40
    for commit, count in ((old, 3), (new, 5)):
        rows = [hub_server.row("wmt16", "test", number) for number in range(count)]
        content = hub_server.parquet(rows, hub_server.SCHEMAS["wmt16"])
        hub.add("datasets", "wmt/wmt16", {"de-en/test-00000-of-00001.parquet": content}, "main", commit)
        hub.revisions["datasets", "wmt/wmt16"][commit] = commit
        fetch_split(small("wmt16"), "test")
    assert load_examples(small("wmt16"), "test", offline=True).revision == new
    for commit, count in ((old, 3), (new, 5)):
        loaded = load_examples(pinned(small("wmt16"), commit), "test", offline=True)
        assert (loaded.revision, len(loaded.examples)) == (commit, count)
    with pytest.raises(DataError, match=f"at {'c' * 40} is not on this machine. Fetch it with a connection"):
        load_examples(pinned(small("wmt16"), "c" * 40), "test", offline=True)


def test_other_columns_are_fetched_again(hub, waited):
    hub_server.add_data_sets(hub, "narrativeqa")
    task = small("narrativeqa")
    fetch_split(task, "test")
    fewer = replace(task.data.sources[0], columns=task.data.sources[0].columns[:3])
    assert mirror.find(task.data.sources[0], "test") is not None
    assert mirror.find(fewer, "test") is None


def test_a_mirror_can_be_elsewhere(hub, waited, monkeypatch, tmp_path):
    hub_server.add_data_sets(hub, "wmt16")
    monkeypatch.setenv("GRUE_DATA", str(tmp_path / "elsewhere"))
    fetch_split(small("wmt16"), "test")
    assert (tmp_path / "elsewhere" / "wmt--wmt16--de-en" / HEAD_COMMIT / "test.parquet").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "moved")
    with pytest.raises(DataError, match="is not on this machine"):
        load_examples(small("wmt16"), "test", offline=True)
    monkeypatch.setenv("GRUE_DATA", str(tmp_path / "moved"))
    assert len(load_examples(small("wmt16"), "test", offline=True).examples) == 10


def test_the_hubs_own_cache_serves_offline(hub, waited):
    from huggingface_hub import snapshot_download

    hub_server.add_data_sets(hub, "wmt16", "narrativeqa")
    for name in ("wmt/wmt16", "deepmind/narrativeqa"):
        snapshot_download(name, repo_type="dataset")
    hub.revisions.clear()
    requests = len(hub.requests)
    assert len(load_examples(small("wmt16"), "train", offline=True).examples) == 60
    assert len(load_examples(small("narrativeqa"), "test", offline=True).examples) == 10
    assert len(hub.requests) == requests


def test_places_are_listed_in_the_order_of_use(hub, waited, tmp_path):
    hub_server.add_data_sets(hub, "dailydialog")
    task = small("dailydialog")
    kinds = [(place.kind, place.available) for place in places(task, "test")]
    assert kinds == [("hub", True), ("files", True)]
    assert next(places(task, "test")).where == f"li2017dailydialog/daily_dialog@{'2' * 40}"
    assert [(place.kind, place.available) for place in places(task, "test", offline=True)] == [
        ("hub", False),
        ("files", False),
    ]
    fetch_split(task, "test")
    found = list(places(task, "test", offline=True))
    assert [(place.kind, place.available) for place in found][:2] == [("cache", True), ("mirror", True)]
    assert found[1].where == str(folder_of(tmp_path, "li2017dailydialog--daily_dialog", "2" * 40) / "test.parquet")
    assert found[1].bytes == Path(found[1].where).stat().st_size
    Path(found[1].where).unlink()
    assert [(place.kind, place.available) for place in places(task, "test", offline=True)][1] == ("mirror", False)


def test_a_manifest_of_another_version(hub, waited, tmp_path):
    hub_server.add_data_sets(hub, "wmt16")
    fetch_split(small("wmt16"), "test")
    path = folder_of(tmp_path) / "manifest.json"
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))
    with pytest.raises(DataError, match="manifest.json: schema 2, this version of grue reads 1"):
        load_examples(small("wmt16"), "test", offline=True)


def test_models_that_a_task_needs():
    from grue.task_files import load_task

    found = dict(needed_models(load_task("imdb", "grue")))
    assert {"lvwerra/gpt2-imdb", "lvwerra/distilbert-imdb", "openai-community/gpt2"} <= set(found)
    assert needed_models(load_task("imdb")) == []


def test_two_fetches_at_once(hub, waited):
    hub_server.add_data_sets(hub, "wmt16")
    found, gate = [], threading.Barrier(2)

    def both():
        gate.wait()
        found.append(fetch_split(small("wmt16"), "train")[0].ids_sha256)

    threads = [threading.Thread(target=both) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert found[0] == found[1]
    whole = [
        path for method, path, asked in hub.requests if method == "GET" and path.endswith("parquet") and asked is None
    ]
    assert len(whole) == 2, "each of the two files was fetched once"


# --- processes -------------------------------------------------------------------------------------------------------


def test_a_killed_fetch_resumes_when_rerun(hub, tmp_path):
    hub_server.add_data_sets(hub, "wmt16")
    gate = threading.Event()
    hub.faults = [Fault(r"train-00001.*\.parquet$", keep=0.6, gate=gate, whole=True)]
    command = ("data", "fetch", "wmt16", "--split", "train", "--suite", suite(tmp_path, "wmt16"))
    process, mirror_ = grue(hub, tmp_path, *command), tmp_path / "cache" / "mirror"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (
        list(mirror_.rglob("*.incomplete")) and list(mirror_.rglob(".train.parts/*.parquet"))
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    gate.set()
    assert finished(process)[0] == -signal.SIGKILL
    assert not list(mirror_.rglob("train.parquet"))
    first = hub.bytes_of("train-00000")
    code, out, errors = finished(grue(hub, tmp_path, *command))
    assert code == 0, errors
    assert "grue/wmt16 train: 60 rows, 60 examples from wmt/wmt16@111111111111" in out
    assert hub.bytes_of("train-00000") == first, "a finished file is not fetched again"
    assert sorted(path.name for path in folder_of(tmp_path).iterdir()) == [".lock", "manifest.json", "train.parquet"]


def model_files(folder, family):
    """A small model of the family and its tokenizer, as files of a repository."""
    tiny.model(family).save_pretrained(folder)
    tiny.tokenizer(family).save_pretrained(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_after_a_fetch_everything_works_without_a_network(hub, tmp_path):
    hub_server.add_data_sets(hub, "commongen")
    hub.add(
        "models",
        "someone/tiny-t5",
        model_files(tmp_path / "model", "seq2seq") | {"tf_model.h5": b"large", "pytorch_model.bin": b"old"},
    )
    folder = suite(tmp_path, "commongen")
    path = folder / "commongen.toml"
    text = path.read_text(encoding="utf-8").replace("google-t5/t5-base", "someone/tiny-t5")
    text = re.sub(r'\[\[metrics\]\]\nname = "spice".*?\n\n', "", text, flags=re.DOTALL)
    path.write_text(text, encoding="utf-8")
    code, out, errors = finished(grue(hub, tmp_path, "data", "fetch", "commongen", "--suite", folder, "--models"))
    assert code == 0, errors
    assert "model someone/tiny-t5: " in out
    assert hub.bytes_of(r"h5$|bin$") == 0
    requests = len(hub.requests)
    script = tmp_path / "blocked.py"
    script.write_text(BLOCKED)
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "1",
        "GRUE_CACHE": str(tmp_path / "cache"),
        "GRUE_RUNS": str(tmp_path / "runs"),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }

    def offline(*arguments):
        command = [sys.executable, script, *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    common = ("--suite", folder)
    updates = (
        "--set",
        "updates=1",
        "--set",
        "rollouts=2",
        "--set",
        "minibatch_size=2",
        "--set",
        "validation_examples=2",
    )
    offline("train", "--task", "commongen", "--algo", "ppo", *common, *updates)
    (checkpoint,) = (tmp_path / "runs").rglob("checkpoint")
    offline("evaluate", "--task", "commongen", "--checkpoint", checkpoint, *common)
    (predictions,) = (tmp_path / "runs").rglob("predictions.jsonl")
    assert len(predictions.read_text().splitlines()) == 12
    assert "cider" in offline("score", predictions, "--task", "commongen", *common)
    assert len(hub.requests) == requests


# --- size ------------------------------------------------------------------------------------------------------------

MEASURE = """
import os, re, sys, time
import grue.data.places
from dataclasses import replace
from grue.data.load import load_examples
from grue.task_files import load_task

task = load_task("wmt16", "grue")
splits = {key: replace(split, rows=0, examples=0, ids_sha256="") for key, split in task.data.splits.items()}
task = replace(task, data=replace(task.data, splits=splits))
load_examples(task, "test", offline=True)
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
before = peak()
found = load_examples(task, "train", offline=True)
after = peak()
started = time.perf_counter()
again = load_examples(task, "train", offline=True)
print(len(found.examples), (after - before) // 1024, round(1000 * (time.perf_counter() - started)), again.examples[len(found.examples) - 1].prompt)
"""


def snapshot(folder, rows):
    """The hub's cache with a large train split, written bit by bit."""
    place = folder / "hf" / "datasets--wmt--wmt16" / "snapshots" / HEAD_COMMIT / "de-en"
    place.mkdir(parents=True)
    refs = place.parent.parent.parent / "refs"
    refs.mkdir()
    (refs / "main").write_text(HEAD_COMMIT)
    for split, count in (("train", rows), ("test", 10)):
        path = place / f"{split}-00000-of-00001.parquet"
        with pq.ParquetWriter(path, hub_server.SCHEMAS["wmt16"]) as writer:
            for first in range(0, count, 10_000):
                part = [
                    {"translation": {"de": f"Satz {n} " + "lang " * 40, "en": f"Sentence {n} " + "long " * 40}}
                    for n in range(first, min(count, first + 10_000))
                ]
                writer.write_batch(pa.RecordBatch.from_pylist(part, schema=hub_server.SCHEMAS["wmt16"]))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures as Linux does")
def test_a_large_split_takes_little_memory(tmp_path):
    """200,000 pairs, 90 MB of text: more memory is taken for their ids, but not for their texts."""
    snapshot(tmp_path, 200_000)
    environment = {
        **os.environ,
        "HF_HUB_CACHE": str(tmp_path / "hf"),
        "GRUE_CACHE": str(tmp_path / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run([sys.executable, "-c", MEASURE], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    print("examples, megabytes, milliseconds:", done.stdout[:40])
    count, megabytes, milliseconds, *_ = done.stdout.split()
    assert int(count) == 200_000
    assert int(megabytes) < 110
    assert int(milliseconds) < 100
