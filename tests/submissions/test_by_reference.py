"""Systems whose outputs are published elsewhere: made, checked, fetched from a server on this machine, and on the board."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.factories import LIKED, a_task, entries
from support.hub_server import Fault, Hub, small
from support.paths import ROOT

from grue import files, task_files
from grue.cli.main import main
from grue.errors import DataError, Unavailable
from grue.leaderboard.published import read_board
from grue.leaderboard.rank import rank
from grue.records import Entry
from grue.render import as_json
from grue.render.as_reported import reported_tables
from grue.submissions.by_reference import checks as referred_checks
from grue.submissions.by_reference import outputs
from grue.submissions.by_reference import system as by_reference
from grue.submissions.by_reference.checks import Fetching
from grue.submissions.by_reference.outputs import read_texts
from grue.submissions.by_reference.system import (
    PublishedFile,
    by_reference_files,
    contradictions,
    outdated,
    read_referred,
)
from grue.submissions.checks.check import check
from grue.submissions.checks.wording import is_web_address
from grue.task_files import load_task
from grue.tasks import Task

COMMITTED = ROOT / "submissions" / "grue"
REAL = Path(__file__).parents[3] / "shared" / "data"
SETS = [
    {"concept_set": "dog_N#run_V", "scene": ["A dog runs in the park.", "The dog runs."]},
    {"concept_set": "cat_N#sleep_V", "scene": ["A cat sleeps."]},
    {"concept_set": "run_V#dog_N", "scene": ["Dogs run."]},  # the first set again: its example has three references
]
LINES = b"A dog runs in the park.\nA dog runs in the park.\nThe cat sits.\nA dog runs in the park.\n"
WHO = ("--authors", "A. Author, B. Author", "--year", "2020", "--link", "https://example.org/paper", "--licence", "MIT")
HOW = ("--algorithm", "supervised", "--backbone", "a transformer")
FROM = ("--data-source", "the authors' page", "--data-revision", "1.0")


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    """CommonGen of the suite grue with four metrics; SPICE is one that this machine lacks."""
    monkeypatch.setenv("GRUE_SPICE_HOME", "/nowhere")
    whole: Task = small("commongen")
    made = replace(whole, metrics=tuple(s for s in whole.metrics if s.name in ("bleu3", "bleu4", "coverage", "spice")))
    for module in (by_reference, referred_checks, task_files):
        monkeypatch.setattr(module, "load_task", lambda name, suite="mini": made)
    return made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    files.write_jsonl(folder / "commongen.dev.jsonl", SETS)
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def grue(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def refer(url: str, data: Path, *more: str, content: bytes = LINES, name: str = "theirs") -> Result:
    """Make a row of a file that a server has under `url`."""
    Path("copy").write_bytes(content)
    where = ("--task", "commongen", "--url", url, "--sha256", sha256(content), "--data-dir", data, *FROM)
    return grue("submit", "refer", "copy", *where, "--each", "reference", "--name", name, *WHO, *HOW, *more)


@pytest.fixture
def made(task: Task, data: Path, home: Path, hub: Hub, waited: list[float], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A row by reference, whose outputs the local server has, which stands for one of the web."""

    def of_the_web(address: str) -> bool:
        return address.startswith(f"{hub.address}/") or is_web_address(address)

    monkeypatch.setattr(by_reference, "is_web_address", of_the_web)
    hub.plain["/outputs.txt"] = LINES
    done = refer(f"{hub.address}/outputs.txt", data)
    assert done.exit_code == 0, done.output
    return home / "submissions" / "grue" / "theirs.by-reference.toml"


def fetched(path: Path, data: Path | None) -> list[tuple[str, str]]:
    return [(problem.id, problem.message) for problem in check(path, fetching=Fetching(data))]


def edit(path: Path, *keys: str, value: Any) -> None:
    """Change a value of a TOML file; None removes it."""
    whole = files.read_toml(path)
    table = whole
    for key in keys[:-1]:
        table = table[key]
    if value is None:
        del table[keys[-1]]
    else:
        table[keys[-1]] = value
    files.write_toml(path, whole)


