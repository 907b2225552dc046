"""`grue tools diagnose`."""

import click
from rich.text import Text

from grue import files
from grue.api import train as api
from grue.cli import options
from grue.cli.console import data_console, evaluation_progress, print_json
from grue.runs.request import RunRequest


@click.command(cls=options.RunCommand)
@options.run("system")
@options.option(
    "--batches", type=click.IntRange(min=4), default=16, help="Batches of rollouts; more see smaller signals."
)
@options.threads
@options.as_json
def diagnose(request: RunRequest, batches: int, as_json: bool) -> None:
    """Measure before a run whether there is a signal to learn from.

    It takes the rollouts of some updates, with the settings that `grue train` would use, without changing the policy:
    how much of the gradient is signal, where rewards vary, what the critic knows, how far an update moves. Nothing is
    written.

    \b
    grue tools diagnose --task imdb --algo supervised+ppo
    grue tools diagnose --task commongen --algo grpo --init runs/mini/commongen/supervised/seed-1 --set rollouts=256
    """  # noqa: D301 (click reads the escape)
    with evaluation_progress(f"Diagnosing {request.algorithm} on {request.task.suite}/{request.task.name}") as progress:
        diagnosis = api.diagnose(request, batches=batches, progress=progress)
    from grue.runs.remarks import remarks

    notes = remarks(diagnosis)
    if as_json:
        print_json({**files.plain(diagnosis), "run_seconds": diagnosis.seconds, "remarks": notes})
        return
    console = data_console()
    start = f"  {diagnosis.algorithm} from {diagnosis.start}, reward {diagnosis.reward}, seed {diagnosis.seed}"
    console.print(Text.assemble((f"{diagnosis.suite}/{diagnosis.task}", "bold"), start), soft_wrap=True)
    for remark in notes:
        console.print(Text.assemble((f"{remark.about:<11}", "bold"), remark.seen), soft_wrap=True)
        console.print(Text(f"{'':<11}{remark.meaning}", "dim"), soft_wrap=True)
        if remark.cure is not None:
            console.print(Text.assemble(f"{'':<11}", ("→ ", "yellow"), remark.cure), soft_wrap=True)
