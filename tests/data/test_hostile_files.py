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
from grue.data.unpack import DamagedArchive, unpack
from grue.errors import DataError

TARS = {".tar": bytes, ".tgz": gzip.compress, ".tar.gz": gzip.compress, ".tar.bz2": bz2.compress}
TARS |= {".tar.xz": lzma.compress}


def tarred(members, **header):
    """Return a tar archive of names and their contents."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            for key, value in {"size": len(content), **header}.items():
                setattr(member, key, value)
            archive.addfile(member, io.BytesIO(content))
        size = archive.offset
    return sink.getvalue()[:size] + bytes(1024)


def zip_of(name, kind):
    """Return a zip archive of one member, which is of a kind that a file system knows."""
    member, sink = zipfile.ZipInfo(name), io.BytesIO()
    member.external_attr = (kind | 0o644) << 16
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr(member, b"/etc/passwd")
    return sink.getvalue()


@pytest.fixture
def refuse(tmp_path, refused):
    """Unpack an archive, and expect a refusal."""

    def call(name, content, **options):
        (tmp_path / name).write_bytes(content)
        with refused(DataError) as caught:
            unpack(tmp_path / name, tmp_path / "in" / "to", **options)
        assert str(caught.value).isprintable()

    return call


@pytest.fixture
def damaged(tmp_path):
    """Unpack an archive, and expect to hear that it is damaged."""

    def call(name, content, folder="to"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DamagedArchive, match=rf"^{tmp_path}/{name}: the archive is damaged: ") as caught:
            unpack(tmp_path / name, tmp_path / folder)
        assert str(caught.value).isprintable()

    return call


# --- archives --------------------------------------------------------------------------------------------------------

OUTSIDE = ("../evil", "/evil", "a/../../evil", "C:\\evil", "..\\evil")
STRANGE = ("a\x1b[2Jb", "a\nb", "x" * 256, "/".join("x" * 70), "a\u202eb", "é" * 200)


def test_a_name_that_leads_outside_or_that_no_file_has_is_refused(tmp_path, refuse):
    for name in (*OUTSIDE, *STRANGE):
        refuse("a.zip", zipped({"good": b"1", name: b"2"}))
        refuse("a.tar.gz", gzip.compress(tarred({name: b"1"})))
    assert not list(tmp_path.rglob("*evil*"))


def test_an_archive_holds_files_only(refuse):
    refuse("a.tar", tarred({"a\udcff": b"1"}))
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
        refuse("a.tar", tarred({"link": b""}, type=kind, linkname="/etc/passwd"))
    for kind in (0o120000, 0o010000, 0o020000, 0o060000, 0o140000):
        refuse("a.zip", zip_of("device", kind))


def test_members_in_each_others_way_are_damage(damaged):
    for names in (["a", "a/b"], ["a/b", "a"]):
        damaged("a.zip", zipped(dict.fromkeys(names, b"1")), f"zip {len(names[0])}")
        damaged("a.tar", tarred(dict.fromkeys(names, b"1")), f"tar {len(names[0])}")


def test_what_unpacks_to_far_more_than_it_has_is_refused(tmp_path, refuse, monkeypatch):
    zeros = bytes(3_000_000)
    bomb = zipped({"zeros": zeros}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 10_000
    refuse("a.zip", bomb, largest=2_000_000)
    monkeypatch.setattr(limits, "SLACK", 1_000_000)
    several = zipped({f"{number}.txt": bytes(900_000) for number in range(3)}, zipfile.ZIP_BZIP2)  # each is small
    bombs = {"b.zip": several, **{f"a{ending}": pack(tarred({"zeros": zeros})) for ending, pack in [*TARS.items()][1:]}}
    for name, content in {"a.zip": bomb, **bombs}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}.*: refused: .*more than is allowed"):
            unpack(tmp_path / name, tmp_path / "to")
    with pytest.raises(DataError, match="more than is allowed"):
        list(archives.lines(File(tmp_path / "a.zip", ("zeros",))))


def test_too_many_members_are_refused(tmp_path, refuse, refused, monkeypatch):
    for module in ("limits", "unpack"):
        monkeypatch.setattr(f"grue.data.{module}.MOST_MEMBERS", 5)
    names = dict.fromkeys([f"{number}/" for number in range(3)] + [f"{number}.txt" for number in range(3)], b"")
    refuse("a.zip", zipped(names))
    refuse("a.tar", tarred(names))
    with refused(DataError):
        nearest(tmp_path, "1.txt")


def test_a_list_of_members_that_would_fill_the_memory_is_not_read(tmp_path, refuse, monkeypatch):
    whole = zipped({"a": b"1", "b": b"2"})
    start = len(whole) - 22 - 94
    with monkeypatch.context() as patch:
        patch.setattr(limits, "LARGEST_DIRECTORY", 50)  # of 94 bytes
        end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, 94, start, 0)
        assert whole.endswith(end)
        larger = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, 94, start)
        locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(whole) - 22, 1)
        small_end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, 0xFFFFFFFF, 0xFFFFFFFF, 0)
        two_ends = struct.pack("<4s4HL4sH", b"PK\5\6", 0, 0, 2, 2, 94, b"PK\5\6", 0)
        for content in (end, larger + locator + small_end, two_ends, end[:-2] + b"\3\0abc"):
            refuse("a.zip", whole[:-22] + content)
    (tmp_path / "a.zip").write_bytes(whole)
    unpack(tmp_path / "a.zip", tmp_path / "to")
    assert (tmp_path / "to" / "b").read_bytes() == b"2"


def test_a_header_of_tar_that_would_fill_the_memory_is_not_read(refuse):
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE):
        member = tarfile.TarInfo("x")
        member.type, member.size = kind, 10**10
        refuse("a.tar", member.tobuf(tarfile.GNU_FORMAT) + bytes(5000))


def test_an_archive_that_ends_early_is_damaged(tmp_path, damaged):
    whole = tarred({"a": b"1" * 600, "b": b"2" * 600})
    cuts = [whole[:size] for size in (0, 600, 1024, 1536, 1636)]
    for content in (*cuts, whole[:1536] + b"garbage!" * 64, b"x"):
        for name in ("a.tar", "a.tgz", "a.tar.xz"):
            damaged(name, TARS[name[1:]](content))
    packed = zipped({"a": b"0123456789" * 100})
    damaged("a.zip", packed[:-30])
    damaged("a.zip", packed[:100] + bytes([packed[100] ^ 1]) + packed[101:])
    for name, content in {"a.tar": whole, "b.tgz": gzip.compress(tarred({"deep/c": b"3"})), "d.jsonl": b"{}\n"}.items():
        (tmp_path / name).write_bytes(content)
        unpack(tmp_path / name, tmp_path / "good")
    found = {path.name: path.read_bytes() for path in (tmp_path / "good").rglob("*") if path.is_file()}
    assert found == {"a": b"1" * 600, "b": b"2" * 600, "c": b"3", "d.jsonl": b"{}\n"}
    assert (tmp_path / "good" / "deep" / "c").exists()


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
    one, both = {"folder/ä.txt": b"some text " * 30}, {"folder/ä.txt": b"some text " * 30, "b": b""}
    kinds = {"a": (both, zipfile.ZIP_DEFLATED), "b": (one, zipfile.ZIP_LZMA), "c": (one, zipfile.ZIP_BZIP2)}
    wholes = {f"{name}.zip": zipped(*made) for name, made in kinds.items()}
    wholes |= {f"a{ending}": pack(tarred(both)) for ending, pack in TARS.items() if ending != ".tgz"}
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


# --- lines, cells and tables ------------------------------------------------------------------------------------------


def test_a_line_without_an_end_is_not_read_whole(tmp_path, monkeypatch, refused):
    for module in (files, archives):
        monkeypatch.setattr(module, "LONGEST_LINE", 1000)
    lines = b'{"a": 1}\n{"a": "' + b"x" * 5000 + b'"}\n'
    for name, content in {
        "a.jsonl": lines,
        "a.jsonl.gz": gzip.compress(lines),
        "a.zip": zipped({"a.jsonl": lines}),
    }.items():
        (tmp_path / name).write_bytes(content)
    for read, where in (
        (read_rows, tmp_path / "a.jsonl"),
        (read_rows, tmp_path / "a.jsonl.gz"),
        (json_lines, File(tmp_path / "a.jsonl")),
        (json_lines, File(tmp_path / "a.zip", ("a.jsonl",))),
    ):
        with refused(DataError):
            list(read(where))
    long = b"a,b\n1," + b"x" * 5000 + b"\n"
    for content in (long, b'a,b\n1,"' + b"x\n" * 5000, b'a,b\n"x\ny",2\n' + b"1,2\n" * 500 + b'"'):
        (tmp_path / "a.csv").write_bytes(content)
        with refused(DataError):
            list(csv_rows(File(tmp_path / "a.csv")))
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbfa,b\r\n"x\r\n\xe2\x80\xa8y",2\r3,4\r' + b"5,6\n" * 500)
    found = list(csv_rows(File(tmp_path / "a.csv"), "a"))
    assert found[:3] == [{"a": "x\r\n\u2028y", "b": "2"}, {"a": "3", "b": "4"}, {"a": "5", "b": "6"}]
    assert len(found) == 502


def test_texts_cells_columns_and_rows_have_bounds(tmp_path, monkeypatch, refused):
    monkeypatch.setattr(archives, "LARGEST_TEXT", 100)
    (tmp_path / "a.txt").write_text("x" * 100)
    assert len(text(File(tmp_path / "a.txt"))) == 100
    (tmp_path / "a.txt").write_text("x" * 101)
    with refused(DataError):
        text(File(tmp_path / "a.txt"))
    monkeypatch.setattr("grue.data.rows.LONGEST_CELL", 50)
    with refused(DataError):
        text_of("x" * 51, "text", "row 1")
    wide = ",".join(f"c{number}" for number in range(5000)) + "\n"
    for content in (wide, "a\n" + "x" * (limits.LONGEST_CELL + 1) + "\n"):
        (tmp_path / "a.csv").write_text(content)
        with refused(DataError):
            list(csv_rows(File(tmp_path / "a.csv")))
    monkeypatch.setattr("grue.data.load.MOST_ROWS", 2)
    monkeypatch.setenv("GRUE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "rows.jsonl").write_text('{"text": "The film begins well and ends", "label": 1}\n' * 3)
    with refused(DataError):
        load_examples(small("imdb"), str(tmp_path / "rows.jsonl"))


def test_tables_of_parquet_have_bounds(tmp_path, monkeypatch, refused):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({f"c{number}": [1] for number in range(4097)}), path)
    with refused(DataError):
        list(read_rows(path))
    pq.write_table(pa.table({"text": ["x" * 1000] * 4000}), path)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(parquet, "LARGEST_BATCH", 1_000_000)
    with refused(DataError):
        list(read_rows(path))
    with refused(DataError):
        parquet.copy_columns(parquet.open_parquet("a", path), (), tmp_path / "b.parquet")
    assert not (tmp_path / "b.parquet").exists()
    monkeypatch.setattr(parquet, "MOST_ROWS", 3999)
    with refused(DataError):
        list(read_rows(path))


LONG = "x" * 200_000
PLAIN = {"use_dictionary": False, "compression": "zstd"}
BOMBS = {
    "a dictionary": (lambda: pa.DictionaryArray.from_arrays(pa.array([0] * 4000, pa.int32()), [LONG]), {}),
    "texts in a list": (lambda: pa.array([[LONG] * 200]), {}),
    "shared texts": (lambda: pa.array([LONG] * 200), PLAIN | {"column_encoding": {"a": "DELTA_BYTE_ARRAY"}}),
    "one list": (lambda: pa.ListArray.from_arrays([0, 30_000_000], pa.nulls(30_000_000, pa.bool_())), {}),
    "a fixed length": (lambda: pa.array([LONG.encode()] * 200, pa.binary(len(LONG))), {}),
    "compression": (lambda: pa.array([LONG * 200]), PLAIN),
}


@pytest.mark.parametrize(("column", "options"), BOMBS.values(), ids=BOMBS)
def test_parquet_is_refused_by_what_it_unpacks_to(tmp_path, column, options):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": column()}), path, **options)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=r"a\.parquet: refused: .* bytes unpack to (3|4|8)\d"):
        list(read_rows(path))


def test_parquet_that_says_it_is_small_is_refused_while_it_is_read(tmp_path, monkeypatch):
    def varint(number):  # of the footer, in five bytes; zeros beyond its first ones say nothing
        return bytes(number >> 7 * place & 127 | (128 if place < 4 else 0) for place in range(5))

    path, usual = tmp_path / "a.parquet", pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())  # the usual one keeps what the test takes to write the file
    pq.write_table(pa.table({"a": ["x" * 150_000_000]}), path, write_statistics=False, **PLAIN)
    stated = pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size
    path.write_bytes(path.read_bytes().replace(varint(2 * stated), varint(2 * 1000)))
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
        parquet.copy_columns(parquet.open_parquet("a", path), ("s.n", "d"), tmp_path / "copy")
        assert pq.read_table(tmp_path / "copy").to_pylist()[0] == {"s": {"n": [{"z": "w"}]}, "d": "one"}