# --- making one ------------------------------------------------------------------------------------------------------


def test_a_row_holds_address_hash_data_and_figures(made: Path, task: Task, data: Path) -> None:
    said = files.read_toml(made)
    figures = said["tasks"]["commongen"].pop("figures")
    scored = said["tasks"]["commongen"].pop("data")
    outputs_of = said["tasks"]["commongen"].pop("outputs")
    assert (said["name"], said["authors"], said["year"]) == ("theirs", ["A. Author", "B. Author"], 2020)
    expected = {"version": task.version, "hash": task.hash, "split": "test", "not_computed": ["spice"], "note": ""}
    assert expected.items() <= said["tasks"]["commongen"].items()
    assert outputs_of["sha256"] == sha256(LINES)
    assert (outputs_of["form"], outputs_of["each"]) == ("text", "reference")
    assert (scored["source"], scored["revision"], scored["examples"]) == ("the authors' page", "1.0", 2)
    # By hand: of the concepts, dog and run are used, cat is, sleep is not; the texts have 7 and 4 tokens.
    assert figures["coverage"]["value"] == 0.75
    assert figures["mean_length"]["value"] == 5.5
    assert figures["coverage"]["n"] == 2
    # All words but "The" and "sits." are in a reference, 7 of 9; pairs are 5 of 7, triples 4 of 5.
    assert figures["bleu3"]["value"] == pytest.approx((7 / 9 * 5 / 7 * 4 / 5) ** (1 / 3))
    assert str(data) not in made.read_text()


