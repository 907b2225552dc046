"""What the settings `select` and `reference` say, read from their texts."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from grue.errors import ConfigError, escaped


@dataclass(frozen=True, slots=True)
class HardPrompts:
    """`hard:K`: the prompts that the start answers worst."""

    count: int


@dataclass(frozen=True, slots=True)
class ImpactPrompts:
    """`limr:THETA:RUN`: the prompts whose rewards followed the mean of an earlier run."""

    threshold: float
    run: Path


def parse_select(text: str | None) -> HardPrompts | ImpactPrompts | None:
    """Read `select`.

    Raises:
        ConfigError: It has another form, or a number that keeps no prompt.
    """
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
    """Read `reference`: the folders whose weights are averaged; none where there is nothing to read.

    Raises:
        ConfigError: It has another form.
    """
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


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
