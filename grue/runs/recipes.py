"""From names and values to settings: defaults, a task's recipes, presets and overrides, checked.

Later wins: the default, the task's recipe, the preset, the user's own values.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from grue.algorithms import BUILT_IN, with_warm_starts
from grue.errors import ConfigError, UnknownName, did_you_mean, instead
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import OF_A_MASK, Common, RewardedConfig
from grue.runs.algorithms import ALGORITHMS, find_card, split_algorithm
from grue.runs.named import malformed
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
"""What other libraries call a setting → its name here, where spelling does not suggest it."""


def make_config(
    task: Task, algorithm: str, overrides: Mapping[str, Any], preset: str | None = None, encoder: bool = False
) -> Common:
    """Return the settings of an algorithm on a task: default < recipe < preset < overrides.

    `encoder` is as for `checked_settings`.

    All reinforcement learners share the recipe `[recipes.rl]`, each using the keys it knows; its own recipe
    overrides it, and the recipes of a warm start, `[recipes."supervised+rl"]` and `[recipes."supervised+ppo"]`, both.

    Raises:
        ConfigError: A key is unknown to the algorithm, a value is invalid, or an override has no effect.
    """
    stage = split_algorithm(algorithm)[-1]
    card = find_card(stage)
    recipe = {key: value for values in _recipes_of(task, algorithm).values() for key, value in values.items()}
    if preset is not None:
        recipe |= _preset(preset, algorithm, card.presets)
    where = f"{algorithm} on {task.suite}/{task.name}"
    idle = sorted(card.without_effect & overrides.keys())
    if idle:
        raise ConfigError(f"{where}: {idle[0]} has no effect on {stage}; leave it out.")
    if "mask" in overrides and overrides["mask"] is None:  # then the recipe's settings of a mask do not apply
        recipe = {key: value for key, value in recipe.items() if key not in (*OF_A_MASK, "mass_coefficient")}
    values = {**recipe, **overrides}
    names = [field.name for field in fields(card.settings)]
    for key in values:
        if key not in names:
            raise ConfigError(f"{where}: unknown key {key!r}.{setting_instead(key, names, stage)}")
    if overrides.get("data") is not None:
        # A recipe is for samples that are drawn: with a file, its settings of these do not apply.
        sampled = from_dict(card.settings, values, where)
        unread = sampled.unread if isinstance(sampled, ScoredConfig) else frozenset()
        values = {key: value for key, value in values.items() if key in overrides or key not in unread}
    settings = checked_settings(card.settings, values, task, where, encoder)
    defaults = {field.name: field.default for field in fields(settings)}
    for name, problem in settings.idle():
        if name in overrides and getattr(settings, name) != defaults[name]:
            raise ConfigError(f"{where}: {problem}")
    return settings


def setting_instead(name: str, settings: Iterable[str], algorithm: str) -> str:
    """Return the end of a message about an unknown setting: its name here, or else the nearest names."""
    names, listed_by = list(settings), f"grue algorithms show {algorithm}"
    ours = OTHER_NAMES.get(name.lower().replace("-", "_"))
    return f" Did you mean {ours!r}? `{listed_by}` lists all." if ours in names else instead(name, names, listed_by)


def settings_called(name: str) -> list[str]:
    """Return the settings of built-in algorithms that a name, perhaps another library's or misspelled, may mean."""
    names = {field.name for algorithm in BUILT_IN for field in fields(find_card(algorithm).settings)}
    same = [candidate for candidate in (OTHER_NAMES.get(name, ""), name) if candidate in names]
    return same or get_close_matches(name, sorted(names), n=1, cutoff=0.85)


