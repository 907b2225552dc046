"""Official files, from a server on this machine: resumed, checked, and given up."""

import dataclasses
import hashlib
import io
import random
import zipfile

import pytest
from support.hub_server import HEAD_COMMIT, Fault, add_data_sets, small
from support.official import OFFICIAL, from_files, zipped
from support.scripted_server import answer, scripted

from grue.data import mirror
from grue.data.cache import mirror_folder
from grue.data.download import download
from grue.data.hub.errors import translate_hub_errors
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError, Unavailable

CONTENT = random.Random(1).randbytes(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 50_000)


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


def test_an_interrupted_download_resumes(hub, waited, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    target, seen = tmp_path / "a.bin", []
    hub.plain["/a.bin"] = CONTENT
    hub.faults = [Fault("/a.bin", keep=0.5), Fault("/a.bin", status=429, headers={"Retry-After": "5"})]
    download(f"{hub.address}/a.bin", target, SHA256, lambda *figures: seen.append(figures))
    assert target.read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.bin"]
    assert waited == [1, 6.0] and seen[-1] == (3_000_000, 3_000_000)
    assert len(CONTENT) <= hub.bytes_of("a.bin") < 1.1 * len(CONTENT)
    assert {value for *_, value in hub.headers} == {None}, "the hub's token is for the hub"


@pytest.mark.parametrize("sha256", [SHA256, ""], ids=["known", "unknown"])
def test_another_process_resumes_where_the_hash_is_known(hub, waited, tmp_path, sha256):
    hub.plain["/a.bin"] = CONTENT
    hub.faults = [Fault("/a.bin", keep=0.5), Fault("/a.bin", times=99, status=503)]
    with pytest.raises(Unavailable, match="cannot be downloaded: the server answered 503. Rerun"):
        download(f"{hub.address}/a.bin", tmp_path / "a.bin", sha256)
    kept = (tmp_path / "a.bin.part").stat().st_size
    assert 1_400_000 < kept <= 1_500_000
    hub.faults = []
    download(f"{hub.address}/a.bin", tmp_path / "a.bin", sha256)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert hub.requests[-1][2] == (f"bytes={kept}-" if sha256 else None)


def test_what_cannot_be_downloaded(hub, waited, tmp_path, refused):
    (tmp_path / "secret").write_text("secret")
    elsewhere = ["ftp://127.0.0.1/a", "data:,secret", (tmp_path / "secret").as_uri()]
    hub.faults = [Fault(f"/to{n}$", times=9, status=302, headers={"Location": to}) for n, to in enumerate(elsewhere)]
    hub.faults += [Fault("/round", times=99, status=302, headers={"Location": "/round"})]
    malformed = ("http://127.0.0.1:port/a", "http://[", "http://")
    for url in (*elsewhere, *malformed, "http://127.0.0.1/a b", "http://127.0.0.1/\x1b[2J", f"{hub.address}/nothing"):
        with refused(DataError):
            download(url, tmp_path / "a")
    for url in ("http://127.0.0.1:9/a", *(f"{hub.address}/to{n}" for n in range(3)), f"{hub.address}/round"):
        with pytest.raises(DataError, match=rf"^{url}: .*\.$") as caught:
            download(url, tmp_path / "a")
        assert str(caught.value).isprintable()
    assert not (tmp_path / "a").exists()


def test_a_download_has_the_length_that_is_announced_and_no_more_than_is_allowed(hub, waited, tmp_path, refused):
    hub.plain["/a"] = b"x" * 1_001
    with refused(DataError):
        download(f"{hub.address}/a", tmp_path / "a", most=1_000)
    for odd in (answer("200 OK", b"x" * 100_000), answer("200 OK", Content_Length=10**12)):
        with scripted(odd) as (address, _), pytest.raises(DataError, match="more than the 1,000 bytes"):
            download(f"{address}/a", tmp_path / "a", most=1_000)
    assert not list(tmp_path.glob("a*"))
    download(f"{hub.address}/a", tmp_path / "a", most=1_001)
    assert (tmp_path / "a").read_bytes() == hub.plain["/a"]
    for short in (answer("200 OK", b"0123", Content_Length=9), b"", b"\0" * 100):
        with scripted(short) as (address, _), pytest.raises(DataError, match="cannot be downloaded: "):
            download(f"{address}/b", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_what_the_hub_says_cannot_control_the_terminal(refused):
    with refused(DataError), translate_hub_errors("the data set x"):
        raise ConnectionError("\x1b[2J\x1b[31mgone\nand more")


# --- official files without a hash -----------------------------------------------------------------------------------


@pytest.fixture
def official(hub, waited):
    """A task whose official files have no hash."""
    hub.plain["/master.zip"] = OFFICIAL
    return from_files(small("dailydialog"), f"{hub.address}/master.zip")


def fetch(task, offline=False, **changes):
    (source,) = task.data.sources
    return mirror.fetch(dataclasses.replace(source, **changes), "test", mirror_folder(), "", offline)


def test_official_files_without_a_hash_are_pinned_by_what_they_held_first(hub, official, tmp_path, refused):
    load_examples(official, "test")
    (archive,) = (tmp_path / "cache").rglob("master.zip")
    unpacked = archive.parent / "unpacked" / "ijcnlp_dailydialog" / "test.zip"
    good = unpacked.read_bytes()
    unpacked.write_bytes(good[:-1] + b"x")  # of the same size
    for path in (tmp_path / "cache" / "examples").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="unpacked: differs from what the official files unpack to"):
        load_examples(official, "test")
    unpacked.write_bytes(good)
    with zipfile.ZipFile(io.BytesIO(OFFICIAL)) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    for packed in (OFFICIAL, zipped(members, zipfile.ZIP_DEFLATED)):  # the latter anew by its host, the same files
        archive.write_bytes(b"damaged")
        hub.plain["/master.zip"] = packed
        fetch(official)
        assert archive.read_bytes() == packed, "fetched again"
    hub.plain["/master.zip"] = zipped({name: content + b" " for name, content in members.items()})
    archive.write_bytes(b"damaged")
    with pytest.raises(DataError, match="the official files have changed since they were first fetched, 20"):
        fetch(official)


def test_a_page_in_place_of_an_archive_is_not_kept(hub, official, tmp_path, refused):
    hub.plain["/master.zip"] = b"<html>Log in</html>"
    with refused(DataError):
        fetch(official)
    assert not [*(tmp_path / "cache").rglob("master.zip")]
    hub.plain["/master.zip"] = OFFICIAL
    assert fetch(official).split == "test"


def test_official_files_that_were_fetched_are_there_offline(hub, official, refused):
    with refused(DataError):
        fetch(official, offline=True)
    fetch(official)
    asked = len(hub.requests)
    assert fetch(official, offline=True).split == "test" and len(hub.requests) == asked


def test_addresses_name_files_of_their_own(hub, official, refused):
    for urls in (("/manifest.json",), ("/",), ("/a/.lock",), ("/unpacked",), ("/a/x.zip", "/b/x.zip")):
        with refused(ConfigError):
            fetch(official, urls=tuple(hub.address + url for url in urls))


def test_a_manifest_names_its_own_folder(official, tmp_path):
    """Else a mirror from elsewhere could send the reader anywhere."""
    load_examples(official, "test")
    (path,) = (tmp_path / "cache").rglob("manifest.json")
    path.write_text(path.read_text().replace(f'"revision": "{path.parent.name}"', '"revision": "../../\\u001b[2J"'))
    with pytest.raises(DataError, match=r"its revision is \.\./\.\./\\x1b\[2J, not that of its folder"):
        load_examples(official, "test")


def test_a_commit_of_the_hub_is_one(hub, waited, tmp_path, refused):
    """It becomes the name of a folder."""
    add_data_sets(hub, "imdb")
    evil, name = "../../../evil", ("datasets", "stanfordnlp/imdb")
    hub.files[*name, evil] = hub.files[*name, HEAD_COMMIT]
    hub.revisions[name] = dict.fromkeys(("main", ""), evil)
    with refused(DataError):
        fetch(small("imdb"), revision="")
    assert not list(tmp_path.rglob("*evil*"))
