"""Submissions of people who mean harm: nothing runs, nothing gets out, nothing crashes, and nothing hides a problem.

A second system, broken in a plain way, lies beside each attack; its problem must be told, too.
"""

import gzip
import json
import os
import pickle
import random
import resource
import shutil
import socket
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.good_submission import (
    OTHER_WAY,
    PREDICTIONS,
    RESULT,
    SEEDS,
    codes,
    configure,
    edit,
    hand_in,
    packed,
    result_says,
    say,
    seal,
    system_says,
    texts_of,
    use_few_examples,
    write_good,
)

from grue.errors import DataError
from grue.evaluation.predictions import read_predictions
from grue.submissions.checks.check import check
from grue.submissions.folder import read_result
from grue.submissions.problems import CHECKS

SECRET = "the secret of another file"
FILES = {RESULT: 3, PREDICTIONS: 7, "submission.toml": 2, "MANIFEST.sha256": 12}
"""The check that says that a file cannot be read."""


@pytest.fixture
def ours(ours, tmp_path):
    (tmp_path / "secret").write_text(SECRET)
    beside = write_good(ours.with_name("beside"), how=OTHER_WAY)
    (beside / "notes.txt").write_text("x")
    return ours


def faults_of(ours):
    """Check everything; return (number, path) of ours, once it is sure that the neighbour's and its cure are told."""
    before = everything_below(ours.parents[2])
    problems = check(ours.parent.parent)
    assert everything_below(ours.parents[2]) == before  # nothing was written
    assert [p.id for p in problems if p.path.endswith("beside/notes.txt")] == ["GRUE-S001", "GRUE-S012"]
    told = "\n".join(f"{p.path}: {p.message}" for p in problems)
    assert SECRET not in told
    assert all(line.isprintable() for line in told.split("\n"))
    return [(int(p.id[-3:]), p.path.partition("/ours/")[2]) for p in problems if "/mini/beside" not in p.path]


def found_in(ours):
    return {number for number, _ in faults_of(ours)}


def everything_below(folder):
    found = [path for path in folder.rglob("*") if not path.is_symlink()]
    return sorted((str(path), path.stat().st_mtime_ns) for path in found)


def rewrite(path, old, new):
    path.write_text(path.read_text().replace(old, new))


def refuses(path, text):
    path.write_text(text)
    try:
        read_result(path)
    except DataError:
        return True
    return False


@pytest.mark.parametrize("target", ["../../../secret", "/etc/passwd", "/dev/zero", "nowhere", "."])
def test_links_are_not_followed(ours, target):
    for name in FILES:
        (ours / name).unlink()
        (ours / name).symlink_to(target)
    assert {(13, name) for name in FILES} <= set(faults_of(ours))


def test_linked_folders_are_not_entered(ours, tmp_path):
    shutil.move(ours / "commongen", tmp_path / "commongen")
    (ours / "commongen").symlink_to(tmp_path / "commongen")
    assert 13 in found_in(ours)
    shutil.rmtree(ours)
    ours.symlink_to(ours.with_name("beside"))
    assert {(p.id, p.message) for p in check(ours)} == {("GRUE-S013", "is a link.")}
    suite = ours.parents[1] / "grue"
    suite.symlink_to(ours.parent)
    assert codes(check(suite / "ours")) == {13}


def test_special_files_are_not_opened(ours, monkeypatch):
    """To open a fifo for reading is to wait for ever."""
    monkeypatch.chdir(ours / "commongen")  # the path of a socket must be short
    for number, make in ((1, os.mkfifo), (2, lambda path: socket.socket(socket.AF_UNIX).bind(path))):
        os.unlink(f"seed-{number}.result.json")
        make(f"seed-{number}.result.json")
    monkeypatch.chdir("/")
    assert {(13, RESULT), (13, "commongen/seed-2.result.json")} <= set(faults_of(ours))


