"""The hub, played by a server on this machine: transfers, refusals and failures."""

import dataclasses
import errno
import hashlib
import os
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import hub_server
from support.hub_server import HEAD_COMMIT, Fault, row, small

from grue.data.examples import ExampleFile
from grue.data.load import hash_ids, load_examples
from grue.data.mirror import fetch
from grue.errors import DataError
from grue.tasks import Source

COUNTS = {
    "imdb": 60,
    "commongen": 60,
    "dailydialog": 120,
    "totto": 60,
    "cnn_dailymail": 60,
    "wmt16": 60,
    "narrativeqa": 60,
}


# --- without failures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COUNTS)
def test_each_data_set_loads_from_the_hub(hub, waited, name):
    hub_server.add_data_sets(hub, name)
    task = small(name)
    loaded = {split: load_examples(task, split) for split in task.data.splits}
    repository, _, commit, _ = hub_server.PLACES[name]
    for split, found in loaded.items():
        assert isinstance(found.examples, ExampleFile)
        assert (found.source, found.revision, found.checked) == (repository, commit, True)
        assert found.rows == hub_server.ROWS[task.data.splits[split].source]
        ids = [example.id for example in found.examples]
        assert found.ids_sha256 == hashlib.sha256("".join(f"{i}\n" for i in sorted(ids)).encode()).hexdigest()
    shared = [split for split, said in task.data.splits.items() if said.source == "train"]
    assert sum(len(loaded[split].examples) for split in shared) == COUNTS[name]
    requests = len(hub.requests)
    again = load_examples(task, "train")
    assert tuple(again.examples) == tuple(loaded["train"].examples)
    assert len(hub.requests) == requests, "the second load needs no request"
    assert waited == []


def test_examples_are_what_the_rows_say(hub, waited):
    hub_server.add_data_sets(hub, "wmt16", "narrativeqa")
    first = load_examples(small("wmt16"), "test").examples[0]
    assert first.prompt == "translate English to German: The house test 0 is red."
    assert first.references == ("Das Haus test 0 ist rot.",)
    first = load_examples(small("narrativeqa"), "test").examples[0]
    assert first.prompt == r"what does the man of test 0 seek? \n in test 0 a man seeks a ring."
    assert first.references == ("a ring", "the ring")


def test_books_are_not_transferred(hub, waited):
    hub_server.add_data_sets(hub, "narrativeqa")
    stored = sum(len(data) for key, repository in hub.files.items() for data in repository.values())
    for split in ("train", "validation", "test"):
        load_examples(small("narrativeqa"), split)
    assert stored > 5_000_000
    assert hub.bytes_of(r"\.parquet$") < 0.1 * stored
    assert all(asked for method, path, asked in hub.requests if path.endswith(".parquet")), "only ranges are asked for"


def test_whole_files_are_downloaded_whole(hub, waited):
    hub_server.add_data_sets(hub, "cnn_dailymail")
    load_examples(small("cnn_dailymail"), "test")
    (data,) = (data for files in hub.files.values() for path, data in files.items() if path.startswith("3.0.0/test"))
    # The footer is read by ranges first, to know which columns there are.
    assert [asked for method, path, asked in hub.requests if "3.0.0/test" in path and method == "GET"][-1] is None
    assert hub.bytes_of("3.0.0/test") <= 2 * len(data)


def test_shares_and_splits_left_out(hub, waited):
    hub_server.add_data_sets(hub, "dailydialog")
    repository, branch, commit, _ = hub_server.PLACES["dailydialog"]
    leaked = [row("dailydialog", "train", number) for number in (0, 1, 2)] + [row("dailydialog", "test", 50)]
    content = hub_server.parquet(leaked, hub_server.SCHEMAS["dailydialog"])
    hub.add("datasets", repository, {"default/test/0000.parquet": content}, branch, commit)
    task = small("dailydialog")
    train, test = load_examples(task, "train"), load_examples(task, "test")
    assert (len(test.examples), len(train.examples), train.rows) == (8, 120 - 6, 60)
    assert not {example.id for example in train.examples} & {example.id for example in test.examples}
    hub_server.add_data_sets(hub, "imdb")
    parts = {
        split: {example.id for example in load_examples(small("imdb"), split).examples}
        for split in ("train", "validation")
    }
    ids = sorted(
        parts["train"] | parts["validation"], key=lambda identity: hashlib.sha256(identity.encode()).hexdigest()
    )
    assert parts == {"train": set(ids[12:]), "validation": set(ids[:12])}


def test_a_nested_column_is_named_without_its_lists(hub, waited):
    hub_server.add_data_sets(hub, "narrativeqa")
    source = Source("hub", "deepmind/narrativeqa", columns=("answers.text", "question"))
    held = fetch(source, "test", Path(os.environ["GRUE_CACHE"]) / "mirror", "none")
    rows = pq.read_table(held.folder / "test.parquet").to_pylist()
    assert rows[0] == {
        "question": {"text": "What does the man of test 0 seek?", "tokens": ["What"]},
        "answers": [{"text": "A ring"}, {"text": "the ring"}],
    }


