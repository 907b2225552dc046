"""Submissions of people who mean harm: nothing runs, nothing gets out, nothing crashes, and nothing hides a problem.

A second system, broken in a plain way, lies beside each attack; its problem must be told, too.
"""

import gzip
import io
import json
import os
import pickle
import random
import resource
import shutil
import socket
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.good_submission import (
    OTHER_WAY,
    SEEDS,
    configure,
    edit,
    hand_in,
    packed,
    say,
    seal,
    texts_of,
    use_few_examples,
    write_good,
)

from grue.errors import DataError
from grue.submissions.checks.check import check
from grue.submissions.folder import read_result
from grue.submissions.problems import CHECKS

RESULT = "commongen/seed-1.result.json"
PREDICTIONS = "commongen/seed-1.predictions.jsonl.gz"
SECRET = "the secret of another file"


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_few_examples(monkeypatch)
    (tmp_path / "secret").write_text(SECRET)
    beside = write_good(tmp_path / "submissions/mini/beside", how=OTHER_WAY)
    (beside / "notes.txt").write_text("x")
    return write_good(tmp_path / "submissions/mini/ours")


def found_in(ours: Path) -> set[str]:
    """Check everything; return the numbers of ours, once it is sure that the neighbour's and its cure are told."""
    before = everything_below(ours.parents[2])
    problems = check(ours.parent.parent)
    assert everything_below(ours.parents[2]) == before  # nothing was written
    assert [p.id for p in problems if p.path.endswith("beside/notes.txt")] == ["GRUE-S001", "GRUE-S012"]
    told = "\n".join(f"{p.path}: {p.message}" for p in problems)
    assert SECRET not in told
    assert all(line.isprintable() for line in told.split("\n"))
    return {p.id.removeprefix("GRUE-S0") for p in problems if "/mini/beside" not in p.path}


def everything_below(folder: Path) -> list[tuple[str, int]]:
    found = [path for path in folder.rglob("*") if not path.is_symlink()]
    return sorted((str(path), path.stat().st_mtime_ns) for path in found)


# --- ways out --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [RESULT, PREDICTIONS, "submission.toml", "MANIFEST.sha256"])
@pytest.mark.parametrize("target", ["../../../secret", "/etc/passwd", "/dev/zero", "nowhere", "."])
def test_links_are_not_followed(ours: Path, name: str, target: str) -> None:
    (ours / name).unlink()
    (ours / name).symlink_to(target)
    seal_all_but(ours, name)
    assert "13" in found_in(ours)


def seal_all_but(ours: Path, name: str) -> None:
    """Write the manifest, unless it is what was spoilt."""
    if name != "MANIFEST.sha256":
        seal(ours)


def test_linked_folders_are_not_entered(ours: Path, tmp_path: Path) -> None:
    shutil.move(ours / "commongen", tmp_path / "commongen")
    (ours / "commongen").symlink_to(tmp_path / "commongen")
    assert "13" in found_in(ours)
    shutil.rmtree(ours)
    ours.symlink_to(ours.with_name("beside"))
    assert {(p.id, p.message) for p in check(ours)} == {("GRUE-S013", "is a link.")}


def test_a_linked_suite_is_not_entered(ours: Path) -> None:
    suite = ours.parents[1] / "grue"
    suite.symlink_to(ours.parent)
    assert {p.id for p in check(suite / "ours")} == {"GRUE-S013"}


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: socket.socket(socket.AF_UNIX).bind(str(path))])
def test_special_files_are_not_opened(
    ours: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Any], object]
) -> None:
    """To open a fifo for reading is to wait for ever."""
    (ours / RESULT).unlink()
    monkeypatch.chdir(ours / "commongen")  # the path of a socket must be short
    make("seed-1.result.json")
    monkeypatch.chdir("/")
    assert "13" in found_in(ours)


@pytest.mark.parametrize("name", ["../../../secret", "/etc/passwd", "commongen/../../../../secret", "a\0b"])
def test_paths_in_a_manifest_are_not_opened(ours: Path, name: str) -> None:
    path = ours / "MANIFEST.sha256"
    path.write_text(f"{path.read_text()}{'0' * 64}  {name}\n")
    assert found_in(ours) == {"12"}