def test_a_row_is_made_only_of_the_published_file_on_the_boards_data(
    task: Task, data: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://example.org/outputs.txt"
    Path("copy").write_bytes(LINES)
    start = ("submit", "refer", "copy", "--task", "commongen", "--url", url, "--name", "theirs")
    found = [
        (
            grue(*start, "--sha256", "0" * 64, "--data-dir", data, *FROM, *WHO, *HOW),
            1,
            "it is not the file that is pub",
        ),
        (grue(*start, "--sha256", sha256(LINES), "--data-dir", data, *WHO, *HOW), 2, "give it together with --data-so"),
        (refer(url, data, "--authors", ""), 2, "theirs.by-reference.toml: is new, and needs --authors."),
        (
            refer("ftp://example.org/a", data),
            2,
            "outputs.url: 'ftp://example.org/a' is not a plain address that begins",
        ),
        (refer(url, data, "--column", "2"), 2, "outputs.column: 2; a tsv has one, counted from 1, and no other form"),
        (refer(url, data, "--each", "example"), 1, "copy: the file has 4 texts, but the split has 2 examples."),
        (refer(url, data, content=LINES[:-1] + b"\nmore"), 1, "has 5 texts, but the split has 4 references."),
        (refer(url, data, content=LINES.replace(b"A dog", b"The dog", 1)), 1, "text 2 differs from an earlier one for"),
        (refer(url, home / "nowhere"), 3, "no such folder"),
    ]
    for done, code, said in found:
        assert done.exit_code == code, done.output
        assert said in done.stderr
    assert not Path("submissions").exists()
    monkeypatch.setattr(by_reference, "load_task", lambda name, suite: load_task(name, suite))
    monkeypatch.setattr(task_files, "load_task", lambda name, suite: load_task(name, suite))
    done = refer(url, data)
    assert (done.exit_code, "not the data of the board: data.examples: states 2" in done.stderr) == (3, True)


def test_a_row_is_replaced_only_if_asked_for(made: Path, data: Path) -> None:
    url, before = files.read_toml(made)["tasks"]["commongen"]["outputs"]["url"], made.read_bytes()
    done = refer(url, data)
    assert (done.exit_code, "has figures of commongen; give --force to replace them." in done.stderr) == (2, True)
    assert made.read_bytes() == before
    assert refer(url, data, "--force", "--year", "2021").exit_code == 0
    assert files.read_toml(made)["year"] == 2021


# --- reading what is published ---------------------------------------------------------------------------------------


def test_the_forms_of_a_published_file(tmp_path: Path) -> None:
    plain = PublishedFile("https://example.org", "")
    forms: list[tuple[PublishedFile, bytes, list[str]]] = [
        (plain, b"one\n\ntwo\n", ["one", "", "two"]),
        (plain, "\ufeffone\r\ntwo\u2028still\ttwo".encode(), ["one", "two\u2028still\ttwo"]),
        (replace(plain, form="tsv", column=2), b"1\tone\n2\ttwo\tmore\n", ["one", "two"]),
        (replace(plain, form="jsonl", field="text"), b'{"text": "a\\nb"}\n\n{"text": "", "id": 1}\n', ["a\nb", ""]),
        (replace(plain, gzip=True), gzip.compress(b"one\n") + gzip.compress(b"two\n"), ["one", "two"]),
        (replace(plain, form="jsonl", field="text", gzip=True), gzip.compress(b'{"text": "a"}\n'), ["a"]),
    ]
    for form, content, texts in forms:
        (tmp_path / "copy").write_bytes(content)
        assert read_texts(tmp_path / "copy", form) == texts


def test_a_published_file_that_cannot_be_read_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MOST_BYTES", 100_000)
    monkeypatch.setattr(outputs, "MOST_CHARACTERS", 50)
    plain = PublishedFile("https://example.org", "")
    packed, table = replace(plain, gzip=True), replace(plain, form="tsv", column=2)
    lines = replace(plain, form="jsonl", field="text")
    deep = b'{"text": ' + b"[" * 100_000
    faults = [
        (plain, b"one\n\xff\n", "line 2 is not UTF-8."),
        (plain, b"x" * 51, "line 1 has 51 characters, more than 50."),
        (plain, b"x\n" * 60_000, "the file has more than 100,000 bytes."),
        (packed, gzip.compress(bytes(10_000_000)), "the file unpacks to more than 100,000 bytes."),
        (packed, b"no gzip", "the file cannot be read: Not a gzipped file (b'no')."),
        (
            packed,
            gzip.compress(b"one\n" * 999)[:-9],
            "the file cannot be read: Compressed file ended before the end-of",
        ),
        (table, b"1\tone\n2\n", "line 2 has 1 columns; the texts are in column 2."),
        (lines, b'{"text": "a"}\n{"txt": "b"}\n', "line 2 has no text of at most 50 characters as 'text'."),
        (lines, b'{"text": 1}\n', "line 1 has no text of"),
        (lines, b'{"text": "%s"}\n' % (b"x" * 51), "line 1 has no text of"),
        (lines, b"one\n", "line 1"),
        (lines, deep[:90_000], "line 1"),
    ]
    for form, content, said in faults:
        (tmp_path / "copy").write_bytes(content)
        with pytest.raises(DataError) as refusal:
            read_texts(tmp_path / "copy", form)
        assert str(refusal.value).startswith(said)


# --- checks ----------------------------------------------------------------------------------------------------------


def test_figures_that_follow_pass_and_are_named_where_they_were_not_computed(made: Path, data: Path) -> None:
    assert fetched(made, data) == []
    for path in (made, made.parent, made.parent.parent):
        ((identity, message),) = [(problem.id, problem.message) for problem in check(path)]
        assert (identity, message) == ("GRUE-S079", "has figures of published outputs: 12 of commongen.")
    done = grue("submit", "check", made, "--fetch", "--data-dir", data)
    assert (done.exit_code, done.stdout) == (0, f"{made}: fine\n\n1 submission checked: fine.\n")


def test_a_figure_that_does_not_follow_is_found(made: Path, data: Path) -> None:
    before, of_task = made.read_bytes(), ("tasks", "commongen")
    for keys, value, said in (
        (("figures", "coverage", "value"), 0.75001, "figures.coverage: states 0.75001; computed: 0.75."),
        (("figures", "mean_length", "value"), 5.6, "figures.mean_length: states 5.6; computed: 5.5."),
        (("figures", "bleu4", "n"), 1, "figures.bleu4: n: states 1; computed: 2."),
        (("figures", "bleu4", "signature"), "bleu4|sharp", "figures.bleu4: signature: states 'bleu4|sharp'; comp"),
        (("data", "references_sha256"), "0" * 64, "data.references_sha256: states '0000"),
        (("data", "ids_sha256"), "0" * 64, "data.ids_sha256: states '0000"),
    ):
        edit(made, *of_task, *keys, value=value)
        ((identity, message),) = fetched(made, data)
        assert (identity, message.startswith(f"tasks.commongen.{said}")) == ("GRUE-S078", True), message
        made.write_bytes(before)
    edit(made, *of_task, "figures", "coverage", "value", value=0.75 + 1e-8)
    assert fetched(made, data) == []


def test_figures_on_other_references_are_found(made: Path, data: Path) -> None:
    """The ids are of the concepts alone: other references have other figures, but the same ids."""
    files.write_jsonl(data / "commongen.dev.jsonl", [*SETS[:2], SETS[2] | {"scene": ["A cat runs in the park."]}])
    found = fetched(made, data)
    assert {identity for identity, _ in found} == {"GRUE-S078"}
    assert any("references_sha256" in message for _, message in found)


def test_a_server_with_another_file(made: Path, data: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(content: bytes | None, *faults: Fault) -> list[tuple[str, str]]:
        hub.plain["/outputs.txt"] = content
        hub.faults = list(faults)
        if content is None:
            del hub.plain["/outputs.txt"]
        return fetched(made, data)

    for content, faults, said in (
        (None, [], "the server answered 404 Not Found."),
        (LINES.replace(b"park", b"bark"), [], f"the file states {sha256(LINES)}."),
        (LINES, [Fault("outputs", truncate=5)], f"the file states {sha256(LINES)}."),
        (LINES, [Fault("outputs", damage=True)], f"the file states {sha256(LINES)}."),
        (LINES * 200_000, [], "at most allowed are 10,000,000. It has changed, or is not the one asked for."),
        (LINES, [Fault("outputs", status=302, headers={"Location": "http://["})], "is malformed"),
    ):
        ((identity, message),) = serve(content, *faults)
        assert (identity, said in message) == ("GRUE-S077", True), message
    assert serve(LINES, Fault("outputs", keep=0.5)) == [], "an interrupted download is resumed"
    bomb = gzip.compress(bytes(20_000_000))
    edit(made, "tasks", "commongen", "outputs", "gzip", value=True)
    edit(made, "tasks", "commongen", "outputs", "sha256", value=sha256(bomb))
    ((identity, message),) = serve(bomb)
    assert (identity, message) == ("GRUE-S077", "tasks.commongen: the file unpacks to more than 10,000,000 bytes.")


def test_what_is_not_to_be_had_is_named_and_nothing_else_is_hidden(
    made: Path, data: Path, hub: Hub, tmp_path: Path
) -> None:
    hub.faults = [Fault("outputs", status=503, times=99)]
    with pytest.raises(Unavailable, match=r"(?s)could not check everything:\ngrue/commongen: .*cannot be downloaded"):
        fetched(made, data)
    hub.faults = []
    with pytest.raises(Unavailable, match=r"(?s)could not check everything:\ngrue/commongen: .*no such folder"):
        fetched(made, tmp_path / "nowhere")
    content = hub.plain.pop("/outputs.txt")
    assert [identity for identity, _ in fetched(made, tmp_path / "nowhere")] == ["GRUE-S039", "GRUE-S077"]
    hub.plain["/outputs.txt"], before = content, len(hub.requests)
    done = grue("submit", "check", made, "--fetch", "--data-dir", data, "--offline")
    assert (done.exit_code, "no connection is allowed (--offline" in done.stderr) == (3, True)
    assert len(hub.requests) == before


def test_a_metric_that_this_machine_lacks_is_named(made: Path, data: Path) -> None:
    edit(made, "tasks", "commongen", "not_computed", value=[])
    edit(made, "tasks", "commongen", "figures", "spice", value={"value": 0.3, "n": 2, "signature": "spice"})
    with pytest.raises(Unavailable, match="grue/commongen: spice: spice cannot run here"):
        fetched(made, data)


def test_what_a_file_cannot_say(made: Path, task: Task) -> None:
    before = made.read_bytes()
    here = ("tasks", "commongen")
    figure = {"value": 0.5, "n": 2, "signature": "x"}
    spoiled: list[tuple[tuple[str, ...], Any, str, str]] = [
        (("seeds",), [1, 2, 3, 4, 5], "GRUE-S075", "unknown key 'seeds'"),
        (("status",), "rescored", "GRUE-S075", "unknown key 'status'"),
        (("name",), "other", "GRUE-S076", "name: 'other', but the file is called"),
        (("name",), None, "GRUE-S075", "missing"),
        (("year",), 20, "GRUE-S076", "year: 20 is no year."),
        (("link",), "javascript:alert(1)", "GRUE-S076", "link: 'javascript:alert(1)' is not a plain address"),
        (("authors",), [], "GRUE-S025", "authors: has no letter or digit."),
        (("licence",), "\u202eevil", "GRUE-S022", "licence: has U+202E."),
        (("backbone",), "x" * 1001, "GRUE-S026", "backbone: has 1,001 characters"),
        (("tasks",), {}, "GRUE-S076", "tasks: has figures of no task."),
        ((*here, "note"), "\x1b[2J", "GRUE-S022", "data.note: has U+001B."),
        ((*here, "split"), "validation", "GRUE-S076", "split: states 'validation'; the task's is 'test'."),
        ((*here, "version"), 1, "GRUE-S076", "version: states 1; the task's is"),
        ((*here, "hash"), "0" * 64, "GRUE-S076", "hash: states '0000"),
        ((*here, "outputs", "url"), "file:///etc/passwd", "GRUE-S076", "outputs.url: 'file:///etc/passwd' is not"),
        ((*here, "outputs", "url"), "https://me:secret@example.org/a", "GRUE-S076", "outputs.url"),
        ((*here, "outputs", "url"), "https://example.org/a b", "GRUE-S076", "outputs.url"),
        ((*here, "outputs", "url"), "http://169.254.169.254/latest/meta-data", "GRUE-S076", "outputs.url"),
        ((*here, "outputs", "url"), "http://localhost/a", "GRUE-S076", "outputs.url"),
        ((*here, "outputs", "url"), "https://example.org:8080/a", "GRUE-S076", "outputs.url"),
        ((*here, "outputs", "url"), "https://ex\u0430mple.org/a", "GRUE-S076", "outputs.url"),
        ((*here, "outputs", "sha256"), "0" * 63, "GRUE-S076", "outputs.sha256: is not a sha256"),
        ((*here, "outputs", "form"), "pickle", "GRUE-S075", "pickle"),
        ((*here, "outputs", "form"), "tsv", "GRUE-S076", "outputs.column: 0; a tsv has one"),
        ((*here, "outputs", "field"), "text", "GRUE-S076", "outputs.field: 'text'; a jsonl has one"),
        ((*here, "data", "ids_sha256"), "none", "GRUE-S076", "data.ids_sha256: is not a sha256"),
        ((*here, "figures", "bleu4", "value"), 1.5, "GRUE-S076", "figures.bleu4: value: 1.5 is not within 0–1."),
        ((*here, "figures", "bleu4", "value"), float("nan"), "GRUE-S075", "bleu4: value: expected a finite number"),
        ((*here, "figures", "bleu4", "n"), 3, "GRUE-S076", "figures.bleu4: n: 3 of 2 examples."),
        ((*here, "figures", "bleu4"), None, "GRUE-S076", "bleu4 must have a figure or be listed in not_computed"),
        ((*here, "figures", "bleu5"), figure, "GRUE-S076", "'bleu5' is no metric of the task. Did you mean 'bleu"),
        ((*here, "not_computed"), ["spice", "bleu4"], "GRUE-S076", "bleu4 must have a figure or be listed in not_co"),
    ]
    for keys, value, identity, said in spoiled:
        edit(made, *keys, value=value)
        found = [(problem.id, problem.message) for problem in check(made)]
        assert any(one == identity and said in message for one, message in found), (keys, found)
        assert {one for one, _ in found} == {identity}, "figures are not looked at in a file that contradicts itself"
        assert grue("submit", "check", made).exit_code == 1
        made.write_bytes(before)
    for content in (b"x = [", b"\xff", b"a = " + b"[" * 500 + b"]" * 500, b""):
        made.write_bytes(content)
        assert [problem.id for problem in check(made)] == ["GRUE-S075"]
    made.write_bytes(b"# " + b"x" * 100_000)
    assert [problem.id for problem in check(made)] == ["GRUE-S014"]


def test_a_link_a_folder_and_a_wrong_place(made: Path, home: Path) -> None:
    made.rename(home / "real.toml")
    made.symlink_to(home / "real.toml")
    assert [problem.id for problem in check(made.parent)] == ["GRUE-S013"]
    made.unlink()
    made.mkdir()
    assert "GRUE-S075" in [problem.id for problem in check(made.parent)]
    made.rmdir()
    elsewhere = made.parent.parent / "elsewhere" / made.name
    elsewhere.parent.mkdir()
    (home / "real.toml").rename(elsewhere)
    assert [(problem.id, "'elsewhere' is not a suite" in problem.message) for problem in check(elsewhere)] == [
        ("GRUE-S076", True)
    ]


def test_a_name_that_is_anothers(made: Path) -> None:
    (made.parent / "theirs").mkdir()
    said = "has the name of theirs.by-reference.toml; choose another, or have a maintainer remove that row."
    for checked in (made, made.parent, made.parent / "theirs"):
        told = [problem for problem in check(checked) if problem.id == "GRUE-S076"]
        assert [(problem.path, problem.message) for problem in told] == [(str(made.parent / "theirs"), said)]
    (made.parent / "theirs").rmdir()
    shutil.copy(made, made.with_name("the1rs.by-reference.toml"))
    edit(made.with_name("the1rs.by-reference.toml"), "name", value="the1rs")
    assert [(problem.id, problem.message) for problem in check(made)] == [
        ("GRUE-S023", "looks like 'the1rs', which is another system.")
    ]
    made.with_name("the1rs.by-reference.toml").unlink()
    (made.parent / "Theirs").mkdir()
    assert [problem.id for problem in check(made)] == ["GRUE-S023"]
    told = [problem for problem in check(made.parent / "Theirs") if problem.id == "GRUE-S023"]
    assert [problem.message for problem in told] == ["looks like 'theirs', which is another system."]


def test_options_that_contradict_each_other(made: Path, data: Path, task: Task) -> None:
    done = grue("submit", "check", made, "--data-dir", data)
    assert (done.exit_code, "add --fetch" in done.stderr) == (2, True)
    done = grue("submit", "check", made, "--fetch", "--against", "main")
    assert (done.exit_code, "--against compares with submitted predictions" in done.stderr) == (2, True)
    done = grue("submit", "check", made.parent / "nothing.by-reference.toml")
    assert (done.exit_code, "there is no such folder of submissions" in done.stderr) == (3, True)
    edit(made, "tasks", value={})
    done = grue("submit", "check", made, "--fetch", "--data-dir", data)
    assert (done.exit_code, "is for the data of one task, and there are 0 by reference" in done.stderr) == (2, True)


# --- the board -------------------------------------------------------------------------------------------------------

STORIES, JOKES = a_task("stories"), a_task("jokes", metrics=(LIKED,))
Change = Callable[[Entry], Entry]


def of_system(name: str, centre: float, status: Any) -> list[Entry]:
    scores = {seed: centre + seed / 10 for seed in range(1, 6)}
    found = entries(STORIES, name, scores, status="rescored")
    found += entries(JOKES, name, scores, status="rescored", naturalness=None)
    data = {"source": "a page", "source_split": "dev", "examples": 9, "outputs": "https://x.org", "outputs_sha256": "0"}
    if status == "recomputed":
        found = [
            replace(e, result=replace(e.result, data=data, system=e.result.system | {"year": 2020})) for e in found
        ]
    return [replace(entry, status=status) for entry in found]


def test_a_row_by_reference_is_never_ranked_and_changes_no_rank(tmp_path: Path) -> None:
    """Not even one that claims five seeds of every task, and the highest scores."""
    ours = of_system("good", 50.0, "rescored") + of_system("bad", 20.0, "rescored")
    before = {row.system: row for row in rank(ours, [STORIES, JOKES]).rows}
    board = rank([*ours, *of_system("theirs", 90.0, "recomputed")], [STORIES, JOKES])
    rows = {row.system: row for row in board.rows}
    theirs = rows.pop("theirs")
    assert rows == before
    assert [row.system for row in board.rows] == ["good", "bad", "theirs"], "below what is ranked"
    assert (theirs.status, theirs.standing, theirs.rank, dict(theirs.task_ranks)) == ("recomputed", "partial", None, {})
    assert (theirs.preference, theirs.interval, theirs.naturalness, theirs.learned, theirs.iqm) == (None,) * 5
    (tmp_path / "board.json").write_text(as_json.render(board))
    again = rank(ours, [STORIES, JOKES], shipped=read_board(tmp_path / "board.json"))
    (theirs,) = [row for row in again.rows if row.system == "theirs"]
    assert (theirs.standing, theirs.rank, dict(theirs.task_ranks), theirs.preference) == ("partial", None, {}, None)
    alone = rank(of_system("theirs", 90.0, "recomputed"), [JOKES])
    assert [(row.standing, row.rank, dict(row.task_ranks)) for row in alone.rows] == [("partial", None, {})]
    beside = rank([*ours, *of_system("good", 90.0, "recomputed")], [STORIES, JOKES])
    assert [(row.system, row.status) for row in beside.rows][-1] == ("good", "recomputed"), "a row of its own"


def board(form: str = "markdown") -> Result:
    """The board of CommonGen, of the submissions here alone."""
    place = ["--submissions", "submissions", "--suite", "grue", "--task", "commongen", "--no-local"]
    return grue("leaderboard", *place, "--format", form)


def test_a_row_by_reference_says_what_it_was_computed_from_in_every_format(made: Path, task: Task) -> None:
    done = board("json")
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["system"], row["status"], row["standing"], row["rank"]) == ("theirs", "recomputed", "partial", None)
    assert row["cells"]["commongen"]["metrics"]["coverage"]["mean"] == 0.75
    assert row["cells"]["commongen"]["naturalness"] is None
    (note,) = json.loads(done.stdout)["notes"]
    assert note.startswith("commongen: theirs (2020) was computed by grue ")
    for part in (
        f"(sha256 {sha256(LINES)[:12]}…)",
        "on 2 examples of the split 'test' ('validation' at the source, the a",
    ):
        assert part in note
    assert note.endswith("not computed: spice; one output for each example, so it has no rank.")
    for form in ("markdown", "csv", "latex", "html"):
        done = board(form)
        assert done.exit_code == 0, done.output
        assert all(said in done.stdout for said in ("theirs", "recomputed", "75")), form


def test_what_a_row_by_reference_says_is_escaped(made: Path, task: Task) -> None:
    edit(made, "tasks", "commongen", "data", "source", value="<script>alert(1)</script>\x1b[2J")
    done = board("html")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in done.stdout
    for form in ("html", "markdown", "json", "csv", "latex"):
        done = board(form)
        assert "\x1b" not in done.stdout
    assert [problem.id for problem in check(made)] == ["GRUE-S022"]


def test_a_row_without_a_metric_of_preference_has_no_preference(made: Path, task: Task) -> None:
    edit(made, "tasks", "commongen", "figures", "coverage", value=None)
    edit(made, "tasks", "commongen", "not_computed", value=["coverage", "spice"])
    done = board("json")
    (row,) = json.loads(done.stdout)["rows"]
    assert row["cells"]["commongen"]["preference"] is None


def test_a_row_of_another_version_of_the_task_is_left_out(made: Path, task: Task) -> None:
    edit(made, "tasks", "commongen", "hash", value="0" * 64)
    done = board("json")
    assert json.loads(done.stdout)["rows"] == []
    assert "theirs (seed 0) left out, made for another version of the task" in done.stdout


def test_a_file_that_contradicts_itself_is_on_no_board(made: Path, task: Task) -> None:
    edit(made, "tasks", "commongen", "figures", "bleu4", "value", value=2.0)
    done = board()
    assert (done.exit_code, "figures.bleu4: value: 2 is not within 0–1." in done.stderr) == (3, True)


def test_a_row_by_reference_is_not_compared(made: Path) -> None:
    done = grue("compare", "theirs", "ours", "--suite", "grue")
    assert (done.exit_code, "theirs: its texts are published elsewhere, and only its figures" in done.stderr) == (
        3,
        True,
    )


# --- the rows of the repository --------------------------------------------------------------------------------------


def test_the_rows_of_the_repository_are_sound_and_current() -> None:
    found = {path.name: read_referred(path) for path in by_reference_files(COMMITTED)}
    assert set(found) >= {f"bergamot-base-memory-{commit}.by-reference.toml" for commit in ("ef690b3", "ce0a251")}
    for name, referred in found.items():
        assert list(contradictions(COMMITTED / name, referred, "grue")) == []
        for task_name, of_task in referred.tasks.items():
            assert list(outdated(of_task, load_task(task_name, "grue"))) == []
            assert len(of_task.outputs.url.split("/")[5]) == 40, "the address names a commit, whose file cannot change"


def test_the_rows_of_the_repository_have_the_published_bleu() -> None:
    """As the .bleu files beside the outputs state it, from sacrebleu."""
    for commit, published in (("ef690b3", 39.3), ("ce0a251", 39.4)):
        referred = read_referred(COMMITTED / f"bergamot-base-memory-{commit}.by-reference.toml")
        assert round(referred.tasks["wmt16"].figures["sacrebleu"].value, 1) == published


def test_the_rows_of_the_repository_stand_above_the_papers_tables() -> None:
    text = (ROOT / "leaderboard" / "grue.md").read_text(encoding="utf-8")
    assert 0 < text.index("| unilm") < text.index("### commongen, as reported in Table 12")
    board = read_board(ROOT / "leaderboard" / "grue.json")
    assert {row.status for row in board.rows} == {"recomputed"}
    assert len(reported_tables(board)) == 7
    ours = replace(board.rows[0], status="rescored")
    assert reported_tables(replace(board, rows=(ours, *board.rows))) == ()


COPIES = {
    "unilm": "commongen/system_outputs/UniLM.dev.txt",
    **{
        f"bergamot-base-memory-{commit}": f"wmt16/system_outputs/newstest2016.bergamot-base-memory.{commit}.de"
        for commit in ("ef690b3", "ce0a251")
    },
}


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason=f"the slices of real data are not here: no folder {REAL}")
@pytest.mark.parametrize("name", COPIES)
def test_the_rows_of_the_repository_are_recomputed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(file: PublishedFile, folder: Path, offline: bool) -> Path:
        return Path(shutil.copy(REAL / COPIES[name], folder / "outputs"))

    monkeypatch.setattr(referred_checks, "fetch", copied)
    path = COMMITTED / f"{name}.by-reference.toml"
    assert check(path, fetching=Fetching(REAL / COPIES[name].split("/")[0])) == []
