"""The hub, played by a server on this machine: transfers, refusals and failures."""

import dataclasses
import errno
import hashlib
import os

import pytest
from support import hub_server
from support.hub_server import HEAD_COMMIT, Fault, add_data_sets, row, small

from grue.data.examples import ExampleFile
from grue.data.load import hash_ids, load_examples
from grue.errors import DataError

FILE = "de-en/test-00000-of-00001.parquet"


@pytest.fixture
def wmt(hub, waited):
    """A task whose data set the hub has."""
    add_data_sets(hub, "wmt16")
    return small("wmt16")


def count(task):
    return len(load_examples(task, "test").examples)


@pytest.mark.parametrize("name", hub_server.PLACES)
def test_each_data_set_loads_from_the_hub(hub, waited, name):
    add_data_sets(hub, name)
    task = small(name)
    loaded = {split: load_examples(task, split) for split in task.data.splits}
    for split, found in loaded.items():
        assert isinstance(found.examples, ExampleFile)
        assert (found.source, found.revision, found.checked) == (
            hub_server.PLACES[name][0],
            hub_server.PLACES[name][2],
            True,
        )
        assert found.rows == hub_server.ROWS[task.data.splits[split].source]
        ids = sorted(example.id for example in found.examples)
        assert found.ids_sha256 == hashlib.sha256("".join(f"{i}\n" for i in ids).encode()).hexdigest()
    shared = [split for split, said in task.data.splits.items() if said.source == "train"]
    assert sum(len(loaded[split].examples) for split in shared) == (120 if name == "dailydialog" else 60)
    requests = len(hub.requests)
    assert tuple(load_examples(task, "train").examples) == tuple(loaded["train"].examples)
    assert len(hub.requests) == requests, "the second load needs no request"
    assert waited == []
    first = loaded["test"].examples[0]
    if name == "wmt16":
        assert first.prompt == "translate English to German: The house test 0 is red."
        assert first.references == ("Das Haus test 0 ist rot.",)
    if name == "narrativeqa":
        assert first.prompt == r"what does the man of test 0 seek? \n in test 0 a man seeks a ring."
        assert first.references == ("a ring", "the ring")
        stored = sum(len(data) for files in hub.files.values() for data in files.values())
        assert hub.bytes_of(r"\.parquet$") < 0.1 * stored and stored > 5_000_000, "books are not transferred"
        assert all(asked for _, path, asked in hub.requests if path.endswith(".parquet")), "only ranges are asked for"


def test_shares_and_splits_left_out(hub, waited):
    add_data_sets(hub, "dailydialog", "imdb")
    repository, branch, commit, _ = hub_server.PLACES["dailydialog"]
    leaked = [row("dailydialog", "train", number) for number in (0, 1, 2)] + [row("dailydialog", "test", 50)]
    hub.add("datasets", repository, {"default/test/0000.parquet": hub_server.parquet(leaked)}, branch, commit)
    train, test = (load_examples(small("dailydialog"), split) for split in ("train", "test"))
    assert (len(test.examples), len(train.examples), train.rows) == (8, 120 - 6, 60)
    assert not {example.id for example in train.examples} & {example.id for example in test.examples}
    train, validation = (
        {example.id for example in load_examples(small("imdb"), split).examples} for split in ("train", "validation")
    )
    ids = sorted(train | validation, key=lambda identity: hashlib.sha256(identity.encode()).hexdigest())
    assert (train, validation) == (set(ids[12:]), set(ids[:12]))


# --- with failures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "wait"),
    [
        ("/api/datasets/.*/tree", 503, None),
        (r"test.*\.parquet", 429, 7),
        (r"test.*\.parquet", 503, None),
    ],
)
def test_a_busy_hub_is_retried(hub, wmt, waited, path, status, wait):
    hub.faults = [Fault(path, times=2, status=status, headers={"Retry-After": str(wait)} if wait else {})]
    assert count(wmt) == 10
    assert hub.faults[0].times == 0 and len(waited) <= 5
    assert sum(seconds >= (wait or 1) for seconds in waited) == 2


