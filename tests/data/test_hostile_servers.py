"""Servers that lie, stall or lead elsewhere: one error each, nothing taken for the file, and what was good is kept."""

import dataclasses
import hashlib
import io
import zipfile

import pytest
from support.hub_server import HEAD_COMMIT, add_data_sets, small
from support.official import OFFICIAL, from_files, zipped
from support.scripted_server import answer, dripping, scripted

from grue.data import mirror
from grue.data.cache import mirror_folder
from grue.data.download import download
from grue.data.hub.errors import translate_hub_errors
from grue.data.hub.listing import HubFile
from grue.data.hub.transfer import RangeFile
from grue.data.load import load_examples
from grue.data.pace import Pace
from grue.errors import ConfigError, DataError, Unavailable

QUICK = Pace(seconds=0.2, least=1000)


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """The seconds that were waited between attempts."""
    waited = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


@pytest.fixture
def target(tmp_path):
    return tmp_path / "a.bin"


@pytest.fixture
def refuse(target, refused):
    """Download what a server answers, and expect one line of printable text and no file."""

    def call(*answers, error=DataError, begun=None, kept=False, **options):
        if begun is not None:
            target.with_name("a.bin.part").write_bytes(begun)
            target.with_name("a.bin.part.etag").write_text('"1"')
        with scripted(*answers) as (address, _), refused(error) as caught:
            download(f"{address}/a.bin", target, pace=QUICK, **options)
        assert str(caught.value).isprintable() and len(str(caught.value)) < 500
        assert kept or not list(target.parent.iterdir()), "the next attempt starts over"

    return call


def part(body, told, **headers):
    return answer("206 Partial Content", body, **({"Content_Range": told} if told else {}), **headers)


# --- ranges and lengths ----------------------------------------------------------------------------------------------


def test_another_range_than_the_one_asked_for_is_refused(target, refuse):
    for told, body in [
        ("bytes 0-3/8", b"0123"),
        ("bytes 5-7/8", b"567"),
        ("bytes 4-6/8", b"456"),
        ("bytes 4-7/9", b"4567"),
        ("bytes */8", b"4567"),
        ("items 4-7/8", b"4567"),
        ("bytes 4-99999999999999999999/8", b"4567"),
        ("bytes ٤-7/8".encode().decode("latin-1"), b"4567"),
        ("\x1b]0;title\x07", b"4567"),
        ("", b"4567"),
    ]:
        refuse(part(body, told, Content_Length=len(body)), begun=b"0123")
    refuse(part(b"4567", "bytes 4-7/8"))  # none was asked for
    target.with_name("a.bin.part").write_bytes(b"0123")
    target.with_name("a.bin.part.etag").write_text('"1"')
    with scripted(part(b"4567", "bytes 4-7/8", Content_Length=4)) as (address, requests):
        download(f"{address}/a.bin", target, size=8)
    assert target.read_bytes() == b"01234567" and "Range: bytes=4-" in requests[0]


def test_the_rest_of_another_version_is_not_joined(target, refuse):
    """If-Range asks a server to send the whole file instead; not every one heeds it. A weak tag may stand for two."""
    for tag, told, rest in [('"2"', "bytes 4-7/8", b"4567"), ('"1"', "bytes 4-8/9", b"45678")]:
        refuse(answer("200 OK", b"0123", Content_Length=8, ETag='"1"'), part(rest, told, ETag=tag))
    half, whole = (answer("200 OK", body, Content_Length=8, ETag='W/"1"') for body in (b"0123", b"abcdefgh"))
    with scripted(half, whole) as (address, requests):
        download(f"{address}/a.bin", target)
    assert "Range" not in requests[1] and target.read_bytes() == b"abcdefgh"


def test_an_unexpected_status_is_an_error(refuse, waits):
    good = ("201 Created", "202 Accepted", "203 Non-Authoritative Information", "204 No Content", "226 IM Used")
    for status in (*good, "304 Not Modified", "401 Unauthorized", "410 Gone"):
        refuse(answer(status, b"x"))
    for status in ("404 \x1b[2J\x1b[31mgone", "403 \x07\x08\x9b31m", "418 " + "x" * 5000):
        refuse(answer(status))
    assert not waits


def test_the_length_is_the_one_announced_and_expected(target, refuse):
    refuse(answer("200 OK", b"0123", Content_Length=9), error=Unavailable, kept=True)
    for body in (b"012", b"01234"):
        for headers in ({"Content_Length": len(body)}, {}):
            refuse(answer("200 OK", body, **headers), size=4)
    refuse(answer("200 OK", Content_Length=10**12))
    with (
        scripted(answer("200 OK", b"x" * 100_000)) as (address, _),
        pytest.raises(DataError, match="allowed are 1,000"),
    ):
        download(f"{address}/a.bin", target, most=1000)
    for odd in ("abc", "-5", "1e3", "٣".encode().decode("latin-1")):
        with scripted(answer("200 OK", b"0123", Content_Length=odd)) as (address, _):
            download(f"{address}/a.bin", target, size=4)


# --- slow servers ----------------------------------------------------------------------------------------------------