# --- with failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "method", "status", "headers", "least"),
    [
        ("/api/datasets/.*/revision|/api/datasets/wmt/wmt16$", "GET", 429, {"Retry-After": "7"}, 7),
        ("/api/datasets/.*/tree", "GET", 503, {}, 1),
        (r"test.*\.parquet", "GET", 429, {"Retry-After": "7"}, 7),
        (r"test.*\.parquet", "GET", 503, {}, 1),
        (r"test.*\.parquet", "HEAD", 502, {}, 0),
    ],
)
def test_a_busy_hub_is_retried(hub, waited, path, method, status, headers, least):
    hub_server.add_data_sets(hub, "wmt16")
    hub.faults = [Fault(path, method, times=2, status=status, headers=headers)]
    assert len(load_examples(small("wmt16"), "test").examples) == 10
    assert hub.faults[0].times == 0
    assert len(waited) <= 5
    assert sum(seconds >= least for seconds in waited) >= (2 if least else 0)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_hub_that_stays_busy_is_given_up(hub, waited, status):
    hub_server.add_data_sets(hub, "wmt16")
    hub.faults = [Fault("/api/datasets/wmt", times=1000, status=status)]
    with pytest.raises(
        DataError,
        match=f"no source could be read:\n  hub wmt/wmt16: the data set wmt/wmt16: the hub failed: .*{status}",
    ):
        load_examples(small("wmt16"), "test")
    assert 1000 - hub.faults[0].times < 10
    assert sum(waited) < 60


def test_a_wait_that_is_too_long_is_refused(hub, waited):
    hub_server.add_data_sets(hub, "wmt16")
    hub.faults = [Fault("/api/datasets/wmt", times=9, status=429, headers={"Retry-After": "86400"})]
    with pytest.raises(DataError, match="the hub failed: .*429"):
        load_examples(small("wmt16"), "test")
    assert waited == []


def noise(rows):
    """A table of 1 kB a row that cannot be compressed."""
    random = Random(1)
    texts = [{"text": f"the film {random.randbytes(512).hex()}", "label": number % 2} for number in range(rows)]
    return hub_server.parquet(texts, hub_server.SCHEMAS["imdb"], row_group_size=2000, compression="none")


def test_a_dropped_connection_is_resumed(hub, waited, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 100_000)
    content = noise(3000)
    hub.add("datasets", "stanfordnlp/imdb", {"plain_text/test-00000-of-00001.parquet": content})
    task = dataclasses.replace(small("imdb"))
    source = dataclasses.replace(task.data.sources[0], columns=())  # all columns: the file comes whole
    task = dataclasses.replace(task, data=dataclasses.replace(task.data, sources=(source,)))
    hub.faults = [Fault(r"\.parquet$", keep=0.6, whole=True)]
    assert load_examples(task, "test").rows == 3000
    asked = [asked for method, path, asked in hub.requests if method == "GET" and path.endswith(".parquet")]
    assert asked[0] is None
    assert int(asked[1].removeprefix("bytes=").removesuffix("-")) > 0.5 * len(content)
    assert hub.bytes_of(r"\.parquet$") < 1.1 * len(content)


def test_a_dropped_range_is_asked_for_again(hub, waited):
    hub_server.add_data_sets(hub, "narrativeqa")
    hub.faults = [Fault(r"test.*\.parquet$", times=2, keep=0.5)]
    assert len(load_examples(small("narrativeqa"), "test").examples) == 10
    assert hub.faults[0].times == 0


@pytest.mark.parametrize("name", ["wmt16", "narrativeqa"])
def test_a_truncated_file_is_refused(hub, waited, tmp_path, name):
    hub_server.add_data_sets(hub, name)
    hub.faults = [Fault(r"test.*\.parquet$", times=1000, truncate=50)]
    with pytest.raises(DataError, match="truncated|Consistency check failed|damaged in transfer"):
        load_examples(small(name), "test")
    assert not list(tmp_path.rglob("test.parquet"))
    assert not list(tmp_path.rglob("*.arrow"))
    hub.faults = []
    assert len(load_examples(small(name), "test").examples) == 10


def test_a_file_that_is_not_what_the_hub_lists(hub, waited, tmp_path):
    """Equal in size, different in content: only the hash shows it."""
    hub_server.add_data_sets(hub, "wmt16")
    hub.faults = [Fault(r"test.*\.parquet$", damage=True, whole=True)]
    message = (
        r"test-00000-of-00001.parquet: damaged in transfer: (\d+) bytes with sha256 (\w+), the hub says \1 and (?!\2)"
    )
    with pytest.raises(DataError, match=message):
        load_examples(small("wmt16"), "test")
    assert hub.faults[0].times == 0
    assert not list(tmp_path.rglob("*.arrow"))
    assert len(load_examples(small("wmt16"), "test").examples) == 10


