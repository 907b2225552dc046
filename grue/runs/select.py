"""Which training prompts a run learns from: chosen once before the first update, and kept in `selected.json`.

`hard:K` is BLEUBERI's choice (Chang et al. 2025, arXiv 2505.11080): the start answers every prompt once, and the K
prompts with the lowest rewards are kept. Unlike in the paper, answers are sampled as the run's rollouts are, a prompt
without a reward is left out, and the seed breaks ties. `limr` is in `runs/impact.py`.

The prompts keep the order of the training examples.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from grue import files
from grue.errors import ConfigError, DataError
from grue.lm.seeds import derived_seed, example_uniforms, generator
from grue.records import COSTS
from grue.rl.responses import draw_responses, own_mask, reward_responses
from grue.rl.settings import RewardedConfig, rollout_settings
from grue.rl.trainer import Trainer
from grue.runs import impact
from grue.runs.named import HardPrompts, ImpactPrompts, parse_select
from grue.runs.plan import Plan

NAME = "selected.json"


@dataclass(frozen=True, slots=True)
class Selection:
    """The prompts that a run learns from; the content of `selected.json`.

    Attributes:
        configuration: Hash of the run's record.
        kept: Example id → reward of the start's answer (`hard`), or learning impact (`limr`).
        training: The cost of choosing them, of `COSTS`; what is unknown is missing.
    """

    select: str
    configuration: str
    kept: Mapping[str, float]
    training: Mapping[str, float]


def check_selection(plan: Plan) -> None:
    """Refuse an earlier run that cannot be chosen by, before anything is loaded.

    Raises:
        ConfigError, DataError: As for `choose`.
    """
    setting = _setting(plan)
    if isinstance(setting, ImpactPrompts):
        if setting.run.resolve() == plan.folder.resolve():
            raise ConfigError(f"select: {setting.run} is this run's own folder; give limr an earlier run.")
        impact.check(setting.run, plan)


def selection(plan: Plan, trainer: Trainer, configuration: str) -> Selection | None:
    """Return the prompts that a run learns from, read from its folder, or chosen now and written there; None for all.

    All ranks must call this, and get the same result.

    Raises:
        ConfigError: As for `choose`.
        DataError: As for `choose`, or the file in the folder is damaged or of another configuration.
    """
    if _setting(plan) is None:
        return None
    path, distributed = plan.folder / NAME, trainer.distributed
    if distributed.any(distributed.is_main and path.exists()):
        return _read(path, plan, trainer, configuration)
    chosen = choose(plan, trainer, configuration)
    if distributed.is_main:
        files.write_json(path, chosen)
    distributed.barrier()
    return chosen


def choose(plan: Plan, trainer: Trainer, configuration: str = "") -> Selection:
    """Choose the prompts that a run learns from; nothing is written.

    Raises:
        ConfigError: Fewer prompts can be kept than requested, or none.
        DataError: The earlier run cannot be chosen by.
    """
    setting = _setting(plan)
    assert setting is not None
    assert isinstance(plan.config, RewardedConfig)
    if isinstance(setting, HardPrompts):
        kept, training = _hardest(trainer, plan.config, setting.count)
    else:
        kept, training = _of_impact(trainer, setting)
    return Selection(str(plan.config.select), configuration, kept, training)


def narrowed(trainer: Trainer, chosen: Selection) -> Trainer:
    """Return the trainer with only the chosen examples."""
    return replace(trainer, examples=[example for example in trainer.examples if example.id in chosen.kept])


def _setting(plan: Plan) -> HardPrompts | ImpactPrompts | None:
    return parse_select(plan.config.select) if isinstance(plan.config, RewardedConfig) else None


def _read(path: Path, plan: Plan, trainer: Trainer, configuration: str) -> Selection:
    saved = files.load_json(path, Selection)
    if saved.configuration != configuration:
        raise DataError(
            f"{path}: is of another configuration ({saved.select}). Remove {plan.folder} to start the run again."
        )
    missing = saved.kept.keys() - {example.id for example in trainer.examples}
    if missing or not saved.kept:
        fault = f"keeps {min(missing)!r}, which is no training example" if missing else "keeps no prompt"
        raise DataError(f"{path}: {fault}. Restore the file, or remove {plan.folder} to start the run again.")
    return saved


# --- hard:K ----------------------------------------------------------------------------------------------------------


def _hardest(trainer: Trainer, config: RewardedConfig, count: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the prompts that the start answers worst, each with its reward, and the cost, over all ranks."""
    total, began = len(trainer.examples), time.monotonic()
    if count > total:
        raise ConfigError(f"select = hard:{count}: there are {total} training prompts; keep fewer.")
    rewards, tokens = _answers(trainer, config)
    scored = [place for place, reward in enumerate(rewards) if not math.isnan(reward)]
    if count > len(scored):
        raise ConfigError(
            f"select = hard:{count}: the reward applies to the start's answers to {len(scored)} of {total} training "
            "prompts; keep fewer, or add a term that applies to every text."
        )
    lots = torch.randperm(total, generator=generator(trainer.seed, "select", "ties")).tolist()
    kept = sorted(sorted(scored, key=lambda place: (rewards[place], lots[place]))[:count])
    counted = dict.fromkeys(("episodes", "prompts", "reward_calls"), float(total))
    seconds = time.monotonic() - began
    spent = {"tokens": 0.0, "steps": 0.0, **counted, "generated_tokens": tokens, "seconds": seconds}
    return {trainer.examples[place].id: rewards[place] for place in kept}, spent


