"""GRUE's scores while another trainer trains: TRL, any transformers Trainer, verl, OpenRLHF, prime-rl.

A reward says how well it is optimised, not whether the texts got better. What these functions make lets the model in
training answer examples of a task, and measures preference, naturalness, the held-out preference (metrics that the
reward does not raise), diversity and the KL from the start. Gains are over the first measurement, with a standard error
paired by example. A warning is given where the reward has risen and what it does not contain has fallen.

All functions here take:
    task: A task, its name in `suite`, or the path of its file.
    reward: What is trained on, as for `grue train --reward`. [default: the task's]; "" if there is none.
    split: The split whose examples are answered.
    examples: How many of them, the same ones every time.
    seed: Of the sampling, where the task samples.
    batch_size: Examples that are answered at once.
    chat: Whether the model gets the task's chat prompt, as with `grue evaluate --chat`. [default: the plain prompt]
    data_dir: A folder with the data set in its original layout, instead of the task's sources.
    offline: Open no connection for data.
    warn: Is given warnings.

and raise UnknownName or ConfigError for an invalid task, reward or number, DataError for data that is not available.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grue.api.examples import AnyTask, as_task
from grue.data.load import few_of, load_examples
from grue.evaluation.rewards import RewardFunction, give_name, make_reward
from grue.evaluation.scoring import check_examples, unavailable
from grue.records import check_number, check_seed

if TYPE_CHECKING:
    from transformers import Trainer

    from grue.evaluation.trainer_watch import TrainerWatch
    from grue.evaluation.watch import Watch


def for_trl(
    trainer: "Trainer",
    task: AnyTask,
    *,
    every: int = 50,
    best: str = "preference",
    folder: str | Path | None = None,
    kl: bool = True,
    **arguments: Any,
) -> "TrainerWatch":
    """Add a callback to a trainer of TRL or transformers that watches the model on a task (read in TRL 1.16.0).

    It measures before training, every so many steps and at the end, logs the figures as "grue/NAME", keeps them and the
    answers in `folder`, and the best model in its folder "best". Training is not changed by it: what cannot be measured
    after the start is a warning.

    Args:
        trainer: A Trainer of a causal or encoder-decoder model: GRPO, RLOO, DPO, SFT, Seq2SeqTrainer.
        every: Steps between measurements.
        best: The figure by which the best model is kept: "preference", "naturalness", "held_out", a metric; "" keeps
            none. The best of many measurements flatters itself: report it on test.
        folder: [default: "grue" in the trainer's output folder] What an earlier run left in it is replaced.
        kl: Whether the KL from the start is measured, which takes a copy of the weights that are trained.
        arguments: Those of `watch`; name a `reward` that is not the task's here, too.

    Returns:
        The callback; `.watch.history` has what was measured.

    Raises:
        ConfigError: Also if the model's weights are spread over processes, if it learns prompts, or if the trainer has
            no tokenizer. When training begins: `best` is none of the figures.
    """
    from grue.evaluation.trainer_watch import TrainerWatch

    every, of_task = check_number("every", every), watch(task, **arguments)
    trained_on, assumed = getattr(trainer, "reward_func_names", []), "".join(of_task.task.reward.split())
    if arguments.get("reward") is None and trained_on not in ([], [assumed]):
        of_task.warn(
            f"The trainer's reward is {' and '.join(trained_on)}, but what is measured as reward and held out is by "
            f"the task's, {assumed}: name what is trained on with reward=…."
        )
    place = Path(trainer.args.output_dir or ".") / "grue" if folder is None else Path(folder)
    callback = TrainerWatch(trainer, of_task, every=every, best=best, folder=place, kl=kl)
    trainer.add_callback(callback)
    return callback


def watch(
    task: AnyTask,
    *,
    reward: str | RewardFunction | None = None,
    suite: str = "mini",
    split: str = "validation",
    examples: int = 200,
    seed: int = 1,
    batch_size: int = 32,
    chat: bool = False,
    data_dir: str | Path | None = None,
    offline: bool = False,
    warn: Callable[[str], None] = warnings.warn,
) -> "Watch":
    """Return what measures a model at a step, for any trainer's hook.

    `.measure((model, tokenizer), step)` lets a model of this process answer, `.ask(grue.Endpoint(url, model), step)`
    one behind an OpenAI-compatible address, and `.score(predictions, step)` takes answers that are there already. Each
    returns what was measured, and `.history` has all of it.

    Arguments and errors as for all functions of this module.
    """
    from grue.evaluation.watch import Watch, optimised_by

    examples, batch_size = check_number("examples", examples), check_number("batch_size", batch_size)
    seed = check_seed(seed)
    of_task, place = as_task(task, suite), None if data_dir is None else Path(data_dir)
    chosen = of_task.reward if reward is None else give_name(reward) if callable(reward) else reward
    answered = few_of(load_examples(of_task, split, place, offline).examples, examples)
    check_examples(of_task, answered)
    for lacking in unavailable(of_task):
        warn(f"Will not be measured by {lacking}")
    train = load_examples(of_task, "train", place, offline).examples if chat else ()
    prepared_on = load_examples(of_task, of_task.data.reward_split, place, offline).examples if chosen else ()
    return Watch(
        of_task,
        answered,
        train,
        make_reward(chosen, of_task, prepared_on) if chosen else None,
        optimised_by(chosen, of_task),
        seed=seed,
        batch_size=batch_size,
        chat=chat,
        warn=warn,
    )
