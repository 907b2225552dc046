"""Systems whose outputs are published elsewhere: made, checked, fetched from a server on this machine, and on the board."""

import gzip
import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.factories import LIKED, a_task, entries
from support.late import late
from support.paths import ROOT

from grue import files, task_files
from grue.api import examples, score
from grue.cli.main import main
from grue.errors import DataError, Unavailable
from grue.leaderboard.published import read_board
from grue.leaderboard.rank import rank
from grue.render import as_json, publish
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

hub_server = late("support.hub_server")
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
URL = "https://example.org/outputs.txt"
HERE = ("tasks", "commongen")


@pytest.fixture
def task(monkeypatch):
    """CommonGen of the suite grue with four metrics; SPICE is one that this machine lacks."""
    monkeypatch.setenv("GRUE_SPICE_HOME", "/nowhere")
    whole = hub_server.small("commongen")
    made = replace(whole, metrics=tuple(s for s in whole.metrics if s.name in ("bleu3", "bleu4", "coverage", "spice")))
    for module in (by_reference, referred_checks, task_files, score, examples, publish):
        monkeypatch.setattr(module, "load_task", lambda name, suite="mini": made)
    return made


@pytest.fixture
def data(tmp_path):
    files.write_jsonl(tmp_path / "data/commongen.dev.jsonl", SETS)
    return tmp_path / "data"


