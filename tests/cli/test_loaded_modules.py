"""What is looked up, completed, refused or scored loads no library that it does not need: seconds, at each key press."""

import json
import subprocess
import sys

from support.own_task import small_task
from support.paths import ROOT

from grue import files

STAGES = """
import importlib, json, os, sys
from click.testing import CliRunner

def loaded(*names):
    return [name for name in sys.modules if name.startswith(names)]

import grue
assert not loaded("numpy"), "import grue"
from grue.data.formats import FORMATS, LAYOUTS
assert FORMATS.names() and LAYOUTS.names() and not loaded("pyarrow", "grue.data.sets."), "names of what is not loaded"
from grue.cli.main import main
help = CliRunner().invoke(main, ["--help"]).output
assert "leaderboard" in help, help
assert not loaded("torch", "transformers", "datasets", "pandas", "rich", "numpy"), "--help"
os.environ |= {"_GRUE_COMPLETE": "bash_complete", "COMP_WORDS": "grue train --algo rlo", "COMP_CWORD": "3"}
try:
    main(prog_name="grue")
except SystemExit:
    del os.environ["_GRUE_COMPLETE"]
assert not loaded("torch", "transformers", "pandas"), "a key press"
importlib.import_module("grue.cli.exchange")
assert loaded("grue.exchange.") == ["grue.exchange.formats"]
for module in ("grue.submissions.checks.check", "grue.leaderboard.rank", "grue.render.markdown"):
    importlib.import_module(module)
    assert not loaded("torch", "transformers", "datasets", "evaluate"), module
for status, command in json.loads(sys.argv[1]):
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code == status, done.output
    assert not loaded("torch", "transformers", "datasets", "evaluate"), command
done = CliRunner().invoke(main, ["metrics", "show", "meteor"])
assert "grue.metrics.ter" not in sys.modules, "a metric is imported by name"
grue.score(["a", "b"], sys.argv[2], metrics=["rouge1"])
assert not loaded("torch", "transformers"), "grue.score"
"""


def test_no_more_is_loaded_than_is_needed(tmp_path):
    """In one process: importing, help, a key press, what is refused, and scoring with all metrics of a task."""
    task, predictions = small_task(tmp_path), tmp_path / "p.jsonl"
    files.write_jsonl(predictions, [{"id": name, "text": "a cat"} for name in "ab"])
    grid = "--tasks imdb --algos zero-shot,supervised+nlpo --seeds 1-2"
    commands = [
        (2, "train --task imbd --algo ppo"),
        (2, "train --task imdb --algo pppo"),
        (2, "train --task imdb --algo ppo --set klip=1"),
        (2, "evaluate"),
        (2, "evaluate --task imbd --baseline null"),
        (2, "diagnose --task imbd --algo ppo"),
        (0, "algorithms list"),
        (0, "algorithms show nlpo"),
        (0, f"sweep --dry-run {grid} --runs {tmp_path}"),
        (0, f"score {predictions} --task {task}"),
        (2, f"score {predictions} --task {task} --metrics chrf,parent_precision --set chrf.x=1"),
        (0, "metrics list"),
        (0, "metrics show rougeL"),
        (0, "metrics show evaluate:rouge"),
    ]
    script = [sys.executable, "-c", STAGES, json.dumps(commands), str(task)]
    done = subprocess.run(script, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "plain,rloo\n"), done.stderr
