"""Files: what is refused, where the message points, and that a failed write leaves nothing behind."""

import errno
import gzip
import hashlib
import json
import os
import resource
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal
from unittest.mock import Mock

import pytest

from grue import files
from grue.errors import ConfigError, DataError
from grue.shapes import from_dict


@dataclass(frozen=True)
class Part:
    size: float
    kind: Literal["big", "small"] = "big"
    schema: Literal[1] = 1


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


@pytest.fixture
def path(tmp_path):
    return tmp_path / "f"


# --- dictionaries into dataclasses -----------------------------------------------------------------------------------


def test_plain_data_becomes_the_dataclass():
    data = {"name": "n", "part": {"size": 2, "kind": "small"}, "pair": [1, 2.5], "words": ["a", "b"], "either": "x"}
    data |= {"several": [3], "weights": {"a": 1}, "anything": [1, {"b": None}]}
    whole = from_dict(Whole, data, "f")
    rest = ((1.0, 2.5), ("a", "b"), "x", (3,), {"a": 1.0}, [1, {"b": None}])
    assert whole == Whole("n", Part(2.0, "small"), 0, False, *rest)
    assert type(whole.part.size) is float
    assert from_dict(Whole, files.plain(whole), "f") == whole


WRONG = (
    *({"nmae": 1}, {"part": {"size": 1, "knd": "big"}}, {"part": {}}, {"part": 3}),
    *({"part": {"size": size}} for size in ("3", True, float("inf"), float("nan"), 10**400)),
    *({"part": {"size": 1, "kind": kind}} for kind in ("sm", "bg", True)),
    *({"part": {"size": 1, "schema": schema}} for schema in (2, True, 1.0, "1")),
    *({"count": 1.0}, {"count": True}, {"on": 1}, {"name": None}, {"pair": [1]}, {"pair": "ab"}, {"words": ["a", 1]}),
    *({"either": 1.5}, {"several": "3"}, {"weights": [1]}, {"weights": {"a": "b"}}, {"name": ["x" * 200]}),
    {"words": {"a"}},
)


def test_what_the_dataclass_does_not_declare_is_refused(refused):
    for change in WRONG:
        with refused(ConfigError):
            from_dict(Whole, {"name": "n", "part": {"size": 1}} | change, "f")
    with refused(ConfigError):
        from_dict(Whole, {"name": "n"}, "f")


def test_plain_turns_every_kind_of_container_into_json_that_is_hashed_by_sha256(path):
    value = Whole("n", Part(1.0), weights=MappingProxyType({"a": 1.0}), anything=({1: (2,)},))
    assert files.plain(value)["weights"] == {"a": 1.0}
    assert files.plain(value)["anything"] == [{"1": [2]}]
    assert json.loads(files.canonical_json(value))["part"] == {"size": 1.0, "kind": "big", "schema": 1}
    assert files.canonical_json({"b": (1, 2.0), "a": "ü"}) == '{"a":"ü","b":[1,2.0]}'
    expected = hashlib.sha256('{"a":"ü","b":1}'.encode()).hexdigest()
    path.write_bytes('{"a":"ü","b":1}'.encode())
    assert files.sha256_json({"b": 1, "a": "ü"}) == files.sha256_file(path) == expected


# --- TOML and JSON ---------------------------------------------------------------------------------------------------


def test_toml_goes_out_and_in(path):
    whole = Whole("ü\n'\"", Part(1e-6), pair=None, weights={"b": 2.0, "a": 1.0})
    files.write_toml(path / "whole.toml", whole)
    assert files.load_toml(path / "whole.toml", Whole) == whole


def test_broken_toml_names_file_and_line(path, refused):
    with refused(ConfigError):
        files.read_toml(path)
    for content in (b"a = '\xff'\n", "a = 1\n".encode("utf-16")):
        path.write_bytes(content)
        with refused(ConfigError):
            files.read_toml(path)
    for content, told in (
        (b"a = 1\na = 2\n", r"Cannot.*line 2"),
        (b"a = \n", "Invalid.*line 1"),
        (b"a = " + b"[" * 10**5, ""),
    ):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=f"^{path}: not valid TOML: {told}"):
            files.read_toml(path)
    path.write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert files.read_toml(path) == {"a": 1}


OWN = ['{"a": 1, "b": 2, "a": 3}', '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}']
OWN += ['{"a": "\\ud800"}', '{"a": "\\uDC00x"}']
PYTHONS = ['{"a": ' + "[" * 100_000, '{"a": ' + "1" * 5000 + "}", '{"a": 1,}']


def test_json_is_read_strictly(path, refused):
    for content in OWN:
        path.write_text(content, encoding="utf-8")
        with refused(DataError):
            files.read_json(path)
        path.write_text(f'{{"a": 1}}\n\n{content}\n{{"a": 2}}\n', encoding="utf-8")
        with refused(DataError):
            list(files.read_jsonl(path))
    for content in (*PYTHONS, "", "\ufeff{}"):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=f"^{path}: not valid JSON: "):
            files.read_json(path)
    for content in (*PYTHONS, '\ufeff{"a": 2}'):
        path.write_text(f'{{"a": 1}}\n\n{content}\n{{"a": 2}}\n', encoding="utf-8")
        with pytest.raises(DataError, match=f"^{path}, line 3: not valid JSON: "):
            list(files.read_jsonl(path))
    for line in (b"[1]", b'{"a": "\xe4"}'):
        path.write_bytes(b'{"a": 1}\n\n' + line + b"\n")
        with refused(DataError):
            list(files.read_jsonl(path))
    path.write_text('{"size": "1"}')
    with refused(DataError):
        files.load_json(path, Part)
    path.write_text('{"a": "\\ud83d\\ude00", "b": "\\\\ud800"}')
    assert files.read_json(path) == {"a": "😀", "b": "\\ud800"}


