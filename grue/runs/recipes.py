"""From names and values to settings: defaults, a task's recipes, presets and overrides, checked.

Later wins: the default, the task's recipe, the preset, the user's own values.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from grue.algorithms import BUILT_IN, with_warm_starts
from grue.errors import ConfigError, UnknownName, did_you_mean, instead
from grue.rl.settings import OF_A_MASK, Common, RewardedConfig, ScoredConfig
from grue.runs.algorithms import ALGORITHMS, find_card, split_algorithm
from grue.shapes import from_dict
from grue.tasks import Task

# The recipe that all reinforcement learners share.
SHARED = "rl"
OTHER_NAMES: Mapping[str, str] = {
    "lr": "learning_rate",
    **dict.fromkeys(("kl", "beta", "init_kl_coef"), "kl_coefficient"),
    **dict.fromkeys(("batch", "batch_size", "per_device_train_batch_size"), "minibatch_size"),
    **dict.fromkeys(("steps", "max_steps", "iterations"), "updates"),
    **dict.fromkeys(("num_generations", "group_size"), "samples_per_prompt"),
    **dict.fromkeys(("cliprange", "clip_range", "epsilon"), "clip"),
    **{"target_kl": "stop_kl", "ent_coef": "entropy_coefficient", "vf_coef": "value_coefficient"},
    **{"discount": "gamma", "grad_clip": "max_grad_norm", "bf16": "precision"},
}
"""What other libraries call a setting → its name here, where no spelling tells."""


def make_config(task: Task, algorithm: str, overrides: Mapping[str, Any], preset: str | None = None) -> Common:
    """Return the settings of an algorithm on a task: default < recipe < preset < overrides.

    The recipe `[recipes.rl]` is shared by all reinforcement learners, each of which takes from it what it knows; its
    own overrides it, and those of a warm start, `[recipes."supervised+rl"]` and `[recipes."supervised+ppo"]`, both.

    Raises:
        ConfigError: A key that the algorithm does not have, a value that cannot be, or an override that does nothing.
    """
    *warm, stage = split_algorithm(algorithm)
    found = find_card(stage)
    recipe: dict[str, Any] = {}
    for start in ("", "supervised+") if warm else ("",):
        recipe |= _shared_recipe(task, f"{start}{SHARED}", found.settings)
        recipe |= task.recipes.get(start + stage, {})
    if preset is not None:
        recipe |= _preset(preset, algorithm, found.presets)
    where = f"{algorithm} on {task.suite}/{task.name}"
    idle = sorted(found.without_effect & overrides.keys())
    if idle:
        raise ConfigError(f"{where}: {idle[0]} has no effect on {stage}; leave it out.")
    if "mask" in overrides and overrides["mask"] is None:  # what a recipe says of a mask is no wish of who takes it off
        recipe = {key: value for key, value in recipe.items() if key not in (*OF_A_MASK, "mass_coefficient")}
    values = {**recipe, **overrides}
    known = [field.name for field in fields(found.settings)]
    for key in values:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}.{setting_instead(key, known, stage)}")
    if overrides.get("data") is not None:
        # A recipe is of samples that are drawn: what it says of those is no wish of who names a file.
        config = from_dict(found.settings, values, where)
        unread = config.unread if isinstance(config, ScoredConfig) else frozenset()
        values = {key: value for key, value in values.items() if key in overrides or key not in unread}
    made = checked_settings(found.settings, values, task, where)
    usual = {field.name: field.default for field in fields(made)}
    for name, problem in made.idle():
        if name in overrides and getattr(made, name) != usual[name]:
            raise ConfigError(f"{where}: {problem}")
    return made


def setting_instead(name: str, known: Iterable[str], algorithm: str) -> str:
    """Return the end of a message about an unknown setting: what it is called here, else the nearest names."""
    names, listed_by = list(known), f"grue algorithms show {algorithm}"
    usual = OTHER_NAMES.get(name.lower().replace("-", "_"))
    return f" Did you mean {usual!r}? `{listed_by}` lists all." if usual in names else instead(name, names, listed_by)


def settings_called(name: str) -> list[str]:
    """Return the settings of built-in algorithms that a name means, which may be another library's or misspelled."""
    known = {field.name for algorithm in BUILT_IN for field in fields(find_card(algorithm).settings)}
    same = [one for one in (OTHER_NAMES.get(name, ""), name) if one in known]
    return same or get_close_matches(name, sorted(known), n=1, cutoff=0.85)


