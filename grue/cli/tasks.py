"""`grue tasks`: list, show, validate and freeze tasks."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from grue import files
from grue.cli import completion, options
from grue.cli.check_data import tokenizer_of
from grue.cli.console import print_json
from grue.cli.data import remarks_on_prompts
from grue.data.formats import FORMATS
from grue.data.load import load_examples, local_path
from grue.errors import ConfigError, GrueError
from grue.evaluation.notes import CURES, OF_WORDS
from grue.evaluation.rewards import check_reward
from grue.evaluation.scoring import check_examples, score_predictions
from grue.metrics.registry import factory_of
from grue.records import Example, Prediction
from grue.runs.recipes import check_recipes
from grue.task_files import SUITES, load_task, suite_folder, task_names
from grue.task_packages import installed_suites
from grue.task_versions import check_version, freeze_version
from grue.tasks import Task

WIDTH = 100
MOST_READ = 200  # examples whose references metrics are tried on


@click.group()
def tasks() -> None:
    """List, show and validate tasks."""


@tasks.command("list")
@options.option("--suite", help="mini, small, grue, a package's, or a folder of task files. [default: all but folders]")
@options.as_json
def list_tasks(suite: str | None, as_json: bool) -> None:
    """List the tasks, those of installed packages too."""
    listed: list[Task] = []
    broken: list[GrueError] = []
    try:
        suites = [suite] if suite else [*SUITES, *installed_suites()]
    except ConfigError as error:
        suites, broken = list(SUITES), [error]
    for each in suites:
        try:
            listed += [load_task(name, each) for name in task_names(each)]
        except GrueError as error:
            broken.append(error)
    if as_json:
        keys = ("name", "suite", "version", "hash", "title")
        print_json([{key: getattr(task, key) for key in keys} for task in listed])
    for task in () if as_json else listed:
        scored = ", ".join(spec.name for spec in task.metrics if spec.axis != "diversity")
        name = f"{task.suite}/{task.name}"
        click.echo(f"{name:<22}{task.title}\n{'':<22}{task.backbone.family} · {scored}")
    if broken:
        raise ConfigError("\n  ".join(map(str, broken)))


@tasks.command(short_help="Show a task and a few of its examples.")
@click.argument("name", shell_complete=completion.TASK)
@options.suite
@options.data
@options.option("--split", help="Split to take the examples from. [default: the task's evaluation split]")
@options.option("--examples", "count", type=click.IntRange(min=0), default=3, help="How many examples to show.")
@options.as_json
def show(
    name: str, suite: str, data_dir: Path | None, offline: bool, split: str | None, count: int, as_json: bool
) -> None:
    """Show a task: its settings, a few examples as a model sees them, and how many tokens prompts have."""
    task = load_task(name, suite)
    if as_json:
        hashes = {"hash": task.hash} | ({"chat_hash": task.chat_hash} if task.chat_hash else {})
        print_json(hashes | files.plain(task))
        return
    click.echo("\n".join(settings_of(task)))
    if not count:
        return
    split = split or task.data.evaluation
    loaded = load_examples(task, split, data_dir, offline)
    click.echo(f"  {split:<12}{len(loaded.examples):,} examples of {loaded.rows:,} rows, from {loaded.source}")
    lengths = prompt_lengths(task, loaded.examples)
    for index, example in enumerate(loaded.examples[:count]):
        click.echo("\n" + rendered(example, lengths[index] if lengths else None, task.prompt.max_tokens))
    if lengths:
        click.echo("\n" + length_summary(lengths, task))


def settings_of(task: Task) -> Iterator[str]:
    """Yield a task's settings, a line each."""
    start = task.backbone.warm_start and f"; published warm start {task.backbone.warm_start}"
    yield f"{task.title}  ({task.suite}/{task.name}, version {task.version})"
    yield f"{task.description}\n" if task.description else ""
    yield f"  hash        {task.hash}"
    yield f"  backbone    {task.backbone.model} ({task.backbone.family}){start}"
    yield f"  reward      {task.reward}"
    yield f"  prompt      at most {task.prompt.max_tokens} tokens, cut on the {task.prompt.truncation}"
    if (chat := task.prompt.chat) is not None:
        shown = len(chat.examples) + chat.shots
        yield f"  chat        version {chat.version} (hash {task.chat_hash[:12]}), {shown} examples shown"
    if task.recipes:
        yield f"  recipes     {', '.join(task.recipes)}"
    if task.data.licence:
        yield f"  licence     {task.data.licence}"
    for spec in task.metrics:
        scale = f"100·min(1, {spec.reference}/value)" if spec.reference else "outside the score"
        if spec.range:
            scale = f"0–100 from {spec.range[0]:g} to {spec.range[1]:g}"
        yield f"  {spec.axis:<12}{spec.name:<19} {scale}"


def rendered(example: Example, tokens: int | None, most: int) -> str:
    """Return an example as text, with long lines wrapped."""
    cut = "" if tokens is None else f", {tokens} tokens{f', cut to {most}' if tokens > most else ''}"
    lines = [f"[{example.id}]{cut}", folded("prompt", example.prompt)]
    return "\n".join([*lines, *(folded("reference", text) for text in example.references)])