def test_edited_and_swapped_files_differ_from_the_manifest(ours: Path) -> None:
    one, other = (ours / f"commongen/seed-{seed}.predictions.jsonl.gz" for seed in (1, 2))
    first = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(first)
    assert found_in(ours) == {"12"}  # one cause, one error a file
    assert len(check(ours)) == 2
    seal(ours)
    assert found_in(ours) == {"19"}
    assert len(check(ours)) == 2


@pytest.mark.parametrize("field", ["name", "task", "suite"])
def test_paths_in_fields_lead_nowhere(ours: Path, field: str) -> None:
    if field == "name":
        say(ours, name="../../../secret")
        edit(ours, lambda data: data["system"].update(name="../../../secret"))
    else:
        edit(ours, lambda data: data.update({field: "../../../secret"}))
    seal(ours)
    assert found_in(ours) == ({"02", "04"} if field == "name" else {"04"})


# --- too much --------------------------------------------------------------------------------------------------------


def bomb(part: bytes, megabytes: int) -> bytes:
    """Return many megabytes, packed: the same part again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    chunk = part * (1_000_000 // len(part))
    return b"".join(packer.compress(chunk) for _ in range(megabytes)) + packer.flush()


@pytest.mark.parametrize(("part", "megabytes"), [(b"a", 1_000), (b"\n", 100), (b'{"id":"a","text":"b"}\n', 100)])
def test_a_gigabyte_in_a_megabyte_is_not_unpacked(ours: Path, part: bytes, megabytes: int) -> None:
    """The first is one line of a gigabyte."""
    (ours / PREDICTIONS).write_bytes(bomb(part, megabytes))
    seal(ours)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert found_in(ours) == {"14"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


@pytest.mark.parametrize("name", [RESULT, PREDICTIONS, "submission.toml", "MANIFEST.sha256", "x"])
def test_a_file_of_a_terabyte_is_not_read(ours: Path, name: str) -> None:
    with (ours / name).open("wb") as handle:
        handle.truncate(1_000_000_000_000)  # a hole: no disk is filled
    assert found_in(ours) >= ({"14"} if name != "x" else {"01"})


@pytest.mark.parametrize("layers", [2, 10])
def test_archives_in_archives_are_unpacked_once(ours: Path, layers: int) -> None:
    content = packed(texts_of(1))
    for _ in range(layers):
        content = gzip.compress(content)
    (ours / PREDICTIONS).write_bytes(content)
    seal(ours)
    assert found_in(ours) == {"07"}


def test_a_toml_key_of_many_parts_is_refused(ours: Path) -> None:
    (ours / "submission.toml").write_text("name" + ".a" * 9_000 + " = 1\n")
    seal(ours)
    assert found_in(ours) == {"02"}


@pytest.mark.parametrize("deep", [21, 500, 5_000, 45_000])
@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a":', "}")])
def test_deep_json_is_refused(ours: Path, deep: int, before: str, after: str) -> None:
    deep = deep if len(before) == 1 else deep // 4 + 20
    nested = before * deep + "1" + after * deep
    (ours / "commongen/seed-2.result.json").write_text(nested)
    for seed, key in ((3, "generation"), (4, "schema")):
        path = ours / f"commongen/seed-{seed}.result.json"
        data = json.loads(path.read_text()) | {key: "HERE"}
        path.write_text(json.dumps(data).replace('"HERE"', nested))
    (ours / PREDICTIONS).write_bytes(gzip.compress(f'{{"id": "id-man", "text": {nested}}}\n'.encode()))
    seal(ours)
    assert found_in(ours) == {"03", "07"}


# --- what may not be read --------------------------------------------------------------------------------------------


UNREAD = {
    **{".": "01", "commongen": "01", RESULT: "03", PREDICTIONS: "07"},
    **{"submission.toml": "02", "MANIFEST.sha256": "11", "commongen/config.json": "70"},
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_may_not_be_read_is_told(ours: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    configure(ours)
    seal(ours)

    def refusing(opening: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, *more: Any) -> Any:
            if Path(path) == ours / name:
                raise PermissionError(13, "Permission denied", str(path))
            return opening(path, *more)

        return opened

    for owner, opener in ((os, "scandir"), (Path, "read_bytes"), (gzip, "open")):
        monkeypatch.setattr(owner, opener, refusing(getattr(owner, opener)))
    assert UNREAD[name] in found_in(ours)
    told = [p.message for p in check(ours) if p.id.endswith(UNREAD[name]) and Path(p.path) == ours / name]
    assert told == ["cannot be read: Permission denied."]


@pytest.mark.parametrize("name", list(UNREAD)[2:])
@pytest.mark.parametrize("content", [b"", b" \n"])
def test_an_empty_file_has_the_cure_of_its_kind(ours: Path, name: str, content: bytes) -> None:
    configure(ours)
    (ours / name).write_bytes(gzip.compress(content) if name == PREDICTIONS else content)
    seal_all_but(ours, name)
    expected = "16" if name in (RESULT, PREDICTIONS) else UNREAD[name]
    assert expected in found_in(ours)


# --- no data ---------------------------------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, ("/tmp/grue-was-here",)


@pytest.mark.parametrize("name", [RESULT, PREDICTIONS, "submission.toml", "MANIFEST.sha256"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_pickles_are_not_loaded(ours: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    (ours / name).write_bytes(pack(pickle.dumps(Bomb(), 0)))
    seal_all_but(ours, name)
    expected = {RESULT: "03", PREDICTIONS: "07", "submission.toml": "02", "MANIFEST.sha256": "11"}
    assert expected[name] in found_in(ours)
    assert not Path("/tmp/grue-was-here").exists()


def test_a_metric_that_names_code_is_not_imported(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own metric is module:function; a submission that scores itself by one is refused unread."""
    for folder in (ours, ours.parents[2]):
        (folder / "grue_spy.py").write_text("raise SystemExit('the spy was imported')\n")
    monkeypatch.chdir(ours.parents[2])
    edit(ours, lambda data: data["scores"][0].update(metric="grue_spy:metric"))
    seal(ours)
    assert found_in(ours) == {"01", "09"}
    assert "grue_spy" not in sys.modules


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 400, "9" * 5_000, '"1"', "null", "true"]
)
def test_numbers_that_are_none(ours: Path, number: str) -> None:
    path = ours / RESULT
    data = json.loads(path.read_text())
    data["scores"][0]["value"] = "HERE"
    path.write_text(json.dumps(data).replace('"HERE"', number))
    other = ours / "commongen/seed-2.result.json"
    data = json.loads(other.read_text()) | {"preference": "HERE"}
    other.write_text(json.dumps(data).replace('"HERE"', number))
    seal(ours)
    assert found_in(ours) == ({"03", "09"} if number == "null" else {"03"})  # there may be no preference


