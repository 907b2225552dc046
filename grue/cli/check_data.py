"""`grue data check`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grue import files
from grue.api.preferences import task_and_split
from grue.cli import options
from grue.cli.console import print_json
from grue.data.load import load_examples
from grue.data.pairs import PairsHeader
from grue.data.scored import ScoredSummary, read_scored, summarise
from grue.data.scored_lines import ScoredResponse
from grue.errors import ConfigError, GrueError, escaped
from grue.records import Example
from grue.task_files import load_task
from grue.tasks import Task

if TYPE_CHECKING:
    from grue.lm.cuts import Cuts, Lengths


@click.command(short_help="Summarise data, and what training cuts of it.")
@click.argument("path", metavar="[FILE]", required=False, type=options.PATH)
@options.option(
    "--task", "task_name", help="Task whose prompts are answered, needed without FILE. [default: the file's]"
)
@options.suite
@options.option(
    "--split",
    help="Split whose prompts are answered. [default: the file's, or what policies learn from: rl if the task has it, "
    "else train; without FILE train]",
)
@options.data
@options.as_json
def check(
    path: Path | None,
    task_name: str | None,
    suite: str,
    split: str | None,
    as_json: bool,
    **places: Any,
) -> None:
    """Read a file of scored responses (rewards, pairs or rankings) as training would, and summarise it.

    Also what training cuts of prompts and responses, with the tokenizer of the task's backbone, and the special tokens
    that they quote. Without FILE, or where it is a task file: of the prompts and references of a split of the task.
    """
    if path is not None and path.suffix == ".toml" and task_name is None:
        path, task_name = None, str(path)
    if path is None:
        if task_name is None:
            raise ConfigError("Name the FILE to check, or with --task the task whose references are to be checked.")
        task, split = load_task(task_name, suite), split or "train"
        examples = load_examples(task, split, **places).examples
        cuts = cuts_of(task, ((one, [ScoredResponse(text, 0.0) for text in one.references]) for one in examples))
        summary, head = {}, f"{task.suite}/{task.name} {split}: {len(examples):,} examples"
    else:
        task, split = task_and_split(path, task_name, suite, split)
        examples = load_examples(task, split, **places).examples
        data = read_scored(path, task, examples, split)
        contents = summarise(data)
        cuts = cuts_of(task, ((group.example, group.responses) for group in data.groups))
        summary, head = files.plain(contents), f"{path}: fine, {contents.form} for {task.suite}/{task.name}"
    if as_json:
        print_json({**summary, "cuts": cuts})
        return
    click.echo(head)
    lines = ({} if path is None else lines_of(contents)) | (
        {} if cuts is None else lines_of_cuts(cuts, path is not None)
    )
    for name, value in lines.items():
        click.echo(f"  {name:<10}{value}")


def tokenizer_of(task: Task, lacking: str) -> Any:
    """Return the tokenizer of a task's backbone; None without it, and a line that says what is lacking."""
    from grue.lm.load import load_tokenizer

    try:
        return load_tokenizer(task.backbone.model, task.backbone.revision, task.backbone.family)
    except GrueError as error:
        click.echo(f"{lacking}: {error}", err=True)
        return None


def cuts_of(task: Task, lines: Iterable[tuple[Example, Sequence[ScoredResponse]]]) -> "Cuts | None":
    """Return what training cuts of examples and the responses to learn; None without a tokenizer."""
    from grue.lm.cuts import find_cuts

    tokenizer = tokenizer_of(task, "What training cuts is not known")
    if tokenizer is None:
        return None
    return find_cuts(tokenizer, task, lines)


def lines_of_cuts(cuts: "Cuts", scored: bool) -> dict[str, str]:
    """Return title → text on what training cuts; `scored`: whether the texts are responses with scores."""

    def cut(lengths: "Lengths", texts: str) -> str:
        longest = f", of up to {lengths.longest:,}" if lengths.cut else ""
        return f"{lengths.cut:,} of {lengths.texts:,} {texts} are cut to {lengths.limit:,} tokens{longest}"

    def where(ids: Sequence[str]) -> str:
        return f" (in {escaped(', '.join(map(repr, ids)), 200)})" if ids else ""

    quoted = ", ".join(f"{name} in {count:,}" for name, count in cuts.special_tokens.items())
    learnt = f"{cut(cuts.responses, 'responses' if scored else 'references')}, and learnt without their end"
    lines = {"prompts": cut(cuts.prompts, "prompts"), "targets": learnt}
    if scored:
        lines["targets"] += f"; {cuts.truncated:,} were cut when they were drawn"
        equal = f"{cuts.equal:,} lines have responses of unequal worth that are equal once they are cut"
        lines["equal"] = equal + where(cuts.equal_in)
    quotes = f"tokens that texts quote, and that are read as text: {escaped(quoted, 400) or 'none'}"
    return lines | {"special": quotes + where(cuts.special_in)}


def lines_of(contents: ScoredSummary) -> dict[str, str]:
    """Return title → text on a file's content."""
    per_line = contents.responses / contents.groups
    lines = {
        "holds": f"{contents.responses:,} responses on {contents.groups:,} lines ({per_line:.1f} a line) to "
        f"{contents.prompts:,} prompts",
        "length": f"{contents.words[0]:.1f} words (mean), at most {contents.words[1]:,}; {contents.empty:,} empty, "
        f"{contents.repeated:,} repeat another of their line",
    }
    if contents.rewards is not None:
        rewards = contents.rewards
        lines["rewards"] = (
            f"{rewards.mean:.4g} (mean), spread {rewards.spread:.4g}, within a line {rewards.within:.4g}, "
            f"from {rewards.least:.4g} to {rewards.most:.4g}"
        )
        lines["flat"] = f"{contents.flat:.1%} of the lines have equal rewards throughout, which show no order"
    if contents.form == "pairs":
        lines["orders"] = (
            f"{contents.flat:.1%} of the pairs are ties; {contents.contradictions:,} pairs of texts were judged both "
            f"ways; {contents.held_out:,} lines are held out"
        )
    lines["made"] = "not known: there is no header"
    header = contents.made
    if isinstance(header, PairsHeader):
        noise = "" if header.made == "study" else f", noise {header.noise}"
        by = f"{header.judge or 'an unknown reward'}{noise}, seed {header.seed}"
        lines["made"] = escaped(f"of {header.made}, prompts of {header.split}, judged by {by}", 400)
    elif header is not None:
        lines["made"] = escaped(
            f"{header.samples} samples a prompt of {header.split} from {header.system} ({header.checkpoint:.40}), "
            f"seed {header.seed}, temperature {header.generation.temperature:g}, reward {header.reward}"
        )
    budget, unknown = contents.budget, "unknown"
    tokens = unknown if budget.generated_tokens is None else f"{budget.generated_tokens:,}"
    seconds = unknown if budget.seconds is None else f"{budget.seconds:,.1f}"
    lines["took"] = (
        f"{budget.prompts:,} prompts, {budget.reward_calls:,} reward calls, {tokens} generated tokens, "
        f"{seconds} seconds"
    )
    return lines | {"sha256": contents.sha256}
