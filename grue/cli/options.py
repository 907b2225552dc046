"""Options that several commands share."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from grue import files
from grue.bounds import LARGEST
from grue.cli.completion import OF_OPTIONS
from grue.errors import ConfigError
from grue.records import check_seed

F = TypeVar("F", bound=Callable[..., Any])


def option(*declarations: str, **settings: Any) -> Callable[[F], F]:
    """Declare an option that can also be set by the environment: `--batch-size` is GRUE_BATCH_SIZE."""
    flag = next(part for part in declarations if part.startswith("--"))
    name = f"GRUE_{flag.removeprefix('--').replace('-', '_').upper()}"
    usual: dict[str, Any] = {"shell_complete": OF_OPTIONS.get(flag)}
    if isinstance(settings.get("type"), click.IntRange | click.FloatRange) or settings.get("type") is float:
        usual["callback"] = _refuse_beyond
    if settings.get("default") == "":
        usual["show_default"] = False  # an empty text says nothing
    return click.option(*declarations, envvar=name, **{**usual, **settings})


def _refuse_beyond(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse a number that libraries cannot take: beyond 32 bits, infinite or NaN."""
    if value is not None and not abs(value) <= LARGEST:
        most = f"at most {LARGEST}" if math.isfinite(value) else "a finite number"
        raise click.BadParameter(f"must be {most}, found {value}.", context, parameter)
    return value


class GroupedCommand(click.Command):
    """A command whose help lists its options by group.

    Args:
        groups: Title → names of parameters; what is in none comes last, with --help.
    """

    def __init__(self, *args: Any, groups: Mapping[str, Sequence[str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group."""
        records = {p.name: record for p in self.get_params(ctx) if (record := p.get_help_record(ctx)) is not None}
        for title, names in self.groups.items():
            with formatter.section(title):
                formatter.write_dl([records.pop(name) for name in names])
        with formatter.section("Other"):
            formatter.write_dl(list(records.values()))


def suite(function: F) -> F:
    """Add --suite."""
    return option(
        "--suite", default="mini", help="mini, grue, that of an installed package, or a folder of task files."
    )(function)


def start(function: F) -> F:
    """Add --init, --backbone and --warm-start."""
    function = option(
        "--init",
        type=click.Path(path_type=Path),
        help="A run's folder or a checkpoint to start from, instead of the task's backbone.",
    )(function)
    function = option(
        "--backbone", help="Model to start from instead of the task's: a folder, a hub id, or mini:seq2seq, say."
    )(function)
    return option(
        "--warm-start",
        is_flag=True,
        help="With supervised+NAME: start from the published supervised model that the task file names.",
    )(function)


def mask(function: F) -> F:
    """Add --mask."""
    return option(
        "--mask",
        type=click.Choice(["learned_top_p", "learned_top_k", "top_k"]),
        help="Restrict the sampler as NLPO does; the system is then called NAME-masked.",
    )(function)


def settings(function: F) -> F:
    """Add --preset, --config and --set."""
    function = option("--preset", help="NLPO as the paper describes it (paper), as RL4LMs ran it (rl4lms), or stable.")(
        function
    )
    function = option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path),
        help="TOML file with settings (`grue algorithms show NAME` lists them).",
    )(function)
    return option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="One setting; repeat for several. none turns it off.",
    )(function)


def runs(function: F) -> F:
    """Add --runs."""
    return option("--runs", type=click.Path(path_type=Path), default=Path("runs"), help="Folder of all runs.")(function)


def data(function: F) -> F:
    """Add --data-dir and --offline."""
    function = option(
        "--data-dir",
        type=click.Path(path_type=Path),
        help="Folder with the data set in its original layout, instead of the task's sources.",
    )(function)
    return offline(function)


def offline(function: F) -> F:
    """Add --offline."""
    explained = "Use only local files; open no connection."
    return option("--offline", is_flag=True, callback=_go_offline, help=explained)(function)


def _go_offline(context: click.Context, parameter: click.Parameter, offline: bool) -> bool:
    """Set what the hub's library reads when it is first imported, which commands do later."""
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    return offline


def seeds(function: F) -> F:
    """Add --seed and --seeds."""
    function = option("--seed", type=int, multiple=True, help="Seed; repeat for several. [default: 1]")(function)
    return option("--seeds", "seed_range", help="Several seeds at once: 1-5, or 1,2,7.")(function)


def parse_seeds(seed: tuple[int, ...], seed_range: str | None) -> list[int]:
    """Return the seeds of --seed and --seeds, 1 if there are none.

    Raises:
        ConfigError: One cannot be a seed, or --seeds is written in another way than 1-5 or 1,2,7.
    """
    from grue.sweep.grid import parse_seeds as read_seeds

    found = [*map(check_seed, seed), *(() if seed_range is None else read_seeds(seed_range))]
    return list(dict.fromkeys(found)) or [1]


def parse_settings(settings: tuple[str, ...]) -> dict[str, Any]:
    """Parse `--set key=value`; a value is JSON if it parses, else text, and `none` turns an option off.

    Raises:
        ConfigError: There is no `=`.
    """
    parsed: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: write KEY=VALUE, such as --set learning_rate=1e-4.")
        try:
            parsed[key] = None if value.lower() == "none" else json.loads(value)
        except ValueError:
            parsed[key] = value
    return parsed


def read_settings(path: Path | None) -> dict[str, Any]:
    """Read the settings of a `--config FILE`; the text "none" turns an option off. No file has none.

    Raises:
        ConfigError: The file cannot be read, or is no TOML.
    """
    found = {} if path is None else files.read_toml(path)
    return {key: None if value == "none" else value for key, value in found.items()}


def shown(value: object) -> str:
    """Return a value as `--set` takes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, list) else str(value)