@pytest.mark.parametrize("field", ["system", "generation", "determinism"])
@pytest.mark.parametrize("number", ["NaN", "1e999", "9" * 5_000])
def test_numbers_that_are_none_in_free_fields(ours: Path, field: str, number: str) -> None:
    edit(ours, lambda data: data[field].update(parameters="HERE"))
    path = ours / RESULT
    path.write_text(path.read_text().replace('"HERE"', number))
    seal(ours)
    assert found_in(ours) == {"03"}


TYPED = {
    **dict.fromkeys(("name", "algorithm", "backbone", "revision", "weights", "start", "reward", "config_sha256"), "x"),
    **{key: {} for key in ("training", "validation", "last", "frontier", "endpoint")},
    **{"parameters": 1, "update": 1, "reward_models": []},
}


@pytest.mark.parametrize("key", TYPED)
def test_what_is_said_of_a_system_is_of_its_type(ours: Path, key: str) -> None:
    """A list cannot be looked up, and one file that is read carelessly hides what is wrong with all others."""
    for value in ("x", 1, -1, True, 0.5, [], [1], {}):
        edit(ours, lambda data, value=value: data["system"].update({key: value}))
        if type(value) is type(TYPED[key]) and value not in (-1, [1]):
            assert read_result(ours / RESULT).system[key] == value
        else:
            with pytest.raises(DataError, match=f"system: {key}"):
                read_result(ours / RESULT)
    edit(ours, lambda data: data["system"].update({key: [[1]]}))
    seal(ours)
    assert found_in(ours) == {"03"}


