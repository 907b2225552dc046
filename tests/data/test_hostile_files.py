"""Archives and tables that may be damaged: nothing outside the folder, one error each."""

import bz2
import gzip
import io
import lzma
import random
import shutil
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.official import zipped

from grue.data import tables
from grue.data.archives import DamagedArchive, nearest, text, unpack
from grue.data.tables import read_rows
from grue.errors import DataError

TARS = {".tar": bytes, ".tgz": gzip.compress, ".tar.gz": gzip.compress, ".tar.bz2": bz2.compress}
TARS |= {".tar.xz": lzma.compress}
BOTH = {"folder/ä.txt": b"some text " * 30, "b": b""}


def tarred(members, **header):
    """Return a tar archive of names and their contents."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            for key, value in {"size": len(content), **header}.items():
                setattr(member, key, value)
            archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()


@pytest.fixture
def refuse(tmp_path, refused):
    """Unpack an archive, and expect a refusal."""

    def call(name, content):
        (tmp_path / name).write_bytes(content)
        with refused(DataError) as caught:
            unpack(tmp_path / name, tmp_path / "in" / "to")
        assert str(caught.value).isprintable()

    return call


def test_nothing_is_written_outside(tmp_path, refuse):
    packed = [(".zip", lambda name: zipped({"good": b"1", name: b"2"})), (".tar", lambda name: tarred({name: b"1"}))]
    for name in ("../evil", "/evil", "a/../../evil", "..\\evil"):
        for ending, pack in packed:
            if ending == ".tar" and "../" in name:  # zipfile cuts such a path, tarfile refuses it
                refuse("a.tar", pack(name))
                continue
            (tmp_path / f"a{ending}").write_bytes(pack(name))
            unpack(tmp_path / f"a{ending}", tmp_path / "in" / "to")
            assert {path.name for path in tmp_path.iterdir()} <= {"a.zip", "a.tar", "in"}
            assert [path.name for path in (tmp_path / "in").iterdir()] == ["to"]
            shutil.rmtree(tmp_path / "in")
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        for target in ("/etc/passwd", "../../evil"):
            refuse("a.tar", tarred({"link": b""}, type=kind, linkname=target))
    for kind in (tarfile.FIFOTYPE, tarfile.CHRTYPE):
        refuse("a.tar", tarred({"device": b""}, type=kind))


def test_members_in_each_others_way_and_pages_are_damage(tmp_path):
    for content in (
        zipped(dict.fromkeys(["a", "a/b"], b"1")),
        zipped({"a": b"0123456789"})[:-30],
        b"<html>Log in",
        b"",
    ):
        (tmp_path / "a.zip").write_bytes(content)
        with pytest.raises(DamagedArchive, match=rf"^{tmp_path}/a.zip: the archive is damaged: ."):
            unpack(tmp_path / "a.zip", tmp_path / "zip")
    for content in (tarred(dict.fromkeys(["a", "a/b"], b"1")), tarred({"a": b"1" * 2000})[:1500], b"<html>Log in", b""):
        for ending, pack in TARS.items():
            (tmp_path / f"a{ending}").write_bytes(pack(content))
            with pytest.raises(DamagedArchive, match=rf"^{tmp_path}/a{ending}: the archive is damaged: ."):
                unpack(tmp_path / f"a{ending}", tmp_path / ending)


def test_what_is_whole_is_unpacked_and_what_is_no_archive_is_copied(tmp_path):
    whole = {"a.zip": zipped(BOTH, 8), **{f"a{ending}": pack(tarred(BOTH)) for ending, pack in TARS.items()}}
    for name, content in whole.items():
        (tmp_path / name).write_bytes(content)
        unpack(tmp_path / name, tmp_path / "to" / name)
        assert {member: (tmp_path / "to" / name / member).read_bytes() for member in BOTH} == BOTH
    (tmp_path / "d.jsonl").write_bytes(b"{}\n")
    unpack(tmp_path / "d.jsonl", tmp_path / "to")
    assert (tmp_path / "to" / "d.jsonl").read_bytes() == b"{}\n"


def hurt(draw, whole):
    """A few bytes are others, and sometimes the end is missing."""
    content = bytearray(whole)
    for _ in range(draw.randint(1, 3)):
        content[draw.randrange(len(content))] = draw.randrange(256)
    return content if draw.random() < 0.8 else content[: draw.randrange(len(content))]


def is_refused(read, path):
    """Whether a file is refused, by an error that names it; nothing else is raised."""
    try:
        read(path)
    except DataError as error:
        return str(path.parent) in str(error) or pytest.fail(str(error))
    return False


def test_any_damage_is_one_error(tmp_path):
    draw, refusals = random.Random(5), 0
    one = {"folder/ä.txt": BOTH["folder/ä.txt"]}
    wholes = {"a.zip": zipped(BOTH, 8), "b.zip": zipped(one, 14), "c.zip": zipped(one, 12)}
    wholes |= {f"a{ending}": pack(tarred(BOTH)) for ending, pack in TARS.items() if ending != ".tgz"}
    for name, whole in wholes.items():
        path = tmp_path / name
        for _ in range(60):
            path.write_bytes(hurt(draw, whole))
            refusals += is_refused(lambda path: unpack(path, tmp_path / "to"), path)
            if path.suffix == ".zip":
                refusals += is_refused(lambda path: [text(file) for file in nearest(path.parent, "*.txt")], path)
        path.unlink()
    assert refusals > 100
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["some text"] * 50, "label": list(range(50))}), path)
    whole = path.read_bytes()
    for _ in range(150):
        path.write_bytes(hurt(draw, whole))
        refusals += is_refused(lambda path: list(read_rows(path)), path)
    assert refusals > 150


def test_parquet_is_read_as_it_was_written_whatever_its_encodings(tmp_path):
    rows = [
        {"a": ["x", None], "s": {"p": "q", "n": [{"z": "w"}]}, "m": [("k", "v")], "d": "one", "b": b"\xff", "i": 1},
        {"a": [], "s": None, "m": [], "d": None, "b": b"", "i": None},
    ] * 1000
    kinds = {
        "a": pa.list_(pa.string()),
        "s": pa.struct([("p", pa.string()), ("n", pa.list_(pa.struct([("z", pa.large_string())])))]),
        "m": pa.map_(pa.string(), pa.string()),
        "d": pa.dictionary(pa.int8(), pa.string()),
        "b": pa.binary(),
        "i": pa.int64(),
    }
    table = pa.Table.from_pylist(rows, pa.schema(kinds.items()))
    for encoding in ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        texts = {"s.p": encoding, "b": encoding}
        pq.write_table(table, tmp_path / f"{encoding}.parquet", use_dictionary=False, column_encoding=texts)
    pq.write_table(table, tmp_path / "usual.parquet")
    for path in tmp_path.glob("*.parquet"):
        assert list(read_rows(path)) == rows
        tables.copy_columns(path, "a", ("s.n", "d"), tmp_path / "copy")
        assert pq.read_table(tmp_path / "copy").to_pylist()[0] == {"s": {"n": [{"z": "w"}]}, "d": "one"}
