"""Progress on stderr: a bar with the last update's figures on a terminal, plain lines elsewhere."""

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from grue import files
from grue.cli.console import clock, error_console, printable
from grue.records import Example
from grue.runs.plan import Plan

EVERY = 10.0  # seconds between two lines without a bar
FIGURES = (
    ("reward", "objective/reward", ".3f"),
    ("loss", "loss/total", ".3f"),
    ("KL", "objective/kl", ".3f"),
    ("entropy", "objective/entropy", ".2f"),
    ("length", "objective/length", ".1f"),
)
"""Label, name in the log and format; figures that an algorithm does not log are left out."""


class TrainingProgress:
    """Shows a run: a bar on a terminal, else a line every few seconds; everywhere a line at a validation or warning.

    Args:
        over: Called with the plan of each run that is over, unless the console is silent.
        now: Returns the seconds of a clock.
        beside: Further options of `grue evaluate --checkpoint`, a space before them: the file of the user's own task.
    """

    def __init__(
        self,
        console: Console | None = None,
        over: Callable[[Plan], None] = lambda plan: None,
        now: Callable[[], float] = time.monotonic,
        beside: str = "",
    ) -> None:
        self.console = console or error_console()
        self._over = over
        self._now = now
        self._beside = beside
        self._bar: Progress | None = None
        self._ran = self._chooses = False
        self._finished: list[Plan] = []
        self._sample: tuple[str, str, float] | None = None  # prompt, response, score
        self._begun, self._begun_at, self._printed_at = 0, 0.0, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def planned(self, plan: Plan) -> None:
        """Print the stage that starts."""
        self._ran = False
        facts = f"suite {plan.task.suite}, reward {plan.reward_label}, {plan.validation_label}"
        where = escape(f"{facts} → {plan.folder}")
        self.console.print(f"[bold]{escape(plan.title)}[/bold]  {where}", soft_wrap=True)

    def finished(self, plan: Plan) -> None:
        """Print that a stage is finished, and which update it kept."""
        self._close()
        if not self._ran:
            self.console.print("  already finished; nothing to do", soft_wrap=True)
        elif not self.console.quiet:  # other processes may not see the main one's files
            from grue.runs.choice import choice
            from grue.runs.log import NAME, read_log

            kept_update = files.read_json(plan.checkpoint / "grue.json")["update"]
            lines = [line for _, line in read_log(plan.folder / NAME)[0]]
            for reason in choice(plan, kept_update, lines, self._beside):
                self.console.print(f"  {escape(reason)}", soft_wrap=True)
        self._finished.append(plan)
        if not self.console.quiet:
            self._over(plan)

    def suggest(self) -> None:
        """Print how to evaluate the finished runs, except those that others started from."""
        starts = {plan.init for plan in self._finished}
        for plan in self._finished:
            if plan.checkpoint not in starts:
                command = f"grue evaluate --checkpoint {shlex.quote(str(plan.checkpoint))}{self._beside}"
                self.console.print(f"  next: {escape(command)}", soft_wrap=True)

    def started(self, plan: Plan, done: int, total: int) -> None:
        """Open the bar."""
        self._close()
        self._ran, self._chooses, self._sample = True, plan.config.keep == "best", None
        self._begun, self._begun_at = done, self._now()
        self._printed_at = self._begun_at
        if done:
            self.console.print(f"  resuming after update {done} of {total}")
        if self.console.is_interactive:
            whole = Column(no_wrap=True)  # in a narrow terminal the figures wrap, and nothing else
            self._bar = Progress(
                BarColumn(bar_width=12),
                MofNCompleteColumn(table_column=whole),
                TimeRemainingColumn(table_column=whole.copy()),
                TextColumn("left", table_column=whole.copy()),
                TextColumn("{task.description}", markup=False, table_column=Column()),
                console=self.console,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),  # output for a pipe must not be drawn on the terminal
                speed_estimate_period=3600,  # seconds: an update may take minutes
            )
            self._bar.add_task("", total=total, completed=done)
            self._bar.start()

    def updated(self, done: int, total: int, line: Mapping[str, float]) -> None:
        """Move the bar, and show the update's figures."""
        figures = [f"{label} {line[name]:{form}}" for label, name, form in FIGURES if name in line]
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, description="  ".join(figures), refresh=True)
        elif self._now() - self._printed_at >= EVERY:
            self._printed_at = self._now()
            left = (total - done) * (self._printed_at - self._begun_at) / (done - self._begun)
            cells = [f"  update {done:>4} of {total}", *figures, f"{clock(left)} left"]
            self.console.print("  ".join(cells), soft_wrap=True)

    def sampled(self, example: Example, text: str, score: float) -> None:
        """Keep a response to show with the next validation."""
        self._sample = (example.prompt, text, score)

    def validated(self, done: int, figures: Mapping[str, float], best: bool) -> None:
        """Print the validation's figures, and a response of the last rollout."""
        shown = "  ".join(with_errors(figures))
        mark = "  [green]best so far, kept[/green]" if best and self._chooses else ""
        self.console.print(f"  update {done:>4}  validation: {shown}{mark}", soft_wrap=True)
        if self._sample is not None:
            prompt, text, score = self._sample
            self.console.print(Text(printable(f"    {prompt}  →  {text}  ({score:.3f})"), "dim"), soft_wrap=True)
            self._sample = None

    def warned(self, done: int, message: str) -> None:
        """Print a warning."""
        told = printable(f" update {done}: {message}")
        self.console.print(Text.assemble(("  warning:", "yellow"), told), soft_wrap=True)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def with_errors(figures: Mapping[str, float]) -> Iterator[str]:
    """Yield a validation's figures, each with its standard error if that is known."""
    compared = "preference" if "preference" in figures else "reward"
    of = {compared: "error", "gain": "gain_error"}
    for name, value in figures.items():
        if name not in of.values():
            error = figures.get(of.get(name, ""))
            yield f"{name} {value:.3f}" + ("" if error is None else f" ± {error:.3f}")
