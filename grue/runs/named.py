"""What the settings `select` and `reference` name: prompts and models, which a run provides.

No algorithm reads them.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grue.errors import ConfigError, escaped
from grue.rl.settings import RewardedConfig


@dataclass(frozen=True, slots=True)
class HardPrompts:
    """`hard:K`: the K prompts that the initial policy answers worst."""

    count: int


@dataclass(frozen=True, slots=True)
class ImpactPrompts:
    """`limr:THETA:RUN`: the prompts whose rewards followed the mean reward of an earlier run."""

    threshold: float
    run: Path


def parse_select(text: str | None) -> HardPrompts | ImpactPrompts | None:
    """Read `select`; a ConfigError if it is malformed, or its number leaves no prompt."""
    if text is None:
        return None
    kind, _, rest = text.partition(":")
    number, _, run = rest.partition(":")
    if kind == "hard" and re.fullmatch("0*[1-9][0-9]{0,17}", rest):
        return HardPrompts(int(rest))
    if kind == "limr" and run and (threshold := _number(number)) is not None:
        if threshold >= 1:
            raise ConfigError(f"select = {escaped(text)}: no prompt has an impact above {number}; write less than 1.")
        return ImpactPrompts(threshold, Path(run))
    raise ConfigError(
        f"select = {escaped(text)}: write hard:K with K above 0, such as hard:1000, or limr:THETA:RUN with the folder "
        "of an earlier run, such as limr:0.6:runs/mini/commongen/ppo/seed-1."
    )


def parse_reference(text: str | None) -> tuple[Path, ...]:
    """Read `reference`: the folders whose weights are averaged, none if it is not set; a ConfigError if malformed."""
    if text is None:
        return ()
    kind, _, rest = text.partition(":")
    names = rest.split(",")
    if kind != "soup" or len(names) < 2 or not all(name.strip() for name in names):
        raise ConfigError(
            f"reference = {escaped(text)}: write soup:A,B with the folders of two or more runs or checkpoints, such as "
            "soup:runs/mini/imdb/supervised/seed-1,runs/mini/imdb/supervised/seed-2."
        )
    return tuple(Path(name.strip()) for name in names)


def malformed(config: RewardedConfig) -> Iterator[str]:
    """Yield what is wrong with `select` and `reference`."""
    for parse, text in ((parse_select, config.select), (parse_reference, config.reference)):
        try:
            parse(text)
        except ConfigError as error:
            yield str(error)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
