"""`grue data` as a person sees it: what is printed, what it ends with, and that offline means offline."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support import hub_server
from support.hub_server import BLOCKED, HEAD_COMMIT, Fault, suite
from support.official import zipped
from support.paths import ROOT

from grue.cli.main import main

ONE_ROW = """
reward = "rougeL"
metrics = [{ name = "rougeL", axis = "preference", range = [0, 1] }]
[data]
format = "commongen"
sources = [{ kind = "files", name = "commongen", urls = ["%s/one.zip"] }]
splits = { test = { source = "validation" } }
evaluation = "test"
[backbone]
family = "causal"
model = "mini:causal"
"""


@pytest.fixture
def run(hub, monkeypatch, tmp_path):
    """Call the command line in this process, with a suite of task files that say no figures."""
    folder = suite(tmp_path, "wmt16", "dailydialog")

    def call(*arguments):
        return CliRunner().invoke(main, ["data", *map(str, arguments), "--suite", str(folder)])

    with hub_server.connected(hub, monkeypatch, tmp_path):
        yield call


def edit(tmp_path, name, *changes):
    path = tmp_path / "grue" / f"{name}.toml"
    text = path.read_text(encoding="utf-8")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


def test_fetch_says_what_came_and_where_it_is(hub, run, tmp_path):
    hub_server.add_data_sets(hub, "wmt16")
    done = run("fetch", "wmt16", "--split", "test", "--split", "validation")
    folder = tmp_path / "cache" / "mirror" / "wmt--wmt16--de-en" / HEAD_COMMIT
    assert done.exit_code == 0, done.stderr
    assert done.stdout == (
        f"grue/wmt16 test: 10 rows, 10 examples from wmt/wmt16@111111111111 → {folder}/test.parquet\n"
        f"grue/wmt16 validation: 12 rows, 12 examples from wmt/wmt16@111111111111 → {folder}/validation.parquet\n"
    )
    assert (
        done.stderr == f"Offline from now on: --offline, or HF_HUB_OFFLINE=1. The mirror is {tmp_path}/cache/mirror.\n"
    )


def test_fetch_of_official_files_names_what_they_unpack_to(hub, run, tmp_path):
    row = {"concept_set": "dog#run", "scene": ["A dog runs."]}
    hub.plain["/one.zip"] = zipped({"commongen.dev.jsonl": json.dumps(row).encode()})
    (tmp_path / "one.toml").write_text(ONE_ROW % hub.address)
    done = run("fetch", tmp_path / "one.toml")
    assert done.exit_code == 0, done.stderr
    place = done.stdout.rstrip("\n").rpartition(" → ")[2]
    assert "1 row, 1 example from " in done.stdout and Path(place).is_dir() and place.endswith("/unpacked")
    assert f"mirror {place}" in run("where", tmp_path / "one.toml", "--offline").stdout


def test_fetch_to_a_folder(hub, run, monkeypatch, tmp_path):
    monkeypatch.setenv("GRUE_DATA", "")  # the command sets it for its own process; this puts it back
    hub_server.add_data_sets(hub, "wmt16")
    assert run("fetch", "wmt16", "--output", tmp_path / "out").exit_code == 0
    found = sorted(path.name for path in (tmp_path / "out" / "wmt--wmt16--de-en" / HEAD_COMMIT).iterdir())
    assert found == [".lock", "manifest.json", "test.parquet", "train.parquet", "validation.parquet"]


def test_fetch_of_the_mini_suite_has_nothing_to_do():
    done = CliRunner().invoke(main, ["data", "fetch", "imdb", "--split", "test"])
    assert (done.exit_code, done.stdout) == (
        0,
        "mini/imdb test: 1,000 rows, 1,000 examples from mini@2 → nothing to fetch\n",
    )


def test_fetch_that_fails_says_why_of_each_source(hub, run):
    hub.plain["/x"] = b""
    hub.faults = [Fault("/api/datasets", times=99, status=404, headers={"X-Error-Code": "RepoNotFound"})]
    done = run("fetch", "wmt16")
    assert done.exit_code == 3
    assert done.stdout == ""
    assert done.stderr == (
        "Error: grue/wmt16, split 'train': no source could be read:\n"
        f"  hub wmt/wmt16: the data set wmt/wmt16 is not on the hub ({hub.address}/datasets/wmt/wmt16): check the name; if "
        "it is private, log in with `hf auth login` or set HF_TOKEN.\n"
        "Connect to the network, copy a mirror and name it with GRUE_DATA, or give the data's folder with --data-dir.\n"
    )


def test_where(hub, run, tmp_path):
    hub_server.add_data_sets(hub, "wmt16", "dailydialog")
    before = run("where", "wmt16", "--split", "test")
    assert re.fullmatch(rf".*/wmt16 test\n  → hub    wmt/wmt16@{HEAD_COMMIT}  \S+ kB  \(1 file\)\n", before.stdout)
    run("fetch", "wmt16", "--split", "test")
    lines = run("where", "wmt16", "--split", "test").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["→", "cache"],
        ["mirror", lines[2].split()[1]],
        ["hub", lines[3].split()[1]],
    ]
    there = json.loads(run("where", "dailydialog", "--split", "test", "--json").stdout)
    assert [(row["task"], row["split"], [place["kind"] for place in row["places"]]) for row in there] == [
        ("dailydialog", "test", ["hub", "files"])
    ]
    assert there[0]["places"][0]["available"] is True


def test_where_offline_says_what_is_missing(hub, run, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    requests = len(hub.requests)
    done = run("where", "dailydialog", "--split", "test")
    assert len(hub.requests) == requests
    assert ": not available\n" in done.stdout
    assert "    hub    li2017dailydialog/daily_dialog@refs/convert/parquet  (the data set " in done.stdout
    assert "    files  http://yanran.li/files/ijcnlp_dailydialog.zip  (offline)\n" in done.stdout


def test_where_of_the_mini_suite():
    done = CliRunner().invoke(main, ["data", "where", "imdb", "--split", "test", "--split", "train"])
    assert done.stdout == "mini/imdb test\n  → mini   imdb, revision 2\nmini/imdb train\n  → mini   imdb, revision 2\n"


def test_verify_prints_what_is_missing_in_the_task_file(hub, run, tmp_path):
    hub_server.add_data_sets(hub, "dailydialog")
    done = run("verify", "dailydialog")
    assert done.exit_code == 0, done.stderr
    assert (
        "grue/dailydialog train: fine, 60 rows, 120 examples from li2017dailydialog/daily_dialog@222222222222\n"
        in done.stdout
    )
    assert f'  # in the source li2017dailydialog/daily_dialog\n  revision = "{"2" * 40}"\n' in done.stdout
    (line,) = re.findall(r"^  (train = .*)$", done.stdout, re.MULTILINE)
    assert re.fullmatch(
        r'train = \{ source = "train", rows = 60, examples = 120, ids_sha256 = "\w{64}", without = \["validation", "test"\] \}',
        line,
    )
    # Pasted into the file, all is said: nothing more is printed.
    changes = [(re.search(f"^{s} = .*$", (tmp_path / "grue" / "dailydialog.toml").read_text(), re.MULTILINE)[0], printed) for s, printed in
               ((s, re.search(f"^  ({s} = .*)$", done.stdout, re.MULTILINE)[1]) for s in ("train", "validation", "test"))]  # fmt: skip
    edit(tmp_path, "dailydialog", *changes, ("refs/convert/parquet", "2" * 40))
    again = run("verify", "dailydialog")
    assert again.exit_code == 0, again.stderr
    assert [line.split(":")[1].split(",")[0] for line in again.stdout.splitlines()] == [" fine"] * 3


def test_verify_ends_with_1_where_something_differs_and_with_3_where_nothing_can_be_had(hub, run, tmp_path):
    hub_server.add_data_sets(hub, "wmt16")
    edit(tmp_path, "wmt16", ('test = { source = "test"', 'test = { source = "test", rows = 2999'))
    done = run("verify", "wmt16", "--split", "test")
    assert done.exit_code == 1
    assert done.stdout.startswith(
        "grue/wmt16 test: differs, 10 rows, 10 examples from wmt/wmt16@111111111111\n  rows: 10, the task file says 2999\n"
    )
    hub.revisions.clear()
    done = run("verify", "wmt16", "--split", "validation")
    assert done.exit_code == 3
    assert "grue/wmt16 validation: not available\n" in done.stderr


def test_verify_reads_the_rows_and_not_the_cache(hub, run, tmp_path):
    hub_server.add_data_sets(hub, "wmt16")
    run("fetch", "wmt16", "--split", "test")
    path = tmp_path / "cache" / "mirror" / "wmt--wmt16--de-en" / HEAD_COMMIT / "test.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"X")
    done = run("verify", "wmt16", "--split", "test")
    assert done.exit_code == 3
    assert "it is damaged. Delete the folder and fetch it again" in done.stderr


@pytest.mark.parametrize("command", ["fetch", "where", "verify"])
def test_a_wrong_name_is_told(command):
    done = CliRunner().invoke(main, ["data", command, "imdb", "--split", "tets"])
    assert done.exit_code == 2
    assert (
        done.stderr
        == "Error: --split tets: mini/imdb has no such split. Did you mean 'test'? It has train, validation, test.\n"
    )
    done = CliRunner().invoke(main, ["data", command, "imbd"])
    assert "Did you mean 'imdb'?" in done.stderr


def test_offline_opens_no_connection(hub, run, tmp_path):
    hub_server.add_data_sets(hub, "wmt16")
    run("fetch", "wmt16", "--split", "test")
    script = tmp_path / "blocked.py"
    script.write_text(textwrap.dedent(BLOCKED))
    environment = {"HOME": str(tmp_path), "GRUE_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT), "PATH": ""}
    command = [sys.executable, script, "data", "verify", "wmt16", "--offline", "--suite", tmp_path / "grue"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "grue/wmt16 test: fine, 10 rows" in done.stdout
    assert "grue/wmt16 train: not available" in done.stderr
    assert "a connection was opened" not in done.stderr


def test_the_prompts_of_a_file_of_rows_without_its_answers(tmp_path):
    """What whoever has no checkpoint to hand in is given of a held-back draw."""
    rows = tmp_path / "held-back.jsonl"
    row = {"concept_set_idx": 900001, "concepts": ["dog", "run"], "targets": ["A dog runs at noon in the hall."]}
    rows.write_text(json.dumps(row) + "\n", encoding="utf-8")
    asked, whole = tmp_path / "prompts.jsonl", tmp_path / "whole.jsonl"

    def export(*options):
        return CliRunner().invoke(main, ["data", "export", "commongen", "--split", str(rows), *map(str, options)])

    assert export("--prompts-only", "-o", asked).exit_code == 0
    assert export("-o", whole).exit_code == 0
    (prompt,), (example,) = (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in (asked, whole)
    )
    assert example["references"] == row["targets"]
    assert prompt == {"id": example["id"], "prompt": example["prompt"]} and "dog" in prompt["prompt"]
    assert export("--prompts-only", "-o", tmp_path / "p.parquet").exit_code == 0
    assert pq.read_schema(tmp_path / "p.parquet").names == ["id", "prompt"]
    refused = export("--prompts-only", "--format", "trl", "-o", tmp_path / "t.jsonl")
    assert refused.exit_code == 2 and "leave one out" in refused.stderr


def test_a_split_that_is_none_is_told(tmp_path):
    refused = CliRunner().invoke(
        main, ["data", "export", "commongen", "--split", "tests", "-o", str(tmp_path / "x.jsonl")]
    )
    assert refused.exit_code == 2 and "has no such split. Did you mean 'test'?" in refused.stderr
