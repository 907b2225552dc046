"""grue's trainer as one side of the benchmark: the loop of `grue train`, one update per turn."""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch
from setting import Peer, Setting, make_tokenizer, prompts, random_model, read_setting
from torch import Tensor, nn

import grue
from grue.algorithms import ppo
from grue.lm.adapters import adapt
from grue.records import Example
from grue.rl.settings import CONFIGS, Common
from grue.runs.plan import Plan
from grue.runs.recipes import ALGORITHMS
from grue.runs.train import Run
from grue.tasks import Backbone, Data, Generation, MetricSpec, Prompt, Source, Split, Task

UPDATES = 10**6  # more than any benchmark runs


class ModelTime:
    """CPU seconds spent inside models: their forward passes, and the part of backward passes behind the logits."""

    def __init__(self) -> None:
        self.seconds, self.depth, self.since, self.behind_logits = 0.0, 0, 0.0, 0.0
        nn.modules.module.register_module_forward_pre_hook(self._enter)
        nn.modules.module.register_module_forward_hook(self._leave)
        self.plain_backward = Tensor.backward
        Tensor.backward = lambda *args, **kwargs: self._backward(*args, **kwargs)  # type: ignore[method-assign]

    def _enter(self, module: nn.Module, _: Any) -> None:
        if self.depth == 0:
            self.since = time.process_time()
        self.depth += 1

    def _leave(self, module: nn.Module, _: Any, output: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.process_time() - self.since
            logits = getattr(output, "logits", None)
            if logits is not None and logits.requires_grad:
                logits.register_hook(self._reach_logits)

    def _reach_logits(self, _: Tensor) -> None:
        self.behind_logits = time.process_time()

    def _backward(self, *args: Any, **kwargs: Any) -> None:
        self.behind_logits = time.process_time()
        self.plain_backward(*args, **kwargs)
        self.seconds += time.process_time() - self.behind_logits


class Silence:
    """An observer that ignores every event."""

    def started(self, *_: Any) -> None:
        """Ignore it."""

    updated = sampled = validated = started


@dataclass
class TurnTaking(Run):
    """A run that waits for the driver between updates, and does not log, validate or save."""

    peer: Peer | None = None
    models: ModelTime | None = None
    profiler: torch.profiler.profile | None = None

    def resume(self, learner: Any, total: int) -> int:
        """Report that the run is ready."""
        names = ("torch", "transformers")
        self.peer.tell(ready=True, versions={"grue": grue.__version__} | {name: version(name) for name in names})
        self._next_turn()
        return 0

    def end_update(self, done: int, total: int, line: Mapping[str, float], learner: Any) -> None:
        """Answer, and wait for the next turn."""
        self.peer.mark("update")
        more: dict[str, Any] = {"length": line["objective/length"], "mask": line["mask/size"]}
        if self.profiler is not None:
            self.profiler.stop()
            more["operators"] = operators(self.profiler)
        self.peer.done(in_models=self.models.seconds, **more)
        self._next_turn()

    def _next_turn(self) -> None:
        word = self.peer.wait()
        self.models.seconds = 0.0
        self.profiler = torch.profiler.profile() if word == "profile" else None
        if self.profiler is not None:
            self.profiler.start()


def operators(profiler: torch.profiler.profile) -> list[tuple[str, float, int]]:
    """Return name, share of time and number of calls of the most expensive operators."""
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    return [(event.key, event.self_cpu_time_total / total, event.count) for event in events[:15]]


def make_task(setting: Setting) -> Task:
    """Return a task with the setting's lengths, without a data set."""
    generation = Generation(max_new_tokens=setting.response, do_sample=True)
    return Task(
        schema=1,
        name="benchmark",
        suite="benchmarks",
        version=1,
        title="",
        description="",
        data=Data(
            format="commongen",
            language="en",
            licence="",
            sources=(Source("mini", "commongen"),),
            splits={name: Split(name) for name in ("train", "validation", "test")},
            evaluation="test",
        ),
        prompt=Prompt(max_tokens=setting.prompt, truncation="left"),
        rollout=generation,
        decoding=generation,
        backbone=Backbone(family=setting.family, model="random"),
        reward="rouge1",
        metrics=(MetricSpec("rouge1", "preference", (0.0, 1.0)),),
        recipes={},
    )


def make_config(setting: Setting) -> Common:
    """Return the algorithm's configuration; settings that TRL has too are equal on both sides."""
    return CONFIGS[setting.algorithm](
        **{
            "learning_rate": 1e-6,
            "updates": UPDATES,
            "rollouts": setting.rollouts,
            "epochs": setting.epochs,
            "minibatch_size": setting.rollouts // setting.minibatches,
            "micro_batch_size": setting.micro_batch,
            "precision": setting.precision,
            **setting.options,
        }
    )


def make_run(setting: Setting, peer: Peer, folder: Path) -> TurnTaking:
    """Return a run on a random model; the reward is the share of tokens with a number divisible by 7."""

    def reward(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        peer.mark("generation")
        words = [text.split() for text in texts]
        return [sum(int(word[1:]) % 7 == 0 for word in each) / max(1, len(each)) for each in words]

    examples = [
        Example(id=str(number), prompt=" ".join(f"w{token}" for token in tokens), references=())
        for number, tokens in enumerate(prompts(setting))
    ]
    config = make_config(setting)
    policy = random_model(setting)
    adapt(policy, config)
    return TurnTaking(
        plan=Plan(make_task(setting), setting.algorithm, config, "rouge1", 1, setting.algorithm, folder),
        policy=policy,
        tokenizer=make_tokenizer(setting),
        examples=examples,
        validation=[],
        reward=reward,
        observer=Silence(),
        stop=lambda: False,
        training={},
        peer=peer,
    )


def note_scoring(peer: Peer) -> None:
    """Note the end of scoring: the optimiser's steps come next."""
    improve = ppo.improve

    def improving(*args: Any, **kwargs: Any) -> Any:
        peer.mark("scoring")
        return improve(*args, **kwargs)

    ppo.improve = improving


def main() -> None:
    """Build the run and take turns until the driver ends."""
    setting = read_setting()
    peer = Peer(setting)
    note_scoring(peer)
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(setting, peer, Path(folder))
        run.models = ModelTime()
        ALGORITHMS[setting.algorithm](run, run.plan.config)


if __name__ == "__main__":
    main()
