"""Show a sweep: a live table on a terminal, otherwise a line for every change, and tables at the end."""

import time
from collections.abc import Mapping, Sequence
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from grue.cli.console import clock, data_console
from grue.sweep.estimate import TimeEstimate, durations_of, estimate, unknown_because
from grue.sweep.jobs import Job, short
from grue.sweep.record import Record, State
from grue.sweep.status import JobRow, rows_of

STYLES: Mapping[State, str] = {
    "waiting": "dim",
    "running": "cyan",
    "finished": "green",
    "failed": "bold red",
    "blocked": "red",
    "stopped": "yellow",
}
REFRESH_SECONDS = 2.0


class SweepView:
    """An observer that draws a sweep on stderr."""

    def __init__(self, console: Console, record: Record, jobs: Sequence[Job]) -> None:
        self.console, self.record, self.jobs = console, record, jobs
        self.started, self.drawn = time.monotonic(), 0.0
        self.states: Mapping[str, State] = {}
        self.workers, self.since = 1, dict[str, float]()
        self.live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        """Open the live table."""
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        if self.live:
            self.live.stop()

    def changed(self, job: Job, state: State, message: str | None) -> None:
        """Print a job's new state; on a terminal, only failures."""
        if state == "running":
            self.since[job.id] = time.monotonic()
        if self.live is None or state in ("failed", "blocked"):
            line = f"{state:9}{short(job.id)}{f': {message}' if message else ''}"
            self.console.print(line, style=STYLES[state] if self.live else None, markup=False, soft_wrap=True)

    def tick(self, states: Mapping[str, State]) -> None:
        """Redraw the table every few seconds."""
        now = time.monotonic()
        if self.live is None or now - self.drawn < REFRESH_SECONDS:
            return
        self.drawn, self.states = now, dict(states)
        self.live.update(self._drawn(), refresh=True)

    def _drawn(self) -> Group:
        running = [job for job in self.jobs if self.states[job.id] == "running"]
        waiting = [job for job in self.jobs if self.states[job.id] == "waiting"]
        self.workers = max(self.workers, len(running))
        gone = {job.id: time.monotonic() - self.since[job.id] for job in running}
        rest = estimate([*running, *waiting], self.workers, self.record.ended(), gone)
        head = Text.assemble(
            (_tally(self.states), "bold"),
            (f"   after {clock(time.monotonic() - self.started)}", "dim"),
            (f", {_time(rest)} left" if rest.work else "", "dim"),
        )
        return Group(head, table(rows_of(self.record, running, self.states)))


def table(rows: Sequence[JobRow]) -> Table:
    """Return rows as a table: state, run, and updates, reward, KL, time left and preference where they are known."""
    figures = {
        "updates": ["" if r.updates is None or r.state == "finished" else f"{r.update or 0}/{r.updates}" for r in rows],
        "reward": [_number(row.reward, ".3f") for row in rows],
        "KL": [_number(row.kl, ".2f") for row in rows],
        "left": ["" if row.seconds_left is None else clock(row.seconds_left) for row in rows],
        "preference": [_number(row.preference, ".1f") for row in rows],
    }
    columns = {name: cells for name, cells in figures.items() if any(cells)}
    shown = Table(box=None, pad_edge=False, header_style="dim")
    shown.add_column("state", no_wrap=True)
    shown.add_column("run", overflow="fold")
    for name in columns:
        shown.add_column(name, justify="right", no_wrap=True)
    for row, *cells in zip(rows, *columns.values(), strict=True):
        attempt = f"  (attempt {row.attempt})" if row.attempt > 1 else ""
        shown.add_row(Text(row.state, STYLES[row.state]), f"{short(row.job.id)}{attempt}", *cells)
    return shown


def status_text(rows: Sequence[JobRow]) -> str:
    """Return the state of a sweep as text: the counts, every run, and the reasons of failures."""
    console = data_console()
    with console.capture() as captured:
        console.print(table(rows))
    lines = [_tally({row.job.id: row.state for row in rows}), "", captured.get().rstrip()]
    return "\n".join([*lines, *_failures(rows)])


def summary(record: Record, jobs: Sequence[Job], states: Mapping[str, State]) -> str:
    """Return the summary at the end of a sweep."""
    rows = [row for row in rows_of(record, jobs, states) if row.state in ("failed", "blocked")]
    return "\n".join([_tally(states), *_failures(rows)])


def dry_run_text(record: Record, jobs: Sequence[Job], workers: int) -> str:
    """Return the plan of a sweep: its runs by task and system, and how long they may take."""
    left = [job for job in jobs if not record.finished(job)]
    seeds: dict[tuple[str, str], list[int]] = {}
    for job in left:
        seeds.setdefault((f"{job.suite}/{job.task}", job.system), []).append(job.seed)
    runs = f"{len(jobs)} run{'s' if len(jobs) != 1 else ''}"
    if not left:
        return f"{runs}, all finished: nothing to do."
    done = len(jobs) - len(left)
    lines = [f"{runs}, {done} of them finished:" if done else f"{runs}:"]
    widths = [max(map(len, names)) + 2 for names in zip(*seeds, strict=True)]
    unlike: set[str] = set()
    for (task, system), numbers in seeds.items():
        same = [job for job in left if (f"{job.suite}/{job.task}", job.system) == (task, system)]
        (like,) = durations_of(same[:1], record.ended())
        after = f" ({like.after})" if like and like.after else ""
        duration = f"{'about ' if after else ''}{clock(like.seconds)} a run{after}" if like else "unknown"
        unlike |= {unknown_because(same[0])} if like is None else set()
        start = f", from {same[0].after.split('/')[2]}" if same[0].after else ""
        only = "" if same[0].evaluate else ", not evaluated"
        lines.append(
            f"  {task:{widths[0]}}{system:{widths[1]}}seeds {','.join(map(str, numbers)):14}{duration}{start}{only}"
        )
    rest = estimate(left, workers, record.ended())
    lines.append(f"That may take {f'{_time(rest)}, {workers} at a time' if rest.work else 'an unknown time'}.")
    if unlike:
        reasons = f"Unknown is the time of runs {', and '.join(sorted(unlike))}"
        lines.append(f"{reasons}; once one of a kind has finished here, the plan has its time.")
    return "\n".join(lines)


def _failures(rows: Sequence[JobRow]) -> list[str]:
    failed = [row for row in rows if row.message]
    lines = [f"{row.state:9}{short(row.job.id)}: {row.message}" for row in failed]
    return ["", *lines] if lines else []


def _tally(states: Mapping[str, State]) -> str:
    counts = {state: list(states.values()).count(state) for state in STYLES}
    parts = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    return f"{len(states)} run{'s' if len(states) != 1 else ''}: {parts}"


def _time(rest: TimeEstimate) -> str:
    return f"about {clock(rest.wall)}{f' (without {rest.unknown} runs of unknown length)' if rest.unknown else ''}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"