def test_json_goes_out_and_in_without_loss_and_no_writer_writes_what_is_no_number(path):
    for number in (float("nan"), float("inf")):
        value = [{"a": 1.0}, {"a": number}]
        for write in (files.write_json, files.write_jsonl, files.append_jsonl):
            with pytest.raises(ValueError, match="not JSON compliant"):
                write(path, value)
    assert not path.exists()
    value = {"b": [0.1 + 0.2, 1e-300, -0.0, 2**60], "a": "ü\u2028\u0085"}
    files.write_json(path, value)
    assert files.read_json(path) == value
    assert path.read_text(encoding="utf-8").startswith('{\n  "b": [\n    0.30000000000000004,')


def test_only_a_line_feed_ends_a_line_of_json_and_blank_ones_are_skipped_and_counted(path):
    texts = ["next\u0085line", "line\u2028separator", "page\u000cfeed", "a\rb"]
    path.write_bytes("".join(json.dumps({"t": t}, ensure_ascii=False) + "\n" for t in texts).encode())
    assert list(files.read_jsonl(path)) == [(n, {"t": t}) for n, t in enumerate(texts, start=1)]
    files.write_jsonl(path, [{"t": t} for t in texts])
    assert [record["t"] for _, record in files.read_jsonl(path)] == texts
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": 2}')
    assert list(files.read_jsonl(path)) == [(1, {"a": 1}), (4, {"a": 2})]


def test_the_repeated_key_among_many_is_named():
    keys = [f"{number:x}" for number in range(20_000)]  # each compared with all others would take seconds
    with pytest.raises(DataError, match=f"the key '{keys[-1]}' is repeated"):
        files._parse_json("{" + ",".join(f'"{key}":0' for key in [*keys, keys[-1]]) + "}", "x")


def test_compressed_lines_are_read_and_damage_and_absence_are_reported(tmp_path, refused):
    path = tmp_path / "f.jsonl.gz"
    packed = gzip.compress(b"".join(b'{"a": %d}\n' % n for n in range(5000)))
    path.write_bytes(packed)
    assert [record["a"] for _, record in files.read_jsonl(path)] == list(range(5000))
    for content, told in (
        (packed[:-20], r"cannot be read after line \d+: "),
        (b'{"a": 1}\n', "cannot be read: Not a gz"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"f\.jsonl\.gz: {told}"):
            list(files.read_jsonl(path))
    for read in (files.read_json, files.read_jsonl, files.sha256_file):
        with refused(DataError):
            list(read(tmp_path / "none"))


# --- writes that fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_or_is_interrupted_leaves_the_old_file_and_nothing_else(path, monkeypatch, refused, step):
    files.write_text(path, "old")
    for number in (errno.ENOSPC, errno.EACCES):
        monkeypatch.setattr(os, step, Mock(side_effect=OSError(number, os.strerror(number))))
        with refused(DataError):
            files.write_text(path, "new")
    monkeypatch.setattr(os, step, Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        files.write_text(path, "new")
    monkeypatch.undo()
    with pytest.raises(UnicodeEncodeError):
        files.write_text(path, "new \ud800")
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_pipe_is_written_to_and_stays_one(path):
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(path, "new")
    assert os.read(reader, 9) == b"new" and path.is_fifo()
    os.close(reader)


def test_a_folder_that_cannot_be_made_is_reported(path):
    path.write_text("")
    for write in (lambda: files.write_text(path / "f.txt", "x"), lambda: files.append_jsonl(path / "f.txt", [{}])):
        with pytest.raises(DataError, match=f"^{path}/f.txt: cannot be written: (File exists|Not a directory); "):
            write()


def test_written_files_have_the_permissions_that_the_user_asked_for(path):
    before = os.umask(0o027)
    try:
        files.write_text(path, "x")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_half_an_append_is_taken_back(path):
    """The limit on a file's size is a real short write: the kernel takes some bytes, then refuses the rest."""
    files.append_jsonl(path, [{"a": 1}])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
    try:
        with pytest.raises(DataError, match="cannot be written: File too large; what was saved before is unchanged"):
            files.append_jsonl(path, [{"a": n} for n in range(100)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b'{"a":1}\n'


# --- files that are still written ------------------------------------------------------------------------------------


def test_a_file_that_is_still_written_is_read_up_to_its_last_whole_line(path):
    for content, records, torn in (
        (b'{"a":1}\n\n{"a":2}\n', [(1, {"a": 1}), (3, {"a": 2})], False),
        (b'{"a":1}\n{"a":2}', [(1, {"a": 1})], True),  # an object, but not known to be the whole line
        (b'{"a":1}\n{"a":"\xc3', [(1, {"a": 1})], True),
        (b"", [], False),
    ):
        path.write_bytes(content)
        assert files.read_growing_jsonl(path) == (records, torn)
    for line in (b"{", b"[1]", b"\xff", b'{"a":NaN}'):
        path.write_bytes(b'{"a":1}\n' + line + b"\n" + b'{"a"')
        with pytest.raises(DataError, match=f"^{path}, line 2: "):
            files.read_growing_jsonl(path)
    with pytest.raises(DataError, match=f"^{path.parent}: cannot be read: Is a directory"):
        files.read_growing_jsonl(path.parent)
