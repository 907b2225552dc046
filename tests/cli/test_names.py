"""Names of systems and seeds that cannot be: one clear refusal, wherever they are asked for, and nothing is written."""

import numpy as np
import pytest
from support.commands import grue
from support.late import late

from grue.api import evaluate as api
from grue.api.train import diagnose, train
from grue.errors import ConfigError, UnknownName
from grue.records import LARGEST_SEED, check_seed, check_system_name
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest, parse_seeds, seeds_of
from grue.sweep.grid import GridEntry, SweepGrid
from grue.sweep.jobs import plan_jobs
from grue.task_files import load_task

systems = late("grue.evaluation.systems")
WRONG_NAMES = [
    *("../../x", "", " ", ".", "..", ".hidden", "a/b", "/etc", "a\\b", "a b", "a\nb", "a\x1b[31m", "-x", "+x", "müll"),
    *("x\n", "a" * 61, "a" * 100_000, "ppo\u202e"),
]
WRONG_SEEDS = {
    "write a range such as 1-5, or a list such as 1,2,7.": ("3-1", "-1", "", "1-", "1,,2", "1-2-3", "²", "\x1b[31m"),
    "more than 10,000 at once.": ("0-1000000000", "1,5-4000000000", "0-9999,10000"),
    "choose whole numbers from 0 to 4294967295.": ("4294967296", "9" * 5000, "1-" + "9" * 5000),
}
TASK = load_task("imdb")
PPO = ("train", "--task", "imdb", "--algo", "ppo")
EVALUATE = ("evaluate", "--task", "imdb", "--baseline", "copy")


@pytest.fixture(autouse=True)
def nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.iterdir())
    assert not (tmp_path.parent.parent / "x").exists()


def assert_one_refusal(begin, *command, end="", **environment):
    said = grue(*command, code=2, **environment)
    assert said.stdout == "" and said.stderr.startswith(f"Error: {begin}") and said.stderr.endswith(f"{end}\n")
    assert said.stderr.count("\n") == 1 and said.stderr[:-1].isprintable() and len(said.stderr) < 300


def grid(**entry):
    return plan_jobs(SweepGrid(tasks=("imdb",), systems=(GridEntry(**{"algorithm": "ppo", **entry}),)))


def test_a_wrong_name_is_refused_by_every_command_and_in_python():
    for name in ("ppo", "supervised+ppo", "nlpo_top_p-0.5", "7b", "a" * 60, "v1.0"):
        assert check_system_name(name) == name
    for name in WRONG_NAMES:
        with pytest.raises(ConfigError, match="use at most 60 letters"):
            check_system_name(name)
    name = WRONG_NAMES[0]
    pack = ("submit", "pack")
    for command in (PPO, (*PPO, "--dry-run"), pack, (*pack, "--sweep", "runs"), (*pack, "--system", "ppo", "--name")):
        assert_one_refusal("The system name '", *command, *(["--system"] if command[-1] != "--name" else []), name)
    for ask in (
        lambda: train(TASK, "ppo", system=name),
        lambda: stages_of(RunRequest(task=TASK, system=name)),
        lambda: grid(system=name),
    ):
        with pytest.raises(ConfigError, match="use at most 60 letters"):
            ask()
    assert_one_refusal("The system name '../../x'", *PPO, GRUE_SYSTEM="../../x")
    many = {"gamma": (0.5,), "gae_lambda": (0.5,), "learning_rate": (1e-4,), "kl_coefficient": (0.25,)}
    with pytest.raises(ConfigError, match="The system name 'supervised"):  # which the sweep makes up
        grid(algorithm="supervised+ppo", vary=many)


def test_a_checkpoint_cannot_name_a_folder_elsewhere(tmp_path, refused):
    """The name comes from the checkpoint's own file, which may come from anywhere."""
    hostile = api.Subject(TASK, systems.System("../../x", {"name": "../../x"}, 1, "w"), tmp_path)
    with refused(ConfigError):
        api._beside(hostile, hostile.system, tmp_path)
    with refused(UnknownName):
        api.subject("baseline:../x", TASK)


def test_a_seed_that_cannot_be_is_refused_by_every_command_and_in_python():
    for seed in (-1, LARGEST_SEED + 1):
        end = f"seed {seed}: choose a whole number from 0 to 4294967295."
        assert_one_refusal(end, "diagnose", *PPO[1:], f"--seed={seed}")
        for command in (PPO, EVALUATE):
            assert_one_refusal("seeds '", *command, f"--seed={seed}")
    for seed in (-1, LARGEST_SEED + 1, 1.5, True, "1", None):
        asks = [check_seed, lambda seed: SweepGrid(seeds=(1, seed)).seed_list()] if type(seed) is int else []
        for ask in (
            lambda seed: train(TASK, "ppo", seed=seed),
            lambda seed: diagnose(TASK, "ppo", seed=seed),
            lambda seed: api.evaluate("copy", TASK, seed=seed),
            *asks,
        ):
            with pytest.raises(ConfigError, match=f"seed {seed!r}: choose a whole number from 0 to 4294967295"):
                ask(seed)
    assert type(check_seed(np.int64(3))) is int and check_seed(np.int64(3)) == 3


def test_seeds_that_cannot_be_are_refused_by_every_command():
    for told, texts in WRONG_SEEDS.items():
        for seeds in texts:
            assert_one_refusal("seeds '", *PPO, f"--seeds={seeds}", end=f": {told}")
        for command in (EVALUATE, ("sweep", "--tasks", "imdb", "--algos", "ppo")):
            assert_one_refusal("seeds '", *command, f"--seeds={texts[0]}", end=f": {told}")
    texts = {"1-3": [1, 2, 3], "1, 2,9-10": [1, 2, 9, 10], "3,1-3": [3, 1, 2], "0-9999": [*range(10_000)]}
    assert {text: parse_seeds(text) for text in texts} == texts
    assert seeds_of([]) == [1] and seeds_of(["4", f"1-3,4,{LARGEST_SEED}"]) == [4, 1, 2, 3, LARGEST_SEED]


def test_a_model_in_a_folder_of_dots_is_named_after_the_folder(tmp_path):
    """Otherwise its results would lie beside those of other systems."""
    for name in (".", "./", "..", str(tmp_path), f"{tmp_path}/."):
        assert systems.external_name(name) == (tmp_path.parent if name == ".." else tmp_path).name
    assert systems.external_name("gpt2") == "gpt2"
    assert systems.external_name("someone/gpt2", chat=True) == "gpt2+chat"
