"""Files: what is refused, where the message points, and that a failed write leaves nothing behind."""

import errno
import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pytest

from grue import files
from grue.errors import ConfigError, DataError, GrueError
from grue.shapes import from_dict


@dataclass(frozen=True)
class Part:
    size: float
    kind: Literal["big", "small", 1] = "big"


@dataclass(frozen=True)
class Whole:
    name: str
    part: Part
    count: int = 0
    on: bool = False
    pair: tuple[float, float] | None = None
    words: tuple[str, ...] = ()
    either: int | str = 0
    several: int | tuple[int, ...] = 0
    weights: Mapping[str, float] = field(default_factory=dict)
    anything: Any = None


KEYS = ("name", "part", "count", "on", "pair", "words", "either", "several", "weights", "anything")


def fails(error: type[GrueError], message: str, call: Callable[[], Any]) -> None:
    """Assert that `call` raises `error` with this whole message."""
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


# --- dictionaries into dataclasses -----------------------------------------------------------------------------------


def test_plain_data_becomes_the_dataclass() -> None:
    data = {
        "name": "n",
        "part": {"size": 2, "kind": "small"},
        "pair": [1, 2.5],
        "words": ["a", "b"],
        "either": "x",
        "several": [3],
        "weights": {"a": 1},
        "anything": [1, {"b": None}],
    }
    whole = from_dict(Whole, data, "f")
    assert whole == Whole(
        "n", Part(2.0, "small"), 0, False, (1.0, 2.5), ("a", "b"), "x", (3,), {"a": 1.0}, [1, {"b": None}]
    )
    assert type(whole.part.size) is float
    assert from_dict(Whole, files.plain(whole), "f") == whole


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nmae": 1}, "f: unknown key 'nmae'. Did you mean 'name'? Known: " + ", ".join(KEYS) + "."),
        ({"part": {"size": 1, "knd": "big"}}, "f: part: unknown key 'knd'. Did you mean 'kind'? Known: size, kind."),
        ({"part": {}}, "f: part: the key 'size' is missing."),
        ({"part": 3}, "f: part: expected a table, found int 3."),
        ({"part": {"size": "3"}}, "f: part: size: expected a number, found str '3'."),
        ({"part": {"size": True}}, "f: part: size: expected a number, found bool True."),
        ({"part": {"size": float("inf")}}, "f: part: size: expected a finite number, found float inf."),
        ({"part": {"size": float("nan")}}, "f: part: size: expected a finite number, found float nan."),
        ({"part": {"size": 1, "kind": "sm"}}, "f: part: kind: str 'sm' is not one of big, small, 1."),
        ({"part": {"size": 1, "kind": "bg"}}, "f: part: kind: str 'bg' is not one of big, small, 1. Did you mean 'big'?"),
        ({"part": {"size": 1, "kind": True}}, "f: part: kind: bool True is not one of big, small, 1."),
        ({"count": 1.0}, "f: count: expected a whole number, found float 1.0."),
        ({"count": True}, "f: count: expected a whole number, found bool True."),
        ({"on": 1}, "f: on: expected true or false, found int 1."),
        ({"name": None}, "f: name: expected a string, found null."),
        ({"pair": [1]}, "f: pair: expected 2 values, found 1."),
        ({"pair": "ab"}, "f: pair: expected a list, found str 'ab'."),
        ({"words": ["a", 1]}, "f: words[1]: expected a string, found int 1."),
        ({"either": 1.5}, "f: either: expected a whole number or a string, found float 1.5."),
        ({"several": "3"}, "f: several: expected a whole number or a list, found str '3'."),
        ({"weights": [1]}, "f: weights: expected a table, found list [1]."),
        ({"weights": {"a": "b"}}, "f: weights.a: expected a number, found str 'b'."),
        ({"name": ["x" * 200]}, "f: name: expected a string, found list ['" + "x" * 77 + "…."),
    ],
)  # fmt: skip
def test_what_the_dataclass_does_not_declare_is_refused(change: dict[str, Any], message: str) -> None:
    fails(ConfigError, message, lambda: from_dict(Whole, {"name": "n", "part": {"size": 1}} | change, "f"))