@pytest.mark.parametrize("name", [[1], {}, None])
def test_a_reward_model_whose_name_is_none(ours: Path, name: Any) -> None:
    edit(ours, lambda data: data["system"].update(reward="model:rm", reward_models=[{"name": name, "split": "train"}]))
    seal(ours)
    assert found_in(ours) == {"81"}


def test_keys_that_stand_twice(ours: Path) -> None:
    path = ours / RESULT
    path.write_text(path.read_text().replace('"limited": false', '"limited": true, "limited": false'))
    lines = gzip.decompress((ours / "commongen/seed-2.predictions.jsonl.gz").read_bytes()).decode()
    twice = lines.replace('"text":', '"text": "x", "text":', 1)
    (ours / "commongen/seed-2.predictions.jsonl.gz").write_bytes(gzip.compress(twice.encode()))
    toml = ours / "submission.toml"
    toml.write_text(toml.read_text() + 'name = "theirs"\n')
    seal(ours)
    assert found_in(ours) == {"02", "03", "07"}


def test_an_example_that_stands_twice(ours: Path) -> None:
    lines = gzip.decompress((ours / PREDICTIONS).read_bytes())
    (ours / PREDICTIONS).write_bytes(gzip.compress(lines + lines.split(b"\n")[0] + b"\n"))
    seal(ours)
    assert found_in(ours) == {"08"}


@pytest.mark.parametrize("content", [b"\xff\xfe", b'"\xed\xa0\x80"', b'{"id": "\\ud800", "text": "x"}', b"\0" * 100])
def test_bytes_that_are_no_text(ours: Path, content: bytes) -> None:
    (ours / RESULT).write_bytes(content)
    (ours / "commongen/seed-2.predictions.jsonl.gz").write_bytes(gzip.compress(content))
    (ours / "submission.toml").write_bytes(content)
    seal(ours)
    assert found_in(ours) == {"02", "03", "07"}


# --- texts that do something where they are shown ---------------------------------------------------------------------

NAMES = (
    "<script>alert(1)</script>".replace("/", "∕"),
    "a|b",
    "=cmd('calc')",
    r"\input{secret}",
    "a\u202ecod.exe",
    "orаcle",
    "a\nb",
    "a\x1b[2J",
    "%0A::error::x",
    os.fsdecode(b"\xff\xfe"),
    "--help",
    "${IFS}",
)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_are_letters_and_digits(ours: Path, name: str) -> None:
    os.rename(ours, ours.with_name(name))
    assert "01" in found_in(ours)
    os.rename(ours.with_name(name), ours)
    shutil.copy(ours / RESULT, ours / name)
    (ours / "commongen" / name).mkdir()
    assert {"01", "12"} <= found_in(ours)


@pytest.mark.parametrize("text", [name for name in NAMES if name.isprintable() and name.isascii()], ids=ascii)
def test_texts_may_hold_markup_which_is_the_renderers_to_escape(ours: Path, text: str) -> None:
    say(ours, algorithm=text, budget=text, authors=[text])
    seal(ours)
    assert found_in(ours) == set()


def test_copied_predictions_are_told_on_both_sides(ours: Path) -> None:
    theirs = write_good(ours.with_name("theirs"), how="Look, the {0} runs in a {1}!")
    for seed in SEEDS:
        hand_in(ours, seed, texts_of(seed, "Look, the {0} runs in a {1}!"))
    seal(ours)
    assert found_in(ours) == {"18"}
    assert {(p.id, Path(p.path).parts[-3]) for p in check(ours.parent) if "/beside" not in p.path} == {
        ("GRUE-S018", "ours"),
        ("GRUE-S018", theirs.name),
    }


