"""`grue data` as a person sees it: what is printed, what it ends with, and that offline means offline."""

import json
import re
from pathlib import Path

import pytest
from support.commands import edit, grue
from support.late import late
from support.own_task import OWN_TASK

from grue import files
from grue.cli.data import pinning_lines
from grue.data.load import Loaded
from grue.task_files import load_task

hub_server, official = late("support.hub_server"), late("support.official")
ONE_ROW = (
    OWN_TASK[: OWN_TASK.index("sources")].format(metric="rougeL")
    + 'format = "commongen"\nsources = [{ kind = "files", name = "commongen", urls = ["%s/one.zip"] }]\n'
    + 'splits = { test = { source = "validation" } }\nevaluation = "test"\n'
    + OWN_TASK[OWN_TASK.index("[backbone]") :]
)


@pytest.fixture
def run(hub, monkeypatch, tmp_path):
    """Call the command line with a hub that has two data sets, and a suite of task files that say no figures."""
    folder = hub_server.suite(tmp_path, "wmt16", "dailydialog")
    hub_server.add_data_sets(hub, "wmt16", "dailydialog")
    monkeypatch.setenv("GRUE_DATA", "")  # --output sets it for its own process; this puts it back
    with hub_server.connected(hub, monkeypatch, tmp_path):
        yield lambda *arguments, code=0: grue("data", *arguments, "--suite", folder, code=code)


def test_fetch_says_what_came_and_where_it_is(run, tmp_path):
    done = run(*"fetch wmt16 --split test --split validation".split())
    folder = tmp_path / "cache/mirror/wmt--wmt16--de-en" / hub_server.HEAD_COMMIT
    assert done.stdout == (
        f"grue/wmt16 test: 10 rows, 10 examples from wmt/wmt16@111111111111 → {folder}/test.parquet\n"
        f"grue/wmt16 validation: 12 rows, 12 examples from wmt/wmt16@111111111111 → {folder}/validation.parquet\n"
    )
    there = f"The mirror is {tmp_path}/cache/mirror.\n"
    assert done.stderr == f"Offline from now on: --offline, or HF_HUB_OFFLINE=1. {there}"
    run("fetch", "wmt16", "--output", tmp_path / "out")
    found = sorted(path.name for path in (tmp_path / "out/wmt--wmt16--de-en" / hub_server.HEAD_COMMIT).iterdir())
    assert found == [".lock", "manifest.json", "test.parquet", "train.parquet", "validation.parquet"]


def test_fetch_of_official_files_names_what_they_unpack_to(hub, run, tmp_path):
    row = {"concept_set": "dog#run", "scene": ["A dog runs."]}
    hub.plain["/one.zip"] = official.zipped({"commongen.dev.jsonl": json.dumps(row).encode()})
    (tmp_path / "one.toml").write_text(ONE_ROW % hub.address)
    said = run("fetch", tmp_path / "one.toml").stdout
    place = said.rstrip("\n").rpartition(" → ")[2]
    assert "1 row, 1 example from " in said and Path(place).is_dir() and place.endswith("/unpacked")
    assert f"mirror {place}" in run("where", tmp_path / "one.toml", "--offline").stdout


def test_the_mini_suite_has_nothing_to_fetch_and_is_there():
    done = grue(*"data fetch imdb --split test".split())
    assert done.stdout == "mini/imdb test: 1,000 rows, 1,000 examples from mini@2 → nothing to fetch\n"
    assert grue(*"data where imdb --split test".split()).stdout == "mini/imdb test\n  → mini   imdb, revision 2\n"


def test_fetch_that_fails_says_why_of_each_source(hub, run, refused):
    hub.faults = [hub_server.Fault("/api/datasets", times=99, status=404, headers={"X-Error-Code": "RepoNotFound"})]
    refused.message(run("fetch", "wmt16", code=3).stderr.replace(hub.address, "<hub>"))


def test_where(hub, run, monkeypatch):
    before = run("where", "wmt16", "--split", "test").stdout
    assert re.fullmatch(rf".*/wmt16 test\n  → hub    wmt/wmt16@{'1' * 40}  \S+ kB  \(1 file\)\n", before)
    run("fetch", "wmt16", "--split", "test")
    lines = [line.split() for line in run("where", "wmt16", "--split", "test").stdout.splitlines()[1:]]
    assert (lines[0][:2], lines[1][0], lines[2][0]) == (["→", "cache"], "mirror", "hub")
    (there,) = json.loads(run("where", "dailydialog", "--split", "test", "--json").stdout)
    kinds = [place["kind"] for place in there["places"]]
    assert (there["task"], there["split"], kinds) == ("dailydialog", "test", ["hub", "files"])
    assert there["places"][0]["available"] is True

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    requests = len(hub.requests)
    done = run("where", "dailydialog", "--split", "test").stdout
    assert len(hub.requests) == requests
    for said in (
        ": not available\n",
        "    hub    li2017dailydialog/daily_dialog@refs/convert/parquet  (the data set ",
        "    files  http://yanran.li/files/ijcnlp_dailydialog.zip  (offline)\n",
    ):
        assert said in done


