"""A task as an environment of OpenEnv 0.10.0: a prompt, a response, its reward."""

import math
import random
from importlib import import_module
from typing import Any
from uuid import uuid4

from grue.errors import ConfigError, TrainingError, Unavailable
from grue.interop.scorer import Scorer
from grue.records import Example

SESSIONS = 256
"""How many clients may be connected at a time; a session holds one example."""


def make_app(scorer: Scorer) -> Any:
    """Return OpenEnv's server of a task, a FastAPI application; Unavailable without openenv."""
    try:
        openenv: Any = import_module("openenv.core.env_server")
    except ModuleNotFoundError as error:
        raise Unavailable(f"openenv 0.10 or newer is not installed ({error}): pip install openenv") from error

    class GrueResponse(openenv.Action):  # type: ignore[misc]
        """What the model answered."""

        text: str

    class GruePrompt(openenv.Observation):  # type: ignore[misc]
        """An example; after the response with the terms of its reward, None for one that does not apply."""

        id: str
        split: str
        prompt: str
        terms: dict[str, float | None] | None = None

    class GrueEnvironment(openenv.Environment):  # type: ignore[misc]
        """Episodes of one step."""

        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._chosen: tuple[str, Example] | None = None
            self._state = openenv.State()

        def reset(
            self,
            seed: int | None = None,
            episode_id: str | None = None,
            split: str | None = None,
            index: int | None = None,
        ) -> Any:
            """Return a prompt: the one at `index` of `split`, or one that `seed` draws."""
            split = split or scorer.lookup.splits[0]
            if index is None:
                index = random.Random(seed).randrange(len(scorer.lookup.of(split)))
            self._chosen = split, self._at(split, index)
            self._state = openenv.State(episode_id=episode_id or str(uuid4()))
            return self._observe()

        def step(self, action: Any, timeout_s: float | None = None) -> Any:
            """Return the reward of a response, and the end of the episode."""
            if self._chosen is None or self._state.step_count:
                raise TrainingError("An episode is one prompt and one response; call reset() for the next prompt.")
            reward, terms = scorer.number(self._chosen[1], action.text, "OpenEnv")
            self._state.step_count = 1
            known = {name: None if math.isnan(term) else term for name, term in terms.items()}  # JSON has no NaN
            return self._observe(done=True, reward=reward, terms=known)

        @property
        def state(self) -> Any:
            """Return the episode's id, and how many responses it has had."""
            return self._state

        def list_splits(self) -> list[str]:
            """Return the names of the splits that `reset` takes."""
            return list(scorer.lookup.splits)

        def num_tasks(self, split: str) -> int:
            """Return the number of prompts of a split."""
            return len(scorer.lookup.of(split))

        def get_task(self, split: str, index: int) -> dict[str, Any]:
            """Return a prompt with its id."""
            example = self._at(split, index)
            return {"id": example.id, "index": index, "prompt": example.prompt}

        def _at(self, split: str, index: int) -> Example:
            examples = scorer.lookup.of(split)
            if not 0 <= index < len(examples):
                raise ConfigError(f"index is {index}, but {split} has the prompts 0 to {len(examples) - 1}.")
            return examples[index]

        def _observe(self, **more: Any) -> Any:
            assert self._chosen is not None
            split, example = self._chosen
            return GruePrompt(id=example.id, split=split, prompt=example.prompt, **more)

    name = scorer.lookup.source.replace("/", "_")
    return openenv.create_app(GrueEnvironment, GrueResponse, GruePrompt, env_name=name, max_concurrent_envs=SESSIONS)