def test_nothing_a_submission_says_switches_a_check_off(ours: Path) -> None:
    for name in (".grueignore", "conftest.py", "pyproject.toml", "sitecustomize.py", ".env"):
        (ours / name).write_text("skip = true\nraise SystemExit\n")
    (ours / PREDICTIONS).write_bytes(packed(dict.fromkeys(texts_of(1), "x")))
    assert {"01", "12", "32"} <= found_in(ours)


# --- whatever else -----------------------------------------------------------------------------------------------------


def spoilt(content: bytes, chance: random.Random) -> bytes:
    """Flip, cut, double or swap some bytes."""
    content = bytearray(content)
    for _ in range(chance.choice((1, 1, 3, 30))):
        at = chance.randrange(len(content) + 1)
        kind = chance.randrange(5)
        if kind == 0 and at < len(content):
            content[at] = chance.randrange(256)
        elif kind == 1:
            del content[at:]
        elif kind == 2:
            content[at:at] = content[at : at + chance.randrange(50)]
        elif kind == 3:
            del content[at : at + chance.randrange(50)]
        else:
            content[at:at] = chance.choice(
                (b"[", b'"', b"{", b"\\ud800", b"\xff", b"\0", b"1e999", b"\n", b"null", b"=")
            )
    return bytes(content)


def mutated(value: Any, chance: random.Random) -> Any:
    """Return JSON like `value` with one of its values replaced, left out or put elsewhere."""
    odd = (None, True, -1, 0.5, "", "\u202e", "a" * 2_000, [], {}, [[]], {"a": {"b": []}}, 10**400, "NaN", -(10**30))
    if chance.random() < 0.2 or not isinstance(value, dict | list) or not value:
        return chance.choice(odd)
    changed = value.copy()
    key = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
    if chance.random() < 0.2:
        del changed[key]
    else:
        changed[key] = mutated(value[key], chance)
    return changed


def assert_told(ours: Path) -> None:
    for problem in check(ours):
        assert problem.severity == CHECKS[problem.id].severity
        assert (problem.path + problem.message).isprintable()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_few_examples(monkeypatch)
        yield write_good(tmp_path_factory.mktemp("template") / "mini/ours")


FUZZ = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@FUZZ
@given(seed=st.integers(0, 2**32), name=st.sampled_from([RESULT, PREDICTIONS, "submission.toml", "MANIFEST.sha256"]))
def test_spoilt_bytes_never_crash(template: Path, seed: int, name: str) -> None:
    chance, path = random.Random(seed), template / name
    good = path.read_bytes()
    try:
        if name == PREDICTIONS and chance.random() < 0.5:  # what is unpacked, too
            path.write_bytes(gzip.compress(spoilt(gzip.decompress(good), chance)))
        else:
            path.write_bytes(spoilt(good, chance))
        assert_told(template)
    finally:
        path.write_bytes(good)


@FUZZ
@given(seed=st.integers(0, 2**32), name=st.sampled_from([RESULT, PREDICTIONS]))
def test_mutated_json_never_crashes(template: Path, seed: int, name: str) -> None:
    chance, path = random.Random(seed), template / name
    good = path.read_bytes()
    try:
        if name == PREDICTIONS:
            lines = [json.loads(line) for line in gzip.decompress(good).splitlines()]
            buffer = io.BytesIO()
            with gzip.GzipFile(fileobj=buffer, mode="wb") as handle:
                handle.write("\n".join(json.dumps(line) for line in mutated(lines, chance) or [0]).encode())
            path.write_bytes(buffer.getvalue())
        else:
            path.write_text(json.dumps(mutated(json.loads(good), chance)))
        assert_told(template)
    finally:
        path.write_bytes(good)


def test_a_folder_that_is_none_is_an_error_of_the_caller(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="there is no such folder of submissions"):
        check(tmp_path / "file")