def test_a_shard_is_missing(hub, waited):
    hub_server.add_data_sets(hub, "wmt16")
    del hub.files["datasets", "wmt/wmt16", HEAD_COMMIT]["de-en/train-00001-of-00002.parquet"]
    with pytest.raises(DataError, match="only 1 of the 2 files like de-en/train-00000-of-00002.parquet exist"):
        load_examples(small("wmt16"), "train")


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (403, "GatedRepo", r"is gated: accept its conditions at http://.*/datasets/wmt/wmt16, then log in with `hf auth login` or set HF_TOKEN"),
        (401, "RepoNotFound", r"is not on the hub \(http://.*/datasets/wmt/wmt16\): check the name; if it is private"),
        (404, "RevisionNotFound", "the hub has no such revision"),
        (403, "", "the hub denies access: .*403"),
    ],
)  # fmt: skip
def test_the_hubs_refusals_are_distinguished(hub, waited, status, code, message):
    hub_server.add_data_sets(hub, "wmt16")
    hub.faults = [Fault("/api/datasets/wmt", times=99, status=status, headers={"X-Error-Code": code} if code else {})]
    with pytest.raises(DataError, match=message):
        load_examples(small("wmt16"), "test")
    assert waited == [], "retrying would not help"


def test_no_such_repository_branch_file_or_column(hub, waited):
    with pytest.raises(DataError, match=r"the data set wmt/wmt16 is not on the hub"):
        load_examples(small("wmt16"), "test")
    hub.add("datasets", "wmt/wmt16", {"README.md": b"", "cs-en/test.parquet": b""})
    with pytest.raises(
        DataError, match=r"no parquet file de-en/test-\*.parquet for the split 'test'; it has cs-en/test.parquet"
    ):
        load_examples(small("wmt16"), "test")
    content = hub_server.parquet([{"text": "a"}], pa.schema([("text", pa.string())]))
    hub.add("datasets", "wmt/wmt16", {"de-en/test-00000-of-00001.parquet": content})
    with pytest.raises(DataError, match="there is no column 'translation'; it has text. The data set has changed"):
        load_examples(small("wmt16"), "test")
    hub.add("datasets", "wmt/wmt16", {"de-en/test-00000-of-00001.parquet": b"no parquet at all, only a text"})
    with pytest.raises(DataError, match="not a complete parquet file"):
        load_examples(small("wmt16"), "test")
    hub.add("datasets", "li2017dailydialog/daily_dialog", {"a.py": b""})
    with pytest.raises(DataError, match="hub li2017dailydialog/daily_dialog: .*the hub has no such revision"):
        load_examples(from_hub_only(small("dailydialog")), "test")


def from_hub_only(task):
    return dataclasses.replace(task, data=dataclasses.replace(task.data, sources=task.data.sources[:1]))


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"rows": 11}, "rows 10, the task file says 11"),
        ({"examples": 9}, "examples 10, the task file says 9"),
        ({"ids_sha256": "ab" * 32}, f"ids_sha256 [0-9a-f]{{64}}, the task file says {'ab' * 32}"),
    ],
)
def test_a_changed_data_set_is_reported(hub, waited, figures, message):
    hub_server.add_data_sets(hub, "wmt16")
    where = f"grue/wmt16, split 'test' of wmt/wmt16@{HEAD_COMMIT}: "
    with pytest.raises(DataError, match=f"{where}{message}. The data set has changed; `grue data verify wmt16`"):
        load_examples(small("wmt16", test=figures), "test")


def test_a_hub_that_is_not_there(hub, waited, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DataError, match="the data set wmt/wmt16: the hub cannot be reached: ConnectError"):
        load_examples(small("wmt16"), "test")


@pytest.mark.parametrize("name", ["wmt16", "narrativeqa"])
def test_a_full_disk_leaves_no_incomplete_file(hub, waited, monkeypatch, tmp_path, name):
    hub_server.add_data_sets(hub, name)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match="the disk is full"):
            load_examples(small(name), "test")
    assert not [
        path
        for path in (tmp_path / "cache").rglob("*.*")
        if path.suffix in (".parquet", ".arrow", ".json") and "whole" not in path.parts
    ]
    assert len(load_examples(small(name), "test").examples) == 10


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.filterwarnings("ignore:Not enough free disk space")
def test_a_disk_that_is_really_full(hub, waited, monkeypatch, tmp_path):
    place = tmp_path / "tiny"
    place.mkdir()
    if os.system(f"mount -t tmpfs -o size=1m tmpfs {place} 2>/dev/null"):
        pytest.skip("may not mount a file system")
    try:
        monkeypatch.setenv("GRUE_CACHE", str(place))
        hub.add("datasets", "stanfordnlp/imdb", {"plain_text/test-00000-of-00001.parquet": noise(3000)})
        with pytest.raises(DataError, match="the disk is full"):
            load_examples(small("imdb"), "test")
        assert not list(place.rglob("test.parquet"))
        assert not list(place.rglob("*.arrow"))
    finally:
        os.system(f"umount {place}")


def test_ids_hash_alike_in_any_order_and_may_not_repeat():
    ids = ["b", "a-2", "a", "ä", "😀", "\uffff"]
    expected = hashlib.sha256("".join(f"{i}\n" for i in sorted(ids)).encode()).hexdigest()
    assert hash_ids(ids) == hash_ids(reversed(ids)) == expected
    with pytest.raises(DataError, match="The id 'a' is repeated"):
        hash_ids(["a", "b", "a"])