def test_a_whole_number_beyond_a_float_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^f: size: expected a finite number, found int 1000"):
        from_dict(Part, {"size": 10**400}, "f")


def test_a_missing_key_is_named() -> None:
    fails(ConfigError, "f: the key 'part' is missing.", lambda: from_dict(Whole, {"name": "n"}, "f"))


def test_plain_turns_every_kind_of_container_into_json() -> None:
    value = Whole("n", Part(1.0), weights=MappingProxyType({"a": 1.0}), anything=({1: (2,)},))
    assert files.plain(value)["weights"] == {"a": 1.0}
    assert files.plain(value)["anything"] == [{"1": [2]}]
    assert json.loads(files.canonical_json(value))["part"] == {"size": 1.0, "kind": "big"}


# --- TOML ------------------------------------------------------------------------------------------------------------


def test_toml_goes_out_and_in(tmp_path: Path) -> None:
    whole = Whole("ü\n'\"", Part(1e-6), pair=None, weights={"b": 2.0, "a": 1.0})
    files.write_toml(tmp_path / "deep/whole.toml", whole)
    assert files.load_toml(tmp_path / "deep/whole.toml", Whole) == whole


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = 1\na = 2\n", "not valid TOML: Cannot overwrite a value (at line 2, column 6)."),
        (b"a = \n", "not valid TOML: Invalid value (at line 1, column 5)."),
        (b"a = '\xff'\n", "not valid UTF-8 at byte 5."),
        ("a = 1\n".encode("utf-16"), "not valid UTF-8 at byte 0; it is UTF-16: save it as UTF-8."),
        (b"a = " + b"[" * 100_000, "not valid TOML: "),
    ],
)
def test_broken_toml_names_file_and_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "f.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{re.escape(f'{path}: {message}')}"):
        files.read_toml(path)


