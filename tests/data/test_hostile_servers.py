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
from grue.data.backoff import requested_wait
from grue.data.cache import mirror_folder
from grue.data.download import download
from grue.data.hub.errors import translate_hub_errors
from grue.data.hub.listing import HubFile
from grue.data.hub.transfer import RangeFile
from grue.data.load import load_examples
from grue.data.pace import Pace
from grue.errors import ConfigError, DataError

QUICK = Pace(seconds=0.2, least=1000)


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """The seconds that were waited between attempts."""
    waited = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


def refused(answers, target, **options):
    """What the download says, in one line of printable text."""
    with scripted(*answers) as (address, _), pytest.raises(DataError) as caught:
        download(f"{address}/a.bin", target, pace=QUICK, **options)
    assert str(caught.value).isprintable()
    assert not target.exists()
    return str(caught.value)


def begun(target, content, tag='"1"'):
    target.with_name("a.bin.part").write_bytes(content)
    target.with_name("a.bin.part.etag").write_text(tag)


# --- ranges and lengths ----------------------------------------------------------------------------------------------


def test_another_range_than_the_one_asked_for_is_refused(tmp_path):
    target = tmp_path / "a.bin"
    for told, body in [
        ("bytes 0-3/8", b"0123"),
        ("bytes 5-7/8", b"567"),
        ("bytes 4-6/8", b"456"),
        ("bytes 4-7/9", b"4567"),
        ("bytes */8", b"4567"),
        ("items 4-7/8", b"4567"),
        ("bytes 4-99999999999999999999/8", b"4567"),
        ("bytes ٤-7/8".encode().decode("latin-1"), b"4567"),
        ("", b"4567"),
    ]:
        begun(target, b"0123")
        headers = {"Content_Range": told} if told else {}
        told = refused([answer("206 Partial Content", body, **headers, Content_Length=len(body))], target)
        assert "asked for the bytes from 4 on, the server sent " in told
        assert not list(tmp_path.iterdir()), "the next attempt starts over"
    begun(target, b"0123")
    right = answer("206 Partial Content", b"4567", Content_Range="bytes 4-7/8", Content_Length=4)
    with scripted(right) as (address, requests):
        download(f"{address}/a.bin", target, size=8)
    assert target.read_bytes() == b"01234567"
    assert "Range: bytes=4-" in requests[0]


def test_the_rest_of_another_version_is_refused(tmp_path):
    """If-Range asks a server to send the whole file instead; not every one heeds it."""
    target = tmp_path / "a.bin"
    for tag, told, rest in [('"2"', "bytes 4-7/8", b"4567"), ('"1"', "bytes 4-8/9", b"45678")]:
        first = answer("200 OK", b"0123", Content_Length=8, ETag='"1"')
        refusal = refused([first, answer("206 Partial Content", rest, Content_Range=told, ETag=tag)], target)
        assert f'the server sent {told} of {tag}, where the file was "1" of 8 bytes. What was' in refusal
        assert not list(tmp_path.iterdir()), "the next attempt starts over"


def test_a_range_that_was_not_asked_for_is_refused(tmp_path):
    told = refused([answer("206 Partial Content", b"4567", Content_Range="bytes 4-7/8")], tmp_path / "a.bin")
    assert "the server answered 206 Partial Content, and not with a file" in told


def test_an_unexpected_status_is_an_error(tmp_path, waits):
    for status in ("201 Created", "202 Accepted", "203 Non-Authoritative Information", "204 No Content", "226 IM Used"):
        assert f"the server answered {status}, and not with" in refused([answer(status, b"x")], tmp_path / "a.bin")
    for status in ("304 Not Modified", "401 Unauthorized", "410 Gone"):
        assert f"the server answered {status}." in refused([answer(status, b"x")], tmp_path / "a.bin")
    assert not waits


def test_a_weak_tag_resumes_nothing(tmp_path):
    """It may stand for two versions, which would be joined."""
    half = answer("200 OK", b"0123", Content_Length=8, ETag='W/"1"')
    whole = answer("200 OK", b"abcdefgh", Content_Length=8, ETag='W/"1"')
    with scripted(half, whole) as (address, requests):
        download(f"{address}/a.bin", tmp_path / "a.bin")
    assert "Range" not in requests[1]
    assert (tmp_path / "a.bin").read_bytes() == b"abcdefgh"


