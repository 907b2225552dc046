"""`grue`: its commands, and how errors are reported.

Commands import what they need when they run, so that `grue --help` is fast.
"""

import codecs
import io
import json
import os
import sys
import warnings
from importlib import import_module
from typing import Any

import click

from grue import __version__
from grue.errors import GrueError, of_the_system

# Command → module, help and attribute; a module is imported when its command is used.
COMMANDS = {
    "train": ("grue.cli.train", "Train a model on a task.", "train"),
    "evaluate": ("grue.cli.evaluate", "Generate and score: a checkpoint, a model or a baseline.", "evaluate"),
    "bench": ("grue.cli.bench", "Compare methods fairly: plan, train, evaluate, decide.", "bench"),
    "sweep": ("grue.cli.sweep", "Run a grid of tasks, algorithms and seeds.", "sweep"),
    "generate": ("grue.cli.generate", "Write predictions, or scored samples to learn from.", "generate"),
    "score": ("grue.cli.score", "Score a predictions file.", "score"),
    "leaderboard": ("grue.cli.board", "Print the board of all results.", "leaderboard"),
    "view": ("grue.cli.board", "Open the board, or a comparison's report, in a browser.", "view"),
    "plot": ("grue.cli.plot", "Draw learning curves, the frontier and the board.", "plot"),
    "compare": ("grue.cli.compare", "Compare two systems, task by task.", "compare"),
    "submit": ("grue.cli.submit", "Pack runs into a submission, and check submissions.", "submit"),
    "data": ("grue.cli.data", "Fetch, find and verify the tasks' data.", "data"),
    "algorithms": ("grue.cli.algorithms", "List algorithms, and show their settings.", "algorithms"),
    "metrics": ("grue.cli.metrics", "List and show metrics.", "metrics"),
    "tasks": ("grue.cli.tasks", "List, show and validate tasks.", "tasks"),
    "tools": ("grue.cli.main", "What is needed less often: signals, preferences, studies, exchange, checks.", "tools"),
}
TOOLS = {
    "diagnose": ("grue.cli.diagnose", "Measure before a run whether there is a signal to learn from.", "diagnose"),
    "frontier": ("grue.cli.frontier", "Show what training could gain at each KL from a start.", "frontier"),
    "card": ("grue.cli.card", "Say whether a task can be learnt or hacked.", "card"),
    "pairs": ("grue.cli.pairs", "Make pairs of texts of which one is better.", "pairs"),
    "reward": ("grue.cli.reward", "Train a reward model on pairs, and judge it.", "reward"),
    "check": ("grue.cli.check", "Check results against a threshold or a row of the board.", "check"),
    "curves": ("grue.cli.curves", "Say whether a new version of a trainer learns worse than the old.", "curves"),
    "conform": ("grue.cli.conform", "Say whether grue's trainer and another learn the same.", "conform"),
    "study": ("grue.cli.study", "Ask people about systems' outputs, and analyse their answers.", "study"),
    "push": ("grue.cli.exchange", "Upload a checkpoint, its card and its scores to the hub.", "push"),
    "export": ("grue.cli.exchange", "Write results in a format of others.", "export"),
    "import": ("grue.cli.exchange", "Take predictions from another harness's log.", "import_log"),
    "schema": ("grue.cli.inspect", "Print the JSON Schema of a file.", "schema"),
    "doctor": ("grue.cli.inspect", "Check what is installed, and what is missing.", "doctor"),
}


class Commands(click.Group):
    """A group that loads its commands late and turns GRUE's errors into one message and an exit code.

    Args:
        late: Name → module, help and attribute. Those of `TOOLS` can be called from any such group.
    """

    def __init__(self, *args: Any, late: dict[str, tuple[str, str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.late = late
        self.commands = dict.fromkeys(TOOLS | late)  # type: ignore[assignment]  # the names, for click's suggestions

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run as a program, with output in any encoding; an error of the machine is one message."""
        prepare_output()
        try:
            return super().main(*args, **settings)
        except (OSError, ImportError, MemoryError, OverflowError, RuntimeError) as error:
            explained = of_the_system(error)
            if explained is None:
                raise
            click.echo(f"Error: {explained}", err=True)
            sys.exit(explained.exit_code)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a newcomer needs them."""
        return list(self.late)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import and return a command."""
        known = TOOLS | self.late
        if name not in known:
            return None
        module, _, attribute = known[name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text, _) in self.late.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of GRUE is one message, a bug keeps its traceback."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _as_setting(error) from error
        except GrueError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("Interrupted. What was saved stays; the same command resumes.", err=True)
            ctx.exit(130)
        except BrokenPipeError:
            # The reader of the output has closed it, as `| head` does.
            sys.stderr.close()
            ctx.exit(0)


def _as_setting(error: click.NoSuchOption) -> click.UsageError:
    """Return an error about an unknown option; if it is an algorithm's setting, it suggests --set."""
    command = error.ctx
    if command is None or command.parent is None or not isinstance(command.parent.command, Commands):
        return error
    if command.info_name not in ("train", "bench", "sweep", "diagnose"):
        return error
    from grue.runs.recipes import settings_called

    settings = settings_called(error.option_name.lstrip("-").replace("-", "_"))
    written = " or ".join(f"--set {name}=VALUE" for name in settings)
    told = f"No such option {error.option_name!r}. For the setting, write {written}."
    return click.UsageError(told, command) if settings else error


def prepare_output() -> None:
    r"""Let standard output accept every character: those outside its encoding are escaped as in JSON, `\u2265`.

    A pipe or a file gets UTF-8, as all files that commands write, unless PYTHONIOENCODING names another encoding.
    """
    codecs.register_error("grue", _escape)
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out.errors == "strict":  # in the C locale, Python escapes bytes already
        as_locale = out.isatty() or "PYTHONIOENCODING" in os.environ
        out.reconfigure(encoding=out.encoding if as_locale else "utf-8", errors="grue")


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


@click.group(
    cls=Commands,
    late=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
)
@click.version_option(__version__, prog_name="grue")
def main() -> None:
    """Benchmark reinforcement learning on language generation.

    Three suites share every command: `mini` (the default) is embedded, offline and takes minutes; `small` is real text
    and a small real model; `grue` is the paper's data and models. Nearly every option can also be set by the
    environment: GRUE_RUNS is `--runs`.
    """
    warnings.formatwarning = lambda message, *_, **__: f"Warning: {message}\n"


@click.group(cls=Commands, late=TOOLS)
def tools() -> None:
    """Signals before training, pairs and reward models, studies with people, exchange, checks, the machine.

    Each can be called without the word tools, too.
    """
