"""`grue data check`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grue import files
from grue.cli import options
from grue.data.pairs import PairsHeader
from grue.errors import escaped

if TYPE_CHECKING:
    from grue.data.scored_summary import ScoredSummary


@click.command(short_help="Say what a file of scored responses holds.")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@options.option("--task", "task_name", help="Task whose prompts are answered. [default: the file's]")
@options.suite
@options.option(
    "--split", help="Split whose prompts are answered; policies learn from train only. [default: the file's, or train]"
)
@options.data
@options.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def check(
    path: Path,
    task_name: str | None,
    suite: str,
    split: str | None,
    data_dir: Path | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Read a file of scored responses (rewards, pairs or rankings) as training would, and say what it holds."""
    from grue.api.preferences import task_and_split
    from grue.data.load import load_examples
    from grue.data.scored import read_scored
    from grue.data.scored_summary import summarise

    task, split = task_and_split(path, task_name, suite, split)
    examples = load_examples(task, split, data_dir, offline).examples
    found = summarise(read_scored(path, task, examples, split))
    if as_json:
        click.echo(files.indented_json(found), nl=False)
        return
    click.echo(f"{path}: fine, {found.form} for {task.suite}/{task.name}")
    for name, said in lines_of(found).items():
        click.echo(f"  {name:<10}{said}")


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
