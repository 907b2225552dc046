"""What another trainer makes of its first batch, captured; and the batch on which a loss of one's own is tried.

Read in TRL 1.16.0. The trainer is only watched: what it draws, computes and changes is its own, except that its policy
is pushed off the reference before the first step (`grue.rl.first_step`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue.algorithms.cards.grpo import GRPOConfig
from grue.data.load import load_examples
from grue.errors import ConfigError
from grue.evaluation.rewards import make_reward
from grue.lm.constraints import end_ids
from grue.lm.load import load_language_model
from grue.lm.model import dropout_rates, eos_id, freeze
from grue.lm.tokens import Tokens, padded
from grue.rl.experience import collect
from grue.rl.first_step import FirstStep, Weights, push_off
from grue.rl.fixed_batch import FixedBatch, fixed_batch
from grue.rl.optimize import encode_pairs
from grue.rl.trainer import Trainer, start
from grue.tasks import Task

LossFunction = Callable[[PreTrainedModel, FixedBatch], Any]
"""A loss of one's own, a scalar tensor."""


def trainer_of(task: Task, seed: int) -> Trainer:
    """Return grue's trainer at a task's backbone, with the task's reward."""
    policy, tokenizer = load_language_model("causal", task.backbone.model, task.backbone.revision)
    examples = load_examples(task, task.data.reward_split).examples
    return Trainer(task, policy, tokenizer, examples, make_reward(task.reward, task, examples), seed)


