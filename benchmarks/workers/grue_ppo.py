"""grue's trainer as one side of its benchmark: the updates that `grue train` makes, in turns with the other side."""

import os
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch
from setting import Peer, Setting, make_model, make_tokenizer, prompts, read_setting
from torch import Tensor, nn

import grue
from grue.algorithms import grpo, ppo, reinforce
from grue.evaluation.rewards import give_name, make_reward
from grue.lm.adapters import adapt
from grue.records import Example
from grue.rl import groups
from grue.rl.settings import Common
from grue.rl.trainer import Algorithm, Trainer
from grue.runs.algorithms import find_algorithm
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


def take_turns(algorithm: Algorithm[Any], trainer: Trainer, config: Common, peer: Peer) -> None:
    """Make updates, each when the driver asks for it."""
    models = ModelTime()
    state = algorithm.start(trainer, config)
    names = ("torch", "transformers")
    peer.tell(ready=True, versions={"grue": grue.__version__} | {name: version(name) for name in names})
    for n in range(UPDATES):
        profiler = torch.profiler.profile() if peer.wait() == "profile" else None
        models.seconds = 0.0
        if profiler is not None:
            profiler.start()
        figures = algorithm.update(trainer, state, config, n)
        peer.mark("update")
        more: dict[str, Any] = {"length": figures["objective/length"], "mask": figures["mask/size"]}
        if profiler is not None:
            profiler.stop()
            more["operators"] = operators(profiler)
        peer.done(in_models=models.seconds, **more)


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
        backbone=Backbone(family="seq2seq" if setting.family == "seq2seq" else "causal", model="random"),
        reward="rouge1",
        metrics=(MetricSpec("rouge1", "preference", (0.0, 1.0)),),
        recipes={},
    )


def make_config(setting: Setting) -> Common:
    """Return the algorithm's configuration: what TRL's has too is equal on both sides."""
    return find_algorithm(setting.algorithm).settings(
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


def make_trainer(setting: Setting, config: Common, peer: Peer) -> Trainer:
    """Return a random model to train, with the share of tokens whose number 7 divides as reward."""

    def reward(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        peer.mark("generation")
        words = [text.split() for text in texts]
        return [sum(int(word[1:]) % 7 == 0 for word in each) / max(1, len(each)) for each in words]

    examples = [
        Example(id=str(number), prompt=text, references=(text,))
        for number, text in enumerate(" ".join(f"w{token}" for token in tokens) for tokens in prompts(setting))
    ]
    policy = make_model(setting)
    adapt(policy, config)
    task = make_task(setting)
    return Trainer(
        task=task,
        policy=policy,
        tokenizer=make_tokenizer(setting),
        examples=examples,
        reward=make_reward(give_name(reward), task, examples),
        seed=1,
        precision=config.precision,
    )


def note_scoring(peer: Peer) -> None:
    """Note the end of scoring: the optimiser's steps come next."""
    optimize = ppo.optimize

    def optimizing(*args: Any, **kwargs: Any) -> Any:
        peer.mark("scoring")
        return optimize(*args, **kwargs)

    for module in (ppo, grpo, reinforce, groups):
        module.optimize = optimizing


def main() -> None:
    """Take turns with the driver until it stops asking."""
    setting = read_setting()
    peer = Peer(setting)
    note_scoring(peer)
    config = make_config(setting)
    take_turns(find_algorithm(setting.algorithm), make_trainer(setting, config, peer), config, peer)


if __name__ == "__main__":
    main()
