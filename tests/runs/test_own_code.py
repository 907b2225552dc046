"""Code of one's own, a reward, an algorithm or a metric: another is another configuration, and scores are made again."""

import json
import sys

import pytest
from click.testing import CliRunner
from support.own_task import OWN_TASK

from grue.cli.main import main
from grue.errors import ConfigError
from grue.evaluation.rewards import imported_reward
from grue.files import sha256_file
from grue.records import Example
from grue.runs.folder import claim_folder
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.sweep.grid import SweepGrid
from grue.sweep.jobs import plan_jobs
from grue.task_files import load_task

EXAMPLE = Example("1", "p", ("r",), {})
REWARD = "def {name}(examples, texts):\n    return [{value} for _ in texts]\n"
ALGORITHM = (
    "from dataclasses import replace\n\nfrom grue.algorithms.ppo import ALGORITHM\n\nMINE = replace(ALGORITHM)\n"
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory, from which modules are imported and forgotten again."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # files that change within a second have one time
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("liking", "method", "judging", "counting", "linking"):
        sys.modules.pop(name, None)


def plan(runs, **asked):
    return stages_of(RunRequest(task=load_task("imdb"), runs=runs, **{"algorithm": "ppo", **asked}))[-1]


def test_a_run_is_known_by_the_code_of_its_reward_and_algorithm(here):
    (here / "liking.py").write_text(REWARD.format(name="liked", value=1.0))
    (here / "method.py").write_text(ALGORITHM)
    asked = {"reward": "0.5*asked_sentiment + liking:liked", "algorithm": "method:MINE"}
    mine = plan(here, **asked)
    assert mine.record()["code_sha256"] == {
        "liking:liked": sha256_file(here / "liking.py"),
        "method:MINE": sha256_file(here / "method.py"),
    }
    claim_folder(mine)
    (here / "liking.py").write_text(REWARD.format(name="liked", value=-7.0))
    with pytest.raises(ConfigError, match="holds a run with code_sha256.liking:liked = "):
        claim_folder(plan(here, **asked))
    assert "code_sha256" not in plan(here, reward="asked_sentiment").record()
    with pytest.raises(
        ConfigError, match=r"with reward = .*, not 'asked_sentiment' \(and other values of .*code_sha256"
    ):
        claim_folder(plan(here, **asked | {"reward": "asked_sentiment", "settings": {"gamma": 0.5}}))


def test_scores_of_a_metric_that_was_changed_are_made_again(here):
    rows = "".join(json.dumps({"id": str(n), "prompt": f"p {n}", "reference": f"a {n}"}) + "\n" for n in range(4))
    (here / "rows.jsonl").write_text(rows)
    (here / "words.toml").write_text(OWN_TASK.format(metric="judging:judged"))

    def preference(value):
        sys.modules.pop("judging", None)  # as another process has it
        (here / "judging.py").write_text(REWARD.format(name="judged", value=value))
        done = CliRunner().invoke(main, ["evaluate", "--baseline", "copy", "--task", "words.toml", "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)[0]["preference"], done.stderr

    first, _ = preference(0.25)
    same, quiet = preference(0.25)
    second, said = preference(0.75)
    assert (first, same, second) == (25.0, 25.0, 75.0)
    assert "scoring again" not in quiet and "the code of a metric has changed" in said


def test_a_sweep_evaluates_again_by_a_metric_that_was_changed(here):
    (here / "rows.jsonl").write_text(json.dumps({"id": "1", "prompt": "p", "reference": "a"}) + "\n")
    (here / "words.toml").write_text(OWN_TASK.format(metric="judging:judged"))
    grid = SweepGrid(tasks=("words.toml",), algorithms=("copy",)).located()

    def identity(value):
        sys.modules.pop("judging", None)
        (here / "judging.py").write_text(REWARD.format(name="judged", value=value))
        return plan_jobs(grid)[0].identity

    first = identity(0.25)
    assert first == identity(0.25) != identity(0.75)


def test_a_weight_that_is_no_number_is_refused(here, refused):
    with refused(ConfigError):
        plan(here, reward="1e999*rougeL")


def test_a_module_that_is_written_anew_is_executed_anew(here):
    """Within one second and with the same size, which Python's own cache of compiled files would not notice."""
    (here / "liking.py").write_text(REWARD.format(name="liked", value=1))
    first = plan(here, reward="liking:liked").record()["code_sha256"]["liking:liked"]
    assert imported_reward("liking:liked")([EXAMPLE], ["x"]) == [1.0]
    (here / "liking.py").write_text(REWARD.format(name="liked", value=7))
    assert plan(here, reward="liking:liked").record()["code_sha256"]["liking:liked"] != first
    assert imported_reward("liking:liked")([EXAMPLE], ["x"]) == [7.0]
    (here / "liking.py").write_text("def liked(")
    with pytest.raises(ConfigError, match="importing liking fails: SyntaxError"):
        imported_reward("liking:liked")


def test_two_tasks_whose_modules_have_one_name_are_not_given_the_same_code(here):
    for name, value in (("one", 1), ("two", 2)):
        (here / name).mkdir()
        (here / name / "judging.py").write_text(REWARD.format(name="judged", value=value))
    assert imported_reward("judging:judged", [here / "one"])([EXAMPLE], ["x"]) == [1.0]
    with pytest.raises(ConfigError) as caught:
        imported_reward("judging:judged", [here / "two"])
    assert f"has imported {here / 'one' / 'judging.py'} as 'judging'" in str(caught.value)
    assert f"cannot import {here / 'two' / 'judging.py'}. Rename one" in str(caught.value)
    assert imported_reward("judging:judged", [here / "one"])([EXAMPLE], ["x"]) == [1.0]


def test_code_does_not_depend_on_where_one_stands(here, monkeypatch):
    """A file beside the task and another of its name in the working directory: neither is meant more than the other."""
    (here / "one").mkdir()
    for folder, value in ((here, 1), (here / "one", 2)):
        (folder / "weighing.py").write_text(REWARD.format(name="weighed", value=value))
    (here / "one" / "counting.py").write_text(REWARD.format(name="counted", value=3))
    (here / "counting").mkdir()  # no module
    with pytest.raises(ConfigError) as caught:
        imported_reward("weighing:weighed", [here / "one"])
    assert f"is it of {here / 'weighing.py'} or of {here / 'one' / 'weighing.py'}? Rename" in str(caught.value)
    assert imported_reward("counting:counted", [here / "one"])([EXAMPLE], ["x"]) == [3.0]
    (here / "linking.py").symlink_to(here / "one" / "counting.py")
    (here / "one" / "linking.py").symlink_to(here / "one" / "counting.py")
    assert imported_reward("linking:counted", [here / "one"])([EXAMPLE], ["x"]) == [3.0]
    monkeypatch.syspath_prepend("")  # as `python -m grue` does
    with pytest.raises(ConfigError, match="is it of"):
        imported_reward("weighing:weighed", [here / "one"])
