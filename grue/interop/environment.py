"""A single-turn environment of verifiers 0.4.0 (`verifiers.v1`) as a task: its prompts, and the reward of a text."""

import asyncio
import inspect
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import ConfigError
from grue.evaluation.rewards import PASSED
from grue.interop.taskset import verifiers
from grue.lm.load import family_of, load_tokenizer
from grue.records import Example
from grue.shapes import from_dict
from grue.task_files import filled
from grue.tasks import Task

MOST = 1000
"""Prompts that are read of an environment, which may have endlessly many."""


def task_of_environment(environment: str, folder: Path, model: str, tokens: int) -> tuple[Task, str]:
    """Return an environment as a task, half of its prompts for validation, and the name of its reward.

    Args:
        environment: Its module, and after a colon arguments as JSON: 'reverse-text:{"count": 100}'. A field `answer` of
            its data is taken as a reference.
        folder: It gets rows.jsonl.
        model: The backbone.
        tokens: The limit of an answer.
    """
    vf = verifiers()
    loaders, types = import_module("verifiers.v1.utils.loaders"), import_module("verifiers.v1.types")
    state = import_module("verifiers.v1.state").state_cls
    name, _, arguments = environment.partition(":")
    try:
        given = json.loads(arguments or "{}")
        taskset = loaders.load_taskset(loaders.taskset_config_type(name)(**{**given, "id": name}))
        one_agent = loaders.environment_class(name) is vf.SingleAgentEnv
        tasks = list(taskset.take(MOST))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(f"--verifiers {environment}: cannot be loaded: {files.reason(error)}") from error
    kind = taskset.task_type()
    rewards = [*tasks[0].hooks("reward"), *tasks[0].plugged_judges()] if tasks else []
    asked = [inspect.signature(getattr(hook, "score", hook)).parameters.get("runtime") for hook in rewards]
    in_runtime = [runtime for runtime in asked if runtime is not None and runtime.default is runtime.empty]
    needs = {
        "no tasks": not tasks,
        "an environment of its own, with several agents or turns": not one_agent,
        "tools": bool(tasks and [*type(taskset).toolsets(taskset.config), *kind.toolsets(tasks[0].config)]),
        "users who open the conversation": any(task.data.prompt is None for task in tasks),
        "a container or a runtime": kind.NEEDS_CONTAINER or kind.setup is not vf.Task.setup or bool(in_runtime),
        "no reward": not rewards,
    }
    if found := [need for need, holds in needs.items() if holds]:
        raise ConfigError(
            f"--verifiers {environment}: has {' and '.join(found)}; a card takes one that gives a text a reward."
        )

    async def score(example: Example, text: str) -> float:
        task = tasks[int(example.id)]
        said = (
            vf.MessageNode(message=types.UserMessage(content=example.prompt)),
            vf.MessageNode(parent=0, sampled=True, message=types.AssistantMessage(content=text)),
        )
        of_task = vf.TraceTask(type=kind.__name__, data=task.data, key=task.key, hash=task.hash)
        agent = vf.AgentInfo(config=vf.AgentConfig())
        trace = vf.Trace(task=of_task, agent=agent, state=state(kind)(), nodes=list(said))
        await task.score(trace)
        return float(trace.reward)

    async def score_all(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return await asyncio.gather(*(score(*each) for each in zip(examples, texts, strict=True)))

    reward = f"verifiers:{environment}"
    PASSED[reward] = lambda examples, texts: asyncio.run(score_all(examples, texts))
    rows = [_row(place, task.data) for place, task in enumerate(tasks)]
    files.write_jsonl(folder / "rows.jsonl", rows)
    tokenizer = load_tokenizer(model)
    halves = {"train": {"source": "all", "end": 0.5}, "validation": {"source": "all", "begin": 0.5}}
    table = {
        "name": "".join(c if c.isalnum() else "_" for c in name.lower()),
        "suite": "verifiers",
        "reward": reward,
        "data": {
            "sources": [{"kind": "local", "files": {"all": "rows.jsonl"}}],
            "splits": halves,
            "evaluation": "validation",
        },
        "prompt": {"max_tokens": max(len(tokenizer(row["prompt"])["input_ids"]) for row in rows)},
        "rollout": {"max_new_tokens": tokens},
        "backbone": {"family": family_of(model), "model": model},
    }
    return from_dict(Task, filled(table, folder / "environment.toml"), f"--verifiers {environment}"), reward


def _row(place: int, data: Any) -> dict[str, Any]:
    """Return a prompt, behind its system prompt if it has one, as a row."""
    prompt = "\n\n".join(part for part in (data.system_prompt, data.prompt_text) if part)
    answer = getattr(data, "answer", None)
    return {"id": str(place), "prompt": prompt, "references": [answer] if isinstance(answer, str) and answer else []}
