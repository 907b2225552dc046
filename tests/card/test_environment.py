"""An environment of verifiers as a task: the real package's scores, and what is more than a text's reward."""

import sys
from importlib.util import find_spec

import pytest
from support.commands import grue
from support.late import late

from grue import files
from grue.errors import ConfigError, Unavailable

environment, rewards, loading = (
    late(f"grue.{name}") for name in ("interop.environment", "evaluation.rewards", "data.load")
)
real = pytest.mark.skipif(find_spec("verifiers") is None, reason="verifiers is not installed")

MODULE = """
import verifiers.v1 as vf

class Data(vf.TaskData):
    answer: str = ""

class ReverseTask(vf.Task[Data]):
    {body}

class Config(vf.TasksetConfig):
    count: int = 12
    prompt: str = "say {{}}"

class Reverse(vf.Taskset[ReverseTask, Config]):
    def load(self):
        for i in range(self.config.count):
            prompt = self.config.prompt.format(i) or None
            yield ReverseTask(Data(prompt=prompt, system_prompt="Be brief.", answer=f"it is {{i}}"), self.config.task)

__all__ = ["Reverse"]
"""
BODY = """
    @vf.reward
    async def right(self, trace) -> float:
        assert trace.messages[0].content.endswith(self.data.prompt)
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=0.5)
    async def words(self, trace) -> float:
        return len(trace.last_reply.split())
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that writes an environment whose tasks have a body, and returns its name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(body=BODY):
        name = f"env_{tmp_path.name}".lower()
        (tmp_path / f"{name}.py").write_text(MODULE.format(body=body.strip()))
        return name

    return write


def task_of(name, tmp_path):
    return environment.task_of_environment(name, tmp_path, "mini:causal", 8)


@real
def test_prompts_and_rewards_are_those_of_the_environment(module, tmp_path):
    task, name = task_of(f'{module()}:{{"count": 20}}', tmp_path)
    splits = [loading.load_examples(task, split).examples for split in ("train", "validation")]
    examples = sorted((example for split in splits for example in split), key=lambda example: int(example.id))
    assert [example.prompt for example in examples] == [f"Be brief.\n\nsay {i}" for i in range(20)]
    assert [example.references for example in examples] == [(f"it is {i}",) for i in range(20)]
    assert task.rollout.max_new_tokens == 8 and len(splits[1]) in range(5, 16)
    reward = rewards.make_reward(name, task, splits[0])
    assert reward(examples[3:6], ["it is 3", "it is 3", ""]) == [1 + 1.5, 1.5, 0]


@real
def test_the_command_makes_its_card(module, tmp_path):
    said = ["--verifiers", module(), "--backbone", "mini:causal", "--tokens", 6, "--samples", 16, "--examples", 4]
    grue("tools", "card", *said, "--out", tmp_path / "card")
    answers = files.read_json(tmp_path / "card/card.json")["answers"]
    assert answers["oracle"]["scores"] == {"reward": 2.5} and answers["empty"]["scores"] == {"reward": 0}
    assert (tmp_path / "card/card.html").exists()


@real
@pytest.mark.parametrize(
    ("body", "arguments", "said"),
    [
        ("answer = 1", "", "has no reward; a card takes"),
        (BODY + "\n    NEEDS_CONTAINER = True", "", "has a container or a runtime"),
        (BODY.replace("words(self, trace)", "words(self, trace, runtime)"), "", "has a container or a runtime"),
        (BODY + "\n    async def setup(self, trace, runtime):\n        pass", "", "has a container or a runtime"),
        (BODY + "\n    @classmethod\n    def toolsets(cls, config):\n        return [object()]", "", "has tools"),
        (BODY, ':{"prompt": ""}', "has users who open the conversation"),
        (BODY, ':{"count": 0}', "has no tasks and no reward"),
        (BODY, ':{"cuont": 3}', "cannot be loaded"),
        (BODY, ":count=3", "cannot be loaded"),
    ],
)
def test_what_is_more_than_a_reward_of_a_text_is_refused(module, tmp_path, body, arguments, said):
    with pytest.raises(ConfigError, match=said):
        task_of(module(body) + arguments, tmp_path)


@real
def test_a_module_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ConfigError, match="--verifiers no-such-environment: cannot be loaded"):
        task_of("no-such-environment", tmp_path)


def test_verifiers_is_optional(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "verifiers", None)
    monkeypatch.setitem(sys.modules, "verifiers.v1", None)
    with pytest.raises(Unavailable, match="pip install verifiers"):
        task_of("reverse-text", tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "Name a task or, by --verifiers, an environment."),
        (["imdb", "--verifiers", "x"], "Name a task or, by --verifiers"),
        (["imdb", "--out", __file__], "is a file"),
        (["--verifiers", "x"], "names no model to start from: add --backbone"),
    ],
)
def test_a_task_or_an_environment_with_a_model(given, said, tmp_path):
    assert said in grue("tools", "card", "--out", tmp_path, *given, code=2).output