def _answers(trainer: Trainer, config: RewardedConfig) -> tuple[list[float], float]:
    """Return the reward of the start's answer to each training prompt, NaN without one, and the number of tokens drawn.

    An answer depends only on the run's seed and the example; a greedy one, on no seed.
    """
    settings, mask = rollout_settings(trainer.task, config), own_mask(trainer, config)
    seed = derived_seed(trainer.seed, "select")
    mine = trainer.examples[trainer.distributed.share(len(trainer.examples))]
    rewards: list[float] = []
    tokens: Tensor = torch.zeros((), dtype=torch.float64)
    for begin in range(0, len(mine), config.micro_batch_size):
        batch = mine[begin : begin + config.micro_batch_size]
        uniforms = example_uniforms(seed, batch, settings.max_new_tokens)
        if config.greedy:
            uniforms = torch.zeros_like(uniforms)  # the first of equally likely tokens
        rollout = draw_responses(trainer, trainer.policy, settings, batch, uniforms, mask)
        rewards += reward_responses(trainer, batch, rollout, 0).sums.tolist()
        tokens += rollout.responses.mask.sum().cpu()
    return trainer.distributed.gather(rewards), float(trainer.distributed.sum(tokens))


# --- limr:THETA:RUN --------------------------------------------------------------------------------------------------


def _of_impact(trainer: Trainer, setting: ImpactPrompts) -> tuple[dict[str, float], dict[str, float]]:
    """Return the prompts whose learning impact in an earlier run was high enough, and the cost of that run.

    That of choosing its own prompts is part of it; what is unknown is missing.
    """
    impacts = impact.impacts(setting.run)
    mine = {example.id for example in trainer.examples}
    ours = {key: value for key, value in impacts.items() if key in mine}
    if not ours:
        raise ConfigError(f"select: none of the {len(impacts)} prompts of {setting.run} is one of this run's.")
    high = {key for key, value in ours.items() if value > setting.threshold}
    kept = {example.id: ours[example.id] for example in trainer.examples if example.id in high}
    if not kept:
        raise ConfigError(
            f"select: none of {len(ours)} prompts has an impact above {setting.threshold:g}; theirs in {setting.run} "
            f"are {min(ours.values()):.3f} to {max(ours.values()):.3f}. Lower the threshold."
        )
    own, path = impact.cost(setting.run), setting.run / NAME
    chosen = files.load_json(path, Selection).training if path.exists() else dict.fromkeys(COSTS, 0.0)
    return kept, {name: own[name] + chosen[name] for name in COSTS if name in own and name in chosen}