def test_the_length_is_the_one_announced_and_expected(tmp_path):
    target = tmp_path / "a.bin"
    assert "IncompleteRead" in refused([answer("200 OK", b"0123", Content_Length=9)], target)
    for length in (3, 5):
        body = b"01234"[:length]
        for headers in ({"Content_Length": length}, {}):
            told = refused([answer("200 OK", body, **headers)], target, size=4)
            assert f"the file has {length} bytes or more, expected are 4" in told
    assert "at most allowed are 20,000,000,000" in refused([answer("200 OK", b"", Content_Length=10**12)], target)
    endless = answer("200 OK", b"x" * 100_000)
    assert "at most allowed are 1,000" in refused([endless], target, most=1000)
    assert not list(tmp_path.iterdir())
    for odd in ("abc", "-5", "1e3", "٣".encode().decode("latin-1")):
        with scripted(answer("200 OK", b"0123", Content_Length=odd)) as (address, _):
            download(f"{address}/a.bin", target, size=4)


# --- slow servers ----------------------------------------------------------------------------------------------------


def test_a_slow_server_is_given_up_and_resumed(tmp_path, waits):
    target, content = tmp_path / "a.bin", bytes(range(200)) * 20
    slow = dripping(answer("200 OK", content[:2000], Content_Length=4000, ETag='"1"'), content[2000:], pause=0.01)
    told = refused([slow], target)
    assert "cannot be downloaded: the server sent " in told
    assert "which is too slow. What was received is kept; rerun the command later to resume." in told
    assert waits == [1.0, 2.0, 4.0, 8.0]
    kept = target.with_name("a.bin.part").read_bytes()
    assert len(kept) >= 2000
    assert content.startswith(kept)
    tail = f"bytes {len(kept)}-3999/4000"
    rest = answer("206 Partial Content", content[len(kept) :], Content_Range=tail, ETag='"1"')
    with scripted(rest) as (address, requests):
        download(f"{address}/a.bin", target, hashlib.sha256(content).hexdigest(), pace=QUICK)
    assert f"Range: bytes={len(kept)}-" in requests[0]
    assert target.read_bytes() == content


def test_a_silent_server_is_given_up(tmp_path, waits):
    """Before the answer, within its header, and after it."""
    head = answer("200 OK", b"", Content_Length=100)
    for silent in (
        lambda connection: connection.recv(1),
        dripping(b"", head * 9, pause=0.02),
        lambda connection: (connection.sendall(head), connection.recv(1)),
    ):
        waits.clear()
        assert "cannot be downloaded: " in refused([silent], tmp_path / "a.bin")
        assert waits == [1.0, 2.0, 4.0, 8.0]


