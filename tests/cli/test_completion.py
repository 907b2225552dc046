"""What a shell completes."""

import pytest
from click.shell_completion import ShellComplete

from grue.cli.main import main


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("train --suite grue --task c", ["cnn_dailymail", "commongen"]),
        ("data fetch im", ["imdb"]),
        ("sweep --tasks imdb,tot", ["imdb,totto"]),
        ("train --algo nl", ["nlpo"]),
        ("train --algo supervised+nl", ["supervised+nlpo"]),
        ("train --algo supervised+su", []),
        ("sweep --algos ppo,zero", ["ppo,zero-shot"]),
        ("algorithms show trp", ["trpo"]),
        ("metrics show rougeLs", ["rougeLsum", "rougeLsum:rl4lms"]),
        ("score --metrics meteor,chrfp", ["meteor,chrfpp"]),
        ("train --reward 0.5*meteor+0.5*cov", ["0.5*meteor+0.5*coverage"]),
        ("compare supervised+g", ["supervised+grpo"]),
        ("compare --runs elsewhere supervised-", ["supervised-mine"]),
        ("compare supervised-", []),
        # A suite that is not there completes nothing.
        ("train --suite nowhere --task i", []),
        ("train --suite m", ["mini"]),
        ("compare --suite /nowhere supervised", []),
    ],
)
def test_a_shell_is_offered_what_there_is(line, offered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere/mini/imdb/supervised-mine/seed-1").mkdir(parents=True)
    *words, last = line.split(" ")
    shell = ShellComplete(main, {}, "grue", "_GRUE_COMPLETE")
    assert [item.value for item in shell.get_completions(words, last)] == offered