def test_verify_prints_what_is_missing_in_the_task_file(run, tmp_path):
    said = run("verify", "dailydialog").stdout
    source = "li2017dailydialog/daily_dialog"
    assert f"grue/dailydialog train: fine, 60 rows, 120 examples from {source}@222222222222\n" in said
    assert f'  # in the source {source}\n  revision = "{"2" * 40}"\n' in said
    lines = {
        split: re.search(f"^  ({split} = .*)$", said, re.MULTILINE)[1] for split in ("train", "validation", "test")
    }
    figures = r'rows = 60, examples = 120, ids_sha256 = "\w{64}", without = \["validation", "test"\]'
    assert re.fullmatch(rf'train = \{{ source = "train", {figures} \}}', lines["train"])
    # Pasted into the file, all is said: nothing more is printed.
    text = (tmp_path / "grue/dailydialog.toml").read_text()
    changes = [(re.search(f"^{split} = .*$", text, re.MULTILINE)[0], line) for split, line in lines.items()]
    edit(tmp_path / "grue/dailydialog.toml", *changes, ("refs/convert/parquet", "2" * 40))
    again = run("verify", "dailydialog").stdout.splitlines()
    assert [line.split(":")[1].split(",")[0] for line in again] == [" fine"] * 3


def test_lines_to_paste_keep_what_limits_a_split():
    task = load_task("cnn_dailymail", "small")
    loaded = Loaded(range(4000), "hub", "0" * 40, 287113, "1" * 64, checked=True)
    (line,) = (line for line in pinning_lines(task, {"train": loaded}) if " train = " in line)
    assert line.endswith(f'examples = 4000, ids_sha256 = "{"1" * 64}", most = 4000 }}')


def test_verify_ends_with_1_where_something_differs_and_with_3_where_nothing_can_be_had(hub, run, tmp_path):
    path = tmp_path / "cache/mirror/wmt--wmt16--de-en" / hub_server.HEAD_COMMIT / "test.parquet"
    edit(tmp_path / "grue/wmt16.toml", ('test = { source = "test"', 'test = { source = "test", rows = 2999'))
    said = run("verify", "wmt16", "--split", "test", code=1).stdout
    assert said.startswith(
        "grue/wmt16 test: differs, 10 rows, 10 examples from wmt/wmt16@111111111111\n  rows: 10, the task file says 2999\n"
    )
    edit(tmp_path / "grue/wmt16.toml", (", rows = 2999", ""))
    run("fetch", "wmt16", "--split", "test")
    path.write_bytes(path.read_bytes()[:-1] + b"X")  # the rows are read, and not the cache
    said = run("verify", "wmt16", "--split", "test", code=3).stderr
    assert "it is damaged. Delete the folder and fetch it again" in said
    hub.revisions.clear()
    said = run("verify", "wmt16", "--split", "validation", code=3).stderr
    assert "grue/wmt16 validation: not available\n" in said


@pytest.mark.parametrize("command", ["fetch", "where", "verify"])
def test_a_wrong_name_is_told(command, refused):
    refused.command("data", command, "imdb", "--split", "tets", code=2)
    refused.command("data", command, "imbd", code=2)


def test_the_prompts_of_a_file_of_rows_without_its_answers(tmp_path, refused):
    """What whoever has no checkpoint to hand in is given of a held-back draw."""
    row = {"concept_set_idx": 900001, "concepts": ["dog", "run"], "targets": ["A dog runs at noon in the hall."]}
    files.write_jsonl(tmp_path / "held-back.jsonl", [row])
    export = ("data", "export", "commongen", "--split", tmp_path / "held-back.jsonl")
    grue(*export, "--prompts-only", "-o", tmp_path / "prompts.jsonl")
    grue(*export, "-o", tmp_path / "whole.jsonl")
    prompt, example = (json.loads((tmp_path / f"{name}.jsonl").read_text()) for name in ("prompts", "whole"))
    assert example["references"] == row["targets"]
    assert prompt == {"id": example["id"], "prompt": example["prompt"]} and "dog" in prompt["prompt"]
    grue(*export, "--prompts-only", "-o", tmp_path / "p.parquet")
    assert late("pyarrow.parquet").read_schema(tmp_path / "p.parquet").names == ["id", "prompt"]
    refused.command(*export, "--prompts-only", "--format", "trl", "-o", tmp_path / "t.jsonl", code=2)
    refused.command("data", "export", "commongen", "--split", "tests", "-o", tmp_path / "x.jsonl", code=2)