def test_pace_counts_what_arrives_in_a_window():
    now = iter([0.0, 5.0, 10.0, 15.0, 21.0, 26.0, 32.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grue.data.pace.time.monotonic", lambda: next(now))
        watched = Pace(seconds=10, least=100).watch([b"x" * 99, b"x", b"x" * 50, b"x" * 60, b"x" * 10, b"x"])
        seen = [next(watched) for _ in range(5)]
        with pytest.raises(TimeoutError, match="sent 11 bytes in 11 s"):
            next(watched)
    assert sum(map(len, seen)) == 220


# --- where a server leads, and what it says ---------------------------------------------------------------------------


def test_only_http_is_followed(hub, tmp_path, waits):
    (tmp_path / "secret").write_text("secret")
    for there in (f"file://{tmp_path / 'secret'}", "ftp://127.0.0.1/a", "data:,secret", "gopher://127.0.0.1/"):
        told = refused([answer("302 Found", b"", Location=there)], tmp_path / "a.bin")
        assert "not allowed" in told or "unknown url type" in told
        with pytest.raises(DataError, match="not an address that begins with http:// or https://"):
            download(there, tmp_path / "a.bin")
    assert not waits, "a second attempt would lead there again"
    hub.plain["/b.bin"] = b"0123"
    with scripted(answer("302 Found", b"", Location=f"{hub.address}/b.bin")) as (address, _):
        download(f"{address}/a.bin", tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_text() == "0123"
    endless = answer("302 Found", b"", Location="/a.bin")
    assert "the server answered 302" in refused([endless], tmp_path / "b.bin")
    for odd in ("http://127.0.0.1/a b", "http://127.0.0.1/\x1b[2J", "http://127.0.0.1/ä"):
        with pytest.raises(DataError, match=r"in plain ASCII") as caught:
            download(odd, tmp_path / "b.bin")
        assert str(caught.value).isprintable()


def test_what_a_server_says_cannot_control_the_terminal(tmp_path):
    target = tmp_path / "a.bin"
    for status in ("404 \x1b[2J\x1b[31mgone", "403 \x07\x08\x9b31m", "418 " + "x" * 5000):
        assert len(refused([answer(status, b"")], target)) < 500
    assert r"\x1b[2J" in refused([answer("404 \x1b[2Jgone", b"")], target)
    begun(target, b"0123")
    told = refused([answer("206 X", b"", Content_Range="\x1b]0;title\x07")], target)
    assert r"the server sent \x1b]0;title\x07." in told


def test_what_is_not_http_is_an_error(tmp_path):
    for nonsense in (b"", b"\0" * 100, b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 500 + b"\r\n"):
        assert "cannot be downloaded: " in refused([nonsense], tmp_path / "a.bin")
    chunked = answer("200 OK", b"zz\r\nabc\r\n", Transfer_Encoding="chunked")
    assert "IncompleteRead" in refused([chunked], tmp_path / "a.bin")


def test_a_wait_that_is_no_number_is_not_waited_for():
    for odd in (
        "²",
        "٣",
        "-5",
        "1e9",
        "inf",
        "Sun, 06 Nov 99999 08:49:37 GMT",
        "Mon, 01 Jan 0001 00:00:00 +2359",
        "\0",
    ):
        assert requested_wait(odd, 4) in (0, 4)
    assert requested_wait("9" * 400, 4) == float("inf")


# --- official files without a hash -----------------------------------------------------------------------------------


def test_official_files_without_a_hash_are_pinned_by_what_they_held_first(hub, waited, tmp_path):
    hub.plain["/master.zip"] = OFFICIAL
    task = from_files(small("dailydialog"), f"{hub.address}/master.zip")
    load_examples(task, "test")
    (archive,) = (tmp_path / "cache").rglob("master.zip")
    unpacked = archive.parent / "unpacked" / "ijcnlp_dailydialog" / "test.zip"
    good = unpacked.read_bytes()
    unpacked.write_bytes(good[:-1] + b"x")  # of the same size
    for path in (tmp_path / "cache" / "examples").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="unpacked: differs from what the official files unpack to"):
        load_examples(task, "test")
    unpacked.write_bytes(good)
    archive.write_bytes(b"damaged")
    mirror_fetch(task)
    assert archive.read_bytes() == OFFICIAL, "fetched again"
    repacked = zipped(dict(members(OFFICIAL)), zipfile.ZIP_DEFLATED)
    archive.write_bytes(b"damaged")
    hub.plain["/master.zip"] = repacked
    mirror_fetch(task)
    assert archive.read_bytes() == repacked, "packed anew by its host, with the same files"
    hub.plain["/master.zip"] = zipped({name: content + b" " for name, content in members(OFFICIAL)})
    archive.write_bytes(b"damaged")
    with pytest.raises(DataError, match="the official files have changed since they were fetched first, 20"):
        mirror_fetch(task)


def test_a_page_in_place_of_an_archive_is_not_kept(hub, waited, tmp_path):
    hub.plain["/master.zip"] = b"<html>Log in</html>"
    task = from_files(small("dailydialog"), f"{hub.address}/master.zip")
    with pytest.raises(DataError, match=r"/master\.zip: the server sent no archive, or a damaged one: .*not kept"):
        mirror_fetch(task)
    assert not [*(tmp_path / "cache").rglob("master.zip")]
    hub.plain["/master.zip"] = OFFICIAL
    assert mirror_fetch(task).split == "test"


def mirror_fetch(task, offline=False):
    (source,) = task.data.sources
    return mirror.fetch(source, "test", mirror_folder(), "", offline)


def test_official_files_that_were_fetched_are_there_offline(hub, waited):
    hub.plain["/master.zip"] = OFFICIAL
    task = from_files(small("dailydialog"), f"{hub.address}/master.zip")
    with pytest.raises(DataError, match="are not in the mirror"):
        mirror_fetch(task, offline=True)
    mirror_fetch(task)
    asked = len(hub.requests)
    assert mirror_fetch(task, offline=True).split == "test" and len(hub.requests) == asked


def members(archive):
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return [(member.filename, opened.read(member)) for member in opened.infolist()]


def test_addresses_name_files_of_their_own(hub, waited):
    for urls in (("/manifest.json",), ("/",), ("/a/.lock",), ("/unpacked",), ("/a/x.zip", "/b/x.zip")):
        task = from_files(small("dailydialog"), "")
        source = dataclasses.replace(task.data.sources[0], urls=tuple(hub.address + url for url in urls), sha256={})
        with pytest.raises(ConfigError, match="each of its urls must end in a file name of its own"):
            mirror.fetch(source, "test", mirror_folder(), "")


def test_a_manifest_names_its_own_folder(hub, waited, tmp_path):
    """Else a mirror from elsewhere could send the reader anywhere."""
    hub.plain["/a.zip"] = OFFICIAL
    task = from_files(small("dailydialog"), f"{hub.address}/a.zip")
    load_examples(task, "test")
    (path,) = (tmp_path / "cache").rglob("manifest.json")
    path.write_text(path.read_text().replace(f'"revision": "{path.parent.name}"', '"revision": "../../\\u001b[2J"'))
    with pytest.raises(DataError, match=r"it is of the revision \.\./\.\./\\x1b\[2J, not of that of its folder"):
        load_examples(task, "test")


# --- the hub ---------------------------------------------------------------------------------------------------------


def test_a_range_of_the_hub_is_the_one_asked_for(hub, waited, monkeypatch):
    task = small("imdb")
    content = b"0123456789"
    for told, body in [
        ("bytes 0-3/10", b"0123"),
        ("bytes 2-5/10", b"23456789" * 10_000),
        ("bytes 2-5/11", b"2345"),
        ("", b"2345"),
    ]:
        headers = {"Content_Range": told} if told else {}
        with scripted(answer("206 Partial Content", body, **headers)) as (address, _):
            monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
            template = address + "/{repo_id}/resolve/{revision}/{filename}"
            monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
            remote = RangeFile(task.data.sources[0], HEAD_COMMIT, HubFile("a.parquet", len(content)), QUICK)
            remote.seek(2)
            with pytest.raises(DataError, match="asked for the bytes 2-5, got"):
                remote.read(4)


def test_the_ranges_of_the_hub_are_of_one_version(hub, waited, monkeypatch):
    ranges = [
        answer("206 Partial Content", b"23", Content_Range=f"bytes {first}-{first + 1}/10", ETag=tag)
        for first, tag in ((0, '"1"'), (2, '"1"'), (4, '"2"'))
    ]
    with scripted(*ranges) as (address, _):
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/{filename}")
        remote = RangeFile(small("imdb").data.sources[0], HEAD_COMMIT, HubFile("a.parquet", 10), QUICK)
        assert remote.read(2) == remote.read(2) == b"23"
        with pytest.raises(DataError, match='the server sent "2" after "1": the file has changed in between'):
            remote.read(2)


def test_a_commit_of_the_hub_is_one(hub, waited, tmp_path):
    """It becomes the name of a folder."""
    add_data_sets(hub, "imdb")
    evil = "../../../evil"
    hub.files["datasets", "stanfordnlp/imdb", evil] = hub.files["datasets", "stanfordnlp/imdb", HEAD_COMMIT]
    hub.revisions["datasets", "stanfordnlp/imdb"] = dict.fromkeys(("main", ""), evil)
    task = small("imdb")
    source = dataclasses.replace(task.data.sources[0], revision="")
    with pytest.raises(DataError, match="the hub gives its commit as ../../../evil, which is none"):
        mirror.fetch(source, "test", mirror_folder(), "")
    assert not list(tmp_path.rglob("*evil*"))


def test_a_repository_without_end_is_not_listed_to_its_end(hub, waited, monkeypatch):
    add_data_sets(hub, "imdb")
    monkeypatch.setattr("grue.data.hub.listing.MOST_FILES", 3)
    with pytest.raises(DataError, match="has more than the 3 files that are looked through"):
        mirror.fetch(small("imdb").data.sources[0], "test", mirror_folder(), "")


def test_what_the_hub_says_cannot_control_the_terminal():
    with pytest.raises(DataError) as caught, translate_hub_errors("the data set x"):
        raise ConnectionError("\x1b[2J\x1b[31mgone\nand more")
    assert str(caught.value) == r"the data set x: the hub cannot be reached: ConnectionError: \x1b[2J\x1b[31mgone."