def checked_settings(
    settings: type[Common], values: Mapping[str, Any], task: Task, where: str, encoder: bool = False
) -> Common:
    """Return values as an algorithm's settings on a task; missing ones have their defaults.

    `encoder` says that the run starts from a model with an encoder, whatever the task's backbone is.

    Raises:
        ConfigError: A key is unknown to the algorithm, or a value is invalid; the message begins with `where`.
    """
    config = from_dict(settings, values, where)
    named = malformed(config) if isinstance(config, RewardedConfig) else ()
    for problem in (*named, *config.problems(), *_problems_on(task, config, encoder)):
        raise ConfigError(f"{where}: {problem}")
    return config


def _problems_on(task: Task, config: Common, encoder: bool) -> Iterator[str]:
    """Yield what is wrong with settings for a task's model and the lengths of its rollouts."""
    if config.freeze_encoder and task.backbone.family == "causal" and not encoder:
        yield "freeze_encoder needs an encoder; the task's backbone is a causal model."
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
    algorithm_of = {preset: builtin for builtin in BUILT_IN for preset in find_card(builtin).presets}
    if name in algorithm_of:
        raise ConfigError(f"The preset {name!r} is one of {algorithm_of[name]}; {algorithm!r} does not have it.")
    raise UnknownName(f"There is no preset {name!r}.{instead(name, sorted(algorithm_of))}")


def adds_mask(algorithm: str, config: Common) -> bool:
    """Whether settings add a mask to an algorithm that has none by default: that is another system."""
    defaults = {field.name: field.default for field in fields(find_card(split_algorithm(algorithm)[-1]).settings)}
    return getattr(config, "mask", None) is not None and defaults["mask"] is None


def check_recipes(task: Task) -> list[str]:
    """Make every algorithm's settings on a task, warm starts included; return which few refuse the shared recipe.

    Raises:
        ConfigError: A recipe is of no algorithm, or has an unknown key or a value that none or only a few can use.
    """
    names = with_warm_starts(list(BUILT_IN))
    for name in task.recipes:
        if name not in (*names, SHARED, f"supervised+{SHARED}") and name not in ALGORITHMS:
            where = f"{task.suite}/{task.name}: recipes.{name}"
            raise ConfigError(f"{where} is of no algorithm.{did_you_mean(name, names)}")
    refused: dict[str, ConfigError] = {}
    used: set[tuple[str, str]] = set()
    read = {}
    for name in names:
        read[name] = {(table, key) for table, values in _recipes_of(task, name).items() for key in values}
        try:
            make_config(task, name, {})
            used |= read[name]
        except ConfigError as error:
            refused[name] = error
    for name, refusal in refused.items():
        if read[name] - used or 2 * len(refused) >= len(names):  # a value of use to none, or a recipe to few
            raise refusal
    notes = {name: f"the shared recipe is not for {refusal}" for name, refusal in refused.items()}
    return [note for name, note in notes.items() if name.partition("+")[2] not in refused]


def _recipes_of(task: Task, algorithm: str) -> dict[str, Mapping[str, Any]]:
    """Return the recipes that an algorithm reads, later ones win; of shared ones the keys that its settings have."""
    *warm, stage = split_algorithm(algorithm)
    settings = find_card(stage).settings
    recipes: dict[str, Mapping[str, Any]] = {}
    for start in ("", "supervised+") if warm else ("",):
        if issubclass(settings, RewardedConfig):
            recipes[start + SHARED] = _shared_recipe(task, start + SHARED, settings)
        recipes[start + stage] = task.recipes.get(start + stage, {})
    return recipes


def _shared_recipe(task: Task, name: str, settings: type[Common]) -> dict[str, Any]:
    """Return the part of the shared recipe of reinforcement learners that a settings class has."""
    recipe = task.recipes.get(name, {})
    classes = [*(find_card(builtin).settings for builtin in BUILT_IN), settings]
    names = {field.name for cls in classes for field in fields(cls)}
    for key in recipe:
        if key not in names:
            where = f"{task.suite}/{task.name}: recipes.{name}"
            raise ConfigError(f"{where}: unknown key {key!r}.{did_you_mean(key, names)}")
    own = {field.name for field in fields(settings)}
    return {key: value for key, value in recipe.items() if key in own}