def test_paths_in_manifests_and_fields_lead_nowhere(ours):
    path = ours / "MANIFEST.sha256"
    good = path.read_text()
    for name in ("../../../secret", "/etc/passwd", "commongen/../../../../secret", "a\0b"):
        path.write_text(f"{good}{'0' * 64}  {name}\n")
        assert found_in(ours) == {12}, name
    result_says(ours, 1, task="../../../secret")
    result_says(ours, 2, suite="../../../secret")
    assert found_in(seal(ours)) == {4}
    say(ours, name="../../../secret")
    system_says(ours, 3, name="../../../secret")
    assert found_in(seal(ours)) == {2, 4}


def test_edited_and_swapped_files_differ_from_the_manifest(ours):
    one, other = (ours / f"commongen/seed-{seed}.predictions.jsonl.gz" for seed in (1, 2))
    first = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(first)
    assert [number for number, _ in faults_of(ours)] == [12, 12]  # one cause, one error a file
    assert [number for number, _ in faults_of(seal(ours))] == [19, 19]


def test_a_gigabyte_in_a_megabyte_is_not_unpacked(ours):
    """The first is one line of a gigabyte."""
    for seed, part, megabytes in ((1, b"a", 1_000), (2, b"\n", 100), (3, b'{"id":"a","text":"b"}\n', 100)):
        bomb = gzip.compress(part * (1_000_000 // len(part))) * megabytes
        (ours / f"commongen/seed-{seed}.predictions.jsonl.gz").write_bytes(bomb)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert [number for number, _ in faults_of(seal(ours))] == [14, 14, 14]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_files_of_a_terabyte_are_not_read(ours):
    for name in (*FILES, "x"):
        with (ours / name).open("wb") as handle:
            handle.truncate(1_000_000_000_000)  # a hole: no disk is filled
    assert {*((14, name) for name in FILES), (1, "x")} <= set(faults_of(ours))


def test_archives_in_archives_are_unpacked_once(ours):
    for seed, layers in ((1, 2), (2, 10)):
        content = packed(texts_of(seed))
        for _ in range(layers):
            content = gzip.compress(content)
        (ours / f"commongen/seed-{seed}.predictions.jsonl.gz").write_bytes(content)
    assert [number for number, _ in faults_of(seal(ours))] == [7, 7]


def test_a_toml_key_of_many_parts_is_refused(ours):
    (ours / "submission.toml").write_text("name" + ".a" * 2_000 + " = 1\n")
    assert found_in(seal(ours)) == {2}


@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a":', "}")])
def test_deep_json_is_refused(ours, before, after):
    result, predictions = ours / RESULT, ours / PREDICTIONS
    good = result.read_text()
    for depth in (21, 145, 500, 1_270, 5_000, 11_270, 45_000 // len(before)):
        nested = before * depth + "1" + after * depth
        places = [json.dumps(json.loads(good) | {key: "HERE"}) for key in ("generation", "schema")]
        for text in (nested, *(place.replace('"HERE"', nested) for place in places)):
            assert refuses(result, text), depth
        predictions.write_bytes(gzip.compress(f'{{"id": "id-man", "text": {nested}}}\n'.encode()))
        with pytest.raises(DataError):
            read_predictions(predictions, DataError)
    assert found_in(seal(ours)) == {3, 7}


UNREAD = {".": 1, "commongen": 1, **FILES, "commongen/config.json": 70}


@pytest.mark.parametrize("name", UNREAD)
def test_what_may_not_be_read_is_told(ours, monkeypatch, name):
    configure(ours)
    seal(ours)

    def refusing(opening):
        def opened(path, *more):
            if Path(path) == ours / name:
                raise PermissionError(13, "Permission denied", str(path))
            return opening(path, *more)

        return opened

    for owner, opener in ((os, "scandir"), (Path, "read_bytes"), (gzip, "open")):
        monkeypatch.setattr(owner, opener, refusing(getattr(owner, opener)))
    assert UNREAD[name] in found_in(ours)
    told = [p.message for p in check(ours) if int(p.id[-3:]) == UNREAD[name] and Path(p.path) == ours / name]
    assert told == ["cannot be read: Permission denied."]


@pytest.mark.parametrize("content", [b"", b" \n"])
def test_an_empty_file_has_the_cure_of_its_kind(ours, content):
    configure(ours)
    names = list(UNREAD)[2:]
    for name in names:
        (ours / name).write_bytes(gzip.compress(content) if name == PREDICTIONS else content)
    expected = {(UNREAD[name], name) for name in names}
    assert expected <= set(faults_of(ours))


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("/tmp/grue-was-here",)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_pickles_are_not_loaded(ours, pack):
    for name in FILES:
        (ours / name).write_bytes(pack(pickle.dumps(Bomb(), 0)))
    assert {(number, name) for name, number in FILES.items()} <= set(faults_of(ours))
    assert not Path("/tmp/grue-was-here").exists()


def test_a_metric_that_names_code_is_not_imported(ours, monkeypatch):
    """A user's own metric is module:function; a submission that scores itself by one is refused unread."""
    for folder in (ours, ours.parents[2]):
        (folder / "grue_spy.py").write_text("raise SystemExit('the spy was imported')\n")
    monkeypatch.chdir(ours.parents[2])
    edit(ours, lambda data: data["scores"][0].update(metric="grue_spy:metric"))
    assert found_in(seal(ours)) == {1, 9}
    assert "grue_spy" not in sys.modules


def test_numbers_that_are_none(ours):
    path = ours / RESULT
    good = path.read_text()
    numbers = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 400, "9" * 5_000, '"1"', "null", "true"]
    for number in numbers:
        data = json.loads(good)
        data["scores"][0]["value"] = "HERE"
        assert refuses(path, json.dumps(data).replace('"HERE"', number)), number
        preference = json.dumps(json.loads(good) | {"preference": "HERE"})
        assert refuses(path, preference.replace('"HERE"', number)) == (number != "null"), number  # there may be none
        for field in ("system", "generation", "determinism") if number in ("NaN", "1e999", "9" * 5_000) else ():
            data = json.loads(good)
            data[field]["parameters"] = "HERE"
            assert refuses(path, json.dumps(data).replace('"HERE"', number)), (field, number)
    path.write_text(good.replace('"limited": false', '"limited": NaN'))
    assert found_in(seal(ours)) == {3}


TYPED = {
    **dict.fromkeys(("name", "algorithm", "backbone", "revision", "weights", "start", "reward", "config_sha256"), "x"),
    **{key: {} for key in ("training", "validation", "last", "frontier", "endpoint")},
    **{"parameters": 1, "update": 1, "reward_models": []},
}


def test_what_is_said_of_a_system_is_of_its_type(ours):
    """A list cannot be looked up, and one file that is read carelessly hides what is wrong with all others."""
    path = ours / RESULT
    good = json.loads(path.read_text())
    for key in TYPED:
        for value in ("x", 1, -1, True, 0.5, [], [1], {}, [[1]]):
            text = json.dumps(good | {"system": good["system"] | {key: value}})
            is_right = type(value) is type(TYPED[key]) and value not in (-1, [1], [[1]])
            assert refuses(path, text) != is_right, (key, value)
            if is_right:
                assert read_result(path).system[key] == value
    system_says(ours, weights=[[1]])
    assert found_in(seal(ours)) == {3}


def test_keys_and_examples_that_stand_twice(ours):
    rewrite(ours / RESULT, '"limited": false', '"limited": true, "limited": false')
    second, third = (ours / f"commongen/seed-{seed}.predictions.jsonl.gz" for seed in (2, 3))
    lines = gzip.decompress(second.read_bytes())
    second.write_bytes(gzip.compress(lines.replace(b'"text":', b'"text": "x", "text":', 1)))
    lines = gzip.decompress(third.read_bytes())
    third.write_bytes(gzip.compress(lines + lines.split(b"\n")[0] + b"\n"))
    with (ours / "submission.toml").open("a") as handle:
        handle.write('name = "theirs"\n')
    assert found_in(seal(ours)) == {2, 3, 7, 8}


@pytest.mark.parametrize("content", [b"\xff\xfe", b'"\xed\xa0\x80"', b'{"id": "\\ud800", "text": "x"}', b"\0" * 100])
def test_bytes_that_are_no_text(ours, content):
    (ours / RESULT).write_bytes(content)
    (ours / "commongen/seed-2.predictions.jsonl.gz").write_bytes(gzip.compress(content))
    (ours / "submission.toml").write_bytes(content)
    assert found_in(seal(ours)) == {2, 3, 7}


NAMES = (
    *("<script>alert(1)<∕script>", "a|b", "=cmd('calc')", r"\input{secret}", "a\u202ecod.exe", "orаcle", "a\nb"),
    *("a\x1b[2J", "%0A::error::x", os.fsdecode(b"\xff\xfe"), "--help", "${IFS}"),
)


def test_names_are_letters_and_digits(ours):
    for name in NAMES:
        os.rename(ours, ours.with_name(name))
        assert 1 in found_in(ours), name
        os.rename(ours.with_name(name), ours)
    for name in NAMES:
        shutil.copy(ours / RESULT, ours / name)
        (ours / "commongen" / name).mkdir()
    numbers = [number for number, _ in faults_of(ours)]
    assert (numbers.count(1), numbers.count(12)) == (2 * len(NAMES), len(NAMES))


def test_texts_may_hold_markup_which_is_the_renderers_to_escape(ours):
    for text in (name for name in NAMES if name.isprintable() and name.isascii()):
        say(ours, algorithm=text, budget=text, authors=[text])
        assert found_in(seal(ours)) == set(), text


def test_copied_predictions_are_told_on_both_sides(ours):
    write_good(ours.with_name("theirs"), how="Look, the {0} runs in a {1}!")
    for seed in SEEDS:
        hand_in(ours, seed, texts_of(seed, "Look, the {0} runs in a {1}!"))
    seal(ours)
    asked = {(p.id, Path(p.path).parts[-3]) for p in check(ours.parent) if "/beside" not in p.path}
    assert asked == {("GRUE-S018", "ours"), ("GRUE-S018", "theirs")}


def test_nothing_a_submission_says_switches_a_check_off(ours):
    for name in (".grueignore", "conftest.py", "pyproject.toml", "sitecustomize.py", ".env"):
        (ours / name).write_text("skip = true\nraise SystemExit\n")
    (ours / PREDICTIONS).write_bytes(packed(dict.fromkeys(texts_of(1), "x\u200b")))
    assert {1, 12, 46} <= found_in(ours)


def spoilt(content, chance):
    """Flip, cut, double or swap some bytes."""
    content = bytearray(content)
    strange = (b"[", b'"', b"{", b"\\ud800", b"\xff", b"\0", b"1e999", b"\n", b"null", b"=")
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
            content[at:at] = chance.choice(strange)
    return bytes(content)


def mutated(value, chance):
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


def mutated_file(name, content, chance):
    if name == PREDICTIONS:
        lines = mutated([json.loads(line) for line in gzip.decompress(content).splitlines()], chance)
        return gzip.compress("\n".join(map(json.dumps, lines if isinstance(lines, list) else [lines])).encode())
    return json.dumps(mutated(json.loads(content), chance)).encode()


def spoilt_file(name, content, chance):
    if name == PREDICTIONS and chance.random() < 0.5:  # what is unpacked, too
        return gzip.compress(spoilt(gzip.decompress(content), chance))
    return spoilt(content, chance)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A submission of one seed."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_few_examples(monkeypatch)
        system = tmp_path_factory.mktemp("template") / "mini/ours"
        say(system, seeds=[1])
        hand_in(system, 1, texts_of(1))
        yield seal(system)


FUZZ = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@FUZZ
@given(seed=st.integers(0, 2**32), name=st.sampled_from([*FILES]), spoil=st.sampled_from([spoilt_file, mutated_file]))
def test_spoilt_bytes_and_mutated_json_never_crash(template, seed, name, spoil):
    spoil = spoil if name in (RESULT, PREDICTIONS) else spoilt_file
    path = template / name
    good = path.read_bytes()
    try:
        path.write_bytes(spoil(name, good, random.Random(seed)))
        for problem in check(template):
            assert problem.severity == CHECKS[problem.id].severity
            assert (problem.path + problem.message).isprintable()
    finally:
        path.write_bytes(good)
