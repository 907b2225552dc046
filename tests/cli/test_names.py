"""Names of systems and seeds that cannot be: one clear refusal, wherever they are asked for, and nothing is written."""

import pytest
from click.testing import CliRunner

from grue.api import evaluate as api
from grue.api.train import diagnose, train
from grue.cli.main import main
from grue.cli.options import parse_seeds
from grue.errors import ConfigError, UnknownName
from grue.evaluation.systems import System, external_name
from grue.records import LARGEST_SEED, check_seed, check_system_name
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.sweep.grid import GridEntry, SweepGrid
from grue.sweep.jobs import plan_jobs
from grue.task_files import load_task

WRONG_NAMES = [
    "../../x",
    "",
    " ",
    ".",
    "..",
    ".hidden",
    "a/b",
    "/etc",
    "a\\b",
    "a b",
    "a\nb",
    "a\x1b[31m",
    "-x",
    "+x",
    "müll",
    "x\n",
    "a" * 61,
    "a" * 100_000,
    "ppo\u202e",
]
NAMES = ["ppo", "supervised+ppo", "nlpo_top_p-0.5", "7b", "a" * 60, "v1.0"]
TASK = load_task("imdb")


def grue(*arguments, **environment):
    return CliRunner().invoke(main, list(map(str, arguments)), env=environment)


@pytest.fixture(autouse=True)
def nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.iterdir())
    assert not (tmp_path.parent.parent / "x").exists()


def assert_one_refusal(done, begin):
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert done.stderr.startswith(f"Error: {begin}") and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr[:-1].isprintable() and len(done.stderr) < 300


def test_what_can_be_a_name():
    for name in NAMES:
        assert check_system_name(name) == name
    for name in WRONG_NAMES:
        with pytest.raises(ConfigError, match="use at most 60 letters"):
            check_system_name(name)


def test_a_wrong_name_is_refused_by_every_command():
    for name in WRONG_NAMES:
        for command in (
            ["train", "--task", "imdb", "--algo", "ppo"],
            ["train", "--task", "imdb", "--algo", "supervised+ppo", "--dry-run"],
            ["submit", "pack"],
            ["submit", "pack", "--sweep", "runs"],
        ):
            assert_one_refusal(grue(*command, "--system", name), "The system name '")
        assert_one_refusal(grue("submit", "pack", "--system", "ppo", "--name", name), "The system name '")
    assert_one_refusal(
        grue("train", "--task", "imdb", "--algo", "ppo", GRUE_SYSTEM="../../x"), "The system name '../../x'"
    )


def test_a_wrong_name_is_refused_in_python_and_in_a_sweep():
    for name in WRONG_NAMES:
        with pytest.raises(ConfigError, match="use at most 60 letters"):
            train(TASK, "ppo", system=name)
        with pytest.raises(ConfigError, match="use at most 60 letters"):
            stages_of(RunRequest(task=TASK, system=name))
        with pytest.raises(ConfigError, match="use at most 60 letters"):
            plan_jobs(SweepGrid(tasks=("imdb",), systems=(GridEntry(algorithm="ppo", system=name),)))


def test_names_that_a_sweep_makes_up_are_checked_too():
    many = {"gamma": (0.5,), "gae_lambda": (0.5,), "learning_rate": (1e-4,), "kl_coefficient": (0.25,)}
    entry = GridEntry(algorithm="supervised+ppo", vary=many)
    with pytest.raises(ConfigError, match="The system name 'supervised"):
        plan_jobs(SweepGrid(tasks=("imdb",), systems=(entry,)))


def test_a_checkpoint_cannot_name_a_folder_elsewhere(tmp_path):
    """The name comes from the checkpoint's own file, which may come from anywhere."""
    hostile = api.Subject(TASK, System("../../x", {"name": "../../x"}, 1, "w"), tmp_path)
    with pytest.raises(ConfigError, match=r"The system name '\.\./\.\./x'"):
        api._picking(hostile, 4, "likelihood", tmp_path)
    with pytest.raises(UnknownName, match=r"There is no baseline '\.\./x'\. Known: null, "):
        api.subject("../x", TASK, kind="baseline")


@pytest.mark.parametrize(
    "command", [["train", "--algo", "ppo"], ["diagnose", "--algo", "ppo"], ["evaluate", "--baseline", "copy"]]
)
def test_a_seed_below_0_or_too_large_is_refused_by_every_command(command):
    for seed in (-1, -(10**30), LARGEST_SEED + 1, 10**30):
        done = grue(*command, "--task", "imdb", f"--seed={seed}")
        assert_one_refusal(done, f"seed {seed}: choose a whole number from 0 to 4294967295.")


WRONG_SEEDS = {
    "3-1": "write a range such as 1-5, or a list such as 1,2,7.",
    "-1": "write a range such as 1-5, or a list such as 1,2,7.",
    "": "write a range such as 1-5, or a list such as 1,2,7.",
    "0-10**9": "write a range such as 1-5, or a list such as 1,2,7.",
    "1..5": "write a range such as 1-5, or a list such as 1,2,7.",
    "\x1b[31m": "write a range such as 1-5, or a list such as 1,2,7.",
    "0-1000000000": "more than 10,000 at once.",
    "1,5-4000000000": "more than 10,000 at once.",
    "0-9999,10000": "more than 10,000 at once.",
    "4294967296": "choose whole numbers from 0 to 4294967295.",
    "9" * 5000: "choose whole numbers from 0 to 4294967295.",
    "1-" + "9" * 5000: "choose whole numbers from 0 to 4294967295.",
}


def test_seeds_that_cannot_be_are_refused_by_every_command():
    for seeds, told in WRONG_SEEDS.items():
        for command in (
            ["train", "--task", "imdb", "--algo", "ppo"],
            ["evaluate", "--task", "imdb", "--baseline", "copy"],
            ["sweep", "--tasks", "imdb", "--algos", "ppo"],
        ):
            done = grue(*command, f"--seeds={seeds}")
            assert_one_refusal(done, "seeds '")
            assert done.stderr.endswith(f": {told}\n"), done.stderr
    assert parse_seeds((), "0-9999") == list(range(10_000))
    assert parse_seeds((0, LARGEST_SEED), f"1,{LARGEST_SEED}") == [0, LARGEST_SEED, 1]


def test_seeds_that_cannot_be_are_refused_in_python_and_in_a_grid():
    for seed in (-1, LARGEST_SEED + 1):
        for ask in (
            lambda seed=seed: check_seed(seed),
            lambda seed=seed: train(TASK, "ppo", seed=seed),
            lambda seed=seed: diagnose(TASK, "ppo", seed=seed),
            lambda seed=seed: api.evaluate("copy", TASK, seed=seed),
            lambda seed=seed: SweepGrid(seeds=(1, seed)).seed_list(),
        ):
            with pytest.raises(ConfigError, match=f"seed {seed}: choose a whole number from 0 to 4294967295"):
                ask()


def test_a_model_in_a_folder_of_dots_is_named_after_the_folder(tmp_path, monkeypatch):
    """Otherwise its results would lie beside those of other systems."""
    for name in (".", "./", "..", str(tmp_path), f"{tmp_path}/."):
        assert external_name(name) == (tmp_path.parent if name == ".." else tmp_path).name
    assert external_name("gpt2") == "gpt2"
    assert external_name("someone/gpt2", chat=True) == "gpt2+chat"
