"""The ways to guide decoding by name, and `--decode NAME:KEY=VALUE,…`."""

import re
from dataclasses import fields
from typing import Any

from grue import files
from grue.errors import ConfigError
from grue.evaluation import decoders
from grue.evaluation.best_of import Guides, is_oracle
from grue.evaluation.guided import SEPARATOR, Decoder, Guided, Place, folder_of, rewards_in
from grue.lm.load import weights_id
from grue.registry import Registry
from grue.shapes import from_dict
from grue.tasks import Task

DECODERS = Registry[Decoder](
    "decoder",
    modules={name: f"grue.evaluation.decoders.{name}:DECODER" for name in decoders.BUILT_IN},
    entry_points="grue.decoders",
)


def choose_guided(task: Task, text: str) -> Guided:
    """Read `NAME:KEY=VALUE,…`.

    Raises:
        ConfigError: A setting is unknown, malformed or invalid, or the task's reward cannot guide.
        UnknownName: There is no such decoder.
        DataError: A model that it names is not available.
    """
    name, _, rest = text.partition(":")
    decoder = DECODERS[name]
    if not isinstance(decoder, Decoder):
        raise ConfigError(
            f"The decoder {name!r} must be a grue.evaluation.guided.Decoder, found {type(decoder).__name__}."
        )
    default = {field.name: field.default for field in fields(decoder.settings)}
    values: dict[str, Any] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals or key not in default:
            raise ConfigError(f"--decode {text}: {pair!r} is no setting of {name}; it has {', '.join(default)}.")
        values[key] = value if isinstance(default[key], str) else _number(text, value)
    settings = files.plain(from_dict(decoder.settings, values, f"--decode {name}"))
    if "reward" in settings and not settings["reward"]:
        settings["reward"] = task.reward
        if is_oracle(task.reward):
            raise ConfigError(
                f"--decode {name}: the reward of {task.suite}/{task.name}, {task.reward}, reads references, which no "
                f"system has. Give one that reads the answer alone, as {name}:reward=model:DIR (`grue tools reward`)."
            )
    named = [each for key in decoder.models for each in str(settings[key]).split(SEPARATOR)]
    if missing := [key for key in decoder.models if not settings[key]]:
        raise ConfigError(f"--decode {name}: say {' and '.join(missing)}, as in {name}:{missing[0]}=FOLDER.")
    oracle = any(map(is_oracle, rewards_in(settings)))
    weights = {each: weights_id(folder_of(each)) for each in named}
    changed = [
        f"-{key}-{settings[key]:g}"
        for key, value in default.items()
        if not isinstance(value, str) and settings[key] != value
    ]
    reward = settings.get("reward", task.reward)
    by = "" if reward == task.reward else "-by-" + re.sub(r"[^A-Za-z0-9_.]+", "-", reward).strip("-")
    suffix = ("-oracle" if oracle else "") + "".join(changed) + by
    return Guided(name, settings, oracle, weights, name + suffix)


def _number(text: str, value: str) -> float | int:
    try:
        return int(value) if re.fullmatch(r"[+-]?\d+", value) else float(value)
    except ValueError as error:
        raise ConfigError(f"--decode {text}: {value!r} is not a number.") from error


def make_guides(guided: Guided, place: Place) -> Guides:
    """Return what makes the guide of a batch; errors as in `Place`, and those of the decoder's reward."""
    decoder = DECODERS[guided.decoder]
    return decoder.make(from_dict(decoder.settings, guided.settings, guided.decoder), place)