def checked_settings(settings: type[Common], values: Mapping[str, Any], task: Task, where: str) -> Common:
    """Return values as an algorithm's settings on a task; what is not given has its default.

    Raises:
        ConfigError: A key that the algorithm does not have, or a value that cannot be; names `where` it is from.
    """
    config = from_dict(settings, values, where)
    for problem in config.problems():
        raise ConfigError(f"{where}: {problem}")
    if config.freeze_encoder and task.backbone.family == "causal":
        raise ConfigError(f"{where}: freeze_encoder needs an encoder; the task's backbone is a causal model.")
    for problem in _lengths(config, task):
        raise ConfigError(f"{where}: {problem}")
    return config


def _lengths(config: Common, task: Task) -> Iterator[str]:
    """Yield what is wrong with settings of lengths, given those of the rollouts."""
    buffer = config.overlong_buffer if isinstance(config, RewardedConfig) else 0
    least, most = task.rollout.min_new_tokens, task.rollout.max_new_tokens
    if buffer > most:
        yield f"overlong_buffer {buffer} exceeds the {most} tokens that a rollout may have."
    if buffer and least == most:
        yield (
            f"overlong_buffer tells no rollouts apart, since all have {most} tokens and the same penalty; "
            "leave it out, or lower min_new_tokens of the task's rollout."
        )


def _preset(name: str, algorithm: str, presets: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    if name in presets:
        return presets[name]
    known = {preset: builtin for builtin in BUILT_IN for preset in find_card(builtin).presets}
    if name in known:
        raise ConfigError(f"The preset {name!r} is one of {known[name]}; {algorithm!r} does not have it.")
    raise UnknownName(f"There is no preset {name!r}.{instead(name, sorted(known))}")


def adds_mask(algorithm: str, config: Common) -> bool:
    """Whether settings restrict the sampler of an algorithm whose own does not: that is another system."""
    usual = {field.name: field.default for field in fields(find_card(split_algorithm(algorithm)[-1]).settings)}
    return getattr(config, "mask", None) is not None and usual["mask"] is None


def check_recipes(task: Task) -> None:
    """Make every algorithm's settings on a task, warm starts included.

    Raises:
        ConfigError: A recipe is of no algorithm, or has a key or a value that cannot be.
    """
    names = with_warm_starts(list(BUILT_IN))
    for name in task.recipes:
        if name not in (*names, SHARED, f"supervised+{SHARED}") and name not in ALGORITHMS:
            where = f"{task.suite}/{task.name}: recipes.{name}"
            raise ConfigError(f"{where} is of no algorithm.{did_you_mean(name, names)}")
    for name in names:
        make_config(task, name, {})


def _shared_recipe(task: Task, name: str, settings: type[Common]) -> dict[str, Any]:
    """Return what a settings class knows of the recipe that all reinforcement learners share."""
    recipe = task.recipes.get(name, {})
    if not issubclass(settings, RewardedConfig):
        return {}
    classes = [*(find_card(builtin).settings for builtin in BUILT_IN), settings]
    known = {field.name for one in classes for field in fields(one)}
    for key in recipe:
        if key not in known:
            where = f"{task.suite}/{task.name}: recipes.{name}"
            raise ConfigError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)}")
    own = {field.name for field in fields(settings)}
    return {key: value for key, value in recipe.items() if key in own}
