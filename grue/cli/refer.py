"""`grue submit refer`."""

from pathlib import Path
from typing import Any

import click

from grue.cli import options


@click.command("refer", short_help="Make a row of outputs that are published elsewhere.")
@click.argument("copy", metavar="FILE", type=click.Path(path_type=Path))
@options.option("--url", required=True, help="Public address of the file, of a fixed version of it.")
@options.option("--sha256", required=True, help="Of the file as it is published; that of FILE must be the same.")
@options.option("--task", "task_name", required=True, help="Task whose evaluation split the outputs are for.")
@options.option("--suite", default="grue", show_default=True, help="grue or mini.")
@options.option(
    "--form",
    type=click.Choice(["text", "tsv", "jsonl"]),
    default="text",
    help="One text a line, a column of it (--column), or a field of its JSON (--field).",
)
@options.option("--column", type=int, default=0, show_default=False, help="Column of a tsv with the texts, from 1.")
@options.option("--field", default="", help="Field of a jsonl with the texts.")
@options.option("--gzip", is_flag=True, help="The file is packed with gzip.")
@options.option(
    "--each",
    type=click.Choice(["example", "reference"]),
    default="example",
    help="What has a line, in the split's order: an example, or each of its references.",
)
@options.option("--name", required=True, help="Name on the board.")
@options.option("--authors", help="Who made the outputs, separated by commas.")
@options.option("--year", type=int, help="When they were published.")
@options.option("--link", help="Address of the paper or of a page about the system.")
@options.option("--licence", help="Of the outputs, or: not stated.")
@options.option("--algorithm", help="How the system was trained, in words.")
@options.option("--backbone", help="What it was trained from, in words.")
@options.option("--reward", default="", help="The reward that it was trained on, if it was.")
@options.option("--training-data", default="", help="Training data beyond the task's training split.")
@options.option("--note", default="", help="What to know of the texts.")
@options.data
@options.option("--data-source", default="", help="With --data-dir: where its files are published.")
@options.option("--data-revision", default="", help="With --data-dir: their version, such as a commit.")
@options.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("submissions"),
    help="Folder of submissions; the file is written into SUITE in it.",
)
@options.option("--force", is_flag=True, help="Replace the figures of a task that the row has.")
def refer(
    copy: Path,
    url: str,
    sha256: str,
    task_name: str,
    suite: str,
    form: Any,
    column: int,
    field: str,
    gzip: bool,
    each: Any,
    name: str,
    authors: str | None,
    note: str,
    data_dir: Path | None,
    offline: bool,
    data_source: str,
    data_revision: str,
    output: Path,
    force: bool,
    **given: Any,
) -> None:
    """Score FILE, a local copy of outputs that are published elsewhere, and write a row with their address and figures.

    \b
    grue submit refer newstest.de --task wmt16 --name my-system --url https://… --sha256 … \\
        --authors "A. Author" --year 2026 --link https://… --licence CC-BY-4.0 \\
        --algorithm supervised --backbone "a transformer"
    """  # noqa: D301 (click reads the escape)
    from grue.cli.console import error_console
    from grue.submissions.by_reference.refer import add_to
    from grue.submissions.by_reference.refer import refer as score
    from grue.submissions.by_reference.system import PublishedFile
    from grue.task_files import load_task

    task = load_task(task_name, suite)
    file = PublishedFile(url, sha256, form, column, field, gzip, each)
    with error_console().status("Scoring …"):
        of_task, errors = score(
            task,
            copy,
            file,
            data_dir=data_dir,
            offline=offline,
            source=data_source,
            revision=data_revision,
            note=note,
        )
    for problem in errors:
        click.echo(f"Not computed: {problem}", err=True)
    given["authors"] = tuple(author.strip() for author in (authors or "").split(",") if author.strip())
    path = add_to(output, name, given, task, of_task, force)
    click.echo(f"{path}: {len(of_task.figures)} figures of {task.name}, {of_task.data.examples:,} examples")
