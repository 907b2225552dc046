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
PATH = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, file_okay=False)
COUNT = click.IntRange(min=1)


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


def together(*shared: Callable[[F], F]) -> Callable[[F], F]:
    """Return options as one decorator, which adds them in this order."""

    def add(function: F) -> F:
        for each in reversed(shared):
            function = each(function)
        return function

    return add


def given(context: click.Context, *left_out: str) -> list[str]:
    """Return the options that the command line, not the environment, names, but for parameters that are left out."""
    named = {str(parameter.name): parameter.opts[0] for parameter in context.command.params}
    return [
        flag
        for name, flag in named.items()
        if name not in left_out and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]


# --- shared options --------------------------------------------------------------------------------------------------


def _go_offline(context: click.Context, parameter: click.Parameter, offline: bool) -> bool:
    """Set the variable that the hub's library reads when it is imported, which is later."""
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    return offline


def _use_threads(context: click.Context, parameter: click.Parameter, threads: int | None) -> None:
    if _refuse_beyond(context, parameter, threads):
        import torch

        torch.set_num_threads(int(threads or 1))


as_json = option("--json", "as_json", is_flag=True, help="Print as JSON.")
suite = option("--suite", default="mini", help="mini, small, grue, a package's, or a folder of task files.")
seeds = option("--seeds", "--seed", multiple=True, help="3, 1-5 or 1,2,7; repeat for several. [default: 1]")
"""`grue.runs.request.seeds_of` reads it."""
reward = option("--reward", help="As for training. [default: the task's]")
limit = option("--limit", type=COUNT, help="Take only the first N examples; a result of them is never ranked.")
batch_size = option("--batch-size", type=COUNT, default=64, help="Prompts decoded at once.")
threads = option(
    "--threads",
    type=COUNT,
    callback=_use_threads,
    expose_value=False,
    help="CPU threads of torch. [default: torch's choice]",
)
runs = option("--runs", type=PATH, default=Path("runs"), help="Folder of all runs.")
no_local = option("--no-local", is_flag=True, help="Leave out the results under --runs.")
submissions = option(
    "--submissions",
    type=PATH,
    default=Path("submissions"),
    help="Folder of submitted results; if it is missing, the rows that ship with grue.",
)
offline = option("--offline", is_flag=True, callback=_go_offline, help="Use only local files; open no connection.")
data_dir = option(
    "--data-dir", type=PATH, help="Folder with the data set in its original layout, instead of the task's sources."
)
data = together(offline, data_dir)
force = option("--force", is_flag=True, help="Replace what is there.")
per_run = together(
    option("--jobs", type=COUNT, help="Runs at a time. [default: one per GPU, else cores / threads]"),
    option("--threads", type=COUNT, default=1, help="CPU threads per run."),
    option(
        "--gpus",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=False,
        help="GPUs per run: 0.25 lets four runs share one. [default: one per run; with Ray none]",
    ),
)


def output(explained: str, **settings: Any) -> Callable[[F], F]:
    """Return --output, a path."""
    return option("-o", "--output", type=PATH, help=explained, **settings)


def changes(explained: str, metavar: str = "KEY=VALUE") -> Callable[[F], F]:
    """Return --set, whose values `parse_settings` reads."""
    return option("--set", "settings", multiple=True, metavar=metavar, help=explained)


# --- the options of a run --------------------------------------------------------------------------------------------


class RunCommand(click.Command):
    """A command whose help lists the options of a run by group, and then its own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group."""
        records = {p.name: record for p in self.get_params(ctx) if (record := p.get_help_record(ctx)) is not None}
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([records.pop(name) for name in names if name in records])
        with formatter.section("Other"):
            formatter.write_dl(list(records.values()))


_GROUPS = {
    "What to train": ("task_name", "suite", "algorithm", "reward", "seeds", "seed", "system"),
    "What it starts from": ("init", "backbone", "warm_start"),
    "Settings of the algorithm": ("mask", "preset", "config_path", "settings"),
    "Data and folders": ("runs", "data_dir", "offline"),
}
_TYPES: Mapping[Any, Mapping[str, Any]] = {
    **{Path: {"type": PATH}, Path | None: {"type": PATH}},
    **{str | None: {}, int: {"type": int}},
    bool: {"is_flag": True},
}
"""The type of a request's field → that of its option."""


def run(left_out: str) -> Callable[[F], Callable[..., Any]]:
    """Add the options of a run, one for each field of `RunRequest` but one; the command gets the `request`."""

    def add(function: F) -> Callable[..., Any]:
        from grue.runs.reference import meanings
        from grue.runs.request import ARGUMENTS, RunRequest
        from grue.task_files import load_task

        @wraps(function)
        def command(task_name: str, suite: str, algorithm: str, **values: Any) -> Any:
            config, mask, changed = (values.pop(name) for name in ("config_path", "mask", "settings"))
            chosen = read_settings(config) | ({"mask": mask} if mask else {}) | parse_settings(changed)
            arguments = {name: values.pop(name) for name in ARGUMENTS if name in values}
            task = load_task(task_name, suite)
            request = RunRequest(task=task, algorithm=algorithm, settings=chosen, **arguments)
            return function(request, **values)

        types, helps = get_type_hints(RunRequest), meanings(RunRequest)
        own = [
            option(
                f"--{name.replace('_', '-')}",
                default=RunRequest.__dataclass_fields__[name].default,
                help=helps[name],
                **_TYPES[types[name]],
            )
            for name in ARGUMENTS
            if name not in (left_out, "offline")
        ]
        return together(
            option("--task", "task_name", required=True, help=helps["task"]),
            suite,
            option("--algo", "algorithm", required=True, help=helps["algorithm"]),
            *own,
            offline,
            changes("One setting; repeat for several. none turns it off."),
            option(
                "--config",
                "config_path",
                type=PATH,
                help="TOML file with settings (`grue algorithms show NAME` lists them).",
            ),
            option(
                "--mask",
                type=click.Choice(["learned_top_p", "learned_top_k", "top_k"]),
                help="Restrict the sampler as NLPO does; the system is then called NAME-masked.",
            ),
        )(command)

    return add


def names_of(text: str | None) -> tuple[str, ...]:
    """Return names that commas separate."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Parse `--set key=value`; a value is JSON if it parses, else text, and `none` turns an option off."""
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
    """Read the settings of a `--config FILE`; the text "none" turns an option off. Without a file there are none."""
    settings = {} if path is None else files.read_toml(path)
    return {key: None if value == "none" else value for key, value in settings.items()}


def shown(value: object) -> str:
    """Return a value as `--set` takes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, list) else str(value)
