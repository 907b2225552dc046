"""Archives and tables from untrusted places: bounds on what they hold, nothing outside the folder, one error each."""

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hub_server import small
from support.official import zipped

from grue import files
from grue.data import archives, limits, parquet
from grue.data.archives import File, csv_rows, json_lines, nearest, text
from grue.data.load import load_examples
from grue.data.rows import text_of
from grue.data.tables import read_rows
from grue.data.unpack import unpack
from grue.errors import DataError


def refused(path, folder):
    with pytest.raises(DataError) as caught:
        unpack(path, folder)
    assert str(caught.value).isprintable()
    return str(caught.value)


def reads(read, path):
    """Whether a file can be read; if not, it is refused by an error that names it."""
    try:
        read(path)
    except DataError as error:
        told = str(error)
    else:
        return True
    assert str(path.parent) in told
    return False


def tarred(members, end=bytes(1024)):
    """Return a tar archive of (name or header, content)."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        size = archive.offset
    return sink.getvalue()[:size] + end


# --- archives --------------------------------------------------------------------------------------------------------


def test_names_that_no_file_has_are_refused(tmp_path):
    for name in ("a\x1b[2Jb", "a\nb", "x" * 256, "/".join("x" * 70), "a\u202eb", "é" * 200):
        (tmp_path / "a.zip").write_bytes(zipped({name: b"1"}))
        (tmp_path / "a.tar").write_bytes(tarred([(name, b"1")]))
        for archive in ("a.zip", "a.tar"):
            assert "a name that is no sensible file's" in refused(tmp_path / archive, tmp_path / "to")
    (tmp_path / "a.tar").write_bytes(tarred([("a\udcff", b"1")]))
    assert "no sensible" in refused(tmp_path / "a.tar", tmp_path / "to")


def test_members_in_each_others_way_are_one_error(tmp_path):
    for names in (["a", "a/b"], ["a/b", "a"]):
        (tmp_path / "a.zip").write_bytes(zipped(dict.fromkeys(names, b"1")))
        (tmp_path / "a.tar").write_bytes(tarred([(name, b"1") for name in names]))
        for archive in ("a.zip", "a.tar"):
            told = refused(tmp_path / archive, tmp_path / archive.replace(".", "") / names[0].replace("/", ""))
            assert f"{archive}: the archive is damaged: " in told


def test_devices_of_a_zip_are_refused(tmp_path):
    for kind in (0o010000, 0o020000, 0o060000, 0o140000):
        member = zipfile.ZipInfo("device")
        member.external_attr = (kind | 0o644) << 16
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr(member, b"")
        assert "'device', which is neither file nor folder" in refused(tmp_path / "a.zip", tmp_path / "to")


def test_what_unpacks_to_far_more_than_it_has_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SLACK", 1_000_000)
    zeros = bytes(3_000_000)
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", zeros)
    bombs = {"a.zip": sink.getvalue()}
    for ending, pack in ((".tar.gz", gzip.compress), (".tar.bz2", bz2.compress), (".tar.xz", lzma.compress)):
        bombs[f"a{ending}"] = pack(tarred([("zeros", zeros)]))
    for name, content in bombs.items():
        (tmp_path / name).write_bytes(content)
        assert "more than is allowed" in refused(tmp_path / name, tmp_path / "to")
    with pytest.raises(DataError, match="more than is allowed"):
        list(archives.lines(File(tmp_path / "a.zip", ("zeros",))))
    several = zipped({f"{number}.txt": bytes(900_000) for number in range(3)}, zipfile.ZIP_BZIP2)
    (tmp_path / "b.zip").write_bytes(several)
    assert "more than is allowed" in refused(tmp_path / "b.zip", tmp_path / "to"), "each is small, all are not"


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("grue.data.limits.MOST_MEMBERS", 5)
    monkeypatch.setattr("grue.data.unpack.MOST_MEMBERS", 5)
    names = [f"{number}/" for number in range(3)] + [f"{number}.txt" for number in range(3)]
    (tmp_path / "a.zip").write_bytes(zipped(dict.fromkeys(names, b"")))
    (tmp_path / "a.tar").write_bytes(tarred([(name, b"") for name in names]))
    for archive in ("a.zip", "a.tar"):
        assert "it has more than 5 members" in refused(tmp_path / archive, tmp_path / "to")
    with pytest.raises(DataError, match="it has more than 5 members"):
        nearest(tmp_path, "1.txt")


def test_a_list_of_members_that_would_fill_the_memory_is_not_read(tmp_path, monkeypatch):
    whole = zipped({"a": b"1", "b": b"2"})
    monkeypatch.setattr(limits, "LARGEST_DIRECTORY", 50)  # of 94 bytes
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, 94, len(whole) - 22 - 94, 0)
    assert whole.endswith(end)
    larger = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, 94, len(whole) - 22 - 94)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(whole) - 22, 1)
    small_end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    two_ends = struct.pack("<4s4HL4sH", b"PK\5\6", 0, 0, 2, 2, 94, b"PK\5\6", 0)
    for content in (whole, whole[:-22] + larger + locator + small_end, whole[:-22] + two_ends, whole[:-2] + b"\3\0abc"):
        (tmp_path / "a.zip").write_bytes(content)
        assert "refused: its list of members has 94 bytes" in refused(tmp_path / "a.zip", tmp_path / "to")
    monkeypatch.undo()
    (tmp_path / "a.zip").write_bytes(whole)
    unpack(tmp_path / "a.zip", tmp_path / "to")
    assert (tmp_path / "to" / "b").read_bytes() == b"2"


def test_a_header_of_tar_that_would_fill_the_memory_is_not_read(tmp_path):
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE):
        member = tarfile.TarInfo("x")
        member.type, member.size = kind, 10**10
        (tmp_path / "a.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(5000))
        told = refused(tmp_path / "a.tar", tmp_path / "to")
        assert "refused: a header of 10,000,000," in told


def test_a_tar_archive_that_ends_early_is_damaged(tmp_path):
    whole = tarred([("a", b"1" * 600), ("b", b"2" * 600)])
    for content in (
        whole[:600],
        whole[:1024],
        whole[:1536],
        whole[: 1536 + 100],
        whole[:1536] + b"garbage!" * 64,
        b"",
        b"x",
    ):
        for name, pack in (("a.tar", bytes), ("a.tgz", gzip.compress), ("a.tar.xz", lzma.compress)):
            (tmp_path / name).write_bytes(pack(content))
            assert f"{name}: the archive is damaged: " in refused(tmp_path / name, tmp_path / "to")
    (tmp_path / "a.tar").write_bytes(whole)
    unpack(tmp_path / "a.tar", tmp_path / "good")
    assert (tmp_path / "good" / "b").read_bytes() == b"2" * 600


def test_any_damage_is_one_error(tmp_path):
    """A byte of each archive is another, in many ways: it unpacks, or is refused, and nothing else is raised."""
    draw = random.Random(5)
    member = ("folder/ä.txt", b"some text " * 30)
    plain = tarred([member, ("b", b"")])
    wholes = {
        "a.zip": zipped(dict([member, ("b", b"")]), zipfile.ZIP_DEFLATED),
        "b.zip": zipped(dict([member]), zipfile.ZIP_LZMA),
        "c.zip": zipped(dict([member]), zipfile.ZIP_BZIP2),
        "a.tar": plain,
        "a.tar.gz": gzip.compress(plain),
        "a.tar.bz2": bz2.compress(plain),
        "a.tar.xz": lzma.compress(plain),
    }
    refusals = 0
    for name, whole in wholes.items():
        for _ in range(60):
            damaged = bytearray(whole)
            for _ in range(draw.randint(1, 3)):
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
            if draw.random() < 0.2:
                del damaged[draw.randrange(len(damaged)) :]
            (tmp_path / name).write_bytes(damaged)
            for read in (
                lambda path: unpack(path, tmp_path / "to"),
                lambda path: [text(file) for file in nearest(path.parent, "*.txt") if path.suffix == ".zip"],
            ):
                refusals += not reads(read, tmp_path / name)
        (tmp_path / name).unlink()
    assert refusals > 100


# --- lines, cells and tables ------------------------------------------------------------------------------------------


def test_a_line_without_an_end_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    monkeypatch.setattr(archives, "LONGEST_LINE", 1000)
    good, long = b'{"a": 1}\n', b'{"a": "' + b"x" * 5000 + b'"}\n'
    (tmp_path / "a.jsonl").write_bytes(good + long)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(good + long))
    (tmp_path / "a.zip").write_bytes(zipped({"a.jsonl": good + long}))
    for read in (
        lambda: list(read_rows(tmp_path / "a.jsonl")),
        lambda: list(read_rows(tmp_path / "a.jsonl.gz")),
        lambda: list(json_lines(File(tmp_path / "a.jsonl"))),
        lambda: list(json_lines(File(tmp_path / "a.zip", ("a.jsonl",)))),
    ):
        with pytest.raises(DataError, match="line 2: longer than the 1,000 bytes"):
            read()
    for content, expected in [
        (b"a,b\n1," + b"x" * 5000 + b"\n", "line 2: longer than the 1,000 bytes"),
        (b'a,b\n1,"' + b"x\n" * 5000, "a row is longer than 1,000 bytes; is a quotation mark missing"),
        (b'a,b\n"x\ny",2\n' * 1 + b"1,2\n" * 500 + b'"', "not a csv file|more or fewer fields"),
    ]:
        (tmp_path / "a.csv").write_bytes(content)
        with pytest.raises(DataError, match=expected):
            list(csv_rows(File(tmp_path / "a.csv")))
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbfa,b\r\n"x\r\n\xe2\x80\xa8y",2\r3,4\r' + b"5,6\n" * 500)
    found = list(csv_rows(File(tmp_path / "a.csv"), "a"))
    assert found[:3] == [{"a": "x\r\n\u2028y", "b": "2"}, {"a": "3", "b": "4"}, {"a": "5", "b": "6"}]
    assert len(found) == 502


def test_a_file_that_is_read_at_once_has_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "LARGEST_TEXT", 100)
    (tmp_path / "a.txt").write_text("x" * 100)
    assert len(text(File(tmp_path / "a.txt"))) == 100
    (tmp_path / "a.txt").write_text("x" * 101)
    with pytest.raises(DataError, match="more than the 100 bytes that are read at once"):
        text(File(tmp_path / "a.txt"))


def test_cells_columns_and_rows_have_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr("grue.data.rows.LONGEST_CELL", 50)
    with pytest.raises(DataError, match="row 1: text has 51 characters, more than the 50 of any text"):
        text_of("x" * 51, "text", "row 1")
    (tmp_path / "a.csv").write_text(",".join(f"c{number}" for number in range(5000)) + "\n")
    with pytest.raises(DataError, match="more than 4,096 columns"):
        list(csv_rows(File(tmp_path / "a.csv")))
    (tmp_path / "a.csv").write_text("a\n" + "x" * (limits.LONGEST_CELL + 1) + "\n")
    with pytest.raises(DataError, match="field larger than field limit"):
        list(csv_rows(File(tmp_path / "a.csv")))
    monkeypatch.setattr("grue.data.load.MOST_ROWS", 2)
    monkeypatch.setenv("GRUE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "The film begins well and ends", "label": 1}\n' * 3)
    with pytest.raises(DataError, match="more than the 2 rows that a split may have"):
        load_examples(small("imdb"), str(path))


def test_tables_of_parquet_have_bounds(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({f"c{number}": [1] for number in range(5000)}), path)
    with pytest.raises(DataError, match=r"a.parquet: refused: 1 rows of 5,000 columns, at most"):
        list(read_rows(path))
    pq.write_table(pa.table({"text": ["x" * 1000] * 4000}), path)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(parquet, "LARGEST_BATCH", 1_000_000)
    with pytest.raises(DataError, match=r"a.parquet: refused: 4,000 of its rows take 4,"):
        list(read_rows(path))
    with pytest.raises(DataError, match="refused: 4,000 of its rows take"):
        parquet.copy_columns(parquet.open_parquet("a", path), (), tmp_path / "b.parquet")
    assert not (tmp_path / "b.parquet").exists()
    monkeypatch.setattr(parquet, "MOST_ROWS", 3999)
    with pytest.raises(DataError, match="refused: 4,000 rows of 1 columns, at most 3,999"):
        list(read_rows(path))


LONG = "x" * 200_000
PLAIN = {"use_dictionary": False, "compression": "zstd"}
BOMBS = {
    "a dictionary": (pa.DictionaryArray.from_arrays(pa.array([0] * 4000, pa.int32()), [LONG]), {}),
    "texts in a list": (pa.array([[LONG] * 200]), {}),
    "what the text before shares": (pa.array([LONG] * 200), PLAIN | {"column_encoding": {"a": "DELTA_BYTE_ARRAY"}}),
    "one list": (pa.ListArray.from_arrays([0, 30_000_000], pa.nulls(30_000_000, pa.bool_())), {}),
    "a fixed length": (pa.array([LONG.encode()] * 200, pa.binary(len(LONG))), {}),
    "compression": (pa.array([LONG * 200]), PLAIN),
}


@pytest.mark.parametrize(("column", "options"), BOMBS.values(), ids=BOMBS)
def test_parquet_is_refused_by_what_it_unpacks_to(tmp_path, column, options):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": column}), path, **options)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=r"a\.parquet: refused: .* bytes unpack to (3|4|8)\d"):
        list(read_rows(path))


def test_parquet_that_says_it_is_small_is_refused_while_it_is_read(tmp_path, monkeypatch):
    def varint(number, length):  # a number of the footer; zeros beyond its first bytes say nothing
        return bytes(number >> 7 * place & 127 | (128 if place < length - 1 else 0) for place in range(length))

    path, usual = tmp_path / "a.parquet", pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())  # the usual one keeps what the test takes to write the file
    pq.write_table(pa.table({"a": ["x" * 150_000_000]}), path, write_statistics=False, **PLAIN)
    stated = pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size
    whole = path.read_bytes()
    path.write_bytes(whole.replace(varint(2 * stated, 5), varint(2 * 1000, 5)))
    assert pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size == 1000
    monkeypatch.setattr(parquet, "MEMORY", 100_000_000)
    try:
        with pytest.raises(DataError, match=r"a\.parquet: refused: it takes more than 10\d,\d+,\d+ bytes of memory"):
            list(read_rows(path))
    finally:
        pa.set_memory_pool(usual)


def test_parquet_is_read_as_it_was_written_whatever_its_encodings(tmp_path):
    rows = [
        {"a": ["x", None], "s": {"p": "q", "n": [{"z": "w"}]}, "m": [("k", "v")], "d": "one", "b": b"\xff", "i": 1},
        {"a": [], "s": None, "m": [], "d": None, "b": b"", "i": None},
    ] * 5000
    kinds = {
        "a": pa.list_(pa.string()),
        "s": pa.struct([("p", pa.string()), ("n", pa.list_(pa.struct([("z", pa.large_string())])))]),
        "m": pa.map_(pa.string(), pa.string()),
        "d": pa.dictionary(pa.int8(), pa.string()),
        "b": pa.binary(),
        "i": pa.int64(),
    }
    table = pa.Table.from_pylist(rows, pa.schema(kinds.items()))
    for name, encoding in (("plain", "PLAIN"), ("delta", "DELTA_BYTE_ARRAY"), ("lengths", "DELTA_LENGTH_BYTE_ARRAY")):
        texts = {"s.p": encoding, "b": encoding}
        pq.write_table(table, tmp_path / f"{name}.parquet", use_dictionary=False, column_encoding=texts)
    pq.write_table(table, tmp_path / "usual.parquet")
    for path in tmp_path.glob("*.parquet"):
        assert list(read_rows(path)) == rows
        parquet.copy_columns(parquet.open_parquet("a", path), ("s.n", "d"), tmp_path / "copy")
        assert pq.read_table(tmp_path / "copy").to_pylist()[0] == {"s": {"n": [{"z": "w"}]}, "d": "one"}


def test_any_damage_of_parquet_is_one_error(tmp_path):
    draw, path = random.Random(6), tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["some text"] * 50, "label": list(range(50))}), path)
    whole, refusals = path.read_bytes(), 0
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged if draw.random() < 0.8 else damaged[: draw.randrange(len(damaged))])
        refusals += not reads(lambda damaged: list(read_rows(damaged)), path)
    assert refusals > 50
