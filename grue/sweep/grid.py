"""The grid of a sweep: tasks, algorithms, seeds and values, from a TOML file or from flags."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from grue import files
from grue.algorithms import system_of
from grue.errors import ConfigError
from grue.evaluation.endpoint import Endpoint
from grue.records import with_backbone
from grue.runs.request import VARIED, canonical, seeds_given
from grue.task_files import is_named, task_names


@dataclass(frozen=True, slots=True, kw_only=True)
class GridEntry:
    """A system of a sweep, or several: one for each combination of the values in `vary`.

    Attributes:
        algorithm: As for `grue train --algo`, or a baseline of `grue evaluate`.
        system: Its name and folder, with `{key}` for a varied value. [default: the algorithm, the varied values and the
            backbone if it is set]
        tasks: The grid's tasks to run it on; all if empty.
        vary: Key → values; a key of the configuration, `reward`, `preset` or `backbone`.
        best_of: Draw so many samples from the trained system and keep the best, by the default of
            `grue evaluate --best-of`; the result is that of NAME+best-of-N. The system itself is only trained.
    """

    algorithm: str
    system: str | None = None
    tasks: tuple[str, ...] = ()
    preset: str | None = None
    reward: str | None = None
    backbone: str | None = None
    set: Mapping[str, Any] = field(default_factory=dict)
    vary: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    best_of: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "algorithm", canonical(self.algorithm))

    def variants(self) -> list["GridEntry"]:
        """Return one entry without `vary` for every combination of its values."""
        empty = [key for key, values in self.vary.items() if not values]
        if empty:
            raise ConfigError(f"vary.{empty[0]} of {self.algorithm}: is empty; list the values.")
        variants = []
        for values in product(*self.vary.values()):
            chosen = dict(zip(self.vary, values, strict=True))
            name = self._name(chosen)
            fixed = {key: chosen.pop(key, getattr(self, key)) for key in VARIED}
            variants.append(replace(self, system=name, set={**self.set, **chosen}, vary={}, **fixed))
        return variants

    def _name(self, chosen: Mapping[str, Any]) -> str:
        words = {key: _word(value) for key, value in chosen.items()}
        if self.system is None:
            default = "_".join([system_of(self.algorithm), *(f"{key}-{word}" for key, word in words.items())])
            return with_backbone(default, None if "backbone" in words else self.backbone)
        try:
            return self.system.format(**words)
        except (KeyError, IndexError, ValueError, AttributeError):
            varies = ", ".join(f"{{{key}}}" for key in words) or "nothing"
            raise ConfigError(
                f"The system name {self.system!r} cannot be filled in; the varied keys are {varies}."
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """A model of a sweep that was made elsewhere and is only evaluated.

    Attributes:
        model: A folder or a hub id; with an `endpoint` the model's name at the server.
        system: Its name and folder. [default: the model's, with how it is prompted]
        tasks: The grid's tasks to run it on; all if empty.
        chat: Whether a model on this machine gets the task's chat prompt.
        endpoint: Its address, if it answers over HTTP.
    """

    model: str
    system: str | None = None
    tasks: tuple[str, ...] = ()
    chat: bool = False
    endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepGrid:
    """A sweep: every algorithm, every system and every model, on every task, with every seed.

    Attributes:
        tasks: Names in the suite, or paths of task files; all of the suite if empty.
        algorithms: Systems that are just an algorithm or a baseline.
        seeds: "1-5", or a list.
        set: Values of every trained system's configuration.
        evaluate: Whether to evaluate every run once it is trained.
    """

    suite: str = "mini"
    tasks: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    seeds: str | tuple[int, ...] = (1,)
    set: Mapping[str, Any] = field(default_factory=dict)
    systems: tuple[GridEntry, ...] = ()
    models: tuple[ModelEntry, ...] = ()
    evaluate: bool = True

    def task_list(self) -> list[str]:
        """Return the tasks by name, or by path if the suite is a folder."""
        names = list(self.tasks) or task_names(self.suite)
        if is_named(self.suite):
            return names
        return [name if name.endswith(".toml") else str(Path(self.suite) / f"{name}.toml") for name in names]

    def on_tasks(self, names: Sequence[str]) -> "SweepGrid":
        """Return the grid on these tasks, without systems that are only for others of its tasks."""
        tasks = tuple(map(_located, names))
        own = [*self.task_list(), *(self.tasks or task_names(self.suite))]  # by path and by name

        def on(entry: GridEntry | ModelEntry) -> tuple[str, ...]:
            # A task that is not in the grid stays, to be refused later.
            return tuple(name for name in entry.tasks if name in tasks or name not in own)

        return replace(
            self,
            tasks=tasks,
            systems=tuple(replace(entry, tasks=on(entry)) for entry in self.systems if on(entry) or not entry.tasks),
            models=tuple(replace(entry, tasks=on(entry)) for entry in self.models if on(entry) or not entry.tasks),
        )

    def located(self) -> "SweepGrid":
        """Return the grid with absolute paths of suite, tasks and models; those of backbones and settings stay."""
        return replace(
            self,
            suite=self.suite if is_named(self.suite) else str(Path(self.suite).absolute()),
            tasks=tuple(_located(task) for task in self.tasks),
            systems=tuple(replace(entry, tasks=tuple(map(_located, entry.tasks))) for entry in self.systems),
            models=tuple(
                replace(
                    entry,
                    # A hub id, or a name at an endpoint, stays as it is.
                    model=str(path.absolute()) if entry.endpoint is None and path.is_dir() else entry.model,
                    tasks=tuple(map(_located, entry.tasks)),
                )
                for entry, path in ((entry, Path(entry.model)) for entry in self.models)
            ),
        )

    def seed_list(self) -> list[int]:
        """Return the seeds in order, each once.

        Raises:
            ConfigError: They cannot be parsed, one is invalid, or there is none.
        """
        seeds = seeds_given(self.seeds)
        if not seeds:
            raise ConfigError("A sweep needs at least one seed, such as seeds = [1, 2, 3].")
        return seeds

    def entries(self) -> list[GridEntry]:
        """Return every system of the grid that has an algorithm, with `vary` expanded.

        Raises:
            ConfigError: There is none.
        """
        entries = [*(GridEntry(algorithm=name) for name in self.algorithms), *self.systems]
        if not entries and not self.models:
            raise ConfigError(
                'A sweep needs a system: algorithms = ["supervised", "ppo"], or a table [[systems]] or [[models]].'
            )
        return [variant for entry in entries for variant in entry.variants()]


def read_grid(path: Path) -> SweepGrid:
    """Read a grid from a TOML file; the text "none" turns an option off, as `--set KEY=none` does.

    Raises:
        ConfigError: It cannot be read, or has a key that a grid does not have.
    """
    grid = files.load_toml(path, SweepGrid)
    systems = tuple(
        replace(entry, set=_replaced(entry.set, "none", None), vary=_replaced(entry.vary, "none", None))
        for entry in grid.systems
    )
    return replace(grid, set=_replaced(grid.set, "none", None), systems=systems).located()


def write_grid(path: Path, grid: SweepGrid) -> None:
    """Write a grid as TOML for `read_grid`; a DataError if the file cannot be written."""
    plain = files.plain(grid)
    for table in (plain, *plain["systems"]):
        table |= {key: _replaced(table[key], None, "none") for key in ("set", "vary") if key in table}
    files.write_toml(path, plain)


def _word(value: Any) -> str:
    """Return a value as part of a name; characters that a folder name cannot have become hyphens."""
    text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return re.sub(r"[^A-Za-z0-9._+-]", "-", text)


def _located(task: str) -> str:
    return str(Path(task).absolute()) if task.endswith(".toml") else task


def _replaced(value: Any, old: str | None, new: str | None) -> Any:
    """Return plain data with one value replaced by another: TOML has no None."""
    if isinstance(value, Mapping):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_replaced(item, old, new) for item in value)
    return new if value == old else value
