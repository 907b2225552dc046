"""Options that several commands share."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import click

from grue import files
from grue.bounds import LARGEST
from grue.cli.completion import OF_OPTIONS
from grue.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


def option(*declarations: str, **settings: Any) -> Callable[[F], F]:
    """Declare an option that can also be set by the environment: `--batch-size` is GRUE_BATCH_SIZE.

    Of a switch `--chat/--completions`, only the first has a variable, which may be false.
    """
    flags = [part.partition("/")[0] for part in declarations if part.startswith("--")]
    names = [f"GRUE_{flag.removeprefix('--').replace('-', '_').upper()}" for flag in flags]
    defaults: dict[str, Any] = {"shell_complete": OF_OPTIONS.get(flags[0])}
    if isinstance(settings.get("type"), click.IntRange | click.FloatRange) or settings.get("type") is float:
        defaults["callback"] = _refuse_beyond
    if settings.get("default") == "":
        defaults["show_default"] = False  # an empty default is not worth showing
    return click.option(*declarations, envvar=names, **{**defaults, **settings})


def _refuse_beyond(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse a number that libraries do not accept: beyond 32 bits, infinite or NaN."""
    if value is not None and not abs(value) <= LARGEST:
        most = f"at most {LARGEST}" if math.isfinite(value) else "a finite number"
        raise click.BadParameter(f"must be {most}, found {value}.", context, parameter)
    return value


class GroupedCommand(click.Command):
    """A command whose help lists its options by group.

    Args:
        groups: Title → names of parameters; the others come last, with --help.
    """

    def __init__(self, *args: Any, groups: Mapping[str, Sequence[str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group."""
        records = {p.name: record for p in self.get_params(ctx) if (record := p.get_help_record(ctx)) is not None}
        for title, names in self.groups.items():
            with formatter.section(title):
                formatter.write_dl([records.pop(name) for name in names if name in records])
        with formatter.section("Other"):
            formatter.write_dl(list(records.values()))


def as_json(function: F) -> F:
    """Add --json."""
    return option("--json", "as_json", is_flag=True, help="Print as JSON.")(function)


def suite(function: F) -> F:
    """Add --suite."""
    return option(
        "--suite", default="mini", help="mini, grue, that of an installed package, or a folder of task files."
    )(function)


RUN_GROUPS = {
    "What to train": ("task_name", "suite", "algorithm", "reward", "seeds", "seed", "system"),
    "What it starts from": ("init", "backbone", "warm_start"),
    "Settings of the algorithm": ("mask", "preset", "config_path", "settings"),
    "Data and folders": ("runs", "data_dir", "offline"),
}
"""The options of a run in a command's help."""


def run(*left_out: str) -> Callable[[F], Callable[..., Any]]:
    """Add the options of a run, one for each field of `RunRequest`; the command gets the resulting `request`.

    Args:
        left_out: Fields without an option.
    """

    def add(function: F) -> Callable[..., Any]:
        from grue.runs.reference import meanings
        from grue.runs.request import ARGUMENTS, RunRequest
        from grue.task_files import load_task

        @wraps(function)
        def command(task_name: str, suite: str, algorithm: str, **values: Any) -> Any:
            parts = values.pop("config_path"), values.pop("mask"), values.pop("settings")
            arguments = {name: values.pop(name) for name in ARGUMENTS if name in values}
            request = RunRequest(
                task=load_task(task_name, suite), algorithm=algorithm, settings=all_settings(*parts), **arguments
            )
            return function(request, **values)

        types, helps = get_type_hints(RunRequest), meanings(RunRequest)
        decorated = offline(settings(command))
        for name in reversed(ARGUMENTS):
            if name not in (*left_out, "offline"):
                flag, default = f"--{name.replace('_', '-')}", RunRequest.__dataclass_fields__[name].default
                decorated = option(flag, default=default, help=helps[name], **_TYPES[types[name]])(decorated)
        decorated = option("--algo", "algorithm", required=True, help=helps["algorithm"])(decorated)
        return option("--task", "task_name", required=True, help=helps["task"])(suite(decorated))

    return add


_A_PATH = click.Path(path_type=Path)
_TYPES: Mapping[Any, Mapping[str, Any]] = {
    **{Path: {"type": _A_PATH}, Path | None: {"type": _A_PATH}},
    **{str | None: {}, int: {"type": int}},
    bool: {"is_flag": True},
}
"""The type of a request's field → that of its option."""


def settings(function: F) -> F:
    """Add --mask, --config and --set, the settings of an algorithm."""
    function = option(
        "--mask",
        type=click.Choice(["learned_top_p", "learned_top_k", "top_k"]),
        help="Restrict the sampler as NLPO does; the system is then called NAME-masked.",
    )(function)
    explained = "TOML file with settings (`grue algorithms show NAME` lists them)."
    function = option("--config", "config_path", type=_A_PATH, help=explained)(function)
    return option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="One setting; repeat for several. none turns it off.",
    )(function)


def runs(function: F) -> F:
    """Add --runs."""
    return option("--runs", type=_A_PATH, default=Path("runs"), help="Folder of all runs.")(function)


def submissions(function: F) -> F:
    """Add --submissions."""
    explained = "Folder of submitted results; if it is missing, the rows that ship with grue."
    return option("--submissions", type=_A_PATH, default=Path("submissions"), help=explained)(function)


def per_run(function: F) -> F:
    """Add --jobs, --threads and --gpus: how many runs there are at a time, and what each gets."""
    explained = "GPUs per run: 0.25 lets four runs share one. [default: one per run; with Ray none]"
    gpus = click.FloatRange(min=0)
    function = option("--gpus", type=gpus, default=0.0, show_default=False, help=explained)(function)
    function = option("--threads", type=click.IntRange(min=1), default=1, help="CPU threads per run.")(function)
    explained = "Runs at a time. [default: one per GPU, else cores / threads]"
    return option("--jobs", type=click.IntRange(min=1), help=explained)(function)


def data(function: F) -> F:
    """Add --data-dir and --offline."""
    explained = "Folder with the data set in its original layout, instead of the task's sources."
    return offline(option("--data-dir", type=_A_PATH, help=explained)(function))


def offline(function: F) -> F:
    """Add --offline."""
    explained = "Use only local files; open no connection."
    return option("--offline", is_flag=True, callback=_go_offline, help=explained)(function)


def _go_offline(context: click.Context, parameter: click.Parameter, offline: bool) -> bool:
    """Set the variable that the hub's library reads when it is imported, which is later."""
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    return offline


def seeds(function: F) -> F:
    """Add --seeds, which may be written --seed and repeated; `grue.runs.request.seeds_of` reads it."""
    explained = "3, 1-5 or 1,2,7; repeat for several. [default: 1]"
    return option("--seeds", "--seed", multiple=True, help=explained)(function)


def all_settings(path: Path | None, mask: str | None, settings: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a file, overridden by --mask and --set.

    Raises:
        ConfigError: The file cannot be read, or --set has no `=`.
    """
    return {**read_settings(path), **({"mask": mask} if mask else {}), **parse_settings(settings)}


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
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
    """Read the settings of a `--config FILE`; the text "none" turns an option off. Without a file there are none.

    Raises:
        ConfigError: The file cannot be read, or is not TOML.
    """
    settings = {} if path is None else files.read_toml(path)
    return {key: None if value == "none" else value for key, value in settings.items()}


def shown(value: object) -> str:
    """Return a value as `--set` takes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, list) else str(value)