def folded(label: str, text: str) -> str:
    """Return a text after its label, in lines of at most `WIDTH` characters."""
    import textwrap

    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, WIDTH) or [""]]
    return "\n".join(f"  {label if not index else '':<11}{line}" for index, line in enumerate(lines))


def prompt_lengths(task: Task, examples: Sequence[Example]) -> list[int]:
    """Return each prompt's length in tokens of the task's backbone; empty, with a warning, without its tokenizer."""
    from grue.lm.cuts import token_counts

    tokenizer = tokenizer_of(task, "Tokens are not counted")
    return [] if tokenizer is None else token_counts(tokenizer, [example.prompt for example in examples])


def length_summary(lengths: Sequence[int], task: Task) -> str:
    """Return a sentence on how long prompts are and how many of them the task cuts."""
    ordered, most = sorted(lengths), task.prompt.max_tokens
    middle, high = ordered[len(ordered) // 2], ordered[len(ordered) * 95 // 100]
    cut = sum(length > most for length in lengths)
    return (
        f"Prompts have {middle} tokens (median; 95 of 100 at most {high}, the longest {ordered[-1]}); "
        f"{100 * cut / len(lengths):.1f} % of them are cut to {most}, on the {task.prompt.truncation}."
    )


@tasks.command(short_help="Check task files.")
@click.argument("paths", nargs=-1, type=options.PATH)
def validate(paths: tuple[Path, ...]) -> None:
    """Check task files: keys, types, local files, reward, metrics, recipes; without PATHS those of both suites.

    A task of an installed package is named instead of a path: acme/haiku. A task of ours whose hash differs from the
    one recorded for its version has changed in something that affects scores.
    """
    wrong = []
    for path in paths or _shipped():
        faults = list(dict.fromkeys(_faults(path, ours=not paths)))
        wrong += faults
        if not faults:
            task = load_task(str(path))
            click.echo(f"{path}: fine ({task.suite}/{task.name}, version {task.version}, hash {task.hash[:12]})")
            for remark in _remarks(task) if paths else ():
                click.echo(remark)
    if wrong:
        raise ConfigError("\n".join(wrong))


def _faults(path: Path, ours: bool) -> Iterator[str]:
    """Yield everything that is wrong with a task file."""
    from grue.evaluation.needed_models import check_models

    try:
        task = load_task(str(path))
    except GrueError as error:
        yield str(error)
        return
    local = [source for source in task.data.sources if source.kind == "local"]
    read = {split.source for split in task.data.splits.values()}
    checks: list[Callable[[], object]] = [
        lambda: FORMATS[task.data.format],
        *(partial(local_path, task, source, name) for source in local for name in source.files if name not in read),
        *(partial(_read, task, split) for split in _local_splits(task)),
        lambda: check_reward(task.reward, task),
        *(partial(factory_of, spec, task.folder) for spec in task.metrics),
        lambda: check_models(task),
        lambda: check_recipes(task),
    ]
    if ours:
        checks.append(lambda: check_version(task))
    for check in checks:
        try:
            check()
        except GrueError as error:
            yield f"{path}: {error}"


def _local_splits(task: Task) -> list[str]:
    """Return the splits that have a local file; all if there is no other source."""
    local = [source for source in task.data.sources if source.kind == "local"]
    named = {name for source in local for name in source.files}
    only = len(local) == len(task.data.sources)
    return [name for name, split in task.data.splits.items() if only or split.source in named]


def _read(task: Task, split: str) -> None:
    """Read the examples of a split of local files; the evaluation split must have what the metrics need."""
    name = task.data.splits[split].source
    for source in task.data.sources:
        if source.kind == "local" and name in source.files:
            local_path(task, source, name)
    loaded = load_examples(task, split)
    if split == task.data.evaluation:
        check_examples(task, loaded.examples)


def _remarks(task: Task) -> Iterator[str]:
    """Yield remarks on a user's task file that are not faults."""
    from grue.evaluation.needed_models import absent_models

    yield from (f"  {line}" for line in (*absent_models(task), *check_recipes(task)))
    if "train" in task.data.splits and "validation" not in task.data.splits:
        yield "  no split validation: `grue train` chooses its checkpoint by one"
    examples = {split: load_examples(task, split).examples for split in _local_splits(task)}
    yield from remarks_on_prompts(examples)
    yield from (f"  {note}" for note in _unread(task, examples.get(task.data.evaluation, ())[:MOST_READ]))


def _unread(task: Task, examples: Sequence[Example]) -> Sequence[str]:
    """Return notes on metrics that cannot read the references."""
    specs = [spec for spec in task.metrics if spec.name.startswith((*CURES, *OF_WORDS))]
    copies = [Prediction(example.id, next(iter(example.references), "")) for example in examples]
    return score_predictions(task, task.data.evaluation, examples, copies, specs).notes if specs and examples else ()


@tasks.command(short_help="Record the versions of our tasks.")
def freeze() -> None:
    """Record the versions of our tasks, so that `grue tasks validate` detects changes."""
    for path in _shipped():
        task = load_task(str(path))
        state = "recorded" if freeze_version(task) else "already recorded"
        click.echo(f"{task.suite}/{task.name}, version {task.version}: {state}")


def _shipped() -> list[Path]:
    return [path for suite in SUITES for path in sorted(suite_folder(suite).glob("*.toml"))]