def draw_batch(trainer: Trainer, method: str, config: GRPOConfig) -> FixedBatch:
    """Push the trainer's policy off its start, and return responses that it draws, as the method learns them.

    Args:
        method: For "dpo" only the best and the worst response to each prompt are kept, for "supervised" there are
            references in place of responses.
        config: How many are drawn, and β.
    """
    policy, tokenizer = trainer.policy, trainer.tokenizer
    reference, size = freeze(policy), config.samples_per_prompt
    push_off(policy, trainer.seed)
    if method == "supervised":
        prompts, responses = encode_pairs(trainer, trainer.pairs[: config.rollouts])
        rewards, size = torch.zeros(len(responses.ids)), 1
    else:
        experience = collect(trainer, start(trainer, config), config, 0)
        prompts, responses, rewards = experience.rollout.prompts, experience.rollout.responses, experience.scores
    if method == "dpo":
        groups = rewards.view(-1, size)
        chosen = torch.stack([groups.argmax(1), groups.argmin(1)], 1)
        rows = (chosen + torch.arange(len(groups)).unsqueeze(1) * size)[groups.amax(1) > groups.amin(1)].flatten()
        prompts, responses = (Tokens(part.ids[rows], part.mask[rows]) for part in (prompts, responses))
        rewards, size = torch.tensor([1.0, 0.0]).repeat(len(rows) // 2), 2
        if not len(rows):
            raise ConfigError("The responses to each prompt have equal rewards, so there is no pair: raise --batch.")
    return fixed_batch(
        prompts,
        responses,
        rewards,
        end_ids(policy, eos_id(policy, tokenizer)),
        reference,
        temperature=1.0 if method in ("dpo", "supervised") else trainer.task.rollout.temperature,
        group_size=size,
        penalty=config.kl_coefficient,
        max_new_tokens=trainer.task.rollout.max_new_tokens,
    )


# --- a loss of one's own ----------------------------------------------------------------------------------------------


def step_of_loss(name: str, function: LossFunction, model: PreTrainedModel, batch: FixedBatch) -> FirstStep:
    """Return what a loss makes of a batch.

    Raises:
        ConfigError: It raises an error, or returns no finite scalar with a gradient.
    """
    try:
        loss = function(model, batch)
    except Exception as error:
        raise ConfigError(f"The loss {name!r} raised {type(error).__name__}: {error}.") from error
    if not isinstance(loss, Tensor) or loss.ndim or not loss.is_floating_point():
        what = f"a tensor {list(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise ConfigError(f"The loss {name!r} returned {what}; it must return a scalar tensor, such as loss.mean().")
    with gradients(model) as found:
        if loss.requires_grad:
            loss.backward()
    model.zero_grad(set_to_none=True)
    if not any(part.any() for part in found.values()):
        raise ConfigError(
            f"The loss {name!r} has no gradient with respect to the model: compute it from the model's logits, without "
            "torch.no_grad() or .detach()."
        )
    if not all(part.isfinite().all() for part in (loss, *found.values())):
        raise ConfigError(f"The loss {name!r} or its gradient is not finite.")
    return FirstStep(batch, weights(model), float(loss.detach()), whole(found, model))


def whole(found: Weights, model: nn.Module) -> Weights:
    """Return the gradients of all parameters, 0 where there is none."""
    return {name: found.get(name, torch.zeros_like(p, device="cpu")) for name, p in model.named_parameters()}


def weights(model: nn.Module) -> Weights:
    """Return a copy of a model's parameters, on the CPU."""
    return {name: parameter.detach().to("cpu", copy=True) for name, parameter in model.named_parameters()}


@contextmanager
def gradients(model: nn.Module) -> Iterator[Weights]:
    """Yield the gradients of the last backward pass within the block, on the CPU, of the parameters that get one."""
    found: dict[str, Tensor] = {}

    def keep(name: str, parameter: Tensor) -> None:
        assert parameter.grad is not None
        found[name] = parameter.grad.detach().to("cpu", copy=True)

    learning = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    handles = [p.register_post_accumulate_grad_hook(partial(keep, name)) for name, p in learning]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


# --- TRL --------------------------------------------------------------------------------------------------------------


def step_of_trainer(
    trainer: Any,
    reference: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
    penalty: float,
    max_new_tokens: int,
) -> FirstStep:
    """Let a GRPO, RLOO, DPO or SFT trainer of TRL take its first step, and return it.

    The trainer is not yet trained, of a model like `reference`, which it began from; `penalty` is β.

    Raises:
        ConfigError: It has no hook to watch, its batch is not one whole, or its model is not in float32.
    """
    name, arguments = type(trainer).__name__, trainer.args
    of_rollouts = hasattr(trainer, "_generate_and_score_completions") and hasattr(trainer, "_calculate_rewards")
    if not hasattr(trainer, "compute_loss") or (not of_rollouts and not hasattr(trainer, "_prepare_dataset")):
        raise ConfigError(
            f"{name} has no hook where its first batch can be seen: hand over a GRPO, RLOO, DPO or SFT trainer of TRL, "
            "or compare a loss with --loss."
        )
    parts = arguments.gradient_accumulation_steps, getattr(arguments, "steps_per_generation", 1) or 1
    if parts != (1, 1) or arguments.world_size > 1:
        raise ConfigError(
            f"{name} takes its first step on a part of a batch: set gradient_accumulation_steps and "
            "steps_per_generation to 1, per_device_train_batch_size to the whole, and run one process."
        )
    model = trainer.accelerator.unwrap_model(trainer.model)
    if arguments.bf16 or arguments.fp16 or {p.dtype for p in model.parameters()} != {torch.float32}:
        raise ConfigError(f"{name} trains in half precision, whose rounding hides differences: train in float32.")
    if trainer.processing_class.get_vocab() != tokenizer.get_vocab():
        raise ConfigError(f"{name} has another tokenizer than the task's backbone: give it the backbone's.")
    if any(map(dropout_rates, model.modules())):
        raise ConfigError(f"{name} trains with dropout, which is drawn anew each time: set the model's dropout to 0.")
    push_off(model, seed)
    before = weights(model)
    seen: dict[Any, Any] = {}
    arguments.max_steps = arguments.logging_steps = 1

    def watch(hook: str) -> None:
        method = getattr(trainer, hook)

        def watched(*given: Any, **named: Any) -> Any:
            seen[hook, "given"], seen[hook] = given, (result := method(*given, **named))
            return result

        setattr(trainer, hook, watched)

    for hook in ("compute_loss", *(("_generate_and_score_completions", "_calculate_rewards") if of_rollouts else ())):
        watch(hook)
    with gradients(model) as gradient:
        trainer.train()
    after, inputs = weights(model), seen["compute_loss", "given"][1]
    if of_rollouts:
        values = seen["_calculate_rewards"].cpu()
        rewards = (values * trainer.reward_weights.cpu()).nansum(1).masked_fill(values.isnan().all(1), torch.nan)
        inputs = _on_cpu(seen["_generate_and_score_completions"])
        prompts, responses = Tokens(inputs["prompt_ids"], inputs["prompt_mask"].bool()), inputs["completion_ids"]
        read = learned = inputs["completion_mask"].bool() & inputs.get("tool_mask", torch.ones(1)).bool()
        size, temperature = arguments.num_generations, arguments.temperature
    else:
        prompts, responses, read, learned = _split(_on_cpu(inputs), name)
        is_pairs, temperature = "completion_mask" in inputs, 1.0
        size = 2 if is_pairs else 1
        rewards = torch.tensor([1.0, 0.0] if is_pairs else [0.0]).repeat(len(responses) // size)
    batch = fixed_batch(
        prompts,
        Tokens(responses, read),
        rewards,
        end_ids(reference, eos_id(reference, tokenizer)),
        reference,
        temperature=temperature,
        group_size=size,
        penalty=penalty,
        max_new_tokens=max_new_tokens,
    )
    return FirstStep(
        batch=batch,
        start=before,
        loss=float(seen["compute_loss"].detach()),
        gradient=whole(gradient, model),
        learned=learned,
        advantages=inputs.get("advantages"),
        kl=next((line["kl"] for line in trainer.state.log_history if "kl" in line), None),
        change={name: after[name] - value for name, value in before.items()},
    )


def _on_cpu(inputs: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: value.cpu() for name, value in inputs.items() if isinstance(value, Tensor)}


def _split(inputs: Mapping[str, Tensor], name: str) -> tuple[Tokens, Tensor, Tensor, Tensor]:
    """Return prompts, and of the responses ids, what attention reads and what is learned, of DPO's or SFT's inputs."""
    read = inputs["attention_mask"].bool()
    if "completion_mask" in inputs:  # the better responses, then the worse
        learned = inputs["completion_mask"].bool()
        order = torch.arange(len(learned)).view(2, -1).T.flatten()
    else:
        learned, order = inputs["labels"] != -100, torch.arange(len(read))
    if not learned.any(1).all():
        raise ConfigError(f"{name} learns no token of a response: its longest length cuts it off. Raise max_length.")
    rows = [(row, int(learned[row].long().argmax())) for row in order.tolist()]  # where the response begins
    filler = int(inputs["input_ids"][~read][0]) if not read.all() else 0
    device = read.device
    prompts = padded([inputs["input_ids"][row, :at][read[row, :at]].tolist() for row, at in rows], filler, device, True)
    parts = (inputs["input_ids"], read, learned)
    ids, attention, mask = (
        padded([part[row, at:].tolist() for row, at in rows], fill, device).ids
        for part, fill in zip(parts, (filler, 0, 0), strict=True)
    )
    return prompts, ids, attention.bool(), mask.bool()
