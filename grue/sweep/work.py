"""A worker's job: train and evaluate a run unless it is finished, and return the outcome.

Training and evaluation skip a finished run and resume an interrupted one, so a job may be started any number of
times.
"""

import contextlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from grue.errors import DataError, GrueError
from grue.sweep.grid import GridEntry
from grue.sweep.jobs import Job, stages_of
from grue.sweep.schedule import Outcome

# Characters of a message, which passes a pipe in one piece and is shown in a table; the log has all of it.
MESSAGE_LENGTH = 1000
# ru_maxrss is in KiB on Linux, elsewhere in bytes.
MAXRSS_UNIT = 1024 if sys.platform.startswith("linux") else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The folders and resources of a job.

    Attributes:
        runs: Folder of all runs; on a cluster every node sees it under this path.
        threads: CPU threads of torch; 0 leaves torch its own choice.
    """

    runs: Path
    data_dir: Path | None = None
    offline: bool = False
    threads: int = 1


def redirect_output(log: Path) -> None:
    """Append the output of this process to a file from here on; a DataError if it cannot be written."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
    except OSError as error:
        raise DataError(f"{log}: cannot be written: {error.strerror}.") from error


def carry_out(job: Job, place: JobContext, stop: Callable[[], bool] = lambda: False) -> Outcome:
    """Run a job and return its outcome; raises only what ends the process.

    Args:
        stop: Polled; once it returns true, or on SIGTERM, the job saves its progress and ends.
    """
    import torch

    if place.threads:
        torch.set_num_threads(place.threads)
    seconds: dict[str, float] = {}
    with _stop_on_term() as received:
        try:
            _do(job, place, lambda: bool(received) or stop(), seconds)
            state, message = "finished", None
        except GrueError as error:
            from grue.runs.train import Interrupted

            state, message = ("stopped" if isinstance(error, Interrupted) else "failed"), str(error)
            print(error, file=sys.stderr)
        except Exception as error:  # a bug, or a full disk: the log has the traceback, other jobs continue
            traceback.print_exc()
            state, message = "crashed", f"{type(error).__name__}: {error}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT
    message = message and message[:MESSAGE_LENGTH]
    return Outcome(state=state, message=message, seconds=seconds, peak_memory=peak)  # type: ignore[arg-type]


def _do(job: Job, place: JobContext, stop: Callable[[], bool], seconds: dict[str, float]) -> None:
    from grue.evaluation import systems
    from grue.evaluation.best_of import choose_best_of
    from grue.evaluation.evaluate import evaluate
    from grue.lm.checkpoint import find_checkpoint
    from grue.runs.observers import Observers
    from grue.runs.train import Interrupted
    from grue.task_files import load_task

    task = load_task(job.source, job.suite)
    folder = place.runs / job.id
    if job.trains:
        from grue.runs.train import train

        stages = stages_of(job, task, place.runs, place.data_dir, place.offline)
        with _timed(seconds, "train"):
            checkpoint = train(stages[-1], Observers([]), stop)
    if not job.evaluate:
        return
    with _timed(seconds, "evaluate"):
        if job.trains:
            system = systems.checkpoint_system(task, checkpoint)
        elif isinstance(entry := job.entry, GridEntry) and entry.best_of is not None:
            assert job.after is not None
            drawn = systems.checkpoint_system(task, find_checkpoint(place.runs / job.after))
            system = systems.with_best_of(drawn, choose_best_of(task, entry.best_of), task)
        elif isinstance(entry, GridEntry):
            system = systems.baseline_system(task, entry.algorithm, job.seed)
        else:
            system = systems.external_system(
                task, entry.model, job.seed, chat=entry.chat, endpoint=entry.endpoint, name=job.system
            )

        def on_progress(done: int, total: int) -> None:
            if done < total and stop():
                raise Interrupted(f"{folder}: stopped during evaluation; the answers so far are kept.")

        evaluate(
            task,
            system,
            folder,
            data_dir=place.data_dir,
            offline=place.offline,
            progress=on_progress,
            warn=lambda message: print(message, file=sys.stderr),
        )


@contextlib.contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        seconds[stage] = round(time.monotonic() - started, 3)


@contextlib.contextmanager
def _stop_on_term() -> Iterator[list[int]]:
    """Collect SIGTERM, by which the sweep stops a job; the sweep itself handles Ctrl-C."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
