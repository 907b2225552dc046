"""The last policies of runs that keep their best: a row of its own, packed, checked and made again like any other."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.late import late

from grue import files
from grue.cli.main import main
from grue.submissions.checks.check import check

api, tiny_row, checkpoint = late("grue"), late("support.tiny_row"), late("grue.lm.checkpoint")
packing, collect = late("grue.submissions.packing.pack"), late("grue.submissions.packing.collect")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the runs of a row and the results of their best and last policies, and both as submissions."""
    home = tmp_path_factory.mktemp("last")
    with tiny_row.few_examples():
        tiny_row.make_row(home)
        for seed in tiny_row.SEEDS:
            api.evaluate(home / f"runs/mini/imdb/ours/seed-{seed}/final")
        said = replace(tiny_row.SAID, name="ours+last")
        runs = collect.runs_of("ours+last", home / "runs", "mini")
        packing.pack([collect.read_run(run) for run in runs], said, home / "submissions")
        yield home


@pytest.fixture
def row(made, tmp_path, monkeypatch):
    """A copy of the submissions, in a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made / "submissions", tmp_path / "submissions")) / "mini/ours+last"


def test_its_results_lie_beside_those_of_the_best_and_say_what_it_took(made):
    for seed in tiny_row.SEEDS:
        run = made / f"runs/mini/imdb/ours/seed-{seed}"
        best, last = (files.read_json(made / f"runs/mini/imdb/{name}/seed-{seed}/result.json")["system"] for name in
                      ("ours", "ours+last"))  # fmt: skip
        final = checkpoint.read_manifest(run / "final")
        assert (best["name"], last["name"], last["kept"], last["update"]) == ("ours", "ours+last", "last", 2)
        assert "kept" not in best and last["weights"] == final.weights
        for key in ("start", "config_sha256", "reward", "algorithm", "backbone", "last"):
            assert last[key] == best[key], key
        assert last["training"] == last["last"]["training"] == dict(final.training)
        assert last["training"]["reward_calls"] == 16


def test_it_is_packed_with_its_configuration_and_passes_the_checks_beside_the_best(row):
    assert [stage["algorithm"] for stage in files.read_json(row / "imdb/config.json")["stages"]] == [
        "supervised", "supervised+ppo",
    ]  # fmt: skip
    assert files.read_json(row / "imdb/config.json") == files.read_json(row.with_name("ours") / "imdb/config.json")
    with tiny_row.few_examples():
        assert not [str(one) for one in check(row) if one.id in ("GRUE-S070", "GRUE-S071", "GRUE-S080")]


def test_it_is_drawn_and_trained_again_as_the_last(made, row):
    for command in (("verify", row, "--checkpoint", made / "runs"), ("retrain", row, "--runs", "again")):
        asked = [*map(str, command), "--seed", "2"]
        done = CliRunner().invoke(main, ["submit", *asked])
        assert done.exit_code == 0, done.output
        assert re.match("imdb seed 2: (equal texts \\(equal weights, 100|100.0% equal texts\n)", done.stdout)