def test_a_slow_server_is_given_up_and_resumed(target, waits):
    content = bytes(range(200)) * 20
    slow = dripping(answer("200 OK", content[:2000], Content_Length=4000, ETag='"1"'), content[2000:], pause=0.01)
    with scripted(slow) as (address, _), pytest.raises(Unavailable) as caught:
        download(f"{address}/a.bin", target, pace=QUICK)
    assert "cannot be downloaded: the server sent " in str(caught.value)
    assert "which is too slow. What was received is kept; rerun the command later to resume." in str(caught.value)
    assert waits == [1.0, 2.0, 4.0, 8.0]
    kept = target.with_name("a.bin.part").read_bytes()
    assert len(kept) >= 2000 and content.startswith(kept)
    with scripted(part(content[len(kept) :], f"bytes {len(kept)}-3999/4000", ETag='"1"')) as (address, requests):
        download(f"{address}/a.bin", target, hashlib.sha256(content).hexdigest(), pace=QUICK)
    assert f"Range: bytes={len(kept)}-" in requests[0] and target.read_bytes() == content


def test_a_server_that_is_silent_before_within_or_after_the_header_is_given_up(target, waits):
    head = answer("200 OK", Content_Length=100)
    for silent in (
        lambda connection: connection.recv(1),
        dripping(b"", head * 9, pause=0.02),
        lambda connection: (connection.sendall(head), connection.recv(1)),
    ):
        waits.clear()
        with scripted(silent) as (address, _), pytest.raises(Unavailable, match="cannot be downloaded: "):
            download(f"{address}/a.bin", target, pace=QUICK)
        assert waits == [1.0, 2.0, 4.0, 8.0]


def test_pace_counts_what_arrives_in_a_window(monkeypatch):
    now = iter([0.0, 5.0, 10.0, 15.0, 21.0, 26.0, 32.0])
    monkeypatch.setattr("grue.data.pace.time.monotonic", lambda: next(now))
    watched = Pace(seconds=10, least=100).watch([b"x" * 99, b"x", b"x" * 50, b"x" * 60, b"x" * 10, b"x"])
    assert sum(len(next(watched)) for _ in range(5)) == 220
    with pytest.raises(TimeoutError, match="sent 11 bytes in 11 s"):
        next(watched)


# --- where a server leads, and what it says ---------------------------------------------------------------------------


def test_only_http_is_followed(hub, tmp_path, target, refused, waits):
    (tmp_path / "secret").write_text("secret")
    elsewhere = ("ftp://127.0.0.1/a", "data:,secret", "gopher://127.0.0.1/", (tmp_path / "secret").as_uri())
    odd = ("http://127.0.0.1/a b", "http://127.0.0.1/\x1b[2J", "http://127.0.0.1/ä")
    for there in elsewhere:
        with scripted(answer("302 Found", Location=there)) as (address, _), refused(DataError):
            download(f"{address}/a.bin", target)
    for there in (*elsewhere, *odd):
        with refused(DataError) as caught:
            download(there, target)
        assert str(caught.value).isprintable()
    with scripted(answer("302 Found", Location="/a.bin")) as (address, _), refused(DataError):
        download(f"{address}/a.bin", target)
    assert not waits, "a second attempt would lead there again"
    hub.plain["/b.bin"] = b"0123"
    with scripted(answer("302 Found", Location=f"{hub.address}/b.bin")) as (address, _):
        download(f"{address}/a.bin", target)
    assert target.read_text() == "0123"


def test_what_is_not_http_is_an_error(refuse):
    for nonsense in (b"", b"\0" * 100, b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 500 + b"\r\n"):
        refuse(nonsense, error=Unavailable)
    refuse(answer("200 OK", b"zz\r\nabc\r\n", Transfer_Encoding="chunked"), error=Unavailable, kept=True)


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
    with pytest.raises(DataError, match="the official files have changed since they were fetched first, 20"):
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
    with pytest.raises(DataError, match=r"it is of the revision \.\./\.\./\\x1b\[2J, not of that of its folder"):
        load_examples(official, "test")


# --- the hub ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def imdb(hub, waited):
    add_data_sets(hub, "imdb")
    return small("imdb")


def test_the_ranges_of_the_hub_are_those_asked_for_and_of_one_version(imdb, refused, monkeypatch):
    def remote(address):
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/{filename}")
        return RangeFile(imdb.data.sources[0], HEAD_COMMIT, HubFile("a.parquet", 10), QUICK)

    wrong = [("bytes 0-3/10", b"0123"), ("bytes 2-5/10", b"2345" * 10_000), ("bytes 2-5/11", b"2345"), ("", b"2345")]
    for told, body in wrong:
        with scripted(part(body, told)) as (address, _):
            file = remote(address)
            file.seek(2)
            with pytest.raises(DataError, match="asked for the bytes 2-5, got"):
                file.read(4)
    versions = enumerate(('"1"', '"1"', '"2"'))
    with scripted(*(part(b"23", f"bytes {2 * n}-{2 * n + 1}/10", ETag=tag) for n, tag in versions)) as (address, _):
        file = remote(address)
        assert file.read(2) == file.read(2) == b"23"
        with refused(DataError):
            file.read(2)


def test_a_commit_of_the_hub_is_one_and_its_files_have_an_end(hub, imdb, tmp_path, monkeypatch, refused):
    """A commit becomes the name of a folder."""
    evil, name = "../../../evil", ("datasets", "stanfordnlp/imdb")
    hub.files[*name, evil] = hub.files[*name, HEAD_COMMIT]
    hub.revisions[name] = dict.fromkeys(("main", ""), evil)
    with refused(DataError):
        fetch(imdb, revision="")
    assert not list(tmp_path.rglob("*evil*"))
    hub.revisions[name] = {"main": HEAD_COMMIT}
    monkeypatch.setattr("grue.data.hub.listing.MOST_FILES", 3)
    with refused(DataError):
        fetch(imdb)
