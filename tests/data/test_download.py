"""Official files, from a server on this machine: resumed, checked, and unpacked safely."""

import dataclasses
import hashlib
import random
import tarfile
import zipfile

import pytest
from support.hub_server import Fault, small
from support.official import OFFICIAL, from_files, zipped

from grue.data import backoff
from grue.data.backoff import requested_wait
from grue.data.download import download
from grue.data.load import load_examples
from grue.data.unpack import unpack
from grue.errors import DataError

NOISE = random.Random(1)  # bytes that do not compress, the same ones in every run


def test_official_files_stand_in_for_the_hub(hub, waited, tmp_path):
    hub.plain["/files/ijcnlp_dailydialog.zip"] = OFFICIAL
    url, sha256 = f"{hub.address}/files/ijcnlp_dailydialog.zip", hashlib.sha256(OFFICIAL).hexdigest()
    task = small("dailydialog")
    sources = (task.data.sources[0], *from_files(task, url, sha256).data.sources)
    task = dataclasses.replace(task, data=dataclasses.replace(task.data, sources=sources))
    found = load_examples(task, "validation")
    assert (found.source, found.rows, len(found.examples)) == ("dailydialog", 3, 6)
    assert found.examples[0].references == ("Line 5 of validation 0, my friend.",)
    load_examples(task, "train")
    assert hub.bytes_of("ijcnlp") == len(OFFICIAL), "one file for all splits"
    hub.add("datasets", "li2017dailydialog/daily_dialog", {"x": b""}, "refs/convert/parquet")
    requests = len(hub.requests)
    load_examples(task, "validation", offline=True)
    assert len(hub.requests) == requests


def test_an_official_file_that_has_changed(hub, waited, tmp_path):
    hub.plain["/data.zip"] = OFFICIAL
    with pytest.raises(
        DataError,
        match=rf"data.zip: the file's sha256 is {hashlib.sha256(OFFICIAL).hexdigest()}, the task file says {'0' * 64}",
    ):
        load_examples(from_files(small("dailydialog"), f"{hub.address}/data.zip", "0" * 64), "test")
    assert not list(tmp_path.rglob("data.zip*"))


def test_an_interrupted_download_resumes(hub, waited, tmp_path):
    content, target, seen = NOISE.randbytes(5_000_000), tmp_path / "a.bin", []
    hub.plain["/a.bin"] = content
    hub.faults = [
        Fault("/a.bin", keep=0.5),
        Fault("/a.bin", status=503),
        Fault("/a.bin", status=429, headers={"Retry-After": "5"}),
    ]
    download(f"{hub.address}/a.bin", target, hashlib.sha256(content).hexdigest(), lambda *figures: seen.append(figures))
    assert target.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.bin"]
    assert hub.bytes_of("a.bin") == len(content)
    assert waited == [1.0, 2.0, 5.0]
    assert seen[-1] == (5_000_000, 5_000_000)


def test_a_download_resumes_in_another_process(hub, waited, tmp_path):
    content, target = NOISE.randbytes(3_000_000), tmp_path / "a.bin"
    hub.plain["/a.bin"] = content
    hub.faults = [Fault("/a.bin", keep=0.5), Fault("/a.bin", times=99, status=503)]
    with pytest.raises(
        DataError,
        match="a.bin: cannot be downloaded: Service Unavailable. What was received is kept; rerun the command later to resume",
    ):
        download(f"{hub.address}/a.bin", target)
    assert (tmp_path / "a.bin.part").read_bytes() == content[:1_500_000]
    hub.faults = []
    download(f"{hub.address}/a.bin", target)
    assert target.read_bytes() == content
    assert hub.requests[-1][2] == "bytes=1500000-"


def test_a_file_that_changes_meanwhile_starts_over(hub, waited, tmp_path):
    target = tmp_path / "a.bin"
    hub.plain["/a.bin"] = b"old" * 100_000
    hub.faults = [Fault("/a.bin", keep=0.5), Fault("/a.bin", times=99, status=503)]
    with pytest.raises(DataError):
        download(f"{hub.address}/a.bin", target)
    hub.plain["/a.bin"], hub.faults = b"new" * 50_000, []
    download(f"{hub.address}/a.bin", target)
    assert target.read_bytes() == b"new" * 50_000


