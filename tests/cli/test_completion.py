"""What a shell completes, and that it costs no import of torch."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from support.paths import ROOT

from grue.cli.main import main


def completed(line: str) -> list[str]:
    """Return what a shell is offered for the last word of a line."""
    *words, last = line.split(" ")
    shell = ShellComplete(main, {}, "grue", "_GRUE_COMPLETE")
    return [item.value for item in shell.get_completions(words, last)]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_tasks_of_the_suite():
    assert completed("train --task na") == ["narrativeqa"]
    assert completed("train --suite grue --task c") == ["cnn_dailymail", "commongen"]
    assert completed("tasks show to") == ["totto"]
    assert completed("data fetch im") == ["imdb"]
    assert completed("sweep --tasks imdb,tot") == ["imdb,totto"]


def test_algorithms_with_warm_starts():
    assert completed("train --algo nl") == ["nlpo"]
    assert completed("train --algo supervised+nl") == ["supervised+nlpo"]
    assert completed("train --algo supervised+su") == []
    assert completed("sweep --algos ppo,zero") == ["ppo,zero-shot"]
    assert completed("algorithms show trp") == ["trpo"]


def test_metrics_alone_listed_and_summed():
    assert completed("metrics show rougeLs") == ["rougeLsum", "rougeLsum:rl4lms"]
    assert completed("score --metrics meteor,chrfp") == ["meteor,chrfpp"]
    assert completed("train --reward 0.5*meteor+0.5*cov") == ["0.5*meteor+0.5*coverage"]


def test_systems_of_the_board_and_of_the_runs(tmp_path):
    (tmp_path / "elsewhere/mini/imdb/supervised-mine/seed-1").mkdir(parents=True)
    assert completed("compare supervised+g") == ["supervised+grpo"]
    assert completed("compare --runs elsewhere supervised-") == ["supervised-mine"]
    assert completed("compare supervised-") == []


def test_a_suite_that_is_not_there_completes_nothing():
    assert completed("train --suite nowhere --task i") == []
    assert completed("train --suite m") == ["mini"]
    assert completed("compare --suite /nowhere supervised") == []


def test_a_key_press_loads_no_torch():
    code = (
        "import sys; sys.argv = ['grue']\n"
        "from grue.cli.main import main\n"
        "try: main(prog_name='grue')\n"
        "finally: assert not {'torch', 'transformers', 'pandas'} & sys.modules.keys()"
    )
    pressed = {
        "_GRUE_COMPLETE": "bash_complete",
        "COMP_WORDS": "grue train --algo rlo",
        "COMP_CWORD": "3",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | pressed, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("plain,rloo\n", "")