@pytest.fixture
def home(task, tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def grue(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def refer(url, data, *more, content=LINES):
    """Return the command that makes a row of a file that a server has under `url`."""
    Path("copy").write_bytes(content)
    where = ("--task", "commongen", "--url", url, "--sha256", sha256(content), "--data-dir", data, *FROM)
    return ("submit", "refer", "copy", *where, "--each", "reference", "--name", "theirs", *WHO, *HOW, *more)


@pytest.fixture
def made(home, data):
    """A row by reference."""
    done = grue(*refer(URL, data))
    assert done.exit_code == 0, done.output
    return home / "submissions/grue/theirs.by-reference.toml"


@pytest.fixture
def served(made, hub, waited, monkeypatch):
    """The same, where a server of this machine stands for one of the web."""
    address = f"{hub.address}/"
    monkeypatch.setattr(by_reference, "is_web_address", lambda link: link.startswith(address) or is_web_address(link))
    hub.plain["/outputs.txt"] = LINES
    edit(made, *HERE, "outputs", "url", value=f"{address}outputs.txt")
    return made


def fetched(path, data):
    return [(int(problem.id[-3:]), problem.message) for problem in check(path, fetching=Fetching(data))]


def numbers(path):
    return [int(problem.id[-3:]) for problem in check(path)]


def edit(path, *keys, value):
    """Change a value of a TOML file; None removes it."""
    whole = table = files.read_toml(path)
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value
    if value is None:
        del table[keys[-1]]
    files.write_toml(path, whole)


def test_a_row_holds_address_hash_data_and_figures(made, task, data, refused):
    said = files.read_toml(made)
    of_task = said["tasks"]["commongen"]
    figures, scored, published = of_task.pop("figures"), of_task.pop("data"), of_task.pop("outputs")
    assert (said["name"], said["authors"], said["year"]) == ("theirs", ["A. Author", "B. Author"], 2020)
    expected = {"version": task.version, "hash": task.hash, "split": "test", "not_computed": ["spice"], "note": ""}
    assert expected.items() <= of_task.items()
    assert (published["sha256"], published["form"], published["each"]) == (sha256(LINES), "text", "reference")
    assert (scored["source"], scored["revision"], scored["examples"]) == ("the authors' page", "1.0", 2)
    # By hand: of the concepts, dog and run are used, cat is, sleep is not; the texts have 7 and 4 tokens.
    assert (figures["coverage"]["value"], figures["mean_length"]["value"], figures["coverage"]["n"]) == (0.75, 5.5, 2)
    # All words but "The" and "sits." are in a reference, 7 of 9; pairs are 5 of 7, triples 4 of 5.
    assert figures["bleu3"]["value"] == pytest.approx((7 / 9 * 5 / 7 * 4 / 5) ** (1 / 3))
    assert str(data) not in made.read_text()
    before = made.read_bytes()
    refused.command(*refer(URL, data), code=2)
    assert made.read_bytes() == before
    assert grue(*refer(URL, data, "--force", "--year", "2021")).exit_code == 0
    assert files.read_toml(made)["year"] == 2021


def test_a_row_is_made_only_of_the_published_file_on_the_boards_data(data, home, monkeypatch, refused):
    Path("copy").write_bytes(LINES)
    start = ("submit", "refer", "copy", "--task", "commongen", "--url", URL, "--name", "theirs", *WHO, *HOW)
    refused.command(*start, "--sha256", "0" * 64, "--data-dir", data, *FROM, code=1)
    refused.command(*start, "--sha256", sha256(LINES), "--data-dir", data, code=2)
    refused.command(*refer(URL, data, "--authors", ""), code=2)
    refused.command(*refer("ftp://example.org/a", data), code=2)
    refused.command(*refer(URL, data, "--column", "2"), code=2)
    refused.command(*refer(URL, data, "--each", "example"), code=1)
    refused.command(*refer(URL, data, content=LINES[:-1] + b"\nmore"), code=1)
    refused.command(*refer(URL, data, content=LINES.replace(b"A dog", b"The dog", 1)), code=1)
    refused.command(*refer(URL, home / "nowhere"), code=3)
    assert not Path("submissions").exists()
    for module in (by_reference, task_files):
        monkeypatch.setattr(module, "load_task", load_task)
    done = grue(*refer(URL, data))
    assert (done.exit_code, "not the data of the board: data.examples: states 2" in done.stderr) == (3, True)


PLAIN = PublishedFile("https://example.org", "")
PACKED, TABLE = replace(PLAIN, gzip=True), replace(PLAIN, form="tsv", column=2)
JSON_LINES = replace(PLAIN, form="jsonl", field="text")


@pytest.mark.parametrize(
    ("form", "content", "texts"),
    [
        (PLAIN, b"one\n\ntwo\n", ["one", "", "two"]),
        (PLAIN, "\ufeffone\r\ntwo\u2028still\ttwo".encode(), ["one", "two\u2028still\ttwo"]),
        (TABLE, b"1\tone\n2\ttwo\tmore\n", ["one", "two"]),
        (JSON_LINES, b'{"text": "a\\nb"}\n\n{"text": "", "id": 1}\n', ["a\nb", ""]),
        (PACKED, gzip.compress(b"one\n") + gzip.compress(b"two\n"), ["one", "two"]),
        (replace(JSON_LINES, gzip=True), gzip.compress(b'{"text": "a"}\n'), ["a"]),
    ],
)
def test_the_forms_of_a_published_file(tmp_path, form, content, texts):
    (tmp_path / "copy").write_bytes(content)
    assert read_texts(tmp_path / "copy", form) == texts


def test_a_published_file_that_cannot_be_read_says_where(tmp_path, monkeypatch, refused):
    monkeypatch.setattr(outputs, "MOST_BYTES", 100_000)
    monkeypatch.setattr(outputs, "MOST_CHARACTERS", 50)
    for form, content in (
        (PLAIN, b"one\n\xff\n"),
        (PLAIN, b"x" * 51),
        (PLAIN, b"x\n" * 60_000),
        (PACKED, gzip.compress(bytes(10_000_000), 1)),
        (PACKED, b"no gzip"),
        (PACKED, gzip.compress(b"one\n" * 999)[:-9]),
        (TABLE, b"1\tone\n2\n"),
        (JSON_LINES, b'{"text": "a"}\n{"txt": "b"}\n'),
        (JSON_LINES, b'{"text": 1}\n'),
        (JSON_LINES, b'{"text": "%s"}\n' % (b"x" * 51)),
    ):
        (tmp_path / "copy").write_bytes(content)
        with refused(DataError):
            read_texts(tmp_path / "copy", form)
    for content in (b"one\n", b'{"text": ' + b"[" * 90_000):  # in Python's words
        (tmp_path / "copy").write_bytes(content)
        with pytest.raises(DataError, match="^line 1"):
            read_texts(tmp_path / "copy", JSON_LINES)


def test_figures_that_follow_pass_and_are_named_where_they_were_not_computed(served, data):
    for path in (served, served.parent, served.parent.parent):
        ((identity, message),) = [(problem.id, problem.message) for problem in check(path)]
        assert (identity, message) == ("GRUE-S079", "has figures of published outputs: 12 of commongen.")
    done = grue("submit", "check", served, "--fetch", "--data-dir", data)
    assert (done.exit_code, done.stdout) == (0, f"{served}: fine\n\n1 submission checked: fine.\n")


def test_a_figure_that_does_not_follow_is_found(served, data, refused):
    """GRUE-S078; the ids are of the concepts alone: other references have other figures, but the same ids."""
    before = served.read_bytes()
    for keys, value in (
        (("figures", "coverage", "value"), 0.75001),
        (("figures", "mean_length", "value"), 5.6),
        (("figures", "bleu4", "n"), 1),
        (("figures", "bleu4", "signature"), "bleu4|sharp"),
        (("data", "references_sha256"), "0" * 64),
        (("data", "ids_sha256"), "0" * 64),
    ):
        edit(served, *HERE, *keys, value=value)
        ((number, message),) = fetched(served, data)
        assert number == 78
        refused.message(message)
        served.write_bytes(before)
    edit(served, *HERE, "figures", "coverage", "value", value=0.75 + 1e-8)
    assert fetched(served, data) == []
    files.write_jsonl(data / "commongen.dev.jsonl", [*SETS[:2], SETS[2] | {"scene": ["A cat runs in the park."]}])
    found = fetched(served, data)
    assert {number for number, _ in found} == {78}
    assert any("references_sha256" in message for _, message in found)


def test_a_server_with_another_file(served, data, hub, refused):
    """GRUE-S077."""
    fault = hub_server.Fault

    def serve(content, *faults):
        hub.plain.clear()
        hub.plain |= {} if content is None else {"/outputs.txt": content}
        hub.faults = list(faults)
        return fetched(served, data)

    for content, *faults in (
        (None,),
        (LINES.replace(b"park", b"bark"),),
        (LINES, fault("outputs", truncate=5)),
        (LINES, fault("outputs", damage=True)),
        (LINES * 200_000,),
    ):
        ((number, message),) = serve(content, *faults)
        assert number == 77
        refused.message(message.replace(hub.address, "<server>"))
    assert serve(LINES, fault("outputs", keep=0.5)) == [], "an interrupted download is resumed"
    bomb = gzip.compress(bytes(20_000_000), 1)
    edit(served, *HERE, "outputs", "gzip", value=True)
    edit(served, *HERE, "outputs", "sha256", value=sha256(bomb))
    assert serve(bomb) == [(77, "tasks.commongen: the file unpacks to more than 10,000,000 bytes.")]


def test_what_is_not_to_be_had_is_named_and_nothing_else_is_hidden(served, data, hub, tmp_path):
    hub.faults = [hub_server.Fault("outputs", status=503, times=99)]
    with pytest.raises(Unavailable, match=r"(?s)could not check everything:\ngrue/commongen: .*cannot be downloaded"):
        fetched(served, data)
    hub.faults = []
    with pytest.raises(Unavailable, match=r"(?s)could not check everything:\ngrue/commongen: .*no such folder"):
        fetched(served, tmp_path / "nowhere")
    before = served.read_bytes()
    edit(served, *HERE, "not_computed", value=[])
    edit(served, *HERE, "figures", "spice", value={"value": 0.3, "n": 2, "signature": "spice"})
    with pytest.raises(Unavailable, match="grue/commongen: spice: spice cannot run here"):
        fetched(served, data)
    served.write_bytes(before)
    content = hub.plain.pop("/outputs.txt")
    assert [number for number, _ in fetched(served, tmp_path / "nowhere")] == [39, 77]
    hub.plain["/outputs.txt"], before = content, len(hub.requests)
    done = grue("submit", "check", served, "--fetch", "--data-dir", data, "--offline")
    assert (done.exit_code, "no connection is allowed (--offline" in done.stderr) == (3, True)
    assert len(hub.requests) == before


def of_task(*keys):
    return (*HERE, *keys)


FIGURE = {"value": 0.5, "n": 2, "signature": "x"}
ADDRESSES = (
    *("file:///etc/passwd", "https://me:secret@example.org/a", "https://example.org/a b", "http://localhost/a"),
    *("http://169.254.169.254/latest/meta-data", "https://example.org:8080/a", "https://ex\u0430mple.org/a"),
)


def test_what_a_file_cannot_say(made, refused):
    before = made.read_bytes()
    for keys, value, number in (
        (("seeds",), [1, 2, 3, 4, 5], 75),
        (("status",), "rescored", 75),
        (("name",), "other", 76),
        (("name",), None, 75),
        (("year",), 20, 76),
        (("link",), "javascript:alert(1)", 76),
        (("authors",), [], 25),
        (("licence",), "\u202eevil", 22),
        (("backbone",), "x" * 1001, 26),
        (("tasks",), {}, 76),
        (of_task("note"), "\x1b[2J", 22),
        (of_task("split"), "validation", 76),
        (of_task("version"), 1, 76),
        (of_task("hash"), "0" * 64, 76),
        *((of_task("outputs", "url"), address, 76) for address in ADDRESSES),
        (of_task("outputs", "sha256"), "0" * 63, 76),
        (of_task("outputs", "form"), "pickle", 75),
        (of_task("outputs", "form"), "tsv", 76),
        (of_task("outputs", "field"), "text", 76),
        (of_task("data", "ids_sha256"), "none", 76),
        (of_task("figures", "bleu4", "value"), 1.5, 76),
        (of_task("figures", "bleu4", "value"), float("nan"), 75),
        (of_task("figures", "bleu4", "n"), 3, 76),
        (of_task("figures", "bleu4"), None, 76),
        (of_task("figures", "bleu5"), FIGURE, 76),
        (of_task("not_computed"), ["spice", "bleu4"], 76),
    ):
        edit(made, *keys, value=value)
        found = check(made)
        assert {int(one.id[-3:]) for one in found} == {number}, "figures are not looked at in what contradicts itself"
        told = "\n".join(one.message for one in found)
        refused.message(told.partition("; the task's is ")[0].partition("Known: ")[0])
        made.write_bytes(before)
    for content in (b"x = [", b"\xff", b"a = " + b"[" * 500 + b"]" * 500, b""):
        made.write_bytes(content)
        assert numbers(made) == [75]
    assert grue("submit", "check", made).exit_code == 1
    made.write_bytes(b"# " + b"x" * 100_000)
    assert numbers(made) == [14]


def test_a_link_a_folder_a_wrong_place_and_a_name_that_is_anothers(made, home):
    (made.parent / "theirs").mkdir()
    said = "has the name of theirs.by-reference.toml; choose another, or have a maintainer remove that row."
    for checked in (made, made.parent, made.parent / "theirs"):
        told = [(problem.path, problem.message) for problem in check(checked) if problem.id == "GRUE-S076"]
        assert told == [(str(made.parent / "theirs"), said)]
    (made.parent / "theirs").rmdir()
    alike = Path(shutil.copy(made, made.with_name("the1rs.by-reference.toml")))
    edit(alike, "name", value="the1rs")
    assert [(p.id, p.message) for p in check(made)] == [("GRUE-S023", "looks like 'the1rs', which is another system.")]
    alike.unlink()
    (made.parent / "Theirs").mkdir()
    assert numbers(made) == [23]
    told = [problem.message for problem in check(made.parent / "Theirs") if problem.id == "GRUE-S023"]
    assert told == ["looks like 'theirs', which is another system."]
    (made.parent / "Theirs").rmdir()
    made.rename(home / "real.toml")
    made.symlink_to(home / "real.toml")
    assert numbers(made.parent) == [13]
    made.unlink()
    made.mkdir()
    assert 75 in numbers(made.parent)
    made.rmdir()
    (made.parent.parent / "elsewhere").mkdir()
    elsewhere = (home / "real.toml").rename(made.parent.parent / "elsewhere" / made.name)
    ((identity, message),) = [(problem.id, problem.message) for problem in check(elsewhere)]
    assert identity == "GRUE-S076" and "'elsewhere' is not a suite" in message


def test_options_that_contradict_each_other(made, data, refused):
    refused.command("submit", "check", made, "--data-dir", data, code=2)
    refused.command("submit", "check", made, "--fetch", "--against", "main", code=2)
    refused.command("submit", "check", made.parent / "nothing.by-reference.toml", code=3)
    edit(made, "tasks", value={})
    refused.command("submit", "check", made, "--fetch", "--data-dir", data, code=2)


STORIES, JOKES = a_task("stories"), a_task("jokes", metrics=(LIKED,))


def of_system(name, centre, status):
    scores = {seed: centre + seed / 10 for seed in range(1, 6)}
    found = entries(STORIES, name, scores) + entries(JOKES, name, scores, naturalness=None)
    data = {"source": "a page", "source_split": "dev", "examples": 9, "outputs": "https://x.org", "outputs_sha256": "0"}
    if status == "recomputed":
        year = {"year": 2020}
        found = [replace(e, result=replace(e.result, data=data, system=e.result.system | year)) for e in found]
    return [replace(entry, status=status) for entry in found]


def test_a_row_by_reference_is_never_ranked_and_changes_no_rank(tmp_path):
    """Not even one that claims five seeds of every task, and the highest scores."""
    ours, both = of_system("good", 50.0, "rescored") + of_system("bad", 20.0, "rescored"), [STORIES, JOKES]
    before = {row.system: row for row in rank(ours, both).rows}
    board = rank([*ours, *of_system("theirs", 90.0, "recomputed")], both)
    rows = {row.system: row for row in board.rows}
    theirs = rows.pop("theirs")
    assert rows == before
    assert [row.system for row in board.rows] == ["good", "bad", "theirs"], "below what is ranked"
    assert (theirs.status, theirs.standing, theirs.rank, dict(theirs.task_ranks)) == ("recomputed", "partial", None, {})
    assert (theirs.preference, theirs.interval, theirs.naturalness, theirs.learned, theirs.iqm) == (None,) * 5
    (tmp_path / "board.json").write_text(as_json.render(board))
    (again,) = [r for r in rank(ours, both, shipped=read_board(tmp_path / "board.json")).rows if r.system == "theirs"]
    (alone,) = rank(of_system("theirs", 90.0, "recomputed"), [JOKES]).rows
    for row in (again, alone):
        assert (row.standing, row.rank, dict(row.task_ranks)) == ("partial", None, {})
    assert again.preference is None
    beside = rank([*ours, *of_system("good", 90.0, "recomputed")], both)
    assert [(row.system, row.status) for row in beside.rows][-1] == ("good", "recomputed"), "a row of its own"


BOARD = ("--submissions", "submissions", "--suite", "grue", "--task", "commongen", "--no-local", "--format")


def board(form="json"):
    """The board of CommonGen, of the submissions here alone."""
    done = grue("leaderboard", *BOARD, form)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout) if form == "json" else done.stdout


def test_a_row_by_reference_says_what_it_was_computed_from_in_every_format(made):
    (row,), (note,) = board()["rows"], board()["notes"]
    assert (row["system"], row["status"], row["standing"], row["rank"]) == ("theirs", "recomputed", "partial", None)
    assert row["cells"]["commongen"]["metrics"]["coverage"]["mean"] == 0.75
    assert row["cells"]["commongen"]["naturalness"] is None
    assert note.startswith("commongen: theirs (2020) was computed by grue ")
    assert f"(sha256 {sha256(LINES)[:12]}…)" in note
    assert "on 2 examples of the split 'test' ('validation' at the source, the a" in note
    assert note.endswith("not computed: spice; one output for each example, so it has no rank.")
    edit(made, *of_task("data", "source"), value="<script>alert(1)</script>\x1b[2J")
    for form in ("markdown", "csv", "latex", "html"):
        shown = board(form)
        assert all(said in shown for said in ("theirs", "recomputed", "75")) and "\x1b" not in shown, form
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert numbers(made) == [22]


def test_what_a_row_by_reference_lacks_is_not_shown(made, refused):
    refused.command("compare", "theirs", "ours", "--suite", "grue", code=3)
    before = made.read_bytes()
    edit(made, *of_task("figures", "coverage"), value=None)
    edit(made, *of_task("not_computed"), value=["coverage", "spice"])
    (row,) = board()["rows"]
    assert row["cells"]["commongen"]["preference"] is None
    edit(made, *of_task("hash"), value="0" * 64)
    found = board()
    assert found["rows"] == []
    assert "theirs (seed 0) left out, made for another version of the task" in str(found["notes"])
    made.write_bytes(before)
    edit(made, *of_task("figures", "bleu4", "value"), value=2.0)
    refused.command("leaderboard", *BOARD, "json", code=3)


COPIES = {"unilm": "commongen/system_outputs/UniLM.dev.txt"}
PUBLISHED = {"ef690b3": 39.3, "ce0a251": 39.4}
"""As the .bleu files beside the outputs state it, from sacrebleu."""
for _commit in PUBLISHED:
    _file = f"wmt16/system_outputs/newstest2016.bergamot-base-memory.{_commit}.de"
    COPIES[f"bergamot-base-memory-{_commit}"] = _file


def test_the_rows_of_the_repository_are_sound_and_current():
    found = {path.name.partition(".")[0]: read_referred(path) for path in by_reference_files(COMMITTED)}
    assert found.keys() >= COPIES.keys()
    for name, referred in found.items():
        assert list(contradictions(COMMITTED / f"{name}.by-reference.toml", referred, "grue")) == []
        for task_name, of_one in referred.tasks.items():
            assert list(outdated(of_one, load_task(task_name, "grue"))) == []
            assert len(of_one.outputs.url.split("/")[5]) == 40, "the address names a commit, whose file cannot change"
    for commit, published in PUBLISHED.items():
        figures = found[f"bergamot-base-memory-{commit}"].tasks["wmt16"].figures
        assert round(figures["sacrebleu"].value, 1) == published


def test_the_rows_of_the_repository_stand_above_the_papers_tables():
    text = (ROOT / "leaderboard" / "grue.md").read_text(encoding="utf-8")
    assert 0 < text.index("| unilm") < text.index("### commongen, as reported in Table 12")
    board = read_board(ROOT / "leaderboard" / "grue.json")
    assert {row.status for row in board.rows} == {"recomputed"}
    assert len(reported_tables(board)) == 7
    ours = replace(board.rows[0], status="rescored")
    assert reported_tables(replace(board, rows=(ours, *board.rows))) == ()


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason=f"the slices of real data are not here: no folder {REAL}")
@pytest.mark.parametrize("name", COPIES)
def test_the_rows_of_the_repository_are_recomputed(name, monkeypatch):
    def copied(file, folder, offline):
        return Path(shutil.copy(REAL / COPIES[name], folder / "outputs"))

    monkeypatch.setattr(referred_checks, "fetch", copied)
    path = COMMITTED / f"{name}.by-reference.toml"
    assert check(path, fetching=Fetching(REAL / COPIES[name].split("/")[0])) == []