def test_what_cannot_be_downloaded(hub, waited, tmp_path):
    with pytest.raises(DataError, match="nothing.zip: the server answered 404 Not Found."):
        download(f"{hub.address}/nothing.zip", tmp_path / "a")
    with pytest.raises(DataError, match="cannot be downloaded: .*refused"):
        download("http://127.0.0.1:9/a", tmp_path / "a")
    assert waited == [1.0, 2.0, 4.0, 8.0]
    hub.faults = [Fault("/a", status=429, headers={"Retry-After": "3600"})]
    with pytest.raises(DataError, match="The server asked to retry after 3600 s"):
        download(f"{hub.address}/a", tmp_path / "a")


def test_a_download_is_of_the_web_and_no_larger_than_allowed(hub, waited, tmp_path):
    for url in ("http://[", "http://127.0.0.1:port/a", "https://" + "a" * 70 + "/b"):
        with pytest.raises(DataError, match="this address, or what it leads to, is malformed"):
            download(url, tmp_path / "a")
    hub.faults = [Fault("/moved", status=302, headers={"Location": "http://["})]
    with pytest.raises(DataError, match="this address, or what it leads to, is malformed"):
        download(f"{hub.address}/moved", tmp_path / "a")
    assert waited == []
    hub.plain["/a"] = b"x" * 1_001
    with pytest.raises(DataError, match=r"/a: the file has 1,001 bytes or more, at most allowed are 1,000\."):
        download(f"{hub.address}/a", tmp_path / "a", most=1_000)
    assert sorted(path.name for path in tmp_path.glob("a*")) == []
    download(f"{hub.address}/a", tmp_path / "a", most=1_001)
    assert (tmp_path / "a").read_bytes() == hub.plain["/a"]


def test_the_wait_that_a_server_asks_for(monkeypatch):
    monkeypatch.setattr(backoff.time, "time", lambda: 784111777.0)  # Sun, 06 Nov 1994 08:49:37 GMT
    assert requested_wait("Sun, 06 Nov 1994 08:50:07 GMT", 1) == 30
    assert requested_wait("Sun, 06 Nov 1994 08:00:00 GMT", 1) == 0
    assert requested_wait(" 12 ", 1) == 12
    assert requested_wait("soon", 4) == 4
    assert requested_wait(None, 4) == 4


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "C:\\evil", "..\\evil"])
def test_an_archive_cannot_leave_its_folder(tmp_path, name):
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({"good": b"1", name: b"2"}))
    with pytest.raises(DataError, match="a path outside its folder"):
        unpack(path, tmp_path / "in" / "to")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo(name)
        archive.addfile(member)
    with pytest.raises(DataError, match="a path outside its folder"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "in" / "to")
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_an_archive_holds_files_only(tmp_path, kind):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(DataError, match="refused"):
        unpack(tmp_path / "a.tar", tmp_path / "to")
    linked = zipfile.ZipInfo("link")
    linked.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(linked, "/etc/passwd")
    with pytest.raises(DataError, match="refused: it contains the link 'link'"):
        unpack(tmp_path / "a.zip", tmp_path / "to")


def test_a_bomb_and_a_damaged_archive_are_refused(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(3_000_000))
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match="unpacks to more than is allowed"):
        unpack(path, tmp_path / "to", largest=2_000_000)
    whole = zipped({"a": NOISE.randbytes(1000)})
    for damaged in (whole[:-30], whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="the archive is damaged"):
            unpack(path, tmp_path / "to")


def test_another_file_is_copied(tmp_path):
    (tmp_path / "a.jsonl").write_text("{}\n")
    unpack(tmp_path / "a.jsonl", tmp_path / "to")
    assert (tmp_path / "to" / "a.jsonl").read_text() == "{}\n"
    with tarfile.open(tmp_path / "b.tgz", "w:gz") as archive:
        archive.add(tmp_path / "a.jsonl", "deep/b.jsonl")
    unpack(tmp_path / "b.tgz", tmp_path / "to")
    assert (tmp_path / "to" / "deep" / "b.jsonl").read_text() == "{}\n"