@pytest.mark.parametrize(("status", "headers"), [(429, {}), (500, {}), (503, {}), (429, {"Retry-After": "86400"})])
def test_a_hub_that_stays_busy_is_given_up(hub, wmt, waited, status, headers):
    hub.faults = [Fault("/api/datasets/wmt", times=1000, status=status, headers=headers)]
    failed = f"no source could be read:\n  hub wmt/wmt16: the data set wmt/wmt16: the hub failed: .*{status}"
    with pytest.raises(DataError, match=failed):
        count(wmt)
    assert 1000 - hub.faults[0].times < 10 and sum(waited) < (1 if headers else 60), "no day is waited for"


def full(descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("name", ["wmt16", "narrativeqa"])
def test_truncated_files_and_a_full_disk_leave_nothing_and_dropped_ranges_are_asked_for_again(
    hub, waited, monkeypatch, tmp_path, name
):
    add_data_sets(hub, name)
    hub.faults = [Fault(r"test.*\.parquet$", times=1000, truncate=50)]
    with pytest.raises(DataError, match="not a complete parquet file"):
        count(small(name))
    hub.faults = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match="the disk is full"):
            count(small(name))
    left = (tmp_path / "cache").rglob("*.*")
    assert not [path for path in left if path.suffix in (".parquet", ".arrow", ".json")]
    hub.faults = [Fault(r"test.*\.parquet$", times=2, keep=0.5)]
    assert count(small(name)) == 10 and hub.faults[0].times == 0


def test_the_hubs_refusals_are_distinguished(hub, wmt, waited, refused):
    for status, code in ((403, "GatedRepo"), (401, "RepoNotFound"), (404, "RevisionNotFound")):
        hub.faults = [Fault("/api/datasets/wmt", times=99, status=status, headers={"X-Error-Code": code})]
        with refused(DataError):
            count(wmt)
    hub.faults = [Fault("/api/datasets/wmt", times=99, status=403)]
    with pytest.raises(DataError, match=r"the hub denies access: .*403"):
        count(wmt)
    assert waited == [], "retrying would not help"


def test_no_such_repository_branch_file_or_column(hub, waited, monkeypatch, refused):
    task = small("wmt16")
    for content in (None, {"README.md": b"", "cs-en/test.parquet": b""}, {FILE: hub_server.parquet([{"text": "a"}])}):
        if content:
            hub.add("datasets", "wmt/wmt16", content)
        with refused(DataError):
            count(task)
    hub.add("datasets", "wmt/wmt16", {FILE: b"no parquet at all, only a text"})
    with pytest.raises(DataError, match="not a complete parquet file"):
        count(task)
    add_data_sets(hub, "wmt16")
    del hub.files["datasets", "wmt/wmt16", HEAD_COMMIT]["de-en/train-00001-of-00002.parquet"]
    with refused(DataError):
        load_examples(task, "train")
    hub.add("datasets", "li2017dailydialog/daily_dialog", {"a.py": b""})
    (source, *_), daily = small("dailydialog").data.sources, small("dailydialog")
    with refused(DataError):
        count(dataclasses.replace(daily, data=dataclasses.replace(daily.data, sources=(source,))))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DataError, match="the data set wmt/wmt16: the hub cannot be reached: ConnectError"):
        count(task)


def test_a_changed_data_set_is_reported(wmt, refused):
    for figures in ({"rows": 11}, {"examples": 9}, {"ids_sha256": "ab" * 32}):
        with refused(DataError):
            count(small("wmt16", test=figures))


def test_ids_hash_alike_in_any_order_and_may_not_repeat(refused):
    ids = ["b", "a-2", "a", "ä", "😀", "\uffff"]
    expected = hashlib.sha256("".join(f"{i}\n" for i in sorted(ids)).encode()).hexdigest()
    assert hash_ids(ids) == hash_ids(reversed(ids)) == expected
    with refused(DataError):
        hash_ids(["a", "b", "a"])
