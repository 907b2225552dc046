"""Official files, from a server on this machine: resumed, checked, and given up."""

import dataclasses
import hashlib
import random

import pytest
from support.hub_server import Fault, small
from support.official import OFFICIAL, from_files

from grue.data import backoff
from grue.data.backoff import requested_wait
from grue.data.download import download
from grue.data.load import load_examples
from grue.errors import DataError, Unavailable

CONTENT = random.Random(1).randbytes(3_000_000)


def test_official_files_stand_in_for_the_hub(hub, waited):
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
    requests = len(hub.requests)
    load_examples(task, "validation", offline=True)
    assert len(hub.requests) == requests


def test_an_official_file_that_has_changed(hub, waited, tmp_path, refused):
    hub.plain["/data.zip"] = OFFICIAL
    with refused(DataError):
        load_examples(from_files(small("dailydialog"), f"{hub.address}/data.zip", "0" * 64), "test")
    assert not list(tmp_path.rglob("data.zip*"))


def test_an_interrupted_download_resumes(hub, waited, tmp_path):
    target, seen = tmp_path / "a.bin", []
    hub.plain["/a.bin"] = CONTENT
    later = Fault("/a.bin", status=429, headers={"Retry-After": "5"})
    hub.faults = [Fault("/a.bin", keep=0.5), Fault("/a.bin", status=503), later]
    download(f"{hub.address}/a.bin", target, hashlib.sha256(CONTENT).hexdigest(), lambda *figures: seen.append(figures))
    assert target.read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.bin"]
    assert (hub.bytes_of("a.bin"), waited, seen[-1]) == (len(CONTENT), [1.0, 2.0, 5.0], (3_000_000, 3_000_000))


@pytest.mark.parametrize("then", [CONTENT, b"new" * 50_000], ids=["the same", "another"])
def test_a_download_resumes_in_another_process_unless_the_file_has_changed(hub, waited, tmp_path, refused, then):
    target = tmp_path / "a.bin"
    hub.plain["/a.bin"] = CONTENT
    hub.faults = [Fault("/a.bin", keep=0.5), Fault("/a.bin", times=99, status=503)]
    with refused(Unavailable):
        download(f"{hub.address}/a.bin", target)
    assert (tmp_path / "a.bin.part").read_bytes() == CONTENT[:1_500_000]
    hub.plain["/a.bin"], hub.faults = then, []
    download(f"{hub.address}/a.bin", target)
    assert target.read_bytes() == then
    assert hub.requests[-1][2] == "bytes=1500000-"


def test_what_cannot_be_downloaded(hub, waited, tmp_path, refused):
    hub.faults = [
        Fault("/later", status=429, headers={"Retry-After": "3600"}),
        Fault("/moved", status=302, headers={"Location": "http://["}),
    ]
    for url in ("http://[", "http://127.0.0.1:port/a", "https://" + "a" * 70 + "/b", f"{hub.address}/moved"):
        with pytest.raises(DataError, match="this address, or what it leads to, is malformed"):
            download(url, tmp_path / "a")
    for name, error in (("nothing", DataError), ("later", Unavailable)):
        with refused(error):
            download(f"{hub.address}/{name}", tmp_path / "a")
    assert waited == []
    with pytest.raises(Unavailable, match="cannot be downloaded: .*refused"):
        download("http://127.0.0.1:9/a", tmp_path / "a")
    assert waited == [1.0, 2.0, 4.0, 8.0]


def test_a_download_is_no_larger_than_allowed(hub, waited, tmp_path, refused):
    hub.plain["/a"] = b"x" * 1_001
    with refused(DataError):
        download(f"{hub.address}/a", tmp_path / "a", most=1_000)
    assert not list(tmp_path.glob("a*"))
    download(f"{hub.address}/a", tmp_path / "a", most=1_001)
    assert (tmp_path / "a").read_bytes() == hub.plain["/a"]


def test_the_wait_that_a_server_asks_for(monkeypatch):
    years = ("Sun, 06 Nov 99999 08:49:37 GMT", "Mon, 01 Jan 0001 00:00:00 +2359")
    assert all(requested_wait(odd, 4) in (0, 4) for odd in ("²", "٣", "-5", "1e9", "inf", "\0", *years))
    monkeypatch.setattr(backoff.time, "time", lambda: 784111777.0)  # Sun, 06 Nov 1994 08:49:37 GMT
    dates = {"Sun, 06 Nov 1994 08:50:07 GMT": 30, "Sun, 06 Nov 1994 08:00:00 GMT": 0}
    for told, wait in {**dates, " 12 ": 12, "soon": 4, None: 4, "9" * 400: float("inf")}.items():
        assert requested_wait(told, 4) == wait
