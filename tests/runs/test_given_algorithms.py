"""Algorithms that are passed as objects: the name that a run's record gives them, and what is no algorithm."""

import sys
from dataclasses import replace
from functools import partial
from types import ModuleType

import pytest
from support.late import late

import grue
from grue.errors import ConfigError
from grue.runs import algorithms
from grue.runs.algorithms import find_algorithm, give_name
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.task_files import load_task

nlpo, ppo, groups = late("grue.algorithms.nlpo"), late("grue.algorithms.ppo"), late("grue.rl.groups")
processes = late("support.processes")

SCRIPT = """
from dataclasses import dataclass, replace
from grue.algorithms import ppo
from grue.runs.algorithms import give_name

@dataclass(frozen=True, slots=True, kw_only=True)
class MineConfig(ppo.PPOConfig):
    gain: float = {default}

    def problems(self):
        yield from ppo.PPOConfig.problems(self)
        if self.gain < {bound}:
            yield "gain"

def helper(figures):
    return {body}

def update(trainer, state, config, n):
    return helper(ppo.update(trainer, state, config, n))

MINE = replace(ppo.ALGORITHM, settings=MineConfig, update=update, presets={{"x": {{"gain": {preset}}}}})
print(give_name(MINE))
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the working directory with an algorithm."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    path = tmp_path / "given_method.py"
    source = "from grue.algorithms import ppo\nfrom grue.rl.trainer import Algorithm\n\ndef update(*args):\n    return ppo.update(*args)\n\n"
    path.write_text(source + "MINE = Algorithm(settings=ppo.PPOConfig, update=update)\n")
    import given_method

    yield given_method
    sys.modules.pop("given_method")


def test_the_object_of_a_modules_file_has_the_name_that_the_command_takes(module, tmp_path):
    assert give_name(module.MINE) == "given_method:MINE"
    assert give_name(nlpo.ALGORITHM) == "nlpo"
    (plan,) = stages_of(RunRequest(task=load_task("imdb"), algorithm=give_name(module.MINE), runs=tmp_path))
    assert plan.system == "given_method" and set(plan.record()["code_sha256"]) == {"given_method:MINE"}
    path = tmp_path / "given_method.py"
    path.write_text(path.read_text() + "# another\n")
    with pytest.raises(ConfigError, match="given_method:MINE: .*given_method.py has changed; import it anew"):
        give_name(module.MINE)


def test_a_scripts_object_is_known_by_its_source_in_every_process(tmp_path):
    def printed(**changes):
        values = {"default": 1.0, "bound": 0, "body": "figures", "preset": 3.0, **changes}
        path = tmp_path / "script.py"
        path.write_text(SCRIPT.format(**values))
        process = processes.start(f"import runpy\nrunpy.run_path({str(path)!r}, run_name='__main__')", tmp_path / "out")
        process.join()
        told = (tmp_path / "out").read_text()
        assert process.exitcode == 0, told
        return told.strip()

    name = printed()
    assert name.startswith("__main__:MINE (sha256 ") and printed() == name
    changes = ({"default": 2.0}, {"bound": 1}, {"body": "dict(figures)"}, {"preset": 4.0})
    assert len({name, *(printed(**change) for change in changes)}) == 5


def update(trainer, state, config, n):
    return ppo.ALGORITHM.update(trainer, state, config, n)


def test_an_object_without_a_name_of_its_own_is_found_again_and_recorded_by_its_name(tmp_path):
    given = replace(ppo.ALGORITHM, update=update)
    name = give_name(given)
    assert name.startswith(f"{__name__}:PPOConfig (sha256 ")
    assert give_name(given) == name and find_algorithm(name) is given
    assert give_name(replace(given, without_effect=frozenset({"gamma"}))) != name
    (plan,) = stages_of(RunRequest(task=load_task("imdb"), algorithm=name, runs=tmp_path))
    assert plan.record()["algorithm"] == name and "code_sha256" not in plan.record()


def test_what_cannot_be_read_has_a_name_that_no_other_process_gives():
    held = object()
    given = replace(ppo.ALGORITHM, update=lambda *args: held)
    name = give_name(given)
    assert "(unknown " in name and give_name(given) == name
    algorithms.PASSED.clear()
    assert give_name(given) != name


def test_bound_arguments_and_functions_of_the_same_name_are_told_apart():
    start = groups.start  # as those that learn from scored data have it
    given = [replace(ppo.ALGORITHM, update=update, start=partial(start, reference=kept)) for kept in (True, False)]
    given += [replace(ppo.ALGORITHM, update=lambda *_, n=n: {}, parts=lambda *_: 1) for n in (1, 2)]
    given += [replace(given[-1], update=lambda *_: {})]
    names = [give_name(one) for one in given]
    assert len(set(names)) == 5 and not any("(unknown " in name for name in names)
    algorithms.PASSED.clear()
    with pytest.raises(ConfigError, match="was passed as an object, and this process was not given it"):
        find_algorithm(names[0])
    assert [give_name(one) for one in given] == names


class Model:
    """Stands for a model in memory."""


def test_what_is_handed_over_otherwise_is_told_how(tmp_path, refused):
    module = ModuleType("mine")  # of no file: how much of a path a message shows depends on its length
    module.ALGORITHM = find_algorithm("ppo")
    for given in (
        {"algorithm": module},
        *({key: Model()} for key in ("backbone", "init", "model", "tokenizer")),
        *({key: [{"prompt": "p"}]} for key in ("train_dataset", "task")),
    ):
        with refused(ConfigError):
            grue.train(**{"task": "imdb", "runs": tmp_path, **given})
    for algorithm in (algorithms, update):
        with pytest.raises(ConfigError, match="is no algorithm; give a name, or Algorithm"):
            grue.train("imdb", algorithm, runs=tmp_path)


def test_a_model_is_evaluated_and_compared_by_its_folder(tmp_path):
    for call in (grue.evaluate, lambda what, task: grue.generate(what, tmp_path / "x.jsonl", task), grue.compare):
        with pytest.raises(ConfigError, match="found an object of Model"):
            call(Model(), "imdb")
    (tmp_path / "seed-1").mkdir()
    with pytest.raises(ConfigError, match="holds runs, one a seed; give one of them, such as .*seed-1"):
        grue.evaluate(tmp_path)