def test_a_byte_order_mark_is_no_part_of_toml(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert files.read_toml(tmp_path / "f.toml") == {"a": 1}


def test_a_missing_toml_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    fails(ConfigError, f"{path}: cannot be read: No such file or directory.", lambda: files.read_toml(path))


# --- JSON ------------------------------------------------------------------------------------------------------------

BROKEN_JSON = [
    ('{"a": 1, "b": 2, "a": 3}', "not valid JSON: the key 'a' is repeated in an object."),
    ('{"a": NaN}', "not valid JSON: NaN is not a JSON number."),
    ('{"a": -Infinity}', "not valid JSON: -Infinity is not a JSON number."),
    ('{"a": 1e999}', "not valid JSON: 1e999 is beyond the range of a number."),
    ('{"a": "\\ud800"}', "not valid JSON: 'utf-8' codec can't encode character '\\ud800'"),
    ('{"a": "\\uDC00x"}', "not valid JSON: 'utf-8' codec can't encode character '\\udc00'"),
    ('{"a": ' + "[" * 100_000, "not valid JSON: "),
    ('{"a": ' + "1" * 5000 + "}", "not valid JSON: "),
    ('{"a": 1,}', "not valid JSON: "),
    ("", "not valid JSON: Expecting value at column 1."),
    ("\ufeff{}", "not valid JSON: Unexpected UTF-8 BOM"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN_JSON)
def test_json_is_read_strictly(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=f"^{re.escape(f'{path}: {message}')}"):
        files.read_json(path)


def test_a_whole_surrogate_pair_is_a_character(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"a": "\\ud83d\\ude00", "b": "\\\\ud800"}')
    assert files.read_json(tmp_path / "f.json") == {"a": "😀", "b": "\\ud800"}


def test_a_json_file_of_another_shape_is_a_data_error(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"size": "1"}')
    fails(DataError, f"{path}: size: expected a number, found str '1'.", lambda: files.load_json(path, Part))


def test_json_goes_out_and_in_without_loss(tmp_path: Path) -> None:
    value = {"b": [0.1 + 0.2, 1e-300, -0.0, 2**60], "a": "ü\u2028\u0085"}
    files.write_json(tmp_path / "f.json", value)
    assert files.read_json(tmp_path / "f.json") == value
    assert (tmp_path / "f.json").read_text(encoding="utf-8").startswith('{\n  "b": [\n    0.30000000000000004,')


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_no_writer_writes_what_is_no_number(tmp_path: Path, number: float) -> None:
    for write in (files.write_json, lambda path, value: files.write_jsonl(path, [value])):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write(tmp_path / "f", {"a": number})
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.append_jsonl(tmp_path / "f", [{"a": 1.0}, {"a": number}])
    assert list(tmp_path.iterdir()) == []


def test_canonical_json_has_one_spelling() -> None:
    assert files.canonical_json({"b": (1, 2.0), "a": "ü"}) == '{"a":"ü","b":[1,2.0]}'
    assert files.sha256_json({"b": 1, "a": 2}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()


# --- JSON lines ------------------------------------------------------------------------------------------------------


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    texts = ["next\u0085line", "line\u2028separator", "page\u000cfeed", "a\rb"]
    path = tmp_path / "f.jsonl"
    path.write_bytes("".join(json.dumps({"t": t}, ensure_ascii=False) + "\n" for t in texts).encode())
    assert list(files.read_jsonl(path)) == [(n, {"t": t}) for n, t in enumerate(texts, start=1)]
    files.write_jsonl(path, [{"t": t} for t in texts])
    assert [record["t"] for _, record in files.read_jsonl(path)] == texts


def test_a_byte_order_mark_begins_no_object(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n{"a": 2}\n')
    assert list(files.read_jsonl(path)) == [(1, {"a": 1}), (2, {"a": 2})]
    path.write_bytes(b'{"a": 1}\n\xef\xbb\xbf{"a": 2}\n')
    fails(
        DataError,
        f"{path}, line 2: not valid JSON: Unexpected UTF-8 BOM (decode using utf-8-sig) at column 1.",
        lambda: list(files.read_jsonl(path)),
    )


def test_blank_lines_are_skipped_and_counted_and_line_ends_of_windows_are_fine(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_bytes(b'{"a": 1}\r\n\n  \n{"a": 2}')
    assert list(files.read_jsonl(tmp_path / "f.jsonl")) == [(1, {"a": 1}), (4, {"a": 2})]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        *((content.encode(), message) for content, message in BROKEN_JSON if content and content[0] == "{"),
        (b"[1]", "expected an object, found list [1]."),
        (b'{"a": "\xe4"}', "not valid UTF-8 at byte 7; save the file as UTF-8."),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"a": 1}\n\n' + line + b'\n{"a": 2}\n')
    with pytest.raises(DataError, match=f"^{re.escape(f'{path}, line 3: {message}')}"):
        list(files.read_jsonl(path))


def test_compressed_lines_are_read_and_damage_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl.gz"
    packed = gzip.compress(b"".join(b'{"a": %d}\n' % n for n in range(5000)))
    path.write_bytes(packed)
    assert [record["a"] for _, record in files.read_jsonl(path)] == list(range(5000))
    path.write_bytes(packed[:-20])
    with pytest.raises(DataError, match=r"f\.jsonl\.gz: cannot be read after line \d+: "):
        list(files.read_jsonl(path))
    path.write_bytes(b'{"a": 1}\n')
    fails(DataError, f"{path}: cannot be read: Not a gzipped file (b'{{\"').", lambda: list(files.read_jsonl(path)))


@pytest.mark.parametrize("read", [files.read_json, files.read_jsonl, files.sha256_file])
def test_a_missing_file_is_named(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "none"
    fails(DataError, f"{path}: cannot be read: No such file or directory.", lambda: list(read(path)))


def test_appending_adds_lines(tmp_path: Path) -> None:
    for n in range(3):
        files.append_jsonl(tmp_path / "new/f.jsonl", [{"n": n}])
    files.append_jsonl(tmp_path / "new/f.jsonl", [])
    assert (tmp_path / "new/f.jsonl").read_bytes() == b'{"n":0}\n{"n":1}\n{"n":2}\n'


# --- writes that fail ------------------------------------------------------------------------------------------------


def full_disk(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def forbidden(*_: Any, **__: Any) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("failure", "reason"), [(full_disk, "No space left on device"), (forbidden, "Permission denied")]
)
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, failure: Callable[..., None], reason: str
) -> None:
    path = tmp_path / "f.txt"
    files.write_text(path, "old")
    monkeypatch.setattr(os, step, failure)
    message = f"{path}: cannot be written: {reason}; what was saved before is untouched."
    fails(DataError, message, lambda: files.write_text(path, "new"))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(path, "new")
    assert os.read(reader, 9) == b"new" and path.is_fifo()
    os.close(reader)


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "f.txt"
    files.write_text(path, "old")
    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_that_is_no_utf8_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    files.write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        files.write_text(path, "new \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file/f.txt"
    for write in (lambda: files.write_text(path, "x"), lambda: files.append_jsonl(path, [{}])):
        with pytest.raises(
            DataError, match=f"^{re.escape(str(path))}: cannot be written: (File exists|Not a directory); "
        ):
            write()


def test_written_files_have_the_permissions_that_the_user_asked_for(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_text(tmp_path / "f", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_appending_to_a_full_disk_is_reported() -> None:
    message = "/dev/full: cannot be written: No space left on device; what was saved before is untouched."
    fails(DataError, message, lambda: files.append_jsonl(Path("/dev/full"), [{"a": 1}]))


def test_half_an_append_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit on a file's size is a real short write: the kernel takes some bytes, then refuses the rest."""
    import resource
    import signal

    path = tmp_path / "f.jsonl"
    files.append_jsonl(path, [{"a": 1}])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
    try:
        message = f"{path}: cannot be written: File too large; what was saved before is untouched."
        fails(DataError, message, lambda: files.append_jsonl(path, [{"a": n} for n in range(100)]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b'{"a":1}\n'


def test_hashes_are_sha256(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("ü".encode())
    assert files.sha256_file(tmp_path / "f") == files.sha256_text("ü") == hashlib.sha256(b"\xc3\xbc").hexdigest()


# --- files that are still written ------------------------------------------------------------------------------------


def test_a_file_that_is_still_written_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":1}\n\n{"a":2}\n')
    assert files.read_growing_jsonl(path) == ([(1, {"a": 1}), (3, {"a": 2})], False)
    path.write_bytes(b'{"a":1}\n{"a":2}')  # an object, but not known to be the whole line
    assert files.read_growing_jsonl(path) == ([(1, {"a": 1})], True)
    path.write_bytes(b'{"a":1}\n{"a":"\xc3')
    assert files.read_growing_jsonl(path) == ([(1, {"a": 1})], True)
    path.write_bytes(b"")
    assert files.read_growing_jsonl(path) == ([], False)


@pytest.mark.parametrize("line", [b"{", b"[1]", b"\xff", b'{"a":NaN}'])
def test_a_whole_line_that_is_damaged_is_an_error_also_where_the_file_is_still_written(
    tmp_path: Path, line: bytes
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":1}\n' + line + b"\n" + b'{"a"')
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}, line 2: "):
        files.read_growing_jsonl(path)
    with pytest.raises(DataError, match=f"^{re.escape(str(path.parent))}: cannot be read: Is a directory"):
        files.read_growing_jsonl(tmp_path)


# --- locks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO])
def test_a_lock_that_the_file_system_cannot_give_is_no_other_process(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".lock").touch()

    def flock(handle: object, kind: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.fcntl, "flock", flock)
    for look in (lambda: files.is_held(tmp_path), lambda: files.sole_owner(tmp_path, "another").__enter__()):
        with pytest.raises(DataError) as caught:
            look()
        assert str(caught.value) == (
            f"{tmp_path / '.lock'}: cannot be locked: {os.strerror(number)}. Without a lock two processes could write "
            "here at once; some network file systems give none. Choose a folder on another file system with --runs, or "
            "mount this one with locks."
        )


def test_a_folder_is_held_by_one_and_let_go_of(tmp_path: Path) -> None:
    assert not files.is_held(tmp_path)
    with files.sole_owner(tmp_path, "it is taken"):
        assert files.is_held(tmp_path)
        with pytest.raises(ConfigError, match="^it is taken$"), files.sole_owner(tmp_path, "it is taken"):
            pytest.fail("it was let in")
        assert files.is_held(tmp_path)
    assert not files.is_held(tmp_path)


def test_a_lock_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(DataError, match=r"\.lock: cannot be read: Is a directory"):
        files.is_held(tmp_path)
