"""What is looked up, completed or scored loads no library that it does not need: seconds, at each key press."""

import json
import subprocess
import sys

from support.own_task import small_task
from support.paths import ROOT

from grue import files

STAGES = """
import json, os, sys
from click.testing import CliRunner

def loaded(*names):
    return sorted({*names} & sys.modules.keys())

import grue
assert not loaded("numpy"), "import grue"
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
for command in json.loads(sys.argv[1]):
    done = CliRunner().invoke(main, command)
    assert done.exit_code == (2 if "chrf.x=1" in command else 0), done.output
    assert not loaded("torch", "transformers", "datasets", "evaluate"), command
done = CliRunner().invoke(main, ["metrics", "show", "meteor"])
assert "grue.metrics.ter" not in sys.modules, "a metric is imported by name"
grue.score(["a", "b"], sys.argv[2], metrics=["rouge1"])
assert not loaded("torch", "transformers"), "grue.score"
"""


def test_no_more_is_loaded_than_is_needed(tmp_path):
    """In one process: importing, help, a key press, and scoring with all metrics of a task."""
    task, predictions = small_task(tmp_path), tmp_path / "p.jsonl"
    files.write_jsonl(predictions, [{"id": name, "text": "a cat"} for name in "ab"])
    score = ["score", str(predictions), "--task", str(task)]
    commands = [
        score,
        [*score, "--metrics", "chrf,parent_precision", "--set", "chrf.x=1"],
        ["metrics", "list"],
        ["metrics", "show", "rougeL"],
        ["metrics", "show", "evaluate:rouge"],
    ]
    script = [sys.executable, "-c", STAGES, json.dumps(commands), str(task)]
    done = subprocess.run(script, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "plain,rloo\n"), done.stderr
