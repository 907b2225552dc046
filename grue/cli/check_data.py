"""`grue data check`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grue import files
from grue.cli import options
from grue.cli.console import print_json
from grue.data.pairs import PairsHeader
from grue.errors import ConfigError, GrueError, escaped

if TYPE_CHECKING:
    from grue.data.scored import ScoredGroup
    from grue.data.scored_summary import ScoredSummary
    from grue.lm.cuts import Cuts, Lengths
    from grue.tasks import Task


@click.command(short_help="Say what data holds, and what training cuts of it.")
@click.argument("path", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@options.option(
    "--task", "task_name", help="Task whose prompts are answered, needed without FILE. [default: the file's]"
)
@options.suite
@options.option(
    "--split", help="Split whose prompts are answered; policies learn from train only. [default: the file's, or train]"
)
@options.data
@options.as_json
def check(
    path: Path | None,
    task_name: str | None,
    suite: str,
    split: str | None,
    data_dir: Path | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Read a file of scored responses (rewards, pairs or rankings) as training would, and say what it holds.

    Also what training cuts of prompts and responses, with the tokenizer of the task's backbone, and the special tokens
    that they quote. Without FILE, or where it is a task file: of the prompts and references of a split of the task.
    """
    from grue.api.preferences import task_and_split
    from grue.data.load import load_examples
    from grue.data.scored import read_scored
    from grue.data.scored_summary import summarise
    from grue.task_files import load_task

    if path is not None and path.suffix == ".toml" and task_name is None:
        path, task_name = None, str(path)
    if path is None:
        if task_name is None:
            raise ConfigError("Name the FILE to check, or with --task the task whose references are to be checked.")
        task, split = load_task(task_name, suite), split or "train"
        examples = load_examples(task, split, data_dir, offline).examples
        cuts = cuts_of(task, ((one.id, one.prompt, [(text,) for text in one.references]) for one in examples))
        held, head = {}, f"{task.suite}/{task.name} {split}: {len(examples):,} examples"
    else:
        task, split = task_and_split(path, task_name, suite, split)
        examples = load_examples(task, split, data_dir, offline).examples
        data = read_scored(path, task, examples, split)
        found = summarise(data)
        cuts = cuts_of(task, ((one.example.id, one.example.prompt, _targets(one)) for one in data.groups))
        held, head = files.plain(found), f"{path}: fine, {found.form} for {task.suite}/{task.name}"
    if as_json:
        print_json({**held, "cuts": cuts})
        return
    click.echo(head)
    lines = ({} if path is None else lines_of(found)) | ({} if cuts is None else lines_of_cuts(cuts, path is not None))
    for name, said in lines.items():
        click.echo(f"  {name:<10}{said}")


def _targets(group: "ScoredGroup") -> list[tuple[str, float, bool, Sequence[int] | None]]:
    return [(one.text, one.reward, one.truncated, one.token_ids) for one in group.responses]


def cuts_of(task: "Task", lines: Iterable[tuple[str, str, Sequence[tuple[Any, ...]]]]) -> "Cuts | None":
    """Return what training makes of lines: ids, prompts and the texts to learn; None without a tokenizer."""
    from grue.lm.cuts import LearnedText, find_cuts
    from grue.lm.load import load_tokenizer

    try:
        tokenizer = load_tokenizer(task.backbone.model, task.backbone.revision, task.backbone.family)
    except GrueError as error:
        click.echo(f"What training cuts is not known: {error}", err=True)
        return None
    return find_cuts(
        tokenizer, task, ((name, prompt, [LearnedText(*one) for one in said]) for name, prompt, said in lines)
    )


def lines_of_cuts(found: "Cuts", scored: bool) -> dict[str, str]:
    """Return what to print of what training cuts, by title; `scored`: whether these are responses with scores."""

    def cut(one: "Lengths", what: str) -> str:
        longest = f", of up to {one.longest:,}" if one.cut else ""
        return f"{one.cut:,} of {one.texts:,} {what} are cut to {one.limit:,} tokens{longest}"

    def where(ids: Sequence[str]) -> str:
        return f" (in {escaped(', '.join(map(repr, ids)), 200)})" if ids else ""

    quoted = ", ".join(f"{name} in {count:,}" for name, count in found.special_tokens.items())
    learnt = f"{cut(found.responses, 'responses' if scored else 'references')}, and learnt without their end"
    said = {"prompts": cut(found.prompts, "prompts"), "targets": learnt}
    if scored:
        said["targets"] += f"; {found.truncated:,} were cut when they were drawn"
        equal = f"{found.equal:,} lines have responses of unequal worth that are equal once they are cut"
        said["equal"] = equal + where(found.equal_in)
    quotes = f"tokens that texts quote, and that are read as text: {escaped(quoted, 400) or 'none'}"
    return said | {"special": quotes + where(found.special_in)}


def lines_of(found: "ScoredSummary") -> dict[str, str]:
    """Return what to print of a file, by title."""
    each = found.responses / found.groups
    said = {
        "holds": f"{found.responses:,} responses on {found.groups:,} lines ({each:.1f} a line) to {found.prompts:,} "
        "prompts",
        "length": f"{found.words[0]:.1f} words (mean), at most {found.words[1]:,}; {found.empty:,} empty, "
        f"{found.repeated:,} repeat another of their line",
    }
    if found.rewards is not None:
        one = found.rewards
        said["rewards"] = (
            f"{one.mean:.4g} (mean), spread {one.spread:.4g}, within a line {one.within:.4g}, "
            f"from {one.least:.4g} to {one.most:.4g}"
        )
        said["flat"] = f"{found.flat:.1%} of the lines have equal rewards throughout, which show no order"
    if found.form == "pairs":
        said["orders"] = (
            f"{found.flat:.1%} of the pairs are ties; {found.contradictions:,} pairs of texts were judged both ways; "
            f"{found.held_out:,} lines are held out"
        )
    said["made"] = "not known: there is no header"
    made = found.made
    if isinstance(made, PairsHeader):
        noise = "" if made.made == "study" else f", noise {made.noise}"
        by = f"{made.judge or 'an unknown reward'}{noise}, seed {made.seed}"
        said["made"] = escaped(f"of {made.made}, prompts of {made.split}, judged by {by}", 400)
    elif made is not None:
        said["made"] = escaped(
            f"{made.samples} samples a prompt of {made.split} from {made.system} ({made.checkpoint:.40}), "
            f"seed {made.seed}, temperature {made.generation.temperature:g}, reward {made.reward}"
        )
    budget, unknown = found.budget, "unknown"
    tokens = unknown if budget.generated_tokens is None else f"{budget.generated_tokens:,}"
    seconds = unknown if budget.seconds is None else f"{budget.seconds:,.1f}"
    said["took"] = (
        f"{budget.prompts:,} prompts, {budget.reward_calls:,} reward calls, {tokens} generated tokens, "
        f"{seconds} seconds"
    )
    return said | {"sha256": found.sha256}
