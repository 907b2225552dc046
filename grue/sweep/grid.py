"""What a sweep is asked to do: a grid of tasks, algorithms, seeds and values, from a TOML file or from flags."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import ConfigError
from grue.tasks import task_names

# What may be varied beside the keys of an algorithm's configuration.
ABOUT_A_RUN = ("reward", "preset", "backbone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A system of a sweep, or several: one for every combination of the values that `vary` lists.

    Attributes:
        algorithm: As `grue train --algo` takes it, or a baseline of `grue evaluate`.
        system: Its name, and its folder's; with `{key}` for what varies. [default: the algorithm, and what varies]
        tasks: Only these of the grid's tasks; all of them if empty.
        set: Values of the configuration.
        vary: Key → values; a key of the configuration, `reward`, `preset` or `backbone`.
    """

    algorithm: str
    system: str | None = None
    tasks: tuple[str, ...] = ()
    preset: str | None = None
    reward: str | None = None
    backbone: str | None = None
    set: Mapping[str, Any] = field(default_factory=dict)
    vary: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def variants(self) -> list["Entry"]:
        """Return one entry without `vary` for every combination of its values."""
        variants = []
        for values in product(*self.vary.values()):
            chosen = dict(zip(self.vary, values, strict=True))
            about = {key: chosen.pop(key) for key in ABOUT_A_RUN if key in chosen}
            fixed = {"preset": self.preset, "reward": self.reward, "backbone": self.backbone} | about
            name = self._name(chosen | about)
            variants.append(
                Entry(algorithm=self.algorithm, system=name, tasks=self.tasks, set={**self.set, **chosen}, **fixed)
            )
        return variants

    def _name(self, chosen: Mapping[str, Any]) -> str:
        words = {key: _word(value) for key, value in chosen.items()}
        if self.system is None:
            return "_".join([self.algorithm, *(f"{key}-{word}" for key, word in words.items())])
        try:
            return self.system.format(**words)
        except (KeyError, IndexError, ValueError) as error:
            raise ConfigError(
                f"The system name {self.system!r} names {error}, which does not vary; write one of {sorted(words)}."
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A sweep as it is written down: every algorithm and every system, on every task, with every seed.

    Attributes:
        tasks: Names in the suite, or paths of task files; all of the suite if empty.
        algorithms: Systems that are nothing but an algorithm or a baseline.
        seeds: "1-5", or a list.
        set: Values of every trained system's configuration.
        systems: The others.
        evaluate: Evaluate every run once it is trained.
    """

    suite: str = "mini"
    tasks: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    seeds: str | tuple[int, ...] = (1,)
    set: Mapping[str, Any] = field(default_factory=dict)
    systems: tuple[Entry, ...] = ()
    evaluate: bool = True

    def task_list(self) -> list[str]:
        """Return the tasks by name or path."""
        return list(self.tasks) or list(task_names(self.suite))

    def seed_list(self) -> list[int]:
        """Return the seeds in order, each once.

        Raises:
            ConfigError: They cannot be read, or there is none.
        """
        seeds = parse_seeds(self.seeds) if isinstance(self.seeds, str) else list(dict.fromkeys(self.seeds))
        if not seeds:
            raise ConfigError("A sweep needs at least one seed, such as seeds = [1, 2, 3].")
        return seeds

    def entries(self) -> list[Entry]:
        """Return every system of the grid, with the values that all of them share.

        Raises:
            ConfigError: There is none.
        """
        wanted = [*(Entry(algorithm=name) for name in self.algorithms), *self.systems]
        if not wanted:
            raise ConfigError('A sweep needs a system: algorithms = ["supervised", "ppo"], or a table [[systems]].')
        return [variant for entry in wanted for variant in entry.variants()]


def read_grid(path: Path) -> Grid:
    """Read a grid from a TOML file.

    Raises:
        DataError: It cannot be read.
        ConfigError: It says something that a grid does not know.
    """
    return files.load_toml(path, Grid)


def parse_seeds(text: str) -> list[int]:
    """Read seeds written as 1-5 or 1,2,7.

    Raises:
        ConfigError: They are written in another way.
    """
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(last) < int(first)):
            raise ConfigError(f"seeds {text!r}: write a range such as 1-5, or a list such as 1,2,7.")
        found += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(found))


def _word(value: Any) -> str:
    """Return a value as part of a name: what a folder's name cannot hold becomes a hyphen."""
    text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return "".join(c if c.isascii() and (c.isalnum() or c in "._+-") else "-" for c in text)
