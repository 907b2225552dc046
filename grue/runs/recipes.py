"""From names and values to a configuration: an algorithm's stages, presets, recipes and overrides, checked.

Later wins: the default, the task's recipe, the preset, the user's own values.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from grue.errors import ConfigError, UnknownName, did_you_mean
from grue.files import plain
from grue.registry import Registry
from grue.rl.settings import CONFIGS, A2CConfig, Common, GRPOConfig, RolloutConfig, TRPOConfig
from grue.shapes import from_dict
from grue.tasks import Task

# NLPO as the paper describes it, as the published code really ran it, and as it is stable.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"mask_source": "periodic", "mass_coefficient": 0.0, "kl_over": "vocabulary", "ratio_over": "support"},
    "rl4lms": {
        "mask_source": "frozen",
        "mass_coefficient": 0.0,
        "min_tokens_to_keep": 100,
        "always_open": "special",
        "kl_over": "vocabulary",
        "ratio_over": "vocabulary",
    },
    "stable": {"mask_source": "periodic", "mass_coefficient": 0.1, "kl_over": "support", "ratio_over": "support"},
}

# The recipe that all reinforcement learners share.
SHARED = "rl"

# An algorithm is a function `train(run: Run, config: SomeConfig) -> None` that trains `run.policy` in place.
ALGORITHMS: Registry[Any] = Registry(
    "algorithm",
    modules={name: f"grue.algorithms.{name}" for name in CONFIGS if name != "rloo"}
    | {"rloo": "grue.algorithms.reinforce"},
    entry_points="grue.algorithms",
)


def config_class(algorithm: str) -> type[Common]:
    """Return the class of an algorithm's configuration: the annotation of its function's argument `config`.

    Raises:
        ConfigError: A plug-in's function does not say what its configuration is.
    """
    if algorithm in CONFIGS:
        return CONFIGS[algorithm]
    found = get_type_hints(ALGORITHMS[algorithm]).get("config")
    if not (isinstance(found, type) and issubclass(found, Common)):
        raise ConfigError(
            f"The algorithm {algorithm!r} must be a function train(run: Run, config: C) -> None, where C is a frozen "
            "dataclass made from one of grue.rl.settings."
        )
    return found


def split_algorithm(name: str) -> tuple[str, ...]:
    """Split `supervised+nlpo` into its stages.

    Raises:
        UnknownName: A stage is no algorithm.
        ConfigError: A warm start that is not supervised.
    """
    stages = tuple(name.split("+"))
    for stage in stages:
        if stage not in ALGORITHMS:
            names = ALGORITHMS.names()
            known = [*names, *(f"supervised+{other}" for other in names if other != "supervised")]
            raise UnknownName(
                f"There is no algorithm {stage!r}.{did_you_mean(stage, known)} Known: {', '.join(known)}."
            )
    if len(stages) > 2 or (len(stages) == 2 and (stages[0] != "supervised" or stages[1] == "supervised")):
        raise ConfigError(f"{name!r} is no chain of stages; write supervised+ALGORITHM, such as supervised+nlpo.")
    return stages


def make_config(task: Task, algorithm: str, overrides: Mapping[str, Any], preset: str | None = None) -> Common:
    """Return the configuration of an algorithm on a task: default < recipe < preset < overrides.

    The recipe `[recipes.rl]` is every reinforcement learner's, each taking of it what it knows; its own lies over it,
    and over both those of a warm start, `[recipes."supervised+rl"]` and `[recipes."supervised+ppo"]`.

    Raises:
        ConfigError: A key that the algorithm does not have, or a value that cannot be.
    """
    *warm, stage = split_algorithm(algorithm)
    recipe: dict[str, Any] = {}
    for start in ("", "supervised+") if warm else ("",):
        recipe |= _shared_recipe(task, f"{start}{SHARED}", config_class(stage))
        recipe |= task.recipes.get(start + stage, {})
    if preset is not None:
        if preset not in PRESETS:
            raise UnknownName(
                f"There is no preset {preset!r}.{did_you_mean(preset, PRESETS)} Known: {', '.join(PRESETS)}."
            )
        if stage != "nlpo":
            raise ConfigError(f"The preset {preset!r} is one of NLPO's; {algorithm!r} has none.")
        recipe |= PRESETS[preset]
    where = f"{algorithm} on {task.suite}/{task.name}"
    idle = sorted(WITHOUT_EFFECT.get(stage, frozenset()) & overrides.keys())
    if idle:
        raise ConfigError(f"{where}: {idle[0]} has no effect on {stage}; leave it out.")
    config = from_dict(config_class(stage), {**recipe, **overrides}, where)
    _check_values(config, where)
    _check_sizes(config, task, where)
    return config


def check_recipes(task: Task) -> None:
    """Make every algorithm's configuration on a task, warm starts included.

    Raises:
        ConfigError: A recipe is of no algorithm, or has a key or a value that cannot be.
    """
    names = [*CONFIGS, *(f"supervised+{name}" for name in CONFIGS if name != "supervised")]
    for name in task.recipes:
        if name not in (*names, SHARED, f"supervised+{SHARED}") and name not in ALGORITHMS:
            where = f"{task.suite}/{task.name}: recipes.{name}"
            raise ConfigError(f"{where} is of no algorithm.{did_you_mean(name, names)}")
    for name in names:
        make_config(task, name, {})


def _shared_recipe(task: Task, name: str, config: type[Common]) -> dict[str, Any]:
    """Return what a configuration knows of the recipe that all reinforcement learners share."""
    recipe = task.recipes.get(name, {})
    if not issubclass(config, RolloutConfig):
        return {}
    known = {field.name for one in (*CONFIGS.values(), config) for field in fields(one)}
    for key in recipe:
        if key not in known:
            where = f"{task.suite}/{task.name}: recipes.{name}"
            raise ConfigError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)}")
    own = {field.name for field in fields(config)}
    return {key: value for key, value in recipe.items() if key in own}


# Settings that an algorithm inherits and that have no say in it: silence would mislead who sets them.
WITHOUT_EFFECT: Mapping[str, frozenset[str]] = {
    "a2c": frozenset({"epochs", "minibatch_size", "stop_kl"}),
    "trpo": frozenset({"epochs", "stop_kl", "value_coefficient", "log_prob_chunk"}),
}

POSITIVE = {
    *("learning_rate", "epochs", "updates", "rollouts", "batch_size", "minibatch_size", "micro_batch_size"),
    *("validate_every", "save_every", "validation_examples", "mask_updates", "max_grad_norm", "samples_per_prompt"),
    *("keep_last", "lora_alpha", "trust_region", "cg_steps", "line_search_steps", "critic_epochs", "kl_horizon"),
    *("kl_target", "stop_kl", "value_clip", "reward_clip", "dual_clip", "fisher_share", "train_share"),
    "rollout_temperature",
}
UNIT = {"gamma", "gae_lambda", "warmup", "top_p", "line_search_shrink", "fisher_share", "train_share", "dropout"}
AT_LEAST_ZERO = {
    *("lora_rank", "log_prob_chunk", "weight_decay", "mass_coefficient", "kl_coefficient", "cg_damping"),
    "rollout_top_k",
}


def _check_values(config: Common, where: str) -> None:
    for key, value in plain(config).items():
        if value is None:
            continue
        if key in POSITIVE and value <= 0:
            optional = type(config).__dataclass_fields__[key].default is None
            raise ConfigError(
                f"{where}: {key} must be above 0, found {value}{'; leave it out to turn it off' if optional else ''}."
            )
        if key in UNIT and not 0.0 <= value <= 1.0:
            raise ConfigError(f"{where}: {key} must lie between 0 and 1, found {value}.")
        if key in AT_LEAST_ZERO and value < 0:
            raise ConfigError(f"{where}: {key} must not be negative, found {value}.")


def _check_sizes(config: Common, task: Task, where: str) -> None:
    if config.sharded and (config.lora_rank or isinstance(config, TRPOConfig)):
        other = "lora_rank" if config.lora_rank else "TRPO, whose step takes all weights as one vector"
        raise ConfigError(f"{where}: sharded does not go with {other}; set sharded = false.")
    if config.freeze_encoder and task.backbone.family == "causal":
        raise ConfigError(f"{where}: freeze_encoder needs an encoder; the task's backbone is a causal model.")
    if not isinstance(config, RolloutConfig):
        return
    if config.dropout == 1.0:
        raise ConfigError(f"{where}: dropout must be below 1, found 1.0: nothing would be left of the policy.")
    if config.dropout and isinstance(config, TRPOConfig):
        raise ConfigError(
            f"{where}: dropout does not go with TRPO, whose step needs the policy to be one function; leave it out."
        )
    if config.minibatch_size > config.rollouts and not isinstance(config, A2CConfig):
        raise ConfigError(f"{where}: minibatch_size {config.minibatch_size} exceeds rollouts {config.rollouts}.")
    if config.rollouts % config.samples_per_prompt:
        raise ConfigError(
            f"{where}: rollouts {config.rollouts} is no multiple of samples_per_prompt {config.samples_per_prompt}."
        )
    compares = isinstance(config, GRPOConfig) or type(config) is CONFIGS["rloo"]
    if compares and config.samples_per_prompt < 2:
        raise ConfigError(f"{where}: samples_per_prompt must be at least 2: a response is compared with its siblings.")
